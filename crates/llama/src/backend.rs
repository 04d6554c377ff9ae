//! A slot of a context as a [`Backend`]: it takes batches, gives logits, and cuts its KV cache.
//!
//! Invariant: the first `held` tokens of each of its sequences are in the cache, whatever failed before. In a shared context
//! the cache may hold more until the next evaluation: a cut at once would wait for the batch of other slots.

use std::fmt;
use std::sync::Arc;

use toolgate_grammar::{TokenId, Vocabulary};
use toolgate_infer::{Attention, Backend, Footprint, Rows, Specials};

use crate::context::{Context, Part, SEQUENCES, failed};
use crate::scheduler::{Scheduler, Slot};
use crate::{ContextOptions, Error, Kind, Model};

type Result<T> = std::result::Result<T, toolgate_infer::Error>;

/// A slot with a few sequences.
///
/// ```no_run
/// use toolgate_infer::{Backend, Footprint, Rows, Specials};
/// use toolgate_llama::{ContextOptions, Model, ModelOptions};
///
/// let model = Model::load("qwen2.5-coder-0.5b.gguf", ModelOptions::default())?;
/// let mut backend = model.backend(&ContextOptions { context: Some(4_096), ..ContextOptions::default() })?;
/// assert_eq!((backend.context_len(), backend.model().size()), (4_096, model.size()));
/// let tokens = backend.tokenize("fn main() {", Specials::Plain)?;
/// backend.eval(&tokens, Rows::Last)?;
/// assert_eq!(backend.logits(0)?.len(), model.vocabulary().len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LlamaBackend {
    place: Place,
    model: Model,
    /// Tokens of each sequence.
    held: [usize; SEQUENCES],
    current: usize,
    facts: Facts,
}

/// The properties of a context for each slot.
#[derive(Clone)]
struct Facts {
    context_len: usize,
    batch_len: usize,
    /// Most tokens of a batch while others evaluate in the same context.
    share_len: usize,
    exact_len: usize,
    noise: Option<f32>,
    attention: Attention,
    state_key: String,
    cuts_anywhere: bool,
}

impl Facts {
    fn of(context: &Context, share_len: usize) -> Self {
        Self {
            context_len: context.len,
            batch_len: context.batch_len,
            share_len,
            exact_len: context.exact_len.min(share_len),
            noise: context.noise,
            attention: context.attention,
            state_key: context.state_key.clone(),
            cuts_anywhere: !context.model.memory().has_summary,
        }
    }
}

/// Where the tokens of a slot are evaluated.
enum Place {
    /// In a context of its own, with the numbers of the last batch's rows there.
    Alone(Box<Context>, Vec<i32>),
    /// In a context with other slots, with the logits of its own part of the last batch.
    Beside { slot: Slot, logits: Vec<f32>, further: f64 },
}

impl fmt::Debug for LlamaBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (model, held) = (&self.model, self.evaluated());
        f.debug_struct("LlamaBackend").field("model", model).field("held", &held).finish_non_exhaustive()
    }
}

impl LlamaBackend {
    /// A slot with a context to itself.
    pub(crate) fn alone(model: &Model, options: &ContextOptions) -> std::result::Result<Self, Error> {
        let context = Context::new(model, options, 1)?;
        let facts = Facts::of(&context, context.batch_len);
        Ok(Self::at(Place::Alone(Box::new(context), Vec::new()), model, facts))
    }

    /// Slots that share one context.
    pub(crate) fn beside_each_other(
        model: &Model,
        options: &ContextOptions,
        conversations: usize,
    ) -> std::result::Result<Vec<Self>, Error> {
        let context = Context::new(model, options, conversations)?;
        // A part of a prompt leaves room in the batch for tokens that other slots decode, and delays them little. Without other
        // slots it has the batch to itself.
        let facts = Facts::of(&context, (context.batch_len / SHARE).max(1));
        let further = context.costs.further(1);
        let slots = Scheduler::start(context, conversations).map_err(|error| {
            Error::new(Kind::Context, "no thread to evaluate in could be started").because(error)
        })?;
        let place = |slot| Place::Beside { slot, logits: Vec::new(), further };
        Ok(slots.into_iter().map(|slot| Self::at(place(slot), model, facts.clone())).collect())
    }

