//! From a model file to an engine: weights, vocabulary, the chat template and the family it belongs to.

use std::ops::ControlFlow;
use std::time::Instant;

use toolgate_chat::{Dialogue, Template, TemplateTokens};
use toolgate_grammar::marks::KnownMark;
use toolgate_grammar::{TokenKind, Vocabulary};
use toolgate_llama::{ContextOptions, LlamaBackend, LlamaGrammar, Model, ModelOptions};

use crate::models::{self, ResolvedModel};
use crate::profile::options::Options;
use crate::turn::local::LocalEngine;
use crate::{Error, Kind};

impl LocalEngine<LlamaBackend> {
    /// The engine of a model named by id, path or address, with the options that suit it.
    ///
    /// # Errors
    /// As [`load`](Self::load), and for a model that is not on this machine.
    ///
    /// ```no_run
    /// use toolgate_engine::{Engine, LocalEngine};
    ///
    /// let engine = LocalEngine::open("qwen2.5-coder-0.5b")?;
    /// println!("{} was loaded in {} ms", engine.name(), engine.load_ms());
    /// # Ok::<(), toolgate_engine::Error>(())
    /// ```
    pub fn open(model: &str) -> Result<Self, Error> {
        let model = models::resolve(model)?;
        Self::load(&model, &Options::for_model(&model), |_| {})
    }

    /// Loads a model; `progress` is told the share loaded, 0 to 1.
    ///
    /// # Errors
    /// [`Kind::Engine`] for a file that is missing, damaged or has no chat template, and for a device that is not there.
    ///
    /// ```no_run
    /// use toolgate_engine::{LocalEngine, Options};
    /// use toolgate_engine::models::ResolvedModel;
    ///
    /// let model = ResolvedModel::new("models/my-model.gguf", None);
    /// let options = Options::for_model(&model).context(Some(4_096));
    /// let engine = LocalEngine::load(&model, &options, |share| eprint!("\r{:.0} %", share * 100.0))?;
    /// # Ok::<(), toolgate_engine::Error>(())
    /// ```
    pub fn load(
        model: &ResolvedModel,
        options: &Options,
        mut progress: impl FnMut(f32) + 'static,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let progress = move |share| {
            progress(share);
            ControlFlow::Continue(())
        };
        let untrained = options.untrained.clone();
        let loading = ModelOptions {
            progress: Some(Box::new(progress)),
            untrained,
            placement: options.placement.clone(),
            ..ModelOptions::default()
        };
        let loaded = Model::load(&model.path, loading)?;
        let (loaded, dialogue) = dialogue(loaded, model, &options.marks)?;
        let usual = ContextOptions::default();
        let context = ContextOptions {
            context: options.context,
            threads: options.tuning.threads,
            batch: options.tuning.batch.unwrap_or(usual.batch),
            attention: options.attention,
            numerics: options.numerics,
        };
        let mut backends = loaded.backends(&context, options.at_once)?.into_iter();
        let first = backends.next().ok_or_else(|| Error::new(Kind::Engine, "no conversation was made"))?;
        let engine = Self::with_conversations(name_of(model), first, backends, dialogue, options.clone());
        let begins_with = if loaded.adds_bos() { loaded.bos() } else { "" };
        let engine = engine
            .on_device(loaded.device())
            .beginning_with(begins_with.to_owned())
            .advised(|key| loaded.metadata(key));
        let reference = move |grammar: &toolgate_grammar::Grammar| {
            let root = grammar.rule(grammar.root()).map(|rule| rule.name.as_str()).unwrap_or("root");
            let run = LlamaGrammar::new(&loaded, &grammar.to_gbnf(), root)?;
            Ok::<Box<dyn toolgate_infer::Constraint + Send>, Error>(Box::new(run))
        };
        let ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(engine.with_reference(Box::new(reference)).loaded_in(ms))
    }
}

fn name_of(model: &ResolvedModel) -> String {
    match &model.entry {
        Some(entry) => entry.id.clone(),
        None => model.path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    }
}

/// The model's dialogue: its own template, mended where the catalogue says so, and the family that follows from it. And the
/// model, with that family's marks as tokens.
fn dialogue(loaded: Model, model: &ResolvedModel, known: &[KnownMark]) -> Result<(Model, Dialogue), Error> {
    let own = loaded.chat_template(None);
    let replaced = model.entry.as_ref().and_then(|entry| entry.template.clone());
    let source = match (&replaced, own, &model.entry) {
        (Some(template), _, _) => template.clone(),
        (None, Some(own), Some(entry)) => entry.mended_template(&own).into_owned(),
        (None, Some(own), None) => own,
        (None, None, _) => {
            let message = format!("{} has no chat template, so it cannot be talked to", model.path.display());
            return Err(Error::new(Kind::Engine, message));
        }
    };
    let tokens = TemplateTokens { bos: loaded.bos().to_owned(), eos: loaded.eos().to_owned() };
    let template = Template::new(source, tokens)?;
    let dialogue = Dialogue::derived(template);
    let texts = dialogue.mark_texts();
    let loaded = loaded.marking(texts.iter().map(String::as_str), known);
    let dialogue = dialogue.resolved(loaded.mark_tokens()).guarding(special_names(loaded.vocabulary()));
    Ok((loaded, dialogue))
}

/// The names of the control tokens, which message contents must not become.
fn special_names(vocabulary: &Vocabulary) -> Vec<String> {
    (0_u32..)
        .take(vocabulary.len())
        .filter(|&token| {
            matches!(vocabulary.kind(token), TokenKind::Special | TokenKind::EndOfGeneration)
                && !vocabulary.bytes(token).is_empty()
        })
        .map(|token| String::from_utf8_lossy(vocabulary.bytes(token)).into_owned())
        .collect()
}
