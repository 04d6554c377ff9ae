//! The OpenAI API's responses: requests read, conversations kept, answers and streams written.
//!
//! A request is a flat list of items, which [`items`] puts into turns, with the tools of [`tools`]. What is written are items, too
//! ([`output`]), in whole responses and in streams by the same code. [`store`] keeps both, so that a later request goes on from them.

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
