//! The laws of every family: its grammar takes what it renders, it reads that back, the fallback parser does too, and no
//! answer is a call.

use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Map, Value, json};
use toolgate_chat::fallback::extract_typed;
use toolgate_chat::format::Family;
use toolgate_chat::{ToolCall, ToolChoice, ToolFormat, ToolName, ToolSpec, TurnRequest};
use toolgate_grammar::{Automaton, Grammar, Limits, Vocabulary};

use crate::support::{call, tools};

static BYTES: LazyLock<Arc<Vocabulary>> = LazyLock::new(|| Arc::new(Vocabulary::bytes_only()));

static FAMILIES: LazyLock<Vec<Family>> =
    LazyLock::new(|| Family::names().iter().map(|name| Family::named(name).unwrap()).collect());

fn automaton(grammar: &Grammar) -> Arc<Automaton> {
    Automaton::new(grammar, BYTES.clone(), &Limits::default()).unwrap()
}

fn accepts(automaton: &Arc<Automaton>, text: &str) -> bool {
    let mut matcher = automaton.matcher();
    matcher.accept_bytes(text.as_bytes()).is_ok() && matcher.is_complete()
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => any::<String>(),
        3 => "[a-z \"'\\\\\n\t/{}\\[\\]<>|=:,]{0,16}",
        1 => Just("</parameter>\n</function>\n</tool_call>".to_owned()),
        1 => Just("<tool_call>\n{\"name\": \"x\", \"arguments\": {}}\n</tool_call>".to_owned()),
        1 => Just("</arg_value><|\"|><escape><｜DSML｜parameter name=\"a\">".to_owned()),
        1 => Just("\n\nnull\n".to_owned()),
        1 => prop::sample::select(vec!["null", "true", "7", "\"quoted\"", "{\"a\": 1}", "[]", "True", ""]).prop_map(str::to_owned),
    ]
}

fn schema_and_value() -> impl Strategy<Value = (Value, Value)> {
    let leaf = prop_oneof![
        3 => text().prop_map(|text| (json!({"type": "string"}), text.into())),
        1 => any::<i64>().prop_map(|n| (json!({"type": "integer"}), n.into())),
        1 => any::<i32>().prop_map(|n| (json!({"type": "number"}), (f64::from(n) / 64.0).into())),
        1 => any::<bool>().prop_map(|b| (json!({"type": "boolean"}), b.into())),
        1 => (proptest::collection::hash_set(text(), 1..4)).prop_map(|values| {
            let values: Vec<String> = values.into_iter().collect();
            (json!({"enum": values}), values.last().unwrap().as_str().into())
        }),
        1 => (text(), any::<bool>()).prop_map(|(text, null)| {
            (json!({"type": ["string", "null"]}), if null { Value::Null } else { text.into() })
        }),
        1 => Just((json!({"type": "object", "properties": {}}), json!({}))),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            (inner.clone(), 0..4usize).prop_map(|((schema, value), n)| (
                json!({"type": "array", "items": schema}),
                vec![value; n].into()
            )),
            object_of(inner),
        ]
    })
}

fn object_of(
    member: impl Strategy<Value = (Value, Value)> + 'static,
) -> impl Strategy<Value = (Value, Value)> {
    proptest::collection::vec((any::<bool>(), any::<bool>(), member), 0..4).prop_map(|members| {
        let (mut properties, mut required, mut value) = (Map::new(), Vec::new(), Map::new());
        for (i, (is_required, is_present, (schema, member))) in members.into_iter().enumerate() {
            let name = format!("p{i}");
            properties.insert(name.clone(), schema);
            if is_required {
                required.push(Value::from(name.clone()));
            }
            if is_required || is_present {
                value.insert(name, member);
            }
        }
        (json!({"type": "object", "properties": properties, "required": required}), Value::Object(value))
    })
}

fn tools_and_calls() -> impl Strategy<Value = (Vec<ToolSpec>, Vec<ToolCall>)> {
    let tools = proptest::collection::vec(object_of(schema_and_value()), 1..3);
    (tools, proptest::collection::vec(any::<prop::sample::Index>(), 1..4)).prop_map(|(tools, picks)| {
        let specs: Vec<ToolSpec> = tools
            .iter()
            .enumerate()
            .map(|(i, (schema, _))| ToolSpec::new(&format!("tool_{i}"), "", schema.clone()).unwrap())
            .collect();
        let calls = picks
            .iter()
            .map(|pick| {
                let i = pick.index(specs.len());
                call(specs[i].name.as_str(), tools[i].1.clone())
            })
            .collect();
        (specs, calls)
    })
}

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
    matches!(family.name(), "llama3_json" | "pythonic")
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
            let request = TurnRequest { choice, parallel: parallel.and_then(NonZeroUsize::new) };
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
