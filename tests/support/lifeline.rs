//! Beside the tests that start commands: a pipe that says when a command has begun and when all of it has ended.
//!
//! A command opens the pipe for writing, as by `exec 3>alive`; all that it starts has it too. Its lines are events. The pipe ends
//! when the last of these processes has ended. So no test has to guess how long that takes. Included by path.

#![allow(dead_code, clippy::expect_used, reason = "tests; each binary uses a part")]

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longest wait for an event; only a fault takes that long.
const PATIENCE: Duration = Duration::from_secs(20);

/// The reading end of the pipe.
pub(crate) struct Lifeline {
    lines: Receiver<String>,
}

impl Lifeline {
    /// Makes the pipe.
    pub(crate) fn at(path: &Path) -> Self {
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a pipe is made");
        let (line, lines) = channel();
        let path = path.to_owned();
        std::thread::spawn(move || {
            // This waits until the command opens it.
            let pipe = BufReader::new(File::open(path).expect("the pipe is opened"));
            for said in pipe.lines().map_while(Result::ok) {
                let _ = line.send(said);
            }
        });
        Self { lines }
    }

    /// Waits for the next line that the command writes into the pipe.
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the command writes a line")
    }

    /// Waits until all that has the pipe has ended.
    pub(crate) fn end(self) {
        let end = self.lines.recv_timeout(PATIENCE);
        assert_eq!(end, Err(std::sync::mpsc::RecvTimeoutError::Disconnected), "something of it still runs");
    }
}
