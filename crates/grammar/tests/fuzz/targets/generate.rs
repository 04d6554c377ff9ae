//! Grammars and vocabularies out of bytes: what the fuzzer chooses, made into something to run.

use std::sync::{Arc, OnceLock};

use arbitrary::{Result, Unstructured};
use toolgate_grammar::gbnf::{TokenMatch, TokenName};
use toolgate_grammar::{Expr, Grammar, RuleId, TokenKind, Vocabulary};

/// Nesting of groups within a rule.
const DEPTH: usize = 4;

/// A grammar of a few rules over a few letters, left recursion and rules that match nothing included.
pub(crate) fn grammar(u: &mut Unstructured<'_>) -> Result<Grammar> {
    let mut builder = Grammar::builder();
    let rules: Vec<RuleId> = (0..u.int_in_range(1..=5)?).map(|n| builder.declare(&format!("r{n}"))).collect();
    for rule in &rules {
        let body = expr(u, &rules, DEPTH)?;
        builder.define(*rule, body);
    }
    Ok(builder.build(rules[0]).expect("every rule is defined"))
}

fn expr(u: &mut Unstructured<'_>, rules: &[RuleId], depth: usize) -> Result<Expr> {
    let several = |u: &mut Unstructured<'_>| -> Result<Vec<Expr>> {
        (0..u.int_in_range(1..=3)?).map(|_| expr(u, rules, depth - 1)).collect()
    };
    let leaves = 9;
    Ok(match u.int_in_range(0..=if depth == 0 { leaves } else { leaves + 9 })? {
        0..=2 => Expr::literal(*u.choose(&["a", "b", "ab", "aba", "é", "bé", "aaaa", "c"])?),
        3 => Expr::class([*u.choose(&[('a', 'b'), ('b', 'c'), ('a', 'é'), ('é', 'ü'), ('c', 'b')])?]),
        4 => Expr::not_class([*u.choose(&[('a', 'b'), ('\0', '\u{10ffff}'), ('b', '\u{ff}')])?]),
        5 => Expr::Any,
        6 => match u.int_in_range(0..=2)? {
            0 => Expr::empty(),
            1 => Expr::Choice(Vec::new()),
            _ => token(u)?,
        },
        // A rule after a letter, so that not all of the grammars are left-recursive.
        7 | 8 => Expr::sequence([Expr::literal(*u.choose(&["a", "b"])?), Expr::Rule(*u.choose(rules)?)]),
        9 => Expr::Rule(*u.choose(rules)?),
        10..=12 => Expr::sequence(several(u)?),
        13..=15 => Expr::choice(several(u)?),
        _ => {
            let min = *u.choose(&[0, 0, 1, 2, 3, 7, 12, 1 << 32])?;
            let more = *u.choose(&[None, Some(0), Some(1), Some(4), Some(9), Some(u64::from(u32::MAX))])?;
            expr(u, rules, depth - 1)?.repeat(min, more.map(|more| min + more))
        }
    })
}

fn token(u: &mut Unstructured<'_>) -> Result<Expr> {
    let text = |name: &str| TokenName::Text(name.to_owned());
    let name = match u.int_in_range(0..=4)? {
        0 => text("<s>"),
        1 => text("<eos>"),
        2 => text("ab"),
        3 => TokenName::Id(u.int_in_range(0..=19)?),
        _ => text("a"),
    };
    Ok(Expr::Token(TokenMatch { negated: u.arbitrary()?, name }))
}

/// Tokens of several characters, characters split over tokens, twins, a text token that looks like a special one,
/// and all kinds.
pub(crate) fn small_vocabulary() -> Arc<Vocabulary> {
    static SMALL: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    let make = || {
        let texts: [&[u8]; 20] = [
            b"a",
            b"b",
            b"c",
            b"ab",
            b"ba",
            b"aa",
            b"aba",
            b"abab",
            "é".as_bytes(),
            b"\xc3",
            b"\xa9",
            b"a\xc3",
            b"\xa9b",
            "bé".as_bytes(),
            b"ab",
            b"",
            "\u{fc}".as_bytes(),
            b"\xff",
            b"<s>",
            b"aaaaaaaa",
        ];
        let text = texts.map(|text| (text.to_vec(), TokenKind::Text));
        let others =
            [("<s>", TokenKind::Special), ("<eos>", TokenKind::EndOfGeneration), ("a", TokenKind::Unused)];
        let others = others.map(|(name, kind)| (name.as_bytes().to_vec(), kind));
        Arc::new(Vocabulary::new(text.into_iter().chain(others)).expect("a small vocabulary"))
    };
    Arc::clone(SMALL.get_or_init(make))
}

/// All runs of one to three letters and a little more: enough for masks to be shared and cut into slices.
pub(crate) fn wide_vocabulary() -> Arc<Vocabulary> {
    static WIDE: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    let make = || {
        let letters = ["a", "b", "c", "x", "é", " ", "\"", ",", "1"];
        let mut texts: Vec<String> = letters.map(str::to_owned).to_vec();
        for length in 1..3 {
            let shorter: Vec<String> =
                texts.iter().filter(|text| text.chars().count() == length).cloned().collect();
            texts.extend(shorter.iter().flat_map(|text| letters.map(|letter| format!("{text}{letter}"))));
        }
        texts.extend((4..40).flat_map(|n| [("a".repeat(n)), "ab".repeat(n), format!("{}\"", "a".repeat(n))]));
        let split = [&b"\xc3"[..], b"\xa9", b"a\xc3", b"\xa9a", b"\xf0\x9f", b"\x98\x80"];
        let texts = texts.into_iter().map(String::into_bytes).chain(split.map(<[u8]>::to_vec));
        let texts = texts.map(|text| (text, TokenKind::Text));
        let others = [("<s>", TokenKind::Special), ("<eos>", TokenKind::EndOfGeneration)];
        let others = others.map(|(name, kind)| (name.as_bytes().to_vec(), kind));
        Arc::new(Vocabulary::new(texts.chain(others)).expect("a wide vocabulary"))
    };
    Arc::clone(WIDE.get_or_init(make))
}
