//! The one place where the fallback parser meets a turn: text without calls, from an engine that nothing constrained.

use toolgate_chat::fallback::{Extraction, extract_typed};
use toolgate_chat::{ParsedTurn, ToolSpec};

/// The turn with the calls that its text turned out to hold, in whatever dialect; `tools` only tell types.
///
/// What remains of the text is the content from here on, so a turn of calls alone has none.
pub(crate) fn recover(mut turn: ParsedTurn, tools: &[ToolSpec]) -> ParsedTurn {
    if !turn.calls.is_empty() {
        return turn;
    }
    let Some(text) = turn.content.as_deref() else { return turn };
    let found: Extraction = extract_typed(text, tools);
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
    turn.content = found.content;
    turn
}
