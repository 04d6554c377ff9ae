//! Beneath the measurements: what the program lends them, which they share with its other commands. Measures nothing.

use std::num::NonZeroUsize;
use std::sync::Arc;

use clap::Args;
use indicatif::ProgressBar;
use toolgate_engine::models::ResolvedModel;
use toolgate_engine::{Attention, Engine, LocalEngine, Numerics, Options, Placement, Tunings};
use toolgate_llama::LlamaBackend;

/// Makes a bar with that label for so many steps; one that shows nothing where there is no terminal.
pub type Bar = fn(&'static str, u64) -> ProgressBar;

/// What evaluates a model, for measurements that load it themselves.
pub struct Hardware {
    /// Where its weights lie.
    pub placement: Placement,
    /// How its contexts are kept.
    pub attention: Attention,
    /// Threads, where they were asked for.
    pub threads: Option<u32>,
    /// What was found to suit this device.
    pub tunings: Tunings,
}

/// The arguments that name a model, and how the program holds it.
pub trait Host: Args {
    /// Gives the model's context so many tokens, where the arguments leave that open.
    fn hold(&mut self, tokens: u32);

    /// The model's file; none where a server has it.
    ///
    /// # Errors
    /// Where there is no such model.
    fn file(&self) -> anyhow::Result<Option<ResolvedModel>>;

    /// Loads a file for so many turns at the same time.
    ///
    /// # Errors
    /// Where it cannot be loaded.
    fn load(&self, file: &ResolvedModel, at_once: NonZeroUsize) -> anyhow::Result<Arc<dyn Engine>>;

    /// How the program leads the model of a file.
    ///
    /// # Errors
    /// A profile that is not there.
    fn options(&self, file: &ResolvedModel) -> anyhow::Result<Options>;

    /// Loads a file whose model is led so, for one turn at a time.
    ///
    /// # Errors
    /// Where it cannot be loaded.
    fn load_led(&self, file: &ResolvedModel, options: Options) -> anyhow::Result<LocalEngine<LlamaBackend>>;

    /// The same for clients whose conversations take turns, as the server has it.
    ///
    /// # Errors
    /// Where it cannot be loaded.
    fn load_for_clients(
        &self,
        file: &ResolvedModel,
        at_once: NonZeroUsize,
    ) -> anyhow::Result<Arc<dyn Engine>>;

    /// Which kernels a context of so many tokens gets, where nobody says.
    fn numerics(context: u32) -> Numerics;

    /// The arguments that say what evaluates a model.
    type Device: Args;

    /// What they ask for, and what was found to suit it.
    ///
    /// # Errors
    /// For a device that is not there, and where there is no place to keep what was found.
    fn hardware(asked: &Self::Device) -> anyhow::Result<Hardware>;

    /// Makes bars.
    const BAR: Bar;

    /// Tells a person something.
    fn note(text: &str);
}
