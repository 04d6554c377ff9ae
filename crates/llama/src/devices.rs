//! Beneath a model's load: the devices that llama.cpp finds, and which of them a model is evaluated on.
//!
//! Invariant: a name that no device has is an error that names those there are; nothing falls back to the processor unasked.

use llama_cpp_2::{LlamaBackendDeviceType, list_llama_ggml_backend_devices};
use toolgate_infer::{Device, GpuLayers, Placement};

use crate::gguf::Weights;
use crate::model::llama_cpp;
use crate::{Error, Kind};

/// A device that llama.cpp found.
///
/// ```
/// use toolgate_llama::{DeviceKind, devices};
/// let devices = devices();
/// assert!(devices.iter().any(|device| device.kind == DeviceKind::Processor), "{devices:?}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundDevice {
    /// Its name, such as `Vulkan0`: what [`Device::Named`] takes.
    pub name: String,
    /// What its driver calls it.
    pub description: String,
    /// The part of llama.cpp that drives it, such as `Vulkan`.
    pub backend: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Bytes of its memory that are free; 0 where it does not say.
    pub memory_free: u64,
    /// Bytes of its memory.
    pub memory_total: u64,
    /// Its number in llama.cpp.
    pub(crate) index: usize,
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// The processor.
    Processor,
    /// A graphics processor with memory of its own.
    Gpu,
    /// A graphics processor that shares the memory of the processor.
    IntegratedGpu,
    /// Something beside the processor that speeds some of its work up.
    Accelerator,
}

impl DeviceKind {
    /// Its word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Processor => "cpu",
            Self::Gpu => "gpu",
            Self::IntegratedGpu => "integrated gpu",
            Self::Accelerator => "accelerator",
        }
    }
}

impl FoundDevice {
    /// Whether models can be asked for on it by name.
    fn is_graphics(&self) -> bool {
        matches!(self.kind, DeviceKind::Gpu | DeviceKind::IntegratedGpu)
    }

    /// Its name and what it is, for keys of what depends on it.
    pub fn label(&self) -> String {
        format!("{} ({}, {})", self.name, self.backend, self.description)
    }
}

/// The devices that this build finds on this machine, the processor among them.
///
/// ```
/// let found = toolgate_llama::devices();
/// assert!(found.iter().any(|device| device.kind.name() == "cpu"));
/// assert!(found.iter().all(|device| device.label().starts_with(&device.name)));
/// ```
pub fn devices() -> Vec<FoundDevice> {
    let _running = llama_cpp();
    let found = list_llama_ggml_backend_devices().into_iter();
    found
        .map(|device| FoundDevice {
            kind: match device.device_type {
                LlamaBackendDeviceType::Cpu => DeviceKind::Processor,
                LlamaBackendDeviceType::Gpu => DeviceKind::Gpu,
                LlamaBackendDeviceType::IntegratedGpu => DeviceKind::IntegratedGpu,
                _ => DeviceKind::Accelerator,
            },
            name: device.name,
            description: device.description,
            backend: device.backend,
            memory_free: device.memory_free as u64,
            memory_total: device.memory_total as u64,
            index: device.index,
        })
        .collect()
}

