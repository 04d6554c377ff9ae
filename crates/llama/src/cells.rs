//! The memory of a context: cells for few tokens at first, and for more when a sequence needs them.
//!
//! Why: llama.cpp writes zeros into all cells at once. For 8,192 tokens in two sequences that is 192 MiB with a 0.5 B model and 448 MiB
//! with a 1.5 B one, of which most runs need a quarter.
//!
//! Invariant: a context that grew has the same sequences, and gives the same logits, as one that had all cells from the start.

use std::num::NonZeroU32;

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::{KvCacheType, LlamaContextParams, RopeScalingType};
use toolgate_infer::{Attention, CacheType, FlashAttention, Numerics, RopeScaling};

use crate::context::{Context, failed};
use crate::model::llama_cpp;
use crate::{Error, Kind, Model, memory};

/// The tokens of a sequence for which there is memory at first.
pub(crate) const FIRST: u32 = 2_048;

/// All that contexts of a model are opened with, but for their cells.
pub(crate) struct Plan {
    pub(crate) numerics: Numerics,
    pub(crate) attention: Attention,
    pub(crate) sequences: usize,
    /// Tokens of a batch at most.
    pub(crate) batch_len: u32,
    pub(crate) threads: usize,
    /// Whether the sequences share their cells.
    pub(crate) shares_cells: bool,
}

impl Plan {
    /// For whom a context is, in words; empty for one conversation.
    fn several(&self) -> String {
        match self.sequences / crate::context::SEQUENCES {
            ..=1 => String::new(),
            conversations => format!(" for each of {conversations} conversations"),
        }
    }

    /// A context with memory for so many tokens of each sequence.
    #[expect(unsafe_code, reason = "a context borrows its model; both are kept together by `Context`")]
    pub(crate) fn open(&self, model: &Model, cells: u32) -> Result<LlamaContext<'static>, Error> {
        let inner = model.inner();
        let count = u32::try_from(self.sequences).unwrap_or(u32::MAX);
        let threads = i32::try_from(self.threads).unwrap_or(i32::MAX);
        let attention = &self.attention;
        let token_bytes = model.token_bytes(attention).filter(|_| inner.place.is_processor());
        if let Some(bytes) = token_bytes.map(|bytes| bytes.saturating_mul(u64::from(count))) {
            let what = format!("a context of {cells} tokens{} takes", self.several());
            memory::require(bytes.saturating_mul(u64::from(cells)), &what, |free| {
                let smaller = match (attention.keys, attention.values) {
                    (None, None) => ", and for more with keys and values of type q8_0",
                    _ => "",
                };
                format!("there is room for {} tokens{smaller}", free / bytes.max(1))
            })?;
        }
        let params = scaled(LlamaContextParams::default(), attention.rope)
            .with_n_ctx(NonZeroU32::new(cells.saturating_mul(count)))
            .with_n_batch(self.batch_len)
            .with_n_ubatch(self.batch_len)
            .with_n_seq_max(count)
            .with_kv_unified(self.shares_cells)
            .with_n_threads(threads)
            .with_n_threads_batch(threads)
            .with_type_k(cached(attention.keys.unwrap_or(CacheType::F16)))
            .with_type_v(cached(attention.values.unwrap_or(match self.numerics {
                // Single tokens take an attention kernel of their own, which sums in another order, if keys and values
                // are of one type; with two types all batches take the plain one.
                Numerics::Exact if inner.place.is_processor() => CacheType::Bf16,
                Numerics::Exact | Numerics::Fast => CacheType::F16,
            })))
            .with_flash_attention_policy(match attention.flash {
                FlashAttention::Auto => llama_cpp_sys_2::LLAMA_FLASH_ATTN_TYPE_AUTO,
                FlashAttention::On => llama_cpp_sys_2::LLAMA_FLASH_ATTN_TYPE_ENABLED,
                FlashAttention::Off => llama_cpp_sys_2::LLAMA_FLASH_ATTN_TYPE_DISABLED,
            });
        let lock = inner.making_context.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut context = inner.model.new_context(llama_cpp(), params).map_err(|error| {
            let several = self.several();
            let types = match *attention == Attention::default() {
                true => "",
                false => ", or other types of keys and values",
            };
            let message = format!(
                "no context of {cells} tokens{several} could be made: not enough memory? try a shorter one{types}"
            );
            Error::new(Kind::Context, message).because(error)
        })?;
        if let Some(adapter) = &inner.adapter {
            adapter.set(&mut context)?;
        }
        drop(lock);
        // SAFETY: the context borrows the `LlamaModel` inside the `Arc` of `model`. `Context` keeps a clone of that `Arc` beside
        // the context, in a field that is dropped after it; the model does not move, and nothing hands out the context
        // with its false lifetime.
        Ok(unsafe { std::mem::transmute::<LlamaContext<'_>, LlamaContext<'static>>(context) })
    }
}

/// llama.cpp takes one over the factor as the scale of frequencies. The context that YaRN starts from, and the rest of its numbers, are
/// those of the file.
fn scaled(params: LlamaContextParams, rope: Option<RopeScaling>) -> LlamaContextParams {
    let Some(rope) = rope else { return params };
    let kind = match rope {
        RopeScaling::None => RopeScalingType::None,
        RopeScaling::Linear(_) => RopeScalingType::Linear,
        RopeScaling::Yarn(_) => RopeScalingType::Yarn,
    };
    params.with_rope_scaling_type(kind).with_rope_freq_scale(1.0 / rope.factor())
}

fn cached(kind: CacheType) -> KvCacheType {
    match kind {
        CacheType::F32 => KvCacheType::F32,
        CacheType::F16 => KvCacheType::F16,
        CacheType::Bf16 => KvCacheType::BF16,
        CacheType::Q8_0 => KvCacheType::Q8_0,
        CacheType::Q4_0 => KvCacheType::Q4_0,
    }
}

impl Context {
    /// Sees to it that a sequence can have so many tokens: where there is no memory for them, the sequences move to a context that has
    /// at least twice as many cells. The logits of the last batch are gone then. Where that fails before the move, all stays as it was.
    pub(crate) fn grow(&mut self, needed: usize) -> Result<(), toolgate_infer::Error> {
        if needed <= self.cells {
            return Ok(());
        }
        let cells = self.cells.saturating_mul(2).max(needed).min(self.len);
        let mut states = Vec::new();
        for sequence in 0..self.plan.sequences {
            if self.held(sequence) == 0 {
                continue;
            }
            let state = self.save(sequence)?.ok_or_else(|| failed("a sequence could not be saved"))?;
            states.push((sequence, self.texts.tokens(sequence), state));
        }
        let open = |cells: usize| self.plan.open(&self.model, u32::try_from(cells).unwrap_or(u32::MAX));
        // There may be memory for what is needed, and not for twice as much.
        let larger = open(cells).or_else(|error| match needed < cells {
            true => open(needed),
            false => Err(error),
        });
        let larger = larger.map_err(|error| failed(error.to_string()).because(error))?;
        self.cells = larger.n_ctx() as usize / self.plan.sequences;
        self.inner = larger;
        for sequence in 0..self.plan.sequences {
            self.texts.truncate(sequence, 0);
        }
        for (sequence, tokens, state) in states {
            if !self.restore(sequence, &state, &tokens)? {
                return Err(failed("a sequence could not be moved to a larger context"));
            }
        }
        Ok(())
    }
}
