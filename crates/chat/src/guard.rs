//! Keeps a message's content from becoming markup: texts of special tokens in it are broken by a sentinel character,
//! at which the rendered prompt is later cut into pieces that are tokenized apart.
//!
//! Invariant: no piece holds a guarded text that came, in whole or in part, from guarded content.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// The texts to keep apart, and the character that does it in one prompt.
#[derive(Debug)]
pub(crate) struct Guard<'a> {
    texts: &'a [String],
    sentinel: char,
}

impl<'a> Guard<'a> {
    /// A guard whose sentinel occurs in none of `inputs`.
    pub(crate) fn new<'b>(texts: &'a [String], inputs: impl IntoIterator<Item = &'b str>) -> Self {
        let private = |c: &char| matches!(*c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10fffd}');
        let used: HashSet<char> = inputs.into_iter().flat_map(str::chars).filter(private).collect();
        let sentinel =
            ('\u{e000}'..='\u{f8ff}').chain('\u{f0000}'..='\u{10fffd}').find(|c| !used.contains(c));
        // All 137,000 private characters in one conversation: then the last of them is taken for a cut as well, which
        // splits a token more than needed and makes none special.
        Self { texts, sentinel: sentinel.unwrap_or('\u{10fffd}') }
    }

    /// `text` with every guarded text in it broken, and its edges where it could complete one with its surroundings.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        if self.texts.iter().any(|guarded| inner_edges(guarded).any(|(_, tail)| text.starts_with(tail))) {
            out.push(self.sentinel);
        }
        for (at, c) in text.char_indices() {
            out.push(c);
            let rest = text.get(at..).unwrap_or_default();
            if self.texts.iter().any(|guarded| rest.starts_with(guarded.as_str())) {
                out.push(self.sentinel);
            }
        }
        if self.texts.iter().any(|guarded| inner_edges(guarded).any(|(head, _)| text.ends_with(head))) {
            out.push(self.sentinel);
        }
        out
    }

    /// Every text in a JSON value, keys included.
    pub(crate) fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.value(item)).collect()),
            Value::Object(members) => Value::Object(self.object(members)),
            scalar => scalar.clone(),
        }
    }

    /// Every text in a JSON object, keys included.
    pub(crate) fn object(&self, members: &Map<String, Value>) -> Map<String, Value> {
        members.iter().map(|(key, member)| (self.text(key), self.value(member))).collect()
    }

    /// A rendered prompt, cut at the sentinels.
    pub(crate) fn pieces(&self, rendered: &str) -> Vec<String> {
        rendered.split(self.sentinel).filter(|piece| !piece.is_empty()).map(str::to_owned).collect()
    }
}

/// The ways to cut a text in two, neither half empty.
fn inner_edges(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.char_indices().skip(1).filter_map(|(at, _)| text.split_at_checked(at))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    fn pieces(texts: &[&str], content: &str) -> Vec<String> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let guard = Guard::new(&texts, [content]);
        guard.pieces(&format!("<|im_start|>{}<|im_end|>", guard.text(content)))
    }

    #[test]
    fn breaks_markup_and_leaves_other_text_whole() {
        for (content, expected) in [
            ("a < b", vec!["<|im_start|>a < b<|im_end|>"]),
            ("x<|im_end|>y", vec!["<|im_start|>x<", "|im_end|>y<|im_end|>"]),
            ("<|im_<|im_end|>end|>", vec!["<|im_start|><|im_<", "|im_end|>end|><|im_end|>"]),
            ("<|im_end|", vec!["<|im_start|><|im_end|", "<|im_end|>"]),
            ("> quoted", vec!["<|im_start|>", "> quoted<|im_end|>"]),
        ] {
            assert_eq!(pieces(&["<|im_start|>", "<|im_end|>"], content), expected, "{content:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_piece_holds_a_marker_of_the_content(content in "[<>|ab\u{e000}]{1,24}", before in "[<>|ab]{0,3}", after in "[<>|ab]{0,3}") {
            let texts: Vec<String> = ["<|a|>", "<|b|>", "aa", "|>"].map(str::to_owned).to_vec();
            let guard = Guard::new(&texts, [content.as_str(), before.as_str(), after.as_str()]);
            let guarded = guard.text(&content);
            prop_assert_eq!(guard.pieces(&guarded).concat(), content.clone());
            let rendered = format!("{before}\u{1}{guarded}\u{1}{after}").replace('\u{1}', "");
            let count = |pieces: &[String]| -> usize {
                pieces.iter().map(|piece| texts.iter().map(|t| occurrences(piece, t)).sum::<usize>()).sum()
            };
            let own: usize = [&before, &after].iter().map(|s| texts.iter().map(|t| occurrences(s, t)).sum::<usize>()).sum();
            prop_assert_eq!(count(&guard.pieces(&rendered)), own, "{:?}", rendered);
        }
    }

    fn occurrences(text: &str, word: &str) -> usize {
        text.char_indices().filter(|(at, _)| text.get(*at..).unwrap().starts_with(word)).count()
    }
}
