//! Guesses: the same turn with fewer evaluations, whatever is guessed.

use std::ops::ControlFlow;

use proptest::prelude::*;
use toolgate_infer::scripted::Scripted;
use toolgate_infer::{
    Backend, Constraint, DecodeOptions, Decoded, Drafting, Forcing, Free, Rows, Sampler, SamplerOptions,
    Session, Source, Specials, StopReason, TokenId, decode,
};

use crate::language::{Language, vocabulary};
use crate::rigid::Rigid;

/// Decodes a turn; also checks what the session holds then: the prompt and tokens of the turn, none that were guessed.
fn run<B: Backend>(
    backend: B,
    prompt: &str,
    constraint: &mut dyn Constraint,
    sampling: &SamplerOptions,
    options: &DecodeOptions,
) -> Decoded {
    let mut session = Session::new(backend);
    session.set_prompt_text(prompt).unwrap();
    let mut sampler = Sampler::new(sampling).unwrap();
    let mut sink = |_: toolgate_infer::Piece<'_>| ControlFlow::Continue(());
    let decoded = decode(&mut session, constraint, &mut sampler, options, &mut sink).unwrap();
    let turn: Vec<TokenId> = decoded.tokens.iter().map(|token| token.token).collect();
    assert!(turn.starts_with(&session.tokens()[decoded.start..]));
    let accepted = decoded.tokens.iter().filter(|token| token.source == Source::Drafted).count();
    assert_eq!(decoded.stats.accepted_tokens, accepted);
    assert!(decoded.stats.accepted_tokens <= decoded.stats.drafted_tokens);
    decoded
}

fn options(drafting: Drafting) -> DecodeOptions {
    DecodeOptions { drafting, max_tokens: 120, ..DecodeOptions::default() }
}

/// What a turn says, without what it cost.
fn said(decoded: &Decoded) -> (&str, Vec<(TokenId, bool)>, &StopReason) {
    let tokens = decoded.tokens.iter().map(|token| (token.token, token.source == Source::Forced));
    (&decoded.text, tokens.collect(), &decoded.stop)
}

#[test]
fn what_the_prompt_says_costs_few_evaluations() {
    let vocabulary = vocabulary();
    let text = "The release is planned for Thursday, and Tomasz writes the changelog.";
    let prompt = format!("<|start|>Notes: {text} What is planned?");
    let turn = |drafting| {
        let backend = Scripted::new(vocabulary.clone()).say(text);
        let free = &mut Free::new(vocabulary.clone());
        run(backend, &prompt, free, &SamplerOptions::default(), &options(drafting))
    };
    let (on, off) = (turn(Drafting::On), turn(Drafting::Off));
    assert_eq!(said(&on), said(&off));
    assert_eq!((on.text.as_str(), off.stats.accepted_tokens), (text, 0));
    assert!(on.stats.decode_calls * 3 < off.stats.decode_calls, "{:?}", on.stats);
    assert!(on.stats.accepted_tokens * 10 > on.stats.drafted_tokens * 6, "{:?}", on.stats);
}

#[test]
fn guesses_are_not_gone_on_with_where_they_are_wrong() {
    let vocabulary = vocabulary();
    // Every beginning of a word was there before, and goes on otherwise.
    let prompt = "<|start|>alpha1 bravo1 charlie1 delta1 echo1 foxtrot1 golf1 hotel1 india1 juliet1";
    let text = "alpha2 bravo2 charlie2 delta2 echo2 foxtrot2 golf2 hotel2 india2 juliet2";
    let backend = Scripted::new(vocabulary.clone()).say(text);
    let free = &mut Free::new(vocabulary.clone());
    let decoded = run(backend, prompt, free, &SamplerOptions::default(), &options(Drafting::On));
    assert_eq!(decoded.text, text);
    let wrong = decoded.stats.drafted_tokens - decoded.stats.accepted_tokens;
    assert!(wrong * 4 < decoded.tokens.len(), "{:?}", decoded.stats);
}

#[test]
fn a_memory_that_cannot_be_cut_is_filled_again_once() {
    let vocabulary = vocabulary();
    let prompt = "<|start|>Read alpha1.txt now";
    let text = "{\"path\": \"alpha2.txt, alpha2.txt\"}";
    let turn = |drafting| {
        let backend = Rigid::without_checkpoints(Scripted::new(vocabulary.clone()).say(text));
        let free = &mut Free::new(vocabulary.clone());
        run(backend, prompt, free, &SamplerOptions::default(), &options(drafting))
    };
    let (on, off) = (turn(Drafting::On), turn(Drafting::Off));
    assert_eq!((on.text.as_str(), &said(&on)), (text, &said(&off)));
    assert!(on.stats.drafted_tokens > 0, "{:?}", on.stats);
}

#[test]
fn with_checkpoints_a_wrong_guess_costs_no_further_ones() {
    let vocabulary = vocabulary();
    // What a beginning goes on with changes each time.
    let prompt = "<|start|>Read src/main.rs, src/lib.rs, notes/file and read_file now";
    let text = "src/main.rs, src/lib.rs; src/main.rs, notes/file; src/lib.rs, read_file and src/main.rs";
    let scripted = || Scripted::new(vocabulary.clone()).say(text);
    let free = || Free::new(vocabulary.clone());
    let (sampling, options) = (SamplerOptions::default(), options(Drafting::On));
    let anywhere = run(scripted(), prompt, &mut free(), &sampling, &options);
    let checkpoints = run(Rigid::with_checkpoints(scripted()), prompt, &mut free(), &sampling, &options);
    let none = run(Rigid::without_checkpoints(scripted()), prompt, &mut free(), &sampling, &options);
    assert_eq!((said(&checkpoints), said(&none)), (said(&anywhere), said(&anywhere)));
    let accepted = [&anywhere, &checkpoints, &none].map(|decoded| decoded.stats.accepted_tokens);
    assert!(accepted[0] < anywhere.stats.drafted_tokens, "control: some guesses are wrong");
    assert!(accepted[1] == accepted[0] && accepted[2] < accepted[0], "{accepted:?}");
}

