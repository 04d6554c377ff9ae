//! Beside the options of a model: what evaluates it here, and how its context is kept.

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::engine::{
    Adapter, Attention, CacheType, Device, FlashAttention, GpuLayers, Options, Placement, RopeScaling,
    Tuning, Tunings,
};
use crate::models::Store;

/// What evaluates a model of this machine. A record of a run keeps it.
#[derive(Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Add a low-rank adapter to the weights: a GGUF, multiplied by SCALE where one stands behind its path.
    #[arg(long, value_name = "FILE[:SCALE]")]
    lora: Option<Adapter>,
    /// How positions are told to the model, in place of the file's own scaling. With linear:FACTOR or yarn:FACTOR there are so many
    /// times the context that the file has without scaling [default: as the file says].
    #[arg(long, value_name = "none|KIND:FACTOR")]
    rope_scaling: Option<RopeScaling>,
    /// Shares of the layers of several graphics processors, such as 3,1. They are taken in the order of `toolgate doctor`, those that are
    /// alike [default: one of them; where one has no room, all by what each has free].
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    tensor_split: Vec<f32>,
    /// Keep the experts of a mixture in the processor's memory, and the rest on the graphics processor.
    #[arg(long)]
    cpu_moe: bool,
}

impl DeviceArgs {
    /// Whether nothing was asked for.
    pub(super) fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Where the weights lie: as asked for, and else as given.
    pub(super) fn placement(&self, given: Placement) -> Placement {
        Placement {
            device: asked(&self.device).cloned().unwrap_or(given.device),
            gpu_layers: asked(&self.gpu_layers).copied().unwrap_or(given.gpu_layers),
            mlock: self.mlock || given.mlock,
            no_mmap: self.no_mmap || given.no_mmap,
            tensor_split: asked(&self.tensor_split).cloned().unwrap_or(given.tensor_split),
            cpu_moe: self.cpu_moe || given.cpu_moe,
            adapter: self.lora.clone().or(given.adapter),
        }
    }

    /// How contexts are kept: as asked for, and else as given.
    pub(super) fn attention(&self, given: Attention) -> Attention {
        Attention {
            keys: self.cache_type_k.or(given.keys),
            values: self.cache_type_v.or(given.values),
            flash: asked(&self.flash_attention).copied().unwrap_or(given.flash),
            rope: self.rope_scaling.or(given.rope),
        }
    }

    /// Threads, where they were asked for.
    #[cfg(feature = "lab")]
    pub(super) fn threads(&self) -> Option<u32> {
        self.threads
    }

    /// What `toolgate bench tune` found for this device on this machine, or for the given one where none was asked for.
    pub(super) fn tunings(&self, given: &Placement) -> anyhow::Result<Tunings> {
        let tunings = Tunings::new(Store::open()?.tuning(), toolgate_llama::machine());
        let device = asked(&self.device).unwrap_or(&given.device);
        let chosen = toolgate_llama::choose_device(device)?;
        Ok(chosen.map_or(tunings.clone(), |device| tunings.on(device.label())))
    }

    /// The options of an engine with these, and what was found to suit the model. What was not asked for is as a profile has it.
    pub(super) fn given(&self, options: Options, tuned: Tuning) -> Options {
        let tuning = Tuning { threads: self.threads.or(tuned.threads), ..tuned };
        let placement = self.placement(options.placement.clone());
        let attention = self.attention(options.attention);
        options.placement(placement).attention(attention).tuning(tuning)
    }
}

/// What is not the default.
fn asked<T: Default + PartialEq>(value: &T) -> Option<&T> {
    Some(value).filter(|value| **value != T::default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<DeviceArgs, String> {
        crate::cli::parsed(arguments).map_err(|error| error.to_string())
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
        assert_eq!((options.attention.rope, &options.placement.adapter), (None, &None));
        assert_eq!(options.tuning, Tuning { threads: Some(3), batch: Some(64) });
        let error = parsed(&["--cache-type-v", "q9"]).unwrap_err();
        assert!(error.contains("none of f32 f16 bf16 q8_0 q4_0"), "{error}");
    }

    #[test]
    fn a_profile_has_a_say_where_nothing_was_asked_for() {
        let profile = Options::default()
            .placement(Placement {
                device: Device::Cpu,
                adapter: Some("mine.gguf".parse().unwrap()),
                tensor_split: vec![1.0, 1.0],
                ..Placement::default()
            })
            .attention(Attention { keys: Some(CacheType::Q8_0), ..Attention::default() });
        let given = |arguments: &[&str]| parsed(arguments).unwrap().given(profile.clone(), Tuning::default());
        let options = given(&[]);
        assert_eq!((options.placement, options.attention), (profile.placement.clone(), profile.attention));
        let asked = ["--lora=other.gguf:0.5", "--rope-scaling=yarn:4", "--tensor-split=3,1", "--cpu-moe"];
        let options = given(&asked);
        assert_eq!(options.placement.adapter, Some("other.gguf:0.5".parse().unwrap()));
        assert_eq!(options.attention.rope, Some(RopeScaling::Yarn(4.0)));
        assert_eq!(options.placement.tensor_split, [3.0, 1.0]);
        assert!(options.placement.cpu_moe && options.placement.device == Device::Cpu);
        assert_eq!(options.attention.keys, Some(CacheType::Q8_0));
        let error = parsed(&["--rope-scaling", "yarn"]).unwrap_err();
        assert!(error.contains("yarn:FACTOR"), "{error}");
    }

    #[test]
    fn records_of_older_versions_have_none() {
        assert!(serde_json::from_str::<DeviceArgs>("{}").unwrap().is_usual());
    }
}
