//! Reads or forgets a kept response by its id.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::response::Responses;
use crate::api::Api;
use crate::http::{self, RequestId};
use crate::refusal::{Refusal, Why};
use crate::server::Shared;

/// Answers with a response as it was sent.
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Extension(request): Extension<RequestId>,
) -> Response {
    match shared.responses.response(&id) {
        Some(body) => {
            (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], Body::from(body.to_string()))
                .into_response()
        }
        None => unknown(&id, &request),
    }
}

/// Forgets a response.
pub(crate) async fn remove(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Extension(request): Extension<RequestId>,
) -> Response {
    match shared.responses.remove(&id) {
        true => http::json(StatusCode::OK, &json!({"id": id, "object": "response", "deleted": true})),
        false => unknown(&id, &request),
    }
}

fn unknown(id: &str, RequestId(request): &RequestId) -> Response {
    let message = format!("there is no response with the id {id:?} here; {}", super::store::WHAT_IS_KEPT);
    let refusal = Refusal::new(Why::Address, message);
    http::respond(&refusal, Responses::refusal(&refusal, request))
}
