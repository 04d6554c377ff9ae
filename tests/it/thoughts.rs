//! Thoughts on their way through a run: the loop and its records, models behind servers, and the program.

use std::sync::Arc;

use assert_cmd::Command;
use serde_json::{Value, json};
use toolgate::agent::{self, Agent, Event, Final};
use toolgate::engine::{Cancel, Effort, Engine, Reasoning, Sampling};
use toolgate::remote::{self, RemoteEngine};
use toolgate::tools::{CannedTool, Registry};
use toolgate::trace::{Header, Model, Record, Recorded, Recorder, Replay};
use toolgate_chat::{Message, Transcript};

use crate::model_server::{Asked, ModelServer, Reply, delta, end, models, results};
use crate::thinker::{Thinker, turns};

const CHAT: &str = "/v1/chat/completions";

fn tool() -> Value {
    let parameters =
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    json!({"type": "function", "function": {"name": "get_weather", "description": "The weather in a city.",
        "parameters": parameters}, "result": "rain"})
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.add(CannedTool::from_json(&tool()).unwrap()).unwrap();
    registry
}

fn run(
    engine: Arc<dyn Engine>,
    sampling: Sampling,
) -> (Result<Final, toolgate::Error>, Vec<Event>, Transcript) {
    let agent = Agent::new(engine, registry(), agent::Options::default().sampling(sampling));
    let mut transcript = Transcript::new().with(Message::User("How is the weather in Oslo?".to_owned()));
    let mut events = Vec::new();
    let outcome = agent.run(&mut transcript, &Cancel::default(), &mut |event| events.push(event));
    (outcome, events, transcript)
}

#[test]
fn the_thought_of_each_turn_stays_in_the_transcript_of_its_run() {
    let thinker = Thinker::default();
    let (outcome, events, transcript) = run(Arc::new(thinker.clone()), Sampling::default());
    let outcome = outcome.unwrap();
    assert_eq!((outcome.answer.as_str(), outcome.stats.reasoning_tokens), ("Rain.", 8));
    assert_eq!(
        turns(&transcript),
        [(Some("I look it up."), Some("Let me see."), 1), (Some("So it rains."), Some("Rain."), 0)]
    );
    assert_eq!(turns(&thinker.last().0), [(Some("I look it up."), Some("Let me see."), 1)]);
    let told = events.iter().filter_map(|event| match event {
        Event::Reasoning { delta } => Some(format!("?{delta}")),
        Event::Text { delta } => Some(format!("!{delta}")),
        Event::ToolCall { name, .. } => Some(format!("+{name}")),
        _ => None,
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        ["?I look ", "?it up.", "!Let me see.", "+get_weather", "?So it ", "?rains.", "!Rain."]
    );
}

#[test]
fn a_record_of_a_run_that_thinks_replays_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.jsonl");
    let (thinker, registry) = (Arc::new(Thinker::default()), registry());
    let sampling = Sampling::default().reasoning(Reasoning::within(30));
    let options = agent::Options::default().sampling(sampling.clone());
    let mut transcript = Transcript::new().with(Message::User("How is the weather in Oslo?".to_owned()));
    let model = Model::default().name("scripted".to_owned());
    let header = Header::new(model, Value::Null, thinker.as_ref(), &registry, &options, &transcript);
    let recorder = Arc::new(Recorder::new(std::fs::File::create(&file).unwrap(), header));
    let agent = Agent::new(Arc::new(Recorded::new(thinker, recorder.clone())), registry, options);
    agent.run(&mut transcript, &Cancel::default(), &mut |event| recorder.see(&event)).unwrap();
    recorder.finish().unwrap();
    let record = Record::read(&file).unwrap();
    assert_eq!(record.header.sampling, sampling);
    for replay in [Replay::new(&record), Replay::new(&record).with_engine(Arc::new(Thinker::default()))] {
        let outcome = replay.run().unwrap();
        assert!(outcome.difference.is_none() && outcome.turns == 2, "{outcome:?}");
    }
    let silent = Thinker { is_plain: true, ..Thinker::default() };
    let outcome = Replay::new(&record).with_engine(Arc::new(silent)).run();
    assert!(outcome.is_err() || outcome.unwrap().difference.is_some(), "control: another model is noticed");
}

/// A server that thinks under this name, says a sentence and calls; behind the result it answers.
fn thinking(
    name: &'static str,
    refuses: impl Fn(&Asked) -> Option<Value> + Send + Sync + 'static,
) -> ModelServer {
    ModelServer::start(move |asked| match asked.path.as_str() {
        "/v1/models" => models(),
        CHAT => match refuses(asked) {
            Some(why) => Reply::Refusal(400, json!({ "error": why })),
            None if results(asked) > 0 => {
                let pieces = [delta(json!({name: "So it rains."})), delta(json!({"content": "Rain."}))];
                Reply::Events(pieces.into_iter().chain(end("stop")).collect())
            }
            None => {
                let function = json!({"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"});
                let call = json!({"index": 0, "id": "a", "type": "function", "function": function});
                let pieces = [
                    delta(json!({name: "I look "})),
                    delta(json!({name: "it up."})),
                    delta(json!({"content": "Let me see."})),
                    delta(json!({"tool_calls": [call]})),
                ];
                Reply::Events(pieces.into_iter().chain(end("tool_calls")).collect())
            }
        },
        _ => Reply::Refusal(404, json!({"error": {"message": "no such path"}})),
    })
}

