//! Writes a turn again from a wrong value on. First finds the likeliest other way, then writes the turn from
//! there.
//!
//! Invariants: the text in front of the value stays, token by token. The other way differs from every tried
//! text in bytes that the constraint allows. So nothing has to be watched afterwards.
//!
//! Drawing the value anew would not help. Greedily it would be the same value again. A value that may not end
//! as it did would only go on (`12` as `120`). So the probabilities within the value are read once more. The
//! way begins at the place where the text up to it and another token after it are together the likeliest.

use std::ops::{ControlFlow, Range};
use std::time::Instant;

use toolgate_grammar::{TokenId, TokenKind, Vocabulary};

use crate::constraint::{Constraint, Mask};
use crate::decode::{Decoded, DecodedToken, Turn};
use crate::sampler::argmax;
use crate::stats::ms;
use crate::{Backend, DecodeOptions, Error, Forcing, Kind, Piece, Rows, Sampler, Session, Source, Stats};

/// Tokens of a value that are examined, from its first on.
const LOOKED_AT: usize = 128;
/// Other tokenizations of the beginning of a value that are examined. Each costs an evaluation.
const BRANCHES: usize = 8;
/// Tokens that are considered at one place. Then it counts as a place without a choice.
const CONSIDERED: usize = 64;
/// Refused tokens among these before the constraint is asked for an exact mask.
const REFUSALS: usize = 8;

/// Tried texts, which must not be written again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tried(Vec<Vec<u8>>);

impl Tried {
    /// Adds the text of a turn, from its beginning to the end of the wrong value.
    pub fn add(&mut self, text: &str) {
        self.0.push(text.as_bytes().to_vec());
    }

    /// Whether `text` contains one of them. A longer number does not contain a number.
    ///
    /// ```
    /// let mut tried = toolgate_infer::Tried::default();
    /// tried.add("{\"n\": 12");
    /// assert!(tried.holds(b"{\"n\": 12}") && !tried.holds(b"{\"n\": 120}") && !tried.holds(b"{\"n\": 1}"));
    /// ```
    pub fn holds(&self, text: &[u8]) -> bool {
        self.0.iter().any(|tried| match text.strip_prefix(tried.as_slice()) {
            Some(rest) => !may_go_on(tried) || rest.first().is_some_and(|&byte| !is_numeric(byte)),
            None => false,
        })
    }

    /// Whether `text` may still become one of them.
    fn may_become(&self, text: &[u8]) -> bool {
        self.0.iter().any(|tried| tried.starts_with(text))
    }
}

/// Whether the end of a value shows only in the text after it. In JSON, this is so for numbers.
fn may_go_on(text: &[u8]) -> bool {
    text.last().is_some_and(u8::is_ascii_digit)
}

fn is_numeric(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')
}

/// The beginning of another way: a turn up to a place, and the tokens after that.
#[derive(Clone, Debug, PartialEq)]
pub struct Other {
    /// Tokens of the session in front of the turn.
    start: usize,
    kept: Vec<DecodedToken>,
    next: Vec<TokenId>,
}

impl Other {
    /// The turn `before` up to byte `at` of its text, for another constraint. It keeps the tokens that end at
    /// `at` or in front of it. `None` if there are none, and if the text is not that of the tokens.
    pub fn up_to(vocabulary: &Vocabulary, before: &Decoded, at: usize) -> Option<Self> {
        let mut bytes = Vec::with_capacity(at);
        let mut kept = Vec::new();
        for token in &before.tokens {
            bytes.extend_from_slice(vocabulary.bytes(token.token));
            if bytes.len() > at {
                break;
            }
            kept.push(*token);
        }
        if !bytes.starts_with(before.text.as_bytes().get(..at)?) {
            return None;
        }
        // The last of them is evaluated once more: its logits say what follows.
        let last = kept.pop()?.token;
        Some(Self { start: before.start, kept, next: vec![last] })
    }

    /// Tokens of the turn that are kept.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }
}

