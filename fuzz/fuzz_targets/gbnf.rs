//! The GBNF parser, printer, checker, sampler and text matcher on any text.
#![no_main]

#[allow(dead_code, unused_imports, reason = "each fuzzer runs one of the targets")]
#[path = "../../crates/grammar/tests/fuzz/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    targets::gbnf(data);
});
