//! The loop: forced tokens, evaluation, a draw under the constraint, until something ends the turn.
//!
//! Invariants:
//!
//! - The constraint accepts every token before its text is shown.
//! - A constraint that fails ends the turn with its reason. No unconstrained text gets through.
//! - The chosen tokens are the same however forced tokens are batched, since both ways write them canonically.
//! - The chosen tokens are the same with drafts and without.
//!
//! Why drafts change nothing: the model evaluates a drafted token ahead, together with tokens that it has to evaluate anyway.
//! Then each position is drawn from its own logits, exactly as without the draft. A draft that equals the drawn token has
//! saved an evaluation; any other is cut off again. So the distribution is the same at any temperature, and a seed draws
//! the same text.

mod ahead;
mod close;
mod forcing;
mod further;
mod opening;

pub use further::Further;
pub use opening::{Opening, Watch};

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use toolgate_grammar::{TokenId, TokenKind};

use crate::constraint::{Constraint, Forced, Mask};
use crate::draft::{Drafter, Reliance};
use crate::forced::CONTEXT;
use crate::likelihood::Likelihood;
use crate::stats::ms;
use crate::stream::TextStream;
use crate::{Backend, Cancel, Error, Kind, Sampler, Session, Stats};

/// Options of a turn's decoding.
///
/// ```
/// use std::{ops::ControlFlow, sync::Arc};
/// use toolgate_infer::{DecodeOptions, Free, Sampler, Session, StopReason, Vocabulary, decode, scripted::Scripted};
///
/// let vocabulary = Arc::new(Vocabulary::bytes_only());
/// let mut session = Session::new(Scripted::new(vocabulary.clone()).say("One line.\nAnother."));
/// session.set_prompt_text("Write: ")?;
/// let options = DecodeOptions { max_tokens: 64, stop_texts: vec!["\n".to_owned()], ..DecodeOptions::default() };
/// let mut free = Free::new(vocabulary);
/// let turn = decode(&mut session, &mut free, &mut Sampler::greedy(), &options, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!((turn.text.as_str(), turn.stop), ("One line.", StopReason::StopText(0)));
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DecodeOptions {
    /// The most tokens of the turn, forced ones included. Default 1,024.
    pub max_tokens: usize,
    /// The handling of the text when they run out. Default [`Budget::Cut`].
    pub budget: Budget,
    /// The handling of forced text. Default [`Forcing::On`].
    pub forcing: Forcing,
    /// Whether tokens are drafted. Default [`Drafting::On`].
    pub drafting: Drafting,
    /// Tokens at the end of the session that are drafts of the turn's first ones, and not in front of it. Default 0.
    pub ahead: usize,
    /// Texts that end the turn. The text ends in front of them. Default none.
    pub stop_texts: Vec<String>,
    /// The rule for whether a whole text goes on behind white space. Default none: it goes on.
    pub further: Option<Further>,
    /// The openings for which the text is left. Default none.
    pub watch: Option<Watch>,
    /// How many of the likeliest tokens are reported with the likelihood of each token. Default none: no likelihoods.
    pub likelihoods: Option<usize>,
    /// Stops the turn between two evaluations.
    pub cancel: Cancel,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self {
            max_tokens: 1_024,
            budget: Budget::Cut,
            forcing: Forcing::On,
            drafting: Drafting::On,
            ahead: 0,
            stop_texts: Vec::new(),
            further: None,
            watch: None,
            likelihoods: None,
            cancel: Cancel::default(),
        }
    }
}

/// The handling of a text when the tokens of a turn run out.
///
/// ```
/// use std::{ops::ControlFlow, sync::Arc};
/// use toolgate_grammar::{Automaton, Budgeted, Grammar, Limits};
/// use toolgate_infer::{Budget, DecodeOptions, Sampler, Session, StopReason, Vocabulary, decode, scripted::Scripted};
///
/// let vocabulary = Arc::new(Vocabulary::bytes_only());
/// let list = Grammar::parse(r#"root ::= "[" [0-9] ("," [0-9])* "]""#)?;
/// let mut run = Budgeted::new(Automaton::new(&list, vocabulary.clone(), &Limits::default())?.matcher());
/// let mut session = Session::new(Scripted::new(vocabulary).say("[1,2,3,4,5]"));
/// session.set_prompt_text("Count: ")?;
/// let options = DecodeOptions { max_tokens: 8, budget: Budget::Whole, ..DecodeOptions::default() };
/// let turn = decode(&mut session, &mut run, &mut Sampler::greedy(), &options, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!((turn.text.as_str(), turn.stop), ("[1,2,3]", StopReason::Budget), "and not \"[1,2,3,4\"");
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// The text is cut off.
    Cut,
    /// The text is whole by then, if the constraint can look ahead ([`Constraint::limit`]) and the shortest text takes no more
    /// tokens. The model begins nothing that it could not end. [`StopReason::Budget`] marks a text that was steered so.
    Whole,
}

