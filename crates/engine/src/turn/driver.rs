//! A turn, from its request to its calls or its answer. Wherever a model runs, the steps are these and in this order.
//!
//! A model takes part as a [`ScoredModel`]: it scores beginnings, and it writes texts under grammars. `local` is one over a
//! backend of this process; `toolgate-remote` has one over servers that hold texts to grammars.
//!
//! For the packages of this workspace alone: no part of the API.

use std::num::NonZeroUsize;

use toolgate_chat::{Message, ParsedTurn, RunEnd, ToolChoice, ToolName, ToolSpec};
use toolgate_infer::{Decoded, Opening, StopReason, TurnDecision};

use crate::constraint::automata::Sides;
use crate::profile::decision::DecisionModel;
use crate::profile::options::{AnswerView, Options};
use crate::profile::policy::{EVEN, Thresholds};
use crate::turn::changes::{May, unled};
use crate::turn::choose::held_to;
use crate::turn::invented::Known;
use crate::turn::repeats::{REPEATED, REQUIRED, in_place_of, without_repeats};
use crate::turn::results::instead;
use crate::turn::watch::{Beginning, ECHOED};
use crate::{AnswerForm, Error, Turn, TurnEvent, TurnRequest};

/// What stands between two texts of a turn.
const APART: &str = "\n\n";

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

    /// The thresholds of the turn: those of the profile, with what was fitted of the model in place of the one that counts.
    fn thresholds(&mut self, offered: &[ToolSpec]) -> Result<Thresholds, Error>;

    /// Whether the request asks for a change ([`Thresholds::changing`](crate::Thresholds)), where that counts.
    fn wishes(&mut self, call: bool) -> Result<bool, Error>;

    /// Reads the prompt of a turn that may call, and thinks where the prompt opened a thought. `decides` says whether the turn may be
    /// an answer, too.
    fn begin(&mut self, offered: &[ToolSpec], decides: bool) -> Result<(), Error>;

    /// Whether it has thought before it speaks.
    fn has_thought(&self) -> bool;

    /// Whether it may begin a thought by itself where the turn is.
    fn may_think(&self) -> bool;

    /// Writes a thought that it begins by itself.
    fn think(&mut self) -> Result<(), Error>;

    /// Call, thought or answer, by the probability of every beginning of a call or a thought where the turn is.
    fn decide(&mut self, offered: &[ToolSpec], threshold: f64) -> Result<TurnDecision, Error>;

    /// Reads the prompt that a call is written after.
    fn begin_call(&mut self, offered: &[ToolSpec]) -> Result<(), Error>;

    /// The tool to call, of those that may be; none where that is left to the model. And what may be called, as the tools weigh.
    fn choose(&mut self, offered: &[ToolSpec], may: May) -> Result<(Option<ToolName>, May), Error>;

    /// Writes calls. Those that are `held` may be given up again: nobody is told of them.
    fn call(&mut self, side: &Self::Side, held: bool) -> Result<(Self::Text, ParsedTurn), Error>;

    /// How many values of each call that was held are made up; none where that is not told.
    fn invented(&self) -> Option<f64>;

    /// Gives up the call that it was about to write, and what it thought of it where `thought` is to go, too.
    fn leave_call(&mut self, thought: Thought);

    /// Reads the prompt of an answer, and thinks.
    fn begin_answer(&mut self, view: View) -> Result<(), Error>;

    /// Writes an answer, shown unless it repeats the question (`""` for none).
    fn answer(&mut self, side: &Self::Side, question: &str, until: Until) -> Result<Self::Text, Error>;

    /// The grammar of text that goes on behind other text of the turn.
    fn rest(&mut self) -> Result<Self::Side, Error>;

    /// Keeps a text that was left for something else, and goes on behind it.
    fn leave_text(&mut self, text: Self::Text) -> Result<(), Error>;

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

    /// What it was left for, where it did not come to its end.
    fn left_for(&self) -> Option<Opening>;
}

/// How far a text goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Until {
    /// To its end, whatever the model would rather begin.
    End,
    /// To where the model would begin a call, a thought or a text with a head, with at least this probability.
    Opening(f64),
}

/// What an answer is written after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The whole conversation.
    Whole,
    /// The conversation without the tools: shown them, the model would rather call.
    Bare,
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

/// Why a call is given up for an answer.
const INVENTED: &str = "the call held what nobody has said; an answer takes its place";

/// The probability of a call from which on a model that may not call is written an answer without the tools.
const WISHED: f64 = 0.25;

