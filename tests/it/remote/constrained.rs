//! Servers that hold a text to a grammar: llama-server and vLLM.

use super::*;

/// The token of `<tool_call>`.
const ADDED: u64 = 151;

/// The texts to be tokenized.
pub(super) fn contents(asked: &Asked) -> Vec<String> {
    let texts = asked.body["content"].as_array().unwrap();
    texts.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// llama-server with a template of the Hermes family; a token a byte. `first` tells the likeliest tokens after a prompt, `written`
/// what is written under a grammar behind one.
pub(crate) fn llama_server(
    first: impl Fn(&str) -> Vec<(char, f64)> + Send + Sync + 'static,
    written: impl Fn(&str, &str) -> String + Send + Sync + 'static,
) -> ModelServer {
    ModelServer::start(move |asked| match asked.path.as_str() {
        "/v1/models" => models(),
        "/props" => Reply::Json(json!({"chat_template": TEMPLATE, "bos_token": "", "eos_token": "<|end|>"})),
        "/tokenize" => {
            // As an added token is, the name alone is one.
            let texts = contents(asked);
            let tokens = match texts.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                ["<tool_call>"] => vec![ADDED],
                texts => texts.concat().bytes().map(u64::from).collect(),
            };
            Reply::Json(json!({"tokens": tokens}))
        }
        "/completion" if asked.body["n_predict"] == 1 => {
            let token =
                |(c, p): (char, f64)| json!({"id": c as u32, "token": c, "logprob": p.max(1e-30).ln()});
            let top: Vec<Value> = first(&prompt(asked)).into_iter().map(token).collect();
            let timings = json!({"prompt_n": 10, "cache_n": 2, "prompt_ms": 1.5, "predicted_n": 1, "predicted_ms": 1.0});
            Reply::Json(json!({"content": "x", "stop": true, "timings": timings,
                "completion_probabilities": [{"id": 60, "token": "<", "logprob": 0.0, "top_logprobs": top}]}))
        }
        "/completion" => {
            let text = written(asked.body["grammar"].as_str().unwrap(), &prompt(asked));
            let (one, two) = text.split_at(text.len() / 2);
            let piece = |text: &str| json!({"content": text, "stop": false});
            let last = json!({"content": "", "stop": true, "stop_type": "eos"});
            Reply::Events(vec![piece(one), piece(two), last])
        }
        _ => Reply::Refusal(404, Value::Null),
    })
}

/// One with the tool for the weather; `p_call` is what its model thinks of calling.
fn llama(p_call: f64, written: &'static str) -> ModelServer {
    let first = move |prompt: &str| {
        let p = if prompt.contains("tool_response") { 0.0 } else { p_call };
        vec![('<', p), ('I', 1.0 - p)]
    };
    llama_server(first, move |grammar, _| {
        let call = grammar.contains("get_weather");
        if call { written } else { "It rains in Oslo." }.to_owned()
    })
}

pub(super) fn prompt(asked: &Asked) -> String {
    let bytes = asked.body["prompt"].as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as u8);
    String::from_utf8(bytes.collect()).unwrap()
}

pub(super) const CALL: &str =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";

#[test]
fn a_server_that_takes_grammars_is_asked_for_the_decision_and_held_to_ours() {
    let server = llama(0.9, CALL);
    let ran = run(&server);
    let outcome = ran.outcome.unwrap();
    assert_eq!(
        (outcome.answer.as_str(), called(&outcome)),
        ("It rains in Oslo.", vec![("get_weather", Status::Ok)])
    );
    let decided = ran.events.iter().filter_map(|event| match event {
        Event::Decision { call, .. } => Some(*call),
        _ => None,
    });
    let decided: Vec<bool> = decided.collect();
    assert_eq!(decided, [true, false]);
    let asked = server.asked("/completion");
    let grammars: Vec<_> = asked.iter().filter_map(|asked| asked.body["grammar"].as_str()).collect();
    assert_eq!(grammars.len(), 2);
    // What is sent is a grammar that holds exactly such calls.
    let grammar = toolgate_grammar::Grammar::parse(grammars[0]).unwrap();
    for (text, fits) in [(CALL, true), ("Oslo", false), (&CALL.replace("city", "town"), false)] {
        let matched = grammar.match_text(text, &toolgate_grammar::Limits::default()).unwrap();
        assert_eq!(matched.matched, fits, "{text}");
    }
    let prompts: Vec<String> = asked.iter().map(prompt).collect();
    assert!(
        prompts[0].contains("<user>How is the weather in Oslo?<tools>") || prompts[0].contains("get_weather")
    );
    // After calls the answer's view holds the question and the results.
    assert!(prompts[3].contains("rain in Oslo") && !prompts[3].contains("<tools>"), "{}", prompts[3]);
}

