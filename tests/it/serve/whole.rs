//! Turns that the server makes for another toolgate: those its own engine would have made there.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;

use toolgate::agent::{self, Agent, Approval, Event, Final};
use toolgate::engine::{Cancel, Sampling, TurnRequest};
use toolgate::remote::{self, GrammarSupport, RemoteEngine};
use toolgate::tools::Registry;
use toolgate_chat::{Message, ToolSpec, Transcript};
use toolgate_sandbox::policy::{Mode, Policy};

use super::faults::{endless, gauge, wait_for};
use super::*;
use crate::tools::registry_of;

const TURN: &str = "/toolgate/turn";

/// A model that makes an edit.
fn editing() -> LocalEngine<Scripted> {
    let arguments = "{\"path\": \"app.toml\", \"old_text\": \"port = 80\", \"new_text\": \"port = 90\"}";
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).context(32_768).on("\nKind:", " change");
    // Once where a call or an answer is decided, once for the view that the answer is written from.
    let model = model.say(call("edit_file", arguments)).say("It is 90 now.").say("It is 90 now.");
    scripted(model, engine::Options::guided())
}

struct Ran {
    outcome: Final,
    /// What happened, without ids and times.
    events: Vec<String>,
    file: String,
}

fn run(engine: Arc<dyn Engine>) -> Ran {
    let workspace = tempfile::tempdir().unwrap();
    let file = workspace.path().join("app.toml");
    std::fs::write(&file, "port = 80\nhost = \"a\"\n").unwrap();
    let tools = registry_of(workspace.path(), &Policy::default_for(Mode::Edit), Mode::Edit);
    let agent =
        Agent::new(engine, tools, agent::Options::default().max_iterations(3).approval(Approval::Auto));
    let mut transcript = Transcript::new().with(Message::User("Set the port in app.toml to 90.".into()));
    let mut events = Vec::new();
    let outcome = agent
        .run(&mut transcript, &Cancel::default(), &mut |event| match event {
            Event::ToolCall { name, arguments, .. } => events.push(format!("{name} {arguments:?}")),
            Event::ToolResult { status, .. } => events.push(format!("{status:?}")),
            Event::Final(_) => {}
            event => events.push(format!("{event:?}")),
        })
        .unwrap();
    Ran { outcome, events, file: std::fs::read_to_string(file).unwrap() }
}

fn remote(served: &Served, grammar: GrammarSupport) -> RemoteEngine {
    RemoteEngine::connect(remote::Options::new(&served.base).grammar(grammar)).unwrap()
}

#[test]
fn a_run_over_a_server_is_the_run_that_its_engine_makes_here() {
    let here = run(Arc::new(editing()));
    let served = start(editing(), None, serve::Options::default());
    let engine = remote(&served, GrammarSupport::Auto);
    assert_eq!((engine.grammar(), engine.facts()), ("toolgate", editing().facts()));
    let there = run(Arc::new(engine));
    assert_eq!(there.file, "port = 90\nhost = \"a\"\n", "the file is here");
    assert_eq!((there.events, &there.file), (here.events, &here.file));
    assert_eq!(there.outcome.answer, here.outcome.answer);
    let (there, here) = (there.outcome.stats, here.outcome.stats);
    assert_eq!((there.retries, there.decode_calls), (here.retries, here.decode_calls));
}

#[test]
fn a_server_that_runs_its_own_tools_makes_no_turns_for_others() {
    let benches = vec![Workbench::new(Registry::new())];
    let execute = Execute::new(benches);
    let served = start(editing(), Some(execute), serve::Options::default());
    assert_eq!(remote(&served, GrammarSupport::Auto).grammar(), "none");
    let wanted = remote::Options::new(&served.base).grammar(GrammarSupport::Toolgate);
    assert_eq!(RemoteEngine::connect(wanted).err().unwrap().kind(), toolgate::engine::Kind::Engine);
}

