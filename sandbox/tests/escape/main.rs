//! Attacks on the file tier. Each one has a control: the same request, done with plain `std::fs`, reaches
//! what it is after. The whole matrix runs again where `openat2` fails, so that the manual resolver is
//! attacked as well.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the controls are plain std::fs")]

mod outside;
mod protected;
mod races;
mod special;
#[path = "../support/mod.rs"]
mod support;

#[cfg(target_os = "linux")]
use special::check_proc;

use outside::{check_hard_links, check_inside, check_nothing_is_told, check_outside, check_setuid};
use protected::{check_protected, check_secrets};
use races::{check_protected_races, check_races, check_renamed_parent};
use special::{check_odd_paths, check_special_files};
use support::{Field, Op};
use toolgate_sandbox::{Grants, Kind};

#[test]
fn requests_that_lead_outside_are_refused_and_their_twins_are_not() {
    check_outside();
    check_inside();
    check_nothing_is_told();
}

#[test]
fn a_second_link_keeps_its_content_and_set_user_id_bits_go() {
    check_hard_links();
    check_setuid();
}

#[test]
fn what_others_run_later_is_protected() {
    check_protected();
}

#[test]
fn secrets_stay_closed_under_every_name() {
    check_secrets();
}

#[test]
fn pipes_sockets_and_devices_neither_block_nor_flood() {
    check_special_files();
}

#[test]
#[cfg(target_os = "linux")]
fn magic_links_lead_nowhere_and_files_that_lie_are_bounded() {
    check_proc();
}

#[test]
fn a_racing_swapper_wins_against_plain_tools_only() {
    check_races();
    check_protected_races();
}

#[test]
fn a_parent_renamed_meanwhile_does_no_harm() {
    check_renamed_parent();
}

#[test]
fn odd_paths_are_refused_with_a_reason() {
    check_odd_paths();
}

#[test]
fn nothing_is_reachable_without_a_grant() {
    let mut field = Field::new();
    field.grants = Grants::default();
    for op in [Op::Read("ok.txt"), Op::List("."), Op::Search("."), Op::Write("ok.txt"), Op::Edit("ok.txt")] {
        assert_eq!(op.run(&field).unwrap_err().kind(), Kind::Denied, "{op:?}");
    }
    field.grants = Grants::read_only();
    assert!(Op::Read("ok.txt").run(&field).is_ok());
    assert_eq!(Op::Create("new.txt").run(&field).unwrap_err().kind(), Kind::Denied);
}

/// Where `openat2` is missing (old kernels, other systems) or filtered (containers), paths are walked by
/// hand; a green run above says nothing about that.
#[cfg(target_os = "linux")]
mod without_openat2 {
    use toolgate_sandbox::Resolver;

    use super::*;

    const ERRNO: &str = "TOOLGATE_TEST_OPENAT2_ERRNO";

    #[test]
    fn the_same_holds_where_openat2_fails() {
        for errno in ["38", "1"] {
            let child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["without_openat2::child", "--exact", "--ignored", "--nocapture"])
                .env(ERRNO, errno)
                .output()
                .unwrap();
            let shown = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
            assert!(child.status.success() && shown.contains("1 passed"), "errno {errno}: {shown}");
        }
    }

    #[test]
    #[ignore = "run by the_same_holds_where_openat2_fails, in a process of its own"]
    fn child() {
        let Ok(errno) = std::env::var(ERRNO) else { return };
        let with = Field::new();
        refuse_openat2(errno.parse().unwrap());
        let without = Field::new();
        assert_eq!((with.root.resolver(), without.root.resolver()), (Resolver::Openat2, Resolver::Manual));
        check_outside();
        check_inside();
        check_nothing_is_told();
        check_hard_links();
        check_setuid();
        check_protected();
        check_secrets();
        check_special_files();
        check_proc();
        check_races();
        check_protected_races();
        check_renamed_parent();
        check_odd_paths();
    }

    fn refuse_openat2(errno: u32) {
        use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter_all_threads};
        // The number is the same on every architecture.
        let rules = [(437, vec![])].into_iter().collect();
        let arch = std::env::consts::ARCH.try_into().unwrap();
        let filter =
            SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), arch).unwrap();
        apply_filter_all_threads(&BpfProgram::try_from(filter).unwrap()).unwrap();
    }
}
