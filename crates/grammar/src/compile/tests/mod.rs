//! What compiled grammars accept, each claim held to an independent validator as well.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod compound;
mod numbers;

use serde_json::{Value, json};

use super::*;
use crate::Limits;
use crate::schema::Class;

fn compact() -> Options {
    Options { whitespace: Whitespace::Compact, ..Options::default() }
}

fn compiled(schema: &Value, options: &Options) -> Compiled {
    Schema::parse(schema)
        .and_then(|schema| compile(&schema, options))
        .unwrap_or_else(|e| panic!("{schema}: {e}"))
}

/// Every text of `accepts` is accepted and valid; every one of `refuses` is neither, whether or not it is JSON.
fn check(schema: Value, accepts: &[&str], refuses: &[&str]) {
    let result = compiled(&schema, &compact());
    assert!(result.contract.is_complete(), "{schema}: {:?}", result.contract.checked().collect::<Vec<_>>());
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
    let vocabulary = Arc::new(Vocabulary::bytes_only());
    let automaton = Automaton::new(&result.grammar, vocabulary, &Limits::default()).unwrap();
    let matches = |text: &str| {
        let mut matcher = automaton.matcher();
        matcher.accept_bytes(text.as_bytes()).is_ok() && matcher.is_complete()
    };
    for text in accepts {
        let value: Value = serde_json::from_str(text).unwrap();
        assert!(validator.is_valid(&value), "the validator refuses {text} for {schema}");
        assert!(matches(text), "{text} is refused for {schema}\n{}", result.grammar);
    }
    for text in refuses {
        if let Ok(value) = serde_json::from_str::<Value>(text) {
            assert!(!validator.is_valid(&value), "the validator accepts {text} for {schema}");
        }
        assert!(!matches(text), "{text} is accepted for {schema}\n{}", result.grammar);
    }
}

/// Texts that are valid but spelled in a way the grammar does not write.
fn check_unwritten(schema: Value, texts: &[&str]) {
    let result = compiled(&schema, &compact());
    for text in texts {
        assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}");
        assert!(!result.accepts(text).unwrap(), "{text} is accepted for {schema}");
    }
}

fn refusal(schema: Value) -> Error {
    match Schema::parse(&schema).and_then(|schema| compile(&schema, &compact())) {
        Ok(compiled) => panic!("{schema} compiles to\n{}", compiled.grammar),
        Err(error) => error,
    }
}

#[test]
fn types_admit_their_values_alone() {
    check(json!({"type": "null"}), &["null"], &["0", "\"\"", "", "nul"]);
    check(json!({"type": "boolean"}), &["true", "false"], &["null", "1", "True"]);
    check(
        json!({"type": "integer"}),
        &[
            "0",
            "-1",
            "9999999999999999999",
            "9223372036854775807",
            "-9223372036854775808",
            "-8999999999999999999",
        ],
        &["-", "01", "1.5", "\"1\"", "+1"],
    );
    check(
        json!({"type": "number"}),
        &["0", "-0.5", "1e5", "1.25E-3", "12e+10"],
        &["1.", ".5", "1e", "--1", "Infinity"],
    );
    check(json!({"type": ["string", "null"]}), &["\"a\"", "null"], &["1", "[]"]);
    check(json!({"type": ["integer", "array"]}), &["1", "[1]"], &["\"\"", "{}"]);
    check(json!(true), &["{\"a\":[1,{}]}", "null", "[]", "{}"], &["{a:1}", "[1,]", "{\"a\":}"]);
}

