//! Long prompts, as agents send them, with the program and a small model.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::models::weights;

fn toolgate(home: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("toolgate"));
    command.env("TOOLGATE_CACHE", home.join("cache")).env("TOOLGATE_STATE", home.join("state"));
    command.env_remove("TOOLGATE_MODEL").env_remove("TOOLGATE_API_KEY").env("NO_COLOR", "1");
    command.env("OMP_WAIT_POLICY", "PASSIVE");
    command
}

/// A server that runs as a process of its own; killed at the end, as by a power cut.
struct Serving {
    child: Child,
    /// What it said at its start.
    said: Vec<String>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    /// Starts it and reads what it says, up to the line on its contexts.
    fn start(home: &Path, model: &Path, context: &str) -> Self {
        let mut child = toolgate(home)
            .args(["serve", "--port", "0", "--context", context, "--model"])
            .arg(model)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = Vec::new();
        for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
            let is_last = line.contains("context: ");
            said.push(line);
            if is_last {
                break;
            }
        }
        Self { child, said }
    }
}

#[test]
fn a_run_names_the_context_that_takes_its_prompt() {
    let Some(model) = weights("smollm2-135m") else { return };
    let home = tempfile::tempdir().unwrap();
    let prompt = "lantern ".repeat(2_000);
    let arguments = ["run", "--no-cache", "--context", "512", "--model", model.to_str().unwrap(), &prompt];
    let output = toolgate(home.path()).args(arguments).current_dir(home.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(" tokens > 256 maximum (a context of 512 tokens"), "{said}");
    // 30 layers, 3 heads of 64 keys and 64 values, two bytes each, for each of two sequences.
    let (_, option) = said.split_once("--context ").unwrap();
    let tokens: usize = option.split_once(' ').unwrap().0.parse().unwrap();
    let mib = (tokens * 2 * 30 * 3 * 128 * 2).div_ceil(1 << 20);
    assert!(option.contains(&format!("(keys and values then take {mib} MiB)")), "{said}");
}

#[test]
fn a_server_says_at_its_start_what_its_conversations_hold() {
    let Some(model) = weights("smollm2-135m") else { return };
    let home = tempfile::tempdir().unwrap();
    let said = |context| Serving::start(home.path(), &model, context).said.pop().unwrap();
    let line = said("2048");
    assert!(line.contains("context: 2048 tokens a slot, 1 slot, 90 MiB of keys and values"), "{line}");
    assert!(line.contains("do not fit: the model was trained for 8192"), "{line}");
    let line = said("0");
    assert!(line.contains("context: 8192 tokens a slot"), "as many as it was trained for: {line}");
}
