//! One call in every wrapper, spelled in every way models spell it, with text around it and without: the fallback parser
//! finds it, gives back the text, and makes nothing up.

use serde_json::{Value, json};
use toolgate_chat::fallback::{Extraction, extract_typed};
use toolgate_chat::format::Family;
use toolgate_chat::{ToolCall, ToolFormat, ToolSpec};

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

#[test]
fn every_family_with_text_around_it() {
    let mut failures = Failures::default();
    let calls = two_calls();
    for name in Family::names() {
        let family = Family::named(&name).unwrap();
        for n in [1, 2] {
            let said = family.render_calls(&calls[..n], &tools());
            let check = &mut |text: String, content: Option<&str>| {
                failures.check(&format!("{name} x{n}"), &text, &tools(), &calls[..n], content);
            };
            check(said.clone(), None);
            check(format!("{said}\n"), None);
            check(said.replace('\n', "\r\n"), None);
            if name == "functionary_v3_2" {
                // Without the mark that its prompt ends with, a name alone is a call only as a whole text.
                continue;
            }
            check(format!("I look.\n\n{said}"), Some("I look."));
            check(format!("{said}\nThat is it."), Some("That is it."));
            check(format!("<think>Perhaps a call.</think>\n{said}"), None);
            check(format!("I think of it.</think>\n\n{said}"), None);
            check(format!("{said}<|im_end|>"), None);
            check(format!("Well.\n{said}</s>\n"), Some("Well."));
        }
    }
    failures.none();
}

#[test]
fn forms_of_other_schools() {
    let mut failures = Failures::default();
    let one = call("find_notes", json!({"query": "green tea", "limit": 3}));
    let json = "{\"query\": \"green tea\", \"limit\": 3}";
    let elements = "<query>green tea</query>\n<limit>3</limit>";
    for said in [
        format!("<find_notes>\n{elements}\n</find_notes>"),
        format!("<find_notes>{json}</find_notes>"),
        format!("<tool_call>\n<name>find_notes</name>\n<arguments>{json}</arguments>\n</tool_call>"),
        format!("<tool_use>\n  <tool_name>find_notes</tool_name>\n  <parameters>\n{elements}\n  </parameters>\n</tool_use>"),
        format!("<function_call><find_notes>\n{elements}\n</find_notes></function_call>"),
        format!("Action: find_notes\nAction Input: {json}"),
        format!("find_notes\n{json}"),
        "<function_calls>\n<invoke name=\"find_notes\">\n<parameter name=\"query\">green tea</parameter>\n<parameter name=\"limit\">3</parameter>\n</invoke>\n</function_calls>".to_owned(),
        "[find_notes(query='green tea', limit=3)]".to_owned(),
        "<tool_call>find_notes(query='green tea', limit=3)</tool_call>".to_owned(),
        "```tool_code\nfind_notes(query=\"green tea\", limit=3)\n```".to_owned(),
    ] {
        failures.check("alone", &said, &tools(), std::slice::from_ref(&one), None);
        let longer = format!("I look.\n\n{said}\n\nOne moment.");
        failures.check("in text", &longer, &tools(), std::slice::from_ref(&one), Some("I look.\n\nOne moment."));
    }
    // What names no known tool, or no parameter of it, is markup like any other.
    for text in [
        "<notes>\n<query>green tea</query>\n</notes>",
        "<find_notes>\n<colour>green</colour>\n</find_notes>",
        "The tag <find_notes> finds notes.",
        "Action: look\nAction Input: {\"a\": 1}",
        "Action: find_notes\nInput: {\"a\": 1}",
    ] {
        failures.check("markup", text, &tools(), &[], Some(text));
    }
    failures.none();
}

