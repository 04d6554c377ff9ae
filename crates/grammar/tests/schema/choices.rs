//! A keyword of one's own in JSON and as bare text: the grammar's language is the listed one, in every spelling.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_grammar::compile::choices_into;
use toolgate_grammar::schema::{Class, Extension, SchemaOptions, Texts};
use toolgate_grammar::{
    Automaton, Compiled, Grammar, Kind, Limits, Options, Schema, Vocabulary, Whitespace, compile,
};

use crate::choices_keyword::{read, schema};

fn in_json(choices: &Value) -> Option<Compiled> {
    let schema = schema(&json!({"type": "string", "x-choices": choices})).unwrap();
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
    match choices_into(&read(choices).unwrap(), end, &Options::default(), &mut builder, "root") {
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
    let document = json!({
        "type": ["string", "null"], "x-choices": {"texts": ["a.txt", "b.txt", "c"]},
        "pattern": "\\.", "not": {"const": "a.txt"}
    });
    let compiled = compile(&schema(&document).unwrap(), &Options::default()).unwrap();
    assert!(compiled.contract.is_complete());
    for (text, held) in
        [("\"b.txt\"", true), ("null", true), ("\"a.txt\"", false), ("\"c\"", false), ("\"d.txt\"", false)]
    {
        assert_eq!(compiled.accepts(text).unwrap(), held, "{text}");
    }
    let none_of = json!({"type": "string", "not": {"x-choices": {"texts": ["a", "b"]}}});
    let compiled = compile(&schema(&none_of).unwrap(), &Options::default()).unwrap();
    assert!(compiled.accepts("\"c\"").unwrap() && !compiled.accepts("\"a\"").unwrap());
}

#[test]
fn too_many_choices_are_checked_and_nothing_else_is_lost() {
    let options = Options::default().whitespace(Whitespace::Compact);
    let texts: Vec<String> = (0..100_000).map(|i| format!("file-{i}.txt")).collect();
    let document = json!({"type": "string", "maxLength": 3, "x-choices": {"texts": texts}});
    let compiled = compile(&schema(&document).unwrap(), &options).unwrap();
    let checked: Vec<_> = compiled.contract.checked().map(|entry| entry.keyword().to_owned()).collect();
    assert_eq!(checked, ["x-choices"]);
    assert!(compiled.accepts("\"xyz\"").unwrap() && !compiled.accepts("\"wxyz\"").unwrap());
}

#[test]
fn what_is_no_choice_is_an_error_with_its_place() {
    for choices in [json!(["a"]), json!({"texts": "a"}), json!({"texts": [1]})] {
        let document = json!({"properties": {"p": {"x-choices": choices}}});
        let error = schema(&document).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidSchema, "{error}");
        assert!(error.to_string().contains("/properties/p"), "{error}");
    }
}

#[test]
fn a_keyword_means_what_was_registered_for_it_and_nothing_by_itself() {
    let document = json!({"type": "string", "x-choices": {"texts": ["a"]}, "x-piece": {"texts": ["a"]}});
    let classes = |extensions: Vec<Extension>| {
        let reading = SchemaOptions::default().extensions(extensions);
        let compiled =
            compile(&Schema::parse_with(&document, &reading).unwrap(), &Options::default()).unwrap();
        let classes = compiled.contract.entries().map(|entry| entry.class()).collect::<Vec<_>>();
        (classes, ["\"a\"", "\"b\""].map(|text| compiled.accepts(text).unwrap()))
    };
    let choices = Extension { keyword: "x-choices", read };
    let piece = Extension { keyword: "x-piece", read: |_| Ok(Texts::OnceIn("ab")) };
    let (enforced, ignored) = (Class::Enforced, Class::Annotation);
    assert_eq!(classes(vec![]), (vec![enforced, ignored, ignored], [true, true]));
    assert_eq!(classes(vec![choices]), (vec![enforced, enforced, ignored], [true, false]));
    // The same value of another keyword means other texts.
    assert_eq!(classes(vec![piece]), (vec![enforced, ignored, enforced], [true, true]));
    assert_eq!(classes(vec![piece, choices]), (vec![enforced; 3], [true, false]));
    let length = Extension { keyword: "maxLength", read: |_| Err("never read") };
    let reading = SchemaOptions::default().extensions(vec![length]);
    assert!(Schema::parse_with(&json!({"maxLength": 3}), &reading).is_ok(), "JSON Schema has that name");
}
