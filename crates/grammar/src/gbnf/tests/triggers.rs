//! Where free text turns into what a marker begins, compared with a scan of the text.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::gbnf::{After, Hidden, Marker, TokenName, Trigger, Triggers};
use crate::{Automaton, Expr, Grammar, Kind, Limits, TokenKind, Vocabulary};

fn text(text: &str) -> Marker {
    Marker::Text(text.to_owned())
}

fn word(text: &str) -> Marker {
    Marker::Word(text.to_owned())
}

fn token(name: &str) -> Marker {
    Marker::Token(TokenName::Text(name.to_owned()))
}

/// Free text in which each marker must be followed by `(`, digits and `)`.
fn grammar(markers: &[Marker], hidden: &[(Marker, Marker)], after: After) -> Grammar {
    let mut builder = Grammar::builder();
    let digits = Expr::class([('0', '9')]).repeat(0, None);
    let then = builder.rule("call", Expr::sequence([Expr::literal("("), digits, Expr::literal(")")]));
    let triggers = Triggers {
        triggers: markers.iter().cloned().map(|marker| Trigger { marker, then }).collect(),
        hidden: hidden.iter().cloned().map(|(open, close)| Hidden { open, close }).collect(),
        after,
    };
    let root = triggers.define(&mut builder, "root").unwrap();
    builder.build(root).unwrap()
}

fn check(grammar: &Grammar, accepted: &[&str], refused: &[&str]) {
    let read = Grammar::parse(&grammar.to_gbnf()).unwrap();
    for grammar in [grammar, &read] {
        let matches = |text: &str| grammar.match_text(text, &Limits::default()).unwrap().matched;
        accepted.iter().for_each(|text| assert!(matches(text), "{text:?}"));
        refused.iter().for_each(|text| assert!(!matches(text), "{text:?}"));
    }
}

#[test]
fn a_marker_is_followed_by_its_part_and_then_by_text_again() {
    check(
        &grammar(&[text("<call>")], &[], After::Text),
        &["", "a < b", "<call", "<<call>(1) and <call>() done", "<call>(12)<call>(3)", "日本 <call>(1)"],
        &["<call>", "<call>x", "<call>(1", "so <call>(x)", "<call>(1)<call>", "<<<call>"],
    );
    check(
        &grammar(&[text("<call>")], &[], After::End),
        &["", "some text", "text <call>(1)"],
        &["<call>(1) and more", "<call>(1)<call>(2)", "<call>"],
    );
}

#[test]
fn a_word_counts_only_by_itself() {
    check(
        &grammar(&[word("call")], &[], After::Text),
        &[
            "recall it",
            "calls",
            "call_me",
            "call(1)",
            "I call(1), you recall",
            "callécall(1)",
            "écalling",
            "call(1)call(2)",
        ],
        &["call", "I call you", "call.", "(call)"],
    );
    // The same text anywhere, for comparison.
    check(&grammar(&[text("call")], &[], After::Text), &["recall(1)"], &["recall it", "calls"]);
    // A marker that does not end in a letter needs no look at what follows.
    check(&grammar(&[word("fn:")], &[], After::Text), &["fn:(1)", "xfn:y", "fn :"], &["fn:a", "a fn:"]);
}

#[test]
fn reasoning_is_ignored() {
    let think = (text("<think>"), text("</think>"));
    check(
        &grammar(&[text("<call>")], std::slice::from_ref(&think), After::Text),
        &[
            "<think>I could <call> it</think><call>(1)",
            "<think><call>",
            "</think>",
            "<call>(1)<think><call>(x</think>",
        ],
        &["<think></think><call>", "<think></thin</think> <call>x"],
    );
    check(
        &grammar(&[token("<call>")], &[(token("<think>"), token("</think>"))], After::Text),
        &["a <call>(1) b", "<think>x</think> <call>(2)"],
        &["<call>", "<think>x</think><call>x"],
    );
}

#[test]
fn of_several_markers_the_one_that_is_whole_first_counts() {
    check(
        &grammar(&[text("ab"), text("abc"), text("b")], &[], After::Text),
        &["a", "b(1)", "ab(1)", "ab(1)c"],
        &["abc(1)", "ab", "b"],
    );
}

#[test]
fn markers_that_cannot_be_told_apart_are_refused() {
    let kind = |triggers: &[Marker], hidden: &[(Marker, Marker)]| {
        let mut builder = Grammar::builder();
        let then = builder.rule("call", Expr::literal("x"));
        let triggers = Triggers {
            triggers: triggers.iter().cloned().map(|marker| Trigger { marker, then }).collect(),
            hidden: hidden.iter().cloned().map(|(open, close)| Hidden { open, close }).collect(),
            after: After::Text,
        };
        triggers.define(&mut builder, "root").map_err(|error| error.kind())
    };
    assert_eq!(kind(&[text("a"), text("a")], &[]), Err(Kind::Unsupported));
    assert_eq!(kind(&[text("a")], &[(word("a"), text("b"))]), Err(Kind::Unsupported));
    assert_eq!(kind(&[text("")], &[]), Err(Kind::Unsupported));
    assert_eq!(kind(&[token("<a>"), token("<a>")], &[]), Err(Kind::Unsupported));
    assert!(kind(&[text("<a>"), token("<a>")], &[(text("b"), text("b"))]).is_ok());
}

