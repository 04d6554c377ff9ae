//! What a turn on this machine is made of: prompts evaluated in a session, texts decoded from it, and what both cost.
//!
//! `driver` says in which order; `steps` asks for them.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use toolgate_chat::fallback::Stream;
use toolgate_chat::format::Start;
use toolgate_chat::{Demonstrations, ParsedTurn, ToolChoice, ToolSpec, Transcript};
use toolgate_grammar::TokenId;
use toolgate_infer::{
    Backend, Budget, DecodeOptions, Decoded, Further, Piece, Sampler, SamplerOptions, Stats, StopReason,
    TurnDecision, Watch, decode,
};

use crate::constraint::automata::{FormKey, Side, Sides};
use crate::profile::choice::ToolSignals;
use crate::turn::driver::drive;
use crate::turn::invented::Known;
use crate::turn::local::{LocalEngine, State};
use crate::turn::reasoning_plan::ReasoningPlan;
use crate::turn::recover::recover;
use crate::turn::repeats::{drop_repeats, without_repeats};
use crate::turn::shown::{Shown, ShownCalls, show};
use crate::turn::steps::Local;
use crate::turn::watch::WatchedAnswer;
use crate::{AnswerForm, Cancel, Constraint, Error, Kind, Penalties, Turn, TurnEvent, TurnRequest};

/// One turn being made.
pub(crate) struct Making<'a, B> {
    pub(crate) engine: &'a LocalEngine<B>,
    pub(crate) request: &'a TurnRequest<'a>,
    pub(crate) cancel: &'a Cancel,
    pub(crate) events: &'a mut dyn FnMut(TurnEvent),
    pub(crate) stats: Stats,
    /// Tokens the text being written can have.
    budget: usize,
    /// How much it thinks.
    pub(crate) plan: ReasoningPlan,
    /// What the model thought before it spoke.
    pub(crate) thought: Option<String>,
    /// Whether a thought stands behind the prompt that was evaluated last.
    pub(crate) thought_here: bool,
    /// Whether nothing stands behind that thought yet.
    pub(crate) after_thought: bool,
    /// Tokens of the turn that were written before the text at hand: thoughts, and text in front of calls.
    pub(crate) spent: usize,
    /// Whether the text to come stands behind a head, where the family has heads in front of texts.
    pub(crate) behind_head: bool,
    /// What the model said in this turn in front of its text at hand.
    pub(crate) said: String,
    /// The prompt that was evaluated last, and the tokens of the turn behind it.
    pub(crate) prompted: Vec<TokenId>,
    /// Tokens of it that any task has in common.
    pub(crate) beginning: usize,
    pub(crate) behind: Vec<TokenId>,
    /// What the view that is evaluated begins with.
    pub(crate) demonstrations: Demonstrations,
    /// Whether nothing but completed calls was written.
    looped: bool,
    /// Tokens at the end of the session that are not the prompt's, but what the call begins with.
    pub(crate) ahead: usize,
    /// How a call of each tool begins, where the choice among them is weighed.
    pub(crate) names: Vec<Vec<TokenId>>,
    /// Whether the session has left the prompt that was evaluated last.
    pub(crate) moved: bool,
    /// What the model tells of the tools beside how likely it begins their calls, where the choice is weighed.
    pub(crate) of_tools: ToolSignals,
    /// What the choice was made by, where it was weighed.
    pub(crate) weighed: Option<ToolSignals>,
    /// How many values of each call that was written last are made up, where that was told.
    pub(crate) invented: Option<f64>,
}

impl<'a, B: Backend + Send> Making<'a, B> {
    pub(crate) fn new(
        engine: &'a LocalEngine<B>,
        request: &'a TurnRequest<'a>,
        cancel: &'a Cancel,
        events: &'a mut dyn FnMut(TurnEvent),
    ) -> Result<Self, Error> {
        Ok(Self {
            engine,
            request,
            cancel,
            events,
            stats: Stats::default(),
            budget: 0,
            plan: ReasoningPlan::of(&engine.dialogue, &engine.options, request)?,
            thought: None,
            thought_here: false,
            after_thought: false,
            spent: 0,
            behind_head: false,
            said: String::new(),
            prompted: Vec::new(),
            beginning: 0,
            behind: Vec::new(),
            demonstrations: Demonstrations::None,
            looped: false,
            ahead: 0,
            names: Vec::new(),
            moved: false,
            of_tools: ToolSignals::default(),
            weighed: None,
            invented: None,
        })
    }

