//! The program as a person or a script meets it: output, errors and exit codes.

use assert_cmd::Command;
use serde_json::Value;

use crate::skip;

fn toolgate() -> Command {
    let mut command = Command::cargo_bin("toolgate").unwrap();
    let empty = std::env::temp_dir().join("toolgate-tests-empty-cache");
    let state = std::env::temp_dir().join("toolgate-tests-state");
    command.env("TOOLGATE_STATE", state);
    command.env("TOOLGATE_CACHE", empty).env_remove("TOOLGATE_MODEL").env("NO_COLOR", "1");
    command
}

/// Runs it with `arguments` in `directory`; the exit code must be `code`, and stderr must say `says`.
fn check(directory: &std::path::Path, arguments: &[&str], code: i32, says: &str) -> String {
    let output = toolgate().current_dir(directory).args(arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    assert!(stderr.contains(says), "{arguments:?}: {stderr:?} lacks {says:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn workspace() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "alpha\n").unwrap();
    dir
}

#[test]
fn tool_call_prints_a_result_and_its_exit_code_tells_how_it_ended() {
    let dir = workspace();
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let ok = json(&check(dir.path(), &["tool", "call", "read_file", r#"{"path": "a.txt"}"#], 0, ""));
    assert_eq!((&ok["status"], &ok["content"]), (&Value::from("ok"), &Value::from("alpha\n")));
    let failed = json(&check(dir.path(), &["tool", "call", "read_file", r#"{"path": "b.txt"}"#], 1, ""));
    assert_eq!(failed["status"], "failed");
    let denied = json(&check(dir.path(), &["tool", "call", "read_file", r#"{"path": "../a"}"#], 3, ""));
    assert_eq!(denied["status"], "denied");
    let unknown = json(&check(dir.path(), &["tool", "call", "frobnicate", r#"{"command": "ls"}"#], 1, ""));
    assert!(unknown["content"].as_str().unwrap().contains("read_file"), "{unknown}");
}

#[test]
fn tool_list_follows_mode_and_policy() {
    let dir = workspace();
    let intel = check(dir.path(), &["tool", "list"], 0, "");
    assert!(intel.contains("read_file") && !intel.contains("write_file"), "{intel}");
    let edit = check(dir.path(), &["tool", "list", "--mode", "edit"], 0, "");
    assert!(edit.contains("write_file") && edit.contains("edit_file"), "{edit}");
    let json: Value = serde_json::from_str(&check(dir.path(), &["tool", "list", "--json"], 0, "")).unwrap();
    assert_eq!(json[0]["function"]["name"], "read_file");
    std::fs::write(
        dir.path().join("p.toml"),
        "version = 1\ntier = \"read\"\n[fs]\nread = [\"@workspace\"]\n",
    )
    .unwrap();
    let read = check(dir.path(), &["tool", "list", "--mode", "edit", "--policy", "p.toml"], 0, "");
    assert!(!read.contains("write_file") && !read.contains("run_command"), "{read}");
}

#[test]
fn policy_mistakes_name_file_line_and_key() {
    let dir = workspace();
    std::fs::write(dir.path().join("p.toml"), "version = 1\n[fs]\nraed = []\n").unwrap();
    check(dir.path(), &["tool", "list", "--policy", "p.toml"], 2, "p.toml: unknown key \"raed\" at line 3");
    check(dir.path(), &["tool", "list", "--policy", "q.toml"], 2, "cannot read q.toml");
}

#[test]
fn a_workspace_s_own_policy_only_narrows() {
    let dir = workspace();
    let own = "version = 1\ntier = \"edit\"\n[fs]\nread = [\"@workspace\"]\nwrite = [\"@workspace/notes\"]\n";
    std::fs::write(dir.path().join(".toolgate.toml"), own).unwrap();
    let intel = check(dir.path(), &["tool", "list"], 0, "");
    assert!(!intel.contains("write_file"), "its own file must not grant writing: {intel}");
    let outside = r#"{"path": "x.txt", "content": ""}"#;
    check(dir.path(), &["tool", "call", "write_file", outside, "--mode", "edit"], 3, "");
    std::fs::create_dir(dir.path().join("notes")).unwrap();
    let inside = r#"{"path": "notes/x.txt", "content": ""}"#;
    check(dir.path(), &["tool", "call", "write_file", inside, "--mode", "edit"], 0, "");
}

#[test]
fn bad_usage_is_exit_2_with_one_message() {
    let dir = workspace();
    check(dir.path(), &["run", "--temperature", "-1", "x"], 2, "temperature");
    check(dir.path(), &["run", "--max-iterations", "0", "x"], 2, "--max-iterations must be at least 1");
    check(dir.path(), &["run", "--tool-choice", "no such tool", "x"], 2, "tool");
    check(dir.path(), &["run", "--tools", "nothing", "x"], 2, "there are: read_file");
    check(dir.path(), &["run", "--tools-file", "missing.json", "x"], 2, "cannot read missing.json");
    check(dir.path(), &["run", "--approve", "ask", "x"], 2, "needs a terminal");
    check(dir.path(), &["run", "--workspace", "missing", "x"], 2, "no such workspace directory");
    check(dir.path(), &["tool", "call", "read_file", "{}", "--workspace", "a.txt"], 2, "not a directory");
    check(dir.path(), &["frobnicate"], 2, "unrecognized subcommand");
    check(dir.path(), &["run"], 2, "no task");
}

#[test]
fn a_model_that_is_missing_or_damaged_is_exit_4() {
    let dir = workspace();
    check(dir.path(), &["run", "--model", "smollm2-135m", "x"], 4, "toolgate model pull smollm2-135m");
    check(dir.path(), &["run", "--model", "missing.gguf", "x"], 4, "missing.gguf");
    std::fs::write(dir.path().join("not.gguf"), "this is no model").unwrap();
    check(dir.path(), &["run", "--model", "not.gguf", "x"], 4, "not.gguf");
    std::fs::write(dir.path().join("cut.gguf"), b"GGUF\x03\0\0\0\xff\0\0\0\0\0\0\0").unwrap();
    check(dir.path(), &["run", "--model", "cut.gguf", "x"], 4, "cut.gguf");
    check(dir.path(), &["run", "--model", "no-such-model", "x"], 2, "no-such-model");
}

#[test]
fn a_schema_that_cannot_be_compiled_is_exit_2_with_its_pointer() {
    let dir = workspace();
    let tools = r##"[{"type": "function", "function": {"name": "t", "description": "d", "parameters":
        {"type": "object", "properties": {"when": {"$ref": "#/nowhere"}}, "required": ["when"]}}}]"##;
    std::fs::write(dir.path().join("tools.json"), tools).unwrap();
    std::fs::write(dir.path().join("schema.json"), r##"{"properties": {"when": {"$ref": "#/nowhere"}}}"##)
        .unwrap();
    check(dir.path(), &["schema", "compile", "schema.json"], 2, "/properties/when");
    check(dir.path(), &["run", "--tools-file", "tools.json", "x"], 2, "");
}

#[cfg(unix)]
#[test]
fn an_unwritable_workspace_is_refused_in_edit_mode_only() {
    use std::os::unix::fs::PermissionsExt;
    let dir = workspace();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    // Root may write anywhere: then there is nothing to refuse.
    if std::fs::write(dir.path().join("probe"), "").is_ok() {
        return skip::optional("run the tests as a user who may not write everywhere");
    }
    check(dir.path(), &["tool", "list"], 0, "");
    check(dir.path(), &["tool", "list", "--mode", "edit"], 3, "cannot be written");
}

#[test]
fn help_of_every_subcommand_has_examples() {
    let dir = workspace();
    for subcommand in
        ["run", "model", "tool", "doctor", "schema", "grammar", "conformance", "eval", "bench", "completions"]
    {
        let help = check(dir.path(), &[subcommand, "--help"], 0, "");
        assert!(help.contains("Example"), "{subcommand}: {help}");
    }
    assert!(check(dir.path(), &["completions", "bash"], 0, "").contains("_toolgate"));
}

#[test]
fn a_question_over_a_checkout_that_is_wrong_is_refused_with_its_line() {
    let dir = workspace();
    let eval = ["eval", "--repository", ".", "questions.jsonl"];
    let right = r#"{"id": "a", "prompt": "What does a.txt say?", "any": ["alpha"]}"#;
    for (line, says) in [
        (
            r#"{"id": "b", "prompt": "What does a.txt say?"}"#,
            "questions.jsonl:2: nothing says which answer is right",
        ),
        (
            r#"{"id": "b", "prompt": "?", "any": ["x"], "some": []}"#,
            "questions.jsonl:2: unknown field `some`",
        ),
    ] {
        std::fs::write(dir.path().join("questions.jsonl"), format!("{right}\n{line}\n")).unwrap();
        check(dir.path(), &eval, 2, says);
    }
    check(dir.path(), &["eval", "--repository", "none", "questions.jsonl"], 2, "cannot read none");
}

/// Whether commands can run confined here, as `doctor` says; skips where they cannot.
pub(crate) fn commands_work() -> bool {
    let dir = workspace();
    let output = toolgate().current_dir(dir.path()).args(["doctor", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let layers = report["sandbox"]["layers"].as_array().unwrap();
    assert!(layers.iter().any(|layer| layer["layer"] == "landlock"), "{report}");
    for layer in layers.iter().filter(|layer| layer["works"] == false) {
        assert!(layer["found"].is_string() && layer["without"].is_string(), "{layer}");
    }
    let works = report["sandbox"]["commands"] == true;
    assert_eq!(output.status.code(), Some(if works { 0 } else { 3 }));
    if !works {
        skip::sandbox(&report["sandbox"].to_string());
    }
    works
}

#[test]
fn a_command_runs_confined_or_not_at_all() {
    let dir = workspace();
    let call = |mode: &str, command: &str| {
        let arguments = serde_json::json!({"command": command}).to_string();
        let output = toolgate()
            .current_dir(dir.path())
            .args(["tool", "call", "run_command", &arguments, "--mode", mode])
            .output()
            .unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    if !commands_work() {
        let list = check(dir.path(), &["tool", "list"], 0, "run_command is not offered");
        assert!(!list.contains("run_command"));
        return;
    }
    let read = call("intel", "cat a.txt; echo x > a.txt; touch b.txt; cat /etc/passwd | wc -l");
    assert!(read["content"].as_str().unwrap().starts_with("alpha\n"), "{read}");
    assert_eq!(std::fs::read_to_string(dir.path().join("a.txt")).unwrap(), "alpha\n");
    assert!(!dir.path().join("b.txt").exists());
    let edit = call("edit", "echo x > b.txt; exit 7");
    assert_eq!((&edit["status"], &edit["data"]["end"]["exited"]), (&Value::from("failed"), &Value::from(7)));
    assert!(dir.path().join("b.txt").exists());
    let layers = edit["enforced"]["layers"].as_array().unwrap();
    assert!(layers.iter().any(|layer| layer == "seccomp"), "{edit}");
}

/// A shell in a user namespace that allows no more of them.
#[cfg(target_os = "linux")]
fn without_user_namespaces(directory: &std::path::Path, arguments: &str) -> Option<std::process::Output> {
    let script = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && echo READY && exec {} {arguments}",
        env!("CARGO_BIN_EXE_toolgate")
    );
    let mut shell = Command::new("unshare");
    let output = shell.current_dir(directory).args(["-Ur", "sh", "-c", &script]).output().ok()?;
    output.stdout.starts_with(b"READY").then_some(output)
}

#[cfg(target_os = "linux")]
#[test]
fn without_user_namespaces_commands_are_refused_and_doctor_says_why() {
    let dir = workspace();
    if !commands_work() {
        return;
    }
    let doctor = without_user_namespaces(dir.path(), "doctor").expect("unshare works where commands do");
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert_eq!(doctor.status.code(), Some(3), "{said}");
    for says in ["run_command   refused", "userns      missing", "get it: allow user namespaces", "reduced "]
    {
        assert!(said.contains(says), "{said} lacks {says:?}");
    }
    let list = without_user_namespaces(dir.path(), "tool list").unwrap();
    assert!(!String::from_utf8(list.stdout).unwrap().contains("run_command"));
    let note = String::from_utf8(list.stderr).unwrap();
    assert!(
        note.contains("run_command is not offered") && note.contains("userns does not work here"),
        "{note}"
    );
}

#[test]
fn serve_answers_line_by_line() {
    let dir = workspace();
    let requests = concat!(
        r#"{"id": 1, "tool": "read_file", "params": {"path": "a.txt"}}"#,
        "\n",
        "not json\n",
        r#"{"id": 2, "tool": "write_file", "params": {"path": "../b.txt", "content": "x"}}"#,
        "\n"
    );
    let output = toolgate()
        .current_dir(dir.path())
        .args(["tool", "serve", "--protocol", "escapes", "--limits", r#"{"timeout_ms": 1000}"#])
        .env_remove("ESC_WS")
        .write_stdin(requests)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let replies: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(replies.len(), 3, "{text}");
    assert_eq!((&replies[0]["ok"], &replies[0]["model"]), (&Value::from(true), &Value::from("alpha\n")));
    assert_eq!(replies[1]["error"]["kind"], "invalid");
    assert_eq!((&replies[2]["id"], &replies[2]["error"]["kind"]), (&Value::from(2), &Value::from("denied")));
}

#[test]
fn parse_prints_what_it_found() {
    let parse = |text: &str| -> Value {
        let output = toolgate().args(["parse", "-"]).write_stdin(text).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let found = parse("On it.\n<tool_call>{'tool': 'now', 'parameters': {}, 'id': 'c1'}</tool_call>");
    assert_eq!(found["content"], "On it.");
    assert_eq!(found["calls"], serde_json::json!([{"id": "c1", "name": "now", "arguments": {}}]));
    assert_eq!(found["pattern"], "tag");
    assert_eq!(found["repairs"][0]["kind"], "single_quotes");
    assert_eq!(found["dropped"], serde_json::json!([]));
    let nothing = parse(" just text\n");
    assert_eq!((&nothing["content"], &nothing["pattern"]), (&Value::from(" just text\n"), &Value::Null));
}

#[test]
fn bench_names_the_model_or_the_line_that_it_cannot_use() {
    let dir = workspace();
    check(dir.path(), &["bench", "mask", "--model", "no-such-model"], 2, "no-such-model");
    check(dir.path(), &["bench", "mask", "--model", "smollm2-135m"], 4, "toolgate model pull smollm2-135m");
    check(dir.path(), &["bench", "mask", "--model", "missing.gguf"], 4, "missing.gguf");
    std::fs::write(dir.path().join("not.gguf"), "this is no model").unwrap();
    check(dir.path(), &["bench", "mask", "--model", "not.gguf"], 4, "not a GGUF file");
    check(dir.path(), &["bench", "mask", "--tools", "1,0"], 2, "at least 1");
    check(dir.path(), &["bench", "mask", "--limit", "3"], 2, "--schemas");
    check(dir.path(), &["bench", "mask", "--schemas", "missing.jsonl"], 2, "missing.jsonl");
}

#[test]
fn bench_measures_masks_with_a_vocabulary_alone() {
    let dir = workspace();
    let row = r#"{"id": "a", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, "valid_instances": [{"n": 17}]}"#;
    std::fs::write(dir.path().join("schemas.jsonl"), format!("{row}\n{{\"id\": 1}}\n")).unwrap();
    let files = crate::vocabularies::files();
    for path in files.iter().filter(|path| {
        ["smollm2-135m", "ggml-vocab-llama-spm"].contains(&path.file_stem().unwrap().to_str().unwrap())
    }) {
        let model = path.to_str().unwrap();
        let common = ["bench", "mask", "--model", model, "--tools", "1,5", "--rounds", "1", "--json"];
        let arguments =
            [&common[..], &["--peer-masks", "4", "--schemas", "schemas.jsonl", "--limit", "1"]].concat();
        let report: Value = serde_json::from_str(&check(dir.path(), &arguments, 0, "")).unwrap();
        let workloads = report["workloads"].as_array().unwrap();
        let names: Vec<&str> = workloads.iter().map(|workload| workload["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["1 tool", "5 tools", "generic JSON", "1 schema"]);
        for workload in workloads {
            let masks = workload["tokens"].as_u64().unwrap() + workload["texts"].as_u64().unwrap();
            assert_eq!(
                (&workload["refused"], &workload["rejected"]),
                (&Value::from(0), &Value::from(0)),
                "{workload}"
            );
            for (times, n) in [
                (&workload["toolgate"]["first_visit_us"], masks),
                (&workload["toolgate"]["steady_us"], masks),
                (&workload["llama_cpp"]["mask_us"], masks.min(4)),
            ] {
                let at = |figure: &str| times[figure].as_f64().unwrap();
                assert_eq!(times["n"], n, "{workload}");
                assert!(0.0 < at("p50") && at("p50") <= at("p99") && at("p99") <= at("max"), "{workload}");
            }
            assert_eq!(
                (&workload["llama_cpp"]["refused"], &workload["llama_cpp"]["rejected"]),
                (&Value::from(0), &Value::from(0))
            );
        }
        // The second row is read only when it is wanted, and then it is named.
        let arguments = [&common[..], &["--schemas", "schemas.jsonl"]].concat();
        check(dir.path(), &arguments, 2, "schemas.jsonl:2: field \"schema\" is not there");
    }
}

#[test]
fn undo_takes_back_calls_newest_first_and_names_what_it_leaves() {
    let (dir, state) = (workspace(), tempfile::tempdir().unwrap());
    let run = |arguments: &[&str], code: i32| {
        let mut command = toolgate();
        command.current_dir(dir.path()).env("TOOLGATE_STATE", state.path()).args(arguments);
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap() + &stderr
    };
    let write = |path: &str, content: &str| {
        let arguments = serde_json::json!({"path": path, "content": content}).to_string();
        run(&["tool", "call", "write_file", &arguments, "--mode", "edit"], 0);
    };
    let read = |path: &str| std::fs::read_to_string(dir.path().join(path)).ok();
    assert!(run(&["undo"], 0).contains("nothing to take back"));
    write("a.txt", "beta\n");
    write("new/b.txt", "b\n");
    let listed: Value = serde_json::from_str(&run(&["undo", "--list", "--json"], 0)).unwrap();
    assert_eq!(listed[0]["files"], serde_json::json!(["new/b.txt"]));
    assert!(run(&["undo"], 0).contains("put back \"new/b.txt\""));
    assert!(!dir.path().join("new").exists());
    std::fs::write(dir.path().join("a.txt"), "gamma\n").unwrap();
    let left = run(&["undo"], 1);
    assert!(
        left.contains("left \"a.txt\" alone: it was changed since") && left.contains("--save-to DIR"),
        "{left}"
    );
    assert_eq!(read("a.txt").as_deref(), Some("gamma\n"));
    assert!(run(&["undo", "--save-to", "before"], 0).contains("saved \"a.txt\""));
    assert_eq!(read("before/a.txt").as_deref(), Some("alpha\n"));
    assert!(run(&["undo", "--save-to", "before"], 2).contains("already"));
    run(&["undo", "--save-to", "x", "--forget"], 2);
    std::fs::write(dir.path().join("a.txt"), "beta\n").unwrap();
    run(&["undo"], 0);
    assert_eq!(read("a.txt").as_deref(), Some("alpha\n"));
    assert_eq!(run(&["undo", "--list"], 0), "");
    run(&["undo", "--run", "99"], 2);
    run(&["undo", "--forget", "--run", "9223372036854775807"], 2);
    write("a.txt", "delta\n");
    assert!(run(&["undo", "--forget"], 0).starts_with("1 run forgotten, "));
    assert!(run(&["undo"], 0).contains("nothing to take back"));
    assert_eq!(read("a.txt").as_deref(), Some("delta\n"));
    // A journal in the workspace could be written by the tools: there is none then.
    let inside = toolgate()
        .current_dir(dir.path())
        .env("TOOLGATE_STATE", dir.path().join("state"))
        .args(["tool", "call", "write_file", r#"{"path": "c", "content": ""}"#, "--mode", "edit"])
        .output()
        .unwrap();
    assert!(String::from_utf8(inside.stderr).unwrap().contains("cannot be undone"));
    assert!(!dir.path().join("state/undo.db").exists());
}

#[test]
#[cfg(unix)]
fn the_list_of_runs_shows_hostile_names_and_tasks_on_their_own_lines() {
    use std::sync::Arc;
    use toolgate::undo::{Bounds, Journal};
    use toolgate_sandbox::{Grants, Root, ambient_authority};
    let (dir, state) = (workspace(), tempfile::tempdir().unwrap());
    let root = Root::open(dir.path(), ambient_authority()).unwrap();
    let bounds = Bounds::default().runs(1);
    let journal = Arc::new(Journal::open(&state.path().join("undo.db"), bounds).unwrap());
    for task in ["goes", "evil\x1b[2J\n99  forged\r\u{202e}"] {
        journal.begin(task);
        journal.note(&root, "run_command: \x1b]0;title\x07\n98  forged").unwrap();
        for name in ["a\nb", "a\r\nb", "97  forged\x1b[31m"] {
            journal.keep(&root).write_file(&Grants::read_write(), name, task).unwrap();
        }
    }
    let show = |arguments: &[&str]| {
        let mut command = toolgate();
        command.current_dir(dir.path()).env("TOOLGATE_STATE", state.path()).args(arguments);
        let output = command.output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (list, notes) = show(&["undo", "--list"]);
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines[1..4], ["    a\\u{a}b", "    a\\u{d}\\u{a}b", "    97  forged\\u{1b}[31m"], "{list}");
    assert!(lines.len() == 5 && lines.iter().filter(|line| !line.starts_with("    ")).count() == 1, "{list}");
    assert!(!list.contains(|c: char| c.is_control() && c != '\n') && !list.contains('\u{202e}'), "{list:?}");
    assert!(notes.contains("older runs were forgotten to make room: 1"), "{notes}");
    let (json, _) = show(&["undo", "--list", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["files"][1], "a\r\nb");
    let (undone, _) = show(&["undo"]);
    assert!(!undone.contains(|c: char| c.is_control() && c != '\n'), "{undone:?}");
    assert_eq!(undone.lines().count(), 5, "{undone}");
}

#[test]
#[cfg(unix)]
fn another_directory_at_the_path_of_runs_is_said_to_be_one() {
    let (above, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = above.path().join("w");
    let run = |arguments: &[&str]| {
        let mut command = toolgate();
        command.current_dir(&path).env("TOOLGATE_STATE", state.path()).args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    std::fs::create_dir(&path).unwrap();
    run(&["tool", "call", "write_file", r#"{"path": "a", "content": "x"}"#, "--mode", "edit"]);
    assert!(!run(&["undo", "--list"]).contains("another directory"));
    std::fs::rename(&path, above.path().join("moved")).unwrap();
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("a"), "x").unwrap();
    for arguments in [&["undo"][..], &["undo", "--list"]] {
        let said = run(arguments);
        assert!(said.contains("another directory was at this path before") && said.contains("(1)"), "{said}");
    }
    assert!(path.join("a").exists());
    assert!(run(&["undo", "--workspace", "../moved"]).contains("put back \"a\""));
}

#[test]
#[cfg(unix)]
fn what_is_kept_for_a_person_is_kept_from_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let (dir, state) = (workspace(), tempfile::tempdir().unwrap());
    let chmod = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let run = |arguments: &[&str]| {
        let mut command = toolgate();
        command.current_dir(dir.path()).env("TOOLGATE_STATE", state.path()).args(arguments);
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let write = ["tool", "call", "write_file", r#"{"path": "a.txt", "content": "x"}"#, "--mode", "edit"];
    for others in [0o777, 0o775, 0o757] {
        chmod(state.path(), others);
        let (done, why) = run(&write);
        assert!(
            !done && why.contains("other users can write in it") && why.contains("TOOLGATE_STATE"),
            "{why}"
        );
        assert!(std::fs::read_dir(state.path()).unwrap().next().is_none());
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("a.txt")).unwrap(), "alpha\n");
    // Control: others may look into the directory, but not into what is kept there.
    chmod(state.path(), 0o755);
    let (done, why) = run(&write);
    assert!(done, "{why}");
    assert_eq!(mode(&state.path().join("undo.db")), 0o600);
    // The memory too, where it lies there; elsewhere a file that is there is as its owner made it.
    let (kept, shared) = (state.path().join("memory.db"), dir.path().join("memory.db"));
    for file in [&kept, &shared] {
        let list = ["tool", "list", "--db", file.to_str().unwrap()];
        assert!(run(&list).0);
        assert_eq!(mode(file), 0o600, "made for its owner alone");
        chmod(file, 0o644);
        assert!(run(&list).0);
    }
    assert_eq!((mode(&kept), mode(&shared)), (0o600, 0o644));
}
