//! The interface of a model: it takes tokens, gives logits, and has a cache of evaluated tokens that can be shortened.
//!
//! Invariant of a backend: its logits are a function of the evaluated tokens in their order. Batches up to
//! [`Backend::exact_batch_len`] do not change them. Wider batches add floating-point noise; [`Backend::noise`] is its measure.

use std::sync::Arc;

use toolgate_grammar::marks::{Mark, Piece};
use toolgate_grammar::{TokenId, Vocabulary};

use crate::{Error, Kind};

/// Whether the names of control tokens in a text become those tokens.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_infer::{Backend, Specials, Vocabulary, scripted::Scripted};
///
/// let backend = Scripted::new(Arc::new(Vocabulary::bytes_only()));
/// assert_eq!(backend.tokenize("<end>", Specials::Parse)?, [256], "the token of that name");
/// assert_eq!(backend.tokenize("<end>", Specials::Plain)?, b"<end>".map(u32::from), "its letters");
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// They become tokens: for prompts that a chat template rendered.
    Parse,
    /// They stay text: for texts of a user, a tool or a grammar.
    Plain,
}

/// The positions of a batch whose logits are computed.
///
/// ```
/// use toolgate_infer::Rows;
/// let wanted = |rows: Rows| (0..4).filter(|&position| rows.wants(position, 4)).collect::<Vec<_>>();
/// assert_eq!(wanted(Rows::Last), [3]);
/// assert_eq!(wanted(Rows::From(2)), [2, 3]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// None: the inner part of a prompt.
    None,
    /// The last position, as row 0.
    Last,
    /// Every position; row `i` belongs to token `i` of the batch.
    All,
    /// This position of the batch, as row 0, and those behind it. Drafts are verified so.
    From(usize),
}

/// The changes that batches may make in the low bits of logits. Low bits decide between two tokens that are almost equally
/// likely. Quantized models make them large: up to 0.4 for a 0.5 B model.
///
/// ```
/// use toolgate_infer::Numerics;
/// assert_eq!(Numerics::default(), Numerics::Exact);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numerics {
    /// No choice changes: a greedy turn is the same, byte for byte, with and without batches of forced and drafted tokens.
    /// Where wide batches leave a choice closer than [`Backend::noise`], the turn repeats it from narrow ones.
    #[default]
    Exact,
    /// Choices may change: this takes the widest batches and the fastest kernels, and repeats no choice.
    Fast,
}

/// The size of a slot's context, for people who choose its length. Most backends without weights know nothing of it.
///
/// ```
/// use toolgate_infer::Footprint;
/// let footprint = Footprint { token_bytes: Some(24 * 1024), trained: Some(32_768) };
/// assert_eq!(footprint.token_bytes.map(|bytes| 8_192 * bytes >> 20), Some(192), "MiB for 8,192 tokens");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of keys and values for each token of a slot's context, in all of its sequences.
    pub token_bytes: Option<u64>,
    /// Tokens of context that the model was trained with.
    pub trained: Option<usize>,
}

impl Rows {
    /// Whether the logits of a position are wanted, in a batch of `len` tokens.
    pub fn wants(self, position: usize, len: usize) -> bool {
        match self {
            Self::None => false,
            Self::Last => position + 1 == len,
            Self::All => true,
            Self::From(first) => position >= first,
        }
    }
}

/// A model and the tokens it has evaluated.
///
/// A backend may hold several sequences of tokens. All methods are about the current one, unless they name one.
///
/// The trait works as an object. [`Session`](crate::Session) is the safe way to drive a backend.
///
/// A model that finds all tokens equally likely, whatever it has read:
///
/// ```
/// use std::sync::Arc;
/// use toolgate_infer::{Backend, Error, Rows, Session, Specials, TokenId, Vocabulary};
///
/// struct Flat { vocabulary: Arc<Vocabulary>, held: Vec<TokenId>, logits: Vec<f32> }
///
/// impl Backend for Flat {
///     fn vocabulary(&self) -> &Arc<Vocabulary> { &self.vocabulary }
///     fn tokenize(&self, text: &str, _: Specials) -> Result<Vec<TokenId>, Error> {
///         Ok(text.bytes().map(TokenId::from).collect())
///     }
///     fn context_len(&self) -> usize { 1_024 }
///     fn batch_len(&self) -> usize { 64 }
///     fn evaluated(&self) -> usize { self.held.len() }
///     fn truncate(&mut self, len: usize) -> Result<usize, Error> {
///         self.held.truncate(len);
///         Ok(self.held.len())
///     }
///     fn eval(&mut self, tokens: &[TokenId], _: Rows) -> Result<(), Error> {
///         self.held.extend(tokens);
///         Ok(())
///     }
///     fn logits(&self, _: usize) -> Result<&[f32], Error> { Ok(&self.logits) }
/// }
///
/// let vocabulary = Arc::new(Vocabulary::bytes_only());
/// let logits = vec![0.0; vocabulary.len()];
/// let mut session = Session::new(Flat { vocabulary, held: Vec::new(), logits });
/// assert_eq!(session.set_prompt_text("one two")?.evaluated_tokens, 7);
/// assert_eq!(session.set_prompt_text("one ten")?.evaluated_tokens, 2, "\"one t\" is held");
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
pub trait Backend {
    /// Its tokens.
    fn vocabulary(&self) -> &Arc<Vocabulary>;

