//! The laws of every format: its grammar takes what it renders, it reads back what it renders, and no answer is a call.

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;
use toolgate_chat::format::Family;
use toolgate_chat::{DefectKind, Kind, ToolCall, ToolChoice, ToolFormat, ToolName, ToolSpec, TurnRequest};
use toolgate_grammar::Grammar;

use crate::random::{text, tools_and_calls};
use crate::support::{accepts, automaton, call, tools};

static FORMATS: LazyLock<[Family; 2]> = LazyLock::new(|| [Family::hermes(), Family::generic()]);

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_turn_grammar_accepts_what_is_rendered((tools, calls) in tools_and_calls()) {
        for format in FORMATS.iter() {
            let rendered = format.render_calls(&calls, &[]);
            let turn = format.turn(&tools, &TurnRequest::default()).unwrap();
            let automaton = automaton(&turn.call.unwrap());
            prop_assert!(accepts(&automaton, &rendered), "{rendered}");
            // The control: the grammar does refuse, a byte short of this and a byte past it.
            prop_assert!(!accepts(&automaton, &rendered[..rendered.len() - 1]));
            let longer = rendered.clone() + "\n";
            prop_assert!(!accepts(&automaton, &longer));
            prop_assert!(!accepts(&automaton, &rendered.replacen("tool_", "tool,", 1)));
        }
    }

    #[test]
    fn what_is_rendered_reads_back((_, calls) in tools_and_calls(), before in "[a-z .]{0,12}") {
        for format in FORMATS.iter() {
            let rendered = format.render_calls(&calls, &[]);
            let turn = format.parse(&format!("{before}{rendered}"), &[]);
            prop_assert_eq!(turn.calls.len(), calls.len());
            for (read, written) in turn.calls.iter().zip(&calls) {
                prop_assert!(read.same_request(written), "{:?}", read);
                // Order of keys is kept as well, all the way down.
                prop_assert_eq!(json!(read.arguments).to_string(), json!(written.arguments).to_string());
            }
            prop_assert_eq!(turn.content.as_deref(), Some(before.trim()).filter(|text| !text.is_empty()));
            prop_assert!(turn.defects.is_empty(), "{:?}", turn.defects);
        }
    }

    #[test]
    fn arranged_arguments_are_what_the_grammar_writes((tools, calls) in tools_and_calls()) {
        let automaton = automaton(&Family::hermes().turn(&tools, &TurnRequest::default()).unwrap().call.unwrap());
        for call in &calls {
            let mut mixed = call.clone();
            mixed.arguments = call.arguments.clone().into_iter().rev().collect();
            let tool = tools.iter().find(|tool| tool.name.as_str() == call.name).unwrap();
            mixed.arguments = tool.arrange(&mixed.arguments);
            prop_assert!(accepts(&automaton, &Family::hermes().render_calls(&[mixed], &[])));
        }
    }

    #[test]
    fn no_answer_is_a_call(text in prop_oneof![text(), "[a-z<>/_ ]{0,24}", "[<tool_cal>/]{0,40}"]) {
        let request = TurnRequest { choice: ToolChoice::None, ..TurnRequest::default() };
        for format in FORMATS.iter() {
            let turn = format.turn(&tools(), &request).unwrap();
            let accepted = accepts(&automaton(&turn.answer.unwrap()), &text);
            let marked = format.markers().iter().any(|marker| marker.contains("tool_call") && text.contains(marker));
            prop_assert!(!(accepted && marked));
            if accepted {
                let turn = format.parse(&text, &[]);
                prop_assert!(turn.calls.is_empty());
                prop_assert!(turn.content.is_some() || turn.reasoning.is_some() || !turn.defects.is_empty());
            }
        }
    }
}

#[test]
fn answers_hold_no_markup_of_calls_and_all_else() {
    for format in FORMATS.iter() {
        let turn = format.turn(&tools(), &TurnRequest::default()).unwrap();
        let automaton = automaton(&turn.answer.unwrap());
        for accepted in [
            "The port is 8443.",
            " Hello",
            "```json\n{\"port\": 8443, \"name\": \"x\"}\n```",
            "a <b> c </b> 1 < 2 [x](y)",
            "Grüße 😀",
            "it takes arguments: path",
        ] {
            assert!(accepts(&automaton, accepted), "{accepted:?}");
        }
        for refused in [
            "",
            "\n",
            "<tool_call>",
            "Sure.\n<tool_call>\n{",
            "```json\n{\"name\": \"now\", \"arguments\": {}}\n```",
            "{\"name\":\"now\",\"parameters\":{}}",
            "<tools>",
            "x</tool_call>",
        ] {
            assert!(!accepts(&automaton, refused), "{refused:?}");
        }
    }
}

