//! A turn, from its request to its calls or its answer. Wherever a model runs, the steps are these and in this order.
//!
//! A model takes part as a [`ScoredModel`]: it scores beginnings, and it writes texts under grammars. `local` is one over a
//! backend of this process; `toolgate-remote` has one over servers that hold texts to grammars.
//!
//! For the packages of this workspace alone: no part of the API.

use std::num::NonZeroUsize;

use toolgate_chat::{Message, ParsedTurn, RunEnd, ToolChoice, ToolName, ToolSpec};
use toolgate_infer::{Decoded, StopReason, TurnDecision};

use crate::constraint::automata::Sides;
use crate::profile::options::{AnswerView, Options};
use crate::turn::changes::{May, unled};
use crate::turn::choose::held_to;
use crate::turn::invented::Known;
use crate::turn::repeats::{REPEATED, REQUIRED, in_place_of, without_repeats};
use crate::turn::results::instead;
use crate::turn::watch::{Beginning, ECHOED, REFUSED, is_watched};
use crate::{AnswerForm, Error, Turn, TurnEvent, TurnRequest};

/// A model within one turn: what the steps of a turn ask of it.
pub trait ScoredModel {
    /// The grammar of calls or of answers, as this model is held to it.
    type Side;
    /// A text that it wrote.
    type Text: WrittenText;

    /// How turns are made.
    fn options(&self) -> &Options;

    /// Tells of the turn while it is made.
    fn tell(&mut self, event: TurnEvent);

    /// The grammars of a turn with these tools.
    fn sides(
        &mut self,
        offered: &[ToolSpec],
        turn: &toolgate_chat::TurnRequest,
    ) -> Result<Sides<Self::Side>, Error>;

    /// The grammar of an answer that goes on from where it was begun.
    fn rest_of(&mut self, begun: &str) -> Result<Self::Side, Error>;

    /// Whether the request asks for a change ([`Thresholds::changing`](crate::Thresholds)), where that counts.
    fn wishes(&mut self, call: bool) -> Result<bool, Error>;

    /// Reads the prompt of a turn that may call, and thinks. `decides` says whether it may be an answer, too.
    fn begin(&mut self, offered: &[ToolSpec], decides: bool) -> Result<(), Error>;

    /// Whether it has thought before it speaks.
    fn has_thought(&self) -> bool;

    /// Call or answer, by the probability of every beginning of a call.
    fn decide(&mut self, offered: &[ToolSpec], threshold: f64) -> Result<TurnDecision, Error>;

    /// Reads the prompt that a call is written after.
    fn begin_call(&mut self, offered: &[ToolSpec]) -> Result<(), Error>;

    /// The tool to call, of those that may be; none where that is left to the model. And what may be called, as the tools weigh.
    fn choose(&mut self, offered: &[ToolSpec], may: May) -> Result<(Option<ToolName>, May), Error>;

    /// Writes calls.
    fn call(&mut self, side: &Self::Side) -> Result<(Self::Text, ParsedTurn), Error>;

    /// Gives up the call that it was about to write, and what it thought of it where `thought` is to go, too.
    fn leave_call(&mut self, thought: Thought);

    /// Writes an answer where a call could be, and stops where that turns out to be a refusal: then there is none.
    fn answer_unless_refusal(&mut self, side: &Self::Side) -> Result<Option<Self::Text>, Error>;

    /// Reads the prompt of an answer, and thinks.
    fn begin_answer(&mut self, view: View) -> Result<(), Error>;

    /// Writes an answer, shown unless it repeats the question (`""` for none).
    fn answer(&mut self, side: &Self::Side, question: &str) -> Result<Self::Text, Error>;

    /// An answer's text without the blanks around it that its form has no use for.
    fn trimmed<'t>(&self, text: &'t str) -> &'t str;

    /// The turn that came of it.
    fn finish(&mut self, text: Self::Text, parsed: ParsedTurn, decision: Option<TurnDecision>) -> Turn;
}

/// A text that a model wrote.
pub trait WrittenText {
    /// One that nothing had to be written for.
    fn given(text: &str) -> Self;

    /// The text.
    fn text(&self) -> &str;
}

/// What an answer is written after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The whole conversation.
    Whole,
    /// The question and the results alone, of a run that ends so.
    Results(RunEnd),
    /// The same once more, without thinking: what was written after it first was no answer.
    Again(RunEnd),
}

