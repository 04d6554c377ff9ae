//! A request's fields about thoughts, in the words of each API. The turn finds out how its model is told.
//!
//! Invariant: the server refuses a wish that contradicts another one of the same request, with its JSON
//! pointer.

use serde_json::{Map, Value};
use toolgate_engine::{Effort, Reasoning, ReasoningMode, Sampling};

use super::field::Field;
use super::refusal::Refusal;

/// How much the model is to think.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Wish {
    /// `None` if the request says nothing of it.
    pub(super) reasoning: Option<Reasoning>,
    /// The JSON pointer of the field that asks for thoughts.
    pub(super) at: Option<String>,
}

impl Wish {
    /// The sampling with this wish in it.
    pub(super) fn put(&self, sampling: Sampling) -> Sampling {
        let usual = sampling.reasoning;
        sampling.reasoning(self.reasoning.unwrap_or_default().or(usual))
    }

    /// Adds what a field says.
    fn add(&mut self, field: &Field<'_>, said: Reasoning) -> Result<(), Refusal> {
        let before = self.reasoning.unwrap_or_default();
        let (mode, budget, effort) = (
            joined(decided(before), decided(said)),
            joined(before.budget, said.budget),
            joined(before.effort, said.effort),
        );
        let (Ok(mode), Ok(budget), Ok(effort)) = (mode, budget, effort) else {
            return Err(field.wrong("another field says otherwise of thoughts: send one of both"));
        };
        let mode = mode.unwrap_or_default();
        self.reasoning = Some(Reasoning::default().mode(mode).budget(budget).effort(effort));
        if mode == ReasoningMode::On && self.at.is_none() {
            self.at = Some(field.pointer().to_owned());
        }
        Ok(())
    }
}

/// Whether the model is to think. `None` if the request leaves that open.
fn decided(said: Reasoning) -> Option<ReasoningMode> {
    (said.mode != ReasoningMode::Auto).then_some(said.mode)
}

/// What two fields say of the same. An error if they say different things.
fn joined<T: PartialEq>(one: Option<T>, other: Option<T>) -> Result<Option<T>, ()> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => Err(()),
        (one, other) => Ok(one.or(other)),
    }
}

/// Further names for the most tokens of thought: llama.cpp's, and one of its relatives'.
const BUDGETS: [&str; 2] = ["thinking_budget_tokens", "reasoning_budget_tokens"];

/// Reads `reasoning_effort` of chat completions and `reasoning` of responses, in either API of OpenAI. Other
/// programs add `max_tokens` and `enabled` to the second.
pub(super) fn of_openai(root: &Field<'_>) -> Result<Wish, Refusal> {
    let mut wish = Wish::default();
    let own = root.at("reasoning");
    if own.value().is_some_and(|value| !value.is_object()) {
        return Err(own.wrong("expected an object such as {\"effort\": \"low\"}"));
    }
    for field in [root.at("reasoning_effort"), own.at("effort")] {
        if let Some(word) = field.text()? {
            let said = Reasoning::of_effort(word).map_err(|why| field.wrong(why.to_string()))?;
            wish.add(&field, said)?;
        }
    }
    let budgets = [own.at("max_tokens")].into_iter().chain(BUDGETS.map(|name| root.at(name)));
    for field in budgets {
        if let Some(said) = budget(&field)? {
            wish.add(&field, said)?;
        }
    }
    let enabled = own.at("enabled");
    if let Some(is_on) = enabled.boolean()? {
        wish.add(&enabled, if is_on { Reasoning::ON } else { Reasoning::OFF })?;
    }
    if own.at("exclude").boolean()?.unwrap_or(false) {
        own.at("exclude").warn("thoughts are part of the answer here: they are not left out");
    }
    Ok(wish)
}

/// A number of tokens. -1 asks for no bound.
fn budget(field: &Field<'_>) -> Result<Option<Reasoning>, Refusal> {
    match field.integer()? {
        None | Some(-1) => Ok(None),
        Some(tokens) => match usize::try_from(tokens) {
            Ok(tokens) => Ok(Some(Reasoning::within(tokens))),
            Err(_) => Err(field.wrong("expected a number of tokens, or -1 for no bound")),
        },
    }
}

