//! A value written again: what stays, what differs, what is evaluated once more.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use toolgate_grammar::{Automaton, Budgeted, Grammar, Limits};
use toolgate_infer::scripted::Scripted;
use toolgate_infer::{
    Backend, Budget, Cancel, Constraint, DecodeOptions, Decoded, Forcing, Kind, Piece, Sampler,
    SamplerOptions, Session, Stats, StopReason, TokenId, Tried, decode, decode_from, likeliest_other,
};

use crate::language::{Language, vocabulary};
use crate::rigid::Rigid;

const LIST: &str = r#"root ::= "{\"ids\": [" [0-9]{1,3} (", " [0-9]{1,3})* "], \"note\": \"" [a-z ]* "\"}""#;

fn grammar(text: &str) -> Arc<Automaton> {
    Automaton::new(&Grammar::parse(text).unwrap(), vocabulary(), &Limits::default()).unwrap()
}

fn silent() -> impl FnMut(Piece<'_>) -> ControlFlow<()> {
    |_: Piece<'_>| ControlFlow::Continue(())
}

fn start<B: Backend>(backend: B) -> Session<B> {
    let mut session = Session::new(backend);
    session.set_prompt_text("<|start|>").unwrap();
    session
}

/// The turn, then the same without the bytes `wrong` of its text (found by what they are), until it is another.
fn again<B: Backend>(
    session: &mut Session<B>,
    automaton: &Arc<Automaton>,
    sampler: &mut Sampler,
    options: &DecodeOptions,
    wrong: &str,
) -> (Decoded, Option<Decoded>) {
    let first =
        decode(session, &mut Budgeted::new(automaton.matcher()), sampler, options, &mut silent()).unwrap();
    let at = first.text.find(wrong).unwrap();
    let second =
        once_more(session, automaton, sampler, options, &first, at..at + wrong.len(), &mut Tried::default());
    (first, second)
}

fn once_more<B: Backend>(
    session: &mut Session<B>,
    automaton: &Arc<Automaton>,
    sampler: &mut Sampler,
    options: &DecodeOptions,
    before: &Decoded,
    wrong: Range<usize>,
    tried: &mut Tried,
) -> Option<Decoded> {
    tried.add(&before.text[..wrong.end]);
    let (from, mut stats) = (wrong.start, Stats::default());
    let mut make = || Ok(Box::new(Budgeted::new(automaton.matcher())) as Box<dyn Constraint>);
    let other = likeliest_other(session, &mut make, options, before, wrong, tried, &mut stats).unwrap()?;
    assert!(stats.decode_calls > 0 && stats.sampled_tokens == 0, "{stats:?}");
    let mut shown = String::new();
    let mut run = Budgeted::new(automaton.matcher());
    let after = decode_from(session, &mut run, sampler, options, &other, &mut |piece: Piece<'_>| {
        shown.push_str(piece.text);
        ControlFlow::Continue(())
    });
    let after = after.unwrap()?;
    assert_eq!(after.stats.retries, 1);
    assert_eq!(after.text[..from], before.text[..from], "what is in front of the value stays");
    assert!(after.text.ends_with(&shown) && !tried.holds(after.text.as_bytes()), "{}", after.text);
    assert_eq!(after.start, before.start);
    assert_eq!(after.tokens[..other.kept()], before.tokens[..other.kept()]);
    let new = after.stats.written();
    let ended = usize::from(after.stop == StopReason::End);
    assert_eq!(new, after.tokens.len() - other.kept() + ended, "only what is new is counted");
    Some(after)
}

#[test]
fn the_value_becomes_what_the_model_likes_next_and_nothing_else_changes() {
    let bad = r#"{"ids": [3, 3], "note": "read abc"}"#;
    let good = r#"{"ids": [3, 4], "note": "read abc"}"#;
    let automaton = grammar(LIST);
    for forcing in [Forcing::On, Forcing::Off, Forcing::Asked] {
        let options = DecodeOptions { forcing, budget: Budget::Whole, ..DecodeOptions::default() };
        let mut session = start(Scripted::new(vocabulary()).say(bad).or_say(good));
        let (first, second) = again(&mut session, &automaton, &mut Sampler::greedy(), &options, ", 3");
        let second = second.unwrap();
        assert_eq!((first.text.as_str(), second.text.as_str()), (bad, good), "{forcing:?}");
        assert_eq!(second.stop, StopReason::Finished);
        // The session holds the prompt and the new turn.
        let held = session.tokens();
        let written: Vec<TokenId> = second.tokens.iter().map(|token| token.token).collect();
        assert!(written.starts_with(&held[second.start..]), "{forcing:?}");
    }
}

