//! The steps of a turn at a server, as the driver asks for them.
//!
//! Invariant: what the model has written of a turn stands behind its prompt in every later request of the turn, until a step gives
//! it up.

use std::slice;

use toolgate_chat::{
    Demonstrations, Opened, ParsedTurn, Prompt, PromptOptions, TextPlace, ToolName, ToolSpec, Transcript,
    TurnGrammar,
};
use toolgate_engine::stages::{
    List, MOST_BLANKS, May, OpenedBy, ReasoningPlan, ScoredModel, Sides, Thought, Told, ToolSignals, Until,
    View, WatchedAnswer, best, empty, is_to_ask, is_weighed, lock, log_odds, mean, openings_of, weights,
};
use toolgate_engine::{self as engine, Cancel, Penalties, Signal, Thresholds, Turn, TurnEvent, TurnRequest};
use toolgate_grammar::{Expr, Grammar, Limits, TokenId};
use toolgate_infer::{Opening, StopReason, TurnDecision};

use super::decision::{Likeliest, Openers, decide};
use super::{Beginnings, Learned, Server, Writing};
use crate::choice::{Ahead, Tokens};
use crate::wire::{Usage, Written};
use crate::{Error, Kind};

/// What shows a piece of text, by events.
type Shows<'a> = dyn FnMut(&str, &mut dyn FnMut(TurnEvent)) + 'a;

/// The model within one turn.
pub(super) struct Making<'a> {
    pub(super) server: &'a dyn Server,
    learned: &'a Learned,
    options: &'a engine::Options,
    pub(super) request: &'a TurnRequest<'a>,
    pub(super) cancel: &'a Cancel,
    pub(super) events: &'a mut dyn FnMut(TurnEvent),
    /// How much it thinks.
    pub(super) plan: ReasoningPlan,
    /// The prompt of the turn's texts.
    prompt: Option<Prompt>,
    /// What was written behind it, mark by mark and text by text.
    pub(super) behind: Vec<String>,
    /// What the model thought.
    pub(super) thought: Option<String>,
    /// Whether a thought stands behind the prompt.
    pub(super) thought_here: bool,
    /// Whether nothing stands behind that thought yet.
    pub(super) after_thought: bool,
    /// Whether the text to come stands behind a head, where the family has heads in front of texts.
    pub(super) behind_head: bool,
    /// What it said in front of its text at hand.
    said: String,
    /// Tokens of the turn in front of its text at hand.
    pub(super) spent: usize,
    pub(super) reasoning_tokens: usize,
    /// What each request of the turn cost.
    usage: Vec<Usage>,
}

