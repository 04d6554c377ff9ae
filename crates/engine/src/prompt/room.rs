//! What a conversation has room for, what memory that takes, and what is said of a prompt that is longer.

use std::num::NonZeroUsize;

use toolgate_infer::{Backend, Overflow};

use crate::{Error, Kind};

/// The contexts of an engine's conversations.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_engine::{Engine, LocalEngine, Options, Room};
/// use toolgate_infer::{Footprint, Vocabulary, scripted::Scripted};
///
/// let footprint = Footprint { token_bytes: Some(24 * 1024), trained: Some(32_768) };
/// let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).context(8_192).taking(footprint);
/// let room = LocalEngine::scripted(model, Options::default())?.room().unwrap_or_default();
/// assert_eq!((room.tokens, room.slots.get(), room.memory(room.tokens)), (8_192, 1, Some(192 << 20)));
/// // For a prompt of 18,000 tokens and an answer.
/// assert_eq!(room.that_holds(18_000), Some(19_456));
/// assert_eq!(room.that_holds(40_000), None, "the model was not trained for it");
/// assert_eq!(Room::in_words(192 << 20), "192 MiB");
/// # Ok::<(), toolgate_engine::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Room {
    /// Tokens that each conversation holds.
    pub tokens: usize,
    /// Conversations held at the same time.
    pub slots: NonZeroUsize,
    /// Bytes of keys and values that a token takes in one conversation.
    pub token_bytes: Option<u64>,
    /// Tokens of context that the model was trained with.
    pub trained: Option<usize>,
}

toolgate_chat::setters! { Room {
    tokens: usize,
    slots: NonZeroUsize,
    token_bytes: Option<u64>,
    trained: Option<usize>,
} }

impl Default for Room {
    fn default() -> Self {
        Self { tokens: 0, slots: NonZeroUsize::MIN, token_bytes: None, trained: None }
    }
}

/// Tokens that a context is proposed to have behind a prompt: those that are kept free, and an answer.
const BEHIND: usize = 1_024;
/// What a proposed length is a multiple of.
const STEP: usize = 1_024;

impl Room {
    pub(crate) fn of(backend: &impl Backend, slots: usize) -> Self {
        let footprint = backend.footprint();
        Self {
            tokens: backend.context_len(),
            slots: NonZeroUsize::new(slots).unwrap_or(NonZeroUsize::MIN),
            token_bytes: footprint.token_bytes,
            trained: footprint.trained,
        }
    }

    /// Bytes of keys and values that contexts of so many tokens take in all slots together.
    pub fn memory(&self, tokens: usize) -> Option<u64> {
        let slots = self.slots.get() as u64;
        self.token_bytes?.checked_mul(tokens as u64)?.checked_mul(slots)
    }

    /// The length of a context that holds a prompt of so many tokens and an answer; `None` where the model was trained for fewer.
    pub fn that_holds(&self, prompt: usize) -> Option<usize> {
        let wanted = prompt.saturating_add(BEHIND).checked_next_multiple_of(STEP)?;
        match self.trained {
            // An answer may be shorter than what is proposed for it.
            Some(trained) if wanted > trained => {
                (prompt.saturating_add(BEHIND / 2) <= trained).then_some(trained)
            }
            _ => Some(wanted),
        }
    }

    /// Bytes in words.
    pub fn in_words(bytes: u64) -> String {
        const MIB: u64 = 1 << 20;
        match bytes {
            0..MIB => format!("{} KiB", bytes.div_ceil(1 << 10)),
            MIB..1_073_741_824 => format!("{} MiB", bytes.div_ceil(MIB)),
            _ => format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64),
        }
    }

    /// The option that makes contexts of so many tokens, and what they take.
    #[doc(hidden)]
    pub fn option(&self, tokens: usize) -> String {
        let takes = self.memory(tokens).map(|bytes| {
            let where_to =
                if self.slots.get() > 1 { format!(" in {} slots", self.slots) } else { String::new() };
            format!(" (keys and values then take {}{where_to})", Self::in_words(bytes))
        });
        format!("--context {tokens}{}", takes.unwrap_or_default())
    }

    /// The same error, and for a prompt that does not fit, what would take it.
    pub(crate) fn explained(&self, error: Error) -> Error {
        match error.overflow() {
            Some(overflow) => Error::new(Kind::Overflow, self.too_long(overflow)),
            None => error,
        }
    }

    fn too_long(&self, Overflow { prompt, reserve, context }: Overflow) -> String {
        let most = context.saturating_sub(reserve);
        let way = match (self.that_holds(prompt), self.trained) {
            (None, Some(trained)) => format!(
                "the model was trained for {trained} tokens, which a longer context does not change: shorten the prompt, or \
                 take a model that was trained for more"
            ),
            (None, None) => "shorten the prompt".to_owned(),
            (Some(tokens), _) => {
                format!("load the model with {}, or shorten the prompt", self.option(tokens))
            }
        };
        // The first words are those by which clients of servers know to shorten a conversation.
        format!(
            "prompt is too long: {prompt} tokens > {most} maximum (a context of {context} tokens, {reserve} of them kept free for \
             the answer): {way}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(trained: usize) -> Room {
        let slots = NonZeroUsize::MIN.saturating_add(1);
        Room { tokens: 8_192, slots, token_bytes: Some(24 << 10), trained: Some(trained) }
    }

    fn said(room: Room, prompt: usize) -> String {
        room.too_long(Overflow { prompt, reserve: 256, context: room.tokens })
    }

    #[test]
    fn a_prompt_that_is_too_long_is_told_the_context_that_takes_it_and_its_memory() {
        let text = said(room(32_768), 18_000);
        let front = "prompt is too long: 18000 tokens > 7936 maximum (a context of 8192 tokens,";
        assert!(text.starts_with(front), "{text}");
        assert!(text.contains("--context 19456 (keys and values then take 912 MiB in 2 slots)"), "{text}");
        let nothing_known = Room { tokens: 8_192, ..Room::default() };
        assert!(
            said(nothing_known, 9_000)
                .ends_with("load the model with --context 10240, or shorten the prompt")
        );
    }

    #[test]
    fn no_context_is_proposed_that_the_model_was_not_trained_for() {
        let text = said(room(8_192), 18_000);
        assert!(text.contains("trained for 8192 tokens") && !text.contains("--context"), "{text}");
        assert_eq!(room(18_600).that_holds(18_000), Some(18_600), "as much as it was trained for");
        assert_eq!(room(18_500).that_holds(18_000), None, "control: no room for an answer");
    }

    #[test]
    fn memory_is_told_in_the_unit_that_fits() {
        assert_eq!(Room::in_words(512), "1 KiB");
        assert_eq!(Room::in_words(480 << 20), "480 MiB");
        assert_eq!(Room::in_words(1_932_735_283), "1.8 GiB");
        assert_eq!(Room { token_bytes: Some(u64::MAX), ..room(1) }.memory(2), None, "more than there is");
    }
}
