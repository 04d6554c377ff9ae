//! The bounds of a call of a component, with the defaults of a policy that is silent.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::command;
use crate::policy::{ProcessLimits, WasmTool};

/// The bounds of one call, its fresh instance included.
///
/// ```
/// use toolgate_sandbox::policy::Policy;
/// use toolgate_sandbox::wasm::{Directory, Limits};
/// assert_eq!(Limits::default().wall_ms, 30_000);
/// // The bounds and directories of a tool in a policy.
/// let policy = Policy::parse(r#"
///     version = 1
///     tier = "read"
///     [wasm.statistics]
///     component = "statistics.wasm"
///     dirs = [{ host = "docs", guest = "/", mode = "ro" }]
///     wall_ms = 500
/// "#)?;
/// let tool = &policy.wasm["statistics"];
/// assert_eq!(Limits::of(tool, &policy.limits).wall_ms, 500);
/// assert_eq!(Directory::of(tool)[0].host, "docs");
/// # Ok::<(), toolgate_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limits {
    /// Milliseconds until the call is ended, whether the component computes or waits. Default 30,000.
    pub wall_ms: u64,
    /// Megabytes of all memories and tables together. Default 256.
    pub memory_mb: u64,
    /// WebAssembly instructions, roughly. Default 10,000,000,000, which is some seconds of computing.
    pub fuel: u64,
    /// Megabytes that the files may grow. Default 256.
    pub disk_mb: u64,
    /// Files and directories that the component may create. Default 20,000.
    pub files: u64,
    /// Kilobytes of output that are kept. Default 256.
    pub output_kb: u64,
}

crate::setters::setters! { Limits {
    wall_ms: u64,
    memory_mb: u64,
    fuel: u64,
    disk_mb: u64,
    files: u64,
    output_kb: u64,
} }

impl Default for Limits {
    fn default() -> Self {
        Self::from(&ProcessLimits::default())
    }
}

impl From<&ProcessLimits> for Limits {
    /// The bounds of the policy, and the defaults of commands for the others. The default of the memory
    /// differs.
    fn from(given: &ProcessLimits) -> Self {
        let command::Limits { wall_ms, disk_mb, files, output_kb, .. } = given.into();
        let memory_mb = given.memory_mb.unwrap_or(256);
        Self { wall_ms, memory_mb, fuel: 10_000_000_000, disk_mb, files, output_kb }
    }
}

impl Limits {
    /// The bounds of `tool`: its own bounds, never wider than those of the policy.
    pub fn of(tool: &WasmTool, policy: &ProcessLimits) -> Self {
        let mut limits = Self::from(policy);
        let own = |own: Option<u64>, general: Option<u64>, default: u64| {
            own.into_iter().chain(general).min().unwrap_or(default)
        };
        limits.wall_ms = own(tool.wall_ms, policy.wall_ms, limits.wall_ms);
        limits.memory_mb = own(tool.memory_mb, policy.memory_mb, limits.memory_mb);
        limits.fuel = tool.fuel.unwrap_or(limits.fuel);
        limits
    }

    pub(super) fn wall(&self) -> Duration {
        // A day is as good as for ever, and clocks can be added to it.
        Duration::from_millis(self.wall_ms).min(Duration::from_secs(24 * 60 * 60))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        bytes(self.memory_mb, 20)
    }

    pub(super) fn output_bytes(&self) -> usize {
        bytes(self.output_kb, 10)
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        self.disk_mb.saturating_mul(1 << 20)
    }
}

fn bytes(count: u64, shift: u32) -> usize {
    usize::try_from(count.saturating_mul(1 << shift)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_may_ask_for_less_than_the_policy_and_not_for_more() {
        let tool = |wall_ms| WasmTool {
            component: "a.wasm".into(),
            sha256: None,
            dirs: Vec::new(),
            net: Vec::new(),
            wall_ms,
            memory_mb: None,
            fuel: Some(7),
        };
        let policy = ProcessLimits { wall_ms: Some(4_000), memory_mb: Some(64), ..ProcessLimits::default() };
        assert_eq!(Limits::of(&tool(Some(90_000)), &policy).wall_ms, 4_000);
        let less = Limits::of(&tool(Some(500)), &policy);
        assert_eq!((less.wall_ms, less.memory_mb, less.fuel), (500, 64, 7));
        assert_eq!(Limits::of(&tool(Some(90_000)), &ProcessLimits::default()).wall_ms, 90_000);
    }
}
