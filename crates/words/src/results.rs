//! What the built-in tools write in their results beside what was found: read where a run goes on from them.

/// Whether a tool speaks of the result in a line, such as `(no match in 2 files)`.
pub fn is_note(line: &str) -> bool {
    [('(', ')'), ('[', ']')].iter().any(|&(first, last)| line.starts_with(first) && line.ends_with(last))
}

/// The file and the text of a line such as `a/b.txt:3: text`.
pub fn hit(line: &str) -> Option<(&str, &str)> {
    let (file, rest) = line.split_once(':')?;
    let (number, text) = rest.split_once(':')?;
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    let is_file = file.contains(['/', '.']) && !file.contains(char::is_whitespace);
    (is_number && is_file).then_some((file, text))
}

/// The hits of a result that holds nothing else; none where it holds no hit.
pub fn hits(result: &str) -> Option<Vec<(&str, &str)>> {
    let hits: Vec<_> = result.lines().filter(|line| !is_note(line)).map(hit).collect::<Option<_>>()?;
    (!hits.is_empty()).then_some(hits)
}

/// Whether the hits of a search hold only a part of what was looked for.
pub fn is_partial(result: &str) -> bool {
    result.lines().any(|line| is_note(line) && line.starts_with("[no line holds this text"))
}

/// Whether a search found nothing.
pub fn is_no_match(result: &str) -> bool {
    result.lines().next().is_some_and(|line| is_note(line) && line.starts_with("(no match in "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_read_past_what_the_tool_says_of_them() {
        let found = "a/b.txt:3: x: y\nc.md:10: z\n[no line holds this text; these hold some of its words]";
        assert_eq!(hits(found), Some(vec![("a/b.txt", " x: y"), ("c.md", " z")]));
        assert!(is_partial(found) && !is_no_match(found));
        for result in ["(no match in 2 files)", "", "a.txt\nb.txt", "12:30: noon", "a b.c:3: x"] {
            assert_eq!(hits(result), None, "{result}");
        }
        assert!(
            is_no_match("(no match in 2 files)\n[files there: a.txt]")
                && !is_partial("(no match in 2 files)")
        );
    }
}
