//! Objects, lists, references and combinations of schemas.

use serde_json::{Value, json};

use super::{check, check_unwritten, compact, compiled, refusal};
use crate::compile::Entry;
use crate::{Kind, Place};

#[test]
fn declared_properties_come_in_order_and_optional_ones_may_be_left_out() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}, "c": {"type": "null"}},
        "required": ["b"],
        "additionalProperties": false
    });
    check(
        schema.clone(),
        &["{\"b\":true}", "{\"a\":1,\"b\":true,\"c\":null}", "{\"b\":false,\"c\":null}"],
        &["{}", "{\"a\":1}", "{\"b\":1}", "{\"b\":true,\"d\":1}", "{\"b\":true,}"],
    );
    check_unwritten(schema, &["{\"b\":true,\"a\":1}", "{\"b\":true,\"b\":true}"]);
    let optional = json!({"type": "object", "properties": {"a": true, "b": true, "c": true}, "additionalProperties": false});
    check(
        optional,
        &["{}", "{\"a\":1}", "{\"c\":1}", "{\"a\":1,\"c\":2}", "{\"b\":1,\"c\":2}"],
        &["{\"d\":1}", "{,}"],
    );
    check(
        json!({"type": "object", "required": ["x"]}),
        &["{\"x\":1}", "{\"x\":1,\"y\":2}"],
        &["{}", "{\"y\":1}"],
    );
    check(
        json!({"type": "object", "properties": {"a": false, "b": {"type": "integer"}}}),
        &["{}", "{\"b\":1}", "{\"z\":1}"],
        &["{\"a\":1}"],
    );
    check(json!({"type": "object", "additionalProperties": false}), &["{}"], &["{\"a\":1}"]);
}

#[test]
fn undeclared_keys_differ_from_declared_ones_and_obey_their_schema() {
    let schema = json!({"type": "object", "properties": {"ab": {"type": "integer"}, "ac": {"type": "integer"}}, "additionalProperties": {"type": "string"}});
    check(
        schema.clone(),
        &["{\"ab\":1,\"a\":\"x\"}", "{\"abc\":\"x\",\"\":\"y\"}", "{\"z\\n\":\"\"}"],
        &["{\"ab\":\"x\"}", "{\"x\":1}", "{\"a\":\"\",\"ac\":\"\"}"],
    );
    check_unwritten(schema, &["{\"\\u0061b\":1}", "{\"x\":\"\",\"ab\":1}"]);
    check(
        json!({"type": "object", "patternProperties": {"^x-": {"type": "integer"}, "s$": {"minimum": 5}}, "additionalProperties": false}),
        &["{\"x-a\":1}", "{\"x-s\":7}", "{\"s\":\"text\"}", "{}"],
        &["{\"x-s\":1}", "{\"x-a\":\"\"}", "{\"a\":1}"],
    );
    check(
        json!({"type": "object", "properties": {"x-a": {"maximum": 3}}, "patternProperties": {"^x-": {"type": "integer"}}}),
        &["{\"x-a\":3}", "{\"other\":null}"],
        &["{\"x-a\":4}", "{\"x-a\":\"\"}", "{\"x-b\":\"\"}"],
    );
    check(
        json!({"type": "object", "propertyNames": {"pattern": "^[a-z]+$", "maxLength": 3}, "properties": {"abcd": true, "ok": true}}),
        &["{\"ok\":1,\"abc\":2}", "{}"],
        &["{\"abcd\":1}", "{\"A\":1}"],
    );
    check(
        json!({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "integer"}}),
        &["{\"a\":1,\"b\":2}"],
        &["{\"c\":1}", "{\"a\":null}"],
    );
}