    /// The model's own tokenization of `text`, without added tokens in front or behind.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend).
    fn tokenize(&self, text: &str, specials: Specials) -> Result<Vec<TokenId>, Error>;

    /// A mark as tokens: its own, and those of the texts between them.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend).
    fn tokenize_mark(&self, mark: &Mark) -> Result<Vec<TokenId>, Error> {
        let mut tokens = Vec::new();
        for piece in mark.pieces() {
            match piece {
                Piece::Text(text) => tokens.extend(self.tokenize(text, Specials::Plain)?),
                Piece::Token { id, .. } => tokens.push(*id),
            }
        }
        Ok(tokens)
    }

    /// The most tokens of a sequence.
    fn context_len(&self) -> usize;

    /// The size of a slot's context.
    fn footprint(&self) -> Footprint {
        Footprint::default()
    }

    /// The most tokens of one [`eval`](Self::eval); at least 1.
    fn batch_len(&self) -> usize;

    /// The most tokens of a batch whose logits have the bits of tokens evaluated one by one. Batches within a turn are no
    /// wider, so they change nothing in it. Forced text of greedy turns is the exception, if [`noise`](Self::noise) is known.
    fn exact_batch_len(&self) -> usize {
        self.batch_len()
    }

    /// The most that the difference of two logits may change if earlier tokens were evaluated in batches wider than
    /// [`exact_batch_len`](Self::exact_batch_len). None where that is not known.
    fn noise(&self) -> Option<f32> {
        None
    }

    /// The cost of each further token of a batch within a turn, as a share of the cost of a single token.
    fn token_cost(&self) -> f64 {
        0.25
    }

    /// The number of tokens in the current sequence.
    fn evaluated(&self) -> usize;

    /// Forgets all but the first `len` tokens, and returns how many it kept. Where the model's memory cannot be cut
    /// ([`cuts_anywhere`](Self::cuts_anywhere)) it goes back to the last [`checkpoint`](Self::checkpoint) in front of `len`, or to none.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend).
    fn truncate(&mut self, len: usize) -> Result<usize, Error>;

    /// Whether [`truncate`](Self::truncate) keeps what it was asked for. Not so with recurrent layers: they keep a summary of the tokens.
    fn cuts_anywhere(&self) -> bool {
        true
    }

    /// The tokens that are left of a sequence where [`truncate`](Self::truncate) cuts it to `len`.
    fn kept(&self, sequence: usize, len: usize) -> usize {
        let _ = sequence;
        len
    }

    /// Keeps what it takes to go back to the tokens held now. Does nothing where the memory can be cut anywhere.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend).
    fn checkpoint(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Evaluates `tokens` in one batch, behind the tokens that it holds.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend). [`evaluated`](Self::evaluated) is right also then.
    fn eval(&mut self, tokens: &[TokenId], rows: Rows) -> Result<(), Error>;

    /// A row of the last [`eval`](Self::eval): a logit for each token of the vocabulary.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend) for a row that the evaluation did not compute.
    fn logits(&self, row: usize) -> Result<&[f32], Error>;

    /// The number of sequences, at least 1. Each has up to [`context_len`](Self::context_len) tokens. Numbers begin at 0, the
    /// first current one.
    fn sequences(&self) -> usize {
        1
    }

    /// Copies the first `len` tokens of the current sequence over another one, and makes that the current one. Returns how
    /// many it kept, as [`truncate`](Self::truncate) does. The logits are gone.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend), at once where there is no such sequence.
    fn fork(&mut self, sequence: usize, len: usize) -> Result<usize, Error> {
        let _ = len;
        Err(no_sequence(sequence))
    }

    /// Makes another sequence the current one. The logits are gone.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend) where there is no such sequence.
    fn switch(&mut self, sequence: usize) -> Result<(), Error> {
        if sequence == 0 { Ok(()) } else { Err(no_sequence(sequence)) }
    }

    /// The conditions of saved states beside the model's file. A state is restored only where this text is the same. None where
    /// states cannot be saved.
    fn state_key(&self) -> Option<String> {
        None
    }

