//! What a model tells in front of a turn, beside how likely it opens a call: what it answers to lists of requests, and how likely it
//! calls where nothing was said.
//!
//! Invariant: each is evaluated once for a request, or once for a set of tools, and only where the profile weighs it.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::time::Instant;

use toolgate_chat::{ToolChoice, ToolSpec, Transcript};
use toolgate_infer::{Backend, Rows, Session, Specials, TokenId, common_len, log_probabilities};

use crate::model::pool::lock;
use crate::profile::choice::ToolSignals;
use crate::profile::decision::{Signal, Signals};
use crate::profile::policy::Thresholds;
use crate::prompt::disk_cache::Extent;
use crate::turn::changes::May;
use crate::turn::choose::{Look, empty, likely_weights, mean};
use crate::turn::driver::ScoredModel;
use crate::turn::lists::{List, Told};
use crate::turn::local::State;
use crate::turn::making::Making;
use crate::turn::prefill::RESERVE;
use crate::turn::steps::Local;
use crate::{Cancel, Error, LocalEngine, TurnRequest};

/// Tokens of a call that is written to measure what is made up of it.
const WRITTEN: usize = 160;

/// The logarithm of the odds of a probability; one of 0 or 1 counts as almost that.
#[doc(hidden)]
pub fn log_odds(p: f64) -> f64 {
    let p = p.clamp(1e-9, 1.0 - 1e-9);
    (p / (1.0 - p)).ln()
}

/// The probability of these odds, given as their logarithm.
#[doc(hidden)]
pub fn logistic(log_odds: f64) -> f64 {
    1.0 / (1.0 + (-log_odds).exp())
}

impl<'a, B: Backend + Send> Making<'a, B> {
    /// The thresholds of the turn.
    pub(crate) fn thresholds(
        &mut self,
        state: &mut State<B>,
        offered: &[ToolSpec],
    ) -> Result<Thresholds, Error> {
        let options = &self.engine.options;
        let usual = options.thresholds.for_request(self.request);
        let Some(decision) = options.decision else { return Ok(usual) };
        let request = self.request;
        let may_change = !decision.bars_changes(request) || self.wishes(state, true)?;
        decision.thresholds(usual, request, &mut |signal| match signal {
            Signal::Free => self.free(state, offered).map(Some),
            // There is no list for what tells of the call itself, which comes later.
            signal => self.told(state, List::about(signal, request.transcript, offered, may_change)),
        })
    }

    /// What the model tells of tools beside how likely it begins their calls, as far as the choice weighs it. Where it was not known
    /// before, the session has moved to another prompt.
    pub(crate) fn told_of_tools(
        &mut self,
        state: &mut State<B>,
        offered: &[ToolSpec],
    ) -> Result<ToolSignals, Error> {
        let (choice, request) = (self.engine.options.choice, self.request);
        choice.ask(request, offered, |list| self.answered(state, list))
    }

    /// The logarithm of the odds of yes that a list tells; none where there is no list.
    fn told(&mut self, state: &mut State<B>, list: Option<List>) -> Result<Option<f64>, Error> {
        let Some(list) = list else { return Ok(None) };
        self.answered(state, &list).map(|told| Some(told.log_odds()))
    }

    /// What a list tells. Where it was not known before, the session has moved to another prompt.
    pub(crate) fn answered(&mut self, state: &mut State<B>, list: &List) -> Result<Told, Error> {
        let started = Instant::now();
        let told = self.engine.told(&mut state.session, list, self.cancel, &mut self.moved)?;
        self.stats.ms.prefill += started.elapsed().as_secs_f64() * 1e3;
        Ok(told)
    }

