//! With weights: what the smallest model that proves the point really does.
//! Needs `TOOLGATE_MODELS`, a directory of `<id>.gguf` files (`scripts/test` sets it).

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate::agent::{self, Agent, Event};
use toolgate::engine::{
    self, Cancel, Constraint, Engine, Forcing, LocalEngine, Sampling, TurnRequest, Untrained,
};
use toolgate::models::Catalogue;
use toolgate::tools::{Registry, Status, file_tools};
use toolgate_chat::{Message, ToolChoice, ToolSpec, Transcript};
use toolgate_llama::LlamaBackend;
use toolgate_sandbox::policy::{Mode, Policy};
use toolgate_sandbox::{Root, ambient_authority};

#[cfg(feature = "serve")]
use crate::model_server::{self, ModelServer, Reply};
use crate::tools::registry_of;

pub(crate) use crate::skip::model as weights;

pub(crate) fn load(id: &str, change: impl FnOnce(&mut engine::Options)) -> Option<LocalEngine<LlamaBackend>> {
    let path = weights(id)?;
    let entry = Catalogue::builtin().unwrap().get(id).cloned();
    let model = toolgate::models::ResolvedModel::new(path, entry);
    let mut options = engine::Options::for_model(&model);
    options.context = Some(4096);
    change(&mut options);
    Some(LocalEngine::load(&model, &options, |_| {}).unwrap())
}

pub(crate) fn workspace() -> (tempfile::TempDir, Registry) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("notes")).unwrap();
    std::fs::write(
        dir.path().join("notes/meeting-2026-11-03.txt"),
        "Meeting notes\n\nThe release is planned for Thursday.\nTomasz writes the changelog.\n",
    )
    .unwrap();
    let registry = registry_of(dir.path(), &Policy::default_for(Mode::Intel), Mode::Intel);
    (dir, registry)
}

#[test]
fn the_smallest_model_tells_requests_for_a_change_from_others_in_ten_languages() {
    let Some(engine) = load("smollm2-135m", |_| {}) else { return };
    let least = Catalogue::builtin().unwrap().get("smollm2-135m").unwrap().defaults.thresholds.changing;
    let (mut looks, mut changes) = (Vec::new(), Vec::new());
    for row in include_str!("fixtures/requests.tsv").lines().filter(|line| !line.starts_with('#')) {
        let [_, "check", kind, text] = row.split('\t').collect::<Vec<_>>()[..] else { continue };
        let asked = Transcript::new().with(Message::User(text.to_owned()));
        let p = engine.p_change(&asked, &Cancel::default()).unwrap().unwrap();
        if kind == "look" { looks.push(p) } else { changes.push(p) }
    }
    assert_eq!((looks.len(), changes.len()), (55, 55));
    let least = least.unwrap();
    let mistaken = looks.iter().filter(|&&p| p >= least).count();
    let found = changes.iter().filter(|&&p| p >= least).count();
    assert!(mistaken <= 7 && found >= 43, "{mistaken} of 55 look only, {found} of 55 ask for a change");
}

#[test]
fn the_smallest_model_makes_the_right_call_when_one_is_required() {
    let Some(engine) = load("smollm2-135m", |_| {}) else { return };
    let (_dir, registry) = workspace();
    let options = agent::Options::default().choice(ToolChoice::Required).max_iterations(2);
    let agent = Agent::new(Arc::new(engine), registry, options);
    let outcome = agent.ask("Read the file notes/meeting-2026-11-03.txt").unwrap();
    assert_eq!(outcome.calls.len(), 1, "{outcome:?}");
    assert_eq!(outcome.calls[0].name, "read_file");
    assert_eq!(outcome.calls[0].arguments["path"], "notes/meeting-2026-11-03.txt");
    assert_eq!(outcome.calls[0].status, Status::Ok);
}

/// The workspace and the question of `scripts/demo`.
fn demo() -> (Registry, &'static str) {
    let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/workspace");
    let root = Root::open(workspace, ambient_authority()).unwrap();
    let mut registry = Registry::new();
    for tool in file_tools(&root, &Policy::default_for(Mode::Intel), Mode::Intel).unwrap() {
        registry.add(tool).unwrap();
    }
    (registry, "Read config/server.toml and tell me which port the server uses.")
}

