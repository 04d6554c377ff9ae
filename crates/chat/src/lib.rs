//! Conversations become prompts and turn grammars, and a model's text becomes a turn.
//!
//! ```text
//! Rust type ── ToolSpec::of ─▶ ToolSpec ─┬─ ToolFormat::turn ─▶ TurnGrammar ─▶ (decoding) ─▶ text
//! Transcript ───────────────────────────┴─ Dialogue::prompt ─▶ Prompt              │
//! Transcript ◀── push ── ParsedTurn ◀────────────────────────── ToolFormat::parse ─┘
//! ```
//!
//! It knows messages, chat templates and the forms tool calls take; no llama.cpp, and nothing that runs a call.

mod dialogue;
mod error;
mod event;
pub mod fallback;
pub mod format;
mod guard;
mod json;
pub mod model;
mod offered;
mod parameters;
mod pieces;
mod primer;
mod prompt;
mod spec;
pub mod template;

pub use dialogue::{Dialogue, Opened, Prompt, PromptOptions};
pub use error::{Error, Kind, Place};
pub use event::Event;
pub use format::{Derived, ToolFormat, TurnGrammar, TurnRequest};
pub use model::{
    Defect, DefectKind, Message, ParsedTurn, ToolCall, ToolChoice, ToolName, ToolReply, Transcript,
};
pub use primer::Primer;
pub use prompt::{Style, SystemPrompt};
pub use spec::{Example, ToolSpec};
pub use template::{Template, TemplateTokens};
