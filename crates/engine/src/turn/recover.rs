//! The one place where the fallback parser meets a turn: text without calls, from an engine that nothing constrained.
//!
//! For the packages of this workspace alone: no part of the API.

use toolgate_chat::fallback::{Extraction, extract_typed};
use toolgate_chat::{ParsedTurn, ToolSpec};

/// The turn with the calls and the thoughts that its text turned out to hold, in whatever dialect; `tools` tell types, and
/// which tool a name means.
///
/// What remains of the text is the content from here on, so a turn of calls alone has none.
pub fn recover(mut turn: ParsedTurn, tools: &[ToolSpec]) -> ParsedTurn {
    if !turn.calls.is_empty() {
        return turn;
    }
    let Some(text) = turn.content.as_deref() else { return turn };
    let found: Extraction = extract_typed(text, tools);
    turn.reasoning = turn.reasoning.or(found.reasoning);
    turn.content = found.content;
    if found.calls.is_empty() && found.dropped.is_empty() {
        return turn;
    }
    let repairs: Vec<&str> = found.repairs.iter().map(|repair| repair.kind.as_str()).collect();
    tracing::warn!(
        pattern = ?found.pattern,
        repairs = ?repairs,
        parsed = found.calls.len(),
        dropped = found.dropped.len(),
        "calls were found in a turn that was only text"
    );
    turn.calls = found.calls;
    turn
}
