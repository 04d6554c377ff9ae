//! Our automaton against llama.cpp's own grammar sampler, on real vocabularies: the same tokens at every step of
//! random walks.
//!
//! What legitimately differs, and is left out of the comparison:
//! - end tokens: compared as one question, whether the text may end here;
//! - control tokens: llama.cpp lets the letters of their names match text, ours are matched by token terminals only;
//! - tokens without text, or with a zero byte, which llama.cpp reads as the end of a string;
//! - bytes that are no UTF-8 after what was written: llama.cpp's decoder lets some overlong and too large forms pass;
//! - part of a code point: llama.cpp lets a text end there, refuses it alone at a token terminal, and refuses it for a
//!   negated class as soon as one of the code points it may become is excluded (ours refuses it if all of them are).

use std::collections::BTreeSet;
use std::sync::Arc;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use toolgate_grammar::{Automaton, Expr, Grammar, Limits, Matcher};
use toolgate_infer::{Constraint, TokenId, TokenKind, Vocabulary};
use toolgate_llama::{LlamaGrammar, Load, Model};

use crate::grammars::{GRAMMARS, TOKEN_GRAMMARS};
use crate::support::model;

struct Walk<'a> {
    vocabulary: &'a Vocabulary,
    name: &'a str,
    ours: Matcher,
    theirs: LlamaGrammar,
    written: Vec<u8>,
    quirks: Quirks,
}

/// What the grammar has that the two see differently.
#[derive(Clone, Copy, Default)]
struct Quirks {
    /// Token terminals: control tokens are compared, parts of code points are not.
    terminals: bool,
    /// A negated class with members beyond ASCII.
    negated: bool,
}

impl Quirks {
    fn of(grammar: &Grammar) -> Self {
        let mut quirks = Self::default();
        grammar.rules().iter().for_each(|rule| quirks.see(&rule.body));
        quirks
    }

    fn see(&mut self, expr: &Expr) {
        match expr {
            Expr::Token(_) => self.terminals = true,
            Expr::Class(class) => {
                self.negated |= class.negated && class.ranges.iter().any(|&(_, high)| high > 0x7F)
            }
            Expr::Sequence(items) | Expr::Choice(items) => items.iter().for_each(|item| self.see(item)),
            Expr::Repeat { item, .. } => self.see(item),
            Expr::Literal(_) | Expr::Any | Expr::Rule(_) => {}
        }
    }
}

impl Walk<'_> {
    /// Bytes after the last whole code point, which a token may complete.
    fn partial(&self) -> &[u8] {
        let valid = std::str::from_utf8(&self.written).map_or_else(|error| error.valid_up_to(), str::len);
        &self.written[valid..]
    }

    fn comparable(&self, token: TokenId) -> bool {
        let bytes = self.vocabulary.bytes(token);
        let part_is_seen_alike = || {
            let whole = [self.partial(), bytes].concat();
            match std::str::from_utf8(&whole) {
                Ok(_) => true,
                Err(error) if error.error_len().is_some() => false,
                Err(error) => !(self.quirks.negated || self.quirks.terminals && error.valid_up_to() == 0),
            }
        };
        match self.vocabulary.kind(token) {
            TokenKind::Text => !bytes.is_empty() && !bytes.contains(&0) && part_is_seen_alike(),
            TokenKind::Special => self.quirks.terminals,
            TokenKind::EndOfGeneration | TokenKind::Unused => false,
        }
    }

    /// Compares the sets; returns what both allow.
    fn step(&mut self) -> Vec<TokenId> {
        let ours: BTreeSet<TokenId> = self.ours.mask().unwrap().iter().collect();
        let theirs: BTreeSet<TokenId> = Constraint::mask(&mut self.theirs).unwrap().iter().collect();
        let differing: Vec<String> = ours
            .symmetric_difference(&theirs)
            .filter(|&&token| self.comparable(token))
            .take(8)
            .map(|&token| {
                let who = if ours.contains(&token) { "only ours allows" } else { "only llama.cpp allows" };
                format!("{who} {token} {:?}", String::from_utf8_lossy(self.vocabulary.bytes(token)))
            })
            .collect();
        let written = String::from_utf8_lossy(&self.written);
        assert!(differing.is_empty(), "{:?} after {written:?}: {differing:#?}", self.name);
        let may_end = self.theirs.is_complete() && self.partial().is_empty();
        assert_eq!(self.ours.is_complete(), may_end, "{:?} may end after {written:?}", self.name);
        ours.intersection(&theirs).copied().filter(|&token| self.comparable(token)).collect()
    }

    fn accept(&mut self, token: TokenId) {
        Constraint::accept(&mut self.ours, token).unwrap();
        Constraint::accept(&mut self.theirs, token).unwrap();
        match self.vocabulary.kind(token) {
            TokenKind::Special => self.written.clear(),
            _ => self.written.extend_from_slice(self.vocabulary.bytes(token)),
        }
    }
}

