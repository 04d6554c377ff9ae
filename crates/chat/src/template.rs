//! A model's chat template: the Jinja that Hugging Face templates use, as Python's Jinja2 would render it.
//!
//! Invariant: rendering ends. Loops and macros spend fuel, nesting is bounded, and so is what may be written.

use std::io;
use std::sync::Arc;

pub use jiff::civil::DateTime;
use minijinja::value::{Kwargs, Serde, Value as Jinja, ValueKind};
use minijinja::{AutoEscape, Environment, Error as JinjaError, ErrorKind, State, UndefinedBehavior, context};
use serde_json::Value;

use crate::error::{Error, Kind, Place};
use crate::json;
use crate::offered::{self, Offered};

/// Steps a rendering may take; a prompt of 300 tools and 1,000 messages takes under a million.
const FUEL: u64 = 20_000_000;
/// Bytes a rendering may write.
const OUTPUT: usize = 64 << 20;
/// The one template of an environment.
const NAME: &str = "chat";

/// The texts of a model's first and last tokens, which templates write themselves.
///
/// ```
/// use toolgate_chat::template::{Render, Template, TemplateTokens};
/// let tokens = TemplateTokens { bos: "<s>".to_owned(), eos: "</s>".to_owned() };
/// let template = Template::new("{{ bos_token }}...{{ eos_token }}", tokens)?;
/// assert_eq!(template.render(&Render::default())?, "<s>...</s>");
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateTokens {
    /// Text of the token that begins a sequence; empty if there is none.
    pub bos: String,
    /// Text of the token that ends a turn; empty if there is none.
    pub eos: String,
}

/// A chat template, parsed. Cheap to clone.
///
/// ```
/// # use toolgate_chat::template::{Render, Template, TemplateTokens}; use serde_json::json;
/// let source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}";
/// let template = Template::new(source, TemplateTokens { bos: String::new(), eos: "<end>".into() })?;
/// assert_eq!(template.source(), source);
/// let messages = [json!({"role": "user", "content": "1 < 2"})];
/// assert_eq!(template.render(&Render { messages: &messages, ..Render::default() })?, "<user>1 < 2<end>");
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone)]
pub struct Template {
    source: Arc<str>,
    tokens: TemplateTokens,
    environment: Arc<Environment<'static>>,
    /// Where it looks for tools.
    offered: Offered,
    /// What it reads and does not set, in order.
    variables: Arc<[String]>,
}

/// What a template is given.
///
/// ```
/// use toolgate_chat::template::{DateTime, Render, Template, TemplateTokens};
/// let template = Template::new("Today is {{ strftime_now('%d %B %Y') }}.", TemplateTokens::default())?;
/// let noon = DateTime::constant(2026, 3, 1, 12, 0, 0, 0);
/// let render = Render { now: Some(noon), ..Render::default() };
/// assert_eq!(template.render(&render)?, "Today is 01 March 2026.");
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Render<'a> {
    /// Messages in the shape templates expect: `role`, `content`, `tool_calls`, ….
    pub messages: &'a [Value],
    /// Tool definitions in OpenAI form; none is "no tools".
    pub tools: &'a [Value],
    /// Whether, and how, the prompt ends with the opening of the model's turn.
    pub ending: Ending,
    /// The time `strftime_now` tells; `None` is the present one, in UTC.
    pub now: Option<DateTime>,
    /// Further variables, such as `enable_thinking`; an object or null.
    pub extra: Value,
}

/// How a rendered conversation ends.
///
/// ```
/// use toolgate_chat::template::{Ending, Render, Template, TemplateTokens};
/// let source = "Hello!{% if add_generation_prompt %}<assistant>{% endif %}";
/// let template = Template::new(source, TemplateTokens::default())?;
/// let render = |ending| template.render(&Render { ending, ..Render::default() });
/// assert_eq!(render(Ending::Closed)?, "Hello!");
/// assert_eq!(render(Ending::Generation)?, "Hello!<assistant>");
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// With the last message.
    #[default]
    Closed,
    /// With the opening of the model's next turn.
    Generation,
}

/// Faults that templates were published with, and what they should say.
const FAULTS: [(&str, &str); 1] = [
    // Braces were doubled, as for a formatted string of Python, within a text of Jinja. The model is shown its call example so, and
    // imitates it. Seen in the files of Qwen2.5-Coder 1.5B and of models that were tuned from it.
    (
        r#"{{\"name\": <function-name>, \"arguments\": <args-json-object>}}"#,
        r#"{\"name\": <function-name>, \"arguments\": <args-json-object>}"#,
    ),
];

