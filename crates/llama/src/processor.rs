//! Checks that this processor has the instructions that llama.cpp was built with. Without them a program ends in the middle
//! of an evaluation, without a message.
//!
//! On x86-64 llama.cpp is built for AVX2, FMA, F16C and BMI2. Variables named like its options add more when this package is
//! built (`GGML_AVX512=ON`, `GGML_AVX512_VNNI=ON`, …; `llama-cpp-sys-2` hands them on).

use crate::threads::physical_cores;
use crate::{Error, Kind, state};

/// A set of instructions that llama.cpp can use.
///
/// ```
/// use toolgate_llama::instructions;
/// let missing = instructions().into_iter().find(|set| set.used && !set.there);
/// assert_eq!(missing, None, "with one, no model would be loaded");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instructions {
    /// Its name, as in `is_x86_feature_detected!`.
    pub name: &'static str,
    /// Whether this build uses it.
    pub used: bool,
    /// Whether this processor has it.
    pub there: bool,
}

/// Refuses a processor that lacks instructions of the build.
pub(crate) fn check() -> Result<(), Error> {
    refuse(&instructions())
}

fn refuse(instructions: &[Instructions]) -> Result<(), Error> {
    let missing = instructions.iter().filter(|set| set.used && !set.there);
    let missing: Vec<&str> = missing.map(|set| set.name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!(
        "this program was built for processors with {}, which this one has not: build it on this machine without GGML_… \
         variables, or for a processor like this one",
        missing.join(", ")
    );
    Err(Error::new(Kind::Processor, message))
}

/// The sets of instructions that this build uses, and those that another build could use.
#[cfg(target_arch = "x86_64")]
pub fn instructions() -> Vec<Instructions> {
    let wide = is_on(option_env!("GGML_AVX512"));
    macro_rules! sets {
        ($($name:tt: $used:expr),* $(,)?) => {
            vec![$(Instructions { name: $name, used: $used, there: is_x86_feature_detected!($name) }),*]
        };
    }
    sets![
        "avx2": true,
        "fma": true,
        "f16c": true,
        "bmi2": true,
        "avx512f": wide,
        "avx512cd": wide,
        "avx512vl": wide,
        "avx512dq": wide,
        "avx512bw": wide,
        "avx512vbmi": is_on(option_env!("GGML_AVX512_VBMI")),
        "avx512vnni": is_on(option_env!("GGML_AVX512_VNNI")),
        "avx512bf16": is_on(option_env!("GGML_AVX512_BF16")),
        "avxvnni": is_on(option_env!("GGML_AVX_VNNI")),
    ]
}

/// None: elsewhere llama.cpp is built for the instructions that every processor of the kind has.
#[cfg(not(target_arch = "x86_64"))]
pub fn instructions() -> Vec<Instructions> {
    Vec::new()
}

/// The parts of a machine and a build that decide the speed of a model: the pinned llama.cpp, the instructions that it was
/// built for, and the processors that this process may use.
///
/// ```
/// use toolgate_llama::machine;
/// let text = machine();
/// assert!(text.starts_with("llama-cpp-sys-2 ") && text.ends_with("hardware threads"), "{text}");
/// assert_eq!(text, machine(), "so that what was measured here can be told from what was not");
/// ```
pub fn machine() -> String {
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "llama-cpp-sys-2 {}; {}; {} cores, {allowed} hardware threads",
        state::LLAMA_CPP,
        state::system(),
        physical_cores()
    )
}

/// Whether CMake takes a value for true.
#[cfg(any(target_arch = "x86_64", test))]
fn is_on(value: Option<&str>) -> bool {
    value.is_some_and(|value| ["1", "on", "yes", "true", "y"].iter().any(|on| value.eq_ignore_ascii_case(on)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_and_not_there_is_named() {
        assert!(check().is_ok(), "these tests run on the processor they were built for");
        let set = |name, used, there| Instructions { name, used, there };
        assert!(refuse(&[set("a", true, true), set("b", false, false)]).is_ok());
        let lacking =
            [set("a", true, true), set("b", true, false), set("c", false, false), set("d", true, false)];
        assert!(refuse(&lacking).is_err_and(|error| error.to_string().contains("with b, d, which")));
        assert!(is_on(Some("ON")) && is_on(Some("1")) && !is_on(Some("OFF")) && !is_on(None));
    }
}