impl<'a> Making<'a> {
    pub(super) fn new(
        (server, learned): (&'a dyn Server, &'a Learned),
        options: &'a engine::Options,
        request: &'a TurnRequest<'a>,
        cancel: &'a Cancel,
        events: &'a mut dyn FnMut(TurnEvent),
    ) -> Result<Self, Error> {
        Ok(Self {
            server,
            learned,
            options,
            request,
            cancel,
            events,
            plan: server.plan(options, request)?,
            prompt: None,
            behind: Vec::new(),
            thought: None,
            thought_here: false,
            after_thought: false,
            behind_head: false,
            said: String::new(),
            spent: 0,
            reasoning_tokens: 0,
            usage: Vec::new(),
        })
    }
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
        let rest = self.server.dialogue().format().text(TextPlace::Further, &[])?;
        match rest.match_text(begun, &Limits::default())?.matched {
            true => Ok(rest),
            false => Err(Error::input("no answer goes on from the one begun: it holds what begins a call")),
        }
    }

    fn thresholds(&mut self, offered: &[ToolSpec]) -> Result<Thresholds, Error> {
        let usual = self.options.thresholds.for_request(self.request);
        let Some(decision) = self.options.decision else { return Ok(usual) };
        let transcript = self.request.transcript;
        let may_change = !decision.bars_changes(self.request) || self.wishes(true)?;
        decision.thresholds(usual, self.request, &mut |signal| match signal {
            Signal::Free => self.free(offered).map(Some),
            signal => self.odds(List::about(signal, transcript, offered, may_change)),
        })
    }

    fn wishes(&mut self, call: bool) -> Result<bool, Error> {
        let list = List::change(self.request.transcript).filter(|_| is_to_ask(self.request, call));
        let Some(list) = list else { return Ok(false) };
        Ok(self.told(&list)?.p() >= self.options.thresholds.changing)
    }

    fn begin(&mut self, offered: &[ToolSpec], decides: bool) -> Result<(), Error> {
        self.read(&self.introduced(self.request.transcript, decides), offered, Opened::Keep)?;
        self.reason()
    }

    fn has_thought(&self) -> bool {
        self.thought.is_some()
    }

    fn may_think(&self) -> bool {
        self.may_begin_thought() && self.thought_marks().is_some()
    }

    fn think(&mut self) -> Result<(), Error> {
        self.think_here(OpenedBy::Model)
    }

    fn decide(&mut self, _offered: &[ToolSpec], threshold: f64) -> Result<TurnDecision, Error> {
        self.decided(threshold)
    }

    fn begin_call(&mut self, offered: &[ToolSpec]) -> Result<(), Error> {
        let (behind, thought_here) = (std::mem::take(&mut self.behind), self.thought_here);
        self.read(&self.introduced(self.request.transcript, false), offered, Opened::Keep)?;
        (self.behind, self.thought_here) = (behind, thought_here);
        Ok(())
    }

    fn choose(&mut self, offered: &[ToolSpec], may: May) -> Result<(Option<ToolName>, May), Error> {
        let (Some(server), Ok(here)) = (self.tokens(offered), self.here()) else {
            return Ok((None, may.unweighed(self.request)));
        };
        let openings = self.openings(server, offered)?;
        let known = lock(&self.learned.biases).get(offered);
        let bias = match known {
            _ if self.options.tool_bias <= 0.0 => vec![0.0; offered.len()],
            Some(bias) => bias,
            None => {
                let bias = mean(&empty(), |transcript| {
                    let prompt = self.prompt(&self.introduced(transcript, false), offered, Opened::Close)?;
                    self.weigh(server, &prompt, &openings)
                })?;
                lock(&self.learned.biases).put(offered, bias.clone());
                bias
            }
        };
        let own = self.weigh(server, &here, &openings)?;
        let may = may.weighed(offered, &own);
        let (choice, request) = (self.options.choice, self.request);
        let told = choice.ask(request, offered, |list| self.told(list))?;
        let told = ToolSignals { own, bias, ..told };
        Ok((best(self.options, self.request, offered, &told, may), may))
    }

    fn call(&mut self, side: &Grammar, _held: bool) -> Result<(Written, ParsedTurn), Error> {
        // Calls repeat their own marks.
        let written = self.write(side, &[], Penalties::default(), &mut |_, _| {})?;
        let mut parsed = self.server.dialogue().format().parse(&written.text, self.request.tools);
        if parsed.calls.is_empty() {
            // Cut off in its first call, which is not what the model wanted to do: nothing of it is an answer.
            parsed.content = None;
        }
        Ok((written, parsed))
    }

    fn invented(&self) -> Option<f64> {
        // How sure the model was of a call is not asked of a server: its calls stay.
        None
    }

    fn leave_call(&mut self, thought: Thought) {
        if thought == Thought::Goes {
            (self.thought, self.thought_here, self.spent) = (None, false, 0);
            self.behind.clear();
        }
    }

    fn begin_answer(&mut self, view: View) -> Result<(), Error> {
        if self.thought_here && (view == View::Whole || !self.plan.silent) {
            return Ok(());
        }
        let view_of = |end| self.server.dialogue().answer_view(self.request.transcript, end);
        match view {
            View::Whole => {
                let transcript = self.introduced(self.request.transcript, true);
                self.read(&transcript, self.request.tools, Opened::Keep)?;
            }
            View::Bare => {
                let (given, format) = (self.request.transcript, self.server.dialogue().format().as_ref());
                let transcript = self.options.introduced(given, &[], format, Demonstrations::None);
                self.read(&transcript, &[], Opened::Keep)?;
            }
            View::Results(end) => self.read(&view_of(end), &[], Opened::Keep)?,
            View::Again(end) => return self.read(&view_of(end), &[], Opened::Close),
        }
        self.reason()?;
        self.think_by_itself()
    }

    fn answer(&mut self, side: &Grammar, question: &str, until: Until) -> Result<Written, Error> {
        let watch = self.request.repetitions.filter(|_| !question.is_empty());
        self.text(side, until, WatchedAnswer::new(watch, question))
    }

    fn rest(&mut self) -> Result<Grammar, Error> {
        self.write_head()?;
        Ok(self.server.dialogue().format().text(TextPlace::Further, &[])?)
    }

    fn leave_text(&mut self, text: Written) -> Result<(), Error> {
        self.spent += text.usage.written_tokens;
        self.said.push_str(&text.text);
        self.behind.push(text.text);
        let end = self.server.dialogue().format().text_end();
        if !end.is_empty() {
            self.behind.push(end.to_owned());
            self.behind_head = false;
        }
        Ok(())
    }

    fn trimmed<'t>(&self, text: &'t str) -> &'t str {
        if self.request.trims_front() { text.trim() } else { text.trim_end() }
    }

    fn finish(&mut self, text: Written, mut parsed: ParsedTurn, decision: Option<TurnDecision>) -> Turn {
        let mut stats = toolgate_infer::Stats::default();
        self.usage.drain(..).for_each(|usage| stats += &toolgate_infer::Stats::from(usage));
        stats.reasoning_tokens = stats.reasoning_tokens.max(self.reasoning_tokens);
        parsed.reasoning = self.thought.take().or(parsed.reasoning);
        let stop = text.stop.unwrap_or(StopReason::End);
        let budget = self.request.sampling.max_tokens;
        let text = format!("{}{}", self.said, text.text);
        Turn::new(parsed, text, stop).budget(budget).decision(decision).stats(stats)
    }
}

