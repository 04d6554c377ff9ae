//! How a run is shown while it goes on: as JSON lines, or as text on stdout with panels on stderr.

use std::io::Write;

use indicatif::ProgressBar;
use toolgate_sandbox::output;

use super::terminal::{self, Unit};
use crate::agent::Event;

/// Shows events.
pub(super) struct View {
    json: bool,
    prefill: Option<ProgressBar>,
    /// Whether the answer's last line is still open.
    open_line: bool,
    /// Whether a thought is being shown.
    thinks: bool,
}

impl View {
    /// A view as JSON lines, or as text.
    pub(super) fn new(json: bool) -> Self {
        Self { json, prefill: None, open_line: false, thinks: false }
    }

    /// Shows what happened.
    pub(super) fn show(&mut self, event: &Event) {
        if self.json {
            // A reader that has gone away cannot be told anything; the run still ends in order.
            if let Ok(line) = serde_json::to_string(event) {
                let mut out = std::io::stdout().lock();
                let _ = writeln!(out, "{line}").and_then(|()| out.flush());
            }
            return;
        }
        if !matches!(event, Event::Reasoning { .. } | Event::PrefillProgress { .. }) {
            self.end_thought();
        }
        match event {
            Event::Prefill { .. } => {
                if let Some(bar) = self.prefill.take() {
                    bar.finish_and_clear();
                }
            }
            Event::PrefillProgress { done, tokens } => {
                let bar =
                    self.prefill.get_or_insert_with(|| terminal::bar("reading", *tokens as u64, Unit::Count));
                bar.set_position(*done as u64);
            }
            Event::Text { delta } => {
                let mut out = std::io::stdout().lock();
                let _ = write!(out, "{}", output::for_terminal(delta)).and_then(|()| out.flush());
                self.open_line = !delta.ends_with('\n');
            }
            Event::Reasoning { delta } => {
                self.end_line();
                terminal::thought(delta, !std::mem::replace(&mut self.thinks, true));
            }
            Event::ToolCall { name, arguments, .. } => {
                self.end_line();
                terminal::call(name, arguments);
            }
            Event::ToolResult { status, content, ms, .. } => terminal::result(*status, content, *ms),
            Event::Recovered { text } => {
                self.end_line();
                terminal::written(text);
            }
            Event::Retry { why } => {
                self.end_line();
                terminal::note(&format!("again: {why}"));
            }
            Event::Summarized { messages, summary } => {
                self.end_line();
                terminal::note(&format!(
                    "a summary of {messages} earlier messages takes their place: {summary}"
                ));
            }
            Event::Final(outcome) => {
                self.end_line();
                terminal::summary(outcome);
            }
            _ => {}
        }
    }

    fn end_thought(&mut self) {
        if std::mem::take(&mut self.thinks) {
            terminal::note("");
        }
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.open_line) {
            let _ = writeln!(std::io::stdout().lock());
        }
    }
}
