//! A turn under our grammar on a server that holds text to it, made as a local one is: a prompt in the model's own form,
//! call or answer decided by the probabilities of the turn's first token, then one of them written.
//!
//! Invariant: there is no unconstrained fallback. A grammar that the server does not take ends the turn with its error.

use std::num::NonZeroUsize;
use std::sync::Mutex;

use toolgate_chat::{
    Dialogue, Message, ParsedTurn, Primer, Prompt, PromptOptions, RunEnd, ToolChoice, ToolFormat, ToolName,
    ToolSpec, Transcript, TurnGrammar,
};
use toolgate_grammar::{Grammar, Limits, TokenId, TokenKind};
use toolgate_infer::{Openings, StopReason, TurnDecision, Vocabulary};

use super::choice::{Ahead, Tokens};
use super::wire::{Usage, Written};
use crate::{Error, Kind};
use toolgate_engine::stages::{
    Biases, Doubted, ECHOED, EXCUSED, KINDS, Known, May, REPEATED, REQUIRED, Wishes, addition, best, empty,
    held_to, in_place_of, instead, is_doubted, is_echo, is_to_ask, is_weighed, listed, lock, mean,
    openings_of, p_change, unled, weights, without_repeats,
};
use toolgate_engine::{
    self as engine, AnswerView, Cancel, Penalties, Sampling, Turn, TurnEvent, TurnRequest,
};

/// A server that holds text to a grammar.
pub(super) trait Server: Send + Sync {
    /// Its kind, for people.
    fn kind(&self) -> &'static str;

    /// How its model is talked to.
    fn dialogue(&self) -> &Dialogue;

    /// The likeliest first tokens after a prompt, as texts with the logarithm of their probability.
    fn first_tokens(&self, prompt: &Prompt, cancel: &Cancel) -> Result<(Vec<(String, f64)>, Usage), Error>;

    /// The likeliest tokens behind a text that is no conversation, in the same form.
    fn next_tokens(&self, text: &str, cancel: &Cancel) -> Result<(Vec<(String, f64)>, Usage), Error>;

    /// The prompt for the next turn; that of an answer which was begun ends with what there is of it.
    fn prompt(
        &self,
        transcript: &Transcript,
        tools: &[ToolSpec],
        begun: Option<&str>,
    ) -> Result<Prompt, Error> {
        let options = PromptOptions { begun: begun.map(str::to_owned), ..PromptOptions::default() };
        Ok(self.dialogue().prompt(transcript, tools, &options)?)
    }

    /// How it is looked at token by token, where it can be.
    fn tokens(&self) -> Option<&dyn Tokens> {
        None
    }

    /// What the model writes after a prompt under a grammar; `piece` is told the text as it comes.
    fn write(
        &self,
        prompt: &Prompt,
        grammar: &Grammar,
        sampling: &Sampling,
        cancel: &Cancel,
        piece: &mut dyn FnMut(&str),
    ) -> Result<Written, Error>;
}

/// The model of such a server.
pub(super) struct Held {
    server: Box<dyn Server>,
    learned: Learned,
}

/// What turns learn and later ones need not ask for again.
#[derive(Default)]
struct Learned {
    /// What the model prefers among tools whatever it is asked.
    biases: Mutex<Biases>,
    /// How calls of the tools offered last begin.
    beginnings: Mutex<Beginnings>,
    /// How likely requests are to ask for a change.
    wishes: Mutex<Wishes>,
}

#[derive(Default)]
struct Beginnings {
    texts: Vec<String>,
    tokens: Vec<Vec<TokenId>>,
}

impl Held {
    pub(super) fn new(server: Box<dyn Server>) -> Self {
        Self { server, learned: Learned::default() }
    }

    pub(super) fn server(&self) -> &'static str {
        self.server.kind()
    }

    pub(super) fn template(&self) -> &str {
        self.server.dialogue().template().source()
    }

    pub(super) fn turn(
        &self,
        options: &engine::Options,
        request: &TurnRequest<'_>,
        cancel: &Cancel,
        events: &mut dyn FnMut(TurnEvent),
    ) -> Result<Turn, Error> {
        let (server, learned) = (&*self.server, &self.learned);
        Making { server, learned, options, request, cancel, events, usage: Vec::new() }.turn()
    }
}

