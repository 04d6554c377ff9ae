//! Follows a command from its start to its end. Reads its output, watches clock, memory and disk, and ends
//! all its processes.
//!
//! Invariant: when [`run`] returns, every process of the command has ended, or the machine refuses to end it.

use std::io::{self, PipeReader, PipeWriter, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::freeze::Frozen;
use super::watch::{self, Exceeded};
use super::{Child, sys};
use crate::command::capture::Capture;
use crate::command::layer::Status;
use crate::command::limits::Limits;

/// How long the sandbox may take to be set up.
const SETUP: Duration = Duration::from_secs(10);
/// How long processes may take to be gone after they were ended.
const GRACE: Duration = Duration::from_secs(2);
/// How often to look up where nothing is watched.
const IDLE: Duration = Duration::from_millis(50);

/// A command that was started, and the pipes it is seen by.
pub(super) struct Started {
    pub(super) child: Child,
    /// Standard output and standard error, in the order they were written; of a command that is talked to the latter.
    pub(super) output: PipeReader,
    pub(super) status: PipeReader,
    /// Where bubblewrap, or the reduced tier's reaper, tells which process is the sandbox's first.
    pub(super) info: PipeReader,
    /// Closed when it is time for the reaper to end everything.
    pub(super) life: Option<PipeWriter>,
    /// What the broker notes, where there is one.
    pub(super) record: Option<OwnedFd>,
}

/// What a command may take.
pub(super) struct Watch<'a> {
    pub(super) wall: Duration,
    /// Set when it is not needed any more.
    pub(super) stop: Arc<AtomicBool>,
    pub(super) output: usize,
    pub(super) disks: Vec<watch::Disk<'a>>,
    /// Whether memory is watched, in place of a control group.
    pub(super) memory: Option<&'a Limits>,
}

/// Why a command was ended before it ended itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    Wall,
    /// By whoever started it.
    Asked,
    Exceeded(Exceeded),
}

/// How a command ended.
pub(super) struct Ended {
    pub(super) output: Capture,
    /// As the shell reports it: 128 and the signal's number for a process that a signal ended.
    pub(super) code: Option<i32>,
    pub(super) stopped: Option<Stopped>,
    /// What the stage said; nothing if it did not come that far.
    pub(super) status: Option<Status>,
    /// What the broker has noted, where there was to be one.
    pub(super) record: Option<OwnedFd>,
}

/// Follows a command to its end.
pub(super) fn run(started: Started, mut watched: Watch<'_>) -> io::Result<Ended> {
    let Started { mut child, output, status, info, life, record } = started;
    let process = sys::pidfd(i32::try_from(child.id()).unwrap_or(-1))?;
    let mut run = Run { output: Some(output), capture: Capture::new(watched.output), process, frozen: None };
    let first = run.first_process(info)?;
    let status = run.status(status)?;
    let mut stopped = None;
    if matches!(status, Some(Status::Held(_))) {
        stopped = run.follow(&mut watched, first.as_ref().map(|first| first.0))?;
    }
    if life.is_some() {
        drop(life);
        // It ends after all below it have; ended by force it would leave them behind.
        run.wait_for_end(GRACE)?;
    }
    if let Some((_, first)) = &first {
        sys::kill(first.as_fd())?;
    }
    sys::kill(run.process.as_fd())?;
    let exit = child.wait()?;
    if let Some((_, first)) = &first {
        // The first process of a process namespace is gone only after all others are.
        sys::poll(&[Some(first.as_fd())], GRACE)?;
    }
    // What was taken at once, right before the end, nobody has seen yet.
    if stopped.is_none() {
        let exceeded = watched.disks.iter_mut().find_map(watch::Disk::last_count);
        stopped = exceeded.map(Stopped::Exceeded);
    }
    run.drain()?;
    Ok(Ended { output: run.capture, code: exit.code(), stopped, status, record })
}

struct Run {
    output: Option<PipeReader>,
    capture: Capture,
    process: OwnedFd,
    /// What was stopped to be ended.
    frozen: Option<Frozen>,
}

impl Run {
    /// Reads output while waiting for `other`, at most for `time`; says whether `other` is ready.
    fn wait(&mut self, other: std::os::fd::BorrowedFd<'_>, time: Duration) -> io::Result<bool> {
        let output = self.output.as_ref().map(|output| output.as_fd());
        let ready = sys::poll(&[output, Some(other)], time)?;
        if ready.first() == Some(&true) {
            self.read()?;
        }
        Ok(ready.get(1) == Some(&true))
    }

