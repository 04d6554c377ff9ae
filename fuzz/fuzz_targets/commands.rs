//! Hostile commands in a workspace: what is protected afterwards was there before, and nothing outside has changed. Needs
//! `TOOLGATE_STAGE`, the path of a built `toolgate-stage`.
#![no_main]

#[allow(dead_code, reason = "the control serves the test")]
#[path = "../../sandbox/tests/hostile/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let stage = std::env::var_os("TOOLGATE_STAGE").expect("TOOLGATE_STAGE names the program toolgate-stage");
    targets::commands(data, std::path::Path::new(&stage), &[]);
});
