//! The laws of every family: its grammar takes what it renders, it reads that back, the fallback parser does too, and no
//! answer is a call.

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;
use toolgate_chat::fallback::extract_typed;
use toolgate_chat::format::Family;
use toolgate_chat::{ToolCall, ToolChoice, ToolFormat, ToolName, ToolSpec, TurnRequest};

use crate::random::{text, tools_and_calls};
use crate::support::{accepts, automaton, call, tools};

static FAMILIES: LazyLock<Vec<Family>> =
    LazyLock::new(|| Family::names().iter().map(|name| Family::named(name).unwrap()).collect());

fn same(read: &[ToolCall], written: &[ToolCall]) -> bool {
    read.len() == written.len() && read.iter().zip(written).all(|(read, written)| read.same_request(written))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_grammar_accepts_what_is_rendered((tools, calls) in tools_and_calls()) {
        for family in FAMILIES.iter() {
            let rendered = family.render_calls(&calls, &tools);
            let grammar = family.turn(&tools, &TurnRequest::default()).unwrap().call.unwrap();
            let automaton = automaton(&grammar);
            prop_assert!(accepts(&automaton, &rendered), "{}: {rendered}", family.name());
            // The control: another tool's name is refused.
            prop_assert!(!accepts(&automaton, &rendered.replacen("tool_", "toll_", 1)), "{}", family.name());
        }
    }

    #[test]
    fn what_is_rendered_reads_back((tools, calls) in tools_and_calls(), before in "[a-z .]{0,12}") {
        let mut wrong = Vec::new();
        for family in FAMILIES.iter() {
            let rendered = family.render_calls(&calls, &tools);
            let turn = family.parse(&rendered, &tools);
            if !same(&turn.calls, &calls) || !turn.defects.is_empty() || turn.content.is_some() {
                wrong.push(format!("{}: {rendered:?} read as {turn:?}", family.name()));
            }
            if !bare(family) {
                let turn = family.parse(&format!("{before}{rendered}"), &tools);
                let content = Some(before.trim()).filter(|text| !text.is_empty());
                if !same(&turn.calls, &calls) || turn.content.as_deref() != content {
                    wrong.push(format!("{}: {before}{rendered:?} read as {turn:?}", family.name()));
                }
            }
        }
        prop_assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn the_fallback_parser_reads_it_too((tools, calls) in tools_and_calls()) {
        let mut wrong = Vec::new();
        for family in FAMILIES.iter() {
            let rendered = family.render_calls(&calls, &tools);
            let found = extract_typed(&rendered, &tools);
            if !same(&found.calls, &calls) {
                wrong.push(format!("{}: {rendered:?} read as {:?}", family.name(), found.calls));
            }
        }
        prop_assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn no_answer_is_a_call(text in prop_oneof![text(), "[a-z<>/_ |\\[\\]]{0,24}"]) {
        let request = TurnRequest { choice: ToolChoice::None, ..TurnRequest::default() };
        for family in FAMILIES.iter() {
            let answers = automaton(&family.turn(&tools(), &request).unwrap().answer.unwrap());
            let opened = family.render_calls(&[call("now", json!({}))], &tools());
            prop_assert!(!accepts(&answers, &opened), "{}: {opened}", family.name());
            if accepts(&answers, &text) {
                let turn = family.parse(&text, &tools());
                prop_assert!(turn.calls.is_empty(), "{}: {text}", family.name());
            }
        }
    }
}

/// Whether calls have no mark, so that text before them makes them text.
fn bare(family: &Family) -> bool {
    matches!(family.name(), "llama3_json" | "pythonic" | "functionary_v3_2")
}

#[test]
fn the_request_decides_what_a_turn_may_be() {
    let name = |name: &str| ToolName::new(name).unwrap();
    let now = || call("now", json!({}));
    let mode = || call("set_mode", json!({"mode": "on"}));
    for family in FAMILIES.iter() {
        let check = |choice: ToolChoice,
                     parallel: Option<usize>,
                     takes: &[ToolCall],
                     refuses: &[ToolCall]| {
            let request = TurnRequest {
                choice,
                parallel: parallel.and_then(NonZeroUsize::new),
                ..TurnRequest::default()
            };
            let turn = family.turn(&tools(), &request).unwrap();
            let calls = automaton(&turn.call.unwrap());
            let render = |calls: &[ToolCall]| family.render_calls(calls, &tools());
            assert!(accepts(&calls, &render(takes)), "{} {request:?}: {}", family.name(), render(takes));
            assert!(!accepts(&calls, &render(refuses)), "{} {request:?}: {}", family.name(), render(refuses));
        };
        check(ToolChoice::Auto, None, &[now(), mode(), now()], &[call("unknown", json!({}))]);
        check(ToolChoice::Required, Some(1), &[now()], &[now(), mode()]);
        check(ToolChoice::Only(vec![name("now")]), None, &[now(), now()], &[mode()]);
        check(ToolChoice::Auto, None, &[mode()], &[call("set_mode", json!({"mode": "up"}))]);
        check(ToolChoice::Auto, None, &[mode()], &[call("set_mode", json!({"mode": "on", "x": 1}))]);
    }
}

#[test]
fn the_first_call_may_be_chosen_and_those_after_it_are_free() {
    let [now, mode] = [call("now", json!({})), call("set_mode", json!({"mode": "on"}))];
    for family in FAMILIES.iter() {
        let first = Some(ToolName::new("set_mode").unwrap());
        let turn = family.turn(&tools(), &TurnRequest { first, ..TurnRequest::default() }).unwrap();
        let calls = automaton(&turn.call.unwrap());
        let takes = |made: &[&ToolCall]| {
            let made: Vec<ToolCall> = made.iter().map(|call| (*call).clone()).collect();
            accepts(&calls, &family.render_calls(&made, &tools()))
        };
        let name = family.name();
        assert!(takes(&[&mode]) && !takes(&[&now]), "{name}");
        let several = family.turn(&tools(), &TurnRequest::default()).unwrap().call.unwrap();
        if accepts(&automaton(&several), &family.render_calls(&[mode.clone(), now.clone()], &tools())) {
            assert!(takes(&[&mode, &now, &mode]) && !takes(&[&now, &mode]), "{name}");
        }
    }
}

/// A tool whose path is one of these, and whose text to replace is a piece of this file.
fn edit(paths: &[&str], file: &str) -> Vec<ToolSpec> {
    let text = json!({"type": "string"});
    let schema = json!({"properties": {"path": text, "old_text": text}, "required": ["path", "old_text"]});
    let edit = ToolSpec::new("edit_file", "", schema).unwrap();
    let edit =
        edit.with_grammar("path", json!({"x-toolgate-choices": {"texts": paths, "beginnings": ["new/"]}}));
    vec![edit.with_grammar("old_text", json!({"x-toolgate-choices": {"once_in": file}}))]
}

#[test]
fn choices_hold_in_every_spelling() {
    let paths = [
        "a.txt",
        "it's \"b\".txt",
        "tab\tc",
        "é/😀.md",
        "back\\slash",
        "new\nline",
        "a</b",
        "x<y",
        "[0]",
        " s ",
    ];
    let file = "port = 80\nname = \"é\"\n\tC:\\dir\nport = 81\n";
    let tools = edit(&paths, file);
    for family in FAMILIES.iter() {
        let grammar = family.turn(&tools, &TurnRequest::default()).unwrap().call.unwrap();
        let automaton = automaton(&grammar);
        let said = |path: &str, old: &str| {
            let rendered =
                family.render_calls(&[call("edit_file", json!({"path": path, "old_text": old}))], &tools);
            accepts(&automaton, &rendered)
        };
        let name = family.name();
        for path in paths {
            assert!(said(path, "port = 80"), "{name}: {path:?}");
            assert!(!said(&format!("{path}x"), "port = 80"), "{name}: {path:?}");
        }
        assert!(said("new/any thing.txt", "80") && !said("new/", "80"), "{name}");
        assert!(!said("", "80") && !said("a.tx", "80"), "{name}");
        for piece in ["port = 80", "80\nname", "\"é\"", "\n\tC:\\dir", "81\n", "é", file] {
            assert!(said("a.txt", piece), "{name}: {piece:?}");
        }
        for piece in ["", "port = ", "\n", "port = 82", "80\n\n"] {
            assert!(!said("a.txt", piece), "{name}: {piece:?}");
        }
    }
}

#[test]
fn lists_are_written_as_the_template_writes_them() {
    let schema = json!({"properties": {
        "tags": {"type": "array", "items": {"type": "string"}},
        "about": {"type": "object", "properties": {"n": {"type": "integer"}, "all": {"type": "boolean"}}, "required": ["n"]}}});
    let tools = [ToolSpec::new("save", "", schema).unwrap()];
    let saved =
        call("save", json!({"tags": ["a", "it's", "\"b\"", "</param>\n"], "about": {"n": 5, "all": true}}));
    let python =
        r#"['a', "it's", '"b"', '</param>\n']</param><param name="about">{'n': 5, 'all': True}</param>"#;
    let as_json =
        r#"["a", "it's", "\"b\"", "</param>\n"]</param><param name="about">{"n": 5, "all": true}</param>"#;
    let said = |lists: &str| format!("<function name=\"save\"><param name=\"tags\">{lists}</function>");
    let print = "{{ value }}";
    for (filter, written) in [("", python), (" | tojson", as_json)] {
        let source = "{% for tool in tools %}{{ tool.function.name }}{% endfor %}{% for m in messages %}<{{ m.role }}>{{ m.content }}\
            {% for call in m.tool_calls or [] %}{% if not loop.first %}\n{% endif %}<function name=\"{{ call.function.name }}\">\
            {% for key, value in call.function.arguments.items() %}<param name=\"{{ key }}\">\
            {% if value is string %}{{ value }}{% else %}PRINT{% endif %}</param>{% endfor %}</function>{% endfor %}<end>{% endfor %}\
            {% if add_generation_prompt %}<assistant>{% endif %}";
        let source = source.replace("PRINT", &print.replace(" }}", &format!("{filter} }}}}")));
        let dialogue = crate::support::dialogue(&source);
        let format = dialogue.format();
        assert_eq!(
            format.render_calls(std::slice::from_ref(&saved), &tools),
            said(written),
            "{}",
            dialogue.knowledge().why
        );
        let grammar = format.turn(&tools, &TurnRequest::default()).unwrap().call.unwrap();
        let automaton = automaton(&grammar);
        assert!(accepts(&automaton, &said(written)));
        // Python's way is written where the template has it alone; both ways are read.
        assert_eq!(accepts(&automaton, &said(python)), filter.is_empty());
        for read in [python, as_json] {
            let turn = format.parse(&said(read), &tools);
            assert!(same(&turn.calls, std::slice::from_ref(&saved)), "{read}: {turn:?}");
        }
        assert!(!accepts(&automaton, &said(&written.replace("5", "'5'"))));
    }
}
