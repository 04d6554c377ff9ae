//! Templates and tools shared by the tests.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};
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

static BYTES: LazyLock<Arc<Vocabulary>> = LazyLock::new(|| Arc::new(Vocabulary::bytes_only()));

pub(crate) fn automaton(grammar: &Grammar) -> Arc<Automaton> {
    Automaton::new(grammar, BYTES.clone(), &Limits::default()).unwrap()
}

pub(crate) fn accepts(automaton: &Arc<Automaton>, text: &str) -> bool {
    let mut matcher = automaton.matcher();
    matcher.accept_bytes(text.as_bytes()).is_ok() && matcher.is_complete()
}
