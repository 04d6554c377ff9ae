//! What texts tell of a change of a file: what it would lose, and whether it takes a name for its value.

use std::collections::BTreeSet;

/// Words of a file that a write may drop. So short a text is one value, and a new value replaces it.
const FEW_WORDS: usize = 3;
/// Bytes of a text at most whose lines are looked for one by one.
const LONGEST: usize = 16_384;
/// Letters and digits of lines at least that are repeated by mistake: fewer are a bracket, or the like.
const LEAST_REPEATED: usize = 8;
/// Lines in front of a piece that may tell it from others.
const MOST_IN_FRONT: usize = 8;
/// Lines behind an old text that are looked at.
const MOST_REPEATED: usize = 64;

/// Whether `new` keeps at least a quarter of the words of `old`.
pub(super) fn keeps(old: &str, new: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let new: BTreeSet<String> = words(new).into_iter().collect();
    let old = words(old);
    let kept = old.iter().filter(|word| new.contains(*word)).count();
    old.len() <= FEW_WORDS || kept * 4 >= old.len()
}

/// The line of a value, where an edit would put a value in the place of its name.
pub(super) fn value_named<'t>(text: &'t str, old: &str, new: &str) -> Option<&'t str> {
    let gives_value = is_literal(new) || line_named(new, old).is_some();
    line_named(text, old).filter(|_| gives_value)
}

/// The old text with the lines behind it that the new text ends with: behind an edit they would stand there twice.
pub(super) fn with_what_follows<'t>(text: &'t str, old: &str, new: &str) -> Option<&'t str> {
    let start = text.find(old)?;
    let rest = text.get(start + old.len()..)?;
    let ends = rest.match_indices('\n').map(|(at, _)| at).chain([rest.len()]).take(MOST_REPEATED);
    let repeated = ends.filter_map(|end| rest.get(..end)).filter(|lines| {
        !lines.ends_with('\n')
            && lines.chars().filter(|c| c.is_alphanumeric()).count() >= LEAST_REPEATED
            && new.trim_end().ends_with(lines.trim_end())
    });
    let end = start + old.len() + repeated.last()?.len();
    let has_end = new.ends_with('\n') && text.get(end..)?.starts_with('\n');
    text.get(start..end + usize::from(has_end))
}

/// What an edit may replace where the old text that was wanted is not there once: each line that has it; if none does, each line.
/// With each go as many lines in front as tell it from the others. None for a text that is too long to look at each.
pub(super) fn told_apart<'t>(text: &'t str, wanted: &str) -> Vec<&'t str> {
    if text.len() > LONGEST {
        return Vec::new();
    }
    let starts = [0].into_iter().chain(text.match_indices('\n').map(|(at, _)| at + 1));
    let all: Vec<(usize, &str)> =
        starts.zip(text.lines()).filter(|(_, line)| line.contains(char::is_alphanumeric)).collect();
    let has_it = |(_, line): &(usize, &str)| line.contains(wanted.trim());
    let some_has_it = all.iter().any(has_it);
    let lines = all.into_iter().filter(|line| !some_has_it || has_it(line));
    let piece = |(start, line): (usize, &str)| {
        let indent = line.len() - line.trim_start().len();
        with_lines_in_front(text, start + indent, start + line.trim_end().len())
    };
    lines.filter_map(piece).collect()
}

/// The piece of a text from `start` to `end`, with the fewest lines in front of it with which it occurs once.
fn with_lines_in_front(text: &str, start: usize, end: usize) -> Option<&str> {
    let lines = text.get(..start)?.match_indices('\n').rev().map(|(at, _)| at + 1).chain([0]);
    let starts = [start].into_iter().chain(lines).take(MOST_IN_FRONT);
    let mut pieces = starts.filter_map(|start| text.get(start..end)).map(str::trim_start);
    pieces.find(|piece| text.matches(piece).nth(1).is_none())
}

