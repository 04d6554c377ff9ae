//! Penalties and biases: what they hold back, whatever is guessed ahead or forced, and how likely tokens are told to be beside them.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use toolgate_infer::scripted::Scripted;
use toolgate_infer::{
    DecodeOptions, Decoded, Drafting, Forcing, Free, Penalties, Sampler, SamplerOptions, Session, TokenId,
    Vocabulary, decode,
};

fn turn(script: &str, sampling: &SamplerOptions, options: &DecodeOptions) -> Decoded {
    let vocabulary = Arc::new(Vocabulary::bytes_only());
    let mut session = Session::new(Scripted::new(vocabulary.clone()).say(script));
    // What is guessed is taken from here.
    session.set_prompt_text(&format!("Say {script}: ")).unwrap();
    let mut sampler = Sampler::new(sampling).unwrap();
    let mut silent = |_: toolgate_infer::Piece<'_>| ControlFlow::Continue(());
    decode(&mut session, &mut Free::new(vocabulary), &mut sampler, options, &mut silent).unwrap()
}

fn times(decoded: &Decoded) -> HashMap<TokenId, usize> {
    let mut times = HashMap::new();
    decoded.tokens.iter().for_each(|token| *times.entry(token.token).or_insert(0) += 1);
    times
}

#[test]
fn a_penalty_holds_back_what_the_turn_holds_and_not_what_the_prompt_does() {
    let options = DecodeOptions { max_tokens: 40, ..DecodeOptions::default() };
    let plain = turn("abababab", &SamplerOptions::default(), &options);
    assert_eq!(plain.text, "abababab", "control");
    for sampling in [
        Penalties { presence: 100.0, ..Penalties::default() },
        Penalties { frequency: 100.0, ..Penalties::default() },
        Penalties { repeat: 1e6, ..Penalties::default() },
    ] {
        let sampling = SamplerOptions { penalties: sampling, ..SamplerOptions::default() };
        let decoded = turn("abababab", &sampling, &options);
        assert!(decoded.text.starts_with("ab"), "both stand in the prompt: {:?}", decoded.text);
        assert!(times(&decoded).into_values().max() < Some(3), "{:?}", decoded.text);
    }
}

#[test]
fn a_bias_bans_a_token() {
    let options = DecodeOptions { max_tokens: 40, ..DecodeOptions::default() };
    let sampling = SamplerOptions { bias: vec![(u32::from(b'a'), -100.0)], ..SamplerOptions::default() };
    let decoded = turn("banana", &sampling, &options);
    assert!(decoded.text.starts_with('b') && !decoded.text.contains('a'), "{:?}", decoded.text);
}

#[test]
fn penalized_turns_are_the_same_however_they_are_evaluated() {
    for (frequency, temperature) in [(3.0, 0.0), (30.0, 0.0), (3.0, 0.9)] {
        let penalties = Penalties { frequency, ..Penalties::default() };
        let sampling = SamplerOptions { penalties, temperature, seed: 5, ..SamplerOptions::default() };
        let with = |drafting, forcing| {
            turn(
                "the cat and the hat",
                &sampling,
                &DecodeOptions { drafting, forcing, max_tokens: 60, ..DecodeOptions::default() },
            )
            .text
        };
        let plain = with(Drafting::Off, Forcing::Off);
        assert_eq!(with(Drafting::On, Forcing::On), plain);
        assert_eq!(with(Drafting::Off, Forcing::On), plain);
    }
}

#[test]
fn it_is_told_how_likely_the_model_thought_a_token_whatever_was_added_to_it() {
    let options = DecodeOptions { likelihoods: Some(3), max_tokens: 9, ..DecodeOptions::default() };
    let plain = turn("say it", &SamplerOptions::default(), &options);
    let sampling = SamplerOptions { bias: vec![(u32::from(b's'), -100.0)], ..SamplerOptions::default() };
    let biased = turn("say it", &sampling, &options);
    for decoded in [&plain, &biased] {
        assert_eq!(decoded.likelihoods.len(), decoded.tokens.len());
        for (told, token) in decoded.likelihoods.iter().zip(&decoded.tokens) {
            assert!(told.token == token.token && told.log_probability <= 0.0 && told.top.len() == 3);
            assert!(told.top.is_sorted_by(|one, next| one.1 >= next.1));
        }
    }
    let (wanted, taken) = (&plain.likelihoods[0], &biased.likelihoods[0]);
    assert_eq!(wanted.top, taken.top, "the model's own");
    assert!(taken.log_probability < wanted.log_probability);
    assert!(turn("say it", &sampling, &DecodeOptions::default()).likelihoods.is_empty(), "nobody asked");
}
