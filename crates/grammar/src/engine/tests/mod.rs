//! The engine as a whole, on small vocabularies.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unreachable,
    reason = "tests"
)]

mod budget;
mod classes;
mod laws;
mod shared;
mod tables;
mod ways;
mod words;

use std::sync::Arc;

use super::{Automaton, TokenKind, Vocabulary};
use crate::{Error, Grammar, Limits};

fn automaton(grammar: &Grammar, vocabulary: Arc<Vocabulary>) -> Result<Arc<Automaton>, Error> {
    Automaton::new(grammar, vocabulary, &Limits::default())
}

/// A few tokens of several characters, characters split over tokens, twins, and all kinds.
fn small_vocabulary() -> Arc<Vocabulary> {
    let texts: [&[u8]; 18] = [
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
    ];
    let text = texts.map(|text| (text.to_vec(), TokenKind::Text));
    let others =
        [("<s>", TokenKind::Special), ("<eos>", TokenKind::EndOfGeneration), ("a", TokenKind::Unused)];
    let others = others.map(|(name, kind)| (name.as_bytes().to_vec(), kind));
    Arc::new(Vocabulary::new(text.into_iter().chain(others)).unwrap())
}

/// Enough tokens of letters that their runs become a slice, and long ones that reach counts far away.
fn wide_vocabulary() -> Arc<Vocabulary> {
    static WIDE: std::sync::OnceLock<Arc<Vocabulary>> = std::sync::OnceLock::new();
    let make = || {
        let mut texts: Vec<Vec<u8>> = (b' '..=b'~').map(|byte| vec![byte]).collect();
        for first in b'a'..=b'z' {
            texts.extend((b'a'..=b'z').map(|second| vec![first, second]));
        }
        for length in [3, 5, 7, 8, 15, 16, 17, 18, 19, 20, 24, 25, 26, 30, 41, 59, 60, 61] {
            let run = "a".repeat(length);
            for text in [
                &run,
                &format!("{run}\""),
                &format!("{run}\";"),
                &format!("{run};"),
                &format!("{run}\",;\"a"),
            ] {
                texts.push(text.clone().into_bytes());
            }
            texts.push(format!("\"{run}").into_bytes());
            texts.push("é".repeat(length).into_bytes());
            texts.push(format!("{}\"", "é".repeat(length)).into_bytes());
        }
        texts.extend([
            b"\xc3".to_vec(),
            b"\xa9".to_vec(),
            b"\xa9aa".to_vec(),
            b"a\xc3".to_vec(),
            b"\xe2\x82".to_vec(),
        ]);
        texts.push(b"aaaaaaaaaaaaaaaaa".to_vec());
        let tokens = texts.into_iter().map(|text| (text, TokenKind::Text));
        let end = (b"<eos>".to_vec(), TokenKind::EndOfGeneration);
        Arc::new(Vocabulary::new(tokens.chain([end])).unwrap())
    };
    Arc::clone(WIDE.get_or_init(make))
}
