//! Where a model is evaluated and how its context is held, as a caller asks for it. A backend says what it can have.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which device evaluates a model.
///
/// ```
/// use toolgate_infer::Device;
/// assert_eq!("auto".parse(), Ok(Device::Auto));
/// assert_eq!("Vulkan0".parse(), Ok(Device::Named("Vulkan0".to_owned())));
/// assert!("".parse::<Device>().is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Device {
    /// A graphics processor where the backend has one, else the processor.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// The device of this name; letter case does not count.
    Named(String),
}

/// How many layers of a model a graphics processor holds. The processor has the others.
///
/// ```
/// use toolgate_infer::GpuLayers;
/// assert_eq!("auto".parse(), Ok(GpuLayers::Auto));
/// assert_eq!("12".parse(), Ok(GpuLayers::Count(12)));
/// assert!("all".parse::<GpuLayers>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum GpuLayers {
    /// All, or as many as its free memory has room for.
    #[default]
    Auto,
    /// So many at most.
    Count(u32),
}

/// The type of the numbers that a context keeps of each token.
///
/// ```
/// use toolgate_infer::CacheType;
/// assert_eq!("q8_0".parse(), Ok(CacheType::Q8_0));
/// assert_eq!("q9".parse::<CacheType>().unwrap_err().to_string(), "\"q9\" is none of f32 f16 bf16 q8_0 q4_0");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum CacheType {
    /// Four bytes a number.
    F32,
    /// Two bytes a number, with more digits.
    F16,
    /// Two bytes a number, with a wider range.
    Bf16,
    /// 34 bytes for 32 numbers.
    Q8_0,
    /// 18 bytes for 32 numbers.
    Q4_0,
}

/// Whether attention is computed in one kernel, without a matrix of all pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum FlashAttention {
    /// Where the device has it.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// A low-rank adapter (LoRA) of a model: a file of small matrices that are added to its weights.
///
/// ```
/// use toolgate_infer::Adapter;
/// let whole: Adapter = "tools.gguf".parse()?;
/// let half: Adapter = "tools.gguf:0.5".parse()?;
/// assert_eq!((whole.scale, half.scale, whole.path == half.path), (1.0, 0.5, true));
/// assert!("tools.gguf:nan".parse::<Adapter>().is_err());
/// # Ok::<(), toolgate_infer::UnknownWord>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Adapter {
    /// Its file, a GGUF.
    pub path: PathBuf,
    /// What its matrices are multiplied with; 1 is as it was trained.
    pub scale: f32,
}

/// How positions are told to a model beyond the context that it was trained with, in place of what its file says of scaling.
///
/// ```
/// use toolgate_infer::RopeScaling;
/// assert_eq!("yarn:4".parse(), Ok(RopeScaling::Yarn(4.0)));
/// assert_eq!("none".parse(), Ok(RopeScaling::None));
/// assert!("yarn:0.5".parse::<RopeScaling>().is_err(), "a context only grows");
/// assert_eq!(RopeScaling::Linear(2.0).factor(), 2.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RopeScaling {
    /// Without a factor.
    None,
    /// All divided by this factor.
    Linear(f32),
    /// By YaRN (<https://arxiv.org/abs/2309.00071>), for a context of so many times the trained one.
    Yarn(f32),
}

impl RopeScaling {
    /// How many times the context without scaling there is.
    pub fn factor(self) -> f32 {
        match self {
            Self::None => 1.0,
            Self::Linear(factor) | Self::Yarn(factor) => factor,
        }
    }
}

