//! A family as data: the texts around its calls, and how it writes arguments. Rendering follows from it here, the grammar
//! of a turn in `turn`, reading in `read`.
//!
//! Invariant: every family is one [`Syntax`], so what is rendered, constrained and read cannot drift apart.

use std::borrow::Cow;

use serde_json::Value;
use toolgate_grammar::Expr;
use toolgate_grammar::marks::{Mark, MarkTokens};

use super::messages::Messages;
use super::written::Written;
use crate::fallback::names;
use crate::fallback::typing::{self, Schema};
use crate::json;
use crate::model::ToolCall;
use crate::spec::ToolSpec;

/// A text of a syntax: known beforehand, or learned from a template.
pub(crate) type Text = Cow<'static, str>;

/// How a family writes its calls.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Syntax {
    pub(crate) name: Text,
    /// Before the first call.
    pub(crate) begin: Text,
    /// One call.
    pub(crate) call: Vec<Part>,
    /// Between two calls.
    pub(crate) between: Text,
    /// After the last call.
    pub(crate) end: Text,
    pub(crate) arguments: Arguments,
    /// Before an answer, where the prompt for a turn does not write it.
    pub(crate) answer: Text,
    /// What stands around reasoning.
    pub(crate) reasoning: Option<(Text, Text)>,
    /// What its messages are, where a turn is several of them.
    pub(crate) messages: Option<Messages>,
    /// Whether a turn can have one call alone.
    pub(crate) is_single: bool,
    /// The tokens that its texts are written with, of the vocabulary that it was resolved against; none before that.
    pub(crate) tokens: MarkTokens,
}

/// A piece of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Text(Text),
    /// The tool's name.
    Name,
    Arguments,
    /// The call's id.
    Id,
    /// The number of the call in its turn, counted from this.
    Index(usize),
}

/// How arguments are written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Arguments {
    /// An object of JSON.
    Json(Spacing),
    /// An element for each argument.
    Elements(Elements),
    /// `a=1, b="x"`.
    Pythonic,
    /// `{a:1,b:<q>x<q>}`, with this quote.
    Gemma(Text),
}

/// Blanks in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spacing {
    /// `{"a": 1, "b": 2}`.
    Spaced,
    /// `{"a":1,"b":2}`.
    Compact,
    /// As [`Spaced`](Self::Spaced), but any layout is taken: the template shows the text that it is given.
    Given,
    /// A member a line, `step` blanks further in than the brackets, which stand `base` blanks in.
    Indented { step: usize, base: usize },
}

/// Arguments as elements: `open`, the key, a text by the kind of value, the value, `close`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Elements {
    pub(crate) open: Text,
    pub(crate) middle: Middle,
    pub(crate) close: Close,
    pub(crate) between: Text,
    /// Whether truth is written `True`.
    pub(crate) python_literals: bool,
    pub(crate) lists: Lists,
}

/// How lists and objects are written between the tags of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lists {
    /// `["a", "b"]`.
    Json,
    /// `['a', 'b']`.
    Python,
    /// As elements in turn.
    Elements,
}

/// What stands between a key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Middle {
    pub(crate) string: Text,
    pub(crate) number: Text,
    pub(crate) boolean: Text,
    pub(crate) array: Text,
    pub(crate) object: Text,
}

/// What stands after a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Close {
    Text(Text),
    /// The key again, between two texts: `</key>`.
    Keyed(Text, Text),
}

impl Middle {
    pub(crate) fn same(text: &'static str) -> Self {
        Self {
            string: Cow::Borrowed(text),
            number: Cow::Borrowed(text),
            boolean: Cow::Borrowed(text),
            array: Cow::Borrowed(text),
            object: Cow::Borrowed(text),
        }
    }

    /// One text before strings, another before all else.
    pub(crate) fn typed(string: &'static str, other: &'static str) -> Self {
        Self { string: Cow::Borrowed(string), ..Self::same(other) }
    }

    pub(crate) fn of(&self, value: &Value) -> &str {
        match value {
            Value::String(_) => &self.string,
            Value::Number(_) => &self.number,
            Value::Bool(_) => &self.boolean,
            Value::Array(_) => &self.array,
            Value::Object(_) | Value::Null => &self.object,
        }
    }

    /// Whether strings are told from other values.
    pub(crate) fn tells_strings(&self) -> bool {
        self.string != self.object
    }

    pub(crate) fn all(&self) -> [&str; 5] {
        [&self.string, &self.number, &self.boolean, &self.array, &self.object]
    }
}

impl Close {
    pub(crate) fn of(&self, key: &str) -> String {
        match self {
            Self::Text(text) => text.to_string(),
            Self::Keyed(before, after) => format!("{before}{key}{after}"),
        }
    }
}

