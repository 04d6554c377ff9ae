//! A turn that one toolgate asks another for, as JSON: the request, what happens in the turn, and questions about finished
//! calls, which only the asking side can answer, since it has the tools. Knows the engine's words; no socket.
//!
//! ```text
//! remote::toolgate ─── EngineRequest ──▶ serve::engine ─▶ Engine::turn
//!                  ◀── EngineEvent, EngineEvent, …
//!                  ─ EngineReply ─▶              for each EngineEvent::Question
//! ```
//!
//! Invariant: what comes back is what the engine would have given here, but for the tokens of its prompts and texts, and
//! for JSON answers and stop texts, which are not asked for. A run's trace (`toolgate_agent::trace`) writes turns in the same words.
//!
//! For the packages of this workspace alone: no part of the API.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_chat::{ParsedTurn, ToolCall, ToolChoice, ToolSpec, Transcript};
use toolgate_infer::{Stats, StopReason, TurnDecision};

use crate::{CallCheck, Facts, Fault, Sampling, Turn, TurnEvent, TurnRequest};
use crate::{Error, Kind};

/// Where a server tells what its engine is: [`About`].
pub const ENGINE: &str = "/toolgate/engine";
/// Where a turn is asked for: [`EngineRequest`] in, a stream of [`EngineEvent`] back.
pub const TURN: &str = "/toolgate/turn";
/// Where a question is answered: [`EngineReply`].
pub const ANSWER: &str = "/toolgate/answer";

/// What a server's engine is.
#[derive(Debug, Serialize, Deserialize)]
pub struct About {
    pub model: String,
    pub facts: Facts,
    /// How tokens are drawn there where nothing is said.
    #[serde(default)]
    pub sampling: Sampling,
}

/// A [`TurnRequest`] and the model it is for.
#[derive(Debug, Serialize, Deserialize)]
pub struct EngineRequest {
    pub model: String,
    pub transcript: Transcript,
    tools: Vec<Value>,
    choice: ToolChoice,
    pub parallel: Option<NonZeroUsize>,
    #[serde(alias = "settled")]
    pub completed: Vec<ToolCall>,
    /// Whether finished calls are to be asked about.
    pub checked: bool,
    pub changed: bool,
    #[serde(alias = "open")]
    pub pending: bool,
    #[serde(default)]
    pub retry: bool,
    #[serde(alias = "fits")]
    pub prior: Vec<f64>,
    /// The names of the watches over the answer.
    #[serde(default)]
    pub watches: Vec<String>,
    pub closing: bool,
    #[serde(default)]
    pub quotes: bool,
    #[serde(default)]
    pub handed_on: bool,
    #[serde(default)]
    begun: Option<String>,
    pub sampling: Sampling,
}

impl EngineRequest {
    pub fn of(model: &str, request: &TurnRequest<'_>) -> Self {
        Self {
            model: model.to_owned(),
            transcript: request.transcript.clone(),
            tools: request.tools.iter().map(ToolSpec::to_record).collect(),
            choice: request.choice.clone(),
            parallel: request.parallel,
            completed: request.completed.to_vec(),
            checked: request.check.is_some(),
            changed: request.changed,
            pending: request.pending,
            retry: request.retry,
            prior: request.prior.to_vec(),
            watches: request.repetitions.iter().map(|watch| watch.name().to_owned()).collect(),
            closing: request.closing,
            quotes: request.quotes,
            handed_on: request.handed_on,
            begun: request.begun.map(str::to_owned),
            sampling: request.sampling.clone(),
        }
    }

    /// The tools, which the request borrows.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::Kind::Input) for a definition that is none.
    pub fn tools(&self) -> Result<Vec<ToolSpec>, Error> {
        self.tools.iter().map(|definition| Ok(ToolSpec::from_openai(definition)?)).collect()
    }
    pub fn request<'a>(&'a self, tools: &'a [ToolSpec], check: Option<&'a dyn CallCheck>) -> TurnRequest<'a> {
        TurnRequest {
            choice: self.choice.clone(),
            parallel: self.parallel,
            completed: &self.completed,
            check,
            changed: self.changed,
            pending: self.pending,
            retry: self.retry,
            prior: &self.prior,
            closing: self.closing,
            quotes: self.quotes,
            handed_on: self.handed_on,
            begun: self.begun.as_deref(),
            ..TurnRequest::new(&self.transcript, tools, &self.sampling)
        }
    }
}

