//! The engine on this machine: a backend, the model's own dialogue, and the decision between call and answer.
//!
//! A turn: render the prompt with the tools · evaluate what is not in the cache · read the probability of a call ·
//! write the call in canonical form, or the answer from a view that holds only the question and the results.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use toolgate_chat::fallback::{self, Stream};
use toolgate_chat::format::Start;
use toolgate_chat::{
    Dialogue, Message, Opened, ParsedTurn, Primer, RunEnd, Template, TemplateTokens, ToolChoice, ToolName,
    ToolSpec, Transcript,
};
use toolgate_grammar::{Budgeted, Grammar, TokenId, Vocabulary};
use toolgate_infer::scripted::Scripted;
use toolgate_infer::{
    Backend, Budget, Constraint as Limit, DecodeOptions, Decoded, Free, Further, Openings, Piece, Sampler,
    SamplerOptions, Session, States, Stats, StopReason, TurnDecision, common_len, decode,
};

use crate::constraint::automata::{Cache, FormKey, Side, TurnAutomata};
use crate::model::pool::Pool;
use crate::models::Sha256Digest;
use crate::profile::options::{AnswerView, Options};
use crate::prompt::packs::Packs;
use crate::prompt::prefill::Beginnings;
use crate::prompt::room::Room;
use crate::prompt::underway::Underway;
use crate::turn::answer::openings_beside_json;
use crate::turn::changes::{May, Wishes, unled};
use crate::turn::choose::{Biases, held_to, opening_of_all};
use crate::turn::doubt::{Doubted, ECHOED, EXCUSED, is_doubted, is_echo};
use crate::turn::invented::Known;
use crate::turn::recover::recover;
use crate::turn::repeats::{REPEATED, REQUIRED, drop_repeats, in_place_of, without_repeats};
use crate::turn::results::{addition, instead};
use crate::turn::shown::{Shown, ShownCalls};
use crate::{AnswerForm, Cancel, Constraint, Engine, Facts, Penalties, Turn, TurnEvent, TurnRequest};
use crate::{Error, Kind};

/// Makes a constraint of another engine from our grammar.
pub(crate) type Reference = Box<dyn Fn(&Grammar) -> Result<Box<dyn Limit + Send>, Error> + Send + Sync>;

/// A model on this machine. As many turns at a time as it has conversations, one unless more are asked for; others wait.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_engine::{Cancel, Engine, LocalEngine, Options, Sampling, TurnEvent, TurnRequest};
/// use toolgate_chat::{Dialogue, Message, Template, TemplateTokens, Transcript};
/// use toolgate_infer::{Vocabulary, scripted::Scripted};
///
/// let template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>";
/// let dialogue = Dialogue::derived(Template::new(template, TemplateTokens::default())?);
/// // A model without weights, for tests: it wants to say what its script says.
/// let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).on("capital of Norway", "Oslo.");
/// let engine = LocalEngine::new("scripted", model, dialogue, Options::default());
///
/// let transcript = Transcript::new().with(Message::User("What is the capital of Norway?".into()));
/// let (sampling, mut shown) = (Sampling::default(), String::new());
/// let request = TurnRequest::new(&transcript, &[], &sampling);
/// engine.turn(&request, &Cancel::default(), &mut |event| {
///     if let TurnEvent::Text(piece) = event {
///         shown.push_str(&piece);
///     }
/// })?;
/// assert_eq!(shown, "Oslo.");
/// # Ok::<(), toolgate_engine::Error>(())
/// ```
pub struct LocalEngine<B> {
    name: String,
    /// Beside the state, so that an event's tokens can be read while their turn is made.
    pub(crate) vocabulary: Arc<Vocabulary>,
    pub(crate) dialogue: Dialogue,
    pub(crate) options: Options,
    /// Whether a control token ends the model's reasoning.
    pub(crate) closes_by_token: bool,
    openings: Openings,
    /// Those that count where answers are JSON.
    openings_beside_json: Openings,
    /// llama.cpp's own grammar sampler, where the backend has it.
    reference: Option<Reference>,
    pub(crate) conversations: Pool<State<B>>,
    /// What each of them has room for.
    room: Room,
    pub(crate) learned: Learned,
    pub(crate) underway: Underway,
    /// Where beginnings of prompts are kept from one process to the next.
    pub(crate) packs: Option<Packs>,
    load_ms: u64,
    /// The token that the model's texts begin with, where it was trained with one.
    pub(crate) begins_with: String,
}