#[test]
fn tokens_may_cut_a_marker_anywhere_and_control_tokens_are_not_their_names() {
    let texts =
        ["x", "<", "<c", "call", ">", "l>(", "call>(1", "l>x", "all>()<", "(", "1", ")", ")x", "<call>"];
    let tokens = texts.map(|text| (text.as_bytes().to_vec(), TokenKind::Text));
    let control = [(b"<call>".to_vec(), TokenKind::Special), (b"<eos>".to_vec(), TokenKind::EndOfGeneration)];
    let vocabulary = Arc::new(Vocabulary::new(tokens.into_iter().chain(control)).unwrap());
    let after = |grammar: &Grammar, before: &str| {
        let automaton = Automaton::new(grammar, vocabulary.clone(), &Limits::default()).unwrap();
        let mut matcher = automaton.matcher();
        matcher.accept_bytes(before.as_bytes()).unwrap();
        let mask = matcher.mask().unwrap();
        mask.iter()
            .map(|token| String::from_utf8_lossy(vocabulary.bytes(token)).into_owned())
            .collect::<Vec<_>>()
    };
    let by_text = grammar(&[text("<call>")], &[], After::Text);
    // Whatever ends the marker must go on as the marker demands.
    assert_eq!(
        after(&by_text, "x<cal"),
        [
            "x", "<", "<c", "call", ">", "l>(", "call>(1", "l>x", "all>()<", "(", "1", ")", ")x", "<call>",
            "<eos>"
        ]
        .into_iter()
        .filter(|text| *text != "l>x")
        .collect::<Vec<_>>()
    );
    assert_eq!(
        after(&by_text, "<c"),
        [
            "x", "<", "<c", "call", ">", "l>(", "call>(1", "l>x", "all>()<", "(", "1", ")", ")x", "<call>",
            "<eos>"
        ]
    );
    assert_eq!(after(&by_text, "<call>("), ["1", ")", ")x"]);
    // The control token is no way to write the text, and its name is no way to write the control token.
    let special = vocabulary.special("<call>").unwrap();
    let by_token = grammar(&[token("<call>")], &[], After::Text);
    for (grammar, allowed) in [(&by_text, false), (&by_token, true)] {
        let automaton = Automaton::new(grammar, vocabulary.clone(), &Limits::default()).unwrap();
        assert_eq!(automaton.matcher().allows(special).unwrap(), allowed);
    }
    check(&by_token, &["a <call>(1)"], &[]);
    let automaton = Automaton::new(&by_token, vocabulary.clone(), &Limits::default()).unwrap();
    let mut matcher = automaton.matcher();
    matcher.accept_bytes(b"<call>x").unwrap();
    assert!(matcher.is_complete(), "spelled out it is text");
    matcher.accept(special).unwrap();
    assert!(!matcher.is_complete());
    matcher.accept_bytes(b"(1)").unwrap();
    assert!(matcher.is_complete());
}

/// What a plain scan says: at each character the longest marker that ends there.
fn scan(mut rest: &[char], markers: &[(&str, bool)], hidden: Option<(&str, &str)>) -> bool {
    let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
    let ends_with = |read: &[char], marker: &str, word: bool, next: Option<&char>| {
        let marker: Vec<char> = marker.chars().collect();
        let before = read.strip_suffix(marker.as_slice());
        let whole = |before: &[char]| {
            let inside = before.last().is_some_and(is_word)
                || marker.last().is_some_and(is_word) && next.is_some_and(is_word);
            !(word && inside)
        };
        before.is_some_and(whole)
    };
    let mut inside = false;
    'segments: loop {
        for read in 1..=rest.len() {
            let (text, next) = (&rest[..read], rest.get(read));
            if inside {
                if ends_with(text, hidden.unwrap().1, false, next) {
                    inside = false;
                    rest = &rest[read..];
                    continue 'segments;
                }
                continue;
            }
            let call = markers
                .iter()
                .filter(|(marker, word)| ends_with(text, marker, *word, next))
                .map(|(m, _)| m.len())
                .max();
            let open =
                hidden.filter(|(open, _)| ends_with(text, open, false, next)).map(|(open, _)| open.len());
            if call.is_none() && open.is_none() {
                continue;
            }
            rest = &rest[read..];
            if open > call {
                inside = true;
                continue 'segments;
            }
            let Some(['(', after @ ..]) = Some(rest) else { return false };
            let digits = after.iter().take_while(|c| c.is_ascii_digit()).count();
            let Some((')', after)) = after[digits..].split_first() else { return false };
            rest = after;
            continue 'segments;
        }
        return true;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, rng_seed: RngSeed::Fixed(11), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_scan(
        markers in prop::collection::btree_map("[ab_-]{1,3}", any::<bool>(), 1..4),
        hidden in prop::option::of(("[ab<]{1,2}", "[ab>]{1,2}")),
        parts in prop::collection::vec("[ab_<>-]{1,2}|\\(1\\)|\\(\\)|\\(", 0..9),
    ) {
        let hidden = hidden.filter(|(open, _)| !markers.contains_key(open));
        let made: Vec<Marker> = markers.iter().map(|(marker, is_word)| if *is_word { word(marker) } else { text(marker) }).collect();
        let spans: Vec<(Marker, Marker)> = hidden.iter().map(|(open, close)| (text(open), text(close))).collect();
        let grammar = grammar(&made, &spans, After::Text);
        let markers: Vec<(&str, bool)> = markers.iter().map(|(marker, is_word)| (marker.as_str(), *is_word)).collect();
        let subject: String = parts.concat();
        let characters: Vec<char> = subject.chars().collect();
        let hidden = hidden.as_ref().map(|(open, close)| (open.as_str(), close.as_str()));
        let expected = scan(&characters, &markers, hidden);
        let outcome = grammar.match_text(&subject, &Limits::default()).unwrap();
        prop_assert_eq!(outcome.matched, expected, "{:?} with {:?} and {:?}", subject, markers, hidden);
    }
}
