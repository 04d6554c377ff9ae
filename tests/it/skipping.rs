//! What a skip does: it is printed and listed, and in CI it fails where the script provides what is missing.

use std::path::Path;
use std::process::{Command, Output};

use crate::skip;

/// Set in a test that another one has started.
const STARTED: &str = "TOOLGATE_TEST_SKIPS";

/// Skips in one of two ways, where another test has started it.
#[test]
fn a_test_that_skips() {
    match std::env::var(STARTED).as_deref() {
        Ok("optional") => skip::optional("set X to a corpus"),
        Ok("required") => assert!(skip::model("smollm2-135m").is_none()),
        _ => {}
    }
}

/// Starts that test, with `CI` set or without.
fn start(which: &str, ci: Option<&str>, list: &Path) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "skipping::a_test_that_skips", "--nocapture"]);
    command.env(STARTED, which).env("TOOLGATE_SKIPPED", list);
    for inherited in ["CI", "TOOLGATE_MODELS"] {
        command.env_remove(inherited);
    }
    command.envs(ci.map(|ci| ("CI", ci))).output().unwrap()
}

#[test]
fn a_skip_is_printed_with_what_to_do_and_added_to_the_list() {
    let place = tempfile::tempdir().unwrap();
    let list = place.path().join("skipped");
    let first = start("optional", Some("true"), &list);
    let second = start("required", None, &list);
    assert!(first.status.success() && second.status.success(), "{first:?} {second:?}");
    let test = "skipped: toolgate::it skipping::a_test_that_skips: ";
    let lines = [
        format!("{test}set X to a corpus\n"),
        format!("{test}set TOOLGATE_MODELS to a directory with smollm2-135m.gguf\n"),
    ];
    assert_eq!(std::fs::read_to_string(&list).unwrap(), lines.concat());
    for (output, line) in [first, second].iter().zip(lines) {
        assert!(String::from_utf8_lossy(&output.stderr).contains(&line), "{output:?}");
    }
}

#[test]
fn in_ci_a_skip_of_what_the_script_provides_is_a_failure() {
    let place = tempfile::tempdir().unwrap();
    let list = place.path().join("skipped");
    let output = start("required", Some("true"), &list);
    assert!(!output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("may not be skipped: set TOOLGATE_MODELS"), "{said}");
    assert!(!list.exists());
}