/// A conversation, which one turn at a time changes.
pub(crate) struct State<B> {
    pub(crate) session: Session<B>,
    /// What its last turn was made of, to know who goes on with it.
    last: Transcript,
}

impl<B> State<B> {
    fn new(backend: B, states: &States) -> Self
    where
        B: Backend,
    {
        Self { session: Session::new(backend).keeping(states.clone()), last: Transcript::new() }
    }

    /// How many messages this conversation has of a transcript.
    pub(crate) fn fit(&self, transcript: &Transcript) -> usize {
        common_len(self.last.messages(), transcript.messages())
    }
}

/// What turns learn from each other.
#[derive(Default)]
pub(crate) struct Learned {
    automata: Cache,
    pub(crate) biases: Mutex<Biases>,
    pub(crate) beginnings: Mutex<Beginnings>,
    /// How likely requests are to ask for a change, by the list that ends with them.
    pub(crate) wishes: Mutex<Wishes>,
}

impl LocalEngine<Scripted> {
    /// An engine over a scripted model, with a template that knows of no tools: for examples, and for tests of what is
    /// built on engines. It needs no file.
    ///
    /// # Errors
    /// None that is known: the template is always the same.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_chat::{Message, Transcript};
    /// use toolgate_engine::{Cancel, Engine, LocalEngine, Options, Sampling, TurnRequest};
    /// use toolgate_infer::{Vocabulary, scripted::Scripted};
    ///
    /// let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).on("capital of Norway", "Oslo.");
    /// let engine = LocalEngine::scripted(model, Options::default())?;
    /// let asked = Message::User("What is the capital of Norway?".to_owned());
    /// let transcript = Transcript::new().with(asked);
    /// let sampling = Sampling::default();
    /// let request = TurnRequest::new(&transcript, &[], &sampling);
    /// let turn = engine.turn(&request, &Cancel::default(), &mut |_| {})?;
    /// assert_eq!(turn.parsed.content.as_deref(), Some("Oslo."));
    /// # Ok::<(), toolgate_engine::Error>(())
    /// ```
    pub fn scripted(model: Scripted, options: Options) -> Result<Self, Error> {
        const TEMPLATE: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>";
        let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default())?);
        Ok(Self::new("scripted", model, dialogue, options))
    }
}

impl<B: Backend + Send> LocalEngine<B> {
    /// An engine over any backend.
    pub fn new(name: impl Into<String>, backend: B, dialogue: Dialogue, options: Options) -> Self {
        Self::with_conversations(name, backend, [], dialogue, options)
    }

    /// An engine that makes as many turns at the same time as there are backends, all of the same model, such as those of
    /// `toolgate_llama::Model::backends`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use toolgate_engine::{LocalEngine, Options};
    /// # use toolgate_chat::{Dialogue, Template, TemplateTokens};
    /// # use toolgate_infer::{Vocabulary, scripted::Scripted};
    /// let template = Template::new("{% for m in messages %}{{ m.content }}{% endfor %}", TemplateTokens::default())?;
    /// let backend = Scripted::new(Arc::new(Vocabulary::bytes_only()));
    /// let others = vec![backend.clone(), backend.clone()];
    /// // Three conversations; a fourth turn at the same time waits.
    /// LocalEngine::with_conversations("scripted", backend, others, Dialogue::derived(template), Options::default());
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn with_conversations(
        name: impl Into<String>,
        backend: B,
        others: impl IntoIterator<Item = B>,
        dialogue: Dialogue,
        options: Options,
    ) -> Self {
        let texts = dialogue.format().openings();
        let openings = Openings::new(backend.vocabulary(), &texts);
        let openings_beside_json = openings_beside_json(backend.vocabulary(), &texts);
        let close = dialogue.knowledge().opens_reasoning.as_deref();
        let closes_by_token = close.is_some_and(|close| backend.vocabulary().special(close.trim()).is_some());
        let vocabulary = backend.vocabulary().clone();
        let states = States::new(options.prompt_memory);
        let others: Vec<_> = others.into_iter().map(|other| State::new(other, &states)).collect();
        let room = Room::of(&backend, 1 + others.len());
        let conversations = Pool::new(State::new(backend, &states), others);
        Self {
            name: name.into(),
            vocabulary,
            dialogue,
            options,
            closes_by_token,
            openings,
            openings_beside_json,
            reference: None,
            conversations,
            room,
            learned: Learned::default(),
            underway: Underway::default(),
            packs: None,
            load_ms: 0,
            begins_with: String::new(),
        }
    }

