//! The keys by which a server here knows its clients, whichever protocol they speak.
//!
//! Invariant: a key is kept and compared as its digest, so how long a comparison takes tells nothing of it.

use axum::http::{HeaderMap, header};

use crate::models::Sha256Digest;

/// What a client has to show.
#[derive(Clone, Copy)]
pub(crate) struct Key(Sha256Digest);

impl Key {
    pub(crate) fn new(key: &str) -> Self {
        Self(Sha256Digest::of(key.as_bytes()))
    }

    /// Whether a client shows it.
    pub(crate) fn is(&self, given: &str) -> bool {
        Sha256Digest::of(given.as_bytes()) == self.0
    }
}

/// The bearer token that a request brings.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
}