    fn at(place: Place, model: &Model, facts: Facts) -> Self {
        Self { place, model: model.clone(), held: [0; SEQUENCES], current: 0, facts }
    }

    /// The model it evaluates.
    pub fn model(&self) -> &Model {
        &self.model
    }

    fn set_held(&mut self, tokens: usize) {
        if let Some(held) = self.held.get_mut(self.current) {
            *held = tokens;
        }
    }

    /// The context's number of one of its sequences.
    fn number(&self, sequence: usize) -> Result<usize> {
        if sequence >= SEQUENCES {
            return Err(failed(format!("the context has no sequence {sequence}")));
        }
        Ok(sequence
            + match &self.place {
                Place::Alone(..) => 0,
                Place::Beside { slot, .. } => slot.first(),
            })
    }

    /// Forgets the logits of the last batch.
    fn forget_rows(&mut self) {
        match &mut self.place {
            Place::Alone(_, rows) => rows.clear(),
            Place::Beside { logits, .. } => logits.clear(),
        }
    }

    /// Changes the context, under its lock where it is shared.
    fn with<T>(&mut self, change: impl FnOnce(&mut Context) -> T) -> T {
        match &mut self.place {
            Place::Alone(context, _) => change(context),
            Place::Beside { slot, .. } => change(&mut slot.context()),
        }
    }
}

/// Of a batch divided by this, the prompt of one of several slots fills at most one part.
const SHARE: usize = 4;

impl Backend for LlamaBackend {
    fn vocabulary(&self) -> &Arc<Vocabulary> {
        self.model.vocabulary()
    }

    fn tokenize(&self, text: &str, specials: Specials) -> Result<Vec<TokenId>> {
        self.model.tokenize(text, specials)
    }

    fn context_len(&self) -> usize {
        self.facts.context_len
    }

    fn footprint(&self) -> Footprint {
        let trained = Some(self.model.reach(self.facts.attention.rope)).filter(|tokens| *tokens > 0);
        let token_bytes = self.model.token_bytes(&self.facts.attention).map(|bytes| bytes * SEQUENCES as u64);
        Footprint { token_bytes, trained }
    }

    fn batch_len(&self) -> usize {
        match &self.place {
            Place::Beside { slot, .. } if !slot.is_alone() => self.facts.share_len,
            _ => self.facts.batch_len,
        }
    }

    fn exact_batch_len(&self) -> usize {
        self.facts.exact_len
    }

    fn noise(&self) -> Option<f32> {
        self.facts.noise
    }

    fn token_cost(&self) -> f64 {
        match &self.place {
            Place::Alone(context, _) => context.costs.further(1),
            Place::Beside { further, .. } => *further,
        }
    }

    fn evaluated(&self) -> usize {
        self.held.get(self.current).copied().unwrap_or(0)
    }

    fn truncate(&mut self, len: usize) -> Result<usize> {
        if len < self.evaluated() {
            self.forget_rows();
            let sequence = self.number(self.current)?;
            if matches!(self.place, Place::Beside { .. }) && self.model.memory().has_all() {
                // The next evaluation cuts it.
                self.set_held(len);
            } else {
                let (cut, held) = self.with(|context| (context.cut(sequence, len), context.held(sequence)));
                self.set_held(held);
                cut?;
            }
        }
        Ok(self.evaluated())
    }

    fn eval(&mut self, tokens: &[TokenId], rows: Rows) -> Result<()> {
        if tokens.is_empty() {
            return Ok(());
        }
        let held = self.evaluated();
        if tokens.len() > self.facts.batch_len || held + tokens.len() > self.facts.context_len {
            return Err(failed("batch exceeds the context or the batch length"));
        }
        self.forget_rows();
        let part = Part { sequence: self.number(self.current)?, after: held, tokens, rows };
        let (evaluated, now) = match &mut self.place {
            Place::Alone(context, own) => {
                let rows = context.eval(std::slice::from_ref(&part));
                let evaluated = rows.map(|rows| *own = rows.into_iter().flatten().collect());
                (evaluated, context.held(part.sequence))
            }
            Place::Beside { slot, logits, further } => {
                let outcome = slot.eval(&part, std::mem::take(logits));
                let evaluated =
                    outcome.map(|outcome| (*logits, *further) = (outcome.logits, outcome.further));
                let now = match evaluated {
                    Ok(()) => held + tokens.len(),
                    // Where memory cannot be cut anywhere, a failed batch may have cost more than itself.
                    Err(_) => slot.context().held(part.sequence).min(held),
                };
                (evaluated, now)
            }
        };
        self.set_held(now);
        evaluated
    }

