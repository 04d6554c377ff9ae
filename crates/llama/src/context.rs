//! A llama.cpp context: numbered sequences of tokens, evaluated in batches that may hold parts of several.
//!
//! Invariant: `texts` are exactly the tokens of each sequence that are in the cache, from position 0 on, whatever failed
//! before.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::{KvCacheType, LlamaContextParams};
use llama_cpp_2::context::session::LlamaStateSeqFlags;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::token::LlamaToken;
use toolgate_grammar::TokenId;
use toolgate_infer::{Kind as InferKind, Numerics, Rows};

use crate::costs::Costs;
use crate::model::llama_cpp;
use crate::texts::Texts;
use crate::threads::physical_cores;
use crate::{Error, Kind, Model, state};

/// How a context is made.
///
/// ```
/// use toolgate_llama::{ContextOptions, Numerics};
/// let options = ContextOptions { context: Some(16_384), numerics: Numerics::Fast, ..ContextOptions::default() };
/// assert_eq!((options.batch, options.threads), (256, None), "a thread for each physical core");
/// assert_eq!(ContextOptions::default().numerics, Numerics::Exact);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextOptions {
    /// Tokens a conversation holds; `None` is what the model was trained with, at most 8,192, and 0 all of that. Each costs memory for its
    /// keys and values (12 KiB with a 0.5 B model, 28 KiB with a 1.5 B one) in each of a conversation's two sequences.
    pub context: Option<u32>,
    /// Most tokens evaluated at once; between two batches, progress is reported and work can be cancelled.
    /// Default 256.
    pub batch: u32,
    /// Threads; `None` is one for each physical core.
    pub threads: Option<u32>,
    /// Whether tokens evaluated together must give the logits of tokens evaluated one by one. Default
    /// [`Numerics::Exact`]: tokens then go in batches of seven, or of three where weights are of type Q4_K and so
    /// repacked (greedy turns take wider ones there, and make close choices anew: [`toolgate_infer::Backend::noise`]),
    /// and prompts do without the tiled attention kernel (values are cached as bfloat16, which it does not take). It
    /// holds for a conversation that has a context to itself; those that share one are in each other's batches, and
    /// keep of it only the plain attention kernel, beside which the tiled one turned rows of a 135 M model by a cosine
    /// of 0.98.
    pub numerics: Numerics,
}

/// Tokens of a context where nothing else is said, at most.
const USUAL: u32 = 8_192;
/// The same where the model does not tell how many it was trained with.
const UNTOLD: u32 = 4_096;

/// Tokens of a batch up to which it is taken for one of a turn, in what batches cost.
const WRITTEN: usize = 16;

impl Default for ContextOptions {
    fn default() -> Self {
        Self { context: None, batch: 256, threads: None, numerics: Numerics::default() }
    }
}

/// Sequences of a conversation: as its calls see it, and as its answers do.
pub(crate) const SEQUENCES: usize = 2;

/// What is to be evaluated for one sequence.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) sequence: usize,
    /// Tokens of the sequence that stay; what lies behind them is forgotten first.
    pub(crate) after: usize,
    pub(crate) tokens: &'a [TokenId],
    pub(crate) rows: Rows,
}

/// A context with its sequences.
pub(crate) struct Context {
    /// Borrows the model below: declared before it, so that it is dropped first.
    inner: LlamaContext<'static>,
    model: Model,
    batch: LlamaBatch<'static>,
    pub(crate) batch_len: usize,
    pub(crate) exact_len: usize,
    /// What batches wider than that do to logits, where turns may take them all the same.
    pub(crate) noise: Option<f32>,
    /// Tokens that a sequence may hold.
    pub(crate) len: usize,
    pub(crate) texts: Arc<Texts>,
    /// What saved states depend on; none where they cannot be saved.
    pub(crate) state_key: Option<String>,
    /// Whether sequences have cells of their own, so that llama.cpp copies one by moving its keys and values.
    moves: bool,
    /// The sequence that was last made a copy since the last evaluation: that is put off until the next one.
    copied: Option<usize>,
    pub(crate) costs: Costs,
}

