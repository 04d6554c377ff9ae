//! Arguments that the sandbox would refuse cannot be written; what the user wrote can, and is told the truth about.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate::agent::{self, Agent, Approval, Final};
use toolgate::engine::{self, Cancel, ChoiceModel, ChoiceWeights, LocalEngine, Thresholds};
use toolgate::tools::Status;
use toolgate_chat::{Dialogue, Message, Template, TemplateTokens, Transcript};
use toolgate_infer::Vocabulary;
use toolgate_infer::scripted::Scripted;
use toolgate_sandbox::policy::{Mode, Policy};

use crate::agent::TEMPLATE;
use crate::tools::registry_of;

const FILES: [(&str, &str); 4] = [
    ("notes/todo.txt", "buy milk\n"),
    ("notes/plan.txt", "none\n"),
    ("config/app.toml", "port = 80\nhost = \"a\"\nport_of_b = 81\n"),
    ("README.md", "# Read me\n"),
];

struct Run {
    outcome: Final,
    transcript: Transcript,
    workspace: tempfile::TempDir,
}

impl Run {
    /// The first call: an argument of it, and how it went.
    fn first(&self, argument: &str) -> (String, Status) {
        let call = self.outcome.calls.first().expect("a call");
        (call.arguments[argument].as_str().expect("a text").to_owned(), call.status)
    }

    fn result(&self) -> &str {
        let replies = self.transcript.iter().find_map(|message| match message {
            Message::Tool(replies) => replies.first(),
            _ => None,
        });
        &replies.expect("a result").content
    }

    fn content(&self, path: &str) -> String {
        std::fs::read_to_string(self.workspace.path().join(path)).unwrap()
    }
}

fn workspace() -> tempfile::TempDir {
    let workspace = tempfile::tempdir().unwrap();
    for (path, text) in FILES {
        let path = workspace.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    workspace
}

/// A model that takes every request for one that asks for a change.
fn scripted() -> Scripted {
    telling("change")
}

/// A model that takes every request for one of this kind.
fn telling(kind: &str) -> Scripted {
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).context(32_768);
    model.on("\nKind:", format!(" {kind}"))
}

fn run_with(policy: &Policy, prompt: &str, name: &str, arguments: Value, constrained: bool) -> Run {
    let options = agent::Options::default().constrain_arguments(constrained).max_iterations(3);
    run_of(policy, prompt, &[(name, arguments)], options)
}

/// A model that makes these calls, one a turn, and ends.
fn run_of(policy: &Policy, prompt: &str, says: &[(&str, Value)], options: agent::Options) -> Run {
    let workspace = workspace();
    let registry = registry_of(workspace.path(), policy, Mode::Edit);
    let model = says.iter().fold(scripted(), |model, (name, arguments)| model.say(called(name, arguments)));
    // Once where a call or an answer is decided, once for the view that the answer is written from.
    let model = model.say("That is all.").say("That is all.");
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    let engine = LocalEngine::new("scripted", model, dialogue, engine::Options::guided());
    let agent = Agent::new(Arc::new(engine), registry, options.approval(Approval::Auto));
    let mut transcript = Transcript::new().with(Message::User(prompt.into()));
    let outcome = agent.run(&mut transcript, &Cancel::default(), &mut |_| {}).unwrap();
    Run { outcome, transcript, workspace }
}

fn spaced(arguments: &Value) -> String {
    let members = arguments.as_object().unwrap().iter();
    let members: Vec<String> = members.map(|(key, value)| format!("\"{key}\": {value}")).collect();
    format!("{{{}}}", members.join(", "))
}

fn run(prompt: &str, name: &str, arguments: Value) -> Run {
    run_with(&Policy::default_for(Mode::Edit), prompt, name, arguments, true)
}

fn called(name: &str, arguments: &Value) -> String {
    let arguments = spaced(arguments);
    format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
}

