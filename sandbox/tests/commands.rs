//! Attacks on the command tier. Each has a control: the same command in a plain shell reaches what it is after. What each
//! layer is there for is shown by leaving it out.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the controls are plain processes")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "child processes report to the test that started them"
)]

mod support;

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::CANARY;
use support::lifeline::Lifeline;
use support::shell::{Field, POLICY, available, text};
use toolgate_sandbox::Kind;
use toolgate_sandbox::command::{End, Layer};
use toolgate_sandbox::policy::{Mode, ProcessLimits};

#[test]
fn ordinary_work_goes_on() {
    if !available() {
        return;
    }
    let field = Field::new();
    for (command, says) in [
        ("pwd", "$WS"),
        ("cat ok.txt", "fine"),
        ("echo out; echo err >&2", "out\nerr\n"),
        ("mkdir -p a/b && echo hi > a/b/c && mv a/b/c a/d && ln -s d a/l && cat a/l && rm -r a", "hi"),
        ("x=$(mktemp) && echo t > $x && cat $x && echo $HOME && cd && touch here", "/tmp/home"),
        ("seq 3000 | sort -rn | head -1", "3000"),
        ("id -un; test -w . && echo writable", "sandbox\nwritable"),
        ("for i in $(seq 40); do sleep 0.05 & done; wait; echo waited", "waited"),
    ] {
        let ran = field.run(command);
        assert_eq!(ran.end, End::Exited(0), "{command}: {}", text(&ran));
        assert!(text(&ran).contains(&field.script(says)), "{command}: {}", text(&ran));
    }
    assert_eq!(field.run("chmod 000 .").end, End::Exited(0));
    assert_eq!(field.run("ls").end, End::Exited(0), "a command cannot lock the workspace");
    assert_eq!(field.run("exit 7").end, End::Exited(7));
    assert_eq!(field.run("kill -9 $$").end, End::Exited(137));
    let made = field.run("echo x > made; stat -c %u made");
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(field.ws.join("made")).unwrap());
    let runtime = std::os::unix::fs::MetadataExt::uid(&fs::metadata(field.base.path()).unwrap());
    assert_eq!((text(&made).trim(), owner), ("1000", runtime), "files belong to whoever runs the runtime");
}

/// Commands that reach outside, and what shows that they did.
const REACHES_OUTSIDE: &[&str] = &[
    "cat $OUT/secret.txt",
    "cat ../out/secret.txt",
    "ln -s $OUT d; cat d/secret.txt",
    "cat /proc/self/root$OUT/secret.txt",
    "(cd ..; cat out/secret.txt)",
    "for p in /proc/[0-9]*; do cat $p/root$OUT/secret.txt 2>/dev/null; done; true",
];

#[test]
fn files_outside_are_not_there() {
    if !available() {
        return;
    }
    for command in REACHES_OUTSIDE {
        let field = Field::new();
        assert!(field.plainly(command).contains(CANARY), "{command}: the control does not reach the secret");
        let field = Field::new();
        let ran = field.run(&format!("echo alive; {command}"));
        assert!(text(&ran).contains("alive") && !text(&ran).contains(CANARY), "{command}: {}", text(&ran));
    }
    let field = Field::new();
    let write = "echo changed > $OUT/target.txt; chmod 777 $OUT; rm -rf $OUT/secret.txt; touch $OUT/new";
    field.run(write);
    assert_eq!(fs::read_to_string(field.out.join("target.txt")).unwrap(), "intact\n");
    assert!(field.out.join("secret.txt").exists() && !field.out.join("new").exists());
    field.plainly(write);
    assert!(!field.out.join("secret.txt").exists(), "the control does write");
}

#[test]
fn the_environment_is_made_and_not_inherited() {
    if !available() {
        return;
    }
    // A child process with a poisoned environment, since this one's is shared by all tests.
    let own = std::env::current_exe().unwrap();
    let output = Command::new(own)
        .args(["--exact", "prints_an_environment_when_asked", "--nocapture"])
        .env("TOOLGATE_TEST_PRINT_ENVIRONMENT", "1")
        .env("DATABASE_URL", CANARY)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let (confined, open) = said.split_once("WITHOUT").unwrap();
    assert!(confined.contains("HOME=/tmp/home") && !confined.contains(CANARY), "{confined}");
    assert!(open.contains(CANARY), "without the layer it would be seen");
}

#[test]
fn prints_an_environment_when_asked() {
    if std::env::var_os("TOOLGATE_TEST_PRINT_ENVIRONMENT").is_none() {
        return;
    }
    let field = Field::new();
    let command = "env; for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; done";
    println!("{}", text(&field.run(command)));
    println!(
        "WITHOUT{}",
        text(&field.run_without(command, &ProcessLimits::default(), &[Layer::Environment]))
    );
}

