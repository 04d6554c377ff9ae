//! Transcript and tools to the prompt a model reads, in its own template and with contents kept from being markup.
//!
//! Invariant: only the template and this crate write markup; nothing a user, a tool or a model said can.

mod marks;
mod thoughts;

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::format::{self, Derived, ToolFormat};
use crate::guard::Guard;
use crate::json;
use crate::language;
use crate::model::{Message, ToolCall, ToolReply, Transcript};
use crate::notes::without_notes;
use crate::reasoning::{Marks, ReasoningSupport};
use crate::spec::ToolSpec;
use crate::template::{DateTime, Ending, Render, Template};

/// How a model is talked to: its template, the family of its calls, and the texts of its special tokens.
///
/// ```
/// # use toolgate_chat::{Dialogue, Message, PromptOptions, Template, TemplateTokens, Transcript};
/// let source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
/// let dialogue = Dialogue::derived(Template::new(source, TemplateTokens::default())?).guarding(["<end>"]);
/// let transcript = Transcript::new().with(Message::User("is <end> a tag?".into()));
/// let prompt = dialogue.prompt(&transcript, &[], &PromptOptions::default())?;
/// assert_eq!(prompt.text(), "<user>is <end> a tag?<end><assistant>");
/// assert_eq!(prompt.pieces, ["<user>is <", "end> a tag?<end><assistant>"]);
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dialogue {
    template: Template,
    derived: Derived,
    guarded: Vec<String>,
    reasoning: Arc<OnceLock<ReasoningSupport>>,
}

/// How to render.
///
/// ```
/// use serde_json::json;
/// use toolgate_chat::{Dialogue, Message, PromptOptions, Template, TemplateTokens, Transcript};
/// let source = "{% for m in messages %}{{ m.content }}{% endfor %}{% if brief %} Be brief.{% endif %}";
/// let dialogue = Dialogue::derived(Template::new(source, TemplateTokens::default())?);
/// let transcript = Transcript::new().with(Message::User("Hello!".to_owned()));
/// let options = PromptOptions { extra: json!({"brief": true}), ..PromptOptions::default() };
/// assert_eq!(dialogue.prompt(&transcript, &[], &options)?.text(), "Hello! Be brief.");
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PromptOptions {
    /// How the prompt ends; by default with the opening of the model's turn.
    pub ending: Ending,
    /// The time the template may tell; `None` is the present one, in UTC. Prompts are reused only while it stays the same.
    pub now: Option<DateTime>,
    /// Further template variables, such as `enable_thinking`; an object or null.
    pub extra: Value,
    /// What becomes of reasoning that the template opens at the end of a prompt.
    pub reasoning: Opened,
    /// What the model has said of its answer already: the prompt ends with it, behind what the family writes in front of an answer, and
    /// reasoning is over.
    pub begun: Option<String>,
}

/// What becomes of reasoning that the template opens.
///
/// ```
/// use toolgate_chat::{Dialogue, Message, Opened, PromptOptions, Template, TemplateTokens, Transcript};
/// let source = "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<think>{% endif %}";
/// let dialogue = Dialogue::derived(Template::new(source, TemplateTokens::default())?);
/// let transcript = Transcript::new().with(Message::User("Hello!".to_owned()));
/// let closed = dialogue.prompt(&transcript, &[], &PromptOptions::default())?;
/// assert_eq!(closed.text(), "Hello!<think>\n</think>\n\n");
/// let options = PromptOptions { reasoning: Opened::Keep, ..PromptOptions::default() };
/// assert_eq!(dialogue.prompt(&transcript, &[], &options)?.text(), "Hello!<think>");
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Opened {
    /// It is closed at once: the model's text begins with its call or answer.
    #[default]
    Close,
    /// It stays open: the model's text begins inside it (see [`Derived::opens_reasoning`] and
    /// [`Start::Reasoning`](crate::format::Start::Reasoning)).
    Keep,
}

impl Default for PromptOptions {
    fn default() -> Self {
        let ending = Ending::Generation;
        Self { ending, now: None, extra: Value::Null, reasoning: Opened::Close, begun: None }
    }
}

