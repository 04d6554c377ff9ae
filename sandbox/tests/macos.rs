//! Attacks on commands under Seatbelt, each with a control in a plain shell.
//!
//! Not run in this project's CI: nobody here has a Mac. `cargo test -p toolgate-sandbox --test macos` proves it.
//! Run it as an ordinary user. It makes its files in the directory for temporary files, and reads `~/.ssh` only
//! to see that a command cannot.

#![cfg(target_os = "macos")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the controls are plain processes")]

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use toolgate_sandbox::command::{Commands, End, Ran, Setup};
use toolgate_sandbox::policy::{Mode, Policy, ProcessLimits};
use toolgate_sandbox::{Kind, Root, ambient_authority};

const CANARY: &str = "CANARY-7f3a";
const POLICY: &str = "version = 1\ntier = \"exec\"\n[fs]\nread = [\"@workspace\", \"@system\"]\n\
                      write = [\"@workspace\"]\n[require]\nconfinement = \"reduced\"\n";

/// A workspace `ws` with a secret beside it.
struct Field {
    _base: tempfile::TempDir,
    ws: PathBuf,
    out: PathBuf,
}

impl Field {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(base.path()).unwrap();
        let (ws, out) = (real.join("ws"), real.join("out"));
        fs::create_dir(&ws).unwrap();
        fs::create_dir(&out).unwrap();
        fs::write(ws.join("ok.txt"), "fine\n").unwrap();
        fs::write(out.join("secret.txt"), format!("{CANARY}\n")).unwrap();
        Self { _base: base, ws, out }
    }

    fn commands(&self, mode: Mode, limits: &ProcessLimits) -> Commands {
        let root = Root::open(&self.ws, ambient_authority()).unwrap();
        let policy = Policy::parse(POLICY).unwrap().limited(limits);
        Commands::new(&root, &policy, mode, &Setup::default()).unwrap()
    }

    fn script(&self, command: &str) -> String {
        command.replace("$OUT", &self.out.to_string_lossy()).replace("$WS", &self.ws.to_string_lossy())
    }

    /// Confined.
    fn run(&self, command: &str) -> Ran {
        self.commands(Mode::Edit, &ProcessLimits::default()).run(&self.script(command)).unwrap()
    }

    /// The same in a plain shell.
    fn plainly(&self, command: &str) -> String {
        let output = Command::new("/bin/sh")
            .arg("-c")
            .arg(self.script(command))
            .current_dir(&self.ws)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&said).into_owned()
    }
}

fn text(ran: &Ran) -> String {
    String::from_utf8_lossy(&ran.output).into_owned()
}

#[test]
fn ordinary_work_goes_on() {
    let field = Field::new();
    for (command, says) in [
        ("pwd", "$WS"),
        ("cat ok.txt", "fine"),
        ("echo out; echo err >&2", "out\nerr\n"),
        ("mkdir -p a/b && echo hi > a/b/c && mv a/b/c a/d && ln -s d a/l && cat a/l && rm -r a", "hi"),
        ("x=$(mktemp) && echo t > $x && cat $x && cd && touch here && ls", "t\nhere\n"),
        ("seq 3000 | sort -rn | head -1", "3000"),
        ("printf 'b\\na\\n' | awk '{ print NR $0 }' | sed s/1/2/", "2b\n2a\n"),
        ("for i in $(seq 20); do sleep 0.05 & done; wait; echo waited", "waited"),
        ("echo hidden > /dev/stderr; echo x > /dev/null", "hidden"),
    ] {
        let ran = field.run(command);
        assert_eq!(ran.end, End::Exited(0), "{command}: {}", text(&ran));
        assert!(text(&ran).contains(&field.script(says)), "{command}: {}", text(&ran));
    }
    assert_eq!(field.run("exit 7").end, End::Exited(7));
    assert_eq!(field.run("kill -9 $$").end, End::Exited(137));
    field.run("echo x > made");
    assert_eq!(fs::read_to_string(field.ws.join("made")).unwrap(), "x\n");
}

#[test]
fn a_report_names_seatbelt_and_what_it_leaves_open() {
    let field = Field::new();
    let ran = field.run(":");
    assert_eq!((ran.enforced.fs.as_str(), ran.enforced.net.as_str()), ("seatbelt:read+write", "none"));
    assert_eq!((ran.enforced.process.as_str(), ran.enforced.layers[0].as_str()), ("reduced", "seatbelt"));
    assert!(ran.enforced.weaker.iter().any(|hole| hole == "reduced: no memory, process and disk totals"));
    let root = Root::open(&field.ws, ambient_authority()).unwrap();
    let refused = Commands::new(&root, &Policy::default_for(Mode::Edit), Mode::Edit, &Setup::default());
    assert_eq!(refused.unwrap_err().kind(), Kind::Unavailable, "nobody asked for the reduced tier");
}

