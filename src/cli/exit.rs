//! Exit codes (SPEC §1) and which error leads to which.

use crate::{Error, Kind};

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
    let kind = error
        .downcast_ref::<Error>()
        .map(Error::kind)
        .or_else(|| error.downcast_ref::<crate::models::Error>().map(|error| error.kind().into()));
    match kind {
        Some(Kind::Denied) => Exit::Refused,
        Some(Kind::Engine) => Exit::Unavailable,
        Some(Kind::Cancelled) => Exit::Failed,
        Some(Kind::Input | Kind::Overflow) | None => Exit::Usage,
    }
}
