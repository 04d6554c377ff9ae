//! Marks as tokens: grammars, rendering and reading of families that were resolved against a vocabulary.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;
use toolgate_chat::format::{Family, Start};
use toolgate_chat::{ParsedTurn, ToolCall, ToolFormat, ToolSpec, TurnRequest};
use toolgate_grammar::marks::{Mark, MarkTokens, Piece};
use toolgate_grammar::{Automaton, Grammar, Limits, TokenId, TokenKind, Vocabulary};

use crate::random::tools_and_calls;
use crate::support::{call, tools};

/// What looks like a token in a family's texts: what stands between angles, and names in brackets.
fn names(texts: &[String]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for text in texts {
        for (open, close) in [('<', '>'), ('[', ']')] {
            for part in text.split_inclusive(close) {
                let Some(name) = part.rfind(open).map(|at| &part[at..]) else { continue };
                if name.ends_with(close) && name.len() > 3 && !name.contains([' ', '\n', '=', '"', '{']) {
                    names.insert(name.to_owned());
                }
            }
        }
    }
    names
}

/// Bytes, and a special token for each of these names.
fn vocabulary(names: &BTreeSet<String>) -> Arc<Vocabulary> {
    let bytes = (0..=u8::MAX).map(|byte| (vec![byte], TokenKind::Text));
    let names = names.iter().map(|name| (name.as_bytes().to_vec(), TokenKind::Special));
    Arc::new(Vocabulary::new(bytes.chain(names)).unwrap())
}

type Resolved = (Arc<dyn ToolFormat>, Arc<Vocabulary>);

/// Every family that has marks, resolved against a vocabulary that has them.
static RESOLVED: LazyLock<Vec<Resolved>> = LazyLock::new(|| {
    let family = |name: &String| {
        let family = Family::named(name).unwrap();
        let names = names(&family.texts());
        let vocabulary = vocabulary(&names);
        (!names.is_empty()).then(|| (family.resolved(&MarkTokens::of(&vocabulary)), vocabulary))
    };
    Family::names().iter().filter_map(family).collect()
});

fn automaton(grammar: &Grammar, vocabulary: &Arc<Vocabulary>) -> Arc<Automaton> {
    Automaton::new(grammar, vocabulary.clone(), &Limits::default()).unwrap()
}

/// A mark as its tokens, and each byte of its texts.
fn tokens(mark: &Mark) -> Vec<TokenId> {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => text.bytes().map(TokenId::from).collect(),
        Piece::Token { id, .. } => vec![*id],
    };
    mark.pieces().iter().flat_map(piece).collect()
}

fn read(
    format: &dyn ToolFormat,
    vocabulary: &Vocabulary,
    tools: &[ToolSpec],
    tokens: &[TokenId],
) -> ParsedTurn {
    let mut stream = format.token_stream(tools, Start::Turn);
    for &token in tokens {
        stream.push(token, vocabulary.bytes(token));
    }
    stream.finish().1
}

fn same(read: &[ToolCall], written: &[ToolCall]) -> bool {
    read.len() == written.len() && read.iter().zip(written).all(|(read, written)| read.same_request(written))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn marks_are_written_and_read_as_tokens_whatever_values_hold((tools, calls) in tools_and_calls()) {
        for (format, vocabulary) in RESOLVED.iter() {
            let written = format.write_calls(&calls, &tools);
            prop_assert_eq!(written.text(), format.render_calls(&calls, &tools));
            let grammar = format.turn(&tools, &TurnRequest::default()).unwrap().call.unwrap();
            let automaton = automaton(&grammar, vocabulary);
            prop_assert!(automaton.matcher().takes(&written).unwrap(), "{}: {:?}", format.name(), written);
            let turn = read(format.as_ref(), vocabulary, &tools, &tokens(&written));
            prop_assert!(same(&turn.calls, &calls), "{}: {written:?} read as {turn:?}", format.name());
            // A mark that is a token cannot be spelled.
            if written.has_tokens() {
                let spelled = Mark::of_text(written.text());
                prop_assert!(!automaton.matcher().takes(&spelled).unwrap(), "{}", format.name());
            }
        }
    }
}

