//! The options that say which model is asked and how it is held: shared by the commands that run one.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Deserializer, Serialize};

use toolgate_llama::LlamaBackend;

use super::device_args::DeviceArgs;
use super::terminal::{self, Unit};
use crate::engine::{self, Engine, LocalEngine, PromptCache, Reasoning};
use crate::models::{self, Entry, Profile, ResolvedModel, Store};
use crate::remote::{self, GrammarSupport, RemoteEngine};
use crate::tools::{MEMORY_TOOLS, Registry};

/// The key for a server of models; an argument would show in the list of processes.
pub(super) const KEY_VARIABLE: &str = "TOOLGATE_ENGINE_KEY";

/// MiB that a server keeps of prompts: some 20,000 tokens of a model of 0.5 B weights, and 9,000 of one of 1.5 B.
#[cfg(any(feature = "lab", feature = "serve"))]
pub(super) const PROMPT_MEMORY: u16 = 256;

/// The profile that is the model's own.
const AUTO: &str = "auto";

/// Where models run unless a server is named.
const LOCAL: &str = "local";

/// Which model, and what holds its turns to their form. A record of a run keeps them, to load the model so again.
#[derive(Args, Serialize, Deserialize)]
pub(super) struct ModelOptions {
    /// A model's id (see `toolgate model list`), a path to a .gguf file, or a URL of one [default:
    /// qwen2.5-coder-1.5b]. With --engine, the model's name there [default: the first that the server lists].
    #[arg(long, env = "TOOLGATE_MODEL", value_name = "ID|PATH|URL")]
    model: Option<String>,
    /// Where the model runs: here, or at an OpenAI-compatible server (llama-server, vLLM, `toolgate serve`, …). The
    /// tools run here in any case. A key is taken from TOOLGATE_ENGINE_KEY.
    #[arg(long, default_value = LOCAL, value_name = "local|URL")]
    #[serde(default = "local")]
    engine: String,
    /// How the server of --engine holds text to a grammar; auto asks it what it is. Without grammars the tools are sent,
    /// and its calls are read.
    #[arg(long, value_enum, default_value_t = GrammarArg::Auto)]
    #[serde(default)]
    engine_grammar: GrammarArg,
    /// What holds a turn to its form: our grammar, the same grammar run by llama.cpp, or nothing.
    #[arg(long, value_enum, default_value_t = ConstraintArg::Grammar)]
    constraint: ConstraintArg,
    /// What leads the model: its own profile, nothing, what all profiles start from, a file that `toolgate certify` wrote, or the profile
    /// of another model of the catalogue, such as the one that it was tuned from.
    #[arg(long, value_name = "auto|none|guided|FILE|ID", default_value = AUTO, hide_default_value = true)]
    #[serde(default = "auto")]
    profile: String,
    /// Tokens the model's context holds; 0 is as many as the model was trained for [default: as its profile says, else 8192 or these,
    /// whichever is less]. Agents such as Claude Code, Codex and qwen-code need 32768.
    #[arg(long, value_name = "N")]
    pub(super) context: Option<u32>,
    /// Move the decision between call and answer towards calling (above 0) or answering (below 0), in logarithms of
    /// the odds: 0.7 doubles the odds of a call.
    #[arg(long, default_value_t = 0.0, value_name = "B", allow_negative_numbers = true)]
    call_bias: f64,
    /// How much the model thinks before it speaks: not at all, as much as it likes, or so many tokens at most. auto is as its
    /// profile says, and else as its chat template or the model itself begins a turn. --reasoning alone is on.
    #[arg(
        long,
        value_name = "auto|off|on|N",
        default_value = "auto",
        default_missing_value = "on",
        num_args = 0..=1,
        hide_default_value = true
    )]
    #[serde(default, deserialize_with = "recorded_reasoning")]
    reasoning: Reasoning,
    /// Whether a greedy turn must be the same, byte for byte, however its tokens are evaluated. fast evaluates more of them
    /// at once, and long prompts two to four times as fast: where two tokens are almost equally likely it may write the
    /// other one. auto is fast for a context of more than 8192 tokens that was asked for, by --context or
    /// the profile, and exact else.
    #[arg(long, value_enum, default_value_t = NumericsArg::Auto)]
    #[serde(default = "exact")]
    numerics: NumericsArg,
    #[command(flatten)]
    #[serde(default)]
    hardware: DeviceArgs,
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

fn auto() -> String {
    AUTO.to_owned()
}

fn local() -> String {
    LOCAL.to_owned()
}

