//! A llama.cpp context: numbered sequences of tokens, evaluated in batches that may hold parts of several.
//!
//! Invariant: `texts` has exactly the tokens of each sequence that are in the KV cache, from position 0 on, whatever failed
//! before.

use std::sync::Arc;
use std::time::Instant;

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::session::LlamaStateSeqFlags;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::token::LlamaToken;
use toolgate_grammar::TokenId;
use toolgate_infer::{Attention, CacheType, FlashAttention, Kind as InferKind, Numerics, Rows};

use crate::cells::{FIRST, Plan};
use crate::costs::Costs;
use crate::kernels::Kernels;
use crate::texts::Texts;
use crate::threads::physical_cores;
use crate::{Error, Kind, Model, state};

/// Options of a context.
///
/// ```
/// use toolgate_llama::{ContextOptions, Numerics};
/// let options = ContextOptions { context: Some(16_384), numerics: Numerics::Fast, ..ContextOptions::default() };
/// assert_eq!((options.batch, options.threads), (256, None), "a thread for each physical core");
/// assert_eq!(ContextOptions::default().numerics, Numerics::Exact);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ContextOptions {
    /// Tokens of a slot. `None` takes the model's trained context, at most 8,192; 0 takes all of it. Each token costs memory
    /// for its keys and values (12 KiB with a 0.5 B model, 28 KiB with a 1.5 B one), in each of a slot's two sequences. A slot with a
    /// context to itself, on the processor, begins with memory for 2,048 tokens, and takes more when it needs it.
    pub context: Option<u32>,
    /// The most tokens of a batch. Between two batches the caller gets progress, and can cancel. Default 256. A graphics
    /// processor takes 512 at least.
    pub batch: u32,
    /// Threads; `None` is one for each physical core.
    pub threads: Option<u32>,
    /// How keys and values are kept. By default a half-precision number each has two bytes.
    pub attention: Attention,
    /// Whether tokens of one batch must give the logits of tokens evaluated one by one. Default [`Numerics::Exact`].
    ///
    /// With it, batches have seven tokens, or three where weights are of type Q4_K and so repacked. There, greedy turns take
    /// wider batches and repeat close choices ([`toolgate_infer::Backend::noise`]). Prompts do without the tiled attention
    /// kernel: values are cached as bfloat16, which that kernel does not take.
    ///
    /// It holds for a slot that has a context to itself. Slots that share a context are in each other's batches. They keep
    /// the plain attention kernel alone. Against it, the tiled kernel turned rows of a 135 M model by a cosine of 0.98.
    ///
    /// For a graphics processor, and for other types of keys and values, no kernel was measured. There only single tokens count
    /// as exact, and greedy turns repeat every choice that is closer than 1.0.
    pub numerics: Numerics,
}

/// The most tokens of a context by default.
const USUAL: u32 = 8_192;
/// The same for a model that does not name its trained context.
const UNTOLD: u32 = 4_096;

/// The least tokens of a batch of a graphics processor, which has nothing to do in small ones.
const LEAST_OF_GPU: u32 = 512;

/// Tokens of a long prompt between two checkpoints.
const BETWEEN_CHECKPOINTS: usize = 1_024;

/// The most tokens of a batch that counts as a part of a turn in the costs of batches.
const WRITTEN: usize = 16;

impl Default for ContextOptions {
    fn default() -> Self {
        Self {
            context: None,
            batch: 256,
            threads: None,
            attention: Attention::default(),
            numerics: Numerics::default(),
        }
    }
}

/// Sequences of a slot: one for the prompt view of calls, one for that of answers.
pub(crate) const SEQUENCES: usize = 2;

/// Tokens to evaluate for one sequence.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) sequence: usize,
    /// Tokens of the sequence that stay; the rest is forgotten first.
    pub(crate) after: usize,
    pub(crate) tokens: &'a [TokenId],
    pub(crate) rows: Rows,
}

/// A context with its sequences.
pub(crate) struct Context {
    /// Borrows the model below. It is declared first, so it is dropped first.
    pub(crate) inner: LlamaContext<'static>,
    pub(crate) model: Model,
    /// How contexts are opened for it.
    pub(crate) plan: Plan,
    /// The tokens of a sequence for which there is memory now.
    pub(crate) cells: usize,
    batch: LlamaBatch<'static>,
    pub(crate) batch_len: usize,
    pub(crate) exact_len: usize,
    /// The noise of wider batches in logits, where turns may take them all the same.
    pub(crate) noise: Option<f32>,
    pub(crate) attention: Attention,
    /// The most tokens of a sequence.
    pub(crate) len: usize,
    pub(crate) texts: Arc<Texts>,
    /// The conditions of saved states.
    pub(crate) state_key: String,
    /// The last sequence that became a copy since the last evaluation. Where sequences have cells of their own, llama.cpp copies one by
    /// moving its keys and values, and puts that off until the next evaluation.
    copied: Option<usize>,
    pub(crate) costs: Costs,
}