/// What came of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// A turn.
    Made {
        /// Its text as the model wrote it.
        text: String,
        /// The answer, or text in front of calls.
        content: Option<String>,
        /// What the model thought.
        reasoning: Option<String>,
        /// Its calls.
        calls: Vec<ToolCall>,
        /// Why it ended.
        stop: Stop,
        /// Tokens it could have.
        budget: usize,
        /// Whether it only repeats what is completed.
        looped: bool,
        /// What it cost.
        stats: Box<Stats>,
    },
    /// None, for this reason.
    Failed {
        /// Which kind: `overflow`, `cancelled`, `input` or `engine`.
        kind: String,
        /// What was said of it.
        message: String,
    },
}

/// Why a turn ended, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The model ended it.
    End,
    /// Nothing could follow.
    Finished,
    /// It was steered to its end at the budget.
    Budget,
    /// A text that ends turns appeared.
    StopText,
    /// The tokens were used up.
    MaxTokens,
    /// The context was full.
    ContextFull,
    /// It was cancelled.
    Cancelled,
}

impl End {
    /// How a turn ended.
    pub fn of(turn: &Result<Turn, Error>) -> Self {
        match turn {
            Ok(turn) => Self::Made {
                text: turn.text.clone(),
                content: turn.parsed.content.clone(),
                reasoning: turn.parsed.reasoning.clone(),
                calls: turn.parsed.calls.clone(),
                stop: Stop::of(&turn.stop),
                budget: turn.budget,
                looped: turn.looped,
                stats: Box::new(turn.stats.clone()),
            },
            Err(error) => {
                Self::Failed { kind: kind_text(error.kind()).to_owned(), message: error.to_string() }
            }
        }
    }

    /// The turn that ended so, without its decision.
    pub fn into_turn(self) -> Result<Turn, Error> {
        match self {
            Self::Failed { kind, message } => Err(Error::new(kind_of(&kind), message)),
            Self::Made { text, content, reasoning, calls, stop, budget, looped, stats } => Ok(Turn {
                parsed: ParsedTurn { content, reasoning, calls, ..ParsedTurn::default() },
                text,
                stop: stop.reason(),
                budget,
                looped,
                decision: None,
                stats: *stats,
            }),
        }
    }
}

impl Stop {
    fn of(stop: &StopReason) -> Self {
        match stop {
            StopReason::Finished => Self::Finished,
            StopReason::Budget => Self::Budget,
            StopReason::StopText(_) => Self::StopText,
            StopReason::MaxTokens => Self::MaxTokens,
            StopReason::ContextFull => Self::ContextFull,
            StopReason::Cancelled | StopReason::SinkStopped => Self::Cancelled,
            _ => Self::End,
        }
    }

    fn reason(self) -> StopReason {
        match self {
            Self::End => StopReason::End,
            Self::Finished => StopReason::Finished,
            Self::Budget => StopReason::Budget,
            Self::StopText => StopReason::StopText(0),
            Self::MaxTokens => StopReason::MaxTokens,
            Self::ContextFull => StopReason::ContextFull,
            Self::Cancelled => StopReason::Cancelled,
        }
    }
}

fn kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Overflow => "overflow",
        Kind::Cancelled => "cancelled",
        Kind::Engine => "engine",
        Kind::Input => "input",
    }
}

fn kind_of(text: &str) -> Kind {
    match text {
        "overflow" => Kind::Overflow,
        "cancelled" => Kind::Cancelled,
        "engine" => Kind::Engine,
        _ => Kind::Input,
    }
}

/// What happens in a turn, and how it ends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EngineEvent {
    Prefill {
        done: usize,
        tokens: usize,
        cached: usize,
    },
    Decided(TurnDecision),
    Text {
        text: String,
    },
    Reasoning {
        text: String,
    },
    CallStarted {
        name: String,
    },
    Arguments {
        text: String,
    },
    CallEnded,
    Recovered {
        text: String,
    },
    Retry {
        why: String,
    },
    /// What is wrong with this call? The turn waits for an [`EngineReply`].
    Question {
        id: String,
        call: ToolCall,
    },
    /// The last one.
    End {
        end: End,
        decision: Option<TurnDecision>,
    },
}

