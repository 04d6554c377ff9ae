//! What a model tells of each request of the data.

use std::ops::ControlFlow;

use anyhow::Context;
use toolgate_chat::ToolSpec;
use toolgate_engine::{Cancel, LocalEngine, Sampling, Signal, Signals, TurnRequest};
use toolgate_llama::LlamaBackend;

use super::Case;
use super::overlap::Overlap;
use super::requests::{Data, State, Wanted};

/// What a model tells of these requests, in their order: of each, the signals that `signals_of` names. `done` is called after each, and
/// may end it.
pub(crate) fn ask_all<'d>(
    engine: &LocalEngine<LlamaBackend>,
    data: &'d Data,
    asked: &[&'d Wanted],
    signals_of: &dyn Fn(&Wanted) -> &'static [Signal],
    done: &mut dyn FnMut() -> ControlFlow<()>,
) -> anyhow::Result<Vec<Case<'d>>> {
    let overlap = Overlap::of(data.sets());
    let mut known = Vec::with_capacity(asked.len());
    for &wanted in asked {
        let tools = data.tools(&wanted.set);
        let signals = signals(engine, wanted, tools, signals_of(wanted))
            .with_context(|| format!("request {}", wanted.id))?;
        known.push(Case { wanted, signals, overlap: overlap.with(&wanted.request, tools) });
        if done().is_break() {
            break;
        }
    }
    Ok(known)
}

/// What it tells of one.
pub(crate) fn signals(
    engine: &LocalEngine<LlamaBackend>,
    wanted: &Wanted,
    tools: &[ToolSpec],
    asked: &[Signal],
) -> anyhow::Result<Signals> {
    let (transcript, sampling) = (wanted.transcript(), Sampling::default().max_tokens(1));
    let changed = wanted.state == State::AfterChange;
    let request = TurnRequest::new(&transcript, tools, &sampling).changed(changed);
    Ok(engine.signals(&request, asked, &Cancel::default())?)
}
