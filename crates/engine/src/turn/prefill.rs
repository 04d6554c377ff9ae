//! Prompts, rendered and evaluated: what a session holds already is reused, and so are beginnings kept on disk, or parts of them.
//!
//! Invariant: a prompt is evaluated up to the end of its beginning first, then on from there, whether the beginning
//! came from a pack or not: so the first turn of a process reads the same with the pack of another one and without.

use std::time::Instant;

use toolgate_chat::{Message, Opened, PromptOptions, ToolSpec, Transcript};
use toolgate_infer::{Backend, Prefill, Progress, Session, Specials, TokenId, common_len};

use crate::Error;
use crate::model::pool::lock;
use crate::model::recent::Recent;
use crate::prompt::disk_cache::{Extent, PromptCache, learned};
use crate::turn::changes::is_to_ask;
use crate::turn::lists::List;
use crate::turn::local::State;
use crate::turn::making::Making;
use crate::{Cancel, TurnEvent};

/// Tokens kept free after a prompt, so that there is room for an answer.
pub(crate) const RESERVE: usize = 256;
/// Tokens that are worth saving where a turn is given up: some seconds of evaluation.
const WORTH_SAVING: usize = 256;
/// Beginnings that are remembered.
const KEPT: usize = 64;
/// What a user says in two prompts, to see how far they are the same whatever is said.
const ANYTHING: [&str; 2] = ["1", "x"];

/// What was saved last of a beginning, and when.
struct Saved {
    tokens: usize,
    at: Instant,
}

/// When a part of a beginning is saved.
#[derive(Clone, Copy)]
enum When {
    Underway,
    GivenUp,
}

/// Beginnings of prompts that any task has: how many messages are in it, and its tokens.
pub(crate) struct Beginnings(Recent<(usize, Vec<TokenId>), ()>);

impl Default for Beginnings {
    fn default() -> Self {
        Self(Recent::new(KEPT))
    }
}

impl Beginnings {
    /// The longest known one of a prompt with so many messages in front.
    fn of(&mut self, prompt: &[TokenId], front: usize) -> Option<usize> {
        let known =
            self.0.keys().filter(|(messages, tokens)| *messages == front && prompt.starts_with(tokens));
        let longest = known.map(|(_, tokens)| tokens.len()).max()?;
        let is_it = |(messages, tokens): &(usize, Vec<TokenId>)| {
            *messages == front && tokens.len() == longest && prompt.starts_with(tokens)
        };
        self.0.find(is_it).map(|()| longest)
    }

    fn put(&mut self, front: usize, tokens: &[TokenId]) {
        self.0.put((front, tokens.to_vec()), ());
    }
}