/// The handling of forced text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forcing {
    /// It is written as the model's tokenizer would, and evaluated in batches. The model is not asked.
    On,
    /// The same tokens, evaluated one by one: the reference for [`On`](Self::On). Greedy turns are the same.
    Off,
    /// The model is asked for each token, under the mask. Where its own token is refused, it may cut the text into other tokens
    /// than its tokenizer would. Small models then go on differently: at least half of 20 greedy calls of a 135 M model
    /// changed.
    Asked,
}

/// Whether tokens are drafted from the text of the prompt and the turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drafting {
    /// As many as are worth their place in a batch, by the share of right drafts in this turn and by [`Backend::token_cost`].
    /// None with [`Forcing::Off`], which evaluates one token at a time.
    #[default]
    On,
    /// None: the reference for [`On`](Self::On). Turns are the same.
    Off,
}

/// The source of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// Drawn from the model's distribution.
    Sampled,
    /// Forced.
    Forced,
    /// Drawn like [`Sampled`](Self::Sampled) ones, and drafted: the model had evaluated it already.
    Drafted,
}

/// A token of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedToken {
    /// The token.
    pub token: TokenId,
    /// Its source.
    pub source: Source,
}

/// A piece of certain text: whole code points, no part of a possible stop text, never empty.
///
/// ```
/// use std::{ops::ControlFlow, sync::Arc};
/// use toolgate_infer::{DecodeOptions, Free, Piece, Sampler, Session, Vocabulary, decode, scripted::Scripted};
///
/// let vocabulary = Arc::new(Vocabulary::bytes_only());
/// let mut session = Session::new(Scripted::new(vocabulary.clone()).say("Grüße"));
/// session.set_prompt_text("Say: ")?;
/// let (mut free, options, mut pieces) = (Free::new(vocabulary), DecodeOptions::default(), Vec::new());
/// let mut sink = |piece: Piece<'_>| {
///     pieces.push(piece.text.to_owned());
///     ControlFlow::Continue(())
/// };
/// decode(&mut session, &mut free, &mut Sampler::greedy(), &options, &mut sink)?;
/// assert_eq!(pieces, ["G", "r", "ü", "ß", "e"], "whole characters, though each token is a byte");
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The text behind the earlier pieces.
    pub text: &'a str,
    /// The source of the token that made it certain.
    pub source: Source,
}

/// The reason that a turn ended.
///
/// ```
/// use toolgate_infer::StopReason;
/// assert!(StopReason::Finished.is_whole() && StopReason::StopText(0).is_whole());
/// assert!(!StopReason::MaxTokens.is_whole(), "it was cut off");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The model ended the turn, where the constraint allowed it.
    End,
    /// The text is whole and nothing can follow.
    Finished,
    /// The text is whole, since it was steered to its end when the tokens of [`Budget::Whole`] ran out. The model would have
    /// written more.
    Budget,
    /// This one of [`DecodeOptions::stop_texts`] appeared.
    StopText(usize),
    /// The tokens of [`DecodeOptions::max_tokens`] are used up.
    MaxTokens,
    /// The context is full.
    ContextFull,
    /// [`DecodeOptions::cancel`] was set.
    Cancelled,
    /// The sink stopped the turn.
    SinkStopped,
    /// The model would rather begin this, one of [`DecodeOptions::watch`].
    Opened(Opening),
    /// The constraint failed, for this reason.
    ConstraintFailed(String),
}

impl StopReason {
    /// Whether the model or the constraint ended the text. Otherwise it was cut off.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::End | Self::Finished | Self::Budget | Self::StopText(_))
    }
}

