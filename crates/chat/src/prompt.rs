//! The system prompt: permits the tools, says what a turn is, and shows calls in the family's own syntax.
//!
//! Invariant: nothing in it comes from untrusted text but names and plain words of the tools' own schemas, so that it
//! may stand in a prompt unguarded; and no value in it looks like a path or an address that a model could copy.

use serde_json::{Map, Value};

use crate::format::ToolFormat;
use crate::model::ToolCall;
use crate::spec::ToolSpec;

/// How much is said.
///
/// ```
/// use serde_json::json;
/// use toolgate_chat::{Style, SystemPrompt, ToolSpec, format::Family};
/// let tools = [ToolSpec::new("now", "What time it is", json!({}))?];
/// let render = |style| SystemPrompt { style, ..SystemPrompt::default() }.render(&tools, &Family::hermes());
/// assert!(render(Style::Minimal).len() < render(Style::Full).len());
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Style {
    /// Everything, for models that follow instructions.
    #[default]
    Full,
    /// Under 700 characters, balancing "call" against "ask back".
    Minimal,
}

/// Which parts the system prompt has.
///
/// ```
/// # use toolgate_chat::{SystemPrompt, ToolSpec, format::Family}; use serde_json::json;
/// let schema = json!({"properties": {"city": {"type": "string"}}, "required": ["city"]});
/// let tools = [ToolSpec::new("get_weather", "Forecast for a city", schema)?];
/// let text = SystemPrompt { examples: true, ..SystemPrompt::default() }.render(&tools, &Family::hermes());
/// assert!(text.contains("You can and should call your tools"));
/// assert!(text.contains("{\"name\": \"get_weather\", \"arguments\": {\"city\": \"alpha\"}}"));
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemPrompt {
    /// How much is said.
    pub style: Style,
    /// Whether two or three example turns are shown. They help larger models; small ones copy them.
    pub examples: bool,
    /// What comes first: who the assistant is, and what it is for.
    pub base: Option<String>,
}

const BASE: &str = "You are a helpful assistant.";

/// Chosen by measurement: of eight wordings this one parts requests for a tool from greetings and general knowledge
/// best with a 0.5 B model. Lists of rules raise the probability of a call everywhere, a greeting's most of all.
const FULL: &str = "\
You can and should call your tools: call one whenever a request needs information you do not have, or a change to be \
made. Never guess what a tool could tell you, and never say you have no access. One turn is either calls or a final \
answer; a call turn holds only the call. Once the results are enough, answer in one or two short sentences with the \
facts found. If no tool is needed, just answer.";

const MINIMAL: &str = "\
You can and should call tools; never say you have no access. One turn: calls or a final answer. A call turn holds only \
the call. When a result is there, answer from it. If no tool fits, answer; if a needed value is missing, ask.";

/// Characters of the minimal form, its base and examples included.
const MINIMAL_LENGTH: usize = 700;

impl SystemPrompt {
    /// The prompt for these tools in this family's syntax; without tools, the base alone.
    pub fn render(&self, tools: &[ToolSpec], format: &dyn ToolFormat) -> String {
        let mut out = self.base.clone().unwrap_or_else(|| BASE.to_owned());
        if tools.is_empty() {
            return out;
        }
        out.push_str("\n\n");
        out.push_str(match self.style {
            Style::Full => FULL,
            Style::Minimal => MINIMAL,
        });
        if self.examples {
            let most = match self.style {
                Style::Full => 2,
                Style::Minimal => 1,
            };
            let shown = examples(tools, format, most);
            let fits =
                self.style == Style::Full || out.chars().count() + shown.chars().count() < MINIMAL_LENGTH;
            if fits {
                out.push_str(&shown);
            }
        }
        out
    }
}

/// Example turns: calls of different tools, then an answer without one.
fn examples(tools: &[ToolSpec], format: &dyn ToolFormat, most: usize) -> String {
    let calls: Vec<ToolCall> = example_calls(tools).take(most).collect();
    if calls.is_empty() {
        return String::new();
    }
    let mut out = "\n\nExamples of turns:".to_owned();
    for call in &calls {
        out.push_str(&format!(
            "\nUser: {}\nYou: {}",
            request(call),
            format.render_calls(std::slice::from_ref(call), tools)
        ));
    }
    out.push_str("\nUser: thank you\nYou: You are welcome.");
    out
}

/// A call of each tool whose required arguments can be made from its schema alone.
pub(crate) fn example_calls(tools: &[ToolSpec]) -> impl Iterator<Item = ToolCall> + '_ {
    tools.iter().filter_map(|tool| {
        let mut words = WORDS.iter().copied();
        let arguments = example_object(&tool.parameters, &tool.parameters, &mut words, 8)?;
        Some(ToolCall::new(tool.name.as_str(), arguments).with_id(""))
    })
}

/// Placeholders for texts: words of no file, place or person.
const WORDS: [&str; 8] = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"];

