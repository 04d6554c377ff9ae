//! JSON in every wrapper: names of fields, envelopes, batches and slips.

use serde_json::{Value, json};

use super::{Failures, WRAPPERS, json_call, tools, two_calls, wrapped};
use crate::support::call;

#[test]
fn every_wrapper_with_text_around_it() {
    let mut failures = Failures::default();
    let calls = two_calls();
    for wrapper in WRAPPERS {
        for (n, tools) in [(1, tools()), (2, tools()), (1, Vec::new()), (2, Vec::new())] {
            let spelled: Vec<String> = calls[..n].iter().map(|c| json_call(c, "name", "arguments")).collect();
            let said = wrapped(*wrapper, &spelled);
            let what = format!("{wrapper:?} x{n}");
            failures.check(&what, &said, &tools, &calls[..n], None);
            failures.check(&what, &format!("I look.\n\n{said}"), &tools, &calls[..n], Some("I look."));
            let separator = if wrapper.0.is_empty() { "\n" } else { " " };
            failures.check(&what, &format!("Ü:{separator}{said}"), &tools, &calls[..n], Some("Ü:"));
            failures.check(&what, &said.replace('\n', "\r\n"), &tools, &calls[..n], None);
            // What follows an unclosed wrapper is part of it.
            failures.check(&what, &format!("{said}\nThat is it."), &tools, &calls[..n], Some("That is it."));
            failures.check(
                &what,
                &format!("Hm.\n{said}\n\nThen 更多."),
                &tools,
                &calls[..n],
                Some("Hm.\n\n\nThen 更多."),
            );
            failures.check(&what, &format!("{said}\n"), &tools, &calls[..n], None);
        }
    }
    failures.none();
}

#[test]
fn every_name_of_a_field() {
    let mut failures = Failures::default();
    let [one, _] = two_calls();
    let wrappers =
        [WRAPPERS[0], ("```json\n", "\n```", false), ("", "", false), ("```tool\n", "\n```", false)];
    for (name, arguments) in [
        ("name", "arguments"),
        ("name", "parameters"),
        ("name", "params"),
        ("name", "args"),
        ("name", "input"),
        ("tool", "parameters"),
        ("tool", "arguments"),
        ("tool", "args"),
        ("tool", "input"),
        ("tool", "params"),
        ("function", "arguments"),
        ("function", "parameters"),
        ("function", "args"),
        ("tool_name", "arguments"),
        ("tool_name", "parameters"),
        ("tool_name", "tool_input"),
        ("tool_name", "tool_args"),
        ("tool_name", "tool_parameters"),
        ("tool_name", "tool_arguments"),
        ("tool", "tool_input"),
        ("name", "tool_input"),
        ("name", "kwargs"),
        ("function_name", "arguments"),
        ("function_name", "parameters"),
        ("function_name", "function_args"),
        ("function_name", "function_arguments"),
        ("function_name", "args"),
        ("action", "action_input"),
        ("recipient_name", "parameters"),
    ] {
        for wrapper in wrappers {
            let what = format!("{name}/{arguments}");
            let said = wrapped(wrapper, &[json_call(&one, name, arguments)]);
            failures.check(&what, &said, &tools(), std::slice::from_ref(&one), None);
            failures.check(&what, &said, &[], std::slice::from_ref(&one), None);
            // The arguments before the name, an id and a type beside them.
            let turned = format!(
                "{{\"type\": \"function\", \"{arguments}\": {}, \"id\": \"c1\", \"{name}\": \"{}\"}}",
                json!(one.arguments),
                one.name
            );
            failures.check(&what, &wrapped(wrapper, &[turned]), &[], std::slice::from_ref(&one), None);
            // As a text of JSON.
            let text = format!(
                "{{\"{name}\": \"{}\", \"{arguments}\": {}}}",
                one.name,
                json!(json!(one.arguments).to_string())
            );
            failures.check(&what, &wrapped(wrapper, &[text]), &[], std::slice::from_ref(&one), None);
        }
    }
    failures.none();
}