#[test]
fn the_request_decides_what_a_turn_may_be() {
    let name = |name: &str| ToolName::new(name).unwrap();
    let one = || call("now", json!({}));
    let mode = || call("set_mode", json!({"mode": "on"}));
    let check = |choice: ToolChoice,
                 parallel: Option<usize>,
                 takes: &[&[ToolCall]],
                 refuses: &[&[ToolCall]],
                 answers: bool| {
        let request =
            TurnRequest { choice, parallel: parallel.and_then(NonZeroUsize::new), ..TurnRequest::default() };
        let turn = Family::hermes().turn(&tools(), &request).unwrap();
        assert_eq!(turn.answer.is_some(), answers, "{request:?}");
        let calls = turn.call.as_ref().map(automaton);
        for (expected, all) in [(true, takes), (false, refuses)] {
            for calls_made in all {
                let found = calls
                    .as_ref()
                    .is_some_and(|calls| accepts(calls, &Family::hermes().render_calls(calls_made, &[])));
                assert_eq!(found, expected, "{request:?} {calls_made:?}");
            }
        }
    };
    check(ToolChoice::Auto, None, &[&[one()], &[one(), mode(), one()]], &[&[]], true);
    check(ToolChoice::None, None, &[], &[&[one()]], true);
    check(ToolChoice::Required, Some(1), &[&[one()]], &[&[one(), mode()]], false);
    check(ToolChoice::Required, Some(2), &[&[one()], &[one(), mode()]], &[&[one(), one(), one()]], false);
    check(ToolChoice::Only(vec![name("now")]), None, &[&[one(), one()]], &[&[mode()]], false);
    check(
        ToolChoice::Auto,
        None,
        &[],
        &[&[call("unknown", json!({}))], &[call("set_mode", json!({"mode": "up"}))]],
        true,
    );
    // A tool that lists no parameters takes none; one that lists some takes no others.
    check(
        ToolChoice::Auto,
        None,
        &[],
        &[&[call("now", json!({"zone": "UTC"}))], &[call("set_mode", json!({"mode": "on", "x": 1}))]],
        true,
    );
}

#[test]
fn turn_grammars_print_as_plain_gbnf() {
    let turn = Family::hermes().turn(&tools(), &TurnRequest::default()).unwrap();
    let (call, answer) = (turn.call.unwrap(), turn.answer.unwrap());
    // Our own rules; those of the arguments are the schema compiler's.
    let printed = call.to_gbnf();
    for rule in [
        r#"root ::= call ("\n" call)*"#,
        r#"call ::= "<tool_call>\n{\"name\": \"" (read-file | set-mode | now) "}\n</tool_call>""#,
        r#"set-mode ::= "set_mode" "\", \"arguments\": " set-mode-arguments"#,
    ] {
        assert!(printed.lines().any(|line| line == rule), "{rule}\n---\n{printed}");
    }
    // Automaton states of the answer refer to each other last, so that no stack grows however long it gets.
    let read_back = automaton(&Grammar::parse(&answer.to_gbnf()).unwrap());
    let own = automaton(&answer);
    for text in ["Fine.", "a <tool_", "a <tool_call>", "{\"arguments\": 1}", "{\"argument\": 1}", " "] {
        assert_eq!(accepts(&read_back, text), accepts(&own, text), "{text:?}");
    }
    assert_eq!(
        turn.contracts.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["read_file", "set_mode", "now"]
    );
}