#[test]
fn nothing_outside_is_written() {
    for command in [
        "echo x > $OUT/new; test -e $OUT/new && echo GOT",
        "ln -s $OUT d; echo x > d/new; test -e $OUT/new && echo GOT",
        "(cd ../out && echo x > new); test -e $OUT/new && echo GOT",
        "mv ok.txt $OUT/new; test -e $OUT/new && echo GOT",
        "chmod 700 $OUT/secret.txt && echo GOT",
        "rm -f $OUT/secret.txt; test -e $OUT/secret.txt || echo GOT",
        "mv $WS $OUT/moved; test -e $OUT/moved && echo GOT",
    ] {
        let (field, control) = (Field::new(), Field::new());
        assert!(control.plainly(command).contains("GOT"), "{command}: the control does nothing");
        let ran = field.run(&format!("echo alive; {command}"));
        assert!(text(&ran).contains("alive") && !text(&ran).contains("GOT"), "{command}: {}", text(&ran));
    }
    let field = Field::new();
    let looking = field.commands(Mode::Intel, &ProcessLimits::default());
    looking.run("echo x > made").unwrap();
    assert!(!field.ws.join("made").exists(), "a run that writes nothing");
}

#[test]
fn nothing_outside_is_read() {
    for command in [
        "cat $OUT/secret.txt",
        "cat ../out/secret.txt",
        "ln -s $OUT d; cat d/secret.txt",
        "ln $OUT/secret.txt l; cat l",
        "cp $OUT/secret.txt c; cat c",
        "mv $OUT/secret.txt m; cat m",
    ] {
        let (field, control) = (Field::new(), Field::new());
        assert!(
            control.plainly(command).contains(CANARY),
            "{command}: the control does not reach the secret"
        );
        let ran = field.run(&format!("echo alive; {command}"));
        assert!(text(&ran).contains("alive") && !text(&ran).contains(CANARY), "{command}: {}", text(&ran));
    }
}

#[test]
fn the_keys_of_a_person_are_closed() {
    let home = std::env::var("HOME").unwrap();
    let field = Field::new();
    for directory in [".ssh", ".aws", "Library/Keychains", "Documents", "."] {
        if fs::read_dir(format!("{home}/{directory}")).is_err() {
            continue;
        }
        let ran = field.run(&format!("ls '{home}/{directory}' && echo GOT"));
        assert!(!text(&ran).contains("GOT"), "{directory}: {}", text(&ran));
    }
    let ran = field.run("/usr/bin/security list-keychains && echo GOT; /usr/bin/pbpaste && echo GOT");
    assert!(!text(&ran).contains("GOT"), "{}", text(&ran));
}

#[test]
fn there_is_no_network() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let command = format!("/usr/bin/nc -z -w 1 127.0.0.1 {port} && echo GOT");
    let field = Field::new();
    assert!(field.plainly(&command).contains("GOT"), "the control connects");
    assert!(!text(&field.run(&command)).contains("GOT"));
    let listen = "(/usr/bin/nc -l 127.0.0.1 0 & sleep 0.3; kill $! && echo GOT) 2>/dev/null";
    assert!(!text(&field.run(listen)).contains("GOT"), "nobody listens either");
}

#[test]
fn what_is_obeyed_later_is_not_written() {
    for (command, wrong) in [
        ("mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit", ".git/hooks/pre-commit"),
        ("mkdir -p .GIT/hooks; echo evil > .GIT/hooks/pre-commit", ".GIT/hooks/pre-commit"),
        ("mkdir -p g/hooks; echo evil > g/hooks/pre-commit; mv g .git", ".git/hooks/pre-commit"),
        ("mkdir -p $TMPDIR/g; echo evil > $TMPDIR/g/x; mv $TMPDIR/g .git", ".git/x"),
        ("echo evil > .bashrc", ".bashrc"),
        ("echo evil > x; mv x .zshrc", ".zshrc"),
        ("echo evil > x; ln x .profile", ".profile"),
        ("ln -s /etc .vscode", ".vscode/hosts"),
        ("mkdir -p c/fish; echo evil > c/fish/config.fish; mv c .config", ".config/fish/config.fish"),
        ("mkdir objects refs; echo ref > HEAD", "HEAD"),
        ("mv sub $TMPDIR/s; echo evil > $TMPDIR/s/.git/config; mv $TMPDIR/s sub", "none"),
    ] {
        let (field, control) = (Field::new(), Field::new());
        for field in [&field, &control] {
            fs::create_dir_all(field.ws.join("sub/.git")).unwrap();
            fs::write(field.ws.join("sub/.git/config"), "[core]\n").unwrap();
        }
        let config = |field: &Field| fs::read_to_string(field.ws.join("sub/.git/config")).unwrap_or_default();
        control.plainly(&format!("TMPDIR=$(mktemp -d); {command}"));
        assert!(
            control.ws.join(wrong).exists() || config(&control) == "evil\n",
            "{command}: the control fails"
        );
        let ran = field.run(command);
        assert!(!field.ws.join(wrong).exists(), "{command}: {}", text(&ran));
        assert_ne!(config(&field), "evil\n", "{command}: {}", text(&ran));
    }
}