    /// Reads output until the process ends, at most for `time`.
    fn wait_for_end(&mut self, time: Duration) -> io::Result<()> {
        let deadline = Instant::now() + time;
        let process = self.process.try_clone()?;
        while Instant::now() < deadline && !self.wait(process.as_fd(), IDLE)? {}
        Ok(())
    }

    /// Takes what is there, at most a pipe full.
    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; 65_536];
        let read = match &mut self.output {
            Some(output) => output.read(&mut buffer)?,
            None => 0,
        };
        if read == 0 {
            self.output = None;
        }
        self.capture.push(buffer.get(..read).unwrap_or_default());
        Ok(())
    }

    /// Takes what is left in the pipe, without waiting for more.
    fn drain(&mut self) -> io::Result<()> {
        // What a pipe can hold at most, in case somebody still writes.
        for _ in 0..64 {
            let Some(output) = &self.output else { break };
            if sys::poll(&[Some(output.as_fd())], Duration::ZERO)?.first() != Some(&true) {
                break;
            }
            self.read()?;
        }
        Ok(())
    }

    /// The sandbox's first process, as bubblewrap tells; nothing if bubblewrap ended before.
    fn first_process(&mut self, info: PipeReader) -> io::Result<Option<(u32, OwnedFd)>> {
        let text = self.message(info, b'}')?;
        let pid = serde_json::from_slice::<serde_json::Value>(&text)
            .ok()
            .and_then(|value| value.get("child-pid")?.as_u64())
            .and_then(|pid| u32::try_from(pid).ok());
        let Some(pid) = pid else { return Ok(None) };
        // Bubblewrap is its parent and waits for us, so that the number is still its own.
        match sys::pidfd(i32::try_from(pid).unwrap_or(-1)) {
            Ok(fd) => Ok(Some((pid, fd))),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn status(&mut self, status: PipeReader) -> io::Result<Option<Status>> {
        Ok(serde_json::from_slice(&self.message(status, b'\n')?).ok())
    }

    /// What comes through a pipe up to `end`, to its end, or until it takes too long.
    fn message(&mut self, mut pipe: PipeReader, end: u8) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + SETUP;
        let mut text = Vec::new();
        let mut buffer = [0; 4_096];
        // A pipe carries one message and no more.
        while text.len() < 65_536 && !text.contains(&end) && Instant::now() < deadline {
            if !self.wait(pipe.as_fd(), IDLE)? {
                continue;
            }
            match pipe.read(&mut buffer)? {
                0 => break,
                read => text.extend_from_slice(buffer.get(..read).unwrap_or_default()),
            }
        }
        Ok(text)
    }

    /// Looks at a directory, and stops the command for as long as it takes to count what may be too much; for good if it is.
    fn look(&mut self, disk: &mut watch::Disk<'_>, first: Option<u32>) -> Option<Exceeded> {
        let frozen = match disk.look() {
            watch::Look::Calm => return None,
            watch::Look::Due => None,
            watch::Look::Suspicious => first.map(Frozen::below),
        };
        let exceeded = disk.count(first, frozen.is_some());
        if exceeded.is_some() {
            self.frozen = frozen;
        }
        exceeded
    }

    /// Until the command ends, or has to be ended.
    fn follow(&mut self, watched: &mut Watch<'_>, first: Option<u32>) -> io::Result<Option<Stopped>> {
        let deadline = Instant::now() + watched.wall;
        let mut memory = first.zip(watched.memory).map(|(first, limits)| watch::Memory::new(first, limits));
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Some(Stopped::Wall));
            }
            if watched.stop.load(Ordering::Relaxed) {
                return Ok(Some(Stopped::Asked));
            }
            let ticks = watched
                .disks
                .iter()
                .map(watch::Disk::tick)
                .chain(memory.as_ref().map(|_| watch::MEMORY_EVERY));
            let tick = ticks.min().unwrap_or(IDLE);
            // Rounded up, so that the last millisecond is not spent asking.
            let process = self.process.try_clone()?;
            if self.wait(process.as_fd(), left.min(tick).max(Duration::from_millis(1)))? {
                return Ok(None);
            }
            let disk = watched.disks.iter_mut().find_map(|disk| self.look(disk, first));
            let exceeded = disk.or_else(|| memory.as_mut().and_then(watch::Memory::exceeded));
            if let Some(exceeded) = exceeded {
                return Ok(Some(Stopped::Exceeded(exceeded)));
            }
        }
    }
}
