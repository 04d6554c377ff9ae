//! Schemas of texts and numbers, and what stands in odd places.

use serde_json::{Value, json};

use super::{Make, characters, joined, list, named, texts, within};

pub(super) fn texts_and_numbers() -> Vec<(&'static str, usize, Make)> {
    vec![
        (
            "a long pattern",
            300,
            |n| json!({"type": "string", "pattern": format!("^{}$", "ab".repeat(5 * n))}),
        ),
        (
            "a long pattern to be found",
            300,
            |n| json!({"type": "string", "pattern": joined(n, "", |i| format!("w{i}x"))}),
        ),
        (
            "alternatives in a pattern",
            500,
            |n| json!({"type": "string", "pattern": format!("^({})$", joined(n, "|", |i| format!("x{i}")))}),
        ),
        (
            "anchored alternatives, with a length",
            300,
            |n| json!({"type": "string", "maxLength": 40, "pattern": joined(n, "|", |i| format!("^x{i}[a-z]*$"))}),
        ),
        (
            "classes in a pattern",
            500,
            |n| json!({"type": "string", "pattern": format!("^{}$", "[a-z0-9_]".repeat(n))}),
        ),
        (
            "one large class in a pattern",
            500,
            |n| json!({"type": "string", "pattern": format!("[{}]", characters(n))}),
        ),
        (
            "Unicode in a pattern",
            100,
            |n| json!({"type": "string", "pattern": format!("^{}$", "\\p{L}".repeat(n))}),
        ),
        (
            "Unicode in a class",
            100,
            |n| json!({"type": "string", "pattern": format!("[{}]", "\\p{L}".repeat(n))}),
        ),
        (
            "stars in a pattern",
            500,
            |n| json!({"type": "string", "pattern": format!("^{}$", "a*".repeat(n))}),
        ),
        (
            "options in a pattern",
            500,
            |n| json!({"type": "string", "pattern": format!("^{}$", "a?".repeat(n))}),
        ),
        (
            "nothing, often, in a pattern",
            300,
            |n| json!({"type": "string", "pattern": format!("^(a{}){{9}}((){{1000000}}){{1000000}}$", "()".repeat(n))}),
        ),
        (
            "nested patterns",
            100,
            |n| json!({"properties": named(n, |_| json!({"type": "string", "pattern": format!("{}a{}", "(".repeat(90), ")*".repeat(90))}))}),
        ),
        (
            "many patterns",
            200,
            |n| json!({"properties": named(n, |i| json!({"type": "string", "pattern": format!("[a-f]+x{i}")}))}),
        ),
        (
            "many patterns of words",
            100,
            |n| json!({"properties": named(n, |i| json!({"type": "string", "pattern": format!("\\b\\w+{i}\\b")}))}),
        ),
        (
            "many patterns of Unicode",
            50,
            |n| json!({"properties": named(n, |i| json!({"type": "string", "pattern": format!("\\p{{L}}x{i}")}))}),
        ),
        (
            "many patterns not to match",
            200,
            |n| json!({"properties": named(n, |i| json!({"type": "string", "not": {"pattern": format!("[a-f]+x{i}")}}))}),
        ),
        ("formats", 300, |n| {
            let formats = ["date", "uri", "email", "ipv6", "hostname", "uuid"];
            let format = |i: usize| json!({"type": "string", "format": formats.get(i % 6)});
            json!({"properties": named(n, format)})
        }),
        (
            "choices",
            500,
            |n| json!({"type": "string", "x-choices": {"texts": texts(n, |i| format!("v{i}"))}}),
        ),
        (
            "choices by their first character",
            500,
            |n| json!({"type": "string", "x-choices": {"texts": characters(n).chars().map(String::from).collect::<Vec<_>>()}}),
        ),
        (
            "beginnings",
            300,
            |n| json!({"type": "string", "x-choices": {"beginnings": texts(n, |i| format!("v{i}"))}}),
        ),
        ("pieces of a text", 1_000, |n| json!({"type": "string", "x-choices": {"once_in": characters(n)}})),
        (
            "many choices",
            300,
            |n| json!({"properties": named(n, |i| json!({"type": "string", "x-choices": {"once_in": format!("hello{i}")}}))}),
        ),
        (
            "lengths",
            300,
            |n| json!({"properties": named(n, |i| json!({"type": "string", "minLength": i, "maxLength": 3 * i}))}),
        ),
        (
            "bounds",
            200,
            |n| json!({"properties": named(n, |i| json!({"type": "integer", "minimum": i, "maximum": 3 * i + 1_000_007}))}),
        ),
        (
            "bounds with fractions",
            200,
            |n| json!({"properties": named(n, |i| json!({"type": "number", "minimum": 0.123_456_7 + i as f64, "maximum": 1e6 + 0.765_432_1 * i as f64}))}),
        ),
        (
            "bounds of many places",
            50,
            |n| json!({"properties": named(n, |i| json!({"type": "number", "minimum": 1.234_567e-300 * (i + 1) as f64, "maximum": 7.654_3e300}))}),
        ),
        (
            "multiples between bounds",
            100,
            |n| json!({"properties": named(n, |i| json!({"type": "integer", "multipleOf": 7, "minimum": 1_000 * i + 3, "maximum": 99_999_999_999_999_i64 - i as i64}))}),
        ),
    ]
}

pub(super) fn places() -> Vec<(&'static str, usize, Make)> {
    vec![
        ("annotations", 1_000, |n| Value::Object((0..n).map(|i| (format!("x-{i}"), json!(1))).collect())),
        ("examples", 1_000, |n| json!({"examples": list(n, |i| json!({"a": i}))})),
        (
            "a long key that nobody reads",
            300,
            |n| json!({"x-foo": {"k".repeat(50 * n): list(n, |_| json!({"a": 1}))}}),
        ),
        (
            "deep objects",
            10,
            |n| json!({"properties": named(n, |_| within(100, json!({"type": "null"}), |inner| json!({"properties": {"a": inner}})))}),
        ),
        (
            "deep lists",
            10,
            |n| json!({"prefixItems": list(n, |_| within(100, json!({"type": "null"}), |inner| json!({"items": inner})))}),
        ),
        ("many branches, deep down", 300, |n| {
            within(
                100,
                json!({"anyOf": list(n, |i| json!({"minimum": i}))}),
                |inner| json!({"anyOf": [inner]}),
            )
        }),
        ("checked keywords, deep down", 300, |n| {
            within(
                100,
                json!({"anyOf": list(n, |_| json!({"uniqueItems": true}))}),
                |inner| json!({"anyOf": [inner]}),
            )
        }),
    ]
}