#[test]
fn numbers_of_properties_are_counted() {
    check(
        json!({"type": "object", "maxProperties": 2, "additionalProperties": {"type": "integer"}}),
        &["{}", "{\"a\":1,\"b\":2}"],
        &["{\"a\":1,\"b\":2,\"c\":3}"],
    );
    check(json!({"type": "object", "minProperties": 1}), &["{\"a\":1}", "{\"a\":1,\"b\":1}"], &["{}"]);
    let declared = json!({"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "integer"}});
    check(
        json!({"type": "object", "properties": declared, "minProperties": 2, "additionalProperties": false}),
        &["{\"a\":1,\"b\":2}", "{\"b\":1,\"c\":2}", "{\"a\":1,\"b\":2,\"c\":3}", "{\"a\":1,\"c\":2}"],
        &["{}", "{\"a\":1}", "{\"c\":1}"],
    );
    check(
        json!({"type": "object", "properties": declared, "maxProperties": 2, "required": ["b"]}),
        &["{\"b\":1}", "{\"a\":1,\"b\":1}", "{\"b\":1,\"z\":0}"],
        &["{\"a\":1,\"b\":2,\"c\":3}", "{\"a\":1,\"b\":2,\"z\":3}", "{\"a\":1}"],
    );
    let weak = compiled(&json!({"type": "object", "minProperties": 2}), &compact());
    assert_eq!(weak.contract.checked().map(Entry::pointer).collect::<Vec<_>>(), ["/minProperties"]);
}

#[test]
fn lists_have_positions_and_counts() {
    check(
        json!({"type": "array", "items": {"type": "integer"}}),
        &["[]", "[1]", "[1,2,3]"],
        &["[\"a\"]", "[1,]", "[,1]"],
    );
    check(
        json!({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3}),
        &["[1,2]", "[1,2,3]"],
        &["[1]", "[1,2,3,4]", "[]"],
    );
    check(
        json!({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "null"}}),
        &["[]", "[1]", "[1,\"a\"]", "[1,\"a\",null,null]"],
        &["[\"a\"]", "[1,2]", "[1,\"a\",3]"],
    );
    check(
        json!({"type": "array", "prefixItems": [true, true, true], "items": false, "minItems": 2}),
        &["[1,2]", "[1,2,3]"],
        &["[1]", "[1,2,3,4]"],
    );
    check(json!({"type": "array", "prefixItems": [true, false]}), &["[]", "[1]"], &["[1,2]"]);
    check(
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "boolean"}}),
        &["[]", "[1]", "[1,true]"],
        &["[true]", "[1,2]"],
    );
    check(json!({"type": "array", "maxItems": 0}), &["[]"], &["[1]"]);
    check(
        json!({"type": "array", "items": {"const": 0}, "minItems": 3, "maxItems": 100_000}),
        &["[0,0,0]"],
        &["[0,0]"],
    );
}

#[test]
fn references_recurse_and_their_siblings_hold() {
    let tree = json!({
        "$ref": "#/$defs/Tree",
        "$defs": {"Tree": {"type": "object", "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}, "required": ["value"], "additionalProperties": false}}
    });
    check(
        tree,
        &["{\"value\":1}", "{\"value\":1,\"children\":[{\"value\":2,\"children\":[]}]}"],
        &["{}", "{\"value\":1,\"children\":[{}]}"],
    );
    check(
        json!({"$defs": {"n": {"type": "integer"}}, "$ref": "#/$defs/n", "minimum": 3}),
        &["3"],
        &["2", "\"\""],
    );
    check(
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/definitions/n", "minimum": 3}}, "type": "object"}),
        &["{\"a\":2}"],
        &["{\"a\":\"\"}"],
    );
    check(
        json!({"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": false}),
        &["{}", "{\"next\":{\"next\":{}}}"],
        &["{\"next\":1}"],
    );
    check(json!({"anyOf": [{"$ref": "#"}, {"type": "integer"}]}), &["1"], &["01"]);
    check(
        json!({"$defs": {"list": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"tail": {"$ref": "#/$defs/list"}}, "required": ["tail"], "additionalProperties": false}]}}, "$ref": "#/$defs/list"}),
        &["null", "{\"tail\":{\"tail\":null}}"],
        &["{}", "{\"tail\":{}}"],
    );
}