/// Finds the likeliest way to write the turn `before` again, from within the bytes `wrong` of its text on.
/// The way differs from those `tried`. Each constraint of `make` stands at the beginning of the turn. Up to
/// 128 tokens of the value are evaluated once more, which `stats` counts.
///
/// `None` if the constraint leaves no choice, and if the text is not that of the turn's tokens.
///
/// # Errors
/// [`Kind::Backend`], [`Kind::Constraint`], [`Kind::Cancelled`].
///
/// ```
/// use std::{ops::ControlFlow, sync::Arc};
/// use toolgate_infer::{scripted::Scripted, *};
///
/// let vocabulary = Arc::new(Vocabulary::bytes_only());
/// let mut session = Session::new(Scripted::new(vocabulary.clone()).say("On Monday.").or_say("On Friday."));
/// session.set_prompt_text("When? ")?;
/// let (mut free, options) = (Free::new(vocabulary), DecodeOptions::default());
/// let turn = decode(&mut session, &mut free, &mut Sampler::greedy(), &options, &mut |_| ControlFlow::Continue(()))?;
/// let mut tried = Tried::default();
/// tried.add("On Monday");
/// let mut make = || Ok(Box::new(free.clone()) as Box<dyn Constraint>);
/// let other = likeliest_other(&mut session, &mut make, &options, &turn, 3..9, &tried, &mut Stats::default())?;
/// assert_eq!(other.map(|other| other.kept()), Some(3), "\"On \" stays; decode_from writes what follows");
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
pub fn likeliest_other<B: Backend>(
    session: &mut Session<B>,
    make: &mut dyn FnMut() -> Result<Box<dyn Constraint>, Error>,
    options: &DecodeOptions,
    before: &Decoded,
    wrong: Range<usize>,
    tried: &Tried,
    stats: &mut Stats,
) -> Result<Option<Other>, Error> {
    let began = Instant::now();
    let Some(place) = Place::find(session, before, wrong) else { return Ok(None) };
    let mut search = Search { session, make, before, place, tried, open: Vec::new(), best: None, calls: 0 };
    let found = search.run(options);
    stats.decode_calls += search.calls;
    stats.ms.decode += ms(began.elapsed());
    stats.ms.total += ms(began.elapsed());
    found
}

/// Writes a turn on from the beginning of another way. `sink` sees the new text. `constraint` stands at the
/// beginning of the turn.
///
/// `None` if the rest of the token budget is too small for this way.
///
/// # Errors
/// As [`decode`](crate::decode()).
///
/// ```
/// use std::{ops::ControlFlow, sync::Arc};
/// use toolgate_grammar::{Automaton, Grammar, Limits};
/// use toolgate_infer::{scripted::Scripted, *};
///
/// let vocabulary = Arc::new(Vocabulary::bytes_only());
/// let mut session = Session::new(Scripted::new(vocabulary.clone()).say("On Monday."));
/// session.set_prompt_text("When? ")?;
/// let (mut free, mut greedy, options) = (Free::new(vocabulary.clone()), Sampler::greedy(), DecodeOptions::default());
/// let turn = decode(&mut session, &mut free, &mut greedy, &options, &mut |_| ControlFlow::Continue(()))?;
/// let front = Other::up_to(&vocabulary, &turn, 3).ok_or("nothing stays")?;
/// let mut run = Automaton::new(&Grammar::parse(r#"root ::= "On Fri.""#)?, vocabulary, &Limits::default())?.matcher();
/// let again = decode_from(&mut session, &mut run, &mut greedy, &options, &front, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!(again.map(|turn| turn.text).as_deref(), Some("On Fri."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn decode_from<B: Backend>(
    session: &mut Session<B>,
    constraint: &mut dyn Constraint,
    sampler: &mut Sampler,
    options: &DecodeOptions,
    other: &Other,
    sink: &mut dyn FnMut(Piece<'_>) -> ControlFlow<()>,
) -> Result<Option<Decoded>, Error> {
    let Some(front) = session.tokens().get(..other.start) else { return Ok(None) };
    let kept = other.kept.iter().map(|token| token.token);
    let held: Vec<TokenId> = front.iter().copied().chain(kept).collect();
    let calls = rewind(session, &held, held.len())?;
    let mut turn = Turn::new(session, constraint, options, sink, other.start);
    let stop = match turn.run_from(sampler, &other.kept, &other.next) {
        Ok(None) => return Ok(None),
        Ok(Some(stop)) => Ok(stop),
        Err(error) => Err(error),
    };
    let mut decoded = turn.finish(stop)?;
    decoded.stats.decode_calls += calls;
    decoded.stats.retries = 1;
    Ok(Some(decoded))
}

/// Makes the session hold the first `len` of these tokens, and returns the number of evaluations. The session
/// holds a beginning of them. Logits of wide batches may be inexact, so those tokens are evaluated again.
fn rewind<B: Backend>(session: &mut Session<B>, tokens: &[TokenId], len: usize) -> Result<usize, Error> {
    session.truncate(len.min(session.sure()))?;
    session.rewind(tokens.get(..len).unwrap_or(tokens), Rows::None)
}

