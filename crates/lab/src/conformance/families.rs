//! `toolgate conformance families`: do the families of calls write the tokens that their models know?

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use crate::families::{Corpus, Failure};
use anyhow::Context;
use clap::Args;
use serde_json::Value;
use toolgate_chat::format::Family;

pub(super) const EXAMPLES: &str = "\
Example:
  toolgate conformance families --vocabularies gguf/ --templates jinja/ --out failures.jsonl

Reads the vocabulary and the template of each .gguf file, no weights. Each is tried with its own template and with each
.jinja file whose control tokens it has. Counts, for each law and family, cases, those that failed, and those that could not
be tried, by the reason. A line of --out is a case that failed. --table has a row for each family.";

/// Arguments of `toolgate conformance families`.
#[derive(Args)]
pub(super) struct FamiliesArgs {
    /// A directory of .gguf files.
    #[arg(long, value_name = "DIR")]
    vocabularies: PathBuf,
    /// A directory of .jinja files.
    #[arg(long, value_name = "DIR")]
    templates: PathBuf,
    /// Turns of random calls for each vocabulary and template.
    #[arg(long, value_name = "N", default_value_t = 12)]
    turns: usize,
    /// Write a line for each case that failed to this file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write a table of the families, in Markdown, to this file.
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
}

/// Runs the laws; the summary.
pub(super) fn run(args: &FamiliesArgs) -> anyhow::Result<Value> {
    let create = |path: &PathBuf| -> anyhow::Result<_> {
        Ok(BufWriter::new(File::create(path).with_context(|| format!("cannot write {}", path.display()))?))
    };
    let mut out = args.out.as_ref().map(create).transpose()?;
    let mut written = Ok(());
    let mut failed = |failure: Failure| {
        if let (Some(out), Ok(())) = (&mut out, &written) {
            written = serde_json::to_writer(&mut *out, &failure)
                .map_err(anyhow::Error::from)
                .and_then(|()| Ok(writeln!(out)?));
        }
    };
    let mut skipped = |what: &str| tracing::warn!("left out: {what}");
    let corpus = Corpus {
        vocabularies: args.vocabularies.clone(),
        templates: args.templates.clone(),
        turns: args.turns,
    };
    let report = corpus.run(&mut failed, &mut skipped).with_context(|| {
        format!("cannot read {} and {}", args.vocabularies.display(), args.templates.display())
    })?;
    written.and_then(|()| Ok(out.map_or(Ok(()), |mut out| out.flush())?)).context("cannot write --out")?;
    if let Some(path) = &args.table {
        let table = report.table(&Family::names());
        std::fs::write(path, table).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(serde_json::to_value(report)?)
}
