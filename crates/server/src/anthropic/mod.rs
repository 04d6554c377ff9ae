//! The Anthropic API's messages: reads requests, writes answers and streams.

mod management;
mod request;
mod response;

pub(super) use request::read_counted;
pub(super) use response::{Anthropic, time};
