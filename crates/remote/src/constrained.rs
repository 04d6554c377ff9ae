//! A turn under our grammar on a server that enforces it. It is made like a local one: the prompt has the model's own form, the
//! probabilities of the turn's first token decide between call and answer, and the model writes one of them.
//!
//! Invariant: there is no unconstrained fallback. If the server refuses the grammar, the turn ends with its error.

use std::sync::Mutex;

use toolgate_chat::{
    Dialogue, ParsedTurn, Prompt, PromptOptions, ToolFormat, ToolName, ToolSpec, Transcript, TurnGrammar,
};
use toolgate_engine::stages::{
    Biases, KINDS, May, ScoredModel, Sides, Thought, Until, View, WatchedAnswer, Wishes, WrittenText, best,
    drive, empty, is_to_ask, is_weighed, listed, lock, mean, openings_of, p_change, weights,
};
use toolgate_engine::{self as engine, Cancel, Penalties, Sampling, Turn, TurnEvent, TurnRequest};
use toolgate_grammar::{Grammar, Limits, TokenId, TokenKind};
use toolgate_infer::{Opening, OpeningTexts, Openings, StopReason, TurnDecision, Vocabulary};

use super::choice::{Ahead, Tokens};
use super::wire::{Usage, Written};
use crate::{Error, Kind};

/// A server that enforces a grammar.
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
pub(super) struct Constrained {
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

impl Constrained {
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
        let (prompt, usage) = (None, Vec::new());
        drive(&mut Making { server, learned, options, request, cancel, events, prompt, usage }, request)
    }
}

/// The model within one turn.
struct Making<'a> {
    server: &'a dyn Server,
    learned: &'a Learned,
    options: &'a engine::Options,
    request: &'a TurnRequest<'a>,
    cancel: &'a Cancel,
    events: &'a mut dyn FnMut(TurnEvent),
    /// What the text to come is written after.
    prompt: Option<Prompt>,
    /// What each request of the turn cost.
    usage: Vec<Usage>,
}

impl ScoredModel for Making<'_> {
    type Side = Grammar;
    type Text = Written;

    fn options(&self) -> &engine::Options {
        self.options
    }

    fn tell(&mut self, event: TurnEvent) {
        (self.events)(event);
    }

    fn sides(
        &mut self,
        offered: &[ToolSpec],
        turn: &toolgate_chat::TurnRequest,
    ) -> Result<Sides<Grammar>, Error> {
        let TurnGrammar { call, answer, .. } = self.server.dialogue().format().turn(offered, turn)?;
        Ok(Sides { call, answer })
    }

    fn rest_of(&mut self, begun: &str) -> Result<Grammar, Error> {
        rest_of(self.server.dialogue().format().as_ref(), begun)
    }

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

    /// The server reads a prompt when it is asked about it.
    fn begin(&mut self, _offered: &[ToolSpec], _decides: bool) -> Result<(), Error> {
        Ok(())
    }

    fn has_thought(&self) -> bool {
        false
    }

    fn may_think(&self) -> bool {
        false
    }

    fn think(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Call or answer, by the probability of every call opening among the likeliest first tokens.
    fn decide(&mut self, offered: &[ToolSpec], threshold: f64) -> Result<TurnDecision, Error> {
        let prompt = self.prompt(&self.introduced(self.request.transcript, true), offered)?;
        let (tokens, usage) = self.server.first_tokens(&prompt, self.cancel)?;
        self.note(usage);
        let dialogue = self.server.dialogue();
        let format = dialogue.format();
        let thought = dialogue.thought_opening();
        let thoughts: Vec<&str> = thought.iter().map(String::as_str).collect();
        let (calls, heads) = (format.openings(), format.text_heads());
        let texts =
            OpeningTexts { calls: &calls, thoughts: &thoughts, heads: &heads, ..OpeningTexts::default() };
        decision(&tokens, &texts, threshold)
    }

    fn begin_call(&mut self, offered: &[ToolSpec]) -> Result<(), Error> {
        self.prompt = Some(self.prompt(&self.introduced(self.request.transcript, false), offered)?);
        Ok(())
    }

    fn choose(&mut self, offered: &[ToolSpec], may: May) -> Result<(Option<ToolName>, May), Error> {
        let (Some(server), Some(prompt)) = (self.tokens(offered), &self.prompt) else {
            return Ok((None, may.unweighed(self.request)));
        };
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

    fn call(&mut self, side: &Grammar) -> Result<(Written, ParsedTurn), Error> {
        let written = self.write(side, None)?;
        let mut parsed = self.server.dialogue().format().parse(&written.text, self.request.tools);
        if parsed.calls.is_empty() {
            // Cut off in its first call, which is not what the model wanted to do: nothing of it is an answer.
            parsed.content = None;
        }
        Ok((written, parsed))
    }

    fn leave_call(&mut self, _thought: Thought) {
        self.prompt = None;
    }

    fn answer_unless_refusal(&mut self, side: &Grammar, _until: Until) -> Result<Option<Written>, Error> {
        self.begin_answer(View::Whole)?;
        let request = self.request;
        let mut watched =
            WatchedAnswer::new(request.refusals, request.transcript.question().unwrap_or_default());
        let written = self.write(side, Some(&mut watched))?;
        watched.finish(self.events);
        Ok(Some(written).filter(|_| !watched.is_found()))
    }

    fn begin_answer(&mut self, view: View) -> Result<(), Error> {
        self.prompt = Some(match view {
            View::Whole => {
                self.prompt(&self.introduced(self.request.transcript, true), self.request.tools)?
            }
            View::Results(end) | View::Again(end) => {
                self.prompt(&self.server.dialogue().answer_view(self.request.transcript, end), &[])?
            }
        });
        Ok(())
    }

    fn answer(&mut self, side: &Grammar, question: &str, _until: Until) -> Result<Written, Error> {
        let watch = self.request.repetitions.filter(|_| !question.is_empty());
        let mut shown = WatchedAnswer::new(watch, question);
        let written = self.write(side, Some(&mut shown))?;
        shown.finish(self.events);
        Ok(written)
    }

    fn rest(&mut self) -> Result<Grammar, Error> {
        Ok(self.server.dialogue().format().answer_rest()?)
    }

    fn leave_text(&mut self, _text: Written, _opening: Opening) -> Result<(), Error> {
        Ok(())
    }

    fn trimmed<'t>(&self, text: &'t str) -> &'t str {
        if self.request.trims_front() { text.trim() } else { text.trim_end() }
    }

    fn finish(&mut self, text: Written, parsed: ParsedTurn, decision: Option<TurnDecision>) -> Turn {
        let mut stats = toolgate_infer::Stats::default();
        self.usage.drain(..).for_each(|usage| stats += &toolgate_infer::Stats::from(usage));
        let stop = text.stop.unwrap_or(StopReason::End);
        let budget = self.request.sampling.max_tokens;
        Turn::new(parsed, text.text, stop).budget(budget).decision(decision).stats(stats)
    }
}

