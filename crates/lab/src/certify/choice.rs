//! Third step: which tool the model calls. What its choice weighs is fitted to the requests that want a call.
//!
//! Weights are taken where they make the right tools likelier for sets of tools that they were not fitted to.

use std::collections::{BTreeMap, BTreeSet};

use toolgate_agent::Hints;
use toolgate_agent::client::ClientTurn;
use toolgate_chat::{ToolSpec, Transcript};
use toolgate_engine::models::Profile;
use toolgate_engine::stages::{CHOICE_NUMBERS, ToolSignals, share_of};
use toolgate_engine::{ChoiceModel, ChoiceWeights, Sampling, TurnRequest};

use super::decide::rounded;
use super::{Confusion, Measured, Report, share};
use crate::decision::{Alternative, Case, Data, Held, State, Wanted, fit_choice};
use crate::host::Host;

/// A choice counts as no worse than this share of an even one: a single one that is far off says little.
pub(super) const LEAST: f64 = 0.05;
/// The shares of the bias towards tools that may be taken off.
const SHARES: [f64; 4] = [0.0, 0.4, 0.7, 1.0];
/// What the weights before a first call are held to, near those of the 0.5 B model (docs/measurements/decision.md).
const FIRST: ChoiceWeights =
    ChoiceWeights { own: 0.5, next: 0.3, change: 2.0, change_bias: 0.6, called: 0.0 };
/// The same behind results.
const AFTER: ChoiceWeights =
    ChoiceWeights { own: 0.15, next: 0.35, change: 1.2, change_bias: 1.0, called: -1.7 };
/// How many cases weigh as much as those.
const FIRMLY: f64 = 2.0;
/// The share of right tools from which on a model is offered what small ones misuse.
const SURE: f64 = 0.95;

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
    model: ChoiceModel,
}

impl Choosing {
    /// What makes the right tools of these requests likeliest; and for each request the same, fitted to other sets of tools than its own.
    pub(super) fn fit<'c, 'd>(asked: &[&'c Case<'d>], data: &Data) -> (Self, Vec<(&'c Case<'d>, Self)>) {
        let plain = Self::fit_to_bias(asked, data);
        let across = Self::across(asked, data);
        // Each part is worth what it brings by itself.
        let brings = |is_first: bool| {
            let of = |(case, way): &(&Case<'_>, Self)| {
                Choice::of(case, *way, data).likelihood - Choice::of(case, plain, data).likelihood
            };
            across.iter().filter(|(case, _)| is_of_first(case) == is_first).map(of).sum::<f64>() > 0.0
        };
        let (first, after) = (brings(true), brings(false));
        let only = |way: Self| {
            let ChoiceModel { first: f, after: a } = way.model;
            Self { model: ChoiceModel { first: f.filter(|_| first), after: a.filter(|_| after) }, ..way }
        };
        let ways = across.into_iter().map(|(case, way)| (case, only(way))).collect();
        (only(plain.with_weights(asked, data)), ways)
    }

