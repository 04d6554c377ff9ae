//! Text as the checker compares it: typography, case and layout are not what a task is about.

use unicode_normalization::UnicodeNormalization;

/// The text in NFKC with straight quotes and hyphens; case and layout kept.
pub(super) fn plain(text: &str) -> String {
    // Before and after: NFKC makes some of these characters, and changes others into something else.
    text.chars().map(straight).nfkc().map(straight).collect()
}

fn straight(c: char) -> char {
    match c {
        '\u{2018}' | '\u{2019}' | '\u{2bc}' => '\'',
        '\u{201c}' | '\u{201d}' => '"',
        '\u{2010}'..='\u{2014}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{202f}' => ' ',
        other => other,
    }
}

/// [`plain`] text without case, emphasis, digit grouping (`72,500` is `72500`) and layout.
pub(super) fn normalized(text: &str) -> String {
    // Up and down again folds case where a letter has two small forms or a capital of two letters.
    let folded: Vec<char> = plain(text)
        .chars()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .filter(|c| !matches!(c, '*' | '`'))
        .collect();
    let mut out = String::with_capacity(folded.len());
    for (i, &c) in folded.iter().enumerate() {
        if c == ',' && groups_digits(&folded, i) {
            continue;
        }
        if !c.is_whitespace() {
            out.push(c);
        } else if !out.ends_with(' ') {
            out.push(' ');
        }
    }
    out.trim().to_owned()
}

/// Whether the comma at `i` stands between a digit and exactly three digits.
fn groups_digits(text: &[char], i: usize) -> bool {
    let before = i.checked_sub(1).and_then(|j| text.get(j)).is_some_and(char::is_ascii_digit);
    before && text.iter().skip(i + 1).take_while(|c| c.is_ascii_digit()).take(4).count() == 3
}

/// Whether `needle` is in `haystack`, both [`normalized`]. One that starts or ends in a digit must not be part of a
/// longer number: `3` is not in `13`, `2.3` or `3.5`, but in `3.0`; `19.9` is in `19.90`.
pub(super) fn contains(haystack: &str, needle: &str) -> bool {
    let (haystack, needle) = (normalized(haystack), normalized(needle));
    let decimal = is_decimal(&needle);
    haystack.char_indices().any(|(at, _)| {
        let (before, rest) = haystack.split_at(at);
        let Some(mut after) = rest.strip_prefix(needle.as_str()) else { return false };
        if decimal {
            after = after.trim_start_matches('0');
        }
        let starts = !needle.starts_with(|c: char| c.is_ascii_digit()) || !ends_in_number(before);
        let ends = !needle.ends_with(|c: char| c.is_ascii_digit()) || !goes_on_as_number(after);
        starts && ends
    })
}

/// Whether the text is digits, a point, digits.
fn is_decimal(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    text.split_once('.').is_some_and(|(whole, fraction)| digits(whole) && digits(fraction))
}

/// Whether a number that follows would be the end of a longer one: after a digit, or a digit with a separator.
fn ends_in_number(before: &str) -> bool {
    let mut back = before.chars().rev();
    match back.next() {
        Some(c) if c.is_ascii_digit() => true,
        Some('.' | ',') => back.next().is_some_and(|c| c.is_ascii_digit()),
        _ => false,
    }
}

/// Whether a number that ends here goes on: with a digit, or with decimals that are not all zero.
fn goes_on_as_number(after: &str) -> bool {
    let mut chars = after.chars();
    match chars.next() {
        Some(c) if c.is_ascii_digit() => true,
        Some('.') => chars.take_while(char::is_ascii_digit).any(|c| c != '0'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_layout_typography_and_digit_groups_do_not_count() {
        assert_eq!(normalized("It\u{2019}s  **72,500**\n`Kg`\u{a0}"), "it's 72500 kg");
        assert_eq!(normalized("Stra\u{df}e"), "strasse");
        assert_eq!(normalized("1,2345 and 1,234"), "1,2345 and 1234");
    }

    #[test]
    fn a_number_is_not_found_inside_a_longer_one() {
        for (haystack, needle, found) in [
            ("there are 13 files", "3", false),
            ("version 2.3", "3", false),
            ("3.5 metres", "3", false),
            ("3.0 metres", "3", true),
            ("it is 3.", "3", true),
            ("EUR 19.90", "19.9", true),
            ("EUR 19.95", "19.9", false),
            ("port 8443", "8443", true),
            ("18443 or 8443", "8443", true),
            ("build-943-rc", "BUILD-943-RC", true),
            ("aab", "ab", true),
        ] {
            assert_eq!(contains(haystack, needle), found, "{needle:?} in {haystack:?}");
        }
    }
}
