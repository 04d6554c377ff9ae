//! The loop: what it writes, what it shows, why it stops.

use std::ops::ControlFlow;
use std::sync::Arc;

use toolgate_grammar::{Automaton, Budgeted, Grammar, Limits};
use toolgate_infer::scripted::Scripted;
use toolgate_infer::{
    Budget, Cancel, Constraint, DecodeOptions, Decoded, Error, Forced, Forcing, Free, Kind, Mask, Sampler,
    SamplerOptions, Session, Source, StopReason, TokenId, Vocabulary, decode,
};

use crate::language::{Language, vocabulary};

/// Runs one turn; also checks what holds for every turn.
fn run(backend: Scripted, constraint: &mut dyn Constraint, options: &DecodeOptions) -> Decoded {
    let mut session = Session::new(backend);
    session.set_prompt_text("<|start|>").unwrap();
    let mut shown = String::new();
    let decoded = decode(&mut session, constraint, &mut Sampler::greedy(), options, &mut |piece| {
        assert!(!piece.text.is_empty());
        shown.push_str(piece.text);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(shown, decoded.text, "the pieces are the text");
    let count = |source| decoded.tokens.iter().filter(|token| token.source == source).count();
    assert_eq!(decoded.stats.forced_tokens, count(Source::Forced));
    let ended = usize::from(decoded.stop == StopReason::End);
    assert_eq!(decoded.stats.sampled_tokens, count(Source::Sampled) + ended);
    assert!(decoded.tokens.len() <= options.max_tokens);
    decoded
}

fn say(text: &str) -> (Scripted, Arc<Vocabulary>) {
    let vocabulary = vocabulary();
    (Scripted::new(vocabulary.clone()).say(text), vocabulary)
}

fn check(text: &str, options: DecodeOptions, expected: &str, stop: StopReason) {
    let (backend, vocabulary) = say(text);
    let decoded = run(backend, &mut Free::new(vocabulary), &options);
    assert_eq!((decoded.text.as_str(), decoded.stop), (expected, stop), "{text:?}");
}

#[test]
fn unconstrained_turn_says_the_script_and_ends() {
    for text in ["Hello.", "", "{\"name\": \"read_file\"}", "日本 and é, \u{1F600}"] {
        check(text, DecodeOptions::default(), text, StopReason::End);
    }
}

#[test]
fn turn_stops_at_its_budget_and_its_stop_text() {
    let budget = |max_tokens| DecodeOptions { max_tokens, ..DecodeOptions::default() };
    check("x y z", budget(3), "x y", StopReason::MaxTokens);
    check("x y z", budget(5), "x y z", StopReason::MaxTokens);
    check("x y z", budget(6), "x y z", StopReason::End);
    check("x", budget(0), "", StopReason::MaxTokens);
    let stop = |text: &str| DecodeOptions {
        stop_texts: vec!["never".into(), text.into()],
        ..DecodeOptions::default()
    };
    check("a read_file b", stop("d_f"), "a rea", StopReason::StopText(1));
    check("a read_file b", stop("d_x"), "a read_file b", StopReason::End);
}

#[test]
fn turn_stops_when_the_context_is_full() {
    let (backend, vocabulary) = say("abcdefgh");
    let decoded = run(backend.context(4), &mut Free::new(vocabulary), &DecodeOptions::default());
    // One token of prompt, three evaluated, and one more that was drawn from their logits.
    assert_eq!((decoded.stop, decoded.tokens.len()), (StopReason::ContextFull, 4));
}

#[test]
fn cancelled_and_broken_off_turns_keep_their_text() {
    let cancel = Cancel::default();
    let options = DecodeOptions { cancel: cancel.clone(), ..DecodeOptions::default() };
    let run = |on_piece: &mut dyn FnMut(&str) -> ControlFlow<()>| {
        let (backend, vocabulary) = say("x y z");
        let mut session = Session::new(backend);
        session.set_prompt_text("<|start|>").unwrap();
        let mut free = Free::new(vocabulary);
        let decoded = decode(&mut session, &mut free, &mut Sampler::greedy(), &options, &mut |piece| {
            on_piece(piece.text)
        });
        decoded.map(|decoded| (decoded.text, decoded.stop)).unwrap()
    };
    let stopped =
        run(&mut |text| if text == "y" { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
    assert_eq!(stopped, ("x y".to_owned(), StopReason::SinkStopped));
    let cancelled = run(&mut |text| {
        if text == "y" {
            cancel.cancel();
        }
        ControlFlow::Continue(())
    });
    assert_eq!(cancelled, ("x y".to_owned(), StopReason::Cancelled));
    cancel.reset();
    assert_eq!(run(&mut |_| ControlFlow::Continue(())).1, StopReason::End, "the control run");
}

#[test]
fn constraint_keeps_stray_tokens_out() {
    let vocabulary = vocabulary();
    let fence = u32::from(b'`');
    let texts = ["{\"name\": \"read_file\"}", "{\"name\": \"list\"}"];
    for every in 1..5 {
        let backend = Scripted::new(vocabulary.clone()).say(texts[0]).stray(every, fence);
        let mut language = Language::new(&vocabulary, &texts);
        // Asked at every position, the model strays at every chance.
        let asked = DecodeOptions { forcing: Forcing::Asked, ..DecodeOptions::default() };
        let decoded = run(backend.clone(), &mut language, &asked);
        assert_eq!((decoded.text.as_str(), &decoded.stop), (texts[0], &StopReason::Finished));
        let pressure = decoded.stats.constraint_pressure;
        assert!(pressure.max > 0.9 && pressure.mean <= pressure.max, "{pressure:?}");
        let options = DecodeOptions { max_tokens: 64, ..DecodeOptions::default() };
        let control = run(backend, &mut Free::new(vocabulary.clone()), &options);
        assert!(control.text.contains('`'), "without the constraint it strays: {:?}", control.text);
        assert_eq!(control.stats.constraint_pressure.refusals, 0);
    }
}

#[test]
fn every_turn_under_noise_is_a_text_of_the_language() {
    let vocabulary = vocabulary();
    let texts = ["abcab", "cabcab", "abc", "\"read_file\"", "日本é", "日é"];
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let mut session = Session::new(Scripted::new(vocabulary.clone()).say("nothing of the kind"));
        session.set_prompt_text("<|start|>").unwrap();
        let mut sampler =
            Sampler::new(&SamplerOptions { temperature: 20.0, seed, ..Default::default() }).unwrap();
        let mut language = Language::new(&vocabulary, &texts);
        let decoded =
            decode(&mut session, &mut language, &mut sampler, &DecodeOptions::default(), &mut |_| {
                ControlFlow::Continue(())
            })
            .unwrap();
        assert!(decoded.stop.is_whole() && texts.contains(&decoded.text.as_str()), "{decoded:?}");
        seen.insert(decoded.text);
    }
    assert!(seen.len() >= 4, "the noise is wild enough to reach most of it: {seen:?}");
}

/// A turn of at most `max_tokens` under a grammar, the model wanting to write `script`.
fn under_budget(
    grammar: &str,
    script: &str,
    max_tokens: usize,
    budget: Budget,
    sampler: &mut Sampler,
) -> Decoded {
    let (backend, vocabulary) = say(script);
    let automaton =
        Automaton::new(&Grammar::parse(grammar).unwrap(), vocabulary, &Limits::default()).unwrap();
    let mut session = Session::new(backend);
    session.set_prompt_text("<|start|>").unwrap();
    let options = DecodeOptions { max_tokens, budget, ..DecodeOptions::default() };
    let mut run = Budgeted::new(automaton.matcher());
    let mut silent = |_: toolgate_infer::Piece<'_>| ControlFlow::Continue(());
    decode(&mut session, &mut run, sampler, &options, &mut silent).unwrap()
}

const CALL: &str = r#"root ::= "{\"name\": \"" ("read_file" | "say") "\", \"text\": \"" [a-z ]* "\", \"tags\": [" tag (", " tag)* "]}"
tag ::= "\"" [a-z]+ "\"""#;

#[test]
fn turn_that_meets_its_budget_ends_as_valid_json() {
    let words = "word ".repeat(40);
    let script = format!("{{\"name\": \"say\", \"text\": \"{words}\", \"tags\": [\"a\"]}}");
    let mut steered = 0;
    let sampled =
        || Sampler::new(&SamplerOptions { temperature: 1.5, seed: 5, ..SamplerOptions::default() }).unwrap();
    for max_tokens in 45..160 {
        for sampler in [&mut Sampler::greedy(), &mut sampled()] {
            let whole = under_budget(CALL, &script, max_tokens, Budget::Whole, sampler);
            let parsed: Result<serde_json::Value, _> = serde_json::from_str(&whole.text);
            assert!(parsed.is_ok() && whole.stop.is_whole(), "{max_tokens}: {} {:?}", whole.text, whole.stop);
            assert!(whole.tokens.len() <= max_tokens);
            steered += usize::from(whole.stop == StopReason::Budget);
        }
        // The same turn without a look ahead is cut off in the middle of the text.
        let cut = under_budget(CALL, &script, max_tokens, Budget::Cut, &mut Sampler::greedy());
        assert_eq!(cut.stop, StopReason::MaxTokens);
        assert!(serde_json::from_str::<serde_json::Value>(&cut.text).is_err());
    }
    assert!(steered > 100, "{steered} turns were steered");
}

#[test]
fn budget_that_suffices_changes_nothing_and_one_below_the_shortest_text_cuts() {
    let script = "{\"name\": \"say\", \"text\": \"hi\", \"tags\": [\"a\"]}";
    let turn = |max, budget| under_budget(CALL, script, max, budget, &mut Sampler::greedy());
    let free = turn(1_000, Budget::Cut);
    assert_eq!((free.text.as_str(), &free.stop), (script, &StopReason::Finished));
    let roomy = turn(200, Budget::Whole);
    assert_eq!((&roomy.tokens, &roomy.stop), (&free.tokens, &StopReason::Finished));
    let exact = turn(free.tokens.len(), Budget::Whole);
    assert_eq!((&exact.tokens, &exact.stop), (&free.tokens, &StopReason::Finished), "nothing was cut");
    let tight = turn(5, Budget::Whole);
    assert_eq!((tight.tokens.len(), &tight.stop), (5, &StopReason::MaxTokens));
}

/// Allows `good` tokens, then nothing, or an error, or refuses what it allowed.
struct Broken {
    good: usize,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    AllowsNothing,
    CannotTell,
    RefusesWhatItAllowed,
    ForcesWhatItRefuses,
}

impl Constraint for Broken {
    fn allows(&mut self, _token: TokenId) -> Result<bool, Error> {
        match self.how {
            How::AllowsNothing => Ok(self.good > 0),
            How::CannotTell if self.good == 0 => Err(Error::new(Kind::Constraint, "cannot tell")),
            _ => Ok(true),
        }
    }
    fn mask(&mut self) -> Result<Mask, Error> {
        Ok(Mask::of(0, []))
    }
    fn accept(&mut self, _token: TokenId) -> Result<(), Error> {
        match (self.good.checked_sub(1), self.how) {
            (Some(good), _) => self.good = good,
            (None, How::RefusesWhatItAllowed | How::ForcesWhatItRefuses) => {
                return Err(Error::new(Kind::Constraint, "refused after all"));
            }
            (None, _) => {}
        }
        Ok(())
    }
    fn forced(&mut self) -> Result<Forced, Error> {
        let bytes =
            if self.how == How::ForcesWhatItRefuses && self.good == 0 { b"zzz".to_vec() } else { Vec::new() };
        Ok(Forced { bytes, ..Forced::default() })
    }
    fn is_complete(&self) -> bool {
        false
    }
    fn is_finished(&mut self) -> Result<bool, Error> {
        Ok(false)
    }
}

#[test]
fn failing_constraint_ends_the_turn_with_its_reason_and_no_further_text() {
    for how in [How::AllowsNothing, How::CannotTell, How::RefusesWhatItAllowed, How::ForcesWhatItRefuses] {
        let (backend, _) = say("x y z");
        let decoded = run(backend, &mut Broken { good: 2, how }, &DecodeOptions::default());
        assert_eq!(decoded.text, "x ", "{how:?}");
        let StopReason::ConstraintFailed(reason) = &decoded.stop else { panic!("{:?}", decoded.stop) };
        assert!(!reason.is_empty() && !decoded.stop.is_whole());
    }
}

#[test]
fn scripts_are_chosen_by_prompt_then_by_turn() {
    let vocabulary = vocabulary();
    let backend = Scripted::new(vocabulary.clone()).say("first").say("second").on("weather", "sunny");
    let mut session = Session::new(backend);
    let mut turn = |prompt: &str| {
        session.set_prompt_text(prompt).unwrap();
        let mut free = Free::new(vocabulary.clone());
        let options = DecodeOptions::default();
        let mut silent = |_: toolgate_infer::Piece<'_>| ControlFlow::Continue(());
        decode(&mut session, &mut free, &mut Sampler::greedy(), &options, &mut silent).unwrap().text
    };
    assert_eq!(turn("hello"), "first");
    assert_eq!(turn("the weather"), "sunny");
    assert_eq!(turn("hello again"), "second");
    assert_eq!(turn("hello once more"), "", "nothing left to say");
}
