//! The reduced tier: asked for by name or not there, what it stops, and what it does not. As an ordinary user; root is refused.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the controls are plain processes")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests that others start report to them")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use support::attack::{Attack, Target, names, script, through};
use support::shell::{
    Field, POLICY, available, if_started, refuse_user_namespaces, setup, start_as_ordinary_user, text,
};
use support::{CANARY, skip};
use toolgate_sandbox::command::{Commands, End, Layer, Ran};
use toolgate_sandbox::policy::{Mode, Policy, ProcessLimits};
use toolgate_sandbox::{Error, Kind, Root, ambient_authority};

const ASKED: &str = "[require]\nconfinement = \"reduced\"\n";

const ATTACKS: &[Attack] = &[
    Attack { name: "look-outside", command: "test -e $OUT/secret.txt", stopped_by: &[] },
    Attack { name: "change-modes-outside", command: "chmod 640 $OUT/target.txt", stopped_by: &[] },
    Attack { name: "list-what-is-closed", command: "test \"$(ls .env.d)\" = b", stopped_by: &[] },
    Attack { name: "see-that-processes-are-there", command: "test -d /proc/$VICTIM", stopped_by: &[] },
    Attack {
        name: "read-outside",
        command: "grep -q CANARY $OUT/secret.txt || grep -q CANARY ../out/secret.txt",
        stopped_by: &[Layer::Landlock],
    },
    Attack {
        name: "read-outside-by-a-link",
        command: "ln -sfn $OUT src/d; grep -q CANARY src/d/secret.txt || grep -q CANARY trap/secret.txt",
        stopped_by: &[Layer::Landlock],
    },
    Attack { name: "write-outside", command: "echo x > $OUT/new", stopped_by: &[Layer::Landlock] },
    Attack {
        name: "write-temporary-files-of-others",
        command: "t=/var/tmp/toolgate-$VICTIM; : > $t && rm $t",
        stopped_by: &[Layer::Landlock],
    },
    Attack {
        name: "read-secrets",
        command: "grep -q CANARY .env || grep -rq CANARY .env.d",
        stopped_by: &[Layer::Landlock],
    },
    Attack {
        name: "get-at-secrets-by-another-name",
        command: "{ ln -f .env src/a && grep -q CANARY src/a; } || { mv .env src/b && grep -q CANARY src/b; }",
        stopped_by: &[Layer::Landlock],
    },
    Attack {
        name: "write-what-is-obeyed-later",
        command: "echo x > sub/.git/hooks/pre-commit || echo x >> sub/.git/config || mv sub/.git src/g || mv sub s",
        stopped_by: &[Layer::Landlock],
    },
    Attack { name: "kill-processes", command: "kill -0 $VICTIM", stopped_by: &[Layer::Landlock] },
    Attack {
        name: "read-other-environments",
        command: "grep -q CANARY /proc/$VICTIM/environ",
        stopped_by: &[Layer::Landlock],
    },
    Attack {
        name: "read-other-arguments",
        command: "grep -q CANARY /proc/$VICTIM/cmdline",
        stopped_by: &[Layer::Landlock],
    },
    Attack {
        name: "see-the-network",
        command: "read line < /proc/net/dev || read line < /proc/self/net/dev",
        stopped_by: &[Layer::Landlock],
    },
    Attack { name: "open-a-terminal", command: ": <> /dev/ptmx", stopped_by: &[Layer::Landlock] },
    Attack {
        name: "bound-other-processes",
        command: "prlimit --pid $VICTIM --nofile",
        stopped_by: &[Layer::Seccomp],
    },
    Attack {
        name: "share-memory",
        command: "perl -e 'exit !defined msgget($QUEUE, 0)'",
        stopped_by: &[Layer::Seccomp],
    },
    Attack {
        name: "open-a-socket",
        command: "perl -e 'use Socket; exit !socket(S, PF_INET, SOCK_DGRAM, 0)'",
        stopped_by: &[Layer::Seccomp],
    },
    Attack {
        name: "make-a-set-user-id-program",
        command: "cp /bin/true src/t && chmod u+s src/t",
        stopped_by: &[Layer::Seccomp],
    },
    Attack {
        name: "take-disk-at-once",
        command: "fallocate -l 1M src/taken && rm src/taken",
        stopped_by: &[Layer::Seccomp],
    },
    Attack { name: "make-a-user-namespace", command: "unshare -U true", stopped_by: &[Layer::Seccomp] },
    Attack {
        name: "read-the-environment",
        command: "env | grep -q ^TOOLGATE_TEST",
        stopped_by: &[Layer::Environment],
    },
    Attack {
        name: "read-an-open-file",
        command: "perl -e 'open F, \"<&=\", $FD or exit 1; seek F, 0, 0; exit index(<F>, \"CANARY\")'",
        stopped_by: &[Layer::Descriptors],
    },
    Attack {
        name: "make-a-file-larger-than-the-disk",
        command: "truncate -s 300M src/large && rm src/large",
        stopped_by: &[Layer::Limits],
    },
    // Last, since the watcher ends the whole command.
    Attack {
        name: "take-more-memory-in-all",
        command: "for i in 1 2 3; do perl -e '$x = \"a\" x 60_000_000; sleep 1' & p=\"$p $!\"; done; \
                  for i in $p; do wait $i || exit 1; done",
        stopped_by: &[Layer::Cgroup],
    },
];

