//! The requests of `data/decision`, as turns of an engine.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate_chat::{Effect, Message, ToolCall, ToolReply, ToolSpec, Transcript};

use crate::jsonl::{Jsonl, Row};

const REQUESTS: &str = include_str!("../../data/decision/requests.jsonl");
const SETS: &str = include_str!("../../data/decision/toolsets.json");
const IMPOSSIBLE: &str = include_str!("../../data/decision/impossible.jsonl");

/// What a run has come to in front of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Nothing was called.
    First,
    /// Calls looked at something.
    AfterSuccess,
    /// A call failed.
    AfterFailure,
    /// A call changed something.
    AfterChange,
}

/// What the sets of tools are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Split {
    /// To find weights with.
    Fit,
    /// To see what they are worth.
    Check,
}

/// A request, and whether a call is wanted next.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) id: String,
    pub(crate) set: String,
    pub(crate) language: String,
    pub(crate) state: State,
    pub(crate) request: String,
    history: Vec<Step>,
    /// Whether a tool is needed next.
    pub(crate) call: bool,
    /// The right tool.
    pub(crate) tool: Option<String>,
    /// All right ones, where there are several.
    #[serde(default)]
    tools: Vec<String>,
    /// What it is about: `change` where something is to be changed.
    wants: String,
    pub(crate) split: Split,
}

#[derive(Clone, Debug, Deserialize)]
struct Step {
    tool: String,
    arguments: Map<String, Value>,
    result: String,
    is_error: bool,
}

#[derive(Deserialize)]
struct Set {
    name: String,
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    description: String,
    parameters: Value,
    effect: String,
    example: Option<Example>,
}

/// A request and the arguments of the call that it wants.
#[derive(Deserialize)]
struct Example {
    request: String,
    arguments: Value,
}

#[derive(Deserialize)]
struct Impossible {
    request: String,
}

/// All of it.
pub(crate) struct Data {
    pub(crate) requests: Vec<Wanted>,
    /// Requests that nothing without tools can meet.
    pub(crate) impossible: Vec<String>,
    sets: BTreeMap<String, Vec<ToolSpec>>,
}

impl Data {
    /// Reads it.
    ///
    /// # Errors
    /// A line that is none, and a request whose tools are not there.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let sets: Vec<Set> = serde_json::from_str(SETS)?;
        let sets: BTreeMap<String, Vec<ToolSpec>> =
            sets.into_iter().map(|set| Ok((set.name, specs(set.tools)?))).collect::<anyhow::Result<_>>()?;
        let requests: Vec<Wanted> = lines("requests.jsonl", REQUESTS)?;
        if let Some(lost) = requests.iter().find(|request| !sets.contains_key(&request.set)) {
            bail!("{} is of no set of tools: {}", lost.id, lost.set);
        }
        let impossible = lines::<Impossible>("impossible.jsonl", IMPOSSIBLE)?;
        let impossible = impossible.into_iter().map(|asked| asked.request).collect();
        Ok(Self { requests, impossible, sets })
    }

    /// The tools of a set.
    pub(crate) fn tools(&self, set: &str) -> &[ToolSpec] {
        self.sets.get(set).map_or(&[], Vec::as_slice)
    }

    /// The tools of each set.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &[ToolSpec]> {
        self.sets.values().map(Vec::as_slice)
    }
}

impl Wanted {
    /// Whether a tool is a right one.
    pub(crate) fn is_right(&self, tool: &str) -> bool {
        self.tool.as_deref() == Some(tool) || self.tools.iter().any(|right| right == tool)
    }

    /// Whether it asks for a change, here or of what no tool can change.
    pub(crate) fn is_change(&self) -> bool {
        self.wants == "change"
    }

    /// Whether no tool can do what it asks for.
    pub(crate) fn is_impossible(&self) -> bool {
        self.wants == "impossible"
    }

    /// The conversation in front of the turn.
    pub(crate) fn transcript(&self) -> Transcript {
        let mut transcript = Transcript::new().with(Message::User(self.request.clone()));
        for step in &self.history {
            let call = ToolCall::new(step.tool.as_str(), step.arguments.clone());
            let reply = ToolReply { is_error: step.is_error, ..ToolReply::ok(&call, step.result.as_str()) };
            transcript.push(Message::calls([call]));
            transcript.push(Message::Tool(vec![reply]));
        }
        transcript
    }
}

fn specs(tools: Vec<Tool>) -> anyhow::Result<Vec<ToolSpec>> {
    let spec = |tool: Tool| {
        let effect = if tool.effect == "changes" { Effect::Changes } else { Effect::Reads };
        let spec = ToolSpec::new(&tool.name, tool.description, tool.parameters)?.with_effect(effect);
        Ok(match tool.example {
            Some(Example { request, arguments }) => spec.with_example(&request, arguments),
            None => spec,
        })
    };
    tools.into_iter().map(spec).collect()
}

fn lines<T: for<'de> Deserialize<'de>>(name: &str, text: &str) -> anyhow::Result<Vec<T>> {
    let file = Jsonl::within(name, text);
    let read = |row: anyhow::Result<Row>| {
        let (place, value) = row?.into_parts();
        serde_json::from_value(value).context(place)
    };
    file.rows().map(read).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_data_has_enough_of_each_kind_and_keeps_its_splits_apart() {
        let data = Data::read().unwrap();
        assert!(data.requests.len() >= 400 && data.impossible.len() >= 8);
        let ids: BTreeSet<&str> = data.requests.iter().map(|request| request.id.as_str()).collect();
        assert_eq!(ids.len(), data.requests.len());
        let languages: BTreeSet<&str> =
            data.requests.iter().map(|request| request.language.as_str()).collect();
        assert!(languages.len() >= 8, "{languages:?}");
        let sets = |split| -> BTreeSet<&str> {
            let of = data.requests.iter().filter(|request| request.split == split);
            of.map(|request| request.set.as_str()).collect()
        };
        assert!(sets(Split::Fit).is_disjoint(&sets(Split::Check)));
        for split in [Split::Fit, Split::Check] {
            for state in [State::First, State::AfterSuccess, State::AfterFailure, State::AfterChange] {
                let calls = |call| {
                    let of = |request: &&Wanted| {
                        request.split == split && request.state == state && request.call == call
                    };
                    data.requests.iter().filter(of).count()
                };
                assert!(calls(true) >= 5 && calls(false) >= 5, "{split:?} {state:?}");
            }
        }
    }

    #[test]
    fn steps_in_front_of_a_turn_call_tools_of_the_set() {
        let data = Data::read().unwrap();
        for request in &data.requests {
            let tools = &data.sets[&request.set];
            assert!(tools.len() >= 2 || request.state == State::First && !tools.is_empty(), "{}", request.id);
            let is_known = |step: &Step| tools.iter().any(|tool| tool.name.as_str() == step.tool);
            assert!(request.history.iter().all(is_known), "{}", request.id);
            assert_eq!(request.state == State::First, request.history.is_empty(), "{}", request.id);
        }
    }
}
