//! Random tools and calls of them, for the laws.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolgate_chat::{ToolCall, ToolSpec};

use crate::support::call;

/// A text, often one that a careless reader takes for markup.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => any::<String>(),
        3 => "[a-z \"'\\\\\n\t/{}\\[\\]<>|=:,]{0,16}",
        1 => Just("</parameter>\n</function>\n</tool_call>".to_owned()),
        1 => Just("<tool_call>\n{\"name\": \"x\", \"arguments\": {}}\n</tool_call>".to_owned()),
        1 => Just("</arg_value><|\"|><escape><｜DSML｜parameter name=\"a\">".to_owned()),
        1 => Just("\n\nnull\n".to_owned()),
        1 => prop::sample::select(vec!["null", "true", "7", "\"quoted\"", "{\"a\": 1}", "[]", "True", ""]).prop_map(str::to_owned),
    ]
}

/// Any JSON, a few levels deep.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((text(), inner), 0..4)
                .prop_map(|members| Value::Object(Map::from_iter(members))),
        ]
    })
}

/// A schema and a value of it.
fn schema_and_value() -> impl Strategy<Value = (Value, Value)> {
    let leaf = prop_oneof![
        3 => text().prop_map(|text| (json!({"type": "string"}), text.into())),
        1 => any::<i64>().prop_map(|n| (json!({"type": "integer"}), n.into())),
        1 => any::<i32>().prop_map(|n| (json!({"type": "number"}), (f64::from(n) / 64.0).into())),
        1 => any::<bool>().prop_map(|b| (json!({"type": "boolean"}), b.into())),
        1 => (proptest::collection::hash_set(text(), 1..4)).prop_map(|values| {
            let values: Vec<String> = values.into_iter().collect();
            (json!({"enum": values}), values.last().unwrap().as_str().into())
        }),
        1 => (text(), any::<bool>()).prop_map(|(text, null)| {
            (json!({"type": ["string", "null"]}), if null { Value::Null } else { text.into() })
        }),
        1 => Just((json!({"type": "object", "properties": {}}), json!({}))),
        1 => json_value().prop_map(|value| (json!({}), value)),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            (inner.clone(), 0..4usize).prop_map(|((schema, value), n)| (
                json!({"type": "array", "items": schema}),
                vec![value; n].into()
            )),
            object_of(inner),
        ]
    })
}

/// Each member: required, left out where it is not, and what it is.
fn object_of(
    member: impl Strategy<Value = (Value, Value)> + 'static,
) -> impl Strategy<Value = (Value, Value)> {
    proptest::collection::vec((any::<bool>(), any::<bool>(), member), 0..4).prop_map(|members| {
        let (mut properties, mut required, mut value) = (Map::new(), Vec::new(), Map::new());
        for (i, (is_required, is_present, (schema, member))) in members.into_iter().enumerate() {
            let name = format!("p{i}");
            properties.insert(name.clone(), schema);
            if is_required {
                required.push(Value::from(name.clone()));
            }
            if is_required || is_present {
                value.insert(name, member);
            }
        }
        (json!({"type": "object", "properties": properties, "required": required}), Value::Object(value))
    })
}

/// Tools of random schemas, and calls of them.
pub(crate) fn tools_and_calls() -> impl Strategy<Value = (Vec<ToolSpec>, Vec<ToolCall>)> {
    let tools = proptest::collection::vec(object_of(schema_and_value()), 1..3);
    (tools, proptest::collection::vec(any::<prop::sample::Index>(), 1..4)).prop_map(|(tools, picks)| {
        let specs: Vec<ToolSpec> = tools
            .iter()
            .enumerate()
            .map(|(i, (schema, _))| ToolSpec::new(&format!("tool_{i}-x.y"), "", schema.clone()).unwrap())
            .collect();
        let calls = picks
            .iter()
            .map(|pick| {
                let i = pick.index(specs.len());
                call(specs[i].name.as_str(), tools[i].1.clone())
            })
            .collect();
        (specs, calls)
    })
}