/// A decoded turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// Tokens of the session in front of it.
    pub start: usize,
    /// Its text: the pieces in order. Control tokens appear by name.
    pub text: String,
    /// Its tokens, without the end token.
    pub tokens: Vec<DecodedToken>,
    /// The likelihood of each of them, if [`DecodeOptions::likelihoods`] asks for it.
    pub likelihoods: Vec<Likelihood>,
    /// The reason of its end.
    pub stop: StopReason,
    /// Its costs, without the prompt.
    pub stats: Stats,
}

/// Decodes one turn after the prompt of `session`, showing its text to `sink` as it becomes certain.
///
/// # Errors
/// [`Kind::Backend`], and other failures of the model. A constraint that fails is no error but
/// [`StopReason::ConstraintFailed`].
///
/// ```
/// use std::{ops::ControlFlow, sync::Arc};
/// use toolgate_grammar::{Automaton, Grammar, Limits};
/// use toolgate_infer::{DecodeOptions, Sampler, Session, StopReason, Vocabulary, decode, scripted::Scripted};
///
/// let vocabulary = Arc::new(Vocabulary::bytes_only());
/// let call = Grammar::parse(r#"root ::= "{\"city\": \"" [a-z]+ "\"}""#)?;
/// let mut run = Automaton::new(&call, vocabulary.clone(), &Limits::default())?.matcher();
/// let mut session = Session::new(Scripted::new(vocabulary).say("Sure! {\"city\": \"lima\"}"));
/// session.set_prompt_text("Where? ")?;
/// let options = DecodeOptions::default();
/// let turn = decode(&mut session, &mut run, &mut Sampler::greedy(), &options, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!((turn.text.as_str(), turn.stop), ("{\"city\": \"lima\"}", StopReason::Finished));
/// assert_eq!(turn.stats.sampled_tokens, 5, "of 16 tokens the model chose those of `lima\"`");
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
pub fn decode<B: Backend>(
    session: &mut Session<B>,
    constraint: &mut dyn Constraint,
    sampler: &mut Sampler,
    options: &DecodeOptions,
    sink: &mut dyn FnMut(Piece<'_>) -> ControlFlow<()>,
) -> Result<Decoded, Error> {
    let start = session.tokens().len().saturating_sub(options.ahead);
    let ahead = session.tokens().iter().skip(start).copied().collect();
    let mut turn = Turn::new(session, constraint, options, sink, start);
    turn.ahead = ahead;
    let stop = turn.run(sampler);
    turn.finish(stop)
}

/// A turn being decoded.
pub(crate) struct Turn<'a, B> {
    session: &'a mut Session<B>,
    /// Tokens of the session in front of the turn.
    start: usize,
    began: Instant,
    constraint: Timed<'a>,
    options: &'a DecodeOptions,
    sink: &'a mut dyn FnMut(Piece<'_>) -> ControlFlow<()>,
    /// Pending tokens: tokens of the turn that the model has not evaluated yet.
    pending: Vec<TokenId>,
    /// Tokens that it has evaluated ahead, behind those of the turn; empty while some are pending.
    ahead: VecDeque<TokenId>,
    /// Row of the last evaluation with the logits behind the turn's last token; none where that is the session's last.
    row: Option<usize>,
    drafter: Option<Drafter>,
    /// Whether a wrong draft cost tokens of earlier batches, as the model's memory could not be cut there.
    lossy: bool,
    /// Tokens of the session at the last checkpoint of the turn.
    checkpoint: usize,
    /// The noise of wide batches in choices; none where the turn takes no wide batches, or none any more.
    noise: Option<f32>,
    /// The draft of the next token, evaluated ahead or not, with its grounds.
    guess: VecDeque<(TokenId, Reliance)>,
    stream: TextStream<'a>,
    tokens: Vec<DecodedToken>,
    likelihoods: Vec<Likelihood>,
    /// The likelihood of the last drawn token, until it is taken.
    drawn: Option<Likelihood>,
    stats: Stats,
    /// Time in the model, the sampler and the constraint; not in the sink.
    busy: Duration,
}

