//! Wide batches that change low bits: the same greedy turn as token by token, whatever they change.

use std::ops::ControlFlow;
use std::sync::Arc;

use toolgate_grammar::{Automaton, Grammar, Limits};
use toolgate_infer::{
    Backend, Constraint, DecodeOptions, Decoded, Error, Forcing, Free, Further, Openings, Other, Rows,
    Sampler, SamplerOptions, Session, Specials, Stats, TokenId, Tried, Vocabulary, decode, decode_from,
    likeliest_other,
};

use crate::language::vocabulary;

/// What wide batches change at most, between two logits.
const NOISE: f32 = 0.5;
/// Tokens of a batch that changes nothing.
const EXACT: usize = 2;

/// A model of some near ties, whose logits are off behind what was evaluated in wide batches after the prompt.
struct Blurry {
    vocabulary: Arc<Vocabulary>,
    seed: u64,
    /// The noise it admits to.
    noise: Option<f32>,
    held: Vec<TokenId>,
    prompt: usize,
    /// Where the first wide batch of the turn began.
    blurred: usize,
    rows: Vec<Vec<f32>>,
    batches: usize,
}

impl Blurry {
    fn new(seed: u64, noise: Option<f32>) -> Self {
        let (held, rows) = (Vec::new(), Vec::new());
        Self {
            vocabulary: vocabulary(),
            seed,
            noise,
            held,
            prompt: usize::MAX,
            blurred: usize::MAX,
            rows,
            batches: 0,
        }
    }

