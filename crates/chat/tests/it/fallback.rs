//! The fallback parser: what it takes for calls, what it leaves alone, and that cutting a text changes nothing.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use toolgate_chat::ToolSpec;
use toolgate_chat::fallback::{Extraction, RepairKind, Stream, extract, extract_typed};

use crate::targets::{PIECES, Read, extracted};

fn calls(found: &Extraction) -> Vec<Value> {
    found.calls.iter().map(|call| json!([call.name, call.arguments])).collect()
}

/// Checks calls and content; what streams, in pieces of one and of seven bytes, must be the same.
pub(crate) fn check(text: &str, tools: &[ToolSpec], expected: Value, content: Option<&str>) -> Extraction {
    let found = extract_typed(text, tools);
    assert_eq!(Value::from(calls(&found)), expected, "{text}");
    assert_eq!(found.content.as_deref(), content, "{text}");
    for size in [1, 7] {
        assert_eq!(extracted(text, tools, &[size]), Read::of(&found), "{text} in pieces of {size}");
    }
    found
}

#[test]
fn reads_a_call_in_every_wrapper() {
    let one = json!([["find_notes", {"query": "tea"}]]);
    let body = r#"{"name": "find_notes", "arguments": {"query": "tea"}}"#;
    for text in [
        format!("<tool_call>\n{body}\n</tool_call>"),
        format!("<tool_calls>[{body}]</tool_calls>"),
        format!("<tools>{body}</tools>"),
        format!("<tool>{body}</tool>"),
        format!("<function_call>{body}</function_call>"),
        format!("<function_call> {body}"),
        "<function=find_notes>{\"query\": \"tea\"}</function>".to_owned(),
        "<function=find_notes><parameter=query>tea</parameter></function>".to_owned(),
        "<invoke name=\"find_notes\"><parameter name=\"query\">tea</parameter></invoke>".to_owned(),
        "<anything:tool_call><invoke name=\"find_notes\"><parameter name=\"query\">tea</parameter></invoke></anything:tool_call>".to_owned(),
        format!("<TOOLCALL>[{body}]</TOOLCALL>"),
        format!("<|tool_call|>[{body}]<|/tool_call|>"),
        "<|tool_call_start|>[find_notes(query='tea')]<|tool_call_end|>".to_owned(),
        format!("[TOOL_CALLS][{body}]"),
        "[TOOL_CALLS]find_notes[ARGS]{\"query\": \"tea\"}".to_owned(),
        format!("[TOOL_REQUEST]{body}[END_TOOL_REQUEST]"),
        format!("functools[{body}]"),
        format!("<|python_tag|>{body}"),
        "<|python_tag|>find_notes.call(query=\"tea\")".to_owned(),
        format!("```tool\n{body}\n```"),
        format!("```tool_call\n{body}\n```"),
        format!("```json\n{body}\n```"),
        format!("```\n{body}\n```"),
        format!("```json\n{body}"),
        format!("```xml\n<tool_call>{body}</tool_call>\n```"),
        body.to_owned(),
        format!("[{body}]"),
        "{\"tool\": \"find_notes\", \"parameters\": {\"query\": \"tea\"}}".to_owned(),
        "{\"tool_name\": \"find_notes\", \"input\": {\"query\": \"tea\"}}".to_owned(),
        "{\"type\": \"function\", \"function\": {\"name\": \"find_notes\", \"arguments\": \"{\\\"query\\\": \\\"tea\\\"}\"}}".to_owned(),
        "{\"function\": \"find_notes\", \"args\": {\"query\": \"tea\"}}".to_owned(),
        format!("{{\"tool_calls\": [{body}]}}"),
        format!("{{\"tool_call\": {body}}}"),
        ">>>find_notes\n{\"query\": \"tea\"}".to_owned(),
        "find_notes\n{\"query\": \"tea\"}".to_owned(),
        "<|channel|>commentary to=functions.find_notes <|constrain|>json<|message|>{\"query\": \"tea\"}<|call|>".to_owned(),
        "<|start|>assistant to=functions.find_notes<|channel|>commentary json<|message|>{\"query\": \"tea\"}".to_owned(),
        "<start_function_call>call:find_notes{query:<escape>tea<escape>}<end_function_call>".to_owned(),
        "<|tool_call>call:find_notes{query:<|\"|>tea<|\"|>}<tool_call|>".to_owned(),
        "<tool_call>find_notes\n<arg_key>query</arg_key>\n<arg_value>tea</arg_value>\n</tool_call>".to_owned(),
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>find_notes\n```json\n{\"query\": \"tea\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>".to_owned(),
        "<｜tool▁call▁begin｜>find_notes<｜tool▁sep｜>{\"query\": \"tea\"}<｜tool▁call▁end｜>".to_owned(),
        "<|tool_call_begin|>functions.find_notes:0<|tool_call_argument_begin|>{\"query\": \"tea\"}<|tool_call_end|>".to_owned(),
        "<｜DSML｜invoke name=\"find_notes\"><｜DSML｜parameter name=\"query\" string=\"true\">tea</｜DSML｜parameter></｜DSML｜invoke>".to_owned(),
        "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"find_notes\", \"parameters\": {\"query\": \"tea\"}}]<|END_ACTION|>".to_owned(),
        "<|tools_prefix|>[{\"find_notes\": {\"query\": \"tea\"}}]<|tools_suffix|>".to_owned(),
        "<function name=\"find_notes\"><param name=\"query\"><![CDATA[tea]]></param></function>".to_owned(),
        "[find_notes(query=\"tea\")]".to_owned(),
        "<|open|>tools<|sep|><|open|>call tool=\"find_notes\"<|sep|><|open|>argument key=\"query\" type=\"string\"<|sep|>tea<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>".to_owned(),
        "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"find_notes\">]<]minimax[>[<query>tea]<]minimax[>[</query>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>".to_owned(),
    ] {
        check(&text, &[], one.clone(), None);
        // The same after some words, unless it is only a call as a whole text; without any mark, on a line of its own.
        if !text.starts_with("find_notes") && !text.starts_with("[find") {
            let separator = if text.starts_with(['{', '[']) && !text.starts_with("[TOOL") { "\n" } else { " " };
            let said = format!("I look it up.{separator}{text}");
            check(&said, &[], one.clone(), Some("I look it up."));
        }
    }
}

#[test]
fn reads_what_started_it() {
    // A batch inside a tag, its calls with names of their own.
    let batch = r#"<tool_call>{"name": "agent__batch", "arguments": {"calls": [
        {"id": "b1", "tool": "stat_file", "parameters": {"path": "Makefile"}}, {"id": "b2", "tool": "clock", "parameters": {}}]}}</tool_call>"#;
    let found = check(batch, &[], json!([["stat_file", {"path": "Makefile"}], ["clock", {}]]), None);
    assert_eq!(found.calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["b1", "b2"]);

    let two = "<tools>{\"name\": \"clock\", \"arguments\": {}}</tools>\n<tools>{\"name\": \"stat_file\", \"arguments\": {\"path\": \"a\"}}</tools>";
    check(two, &[], json!([["clock", {}], ["stat_file", {"path": "a"}]]), None);
    check(
        "<tools>{\"name\": \"clock\", \"arguments\": {}}</tools>\nThen I will tell you.",
        &[],
        json!([["clock", {}]]),
        Some("Then I will tell you."),
    );
    let python = "<tool_call>{'tool': 'set_lamp', 'parameters': {'on': True, 'colour': None}}</tool_call>";
    let found = check(python, &[], json!([["set_lamp", {"on": true, "colour": null}]]), None);
    let kinds: Vec<RepairKind> = found.repairs.iter().map(|repair| repair.kind).collect();
    assert!(
        kinds.contains(&RepairKind::SingleQuotes) && kinds.contains(&RepairKind::PythonLiteral),
        "{kinds:?}"
    );
    check(
        "Let me see what time it is.\n\n```\n{\"tool\": \"clock\", \"parameters\": {}}\n```\nOne moment.",
        &[],
        json!([["clock", {}]]),
        Some("Let me see what time it is.\n\n\nOne moment."),
    );
    // Nothing usable between the tags: gone from the text, kept as a place.
    let broken = "Working on it.\n<tool_call>\n{\"name\": \"clock\", \"arguments\": {]}\n</tool_call>";
    let found = check(broken, &[], json!([]), Some("Working on it."));
    assert_eq!(found.dropped.len(), 1);
    let span = found.dropped[0];
    assert!(broken[span.start..span.end].starts_with("<tool_call>"));
}

#[test]
fn leaves_ordinary_text_alone() {
    for text in [
        "",
        "  \n Hello there  ",
        "A model wraps each call in <tool_call> and </tool_call>, with JSON in between.",
        "`<tool_call>{\"name\": \"x\", \"arguments\": {}}</tool_call>` is what a call looks like.",
        "The tag <tool_call> is special. So is <tools>, which lists the tools, and <function=name> too.",
        "{\"name\": \"Ada\", \"born\": 1815}",
        "```json\n{\"name\": \"app\", \"port\": 80}\n```",
        "```python\nprint('<tool_call>{\"name\": \"x\", \"arguments\": {}}</tool_call>')\n```",
        "```\ncurl -d '{\"name\": \"x\", \"arguments\": {}}' host\n```",
        "[a link](https://example.org) and [another one]",
        "[f(x)] is not in the image.",
        "for { x[0] } and f(a=1), {\"parameters\": {}}",
        "{\"name\": \"f\", \"description\": \"d\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}",
        "a < b > c <| d |> [TOOL_CALLS",
        "Note\n{\"a\": 1} is an object.",
        "<response>fine</response> <xml/> <json>no</json>",
        "{\"outer\": {\"name\": \"x\", \"arguments\": {}}}",
        "<tool_call>{\"name\": \"x\", \"arg",
    ] {
        let found = check(text, &[], json!([]), Some(text));
        assert!(found.repairs.is_empty() && found.pattern.is_none() && found.dropped.is_empty(), "{text}");
    }
}

#[test]
fn mends_what_can_be_read_one_way_only() {
    use RepairKind::*;
    for (arguments, expected, kind) in [
        ("{'a': 'x'}", json!({"a": "x"}), SingleQuotes),
        ("{\"a\": True}", json!({"a": true}), PythonLiteral),
        ("{\"a\": [1, 2,],}", json!({"a": [1, 2]}), TrailingComma),
        ("{\"a\": 1 /* one */}", json!({"a": 1}), Comment),
        ("{a: 1}", json!({"a": 1}), UnquotedKey),
        ("{\"a\": \"x\ny\"}", json!({"a": "x\ny"}), ControlCharacter),
        ("{\"a\": \"\\d\"}", json!({"a": "\\d"}), InvalidEscape),
        ("{\"a\": \"say \"hi\" now\"}", json!({"a": "say \"hi\" now"}), UnescapedQuote),
        ("{\"a\": {\"b\": [1, 2]", json!({"a": {"b": [1, 2]}}), UnclosedBracket),
        ("{\"a\": 1}}", json!({"a": 1}), ExtraBracket),
    ] {
        let text = match kind {
            UnclosedBracket => {
                format!("<tool_call>{{\"name\": \"f\", \"arguments\": {arguments}</tool_call>")
            }
            _ => format!("<tool_call>{{\"name\": \"f\", \"arguments\": {arguments}}}</tool_call>"),
        };
        let found = check(&text, &[], json!([["f", expected]]), None);
        assert!(found.repairs.iter().any(|repair| repair.kind == kind), "{text}: {:?}", found.repairs);
    }
    let wrong = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tools>";
    assert_eq!(check(wrong, &[], json!([["f", {}]]), None).repairs[0].kind, WrongClosingTag);
    let missing = "<tool_call>{\"name\": \"f\", \"arguments\": {}}";
    assert_eq!(check(missing, &[], json!([["f", {}]]), None).repairs[0].kind, MissingClosingTag);
    // Nothing is made up: a text that breaks off inside a value is no call.
    for cut in [
        "{\"name\": \"f\", \"arguments\": {\"a\": \"x",
        "{\"name\": \"f\", \"arguments\": ",
        "{\"name\": \"f\"",
    ] {
        check(cut, &[], json!([]), Some(cut));
    }
}

#[test]
fn reasoning_is_not_searched() {
    let call = "<tool_call>{\"name\": \"clock\", \"arguments\": {}}</tool_call>";
    let other = "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>";
    let thought = format!("maybe {other}?");
    for (open, close) in [("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("<seed:think>", "</seed:think>")]
    {
        let found = check(&format!("{open}{thought}{close}\n{call}"), &[], json!([["clock", {}]]), None);
        assert_eq!(found.reasoning.as_deref(), Some(thought.as_str()));
    }
    // The prompt had opened it.
    let found = check(&format!("{thought}</think>{call}"), &[], json!([["clock", {}]]), None);
    assert_eq!(found.reasoning.as_deref(), Some(thought.as_str()));
    // Never closed: a call at the very end was meant, one in the middle was not.
    let found = check(&format!("<think>I call it. {call}"), &[], json!([["clock", {}]]), None);
    assert_eq!(found.reasoning.as_deref(), Some("I call it."));
    let found = check(&format!("<think>I could {call} but hm"), &[], json!([]), None);
    assert_eq!(found.reasoning, Some(format!("I could {call} but hm")));
}

#[test]
fn schemas_type_bare_text() {
    let tool = ToolSpec::new("set", "", json!({"properties": {
        "n": {"type": "integer"}, "s": {"type": "string"}, "o": {"type": "object"}, "b": {"type": "boolean"},
        "u": {"anyOf": [{"type": "number"}, {"type": "string"}]}, "z": {"type": ["string", "null"]},
    }})).unwrap();
    for (name, text, expected) in [
        ("n", "3", json!(3)),
        ("s", "3", json!("3")),
        ("o", "{'a': True}", json!({"a": true})),
        ("b", "True", json!(true)),
        ("u", "2.5", json!(2.5)),
        ("u", "2.5 m", json!("2.5 m")),
        ("z", "null", json!(null)),
        ("z", "nul", json!("nul")),
        ("n", "three", json!("three")),
        ("unknown", "3", json!("3")),
    ] {
        let expected = json!([["set", {name: expected}]]);
        for text in [
            format!(
                "<tool_call>\n<function=set>\n<parameter={name}>\n{text}\n</parameter>\n</function>\n</tool_call>"
            ),
            format!("<tool_call>set\n<arg_key>{name}</arg_key>\n<arg_value>{text}</arg_value>\n</tool_call>"),
            format!("<invoke name=\"set\"><parameter name=\"{name}\">{text}</parameter></invoke>"),
        ] {
            check(&text, std::slice::from_ref(&tool), expected.clone(), None);
        }
    }
}

/// Texts made of the pieces that matter.
fn hostile() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "<tool_call>",
        "</tool_call>",
        "<tools>",
        "</tools>",
        "<function=f>",
        "</function>",
        "<parameter=a>",
        "</parameter>",
        "<think>",
        "</think>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "[THINK]",
        "[/THINK]",
        "```",
        "```json\n",
        "`",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        ":",
        ",",
        "{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
        "{\"name\": \"f\"",
        "f(a=1)",
        "[f(a='x')]",
        "\n",
        " ",
        "x",
        "<|tool_call>",
        "<tool_call|>",
        "call:f{a:",
        "<|\"|>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁sep｜>",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
        "<|channel|>",
        "<|message|>",
        "to=functions.f",
        "<|open|>",
        "<|sep|>",
        "functools[",
        ">>>f\n",
        "]<]minimax[>[",
        "<invoke name=\"f\">",
        "</invoke>",
        "é",
        "\u{0}",
        "\\",
        "/*",
        "*/",
        "//",
        "<|python_tag|>",
        "<",
        "f",
        "t",
        "1",
        "true",
    ]);
    prop_oneof![
        6 => proptest::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, rng_seed: RngSeed::Fixed(11), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_and_spans_lie_in_it(text in hostile()) {
        let found = extract(&text);
        for span in &found.dropped {
            prop_assert!(text.get(span.start..span.end).is_some_and(|text| !text.is_empty()), "{:?}", span);
        }
        for repair in &found.repairs {
            prop_assert!(repair.offset <= text.len());
        }
        if let Some(content) = &found.content {
            prop_assert!(crate::targets::is_within(content, &text), "{:?}", content);
        }
        if let Some(content) = &found.content {
            prop_assert!(content.len() <= text.len());
        }
    }

    #[test]
    fn cutting_a_text_changes_nothing(text in hostile(), size in 1..9_usize) {
        prop_assert_eq!(extracted(&text, &[], &[size]), Read::of(&extract(&text)), "{:?}", text);
    }
}

/// The bytes looked at when a text of this size is read, in one piece and in many.
fn work(unit: &str, size: usize) -> [u64; 2] {
    let text = unit.repeat(size / unit.len());
    [text.len(), 64].map(|piece| {
        let mut stream = Stream::new(&[]);
        for piece in text.as_bytes().chunks(piece) {
            stream.push(piece);
        }
        stream.work()
    })
}

#[test]
fn work_grows_with_the_text_and_no_faster() {
    for unit in hostile_units::UNITS {
        let [once, twice, four] = [1, 2, 4].map(|times| work(unit, times << 15));
        println!("{unit:?}: {once:?} {twice:?} {four:?}");
        for ((once, twice), four) in once.into_iter().zip(twice).zip(four) {
            assert!(twice <= once * 5 / 2 && four <= twice * 5 / 2, "{unit:?}: {once}, {twice}, {four}");
        }
    }
}

#[test]
fn no_piece_of_the_fuzz_corpus_costs_more_than_forty_looks_a_byte() {
    for unit in PIECES.iter() {
        for size in [1 << 15, 1 << 17] {
            for looks in work(unit, size) {
                assert!(looks <= 40 * size as u64, "{unit:?}: {looks} looks for {size} bytes");
            }
        }
    }
}

/// Texts that, repeated, ask much of a careless reader.
mod hostile_units {
    pub(super) const UNITS: &[&str] = &[
        "<tool_call>",
        "<tool_call>{",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"",
        "{",
        "[",
        "{\"a\":",
        "[{\"a\":",
        "{\"name\": \"f\", \"arguments\": {}}, ",
        "\"",
        "`",
        "```json\n{",
        "<",
        "<|",
        "[TOOL_CALLS]",
        "[TOOL_CALLS]f[ARGS]{",
        "<function=f><parameter=a>",
        "<think>",
        "<think><tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
        "</think>",
        "<|channel|>",
        "to=functions.f<|channel|>",
        "<arg_key>",
        "<tool_call>f<arg_key>a</arg_key><arg_value>",
        "[f(a='",
        "functools[{",
        "]<]minimax[>[<tool_call>",
        "<|open|>tools<|sep|>",
        "<tool_call>{} </tool_call>",
        "a plain sentence, with nothing in it. ",
        "f t > ] ",
        "<tool_response>",
        "{ ",
        "[[{",
        "{\"a\" ",
        "\"{",
        "{\"x\": \"",
        "{'a': ",
        "{\"a\":[1,{\"b\":",
        "<tool_call>{\"name\": ",
        "<function=f>\n<parameter=a>\n",
        "<function=f>\n<parameter=a>\nx\n</parameter>\n",
        "<parameter=a>x</parameter>",
        "</parameter>\n",
        "<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value>",
        "print(",
        "[f(a=",
        "| {\"name\": \"f\", \"arguments\": {}} ",
        "> ",
        "analysis",
        "<|x|>",
    ];
}