/// Where the weights of a model lie, and what is added to them.
///
/// ```
/// use toolgate_infer::{Device, Placement};
/// let placement = Placement { device: Device::Cpu, ..Placement::default() };
/// assert!(!placement.mlock && !placement.no_mmap && placement.adapter.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Placement {
    /// The device that evaluates. Default: a graphics processor where there is one.
    pub device: Device,
    /// The layers that a graphics processor holds. Default: all that it has room for.
    pub gpu_layers: GpuLayers,
    /// Keeps the weights in memory: the system may not swap them out. Default: it may.
    pub mlock: bool,
    /// Reads the file instead of mapping it into memory. Default: the backend's choice.
    pub no_mmap: bool,
    /// The shares of the layers of several graphics processors, in the order in which they are found. Default: one of them has all.
    /// Where it has no room, they are put on all that are alike, by what each has free.
    pub tensor_split: Vec<f32>,
    /// Keeps the experts of a mixture in the processor's memory, and the rest of the layers on the graphics processor. Default: not.
    pub cpu_moe: bool,
    /// An adapter that is added to the weights. Default: none.
    pub adapter: Option<Adapter>,
}

/// How a context keeps keys and values, and computes attention from them.
///
/// ```
/// use toolgate_infer::{Attention, CacheType};
/// let small = Attention { values: Some(CacheType::Q8_0), ..Attention::default() };
/// assert_ne!(small, Attention::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Attention {
    /// The type of keys. Default: the backend's choice.
    pub keys: Option<CacheType>,
    /// The type of values. Default: the backend's choice.
    pub values: Option<CacheType>,
    /// Whether the kernel without a matrix is used.
    pub flash: FlashAttention,
    /// How positions are told to the model. Default: as its file says.
    pub rope: Option<RopeScaling>,
}

/// A word that names none of the values that there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    word: String,
    known: &'static str,
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is none of {}", self.word, self.known)
    }
}

impl std::error::Error for UnknownWord {}

fn unknown(word: &str, known: &'static str) -> UnknownWord {
    UnknownWord { word: word.to_owned(), known }
}

impl FromStr for Device {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        match word {
            "" => Err(unknown(word, "auto cpu NAME")),
            "auto" => Ok(Self::Auto),
            word if word.eq_ignore_ascii_case("cpu") => Ok(Self::Cpu),
            name => Ok(Self::Named(name.to_owned())),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Cpu => "cpu",
            Self::Named(name) => name,
        })
    }
}

impl FromStr for GpuLayers {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        match word {
            "auto" => Ok(Self::Auto),
            number => number.parse().map(Self::Count).map_err(|_| unknown(word, "auto N")),
        }
    }
}

impl fmt::Display for GpuLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Count(layers) => write!(f, "{layers}"),
        }
    }
}

impl FromStr for Adapter {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        const KNOWN: &str = "these: FILE, FILE:SCALE";
        // The path may have colons of its own.
        let scaled = word.rsplit_once(':').and_then(|(path, scale)| Some((path, scale.parse::<f32>().ok()?)));
        let (path, scale) = scaled.unwrap_or((word, 1.0));
        if path.is_empty() || !scale.is_finite() {
            return Err(unknown(word, KNOWN));
        }
        Ok(Self { path: path.into(), scale })
    }
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path.display(), self.scale)
    }
}

impl FromStr for RopeScaling {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let kind: Option<fn(f32) -> Self> = match word.split_once(':').map_or("", |(kind, _)| kind) {
            "linear" => Some(Self::Linear),
            "yarn" => Some(Self::Yarn),
            _ => None,
        };
        let factor = word.split_once(':').and_then(|(_, factor)| factor.parse::<f32>().ok());
        match (word, kind, factor) {
            ("none", ..) => Ok(Self::None),
            (_, Some(kind), Some(factor)) if (1.0..=MOST_TIMES).contains(&factor) => Ok(kind(factor)),
            _ => Err(unknown(word, "these: none, linear:FACTOR, yarn:FACTOR (factors of 1 to 256)")),
        }
    }
}

/// The most times that a context is stretched: beyond it no model is known to follow.
const MOST_TIMES: f32 = 256.0;

impl fmt::Display for RopeScaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Linear(factor) => write!(f, "linear:{factor}"),
            Self::Yarn(factor) => write!(f, "yarn:{factor}"),
        }
    }
}