fn target() -> Target {
    let field = Field::new();
    for (path, content) in [
        (".env", CANARY),
        (".env.d/b", CANARY),
        ("sub/.git/hooks/a", "a"),
        ("sub/.git/config", "[core]\n"),
        ("sub/x", "x\n"),
        ("src/main.c", "int main(void) { return 7; }\n"),
    ] {
        let path = field.ws.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    std::os::unix::fs::symlink(&field.out, field.ws.join("trap")).unwrap();
    Target::around(field)
}

fn expected(left_out: &[Layer]) -> BTreeSet<&'static str> {
    let open = |attack: &&Attack| attack.stopped_by.iter().all(|layer| left_out.contains(layer));
    ATTACKS.iter().filter(open).map(|attack| attack.name).collect()
}

fn limits() -> ProcessLimits {
    ProcessLimits::default().memory_mb(Some(128)).disk_mb(Some(128)).wall_ms(Some(10_000))
}

/// Commands without bubblewrap, under a policy that asks for the reduced tier.
fn commands(field: &Field, without: &[Layer], limits: &ProcessLimits) -> Result<Commands, Error> {
    let root = Root::open(&field.ws, ambient_authority()).unwrap();
    let policy = Policy::parse(&format!("{POLICY}{ASKED}")).unwrap().limited(limits);
    let none = setup().bubblewrap(Some("/nonexistent/bwrap".into())).without(without.to_vec());
    Commands::new(&root, &policy, Mode::Edit, &none)
}

fn run(field: &Field, command: &str) -> Ran {
    commands(field, &[], &limits()).unwrap().run(&field.script(command)).unwrap()
}

/// Whether the kernel keeps signals inside, without which there is no reduced tier.
fn possible() -> bool {
    if !available() {
        return false;
    }
    let held = Field::new().run("true").enforced.layers;
    let new = held.contains(&"landlock 6".to_owned());
    if !new {
        skip::sandbox(&format!(
            "a kernel of 6.12 or later has version 6 of Landlock; these layers hold: {held:?}"
        ));
    }
    new
}

#[test]
fn it_is_not_for_root_and_not_unless_it_is_asked_for() {
    let field = Field::new();
    let root = Root::open(&field.ws, ambient_authority()).unwrap();
    let none = setup().bubblewrap(Some("/nonexistent/bwrap".into()));
    for asked in ["", "[require]\nconfinement = \"full\"\n"] {
        let policy = Policy::parse(&format!("{POLICY}{asked}")).unwrap();
        let error = Commands::new(&root, &policy, Mode::Edit, &none).unwrap_err();
        assert_eq!((error.kind(), error.layer()), (Kind::Unavailable, Some(Layer::Bubblewrap)), "{error}");
    }
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        let error = commands(&field, &[], &limits()).unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(error.to_string().contains("not for root"), "{error}");
        assert!(error.to_string().contains("bubblewrap does not work here"), "{error}");
    }
    if available() {
        let policy = format!("{POLICY}{ASKED}");
        let full = field.commands(&policy, Mode::Edit, &limits(), &[]).unwrap().run("true").unwrap();
        assert_eq!(full.enforced.process, "confined", "what is there is used");
    }
}

