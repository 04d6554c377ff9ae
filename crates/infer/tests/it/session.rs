//! Prompts, the cache, and what happens when a backend fails or cannot forget a part.

use std::sync::Arc;

use toolgate_infer::scripted::Scripted;
use toolgate_infer::{Backend, Cancel, Error, Kind, KvCache, Overflow, Rows, Session, TokenId, Vocabulary};

use crate::rigid::Rigid;

fn scripted() -> Scripted {
    Scripted::new(Arc::new(Vocabulary::bytes_only()))
}

fn tokens(text: &str) -> Vec<TokenId> {
    text.bytes().map(u32::from).collect()
}

fn set(session: &mut Session<impl Backend>, text: &str) -> (usize, usize) {
    let prefill = session.set_prompt(&tokens(text), 0, &Cancel::default(), &mut |_| ()).unwrap();
    assert_eq!(prefill.prompt_tokens, text.len());
    assert_eq!(session.tokens(), tokens(text));
    assert_eq!(session.backend().evaluated(), text.len());
    session.logits().unwrap();
    (prefill.cached_tokens, prefill.evaluated_tokens)
}

#[test]
fn prompt_reuses_the_longest_common_prefix() {
    let mut session = Session::new(scripted());
    assert_eq!(set(&mut session, "one two"), (0, 7));
    assert_eq!(set(&mut session, "one two three"), (7, 6), "an extension evaluates what was added");
    assert_eq!(set(&mut session, "one ten"), (5, 2), "a fork evaluates from where it differs");
    assert_eq!(set(&mut session, "one ten"), (6, 1), "the same again needs the last token's logits");
    assert_eq!(set(&mut session, "one"), (2, 1), "a shorter one too");
    assert_eq!(set(&mut session, "two"), (0, 3));
}

#[test]
fn what_a_turn_begins_with_is_evaluated_with_its_prompt() {
    let mut session = Session::new(scripted().context(16));
    let (prompt, ahead) = (tokens("ask"), tokens("<call>"));
    let mut hold = |reserve| {
        let mut done = 0;
        let cancel = Cancel::default();
        let prefill = session.set_prompt_ahead(&prompt, &ahead, reserve, &cancel, &mut |p| done = p.done)?;
        assert_eq!((prefill.prompt_tokens, done), (3, 3), "it is no part of the prompt");
        assert_eq!(session.tokens(), tokens("ask<call>"));
        session.logits().unwrap();
        Ok::<_, Error>((prefill.cached_tokens, prefill.evaluated_tokens))
    };
    assert_eq!(hold(13).unwrap(), (0, 3), "it counts as part of what is reserved");
    assert_eq!(hold(13).unwrap(), (3, 0), "logits are needed behind it alone");
    let overflow = hold(14).unwrap_err();
    assert_eq!(overflow.overflow(), Some(Overflow { prompt: 3, reserve: 14, context: 16 }));
}

/// Two texts of 50 tokens that begin alike for 10, and one that is like neither.
fn views() -> [String; 3] {
    let (a, b) = ("a".repeat(40), "b".repeat(40));
    [format!("the system{a}"), format!("the system{b}"), "another conversation, nothing in common".to_owned()]
}

#[test]
fn prompts_that_take_turns_are_each_evaluated_once() {
    let mut session = Session::new(scripted().holding(3));
    let [calls, answers, other] = views();
    assert_eq!(set(&mut session, &calls), (0, 50));
    assert_eq!(set(&mut session, &answers), (10, 40), "what they share is not evaluated again");
    assert_eq!(set(&mut session, &other), (0, other.len()));
    assert_eq!(set(&mut session, &format!("{calls} and on")), (50, 7));
    assert_eq!(set(&mut session, &format!("{answers} and on")), (50, 7));
    assert_eq!(set(&mut session, &"x".repeat(40)), (0, 40), "what costs least makes place");
    assert_eq!(set(&mut session, &format!("{calls} and on!")), (57, 1));
    assert_eq!(set(&mut session, &other), (0, other.len()));

    let mut single = Session::new(scripted());
    assert_eq!(set(&mut single, &calls), (0, 50));
    assert_eq!(set(&mut single, &answers), (10, 40));
    assert_eq!(set(&mut single, &calls), (10, 40), "without sequences each view costs the other");
}