/// The features of this package for devices, each with whether it is built in.
///
/// ```
/// let names: Vec<&str> = toolgate_llama::device_features().iter().map(|(name, _)| *name).collect();
/// assert_eq!(names, ["cuda", "metal", "rocm", "vulkan"]);
/// ```
pub fn device_features() -> [(&'static str, bool); 4] {
    [
        ("cuda", cfg!(feature = "cuda")),
        // The pinned llama-cpp-2 has it on by itself there.
        ("metal", cfg!(any(feature = "metal", all(target_os = "macos", target_arch = "aarch64")))),
        ("rocm", cfg!(feature = "rocm")),
        ("vulkan", cfg!(feature = "vulkan")),
    ]
}

/// The graphics processor that a model asked for so is evaluated on; none is the processor.
///
/// # Errors
/// [`Kind::Device`] for a name that no device has.
///
/// ```
/// use toolgate_llama::{Device, Kind, choose_device};
/// assert_eq!(choose_device(&Device::Cpu)?, None);
/// let error = choose_device(&Device::Named("toaster".to_owned())).unwrap_err();
/// assert_eq!(error.kind(), Kind::Device);
/// # Ok::<(), toolgate_llama::Error>(())
/// ```
pub fn choose_device(wanted: &Device) -> Result<Option<FoundDevice>, Error> {
    match wanted {
        Device::Cpu => Ok(None),
        wanted => choose(wanted, devices(), &device_features()),
    }
}

fn choose(
    wanted: &Device,
    found: Vec<FoundDevice>,
    features: &[(&str, bool)],
) -> Result<Option<FoundDevice>, Error> {
    let name = match wanted {
        Device::Cpu => return Ok(None),
        Device::Auto => {
            // Dedicated ones first, then the one with the most room.
            let graphics = found.into_iter().filter(FoundDevice::is_graphics);
            return Ok(graphics.max_by_key(|device| (device.kind == DeviceKind::Gpu, device.memory_free)));
        }
        Device::Named(name) => name,
    };
    let named = |device: &FoundDevice| device.is_graphics() && device.name.eq_ignore_ascii_case(name);
    if let Some(index) = found.iter().position(named) {
        return Ok(found.into_iter().nth(index));
    }
    let there: Vec<String> =
        found.iter().filter(|device| device.is_graphics()).map(FoundDevice::label).collect();
    let there = if there.is_empty() { "cpu alone".to_owned() } else { format!("cpu, {}", there.join(", ")) };
    let mut message = format!("there is no device {name:?} here, but {there}");
    let asked = name.to_ascii_lowercase();
    let built = |backend: &str| features.iter().any(|(feature, built)| *feature == backend && *built);
    let backend = match asked.trim_end_matches(|letter: char| letter.is_ascii_digit()) {
        "mtl" => "metal",
        backend => backend,
    };
    if features.iter().any(|(feature, built)| *feature == backend && !built) {
        message.push_str(&format!(
            "; this program was built without {backend}: build it with cargo build --release --features full,{backend}"
        ));
    } else if built(backend) && !found.iter().any(|device| device.backend.eq_ignore_ascii_case(backend)) {
        message.push_str("; its driver may be missing (toolgate doctor)");
    } else if features.iter().all(|(_, built)| !built) {
        let names: Vec<&str> = features.iter().map(|(name, _)| *name).collect();
        message.push_str(&format!(
            "; this program was built without graphics processors: build it with --features full and one of {}",
            names.join(" ")
        ));
    }
    Err(Error::new(Kind::Device, message))
}

/// Where the layers of a model are evaluated.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Place {
    /// The graphics processors; none is the processor.
    pub(crate) gpus: Vec<FoundDevice>,
    /// Layers there, as llama.cpp counts them; negative is all.
    pub(crate) layers: i32,
    /// The share of these that each has; empty is by what each has free.
    pub(crate) split: Vec<f32>,
    /// Whether experts stay in the processor's memory.
    pub(crate) cpu_moe: bool,
}

/// Memory of a device that is left to contexts and to what evaluation needs.
const RESERVE: u64 = 1 << 30;

impl Place {
    /// For a file of these weights.
    pub(crate) fn of(placement: &Placement, weights: Weights) -> Result<Self, Error> {
        let found = if placement.device == Device::Cpu { Vec::new() } else { devices() };
        let chosen = choose(&placement.device, found.clone(), &device_features())?;
        Self::on(chosen, found, placement, weights)
    }

    /// On a chosen device, and on others like it where shares say so, or where it has no room for all and no device was named.
    fn on(
        chosen: Option<FoundDevice>,
        found: Vec<FoundDevice>,
        placement: &Placement,
        weights: Weights,
    ) -> Result<Self, Error> {
        let split = placement.tensor_split.clone();
        let Some(chosen) = chosen else {
            return match split.is_empty() {
                true => Ok(Self::default()),
                false => Err(Error::new(
                    Kind::Device,
                    "--tensor-split is for graphics processors, and the model is evaluated on the processor",
                )),
            };
        };
        let mut weights = weights;
        if placement.cpu_moe {
            weights.bytes = weights.bytes.saturating_sub(weights.experts);
        }
        let alike = |device: &FoundDevice| device.kind == chosen.kind && device.backend == chosen.backend;
        let alike: Vec<FoundDevice> = found.into_iter().filter(alike).collect();
        let is_split = !split.is_empty();
        if is_split && matches!(placement.device, Device::Named(_)) {
            let message =
                "--tensor-split takes devices in the order of toolgate doctor: give it without --device NAME";
            return Err(Error::new(Kind::Device, message));
        }
        if is_split
            && (split.len() > alike.len() || !split.iter().all(|share| share.is_finite() && *share >= 0.0))
        {
            let names: Vec<String> = alike.iter().map(FoundDevice::label).collect();
            let message = format!(
                "--tensor-split takes a share of 0 or more for each of {} devices: {}",
                names.len(),
                names.join(", ")
            );
            return Err(Error::new(Kind::Device, message));
        }
        let in_one = room(std::slice::from_ref(&chosen), weights);
        let has_room = match placement.gpu_layers {
            GpuLayers::Auto => in_one == ALL,
            GpuLayers::Count(layers) => in_one == ALL || i64::from(layers) <= i64::from(in_one),
        };
        let one_suffices = placement.device != Device::Auto || has_room;
        let gpus = match split.len() {
            0 if one_suffices => vec![chosen],
            0 => alike,
            some => alike.into_iter().take(some).collect(),
        };
        let layers = match placement.gpu_layers {
            GpuLayers::Count(layers) => i32::try_from(layers).unwrap_or(i32::MAX),
            GpuLayers::Auto if is_split => room_in_shares(&gpus, &split, weights),
            GpuLayers::Auto => room(&gpus, weights),
        };
        Ok(match layers {
            0 => Self::default(),
            layers => Self { gpus, layers, split, cpu_moe: placement.cpu_moe },
        })
    }

