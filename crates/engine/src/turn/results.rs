//! What calls gave back, quoted, as the answer of a model that is too small to retell it.
//!
//! Invariant: a reader can tell what was quoted from what the model says, and nothing is quoted where nobody asked for it
//! ([`TurnRequest::quotes`]).
//!
//! For the packages of this workspace alone: no part of the API.

use toolgate_chat::{ToolReply, Transcript};

use crate::profile::options::AnswerView;
use crate::{AnswerForm, TurnRequest};

/// The answer of a model that gives the results in place of one; none where it is to write one.
pub(crate) fn instead(view: AnswerView, request: &TurnRequest<'_>) -> Option<String> {
    // Results are no JSON, and end where they end.
    let takes_results =
        request.quotes && request.answer == AnswerForm::Text && request.sampling.stop.is_empty();
    let is_it = view == AnswerView::Results && takes_results;
    is_it.then(|| results(request.transcript)).flatten()
}

/// A text as a quotation of what a tool gave back. It has no word of any language, since an answer may be in any.
pub fn quoted(tool: &str, text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("> {line}").trim_end().to_owned()).collect();
    format!("{tool}:\n{}", lines.join("\n"))
}

/// What the calls since the user last spoke gave back: of those that did not fail, else of the last one. None without any.
fn results(transcript: &Transcript) -> Option<String> {
    let calls = transcript.calls_of_run();
    let replies =
        || calls.iter().filter_map(|(_, reply)| *reply).filter(|reply| !reply.content.trim().is_empty());
    let told = |reply: &ToolReply| quoted(&reply.name, reply.content.trim());
    let good: Vec<String> = replies().filter(|reply| !reply.is_error).map(told).collect();
    match good.is_empty() {
        true => replies().next_back().map(told),
        false => Some(good.join("\n\n")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use toolgate_chat::{Message, ToolCall};

    use super::*;
    use crate::Sampling;

    #[test]
    fn results_are_the_answer_where_quotes_are_taken() {
        let calls = [ToolCall::new("list", Map::new()), ToolCall::new("read", Map::new())];
        let [listed, read] = &calls;
        let failed = ToolReply { is_error: true, ..ToolReply::ok(listed, "no such folder") };
        let transcript = Transcript::new()
            .with(Message::User("What is there?".to_owned()))
            .with(Message::calls(calls.clone()))
            .with(Message::Tool(vec![failed, ToolReply::ok(read, "figs\n\nplums")]));
        let sampling = Sampling::default();
        let request = TurnRequest { quotes: true, ..TurnRequest::new(&transcript, &[], &sampling) };
        let quoted = Some("read:\n> figs\n>\n> plums".to_owned());
        assert_eq!(instead(AnswerView::Results, &request), quoted, "what failed is left out");
        assert_eq!(instead(AnswerView::Quoted, &request), None);
        let plain = TurnRequest { quotes: false, ..request };
        assert_eq!(instead(AnswerView::Results, &plain), None, "nobody asked for it");
    }
}