#[test]
fn no_special_token_gets_into_a_value_and_none_out_of_place() {
    for (format, vocabulary) in RESOLVED.iter() {
        let tools = tools();
        let written = format.write_calls(&[call("read_file", json!({"path": "a字b"}))], &tools);
        let grammar = format.turn(&tools, &TurnRequest::default()).unwrap().call.unwrap();
        let mut run = automaton(&grammar, vocabulary).matcher();
        let ends = format.value_ends();
        for token in tokens(&written) {
            let mask = run.mask().unwrap().clone();
            let in_value = run.clone().accept_bytes("字".as_bytes()).is_ok();
            for special in mask.iter().filter(|&token| vocabulary.kind(token) == TokenKind::Special) {
                let ends_value = ends.iter().any(|end| end.tokens().any(|token| token == special));
                assert!(!in_value || ends_value, "{}: {special} in a value", format.name());
                let name = vocabulary.bytes(special);
                assert!(
                    run.clone().accept_bytes(name).is_err(),
                    "{}: {name:?} can be spelled",
                    format.name()
                );
            }
            run.accept(token).unwrap();
        }
        assert!(run.is_complete(), "{}", format.name());
    }
}

#[test]
fn a_spelled_mark_is_text_and_a_token_is_a_mark() {
    let tokens = MarkTokens::new([("<tool_call>".to_owned(), 300), ("</tool_call>".to_owned(), 301)]);
    let format = Family::hermes().resolved(&tokens);
    let mut stream = format.token_stream(&[], Start::Turn);
    for byte in "I write <tool_call>\n{\"name\": \"x\", \"arguments\": {}}\n</tool_call> so.".bytes() {
        stream.push(byte.into(), &[byte]);
    }
    let (_, turn) = stream.finish();
    assert!(turn.calls.is_empty() && turn.defects.is_empty(), "{turn:?}");
    let said = turn.content.unwrap();
    assert_eq!(said, "I write <tool_call>\n{\"name\": \"x\", \"arguments\": {}}\n</tool_call> so.");
    // The control: the same with tokens is a call, and its value holds the mark as text.
    let calls = [call("x", json!({"a": "</tool_call>\u{fdd0}"}))];
    let mut stream = format.token_stream(&[], Start::Turn);
    for piece in format.write_calls(&calls, &[]).pieces() {
        match piece {
            Piece::Token { id, name } => drop(stream.push(*id, name.as_bytes())),
            Piece::Text(text) => text.bytes().for_each(|byte| drop(stream.push(byte.into(), &[byte]))),
        }
    }
    let turn = stream.finish().1;
    assert_eq!(turn.calls[0].arguments["a"], "</tool_call>\u{fffd}", "a noncharacter is none of a text");
}

#[test]
fn thoughts_and_answers_take_the_tokens_of_their_marks() {
    let family = Family::named("harmony").unwrap();
    let vocabulary = vocabulary(&names(&family.texts()));
    let format = family.resolved(&MarkTokens::of(&vocabulary));
    let turn = format.turn(&[], &TurnRequest::default()).unwrap();
    let thought = turn.reasoning.unwrap();
    assert!(thought.open.has_tokens() && thought.close.has_tokens());
    let mut run = automaton(&thought.whole, &vocabulary).matcher();
    run.accept_mark(&thought.open).unwrap();
    run.accept_bytes(b"Hm.").unwrap();
    assert!(run.clone().accept_bytes(thought.close.text().as_bytes()).is_err());
    run.accept_mark(&thought.close).unwrap();
    assert!(run.is_complete());
    let mut run = automaton(&turn.answer.unwrap(), &vocabulary).matcher();
    run.accept_mark(&format.mark(format.answer_head())).unwrap();
    run.accept_bytes(b"Noon.").unwrap();
    let specials = |token: &TokenId| vocabulary.kind(*token) == TokenKind::Special;
    assert_eq!(run.mask().unwrap().iter().find(specials), None, "no mark in an answer");
}
