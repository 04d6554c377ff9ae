//! Sets the bounds of each process, in the inner stage. [`cgroup`](super::cgroup) and [`watch`](super::watch)
//! bound the totals.

use std::io;

use super::sys;
use crate::command::limits::Limits;

const MEGABYTE: u64 = 1024 * 1024;

/// Sets them for this process and all it starts. Processes are counted with `others`: this user's in this user namespace.
pub(super) fn set(limits: &Limits, others: u64) -> io::Result<()> {
    let memory = limits.memory_mb.saturating_mul(MEGABYTE);
    for (resource, most) in [
        (libc::RLIMIT_CPU, limits.cpu_s),
        (libc::RLIMIT_DATA, memory),
        (libc::RLIMIT_FSIZE, limits.disk_mb.saturating_mul(MEGABYTE)),
        (libc::RLIMIT_NPROC, limits.pids.saturating_add(others)),
        (libc::RLIMIT_NOFILE, 1024),
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_MEMLOCK, 64 * 1024),
        (libc::RLIMIT_MSGQUEUE, 0),
        (libc::RLIMIT_NICE, 0),
        (libc::RLIMIT_RTPRIO, 0),
    ] {
        sys::set_limit(resource, most)?;
    }
    Ok(())
}
