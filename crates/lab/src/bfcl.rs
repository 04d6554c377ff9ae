//! Questions of the Berkeley Function-Calling Leaderboard: tools, a conversation, and the calls that count as right.
//!
//! The rules are those of the leaderboard's own checker (`ast_checker` of `bfcl_eval`): names must be equal, every
//! required parameter there and no unknown one, and each value among those accepted; texts are compared without
//! case, blanks and some punctuation, and an integer does where a number is wanted.

use serde::Deserialize;
use serde_json::{Map, Value};
use toolgate_chat::{Effect, Message, ToolSpec, Transcript};

use super::check::{Verdict, close};
use super::record::Call;
use toolgate_agent::Error;

/// A question with its answer.
///
/// ```
/// use serde_json::json;
/// use toolgate_lab::{Call, Question};
///
/// let parameters = json!({"type": "object", "required": ["city"],
///     "properties": {"city": {"type": "string"}, "unit": {"type": "string"}}});
/// let question: Question = serde_json::from_value(json!({
///     "id": "simple-1", "category": "simple",
///     "messages": [{"role": "user", "content": "Is it warm in Oslo?"}],
///     "tools": [{"type": "function", "function": {"name": "weather.get", "parameters": parameters}}],
///     "expect": "calls",
///     "ground_truth": [{"weather.get": {"city": ["Oslo", "Oslo, Norway"], "unit": ["celsius", ""]}}],
/// }))?;
/// let arguments = [("city".to_owned(), json!("oslo norway"))].into_iter().collect();
/// let call = Call { name: "weather.get".into(), arguments, ok: true };
/// assert_eq!(question.specs()?[0].name.as_str(), "weather.get");
/// assert_eq!(question.transcript()?.messages().len(), 1);
/// assert!(question.check(&[call]).pass);
/// assert_eq!(question.check(&[]).reasons, ["made 0 calls where 1 were wanted"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Deserialize)]
pub struct Question {
    /// Its name, unique in its file.
    pub id: String,
    /// The group it is counted in.
    pub category: String,
    /// The conversation, as `{"role", "content"}`.
    pub messages: Vec<Said>,
    /// The tools, in OpenAI form; names may contain dots.
    pub tools: Vec<Value>,
    /// What the turn must be.
    pub expect: Expected,
    /// For each call its name, and for each parameter the values that are accepted; `""` may be left out.
    pub ground_truth: Option<Vec<Map<String, Value>>>,
}

/// A message of a question.
#[derive(Clone, Debug, Deserialize)]
pub struct Said {
    role: String,
    content: String,
}

impl Said {
    /// What was said.
    pub(super) fn content(&self) -> &str {
        &self.content
    }
}

/// What a question's turn must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// The calls of the ground truth.
    Calls,
    /// An answer.
    NoCall,
    /// A call, whichever.
    AtLeastOneCall,
}

impl Question {
    /// The definitions.
    ///
    /// # Errors
    /// A definition that cannot be used.
    pub fn specs(&self) -> Result<Vec<ToolSpec>, Error> {
        // Nothing runs them, so a call changes nothing.
        let reads = |tool| Ok(ToolSpec::from_any(tool)?.with_effect(Effect::Reads));
        self.tools.iter().map(reads).collect()
    }

    /// The conversation.
    ///
    /// # Errors
    /// A role other than system, user and assistant.
    pub fn transcript(&self) -> Result<Transcript, Error> {
        let mut transcript = Transcript::new();
        for Said { role, content } in &self.messages {
            transcript.push(match role.as_str() {
                "system" => Message::System(content.clone()),
                "user" => Message::User(content.clone()),
                "assistant" => Message::answer(content.clone()),
                other => return Err(Error::input(format!("unknown role \"{other}\""))),
            });
        }
        Ok(transcript)
    }

    /// Decides about the calls of a turn.
    pub fn check(&self, calls: &[Call]) -> Verdict {
        let wrong = match self.expect {
            Expected::NoCall if !calls.is_empty() => vec!["made a call where none was wanted".to_owned()],
            Expected::AtLeastOneCall if calls.is_empty() => vec!["made no call".to_owned()],
            Expected::Calls => self.wrong_calls(calls),
            _ => Vec::new(),
        };
        Verdict::of(wrong, Vec::new(), Vec::new())
    }

    /// Each wanted call must be matched by a call of its own, in any order.
    fn wrong_calls(&self, calls: &[Call]) -> Vec<String> {
        let wanted = self.ground_truth.as_deref().unwrap_or_default();
        if wanted.len() != calls.len() {
            return vec![format!("made {} calls where {} were wanted", calls.len(), wanted.len())];
        }
        let mut left: Vec<&Call> = calls.iter().collect();
        let mut wrong = Vec::new();
        for want in wanted {
            let reasons: Vec<Result<(), String>> = left.iter().map(|call| self.fits(want, call)).collect();
            match reasons.iter().position(Result::is_ok) {
                Some(i) => {
                    left.remove(i);
                }
                None => wrong.extend(reasons.into_iter().filter_map(Result::err).take(1)),
            }
        }
        wrong
    }