#[test]
fn it_steps_in_for_user_namespaces_and_says_so() {
    if possible() {
        start_as_ordinary_user("started_without_user_namespaces");
    }
}

#[test]
fn started_without_user_namespaces() {
    if_started(|| {
        refuse_user_namespaces();
        let field = Field::new();
        let refused = field.commands(POLICY, Mode::Edit, &limits(), &[]).unwrap_err();
        assert_eq!(refused.layer(), Some(Layer::Userns), "never a silent downgrade: {refused}");
        let policy = format!("{POLICY}{ASKED}");
        let ran = field.commands(&policy, Mode::Edit, &limits(), &[]).unwrap().run("cat ok.txt").unwrap();
        assert_eq!((text(&ran).as_str(), ran.end), ("fine\n", End::Exited(0)));
        let enforced = ran.enforced;
        assert_eq!((enforced.process.as_str(), enforced.fs.as_str()), ("reduced", "landlock:read+write"));
        assert_eq!(enforced.net, "none");
        for layer in ["environment", "descriptors", "limits", "landlock 6", "seccomp"] {
            assert!(enforced.layers.contains(&layer.to_owned()), "{enforced:?}");
        }
        assert!(!enforced.layers.iter().any(|layer| layer.contains("userns") || layer == "mounts"));
        for says in ["userns does not work here", "permission bits", "names, sizes", "the host name"] {
            assert!(enforced.weaker.iter().any(|line| line.contains(says)), "{enforced:?} lacks {says}");
        }
        let root = Root::open(&field.ws, ambient_authority()).unwrap();
        assert_eq!(Commands::reduced(&root, &setup()).unwrap().process, "reduced", "doctor can tell");
        let strict = format!("{POLICY}{ASKED}layers = [\"processes\"]\n");
        let error = field.commands(&strict, Mode::Edit, &limits(), &[]).unwrap_err();
        assert!(error.to_string().contains("processes does not work here (the reduced tier"), "{error}");
    });
}

#[test]
fn its_layers_stop_what_they_are_there_for_and_its_holes_are_the_ones_it_tells() {
    if possible() {
        start_as_ordinary_user("started_attacks");
    }
}

#[test]
fn started_attacks() {
    if_started(|| {
        let all = names(ATTACKS);
        let (target, control) = (target(), target());
        let said = control.field.plainly(&script(ATTACKS, &control));
        assert_eq!(through(ATTACKS, &said), all, "the control: {said}");
        for left_out in [
            &[][..],
            &[Layer::Environment],
            &[Layer::Descriptors],
            &[Layer::Cgroup],
            &[Layer::Limits],
            &[Layer::Seccomp],
            &[Layer::Landlock],
        ] {
            let ran =
                commands(&target.field, left_out, &limits()).unwrap().run(&script(ATTACKS, &target)).unwrap();
            assert_eq!(
                through(ATTACKS, &text(&ran)),
                expected(left_out),
                "without {left_out:?}: {}",
                text(&ran)
            );
        }
    });
}

#[test]
fn ordinary_work_goes_on_and_nothing_is_left_behind() {
    if possible() {
        start_as_ordinary_user("started_work");
    }
}

