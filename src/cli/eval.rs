//! `toolgate eval`: runs a file of tasks or BFCL questions with a model and counts what it does right.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::Value;
use toolgate_sandbox::policy::ProcessLimits;

use super::exit::Exit;
use super::model_args::{Load, ModelOptions};
use super::run::stop_on_interrupt;
use super::terminal::{self, BOLD, DIM, Unit};
use super::tool::{self, Workspace};
use crate::engine::Cancel;
use crate::{Error, Kind};
use toolgate_lab::jsonl::Jsonl;
use toolgate_lab::{self as eval, Case, Record, Summary};

const EXAMPLES: &str = "\
Examples:
  toolgate eval tasks.jsonl --model qwen2.5-coder-1.5b --out runs.jsonl
  toolgate eval tasks.jsonl --category read,list --constraint none
  toolgate eval bfcl.jsonl --limit 100
  toolgate eval tasks.jsonl --calibrate

The file has a JSON object a line. With --out each record is written as it comes; what is there already is not run
again, so a run that was stopped goes on where it was.";

/// Arguments of `toolgate eval`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct EvalArgs {
    /// Tasks, or questions of the Berkeley Function-Calling Leaderboard.
    file: PathBuf,
    #[command(flatten)]
    model: ModelOptions,
    /// The first N cases of each category.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Only these categories.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    category: Option<Vec<String>>,
    /// Write a record a line to this file; cases it has already are counted and not run.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Use the text of this file as system prompt instead of toolgate's own.
    #[arg(long, value_name = "FILE")]
    system: Option<PathBuf>,
    /// Calls a turn at most [default: what suits the model].
    #[arg(long, value_name = "N")]
    parallel: Option<NonZeroUsize>,
    /// Cases run at the same time, in one context of as many times the memory. Each takes longer, all together less.
    #[arg(long, default_value = "1", value_name = "N")]
    at_once: NonZeroUsize,
    /// Add how well the probability of a call tells cases that want one from those that do not, and the threshold that
    /// parts them best.
    #[arg(long)]
    calibrate: bool,
    /// Tokens a turn at most.
    #[arg(long, default_value_t = 300, value_name = "N")]
    max_tokens: usize,
}

/// Runs it.
pub(super) fn run(args: EvalArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let cases = select(read(&args.file, Case::from_json)?, &args);
    anyhow::ensure!(!cases.is_empty(), "{}: no case to run", args.file.display());
    let system = match &args.system {
        None => None,
        Some(file) => {
            let text =
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            Some(text.trim().to_owned())
        }
    };
    let (mut known, mut kept) = match &args.out {
        None => (HashMap::new(), None),
        Some(file) => {
            let (known, kept) = open_records(file)?;
            (known, Some(kept))
        }
    };
    let cancel = Cancel::default();
    stop_on_interrupt(&cancel)?;
    let options = eval::Options {
        system,
        max_tokens: args.max_tokens,
        parallel: args.parallel,
        builtin: &|directory, mode, memory| {
            let workspace = Workspace::of(directory, mode);
            tool::registry_with(&workspace, &ProcessLimits::default(), memory, None)
                .map_err(|error| Error::input(format!("{error:#}")))
        },
    };
    let mut records: Vec<Option<Record>> = cases.iter().map(|case| known.remove(case.id())).collect();
    let bar = terminal::bar("running", cases.len() as u64, Unit::Count);
    let told = |record: &Record| {
        bar.println(outcome(record));
        bar.inc(1);
    };
    records.iter().flatten().for_each(told);
    let missing: Vec<usize> = (0..cases.len()).filter(|&at| matches!(records.get(at), Some(None))).collect();
    if !missing.is_empty() {
        let (engine, _) = args.model.load_for(&args.model.resolve()?, Load::for_turns(args.at_once))?;
        let wanted: Vec<&Case> = missing.iter().filter_map(|&at| cases.get(at)).collect();
        let done = eval::run_all(&wanted, &engine, &options, args.at_once, &cancel, &mut |at, record| {
            told(&record);
            let kept = kept.as_mut().map_or(Ok(()), |file| keep(file, &record));
            if let Some(slot) = missing.get(at).and_then(|&at| records.get_mut(at)) {
                *slot = Some(record);
            }
            kept
        });
        match done {
            Err(error) if error.kind() == Kind::Cancelled => {}
            other => other?,
        }
    }
    bar.finish_and_clear();
    let summary = Summary::of(records.iter().flatten());
    table(&summary);
    let mut figures = serde_json::to_value(&summary)?;
    if let (true, Some(figures)) = (args.calibrate, figures.as_object_mut()) {
        let calibration = eval::Calibration::of(
            cases.iter().zip(&records).filter_map(|(case, made)| Some((case, made.as_ref()?))),
        );
        figures.insert("calibration".to_owned(), serde_json::to_value(calibration)?);
    }
    serde_json::to_writer_pretty(&mut *out, &figures)?;
    writeln!(out)?;
    Ok(if cancel.is_cancelled() { Exit::Failed } else { Exit::Done })
}