/// How much a model thought in a record of a run. Older ones say whether it did.
fn recorded_reasoning<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Reasoning, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Recorded {
        Whether(bool),
        Much(Reasoning),
    }
    Ok(match Recorded::deserialize(deserializer)? {
        Recorded::Whether(true) => Reasoning::ON,
        Recorded::Whether(false) => Reasoning::OFF,
        Recorded::Much(reasoning) => reasoning,
    })
}

/// What records of runs mean that do not say.
fn exact() -> NumericsArg {
    NumericsArg::Exact
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ConstraintArg {
    Grammar,
    Llama,
    None,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum GrammarArg {
    #[default]
    Auto,
    Llama,
    Vllm,
    None,
}

/// What batches may change in low bits.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum NumericsArg {
    Auto,
    Exact,
    Fast,
}

/// Tokens of a context up to which prompts are short enough for kernels that keep every bit. The attention of those takes half of a
/// prompt's time behind 3,000 tokens, and four fifths behind 5,000.
const SHORT: u32 = 8_192;

impl NumericsArg {
    /// For a context of so many tokens, where that was asked for; 0 is all that the model was trained for.
    pub(super) fn of(self, context: Option<u32>) -> engine::Numerics {
        match (self, context) {
            (Self::Fast, _) => engine::Numerics::Fast,
            (Self::Auto, Some(tokens)) if tokens == 0 || tokens > SHORT => engine::Numerics::Fast,
            (Self::Exact | Self::Auto, _) => engine::Numerics::Exact,
        }
    }
}

/// Whom a model is loaded for.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// Turns made at the same time.
    pub(super) at_once: NonZeroUsize,
    /// Bytes at most for the prompts of conversations that gave way to others.
    pub(super) prompt_memory: usize,
}

impl Load {
    /// For one conversation, or for several that do not come again.
    pub(super) fn for_turns(at_once: NonZeroUsize) -> Self {
        Self { at_once, prompt_memory: 0 }
    }

    /// For clients whose conversations take turns, with so many MiB for the prompts of those that wait.
    #[cfg(any(feature = "lab", feature = "serve"))]
    pub(super) fn for_clients(at_once: NonZeroUsize, prompt_memory: u16) -> Self {
        Self { at_once, prompt_memory: usize::from(prompt_memory) << 20 }
    }
}

/// Where a model is.
pub(super) enum Source {
    /// In a file on this machine.
    File(ResolvedModel),
    /// At a server.
    Server(Box<remote::Options>, Option<Arc<Entry>>),
}

impl Source {
    /// The model's entry in the catalogue.
    pub(super) fn entry(&self) -> Option<&Entry> {
        match self {
            Self::File(model) => model.entry.as_deref(),
            Self::Server(_, entry) => entry.as_deref(),
        }
    }

    /// The file's path or the server's address, for people.
    pub(super) fn place(&self) -> String {
        match self {
            Self::File(model) => model.path.display().to_string(),
            Self::Server(options, _) => options.url.clone(),
        }
    }

    /// What a person should know about a model that nothing was measured of; none for others, and where something else was chosen.
    pub(super) fn unmeasured(&self, options: &ModelOptions) -> Option<String> {
        match self {
            Self::File(model)
                if options.profile == AUTO && engine::Options::for_model(model).profile.is_none() =>
            {
                let path = model.path.display();
                Some(format!(
                    "nothing was measured of this model, so nothing leads it: toolgate certify {path}"
                ))
            }
            _ => None,
        }
    }

    /// The registry without the memory tools, where they do not suit the model and nobody asked for them.
    pub(super) fn suited(&self, registry: Registry, asked: bool) -> Registry {
        let unsuited = self.entry().and_then(|entry| entry.defaults.memory_tools) == Some(false);
        if unsuited && !asked { registry.without(&MEMORY_TOOLS) } else { registry }
    }

    /// The SHA-256 of the file, in hexadecimal; none at a server.
    pub(super) fn digest(&self) -> Result<Option<String>, models::Error> {
        match self {
            Self::File(model) => models::digest_of(&model.path).map(|digest| Some(digest.to_string())),
            Self::Server(..) => Ok(None),
        }
    }
}

impl ModelOptions {
    /// Names another model; what named the one before is returned.
    pub(super) fn take(&mut self, model: Option<String>) -> Option<String> {
        std::mem::replace(&mut self.model, model)
    }

