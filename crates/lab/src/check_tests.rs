//! What the checker lets pass and what not, each rule with its near twin.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use serde_json::{Value, json};

use super::super::record::Record;
use super::super::task::Task;
use super::check;

/// Checks a run: what is expected, the calls made, the answer, the files afterwards.
fn verdict(expect: &Value, calls: &[Value], answer: &str, files: &Value) -> super::Verdict {
    let task: Task = serde_json::from_value(json!({
        "id": "t", "category": "c", "mode": "edit", "files": {}, "tools": "builtin", "prompt": "?",
        "max_iterations": 4, "expect": expect, "forbid": ["(?i)don't have access"],
    }))
    .unwrap();
    let calls: Vec<Value> = calls
        .iter()
        .map(|call| json!({"name": call["name"], "arguments": call["with"], "ok": true}))
        .collect();
    let mut record: Record = serde_json::from_value(json!({
        "id": "t", "category": "c", "calls": calls, "final": answer, "files_after": files, "stop_reason": "final",
        "seconds": 0.0, "stats": toolgate_infer::Stats::default(), "leak": false, "no_access": false,
        "pass": false, "reasons": [],
    }))
    .unwrap();
    record.workspace = Some("/tmp/w".to_owned());
    check(&task, &record).unwrap()
}

fn passes(expect: &Value, calls: &[Value], answer: &str, files: &Value) -> bool {
    verdict(expect, calls, answer, files).pass
}

#[test]
fn a_call_is_found_by_name_values_and_patterns() {
    let expect = json!({"calls_include": [{"name": "f", "args_subset": {"path": "a/b", "n": 12, "mode": "x"},
        "args_match": {"list": "^\\[1,2\\]$"}}]});
    let call = |with: Value| [json!({"name": "f", "with": with})];
    let good = json!({"path": "./a//b", "n": 12.0, "mode": " x ", "list": [1, 2], "more": true});
    assert!(passes(&expect, &call(good.clone()), "done", &json!({})));
    for (key, value) in [
        ("path", json!("a/c")),
        ("n", json!("12")),
        ("n", json!(true)),
        ("mode", json!("X")),
        ("list", json!([1])),
    ] {
        let mut bad = good.clone();
        bad[key] = value;
        assert!(!passes(&expect, &call(bad), "done", &json!({})), "{key}");
    }
    let mut absolute = good;
    absolute["path"] = json!("/tmp/w/a/b");
    assert!(passes(&expect, &call(absolute), "done", &json!({})));
}

#[test]
fn one_of_several_calls_will_do() {
    let expect =
        json!({"calls_include": [{"any_of": [{"name": "f"}, {"name": "g", "args_match": {"q": "(?i)ab"}}]}]});
    assert!(passes(&expect, &[json!({"name": "f", "with": {}})], "done", &json!({})));
    assert!(passes(&expect, &[json!({"name": "g", "with": {"q": "xAB"}})], "done", &json!({})));
    assert!(!passes(&expect, &[json!({"name": "g", "with": {}})], "done", &json!({})));
    assert!(!passes(&expect, &[], "done", &json!({})));
}

#[test]
fn where_no_call_is_wanted_any_is_wrong() {
    let expect = json!({"no_calls": true});
    assert!(passes(&expect, &[], "hello", &json!({})));
    assert!(!passes(&expect, &[json!({"name": "f", "with": {}})], "hello", &json!({})));
}

#[test]
fn the_answer_has_what_it_must_and_not_what_it_must_not() {
    let expect = json!({"no_calls": true, "final_contains_any": ["9:45", "quarter to ten"], "final_contains_all": ["1200"]});
    let answer = |text: &str| passes(&expect, &[], text, &json!({}));
    assert!(answer("At **9:45**, for 1,200 people."));
    assert!(!answer("At 19:45, for 1,200 people."));
    assert!(!answer("At 9:45, for 12000 people."));
    assert!(!answer("I don\u{2019}t have access; it is at 9:45 for 1200."));
    assert!(!passes(&json!({"no_calls": true}), &[], " \n", &json!({})), "a blank answer is none");
}

#[test]
fn files_are_compared_but_for_line_ends_and_trailing_blanks() {
    let expect = json!({"no_calls": true, "files_after": {
        "a": {"equals": "x\ny"}, "b": {"contains": ["p", "q"]}, "c": {"contains": "r"}, "d": {"absent": true}}});
    let good = json!({"a": "x \r\ny\n\n", "b": "q p", "c": "r"});
    assert!(passes(&expect, &[], "done", &good));
    for (file, text) in [("a", json!("x\n y")), ("b", json!("q")), ("c", json!("R")), ("d", json!(""))] {
        let mut bad = good.clone();
        bad[file] = text;
        let verdict = verdict(&expect, &[], "done", &bad);
        assert!(!verdict.pass && !verdict.parts.files && verdict.parts.answer, "{file}");
    }
}

/// A run as a reference has it: what it called, said and left.
fn reference(line: &Value) -> Record {
    let mut record = json!({
        "category": "", "stop_reason": "final", "seconds": 0.0, "stats": toolgate_infer::Stats::default(), "leak": false,
        "no_access": false, "pass": false, "reasons": [],
    });
    for (name, value) in line.as_object().unwrap() {
        record[name] = value.clone();
    }
    serde_json::from_value(record).unwrap()
}

#[test]
fn reference_runs_pass_and_empty_ones_do_not() {
    let read =
        |text: &str| -> Vec<Value> { text.lines().map(|line| serde_json::from_str(line).unwrap()).collect() };
    let runs = read(include_str!("../data/tasks/reference.jsonl"));
    let sets = [
        (include_str!("../data/tasks/tasks.jsonl"), 48),
        (include_str!("../data/tasks/talk.jsonl"), 20),
        (include_str!("../data/tasks/nowrite.jsonl"), 16),
        (include_str!("../data/tasks/languages.jsonl"), 24),
    ];
    for (set, most) in sets {
        let tasks = read(set);
        assert_eq!(tasks.len(), most);
        for task in tasks {
            let task: Task = serde_json::from_value(task).unwrap();
            let run = runs.iter().find(|run| run["id"] == task.id.as_str()).unwrap();
            let verdict = check(&task, &reference(run)).unwrap();
            assert!(verdict.pass, "{}: {:?}", task.id, verdict.reasons);
            let nothing =
                json!({"id": task.id, "calls": [], "final": "I do not know.", "files_after": task.files});
            let wants = !task.expect.no_calls && task.category != "nowrite";
            let verdict = check(&task, &reference(&nothing)).unwrap();
            assert!(!wants || !verdict.pass, "{} passes without a call", task.id);
        }
    }
}
