//! The fallback parser and the families' readers on any text, whole and in pieces.
#![no_main]

#[allow(dead_code, unused_imports, reason = "each fuzzer runs one of the targets")]
#[path = "../../crates/chat/tests/fuzz/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    targets::parser(data);
});
