//! The `toolgate` program: everything is in the library's `cli` module.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(toolgate::cli::main(std::env::args_os()).code())
}