/// Whether a turn is an answer though the model itself may well call, and more than its own wish was asked for. Shown the tools, it then
/// often answers with the text of a call in another dialect.
fn is_against(decided: &TurnDecision) -> bool {
    !decided.call && decided.threshold > EVEN && decided.p_call >= WISHED
}

/// Makes the turn that is requested.
pub fn drive<M: ScoredModel>(model: &mut M, request: &TurnRequest<'_>) -> Result<Turn, Error> {
    let offered = if request.choice == ToolChoice::None { &[] } else { request.tools };
    Driver { model, request, offered, said: String::new(), is_behind_text: false, gave_up: false }.turn()
}

struct Driver<'a, M> {
    model: &'a mut M,
    request: &'a TurnRequest<'a>,
    /// What the turn may call, and its grammars.
    offered: &'a [ToolSpec],
    /// The text that was said in front of a call or a thought.
    said: String,
    /// Whether the model began a call behind text.
    is_behind_text: bool,
    /// Whether a call was given up that the model would rather make.
    gave_up: bool,
}

/// What comes next: a call of what may be called, or the turn is over.
enum Next {
    Call(Option<TurnDecision>, May),
    Turn(Box<Turn>),
}

impl Next {
    fn over(turn: Turn) -> Self {
        Self::Turn(Box::new(turn))
    }
}

