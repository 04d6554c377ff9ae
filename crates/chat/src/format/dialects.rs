//! The markup of tool calls that models are known to fall into, whatever they were asked to write.
//!
//! Data alone: the answer grammars exclude [`MARKERS`], the call decision counts [`OPENINGS`], prompts disarm [`TAGS`].

/// What a call may open with. Longer texts stand for the tokens that begin them, so a lone fence counts too.
pub(crate) const OPENINGS: &[&str] = &[
    "<tool_call>",
    "<tool_calls>",
    "<tools>",
    "<tool>",
    "<function_call>",
    "<function=",
    "<response>",
    "<|tool_call|>",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "[{\"name\"",
    "{\"name\"",
    "{\n",
    "{ \"",
    "```json\n{",
    "```tool_call\n",
    "```tool\n",
    "```xml\n<",
    "```\n{",
];

/// What no answer may hold: the tags, with attributes (`<tool_call name="…"/>`) or without, and the members that make JSON a call.
pub(crate) const MARKERS: &[&str] = &[
    "<tool_call",
    "</tool_call",
    "<tool_response",
    "</tool_response",
    "<tools>",
    "<tools ",
    "<function_call",
    "<function=",
    "<function name",
    "<invoke name",
    "<|tool_call|>",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "\"arguments\":",
    "\"arguments\" :",
    "\"parameters\":",
    "\"parameters\" :",
];

/// Tags a template or a parser acts on, so that a message's content must not be taken for them.
pub(crate) const TAGS: &[&str] = &[
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<tools>",
    "</tools>",
    "<think>",
    "</think>",
];
