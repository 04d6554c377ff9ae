//! The policy's WebAssembly tools, from the policy file to the answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use assert_cmd::Command;
use serde_json::{Value, json};
use toolgate::agent::{self, Agent};
use toolgate::engine::{self, LocalEngine};
use toolgate::tools::{ComponentTool, Registry, Status};
use toolgate_chat::{Dialogue, Template, TemplateTokens};
use toolgate_infer::Vocabulary;
use toolgate_infer::scripted::Scripted;
use toolgate_sandbox::policy::{Mode, Policy};
use toolgate_sandbox::wasm::{Components, Setup};
use toolgate_sandbox::{Root, ambient_authority};

use crate::agent::TEMPLATE;

fn sandbox(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sandbox").join(path)
}

/// The tools of the sample policy over a workspace with one text.
pub(crate) fn sample() -> (tempfile::TempDir, Registry) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("notes")).unwrap();
    std::fs::write(dir.path().join("notes/todo.txt"), "buy milk\ncall Ada about the release\n").unwrap();
    let root = Root::open(dir.path(), ambient_authority()).unwrap();
    let text = std::fs::read_to_string(sandbox("policies/components.toml")).unwrap();
    let policy = Policy::parse(&text).unwrap();
    let components = Arc::new(Components::new(&Setup::default(), Some(&root)).unwrap());
    let mut registry = Registry::new();
    for (name, tool) in &policy.wasm {
        let module = std::fs::read(sandbox("policies").join(&tool.component)).unwrap();
        let tool = ComponentTool::load(&components, name, tool, module, &root, &policy, Mode::Intel).unwrap();
        registry.add(tool).unwrap();
    }
    (dir, registry)
}