#[test]
fn the_half_billion_model_reads_a_file_and_answers_from_it() {
    let Some(engine) = load("qwen2.5-coder-0.5b", |_| {}) else { return };
    let (registry, question) = demo();
    let outcome = Agent::new(Arc::new(engine), registry, agent::Options::default()).ask(question).unwrap();
    assert_eq!(outcome.calls[0].name, "read_file", "{outcome:?}");
    assert_eq!(outcome.calls[0].arguments["path"], "config/server.toml");
    assert!(outcome.answer.contains("8417"), "{}", outcome.answer);
}

#[test]
fn without_a_constraint_the_same_model_s_call_is_text_that_has_to_be_recovered() {
    // As its vocabulary would have it: with marks that it was not trained with.
    let as_published = |options: &mut engine::Options| {
        (options.constraint, options.untrained) = (Constraint::None, Untrained::default());
    };
    let Some(engine) = load("qwen2.5-coder-0.5b", as_published) else { return };
    let (registry, question) = demo();
    let options = agent::Options::default().max_iterations(2);
    let mut transcript = Transcript::new();
    transcript.push(Message::User(question.to_owned()));
    let mut written = Vec::new();
    let keep = &mut |event| {
        if let Event::Recovered { text } = event {
            written.push(text);
        }
    };
    let outcome = Agent::new(Arc::new(engine), registry, options)
        .run(&mut transcript, &Cancel::default(), keep)
        .unwrap();
    let text = written.first().expect("a call in text of the model's own form");
    assert!(text.contains("\"name\"") && !text.contains("<tool_call>"), "{text}");
    assert!(outcome.calls.first().is_some_and(|call| call.name == "read_file"), "{outcome:?}");
}

/// Tools of differing schemas, for the noise test.
fn zoo() -> Vec<ToolSpec> {
    let tool =
        |name: &str, parameters: Value| ToolSpec::new(name, format!("Does {name}."), parameters).unwrap();
    let object = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    vec![
        tool("no_parameters", object(json!({}), json!([]))),
        tool("text", object(json!({"text": {"type": "string", "maxLength": 12}}), json!(["text"]))),
        tool(
            "length",
            object(json!({"code": {"type": "string", "minLength": 3, "maxLength": 5}}), json!(["code"])),
        ),
        tool(
            "pattern",
            object(json!({"id": {"type": "string", "pattern": "^[A-Z]{2}-\\d{3}$"}}), json!(["id"])),
        ),
        tool("dates", object(json!({"on": {"type": "string", "format": "date"}}), json!(["on"]))),
        tool("choice", object(json!({"unit": {"enum": ["celsius", "kelvin"]}}), json!(["unit"]))),
        tool("mixed_choice", object(json!({"v": {"enum": [1, "two", null, true]}}), json!(["v"]))),
        tool("whole", object(json!({"n": {"type": "integer", "minimum": -7, "maximum": 350}}), json!(["n"]))),
        tool("decimal", object(json!({"x": {"type": "number"}}), json!(["x"]))),
        tool(
            "flags",
            object(json!({"a": {"type": "boolean"}, "b": {"type": ["boolean", "null"]}}), json!(["a"])),
        ),
        tool(
            "list",
            object(
                json!({"items": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "integer", "minimum": 0, "maximum": 9}}}),
                json!(["items"]),
            ),
        ),
        tool(
            "nested",
            object(
                json!({"point": object(json!({"x": {"type": "integer", "maximum": 9, "minimum": 0}, "y": {"enum": ["up", "down"]}}), json!(["x", "y"]))}),
                json!(["point"]),
            ),
        ),
        tool(
            "optional",
            object(json!({"a": {"enum": ["p"]}, "b": {"enum": ["q"]}, "c": {"enum": ["r"]}}), json!(["b"])),
        ),
        tool(
            "either",
            object(
                json!({"v": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 99}, {"enum": ["none"]}]}}),
                json!(["v"]),
            ),
        ),
    ]
}

