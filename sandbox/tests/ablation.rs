//! Layers of the command tier left out one at a time: the attacks that the layer alone stops get through, and no others. So
//! every layer is there, does something, and is seen to.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the controls are plain processes")]
#![allow(clippy::print_stderr, reason = "a machine that cannot run commands is told so")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use support::attack::{Attack, Target, names, script, through};
use support::shell::{Field, available, text};
use toolgate_sandbox::command::{LAYERS, Layer};
use toolgate_sandbox::policy::ProcessLimits;

const ATTACKS: &[Attack] = &[
    Attack { name: "look-outside", command: "test -e $OUT/secret.txt", stopped_by: &[Layer::Mounts] },
    Attack {
        name: "change-the-mode-of-what-is-protected",
        command: "chmod 711 .git/hooks",
        stopped_by: &[Layer::Mounts],
    },
    Attack {
        name: "read-outside",
        command: "grep -q CANARY $OUT/secret.txt",
        stopped_by: &[Layer::Mounts, Layer::Landlock],
    },
    Attack {
        name: "read-what-belongs-to-root",
        command: "head -c 1 /proc/slabinfo",
        stopped_by: &[Layer::Owner],
    },
    Attack {
        name: "see-processes",
        command: "grep -q CANARY /proc/$VICTIM/cmdline",
        stopped_by: &[Layer::Processes],
    },
    Attack {
        name: "kill-processes",
        command: "kill -0 $VICTIM",
        stopped_by: &[Layer::Processes, Layer::Landlock, Layer::Owner],
    },
    Attack {
        name: "share-memory",
        command: "perl -e 'exit !defined msgget($QUEUE, 0)'",
        stopped_by: &[Layer::Ipc],
    },
    Attack {
        name: "learn-the-machine-s-name",
        command: "test \"$(uname -n)\" = \"$(cat name-of-the-machine)\"",
        stopped_by: &[Layer::Names],
    },
    Attack {
        name: "see-the-network",
        command: "grep -v lo: /proc/net/dev | grep -q :",
        stopped_by: &[Layer::Network],
    },
    Attack {
        name: "open-a-socket",
        command: "perl -e 'use Socket; exit !socket(S, PF_INET, SOCK_DGRAM, 0)'",
        stopped_by: &[Layer::Seccomp],
    },
    Attack {
        name: "make-a-set-user-id-program",
        command: "cp /bin/true t && chmod u+s t",
        stopped_by: &[Layer::Seccomp],
    },
    Attack { name: "make-a-user-namespace", command: "unshare -U true", stopped_by: &[Layer::Seccomp] },
    Attack {
        name: "plant-a-protected-name",
        command: "mkdir -p p && mkdir p/.git",
        stopped_by: &[Layer::Broker],
    },
    Attack {
        name: "read-the-environment",
        command: "env | grep -q ^CARGO",
        stopped_by: &[Layer::Environment],
    },
    Attack {
        name: "read-an-open-file",
        command: "perl -e 'open F, \"<&=\", $FD or exit 1; seek F, 0, 0; exit index(<F>, \"CANARY\")'",
        stopped_by: &[Layer::Descriptors],
    },
    Attack { name: "open-a-terminal", command: ": <> /dev/ptmx", stopped_by: &[Layer::Landlock] },
    Attack {
        name: "make-a-file-larger-than-the-disk",
        command: "truncate -s 300M large && rm large",
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
    fs::create_dir_all(field.ws.join(".git/hooks")).unwrap();
    let name = Command::new("uname").arg("-n").output().unwrap();
    fs::write(field.ws.join("name-of-the-machine"), name.stdout).unwrap();
    Target::around(field)
}

fn limits() -> ProcessLimits {
    ProcessLimits::default().memory_mb(Some(128)).disk_mb(Some(128))
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// What gets through without `left_out`, by the table.
fn expected(left_out: &[Layer]) -> BTreeSet<&'static str> {
    // What is only there where the runtime is root stops nothing where it is not; there root's files are not this user's.
    let counts = |layer: &Layer| *layer != Layer::Owner || is_root();
    ATTACKS
        .iter()
        .filter(|attack| {
            let mut layers = attack.stopped_by.iter().filter(|layer| counts(layer)).peekable();
            layers.peek().is_some() && layers.all(|layer| left_out.contains(layer))
        })
        .map(|attack| attack.name)
        .collect()
}

#[test]
fn every_attack_succeeds_in_a_plain_shell() {
    let target = target();
    let said = target.field.plainly(&script(ATTACKS, &target));
    let mut all = names(ATTACKS);
    if !is_root() {
        all.remove("read-what-belongs-to-root");
    }
    assert_eq!(through(ATTACKS, &said), all, "{said}");
}

#[test]
fn without_a_layer_what_it_stops_gets_through_and_nothing_else() {
    if !available() {
        return;
    }
    let target = target();
    let confined = target.field.run_without(&script(ATTACKS, &target), &limits(), &[]);
    assert_eq!(through(ATTACKS, &text(&confined)), BTreeSet::new(), "{}", text(&confined));
    for layer in LAYERS {
        // Without these two there is nothing for the others to be in: tests/reduced.rs is about that.
        if [Layer::Bubblewrap, Layer::Userns].contains(&layer) || layer == Layer::Owner && !is_root() {
            continue;
        }
        let open = target.field.run_without(&script(ATTACKS, &target), &limits(), &[layer]);
        assert_eq!(through(ATTACKS, &text(&open)), expected(&[layer]), "without {layer:?}: {}", text(&open));
        assert!(!expected(&[layer]).is_empty(), "nothing shows that {layer:?} is there");
        let named = |line: &String| line.starts_with(&format!("{} is left out", layer.name()));
        assert!(open.enforced.weaker.iter().any(named), "{:?}", open.enforced);
        let held = |held: &String| held.split(' ').next() == Some(layer.name());
        assert!(!open.enforced.layers.iter().any(held), "{:?}", open.enforced);
    }
}

#[test]
fn what_two_layers_stop_takes_both_to_be_left_out() {
    if !available() {
        return;
    }
    let target = target();
    let both = [Layer::Mounts, Layer::Landlock];
    let open = target.field.run_without(&script(ATTACKS, &target), &limits(), &both);
    let through = through(ATTACKS, &text(&open));
    assert!(through.contains("read-outside"), "{}", text(&open));
    assert_eq!(through, expected(&both));
}

#[test]
fn processes_are_bounded_by_group_and_by_limit() {
    if !available() {
        return;
    }
    let field = Field::new();
    let limits = ProcessLimits::default().pids(Some(40));
    let bomb = "perl -e 'my $n=0; for(1..80){ my $p=fork; last unless defined $p; if(!$p){ sleep 2; exit } $n++ } \
                print \"FORKED=$n\\n\"'";
    let forked = |without: &[Layer]| -> u64 {
        let said = text(&field.run_without(bomb, &limits, without));
        said.split("FORKED=").nth(1).unwrap().trim().parse().unwrap()
    };
    assert!(forked(&[]) < 40);
    assert!(forked(&[Layer::Cgroup]) < 40, "the limit of each process alone");
    assert_eq!(forked(&[Layer::Cgroup, Layer::Limits]), 80, "nothing else bounds them");
    if field.run("true").enforced.layers.contains(&"cgroup".to_owned()) {
        assert!(forked(&[Layer::Limits]) < 40, "the group alone");
    }
}
