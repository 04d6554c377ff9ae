//! A filter between a server's messages and `rmcp`. It keeps the field `execution` of tools (protocol 2025-11-25), which
//! `rmcp` does not read.
//!
//! Invariant: a message without that field passes byte for byte.

use std::borrow::Cow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rmcp::model::Tool;
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncRead, BufReader, ReadBuf};

/// What a message holds that says something of it.
const SAID: &str = "taskSupport";
/// Where a definition keeps it, for [`needs_a_task`]: `rmcp` keeps all of `_meta`.
const KEPT: &str = "toolgate/execution";
/// Bytes of a line that is looked into. `rmcp` bounds lines too.
const MOST: usize = 4 * 1024 * 1024;

/// Whether a tool can only be called as a task. This client makes no tasks.
pub(super) fn needs_a_task(tool: &Tool) -> bool {
    let execution = tool.meta.as_ref().and_then(|meta| meta.get(KEPT));
    execution.and_then(|execution| execution.get(SAID)).and_then(Value::as_str) == Some("required")
}

/// The message with each tool's `execution` in its `_meta`.
pub(super) fn kept(message: &str) -> Cow<'_, str> {
    if !message.contains(SAID) {
        return Cow::Borrowed(message);
    }
    let moved = || {
        let mut value: Value = serde_json::from_str(message).ok()?;
        for tool in value.get_mut("result")?.get_mut("tools")?.as_array_mut()? {
            keep(tool);
        }
        serde_json::to_string(&value).ok()
    };
    moved().map_or(Cow::Borrowed(message), Cow::Owned)
}

fn keep(tool: &mut Value) {
    let Some(execution) = tool.get("execution").cloned() else { return };
    let Some(members) = tool.as_object_mut() else { return };
    let meta = members.entry("_meta").or_insert_with(|| Value::Object(Default::default()));
    // A `_meta` of another kind is refused by `rmcp`, with the whole list.
    if let Some(meta) = meta.as_object_mut() {
        meta.insert(KEPT.to_owned(), execution);
    }
}

/// A stream of lines, a message each, as [`kept`] has them.
pub(super) struct Lines<R> {
    from: BufReader<R>,
    line: Vec<u8>,
    /// A line that is being given away, and how much of it is gone.
    ready: (Vec<u8>, usize),
}

impl<R: AsyncRead> Lines<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from: BufReader::new(from), line: Vec::new(), ready: (Vec::new(), 0) }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        loop {
            let (line, gone) = &mut this.ready;
            let left = line.get(*gone..).unwrap_or_default();
            if !left.is_empty() {
                let taken = left.len().min(out.remaining());
                out.put_slice(left.get(..taken).unwrap_or_default());
                *gone += taken;
                return Poll::Ready(Ok(()));
            }
            let read = ready!(Pin::new(&mut this.from).poll_fill_buf(context))?;
            let end = read.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let taken = end.unwrap_or(read.len());
            this.line.extend_from_slice(read.get(..taken).unwrap_or_default());
            let over = read.is_empty();
            Pin::new(&mut this.from).consume(taken);
            if end.is_some() || over || this.line.len() > MOST {
                let line = std::mem::take(&mut this.line);
                if over && line.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                this.ready = (told(line), 0);
            }
        }
    }
}

/// A line as [`kept`] has it.
fn told(line: Vec<u8>) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(&line) else { return line };
    match kept(text) {
        Cow::Borrowed(_) => line,
        Cow::Owned(other) => (other + "\n").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    fn list(execution: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [
            {"name": "render", "inputSchema": {"type": "object"}, "execution": execution},
            {"name": "look", "inputSchema": {"type": "object"}, "_meta": {"a": 1}},
        ]}})
    }

    #[tokio::test]
    async fn what_is_said_of_tasks_comes_through_and_all_else_as_it_was() {
        for (said, needs) in [("required", true), ("optional", false), ("forbidden", false)] {
            let other =
                "{\"id\":2, \"result\":{}}\n{ \"text\": \"taskSupport\" }\nno json taskSupport\n\u{e9}";
            let sent = format!("{}\n{other}", list(&json!({"taskSupport": said})));
            let mut read = String::new();
            Lines::new(sent.as_bytes()).read_to_string(&mut read).await.unwrap();
            let (first, rest) = read.split_once('\n').unwrap();
            assert_eq!(rest, other);
            let told: Value = serde_json::from_str(first).unwrap();
            let tools: Vec<Tool> = serde_json::from_value(told["result"]["tools"].clone()).unwrap();
            assert_eq!(tools.iter().map(needs_a_task).collect::<Vec<_>>(), [needs, false], "{said}");
        }
        // Without this, rmcp tells nothing of it.
        let plain = list(&json!({"taskSupport": "required"}));
        let tool: Tool = serde_json::from_value(plain["result"]["tools"][0].clone()).unwrap();
        assert!(!needs_a_task(&tool));
    }
}
