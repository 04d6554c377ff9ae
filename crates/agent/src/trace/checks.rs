//! What was found wrong with finished calls in a turn: noted while it is recorded, and answered from the record when a
//! model is asked again, whose workspace may look different by then.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate_chat::ToolCall;

use toolgate_engine::{CallCheck, Fault};

/// A finished call that did not fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Found {
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// JSON pointer of the value that was wrong; empty for the arguments as a whole.
    pub pointer: String,
    /// What was wrong with it.
    pub why: String,
}

impl Found {
    fn is_of(&self, call: &ToolCall) -> bool {
        self.name == call.name && self.arguments == call.arguments
    }
}

/// A check whose findings are noted.
pub(super) struct Noting<'a> {
    check: &'a dyn CallCheck,
    found: Mutex<Vec<Found>>,
}

impl<'a> Noting<'a> {
    pub(super) fn new(check: &'a dyn CallCheck) -> Self {
        Self { check, found: Mutex::default() }
    }

    pub(super) fn into_found(self) -> Vec<Found> {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallCheck for Noting<'_> {
    fn fault(&self, call: &ToolCall) -> Option<Fault> {
        let fault = self.check.fault(call)?;
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if !found.iter().any(|known| known.is_of(call)) {
            found.push(Found {
                name: call.name.clone(),
                arguments: call.arguments.clone(),
                pointer: fault.pointer.clone(),
                why: fault.why.clone(),
            });
        }
        Some(fault)
    }
}

/// What was found then, as the check of a turn that is made again.
pub(super) struct Answering<'a>(pub(super) &'a [Found]);

impl Answering<'_> {
    fn found(&self, call: &ToolCall) -> Option<&Found> {
        self.0.iter().find(|found| found.is_of(call))
    }
}

impl CallCheck for Answering<'_> {
    fn fault(&self, call: &ToolCall) -> Option<Fault> {
        self.found(call).map(|found| Fault { pointer: found.pointer.clone(), why: found.why.clone() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    struct Missing;

    impl CallCheck for Missing {
        fn fault(&self, call: &ToolCall) -> Option<Fault> {
            let is_missing = call.arguments.get("path") == Some(&json!("none.txt"));
            is_missing.then(|| Fault { pointer: "/path".into(), why: "there is none".into() })
        }
    }

    #[test]
    fn what_was_found_is_found_again_without_whoever_found_it() {
        let call =
            |path: &str| ToolCall::new("read_file", Map::from_iter([("path".to_owned(), json!(path))]));
        let noting = Noting::new(&Missing);
        let (wrong, right) = (call("none.txt"), call("a.txt"));
        let first = noting.fault(&wrong);
        assert!(first.is_some() && noting.fault(&wrong) == first && noting.fault(&right).is_none());
        let found = noting.into_found();
        assert_eq!(found.len(), 1);
        let text = serde_json::to_string(&found).unwrap();
        let found: Vec<Found> = serde_json::from_str(&text).unwrap();
        let answering = Answering(&found);
        assert_eq!(answering.fault(&wrong), first);
        assert_eq!(answering.fault(&right), None);
    }
}
