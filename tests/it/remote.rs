//! Models behind servers: the loop and the tools here, the turns there, and what goes wrong between them.

mod constrained;
mod thoughts;

pub(crate) use constrained::llama_server;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate::Kind;
use toolgate::agent::{self, Agent, Event, Final, StopReason};
use toolgate::engine::{self, Cancel, Thresholds};
use toolgate::remote::{self, GrammarSupport, RemoteEngine};
use toolgate::tools::{Registry, Status, typed};
use toolgate_chat::{Message, ToolChoice, Transcript};
use toolgate_infer::Untrained;

use crate::agent::TEMPLATE;
use crate::model_server::{Asked, ModelServer, Reply, calls, delta, end, models, results, says};

#[derive(Deserialize, schemars::JsonSchema)]
struct City {
    city: String,
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    let weather = |city: City| Ok::<_, String>(format!("rain in {}", city.city));
    registry.add(typed("get_weather", "The weather in a city.", weather).unwrap().read_only()).unwrap();
    registry
}

struct Ran {
    outcome: Result<Final, toolgate::Error>,
    events: Vec<Event>,
    transcript: Transcript,
}

fn run_with(engine: RemoteEngine, options: agent::Options, cancel: &Cancel) -> Ran {
    let agent = Agent::new(Arc::new(engine), registry(), options);
    let mut transcript = Transcript::new().with(Message::User("How is the weather in Oslo?".into()));
    let mut events = Vec::new();
    let outcome = agent.run(&mut transcript, cancel, &mut |event| events.push(event));
    Ran { outcome, events, transcript }
}

fn run(server: &ModelServer) -> Ran {
    let engine =
        RemoteEngine::connect(remote::Options::new(&server.url).engine(engine::Options::guided())).unwrap();
    run_with(engine, agent::Options::default(), &Cancel::default())
}

fn called(outcome: &Final) -> Vec<(&str, Status)> {
    outcome.calls.iter().map(|call| (call.name.as_str(), call.status)).collect()
}

fn text(events: &[Event]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        Event::Text { delta } => Some(delta.as_str()),
        _ => None,
    });
    texts.collect()
}

/// A server that takes tools and no grammar; `first` is its turn before any result.
fn offered(first: impl Fn() -> Reply + Send + Sync + 'static) -> ModelServer {
    ModelServer::start(move |asked| match asked.path.as_str() {
        "/v1/models" => models(),
        "/v1/chat/completions" if results(asked) > 0 => says("It rains in Oslo."),
        "/v1/chat/completions" => first(),
        _ => Reply::Refusal(404, json!({"error": {"message": "no such path"}})),
    })
}

#[test]
fn calls_of_a_server_are_run_here_and_their_results_sent_back() {
    let server = offered(|| calls("get_weather", &json!({"city": "Oslo"})));
    let ran = run(&server);
    let outcome = ran.outcome.unwrap();
    assert_eq!((outcome.answer.as_str(), outcome.stop_reason), ("It rains in Oslo.", StopReason::Final));
    assert_eq!(called(&outcome), [("get_weather", Status::Ok)]);
    assert_eq!(text(&ran.events), "It rains in Oslo.");
    assert_eq!((outcome.stats.prompt_tokens, outcome.stats.cached_tokens), (40, 16));
    let asked = server.asked("/v1/chat/completions");
    assert_eq!(asked[0].body["tools"][0]["function"]["name"], "get_weather");
    assert_eq!(asked[0].body["model"], "scripted");
    let messages = asked[1].body["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool"]);
    assert_eq!(messages[3]["content"], "rain in Oslo");
    assert_eq!(messages[3]["tool_call_id"], messages[2]["tool_calls"][0]["id"]);
}