#[test]
fn secrets_are_closed_and_what_is_obeyed_later_is_read_only() {
    if !available() {
        return;
    }
    let field = Field::new();
    fs::create_dir_all(field.ws.join("sub/.git/hooks")).unwrap();
    fs::write(field.ws.join("sub/.git/config"), "[core]\n").unwrap();
    fs::write(field.ws.join(".env"), CANARY).unwrap();
    fs::write(field.ws.join("KEY.PEM"), CANARY).unwrap();
    fs::write(field.ws.join("plain.txt"), "plain\n").unwrap();
    let command =
        "cat .env KEY.PEM; cp .env x; mv .env y; cat plain.txt; head -c 99 < .env; ln .env z; cat z";
    let ran = field.run(command);
    assert!(!text(&ran).contains(CANARY) && text(&ran).contains("plain"), "{}", text(&ran));
    assert_eq!(fs::read_to_string(field.ws.join(".env")).unwrap(), CANARY);
    assert!(field.plainly("cat .env").contains(CANARY), "the control reads it");

    let attack = "echo evil > sub/.git/hooks/pre-commit; echo evil >> sub/.git/config; rm -rf sub/.git; mv sub/.git g; \
        mv sub moved; mkdir -p sub/.git/hooks .git/hooks; echo evil > sub/.git/config; echo evil > .git/config; \
        echo evil > .bashrc; ln -s /etc .vscode; mkdir bare; cd bare; mkdir objects refs; echo ref > HEAD; echo evil > config";
    let ran = field.run(attack);
    assert_eq!(
        fs::read_to_string(field.ws.join("moved/.git/config")).unwrap(),
        "[core]\n",
        "what was there is unchanged"
    );
    for made in ["sub/.git", ".git", ".bashrc", ".vscode", "bare/HEAD"] {
        assert!(fs::symlink_metadata(field.ws.join(made)).is_err(), "{made} was left: {:?}", ran.refused);
        assert!(ran.refused.contains(&made.to_owned()), "{made} is not told: {:?}", ran.refused);
    }
    assert!(ran.taken_back.is_empty(), "there was nothing to take back: {:?}", ran.taken_back);
    assert!(
        String::from_utf8_lossy(&ran.content())
            .contains("[.bashrc is protected: the command was kept from it]")
    );
    let control = Field::new();
    control.plainly("mkdir -p .git/hooks; echo evil > .git/config");
    assert!(control.ws.join(".git/config").exists());
}

#[test]
fn in_intel_mode_nothing_is_written() {
    if !available() {
        return;
    }
    let field = Field::new();
    let commands = field.commands(POLICY, Mode::Intel, &ProcessLimits::default(), &[]).unwrap();
    let ran = commands.run("cat ok.txt; echo x > ok.txt; touch new; echo t > /tmp/t && cat /tmp/t").unwrap();
    assert!(text(&ran).starts_with("fine") && text(&ran).ends_with("t\n"), "{}", text(&ran));
    assert_eq!(fs::read_to_string(field.ws.join("ok.txt")).unwrap(), "fine\n");
    assert!(!field.ws.join("new").exists());
    assert_eq!(ran.enforced.fs, "mounts:read");
}

#[test]
fn a_command_that_is_to_stop_ends_with_all_it_started() {
    if !available() {
        return;
    }
    let field = Field::new();
    let commands = field.commands(POLICY, Mode::Edit, &ProcessLimits::default(), &[]).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let lifeline = Lifeline::at(&field.ws.join("alive"));
    let line = "exec 3>alive; (sleep 600; touch late) & echo begun >&3; sleep 600; touch after";
    let ran = std::thread::scope(|scope| {
        let running = scope.spawn(|| commands.run_until(line, stop.clone()).unwrap());
        assert_eq!(lifeline.line(), "begun");
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap()
    });
    assert_eq!(ran.end, End::Stopped);
    lifeline.end();
    assert!(!field.ws.join("late").exists() && !field.ws.join("after").exists());
    assert_eq!(commands.run_until("echo again", Arc::default()).unwrap().end, End::Exited(0));
}

