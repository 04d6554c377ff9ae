//! The compiler's laws, over schemas drawn at random: what the grammar writes is valid wherever the contract leaves
//! nothing to check, and what is valid and rendered in the contract's order is accepted.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolgate_grammar::compile::render;
use toolgate_grammar::gbnf::{SampleOptions, Sampler};
use toolgate_grammar::{Kind, Options, Schema, Whitespace, compile};

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-20_i64..20).prop_map(Value::from),
        (-40_i64..40).prop_map(|n| json!(n as f64 / 4.0)),
        "[a-c]{0,3}".prop_map(Value::from),
    ]
}

fn string() -> impl Strategy<Value = Value> {
    let pattern = prop_oneof![
        Just("^[a-c]+$"),
        Just("b"),
        Just("^a|c$"),
        Just("\\d\\w"),
        Just("^(ab?)*$"),
        Just("[^a-z]"),
        Just("\\bx\\b"),
        Just("^\\S{2,}$"),
    ];
    let format = prop_oneof![
        Just("date"),
        Just("uuid"),
        Just("ipv4"),
        Just("time"),
        Just("uri-reference"),
        Just("json-pointer")
    ];
    (
        proptest::option::of(0_u64..4),
        proptest::option::of(0_u64..6),
        proptest::option::of(pattern),
        proptest::option::weighted(0.1, format),
    )
        .prop_map(|(min, max, pattern, format)| {
            let mut map = Map::from_iter([("type".to_owned(), json!("string"))]);
            map.extend(min.map(|n| ("minLength".to_owned(), json!(n))));
            map.extend(max.map(|n| ("maxLength".to_owned(), json!(n + min.unwrap_or(0)))));
            map.extend(pattern.map(|p| ("pattern".to_owned(), json!(p))));
            map.extend(format.map(|f| ("format".to_owned(), json!(f))));
            Value::Object(map)
        })
}

fn number() -> impl Strategy<Value = Value> {
    let bound = || {
        proptest::option::of(
            (-5_000_i64..5_000).prop_map(|n| if n % 3 == 0 { json!(n as f64 / 8.0) } else { json!(n) }),
        )
    };
    let kind = prop_oneof![Just("integer"), Just("number")];
    let lower = prop_oneof![Just("minimum"), Just("exclusiveMinimum")];
    let upper = prop_oneof![Just("maximum"), Just("exclusiveMaximum")];
    (kind, lower, bound(), upper, bound(), proptest::option::weighted(0.3, 1_u64..40)).prop_map(
        |(kind, lower, min, upper, max, unit)| {
            let mut map = Map::from_iter([("type".to_owned(), json!(kind))]);
            map.extend(min.map(|n| (lower.to_owned(), n)));
            map.extend(max.map(|n| (upper.to_owned(), n)));
            map.extend(unit.map(|n| ("multipleOf".to_owned(), json!(n))));
            Value::Object(map)
        },
    )
}

/// Any of `a` to `e`, with its schema and whether it is required.
fn object(inner: impl Strategy<Value = Value> + Clone) -> impl Strategy<Value = Value> {
    let additional =
        prop_oneof![3 => Just(Some(json!(false))), 1 => Just(None), 1 => inner.clone().prop_map(Some)];
    let members = proptest::collection::btree_map("[a-e]", (inner.clone(), any::<bool>()), 0..4);
    let counts = proptest::option::weighted(0.2, (0_u64..3, 0_u64..3));
    let pattern = proptest::option::weighted(0.2, (Just("[ab]|^x"), inner));
    (members, additional, counts, pattern).prop_map(|(members, additional, counts, pattern)| {
        let required: Vec<&String> =
            members.iter().filter(|(_, (_, required))| *required).map(|(name, _)| name).collect();
        let properties: Map<String, Value> =
            members.iter().map(|(name, (schema, _))| (name.clone(), schema.clone())).collect();
        let mut map = Map::from_iter([("type".to_owned(), json!("object"))]);
        if !required.is_empty() {
            map.insert("required".to_owned(), json!(required));
        }
        map.insert("properties".to_owned(), Value::Object(properties));
        map.extend(additional.map(|schema| ("additionalProperties".to_owned(), schema)));
        if let Some((min, more)) = counts {
            map.insert("minProperties".to_owned(), json!(min));
            map.insert("maxProperties".to_owned(), json!(min + more));
        }
        map.extend(
            pattern.map(|(pattern, schema)| ("patternProperties".to_owned(), json!({pattern: schema}))),
        );
        Value::Object(map)
    })
}

