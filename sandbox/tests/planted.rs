//! Protected names: that none comes to be, and that the second wall behind that, what is taken back after a command, looks at
//! everything. Each attack with the broker and without it, as the user who runs the test and as an ordinary one.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the controls are plain processes")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use support::CANARY;
use support::shell::{Field, POLICY, available, if_started, start_as_ordinary_user, text};
use toolgate_sandbox::command::{End, Layer};
use toolgate_sandbox::policy::{Mode, Policy, ProcessLimits};
use toolgate_sandbox::{Grants, Kind, Patterns, ReadOptions, Root, ambient_authority};

/// Runs `body` as this user, and has the test `started` run it as an ordinary one.
fn as_both(started: &str, body: fn()) {
    if available() {
        body();
        start_as_ordinary_user(started);
    }
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// A command, and the protected names that it plants in a plain shell.
const PLANTS: &[(&str, &[&str])] = &[
    (
        "d=.; for i in $(seq 105); do d=$d/d; done; mkdir -p $d .git/hooks; echo evil > .git/hooks/pre-commit",
        &[".git"],
    ),
    ("for i in $(seq 0 1100); do : > .bashrc.blocked-$i; done; echo evil > .bashrc", &[".bashrc"]),
    (
        "perl -e 'for (\".BASHRC\" . \".\" x 248, \".bashrc\") { open F, \">\", $_ or warn; close F }'; mkdir .git; true",
        &[".bashrc", ".git"],
    ),
    ("echo evil > .envrc; mkdir -p .env.d/.git", &[".envrc", ".env.d/.git"]),
    ("d=.git; for i in $(seq 200); do d=$d/.git; done; mkdir -p $d; touch $d/.bashrc", &[".git"]),
    ("mkdir a; echo evil > a/fish; mkdir -p b/x; mv a b/fish; mv b .config", &[".config/fish"]),
    ("mkdir -p x objects refs; mv objects refs x; echo 'ref: refs/heads/m' > x/HEAD", &["x/HEAD"]),
    (
        "mkdir -p y z/objects z/refs; echo ../z > y/commondir; echo evil > z/config; echo 'ref: refs/heads/m' > y/HEAD",
        &["y/HEAD"],
    ),
    (
        "mkfifo .bashrc; mkdir w; ln -s ../w w/.vscode; ln ok.txt .profile",
        &[".bashrc", "w/.vscode", ".profile"],
    ),
    (
        "touch u; perl -e 'rename \"u\", \".zshrc\"; link \"ok.txt\", \".ZSHENV\"; symlink \"a\", \".husky\"'",
        &[".zshrc", ".ZSHENV", ".husky"],
    ),
];

#[test]
fn nothing_protected_is_left() {
    as_both("started_nothing_protected_is_left", plants);
}

#[test]
fn started_nothing_protected_is_left() {
    if_started(plants);
}

fn plants() {
    for (attack, planted) in PLANTS {
        for without in [&[][..], &[Layer::Broker]] {
            let field = Field::new();
            let ran = field.run_without(&format!("{attack}; echo tried"), &ProcessLimits::default(), without);
            assert!(text(&ran).contains("tried"), "{attack}: {}", text(&ran));
            for name in *planted {
                assert!(!is_there(&field.ws.join(name)), "{attack}: {name} is there: {ran:?}");
                let told = if without.is_empty() { &ran.refused } else { &ran.taken_back };
                let told = told.iter().any(|told| name.starts_with(told.as_str()) || told.starts_with(name));
                assert!(told || name.starts_with(".config"), "{attack}: {name} is not told: {ran:?}");
            }
            assert!(ran.left.is_empty() && (!without.is_empty() || ran.taken_back.is_empty()), "{ran:?}");
            assert_eq!(field.run("cat ok.txt").output, b"fine\n", "and work goes on");
        }
        let control = Field::new();
        control.plainly(attack);
        for name in *planted {
            assert!(is_there(&control.ws.join(name)), "{attack}: the control plants {name}");
        }
    }
}

#[test]
fn nothing_protected_is_left_by_the_reduced_tier() {
    if available() {
        start_as_ordinary_user("started_reduced_plants");
    }
}

#[test]
fn started_reduced_plants() {
    if_started(|| {
        for (attack, planted) in PLANTS {
            for without in [&[][..], &[Layer::Broker]] {
                let field = Field::new();
                let root = Root::open(&field.ws, ambient_authority()).unwrap();
                let policy =
                    Policy::parse(&format!("{POLICY}[require]\nconfinement = \"reduced\"\n")).unwrap();
                let none = support::shell::setup()
                    .bubblewrap(Some("/nonexistent/bwrap".into()))
                    .without(without.to_vec());
                let commands =
                    toolgate_sandbox::command::Commands::new(&root, &policy, Mode::Edit, &none).unwrap();
                let ran = commands.run(&format!("{attack}; echo tried")).unwrap();
                assert!(text(&ran).contains("tried"), "{attack}: {}", text(&ran));
                assert_eq!(ran.enforced.layers.contains(&"broker".to_owned()), without.is_empty(), "{ran:?}");
                for name in *planted {
                    assert!(!is_there(&field.ws.join(name)), "{attack}: {name} is there: {ran:?}");
                }
                assert!(ran.left.is_empty() && (!without.is_empty() || ran.taken_back.is_empty()), "{ran:?}");
            }
        }
    });
}

#[test]
fn what_could_not_be_taken_back_closes_the_workspace() {
    as_both("started_closing", closing);
}

#[test]
fn started_closing() {
    if_started(closing);
}

fn closing() {
    let field = Field::new();
    // Every name is protected, so that there is none to put it aside under.
    let policy = POLICY.replace("[fs]", "[fs]\nprotect = [\"new*\", \"blocked-*\"]");
    let commands = field.commands(&policy, Mode::Edit, &ProcessLimits::default(), &[Layer::Broker]).unwrap();
    let ran = commands.run("echo x > new; echo done").unwrap();
    assert_eq!((text(&ran).as_str(), ran.left.as_slice()), ("done\n", &["new".to_owned()][..]), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.content()).contains("the workspace is closed"));
    let refused = commands.run("echo again").unwrap_err();
    assert!(refused.kind() == Kind::Denied && refused.to_string().contains("\"new\""), "{refused}");
    fs::remove_file(field.ws.join("new")).unwrap();
    assert_eq!(commands.run("echo again").unwrap().output, b"again\n", "a person has acted");

    // Kept for later runs, and for file tools.
    let state = tempfile::tempdir_in("/var/tmp").unwrap();
    let open = || Root::open(&field.ws, ambient_authority()).unwrap().remembering(state.path()).unwrap();
    let setup = support::shell::setup().without(vec![Layer::Broker]);
    let commands = toolgate_sandbox::command::Commands::new(
        &open(),
        &Policy::parse(&policy).unwrap(),
        Mode::Edit,
        &setup,
    )
    .unwrap();
    commands.run("mkdir new").unwrap();
    let later = open();
    let read = || later.read_file(&Grants::read_only(), "ok.txt", &ReadOptions::default());
    assert_eq!(read().unwrap_err().kind(), Kind::Denied);
    assert_eq!(later.write_file(&Grants::read_write(), "a.txt", "").unwrap_err().kind(), Kind::Denied);
    fs::remove_dir(field.ws.join("new")).unwrap();
    assert!(read().is_ok() && open().check_open().is_ok());
    assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0, "the record goes with its reason");
}

