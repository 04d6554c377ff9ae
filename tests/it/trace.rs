//! Records of runs and their replays: on the scripted backend, and with the smallest model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Map;
use toolgate::agent::{self, Agent, Approval, ContextPolicy};
use toolgate::engine::{self, Cancel, Engine, LocalEngine, Sampling};
use toolgate::tools::{Args, Effect, Registry, Rewrite, Tool, ToolResult, typed};
use toolgate::trace::{End, Header, Line, Model, Outcome, Record, Recorded, Recorder, Replay};
use toolgate_chat::{
    Dialogue, Message, Template, TemplateTokens, ToolCall, ToolChoice, ToolSpec, Transcript,
};
use toolgate_infer::Vocabulary;
use toolgate_infer::scripted::Scripted;

use crate::agent::TEMPLATE;
use crate::models::{load, workspace};

#[derive(Deserialize, schemars::JsonSchema)]
struct City {
    city: String,
}

/// A tool that has to be allowed.
struct Asking(Box<dyn Tool>);

impl Tool for Asking {
    fn spec(&self) -> &ToolSpec {
        self.0.spec()
    }

    fn effect(&self) -> Effect {
        self.0.effect()
    }

    fn needs_approval(&self) -> bool {
        true
    }

    fn call(&self, args: &Args) -> ToolResult {
        self.0.call(args)
    }
}

/// A tool that looks and one that has to be allowed; `weather` is what the first says.
fn registry(weather: &'static str) -> Registry {
    let mut registry = Registry::new();
    let look = typed("get_weather", "The weather in a city.", move |city: City| match city.city.as_str() {
        "Atlantis" => Err("no such city".to_owned()),
        city => Ok(format!("{weather} in {city}")),
    });
    registry.add(look.unwrap().read_only()).unwrap();
    let book = typed("book", "Book a trip to a city.", |city: City| {
        Ok::<_, String>(format!("booked {}", city.city))
    });
    registry.add(Asking(Box::new(book.unwrap()))).unwrap();
    registry
}

fn call(name: &str, city: &str) -> String {
    format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {{\"city\": \"{city}\"}}}}\n</tool_call>")
}

/// An engine that says these turns; what is decided as an answer is asked for twice, in two views.
fn engine(turns: &[String]) -> Arc<dyn Engine> {
    let mut model = Scripted::new(Arc::new(Vocabulary::bytes_only())).context(16_384);
    for turn in turns {
        model = model.say(turn.clone());
        if !turn.starts_with("<tool_call>") {
            model = model.say(turn.clone());
        }
    }
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    Arc::new(LocalEngine::new("scripted", model, dialogue, engine::Options::guided()))
}

/// Records a run of `engine`; the file.
fn record(
    directory: &Path,
    engine: Arc<dyn Engine>,
    registry: Registry,
    options: agent::Options,
    task: &str,
) -> PathBuf {
    let transcript = Transcript::new().with(Message::User(task.to_owned()));
    record_of(directory, engine, registry, options, transcript)
}

/// The same for a run that goes on from a conversation.
fn record_of(
    directory: &Path,
    engine: Arc<dyn Engine>,
    registry: Registry,
    options: agent::Options,
    mut transcript: Transcript,
) -> PathBuf {
    let file = directory.join("run.jsonl");
    let model = Model::default().name(engine.name().to_owned());
    let header =
        Header::new(model, serde_json::Value::Null, engine.as_ref(), &registry, &options, &transcript);
    let recorder = Arc::new(Recorder::new(std::fs::File::create(&file).unwrap(), header));
    let agent = Agent::new(Arc::new(Recorded::new(engine, recorder.clone())), registry, options);
    agent.run(&mut transcript, &Cancel::default(), &mut |event| recorder.see(&event)).unwrap();
    recorder.finish().unwrap();
    file
}

#[test]
fn a_summary_is_in_the_record_and_replays_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(8_000)
        .on("Summarize this conversation", "They meet at the mill.")
        .on("And when?", "At noon.");
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    let engine = Arc::new(LocalEngine::new("scripted", model, dialogue, engine::Options::default()));
    let transcript = Transcript::new()
        .with(Message::User("Where do we meet? ".repeat(500)))
        .with(Message::answer("At the mill."))
        .with(Message::User("And when?".into()));
    let options = agent::Options::default().context_policy(ContextPolicy::Summarize);
    let file = record_of(directory.path(), engine, Registry::new(), options, transcript);
    let record = Record::read(&file).unwrap();
    assert!(std::fs::read_to_string(&file).unwrap().contains("They meet at the mill."));
    let replayed = Replay::new(&record).run().unwrap();
    assert_eq!((replayed.difference, replayed.turns), (None, record.turns.len()));
    let mut trimmed = record;
    trimmed.header.context_policy = ContextPolicy::Trim;
    assert!(Replay::new(&trimmed).run().unwrap().difference.is_some(), "control: it was another run");
}

