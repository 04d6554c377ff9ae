//! Starts a command in a process group of its own, and follows it to its end: output, clock and stop.
//!
//! Invariant: when [`run`] returns, all that stayed in the group has ended, or the machine refuses to end it.
//! The group is ended before the number of its first process is given back.

use std::io::{self, PipeReader, Read as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};

use super::confined::Confined;
use crate::command::capture::Capture;

#[expect(clippy::disallowed_types, reason = "the door: what starts here is the sandbox itself")]
type Process = std::process::Command;
type Child = std::process::Child;

/// How often to look whether the command has ended.
const TICK: Duration = Duration::from_millis(5);
/// How long processes may take to be gone after they were ended.
const GRACE: Duration = Duration::from_secs(2);

/// What a command may take.
pub(super) struct Bounds {
    pub(super) wall: Duration,
    /// Bytes of output that are kept.
    pub(super) output: usize,
    /// Set when it is not needed any more.
    pub(super) stop: Arc<AtomicBool>,
}

/// Why a command was ended before it ended itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    Wall,
    /// By whoever started it.
    Asked,
}

/// How a command ended.
pub(super) struct Followed {
    pub(super) output: Capture,
    /// As the shell reports it: 128 and the signal's number for a process that a signal ended.
    pub(super) code: i32,
    pub(super) stopped: Option<Stopped>,
}

/// Runs a command to its end.
pub(super) fn run(confined: &Confined, bounds: &Bounds) -> io::Result<Followed> {
    let (reader, writer) = io::pipe()?;
    let mut process = Process::new(confined.program);
    let variables = confined.environment.variables().iter().map(|(name, value)| (name, value));
    process
        .args(&confined.arguments)
        .env_clear()
        .envs(variables)
        .current_dir(&confined.directory)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0);
    let group = Group::of(process.spawn()?);
    // It holds the writing ends, with which the pipe would never end.
    drop(process);
    let mut output = Output { pipe: Some(reader), capture: Capture::new(bounds.output) };
    let stopped = follow(&group, &mut output, bounds)?;
    let code = group.end()?;
    output.drain()?;
    Ok(Followed { output: output.capture, code, stopped })
}

/// Until the command ends, or has to be ended.
fn follow(group: &Group, output: &mut Output, bounds: &Bounds) -> io::Result<Option<Stopped>> {
    let deadline = Instant::now() + bounds.wall;
    loop {
        if group.has_ended()? {
            return Ok(None);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Some(Stopped::Wall));
        }
        if bounds.stop.load(Ordering::Relaxed) {
            return Ok(Some(Stopped::Asked));
        }
        output.wait(left.min(TICK))?;
    }
}

/// The process group of a command. Dropped, it is ended.
struct Group {
    child: Child,
    first: Option<Pid>,
    reaped: bool,
}

impl Group {
    /// The group that `child` was started as the first process of.
    fn of(child: Child) -> Self {
        let first = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Self { child, first, reaped: false }
    }

    /// Whether the first process has ended. It keeps its number until [`end`](Self::end).
    fn has_ended(&self) -> io::Result<bool> {
        let Some(first) = self.first else { return Ok(true) };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(first), options)?.is_some())
    }

    /// Ends all of it, and gives the code of the first process.
    fn end(mut self) -> io::Result<i32> {
        self.kill()
    }

    fn kill(&mut self) -> io::Result<i32> {
        let ended = self.has_ended().unwrap_or(false);
        if let Some(first) = self.first {
            // Where all that is left has ended, there is nobody to be told.
            let _ = kill_process_group(first, Signal::KILL);
        }
        if !ended {
            // It may not be in its group yet.
            let _ = self.child.kill();
        }
        let status = self.child.wait()?;
        self.reaped = true;
        let deadline = Instant::now() + GRACE;
        while let Some(first) = self.first
            && test_kill_process_group(first).is_ok()
            && Instant::now() < deadline
        {
            let _ = kill_process_group(first, Signal::KILL);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(137))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.kill();
        }
    }
}

/// The output so far.
struct Output {
    /// Nothing once nobody can write to it.
    pipe: Option<PipeReader>,
    capture: Capture,
}

