//! Answers that are values of a JSON Schema: what the model is told of it, and which beginnings still mean a call.

use serde_json::Value;
use toolgate_chat::{Message, Transcript, shortened};
use toolgate_grammar::Vocabulary;
use toolgate_infer::{Backend, Openings};

use super::AnswerForm;
use super::local::Making;

/// The openings of calls that no JSON value begins with. Where a family opens its calls in no other way, all of them: a
/// brace then still means a call.
pub(super) fn openings_beside_json(vocabulary: &Vocabulary, openings: &[&str]) -> Openings {
    let is_json = |opening: &&&str| opening.trim_start().starts_with(['{', '[', '"', '`']);
    let others: Vec<&str> = openings.iter().filter(|opening| !is_json(opening)).copied().collect();
    match others.as_slice() {
        [] => Openings::new(vocabulary, openings),
        others => Openings::new(vocabulary, others),
    }
}

impl<B: Backend + Send> Making<'_, B> {
    /// A view of the conversation whose last words are the form of the answer, where that is JSON.
    pub(super) fn told_form(&self, view: Transcript) -> Transcript {
        let AnswerForm::Json(schema) = self.request.answer else { return view };
        let mut messages: Vec<Message> = view.iter().cloned().collect();
        let form = instruction(schema);
        match messages.last_mut() {
            Some(Message::User(text)) => {
                text.push_str("\n\n");
                text.push_str(&form);
            }
            _ => messages.push(Message::User(form)),
        }
        messages.into_iter().collect()
    }
}

fn instruction(schema: &Value) -> String {
    let says_more = schema.as_object().is_some_and(|keywords| keywords.keys().any(|key| key != "type"));
    match says_more {
        true => format!("Answer with JSON alone, of this JSON Schema: {}", shortened(schema)),
        false => "Answer with JSON alone.".to_owned(),
    }
}