impl<M: ScoredModel> Driver<'_, M> {
    fn turn(mut self) -> Result<Turn, Error> {
        let request = self.request;
        if let Some(begun) = request.begun {
            let rest = self.model.rest_of(begun)?;
            return self.answer_alone(Some(&rest), None);
        }
        let sides = self.sides(self.offered, &request.choice, None)?;
        let Some(call) = &sides.call else { return self.answer_alone(sides.answer.as_ref(), None) };
        let mut next = self.decide(sides.answer.as_ref())?;
        loop {
            let (decision, may) = match next {
                Next::Call(decision, may) => (decision, may),
                Next::Turn(turn) => return Ok(*turn),
            };
            next = self.call(call, sides.answer.as_ref(), decision, may)?;
        }
    }

    /// Call or answer. Where both are open, the model's own probabilities decide between them, behind what it thinks.
    fn decide(&mut self, answer: Option<&M::Side>) -> Result<Next, Error> {
        let request = self.request;
        let thresholds = match answer {
            Some(_) => self.model.thresholds(self.offered)?,
            None => self.model.options().thresholds.for_request(request),
        };
        let threshold = thresholds.of(request);
        // No probability reaches a threshold above 1: the prompt that would give one need not be read then. Where the model itself told
        // that nothing is left to be done, no change is either.
        let is_told = self.model.options().decision.is_some_and(|decision| decision.tells_of(request));
        if answer.is_some() && threshold > 1.0 && (is_told || !self.model.wishes(false)?) {
            return self.answer_alone(answer, None).map(Next::over);
        }
        self.model.begin(self.offered, answer.is_some())?;
        if answer.is_none() && !self.model.may_think() {
            return Ok(Next::Call(None, May::ALL));
        }
        let mut decided = self.model.decide(self.offered, threshold)?;
        if self.model.may_think() && decided.p_think >= EVEN {
            self.model.think()?;
            decided = self.model.decide(self.offered, threshold)?;
        }
        if answer.is_none() {
            return Ok(Next::Call(None, May::ALL));
        }
        self.model.tell(TurnEvent::Decided(decided.clone()));
        let own = decided.p_call >= unled(&thresholds, request);
        let wished = self.model.wishes(decided.call)?;
        let may = May::of(request, decided.call, own, decided.p_call, wished);
        if may.is_nothing() {
            return self.answer(answer, Some(decided), self.until(threshold, wished));
        }
        if !decided.call {
            decided.call = true;
            self.model.tell(TurnEvent::Decided(decided.clone()));
        }
        Ok(Next::Call(Some(decided), may))
    }

    /// Writes a call of what may be called; where nothing is left of that, the turn goes on as an answer.
    fn call(
        &mut self,
        all: &M::Side,
        answer: Option<&M::Side>,
        mut decision: Option<TurnDecision>,
        may: May,
    ) -> Result<Next, Error> {
        let request = self.request;
        self.model.begin_call(self.offered)?;
        let (chosen, may) = self.model.choose(self.offered, may)?;
        let Some(choice) = may.among(&request.choice, self.offered) else {
            if let Some(decided) = &mut decision {
                decided.call = false;
                self.model.tell(TurnEvent::Decided(decided.clone()));
            }
            self.model.leave_call(Thought::Stays);
            return match self.said.is_empty() {
                true => self.answer(answer, decision, Until::End),
                false => self.go_on(decision, Until::End),
            };
        };
        let held = match chosen {
            Some(tool) => {
                let (choice, first) = held_to(tool, self.parallel(), &choice);
                self.sides(self.offered, &choice, first)?.call
            }
            None if choice != request.choice => self.sides(self.offered, &choice, None)?.call,
            None => None,
        };
        let may_go = decision.as_ref().filter(|decided| self.may_go(decided));
        let (text, mut parsed) = self.calls(held.as_ref().unwrap_or(all), may_go.is_some())?;
        if let Some(decided) = may_go.and_then(|decided| self.gone(decided)) {
            self.model.tell(TurnEvent::Retry(INVENTED.to_owned()));
            self.model.tell(TurnEvent::Decided(decided.clone()));
            self.model.leave_call(Thought::Stays);
            self.gave_up = true;
            return self.answer(answer, Some(decided), Until::End);
        }
        match without_repeats(std::mem::take(&mut parsed.calls), request, self.model.options()) {
            Some(calls) => parsed.calls = calls,
            None => {
                self.model.tell(TurnEvent::Retry(REPEATED.to_owned()));
                self.model.leave_call(Thought::Goes);
                let answer = self.sides(&[], &ToolChoice::None, None)?.answer;
                return self.answer(answer.as_ref(), decision, Until::End);
            }
        }
        if parsed.content.is_none() {
            parsed.content = Some(self.said.trim().to_owned()).filter(|said| !said.is_empty());
        }
        Ok(Next::over(self.model.finish(text, parsed, decision)))
    }

    /// Whether a call that was decided on may still give way to an answer, by how much of it will be made up.
    fn may_go(&self, decided: &TurnDecision) -> bool {
        let behind = |model: DecisionModel| model.behind_any_call(self.request, decided.threshold);
        let highest = self.model.options().decision.and_then(behind);
        let by_odds = !self.is_behind_text && decided.p_call >= decided.threshold;
        by_odds && highest.is_some_and(|highest| decided.p_call < highest)
    }

    /// The decision for an answer in place of calls of which too much is made up; none where they stay.
    fn gone(&self, decided: &TurnDecision) -> Option<TurnDecision> {
        let invented = self.model.invented()?;
        let decision = self.model.options().decision?;
        let threshold = decision.behind_call(self.request, decided.threshold, invented)?;
        let goes = decided.p_call < threshold;
        goes.then(|| TurnDecision { call: false, threshold, ..decided.clone() })
    }

    /// The calls; others where those that were written are not what is still to be done.
    fn calls(&mut self, side: &M::Side, held: bool) -> Result<(M::Text, ParsedTurn), Error> {
        let (mut text, mut parsed) = self.model.call(side, held)?;
        if let Some(others) = in_place_of(&parsed.calls, self.request, self.offered) {
            self.model.tell(TurnEvent::Retry(REQUIRED.to_owned()));
            if let Some(side) = self.sides(self.offered, &others, None)?.call {
                self.model.begin_call(self.offered)?;
                (text, parsed) = self.model.call(&side, held)?;
            }
        }
        if parsed.calls.len() > 1 && self.model.options().profile.is_some() {
            Known::of(self.request.transcript, self.offered).leave(&mut parsed.calls);
        }
        Ok((text, parsed))
    }

    /// An answer in a turn that calls nothing.
    fn answer_alone(
        &mut self,
        side: Option<&M::Side>,
        decision: Option<TurnDecision>,
    ) -> Result<Turn, Error> {
        match self.answer(side, decision, Until::End)? {
            Next::Turn(turn) => Ok(*turn),
            Next::Call(..) => Err(Error::input("a turn without tools came to a call")),
        }
    }

    /// The answer, after calls from a view that holds the question and the results alone.
    fn answer(
        &mut self,
        side: Option<&M::Side>,
        decision: Option<TurnDecision>,
        until: Until,
    ) -> Result<Next, Error> {
        let Some(side) = side else {
            return Err(Error::input("a call is required here, so there is no answer to give"));
        };
        let (request, view) = (self.request, self.model.options().answer_view);
        if let Some(results) = instead(view, request) {
            self.model.tell(TurnEvent::Text(results.clone()));
            let parsed = ParsedTurn { content: Some(results.clone()), ..ParsedTurn::default() };
            return Ok(Next::over(self.model.finish(M::Text::given(&results), parsed, decision)));
        }
        let after_calls = matches!(request.transcript.last(), Some(Message::Tool(_)));
        // A run that is ended from outside has a model that would only go on calling, were it shown the tools.
        let is_against = self.gave_up || decision.as_ref().is_some_and(is_against);
        let is_led = view != AnswerView::Full;
        let view = match after_calls {
            true if is_led || request.closing || is_against => View::Results(request.end()),
            // A small model that may not call writes the text of a call all the same, were it shown the tools.
            false if is_against || (is_led && request.choice == ToolChoice::None) => View::Bare,
            _ => View::Whole,
        };
        self.model.begin_answer(view)?;
        // A view without tools is no place to call from, unless the model goes on behind its thought.
        let until = if view == View::Whole || self.model.has_thought() { until } else { Until::End };
        let question = match after_calls && request.answer == AnswerForm::Text {
            true => request.transcript.question().unwrap_or_default(),
            false => "",
        };
        let mut written = self.model.answer(side, question, until)?;
        if self.repeats(question, written.text()) && !self.model.has_thought() {
            self.model.tell(TurnEvent::Retry(ECHOED.to_owned()));
            // Not told the request once more, it says what came of it.
            self.model.begin_answer(View::Again(RunEnd { changed: true, ..request.end() }))?;
            written = self.model.answer(side, question, Until::End)?;
        }
        self.said(written, question, decision, until)
    }

    /// What comes behind a text: the end of the turn or, where the model would rather begin something else, that.
    fn said(
        &mut self,
        text: M::Text,
        question: &str,
        decision: Option<TurnDecision>,
        until: Until,
    ) -> Result<Next, Error> {
        let Some(opening) = text.left_for() else {
            let own = if self.repeats(question, text.text()) { "" } else { text.text() };
            let content = format!("{}{own}", self.said);
            return Ok(Next::over(self.answered(text, &content, decision)));
        };
        self.said.push_str(text.text());
        self.model.leave_text(text)?;
        match opening {
            Opening::Thought => self.model.think()?,
            Opening::Text => self.go_on_apart(),
            Opening::Call => return self.called_behind_text(decision, until),
        }
        self.go_on(decision, until)
    }

    /// A call behind text, where one may be made; else the text goes on.
    fn called_behind_text(&mut self, decision: Option<TurnDecision>, until: Until) -> Result<Next, Error> {
        let Until::Opening(threshold) = until else { return self.go_on(decision, Until::End) };
        let mut decided = decision.unwrap_or_default();
        (decided.p_call, decided.threshold, decided.call) = (decided.p_call.max(threshold), threshold, true);
        let wished = self.model.wishes(true)?;
        let may = May::of(self.request, true, true, decided.p_call, wished);
        if may.is_nothing() {
            return self.go_on(Some(decided), Until::End);
        }
        self.model.tell(TurnEvent::Decided(decided.clone()));
        self.is_behind_text = true;
        Ok(Next::Call(Some(decided), may))
    }

    /// Goes on with the text of the turn.
    fn go_on(&mut self, decision: Option<TurnDecision>, until: Until) -> Result<Next, Error> {
        let side = self.model.rest()?;
        let written = self.model.answer(&side, "", until)?;
        self.said(written, "", decision, until)
    }

    /// Sets the next text apart from what was said.
    fn go_on_apart(&mut self) {
        if !self.said.is_empty() {
            self.said.push_str(APART);
            self.model.tell(TurnEvent::Text(APART.to_owned()));
        }
    }

    /// How far a text goes where a call may still come behind it: one that looks, or one that changes what is to be changed.
    fn until(&self, threshold: f64, wished: bool) -> Until {
        let may = May::of(self.request, true, true, 1.0, wished);
        let is_text = self.request.answer == AnswerForm::Text;
        match may.among(&self.request.choice, self.offered) {
            Some(_) if is_text && threshold <= 1.0 => Until::Opening(threshold.max(EVEN)),
            _ if is_text && self.model.may_think() => Until::Opening(EVEN),
            _ => Until::End,
        }
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
        let (choice, parallel) = (choice.clone(), self.parallel());
        self.model.sides(offered, &toolgate_chat::TurnRequest { choice, parallel, first })
    }

    /// The calls of the turn at most; none where nothing bounds them.
    fn parallel(&self) -> Option<NonZeroUsize> {
        self.request.parallel.or(self.model.options().parallel)
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

    fn left_for(&self) -> Option<Opening> {
        match self.stop {
            StopReason::Opened(opening) => Some(opening),
            _ => None,
        }
    }
}
