//! Whether the model's marks are known to its weights, whether example calls help it, and which tool it calls.

use std::collections::BTreeMap;
use std::time::Instant;

use toolgate_chat::{Demonstrations, ToolSpec};
use toolgate_engine::models::Profile;
use toolgate_engine::{LocalEngine, Options, Signal};
use toolgate_infer::Untrained;
use toolgate_llama::LlamaBackend;

use super::decide::in_order;
use super::{CHOOSING, Confusion, Measured, Report, Tools, share};
use crate::decision::{Case, State, Wanted, signals};
use crate::host::Host;

/// Examples must be worth so much more than none.
const BETTER: f64 = 0.02;
/// Requests that tell whether a mark is known.
const MARKED: usize = 8;
/// How much likelier calls are with marks in letters, as the logarithm of the odds, where the tokens are taken to be unknown.
const UNKNOWN: f64 = 1.0;
/// The share of right tools from which on a model is offered what small ones misuse.
const SURE: f64 = 0.95;

/// The options that are measured with.
pub(super) fn options(untrained: &Untrained, demonstrations: Demonstrations) -> Options {
    // Where no bias is taken off, tools are not weighed.
    Options::guided().tool_bias(f64::MIN_POSITIVE).untrained(untrained.clone()).demonstrations(demonstrations)
}

/// The marks of calls that the weights do not know: those with which calls are much likelier when they are written in letters.
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
    let mean = |engine: &LocalEngine<LlamaBackend>| -> anyhow::Result<f64> {
        let mut sum = 0.0;
        for wanted in &asked {
            sum += signals(engine, wanted, measured.data.tools(&wanted.set), &[Signal::Call])?.call;
        }
        Ok(sum / asked.len().max(1) as f64)
    };
    let as_tokens = mean(&engine)?;
    drop(engine);
    let other = measured.load(options(&letters, Demonstrations::None))?;
    if mean(&other)? - as_tokens < UNKNOWN {
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

/// Whether example calls in front of a conversation help to choose the right tool.
pub(super) fn demonstrations<H: Host>(
    measured: &Measured<'_, H>,
    engine: LocalEngine<LlamaBackend>,
    untrained: &Untrained,
    report: &mut Report,
    profile: &mut Profile,
) -> anyhow::Result<LocalEngine<LlamaBackend>> {
    H::note("which tools it calls, with and without examples");
    let asked: Vec<&Wanted> =
        in_order(&measured.data).into_iter().filter(|wanted| is_choice(wanted)).collect();
    let right = |engine: &LocalEngine<LlamaBackend>, most: usize| -> anyhow::Result<(usize, usize)> {
        let (started, mut right, mut tried) = (Instant::now(), 0, 0);
        for wanted in asked.iter().take(most) {
            let tools = measured.data.tools(&wanted.set);
            let told = signals(engine, wanted, tools, &[Signal::Tools])?;
            tried += 1;
            right += usize::from(likeliest(&told.tools, tools).is_some_and(|tool| wanted.is_right(tool)));
            if started.elapsed() > CHOOSING {
                break;
            }
        }
        Ok((right, tried))
    };
    let (without, tried) = right(&engine, asked.len())?;
    let shown = measured.load(options(untrained, Demonstrations::Calls))?;
    let (with, also) = right(&shown, tried)?;
    let (without, with) = (share(without, tried), share(with, also));
    report.tools = Tools { without, with, ..Tools::default() };
    let (kind, name, engine) = match with > without + BETTER {
        true => (Demonstrations::Calls, "calls", shown),
        false => (Demonstrations::None, "none", engine),
    };
    report.tools.demonstrations = name.to_owned();
    profile.defaults.demonstrations = Some(kind);
    Ok(engine)
}

fn is_choice(wanted: &Wanted) -> bool {
    wanted.call && wanted.state == State::First
}

/// The tool of most weight.
fn likeliest<'t>(weights: &[f64], tools: &'t [ToolSpec]) -> Option<&'t str> {
    let best = weights.iter().zip(tools).max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.map(|(_, tool)| tool.name.as_str())
}

/// How much of the bias towards tools is taken off, and which tools are taken for others.
pub(super) fn choice<H: Host>(
    measured: &Measured<'_, H>,
    known: &[Case<'_>],
    report: &mut Report,
    profile: &mut Profile,
) {
    let asked: Vec<_> = known.iter().filter(|case| is_choice(case.wanted)).collect();
    let chosen = |share: f64| {
        let chosen = |Case { wanted, signals, .. }: &Case<'_>| {
            let unbiased = signals.tools.iter().zip(&signals.bias).map(|(own, bias)| own - share * bias);
            let weights: Vec<f64> = unbiased.collect();
            likeliest(&weights, measured.data.tools(&wanted.set)).map(str::to_owned)
        };
        asked.iter().map(|case| (case.wanted, chosen(case))).collect::<Vec<_>>()
    };
    let right = |share: f64| {
        let is_right = |(wanted, tool): &(&Wanted, Option<String>)| {
            tool.as_ref().is_some_and(|tool| wanted.is_right(tool))
        };
        chosen(share).iter().filter(|case| is_right(case)).count()
    };
    let best = [0.0, 0.4, 0.7, 1.0]
        .into_iter()
        .fold(0.0, |best, share| if right(share) > right(best) { share } else { best });
    profile.defaults.tool_bias = Some(best);
    let mut confusions: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (wanted, tool) in chosen(best) {
        if let Some(tool) = tool.filter(|tool| !wanted.is_right(tool)) {
            *confusions.entry((wanted.tool.clone().unwrap_or_default(), tool)).or_default() += 1;
        }
    }
    let tools = &mut report.tools;
    tools.asked = asked.len();
    tools.accuracy = share(right(best), asked.len());
    tools.confusions =
        confusions.into_iter().map(|((wanted, chosen), n)| Confusion { wanted, chosen, n }).collect();
    tools.confusions.sort_by_key(|confusion| std::cmp::Reverse(confusion.n));
    // Whoever mistakes tools mistakes parameters that help now and then, too.
    let is_sure = tools.accuracy >= SURE;
    profile.defaults.advanced_parameters = Some(is_sure);
    profile.defaults.memory_tools = Some(is_sure);
}
