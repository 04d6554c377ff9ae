//! What is known of a pair beside its laws: how a turn of it is told apart, and what becomes of its thoughts.

use std::num::NonZeroUsize;

use serde::Serialize;
use toolgate_chat::reasoning::Keeps;
use toolgate_chat::{ToolChoice, TurnRequest};
use toolgate_grammar::Limits;
use toolgate_grammar::marks::Piece;

use super::calls::{Draw, tools};
use super::pair::Pair;

/// What is known of a vocabulary with a template.
///
/// ```
/// use toolgate_lab::families::Facts;
/// let facts = serde_json::to_value(Facts::default()).unwrap();
/// assert_eq!((&facts["decides_by_token"], &facts["thinks"]), (&false.into(), &"no".into()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// The file of the vocabulary, without its ending.
    pub vocabulary: String,
    /// The file of the template, without its ending; `own` for that of the vocabulary's file.
    pub template: String,
    /// Whether a call opens with a token of its own.
    pub decides_by_token: bool,
    /// Who begins thoughts.
    pub thinks: Thinks,
    /// Whether a call is found behind text.
    pub preamble: bool,
    /// Whether a turn can hold several calls.
    pub parallel: bool,
    /// Which thoughts the template keeps in the history, from which field.
    pub history: String,
}

/// Who begins the thoughts of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinks {
    /// The template tells of no thoughts.
    #[default]
    No,
    /// The prompt opens one.
    Prompt,
    /// The model does, by itself.
    Itself,
}

impl Thinks {
    /// For a person.
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Prompt => "the prompt begins",
            Self::Itself => "by itself",
        }
    }
}

impl Facts {
    pub(crate) fn of(pair: &Pair) -> Self {
        let format = pair.dialogue.format();
        let opening = format.openings().first().map(|opening| format.mark(opening.trim_start()));
        let support = pair.dialogue.reasoning_support();
        let history = match (support.fields.first(), support.keeps()) {
            (None, _) => "none".to_owned(),
            (Some(field), keeps) => format!("{} from `{}`", kept(keeps), field.name()),
        };
        let thinks = match (pair.opens_thought(), pair.dialogue.thought_opening()) {
            (true, _) => Thinks::Prompt,
            (false, Some(_)) => Thinks::Itself,
            (false, None) => Thinks::No,
        };
        Self {
            vocabulary: pair.vocabulary.clone(),
            template: pair.template.clone(),
            decides_by_token: opening
                .is_some_and(|opening| matches!(opening.pieces().first(), Some(Piece::Token { .. }))),
            thinks,
            preamble: !format.openings_in_text().is_empty(),
            parallel: has_several(pair),
            history,
        }
    }
}

fn kept(keeps: Keeps) -> &'static str {
    match keeps {
        Keeps::None => "none",
        Keeps::All => "all",
        Keeps::SinceUser => "since the user spoke",
        Keeps::WithCalls => "with calls",
        Keeps::CallsSinceUser => "with calls, since the user spoke",
        Keeps::Last => "the last",
        _ => "some",
    }
}

/// Whether the grammar of a turn takes two calls.
fn has_several(pair: &Pair) -> bool {
    let Ok(tools) = tools() else { return false };
    let format = pair.dialogue.format();
    let request = TurnRequest { choice: ToolChoice::Required, parallel: NonZeroUsize::new(2), first: None };
    let calls = Draw::new(1).calls(2);
    // Whether texts match is asked of the family without its tokens.
    let plain = format.resolved(&toolgate_grammar::marks::MarkTokens::default());
    let grammar = plain.turn(&tools, &request).ok().and_then(|turn| turn.call);
    let text = plain.render_calls(&calls, &tools);
    grammar
        .is_some_and(|grammar| grammar.match_text(&text, &Limits::default()).is_ok_and(|found| found.matched))
}
