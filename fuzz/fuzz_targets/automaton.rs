//! The automaton beside a slow reference matcher, on random grammars and tokens.
#![no_main]

#[allow(dead_code, unused_imports, reason = "each fuzzer runs one of the targets")]
#[path = "../../crates/grammar/tests/fuzz/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    targets::automaton(data);
});