/// One turn being made.
struct Making<'a> {
    server: &'a dyn Server,
    learned: &'a Learned,
    options: &'a engine::Options,
    request: &'a TurnRequest<'a>,
    cancel: &'a Cancel,
    events: &'a mut dyn FnMut(TurnEvent),
    /// What each request of the turn cost.
    usage: Vec<Usage>,
}

impl Making<'_> {
    fn turn(mut self) -> Result<Turn, Error> {
        let request = self.request;
        if let Some(begun) = request.begun {
            let rest = rest_of(self.server.dialogue().format().as_ref(), begun)?;
            return self.answer(Some(&rest), None);
        }
        let offered = if request.choice == ToolChoice::None { &[] } else { request.tools };
        let grammars = self.grammars(offered, &request.choice, None)?;
        let Some(call) = &grammars.call else { return self.answer(grammars.answer.as_ref(), None) };
        let thresholds = self.options.thresholds.for_request(request);
        let threshold = thresholds.of(request);
        let (mut decision, mut may) = (None, May::ALL);
        if let Some(answer) = &grammars.answer {
            // No probability reaches a threshold above 1: it need not be asked for then.
            if threshold > 1.0 && !self.wishes(false)? {
                return self.answer(Some(answer), None);
            }
            let mut decided = self.decide(offered, threshold)?;
            (self.events)(TurnEvent::Decided(decided.clone()));
            let own = decided.p_call >= unled(&thresholds, request);
            let wished = self.wishes(decided.call)?;
            may = May::of(request, decided.call, own, decided.p_call, wished);
            if may.is_nothing() {
                if !is_doubted(request, &thresholds, &decided) {
                    return self.answer(Some(answer), Some(decided));
                }
                if let Some(written) = self.doubted(answer)? {
                    let text = written.text.clone();
                    return Ok(self.answered(written, &text, Some(decided)));
                }
                // An excuse was written in place of a call, which may be one that was asked for.
                may = May { look: true, change: self.wishes(true)?, ..May::NOTHING };
            }
            if !decided.call {
                decided.call = true;
                (self.events)(TurnEvent::Decided(decided.clone()));
            }
            decision = Some(decided);
        }
        let prompt = self.prompt(&self.introduced(request.transcript, false), offered)?;
        let (chosen, may) = self.choose(&prompt, offered, may)?;
        let Some(choice) = may.among(&request.choice, offered) else {
            if let Some(decided) = &mut decision {
                decided.call = false;
                (self.events)(TurnEvent::Decided(decided.clone()));
            }
            return self.answer(grammars.answer.as_ref(), decision);
        };
        let held = match chosen {
            Some(tool) => {
                let (choice, first) = held_to(tool, self.parallel(), &choice);
                self.grammars(offered, &choice, first)?.call
            }
            None if choice != request.choice => self.grammars(offered, &choice, None)?.call,
            None => None,
        };
        let mut written = self.write(&prompt, held.as_ref().unwrap_or(call), None)?;
        let mut parsed = self.read(&written);
        if let Some(others) = in_place_of(&parsed.calls, request, offered) {
            (self.events)(TurnEvent::Retry(REQUIRED.to_owned()));
            if let Some(grammar) = self.grammars(offered, &others, None)?.call {
                written = self.write(&prompt, &grammar, None)?;
                parsed = self.read(&written);
            }
        }
        if parsed.calls.is_empty() {
            // Cut off in its first call, which is not what the model wanted to do: nothing of it is an answer.
            parsed.content = None;
        }
        if parsed.calls.len() > 1 {
            Known::of(request.transcript, offered).leave(&mut parsed.calls);
        }
        match without_repeats(std::mem::take(&mut parsed.calls), request) {
            Some(calls) => parsed.calls = calls,
            None => {
                (self.events)(TurnEvent::Retry(REPEATED.to_owned()));
                let answer = self.grammars(&[], &ToolChoice::None, None)?.answer;
                return self.answer(answer.as_ref(), decision);
            }
        }
        Ok(self.finish(written, parsed, decision))
    }

    fn read(&self, written: &Written) -> ParsedTurn {
        self.server.dialogue().format().parse(&written.text, self.request.tools)
    }

    /// The answer, after calls from a view that holds the question and the results alone.
    fn answer(mut self, grammar: Option<&Grammar>, decision: Option<TurnDecision>) -> Result<Turn, Error> {
        let Some(grammar) = grammar else {
            return Err(Error::input("a call is required here, so there is no answer to give"));
        };
        let view = self.options.answer_view;
        if let Some(results) = instead(view, self.request) {
            (self.events)(TurnEvent::Text(results.clone()));
            let written = Written { text: results.clone(), ..Written::default() };
            return Ok(self.finish(
                written,
                ParsedTurn { content: Some(results), ..ParsedTurn::default() },
                decision,
            ));
        }
        let after_calls = matches!(self.request.transcript.last(), Some(Message::Tool(_)));
        let prompt = if after_calls && view != AnswerView::Full {
            let shown = self.server.dialogue().answer_view(self.request.transcript, self.request.end());
            self.prompt(&shown, &[])?
        } else {
            self.prompt(&self.introduced(self.request.transcript, true), self.request.tools)?
        };
        let question = match after_calls {
            true => self.request.transcript.question().unwrap_or_default(),
            false => "",
        };
        let mut written = self.unless_echo(&prompt, grammar, question)?;
        if is_echo(question, &written.text) {
            (self.events)(TurnEvent::Retry(ECHOED.to_owned()));
            // Not told the request once more, it says what came of it.
            let end = RunEnd { changed: true, ..self.request.end() };
            let shown = self.server.dialogue().answer_view(self.request.transcript, end);
            let prompt = self.prompt(&shown, &[])?;
            written = self.unless_echo(&prompt, grammar, question)?;
        }
        let mut text = if is_echo(question, &written.text) { String::new() } else { written.text.clone() };
        if written.stop == Some(StopReason::End)
            && let Some(results) = addition(view, self.request, &text)
        {
            text.push_str(&results);
            (self.events)(TurnEvent::Text(results));
        }
        Ok(self.answered(written, &text, decision))
    }

    /// An answer, shown unless it repeats the question.
    fn unless_echo(&mut self, prompt: &Prompt, grammar: &Grammar, question: &str) -> Result<Written, Error> {
        let mut shown = Doubted::echo_of(question);
        let written = self.write(prompt, grammar, Some(&mut shown))?;
        shown.finish(self.events);
        Ok(written)
    }

    /// The answer of a first turn, unless it is an excuse.
    fn doubted(&mut self, grammar: &Grammar) -> Result<Option<Written>, Error> {
        let prompt = self.prompt(&self.introduced(self.request.transcript, true), self.request.tools)?;
        let mut doubted = Doubted::default();
        let written = self.write(&prompt, grammar, Some(&mut doubted))?;
        doubted.finish(self.events);
        if doubted.is_excuse() {
            (self.events)(TurnEvent::Retry(EXCUSED.to_owned()));
            return Ok(None);
        }
        Ok(Some(written))
    }

    /// A turn that is an answer.
    fn answered(self, written: Written, text: &str, decision: Option<TurnDecision>) -> Turn {
        let text = if self.request.trims_front() { text.trim() } else { text.trim_end() };
        let content = Some(text.to_owned()).filter(|text| !text.is_empty());
        self.finish(written, ParsedTurn { content, ..ParsedTurn::default() }, decision)
    }

    /// Call or answer, by the probability of every call opening among the likeliest first tokens.
    fn decide(&mut self, offered: &[ToolSpec], threshold: f64) -> Result<TurnDecision, Error> {
        let prompt = self.prompt(&self.introduced(self.request.transcript, true), offered)?;
        let (tokens, usage) = self.server.first_tokens(&prompt, self.cancel)?;
        self.note(usage);
        decision(&tokens, &self.server.dialogue().format().openings(), threshold)
    }

    /// Whether the request asks for a change ([`Thresholds::changing`](toolgate_engine::Thresholds)), where that counts.
    fn wishes(&mut self, call: bool) -> Result<bool, Error> {
        let least = self.options.thresholds.changing;
        let Some(list) = listed(self.request.transcript).filter(|_| is_to_ask(self.request, call)) else {
            return Ok(false);
        };
        let known = lock(&self.learned.wishes).find(&list);
        if let Some(known) = known {
            return Ok(known >= least);
        }
        let (tokens, usage) = self.server.next_tokens(&list, self.cancel)?;
        self.note(usage);
        let told = |kind: &str| {
            let begins = |token: &str| !token.trim().is_empty() && kind.trim().starts_with(token.trim());
            tokens
                .iter()
                .filter(|(token, _)| begins(token))
                .map(|(_, p)| *p)
                .fold(f64::NEG_INFINITY, f64::max)
        };
        // One that is not among the likeliest counts for nothing.
        let p = p_change(KINDS.map(told));
        lock(&self.learned.wishes).put(list, p);
        Ok(p >= least)
    }

    /// How the server is looked at token by token, where tools are weighed.
    fn tokens(&self, offered: &[ToolSpec]) -> Option<&dyn Tokens> {
        self.server.tokens().filter(|_| is_weighed(self.options, offered))
    }

    fn weigh(
        &self,
        server: &dyn Tokens,
        prompt: &Prompt,
        openings: &[Vec<TokenId>],
    ) -> Result<Vec<f64>, Error> {
        let shown = server.of_prompt(prompt, self.cancel)?;
        Ok(weights(&mut Ahead { server, cancel: self.cancel, shown }, openings, 0)?.0)
    }

    /// The tool to call after a prompt, of those that may be, none where that is left to the model; and what may be called, as the
    /// tools weigh.
    fn choose(
        &self,
        prompt: &Prompt,
        offered: &[ToolSpec],
        may: May,
    ) -> Result<(Option<ToolName>, May), Error> {
        let Some(server) = self.tokens(offered) else { return Ok((None, may.unweighed(self.request))) };
        let openings = self.openings(server, offered)?;
        let known = lock(&self.learned.biases).get(offered);
        let bias = match known {
            _ if self.options.tool_bias <= 0.0 => vec![0.0; offered.len()],
            Some(bias) => bias,
            None => {
                let bias = mean(&empty(), |transcript| {
                    self.weigh(server, &self.prompt(&self.introduced(transcript, false), offered)?, &openings)
                })?;
                lock(&self.learned.biases).put(offered, bias.clone());
                bias
            }
        };
        let weights = self.weigh(server, prompt, &openings)?;
        let may = may.weighed(offered, &weights);
        Ok((best(self.options, self.request, offered, &weights, &bias, may), may))
    }

    /// The tokens that a call of each tool begins with: asked for once as long as the tools stay the same.
    fn openings(&self, server: &dyn Tokens, offered: &[ToolSpec]) -> Result<Vec<Vec<TokenId>>, Error> {
        let texts = openings_of(self.server.dialogue().format().as_ref(), offered);
        let known = lock(&self.learned.beginnings);
        if known.texts == texts {
            return Ok(known.tokens.clone());
        }
        drop(known);
        let tokens: Result<Vec<_>, Error> =
            texts.iter().map(|text| server.of_call(text, self.cancel)).collect();
        let tokens = tokens?;
        *lock(&self.learned.beginnings) = Beginnings { texts, tokens: tokens.clone() };
        Ok(tokens)
    }

    /// The calls of the turn at most.
    fn parallel(&self) -> NonZeroUsize {
        self.request.parallel.unwrap_or(self.options.parallel)
    }

    fn grammars(
        &self,
        offered: &[ToolSpec],
        choice: &ToolChoice,
        first: Option<ToolName>,
    ) -> Result<TurnGrammar, Error> {
        let request =
            toolgate_chat::TurnRequest { choice: choice.clone(), parallel: Some(self.parallel()), first };
        Ok(self.server.dialogue().format().turn(offered, &request)?)
    }

    /// A transcript after what stands in front of it, while it is decided or, else, while a call is written.
    fn introduced(&self, transcript: &Transcript, decides: bool) -> Transcript {
        self.behind(transcript, self.options.primer_of(self.request.transcript, decides))
    }

    /// A transcript after the system prompt and this primer.
    fn behind(&self, transcript: &Transcript, primer: Primer) -> Transcript {
        let format = self.server.dialogue().format().as_ref();
        self.options.introduced(transcript, self.request.tools, format, primer)
    }

    fn prompt(&self, transcript: &Transcript, tools: &[ToolSpec]) -> Result<Prompt, Error> {
        self.server.prompt(transcript, tools, self.request.goes_on_from())
    }

    /// What the model writes under a grammar; `shown` shows it as far as it may be.
    fn write(
        &mut self,
        prompt: &Prompt,
        grammar: &Grammar,
        mut shown: Option<&mut Doubted>,
    ) -> Result<Written, Error> {
        let is_answer = shown.is_some();
        let events = &mut *self.events;
        let mut piece = |text: &str| {
            if let Some(shown) = &mut shown {
                shown.push(text, events);
            }
        };
        // Calls repeat their own marks.
        let unpenalized = Sampling { penalties: Penalties::default(), ..self.request.sampling.clone() };
        let sampling = if is_answer { self.request.sampling } else { &unpenalized };
        let written = self.server.write(prompt, grammar, sampling, self.cancel, &mut piece)?;
        if written.stop.is_none() {
            let message = format!(
                "the server's answer broke off after {} bytes; nothing of this turn was taken, ask again",
                written.text.len()
            );
            return Err(Error::new(Kind::Engine, message));
        }
        self.note(written.usage);
        Ok(written)
    }

    fn note(&mut self, usage: Usage) {
        let (tokens, cached) = (usage.prompt_tokens, usage.cached_tokens);
        (self.events)(TurnEvent::Prefill { done: tokens, tokens, cached });
        self.usage.push(usage);
    }

    fn finish(self, written: Written, parsed: ParsedTurn, decision: Option<TurnDecision>) -> Turn {
        let mut stats = toolgate_infer::Stats::default();
        self.usage.into_iter().for_each(|usage| stats += &toolgate_infer::Stats::from(usage));
        let stop = written.stop.unwrap_or(StopReason::End);
        let budget = self.request.sampling.max_tokens;
        Turn { parsed, text: written.text, stop, budget, decision, looped: false, stats }
    }
}

