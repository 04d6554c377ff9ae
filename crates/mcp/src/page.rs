//! What lists have in common, and how an embedder's errors are told.

use rmcp::model::ErrorData;

use crate::{Error, Kind};

/// Entries of a page.
const PAGE: usize = 200;

/// The page that `cursor` leads to, and the cursor of the next one. A list that becomes another in between may have an entry twice,
/// or not at all, as the protocol has it.
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

/// Why something cannot be had.
pub(super) fn refusal(error: &Error) -> ErrorData {
    match error.kind() {
        Kind::Input => ErrorData::invalid_params(error.to_string(), None),
        Kind::Denied => ErrorData::invalid_request(error.to_string(), None),
        _ => ErrorData::internal_error(error.to_string(), None),
    }
}
