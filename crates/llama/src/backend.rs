//! A context of a model as a [`Backend`]: batches in, logits out, the KV cache cut where asked.
//!
//! Invariant: `held` says of each sequence how many tokens are in the cache, from position 0 on, whatever failed
//! before.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::{KvCacheType, LlamaContextParams};
use llama_cpp_2::context::session::LlamaStateSeqFlags;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::token::LlamaToken;
use toolgate_grammar::{TokenId, Vocabulary};
use toolgate_infer::{Backend, Kind as InferKind, Rows, Specials};

use crate::model::llama_cpp;
use crate::threads::physical_cores;
use crate::{Error, Kind, Model, state};

/// How a context is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextOptions {
    /// Tokens it holds; `None` is what the model was trained with, at most 8,192. Each costs memory for its keys and
    /// values (12 KiB with a 0.5 B model, 28 KiB with a 1.5 B one) in each of two sequences.
    pub context: Option<u32>,
    /// Most tokens evaluated at once; between two batches, progress is reported and work can be cancelled.
    /// Default 256.
    pub batch: u32,
    /// Threads; `None` is one for each physical core.
    pub threads: Option<u32>,
    /// Whether tokens evaluated together must give the logits of tokens evaluated one by one. Default
    /// [`Numerics::Exact`].
    pub numerics: Numerics,
}

/// What batches may change in the low bits of logits. Low bits decide when two tokens are almost equally likely, and
/// quantized models make them large: up to 0.4 for a 0.5 B model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numerics {
    /// Nothing, up to [`Backend::exact_batch_len`]: the same greedy turn, byte for byte, with and without batches of
    /// forced tokens. Prompts then do without the tiled attention kernel (values are cached as bfloat16, which it
    /// does not take), and forced tokens go in batches of seven.
    #[default]
    Exact,
    /// Anything: the widest batches and llama.cpp's fastest kernels.
    Fast,
}

/// Tokens up to which llama.cpp's kernels give the bits of single tokens, on x86-64 without repacking: its tiled
/// matrix kernel takes over at eight. For other processors nothing is known, so nothing is promised.
const EXACT: usize = if cfg!(target_arch = "x86_64") { 7 } else { 1 };

impl Default for ContextOptions {
    fn default() -> Self {
        Self { context: None, batch: 256, threads: None, numerics: Numerics::default() }
    }
}

/// Sequences of a context: a conversation as its calls see it, and as its answers do.
///
/// Each has cells of its own, from the first on. Sharing cells would cost no memory, but a token's logits would then
/// depend, in their low bits, on where the cells of its sequence happen to lie among those of others.
const SEQUENCES: usize = 2;

/// A context with a few sequences.
pub struct LlamaBackend {
    /// Borrows the model below: declared before it, so that it is dropped first.
    context: LlamaContext<'static>,
    model: Model,
    batch: LlamaBatch<'static>,
    batch_len: usize,
    exact_len: usize,
    /// Tokens of each sequence.
    held: [usize; SEQUENCES],
    current: usize,
    /// Index in the last batch of each row of logits.
    rows: Vec<i32>,
    /// What saved states depend on; none where they cannot be saved.
    state_key: Option<String>,
    costs: Costs,
}

/// What small batches cost here, as measured so far.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// Seconds of a token by itself; 0 before the first.
    single: f64,
    /// What each further token of a batch costs, as a share of that.
    further: f64,
}

impl Costs {
    /// Before anything was measured: what two cores with AVX2 took for models of 0.1 to 1.5 B weights.
    const UNKNOWN: Self = Self { single: 0.0, further: 0.25 };

    fn add(&mut self, tokens: usize, seconds: f64) {
        const LATEST: f64 = 0.2;
        match tokens {
            0 => {}
            1 if self.single == 0.0 => self.single = seconds,
            1 => self.single += LATEST * (seconds - self.single),
            _ if self.single > 0.0 => {
                let share = (seconds / self.single - 1.0) / (tokens - 1) as f64;
                self.further += LATEST * (share.clamp(0.02, 1.0) - self.further);
            }
            _ => {}
        }
    }
}

impl fmt::Debug for LlamaBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (model, held) = (&self.model, self.held());
        f.debug_struct("LlamaBackend").field("model", model).field("held", &held).finish_non_exhaustive()
    }
}

