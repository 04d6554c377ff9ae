//! The decision between call and answer, from the distribution before the turn's first token. Knows texts and tokens, no
//! formats.
//!
//! Small models often *want* to call in a dialect of their own. The summed probability of every known opening, in any
//! dialect, shows that far better than the single likeliest token. It comes from logits without a mask.

use serde::{Deserialize, Serialize};
use toolgate_grammar::{TokenId, Vocabulary};

use crate::openings::Openings;
use crate::{Backend, Error, Rows, Session};

/// How many of the likeliest tokens a decision reports.
const TOP: usize = 5;

/// The share of the ambiguous beginnings at a position that is followed, the likeliest first. Each costs an evaluation.
const COVERED: f64 = 0.25;
/// The least probability of ambiguous beginnings that are followed to where they part.
const WORTH_FOLLOWING: f64 = 0.05;
/// The most evaluations that a position is worth.
const MOST_FOLLOWED: usize = 24;

/// How likely each kind of opening comes next.
///
/// ```
/// use toolgate_infer::{Openings, OpeningTexts, TokenKind, Vocabulary};
/// let vocabulary = Vocabulary::new(["<", "{", "<th", "I"].map(|text| (text.into(), TokenKind::Text)))?;
/// let texts = OpeningTexts { calls: &["<tool>", "{"], thoughts: &["<think>"], ..OpeningTexts::default() };
/// let mass = Openings::of(&vocabulary, &texts).mass(&[0.1_f32, 0.2, 0.3, 0.4].map(f32::ln));
/// let rounded = [mass.calls, mass.thoughts, mass.undecided].map(|p| (p * 10.0).round());
/// assert_eq!(rounded, [2.0, 3.0, 1.0]);
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OpeningMass {
    /// Of calls.
    pub calls: f64,
    /// Of thoughts.
    pub thoughts: f64,
    /// Of what stands in front of text.
    pub heads: f64,
    /// Of beginnings that two kinds share, or that are not whole yet.
    pub undecided: f64,
}

impl Openings {
    /// Decides between call and answer on the logits before a turn's first token.
    pub fn decide(&self, logits: &[f32], vocabulary: &Vocabulary, threshold: f64) -> TurnDecision {
        let mass = self.mass(logits);
        TurnDecision {
            p_call: mass.calls,
            p_think: mass.thoughts,
            undecided: mass.undecided,
            threshold,
            call: mass.calls >= threshold,
            top: top(logits, vocabulary),
        }
    }

    /// The same before the next token of a session, with what is ambiguous followed to where it parts; and the evaluations that
    /// took. The session is left where it was.
    ///
    /// # Errors
    /// Those of the backend.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_infer::{Openings, OpeningTexts, Session, Vocabulary, scripted::Scripted};
    ///
    /// let vocabulary = Arc::new(Vocabulary::bytes_only());
    /// let texts = OpeningTexts { calls: &["<tool>"], thoughts: &["<think>"], ..OpeningTexts::default() };
    /// let openings = Openings::of(&vocabulary, &texts);
    /// let mut session = Session::new(Scripted::new(vocabulary.clone()).say("<think>Hm."));
    /// session.set_prompt_text("Why?")?;
    /// assert!(openings.decide(session.logits()?, &vocabulary, 0.5).undecided > 0.9, "a call begins with < too");
    /// let (decision, evaluations) = openings.decide_ahead(&mut session, 0.5)?;
    /// assert!(!decision.call && decision.p_think > 0.9);
    /// assert_eq!(evaluations, 2, "behind < and behind t it is known");
    /// # Ok::<(), toolgate_infer::Error>(())
    /// ```
    pub fn decide_ahead<B: Backend>(
        &self,
        session: &mut Session<B>,
        threshold: f64,
    ) -> Result<(TurnDecision, usize), Error> {
        let vocabulary = session.vocabulary().clone();
        let mut decision = self.decide(session.logits()?, &vocabulary, threshold);
        if self.worth_following().is_empty() {
            return Ok((decision, 0));
        }
        let (mass, evaluations) = self.follow(session)?;
        (decision.p_call, decision.p_think, decision.undecided) = (mass.calls, mass.thoughts, mass.undecided);
        decision.call = decision.p_call >= threshold;
        Ok((decision, evaluations))
    }

