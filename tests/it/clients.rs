//! The program behind the official clients of the APIs it speaks, with weights. Needs `TOOLGATE_MODELS` and
//! `TOOLGATE_CLIENTS`, a directory with the Python packages `openai`, `openai-agents`, `anthropic` and `mcp`, and Node's `ai`,
//! `@ai-sdk/openai`, `openai` and `zod` in its `node_modules` (`scripts/test` sets both).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;

use crate::skip;

const MODEL: &str = "smollm2-135m";

/// The program, serving; ended with the test.
struct Program {
    child: Child,
    address: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve() -> Option<Program> {
    let path = crate::models::weights(MODEL)?;
    let mut command = Command::new(cargo_bin("toolgate"));
    command.args(["serve", "--port", "0", "--context", "4096", "--model"]).arg(path);
    command.env("NO_COLOR", "1").env_remove("TOOLGATE_API_KEY").env_remove("TOOLGATE_LOG");
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = loop {
        let line = lines.next().expect("the program ended before it served").unwrap();
        if let Some((_, rest)) = line.split_once("http://") {
            break rest.split('/').next().unwrap().to_owned();
        }
    };
    // What it logs from here on must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    Some(Program { child, address })
}

/// Has a script drive the server with a package.
fn drive(package: &str, script: &str) {
    if skip::client(package).is_none() {
        return;
    }
    let Some(program) = serve() else { return };
    run(script, &[format!("http://{}", program.address).as_ref(), MODEL.as_ref()]);
}

/// Runs a script with the packages of `TOOLGATE_CLIENTS`.
fn run(script: &str, arguments: &[&std::ffi::OsStr]) {
    let (program, path, folder) = match script.ends_with(".py") {
        true => ("python3", "PYTHONPATH", ""),
        false => ("node", "NODE_PATH", "node_modules"),
    };
    let Some(packages) = skip::client(folder) else { return };
    if !skip::program(program) {
        return;
    }
    let output = Command::new(program)
        .arg(concat_path(script))
        .args(arguments)
        .env(path, packages)
        .env_remove("TOOLGATE_API_KEY")
        .env("NO_PROXY", "*")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

fn concat_path(script: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script)
}

#[test]
fn the_openai_package_finds_what_it_expects() {
    drive("openai", "openai_client.py");
}

#[test]
fn the_openai_package_finds_what_it_expects_of_responses() {
    drive("openai", "responses_client.py");
}

#[test]
fn the_agents_package_runs_its_agents() {
    drive("agents", "agents_client.py");
}

#[test]
fn the_packages_of_node_find_what_they_expect_of_responses() {
    drive("node_modules/@ai-sdk/openai", "responses_client.cjs");
}

#[test]
fn the_anthropic_package_finds_what_it_expects() {
    drive("anthropic", "anthropic_client.py");
}

#[cfg(feature = "mcp")]
#[test]
fn the_mcp_package_finds_what_it_expects() {
    if skip::client("mcp").is_none() {
        return;
    }
    let Some(model) = crate::models::weights(MODEL) else { return };
    let editor = crate::mcp::editor();
    let program = cargo_bin("toolgate");
    run("mcp_client.py", &[program.as_os_str(), model.as_os_str(), editor.url.as_ref()]);
}

#[cfg(unix)]
#[test]
fn sigterm_lets_the_turn_being_made_finish() {
    let Some(mut program) = serve() else { return };
    let body = format!(
        "{{\"model\": \"{MODEL}\", \"stream\": true, \"max_tokens\": 200, \"tool_choice\": \"none\", \
         \"messages\": [{{\"role\": \"user\", \"content\": \"Tell me a long story about a ship.\"}}]}}"
    );
    let mut stream = TcpStream::connect(&program.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut reader = BufReader::new(stream);
    let mut text = String::new();
    while !text.contains("\"content\":\"\"") {
        assert_ne!(reader.read_line(&mut text).unwrap(), 0, "{text}");
    }
    let pid = i32::try_from(program.child.id()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("\"finish_reason\":\"") && rest.contains("data: [DONE]"), "{rest}");
    let start = Instant::now();
    let status = loop {
        if let Some(status) = program.child.try_wait().unwrap() {
            break status;
        }
        // Asked again and again: the standard library waits for the end of a process without a limit only.
        assert!(start.elapsed() < Duration::from_secs(60), "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{status}");
}
