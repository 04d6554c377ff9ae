//! Beside the options of a model: what evaluates it here, and how its context is kept.

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::engine::{
    Attention, CacheType, Device, FlashAttention, GpuLayers, Options, Placement, Tuning, Tunings,
};
use crate::models::Store;

/// What evaluates a model of this machine. A record of a run keeps it.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct DeviceArgs {
    /// What evaluates the model: the processor, or a graphics processor by its name (see `toolgate doctor`). auto is a graphics
    /// processor where this build finds one, else the processor.
    #[arg(long, default_value_t = Device::Auto, value_name = "auto|cpu|NAME")]
    device: Device,
    /// Layers that the graphics processor holds; the processor has the others. auto is as many as it has room for.
    #[arg(long, default_value_t = GpuLayers::Auto, value_name = "auto|N")]
    gpu_layers: GpuLayers,
    /// The type of a context's keys: f32, f16, bf16, q8_0 or q4_0 [default: f16].
    #[arg(long, value_name = "TYPE")]
    cache_type_k: Option<CacheType>,
    /// The type of a context's values [default: f16, or bf16 on the processor with --numerics exact].
    #[arg(long, value_name = "TYPE")]
    cache_type_v: Option<CacheType>,
    /// Whether attention is computed in one kernel: auto, on or off.
    #[arg(long, default_value_t = FlashAttention::Auto, value_name = "auto|on|off")]
    flash_attention: FlashAttention,
    /// Threads of the processor [default: what `bench tune` found, or one for each core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Keep the model in memory: the system may not swap it out.
    #[arg(long)]
    mlock: bool,
    /// Read the model's file instead of mapping it into memory.
    #[arg(long)]
    no_mmap: bool,
}

impl DeviceArgs {
    /// Whether nothing was asked for.
    pub(super) fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Where the weights lie.
    pub(super) fn placement(&self) -> Placement {
        let Self { device, gpu_layers, mlock, no_mmap, .. } = self;
        Placement { device: device.clone(), gpu_layers: *gpu_layers, mlock: *mlock, no_mmap: *no_mmap }
    }

    /// How contexts are kept.
    pub(super) fn attention(&self) -> Attention {
        Attention { keys: self.cache_type_k, values: self.cache_type_v, flash: self.flash_attention }
    }

    /// Threads, where they were asked for.
    #[cfg(feature = "lab")]
    pub(super) fn threads(&self) -> Option<u32> {
        self.threads
    }

    /// What `toolgate bench tune` found for this device on this machine.
    pub(super) fn tunings(&self) -> anyhow::Result<Tunings> {
        let tunings = Tunings::new(Store::open()?.tuning(), toolgate_llama::machine());
        let chosen = toolgate_llama::choose_device(&self.device)?;
        Ok(chosen.map_or(tunings.clone(), |device| tunings.on(device.label())))
    }

    /// The options of an engine with these, and what was found to suit the model.
    pub(super) fn given(&self, options: Options, tuned: Tuning) -> Options {
        let tuning = Tuning { threads: self.threads.or(tuned.threads), ..tuned };
        options.placement(self.placement()).attention(self.attention()).tuning(tuning)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        device: DeviceArgs,
    }

    fn parsed(arguments: &[&str]) -> Result<DeviceArgs, String> {
        let all = ["toolgate"].iter().chain(arguments);
        Command::try_parse_from(all).map(|command| command.device).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_asked_for_is_the_default_and_what_is_asked_for_is_passed_on() {
        assert!(parsed(&[]).unwrap().is_usual());
        let asked = [
            "--device=vulkan0",
            "--gpu-layers=7",
            "--cache-type-k=q8_0",
            "--flash-attention=on",
            "--threads=3",
            "--no-mmap",
        ];
        let args = parsed(&asked).unwrap();
        let tuned = Tuning { threads: Some(9), batch: Some(64) };
        let options = args.given(Options::default(), tuned);
        assert_eq!(options.placement.device, Device::Named("vulkan0".to_owned()));
        assert_eq!(options.placement.gpu_layers, GpuLayers::Count(7));
        assert!(options.placement.no_mmap && !options.placement.mlock);
        assert_eq!(options.attention.keys, Some(CacheType::Q8_0));
        assert_eq!(options.attention.flash, FlashAttention::On);
        assert_eq!(options.tuning, Tuning { threads: Some(3), batch: Some(64) });
        let error = parsed(&["--cache-type-v", "q9"]).unwrap_err();
        assert!(error.contains("none of f32 f16 bf16 q8_0 q4_0"), "{error}");
    }

    #[test]
    fn records_of_older_versions_have_none() {
        assert!(serde_json::from_str::<DeviceArgs>("{}").unwrap().is_usual());
    }
}