/// Text for a tokenizer that reads special tokens in it, piece by piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// To be tokenized one by one, with special tokens read, and joined as tokens: a cut falls in the middle of each
    /// text that looks like a special token and is not.
    pub pieces: Vec<String>,
    /// The marks of the thought within which it ends; none where it ends within none.
    pub thought: Option<Marks>,
}

impl Prompt {
    /// The whole text.
    pub fn text(&self) -> String {
        self.pieces.concat()
    }
}

/// How a run came to its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunEnd {
    /// Before the model would have ended it.
    pub closing: bool,
    /// With calls that changed something.
    pub changed: bool,
}

impl Dialogue {
    /// A dialogue in a given family. Where the template does not speak it, tools and results are written by us.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_chat::{Dialogue, Template, TemplateTokens, format::Family};
    /// let source = "{% for m in messages %}{{ m.content }}{% endfor %}";
    /// let template = Template::new(source, TemplateTokens::default())?;
    /// let dialogue = Dialogue::new(template, Arc::new(Family::hermes()));
    /// assert_eq!(dialogue.format().name(), "hermes");
    /// assert_eq!(dialogue.template().source(), source);
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn new(template: Template, format: Arc<dyn ToolFormat>) -> Self {
        let mut derived = format::derive(&template);
        if derived.format.name() != format.name() {
            derived.why = format!("asked for, in place of {}", derived.format.name());
            derived.knows_tools = false;
            derived.knows_results = false;
        }
        derived.format = format;
        Self::assemble(template, derived)
    }

    /// A dialogue in the family the template itself speaks.
    pub fn derived(template: Template) -> Self {
        let derived = format::derive(&template);
        Self::assemble(template, derived)
    }

    /// The same dialogue with the texts of the model's special tokens kept from being tokens in any message.
    #[must_use]
    pub fn guarding(mut self, specials: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.guarded.extend(specials.into_iter().map(Into::into).filter(|text| !text.is_empty()));
        self.guarded.sort_unstable();
        self.guarded.dedup();
        self
    }

    /// The family of its calls.
    pub fn format(&self) -> &Arc<dyn ToolFormat> {
        &self.derived.format
    }

    /// What the template was found to know.
    ///
    /// ```
    /// use toolgate_chat::{Dialogue, Template, TemplateTokens};
    /// let source = "{% for m in messages %}{{ m.content }}{% endfor %}";
    /// let dialogue = Dialogue::derived(Template::new(source, TemplateTokens::default())?);
    /// assert!(!dialogue.knowledge().knows_tools, "tools are described in the system prompt");
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn knowledge(&self) -> &Derived {
        &self.derived
    }

    /// What the template says about thinking; learned when it is first asked for.
    ///
    /// ```
    /// use toolgate_chat::{Dialogue, Template, TemplateTokens};
    /// let source = "{% for m in messages %}{{ m.content }}{% endfor %}{% if thinking %}<think>{% endif %}";
    /// let dialogue = Dialogue::derived(Template::new(source, TemplateTokens::default())?);
    /// let support = dialogue.reasoning_support();
    /// assert!(support.switch("thinking").is_some() && !support.is_empty());
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn reasoning_support(&self) -> &ReasoningSupport {
        self.reasoning.get_or_init(|| ReasoningSupport::learn(&self.template))
    }