#[test]
fn a_policy_of_parts_mounts_parts() {
    if !available() {
        return;
    }
    let field = Field::new();
    for dir in ["docs", "notes", "src"] {
        fs::create_dir(field.ws.join(dir)).unwrap();
        fs::write(field.ws.join(dir).join("a"), format!("in {dir}\n")).unwrap();
    }
    std::os::unix::fs::symlink(&field.out, field.ws.join("trap")).unwrap();
    let policy = "version = 1\ntier = \"exec\"\n[fs]\nread = [\"@workspace/docs\", \"@workspace/notes\", \"@workspace/trap\", \"@system\"]\nwrite = [\"@workspace/notes\"]\n";
    let commands = field.commands(policy, Mode::Edit, &ProcessLimits::default(), &[]).unwrap();
    let ran = commands
        .run(&field.script(
            "cat docs/a notes/a src/a trap/secret.txt; echo x > docs/b; echo x > notes/b; echo x > c",
        ))
        .unwrap();
    let said = text(&ran);
    assert!(said.contains("in docs") && said.contains("in notes") && !said.contains("in src"), "{said}");
    assert!(!said.contains(CANARY), "{said}");
    assert!(
        field.ws.join("notes/b").exists()
            && !field.ws.join("docs/b").exists()
            && !field.ws.join("c").exists()
    );
}

#[test]
fn time_memory_processes_and_disk_end() {
    if !available() {
        return;
    }
    let limits =
        ProcessLimits::default().wall_ms(Some(1_500)).memory_mb(Some(128)).pids(Some(40)).disk_mb(Some(32));
    let field = Field::new();
    // A time that nobody else on this machine sleeps for, so that what is left behind is known by it.
    let nap = 1_000_000 + std::process::id();
    let start = Instant::now();
    for command in [
        "while :; do :; done",
        "sleep 60",
        &format!("trap '' TERM INT HUP; setsid sleep {nap} & sleep {nap}"),
    ] {
        let ran = field.run_without(command, &limits, &[]);
        assert_eq!(ran.end, End::TimeLimit, "{command}");
    }
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    let background =
        field.run_without(&format!("setsid sleep {nap} & (sleep {nap} &) ; echo done"), &limits, &[]);
    assert_eq!((text(&background).trim(), background.end), ("done", End::Exited(0)));
    // The brackets keep the search from finding itself.
    let count = format!("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'slee[p] {nap}'");
    let left = Command::new("/bin/sh").args(["-c", &count]).output().unwrap();
    let left = String::from_utf8(left.stdout).unwrap();
    assert_eq!(left.trim(), "0", "nothing is left behind");

    let bomb = "perl -e 'my $n=0; for(1..200){ my $p=fork; last unless defined $p; if(!$p){ sleep 1; exit } $n++ } print \"FORKED=$n\\n\"'";
    let ran = field.run_without(bomb, &limits, &[]);
    let forked: u64 = text(&ran).split("FORKED=").nth(1).unwrap().trim().parse().unwrap();
    assert!(forked < 40, "{forked}");
    assert!(field.plainly(bomb).contains("FORKED=200"), "the control forks them all");

    let hog = "perl -e '$x=\"a\"x300_000_000; print length $x'";
    let ran = field.run_without(hog, &limits, &[]);
    assert!(!text(&ran).contains("300000000"), "{}", text(&ran));
    assert!(field.plainly(hog).contains("300000000"));

    // Without a pause: what is written while the watcher counts would not count, were the command not stopped for it.
    for writer in [
        "for i in $(seq 40); do head -c 10000000 /dev/zero > f$i || exit 9; done; echo ALL",
        "for j in 1 2 3 4; do (for i in $(seq 20); do head -c 10000000 /dev/zero > g$j-$i || exit 9; done) & done; wait; \
         echo ALL",
        // Space that is asked for in one call each, where the system has such a call.
        "for i in $(seq 40); do fallocate -l 10000000 h$i || head -c 10000000 /dev/zero > h$i || exit 9; done; echo ALL",
    ] {
        let field = Field::new();
        let ran = field.run_without(writer, &limits.clone().wall_ms(Some(20_000)), &[]);
        assert_eq!(ran.end, End::DiskLimit, "{}", text(&ran));
        let names = fs::read_dir(&field.ws).unwrap();
        let sizes = names.map(|entry| entry.unwrap().metadata().unwrap().len());
        let written: u64 = sizes.sum();
        assert!(written < 200_000_000, "{written} bytes of 32 MB were written");
        assert!(field.plainly(writer).contains("ALL"), "the control writes them all");
    }
    let few = ProcessLimits::default().files(Some(500)).wall_ms(Some(20_000));
    let files = "perl -e 'for (1..20000) { open F, \">\", \"s$_\" or die; close F } print \"ALL\"'";
    let field = Field::new();
    let ran = field.run_without(files, &few, &[]);
    assert_eq!(ran.end, End::DiskLimit, "{}", text(&ran));
    assert!(fs::read_dir(&field.ws).unwrap().count() < 10_000);
    let output = field.run("yes 0123456789 | head -c 30000000; echo END");
    assert!(output.truncated && output.output.len() < 300_000 && text(&output).ends_with("END\n"));
    assert!(output.output_bytes > 30_000_000);
}