impl Context {
    /// A context for one slot or several.
    ///
    /// The sequences of a single slot have cells of their own. Shared cells would save memory, but the low bits of a token's
    /// logits would depend on the places of its cells among those of others. Several slots share cells: otherwise llama.cpp
    /// would evaluate parts of different lengths one after the other.
    pub(crate) fn new(model: &Model, options: &ContextOptions, conversations: usize) -> Result<Self, Error> {
        let attention = options.attention;
        let trained = u32::try_from(model.reach(attention.rope)).unwrap_or(0);
        let len = match options.context {
            Some(0) if trained > 0 => trained,
            Some(0) | None if trained == 0 => UNTOLD,
            Some(len) => len,
            None => trained.min(USUAL),
        };
        let sequences = SEQUENCES.saturating_mul(conversations.max(1));
        let is_gpu = !model.inner().place.is_processor();
        let least = if is_gpu { LEAST_OF_GPU } else { 1 };
        let batch_len = options.batch.max(least).clamp(1, len.max(1));
        let threads = options.threads.map_or_else(physical_cores, |threads| threads as usize).max(1);
        let shared = conversations > 1;
        if attention.flash == FlashAttention::Off
            && matches!(attention.values, Some(CacheType::Q8_0 | CacheType::Q4_0))
        {
            let message = "values of fewer bits need flash attention: leave it on, or keep values as f16";
            return Err(Error::new(Kind::Context, message));
        }
        let memory = model.memory();
        // Where cells are shared, llama.cpp writes over those that are behind the window of their sequence.
        let shares_cells = shared && memory.has_all();
        let plan =
            Plan { numerics: options.numerics, attention, sequences, batch_len, threads, shares_cells };
        let grows = !(shared || is_gpu || attention.rope.is_some()) && model.computes_alike_in_any_context();
        let cells = if grows { len.min(FIRST) } else { len };
        let context = plan.open(model, cells)?;
        let cells = context.n_ctx() as usize / sequences;
        let len = if grows { cells.max(len as usize) } else { cells };
        let batch_len = (context.n_batch().min(context.n_ubatch()).max(1)) as usize;
        // Of recurrent layers nothing was measured.
        let others = is_gpu || model.inner().adapter.is_some() || memory.has_summary;
        let kernels = Kernels::of(others, model.inner().layout, &attention);
        let exact_len = match options.numerics {
            Numerics::Exact if !shared => kernels.exact_len.min(batch_len),
            // Shared batches are not exact, however narrow their parts are.
            Numerics::Exact | Numerics::Fast => batch_len,
        };
        // Only an exact context has choices to confirm.
        let is_exact = options.numerics == Numerics::Exact && !shared;
        let noise = kernels.noise.filter(|_| is_exact);
        let state_key = {
            let (version, system) = (state::LLAMA_CPP, state::system());
            let cells = if shared { ", shared cells" } else { "" };
            let layout = model.inner().layout;
            let device = if is_gpu { format!(" on {}", model.device()) } else { String::new() };
            let kept = match attention == Attention::default() {
                true => String::new(),
                false => format!(", {attention:?}"),
            };
            let adapter = match &model.inner().adapter {
                Some(adapter) => format!(", {}", adapter.label()),
                None => String::new(),
            };
            format!(
                "llama-cpp-sys-2 {version}; {:?}, {layout:?}{device}, {threads} threads, batches of {batch_len}{cells}{kept}{adapter}; \
                 {system}",
                options.numerics
            )
        };
        Ok(Self {
            plan,
            cells,
            len,
            inner: context,
            model: model.clone(),
            batch: LlamaBatch::new(batch_len, 1),
            batch_len,
            exact_len,
            noise,
            attention,
            texts: Arc::new(Texts::new(sequences, memory.has_summary)),
            state_key,
            copied: None,
            costs: Costs::UNKNOWN,
        })
    }

    /// The number of tokens in a sequence.
    pub(crate) fn held(&self, sequence: usize) -> usize {
        self.texts.held(sequence)
    }