#[test]
fn every_envelope_and_batch() {
    let mut failures = Failures::default();
    let calls = two_calls();
    let [a, b] = [0, 1].map(|i| json_call(&calls[i], "name", "arguments"));
    let [ta, tb] = [0, 1].map(|i| json_call(&calls[i], "tool", "parameters"));
    let wrappers = [
        WRAPPERS[0],
        WRAPPERS[3],
        ("```json\n", "\n```", false),
        ("```\n", "\n```", false),
        ("", "", false),
        ("Sure.\n", "", false),
    ];
    for (body, n) in [
        (format!("{{\"tool_calls\": [{a}, {b}]}}"), 2),
        (format!("{{\"tool_calls\": {a}}}"), 1),
        (format!("{{\"tool_call\": {a}}}"), 1),
        (format!("{{\"function_call\": {a}}}"), 1),
        (format!("{{\"function\": {a}}}"), 1),
        (format!("{{\"type\": \"function\", \"function\": {a}}}"), 1),
        (format!("{{\"id\": \"x\", \"type\": \"function\", \"function\": {a}}}"), 1),
        (
            format!(
                "[{{\"type\": \"function\", \"function\": {a}}}, {{\"type\": \"function\", \"function\": {b}}}]"
            ),
            2,
        ),
        (format!("{{\"tool_calls\": [{{\"id\": \"x\", \"type\": \"function\", \"function\": {a}}}]}}"), 1),
        (
            format!(
                "{{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{{\"id\": \"x\", \"type\": \"function\", \"function\": {a}}}]}}"
            ),
            1,
        ),
        (format!("{{\"calls\": [{ta}, {tb}]}}"), 2),
        (format!("{{\"name\": \"agent__batch\", \"arguments\": {{\"calls\": [{ta}, {tb}]}}}}"), 2),
        (format!("{{\"name\": \"agent__batch\", \"arguments\": {{\"calls\": [{a}, {b}]}}}}"), 2),
        (format!("{{\"tool\": \"batch\", \"parameters\": {{\"tool_calls\": [{ta}, {tb}]}}}}"), 2),
        (
            format!(
                "{{\"name\": \"multi_tool_use.parallel\", \"arguments\": {{\"tool_uses\": [{}]}}}}",
                json_call(&calls[0], "recipient_name", "parameters")
            ),
            1,
        ),
        (
            format!(
                "{{\"tool_uses\": [{}, {}]}}",
                json_call(&calls[0], "recipient_name", "parameters"),
                json_call(&calls[1], "recipient_name", "parameters")
            ),
            2,
        ),
        (format!("{a}\n{b}"), 2),
        (format!("{a}, {b}"), 2),
        (format!("{a}; {b}"), 2),
        (format!("[{a},\n {b},]"), 2),
        (format!("[\n  {a}\n]"), 1),
        (
            format!(
                "{{\"type\": \"tool_use\", \"id\": \"toolu_1\", \"name\": \"{}\", \"input\": {}}}",
                calls[0].name,
                json!(calls[0].arguments)
            ),
            1,
        ),
    ] {
        for wrapper in wrappers {
            let said = wrapped(wrapper, std::slice::from_ref(&body));
            let content = wrapper.0.starts_with("Sure").then_some("Sure.");
            failures.check("batch", &said, &tools(), &calls[..n], content);
            failures.check("batch", &said, &[], &calls[..n], content);
        }
    }
    failures.none();
}