    /// How likely a call of these tools is where nothing was said, as the logarithm of its odds.
    fn free(&mut self, state: &mut State<B>, offered: &[ToolSpec]) -> Result<f64, Error> {
        if let Some(known) = lock(&self.engine.learned.free_calls).get(offered) {
            return Ok(known);
        }
        self.demonstrations = self.demonstrations_for(true);
        let probes = empty().map(|transcript| self.introduced(&transcript));
        let mut place = self.probes(&state.session, &probes, offered)?;
        // Beside the tools' own probabilities behind the same prompts, which are kept under these tokens.
        place.push(0);
        let kept = self.engine.known_bias(&state.session, &place, 1).and_then(|kept| kept.first().copied());
        let free = match kept {
            Some(free) => free,
            None => {
                self.moved = true;
                let odds = mean(&probes, |transcript| {
                    self.probe(state, transcript, offered)?;
                    let openings = self.engine.openings.at_start(self.request.answer, false);
                    let (decision, evaluations) = openings.decide_ahead(&mut state.session, 0.0)?;
                    self.stats.decode_calls += evaluations;
                    Ok(vec![log_odds(decision.p_call)])
                })?;
                self.engine.keep_bias(&state.session, &place, &odds);
                odds.first().copied().unwrap_or_default()
            }
        };
        lock(&self.engine.learned.free_calls).put(offered, free);
        Ok(free)
    }

    /// What the model tells, of what is asked for. `writing` is the request with room for a call.
    fn signals(
        &mut self,
        state: &mut State<B>,
        asked: &[Signal],
        writing: &'a TurnRequest<'a>,
    ) -> Result<Signals, Error> {
        let (request, offered) = (self.request, self.request.tools);
        let mut signals = Signals::default();
        if asked.contains(&Signal::Free) {
            signals.free = self.free(state, offered)?;
        }
        for (signal, place) in [
            (Signal::Live, &mut signals.live),
            (Signal::Next, &mut signals.next),
            (Signal::Asked, &mut signals.asked),
        ] {
            if asked.contains(&signal) {
                let Some(list) = List::about(signal, request.transcript, offered, true) else { continue };
                let told = self.answered(state, &list)?;
                *place = told.log_odds();
                if signal == Signal::Next {
                    signals.named = told.named(&list, offered);
                }
            }
        }
        if let Some(list) = List::change(request.transcript).filter(|_| asked.contains(&Signal::Change)) {
            signals.change = self.answered(state, &list)?.p();
        }
        let (weighs, writes) = (asked.contains(&Signal::Tools), asked.contains(&Signal::Invented));
        if !weighs && !writes && !asked.contains(&Signal::Call) {
            return Ok(signals);
        }
        let mut local = Local { making: self, state };
        local.begin(offered, true)?;
        let p_call = local.decide(offered, 0.0)?.p_call;
        if asked.contains(&Signal::Call) {
            signals.call = log_odds(p_call);
        }
        if weighs || writes {
            local.begin_call(offered)?;
            let (chosen, _) = local.choose(offered, May::ALL)?;
            let told = local.making.weighed.take().filter(|_| weighs).unwrap_or_default();
            (signals.tools, signals.bias) = (told.own, told.bias);
            if writes {
                let choice = chosen.map_or(ToolChoice::Required, |tool| ToolChoice::Only(vec![tool]));
                let turn =
                    toolgate_chat::TurnRequest { choice, parallel: Some(NonZeroUsize::MIN), first: None };
                if let Some(call) = local.sides(offered, &turn)?.call {
                    local.making.request = writing;
                    local.call(&call, true)?;
                    signals.invented = local.invented().unwrap_or_default();
                }
            }
        }
        Ok(signals)
    }
}

