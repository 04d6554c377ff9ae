//! How much a turn thinks: what its request, its profile and its template say, brought together before the prompt is written.
//!
//! Invariant: what was asked for is done, or it is an error that says why not.
//!
//! For the packages of this workspace alone: no part of the API.

use serde_json::{Map, Value};
use toolgate_chat::Dialogue;
use toolgate_chat::reasoning::{Opens, Setting, Switch};

use crate::profile::options::Options;
use crate::{Constraint, Effort, Error, Reasoning, ReasoningMode, TurnRequest};

/// What becomes of thoughts in a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct ReasoningPlan {
    /// Variables of the template.
    pub values: Value,
    /// What closes the thought that prompts open, where the model goes on with it.
    pub opened: Option<String>,
    /// Whether the model may begin to think by itself.
    pub by_itself: bool,
    /// Whether a thought that it begins stays empty.
    pub silent: bool,
    /// Whether the opening mark is written for it, where prompts do not open a thought.
    pub forced: bool,
    /// Tokens of thought at most, of a turn with so many.
    budget: Budget,
}

/// The bound on thoughts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Budget {
    /// So many tokens.
    Tokens(usize),
    /// So many eighths of the turn's tokens.
    Eighths(usize),
}

/// The share of a turn that thoughts have where nothing is said, in eighths.
const HALF: usize = 4;

/// Tokens of white space that are passed over behind a thought.
pub const MOST_BLANKS: usize = 3;

/// What opens a thought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenedBy {
    /// The prompt.
    Prompt,
    /// The model: its mark is still to be written.
    Model,
}

/// What is said for a model whose tokens of thought are used up.
pub const ENOUGH: &str = "\nI have thought enough, and go on.\n";

impl Budget {
    fn of(asked: Reasoning, knows_effort: bool) -> Self {
        match (asked.budget, asked.effort.filter(|_| !knows_effort)) {
            (Some(tokens), _) => Self::Tokens(tokens),
            (None, Some(effort)) => Self::Eighths(eighths(effort)),
            (None, None) => Self::Eighths(HALF),
        }
    }
}

impl ReasoningPlan {
    /// That of a request to a model with this dialogue.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::Kind::Input) for what the template does not know.
    pub fn of(dialogue: &Dialogue, options: &Options, request: &TurnRequest<'_>) -> Result<Self, Error> {
        let asked = request.sampling.reasoning.or(options.reasoning);
        let mut values = request.sampling.template_values.clone();
        known(dialogue, &values)?;
        let knows_effort = switched(dialogue, asked, &mut values);
        let opened = match values.is_empty() {
            true => dialogue.knowledge().opens_reasoning.clone(),
            false => dialogue.opened_thought(&Value::Object(values.clone()))?.map(|marks| marks.close),
        };
        let thoughts = dialogue.format().thoughts();
        let is_told = thoughts.as_ref().is_some_and(|(open, _)| {
            let open = open.text();
            dialogue.template().source().contains(open.trim()) || says(request, open.trim())
        });
        let is_on = asked.mode == ReasoningMode::On;
        if is_on && opened.is_none() && thoughts.is_none() {
            return Err(Error::input(
                "this model's format has no place for thoughts: leave reasoning out, or set it to \"off\"",
            ));
        }
        // Without a constraint nobody would close the thought.
        let is_free = options.constraint == Constraint::None;
        let is_off = asked.mode == ReasoningMode::Off || is_free;
        let budget = Budget::of(asked, knows_effort);
        Ok(Self {
            values: if values.is_empty() { Value::Null } else { Value::Object(values) },
            by_itself: opened.is_none() && thoughts.is_some() && (is_on || is_told) && !is_free,
            forced: is_on && opened.is_none() && !is_free,
            opened: opened.filter(|_| !is_off),
            silent: is_off,
            budget,
        })
    }

    /// That of a model whose template is not known: it may begin a thought by itself, and its server is told the rest.
    pub fn untold(options: &Options, request: &TurnRequest<'_>) -> Self {
        let asked = request.sampling.reasoning.or(options.reasoning);
        Self {
            values: Value::Null,
            opened: None,
            by_itself: true,
            silent: asked.mode == ReasoningMode::Off,
            forced: asked.mode == ReasoningMode::On,
            budget: Budget::of(asked, asked.effort.is_some()),
        }
    }

    /// Whether a turn may begin with a thought.
    pub fn may_think(&self) -> bool {
        self.opened.is_some() || self.by_itself
    }

