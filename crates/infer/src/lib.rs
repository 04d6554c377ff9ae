//! Logits in, constrained tokens out: the decode loop over a [`Backend`].
//!
//! ```text
//! prompt tokens ─ Session::set_prompt ─▶ logits ─ Openings::decide ─▶ TurnDecision (call or answer)
//!                                          │
//!      Constraint (grammar, none, …) ─ decode ─ Sampler ─▶ Decoded { text, tokens, stop, stats }
//! ```
//!
//! This package knows token vocabularies and grammars (`toolgate-grammar`), probabilities and time. It knows no llama.cpp,
//! no chat and no tool. A model is a type that implements [`Backend`]; [`scripted::Scripted`] is one without weights.
//!
//! ```
//! use std::sync::Arc;
//! use toolgate_infer::{Cancel, DecodeOptions, Free, Sampler, Session, StopReason, decode};
//! use toolgate_infer::scripted::Scripted;
//! use toolgate_grammar::Vocabulary;
//!
//! let vocabulary = Arc::new(Vocabulary::bytes_only());
//! let mut session = Session::new(Scripted::new(vocabulary.clone()).say("Hello."));
//! session.set_prompt_text("Greet me: ")?;
//! let decoded = decode(
//!     &mut session,
//!     &mut Free::new(vocabulary),
//!     &mut Sampler::greedy(),
//!     &DecodeOptions::default(),
//!     &mut |_piece| std::ops::ControlFlow::Continue(()),
//! )?;
//! assert_eq!((decoded.text.as_str(), decoded.stop), ("Hello.", StopReason::End));
//! # Ok::<(), toolgate_infer::Error>(())
//! ```

mod backend;
mod cancel;
mod constraint;
mod decision;
mod decode;
mod draft;
mod error;
mod forced;
mod kv_cache;
mod likelihood;
mod openings;
mod placement;
mod retry;
mod sampler;
pub mod scripted;
mod sequences;
mod session;
mod stats;
mod stream;
mod untrained;

pub use backend::{Backend, Footprint, Numerics, Rows, Specials};
pub use cancel::{Cancel, Cancelled, OnCancel};
pub use constraint::{Constraint, Follow, Forced, Free, Mask};
pub use decision::{OpeningMass, TurnDecision, log_probabilities, opening_mass};
pub use decode::{
    Budget, DecodeOptions, Decoded, DecodedToken, Drafting, Forcing, Further, Opening, Piece, Source,
    StopReason, Watch, decode,
};
pub use error::{Error, Kind, Overflow};
pub use forced::canonical;
pub use kv_cache::KvCache;
pub use likelihood::Likelihood;
pub use openings::{Extent, OpeningTexts, Openings};
pub use placement::{
    Adapter, Attention, CacheType, Device, FlashAttention, GpuLayers, Placement, RopeScaling, UnknownWord,
};
pub use retry::{Other, Tried, decode_from, likeliest_other};
pub use sampler::{Draw, Penalties, Sampler, SamplerOptions};
pub use sequences::common_len;
pub use session::{Prefill, Progress, Session};
pub use stats::{Milliseconds, Pressure, Stats};
pub use toolgate_grammar::{TokenId, TokenKind, TokenSet, Vocabulary};
pub use untrained::Untrained;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