/// Words for the values of an enumeration, both ways.
macro_rules! words {
    ($of:ident { $($word:literal: $value:ident),+ $(,)? } $known:literal) => {
        impl FromStr for $of {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                match word {
                    $($word => Ok(Self::$value),)+
                    _ => Err(unknown(word, $known)),
                }
            }
        }

        impl fmt::Display for $of {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$value => $word,)+ })
            }
        }
    };
}

words! { CacheType { "f32": F32, "f16": F16, "bf16": Bf16, "q8_0": Q8_0, "q4_0": Q4_0 } "f32 f16 bf16 q8_0 q4_0" }
words! { FlashAttention { "auto": Auto, "on": On, "off": Off } "auto on off" }

/// Words are what records hold.
macro_rules! recorded {
    ($($of:ident),+) => {
        $(
            impl From<$of> for String {
                fn from(value: $of) -> Self {
                    value.to_string()
                }
            }

            impl TryFrom<String> for $of {
                type Error = UnknownWord;

                fn try_from(word: String) -> Result<Self, UnknownWord> {
                    word.parse()
                }
            }
        )+
    };
}

recorded!(Device, GpuLayers, CacheType, FlashAttention, Adapter, RopeScaling);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn records_hold_words_and_leave_out_nothing() {
        let placement = Placement {
            device: Device::Named("Vulkan0".to_owned()),
            gpu_layers: GpuLayers::Count(3),
            mlock: true,
            tensor_split: vec![3.0, 1.0],
            adapter: Some("a.gguf:0.25".parse().unwrap()),
            ..Placement::default()
        };
        let written = serde_json::to_string(&placement).unwrap();
        assert!(
            written.starts_with(r#"{"device":"Vulkan0","gpu_layers":"3","mlock":true,"no_mmap":false,"#),
            "{written}"
        );
        assert!(written.ends_with(r#""adapter":"a.gguf:0.25"}"#), "{written}");
        assert_eq!(serde_json::from_str::<Placement>(&written).unwrap(), placement);
        assert_eq!(serde_json::from_str::<Placement>("{}").unwrap(), Placement::default());
        for word in ["f32", "f16", "bf16", "q8_0", "q4_0"] {
            assert_eq!(word.parse::<CacheType>().unwrap().to_string(), word);
        }
        for word in ["auto", "on", "off"] {
            assert_eq!(word.parse::<FlashAttention>().unwrap().to_string(), word);
        }
    }

    #[test]
    fn adapters_have_paths_with_colons_and_scales_below_zero() {
        let adapter = |word: &str| word.parse::<Adapter>().map(|adapter| (adapter.path, adapter.scale));
        assert_eq!(adapter("C:/a.gguf"), Ok(("C:/a.gguf".into(), 1.0)));
        assert_eq!(adapter("C:/a.gguf:-2"), Ok(("C:/a.gguf".into(), -2.0)));
        for wrong in ["", ":2", "a.gguf:inf"] {
            assert!(adapter(wrong).is_err(), "{wrong:?}");
        }
        let whole: Adapter = "a:b.gguf".parse().unwrap();
        assert_eq!(whole.to_string().parse(), Ok(whole), "what is written is read");
    }

    #[test]
    fn a_scaled_context_has_a_kind_and_a_factor() {
        for (word, scaling) in [("linear:2", RopeScaling::Linear(2.0)), ("yarn:1.5", RopeScaling::Yarn(1.5))]
        {
            assert_eq!(word.parse(), Ok(scaling));
            assert_eq!(scaling.to_string(), word);
        }
        for wrong in ["", "yarn", "yarn:", "yarn:nan", "linear:0", "longrope:2", "yarn:1000"] {
            assert!(wrong.parse::<RopeScaling>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_processor_is_named_in_any_letters() {
        assert_eq!("CPU".parse(), Ok(Device::Cpu));
    }
}
