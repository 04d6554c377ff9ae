//! Laws of the families of tool calls, on the vocabularies of real models: no weights are needed.
//!
//! Each vocabulary is paired with each template whose control tokens it has. A pair has four laws:
//!
//! - The tokens that a turn's grammar forces for calls are those that the template has for them ([`Laws::forced_tokens`]).
//! - The reader takes what the template shows of earlier turns for what was said ([`Laws::history`]).
//! - A model that begins by itself with a thought, with text or with a call gets the turn it began ([`Laws::own_start`]).
//! - No state of a grammar lets a special token into text, or lets the letters of a mark stand for its token
//!   ([`Laws::no_spelled_marks`]).
//!
//! Invariant: a case that fails is counted as failed, or under the reason for which it could not be one; none is left out.
//!
//! For the packages of this workspace alone: no part of the API.

mod calls;
mod facts;
mod forced;
mod history;
mod own_start;
mod pair;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use toolgate_chat::Dialogue;
use toolgate_grammar::TokenId;
use toolgate_infer::Untrained;
use toolgate_llama::{Load, Model, ModelOptions};

pub use facts::Facts;
use pair::Pair;

/// What came of the laws.
///
/// ```
/// use toolgate_lab::families::Report;
/// let report = serde_json::to_value(Report::default()).unwrap();
/// assert_eq!(report["laws"]["forced_tokens"]["cases"], 0);
/// assert_eq!(report["laws"]["own_start"]["calls"]["failed"], 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Vocabularies with a template.
    pub pairs: usize,
    /// Over all pairs.
    pub laws: Laws,
    /// By the family that a template's calls are of.
    pub by_family: BTreeMap<String, Laws>,
    /// What is known of each family, by pair.
    pub facts: BTreeMap<String, Vec<Facts>>,
}

/// Each law and its cases.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Laws {
    /// The tokens that grammars force and admit for calls are those that the template has for them.
    pub forced_tokens: Count,
    /// Earlier turns are read back from their tokens.
    pub history: Count,
    /// Where a turn's own start is told from the others.
    pub own_start: OwnStart,
    /// No special token in text, and no token spelled in letters.
    pub no_spelled_marks: Count,
}

/// How a turn starts: with a thought, with text or with a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OwnStart {
    /// With a thought.
    pub thinks: Count,
    /// With text.
    pub says: Count,
    /// With a call.
    pub calls: Count,
}

/// The cases of a law.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// All of them.
    pub cases: usize,
    /// Those in which it did not hold.
    pub failed: usize,
    /// Those in which it could not be put to the test, by the reason.
    pub exceptions: BTreeMap<String, usize>,
}

/// A law, by the name that reports give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    /// [`Laws::forced_tokens`].
    ForcedTokens,
    /// [`Laws::history`].
    History,
    /// [`OwnStart::thinks`].
    #[serde(rename = "own_start.thinks")]
    Thinks,
    /// [`OwnStart::says`].
    #[serde(rename = "own_start.says")]
    Says,
    /// [`OwnStart::calls`].
    #[serde(rename = "own_start.calls")]
    Calls,
    /// [`Laws::no_spelled_marks`].
    NoSpelledMarks,
}

/// A case in which a law did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The file of the vocabulary, without its ending.
    pub vocabulary: String,
    /// The file of the template, without its ending; `own` for that of the vocabulary's file.
    pub template: String,
    /// The family that follows from the template.
    pub family: String,
    /// The law.
    pub law: Law,
    /// What was tried.
    pub case: String,
    /// What the law asks for.
    pub want: String,
    /// What was there.
    pub got: String,
}

/// What came of one case.
pub(crate) enum Outcome {
    Holds,
    Fails { want: String, got: String },
    Untested(String),
}

/// What the laws are put to the test on.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// A directory of `.gguf` files, of which the vocabulary and the template are read.
    pub vocabularies: PathBuf,
    /// A directory of `.jinja` files.
    pub templates: PathBuf,
    /// Turns of random calls for each pair.
    pub turns: usize,
}

impl Corpus {
    /// Puts the laws to the test; each case that fails is told to `failed`, and each file that cannot be used to `skipped`.
    ///
    /// # Errors
    /// A directory that cannot be read.
    pub fn run(
        &self,
        failed: &mut dyn FnMut(Failure),
        skipped: &mut dyn FnMut(&str),
    ) -> std::io::Result<Report> {
        let templates = files(&self.templates, "jinja")?;
        let mut report = Report::default();
        for path in files(&self.vocabularies, "gguf")? {
            let model = match load(&path) {
                Ok(model) => model,
                Err(error) => {
                    skipped(&format!("{}: {error}", path.display()));
                    continue;
                }
            };
            for pair in pairs(&name(&path), &model, &templates, skipped) {
                report.pairs += 1;
                report.facts.entry(pair.family().to_owned()).or_default().push(Facts::of(&pair));
                let mut cases = Cases { pair: &pair, report: &mut report, failed };
                forced::run(&pair, self.turns, &mut cases);
                history::run(&pair, self.turns, &mut cases);
                own_start::run(&pair, &mut cases);
            }
        }
        Ok(report)
    }
}

