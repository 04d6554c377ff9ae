//! Draws a token from logits under a constraint. The first draw ignores the mask. After a refusal, a second
//! draw uses it.
//!
//! Invariant: the drawn token has exactly the *target* distribution below. A seed gives the same draws
//! everywhere.
//!
//! The target: let `p` be the softmax of the logits, cut by top-k, then top-p, then min-p, and tempered
//! (`p^(1/temperature)`, renormalized). The target is `p` given that the token is allowed. Where the cuts leave no
//! allowed token, it is the same construction over the allowed tokens alone. With temperature 0 it is the
//! allowed token of the greatest logit, the lowest number among equals.
//!
//! The first draw is exact. Let `A` be the allowed tokens. An allowed token `t` is drawn first with
//! probability `p(t)`, and after a refusal with probability `(1 − p(A))·p(t)/p(A)`. The sum is `p(t)/p(A)`.

use std::borrow::Cow;
use std::collections::HashMap;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use toolgate_grammar::TokenId;

use crate::constraint::{Constraint, Mask};
use crate::{DecodedToken, Error, Kind};

/// Refused tokens of a mask before the constraint is asked for an exact mask.
const REFUSALS: u32 = 8;

/// The options of a sampler. The default is greedy.
///
/// ```
/// use toolgate_infer::{Kind, Sampler, SamplerOptions};
/// let wild = SamplerOptions { temperature: 0.8, top_p: 0.95, seed: 7, ..SamplerOptions::default() };
/// assert_eq!(Sampler::new(&wild)?.options(), &wild);
/// let refused = Sampler::new(&SamplerOptions { top_p: 1.5, ..wild }).unwrap_err();
/// assert_eq!(refused.kind(), Kind::Options);
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerOptions {
    /// The temperature: 0 takes the likeliest token, 1 draws from the distribution of the model, and more
    /// flattens that distribution.
    pub temperature: f32,
    /// The number of likeliest tokens that are kept; 0 keeps all.
    pub top_k: usize,
    /// The probability of the kept tokens: the fewest likeliest tokens with this probability together are
    /// kept. 1 keeps all.
    pub top_p: f32,
    /// The least probability of a kept token, as a fraction of that of the likeliest. 0 keeps all.
    pub min_p: f32,
    /// The seed of the random draws.
    pub seed: u64,
    /// The penalties of tokens that occur in the turn.
    pub penalties: Penalties,
    /// Biases, which are added to the logits of these tokens.
    pub bias: Vec<(TokenId, f32)>,
}

impl Default for SamplerOptions {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            seed: 0,
            penalties: Penalties::default(),
            bias: Vec::new(),
        }
    }
}

/// Penalties, which make tokens of the turn less likely. Tokens of the prompt do not count.
///
/// ```
/// use std::{ops::ControlFlow, sync::Arc};
/// use toolgate_infer::{
///     DecodeOptions, Free, Penalties, Sampler, SamplerOptions, Session, Vocabulary, decode, scripted::Scripted,
/// };
///
/// let vocabulary = Arc::new(Vocabulary::bytes_only());
/// let mut session = Session::new(Scripted::new(vocabulary.clone()).say("ha ha ha").holding(2));
/// session.set_prompt_text("Laugh!")?;
/// let penalties = Penalties { presence: 100.0, ..Penalties::default() };
/// assert!(!penalties.are_off() && Penalties::default().are_off());
/// let mut sampler = Sampler::new(&SamplerOptions { penalties, ..SamplerOptions::default() })?;
/// let (mut free, options) = (Free::new(vocabulary), DecodeOptions { max_tokens: 8, ..DecodeOptions::default() });
/// let turn = decode(&mut session, &mut free, &mut sampler, &options, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!(turn.text.matches('h').count(), 1, "no token comes twice: {}", turn.text);
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Penalties {
    /// Subtracted from the logit of a token for each of its occurrences. Negative values favour the token.
    /// Default 0.
    pub frequency: f32,
    /// Subtracted from the logit of a token that occurs. Default 0.
    pub presence: f32,
    /// Divides the positive logit of a token that occurs, and multiplies a negative one. Default 1.
    pub repeat: f32,
}

impl Default for Penalties {
    fn default() -> Self {
        Self { frequency: 0.0, presence: 0.0, repeat: 1.0 }
    }
}

impl Penalties {
    /// Whether the penalties change nothing.
    pub fn are_off(&self) -> bool {
        *self == Self::default()
    }
}

