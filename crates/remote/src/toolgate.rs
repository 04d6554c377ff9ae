//! A turn at another toolgate. Its engine makes the whole turn, with everything that is known here. It asks back in the middle of
//! the turn what only the tools here know.

use serde_json::json;
use std::ops::ControlFlow;

use super::http::Client;
use crate::{Error, Kind};
use toolgate_engine::protocol::{
    ANSWER, About, ENGINE, EngineEvent, EngineReply, EngineRequest, Received, TURN, Verdict,
};
use toolgate_engine::{Cancel, Turn, TurnEvent, TurnRequest};

/// What the server's engine is; none where it makes no turns for others: another version, or one that runs its own tools.
pub(super) fn about(client: &Client) -> Option<About> {
    let about = client.get(ENGINE, &Cancel::default()).ok()?;
    serde_json::from_value(about).ok()
}

/// Makes a turn there.
pub(super) fn turn(
    client: &Client,
    model: &str,
    request: &TurnRequest<'_>,
    cancel: &Cancel,
    events: &mut dyn FnMut(TurnEvent),
) -> Result<Turn, Error> {
    let mut end = None;
    client.post_stream(TURN, &json!(EngineRequest::of(model, request)), cancel, &mut |event| {
        let told: EngineEvent = serde_json::from_value(event.clone()).map_err(|why| {
            let root = client.root();
            Error::new(Kind::Engine, format!("{root} tells of a turn what is not understood here: {why}"))
        })?;
        match told.heard() {
            Received::Event(event) => events(event),
            Received::Question(id, call) => {
                let verdict = request.check.map(|check| Verdict::of(check, &call)).unwrap_or_default();
                client.post(ANSWER, &json!(EngineReply { id, verdict }), cancel)?;
            }
            Received::End(turn) => end = Some(turn),
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let broke_off = || {
        let root = client.root();
        let message = format!("the turn of {root} broke off; nothing of it was taken, ask again");
        Error::new(Kind::Engine, message)
    };
    end.unwrap_or_else(|| Err(broke_off())).map(|turn| *turn)
}