fn connected(
    server: &ModelServer,
    options: impl FnOnce(remote::Options) -> remote::Options,
) -> Arc<dyn Engine> {
    Arc::new(RemoteEngine::connect(options(remote::Options::new(&server.url))).unwrap())
}

#[test]
fn a_plain_server_is_told_of_thoughts_and_gets_its_own_back_under_its_name_for_them() {
    for name in ["reasoning_content", "reasoning"] {
        let server = thinking(name, |_| None);
        let values = json!({"colour": 1}).as_object().unwrap().clone();
        let sampling = Sampling::default()
            .reasoning(Reasoning::within(30).effort(Some(Effort::Low)))
            .template_values(values);
        let (outcome, _, transcript) = run(connected(&server, |options| options), sampling);
        assert_eq!(outcome.unwrap().answer, "Rain.");
        assert_eq!(turns(&transcript)[0], (Some("I look it up."), Some("Let me see."), 1));
        let asked = server.asked(CHAT);
        assert_eq!(asked[0].body["reasoning_effort"], "low");
        assert_eq!(asked[0].body["thinking_budget_tokens"], 30);
        assert_eq!(asked[0].body["chat_template_kwargs"], json!({"colour": 1, "enable_thinking": true}));
        let messages = asked[1].body["messages"].as_array().unwrap();
        let turn = messages.iter().find(|message| message["role"] == "assistant").unwrap();
        assert_eq!((&turn[name], &turn["content"]), (&json!("I look it up."), &json!("Let me see.")));
    }
    let server = thinking("reasoning", |_| None);
    run(connected(&server, |options| options), Sampling::default()).0.unwrap();
    let body = &server.asked(CHAT)[0].body;
    let silent = ["reasoning_effort", "chat_template_kwargs", "thinking_budget_tokens"];
    assert!(silent.iter().all(|field| body.get(field).is_none()), "nothing was asked of thoughts: {body}");
}

#[test]
fn a_server_that_refuses_fields_about_thoughts_is_asked_without_them() {
    let server = thinking("reasoning_content", |asked| {
        let has_thought =
            asked.body["messages"].as_array().unwrap().iter().any(|m| m.get("reasoning_content").is_some());
        let named = |field: &str| json!({"message": format!("Unknown parameter: '{field}'"), "param": field});
        match () {
            () if asked.body.get("chat_template_kwargs").is_some() => Some(named("chat_template_kwargs")),
            () if has_thought => Some(named("messages[2].reasoning_content")),
            () => None,
        }
    });
    let own = remote::Options::new("").engine.reasoning(Reasoning::OFF);
    let (outcome, ..) = run(connected(&server, |options| options.engine(own)), Sampling::default());
    assert_eq!(outcome.unwrap().answer, "Rain.");
    let taken: Vec<Value> =
        server.asked(CHAT).into_iter().map(|asked| asked.body["reasoning_effort"].clone()).collect();
    assert_eq!(taken, ["none", "none", "none", "none"], "two refusals, two turns");
}

/// Runs the program against a server with these arguments; what it prints and says.
fn program(server: &ModelServer, arguments: &[&str]) -> (String, String) {
    let directory = tempfile::tempdir().unwrap();
    let tools = directory.path().join("tools.json");
    std::fs::write(&tools, json!([tool()]).to_string()).unwrap();
    let mut command = Command::cargo_bin("toolgate").unwrap();
    for name in ["TOOLGATE_STATE", "TOOLGATE_CACHE"] {
        command.env(name, directory.path().join(name));
    }
    command.env_remove("TOOLGATE_MODEL").env("NO_COLOR", "1").current_dir(directory.path());
    let output = command
        .args(["run", "--engine", &server.url, "--tools-file", "tools.json"])
        .args(arguments)
        .arg("How is the weather in Oslo?")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    (out, err)
}

#[test]
fn the_program_asks_for_thoughts_and_shows_them_apart_from_the_answer() {
    let server = thinking("reasoning_content", |_| None);
    let (out, err) = program(&server, &["--reasoning", "off"]);
    assert_eq!(out, "Let me see.\nRain.\n");
    assert!(err.contains("· I look it up.") && err.contains("of thought"), "{err}");
    let asked = server.asked(CHAT);
    assert_eq!(asked[0].body["reasoning_effort"], "none");
    assert_eq!(asked[0].body["temperature"], 0.0);

    let (out, _) = program(&server, &["--reasoning=9", "--json", "--temperature", "0.5"]);
    let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let thoughts: String = events
        .iter()
        .filter(|event| event["event"] == "reasoning")
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert_eq!(thoughts, "I look it up.So it rains.");
    assert!(events.last().unwrap()["stats"]["reasoning_tokens"].as_u64() > Some(0), "{out}");
    let last = &server.asked(CHAT).pop().unwrap().body;
    assert_eq!((&last["thinking_budget_tokens"], &last["temperature"]), (&json!(9), &json!(0.5)));
}
