//! A turn as it is made: what is decided before a call, the call and its values, and the answer.
//!
//! `driver` has the order of the steps, for every place where a model runs. `local` is the engine on this machine. `steps` and
//! `making` carry the steps out, from where the turn is (`position`).
//!
//! - How much the turn thinks is settled (`reasoning_plan`), a prompt is evaluated (`prefill`), and the model reasons (`reason`).
//! - What may open at each place is told by `openings`. A call is weighed against an answer (`weigh`,
//!   `lists`, `changes`, `choose`).
//! - Calls are written (`place`, `invented`, `repeats`, `retry`), or an answer is (`answer`, `answering`, `watch`, `results`).
//! - `shown` tells of it meanwhile, and `recover` reads texts that nothing constrained.

pub(crate) mod answer;
pub(crate) mod answering;
pub(crate) mod changes;
pub(crate) mod choose;
pub(crate) mod driver;
pub(crate) mod invented;
pub(crate) mod lists;
pub(crate) mod local;
pub(crate) mod making;
pub(crate) mod openings;
pub(crate) mod place;
pub(crate) mod position;
pub(crate) mod prefill;
pub(crate) mod reason;
pub(crate) mod reasoning_plan;
pub(crate) mod recover;
pub(crate) mod repeats;
pub(crate) mod results;
pub(crate) mod retry;
pub(crate) mod shown;
pub(crate) mod steps;
pub(crate) mod watch;
pub(crate) mod weigh;
