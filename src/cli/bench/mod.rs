//! `toolgate bench`: measurements that anyone can repeat on their own machine.
//!
//! A file per measurement, and below them what they share.

mod call;
mod mask;
mod measure;
mod workload;

use std::io::Write;

use clap::{Args, Subcommand};

use super::exit::Exit;

/// Arguments of `toolgate bench`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct BenchArgs {
    #[command(subcommand)]
    measurement: Measurement,
}

const EXAMPLES: &str = "\
Examples:
  toolgate bench mask --json > mask.json
  toolgate bench call --model smollm2-135m";

#[derive(Subcommand)]
enum Measurement {
    /// What the grammar costs per token, beside llama.cpp's own grammar sampler in the same run.
    #[command(after_help = mask::EXAMPLES)]
    Mask(mask::MaskArgs),
    /// What a tool call costs, warm and cold, beside a server in the same run.
    #[command(after_help = call::EXAMPLES)]
    Call(Box<call::CallArgs>),
}

/// Runs `toolgate bench`.
pub(super) fn run(args: BenchArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    match args.measurement {
        Measurement::Mask(args) => mask::run(&args, out),
        Measurement::Call(args) => call::run(&args, out),
    }
}