/// A drawn token.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_grammar::{Automaton, Grammar, Limits};
/// use toolgate_infer::{Sampler, TokenKind, Vocabulary};
///
/// let vocabulary = Vocabulary::new(["a", "b"].map(|text| (text.into(), TokenKind::Text)))?;
/// let only_b = Grammar::parse(r#"root ::= "b""#)?;
/// let mut run = Automaton::new(&only_b, Arc::new(vocabulary), &Limits::default())?.matcher();
/// let draw = Sampler::greedy().draw(&[0.75_f32, 0.25].map(f32::ln), &mut run)?;
/// assert_eq!(draw.token, 1);
/// assert!(draw.removed.is_some_and(|share| (share - 0.75).abs() < 1e-6), "what the model gave to \"a\"");
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// The token.
    pub token: TokenId,
    /// The probability of the tokens that are not allowed, if the first draw was refused.
    pub removed: Option<f64>,
}

/// A seeded source of tokens. A clone draws the same tokens.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_infer::{Free, Sampler, SamplerOptions, TokenKind, Vocabulary};
///
/// let vocabulary = Vocabulary::new(["a", "b", "c"].map(|text| (text.into(), TokenKind::Text)))?;
/// let (mut free, logits) = (Free::new(Arc::new(vocabulary)), [0.1, 2.0, 1.9]);
/// assert_eq!(Sampler::greedy().draw(&logits, &mut free)?.token, 1);
/// let options = SamplerOptions { temperature: 1.0, seed: 3, ..SamplerOptions::default() };
/// let (mut one, mut same) = (Sampler::new(&options)?, Sampler::new(&options)?);
/// assert_eq!(one.draw(&logits, &mut free)?, same.draw(&logits, &mut free)?);
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sampler {
    options: SamplerOptions,
    rng: Xoshiro256PlusPlus,
    /// Scratch memory, kept between draws. So no draw allocates memory for a whole vocabulary.
    candidates: Vec<Candidate>,
    /// The number of occurrences of each token among the first tokens of the turn.
    seen: HashMap<TokenId, u32>,
    counted: usize,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    token: TokenId,
    logit: f32,
    /// Unnormalized probability: relative to the likeliest, at first untempered.
    weight: f64,
}

impl Sampler {
    /// A sampler with these options.
    ///
    /// # Errors
    /// [`Kind::Options`] for a negative or non-finite temperature, a `top_p` or `min_p` outside 0 to 1, and a
    /// penalty or bias that is no number. [`Penalties::repeat`] has to be more than 0.
    pub fn new(options: &SamplerOptions) -> Result<Self, Error> {
        let fraction = |x: f32| (0.0..=1.0).contains(&x);
        let Penalties { frequency, presence, repeat } = options.penalties;
        let mut numbers =
            [frequency, presence, repeat].into_iter().chain(options.bias.iter().map(|&(_, bias)| bias));
        let refused = if !options.temperature.is_finite() || options.temperature < 0.0 {
            Some(format!("temperature {}: it must be 0 or more", options.temperature))
        } else if !fraction(options.top_p) {
            Some(format!("top_p {}: it must be between 0 and 1", options.top_p))
        } else if !fraction(options.min_p) {
            Some(format!("min_p {}: it must be between 0 and 1", options.min_p))
        } else if !numbers.all(f32::is_finite) || repeat <= 0.0 {
            Some("penalties and biases must be numbers, and the one for repetition more than 0".to_owned())
        } else {
            None
        };
        match refused {
            Some(message) => Err(Error::new(Kind::Options, message)),
            None => Ok(Self::with(options.clone())),
        }
    }

    /// A sampler that takes the likeliest token.
    pub fn greedy() -> Self {
        Self::with(SamplerOptions::default())
    }

    fn with(options: SamplerOptions) -> Self {
        let rng = Xoshiro256PlusPlus::seed_from_u64(options.seed);
        Self { options, rng, candidates: Vec::new(), seen: HashMap::new(), counted: 0 }
    }

    /// The options of the sampler.
    pub fn options(&self) -> &SamplerOptions {
        &self.options
    }

    /// Whether the sampler takes the likeliest token.
    pub(crate) fn is_greedy(&self) -> bool {
        self.options.temperature == 0.0
    }

