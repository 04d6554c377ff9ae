//! The fuzz target in a box of time, from a fixed seed.
//!
//! `TOOLGATE_FUZZ_SECONDS` (default 2) makes the box larger, `TOOLGATE_FUZZ_SEED` moves it.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::unwrap_used,
    missing_docs,
    reason = "tests"
)]
#![allow(dead_code, reason = "some laws serve the other tests")]

mod targets;

use std::time::{Duration, Instant};

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

/// What the target returns, unless it panics.
fn held(data: &[u8]) -> Option<u64> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let held = std::panic::catch_unwind(|| targets::parser(data)).ok();
    std::panic::set_hook(hook);
    held
}

/// The input without the pieces that it breaks the parser without.
fn shortest(mut data: Vec<u8>) -> Vec<u8> {
    let mut at = 3;
    while at + 2 <= data.len() {
        let mut shorter = data.clone();
        shorter.drain(at..at + 2);
        if held(&shorter).is_none() {
            data = shorter;
        } else {
            at += 2;
        }
    }
    data
}

#[test]
fn any_text_is_read_the_same_however_it_is_cut() {
    let first = setting("TOOLGATE_FUZZ_SEED", 1);
    let time = Duration::from_secs(setting("TOOLGATE_FUZZ_SECONDS", 2));
    let start = Instant::now();
    let (mut inputs, mut work) = (0_u64, 0);
    // At least some, however slow the machine is.
    while inputs < 200 || start.elapsed() < time {
        let mut state = (first << 32) + inputs;
        let length = 3 + (next(&mut state) % 60) as usize;
        let data: Vec<u8> = (0..length).map(|_| next(&mut state) as u8).collect();
        let Some(read) = held(&data) else {
            eprintln!(
                "the parser broke on input {inputs} of TOOLGATE_FUZZ_SEED={first}; of it, this is enough:"
            );
            targets::parser(&shortest(data));
            panic!("what is shorter breaks nothing");
        };
        work += read;
        inputs += 1;
    }
    eprintln!("parser: {inputs} inputs, {work} bytes looked at in {:.1} s", start.elapsed().as_secs_f64());
    assert!(work > 0, "nothing was read");
}
