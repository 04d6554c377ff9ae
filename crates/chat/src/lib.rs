//! Conversations become prompts and turn grammars, and a model's text becomes a turn.
//!
//! ```text
//! Rust type ── ToolSpec::of ─▶ ToolSpec ─┬─ ToolFormat::turn ─▶ TurnGrammar ─▶ (decoding) ─▶ text
//! Transcript ───────────────────────────┴─ Dialogue::prompt ─▶ Prompt              │
//! Transcript ◀── push ── ParsedTurn ◀────────────────────────── ToolFormat::parse ─┘
//! ```
//!
//! It knows messages, chat templates and the forms tool calls take; no llama.cpp, and nothing that runs a call.
//!
//! ```
//! use serde_json::json;
//! use toolgate_chat::{Message, ToolFormat, ToolReply, ToolSpec, Transcript, format::Family};
//! let tools = [ToolSpec::new("now", "What time it is", json!({}))?];
//! let said = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
//! let turn = Family::hermes().parse(said, &tools);
//! let mut transcript = Transcript::new().with(Message::User("What time is it?".to_owned()));
//! let replies = turn.calls.iter().map(|call| ToolReply::ok(call, "noon")).collect();
//! transcript.push(Message::calls(turn.calls));
//! transcript.push(Message::Tool(replies));
//! assert_eq!(transcript.calls_of_run().len(), 1);
//! # Ok::<(), toolgate_chat::Error>(())
//! ```

mod choices;
mod demonstrations;
mod dialogue;
mod error;
mod event;
pub mod fallback;
pub mod format;
mod guard;
mod json;
#[doc(hidden)]
pub mod language;
pub mod model;
#[doc(hidden)]
pub mod names;
#[doc(hidden)]
pub mod notes;
mod offered;
mod parameters;
mod pieces;
mod prompt;
pub mod reasoning;
mod spec;
pub mod template;

pub use choices::read_schema;
pub use demonstrations::Demonstrations;
pub use dialogue::{Dialogue, Opened, Prompt, PromptOptions, RunEnd};
pub use error::{Error, Kind, Place};
pub use event::Event;
pub use format::{Derived, TextPlace, ToolFormat, TurnGrammar, TurnRequest};
pub use model::{
    Defect, DefectKind, Message, ParsedTurn, ToolCall, ToolChoice, ToolName, ToolReply, Transcript,
};
pub use parameters::shortened;
pub use prompt::{Style, SystemPrompt};
pub use reasoning::ReasoningSupport;
pub use spec::{EFFECT, Effect, Example, ToolSpec};
pub use template::{Template, TemplateTokens};
#[doc(hidden)]
pub use toolgate_grammar::setters;