impl Output {
    /// Reads what comes, at most for `time`.
    fn wait(&mut self, time: Duration) -> io::Result<()> {
        match &self.pipe {
            Some(_) => self.read_within(time).map(drop),
            None => {
                std::thread::sleep(time);
                Ok(())
            }
        }
    }

    /// Takes what is left, without waiting for more.
    fn drain(&mut self) -> io::Result<()> {
        // What a pipe can hold at most, in case somebody still writes.
        for _ in 0..64 {
            if !self.read_within(Duration::ZERO)? {
                break;
            }
        }
        Ok(())
    }

    /// Takes a piece if one comes within `time`; says whether one came.
    fn read_within(&mut self, time: Duration) -> io::Result<bool> {
        let Some(pipe) = &mut self.pipe else { return Ok(false) };
        let timeout = Timespec::try_from(time).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&*pipe, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(false),
            Err(why) => return Err(why.into()),
        }
        let mut buffer = [0; 65_536];
        let read = pipe.read(&mut buffer)?;
        self.capture.push(buffer.get(..read).unwrap_or_default());
        if read == 0 {
            self.pipe = None;
        }
        Ok(read > 0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::confined::tests::plain;
    use super::*;
    use crate::command::Limits;

    fn bounds(wall: Duration) -> Bounds {
        Bounds { wall, output: 10_000, stop: Arc::default() }
    }

    fn said(confined: &Confined, bounds: &Bounds) -> (String, i32, Option<Stopped>) {
        let Followed { output, code, stopped } = run(confined, bounds).unwrap();
        let output = output.into_bytes();
        let output = confined.output(&output).unwrap();
        (String::from_utf8_lossy(output).into_owned(), code, stopped)
    }

    #[test]
    fn a_command_has_its_output_its_code_and_no_more() {
        let (long, limits) = (bounds(Duration::from_secs(20)), Limits::default());
        for (command, output, code) in [
            ("echo out; echo err >&2", "out\nerr\n", 0),
            ("exit 7", "", 7),
            ("kill -9 $$", "", 137),
            ("cat; echo nothing to read", "nothing to read\n", 0),
            ("ulimit -t; ulimit -c; ulimit -n", "30\n0\n1024\n", 0),
        ] {
            let (said, ended, stopped) = said(&plain(command, &limits), &long);
            assert_eq!((said.as_str(), ended, stopped), (output, code, None), "{command}");
        }
        let (environment, ..) = said(&plain("/usr/bin/env", &limits), &long);
        assert!(!environment.contains("CARGO"), "{environment}");
        assert!(environment.contains("HOME=/\n"), "{environment}");
        let few = Bounds { output: 400, ..bounds(Duration::from_secs(20)) };
        let much = run(&plain("yes | head -c 100000", &limits), &few).unwrap().output;
        assert!(much.is_cut() && much.total() > 100_000 && much.into_bytes().len() < 500);
    }

    #[test]
    fn a_command_ends_with_all_of_its_group() {
        let limits = Limits::default();
        let command = "(sleep 60 & echo $! ; wait) & wait";
        let (pids, _, stopped) = said(&plain(command, &limits), &bounds(Duration::from_millis(500)));
        assert_eq!(stopped, Some(Stopped::Wall));
        let pid = Pid::from_raw(pids.trim().parse().unwrap()).unwrap();
        gone(pid);
        // A command that leaves something behind and ends.
        let (pids, code, stopped) =
            said(&plain("sleep 60 & echo $!", &limits), &bounds(Duration::from_secs(20)));
        assert_eq!((code, stopped), (0, None));
        gone(Pid::from_raw(pids.trim().parse().unwrap()).unwrap());
        let asked = Bounds { stop: Arc::new(AtomicBool::new(true)), ..bounds(Duration::from_secs(20)) };
        assert_eq!(run(&plain("sleep 60", &limits), &asked).unwrap().stopped, Some(Stopped::Asked));
    }

    /// Whoever takes the place of a dead parent may be slow to see that this process has ended.
    fn gone(pid: Pid) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while rustix::process::test_kill_process(pid).is_ok() && !is_zombie(pid) {
            assert!(Instant::now() < deadline, "it still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the kernel's account of a process")]
    fn is_zombie(pid: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        stat.is_ok_and(|stat| stat.contains(") Z "))
    }
}
