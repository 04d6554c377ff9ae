//! Classes of many ranges, which become fragments where they stand often, match what they match in parts.

use super::{automaton, small_vocabulary, wide_vocabulary};
use crate::{Expr, Grammar};

/// A few letters, and many characters that are no neighbours, in two classes or as one.
fn class(parted: bool) -> Expr {
    let letters = [('a', 'c'), ('é', 'é'), ('ü', 'ü')];
    let others = (0..150_u32).filter_map(|i| char::from_u32(0x4E00 + 2 * i)).map(|c| (c, c));
    let ranges: Vec<(char, char)> = letters.into_iter().chain(others).collect();
    let parts = ranges.chunks(if parted { 60 } else { ranges.len() });
    Expr::choice(parts.map(|part| Expr::class(part.to_vec())))
}

fn grammar(parted: bool) -> Grammar {
    let mut builder = Grammar::builder();
    let class = || class(parted);
    let named = builder.rule("named", class());
    let body = Expr::choice([
        Expr::sequence((0..3).flat_map(|_| [class(), Expr::literal("-")])),
        Expr::sequence([class().repeat(1, Some(4)), Expr::literal("."), class().optional(), class()]),
        Expr::sequence([class().repeat(9, None), Expr::Rule(named).repeat(0, Some(30)), Expr::literal("!")]),
        Expr::sequence([Expr::Rule(named), Expr::Rule(named), Expr::literal("?")]),
    ]);
    let root = builder.rule("root", body.repeat(0, None));
    builder.build(root).unwrap()
}

#[test]
fn classes_that_stand_often_match_what_they_match_in_parts() {
    let texts = [
        "a-b-é-",
        "abc.a",
        "ab.üc",
        "aaaaaaaaaaaaaaé!",
        "ab?a-",
        "ü一?一丄.一",
        "aa-",
        "abca",
        "d",
        "a.!",
        "一",
    ];
    for vocabulary in [small_vocabulary(), wide_vocabulary(), crate::Vocabulary::bytes_only().into()] {
        let one = automaton(&grammar(false), vocabulary.clone()).unwrap();
        let parted = automaton(&grammar(true), vocabulary).unwrap();
        for text in texts {
            let (mut one, mut parted) = (one.matcher(), parted.matcher());
            for byte in text.bytes() {
                assert_eq!(one.mask().unwrap(), parted.mask().unwrap(), "in {text}, before {byte}");
                assert_eq!(one.is_complete(), parted.is_complete(), "in {text}, before {byte}");
                let (length, other) = (one.completion().unwrap().len(), parted.completion().unwrap().len());
                assert_eq!(length, other, "in {text}, before {byte}");
                let accepted = one.accept_bytes(&[byte]).is_ok();
                assert_eq!(accepted, parted.accept_bytes(&[byte]).is_ok(), "in {text}, {byte}");
                if !accepted {
                    break;
                }
            }
        }
    }
    let (one, parted) = (grammar(false), grammar(true));
    let states = |grammar| automaton(grammar, small_vocabulary()).unwrap().usage().states;
    assert!(states(&one) < states(&parted), "it is written out a few times only");
}