impl LlamaBackend {
    #[expect(unsafe_code, reason = "a context borrows its model; both are kept together here")]
    pub(crate) fn new(model: &Model, options: &ContextOptions) -> Result<Self, Error> {
        let trained = u32::try_from(model.trained_context()).unwrap_or(0);
        let len = options.context.unwrap_or(if trained == 0 { 4_096 } else { trained.min(8_192) }).max(1);
        let batch_len = options.batch.clamp(1, len.max(1));
        let threads = options.threads.map_or_else(physical_cores, |threads| threads as usize).max(1);
        let threads = i32::try_from(threads).unwrap_or(i32::MAX);
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(len.saturating_mul(SEQUENCES as u32)))
            .with_n_batch(batch_len)
            .with_n_ubatch(batch_len)
            .with_n_seq_max(SEQUENCES as u32)
            .with_kv_unified(false)
            .with_n_threads(threads)
            .with_n_threads_batch(threads);
        let params = match options.numerics {
            // Single tokens take an attention kernel of their own, which sums in another order, if keys and values
            // are of one type; with two types all batches take the plain one.
            Numerics::Exact => params.with_type_v(KvCacheType::BF16),
            Numerics::Fast => params,
        };
        let inner = model.inner();
        let lock = inner.making_context.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let context = inner.model.new_context(llama_cpp(), params).map_err(|error| {
            let message =
                format!("no context of {len} tokens could be made: not enough memory? try a shorter one");
            Error::new(Kind::Context, message).because(error)
        })?;
        drop(lock);
        // SAFETY: the context borrows the `LlamaModel` inside the `Arc` of `model`. A clone of that `Arc` is kept in
        // the same struct, in a field that is dropped after the context; the model does not move, and nothing hands
        // out the context with its false lifetime.
        let context = unsafe { std::mem::transmute::<LlamaContext<'_>, LlamaContext<'static>>(context) };
        let batch_len = (context.n_batch().min(context.n_ubatch()).max(1)) as usize;
        let exact_len = match options.numerics {
            Numerics::Exact => EXACT.min(batch_len),
            Numerics::Fast => batch_len,
        };
        let batch = LlamaBatch::new(batch_len, 1);
        let state_key = model.remembers_all().then(|| {
            let (version, system) = (state::LLAMA_CPP, state::system());
            format!(
                "llama-cpp-sys-2 {version}; {:?}, {threads} threads, batches of {batch_len}; {system}",
                options.numerics
            )
        });
        Ok(Self {
            context,
            model: model.clone(),
            batch,
            batch_len,
            exact_len,
            held: [0; SEQUENCES],
            current: 0,
            rows: Vec::new(),
            state_key,
            costs: Costs::UNKNOWN,
        })
    }

    /// The model it evaluates.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Tokens of the current sequence.
    fn held(&self) -> usize {
        self.held.get(self.current).copied().unwrap_or(0)
    }

    fn set_held(&mut self, tokens: usize) {
        if let Some(held) = self.held.get_mut(self.current) {
            *held = tokens;
        }
    }

    /// Forgets the current sequence from a position on; all of it where a part cannot be forgotten, as with recurrent
    /// models: the caller evaluates it again.
    fn cut(&mut self, len: usize) -> Result<(), toolgate_infer::Error> {
        let number =
            |n: usize| u32::try_from(n).map_err(|error| failed("position is too large").because(error));
        let sequence = Some(number(self.current)?);
        let failed = |error| failed("cache could not be cut").because(error);
        let is_cut =
            len > 0 && self.context.clear_kv_cache_seq(sequence, Some(number(len)?), None).map_err(failed)?;
        if !is_cut {
            self.context.clear_kv_cache_seq(sequence, None, None).map_err(failed)?;
        }
        self.set_held(if is_cut { len } else { 0 });
        Ok(())
    }

    fn known(sequence: usize) -> Result<i32, toolgate_infer::Error> {
        let known = i32::try_from(sequence).ok().filter(|_| sequence < SEQUENCES);
        known.ok_or_else(|| failed(format!("the context has no sequence {sequence}")))
    }

    fn fill(&mut self, tokens: &[TokenId], rows: Rows) -> Result<(), toolgate_infer::Error> {
        self.batch.clear();
        self.rows.clear();
        let (held, sequence) = (self.held(), [Self::known(self.current)?]);
        for (index, &token) in tokens.iter().enumerate() {
            let wanted = rows.wants(index, tokens.len());
            let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
            if wanted {
                self.rows.push(number(index));
            }
            // llama.cpp reads out of bounds for a token it does not have.
            if token as usize >= self.model.vocabulary().len() {
                return Err(failed(format!("token {token} is not in the vocabulary")));
            }
            self.batch
                .add(LlamaToken(token as i32), number(held + index), &sequence, wanted)
                .map_err(|error| failed("batch is full").because(error))?;
        }
        Ok(())
    }
}

impl Backend for LlamaBackend {
    fn vocabulary(&self) -> &Arc<Vocabulary> {
        self.model.vocabulary()
    }

    fn tokenize(&self, text: &str, specials: Specials) -> Result<Vec<TokenId>, toolgate_infer::Error> {
        self.model.tokenize(text, specials)
    }

    fn context_len(&self) -> usize {
        self.context.n_ctx() as usize / SEQUENCES
    }

