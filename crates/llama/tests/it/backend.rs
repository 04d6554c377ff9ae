//! The KV cache: what is reused, cut and refused gives the logits of a fresh start.

use std::ops::ControlFlow;

use toolgate_infer::{
    Backend, Cancel, DecodeOptions, Free, Kind, KvCache, Rows, Sampler, Session, Specials, StopReason,
    TokenKind, decode,
};
use toolgate_llama::{ContextOptions, LlamaBackend, Load, Model};

use crate::support::{distance, model};

const PROMPT: &str = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n";

fn backend(model: &Model, batch: u32) -> LlamaBackend {
    let options = ContextOptions { context: Some(512), batch, threads: Some(1), ..ContextOptions::default() };
    model.backend(&options).unwrap()
}

fn smollm2() -> Option<Model> {
    model("smollm2-135m", Load::All)
}

/// A model most of whose layers see the last 512 tokens alone.
const WINDOWED: &str = "gemma3-270m";

#[test]
fn tokens_give_their_text_back() {
    for id in ["smollm2-135m", "qwen2.5-coder-0.5b"] {
        let Some(model) = model(id, Load::All) else { return };
        let backend = backend(&model, 64);
        let vocabulary = model.vocabulary();
        for text in
            ["Hello, world!", " leading", "日本語 é \u{1F600}\n\n\tx", "<tool_call>\n{\"name\": \"x\"}", ""]
        {
            let tokens = backend.tokenize(text, Specials::Plain).unwrap();
            let bytes: Vec<u8> = tokens.iter().flat_map(|&token| vocabulary.bytes(token)).copied().collect();
            assert_eq!(bytes, text.as_bytes(), "{id}");
        }
        let parsed = backend.tokenize("<|im_end|>", Specials::Parse).unwrap();
        assert_eq!(parsed, [vocabulary.special("<|im_end|>").unwrap()]);
        let plain = backend.tokenize("<|im_end|>", Specials::Plain).unwrap();
        assert!(plain.iter().all(|&token| vocabulary.kind(token) == TokenKind::Text), "{plain:?}");
    }
}

