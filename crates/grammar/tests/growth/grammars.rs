//! GBNF of one kind each, of any size, with a text to run over it.

/// A grammar of about so many pieces, and a text.
pub(crate) type Make = fn(usize) -> (String, String);

fn joined(n: usize, between: &str, text: impl Fn(usize) -> String) -> String {
    (0..n).map(text).collect::<Vec<_>>().join(between)
}

fn characters(n: usize) -> String {
    (0..n as u32).filter_map(|i| char::from_u32(0x4E00 + 2 * i)).collect()
}

/// Rules that each lead to the next, and what the last one is.
fn chain(n: usize, body: impl Fn(usize) -> String, last: &str) -> String {
    format!("root ::= r0\n{}r{n} ::= {last}\n", joined(n, "", |i| format!("r{i} ::= {}\n", body(i + 1))))
}

/// Name, size and grammar: twice the size takes about twice the work.
pub(crate) fn kinds() -> Vec<(&'static str, usize, Make)> {
    vec![
        ("a chain of rules", 500, |n| (chain(n, |next| format!("\"a\" r{next}"), "\"b\""), "a".repeat(50))),
        ("a chain of rules that read nothing", 500, |n| {
            (chain(n, |next| format!("r{next}"), "\"b\""), "b".into())
        }),
        ("a chain of rules beside a dead end", 500, |n| {
            let starts = joined(n, " | ", |i| format!("\"x{i}\" r{i}"));
            let rules = chain(n, |next| format!("r{next} | dead"), "\"b\"");
            (
                rules.replace("root ::= r0\n", &format!("root ::= {starts}\ndead ::= [b] dead r0\n")),
                "x1b".into(),
            )
        }),
        ("a chain of what may be left out", 200, |n| {
            (chain(n, |next| format!("\"a\"? r{next}"), "\"b\""), "aab".into())
        }),
        ("a chain of rules, each eight times", 6, |n| {
            (chain(n, |next| format!("r{next}{{8}}"), "[ab]"), "ab".into())
        }),
        ("a chain of rules, each up to eight times", 8, |n| {
            (chain(n, |next| format!("r{next}{{0,8}}"), "[ab]"), "ab".into())
        }),
        ("rules that nothing leads to", 500, |n| {
            (format!("root ::= \"a\"\n{}", joined(n, "", |i| format!("r{i} ::= \"a\"\n"))), "a".into())
        }),
        ("literal alternatives", 500, |n| {
            (format!("root ::= {}", joined(n, " | ", |i| format!("\"v{i}\""))), "v1".into())
        }),
        ("literals in one another", 50, |n| {
            (
                format!("root ::= {}", joined(n, " | ", |i| format!("\"{}\" [0-9]", "a".repeat(i)))),
                "aaa1".into(),
            )
        }),
        ("alternatives that begin alike", 200, |n| {
            (format!("root ::= {}", joined(n, " | ", |i| format!("[a-z]* \"{i}\""))), "aaaaaa1".into())
        }),
        ("alternatives of rules", 300, |n| {
            (
                format!(
                    "root ::= {}\n{}",
                    joined(n, " | ", |i| format!("r{i}")),
                    joined(n, "", |i| format!("r{i} ::= \"{i}\" [a-z]* r{i}?\n"))
                ),
                "1aaa".into(),
            )
        }),
        ("options in a row", 200, |n| (format!("root ::= {} \"b\"", "\"a\"? ".repeat(n)), "a".repeat(10))),
        ("stars in a row", 200, |n| (format!("root ::= {} \"b\"", "[a-b]* ".repeat(n)), "a".repeat(10))),
        ("negated classes", 300, |n| {
            (
                format!(
                    "root ::= {}",
                    joined(n, " ", |i| format!("[^{}]", characters(i + 1).chars().last().unwrap_or('a')))
                ),
                "aaa".into(),
            )
        }),
        ("one class of many ranges", 500, |n| (format!("root ::= [{}]+", characters(n)), characters(3))),
        ("a class of many ranges, named often", 300, |n| {
            (
                format!("root ::= {}\nc ::= [{}]\n", "c \"a\" ".repeat(n), characters(n)),
                format!("{}a", characters(1)),
            )
        }),
        ("a class of many ranges, eight times", 300, |n| {
            (format!("root ::= ([{}]{{8}} \"a\")+", characters(n)), characters(1))
        }),
        ("nested groups", 3, |n| {
            (
                format!(
                    "root ::= {}",
                    joined(n, " ", |_| format!("{}[^a]{}", "(\"x\" ".repeat(100), ")?".repeat(100)))
                ),
                "xxx".into(),
            )
        }),
        ("counts", 300, |n| {
            (
                format!(
                    "root ::= {}",
                    joined(n, " ", |i| format!("(\"ab\" [a-z]){{{},{}}}", i % 7, i % 7 + 1_000))
                ),
                "abcabc".into(),
            )
        }),
        ("repetitions of what may be empty", 200, |n| {
            (format!("root ::= {}", "(\"a\"*)* ".repeat(n)), "aaaa".into())
        }),
        ("a long literal and a long text", 500, |n| {
            (format!("root ::= \"{}\"", "a".repeat(10 * n)), "a".repeat(10 * n))
        }),
        ("groups of alternatives", 300, |n| {
            (format!("root ::= {}", joined(n, " | ", |_| "(\"a\" | \"b\") ()".into())), "a".into())
        }),
        ("a deep text", 1_000, |n| {
            ("root ::= \"(\" root \")\" | \"x\"".into(), format!("{}x{}", "(".repeat(n), ")".repeat(n)))
        }),
        ("a deep text that is ambiguous", 1_500, |n| {
            ("root ::= \"(\" root \")\" | \"(\" root \")\" \"\" | \"(\" root | \"x\"".into(), "(".repeat(n))
        }),
    ]
}