    /// A number in 0 to 1 by what it is given, and the seed.
    fn hash(&self, numbers: &[u64]) -> f32 {
        let mut x = self.seed;
        for number in numbers {
            x = (x ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            x = (x ^ (x >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            x ^= x >> 32;
        }
        (x >> 40) as f32 / (1_u64 << 24) as f32
    }

    fn row(&self, len: usize) -> Vec<f32> {
        let last = len.checked_sub(1).map_or(0, |last| u64::from(self.held[last]));
        let logit = |token: TokenId| {
            let exact = 24.0 * self.hash(&[last, len as u64, token.into()]);
            let off = if len > self.blurred { self.hash(&[7, len as u64, token.into()]) - 0.5 } else { 0.0 };
            // Two logits change by less than half of it each.
            exact + off * NOISE * 0.99
        };
        (0..self.vocabulary.len() as u32).map(logit).collect()
    }
}

impl Backend for Blurry {
    fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }
    fn tokenize(&self, text: &str, specials: Specials) -> Result<Vec<TokenId>, Error> {
        toolgate_infer::scripted::Scripted::new(self.vocabulary.clone()).tokenize(text, specials)
    }
    fn context_len(&self) -> usize {
        4_096
    }
    fn batch_len(&self) -> usize {
        64
    }
    fn exact_batch_len(&self) -> usize {
        EXACT
    }
    fn noise(&self) -> Option<f32> {
        self.noise
    }
    fn evaluated(&self) -> usize {
        self.held.len()
    }
    fn truncate(&mut self, len: usize) -> Result<usize, Error> {
        self.held.truncate(len);
        if len <= self.blurred {
            self.blurred = usize::MAX;
        }
        Ok(self.held.len())
    }
    fn eval(&mut self, tokens: &[TokenId], rows: Rows) -> Result<(), Error> {
        let before = self.held.len();
        if tokens.len() > EXACT && before >= self.prompt {
            self.blurred = self.blurred.min(before);
        }
        self.batches += 1;
        self.held.extend_from_slice(tokens);
        let wanted = (0..tokens.len()).filter(|&position| rows.wants(position, tokens.len()));
        self.rows = wanted.map(|position| self.row(before + position + 1)).collect();
        Ok(())
    }
    fn logits(&self, row: usize) -> Result<&[f32], Error> {
        Ok(&self.rows[row])
    }
    fn begin_turn(&mut self, at: usize) {
        self.prompt = at;
    }
}

const CALLS: &str = r#"
root ::= call ("\n" call)*
call ::= "{\"path\": \"" [a-d]{1,9} "\", \"all\": " ("true" | "false") "}"
"#;

/// A turn, and another way to write its first value.
struct Outcome {
    turn: Decoded,
    again: Option<Decoded>,
    batches: usize,
}

fn outcome(seed: u64, noise: Option<f32>, forcing: Forcing) -> Outcome {
    let vocabulary = vocabulary();
    let automaton =
        Automaton::new(&Grammar::parse(CALLS).unwrap(), vocabulary.clone(), &Limits::default()).unwrap();
    let mut session = Session::new(Blurry::new(seed, noise));
    session.set_prompt_text("<|start|>paths abcd, abba, cab and dada; all: true or false").unwrap();
    let further = Some(Further { openings: Openings::new(&vocabulary, &["{\"path"]), threshold: 0.02 });
    let options = DecodeOptions { forcing, max_tokens: 100, further, ..DecodeOptions::default() };
    let mut sink = |_: toolgate_infer::Piece<'_>| ControlFlow::Continue(());
    let mut sampler = Sampler::greedy();
    let turn = decode(&mut session, &mut automaton.matcher(), &mut sampler, &options, &mut sink).unwrap();
    let batches = session.backend().batches;
    let value = 10..10 + turn.text[10..].find('"').unwrap_or(turn.text.len() - 10);
    let mut tried = Tried::default();
    tried.add(&turn.text[..value.end]);
    let mut make = || Ok(Box::new(automaton.matcher()) as Box<dyn Constraint>);
    let stats = &mut Stats::default();
    let other = likeliest_other(&mut session, &mut make, &options, &turn, value, &tried, stats).unwrap();
    let again = other.and_then(|other: Other| {
        let mut matcher = automaton.matcher();
        decode_from(&mut session, &mut matcher, &mut sampler, &options, &other, &mut sink).unwrap()
    });
    Outcome { turn, again, batches }
}

fn tokens(decoded: &Decoded) -> Vec<TokenId> {
    decoded.tokens.iter().map(|token| token.token).collect()
}

/// Of 300 turns, how many a way of decoding writes otherwise than token by token, and its batches beside those of narrow ones.
fn differing(noise: f32) -> (usize, usize, usize) {
    let (mut others, mut wide, mut narrow) = (0, 0, 0);
    for seed in 0..300 {
        let plain = outcome(seed, None, Forcing::Off);
        let batched = outcome(seed, Some(noise), Forcing::On);
        let same = tokens(&plain.turn) == tokens(&batched.turn)
            && plain.turn.stop == batched.turn.stop
            && plain.again.as_ref().map(tokens) == batched.again.as_ref().map(tokens);
        others += usize::from(!same);
        wide += batched.batches;
        narrow += outcome(seed, None, Forcing::On).batches;
    }
    (others, wide, narrow)
}

#[test]
fn what_wide_batches_change_is_not_chosen() {
    let (others, wide, narrow) = differing(NOISE);
    assert_eq!(others, 0);
    assert!(
        wide < narrow,
        "{wide} batches, {narrow} narrow ones: wide ones pay though some choices are made twice"
    );
}

#[test]
fn a_bound_that_is_too_low_is_seen() {
    let (others, ..) = differing(0.0);
    assert!(others > 10, "{others} of 300 differ: the test above would see a choice that is not made anew");
}

#[test]
fn draws_by_chance_take_narrow_batches() {
    let vocabulary = vocabulary();
    let automaton = Automaton::new(&Grammar::parse(CALLS).unwrap(), vocabulary, &Limits::default()).unwrap();
    let draw = |noise| {
        let mut session = Session::new(Blurry::new(5, noise));
        session.set_prompt_text("<|start|>paths abcd, abba").unwrap();
        let sampling = SamplerOptions { temperature: 0.8, seed: 3, ..SamplerOptions::default() };
        let mut sampler = Sampler::new(&sampling).unwrap();
        let options = DecodeOptions { max_tokens: 100, ..DecodeOptions::default() };
        let mut sink = |_: toolgate_infer::Piece<'_>| ControlFlow::Continue(());
        let turn = decode(&mut session, &mut automaton.matcher(), &mut sampler, &options, &mut sink).unwrap();
        assert_eq!(session.backend().blurred, usize::MAX, "no batch was wide");
        tokens(&turn)
    };
    assert_eq!(draw(Some(NOISE)), draw(None));
}

#[test]
fn a_turn_without_forced_text_takes_narrow_batches() {
    let vocabulary = vocabulary();
    let mut session = Session::new(Blurry::new(5, Some(NOISE)));
    session.set_prompt_text("<|start|>paths abcd, abba").unwrap();
    let options = DecodeOptions { max_tokens: 100, ..DecodeOptions::default() };
    let mut sink = |_: toolgate_infer::Piece<'_>| ControlFlow::Continue(());
    let mut free = Free::new(vocabulary);
    decode(&mut session, &mut free, &mut Sampler::greedy(), &options, &mut sink).unwrap();
    assert_eq!(session.backend().blurred, usize::MAX, "no batch was wide");
}
