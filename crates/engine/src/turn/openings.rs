//! What parts of a turn may open with, as tokens of the engine's vocabulary: at its start, within its text, within its thoughts.
//!
//! Invariant: each set is found once, when it is first asked for; a turn that does not think needs none with thoughts.

use std::sync::{Arc, OnceLock};

use toolgate_chat::Dialogue;
use toolgate_grammar::Vocabulary;
use toolgate_grammar::marks::{MarkTokens, Piece};
use toolgate_infer::{Extent, OpeningTexts, Openings};

use crate::AnswerForm;

/// The openings of a model's turns.
pub(crate) struct TurnOpenings {
    vocabulary: Arc<Vocabulary>,
    /// Those of calls, in any dialect.
    calls: Vec<String>,
    /// Those of calls behind text.
    in_text: Vec<String>,
    /// That of thoughts, where the format has any.
    thought: Option<String>,
    /// What ends thoughts.
    close: Option<String>,
    heads: Vec<String>,
    text_end: String,
    found: Found,
}

/// Those that were asked for.
#[derive(Default)]
struct Found {
    start: OnceLock<Openings>,
    start_thinking: OnceLock<Openings>,
    json: OnceLock<Openings>,
    json_thinking: OnceLock<Openings>,
    text: OnceLock<Openings>,
    text_thinking: OnceLock<Openings>,
    thought: OnceLock<Openings>,
}

impl TurnOpenings {
    pub(crate) fn new(vocabulary: Arc<Vocabulary>, dialogue: &Dialogue) -> Self {
        let format = dialogue.format();
        let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
        Self {
            vocabulary,
            calls: owned(format.openings()),
            in_text: format.openings_in_text(),
            thought: format.thoughts().map(|(open, _)| open.text()),
            close: format.thoughts().map(|(_, close)| close.text()),
            heads: owned(format.text_heads()),
            text_end: format.text_end().to_owned(),
            found: Found::default(),
        }
    }

    /// At the start of a turn with an answer of this form; `thinks` where it may begin with a thought.
    pub(crate) fn at_start(&self, form: AnswerForm<'_>, thinks: bool) -> &Openings {
        let is_text = form == AnswerForm::Text;
        let found = match (is_text, thinks) {
            (true, false) => &self.found.start,
            (true, true) => &self.found.start_thinking,
            (false, false) => &self.found.json,
            (false, true) => &self.found.json_thinking,
        };
        found.get_or_init(|| {
            // Where a family opens its calls in no other way than a JSON value begins, a brace still means a call.
            let others: Vec<&str> = self
                .calls
                .iter()
                .map(String::as_str)
                .filter(|opening| is_text || !is_json(opening))
                .collect();
            let all: Vec<&str> = self.calls.iter().map(String::as_str).collect();
            let calls = if others.is_empty() { all } else { others };
            self.of(&calls, thinks, "", Extent::Beginning)
        })
    }

    /// Within the text of a turn. A call or a thought may open at each of its tokens.
    pub(crate) fn in_text(&self, thinks: bool) -> &Openings {
        let found = if thinks { &self.found.text_thinking } else { &self.found.text };
        found.get_or_init(|| {
            let calls: Vec<&str> = self.in_text.iter().map(String::as_str).collect();
            self.of(&calls, thinks, &self.text_end, Extent::Whole)
        })
    }

    /// Within a thought that its closing mark has not ended: a call there ends it, where its mark is a token. Text that looks like a
    /// call may be thought of.
    pub(crate) fn in_thought(&self) -> &Openings {
        self.found.thought.get_or_init(|| {
            let tokens = MarkTokens::of(&self.vocabulary);
            let first = |text: &str| tokens.resolve(text).pieces().first().cloned();
            let close = self.close.as_deref().and_then(first);
            // A thought that ends as it should begins nothing yet.
            let is_token =
                |text: &&str| matches!(first(text), own @ Some(Piece::Token { .. }) if own != close);
            let calls: Vec<&str> = self.in_text.iter().map(String::as_str).filter(is_token).collect();
            let texts = OpeningTexts { calls: &calls, extent: Extent::Whole, ..OpeningTexts::default() };
            Openings::of(&self.vocabulary, &texts)
        })
    }

    fn of(&self, calls: &[&str], thinks: bool, behind: &str, extent: Extent) -> Openings {
        let behind = |text: &str| format!("{behind}{text}");
        let calls: Vec<String> = calls.iter().map(|text| behind(text)).collect();
        let thoughts: Vec<String> = self.thought.iter().filter(|_| thinks).map(|text| behind(text)).collect();
        // Within a text that nothing has to end, a head is text.
        let has_heads = extent == Extent::Beginning || !self.text_end.is_empty();
        let heads: Vec<String> = self.heads.iter().filter(|_| has_heads).map(|text| behind(text)).collect();
        let [calls, thoughts, heads] =
            [&calls, &thoughts, &heads].map(|texts| texts.iter().map(String::as_str).collect::<Vec<_>>());
        let texts = OpeningTexts { calls: &calls, thoughts: &thoughts, heads: &heads, extent };
        Openings::of(&self.vocabulary, &texts)
    }
}

fn is_json(opening: &str) -> bool {
    opening.trim_start().starts_with(['{', '[', '"', '`'])
}