    /// Adds llama.cpp's grammar sampler, for [`Constraint::Llama`].
    #[cfg(feature = "llama")]
    pub(crate) fn with_reference(mut self, reference: Reference) -> Self {
        self.reference = Some(reference);
        self
    }

    /// Keeps the beginnings of prompts on disk, and takes them from there. What turns say is the same without.
    #[must_use]
    pub fn with_packs(mut self, packs: Packs) -> Self {
        self.packs = Some(packs);
        self
    }

    /// Notes the token that the model's texts begin with.
    #[cfg(feature = "llama")]
    pub(crate) fn beginning_with(mut self, bos: String) -> Self {
        self.begins_with = bos;
        self
    }

    /// Notes how long loading took, in milliseconds.
    #[cfg(feature = "llama")]
    pub(crate) fn loaded_in(mut self, ms: u64) -> Self {
        self.load_ms = ms;
        self
    }

    /// Milliseconds that loading the model took.
    pub fn load_ms(&self) -> u64 {
        self.load_ms
    }

    /// A side's constraint, where a turn begins; `None` is none.
    pub(crate) fn constraint(&self, side: Option<&Side>) -> Result<Box<dyn Limit>, Error> {
        Ok(match (side, self.options.constraint) {
            (None, _) | (_, Constraint::None) => Box::new(Free::new(self.vocabulary.clone())),
            (Some(side), Constraint::Grammar) => Box::new(Budgeted::new(side.automaton.matcher())),
            (Some(side), Constraint::Llama) => match &self.reference {
                Some(reference) => reference(&side.grammar)?,
                None => return Err(Error::input("this engine has no llama.cpp to run the grammar with")),
            },
        })
    }
}

impl<B: Backend + Send> Engine for LocalEngine<B> {
    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self) -> Facts {
        Facts {
            template: Sha256Digest::of(self.dialogue.template().source().as_bytes()).to_string(),
            options: format!("{:?}", self.options),
        }
    }

    fn room(&self) -> Option<Room> {
        Some(self.room)
    }

    fn text_of(&self, tokens: &[TokenId]) -> String {
        let vocabulary = &self.vocabulary;
        // A token that the vocabulary does not have can only come from a record of another model.
        let known = tokens.iter().filter(|&&token| (token as usize) < vocabulary.len());
        let bytes: Vec<u8> = known.flat_map(|&token| vocabulary.bytes(token)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn prompt_tokens(&self, request: &TurnRequest<'_>) -> Result<Option<usize>, Error> {
        let state = self.conversations.take(|state| state.fit(request.transcript));
        let tools = self.options.offered(request.tools);
        let request = &TurnRequest { tools: &tools, ..request.clone() };
        let (cancel, events) = (Cancel::default(), &mut |_| {});
        let mut making = Making::new(self, request, &cancel, events);
        if request.choice != ToolChoice::None && !request.tools.is_empty() {
            making.primer = making.primer(request.choice == ToolChoice::Auto);
        }
        let view = making.told_form(making.transcript());
        let opened = if self.reasons() { Opened::Keep } else { Opened::Close };
        let prompt = making.prompt(&state.session, &view, request.tools, opened)?;
        Ok(Some(prompt.len()))
    }

    fn turn(
        &self,
        request: &TurnRequest<'_>,
        cancel: &Cancel,
        events: &mut dyn FnMut(TurnEvent),
    ) -> Result<Turn, Error> {
        let mut state = self.conversations.take(|state| state.fit(request.transcript));
        state.last.clone_from(request.transcript);
        let tools = self.options.offered(request.tools);
        let request = &TurnRequest { tools: &tools, ..request.clone() };
        let mut making = Making::new(self, request, cancel, events);
        let turn = making.turn(&mut state);
        state.session.end_turn();
        turn.map_err(|error| self.room.explained(error))
    }
}

/// One turn being made.
pub(crate) struct Making<'a, B> {
    pub(crate) engine: &'a LocalEngine<B>,
    pub(crate) request: &'a TurnRequest<'a>,
    pub(crate) cancel: &'a Cancel,
    pub(crate) events: &'a mut dyn FnMut(TurnEvent),
    pub(crate) stats: Stats,
    /// Tokens the text being written can have.
    budget: usize,
    /// What the model thought before it spoke.
    pub(crate) thought: Option<String>,
    /// Tokens of the turn that the thought took.
    pub(crate) spent: usize,
    /// What the view that is evaluated begins with.
    pub(crate) primer: Primer,
    /// Whether nothing but settled calls was written.
    looped: bool,
    /// Tokens at the end of the session that are not the prompt's, but what the call begins with.
    pub(crate) ahead: usize,
}

