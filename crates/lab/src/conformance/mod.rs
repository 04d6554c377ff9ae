//! `toolgate conformance`: runs a corpus of cases through one part of the program and counts the outcomes.
//!
//! A file per corpus; each counts its own summary, and what all share is here: reading the rows, the line per case
//! of `--out`, the progress bar, the summary on stdout.
//!
//! For the packages of this workspace alone: the program mounts it.

mod families;
mod gbnf;
mod leaked;
mod schema_suite;
mod schemas;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::host::Bar;
use crate::jsonl::{Jsonl, Row};

/// Arguments of `toolgate conformance`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ConformanceArgs {
    #[command(subcommand)]
    corpus: Corpus,
}

const EXAMPLES: &str = "\
Example:
  toolgate conformance gbnf grammars.jsonl --out outcomes.jsonl

Prints a JSON summary. Exit codes: 0 all cases were run, whatever came out; 2 not a corpus.";

#[derive(Subcommand)]
enum Corpus {
    /// Families of tool calls, over the vocabularies and templates of models.
    #[command(after_help = families::EXAMPLES)]
    Families(families::FamiliesArgs),
    /// GBNF grammars, each with texts that match and texts that do not.
    #[command(after_help = gbnf::EXAMPLES)]
    Gbnf(gbnf::GbnfArgs),
    /// Texts that models wrote, with the calls in them.
    #[command(after_help = leaked::EXAMPLES)]
    Leaked(leaked::LeakedArgs),
    /// JSON Schemas, each with instances that are valid and instances that are not.
    #[command(after_help = schemas::EXAMPLES)]
    Schemas(schemas::SchemasArgs),
    /// The official JSON Schema test suite.
    #[command(after_help = schema_suite::EXAMPLES)]
    SchemaSuite(schema_suite::SuiteArgs),
}

/// Runs `toolgate conformance`, with a bar of the program's.
///
/// # Errors
/// What is no such corpus, or a file that cannot be written.
pub fn run(args: ConformanceArgs, bar: Bar, out: &mut dyn Write) -> anyhow::Result<()> {
    let summary = match args.corpus {
        Corpus::Families(args) => families::run(&args)?,
        Corpus::Gbnf(args) => gbnf::run(&args, bar)?,
        Corpus::Leaked(args) => leaked::run(&args, bar)?,
        Corpus::Schemas(args) => schemas::run(&args, bar)?,
        Corpus::SchemaSuite(args) => schema_suite::run(&args, bar)?,
    };
    writeln!(out, "{summary}")?;
    Ok(())
}

/// The arguments that every corpus takes.
#[derive(Args)]
struct CorpusArgs {
    /// The corpus, a JSON object a line; - reads it from standard input.
    file: PathBuf,
    /// Write a line per case to this file: its id, the verdict, and the reason if it is not as it must be.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Run the first N cases only.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

impl CorpusArgs {
    /// Runs `case` on one row after another, writing down what comes out of each.
    fn each(&self, bar: Bar, mut case: impl FnMut(&Row) -> anyhow::Result<Outcome>) -> anyhow::Result<()> {
        if self.out.as_deref().is_some_and(|out| same_file(out, &self.file)) {
            bail!("--out would overwrite the corpus {}", self.file.display());
        }
        let corpus = Jsonl::read(&self.file)?;
        let cases = corpus.count().min(self.limit.unwrap_or(usize::MAX));
        let mut outcomes = Outcomes::create(self.out.as_deref(), bar("cases", cases as u64))?;
        for row in corpus.rows().take(cases) {
            outcomes.add(&case(&row?)?)?;
        }
        outcomes.finish()
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// What came out of one case.
struct Outcome {
    id: String,
    /// A word for it; each corpus has its own.
    verdict: &'static str,
    /// Why it is not as it must be.
    reason: Option<String>,
}

/// The progress bar and the file of `--out`.
struct Outcomes {
    file: Option<(BufWriter<File>, PathBuf)>,
    bar: ProgressBar,
}

impl Outcomes {
    fn create(path: Option<&Path>, bar: ProgressBar) -> anyhow::Result<Self> {
        let create = |path: &Path| -> anyhow::Result<_> {
            let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            Ok((BufWriter::new(file), path.to_owned()))
        };
        let file = path.map(create).transpose()?;
        Ok(Self { file, bar })
    }

    fn add(&mut self, outcome: &Outcome) -> anyhow::Result<()> {
        self.bar.inc(1);
        let Some((file, path)) = &mut self.file else { return Ok(()) };
        let line: Value = json!({"id": outcome.id, "verdict": outcome.verdict, "reason": outcome.reason});
        writeln!(file, "{line}").with_context(|| format!("cannot write {}", path.display()))
    }

    fn finish(self) -> anyhow::Result<()> {
        self.bar.finish_and_clear();
        let Some((mut file, path)) = self.file else { return Ok(()) };
        file.flush().with_context(|| format!("cannot write {}", path.display()))
    }
}
