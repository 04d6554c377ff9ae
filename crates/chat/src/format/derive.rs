//! Which family a model speaks, found by rendering its template: never by looking at what it happened to say.

use std::sync::Arc;

use serde_json::{Value, json};

use super::messages::Messages;
use super::syntax::{Arguments, Spacing, Syntax, Text};
use super::{Family, ToolFormat, families, learn};
use crate::model::ToolCall;
use crate::template::{Ending, Render, Template};

const SYSTEM: &str = "probe of the system message";
const QUESTION: &str = "probe of the user message";
const ANSWER: &str = "Zprobe of an answer";
const RESULT: &str = "probe of a result";

/// What a template was found to know.
///
/// ```
/// use toolgate_chat::{Template, TemplateTokens, format::derive};
/// let source = "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<think>{% endif %}";
/// let derived = derive(&Template::new(source, TemplateTokens::default())?);
/// assert_eq!(derived.why, "the template shows no tool definitions");
/// assert!(derived.knows_system);
/// assert_eq!(derived.opens_reasoning.as_deref(), Some("</think>"));
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Derived {
    /// The family.
    pub format: Arc<dyn ToolFormat>,
    /// Why it is this one, for a person.
    pub why: String,
    /// Whether the template shows tool definitions in this family's form.
    pub knows_tools: bool,
    /// Whether it writes calls and results of earlier turns.
    pub knows_results: bool,
    /// Whether it has a place for a system message.
    pub knows_system: bool,
    /// Whether it wants the arguments of earlier calls as a text of JSON.
    pub wants_text: bool,
    /// What ends reasoning, if the prompt for a turn begins it.
    pub opens_reasoning: Option<String>,
}

/// Decides the family by rendering probe conversations, with tools and without.
///
/// ```
/// # use toolgate_chat::format::derive; use toolgate_chat::{Template, TemplateTokens};
/// let plain = Template::new("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", TemplateTokens::default())?;
/// let derived = derive(&plain);
/// assert_eq!(derived.format.name(), "generic");
/// assert!(!derived.knows_tools);
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
pub fn derive(template: &Template) -> Derived {
    let probe = Probe::new(template);
    let told = probe.render(&[], true).unwrap_or_default();
    // Some templates tell of tools only where there is no system message.
    let alone = json!({"role": "user", "content": QUESTION});
    let told_alone =
        template.render(&Render { messages: &[alone], tools: &probe.tools, ..Render::default() });
    let told = told + &told_alone.unwrap_or_default();
    let knows_tools = told.contains("probe_tool");
    let opens_reasoning = probe.opened_reasoning();
    let generic = |why: &str| Derived {
        format: Arc::new(Family::generic()),
        why: why.to_owned(),
        knows_tools: false,
        knows_results: false,
        knows_system: probe.knows_system,
        wants_text: false,
        opens_reasoning: opens_reasoning.clone(),
    };
    if !knows_tools {
        return generic("the template shows no tool definitions");
    }
    for wants_text in [false, true] {
        let Some((syntax, knows_results)) = probe.written(wants_text) else { continue };
        let shape = syntax.arguments.describe();
        let family = known(&syntax);
        let why = match &family {
            Some(family) => format!("the template writes calls as {} does: {shape}", family.name),
            None => format!("the template writes calls in a form of its own, learned from it: {shape}"),
        };
        let mut syntax = syntax;
        syntax.messages = Messages::of_calls(&syntax.call);
        if let Some(family) = &family {
            syntax.name = family.name.clone();
        }
        syntax.reasoning = thoughts(probe.reasoning(), family.and_then(|family| family.reasoning));
        if let (Some(messages), Some((_, close))) = (&syntax.messages, &mut syntax.reasoning)
            && messages.next.starts_with(&**close)
        {
            // A thought is a message, and another one follows it.
            *close = messages.next.clone();
        }
        if wants_text && syntax.arguments == Arguments::Json(Spacing::Spaced) {
            syntax.arguments = Arguments::Json(Spacing::Given);
        }
        syntax.answer = probe.answer_head().unwrap_or_default();
        let format: Arc<dyn ToolFormat> = Arc::new(Family::new(syntax));
        return Derived {
            format,
            why,
            knows_tools: true,
            knows_results,
            knows_system: probe.knows_system,
            wants_text,
            opens_reasoning,
        };
    }
    match taught(&told, &probe) {
        Some(family) => {
            let why =
                format!("the template tells of calls as {} writes them, and never writes one", family.name);
            Derived { format: Arc::new(Family::new(family)), knows_tools: true, ..generic(&why) }
        }
        None => generic(
            "the template writes calls in a form that is not known here, so they are asked for in our own",
        ),
    }
}

/// A template and the conversation it is tried with.
struct Probe<'t> {
    template: &'t Template,
    knows_system: bool,
    opening: Vec<Value>,
    tools: Vec<Value>,
}