#[test]
fn every_slip_of_json() {
    let mut failures = Failures::default();
    let wrappers = [
        WRAPPERS[0],
        WRAPPERS[3],
        WRAPPERS[23],
        ("```json\n", "\n```", false),
        ("```tool\n", "\n```", false),
        ("", "", false),
        ("I do it:\n", "", false),
    ];
    let one = |arguments: Value| call("f_x", arguments);
    for (said, expected) in [
        ("{'name': 'f_x', 'arguments': {'a': 'it is'}}", one(json!({"a": "it is"}))),
        ("{'name': 'f_x', 'arguments': {'a': 'it\\'s'}}", one(json!({"a": "it's"}))),
        (
            "{'name': 'f_x', 'arguments': {'a': \"it's\", 'b': None, 'c': [True, False]}}",
            one(json!({"a": "it's", "b": null, "c": [true, false]})),
        ),
        ("{\"name\": \"f_x\", \"arguments\": {\"a\": NaN}}", one(json!({"a": "NaN"}))),
        ("{\"name\": \"f_x\", \"arguments\": {\"a\": 1,}}", one(json!({"a": 1}))),
        ("{\"name\": \"f_x\", \"arguments\": {\"a\": [1, 2, ], }, }", one(json!({"a": [1, 2]}))),
        ("{\"name\": \"f_x\", // the tool\n \"arguments\": {\"a\": 1 /* one */}}", one(json!({"a": 1}))),
        ("{\"name\": \"f_x\", # the tool\n \"arguments\": {\"a\": 1}}", one(json!({"a": 1}))),
        ("{name: \"f_x\", arguments: {a: 1}}", one(json!({"a": 1}))),
        ("{name: 'f_x', arguments: {a: 'b'}}", one(json!({"a": "b"}))),
        (
            "{\"name\": \"f_x\", \"arguments\": {\"a\": \"line\nbreak\ttab\"}}",
            one(json!({"a": "line\nbreak\ttab"})),
        ),
        (
            "{\"name\": \"f_x\", \"arguments\": {\"a\": \"C:\\dir\\file\"}}",
            one(json!({"a": "C:\\dir\u{c}ile"})),
        ),
        (
            "{\"name\": \"f_x\", \"arguments\": {\"a\": \"say \"hi\" to\"}}",
            one(json!({"a": "say \"hi\" to"})),
        ),
        ("{\"name\": \"f_x\", \"arguments\": {\"a\": \"x\"}", one(json!({"a": "x"}))),
        (
            "{\"name\": \"f_x\", \"arguments\": {\"a\": {\"b\": [1, {\"c\": 2}]",
            one(json!({"a": {"b": [1, {"c": 2}]}})),
        ),
        ("{\"name\": \"f_x\", \"arguments\": {\"a\": [1, 2}}", one(json!({"a": [1, 2]}))),
        (
            "{\"name\": \"f_x\", \"arguments\": {\"a\": \"x\", \"b\": 01.50}}",
            one(json!({"a": "x", "b": 1.5})),
        ),
        (
            "{\"name\": \"f_x\", \"arguments\": {\"a\": +5, \"b\": .5, \"c\": 1_000}}",
            one(json!({"a": 5, "b": 0.5, "c": 1000})),
        ),
        ("{\"name\": \"f_x\" \"arguments\": {\"a\": 1}}", one(json!({"a": 1}))),
        ("{\"name\": \"f_x\", \"arguments\": {\"a\": 1 \"b\": 2}}", one(json!({"a": 1, "b": 2}))),
        ("{{\"name\": \"f_x\", \"arguments\": {\"a\": 1}}}", one(json!({"a": 1}))),
        ("{\"name\": \"f_x\", \"arguments\": \"{'a': True}\"}", one(json!({"a": true}))),
        ("{\"name\": \"f_x\", \"arguments\": \"\"}", one(json!({}))),
        ("{\"name\": \"f_x\", \"arguments\": null}", one(json!({}))),
        (
            "{\"name\": \"f_x\", \"arguments\": {\"a\": \"</tool_call> ``` [/TOOL_CALLS]\"}}",
            one(json!({"a": "</tool_call> ``` [/TOOL_CALLS]"})),
        ),
        (
            "{\"name\": \"f_x\", \"arguments\": {\"a\": \"\\u00e9\\ud83d\\ude00 日本\"}}",
            one(json!({"a": "é😀 日本"})),
        ),
        (
            "\n\n  {\n\t\"name\" : \"f_x\" ,\n\t\"arguments\" : {\n\t\t\"a\" : 1\n\t}\n  }  \n",
            one(json!({"a": 1})),
        ),
        (
            "{\"name\": \"f_x\", \"arguments\": {\"a\": \"\"\"long\n\"text\" here\"\"\"}}",
            one(json!({"a": "long\n\"text\" here"})),
        ),
    ] {
        for wrapper in wrappers {
            let content = wrapper.0.starts_with("I do").then_some("I do it:");
            failures.check(
                "slip",
                &wrapped(wrapper, &[said.to_owned()]),
                &[],
                std::slice::from_ref(&expected),
                content,
            );
        }
    }
    failures.none();
}