/// Adds a record to a file, so that it is there should the next one fail.
fn keep(file: &mut File, record: &Record) -> Result<(), Error> {
    let mut line = serde_json::to_vec(record).map_err(|why| Error::input(why.to_string()))?;
    line.push(b'\n');
    file.write_all(&line).map_err(|why| Error::input(format!("a record cannot be kept: {why}")))
}

/// The cases asked for.
fn select(cases: Vec<Case>, args: &EvalArgs) -> Vec<Case> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let wanted =
        |case: &Case| args.category.as_ref().is_none_or(|names| names.iter().any(|n| n == case.category()));
    let limit = args.limit.unwrap_or(usize::MAX);
    cases
        .into_iter()
        .filter(|case| {
            let count = seen.entry(case.category().to_owned()).or_default();
            *count += 1;
            wanted(case) && *count <= limit
        })
        .collect()
}

/// Reads the rows of a file; an error names the line.
fn read<T>(file: &Path, parse: impl Fn(Value) -> Result<T, Error>) -> anyhow::Result<Vec<T>> {
    let rows = Jsonl::read(file)?;
    rows.rows()
        .map(|row| {
            let (place, value) = row?.into_parts();
            Ok(parse(value).map_err(|error| error.context(place))?)
        })
        .collect()
}

/// The records that are there, by id, and the file to add to.
fn open_records(file: &Path) -> anyhow::Result<(HashMap<String, Record>, File)> {
    let parse = |value| serde_json::from_value::<Record>(value).map_err(|why| Error::input(why.to_string()));
    let known = if file.exists() { read(file, parse)? } else { Vec::new() };
    let kept = OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .with_context(|| format!("cannot write {}", file.display()))?;
    Ok((known.into_iter().map(|record| (record.id.clone(), record)).collect(), kept))
}

/// A line for the terminal about one case.
fn outcome(record: &Record) -> String {
    let verdict = if record.pass { "pass" } else { "FAIL" };
    format!("{verdict} {} {:.1} s {}", record.id, record.seconds, record.reasons.join("; "))
}

/// The figures of an evaluation, a line a category.
fn table(summary: &Summary) {
    let mut err = anstream::stderr().lock();
    let _ = writeln!(
        err,
        "{BOLD}{:<20}{:>5}{:>7}{:>7}{:>9}{:>13}{:>7}{:>11}{BOLD:#}",
        "category", "n", "passed", "rate", "seconds", "evaluations", "leaks", "no access"
    );
    for (name, row) in summary.rows() {
        let _ = writeln!(
            err,
            "{name:<20}{:>5}{:>7}{:>6.0}%{:>9.2}{:>13.1}{:>7}{:>11}",
            row.n,
            row.passed,
            row.rate * 100.0,
            row.mean_seconds,
            row.mean_decode_calls,
            row.leaks,
            row.no_access_answers
        );
    }
    if let Some((_, all)) = summary.rows().last() {
        let (low, high) = all.interval();
        let _ = writeln!(
            err,
            "{DIM}95 % interval of the rate over all: {:.0} to {:.0} %{DIM:#}",
            low * 100.0,
            high * 100.0
        );
    }
}
