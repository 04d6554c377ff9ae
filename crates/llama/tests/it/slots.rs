//! Slots that share a context: each gets the logits it would get alone, up to the noise of wider batches.

use std::num::NonZeroUsize;
use std::thread;

use toolgate_infer::{Backend, Cancel, Kind, Rows, Session, Specials};
use toolgate_llama::{ContextOptions, LlamaBackend, Load, Model};

use crate::support::model;

const TEXTS: [&str; 3] = [
    "The capital of France is Paris, and the river that runs through it is called the Seine.",
    "def add(a, b):\n    return a + b\n\ndef multiply(a, b):\n    return a * b\n",
    "Once upon a time there was a small house at the edge of a dark forest.",
];

/// One that remembers all, and one most of whose layers see the last 512 tokens alone.
fn models() -> impl Iterator<Item = Model> {
    ["smollm2-135m", "gemma3-270m"].into_iter().filter_map(|id| model(id, Load::All))
}

fn options() -> ContextOptions {
    ContextOptions { context: Some(256), batch: 64, threads: Some(1), ..ContextOptions::default() }
}

fn slots(model: &Model, conversations: usize) -> Vec<Session<LlamaBackend>> {
    let conversations = NonZeroUsize::new(conversations).unwrap();
    model.backends(&options(), conversations).unwrap().into_iter().map(Session::new).collect()
}

fn tokens(model: &Model, text: &str) -> Vec<u32> {
    model.tokenize(text, Specials::Plain).unwrap()
}

/// Cosine of the angle between two rows: 1 where they say the same.
fn likeness(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// The row after each prefix, evaluated token by token in a context of its own.
fn alone(model: &Model, tokens: &[u32]) -> Vec<Vec<f32>> {
    let mut session = Session::new(model.backend(&options()).unwrap());
    let row = |token: &u32| {
        session.eval(&[*token], Rows::Last).unwrap();
        session.logits().unwrap().to_vec()
    };
    tokens.iter().map(row).collect()
}

/// Goes through a text in steps of different lengths, with steps taken back, and holds each row against `expected`.
fn goes_through(session: &mut Session<LlamaBackend>, tokens: &[u32], expected: &[Vec<f32>]) {
    let mut step = 1;
    while session.tokens().len() < tokens.len() {
        let at = session.tokens().len();
        let part = &tokens[at..(at + step).min(tokens.len())];
        session.eval(part, Rows::All).unwrap();
        for row in 0..part.len() {
            let like = likeness(session.row(row).unwrap(), &expected[at + row]);
            assert!(like > 0.99, "token {} is {like}", at + row);
        }
        // As if a guess was wrong: the second half is evaluated again.
        if step == 4 {
            session.truncate(at + part.len() / 2).unwrap();
        }
        step = step % 5 + 1;
    }
}

#[test]
fn conversations_in_one_context_get_their_own_logits() {
    for model in models() {
        let texts = TEXTS.map(|text| tokens(&model, text));
        let expected = texts.clone().map(|tokens| alone(&model, &tokens));
        let strange = likeness(&expected[0][5], &expected[1][5]);
        assert!(strange < 0.98, "control: another conversation's row is {strange}");
        let mut sessions = slots(&model, texts.len());
        for round in 0..3 {
            thread::scope(|scope| {
                for (at, session) in sessions.iter_mut().enumerate() {
                    let at = (at + round) % texts.len();
                    let (tokens, expected) = (&texts[at], &expected[at]);
                    scope.spawn(move || {
                        session.truncate(0).unwrap();
                        goes_through(session, tokens, expected);
                        session.end_turn();
                    });
                }
            });
        }
    }
}

#[test]
fn conversations_longer_than_a_window_get_their_own_logits() {
    let Some(model) = model("gemma3-270m", Load::All) else { return };
    let options = ContextOptions { context: Some(1_024), ..options() };
    let texts = [TEXTS[0].repeat(50), TEXTS[2].repeat(50)].map(|text| tokens(&model, &text)[..700].to_vec());
    // Behind 700 tokens, and behind the first 100 of them: those are out of the window of the last ones.
    let goes = |session: &mut Session<LlamaBackend>, text: &[u32]| {
        session.set_prompt(text, 0, &Cancel::default(), &mut |_| ()).unwrap();
        let whole = session.logits().unwrap().to_vec();
        session.truncate(100).unwrap();
        assert_eq!(session.tokens().len(), 100);
        session.eval(&text[200..202], Rows::Last).unwrap();
        let cut = session.logits().unwrap().to_vec();
        session.end_turn();
        [whole, cut]
    };
    let alone = texts.each_ref().map(|text| goes(&mut Session::new(model.backend(&options).unwrap()), text));
    let strange = likeness(&alone[0][0], &alone[1][0]);
    assert!(strange < 0.98, "control: another conversation's row is {strange}");
    let slots = model.backends(&options, NonZeroUsize::new(2).unwrap()).unwrap();
    let mut sessions: Vec<_> = slots.into_iter().map(Session::new).collect();
    for round in 0..2 {
        thread::scope(|scope| {
            for (at, session) in sessions.iter_mut().enumerate() {
                let at = (at + round) % texts.len();
                let (text, alone) = (&texts[at], &alone[at]);
                scope.spawn(move || {
                    for (row, own) in goes(session, text).iter().zip(alone) {
                        let like = likeness(row, own);
                        assert!(like > 0.99, "{like}");
                    }
                });
            }
        });
    }
}

#[test]
fn what_another_conversation_holds_is_not_evaluated_again() {
    for model in models() {
        let mut sessions = slots(&model, 2);
        let [first, second] = &mut sessions[..] else { panic!() };
        let whole = first.set_prompt_text(TEXTS[0]).unwrap();
        let ending = " It is long.";
        let total = tokens(&model, &format!("{}{ending}", TEXTS[0])).len();
        assert_eq!(second.held(&tokens(&model, TEXTS[0])), whole.prompt_tokens);
        let longer = second.set_prompt_text(&format!("{}{ending}", TEXTS[0])).unwrap();
        assert_eq!((longer.cached_tokens, longer.prompt_tokens), (whole.prompt_tokens, total));
        let mut fresh = Session::new(model.backend(&options()).unwrap());
        fresh.set_prompt_text(&format!("{}{ending}", TEXTS[0])).unwrap();
        let like = likeness(second.logits().unwrap(), fresh.logits().unwrap());
        assert!(like > 0.99, "{like}");
        // Neither knows of what the other goes on with.
        first.set_prompt_text(TEXTS[1]).unwrap();
        second.eval(&tokens(&model, " Yes."), Rows::Last).unwrap();
        fresh.eval(&tokens(&model, " Yes."), Rows::Last).unwrap();
        let like = likeness(second.logits().unwrap(), fresh.logits().unwrap());
        assert!(like > 0.99, "{like}");
    }
}

#[test]
fn a_state_goes_from_one_conversation_to_the_next_but_not_to_a_context_of_one() {
    for model in models() {
        let mut sessions = slots(&model, 3);
        sessions[2].set_prompt_text(TEXTS[2]).unwrap();
        let (text, state) = (sessions[2].tokens().to_vec(), sessions[2].save().unwrap().unwrap());
        assert!(sessions[1].restore(&text, &state).unwrap());
        let next = tokens(&model, " It");
        for session in &mut sessions[1..] {
            session.eval(&next, Rows::Last).unwrap();
        }
        let like = likeness(sessions[1].logits().unwrap(), sessions[2].logits().unwrap());
        assert!(like > 0.999, "{like}");
        let one = model.backend(&options()).unwrap();
        assert_ne!(one.state_key(), sessions[0].backend().state_key());
    }
}

#[test]
fn a_conversation_that_asks_for_too_much_does_not_fail_the_others() {
    let Some(model) = model("smollm2-135m", Load::All) else { return };
    let texts = TEXTS.map(|text| tokens(&model, text));
    let expected = alone(&model, &texts[0]);
    let mut sessions = slots(&model, 2);
    let [first, second] = &mut sessions[..] else { panic!() };
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20 {
                let error = second.eval(&[u32::MAX], Rows::Last).unwrap_err();
                assert_eq!(error.kind(), Kind::Backend);
            }
            second.end_turn();
        });
        goes_through(first, &texts[0], &expected);
        first.end_turn();
    });
}

