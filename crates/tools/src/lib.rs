//! Tools, and the registry that runs calls of them. Knows messages and the sandbox; no model and no grammar.
//!
//! Invariant: a tool never sees arguments that its schema does not admit ([`Args`] is made only by
//! [`Registry::call`]). A failure inside a tool becomes a [`ToolResult`] that the model can read.

mod args;
mod canned;
mod check;
mod command;
#[cfg(feature = "memory")]
#[doc(hidden)]
pub mod database;
mod error;
mod files;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(feature = "memory")]
mod memory_tools;
mod narrow;
mod part;
mod prepared;
mod preview;
mod registry;
mod result;
mod said;
mod typed;
#[cfg(feature = "memory")]
pub mod undo;
#[cfg(feature = "wasm")]
mod wasm;

pub use args::Args;
pub use canned::CannedTool;
pub use check::{Check, Violation};
pub use command::{CommandTool, RUN_COMMAND};
pub use error::{Error, Kind};
pub use files::{FileTool, file_tools};
#[cfg(feature = "memory")]
pub use memory_tools::{MEMORY_TOOLS, memory_tools};
pub use narrow::{CHOICES, Choices, Fit, Narrowed, Offered};
pub use part::{Body, Contents, Part};
pub use prepared::{Pending, PreparedCall};
pub use preview::Preview;
#[doc(hidden)]
pub use preview::spelled;
pub use registry::{Registry, Source, Told, Unasked, Witness};
pub use result::{Status, ToolResult};
#[doc(hidden)]
pub use said::is_no_name;
pub use said::{Named, Said};
pub use typed::{TypedTool, typed};
#[cfg(feature = "wasm")]
pub use wasm::{ComponentTool, ProgramTool};

pub use toolgate_chat::Effect;
use toolgate_chat::{ToolCall, ToolSpec};
pub use toolgate_infer::Cancel;

/// A tool that a model can call.
///
/// ```
/// use toolgate_tools::{Args, Effect, Registry, Tool, ToolResult};
/// use toolgate_chat::ToolSpec;
///
/// /// Knows what words mean here.
/// struct Glossary(ToolSpec);
///
/// impl Tool for Glossary {
///     fn spec(&self) -> &ToolSpec {
///         &self.0
///     }
///
///     fn effect(&self) -> Effect {
///         Effect::Reads
///     }
///
///     fn call(&self, args: &Args) -> ToolResult {
///         match args.str("word") {
///             Some("flight") => ToolResult::ok("the record of a run"),
///             _ => ToolResult::failed("no such word; there is: flight"),
///         }
///     }
/// }
///
/// let parameters = serde_json::json!({
///     "type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]
/// });
/// let mut tools = Registry::new();
/// tools.add(Glossary(ToolSpec::new("explain", "What a word means here.", parameters)?))?;
/// assert_eq!(tools.call_json("explain", r#"{"word": "flight"}"#).content, "the record of a run");
/// // Arguments that do not fit the schema never reach it.
/// assert!(tools.call_json("explain", r#"{"word": 3}"#).content.contains("/word: 3 is not of type"));
/// # Ok::<(), toolgate_tools::Error>(())
/// ```
pub trait Tool: Send + Sync {
    /// Its name, description and parameters. Grammar, prompt, listing and check use this one definition.
    fn spec(&self) -> &ToolSpec;

    /// The effect of a call.
    fn effect(&self) -> Effect;

    /// Whether a person is asked before each call (the approval of an agent).
    fn needs_approval(&self) -> bool {
        false
    }

    /// Whether a person is asked before this call, where the arguments decide.
    fn needs_approval_of(&self, call: &ToolCall) -> bool {
        let _ = call;
        self.needs_approval()
    }

    /// Whether nobody can undo a call, since nobody knows what it changes.
    fn defies_undo(&self) -> bool {
        false
    }

    /// The owner of the tool, such as `MCP server files`, for the person who is asked. Empty for the program's own tools. An
    /// answer that is remembered counts for no tool of another origin.
    fn origin(&self) -> String {
        String::new()
    }

    /// Prepares a call, if the tool knows beforehand what it will change. This changes nothing. The registry runs the prepared
    /// call in place of [`call`](Self::call).
    ///
    /// # Errors
    /// The call's result, if the tool knows beforehand that the call fails.
    fn prepare(&self, args: &Args) -> Result<Option<Box<dyn PreparedCall>>, Box<ToolResult>> {
        let _ = args;
        Ok(None)
    }

    /// What the state at hand leaves of it before a call is written. Whatever `said` holds should stay among it.
    fn narrow(&self, said: &Said) -> Narrowed {
        let _ = said;
        Narrowed::default()
    }

    /// The reason not to make a call whose arguments fit the schema, given the conversation; none for a call that may be made.
    fn objection(&self, args: &Args, said: &Said) -> Option<String> {
        let _ = (args, said);
        None
    }

    /// Runs a call with arguments that fit the schema.
    fn call(&self, args: &Args) -> ToolResult;

    /// [`call`](Self::call) for a tool that can take long and can be ended: it ends early once `cancel` is set.
    fn call_until(&self, args: &Args, cancel: &Cancel) -> ToolResult {
        let _ = cancel;
        self.call(args)
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
