//! Tools, and the registry that runs calls of them. Knows messages and the sandbox; no model and no grammar.
//!
//! Invariant: a tool never sees arguments that its schema does not admit ([`Args`] is made only by
//! [`Registry::call`]). A failure inside a tool becomes a [`ToolResult`] that the model can read.

mod args;
mod canned;
mod check;
mod choices;
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
mod part;
mod prepared;
mod preview;
mod registry;
mod result;
mod role;
mod texts;
mod typed;
#[cfg(feature = "memory")]
pub mod undo;
#[cfg(feature = "wasm")]
mod wasm;

pub use args::Args;
pub use canned::CannedTool;
pub use check::{Check, Violation};
pub use choices::{CHOICES, Choices, held_to};
pub use command::{CommandTool, RUN_COMMAND};
pub use error::{Error, Kind};
pub use files::{FileTool, file_tools};
pub use lines::LineServer;
#[cfg(feature = "memory")]
pub use memory_tools::{MEMORY_TOOLS, memory_tools};
pub use part::{Body, Contents, Part};
pub use prepared::{Pending, PreparedCall};
pub use preview::Preview;
#[doc(hidden)]
pub use preview::spelled;
pub use registry::{Registry, Source, Told, Unasked, Witness};
pub use result::{Finding, Status, ToolResult};
#[doc(hidden)]
pub use result::{not_called, shown};
pub use role::{Objection, Offer, PathArgument, PathKind, Places, Rewrite, Role};
pub use typed::{TypedTool, typed};
#[cfg(feature = "wasm")]
pub use wasm::ComponentTool;
#[cfg(feature = "wasm")]
#[doc(hidden)]
pub use wasm::ended_badly;

pub use toolgate_chat::Effect;
use toolgate_chat::{ToolCall, ToolSpec};
pub use toolgate_infer::{Cancel, Cancelled, OnCancel};

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

    /// The values that the present state leaves to its text arguments, by name, before a call is written.
    /// Other arguments may have any value.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolgate_tools::{CHOICES, Choices, Registry};
    /// # use toolgate_tools::{Args, Effect, Tool, ToolResult};
    /// # use toolgate_chat::ToolSpec;
    /// # struct Book(ToolSpec, Vec<String>);
    /// # impl Book { fn free(&self) -> Vec<String> { self.1.clone() } }
    /// # impl Tool for Book {
    /// #     fn spec(&self) -> &ToolSpec { &self.0 }
    /// #     fn effect(&self) -> Effect { Effect::Changes }
    /// #     fn call(&self, _: &Args) -> ToolResult { ToolResult::ok("booked") }
    ///
    /// // Of a tool that books rooms: only one that is free can be written.
    /// fn choices(&self) -> Vec<(&'static str, Choices)> {
    ///     vec![("room", Choices::Among { texts: self.free(), beginnings: Vec::new() })]
    /// }
    /// # }
    /// # let schema = json!({"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]});
    /// # let mut tools = Registry::new();
    /// # tools.add(Book(ToolSpec::new("book", "Book a room.", schema)?, vec!["blue".to_owned()]))?;
    ///
    /// let offer = tools.offers().remove(0);
    /// assert_eq!(offer.choices[0].1.keywords().unwrap_or_default()[CHOICES]["texts"], json!(["blue"]));
    /// # Ok::<(), toolgate_tools::Error>(())
    /// ```
    fn choices(&self) -> Vec<(&'static str, Choices)> {
        Vec::new()
    }

    /// The role of the tool.
    fn role(&self) -> Role {
        Role::Other
    }

    /// The reason against a call whose arguments fit the schema; `None` if there is none. The caller decides.
    fn objection(&self, args: &Args) -> Option<Objection> {
        let _ = args;
        None
    }

    /// How a call whose arguments fit the schema is to be written again; `None` if it is good as it is. The caller decides.
    fn rewrite(&self, args: &Args) -> Option<Rewrite> {
        let _ = args;
        None
    }

    /// Runs a call with arguments that fit the schema.
    fn call(&self, args: &Args) -> ToolResult;

    /// [`call`](Self::call) for a tool that can take long and can be ended: it ends early once `cancel` is set.
    fn call_until(&self, args: &Args, cancel: &Cancel) -> ToolResult {
        let _ = cancel;
        self.call(args)
    }

    /// [`call_until`](Self::call_until) for async callers ([`Registry::call_async`]). A tool that awaits does
    /// it here. Its [`call`](Self::call) then waits for it in the thread of a caller that is not async. The
    /// default runs the plain call, which holds the thread. So callers poll it where they may wait.
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