#[test]
fn what_goes_wrong_there_goes_wrong_here_in_the_same_way() {
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).context(512).say("Hello.");
    let served = start(scripted(model, engine::Options::guided()), None, serve::Options::default());
    let engine = remote(&served, GrammarSupport::Auto);
    let transcript = Transcript::new().with(Message::User("word ".repeat(400)));
    let sampling = Sampling::default();
    let request = TurnRequest::new(&transcript, &[], &sampling);
    let error = engine.turn(&request, &Cancel::default(), &mut |_| ()).unwrap_err();
    assert_eq!(error.kind(), toolgate::engine::Kind::Overflow, "{error}");

    let late = serve::Options::default().turn_time(Duration::from_millis(100));
    let (served, counts) = endless(usize::MAX, late);
    let error =
        remote(&served, GrammarSupport::Auto).turn(&request, &Cancel::default(), &mut |_| ()).unwrap_err();
    assert_eq!(error.kind(), toolgate::engine::Kind::Engine);
    assert!(error.to_string().contains("longer than"), "{error}");
    assert_eq!(counts.cancelled.load(Ordering::SeqCst), 1);

    let (served, counts) = endless(usize::MAX, serve::Options::default());
    let cancel = Cancel::default();
    let ended = remote(&served, GrammarSupport::Auto).turn(&request, &cancel, &mut |_| cancel.cancel());
    assert_eq!(ended.unwrap_err().kind(), toolgate::engine::Kind::Cancelled);
    wait_for("the end of the turn there", || counts.cancelled.load(Ordering::SeqCst) == 1);
}

/// The body of a turn with one checked call, as another toolgate would send it.
fn asked() -> Value {
    let tool = ToolSpec::new("get_weather", "d", parameters()).unwrap();
    json!({
        "model": "scripted",
        "transcript": Transcript::new().with(Message::User("Weather".into())),
        "tools": [tool.to_openai()], "choice": "required", "parallel": null, "completed": [], "checked": true,
        "changed": false, "open": false, "fits": [], "closing": false, "sampling": Sampling::default(),
    })
}

#[test]
fn a_question_that_nobody_answers_holds_nothing_up_once_its_client_is_gone() {
    let served = start(scripted(model(), engine::Options::guided()), None, serve::Options::default());
    let body = asked().to_string();
    let mut client = TcpStream::connect(&served.address).unwrap();
    let head = format!("POST {TURN} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json");
    write!(client, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut lines = BufReader::new(client.try_clone().unwrap()).lines().map(Result::unwrap);
    let question = lines.find(|line| line.contains("\"question\"")).unwrap();
    let question: Value = serde_json::from_str(question.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(question["call"]["arguments"], json!({"city": "Oslo"}));
    assert_eq!(gauge(&served, "toolgate_turns_running"), 1, "it waits for the answer");
    let answer =
        |id: &Value| post(&served, "/toolgate/answer", &json!({"id": id, "verdict": {"fault": null}}));
    assert_eq!(answer(&json!("guessed")).0, 404);
    drop(lines);
    client.flush().unwrap();
    drop(client);
    wait_for("an idle server", || gauge(&served, "toolgate_turns_running") == 0);
    assert_eq!(answer(&question["id"]).0, 404, "nobody waits for it any more");
}

#[test]
fn what_is_no_turn_is_refused_and_says_why() {
    let served = start(scripted(model(), engine::Options::guided()), None, serve::Options::default());
    let said = |body: &Value| {
        let (status, body) = post(&served, TURN, body);
        (status, body["error"]["message"].as_str().unwrap().to_owned())
    };
    let (status, message) = said(&json!({"model": "scripted"}));
    assert!(status == 400 && message.contains("transcript"), "{status} {message}");
    assert_eq!(said(&merged(asked(), json!({"model": "another"}))).0, 404);
    let (status, message) = said(&merged(asked(), json!({"tools": [{"name": "<x>"}]})));
    assert!(status == 400 && message.contains("<x>"), "{status} {message}");

    let keyed = serve::Options::default().key(Some("secret".into()));
    let served = start(scripted(model(), engine::Options::guided()), None, keyed);
    for path in [TURN, "/toolgate/answer"] {
        assert_eq!(post(&served, path, &asked()).0, 401, "{path}");
    }
    assert_eq!(fetch(&served, "/toolgate/engine").0, 401);
    let options = remote::Options::new(&served.base).key(Some("secret".into()));
    assert_eq!(RemoteEngine::connect(options).unwrap().grammar(), "toolgate");
}