    /// The template.
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// The prompt for the next turn.
    ///
    /// System messages are the program's own and are taken as they are; every other text is content.
    ///
    /// # Errors
    /// [`Kind::Template`](crate::Kind::Template) if the template refuses the conversation.
    pub fn prompt(
        &self,
        transcript: &Transcript,
        tools: &[ToolSpec],
        options: &PromptOptions,
    ) -> Result<Prompt, Error> {
        // Every text of the conversation is in its JSON form; private characters are not escaped there.
        let shown: Vec<Value> = tools.iter().map(ToolSpec::shown).collect();
        let inputs = [
            json::spaced(&serde_json::to_value(transcript).unwrap_or_default()),
            json::spaced(&Value::Array(shown.clone())),
            json::spaced(&options.extra),
            options.begun.clone().unwrap_or_default(),
        ];
        let guard =
            Guard::new(&self.guarded, inputs.iter().map(String::as_str).chain([self.template.source()]));
        let mut messages = Vec::new();
        let mut numbers = CallNumbers::default();
        for message in transcript {
            self.push(message, tools, &guard, &mut numbers, &mut messages);
        }
        let shown: Vec<Value> = if self.derived.knows_tools {
            shown.iter().map(|tool| guard.value(tool)).collect()
        } else {
            if !tools.is_empty() {
                let guarded: Vec<ToolSpec> = tools.iter().map(|tool| guarded_spec(tool, &guard)).collect();
                add_to_system(&mut messages, &self.derived.format.instructions(&guarded));
            }
            Vec::new()
        };
        if !self.derived.knows_system {
            fold_system(&mut messages);
        }
        let render = |tools: &[Value]| {
            let extra = options.extra.clone();
            self.template.render(&Render {
                messages: &messages,
                tools,
                ending: options.ending,
                now: options.now,
                extra,
            })
        };
        // Some templates fail where a parameter says less than theirs did.
        let rendered = render(&shown).or_else(|error| match shown.as_slice() {
            [] => Err(error),
            tools => render(&tools.iter().map(described).collect::<Vec<_>>()).map_err(|_| error),
        })?;
        let thought =
            (options.ending == Ending::Generation).then(|| self.thought_at_end(&rendered)).flatten();
        let mut prompt = Prompt { pieces: guard.pieces(&rendered), thought };
        if options.reasoning == Opened::Close || options.begun.is_some() {
            let close = prompt.thought.take().map(|marks| format!("\n{}\n\n", marks.close));
            prompt.pieces.extend(close);
        }
        if let Some(begun) = &options.begun {
            let head = self.derived.format.answer_head();
            prompt.pieces.extend(guard.pieces(&format!("{head}{}", guard.text(begun))));
        }
        Ok(prompt)
    }

    /// What is left for an answer: the questions, earlier answers and the results of this run, without tools.
    ///
    /// Small models answer from this when, given the definitions as well, they would only go on calling. Render it
    /// with [`prompt`](Self::prompt) and no tools. The answer is asked to say what is missing, or what was done, as the
    /// run ended.
    ///
    /// ```
    /// use toolgate_chat::{Dialogue, Message, RunEnd, Template, TemplateTokens, ToolCall, ToolReply, Transcript};
    /// let source = "{% for m in messages %}{{ m.content }}{% endfor %}";
    /// let dialogue = Dialogue::derived(Template::new(source, TemplateTokens::default())?);
    /// let call = ToolCall::new("now", Default::default());
    /// let reply = ToolReply::ok(&call, "12:04");
    /// let transcript = Transcript::new()
    ///     .with(Message::User("How late is it?".to_owned()))
    ///     .with(Message::calls([call]))
    ///     .with(Message::Tool(vec![reply]));
    /// let view = dialogue.answer_view(&transcript, RunEnd::default());
    /// let asked = "How late is it?\n\nResult of now {}:\n12:04\n\nAnswer the question: How late is it?";
    /// assert_eq!(view.question(), Some(asked));
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn answer_view(&self, transcript: &Transcript, end: RunEnd) -> Transcript {
        let RunEnd { closing, changed } = end;
        let messages = transcript.messages();
        let run = messages.iter().rposition(|message| matches!(message, Message::User(_)));
        let (earlier, current) = messages.split_at_checked(run.unwrap_or(0)).unwrap_or((messages, &[]));
        let system = if closing { format!("{ANSWER} {CLOSING}") } else { ANSWER.to_owned() };
        let mut view = Transcript::new().with(Message::System(system));
        for message in earlier {
            match message {
                Message::User(text) => view.push(Message::User(text.clone())),
                Message::Assistant { content: Some(content), calls, .. } if calls.is_empty() => {
                    view.push(Message::answer(content.clone()));
                }
                _ => {}
            }
        }
        let question = transcript.question().unwrap_or_default();
        let mut text = question.to_owned();
        let current = Transcript::from_iter(current.iter().cloned());
        let calls = telling(current.calls_of_run());
        for (call, reply) in &calls {
            let arguments = json::spaced(&Value::Object(call.arguments.clone()));
            let (outcome, content) = match reply {
                Some(ToolReply { is_error: true, content, .. }) => ("Failure of", content.as_str()),
                Some(reply) => ("Result of", reply.content.as_str()),
                None => ("Not run:", ""),
            };
            text.push_str(&format!("\n\n{outcome} {} {arguments}:\n{}", call.name, content.trim_end()));
        }
        // Said before and after the results: of fifteen layouts those whose answers a 0.5 B and a 1.5 B model got right. Asked
        // the question again after a failure, they make the answer up; told to do what was done already, they explain how.
        match calls.last() {
            Some((_, Some(ToolReply { is_error: true, .. }))) => {
                text.push_str(&in_language_of(question, FAILED));
            }
            None => {}
            // Told the task once more, they repeat it.
            _ if changed => text.push_str(&in_language_of(question, CHANGED)),
            _ if question.trim_end().ends_with('?') => {
                text.push_str(&format!("\n\nAnswer the question: {question}"))
            }
            _ => {
                let from = match calls.len() {
                    1 => "one short sentence from the results",
                    _ => "one or two short sentences from all the results",
                };
                text.push_str(&format!("\n\nAnswer in {from} above: {question}"));
            }
        }
        view.push(Message::User(text));
        view
    }

