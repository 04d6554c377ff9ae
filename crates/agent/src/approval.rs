//! Asking a person before a call, and what their answer is bound to.
//!
//! Invariant: an answer counts for one tool, one set of arguments and one policy, and no other; nothing that a model says
//! can give it.

use std::sync::Arc;

use serde_json::{Map, Value};

use toolgate_tools::{Pending, Preview};

/// Who is asked before a call that may change something.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_agent::{Agent, Approval, Options};
/// use toolgate_tools::Status;
/// # use toolgate_engine::{self as engine, LocalEngine};
/// # use toolgate_tools::{Registry, file_tools};
/// # use toolgate_sandbox::policy::{Mode, Policy};
/// # use toolgate_sandbox::{Root, ambient_authority};
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # let arguments = "{\"path\": \"notes.txt\", \"content\": \"gone\"}";
/// # let call = format!("<tool_call>\n{{\"name\": \"write_file\", \"arguments\": {arguments}}}\n</tool_call>");
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
/// #     .context(16_384)
/// #     .on("\nKind:", " change")
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
///     request.preview.as_ref().is_some_and(|shown| !shown.diff.lines().any(|line| line.starts_with('-')))
/// }));
/// let agent = Agent::new(engine, tools, Options::default().approval(approval));
/// let outcome = agent.ask("Make \"gone\" the text of notes.txt")?;
/// assert_eq!(outcome.calls[0].status, Status::Denied);
/// assert_eq!(std::fs::read_to_string(&notes)?, "buy milk\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Approval {
    /// Nobody: the policy alone decides.
    Auto,
    /// Such calls are denied.
    #[default]
    Never,
    /// This function; `true` lets the call through, once.
    Ask(Arc<Asked>),
}

/// Whoever is asked about a call.
pub type Asked = dyn Fn(&Request) -> bool + Send + Sync;

/// What a person is asked about: all of it, so that a question made from it alone hides nothing.
///
/// ```
/// use serde_json::json;
/// use toolgate_agent::Request;
///
/// // For a test of what a person is shown.
/// let arguments = json!({"command": "make"}).as_object().cloned().unwrap_or_default();
/// let request = Request::of("run_command", arguments);
/// assert_eq!((request.name.as_str(), &request.arguments["command"]), ("run_command", &json!("make")));
/// assert!(request.preview.is_none() && request.origin.is_empty());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The tool.
    pub name: String,
    /// Whose tool it is, where it is not the program's own ([`Tool::origin`](toolgate_tools::Tool::origin)).
    pub origin: String,
    /// Its exact arguments.
    pub arguments: Map<String, Value>,
    /// What would change, where the tool can tell. Nothing else will: what is there by then is compared with it.
    pub preview: Option<Preview>,
    /// A digest of the tool, whose it is and its definition, of arguments, what would change, and policy: who wants to
    /// remember an answer remembers it by this.
    pub fingerprint: String,
}

impl Request {
    pub(super) fn new(pending: &Pending<'_>) -> Self {
        Self {
            name: pending.name().to_owned(),
            origin: pending.origin(),
            arguments: pending.arguments().clone(),
            preview: pending.preview().cloned(),
            fingerprint: pending.digest().iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    /// A request without a preview, for a call of the program's own tools.
    pub fn of(name: impl Into<String>, arguments: Map<String, Value>) -> Self {
        let (name, origin, fingerprint) = (name.into(), String::new(), String::new());
        Self { name, origin, arguments, preview: None, fingerprint }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;
    use toolgate_chat::{ToolCall, ToolSpec};

    use super::*;
    use toolgate_tools::{Args, Effect, Registry, Tool, ToolResult};

    struct Fake {
        spec: ToolSpec,
        origin: &'static str,
        effect: Effect,
    }

    impl Tool for Fake {
        fn spec(&self) -> &ToolSpec {
            &self.spec
        }
        fn effect(&self) -> Effect {
            self.effect
        }
        fn origin(&self) -> String {
            self.origin.to_owned()
        }
        fn call(&self, _: &Args) -> ToolResult {
            ToolResult::ok("")
        }
    }

    fn of(
        policy: &str,
        name: &str,
        path: &str,
        description: &str,
        schema: &Value,
        origin: &'static str,
        effect: Effect,
    ) -> String {
        let spec = ToolSpec::new(name, description, schema.clone()).unwrap();
        let mut registry = Registry::new().under(policy.to_owned());
        registry.add(Fake { spec, origin, effect }).unwrap();
        let call = ToolCall::new(name, Map::from_iter([("path".to_owned(), Value::from(path))]));
        Request::new(&registry.prepare(&call).map_err(|result| result.content).unwrap()).fingerprint
    }

    #[test]
    fn a_fingerprint_is_bound_to_the_tool_its_origin_its_definition_its_arguments_and_the_policy() {
        let (plain, closed) = (json!({"type": "object"}), json!({"type": "object", "maxProperties": 9}));
        let one = || of("p", "send", "a", "Sends.", &plain, "", Effect::Changes);
        assert_eq!(one(), one());
        assert_eq!(one().len(), 64);
        for other in [
            of("q", "send", "a", "Sends.", &plain, "", Effect::Changes),
            of("p", "send2", "a", "Sends.", &plain, "", Effect::Changes),
            of("p", "send", "b", "Sends.", &plain, "", Effect::Changes),
            of("p", "send", "a", "Sends all.", &plain, "", Effect::Changes),
            of("p", "send", "a", "Sends.", &closed, "", Effect::Changes),
            of("p", "send", "a", "Sends.", &plain, "MCP server mail", Effect::Changes),
            of("p", "send", "a", "Sends.", &plain, "", Effect::Reads),
        ] {
            assert_ne!(one(), other);
        }
    }
}
