//! The length of a request's prompt: `count_tokens` of the Anthropic API. Clients cut their conversations by
//! it. The request makes no turn. But it uses the engine's tokenizer as a turn does, so it waits like one.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::anthropic::{self, Anthropic};
use super::api::Api;
use super::ask::Ask;
use super::http::{self, RequestId};
use super::refusal::{Refusal, Why};
use super::server::Shared;
use super::turn;
use toolgate_engine::{Error, Kind, TurnRequest};

/// Answers with `{"input_tokens": …}`.
pub(super) async fn count(
    State(shared): State<Arc<Shared>>,
    Extension(RequestId(id)): Extension<RequestId>,
    request: Request,
) -> Response {
    match counted(&shared, request).await {
        Ok(tokens) => http::json(StatusCode::OK, &json!({"input_tokens": tokens})),
        Err(refusal) => http::respond(&refusal, Anthropic::refusal(&refusal, &id)),
    }
}

async fn counted(shared: &Arc<Shared>, request: Request) -> Result<usize, Refusal> {
    let (mut ask, place) = http::taken(shared, request, anthropic::read_counted).await?;
    http::fits(shared, &mut ask)?;
    let of = shared.clone();
    let mut counting = turn::start(shared, place, move |right, told| {
        let counted = tokens(&of, &mut ask);
        drop(right);
        // A client that has gone needs no answer.
        let _ = told.send(counted);
    })
    .await?;
    let lost = || Err(Refusal::new(Why::Internal, "the request could not be counted"));
    counting.step().await.unwrap_or_else(lost)
}

fn tokens(shared: &Shared, ask: &mut Ask) -> Result<usize, Refusal> {
    let counted = match prompt(shared, ask) {
        // The turn would be made without thoughts, too.
        Err(error) if error.kind() == Kind::Input && ask.leave_thoughts(&error).is_some() => {
            prompt(shared, ask)
        }
        counted => counted,
    };
    let tokens = counted.map_err(|error| Refusal::from(&error.into()))?;
    tokens.ok_or_else(|| Refusal::new(Why::Address, "the engine of this server cannot count tokens"))
}

/// The tokens of a request's prompt. `None` if the engine cannot count them.
fn prompt(shared: &Shared, ask: &Ask) -> Result<Option<usize>, Error> {
    let own = shared.execute.as_ref().map(|execute| execute.benches.take(|_| 0).tools.specs());
    let tools = own.as_ref().unwrap_or(&ask.tools.specs);
    let shown = turn::shown(shared, &ask.conversation.transcript, tools);
    let request =
        TurnRequest::new(&shown, tools, &ask.sampling).choice(ask.choice.clone()).answer(ask.form());
    shared.engine.prompt_tokens(&request)
}
