//! How a model is led: the settings that an entry of the catalogue or a measured profile holds.

use serde::{Deserialize, Serialize};
use toolgate_chat::Demonstrations;
use toolgate_infer::{Attention, Placement};

use crate::profile::choice::ChoiceModel;
use crate::profile::decision::DecisionModel;

/// Settings that suit a model; none means the program's own default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Defaults {
    /// Shares of probability on a call's opening from which on a turn is a call.
    pub thresholds: CallThresholds,
    /// What was fitted to decide between call and answer. It wins over the thresholds where it tells one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionModel>,
    /// Whether the model is offered the advanced parameters of tools (`"x-advanced": true`); small ones misuse them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advanced_parameters: Option<bool>,
    /// Whether the memory tools are offered where nothing asks for them; `None` is yes. Small models call a tool
    /// because it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_tools: Option<bool>,
    /// What conversations are begun with; `None` is nothing.
    #[serde(alias = "primer")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demonstrations: Option<Demonstrations>,
    /// What answers after calls are written from; `None` is compact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<Answers>,
    /// How much of the model's bias towards some tools is taken off, 0 (none) to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_bias: Option<f64>,
    /// What else counts in the choice of a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<ChoiceModel>,
    /// How much it counts, in logarithms of probability, that a tool takes what the user named, or does not.
    #[serde(alias = "fit_weight")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prior_weight: Option<f64>,
    /// Calls in one turn at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<u32>,
    /// Tokens of context to allocate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u32>,
    /// Where the weights lie, and what is added to them, unless the caller says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// How contexts are kept, unless the caller says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<Attention>,
}

/// What an answer after calls is written from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answers {
    /// The question and the results.
    Compact,
    /// The same; what it says nothing of follows it.
    Quoted,
    /// The whole conversation, with the tools.
    Full,
    /// Nothing: the results themselves are the answer.
    Results,
}

/// When a turn is a call: shares of probability from 0 (always) to over 1 (never), by what came before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct CallThresholds {
    /// Before any call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<f64>,
    /// After a call that looked at something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_success: Option<f64>,
    /// After a call that changed something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_change: Option<f64>,
    /// After a call that failed or was denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_failure: Option<f64>,
    /// After a call that did not fail, while the request names what no call has taken up.
    #[serde(alias = "while_open")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub while_pending: Option<f64>,
    /// Behind a call of a turn that may hold several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub further: Option<f64>,
    /// For calls of tools that change something: the probability that the request asks for a change, more than 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changing: Option<f64>,
}

impl Defaults {
    /// What is wrong with them, if anything is.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let CallThresholds {
            first,
            after_success,
            after_change,
            after_failure,
            while_pending,
            further,
            changing,
        } = &self.thresholds;
        let all = [first, after_success, after_change, after_failure, while_pending, further, changing];
        if all.into_iter().flatten().any(|share| !(0.0..=2.0).contains(share)) {
            return Err("has a threshold outside 0 to 2");
        }
        if *changing == Some(0.0) {
            return Err("would always make calls that change something");
        }
        if self.tool_bias.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err("has a tool_bias outside 0 to 1");
        }
        if self.choice.is_some_and(|choice| !choice.is_sound()) {
            return Err(
                "has a choice of tools whose weights are no numbers, or one for own, next or change below 0",
            );
        }
        let weights = self.decision.iter().flat_map(|decision| [decision.first, decision.after]).flatten();
        for weights in weights {
            if !weights.is_sound() {
                return Err(
                    "has a decision whose weights are no numbers, one for call below 0, or one for invented above 0",
                );
            }
        }
        Ok(())
    }
}
