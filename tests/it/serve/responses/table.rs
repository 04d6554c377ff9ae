//! `docs/RESPONSES.md`, row by row: what it says of a field, an item or a tool is what becomes of it.

use super::*;

/// The rows of the table under a heading: name, value, verdict.
fn rows(heading: &str) -> Vec<(String, Value, String)> {
    let text = include_str!("../../../../docs/RESPONSES.md");
    let section = text.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let rows: Vec<_> = rows
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            let [name, value, verdict, ..] = cells.as_slice() else { panic!("{row}") };
            let value = serde_json::from_str(value.trim_matches('`')).unwrap_or_else(|_| panic!("{row}"));
            (name.trim_matches('`').to_owned(), value, (*verdict).to_owned())
        })
        .collect();
    assert!(rows.len() > 3, "{heading}");
    rows
}

/// Sends a request, and compares what becomes of what stands at `pointer` in it, or below.
fn check(served: &Served, name: &str, body: &Value, verdict: &str, pointer: &str) -> Value {
    let (status, response) = post(served, RESPONSES, body);
    let is_below = |place: &str| place == pointer || place.starts_with(&format!("{pointer}/"));
    match verdict {
        "refused" => {
            assert_eq!(status, 400, "{name}: {response}");
            assert!(is_below(response["error"]["param"].as_str().unwrap()), "{name}: {response}");
        }
        "warned" => {
            assert_eq!(status, 200, "{name}: {response}");
            let [place] = pointers(&response)[..] else { panic!("{name}: {response}") };
            assert!(is_below(place), "{name}: {place}");
        }
        "honoured" | "repeated" | "passed over" => {
            assert_eq!((status, pointers(&response)), (200, vec![]), "{name}: {response}");
        }
        other => panic!("{name}: no such verdict: {other}"),
    }
    response
}

#[test]
fn fields_become_what_the_table_says() {
    let served = served();
    for (name, value, verdict) in rows("The request") {
        let body = merged(asked("Hello", json!({})), json!({ name.as_str(): value }));
        let response = check(&served, &name, &body, &verdict, &format!("/{name}"));
        if verdict == "repeated" {
            assert_eq!(response[&name], value, "{name}");
        }
    }
}

#[test]
fn items_become_what_the_table_says() {
    let served = served();
    for (name, value, verdict) in rows("Items of") {
        let body = asked(json!([user("Hi"), value, user("Hello")]), json!({"tools": tools()}));
        check(&served, &name, &body, &verdict, "/input/1");
    }
}

#[test]
fn tools_become_what_the_table_says() {
    let served = served();
    for (name, value, verdict) in rows("Tools") {
        check(&served, &name, &asked("Hello", json!({"tools": [value]})), &verdict, "/tools/0");
    }
}
