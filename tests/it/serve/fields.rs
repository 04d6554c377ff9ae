//! What the tables of `docs/FIELDS.md` say of each field, row by row: a request is sent with it and without, and what the engine is asked and
//! the client gets are held against each other.

use std::collections::BTreeSet;
use std::sync::Mutex;

use serde_json::{Value, json};
use toolgate::engine::{Cancel, Engine, TokenLikelihood, Turn, TurnEvent, TurnRequest};
use toolgate::serve;
use toolgate_chat::ParsedTurn;
use toolgate_infer::{Stats, StopReason};

use super::*;

const TABLES: &str = include_str!("../../../docs/FIELDS.md");

/// The fields of the specification of chat completions.
const CHAT_FIELDS: &str = "messages model audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens \
    max_tokens metadata modalities moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_options \
    prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier stop store stream stream_options \
    temperature tool_choice tools top_logprobs top_p user verbosity web_search_options";

/// Those of messages, with the betas.
const MESSAGE_FIELDS: &str = "max_tokens messages model billing_policy cache_control compaction container context_management diagnostics \
    fallback_credit_token fallbacks inference_geo mcp_servers metadata output_config output_format service_tier speed stop_sequences \
    stream system temperature thinking thread tool_choice tools top_k top_p";

/// Notes what it is asked, and always says the same.
#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Vec<String>>>);

impl Engine for Noting {
    fn name(&self) -> &str {
        "scripted"
    }

    fn turn(
        &self,
        request: &TurnRequest<'_>,
        _: &Cancel,
        events: &mut dyn FnMut(TurnEvent),
    ) -> Result<Turn, toolgate::engine::Error> {
        self.0.lock().unwrap().push(format!("{request:?}"));
        let text = "Hi.".to_owned();
        events(TurnEvent::Text(text.clone()));
        if let Some(top) = request.likelihoods {
            let top = vec![(b"Hi.".to_vec(), -0.5); top];
            events(TurnEvent::Likelihoods(vec![TokenLikelihood {
                bytes: b"Hi.".to_vec(),
                log_probability: -0.5,
                top,
            }]));
        }
        let parsed = ParsedTurn { content: Some(text.clone()), ..ParsedTurn::default() };
        let (stop, stats) = (StopReason::End, Stats::default());
        Ok(Turn::new(parsed, text, stop).stats(stats))
    }
}

/// A row of a table.
struct Row<'a> {
    field: &'a str,
    value: Value,
    beside: Value,
    verdict: &'a str,
    line: &'a str,
}

/// The rows under a heading.
fn rows(heading: &str) -> Vec<Row<'static>> {
    let (_, section) = TABLES.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("{heading}"));
    let section = section.split("\n## ").next().unwrap();
    let code = |cell: &'static str| cell.trim().strip_prefix('`').and_then(|cell| cell.strip_suffix('`'));
    let json = |cell: &'static str| {
        let text = code(cell)?.replace("\\|", "|");
        Some(serde_json::from_str(&text).unwrap_or_else(|why| panic!("{text}: {why}")))
    };
    let row = |line: &'static str| {
        let cells: Vec<&str> = cells(line);
        let [_, field, value, beside, verdict, ..] = cells.as_slice() else { panic!("{line}") };
        Row {
            field: code(field).unwrap_or_else(|| panic!("{line}")),
            value: json(value).unwrap_or_else(|| panic!("{line}")),
            beside: json(beside).unwrap_or(json!({})),
            verdict: verdict.trim(),
            line,
        }
    };
    section.lines().filter(|line| line.starts_with("| `")).map(row).collect()
}

/// The cells of a row; a bar within one stands behind a backslash.
fn cells(line: &'static str) -> Vec<&'static str> {
    let bars =
        line.match_indices('|').map(|(at, _)| at).filter(|&at| at == 0 || line.as_bytes()[at - 1] != b'\\');
    let mut cells = Vec::new();
    let mut from = 0;
    for bar in bars {
        cells.push(&line[from..bar]);
        from = bar + 1;
    }
    cells
}

/// Status, what the engine was asked, and the answer without what differs each time.
fn told(served: &Served, noted: &Noting, path: &str, body: &Value) -> (u16, Vec<String>, String) {
    noted.0.lock().unwrap().clear();
    let (status, _, text) = send(served, path, &body.to_string(), &[]);
    let asked = noted.0.lock().unwrap().clone();
    let plain = regex::Regex::new(r#""(id|created|request_id)":("[^"]*"|\d+)"#).unwrap();
    (status, asked, plain.replace_all(&text, "").into_owned())
}

fn check(heading: &str, path: &str, base: &Value) {
    let noted = Noting::default();
    let served = start(noted.clone(), None, serve::Options::default());
    let rows = rows(heading);
    assert!(rows.len() > 8, "{heading}");
    for row in rows {
        let (line, place) = (row.line, format!("/{}", row.field));
        let without = merged(base.clone(), row.beside.clone());
        let with = merged(without.clone(), json!({row.field: row.value}));
        let (status, asked, answer) = told(&served, &noted, path, &with);
        // What two fields contradict may be said of either.
        let named = answer.contains(&format!("at {place}"))
            || row
                .beside
                .as_object()
                .is_some_and(|beside| beside.keys().any(|key| answer.contains(&format!("at /{key}"))));
        let warns = answer.contains(&format!("\"pointer\":\"{place}"));
        if row.verdict == "refused" {
            assert!(status == 400 && named && asked.is_empty(), "{line}\n{status} {answer}");
            continue;
        }
        assert_eq!(status, 200, "{line}\n{answer}");
        let (_, other, plain) = told(&served, &noted, path, &without);
        let same = asked == other && answer == plain;
        let wanted = match row.verdict {
            "honoured" => !same && !warns,
            "warned" => warns,
            "passed over" => same && !warns,
            verdict => panic!("{verdict}: {line}"),
        };
        assert!(wanted, "{line}\n{answer}\n{plain}");
    }
}

fn chat_base() -> Value {
    chat("Hi", json!({"seed": 1}))
}

#[test]
fn each_row_of_chat_completions_is_as_the_table_says() {
    check("Chat completions", CHAT, &chat_base());
}

#[test]
fn each_row_of_messages_is_as_the_table_says() {
    check("Messages", MESSAGES, &message("Hi", json!({"seed": 1})));
}

#[test]
fn each_row_of_other_servers_fields_is_as_the_table_says_in_both_apis() {
    check("Fields of other servers", CHAT, &chat_base());
    check("Fields of other servers", MESSAGES, &message("Hi", json!({"seed": 1})));
}

#[test]
fn each_row_of_fields_about_thoughts_is_as_the_table_says() {
    check("Fields about thoughts of other servers", CHAT, &chat_base());
}

#[test]
fn every_field_of_the_specifications_has_a_row() {
    for (heading, fields) in [("Chat completions", CHAT_FIELDS), ("Messages", MESSAGE_FIELDS)] {
        let told: BTreeSet<&str> = rows(heading).iter().map(|row| row.field).collect();
        let missing: Vec<&str> = fields.split_whitespace().filter(|field| !told.contains(field)).collect();
        assert!(missing.is_empty(), "{heading}: {missing:?}");
    }
}