    /// The lengths that the current sequence could be cut to if it were saved and restored now. None is any. So a state stands for all
    /// of its tokens, or for so many. With a sliding window that is all but the last; with recurrent layers it is the last checkpoint.
    fn cuts_saved(&mut self) -> Option<Vec<usize>> {
        None
    }

    /// The state of the current sequence as bytes; none where it cannot be saved at the moment.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend).
    fn save(&mut self) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    /// Restores the current sequence from `state`, the saved state of `tokens`. Returns whether the sequence holds them now; if
    /// not, it is empty. The logits are gone.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend).
    fn restore(&mut self, state: &[u8], tokens: &[TokenId]) -> Result<bool, Error> {
        let _ = (state, tokens);
        self.truncate(0)?;
        Ok(false)
    }

    /// The length of the longest beginning of `prompt` that another slot of the same model holds, in tokens.
    fn lent(&self, prompt: &[TokenId]) -> usize {
        let _ = prompt;
        0
    }

    /// Copies the longest beginning of `prompt` that another slot holds over the current sequence, if it is longer than that.
    /// Returns how many tokens the sequence holds. The logits are gone after a copy.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend).
    fn borrow(&mut self, prompt: &[TokenId]) -> Result<usize, Error> {
        let _ = prompt;
        Ok(self.evaluated())
    }

    /// Marks the first `at` tokens of the sequence as the prompt of a turn. A hint; most backends have no use for it.
    fn begin_turn(&mut self, _at: usize) {}

    /// Marks the end of a turn: nothing is evaluated for a while. A hint, as above.
    fn end_turn(&mut self) {}
}

fn no_sequence(sequence: usize) -> Error {
    Error::new(Kind::Backend, format!("the backend has no sequence {sequence}"))
}

macro_rules! forward {
    ($($owner:ty),*) => {$(
        impl<B: Backend + ?Sized> Backend for $owner {
            fn vocabulary(&self) -> &Arc<Vocabulary> {
                (**self).vocabulary()
            }
            fn tokenize(&self, text: &str, specials: Specials) -> Result<Vec<TokenId>, Error> {
                (**self).tokenize(text, specials)
            }
            fn context_len(&self) -> usize {
                (**self).context_len()
            }
            fn footprint(&self) -> Footprint {
                (**self).footprint()
            }
            fn batch_len(&self) -> usize {
                (**self).batch_len()
            }
            fn exact_batch_len(&self) -> usize {
                (**self).exact_batch_len()
            }
            fn noise(&self) -> Option<f32> {
                (**self).noise()
            }
            fn token_cost(&self) -> f64 {
                (**self).token_cost()
            }
            fn evaluated(&self) -> usize {
                (**self).evaluated()
            }
            fn truncate(&mut self, len: usize) -> Result<usize, Error> {
                (**self).truncate(len)
            }
            fn cuts_anywhere(&self) -> bool {
                (**self).cuts_anywhere()
            }
            fn kept(&self, sequence: usize, len: usize) -> usize {
                (**self).kept(sequence, len)
            }
            fn checkpoint(&mut self) -> Result<(), Error> {
                (**self).checkpoint()
            }
            fn eval(&mut self, tokens: &[TokenId], rows: Rows) -> Result<(), Error> {
                (**self).eval(tokens, rows)
            }
            fn logits(&self, row: usize) -> Result<&[f32], Error> {
                (**self).logits(row)
            }
            fn sequences(&self) -> usize {
                (**self).sequences()
            }
            fn fork(&mut self, sequence: usize, len: usize) -> Result<usize, Error> {
                (**self).fork(sequence, len)
            }
            fn switch(&mut self, sequence: usize) -> Result<(), Error> {
                (**self).switch(sequence)
            }
            fn state_key(&self) -> Option<String> {
                (**self).state_key()
            }
            fn cuts_saved(&mut self) -> Option<Vec<usize>> {
                (**self).cuts_saved()
            }
            fn save(&mut self) -> Result<Option<Vec<u8>>, Error> {
                (**self).save()
            }
            fn restore(&mut self, state: &[u8], tokens: &[TokenId]) -> Result<bool, Error> {
                (**self).restore(state, tokens)
            }
            fn lent(&self, prompt: &[TokenId]) -> usize {
                (**self).lent(prompt)
            }
            fn borrow(&mut self, prompt: &[TokenId]) -> Result<usize, Error> {
                (**self).borrow(prompt)
            }
            fn begin_turn(&mut self, at: usize) {
                (**self).begin_turn(at);
            }
            fn end_turn(&mut self) {
                (**self).end_turn();
            }
        }
    )*};
}

forward!(Box<B>, &mut B);
