//! What a text that arrives in pieces turns out to say: the one vocabulary of the families' own readers and the fallback
//! parser.

use crate::model::ToolCall;

/// What a piece of text made certain.
///
/// A call is `CallStarted`, any number of `Arguments`, then `Call`, or `CallBroken` in place of the last.
///
/// ```
/// use toolgate_chat::{Event, fallback::Stream};
/// let mut stream = Stream::new(&[]);
/// let mut events = stream.push(b"It is noon.");
/// events.extend(stream.finish().0);
/// let said = events.into_iter().filter_map(|event| match event {
///     Event::Text(text) => Some(text),
///     _ => None,
/// });
/// assert_eq!(said.collect::<String>(), "It is noon.");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Text that is part of no call.
    Text(String),
    /// What the model thinks before it speaks.
    Reasoning(String),
    /// A call of this tool begins.
    CallStarted(String),
    /// More of the arguments of the call that was started, as JSON. If they are not whole by the time the call is done,
    /// its text had to be mended, and what the call itself says holds.
    Arguments(String),
    /// The call is done.
    Call(ToolCall),
    /// The call that was started cannot be read and is none.
    CallBroken,
    /// Everything so far was reasoning that had begun before the text, and this is all of it; what looked like calls was
    /// part of it.
    Reasoned(String),
}

impl Event {
    /// A call that is known only now that it is done.
    pub(crate) fn whole_call(call: ToolCall) -> [Self; 3] {
        let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
        [Self::CallStarted(call.name.clone()), Self::Arguments(arguments), Self::Call(call)]
    }
}