#[test]
fn a_link_is_what_it_was() {
    as_both("started_a_link_is_what_it_was", links);
}

#[test]
fn started_a_link_is_what_it_was() {
    if_started(links);
}

fn links() {
    for without in [&[][..], &[Layer::Broker]] {
        let field = Field::new();
        fs::create_dir_all(field.ws.join("dot")).unwrap();
        fs::write(field.ws.join("dot/bashrc"), "mine\n").unwrap();
        symlink("dot/bashrc", field.ws.join(".bashrc")).unwrap();
        symlink("gone/profile", field.ws.join(".profile")).unwrap();
        let number = fs::symlink_metadata(field.ws.join(".bashrc")).unwrap().ino();
        // A file that gets the link's own number.
        let attack = format!(
            "rm .bashrc; for i in $(seq 50); do echo evil > t$i; \
             if [ $(stat -c %i t$i) = {number} ]; then mv t$i .bashrc; break; fi; done; \
             echo evil > .bashrc; echo evil > dot/bashrc; mv dot d; mkdir dot; echo evil > dot/bashrc; \
             mkdir -p gone; echo evil > gone/profile; echo evil > .profile; echo tried"
        );
        let ran = field.run_without(&attack, &ProcessLimits::default(), without);
        assert!(text(&ran).contains("tried"), "{}", text(&ran));
        assert!(ran.left.is_empty(), "{ran:?}");
        assert_eq!(fs::read_link(field.ws.join(".bashrc")).unwrap(), Path::new("dot/bashrc"), "{ran:?}");
        assert!(!is_there(&field.ws.join("gone/profile")), "{ran:?}");
        let content = |path: &str| fs::read_to_string(field.ws.join(path)).unwrap_or_default();
        assert_eq!(content("d/bashrc") + &content("dot/bashrc"), "mine\n", "{ran:?}");
    }
    let control = Field::new();
    symlink("ok.txt", control.ws.join(".bashrc")).unwrap();
    control.plainly("rm .bashrc; echo evil > .bashrc");
    assert!(fs::symlink_metadata(control.ws.join(".bashrc")).unwrap().is_file());
}

#[test]
fn a_link_s_own_name_counts() {
    as_both("started_a_link_s_own_name_counts", names_of_links);
}

