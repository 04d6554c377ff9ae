//! Why a computation stops before its end. The lowest file of the engine, with `tokens`.
//!
//! Invariant: every stop becomes an error that names the limit to raise.

use crate::{Error, Kind, Limits};

/// The arena, or the memory for masks, is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Why a computation could not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The tables of this machine are full; a fresh one can go on.
    Full,
    /// More alternatives at once than [`Limits::stacks`].
    Stacks,
    /// More work on finding out what can follow than [`Limits::work`].
    Work,
}

impl From<Full> for Stop {
    fn from(_: Full) -> Self {
        Self::Full
    }
}

impl Stop {
    pub(crate) fn error(self, limits: &Limits) -> Error {
        let message = match self {
            Self::Full => format!("one step needs more than {} configurations", limits.configurations),
            Self::Stacks => format!("the grammar is ambiguous here in more than {} ways", limits.stacks),
            Self::Work => {
                format!("the grammar is so ambiguous that this text takes more than {} steps", limits.work)
            }
        };
        let field = match self {
            Self::Full => "configurations",
            Self::Stacks => "stacks",
            Self::Work => "work",
        };
        Error::new(Kind::Limit, message).hint(format!("simplify the grammar or raise Limits::{field}"))
    }
}
