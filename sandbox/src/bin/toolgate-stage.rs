//! The inner stage of confined commands as a program of its own, for embedders whose `main` cannot be one
//! ([`Setup::stage`](toolgate_sandbox::command::Setup::stage)), and for tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    toolgate_sandbox::command::enter_stage_if_asked();
    // Started by hand: there is nothing to do for a person.
    ExitCode::from(2)
}
