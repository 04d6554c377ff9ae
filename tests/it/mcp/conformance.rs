//! The official conformance suite of the protocol, with the library's server and with the program as a client. Needs
//! `TOOLGATE_CLIENTS`, a directory with the package `@modelcontextprotocol/conformance` in its `node_modules`, and Node 22 or later
//! (`scripts/test` sees to both).

use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;

use super::everything::Everything;
use super::{Field, http_server};
use crate::skip;

/// What a client is asked for, but for `auth/*`: signing in by OAuth is not done, a server's key comes from a variable.
const CLIENT: [&str; 4] = ["initialize", "tools_call", "sse-retry", "elicitation-sep1034-client-defaults"];

/// The suite's program, or none after a skip.
fn suite() -> Option<PathBuf> {
    let program = skip::client("node_modules/@modelcontextprotocol/conformance/dist/index.js")?;
    skip::program("node").then_some(program)
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(path)
}

/// Runs the suite: whether nothing failed but what is known to, and nothing of that passed; and what it said.
fn outcome(suite: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new("node")
        .arg(suite)
        .args(arguments)
        .arg("--expected-failures")
        .arg(here("conformance.yml"))
        .env("NO_PROXY", "*")
        .output()
        .expect("node cannot be started");
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    (output.status.success(), said.concat())
}

fn run(suite: &Path, arguments: &[&str]) {
    let (passed, said) = outcome(suite, arguments);
    assert!(passed, "{said}");
    eprintln!("{said}");
}

#[test]
fn the_suite_finds_what_it_expects_of_a_server() {
    let Some(suite) = suite() else { return };
    let everything = Everything::start();
    run(&suite, &["server", "--suite", "all", "--url", &everything.url]);
}

#[test]
fn the_suite_finds_what_a_server_lacks() {
    let Some(suite) = suite() else { return };
    // The program has tools, and none of those that the suite asks for.
    let field = Field::new();
    let (_running, url) = http_server(&field.ws, &[]);
    let (passed, said) = outcome(&suite, &["server", "--scenario", "tools-call-simple-text", "--url", &url]);
    assert!(!passed && said.contains("test_simple_text"), "{said}");
    let (passed, said) = outcome(&suite, &["server", "--scenario", "tools-list", "--url", &url]);
    assert!(passed, "{said}");
}

#[test]
fn the_suite_finds_what_it_expects_of_a_client() {
    let Some(suite) = suite() else { return };
    let quoted = |path: &Path| format!("'{}'", path.display());
    let (script, program) = (here("conformance_client.sh"), cargo_bin("toolgate"));
    let command = format!("sh {} {}", quoted(&script), quoted(&program));
    for scenario in CLIENT {
        run(&suite, &["client", "--scenario", scenario, "--command", &command]);
    }
}
