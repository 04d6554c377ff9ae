//! Forced text: the same turn with fewer questions to the model.

use std::ops::ControlFlow;
use std::sync::Arc;

use proptest::prelude::*;
use toolgate_infer::scripted::Scripted;
use toolgate_infer::{
    Backend, DecodeOptions, Decoded, Follow, Forced, Forcing, Sampler, Session, Source, Specials, StopReason,
    TokenId, Vocabulary, canonical, decode,
};

use crate::language::{Language, vocabulary};

fn run(
    vocabulary: &Arc<Vocabulary>,
    prompt: &str,
    script: &str,
    texts: &[String],
    forcing: Forcing,
) -> Decoded {
    let mut session = Session::new(Scripted::new(vocabulary.clone()).say(script));
    session.set_prompt_text(prompt).unwrap();
    let mut language = Language::new(vocabulary, texts);
    let options = DecodeOptions { forcing, ..DecodeOptions::default() };
    let mut sink = |_: toolgate_infer::Piece<'_>| ControlFlow::Continue(());
    decode(&mut session, &mut language, &mut Sampler::greedy(), &options, &mut sink).unwrap()
}

fn call(name: &str, argument: &str) -> String {
    format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {{\"file\": \"{argument}\"}}}}")
}

#[test]
fn forced_text_costs_one_evaluation_a_run() {
    let vocabulary = vocabulary();
    let texts = [call("read_file", "abc"), call("read_file", "cab"), call("list", "abc"), call("list", "é")];
    for script in &texts {
        let on = run(&vocabulary, "<|start|>", script, &texts, Forcing::On);
        let off = run(&vocabulary, "<|start|>", script, &texts, Forcing::Off);
        let asked = run(&vocabulary, "<|start|>", script, &texts, Forcing::Asked);
        for decoded in [&on, &off, &asked] {
            assert_eq!((&decoded.text, &decoded.stop), (script, &StopReason::Finished));
        }
        // What was held back because its tokens might have been others is guessed.
        let drawn = |decoded: &Decoded| -> Vec<(TokenId, bool)> {
            decoded.tokens.iter().map(|token| (token.token, token.source == Source::Forced)).collect()
        };
        assert_eq!(drawn(&on), drawn(&off), "token for token");
        assert!(on.stats.forced_tokens > on.stats.sampled_tokens, "{:?}", on.stats);
        assert_eq!(asked.stats.forced_tokens, 0);
        // Each choice costs one evaluation, whatever lies between.
        assert_eq!(on.stats.decode_calls, on.stats.sampled_tokens);
        assert!(
            on.stats.decode_calls * 3 < asked.stats.decode_calls,
            "{} {}",
            on.stats.decode_calls,
            asked.stats.decode_calls
        );
        assert!(off.stats.decode_calls > on.stats.decode_calls);
    }
}

#[test]
fn text_without_any_choice_costs_no_evaluation() {
    let vocabulary = vocabulary();
    let only = [call("read_file", "abc")];
    let decoded = run(&vocabulary, "<|start|>", "something else", &only, Forcing::On);
    assert_eq!((decoded.text.as_str(), &decoded.stop), (only[0].as_str(), &StopReason::Finished));
    assert_eq!((decoded.stats.decode_calls, decoded.stats.sampled_tokens), (0, 0));
    assert!(decoded.tokens.iter().all(|token| token.source == Source::Forced));
}

#[test]
fn forced_tokens_are_those_of_the_tokenizer() {
    let vocabulary = vocabulary();
    let tokenizer = Scripted::new(vocabulary.clone());
    let texts = [call("read_file", "abc"), call("read_file", "cab"), call("list", "abc")];
    for script in &texts {
        let decoded = run(&vocabulary, "<|start|>", script, &texts, Forcing::On);
        assert_eq!(ids(&decoded), tokenizer.tokenize(script, Specials::Plain).unwrap(), "{script}");
    }
}

#[test]
fn token_that_following_text_could_extend_is_left_to_the_model() {
    let vocabulary = vocabulary();
    // `ab` is forced, but `abc` is a token of its own, and the model wants it.
    let texts = ["abc".to_owned(), "abd".to_owned()];
    let decoded = run(&vocabulary, "<|start|>", "abc", &texts, Forcing::On);
    assert_eq!(decoded.tokens.len(), 1);
    assert_eq!(vocabulary.bytes(decoded.tokens[0].token), b"abc");
    // Its near twin has no such token: `xa` is forced, and only the letter after it drawn.
    let texts = ["xad".to_owned(), "xae".to_owned()];
    let decoded = run(&vocabulary, "<|start|>", "xad", &texts, Forcing::On);
    assert_eq!((decoded.stats.forced_tokens, decoded.stats.sampled_tokens), (2, 1));
}

#[test]
fn only_what_no_continuation_can_change_is_written() {
    let vocabulary = vocabulary();
    let tokenizer = Scripted::new(vocabulary.clone());
    let token = |text: &str| tokenizer.tokenize(text, Specials::Parse).unwrap();
    let check = |behind: &str, forced: &[u8], follow: Follow, expected: &str| {
        let forced = Forced { bytes: forced.to_vec(), follow };
        let written = canonical(&tokenizer, &token(behind), &forced).unwrap();
        let bytes: Vec<u8> = written.iter().flat_map(|&token| vocabulary.bytes(token)).copied().collect();
        assert_eq!(String::from_utf8_lossy(&bytes), expected, "{forced:?} behind {behind:?}");
    };
    let before = |texts: &[&str]| Follow::Tokens(texts.iter().flat_map(|text| token(text)).collect());
    // `argu` may become `arguments`, unless what follows forbids it.
    check("", b"{\"argu", Follow::Any, "{\"");
    check("", b"{\"argu", before(&["m"]), "{\"");
    check("", b"{\"argu", before(&["x", "m"]), "{\"");
    check("", b"{\"argu", before(&["x"]), "{\"argu");
    check("", b"{\"argu", before(&["<|end|>"]), "{\"argu");
    check("", b"{\"argu", Follow::End, "{\"argu");
    check("", b"{\"arguments", Follow::Any, "{\"arguments");
    // A blank may go with what follows it, and a part of a code point is no text yet.
    check("", b"x ", Follow::Any, "x");
    check("", b"x ", Follow::End, "x ");
    check("", b"x\xc3", Follow::Any, "x");
    check("", b"x\xc3", Follow::End, "x");
    // What stands in front counts where the tokenizer would have written it so: `ab` and `c` are one token.
    check("x", b"bc", Follow::End, "bc");
    check("ab", b"cab", Follow::End, "cab");
}

#[test]
fn name_of_a_control_token_in_forced_text_stays_text() {
    let vocabulary = vocabulary();
    let texts = ["say <|end|> now".to_owned()];
    let decoded = run(&vocabulary, "<|start|>", "x", &texts, Forcing::On);
    assert_eq!((decoded.text.as_str(), &decoded.stop), ("say <|end|> now", &StopReason::Finished));
    let end = vocabulary.special("<|end|>").unwrap();
    assert!(decoded.tokens.iter().all(|token| token.token != end));
}

#[test]
fn budget_counts_forced_tokens() {
    let vocabulary = vocabulary();
    let only = [call("read_file", "abc")];
    let mut session = Session::new(Scripted::new(vocabulary.clone()));
    session.set_prompt_text("<|start|>").unwrap();
    let options = DecodeOptions { max_tokens: 3, ..DecodeOptions::default() };
    let mut language = Language::new(&vocabulary, &only);
    let decoded = decode(&mut session, &mut language, &mut Sampler::greedy(), &options, &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!((decoded.stop, decoded.tokens.len()), (StopReason::MaxTokens, 3));
}

fn ids(decoded: &Decoded) -> Vec<TokenId> {
    decoded.tokens.iter().map(|token| token.token).collect()
}

fn word() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec!["a", "b", "c", "ab", "fi", "le", "{\"", "\"", " ", "é", "日本", "\n"]),
        1..10,
    )
    .prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn turn_is_the_same_however_forced_tokens_are_evaluated(
        prompt in "<\\|start\\|>[abc \"é]{0,4}",
        texts in prop::collection::vec(word(), 1..6),
        script in word(),
        pick in any::<prop::sample::Index>(),
    ) {
        let vocabulary = vocabulary();
        // What the model wants: one of the texts, or something else.
        for script in [texts[pick.index(texts.len())].clone(), script] {
            let on = run(&vocabulary, &prompt, &script, &texts, Forcing::On);
            let off = run(&vocabulary, &prompt, &script, &texts, Forcing::Off);
            let asked = run(&vocabulary, &prompt, &script, &texts, Forcing::Asked);
            // Token for token; one that was guessed is told as such where there are guesses.
            prop_assert_eq!(ids(&on), ids(&off));
            prop_assert_eq!(&on.text, &off.text);
            for decoded in [&on, &asked] {
                prop_assert!(decoded.stop.is_whole() && texts.contains(&decoded.text), "{:?}", decoded);
            }
            // A model that wants none of them may find a shorter one, or longer tokens, where it is asked for each.
            if texts.contains(&script) {
                prop_assert!(on.stats.decode_calls <= asked.stats.decode_calls, "{on:?}\n{asked:?}");
                prop_assert_eq!(&on.text, &script);
                prop_assert_eq!(&asked.text, &script);
            }
        }
    }
}