    fn sequences(&self) -> usize {
        SEQUENCES
    }

    fn fork(&mut self, sequence: usize, len: usize) -> Result<usize> {
        let (from, to, held) = (self.number(self.current)?, self.number(sequence)?, self.evaluated());
        if from != to {
            let copied = self.with(|context| context.copy(from, to, held).map(|()| context.held(to)))?;
            self.switch(sequence)?;
            self.set_held(copied);
        }
        self.truncate(len)
    }

    fn switch(&mut self, sequence: usize) -> Result<()> {
        self.number(sequence)?;
        self.forget_rows();
        self.current = sequence;
        Ok(())
    }

    fn state_key(&self) -> Option<String> {
        Some(self.facts.state_key.clone())
    }

    fn cuts_anywhere(&self) -> bool {
        self.facts.cuts_anywhere
    }

    fn kept(&self, sequence: usize, len: usize) -> usize {
        let texts = match &self.place {
            Place::Alone(context, _) => &context.texts,
            Place::Beside { slot, .. } => slot.texts(),
        };
        self.number(sequence).map_or(0, |number| texts.kept(number, len))
    }

    fn checkpoint(&mut self) -> Result<()> {
        if self.facts.cuts_anywhere {
            return Ok(());
        }
        let (sequence, held) = (self.number(self.current)?, self.evaluated());
        self.with(|context| {
            context.cut(sequence, held)?;
            context.checkpoint(sequence)
        })
    }

    fn cuts_saved(&mut self) -> Option<Vec<usize>> {
        let memory = self.model.memory();
        if memory.has_all() {
            return None;
        }
        let (sequence, most) = (self.number(self.current).ok()?, self.evaluated().saturating_sub(1));
        let length = match memory.has_summary {
            false => Some(most),
            true => self.with(|context| context.texts.last_checkpoint(sequence, most)).map(|(len, _)| len),
        };
        Some(length.into_iter().collect())
    }

    fn save(&mut self) -> Result<Option<Vec<u8>>> {
        let (sequence, held) = (self.number(self.current)?, self.evaluated());
        self.with(|context| {
            context.cut(sequence, held)?;
            context.save(sequence)
        })
    }

    fn restore(&mut self, state: &[u8], tokens: &[TokenId]) -> Result<bool> {
        let sequence = self.number(self.current)?;
        self.forget_rows();
        let restored = self.with(|context| context.restore(sequence, state, tokens));
        self.set_held(if matches!(restored, Ok(true)) { tokens.len() } else { 0 });
        restored
    }

    fn lent(&self, prompt: &[TokenId]) -> usize {
        match &self.place {
            Place::Alone(..) => 0,
            Place::Beside { slot, .. } => slot.lender(prompt).map_or(0, |(_, held)| held),
        }
    }

    fn borrow(&mut self, prompt: &[TokenId]) -> Result<usize> {
        let (to, held) = (self.number(self.current)?, self.evaluated());
        let Place::Beside { slot, logits, .. } = &mut self.place else { return Ok(held) };
        let lends = || slot.lender(prompt).filter(|&(_, more)| more > held);
        // The context may be locked for as long as a batch takes, so this locks it only if there is something to borrow.
        if lends().is_none() {
            return Ok(held);
        }
        let mut context = slot.context();
        let Some((from, more)) = lends() else { return Ok(held) };
        logits.clear();
        let copied = context.copy(from, to, more);
        let held = context.held(to);
        drop(context);
        self.set_held(held);
        copied.map(|()| held)
    }

    fn logits(&self, row: usize) -> Result<&[f32]> {
        let missing = || failed(format!("logits of row {row} were not asked for"));
        match &self.place {
            Place::Alone(context, rows) => rows.get(row).map(|&row| context.logits(row)).ok_or_else(missing),
            Place::Beside { logits, .. } => {
                logits.chunks_exact(self.vocabulary().len().max(1)).nth(row).ok_or_else(missing)
            }
        }
    }

    fn end_turn(&mut self) {
        if let Place::Beside { slot, .. } = &self.place {
            slot.rest();
        }
    }
}
