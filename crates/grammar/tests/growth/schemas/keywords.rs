//! Schemas that join others: negations, branches, references.

use serde_json::{Map, json};

use super::{Make, keys, list, named, texts, within};

pub(super) fn negations() -> Vec<(&'static str, usize, Make)> {
    vec![
        ("not, checked, in allOf", 500, |n| json!({"allOf": list(n, |_| json!({"not": {"multipleOf": 2}}))})),
        ("not, checked, in anyOf", 500, |n| json!({"anyOf": list(n, |_| json!({"not": {"multipleOf": 2}}))})),
        ("not, checked, in oneOf", 500, |n| json!({"oneOf": list(n, |_| json!({"not": {"multipleOf": 2}}))})),
        (
            "not, checked, in properties",
            300,
            |n| json!({"properties": named(n, |_| json!({"not": {"multipleOf": 2}}))}),
        ),
        (
            "not, checked, in prefixItems",
            300,
            |n| json!({"prefixItems": list(n, |_| json!({"not": {"multipleOf": 2}}))}),
        ),
        (
            "not, checked, in items",
            100,
            |n| json!({"anyOf": list(n, |_| json!({"items": {"not": {"multipleOf": 2}}}))}),
        ),
        ("not, checked, in $defs", 300, |n| {
            json!({
                "$defs": named(n, |_| json!({"not": {"multipleOf": 2}})),
                "properties": named(n, |i| json!({"$ref": format!("#/$defs/p{i}")}))
            })
        }),
        ("not of a type", 500, |n| json!({"allOf": list(n, |_| json!({"not": {"type": "string"}}))})),
        (
            "not of required",
            500,
            |n| json!({"allOf": list(n, |i| json!({"not": {"required": [format!("p{i}")]}}))}),
        ),
        ("not of a number", 500, |n| json!({"allOf": list(n, |i| json!({"not": {"const": i}}))})),
        (
            "not of a text",
            500,
            |n| json!({"type": "string", "allOf": list(n, |i| json!({"not": {"const": format!("v{i}")}}))}),
        ),
        (
            "not of many numbers",
            500,
            |n| json!({"type": "integer", "not": {"enum": list(n, |i| json!(3 * i))}}),
        ),
        (
            "not of many multiples",
            500,
            |n| json!({"type": "integer", "multipleOf": 7, "not": {"enum": list(n, |i| json!(7 * i))}}),
        ),
        (
            "not of many texts",
            500,
            |n| json!({"type": "string", "not": {"enum": texts(n, |i| format!("value {i}"))}}),
        ),
        ("not of one large schema, checked", 300, |n| {
            json!({
                "$defs": {"large": {"required": keys(n), "patternProperties": {"x": true}}},
                "allOf": list(n, |_| json!({"not": {"$ref": "#/$defs/large"}}))
            })
        }),
        ("not of one large schema", 300, |n| {
            json!({
                "$defs": {"large": {"required": keys(n)}},
                "allOf": list(n, |_| json!({"not": {"$ref": "#/$defs/large"}}))
            })
        }),
        (
            "not in not",
            10,
            |n| json!({"properties": named(n, |_| within(50, json!({"required": ["a"]}), |inner| json!({"not": inner})))}),
        ),
        (
            "if, checked",
            300,
            |n| json!({"allOf": list(n, |i| json!({"if": {"multipleOf": 2}, "then": {"minimum": i}}))}),
        ),
        (
            "if, then and else",
            200,
            |n| json!({"properties": named(n, |i| json!({"if": {"minimum": i}, "then": {"maximum": i + 10}, "else": {"const": 1}}))}),
        ),
    ]
}

pub(super) fn branches() -> Vec<(&'static str, usize, Make)> {
    vec![
        ("allOf of bounds", 500, |n| json!({"allOf": list(n, |i| json!({"minimum": i}))})),
        (
            "allOf of properties",
            500,
            |n| json!({"allOf": list(n, |i| json!({"properties": {format!("p{i}"): {"type": "integer"}}}))}),
        ),
        ("allOf of required", 500, |n| json!({"allOf": list(n, |i| json!({"required": [format!("p{i}")]}))})),
        (
            "allOf of multiples",
            500,
            |n| json!({"type": "integer", "allOf": list(n, |i| json!({"multipleOf": i + 1}))}),
        ),
        (
            "allOf of enums",
            500,
            |n| json!({"allOf": list(n, |i| json!({"enum": [1, 2, format!("x{i}"), i]}))}),
        ),
        (
            "allOf of contains",
            500,
            |n| json!({"allOf": list(n, |_| json!({"contains": {"type": "string"}}))}),
        ),
        (
            "allOf of prefixItems",
            500,
            |n| json!({"allOf": list(n, |_| json!({"prefixItems": [true, {"type": "string"}]}))}),
        ),
        ("anyOf of bounds", 300, |n| json!({"anyOf": list(n, |i| json!({"minimum": i}))})),
        ("anyOf of constants", 500, |n| json!({"anyOf": list(n, |i| json!({"const": format!("c{i}")}))})),
        (
            "anyOf of one schema",
            200,
            |n| json!({"anyOf": list(n, |_| json!({"properties": {"a": {"type": "string"}, "b": {"minimum": 3}}}))}),
        ),
        (
            "anyOf of anyOf, beside a bound",
            300,
            |n| json!({"anyOf": list(n, |i| json!({"anyOf": [{"minimum": i}, {"maximum": i}]})), "minimum": 3}),
        ),
        ("anyOf of tagged objects", 300, |n| {
            json!({"anyOf": list(n, |i| json!({
                "type": "object", "properties": {"kind": {"const": format!("k{i}")}}, "required": ["kind"]
            }))})
        }),
        (
            "oneOf of more than are compared",
            300,
            |n| json!({"oneOf": list(n, |i| json!({"enum": [i, i + 1]}))}),
        ),
        (
            "oneOf of two lists of numbers",
            500,
            |n| json!({"oneOf": [{"enum": list(n, |i| json!(i))}, {"enum": list(n, |i| json!(i + n))}]}),
        ),
        (
            "oneOf of two lists of texts",
            500,
            |n| json!({"oneOf": [{"enum": texts(n, |i| format!("a{i}"))}, {"enum": texts(n, |i| format!("b{i}"))}]}),
        ),
        ("oneOf of two large objects", 200, |n| {
            json!({"oneOf": [
                {"properties": named(n, |_| json!({"type": "string"})), "required": keys(n)},
                {"properties": named(n, |i| json!({"type": if i + 1 == n { "integer" } else { "string" }})), "required": keys(n)}
            ]})
        }),
        (
            "choices at one place",
            300,
            |n| json!({"allOf": list(n, |i| json!({"anyOf": [{"minimum": i}, true]}))}),
        ),
        (
            "anyOf in properties",
            300,
            |n| json!({"properties": named(n, |i| json!({"anyOf": [{"type": "null"}, {"type": "string", "maxLength": i}]}))}),
        ),
        ("unevaluated", 500, |n| json!({"allOf": list(n, |_| json!({"unevaluatedProperties": false}))})),
    ]
}

