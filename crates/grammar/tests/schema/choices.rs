//! `x-toolgate-choices` in JSON and as bare text: the grammar's language is the listed one, in every spelling.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_grammar::compile::choices_into;
use toolgate_grammar::{
    Automaton, Compiled, Grammar, Kind, Limits, Options, Schema, Vocabulary, Whitespace, compile,
};

fn in_json(choices: &Value) -> Option<Compiled> {
    let schema = Schema::parse(&json!({"type": "string", "x-toolgate-choices": choices})).unwrap();
    match compile(&schema, &Options::default()) {
        Ok(compiled) => Some(compiled),
        Err(error) => {
            assert_eq!(error.kind(), Kind::InvalidSchema, "{error}");
            None
        }
    }
}

fn bare(choices: &Value, end: &str) -> Option<Arc<Automaton>> {
    let mut builder = Grammar::builder();
    match choices_into(choices, end, &Options::default(), &mut builder, "root") {
        Ok(root) => {
            let grammar = builder.build(root).unwrap();
            let vocabulary = Arc::new(Vocabulary::bytes_only());
            Some(Automaton::new(&grammar, vocabulary, &Limits::default()).unwrap())
        }
        Err(error) => {
            assert_eq!(error.kind(), Kind::InvalidSchema, "{error}");
            None
        }
    }
}

fn accepts(automaton: &Arc<Automaton>, text: &str) -> bool {
    let mut matcher = automaton.matcher();
    matcher.accept_bytes(text.as_bytes()).is_ok() && matcher.is_complete()
}

/// As a JSON string is spelled by this compiler: short escapes, everything else as it is.
fn spelled(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

fn occurrences(text: &str, piece: &str) -> usize {
    text.char_indices().filter(|(at, _)| text[*at..].starts_with(piece)).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pieces_of_a_text_are_said_where_they_occur_once(
        text in "[ab<\"\\\\\n\té😀]{1,10}",
        others in prop::collection::vec("[ab<\"\\\\\n\té😀]{0,4}", 10),
    ) {
        let choices = json!({"once_in": text});
        let json = in_json(&choices).unwrap();
        let raw = bare(&choices, "<a");
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let pieces = ends.iter().flat_map(|from| ends.iter().map(move |to| (*from, *to)));
        for piece in pieces.filter_map(|(from, to)| text.get(from..to)).chain(others.iter().map(String::as_str)) {
            let once = !piece.is_empty() && occurrences(&text, piece) == 1;
            prop_assert_eq!(json.accepts(&spelled(piece)).unwrap(), once, "{:?} in {:?}", piece, text);
            let sayable = once && !piece.contains("<a");
            prop_assert_eq!(raw.as_ref().is_some_and(|raw| accepts(raw, piece)), sayable, "{:?} in {:?}", piece, text);
        }
    }

    #[test]
    fn listed_texts_and_beginnings_are_said(
        texts in prop::collection::vec("[ab/ \"\\\\\né]{1,5}", 0..6),
        beginnings in prop::collection::vec("[ab]{1,2}/", 0..3),
        others in prop::collection::vec("[ab/ \"\\\\\né]{0,6}", 20),
    ) {
        let choices = json!({"texts": texts, "beginnings": beginnings});
        let (json, raw) = (in_json(&choices), bare(&choices, ""));
        for text in texts.iter().chain(&beginnings).chain(&others) {
            let goes_on = |beginning: &String| {
                let rest = text.strip_prefix(beginning.as_str());
                rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['"', '\\', '\n']))
            };
            let held = texts.contains(text) || beginnings.iter().any(goes_on);
            let said = json.as_ref().is_some_and(|json| json.accepts(&spelled(text)).unwrap());
            prop_assert_eq!(said, held, "{:?} of {}", text, choices);
            prop_assert_eq!(raw.as_ref().is_some_and(|raw| accepts(raw, text)), held, "{:?} of {}", text, choices);
        }
    }
}

#[test]
fn choices_hold_with_other_keywords_and_against_them() {
    let schema = json!({
        "type": ["string", "null"], "x-toolgate-choices": {"texts": ["a.txt", "b.txt", "c"]},
        "pattern": "\\.", "not": {"const": "a.txt"}
    });
    let compiled = compile(&Schema::parse(&schema).unwrap(), &Options::default()).unwrap();
    assert!(compiled.contract.is_complete());
    for (text, held) in
        [("\"b.txt\"", true), ("null", true), ("\"a.txt\"", false), ("\"c\"", false), ("\"d.txt\"", false)]
    {
        assert_eq!(compiled.accepts(text).unwrap(), held, "{text}");
    }
    let none_of = json!({"type": "string", "not": {"x-toolgate-choices": {"texts": ["a", "b"]}}});
    let compiled = compile(&Schema::parse(&none_of).unwrap(), &Options::default()).unwrap();
    assert!(compiled.accepts("\"c\"").unwrap() && !compiled.accepts("\"a\"").unwrap());
}

#[test]
fn too_many_choices_are_checked_and_nothing_else_is_lost() {
    let options = Options { whitespace: Whitespace::Compact, ..Options::default() };
    let texts: Vec<String> = (0..100_000).map(|i| format!("file-{i}.txt")).collect();
    let schema = json!({"type": "string", "maxLength": 3, "x-toolgate-choices": {"texts": texts}});
    let compiled = compile(&Schema::parse(&schema).unwrap(), &options).unwrap();
    let checked: Vec<_> = compiled.contract.checked().map(|entry| entry.keyword().to_owned()).collect();
    assert_eq!(checked, ["x-toolgate-choices"]);
    assert!(compiled.accepts("\"xyz\"").unwrap() && !compiled.accepts("\"wxyz\"").unwrap());
}

#[test]
fn what_is_no_choice_is_an_error_with_its_place() {
    for choices in [json!(["a"]), json!({"texts": "a"}), json!({"text": []})] {
        let schema = json!({"properties": {"p": {"x-toolgate-choices": choices}}});
        let error = Schema::parse(&schema).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidSchema, "{error}");
        assert!(error.to_string().contains("/properties/p"), "{error}");
    }
}
