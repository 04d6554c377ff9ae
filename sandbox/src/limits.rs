//! The bounds of file operations, with the price of raising each.

use serde::{Deserialize, Serialize};

/// The bounds of every file operation. At a bound, an operation ends early and its result tells so, or the
/// request is refused with [`Kind::Limit`](crate::Kind::Limit).
///
/// ```
/// use toolgate_sandbox::FileLimits;
/// let small = FileLimits::default().max_file_bytes(1024);
/// assert_eq!(small.min(&FileLimits::default()), small);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileLimits {
    /// Size of the largest file that is searched, edited, written, or read whole, in bytes. A larger file is
    /// read some lines at a time. Default 10 MiB; memory holds the file once.
    pub max_file_bytes: u64,
    /// Bytes of one result. Default 256 KiB, which is far more than the context of a small model.
    pub max_output_bytes: usize,
    /// Lines of one `read_file`. Default 2,000.
    pub max_lines: usize,
    /// Bytes of a line that a search shows whole. Default 400.
    pub max_line_bytes: usize,
    /// Entries of one `list_directory`. Default 1,000.
    pub max_entries: usize,
    /// Hits of one search. Default 200.
    pub max_hits: usize,
    /// Levels of directories that a walk goes down. Each takes an open handle. Default 32.
    pub max_depth: usize,
    /// Entries that a walk looks at before it stops. Default 100,000; about 2 µs each.
    pub max_walk_entries: usize,
    /// Bytes that a search reads in all. Default 256 MiB, about a quarter of a second.
    pub max_search_bytes: u64,
}

crate::setters::setters! { FileLimits {
    max_file_bytes: u64,
    max_output_bytes: usize,
    max_lines: usize,
    max_line_bytes: usize,
    max_entries: usize,
    max_hits: usize,
    max_depth: usize,
    max_walk_entries: usize,
    max_search_bytes: u64,
} }

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
    /// The tighter of the two bounds in each field.
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
