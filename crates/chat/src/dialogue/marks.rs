//! The marks of a dialogue: where they stand, and what they are once a vocabulary is known.
//!
//! Invariant: a dialogue that is resolved renders the same prompts as before; only what is made of its family differs.

use toolgate_grammar::marks::MarkTokens;

use super::Dialogue;

impl Dialogue {
    /// The texts in which marks stand: those of its family and its template. A token is a mark where its name stands in one.
    ///
    /// ```
    /// use toolgate_chat::{Dialogue, Template, TemplateTokens};
    /// let source = "{% for m in messages %}<|turn|>{{ m.content }}{% endfor %}";
    /// let dialogue = Dialogue::derived(Template::new(source, TemplateTokens::default())?);
    /// for mark in ["<|turn|>", "<tool_call>"] {
    ///     assert!(dialogue.mark_texts().iter().any(|text| text.contains(mark)));
    /// }
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn mark_texts(&self) -> Vec<String> {
        let markers = self.derived.format.markers().into_iter().map(str::to_owned);
        self.derived
            .format
            .texts()
            .into_iter()
            .chain(markers)
            .chain([self.template.source().to_owned()])
            .collect()
    }

    /// The mark with which the model may begin to think, where its template has it and has not written it at the end of a prompt.
    ///
    /// ```
    /// use toolgate_chat::{Dialogue, Template, TemplateTokens};
    /// let opening = |source: &str| -> Result<Option<String>, toolgate_chat::Error> {
    ///     Ok(Dialogue::derived(Template::new(source, TemplateTokens::default())?).thought_opening())
    /// };
    /// let told = "Think in <think>.{% for m in messages %}{{ m.content }}{% endfor %}";
    /// assert_eq!(opening(told)?.as_deref(), Some("<think>"));
    /// let opened = "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<think>{% endif %}";
    /// assert_eq!(opening(opened)?, None);
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn thought_opening(&self) -> Option<String> {
        let open = self.derived.format.thoughts().map(|(open, _)| open.text());
        let is_told = self.derived.opens_reasoning.is_none();
        open.filter(|open| is_told && self.template.source().contains(open.trim()))
    }

    /// The same dialogue in a family whose marks are tokens of a vocabulary.
    ///
    /// ```
    /// use toolgate_chat::{Dialogue, Template, TemplateTokens};
    /// use toolgate_grammar::marks::MarkTokens;
    /// let source = "{% for m in messages %}{{ m.content }}{% endfor %}";
    /// let dialogue = Dialogue::derived(Template::new(source, TemplateTokens::default())?);
    /// let resolved = dialogue.resolved(&MarkTokens::new([("<tool_call>".to_owned(), 7)]));
    /// assert!(resolved.format().mark("<tool_call>\n").tokens().eq([7]));
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    #[must_use]
    pub fn resolved(mut self, tokens: &MarkTokens) -> Self {
        self.derived.format = self.derived.format.resolved(tokens);
        self
    }
}
