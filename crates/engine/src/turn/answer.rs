//! What an answer may be. Of those that are values of a JSON Schema: what the model is told of it.

use serde_json::Value;
use toolgate_chat::{Message, Transcript, shortened};
use toolgate_infer::Backend;

use crate::turn::making::Making;

/// What an answer is.
///
/// ```
/// use toolgate_engine::{AnswerForm, Cancel, Engine, TurnRequest};
/// # use std::sync::Arc;
/// # use toolgate_engine::{LocalEngine, Options, Sampling};
/// # use toolgate_chat::{Message, Transcript};
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).on("weather", "{\"rain\": true}");
/// # let engine = LocalEngine::scripted(model, Options::default())?;
/// # let transcript = Transcript::new().with(Message::User("How is the weather in Oslo?".into()));
/// # let sampling = Sampling::default();
///
/// let schema = serde_json::json!({
///     "type": "object", "properties": {"rain": {"type": "boolean"}}, "required": ["rain"],
///     "additionalProperties": false
/// });
/// let answer = AnswerForm::Json(&schema);
/// let request = TurnRequest::new(&transcript, &[], &sampling).answer(answer);
/// let turn = engine.turn(&request, &Cancel::default(), &mut |_| {})?;
/// assert_eq!(turn.parsed.content.as_deref(), Some(r#"{"rain": true}"#));
/// # Ok::<(), toolgate_engine::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum AnswerForm<'a> {
    /// Text that holds no call.
    #[default]
    Text,
    /// A value of this JSON Schema, under its grammar. Keys that the schema neither declares nor speaks of are not
    /// written. What a grammar cannot hold (see [`Contract::checked`](toolgate_grammar::Contract::checked)) is
    /// [`TurnRequest::answer_check`](crate::TurnRequest::answer_check)'s to say.
    Json(&'a Value),
    /// A text of this grammar, in GBNF.
    Grammar(&'a str),
}

impl<B: Backend + Send> Making<'_, B> {
    /// A view of the conversation whose last words are the form of the answer, where that is JSON.
    pub(crate) fn told_form(&self, view: Transcript) -> Transcript {
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