impl<'a, B: Backend> Turn<'a, B> {
    pub(crate) fn new(
        session: &'a mut Session<B>,
        constraint: &'a mut dyn Constraint,
        options: &'a DecodeOptions,
        sink: &'a mut dyn FnMut(Piece<'_>) -> ControlFlow<()>,
        start: usize,
    ) -> Self {
        Self {
            session,
            start,
            began: Instant::now(),
            constraint: Timed { inner: constraint, elapsed: Duration::ZERO },
            options,
            sink,
            pending: Vec::new(),
            ahead: VecDeque::new(),
            row: None,
            drafter: None,
            lossy: false,
            checkpoint: 0,
            noise: None,
            guess: VecDeque::new(),
            stream: TextStream::new(&options.stop_texts),
            tokens: Vec::new(),
            likelihoods: Vec::new(),
            drawn: None,
            stats: Stats::default(),
            busy: Duration::ZERO,
        }
    }

    fn run(&mut self, sampler: &mut Sampler) -> Result<StopReason, Error> {
        if self.options.max_tokens == 0 {
            return Ok(StopReason::MaxTokens);
        }
        self.limit()?;
        if self.constraint.is_finished()? {
            return Ok(StopReason::Finished);
        }
        self.go_on(sampler)
    }

    /// Goes on behind tokens of an earlier turn, which the session holds and nobody is shown, with `next`. None if
    /// the constraint has no place for these.
    pub(crate) fn run_from(
        &mut self,
        sampler: &mut Sampler,
        kept: &[DecodedToken],
        next: &[TokenId],
    ) -> Result<Option<StopReason>, Error> {
        for token in kept {
            self.constraint.accept(token.token)?;
            self.stream.push(self.session.vocabulary().bytes(token.token));
        }
        self.stream.delta();
        self.tokens.extend_from_slice(kept);
        if self.options.likelihoods.is_some() {
            // They were drawn in an earlier turn.
            self.likelihoods.extend(kept.iter().map(|token| Likelihood::certain(token.token)));
        }
        self.limit()?;
        for &token in next {
            if !self.constraint.allows(token)? {
                return Ok(None);
            }
            if let Some(stop) = self.take(token, Source::Sampled)? {
                return Ok(Some(stop));
            }
        }
        self.go_on(sampler).map(Some)
    }

    /// Tells the constraint how many tokens there can be.
    fn limit(&mut self) -> Result<(), Error> {
        if self.options.budget == Budget::Whole {
            let left = self.options.max_tokens.saturating_sub(self.tokens.len());
            self.constraint.limit(left.min(self.session.room()))?;
        }
        Ok(())
    }

    fn go_on(&mut self, sampler: &mut Sampler) -> Result<StopReason, Error> {
        sampler.begin();
        // How close a draw by chance is to another one cannot be told.
        self.noise = self.session.backend().noise().filter(|_| sampler.is_greedy());
        loop {
            if let Some(stop) = self.take_forced()? {
                return Ok(stop);
            }
            if self.options.cancel.is_cancelled() {
                return Ok(StopReason::Cancelled);
            }
            if self.session.room() < self.pending.len() {
                return Ok(StopReason::ContextFull);
            }
            let start = Instant::now();
            self.evaluate()?;
            if let Some(opening) = self.opened()? {
                self.busy += start.elapsed();
                return Ok(StopReason::Opened(opening));
            }
            let draw = self.draw(sampler)?;
            let ending = match self.session.vocabulary().kind(draw.token) {
                TokenKind::EndOfGeneration => Some(Vec::new()),
                _ => self.ending(draw.token)?,
            };
            self.busy += start.elapsed();
            if let Some(share) = draw.removed {
                self.stats.constraint_pressure.record(share);
            }
            if let Some(last) = ending {
                self.stats.sampled_tokens += 1;
                for token in last {
                    if let Some(stop) = self.take(token, Source::Sampled)? {
                        return Ok(stop);
                    }
                }
                return Ok(StopReason::End);
            }
            let ahead = self.ahead.front() == Some(&draw.token);
            let source = if ahead { Source::Drafted } else { Source::Sampled };
            if let Some(stop) = self.take(draw.token, source)? {
                return Ok(stop);
            }
        }
    }

    /// The last tokens of the turn and of what is in front of it.
    fn recent(&self) -> Vec<TokenId> {
        let held = self.session.tokens();
        let held = held.get(..held.len() - self.ahead.len().min(held.len())).unwrap_or_default();
        let last = held.get(held.len().saturating_sub(CONTEXT)..).unwrap_or_default();
        last.iter().chain(&self.pending).copied().collect()
    }

    /// Accepts a token and shows its text. Returns a reason if the turn ends with it.
    fn take(&mut self, token: TokenId, source: Source) -> Result<Option<StopReason>, Error> {
        self.constraint.accept(token)?;
        self.follow(token, source)?;
        self.tokens.push(DecodedToken { token, source });
        if self.options.likelihoods.is_some() {
            let drawn = self.drawn.take().filter(|drawn| drawn.token == token && source != Source::Forced);
            self.likelihoods.push(drawn.unwrap_or_else(|| Likelihood::certain(token)));
        }
        match source {
            Source::Sampled => self.stats.sampled_tokens += 1,
            Source::Forced => self.stats.forced_tokens += 1,
            Source::Drafted => self.stats.accepted_tokens += 1,
        }
        let stop_text = self.stream.push(self.session.vocabulary().bytes(token));
        let text = self.stream.delta();
        if !text.is_empty() && (self.sink)(Piece { text, source }).is_break() {
            return Ok(Some(StopReason::SinkStopped));
        }
        Ok(if let Some(index) = stop_text {
            Some(StopReason::StopText(index))
        } else if self.constraint.is_finished()? {
            Some(StopReason::Finished)
        } else if self.tokens.len() >= self.options.max_tokens {
            Some(StopReason::MaxTokens)
        } else {
            None
        })
    }

    /// The turn, once it has come to its end.
    pub(crate) fn finish(mut self, stop: Result<StopReason, Error>) -> Result<Decoded, Error> {
        let stop = self.cut().and_then(|()| self.hold_prompt()).and(stop);
        let stop = match stop {
            Ok(StopReason::End | StopReason::Finished) if self.constraint.is_steered() => StopReason::Budget,
            Ok(stop) => stop,
            Err(error) if error.kind() == Kind::Constraint => StopReason::ConstraintFailed(error.to_string()),
            Err(error) => return Err(error),
        };
        let text = self.stream.finish();
        if !text.is_empty() && stop != StopReason::SinkStopped {
            let source = self.tokens.last().map_or(Source::Sampled, |token| token.source);
            // The turn is over; there is nothing left to break off.
            let _ = (self.sink)(Piece { text, source });
        }
        self.stats.ms.mask = ms(self.constraint.elapsed);
        self.stats.ms.decode = ms(self.busy.saturating_sub(self.constraint.elapsed));
        self.stats.ms.total = ms(self.began.elapsed());
        let Self { start, tokens, likelihoods, stats, .. } = self;
        Ok(Decoded { start, text: self.stream.into_text(), tokens, likelihoods, stop, stats })
    }
}