#[test]
fn what_is_no_call_stays_text() {
    let mut failures = Failures::default();
    for text in [
        "{\"action\": \"open\", \"target\": \"door\"}",
        "{\"action\": \"Final Answer\", \"action_input\": \"It is 12 degrees.\"}",
        "{\"name\": \"Ada\", \"input\": \"none\"}",
        "{\"answer\": {\"name\": \"f\", \"arguments\": {\"a\": 1}}}",
        "[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"Ada\"}]",
        "[1, 2, {\"name\": \"f\", \"arguments\": {}}]",
        "```python\nfind_notes(query=\"tea\")\n```",
        "```bash\ntool '{\"name\": \"f\", \"arguments\": {}}'\n```",
        "```yaml\nname: f\narguments:\n  a: 1\n```",
        "Use `{\"name\": \"f\", \"arguments\": {}}` to call it.",
        "Put ``<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>`` around it.",
        "The list [find_notes(query)] is short.",
        "See [find_notes(query='tea')](https://example.org).",
        "I would use find_notes(query=\"tea\") here.",
        "<b>bold</b> and <tool>hammer</tool> and <function>sin</function>",
        "<html><body><tools><a/></tools></body></html>",
        "The marker [TOOL_CALLS] starts calls in some models.",
        "Some models write `<|python_tag|>` first, others <tool_call>.",
        "`<|tool_call|>` and `<|tool_call_start|>` are tokens.",
        "functools[cache] is a decorator; functools.reduce too.",
        ">>> print(1)\n1\n>>> x = {\"a\": 1}",
        ">>>f\nis how it begins.",
        "to=functions.f is in the header.",
        "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}}",
        "if (a < b && c > d) { return [x for x in y]; }",
        "call:me{maybe}",
        "key: <arg_key> and <arg_value> are the tags.",
        "<function=NAME> opens, <parameter=KEY> follows.",
        "Text with `<|channel|>` alone.",
        "<invoke name=\"x\"> is not closed here",
        "1 < 2 [3] {4} `5` ```6``` 't' f",
        "Résumé: {« name »: 1}",
        "{\"tool_calls\": []}",
        "{\"tool_calls\": null, \"content\": \"Hello\"}",
        "[]",
        "{}",
        "[{}]",
        "null",
    ] {
        failures.check("no call", text, &[], &[], Some(text));
        failures.check("no call", text, &tools(), &[], Some(text));
        let longer = format!("Well:\n{text}\nSo it is.");
        failures.check("no call in text", &longer, &tools(), &[], Some(&longer));
    }
    failures.none();
}

#[test]
fn a_call_that_breaks_off() {
    let mut failures = Failures::default();
    let [one, other] = two_calls();
    let both = [one.clone(), other.clone()];
    let all = [json_call(&one, "name", "arguments"), json_call(&other, "name", "arguments")];
    for wrapper in WRAPPERS.iter().filter(|wrapper| !wrapper.1.is_empty()) {
        // Only the closing is missing.
        let (open, _, is_list) = *wrapper;
        let unclosed = wrapped((open, "", is_list), &all[..1]);
        failures.check("unclosed", &unclosed, &tools(), &both[..1], None);
        failures.check("unclosed", &format!("Hm. {unclosed}"), &tools(), &both[..1], Some("Hm."));
        // The second call is cut in the middle of a value: the first one stands.
        let whole = wrapped(*wrapper, &all);
        let cut = &whole[..whole.find("Europe").unwrap()];
        let found = extract_typed(cut, &tools());
        if is_list {
            continue;
        }
        if found.calls.len() != 1 || !found.calls[0].same_request(&one) {
            failures.0.push(format!("cut {wrapper:?}: {cut:?} {}", calls_of(&found)));
        }
    }
    for name in Family::names() {
        let family = Family::named(&name).unwrap();
        let said = family.render_calls(&both, &tools());
        for end in said.char_indices().map(|(i, _)| i) {
            // However a text is cut, no call is made up: what is found are the first calls, or a part of one.
            let found = extract_typed(&said[..end], &tools());
            let right = found.calls.iter().zip(&both).all(|(found, call)| {
                found.name == call.name
                    && found.arguments.iter().all(|(key, value)| match (value, call.arguments.get(key)) {
                        // Brackets that are missing at the end are closed.
                        (Value::Array(found), Some(Value::Array(all))) => all.starts_with(found),
                        (found, whole) => Some(found) == whole,
                    })
            });
            if !right || found.calls.len() > 2 {
                failures.0.push(format!("{name} cut: {:?} {}", &said[..end], calls_of(&found)));
                break;
            }
        }
    }
    failures.none();
}
