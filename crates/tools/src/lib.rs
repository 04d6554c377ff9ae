//! Tools: what a call runs. Knows messages and the sandbox; no model and no grammar.
//!
//! Invariant: a tool never sees arguments that its schema does not admit ([`Args`] is made only by
//! [`Registry::call`]), and whatever goes wrong inside a tool becomes a [`ToolResult`] the model can read.

mod args;
mod canned;
mod check;
mod command;
#[cfg(feature = "memory")]
#[doc(hidden)]
pub mod database;
mod error;
mod files;
mod lines;
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
pub use lines::LineServer;
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
pub use wasm::ComponentTool;
#[cfg(feature = "wasm")]
#[doc(hidden)]
pub use wasm::{ended_badly, not_called, shown};

pub use toolgate_chat::Effect;
use toolgate_chat::{ToolCall, ToolSpec};
pub use toolgate_infer::{Cancel, Cancelled, OnCancel};

/// Something a model can call.
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
/// // What does not fit the schema never reaches it.
/// assert!(tools.call_json("explain", r#"{"word": 3}"#).content.contains("/word: 3 is not of type"));
/// # Ok::<(), toolgate_tools::Error>(())
/// ```
pub trait Tool: Send + Sync {
    /// Its name, description and parameters: the one definition that feeds grammar, prompt, listing and check.
    fn spec(&self) -> &ToolSpec;

    /// What a call does.
    fn effect(&self) -> Effect;

    /// Whether somebody is to be asked before it is called (the approval of an agent).
    fn needs_approval(&self) -> bool {
        false
    }

    /// Whether somebody is to be asked before this very call, where the arguments decide.
    fn needs_approval_of(&self, call: &ToolCall) -> bool {
        let _ = call;
        self.needs_approval()
    }

    /// Whether what a call changes cannot be taken back, because nobody knows what it is.
    fn defies_undo(&self) -> bool {
        false
    }

    /// Whose tool it is, for the person who is asked about it: nothing for the program's own, else such as `MCP server files`.
    /// An answer that is remembered counts for no tool of another origin.
    fn origin(&self) -> String {
        String::new()
    }

    /// Makes a call ready, where the tool can tell beforehand what it will change; nothing is changed. What comes out is run
    /// in place of [`call`](Self::call).
    ///
    /// # Errors
    /// The call's result, where the tool knows beforehand that it fails.
    fn prepare(&self, args: &Args) -> Result<Option<Box<dyn PreparedCall>>, Box<ToolResult>> {
        let _ = args;
        Ok(None)
    }

    /// What the state at hand leaves of it before a call is written. Whatever `said` holds should stay among it.
    fn narrow(&self, said: &Said) -> Narrowed {
        let _ = said;
        Narrowed::default()
    }

    /// Why a call whose arguments fit the schema is not made, after what was said; nothing where it may be.
    fn objection(&self, args: &Args, said: &Said) -> Option<String> {
        let _ = (args, said);
        None
    }

    /// Runs it on arguments that fit its schema.
    fn call(&self, args: &Args) -> ToolResult;

    /// [`call`](Self::call), ended early once `cancel` is set, by a tool that can take long and can be ended.
    fn call_until(&self, args: &Args, cancel: &Cancel) -> ToolResult {
        let _ = cancel;
        self.call(args)
    }

    /// The same for callers that are async ([`Registry::call_async`]): a tool that awaits does it here. Its
    /// [`call`](Self::call) then waits for it, in the thread of a caller that is not. The default runs the plain one,
    /// which holds the thread: callers poll it where they may wait.
    ///
    /// ```
    /// use pollster::block_on;
    /// use toolgate_chat::{ToolCall, ToolSpec};
    /// use toolgate_tools::{Args, Calling, Cancel, Effect, Registry, Tool, ToolResult, Unasked};
    ///
    /// /// Asks elsewhere what the time is.
    /// struct Clock(ToolSpec);
    ///
    /// async fn ask() -> String {
    ///     "noon".to_owned()
    /// }
    ///
    /// impl Tool for Clock {
    ///     fn spec(&self) -> &ToolSpec {
    ///         &self.0
    ///     }
    ///
    ///     fn effect(&self) -> Effect {
    ///         Effect::Reads
    ///     }
    ///
    ///     fn call(&self, args: &Args) -> ToolResult {
    ///         block_on(self.call_async(args, &Cancel::default()))
    ///     }
    ///
    ///     fn call_async<'a>(&'a self, _: &'a Args, _: &'a Cancel) -> Calling<'a> {
    ///         Box::pin(async { ToolResult::ok(ask().await) })
    ///     }
    /// }
    ///
    /// let mut tools = Registry::new();
    /// let parameters = serde_json::json!({"type": "object", "properties": {}});
    /// tools.add(Clock(ToolSpec::new("time", "The time.", parameters)?))?;
    /// let (call, cancel) = (ToolCall::new("time", Default::default()), Cancel::default());
    /// let result = block_on(tools.call_async(&call, Unasked::Deny, &cancel));
    /// assert_eq!(result.content, "noon");
    /// assert_eq!(tools.call(&call).content, "noon");
    /// // Or made ready first, so that a person can be shown it.
    /// assert!(tools.prepare(&call).is_ok_and(|ready| block_on(ready.run_async(&cancel)).content == "noon"));
    /// # Ok::<(), toolgate_tools::Error>(())
    /// ```
    fn call_async<'a>(&'a self, args: &'a Args, cancel: &'a Cancel) -> Calling<'a> {
        Box::pin(async move { self.call_until(args, cancel) })
    }
}

/// A call that is under way, of [`Tool::call_async`].
pub type Calling<'a> = std::pin::Pin<Box<dyn Future<Output = ToolResult> + Send + 'a>>;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
