//! The bounds of a command, with the defaults of a policy that is silent.

use serde::{Deserialize, Serialize};

use crate::policy::ProcessLimits;

/// The bounds of a command and of all its processes.
///
/// ```
/// use toolgate_sandbox::command::Limits;
/// assert_eq!(Limits::default().wall_ms, 30_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limits {
    /// Milliseconds until the command and all its processes are ended. Default 30,000.
    pub wall_ms: u64,
    /// Seconds of processor time of each process. Default 30.
    pub cpu_s: u64,
    /// Megabytes of memory of each process. Where a control group or a watcher counts, also of all processes
    /// together. Default 1,024.
    pub memory_mb: u64,
    /// Processes and threads. Default 128.
    pub pids: u64,
    /// Megabytes that the workspace may grow. Also the size of the largest file and of the private `/tmp`.
    /// Default 256.
    pub disk_mb: u64,
    /// Files that the workspace may grow by. Default 20,000.
    pub files: u64,
    /// Kilobytes of output that are kept, from its beginning and its end. Default 256.
    pub output_kb: u64,
}

crate::setters::setters! { Limits {
    wall_ms: u64,
    cpu_s: u64,
    memory_mb: u64,
    pids: u64,
    disk_mb: u64,
    files: u64,
    output_kb: u64,
} }

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
    /// The bounds of the policy, and the defaults for the others.
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