impl Template {
    /// Parses a template. A fault that many files were published with is mended: [`source`](Self::source) is then what it should be.
    ///
    /// # Errors
    /// [`Kind::Template`] with the line that is no Jinja.
    ///
    /// ```
    /// # use toolgate_chat::template::{Template, TemplateTokens};
    /// let call = r#"{{ '{{\"name\": <function-name>, \"arguments\": <args-json-object>}}' }}"#;
    /// let template = Template::new(call, TemplateTokens::default())?;
    /// assert!(template.source().contains(r#"'{\"name\": <function-name>"#));
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn new(source: impl Into<String>, tokens: TemplateTokens) -> Result<Self, Error> {
        let faulty = source.into();
        let source = FAULTS.iter().fold(faulty, |source, (fault, mended)| source.replace(fault, mended));
        let mut environment = Environment::new();
        let syntax = minijinja::syntax::SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(error_of)?);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_unknown_method_callback(method);
        environment
            .set_formatter(|out, _, value| out.write_str(&python_str(value)).map_err(JinjaError::from));
        environment.set_fuel(Some(FUEL));
        // Else errors name what is not defined in builds with debug assertions alone.
        environment.set_debug(true);
        environment.add_filter("tojson", tojson);
        environment.add_filter("string", |value: &Jinja| python_str(value));
        environment.add_test("iterable", is_iterable);
        environment.add_test("sequence", is_iterable);
        environment.add_function("raise_exception", |message: String| -> Result<Jinja, JinjaError> {
            Err(JinjaError::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_template_owned(NAME, translated(&source)).map_err(error_of)?;
        let variables = environment.get_template(NAME).map_err(error_of)?.undeclared_variables(false);
        let offered = Offered::of(&variables, &source);
        let mut variables: Vec<String> = variables.into_iter().collect();
        variables.sort_unstable();
        Ok(Self {
            source: source.into(),
            tokens,
            environment: Arc::new(environment),
            offered,
            variables: variables.into(),
        })
    }

    /// The same template with pieces of its source replaced: a catalogue's repair of a faulty one.
    ///
    /// # Errors
    /// [`Kind::Template`] if a piece does not occur (the repair is for another template), or the result does not parse.
    ///
    /// ```
    /// # use toolgate_chat::template::{Render, Template, TemplateTokens};
    /// let doubled = Template::new("{{ 'say {{\"name\": 1}}' }}", TemplateTokens::default())?;
    /// let repaired = doubled.with_replacements(&[("{{\"name\": 1}}", "{\"name\": 1}")])?;
    /// assert_eq!(repaired.render(&Render::default())?, "say {\"name\": 1}");
    /// assert!(repaired.with_replacements(&[("absent", "x")]).is_err());
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn with_replacements(&self, replacements: &[(&str, &str)]) -> Result<Self, Error> {
        let mut source = self.source.to_string();
        for (from, to) in replacements {
            if from.is_empty() || !source.contains(from) {
                return Err(Error::new(
                    Kind::Template,
                    format!(
                        "the chat template has no {from:?} to replace: the repair is for another template"
                    ),
                ));
            }
            source = source.replace(from, to);
        }
        Self::new(source, self.tokens.clone())
    }

    /// The source, as given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The texts it writes for the first and the last token.
    pub fn tokens(&self) -> &TemplateTokens {
        &self.tokens
    }

    /// The variables and functions that it reads and does not set, in order.
    pub(crate) fn variables(&self) -> &[String] {
        &self.variables
    }

    /// The same template, whose renderings may take no more than these steps.
    pub(crate) fn with_fuel(&self, steps: u64) -> Self {
        let mut environment = (*self.environment).clone();
        environment.set_fuel(Some(steps));
        Self { environment: Arc::new(environment), ..self.clone() }
    }

    /// Renders a conversation.
    ///
    /// # Errors
    /// [`Kind::Template`] with the line: the template raises an exception, uses something unknown, or does not end.
    pub fn render(&self, render: &Render<'_>) -> Result<String, Error> {
        let now =
            render.now.unwrap_or_else(|| jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).datetime());
        let strftime_now = Jinja::from_function(move |format: String| {
            jiff::fmt::strtime::format(&format, now)
                .map_err(|error| JinjaError::new(ErrorKind::InvalidOperation, error.to_string()))
        });
        let tools = if render.tools.is_empty() { Jinja::from(()) } else { Jinja::from(Serde(render.tools)) };
        let messages = self.offered.messages(render.messages, render.tools);
        let given = context! {
            messages => Jinja::from(Serde(&messages)),
            tools => tools,
            add_generation_prompt => render.ending == Ending::Generation,
            bos_token => self.tokens.bos.as_str(),
            eos_token => self.tokens.eos.as_str(),
            strftime_now => strftime_now,
        };
        let given = match self.offered {
            Offered::Functions => {
                let functions = if render.tools.is_empty() {
                    String::new()
                } else {
                    offered::text(render.tools, Some(4))
                };
                let datetime = jiff::fmt::strtime::format("%b %d %Y %H:%M:%S GMT", now).unwrap_or_default();
                context! { functions => functions, datetime => datetime, ..given }
            }
            Offered::XmlTools => context! { xml_tools => Jinja::from(Serde(render.tools)), ..given },
            Offered::Tools | Offered::SystemMessage => given,
        };
        let context = match &render.extra {
            Value::Object(extra) if !extra.is_empty() => context! { ..given, ..Jinja::from(Serde(extra)) },
            _ => given,
        };
        let mut out = Bounded(Vec::new());
        let template = self.environment.get_template(NAME).map_err(error_of)?;
        template.render_captured_to(context, &mut out).map_err(error_of)?;
        String::from_utf8(out.0).map_err(|error| {
            Error::new(Kind::Template, "the chat template cuts characters apart").because(error)
        })
    }
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Template").field("source", &self.source).field("tokens", &self.tokens).finish()
    }
}