/// Walks each grammar `walks` times, up to `steps` tokens; returns the number of positions compared.
fn walk(model: &Model, grammars: &[(&str, String)], walks: u64, steps: usize) -> usize {
    let mut compared = 0;
    for (number, (name, gbnf)) in grammars.iter().enumerate() {
        let grammar = Grammar::parse(gbnf).unwrap_or_else(|error| panic!("{name}: {}", error.report()));
        let quirks = Quirks::of(&grammar);
        let vocabulary: Arc<Vocabulary> = model.vocabulary().clone();
        let automaton = Automaton::new(&grammar, vocabulary.clone(), &Limits::default()).unwrap();
        let theirs = LlamaGrammar::new(model, gbnf, "root").unwrap_or_else(|error| panic!("{name}: {error}"));
        for seed in 0..walks {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(number as u64 * 1_000 + seed);
            let (ours, theirs) = (automaton.matcher(), theirs.clone());
            let mut walk = Walk { vocabulary: &vocabulary, name, ours, theirs, written: Vec::new(), quirks };
            for _ in 0..steps {
                let allowed = walk.step();
                compared += 1;
                if allowed.is_empty() {
                    break;
                }
                // Short tokens keep a walk inside a grammar for longer than long ones do.
                let token = *(0..3)
                    .map(|_| &allowed[rng.random_range(0..allowed.len())])
                    .min_by_key(|&&token| vocabulary.bytes(token).len())
                    .unwrap();
                walk.accept(token);
            }
        }
    }
    compared
}

fn texts() -> Vec<(&'static str, String)> {
    GRAMMARS.iter().map(|&(name, gbnf)| (name, gbnf.to_owned())).collect()
}

#[test]
fn same_tokens_as_llama_cpp_with_a_small_vocabulary() {
    let Some(model) = model("smollm2-135m", Load::Vocabulary) else { return };
    assert!(GRAMMARS.len() >= 40);
    let compared = walk(&model, &texts(), 3, 14);
    assert!(compared > 500, "{compared}");
}

#[test]
fn same_tokens_as_llama_cpp_with_a_large_vocabulary() {
    let Some(model) = model("qwen2.5-coder-0.5b", Load::Vocabulary) else { return };
    let compared = walk(&model, &texts(), 1, 10);
    assert!(compared > 150, "{compared}");
}

#[test]
fn same_tokens_as_llama_cpp_for_token_terminals() {
    for id in ["smollm2-135m", "qwen2.5-coder-0.5b"] {
        let Some(model) = model(id, Load::Vocabulary) else { return };
        let vocabulary = model.vocabulary();
        let start = vocabulary.special("<|im_start|>").unwrap();
        let hello = (0..vocabulary.len() as u32).find(|&token| vocabulary.bytes(token) == b"hello").unwrap();
        let grammars: Vec<(&str, String)> = TOKEN_GRAMMARS
            .iter()
            .map(|&(name, gbnf)| {
                let gbnf = gbnf.replace("{start}", &start.to_string()).replace("{hello}", &hello.to_string());
                (name, gbnf.replace("{start-text}", "|im_start|"))
            })
            .collect();
        let compared = walk(&model, &grammars, 3, 8);
        assert!(compared > 20, "{compared}");
    }
}

/// The comparison must be able to fail: a grammar against another that differs in one character.
#[test]
#[should_panic(expected = "only ours allows")]
fn comparison_notices_one_character() {
    let Some(model) = model("smollm2-135m", Load::Vocabulary) else {
        panic!("only ours allows: nothing to compare")
    };
    let grammar = Grammar::parse("root ::= [a-z]+").unwrap();
    let vocabulary = model.vocabulary().clone();
    let ours = Automaton::new(&grammar, vocabulary.clone(), &Limits::default()).unwrap().matcher();
    let theirs = LlamaGrammar::new(&model, "root ::= [a-y]+", "root").unwrap();
    Walk {
        vocabulary: &vocabulary,
        name: "a to z",
        ours,
        theirs,
        written: Vec::new(),
        quirks: Quirks::default(),
    }
    .step();
}
