//! What finished calls are held to beyond their grammar: the seam to whoever knows the tools.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_chat::ToolCall;

/// Tells whether a finished call fits what its grammar could not hold it to.
///
/// ```
/// use toolgate_engine::{CallCheck, Fault, TurnRequest};
/// use toolgate_chat::ToolCall;
/// # use std::sync::Arc;
/// # use toolgate_engine::{Cancel, Engine, LocalEngine, Options, Sampling};
/// # use toolgate_chat::{Message, ToolSpec, Transcript};
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # let call = |city: &str| {
/// #     format!("<tool_call>\n{{\"name\": \"get_weather\", \"arguments\": {{\"city\": \"{city}\"}}}}\n</tool_call>")
/// # };
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
/// #     .say(call("Atlantis"))
/// #     .or_say(call("Oslo"));
/// # let engine = LocalEngine::scripted(model, Options::default())?;
/// # let parameters = serde_json::json!({
/// #     "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]
/// # });
/// # let tools = [ToolSpec::new("get_weather", "The weather in a city.", parameters)?];
/// # let transcript = Transcript::new().with(Message::User("How is the weather in Atlantis?".into()));
/// # let sampling = Sampling::default();
///
/// struct Known(Vec<&'static str>);
///
/// impl CallCheck for Known {
///     fn fault(&self, call: &ToolCall) -> Option<Fault> {
///         let city = call.arguments.get("city")?.as_str()?;
///         let is_known = self.0.contains(&city);
///         (!is_known).then(|| Fault { pointer: "/city".into(), why: format!("{city} is not known") })
///     }
/// }
///
/// // The model writes Atlantis first, and then what it takes for the next likeliest.
/// let known = Known(vec!["Oslo", "Rome"]);
/// let request = TurnRequest::new(&transcript, &tools, &sampling).check(Some(&known));
/// let turn = engine.turn(&request, &Cancel::default(), &mut |_| {})?;
/// assert_eq!(turn.parsed.calls[0].arguments["city"], "Oslo");
/// assert_eq!(turn.stats.retries, 1);
/// # Ok::<(), toolgate_engine::Error>(())
/// ```
pub trait CallCheck: Sync {
    /// The first thing that is wrong with a call's arguments.
    fn fault(&self, call: &ToolCall) -> Option<Fault>;
}

impl fmt::Debug for dyn CallCheck + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallCheck")
    }
}

/// Something wrong with the arguments of a call, or with an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// JSON pointer of the value to write again; empty for the arguments, or the answer, as a whole.
    pub pointer: String,
    /// What is wrong with it, for a person.
    pub why: String,
}

/// Tells whether a finished answer in JSON fits what its grammar could not hold it to ([`TurnRequest::answer_check`](crate::TurnRequest::answer_check)).
///
/// ```
/// use serde_json::{Value, json};
/// use toolgate_engine::{AnswerCheck, AnswerForm, Fault, TurnRequest};
/// # use std::sync::Arc;
/// # use toolgate_engine::{Cancel, Engine, LocalEngine, Options, Sampling};
/// # use toolgate_chat::{Message, Transcript};
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).say("{\"year\": 1899}").or_say("{\"year\": 1924}");
/// # let engine = LocalEngine::scripted(model, Options::default())?;
/// # let transcript = Transcript::new().with(Message::User("When was it?".into()));
/// # let sampling = Sampling::default();
///
/// struct LeapYear;
///
/// impl AnswerCheck for LeapYear {
///     fn fault(&self, answer: &Value) -> Option<Fault> {
///         let is_leap = answer["year"].as_u64().is_some_and(|year| year % 4 == 0);
///         (!is_leap).then(|| Fault { pointer: "/year".into(), why: "no leap year".into() })
///     }
/// }
///
/// let schema = json!({"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"]});
/// let (answer, answer_check) = (AnswerForm::Json(&schema), Some(&LeapYear as &dyn AnswerCheck));
/// let request = TurnRequest::new(&transcript, &[], &sampling).answer(answer).answer_check(answer_check);
/// let turn = engine.turn(&request, &Cancel::default(), &mut |_| {})?;
/// assert_eq!(turn.parsed.content.as_deref(), Some("{\"year\": 1924}"));
/// # Ok::<(), toolgate_engine::Error>(())
/// ```
pub trait AnswerCheck: Sync {
    /// The first thing that is wrong with an answer.
    fn fault(&self, answer: &Value) -> Option<Fault>;
}

impl fmt::Debug for dyn AnswerCheck + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerCheck")
    }
}