#[test]
fn a_model_calls_components_and_answers_with_their_results() {
    // Spaced as the family writes it: a script that differs from the grammar is not followed.
    let call = |name: &str, arguments: &str| {
        format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
    };
    let (_dir, registry) = sample();
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(16_384)
        .on("words: 7", "0.3, and 7 words.")
        .on("<tool_response>0.3", call("text_statistics", r#"{"path": "notes/todo.txt"}"#))
        .on("What is 0.1", call("calculator", r#"{"expression": "0.1 + 0.2"}"#));
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    let engine = LocalEngine::new("scripted", model, dialogue, engine::Options::guided());
    let agent = Agent::new(Arc::new(engine), registry, agent::Options::default());
    let outcome = agent.ask("What is 0.1 + 0.2, and how many words are in notes/todo.txt?").unwrap();
    let calls: Vec<_> = outcome.calls.iter().map(|call| (call.name.as_str(), call.status)).collect();
    assert_eq!(calls, [("calculator", Status::Ok), ("text_statistics", Status::Ok)]);
    assert_eq!(outcome.answer, "0.3, and 7 words.");
}

#[test]
fn results_and_mistakes_reach_the_model_as_those_of_any_tool() {
    let (_dir, registry) = sample();
    let call = |name: &str, arguments: Value| registry.call_json(name, &arguments.to_string());
    let exact = call("calculator", json!({"expression": "0.1 + 0.2"}));
    assert_eq!((exact.status, exact.content.as_str()), (Status::Ok, "0.3"));
    assert_eq!((exact.enforced.process.as_str(), exact.enforced.fs.as_str()), ("component", "none"));
    let counted = call("text_statistics", json!({"path": "notes/todo.txt"}));
    assert!(counted.content.starts_with("lines: 2\nwords: 7\n"), "{}", counted.content);
    assert_eq!(counted.enforced.fs, "capability:read");
    for (name, arguments, status, says) in [
        ("calculator", json!({"expression": "1/0"}), Status::Failed, "division by zero"),
        ("calculator", json!({"expression": 1}), Status::Failed, "/expression"),
        ("calculator", json!({}), Status::Failed, "expression"),
        ("text_statistics", json!({"path": "../x"}), Status::Denied, "outside"),
        ("text_statistics", json!({"path": "none.txt"}), Status::Failed, "No such file"),
    ] {
        let result = call(name, arguments.clone());
        assert_eq!(result.status, status, "{name} {arguments}: {}", result.content);
        assert!(result.content.contains(says), "{name} {arguments}: {}", result.content);
    }
}

/// The program with a cache of its own.
fn toolgate(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let home = directory.parent().unwrap();
    let output = Command::cargo_bin("toolgate")
        .unwrap()
        .current_dir(directory)
        .env("HOME", home)
        .env("XDG_CACHE_HOME", home.join("cache"))
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn workspace() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path().join("ws");
    std::fs::create_dir(&workspace).unwrap();
    std::fs::write(workspace.join("a.txt"), "alpha beta\n").unwrap();
    (dir, workspace)
}

#[test]
fn the_sample_policy_offers_its_components() {
    let (_dir, workspace) = workspace();
    let policy = sandbox("policies/components.toml");
    let policy = policy.to_str().unwrap();
    let (code, listed, said) = toolgate(&workspace, &["tool", "list", "--policy", policy]);
    assert_eq!(code, 0, "{said}");
    for shown in ["calculator  Calculate", "expression", "text_statistics  Count", "read_file"] {
        assert!(listed.contains(shown), "{listed} {said}");
    }
    let call = ["tool", "call", "text_statistics", r#"{"path": "a.txt"}"#, "--policy", policy];
    let (code, result, said) = toolgate(&workspace, &call);
    assert_eq!(code, 0, "{said}");
    let result: Value = serde_json::from_str(&result).unwrap();
    assert!(result["content"].as_str().unwrap().contains("words: 2"), "{result}");
}

#[test]
fn a_component_that_cannot_be_used_is_left_out_alone_and_by_name() {
    let (dir, workspace) = workspace();
    let calculator = std::fs::read(sandbox("components/calculator.wasm")).unwrap();
    std::fs::write(dir.path().join("calculator.wasm"), calculator).unwrap();
    std::fs::write(dir.path().join("broken.wasm"), "no module").unwrap();
    let section = |name: &str, rest: &str| format!("[wasm.{name}]\n{rest}\n");
    let policy = [
        "version = 1\ntier = \"read\"\n[fs]\nread = [\"@workspace\"]\n".to_owned(),
        section("good", "component = \"calculator.wasm\""),
        section("missing", "component = \"none.wasm\""),
        section("broken", "component = \"broken.wasm\""),
        section("changed", "component = \"calculator.wasm\"\nsha256 = \"00\""),
        section("online", "component = \"calculator.wasm\"\nnet = [\"example.org:443\"]"),
        section("wide", "component = \"calculator.wasm\"\ndirs = [{ host = \"..\", guest = \"/\" }]"),
        section("read_file", "component = \"calculator.wasm\""),
    ];
    std::fs::write(dir.path().join("p.toml"), policy.concat()).unwrap();
    let (code, listed, said) = toolgate(&workspace, &["tool", "list", "--policy", "../p.toml"]);
    assert_eq!(code, 0, "{said}");
    assert!(listed.contains("good  Calculate") && listed.contains("read_file  Read"), "{listed}");
    for (name, why) in [
        ("missing", "no such module"),
        ("broken", "no WebAssembly module"),
        ("changed", "SHA-256"),
        ("online", "no network"),
        ("wide", "outside the workspace"),
        ("read_file", "two tools"),
    ] {
        let line = said.lines().find(|line| line.contains(&format!("{name} is not offered")));
        assert!(line.is_some_and(|line| line.contains(why)), "{name}: {said}");
    }
}

#[test]
fn a_driver_runs_programs_in_both_forms_and_outlives_them() {
    let (_dir, workspace) = workspace();
    let probe = sandbox("tests/guests/probe");
    let mut requests = String::new();
    for (ending, words, write) in [
        ("", vec!["read", "/work/a.txt"], false),
        (".p1.wasm", vec!["read", "/work/a.txt"], false),
        (".p2.wasm", vec!["write", "/work/b.txt", "new"], true),
        (".p1.wasm", vec!["write", "/work/.git/config", "new"], true),
        (".p2.wasm", vec!["read", "/work/../secret"], false),
        (".p1.wasm", vec!["spin"], false),
        (".none.wasm", vec![], false),
        ("", vec!["say", "still here"], false),
    ] {
        let dirs = [json!({"host": workspace, "guest": "/work", "write": write})];
        let module = format!("{}{ending}", probe.display());
        let params = json!({"module": module, "args": words, "stdin": "", "dirs": dirs});
        requests +=
            &format!("{}\n", json!({"id": requests.lines().count(), "tool": "wasm", "params": params}));
    }
    let output = Command::cargo_bin("toolgate")
        .unwrap()
        .args(["tool", "serve", "--protocol", "escapes", "--limits", r#"{"timeout_ms": 4000}"#])
        .env("ESC_WS", &workspace)
        .write_stdin(requests)
        .output()
        .unwrap();
    let replies: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let seen: Vec<_> = replies
        .iter()
        .map(|reply| (reply["ok"].as_bool().unwrap(), reply["error"]["kind"].as_str().unwrap_or("-")))
        .collect();
    let denied = (false, "denied");
    let expected =
        [(true, "-"), (true, "-"), (true, "-"), denied, denied, (false, "limit"), (false, "io"), (true, "-")];
    assert_eq!(seen, expected, "{replies:#?}");
    assert_eq!(replies[0]["model"], "alpha beta\nread: done\n");
    assert_eq!(std::fs::read_to_string(workspace.join("b.txt")).unwrap(), "new");
}