impl Making<'_> {
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

    /// A transcript after what stands in front of it, while it is decided or, else, while a call is written.
    fn introduced(&self, transcript: &Transcript, decides: bool) -> Transcript {
        let demonstrations = self.options.demonstrations_for(self.request.transcript, decides);
        let format = self.server.dialogue().format().as_ref();
        self.options.introduced(transcript, self.request.tools, format, demonstrations)
    }

    fn prompt(&self, transcript: &Transcript, tools: &[ToolSpec]) -> Result<Prompt, Error> {
        self.server.prompt(transcript, tools, self.request.goes_on_from())
    }

    /// What the model writes under a grammar; `shown` shows it as far as it may be.
    fn write(
        &mut self,
        grammar: &Grammar,
        mut shown: Option<&mut WatchedAnswer<'_>>,
    ) -> Result<Written, Error> {
        let Some(prompt) = &self.prompt else {
            return Err(Error::new(Kind::Engine, "nothing was read that this text could follow"));
        };
        let is_answer = shown.is_some();
        let events = &mut *self.events;
        let mut piece = |text: &str| {
            if let Some(shown) = &mut shown {
                shown.push(text, events);
            }
        };
        // Calls repeat their own marks.
        let unpenalized = self.request.sampling.clone().penalties(Penalties::default());
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
}

impl WrittenText for Written {
    fn given(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn left_for(&self) -> Option<Opening> {
        None
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
fn decision(
    tokens: &[(String, f64)],
    texts: &OpeningTexts<'_>,
    threshold: f64,
) -> Result<TurnDecision, Error> {
    let told: f64 = tokens.iter().map(|(_, logarithm)| logarithm.exp()).sum();
    let rest = (1.0 - told).max(f64::MIN_POSITIVE).ln();
    let kind = |text: &str| if text.is_empty() { TokenKind::Unused } else { TokenKind::Text };
    let entries = tokens.iter().map(|(text, _)| (text.clone().into_bytes(), kind(text)));
    let vocabulary = Vocabulary::new(entries.chain([(Vec::new(), TokenKind::Unused)]))?;
    let logits: Vec<f32> =
        tokens.iter().map(|&(_, logarithm)| logarithm as f32).chain([rest as f32]).collect();
    Ok(Openings::of(&vocabulary, texts).decide(&logits, &vocabulary, threshold))
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
        let of = |calls: &[&str], thoughts: &[&str], tokens: &[(String, f64)]| {
            let texts = OpeningTexts { calls, thoughts, ..OpeningTexts::default() };
            decision(tokens, &texts, 0.35).unwrap()
        };
        let decided = of(&["<tool_call>", "{\"name\""], &[], &tokens);
        assert!((decided.p_call - 0.4).abs() < 1e-6 && decided.call, "{decided:?}");
        assert!(!of(&["<tool_call>"], &[], &tokens).call);
        assert_eq!(of(&["<tool_call>"], &[], &[]).p_call, 0.0);
        // What a thought begins with as well says nothing yet.
        let shared = [("<".to_owned(), 0.9_f64.ln())];
        let decided = of(&["<tool_call>"], &["<think>"], &shared);
        assert!(!decided.call && decided.undecided > 0.8, "{decided:?}");
    }
}