impl<'a, B: Backend + Send> Making<'a, B> {
    fn new(
        engine: &'a LocalEngine<B>,
        request: &'a TurnRequest<'a>,
        cancel: &'a Cancel,
        events: &'a mut dyn FnMut(TurnEvent),
    ) -> Self {
        Self {
            engine,
            request,
            cancel,
            events,
            stats: Stats::default(),
            budget: 0,
            thought: None,
            spent: 0,
            primer: Primer::None,
            looped: false,
            ahead: 0,
        }
    }

    fn turn(&mut self, state: &mut State<B>) -> Result<Turn, Error> {
        let engine = self.engine;
        let offered = if self.request.choice == ToolChoice::None { &[] } else { self.request.tools };
        if engine.options.constraint == Constraint::None {
            if self.request.answer != AnswerForm::Text {
                return Err(Error::input(
                    "nothing constrains this engine, so its answers cannot be held to a form",
                ));
            }
            return self.unconstrained(state, offered);
        }
        if self.request.begun.is_some() {
            let automata = self.automata(&[], &ToolChoice::None, None)?;
            return self.answer(state, &automata, None);
        }
        let automata = self.automata(offered, &self.request.choice, None)?;
        let Some(call) = &automata.call else { return self.answer(state, &automata, None) };
        let thresholds = engine.options.thresholds.for_request(self.request);
        let threshold = thresholds.of(self.request);
        let names = self.names(state, offered)?;
        // No probability reaches a threshold above 1: the prompt that would give one need not be evaluated then.
        if automata.answer.is_some() && threshold > 1.0 && !self.wishes(state, false, &mut false)? {
            return self.answer(state, &automata, None);
        }
        if engine.reasons() {
            // Looked at later, it would take the place of what was thought.
            self.wishes(state, true, &mut false)?;
        }
        self.primer = self.primer(automata.answer.is_some());
        // What all calls begin with is evaluated with the prompt, where no answer can take its place.
        let opening = opening_of_all(&names);
        let sure = automata.answer.is_none() && !engine.reasons();
        self.prefill_ahead(
            state,
            &self.transcript(),
            offered,
            engine.reasons(),
            if sure { opening } else { &[] },
        )?;
        self.reason(state)?;
        // Where both sides are open, the model's own probabilities decide between them.
        let (mut decision, mut moved, mut may) = (None, false, May::ALL);
        if automata.answer.is_some() {
            let mut decided = self.decide(state, threshold)?;
            let own = decided.p_call >= unled(&thresholds, self.request);
            let wished = self.wishes(state, decided.call, &mut moved)?;
            may = May::of(self.request, decided.call, own, decided.p_call, wished);
            if may.is_nothing() {
                if self.thought.is_some() || !is_doubted(self.request, &thresholds, &decided) {
                    return self.answer(state, &automata, Some(decided));
                }
                if let Some(turn) = self.doubted(state, &automata, &decided)? {
                    return Ok(turn);
                }
                // An excuse was written in place of a call, which may be one that was asked for.
                let wished = self.wishes(state, true, &mut moved)?;
                (moved, may) = (true, May { look: true, change: wished, ..May::NOTHING });
            }
            if !decided.call {
                decided.call = true;
                (self.events)(TurnEvent::Decided(decided.clone()));
            }
            decision = Some(decided);
        }
        // What tells requests from talk does not help to write the call; examples do.
        let written = self.primer(false);
        let primed = std::mem::replace(&mut self.primer, written) != written;
        let learned = self.learn_bias(state, offered, &names)?;
        if primed {
            self.prefill_ahead(state, &self.transcript(), offered, false, opening)?;
        } else if learned || moved {
            // The same prompt again, which is nothing to tell: it is there but for what was looked at behind it.
            self.probe(state, &self.transcript(), offered)?;
            self.ahead = 0;
        }
        let (chosen, may) = self.choose(state, offered, &names, may)?;
        let Some(choice) = may.among(&self.request.choice, offered) else {
            return self.answer_instead(state, &automata, decision);
        };
        let held = match chosen {
            Some(tool) => {
                let (choice, first) = held_to(tool, self.parallel(), &choice);
                self.automata(offered, &choice, first)?.call
            }
            None if choice != self.request.choice => self.automata(offered, &choice, None)?.call,
            None => None,
        };
        let (mut decoded, mut parsed) = self.call(state, held.as_ref().unwrap_or(call))?;
        if let Some(others) = in_place_of(&parsed.calls, self.request, offered) {
            (self.events)(TurnEvent::Retry(REQUIRED.to_owned()));
            self.probe(state, &self.transcript(), offered)?;
            self.ahead = 0;
            if let Some(side) = self.automata(offered, &others, None)?.call {
                (decoded, parsed) = self.call(state, &side)?;
            }
        }
        if parsed.calls.len() > 1
            && let Some(known) = self.known()
        {
            known.leave(&mut parsed.calls);
        }
        match without_repeats(std::mem::take(&mut parsed.calls), self.request) {
            Some(calls) => parsed.calls = calls,
            None => {
                (self.events)(TurnEvent::Retry(REPEATED.to_owned()));
                (self.thought, self.spent) = (None, 0);
                let answer = self.automata(&[], &ToolChoice::None, None)?;
                return self.answer(state, &answer, decision);
            }
        }
        Ok(self.finish(decoded, parsed, decision))
    }
}