#[test]
fn a_terminal_and_open_files_are_not_passed_on() {
    if !available() {
        return;
    }
    use std::os::fd::AsRawFd as _;
    let field = Field::new();
    let secret = fs::File::open(field.out.join("secret.txt")).unwrap();
    // Not closed on exec: a careless embedder's descriptor.
    rustix::io::fcntl_setfd(&secret, rustix::io::FdFlags::empty()).unwrap();
    let command = format!(
        "cat /proc/self/fd/{fd}; for p in /proc/[0-9]*; do cat $p/fd/{fd}; ls -l $p/fd; done 2>/dev/null; tty; (: < /dev/tty) 2>&1; echo alive",
        fd = secret.as_raw_fd()
    );
    let ran = field.run(&command);
    assert!(text(&ran).contains("alive") && text(&ran).contains("not a tty"), "{}", text(&ran));
    assert!(!text(&ran).contains(CANARY), "{}", text(&ran));
    assert!(
        field.plainly(&format!("cat <&{}", secret.as_raw_fd())).contains(CANARY),
        "the control inherits it"
    );
}

#[test]
fn rules_refuse_and_the_shell_s_tricks_do_not_help() {
    if !available() {
        return;
    }
    let field = Field::new();
    let policy = format!(
        "{POLICY}[[exec.rule]]\nprefix = [\"rm\"]\ndecision = \"refuse\"\nmatch = [\"rm x\"]\nnot_match = [\"ls\"]\n"
    );
    let commands = field.commands(&policy, Mode::Edit, &ProcessLimits::default(), &[]).unwrap();
    for command in ["rm ok.txt", "true; 'r'm ok.txt", "sh -c 'rm ok.txt'", "/bin/rm ok.txt"] {
        assert_eq!(commands.run(command).unwrap_err().kind(), Kind::Denied, "{command}");
    }
    assert!(commands.run("ls").is_ok() && field.ws.join("ok.txt").exists());
}

#[test]
fn memory_that_is_no_process_s_counts_or_cannot_be_had() {
    if available() && cfg!(target_arch = "x86_64") {
        shared_memory();
        support::shell::start_as_ordinary_user("started_memory_that_is_no_process_s");
    }
}

#[test]
fn started_memory_that_is_no_process_s() {
    support::shell::if_started(shared_memory);
}

fn shared_memory() {
    let limits = ProcessLimits::default().memory_mb(Some(128)).wall_ms(Some(20_000));
    // memfd_create and shmget by their numbers.
    for (name, attack) in [
        (
            "memfd",
            "perl -e '$n = \"m\"; $f = syscall 319, $n, 0; exit 1 if $f < 0; open F, \">&=\", $f or exit 1; \
             for (1..300) { syswrite F, \"x\" x 1048576 or exit 1 } print \"ALL\"'",
        ),
        (
            "segment",
            "perl -e '$i = syscall 29, 0, 300 << 20, 0600; exit 1 if $i < 0; $a = syscall 30, $i, 0, 0; exit 1 if $a == -1; \
             shmwrite $i, \"x\" x 1048576, $_ << 20, 1048576 or exit 1 for 0..299; print \"ALL\"; shmctl $i, 0, 0'",
        ),
    ] {
        let field = Field::new();
        let ran = field.run_without(attack, &limits, &[]);
        assert!(!text(&ran).contains("ALL"), "{name}: {ran:?}");
        let control = field.plainly(attack);
        assert!(control.contains("ALL"), "{name}: the control has it all: {control}");
    }
}

#[test]
fn a_pair_of_sockets_reaches_nobody_else() {
    if !available() {
        return;
    }
    let field = Field::new();
    let service = std::os::unix::net::UnixDatagram::bind(field.ws.join("service")).unwrap();
    service.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let attack = "perl -e 'use Socket; socketpair A, B, AF_UNIX, SOCK_DGRAM, 0 or die; send A, \"pair\", 0 or die; \
                  recv B, $got, 9, 0; print $got; send A, \"evil\", 0, pack_sockaddr_un \"service\" or print \" refused\"'";
    let mut heard = [0; 9];
    assert_eq!(text(&field.run(attack)), "pair refused");
    assert!(service.recv(&mut heard).is_err(), "{heard:?}");
    assert_eq!(field.plainly(attack), "pair");
    assert_eq!(service.recv(&mut heard).unwrap(), 4, "the control reaches it");
}