impl EngineEvent {
    /// An event of the engine, but for those that only a record of its tokens has a use for.
    pub fn of(event: TurnEvent) -> Option<Self> {
        Some(match event {
            TurnEvent::Prefill { done, tokens, cached } => Self::Prefill { done, tokens, cached },
            TurnEvent::Decided(decision) => Self::Decided(decision),
            TurnEvent::Text(text) => Self::Text { text },
            TurnEvent::Reasoning(text) => Self::Reasoning { text },
            TurnEvent::CallStarted(name) => Self::CallStarted { name },
            TurnEvent::Arguments(text) => Self::Arguments { text },
            TurnEvent::CallEnded => Self::CallEnded,
            TurnEvent::Recovered(text) => Self::Recovered { text },
            TurnEvent::Retry(why) => Self::Retry { why },
            TurnEvent::Prompted(_) | TurnEvent::Decoded { .. } | TurnEvent::Likelihoods(_) => return None,
        })
    }

    /// How a turn ended.
    pub fn end(turn: &Result<Turn, Error>) -> Self {
        let decision = turn.as_ref().ok().and_then(|turn| turn.decision.clone());
        Self::End { end: End::of(turn), decision }
    }

    /// What this is to whoever asked.
    pub fn heard(self) -> Received {
        Received::Event(match self {
            Self::Prefill { done, tokens, cached } => TurnEvent::Prefill { done, tokens, cached },
            Self::Decided(decision) => TurnEvent::Decided(decision),
            Self::Text { text } => TurnEvent::Text(text),
            Self::Reasoning { text } => TurnEvent::Reasoning(text),
            Self::CallStarted { name } => TurnEvent::CallStarted(name),
            Self::Arguments { text } => TurnEvent::Arguments(text),
            Self::CallEnded => TurnEvent::CallEnded,
            Self::Recovered { text } => TurnEvent::Recovered(text),
            Self::Retry { why } => TurnEvent::Retry(why),
            Self::Question { id, call } => return Received::Question(id, call),
            Self::End { end, decision } => {
                return Received::End(end.into_turn().map(|turn| Turn { decision, ..turn }).map(Box::new));
            }
        })
    }
}

/// A [`EngineEvent`], read.
pub enum Received {
    Event(TurnEvent),
    Question(String, ToolCall),
    End(Result<Box<Turn>, Error>),
}

/// What a check says of a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub fault: Option<Fault>,
}

impl Verdict {
    pub fn of(check: &dyn CallCheck, call: &ToolCall) -> Self {
        Self { fault: check.fault(call) }
    }
}

/// The answer to a [`EngineEvent::Question`].
#[derive(Debug, Serialize, Deserialize)]
pub struct EngineReply {
    pub id: String,
    pub verdict: Verdict,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
    use serde_json::{Map, json};
    use toolgate_chat::{Message, ToolName};

    use super::*;
    use crate::Reasoning;

    struct Known;

    impl CallCheck for Known {
        fn fault(&self, call: &ToolCall) -> Option<Fault> {
            let is_known = call.arguments.get("city") == Some(&json!("Oslo"));
            (!is_known).then(|| Fault { pointer: "/city".into(), why: "not known".into() })
        }
    }

    fn call(city: &str) -> ToolCall {
        ToolCall::new("weather", Map::from_iter([("city".to_owned(), json!(city))]))
    }