#[test]
fn what_a_server_s_model_prefers_whatever_it_is_asked_does_not_choose_the_tool() {
    // It would rather book, and less so where it is asked for the weather.
    let first = |prompt: &str| match prompt.ends_with("{\"name\": \"") {
        true if prompt.contains("Oslo") => vec![('b', 0.6), ('g', 0.4)],
        true => vec![('b', 0.9), ('g', 0.1)],
        false if prompt.contains("tool_response") => vec![('I', 1.0)],
        false => vec![('<', 1.0)],
    };
    // Held to one tool, it writes that one; else what it prefers.
    let server =
        llama_server(first, |grammar, _| match (grammar.contains("book"), grammar.contains("get_weather")) {
            (true, _) => CALL.replace("get_weather", "book"),
            (_, true) => CALL.to_owned(),
            _ => "It rains in Oslo.".to_owned(),
        });
    let called_with = |tool_bias: f64| {
        let mut options = remote::Options::new(&server.url).engine(engine::Options::guided());
        options.engine.tool_bias = tool_bias;
        let mut registry = registry();
        let book = typed("book", "Book a trip to a city.", |city: City| Ok::<_, String>(city.city));
        registry.add(book.unwrap()).unwrap();
        let agent = Agent::new(
            Arc::new(RemoteEngine::connect(options).unwrap()),
            registry,
            agent::Options::default(),
        );
        agent.ask("How is the weather in Oslo?").unwrap().calls.first().unwrap().name.clone()
    };
    assert_eq!(called_with(0.0), "book", "control: left to itself");
    assert_eq!(called_with(1.0), "get_weather");
}

#[test]
fn a_model_that_wants_to_answer_answers_without_a_call() {
    let outcome = run(&llama(0.05, CALL)).outcome.unwrap();
    assert_eq!((outcome.answer.as_str(), outcome.calls.len()), ("It rains in Oslo.", 0));
}

#[test]
fn a_call_that_was_cut_short_is_neither_run_nor_an_answer() {
    let server = llama(0.9, "<tool_call>\n{\"name\": \"get_weather\", \"argum");
    let outcome = run(&server).outcome.unwrap();
    assert_eq!((outcome.answer.as_str(), outcome.calls.len()), ("", 0));
}

#[test]
fn contents_cannot_forge_control_tokens_on_a_server() {
    let server = llama(0.0, CALL);
    let engine =
        RemoteEngine::connect(remote::Options::new(&server.url).engine(engine::Options::guided())).unwrap();
    let agent = Agent::new(Arc::new(engine), registry(), agent::Options::default());
    agent.ask("What is <|end|> for?").unwrap();
    let pieces: Vec<String> = server.asked("/tokenize").iter().flat_map(contents).collect();
    assert!(pieces.iter().all(|piece| !piece.contains("<|end|>")), "{pieces:?}");
    assert!(prompt(&server.asked("/completion")[0]).contains("What is <|end|> for?"));
}

#[test]
fn tokens_that_the_model_does_not_know_are_kept_from_it() {
    let server = llama(0.9, CALL);
    let mut options = remote::Options::new(&server.url).engine(engine::Options::guided());
    options.engine.untrained = Untrained::new(["<tool_call>", "</tool_call>"]).unwrap();
    let engine = RemoteEngine::connect(options).unwrap();
    let before = server.asked("/tokenize").len();
    let agent = Agent::new(Arc::new(engine), registry(), agent::Options::default());
    agent.ask("Does it rain in Oslo?").unwrap();
    let texts: Vec<String> = server.asked("/tokenize").iter().skip(before).flat_map(contents).collect();
    assert!(texts.iter().any(|text| text.contains("_call>")), "the prompt speaks of calls: {texts:?}");
    assert!(texts.iter().all(|text| !text.contains("tool_call>")), "each name is cut: {texts:?}");
    let written: Vec<_> =
        server.asked("/completion").into_iter().filter(|asked| asked.body.get("grammar").is_some()).collect();
    assert!(!written.is_empty());
    assert!(written.iter().all(|asked| asked.body["logit_bias"] == json!([[ADDED, false]])), "{written:?}");
}

