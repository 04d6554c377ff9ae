//! `toolgate eval`: runs a file of tasks, of BFCL questions or of questions over a checkout with a model and counts what it
//! does right.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use serde_json::Value;
use toolgate_sandbox::policy::ProcessLimits;

use super::exit::Exit;
use super::model_args::{Load, ModelOptions};
use super::run::{checked, stop_on_interrupt};
use super::terminal::{self, BOLD, DIM, Unit};
use super::tool::{self, Workspace};
use crate::agent::Hints;
use crate::engine::{Cancel, Engine};
use crate::{Error, Kind};
use toolgate_lab::jsonl::Jsonl;
use toolgate_lab::{self as eval, Ablation, Base, Case, Delta, Record, Repository, Summary};

const EXAMPLES: &str = "\
Examples:
  toolgate eval tasks.jsonl --model qwen2.5-coder-1.5b --out runs.jsonl
  toolgate eval tasks.jsonl --category read,list --constraint none
  toolgate eval bfcl.jsonl --limit 100
  toolgate eval tasks.jsonl --calibrate
  toolgate eval tasks.jsonl talk.jsonl --ablate --out ablation.jsonl
  toolgate eval tasks.jsonl --ablate=mention,paths
  toolgate eval --repository ~/src/project questions.jsonl

The file has a JSON object a line. With --out each record is written as it comes; what is there already is not run
again, so a run that was stopped goes on where it was.

With --repository a line is a question over the checkout, such as
  {\"id\": \"serde\", \"prompt\": \"Which version of serde does Cargo.toml ask for?\", \"all\": [\"1.0\"]}
  {\"id\": \"port\", \"mode\": \"edit\", \"prompt\": \"Set the port to 8080.\", \"file\": [\"app.toml\", \"port = 8080\"]}
The answer holds one of the texts of any and each of those of all. In mode read, the default, nothing may change.";

/// Arguments of `toolgate eval`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct EvalArgs {
    /// Tasks, or questions of the Berkeley Function-Calling Leaderboard. Several files are sets of their own, for --ablate.
    #[arg(required = true)]
    file: Vec<PathBuf>,
    /// The files have questions over this checkout. Each is asked over a fresh copy, without .git, target, links and files over
    /// 1 MiB. A copy has 20,000 files at most.
    #[arg(long, value_name = "DIR")]
    repository: Option<PathBuf>,
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
    /// Which hints are on: none, auto, or names with commas between.
    #[arg(long, default_value = "auto", value_name = "none|auto|NAME,…")]
    hints: Hints,
    /// Run the cases that a hint steered once more without it, for each hint or for these, and print what each brings, in points with
    /// 95 % intervals. With --out FILE the records of a run without a hint go to FILE.without-HINT.
    #[arg(
        long,
        conflicts_with = "calibrate",
        value_name = "NAME,…",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "auto"
    )]
    ablate: Option<Hints>,
    /// Tokens a turn at most.
    #[arg(long, default_value_t = 300, value_name = "N")]
    max_tokens: usize,
    /// 0 takes the likeliest token every time [default: what the model's makers advise, else 0].
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f32>,
}

/// Runs it.
pub(super) fn run(args: EvalArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    checked(args.temperature)?;
    let repository = match &args.repository {
        None => None,
        Some(directory) => {
            let checkout = Repository::open(directory)?;
            Some(args.file.iter().fold(checkout, |checkout, file| checkout.without(file)))
        }
    };
    let parse = |value| match &repository {
        None => Case::from_json(value),
        Some(repository) => repository.case(value),
    };
    let mut sets = Vec::new();
    for file in &args.file {
        let cases = select(read(file, parse)?, &args);
        anyhow::ensure!(!cases.is_empty(), "{}: no case to run", file.display());
        sets.push((set_name(file), cases));
    }
    anyhow::ensure!(
        args.ablate.is_some() || sets.len() == 1,
        "several files are sets for --ablate; give one without it"
    );
    let system = match &args.system {
        None => None,
        Some(file) => {
            let text =
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            Some(text.trim().to_owned())
        }
    };
    let mut runner = Runner { args: &args, system, cancel: Cancel::default(), engine: None };
    stop_on_interrupt(&runner.cancel)?;
    let figures = match (sets.as_slice(), &args.ablate) {
        (sets, Some(left_out)) => serde_json::to_value(runner.ablation(sets, left_out)?)?,
        ([(_, cases)], None) => runner.summary(cases)?,
        _ => anyhow::bail!("no file of cases was given"),
    };
    serde_json::to_writer_pretty(&mut *out, &figures)?;
    writeln!(out)?;
    Ok(if runner.cancel.is_cancelled() { Exit::Failed } else { Exit::Done })
}

/// The name of a file's set of cases.
fn set_name(file: &Path) -> String {
    file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

/// What runs cases: the model is loaded for the first that is not known yet.
struct Runner<'a> {
    args: &'a EvalArgs,
    system: Option<String>,
    cancel: Cancel,
    engine: Option<Arc<dyn Engine>>,
}

