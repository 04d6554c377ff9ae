//! Schemas made to exhaust a compiler, for the test that bounds their memory and the benchmark that times them.

use serde_json::{Map, Value, json};

fn named(n: usize, mut value: impl FnMut(usize) -> Value) -> Map<String, Value> {
    (0..n).map(|i| (format!("p{i}"), value(i))).collect()
}

fn nested(depth: usize) -> Value {
    (0..depth)
        .fold(json!({"type": "null"}), |inner, _| json!({"properties": {"a": inner}, "required": ["a"]}))
}

/// Name, schema, and whether it has to compile: what is merely large must, what is absurd may meet a limit.
pub(crate) fn cases() -> Vec<(&'static str, Value, bool)> {
    let cycle = |n: usize| {
        let step = |i: usize| json!({"anyOf": [{"$ref": format!("#/$defs/p{}", (i + 1) % n)}, {"properties": {"next": {"$ref": format!("#/$defs/p{}", (i + 7) % n)}}}]});
        json!({"$ref": "#/$defs/p0", "$defs": named(n, step)})
    };
    let all =
        |n: usize, part: &dyn Fn(usize) -> Value| json!({"allOf": (0..n).map(part).collect::<Vec<_>>()});
    let dependent = named(40, |i| json!([format!("p{}", (i * 7 + 3) % 40)]));
    vec![
        ("a reference to itself", json!({"$ref": "#"}), false),
        ("a cycle of 500 references", cycle(500), false),
        ("a cycle of 100 references", cycle(100), true),
        (
            "allOf of a thousand lengths",
            all(1_000, &|i| json!({"type": "string", "minLength": i % 50})),
            true,
        ),
        (
            "allOf of a thousand properties",
            all(1_000, &|i| json!({"properties": {format!("p{i}"): {"type": "integer"}}})),
            true,
        ),
        (
            "allOf of a thousand patterns",
            all(1_000, &|i| json!({"type": "string", "pattern": format!("a{}b", i)})),
            true,
        ),
        (
            "allOf of forty unions",
            all(
                40,
                &|i| json!({"anyOf": [{"required": [format!("a{i}")]}, {"required": [format!("b{i}")]}]}),
            ),
            true,
        ),
        ("nested repeats", json!({"type": "string", "pattern": "^((a{1,50}){1,50}){1,50}$"}), true),
        ("nested stars", json!({"type": "string", "pattern": "^(((a*)*b*)*c*)*$"}), true),
        ("an exploding pattern", json!({"type": "string", "pattern": "^(a|b)*a(a|b){60}$"}), true),
        (
            "an exploding pattern with a length",
            json!({"type": "string", "pattern": "(a|b)*a(a|b){18}", "maxLength": 500}),
            true,
        ),
        (
            "a thousand million characters",
            json!({"type": "string", "maxLength": 1_000_000_000, "minLength": 999_999_999}),
            true,
        ),
        (
            "a thousand million characters of a pattern",
            json!({"type": "string", "pattern": "^(ab|c)+$", "maxLength": 1_000_000_000}),
            true,
        ),
        (
            "a count beyond 32 bits",
            json!({"type": "array", "maxItems": u64::MAX, "minItems": 5_000_000_000_u64}),
            true,
        ),
        (
            "ten thousand values",
            json!({"enum": (0..10_000).map(|i| format!("value number {i}")).collect::<Vec<_>>()}),
            true,
        ),
        (
            "ten thousand values and a pattern",
            json!({"enum": (0..10_000).map(|i| format!("v{i}")).collect::<Vec<_>>(), "pattern": "^v[0-9]*[13579]$"}),
            true,
        ),
        (
            "ten thousand values to leave out",
            json!({"type": "string", "not": {"enum": (0..10_000).map(|i| format!("v{i}")).collect::<Vec<_>>()}}),
            true,
        ),
        (
            "two thousand properties",
            json!({"type": "object", "properties": named(2_000, |_| json!({"type": "integer"}))}),
            true,
        ),
        (
            "two hundred properties, counted",
            json!({"type": "object", "properties": named(200, |_| json!({"type": "integer"})), "minProperties": 50, "maxProperties": 150}),
            true,
        ),
        (
            "thirty key patterns",
            json!({"type": "object", "patternProperties": named(30, |i| json!({"minimum": i}))}),
            true,
        ),
        (
            "forty dependencies",
            json!({"type": "object", "properties": named(40, |_| json!(true)), "dependentRequired": dependent}),
            true,
        ),
        (
            "a hundred branches of exactly one",
            json!({"oneOf": (0..100).map(|i| json!({"properties": {format!("p{i}"): {"type": "integer"}}})).collect::<Vec<_>>()}),
            true,
        ),
        (
            "not in not",
            (0..60).fold(
                json!({"properties": {"a": {"type": "string"}}, "required": ["a"]}),
                |inner, _| json!({"not": inner}),
            ),
            true,
        ),
        (
            "if in if",
            (0..60).fold(
                json!({"type": "string"}),
                |inner, i| json!({"if": {"required": [format!("p{i}")]}, "then": inner}),
            ),
            true,
        ),
        (
            "a thousand branches of objects",
            json!({"anyOf": (0..1_000).map(|i| json!({
                "type": "object",
                "properties": {"kind": {"const": format!("k{i}")}, "value": {"type": "integer", "minimum": i}},
                "required": ["kind"],
                "additionalProperties": false
            })).collect::<Vec<_>>()}),
            true,
        ),
        (
            "a thousand branches of exactly one",
            json!({"oneOf": (0..1_000).map(|i| json!({
                "properties": {"kind": {"const": format!("k{i}")}, format!("p{i}"): {"type": "string"}},
                "required": ["kind"]
            })).collect::<Vec<_>>()}),
            true,
        ),
        (
            "a thousand optional properties of an open object",
            json!({"type": "object", "properties": named(1_000, |_| json!({"type": "string", "maxLength": 9}))}),
            true,
        ),
        (
            "a thousand optional properties, counted",
            json!({"type": "object", "properties": named(1_000, |_| json!({"type": "integer"})), "minProperties": 500, "maxProperties": 600}),
            true,
        ),
        (
            "wide key patterns",
            json!({
                "type": "object",
                "patternProperties": Map::from_iter((0..5).map(|i| (format!("[a-m]{{{}}}[^{i}]", 3 + i), json!({"minimum": i})))),
                "additionalProperties": {"type": "string"}
            }),
            true,
        ),
        (
            "five exploding key patterns",
            json!({
                "type": "object",
                "patternProperties": Map::from_iter((0..5).map(|i| (format!("(a|b)*{i}(a|b){{12}}"), json!(true)))),
                "additionalProperties": false
            }),
            true,
        ),
        (
            "exploding patterns everywhere",
            json!({"properties": named(50, |i| json!({"type": "string", "pattern": format!("(a|b)*a(a|b){{{}}}", 30 + i)}))}),
            true,
        ),
        (
            "a thousand patterns, each with a length",
            json!({"properties": named(1_000, |i| json!({"type": "string", "pattern": format!("[a-f]+x{i}"), "maxLength": 40}))}),
            true,
        ),
        (
            "two lists of ten thousand values",
            json!({"allOf": [
                {"enum": (0..10_000).map(|i| format!("v{i}")).collect::<Vec<_>>()},
                {"enum": (5_000..15_000).map(|i| format!("v{i}")).collect::<Vec<_>>()}
            ]}),
            true,
        ),
        (
            "ten thousand values under a hundred branches",
            json!({
                "enum": (0..10_000).map(|i| format!("v{i}")).collect::<Vec<_>>(),
                "anyOf": (0..100).map(|i| json!({"pattern": format!("{i}$")})).collect::<Vec<_>>()
            }),
            true,
        ),
        (
            "a thousand references to a thousand values",
            json!({
                "properties": named(1_000, |i| json!({"allOf": [{"$ref": "#/$defs/v"}, {"maxLength": 3 + i % 5}]})),
                "$defs": {"v": {"enum": (0..1_000).map(|i| format!("v{i}")).collect::<Vec<_>>()}}
            }),
            true,
        ),
        (
            "ten thousand alternatives of nothing",
            all(10_000, &|i| json!({"anyOf": [{"minimum": i}, true]})),
            true,
        ),
        (
            "a tower of unions",
            (0..60).fold(
                json!({"type": "null"}),
                |inner, i| json!({"anyOf": [{"properties": {"a": inner}}, {"required": [format!("p{i}")]}]}),
            ),
            true,
        ),
        (
            "a square of exact unions",
            json!({"allOf": (0..8).map(|i| json!({"oneOf": (0..8).map(|j| json!({"properties": {format!("p{i}"): {"const": j}}, "required": [format!("p{i}")]})).collect::<Vec<_>>()})).collect::<Vec<_>>()}),
            true,
        ),
        (
            "definitions that all refer to all",
            json!({"$ref": "#/$defs/p0", "$defs": named(60, |_| json!({"type": "object", "properties": named(60, |j| json!({"$ref": format!("#/$defs/p{j}")}))}))}),
            true,
        ),
        (
            "intersections of definitions that refer to one another",
            json!({"$ref": "#/$defs/p0", "$defs": named(30, |i| json!({
                "allOf": [{"properties": {"a": {"$ref": format!("#/$defs/p{}", (i + 1) % 30)}}}, {"properties": {"a": {"$ref": format!("#/$defs/p{}", (i * 7 + 3) % 30)}}}]
            }))}),
            false,
        ),
        (
            "many multiples",
            json!({"properties": named(300, |i| json!({"type": "integer", "multipleOf": 9_973 + 2 * i}))}),
            true,
        ),
        ("nested 600 deep", nested(600), false),
        ("a vast multiple", json!({"type": "integer", "multipleOf": 1_000_003, "minimum": 1}), true),
        (
            "a bound of 400 digits",
            serde_json::from_str(r#"{"type": "number", "minimum": 1e-300, "maximum": 1e300}"#).unwrap(),
            true,
        ),
    ]
}
