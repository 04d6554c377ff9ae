//! Schemas of objects, lists and listed values.

use serde_json::{Map, json};

use super::{Make, keys, list, named, texts};

pub(super) fn objects() -> Vec<(&'static str, usize, Make)> {
    vec![
        ("properties", 300, |n| json!({"properties": named(n, |_| json!({"type": "integer"}))})),
        (
            "properties, required",
            300,
            |n| json!({"properties": named(n, |_| json!({"type": "integer"})), "required": keys(n)}),
        ),
        (
            "properties, and no others",
            300,
            |n| json!({"properties": named(n, |_| json!({"type": "integer"})), "additionalProperties": false}),
        ),
        (
            "properties, counted",
            300,
            |n| json!({"properties": named(n, |_| json!({"type": "integer"})), "minProperties": 2, "maxProperties": n / 2}),
        ),
        (
            "properties and two key patterns",
            300,
            |n| json!({"properties": named(n, |_| json!({"minimum": 1})), "patternProperties": {"^a": {"minimum": 1}, "b$": true}}),
        ),
        (
            "names beyond ASCII",
            200,
            |n| json!({"properties": Map::from_iter((0..n).map(|i| (format!("é{i}"), json!(true)))), "patternProperties": {"a": true}}),
        ),
        (
            "required of one part, properties of another",
            300,
            |n| json!({"allOf": [{"required": keys(n)}, {"properties": named(n, |_| json!({"type": "string"}))}]}),
        ),
        ("key patterns", 200, |n| json!({"patternProperties": named(n, |i| json!({"minimum": i}))})),
        ("key patterns that no automaton stands for", 300, |n| {
            json!({
                "patternProperties": Map::from_iter((0..n).map(|i| (format!("(?=a{i})"), json!(true)))), "additionalProperties": false
            })
        }),
        (
            "propertyNames",
            300,
            |n| json!({"properties": named(n, |_| json!({"type": "integer"})), "propertyNames": {"pattern": "^p"}}),
        ),
        (
            "propertyNames, listed",
            300,
            |n| json!({"properties": named(n, |_| json!({"type": "integer"})), "propertyNames": {"enum": keys(n)}}),
        ),
        ("dependentRequired", 300, |n| json!({"dependentRequired": named(n, |i| json!([format!("q{i}")]))})),
        (
            "dependentRequired of one",
            300,
            |n| json!({"dependentRequired": {"a": texts(n, |i| format!("q{i}"))}}),
        ),
        ("dependentSchemas", 300, |n| json!({"dependentSchemas": named(n, |i| json!({"minProperties": i}))})),
        (
            "dependencies",
            300,
            |n| json!({"dependencies": named(n, |i| if i % 2 == 0 { json!([format!("q{i}")]) } else { json!({"minProperties": i}) })}),
        ),
        ("three dependencies of many properties", 200, |n| {
            json!({
                "properties": named(n, |_| json!({"type": "integer"})),
                "dependentRequired": {"p0": ["p1"], "p2": ["p3"], "p4": ["p5"]}
            })
        }),
        (
            "a long key at the end",
            300,
            |n| json!({"properties": {"k".repeat(50 * n): {"type": "string"}}, "required": ["k".repeat(50 * n)]}),
        ),
    ]
}

pub(super) fn lists_and_values() -> Vec<(&'static str, usize, Make)> {
    vec![
        ("prefixItems", 300, |n| json!({"prefixItems": list(n, |_| json!({"type": "string"}))})),
        (
            "prefixItems, all of them required",
            300,
            |n| json!({"prefixItems": list(n, |i| json!({"type": "string", "maxLength": i})), "minItems": n}),
        ),
        (
            "prefixItems and items",
            300,
            |n| json!({"allOf": [{"prefixItems": list(n, |_| json!({"type": "string"}))}, {"items": {"maxLength": 3}}]}),
        ),
        ("types", 500, |n| json!({"type": list(n, |_| json!("string"))})),
        (
            "lists of types",
            200,
            |n| json!({"properties": named(n, |_| json!({"type": ["string", "null", "integer", "array", "object", "boolean"]}))}),
        ),
        ("enum of numbers", 1_000, |n| json!({"enum": list(n, |i| json!(i))})),
        ("enum of texts", 1_000, |n| json!({"enum": texts(n, |i| format!("value {i}"))})),
        ("enum of lists in lists", 300, |n| json!({"enum": list(n, |i| json!([[[[i]]]]))})),
        (
            "enum of long texts",
            300,
            |n| json!({"enum": list(10, |i| json!(format!("{}{i}", "x".repeat(10 * n))))}),
        ),
        ("enum of texts in one another", 40, |n| json!({"enum": texts(100, |i| "ab".repeat(n * i))})),
        (
            "two enums of numbers",
            500,
            |n| json!({"allOf": [{"enum": list(n, |i| json!(i))}, {"enum": list(n, |i| json!(i + n / 2))}]}),
        ),
        (
            "two enums of lists",
            500,
            |n| json!({"allOf": [{"enum": list(n, |i| json!([i]))}, {"enum": list(n, |i| json!([i + n / 2]))}]}),
        ),
        (
            "enum without some",
            500,
            |n| json!({"enum": list(n, |i| json!(i)), "not": {"enum": list(n, |i| json!(i + n / 2))}}),
        ),
        (
            "many enums",
            20,
            |n| json!({"properties": named(n, |k| json!({"enum": texts(70, |i| format!("v{k}-{i}"))}))}),
        ),
        ("constants", 300, |n| json!({"properties": named(n, |i| json!({"const": i}))})),
        (
            "an object in an enum, of many properties",
            300,
            |n| json!({"enum": [named(n, |i| json!(i))], "properties": named(n, |_| json!({"type": "integer"}))}),
        ),
        (
            "objects in an enum, of many properties",
            300,
            |n| json!({"enum": list(n, |i| json!({format!("p{i}"): i})), "properties": named(n, |_| json!({"type": "integer"}))}),
        ),
        (
            "values that cannot be decided",
            200,
            |n| json!({"properties": named(n, |_| json!({"enum": ["a", "b"], "pattern": "^(a|b|(?:x{20000}))$"}))}),
        ),
    ]
}