#[test]
fn what_a_server_s_model_thought_is_counted_apart() {
    let usage = |details: Value| json!({"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 40, "completion_tokens_details": details}});
    for (details, tokens) in [
        (json!({"reasoning_tokens": 7}), 7),
        // As many as is their share of the text.
        (Value::Null, 30),
        (json!({"reasoning_tokens": 0}), 30),
    ] {
        let told = usage(details);
        let server = offered(move || {
            let pieces = [json!({"reasoning_content": "x".repeat(30)}), json!({"content": "y".repeat(10)})];
            let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
            Reply::Events(pieces.into_iter().map(delta).chain([end, told.clone()]).collect())
        });
        let stats = run(&server).outcome.unwrap().stats;
        assert_eq!((stats.written(), stats.reasoning_tokens), (40, tokens));
    }
    let silent = run(&offered(|| says("It rains."))).outcome.unwrap().stats;
    assert_eq!(silent.reasoning_tokens, 0, "control: it thought nothing");
}

#[test]
fn a_call_that_leaks_as_text_is_run_and_not_shown() {
    for leaked in [
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>",
        "```json\n{'name': 'get_weather', 'parameters': {'city': 'Oslo',}}\n```",
    ] {
        let server = offered(move || says(leaked));
        let ran = run(&server);
        let outcome = ran.outcome.unwrap();
        assert_eq!(
            (outcome.answer.as_str(), called(&outcome)),
            ("It rains in Oslo.", vec![("get_weather", Status::Ok)])
        );
        assert_eq!(text(&ran.events), "It rains in Oslo.", "{leaked}");
        assert!(ran.events.iter().any(|event| matches!(event, Event::Recovered { .. })));
    }
}

#[test]
fn a_call_that_a_server_cut_off_is_not_run_however_well_it_could_be_mended() {
    let arguments = "{\"city\": \"Os\"";
    for piece in [
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "get_weather", "arguments": arguments}}]}),
        json!({"content": format!("<tool_call>{{\"name\": \"get_weather\", \"arguments\": {arguments}")}),
    ] {
        let server =
            offered(move || Reply::Events([delta(piece.clone())].into_iter().chain(end("length")).collect()));
        let outcome = run(&server).outcome.unwrap();
        assert_eq!(called(&outcome), [("get_weather", Status::Limit)]);
    }
}

#[test]
fn an_answer_that_is_no_stream_is_said_to_be_none_and_its_words_are_told() {
    let said = |answer: Value| {
        let server = offered(move || Reply::Json(answer.clone()));
        run(&server).outcome.unwrap_err().to_string()
    };
    let whole = json!({"choices": [{"message": {"content": "Rain."}, "finish_reason": "stop"}]});
    assert!(said(whole).contains("does not stream its answers"));
    assert!(said(json!({"error": {"message": "the model is out"}})).contains("the model is out"));
}

#[test]
fn a_server_that_cannot_say_what_it_is_is_not_taken_for_one_without_grammars() {
    let connect = |status| {
        let server = ModelServer::start(move |asked| match asked.path.as_str() {
            "/props" => Reply::Refusal(status, json!({"error": {"message": "Loading model"}})),
            _ => models(),
        });
        let model = Some("scripted".to_owned());
        RemoteEngine::connect(remote::Options::new(&server.url).model(model))
    };
    assert_eq!(connect(404).unwrap().grammar(), "none", "control");
    for status in [401, 503] {
        let error = connect(status).err().unwrap();
        assert!(error.to_string().contains("Loading model"), "{error}");
    }
}

/// What is said about the weather in two cities, of which the request's words name both.
fn both_cities(engine: RemoteEngine) -> Final {
    let agent = Agent::new(Arc::new(engine), registry(), agent::Options::default());
    agent.ask("How is the weather in Oslo and in Rome?").unwrap()
}

#[test]
fn a_model_that_would_rather_answer_is_told_to_call_while_something_is_open() {
    for takes_required in [true, false] {
        let server = ModelServer::start(move |asked| match asked.path.as_str() {
            "/v1/models" => models(),
            "/v1/chat/completions" if asked.body["tool_choice"] == "required" => match takes_required {
                true => calls("get_weather", &json!({"city": "Rome"})),
                false => Reply::Refusal(400, json!({"error": {"message": "tool_choice is auto or none"}})),
            },
            "/v1/chat/completions" if results(asked) > 0 => says("It rains."),
            "/v1/chat/completions" => calls("get_weather", &json!({"city": "Oslo"})),
            _ => Reply::Refusal(404, json!({})),
        });
        // What the catalogue says of small models; nothing is known of others, and they do as they like.
        let thresholds = Thresholds { after_success: 2.0, while_pending: 0.01, ..Thresholds::default() };
        let known = engine::Options::guided().thresholds(thresholds);
        let options = remote::Options::new(&server.url).engine(known);
        let cities = |outcome: Final| {
            let cities: Vec<_> = outcome.calls.iter().map(|call| call.arguments["city"].clone()).collect();
            assert_eq!(outcome.answer, "It rains.");
            cities
        };
        let known = cities(both_cities(RemoteEngine::connect(options).unwrap()));
        assert_eq!(known.len(), if takes_required { 2 } else { 1 }, "{known:?}");
        let unknown =
            RemoteEngine::connect(remote::Options::new(&server.url).engine(engine::Options::guided()))
                .unwrap();
        assert_eq!(cities(both_cities(unknown)).len(), 1);
        let first = server.asked("/v1/chat/completions");
        assert_eq!(first[0].body["tool_choice"], "auto", "before any result nothing is certain");
    }
}