fn script() -> Vec<String> {
    vec![
        call("get_weather", "Oslo"),
        call("get_weather", "Atlantis"),
        call("book", "Oslo"),
        "It rains in Oslo.".to_owned(),
    ]
}

fn scripted_record(directory: &Path) -> PathBuf {
    let options = agent::Options::default().approval(Approval::Never);
    record(directory, engine(&script()), registry("rain"), options, "How is the weather?")
}

fn same(outcome: &Outcome) -> bool {
    outcome.difference.is_none() && !outcome.incomplete
}

#[test]
fn a_record_replays_the_same_with_and_without_the_model_and_the_tools() {
    let dir = tempfile::tempdir().unwrap();
    let record = Record::read(&scripted_record(dir.path())).unwrap();
    assert_eq!(record.tools.len(), 3, "{record:?}");
    assert_eq!(record.turns.len(), 4);
    let first = &record.turns[0];
    let text = &first.texts[0];
    assert_eq!(text.tokens.len(), text.sources.len());
    assert!(text.sources.contains('f') && text.sources.contains('s'), "{text:?}");
    assert!(text.grammar.as_ref().is_some_and(|grammar| grammar.len() == 64));
    assert!(first.decision.as_ref().is_some_and(|decision| decision.call));
    assert!(!first.prompts[0].is_empty());
    assert_eq!(record.header.engine.template.len(), 64);
    let End::Made { text, .. } = &first.end else { panic!("{first:?}") };
    assert_eq!(text.len(), first.texts[0].tokens.len(), "a token is a byte here");

    for outcome in [
        Replay::new(&record).run().unwrap(),
        Replay::new(&record).with_tools(registry("rain")).run().unwrap(),
        Replay::new(&record).with_engine(engine(&script())).run().unwrap(),
        Replay::new(&record).with_engine(engine(&script())).with_tools(registry("rain")).run().unwrap(),
    ] {
        assert!(same(&outcome), "{outcome:?}");
        assert_eq!((outcome.turns, outcome.drift), (4, 0.0));
    }
}

#[test]
fn what_the_user_named_weighs_in_a_replay_as_it_did() {
    let dir = tempfile::tempdir().unwrap();
    let mut registry = Registry::new();
    for name in ["get_weather", "book"] {
        let tool =
            typed(name, "Does it.", move |city: City| Ok::<_, String>(format!("{name} {}", city.city)));
        registry.add(tool.unwrap().read_only()).unwrap();
    }
    let engine = || -> Arc<dyn Engine> {
        let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
        let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).context(16_384);
        let model = model.say(call("book", "Oslo")).say("It rains.").say("It rains.");
        let options = engine::Options::guided().prior_weight(100.0);
        Arc::new(LocalEngine::new("scripted", model, dialogue, options))
    };
    let asked = "How is the weather in Oslo?";
    let record =
        Record::read(&record(dir.path(), engine(), registry, agent::Options::default(), asked)).unwrap();
    assert_eq!(record.tools[0].name, "get_weather", "control: not what the model prefers");
    let outcome = Replay::new(&record).with_engine(engine()).run().unwrap();
    assert!(same(&outcome), "{outcome:?}");
}

/// A tool that takes one city. Which it is, the weather tells.
struct Guarded(Box<dyn Tool>);

impl Tool for Guarded {
    fn spec(&self) -> &ToolSpec {
        self.0.spec()
    }

    fn effect(&self) -> Effect {
        self.0.effect()
    }

