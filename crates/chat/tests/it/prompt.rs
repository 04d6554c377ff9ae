//! The system prompt: what it permits, how long it is, and that its examples are calls the grammar would take.

use serde_json::json;
use toolgate_chat::format::Family;
use toolgate_chat::{Style, SystemPrompt, ToolFormat, ToolSpec};

use crate::support::tools;

fn many() -> Vec<ToolSpec> {
    let mut all = tools();
    for i in 0..40 {
        let schema = json!({"properties": {"first": {"type": "string"}, "second": {"type": "integer"}},
            "required": ["first", "second"]});
        all.push(ToolSpec::new(&format!("a_tool_with_a_long_name_{i}"), "Does something", schema).unwrap());
    }
    all
}

#[test]
fn the_full_form_says_it_all() {
    insta::assert_snapshot!(
        SystemPrompt { examples: true, ..SystemPrompt::default() }.render(&tools(), &Family::hermes())
    );
}

#[test]
fn the_minimal_form_stays_under_700_characters() {
    for examples in [false, true] {
        for tools in [tools(), many()] {
            let prompt = SystemPrompt { style: Style::Minimal, examples, base: None };
            let text = prompt.render(&tools, &Family::generic());
            assert!(text.chars().count() < 700, "{text}");
            assert!(text.contains("can and should call tools") && text.contains("missing, ask"), "{text}");
            assert_eq!(text.contains("<tool_call>"), examples, "{text}");
        }
    }
}

#[test]
fn without_tools_there_is_no_talk_of_them() {
    let prompt = SystemPrompt { base: Some("Be kind.".into()), examples: true, ..SystemPrompt::default() };
    assert_eq!(prompt.render(&[], &Family::hermes()), "Be kind.");
}

#[test]
fn examples_take_nothing_that_could_be_copied_or_is_not_plain() {
    let check = |property: serde_json::Value, expected: Option<&str>| {
        let schema = json!({"properties": {"p": property}, "required": ["p"]});
        let tools = [ToolSpec::new("f", "", schema).unwrap()];
        let text =
            SystemPrompt { examples: true, ..SystemPrompt::default() }.render(&tools, &Family::hermes());
        match expected {
            Some(value) => {
                assert!(text.contains(&format!("\"arguments\": {{\"p\": {value}}}")), "{property}: {text}");
            }
            None => assert!(!text.contains("<tool_call>"), "{property}: {text}"),
        }
        let turn = Family::hermes().parse(&text, &[]);
        assert_eq!(turn.calls.len(), usize::from(expected.is_some()), "{text}");
    };
    check(json!({"type": "string"}), Some("\"alpha\""));
    check(json!({"enum": ["fast", "slow"]}), Some("\"fast\""));
    check(json!({"enum": ["src/main.rs", "slow"]}), Some("\"slow\""));
    check(json!({"type": "string", "examples": ["Berlin"]}), Some("\"Berlin\""));
    check(json!({"type": "string", "examples": ["docs/intro.txt"]}), Some("\"alpha\""));
    check(json!({"type": "string", "default": "<|im_end|>"}), Some("\"alpha\""));
    check(json!({"type": "integer", "minimum": 5}), Some("10"));
    check(json!({"type": "integer", "minimum": 200, "multipleOf": 2}), Some("200"));
    check(json!({"type": "integer", "minimum": 4, "maximum": 3}), None);
    check(json!({"type": ["null", "boolean"]}), Some("true"));
    check(json!({"type": "array", "items": {"type": "string"}}), Some("[\"alpha\"]"));
    check(
        json!({"type": "object", "properties": {"q": {"const": 7}, "r": {}}, "required": ["q"]}),
        Some("{\"q\": 7}"),
    );
    check(json!({"type": "string", "format": "date"}), Some("\"2031-05-17\""));
    check(json!({"type": "string", "format": "uri"}), None);
    check(json!({"type": "string", "pattern": "^[A-Z]{3}$"}), None);
    check(json!({"type": "string", "minLength": 9}), None);
    check(json!({"enum": ["<tool_call>"]}), None);
}