    /// The logits after a text of a turn, with penalties and biases.
    pub(crate) fn weighed<'a>(&mut self, logits: &'a [f32], text: &[DecodedToken]) -> Cow<'a, [f32]> {
        let SamplerOptions { penalties, bias, .. } = &self.options;
        let penalizes = !penalties.are_off();
        if !penalizes && bias.is_empty() {
            return Cow::Borrowed(logits);
        }
        let mut logits = logits.to_vec();
        if penalizes {
            if text.len() < self.counted {
                // Another text.
                self.seen.clear();
                self.counted = 0;
            }
            for token in text.get(self.counted..).unwrap_or_default() {
                *self.seen.entry(token.token).or_insert(0) += 1;
            }
            self.counted = text.len();
            for (&token, &times) in &self.seen {
                let Some(logit) = logits.get_mut(token as usize) else { continue };
                let Penalties { frequency, presence, repeat } = penalties;
                *logit = if *logit > 0.0 { *logit / repeat } else { *logit * repeat };
                *logit -= frequency * times as f32 + presence;
            }
        }
        for &(token, bias) in bias {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit += bias;
            }
        }
        Cow::Owned(logits)
    }

    /// Forgets the tokens of an earlier turn.
    pub(crate) fn begin(&mut self) {
        self.seen.clear();
        self.counted = 0;
    }

    /// Draws a token that `constraint` allows. The constraint does not move.
    ///
    /// # Errors
    /// [`Kind::Constraint`] if the constraint allows no token. [`Kind::Backend`] if no logit is finite.
    pub fn draw(&mut self, logits: &[f32], constraint: &mut dyn Constraint) -> Result<Draw, Error> {
        let nothing = || Error::new(Kind::Backend, "no finite logit: the model's output is broken");
        let first = self.draw_from(logits, None).ok_or_else(nothing)?;
        if constraint.allows(first)? {
            return Ok(Draw { token: first, removed: None });
        }
        let mut mask = constraint.mask()?;
        let removed = Some(removed_share(logits, &mask));
        // A mask may hold tokens that a closer look refuses. Taking them out one by one is as good as a mask without
        // them; after a few, asking for that is cheaper.
        for refusals in 1.. {
            let stuck = || Error::new(Kind::Constraint, "the constraint allows no token here");
            let token = self.draw_again(logits, &mask).ok_or_else(stuck)?;
            if constraint.allows(token)? {
                return Ok(Draw { token, removed });
            }
            mask = if refusals == REFUSALS { constraint.exact_mask()? } else { mask.without(token) };
        }
        Err(Error::new(Kind::Constraint, "the constraint refuses every token of its mask"))
    }

    /// Draws from the mask after a refused draw, whose candidates are still there. The target is the allowed
    /// part of them.
    fn draw_again(&mut self, logits: &[f32], mask: &Mask) -> Option<TokenId> {
        if self.is_greedy() {
            return argmax(logits, Some(mask));
        }
        self.candidates.retain(|candidate| mask.contains(candidate.token));
        if self.candidates.is_empty() {
            return self.draw_from(logits, Some(mask));
        }
        self.temper();
        self.pick()
    }

    fn draw_from(&mut self, logits: &[f32], mask: Option<&Mask>) -> Option<TokenId> {
        if self.is_greedy() {
            return argmax(logits, mask);
        }
        self.gather(logits, mask)?;
        self.cut();
        self.temper();
        self.pick()
    }

    /// All tokens with a finite logit, each with its weight. With a mask, only its tokens.
    fn gather(&mut self, logits: &[f32], mask: Option<&Mask>) -> Option<()> {
        let best = argmax(logits, mask).and_then(|token| logits.get(token as usize).copied())?;
        self.candidates.clear();
        let tokens = logits
            .iter()
            .zip(0_u32..)
            .filter(|&(logit, token)| logit.is_finite() && mask.is_none_or(|mask| mask.contains(token)));
        self.candidates.extend(tokens.map(|(&logit, token)| Candidate {
            token,
            logit,
            weight: f64::from(logit - best).exp(),
        }));
        Some(())
    }

    /// Top-k, then top-p, then min-p.
    fn cut(&mut self) {
        let SamplerOptions { top_k, top_p, min_p, .. } = self.options;
        let candidates = &mut self.candidates;
        if top_k > 0 && top_k < candidates.len() {
            candidates.select_nth_unstable_by(top_k - 1, likelier);
            candidates.truncate(top_k);
            // The order selection leaves is its own affair; draws must not depend on it.
            candidates.sort_unstable_by_key(|candidate| candidate.token);
        }
        if top_p < 1.0 {
            let total: f64 = candidates.iter().map(|candidate| candidate.weight).sum();
            let wanted = total * f64::from(top_p);
            // Sorting 150,000 tokens to keep ten is what makes top-p slow: widen a sorted head until it suffices.
            let mut head = 64;
            loop {
                if head < candidates.len() {
                    candidates.select_nth_unstable_by(head - 1, likelier);
                }
                head = head.min(candidates.len());
                let (front, rest) = candidates.split_at_mut(head);
                front.sort_unstable_by(likelier);
                let mut sum = 0.0;
                let enough = front.iter().position(|candidate| {
                    sum += candidate.weight;
                    sum >= wanted
                });
                if let Some(last) = enough {
                    candidates.truncate(last + 1);
                    break;
                }
                if rest.is_empty() {
                    break;
                }
                head *= 8;
            }
            candidates.sort_unstable_by_key(|candidate| candidate.token);
        }
        if min_p > 0.0 {
            // Weights are relative to the likeliest, which no cut removes.
            candidates.retain(|candidate| candidate.weight >= f64::from(min_p));
        }
    }

    /// The weights at the temperature, relative to the likeliest candidate. So they never all underflow.
    fn temper(&mut self) {
        let best = self.candidates.iter().map(|candidate| candidate.logit).fold(f32::NEG_INFINITY, f32::max);
        for candidate in &mut self.candidates {
            candidate.weight =
                (f64::from(candidate.logit - best) / f64::from(self.options.temperature)).exp();
        }
    }

    /// Draws one of the candidates by weight.
    fn pick(&mut self) -> Option<TokenId> {
        let total: f64 = self.candidates.iter().map(|candidate| candidate.weight).sum();
        let mut rest = self.rng.random::<f64>() * total;
        let mut chosen = None;
        for candidate in &self.candidates {
            // Weights can underflow to 0; such a token is never drawn, not even by rounding at the end.
            if candidate.weight > 0.0 {
                chosen = Some(candidate.token);
                rest -= candidate.weight;
                if rest < 0.0 {
                    break;
                }
            }
        }
        chosen
    }
}

