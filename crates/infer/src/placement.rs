//! Where a model is evaluated and how its context is held, as a caller asks for it. A backend says what it can have.

use std::fmt;
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

/// Where the weights of a model lie.
///
/// ```
/// use toolgate_infer::{Device, Placement};
/// let placement = Placement { device: Device::Cpu, ..Placement::default() };
/// assert!(!placement.mlock && !placement.no_mmap);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Placement {
    /// The device that evaluates. Default: a graphics processor where there is one.
    pub device: Device,
    /// The layers that a graphics processor holds. Default: all that it has room for.
    pub gpu_layers: GpuLayers,
    /// Keeps the weights in memory: the system may not swap them out. Default: it may.
    pub mlock: bool,
    /// Reads the file instead of mapping it into memory. Default: the backend's choice.
    pub no_mmap: bool,
}

/// How a context keeps keys and values, and computes attention from them.
///
/// ```
/// use toolgate_infer::{Attention, CacheType};
/// let small = Attention { values: Some(CacheType::Q8_0), ..Attention::default() };
/// assert_ne!(small, Attention::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attention {
    /// The type of keys. Default: the backend's choice.
    pub keys: Option<CacheType>,
    /// The type of values. Default: the backend's choice.
    pub values: Option<CacheType>,
    /// Whether the kernel without a matrix is used.
    pub flash: FlashAttention,
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

recorded!(Device, GpuLayers, CacheType, FlashAttention);

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
            no_mmap: false,
        };
        let written = serde_json::to_string(&placement).unwrap();
        assert_eq!(written, r#"{"device":"Vulkan0","gpu_layers":"3","mlock":true,"no_mmap":false}"#);
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
    fn the_processor_is_named_in_any_letters() {
        assert_eq!("CPU".parse(), Ok(Device::Cpu));
    }
}