/// Reads `thinking` of Anthropic's API and the effort beside it. That API takes no budget below 1,024 tokens,
/// and none that reaches `max_tokens`. Here the first is fine, and the second brings a warning.
pub(super) fn of_anthropic(root: &Field<'_>) -> Result<Wish, Refusal> {
    let mut wish = Wish::default();
    let thinking = root.at("thinking");
    if thinking.is_there() {
        match thinking.kind()? {
            "disabled" => wish.add(&thinking, Reasoning::OFF)?,
            "enabled" => wish.add(&thinking, Reasoning::ON.budget(bounded(&thinking, root)?))?,
            // The model decides, as its profile and its template say.
            "adaptive" => {}
            _ => {
                let message = "expected \"enabled\", \"disabled\" or \"adaptive\"";
                return Err(thinking.at("type").wrong(message));
            }
        }
    }
    let effort = root.at("output_config").at("effort");
    if let Some(word) = effort.text()? {
        let known = effort_of(word)
            .ok_or_else(|| effort.wrong("expected \"low\", \"medium\", \"high\", \"xhigh\" or \"max\""))?;
        // If the model is not to think, the effort says how long the answer is.
        if wish.reasoning.is_none_or(|said| said.mode != ReasoningMode::Off) {
            wish.add(&effort, Reasoning::default().effort(Some(known)))?;
        }
    }
    Ok(wish)
}

/// The budget of thoughts that are on.
fn bounded(thinking: &Field<'_>, root: &Field<'_>) -> Result<Option<usize>, Refusal> {
    let field = thinking.at("budget_tokens");
    let budget = field.count()?;
    let most = root.at("max_tokens").bound()?;
    match (budget, most) {
        (None, _) => field.warn("budget_tokens is missing: thoughts may have half of the turn's tokens"),
        (Some(budget), Some(most)) if budget >= most => {
            field.warn("budget_tokens is not below max_tokens: thoughts end earlier, so that there is room for the answer");
        }
        _ => {}
    }
    Ok(budget)
}

fn effort_of(word: &str) -> Option<Effort> {
    match word {
        "max" => Some(Effort::XHigh),
        "minimal" => None,
        _ => Effort::ALL.into_iter().find(|effort| effort.as_str() == word),
    }
}