    fn assemble(template: Template, derived: Derived) -> Self {
        let markers: Vec<String> = derived.format.markers().iter().map(|text| (*text).to_owned()).collect();
        Self { template, derived, guarded: Vec::new(), reasoning: Arc::default() }.guarding(markers)
    }

    fn push(
        &self,
        message: &Message,
        tools: &[ToolSpec],
        guard: &Guard<'_>,
        numbers: &mut CallNumbers,
        out: &mut Vec<Value>,
    ) {
        match message {
            Message::System(text) => out.push(json!({"role": "system", "content": text})),
            Message::User(text) => out.push(json!({"role": "user", "content": guard.text(text)})),
            Message::Assistant { content, reasoning, calls } => {
                let mut text = content.as_deref().map(|text| guard.text(text)).unwrap_or_default();
                let calls: Vec<ToolCall> = calls.iter().map(|call| guarded_call(call, guard)).collect();
                let mut fields = Map::new();
                fields.insert("role".to_owned(), "assistant".into());
                if self.derived.knows_results || calls.is_empty() {
                    fields.insert("content".to_owned(), text.into());
                    if !calls.is_empty() {
                        let calls = calls.iter().map(|call| {
                            let arguments = Value::Object(call.arguments.clone());
                            let arguments = match self.derived.wants_text {
                                true => Value::String(json::spaced(&arguments)),
                                false => arguments,
                            };
                            json!({"id": numbers.of(&call.id), "type": "function",
                                "function": {"name": call.name, "arguments": arguments}})
                        });
                        fields.insert("tool_calls".to_owned(), calls.collect());
                    }
                } else {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(&self.derived.format.render_calls(&calls, tools));
                    fields.insert("content".to_owned(), text.into());
                }
                if let Some(thought) = reasoning {
                    self.add_thought(&guard.text(thought), &mut fields);
                }
                out.push(Value::Object(fields));
            }
            Message::Tool(replies) if self.derived.knows_results => {
                out.extend(replies.iter().map(|reply| {
                    json!({"role": "tool", "name": guard.text(&reply.name),
                        "tool_call_id": numbers.of(&reply.call_id), "content": guard.text(&reply.content)})
                }));
            }
            Message::Tool(replies) => {
                let text: Vec<String> = replies
                    .iter()
                    .map(|reply| format!("<tool_response>\n{}\n</tool_response>", guard.text(&reply.content)))
                    .collect();
                out.push(json!({"role": "user", "content": text.join("\n")}));
            }
        }
    }
}