#[test]
fn closed_files_are_not_read_by_any_name() {
    for command in ["cat .env", "cat .ENV", "mv .env e; cat e", "cp .env e; cat e", "ln .env e; cat e"] {
        let (field, control) = (Field::new(), Field::new());
        for field in [&field, &control] {
            fs::write(field.ws.join(".env"), CANARY).unwrap();
        }
        if !control.plainly(command).contains(CANARY) {
            assert_eq!(command, "cat .ENV", "the control does not read it");
        }
        let ran = field.run(&format!("echo alive; {command}"));
        assert!(text(&ran).contains("alive") && !text(&ran).contains(CANARY), "{command}: {}", text(&ran));
    }
}

#[test]
fn a_command_ends_with_all_of_its_group() {
    let field = Field::new();
    let limits = ProcessLimits::default().wall_ms(Some(1_000));
    let commands = field.commands(Mode::Edit, &limits);
    let start = Instant::now();
    let ran = commands.run("(sleep 60 & echo $!; sleep 60 & echo $!; wait) & wait").unwrap();
    assert_eq!(ran.end, End::TimeLimit);
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(text(&ran).lines().count(), 2, "{}", text(&ran));
    text(&ran).lines().for_each(gone);
    let ran = field.run("sleep 60 & echo $!");
    assert_eq!(ran.end, End::Exited(0));
    text(&ran).lines().for_each(gone);
    let stop = Arc::new(AtomicBool::new(true));
    assert_eq!(commands.run_until("sleep 60", stop).unwrap().end, End::Stopped);
}

/// Whether the process of that number has ended, as `ps` sees it.
fn gone(pid: &str) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while Command::new("/bin/ps").args(["-p", pid]).output().unwrap().status.success() {
        assert!(Instant::now() < deadline, "{pid} still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_environment_is_made_and_not_inherited() {
    let field = Field::new();
    let said = text(&field.run("/usr/bin/env"));
    assert!(std::env::vars().any(|(name, _)| name.starts_with("CARGO")), "control: cargo sets some");
    assert!(!said.contains("CARGO") && said.contains("USER=sandbox"), "{said}");
    let home = said.lines().find_map(|line| line.strip_prefix("HOME=")).unwrap();
    assert_ne!(home, std::env::var("HOME").unwrap());
    assert!(!PathBuf::from(home).exists(), "it went with the command");
}

#[test]
fn bounds_hold() {
    let field = Field::new();
    let said = text(&field.run("ulimit -c; ulimit -t; ulimit -n"));
    assert_eq!(said, "0\n30\n1024\n");
    let limits = ProcessLimits::default().output_kb(Some(4)).disk_mb(Some(1)).cpu_s(Some(1));
    let commands = field.commands(Mode::Edit, &limits);
    let ran = commands.run("yes | head -c 1000000").unwrap();
    assert!(ran.truncated && ran.output_bytes == 1_000_000 && ran.output.len() < 5_000);
    let ran = commands.run("head -c 5000000 /dev/zero > big; echo done").unwrap();
    assert!(fs::metadata(field.ws.join("big")).unwrap().len() <= 1 << 20, "{}", text(&ran));
    assert!(matches!(commands.run("while :; do :; done").unwrap().end, End::Exited(code) if code > 128));
}

#[test]
fn paths_with_odd_characters_are_workspaces_like_others() {
    for name in ["it's", "a \"b\"", "back\\slash", "gr\u{fc}n", "(allow default)"] {
        let field = Field::new();
        let ws = field.ws.join(name);
        fs::create_dir(&ws).unwrap();
        let field = Field { ws, ..field };
        let ran = field.run("echo x > made; mkdir .git; cat $OUT/secret.txt");
        assert!(field.ws.join("made").exists(), "{name}: {}", text(&ran));
        assert!(!field.ws.join(".git").exists() && !text(&ran).contains(CANARY), "{name}: {}", text(&ran));
    }
    let field = Field::new();
    let ws = field.ws.join("new\nline");
    fs::create_dir(&ws).unwrap();
    let root = Root::open(&ws, ambient_authority()).unwrap();
    let refused =
        Commands::new(&root, &Policy::parse(POLICY).unwrap(), Mode::Edit, &Setup::default()).unwrap_err();
    assert_eq!(refused.kind(), Kind::Invalid, "{refused}");
}