    fn rewrite(&self, args: &Args) -> Option<Rewrite> {
        let look = ToolCall::new("get_weather", Map::from_iter([("city".to_owned(), "Rome".into())]));
        (args.str("city") != Some("Oslo")).then(|| Rewrite::new(Some(look), Vec::new(), "nobody goes there"))
    }

    fn call(&self, args: &Args) -> ToolResult {
        self.0.call(args)
    }
}

#[test]
fn calls_that_were_written_again_replay_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let tools = || {
        let mut tools = Registry::new();
        let look = typed("get_weather", "The weather in a city.", |city: City| Ok::<_, String>(city.city));
        tools.add(look.unwrap().read_only()).unwrap();
        let book = typed("book", "Book a trip to a city.", |city: City| Ok::<_, String>(city.city));
        tools.add(Guarded(Box::new(book.unwrap()))).unwrap();
        tools
    };
    let script = [call("book", "Rome"), call("book", "Athens"), call("book", "Oslo"), "Booked.".to_owned()];
    let path =
        record(dir.path(), engine(&script), tools(), agent::Options::default(), "Book a trip to Rome.");
    let record = Record::read(&path).unwrap();
    let made: Vec<_> = record.tools.iter().map(|tool| (&*tool.name, &tool.arguments["city"])).collect();
    assert_eq!(made, [("get_weather", &"Rome".into()), ("book", &"Oslo".into())]);
    for replay in [
        Replay::new(&record),
        Replay::new(&record).with_tools(tools()),
        Replay::new(&record).with_engine(engine(&script)),
    ] {
        let outcome = replay.run().unwrap();
        assert!(same(&outcome), "{outcome:?}");
    }
}

#[test]
fn another_result_of_a_tool_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let record = Record::read(&scripted_record(dir.path())).unwrap();
    let outcome = Replay::new(&record).with_tools(registry("sun")).run().unwrap();
    let difference = outcome.difference.unwrap();
    assert_eq!((difference.turn, difference.what), (1, "tool"));
    assert!(
        difference.expected.contains("rain in Oslo") && difference.got.contains("sun in Oslo"),
        "{difference}"
    );
}

#[test]
fn another_word_of_the_model_is_found_at_its_token() {
    let dir = tempfile::tempdir().unwrap();
    let record = Record::read(&scripted_record(dir.path())).unwrap();
    let mut other = script();
    other[1] = call("get_weather", "Athens");
    let difference = Replay::new(&record).with_engine(engine(&other)).run().unwrap().difference.unwrap();
    assert_eq!((difference.turn, difference.what), (2, "token"));
    let at = call("get_weather", "At").len();
    // The frame behind the name is in `call`, so the place is counted from its front.
    let at = at - "\"}}\n</tool_call>".len();
    assert_eq!(difference.token, Some(at), "{difference}");
    assert!(difference.expected.contains("\"l\"") && difference.got.contains("\"h\""), "{difference}");
    assert!(difference.around.ends_with("\"city\": \"At"), "{difference}");
}

#[test]
fn a_record_that_ends_early_is_the_same_as_far_as_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read_to_string(scripted_record(dir.path())).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    for kept in 1..lines.len() {
        // The next line was begun when the run died.
        let begun = &lines[kept][..lines[kept].len() / 2];
        let file = dir.path().join("died.jsonl");
        std::fs::write(&file, format!("{}\n{begun}", lines[..kept].join("\n"))).unwrap();
        let record = Record::read(&file).unwrap();
        let outcome = Replay::new(&record).run().unwrap();
        assert!(outcome.difference.is_none() && outcome.incomplete, "{kept} lines: {outcome:?}");
    }
    std::fs::write(dir.path().join("bad.jsonl"), "{\"record\":\"frob\"}\n").unwrap();
    let error = Record::read(&dir.path().join("bad.jsonl")).unwrap_err();
    assert!(error.to_string().contains("line 1"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever one token of a record is changed to, the replay names just that place.
    #[test]
    fn a_changed_token_is_found_where_it_is(turn in 0_usize..4, place in any::<prop::sample::Index>(), prompt in any::<bool>()) {
        let dir = tempfile::tempdir().unwrap();
        let mut record = Record::read(&scripted_record(dir.path())).unwrap();
        let changed = &mut record.turns[turn];
        let tokens = if prompt { &mut changed.prompts[0] } else { &mut changed.texts[0].tokens };
        let at = place.index(tokens.len());
        tokens[at] = (tokens[at] + 1) % 256;
        let outcome = Replay::new(&record).with_engine(engine(&script())).run().unwrap();
        let difference = outcome.difference.unwrap();
        let what = if prompt { "prompt" } else { "token" };
        prop_assert_eq!((difference.turn, difference.what, difference.token), (turn + 1, what, Some(at)));
    }
}

#[test]
fn every_line_is_read_back_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(scripted_record(dir.path())).unwrap();
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let read: Line = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), value);
    }
}