/// Orders the likelier first, the lower number first among equals.
fn likelier(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token))
}

/// The token with the greatest logit, the lowest number among equals; `None` if no logit is finite.
pub(crate) fn argmax(logits: &[f32], mask: Option<&Mask>) -> Option<TokenId> {
    let mut best: Option<(f32, TokenId)> = None;
    let mut consider = |logit: f32, token: TokenId| {
        if logit.is_finite() && best.is_none_or(|(greatest, _)| logit > greatest) {
            best = Some((logit, token));
        }
    };
    match mask {
        None => logits.iter().zip(0_u32..).for_each(|(&logit, token)| consider(logit, token)),
        Some(mask) => {
            for token in mask.iter() {
                if let Some(&logit) = logits.get(token as usize) {
                    consider(logit, token);
                }
            }
        }
    }
    best.map(|(_, token)| token)
}

/// Whether an allowed token other than `drawn` is likelier, or has a logit less than `within` below.
pub(crate) fn has_rival(
    logits: &[f32],
    drawn: TokenId,
    within: f32,
    constraint: &mut dyn Constraint,
) -> Result<bool, Error> {
    let least = logits.get(drawn as usize).map_or(f32::NEG_INFINITY, |logit| logit - within);
    let near = |&(&logit, token): &(&f32, TokenId)| logit.is_finite() && logit > least && token != drawn;
    let rivals: Vec<TokenId> = logits.iter().zip(0_u32..).filter(near).map(|(_, token)| token).collect();
    if rivals.is_empty() {
        return Ok(false);
    }
    let mask = constraint.mask()?;
    for token in rivals.into_iter().filter(|&token| mask.contains(token)) {
        if constraint.allows(token)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The probability outside the mask.
fn removed_share(logits: &[f32], mask: &Mask) -> f64 {
    let Some(best) = argmax(logits, None).and_then(|token| logits.get(token as usize).copied()) else {
        return 0.0;
    };
    let weight = |logit: f32| if logit.is_finite() { f64::from((logit - best).exp()) } else { 0.0 };
    let all: f64 = logits.iter().map(|&logit| weight(logit)).sum();
    let kept: f64 =
        mask.iter().filter_map(|token| logits.get(token as usize)).map(|&logit| weight(logit)).sum();
    (1.0 - kept / all).clamp(0.0, 1.0)
}
