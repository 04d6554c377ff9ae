//! Counts the bytes, files and handles that a call may still use.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Handles a call may hold at once: far more than a tool needs, far fewer than this process has.
const HANDLES: u64 = 256;

/// The rest of what a call was granted. Shared by its descriptors and streams.
#[derive(Debug)]
pub(in crate::wasm) struct Budget {
    bytes: AtomicU64,
    files: AtomicU64,
    handles: AtomicU64,
    reached: AtomicBool,
}

impl Budget {
    pub(in crate::wasm) fn new(bytes: u64, files: u64) -> Arc<Self> {
        Arc::new(Self {
            bytes: AtomicU64::new(bytes),
            files: AtomicU64::new(files),
            handles: AtomicU64::new(HANDLES),
            reached: AtomicBool::new(false),
        })
    }

    /// Takes what a file of `size` bytes needs to hold `end`.
    pub(super) fn grow(&self, size: u64, end: u64) -> io::Result<()> {
        self.take(&self.bytes, end.saturating_sub(size))
    }

    /// Takes a file or directory to be made.
    pub(super) fn make(&self) -> io::Result<()> {
        self.take(&self.files, 1)
    }

    /// Takes `count` handles until what comes back is dropped; nothing if that is too many.
    pub(super) fn hold(self: &Arc<Self>, count: usize) -> Option<Held> {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        subtract(&self.handles, count).then(|| Held { budget: Arc::clone(self), count })
    }

    /// Whether something was refused because too much was written or made.
    pub(in crate::wasm) fn was_reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    fn take(&self, from: &AtomicU64, count: u64) -> io::Result<()> {
        if subtract(from, count) {
            return Ok(());
        }
        self.reached.store(true, Ordering::Relaxed);
        Err(no_space())
    }
}

/// Takes `count` off if that much is left.
fn subtract(from: &AtomicU64, count: u64) -> bool {
    from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(count)).is_ok()
}

/// The error a full disk would give, which programs know.
fn no_space() -> io::Error {
    #[cfg(unix)]
    return rustix::io::Errno::NOSPC.into();
    #[cfg(not(unix))]
    io::ErrorKind::StorageFull.into()
}

/// Handles that are counted as open.
#[derive(Debug)]
pub(super) struct Held {
    budget: Arc<Budget>,
    count: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.handles.fetch_add(self.count, Ordering::Relaxed);
    }
}