#[test]
fn a_mark_that_is_a_token_is_written_without_asking_with_the_text_behind_it() {
    use toolgate_grammar::{Automaton, Grammar, Limits, TokenKind};
    let bytes = (0..=u8::MAX).map(|byte| (vec![byte], TokenKind::Text));
    let marks = ["<call>", "</call>"].map(|name| (name.as_bytes().to_vec(), TokenKind::Special));
    let vocabulary = Arc::new(Vocabulary::new(bytes.chain(marks)).unwrap());
    let grammar = Grammar::parse(r#"root ::= <[256]> "f(" [a-z] ")" <[257]>"#).unwrap();
    let mut run = Automaton::new(&grammar, vocabulary.clone(), &Limits::default()).unwrap().matcher();
    let mut session = Session::new(Scripted::new(vocabulary).say("<call>f(x)</call>"));
    session.set_prompt_text("Call: ").unwrap();
    let mut sink = |_: toolgate_infer::Piece<'_>| ControlFlow::Continue(());
    let options = DecodeOptions::default();
    let turn = decode(&mut session, &mut run, &mut Sampler::greedy(), &options, &mut sink).unwrap();
    assert_eq!((turn.text.as_str(), &turn.stop), ("<call>f(x)</call>", &StopReason::Finished));
    let sources: Vec<_> = turn.tokens.iter().map(|token| token.source).collect();
    let (f, s) = (Source::Forced, Source::Sampled);
    assert_eq!(sources, [f, f, f, s, f, f]);
    assert_eq!(turn.stats.decode_calls, 1);
}