impl<B: Backend + Send> Making<'_, B> {
    /// The answer of a turn whose call would be none that may be made.
    fn answer_instead(
        &mut self,
        state: &mut State<B>,
        automata: &TurnAutomata,
        mut decision: Option<TurnDecision>,
    ) -> Result<Turn, Error> {
        if let Some(decided) = &mut decision {
            decided.call = false;
            (self.events)(TurnEvent::Decided(decided.clone()));
        }
        self.ahead = 0;
        self.answer(state, automata, decision)
    }

    /// Whether the turn is a call, by the model's own probabilities behind the prompt that was evaluated last.
    fn decide(&mut self, state: &State<B>, threshold: f64) -> Result<TurnDecision, Error> {
        let openings = match self.request.answer {
            AnswerForm::Text => &self.engine.openings,
            AnswerForm::Json(_) | AnswerForm::Grammar(_) => &self.engine.openings_beside_json,
        };
        let decision = openings.decide(state.session.logits()?, &self.engine.vocabulary, threshold);
        (self.events)(TurnEvent::Decided(decision.clone()));
        Ok(decision)
    }

    /// The answer, unless it is an excuse.
    fn doubted(
        &mut self,
        state: &mut State<B>,
        automata: &TurnAutomata,
        decision: &TurnDecision,
    ) -> Result<Option<Turn>, Error> {
        let Some(side) = &automata.answer else { return Ok(None) };
        let shown = Shown::Answer(Doubted::default());
        let decoded = self.decode(state, Some(side), &mut self.sampler()?, shown)?;
        if decoded.stop == StopReason::SinkStopped {
            (self.events)(TurnEvent::Retry(EXCUSED.to_owned()));
            return Ok(None);
        }
        let text = decoded.text.clone();
        Ok(Some(self.answered(decoded, &text, Some(decision.clone()))))
    }

    /// The answer, after calls from a view that holds the question and the results alone.
    fn answer(
        &mut self,
        state: &mut State<B>,
        automata: &TurnAutomata,
        decision: Option<TurnDecision>,
    ) -> Result<Turn, Error> {
        let engine = self.engine;
        let Some(side) = &automata.answer else {
            return Err(Error::input("a call is required here, so there is no answer to give"));
        };
        if let Some(results) = instead(engine.options.answer_view, self.request) {
            (self.events)(TurnEvent::Text(results.clone()));
            let parsed = ParsedTurn { content: Some(results.clone()), ..ParsedTurn::default() };
            let decoded = Decoded {
                start: 0,
                text: results,
                tokens: Vec::new(),
                likelihoods: Vec::new(),
                stop: StopReason::End,
                stats: Stats::default(),
            };
            return Ok(self.finish(decoded, parsed, decision));
        }
        // An answer that was thought about follows the thought.
        if self.thought.is_none() {
            let after_calls = matches!(self.request.transcript.last(), Some(Message::Tool(_)));
            if after_calls && engine.options.answer_view != AnswerView::Full {
                let view = engine.dialogue.answer_view(self.request.transcript, self.request.end());
                self.prefill(state, &self.told_form(view), &[], engine.reasons())?;
            } else {
                // After a decision this prompt is there already: nothing but a call that was taken back is cut off.
                let transcript = self.told_form(self.transcript());
                self.prefill(state, &transcript, self.request.tools, engine.reasons())?;
            }
            self.reason(state)?;
        }
        let question = match self.request.transcript.last() {
            Some(Message::Tool(_)) if self.request.answer == AnswerForm::Text => {
                self.request.transcript.question().unwrap_or_default()
            }
            _ => "",
        };
        let mut decoded = self.held(state, side, question)?;
        if is_echo(question, &decoded.text) && self.thought.is_none() {
            (self.events)(TurnEvent::Retry(ECHOED.to_owned()));
            // Not told the request once more, it says what came of it.
            let end = RunEnd { changed: true, ..self.request.end() };
            let view = engine.dialogue.answer_view(self.request.transcript, end);
            self.prefill(state, &self.told_form(view), &[], false)?;
            decoded = self.held(state, side, question)?;
        }
        let mut text = if is_echo(question, &decoded.text) { String::new() } else { decoded.text.clone() };
        if decoded.stop == StopReason::End
            && let Some(results) = addition(engine.options.answer_view, self.request, &text)
        {
            text.push_str(&results);
            (self.events)(TurnEvent::Text(results));
        }
        Ok(self.answered(decoded, &text, decision))
    }

    /// A turn that is an answer.
    fn answered(&mut self, decoded: Decoded, text: &str, decision: Option<TurnDecision>) -> Turn {
        let content = Some(self.trimmed(text)).filter(|text| !text.is_empty()).map(str::to_owned);
        self.finish(decoded, ParsedTurn { content, ..ParsedTurn::default() }, decision)
    }

    /// A turn without any constraint, read as it comes.
    fn unconstrained(&mut self, state: &mut State<B>, offered: &[ToolSpec]) -> Result<Turn, Error> {
        self.prefill(state, &self.transcript(), offered, false)?;
        let decoded = self.decode(state, None, &mut self.sampler()?, Shown::Answer(Doubted::never()))?;
        let read = self.engine.dialogue.format().parse(&decoded.text, self.request.tools);
        let written_well = !read.calls.is_empty();
        let mut parsed = recover(read, self.request.tools);
        if !parsed.calls.is_empty() {
            if !written_well {
                (self.events)(TurnEvent::Recovered(decoded.text.clone()));
            }
            match without_repeats(parsed.calls.clone(), self.request) {
                Some(calls) => parsed.calls = calls,
                // Nothing can make this model call in another way: the call comes once more.
                None if self.request.open => drop_repeats(&mut parsed.calls, &[], self.request.tools),
                None => {
                    // Or answer instead: what it wrote is the answer, and the run ends.
                    parsed = ParsedTurn { content: Some(decoded.text.clone()), ..ParsedTurn::default() };
                    self.looped = true;
                }
            }
        }
        Ok(self.finish(decoded, parsed, None))
    }

    /// The calls of the turn at most.
    fn parallel(&self) -> NonZeroUsize {
        self.request.parallel.unwrap_or(self.engine.options.parallel)
    }

    pub(crate) fn automata(
        &self,
        offered: &[ToolSpec],
        choice: &ToolChoice,
        first: Option<ToolName>,
    ) -> Result<TurnAutomata, Error> {
        let request =
            toolgate_chat::TurnRequest { choice: choice.clone(), parallel: Some(self.parallel()), first };
        let vocabulary = &self.engine.vocabulary;
        let format = self.engine.dialogue.format().as_ref();
        let known = &self.engine.learned.automata;
        let mut automata = known.get(format, offered, &request, vocabulary)?;
        if let (Some(form), Some(answer)) = (FormKey::of(self.request.answer), &mut automata.answer) {
            *answer = known.answer(&form, vocabulary)?;
        }
        Ok(automata)
    }

    /// What stands in front of the conversation while it is decided between call and answer, or a call is written.
    fn primer(&self, decides: bool) -> Primer {
        match self.engine.reasons() {
            true => Primer::None,
            false => self.engine.options.primer_of(self.request.transcript, decides),
        }
    }

    /// The transcript as the model is shown it.
    fn transcript(&self) -> Transcript {
        self.introduced(self.request.transcript)
    }

    /// A transcript after the system prompt, its own if it brings one, and the primer.
    pub(crate) fn introduced(&self, given: &Transcript) -> Transcript {
        let format = self.engine.dialogue.format().as_ref();
        self.engine.options.introduced(given, self.request.tools, format, self.primer)
    }

    /// Decodes under a side's constraint (`None`: under none); what is `shown` of the text goes out as it comes.
    pub(crate) fn decode(
        &mut self,
        state: &mut State<B>,
        side: Option<&Side>,
        sampler: &mut Sampler,
        mut shown: Shown,
    ) -> Result<Decoded, Error> {
        let mut constraint = self.constraint(side)?;
        let mut options = match shown {
            Shown::Calls(_) => self.call_options(),
            Shown::Answer(_) | Shown::Nothing => self.answer_options(),
        };
        options.ahead = std::mem::take(&mut self.ahead);
        self.budget = self.spent + options.max_tokens.min(state.session.room() + options.ahead);
        // Without a constraint the text may hold a call in any dialect: only what is none is shown.
        let leaked = side.is_none() && matches!(shown, Shown::Answer(_));
        let mut leaks = leaked.then(|| Stream::new(self.request.tools));
        let events = &mut *self.events;
        let mut is_enough = false;
        let mut decoded =
            decode(&mut state.session, &mut constraint, sampler, &options, &mut |piece: Piece<'_>| {
                match (&mut leaks, &mut shown) {
                    (Some(leaks), _) => show(leaks.push(piece.text.as_bytes()), events),
                    (None, Shown::Answer(answer)) => is_enough = answer.push(piece.text, events),
                    (None, Shown::Calls(calls)) => is_enough = calls.push(piece.text, events),
                    (None, Shown::Nothing) => {}
                }
                if is_enough {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })?;
        if let Some(leaks) = leaks {
            show(leaks.finish().0, events);
        }
        match shown {
            Shown::Answer(mut answer) => answer.finish(events),
            Shown::Nothing => {}
            Shown::Calls(calls) => {
                calls.finish(events);
                // Calls that came again are left out of the turn, which ends as if the model had ended it.
                if is_enough && decoded.stop == StopReason::SinkStopped {
                    decoded.stop = StopReason::End;
                }
            }
        }
        self.counted(decoded, side)
    }

    /// What a further call of the turn can know, where there may be one.
    fn known(&self) -> Option<Known> {
        let may_go_on = self.parallel() != NonZeroUsize::MIN;
        may_go_on.then(|| Known::of(self.request.transcript, self.request.tools))
    }

    /// How the first text of a turn of calls is shown.
    pub(crate) fn shown_calls(&self) -> Shown {
        let are_told = self.request.check.is_none() && self.request.settled.is_empty();
        let stream = self.engine.dialogue.format().stream(self.request.tools, Start::Turn);
        Shown::Calls(Box::new(ShownCalls::new(stream, are_told, self.known())))
    }

    /// What draws the tokens of an answer.
    pub(crate) fn sampler(&self) -> Result<Sampler, Error> {
        match self.request.answer {
            AnswerForm::Text => self.sampler_with(self.request.sampling.penalties),
            _ => self.call_sampler(),
        }
    }

    /// What draws those of calls.
    pub(crate) fn call_sampler(&self) -> Result<Sampler, Error> {
        self.sampler_with(Penalties::default())
    }

    fn sampler_with(&self, penalties: Penalties) -> Result<Sampler, Error> {
        let sampling = self.request.sampling;
        Ok(Sampler::new(&SamplerOptions {
            temperature: sampling.temperature,
            top_k: sampling.top_k,
            top_p: sampling.top_p,
            min_p: sampling.min_p,
            seed: sampling.seed,
            penalties,
            bias: sampling.bias.clone(),
        })?)
    }

    pub(crate) fn decode_options(&self) -> DecodeOptions {
        DecodeOptions {
            max_tokens: self.request.sampling.max_tokens.saturating_sub(self.spent),
            budget: Budget::Whole,
            forcing: self.engine.options.forcing,
            drafting: self.engine.options.drafting,
            cancel: self.cancel.clone(),
            ..DecodeOptions::default()
        }
    }

    /// How calls are decoded.
    pub(crate) fn call_options(&self) -> DecodeOptions {
        let further = Further {
            openings: self.engine.openings.clone(),
            threshold: self.engine.options.thresholds.further,
        };
        DecodeOptions { further: Some(further), ..self.decode_options() }
    }

    /// Counts what a decoded text cost; one whose constraint failed is an error.
    pub(crate) fn counted(&mut self, decoded: Decoded, side: Option<&Side>) -> Result<Decoded, Error> {
        self.stats += &decoded.stats;
        let grammar = side.map(|side| side.grammar.clone());
        (self.events)(TurnEvent::Decoded { grammar, tokens: decoded.tokens.clone() });
        self.tell_likelihoods(&decoded);
        match &decoded.stop {
            StopReason::ConstraintFailed(why) => Err(Error::new(
                Kind::Engine,
                format!("the turn was stopped because its constraint failed: {why}"),
            )),
            _ => Ok(decoded),
        }
    }

    fn finish(&mut self, decoded: Decoded, mut parsed: ParsedTurn, decision: Option<TurnDecision>) -> Turn {
        parsed.reasoning = self.thought.take().or(parsed.reasoning);
        let stats = std::mem::take(&mut self.stats);
        let (text, stop, budget, looped) = (decoded.text, decoded.stop, self.budget, self.looped);
        Turn { parsed, text, stop, budget, decision, looped, stats }
    }
}

/// Shows the text and the thoughts among what a stream made certain. What was shown as text stays shown, also where it turns
/// out to have been thought: the turn itself says so.
pub fn show(found: Vec<fallback::Event>, events: &mut dyn FnMut(TurnEvent)) {
    for event in found {
        match event {
            fallback::Event::Text(text) => events(TurnEvent::Text(text)),
            fallback::Event::Reasoning(text) => events(TurnEvent::Reasoning(text)),
            _ => {}
        }
    }
}