impl Spacing {
    pub(crate) fn write(self, value: &Value) -> String {
        match self {
            Self::Spaced | Self::Given => json::spaced(value),
            Self::Compact => value.to_string(),
            Self::Indented { step, base } => {
                let style = json::Style { item: ",", key: ": ", indent: Some(step) };
                json::write(value, &style).replace('\n', &format!("\n{}", " ".repeat(base)))
            }
        }
    }
}

impl Syntax {
    /// The calls as the model would write them; `tools` tell which values are bare text.
    pub(crate) fn render(&self, calls: &[ToolCall], tools: &[ToolSpec]) -> Mark {
        let mut out = Written::new(&self.tokens);
        for (i, call) in calls.iter().enumerate() {
            out.mark(if i == 0 { &self.begin } else { &self.between });
            for part in &self.call {
                match part {
                    Part::Text(text) => out.mark(text),
                    Part::Name => out.text(&call.name),
                    Part::Id => out.text(&shown_id(&call.id, i)),
                    Part::Index(first) => out.text(&(first + i).to_string()),
                    Part::Arguments => self.push_arguments(call, tools, &mut out),
                }
            }
        }
        out.mark(&self.end);
        out.finish()
    }

    /// Every text of it.
    pub(crate) fn texts(&self) -> Vec<String> {
        let mut texts = self.call_texts();
        texts.push(self.answer.to_string());
        texts.extend(self.reasoning.iter().flat_map(|(open, close)| [open.to_string(), close.to_string()]));
        texts.extend(self.messages.iter().flat_map(Messages::texts).map(str::to_owned));
        texts.retain(|text| !text.is_empty());
        texts
    }

    /// Those of its calls.
    pub(crate) fn call_texts(&self) -> Vec<String> {
        let mut texts = vec![self.begin.to_string(), self.between.to_string(), self.end.to_string()];
        let part = |part: &Part| match part {
            Part::Text(text) => Some(text.to_string()),
            _ => None,
        };
        texts.extend(self.call.iter().filter_map(part));
        match &self.arguments {
            Arguments::Elements(elements) => {
                texts.extend([
                    elements.open.to_string(),
                    elements.close.of(""),
                    elements.between.to_string(),
                ]);
                texts.extend(elements.middle.all().map(str::to_owned));
            }
            Arguments::Gemma(quote) => texts.push(quote.to_string()),
            Arguments::Json(_) | Arguments::Pythonic => {}
        }
        texts.retain(|text| !text.is_empty());
        texts
    }

    /// Takes thoughts that were left blank from what stands before the calls.
    pub(crate) fn drop_before_calls(&mut self, open: &str, close: &str) {
        let rest = |text: &str| {
            let (before, rest) = text.split_once(close.trim())?;
            (before.trim() == open.trim()).then(|| rest.to_owned())
        };
        if let Some(rest) = rest(&self.begin) {
            self.begin = rest.into();
        }
    }

    /// Its texts without blanks, slots as single characters: what tells families apart.
    pub(crate) fn shape(&self) -> String {
        format!("{}|{}|{}", self.head_shape(), squeezed(&self.between), squeezed(&self.end))
    }

    /// The shape of all that comes before a call's arguments, and of those.
    pub(crate) fn head_shape(&self) -> String {
        let mut out = squeezed(&self.begin);
        for part in self.call.iter().take_while(|part| **part != Part::Arguments) {
            match part {
                Part::Text(text) => out.push_str(&squeezed(text)),
                Part::Name => out.push('$'),
                Part::Id => out.push('@'),
                Part::Index(first) => out.push_str(&format!("#{first}")),
                Part::Arguments => {}
            }
        }
        match &self.arguments {
            Arguments::Json(_) => out.push_str("|json"),
            Arguments::Pythonic => out.push_str("|python"),
            Arguments::Gemma(quote) => out.push_str(quote),
            Arguments::Elements(elements) => {
                let middle = squeezed(&elements.middle.number);
                out.push_str(&format!(
                    "|{}k{middle}v{}",
                    squeezed(&elements.open),
                    squeezed(&elements.close.of("k"))
                ));
            }
        }
        out
    }

    /// What a grammar has for a text of the syntax: its marks as tokens, where they are.
    pub(crate) fn written(&self, text: &str) -> Expr {
        self.tokens.resolve(text).expr()
    }

    /// What opens a call, before anything that differs between calls.
    pub(crate) fn opening(&self) -> String {
        match self.call.first() {
            Some(Part::Text(text)) => format!("{}{text}", self.begin),
            _ => self.begin.to_string(),
        }
    }