/// A constraint and the time it took.
struct Timed<'a> {
    inner: &'a mut dyn Constraint,
    elapsed: Duration,
}

impl Timed<'_> {
    fn time<T>(&mut self, call: impl FnOnce(&mut dyn Constraint) -> T) -> T {
        let start = Instant::now();
        let result = call(self.inner);
        self.elapsed += start.elapsed();
        result
    }
}

impl Constraint for Timed<'_> {
    fn allows(&mut self, token: TokenId) -> Result<bool, Error> {
        self.time(|inner| inner.allows(token))
    }

    fn mask(&mut self) -> Result<Mask, Error> {
        self.time(|inner| inner.mask())
    }

    fn exact_mask(&mut self) -> Result<Mask, Error> {
        self.time(|inner| inner.exact_mask())
    }

    fn limit(&mut self, tokens: usize) -> Result<(), Error> {
        self.time(|inner| inner.limit(tokens))
    }

    fn is_steered(&self) -> bool {
        self.inner.is_steered()
    }

    fn accept(&mut self, token: TokenId) -> Result<(), Error> {
        self.time(|inner| inner.accept(token))
    }

    fn forced(&mut self) -> Result<Forced, Error> {
        self.time(|inner| inner.forced())
    }

    fn forced_token(&mut self) -> Result<Option<TokenId>, Error> {
        self.time(|inner| inner.forced_token())
    }

    fn admits(&mut self, tokens: &[TokenId]) -> Result<usize, Error> {
        self.time(|inner| inner.admits(tokens))
    }

    fn is_complete(&self) -> bool {
        self.inner.is_complete()
    }

    fn is_complete_after(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        self.time(|inner| inner.is_complete_after(bytes))
    }

    fn is_finished(&mut self) -> Result<bool, Error> {
        self.time(|inner| inner.is_finished())
    }
}
