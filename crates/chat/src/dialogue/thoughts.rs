//! Thoughts in a dialogue: where an earlier one is put, and whether a prompt ends within a new one.
//!
//! Invariant: a thought stands where the template has a place for it, or nowhere.

use serde_json::{Map, Value, json};

use super::Dialogue;
use crate::error::Error;
use crate::format::REASONING;
use crate::reasoning::{Field, Marks};
use crate::template::{Ending, Render};

/// What a user says in a prompt that is only looked at.
const ANYTHING: &str = "1";

impl Dialogue {
    /// The marks of the thought within which a prompt for a turn ends, with these variables of the template; none where it ends
    /// within none.
    ///
    /// # Errors
    /// [`Kind::Template`](crate::Kind::Template) if the template fails with these values.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolgate_chat::{Dialogue, Template, TemplateTokens};
    /// let source = "{% for m in messages %}{{ m.content }}{% endfor %}{% if think %}<think>{% endif %}";
    /// let dialogue = Dialogue::derived(Template::new(source, TemplateTokens::default())?);
    /// assert_eq!(dialogue.opened_thought(&json!({"think": true}))?.map(|marks| marks.close), Some("</think>".into()));
    /// assert_eq!(dialogue.opened_thought(&json!(null))?, None);
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn opened_thought(&self, extra: &Value) -> Result<Option<Marks>, Error> {
        let messages = [json!({"role": "user", "content": ANYTHING})];
        let rendered = self.template.render(&Render {
            messages: &messages,
            tools: &[],
            ending: Ending::Generation,
            now: None,
            extra: extra.clone(),
        })?;
        Ok(self.thought_at_end(&rendered))
    }

    /// The marks of the thought within which a text of the template ends.
    pub(super) fn thought_at_end(&self, rendered: &str) -> Option<Marks> {
        let end = rendered.trim_end();
        let own = self.derived.format.thoughts().map(|(open, close)| (open.text(), close.text()));
        let own = own.iter().map(|(open, close)| (open.as_str(), close.as_str()));
        let mut known = own.chain(REASONING.iter().copied());
        let (open, close) = known.find(|(open, _)| !open.trim().is_empty() && end.ends_with(open.trim()))?;
        Some(Marks { open: open.trim().to_owned(), close: close.to_owned() })
    }

    /// Puts the thought of an earlier turn into its message, in the field that the template writes it from; nowhere where it has none.
    pub(super) fn add_thought(&self, thought: &str, message: &mut Map<String, Value>) {
        match self.reasoning_support().fields.first() {
            Some(Field::Chunk) => {
                let text = message.get("content").cloned().filter(|text| text != "");
                let thought = json!({"type": "thinking", "thinking": thought});
                let text = text.map(|text| json!({"type": "text", "text": text}));
                message.insert("content".to_owned(), std::iter::once(thought).chain(text).collect());
            }
            Some(field) => {
                message.insert(field.name().to_owned(), thought.into());
            }
            None => {}
        }
    }
}
