//! Answers that say it cannot be known: they become calls where a tool looks things up, and nothing of them is shown.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use toolgate::agent::{self, Agent, Event};
use toolgate::engine::{self, Cancel, Engine, LocalEngine, Thresholds};
use toolgate::remote::{self, RemoteEngine};
use toolgate::tools::{Registry, typed};
use toolgate_chat::{Dialogue, Message, Template, TemplateTokens, Transcript};
use toolgate_infer::Vocabulary;
use toolgate_infer::scripted::Scripted;

use crate::agent::TEMPLATE;
use crate::model_server::{ModelServer, Reply, calls, models, results, says};
use crate::remote::llama_server;

const EXCUSE: &str = "I'm sorry, but I don't have access to your tickets.";
const CALL: &str = "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"query\": \"ticket\"}}\n</tool_call>";
const ANSWER: &str = "It expires on 3 May.";

#[derive(Deserialize, schemars::JsonSchema)]
struct Find {
    query: String,
}

/// What came of a question: the tools called, the text shown, whether each turn was decided to be a call, and how often one was
/// taken back.
#[derive(Debug, PartialEq)]
struct Ran {
    calls: Vec<String>,
    shown: String,
    decided: Vec<bool>,
    retries: usize,
}

fn run(engine: impl Engine + 'static, looks: bool) -> Ran {
    let find = typed("find", "Finds notes.", |find: Find| Ok::<_, String>(format!("{}: 3 May", find.query)));
    let find = find.unwrap().read_only();
    let mut registry = Registry::new();
    registry.add(if looks { find.with_lookup() } else { find }).unwrap();
    let agent = Agent::new(Arc::new(engine), registry, agent::Options::default());
    let mut transcript = Transcript::new().with(Message::User("When does the ticket expire?".into()));
    let mut events = Vec::new();
    let outcome = agent.run(&mut transcript, &Cancel::default(), &mut |event| events.push(event)).unwrap();
    let mut ran = Ran {
        calls: outcome.calls.iter().map(|call| call.name.clone()).collect(),
        shown: String::new(),
        decided: Vec::new(),
        retries: 0,
    };
    for event in events {
        match event {
            Event::Text { delta } => ran.shown.push_str(&delta),
            Event::Decision { call, .. } => ran.decided.push(call),
            Event::Retry { .. } => ran.retries += 1,
            _ => {}
        }
    }
    assert_eq!(ran.shown, outcome.answer);
    ran
}

/// Requests call from 0.5 on, and are watched from 0.05 on; after a result comes the answer.
fn options() -> engine::Options {
    let thresholds =
        Thresholds { first: 0.5, watched: Some(0.05), after_success: 2.0, ..Thresholds::default() };
    engine::Options::guided().thresholds(thresholds)
}

/// A model that would answer so, and else call; then it writes each of these behind a prompt.
fn local(answer: &str, then: &[&str]) -> LocalEngine<Scripted> {
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).say(answer).or_say(CALL);
    let model = then.iter().fold(model, |model, &text| model.say(text));
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    LocalEngine::new("scripted", model, dialogue, options())
}

#[test]
fn an_excuse_becomes_a_call_and_is_not_shown() {
    let ran = run(local(EXCUSE, &[CALL, ANSWER]), true);
    let wanted =
        Ran { calls: vec!["find".into()], shown: ANSWER.into(), decided: vec![false, true], retries: 1 };
    assert_eq!(ran, wanted);
}

#[test]
fn an_excuse_stays_where_no_tool_could_look() {
    let ran = run(local(EXCUSE, &[EXCUSE]), false);
    assert_eq!((ran.calls.len(), ran.shown.as_str(), ran.retries), (0, EXCUSE, 0));
}

#[test]
fn another_answer_is_shown_whole() {
    for answer in ["I do know: on 3 May.", "Sorry", "Sorry to say so: never."] {
        let ran = run(local(answer, &[]), true);
        assert_eq!((ran.calls.len(), ran.shown.as_str(), ran.retries), (0, answer, 0), "{answer}");
    }
}

#[test]
fn a_server_s_model_is_not_left_with_an_excuse_either() {
    let server = llama_server(
        |_| vec![('<', 0.1), ('I', 0.9)],
        |grammar, prompt| {
            let told = prompt.contains("3 May");
            if grammar.contains("find") {
                CALL
            } else if told {
                ANSWER
            } else {
                EXCUSE
            }
            .to_owned()
        },
    );
    let engine = |looks| {
        let connected = remote::Options::new(&server.url).engine(options());
        run(RemoteEngine::connect(connected).unwrap(), looks)
    };
    let wanted =
        Ran { calls: vec!["find".into()], shown: ANSWER.into(), decided: vec![false, true], retries: 1 };
    assert_eq!(engine(true), wanted);
    assert_eq!(engine(false).shown, EXCUSE, "control");
}

/// A server that takes tools and no grammar: left the choice it says what is no call, told to call it does `otherwise`.
fn asked_again(
    says_first: &'static str,
    otherwise: impl Fn() -> Reply + Send + Sync + 'static,
) -> ModelServer {
    ModelServer::start(move |asked| match asked.path.as_str() {
        "/v1/models" => models(),
        "/v1/chat/completions" if results(asked) > 0 => says(ANSWER),
        "/v1/chat/completions" if asked.body["tool_choice"] == "required" => otherwise(),
        "/v1/chat/completions" => says(says_first),
        _ => Reply::Refusal(404, json!({})),
    })
}

#[test]
fn a_server_that_takes_no_grammar_is_asked_again_for_a_call() {
    let server = asked_again(EXCUSE, || calls("find", &json!({"query": "ticket"})));
    let connected = |server: &ModelServer| {
        RemoteEngine::connect(remote::Options::new(&server.url).engine(engine::Options::guided())).unwrap()
    };
    let ran = run(connected(&server), true);
    assert_eq!(ran, Ran { calls: vec!["find".into()], shown: ANSWER.into(), decided: vec![], retries: 1 });
    assert_eq!(run(connected(&server), false).shown, EXCUSE, "control: no tool looks things up");
    let refuses =
        asked_again(EXCUSE, || Reply::Refusal(400, json!({"error": {"message": "no such choice"}})));
    assert_eq!(run(connected(&refuses), true).shown, EXCUSE, "one that cannot be told to call has answered");
    let silent = asked_again(EXCUSE, || says(""));
    assert_eq!(run(connected(&silent), true).shown, EXCUSE);
    let ran = run(connected(&asked_again(ANSWER, || Reply::Refusal(500, json!({})))), true);
    assert_eq!((ran.shown.as_str(), ran.retries), (ANSWER, 0), "control: an answer");
    let leaked = asked_again(
        concat!(
            "I'm sorry, I don't have access. ",
            "<tool_call>{\"name\": \"find\", \"arguments\": {\"query\": \"ticket\"}}</tool_call>"
        ),
        || Reply::Refusal(500, json!({})),
    );
    assert_eq!(run(connected(&leaked), true).calls, ["find"], "it called all the same");
}
