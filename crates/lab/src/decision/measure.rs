//! What a model tells of each request of the data.

use anyhow::Context;
use toolgate_chat::ToolSpec;
use toolgate_engine::{Cancel, LocalEngine, Sampling, Signal, Signals, TurnRequest};
use toolgate_llama::LlamaBackend;

use super::Features;
use super::overlap::Overlap;
use super::requests::{Data, State, Wanted};

/// What a model tells of these requests, in the order of their sets of tools. `done` is called after each.
pub(crate) fn measure<'d>(
    engine: &LocalEngine<LlamaBackend>,
    data: &'d Data,
    asked: &[&'d Wanted],
    done: &mut dyn FnMut(),
) -> anyhow::Result<Vec<(&'d Wanted, Features)>> {
    let overlap = Overlap::of(data.sets().map(|(_, tools)| tools));
    let mut known = Vec::with_capacity(asked.len());
    for (set, tools) in data.sets() {
        for &wanted in asked.iter().filter(|wanted| wanted.set == set) {
            let signals = signals(engine, wanted, tools, &Signal::ALL)
                .with_context(|| format!("request {}", wanted.id))?;
            let overlap = overlap.with(&wanted.request, tools);
            known.push((wanted, Features { signals, overlap, state: wanted.state }));
            done();
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