    /// All that its own calls may open with: first what a turn's grammar writes.
    pub(crate) fn own_openings(&self) -> Vec<String> {
        let mut openings = vec![self.opening()];
        for other in self.messages.iter().flat_map(|messages| &messages.openings) {
            if !openings.iter().any(|opening| opening.starts_with(&**other)) {
                openings.push(other.to_string());
            }
        }
        openings
    }

    fn push_arguments(&self, call: &ToolCall, tools: &[ToolSpec], out: &mut Written<'_>) {
        let tool = names::tool(tools, &call.name);
        if let (Some(tool), false) = (tool, matches!(self.arguments, Arguments::Json(_)))
            && self.fields(tool).is_none()
        {
            // Parameters that are no plain list of fields are written as JSON, in every family.
            return out.text(&json::spaced(&Value::Object(call.arguments.clone())));
        }
        match &self.arguments {
            Arguments::Json(spacing) => out.text(&spacing.write(&Value::Object(call.arguments.clone()))),
            Arguments::Elements(elements) => {
                for (i, (key, value)) in call.arguments.iter().enumerate() {
                    if i > 0 {
                        out.mark(&elements.between);
                    }
                    let schema = typing::property(tool, key);
                    out.mark(&elements.open);
                    out.text(key);
                    out.mark(elements.middle.of(value));
                    match elements.nested_text(value, schema) {
                        Some(nested) => out.mark(&nested),
                        None => out.text(&elements.value(value, schema)),
                    }
                    out.mark(&elements.close.of(key));
                }
            }
            Arguments::Pythonic => {
                let arguments: Vec<String> = call
                    .arguments
                    .iter()
                    .map(|(key, value)| format!("{key}={}", json::spaced(value)))
                    .collect();
                out.text(&arguments.join(", "));
            }
            Arguments::Gemma(quote) => {
                // Its templates sort the keys.
                let mut sorted = Value::Object(call.arguments.clone());
                sorted.sort_all_objects();
                gemma(&sorted, quote, out);
            }
        }
    }
}

impl Elements {
    /// A value between its tags: bare text where that reads back as the same, JSON otherwise.
    pub(crate) fn value(&self, value: &Value, schema: Schema<'_>) -> String {
        match value {
            Value::String(text) => {
                let reads_back = if self.middle.tells_strings() {
                    typing::text(text) == *text
                } else {
                    schema.value(text) == *value
                };
                let is_plain = reads_back && !typing::needs_mask(text) && !self.would_end(text);
                if is_plain { text.clone() } else { typing::json_without_angles(text) }
            }
            Value::Bool(flag)
                if self.python_literals && (!schema.is_known() || schema.kinds().is_boolean()) =>
            {
                if *flag {
                    "True".to_owned()
                } else {
                    "False".to_owned()
                }
            }
            other => {
                let text = self.nested_text(other, schema).or_else(|| self.python_text(other, schema));
                text.unwrap_or_else(|| json::spaced(other))
            }
        }
    }

    pub(crate) fn would_end(&self, text: &str) -> bool {
        match &self.close {
            Close::Text(close) => !close.trim().is_empty() && text.contains(close.trim()),
            Close::Keyed(before, _) => text.contains(before.trim()),
        }
    }
}

impl Arguments {
    /// For a person.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Self::Json(_) => "arguments as JSON",
            Self::Elements(_) => "an element for each argument",
            Self::Pythonic => "arguments as Python writes them",
            Self::Gemma(_) => "arguments between braces, texts in a quote of their own",
        }
    }
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

/// An id as prompts show it: its own if it is plain, else one by its place.
fn shown_id(id: &str, index: usize) -> String {
    let is_plain = (1..=64).contains(&id.len())
        && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if is_plain { id.to_owned() } else { format!("call{index:05}") }
}

/// A value as Gemma writes it; a text that holds the quote is written as JSON.
pub(crate) fn gemma(value: &Value, quote: &str, out: &mut Written<'_>) {
    match value {
        Value::Object(members) => {
            out.text("{");
            for (i, (key, member)) in members.iter().enumerate() {
                if i > 0 {
                    out.text(",");
                }
                out.text(&gemma_key(key));
                out.text(":");
                gemma(member, quote, out);
            }
            out.text("}");
        }
        Value::Array(items) => {
            out.text("[");
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.text(",");
                }
                gemma(item, quote, out);
            }
            out.text("]");
        }
        Value::String(text) if text.contains(quote) => out.text(&typing::json_without_angles(text)),
        Value::String(text) => {
            out.mark(quote);
            out.text(text);
            out.mark(quote);
        }
        scalar => out.text(&scalar.to_string()),
    }
}

fn gemma_key(key: &str) -> String {
    let is_plain =
        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if is_plain { key.to_owned() } else { typing::json_without_angles(key) }
}
