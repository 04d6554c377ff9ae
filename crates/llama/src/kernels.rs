//! Beneath a context: how the logits of batches differ from those of single tokens, as far as it was measured.

use toolgate_infer::Attention;

use crate::load::Layout;

/// What batches change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Kernels {
    /// The most tokens of a batch whose logits have the bits of single tokens.
    pub(crate) exact_len: usize,
    /// The change of the difference of two logits by wider batches within a turn. None where turns do without them.
    pub(crate) noise: Option<f32>,
}

impl Kernels {
    /// Where nothing was measured, no batch is exact. Turns take wide ones all the same, and repeat close choices. The bound
    /// is more than three times what the measured kernels change, and more than twice the most that was seen anywhere.
    const UNKNOWN: Self = Self { exact_len: 1, noise: Some(1.0) };

    /// Those of the processor with weights in this layout, or others: a graphics processor's, or those of adapters.
    ///
    /// On x86-64 llama.cpp's matrix kernels for several tokens take over at four in its own layout, and at eight in the file's.
    /// For other processors nothing is known, and every token is evaluated alone.
    ///
    /// The noise with repacked weights was measured with a 1.5 B model over 218 choices, between the likeliest token and the
    /// next: median 0.06, 99th percentile 0.24, maximum 0.28. Twice this bound would be safer, and would repeat three times
    /// as many choices. Weights as in the file allow batches of seven; wider ones gain little.
    pub(crate) fn of(others: bool, layout: Layout, attention: &Attention) -> Self {
        // What was measured are the processor's kernels with our own types of keys and values.
        if others || *attention != Attention::default() {
            return Self::UNKNOWN;
        }
        match layout {
            _ if cfg!(not(target_arch = "x86_64")) => Self { exact_len: 1, noise: None },
            Layout::Mapped => Self { exact_len: 7, noise: None },
            Layout::Repacked => Self { exact_len: 3, noise: Some(0.3) },
        }
    }
}

#[cfg(test)]
mod tests {
    use toolgate_infer::{CacheType, FlashAttention};

    use super::*;

    #[test]
    fn nothing_is_promised_that_was_not_measured() {
        let usual = Attention::default();
        let small = Attention { keys: Some(CacheType::Q8_0), ..usual };
        let flash = Attention { flash: FlashAttention::On, ..usual };
        for layout in [Layout::Mapped, Layout::Repacked] {
            assert_eq!(Kernels::of(true, layout, &usual), Kernels::UNKNOWN);
            assert_eq!(Kernels::of(false, layout, &small), Kernels::UNKNOWN);
            assert_eq!(Kernels::of(false, layout, &flash), Kernels::UNKNOWN);
            assert!(Kernels::of(false, layout, &usual).noise < Kernels::UNKNOWN.noise);
        }
        if cfg!(target_arch = "x86_64") {
            assert_eq!(Kernels::of(false, Layout::Mapped, &usual).exact_len, 7);
            assert_eq!(Kernels::of(false, Layout::Repacked, &usual).exact_len, 3);
        }
    }
}
