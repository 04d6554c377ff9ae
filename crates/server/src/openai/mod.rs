//! The OpenAI API's chat completions: requests read, answers and streams written.

mod request;
mod response;

pub(super) use request::{alternatives, choice, left_out, several};
pub(super) use response::{OpenAi, likelihoods};
