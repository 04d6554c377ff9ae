//! Every way to put a mask together is gone by some tool's grammar; `tests/schema` counts them over whole corpora.

use serde_json::{Value, json};

use super::super::{Way, Ways};
use super::automaton;
use super::shared::new_model_vocabulary;
use crate::{Options, Schema, compile};

/// The ways gone for the masks behind each beginning of a text, on a vocabulary that nobody has used before.
fn ways(schema: &Value, text: &str) -> Ways {
    let compiled = compile(&Schema::parse(schema).unwrap(), &Options::default()).unwrap();
    let automaton = automaton(&compiled.grammar, new_model_vocabulary()).unwrap();
    let mut matcher = automaton.matcher();
    for byte in text.bytes() {
        matcher.mask().unwrap();
        matcher.accept_bytes(&[byte]).unwrap();
    }
    matcher.mask().unwrap();
    automaton.usage().ways
}

#[test]
fn each_way_is_gone_where_it_applies_and_not_elsewhere() {
    let string = json!({"type": "string"});
    let bounded = json!({"type": "string", "maxLength": 60});
    let open = json!({"properties": {"path": {"type": "string"}, "pattern": {"type": "string"}}, "additionalProperties": {"type": "boolean"}});
    let integer = json!({"type": "integer", "minimum": 0, "maximum": 1000});
    let all = |ways: Ways| Way::ALL.into_iter().filter(|way| ways.of(*way) > 0).collect::<Vec<_>>();
    for (schema, text, expected) in [
        (&integer, "12", vec![Way::Walk]),
        (&string, "\"ab", vec![Way::Walk, Way::Slice, Way::Shared]),
        (
            &bounded,
            "\"abcdefghijklmnopqrstuvwxyz",
            vec![Way::Walk, Way::Slice, Way::Corrected, Way::Difference],
        ),
        (&open, "{\"pa", vec![Way::Walk, Way::Slice, Way::Shared, Way::Difference]),
    ] {
        assert_eq!(all(ways(schema, text)), expected, "{schema} {text}");
    }
}

#[test]
fn a_mask_is_made_once_and_counts_survive_a_fresh_machine() {
    let compiled = compile(&Schema::parse(&json!({"type": "string"})).unwrap(), &Options::default()).unwrap();
    let automaton = automaton(&compiled.grammar, new_model_vocabulary()).unwrap();
    let mut matcher = automaton.matcher();
    matcher.accept_bytes(b"\"a").unwrap();
    matcher.mask().unwrap();
    let once = automaton.usage().ways;
    automaton.matcher().accept_bytes(b"\"a").unwrap();
    matcher.mask().unwrap();
    assert_eq!(automaton.usage().ways, once);
    let full = automaton.machine();
    let fresh = automaton.renewed(&full, true).unwrap();
    assert!(!std::sync::Arc::ptr_eq(&full, &fresh));
    assert_eq!(automaton.usage().ways, once);
}
