//! Whether the model's marks of calls are known to its weights.

use toolgate_chat::Demonstrations;
use toolgate_engine::{LocalEngine, Options, Signal};
use toolgate_infer::Untrained;
use toolgate_llama::LlamaBackend;

use super::{Measured, Report};
use crate::decision::{State, Wanted, signals};
use crate::host::Host;

/// Requests that tell whether a mark is known.
const MARKED: usize = 8;

/// The options that are measured with.
pub(super) fn options(untrained: &Untrained, demonstrations: Demonstrations) -> Options {
    // Where no bias is taken off, tools are not weighed.
    Options::guided().tool_bias(f64::MIN_POSITIVE).untrained(untrained.clone()).demonstrations(demonstrations)
}

/// The marks of calls that the weights do not know: those with which calls are surely likelier when they are written in letters. Weights
/// that know a mark hardly expect its letters.
pub(super) fn trained<H: Host>(
    measured: &Measured<'_, H>,
    calls: &[String],
    report: &mut Report,
) -> anyhow::Result<(Untrained, LocalEngine<LlamaBackend>)> {
    let engine = measured.load(options(&Untrained::default(), Demonstrations::None))?;
    let marks = report
        .marks
        .iter()
        .filter(|mark| mark.token.is_some() && calls.iter().any(|text| text.contains(&mark.text)));
    let Ok(letters) = Untrained::new(marks.map(|mark| mark.text.clone())) else {
        return Ok((Untrained::default(), engine));
    };
    if letters.is_empty() {
        return Ok((letters, engine));
    }
    H::note("whether its weights know the marks of calls");
    let wanted = measured.data.requests.iter().filter(|wanted| wanted.call && wanted.state == State::First);
    let asked: Vec<&Wanted> = wanted.filter(|wanted| wanted.set == "local_files").take(MARKED).collect();
    let odds = |engine: &LocalEngine<LlamaBackend>| -> anyhow::Result<Vec<f64>> {
        let odds = |wanted: &&Wanted| {
            signals(engine, wanted, measured.data.tools(&wanted.set), &[Signal::Call]).map(|told| told.call)
        };
        asked.iter().map(odds).collect()
    };
    let as_tokens = odds(&engine)?;
    drop(engine);
    let other = measured.load(options(&letters, Demonstrations::None))?;
    if !are_surely_greater(&odds(&other)?, &as_tokens) {
        drop(other);
        let engine = measured.load(options(&Untrained::default(), Demonstrations::None))?;
        return Ok((Untrained::default(), engine));
    }
    let unknown: Vec<String> = letters.names().map(str::to_owned).collect();
    for mark in &mut report.marks {
        mark.trained &= !unknown.contains(&mark.text);
    }
    Ok((letters, other))
}

/// Whether numbers are greater than others in their places by more than chance: by the standard error of the mean difference.
fn are_surely_greater(numbers: &[f64], others: &[f64]) -> bool {
    let gains: Vec<f64> = numbers.iter().zip(others).map(|(number, other)| number - other).collect();
    let n = gains.len() as f64;
    let mean = gains.iter().sum::<f64>() / n;
    let variance = gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / (n - 1.0);
    // Of fewer than two there is no variance, and nothing is sure.
    mean > (variance / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_greater_by_chance_is_not_surely_greater() {
        let greater = |numbers: &[f64]| are_surely_greater(numbers, &[-1.0; 6]);
        assert!(greater(&[-0.5, -0.6, -0.4, -0.5, -0.7, -0.9]));
        assert!(!greater(&[-1.0, -1.0, -1.0, -1.0, -1.0, 0.0]), "one of six may be chance");
        assert!(!greater(&[-1.2, -0.8, -1.1, -0.9, -1.0, -1.0]) && !greater(&[-0.1]) && !greater(&[]));
    }
}
