//! What finished calls are held to beyond their grammar: the seam to whoever knows the tools.

use std::fmt;

use serde_json::Value;
use toolgate_chat::ToolCall;

/// Tells whether a finished call fits what its grammar could not hold it to.
pub trait CallCheck: Sync {
    /// The first thing that is wrong with a call's arguments.
    fn fault(&self, call: &ToolCall) -> Option<Fault>;

    /// What the wrong value of a call could be, as the keywords of its parameter's `"x-grammar"`, where that can be
    /// said: the value is then written again under them, and not only in another way.
    fn narrower(&self, call: &ToolCall) -> Option<(String, Value)> {
        let _ = call;
        None
    }
}

impl fmt::Debug for dyn CallCheck + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallCheck")
    }
}

/// Something wrong with the arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// JSON pointer of the value to write again; empty for the arguments as a whole.
    pub pointer: String,
    /// What is wrong with it, for a person.
    pub why: String,
}