impl Making<'_> {
    /// Where the turn is: its prompt, and what was written behind it.
    pub(super) fn here(&self) -> Result<Prompt, Error> {
        match &self.prompt {
            Some(prompt) if self.behind.is_empty() => Ok(prompt.clone()),
            Some(prompt) => self.server.behind(prompt, &self.behind),
            None => Err(Error::new(Kind::Engine, "nothing was read that this text could follow")),
        }
    }

    /// What the model says behind a list of requests. A word that is not among the likeliest counts for nothing.
    fn told(&mut self, list: &List) -> Result<Told, Error> {
        let known = lock(&self.learned.lists).get(list);
        if let Some(known) = known {
            return Ok(known);
        }
        let (tokens, usage) = self.server.next_tokens(&list.text(), self.cancel)?;
        self.note(usage);
        let begins = |token: &str, words: &[String]| {
            let token = token.trim();
            !token.is_empty() && words.iter().any(|word| word.trim().starts_with(token))
        };
        let mut told = Told { words: vec![0.0; list.yes.len()], ..Told::default() };
        for (token, p) in &tokens {
            if begins(token, &list.no) {
                told.no += p.exp();
            } else if begins(token, &list.yes) {
                told.yes += p.exp();
                let begun = |word: &String| begins(token, slice::from_ref(word));
                let alike = list.yes.iter().filter(|word| begun(word)).count().max(1) as f64;
                let shares = told.words.iter_mut().zip(&list.yes).filter(|(_, word)| begun(word));
                shares.for_each(|(share, _)| *share += p.exp() / alike);
            } else if begins(token, &list.barred) {
                told.no += p.exp();
            }
        }
        lock(&self.learned.lists).put(list.clone(), told.clone());
        Ok(told)
    }

    /// The logarithm of the odds of yes that a list tells; none where there is no list.
    fn odds(&mut self, list: Option<List>) -> Result<Option<f64>, Error> {
        list.map(|list| self.told(&list).map(|told| told.log_odds())).transpose()
    }

    /// How likely a call of these tools is where nothing was said, as the logarithm of its odds.
    fn free(&mut self, offered: &[ToolSpec]) -> Result<f64, Error> {
        let known = lock(&self.learned.free_calls).get(offered);
        if let Some(known) = known {
            return Ok(known);
        }
        let odds = mean(&empty(), |transcript| {
            let prompt = self.prompt(&self.introduced(transcript, true), offered, Opened::Close)?;
            let (tokens, usage) = self.server.first_tokens(&prompt, self.cancel)?;
            self.note(usage);
            let mut further = |followed: &[String]| {
                let behind = self.server.behind(&prompt, followed)?;
                Ok(self.server.first_tokens(&behind, self.cancel)?.0)
            };
            Ok(vec![log_odds(decide(&tokens, &self.openers(), 0.0, &mut further)?.p_call)])
        })?;
        let free = odds.first().copied().unwrap_or_default();
        lock(&self.learned.free_calls).put(offered, free);
        Ok(free)
    }

    /// Call, thought or answer, by the probabilities of what comes next.
    pub(super) fn decided(&mut self, threshold: f64) -> Result<TurnDecision, Error> {
        let mut tokens = self.next(&[])?;
        if std::mem::take(&mut self.after_thought) {
            for _ in 0..MOST_BLANKS {
                let likeliest = tokens.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
                let is_blank = |text: &&String| !text.is_empty() && text.trim().is_empty();
                let Some(blank) = likeliest.map(|(text, _)| text).filter(is_blank) else { break };
                self.behind.push(blank.clone());
                tokens = self.next(&[])?;
            }
        }
        let openers = self.openers();
        decide(&tokens, &openers, threshold, &mut |followed| self.next(followed))
    }

    /// The likeliest tokens behind further texts.
    fn next(&mut self, further: &[String]) -> Result<Likeliest, Error> {
        let mut here = self.here()?;
        if !further.is_empty() {
            here = self.server.behind(&here, further)?;
        }
        let (tokens, usage) = self.server.first_tokens(&here, self.cancel)?;
        self.note(usage);
        Ok(tokens)
    }

    /// What the turn may open with where it is.
    fn openers(&self) -> Openers {
        let format = self.server.dialogue().format();
        let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
        let thoughts = self.thought_marks().filter(|_| self.may_begin_thought());
        Openers {
            calls: owned(format.openings()),
            thoughts: thoughts.map(|(open, _)| open).into_iter().collect(),
            heads: owned(format.text_heads()),
        }
    }

    /// Reads a prompt: nothing of the turn stands behind it yet.
    fn read(&mut self, transcript: &Transcript, tools: &[ToolSpec], opened: Opened) -> Result<(), Error> {
        self.prompt = Some(self.prompt(transcript, tools, opened)?);
        self.behind.clear();
        (self.thought_here, self.after_thought, self.behind_head) = (false, false, false);
        Ok(())
    }

    fn prompt(&self, transcript: &Transcript, tools: &[ToolSpec], opened: Opened) -> Result<Prompt, Error> {
        let reasoning = if self.plan.opened.is_some() { opened } else { Opened::Close };
        let begun = self.request.goes_on_from().map(str::to_owned);
        let options =
            PromptOptions { begun, reasoning, extra: self.plan.values.clone(), ..PromptOptions::default() };
        self.server.prompt(transcript, tools, &options, self.request.sampling)
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

    /// A text that is shown as far as it may be, up to its end or to what the model would rather begin.
    fn text(&mut self, side: &Grammar, until: Until, mut shown: WatchedAnswer<'_>) -> Result<Written, Error> {
        let ends = match until {
            Until::End => Vec::new(),
            Until::Opening(_) => self.ends_of_text(),
        };
        let stops: Vec<String> = ends.iter().map(|(stop, _)| stop.clone()).collect();
        let own = (!stops.is_empty()).then(|| self.text_to(&stops)).transpose()?;
        self.behind_head = true;
        let penalties = self.request.sampling.penalties;
        let mut written =
            self.write(own.as_ref().unwrap_or(side), &stops, penalties, &mut |piece, events| {
                shown.push(piece, events);
            })?;
        let ended = ends.iter().find(|(stop, _)| written.ended_by.as_ref() == Some(stop));
        written.left = ended.map(|(_, opening)| *opening);
        shown.finish(self.events);
        Ok(written)
    }

    /// The grammar of a text that one of these may end.
    fn text_to(&mut self, stops: &[String]) -> Result<Grammar, Error> {
        let format = self.server.dialogue().format().clone();
        // Where the family has one head for answers and one for text before calls, the model chooses.
        let is_first = self.said.is_empty() && !self.behind_head && format.text_heads().len() < 2;
        if !is_first {
            self.write_head()?;
        }
        let place = if is_first { TextPlace::First } else { TextPlace::Further };
        Ok(format.text(place, stops)?)
    }

    /// What may end a text in front of its end: a call, a thought, or another text with a head.
    fn ends_of_text(&self) -> Vec<(String, Opening)> {
        let format = self.server.dialogue().format();
        let end = format.text_end();
        let kind = |texts: Vec<String>, opening| {
            texts.into_iter().map(move |text| (format!("{end}{text}"), opening))
        };
        let thoughts = self.thought_marks().filter(|_| self.may_begin_thought());
        let heads = format.text_heads().into_iter().filter(|_| !end.is_empty()).map(str::to_owned);
        kind(format.openings_in_text(), Opening::Call)
            .chain(kind(thoughts.map(|(open, _)| open).into_iter().collect(), Opening::Thought))
            .chain(kind(heads.collect(), Opening::Text))
            .filter(|(text, _)| !text.trim().is_empty())
            .collect()
    }

    /// The head of the next text, as the model chooses among those of its family; nothing where that has none.
    fn write_head(&mut self) -> Result<(), Error> {
        let heads = self.server.dialogue().format().text_heads();
        if std::mem::replace(&mut self.behind_head, true) || heads.is_empty() {
            return Ok(());
        }
        let mut builder = Grammar::builder();
        let root = builder.rule("root", Expr::choice(heads.into_iter().map(Expr::literal)));
        let heads = builder.build(root)?;
        let written = self.write(&heads, &[], Penalties::default(), &mut |_, _| {})?;
        self.behind.push(written.text);
        Ok(())
    }

    /// What the model writes under a grammar, up to one of the stops; `piece` is told the text as it comes.
    fn write(
        &mut self,
        grammar: &Grammar,
        stops: &[String],
        penalties: Penalties,
        piece: &mut Shows<'_>,
    ) -> Result<Written, Error> {
        let here = self.here()?;
        let mut sampling = self.request.sampling.clone().penalties(penalties);
        sampling.max_tokens = sampling.max_tokens.saturating_sub(self.spent).max(1);
        let events = &mut *self.events;
        let writing = Writing { grammar, stops, sampling: &sampling };
        let written =
            self.server.write(&here, &writing, self.cancel, &mut |text| piece(text, &mut *events))?;
        let mut written = self.whole(written)?;
        // A server may let its model think in front of what it is held to.
        let thought = std::mem::take(&mut written.reasoning);
        self.add_thought(thought.trim());
        Ok(written)
    }

    /// A text that did not break off, and what it cost.
    pub(super) fn whole(&mut self, written: Written) -> Result<Written, Error> {
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
