//! A corpus of leaked calls, given by a file: how many rows the fallback parser reads exactly.

use serde_json::{Map, Value};
use toolgate_chat::ToolSpec;
use toolgate_chat::fallback::extract_typed;

/// Equal as Python compares: `1` and `1.0` are the same number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

#[test]
fn leaked_calls_are_read() {
    let Some(path) = crate::skip::corpus("TOOLGATE_LEAKED", "leaked calls as JSON lines") else { return };
    let (mut rows, mut exact, mut plain, mut plain_exact) = (0, 0, 0, 0);
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let tools: Vec<ToolSpec> = row["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|tool| ToolSpec::from_any(tool).ok())
            .collect();
        let found = extract_typed(row["text"].as_str().unwrap(), &tools);
        let subset = row["arguments_match"] == "subset";
        let expected = row["expected_calls"].as_array().unwrap();
        let matches = expected.len() == found.calls.len()
            && expected.iter().zip(&found.calls).all(|(expected, call)| {
                let arguments: &Map<String, Value> = expected["arguments"].as_object().unwrap();
                expected["name"] == call.name.as_str()
                    && (subset || arguments.len() == call.arguments.len())
                    && arguments
                        .iter()
                        .all(|(key, value)| call.arguments.get(key).is_some_and(|v| same(v, value)))
            });
        rows += 1;
        let flagged = !row["flags"].as_array().unwrap().is_empty();
        plain += i32::from(!flagged);
        exact += i32::from(matches);
        plain_exact += i32::from(matches && !flagged);
        if !matches {
            println!("{} {}\n  {}\n  found {:?}", row["id"], row["flags"], row["text"], found.calls);
        }
    }
    println!("{exact} of {rows} rows; {plain_exact} of {plain} without a flag");
    assert!(exact * 10 >= rows * 9 && plain_exact * 100 >= plain * 97);
}
