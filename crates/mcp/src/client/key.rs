//! The key that a server elsewhere wants, from a variable of the environment: policies are files that are shared.
//!
//! Invariant: it is sent to the address it was made for, where nobody on the way can read it, and is never printed.

use axum::http::HeaderValue;

use super::address::Address;
use crate::Error;

/// A key, as the header that carries it.
#[derive(Clone)]
pub(super) struct Key(HeaderValue);

impl Key {
    /// The key in a variable of the environment, for the server at an address.
    ///
    /// # Errors
    /// Where the variable is not set or cannot be sent, and where others could read it on the way.
    pub(super) fn of_variable(variable: &str, address: &Address) -> Result<Self, Error> {
        if !address.is_private() {
            return Err(Error::input("its key could be read on the way: its url has to begin with https://"));
        }
        let key = std::env::var(variable).unwrap_or_default();
        if key.trim().is_empty() {
            return Err(Error::input(format!("its key is missing: set the variable {variable} (key_env)")));
        }
        let header = HeaderValue::from_str(&format!("Bearer {}", key.trim()));
        let mut header = header.map_err(|_| {
            Error::input(format!("its key cannot be sent: {variable} holds more than printable ASCII"))
        })?;
        header.set_sensitive(true);
        Ok(Self(header))
    }

    /// What `Authorization` says.
    pub(super) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}
