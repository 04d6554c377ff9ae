//! Values that hold what ends values: they come back whole, in each way of writing them, or nothing does.

use serde_json::{Value, json};
use toolgate_chat::ToolSpec;
use toolgate_chat::fallback::{RepairKind, extract, extract_typed};

use crate::fallback::check;

fn tools() -> Vec<ToolSpec> {
    let text = json!({"type": "string"});
    let save = json!({"type": "object", "properties": {"text": text, "file": text}});
    vec![ToolSpec::new("save", "", save).unwrap(), ToolSpec::new("clock", "", json!({})).unwrap()]
}

type Way = (&'static str, fn(&str) -> String);

/// One call of `save` with a text in it, in each way that writes values bare.
const WAYS: [Way; 5] = [
    ("function", |text| {
        format!(
            "<tool_call>\n<function=save>\n<parameter=text>\n{text}\n</parameter>\n<parameter=file>\nx.md\n</parameter>\n</function>\n</tool_call>"
        )
    }),
    ("invoke", |text| {
        format!(
            "<invoke name=\"save\"><parameter name=\"text\">{text}</parameter><parameter name=\"file\">x.md</parameter></invoke>"
        )
    }),
    ("pairs", |text| {
        format!(
            "<tool_call>save\n<arg_key>text</arg_key>\n<arg_value>{text}</arg_value>\n<arg_key>file</arg_key>\n<arg_value>x.md</arg_value>\n</tool_call>"
        )
    }),
    ("gemma", |text| {
        format!("<|tool_call>call:save{{text:<|\"|>{text}<|\"|>,file:<|\"|>x.md<|\"|>}}<tool_call|>")
    }),
    ("minimax", |text| {
        let n = "]<]minimax[>[";
        format!(
            "{n}<tool_call>{n}<invoke name=\"save\">{n}<text>{text}{n}</text>{n}<file>x.md{n}</file>{n}</invoke>{n}</tool_call>"
        )
    }),
];

fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "A value ends with </parameter> in this format.",
        "First </function>, then </invoke>, then </tool_call>.",
        "<parameter=width> sets how wide it is",
        "see <parameter=file> for the place",
        "In the other format </arg_value> does it, after <arg_key>.",
        "<arg_key>a</arg_key><arg_value>b</arg_value>",
        "</parameter>\n</function>\n</tool_call>\nand on",
        "one\n</parameter>\ntwo",
        "<parameter=file>\ninner\n</parameter>",
        "quotes <|\"|> here",
        "</text> and <text>",
        "it closes with ]]> there",
        "</think> is no end here, nor is <think>",
        "{\"a\": \"</tool_call>\"}",
        "```\n<parameter=q>\nv\n</parameter>\n```\nend",
        "```xml\nx</parameter>\n```\nand y</arg_value>\n```\nend",
        "a\n</parameter>\n</function>\n<p>x</p>",
        "</arg_value></tool_call><br>more",
    ]
    .map(str::to_owned)
    .to_vec();
    // Whole calls, of this way and of the others, with and without words around them.
    for (_, way) in WAYS {
        texts.push(way("inner"));
        texts.push(format!("As in:\n{}\nso it is.", way("inner")));
    }
    texts
}

#[test]
fn values_are_whole_that_hold_their_own_delimiter() {
    for (name, way) in WAYS {
        for text in texts() {
            // The quote of this way is a token, which no text of it holds beside a comma.
            if name == "gemma" && text.contains("<|\"|>,")
                || name == "minimax" && text.contains("]<]minimax[>[</text>")
            {
                continue;
            }
            let expected = json!([["save", {"text": text, "file": "x.md"}]]);
            check(&way(&text), &tools(), expected.clone(), None);
            check(
                &format!("I save it.\n{}\nDone.", way(&text)),
                &tools(),
                expected,
                Some("I save it.\n\nDone."),
            );
        }
    }
}

