//! Which family a model speaks, found by rendering its template: never by looking at what it happened to say.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Generic, Hermes, ToolFormat, tagged};
use crate::model::ToolCall;
use crate::template::{Render, Template};

const TOOL: &str = "probe_tool";
const SYSTEM: &str = "probe of the system message";
const QUESTION: &str = "probe of the user message";
const ARGUMENT: &str = "probe of an argument";
const RESULT: &str = "probe of a result";

/// What a template was found to know.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Derived {
    /// The family.
    pub format: Arc<dyn ToolFormat>,
    /// Why it is this one, for a person.
    pub why: String,
    /// Whether the template shows tool definitions in this family's form.
    pub knows_tools: bool,
    /// Whether it writes calls and results of earlier turns.
    pub knows_results: bool,
    /// Whether it has a place for a system message.
    pub knows_system: bool,
}

/// Decides the family by rendering probe conversations, with tools and without.
///
/// ```
/// # use toolgate_chat::format::derive; use toolgate_chat::{Template, TemplateTokens};
/// let plain = Template::new("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", TemplateTokens::default())?;
/// let derived = derive(&plain);
/// assert_eq!(derived.format.name(), "generic");
/// assert!(!derived.knows_tools);
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
pub fn derive(template: &Template) -> Derived {
    let system = json!({"role": "system", "content": SYSTEM});
    let user = json!({"role": "user", "content": QUESTION});
    let tool = json!({"type": "function", "function": {"name": TOOL, "description": "A probe", "parameters": {
        "type": "object", "properties": {"key": {"type": "string", "description": "A key"}}, "required": ["key"],
    }}});
    let render = |messages: &[Value], tools: &[Value]| {
        template.render(&Render { messages, tools, ..Render::default() })
    };

    let knows_system = render(&[system.clone(), user.clone()], &[]).is_ok_and(|text| text.contains(SYSTEM));
    let opening = if knows_system { vec![system, user] } else { vec![user] };
    let told = render(&opening, std::slice::from_ref(&tool)).unwrap_or_default();
    let knows_tools = told.contains(TOOL);

    let call =
        ToolCall::new(TOOL, Map::from_iter([("key".to_owned(), ARGUMENT.into())])).with_id("probe0001");
    let mut history = opening;
    history.push(json!({"role": "assistant", "content": "", "tool_calls": [
        {"id": call.id, "type": "function", "function": {"name": TOOL, "arguments": call.arguments}},
    ]}));
    history.push(json!({"role": "tool", "name": TOOL, "tool_call_id": call.id, "content": RESULT}));
    let whole = render(&history, &[tool]).unwrap_or_default();
    // Instructions may show an example in the same tags: only what stands after the question is the call itself.
    let said = whole.rsplit_once(QUESTION).map_or("", |(_, after)| after);
    let writes_tags = tagged::parse(said).calls.iter().any(|written| written.same_request(&call));
    let teaches_tags = told.contains("<tool_call>") && told.contains("\"name\"");

    let (format, why, knows_tools, knows_results): (Arc<dyn ToolFormat>, _, _, _) = if !knows_tools {
        (Arc::new(Generic), "the template shows no tool definitions", false, false)
    } else if writes_tags {
        let why = "the template writes calls as JSON between <tool_call> tags";
        (Arc::new(Hermes), why, true, said.contains(RESULT))
    } else if teaches_tags && !said.contains(ARGUMENT) {
        (Arc::new(Hermes), "the template asks for JSON between <tool_call> tags", true, false)
    } else {
        let why =
            "the template writes calls in a form that is not known here, so they are asked for in our own";
        (Arc::new(Generic), why, false, false)
    };
    Derived { format, why: why.to_owned(), knows_tools, knows_results, knows_system }
}
