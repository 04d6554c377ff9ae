//! The decision on the likeliest tokens that a server tells: what is left of the probability counts as nothing that opens.

use toolgate_grammar::TokenKind;
use toolgate_infer::{OpeningTexts, Openings, TurnDecision, Vocabulary};

use crate::Error;

/// The least probability of a beginning that a call and a thought share, with which it is followed to where they part.
const WORTH_FOLLOWING: f64 = 0.05;
/// The most tokens that it is followed.
const MOST_FOLLOWED: usize = 4;

/// The likeliest tokens, as texts with the logarithm of their probability.
pub(super) type Likeliest = Vec<(String, f64)>;

/// The texts that the part of a turn to come may open with.
#[derive(Clone, Debug, Default)]
pub(super) struct Openers {
    pub(super) calls: Vec<String>,
    pub(super) thoughts: Vec<String>,
    pub(super) heads: Vec<String>,
}

impl Openers {
    /// What is left of them behind a text that some begin with.
    fn after(&self, text: &str) -> Self {
        let after = |openers: &[String]| {
            let rests = openers.iter().filter_map(|opener| {
                let rest =
                    opener.strip_prefix(text).or_else(|| opener.trim_start().strip_prefix(text.trim_start()));
                rest.filter(|rest| !rest.is_empty() && !text.trim().is_empty()).map(str::to_owned)
            });
            rests.collect()
        };
        Self { calls: after(&self.calls), thoughts: after(&self.thoughts), heads: after(&self.heads) }
    }
}

/// Decides on the likeliest tokens where a turn is. `behind` tells those behind further texts: what a call and a thought begin with
/// alike is followed to where they part.
pub(super) fn decide(
    tokens: &[(String, f64)],
    openers: &Openers,
    threshold: f64,
    behind: &mut dyn FnMut(&[String]) -> Result<Likeliest, Error>,
) -> Result<TurnDecision, Error> {
    let (mut decision, mut shared) = look(tokens, openers, threshold)?;
    let (mut openers, mut followed, mut share) = (openers.clone(), Vec::new(), decision.undecided);
    decision.undecided = 0.0;
    while let Some(text) = shared.take().filter(|_| share >= WORTH_FOLLOWING) {
        if followed.len() >= MOST_FOLLOWED {
            break;
        }
        openers = openers.after(&text);
        followed.push(text);
        let (next, further) = look(&behind(&followed)?, &openers, threshold)?;
        // Other beginnings are mostly the same text in other tokens: they are taken to go on as this one.
        decision.p_call += share * next.p_call;
        decision.p_think += share * next.p_think;
        share *= next.undecided;
        shared = further;
    }
    decision.undecided = share;
    decision.call = decision.p_call >= threshold;
    Ok(decision)
}

/// The decision on these tokens alone, and the likeliest of those that say nothing yet.
fn look(
    tokens: &[(String, f64)],
    openers: &Openers,
    threshold: f64,
) -> Result<(TurnDecision, Option<String>), Error> {
    let told: f64 = tokens.iter().map(|(_, logarithm)| logarithm.exp()).sum();
    let rest = (1.0 - told).max(f64::MIN_POSITIVE).ln();
    let kind = |text: &str| if text.is_empty() { TokenKind::Unused } else { TokenKind::Text };
    let entries = tokens.iter().map(|(text, _)| (text.clone().into_bytes(), kind(text)));
    let vocabulary = Vocabulary::new(entries.chain([(Vec::new(), TokenKind::Unused)]))?;
    let logits: Vec<f32> =
        tokens.iter().map(|&(_, logarithm)| logarithm as f32).chain([rest as f32]).collect();
    let [calls, thoughts, heads] = [&openers.calls, &openers.thoughts, &openers.heads]
        .map(|texts| texts.iter().map(String::as_str).collect::<Vec<_>>());
    let texts = OpeningTexts { calls: &calls, thoughts: &thoughts, heads: &heads, ..OpeningTexts::default() };
    let openings = Openings::of(&vocabulary, &texts);
    let shared = openings.ambiguous().iter().filter_map(|token| tokens.get(*token as usize));
    let likeliest = shared.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(text, _)| text.clone());
    Ok((openings.decide(&logits, &vocabulary, threshold), likeliest))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn told(tokens: &[(&str, f64)]) -> Vec<(String, f64)> {
        tokens.iter().map(|(text, p)| ((*text).to_owned(), p.ln())).collect()
    }

    fn openers(calls: &[&str], thoughts: &[&str]) -> Openers {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Openers { calls: owned(calls), thoughts: owned(thoughts), heads: Vec::new() }
    }

    #[test]
    fn the_probability_of_a_call_is_summed_over_what_the_server_tells() {
        let tokens = told(&[("<tool", 0.3), ("To", 0.4), (" {", 0.1)]);
        let none = &mut |_: &[String]| Err(Error::input("nothing is shared"));
        let decided = decide(&tokens, &openers(&["<tool_call>", "{\"name\""], &[]), 0.35, none).unwrap();
        assert!((decided.p_call - 0.4).abs() < 1e-6 && decided.call, "{decided:?}");
        assert!(!decide(&tokens, &openers(&["<tool_call>"], &[]), 0.35, none).unwrap().call);
        assert_eq!(decide(&[], &openers(&["<tool_call>"], &[]), 0.35, none).unwrap().p_call, 0.0);
    }

    #[test]
    fn what_a_thought_begins_with_as_well_is_followed_to_where_they_part() {
        let both = openers(&["\n<tool_call>"], &["<think>"]);
        let tokens = told(&[("<", 0.9), ("I", 0.1)]);
        let mut asked = Vec::new();
        let mut behind = |followed: &[String]| {
            asked.push(followed.concat());
            Ok(match followed.len() {
                1 => told(&[("t", 0.8), ("b", 0.2)]),
                _ => told(&[("hink", 0.75), ("ool", 0.25)]),
            })
        };
        let decided = decide(&tokens, &both, 0.5, &mut behind).unwrap();
        assert_eq!(asked, ["<", "<t"]);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(
            near(decided.p_think, 0.9 * 0.8 * 0.75) && near(decided.p_call, 0.9 * 0.8 * 0.25),
            "{decided:?}"
        );
        assert!(!decided.call && decided.undecided < 1e-6, "{decided:?}");
    }
}
