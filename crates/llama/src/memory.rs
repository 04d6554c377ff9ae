//! Beneath loads and contexts: whether the memory of this machine suffices, asked before llama.cpp takes it.
//!
//! Why: the system hands out memory that it does not have, and ends the process when that is written to.

use sysinfo::{MemoryRefreshKind, ProcessRefreshKind, ProcessesToUpdate, System};

use crate::{Error, Kind};

/// Bytes that this process can still have: of the machine, or of its control group where that has less. The machine's swap
/// counts. None where the system does not say.
fn available() -> Option<u64> {
    let mut system = System::new().ok()?;
    system.refresh_memory_specifics(MemoryRefreshKind::everything());
    let machine = system.available_memory().saturating_add(system.free_swap());
    let group = sysinfo::get_current_pid().ok().and_then(|pid| {
        let nothing = ProcessRefreshKind::nothing();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, nothing);
        let limits = system.process(pid)?.cgroup_limits()?;
        // What files take of it is given back when it is needed.
        Some(limits.total_memory.saturating_sub(limits.rss))
    });
    Some(machine).filter(|bytes| *bytes > 0).into_iter().chain(group).min()
}

/// An error where so many bytes are not to be had. `advice` gets the bytes that are.
pub(crate) fn require(bytes: u64, what: &str, advice: impl FnOnce(u64) -> String) -> Result<(), Error> {
    match available() {
        Some(free) if bytes > free => Err(short(bytes, free, what, &advice(free))),
        _ => Ok(()),
    }
}

fn short(bytes: u64, free: u64, what: &str, advice: &str) -> Error {
    let message = format!("{what} {} of memory, and {} are free: {advice}", size(bytes), size(free));
    Error::new(Kind::Memory, message)
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    const MIB: f64 = 1_048_576.0;
    match bytes as f64 / MIB {
        mib if mib < 1_024.0 => format!("{mib:.0} MiB"),
        mib => format!("{:.1} GiB", mib / 1_024.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_told_where_it_does_not_suffice() {
        let require = |bytes| require(bytes, "the weights take", |_| "take a smaller model".to_owned());
        assert!(require(1).is_ok());
        let Err(error) = require(u64::MAX) else {
            assert_eq!(available(), None, "a system that does not say");
            return;
        };
        assert_eq!(error.kind(), Kind::Memory);
        assert!(error.to_string().ends_with("are free: take a smaller model"), "{error}");
    }

    #[test]
    fn sizes_are_told_in_numbers_that_people_read() {
        let error = short(3 << 30, 700 << 20, "the weights take", "take a smaller model");
        let expected = "the weights take 3.0 GiB of memory, and 700 MiB are free: take a smaller model";
        assert_eq!(error.to_string(), expected);
    }
}
