//! Masks that one grammar finds and others use: on a vocabulary like those of models, for grammars like those of tools.

use std::sync::{Arc, OnceLock};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Map, Value, json};

use super::super::{Automaton, TokenId, TokenKind, Vocabulary};
use super::automaton;
use crate::{Options, Schema, Whitespace, compile};

fn config() -> ProptestConfig {
    let fixed = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => fixed,
        None => ProptestConfig { cases: 60, rng_seed: RngSeed::Fixed(11), ..fixed },
    }
}

/// The same vocabulary for all cases, so that each of them meets what the others have left.
fn model_vocabulary() -> Arc<Vocabulary> {
    static MODEL: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    Arc::clone(MODEL.get_or_init(new_model_vocabulary))
}

/// Words, punctuation that runs over the ends of strings, escapes, digits, blanks, and parts of characters.
pub(super) fn new_model_vocabulary() -> Arc<Vocabulary> {
    let mut texts: Vec<Vec<u8>> = (0..=u8::MAX).map(|byte| vec![byte]).collect();
    let words = [
        "path", "size", "kind", "a", "id", "name", "true", "null", "read", "pa", "th", "é", "日本", "\u{7f}",
    ];
    let edges = [
        "", " ", "\"", "\",", "\":", "\"}", "\\", "\\n", "\\\"", "\\u00", "\":\"", "}", ",\"", "\n", "1", "-",
    ];
    for word in words {
        for before in edges {
            texts.extend(edges.map(|after| format!("{before}{word}{after}").into_bytes()));
        }
    }
    for number in 0..200 {
        texts.push(number.to_string().into_bytes());
    }
    for length in [2, 3, 8, 16, 17, 20, 33, 40] {
        texts.extend([" ", "a", "é", "\\n"].map(|unit| unit.repeat(length).into_bytes()));
        texts.push(format!("{}\",\"", "a".repeat(length)).into_bytes());
    }
    texts.extend(
        [&b"\xe6\x97"[..], b"\xa5\xe6", b"a\xe6", b"\x97\xa5\"", b"\xc3\xa9\xc3", b"\xf0\x9f"]
            .map(<[u8]>::to_vec),
    );
    let end = (b"<eos>".to_vec(), TokenKind::EndOfGeneration);
    let tokens = texts.into_iter().map(|text| (text, TokenKind::Text));
    Arc::new(Vocabulary::new(tokens.chain([end])).unwrap())
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => Just(json!({"type": "string"})),
        3 => (0u64..20, 0u64..40)
            .prop_map(|(min, more)| json!({"type": "string", "minLength": min, "maxLength": min + more})),
        1 => Just(json!({"type": "string", "minLength": 3})),
        1 => Just(json!({"type": "string", "format": "date"})),
        1 => Just(json!({"type": "string", "pattern": "^[a-z]+(-[a-z0-9]{1,20})*$"})),
        1 => Just(json!({"type": "integer", "minimum": 0, "maximum": 1000})),
        1 => Just(json!({"type": "number"})),
        1 => Just(json!({"enum": ["read", "read_file", "name", "é"]})),
        1 => Just(json!({"type": "array", "items": {"type": "string"}, "maxItems": 3})),
        1 => Just(json!({"additionalProperties": {"type": "boolean"}})),
    ]
}

/// An object of some properties, open or closed, perhaps with another inside it.
fn schemas() -> impl Strategy<Value = Value> {
    let names = prop::sample::subsequence(vec!["path", "size", "pa", "kind", "a", "id", "name", "é"], 1..5);
    let member = (values(), any::<bool>());
    (names, prop::collection::vec(member, 5), any::<bool>(), any::<bool>()).prop_map(
        |(names, members, open, nested)| {
            let of = |inner: Option<Value>| {
                let required: Vec<&str> =
                    names.iter().zip(&members).filter(|(_, (_, required))| *required).map(|(n, _)| *n).collect();
                let mut properties: Map<String, Value> =
                    names.iter().zip(&members).map(|(n, (value, _))| ((*n).to_owned(), value.clone())).collect();
                properties.extend(inner.map(|inner| ("inner".to_owned(), inner)));
                json!({"type": "object", "properties": properties, "required": required, "additionalProperties": open})
            };
            let inner = of(None);
            if nested { of(Some(inner)) } else { inner }
        },
    )
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn masks_shared_between_grammars_are_exact(
        schema in schemas(),
        choices in prop::collection::vec(any::<prop::sample::Index>(), 1..25),
    ) {
        let options = Options { whitespace: Whitespace::Compact, ..Options::default() };
        let compiled = compile(&Schema::parse(&schema).unwrap(), &options).unwrap();
        let vocabulary = model_vocabulary();
        let automaton = automaton(&compiled.grammar, vocabulary.clone()).unwrap();
        let mut matcher = automaton.matcher();
        for choice in choices {
            let mask = matcher.mask().unwrap().clone();
            for token in 0..vocabulary.len() as TokenId {
                prop_assert_eq!(mask.contains(token), matcher.allows(token).unwrap(),
                    "token {} {:?} of {}", token, String::from_utf8_lossy(vocabulary.bytes(token)), schema);
            }
            let allowed: Vec<TokenId> = mask.iter().filter(|token| !vocabulary.end_tokens().contains(token)).collect();
            if allowed.is_empty() {
                break;
            }
            matcher.accept(allowed[choice.index(allowed.len())]).unwrap();
        }
    }
}

#[test]
fn a_second_grammar_uses_what_the_first_has_found() {
    let vocabulary = new_model_vocabulary();
    let held = |schema: Value| {
        let compiled = compile(&Schema::parse(&schema).unwrap(), &Options::default()).unwrap();
        let automaton = automaton(&compiled.grammar, vocabulary.clone()).unwrap();
        let mut matcher = automaton.matcher();
        matcher.accept_bytes(b"{\"note\": \"a").unwrap();
        matcher.mask().unwrap();
        automaton.machine().shared.texts.bytes()
    };
    let object = |property: &str| {
        json!({"type": "object", "properties": {"note": {"type": "string"}, property: {"type": "string"}},
        "required": ["note", property], "additionalProperties": false})
    };
    let first = held(object("x"));
    assert!(first > 0);
    assert_eq!(held(object("completely_different")), first);
}

#[test]
fn what_is_shared_lasts_as_long_as_the_vocabulary() {
    let grammar = crate::Grammar::parse("root ::= [a-z]*").unwrap();
    let shared = |automaton: &Automaton| Arc::downgrade(&automaton.machine().shared);
    let vocabulary = new_model_vocabulary();
    let first = automaton(&grammar, vocabulary.clone()).unwrap();
    let kept = shared(&first);
    drop(first);
    let second = automaton(&grammar, vocabulary.clone()).unwrap();
    assert!(kept.ptr_eq(&shared(&second)), "the second automaton has what the first one left");
    let other = automaton(&grammar, new_model_vocabulary()).unwrap();
    assert!(!kept.ptr_eq(&shared(&other)), "an equal vocabulary is another one");
    let matcher = second.matcher();
    drop((vocabulary, second));
    assert!(kept.upgrade().is_some(), "a run still holds the vocabulary");
    drop(matcher);
    assert!(kept.upgrade().is_none(), "nobody holds the vocabulary any more");
}
