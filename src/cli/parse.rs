//! `toolgate parse`: the fallback parser on a text, its findings as JSON.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::Value;
use toolgate_chat::ToolSpec;
use toolgate_chat::fallback::{extract_inside_reasoning, extract_typed};

use super::exit::Exit;
use crate::agent::input;

/// The longest text that is read.
const MOST_BYTES: u64 = 256 << 20;

/// Arguments of `toolgate parse`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ParseArgs {
    /// The text; - or nothing reads it from standard input.
    file: Option<PathBuf>,
    /// Tool definitions, a JSON list, that tell the types of values written as bare text.
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// The text begins inside reasoning, which the prompt had opened.
    #[arg(long)]
    inside_reasoning: bool,
}

const EXAMPLES: &str = "\
Examples:
  toolgate parse reply.txt
  echo \"<tool_call>{'tool': 'now', 'parameters': {}}</tool_call>\" | toolgate parse

Prints {\"content\", \"reasoning\", \"calls\", \"pattern\", \"repairs\", \"dropped\"}: what remains of the text, what was thought,
the calls, how the first was written, what was mended, and the bytes of wrappers that hold no call.

Exit codes: 0 read, whatever was found; 2 no text.";

/// Runs `toolgate parse`.
pub(super) fn run(args: &ParseArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let text = read(args.file.as_deref().unwrap_or(Path::new("-")))?;
    let tools = args.tools.as_deref().map(definitions).transpose()?.unwrap_or_default();
    let read = if args.inside_reasoning { extract_inside_reasoning } else { extract_typed };
    let found = read(&text, &tools);
    writeln!(out, "{}", serde_json::to_string(&found)?)?;
    Ok(Exit::Done)
}

fn definitions(path: &Path) -> anyhow::Result<Vec<ToolSpec>> {
    let name = path.display();
    let value: Value = serde_json::from_str(&read(path)?).with_context(|| format!("{name} is not JSON"))?;
    let Value::Array(list) = value else { bail!("{name} is not a list of tool definitions") };
    list.iter().map(|tool| ToolSpec::from_any(tool).with_context(|| format!("in {name}"))).collect()
}

fn read(path: &Path) -> anyhow::Result<String> {
    // The text of a model may be cut inside a character.
    Ok(String::from_utf8_lossy(&input::read(path, MOST_BYTES)?).into_owned())
}