    /// The turn.
    pub(crate) fn turn(&mut self, state: &mut State<B>) -> Result<Turn, Error> {
        if self.engine.options.constraint == Constraint::None {
            return self.unconstrained(state);
        }
        let request = self.request;
        drive(&mut Local { making: self, state }, request)
    }
}

impl<B: Backend + Send> Making<'_, B> {
    /// A turn without any constraint, read as it comes.
    fn unconstrained(&mut self, state: &mut State<B>) -> Result<Turn, Error> {
        if self.request.answer != AnswerForm::Text {
            return Err(Error::input(
                "nothing constrains this engine, so its answers cannot be held to a form",
            ));
        }
        let offered = if self.request.choice == ToolChoice::None { &[] } else { self.request.tools };
        self.prefill(state, &self.transcript(), offered)?;
        let shown = Shown::Answer(WatchedAnswer::new(None, ""));
        let decoded = self.decode(state, None, &mut self.sampler()?, shown, None)?;
        let read = self.engine.dialogue.format().parse(&decoded.text, self.request.tools);
        let written_well = !read.calls.is_empty();
        let mut parsed = recover(read, self.request.tools);
        if !parsed.calls.is_empty() {
            if !written_well {
                (self.events)(TurnEvent::Recovered(decoded.text.clone()));
            }
            match without_repeats(parsed.calls.clone(), self.request, &self.engine.options) {
                Some(calls) => parsed.calls = calls,
                // Nothing can make this model call in another way: the call comes once more.
                None if self.request.pending => drop_repeats(&mut parsed.calls, &[], self.request.tools),
                None => {
                    // Or answer instead: what it wrote is the answer, and the run ends.
                    parsed = ParsedTurn { content: Some(decoded.text.clone()), ..ParsedTurn::default() };
                    self.looped = true;
                }
            }
        }
        Ok(self.finish(decoded, parsed, None))
    }

    pub(crate) fn automata(
        &self,
        offered: &[ToolSpec],
        turn: &toolgate_chat::TurnRequest,
    ) -> Result<Sides<Side>, Error> {
        let vocabulary = &self.engine.vocabulary;
        let format = self.engine.dialogue.format().as_ref();
        let known = &self.engine.learned.automata;
        let mut automata = known.get(format, offered, turn, vocabulary)?;
        if let (Some(form), Some(answer)) = (FormKey::of(self.request.answer), &mut automata.answer) {
            *answer = known.answer(&form, vocabulary)?;
        }
        Ok(automata)
    }

    /// What stands in front of the conversation while it is decided between call and answer, or a call is written.
    pub(crate) fn demonstrations_for(&self, decides: bool) -> Demonstrations {
        match self.plan.opening() {
            Some(_) => Demonstrations::None,
            None => self.engine.options.demonstrations_for(self.request.transcript, decides),
        }
    }

    /// The transcript as the model is shown it.
    pub(crate) fn transcript(&self) -> Transcript {
        self.introduced(self.request.transcript)
    }

    /// A transcript after the system prompt, its own if it brings one, and the demonstrations.
    pub(crate) fn introduced(&self, given: &Transcript) -> Transcript {
        let format = self.engine.dialogue.format().as_ref();
        self.engine.options.introduced(given, self.request.tools, format, self.demonstrations)
    }

    /// Decodes under a side's constraint (`None`: under none), unless one of the openings that are watched for comes first; what is
    /// `shown` of the text goes out as it comes.
    pub(crate) fn decode(
        &mut self,
        state: &mut State<B>,
        side: Option<&Side>,
        sampler: &mut Sampler,
        mut shown: Shown<'_>,
        watch: Option<Watch>,
    ) -> Result<Decoded, Error> {
        let mut constraint = self.constraint(side)?;
        let mut options = match &shown {
            Shown::Calls(calls) => {
                DecodeOptions { likelihoods: calls.is_held().then_some(1), ..self.call_options() }
            }
            Shown::Answer(_) | Shown::Nothing => self.answer_options(),
        };
        options.ahead = std::mem::take(&mut self.ahead);
        options.watch = watch;
        self.budget = self.spent + options.max_tokens.min(state.session.room() + options.ahead);
        // Without a constraint the text may hold a call in any dialect: only what is none is shown.
        let leaked = side.is_none() && matches!(shown, Shown::Answer(_));
        let mut leaks = leaked.then(|| Stream::new(self.request.tools));
        let events = &mut *self.events;
        let mut is_enough = false;
        let mut decoded =
            decode(&mut state.session, &mut constraint, sampler, &options, &mut |piece: Piece<'_>| {
                match (&mut leaks, &mut shown) {
                    (Some(leaks), _) => show(leaks.push(piece.text.as_bytes()), events),
                    (None, Shown::Answer(answer)) => is_enough = answer.push(piece.text, events),
                    (None, Shown::Calls(calls)) => is_enough = calls.push(piece.text, events),
                    (None, Shown::Nothing) => {}
                }
                if is_enough {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })?;
        if let Some(leaks) = leaks {
            show(leaks.finish().0, events);
        }
        let is_answer = !matches!(shown, Shown::Calls(_));
        match shown {
            Shown::Answer(mut answer) => answer.finish(events),
            Shown::Nothing => {}
            Shown::Calls(calls) => {
                calls.finish(events);
                // Calls that came again are left out of the turn, which ends as if the model had ended it.
                if is_enough && decoded.stop == StopReason::SinkStopped {
                    decoded.stop = StopReason::End;
                }
            }
        }
        let decoded = self.counted(decoded, side)?;
        if is_answer {
            self.tell_likelihoods(&decoded);
        }
        Ok(decoded)
    }

    /// What a further call of the turn can know, where there may be one.
    fn known(&self) -> Option<Known> {
        let options = &self.engine.options;
        let may_go_on = self.request.parallel.or(options.parallel) != Some(NonZeroUsize::MIN);
        (may_go_on && options.profile.is_some())
            .then(|| Known::of(self.request.transcript, self.request.tools))
    }

    /// How the first text of a turn of calls is shown, which may be given up where it is `held`.
    pub(crate) fn shown_calls(&self, held: bool) -> Shown<'static> {
        let are_told = self.request.check.is_none() && self.request.completed.is_empty();
        let stream = self.engine.dialogue.format().stream(self.request.tools, Start::Turn);
        let shown = ShownCalls::new(stream, are_told, self.known());
        Shown::Calls(Box::new(if held { shown.held() } else { shown }))
    }

    /// What draws the tokens of an answer.
    pub(crate) fn sampler(&self) -> Result<Sampler, Error> {
        match self.request.answer {
            AnswerForm::Text => self.sampler_with(self.request.sampling.penalties),
            _ => self.call_sampler(),
        }
    }

    /// What draws those of calls.
    pub(crate) fn call_sampler(&self) -> Result<Sampler, Error> {
        self.sampler_with(Penalties::default())
    }

    fn sampler_with(&self, penalties: Penalties) -> Result<Sampler, Error> {
        let sampling = self.request.sampling;
        Ok(Sampler::new(&SamplerOptions {
            temperature: sampling.temperature,
            top_k: sampling.top_k,
            top_p: sampling.top_p,
            min_p: sampling.min_p,
            seed: sampling.seed,
            penalties,
            bias: sampling.bias.clone(),
        })?)
    }

    pub(crate) fn decode_options(&self) -> DecodeOptions {
        DecodeOptions {
            max_tokens: self.request.sampling.max_tokens.saturating_sub(self.spent),
            budget: Budget::Whole,
            forcing: self.engine.options.forcing,
            drafting: self.engine.options.drafting,
            cancel: self.cancel.clone(),
            ..DecodeOptions::default()
        }
    }

    /// How calls are decoded.
    pub(crate) fn call_options(&self) -> DecodeOptions {
        let further = Further {
            openings: self.engine.openings.at_start(AnswerForm::Text, false).clone(),
            threshold: self.engine.options.thresholds.further,
        };
        DecodeOptions { further: Some(further), ..self.decode_options() }
    }

    /// Counts what a decoded text cost; one whose constraint failed is an error.
    pub(crate) fn counted(&mut self, decoded: Decoded, side: Option<&Side>) -> Result<Decoded, Error> {
        self.stats += &decoded.stats;
        let grammar = side.map(|side| side.grammar.clone());
        (self.events)(TurnEvent::Decoded { grammar, tokens: decoded.tokens.clone() });
        match &decoded.stop {
            StopReason::ConstraintFailed(why) => Err(Error::new(
                Kind::Engine,
                format!("the turn was stopped because its constraint failed: {why}"),
            )),
            _ => Ok(decoded),
        }
    }

    pub(crate) fn finish(
        &mut self,
        decoded: Decoded,
        mut parsed: ParsedTurn,
        decision: Option<TurnDecision>,
    ) -> Turn {
        parsed.reasoning = self.thought.take().or(parsed.reasoning);
        let stats = std::mem::take(&mut self.stats);
        let text = format!("{}{}", self.said, decoded.text);
        let (stop, budget, looped) = (decoded.stop, self.budget, self.looped);
        Turn { parsed, text, stop, budget, decision, looped, stats }
    }
}