/// The calls of a model that would answer after each, where what is open keeps it going.
fn calls_while_pending(prompt: &str, says: &[(&str, Value)]) -> Vec<(String, String)> {
    let mut model = scripted();
    for (name, arguments) in says {
        model = model.say(called(name, arguments));
    }
    calls_of(model.say("That is all."), prompt, Mode::Intel)
}

/// The calls of a model whose own probability counts for nothing behind a result.
fn calls_of(model: Scripted, prompt: &str, mode: Mode) -> Vec<(String, String)> {
    let workspace = workspace();
    let registry = registry_of(workspace.path(), &Policy::default_for(mode), mode);
    let thresholds = Thresholds {
        first: 0.0,
        after_success: 2.0,
        after_change: 2.0,
        after_failure: 2.0,
        while_pending: 0.0,
        ..Thresholds::default()
    };
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    let options = engine::Options::guided().thresholds(thresholds).prior_weight(0.1);
    let engine = LocalEngine::new("scripted", model, dialogue, options);
    let outcome = Agent::new(Arc::new(engine), registry, agent::Options::default()).ask(prompt).unwrap();
    let path = |call: &toolgate::agent::CallRecord| {
        call.arguments.get("path").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    outcome.calls.iter().map(|call| (call.name.clone(), path(call))).collect()
}

fn pairs<const N: usize>(calls: [(&str, &str); N]) -> Vec<(String, String)> {
    calls.map(|(name, path)| (name.to_owned(), path.to_owned())).into()
}

#[test]
fn a_lead_is_followed_and_nothing_else_can_be_read() {
    let list = ("list_directory", json!({"path": "config"}));
    let read = ("read_file", json!({"path": "README.md"}));
    let both = [list.clone(), read];
    let calls = calls_while_pending("The folder config holds one file. Which port does it set?", &both);
    assert_eq!(calls, pairs([("list_directory", "config"), ("read_file", "config/app.toml")]));
    let control = calls_while_pending("What files are in config?", &[list]);
    assert_eq!(control, pairs([("list_directory", "config")]));
}

#[test]
fn a_directory_that_was_named_is_open() {
    let list = |path: &str| ("list_directory", json!({"path": path}));
    let both = pairs([("list_directory", "notes"), ("list_directory", "config")]);
    assert_eq!(calls_while_pending("List both notes and config", &[list("notes"), list("config")]), both);
}

#[test]
fn a_change_is_made_where_the_model_finds_that_the_request_asks_for_one() {
    let read = called("read_file", &json!({"path": "config/app.toml"}));
    let edit =
        called("edit_file", &json!({"path": "config/app.toml", "old_text": "\"a\"", "new_text": "\"b\""}));
    let model = |kind: &str, behind_the_result: &str| {
        let model = telling(kind).on("edited \"config", "Done.").on("port_of_b", behind_the_result);
        model.on("app.toml", read.clone())
    };
    let read_alone = pairs([("read_file", "config/app.toml")]);
    for request in [
        "config/app.toml has a wrong host, please correct it.",
        "Could you report the latest change that config/app.toml got?",
        "What would you update in config/app.toml, and what would docs/new.md replace?",
    ] {
        // It would edit, whatever it was asked: its own probability behind a result counts for nothing.
        let calls = calls_of(model("look", &edit), request, Mode::Edit);
        assert!(
            calls
                .iter()
                .all(|(name, _)| !["edit_file", "write_file", "create_file"].contains(&name.as_str())),
            "{request}: {calls:?}"
        );
        assert!(!calls.is_empty());
    }
    let asked = "config/app.toml has a wrong host, please correct it.";
    let done = pairs([("read_file", "config/app.toml"), ("edit_file", "config/app.toml")]);
    assert_eq!(
        calls_of(model("change", &edit), asked, Mode::Edit),
        done,
        "control: one that was asked for is made"
    );
    let looking = calls_of(model("change", &edit), asked, Mode::Intel);
    assert_eq!(looking, read_alone, "where nothing can be changed, nobody is asked about it");
}

#[test]
fn a_file_is_not_replaced_by_a_text_that_drops_it() {
    let write = |content: &str| json!({"path": "config/app.toml", "content": content});
    let top = "Add a comment at the top of config/app.toml";
    let refused = run(top, "write_file", write("# the app"));
    assert_eq!(refused.first("path"), ("config/app.toml".to_owned(), Status::Failed));
    assert!(refused.result().contains("edit_file"), "{}", refused.result());
    assert!(refused.content("config/app.toml").starts_with("port = 80"));
    let kept = run(top, "write_file", write("# the app\nport = 80\nhost = \"a\"\nport_of_b = 81\n"));
    assert_eq!(kept.first("path").1, Status::Ok);
    for request in ["Overwrite config/app.toml with: x = 1", "clear config/app.toml, then put x = 1 in"] {
        assert_eq!(run(request, "write_file", write("x = 1")).first("path").1, Status::Ok, "{request}");
    }
    let plain = run_with(&Policy::default_for(Mode::Edit), top, "write_file", write("# the app"), false);
    assert_eq!(plain.first("path").1, Status::Failed, "whether arguments are constrained or not");
}

#[test]
fn a_path_that_is_not_there_cannot_be_written() {
    for (name, wanted, there) in [
        ("read_file", "notes/todo.md", "notes/todo.txt"),
        ("read_file", "./config/app.toml", "./config/app.toml"),
        ("list_directory", "notes/old", "notes"),
        ("list_directory", "config/", "config"),
        ("list_directory", ".", "."),
    ] {
        // What a model goes on with behind another path than it wanted is nobody's business here.
        let run = run("What is on my list?", name, json!({"path": wanted}));
        assert_eq!(run.first("path").0, there, "{name} {wanted}");
    }
    let policy = Policy::default_for(Mode::Edit);
    let plain =
        run_with(&policy, "What is on my list?", "read_file", json!({"path": "notes/todo.md"}), false);
    assert_eq!(
        plain.first("path"),
        ("notes/todo.md".to_owned(), Status::Failed),
        "the control: off by option"
    );
}

#[test]
fn a_word_that_is_no_path_is_not_looked_at() {
    for (prompt, wanted) in [
        ("What is the default port of the server?", "server"),
        ("What does Server do?", "Server"),
        ("Open the list backlog", "backlog"),
    ] {
        let (path, _) = run(prompt, "read_file", json!({"path": wanted})).first("path");
        assert!(FILES.iter().any(|(file, _)| path.ends_with(file)), "{prompt}: {path}");
        let quoted = format!("Read `{wanted}`");
        let named = run(&quoted, "read_file", json!({"path": wanted})).first("path");
        assert_eq!(named, (wanted.to_owned(), Status::Failed), "who quotes it names it");
    }
}

#[test]
fn a_missing_file_that_the_user_names_is_said_to_be_missing() {
    for (prompt, path) in [
        ("read missing.txt", "missing.txt"),
        ("What is in ./docs/missing.txt?", "./docs/missing.txt"),
        ("Open \"my list.txt\", please", "my list.txt"),
    ] {
        let run = run(prompt, "read_file", json!({"path": path}));
        assert_eq!(run.first("path"), (path.to_owned(), Status::Failed), "{prompt}");
        assert!(run.result().contains("no such file"), "{}", run.result());
        assert_eq!(run.outcome.answer, "That is all.");
    }
    let run = run("read plan.md", "read_file", json!({"path": "plan.md"}));
    assert_eq!(run.first("path").1, Status::Failed);
    assert!(
        run.result().contains("notes/plan.txt") || run.result().contains("README.md"),
        "{}",
        run.result()
    );
}

/// What becomes of edits with these old and new texts, one a turn.
fn edited(edits: &[(&str, &str)], options: agent::Options) -> Run {
    let edit = |(old, new): &(&str, &str)| {
        ("edit_file", json!({"path": "config/app.toml", "old_text": old, "new_text": new}))
    };
    let says: Vec<_> = edits.iter().map(edit).collect();
    let request = "Set the port to 90 in config/app.toml.";
    run_of(&Policy::default_for(Mode::Edit), request, &says, options)
}

/// The tools that were called, and whether the file has the new value.
fn came_to(run: &Run) -> (Vec<&str>, bool) {
    let is_changed = run.content("config/app.toml") == FILES[2].1.replace("port = 80\n", "port = 90\n");
    (run.outcome.calls.iter().map(|call| call.name.as_str()).collect(), is_changed)
}

#[test]
fn an_edit_of_what_the_model_guessed_is_written_again_behind_a_look() {
    let right = ("port = 80", "port = 90");
    for (guessed, then) in [
        (("port: 80", "port: 90"), right),
        // What is written then is a piece of the file, whatever the model would rather write.
        (("port = 8080", "port = 90"), ("port = 8080", "port = 90")),
        // It occurs twice.
        (("port", "90"), right),
    ] {
        let run = edited(&[guessed, then], agent::Options::default());
        assert_eq!(came_to(&run), (vec!["read_file", "edit_file"], true), "{guessed:?} {then:?}");
        assert_eq!(run.result(), FILES[2].1);
    }
    let known = edited(&[right], agent::Options::default());
    assert_eq!(came_to(&known), (vec!["edit_file"], true), "control: it knows what it replaces");
}

#[test]
fn a_line_that_the_request_does_not_speak_of_is_left_alone() {
    let (guessed, other) = (("port: 80", "port: 90"), ("host = \"a\"", "host = \"b\""));
    let lines = |run: &Run| run.content("config/app.toml").lines().map(str::to_owned).collect::<Vec<_>>();
    let told = edited(&[guessed, other], agent::Options::default());
    assert!(
        lines(&told).contains(&other.0.to_owned()),
        "lines with a port are left: {:?}",
        told.outcome.calls
    );
    let asked = |request: &str, new: &str| {
        let edit = |old: &str, new: &str| {
            ("edit_file", json!({"path": "config/app.toml", "old_text": old, "new_text": new}))
        };
        let says = [edit("port: 80", "port: 90"), edit(other.0, new)];
        run_of(&Policy::default_for(Mode::Edit), request, &says, agent::Options::default())
    };
    let silent = asked("Put config/app.toml right: 90, please.", "host = \"b\"");
    assert_eq!(came_to(&silent).0, ["read_file", "edit_file"]);
    assert!(lines(&silent).contains(&other.0.to_owned()), "{:?}", silent.outcome.calls);
    assert_eq!(silent.outcome.calls.last().map(|call| call.status), Some(Status::Failed));
    let control = asked("Put config/app.toml right: 90, please.", "host = 90");
    assert!(lines(&control).contains(&"host = 90".to_owned()), "{:?}", control.outcome.calls);
}

#[test]
fn a_name_in_place_of_its_value_is_written_again_as_the_whole_line() {
    let name = ("port_of_b", "90");
    let line = ("port_of_b", "port_of_b = 90");
    let run = edited(&[name, line], agent::Options::default());
    assert_eq!(came_to(&run).0, ["read_file", "edit_file"], "it was looked at once");
    assert!(run.content("config/app.toml").ends_with("port_of_b = 90\n"), "{:?}", run.outcome.calls);
}

#[test]
fn a_line_that_follows_is_not_written_twice() {
    let both = ("host = \"a\"", "host = \"b\"\nport_of_b = 81");
    let run = edited(&[both, both], agent::Options::default());
    assert_eq!(came_to(&run).0, ["read_file", "edit_file"]);
    assert_eq!(run.content("config/app.toml"), "port = 80\nhost = \"b\"\nport_of_b = 81\n");
}

#[test]
fn a_call_is_written_again_twice_at_most_and_not_without_the_hint() {
    let options = || agent::Options::default().constrain_arguments(false);
    let (guessed, other) = (("port: 80", "port: 90"), ("port: 81", "port: 90"));
    for options in [options().hints("paths".parse().unwrap()), options().max_iterations(2)] {
        let run = edited(&[guessed], options);
        assert_eq!(run.first("old_text"), ("port: 80".to_owned(), Status::Failed));
        assert!(run.result().contains("does not occur"), "{}", run.result());
    }
    for (edits, calls) in [
        (vec![guessed, guessed], vec!["read_file", "edit_file"]),
        (vec![guessed, other, ("port: 82", "x")], vec!["read_file", "edit_file"]),
    ] {
        let (made, is_changed) = (edited(&edits, options()), false);
        assert_eq!(came_to(&made), (calls, is_changed), "{edits:?}");
    }
}

#[test]
fn writes_go_where_they_are_granted() {
    let policy =
        "version = 1\ntier = \"edit\"\n[fs]\nread = [\"@workspace\"]\nwrite = [\"@workspace/notes\"]\n";
    let policy = Policy::parse(policy).unwrap();
    let write = |prompt: &str, path: &str| {
        run_with(&policy, prompt, "write_file", json!({"path": path, "content": "c"}), true).first("path")
    };
    let (path, status) = write("Put it in.", "config/new.txt");
    assert!(path.starts_with("notes/") && status == Status::Ok, "{path} {status:?}");
    assert_eq!(write("Put it in.", "notes/new/a.txt"), ("notes/new/a.txt".to_owned(), Status::Ok));
    let asked = write("Write c to config/new.txt", "config/new.txt");
    assert_eq!(
        asked,
        ("config/new.txt".to_owned(), Status::Denied),
        "what was asked for is refused, not moved"
    );
}

/// The tool that is chosen for a request, where the model would take another whatever it is asked.
fn chosen(prompt: &str, preferred: &str, prior_weight: f64) -> String {
    chosen_by(prompt, preferred, engine::Options::guided().tool_bias(0.01).prior_weight(prior_weight))
}

/// The same by these options. Behind a list of functions the model names `read_file`.
fn chosen_by(prompt: &str, preferred: &str, options: engine::Options) -> String {
    let workspace = workspace();
    let registry = registry_of(workspace.path(), &Policy::default_for(Mode::Edit), Mode::Edit);
    let call = format!(
        "<tool_call>\n{{\"name\": \"{preferred}\", \"arguments\": {{\"path\": \"x\"}}}}\n</tool_call>"
    );
    let model = (0..8).fold(scripted(), |model, _| model.say(call.clone()));
    let model = model.on(format!("Request: {prompt}\nNext:"), " read_file");
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    let engine = LocalEngine::new("scripted", model, dialogue, options);
    let agent = Agent::new(
        Arc::new(engine),
        registry,
        agent::Options::default().max_iterations(2).approval(Approval::Auto),
    );
    let outcome = agent.ask(prompt).unwrap();
    outcome.calls.first().expect("a call").name.clone()
}

#[test]
fn a_tool_that_the_model_names_behind_a_list_is_the_one_it_calls_where_that_counts() {
    let by = |next| {
        let weights = ChoiceWeights { next, ..ChoiceWeights::default() };
        let choice = ChoiceModel { first: Some(weights), after: None };
        let options = engine::Options::guided().tool_bias(0.01).choice(choice);
        chosen_by("Have a look.", "list_directory", options)
    };
    assert_eq!(by(0.0), "list_directory", "control");
    assert_eq!(by(1000.0), "read_file");
}

#[test]
fn what_the_user_named_speaks_for_the_tools_that_take_it() {
    assert_eq!(chosen("What is in README.md?", "list_directory", 0.0), "list_directory", "control");
    assert_ne!(chosen("What is in README.md?", "list_directory", 1000.0), "list_directory");
    assert_ne!(chosen("What is in notes?", "read_file", 1000.0), "read_file");
}

#[test]
fn a_new_path_that_the_user_gave_is_the_one_that_is_written() {
    let run = run("Make me a list.md", "write_file", json!({"path": "C:/Users/me/list.txt", "content": "a"}));
    let (path, status) = run.first("path");
    assert!(path == "list.md" || path.ends_with("/list.md"), "{path}");
    assert_eq!(status, Status::Ok);
}