#[test]
fn greedy_turn_answers_and_ends() {
    let Some(model) = smollm2() else { return };
    let mut session = Session::new(backend(&model, 64));
    session.set_prompt_text(PROMPT).unwrap();
    let mut text = String::new();
    let mut free = Free::new(model.vocabulary().clone());
    let decoded =
        decode(&mut session, &mut free, &mut Sampler::greedy(), &DecodeOptions::default(), &mut |piece| {
            text.push_str(piece.text);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(decoded.stop, StopReason::End, "{text}");
    assert!(text.contains("Paris"), "{text}");
    assert!(decoded.stats.decode_calls <= decoded.tokens.len());
}

#[test]
fn reused_and_cut_cache_gives_the_logits_of_a_fresh_start() {
    let Some(model) = smollm2() else { return };
    let prompt = |count: &str| {
        format!("<|im_start|>user\nCount from one to {count}.<|im_end|>\n<|im_start|>assistant\n")
    };
    let mut warm = Session::new(backend(&model, 16));
    warm.set_prompt_text(&prompt("five hundred and more")).unwrap();
    let prefill = warm.set_prompt_text(&prompt("six")).unwrap();
    assert!(prefill.cached_tokens > 5 && prefill.evaluated_tokens < prefill.prompt_tokens, "{prefill:?}");
    let mut fresh = Session::new(backend(&model, 64));
    fresh.set_prompt_text(&prompt("six")).unwrap();
    let difference = distance(warm.logits().unwrap(), fresh.logits().unwrap());
    assert!(difference < 0.5, "{difference}");
    // The control: logits of another prompt are far away.
    let mut other = Session::new(backend(&model, 64));
    other.set_prompt_text(&prompt("five hundred and more")).unwrap();
    assert!(distance(other.logits().unwrap(), fresh.logits().unwrap()) > 1.0);
}

#[test]
fn rows_of_a_batch_are_those_of_single_tokens() {
    let Some(model) = smollm2() else { return };
    let (mut single, mut batch) = (Session::new(backend(&model, 64)), Session::new(backend(&model, 64)));
    for session in [&mut single, &mut batch] {
        session.set_prompt_text(PROMPT).unwrap();
    }
    let tokens = batch.backend().tokenize("1, 2, 3", Specials::Plain).unwrap();
    batch.eval(&tokens, Rows::All).unwrap();
    for (row, &token) in tokens.iter().enumerate() {
        single.eval(&[token], Rows::Last).unwrap();
        let difference = distance(single.logits().unwrap(), batch.row(row).unwrap());
        assert!(difference < 0.5, "row {row}: {difference}");
    }
    assert_eq!(batch.row(tokens.len()).unwrap_err().kind(), Kind::Backend);
}

#[test]
fn a_context_that_grows_gives_the_logits_of_one_that_has_grown() {
    let Some(model) = smollm2() else { return };
    let options = ContextOptions { context: Some(4_096), ..ContextOptions::default() };
    let session = || Session::new(model.backend(&options).unwrap());
    let tokens = |text: &str| session().backend().tokenize(text, Specials::Plain).unwrap();
    let (prompt, next) = (tokens(&"One, two, three. ".repeat(330)), tokens(&"Four, five. ".repeat(60)));
    assert!((1_900..2_048).contains(&prompt.len()) && prompt.len() + next.len() > 2_048 + 7);
    let set = |session: &mut Session<LlamaBackend>, tokens: &[u32]| {
        session.set_prompt(tokens, 0, &Cancel::default(), &mut |_| ()).unwrap();
    };
    // Tokens behind the prompt, evaluated in parts, the last one alone.
    let logits = |session: &mut Session<LlamaBackend>| {
        set(session, &prompt);
        for part in next.chunks(50) {
            session.eval(part, Rows::Last).unwrap();
        }
        assert_eq!(session.tokens().len(), prompt.len() + next.len());
        session.eval(&next[..1], Rows::Last).unwrap();
        session.logits().unwrap().to_vec()
    };
    let mut grown = session();
    set(&mut grown, &[prompt.clone(), next.clone(), next.clone()].concat());
    // The prompt is evaluated again, in the parts of the other one.
    set(&mut grown, &next);
    assert!(logits(&mut session()) == logits(&mut grown), "it grows behind the prompt, or before it");
}

/// Two threads and more than 512 tokens, since that is where llama.cpp changes its kernels for single tokens.
#[test]
fn batches_of_a_turn_give_the_bits_of_single_tokens() {
    // The weights of the last one are repacked.
    for id in ["smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b", WINDOWED] {
        let Some(model) = model(id, Load::All) else { continue };
        for words in [4, 520] {
            let options =
                ContextOptions { context: Some(1_024), threads: Some(2), ..ContextOptions::default() };
            let mut session = Session::new(model.backend(&options).unwrap());
            session.set_prompt_text(&"word ".repeat(words)).unwrap();
            let start = session.tokens().len();
            let tokens = session
                .backend()
                .tokenize("{\"name\": \"read_file\", \"arguments\": ", Specials::Plain)
                .unwrap();
            let width = session.backend().exact_batch_len();
            let batch = &tokens[..width];
            let single: Vec<Vec<f32>> = batch
                .iter()
                .map(|&token| {
                    session.eval(&[token], Rows::Last).unwrap();
                    session.logits().unwrap().to_vec()
                })
                .collect();
            for width in 2..=width {
                session.truncate(start).unwrap();
                session.eval(&batch[..width], Rows::All).unwrap();
                for (row, single) in single.iter().enumerate().take(width) {
                    assert!(
                        session.row(row).unwrap() == single,
                        "{id}: row {row} of {width} after {words} words"
                    );
                }
            }
        }
    }
}

/// A state of one context puts another, in another sequence, where the first was: the same bits follow.
#[test]
fn a_saved_state_gives_the_bits_of_the_tokens_evaluated() {
    for (id, prompt) in [
        ("smollm2-135m", PROMPT.to_owned()),
        ("qwen2.5-coder-0.5b", PROMPT.to_owned()),
        (WINDOWED, PROMPT.to_owned()),
        (WINDOWED, "One, two, three. ".repeat(100)),
    ] {
        let Some(model) = model(id, Load::All) else { continue };
        let backend = |model: &Model, batch| {
            let context = Some(1_024);
            model
                .backend(&ContextOptions { context, batch, threads: Some(1), ..ContextOptions::default() })
                .unwrap()
        };
        let mut first = Session::new(backend(&model, 64));
        first.set_prompt_text(&prompt).unwrap();
        let tokens = first.tokens().to_vec();
        let state = first.save().unwrap().expect("a plain cache can be saved");
        let next = first.backend().tokenize("1, 2, 3", Specials::Plain).unwrap();
        first.eval(&next, Rows::Last).unwrap();
        let mut second = Session::new(backend(&model, 64));
        second.set_prompt_text(&"word ".repeat(50)).unwrap();
        assert!(second.restore(&tokens, &state).unwrap(), "{id}");
        assert_eq!(second.tokens(), tokens);
        assert_eq!(second.logits().unwrap_err().kind(), Kind::Backend, "a state has no logits");
        second.eval(&next, Rows::Last).unwrap();
        assert!(first.logits().unwrap() == second.logits().unwrap(), "{id}");
        assert_eq!(second.backend().state_key(), first.backend().state_key());
    }
}

/// What was evaluated can be cut anywhere. What a state put back has no more than the window, and is evaluated again where it is cut.
#[test]
fn tokens_behind_a_window_are_there_until_a_state_takes_their_place() {
    let Some(model) = model(WINDOWED, Load::All) else { return };
    let options = ContextOptions { context: Some(1_024), threads: Some(1), ..ContextOptions::default() };
    let session = || Session::new(model.backend(&options).unwrap());
    let text = "One, two, three, four, five. ".repeat(100);
    let tokens = session().backend().tokenize(&text, Specials::Plain).unwrap();
    let (long, short) = (tokens.get(..900).unwrap(), tokens.get(..256).unwrap());
    let next = |session: &mut Session<LlamaBackend>, prompt: &[u32]| {
        let prefill = session.set_prompt(prompt, 0, &Cancel::default(), &mut |_| ()).unwrap();
        // The last token alone, whatever the prompt was evaluated with: other batches have other low bits.
        let (_, last) = prompt.split_at(prompt.len() - 1);
        session.truncate(prompt.len() - 1).unwrap();
        session.eval(last, Rows::None).unwrap();
        session.eval(&tokens[300..301], Rows::Last).unwrap();
        (prefill.cached_tokens, session.logits().unwrap().to_vec())
    };
    let (none, fresh) = next(&mut session(), short);
    assert_eq!(none, 0);
    let mut cut = session();
    next(&mut cut, long);
    cut.truncate(256).unwrap();
    let (held, logits) = next(&mut cut, short);
    assert!(held == 255 && logits == fresh, "{held} were held");

    let mut whole = session();
    let (_, wanted) = next(&mut whole, long);
    whole.truncate(long.len()).unwrap();
    let state = whole.save().unwrap().expect("a cache with a window can be saved");
    let mut restored = session();
    assert!(restored.restore(long, &state).unwrap());
    let (held, logits) = next(&mut restored, long);
    assert!(held == long.len() - 1 && logits == wanted, "{held} were held: the last one is evaluated again");
    let (_, logits) = next(&mut restored, short);
    assert!(logits == fresh);
    let mut restored = session();
    assert!(restored.restore(long, &state).unwrap());
    restored.truncate(256).unwrap();
    assert_eq!(restored.tokens().len(), 0, "what stands in front of the window is not there");
}

/// Conversations that had to give way go on with the bits they would have had.
#[test]
fn what_gave_way_to_others_goes_on_as_if_it_had_not() {
    for id in ["smollm2-135m", WINDOWED] {
        gives_way(id);
    }
}

fn gives_way(id: &str) {
    let Some(model) = model(id, Load::All) else { return };
    let texts = ["river ", "stone ", "cloud "].map(|word| word.repeat(60));
    let on = |session: &mut Session<LlamaBackend>, text: &str| {
        let prefill = session.set_prompt_text(&format!("{text}and then")).unwrap();
        (prefill.evaluated_tokens, session.logits().unwrap().to_vec())
    };
    let alone = texts.each_ref().map(|text| {
        let mut session = Session::new(backend(&model, 64));
        session.set_prompt_text(text).unwrap();
        on(&mut session, text)
    });
    let cache = KvCache::new(64 << 20);
    let mut session = Session::new(backend(&model, 64)).keeping(cache.clone());
    for text in &texts {
        session.set_prompt_text(text).unwrap();
    }
    assert!(cache.bytes() > 0, "there are two sequences for three texts");
    for (text, (evaluated, logits)) in texts.iter().zip(&alone) {
        let (again, as_before) = on(&mut session, text);
        assert!(again == *evaluated && as_before == *logits, "{text}: {again} evaluated, not {evaluated}");
    }
}

/// llama.cpp moves what is copied with the next evaluation: what is put in its place before would be copied instead, and be
/// somebody else's.
#[test]
fn a_copy_that_was_put_off_is_done_before_a_state_is_saved_or_put_back() {
    let Some(model) = smollm2() else { return };
    let prompted = |text: &str| {
        let mut session = Session::new(backend(&model, 64));
        session.set_prompt_text(text).unwrap();
        let (tokens, state) = (session.tokens().to_vec(), session.save().unwrap().unwrap());
        (session.into_backend(), tokens, state)
    };
    let next = |backend: &mut LlamaBackend| {
        backend.eval(&[1], Rows::Last).unwrap();
        backend.logits(0).unwrap().to_vec()
    };
    let (mut first, tokens, state) = prompted(PROMPT);
    let (mut other, others, others_state) = prompted(&"of somebody else ".repeat(20));
    let (wanted, strange) = (next(&mut first), next(&mut other));
    let apart = |one: &[f32]| one.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart(&strange) > 1.0, "control: {}", apart(&strange));
    let forked = || {
        let mut backend = backend(&model, 64);
        assert!(backend.restore(&state, &tokens).unwrap());
        assert_eq!(backend.fork(1, tokens.len()).unwrap(), tokens.len());
        backend
    };

    let saved = forked().save().unwrap().unwrap();
    assert!(other.restore(&saved, &tokens).unwrap());
    assert!(apart(&next(&mut other)) < 0.5);

    let mut backend = forked();
    backend.switch(0).unwrap();
    assert!(backend.restore(&others_state, &others).unwrap());
    backend.switch(1).unwrap();
    assert_eq!(backend.evaluated(), tokens.len());
    let apart = apart(&next(&mut backend));
    assert!(apart < 0.5, "{apart}");
}

#[test]
fn a_state_that_is_none_of_this_context_is_refused_and_nothing_is_held() {
    let Some(small) = smollm2() else { return };
    let mut session = Session::new(backend(&small, 64));
    session.set_prompt_text(PROMPT).unwrap();
    let tokens = session.tokens().to_vec();
    let state = session.save().unwrap().unwrap();
    let mut refused = |state: &[u8], tokens: &[u32]| {
        assert!(!session.restore(tokens, state).unwrap(), "{} bytes of {} tokens", state.len(), tokens.len());
        assert!(session.tokens().is_empty() && session.backend().evaluated() == 0);
    };
    for cut in [0, 3, 4, 12, 16, 40, state.len() / 2, state.len() - 1] {
        refused(&state[..cut], &tokens);
    }
    refused(&state, &tokens[1..]);
    // The number of layers, behind the cells.
    let mut other = state.clone();
    let layers = 16 + 12 * tokens.len() + 4;
    other[layers] = other[layers].wrapping_add(1);
    refused(&other, &tokens);
    let missing = u32::MAX;
    refused(&vec![0xff; state.len()], &vec![missing; tokens.len()]);
    assert!(session.restore(&tokens, &state).unwrap());
    if let Some(model) = model("qwen2.5-coder-0.5b", Load::All) {
        let mut other = Session::new(backend(&model, 64));
        assert!(!other.restore(&tokens, &state).unwrap(), "of another model");
    }
}

#[test]
fn full_context_is_an_error_with_numbers_or_a_stop_never_a_crash() {
    let Some(model) = smollm2() else { return };
    let mut session = Session::new(backend(&model, 64));
    let context = session.backend().context_len();
    let long = "word ".repeat(context);
    let error = session.set_prompt_text(&long).unwrap_err();
    assert_eq!(error.kind(), Kind::Overflow);
    assert_eq!(error.overflow().unwrap().context, context);
    let tokens = session.backend().tokenize(&long, Specials::Plain).unwrap();
    session.set_prompt(&tokens[..context - 8], 8, &Cancel::default(), &mut |_| ()).unwrap();
    let mut free = Free::new(model.vocabulary().clone());
    let options = DecodeOptions::default();
    let decoded =
        decode(&mut session, &mut free, &mut Sampler::greedy(), &options, &mut |_| ControlFlow::Continue(()))
            .unwrap();
    assert_eq!((decoded.stop, decoded.tokens.len()), (StopReason::ContextFull, 9));
}

#[test]
fn a_context_that_memory_has_no_room_for_is_refused_before_it_is_made() {
    let Some(model) = smollm2() else { return };
    let several = std::num::NonZeroUsize::new(2).unwrap();
    let options = ContextOptions { context: Some(100_000_000), ..ContextOptions::default() };
    let error = model.backends(&options, several).unwrap_err();
    assert_eq!(error.kind(), toolgate_llama::Kind::Memory, "{error}");
    let message = error.to_string();
    assert!(message.contains("a context of 100000000 tokens for each of 2 conversations takes"), "{message}");
    assert!(message.contains("there is room for"), "{message}");
}

#[test]
fn token_outside_the_vocabulary_is_refused_before_llama_cpp_sees_it() {
    let Some(model) = smollm2() else { return };
    let mut session = Session::new(backend(&model, 64));
    session.set_prompt_text(PROMPT).unwrap();
    let held = session.tokens().len();
    let error = session.eval(&[u32::MAX], Rows::Last).unwrap_err();
    assert_eq!((error.kind(), session.tokens().len()), (Kind::Backend, held));
    session.eval(&[1], Rows::Last).unwrap();
}
