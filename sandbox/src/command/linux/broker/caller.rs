//! Describes the caller: the facts about a process of the command that the broker needs to act for it.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use super::super::sys;

/// Linux's own bound of a path, terminator included.
const MAX_PATH_BYTES: usize = 4096;
/// Memory is there or not by pages of at least that many bytes.
const PAGE: u64 = 4096;

/// A process that waits for an answer.
pub(super) struct Caller {
    thread: i32,
    /// Its directory in `/proc`, which is no other process's if the number is given again.
    process: OwnedFd,
    own: OnceCell<Own>,
}

/// What a process says of itself.
#[derive(Clone, Copy)]
struct Own {
    /// The number of the process, of which the caller is a thread.
    process: i32,
    umask: Mode,
}

impl Caller {
    /// The thread of that number.
    pub(super) fn of(thread: i32) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let process = openat(CWD, format!("/proc/{thread}"), flags, Mode::empty())?;
        Ok(Self { thread, process, own: OnceCell::new() })
    }

    /// The path at `address` of its memory.
    pub(super) fn path(&self, address: u64) -> Result<OsString, Errno> {
        let mut text = Vec::new();
        while text.len() < MAX_PATH_BYTES {
            let from = address.checked_add(text.len() as u64).ok_or(Errno::FAULT)?;
            // No further than to the end of a page: what lies behind it may not be there.
            let whole = usize::try_from(PAGE - from % PAGE).map_err(|_| Errno::FAULT)?;
            let mut piece = [0; MAX_PATH_BYTES];
            let room = piece.get_mut(..whole.min(MAX_PATH_BYTES - text.len())).unwrap_or_default();
            let read = sys::read_memory(self.thread, from, room).map_err(|_| Errno::FAULT)?;
            let read = room.get(..read).unwrap_or_default();
            if read.is_empty() {
                return Err(Errno::FAULT);
            }
            match read.iter().position(|byte| *byte == 0) {
                Some(end) => {
                    text.extend_from_slice(read.get(..end).unwrap_or_default());
                    return Ok(OsString::from_vec(text));
                }
                None => text.extend_from_slice(read),
            }
        }
        Err(Errno::NAMETOOLONG)
    }

    /// The directory that a relative path starts from.
    pub(super) fn directory(&self, descriptor: i32) -> Result<OwnedFd, Errno> {
        let (name, kind) = match descriptor {
            libc::AT_FDCWD => ("cwd".to_owned(), OFlags::empty()),
            descriptor if descriptor < 0 => return Err(Errno::BADF),
            descriptor => (format!("fd/{descriptor}"), OFlags::DIRECTORY),
        };
        self.open(&name, kind)
    }

    /// What it has open under that number.
    pub(super) fn opened(&self, descriptor: i32) -> Result<OwnedFd, Errno> {
        self.open(&format!("fd/{descriptor}"), OFlags::empty())
    }

    fn open(&self, name: &str, kind: OFlags) -> Result<OwnedFd, Errno> {
        let opened = openat(&self.process, name, OFlags::PATH | OFlags::CLOEXEC | kind, Mode::empty());
        opened.map_err(|why| if why == Errno::NOENT { Errno::BADF } else { why })
    }

    /// What `self` and `thread-self` in `/proc` are to it; nothing for another name.
    pub(super) fn itself(&self, name: &OsStr) -> Result<Option<OsString>, Errno> {
        Ok(match name.to_str() {
            Some("self") => Some(self.own()?.process.to_string().into()),
            Some("thread-self") => Some(format!("{}/task/{}", self.own()?.process, self.thread).into()),
            _ => None,
        })
    }

    /// The permission bits that it does not give to what it makes.
    pub(super) fn umask(&self) -> Result<Mode, Errno> {
        Ok(self.own()?.umask)
    }

    fn own(&self) -> Result<Own, Errno> {
        if let Some(own) = self.own.get() {
            return Ok(*own);
        }
        let file = openat(&self.process, c"status", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let text = read_some(file.as_fd())?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let process = field("Tgid:").and_then(|number| number.parse().ok()).ok_or(Errno::SRCH)?;
        let umask = field("Umask:").and_then(|bits| u32::from_str_radix(bits, 8).ok()).ok_or(Errno::SRCH)?;
        Ok(*self.own.get_or_init(|| Own { process, umask: Mode::from_raw_mode(umask) }))
    }
}

/// The beginning of a file of `/proc`, which holds all that is looked for.
fn read_some(file: BorrowedFd<'_>) -> Result<String, Errno> {
    let mut text = vec![0; 1024];
    let read = rustix::io::read(file, &mut text)?;
    text.truncate(read);
    Ok(String::from_utf8_lossy(&text).into_owned())
}