#[test]
fn no_value_is_cut_where_nobody_knows_its_end() {
    let unclear = [
        // The second parameter, or a line of the first one's text?
        WAYS[0].1("one\n<parameter=file>\ntwo"),
        // A parameter that takes no text, or another part of the first one's text?
        "<tool_call>\n<function=save>\n<parameter=text>\nSo:\n</parameter>\n<parameter=width>\n1\n</parameter>\nis it\n</parameter>\n<parameter=file>\nx.md\n</parameter>\n</function>\n</tool_call>".to_owned(),
        // The same without a wrapper.
        "<function=save>\n<parameter=text>\none\n</parameter>\n</parameter>\n</function>".to_owned(),
        // Closed twice on two lines: the first may be the text's own.
        "<tool_call>\n<function=save>\n<parameter=text>\none\n</parameter>\n</parameter>\n</function>\n</tool_call>".to_owned(),
    ];
    for text in unclear {
        let found = extract_typed(&text, &tools());
        assert!(found.calls.is_empty(), "{text}: {:?}", found.calls);
        assert_eq!(found.dropped.len(), 1, "{text}");
    }
    // A closing that is missing is mended where it can only be one thing.
    let missing = "<tool_call>\n<function=save>\n<parameter=text>\none\n<parameter=file>\nx.md\n</parameter>\n</function>\n</tool_call>";
    let found = check(missing, &tools(), json!([["save", {"text": "one", "file": "x.md"}]]), None);
    assert!(found.repairs.iter().any(|repair| repair.kind == RepairKind::MissingClosingTag));
}