impl Runner<'_> {
    /// How a set of cases goes.
    fn summary(&mut self, cases: &[Case]) -> anyhow::Result<Value> {
        let args = self.args;
        let records = self.records(cases, &args.hints, args.out.as_deref())?;
        let summary = Summary::of(records.iter().flatten());
        table(&summary);
        let mut figures = serde_json::to_value(&summary)?;
        if let (true, Some(figures)) = (args.calibrate, figures.as_object_mut()) {
            let calibration = eval::Calibration::of(
                cases.iter().zip(&records).filter_map(|(case, made)| Some((case, made.as_ref()?))),
            );
            figures.insert("calibration".to_owned(), serde_json::to_value(calibration)?);
        }
        Ok(figures)
    }

    /// What each of these hints that is on brings for each set of cases.
    fn ablation(&mut self, sets: &[(String, Vec<Case>)], left_out: &Hints) -> anyhow::Result<Ablation> {
        let (args, all) = (self.args, &self.args.hints);
        let is_on = |name: &&str| all.has(name) && left_out.has(name);
        let names: Vec<&str> = Hints::known().map(|(name, _)| name).filter(is_on).collect();
        anyhow::ensure!(!names.is_empty(), "none of these hints is on, so there is none to leave out");
        let mut found = Ablation::default();
        for (set, cases) in sets {
            let base: Vec<Record> =
                self.records(cases, all, args.out.as_deref())?.into_iter().flatten().collect();
            found.sets.insert(set.clone(), Base::of(&base));
            for &name in &names {
                if self.cancel.is_cancelled() {
                    return Ok(found);
                }
                terminal::note(&format!("{set} without {name}"));
                let out = args.out.as_ref().map(|out| {
                    let mut out = out.clone().into_os_string();
                    out.push(format!(".without-{name}"));
                    PathBuf::from(out)
                });
                // Those that it did not steer go the same way without it.
                let (again, same): (Vec<&Record>, Vec<&Record>) =
                    base.iter().partition(|record| record.may_differ_without(name));
                let again: HashSet<&str> = again.iter().map(|record| record.id.as_str()).collect();
                let again: Vec<Case> =
                    cases.iter().filter(|case| again.contains(case.id())).cloned().collect();
                let without = self.records(&again, &all.clone().without(name), out.as_deref())?;
                let without: Vec<Record> =
                    without.into_iter().flatten().chain(same.into_iter().cloned()).collect();
                let of_hint = found.hints.entry(name.to_owned()).or_default();
                of_hint.insert(set.clone(), Delta::of(&base, &without));
            }
        }
        Ok(found)
    }

    /// The records of cases with these hints. Those that a file has already are not made again; the others are added to it. None of
    /// a case that was not run.
    fn records(
        &mut self,
        cases: &[Case],
        hints: &Hints,
        file: Option<&Path>,
    ) -> anyhow::Result<Vec<Option<Record>>> {
        let (mut known, mut kept) = match file {
            None => (HashMap::new(), None),
            Some(file) => {
                let (known, kept) = open_records(file)?;
                (known, Some(kept))
            }
        };
        let options = eval::Options {
            system: self.system.clone(),
            max_tokens: self.args.max_tokens,
            temperature: self.args.temperature,
            parallel: self.args.parallel,
            builtin: &|directory, mode, memory| {
                let workspace = Workspace::of(directory, mode);
                tool::registry_with(&workspace, &ProcessLimits::default(), memory, None)
                    .map_err(|error| Error::input(format!("{error:#}")))
            },
            hints: hints.clone(),
        };
        let mut records: Vec<Option<Record>> = cases.iter().map(|case| known.remove(case.id())).collect();
        let bar = terminal::bar("running", cases.len() as u64, Unit::Count);
        let told = |record: &Record| {
            bar.println(outcome(record));
            bar.inc(1);
        };
        records.iter().flatten().for_each(told);
        let missing: Vec<usize> =
            (0..cases.len()).filter(|&at| matches!(records.get(at), Some(None))).collect();
        if !missing.is_empty() {
            let engine = self.engine()?;
            let wanted: Vec<&Case> = missing.iter().filter_map(|&at| cases.get(at)).collect();
            let at_once = self.args.at_once;
            let done = eval::run_all(&wanted, &engine, &options, at_once, &self.cancel, &mut |at, record| {
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
        Ok(records)
    }

    fn engine(&mut self) -> anyhow::Result<Arc<dyn Engine>> {
        if let Some(engine) = &self.engine {
            return Ok(engine.clone());
        }
        let model = &self.args.model;
        let (engine, _) = model.load_for(&model.resolve()?, Load::for_turns(self.args.at_once))?;
        self.engine = Some(engine.clone());
        Ok(engine)
    }
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
        "{BOLD}{:<20}{:>5}{:>7}{:>7}{:>9}{:>13}{:>7}{:>11}{:>8}{:>15}{BOLD:#}",
        "category",
        "n",
        "passed",
        "rate",
        "seconds",
        "evaluations",
        "leaks",
        "no access",
        "echoes",
        "same language"
    );
    for (name, row) in summary.rows() {
        let _ = writeln!(
            err,
            "{name:<20}{:>5}{:>7}{:>6.0}%{:>9.2}{:>13.1}{:>7}{:>11}{:>8}{:>15}",
            row.n,
            row.passed,
            row.rate * 100.0,
            row.mean_seconds,
            row.mean_decode_calls,
            row.leaks,
            row.no_access_answers,
            row.echoes,
            format!("{} of {}", row.same_language, row.languages_told)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn hints_to_leave_out_are_named_behind_an_equals_sign_or_are_all() {
        let parsed = |arguments: &[&str]| {
            let args: EvalArgs = crate::cli::parsed(arguments).unwrap();
            (args.ablate.map(|hints| hints.to_string()), args.file.len())
        };
        assert_eq!(parsed(&["a.jsonl"]), (None, 1));
        assert_eq!(parsed(&["--ablate=paths,mention", "a.jsonl"]), (Some("mention,paths".to_owned()), 1));
        assert_eq!(parsed(&["--ablate", "a.jsonl", "b.jsonl"]), (Some(Hints::auto().to_string()), 2));
    }
}
