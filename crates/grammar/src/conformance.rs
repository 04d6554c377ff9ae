//! How a schema fares against instances known to be valid or invalid: what the conformance commands and the tests over
//! corpora share. Knows no corpus; the validator for checked keywords is the caller's.
//!
//! Invariant: an instance is shown to the grammar as [`render`] writes it, never as its author did.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::compile::render;
use crate::schema::SchemaOptions;
use crate::{Automaton, Compiled, Error, Kind, Options, Schema, TokenId, Vocabulary, Whitespace, compile};

/// A schema compiled and ready to judge instances.
///
/// ```
/// use std::sync::Arc;
/// use serde_json::json;
/// use toolgate_grammar::{Options, Vocabulary, conformance::Trial, schema::SchemaOptions};
/// let vocabulary = Arc::new(Vocabulary::bytes_only());
/// let (made, _time) =
///     Trial::new(&json!({"type": "integer"}), &SchemaOptions::default(), &Options::default(), vocabulary);
/// let trial = made?;
/// assert_eq!(trial.refusal(&trial.text(&json!(12.0))), None);
/// assert_eq!(trial.refusal("12x").as_deref(), Some("at byte 2: 12 <!> x"));
/// assert!(trial.compiled().contract.is_complete(), "nothing is left to check");
/// let mut times = Vec::new();
/// trial.masks(&b"12".map(u32::from), &mut times)?;
/// assert_eq!(times.len(), 3, "before each token, and at the end");
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Debug)]
pub struct Trial {
    schema: Schema,
    compiled: Compiled,
    automaton: Arc<Automaton>,
    whitespace: Whitespace,
}

/// What became of one instance.
///
/// ```
/// use toolgate_grammar::conformance::Verdict;
/// assert_eq!(Verdict::ByGrammar.as_str(), "refused by the grammar");
/// assert_eq!(Verdict::ByCheck.as_str(), "refused by a checked keyword");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing refuses it.
    Accepted,
    /// The grammar refuses it, or cannot follow it within its limits.
    ByGrammar,
    /// The grammar lets it pass, and a checked keyword refuses it.
    ByCheck,
}

impl Verdict {
    /// `accepted`, `refused by the grammar` or `refused by a checked keyword`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::ByGrammar => "refused by the grammar",
            Self::ByCheck => "refused by a checked keyword",
        }
    }
}

impl Trial {
    /// Reads and compiles a schema and makes its automaton; also how long that took.
    ///
    /// # Errors
    /// As [`Schema::parse`] and [`compile()`], or a grammar that outgrows the limits of `options`.
    ///
    /// ```
    /// # use toolgate_grammar::conformance::{Trial, Verdict}; use serde_json::json;
    /// # use toolgate_grammar::{Options, Vocabulary}; use std::sync::Arc;
    /// let schema = json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true});
    /// let vocabulary = Arc::new(Vocabulary::bytes_only());
    /// let trial = Trial::new(&schema, &Default::default(), &Options::default(), vocabulary).0?;
    /// let unique = |instance: &serde_json::Value| instance[0] != instance[1];
    /// assert_eq!(trial.judge(&json!([1, 2]), unique).0, Verdict::Accepted);
    /// assert_eq!(trial.judge(&json!([1, "2"]), unique).0, Verdict::ByGrammar);
    /// assert_eq!(trial.judge(&json!([1, 1]), unique).0, Verdict::ByCheck);
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    pub fn new(
        document: &Value,
        reading: &SchemaOptions,
        options: &Options,
        vocabulary: Arc<Vocabulary>,
    ) -> (Result<Self, Error>, Duration) {
        let start = Instant::now();
        let made = Schema::parse_with(document, reading).and_then(|schema| {
            let compiled = compile(&schema, options)?;
            let automaton = Automaton::new(&compiled.grammar, vocabulary, &options.limits)?;
            Ok(Self { schema, compiled, automaton, whitespace: options.whitespace })
        });
        (made, start.elapsed())
    }

    /// The grammar and its contract.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// The instance as the grammar is shown it.
    pub fn text(&self, instance: &Value) -> String {
        render(instance, Some(&self.schema), self.whitespace)
    }

    /// Judges an instance; `valid` is asked only where the grammar accepts and the contract leaves something to
    /// check. Beside the verdict: where the grammar stopped, for a person to read.
    pub fn judge(&self, instance: &Value, valid: impl FnOnce(&Value) -> bool) -> (Verdict, Option<String>) {
        let text = self.text(instance);
        if let Some(why) = self.refusal(&text) {
            return (Verdict::ByGrammar, Some(why));
        }
        let checked = !self.compiled.contract.is_complete() && !valid(instance);
        (if checked { Verdict::ByCheck } else { Verdict::Accepted }, None)
    }

    /// Where and why the grammar does not accept a whole text; none if it does.
    pub fn refusal(&self, text: &str) -> Option<String> {
        let mut matcher = self.automaton.matcher();
        match matcher.accept_bytes(text.as_bytes()) {
            Ok(()) if matcher.is_complete() => None,
            Ok(()) => Some("the text is not complete".to_owned()),
            Err(error) if error.kind() == Kind::Rejected => {
                let offset = match error.place() {
                    Some(crate::Place::Offset(offset)) => *offset,
                    _ => 0,
                };
                let bytes = text.as_bytes();
                let around = |from: usize, to: usize| {
                    String::from_utf8_lossy(bytes.get(from..to.min(bytes.len())).unwrap_or_default())
                };
                let before = around(offset.saturating_sub(60), offset);
                Some(format!("at byte {offset}: {before} <!> {}", around(offset, offset + 30)))
            }
            Err(error) => Some(error.to_string()),
        }
    }

    /// Runs the tokens of a text, computing the whole mask before each and at the end, and tells how long each mask
    /// took; ends early where a token is refused.
    ///
    /// # Errors
    /// [`Kind::Limit`] where the automaton outgrows its limits.
    pub fn masks(&self, tokens: &[TokenId], times: &mut Vec<Duration>) -> Result<(), Error> {
        let mut matcher = self.automaton.matcher();
        for token in tokens.iter().copied().map(Some).chain([None]) {
            let start = Instant::now();
            let mask = matcher.mask()?;
            times.push(start.elapsed());
            match token {
                Some(token) if mask.contains(token) => matcher.accept(token)?,
                _ => break,
            }
        }
        Ok(())
    }
}

/// Mean and shares of a list of durations, in the order `mean`, `p50`, `p90`, `p99`, `max`; sorts the list.
///
/// ```
/// use std::time::Duration;
/// use toolgate_grammar::conformance::shares;
/// let mut times = [9, 1, 2].map(Duration::from_millis);
/// let [mean, p50, .., max] = shares(&mut times);
/// assert_eq!([mean, p50, max], [4, 2, 9].map(Duration::from_millis));
/// ```
pub fn shares(times: &mut [Duration]) -> [Duration; 5] {
    times.sort_unstable();
    let at = |percent: usize| {
        times.get(times.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default()
    };
    let count = u32::try_from(times.len()).unwrap_or(u32::MAX).max(1);
    let mean = times.iter().sum::<Duration>() / count;
    [mean, at(50), at(90), at(99), times.last().copied().unwrap_or_default()]
}
