//! The key for a server that runs elsewhere. It comes from a variable of the environment, since people share policies.
//!
//! Invariant: it goes only to its own address, and only where nobody on the way can read it. It is never printed.

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
    /// Where the variable is not set, where a header cannot hold its value, and where others could read it on the way.
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

    /// The value of the header `Authorization`.
    pub(super) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}