    /// Whether the processor evaluates all of it.
    pub(crate) fn is_processor(&self) -> bool {
        self.gpus.is_empty()
    }

    /// In words: what evaluates.
    pub(crate) fn label(&self) -> String {
        if self.is_processor() {
            return "cpu".to_owned();
        }
        let mut label = self.gpus.iter().map(FoundDevice::label).collect::<Vec<_>>().join(" and ");
        if self.layers >= 0 {
            label.push_str(&format!(", {} layers", self.layers));
        }
        if !self.split.is_empty() {
            let shares: Vec<String> = self.split.iter().map(f32::to_string).collect();
            label.push_str(&format!(", shares {}", shares.join(":")));
        }
        if self.cpu_moe {
            label.push_str(", experts on the processor");
        }
        label
    }
}

/// All layers, as llama.cpp has it.
const ALL: i32 = -1;

/// The layers that the memory of these devices has room for. A device that does not say what is free gets them all.
fn room(devices: &[FoundDevice], weights: Weights) -> i32 {
    let usable: u64 = devices.iter().map(|device| device.memory_free.saturating_sub(RESERVE)).sum();
    match devices.iter().any(|device| device.memory_free == 0) {
        true => ALL,
        false => layers_in(usable, weights),
    }
}

/// The same where each has a share: the one with the least room for its share says how many.
fn room_in_shares(devices: &[FoundDevice], shares: &[f32], weights: Weights) -> i32 {
    let all: f64 = shares.iter().map(|share| f64::from(*share)).sum();
    let sharing =
        devices.iter().zip(shares).filter(|(device, share)| **share > 0.0 && device.memory_free > 0);
    let usable = sharing.map(|(device, share)| {
        (device.memory_free.saturating_sub(RESERVE) as f64 * all / f64::from(*share)) as u64
    });
    usable.min().map_or(ALL, |usable| layers_in(usable, weights))
}