    /// What opens the thought with which a turn surely begins; none where it may do without.
    pub fn opening(&self) -> Option<OpenedBy> {
        match (&self.opened, self.forced) {
            (Some(_), _) => Some(OpenedBy::Prompt),
            (None, true) => Some(OpenedBy::Model),
            (None, false) => None,
        }
    }

    /// Tokens of thought at most in a turn of so many: some are left for what is thought about.
    pub fn most(&self, tokens: usize) -> usize {
        let eighth = |share: usize| tokens.saturating_mul(share) / 8;
        match self.budget {
            Budget::Tokens(most) => most.min(eighth(7)),
            Budget::Eighths(share) => eighth(share),
        }
    }
}

fn eighths(effort: Effort) -> usize {
    match effort {
        Effort::Minimal => 1,
        Effort::Low => 2,
        Effort::Medium => HALF,
        Effort::High => 6,
        Effort::XHigh => 7,
    }
}

/// Whether the messages of the program speak of a mark: a model that is told to think in `<think>` may do so.
fn says(request: &TurnRequest<'_>, open: &str) -> bool {
    let system = request.transcript.iter().take(1);
    system
        .into_iter()
        .any(|message| matches!(message, toolgate_chat::Message::System(text) if text.contains(open)))
}

/// Refuses variables that the template does not read: they would change nothing, and nobody would know. One that is off is as it
/// should be.
fn known(dialogue: &Dialogue, values: &Map<String, Value>) -> Result<(), Error> {
    let source = dialogue.template().source();
    let unread =
        |(name, value): &(&String, &Value)| !source.contains(name.as_str()) && **value != Value::Bool(false);
    let Some((unknown, _)) = values.iter().find(unread) else { return Ok(()) };
    let switches = &dialogue.reasoning_support().switches;
    let names: Vec<&str> = switches.iter().map(|switch| switch.variable.as_str()).collect();
    let known = match names.as_slice() {
        [] => "it reads none about thinking".to_owned(),
        names => format!("about thinking it reads {}", names.join(", ")),
    };
    Err(Error::input(format!("the model's chat template does not read the variable {unknown:?}: {known}")))
}

/// Sets the template's own variables as was asked, unless the caller has set them; whether it knows the effort.
fn switched(dialogue: &Dialogue, asked: Reasoning, values: &mut Map<String, Value>) -> bool {
    if asked.mode == ReasoningMode::Auto && asked.effort.is_none() {
        return false;
    }
    let support = dialogue.reasoning_support();
    let is_free = |switch: &&Switch| switch.beside.is_none() && !values.contains_key(&switch.variable);
    let switches: Vec<&Switch> = support.switches.iter().filter(is_free).collect();
    let chosen = match asked.mode {
        ReasoningMode::Auto => None,
        ReasoningMode::Off => best(&switches, silences),
        ReasoningMode::On => best(&switches, |setting| i32::from(matches!(setting.opens, Opens::Thought(_)))),
    };
    let word = asked.effort.map(|effort| Value::from(effort.as_str()));
    let effort = word.and_then(|word| {
        let knows = |switch: &&&Switch| switch.setting(&word).is_some();
        Some((switches.iter().find(knows)?.variable.clone(), word))
    });
    let knows_effort = effort.is_some();
    if let Some((variable, value)) = chosen.filter(|_| !knows_effort || asked.mode == ReasoningMode::Off) {
        values.insert(variable, value);
    }
    values.extend(effort);
    knows_effort
}

/// The setting of most worth that says another thing than the template says by itself; none where it is as it should be.
fn best(switches: &[&Switch], worth: impl Fn(&Setting) -> i32) -> Option<(String, Value)> {
    let settings =
        switches.iter().flat_map(|switch| switch.settings.iter().map(move |setting| (switch, setting)));
    let (switch, setting) = settings.max_by_key(|(_, setting)| (worth(setting), setting.is_default))?;
    (worth(setting) > 0 && !setting.is_default).then(|| (switch.variable.clone(), setting.value.clone()))
}

/// How well a setting keeps a model from thinking: it closes the thought, or says so in words that only "off" has.
fn silences(setting: &Setting) -> i32 {
    let is_off = match &setting.value {
        Value::Bool(on) => !on,
        Value::String(word) => matches!(word.as_str(), "none" | "off" | "disabled" | "no_think"),
        Value::Number(tokens) => tokens.as_u64() == Some(0),
        _ => false,
    };
    match setting.opens {
        Opens::Closed(_) => 3,
        Opens::Nothing if is_off => 2,
        _ => i32::from(is_off && setting.instructs),
    }
}
