//! Masks, checks and steps of the automaton against each other, under tight limits.
#![no_main]

#[allow(dead_code, unused_imports, reason = "each fuzzer runs one of the targets")]
#[path = "../../crates/grammar/tests/fuzz/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    targets::agreement(data);
});
