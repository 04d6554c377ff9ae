//! The question before a call, in a pseudo-terminal: a person sees all of it, answers what they saw, and that is what is done.

use std::ffi::OsStr;

use serde_json::{Value, json};

use crate::chat::Terminal;
use crate::model_server::{ModelServer, Reply, calls, models, results, says};

/// A model that makes these calls, one a turn, and then says that it is done.
fn server(script: Vec<(&'static str, Value)>) -> ModelServer {
    ModelServer::start(move |asked| match asked.path.as_str() {
        "/v1/models" => models(),
        "/v1/chat/completions" => match script.get(results(asked)) {
            Some((name, arguments)) => calls(name, arguments),
            None => says("All done."),
        },
        _ => Reply::Refusal(404, json!({"error": {"message": "no such path"}})),
    })
}

struct World {
    workspace: tempfile::TempDir,
    state: tempfile::TempDir,
    _server: ModelServer,
    terminal: Terminal,
}

impl World {
    /// A run of a model that makes these calls, in a terminal of 24 rows; `a.txt` holds "one\n".
    fn new(script: Vec<(&'static str, Value)>, more: &[&str]) -> Self {
        let (workspace, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(workspace.path().join("a.txt"), "one\n").unwrap();
        let server = server(script);
        let mut arguments: Vec<&str> = vec!["run", "--mode", "edit", "--engine", &server.url];
        arguments.extend(["--engine-grammar", "none"]);
        arguments.extend(more);
        arguments.push("go");
        let arguments: Vec<&OsStr> = arguments.into_iter().map(OsStr::new).collect();
        let terminal = Terminal::start(workspace.path(), state.path(), &arguments, (24, 80));
        Self { workspace, state, _server: server, terminal }
    }

    fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.workspace.path().join(path)).ok()
    }
}

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write_file", json!({"path": path, "content": content}))
}

#[test]
fn a_person_sees_the_whole_call_also_where_events_go_elsewhere() {
    for more in [&[][..], &["--json"]] {
        let mut world = World::new(vec![write("././a.txt", "two\nthree")], more);
        let shown = world.terminal.expect("allow write_file?");
        for line in [
            "│ ././a.txt",
            "\"a.txt\" has 1 line, 4 bytes and gets 2 lines, 9 bytes",
            "│ -one",
            "│ +two",
            "│ +three",
            "│ \\ no line end here",
        ] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
        world.terminal.press("y\r");
        world.terminal.expect("done.");
        assert_eq!(world.text("a.txt").as_deref(), Some("two\nthree"));
    }
}

#[test]
fn what_was_typed_before_a_question_is_no_answer_to_it() {
    let script = vec![write("a.txt", "first\n"), write("b.txt", "second\n"), write("c.txt", "third\n")];
    let mut world = World::new(script, &[]);
    world.terminal.expect("allow write_file?");
    // The answer to this one, and one that is there before the next is asked.
    world.terminal.press("y\ry\r");
    world.terminal.expect("allow write_file?");
    world.terminal.press("n\r");
    world.terminal.expect("did not allow");
    assert_eq!((world.text("a.txt").as_deref(), world.text("b.txt")), (Some("first\n"), None));
    world.terminal.expect("allow write_file?");
    world.terminal.press("y\r");
    world.terminal.expect("All done.");
    assert_eq!(world.text("c.txt").as_deref(), Some("third\n"), "control: typed then, it is one");
}

#[test]
fn a_file_that_changes_while_a_person_reads_stays_as_it_is() {
    let mut world = World::new(vec![write("a.txt", "by the model\n")], &[]);
    world.terminal.expect("allow write_file?");
    std::fs::write(world.workspace.path().join("a.txt"), "by the user\n").unwrap();
    world.terminal.press("y\r");
    world.terminal.expect("the file was changed meanwhile");
    assert_eq!(world.text("a.txt").as_deref(), Some("by the user\n"));
    assert!(world.state.path().exists());
}

#[test]
fn what_does_not_fit_the_terminal_is_shown_page_by_page_before_yes_counts() {
    let content: String = (1..=60).map(|i| format!("line {i}\n")).collect();
    let mut world = World::new(vec![write("new.txt", &content), write("new2.txt", &content)], &[]);
    let first = world.terminal.expect("lines: Enter for more");
    assert!(first.contains("+line 10") && !first.contains("+line 40"), "{first}");
    // Yes to what was not seen is only a wish to see more.
    world.terminal.press("y\r");
    world.terminal.expect("lines: Enter for more");
    world.terminal.press("\r");
    let mut shown = world.terminal.expect("?");
    while !shown.contains("+line 60") {
        world.terminal.press("\r");
        shown = world.terminal.expect("? ");
    }
    world.terminal.expect("allow write_file?");
    assert_eq!(world.text("new.txt"), None);
    world.terminal.press("n\r");
    // The second time the end is jumped to: then a single letter is not enough.
    world.terminal.expect("lines: Enter for more");
    world.terminal.press("end\r");
    let shown = world.terminal.expect("lines that were not shown?");
    assert!(shown.contains("+line 60") && !shown.contains("+line 25"), "{shown}");
    world.terminal.press("y\r");
    world.terminal.expect("did not allow");
    assert_eq!(world.text("new2.txt"), None);
}

#[test]
fn nobody_is_asked_about_arguments_that_a_tool_does_not_have() {
    let decoy = json!({"path": "a.txt", "content": "evil\n", "path ": "b.txt", "preview": "nothing changes"});
    let mut world = World::new(vec![("write_file", decoy)], &[]);
    let shown = world.terminal.expect("All done.");
    assert!(shown.contains("write_file has no such argument: path , preview; leave it out"), "{shown}");
    assert!(!shown.contains("allow write_file?"));
    assert_eq!(world.text("a.txt").as_deref(), Some("one\n"));
}

#[test]
fn a_question_about_a_server_s_tool_names_what_the_server_is_granted() {
    if !crate::cli::commands_work() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let policy = directory.path().join("policy.toml");
    let script = include_str!("fixtures/server.sh");
    let text = format!(
        "version = 1\ntier = \"exec\"\n[fs]\nread = [\"@workspace\", \"@system\"]\n[mcp.n]\n\
         command = [\"/bin/sh\", \"-c\", \'\'\'{script}\'\'\']\ntools = [\"*\"]\nenv = {{ KEY = \"sk-123456789\" }}\n\
         network = [\"a.example:443\"]\n[approve]\nask = [\"note\"]\n"
    );
    std::fs::write(&policy, text).unwrap();
    let more = ["--policy", policy.to_str().unwrap()];
    let mut world = World::new(vec![("note", json!({"text": "x"}))], &more);
    let shown = world.terminal.expect("allow note?");
    assert!(shown.contains("MCP server n, tool note"), "{shown}");
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("sees KEY; reaches a.example:443"), "{words}");
    assert!(!shown.contains("sk-1234"), "{shown}");
    world.terminal.press("n\r");
}
