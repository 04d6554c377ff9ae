//! Templates and tools shared by the tests.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};
use toolgate_chat::fallback::{Event, Stream};
use toolgate_chat::{Dialogue, Template, TemplateTokens, ToolCall, ToolSpec};
use toolgate_grammar::{Automaton, Grammar, Limits, Vocabulary};

pub(crate) const TAGGED: &str = include_str!("../fixtures/tagged.jinja");
pub(crate) const PLAIN: &str = include_str!("../fixtures/plain.jinja");
pub(crate) const SYSTEMLESS: &str = include_str!("../fixtures/systemless.jinja");
pub(crate) const FOREIGN: &str = include_str!("../fixtures/foreign.jinja");

pub(crate) fn dialogue(source: &str) -> Dialogue {
    Dialogue::derived(Template::new(source, TemplateTokens::default()).unwrap())
        .guarding(["<|start|>", "<|end|>"])
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

pub(crate) fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall::new(name, object(arguments))
}

pub(crate) fn tools() -> Vec<ToolSpec> {
    vec![
        ToolSpec::new(
            "read_file",
            "Read a text file",
            json!({"type": "object", "properties": {
                "path": {"type": "string", "description": "Path in the workspace"},
                "max_lines": {"type": "integer", "minimum": 1},
            }, "required": ["path"]}),
        )
        .unwrap(),
        ToolSpec::new(
            "set_mode",
            "Switch the mode",
            json!({"type": "object", "properties": {"mode": {"type": "string", "enum": ["on", "off"]}},
                "required": ["mode"]}),
        )
        .unwrap(),
        ToolSpec::new("now", "Tell the time", Value::Null).unwrap(),
    ]
}

/// What the events add up to.
pub(crate) fn streamed(text: &str, tools: &[ToolSpec], size: usize) -> (Vec<Value>, Option<String>) {
    let mut stream = Stream::new(tools);
    let mut events = Vec::new();
    for piece in text.as_bytes().chunks(size) {
        events.extend(stream.push(piece));
    }
    let (last, whole) = stream.finish();
    events.extend(last);
    let (mut shown, mut called): (String, Vec<ToolCall>) = Default::default();
    for event in events {
        match event {
            Event::Text(text) => shown.push_str(&text),
            Event::CallStarted(_) | Event::Arguments(_) => {}
            Event::Call(call) => called.push(call),
            Event::Reasoned(text) => {
                shown = text;
                called.clear();
            }
            other => panic!("{other:?}"),
        }
    }
    let content = if called.is_empty() && whole.dropped.is_empty() {
        Some(shown)
    } else {
        Some(shown.trim().to_owned()).filter(|text| !text.is_empty())
    };
    (called.iter().map(|call| json!([call.name, call.arguments])).collect(), content)
}

static BYTES: LazyLock<Arc<Vocabulary>> = LazyLock::new(|| Arc::new(Vocabulary::bytes_only()));

pub(crate) fn automaton(grammar: &Grammar) -> Arc<Automaton> {
    Automaton::new(grammar, BYTES.clone(), &Limits::default()).unwrap()
}

pub(crate) fn accepts(automaton: &Arc<Automaton>, text: &str) -> bool {
    let mut matcher = automaton.matcher();
    matcher.accept_bytes(text.as_bytes()).is_ok() && matcher.is_complete()
}
