//! The stages of a turn, for engines whose model is asked over a network, and for servers that show turns.
//!
//! [`LocalEngine`](crate::LocalEngine) makes its turns of the same ones. They stand here by themselves since such an
//! engine asks for probabilities in requests of its own.
//!
//! For the packages of this workspace alone: no part of the API.

pub use crate::model::pool::{Lent, Pool, lock};
pub use crate::turn::changes::{KINDS, May, Wishes, effect_of, is_to_ask, listed, p_change, unled};
pub use crate::turn::choose::{Biases, Look, best, empty, held_to, is_weighed, mean, openings_of, weights};
pub use crate::turn::doubt::{Doubted, ECHOED, EXCUSED, could_look, is_doubted, is_echo};
pub use crate::turn::invented::Known;
pub use crate::turn::local::show;
pub use crate::turn::place::{stands_whole, step};
pub use crate::turn::recover::recover;
pub use crate::turn::repeats::{REPEATED, REQUIRED, in_place_of, without_repeats};
pub use crate::turn::results::{addition, instead};
