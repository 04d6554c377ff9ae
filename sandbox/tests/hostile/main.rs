//! Random hostile commands in a box of time, from a fixed seed, with the broker and without it, as the user who runs the test
//! and as an ordinary one.
//!
//! `TOOLGATE_FUZZ_SECONDS` (default 4 for each of the four) makes the box larger, `TOOLGATE_FUZZ_SEED` moves it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the workspaces are plain directories"
)]
#![allow(clippy::print_stderr, reason = "how much was tried is told")]

#[path = "../support/mod.rs"]
mod support;

mod targets;

use std::time::{Duration, Instant};

use support::shell::{available, if_started, setup, start_as_ordinary_user};
use toolgate_sandbox::command::Layer;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect(name))
}

/// The next number of a splitmix64 sequence.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn bytes(state: &mut u64) -> Vec<u8> {
    (0..40).flat_map(|_| next(state).to_le_bytes()).collect()
}

#[test]
fn no_command_leaves_what_is_protected() {
    if available() {
        hostile();
        start_as_ordinary_user("started_no_command_leaves_what_is_protected");
    }
}

#[test]
fn started_no_command_leaves_what_is_protected() {
    if_started(hostile);
}

fn hostile() {
    let time = Duration::from_secs(setting("TOOLGATE_FUZZ_SECONDS", 4));
    let mut state = setting("TOOLGATE_FUZZ_SEED", 1);
    let planted = (0..10).filter(|_| targets::plants_plainly(&bytes(&mut state))).count();
    assert!(planted >= 7, "the control: in a plain shell only {planted} of 10 plant something");
    let stage = setup().stage.unwrap();
    for without in [&[][..], &[Layer::Broker]] {
        let mut state = setting("TOOLGATE_FUZZ_SEED", 1);
        let (start, mut runs) = (Instant::now(), 0);
        while start.elapsed() < time {
            let seed = state;
            let data = bytes(&mut state);
            let held = std::panic::catch_unwind(|| targets::commands(&data, &stage, without));
            assert!(held.is_ok(), "TOOLGATE_FUZZ_SEED={seed} without {without:?}");
            runs += 1;
        }
        eprintln!("{runs} hostile commands without {without:?}");
    }
}
