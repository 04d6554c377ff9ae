//! What a model must offer: tokens in, logits out, and a cache of evaluated tokens that can be shortened.
//!
//! The invariant a backend keeps: its logits are a function of the tokens it has evaluated, in order: whatever the
//! batches they came in up to [`Backend::exact_batch_len`], and up to floating-point noise beyond, of which
//! [`Backend::noise`] is the measure.

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
    /// They do: for prompts rendered by a chat template.
    Parse,
    /// They stay text: for whatever a user, a tool or a grammar wrote.
    Plain,
}

/// Positions of a batch whose logits are wanted.
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
    /// This position of the batch and those behind it, row 0 being its own (drafts are verified so).
    From(usize),
}

/// What batches may change in the low bits of logits. Low bits decide when two tokens are almost equally likely, and
/// quantized models make them large: up to 0.4 for a 0.5 B model.
///
/// ```
/// use toolgate_infer::Numerics;
/// assert_eq!(Numerics::default(), Numerics::Exact);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numerics {
    /// Nothing that is chosen: the same greedy turn, byte for byte, with and without batches of forced and guessed tokens.
    /// Where wide batches leave a choice closer than [`Backend::noise`], it is made anew from narrow ones.
    #[default]
    Exact,
    /// Anything: the widest batches and the fastest kernels, and no choice is made twice.
    Fast,
}

/// What a conversation's context takes, for people who choose its length. Nothing is known of most backends without weights.
///
/// ```
/// use toolgate_infer::Footprint;
/// let footprint = Footprint { token_bytes: Some(24 * 1024), trained: Some(32_768) };
/// assert_eq!(footprint.token_bytes.map(|bytes| 8_192 * bytes >> 20), Some(192), "MiB for 8,192 tokens");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of keys and values for each token of a conversation's context, in all of its sequences.
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
/// It may hold several sequences of tokens; all methods are about the current one, unless they name one.
///
/// The trait can be made into an object; [`Session`](crate::Session) is the safe way to drive it.
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
    /// The tokens it speaks.
    fn vocabulary(&self) -> &Arc<Vocabulary>;

    /// The model's own tokenization of `text`, with no token added in front or behind.
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

    /// Most tokens a sequence of it can hold.
    fn context_len(&self) -> usize;

    /// What a conversation's context takes.
    fn footprint(&self) -> Footprint {
        Footprint::default()
    }

    /// Most tokens one [`eval`](Self::eval) takes; at least 1.
    fn batch_len(&self) -> usize;

    /// Most tokens whose evaluation at once gives, bit for bit, the logits of evaluating them one by one. Batches
    /// within a turn are no wider, so that they change nothing in it, but for forced text of greedy turns where
    /// [`noise`](Self::noise) is known.
    fn exact_batch_len(&self) -> usize {
        self.batch_len()
    }

    /// By how much two logits may come closer, or change places, where tokens in front of them were evaluated in batches
    /// wider than [`exact_batch_len`](Self::exact_batch_len). None where that is not known.
    fn noise(&self) -> Option<f32> {
        None
    }

    /// What each further token of a batch within a turn costs, as a share of what one token by itself costs.
    fn token_cost(&self) -> f64 {
        0.25
    }

    /// Tokens it holds.
    fn evaluated(&self) -> usize;

    /// Forgets all but the first `len` tokens and returns how many it kept: fewer than `len`, down to none, where
    /// the model's memory cannot be cut there (recurrent models).
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend).
    fn truncate(&mut self, len: usize) -> Result<usize, Error>;

    /// Evaluates `tokens` after those it holds, in one batch.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend); then [`evaluated`](Self::evaluated) still tells the truth.
    fn eval(&mut self, tokens: &[TokenId], rows: Rows) -> Result<(), Error>;

    /// A row of the last [`eval`](Self::eval): a logit for each token of the vocabulary.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend) for a row that was not asked for.
    fn logits(&self, row: usize) -> Result<&[f32], Error>;

    /// Sequences of tokens it can hold beside each other, each of up to [`context_len`](Self::context_len), numbered from 0,
    /// the one it starts with; at least 1.
    fn sequences(&self) -> usize {
        1
    }

    /// Makes the first `len` tokens of the current sequence another one, in place of what that held, and the current
    /// one; returns how many it kept, as [`truncate`](Self::truncate) does. Logits are gone.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend), at once where there is no such sequence.
    fn fork(&mut self, sequence: usize, len: usize) -> Result<usize, Error> {
        let _ = len;
        Err(no_sequence(sequence))
    }

    /// Makes another sequence the current one. Logits are gone.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend) where there is no such sequence.
    fn switch(&mut self, sequence: usize) -> Result<(), Error> {
        if sequence == 0 { Ok(()) } else { Err(no_sequence(sequence)) }
    }

    /// What saved states depend on beside the model's file: a state is restored only where this is the same text. None
    /// where states cannot be saved.
    fn state_key(&self) -> Option<String> {
        None
    }

    /// The state of the current sequence as bytes; none where it cannot be saved, or not now.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend).
    fn save(&mut self) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    /// Makes the current sequence hold `tokens`, whose state was saved as `state`; whether it does now. Where it does
    /// not, the sequence is empty. Logits are gone.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend).
    fn restore(&mut self, state: &[u8], tokens: &[TokenId]) -> Result<bool, Error> {
        let _ = (state, tokens);
        self.truncate(0)?;
        Ok(false)
    }

    /// How many tokens `prompt` begins with are held for another conversation of the same model.
    fn lent(&self, prompt: &[TokenId]) -> usize {
        let _ = prompt;
        0
    }

    /// Makes the current sequence hold what `prompt` begins with and another conversation holds, in place of what it
    /// held, if that is more; returns how many tokens it holds. Logits are gone if it did.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend).
    fn borrow(&mut self, prompt: &[TokenId]) -> Result<usize, Error> {
        let _ = prompt;
        Ok(self.evaluated())
    }

    /// Tells that the first `at` of the tokens held now are the prompt of a turn. A hint; most backends have no use for it.
    fn begin_turn(&mut self, _at: usize) {}

    /// Tells that a turn has ended: nothing is evaluated for a while. A hint, as above.
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
