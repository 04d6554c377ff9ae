//! Schemas that multiply out, and those of which something is proven or determinized.

use serde_json::json;

use super::{Make, joined, list, named, texts};

/// Name, a size that compiles, one that does not, and schema: it multiplies out.
pub(crate) fn metered() -> Vec<(&'static str, usize, usize, Make)> {
    vec![
        (
            "branches beside many parts",
            10,
            1_000,
            |n| json!({"allOf": list(n, |i| json!({"minimum": -(i as i64)})), "anyOf": list(n, |i| json!({"maximum": i}))}),
        ),
        (
            "branches beside many properties",
            10,
            1_000,
            |n| json!({"properties": named(n, |_| json!({"type": "integer"})), "anyOf": list(n, |i| json!({"required": [format!("p{i}")]}))}),
        ),
        (
            "two wide unions",
            10,
            1_000,
            |n| json!({"allOf": [{"anyOf": list(n, |i| json!({"minimum": i}))}, {"anyOf": list(n, |i| json!({"maximum": i}))}]}),
        ),
        (
            "parts that each speak of all other keys",
            10,
            2_000,
            |n| json!({"allOf": list(n, |i| json!({"properties": {format!("p{i}"): {"type": "integer"}}, "additionalProperties": {"minimum": i}}))}),
        ),
        (
            "parts that each speak of all positions",
            10,
            2_000,
            |n| json!({"allOf": list(n, |i| json!({"items": {"minimum": i}})), "prefixItems": list(n, |_| json!({"type": "number"}))}),
        ),
        (
            "names against key patterns",
            10,
            1_000,
            |n| json!({"properties": named(n, |_| json!({"type": "integer"})), "patternProperties": named(n, |i| json!({"minimum": i}))}),
        ),
        (
            "names against propertyNames",
            10,
            2_000,
            |n| json!({"properties": named(n, |_| json!({"type": "integer"})), "allOf": list(n, |_| json!({"propertyNames": {"pattern": "^p"}}))}),
        ),
        (
            "a long text referred to",
            10,
            3_000,
            |n| json!({"$defs": {"x": {"const": "y".repeat(10 * n)}}, "properties": named(n, |_| json!({"$ref": "#/$defs/x"}))}),
        ),
        (
            "a large value referred to",
            10,
            1_000,
            |n| json!({"$defs": {"x": {"const": named(n, |i| json!(i))}}, "properties": named(n, |_| json!({"$ref": "#/$defs/x"}))}),
        ),
        ("a long list referred to, each time with a length", 100, 2_000, |n| {
            json!({
                "$defs": {"v": {"enum": texts(n, |i| format!("v{i}"))}},
                "properties": named(n, |i| json!({"allOf": [{"$ref": "#/$defs/v"}, {"maxLength": i}]}))
            })
        }),
        ("a long pattern referred to, each time with a length", 10, 1_000, |n| {
            json!({
                "$defs": {"v": {"type": "string", "pattern": format!("^{}[a-z]*$", "ab".repeat(n))}},
                "properties": named(n, |i| json!({"allOf": [{"$ref": "#/$defs/v"}, {"maxLength": 2 * n + i}]}))
            })
        }),
        ("many parts referred to", 10, 1_000, |n| {
            json!({
                "$defs": {"x": {"allOf": list(n, |i| json!({"minimum": i}))}},
                "properties": named(n, |i| json!({"allOf": [{"$ref": "#/$defs/x"}, {"maximum": 1_000_000 + i}]}))
            })
        }),
        ("a chain of parts, referred to everywhere", 10, 2_000, |n| {
            let mut definitions =
                named(n, |i| json!({"minimum": i, "allOf": [{"$ref": format!("#/$defs/p{}", i + 1)}]}));
            definitions.insert(format!("p{n}"), json!({"type": "integer"}));
            json!({"properties": named(n, |i| json!({"$ref": format!("#/$defs/p{i}")})), "$defs": definitions})
        }),
        ("a long $id above many", 10, 2_000, |n| {
            json!({
                "$id": format!("http://x.example/{}/", "a".repeat(20 * n)),
                "$defs": named(n, |i| json!({"$id": format!("b{i}"), "type": "string"}))
            })
        }),
        (
            "a long key above many",
            10,
            2_000,
            |n| json!({"properties": {"k".repeat(20 * n): {"properties": named(n, |_| json!({"type": "string"}))}}}),
        ),
        (
            "a long key above checked keywords",
            10,
            2_000,
            |n| json!({"properties": {"k".repeat(20 * n): {"anyOf": list(n, |_| json!({"uniqueItems": true}))}}}),
        ),
        (
            "sets of Unicode in classes",
            10,
            2_000,
            |n| json!({"type": "string", "pattern": joined(n, "", |i| format!("[\\p{{L}}{i}]"))}),
        ),
    ]
}

/// Name, size and schema: what is to be proven or determinized takes too long.
pub(crate) fn proven() -> Vec<(&'static str, usize, Make)> {
    vec![
        (
            "listed texts against many patterns",
            1_000,
            |n| json!({"enum": texts(n, |i| format!("v{i}")), "allOf": list(n, |i| json!({"pattern": format!("^v[0-{}]*", i % 10)}))}),
        ),
        (
            "listed texts against a long pattern",
            2_000,
            |n| json!({"enum": texts(n, |i| format!("v{i}")), "pattern": format!("^v({})", joined(n, "|", |i| format!("{i}$")))}),
        ),
        (
            "branches that may overlap",
            150,
            |n| json!({"oneOf": list(n, |i| json!({"properties": {format!("p{i}"): {"enum": list(50, |j| json!(j))}}}))}),
        ),
        (
            "many choices of exactly one",
            1_000,
            |n| json!({"allOf": list(n, |i| json!({"oneOf": [{"minimum": i}, {"type": "string"}]}))}),
        ),
        (
            "exploding patterns with lengths",
            200,
            |n| json!({"properties": named(n, |i| json!({"type": "string", "maxLength": 100, "pattern": format!("(a|b)*a(a|b){{{}}}", 30 + i)}))}),
        ),
        (
            "patterns of many states",
            200,
            |n| json!({"properties": named(n, |i| json!({"type": "string", "pattern": format!("^(a?){{1500}}b{i}$")}))}),
        ),
        (
            "key patterns that overlap",
            300,
            |n| json!({"patternProperties": named(n, |i| json!({"minimum": i})), "additionalProperties": false}),
        ),
    ]
}
