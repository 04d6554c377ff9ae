//! Exit codes (SPEC §1) and which error leads to which.

use crate::{Error, Kind, engine, models, tools};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: the run failed, or the answer to a yes-or-no command is no.
    Failed,
    /// 2: bad usage or input.
    Usage,
    /// 3: refused by the sandbox or policy.
    Refused,
    /// 4: model or engine unavailable.
    Unavailable,
}

impl Exit {
    /// The number for the operating system.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Unavailable => 4,
        }
    }
}

/// The exit code of an error that ended a subcommand.
pub(super) fn of(error: &anyhow::Error) -> Exit {
    match kind(error) {
        Some(Kind::Denied) => Exit::Refused,
        Some(Kind::Engine) => Exit::Unavailable,
        Some(Kind::Cancelled) => Exit::Failed,
        _ => Exit::Usage,
    }
}

/// What kind of error it is, whichever package it comes from.
fn kind(error: &anyhow::Error) -> Option<Kind> {
    if let Some(error) = error.downcast_ref::<Error>() {
        return Some(error.kind());
    }
    if let Some(error) = error.downcast_ref::<engine::Error>() {
        return Some(error.kind().into());
    }
    if let Some(error) = error.downcast_ref::<tools::Error>() {
        return Some(error.kind().into());
    }
    let error = error.downcast_ref::<models::Error>()?;
    Some(engine::Kind::from(error.kind()).into())
}
