//! The options that say which model is asked and how it is held: shared by the commands that run one.

use std::path::Path;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::terminal::{self, Unit};
use crate::engine::{self, Engine, LocalEngine, Packs};
use crate::models::{self, ResolvedModel, Store};

/// Which model, and what holds its turns to their form. A record of a run keeps them, to load the model so again.
#[derive(Args, Serialize, Deserialize)]
pub(super) struct ModelOptions {
    /// A model's id (see `toolgate model list`), a path to a .gguf file, or a URL of one.
    #[arg(long, env = "TOOLGATE_MODEL", default_value = models::DEFAULT_MODEL, value_name = "ID|PATH|URL")]
    model: String,
    /// What holds a turn to its form: our grammar, the same grammar run by llama.cpp, or nothing.
    #[arg(long, value_enum, default_value_t = ConstraintArg::Grammar)]
    constraint: ConstraintArg,
    /// Tokens the model's context holds [default: 8192 or the model's own, whichever is less].
    #[arg(long, value_name = "N")]
    context: Option<u32>,
    /// Move the decision between call and answer towards calling (above 0) or answering (below 0), in logarithms of
    /// the odds: 0.7 doubles the odds of a call.
    #[arg(long, default_value_t = 0.0, value_name = "B", allow_negative_numbers = true)]
    call_bias: f64,
    /// Let a model whose template begins its turns with reasoning reason, within half of a turn's tokens.
    #[arg(long)]
    reasoning: bool,
    /// Evaluate every token on its own instead of forced ones in one batch: slower, for comparison.
    #[arg(long)]
    no_forcing: bool,
    /// Guess no tokens ahead: slower, for comparison.
    #[arg(long)]
    #[serde(default)]
    no_drafts: bool,
    /// Neither take the beginnings of prompts from the cache nor keep them there: they are evaluated anew.
    #[arg(long)]
    #[serde(default)]
    no_cache: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ConstraintArg {
    Grammar,
    Llama,
    None,
}

impl ModelOptions {
    /// Names another model; the name before is returned.
    pub(super) fn take(&mut self, model: String) -> String {
        std::mem::replace(&mut self.model, model)
    }

    /// The model's file and its entry in the catalogue.
    pub(super) fn resolve(&self) -> Result<ResolvedModel, models::Error> {
        models::resolve(&self.model)
    }

    /// Loads the model, with a bar on a terminal; also how many milliseconds it took.
    pub(super) fn load(&self, model: &ResolvedModel) -> anyhow::Result<(Arc<dyn Engine>, u64)> {
        let bar = terminal::bar("loading", 100, Unit::Count);
        let suited = engine::Options::for_model(model);
        let options = engine::Options {
            thresholds: suited.thresholds.biased(self.call_bias),
            constraint: match self.constraint {
                ConstraintArg::Grammar => engine::Constraint::Grammar,
                ConstraintArg::Llama => engine::Constraint::Llama,
                ConstraintArg::None => engine::Constraint::None,
            },
            context: self.context,
            reasoning: self.reasoning,
            forcing: if self.no_forcing { engine::Forcing::Off } else { engine::Forcing::On },
            drafting: if self.no_drafts { engine::Drafting::Off } else { engine::Drafting::On },
            ..suited
        };
        let shown = bar.clone();
        let engine =
            LocalEngine::load(model, &options, move |share| shown.set_position((share * 100.0) as u64));
        bar.finish_and_clear();
        let engine = engine?;
        let engine = if self.no_cache { engine } else { engine.with_packs(packs_of(&model.path)?) };
        let ms = engine.load_ms();
        Ok((Arc::new(engine), ms))
    }
}

/// The packs of a model's file in the user's cache.
pub(super) fn packs_of(model: &Path) -> anyhow::Result<Packs> {
    Ok(Packs::of(model, Store::open()?.packs(), engine::DEFAULT_LIMIT)?)
}