/// The layers that so many bytes have room for.
fn layers_in(usable: u64, weights: Weights) -> i32 {
    if weights.bytes <= usable || weights.bytes == 0 {
        return ALL;
    }
    let layers = u128::from(weights.layers) * u128::from(usable) / u128::from(weights.bytes);
    i32::try_from(layers).unwrap_or(ALL)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const FEATURES: [(&str, bool); 2] = [("cuda", false), ("vulkan", true)];

    fn device(name: &str, kind: DeviceKind, memory_free: u64) -> FoundDevice {
        FoundDevice {
            name: name.to_owned(),
            description: format!("Maker's {name}"),
            backend: "Vulkan".to_owned(),
            kind,
            memory_free,
            memory_total: memory_free,
            index: 0,
        }
    }

    fn machine() -> Vec<FoundDevice> {
        vec![
            device("CPU", DeviceKind::Processor, 64 << 30),
            device("Vulkan0", DeviceKind::IntegratedGpu, 32 << 30),
            device("Vulkan1", DeviceKind::Gpu, 4 << 30),
            device("Vulkan2", DeviceKind::Gpu, 8 << 30),
        ]
    }

    fn chosen(wanted: &str, found: Vec<FoundDevice>) -> Result<Option<String>, String> {
        let device = choose(&wanted.parse().unwrap(), found, &FEATURES);
        device.map(|device| device.map(|device| device.name)).map_err(|error| error.to_string())
    }

    #[test]
    fn auto_takes_the_dedicated_device_with_the_most_room() {
        assert_eq!(chosen("auto", machine()), Ok(Some("Vulkan2".to_owned())));
        let mut without = machine();
        without.truncate(2);
        assert_eq!(chosen("auto", without), Ok(Some("Vulkan0".to_owned())));
        let mut processor = machine();
        processor.truncate(1);
        assert_eq!(chosen("auto", processor), Ok(None));
        assert_eq!(chosen("cpu", machine()), Ok(None));
        assert_eq!(
            chosen("vulkan1", machine()),
            Ok(Some("Vulkan1".to_owned())),
            "letter case does not count"
        );
    }

    #[test]
    fn a_device_that_is_not_there_is_an_error_that_names_those_that_are() {
        let error = chosen("vulkan7", machine()).unwrap_err();
        assert!(
            error.contains("\"vulkan7\"") && error.contains("Vulkan2 (Vulkan, Maker's Vulkan2)"),
            "{error}"
        );
        assert!(!error.contains("driver"), "{error}");
        let error = chosen("vulkan0", Vec::new()).unwrap_err();
        assert!(error.contains("driver"), "{error}");
        let error = chosen("cuda0", machine()).unwrap_err();
        assert!(error.contains("--features full,cuda"), "{error}");
        let nothing = [("cuda", false), ("vulkan", false)];
        let error = choose(&"vulkan0".parse().unwrap(), Vec::new(), &nothing).unwrap_err();
        assert!(error.to_string().contains("--features full,vulkan"), "{error}");
        let error = choose(&"toaster".parse().unwrap(), Vec::new(), &nothing).unwrap_err();
        assert!(error.to_string().contains("one of cuda vulkan"), "{error}");
    }

    #[test]
    fn as_many_layers_as_there_is_room_for() {
        let weights = Weights { bytes: 8 << 30, layers: 32, ..Weights::default() };
        let of = |free| room(&[device("Vulkan0", DeviceKind::Gpu, free)], weights);
        assert_eq!(of(16 << 30), ALL);
        assert_eq!(of(5 << 30), 16, "4 GiB of 8, since 1 GiB is left free");
        assert_eq!(of(1 << 30), 0);
        assert_eq!(of(0), ALL, "it does not say what is free");
        let place = |chosen: Option<FoundDevice>, gpu_layers| {
            let placement = Placement { gpu_layers, ..Placement::default() };
            Place::on(chosen.clone(), chosen.into_iter().collect(), &placement, weights).unwrap()
        };
        let gpu = || Some(device("Vulkan0", DeviceKind::Gpu, 5 << 30));
        assert_eq!(place(gpu(), GpuLayers::Auto).label(), "Vulkan0 (Vulkan, Maker's Vulkan0), 16 layers");
        assert_eq!(place(gpu(), GpuLayers::Count(0)), Place::default(), "none is the processor");
        assert_eq!(place(None, GpuLayers::Count(9)).label(), "cpu");
    }

    #[test]
    fn a_model_without_room_on_one_device_lies_on_all_that_are_alike() {
        let weights = Weights { bytes: 10 << 30, layers: 40, experts: 8 << 30, ..Weights::default() };
        let on = |placement: &Placement| {
            let chosen = choose(&placement.device, machine(), &FEATURES)?;
            Place::on(chosen, machine(), placement, weights)
        };
        let names =
            |place: &Place| place.gpus.iter().map(|gpu| gpu.name.clone()).collect::<Vec<_>>().join(" ");
        let auto = Placement::default();
        let place = on(&auto).unwrap();
        assert_eq!((names(&place).as_str(), place.layers), ("Vulkan1 Vulkan2", ALL), "3 and 7 GiB are free");
        let named = Placement { device: "vulkan2".parse().unwrap(), ..auto.clone() };
        let place = on(&named).unwrap();
        assert_eq!((names(&place).as_str(), place.layers), ("Vulkan2", 28), "a name is one device");
        let few = Placement { gpu_layers: GpuLayers::Count(20), ..auto.clone() };
        assert_eq!(names(&on(&few).unwrap()), "Vulkan2", "so many have room on one");
        let without_experts = Placement { cpu_moe: true, ..auto.clone() };
        let place = on(&without_experts).unwrap();
        assert_eq!((names(&place).as_str(), place.layers), ("Vulkan2", ALL), "2 GiB are left of it");
        assert!(place.label().ends_with(", experts on the processor"), "{}", place.label());
        let shares = |shares: &[f32]| Placement { tensor_split: shares.to_vec(), ..auto.clone() };
        let place = on(&shares(&[1.0, 3.0])).unwrap();
        assert_eq!(
            (names(&place).as_str(), place.layers),
            ("Vulkan1 Vulkan2", 37),
            "7 GiB for three quarters"
        );
        assert!(place.label().ends_with(", shares 1:3"), "{}", place.label());
        for wrong in [&[1.0, 1.0, 1.0][..], &[-1.0, 2.0]] {
            let error = on(&shares(wrong)).unwrap_err().to_string();
            assert!(error.contains("each of 2 devices: Vulkan1 (Vulkan"), "{error}");
        }
        let named = Placement { device: "vulkan2".parse().unwrap(), ..shares(&[1.0]) };
        assert!(on(&named).unwrap_err().to_string().contains("without --device NAME"));
        let processor = Placement { device: Device::Cpu, ..shares(&[1.0]) };
        assert_eq!(on(&processor).unwrap_err().kind(), Kind::Device);
    }
}
