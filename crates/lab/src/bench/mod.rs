//! `toolgate bench`: measurements that anyone can repeat on their own machine.
//!
//! A file per measurement, and beside them what they share.
//!
//! For the packages of this workspace alone: the program mounts it.

mod call;
mod decision;
pub(crate) mod device;
mod mask;
mod measure;
mod ours;
mod peer;
mod prefill;
mod requests;
#[cfg(feature = "serve")]
mod serve;
mod tune;
mod workload;

use std::io::Write;

use clap::{Args, Subcommand};

use crate::host::Host;

/// Arguments of `toolgate bench`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs<H: Host> {
    #[command(subcommand)]
    measurement: Measurement<H>,
}

const EXAMPLES: &str = "\
Examples:
  toolgate bench mask --json > mask.json
  toolgate bench call --model smollm2-135m
  toolgate bench tune --model qwen2.5-coder-1.5b";

#[derive(Subcommand)]
enum Measurement<H: Host> {
    /// What the grammar costs per token, beside llama.cpp's own grammar sampler in the same run.
    #[command(after_help = mask::EXAMPLES)]
    Mask(mask::MaskArgs),
    /// What a tool call costs, warm and cold, beside a server in the same run.
    #[command(after_help = call::EXAMPLES)]
    Call(Box<call::CallArgs<H>>),
    /// How many tool calls a second the server makes for one client and for several, beside another server.
    #[cfg(feature = "serve")]
    #[command(after_help = serve::EXAMPLES)]
    Serve(Box<serve::ServeArgs<H>>),
    /// How fast prompts are evaluated, by how much of them is there already.
    #[command(after_help = prefill::EXAMPLES)]
    Prefill(Box<prefill::PrefillArgs<H>>),
    /// How this machine evaluates a model best: measured, and kept for the commands that run it.
    #[command(after_help = tune::EXAMPLES)]
    Tune(Box<tune::TuneArgs<H>>),
    /// What a device takes and changes: loading, prompts, single tokens, and batches of each width.
    #[command(after_help = device::EXAMPLES)]
    Device(Box<device::BenchDeviceArgs<H>>),
    /// How well a model's own probability of a call parts requests that want one from those that do not.
    #[command(after_help = decision::EXAMPLES)]
    Decision(Box<decision::DecisionArgs<H>>),
}

/// Runs `toolgate bench`; whether all that was measured is valid.
///
/// # Errors
/// A model, a server or a file that cannot be used.
pub fn run<H: Host>(args: BenchArgs<H>, out: &mut dyn Write) -> anyhow::Result<bool> {
    match args.measurement {
        Measurement::Mask(args) => mask::run::<H>(&args, out),
        Measurement::Call(mut args) => call::run(&mut args, out),
        #[cfg(feature = "serve")]
        Measurement::Serve(mut args) => serve::run(&mut args, out),
        Measurement::Prefill(args) => prefill::run(&args, out),
        Measurement::Tune(args) => tune::run(&args, out),
        Measurement::Device(args) => device::run(&args, out),
        Measurement::Decision(args) => decision::run(&args, out),
    }
}

/// The middle of some numbers, or the mean of the two in the middle.
fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let upper = *numbers.get(numbers.len() / 2)?;
    let lower = *numbers.get((numbers.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }
}
