//! The broker: a process of ours inside the sandbox. It performs every call of the command that makes a name
//! or opens a file to write, and refuses protected names. So nothing can be planted, and nobody has to be
//! suspected.
//!
//! Why: no mount covers a name that does not exist yet, and Landlock knows no names. The kernel can hand a call over instead
//! (a seccomp notification). To look at a call and let it go on would be no use: its arguments lie in memory that another
//! thread may change in between. So the broker reads them once, and does what it has read itself.
//!
//! Invariant: it has no more rights than the command: the same user, mounts and Landlock rules. Only it can be reached by
//! nothing of the command: its Landlock domain is the one around the command's, which keeps signals and tracing out. All
//! names are made one after the other, by it alone, so that what it has checked holds while it acts.

mod acts;
mod caller;
mod find;
mod record;

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{seccomp, sys};
use acts::Broker;
pub(super) use record::read as read_record;

/// What the broker needs to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    /// Where it notes what it makes and refuses.
    pub(super) record: RawFd,
    /// The patterns of what is protected, and the paths that protected links lead to.
    pub(super) patterns: Vec<String>,
    pub(super) led_to: Vec<String>,
    /// Whether there are protected links, which can be taken away.
    pub(super) links: bool,
}

/// Where the command works, and where it can make nothing.
#[derive(Clone, Copy)]
pub(super) struct Places<'p> {
    pub(super) workspace: &'p str,
    pub(super) probe: &'p str,
}

/// Which of the two processes this is, after they have parted.
pub(super) enum Side {
    /// The command to be. With a broker beside it, the line to it.
    Command(Option<Line>),
    /// The broker, whose command has ended with this code.
    Ended(i32),
}

/// From the command's side to the broker's, until it is told where calls are heard.
pub(super) struct Line(OwnedFd);

/// Parts into a broker and the process that becomes the command. Comes back in both.
///
/// # Errors
/// Where no process can be made. A machine that lets no process look into another one has no broker: it is said so.
pub(super) fn part(
    task: &Task,
    places: Places<'_>,
    landlock: impl FnOnce() -> io::Result<()>,
) -> io::Result<Side> {
    // The command's own rules come on top of these: a domain within this one.
    landlock()?;
    sys::become_subreaper()?;
    let (mine, theirs) = sys::line()?;
    // Both sides know where it lies, since they have it from the same process.
    let sample = SAMPLE;
    let Some(child) = sys::fork()? else {
        drop(mine);
        let ready = sys::receive_byte(theirs.as_fd())? == READY;
        return Ok(Side::Command(ready.then_some(Line(theirs))));
    };
    drop(theirs);
    let mut read = [0; SAMPLE.len()];
    let can_look = sys::read_memory(child, sample.as_ptr() as u64, &mut read).is_ok_and(|n| n == read.len());
    let can_look = can_look && read == sample;
    leave_the_command_alone(&[mine.as_raw_fd(), task.record])?;
    sys::send_byte(mine.as_fd(), if can_look { READY } else { NOT_READY })?;
    if !can_look {
        drop(mine);
        return Ok(Side::Ended(wait_for(child)?));
    }
    let Some(heard) = sys::receive_descriptor(mine.as_fd())? else {
        // It has said why, and ends.
        return Ok(Side::Ended(wait_for(child)?));
    };
    // Answers wake the caller on this processor; older kernels do without.
    let _ = sys::wake_synchronously(heard.as_fd());
    let mut broker = Broker::new(task, places, heard)?;
    sys::send_byte(mine.as_fd(), READY)?;
    drop(mine);
    serve(&mut broker, child).map(Side::Ended)
}

/// A name that is protected where nothing can be made anyway: the stage sees by it whether the broker answers.
pub(super) const PROBE: &str = "protected";

const SAMPLE: [u8; 8] = *b"a sample";
const READY: u8 = 1;
const NOT_READY: u8 = 0;

impl Line {
    /// Has the broker hear this process's calls from now on.
    ///
    /// # Errors
    /// Of the system's; the process must not become the command then.
    pub(super) fn hand_over(self, links: bool) -> io::Result<()> {
        let heard = seccomp::notify_about(links)?;
        sys::send_descriptor(self.0.as_fd(), heard.as_fd())?;
        match sys::receive_byte(self.0.as_fd())? {
            READY => Ok(()),
            _ => Err(io::Error::other("the broker is not ready")),
        }
    }
}

/// Lets go of everything that the command is known by, and of signals that are meant for it.
fn leave_the_command_alone(kept: &[RawFd]) -> io::Result<()> {
    let nothing = rustix::fs::open(c"/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())?;
    sys::replace_standard_streams(nothing.as_fd())?;
    drop(nothing);
    sys::close_all_but(kept)?;
    // Whoever leads the session stays its leader; its groups are the command's.
    let _ = rustix::process::setpgid(None, None);
    sys::block_signals()
}

/// Answers calls until the command ends; its code.
fn serve(broker: &mut Broker, command: i32) -> io::Result<i32> {
    let children = sys::ended_children()?;
    loop {
        let heard = broker.heard();
        let ready = sys::poll(&[Some(children.as_fd()), heard.as_ref().map(|heard| heard.as_fd())], LONG)?;
        if ready.first() == Some(&true) {
            sys::drain(children.as_fd());
            while let Ok(Some((pid, code))) = sys::reap() {
                if pid == command {
                    return Ok(code);
                }
            }
        }
        if ready.get(1) == Some(&true) {
            match sys::next_call(broker.listener())? {
                // Its caller has ended meanwhile.
                None => broker.stop_hearing_if_over(),
                Some(call) => broker.take_up(&call),
            }
        }
    }
}

const LONG: Duration = Duration::from_secs(3_600);

/// Waits for a child's end; its code.
fn wait_for(child: i32) -> io::Result<i32> {
    loop {
        match sys::reap_one()? {
            (pid, code) if pid == child => return Ok(code),
            _ => {}
        }
    }
}