/// The grammar of what may follow an answer that was begun so.
fn rest_of(format: &dyn ToolFormat, begun: &str) -> Result<Grammar, Error> {
    let rest = format.answer_rest()?;
    match rest.match_text(begun, &Limits::default())?.matched {
        true => Ok(rest),
        false => Err(Error::input("no answer goes on from the one begun: it holds what begins a call")),
    }
}

/// Decides on the likeliest tokens alone: what is left of the probability counts as no call.
fn decision(tokens: &[(String, f64)], openings: &[&str], threshold: f64) -> Result<TurnDecision, Error> {
    let told: f64 = tokens.iter().map(|(_, logarithm)| logarithm.exp()).sum();
    let rest = (1.0 - told).max(f64::MIN_POSITIVE).ln();
    let kind = |text: &str| if text.is_empty() { TokenKind::Unused } else { TokenKind::Text };
    let entries = tokens.iter().map(|(text, _)| (text.clone().into_bytes(), kind(text)));
    let vocabulary = Vocabulary::new(entries.chain([(Vec::new(), TokenKind::Unused)]))?;
    let logits: Vec<f32> =
        tokens.iter().map(|&(_, logarithm)| logarithm as f32).chain([rest as f32]).collect();
    Ok(Openings::new(&vocabulary, openings).decide(&logits, &vocabulary, threshold))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_probability_of_a_call_is_summed_over_what_the_server_tells() {
        let tokens = [
            ("<tool".to_owned(), 0.3_f64.ln()),
            ("To".to_owned(), 0.4_f64.ln()),
            (" {".to_owned(), 0.1_f64.ln()),
        ];
        let decided = decision(&tokens, &["<tool_call>", "{\"name\""], 0.35).unwrap();
        assert!((decided.p_call - 0.4).abs() < 1e-6 && decided.call, "{decided:?}");
        assert!(!decision(&tokens, &["<tool_call>"], 0.35).unwrap().call);
        assert_eq!(decision(&[], &["<tool_call>"], 0.2).unwrap().p_call, 0.0);
    }
}