fn request(call: &ToolCall) -> String {
    let values: Vec<String> = call
        .arguments
        .iter()
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name} {text}"),
            other => format!("{name} {other}"),
        })
        .collect();
    match values.split_last() {
        None => format!("use {}", call.name),
        Some((only, [])) => format!("use {} with {only}", call.name),
        Some((last, others)) => format!("use {} with {} and {last}", call.name, others.join(", ")),
    }
}

type Words<'a> = dyn Iterator<Item = &'static str> + 'a;

fn example_object(
    root: &Value,
    schema: &Value,
    words: &mut Words<'_>,
    depth: usize,
) -> Option<Map<String, Value>> {
    let depth = depth.checked_sub(1)?;
    // Whatever constrains the object as a whole could refuse what is put together member by member.
    let whole =
        ["allOf", "anyOf", "oneOf", "not", "if", "minProperties", "dependentRequired", "dependentSchemas"];
    if whole.iter().any(|keyword| schema.get(keyword).is_some()) {
        return None;
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let mut object = Map::new();
    for (name, property) in properties.iter().filter(|(name, _)| required.contains(&name.as_str())) {
        if !is_plain(name) {
            return None;
        }
        object.insert(name.clone(), example_value(root, property, words, depth)?);
    }
    (object.len() == required.len()).then_some(object)
}

fn example_value(root: &Value, schema: &Value, words: &mut Words<'_>, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        return example_value(root, root.pointer(target.strip_prefix('#')?)?, words, depth);
    }
    if let Some(constant) = schema.get("const") {
        return is_showable(constant).then(|| constant.clone());
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values.iter().find(|value| is_showable(value)).cloned();
    }
    let given = schema.get("examples").and_then(Value::as_array).into_iter().flatten();
    if let Some(given) =
        given.chain(schema.get("default")).find(|value| is_showable(value) && !value.is_null())
    {
        return Some(given.clone());
    }
    for union in ["anyOf", "oneOf"] {
        if let Some(branches) = schema.get(union).and_then(Value::as_array) {
            return branches.iter().find_map(|branch| example_value(root, branch, words, depth));
        }
    }
    let kind = match schema.get("type")? {
        Value::String(kind) => kind.as_str(),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null")?,
        _ => return None,
    };
    match kind {
        "string" => example_text(schema, words).map(Value::from),
        "integer" => example_integer(schema).map(Value::from),
        // A whole number is a number, and never in need of rounding.
        "number" => example_integer(schema).map(Value::from),
        "boolean" => Some(Value::Bool(true)),
        "null" => Some(Value::Null),
        "array" => {
            let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
            if least > 1 || schema.get("prefixItems").is_some() || schema.get("contains").is_some() {
                return None;
            }
            if schema.get("maxItems").and_then(Value::as_u64) == Some(0) {
                return Some(Value::Array(Vec::new()));
            }
            Some(Value::Array(vec![example_value(root, schema.get("items")?, words, depth)?]))
        }
        "object" => example_object(root, schema, words, depth).map(Value::Object),
        _ => None,
    }
}

fn example_text(schema: &Value, words: &mut Words<'_>) -> Option<String> {
    if schema.get("pattern").is_some() {
        return None;
    }
    match schema.get("format").and_then(Value::as_str) {
        None => {}
        Some("date") => return Some("2031-05-17".to_owned()),
        Some("time") => return Some("09:30:00Z".to_owned()),
        Some("date-time") => return Some("2031-05-17T09:30:00Z".to_owned()),
        // Addresses, identifiers and the like would be copied.
        Some(_) => return None,
    }
    let bound = |keyword| schema.get(keyword).and_then(Value::as_u64);
    let word = words.next()?;
    let length = word.len() as u64;
    (bound("minLength").is_none_or(|least| least <= length)
        && bound("maxLength").is_none_or(|most| most >= length))
    .then(|| word.to_owned())
}

/// A small whole number within the bounds, if one is easily found.
fn example_integer(schema: &Value) -> Option<i64> {
    let bound = |keyword| schema.get(keyword).and_then(Value::as_f64);
    let within = |n: i64| {
        let n = n as f64;
        bound("minimum").is_none_or(|least| n >= least)
            && bound("maximum").is_none_or(|most| n <= most)
            && bound("exclusiveMinimum").is_none_or(|least| n > least)
            && bound("exclusiveMaximum").is_none_or(|most| n < most)
            && bound("multipleOf").is_none_or(|step| step > 0.0 && (n / step).fract() == 0.0)
    };
    let near = ["minimum", "exclusiveMinimum"].into_iter().filter_map(bound).map(|n| n.ceil() as i64);
    [3, 10, 1, 0, -1].into_iter().chain(near.flat_map(|n| [n, n.saturating_add(1)])).find(|n| within(*n))
}

/// Whether a value of the schema may be shown: plain words and numbers, nothing that looks like a path or an address.
fn is_showable(value: &Value) -> bool {
    match value {
        Value::String(text) => is_plain(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::Array(items) => items.iter().all(is_showable),
        Value::Object(members) => members.iter().all(|(key, member)| is_plain(key) && is_showable(member)),
    }
}

fn is_plain(text: &str) -> bool {
    (1..=40).contains(&text.chars().count())
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, ' ' | '_' | '-'))
}
