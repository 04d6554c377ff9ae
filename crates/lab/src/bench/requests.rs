//! The requests of `toolgate bench call` and `bench serve`: data, and a few generated sets of tools.
//!
//! Each is made to end in one call.

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_chat::{Message, ToolCall, ToolReply, ToolSpec, Transcript};

/// Tokens of context that they take where the arguments tell of none: a hundred tools take eleven thousand.
pub(super) const CONTEXT: u32 = 16_384;

/// Tokens of a turn at most.
pub(super) const MOST_TOKENS: usize = 256;

const REQUESTS: &str = include_str!("requests.json");
/// What tools of business programs do, and to what: ten by ten make a hundred.
const VERBS: [&str; 10] =
    ["create", "get", "update", "delete", "archive", "list", "assign", "approve", "export", "share"];
const THINGS: [&str; 10] = [
    "invoice", "customer", "ticket", "shipment", "order", "contract", "report", "employee", "product",
    "payment",
];

/// A conversation that a call comes next in.
pub(super) struct Request {
    pub(super) id: String,
    pub(super) tools: Vec<ToolSpec>,
    pub(super) transcript: Transcript,
}

impl Request {
    /// Whether a call is one of a tool offered, with arguments that fit its schema.
    pub(super) fn admits(&self, name: &str, arguments: &Map<String, Value>) -> bool {
        let options = jsonschema::options().should_validate_formats(true);
        self.tools.iter().filter(|tool| tool.name.as_str() == name).any(|tool| {
            let schema = options.build(&tool.parameters);
            schema.is_ok_and(|schema| schema.is_valid(&Value::Object(arguments.clone())))
        })
    }
}

#[derive(Deserialize)]
struct Data {
    requests: Vec<Line>,
    #[serde(flatten)]
    sets: Map<String, Value>,
}

#[derive(Deserialize)]
struct Line {
    id: String,
    tools: Tools,
    user: String,
    call: Option<Call>,
    result: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Tools {
    Set(String),
    Generated(usize),
}

#[derive(Deserialize)]
struct Call {
    name: String,
    arguments: Map<String, Value>,
}

/// All requests, in order.
///
/// # Errors
/// Data that is not what it should be; the tests see to that.
pub(super) fn requests() -> anyhow::Result<Vec<Request>> {
    let data: Data =
        serde_json::from_str(REQUESTS).context("the requests of the benchmark cannot be read")?;
    data.requests.into_iter().map(|line| line.request(&data.sets)).collect()
}

impl Line {
    fn request(self, sets: &Map<String, Value>) -> anyhow::Result<Request> {
        let tools = match &self.tools {
            Tools::Generated(n) => (0..*n).map(generated).collect::<anyhow::Result<_>>()?,
            Tools::Set(name) => {
                let set = sets.get(name).and_then(Value::as_array);
                let set = set.with_context(|| format!("there is no set of tools {name:?}"))?;
                set.iter()
                    .map(|tool| Ok(ToolSpec::from_any(&json!({"type": "function", "function": tool}))?))
                    .collect::<anyhow::Result<_>>()?
            }
        };
        let mut transcript = Transcript::new().with(Message::User(self.user));
        if let (Some(call), Some(result)) = (self.call, self.result) {
            let call = ToolCall::new(call.name, call.arguments).with_id("call_1");
            let reply = ToolReply::ok(&call, result);
            transcript.push(Message::calls([call]));
            transcript.push(Message::Tool(vec![reply]));
        }
        Ok(Request { id: self.id, tools, transcript })
    }
}

/// The tool of this number among a hundred.
fn generated(number: usize) -> anyhow::Result<ToolSpec> {
    let verb = VERBS.get(number % VERBS.len()).context("verbs")?;
    let thing = THINGS.get(number / VERBS.len() % THINGS.len()).context("things")?;
    let parameters = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": format!("Number of the {thing}")},
            "note": {"type": "string", "description": "What to add to it"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 500}
        },
        "required": if number.is_multiple_of(VERBS.len()) { json!(["note"]) } else { json!(["id"]) },
        "additionalProperties": false
    });
    Ok(ToolSpec::new(&format!("{verb}_{thing}"), format!("To {verb} one {thing}."), parameters)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn there_are_twenty_requests_of_4_to_100_tools() {
        let requests = requests().unwrap();
        assert_eq!(requests.len(), 20);
        let sizes: Vec<usize> = requests.iter().map(|request| request.tools.len()).collect();
        assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&4), Some(&100)));
        let second = requests.iter().filter(|request| request.transcript.len() == 3);
        assert_eq!(second.count(), 3, "second turns with results");
        let mut ids: Vec<_> = requests.iter().map(|request| &request.id).collect();
        ids.dedup();
        assert_eq!(ids.len(), 20);
        for request in &requests {
            let mut names: Vec<_> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), request.tools.len(), "{}", request.id);
        }
    }
}