/// Texts whose parts come again.
fn texts() -> impl Strategy<Value = (String, Vec<String>)> {
    let word = prop::sample::select(vec![
        "src/main.rs",
        "src/lib.rs",
        "notes",
        "read_file",
        "file",
        "cab",
        "abc",
        " ",
        " ",
        ", ",
        "\": ",
        "é",
        "日本",
    ]);
    let text = prop::collection::vec(word, 1..14).prop_map(|words| words.concat());
    (text.clone(), prop::collection::vec(text, 1..4))
}

/// What is left of a model's memory where it is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Memory {
    Anywhere,
    Checkpoints,
    None,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The law: with guesses and without, every seed and temperature says the same, free and under a constraint.
    #[test]
    fn turns_are_the_same_with_and_without_guesses(
        (prompt, texts) in texts(),
        temperature in prop::sample::select(vec![0.0_f32, 1.0, 4.0, 8.0]),
        seed in 0_u64..1_000,
        every in 2_usize..40,
        max_tokens in 1_usize..60,
        constrained in any::<bool>(),
        memory in prop::sample::select(vec![Memory::Anywhere, Memory::Checkpoints, Memory::None]),
        // The longest context that holds all, and one that is full before the turn ends.
        context in prop::sample::select(vec![8_192_usize, 60]),
    ) {
        let vocabulary = vocabulary();
        let turn = |drafting| {
            let backend = Scripted::new(vocabulary.clone())
                .context(context)
                .stray(every, 65)
                .say(texts[0].clone());
            let mut language = Language::new(&vocabulary, &texts);
            let mut free = Free::new(vocabulary.clone());
            let constraint: &mut dyn Constraint = if constrained { &mut language } else { &mut free };
            let sampling = SamplerOptions { temperature, seed, top_k: 40, ..SamplerOptions::default() };
            let options = DecodeOptions { drafting, max_tokens, ..DecodeOptions::default() };
            let prompt = format!("<|start|>{}", prompt.chars().take(40).collect::<String>());
            match memory {
                _ if drafting == Drafting::Off => run(backend, &prompt, constraint, &sampling, &options),
                Memory::Anywhere => run(backend, &prompt, constraint, &sampling, &options),
                Memory::Checkpoints => {
                    run(Rigid::with_checkpoints(backend), &prompt, constraint, &sampling, &options)
                }
                Memory::None => {
                    run(Rigid::without_checkpoints(backend), &prompt, constraint, &sampling, &options)
                }
            }
        };
        let (on, off) = (turn(Drafting::On), turn(Drafting::Off));
        prop_assert_eq!(said(&on), said(&off));
        prop_assert!(on.stats.decode_calls <= off.stats.decode_calls || memory != Memory::Anywhere);
        prop_assert_eq!(on.stats.sampled_tokens + on.stats.accepted_tokens, off.stats.sampled_tokens);
    }
}

/// Tokens that somebody evaluated already behind the prompt, right or wrong.
#[test]
fn what_was_evaluated_ahead_of_a_turn_is_taken_or_cut_off() {
    let vocabulary = vocabulary();
    let texts = ["{\"name\": \"read_file\"}".to_owned(), "{\"name\": \"file\"}".to_owned()];
    let turn = |ahead: &str, forcing| {
        let mut session = Session::new(Scripted::new(vocabulary.clone()).say(texts[0].clone()));
        session.set_prompt_text("<|start|>").unwrap();
        let tokens = session.backend().tokenize(ahead, Specials::Plain).unwrap();
        session.eval(&tokens, Rows::None).unwrap();
        let options = DecodeOptions { ahead: tokens.len(), forcing, ..options(Drafting::On) };
        let mut sink = |_: toolgate_infer::Piece<'_>| ControlFlow::Continue(());
        let mut language = Language::new(&vocabulary, &texts);
        let decoded =
            decode(&mut session, &mut language, &mut Sampler::greedy(), &options, &mut sink).unwrap();
        assert_eq!((decoded.text.as_str(), decoded.start), (texts[0].as_str(), 1), "{ahead:?}");
        let held: Vec<TokenId> = decoded.tokens.iter().map(|token| token.token).collect();
        assert!(held.starts_with(&session.tokens()[1..]), "{ahead:?}");
        decoded
    };
    for forcing in [Forcing::On, Forcing::Off, Forcing::Asked] {
        let none = turn("", forcing);
        for ahead in ["{\"", "{\"name", "{\"nap", "x", "{\"name\": \"read_file\"}"] {
            let some = turn(ahead, forcing);
            assert_eq!(said(&some), said(&none), "{ahead:?}");
        }
    }
    let (none, some) = (turn("", Forcing::Off), turn("{\"name\":", Forcing::Off));
    assert!(some.stats.decode_calls < none.stats.decode_calls);
}
