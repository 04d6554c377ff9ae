//! The `toolgate` program: everything is in the library's `cli` module.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Confined commands are started by this same program: nothing may run before it.
    toolgate::cli::enter_stage_if_asked();
    ExitCode::from(toolgate::cli::main(std::env::args_os()).code())
}
