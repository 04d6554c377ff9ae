//! Above the registry: serves its tools to another program, a JSON object a line in and one a line out.
//! Chooses no policy.
//!
//! Invariant: exactly one line answers each line, in order, whatever it holds. A request chooses a tool and
//! its arguments, and never the grants.

use std::io::{self, BufRead, Read, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate_chat::ToolCall;
use toolgate_infer::Cancel;
use toolgate_sandbox::output;

use super::{Registry, Status, ToolResult, Unasked};

/// Longest request. A longer one gets an error and is skipped.
const MAX_REQUEST_BYTES: u64 = 64 * 1024 * 1024;

/// Answers each request `{"id", "tool", "params"}` by a reply `{"id", "ok", "error", "model", "terminal",
/// "result"}`.
///
/// ```
/// use toolgate_tools::{LineServer, Registry, Unasked};
///
/// let tools = Registry::new();
/// let mut replies = Vec::new();
/// LineServer::new(&tools, Unasked::Deny).run(&b"{\"id\": 1, \"tool\": \"ring\"}\n"[..], &mut replies)?;
/// let reply: serde_json::Value = serde_json::from_slice(&replies)?;
/// assert_eq!((&reply["id"], &reply["error"]["kind"]), (&1.into(), &"invalid".into()));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct LineServer<'a> {
    registry: &'a Registry,
    unasked: Unasked,
    remark: &'a Remark<'a>,
}

/// Adds fields to the reply with a tool's result.
type Remark<'a> = dyn Fn(&str, &ToolResult) -> Map<String, Value> + 'a;

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    id: Value,
    tool: String,
    #[serde(default)]
    params: Map<String, Value>,
}

#[derive(Serialize)]
struct Reply {
    id: Value,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
    model: String,
    terminal: String,
    #[serde(flatten)]
    remarks: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<ToolResult>,
}

#[derive(Serialize)]
struct Failure {
    kind: &'static str,
    message: String,
}

impl<'a> LineServer<'a> {
    /// Serves these tools. `unasked` decides calls that need a person's answer.
    pub fn new(registry: &'a Registry, unasked: Unasked) -> Self {
        Self { registry, unasked, remark: &|_, _| Map::new() }
    }

    /// The same with `remark`, which adds fields to a reply from the name of the tool and its result.
    #[must_use]
    #[doc(hidden)]
    pub fn remarking(self, remark: &'a Remark<'a>) -> Self {
        Self { remark, ..self }
    }

    /// Answers requests until the input ends.
    ///
    /// # Errors
    /// Input that cannot be read, and a reply that cannot be written. A faulty request gets a reply.
    pub fn run(&self, mut input: impl BufRead, mut out: impl Write) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut input).take(MAX_REQUEST_BYTES).read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(());
            }
            let whole = line.ends_with(b"\n") || (read as u64) < MAX_REQUEST_BYTES;
            let reply = if whole {
                if line.trim_ascii().is_empty() {
                    continue;
                }
                self.answer(&line)
            } else {
                skip_line(&mut input)?;
                invalid(Value::Null, &format!("a request may have at most {MAX_REQUEST_BYTES} bytes"))
            };
            serde_json::to_writer(&mut out, &reply)?;
            out.write_all(b"\n")?;
            out.flush()?;
        }
    }

    fn answer(&self, line: &[u8]) -> Reply {
        let request: Request = match serde_json::from_slice(line) {
            Ok(request) => request,
            Err(why) => return invalid(Value::Null, &format!("not a request: {why}")),
        };
        let known = self.registry.effect(&request.tool).is_some();
        let call = ToolCall::new(request.tool.clone(), request.params);
        let result = self.registry.call_unasked(&call, self.unasked, &Cancel::default());
        let error = (result.status != Status::Ok).then(|| Failure {
            kind: match result.status {
                Status::Denied => "denied",
                Status::Limit => "limit",
                _ if known => "io",
                _ => "invalid",
            },
            message: result.content.clone(),
        });
        Reply {
            id: request.id,
            ok: error.is_none(),
            error,
            terminal: output::for_terminal(&result.content).into_owned(),
            remarks: (self.remark)(&request.tool, &result),
            model: result.content.clone(),
            result: Some(result),
        }
    }
}

/// Reads to the end of a line that is too long, and keeps none of it.
fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |at| at + 1);
        let done = end.is_some() || used == 0;
        input.consume(used);
        if done {
            return Ok(());
        }
    }
}

fn invalid(id: Value, message: &str) -> Reply {
    let message = output::for_terminal(message).into_owned();
    Reply {
        id,
        ok: false,
        error: Some(Failure { kind: "invalid", message: message.clone() }),
        model: message.clone(),
        terminal: message,
        remarks: Map::new(),
        result: None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use serde_json::json;

    fn replies(server: &LineServer<'_>, input: &str) -> Vec<Value> {
        let mut out = Vec::new();
        server.run(input.as_bytes(), &mut out).unwrap();
        let lines = std::str::from_utf8(&out).unwrap().lines();
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn every_line_is_answered_whatever_it_holds() {
        let registry = Registry::new();
        let server = LineServer::new(&registry, Unasked::Deny);
        for (line, id, kind) in [
            ("{", Value::Null, "invalid"),
            (r#"{"id": 7, "tool": "read_file"}"#, Value::from(7), "invalid"),
            (r#"{"id": "a", "tool": "x", "params": []}"#, Value::Null, "invalid"),
        ] {
            let found = replies(&server, &format!("\n{line}\n"));
            assert_eq!(found.len(), 1, "{line}");
            assert_eq!((&found[0]["id"], &found[0]["error"]["kind"]), (&id, &json!(kind)), "{line}");
        }
    }

    #[test]
    fn a_reply_says_what_is_remarked_of_its_result_and_nothing_else() {
        let registry = Registry::new();
        let plain = LineServer::new(&registry, Unasked::Deny);
        let request = "{\"id\": 1, \"tool\": \"ring\"}\n";
        let keys = |reply: &Value| reply.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let said = ["id", "ok", "error", "model", "terminal", "result"];
        assert_eq!(keys(&replies(&plain, request)[0]), said);
        let remark = |tool: &str, _: &ToolResult| Map::from_iter([("length".to_owned(), json!(tool.len()))]);
        assert_eq!(replies(&plain.remarking(&remark), request)[0]["length"], 4);
    }
}