impl Context {
    /// A context for so many conversations, at least one.
    ///
    /// The sequences of one conversation have cells of their own: sharing them would cost no memory, but a token's logits
    /// would depend, in their low bits, on where the cells of its sequence happen to lie among those of others. Several
    /// conversations do share them: else llama.cpp would evaluate parts of different lengths one after the other.
    #[expect(unsafe_code, reason = "a context borrows its model; both are kept together here")]
    pub(crate) fn new(model: &Model, options: &ContextOptions, conversations: usize) -> Result<Self, Error> {
        let trained = u32::try_from(model.trained_context()).unwrap_or(0);
        let len = match options.context {
            Some(0) if trained > 0 => trained,
            Some(0) | None if trained == 0 => UNTOLD,
            Some(len) => len,
            None => trained.min(USUAL),
        };
        let sequences = SEQUENCES.saturating_mul(conversations.max(1));
        let count = u32::try_from(sequences).unwrap_or(u32::MAX);
        let batch_len = options.batch.clamp(1, len.max(1));
        let threads = options.threads.map_or_else(physical_cores, |threads| threads as usize).max(1);
        let threads = i32::try_from(threads).unwrap_or(i32::MAX);
        let shared = conversations > 1;
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(len.saturating_mul(count)))
            .with_n_batch(batch_len)
            .with_n_ubatch(batch_len)
            .with_n_seq_max(count)
            .with_kv_unified(shared)
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
            let several =
                if shared { format!(" for each of {conversations} conversations") } else { String::new() };
            let message = format!(
                "no context of {len} tokens{several} could be made: not enough memory? try a shorter one"
            );
            Error::new(Kind::Context, message).because(error)
        })?;
        drop(lock);
        // SAFETY: the context borrows the `LlamaModel` inside the `Arc` of `model`. A clone of that `Arc` is kept in
        // the same struct, in a field that is dropped after the context; the model does not move, and nothing hands
        // out the context with its false lifetime.
        let context = unsafe { std::mem::transmute::<LlamaContext<'_>, LlamaContext<'static>>(context) };
        let batch_len = (context.n_batch().min(context.n_ubatch()).max(1)) as usize;
        let exact_len = match options.numerics {
            Numerics::Exact if !shared => model.inner().layout.exact_len().min(batch_len),
            // In batches that are shared nothing is exact that narrow parts could keep so.
            Numerics::Exact | Numerics::Fast => batch_len,
        };
        // Where nothing is kept exact, there is nothing to make sure of.
        let is_exact = options.numerics == Numerics::Exact && !shared && model.remembers_all();
        let noise = model.inner().layout.noise().filter(|_| is_exact);
        let state_key = model.remembers_all().then(|| {
            let (version, system) = (state::LLAMA_CPP, state::system());
            let cells = if shared { ", shared cells" } else { "" };
            let layout = model.inner().layout;
            format!(
                "llama-cpp-sys-2 {version}; {:?}, {layout:?}, {threads} threads, batches of {batch_len}{cells}; {system}",
                options.numerics
            )
        });
        Ok(Self {
            len: context.n_ctx() as usize / sequences,
            inner: context,
            model: model.clone(),
            batch: LlamaBatch::new(batch_len, 1),
            batch_len,
            exact_len,
            noise,
            texts: Arc::new(Texts::new(sequences)),
            state_key,
            moves: !shared,
            copied: None,
            costs: Costs::UNKNOWN,
        })
    }

    /// How many tokens a sequence holds.
    pub(crate) fn held(&self, sequence: usize) -> usize {
        self.texts.held(sequence)
    }

    /// Evaluates parts of different sequences in one batch; for each part, the numbers of its rows of logits.
    pub(crate) fn eval(&mut self, parts: &[Part<'_>]) -> Result<Vec<Vec<i32>>, toolgate_infer::Error> {
        for part in parts {
            self.cut(part.sequence, part.after)?;
            if self.held(part.sequence) != part.after || part.after + part.tokens.len() > self.len {
                return Err(failed("batch exceeds the context"));
            }
        }
        let rows = self.fill(parts)?;
        let started = Instant::now();
        if let Err(error) = self.inner.decode(&mut self.batch) {
            // Part of the batch may have got in: positions after those held before must be empty again.
            for part in parts {
                self.erase(part.sequence, part.after)?;
            }
            return Err(failed("llama.cpp could not evaluate a batch").because(error));
        }
        self.copied = None;
        for part in parts {
            self.texts.extend(part.sequence, part.tokens);
        }
        let tokens = parts.iter().map(|part| part.tokens.len()).sum();
        // Parts of prompts are wider, and say nothing of the batches that turns are written in.
        if parts.iter().all(|part| part.rows != Rows::None && part.tokens.len() <= WRITTEN) {
            let seconds = started.elapsed().as_secs_f64();
            match parts.len() {
                1 if tokens <= self.exact_len || self.noise.is_some() => self.costs.add(tokens, seconds),
                1 => {}
                _ => self.costs.add_shared(tokens, seconds),
            }
        }
        Ok(rows)
    }

    fn fill(&mut self, parts: &[Part<'_>]) -> Result<Vec<Vec<i32>>, toolgate_infer::Error> {
        self.batch.clear();
        let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let (mut rows, mut at) = (Vec::with_capacity(parts.len()), 0);
        for part in parts {
            let mut own = Vec::new();
            for (index, &token) in part.tokens.iter().enumerate() {
                // llama.cpp reads out of bounds for a token it does not have.
                if token as usize >= self.model.vocabulary().len() {
                    return Err(failed(format!("token {token} is not in the vocabulary")));
                }
                let wanted = part.rows.wants(index, part.tokens.len());
                if wanted {
                    own.push(number(at));
                }
                self.batch
                    .add(
                        LlamaToken(token as i32),
                        number(part.after + index),
                        &[number(part.sequence)],
                        wanted,
                    )
                    .map_err(|error| failed("batch is full").because(error))?;
                at += 1;
            }
            rows.push(own);
        }
        Ok(rows)
    }

    /// A row of logits of the last batch, by its number.
    pub(crate) fn logits(&self, row: i32) -> &[f32] {
        self.inner.get_logits_ith(row)
    }

    /// Forgets a sequence from a position on, if it goes that far; all of it where a part cannot be forgotten, as with
    /// recurrent models: the caller evaluates it again.
    pub(crate) fn cut(&mut self, sequence: usize, len: usize) -> Result<(), toolgate_infer::Error> {
        if len < self.held(sequence) { self.erase(sequence, len) } else { Ok(()) }
    }

    fn erase(&mut self, sequence: usize, len: usize) -> Result<(), toolgate_infer::Error> {
        let number =
            |n: usize| u32::try_from(n).map_err(|error| failed("position is too large").because(error));
        let id = Some(number(sequence)?);
        let failed = |error| failed("cache could not be cut").because(error);
        let is_cut =
            len > 0 && self.inner.clear_kv_cache_seq(id, Some(number(len)?), None).map_err(failed)?;
        if !is_cut {
            self.inner.clear_kv_cache_seq(id, None, None).map_err(failed)?;
        }
        self.texts.truncate(sequence, if is_cut { len } else { 0 });
        Ok(())
    }

    /// Makes a sequence the first `len` tokens of another one, or all of them where a part cannot be had.
    pub(crate) fn copy(&mut self, from: usize, to: usize, len: usize) -> Result<(), toolgate_infer::Error> {
        let id = |n: usize| i32::try_from(n).map_err(|error| failed("no such sequence").because(error));
        self.cut(to, 0)?;
        self.copied = self.moves.then_some(to);
        // Whole, then cut: what a recurrent model holds cannot be copied in part.
        self.inner
            .copy_kv_cache_seq(id(from)?, id(to)?, None, None)
            .map_err(|error| failed("cache could not be copied").because(error))?;
        self.texts.copy(from, to);
        self.cut(to, len)
    }

    /// Has llama.cpp do the copies that it has put off: it would copy what is in their place by then.
    fn settle(&mut self) -> Result<(), toolgate_infer::Error> {
        let Some(sequence) = self.copied else { return Ok(()) };
        // It does them when it evaluates: a token that is there already, or any, which is forgotten again.
        let (held, last) = (self.held(sequence), self.texts.last(sequence).unwrap_or(0));
        let part = Part { sequence, after: held.saturating_sub(1), tokens: &[last], rows: Rows::None };
        self.eval(&[part])?;
        self.cut(sequence, held)
    }

    /// The state of a sequence's tokens; none where it cannot be saved.
    #[expect(unsafe_code, reason = "llama-cpp-2's safe form does not give the bytes away")]
    pub(crate) fn save(&mut self, sequence: usize) -> Result<Option<Vec<u8>>, toolgate_infer::Error> {
        let held = self.held(sequence);
        if self.state_key.is_none() || held == 0 {
            return Ok(None);
        }
        self.settle()?;
        let id = i32::try_from(sequence).map_err(|error| failed("no such sequence").because(error))?;
        let size = self.inner.state_seq_get_size_ext(id, LlamaStateSeqFlags::empty());
        let mut state = vec![0; size];
        // SAFETY: the buffer has the size that llama.cpp just asked for, and nothing was evaluated in between.
        let written =
            unsafe { self.inner.state_seq_get_data_ext(state.as_mut_ptr(), id, LlamaStateSeqFlags::empty()) };
        Ok((written == size && state::check(&state, held)).then_some(state))
    }

    /// Makes a sequence hold these tokens, whose state this is; whether it does now.
    #[expect(unsafe_code, reason = "llama-cpp-2's safe form takes no bytes from a file")]
    pub(crate) fn restore(
        &mut self,
        sequence: usize,
        state: &[u8],
        tokens: &[TokenId],
    ) -> Result<bool, toolgate_infer::Error> {
        if self.state_key.is_some() {
            self.settle()?;
        }
        self.erase(sequence, 0)?;
        let len = tokens.len();
        if self.state_key.is_none() || len > self.len || !state::check(state, len) {
            return Ok(false);
        }
        let id = i32::try_from(sequence).map_err(|error| failed("no such sequence").because(error))?;
        // SAFETY: llama.cpp reads within the slice it is given and holds what it reads against the shapes of its cache;
        // the positions, on which it would rely, were checked above.
        let taken = unsafe { self.inner.state_seq_set_data_ext(state, id, LlamaStateSeqFlags::empty()) };
        let last = i32::try_from(len).unwrap_or(i32::MAX) - 1;
        if !taken || self.inner.kv_cache_seq_pos_max(id) != last {
            self.erase(sequence, 0)?;
            return Ok(false);
        }
        self.texts.set(sequence, tokens);
        Ok(true)
    }
}

pub(crate) fn failed(message: impl Into<String>) -> toolgate_infer::Error {
    toolgate_infer::Error::new(InferKind::Backend, message)
}
