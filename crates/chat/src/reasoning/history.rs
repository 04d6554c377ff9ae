//! Second part of learning about thinking: the fields and marks of thoughts in the history, and how a prompt ends.
//!
//! Invariant: a place is kept only where its own sentinel was rendered.

use serde_json::{Value, json};

use super::probe::{ANSWER, Probe, Prompts, QUESTION, thought};
use super::switches::Trial;
use super::{Field, Marks, Opens, Spot};
use crate::format::{REASONING, tags_around};

const FIELDS: [Field; 5] =
    [Field::ReasoningContent, Field::Reasoning, Field::Thinking, Field::Thought, Field::Chunk];

const SPOTS: [Spot; 5] =
    [Spot::EarlierCall, Spot::EarlierAnswer, Spot::RunCall, Spot::LastCall, Spot::Answer];

/// What the history of a template says of thoughts.
pub(super) struct History {
    pub(super) fields: Vec<Field>,
    pub(super) marks: Option<Marks>,
}

/// Tries each field. A template that writes no thought by itself is asked again with each value that it tells apart.
pub(super) fn learn(probe: &Probe, trials: &[Trial]) -> History {
    let values = trials.iter().flat_map(|trial| {
        trial.outcomes.iter().filter(|(_, prompts)| *prompts != trial.unset).map(|(value, _)| {
            let mut extra = serde_json::Map::new();
            extra.insert(trial.variable.clone(), value.clone());
            Value::Object(extra)
        })
    });
    std::iter::once(Value::Null)
        .chain(values.take(4))
        .find_map(|extra| {
            let shows = |field: &Field| !kept_in(probe, *field, &extra).is_empty();
            let fields: Vec<Field> = FIELDS.into_iter().filter(shows).collect();
            let marks = marks(probe, *fields.first()?, &extra);
            Some(History { fields, marks })
        })
        .unwrap_or(History { fields: Vec::new(), marks: None })
}

impl History {
    /// The places of which a thought in the first field is written.
    pub(super) fn kept(&self, probe: &Probe, extra: &Value) -> Vec<Spot> {
        self.fields.first().map(|field| kept_in(probe, *field, extra)).unwrap_or_default()
    }

    /// How the prompt for a turn ends.
    pub(super) fn opens(&self, prompts: &Prompts) -> Opens {
        prompts.shown().map(|prompt| self.ending(prompt)).unwrap_or_default()
    }

    fn ending(&self, prompt: &str) -> Opens {
        let tail = prompt.rsplit_once(QUESTION).map_or(prompt, |(_, tail)| tail).trim_end();
        let known = REASONING.iter().map(|(open, close)| Marks::new(open, close));
        let all: Vec<Marks> = self.marks.iter().cloned().chain(known).collect();
        if let Some(marks) = all.iter().find(|marks| tail.ends_with(&marks.open)) {
            return Opens::Thought(marks.clone());
        }
        let closed = all.iter().find(|marks| {
            let empty = tail.rsplit_once(marks.open.as_str());
            // A mark of its own closes a thought that nothing opened; one that ends any message does not.
            empty.is_some_and(|(_, after)| after.trim_start().starts_with(&marks.close))
                || tail.ends_with(&marks.close) && marks.close.to_lowercase().contains("think")
        });
        closed.map(|marks| Opens::Closed(marks.clone())).unwrap_or_default()
    }
}

impl Marks {
    fn new(open: &str, close: &str) -> Self {
        Self { open: open.trim().to_owned(), close: close.trim().to_owned() }
    }
}

fn kept_in(probe: &Probe, field: Field, extra: &Value) -> Vec<Spot> {
    let texts = probe.conversations(field, extra);
    let shown = |spot: &Spot| texts.iter().flatten().any(|text| is_written(text, *spot, field));
    SPOTS.into_iter().filter(shown).collect()
}

/// Whether the thought stands there as a thought. Where a template prints the list of chunks as it was given, it does not.
fn is_written(text: &str, spot: Spot, field: Field) -> bool {
    let thought = thought(spot);
    let mut places = text.match_indices(&thought).filter_map(|(at, _)| text.get(..at));
    places.any(|before| field != Field::Chunk || !before.ends_with(['\'', '"']))
}

/// What stands around a thought: known marks, tags, or else whole phrases.
fn marks(probe: &Probe, field: Field, extra: &Value) -> Option<Marks> {
    let [open, closed] = probe.conversations(field, extra);
    let texts = [probe.answered(Some(field), extra), closed, open];
    let plain = probe.answered(None, extra).unwrap_or_default();
    let around = |text: &String| {
        let thought = SPOTS.iter().rev().map(|spot| thought(*spot)).find(|thought| text.contains(thought))?;
        let (before, after) = text.rsplit_once(&thought)?;
        let (before, after) = (before.trim_end(), after.trim_start());
        let mut known = REASONING.iter().map(|(open, close)| Marks::new(open, close));
        let is_it = |marks: &Marks| before.ends_with(&marks.open) && after.starts_with(&marks.close);
        known.find(is_it).or_else(|| {
            let (open, close) = tags_around(text, &thought)?;
            // A tag that stands in front of an answer as well is no mark of thoughts.
            (!plain.contains(&format!("{}{ANSWER}", &*open))).then(|| Marks::new(&open, &close))
        })
    };
    texts.iter().flatten().find_map(around).or_else(|| phrases(probe, field, extra))
}

/// Marks that are no tags: what an answer with a thought writes in front of it, and one without does not; or what the
/// prompt for a turn has behind the place of a thought.
fn phrases(probe: &Probe, field: Field, extra: &Value) -> Option<Marks> {
    let with = probe.answered(Some(field), extra)?;
    let without = probe.answered(None, extra)?;
    let (before, after) = with.split_once(&thought(Spot::Answer))?;
    let (plain, _) = without.rsplit_once(ANSWER)?;
    let (close, _) = after.split_once(ANSWER)?;
    let marks = match before == plain {
        true => Marks::new(probe.prompts(extra).alone?.strip_prefix(before)?, close),
        false => {
            let same = before.chars().zip(plain.chars()).take_while(|(a, b)| a == b);
            let shared = before.get(..same.map(|(c, _)| c.len_utf8()).sum())?;
            // A word or a tag is of one piece.
            let piece = shared.rfind(|c: char| c.is_whitespace() || c == '>').map_or(0, |at| at + 1);
            let own = before.get(piece..)?;
            // Where the answer has a header of its own, that is no part of the close.
            let header = plain.rsplit_once(QUESTION).map_or("", |(_, header)| header);
            Marks::new(own, without_header(close, header))
        }
    };
    let is_short = |text: &str| !text.is_empty() && text.len() < 96;
    (is_short(&marks.open) && is_short(&marks.close)).then_some(marks)
}

/// The close without the end that it shares with the header of an answer. A tag is of one piece.
fn without_header<'a>(close: &'a str, header: &str) -> &'a str {
    let shared = close.chars().rev().zip(header.chars().rev()).take_while(|(a, b)| a == b);
    let length: usize = shared.map(|(c, _)| c.len_utf8()).sum();
    let mut cut = close.len() - length;
    let (own, rest) = close.split_at_checked(cut).unwrap_or((close, ""));
    if own.rfind('<') > own.rfind('>') {
        cut += rest.find('>').map_or(0, |at| at + 1);
    }
    let own = close.get(..cut).unwrap_or(close);
    if own.trim().is_empty() { close } else { own }
}

/// A variable and its value, as a template is given them.
pub(super) fn given(variable: &str, value: &Value) -> Value {
    json!({ variable: value })
}