/// A value among the tokens of a turn.
struct Place {
    /// The tokens of the session with all those of the turn.
    held: Vec<TokenId>,
    /// Byte offset of each token of the turn in its text.
    offsets: Vec<usize>,
    /// Tokens of the turn that hold the value.
    tokens: Range<usize>,
    /// Byte offset of the value.
    from: usize,
}

impl Place {
    fn find<B: Backend>(session: &Session<B>, before: &Decoded, wrong: Range<usize>) -> Option<Self> {
        let vocabulary = session.vocabulary();
        let mut offsets = Vec::with_capacity(before.tokens.len());
        let mut bytes = Vec::with_capacity(before.text.len());
        for token in &before.tokens {
            offsets.push(bytes.len());
            bytes.extend_from_slice(vocabulary.bytes(token.token));
        }
        if bytes != before.text.as_bytes() || wrong.is_empty() {
            return None;
        }
        let value = bytes.get(..wrong.end)?;
        // What follows a number decides where it ends.
        let end = wrong.end + usize::from(may_go_on(value));
        let first = offsets.partition_point(|&offset| offset <= wrong.start).checked_sub(1)?;
        let last = offsets.partition_point(|&offset| offset < end).min(first + LOOKED_AT);
        let front = session.tokens().get(..before.start)?;
        let held = front.iter().copied().chain(before.tokens.iter().map(|token| token.token)).collect();
        Some(Self { held, offsets, tokens: first..last, from: wrong.start })
    }
}

/// The beginning of a way: a number of tokens of the turn, and others after them. Also the log-probability of
/// the value's text up to there, among the allowed texts.
#[derive(Clone, Debug)]
struct Way {
    likely: f64,
    kept: usize,
    next: Vec<TokenId>,
}

impl Way {
    /// The way with one more token of this log-probability.
    fn with(&self, token: TokenId, likely: f64) -> Self {
        let next = self.next.iter().copied().chain([token]).collect();
        Self { likely: self.likely + likely, kept: self.kept, next }
    }
}

/// Examines each place of a value, the likeliest way first.
struct Search<'a, B> {
    session: &'a mut Session<B>,
    make: &'a mut dyn FnMut() -> Result<Box<dyn Constraint>, Error>,
    before: &'a Decoded,
    place: Place,
    tried: &'a Tried,
    /// Ways so far that write the same text in other tokens.
    open: Vec<Way>,
    /// The likeliest way so far to another text.
    best: Option<Way>,
    /// Evaluations of the model.
    calls: usize,
}

