//! A turn as it is made: what is decided before a call, the call and its values, and the answer.
//!
//! `local` makes it, in this order: the model reasons (`reason`); a call is weighed against an answer (`changes`, `related`,
//! `choose`); calls are written and kept apart from ones that were made or made up (`place`, `invented`, `repeats`, `mend`); or an
//! answer is (`answer`, `held`, `doubt`, `results`). `shown` tells of it meanwhile, and `recover` reads texts that nothing constrained.

pub(crate) mod answer;
pub(crate) mod changes;
pub(crate) mod choose;
pub(crate) mod doubt;
pub(crate) mod held;
pub(crate) mod invented;
pub(crate) mod local;
pub(crate) mod mend;
pub(crate) mod place;
pub(crate) mod reason;
pub(crate) mod recover;
pub(crate) mod related;
pub(crate) mod repeats;
pub(crate) mod results;
pub(crate) mod shown;