impl<B: Backend + Send> Making<'_, B> {
    /// Renders and evaluates a prompt, reusing what is evaluated already; a thought that it opens stays open where the turn thinks.
    pub(crate) fn prefill(
        &mut self,
        state: &mut State<B>,
        transcript: &Transcript,
        tools: &[ToolSpec],
    ) -> Result<(), Error> {
        self.prefill_ahead(state, transcript, tools, &[])
    }

    /// [`prefill`](Self::prefill), with what the turn begins with in the same batch.
    pub(crate) fn prefill_ahead(
        &mut self,
        state: &mut State<B>,
        transcript: &Transcript,
        tools: &[ToolSpec],
        ahead: &[TokenId],
    ) -> Result<(), Error> {
        let opened = if self.plan.opened.is_some() { Opened::Keep } else { Opened::Close };
        self.prefill_opened(state, transcript, tools, opened, ahead)
    }

    /// [`prefill`](Self::prefill), with no thought behind it.
    pub(crate) fn prefill_silent(
        &mut self,
        state: &mut State<B>,
        transcript: &Transcript,
        tools: &[ToolSpec],
    ) -> Result<(), Error> {
        self.prefill_opened(state, transcript, tools, Opened::Close, &[])?;
        self.thought_here = true;
        Ok(())
    }

    fn prefill_opened(
        &mut self,
        state: &mut State<B>,
        transcript: &Transcript,
        tools: &[ToolSpec],
        opened: Opened,
        ahead: &[TokenId],
    ) -> Result<(), Error> {
        let begun = self.begun().map(str::to_owned);
        let opened = if begun.is_none() { opened } else { Opened::Close };
        let extra = self.plan.values.clone();
        let options = PromptOptions { reasoning: opened, begun, extra, ..PromptOptions::default() };
        let tokens = self.rendered(&state.session, transcript, tools, &options)?;
        let prefill = self.evaluate(state, transcript, tools, opened, (&tokens, ahead), true)?;
        self.ahead = ahead.len();
        self.note_prompt(&tokens);
        self.stats.prompt_tokens += prefill.prompt_tokens;
        self.stats.cached_tokens += prefill.cached_tokens;
        self.stats.ms.prefill += prefill.ms;
        (self.events)(TurnEvent::Prompted(tokens));
        Ok(())
    }

    /// Evaluates a prompt that the model is asked about itself with, and that is no part of the conversation.
    pub(crate) fn probe(
        &mut self,
        state: &mut State<B>,
        transcript: &Transcript,
        tools: &[ToolSpec],
    ) -> Result<(), Error> {
        let tokens = self.prompt(&state.session, transcript, tools, Opened::Close)?;
        let prefill = self.evaluate(state, transcript, tools, Opened::Close, (&tokens, &[]), false)?;
        self.stats.ms.prefill += prefill.ms;
        Ok(())
    }

    /// Whether the request asks for a change ([`Thresholds::changing`](crate::Thresholds)), where that counts. Where it was not known
    /// before, the session has moved to another prompt.
    pub(crate) fn wishes(&mut self, state: &mut State<B>, call: bool) -> Result<bool, Error> {
        if !is_to_ask(self.request, call) {
            return Ok(false);
        }
        let Some(list) = List::change(self.request.transcript) else { return Ok(false) };
        let told = self.answered(state, &list)?;
        Ok(told.p() >= self.engine.options.thresholds.changing)
    }

    /// The tokens of a prompt.
    pub(crate) fn prompt(
        &self,
        session: &Session<B>,
        transcript: &Transcript,
        tools: &[ToolSpec],
        reasoning: Opened,
    ) -> Result<Vec<TokenId>, Error> {
        let extra = self.plan.values.clone();
        let options = PromptOptions { reasoning, extra, ..PromptOptions::default() };
        self.rendered(session, transcript, tools, &options)
    }

    fn rendered(
        &self,
        session: &Session<B>,
        transcript: &Transcript,
        tools: &[ToolSpec],
        options: &PromptOptions,
    ) -> Result<Vec<TokenId>, Error> {
        let prompt = self.engine.dialogue.prompt(transcript, tools, options)?;
        let mut tokens = Vec::new();
        for piece in &prompt.pieces {
            tokens.extend(session.backend().tokenize(piece, Specials::Parse)?);
        }
        Ok(tokens)
    }

    /// Makes the session hold a prompt: its beginning, from a pack if there is one, then the rest with what is ahead.
    fn evaluate(
        &mut self,
        state: &mut State<B>,
        transcript: &Transcript,
        tools: &[ToolSpec],
        reasoning: Opened,
        (prompt, ahead): (&[TokenId], &[TokenId]),
        shown: bool,
    ) -> Result<Prefill, Error> {
        let beginning = self.beginning(&state.session, transcript, tools, reasoning, prompt)?;
        let State { session, .. } = state;
        let (cancel, events) = (self.cancel, &mut *self.events);
        let total = prompt.len();
        let mut show = |progress: Progress| {
            if shown {
                events(TurnEvent::Prefill { done: progress.done, tokens: total, cached: progress.cached });
            }
        };
        let mut front = Prefill::default();
        let common = prompt.get(..beginning).unwrap_or_default();
        if PromptCache::is_worth(beginning) && session.held(common) < beginning {
            let started = Instant::now();
            // While it waits for others, none of their batches need wait for it.
            session.end_turn();
            let _entry = self.engine.underway.enter(common, || session.held(common), cancel)?;
            // An overflow is told of the whole prompt, below.
            let fits = total + RESERVE <= session.backend().context_len();
            if session.held(common) < beginning && !self.engine.restored(session, common)? && fits {
                front = self.engine.begin(session, common, cancel, &mut show)?;
                self.engine.saved(session, Extent::Whole)?;
            }
            front.ms = started.elapsed().as_secs_f64() * 1e3;
        }
        if shown {
            self.beginning = beginning;
        }
        let evaluated = front.evaluated_tokens;
        let mut rest = session.set_prompt_ahead(prompt, ahead, RESERVE, cancel, &mut |progress| {
            // What was evaluated just now was not there before.
            show(Progress { cached: progress.cached.saturating_sub(evaluated), ..progress });
        })?;
        rest.cached_tokens = rest.cached_tokens.saturating_sub(evaluated);
        rest.evaluated_tokens += evaluated;
        rest.ms += front.ms;
        Ok(rest)
    }

    /// How many tokens a prompt has in common with those of any other task: what is the same whatever the user says.
    fn beginning(
        &self,
        session: &Session<B>,
        transcript: &Transcript,
        tools: &[ToolSpec],
        reasoning: Opened,
        prompt: &[TokenId],
    ) -> Result<usize, Error> {
        let messages = transcript.messages();
        let system = usize::from(matches!(messages.first(), Some(Message::System(_))));
        let demonstrations = self.demonstrations.messages(self.request.tools);
        let shown = messages.get(system..).is_some_and(|behind| behind.starts_with(&demonstrations));
        let front = system + if shown { demonstrations.len() } else { 0 };
        if let Some(known) = lock(&self.engine.learned.beginnings).of(prompt, front) {
            return Ok(known);
        }
        let mut common = prompt;
        for text in ANYTHING {
            let other: Transcript =
                messages.iter().take(front).cloned().chain([Message::User(text.to_owned())]).collect();
            let other = self.prompt(session, &other, tools, reasoning)?;
            let same = common_len(common, &other);
            common = common.get(..same).unwrap_or_default();
        }
        lock(&self.engine.learned.beginnings).put(front, common);
        Ok(common.len())
    }
}