    /// The probability of each kind of opening, from logits without any mask.
    pub fn mass(&self, logits: &[f32]) -> OpeningMass {
        let (best, total) = normalizer(logits);
        if total == 0.0 {
            return OpeningMass::default();
        }
        let of = |tokens: &[TokenId]| weights(logits, tokens, best) / total;
        OpeningMass {
            calls: of(self.tokens()),
            thoughts: of(self.thoughts()),
            heads: of(self.heads()),
            undecided: of(self.ambiguous()),
        }
    }

    /// The same where openings have at least this share of the probability together. Cheap where they have not: then no exponential
    /// of other tokens is computed.
    pub(crate) fn mass_from(&self, logits: &[f32], least: f64) -> Option<OpeningMass> {
        let best = greatest(logits);
        let parts = [self.tokens(), self.thoughts(), self.heads(), self.worth_following()];
        let sum: f64 = parts.iter().map(|tokens| weights(logits, tokens, best)).sum();
        // The sum of all is at least the weight of the likeliest token, which is 1.
        if sum < least {
            return None;
        }
        let (_, total) = normalizer(logits);
        (sum / total >= least).then(|| self.mass(logits))
    }

    /// The probability of each kind of opening to come next in a session, with what is ambiguous followed to where it parts; and
    /// the evaluations that took. The session is left where it was.
    pub(crate) fn follow<B: Backend>(&self, session: &mut Session<B>) -> Result<(OpeningMass, usize), Error> {
        let mut left = MOST_FOLLOWED;
        let mass = self.followed(session, 1.0, &mut left)?;
        Ok((mass, MOST_FOLLOWED - left))
    }

    fn followed<B: Backend>(
        &self,
        session: &mut Session<B>,
        share: f64,
        left: &mut usize,
    ) -> Result<OpeningMass, Error> {
        let logits = session.logits()?;
        let mut mass = self.mass(logits);
        let vocabulary = session.vocabulary().clone();
        let shares = log_probabilities(logits, self.worth_following()).into_iter().map(f64::exp);
        let mut ambiguous: Vec<(TokenId, f64)> = self.worth_following().iter().copied().zip(shares).collect();
        let total: f64 = ambiguous.iter().map(|(_, p)| p).sum();
        if total * share < WORTH_FOLLOWING {
            return Ok(mass);
        }
        ambiguous.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        session.checkpoint()?;
        let here = session.tokens().to_vec();
        let (mut covered, mut behind) = (0.0, OpeningMass::default());
        for (token, p) in ambiguous {
            if covered >= total * COVERED || *left == 0 || session.room() <= 1 {
                break;
            }
            *left -= 1;
            session.eval_exact(&[token], Rows::Last)?;
            let found = self.after(&vocabulary, token).followed(session, share * p, left)?;
            covered += p;
            behind.calls += p * found.calls;
            behind.thoughts += p * found.thoughts;
            behind.heads += p * found.heads;
            behind.undecided += p * found.undecided;
            session.rewind(&here, Rows::Last)?;
        }
        if covered > 0.0 {
            // The others are mostly the same text in other tokens: they are taken to go on as those that were followed.
            let all = total / covered;
            mass.calls += all * behind.calls;
            mass.thoughts += all * behind.thoughts;
            mass.heads += all * behind.heads;
            mass.undecided -= total - all * behind.undecided;
        }
        mass.undecided = mass.undecided.max(0.0);
        Ok(mass)
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnDecision {
    /// Probability that the model opens a call, in any dialect.
    pub p_call: f64,
    /// Probability that the model begins to think.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub p_think: f64,
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
    openings.mass(logits).calls
}

/// The sum of the weights of some tokens.
fn weights(logits: &[f32], tokens: &[TokenId], best: f32) -> f64 {
    let logit = |&token: &TokenId| logits.get(token as usize).copied();
    tokens.iter().filter_map(logit).map(|logit| weight(logit, best)).sum()
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

/// The greatest logit that is finite. In lanes, so that the compiler can take several at a time.
fn greatest(logits: &[f32]) -> f32 {
    const LANES: usize = 16;
    let larger = |most: f32, logit: f32| if logit > most && logit < f32::INFINITY { logit } else { most };
    let (chunks, rest) = logits.as_chunks::<LANES>();
    let mut most = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for (most, &logit) in most.iter_mut().zip(chunk) {
            *most = larger(*most, logit);
        }
    }
    most.iter().chain(rest).copied().fold(f32::NEG_INFINITY, larger)
}

/// The greatest logit, and the sum of all weights relative to it; 0 where no logit is finite.
fn normalizer(logits: &[f32]) -> (f32, f64) {
    let best = greatest(logits);
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
