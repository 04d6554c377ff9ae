//! What a write would change, for the person who is asked: the lines that go and the lines that come.

/// Lines shown around a change.
const CONTEXT: usize = 2;
/// Lines of a preview; what is longer is cut in the middle, and says so.
const MAX_LINES: usize = 200;

/// The change from `old` to `new` as lines that begin with a space, `-` or `+`.
///
/// What both begin and end with is left out but for a little of it, so that one change is shown as one piece.
pub(super) fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |pairs: usize, a: &dyn Fn(usize) -> bool| (0..pairs).take_while(|i| a(*i)).count();
    let shorter = old.len().min(new.len());
    let head = same(shorter, &|i| old.get(i) == new.get(i));
    let tail = same(shorter - head, &|i| old.iter().rev().nth(i) == new.iter().rev().nth(i));
    let changed = |lines: &[&str], sign: char| -> Vec<String> {
        let end = lines.len() - tail;
        lines.get(head..end).unwrap_or_default().iter().map(|line| format!("{sign}{line}")).collect()
    };
    let around = |from: usize, to: usize| -> Vec<String> {
        old.get(from..to).unwrap_or_default().iter().map(|line| format!(" {line}")).collect()
    };
    let after = old.len() - tail;
    let lines: Vec<String> = [
        around(head.saturating_sub(CONTEXT), head),
        changed(&old, '-'),
        changed(&new, '+'),
        around(after, old.len().min(after + CONTEXT)),
    ]
    .concat();
    if lines.len() <= MAX_LINES {
        return lines.join("\n");
    }
    let (first, last) = (lines.get(..MAX_LINES / 2), lines.get(lines.len() - MAX_LINES / 2..));
    let left_out = format!("… {} lines not shown", lines.len() - MAX_LINES);
    [first.unwrap_or_default().join("\n"), left_out, last.unwrap_or_default().join("\n")].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_a_little_around_it() {
        for (old, new, shown) in [
            ("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nX\ne\nf\n", " b\n c\n-d\n+X\n e\n f"),
            ("", "a\nb\n", "+a\n+b"),
            ("a\n", "", "-a"),
            ("a\na\n", "a\na\na\n", " a\n a\n+a"),
            ("same\n", "same\n", " same"),
        ] {
            assert_eq!(diff(old, new), shown, "{old:?} {new:?}");
        }
        let long = "x\n".repeat(1000);
        let shown = diff("", &long);
        assert!(shown.contains("… 800 lines not shown") && shown.lines().count() == 201, "{shown}");
    }
}
