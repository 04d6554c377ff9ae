//! The program in a workspace that it may write to, as `cargo run` has it: a command that replaces the program's file gains
//! nothing by it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

#[test]
fn what_replaces_the_program_never_runs() {
    if !crate::cli::commands_work() {
        return;
    }
    // Outside /tmp, which commands have one of their own of.
    let place = tempfile::Builder::new().prefix("toolgate-").tempdir_in("/var/tmp").unwrap();
    let base = std::fs::canonicalize(place.path()).unwrap();
    let ws = base.join("ws");
    std::fs::create_dir_all(ws.join("target")).unwrap();
    let program = ws.join("target/toolgate");
    std::fs::copy(assert_cmd::cargo::cargo_bin("toolgate"), &program).unwrap();
    let witness = base.join("witness");
    let evil = format!("#!/bin/sh\nid > {}\n", witness.display());
    std::fs::write(ws.join("evil"), &evil).unwrap();
    let mut served = Command::new(&program)
        .args(["tool", "serve", "--mode", "edit", "--approve", "auto", "--workspace"])
        .arg(&ws)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = served.stdin.take().unwrap();
    let mut lines = BufReader::new(served.stdout.take().unwrap()).lines();
    let mut run = |command: &str| -> Value {
        let request = json!({"id": 1, "tool": "run_command", "params": {"command": command}});
        writeln!(input, "{request}").unwrap();
        serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
    };
    let replaced =
        run("rm target/toolgate && cp evil target/toolgate && chmod +x target/toolgate && echo replaced");
    assert!(replaced["model"].as_str().unwrap().contains("replaced"), "{replaced}");
    let after = run("echo again");
    assert!(after["model"].as_str().unwrap().contains("again"), "{after}");
    assert_eq!(after["result"]["enforced"]["process"], "confined");
    assert!(!witness.exists(), "what lies at the program's path was started");
    drop(input);
    served.wait().unwrap();
    assert_eq!(std::fs::read_to_string(&program).unwrap(), evil, "it was replaced");
    assert!(control(&program, &witness), "the control: started by its path, it does what it says");
}

fn control(program: &Path, witness: &Path) -> bool {
    Command::new(program).status().unwrap();
    witness.exists()
}