    /// Evaluates parts of different sequences in one batch. Returns the numbers of the rows of logits of each part.
    pub(crate) fn eval(&mut self, parts: &[Part<'_>]) -> Result<Vec<Vec<i32>>, toolgate_infer::Error> {
        for part in parts {
            self.cut(part.sequence, part.after)?;
            if self.held(part.sequence) != part.after || part.after + part.tokens.len() > self.len {
                return Err(failed("batch exceeds the context"));
            }
        }
        let needed = parts.iter().map(|part| part.after + part.tokens.len()).max().unwrap_or(0);
        self.grow(needed)?;
        let rows = self.fill(parts)?;
        let started = Instant::now();
        if let Err(error) = self.inner.decode(&mut self.batch) {
            // A part of the batch may be in the cache: the positions behind the earlier tokens must be empty again.
            for part in parts {
                self.erase(part.sequence, part.after)?;
            }
            return Err(failed("llama.cpp could not evaluate a batch").because(error));
        }
        self.copied = None;
        for part in parts {
            self.texts.extend(part.sequence, part.tokens);
        }
        for part in parts {
            let (held, last) =
                (self.held(part.sequence), self.texts.last_checkpoint(part.sequence, usize::MAX));
            if held >= last.map_or(0, |(len, _)| len) + BETWEEN_CHECKPOINTS {
                self.checkpoint(part.sequence)?;
            }
        }
        let tokens = parts.iter().map(|part| part.tokens.len()).sum();
        // Parts of prompts are wider. Their times do not count for the batches of turns.
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

    /// Cuts a sequence to `len` tokens if it has more. Where a part cannot be cut, it goes back to the checkpoint in front of that, or
    /// empties the sequence; the caller evaluates the rest again. That is so with recurrent layers, and behind the state of a window.
    pub(crate) fn cut(&mut self, sequence: usize, len: usize) -> Result<(), toolgate_infer::Error> {
        if len < self.held(sequence) { self.erase(sequence, len) } else { Ok(()) }
    }

    fn erase(&mut self, sequence: usize, len: usize) -> Result<(), toolgate_infer::Error> {
        let kept = self.texts.kept(sequence, len);
        let number =
            |n: usize| u32::try_from(n).map_err(|error| failed("position is too large").because(error));
        let id = Some(number(sequence)?);
        let failed = |error| failed("cache could not be cut").because(error);
        // The other layers are cut to what the recurrent ones are put back to.
        let is_back = match self.texts.checkpoint(sequence, kept) {
            Some(checkpoint) => self.read(sequence, &checkpoint, LlamaStateSeqFlags::PARTIAL_ONLY)?,
            None => true,
        };
        let is_cut = kept > 0
            && is_back
            && self.inner.clear_kv_cache_seq(id, Some(number(kept)?), None).map_err(failed)?;
        if !is_cut {
            self.inner.clear_kv_cache_seq(id, None, None).map_err(failed)?;
        }
        self.texts.truncate(sequence, if is_cut { kept } else { 0 });
        Ok(())
    }

    /// Keeps the summary that recurrent layers have of a sequence now.
    pub(crate) fn checkpoint(&mut self, sequence: usize) -> Result<(), toolgate_infer::Error> {
        let held = self.held(sequence);
        if !self.model.memory().has_summary || held == 0 || self.texts.checkpoint(sequence, held).is_some() {
            return Ok(());
        }
        let state = self.written(sequence, LlamaStateSeqFlags::PARTIAL_ONLY)?;
        if let Some(state) = state.filter(|state| state::is_checkpoint(state, held, self.model.memory())) {
            self.texts.add_checkpoint(sequence, held, state);
        }
        Ok(())
    }

    /// Makes a sequence the first `len` tokens of another one, or all of them where a part cannot be had.
    pub(crate) fn copy(&mut self, from: usize, to: usize, len: usize) -> Result<(), toolgate_infer::Error> {
        self.cut(to, 0)?;
        if self.model.memory().has_summary {
            // Copies that are put off could not be done by an evaluation that is then forgotten.
            let (state, tokens) = (self.state(from)?, self.texts.tokens(from));
            if let Some(state) = state
                && self.restore_state(to, &state, &tokens)?
            {
                self.texts.copy(from, to);
            }
            return self.cut(to, len);
        }
        self.copied = (!self.plan.shares_cells).then_some(to);
        self.inner
            .copy_kv_cache_seq(sequence_id(from)?, sequence_id(to)?, None, None)
            .map_err(|error| failed("cache could not be copied").because(error))?;
        self.texts.copy(from, to);
        self.cut(to, len)
    }

    /// Makes llama.cpp do the copies that it has put off. Later it would copy other content of the same cells.
    fn settle(&mut self) -> Result<(), toolgate_infer::Error> {
        let Some(sequence) = self.copied else { return Ok(()) };
        // It does them when it evaluates. So this evaluates the last token again, or any token, which it then forgets.
        let (held, last) = (self.held(sequence), self.texts.last(sequence).unwrap_or(0));
        let part = Part { sequence, after: held.saturating_sub(1), tokens: &[last], rows: Rows::None };
        self.eval(&[part])?;
        self.cut(sequence, held)
    }

    /// The state of a sequence; none where it cannot be saved. With recurrent layers the last checkpoint comes with it.
    pub(crate) fn save(&mut self, sequence: usize) -> Result<Option<Vec<u8>>, toolgate_infer::Error> {
        let Some(state) = self.state(sequence)? else { return Ok(None) };
        if !self.model.memory().has_summary {
            return Ok(Some(state));
        }
        let checkpoint = self.texts.last_checkpoint(sequence, self.held(sequence).saturating_sub(1));
        let checkpoint = checkpoint.as_ref().map(|(len, state)| (*len, state.as_slice()));
        Ok(Some(state::with_checkpoint(&state, checkpoint)))
    }

    /// Restores a sequence from the state of `tokens`. Returns whether the sequence holds them now.
    pub(crate) fn restore(
        &mut self,
        sequence: usize,
        state: &[u8],
        tokens: &[TokenId],
    ) -> Result<bool, toolgate_infer::Error> {
        if !self.model.memory().has_summary {
            return self.restore_state(sequence, state, tokens);
        }
        let Some((state, checkpoint)) = state::parts(state) else {
            self.erase(sequence, 0)?;
            return Ok(false);
        };
        if !self.restore_state(sequence, state, tokens)? {
            return Ok(false);
        }
        match checkpoint {
            Some((len, state))
                if len < tokens.len() && state::is_checkpoint(state, len, self.model.memory()) =>
            {
                self.texts.add_checkpoint(sequence, len, state.to_vec());
            }
            _ => {}
        }
        self.checkpoint(sequence)?;
        Ok(true)
    }

    /// The state of a sequence as llama.cpp writes it; none where it has no tokens.
    fn state(&mut self, sequence: usize) -> Result<Option<Vec<u8>>, toolgate_infer::Error> {
        let held = self.held(sequence);
        if held == 0 {
            return Ok(None);
        }
        self.settle()?;
        let state = self.written(sequence, LlamaStateSeqFlags::empty())?;
        Ok(state.filter(|state| self.floor(state, held).is_some()))
    }

    fn restore_state(
        &mut self,
        sequence: usize,
        state: &[u8],
        tokens: &[TokenId],
    ) -> Result<bool, toolgate_infer::Error> {
        self.settle()?;
        self.erase(sequence, 0)?;
        let len = tokens.len();
        let Some(floor) = self.floor(state, len).filter(|_| len <= self.len) else { return Ok(false) };
        self.grow(len)?;
        let is_taken = self.read(sequence, state, LlamaStateSeqFlags::empty())?;
        let last = i32::try_from(len).unwrap_or(i32::MAX) - 1;
        if !is_taken || self.inner.kv_cache_seq_pos_max(sequence_id(sequence)?) != last {
            self.erase(sequence, 0)?;
            return Ok(false);
        }
        self.texts.set(sequence, tokens, floor);
        Ok(true)
    }

    /// What llama.cpp writes of a sequence.
    #[expect(unsafe_code, reason = "llama-cpp-2's safe form does not give the bytes away")]
    fn written(
        &mut self,
        sequence: usize,
        what: LlamaStateSeqFlags,
    ) -> Result<Option<Vec<u8>>, toolgate_infer::Error> {
        let id = sequence_id(sequence)?;
        let size = self.inner.state_seq_get_size_ext(id, what);
        let mut state = vec![0; size];
        // SAFETY: the buffer has the size that llama.cpp just asked for, and nothing was evaluated in between.
        let written = unsafe { self.inner.state_seq_get_data_ext(state.as_mut_ptr(), id, what) };
        Ok((written == size).then_some(state))
    }

    /// Has llama.cpp read a state, whose positions were checked. Returns whether it took it.
    #[expect(unsafe_code, reason = "llama-cpp-2's safe form takes no bytes from a file")]
    fn read(
        &mut self,
        sequence: usize,
        state: &[u8],
        what: LlamaStateSeqFlags,
    ) -> Result<bool, toolgate_infer::Error> {
        let id = sequence_id(sequence)?;
        // SAFETY: llama.cpp reads within the slice it is given and holds what it reads against the shapes of its cache. The
        // positions, on which it would rely, are those of `state::floor` and `state::is_checkpoint`.
        Ok(unsafe { self.inner.state_seq_set_data_ext(state, id, what) })
    }

    fn floor(&self, state: &[u8], len: usize) -> Option<usize> {
        state::floor(state, len, self.model.memory())
    }
}

fn sequence_id(sequence: usize) -> Result<i32, toolgate_infer::Error> {
    i32::try_from(sequence).map_err(|error| failed("no such sequence").because(error))
}

pub(crate) fn failed(message: impl Into<String>) -> toolgate_infer::Error {
    toolgate_infer::Error::new(InferKind::Backend, message)
}
