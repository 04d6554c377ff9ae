//! What one server of a policy is granted beyond what all commands are: variables, and what lies outside of the workspace to
//! be read.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the controls are plain processes")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use support::CANARY;
use support::shell::{Field, POLICY, available, if_started, setup, start_as_ordinary_user, text};
use toolgate_sandbox::command::Commands;
use toolgate_sandbox::policy::{Mode, Policy};
use toolgate_sandbox::{Error, Kind, Root, ambient_authority};

/// The commands of a server with these keys; `$OUT` stands for the directory beside the workspace.
fn server(field: &Field, keys: &str) -> Result<Commands, Error> {
    let policy = format!("{POLICY}[mcp.it]\ncommand = [\"it\"]\n{}\n", field.script(keys));
    let policy = Policy::parse(&policy)?;
    let root = Root::open(&field.ws, ambient_authority()).unwrap();
    Commands::new(&root, &policy.for_server(&policy.mcp["it"]), Mode::Edit, &setup())
}

/// A directory to be granted, `$OUT/node`, with a link `$OUT/current` that leads to it.
fn interpreter(field: &Field) {
    fs::create_dir_all(field.out.join("node/bin")).unwrap();
    fs::write(field.out.join("node/bin/run"), "#!/bin/sh\necho it runs\n").unwrap();
    fs::set_permissions(field.out.join("node/bin/run"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink(field.out.join("node"), field.out.join("current")).unwrap();
}

#[test]
fn a_directory_outside_is_read_and_run_where_it_is_and_nothing_beside_it() {
    if !available() {
        return;
    }
    let field = Field::new();
    interpreter(&field);
    let attempt = field.script(
        "$OUT/node/bin/run; $OUT/current/bin/run; cat $OUT/secret.txt; echo x > $OUT/node/new; \
                                echo x >> $OUT/node/bin/run; rm $OUT/node/bin/run; ls $OUT",
    );
    let without = server(&field, "").unwrap().run(&attempt).unwrap();
    assert!(!text(&without).contains("it runs"), "{}", text(&without));
    let granted = server(&field, "read = [\"$OUT/current\"]").unwrap();
    let ran = granted.run(&attempt).unwrap();
    assert_eq!(text(&ran).matches("it runs").count(), 2, "{}", text(&ran));
    assert!(!text(&ran).contains(CANARY) && !text(&ran).contains("secret.txt\n"), "{}", text(&ran));
    assert!(!field.out.join("node/new").exists() && field.out.join("node/bin/run").exists());
    // A file by itself, too; and the control: unconfined, all of it works.
    let file = server(&field, "read = [\"$OUT/secret.txt\"]").unwrap();
    assert!(text(&file.run(&field.script("cat $OUT/secret.txt")).unwrap()).contains(CANARY));
    let plainly = field.plainly(&attempt);
    assert!(plainly.contains(CANARY) && !field.out.join("node/bin/run").exists(), "{plainly}");
}

#[test]
fn what_is_exchanged_after_it_was_granted_is_not_read() {
    if !available() {
        return;
    }
    let field = Field::new();
    interpreter(&field);
    let granted = server(&field, "read = [\"$OUT/node\"]").unwrap();
    fs::rename(field.out.join("node"), field.out.join("old")).unwrap();
    fs::create_dir(field.out.join("node")).unwrap();
    fs::copy(field.out.join("secret.txt"), field.out.join("node/secret.txt")).unwrap();
    let read = field.script("cat $OUT/node/secret.txt");
    // It is refused, or what was opened is still what is read.
    let said = granted.run(&read).map_or_else(|why| why.to_string(), |ran| text(&ran));
    assert!(!said.contains(CANARY), "{said}");
    let anew = server(&field, "read = [\"$OUT/node\"]").unwrap();
    assert!(text(&anew.run(&read).unwrap()).contains(CANARY), "the control");
}

#[test]
fn what_would_open_too_much_is_refused_with_the_reason() {
    if !available() {
        return;
    }
    let field = Field::new();
    symlink("/", field.out.join("all")).unwrap();
    fs::write(field.out.join("key.pem"), CANARY).unwrap();
    let home = std::env::home_dir().unwrap();
    for (path, why) in [
        ("/", "everybody"),
        ("$OUT/all", "everybody"),
        ("$OUT/all/etc", "/etc"),
        (home.to_str().unwrap(), "it"),
        ("/etc/shadow", "/etc"),
        ("$WS", "workspace"),
        ("$WS/ok.txt", "workspace"),
        ("$OUT/key.pem", "deny_read"),
        ("$OUT/nothing", "cannot be looked at"),
    ] {
        let error = server(&field, &format!("read = [\"{path}\"]")).unwrap_err();
        assert!(error.kind() == Kind::Denied && error.to_string().contains(why), "{path}: {error}");
    }
    for path in ["tools", "~/.nvm", "/opt/../etc"] {
        let error = server(&field, &format!("read = [\"{path}\"]")).unwrap_err();
        assert!(error.kind() == Kind::Policy && error.to_string().contains("[mcp.it]"), "{path}: {error}");
    }
    // What every command sees needs no grant, and takes none away.
    assert!(
        text(&server(&field, "read = [\"/usr/bin\"]").unwrap().run("echo fine").unwrap()).contains("fine")
    );
}

#[test]
fn variables_are_those_that_are_set_or_passed_and_are_never_printed() {
    if !available() {
        return;
    }
    let field = Field::new();
    // Cargo sets it for whatever it runs, and no test may change its own environment.
    assert!(std::env::var("CARGO_MANIFEST_DIR").is_ok());
    let granted =
        server(&field, "env = { KEY = \"s3cret 'x'\", LANG = \"C\" }\npass = [\"CARGO_MANIFEST_DIR\"]")
            .unwrap();
    let said = text(&granted.run("env; echo \"<$KEY>\"").unwrap());
    assert!(said.contains("KEY=s3cret 'x'\n") && said.contains("<s3cret 'x'>"), "{said}");
    assert!(said.contains("LANG=C\n") && said.contains("CARGO_MANIFEST_DIR=/"), "{said}");
    assert!(!format!("{granted:?}").contains("s3cret"));
    let without = text(&server(&field, "").unwrap().run("env").unwrap());
    assert!(!without.contains("KEY=") && !without.contains("CARGO_"), "{without}");
}

#[test]
fn an_ordinary_user_has_it_too() {
    if available() {
        start_as_ordinary_user("started_by_an_ordinary_user");
    }
}

#[test]
fn started_by_an_ordinary_user() {
    if_started(|| {
        let field = Field::new();
        interpreter(&field);
        let granted = server(&field, "read = [\"$OUT/current\"]").unwrap();
        let ran = granted.run(&field.script("$OUT/current/bin/run; cat $OUT/secret.txt")).unwrap();
        assert!(text(&ran).contains("it runs") && !text(&ran).contains(CANARY), "{}", text(&ran));
    });
}
