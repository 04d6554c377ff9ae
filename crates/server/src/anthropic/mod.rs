//! The Anthropic API's messages: requests read, answers and streams written.

mod management;
mod request;
mod response;

pub(super) use request::read_counted;
pub(super) use response::{Anthropic, time};