#[test]
fn fields_that_a_server_does_not_take_are_left_out_from_then_on() {
    let server = ModelServer::start(|asked| match asked.path.as_str() {
        "/v1/models" => models(),
        "/v1/chat/completions" => {
            let refused = |field: &str, words: &str| {
                let message =
                    format!("Unsupported parameter: '{field}' is not supported with this model. {words}");
                let error = json!({"message": message, "param": field, "code": "unsupported_parameter"});
                Reply::Refusal(400, json!({"error": error}))
            };
            match asked.body.as_object() {
                Some(body) if body.contains_key("max_tokens") => {
                    refused("max_tokens", "Use 'max_completion_tokens' instead.")
                }
                Some(body) if body.contains_key("temperature") => refused("temperature", ""),
                _ if results(asked) > 0 => says("It rains in Oslo."),
                _ => calls("get_weather", &json!({"city": "Oslo"})),
            }
        }
        _ => Reply::Refusal(404, json!({})),
    });
    let outcome = run(&server).outcome.unwrap();
    assert_eq!(outcome.answer, "It rains in Oslo.");
    let asked = server.asked("/v1/chat/completions");
    assert_eq!(asked.len(), 4, "two refusals and two turns");
    assert_eq!(asked[3].body["max_completion_tokens"], asked[0].body["max_tokens"]);
    assert!(asked[3].body.get("top_p").is_some(), "what was not refused is sent");
}

#[test]
fn a_repeated_call_becomes_an_answer() {
    let server = ModelServer::start(|asked| match asked.path.as_str() {
        "/v1/models" => models(),
        "/v1/chat/completions" if asked.body.get("tools").is_none() => says("Rain, as I said."),
        "/v1/chat/completions" => calls("get_weather", &json!({"city": "Oslo"})),
        _ => Reply::Refusal(404, Value::Null),
    });
    let outcome = run(&server).outcome.unwrap();
    assert_eq!((outcome.answer.as_str(), outcome.calls.len()), ("Rain, as I said.", 1));
}

#[test]
fn an_answer_that_breaks_off_is_an_error_and_the_transcript_stays_whole() {
    for cut in [
        vec![delta(json!({"content": "It rai"}))],
        vec![delta(
            json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "get_weather", "arguments": "{\"ci"}}]}),
        )],
    ] {
        let cut = Arc::new(cut);
        let second = cut.clone();
        let server = ModelServer::start(move |asked| match asked.path.as_str() {
            "/v1/models" => models(),
            "/v1/chat/completions" if results(asked) > 0 => Reply::Cut(second.to_vec()),
            "/v1/chat/completions" => calls("get_weather", &json!({"city": "Oslo"})),
            _ => Reply::Refusal(404, Value::Null),
        });
        let ran = run(&server);
        let error = ran.outcome.unwrap_err();
        assert!(error.kind() == Kind::Engine && error.to_string().contains("broke off"), "{error}");
        let kept = ran.transcript.messages();
        assert!(
            matches!(kept, [Message::User(_), Message::Assistant { .. }, Message::Tool(replies)]
            if replies[0].content == "rain in Oslo"),
            "{kept:?}"
        );
        assert_eq!(server.asked("/v1/chat/completions").len(), 2, "a broken answer is not asked for again");
    }
}

#[test]
fn a_stream_that_ends_without_a_reason_is_no_turn() {
    let server = offered(|| Reply::Events(vec![delta(json!({"content": "It rai"}))]));
    let error = run(&server).outcome.unwrap_err();
    assert!(error.to_string().contains("broke off after 6 bytes"), "{error}");
}

