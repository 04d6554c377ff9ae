//! Ctrl-C in a chat: it stops the turn that is being made and not the program.
//!
//! At the prompt the line editor reads Ctrl-C as a key, so a signal that comes there is somebody else's wish to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;

use crate::cli::exit::Exit;
use crate::engine::Cancel;

/// Signals within a turn after which the program ends although the turn has not: a tool may be stuck.
const PATIENCE: usize = 3;
/// The count of signals while no turn is made.
const IDLE: usize = usize::MAX;

/// Hears signals.
pub(super) struct Stop {
    cancel: Cancel,
    /// Signals since the turn began, or [`IDLE`].
    heard: Arc<AtomicUsize>,
}

/// What becomes of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    StopTurn,
    EndProgram,
}

/// What a signal means after so many since the turn began.
fn meaning(before: usize) -> Heard {
    if before == IDLE || before + 1 >= PATIENCE { Heard::EndProgram } else { Heard::StopTurn }
}

/// Begins to hear signals, for turns that look at `cancel`.
pub(super) fn listen(cancel: &Cancel) -> anyhow::Result<Stop> {
    let stop = Stop { cancel: cancel.clone(), heard: Arc::new(AtomicUsize::new(IDLE)) };
    let (cancel, heard) = (cancel.clone(), stop.heard.clone());
    let restore = cooked();
    ctrlc::set_handler(move || {
        let count = |before| (before != IDLE).then(|| before + 1);
        // Both ways it holds the count before.
        let before = heard.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count).unwrap_or(IDLE);
        match meaning(before) {
            Heard::StopTurn => cancel.cancel(),
            Heard::EndProgram => {
                // Nothing is half-written: files are replaced by renaming. Only the terminal has to be put right.
                restore();
                std::process::exit(i32::from(Exit::Failed.code()));
            }
        }
    })
    .context("cannot listen for Ctrl-C")?;
    Ok(stop)
}

impl Stop {
    /// Makes a turn, which signals stop.
    pub(super) fn during<T>(&self, turn: impl FnOnce(&Cancel) -> T) -> T {
        self.cancel.reset();
        self.heard.store(0, Ordering::SeqCst);
        let made = turn(&self.cancel);
        self.heard.store(IDLE, Ordering::SeqCst);
        made
    }
}

/// Puts the terminal back into the state it is in now.
fn cooked() -> impl Fn() + Send + 'static {
    #[cfg(unix)]
    let now = rustix::termios::tcgetattr(std::io::stdin()).ok();
    move || {
        #[cfg(unix)]
        if let Some(now) = &now {
            let _ = rustix::termios::tcsetattr(std::io::stdin(), rustix::termios::OptionalActions::Now, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_stop_the_turn_and_only_patience_ends_the_program() {
        assert_eq!((meaning(0), meaning(1)), (Heard::StopTurn, Heard::StopTurn));
        assert_eq!((meaning(2), meaning(IDLE)), (Heard::EndProgram, Heard::EndProgram));
    }
}
