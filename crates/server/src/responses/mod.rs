//! The OpenAI API's responses: reads requests, keeps conversations, writes answers and streams.
//!
//! A request is a flat list of items. [`items`] puts them into turns, with the tools of [`tools`]. A response
//! is a list of items, too. [`output`] writes whole responses and streams with the same code. [`store`] keeps
//! both, and a later request may go on from them.

mod items;
mod kept;
mod output;
mod request;
mod response;
mod store;
mod tools;

pub(super) use kept::{read, remove};
pub(super) use response::Responses;
pub(super) use store::Store;
