//! How fast a device evaluates the model, and up to which width batches keep every bit.

use super::{Kernels, Measured, Report, Speed, Width};
use crate::bench::device::{self, Plan};
use crate::host::Host;

/// The prompt that is timed, in tokens.
const PROMPT: usize = 256;
const SHORT_PROMPT: usize = 64;
/// The widths of batches that are tried.
const WIDTHS: [usize; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16];
const FEW_WIDTHS: [usize; 3] = [1, 7, 8];

pub(super) fn measure<H: Host>(
    measured: &Measured<'_, H>,
    quick: bool,
    report: &mut Report,
) -> anyhow::Result<()> {
    let plan = match quick {
        true => Plan { prompts: &[SHORT_PROMPT], widths: &FEW_WIDTHS, written: 8 },
        false => Plan { prompts: &[PROMPT], widths: &WIDTHS, written: 48 },
    };
    let found = device::measure(&measured.file, H::hardware(measured.device)?, &plan, &mut || ())?;
    let prefill = found.prefill.first().map_or(0.0, |prompt| prompt.tokens_per_second);
    report.device = found.device;
    report.kernels = kernels(&found.widths);
    let widths = found.widths.iter();
    let widths = widths.map(|row| Width { width: row.width, ms: row.ms, same_bits: row.same_bits }).collect();
    report.speed = Speed { prefill, decode: found.decode.tokens_per_second, widths };
    Ok(())
}

fn kernels(widths: &[device::Width]) -> Kernels {
    let exact = widths.iter().take_while(|row| row.same_bits).map(|row| row.width).max();
    let noise = widths.iter().filter(|row| !row.same_bits).map(|row| row.gap_most);
    Kernels { exact_len: exact.unwrap_or(1), noise: noise.reduce(f64::max) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_widths_end_where_the_first_changes_a_bit() {
        let row = |width, same_bits, gap_most| device::Width {
            width,
            same_bits,
            gap_most,
            ..device::Width::default()
        };
        let found = kernels(&[
            row(1, true, 0.0),
            row(4, true, 0.0),
            row(8, false, 0.2),
            row(9, true, 0.0),
            row(16, false, 0.3),
        ]);
        assert_eq!(found, Kernels { exact_len: 4, noise: Some(0.3) });
        assert_eq!(kernels(&[]), Kernels { exact_len: 1, noise: None });
    }
}