#[test]
fn the_smallest_model_says_the_same_again_and_a_changed_record_is_found() {
    let Some(engine) = load("smollm2-135m", |_| {}) else { return };
    let engine: Arc<dyn Engine> = Arc::new(engine);
    let dir = tempfile::tempdir().unwrap();
    for (temperature, seed) in [(0.0, 0), (0.8, 7)] {
        let (_files, registry) = workspace();
        let sampling = Sampling::default().temperature(temperature).seed(seed).max_tokens(60);
        let options = agent::Options::default()
            .choice(ToolChoice::Required)
            .max_iterations(2)
            .sampling(sampling)
            .approval(Approval::Auto);
        let task = "Read the file notes/meeting-2026-11-03.txt";
        let mut record = Record::read(&record(dir.path(), engine.clone(), registry, options, task)).unwrap();
        let again = |record: &Record| Replay::new(record).with_engine(engine.clone()).run().unwrap();
        assert!(same(&again(&record)), "{:?}", again(&record));
        let (_files, registry) = workspace();
        assert!(same(&Replay::new(&record).with_tools(registry).run().unwrap()));
        assert!(record.turns[1].texts.is_empty(), "the results are this model's answer");
        let text = record.turns[0].texts.last_mut().unwrap();
        let at = text.tokens.len() / 2;
        text.tokens[at] += 1;
        let difference = again(&record).difference.unwrap();
        assert_eq!(
            (difference.turn, difference.what, difference.token),
            (1, "token", Some(at)),
            "{difference}"
        );
        assert!(!difference.around.is_empty(), "{difference}");
    }
}

#[test]
fn the_program_records_a_run_and_says_where_another_differs() {
    let Some(model) = crate::skip::model("smollm2-135m") else { return };
    let model = model.to_str().unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "alpha\n").unwrap();
    let toolgate = |arguments: &[&str]| {
        let mut command = assert_cmd::Command::cargo_bin("toolgate").unwrap();
        let output = command.current_dir(dir.path()).env("NO_COLOR", "1").args(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.code(), text)
    };
    let task = "Read the file a.txt";
    let run = ["run", "--model", model, "--record", "run.jsonl", "--tool-choice", "read_file"];
    let run =
        [&run[..], &["--max-iterations", "2", "--max-tokens", "60", "--context", "4096", task]].concat();
    let (code, said) = toolgate(&run);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = toolgate(&run);
    assert!(
        code == Some(2) && said.contains("cannot write the record"),
        "a record is not written over: {said}"
    );
    let (code, said) = toolgate(&["replay", "run.jsonl"]);
    assert!(code == Some(0) && said.contains("the same: 2 turns"), "{said}");
    let (code, said) = toolgate(&["replay", "run.jsonl", "--model", model]);
    assert!(code == Some(0) && said.contains("token by token"), "{said}");
    assert!(!said.contains("not the"), "the model is loaded as it was: {said}");
    let (code, said) = toolgate(&["replay", "run.jsonl", "--tools", "run"]);
    assert_eq!(code, Some(0), "{said}");
    std::fs::write(dir.path().join("a.txt"), "omega\n").unwrap();
    let (code, said) = toolgate(&["replay", "run.jsonl", "--tools", "run"]);
    let names_it = said.contains("turn 1: tool differs") && said.contains("alpha") && said.contains("omega");
    assert!(code == Some(1) && names_it, "{said}");
}
