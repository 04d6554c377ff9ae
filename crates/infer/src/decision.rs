//! The decision between call and answer, from the distribution before the turn's first token. Knows texts and tokens, no
//! formats.
//!
//! Small models often *want* to call in a dialect of their own. The summed probability of every known opening, in any
//! dialect, shows that far better than the single likeliest token. It comes from logits without a mask.

use serde::{Deserialize, Serialize};
use toolgate_grammar::{TokenId, Vocabulary};

use crate::openings::Openings;

/// How many of the likeliest tokens a decision reports.
const TOP: usize = 5;

impl Openings {
    /// Decides between call and answer on the logits before a turn's first token.
    pub fn decide(&self, logits: &[f32], vocabulary: &Vocabulary, threshold: f64) -> TurnDecision {
        let p_call = opening_mass(logits, self);
        let undecided = mass(logits, self.ambiguous());
        TurnDecision { p_call, undecided, threshold, call: p_call >= threshold, top: top(logits, vocabulary) }
    }
}

/// Whether a turn becomes a call, and the numbers that say why.
///
/// ```
/// use toolgate_infer::{Openings, TokenKind, Vocabulary};
///
/// let vocabulary = Vocabulary::new(["<", "{", "I"].map(|text| (text.into(), TokenKind::Text)))?;
/// let openings = Openings::new(&vocabulary, &["<tool_call>", "{\"name\""]);
/// let logits = [0.3_f32, 0.3, 0.4].map(f32::ln);
/// let decision = openings.decide(&logits, &vocabulary, 0.5);
/// assert_eq!(decision.top.first().map(|(text, _)| text.as_str()), Some("I"));
/// assert!(decision.call, "an answer has the likeliest token, and a call is the likelier turn");
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnDecision {
    /// Probability that the model opens a call, in any dialect.
    pub p_call: f64,
    /// Probability of beginnings that calls share with something else ([`Openings::ambiguous`]): part of neither.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub undecided: f64,
    /// The probability from which on the turn is a call.
    pub threshold: f64,
    /// Whether the turn is a call.
    pub call: bool,
    /// The likeliest first tokens and their probability, likeliest first.
    pub top: Vec<(String, f64)>,
}

/// The softmax probability of the tokens in `openings`, from logits without any mask.
///
/// ```
/// use toolgate_infer::{Openings, TokenKind, Vocabulary, opening_mass};
///
/// let vocabulary = Vocabulary::new(["<", "{", "I"].map(|text| (text.into(), TokenKind::Text)))?;
/// let openings = Openings::new(&vocabulary, &["<tool_call>", "{\"name\""]);
/// let logits = [0.25_f32, 0.35, 0.4].map(f32::ln);
/// assert!((opening_mass(&logits, &openings) - 0.6).abs() < 1e-6);
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
pub fn opening_mass(logits: &[f32], openings: &Openings) -> f64 {
    mass(logits, openings.tokens())
}

