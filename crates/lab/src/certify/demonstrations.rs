//! First step: whether example calls in front of a conversation suit the model.
//!
//! Only tools that bring examples along show them, as those of toolgate do. So requests are asked whose tools have some, behind nothing
//! and behind the examples. What makes the right turns likelier is taken: whether there is a call, and of which tool.

use toolgate_chat::Demonstrations;
use toolgate_engine::models::Profile;
use toolgate_engine::{LocalEngine, Signal};
use toolgate_infer::Untrained;
use toolgate_llama::LlamaBackend;

use super::choice::{Choice, Choosing, LEAST};
use super::decide::{in_order, told_by_calls};
use super::marks::options;
use super::{CHOOSING, DemonstrationsTried, Measured, Report, share};
use crate::decision::{Case, Data, State, Wanted, ask_all};
use crate::host::Host;

/// The engine with what suits the model.
pub(super) fn demonstrations<H: Host>(
    measured: &Measured<'_, H>,
    engine: LocalEngine<LlamaBackend>,
    untrained: &Untrained,
    report: &mut Report,
    profile: &mut Profile,
) -> anyhow::Result<LocalEngine<LlamaBackend>> {
    H::note("what it calls with and without examples");
    let asked: Vec<&Wanted> =
        in_order(&measured.data).into_iter().filter(|wanted| is_shown(wanted, &measured.data)).collect();
    let without = ask(measured, &engine, &asked)?;
    let other = measured.load(options(untrained, Demonstrations::Calls))?;
    let with = ask(measured, &other, &asked)?;
    // There may not have been time for as many behind each.
    let both = without.len().min(with.len());
    let tried = |name, cases: &[Case<'_>]| tried(name, cases.get(..both).unwrap_or_default(), &measured.data);
    let (without, with) = (tried("none", &without), tried("calls", &with));
    let (kind, suits, engine) = match with.likelihood > without.likelihood {
        true => (Demonstrations::Calls, &with, other),
        false => (Demonstrations::None, &without, engine),
    };
    profile.defaults.demonstrations = Some(kind);
    report.tools.demonstrations.clone_from(&suits.name);
    report.tools.tried = vec![without, with];
    Ok(engine)
}

/// Whether the tools of a first request have examples.
fn is_shown(wanted: &Wanted, data: &Data) -> bool {
    wanted.state == State::First && data.tools(&wanted.set).iter().any(|tool| tool.example.is_some())
}

/// What the model tells of requests, as many as there is time for.
fn ask<'d, H: Host>(
    measured: &'d Measured<'_, H>,
    engine: &LocalEngine<LlamaBackend>,
    asked: &[&'d Wanted],
) -> anyhow::Result<Vec<Case<'d>>> {
    let clock = measured.clock(CHOOSING);
    ask_all(engine, &measured.data, asked, &|_| &[Signal::Call, Signal::Tools], &mut || clock.tick())
}

/// How likely the right turns are by what was told, a mean over requests, as a logarithm.
fn tried(name: &str, cases: &[Case<'_>], data: &Data) -> DemonstrationsTried {
    let cases: Vec<&Case<'_>> = cases.iter().collect();
    let sides: f64 = told_by_calls(&cases)
        .into_iter()
        .map(|(p, call)| if call { p } else { 1.0 - p })
        .map(|p| p.max(LEAST).ln())
        .sum();
    let calls: Vec<&Case<'_>> = cases.iter().copied().filter(|case| case.wanted.call).collect();
    let choosing = Choosing::fit_to_bias(&calls, data);
    let choices: Vec<Choice<'_>> = calls.iter().map(|case| Choice::of(case, choosing, data)).collect();
    let tools: f64 = choices.iter().map(|choice| choice.likelihood).sum();
    DemonstrationsTried {
        name: name.to_owned(),
        requests: cases.len(),
        right: share(choices.iter().filter(|choice| choice.is_right).count(), choices.len()),
        likelihood: (sides + tools) / cases.len().max(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// What a model tells that parts calls from talk by `sides` and right tools from others by `tools`, both as logarithms.
    fn told(data: &Data, sides: f64, tools: f64) -> Vec<Case<'_>> {
        let shown = data.requests.iter().filter(|wanted| is_shown(wanted, data));
        let case = |wanted| {
            let mut case = Case { wanted, signals: toolgate_engine::Signals::default(), overlap: 0.0 };
            case.signals.call = if wanted.call { sides } else { -sides };
            let offered = data.tools(&wanted.set);
            let weight = |name: &str| if wanted.is_right(name) { tools } else { 0.0 };
            case.signals.tools = offered.iter().map(|tool| weight(tool.name.as_str())).collect();
            case.signals.bias = vec![0.0; offered.len()];
            case
        };
        shown.map(case).collect()
    }

    #[test]
    fn better_sides_and_better_tools_make_right_turns_likelier() {
        let data = Data::read().unwrap();
        let of = |sides, tools| tried("any", &told(&data, sides, tools), &data);
        let plain = of(0.5, 0.5);
        assert!(plain.requests > 60, "{plain:?}");
        assert!(of(2.0, 0.5).likelihood > plain.likelihood && of(0.5, 2.0).likelihood > plain.likelihood);
        assert!(of(-2.0, 0.5).likelihood < plain.likelihood, "who tells the contrary is not weighed");
        assert_eq!((plain.right, of(0.5, -2.0).right), (1.0, 0.0));
        assert_eq!(tried("any", &[], &data).requests, 0);
    }
}