#[test]
fn tags_that_are_missing_or_too_many() {
    let tea = json!([["save", {"text": "tea"}]]);
    let noise = "]<]minimax[>[";
    for text in [
        "<tool_call>save<arg_key>text</arg_key>tea</arg_value></tool_call>".to_owned(),
        "<tool_call>save<arg_key>text<arg_value>tea</arg_value></tool_call>".to_owned(),
        "<tool_call>save<arg_key>text</arg_key><arg_value>tea</tool_call>".to_owned(),
        "<tool_call>save<arg_key>text</arg_key><arg_value>tea</arg_value></arg_value></tool_call>".to_owned(),
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.save:0{\"text\": \"tea\"}<|tool_call_end|>".to_owned(),
        "<|tool_call_section_begin|><|tool_call_begin|>save<|tool_call_argument_begin|>{\"text\": \"tea\"}<|tool_call_end|><|tool_call_section_end|>".to_owned(),
        "functions.save:0<|tool_call_argument_begin|>{\"text\": \"tea\"}<|tool_call_end|><|tool_calls_section_end|>".to_owned(),
        "functions.save:0{\"text\": \"tea\"}<|tool_call_end|>".to_owned(),
        "functions.save:0{\"text\": \"tea\"}".to_owned(),
        "save<|tool_call_argument_begin|>{\"text\": \"tea\"}".to_owned(),
        "save[ARGS]{\"text\": \"tea\"}".to_owned(),
        "save\n<|content|>{\"text\": \"tea\"}".to_owned(),
        "<|from|>assistant\n<|recipient|>save\n<|content|>{\"text\": \"tea\"}<|stop|>".to_owned(),
        "<|tool_call>call:save{text='tea'}<tool_call|>".to_owned(),
        "<|tool_call>save{text:<|\"|>tea<|\"|>}<tool_call|>".to_owned(),
        "<|tool_call>call:save{text:<|\"|>tea<|\"|>}".to_owned(),
        format!("{noise}<tool_call>{noise}invoke name=\"save\">{noise}<text>tea{noise}</text>{noise}</invoke>{noise}</tool_call>"),
        "<tool_call>\n<function=save>\n<parameter=text>\ntea\n</parameter>\n</function>\n</function>\n</function_call_end>\n</tool_call>".to_owned(),
        "<tool_call>save</arg_value><arg_key>text</arg_key><arg_value>tea</arg_value></arg_key></tool_call>".to_owned(),
        format!("{noise}<tool_call>{noise}<invoke name=\"save\">{noise}<text>tea{noise}</invoke>{noise}</tool_call>"),
        "<tool_call><invoke name=\"save\"><text>tea</text></invoke></tool_call>".to_owned(),
        "commentary to=functions.save <|constrain|>json<|message|>{\"text\": \"tea\"}<|call|>".to_owned(),
        "<|channel|>commentary to=functions.save<|message|>{\"text\": \"tea\"}<|call|>commentary".to_owned(),
        "analysisTea it is.assistantcommentary to=functions.save json{\"text\": \"tea\"}".to_owned(),
        "{\"call\": \"save\", \"text\": \"tea\"}".to_owned(),
        "{\"call\": {\"name\": \"save\", \"arguments\": {\"text\": \"tea\"}}}".to_owned(),
        "{\"save\": {\"text\": \"tea\"}}".to_owned(),
        "save(text=\"tea\")".to_owned(),
        "<|tool_call>call:save\"{\\\"text\\\": \\\"tea\\\"}\"<tool_call|>".to_owned(),
        "<|tool_call>call:save:{text:<|\"|>tea<|\"|>}<tool_call|>".to_owned(),
        "<function=save>{\"name\": \"save\", \"arguments\": {\"text\": \"tea\"}}</function>".to_owned(),
        "<function=save>\n<parameter=text>\ntea\n</function>".to_owned(),
        "<invoke name=save><parameter name=text>tea</parameter></invoke>".to_owned(),
        "<tool_call name=\"save\">{\"text\": \"tea\"}</tool_call>".to_owned(),
        "save<arg_key>text</arg_key><arg_value>tea</arg_value></tool_call>".to_owned(),
        "<tool_call>\n<function>save</function>\n{\"text\": \"tea\"}\n</tool_call>".to_owned(),
        "```tool_code\nprint(save(text=\"tea\"))\n```".to_owned(),
        "```tool_code\nanswer = save(text=\"tea\")\nprint(answer)\n```".to_owned(),
        "```tool_code\nimport json\nsave(text=\"tea\")\n```".to_owned(),
        "```tool_code\n# Saves it.\nprint(save(text=\"tea\"))\n```".to_owned(),
        "```tool_code\nfrom api import save, clock\n\n# Now.\nsave(text=\"tea\")  # Saved.\n# Done.\n```".to_owned(),
        "```tool_code\nimport kitchen.api as api, os\napi.save(text=\"tea\")\n```".to_owned(),
        "<tool_code>\nimport json\nprint(save(text=\"tea\"))\n</tool_code>".to_owned(),
    ] {
        check(&text, &tools(), tea.clone(), None);
    }
    check("<tool_call>clock</arg_value></tool_call>", &tools(), json!([["clock", {}]]), None);
    let two = json!([["clock", {}], ["save", {"text": "tea"}]]);
    for text in [
        "<tool_call>clock\n<tool_call>save<arg_key>text</arg_key><arg_value>tea</arg_value></tool_call>",
        "[TOOL_CALLS]clock[ARGS]{}save[ARGS]{\"text\": \"tea\"}",
        "{\"name\": \"clock\", \"arguments\": {}} {\"name\": \"save\", \"arguments\": {\"text\": \"tea\"}}",
    ] {
        check(text, &tools(), two.clone(), None);
    }
    // Text may stand before and behind.
    let token =
        "I save it. functions.save:0<|tool_call_argument_begin|>{\"text\": \"tea\"}<|tool_call_end|> Done.";
    check(token, &tools(), tea.clone(), Some("I save it.  Done."));
    check("save[ARGS]{\"text\": \"tea\"}\nDone.", &[], tea.clone(), Some("Done."));
    check("<think>Hm.</think>\nsave[ARGS]{\"text\": \"tea\"}", &[], tea, None);
    // A program that does other things is dropped whole.
    for text in [
        "```tool_code\nimport os\nos.remove(path=\"tea\")\n```",
        "```tool_code\nimport json\n```",
        "```tool_code\n# Nothing to do.\n```",
        "```tool_code\nfor name in names:\n    save(text=name)\n```",
    ] {
        assert_eq!(check(text, &tools(), json!([]), None).dropped.len(), 1, "{text}");
    }
    let heading = "<tool_call>\n# save\n{\"text\": \"tea\"}\n</tool_call>";
    assert_eq!(check(heading, &tools(), json!([]), None).dropped.len(), 1);
    let python = "```python\nimport json\nsave(text=\"tea\")\n```";
    check(python, &tools(), json!([]), Some(python));
    // Nothing of this is a call where the tool, or a parameter, is not offered.
    for text in [
        "[save(text=\"te\" + \"a\")]",
        "{\"call\": \"save\", \"width\": 3}",
        "{\"call\": \"911\", \"text\": \"tea\"}",
        "{\"save\": {\"width\": 3}}",
        "{\"save\": \"tea\"}",
        "store(text=\"tea\")",
        "See functions.save:0 {\"text\": \"tea\"}",
        "functions.save{\"text\": \"tea\"}",
        "save[1]{\"text\": \"tea\"}",
        "save[ARGS] is what follows its name.",
        "Write save[ARGS]{\"text\": \"tea\"} first.",
        "save(text=\"tea\") is how it is called.",
    ] {
        check(text, &tools(), json!([]), Some(text));
    }
}

#[test]
fn lists_and_objects_may_be_texts_of_json() {
    let schema = json!({"properties": {"l": {"type": "array"}, "s": {"type": "string"}}});
    let tool = ToolSpec::new("set", "", schema).unwrap();
    let text =
        "<tool_call>{\"name\": \"set\", \"arguments\": {\"l\": \"[1, 2]\", \"s\": \"[1, 2]\"}}</tool_call>";
    check(text, &[tool], json!([["set", {"l": [1, 2], "s": "[1, 2]"}]]), None);
}

#[test]
fn arguments_may_be_the_text_of_a_string() {
    let tea = json!([["save", {"text": "tea"}]]);
    let string = r#""{\"text\": \"tea\"}""#;
    for text in [
        format!("<tool_call>{{\"name\": \"save\", \"arguments\": {string}}}</tool_call>"),
        format!("<tool_call>save\n{string}\n</tool_call>"),
        format!("<function=save>{string}</function>"),
        format!("[TOOL_CALLS]save[ARGS]{string}"),
        format!("<|channel|>commentary to=functions.save<|message|>{string}<|call|>"),
        format!("<|tool_call_begin|>functions.save:0<|tool_call_argument_begin|>{string}<|tool_call_end|>"),
        format!("<｜tool▁call▁begin｜>save<｜tool▁sep｜>{string}<｜tool▁call▁end｜>"),
        format!("<｜tool▁call▁begin｜>function<｜tool▁sep｜>save\n```json\n{string}\n```<｜tool▁call▁end｜>"),
        format!("save\n{string}"),
    ] {
        check(&text, &tools(), tea.clone(), None);
    }
}

#[test]
fn a_stray_closing_at_the_end_of_a_value_goes() {
    let closings = ["</arg_key>", "</arg_value>", "</parameter>", "</tool_call>", "</arg_key></invoke>"];
    for (name, way) in WAYS.into_iter().take(3) {
        for closing in closings {
            let own = if name == "pairs" { "</arg_value>" } else { "</parameter>" };
            if closing == own {
                continue;
            }
            let text = way(&format!("Oslo{closing}"));
            let found = check(&text, &tools(), json!([["save", {"text": "Oslo", "file": "x.md"}]]), None);
            assert!(found.repairs.iter().any(|repair| repair.kind == RepairKind::WrongClosingTag), "{text}");
        }
        // What the value opened, speaks of, or holds before its end is its own, as is all of HTML.
        for text in [
            "<arg_key>Oslo</arg_key>",
            "It ends with </arg_key>",
            "`</arg_key>",
            "</arg_key>",
            "</arg_key> Oslo",
            "<b>Oslo</b>",
            "Oslo</td>",
        ] {
            check(&way(text), &tools(), json!([["save", {"text": text, "file": "x.md"}]]), None);
        }
    }
    let both = "<function=save>\n<parameter=text>\nOslo</parameter></arg_value>\n</function>";
    check(both, &tools(), json!([["save", {"text": "Oslo"}]]), None);
    let schema = json!({"properties": {"n": {"type": "integer"}}});
    let set = ToolSpec::new("set", "", schema).unwrap();
    let text = "<tool_call>set\n<arg_key>n</arg_key>\n<arg_value>5</arg_key>\n</arg_value>\n</tool_call>";
    check(text, &[set], json!([["set", {"n": 5}]]), None);
}

#[test]
fn character_data_is_unwrapped_where_it_is_all() {
    for (written, meant) in [
        ("<![CDATA[tea]]>", "tea"),
        ("\n<![CDATA[<b>tea</b>]]>\n", "<b>tea</b>"),
        ("<![CDATA[it ]]> closes]]>", "it ]]> closes"),
        ("<![CDATA[<![CDATA[tea]]>]]>", "<![CDATA[tea]]>"),
        ("green <![CDATA[tea]]>", "green <![CDATA[tea]]>"),
        ("<![CDATA[tea]]> is hot", "<![CDATA[tea]]> is hot"),
        ("<x><![CDATA[tea]]></x>", "<x><![CDATA[tea]]></x>"),
        ("<![CDATA[tea]]></x> is hot", "<![CDATA[tea]]></x> is hot"),
        ("<![CDATA[tea]]><![CDATA[pot]]>", "<![CDATA[tea]]><![CDATA[pot]]>"),
        ("<![CDATA[tea]]> and <![CDATA[pot]]>", "<![CDATA[tea]]> and <![CDATA[pot]]>"),
    ] {
        let expected = json!([["save", {"text": meant}]]);
        check(
            &format!("<function=save>\n<parameter=text>{written}</parameter>\n</function>"),
            &tools(),
            expected.clone(),
            None,
        );
        check(
            &format!("<invoke name=\"save\"><parameter name=\"text\">{written}</parameter></invoke>"),
            &tools(),
            expected,
            None,
        );
    }
    let open = "<function=save>\n<parameter=text><![CDATA[tea]]>\n</function>";
    let found = check(open, &tools(), json!([["save", {"text": "tea"}]]), None);
    assert_eq!(found.repairs.first().map(|repair| repair.kind), Some(RepairKind::MissingClosingTag));
}

#[test]
fn names_mean_the_tools_that_are_offered() {
    let tools = |names: &[&str]| -> Vec<ToolSpec> {
        names.iter().map(|name| ToolSpec::new(name, "", json!({})).unwrap()).collect()
    };
    let called = |written: &str, offered: &[&str]| {
        let text = format!("<tool_call>{{\"name\": \"{written}\", \"arguments\": {{}}}}</tool_call>");
        extract_typed(&text, &tools(offered)).calls[0].name.clone()
    };
    for written in [
        "get_rain",
        "functions.get_rain",
        "functions.get_rain:1",
        "functions_get_rain",
        "functions_get_rain_1",
        "get_rain:0",
        "sky:get_rain",
        "sky/get_rain",
        "mcp__sky__get_rain",
        "get_rain:get_rain",
        "get_rain_get_rain",
    ] {
        assert_eq!(called(written, &["get_rain", "other"]), "get_rain", "{written}");
    }
    // What is offered means itself, and what means nothing stays as it was written.
    assert_eq!(called("get_rain_1", &["get_rain", "get_rain_1"]), "get_rain_1");
    assert_eq!(called("functions_get_rain_1", &["get_rain", "get_rain_1"]), "get_rain_1");
    assert_eq!(called("functions.get_rain", &["functions.get_rain"]), "functions.get_rain");
    assert_eq!(called("get_snow", &["get_rain"]), "get_snow");
    assert_eq!(called("get_rain2day", &["get_rain"]), "get_rain2day");
    // The parameters are typed by the tool that is meant.
    let set = ToolSpec::new("set", "", json!({"properties": {"n": {"type": "integer"}}})).unwrap();
    let text = "<tool_call>\n<function=home:set>\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>";
    check(text, &[set], json!([["set", {"n": 3}]]), None);
}

#[test]
fn empty_values_are_what_their_schema_takes() {
    let schema = json!({"properties": {"n": {"type": "integer"}, "o": {"type": "object"}, "l": {"type": "array"},
        "s": {"type": "string"}, "z": {"type": ["string", "null"]}, "q": {"anyOf": [{"type": "number"}, {"type": "null"}]}}});
    let tool = ToolSpec::new("set", "", schema).unwrap();
    for (name, expected) in [
        ("n", json!({})),
        ("o", json!({})),
        ("l", json!({})),
        ("s", json!({"s": ""})),
        ("z", json!({"z": ""})),
        ("q", json!({"q": null})),
    ] {
        for text in [
            format!(
                "<tool_call>\n<function=set>\n<parameter={name}>\n</parameter>\n</function>\n</tool_call>"
            ),
            format!("<tool_call>set\n<arg_key>{name}</arg_key>\n<arg_value></arg_value>\n</tool_call>"),
        ] {
            check(&text, std::slice::from_ref(&tool), json!([["set", expected]]), None);
        }
    }
}

#[test]
fn values_of_gemma_are_what_their_schema_says() {
    let schema = json!({"properties": {"zip": {"type": "string"}, "n": {"type": "integer"}, "on": {"type": "boolean"},
        "l": {"type": "array", "items": {"type": "string"}}, "o": {"type": "object", "properties": {"zip": {"type": "string"}}},
        "any": {}, "q": {"type": ["string", "integer"]}}});
    let set = [ToolSpec::new("set", "", schema).unwrap()];
    for (written, meant) in [
        ("zip:12", json!({"zip": "12"})),
        ("zip:01234", json!({"zip": "01234"})),
        ("zip:true", json!({"zip": "true"})),
        ("zip:null", json!({"zip": null})),
        ("l:[1,2]", json!({"l": ["1", "2"]})),
        ("o:{zip:12}", json!({"o": {"zip": "12"}})),
        ("n:<|\"|>3<|\"|>", json!({"n": 3})),
        ("n:\"3\"", json!({"n": 3})),
        ("on:True", json!({"on": true})),
        // Where the schema takes both, the spelling tells.
        ("q:3", json!({"q": 3})),
        ("q:<|\"|>3<|\"|>", json!({"q": "3"})),
        ("any:3", json!({"any": 3})),
        ("any:<|\"|>3<|\"|>", json!({"any": "3"})),
        ("n:<|\"|>three<|\"|>", json!({"n": "three"})),
    ] {
        for text in
            [format!("<|tool_call>call:set{{{written}}}<tool_call|>"), format!("call:set{{{written}}}")]
        {
            check(&text, &set, json!([["set", meant]]), None);
        }
    }
    // Of a tool that nobody knows, too.
    let text = "<|tool_call>call:put{zip:12,on:true,n:<|\"|>3<|\"|>}<tool_call|>";
    check(text, &set, json!([["put", {"zip": 12, "on": true, "n": "3"}]]), None);
}

#[test]
fn numbers_that_no_number_holds() {
    let call = |number: &str| {
        format!("<tool_call>{{\"name\": \"set\", \"arguments\": {{\"n\": {number}}}}}</tool_call>")
    };
    for (number, expected) in [
        ("1e999", json!("1e999")),
        ("-1e999", json!("-1e999")),
        ("123456789012345678901234567890", json!("123456789012345678901234567890")),
        ("NaN", json!("NaN")),
        ("Infinity", json!("Infinity")),
        ("-Infinity", json!("-Infinity")),
        ("[nan, 1, -inf]", json!(["nan", 1, "-inf"])),
    ] {
        let found = check(&call(number), &[], json!([["set", {"n": expected}]]), None);
        assert!(found.repairs.iter().any(|repair| repair.kind == RepairKind::NumberOutOfRange), "{number}");
    }
    for (number, expected) in [
        ("18446744073709551615", json!(u64::MAX)),
        ("1e300", json!(1e300)),
        ("-0.5", json!(-0.5)),
        ("\"NaN\"", json!("NaN")),
        ("null", json!(null)),
    ] {
        assert!(
            check(&call(number), &[], json!([["set", {"n": expected}]]), None).repairs.is_empty(),
            "{number}"
        );
    }
    let long = "12345678901234567890123";
    for text in [
        format!("<function=set>\n<parameter=n>\n{long}\n</parameter>\n</function>"),
        format!("<tool_call>set\n<arg_key>n</arg_key>\n<arg_value>{long}</arg_value>\n</tool_call>"),
        format!("<|tool_call>call:set{{n:{long}}}<tool_call|>"),
    ] {
        let set = ToolSpec::new("set", "", json!({"properties": {"n": {"type": "integer"}}})).unwrap();
        check(&text, &[set], json!([["set", {"n": long}]]), None);
    }
    // At the end of a text, digits may be missing.
    for cut in [
        "<tool_call>{\"name\": \"set\", \"arguments\": {\"n\": 12",
        "{\"name\": \"set\", \"arguments\": {\"n\": [1, 2",
        "[TOOL_CALLS]set[ARGS]{\"n\": 1.",
        "[set(n=12",
    ] {
        check(cut, &[], json!([]), Some(cut));
    }
    let closed = "<tool_call>{\"name\": \"set\", \"arguments\": {\"n\": 12}";
    check(closed, &[], json!([["set", {"n": 12}]]), None);
}

#[test]
fn a_flood_costs_no_call_behind_it() {
    let call = "<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>";
    let expected: Vec<Value> = vec![json!(["clock", {}])];
    for unit in [
        "{",
        "[",
        "<",
        "{ ",
        "[[{",
        "{\"a\":",
        "[{\"a\":",
        "{\"a\":[1,{\"b\":",
        "{\"a\" ",
        "\"{",
        "{\"x\": \"",
        "{'a': ",
        "{\"name\": \"clock\", \"arguments\": {",
        "<tool_call>",
        "<tool_call>{\"name\": ",
        "<function=f>",
        "<think",
        "<|",
        "<parameter=a>",
        "<arg_key>",
        "[TOOL_CALLS]",
        "f(",
        "print(",
        "[clock(a=",
        "`",
        "<tool_call>clock<arg_key>a</arg_key><arg_value>",
    ] {
        let text = format!("{}\n{call}", unit.repeat(30_000 / unit.len()));
        let found = extract(&text);
        let calls: Vec<Value> = found.calls.iter().map(|call| json!([call.name, call.arguments])).collect();
        assert_eq!(calls, expected, "{unit:?}");
    }
}