/// Refuses to grow past [`OUTPUT`].
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > OUTPUT {
            return Err(io::Error::other("the prompt grows past 64 MiB"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The source without what only Python's Jinja does: `{% generation %}`, which marks the model's own text for training and
/// prints its content, and lists that are changed in place.
fn translated(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        out.push_str(before);
        let Some(end) = tag.find("%}") else {
            rest = tag;
            break;
        };
        let (tag, after) = tag.split_at(end + 2);
        let word = tag.trim_start_matches("{%").trim_end_matches("%}").trim_matches(['-', '+']).trim();
        match word {
            "generation" => out.push_str(&tag.replacen("generation", "if true", 1)),
            "endgeneration" => out.push_str(&tag.replacen("endgeneration", "endif", 1)),
            _ => match appended(word) {
                Some((list, item)) => {
                    out.push_str(&tag.replacen(word, &format!("set {list} = {list} + [{item}]"), 1))
                }
                None => match popped(word) {
                    Some((call, list)) => {
                        out.push_str(&tag.replacen(call, &format!("{list}[0]"), 1));
                        out.push_str(&tag.replacen(word, &format!("set {list} = {list}[1:]"), 1));
                    }
                    None => out.push_str(tag),
                },
            },
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The list and the item of `do list.append(item)` or `set _ = list.append(item)`.
fn appended(statement: &str) -> Option<(&str, &str)> {
    let call = match statement.strip_prefix("do ") {
        Some(call) => call,
        None => statement.strip_prefix("set ")?.split_once('=')?.1,
    };
    let (list, item) = call.trim().strip_suffix(')')?.split_once(".append(")?;
    let is_path = !list.is_empty() && list.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    is_path.then_some((list, item))
}

/// The call and the list of `set name = list.pop(0)`.
fn popped(statement: &str) -> Option<(&str, &str)> {
    let call = statement.strip_prefix("set ")?.split_once('=')?.1.trim();
    let list = call.strip_suffix(".pop(0)")?;
    let is_path = !list.is_empty() && list.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    is_path.then_some((call, list))
}

fn error_of(error: JinjaError) -> Error {
    let what = match error.kind() {
        ErrorKind::OutOfFuel => "the chat template does not end".to_owned(),
        _ => match error.detail() {
            Some(detail) => format!("the chat template fails: {detail}"),
            None => format!("the chat template fails: {}", error.kind()),
        },
    };
    let ours = Error::new(Kind::Template, what);
    match error.line() {
        Some(line) => ours.at(Place::Line(line)).because(error),
        None => ours.because(error),
    }
}

/// Python's `json.dumps(value, ensure_ascii=False, …)`: nothing is escaped for HTML, and separators have a blank.
fn tojson(value: &Jinja, options: Kwargs) -> Result<String, JinjaError> {
    let mut value = serde_json::to_value(value).map_err(|error| {
        JinjaError::new(ErrorKind::BadSerialization, "cannot be written as JSON").with_source(error)
    })?;
    let ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    if options.get::<Option<bool>>("sort_keys")?.unwrap_or(false) {
        value.sort_all_objects();
    }
    let indent = options.get::<Option<usize>>("indent")?;
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let (item, key) = match separators.as_deref() {
        Some([item, key, ..]) => (item.as_str(), key.as_str()),
        // Python drops the blank that would end each line.
        _ if indent.is_some() => (",", ": "),
        _ => (", ", ": "),
    };
    let text = json::write(&value, &json::Style { item, key, indent });
    Ok(if ascii { json::to_ascii(&text) } else { text })
}

/// In Python a string is a sequence of its characters, and none is no sequence.
fn is_iterable(value: &Jinja) -> bool {
    match value.kind() {
        ValueKind::String => true,
        ValueKind::None => false,
        _ => value.try_iter().is_ok(),
    }
}

/// Methods of Python's types that neither the engine nor its Python layer knows.
fn method(state: &mut State, value: &Jinja, name: &str, args: &[Jinja]) -> Result<Jinja, JinjaError> {
    let text = |at: usize| args.get(at).and_then(Jinja::as_str);
    match (value.as_str(), name, text(0)) {
        (Some(s), "removeprefix", Some(prefix)) => return Ok(s.strip_prefix(prefix).unwrap_or(s).into()),
        (Some(s), "removesuffix", Some(suffix)) => return Ok(s.strip_suffix(suffix).unwrap_or(s).into()),
        (Some(s), "partition", Some(separator)) => {
            let (head, found, tail) = match s.split_once(separator) {
                Some((head, tail)) => (head, separator, tail),
                None => (s, "", ""),
            };
            return Ok(vec![head.to_owned(), found.to_owned(), tail.to_owned()].into());
        }
        _ => {}
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
}

/// Python's `str(value)`.
fn python_str(value: &Jinja) -> String {
    match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::String | ValueKind::Plain | ValueKind::Invalid | ValueKind::Bytes => value.to_string(),
        _ => {
            let mut out = String::new();
            python_repr(value, &mut out, 64);
            out
        }
    }
}

fn python_repr(value: &Jinja, out: &mut String, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return out.push('…') };
    match value.kind() {
        ValueKind::None | ValueKind::Undefined => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
            out.push(quote);
            for c in text.chars() {
                match c {
                    '\\' => out.push_str("\\\\"),
                    '\n' => out.push_str("\\n"),
                    '\r' => out.push_str("\\r"),
                    '\t' => out.push_str("\\t"),
                    c if c == quote => out.extend(['\\', c]),
                    c => out.push(c),
                }
            }
            out.push(quote);
        }
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (i, item) in value.try_iter().into_iter().flatten().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                python_repr(&item, out, depth);
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (i, key) in value.try_iter().into_iter().flatten().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                python_repr(&key, out, depth);
                out.push_str(": ");
                python_repr(&value.get_item(&key).unwrap_or_default(), out, depth);
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn render(source: &str) -> Result<String, Error> {
        let tokens = TemplateTokens { bos: "<s>".into(), eos: "</s>".into() };
        let messages = [
            json!({"role": "user", "content": "a<b & 'c'"}),
            json!({"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"z": 1, "a": "é"}}}]}),
        ];
        Template::new(source, tokens)?.render(&Render {
            messages: &messages,
            tools: &[],
            ending: Ending::Generation,
            now: Some("2026-11-03T10:20:30".parse().unwrap()),
            extra: json!({"flag": true, "list": [1, null, 2.5, "it's", {"k": false}]}),
        })
    }

    /// Right-hand sides are what Jinja2 3.1 with the settings of Hugging Face's transformers writes.
    #[test]
    fn renders_as_python_does() {
        for (source, expected) in [
            ("{{ messages[0].content | tojson }}", r#""a<b & 'c'""#),
            ("{{ messages[0]['content'] }}{{ eos_token }}", "a<b & 'c'</s>"),
            ("{{ messages[1].tool_calls[0].function.arguments | tojson }}", r#"{"z": 1, "a": "é"}"#),
            ("{{ {'z': 1, 'a': [2]} | tojson(sort_keys=true) }}", r#"{"a": [2], "z": 1}"#),
            ("{{ {'z': 'é'} | tojson(ensure_ascii=true) }}", r#"{"z": "\u00e9"}"#),
            ("{{ {'z': [1, 2]} | tojson(separators=(',', ':')) }}", r#"{"z":[1,2]}"#),
            ("{{ {'z': [1]} | tojson(indent=4) }}", "{\n    \"z\": [\n        1\n    ]\n}"),
            ("{{ flag }} {{ none }} {{ missing }}|", "True None |"),
            ("{{ list }}", r#"[1, None, 2.5, "it's", {'k': False}]"#),
            ("{{ list | string }}", r#"[1, None, 2.5, "it's", {'k': False}]"#),
            ("{{ strftime_now('%d %b %Y') }}", "03 Nov 2026"),
            (
                "{{ tools is none }} {{ tools is defined }} {{ tools is iterable }} {{ 'ab' is iterable }}",
                "True True False True",
            ),
            (
                "{% set ns = namespace(l=[]) %}{% for m in messages %}{% set _ = ns.l.append(m.role) %}{% endfor %}{{ ns.l }}",
                "['user', 'assistant']",
            ),
            (
                "{% set ns = namespace(l=[1, 2]) %}{% set first = ns.l.pop(0) %}{{ first }} {{ ns.l }}",
                "1 [2]",
            ),
            ("{% for m in messages[::-1] %}{{ m.role[0] }}{% endfor %}", "au"),
            (
                "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
                "2",
            ),
            (
                "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.role }}{% endfor %}",
                "assistant",
            ),
            ("{% for m in messages %}{{ m.role }}{% break %}{% endfor %}", "user"),
            (
                "{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined else '-' }}{% endfor %}",
                "-user",
            ),
            (
                "{% macro tag(x, y='!') %}<{{ x }}{{ y }}>{% endmacro %}{{ tag('a') }}{{ tag('b', y='?') }}",
                "<a!><b?>",
            ),
            (
                "{{ 'a-b-c'.split('-')[-1] }}{{ ' x '.strip() }}{{ 'Ab'.upper() }}{{ 'xay'.replace('a', 'o') }}",
                "cxABxoy",
            ),
            (
                "{{ 'prefix-x'.removeprefix('prefix-') }}{{ 'x.y'.partition('.')[2] }}{{ 'ab'.startswith('a') }}",
                "xyTrue",
            ),
            (
                "{% for k, v in messages[1].tool_calls[0].function.arguments.items() %}{{ k }}={{ v }};{% endfor %}",
                "z=1;a=é;",
            ),
            ("{{ messages[0].get('name', 'nobody') }} {{ 'role' in messages[0] }}", "nobody True"),
            ("  {% if true %}\nx\n  {% endif %}\ny\n", "x\ny"),
            ("a\n  {%- if true -%}  b  {%- endif %}\nc", "abc"),
            ("{% generation %}x{% endgeneration %}{%- generation -%} y {%- endgeneration -%}", "xy"),
            ("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "1"),
            ("{{ (list | map('string') | list)[0] ~ 'x' }}", "1x"),
            ("{% if messages | length > 1 and add_generation_prompt %}{{ bos_token }}{% endif %}", "<s>"),
        ] {
            assert_eq!(render(source).unwrap(), expected, "{source}");
        }
    }

    #[test]
    fn refuses_with_the_line() {
        let check = |source: &str, expected: &str| {
            let error = render(source).unwrap_err();
            assert_eq!(error.kind(), Kind::Template, "{source}");
            assert_eq!(error.to_string(), expected, "{source}");
        };
        check(
            "\n{{ raise_exception('roles must alternate') }}",
            "the chat template fails: roles must alternate at line 2 of the chat template",
        );
        check(
            "{% for m in messages %}\n{{ m.role.oops.x }}{% endfor %}",
            "the chat template fails: `m.role.oops` is undefined at line 2 of the chat template",
        );
        check(
            "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
            "the chat template does not end at line 1 of the chat template",
        );
        check(
            "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
            "the chat template fails: recursion limit exceeded at line 1 of the chat template",
        );
        assert_eq!(
            Template::new("a\n{% if %}", TemplateTokens::default()).unwrap_err().place(),
            Some(&Place::Line(2))
        );
    }

    #[test]
    fn doubled_braces_of_a_call_example_are_mended_and_a_sound_one_is_left_alone() {
        let faulty = r#"a {{\"name\": <function-name>, \"arguments\": <args-json-object>}} b"#;
        let sound = r#"a {\"name\": <function-name>, \"arguments\": <args-json-object>} b"#;
        for source in [faulty, sound] {
            let template = Template::new(source, TemplateTokens::default()).unwrap();
            assert_eq!(template.source(), sound);
        }
    }
}