/// What becomes of a thought when a call is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thought {
    /// It stays in front of the answer.
    Stays,
    /// It goes.
    Goes,
}

/// Makes the turn that is requested.
pub fn drive<M: ScoredModel>(model: &mut M, request: &TurnRequest<'_>) -> Result<Turn, Error> {
    Driver { model, request }.turn()
}

struct Driver<'a, M> {
    model: &'a mut M,
    request: &'a TurnRequest<'a>,
}

/// What was decided: a call of what may be called, or the whole turn.
enum Decided {
    Call(Option<TurnDecision>, May),
    Turn(Box<Turn>),
}

impl Decided {
    fn whole(turn: Turn) -> Self {
        Self::Turn(Box::new(turn))
    }
}

impl<M: ScoredModel> Driver<'_, M> {
    fn turn(mut self) -> Result<Turn, Error> {
        let request = self.request;
        if let Some(begun) = request.begun {
            let rest = self.model.rest_of(begun)?;
            return self.answer(Some(&rest), None);
        }
        let offered = if request.choice == ToolChoice::None { &[] } else { request.tools };
        let sides = self.sides(offered, &request.choice, None)?;
        let Some(call) = &sides.call else { return self.answer(sides.answer.as_ref(), None) };
        let (mut decision, may) = match self.decide(offered, sides.answer.as_ref())? {
            Decided::Call(decision, may) => (decision, may),
            Decided::Turn(turn) => return Ok(*turn),
        };
        self.model.begin_call(offered)?;
        let (chosen, may) = self.model.choose(offered, may)?;
        let Some(choice) = may.among(&request.choice, offered) else {
            if let Some(decided) = &mut decision {
                decided.call = false;
                self.model.tell(TurnEvent::Decided(decided.clone()));
            }
            self.model.leave_call(Thought::Stays);
            return self.answer(sides.answer.as_ref(), decision);
        };
        let held = match chosen {
            Some(tool) => {
                let (choice, first) = held_to(tool, self.parallel(), &choice);
                self.sides(offered, &choice, first)?.call
            }
            None if choice != request.choice => self.sides(offered, &choice, None)?.call,
            None => None,
        };
        let (text, mut parsed) = self.call(offered, held.as_ref().unwrap_or(call))?;
        match without_repeats(std::mem::take(&mut parsed.calls), request) {
            Some(calls) => parsed.calls = calls,
            None => {
                self.model.tell(TurnEvent::Retry(REPEATED.to_owned()));
                self.model.leave_call(Thought::Goes);
                let answer = self.sides(&[], &ToolChoice::None, None)?.answer;
                return self.answer(answer.as_ref(), decision);
            }
        }
        Ok(self.model.finish(text, parsed, decision))
    }

    /// Call or answer. Where both are open, the model's own probabilities decide between them.
    fn decide(&mut self, offered: &[ToolSpec], answer: Option<&M::Side>) -> Result<Decided, Error> {
        let request = self.request;
        let thresholds = self.model.options().thresholds.for_request(request);
        let threshold = thresholds.of(request);
        // No probability reaches a threshold above 1: the prompt that would give one need not be read then.
        if answer.is_some() && threshold > 1.0 && !self.model.wishes(false)? {
            return self.answer(answer, None).map(Decided::whole);
        }
        self.model.begin(offered, answer.is_some())?;
        let Some(side) = answer else { return Ok(Decided::Call(None, May::ALL)) };
        let mut decided = self.model.decide(offered, threshold)?;
        self.model.tell(TurnEvent::Decided(decided.clone()));
        let own = decided.p_call >= unled(&thresholds, request);
        let wished = self.model.wishes(decided.call)?;
        let mut may = May::of(request, decided.call, own, decided.p_call, wished);
        if may.is_nothing() {
            if self.model.has_thought() || !is_watched(request, &thresholds, &decided) {
                return self.answer(answer, Some(decided)).map(Decided::whole);
            }
            if let Some(written) = self.model.answer_unless_refusal(side)? {
                let text = written.text().to_owned();
                return Ok(Decided::whole(self.answered(written, &text, Some(decided))));
            }
            self.model.tell(TurnEvent::Retry(REFUSED.to_owned()));
            // A refusal was written in place of a call, which may be one that was asked for.
            may = May { look: true, change: self.model.wishes(true)?, ..May::NOTHING };
        }
        if !decided.call {
            decided.call = true;
            self.model.tell(TurnEvent::Decided(decided.clone()));
        }
        Ok(Decided::Call(Some(decided), may))
    }

    /// The calls; others where those that were written are not what is still to be done.
    fn call(&mut self, offered: &[ToolSpec], side: &M::Side) -> Result<(M::Text, ParsedTurn), Error> {
        let (mut text, mut parsed) = self.model.call(side)?;
        if let Some(others) = in_place_of(&parsed.calls, self.request, offered) {
            self.model.tell(TurnEvent::Retry(REQUIRED.to_owned()));
            if let Some(side) = self.sides(offered, &others, None)?.call {
                self.model.begin_call(offered)?;
                (text, parsed) = self.model.call(&side)?;
            }
        }
        if parsed.calls.len() > 1 {
            Known::of(self.request.transcript, offered).leave(&mut parsed.calls);
        }
        Ok((text, parsed))
    }

    /// The answer, after calls from a view that holds the question and the results alone.
    fn answer(&mut self, side: Option<&M::Side>, decision: Option<TurnDecision>) -> Result<Turn, Error> {
        let Some(side) = side else {
            return Err(Error::input("a call is required here, so there is no answer to give"));
        };
        let (request, view) = (self.request, self.model.options().answer_view);
        if let Some(results) = instead(view, request) {
            self.model.tell(TurnEvent::Text(results.clone()));
            let parsed = ParsedTurn { content: Some(results.clone()), ..ParsedTurn::default() };
            return Ok(self.model.finish(M::Text::given(&results), parsed, decision));
        }
        let after_calls = matches!(request.transcript.last(), Some(Message::Tool(_)));
        self.model.begin_answer(match after_calls && view != AnswerView::Full {
            true => View::Results(request.end()),
            false => View::Whole,
        })?;
        let question = match after_calls && request.answer == AnswerForm::Text {
            true => request.transcript.question().unwrap_or_default(),
            false => "",
        };
        let mut written = self.model.answer(side, question)?;
        if self.repeats(question, written.text()) && !self.model.has_thought() {
            self.model.tell(TurnEvent::Retry(ECHOED.to_owned()));
            // Not told the request once more, it says what came of it.
            self.model.begin_answer(View::Again(RunEnd { changed: true, ..request.end() }))?;
            written = self.model.answer(side, question)?;
        }
        let text = if self.repeats(question, written.text()) { "" } else { written.text() }.to_owned();
        Ok(self.answered(written, &text, decision))
    }

    /// Whether an answer does nothing but repeat the question (`""` for none).
    fn repeats(&self, question: &str, answer: &str) -> bool {
        let watch = self.request.repetitions.filter(|_| !question.is_empty());
        watch.is_some_and(|watch| watch.beginning(question, answer, true) == Beginning::Found)
    }

    /// A turn that is an answer.
    fn answered(&mut self, written: M::Text, text: &str, decision: Option<TurnDecision>) -> Turn {
        let content = Some(self.model.trimmed(text)).filter(|text| !text.is_empty()).map(str::to_owned);
        self.model.finish(written, ParsedTurn { content, ..ParsedTurn::default() }, decision)
    }

    fn sides(
        &mut self,
        offered: &[ToolSpec],
        choice: &ToolChoice,
        first: Option<ToolName>,
    ) -> Result<Sides<M::Side>, Error> {
        let (choice, parallel) = (choice.clone(), Some(self.parallel()));
        self.model.sides(offered, &toolgate_chat::TurnRequest { choice, parallel, first })
    }

    /// The calls of the turn at most.
    fn parallel(&self) -> NonZeroUsize {
        self.request.parallel.unwrap_or(self.model.options().parallel)
    }
}

impl WrittenText for Decoded {
    fn given(text: &str) -> Self {
        Self {
            start: 0,
            text: text.to_owned(),
            tokens: Vec::new(),
            likelihoods: Vec::new(),
            stop: StopReason::End,
            stats: toolgate_infer::Stats::default(),
        }
    }

    fn text(&self) -> &str {
        &self.text
    }
}
