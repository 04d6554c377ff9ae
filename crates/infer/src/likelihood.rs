//! How likely the model thought the tokens of a turn, told beside it where that is asked for.

use toolgate_grammar::TokenId;

use crate::decision::log_probabilities;

/// How likely a token was, by the model's own logits: before temperature, penalties and whatever constrained it.
///
/// ```
/// use std::{ops::ControlFlow, sync::Arc};
/// use toolgate_infer::{DecodeOptions, Free, Sampler, Session, Vocabulary, decode, scripted::Scripted};
///
/// let vocabulary = Arc::new(Vocabulary::bytes_only());
/// let mut session = Session::new(Scripted::new(vocabulary.clone()).say("No."));
/// session.set_prompt_text("Yes? ")?;
/// let options = DecodeOptions { likelihoods: Some(2), ..DecodeOptions::default() };
/// let mut free = Free::new(vocabulary);
/// let turn = decode(&mut session, &mut free, &mut Sampler::greedy(), &options, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!(turn.likelihoods.len(), turn.tokens.len());
/// let first = &turn.likelihoods[0];
/// assert_eq!((first.token, first.top.len()), (u32::from(b'N'), 2));
/// assert_eq!(first.top[0], (first.token, first.log_probability), "greedily the likeliest is drawn");
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Likelihood {
    /// Which token.
    pub token: TokenId,
    /// The logarithm of its probability; 0 for a token without an alternative, which the model was not asked for.
    pub log_probability: f64,
    /// The likeliest tokens in its place, with the same, the likeliest first.
    pub top: Vec<(TokenId, f64)>,
}

impl Likelihood {
    /// Of a token in front of which these logits stood, with so many of the likeliest.
    pub(crate) fn of(logits: &[f32], token: TokenId, top: usize) -> Self {
        let mut likeliest: Vec<(f32, TokenId)> = Vec::with_capacity(top + 1);
        for (&logit, token) in logits.iter().zip(0_u32..).filter(|(logit, _)| logit.is_finite() && top > 0) {
            if likeliest.len() == top && likeliest.last().is_some_and(|&(least, _)| least >= logit) {
                continue;
            }
            likeliest.insert(likeliest.partition_point(|&(other, _)| other >= logit), (logit, token));
            likeliest.truncate(top);
        }
        let tokens: Vec<TokenId> =
            std::iter::once(token).chain(likeliest.iter().map(|&(_, token)| token)).collect();
        let mut told = tokens.iter().copied().zip(log_probabilities(logits, &tokens));
        let log_probability = told.next().map_or(f64::NEG_INFINITY, |(_, told)| told);
        Self { token, log_probability, top: told.collect() }
    }

    /// Of a token that nobody had to choose.
    pub(crate) fn certain(token: TokenId) -> Self {
        Self { token, log_probability: 0.0, top: vec![(token, 0.0)] }
    }
}