impl<B: Backend + Send> crate::LocalEngine<B> {
    /// Puts back what a pack has of `tokens`; whether that is all of them.
    pub(crate) fn restored(&self, session: &mut Session<B>, tokens: &[TokenId]) -> Result<bool, Error> {
        let (Some(packs), Some(key)) = (&self.packs, session.backend().state_key()) else { return Ok(false) };
        let room = session.backend().context_len();
        let Some((found, state)) = packs.find(&key, tokens, session.held(tokens), room) else {
            return Ok(false);
        };
        if !session.restore(&found, &state)? {
            packs.forget(&key, &found);
            return Ok(false);
        }
        Ok(found.starts_with(tokens))
    }

    /// The bias towards so many tools that was learned from these probes, in this process or another.
    pub(crate) fn known_bias(
        &self,
        session: &Session<B>,
        probes: &[TokenId],
        tools: usize,
    ) -> Option<Vec<f64>> {
        let key = learned(&session.backend().state_key()?);
        let (_, state) = self.packs.as_ref()?.find_exactly(&key, probes)?;
        let (weights, rest) = state.as_chunks();
        let bias: Vec<f64> = weights.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect();
        (rest.is_empty() && bias.len() == tools && bias.iter().all(|weight| weight.is_finite()))
            .then_some(bias)
    }

    /// Keeps the bias that was learned from these probes.
    pub(crate) fn keep_bias(&self, session: &Session<B>, probes: &[TokenId], bias: &[f64]) {
        if let (Some(packs), Some(key)) = (&self.packs, session.backend().state_key()) {
            let state: Vec<u8> = bias.iter().flat_map(|weight| weight.to_le_bytes()).collect();
            packs.save(&learned(&key), probes, &state, Extent::Whole);
        }
    }

    /// Evaluates what prompts begin with. That may take minutes: what is there by then is saved every now and then, so that a
    /// crash does not cost all of it, and when the turn is cancelled, so that the next process goes on from there. (This one does
    /// in any case: the session holds it.) Parts end where batches do: what is evaluated behind them is the same.
    fn begin(
        &self,
        session: &mut Session<B>,
        beginning: &[TokenId],
        cancel: &Cancel,
        show: &mut dyn FnMut(Progress),
    ) -> Result<Prefill, Error> {
        let (mut whole, mut shown) = (None, None);
        let mut saved = Saved { tokens: session.held(beginning), at: Instant::now() };
        loop {
            let batch = session.backend().batch_len().max(1);
            let end = session.held(beginning).saturating_add(batch).min(beginning.len());
            let part = beginning.get(..end).unwrap_or_default();
            let evaluated = session.set_beginning(part, RESERVE, cancel, &mut |progress| {
                let cached = whole.map_or(progress.cached, |whole: Prefill| whole.cached_tokens);
                if shown.replace(progress.done) != Some(progress.done) {
                    show(Progress { cached, ..progress });
                }
            });
            let evaluated = match evaluated {
                Ok(evaluated) => evaluated,
                Err(error) => {
                    self.saved_part(session, beginning, &mut saved, When::GivenUp)?;
                    return Err(error.into());
                }
            };
            let so_far = *whole.get_or_insert(Prefill { evaluated_tokens: 0, ..evaluated });
            let evaluated_tokens = so_far.evaluated_tokens + evaluated.evaluated_tokens;
            let so_far = Prefill { prompt_tokens: end, evaluated_tokens, ..so_far };
            whole = Some(so_far);
            if end == beginning.len() {
                return Ok(so_far);
            }
            self.saved_part(session, beginning, &mut saved, When::Underway)?;
        }
    }

    /// Saves what the session holds of a beginning, where that is due.
    fn saved_part(
        &self,
        session: &mut Session<B>,
        beginning: &[TokenId],
        saved: &mut Saved,
        when: When,
    ) -> Result<(), Error> {
        let Some(packs) = &self.packs else { return Ok(()) };
        let tokens = session.tokens().len();
        let is_due = match when {
            When::Underway => {
                saved.at.elapsed() >= packs.every() && tokens >= saved.tokens + saved.tokens / 4
            }
            When::GivenUp => tokens >= saved.tokens + WORTH_SAVING,
        };
        if is_due && beginning.starts_with(session.tokens()) {
            self.saved(session, Extent::Part)?;
            *saved = Saved { tokens, at: Instant::now() };
        }
        Ok(())
    }

    /// Keeps what the session holds.
    pub(crate) fn saved(&self, session: &mut Session<B>, extent: Extent) -> Result<(), Error> {
        let (Some(packs), Some(key)) = (&self.packs, session.backend().state_key()) else { return Ok(()) };
        if let Some(state) = session.save()? {
            packs.save(&key, session.tokens(), &state, extent);
        }
        Ok(())
    }
}
