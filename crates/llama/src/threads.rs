//! The number of threads that evaluate a model: the physical cores, since two hyper-threads share the units that multiply.

use std::collections::BTreeSet;
use std::path::Path;

/// The physical cores that this process may use. Where the system does not list them, the hardware threads.
///
/// ```
/// use toolgate_llama::physical_cores;
/// let threads = std::thread::available_parallelism()?.get();
/// assert!((1..=threads).contains(&physical_cores()));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn physical_cores() -> usize {
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    match cores_under(Path::new("/sys/devices/system/cpu")) {
        0 => allowed,
        cores => cores.min(allowed),
    }
}

/// The distinct cores that Linux lists; 0 where there is no such list.
fn cores_under(directory: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let siblings = entries
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("topology/thread_siblings_list")).ok());
    siblings.collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn sibling_threads_count_as_one_core() {
        let directory = tempfile::tempdir().unwrap();
        for (cpu, siblings) in [("cpu0", "0,2"), ("cpu1", "1,3"), ("cpu2", "0,2"), ("cpu3", "1,3")] {
            let topology = directory.path().join(cpu).join("topology");
            std::fs::create_dir_all(&topology).unwrap();
            std::fs::write(topology.join("thread_siblings_list"), siblings).unwrap();
        }
        std::fs::create_dir(directory.path().join("cpufreq")).unwrap();
        assert_eq!(cores_under(directory.path()), 2);
        assert_eq!(cores_under(&directory.path().join("none")), 0);
        assert!(physical_cores() >= 1);
    }
}