#[test]
fn a_server_that_is_not_there_yet_is_tried_again_and_refusals_are_not() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (tries, first_try) = std::sync::mpsc::channel();
    let late = std::thread::spawn(move || {
        first_try.recv().unwrap();
        // A refused connection is no event to anybody but the caller: the server comes after a time in which it is tried.
        std::thread::sleep(Duration::from_millis(500));
        ModelServer::at(std::net::TcpListener::bind(address).unwrap(), |asked| match asked.path.as_str() {
            "/v1/models" => models(),
            _ => says("here"),
        })
    });
    let options = remote::Options::new(format!("http://{address}")).grammar(GrammarSupport::None);
    tries.send(()).unwrap();
    let engine = RemoteEngine::connect(options).unwrap();
    let _server = late.join().unwrap();
    assert_eq!(
        run_with(engine, agent::Options::default(), &Cancel::default()).outcome.unwrap().answer,
        "here"
    );

    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let server = offered(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Reply::Refusal(503, json!({"error": {"message": "overloaded"}}))
    });
    let error = run(&server).outcome.unwrap_err();
    assert!(error.to_string().contains("status 503: overloaded"), "{error}");
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[test]
fn a_cancelled_turn_leaves_the_server_even_one_that_says_nothing() {
    for waits in [|| Reply::Waiting, || Reply::Silent] {
        let server = Arc::new(offered(waits));
        let engine =
            RemoteEngine::connect(remote::Options::new(&server.url).engine(engine::Options::guided()))
                .unwrap();
        let cancel = Cancel::default();
        let (flag, watched) = (cancel.clone(), server.clone());
        let canceller = std::thread::spawn(move || {
            watched.wait_for_request("/v1/chat/completions");
            flag.cancel();
        });
        let ran = run_with(engine, agent::Options::default(), &cancel);
        canceller.join().unwrap();
        assert_eq!(ran.outcome.unwrap().stop_reason, StopReason::Cancelled);
        server.wait_for_leaver();
    }
}

#[test]
fn the_key_goes_to_the_server_alone() {
    let elsewhere = ModelServer::start(|_| models());
    let target = format!("{}/v1/models", elsewhere.url);
    let server = ModelServer::start(move |asked| match asked.path.as_str() {
        "/v1/models" => Reply::Moved(target.clone()),
        _ => Reply::Refusal(404, Value::Null),
    });
    let options = |url: &str| remote::Options::new(url).key(Some("secret".into()));
    assert!(RemoteEngine::connect(options(&server.url)).is_err());
    assert_eq!(server.asked("/v1/models")[0].key.as_deref(), Some("Bearer secret"));
    assert!(elsewhere.asked("/v1/models").is_empty(), "a redirect is not followed");
    assert!(!format!("{:?}", options("http://x")).contains("secret"));

    let refusing = ModelServer::start(|_| Reply::Refusal(401, json!({"error": {"message": "no"}})));
    let error = RemoteEngine::connect(options(&refusing.url)).err().unwrap();
    assert!(
        error.kind() == toolgate::engine::Kind::Engine && error.to_string().contains("TOOLGATE_ENGINE_KEY"),
        "{error}"
    );
    assert_eq!(
        RemoteEngine::connect(options("localhost:1")).err().unwrap().kind(),
        toolgate::engine::Kind::Input
    );
}

#[test]
fn a_prompt_that_is_too_long_is_shortened() {
    let server = ModelServer::start(|asked| match asked.path.as_str() {
        "/v1/models" => models(),
        "/v1/chat/completions" if asked.body.to_string().len() > 3_000 => Reply::Refusal(
            400,
            json!({"error": {"type": "exceed_context_size_error", "message": "too long"}}),
        ),
        _ => says("short now"),
    });
    let engine =
        RemoteEngine::connect(remote::Options::new(&server.url).engine(engine::Options::guided())).unwrap();
    let agent = Agent::new(Arc::new(engine), registry(), agent::Options::default());
    let mut transcript = Transcript::from_iter([
        Message::User("first ".repeat(400)),
        Message::answer("old"),
        Message::User("and now?".into()),
    ]);
    let mut retries = 0;
    let outcome = agent.run(&mut transcript, &Cancel::default(), &mut |event| {
        retries += usize::from(matches!(event, Event::Retry { .. }));
    });
    assert_eq!((outcome.unwrap().answer.as_str(), retries), ("short now", 1));
    assert_eq!(transcript.len(), 4, "what was left out is still the caller's");
}