#[test]
fn strings_are_json_and_count_code_points() {
    check(
        json!({"type": "string"}),
        &[r#""""#, r#""é\n\u00e9\ud83d\ude00\/""#, "\"\u{7f}\u{2028}\""],
        &["\"\n\"", r#""\x""#, r#""\ud83d""#, r#""\ude00""#, r#""\ud83d\u0041""#, "\"", "\"\u{1f}\""],
    );
    check(
        json!({"type": "string", "minLength": 2, "maxLength": 3}),
        &["\"ab\"", "\"é😀x\"", r#""\ud83d\ude00\n""#],
        &["\"a\"", "\"abcd\"", r#""\ud83d\ude00""#],
    );
    check(json!({"type": "string", "maxLength": 1_000_000_000}), &["\"a\""], &["1"]);
}

#[test]
fn patterns_are_found_anywhere_and_hold_with_lengths_and_formats() {
    check(json!({"type": "string", "pattern": "b+"}), &["\"abc\"", "\"b\""], &["\"ac\"", "\"\""]);
    check(
        json!({"type": "string", "pattern": "^[a-z]{2,3}-\\d+$"}),
        &["\"ab-1\""],
        &["\"ab-\"", "\"abcd-1\"", "\"ab-1 \""],
    );
    check(
        json!({"type": "string", "pattern": "^[a-z][a-z0-9]*$", "maxLength": 4, "minLength": 2}),
        &["\"a1\"", "\"abcd\""],
        &["\"a\"", "\"abcde\"", "\"1a\""],
    );
    check(
        json!({"type": "string", "pattern": "^(ab|c)*$", "minLength": 3, "maxLength": 4}),
        &["\"abc\"", "\"cccc\"", "\"abab\""],
        &["\"ab\"", "\"ccccc\"", "\"abx\""],
    );
    check(
        json!({"allOf": [{"type": "string", "pattern": "^a"}, {"pattern": "z$"}, {"maxLength": 3}]}),
        &["\"az\"", "\"abz\""],
        &["\"a\"", "\"abcz\"", "\"bz\""],
    );
    check(
        json!({"type": "string", "format": "date", "pattern": "^20"}),
        &["\"2024-02-29\""],
        &["\"1999-01-01\"", "\"2023-02-29\""],
    );
    check(
        json!({"type": "string", "pattern": "^[^\"\\\\]$"}),
        &["\"a\"", "\"\\n\""],
        &["\"\\\"\"", "\"\\\\\""],
    );
    check(
        json!({"type": "string", "pattern": "^\\s$"}),
        &["\" \"", "\"\\n\"", "\"\\u000b\"", "\"\u{a0}\""],
        &["\"a\""],
    );
    check(json!({"type": "string", "pattern": "^.{3,5000}$"}), &["\"abc\""], &["\"ab\""]);
    check(json!({"type": "string", "pattern": "^(a|b)*a(a|b){40}$"}), &[], &["\"a\""]);
}

#[test]
fn enumerations_list_values_of_any_type() {
    check(
        json!({"enum": ["a", 1, null, {"x": [1, "é"]}]}),
        &["\"a\"", "1", "null", "{\"x\":[1,\"é\"]}"],
        &["\"b\"", "2", "{}"],
    );
    check(json!({"const": {"b": 1, "a": 2}}), &["{\"b\":1,\"a\":2}"], &["{\"b\":1}"]);
    check(json!({"type": "string", "enum": ["a", 1, "bb"], "maxLength": 1}), &["\"a\""], &["1", "\"bb\""]);
    check(json!({"enum": [1.0, 2.5]}), &["1", "2.5"], &["3"]);
    check(json!({"enum": ["a\"b\n"]}), &["\"a\\\"b\\n\""], &["\"ab\""]);
    let many: Vec<String> = (0..10_000).map(|i| format!("value-{}-{i}", i % 7)).collect();
    check(
        json!({"enum": many}),
        &["\"value-0-0\"", "\"value-3-9999\""],
        &["\"value-3-0\"", "\"value-\"", "\"value-3-99990\""],
    );
}

#[test]
fn keywords_beyond_a_grammar_are_listed_with_their_pointer() {
    for (schema, pointer) in [
        (json!({"type": "array", "uniqueItems": true}), "/uniqueItems"),
        (json!({"type": "array", "contains": {"type": "integer"}}), "/contains"),
        (json!({"properties": {"a": {"type": "string", "pattern": "^(?!x)"}}}), "/properties/a/pattern"),
        (json!({"type": "number", "multipleOf": 0.01}), "/multipleOf"),
        (json!({"not": {"contains": {"type": "integer"}}}), "/not"),
        (json!({"unevaluatedProperties": false}), "/unevaluatedProperties"),
        (json!({"type": "string", "format": "regex"}), "/format"),
    ] {
        let contract = compiled(&schema, &compact()).contract;
        assert!(
            contract.checked().any(|entry| entry.pointer() == pointer && entry.reason().is_some()),
            "{schema}"
        );
    }
    let contract =
        compiled(&json!({"type": "array", "uniqueItems": false, "title": "t", "x-y": 1}), &compact())
            .contract;
    assert!(contract.is_complete());
    let classes: Vec<_> = contract.entries().map(|entry| (entry.keyword(), entry.class())).collect();
    assert_eq!(
        classes,
        [
            ("type", Class::Enforced),
            ("uniqueItems", Class::Enforced),
            ("title", Class::Annotation),
            ("x-y", Class::Annotation)
        ]
    );
}

#[test]
fn what_cannot_be_compiled_is_refused_with_a_pointer() {
    for (schema, kind, message) in [
        (
            json!({"properties": {"a": {"$ref": "#/$defs/none"}}}),
            Kind::InvalidSchema,
            "reference \"#/$defs/none\" leads nowhere in this document at /properties/a/$ref",
        ),
        (
            json!({"$ref": "https://example.com/other.json"}),
            Kind::InvalidSchema,
            "reference \"https://example.com/other.json\" leads nowhere in this document at /$ref",
        ),
        (
            json!({"type": "object", "required": "a"}),
            Kind::InvalidSchema,
            "required is a list of property names at /required",
        ),
        (
            json!({"items": {"minLength": -1}}),
            Kind::InvalidSchema,
            "minLength is a whole number from 0 at /items/minLength",
        ),
        (
            json!({"pattern": "("}),
            Kind::InvalidSchema,
            "\"(\" is no regular expression: a group is not closed at /pattern",
        ),
        (
            json!({"properties": {"a/b": 3}}),
            Kind::InvalidSchema,
            "a schema is an object, true or false at /properties/a~1b",
        ),
        (json!(false), Kind::InvalidSchema, "nothing can match this schema at the root"),
        (
            json!({"type": "integer", "minimum": 3, "maximum": 2}),
            Kind::InvalidSchema,
            "nothing can match this schema at the root",
        ),
        (
            json!({"type": "object", "properties": {"a": {"enum": []}}, "required": ["a"]}),
            Kind::InvalidSchema,
            "nothing can match this schema at the root",
        ),
        (
            json!({"allOf": [{"type": "string"}, {"type": "integer"}]}),
            Kind::InvalidSchema,
            "nothing can match this schema at the root",
        ),
    ] {
        let error = refusal(schema);
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, message));
    }
}

#[test]
fn hostile_schemas_end_within_their_limits() {
    let mut deep = json!({"type": "integer"});
    for _ in 0..2_000 {
        deep = json!({"items": deep});
    }
    assert_eq!(refusal(deep.clone()).kind(), Kind::Limit);
    // Values nested this deeply are dropped by recursion elsewhere, so this one is taken apart by hand.
    while let Some(inner) = deep.get_mut("items").map(Value::take) {
        deep = inner;
    }
    let all: Vec<Value> =
        (0..1_000).map(|i| json!({"properties": {format!("p{i}"): {"minimum": i}}})).collect();
    compiled(&json!({"allOf": all}), &compact());
    let choices: Vec<Value> = (0..20)
        .map(|i| json!({"anyOf": [{"required": [format!("a{i}")]}, {"required": [format!("b{i}")]}]}))
        .collect();
    let contract = compiled(&json!({"type": "object", "allOf": choices}), &compact()).contract;
    assert!(!contract.is_complete());
    compiled(&json!({"type": "string", "pattern": "^((a{0,100}){0,100}){0,100}$"}), &compact());
    let chain: serde_json::Map<String, Value> =
        (0..500).map(|i| (format!("d{i}"), json!({"$ref": format!("#/$defs/d{}", (i + 1) % 500)}))).collect();
    compiled(&json!({"$defs": chain, "$ref": "#/$defs/d0"}), &compact());
}

#[test]
fn white_space_follows_the_options() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"const": {"x": 1}}}}, "required": ["a"], "additionalProperties": false});
    for (whitespace, accepts, refuses) in [
        (Whitespace::Compact, vec!["{\"a\":[{\"x\":1}]}"], vec!["{\"a\": []}"]),
        (
            Whitespace::Spaced,
            vec!["{\"a\": [{\"x\": 1}, {\"x\": 1}]}", "{\"a\": []}"],
            vec!["{\"a\":[]}", "{ \"a\": []}"],
        ),
        (
            Whitespace::Flexible { max: 2 },
            vec!["{\"a\":[]}", "{ \"a\" :\n[ {\"x\": 1 } ] }", "{\n \"a\":[ ]}"],
            vec!["{   \"a\":[]}", "{\"a\":[]} "],
        ),
    ] {
        let result = compiled(&schema, &Options { whitespace, ..Options::default() });
        for text in accepts {
            assert!(result.accepts(text).unwrap(), "{text:?} {whitespace:?}\n{}", result.grammar);
        }
        for text in refuses {
            assert!(!result.accepts(text).unwrap(), "{text:?} {whitespace:?}\n{}", result.grammar);
        }
    }
}