impl<B: Backend> Search<'_, B> {
    fn run(&mut self, options: &DecodeOptions) -> Result<Option<Other>, Error> {
        self.along_the_turn(options)?;
        for _ in 0..BRANCHES {
            let likeliest = (0..self.open.len()).max_by(|&a, &b| self.open_at(a).total_cmp(&self.open_at(b)));
            let Some(way) = likeliest.map(|index| self.open.swap_remove(index)) else { break };
            // What follows only makes it less likely.
            if self.best.as_ref().is_some_and(|best| best.likely >= way.likely) {
                break;
            }
            self.aside(&way)?;
        }
        let Some(best) = &self.best else { return Ok(None) };
        let kept = self.before.tokens.get(..best.kept).unwrap_or_default().to_vec();
        Ok(Some(Other { start: self.before.start, kept, next: best.next.clone() }))
    }

    fn open_at(&self, index: usize) -> f64 {
        self.open.get(index).map_or(f64::NEG_INFINITY, |way| way.likely)
    }

    /// Examines each place of the value as it was written.
    fn along_the_turn(&mut self, options: &DecodeOptions) -> Result<(), Error> {
        let Range { start: first, end } = self.place.tokens.clone();
        let mut constraint = self.constraint_after(first)?;
        // The logits of a token come from the one in front of it.
        let Some(mut at) = (self.before.start + first).checked_sub(1) else { return Ok(()) };
        self.calls += rewind(self.session, &self.place.held, at)?;
        let backend = self.session.backend();
        let at_once = match options.forcing {
            Forcing::On => backend.exact_batch_len().min(backend.batch_len()).max(1),
            Forcing::Off | Forcing::Asked => 1,
        };
        let mut likely = 0.0;
        let mut index = first;
        while index < end {
            if options.cancel.is_cancelled() {
                return Err(Error::new(Kind::Cancelled, "cancelled while a value was written again"));
            }
            let count = at_once.min(end - index);
            let tokens = self.place.held.get(at..at + count).unwrap_or_default();
            self.calls += self.session.eval(tokens, Rows::All)?;
            for row in 0..count {
                let way = Way { likely, kept: index + row, next: Vec::new() };
                likely += self.look(&way, row, constraint.as_mut())?;
                if let Some(token) = self.before.tokens.get(index + row) {
                    constraint.accept(token.token)?;
                }
            }
            at += count;
            index += count;
        }
        Ok(())
    }

    /// Examines the end of a way that writes the text in other tokens.
    fn aside(&mut self, way: &Way) -> Result<(), Error> {
        let mut constraint = self.constraint_after(way.kept)?;
        for &token in &way.next {
            constraint.accept(token)?;
        }
        self.calls += rewind(self.session, &self.place.held, self.before.start + way.kept)?;
        self.calls += self.session.eval(&way.next, Rows::All)?;
        self.look(way, way.next.len() - 1, constraint.as_mut())?;
        Ok(())
    }

    fn constraint_after(&mut self, tokens: usize) -> Result<Box<dyn Constraint>, Error> {
        let mut constraint = (self.make)()?;
        for token in self.before.tokens.iter().take(tokens) {
            constraint.accept(token.token)?;
        }
        Ok(constraint)
    }

    /// Finds the likeliest token to another text from the end of a way, whose logits are in this row. Also
    /// finds the tokens before it that may lead there. Returns the log-probability of the turn's own token.
    fn look(&mut self, way: &Way, row: usize, constraint: &mut dyn Constraint) -> Result<f64, Error> {
        let own = self.before.tokens.get(way.kept).filter(|_| way.next.is_empty());
        if own.is_some_and(|token| token.source == Source::Forced) {
            return Ok(0.0);
        }
        let logits = self.session.row(row)?;
        let vocabulary = self.session.vocabulary();
        let mut mask = constraint.mask()?;
        let total = log_sum(logits, &mask);
        let likely = |token: TokenId| {
            f64::from(logits.get(token as usize).copied().unwrap_or(f32::NEG_INFINITY)) - total
        };
        let text = self.before.text.as_bytes();
        let front = text.get(..self.place.from).unwrap_or_default();
        let offset = self.place.offsets.get(way.kept).copied().unwrap_or(text.len());
        let mut written = text.get(..offset).unwrap_or_default().to_vec();
        written.extend(way.next.iter().flat_map(|&token| vocabulary.bytes(token)));
        let here = written.len();
        let mut refusals = 0;
        for _ in 0..CONSIDERED {
            let Some(token) = argmax(logits, Some(&mask)) else { break };
            mask = mask.without(token);
            written.truncate(here);
            written.extend_from_slice(vocabulary.bytes(token));
            // What stands in front of the value stays, though its last token may hold the beginning of the value.
            let in_front = front.starts_with(&written);
            let is_text = vocabulary.kind(token) == TokenKind::Text && written.len() > here;
            let is_own = own.is_some_and(|own| own.token == token);
            if !is_text || is_own || !(in_front || written.starts_with(front)) || self.tried.holds(&written) {
                continue;
            }
            if !constraint.allows(token)? {
                refusals += 1;
                if refusals == REFUSALS {
                    mask = constraint.exact_mask()?;
                }
                continue;
            }
            let next = way.with(token, likely(token));
            if in_front || self.tried.may_become(&written) {
                self.open.push(next);
                continue;
            }
            if self.best.as_ref().is_none_or(|best| next.likely > best.likely) {
                self.best = Some(next);
            }
            break;
        }
        Ok(own.map_or(0.0, |own| likely(own.token)))
    }
}

/// The logarithm of the summed weights of the tokens in a mask. It turns logits into log-probabilities.
fn log_sum(logits: &[f32], mask: &Mask) -> f64 {
    let Some(best) = argmax(logits, Some(mask)).and_then(|token| logits.get(token as usize).copied()) else {
        return 0.0;
    };
    let logits = mask.iter().filter_map(|token| logits.get(token as usize).copied());
    let sum: f64 = logits.filter(|logit| logit.is_finite()).map(|logit| f64::from(logit - best).exp()).sum();
    f64::from(best) + sum.ln()
}