impl<B: Backend + Send> LocalEngine<B> {
    /// What the model tells of a request, with the tools that it offers, of what is `asked` for: what a decision can be fitted with. All
    /// else is 0. For [`Signal::Invented`] a call of at most 160 tokens is written.
    ///
    /// # Errors
    /// As those of a turn.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use toolgate_engine::{Cancel, LocalEngine, Options, Sampling, Signal, TurnRequest};
    /// # use toolgate_chat::{Message, ToolSpec, Transcript};
    /// # use toolgate_infer::{Vocabulary, scripted::Scripted};
    /// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).on("the lamp on\nKind:", " change");
    /// # let engine = LocalEngine::scripted(model, Options::default())?;
    /// # let lamp = ToolSpec::new("switch_lamp", "Switches the lamp.", serde_json::json!({"type": "object"}))?;
    /// let (tools, sampling) = ([lamp], Sampling::default());
    /// let asked = Transcript::new().with(Message::User("Switch the lamp on".into()));
    /// let request = TurnRequest::new(&asked, &tools, &sampling);
    /// let signals = engine.signals(&request, &[Signal::Change], &Cancel::default())?;
    /// assert!(signals.change > 0.9, "it says so behind a list of requests and their kinds");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn signals(
        &self,
        request: &TurnRequest<'_>,
        asked: &[Signal],
        cancel: &Cancel,
    ) -> Result<Signals, Error> {
        let mut state = self.conversations.take(|state| state.fit(request.transcript));
        let tools = self.options.offered(request.tools);
        let request = &TurnRequest { tools: &tools, ..request.clone() };
        let events = &mut |_| {};
        let sampling = request.sampling.clone().max_tokens(WRITTEN);
        let writing = &TurnRequest { sampling: &sampling, ..request.clone() };
        let signals = Making::new(self, request, cancel, events)?.signals(&mut state, asked, writing);
        state.session.end_turn();
        signals
    }

    /// What the model says behind a list; `moved` where that took an evaluation.
    pub(crate) fn told(
        &self,
        session: &mut Session<B>,
        list: &List,
        cancel: &Cancel,
        moved: &mut bool,
    ) -> Result<Told, Error> {
        let known = lock(&self.learned.lists).get(list);
        if let Some(known) = known {
            return Ok(known);
        }
        *moved = true;
        let mut prompt = session.backend().tokenize(&self.begins_with, Specials::Parse)?;
        let mut front = prompt.clone();
        front.extend(session.backend().tokenize(list.front(), Specials::Plain)?);
        prompt.extend(session.backend().tokenize(&list.text(), Specials::Plain)?);
        let front = prompt.get(..common_len(&front, &prompt)).unwrap_or_default().to_vec();
        if session.held(&front) < front.len() && !self.restored(session, &front)? {
            session.set_prompt(&front, RESERVE, cancel, &mut |_| ())?;
            self.saved(session, Extent::Whole)?;
        }
        session.set_prompt(&prompt, RESERVE, cancel, &mut |_| ())?;
        let told = shares(session, list)?;
        lock(&self.learned.lists).put(list.clone(), told.clone());
        Ok(told)
    }

    /// How likely the model finds it that the last request of a conversation asks for a change, 0 to 1; `None` where there is no
    /// request. [`Thresholds::changing`](crate::Thresholds) is held against it.
    ///
    /// # Errors
    /// As those of a turn.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use toolgate_engine::{Cancel, LocalEngine, Options};
    /// # use toolgate_chat::{Message, Transcript};
    /// # use toolgate_infer::{Vocabulary, scripted::Scripted};
    /// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).on("the lamp on\nKind:", " change");
    /// # let engine = LocalEngine::scripted(model, Options::default())?;
    /// let asked = Transcript::new().with(Message::User("Switch the lamp on".into()));
    /// assert!(engine.p_change(&asked, &Cancel::default())?.is_some_and(|p| p > 0.9));
    /// assert_eq!(engine.p_change(&Transcript::new(), &Cancel::default())?, None);
    /// # Ok::<(), toolgate_engine::Error>(())
    /// ```
    pub fn p_change(&self, transcript: &Transcript, cancel: &Cancel) -> Result<Option<f64>, Error> {
        let Some(list) = List::change(transcript) else { return Ok(None) };
        let mut state = self.conversations.take(|state| state.fit(transcript));
        let told = self.told(&mut state.session, &list, cancel, &mut false);
        state.session.end_turn();
        told.map(|told| Some(told.p()))
    }
}

