//! Beside the format: what a chat template says about thinking, learned by rendering short conversations with sentinels.
//!
//! Invariant: nothing is told that a rendering did not show. A value with which the template fails is one it does not know.

mod history;
mod probe;
mod switches;

use serde_json::Value;

use crate::template::Template;
use probe::Probe;

/// What a template says about thinking.
///
/// ```
/// use serde_json::json;
/// use toolgate_chat::{Template, TemplateTokens, reasoning::{Keeps, Opens, ReasoningSupport}};
/// let source = "{% for m in messages %}<{{ m.role }}>\
///     {% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}{% endfor %}\
///     {% if add_generation_prompt %}<assistant>{% if enable_thinking is false %}<think></think>{% endif %}{% endif %}";
/// let support = ReasoningSupport::learn(&Template::new(source, TemplateTokens::default())?);
/// let switch = support.switch("enable_thinking").expect("the template reads it");
/// assert!(matches!(switch.setting(&json!(false)).map(|setting| &setting.opens), Some(Opens::Closed(_))));
/// assert_eq!(support.opens, Opens::Nothing);
/// assert_eq!(support.fields.iter().map(|field| field.name()).collect::<Vec<_>>(), ["reasoning_content"]);
/// assert_eq!(support.keeps(), Keeps::All);
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ReasoningSupport {
    /// The variables that change how the model thinks, or which thoughts stay in the history.
    pub switches: Vec<Switch>,
    /// How the prompt for a turn ends where no switch is given.
    pub opens: Opens,
    /// The fields of an assistant message from which it writes a thought, the first one to be preferred.
    pub fields: Vec<Field>,
    /// The places of which it writes the thought where no switch is given. The conversation has tools where it writes calls.
    pub kept: Vec<Spot>,
    /// What it writes around a thought of the history.
    pub marks: Option<Marks>,
}

/// The texts around a thought, without the white space next to them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Marks {
    /// In front of it.
    pub open: String,
    /// Behind it.
    pub close: String,
}

/// What the prompt for a turn says of a thought at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Opens {
    /// Nothing: the model opens a thought itself, or has none.
    #[default]
    Nothing,
    /// It ends within a thought, behind the opening mark.
    Thought(Marks),
    /// It holds a whole thought, which is empty or was never opened: the model does not think.
    Closed(Marks),
}

/// A variable of a template that has to do with thinking.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Switch {
    /// Its name.
    pub variable: String,
    /// The values that it tells apart.
    pub settings: Vec<Setting>,
    /// The variable and value that it was tried with, where it does nothing alone. Its settings tell what it changes then.
    pub beside: Option<(String, Value)>,
}

/// What a value of a switch does.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Setting {
    /// The value.
    pub value: Value,
    /// How the prompt for a turn ends.
    pub opens: Opens,
    /// Whether the prompt says another thing before the model's turn than it does without the variable.
    pub instructs: bool,
    /// The places of which the thought is written.
    pub kept: Vec<Spot>,
    /// Whether all this is as it is without the variable.
    pub is_default: bool,
}

/// Where an assistant message holds its thought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Field {
    /// The field `reasoning_content`.
    ReasoningContent,
    /// The field `reasoning`.
    Reasoning,
    /// The field `thinking`.
    Thinking,
    /// The field `thought`.
    Thought,
    /// Its content is a list with a part of the type `thinking`.
    Chunk,
}

/// An assistant message of a conversation, by what it is and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Spot {
    /// Calls, before the last message of the user.
    EarlierCall,
    /// An answer, before the last message of the user.
    EarlierAnswer,
    /// Calls after the last message of the user, with more calls behind them.
    RunCall,
    /// The last calls, whose results are the end of the conversation.
    LastCall,
    /// The answer that is the end of the conversation.
    Answer,
}

/// The rule by which thoughts stay in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Keeps {
    /// None is written.
    None,
    /// Each is written.
    All,
    /// Those since the last message of the user.
    SinceUser,
    /// Those of messages with calls.
    WithCalls,
    /// Those of messages with calls since the last message of the user.
    CallsSinceUser,
    /// That of the last message.
    Last,
    /// Another one: see [`ReasoningSupport::kept`].
    Other,
}

impl ReasoningSupport {
    /// Learns it from some dozens of renderings of short conversations; there is a bound on them.
    pub fn learn(template: &Template) -> Self {
        let probe = Probe::new(template);
        let trials = switches::trials(&probe);
        let history = history::learn(&probe, &trials);
        let opens = history.opens(&probe.prompts(&Value::Null));
        let switches = switches::told_apart(&probe, &history, trials);
        let kept = history.kept(&probe, &Value::Null);
        Self { switches, opens, fields: history.fields, kept, marks: history.marks }
    }

    /// The switch of this variable.
    pub fn switch(&self, variable: &str) -> Option<&Switch> {
        self.switches.iter().find(|switch| switch.variable == variable)
    }

    /// The rule by which thoughts stay in the history where no switch is given.
    pub fn keeps(&self) -> Keeps {
        Keeps::of(&self.kept)
    }

    /// Whether it says anything about thinking.
    pub fn is_empty(&self) -> bool {
        self.switches.is_empty() && self.fields.is_empty() && self.opens == Opens::Nothing
    }
}

impl Switch {
    /// What this value does.
    pub fn setting(&self, value: &Value) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.value == *value)
    }
}

impl Field {
    /// Its name in a message; a chunk's is that of its type.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReasoningContent => "reasoning_content",
            Self::Reasoning => "reasoning",
            Self::Thinking | Self::Chunk => "thinking",
            Self::Thought => "thought",
        }
    }
}

impl Keeps {
    /// The rule that holds for these places. A template that writes no calls is judged by its answers.
    ///
    /// ```
    /// use toolgate_chat::reasoning::{Keeps, Spot};
    /// assert_eq!(Keeps::of(&[Spot::RunCall, Spot::LastCall, Spot::Answer]), Keeps::SinceUser);
    /// assert_eq!(Keeps::of(&[]), Keeps::None);
    /// ```
    pub fn of(kept: &[Spot]) -> Self {
        use Spot::{Answer, EarlierAnswer, EarlierCall, LastCall, RunCall};
        let has = |spot| kept.contains(&spot);
        match (has(EarlierCall), has(EarlierAnswer), has(RunCall), has(LastCall), has(Answer)) {
            (false, false, false, false, false) => Self::None,
            (true, true, true, true, true) | (false, true, false, false, true) => Self::All,
            (false, false, true, true, true) => Self::SinceUser,
            (true, false, true, true, _) => Self::WithCalls,
            (false, false, true, true, false) => Self::CallsSinceUser,
            (false, false, false, _, true) | (false, false, false, true, false) => Self::Last,
            _ => Self::Other,
        }
    }
}
