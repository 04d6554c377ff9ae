//! `toolgate schema`: compile JSON Schema to GBNF, print its contract, test an instance against both.
//!
//! The outcome goes to stdout, why a schema cannot be compiled to stderr.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use toolgate_grammar::compile::{Undeclared, render};
use toolgate_grammar::{self as grammar, Compiled, Error, Limits, Schema, Whitespace, compile};
use toolgate_sandbox::output;

use super::exit::Exit;
use crate::agent::input::{self, is_stdin};
use crate::tools::{Check, Violation};

/// Arguments of `toolgate schema`.
#[derive(Args)]
#[command(after_help = "Example:\n  toolgate schema compile parameters.json --report text")]
pub(super) struct SchemaArgs {
    #[command(subcommand)]
    command: SchemaCommand,
}

#[derive(Subcommand)]
enum SchemaCommand {
    /// Compile a JSON Schema, or the parameters of a tool definition, to GBNF.
    #[command(after_help = COMPILE_EXAMPLES)]
    Compile(CompileArgs),
}

const COMPILE_EXAMPLES: &str = "\
Examples:
  toolgate schema compile parameters.json > parameters.gbnf
  toolgate schema compile tool.json --report text
  toolgate schema compile parameters.json --check arguments.json
  echo '{\"enum\": [\"yes\", \"no\"]}' | toolgate schema compile - --whitespace compact

A tool definition may have OpenAI's form (function.parameters), Anthropic's (input_schema) or MCP's (inputSchema).

Exit codes: 0 compiled, and the instance accepted; 1 the instance refused; 2 not a schema, or one that cannot be
compiled.";

