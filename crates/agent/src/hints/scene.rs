//! Conversations for the tests of hints: a request, tools, calls and what they found.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_chat::{Message, ToolCall, ToolReply, ToolSpec, Transcript};
use toolgate_sandbox::Outline;
use toolgate_tools::{Offer, PathArgument, PathKind, Places, Role, Status, ToolResult};

use super::situation::{Memory, Situation};

pub(super) struct Scene {
    pub(super) transcript: Transcript,
    pub(super) offers: Vec<Offer>,
    pub(super) memory: Memory,
}

/// Files and directories that nobody made.
struct Made(Outline);

impl Places for Made {
    fn readable(&self) -> Outline {
        self.0.clone()
    }

    fn writable(&self) -> Outline {
        self.0.clone()
    }

    fn can_write_everywhere(&self) -> bool {
        true
    }
}

impl Scene {
    /// A user asks this.
    pub(super) fn asked(request: &str) -> Self {
        let transcript = Transcript::new().with(Message::User(request.to_owned()));
        Self { transcript, offers: Vec::new(), memory: Memory::default() }
    }

    /// These tools are offered, too.
    pub(super) fn offering(mut self, names: &[&str]) -> Self {
        for name in names {
            self.offers.extend(offer(name, Role::Other));
        }
        self
    }

    /// A tool of this role is offered, too.
    pub(super) fn with_role(mut self, name: &str, role: Role) -> Self {
        self.offers.extend(offer(name, role));
        self
    }

    /// A tool is offered that takes entries, of which nothing is there.
    pub(super) fn with_paths(self, name: &str) -> Self {
        self.with_files(name, PathKind::Entries, &[])
    }

    /// A tool is offered that takes such paths, where these files are there.
    pub(super) fn with_files(self, name: &str, takes: PathKind, files: &[&str]) -> Self {
        self.with_tree(name, takes, files, &[])
    }

    /// The same, where these directories are there, too.
    pub(super) fn with_tree(self, name: &str, takes: PathKind, files: &[&str], directories: &[&str]) -> Self {
        let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        let mut outline = Outline::default();
        (outline.files, outline.directories) = (owned(files), owned(directories));
        let places = Arc::new(Made(outline));
        self.with_role(name, Role::Paths(PathArgument::new("path", takes, places)))
    }

    /// A call was made; this came of it.
    pub(super) fn called(mut self, name: &str, arguments: &Value, result: ToolResult) -> Self {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let call = ToolCall::new(name, arguments).with_id(self.transcript.len().to_string());
        self.memory.note(&call, &result);
        let is_error = result.status != Status::Ok;
        let reply = ToolReply { is_error, ..ToolReply::ok(&call, result.content) };
        self.transcript.push(Message::calls([call]));
        self.transcript.push(Message::Tool(vec![reply]));
        self
    }

    pub(super) fn at(&self) -> Situation<'_> {
        Situation::new(&self.transcript, &self.offers, &self.memory, (true, true))
    }
}

fn offer(name: &str, role: Role) -> Option<Offer> {
    let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let spec = ToolSpec::new(name, "", parameters).ok()?;
    Some(Offer::of(spec, role))
}

/// Lines that were found in files; `is_partial` if they hold only words of what was looked for.
pub(super) fn hits(found: &[(&str, &str)], is_partial: bool) -> ToolResult {
    let lines: Vec<String> = found.iter().map(|(path, text)| format!("{path}:1: {text}")).collect();
    let hits: Vec<Value> = found.iter().map(|(path, text)| json!({"path": path, "text": text})).collect();
    let read_as = if is_partial { "any_word" } else { "literal" };
    let mut result = ToolResult::ok(lines.join("\n")).with_data(json!({"hits": hits, "read_as": read_as}));
    if found.is_empty() {
        result.note("(no match in 3 files)".to_owned());
    }
    result
}

/// The names in a directory, and the tool's remark about them.
pub(super) fn listing(names: &[&str], remark: Option<&str>) -> ToolResult {
    let entries: Vec<Value> = names.iter().map(|name| json!({"path": name.trim_end_matches('/')})).collect();
    let mut result = ToolResult::ok(names.join("\n")).with_data(json!({"entries": entries}));
    if let Some(remark) = remark {
        result.note(remark.to_owned());
    }
    result
}
