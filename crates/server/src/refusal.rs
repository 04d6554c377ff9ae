//! Refusals: the reason that a request gets no answer, as one value. Each API has its own form for it.

use axum::http::StatusCode;
use serde_json::Value;

use crate::{Error, Kind};

/// Why a request is refused, or a turn could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) why: Why,
    /// A text for the person who sent the request: lower-case, without a full stop.
    pub(super) message: String,
    /// JSON pointer of what is wrong in the request's body.
    pub(super) pointer: Option<String>,
    /// Seconds after which it may be tried again.
    pub(super) retry_after: Option<u64>,
    /// The code that an API's clients read beside the message.
    pub(super) details: Option<Box<Value>>,
}

/// The kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The request cannot be used.
    Invalid,
    /// The conversation does not fit the model's context.
    TooLong,
    /// The key is missing or wrong.
    Key,
    /// Not allowed, whatever the key.
    Forbidden,
    /// No such address.
    Address,
    /// An address that takes another method.
    Method,
    /// No such model here.
    Model,
    /// The response that a request goes on from is not kept.
    Previous,
    /// The body did not arrive in time.
    Slow,
    /// The body is too large.
    Large,
    /// The body is not JSON.
    Media,
    /// Too many wait already.
    Busy,
    /// The server is about to end.
    Stopping,
    /// The turn took too long.
    Late,
    /// The fault is ours.
    Internal,
}

impl Why {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::Invalid | Self::TooLong | Self::Previous => StatusCode::BAD_REQUEST,
            Self::Key => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::Address | Self::Model => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Large => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Media => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            Self::Late => StatusCode::GATEWAY_TIMEOUT,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl Refusal {
    pub(super) fn new(why: Why, message: impl Into<String>) -> Self {
        Self { why, message: message.into(), pointer: None, retry_after: None, details: None }
    }

    /// The same with a code for an API's clients.
    pub(super) fn with_details(self, details: Value) -> Self {
        Self { details: Some(Box::new(details)), ..self }
    }

    /// A request that cannot be used because of the value at a JSON pointer. The message names the pointer.
    pub(super) fn at(pointer: &str, message: impl AsRef<str>) -> Self {
        let place = if pointer.is_empty() { "the request's root" } else { pointer };
        let message = format!("{} at {place}", message.as_ref());
        Self { pointer: Some(pointer.to_owned()), ..Self::new(Why::Invalid, message) }
    }
}

impl From<&Error> for Refusal {
    fn from(error: &Error) -> Self {
        let why = match error.kind() {
            Kind::Input => Why::Invalid,
            Kind::Overflow => Why::TooLong,
            Kind::Denied => Why::Forbidden,
            _ => Why::Internal,
        };
        Self::new(why, error.to_string())
    }
}