fn array(inner: impl Strategy<Value = Value> + Clone) -> impl Strategy<Value = Value> {
    let prefix = proptest::collection::vec(inner.clone(), 0..3);
    (prefix, proptest::option::of(inner), proptest::option::of((0_u64..3, 0_u64..3))).prop_map(
        |(prefix, items, counts)| {
            let mut map = Map::from_iter([("type".to_owned(), json!("array"))]);
            if !prefix.is_empty() {
                map.insert("prefixItems".to_owned(), json!(prefix));
            }
            map.extend(items.map(|schema| ("items".to_owned(), schema)));
            if let Some((min, more)) = counts {
                map.insert("minItems".to_owned(), json!(min));
                map.insert("maxItems".to_owned(), json!(min + more));
            }
            Value::Object(map)
        },
    )
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        3 => string(),
        3 => number(),
        1 => Just(json!(true)),
        1 => Just(json!(false)),
        1 => Just(json!({"type": "boolean"})),
        1 => Just(json!({"type": ["integer", "null", "string"]})),
        2 => proptest::collection::vec(scalar(), 1..5).prop_map(|values| json!({"enum": values})),
        1 => scalar().prop_map(|value| json!({"const": value})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let list = || proptest::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            4 => object(inner.clone()),
            3 => array(inner.clone()),
            2 => list().prop_map(|all| json!({"anyOf": all})),
            1 => list().prop_map(|all| json!({"oneOf": all})),
            2 => list().prop_map(|all| json!({"allOf": all})),
            1 => inner.clone().prop_map(|not| json!({"not": not})),
            1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
            1 => (object(inner.clone()), list()).prop_map(|(mut object, any)| {
                if let Some(map) = object.as_object_mut() {
                    map.insert("anyOf".to_owned(), json!(any));
                }
                object
            }),
        ]
    })
}

fn check(document: &Value, seed: u64) -> Result<(), TestCaseError> {
    let schema = Schema::parse(document).unwrap_or_else(|e| panic!("{e}: {document}"));
    let options = Options::default().whitespace(Whitespace::Compact);
    let compiled = match compile(&schema, &options) {
        Ok(compiled) => compiled,
        // Nothing matches: then no value of a broad sample may be valid either.
        Err(error) if error.kind() == Kind::InvalidSchema => {
            let validator = jsonschema::options().should_validate_formats(true).build(document).unwrap();
            for value in [
                json!(null),
                json!(true),
                json!(0),
                json!(7),
                json!(-1.5),
                json!(""),
                json!("a"),
                json!("abc"),
                json!([]),
                json!([1]),
                json!({}),
                json!({"a": 1}),
            ] {
                prop_assert!(
                    !validator.is_valid(&value),
                    "{} is valid, but {} for {}",
                    value,
                    error,
                    document
                );
            }
            return Ok(());
        }
        Err(error) => panic!("{error}: {document}"),
    };
    let validator = jsonschema::options().should_validate_formats(true).build(document).unwrap();
    let Ok(sampler) = Sampler::new(&compiled.grammar, &SampleOptions::default().max_len(120)) else {
        return Ok(());
    };
    for i in 0..8 {
        let Ok(text) = sampler.seeded(seed.wrapping_add(i)) else { continue };
        let value: Value = match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(error) => return Err(TestCaseError::fail(format!("{error}: {text} for {document}"))),
        };
        let valid = validator.is_valid(&value);
        prop_assert!(
            valid || !compiled.contract.is_complete(),
            "{} is invalid for {}\n{}",
            text,
            document,
            compiled.grammar
        );
        if valid {
            let rendered = render(&value, Some(&schema), options.whitespace);
            prop_assert!(
                compiled.accepts(&rendered).unwrap(),
                "{} (from {}) is refused for {}\n{}",
                rendered,
                text,
                document,
                compiled.grammar
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: proptest::test_runner::RngSeed::Fixed(20_261_121), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_the_grammar_writes_is_valid_and_what_is_valid_is_accepted(document in schema(), seed in any::<u64>()) {
        check(&document, seed)?;
    }

    #[test]
    fn valid_scalars_are_accepted_and_invalid_ones_only_where_checked(document in schema(), values in proptest::collection::vec(scalar(), 6)) {
        let schema = Schema::parse(&document).unwrap();
        let options = Options::default().whitespace(Whitespace::Compact);
        let Ok(compiled) = compile(&schema, &options) else { return Ok(()) };
        let validator = jsonschema::options().should_validate_formats(true).build(&document).unwrap();
        for value in values {
            let text = render(&value, Some(&schema), options.whitespace);
            let (valid, accepted) = (validator.is_valid(&value), compiled.accepts(&text).unwrap());
            prop_assert!(accepted || !valid, "{} is refused for {}\n{}", text, document, compiled.grammar);
            prop_assert!(valid || !accepted || !compiled.contract.is_complete(), "{} is accepted for {}\n{}", text, document, compiled.grammar);
        }
    }
}