    /// The same where nothing but the tools' own likelihoods was asked.
    pub(super) fn fit_to_bias(asked: &[&Case<'_>], data: &Data) -> Self {
        let worth =
            |way: Self| -> f64 { asked.iter().map(|case| Choice::of(case, way, data).likelihood).sum() };
        let known = SHARES.map(|bias| Self { bias, ..Self::default() }).map(|way| (worth(way), way));
        known
            .into_iter()
            .reduce(|best, other| if other.0 > best.0 { other } else { best })
            .unwrap_or_default()
            .1
    }

    /// The same share of the bias, with weights that were fitted to these requests.
    fn with_weights(self, asked: &[&Case<'_>], data: &Data) -> Self {
        let (first, after): (Vec<_>, Vec<_>) = asked.iter().copied().partition(is_of_first);
        let first = self.weights(&first, FIRST, data);
        Self { model: ChoiceModel { first, after: self.weights(&after, AFTER, data) }, ..self }
    }

    /// Each request, with what was fitted to the requests of all other sets of tools.
    fn across<'c, 'd>(asked: &[&'c Case<'d>], data: &Data) -> Vec<(&'c Case<'d>, Self)> {
        let sets: BTreeSet<&str> = asked.iter().map(|case| case.wanted.set.as_str()).collect();
        let of_set = |set: &str| {
            let (own, others): (Vec<_>, Vec<_>) =
                asked.iter().copied().partition(|case| case.wanted.set == set);
            let way = Self::fit_to_bias(&others, data).with_weights(&others, data);
            own.into_iter().map(move |case| (case, way))
        };
        sets.into_iter().flat_map(of_set).collect()
    }

    /// Weights that make the right tools of these requests likeliest. One that comes out against what its number tells is left out.
    fn weights(self, asked: &[&Case<'_>], held: ChoiceWeights, data: &Data) -> Option<ChoiceWeights> {
        let cases: Vec<Vec<Alternative>> = asked.iter().map(|case| self.alternatives(case, data)).collect();
        let mut start = held.plain();
        let mut free = start.map(|weight| weight != 0.0);
        loop {
            let found = fit_choice(&cases, Held { start: &start, free: &free, firmly: FIRMLY })?;
            let mut weights = [0.0; CHOICE_NUMBERS];
            weights.iter_mut().zip(found).for_each(|(weight, found)| *weight = rounded(found));
            let weights = ChoiceWeights::from_plain(weights);
            let ChoiceWeights { own, next, change, called, .. } = weights;
            let wrong = [own < 0.0, next < 0.0, change < 0.0, false, called > 0.0];
            if !wrong.contains(&true) {
                return Some(weights);
            }
            for ((start, free), is_wrong) in start.iter_mut().zip(&mut free).zip(wrong) {
                if is_wrong {
                    (*start, *free) = (0.0, false);
                }
            }
        }
    }

    /// The tools of a request, as a choice.
    fn alternatives(self, case: &Case<'_>, data: &Data) -> Vec<Alternative> {
        let (transcript, sampling, tools) =
            (case.wanted.transcript(), Sampling::default(), data.tools(&case.wanted.set));
        let request = request(&transcript, tools, &sampling);
        let numbers = told(case).numbers(self.bias, &request, tools);
        let is_right = tools.iter().map(|tool| case.wanted.is_right(tool.name.as_str()));
        numbers.into_iter().map(|numbers| numbers.to_vec()).zip(is_right).collect()
    }
}

fn is_of_first(case: &&Case<'_>) -> bool {
    case.wanted.state == State::First
}

/// The turn that is asked for, with what its words leave open.
fn request<'t>(transcript: &'t Transcript, tools: &'t [ToolSpec], sampling: &'t Sampling) -> TurnRequest<'t> {
    let stands = ClientTurn::of(transcript, tools, false, &Hints::auto());
    TurnRequest::new(transcript, tools, sampling).pending(stands.pending)
}

/// What the model tells of the tools of a request.
fn told(case: &Case<'_>) -> ToolSignals {
    let signals = &case.signals;
    ToolSignals {
        own: signals.tools.clone(),
        bias: signals.bias.clone(),
        named: signals.named.clone(),
        change: signals.change,
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
        let (transcript, tools) = (case.wanted.transcript(), data.tools(&case.wanted.set));
        let sampling = Sampling::default();
        let request = request(&transcript, tools, &sampling);
        let weights = choosing.model.weigh(&told(case), choosing.bias, &request, tools);
        let tool = likeliest(&weights, tools);
        let is_right = tool.is_some_and(|tool| case.wanted.is_right(tool));
        Self { tool, is_right, likelihood: likelihood(&weights, tools, case.wanted) }
    }
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
    // Of a single tool nothing is told.
    let is_told = |case: &&Case<'_>| is_choice(case.wanted) && case.signals.tools.len() > 1;
    let asked: Vec<_> = known.iter().filter(is_told).collect();
    let (choosing, across) = Choosing::fit(&asked, &measured.data);
    profile.defaults.tool_bias = Some(choosing.bias);
    profile.defaults.choice = Some(choosing.model).filter(|model| *model != ChoiceModel::default());
    let mut right = 0;
    let mut confusions: BTreeMap<(String, String), usize> = BTreeMap::new();
    let first: Vec<_> = across.into_iter().filter(|(case, _)| is_of_first(case)).collect();
    for (case, choosing) in &first {
        let choice = Choice::of(case, *choosing, &measured.data);
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
        let (choosing, across) = Choosing::fit(&asked, &data);
        let ChoiceModel { first, after } = choosing.model;
        assert!(first.is_some_and(|first| first.next > FIRST.next && first.called == 0.0), "{choosing:?}");
        assert!(after.is_some_and(|after| after.next > AFTER.next && after.called < 0.0), "{choosing:?}");
        assert_eq!(choosing.bias, 0.0, "it tells nothing: {choosing:?}");
        let right = |(case, way): &(&Case<'_>, Choosing)| Choice::of(case, *way, &data).is_right;
        let plain = asked.iter().map(|case| (*case, Choosing::default()));
        let plain = plain.filter(right).count();
        assert!(
            across.iter().filter(|way| right(way)).count() > plain + 20,
            "for sets that it was not fitted to"
        );
        assert_eq!(Choosing::fit(&[], &data).0, Choosing::default());
        Ok(())
    }

    #[test]
    fn weights_that_bring_nothing_for_other_tools_are_left_out() -> anyhow::Result<()> {
        let data = Data::read()?;
        // A model that knows the right tool, and whose list tells the contrary.
        let told = |wanted| {
            let mut case = Case { wanted, signals: toolgate_engine::Signals::default(), overlap: 0.0 };
            let each = |of: &dyn Fn(bool) -> f64| {
                data.tools(&wanted.set).iter().map(|tool| of(wanted.is_right(tool.name.as_str()))).collect()
            };
            case.signals.tools = each(&|is_right| if is_right { -0.01 } else { -9.0 });
            case.signals.bias = each(&|_| -1.0);
            case.signals.named = each(&|is_right| if is_right { -6.0 } else { -0.5 });
            case
        };
        let known: Vec<Case<'_>> =
            data.requests.iter().filter(|wanted| is_choice(wanted)).step_by(4).map(told).collect();
        let asked: Vec<&Case<'_>> = known.iter().collect();
        let ChoiceModel { first, after } = Choosing::default().with_weights(&asked, &data).model;
        assert!(first.is_some() && after.is_some(), "there are requests enough to fit to");
        assert_eq!(Choosing::fit(&asked, &data).0.model, ChoiceModel::default());
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