/// The calls of a run that tell something: not one that gave nothing, nor one that failed and was mended, which is one of the same tool
/// with a text in common, such as a path.
fn telling<'a>(
    calls: Vec<(&'a ToolCall, Option<&'a ToolReply>)>,
) -> Vec<(&'a ToolCall, Option<&'a ToolReply>)> {
    let mut worked: HashSet<(&str, &str)> = HashSet::new();
    let mut kept = Vec::with_capacity(calls.len());
    for (call, reply) in calls.into_iter().rev() {
        let mut about =
            call.arguments.values().filter_map(Value::as_str).map(|text| (call.name.as_str(), text));
        let tells = match reply {
            None => true,
            Some(reply) if reply.is_error => !about.any(|about| worked.contains(&about)),
            Some(reply) => {
                worked.extend(about);
                !reply.content.trim().is_empty()
            }
        };
        if tells {
            kept.push((call, reply));
        }
    }
    kept.reverse();
    kept
}

/// The system message of [`Dialogue::answer_view`].
const ANSWER: &str =
    "You are a helpful assistant. Answer in one or two short sentences with the facts found.";

/// An instruction that ends it, without the request. A model answers it in English unless it is told which language: "in the language of the
/// request" is not heeded (docs/measurements/tasks.md, "In the language of the request").
fn in_language_of(request: &str, instruction: &str) -> String {
    match language::told(&without_notes(request)).filter(|language| *language != INSTRUCTIONS) {
        Some(language) => format!("{instruction} Answer in {language}."),
        None => instruction.to_owned(),
    }
}

/// The language of the instructions.
const INSTRUCTIONS: &str = "English";

/// What ends it after a failure.
const FAILED: &str = "\n\nTell the user in one short sentence that this was not possible, and why.";

/// What ends it after a change.
const CHANGED: &str = "\n\nSay in one short sentence what was done, as the results above tell.";

/// What is added to its system message where the run is ended from outside.
const CLOSING: &str =
    "No tool can be used any more: if something was asked for and not done, say what is missing.";

/// Ids of calls as a prompt shows them: nine letters and digits, which every template takes, and few tokens.
#[derive(Debug, Default)]
struct CallNumbers {
    ids: Vec<String>,
}

impl CallNumbers {
    fn of(&mut self, id: &str) -> String {
        let known = self.ids.iter().position(|other| other == id);
        let number = known.unwrap_or_else(|| {
            self.ids.push(id.to_owned());
            self.ids.len() - 1
        });
        format!("call{number:05}")
    }
}

fn guarded_call(call: &ToolCall, guard: &Guard<'_>) -> ToolCall {
    ToolCall { id: call.id.clone(), name: guard.text(&call.name), arguments: guard.object(&call.arguments) }
}

/// The definition with an empty description wherever a parameter has none.
fn described(tool: &Value) -> Value {
    let mut tool = tool.clone();
    let properties = tool.pointer_mut("/function/parameters/properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(|all| all.values_mut()) {
        if let Some(property) = property.as_object_mut() {
            property.entry("description").or_insert_with(|| "".into());
        }
    }
    tool
}

fn guarded_spec(tool: &ToolSpec, guard: &Guard<'_>) -> ToolSpec {
    let mut tool = tool.clone();
    tool.description = guard.text(&tool.description);
    tool.parameters = guard.value(&tool.parameters);
    tool
}

/// Adds text to the end of the first system message, or makes one.
fn add_to_system(messages: &mut Vec<Value>, text: &str) {
    if let Some(Value::String(content)) = messages
        .first_mut()
        .filter(|message| message.get("role").is_some_and(|role| role == "system"))
        .and_then(|message| message.get_mut("content"))
    {
        content.push_str("\n\n");
        content.push_str(text);
    } else {
        messages.insert(0, json!({"role": "system", "content": text}));
    }
}

/// Puts the system message in front of the first user message, for templates that have no place for it.
fn fold_system(messages: &mut Vec<Value>) {
    let mut system = Vec::new();
    messages.retain(|message| {
        let is_system = message.get("role").is_some_and(|role| role == "system");
        if is_system {
            system.extend(message.get("content").and_then(Value::as_str).map(str::to_owned));
        }
        !is_system
    });
    if system.is_empty() {
        return;
    }
    let system = system.join("\n\n");
    let first = messages.iter_mut().find(|message| message.get("role").is_some_and(|role| role == "user"));
    match first.and_then(|message| message.get_mut("content")) {
        Some(Value::String(content)) => *content = format!("{system}\n\n{content}"),
        _ => messages.insert(0, json!({"role": "user", "content": system})),
    }
}