    fn batch_len(&self) -> usize {
        self.batch_len
    }

    fn exact_batch_len(&self) -> usize {
        self.exact_len
    }

    fn token_cost(&self) -> f64 {
        self.costs.further
    }

    fn evaluated(&self) -> usize {
        self.held()
    }

    fn truncate(&mut self, len: usize) -> Result<usize, toolgate_infer::Error> {
        if len < self.held() {
            self.rows.clear();
            self.cut(len)?;
        }
        Ok(self.held())
    }

    fn eval(&mut self, tokens: &[TokenId], rows: Rows) -> Result<(), toolgate_infer::Error> {
        if tokens.is_empty() {
            return Ok(());
        }
        let held = self.held();
        if tokens.len() > self.batch_len || held + tokens.len() > self.context_len() {
            return Err(failed("batch exceeds the context or the batch length"));
        }
        self.fill(tokens, rows)?;
        let started = Instant::now();
        if let Err(error) = self.context.decode(&mut self.batch) {
            self.rows.clear();
            // Part of the batch may have got in: positions after those held before must be empty again.
            self.cut(held)?;
            return Err(failed("llama.cpp could not evaluate a batch").because(error));
        }
        self.set_held(held + tokens.len());
        if tokens.len() <= self.exact_len && rows != Rows::None {
            self.costs.add(tokens.len(), started.elapsed().as_secs_f64());
        }
        Ok(())
    }

    fn sequences(&self) -> usize {
        SEQUENCES
    }

    fn fork(&mut self, sequence: usize, len: usize) -> Result<usize, toolgate_infer::Error> {
        let (from, to) = (Self::known(self.current)?, Self::known(sequence)?);
        if from != to {
            self.forget(sequence)?;
            // Whole, then cut: what a recurrent model holds cannot be copied in part.
            self.context
                .copy_kv_cache_seq(from, to, None, None)
                .map_err(|error| failed("cache could not be copied").because(error))?;
            let held = self.held();
            self.switch(sequence)?;
            self.set_held(held);
        }
        self.truncate(len)
    }

    fn switch(&mut self, sequence: usize) -> Result<(), toolgate_infer::Error> {
        Self::known(sequence)?;
        self.rows.clear();
        self.current = sequence;
        Ok(())
    }

    fn forget(&mut self, sequence: usize) -> Result<(), toolgate_infer::Error> {
        let now = self.current;
        self.switch(sequence)?;
        let done = self.truncate(0);
        self.switch(now)?;
        done.map(drop)
    }

    fn state_key(&self) -> Option<String> {
        self.state_key.clone()
    }

    #[expect(unsafe_code, reason = "llama-cpp-2's safe form does not give the bytes away")]
    fn save(&mut self) -> Result<Option<Vec<u8>>, toolgate_infer::Error> {
        let sequence = Self::known(self.current)?;
        if self.state_key.is_none() || self.held() == 0 {
            return Ok(None);
        }
        let size = self.context.state_seq_get_size_ext(sequence, LlamaStateSeqFlags::empty());
        let mut state = vec![0; size];
        // SAFETY: the buffer has the size that llama.cpp just asked for, and nothing was evaluated in between.
        let written = unsafe {
            self.context.state_seq_get_data_ext(state.as_mut_ptr(), sequence, LlamaStateSeqFlags::empty())
        };
        Ok((written == size && state::check(&state, self.held())).then_some(state))
    }

    #[expect(unsafe_code, reason = "llama-cpp-2's safe form takes no bytes from a file")]
    fn restore(&mut self, state: &[u8], len: usize) -> Result<bool, toolgate_infer::Error> {
        let sequence = Self::known(self.current)?;
        self.rows.clear();
        self.cut(0)?;
        if self.state_key.is_none() || len > self.context_len() || !state::check(state, len) {
            return Ok(false);
        }
        // SAFETY: llama.cpp reads within the slice it is given and holds what it reads against the shapes of its cache;
        // the positions, on which it would rely, were checked above.
        let taken =
            unsafe { self.context.state_seq_set_data_ext(state, sequence, LlamaStateSeqFlags::empty()) };
        let last = i32::try_from(len).unwrap_or(i32::MAX) - 1;
        if !taken || self.context.kv_cache_seq_pos_max(sequence) != last {
            self.cut(0)?;
            return Ok(false);
        }
        self.set_held(len);
        Ok(true)
    }

    fn logits(&self, row: usize) -> Result<&[f32], toolgate_infer::Error> {
        let index = self.rows.get(row).copied();
        let index = index.ok_or_else(|| failed(format!("logits of row {row} were not asked for")))?;
        Ok(self.context.get_logits_ith(index))
    }
}

fn failed(message: impl Into<String>) -> toolgate_infer::Error {
    toolgate_infer::Error::new(InferKind::Backend, message)
}