/// vLLM: chat under structured outputs.
#[test]
fn vllm_is_sent_the_grammar_with_tools_in_the_system_prompt() {
    let server = ModelServer::start(|asked| match asked.path.as_str() {
        "/v1/models" => Reply::Json(json!({"data": [{"id": "m", "owned_by": "vllm"}]})),
        "/v1/chat/completions" if asked.body["max_tokens"] == 1 => {
            let text = asked.body["messages"].to_string();
            let p: f64 = if text.contains("rain in Oslo") { 0.01 } else { 0.95 };
            let top = [
                json!({"token": "{\"", "logprob": p.ln()}),
                json!({"token": "It", "logprob": (1.0 - p).ln()}),
            ];
            Reply::Json(
                json!({"choices": [{"logprobs": {"content": [{"token": "{\"", "logprob": p.ln(), "top_logprobs": top}]}}]}),
            )
        }
        "/v1/chat/completions" => {
            let grammar = asked.body["structured_outputs"]["grammar"].as_str().unwrap();
            match grammar.contains("get_weather") {
                true => says(&sample(grammar)),
                false => says("It rains in Oslo."),
            }
        }
        _ => Reply::Refusal(404, Value::Null),
    });
    let engine =
        RemoteEngine::connect(remote::Options::new(&server.url).engine(engine::Options::guided())).unwrap();
    assert_eq!(engine.grammar(), "vllm");
    let ran = run_with(engine, agent::Options::default().constrain_arguments(false), &Cancel::default());
    let outcome = ran.outcome.unwrap();
    assert_eq!(
        (outcome.answer.as_str(), called(&outcome)),
        ("It rains in Oslo.", vec![("get_weather", Status::Ok)])
    );
    let first = &server.asked("/v1/chat/completions")[0].body;
    let system = first["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("get_weather") && first.get("tools").is_none(), "{system}");
}

/// A text of the grammar, as a server that obeys it would write one.
pub(super) fn sample(grammar: &str) -> String {
    use toolgate_grammar::Grammar;
    let grammar = Grammar::parse(grammar).unwrap();
    let text = "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}";
    for candidate in [text.to_owned(), format!("[{text}]"), format!("```json\n{text}\n```"), CALL.to_owned()]
    {
        if grammar.match_text(&candidate, &toolgate_grammar::Limits::default()).unwrap().matched {
            return candidate;
        }
    }
    panic!("no such text is in {grammar}");
}

#[test]
fn a_required_call_needs_no_decision() {
    let server = llama(0.0, CALL);
    let engine =
        RemoteEngine::connect(remote::Options::new(&server.url).engine(engine::Options::guided())).unwrap();
    let options = agent::Options::default().choice(ToolChoice::Required);
    let outcome = run_with(engine, options, &Cancel::default()).outcome.unwrap();
    assert_eq!(called(&outcome), [("get_weather", Status::Ok)]);
}

#[test]
fn the_program_runs_tasks_with_the_model_of_a_server() {
    let server = ModelServer::start(|asked| match asked.path.as_str() {
        "/v1/models" => models(),
        "/v1/chat/completions" if results(asked) > 0 => {
            let messages = asked.body["messages"].as_array().unwrap();
            says(&format!("It says: {}", messages.last().unwrap()["content"].as_str().unwrap()))
        }
        "/v1/chat/completions" => calls("read_file", &json!({"path": "a.txt"})),
        _ => Reply::Refusal(404, Value::Null),
    });
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "alpha").unwrap();
    let mut command = assert_cmd::Command::cargo_bin("toolgate").unwrap();
    command.env("TOOLGATE_ENGINE_KEY", "secret").env_remove("TOOLGATE_MODEL").current_dir(dir.path());
    let output =
        command.args(["run", "--engine", &server.url, "--json", "What does a.txt say?"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let last = String::from_utf8(output.stdout).unwrap().lines().last().unwrap().to_owned();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!((&last["event"], &last["answer"]), (&json!("final"), &json!("It says: alpha")));
    let asked = server.asked("/v1/chat/completions");
    assert!(asked.iter().all(|asked| asked.key.as_deref() == Some("Bearer secret")), "{asked:?}");

    let mut command = assert_cmd::Command::cargo_bin("toolgate").unwrap();
    let gone = command
        .args(["run", "--engine", "http://127.0.0.1:9", "--engine-grammar", "none", "x"])
        .output()
        .unwrap();
    assert_eq!(gone.status.code(), Some(4), "{}", String::from_utf8_lossy(&gone.stderr));
}
