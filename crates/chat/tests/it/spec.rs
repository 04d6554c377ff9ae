//! Tool definitions: from Rust types, in and out of the wire forms, as prompts show them and grammars close them.

use schemars::JsonSchema;
use serde_json::{Value, json};
use toolgate_chat::{Kind, ToolSpec};

use crate::support::{object, tools};

#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct Search {
    /// Words to look for
    query: String,
    #[schemars(range(min = 1, max = 50))]
    limit: Option<u32>,
    offset: Option<u32>,
    order: Option<Order>,
    within: Vec<Area>,
    /// Filters to combine
    filter: Option<Box<Filter>>,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
#[serde(rename_all = "snake_case")]
enum Order {
    Newest,
    Oldest,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Area {
    /// One folder
    Folder {
        path: String,
    },
    Everywhere,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct Filter {
    field: String,
    and: Option<Box<Filter>>,
}

#[test]
fn a_rust_type_becomes_a_definition() {
    let spec = ToolSpec::of::<Search>("search", "Search the notes").unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&spec.parameters).unwrap());
}

#[test]
fn only_an_object_can_be_parameters() {
    assert!(ToolSpec::of::<std::collections::BTreeMap<String, String>>("f", "").is_ok());
    for error in [
        ToolSpec::of::<String>("f", "").unwrap_err(),
        ToolSpec::of::<Vec<Search>>("f", "").unwrap_err(),
        ToolSpec::new("f", "", json!({"type": "string"})).unwrap_err(),
        ToolSpec::new("f", "", json!([])).unwrap_err(),
    ] {
        assert_eq!(error.kind(), Kind::Definition);
        assert!(error.to_string().ends_with("in the parameters of tool \"f\""), "{error}");
    }
}

#[test]
fn wire_forms_come_back_as_they_went() {
    for spec in tools() {
        for form in
            [spec.to_openai(), spec.to_anthropic(), spec.to_mcp(), spec.to_openai()["function"].clone()]
        {
            assert_eq!(ToolSpec::from_any(&form).unwrap(), spec, "{form}");
        }
    }
}

#[test]
fn bad_definitions_name_the_place() {
    let check = |definition: Value, expected: &str| {
        let error = ToolSpec::from_any(&definition).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Definition, expected), "{definition}");
    };
    let good = json!({"type": "function", "function": {"name": "f", "description": "", "parameters": {"type": "object"}}});
    assert!(ToolSpec::from_any(&good).is_ok());
    check(json!("f"), "a tool definition is a JSON object at the root");
    check(json!({"type": "function", "function": []}), "a tool definition is a JSON object at /function");
    check(json!({"name": 3}), "a tool definition needs a name, a text at /name");
    check(
        json!({"name": "a b"}),
        "\"a b\" is no tool name: use 1 to 128 letters, digits, \"_\", \".\" or \"-\" at /name",
    );
    check(json!({"name": "f", "description": 1}), "a tool's description is a text at /description");
    check(
        json!({"name": "f", "inputSchema": 1}),
        "a tool's parameters are a JSON Schema, an object at /inputSchema",
    );
    check(
        json!({"function": {"name": "f", "parameters": {"type": "array"}}}),
        "a tool's parameters describe an object, with \"type\": \"object\" at /function/parameters",
    );
}

#[test]
fn prompts_show_no_noise() {
    let check = |given: Value, shown: Value| {
        let spec = ToolSpec::new("f", "", json!({"type": "object", "properties": {"p": given}})).unwrap();
        let expected = json!({"type": "object", "properties": {"p": shown}});
        assert_eq!(spec.shown_parameters().to_string(), expected.to_string());
    };
    check(json!({"$comment": "x", "title": "P", "type": "string"}), json!({"type": "string"}));
    check(json!({"properties": {"title": {"title": "T"}}}), json!({"properties": {"title": {}}}));
    check(
        json!({"type": "integer", "minimum": -2147483648, "maximum": 2147483647}),
        json!({"type": "integer"}),
    );
    check(
        json!({"type": "integer", "minimum": 1, "maximum": 50, "default": null}),
        json!({"type": "integer", "minimum": 1, "maximum": 50}),
    );
    check(json!({"additionalProperties": false}), json!({}));
    check(
        json!({"additionalProperties": {"type": "string", "title": "V"}}),
        json!({"additionalProperties": {"type": "string"}}),
    );
    check(json!({"type": ["string", "null"], "enum": ["a", null]}), json!({"type": "string", "enum": ["a"]}));
    check(
        json!({"description": "d", "anyOf": [{"type": "string"}, {"type": "null"}]}),
        json!({"description": "d", "type": "string"}),
    );
    // A member that must be there may have to be null.
    let required = json!({"properties": {"q": {"type": ["string", "null"]}}, "required": ["q"]});
    check(required.clone(), required);
}