#[derive(Args)]
struct CompileArgs {
    /// The schema or tool definition; - reads it from standard input.
    file: PathBuf,
    /// Print what becomes of every keyword instead of the grammar: enforced, checked afterwards, or an annotation.
    #[arg(long, value_name = "FORM")]
    report: Option<Report>,
    /// Say whether the grammar, and the contract as a whole, accept an instance, instead of printing the grammar.
    #[arg(long, value_name = "INSTANCE.json")]
    check: Option<PathBuf>,
    /// Where the text may have white space.
    #[arg(long, value_name = "STYLE", default_value = "spaced")]
    whitespace: Style,
    /// The longest run of white space, with `--whitespace flexible`.
    #[arg(long, value_name = "N", default_value_t = 20)]
    max_blanks: u32,
    /// Whether keys may stand in an object that declares properties and says nothing of others.
    #[arg(long, value_name = "RULE", default_value = "allowed")]
    undeclared: Keys,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Report {
    Json,
    Text,
}

#[derive(Clone, Copy, ValueEnum)]
enum Style {
    /// None.
    Compact,
    /// One blank after each comma and colon.
    Spaced,
    /// Blanks and line breaks wherever JSON allows them.
    Flexible,
}

#[derive(Clone, Copy, ValueEnum)]
enum Keys {
    /// As JSON Schema says.
    Allowed,
    /// No argument that the tool does not know.
    Forbidden,
}

/// Runs `toolgate schema`.
pub(super) fn run(args: SchemaArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let SchemaCommand::Compile(args) = args.command;
    if args.check.as_deref().is_some_and(is_stdin) && is_stdin(&args.file) {
        bail!("the schema and the instance cannot both come from standard input");
    }
    let document = schema_of(read(&args.file)?);
    let whitespace = match args.whitespace {
        Style::Compact => Whitespace::Compact,
        Style::Spaced => Whitespace::Spaced,
        Style::Flexible => Whitespace::Flexible { max: args.max_blanks },
    };
    let undeclared = match args.undeclared {
        Keys::Allowed => Undeclared::Allowed,
        Keys::Forbidden => Undeclared::Forbidden,
    };
    let options = grammar::Options::default().whitespace(whitespace).undeclared(undeclared);
    let not_compiled = || format!("{} cannot be compiled", args.file.display());
    let schema = toolgate_chat::read_schema(&document).map_err(reported).with_context(not_compiled)?;
    let compiled = compile(&schema, &options).map_err(reported).with_context(not_compiled)?;
    let verdict = match &args.check {
        Some(path) => Some(check(&compiled, &schema, &document, &read(path)?, whitespace)?),
        None => None,
    };
    print(args.report, &compiled, verdict.as_ref(), out)?;
    Ok(if verdict.is_none_or(|verdict| verdict.contract) { Exit::Done } else { Exit::Failed })
}

/// What the grammar and the contract say of an instance.
struct Verdict {
    /// The instance as the grammar was shown it.
    text: String,
    grammar: bool,
    contract: bool,
    /// What the validator has against the instance, each with a pointer into it.
    violations: Vec<Violation>,
}

fn check(
    compiled: &Compiled,
    schema: &Schema,
    document: &Value,
    instance: &Value,
    whitespace: Whitespace,
) -> anyhow::Result<Verdict> {
    let text = render(instance, Some(schema), whitespace);
    let grammar = compiled.accepts(&text).map_err(reported)?;
    let check = Check::new(document).map_err(|error| anyhow!("the validator refuses the schema: {error}"))?;
    let violations = check.violations(instance);
    Ok(Verdict { text, grammar, contract: grammar && violations.is_empty(), violations })
}

fn print(
    report: Option<Report>,
    compiled: &Compiled,
    verdict: Option<&Verdict>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    match (report, verdict) {
        (None, None) => write!(out, "{}", compiled.grammar)?,
        (Some(Report::Json), None) => writeln!(out, "{:#}", compiled.contract.to_json())?,
        (Some(Report::Json), Some(verdict)) => {
            let check = json!({
                "grammar": verdict.grammar,
                "contract": verdict.contract,
                "text": verdict.text,
                "violations": verdict.violations,
            });
            writeln!(out, "{:#}", json!({"contract": compiled.contract.to_json(), "check": check}))?;
        }
        (report, verdict) => {
            if report == Some(Report::Text) {
                text_report(compiled, out)?;
            }
            if let Some(verdict) = verdict {
                let word = |holds: bool| if holds { "accepts" } else { "refuses" };
                writeln!(out, "grammar {}", word(verdict.grammar))?;
                writeln!(out, "contract {}", word(verdict.contract))?;
                for violation in &verdict.violations {
                    writeln!(out, "  {}", output::for_terminal(&violation.to_string()))?;
                }
            }
        }
    }
    Ok(())
}

fn text_report(compiled: &Compiled, out: &mut dyn Write) -> anyhow::Result<()> {
    let entries = || compiled.contract.entries();
    let width = entries().map(|entry| entry.pointer().chars().count()).max().unwrap_or(0).min(60);
    for entry in entries() {
        let class = entry.class().as_str();
        let line = match entry.reason() {
            Some(reason) => format!("{class:10}  {:width$}  {reason}", entry.pointer()),
            None => format!("{class:10}  {}", entry.pointer()),
        };
        writeln!(out, "{}", output::for_terminal(&line))?;
    }
    let checked = compiled.contract.checked().count();
    let summary = if checked == 0 {
        "the grammar alone decides validity".to_owned()
    } else {
        format!("{checked} of {} keywords are checked on the finished value", entries().count())
    };
    writeln!(out, "{summary}")?;
    Ok(())
}

/// The parameters of a tool definition; another document is a schema itself.
fn schema_of(document: Value) -> Value {
    let function = document.get("function").filter(|function| function.get("name").is_some());
    let tool = function.unwrap_or(&document);
    let named = tool.get("name").is_some_and(Value::is_string);
    let parameters = ["parameters", "input_schema", "inputSchema"].iter().find_map(|key| tool.get(*key));
    match parameters {
        Some(parameters) if named && parameters.is_object() => parameters.clone(),
        // A tool without parameters takes an empty object.
        None if function.is_some() => json!({"type": "object", "additionalProperties": false}),
        _ => document,
    }
}

/// The error with its hint, which its one-line form leaves out.
fn reported(error: Error) -> anyhow::Error {
    anyhow!("{}", error.report())
}

/// The JSON value of a file that is no longer than a grammar may be.
fn read(path: &Path) -> anyhow::Result<Value> {
    let bytes = input::read(path, Limits::default().source_bytes as u64)?;
    serde_json::from_slice(&bytes).with_context(|| format!("{} is not JSON", path.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_tool_definition_of_any_form_yields_its_parameters() {
        let parameters = json!({"type": "object", "properties": {"parameters": {"type": "string"}}});
        for (document, expected) in [
            (json!({"type": "function", "function": {"name": "f", "parameters": parameters}}), &parameters),
            (json!({"name": "f", "input_schema": parameters}), &parameters),
            (json!({"name": "f", "inputSchema": parameters}), &parameters),
            (json!({"name": "f", "parameters": parameters}), &parameters),
            (parameters.clone(), &parameters),
        ] {
            assert_eq!(&schema_of(document), expected);
        }
        let named = json!({"properties": {"name": true}, "parameters": 1});
        assert_eq!(schema_of(named.clone()), named);
    }

    #[test]
    fn the_verdict_tells_the_grammar_from_the_contract() {
        let document = json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true});
        let schema = Schema::parse(&document).unwrap();
        let compiled = compile(&schema, &grammar::Options::default()).unwrap();
        for (instance, grammar, contract) in
            [(json!([1, 2]), true, true), (json!([1, 1]), true, false), (json!(["a"]), false, false)]
        {
            let verdict = check(&compiled, &schema, &document, &instance, Whitespace::Spaced).unwrap();
            assert_eq!((verdict.grammar, verdict.contract), (grammar, contract), "{instance}");
        }
    }
}
