//! Added tokens that a model was not trained with. Their names are written in tokens of ordinary text.
//!
//! Invariant: no part of a text holds a name. Each part ends where the tokenizer splits words in any case, so the tokens are
//! those of a vocabulary without the added ones.
//!
//! Why: a tokenizer finds added tokens before anything else. The vocabulary of Qwen2.5-Coder has one for `<tool_call>`, which
//! its weights do not know. With that name in ordinary tokens, the model opens calls far more often where one is wanted, and
//! no more often where none is.

use crate::{Error, Kind};

/// Names of such tokens, with the place where each is cut.
///
/// ```
/// use toolgate_infer::Untrained;
/// let marks = Untrained::new(["<tool_call>"])?;
/// assert_eq!(marks.parts("<tool_call>\n{}"), ["<tool", "_call>\n{}"]);
/// assert_eq!(marks.names().collect::<Vec<_>>(), ["<tool_call>"]);
/// // Models that know all their tokens need none.
/// assert!(!marks.is_empty() && Untrained::default().is_empty());
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Untrained(Vec<(String, usize)>);

impl Untrained {
    /// Takes the names.
    ///
    /// # Errors
    /// [`Kind::Options`] for a name in which no word ends before other characters. It could only be cut within a word.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, Error> {
        let cut = |name: String| {
            let missing = || {
                let message = format!("the token {name:?} cannot be written in tokens of ordinary text");
                Error::new(Kind::Options, message)
            };
            let place = word_end(&name).ok_or_else(missing)?;
            Ok((name, place))
        };
        names.into_iter().map(Into::into).map(cut).collect::<Result<_, _>>().map(Self)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The parts of a text that is cut within each name. Each part is tokenized by itself.
    pub fn parts<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let (mut parts, mut rest) = (Vec::new(), text);
        let first = |rest: &str| {
            let places = self.0.iter().filter_map(|(name, cut)| Some(rest.find(name)? + cut));
            places.min()
        };
        while let Some((part, behind)) = first(rest).and_then(|place| rest.split_at_checked(place)) {
            parts.push(part);
            rest = behind;
        }
        parts.push(rest);
        parts
    }
}

/// Where the first word in a name ends, if something follows.
fn word_end(name: &str) -> Option<usize> {
    let behind = name.char_indices().skip(1);
    let mut pairs = name.chars().zip(behind);
    pairs.find(|(before, (_, next))| before.is_alphabetic() && !next.is_alphanumeric()).map(|(_, (at, _))| at)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn texts_are_cut_within_names_and_nowhere_else() {
        let marks = Untrained::new(["<tool_call>", "</tool_call>"]).unwrap();
        for (text, parts) in [
            ("", vec![""]),
            ("no mark, <tool_calls> and <tool", vec!["no mark, <tool_calls> and <tool"]),
            ("<tool_call>\n{}\n</tool_call>", vec!["<tool", "_call>\n{}\n</tool", "_call>"]),
            ("é<tool_call><tool_call>", vec!["é<tool", "_call><tool", "_call>"]),
        ] {
            assert_eq!(marks.parts(text), parts);
            assert_eq!(marks.parts(text).concat(), text);
        }
        assert_eq!(Untrained::default().parts("<tool_call>"), ["<tool_call>"]);
    }

    #[test]
    fn a_name_without_the_end_of_a_word_is_refused() {
        for name in ["", "word", "<>", "123>"] {
            let refused = Untrained::new([name]).unwrap_err();
            assert_eq!(refused.kind(), Kind::Options, "{name}");
        }
    }
}