#[test]
fn what_gave_way_is_put_back_when_it_comes_again() {
    let [first, second, third] = views();
    for sequences in [1, 2] {
        let cache = KvCache::new(1 << 20);
        let keeping = || Session::new(scripted().holding(sequences)).keeping(cache.clone());
        let (mut session, mut other) = (keeping(), keeping());
        for text in [&first, &second, &third] {
            set(&mut session, text);
        }
        assert_eq!(session.held(&tokens(&first)), 50);
        for text in [&first, &second, &third] {
            let longer = format!("{text} and on");
            assert_eq!(set(&mut session, &longer), (text.len(), 7), "{sequences} sequences: {text}");
        }
        assert_eq!(set(&mut other, &first), (49, 1), "conversations find what another one gave up");
        assert!(!session.restore(&tokens("a"), b"what no backend wrote").unwrap());
        assert_eq!(
            set(&mut session, &third),
            (third.len() - 1, 1),
            "a restored pack makes way like a prompt"
        );
    }
    let mut none = Session::new(scripted()).keeping(KvCache::new(0));
    set(&mut none, &first);
    set(&mut none, &third);
    assert_eq!(set(&mut none, &first), (0, 50), "control: nothing is kept");
}

#[test]
fn what_is_kept_stays_within_its_bound() {
    let cache = KvCache::new(1_000);
    let mut session = Session::new(scripted()).keeping(cache.clone());
    for number in 0..40 {
        set(&mut session, &format!("{number}: {}", "t".repeat(number + 30)));
        assert!(cache.bytes() <= 1_000);
    }
    assert!(cache.bytes() > 0);
}

#[test]
fn a_long_prompt_stays_where_short_ones_come_and_go() {
    let mut session = Session::new(scripted().holding(2));
    let (tools, answers) = ("t".repeat(400), format!("answers{}", "a".repeat(20)));
    for task in 0..4 {
        let (cached, _) = set(&mut session, &format!("{tools} task {task}"));
        assert!(task == 0 || cached >= tools.len(), "{task}: {cached}");
        set(&mut session, &format!("{answers} {task} {}", "r".repeat(60)));
    }
}

#[test]
fn each_sequence_has_the_whole_context() {
    let mut session = Session::new(scripted().holding(3).context(120));
    let [calls, answers, _] = views();
    set(&mut session, &calls);
    set(&mut session, &answers);
    assert_eq!(session.room(), 70, "what is put aside takes no room");
    session.eval(&tokens(&"c".repeat(70)), Rows::Last).unwrap();
    assert_eq!(session.room(), 0);
    let (cached, evaluated) = set(&mut session, &calls);
    assert_eq!((cached, evaluated), (49, 1), "nothing is forgotten for that");
}

#[test]
fn sequences_change_nothing_but_what_is_evaluated() {
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let kept = KvCache::new(2_000);
    let mut sessions = [
        Session::new(scripted().holding(3).context(200)),
        Session::new(scripted().holding(2).context(200)).keeping(kept.clone()),
        Session::new(scripted().context(200)).keeping(kept),
    ];
    let mut saved = [0; 3];
    for _ in 0..300 {
        let prompt: String =
            (0..=random(3)).map(|_| ["a", "b", "c"][random(3)].repeat(20 + random(25))).collect();
        let mut fresh = Session::new(scripted());
        let whole = set(&mut fresh, &prompt).1;
        for (session, saved) in sessions.iter_mut().zip(&mut saved) {
            let (cached, evaluated) = set(session, &prompt);
            assert_eq!(cached + evaluated, whole);
            assert_eq!(session.logits().unwrap(), fresh.logits().unwrap());
            *saved += cached;
        }
    }
    assert!(saved.iter().all(|&saved| saved > 5_000), "of some 15,000 tokens {saved:?} were there");
}

#[test]
fn prompt_is_evaluated_in_batches_with_progress() {
    let mut session = Session::new(scripted().batch(4));
    let mut seen = Vec::new();
    let prompt = tokens("abcdefghij");
    session
        .set_prompt(&prompt, 0, &Cancel::default(), &mut |p| seen.push((p.cached, p.done, p.total)))
        .unwrap();
    assert_eq!(seen, [(0, 0, 10), (0, 4, 10), (0, 8, 10), (0, 10, 10)]);
    assert_eq!(session.backend().batches(), [4, 4, 2]);
}

