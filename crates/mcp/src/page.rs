//! The pages of lists, and the protocol's form of an embedder's errors.

use rmcp::model::ErrorData;

use crate::{Error, Kind};

/// Entries of a page.
const PAGE: usize = 200;

/// The page at `cursor`, and the cursor of the next one. If the list changes in between, an entry may come twice or not at all.
/// The protocol allows that.
pub(super) fn page<T>(all: Vec<T>, cursor: Option<&str>) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let from: usize = match cursor {
        None => 0,
        Some(cursor) => cursor.parse().map_err(|_| {
            ErrorData::invalid_params("the cursor is none of ours; leave it out to begin again", None)
        })?,
    };
    let next = from.saturating_add(PAGE);
    let next = (all.len() > next).then(|| next.to_string());
    Ok((all.into_iter().skip(from).take(PAGE).collect(), next))
}

/// An embedder's error in the protocol's form.
pub(super) fn refusal(error: &Error) -> ErrorData {
    match error.kind() {
        Kind::Input => ErrorData::invalid_params(error.to_string(), None),
        Kind::Denied => ErrorData::invalid_request(error.to_string(), None),
        _ => ErrorData::internal_error(error.to_string(), None),
    }
}