pub(super) fn references() -> Vec<(&'static str, usize, Make)> {
    let chained: Make = |n| {
        let mut definitions = named(n, |i| json!({"$ref": format!("#/$defs/p{}", i + 1)}));
        definitions.insert(format!("p{n}"), json!({"uniqueItems": true}));
        json!({"properties": named(n, |i| json!({"$ref": format!("#/$defs/p{i}")})), "$defs": definitions})
    };
    let backwards: Make = |n| {
        let mut definitions = Map::from_iter([("p0".to_owned(), json!({"uniqueItems": true}))]);
        definitions.extend((1..n).map(|i| (format!("p{i}"), json!({"$ref": format!("#/$defs/p{}", i - 1)}))));
        json!({"properties": named(n, |i| json!({"anyOf": [{"$ref": format!("#/$defs/p{i}")}]})), "$defs": definitions})
    };
    vec![
        ("$id and $ref", 300, |n| {
            json!({
                "$defs": named(n, |i| json!({"$id": format!("http://x.example/{i}"), "type": "string"})),
                "properties": named(n, |i| json!({"$ref": format!("http://x.example/{i}")}))
            })
        }),
        ("$ref below an $id", 200, |n| {
            json!({
                "$defs": named(n, |i| json!({
                    "$id": format!("http://x.example/{i}"),
                    "properties": {"a": {"$ref": "#/$defs/y"}},
                    "$defs": {"y": {"type": "string"}}
                })),
                "properties": named(n, |i| json!({"$ref": format!("http://x.example/{i}")}))
            })
        }),
        ("one $id many times", 300, |n| {
            json!({
                "$defs": named(n, |_| json!({"$id": "http://x.example/", "type": "string"})),
                "properties": named(n, |_| json!({"$ref": "http://x.example/"}))
            })
        }),
        ("$anchor", 300, |n| {
            json!({
                "$defs": named(n, |i| json!({"$anchor": format!("a{i}"), "type": "string"})),
                "properties": named(n, |i| json!({"$ref": format!("#a{i}")}))
            })
        }),
        ("$anchor below a long $id", 300, |n| {
            json!({
                "$id": format!("http://x.example/{}", "a".repeat(20 * n)),
                "$defs": named(n, |i| json!({"$anchor": format!("a{i}"), "type": "string"})),
                "properties": named(n, |i| json!({"$ref": format!("#a{i}")}))
            })
        }),
        ("$dynamicAnchor", 300, |n| {
            json!({
                "$defs": named(n, |i| json!({"$dynamicAnchor": format!("a{i}"), "type": "string"})),
                "properties": named(n, |i| json!({"$dynamicRef": format!("#a{i}")}))
            })
        }),
        ("one $dynamicAnchor many times", 300, |n| {
            json!({
                "$defs": named(n, |_| json!({"$dynamicAnchor": "a", "type": "string"})),
                "properties": named(n, |_| json!({"$dynamicRef": "#a"}))
            })
        }),
        (
            "one definition",
            300,
            |n| json!({"$defs": {"x": {"type": "string"}}, "properties": named(n, |_| json!({"$ref": "#/$defs/x"}))}),
        ),
        ("a chain of references", 300, chained),
        ("a chain of references, last first", 300, backwards),
        ("one place in many spellings", 300, |n| {
            let spelled = |i: usize| {
                (0..12).map(|bit| if i >> bit & 1 == 1 { "~02" } else { "~2" }).collect::<String>()
            };
            json!({
                "$defs": {"~2".repeat(12): {"properties": named(n, |_| json!({"type": "string"}))}},
                "allOf": list(n, |i| json!({"$ref": format!("#/$defs/{}", spelled(i))}))
            })
        }),
        ("long pointers", 100, |n| {
            json!({
                "$defs": named(n, |i| json!({"x".repeat(100 + i % 7): {"type": "string"}})),
                "properties": named(n, |i| json!({"$ref": format!("#/$defs/p{i}/{}", "x".repeat(100 + i % 7))}))
            })
        }),
    ]
}