#[test]
fn undeclared_keys_may_be_forbidden_where_the_schema_is_silent() {
    let options = Options { undeclared: Undeclared::Forbidden, ..compact() };
    let silent = compiled(&json!({"type": "object", "properties": {"a": true}}), &options);
    assert!(silent.accepts("{\"a\":1}").unwrap() && !silent.accepts("{\"b\":1}").unwrap());
    let open = compiled(
        &json!({"type": "object", "properties": {"a": true}, "additionalProperties": true}),
        &options,
    );
    assert!(open.accepts("{\"b\":1}").unwrap());
    let map = compiled(&json!({"type": "object"}), &options);
    assert!(map.accepts("{\"b\":1}").unwrap());
}

#[test]
fn several_schemas_share_one_grammar_and_its_common_rules() {
    let mut builder = GrammarBuilder::default();
    // A rule of the same name that means something else must not be mistaken for ours.
    builder.rule("json-string", Expr::literal("trap"));
    let mut names = Vec::new();
    for name in ["read", "write", "json-x"] {
        let schema = Schema::parse(&json!({"properties": {"path": {"type": "string"}, "any": true}, "required": ["path"], "type": "object", "additionalProperties": false})).unwrap();
        let (id, _) = compile_into(&schema, &compact(), &mut builder, name).unwrap();
        names.push(Expr::Rule(id));
    }
    let root = builder.rule("root", Expr::choice(names));
    let grammar = builder.build(root).unwrap();
    let strings = grammar.rules().iter().filter(|rule| rule.name.starts_with("json-string")).count();
    assert_eq!(strings, 2, "{grammar}");
    let result = Compiled { grammar, contract: Contract::default(), work: 0 };
    assert!(result.accepts("{\"path\":\"a\",\"any\":[{}]}").unwrap());
    assert!(!result.accepts("{\"path\":trap}").unwrap());
}

#[test]
fn the_same_schema_gives_the_same_grammar_and_equal_parts_one_rule() {
    let point = json!({"type": "object", "properties": {"x": {"type": "integer", "minimum": 0}, "y": {"type": "integer", "minimum": 0}}, "required": ["x", "y"], "additionalProperties": false});
    let schema = json!({"type": "object", "properties": {"from": point, "to": point}, "required": ["from", "to"], "additionalProperties": false});
    let first = compiled(&schema, &Options::default()).grammar.to_string();
    assert_eq!(first, compiled(&schema, &Options::default()).grammar.to_string());
    insta::assert_snapshot!(first);
}

#[test]
fn optional_properties_cost_rules_in_proportion() {
    let sizes: Vec<usize> = [20, 40]
        .into_iter()
        .map(|n| {
            let properties: serde_json::Map<String, Value> =
                (0..n).map(|i| (format!("p{i}"), json!({"type": "integer"}))).collect();
            let schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
            compiled(&schema, &compact()).grammar.to_string().len()
        })
        .collect();
    assert!(matches!(sizes.as_slice(), [small, large] if *large < 3 * small), "{sizes:?}");
}