/// The line that gives the name `name` a value: `LIMIT = 3`, `"limit": 3`.
fn line_named<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    let lines = text.lines().map(str::trim).filter(|_| is_name);
    lines.into_iter().find(|line| {
        let rest = line.trim_start_matches(['"', '\'']).strip_prefix(name);
        let rest = rest.map(|rest| rest.trim_start_matches(['"', '\'']).trim_start());
        rest.and_then(|rest| rest.strip_prefix(['=', ':'])).is_some_and(|value| !value.trim().is_empty())
    })
}

/// Whether a text is a literal of a program: a number, a truth value, or a quoted text.
fn is_literal(text: &str) -> bool {
    let text = text.trim();
    let is_quoted =
        ['"', '\''].iter().any(|&quote| text.len() > 1 && text.starts_with(quote) && text.ends_with(quote));
    is_quoted || text.parse::<f64>().is_ok() || ["true", "false", "null"].contains(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_keeps_a_file_of_which_it_has_a_quarter() {
        let old = "fn stop() {\n    flush();\n    close();\n}\n";
        assert!(
            keeps(old, "// Ends it.\nfn stop() {\n    flush();\n    close();\n}\n")
                && keeps(old, "fn stop() {}")
        );
        assert!(!keeps(old, "// Ends it.") && !keeps(old, ""));
        assert!(keeps("", "new") && keeps("port: 80", "9000"), "there is nothing, or one value, to lose");
    }

    #[test]
    fn lines_that_would_stand_twice_are_part_of_what_is_replaced() {
        let text = "fn a() {\n    first_step();\n}\n\nfn b() {\n    other_step();\n}\n";
        let longer = |old, new| with_what_follows(text, old, new);
        let whole = "first_step();\n}\n\nfn b() {\n    other_step();\n";
        assert_eq!(longer("first_step();", "one();\n}\n\nfn b() {\n    other_step();\n"), Some(whole));
        assert_eq!(longer("fn a() {", "fn c() {\n    first_step();"), Some("fn a() {\n    first_step();"));
        assert_eq!(longer("first_step();", "one();\n}\n"), None, "a bracket may be meant");
        assert_eq!(longer("first_step();", "one();\nother_step();"), None, "that does not follow");
        assert_eq!(longer("nowhere", "first_step();"), None);
    }

    #[test]
    fn pieces_that_occur_more_than_once_are_told_apart_by_the_lines_in_front() {
        let text = "[a]\n  port = 80\n[b]\n  port = 80\n  use = c\n---\n---\n";
        let lines = ["[a]", "[a]\n  port = 80", "[b]", "[b]\n  port = 80", "use = c"];
        assert_eq!(told_apart(text, "port: 80"), lines);
        assert_eq!(told_apart(text, "80"), ["[a]\n  port = 80", "[b]\n  port = 80"]);
        assert_eq!(told_apart("port = 1\nhost = a\nport_b = 2\n", "port"), ["port = 1", "port_b = 2"]);
        for piece in lines {
            assert_eq!(text.matches(piece).count(), 1, "{piece}");
        }
        assert!(told_apart(&"a line\n".repeat(9_000), "b").is_empty());
        let same = "a line\n".repeat(20);
        assert!(told_apart(&same, "b").iter().all(|piece| same.matches(piece).count() == 1));
    }

    #[test]
    fn a_name_is_told_from_its_value() {
        let text = "[net]\nport = 80\n\"size\": 3,\nuse port\nempty =\n";
        assert_eq!(line_named(text, "port"), Some("port = 80"));
        assert_eq!(line_named(text, "size"), Some("\"size\": 3,"));
        for other in ["por", "80", "net", "empty", "port = 80", ""] {
            assert_eq!(line_named(text, other), None, "{other}");
        }
        assert!(
            ["25", "\"a b\"", "true"].into_iter().all(is_literal)
                && !["MB", "a = 1", ""].into_iter().any(is_literal)
        );
    }
}