#[test]
fn impossible_requests_are_errors() {
    let check = |tools: &[ToolSpec], choice: ToolChoice, expected: &str| {
        let error =
            Family::hermes().turn(tools, &TurnRequest { choice, ..TurnRequest::default() }).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Request, expected));
    };
    check(&[], ToolChoice::Required, "a call is required, but there are no tools");
    check(&tools(), ToolChoice::Only(vec![]), "a call is required of one of no tools");
    check(
        &tools(),
        ToolChoice::Only(vec![ToolName::new("nope").unwrap()]),
        "there is no tool \"nope\" to choose",
    );
    let first = TurnRequest {
        choice: ToolChoice::Only(vec![ToolName::new("now").unwrap()]),
        first: Some(ToolName::new("set_mode").unwrap()),
        ..TurnRequest::default()
    };
    let error = Family::hermes().turn(&tools(), &first).unwrap_err();
    assert_eq!(error.to_string(), "there is no tool \"set_mode\" to call first");
    check(&[tools(), tools()].concat(), ToolChoice::Auto, "two tools are called \"read_file\"");
    let turn = Family::hermes().turn(&[], &TurnRequest::default()).unwrap();
    assert!(turn.call.is_none() && turn.answer.is_some());
}

#[test]
fn a_schema_without_a_grammar_names_its_tool() {
    let schema = json!({"properties": {"when": {"$ref": "#/$defs/missing"}}});
    let tools = [ToolSpec::new("remind", "", schema).unwrap()];
    let error = Family::hermes().turn(&tools, &TurnRequest::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Schema);
    assert!(error.to_string().ends_with("in the parameters of tool \"remind\""), "{error}");
    assert!(error.to_string().contains("/properties/when"), "{error}");
}

#[test]
fn broken_turns_are_read_with_their_defects() {
    let check = |text: &str, calls: usize, content: Option<&str>, defects: &[DefectKind]| {
        for format in FORMATS.iter() {
            let turn = format.parse(text, &[]);
            let kinds: Vec<DefectKind> = turn.defects.iter().map(|defect| defect.kind).collect();
            assert_eq!(
                (turn.calls.len(), turn.content.as_deref(), kinds.as_slice()),
                (calls, content, defects),
                "{text:?}"
            );
        }
    };
    let good = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    check(good, 1, None, &[]);
    check("", 0, None, &[]);
    check("Hello.", 0, Some("Hello."), &[]);
    check(&format!("Let me see.\n{good}"), 1, Some("Let me see."), &[]);
    check(&format!("{good}\nDone."), 1, Some("Done."), &[DefectKind::Stray]);
    check(&format!("{good}{good}\n\n{good}"), 3, None, &[]);
    check("<tool_call>{\"arguments\": {}, \"name\": \"now\"}</tool_call>", 1, None, &[]);
    check("<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>", 1, None, &[]);
    check("<tool_call>\n{\"name\": \"now\", \"arguments\": {}}", 1, None, &[DefectKind::Unclosed]);
    check("<tool_call>\n{\"name\": \"now\", \"argum", 0, None, &[DefectKind::Unclosed]);
    let not = "<tool_call>\n{\"name\": \"now\", \"arguments\": []}\n</tool_call>";
    check(not, 0, None, &[DefectKind::NotACall]);
    check("<tool_call>\n{\"name\": \"now\"}\n</tool_call>", 0, None, &[DefectKind::NotACall]);
    check(&format!("<tool_call>{{oops]</tool_call>\n{good}"), 1, None, &[DefectKind::NotACall]);
    check(&format!("<tool_call></tool_call>\n{good}"), 1, None, &[DefectKind::NotACall]);
    // Written as another family does, and read all the same.
    check("<tool_call>now()</tool_call>", 1, None, &[]);
    check("<tool_call>\n<function=now>\n</function>\n</tool_call>", 1, None, &[]);
    check("A <tool_call> is a call.", 0, Some("A  is a call."), &[DefectKind::NotACall]);
    check("<think>\nhm\n</think>\nHello.", 0, Some("Hello."), &[]);
    check("<think>and on and on", 0, None, &[DefectKind::Unclosed]);
    assert_eq!(Family::hermes().parse("<think>\nhm\n</think>\nHello.", &[]).reasoning.as_deref(), Some("hm"));
    let given = Family::hermes()
        .parse("<tool_call>{\"id\": \"x1\", \"name\": \"f\", \"arguments\": {}}</tool_call>", &[]);
    assert_eq!(given.calls[0].id, "x1");
}
