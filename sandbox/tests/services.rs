//! Commands that go on and are talked to: confined as others are, and gone with whoever talks to them.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the controls are plain processes")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};

use support::CANARY;
use support::lifeline::Lifeline;
use support::shell::{Field, POLICY, available, text};
use toolgate_sandbox::Kind;
use toolgate_sandbox::command::{End, Service};
use toolgate_sandbox::policy::{Mode, ProcessLimits};

fn shell(script: &str) -> [String; 3] {
    ["/bin/sh", "-c", script].map(str::to_owned)
}

fn start(field: &Field, mode: Mode, script: &str) -> Service {
    let commands = field.commands(POLICY, mode, &ProcessLimits::default(), &[]).unwrap();
    commands.serve(&shell(&field.script(script))).unwrap()
}

#[test]
fn a_service_is_talked_to_until_its_input_ends() {
    if !available() {
        return;
    }
    let field = Field::new();
    let mut service = start(
        &field,
        Mode::Intel,
        "echo 'it'\\''s \"$0\"'; echo aside >&2; while read -r l; do echo \"<$l>\"; done",
    );
    let (mut input, output) = service.take_pipes().unwrap();
    let mut lines = BufReader::new(output).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "it's \"$0\"");
    for word in ["one", "two"] {
        writeln!(input, "{word}").unwrap();
        assert_eq!(lines.next().unwrap(), format!("<{word}>"));
    }
    drop(input);
    assert_eq!(lines.next(), None);
    let ran = service.stop().unwrap();
    assert_eq!((ran.end, text(&ran).as_str()), (End::Exited(0), "aside\n"));
    assert_eq!(ran.enforced.net, "none");
}

#[test]
fn a_service_is_confined() {
    if !available() {
        return;
    }
    let field = Field::new();
    let attack = "cat $OUT/secret.txt ../out/secret.txt; echo x > planted; echo tried";
    assert!(field.plainly(attack).contains(CANARY));
    std::fs::remove_file(field.ws.join("planted")).unwrap();
    let mut service = start(&field, Mode::Intel, attack);
    let (_input, mut output) = service.take_pipes().unwrap();
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    let ran = service.stop().unwrap();
    assert_eq!(said, "tried\n", "{}", text(&ran));
    assert!(!text(&ran).contains(CANARY) && !field.ws.join("planted").exists());
}

#[test]
fn all_that_a_service_started_ends_with_it() {
    if !available() {
        return;
    }
    let field = Field::new();
    // It ignores the end of its input and what asks it to end, and so do its children.
    let stubborn = "exec 3>alive; trap '' TERM HUP INT; (echo child >&3; while :; do sleep 1; done) & echo up; while :; do sleep 1; done";
    let lifeline = Lifeline::at(&field.ws.join("alive"));
    let mut service = start(&field, Mode::Edit, stubborn);
    let (_input, output) = service.take_pipes().unwrap();
    assert_eq!(BufReader::new(output).lines().next().unwrap().unwrap(), "up");
    assert_eq!(lifeline.line(), "child");
    drop(service);
    lifeline.end();
}

#[test]
fn a_service_plants_nothing_and_what_others_make_meanwhile_is_theirs() {
    if !available() {
        return;
    }
    let field = Field::new();
    let script = "read -r l; mkdir .git .vscode; echo x > .git/config; echo x > .bashrc; mkdir d && mv d .idea; \
                  ln -s ok.txt .envrc; echo done; read -r l; echo evil > .git/config; rm -f .bashrc; echo x >> .bashrc; \
                  mv .vscode v; echo done; read -r l";
    let mut service = start(&field, Mode::Edit, script);
    let (mut input, output) = service.take_pipes().unwrap();
    let mut lines = BufReader::new(output).lines();
    input.write_all(b"go\n").unwrap();
    lines.next().unwrap().unwrap();
    for planted in [".git", ".vscode", ".bashrc", ".idea", ".envrc"] {
        assert!(
            std::fs::symlink_metadata(field.ws.join(planted)).is_err(),
            "{planted} is there while it runs"
        );
    }
    // The user goes on working meanwhile.
    std::fs::create_dir_all(field.ws.join(".git/hooks")).unwrap();
    std::fs::create_dir(field.ws.join(".vscode")).unwrap();
    std::fs::write(field.ws.join(".git/config"), "[core]\n").unwrap();
    std::fs::write(field.ws.join(".bashrc"), "mine\n").unwrap();
    input.write_all(b"go\n").unwrap();
    lines.next().unwrap().unwrap();
    drop((input, lines));
    let ran = service.stop().unwrap();
    assert_eq!(ran.taken_back, Vec::<String>::new(), "{}", text(&ran));
    for planted in [".git", ".vscode", ".bashrc", ".idea", ".envrc"] {
        assert!(ran.refused.contains(&planted.to_owned()), "{planted}: {:?}", ran.refused);
    }
    assert!(field.ws.join(".git/hooks").is_dir() && field.ws.join(".vscode").is_dir());
    assert_eq!(std::fs::read_to_string(field.ws.join(".git/config")).unwrap(), "[core]\n");
    let control = Field::new();
    control.plainly(&script.replace("read -r l;", ""));
    assert_eq!(std::fs::read_to_string(control.ws.join(".git/config")).unwrap(), "evil\n");
}

#[test]
fn a_command_that_is_none_is_refused() {
    if !available() {
        return;
    }
    let field = Field::new();
    let commands = field.commands(POLICY, Mode::Intel, &ProcessLimits::default(), &[]).unwrap();
    assert_eq!(commands.serve(&[]).unwrap_err().kind(), Kind::Invalid);
    assert_eq!(commands.serve(&["a\0b".to_owned()]).unwrap_err().kind(), Kind::Invalid);
    let ran = commands.serve(&["/no/such/program".to_owned()]).unwrap().stop().unwrap();
    assert_eq!(ran.end, End::Exited(127));
}