#[test]
fn only_the_value_and_what_follows_is_evaluated_again() {
    let bad = r#"{"ids": [1, 1, 1, 1, 1, 7, 3, 3], "note": "read abc"}"#;
    let good = r#"{"ids": [1, 1, 1, 1, 1, 7, 3, 4], "note": "read abc"}"#;
    let mut session = start(Scripted::new(vocabulary()).say(bad).or_say(good));
    let options = DecodeOptions::default();
    let (first, second) = again(&mut session, &grammar(LIST), &mut Sampler::greedy(), &options, ", 3, 3");
    let (first, second) = (first, second.unwrap());
    assert_eq!(second.text, good);
    // Tokens of the text in front of the wrong value.
    let mut offset = 0;
    let bytes = |token: TokenId| vocabulary().bytes(token).len();
    let at = bad.find(", 3, 3").unwrap();
    let front = first.tokens.iter().take_while(|token| {
        offset += bytes(token.token);
        offset <= at
    });
    let front = front.count();
    let value = ", 3, 3]".len();
    let evaluated: usize = session.backend().batches().iter().sum();
    let prompt = first.start;
    // Once the prompt and the first turn, once the value with the token in front of it, once what follows.
    let most = prompt + first.tokens.len() + (value + 1) + (second.tokens.len() - front);
    assert!(evaluated <= most, "{evaluated} tokens were evaluated, {most} expected at most");
    let all_again = prompt + first.tokens.len() + second.tokens.len();
    assert!(most < all_again, "the bound tells something: {most} of {all_again}");
}

#[test]
fn sampled_turns_are_the_same_for_a_seed_and_never_the_tried_text() {
    let bad = r#"{"ids": [3, 3], "note": "read abc"}"#;
    let good = r#"{"ids": [3, 4], "note": "read abc"}"#;
    let automaton = grammar(LIST);
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let turn = || {
            let options = SamplerOptions { temperature: 1.5, seed, ..SamplerOptions::default() };
            let mut sampler = Sampler::new(&options).unwrap();
            let mut session = start(Scripted::new(vocabulary()).say(bad).or_say(good));
            let (first, second) =
                again(&mut session, &automaton, &mut sampler, &DecodeOptions::default(), "], \"note");
            (first.text, second.map(|second| second.text))
        };
        let texts = turn();
        assert_eq!(texts, turn(), "seed {seed}");
        seen.insert(texts);
    }
    assert!(seen.len() > 5, "the turns are wild enough: {}", seen.len());
}