#[test]
fn every_sequence_of_every_conversation_has_the_whole_context() {
    for model in models() {
        for conversations in [1, 2] {
            let mut sessions = slots(&model, conversations);
            for session in &mut sessions {
                let len = session.backend().context_len();
                // Two prompts without anything in common, each as long as may be.
                for word in [" one", " two"] {
                    let prompt = tokens(&model, &word.repeat(len));
                    let prompt = prompt.get(..len).unwrap();
                    session.set_prompt(prompt, 0, &Cancel::default(), &mut |_| ()).unwrap();
                    assert_eq!(session.room(), 0);
                }
                let first = tokens(&model, &" one".repeat(len));
                assert_eq!(session.held(first.get(..len).unwrap()), len, "{conversations} conversations");
            }
        }
    }
}

#[test]
fn a_lone_prompt_takes_whole_batches_and_a_share_of_them_beside_others() {
    let Some(model) = model("smollm2-135m", Load::All) else { return };
    let prompt = tokens(&model, &TEXTS.join(" ").repeat(4));
    let mut sessions = slots(&model, 4);
    let [one, other, ..] = sessions.as_mut_slice() else { panic!("four conversations") };
    let longest = |session: &mut Session<LlamaBackend>| {
        session.truncate(0).unwrap();
        let (mut before, mut longest) = (0, 0);
        session
            .set_prompt(&prompt, 0, &Cancel::default(), &mut |progress| {
                longest = longest.max(progress.done - before);
                before = progress.done;
            })
            .unwrap();
        longest
    };
    assert!(prompt.len() > 128, "more than two batches");
    assert_eq!(longest(one), 64);
    one.end_turn();
    other.eval(&prompt[..3], Rows::Last).unwrap();
    assert_eq!(longest(one), 16, "another conversation is in the middle of a turn");
    other.end_turn();
    assert_eq!(longest(one), 64, "its turn has ended");
}
