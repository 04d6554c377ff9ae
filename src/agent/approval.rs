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