#[test]
fn cancelled_prompt_keeps_what_was_evaluated() {
    let mut session = Session::new(scripted().batch(4));
    let cancel = Cancel::default();
    let mut stop_at_four = |p: toolgate_infer::Progress| {
        if p.done == 4 {
            cancel.cancel()
        }
    };
    let error = session.set_prompt(&tokens("abcdefghij"), 0, &cancel, &mut stop_at_four).unwrap_err();
    assert_eq!(error.kind(), Kind::Cancelled);
    assert_eq!((session.tokens().len(), session.backend().evaluated()), (4, 4));
    cancel.reset();
    assert_eq!(set(&mut session, "abcdefghij"), (4, 6), "and the next prompt uses it");
}

#[test]
fn overflow_names_its_numbers_before_anything_is_evaluated() {
    let mut session = Session::new(scripted().context(10));
    let mut set = |len: usize, reserve| {
        session
            .set_prompt(&vec![0; len], reserve, &Cancel::default(), &mut |_| ())
            .map(|prefill| prefill.prompt_tokens)
    };
    let error = set(8, 3).unwrap_err();
    assert_eq!(error.kind(), Kind::Overflow);
    assert_eq!(error.overflow(), Some(Overflow { prompt: 8, reserve: 3, context: 10 }));
    assert!(error.to_string().starts_with("prompt is too long: 8 tokens > 7 maximum"), "{error}");
    assert_eq!(set(8, usize::MAX).unwrap_err().kind(), Kind::Overflow);
    assert_eq!(set(0, 0).unwrap_err().kind(), Kind::Options);
    assert_eq!(set(8, 2).unwrap(), 8, "one less fits");
    assert_eq!(session.backend().batches(), [8]);
}

#[test]
fn model_that_cannot_forget_a_part_evaluates_all_again() {
    let mut session = Session::new(Rigid::without_checkpoints(scripted()));
    assert_eq!(set(&mut session, "one two"), (0, 7));
    assert_eq!(set(&mut session, "one two three"), (7, 6), "nothing to forget");
    assert_eq!(set(&mut session, "one ten"), (0, 7));
}

#[test]
fn a_model_with_checkpoints_evaluates_what_is_behind_the_last_one() {
    let mut session = Session::new(Rigid::with_checkpoints(scripted()));
    assert_eq!(set(&mut session, "one two"), (0, 7));
    session.eval(&tokens(" and more"), Rows::Last).unwrap();
    assert_eq!(session.held(&tokens("one two and less")), 6, "what is behind it is not counted");
    let mut told = Vec::new();
    let (prompt, cancel) = (tokens("one two and"), Cancel::default());
    session.set_prompt(&prompt, 0, &cancel, &mut |progress| told.push(progress.cached)).unwrap();
    assert!(told.iter().all(|&cached| cached == 6), "progress tells what is held: {told:?}");
    assert_eq!(set(&mut session, "one two"), (6, 1), "from in front of the prompt's last token");
    assert_eq!(set(&mut session, "one twelve"), (6, 4));
    assert_eq!(set(&mut session, "one ten"), (0, 7), "in front of the first checkpoint nothing is left");
    session.set_beginning(&tokens("one ten, "), 0, &Cancel::default(), &mut |_| ()).unwrap();
    assert_eq!(set(&mut session, "one ten, two"), (9, 3));
    assert_eq!(set(&mut session, "one ten, three"), (9, 5), "a beginning has one at its end");
}

#[test]
fn failed_batch_leaves_history_and_backend_in_step() {
    let mut session = Session::new(Rigid::without_checkpoints(scripted().batch(3)).failing_at(2));
    let error = session.set_prompt(&tokens("abcdefgh"), 0, &Cancel::default(), &mut |_| ()).unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Backend, "out of memory"));
    assert_eq!((session.tokens(), session.backend().evaluated()), (&tokens("abcdef")[..], 6));
    assert_eq!(session.logits().unwrap_err().kind(), Kind::Backend, "and no stale logits are handed out");
    assert_eq!(set(&mut session, "abcdefgh"), (6, 2));
}

#[test]
fn rows_of_a_batch_are_those_of_single_tokens() {
    let mut single = Session::new(scripted().say("wanted"));
    let mut batch = Session::new(scripted().say("wanted"));
    for session in [&mut single, &mut batch] {
        set(session, "prompt");
    }
    batch.eval(&tokens("wan"), Rows::All).unwrap();
    for (row, token) in tokens("wan").into_iter().enumerate() {
        single.eval(&[token], Rows::Last).unwrap();
        assert_eq!(single.logits().unwrap(), batch.row(row).unwrap(), "row {row}");
    }
    assert!(batch.row(3).is_err());
    assert_eq!(single.logits().unwrap(), batch.logits().unwrap(), "the last row is the last token's");
}