#[test]
fn every_turn_is_valid_under_noise() {
    // The tool is drawn like everything else, not chosen by its weight.
    let Some(engine) = load("smollm2-135m", |options| (options.tool_bias, options.prior_weight) = (0.0, 0.0))
    else {
        return;
    };
    let tools = zoo();
    let schemas: Vec<_> = tools
        .iter()
        .map(|tool| {
            let options = jsonschema::options().should_validate_formats(true);
            (tool.name.to_string(), options.build(&tool.parameters).unwrap())
        })
        .collect();
    let transcript = Transcript::new()
        .with(Message::System("Call a tool.".into()))
        .with(Message::User("Do something.".into()));
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..150 {
        let sampling = Sampling::default().temperature(2.0).seed(seed).max_tokens(400);
        let request = TurnRequest::new(&transcript, &tools, &sampling).choice(ToolChoice::Required);
        let turn = engine.turn(&request, &Cancel::default(), &mut |_| {}).unwrap();
        assert!(turn.parsed.defects.is_empty(), "seed {seed}: {:?} in {:?}", turn.parsed.defects, turn.text);
        let [call] = turn.parsed.calls.as_slice() else { panic!("seed {seed}: {:?}", turn.text) };
        let (name, schema) = schemas
            .iter()
            .find(|(name, _)| *name == call.name)
            .unwrap_or_else(|| panic!("seed {seed}: unknown tool in {:?}", turn.text));
        let arguments = Value::Object(call.arguments.clone());
        assert!(schema.is_valid(&arguments), "seed {seed}: {name} {arguments}");
        seen.insert(name.clone());
    }
    assert!(seen.len() >= 12, "temperature 2 reached only {seen:?}");
}

#[test]
fn greedy_turns_read_the_same_with_and_without_forced_batches() {
    for id in ["smollm2-135m", "qwen2.5-coder-0.5b"] {
        let answer = |forcing| {
            let engine = load(id, |options| options.forcing = forcing)?;
            let (_dir, registry) = workspace();
            let specs = registry.specs();
            let texts: Vec<String> = [
                "Read the file notes/meeting-2026-11-03.txt",
                "List the directory notes.",
                "Search for the word release.",
            ]
            .iter()
            .map(|task| {
                let transcript = Transcript::new().with(Message::User((*task).into()));
                let sampling = Sampling::default().max_tokens(80);
                let request = TurnRequest::new(&transcript, &specs, &sampling).choice(ToolChoice::Required);
                engine.turn(&request, &Cancel::default(), &mut |_| {}).unwrap().text
            })
            .collect();
            Some(texts)
        };
        assert_eq!(answer(Forcing::On), answer(Forcing::Off), "{id}");
    }
}

#[cfg(feature = "serve")]
#[test]
fn bench_serve_counts_what_fits_at_both_servers() {
    let Some(weights) = weights("smollm2-135m") else { return };
    // It writes its calls as text that nobody reads, and knows no grammars.
    let peer = ModelServer::start(|asked| match asked.path.as_str() {
        "/v1/chat/completions" => Reply::Json(json!({
            "choices": [{"message": {"role": "assistant", "content": "get_weather(Oslo)"}, "finish_reason": "stop"}]
        })),
        "/v1/models" => model_server::models(),
        _ => Reply::Refusal(404, json!({})),
    });
    let output = assert_cmd::Command::cargo_bin("toolgate")
        .unwrap()
        .args([
            "bench",
            "serve",
            "--json",
            "--limit",
            "1",
            "--clients",
            "1,2",
            "--against",
            &peer.url,
            "--model",
        ])
        .arg(weights)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows: Vec<_> = told["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (
                row["server"].as_str().unwrap(),
                row["clients"].as_u64().unwrap(),
                row["valid"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(rows, [("toolgate", 1, 1), ("toolgate", 2, 1), ("its tools", 1, 0), ("its tools", 2, 0)]);
    assert!(
        told["rows"][0].get("ratio").is_none() && told["rows"][3]["ratio"].as_f64() > Some(0.0),
        "{told}"
    );
}

#[cfg(feature = "wasm")]
#[test]
fn a_small_model_chooses_between_components() {
    let Some(engine) = load("qwen2.5-coder-0.5b", |_| {}) else { return };
    let engine: Arc<dyn Engine> = Arc::new(engine);
    for (task, tool, argument, value) in [
        ("Calculate 12.5 * 4 with the calculator.", "calculator", "expression", "12.5 * 4"),
        ("Count the words of the file notes/todo.txt.", "text_statistics", "path", "notes/todo.txt"),
    ] {
        let (_dir, registry) = crate::components::sample();
        let options = agent::Options::default().choice(ToolChoice::Required).max_iterations(2);
        let outcome = Agent::new(Arc::clone(&engine), registry, options).ask(task).unwrap();
        let call = outcome.calls.first().unwrap_or_else(|| panic!("{task}: {outcome:?}"));
        assert_eq!((call.name.as_str(), call.status), (tool, Status::Ok), "{task}: {outcome:?}");
        assert_eq!(call.arguments[argument], value, "{task}: {outcome:?}");
    }
}
