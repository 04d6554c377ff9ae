//! Performs the requests of tools on directory handles that were opened once. Knows policies and directories.
//! Knows no model, no chat and no grammar.
//!
//! Invariant: the check of a request uses the *resolved* path. The operation then uses open handles and never
//! looks that path up again. A request beyond the grants is refused with a reason.
//!
//! ```
//! use toolgate_sandbox::{Grants, Kind, ReadOptions, Root, ambient_authority};
//!
//! # let workspace = tempfile::tempdir()?;
//! // The one place where ambient authority is used; from here on, only `root` leads to files.
//! let root = Root::open(workspace.path(), ambient_authority())?;
//! let grants = Grants::read_write();
//!
//! root.write_file(&grants, "notes/today.txt", "milk\nbread\n")?;
//! let read = root.read_file(&grants, "notes/today.txt", &ReadOptions::default())?;
//! assert_eq!(read.text, "milk\nbread\n");
//!
//! let refused = root.write_file(&Grants::read_only(), "notes/today.txt", "").unwrap_err();
//! assert_eq!(refused.kind(), Kind::Denied);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod command;

mod error;
mod fs;
mod grants;
mod limits;
mod lists;
mod names;
mod net;

pub mod output;
mod patterns;
pub mod policy;
mod protect;
mod report;
mod setters;
mod spelling;
mod text;
#[cfg(feature = "wasm")]
pub mod wasm;

pub use cap_std::{AmbientAuthority, ambient_authority};

pub use error::{Error, Kind};
pub use fs::{
    Before, CaseOf, Change, Edited, Entry, EntryKind, FileText, Hit, Ignored, Image, Keeper, Listing,
    Outline, OutlineLimits, PreparedChange, Query, ReadOptions, Root, SearchOptions, SearchResult,
    WorkspaceId, Written,
};
pub use grants::{Directories, Grants, Scope};
pub use limits::FileLimits;
pub use patterns::Patterns;
pub use report::{Enforced, Resolver};

/// The README's examples are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