/// How likely the words of a list come next behind it. Yes and no are told by the first token in which the words part. Words of one answer
/// that begin alike share what their beginning has, by what follows it.
fn shares<B: Backend>(session: &mut Session<B>, list: &List) -> Result<Told, Error> {
    let tokens = |words: &[String]| -> Result<Vec<Vec<TokenId>>, Error> {
        // A word ends with its line, else it is the beginning of another.
        let word = |word: &String| Ok(session.backend().tokenize(&format!("{word}\n"), Specials::Plain)?);
        words.iter().map(word).collect()
    };
    let (words, no, barred) = (tokens(&list.yes)?, tokens(&list.no)?, tokens(&list.barred)?);
    // Where all begin alike, they part behind that.
    let mut all = words.iter().chain(&no).chain(&barred);
    let shared = all.next().cloned().unwrap_or_default();
    let same = all.fold(shared.len(), |same, other| same.min(common_len(&shared, other)));
    if let Some(shared) = shared.get(..same).filter(|shared| !shared.is_empty()) {
        session.eval(shared, Rows::Last)?;
    }
    let part = |words: &[Vec<TokenId>]| -> BTreeSet<TokenId> {
        words.iter().filter_map(|word| word.get(same).copied()).collect()
    };
    let (mut yes, mut no) = (part(&words), part(&no));
    // A word that begins like one that says no tells nothing.
    yes.retain(|token| !no.contains(token));
    no.extend(part(&barred).difference(&yes));
    let asked: Vec<TokenId> = yes.iter().chain(&no).copied().collect();
    let told = log_probabilities(session.logits()?, &asked).into_iter().map(f64::exp);
    let told: BTreeMap<TokenId, f64> = asked.iter().copied().zip(told).collect();
    let of = |token: &TokenId| told.get(token).copied().unwrap_or_default();
    let mut shares = vec![0.0; words.len()];
    for token in &yes {
        let begins = |(at, word): (usize, &Vec<TokenId>)| (word.get(same) == Some(token)).then_some(at);
        let alike: Vec<usize> = words.iter().enumerate().filter_map(begins).collect();
        let parts = if alike.len() > 1 && of(token) >= LEAST_PARTED {
            let rest = |at: &usize| words.get(*at)?.get(same + 1..).map(<[TokenId]>::to_vec);
            parted(session, *token, of(token), alike.iter().filter_map(rest).collect())?
        } else {
            vec![1.0 / alike.len() as f64; alike.len()]
        };
        for (at, part) in alike.into_iter().zip(parts) {
            if let Some(share) = shares.get_mut(at) {
                *share = of(token) * part;
            }
        }
    }
    Ok(Told { yes: yes.iter().map(of).sum(), no: no.iter().map(of).sum(), words: shares })
}

/// Words that begin with the same token are told apart where they have this probability together. Less would decide nothing.
const LEAST_PARTED: f64 = 0.05;

/// The parts that words have of the token with which all begin, which has this probability, by what follows it in each. The session is
/// where it was afterwards.
fn parted<B: Backend>(
    session: &mut Session<B>,
    token: TokenId,
    p: f64,
    rests: Vec<Vec<TokenId>>,
) -> Result<Vec<f64>, Error> {
    let here = session.here()?;
    session.go(&[token])?;
    let (told, _) = likely_weights(session, &rests, 0, (LEAST_PARTED / p).ln())?;
    session.back(&here)?;
    let parts: Vec<f64> = told.into_iter().map(f64::exp).collect();
    let all: f64 = parts.iter().sum();
    Ok(parts.into_iter().map(|part| if all > 0.0 { part / all } else { 0.0 }).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use std::sync::Arc;

    use serde_json::json;
    use toolgate_chat::Message;
    use toolgate_infer::Vocabulary;
    use toolgate_infer::scripted::Scripted;

    use super::*;
    use crate::{Options, Sampling};

    #[test]
    fn names_that_begin_alike_are_told_apart() {
        let names = ["gate.open", "gate.open_all", "gate.shut", "lamp.lit"];
        let tools = names.map(|name| ToolSpec::new(name, "", json!({"type": "object"})).unwrap());
        let (sampling, asked) = (Sampling::default(), Transcript::new().with(Message::User("Go".to_owned())));
        for (at, name) in names.iter().enumerate() {
            let model = Scripted::new(Arc::new(Vocabulary::bytes_only()));
            let model = model.on("Request: Go\nNext:", format!(" {name}\n"));
            let engine = LocalEngine::scripted(model, Options::default()).unwrap();
            let request = TurnRequest::new(&asked, &tools, &sampling);
            let signals = engine.signals(&request, &[Signal::Next], &Cancel::default()).unwrap();
            let named = &signals.named;
            assert!(named[at] > -0.2, "{name}: {named:?}");
            assert!((0..names.len()).all(|other| other == at || named[other] < -2.0), "{name}: {named:?}");
        }
    }
}
