//! Whether the model's marks are known to its weights, and which tool it calls.

use std::collections::BTreeMap;

use toolgate_chat::{Demonstrations, ToolSpec};
use toolgate_engine::models::Profile;
use toolgate_engine::stages::{ToolSignals, share_of};
use toolgate_engine::{ChoiceWeights, LocalEngine, Options, Sampling, Signal, TurnRequest};
use toolgate_infer::Untrained;
use toolgate_llama::LlamaBackend;

use super::{Confusion, Measured, Report, share};
use crate::decision::{Case, Data, State, Wanted, signals};
use crate::host::Host;

/// A choice counts as no worse than this share of an even one: a single one that is far off says little.
pub(super) const LEAST: f64 = 0.05;
/// Requests that tell whether a mark is known.
const MARKED: usize = 8;
/// The shares of the bias towards tools that may be taken off.
const SHARES: [f64; 4] = [0.0, 0.4, 0.7, 1.0];
/// The weights that the list "which function is next" may have in the choice.
const NEXT: [f64; 3] = [0.0, 0.5, 1.0];
/// The weights that a request for a change may have.
const CHANGE: [f64; 2] = [0.0, 1.0];
/// The weights that a call which was made may have. Nearly all runs of the data go on with another tool, and users' runs less often so.
const CALLED: [f64; 3] = [0.0, -1.0, -2.0];
/// What a weight has to add to the logarithm of the likelihood of all requests, or it is left out (Akaike 1974).
const WORTH: f64 = 1.0;
/// The share of right tools from which on a model is offered what small ones misuse.
const SURE: f64 = 0.95;

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

/// Whether it tells something of the choice between tools: a call is wanted, of a tool that may be known. Behind a failure it is the same
/// tool, with few exceptions.
pub(super) fn is_choice(wanted: &Wanted) -> bool {
    wanted.call && wanted.state != State::AfterFailure
}

/// How tools are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Choosing {
    /// The share of the bias that is taken off.
    bias: f64,
    weights: ChoiceWeights,
}

