//! The keys by which a server here knows its clients, whichever protocol they speak.
//!
//! Invariant: a key is kept and compared as its digest, so how long a comparison takes tells nothing of it.
//!
//! For the packages of this workspace alone: no part of the API.

use std::net::SocketAddr;

use toolgate_engine::models::Sha256Digest;

use crate::{Error, Kind};

/// Refuses to listen where other machines can ask without a key, and a key that anybody can guess.
///
/// # Errors
/// [`Kind::Denied`] for such an address, [`Kind::Input`] for an empty key.
pub fn check(address: SocketAddr, key: Option<&str>) -> Result<(), Error> {
    match key {
        None if !address.ip().is_loopback() => {
            let message = format!("{address} can be reached from other machines: give a key by --api-key");
            Err(Error::new(Kind::Denied, message))
        }
        Some("") => Err(Error::input("the key is empty: give one by --api-key, or none")),
        _ => Ok(()),
    }
}

/// What a client has to show.
#[derive(Clone, Copy)]
pub struct Key(Sha256Digest);

impl Key {
    /// What is kept of a key.
    pub fn new(key: &str) -> Self {
        Self(Sha256Digest::of(key.as_bytes()))
    }

    /// Whether a client shows it.
    pub fn is(&self, given: &str) -> bool {
        Sha256Digest::of(given.as_bytes()) == self.0
    }
}

/// The bearer token in the `Authorization` that a request brings.
pub fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, key) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
}
