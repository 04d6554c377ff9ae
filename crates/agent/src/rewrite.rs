//! A call that would fail, or do something else than it says, is written again behind a look at what it is about.
//!
//! Why: asked to change a value, a small model guesses the line of a file that it has not read. What guessed once may guess again: so
//! the request has a say in what is written then.
//!
//! Invariant: nothing but the call that the model itself wrote is written again.

use std::collections::BTreeSet;

use toolgate_chat::notes::without_notes;
use toolgate_chat::{ToolCall, ToolChoice, ToolName, ToolSpec, Transcript};
use toolgate_engine::Turn;
use toolgate_tools::{Choices, held_to};

use crate::{Event, Run};

/// How often calls are written again until something changes.
const MOST_TIMES: usize = 2;
/// Letters that words must have in common to be akin, as `receive` and `recieve`, or `port` and `ports` are.
const GRAM: usize = 3;
/// The same in scripts without blanks, whose words have one or two letters.
const PAIR: usize = 2;
/// From here on stand the letters of Chinese, Japanese and Korean.
const FIRST_IDEOGRAPH: char = '\u{2e80}';

/// A call that the next turn is to write again.
pub(super) struct Wanted {
    tool: ToolName,
    /// What is left of its arguments.
    choices: Vec<(&'static str, Choices)>,
    /// The call in whose place it is written, where that guessed what it is about.
    guess: Option<Guess>,
}

/// A call that was a guess: what is left of its arguments is more than one value.
#[derive(Clone)]
pub(super) struct Guess {
    call: ToolCall,
    held: Vec<&'static str>,
}

impl Wanted {
    /// What is left of a call's arguments, and of those the values that the request speaks of, where it speaks of some.
    fn new(
        tool: ToolName,
        call: ToolCall,
        mut choices: Vec<(&'static str, Choices)>,
        request: &BTreeSet<String>,
    ) -> Self {
        let held = choices.iter().map(|(parameter, _)| *parameter).collect();
        let is_guess = choices.iter().any(|(_, choices)| only(choices).is_none());
        // The name of a file tells nothing of its lines.
        let known: BTreeSet<String> =
            choices.iter().filter_map(|(_, choices)| only(choices)).flat_map(grams).collect();
        let told = request - &known;
        for (_, choices) in &mut choices {
            let Choices::Among { texts, beginnings } = choices else { continue };
            let is_told = |text: &String| grams(text).any(|gram| told.contains(&gram));
            if beginnings.is_empty() && texts.len() > 1 && texts.iter().any(is_told) {
                texts.retain(is_told);
            }
        }
        Self { tool, choices, guess: is_guess.then_some(Guess { call, held }) }
    }

    /// All that the turn may call.
    pub(super) fn choice(&self) -> ToolChoice {
        ToolChoice::Only(vec![self.tool.clone()])
    }

    /// The call in whose place it is written, where that was a guess.
    pub(super) fn guess(&self) -> Option<Guess> {
        self.guess.clone()
    }

    /// Holds the arguments of its tool to what is left of them.
    pub(super) fn hold(self, specs: &mut [ToolSpec]) {
        if let Some(spec) = specs.iter_mut().find(|spec| spec.name == self.tool) {
            *spec = held_to(spec.clone(), &self.choices);
        }
    }
}

impl Guess {
    /// Whether a call that was written in its place says something new, and nothing new of which the request speaks.
    fn became_unasked(&self, call: &ToolCall, request: &BTreeSet<String>) -> bool {
        let grams_of = |is_held: bool| -> BTreeSet<String> {
            let arguments = call.arguments.iter();
            let meant = arguments.filter(|(name, _)| self.held.contains(&name.as_str()) == is_held);
            meant.filter_map(|(_, value)| value.as_str()).flat_map(grams).collect()
        };
        let new = &grams_of(false) - &grams_of(true);
        !new.is_empty() && new.is_disjoint(request)
    }
}

/// What is done in the place of a call.
pub(super) enum Instead {
    /// This look, before the call is written again.
    Look(ToolCall),
    /// Nothing: what it is about stands in the conversation.
    Nothing,
}

impl Run<'_> {
    /// What is done in the place of the call of a turn, where it is to be written again. The call is wanted then.
    pub(super) fn instead(&mut self, turn: &Turn) -> Option<Instead> {
        let hint = self.agent.options.hints.rewrites()?;
        let [call] = turn.parsed.calls.as_slice() else { return None };
        if !turn.stop.is_whole() {
            return None;
        }
        let rewrite = self.agent.registry.rewrite(call)?;
        let is_again = self.rewritten.iter().any(|written| written.same_request(call));
        if is_again || self.rewritten.len() >= MOST_TIMES {
            return None;
        }
        let tool = ToolName::new(&call.name).ok()?;
        self.steered.note([hint]);
        (self.events)(Event::Retry { why: format!("{}: {}; it is written again", call.name, rewrite.why) });
        self.wanted = Some(Wanted::new(tool, call.clone(), rewrite.choices, &said(self.transcript)));
        self.rewritten.push(call.clone());
        Some(match rewrite.look.filter(|look| self.completed.times(look) == 0) {
            // Results are tied to calls by their ids, and a replay has those of the record.
            Some(look) => Instead::Look(look.with_id(call.id.clone())),
            None => Instead::Nothing,
        })
    }

    /// Puts the guess back in the place of a call that would change something else than was asked for. The guess fails, and the model is
    /// told why.
    pub(super) fn put_back(&mut self, guess: Guess, turn: &mut Turn) {
        let [call] = turn.parsed.calls.as_mut_slice() else { return };
        if guess.became_unasked(call, &said(self.transcript)) {
            let why =
                format!("{}: the request says nothing of what it would write; the first is made", call.name);
            (self.events)(Event::Retry { why });
            *call = guess.call.with_id(call.id.clone());
        }
    }
}

/// The one value that is left.
fn only(choices: &Choices) -> Option<&str> {
    match choices {
        Choices::Among { texts, beginnings } if beginnings.is_empty() => match texts.as_slice() {
            [text] => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// What the request of a conversation is about.
fn said(transcript: &Transcript) -> BTreeSet<String> {
    grams(&without_notes(transcript.question().unwrap_or_default())).collect()
}

/// The runs of three letters or digits of its words, and its shorter words; of words in scripts without blanks the pairs.
fn grams(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.flat_map(|word| {
        let gram = if word.contains(|c| c >= FIRST_IDEOGRAPH) { PAIR } else { GRAM };
        let letters: Vec<char> = word.to_lowercase().chars().collect();
        let runs = letters.windows(gram.min(letters.len()).max(1)).map(|run| run.iter().collect());
        runs.collect::<Vec<String>>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_akin(a: &str, b: &str) -> bool {
        let a: BTreeSet<String> = grams(a).collect();
        grams(b).any(|gram| a.contains(&gram))
    }

    #[test]
    fn texts_are_akin_by_parts_of_words_in_any_script() {
        for (a, b) in [
            ("Set the Port to 8420", "ports = 1"),
            ("'receive' is wrong", "You will recieve a rota"),
            ("порт поменяй на 90", "Порт: 80"),
            ("把端口改成 90", "端口 = 80"),
            ("a is 3", "3"),
        ] {
            assert!(are_akin(a, b) && are_akin(b, a), "{a} {b}");
        }
        for (a, b) in
            [("Set it to 8420", "workers = 10"), ("把端口改成", "超时 = 80"), ("", "x"), ("90", "9")]
        {
            assert!(!are_akin(a, b) && !are_akin(b, a), "{a} {b}");
        }
    }
}