impl Choosing {
    /// The one that makes the right tools of these requests likeliest. How many are right moves by chance with so few requests.
    pub(super) fn fit(asked: &[&Case<'_>], data: &Data) -> Self {
        let mut ways = Vec::new();
        for bias in SHARES {
            for next in NEXT {
                for change in CHANGE {
                    ways.extend(
                        CALLED.map(|called| Self { bias, weights: ChoiceWeights { next, change, called } }),
                    );
                }
            }
        }
        Self::likeliest(ways, asked, data)
    }

    /// The same where nothing but the tools' own likelihoods was asked.
    pub(super) fn fit_to_bias(asked: &[&Case<'_>], data: &Data) -> Self {
        Self::likeliest(SHARES.map(|bias| Self { bias, ..Self::default() }), asked, data)
    }

    /// Of these ways, the first of those that make the right tools likeliest.
    fn likeliest(ways: impl IntoIterator<Item = Self>, asked: &[&Case<'_>], data: &Data) -> Self {
        let worth = |way: Self| -> f64 {
            let ChoiceWeights { next, change, called } = way.weights;
            let weighed = [next, change, called].into_iter().filter(|weight| *weight != 0.0).count();
            let of = |case: &&Case<'_>| Choice::of(case, way, data).likelihood;
            asked.iter().map(of).sum::<f64>() - WORTH * weighed as f64
        };
        let known = ways.into_iter().map(|way| (worth(way), way));
        known.reduce(|best, other| if other.0 > best.0 { other } else { best }).unwrap_or_default().1
    }
}

/// What a model makes of a request for a call.
pub(super) struct Choice<'t> {
    /// The likeliest tool.
    tool: Option<&'t str>,
    /// Whether it is a right one.
    pub(super) is_right: bool,
    /// How likely the right ones are, as a logarithm.
    pub(super) likelihood: f64,
}

impl<'t> Choice<'t> {
    /// Of a request, where tools are chosen so.
    pub(super) fn of(case: &Case<'_>, choosing: Choosing, data: &'t Data) -> Self {
        let (signals, tools) = (&case.signals, data.tools(&case.wanted.set));
        let (transcript, sampling) = (case.wanted.transcript(), Sampling::default());
        let told = ToolSignals {
            own: signals.tools.clone(),
            bias: signals.bias.clone(),
            named: signals.named.clone(),
            change: signals.change,
        };
        let request = TurnRequest::new(&transcript, tools, &sampling);
        let weights = choosing.weights.weigh(&told, choosing.bias, &request, tools);
        let tool = likeliest(&weights, tools);
        let is_right = tool.is_some_and(|tool| case.wanted.is_right(tool));
        Self { tool, is_right, likelihood: likelihood(&weights, tools, case.wanted) }
    }
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

/// How likely the right tools are by these weights, as a logarithm.
fn likelihood(weights: &[f64], tools: &[ToolSpec], wanted: &Wanted) -> f64 {
    let share = share_of(tools, weights, |tool| wanted.is_right(tool.name.as_str()));
    share.max(LEAST / tools.len().max(1) as f64).ln()
}

/// The tool of most weight.
fn likeliest<'t>(weights: &[f64], tools: &'t [ToolSpec]) -> Option<&'t str> {
    let best = weights.iter().zip(tools).max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.map(|(_, tool)| tool.name.as_str())
}

/// What the choice of tools weighs, and which tools are taken for others.
pub(super) fn choice<H: Host>(
    measured: &Measured<'_, H>,
    known: &[Case<'_>],
    report: &mut Report,
    profile: &mut Profile,
) {
    let asked: Vec<_> = known.iter().filter(|case| is_choice(case.wanted)).collect();
    let choosing = Choosing::fit(&asked, &measured.data);
    profile.defaults.tool_bias = Some(choosing.bias);
    profile.defaults.choice = Some(choosing.weights).filter(|weights| *weights != ChoiceWeights::default());
    let mut right = 0;
    let mut confusions: BTreeMap<(String, String), usize> = BTreeMap::new();
    let first: Vec<_> = asked.into_iter().filter(|case| case.wanted.state == State::First).collect();
    for case in &first {
        let choice = Choice::of(case, choosing, &measured.data);
        right += usize::from(choice.is_right);
        if let Some(tool) = choice.tool.filter(|_| !choice.is_right) {
            let pair = (case.wanted.tool.clone().unwrap_or_default(), tool.to_owned());
            *confusions.entry(pair).or_default() += 1;
        }
    }
    let tools = &mut report.tools;
    tools.asked = first.len();
    tools.accuracy = share(right, first.len());
    tools.confusions =
        confusions.into_iter().map(|((wanted, chosen), n)| Confusion { wanted, chosen, n }).collect();
    tools.confusions.sort_by_key(|confusion| std::cmp::Reverse(confusion.n));
    // Whoever mistakes tools mistakes parameters that help now and then, too.
    let is_sure = tools.accuracy >= SURE;
    profile.defaults.advanced_parameters = Some(is_sure);
    profile.defaults.memory_tools = Some(is_sure);
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

    #[test]
    fn what_tells_the_right_tool_is_weighed_and_what_tells_nothing_is_left_out() -> anyhow::Result<()> {
        let data = Data::read()?;
        // A model that repeats the tool that it called last, and otherwise does not know which one is wanted.
        let told = |wanted| {
            let mut case = Case { wanted, signals: toolgate_engine::Signals::default(), overlap: 0.0 };
            let tools = data.tools(&wanted.set);
            let run = wanted.transcript();
            let last = run.calls_of_run().last().map(|(call, _)| call.name.clone());
            let each = |of: &dyn Fn(&str) -> f64| tools.iter().map(|tool| of(tool.name.as_str())).collect();
            case.signals.tools = each(&|name| if last.as_deref() == Some(name) { 0.0 } else { -1.5 });
            case.signals.bias = each(&|_| -1.0);
            case.signals.named = each(&|name| if wanted.is_right(name) { -0.5 } else { -3.0 });
            case.signals.change = 0.5;
            case
        };
        let known: Vec<Case<'_>> =
            data.requests.iter().filter(|wanted| is_choice(wanted)).map(told).collect();
        let asked: Vec<&Case<'_>> = known.iter().collect();
        let choosing = Choosing::fit(&asked, &data);
        assert!(choosing.weights.next > 0.0 && choosing.weights.called < 0.0, "{choosing:?}");
        assert_eq!((choosing.bias, choosing.weights.change), (0.0, 0.0), "they tell nothing: {choosing:?}");
        let right = |choosing| asked.iter().filter(|case| Choice::of(case, choosing, &data).is_right).count();
        assert!(right(choosing) > right(Choosing::default()) + 20);
        assert_eq!(Choosing::fit(&[], &data), Choosing::default());
        Ok(())
    }

    #[test]
    fn the_likelihood_is_that_of_all_right_tools_and_has_a_bottom() -> anyhow::Result<()> {
        let data = Data::read()?;
        let is_one =
            |wanted: &&Wanted| wanted.state == State::First && wanted.tool.as_deref() == Some("read_file");
        let wanted = data.requests.iter().find(is_one).ok_or_else(|| anyhow::anyhow!("no such request"))?;
        let tools = data.tools(&wanted.set);
        let of = |own: f64| {
            let weight = |tool: &ToolSpec| if tool.name.as_str() == "read_file" { own } else { 0.0 };
            likelihood(&tools.iter().map(weight).collect::<Vec<f64>>(), tools, wanted)
        };
        let (even, least) = (1.0 / tools.len() as f64, LEAST / tools.len() as f64);
        assert!((of(0.0) - even.ln()).abs() < 1e-9 && of(20.0) > -1e-6);
        assert!((of(-20.0) - least.ln()).abs() < 1e-9);
        Ok(())
    }
}
