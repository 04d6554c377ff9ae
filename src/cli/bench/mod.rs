//! `toolgate bench`: measurements that anyone can repeat on their own machine.
//!
//! A file per measurement, and below them what they share.

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
Example:
  toolgate bench mask --json > mask.json";

#[derive(Subcommand)]
enum Measurement {
    /// What the grammar costs per token, beside llama.cpp's own grammar sampler in the same run.
    #[command(after_help = mask::EXAMPLES)]
    Mask(mask::MaskArgs),
}

/// Runs `toolgate bench`.
pub(super) fn run(args: BenchArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    match args.measurement {
        Measurement::Mask(args) => mask::run(&args, out),
    }
}