fn mass(logits: &[f32], tokens: &[TokenId]) -> f64 {
    let (best, total) = normalizer(logits);
    if total == 0.0 {
        return 0.0;
    }
    let logit = |&token: &TokenId| logits.get(token as usize).copied();
    tokens.iter().filter_map(logit).map(|logit| weight(logit, best)).sum::<f64>() / total
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

/// The logarithm of the softmax probability of each of these tokens, from logits without any mask.
///
/// ```
/// use toolgate_infer::log_probabilities;
/// let logits = [0.25_f32, 0.75].map(f32::ln);
/// let found = log_probabilities(&logits, &[1, 9]);
/// assert!((found[0].exp() - 0.75).abs() < 1e-6);
/// assert_eq!(found[1], f64::NEG_INFINITY, "there is no such token");
/// ```
pub fn log_probabilities(logits: &[f32], tokens: &[TokenId]) -> Vec<f64> {
    let (best, total) = normalizer(logits);
    let total = f64::from(best) + total.ln();
    let finite = |&token: &TokenId| logits.get(token as usize).copied().filter(|logit| logit.is_finite());
    tokens
        .iter()
        .map(|token| finite(token).map_or(f64::NEG_INFINITY, |logit| f64::from(logit) - total))
        .collect()
}

fn top(logits: &[f32], vocabulary: &Vocabulary) -> Vec<(String, f64)> {
    let (best, total) = normalizer(logits);
    let mut top: Vec<(f32, TokenId)> = Vec::with_capacity(TOP + 1);
    for (&logit, token) in logits.iter().zip(0_u32..) {
        if logit.is_finite() {
            let at = top.partition_point(|&(other, _)| other >= logit);
            if at < TOP {
                top.insert(at, (logit, token));
                top.truncate(TOP);
            }
        }
    }
    let text = |token| String::from_utf8_lossy(vocabulary.bytes(token)).into_owned();
    top.into_iter().map(|(logit, token)| (text(token), weight(logit, best) / total)).collect()
}

/// The greatest logit, and the sum of all weights relative to it; 0 where no logit is finite.
fn normalizer(logits: &[f32]) -> (f32, f64) {
    let best = logits.iter().copied().filter(|logit| logit.is_finite()).fold(f32::NEG_INFINITY, f32::max);
    (best, logits.iter().map(|&logit| weight(logit, best)).sum())
}

fn weight(logit: f32, best: f32) -> f64 {
    if logit.is_finite() { f64::from(logit - best).exp() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use toolgate_grammar::TokenKind;

    use super::*;

    fn vocabulary(tokens: &[(&str, TokenKind)]) -> Vocabulary {
        Vocabulary::new(tokens.iter().map(|&(text, kind)| (text.as_bytes().to_vec(), kind))).unwrap()
    }

    #[test]
    fn mass_is_summed_over_dialects_against_the_threshold() {
        use TokenKind::Text;
        let vocabulary = vocabulary(&[("<", Text), ("{", Text), ("To", Text), ("no", Text)]);
        let openings = Openings::new(&vocabulary, &["<tool_call>", "{\"name\""]);
        // Probabilities 0.3, 0.25, 0.4 and 0.05: prose is the likeliest token, a call the likelier turn.
        let logits = [0.3_f32.ln(), 0.25_f32.ln(), 0.4_f32.ln(), 0.05_f32.ln()];
        let decision = openings.decide(&logits, &vocabulary, 0.5);
        assert!((decision.p_call - 0.55).abs() < 1e-6 && decision.call, "{decision:?}");
        assert_eq!(decision.top[0].0, "To");
        assert!((decision.top[0].1 - 0.4).abs() < 1e-6);
        assert!(!openings.decide(&logits, &vocabulary, 0.6).call, "just above its mass it is an answer");
    }

    #[test]
    fn logarithms_are_those_of_the_softmax() {
        let logits = [0.25_f32.ln() + 7.0, f32::NEG_INFINITY, 0.75_f32.ln() + 7.0];
        let found = log_probabilities(&logits, &[2, 0, 1, 9]);
        assert!(
            (found[0] - 0.75_f64.ln()).abs() < 1e-6 && (found[1] - 0.25_f64.ln()).abs() < 1e-6,
            "{found:?}"
        );
        assert_eq!(found[2..], [f64::NEG_INFINITY; 2]);
        assert_eq!(log_probabilities(&[f32::NAN], &[0]), [f64::NEG_INFINITY]);
    }

    #[test]
    fn broken_logits_are_no_call() {
        let vocabulary = vocabulary(&[("<", TokenKind::Text)]);
        let openings = Openings::new(&vocabulary, &["<tool_call>"]);
        let decision = openings.decide(&[f32::NAN], &vocabulary, 0.2);
        assert_eq!((decision.p_call, decision.call, decision.top.len()), (0.0, false, 0));
    }
}