#[test]
fn a_number_is_another_one_and_not_the_same_with_more_digits_unless_the_model_says_so() {
    let automaton = grammar(LIST);
    for (otherwise, expected) in [("7", "7"), ("19", "19"), ("123", "123")] {
        let text = |number: &str| format!(r#"{{"ids": [{number}], "note": "x"}}"#);
        let mut session = start(Scripted::new(vocabulary()).say(text("12")).or_say(text(otherwise)));
        let options = DecodeOptions::default();
        let (first, second) = again(&mut session, &automaton, &mut Sampler::greedy(), &options, "12");
        assert_eq!(first.text, text("12"));
        assert_eq!(second.unwrap().text, text(expected));
    }
}

#[test]
fn tries_never_repeat_and_end_where_there_is_no_choice_left() {
    let automaton = grammar(r#"root ::= "{\"k\": \"" ("ab" | "abc" | "cab" | "file" | "read") "\"}""#);
    let mut session = start(Scripted::new(vocabulary()).say(r#"{"k": "abc"}"#));
    let (options, mut sampler) = (DecodeOptions::default(), Sampler::greedy());
    let mut run = automaton.matcher();
    let mut turn = decode(&mut session, &mut run, &mut sampler, &options, &mut silent()).unwrap();
    let (mut tried, mut texts) = (Tried::default(), vec![turn.text.clone()]);
    loop {
        let wrong = turn.text.find(": ").unwrap() + 2..turn.text.len() - 1;
        match once_more(&mut session, &automaton, &mut sampler, &options, &turn, wrong, &mut tried) {
            Some(next) => turn = next,
            None => break,
        }
        assert!(!texts.contains(&turn.text), "{} twice", turn.text);
        texts.push(turn.text.clone());
        assert!(texts.len() <= 5);
    }
    assert!(texts.len() >= 3, "{texts:?}");
    // A text without an alternative cannot be another.
    let only = grammar(r#"root ::= "{\"k\": \"file\"}""#);
    let mut session = start(Scripted::new(vocabulary()).say(""));
    let (_, second) = again(&mut session, &only, &mut sampler, &options, "\"file\"");
    assert_eq!(second, None);
}

#[test]
fn a_value_written_again_keeps_to_the_budget() {
    let bad = r#"{"ids": [3, 3], "note": "ab"}"#;
    let good = r#"{"ids": [3, 4], "note": "ab ab ab ab ab ab ab ab ab ab"}"#;
    let automaton = grammar(LIST);
    for max_tokens in 24..60 {
        let options = DecodeOptions { max_tokens, budget: Budget::Whole, ..DecodeOptions::default() };
        let mut session = start(Scripted::new(vocabulary()).say(bad).or_say(good));
        let (first, second) = again(&mut session, &automaton, &mut Sampler::greedy(), &options, ", 3");
        assert_eq!((first.text.as_str(), &first.stop), (bad, &StopReason::Finished), "{max_tokens}");
        let second = second.unwrap();
        assert!(second.tokens.len() <= max_tokens && second.text.starts_with(r#"{"ids": [3, 4]"#));
        let whole = second.text == good;
        assert_eq!(
            second.stop == StopReason::Budget,
            !whole,
            "{max_tokens}: {} {:?}",
            second.text,
            second.stop
        );
        assert!(second.text.ends_with("\"}"), "{}", second.text);
    }
}

#[test]
fn a_model_that_cannot_forget_a_part_writes_the_same() {
    let script = || {
        let bad = r#"{"ids": [3, 3], "note": "ab"}"#;
        Scripted::new(vocabulary()).say(bad).or_say(r#"{"ids": [3, 4], "note": "ab"}"#).batch(4)
    };
    let automaton = grammar(LIST);
    let (options, greedy) = (DecodeOptions::default(), Sampler::greedy);
    let usual = again(&mut start(script()), &automaton, &mut greedy(), &options, ", 3");
    let odd =
        again(&mut start(Rigid::without_checkpoints(script())), &automaton, &mut greedy(), &options, ", 3");
    let texts = |turns: (Decoded, Option<Decoded>)| (turns.0.text, turns.1.map(|turn| turn.tokens));
    assert_eq!(texts(usual), texts(odd));
}

#[test]
fn what_is_no_place_in_the_text_is_left_alone_and_a_cancelled_look_ends() {
    let automaton = grammar(LIST);
    let bad = r#"{"ids": [3, 3], "note": "ab"}"#;
    let mut session = start(Scripted::new(vocabulary()).say(bad));
    let mut options = DecodeOptions::default();
    let mut run = automaton.matcher();
    let turn = decode(&mut session, &mut run, &mut Sampler::greedy(), &options, &mut silent()).unwrap();
    let mut look = |wrong: Range<usize>, before: &Decoded, options: &DecodeOptions| {
        let mut tried = Tried::default();
        tried.add(before.text.get(..wrong.end).unwrap_or_default());
        let mut make = || Ok(Box::new(automaton.matcher()) as Box<dyn Constraint>);
        likeliest_other(&mut session, &mut make, options, before, wrong, &tried, &mut Stats::default())
    };
    assert_eq!(look(3..3, &turn, &options).unwrap(), None);
    assert_eq!(look(3..900, &turn, &options).unwrap(), None);
    let other = Decoded { text: "another text".into(), ..turn.clone() };
    assert_eq!(look(3..5, &other, &options).unwrap(), None);
    options.cancel = Cancel::default();
    options.cancel.cancel();
    assert_eq!(look(11..12, &turn, &options).unwrap_err().kind(), Kind::Cancelled);
}

#[test]
fn any_constraint_can_be_written_under_again() {
    // A finite language by brute force, with texts that share their beginnings.
    let texts = ["abcab", "abcabc", "cabcab", "abc"];
    let vocabulary = vocabulary();
    let mut session = start(Scripted::new(vocabulary.clone()).say("abcab"));
    let options = DecodeOptions::default();
    let mut language = Language::new(&vocabulary, &texts);
    let first = decode(&mut session, &mut language, &mut Sampler::greedy(), &options, &mut silent()).unwrap();
    let mut tried = Tried::default();
    tried.add(&first.text);
    let mut make = || Ok(Box::new(Language::new(&vocabulary, &texts)) as Box<dyn Constraint>);
    let found = likeliest_other(
        &mut session,
        &mut make,
        &options,
        &first,
        0..first.text.len(),
        &tried,
        &mut Stats::default(),
    );
    let mut language = Language::new(&vocabulary, &texts);
    let other = found.unwrap().unwrap();
    let sampler = &mut Sampler::greedy();
    let second = decode_from(&mut session, &mut language, sampler, &options, &other, &mut silent());
    let second = second.unwrap().unwrap();
    assert!(texts.contains(&second.text.as_str()) && !tried.holds(second.text.as_bytes()), "{second:?}");
}
