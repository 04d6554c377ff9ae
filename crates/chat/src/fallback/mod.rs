//! The fallback parser: finds the tool calls in what an unconstrained model wrote, whatever dialect it fell into.
//!
//! It knows texts and, where told, the schemas of tools; no session, no model, no template. It checks no names, caps
//! nothing and makes nothing up: a call is what is written as one. Invariant: reading costs time linear in the text.
//!
//! ```
//! # use toolgate_chat::fallback::extract;
//! let found = extract("On it.\n<tool_call>{'tool': 'now', 'parameters': {'zone': None}}</tool_call>");
//! assert_eq!(found.content.as_deref(), Some("On it."));
//! assert_eq!(found.calls[0].name, "now");
//! assert_eq!(found.repairs[0].kind.as_str(), "single_quotes");
//!
//! let prose = "A call stands between `<tool_call>` and `</tool_call>`.";
//! assert_eq!(extract(prose).content.as_deref(), Some(prose));
//! ```

mod answer;
mod bare;
mod calls;
mod code;
mod delimited;
pub(crate) mod gemma;
pub(crate) mod harmony;
mod headed;
mod html;
pub(crate) mod json;
mod kimi;
mod marks;
mod mistral;
pub(crate) mod names;
mod payload;
pub(crate) mod pythonic;
mod quoted;
mod reasoning;
mod repair;
mod scan;
pub(crate) mod source;
mod stream;
mod tag;
pub(crate) mod typing;
pub(crate) mod xml;

use serde::Serialize;

use crate::model::ToolCall;
use crate::spec::ToolSpec;

pub use crate::event::Event;
pub use repair::{Repair, RepairKind};
pub use stream::Stream;

pub(crate) use xml::NOISE;

pub(crate) use scan::{Item, item_at};

use scan::{Kind, Scan};
use source::Source;

/// What was found in a text.
///
/// ```
/// use toolgate_chat::fallback::{Pattern, extract};
/// let found = extract("One moment.\n<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>");
/// assert_eq!(found.content.as_deref(), Some("One moment."));
/// assert_eq!((found.calls.len(), found.pattern), (1, Some(Pattern::Tag)));
/// assert!(found.repairs.is_empty() && found.dropped.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Extraction {
    /// The text itself if nothing was found; else what remains, trimmed, or nothing. Reasoning and control tokens are no part
    /// of it.
    pub content: Option<String>,
    /// What the model thought, without its marks; nothing where there is no such text.
    pub reasoning: Option<String>,
    /// The calls, in order.
    pub calls: Vec<ToolCall>,
    /// How the first call was written.
    pub pattern: Option<Pattern>,
    /// What was mended to read them.
    pub repairs: Vec<Repair>,
    /// Wrappers that hold no call that can be read; they are not in `content`.
    pub dropped: Vec<Span>,
}

/// A part of the text, as byte offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// After the last byte.
    pub end: usize,
}

/// How a call was written.
///
/// ```
/// use toolgate_chat::fallback::{Pattern, extract};
/// assert_eq!(extract("{\"name\": \"now\", \"arguments\": {}}").pattern, Some(Pattern::Json));
/// assert_eq!(extract("[now(zone='UTC')]").pattern, Some(Pattern::Pythonic));
/// assert_eq!(extract("It is noon.").pattern, None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Pattern {
    /// JSON between tags or after a marker: `<tool_call>{…}</tool_call>`, `functools[…]`.
    Tag,
    /// A fenced block.
    Fence,
    /// The whole text as JSON.
    Json,
    /// JSON with text around it.
    JsonInText,
    /// A name, a separator and the arguments as JSON.
    NamedJson,
    /// `[TOOL_CALLS]` and what follows it.
    Mistral,
    /// An element for each argument: `<parameter=k>v</parameter>`.
    Elements,
    /// Elements for keys and values in turn: `<arg_key>k</arg_key><arg_value>v</arg_value>`.
    Pairs,
    /// `f(a=1)`.
    Pythonic,
    /// `call:f{a:1}`.
    Gemma,
    /// A program, after a marker that says that Python is to run it.
    Code,
}

/// Finds the calls in a text.
///
/// Never fails, and never panics; 1 MiB takes some milliseconds.
///
/// ```
/// use toolgate_chat::fallback::extract;
/// let found = extract("<function=now>\n<parameter=zone>\nUTC\n</parameter>\n</function>");
/// assert_eq!(found.calls.first().map(|call| &call.arguments["zone"]), Some(&"UTC".into()));
/// assert!(extract("It is noon.").calls.is_empty());
/// ```
pub fn extract(text: &str) -> Extraction {
    extract_typed(text, &[])
}

/// Finds the calls in a text; `tools` tell the types of values that are written as bare text.
///
/// A call of a tool that is not among them is a call all the same.
///
/// ```
/// # use toolgate_chat::{ToolSpec, fallback::extract_typed}; use serde_json::json;
/// let tools = [ToolSpec::new("wait", "", json!({"properties": {"seconds": {"type": "integer"}}}))?];
/// let text = "<function=wait>\n<parameter=seconds>\n3\n</parameter>\n</function>";
/// assert_eq!(extract_typed(text, &tools).calls[0].arguments["seconds"], 3);
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
pub fn extract_typed(text: &str, tools: &[ToolSpec]) -> Extraction {
    extracted(text, tools, Scan::default())
}

/// As [`extract_typed`], for a text that begins inside reasoning, since the prompt had opened it.
///
/// ```
/// # use toolgate_chat::fallback::extract_inside_reasoning;
/// let found = extract_inside_reasoning("Noon, I think.</think>It is noon.", &[]);
/// assert_eq!((found.reasoning.as_deref(), found.content.as_deref()), (Some("Noon, I think."), Some("It is noon.")));
/// assert_eq!(extract_inside_reasoning("Noon, I", &[]).content, None);
/// ```
pub fn extract_inside_reasoning(text: &str, tools: &[ToolSpec]) -> Extraction {
    extracted(text, tools, Scan::inside_reasoning())
}

fn extracted(text: &str, tools: &[ToolSpec], mut scan: Scan) -> Extraction {
    scan.run(&Source::new(text, true), tools);
    finished(text, scan)
}

fn finished(text: &str, scan: Scan) -> Extraction {
    if scan.items.is_empty() {
        return Extraction { content: Some(text.to_owned()), ..Extraction::default() };
    }
    let mut extraction = Extraction::default();
    let mut content = String::new();
    let mut at = 0;
    let mut reasoning = String::new();
    for item in scan.items {
        content.push_str(text.get(at..item.span.start).unwrap_or_default());
        at = item.span.end;
        match item.kind {
            Kind::Mark => {}
            Kind::Thought => reasoning.push_str(text.get(item.span.start..at).unwrap_or_default()),
            Kind::Calls if item.calls.is_empty() => extraction.dropped.push(item.span),
            Kind::Calls => extraction.pattern = extraction.pattern.or(item.pattern),
        }
        extraction.calls.extend(item.calls);
        extraction.repairs.extend(item.repairs);
    }
    content.push_str(text.get(at..).unwrap_or_default());
    let trimmed = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    extraction.content = trimmed(&content);
    extraction.reasoning = trimmed(&reasoning);
    extraction
}
