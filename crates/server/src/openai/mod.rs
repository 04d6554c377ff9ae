//! The OpenAI API's chat completions: reads requests, writes answers and streams.

mod request;
mod response;

pub(super) use request::{alternatives, choice, left_out, several};
pub(super) use response::{OpenAi, likelihoods};