impl<'t> Probe<'t> {
    fn new(template: &'t Template) -> Self {
        let system = json!({"role": "system", "content": SYSTEM});
        let user = json!({"role": "user", "content": QUESTION});
        let both = [system.clone(), user.clone()];
        let render = Render { messages: &both, ..Render::default() };
        let knows_system = template.render(&render).is_ok_and(|text| text.contains(SYSTEM));
        let opening = if knows_system { both.to_vec() } else { vec![user] };
        let tools = learn::probes().iter().map(learn::definition).collect();
        Self { template, knows_system, opening, tools }
    }

    fn render(&self, after: &[Value], with_tools: bool) -> Option<String> {
        self.ending(after, with_tools, Ending::Closed)
    }

    fn ending(&self, after: &[Value], with_tools: bool, ending: Ending) -> Option<String> {
        let messages: Vec<Value> = self.opening.iter().chain(after).cloned().collect();
        let tools = if with_tools { self.tools.as_slice() } else { &[] };
        self.template.render(&Render { messages: &messages, tools, ending, ..Render::default() }).ok()
    }

    /// The syntax of the calls that the template writes, and whether it writes results as well.
    fn written(&self, wants_text: bool) -> Option<(Syntax, bool)> {
        let [first, second] = learn::probes();
        let turn = |calls: &[&ToolCall], content: Value| {
            let calls: Vec<Value> = calls.iter().map(|call| wire(call, wants_text)).collect();
            json!({"role": "assistant", "content": content, "tool_calls": calls})
        };
        let answer = self.render(&[json!({"role": "assistant", "content": ANSWER})], true)?;
        let (before, after) = answer.rsplit_once(ANSWER)?;
        [json!(""), Value::Null].into_iter().find_map(|content| {
            let one = self.render(&[turn(&[&first], content.clone())], true)?;
            let two = self.render(&[turn(&[&first, &second], content.clone())], true);
            let mut start = header(before, &one);
            // The model's text begins where the prompt for it ends, unless the template goes on with thoughts.
            if let Some(prompt) = self.ending(&[], true, Ending::Generation)
                && one.starts_with(&prompt)
                && prompt.len() < start
                && self.render(&[], true).is_some_and(|closed| closed != prompt)
                && !one.get(prompt.len()..start).unwrap_or_default().contains("think")
                && self.opened_reasoning().is_none()
            {
                start = prompt.len();
            }
            let cut = |text: &str| text.get(start..).map(|said| without_end(said, after).to_owned());
            let (one_said, two_said) = (cut(&one)?, two.as_deref().and_then(cut));
            let mut syntax = learn::learn(&one_said, two_said.as_deref())?;
            // Thoughts that the template leaves blank are no part of the calls.
            let known = REASONING.iter().map(|(open, close)| (Text::from(*open), Text::from(*close)));
            for (open, close) in known.chain(self.reasoning()) {
                syntax.drop_before_calls(&open, &close);
            }
            let history = [
                turn(&[&first], content),
                json!({"role": "tool", "name": first.name, "tool_call_id": first.id, "content": RESULT}),
            ];
            let knows_results = self.render(&history, true).is_some_and(|text| text.contains(RESULT));
            Some((syntax, knows_results))
        })
    }

    /// The marks of reasoning that the template writes around what a turn thought.
    fn reasoning(&self) -> Option<(Text, Text)> {
        let thought = "Zprobe of a thought";
        let turn = json!({"role": "assistant", "content": ANSWER, "reasoning_content": thought,
            "reasoning": thought, "thinking": thought});
        let prompt = self.ending(&[], true, Ending::Generation).unwrap_or_default();
        let shown = self.render(&[turn], true).filter(|text| text.contains(thought)).unwrap_or_default();
        REASONING
            .iter()
            .find(|(open, close)| {
                prompt.trim_end().ends_with(open.trim())
                    || (shown.contains(open.trim()) && shown.contains(close.trim()))
            })
            .map(|(open, close)| ((*open).into(), (*close).into()))
            .or_else(|| tags_around(&shown, thought))
    }

    /// What a turn writes before an answer that the prompt for it does not: the header of a channel, ….
    fn answer_head(&self) -> Option<Text> {
        let prompt = self.ending(&[], true, Ending::Generation)?;
        let answer = self.render(&[json!({"role": "assistant", "content": ANSWER})], true)?;
        let (before, _) = answer.rsplit_once(ANSWER)?;
        let head = before.strip_prefix(&prompt)?;
        let thinks = self.reasoning().is_some_and(|(_, close)| head.contains(close.trim()));
        (!head.trim().is_empty() && !thinks && !head.contains("think")).then(|| head.to_owned().into())
    }

    /// What ends the reasoning that the prompt for a turn begins.
    fn opened_reasoning(&self) -> Option<String> {
        let prompt = self
            .ending(&[], true, Ending::Generation)
            .or_else(|| self.ending(&[], false, Ending::Generation))?;
        let prompt = prompt.trim_end();
        REASONING.iter().find(|(open, _)| prompt.ends_with(open.trim())).map(|(_, close)| (*close).to_owned())
    }
}

