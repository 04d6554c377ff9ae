//! The seam for engines whose model runs elsewhere, and for servers that show turns: the driver of a turn, and what a model
//! takes part with.
//!
//! For the packages of this workspace alone: no part of the API.

pub use crate::constraint::automata::Sides;
pub use crate::model::pool::{Lent, Pool, lock};
pub use crate::profile::choice::{CHOICE_NUMBERS, ToolSignals};
pub use crate::profile::policy::EVEN;
pub use crate::turn::changes::{May, effect_of, is_to_ask, share_of};
pub use crate::turn::choose::{Biases, FreeCalls, Look, best, empty, is_weighed, mean, openings_of, weights};
pub use crate::turn::driver::{ScoredModel, Thought, Until, View, WrittenText, drive};
pub use crate::turn::lists::{List, Told, ToldLists};
pub use crate::turn::place::{stands_whole, step};
pub use crate::turn::reasoning_plan::{ENOUGH, MOST_BLANKS, OpenedBy, ReasoningPlan};
pub use crate::turn::recover::recover;
pub use crate::turn::repeats::{REPEATED, without_repeats};
pub use crate::turn::results::quoted;
pub use crate::turn::shown::show;
pub use crate::turn::watch::WatchedAnswer;
pub use crate::turn::weigh::{log_odds, logistic};