#[test]
fn objects_close_where_nothing_can_contradict_it() {
    let check = |schema: Value, pointer: &str, closed: bool| {
        let spec = ToolSpec::new("f", "", schema.clone()).unwrap();
        let shown = spec.closed_parameters();
        let found = shown.pointer(pointer).unwrap().get("additionalProperties") == Some(&json!(false));
        assert_eq!(found, closed, "{schema} at {pointer:?}: {shown}");
    };
    let inner = json!({"properties": {"b": {}}});
    check(json!({"properties": {"a": {}}}), "", true);
    check(json!({"type": "object"}), "", true);
    check(Value::Null, "", true);
    check(json!({"properties": {"a": {}}, "additionalProperties": true}), "", false);
    check(json!({"properties": {"a": {}}, "required": ["z"]}), "", false);
    check(json!({"properties": {"a": {}}, "required": ["a"]}), "", true);
    check(json!({"properties": {"a": {}}, "minProperties": 2}), "", false);
    check(json!({"properties": {"a": {}}, "allOf": [inner]}), "", false);
    check(json!({"properties": {"a": {}}, "allOf": [inner]}), "/allOf/0", false);
    check(json!({"properties": {"a": inner}}), "/properties/a", true);
    check(json!({"properties": {"a": {"items": inner}}}), "/properties/a/items", true);
    check(json!({"properties": {"a": {"anyOf": [inner]}}}), "/properties/a/anyOf/0", true);
    check(json!({"properties": {"a": {"properties": {}, "anyOf": [inner]}}}), "/properties/a/anyOf/0", false);
    check(json!({"properties": {"a": {"not": inner}}}), "/properties/a/not", false);
    check(json!({"$defs": {"d": inner}, "properties": {"a": {"$ref": "#/$defs/d"}}}), "/$defs/d", true);
    check(
        json!({"$defs": {"d": inner}, "properties": {"a": {"$ref": "#/$defs/d", "properties": {"c": {}}}}}),
        "/$defs/d",
        false,
    );
    check(
        json!({"$defs": {"d": inner}, "allOf": [{"$ref": "#/$defs/d"}], "properties": {}}),
        "/$defs/d",
        false,
    );
}

#[test]
fn arguments_are_arranged_as_the_schema_declares_them() {
    let check = |schema: Value, given: Value, expected: &str| {
        let arranged = ToolSpec::new("f", "", schema).unwrap().arrange(&object(given));
        assert_eq!(Value::Object(arranged).to_string(), expected);
    };
    let point = json!({"properties": {"x": {}, "y": {}}});
    check(point.clone(), json!({"z": 0, "y": 1, "x": 2}), r#"{"x":2,"y":1,"z":0}"#);
    check(json!({"properties": {"p": point}}), json!({"p": {"y": 1, "x": 2}}), r#"{"p":{"x":2,"y":1}}"#);
    check(
        json!({"properties": {"p": {"items": point}}}),
        json!({"p": [{"y": 1, "x": 2}]}),
        r#"{"p":[{"x":2,"y":1}]}"#,
    );
    check(json!({"additionalProperties": point}), json!({"q": {"y": 1, "x": 2}}), r#"{"q":{"x":2,"y":1}}"#);
    check(
        json!({"$defs": {"p": {"properties": {"x": {}, "next": {"$ref": "#/$defs/p"}}}}, "$ref": "#/$defs/p"}),
        json!({"next": {"next": {}, "x": 1}, "x": 0}),
        r#"{"x":0,"next":{"x":1,"next":{}}}"#,
    );
    check(
        json!({"anyOf": [
            {"properties": {"kind": {"const": "a"}, "v": {}}, "required": ["kind"]},
            {"properties": {"v": {}, "kind": {"const": "b"}}, "required": ["kind"]},
        ]}),
        json!({"kind": "b", "v": 1}),
        r#"{"v":1,"kind":"b"}"#,
    );
    // A schema that names itself in every direction ends all the same.
    let loops = json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}], "anyOf": [{"$ref": "#"}, {"$ref": "#"}], "properties": {"b": {}, "a": {}}});
    check(loops, json!({"a": 1, "b": 2}), r#"{"b":2,"a":1}"#);
}

#[test]
fn a_record_keeps_the_example_and_servers_do_not_see_it() {
    let spec = ToolSpec::new("get", "", json!({"properties": {"a": {"type": "string"}}})).unwrap();
    let shown = spec.with_example("Get alpha", json!({"a": "alpha"}));
    assert_eq!(ToolSpec::from_any(&shown.to_record()).unwrap(), shown);
    assert!(!shown.to_openai().to_string().contains("alpha"));
    let wrong = json!({"name": "get", "x-example": {"request": 1}});
    let error = ToolSpec::from_any(&wrong).unwrap_err().to_string();
    assert!(error.ends_with("at /x-example"), "{error}");
}
