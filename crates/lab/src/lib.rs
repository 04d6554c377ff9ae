//! What measures toolgate: task sets, corpora (`conformance`), costs (`bench`), attacks (`escapes`). Above the server;
//! the program mounts it behind its feature `lab`.
//!
//! Task sets: gives an agent each task in a workspace of its own and decides whether what came of it is right.
//!
//! Three kinds of file are understood: agentic tasks, whose workspace is checked, too, questions over a checkout, which
//! become tasks, and questions of the Berkeley Function-Calling Leaderboard (BFCL), of which only the first turn's calls
//! count. The formats are described at [`Task`], [`Repository`] and [`Question`].

mod ablate;
pub mod bench;
mod bfcl;
mod calibrate;
pub mod certify;
mod check;
pub mod conformance;
mod decision;
pub mod escapes;
pub mod families;
mod host;
pub mod jsonl;
mod language;
mod path;
mod record;
mod repository;
mod run;
mod summary;
mod task;
mod text;

pub use ablate::{Ablation, Base, Delta};
pub use bfcl::{Expected, Question, Said};
pub use calibrate::{Calibration, Point};
pub use check::{Parts, Verdict, check};
pub use host::{Bar, Hardware, Host};
pub use record::{Call, Decided, Record};
pub use repository::Repository;
pub use run::{Builtin, Case, Options, run, run_all};
pub use summary::{Row, Summary};
pub use task::{CallSpec, Expect, FileAfter, Offered, OneOrMany, Remembered, Task};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