#[test]
fn all_of_is_an_intersection_and_any_of_a_union() {
    check(
        json!({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"a": {"minimum": 3}, "b": {"type": "string"}}, "required": ["b"]}]}),
        &["{\"a\":3,\"b\":\"\"}"],
        &["{\"a\":2,\"b\":\"\"}", "{\"a\":3}"],
    );
    check(
        json!({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]}),
        &["1", "\"a\""],
        &["\"ab\"", "null"],
    );
    check(
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "additionalProperties": false}),
        &["{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":2}"],
        &["{}", "{\"c\":1}"],
    );
    check(
        json!({"type": ["integer", "string"], "anyOf": [{"minimum": 5}, {"maximum": 1}]}),
        &["5", "1", "\"x\""],
        &["3", "null"],
    );
}

#[test]
fn one_of_is_a_union_where_branches_exclude_each_other() {
    check(
        json!({"oneOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}, "required": ["kind", "n"]},
            {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"], "additionalProperties": false}
        ]}),
        &["{\"kind\":\"a\",\"n\":1}", "{\"kind\":\"b\"}"],
        &["{\"kind\":\"a\"}", "{\"kind\":\"b\",\"n\":1}", "{\"kind\":\"c\"}"],
    );
    check(
        json!({"oneOf": [{"type": "string"}, {"type": "integer"}, {"enum": [null, 1.5]}]}),
        &["\"\"", "1", "1.5", "null"],
        &["true"],
    );
    check(
        json!({"oneOf": [{"type": "integer", "maximum": 3}, {"type": "integer", "minimum": 5}]}),
        &["3", "5"],
        &["4"],
    );
    let overlapping = compiled(&json!({"oneOf": [{"type": "integer"}, {"minimum": 2}]}), &compact());
    let checked: Vec<_> =
        overlapping.contract.checked().map(|entry| (entry.pointer(), entry.reason())).collect();
    assert_eq!(checked, [("/oneOf", Some("its branches are not provably disjoint"))]);
}

#[test]
fn negations_that_can_be_said_are_said() {
    check(json!({"not": {"type": "string"}}), &["1", "null", "[]"], &["\"a\""]);
    check(
        json!({"type": "string", "not": {"enum": ["a", "bc"]}}),
        &["\"b\"", "\"\"", "\"abc\""],
        &["\"a\"", "\"bc\""],
    );
    check(json!({"type": "string", "not": {"pattern": "^x"}}), &["\"ax\""], &["\"xa\""]);
    check(
        json!({"type": "integer", "not": {"const": 0}, "minimum": -2, "maximum": 2}),
        &["-1", "2"],
        &["0", "3"],
    );
    check(
        json!({"type": "object", "not": {"required": ["a"]}, "additionalProperties": {"type": "integer"}}),
        &["{}", "{\"b\":1}"],
        &["{\"a\":1}"],
    );
    check(
        json!({"type": "object", "properties": {"t": {"enum": ["x", "y"]}, "v": {"type": "integer"}}, "required": ["t"], "additionalProperties": false,
               "if": {"properties": {"t": {"const": "x"}}}, "then": {"required": ["v"]}}),
        &["{\"t\":\"y\"}", "{\"t\":\"x\",\"v\":1}"],
        &["{\"t\":\"x\"}"],
    );
    check(
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "dependentRequired": {"a": ["b"]}, "additionalProperties": false}),
        &["{}", "{\"b\":1}", "{\"a\":1,\"b\":1}"],
        &["{\"a\":1}"],
    );
}

#[test]
fn dynamic_references_are_followed_where_they_lead_one_way() {
    let list = |extra: serde_json::Value| {
        json!({
            "$id": "https://example.com/root",
            "$ref": "list",
            "$defs": {
                "extra": extra,
                "list": {
                    "$id": "list",
                    "type": "array",
                    "items": {"$dynamicRef": "#item"},
                    "$defs": {"item": {"$dynamicAnchor": "item", "type": "integer"}}
                }
            }
        })
    };
    check(list(json!(true)), &["[1]"], &["[\"a\"]"]);
    let contract = compiled(&list(json!({"$dynamicAnchor": "item", "type": "string"})), &compact()).contract;
    assert_eq!(contract.checked().map(Entry::pointer).collect::<Vec<_>>(), ["/$defs/list/items/$dynamicRef"]);
}

