//! A turn at another toolgate: its engine is asked for the whole of it, with all that is known here, and what only the tools
//! here can tell is answered in the middle of it.

use serde_json::json;

use super::http::Client;
use crate::{Error, Kind};
use toolgate_engine::exchange::{ANSWER, About, Answered, Asked, ENGINE, Heard, TURN, Told, Verdict};
use toolgate_engine::{Cancel, Facts, Turn, TurnEvent, TurnRequest};

/// What the server's engine is; none where it makes no turns for others: another version, or one that runs its own tools.
pub(super) fn facts(client: &Client) -> Option<Facts> {
    let about = client.get(ENGINE, &Cancel::default()).ok()?;
    serde_json::from_value(about).ok().map(|about: About| about.facts)
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
    client.post_stream(TURN, &json!(Asked::of(model, request)), cancel, &mut |event| {
        let told: Told = serde_json::from_value(event.clone()).map_err(|why| {
            let root = client.root();
            Error::new(Kind::Engine, format!("{root} tells of a turn what is not understood here: {why}"))
        })?;
        match told.heard() {
            Heard::Event(event) => events(event),
            Heard::Question(id, call) => {
                let verdict = request.check.map(|check| Verdict::of(check, &call)).unwrap_or_default();
                client.post(ANSWER, &json!(Answered { id, verdict }), cancel)?;
            }
            Heard::End(turn) => end = Some(turn),
        }
        Ok(())
    })?;
    let broke_off = || {
        let root = client.root();
        let message = format!("the turn of {root} broke off; nothing of it was taken, ask again");
        Error::new(Kind::Engine, message)
    };
    end.unwrap_or_else(|| Err(broke_off())).map(|turn| *turn)
}
