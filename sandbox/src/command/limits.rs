//! The bounds of one command, with what is used where the policy says nothing.

use serde::{Deserialize, Serialize};

use crate::policy::ProcessLimits;

/// Bounds of a command and all it starts.
///
/// ```
/// use toolgate_sandbox::command::Limits;
/// assert_eq!(Limits::default().wall_ms, 30_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Milliseconds until everything it started is ended. Default 30,000.
    pub wall_ms: u64,
    /// Seconds of processor time of each process. Default 30.
    pub cpu_s: u64,
    /// Megabytes of memory, all processes together where a control group can be made or a watcher sees it; of each
    /// process in any case. Default 1,024.
    pub memory_mb: u64,
    /// Processes and threads. Default 128.
    pub pids: u64,
    /// Megabytes by which the workspace may grow, the largest file, and the size of the private `/tmp`. Default 256.
    pub disk_mb: u64,
    /// Files by which the workspace may grow. Default 20,000.
    pub files: u64,
    /// Kilobytes of output that are kept: its beginning and its end. Default 256.
    pub output_kb: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall_ms: 30_000,
            cpu_s: 30,
            memory_mb: 1_024,
            pids: 128,
            disk_mb: 256,
            files: 20_000,
            output_kb: 256,
        }
    }
}

impl From<&ProcessLimits> for Limits {
    /// The policy's bounds; the defaults for what it does not name.
    fn from(given: &ProcessLimits) -> Self {
        let default = Self::default();
        Self {
            wall_ms: given.wall_ms.unwrap_or(default.wall_ms),
            cpu_s: given.cpu_s.unwrap_or(default.cpu_s),
            memory_mb: given.memory_mb.unwrap_or(default.memory_mb),
            pids: given.pids.unwrap_or(default.pids),
            disk_mb: given.disk_mb.unwrap_or(default.disk_mb),
            files: given.files.unwrap_or(default.files),
            output_kb: given.output_kb.unwrap_or(default.output_kb),
        }
    }
}
