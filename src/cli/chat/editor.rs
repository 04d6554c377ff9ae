//! The line editor of the chat: history over sessions, completion of commands. All that names `rustyline` is here.

use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::config::Behavior;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};

use super::input::{COMMANDS, Input};
use crate::cli::{state, terminal};

/// Lines of history kept.
const HISTORY: usize = 1_000;

/// Reads lines on the terminal.
pub(super) struct Lines {
    editor: Editor<Commands, DefaultHistory>,
    history: Option<PathBuf>,
}

impl Lines {
    /// An editor with the history of earlier chats.
    pub(super) fn new() -> anyhow::Result<Self> {
        // Where standard output is a file, the prompt still belongs on the terminal.
        let config = Config::builder()
            .behavior(Behavior::PreferTerm)
            .max_history_size(HISTORY)?
            .history_ignore_space(true)
            .build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(Commands));
        let history = state::directory().and_then(|dir| match state::make(&dir) {
            Ok(()) => Some(dir.join("history.txt")),
            Err(why) => {
                terminal::note(&format!("what you type is not remembered: {}: {why}", dir.display()));
                None
            }
        });
        if let Some(file) = history.as_deref().filter(|file| file.exists()) {
            if let Err(why) = state::keep_private(file) {
                terminal::note(&format!("others can read what you typed in {}: {why}", file.display()));
            }
            // A history that cannot be read is no reason not to talk.
            let _ = editor.load_history(file);
        }
        Ok(Self { editor, history })
    }

    /// The next line.
    pub(super) fn next(&mut self, sign: &str) -> anyhow::Result<Input> {
        match self.editor.readline(sign) {
            Ok(line) => {
                self.remember(&line);
                Ok(Input::Line(line))
            }
            Err(ReadlineError::Interrupted) => Ok(Input::Interrupt),
            Err(ReadlineError::Eof) => Ok(Input::End),
            // The terminal was closed.
            Err(ReadlineError::Io(_)) => Ok(Input::End),
            Err(error) => Err(error.into()),
        }
    }

    fn remember(&mut self, line: &str) {
        let is_new = !line.trim().is_empty() && self.editor.add_history_entry(line).unwrap_or(false);
        // Written at once: a chat that is killed has its history, and two chats share one file.
        if let Some(file) = self.history.as_deref().filter(|_| is_new) {
            let _ = self.editor.append_history(file);
        }
    }
}

/// Asks for one line on the terminal; nothing at Ctrl-C, Ctrl-D or where there is none.
pub(in crate::cli) fn ask_once(question: &str) -> Option<String> {
    let config = Config::builder().behavior(Behavior::PreferTerm).build();
    let mut editor = Editor::<(), DefaultHistory>::with_config(config).ok()?;
    editor.readline(question).ok()
}

/// Forgets what was typed and not read yet: it was meant for something else.
pub(in crate::cli) fn forget_typed() {
    #[cfg(unix)]
    {
        use rustix::termios::{QueueSelector, tcflush};
        let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
    }
}

/// Completes the chat's commands.
struct Commands;

impl Completer for Commands {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let begun = line.get(..pos).unwrap_or_default();
        Ok((0, completions(begun)))
    }
}

impl Hinter for Commands {
    type Hint = String;
}

impl Highlighter for Commands {}
impl Validator for Commands {}
impl Helper for Commands {}

/// The commands that begin as a line does.
fn completions(begun: &str) -> Vec<String> {
    let fitting = COMMANDS.iter().filter(|(name, ..)| begun.starts_with('/') && name.starts_with(begun));
    let space = |arguments: &str| if arguments.is_empty() { "" } else { " " };
    fitting.map(|(name, arguments, _)| format!("{name}{}", space(arguments))).collect()
}

#[cfg(test)]
mod tests {
    use super::completions;

    #[test]
    fn commands_are_completed_at_the_beginning_of_a_line_only() {
        assert_eq!(completions("/mo"), ["/model ", "/mode "]);
        assert_eq!(completions("/u"), ["/undo"]);
        assert!(
            completions("").is_empty() && completions("u").is_empty() && completions("/mode e").is_empty()
        );
    }
}