    fn fits(&self, want: &Map<String, Value>, call: &Call) -> Result<(), String> {
        let Some((name, Value::Object(accepted))) = want.iter().next() else {
            return Err("the ground truth holds no call".to_owned());
        };
        if call.name != *name {
            return Err(format!("called {} where {name} was wanted", call.name));
        }
        let schema = self.parameters(name);
        let required = schema.and_then(|s| s.get("required")).and_then(Value::as_array);
        for parameter in required.into_iter().flatten().filter_map(Value::as_str) {
            if !call.arguments.contains_key(parameter) {
                return Err(format!("{name} lacks {parameter}"));
            }
        }
        for (parameter, value) in &call.arguments {
            let Some(options) = accepted.get(parameter).and_then(Value::as_array) else {
                return Err(format!("{name} has no parameter {parameter}"));
            };
            if !options.iter().any(|option| equal(option, value)) {
                return Err(format!(
                    "{name}: {parameter} is {value}, accepted are {}",
                    Value::from(options.clone())
                ));
            }
        }
        let left_out = accepted.iter().find(|(parameter, options)| {
            !call.arguments.contains_key(*parameter) && !may_be_left_out(options)
        });
        left_out.map_or(Ok(()), |(parameter, _)| Err(format!("{name} lacks {parameter}")))
    }

    fn parameters(&self, name: &str) -> Option<&Value> {
        let functions = self.tools.iter().filter_map(|tool| tool.get("function"));
        functions
            .filter(|f| f.get("name").and_then(Value::as_str) == Some(name))
            .find_map(|f| f.get("parameters"))
    }
}

fn may_be_left_out(options: &Value) -> bool {
    options.as_array().is_some_and(|options| options.iter().any(|option| option == ""))
}

/// Whether a value is the accepted one.
fn equal(accepted: &Value, value: &Value) -> bool {
    match (accepted, value) {
        (Value::String(accepted), Value::String(value)) => plain(accepted) == plain(value),
        (Value::Number(accepted), Value::Number(value)) => close(accepted.as_f64(), value.as_f64()),
        (Value::Array(accepted), Value::Array(value)) => {
            accepted.len() == value.len() && accepted.iter().zip(value).all(|(a, v)| equal(a, v))
        }
        // Inside an object, each member has a list of accepted values of its own.
        (Value::Object(accepted), Value::Object(value)) => {
            let known = value.iter().all(|(key, value)| {
                accepted
                    .get(key)
                    .and_then(Value::as_array)
                    .is_some_and(|options| options.iter().any(|option| equal(option, value)))
            });
            known && accepted.iter().all(|(key, options)| value.contains_key(key) || may_be_left_out(options))
        }
        (accepted, value) => accepted == value,
    }
}

/// Text as the leaderboard compares it.
fn plain(text: &str) -> String {
    let dropped = |c: &char| !matches!(c, ' ' | ',' | '.' | '/' | '-' | '_' | '*' | '^');
    text.chars()
        .filter(dropped)
        .flat_map(char::to_lowercase)
        .map(|c| if c == '\'' { '"' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use serde_json::json;

    fn question(expect: &str, truth: Value) -> Question {
        let parameters = json!({"type": "object", "required": ["city"], "properties": {
            "city": {"type": "string"}, "days": {"type": "number"}, "options": {"type": "object"}}});
        serde_json::from_value(json!({
            "id": "q", "category": "c", "messages": [{"role": "user", "content": "?"}],
            "tools": [{"type": "function", "function": {"name": "get.weather", "parameters": parameters}}],
            "expect": expect, "ground_truth": truth,
        }))
        .unwrap()
    }

    fn calls(calls: &[Value]) -> Vec<Call> {
        let call = |arguments: &Value| Call {
            name: "get.weather".into(),
            arguments: arguments.as_object().unwrap().clone(),
            ok: true,
        };
        calls.iter().map(call).collect()
    }

    #[test]
    fn values_are_compared_as_the_leaderboard_does() {
        let truth = json!([{"get.weather": {"city": ["Paris, France"], "days": [3, ""],
            "options": [{"unit": ["c", ""]}, ""]}}]);
        let question = question("calls", truth);
        for (arguments, pass) in [
            (json!({"city": "paris france"}), true),
            (json!({"city": "Paris, France", "days": 3.0}), true),
            (json!({"city": "Paris, France", "days": 4}), false),
            (json!({"city": "Paris, France", "days": "3"}), false),
            (json!({"days": 3}), false),
            (json!({"city": "Paris, France", "zone": 1}), false),
            (json!({"city": "Paris, France", "options": {}}), true),
            (json!({"city": "Paris, France", "options": {"unit": "C"}}), true),
            (json!({"city": "Paris, France", "options": {"unit": "k"}}), false),
        ] {
            assert_eq!(question.check(&calls(std::slice::from_ref(&arguments))).pass, pass, "{arguments}");
        }
    }

    #[test]
    fn parallel_calls_come_in_any_order_and_each_counts_once() {
        let truth = json!([{"get.weather": {"city": ["Rome"]}}, {"get.weather": {"city": ["Oslo"]}}]);
        let question = question("calls", truth);
        let [rome, oslo] = [json!({"city": "Rome"}), json!({"city": "Oslo"})];
        assert!(question.check(&calls(&[oslo.clone(), rome.clone()])).pass);
        assert!(!question.check(&calls(&[rome.clone(), rome.clone()])).pass);
        assert!(!question.check(&calls(&[oslo])).pass);
    }

    #[test]
    fn relevance_asks_only_whether_there_is_a_call() {
        let any = calls(&[json!({"city": "x"})]);
        assert!(question("no_call", Value::Null).check(&[]).pass);
        assert!(!question("no_call", Value::Null).check(&any).pass);
        assert!(question("at_least_one_call", Value::Null).check(&any).pass);
        assert!(!question("at_least_one_call", Value::Null).check(&[]).pass);
    }
}