#[test]
fn a_minimum_that_repeated_keys_may_make_up_is_checked() {
    for (schema, complete) in [
        (json!({"properties": {"a": true, "b": true}, "minProperties": 2, "type": "object"}), false),
        (json!({"minProperties": 2, "type": "object"}), false),
        (json!({"minProperties": 1, "type": "object"}), true),
        (json!({"required": ["a", "b"], "minProperties": 3, "type": "object"}), true),
        (
            json!({"properties": {"a": true, "b": true}, "minProperties": 2, "additionalProperties": false}),
            true,
        ),
    ] {
        let result = compiled(&schema, &compact());
        let checked: Vec<&str> = result.contract.checked().map(Entry::pointer).collect();
        assert_eq!(checked.is_empty(), complete, "{schema}: {checked:?}");
        if complete {
            assert!(!result.accepts("{}").unwrap(), "{schema}");
        } else {
            assert_eq!(checked, ["/minProperties"], "{schema}");
            assert!(result.accepts(r#"{"x":1,"x":2}"#).unwrap(), "{schema}");
        }
    }
    // What counts in every other way holds for the key that is kept, and declared keys come once.
    let result = compiled(
        &json!({"properties": {"a": {"const": 1}}, "additionalProperties": {"const": 2}, "maxProperties": 2}),
        &compact(),
    );
    for (text, accepted) in [
        (r#"{"a":1,"x":2}"#, true),
        (r#"{"x":2,"x":2}"#, true),
        (r#"{"a":1,"a":1}"#, false),
        (r#"{"x":2,"a":1}"#, false),
        (r#"{"a":1,"\u0061":2}"#, false),
        (r#"{"a":1,"x":2,"x":2}"#, false),
    ] {
        assert_eq!(result.accepts(text).unwrap(), accepted, "{text}\n{}", result.grammar);
    }
}

#[test]
fn what_a_checked_keyword_decides_is_checked_itself() {
    let pointers = |schema: Value| -> Vec<String> {
        compiled(&schema, &compact()).contract.checked().map(|entry| entry.pointer().to_owned()).collect()
    };
    assert_eq!(
        pointers(
            json!({"anyOf": [{"$ref": "#/$defs/d"}, {"type": "null"}], "$defs": {"d": {"contains": true}}})
        ),
        ["/anyOf", "/$defs/d/contains"]
    );
    assert_eq!(
        pointers(json!({"if": {"enum": [{}]}, "then": {"type": "integer"}, "type": ["object", "integer"]})),
        ["/if", "/then"]
    );
    assert_eq!(pointers(json!({"properties": {"a": {"contains": true}}})), ["/properties/a/contains"]);
}

#[test]
fn what_needs_itself_without_end_is_refused_or_left_out() {
    let endless = json!({"type": "array", "prefixItems": [{"$ref": "#"}], "minItems": 1});
    assert_eq!(refusal(endless).kind(), Kind::InvalidSchema);
    let endless = json!({"type": "array", "prefixItems": [{"$ref": "#/properties/a"}], "minItems": 1});
    let within = json!({"type": "object", "properties": {"a": endless}, "additionalProperties": false});
    check(within, &["{}"], &["{\"a\":[]}", "{\"a\":[[]]}"]);
    assert_eq!(
        refusal(json!({"type": "object", "minProperties": 3, "maxProperties": 2})).kind(),
        Kind::InvalidSchema
    );
}

#[test]
fn habits_of_tool_schemas_are_understood_or_refused_with_their_place() {
    // An address that is no draft leaves the newest one.
    check(
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema#", "prefixItems": [{"type": "null"}], "type": "array"}),
        &["[null]"],
        &["[1]"],
    );
    let unknown =
        json!({"$schema": "https://example.com/our-own", "prefixItems": [{"type": "null"}], "type": "array"});
    let result = compiled(&unknown, &compact());
    assert!(result.accepts("[null]").unwrap() && !result.accepts("[1]").unwrap());
    for (schema, pointer) in [
        (json!({"properties": {"a": {"type": "any"}}}), "/properties/a/type"),
        (json!({"properties": {"a": {"type": "string", "required": true}}}), "/properties/a/required"),
        (json!({"properties": {"a": {"$ref": "#/$defs/missing"}}}), "/properties/a/$ref"),
        (json!({"properties": {"a": {"pattern": "("}}}), "/properties/a/pattern"),
        (json!({"properties": {"a": 1}}), "/properties/a"),
    ] {
        let error = refusal(schema);
        assert_eq!(error.place(), Some(&Place::Pointer(pointer.to_owned())), "{error}");
    }
}

#[test]
fn size_grows_with_the_number_of_properties_and_no_faster() {
    let size = |n: usize, required: usize| {
        let properties: serde_json::Map<String, Value> =
            (0..n).map(|i| (format!("property-{i:03}"), json!({"type": "integer"}))).collect();
        let needed: Vec<&String> = properties.keys().take(required).collect();
        let schema = json!({"type": "object", "properties": properties, "required": needed, "additionalProperties": false});
        compiled(&schema, &compact()).grammar.to_string().len()
    };
    for required in [0, 1, 50] {
        let sizes = [50, 100, 200].map(|n| size(n, required));
        let (first, second) = (sizes[1] - sizes[0], sizes[2] - sizes[1]);
        // Twice as many more take twice the room, but for the digits in names.
        assert!(second <= first * 21 / 10, "{required} required: {sizes:?}");
    }
}

#[test]
fn the_order_of_keywords_means_nothing() {
    let one = json!({
        "type": "object", "minProperties": 1,
        "properties": {"a": {"type": "string", "minLength": 1, "pattern": "^x", "format": "uri-reference"}, "b": {"$ref": "#/$defs/n", "maximum": 9}},
        "patternProperties": {"^y": {"type": "null"}, "^z": {"type": "boolean"}},
        "dependentRequired": {"a": ["b"], "b": ["c"]},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "allOf": [{"properties": {"c": true}}],
        "$defs": {"n": {"type": "integer", "minimum": 1}, "m": {}}
    });
    fn turned(value: &Value, named: bool) -> Value {
        match value {
            Value::Object(map) => {
                let turn =
                    |(key, inner): (&String, &Value)| (key.clone(), turned(inner, key == "properties"));
                // Declared properties are written in the order they are declared in.
                if named { map.iter().map(turn).collect() } else { map.iter().rev().map(turn).collect() }
            }
            Value::Array(items) => items.iter().map(|item| turned(item, false)).collect(),
            other => other.clone(),
        }
    }
    let other = turned(&one, false);
    assert_ne!(one.to_string(), other.to_string());
    let [one, other] = [one, other].map(|schema| compiled(&schema, &compact()).grammar.to_string());
    assert_eq!(one, other);
}

/// Thousands of texts that each go on with the next are no deeper for the machine than a few.
#[test]
fn texts_that_begin_one_another_take_no_stack() {
    let written = || {
        let texts: Vec<String> = (1..3_000).map(|n| "a".repeat(n)).collect();
        let result = compiled(&json!({"enum": texts}), &compact());
        let quoted = |n: usize| format!("\"{}\"", "a".repeat(n));
        assert!(result.accepts(&quoted(2_999)).unwrap() && !result.accepts(&quoted(3_000)).unwrap());
    };
    std::thread::Builder::new().stack_size(384 << 10).spawn(written).unwrap().join().unwrap();
}

/// What is let go where a pattern is one of several stays listed, though the pattern holds where it stands alone.
#[test]
fn a_pattern_that_holds_in_one_place_is_checked_where_it_does_not() {
    let both = json!({"allOf": [{"$ref": "#/$defs/vast"}, {"pattern": "a$"}]});
    let alone = json!({"$ref": "#/$defs/vast"});
    let definitions = json!({"vast": {"type": "string", "pattern": "(a|b)*a(a|b){40}"}});
    for properties in [json!({"x": both, "y": alone}), json!({"x": alone, "y": both})] {
        let schema = json!({"properties": properties, "additionalProperties": false, "$defs": definitions});
        let result = compiled(&schema, &compact());
        let checked: Vec<&str> = result.contract.checked().map(Entry::pointer).collect();
        assert_eq!(checked, ["/$defs/vast/pattern"], "{schema}");
    }
}
