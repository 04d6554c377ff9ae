//! The bounds of file operations, with what each one costs when it is raised.

use serde::{Deserialize, Serialize};

/// Bounds of every file operation; a request that meets one ends with what it has and says so, or is refused
/// with [`Kind::Limit`](crate::Kind::Limit).
///
/// ```
/// use toolgate_sandbox::FileLimits;
/// let small = FileLimits { max_file_bytes: 1024, ..FileLimits::default() };
/// assert_eq!(small.min(&FileLimits::default()), small);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLimits {
    /// Largest file that is searched, edited or written, and read as a whole; of a larger one some lines are read at a
    /// time. Default 10 MiB; it is held in memory once.
    pub max_file_bytes: u64,
    /// Bytes of one result. Default 256 KiB: far more than a small model's context holds.
    pub max_output_bytes: usize,
    /// Lines of one `read_file`. Default 2,000.
    pub max_lines: usize,
    /// Bytes of a line that is shown whole by a search. Default 400.
    pub max_line_bytes: usize,
    /// Entries of one `list_directory`. Default 1,000.
    pub max_entries: usize,
    /// Hits of one search. Default 200.
    pub max_hits: usize,
    /// Levels of directories a walk goes down; one open handle each. Default 32.
    pub max_depth: usize,
    /// Entries a walk looks at before it stops. Default 100,000; about 2 µs each.
    pub max_walk_entries: usize,
    /// Bytes a search reads in all. Default 256 MiB: about a quarter of a second.
    pub max_search_bytes: u64,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self {
            max_file_bytes: 10 * 1024 * 1024,
            max_output_bytes: 256 * 1024,
            max_lines: 2_000,
            max_line_bytes: 400,
            max_entries: 1_000,
            max_hits: 200,
            max_depth: 32,
            max_walk_entries: 100_000,
            max_search_bytes: 256 * 1024 * 1024,
        }
    }
}

impl FileLimits {
    /// The tighter of the two in every field.
    #[must_use]
    pub fn min(&self, other: &Self) -> Self {
        Self {
            max_file_bytes: self.max_file_bytes.min(other.max_file_bytes),
            max_output_bytes: self.max_output_bytes.min(other.max_output_bytes),
            max_lines: self.max_lines.min(other.max_lines),
            max_line_bytes: self.max_line_bytes.min(other.max_line_bytes),
            max_entries: self.max_entries.min(other.max_entries),
            max_hits: self.max_hits.min(other.max_hits),
            max_depth: self.max_depth.min(other.max_depth),
            max_walk_entries: self.max_walk_entries.min(other.max_walk_entries),
            max_search_bytes: self.max_search_bytes.min(other.max_search_bytes),
        }
    }
}