/// The marks of thoughts: those of the template, with all that the family has behind them.
fn thoughts(own: Option<(Text, Text)>, family: Option<(Text, Text)>) -> Option<(Text, Text)> {
    match (own, family) {
        (Some((open, close)), Some(known)) if known.0 == open && known.1.starts_with(&*close) => Some(known),
        (own, family) => own.or(family),
    }
}

/// The tags next to a text, if it stands between two.
pub(crate) fn tags_around(shown: &str, text: &str) -> Option<(Text, Text)> {
    let (before, after) = shown.split_once(text)?;
    let (before, after) = (before.trim_end(), after.trim_start());
    let pairs = [('<', '>'), ('[', ']')];
    let (open, close) =
        pairs.into_iter().find(|(open, close)| before.ends_with(*close) && after.starts_with(*open))?;
    let opening = before.get(before.rfind(open)?..)?;
    let closing = after.get(..=after.find(close)?)?;
    (opening != closing && opening.len() < 64 && closing.len() < 64)
        .then(|| (opening.to_owned().into(), closing.to_owned().into()))
}

/// What stands around reasoning in one family or another.
pub(crate) const REASONING: &[(&str, &str)] = &[
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<thinking>", "</thinking>"),
];

fn wire(call: &ToolCall, wants_text: bool) -> Value {
    let arguments = if wants_text {
        Value::String(crate::json::spaced(&Value::Object(call.arguments.clone())))
    } else {
        Value::Object(call.arguments.clone())
    };
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

/// Where the model's own text begins: where a call and an answer part, but not in the middle of a tag.
fn header(before_answer: &str, call: &str) -> usize {
    let common = before_answer
        .char_indices()
        .zip(call.chars())
        .take_while(|((_, a), b)| a == b)
        .map(|((i, a), _)| i + a.len_utf8())
        .last()
        .unwrap_or(0);
    let text = before_answer.get(..common).unwrap_or_default();
    match (text.rfind('<'), text.rfind('>')) {
        (Some(open), close) if close.is_none_or(|close| close < open) => {
            // MiniMax-M3's mark holds angles of its own.
            let before = text.get(..open).unwrap_or_default();
            if before.ends_with("]<]minimax[>[") { open - "]<]minimax[>[".len() } else { open }
        }
        _ => common,
    }
}

/// Without what ends every turn, or the token that ends a turn of calls.
fn without_end<'a>(said: &'a str, after_answer: &str) -> &'a str {
    if let Some(said) = said.strip_suffix(after_answer).filter(|_| !after_answer.trim().is_empty()) {
        return said;
    }
    let ends = [
        "<|eom_id|>",
        "<|eot_id|>",
        "<|call|>",
        "<|calls|>",
        "<|end|>",
        "<|im_end|>",
        "<|eot|>",
        "<|eom|>",
        "</s>",
    ];
    let mut said = said.trim_end();
    let after = after_answer.trim();
    if !after.is_empty() {
        said = said.strip_suffix(after).unwrap_or(said);
    }
    loop {
        let shorter = ends.iter().find_map(|end| said.trim_end().strip_suffix(end));
        match shorter {
            Some(shorter) => said = shorter,
            None => return said,
        }
    }
}

/// The known family that a learned syntax is, but for blanks.
fn known(syntax: &Syntax) -> Option<Syntax> {
    let mut shape = syntax.shape();
    if let Some(found) = families::all().into_iter().find(|family| family.shape() == shape) {
        return Some(found);
    }
    // The same head and arguments under another ending are the same family.
    shape = syntax.head_shape();
    if let Some(found) = families::all().into_iter().find(|family| family.head_shape() == shape) {
        return Some(found);
    }
    // So are those before which the template closes an answer it left blank.
    families::all()
        .into_iter()
        .find(|family| family.mark().is_some() && shape.ends_with(&family.head_shape()))
}

/// The family whose calls the template only tells about.
fn taught(told: &str, probe: &Probe<'_>) -> Option<Syntax> {
    let result =
        json!({"role": "tool", "name": "probe_tool", "tool_call_id": "callprob1", "content": RESULT});
    let all = told.to_owned()
        + &probe.render(&[json!({"role": "assistant", "content": ANSWER}), result], true).unwrap_or_default();
    let tells = |family: &Syntax| {
        let inside = match &family.arguments {
            Arguments::Elements(elements) => all.contains(elements.open.trim()),
            Arguments::Json(_) => all.contains("\"name\"") || all.contains("name\\\""),
            Arguments::Pythonic | Arguments::Gemma(_) => true,
        };
        inside && family.mark().is_some_and(|mark| all.contains(&mark))
    };
    // Families with elements first: their templates often tell of JSON as well.
    let mut families = families::all();
    families.sort_by_key(|family| !matches!(family.arguments, Arguments::Elements(_)));
    let hint = |mark: &str, name: &str| if all.contains(mark) { families::named(name) } else { None };
    hint("<|tool_list_start|>", "lfm2")
        .or_else(|| hint("<|/tool|>", "phi4_mini"))
        .or_else(|| hint("<start_function_declaration>", "function_gemma"))
        .or_else(|| families.into_iter().find(tells))
}