    /// The model's file or server, and its entry in the catalogue.
    pub(super) fn resolve(&self) -> Result<Source, crate::Error> {
        if self.engine == LOCAL {
            let model = self.model.as_deref().unwrap_or(models::DEFAULT_MODEL);
            return Ok(Source::File(models::resolve(model)?));
        }
        if self.constraint != ConstraintArg::Grammar {
            return Err(crate::Error::input(
                "--constraint is for a model on this machine; with --engine, --engine-grammar none sends no grammar",
            ));
        }
        if !self.hardware.is_usual() {
            return Err(crate::Error::input(
                "--device and the options of its kind are for a model on this machine, not for one behind --engine",
            ));
        }
        let mut server = remote::Options::new(&self.engine)
            .key(std::env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty()));
        let model = match &self.model {
            Some(model) => model.clone(),
            None => remote::first_model(&server)?,
        };
        // A model of the catalogue keeps the settings that suit it, wherever it runs.
        let entry = Store::open().ok().and_then(|store| store.catalogue().served_as(&model).cloned());
        let suited = self.led(entry.as_deref())?;
        server.engine = self.thinking(suited.biased(self.call_bias));
        server.model = Some(model);
        server.grammar = match self.engine_grammar {
            GrammarArg::Auto => GrammarSupport::Auto,
            GrammarArg::Llama => GrammarSupport::Llama,
            GrammarArg::Vllm => GrammarSupport::Vllm,
            GrammarArg::None => GrammarSupport::None,
        };
        Ok(Source::Server(Box::new(server), entry))
    }

    /// The options of a model with this entry, led as `--profile` says.
    pub(super) fn led(&self, entry: Option<&Entry>) -> Result<engine::Options, crate::Error> {
        let own = entry.map(engine::Options::for_entry).unwrap_or_default();
        let mut options = match self.profile.as_str() {
            AUTO => return Ok(own),
            "none" => engine::Options::default(),
            "guided" => engine::Options::guided(),
            file if file.ends_with(".toml") || file.contains(std::path::is_separator) => {
                let profile = Profile::read(Path::new(file))?;
                return Ok(engine::Options::for_entry(&profile.entry(entry)?));
            }
            id => {
                let store = Store::open()?;
                let Some(other) = store.catalogue().get(id) else {
                    return Err(crate::Error::input(format!(
                        "no profile \"{id}\": it is auto, none, guided, a .toml file, or a model of `toolgate model list`"
                    )));
                };
                engine::Options::for_entry(other)
            }
        };
        // What is known of the file, and how it is run, leads nobody.
        (options.untrained, options.marks, options.context) = (own.untrained, own.marks, own.context);
        (options.placement, options.attention) = (own.placement, own.attention);
        Ok(options)
    }

    /// The options of an engine whose model thinks as these say, where they say it.
    fn thinking(&self, options: engine::Options) -> engine::Options {
        let suited = options.reasoning;
        options.reasoning(self.reasoning.or(suited))
    }

    /// Loads the model, with a bar on a terminal, or asks for it at its server; also how many milliseconds it took.
    pub(super) fn load(&self, source: &Source) -> anyhow::Result<(Arc<dyn Engine>, u64)> {
        self.load_for(source, Load::for_turns(NonZeroUsize::MIN))
    }

    /// Loads it for these. A server decides that for itself.
    pub(super) fn load_for(&self, source: &Source, load: Load) -> anyhow::Result<(Arc<dyn Engine>, u64)> {
        match source {
            Source::File(model) => self.load_file(model, load),
            Source::Server(options, _) => {
                let begin = Instant::now();
                let engine = RemoteEngine::connect((**options).clone())?;
                if engine.grammar() == "toolgate" && self.call_bias != 0.0 {
                    bail!("a toolgate server decides by its own thresholds: give --call-bias to its serve");
                }
                let ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
                Ok((Arc::new(engine), ms))
            }
        }
    }

    /// Loads a file of this machine.
    pub(super) fn load_file(
        &self,
        model: &ResolvedModel,
        load: Load,
    ) -> anyhow::Result<(Arc<dyn Engine>, u64)> {
        let engine = self.load_led(model, self.led(model.entry.as_deref())?, load)?;
        let ms = engine.load_ms();
        Ok((Arc::new(engine), ms))
    }

    /// Loads a file of this machine whose model is led by these options, and held as the arguments say.
    pub(super) fn load_led(
        &self,
        model: &ResolvedModel,
        suited: engine::Options,
        load: Load,
    ) -> anyhow::Result<LocalEngine<LlamaBackend>> {
        let packs = if self.no_cache { None } else { Some(packs_of(&model.path)?) };
        if let Some(packs) = &packs {
            packs.read_ahead();
        }
        let bar = terminal::bar("loading", 100, Unit::Count);
        let context = self.context.or(suited.context);
        let tuned = self.hardware.tunings(&suited.placement)?.get(&model.path)?.unwrap_or_default();
        let options = self
            .hardware
            .given(self.thinking(suited.biased(self.call_bias)), tuned)
            .constraint(match self.constraint {
                ConstraintArg::Grammar => engine::Constraint::Grammar,
                ConstraintArg::Llama => engine::Constraint::Llama,
                ConstraintArg::None => engine::Constraint::None,
            })
            .context(context)
            .numerics(self.numerics.of(context))
            .at_once(load.at_once)
            .prompt_memory(load.prompt_memory)
            .forcing(if self.no_forcing { engine::Forcing::Off } else { engine::Forcing::On })
            .drafting(if self.no_drafts { engine::Drafting::Off } else { engine::Drafting::On });
        let shown = bar.clone();
        let engine =
            LocalEngine::load(model, &options, move |share| shown.set_position((share * 100.0) as u64));
        bar.finish_and_clear();
        Ok(match packs {
            Some(packs) => engine?.with_prompt_cache(packs),
            None => engine?,
        })
    }
}

