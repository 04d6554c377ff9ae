//! Objects, lists, references and combinations of schemas.

use serde_json::json;

use super::{check, check_unwritten, compact, compiled};
use crate::compile::Entry;

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
