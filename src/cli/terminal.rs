//! What a person sees on stderr: errors, panels, progress bars, logs. Nothing here goes to stdout.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Map, Value};
use toolgate_sandbox::output;

use crate::agent::{Final, StopReason};
use crate::tools::Status;

pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const BOLD: Style = Style::new().bold();
const RED: Style = AnsiColor::Red.on_default().bold();
const GREEN: Style = AnsiColor::Green.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const CYAN: Style = AnsiColor::Cyan.on_default().bold();

/// Lines of a tool's result a panel shows.
const PANEL_LINES: usize = 8;
/// Columns of a panel's lines before they are cut.
const PANEL_COLUMNS: usize = 100;

/// Logs go to stderr; `TOOLGATE_LOG` (such as `debug`) says how many, else `default` does.
pub(super) fn start_logging(default: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("TOOLGATE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    // A second start (tests call the program in-process) keeps the first subscriber.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}

/// Prints an error and its causes.
pub(super) fn report(error: &anyhow::Error) {
    let mut err = anstream::stderr().lock();
    let message = format!("{error:#}");
    let _ = writeln!(err, "{RED}error:{RED:#} {}", output::for_terminal(&message));
}

/// Prints a remark.
pub(super) fn note(text: &str) {
    let mut err = anstream::stderr().lock();
    let _ = writeln!(err, "{DIM}{}{DIM:#}", output::for_terminal(text));
}

/// Prints a piece of what the model thinks, behind a sign where it is the first.
pub(super) fn thought(piece: &str, is_first: bool) {
    let mut err = anstream::stderr().lock();
    let sign = if is_first { "· " } else { "" };
    let _ = write!(err, "{DIM}{sign}{}{DIM:#}", output::for_terminal(piece)).and_then(|()| err.flush());
}

/// The head of a call's panel: the tool and its arguments.
pub(super) fn call(name: &str, arguments: &Map<String, Value>) {
    let mut err = anstream::stderr().lock();
    let _ = writeln!(err, "{CYAN}▸ {}{CYAN:#}", output::for_terminal(name));
    for (key, value) in arguments {
        let shown = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let mut lines = shown.lines();
        let first = lines.next().unwrap_or_default();
        let more = lines.count();
        let more = if more > 0 { format!(" … {more} more lines") } else { String::new() };
        let _ =
            writeln!(err, "  {BOLD}{}{BOLD:#} {}{DIM}{more}{DIM:#}", output::for_terminal(key), line(first));
    }
}

/// The foot of a call's panel: what came back.
pub(super) fn result(status: Status, content: &str, ms: u64) {
    let mut err = anstream::stderr().lock();
    let style = match status {
        Status::Ok => GREEN,
        Status::Failed | Status::Limit => YELLOW,
        Status::Denied => RED,
    };
    let lines = content.lines().count();
    for text in content.lines().take(PANEL_LINES) {
        let _ = writeln!(err, "  {DIM}│{DIM:#} {}", line(text));
    }
    if lines > PANEL_LINES {
        let _ = writeln!(err, "  {DIM}│ … {} more lines{DIM:#}", lines - PANEL_LINES);
    }
    let _ = writeln!(err, "  {DIM}└{DIM:#} {style}{}{style:#} {DIM}{ms} ms{DIM:#}", status.as_str());
}

/// What a model wrote where no constraint held it to a form, before the calls that were found in it.
pub(super) fn written(text: &str) {
    note("no runtime's form, but a call is in it:");
    let mut err = anstream::stderr().lock();
    for text in text.lines() {
        let _ = writeln!(err, "  {DIM}{}{DIM:#}", line(text));
    }
}

fn line(text: &str) -> String {
    let safe = output::for_terminal(text);
    let mut cut: String = safe.chars().take(PANEL_COLUMNS).collect();
    if cut.len() < safe.len() {
        cut.push('…');
    }
    cut
}

/// A bar on a terminal, nothing elsewhere. `bytes` shows sizes instead of counts.
pub(super) fn bar(label: &'static str, total: u64, unit: Unit) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let template = match unit {
        Unit::Bytes => "{msg:>8} {bar:30} {bytes:>10}/{total_bytes} {bytes_per_sec} {eta}",
        Unit::Count => "{msg:>8} {bar:30} {pos:>6}/{len}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(label);
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// What a bar counts.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    /// Bytes, shown as sizes.
    Bytes,
    /// Tokens or parts.
    Count,
}

/// How a line of a question looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Head,
    Bold,
    Plain,
    Dim,
    Goes,
    Comes,
}

impl Look {
    pub(super) fn style(self) -> Style {
        match self {
            Self::Head => CYAN,
            Self::Bold => BOLD,
            Self::Plain => Style::new(),
            Self::Dim => DIM,
            Self::Goes => RED,
            Self::Comes => GREEN,
        }
    }
}

/// Columns and rows of the terminal; 0 where it does not say.
pub(super) fn size() -> (usize, usize) {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stderr()) {
        return (size.ws_col.into(), size.ws_row.into());
    }
    (0, 0)
}

/// The last line of a run: how it ended and what it cost.
pub(super) fn summary(outcome: &Final) {
    let stats = &outcome.stats;
    let calls = outcome.calls.len();
    let how = match outcome.stop_reason {
        StopReason::Final => "done",
        StopReason::MaxIterations => "stopped at the last iteration",
        StopReason::Loop => "stopped: the same call again and again",
        StopReason::Budget => "stopped at the token budget",
        StopReason::Cancelled => "cancelled",
        _ => "stopped by an error",
    };
    let thought = match stats.reasoning_tokens {
        0 => String::new(),
        tokens => format!(", {tokens} of thought"),
    };
    note(&format!(
        "{how} · {} {} · {} prompt tokens ({} cached) · {} sampled, {} guessed, {} forced{thought}, {} evaluations · {:.1} s",
        calls,
        if calls == 1 { "call" } else { "calls" },
        stats.prompt_tokens,
        stats.cached_tokens,
        stats.sampled_tokens,
        stats.accepted_tokens,
        stats.forced_tokens,
        stats.decode_calls,
        stats.ms.total / 1e3,
    ));
}