/// The packs of a model's file in the user's cache.
pub(super) fn packs_of(model: &Path) -> anyhow::Result<PromptCache> {
    Ok(PromptCache::of(model, Store::open()?.packs(), engine::DEFAULT_LIMIT)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::engine::Numerics;

    /// A command with these options and a task.
    #[derive(Parser)]
    struct Command {
        task: Option<String>,
        #[command(flatten)]
        model: ModelOptions,
        #[arg(long)]
        json: bool,
    }

    fn parsed(arguments: &[&str]) -> Result<Command, String> {
        let all = ["toolgate"].iter().chain(arguments);
        Command::try_parse_from(all).map_err(|error| error.to_string())
    }

    #[test]
    fn reasoning_takes_a_word_or_a_number_and_alone_it_is_on() {
        for (arguments, reasoning, task) in [
            (&[][..], Reasoning::default(), None),
            (&["--reasoning", "auto", "do"], Reasoning::default(), Some("do")),
            (&["--reasoning", "off", "do"], Reasoning::OFF, Some("do")),
            (&["do", "--reasoning"], Reasoning::ON, Some("do")),
            (&["--reasoning", "--json", "do"], Reasoning::ON, Some("do")),
            (&["--reasoning=300", "do"], Reasoning::within(300), Some("do")),
        ] {
            let command = parsed(arguments).unwrap();
            assert_eq!(command.model.reasoning, reasoning, "{arguments:?}");
            assert_eq!(command.task.as_deref(), task, "{arguments:?}");
        }
        let error = parsed(&["--reasoning", "my task"]).err().unwrap();
        assert!(
            error.contains("\"my task\"") && error.contains("\"auto\""),
            "a task is not swallowed: {error}"
        );
    }

    #[test]
    fn records_of_older_versions_say_whether_the_model_thought() {
        let record = |reasoning: serde_json::Value| {
            let command = parsed(&[]).unwrap();
            let mut record = serde_json::to_value(command.model).unwrap();
            record.as_object_mut().unwrap().insert("reasoning".to_owned(), reasoning);
            serde_json::from_value::<ModelOptions>(record).unwrap().reasoning
        };
        assert_eq!(record(json!(true)), Reasoning::ON);
        assert_eq!(record(json!(false)), Reasoning::OFF);
        for reasoning in [Reasoning::default(), Reasoning::within(9)] {
            assert_eq!(record(json!(reasoning)), reasoning);
        }
    }

    #[test]
    fn contexts_for_long_prompts_are_evaluated_by_the_fast_kernels() {
        for (context, numerics) in [
            (None, Numerics::Exact),
            (Some(4_096), Numerics::Exact),
            (Some(8_192), Numerics::Exact),
            (Some(8_193), Numerics::Fast),
            (Some(32_768), Numerics::Fast),
            (Some(0), Numerics::Fast),
        ] {
            assert_eq!(NumericsArg::Auto.of(context), numerics, "{context:?}");
            assert_eq!(NumericsArg::Exact.of(context), Numerics::Exact, "who asks for every bit gets it");
            assert_eq!(NumericsArg::Fast.of(context), Numerics::Fast);
        }
    }
}