/// A file's own vocabulary with its own template.
pub(crate) struct Own {
    pub(crate) dialogue: Dialogue,
    pub(crate) facts: Facts,
    pub(crate) laws: Laws,
    /// The marks of its turns that are tokens.
    pub(crate) marks: Vec<(String, TokenId)>,
}

/// Puts the laws to the test on a file's own vocabulary and template, as `mended` has that. Reads no weights.
///
/// # Errors
/// A file that cannot be read, and one without a template.
pub(crate) fn own(
    path: &Path,
    mended: impl FnOnce(String) -> String,
    turns: usize,
    failed: &mut dyn FnMut(Failure),
) -> anyhow::Result<Own> {
    let model = load(path)?;
    let Some(source) = model.chat_template(None) else {
        anyhow::bail!("{} has no chat template, so it cannot be talked to", path.display());
    };
    let pair = Pair::new(&name(path), OWN, &model, mended(source))?;
    let Some(pair) = pair else { anyhow::bail!("{}: its template does not fit it", path.display()) };
    let mut report = Report::default();
    let mut cases = Cases { pair: &pair, report: &mut report, failed };
    forced::run(&pair, turns, &mut cases);
    history::run(&pair, turns, &mut cases);
    own_start::run(&pair, &mut cases);
    let facts = Facts::of(&pair);
    let texts = pair.dialogue.mark_texts();
    let tokens = pair.tokenizer.0.mark_tokens();
    let marks = tokens.iter().filter(|(mark, _)| texts.iter().any(|text| text.contains(mark)));
    let marks = marks.map(|(mark, token)| (mark.to_owned(), token)).collect();
    Ok(Own { facts, laws: report.laws, marks, dialogue: pair.dialogue })
}

/// What the template of a vocabulary's file is called.
const OWN: &str = "own";

/// Where the cases of a pair are counted.
pub(crate) struct Cases<'r> {
    pair: &'r Pair,
    report: &'r mut Report,
    failed: &'r mut dyn FnMut(Failure),
}

impl Cases<'_> {
    pub(crate) fn add(&mut self, law: Law, case: &str, outcome: Outcome) {
        let family = self.pair.family().to_owned();
        let own = self.report.by_family.entry(family.clone()).or_default();
        for laws in [&mut self.report.laws, own] {
            let count = match law {
                Law::ForcedTokens => &mut laws.forced_tokens,
                Law::History => &mut laws.history,
                Law::Thinks => &mut laws.own_start.thinks,
                Law::Says => &mut laws.own_start.says,
                Law::Calls => &mut laws.own_start.calls,
                Law::NoSpelledMarks => &mut laws.no_spelled_marks,
            };
            count.cases += 1;
            match &outcome {
                Outcome::Holds => {}
                Outcome::Fails { .. } => count.failed += 1,
                Outcome::Untested(why) => *count.exceptions.entry(why.clone()).or_default() += 1,
            }
        }
        if let Outcome::Fails { want, got } = outcome {
            let (vocabulary, template) = (self.pair.vocabulary.clone(), self.pair.template.clone());
            (self.failed)(Failure { vocabulary, template, family, law, case: case.to_owned(), want, got });
        }
    }
}

fn load(path: &Path) -> Result<Model, toolgate_llama::Error> {
    let untrained = Untrained::default();
    Model::load(path, ModelOptions { load: Load::Vocabulary, untrained, ..ModelOptions::default() })
}

/// The vocabulary with its own template, and with each that writes its control tokens.
fn pairs(name: &str, model: &Model, templates: &[PathBuf], skipped: &mut dyn FnMut(&str)) -> Vec<Pair> {
    let own = model.chat_template(None).map(|source| (OWN.to_owned(), source));
    let mut sources: Vec<(String, String)> = own.into_iter().collect();
    for path in templates {
        match std::fs::read_to_string(path) {
            Ok(source) if sources.iter().any(|(_, known)| *known == source) => {}
            Ok(source) => sources.push((self::name(path), source)),
            Err(error) => skipped(&format!("{}: {error}", path.display())),
        }
    }
    let mut pairs = Vec::new();
    for (template, source) in sources {
        match Pair::new(name, &template, model, source) {
            Ok(Some(pair)) => pairs.push(pair),
            Ok(None) => {}
            Err(error) => skipped(&format!("{template} with {name}: {error}")),
        }
    }
    pairs
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn files(directory: &Path, extension: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|other| other == extension) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
