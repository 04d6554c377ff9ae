//! The marks of a format among the tokens of a model: which of them are tokens, whatever the file says of their types.
//!
//! Invariant: a mark is a token of the model in prompts and in grammars alike, or in neither.

use std::sync::Arc;

use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token_type::LlamaTokenAttr;
use toolgate_grammar::marks::{KnownMark, MarkTokens, Piece};
use toolgate_grammar::{TokenId, TokenKind, Vocabulary};
use toolgate_infer::Specials;

use crate::Model;

/// The marks of a model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    /// Tokens that marks are written with.
    tokens: MarkTokens,
    /// Those that the tokenizer does not know as special: texts are cut at their names.
    cut: MarkTokens,
}

impl Marks {
    /// The special tokens of a vocabulary.
    pub(crate) fn of(vocabulary: &Vocabulary) -> Self {
        Self { tokens: MarkTokens::of(vocabulary), cut: MarkTokens::default() }
    }
}

impl Model {
    /// The same model with the marks of a format as special tokens: those tokens that the file calls user-defined and whose
    /// name stands in one of `texts`, and what `known` says. Text then never becomes such a token, and grammars name it.
    ///
    /// ```no_run
    /// use toolgate_llama::{Load, Model, ModelOptions};
    ///
    /// let vocabulary_only = ModelOptions { load: Load::Vocabulary, ..ModelOptions::default() };
    /// let model = Model::load("qwen3.gguf", vocabulary_only)?.marking(["<tool_call>\n"], &[]);
    /// assert!(model.mark_tokens().resolve("<tool_call>\n").has_tokens());
    /// # Ok::<(), toolgate_llama::Error>(())
    /// ```
    #[must_use]
    pub fn marking<'t>(&self, texts: impl IntoIterator<Item = &'t str>, known: &[KnownMark]) -> Self {
        let texts: Vec<&str> = texts.into_iter().collect();
        let vocabulary = self.vocabulary();
        let is_said = |name: &str| known.iter().any(|mark| mark.text == name);
        let is_mark = |token: &TokenId| {
            let Ok(name) = std::str::from_utf8(vocabulary.bytes(*token)) else { return false };
            is_markup(name) && !is_said(name) && texts.iter().any(|text| text.contains(name))
        };
        let ids = 0..u32::try_from(vocabulary.len()).unwrap_or(u32::MAX);
        let defined = ids.filter(|token| self.is_user_defined(*token)).filter(is_mark);
        let given = known.iter().filter_map(|mark| mark.token);
        let marked = vocabulary.marking(defined.chain(given.clone()));
        let tokens = MarkTokens::of(&marked);
        let kept = tokens.iter().filter(|(name, token)| {
            let said = known.iter().find(|mark| mark.text == *name);
            said.is_none_or(|mark| mark.token == Some(*token))
        });
        let tokens = MarkTokens::new(kept.map(|(name, token)| (name.to_owned(), token)));
        let ordinary = known.iter().filter_map(|mark| Some((mark.text.clone(), mark.token?)));
        let cut = MarkTokens::new(ordinary.filter(|(_, token)| !self.is_parsed(*token)));
        Self { vocabulary: Arc::new(marked), marks: Arc::new(Marks { tokens, cut }), ..self.clone() }
    }

    /// The tokens that marks are written with.
    pub fn mark_tokens(&self) -> &MarkTokens {
        &self.marks.tokens
    }

    /// A text as tokens of its own and, where special tokens are read, the marks that the tokenizer does not know as such.
    pub(crate) fn cut_at_marks(
        &self,
        text: &str,
        specials: Specials,
        tokenize: impl Fn(&str) -> Vec<TokenId>,
    ) -> Vec<TokenId> {
        if specials == Specials::Plain || self.marks.cut.is_empty() {
            return tokenize(text);
        }
        let tokens = |piece: &Piece| match piece {
            Piece::Text(text) => tokenize(text),
            Piece::Token { id, .. } => vec![*id],
        };
        self.marks.cut.resolve(text).pieces().iter().flat_map(tokens).collect()
    }

    fn is_user_defined(&self, token: TokenId) -> bool {
        self.vocabulary().kind(token) == TokenKind::Text
            && self.has_attribute(token, LlamaTokenAttr::UserDefined)
    }

    /// Whether the tokenizer finds the token's name in texts.
    fn is_parsed(&self, token: TokenId) -> bool {
        self.has_attribute(token, LlamaTokenAttr::UserDefined)
            || self.has_attribute(token, LlamaTokenAttr::Control)
    }

    fn has_attribute(&self, token: TokenId, attribute: LlamaTokenAttr) -> bool {
        i32::try_from(token)
            .is_ok_and(|token| self.inner().model.vocab().attr(LlamaToken(token)).contains(attribute))
    }
}

/// Blanks and words are added tokens of some vocabularies, too, and no marks.
fn is_markup(name: &str) -> bool {
    name.chars().any(|c| !c.is_alphanumeric() && !c.is_whitespace() && c != '_')
}