#[test]
fn started_work() {
    if_started(|| {
        let field = Field::new();
        fs::create_dir_all(field.ws.join("src")).unwrap();
        for (command, says) in [
            ("pwd", "$WS"),
            ("cat ok.txt; echo more >> ok.txt; tail -1 ok.txt", "more"),
            ("mkdir -p a/b && echo hi > a/b/c && mv a/b/c a/d && ln -s d a/l && cat a/l && rm -r a", "hi"),
            ("x=$(mktemp) && echo t > $x && cat $x && cd && touch here && ls", "here"),
            ("seq 3000 | sort -rn | head -1", "3000"),
            ("bash -c 'cat <(echo substituted)'", "substituted"),
            ("for i in $(seq 40); do sleep 0.05 & done; wait; echo waited", "waited"),
        ] {
            let ran = run(&field, command);
            assert_eq!(ran.end, End::Exited(0), "{command}: {}", text(&ran));
            assert!(text(&ran).contains(&field.script(says)), "{command}: {}", text(&ran));
        }
        assert_eq!(run(&field, "exit 7").end, End::Exited(7));
        assert_eq!(run(&field, "kill -9 $$").end, End::Exited(137));
        // Beside what is protected or closed, what is there can be changed, and nothing made or removed.
        fs::create_dir_all(field.ws.join(".git/hooks")).unwrap();
        fs::write(field.ws.join(".env"), CANARY).unwrap();
        let ran = run(
            &field,
            "echo x > ok.txt && cat ok.txt; touch src/new && echo made; touch new || echo beside",
        );
        assert!(text(&ran).starts_with("x\nmade\n") && text(&ran).ends_with("beside\n"), "{}", text(&ran));

        let nap = 1_000_000 + std::process::id();
        let left = || {
            let count = format!("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'slee[p] {nap}'");
            let output = Command::new("/bin/sh").args(["-c", &count]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let start = Instant::now();
        let done = run(
            &field,
            &format!("setsid sleep {nap} & (setsid sh -c 'sleep {nap} & sleep {nap}' &); echo done"),
        );
        assert_eq!((text(&done).trim(), left().as_str()), ("done", "0"));
        let short = limits().wall_ms(Some(1_000)).pids(Some(40)).disk_mb(Some(16));
        let bounded = |command: &str| commands(&field, &[], &short).unwrap().run(command).unwrap();
        let ran = bounded(&format!("trap '' TERM INT HUP; setsid sleep {nap} & sleep {nap}"));
        assert_eq!((ran.end, left().as_str()), (End::TimeLimit, "0"));
        let ran = bounded(&format!("perl -e 'fork for 1..9; sleep {nap}'"));
        assert_eq!((ran.end, left().as_str()), (End::TimeLimit, "0"), "a fork bomb");
        assert_eq!(
            bounded("for i in $(seq 20); do head -c 5000000 /dev/zero > $TMPDIR/$i; sleep 0.02; done").end,
            End::DiskLimit
        );
        assert_eq!(bounded("mkdir $TMPDIR/d; touch $TMPDIR/d/x; chmod 0 $TMPDIR/d").end, End::Exited(0));
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        let scratch = format!("toolgate-{}-", std::process::id());
        let names = fs::read_dir(std::env::temp_dir()).unwrap().map(|entry| entry.unwrap().file_name());
        let kept: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with(&scratch)).collect();
        assert!(kept.is_empty(), "{kept:?}");
    });
}

#[test]
fn a_runtime_that_is_killed_leaves_nothing_running() {
    if possible() {
        start_as_ordinary_user("started_to_be_killed");
    }
}

#[test]
fn started_to_be_killed() {
    const RUNTIME: &str = "TOOLGATE_TEST_RUNTIME";
    if_started(|| {
        let nap = 2_000_000 + std::env::var(RUNTIME).map_or(std::process::id(), |pid| pid.parse().unwrap());
        if std::env::var_os(RUNTIME).is_some() {
            run(&Field::new(), &format!("setsid sleep {nap} & sleep {nap}"));
            return;
        }
        // Processes that sleep so long, and are nothing else.
        let sleeping = || {
            let processes = fs::read_dir("/proc").unwrap().map_while(Result::ok);
            let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
            lines.filter(|line| line == format!("sleep\0{nap}\0").as_bytes()).count()
        };
        // Looked for again and again: they are another process's, and the system says nothing of them here.
        let wait = |wanted: usize| {
            let start = Instant::now();
            while sleeping() != wanted {
                assert!(start.elapsed() < Duration::from_secs(20), "{} sleep", sleeping());
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let own = std::env::current_exe().unwrap();
        let mut runtime = Command::new(own)
            .args(["--exact", "started_to_be_killed"])
            .env(RUNTIME, std::process::id().to_string())
            .spawn()
            .unwrap();
        wait(2);
        runtime.kill().unwrap();
        runtime.wait().unwrap();
        wait(0);
    });
}
