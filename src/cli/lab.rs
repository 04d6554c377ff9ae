//! `toolgate bench` and `toolgate conformance`: mounts the commands of the laboratory, and lends them how models are
//! named, loaded and shown here.

use std::io::Write;
use std::num::NonZeroUsize;
use std::sync::Arc;

use toolgate_lab::{Bar, Hardware, Host, bench, certify, conformance};
use toolgate_llama::LlamaBackend;

use super::device_args::DeviceArgs;
use super::exit::Exit;
use super::model_args::{Load, ModelOptions, NumericsArg, PROMPT_MEMORY, Source};
use super::terminal::{self, Unit};
use crate::engine::{Attention, Engine, LocalEngine, Numerics, Options, Placement};
use crate::models::ResolvedModel;

/// Runs `toolgate bench`.
pub(super) fn bench(args: bench::BenchArgs<ModelOptions>, out: &mut dyn Write) -> anyhow::Result<Exit> {
    Ok(if bench::run(args, out)? { Exit::Done } else { Exit::Failed })
}

/// Runs `toolgate conformance`.
pub(super) fn conformance(args: conformance::ConformanceArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    conformance::run(args, ModelOptions::BAR, out)?;
    Ok(Exit::Done)
}

/// Runs `toolgate certify`.
pub(super) fn certify(
    args: &certify::CertifyArgs<ModelOptions>,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    Ok(if certify::run(args, out)? { Exit::Done } else { Exit::Failed })
}

impl Host for ModelOptions {
    fn hold(&mut self, tokens: u32) {
        self.context.get_or_insert(tokens);
    }

    fn file(&self) -> anyhow::Result<Option<ResolvedModel>> {
        Ok(match self.resolve()? {
            Source::File(file) => Some(file),
            Source::Server(..) => None,
        })
    }

    fn load(&self, file: &ResolvedModel, at_once: NonZeroUsize) -> anyhow::Result<Arc<dyn Engine>> {
        Ok(self.load_file(file, Load::for_turns(at_once))?.0)
    }

    fn options(&self, file: &ResolvedModel) -> anyhow::Result<Options> {
        Ok(self.led(file.entry.as_deref())?)
    }

    fn load_led(&self, file: &ResolvedModel, options: Options) -> anyhow::Result<LocalEngine<LlamaBackend>> {
        self.load_led(file, options, Load::for_turns(NonZeroUsize::MIN))
    }

    fn load_for_clients(
        &self,
        file: &ResolvedModel,
        at_once: NonZeroUsize,
    ) -> anyhow::Result<Arc<dyn Engine>> {
        Ok(self.load_file(file, Load::for_clients(at_once, PROMPT_MEMORY))?.0)
    }

    fn numerics(context: u32) -> Numerics {
        NumericsArg::Auto.of(Some(context))
    }

    type Device = DeviceArgs;

    fn hardware(asked: &DeviceArgs) -> anyhow::Result<Hardware> {
        let placement = asked.placement(Placement::default());
        Ok(Hardware {
            attention: asked.attention(Attention::default()),
            threads: asked.threads(),
            tunings: asked.tunings(&placement)?,
            placement,
        })
    }

    const BAR: Bar = |label, total| terminal::bar(label, total, Unit::Count);

    fn note(text: &str) {
        terminal::note(text);
    }
}
