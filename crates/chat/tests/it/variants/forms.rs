//! The forms of the families and of other schools, what is no call, and calls that break off.

use serde_json::{Value, json};
use toolgate_chat::ToolFormat as _;
use toolgate_chat::fallback::extract_typed;
use toolgate_chat::format::Family;

use super::{Failures, WRAPPERS, calls_of, json_call, tools, two_calls, wrapped};
use crate::support::call;

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