#[test]
fn started_a_link_s_own_name_counts() {
    if_started(names_of_links);
}

fn names_of_links() {
    let field = Field::new();
    for dir in ["dot", "shared", ".git", "my-hooks"] {
        fs::create_dir(field.ws.join(dir)).unwrap();
    }
    fs::write(field.ws.join("dot/bashrc"), "mine\n").unwrap();
    fs::write(field.ws.join("shared/real_env"), CANARY).unwrap();
    for (link, target) in [
        (".bashrc", "dot/bashrc"),
        (".vscode", "shared"),
        (".env", "shared/real_env"),
        (".git/hooks", "../my-hooks"),
        ("harmless", "shared"),
    ] {
        symlink(target, field.ws.join(link)).unwrap();
    }
    let root = Root::open(&field.ws, ambient_authority()).unwrap();
    let grants = Grants::read_write();
    for path in [".bashrc", ".vscode/tasks.json", ".git/hooks/pre-commit"] {
        assert_eq!(root.write_file(&grants, path, "evil\n").unwrap_err().kind(), Kind::Denied, "{path}");
    }
    let edited = root.edit_file(&grants, ".bashrc", "mine", "evil");
    assert_eq!(edited.unwrap_err().kind(), Kind::Denied);
    let read = |path: &str| root.read_file(&grants, path, &ReadOptions::default());
    assert_eq!(read(".env").unwrap_err().kind(), Kind::Denied);
    assert!(read(".bashrc").is_ok(), "what is protected can be read");
    assert!(root.write_file(&grants, "harmless/new.txt", "fine\n").is_ok(), "a link of another name");
    let open = Grants { deny_read: Patterns::none(), ..Grants::read_only() };
    assert!(root.read_file(&open, ".env", &ReadOptions::default()).is_ok(), "the control");

    let attack = "cat .env shared/real_env; echo evil > .bashrc; echo evil > .vscode/tasks.json; \
                  echo evil > shared/tasks.json; echo evil > my-hooks/pre-commit; echo tried";
    let ran = field.run(attack);
    assert!(text(&ran).contains("tried") && !text(&ran).contains(CANARY), "{}", text(&ran));
    assert_eq!(fs::read_to_string(field.ws.join("dot/bashrc")).unwrap(), "mine\n");
    for planted in ["shared/tasks.json", "my-hooks/pre-commit"] {
        assert!(!is_there(&field.ws.join(planted)), "{planted}");
    }
    let said = field.plainly(attack);
    assert!(said.contains(CANARY) && is_there(&field.ws.join("my-hooks/pre-commit")), "the control: {said}");
}

#[test]
fn ordinary_work_with_files_goes_on_under_the_broker() {
    as_both("started_work_with_files", work);
}

#[test]
fn started_work_with_files() {
    if_started(work);
}

fn work() {
    let field = Field::new();
    for (command, says) in [
        ("echo a > f; echo b >> f; cat f", "a\nb\n"),
        ("umask 027; touch g; mkdir h; stat -c %a g h", "640\n750\n"),
        ("echo x > /dev/null && echo y > /dev/stdout; echo z > /proc/self/fd/1", "y\nz\n"),
        ("mkfifo p; (echo through > p &); cat p", "through\n"),
        ("cd h && touch ../i ./j && cd .. && ls h i", "i\n\nh:\nj\n"),
        ("ln f l; ln -s f s; echo c >> s; stat -c %h f; cat l", "2\na\nb\nc\n"),
        ("mv h k && mv k/j k/m && ls k", "m\n"),
        ("cp /bin/true t && ./t && echo ran", "ran\n"),
        ("set -C; echo q > f || echo exists", "exists\n"),
        ("truncate -s 1 f; stat -c %s f", "1\n"),
        ("perl -e 'use Fcntl; sysopen F, \"f\", O_RDWR|O_CREAT|O_EXCL or print $!+0'", "17"),
        ("touch f/ 2>/dev/null || echo no; touch nowhere/x 2>/dev/null || echo none", "no\nnone\n"),
        ("ln -s loop loop; touch loop 2>/dev/null || echo loops; rm loop", "loops\n"),
        ("git init -q r 2>/dev/null || echo refused; ls r", "refused\n"),
        ("perl -e 'for (1..500) { open F, \">\", \"n$_\" or die; close F } print \"made\"'; rm n*", "made"),
        (
            "python3 -c 'import tempfile; f=tempfile.TemporaryFile(dir=\".\"); f.write(b\"x\"); print(\"temporary\")'",
            "temporary\n",
        ),
    ] {
        let ran = field.run(&format!("exec 2>&1; {command}"));
        if command.starts_with("python3") && !Path::new("/usr/bin/python3").exists() {
            continue;
        }
        assert!(text(&ran).ends_with(says), "{command}: {}", text(&ran));
        assert!(matches!(ran.end, End::Exited(0 | 2)), "{command}: {:?}", ran.end);
    }
}