/// Variables of the chat template, as vLLM and llama.cpp take them in every API.
pub(super) fn template_values(root: &Field<'_>) -> Result<Map<String, Value>, Refusal> {
    let field = root.at("chat_template_kwargs");
    match field.value() {
        None => Ok(Map::new()),
        Some(Value::Object(values)) => Ok(values.clone()),
        Some(_) => Err(field.wrong("expected an object with a value for each variable of the chat template")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    type Read = fn(&Field<'_>) -> Result<Wish, Refusal>;

    fn check(read: Read, body: &Value, wanted: Option<Reasoning>) {
        let wish = read(&Field::root(body)).unwrap();
        assert_eq!(wish.reasoning, wanted, "{body}");
        let is_asked = wanted.is_some_and(|said| said.mode == ReasoningMode::On);
        assert_eq!(wish.at.is_some(), is_asked, "{body}");
    }

    fn refused(read: Read, body: &Value, pointer: &str, word: &str) {
        let refusal = read(&Field::root(body)).unwrap_err();
        assert_eq!(refusal.pointer.as_deref(), Some(pointer), "{body}");
        assert!(refusal.message.contains(word), "{}", refusal.message);
    }

    #[test]
    fn thoughts_are_asked_for_in_the_words_of_openai_and_its_relatives() {
        let low = Reasoning::ON.effort(Some(Effort::Low));
        for (body, wanted) in [
            (json!({}), None),
            (json!({"reasoning": {"summary": "auto"}, "reasoning_effort": null}), None),
            (json!({"reasoning_effort": "none"}), Some(Reasoning::OFF)),
            (json!({"reasoning_effort": "low"}), Some(low)),
            (json!({"reasoning": {"effort": "low"}, "reasoning_effort": "low"}), Some(low)),
            (json!({"reasoning": {"effort": "low", "max_tokens": 9}}), Some(low.budget(Some(9)))),
            (json!({"reasoning": {"enabled": true}}), Some(Reasoning::ON)),
            (json!({"reasoning": {"enabled": false}}), Some(Reasoning::OFF)),
            (json!({"thinking_budget_tokens": 300}), Some(Reasoning::within(300))),
            (json!({"reasoning_budget_tokens": 0}), Some(Reasoning::OFF)),
            (json!({"thinking_budget_tokens": -1}), None),
        ] {
            check(of_openai, &body, wanted);
        }
    }

    #[test]
    fn what_is_no_word_for_thoughts_is_refused_with_those_that_are() {
        for (body, pointer, word) in [
            (json!({"reasoning_effort": "most"}), "/reasoning_effort", "\"minimal\""),
            (json!({"reasoning_effort": 3}), "/reasoning_effort", "a text"),
            (json!({"reasoning": {"effort": "most"}}), "/reasoning/effort", "\"xhigh\""),
            (json!({"reasoning": "low"}), "/reasoning", "an object"),
            (json!({"thinking_budget_tokens": -2}), "/thinking_budget_tokens", "-1"),
        ] {
            refused(of_openai, &body, pointer, word);
        }
        for (body, pointer) in [
            (json!({"reasoning_effort": "low", "reasoning": {"effort": "high"}}), "/reasoning/effort"),
            (json!({"reasoning_effort": "none", "reasoning": {"enabled": true}}), "/reasoning/enabled"),
            (json!({"reasoning": {"max_tokens": 9}, "thinking_budget_tokens": 8}), "/thinking_budget_tokens"),
        ] {
            refused(of_openai, &body, pointer, "one of both");
        }
    }

    #[test]
    fn thinking_is_read_with_its_budget_and_the_effort_beside_it() {
        let high = Reasoning::default().effort(Some(Effort::High));
        for (body, wanted) in [
            (json!({}), None),
            (json!({"thinking": {"type": "disabled"}}), Some(Reasoning::OFF)),
            (json!({"thinking": {"type": "adaptive"}}), None),
            (
                json!({"thinking": {"type": "enabled", "budget_tokens": 16}, "max_tokens": 99}),
                Some(Reasoning::within(16)),
            ),
            (json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}), Some(high)),
            (
                json!({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}),
                Some(Reasoning::OFF),
            ),
            (
                json!({"output_config": {"effort": "max"}}),
                Some(Reasoning::default().effort(Some(Effort::XHigh))),
            ),
        ] {
            check(of_anthropic, &body, wanted);
        }
        for (body, pointer, word) in [
            (json!({"thinking": {"type": "on"}}), "/thinking/type", "\"adaptive\""),
            (json!({"thinking": {}}), "/thinking/type", "missing"),
            (
                json!({"thinking": {"type": "enabled", "budget_tokens": 0}}),
                "/thinking/budget_tokens",
                "at least 1",
            ),
            (json!({"output_config": {"effort": "minimal"}}), "/output_config/effort", "\"max\""),
        ] {
            refused(of_anthropic, &body, pointer, word);
        }
    }

    #[test]
    fn a_budget_that_leaves_no_room_for_the_answer_is_told() {
        for (budget, is_told) in [(json!(98), false), (json!(99), true), (Value::Null, true)] {
            let body = json!({"thinking": {"type": "enabled", "budget_tokens": budget}, "max_tokens": 99});
            let root = Field::root(&body);
            assert_eq!(of_anthropic(&root).unwrap().reasoning.unwrap().mode, ReasoningMode::On);
            assert_eq!(!root.warnings().is_empty(), is_told, "{body}");
        }
    }

    #[test]
    fn variables_of_the_template_are_an_object() {
        let body = json!({"chat_template_kwargs": {"enable_thinking": false}});
        assert_eq!(template_values(&Field::root(&body)).unwrap().len(), 1);
        let body = json!({"chat_template_kwargs": ["enable_thinking"]});
        let refusal = template_values(&Field::root(&body)).unwrap_err();
        assert_eq!(refusal.pointer.as_deref(), Some("/chat_template_kwargs"));
    }
}
