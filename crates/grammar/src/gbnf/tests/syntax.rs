//! What each piece of the notation is read as.

use crate::gbnf::{CharClass, Expr, Grammar, ParseOptions, RuleId, TokenMatch, TokenName};
use crate::{Kind, Limits};

/// The body of `root` in a text that has only that rule.
fn body(text: &str) -> Expr {
    let grammar = Grammar::parse(text).unwrap_or_else(|error| panic!("{text}\n{}", error.report()));
    grammar.rule(grammar.root()).unwrap().body.clone()
}

fn check(cases: &[(&str, Expr)]) {
    for (text, expected) in cases {
        assert_eq!(&body(&format!("root ::= {text}")), expected, "{text}");
    }
}

fn lit(text: &str) -> Expr {
    Expr::literal(text)
}

fn class(negated: bool, ranges: &[(u32, u32)]) -> Expr {
    Expr::Class(CharClass { negated, ranges: ranges.to_vec() })
}

fn token(negated: bool, name: TokenName) -> Expr {
    Expr::Token(TokenMatch { negated, name })
}

#[test]
fn literals_and_their_escapes() {
    check(&[
        (r#""abc""#, lit("abc")),
        (r#""a\"b\\c""#, lit("a\"b\\c")),
        (r#""\t\r\n\[\]\-""#, lit("\t\r\n[]-")),
        (r#""\x41\u00e9\U0001F600""#, lit("Aé😀")),
        ("\"raw\nbreak\"", lit("raw\nbreak")),
        ("\"日本\"", lit("日本")),
        (r#""""#, Expr::empty()),
    ]);
}

#[test]
fn classes_with_ranges_escapes_and_edge_dashes() {
    let c = |c: char| (u32::from(c), u32::from(c));
    check(&[
        ("[a-z_]", class(false, &[(0x61, 0x7A), c('_')])),
        ("[^\"\\\\\\x7F\\x00-\\x1F]", class(true, &[c('"'), c('\\'), (0x7F, 0x7F), (0, 0x1F)])),
        ("[a-]", class(false, &[c('a'), c('-')])),
        ("[-a]", class(false, &[c('-'), c('a')])),
        ("[+--]", class(false, &[(0x2B, 0x2D)])),
        ("[\\[-\\]]", class(false, &[(0x5B, 0x5D)])),
        ("[a^]", class(false, &[c('a'), c('^')])),
        ("[^^]", class(true, &[c('^')])),
        ("[ぁ-ゟ]", class(false, &[(0x3041, 0x309F)])),
        ("[\\uD800-\\uDFFF]", class(false, &[(0xD800, 0xDFFF)])),
        (".", Expr::Any),
    ]);
}

#[test]
fn empty_classes_are_the_empty_text_as_in_llama_cpp() {
    check(&[("[]", Expr::empty()), ("[^] \"a\"", lit("a"))]);
}

#[test]
fn quantifiers() {
    let a = || lit("a");
    check(&[
        ("\"a\"*", a().repeat(0, None)),
        ("\"a\" +", a().repeat(1, None)),
        ("\"a\"?", a().optional()),
        ("\"a\"{3}", a().repeat(3, Some(3))),
        ("\"a\"{3,}", a().repeat(3, None)),
        ("\"a\" { 3 , 5 }", a().repeat(3, Some(5))),
        ("\"a\"{0}", a().repeat(0, Some(0))),
        ("\"a\"{0,5000}", a().repeat(0, Some(5000))),
        ("\"a\"*?", a().repeat(0, None).optional()),
        ("\"ab\"*", lit("ab").repeat(0, None)),
        ("()*", Expr::empty().repeat(0, None)),
        ("(\"a\" \"b\")+", Expr::sequence([a(), lit("b")]).repeat(1, None)),
        ("\"a\" (\"b\" | \"c\")+", Expr::sequence([a(), Expr::choice([lit("b"), lit("c")]).repeat(1, None)])),
        ("\"a\" \"b\"+", Expr::sequence([a(), lit("b").repeat(1, None)])),
        ("(\"a\"\n{2,\n3})", a().repeat(2, Some(3))),
    ]);
}

#[test]
fn groups_flatten_to_the_normal_form_of_the_constructors() {
    let (a, b, c) = (|| lit("a"), || lit("b"), || lit("c"));
    check(&[
        ("((\"a\"))", a()),
        ("(\"a\" (\"b\") ) \"c\"", Expr::sequence([a(), b(), c()])),
        ("(\"a\" | (\"b\" | \"c\"))", Expr::choice([a(), b(), c()])),
        ("((\"a\" | \"b\") | \"c\")", Expr::choice([a(), b(), c()])),
        ("(\"a\" | \"b\") \"c\"", Expr::sequence([Expr::choice([a(), b()]), c()])),
        ("(\"a\" | \"b\") \"\" | \"c\"", Expr::choice([a(), b(), c()])),
        ("(\"a\" | \"b\") () | \"c\"", Expr::choice([a(), b(), c()])),
        ("\"a\" | () | \"b\"", Expr::choice([a(), Expr::empty(), b()])),
        ("| \"a\"", Expr::choice([Expr::empty(), a()])),
        ("\"a\" |", Expr::choice([a(), Expr::empty()])),
        ("|", Expr::choice([Expr::empty(), Expr::empty()])),
        ("", Expr::empty()),
        ("()", Expr::empty()),
    ]);
}

#[test]
fn token_terminals() {
    check(&[
        ("<[123]>", token(false, TokenName::Id(123))),
        ("!<[0]>*", token(true, TokenName::Id(0)).repeat(0, None)),
        ("<think>", token(false, TokenName::Text("<think>".to_owned()))),
        ("!</think>", token(true, TokenName::Text("</think>".to_owned()))),
        ("<|im_end|>", token(false, TokenName::Text("<|im_end|>".to_owned()))),
        ("<\"[TOOL_CALLS]\">", token(false, TokenName::Text("[TOOL_CALLS]".to_owned()))),
    ]);
}

#[test]
fn line_breaks_are_free_after_the_sign_after_a_bar_and_in_parentheses() {
    let expected = Expr::choice([lit("a"), Expr::sequence([lit("b"), lit("c")])]);
    for text in [
        "root ::= \"a\" | \"b\" \"c\"",
        "root ::=\n\n  \"a\" |\n  \"b\" \"c\"\n",
        "root ::=\r\n\"a\" | # first\r\n\"b\" \"c\" # second\r\n",
        "root ::= (\n\"a\"\n|\n\"b\"\n\"c\"\n)\n",
        "# before\n\n root::=\"a\"|\"b\"\"c\"\r# after",
        "\u{FEFF}root ::= \"a\" | (\"b\"\r\r\"c\")",
    ] {
        assert_eq!(body(text), expected, "{text}");
    }
}

#[test]
fn rules_keep_the_order_of_their_definitions_whatever_is_mentioned_first() {
    let grammar = Grammar::parse("root ::= c b_1\nb_1 ::= \"b\"\nc ::= b_1 2x\n2x ::= \"2\"").unwrap();
    let names: Vec<&str> = grammar.rules().iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names, ["root", "b_1", "c", "2x"]);
    let references = |ids: [u32; 2]| Expr::sequence(ids.map(|id| Expr::Rule(RuleId(id))));
    assert_eq!(grammar.rules()[0].body, references([2, 1]));
    assert_eq!(grammar.rules()[2].body, references([1, 3]));
}

#[test]
fn the_root_is_chosen_by_name() {
    let text = "start ::= \"a\"\nroot ::= \"b\"\n";
    let with = |root: &str| {
        let options = ParseOptions { root: root.to_owned(), ..ParseOptions::default() };
        Grammar::parse_with(text, &options)
    };
    assert_eq!(with("start").unwrap().root(), RuleId(0));
    assert_eq!(Grammar::parse(text).unwrap().root(), RuleId(1));
    assert_eq!(with("other").unwrap_err().kind(), Kind::Undefined);
}

#[test]
fn nesting_is_bounded_and_just_below_the_bound_is_fine() {
    let nested =
        |open: &str, close: &str, n: usize| format!("root ::= {}\"a\"{}", open.repeat(n), close.repeat(n));
    for (open, close) in [("(", ")"), ("", "*"), ("(", ")?"), ("(\"x\" | ", ")"), ("(\"x\" ", ")+")] {
        let kind = |n: usize| Grammar::parse(&nested(open, close, n)).map_err(|error| error.kind());
        assert!(kind(100).is_ok(), "100 × {open}…{close}");
        assert_eq!(kind(100_000).unwrap_err(), Kind::Limit, "100,000 × {open}…{close}");
    }
    assert!(Grammar::parse(&nested("(", ")", 255)).is_ok());
    assert_eq!(Grammar::parse(&"(".repeat(100_000)).unwrap_err().kind(), Kind::Syntax);
}

#[test]
fn sizes_are_bounded() {
    let parse = |limits: Limits| {
        let options = ParseOptions { limits, ..ParseOptions::default() };
        Grammar::parse_with("root ::= a\na ::= \"a\"\n", &options).map_err(|error| error.kind())
    };
    assert!(parse(Limits { rules: 2, source_bytes: 21, ..Limits::default() }).is_ok());
    assert_eq!(parse(Limits { rules: 1, ..Limits::default() }).unwrap_err(), Kind::Limit);
    assert_eq!(parse(Limits { source_bytes: 20, ..Limits::default() }).unwrap_err(), Kind::Limit);
}

#[test]
fn megabytes_of_any_shape_are_read_in_linear_time() {
    let size = 2 << 20;
    let fill = |unit: &str| format!("a ::= \"a\"\nroot ::= {}", unit.repeat(size / unit.len()));
    let chunk = size / 250 / 4;
    let nest = |open: &str, close: &str| {
        let levels = 250;
        format!("a ::= \"a\"\nroot ::= {}\"x\"{}", open.repeat(levels), close.repeat(levels))
    };
    let shapes = [
        fill("\"a\" "),
        fill("a|"),
        fill("(a)"),
        fill("[a-z]"),
        fill("# comment "),
        format!("root ::= \"{}\"", "x".repeat(size)),
        nest(&format!("({}", "a ".repeat(chunk)), ")"),
        nest(&format!("({}", "a|".repeat(chunk)), ")"),
        nest(&format!("(({}a) () | ", "a|".repeat(chunk)), ")"),
        nest(&format!("({}(", "a|".repeat(chunk)), ") ())"),
    ];
    for text in shapes {
        let start = std::time::Instant::now();
        let outcome = Grammar::parse(&text).map(|grammar| grammar.rules().len());
        let seconds = start.elapsed().as_secs_f64();
        let shape = &text[..40];
        assert!(!matches!(&outcome, Err(error) if error.kind() != Kind::Limit), "{shape}: {outcome:?}");
        // A second on an idle machine in release; this bound only has to tell linear from quadratic.
        assert!(seconds < 20.0, "{shape}: {seconds} s");
    }
}
