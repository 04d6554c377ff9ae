//! Asking a person before a call, and what their answer is bound to.
//!
//! Invariant: an answer counts for one tool, one set of arguments and one policy, and no other; nothing that a model says
//! can give it.

use std::sync::Arc;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use toolgate_chat::ToolCall;

use crate::models::Sha256Digest;
use crate::tools::Registry;

/// Who is asked before a call that may change something.
///
/// ```
/// use std::sync::Arc;
/// use toolgate::agent::{Agent, Approval, Options};
/// use toolgate::tools::Status;
/// # use toolgate::engine::{self, LocalEngine};
/// # use toolgate::tools::{Registry, file_tools};
/// # use toolgate_sandbox::policy::{Mode, Policy};
/// # use toolgate_sandbox::{Root, ambient_authority};
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # let arguments = "{\"path\": \"notes.txt\", \"content\": \"gone\"}";
/// # let call = format!("<tool_call>\n{{\"name\": \"write_file\", \"arguments\": {arguments}}}\n</tool_call>");
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
/// #     .context(16_384)
/// #     .on("did not allow", "I was not allowed to.")
/// #     .on("notes.txt", call);
/// # let engine = Arc::new(LocalEngine::scripted(model, engine::Options::default())?);
/// # let directory = tempfile::tempdir()?;
/// # let notes = directory.path().join("notes.txt");
/// # std::fs::write(&notes, "buy milk\n")?;
/// # let root = Root::open(directory.path(), ambient_authority())?;
/// # let mut tools = Registry::new();
/// # for tool in file_tools(&root, &Policy::default_for(Mode::Edit), Mode::Edit)? {
/// #     tools.add(tool)?;
/// # }
///
/// // Lines may be added, and none may go.
/// let approval = Approval::Ask(Arc::new(|request| {
///     let shown = request.preview.as_deref().unwrap_or_default();
///     !shown.lines().any(|line| line.starts_with('-'))
/// }));
/// let agent = Agent::new(engine, tools, Options { approval, ..Options::default() });
/// let outcome = agent.ask("Make \"gone\" the text of notes.txt")?;
/// assert_eq!(outcome.calls[0].status, Status::Denied);
/// assert_eq!(std::fs::read_to_string(&notes)?, "buy milk\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub enum Approval {
    /// Nobody: the policy alone decides.
    #[default]
    Auto,
    /// Such calls are denied.
    Never,
    /// This function; `true` lets the call through, once.
    Ask(Arc<Asked>),
}

/// Whoever is asked about a call.
pub type Asked = dyn Fn(&Request) -> bool + Send + Sync;

/// What a person is asked about.
#[derive(Clone, Debug)]
pub struct Request {
    /// The tool.
    pub name: String,
    /// Its exact arguments.
    pub arguments: Map<String, Value>,
    /// What would change, where the tool can tell: lines that begin with `-` go, lines with `+` come.
    pub preview: Option<String>,
    /// A digest of tool, arguments, what would change, and policy: who wants to remember an answer remembers it by this.
    pub fingerprint: String,
}

impl Request {
    pub(super) fn new(registry: &Registry, call: &ToolCall) -> Self {
        let preview = registry.preview(call);
        let mut hash = Sha256::new();
        let arguments = Value::Object(call.arguments.clone()).to_string();
        for part in
            [call.name.as_str(), &arguments, preview.as_deref().unwrap_or_default(), registry.policy()]
        {
            // The length keeps parts from running into each other.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let fingerprint = Sha256Digest::from(hash).to_string();
        Self { name: call.name.clone(), arguments: call.arguments.clone(), preview, fingerprint }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_fingerprint_is_bound_to_tool_arguments_and_policy() {
        let call = |name: &str, path: &str| {
            ToolCall::new(name, Map::from_iter([("path".to_owned(), Value::from(path))]))
        };
        let of = |policy: &str, call: &ToolCall| {
            Request::new(&Registry::new().under(policy.to_owned()), call).fingerprint
        };
        let one = of("p", &call("write_file", "a"));
        assert_eq!(one, of("p", &call("write_file", "a")));
        for other in [
            of("q", &call("write_file", "a")),
            of("p", &call("edit_file", "a")),
            of("p", &call("write_file", "b")),
        ] {
            assert_ne!(one, other);
        }
        assert_eq!(one.len(), 64);
    }
}
