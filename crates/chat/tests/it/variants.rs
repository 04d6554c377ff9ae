//! One call in every wrapper, spelled in every way models spell it, with text around it and without: the fallback parser
//! finds it, gives back the text, and makes nothing up.

mod forms;
mod json;

use serde_json::{Value, json};
use toolgate_chat::fallback::{Extraction, extract_typed};
use toolgate_chat::{ToolCall, ToolSpec};

use crate::support::call;
use crate::targets::{Read, extracted};

/// Wrappers of JSON: what stands before and after it, and whether they hold a list.
const WRAPPERS: &[(&str, &str, bool)] = &[
    ("<tool_call>\n", "\n</tool_call>", false),
    ("<tool_call>", "</tool_call>", true),
    ("<tool_calls>\n", "\n</tool_calls>", true),
    ("<tools>\n", "\n</tools>", false),
    ("<tool>", "</tool>", false),
    ("<tool_use>\n", "\n</tool_use>", false),
    ("<function_call>", "</function_call>", false),
    ("<function_call> ", "", false),
    ("<function_calls>\n", "\n</function_calls>", true),
    ("<longcat_tool_call>\n", "\n</longcat_tool_call>", false),
    ("<TOOLCALL>", "</TOOLCALL>", true),
    ("<response>\n", "\n</response>", false),
    ("<json>\n", "\n</json>", false),
    ("<JSON>", "</JSON>", false),
    ("<xml>", "</xml>", false),
    ("<|tool_call|>", "", true),
    ("<|tool_call|>", "<|/tool_call|>", true),
    ("<|tool_call_start|>", "<|tool_call_end|>", true),
    ("<|python_tag|>", "", false),
    ("<|python_tag|>", "<|eom_id|>", false),
    ("<|action_start|><|plugin|>\n", "<|action_end|>", false),
    ("<|START_ACTION|>", "<|END_ACTION|>", true),
    ("<|function_call|>", "", false),
    ("[TOOL_CALLS]", "", true),
    ("[TOOL_CALLS] ", "</s>", true),
    ("[TOOL_REQUEST]", "[END_TOOL_REQUEST]", false),
    ("functools", "", true),
    ("```json\n", "\n```", false),
    ("```json\n", "\n```", true),
    ("```tool\n", "\n```", false),
    ("```tool_call\n", "\n```", false),
    ("```tool_code\n", "\n```", false),
    ("```\n", "\n```", false),
    ("```xml\n<tool_call>\n", "\n</tool_call>\n```", false),
    ("<tool_call>\n```json\n", "\n```\n</tool_call>", false),
    ("", "", false),
    ("", "", true),
];

fn wrapped(wrapper: (&str, &str, bool), calls: &[String]) -> String {
    let (open, close, is_list) = wrapper;
    if is_list {
        return format!("{open}[{}]{close}", calls.join(", "));
    }
    calls.iter().map(|call| format!("{open}{call}{close}")).collect::<Vec<_>>().join("\n")
}

fn two_calls() -> [ToolCall; 2] {
    [
        call("find_notes", json!({"query": "green tea", "limit": 3, "tags": ["a", "b"], "exact": true})),
        call("clock", json!({"zone": "Europe/Warsaw", "format": {"long": false}})),
    ]
}

fn tools() -> Vec<ToolSpec> {
    vec![
        ToolSpec::new("find_notes", "", json!({"type": "object", "properties": {"query": {"type": "string"},
            "limit": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}, "exact": {"type": "boolean"}}})).unwrap(),
        ToolSpec::new("clock", "", json!({"type": "object", "properties": {"zone": {"type": "string"},
            "format": {"type": "object", "properties": {"long": {"type": "boolean"}}}}})).unwrap(),
    ]
}

/// A call with given names of its fields.
fn json_call(call: &ToolCall, name: &str, arguments: &str) -> String {
    format!("{{\"{name}\": \"{}\", \"{arguments}\": {}}}", call.name, json!(call.arguments))
}

#[derive(Default)]
struct Failures(Vec<String>);

impl Failures {
    fn check(
        &mut self,
        what: &str,
        text: &str,
        tools: &[ToolSpec],
        expected: &[ToolCall],
        content: Option<&str>,
    ) {
        let found = extract_typed(text, tools);
        let same = found.calls.len() == expected.len()
            && found.calls.iter().zip(expected).all(|(found, expected)| found.same_request(expected));
        let shown = found.content.as_deref();
        let squeezed =
            |text: Option<&str>| text.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
        if !same || squeezed(shown) != squeezed(content) {
            self.0.push(format!("{what}: {text:?}\n    calls {}\n    content {shown:?}", calls_of(&found)));
        }
        for size in [1, 5] {
            let streamed = extracted(text, tools, &[size]);
            if streamed != Read::of(&found) {
                self.0.push(format!("{what}: {text:?} streamed by {size}\n    {streamed:?}"));
            }
        }
    }

    fn none(self) {
        let shown: Vec<&str> = self.0.iter().map(String::as_str).collect();
        assert!(shown.is_empty(), "{} failures\n{}", shown.len(), shown.join("\n"));
    }
}

fn calls_of(found: &Extraction) -> Value {
    found.calls.iter().map(|call| json!([call.name, call.arguments])).collect()
}
