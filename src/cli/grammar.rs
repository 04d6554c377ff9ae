//! `toolgate grammar`: check a GBNF file, match a text against it, draw random texts of it.
//!
//! The outcome goes to stdout, what is wrong with the grammar to stderr.

use std::hash::{BuildHasher, Hasher};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use toolgate_grammar::gbnf::{ParseOptions, Parsed, SampleOptions, Sampler, Severity};
use toolgate_grammar::{Error, Limits};
use toolgate_sandbox::output;

use super::exit::Exit;
use super::terminal;
use crate::agent::input::{self, is_stdin};

/// Arguments of `toolgate grammar`.
#[derive(Args)]
#[command(after_help = "Example:\n  toolgate grammar check grammar.gbnf")]
pub(super) struct GrammarArgs {
    #[command(subcommand)]
    command: GrammarCommand,
}

#[derive(Subcommand)]
enum GrammarCommand {
    /// Parse a GBNF file and report what is wrong or questionable in it.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Say whether a text matches a grammar, and if not, where it stops and what could have come there.
    #[command(after_help = MATCH_EXAMPLES)]
    Match(MatchArgs),
    /// Draw random texts that match a grammar.
    #[command(after_help = SAMPLE_EXAMPLES)]
    Sample(SampleArgs),
}

const CHECK_EXAMPLES: &str = "\
Examples:
  toolgate grammar check grammars/lib/json.gbnf
  toolgate schema compile parameters.json | toolgate grammar check -

Exit codes: 0 usable, perhaps with warnings; 2 not GBNF, or a grammar the engine refuses.";

const MATCH_EXAMPLES: &str = "\
Examples:
  toolgate grammar match grammars/examples/arithmetic.gbnf --text '1 + 2 * x'
  toolgate grammar match json.gbnf --file answer.json
  echo -n '[1, 2]' | toolgate grammar match json.gbnf --file -

Exit codes: 0 matches; 1 does not; 2 not GBNF, or a grammar the engine refuses.";

const SAMPLE_EXAMPLES: &str = "\
Examples:
  toolgate grammar sample grammars/examples/tool-call.gbnf
  toolgate grammar sample json.gbnf --count 20 --seed 1 --max-len 80
  toolgate grammar sample json.gbnf --count 5 --json    # one JSON string a line";

#[derive(Args)]
struct Source {
    /// The GBNF file; - reads it from standard input.
    file: PathBuf,
    /// The rule where matching starts.
    #[arg(long, value_name = "NAME", default_value = "root")]
    root: String,
}

#[derive(Args)]
struct CheckArgs {
    #[command(flatten)]
    source: Source,
}

#[derive(Args)]
struct MatchArgs {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    subject: Subject,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Subject {
    /// The text to match.
    #[arg(long, allow_hyphen_values = true)]
    text: Option<String>,
    /// The file to match, byte for byte; - reads standard input.
    #[arg(long = "file", value_name = "FILE")]
    path: Option<PathBuf>,
}

#[derive(Args)]
struct SampleArgs {
    #[command(flatten)]
    source: Source,
    /// How many texts.
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: u64,
    /// Starts the random numbers: the same seed draws the same texts. Another one every time if left out.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The longest text, in characters.
    #[arg(long, value_name = "N", default_value_t = SampleOptions::default().max_len)]
    max_len: u64,
    /// Print each text as a JSON string, so that line breaks in it can be told from the one behind it.
    #[arg(long)]
    json: bool,
}

/// Runs `toolgate grammar`.
pub(super) fn run(args: GrammarArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    match args.command {
        GrammarCommand::Check(args) => check(&args, out),
        GrammarCommand::Match(args) => match_text(&args, out),
        GrammarCommand::Sample(args) => sample(&args, out),
    }
}

fn check(args: &CheckArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let parsed = parse(&args.source)?;
    let warnings = parsed.check();
    for warning in &warnings {
        terminal::note(&warning.report());
    }
    let errors = warnings.iter().filter(|warning| warning.severity == Severity::Error).count();
    let rules = counted(parsed.grammar.rules().len(), "rule");
    let name = args.source.file.display();
    let questionable = counted(warnings.len() - errors, "warning");
    writeln!(out, "{name}: {rules}, {}, {questionable}", counted(errors, "error"))?;
    Ok(if errors == 0 { Exit::Done } else { Exit::Usage })
}

fn match_text(args: &MatchArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let text = match (&args.subject.text, &args.subject.path) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) if is_stdin(path) && is_stdin(&args.source.file) => {
            bail!("the grammar and the text cannot both come from standard input")
        }
        (None, Some(path)) => read(path)?,
        (None, None) => bail!("nothing to match: give --text or --file"),
    };
    let parsed = parse(&args.source)?;
    parsed.usable().map_err(reported).with_context(|| not_usable(&args.source))?;
    let outcome = parsed.grammar.match_text(&text, &Limits::default()).map_err(reported)?;
    writeln!(out, "{}", output::for_terminal(&outcome.report()))?;
    if outcome.matched {
        return Ok(Exit::Done);
    }
    if args.subject.path.is_some() && outcome.offset > 0 && is_final_break(&text, outcome.offset) {
        terminal::note(
            "everything before the file's final line break was read: is it meant to be part of the text?",
        );
    }
    Ok(Exit::Failed)
}

fn sample(args: &SampleArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let parsed = parse(&args.source)?;
    let options = SampleOptions::default().max_len(args.max_len);
    let sampler = Sampler::new(&parsed.grammar, &options).map_err(reported)?;
    // A hasher with fresh keys is the one source of randomness in the standard library.
    let seed = args.seed.unwrap_or_else(|| std::hash::RandomState::new().build_hasher().finish());
    let on_terminal = std::io::stdout().is_terminal();
    for index in 0..args.count {
        let text = sampler.seeded(seed.wrapping_add(index)).map_err(reported)?;
        if args.json {
            writeln!(out, "{}", serde_json::to_string(&text)?)?;
        } else if on_terminal {
            writeln!(out, "{}", output::for_terminal(&text))?;
        } else {
            writeln!(out, "{text}")?;
        }
    }
    Ok(Exit::Done)
}

fn parse(source: &Source) -> anyhow::Result<Parsed> {
    let text = read(&source.file)?;
    let options = ParseOptions::default().root(source.root.clone());
    Parsed::parse(&text, &options).map_err(reported).with_context(|| not_usable(source))
}

fn not_usable(source: &Source) -> String {
    format!("{} is not a usable grammar", source.file.display())
}

/// The error with its excerpt and hint, which its one-line form leaves out.
fn reported(error: Error) -> anyhow::Error {
    anyhow!("{}", error.report())
}

fn is_final_break(text: &str, offset: usize) -> bool {
    matches!(text.get(offset..), Some("\n" | "\r\n"))
}

/// The whole file, as long as it is no longer than a grammar may be and is UTF-8.
fn read(path: &Path) -> anyhow::Result<String> {
    let bytes = input::read(path, Limits::default().source_bytes as u64)?;
    String::from_utf8(bytes).with_context(|| format!("{} is not UTF-8 text", path.display()))
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