    /// Every field of the request comes to the other side: what is printed of both is the same.
    #[test]
    fn a_request_is_the_same_on_the_other_side() {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string", "x-a": 1}}});
        let example = json!({"request": "How is it in Rome?", "arguments": {"city": "Rome"}});
        let function =
            json!({"name": "weather", "description": "d", "parameters": schema, "x-example": example});
        let tools = [ToolSpec::from_openai(&function).unwrap()];
        assert!(tools[0].example.is_some());
        let thought = Message::Assistant {
            content: Some("So.".into()),
            reasoning: Some("Hm.".into()),
            calls: vec![call("Rome")],
        };
        let transcript = Transcript::new().with(Message::User("Weather?".into())).with(thought);
        let sampling = Sampling {
            seed: u64::MAX,
            reasoning: Reasoning::within(9),
            template_values: Map::from_iter([("enable_thinking".to_owned(), json!(true))]),
            ..Sampling::default()
        };
        let completed = [call("Rome")];
        for choice in [
            ToolChoice::Auto,
            ToolChoice::None,
            ToolChoice::Required,
            ToolChoice::Only(vec![ToolName::new("auto").unwrap()]),
        ] {
            let request = TurnRequest {
                choice,
                parallel: NonZeroUsize::new(3),
                completed: &completed,
                check: Some(&Known),
                changed: true,
                pending: true,
                retry: true,
                prior: &[0.1 + 0.2, -1.0],
                closing: true,
                ..TurnRequest::new(&transcript, &tools, &sampling)
            };
            let text = serde_json::to_string(&EngineRequest::of("m", &request)).unwrap();
            let asked: EngineRequest = serde_json::from_str(&text).unwrap();
            assert!(asked.checked);
            let read = asked.tools().unwrap();
            assert_eq!(format!("{:?}", asked.request(&read, Some(&Known))), format!("{request:?}"));
        }
        let wrong = json!({"type": "function", "function": {"name": "<x>"}});
        let request = TurnRequest::new(&transcript, &[], &sampling);
        let asked = EngineRequest { tools: vec![wrong], ..EngineRequest::of("m", &request) };
        assert_eq!(asked.tools().unwrap_err().kind(), Kind::Input);
    }

    #[test]
    fn what_happens_is_heard_as_it_happened() {
        let decision = TurnDecision {
            p_call: 0.5,
            p_think: 0.125,
            undecided: 0.25,
            threshold: 0.1,
            call: true,
            top: vec![("<".into(), 0.5)],
        };
        for event in [
            TurnEvent::Prefill { done: 1, tokens: 3, cached: 1 },
            TurnEvent::Decided(decision.clone()),
            TurnEvent::Text("a".into()),
            TurnEvent::Reasoning("b".into()),
            TurnEvent::CallStarted("c".into()),
            TurnEvent::Arguments("{".into()),
            TurnEvent::CallEnded,
            TurnEvent::Recovered("d".into()),
            TurnEvent::Retry("e".into()),
        ] {
            let text = serde_json::to_string(&EngineEvent::of(event.clone()).unwrap()).unwrap();
            let told: EngineEvent = serde_json::from_str(&text).unwrap();
            let Received::Event(heard) = told.heard() else { panic!("{text}") };
            assert_eq!(format!("{heard:?}"), format!("{event:?}"));
        }
        assert!(EngineEvent::of(TurnEvent::Prompted(vec![1])).is_none());
        let turn = Turn {
            parsed: ParsedTurn { calls: vec![call("Oslo")], ..ParsedTurn::default() },
            text: "<tool_call>".into(),
            stop: StopReason::Budget,
            budget: 9,
            decision: Some(decision),
            looped: true,
            stats: Stats { prompt_tokens: 4, ..Stats::default() },
        };
        let ends = |turn: &Result<Turn, Error>| {
            let text = serde_json::to_string(&EngineEvent::end(turn)).unwrap();
            let Received::End(heard) = serde_json::from_str::<EngineEvent>(&text).unwrap().heard() else {
                panic!("{text}")
            };
            heard
        };
        assert_eq!(format!("{:?}", ends(&Ok(turn.clone())).unwrap()), format!("{turn:?}"));
        let error = ends(&Err(Error::new(Kind::Overflow, "too long"))).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Overflow, "too long"));
    }

    #[test]
    fn a_verdict_tells_what_is_wrong() {
        assert_eq!(Verdict::of(&Known, &call("Oslo")), Verdict::default());
        let verdict = Verdict::of(&Known, &call("Atlantis"));
        assert!(verdict.fault.is_some() && verdict.fault == Known.fault(&call("Atlantis")));
    }
}
