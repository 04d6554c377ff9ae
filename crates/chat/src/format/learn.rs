//! A family's syntax from what its template writes: two calls of known names and arguments are rendered, and what stands
//! around them is the syntax.
//!
//! Invariant: a learned syntax writes the probe as the template did, but for quotes, or it is not learned.

use serde_json::{Map, Value, json};
use toolgate_grammar::marks::MarkTokens;

use super::syntax::{Arguments, Close, Elements, Lists, Middle, Part, Spacing, Syntax};
use crate::fallback::gemma;
use crate::fallback::json::{Dialect, Reader};
use crate::fallback::source::Source;
use crate::json as form;
use crate::model::ToolCall;
use crate::spec::ToolSpec;

/// The calls that are rendered: names, ids and values that occur nowhere else.
pub(crate) fn probes() -> [ToolCall; 2] {
    let object = |value: Value| value.as_object().cloned().unwrap_or_default();
    [
        ToolCall::new(
            "probe_tool",
            object(json!({"zkey_text": "ztext", "zkey_number": 7301, "zkey_flag": true,
                "zkey_list": ["zitem", "zmore"], "zkey_map": {"zinner": 5}})),
        )
        .with_id("callprob1"),
        ToolCall::new("second_probe", object(json!({"zkey_other": "zother"}))).with_id("callprob2"),
    ]
}

/// The tool that a probe calls, in OpenAI's form.
pub(crate) fn definition(call: &ToolCall) -> Value {
    let kind = |value: &Value| match value {
        Value::Number(_) => json!({"type": "integer", "description": "A number"}),
        Value::Bool(_) => json!({"type": "boolean", "description": "A flag"}),
        Value::Array(_) => json!({"type": "array", "description": "A list", "items": {"type": "string"}}),
        Value::Object(_) => {
            json!({"type": "object", "description": "A map", "properties": {"zinner": {"type": "integer", "description": "A number"}}, "additionalProperties": {"type": "integer"}})
        }
        _ => json!({"type": "string", "description": "A text"}),
    };
    let properties: serde_json::Map<String, Value> =
        call.arguments.iter().map(|(name, value)| (name.clone(), kind(value))).collect();
    let required: Vec<&String> = call.arguments.keys().collect();
    json!({"type": "function", "function": {"name": call.name, "description": "A probe", "parameters": {
        "type": "object", "properties": properties, "required": required}}})
}

/// Stand for a call's name and id, and its number.
const NAME: char = '\u{1}';
const ID: char = '\u{2}';
const INDEX: char = '\u{3}';

/// The syntax of a turn that is the first probe (`one`), and of one that is both (`two`), if the template writes such.
pub(crate) fn learn(one: &str, two: Option<&str>) -> Option<Syntax> {
    let [first, second] = probes();
    let (arguments, start, end) = arguments_in(one, &first)?;
    let head = normal(one.get(..start)?, &first);
    let tail = normal(one.get(end..)?, &first);
    let syntax = match two.and_then(|two| parted(two, &head, &tail, (start, end), &second, &arguments)) {
        Some((begin, head, tail, between, end)) => {
            let mut call = parts(&head);
            call.push(Part::Arguments);
            call.extend(parts(&tail));
            Syntax {
                name: "learned".into(),
                begin,
                call,
                between,
                end,
                arguments,
                answer: "".into(),
                reasoning: None,
                messages: None,
                is_single: false,
                tokens: MarkTokens::default(),
            }
        }
        None => {
            let mut call = parts(&head);
            call.push(Part::Arguments);
            call.extend(parts(&tail));
            let none = || "".into();
            Syntax {
                name: "learned".into(),
                begin: none(),
                call,
                between: none(),
                end: none(),
                arguments,
                answer: "".into(),
                reasoning: None,
                messages: None,
                is_single: true,
                tokens: MarkTokens::default(),
            }
        }
    };
    // A template may choose other quotes than we do.
    let plain = |text: &str| text.trim().replace('\'', "\"").replace("True", "true");
    let tools: Vec<ToolSpec> =
        [&first, &second].iter().filter_map(|call| ToolSpec::from_openai(&definition(call)).ok()).collect();
    let writes = |calls: &[ToolCall], text: &str| plain(&syntax.render(calls, &tools).text()) == plain(text);
    let is_true = writes(std::slice::from_ref(&first), one)
        && (syntax.is_single || two.is_some_and(|two| writes(&[first, second], two)));
    is_true.then_some(syntax)
}

type Text = super::syntax::Text;

/// `begin`, the head and the tail of a call, `between` and `end`.
fn parted(
    two: &str,
    head: &str,
    tail: &str,
    (_, end): (usize, usize),
    second: &ToolCall,
    arguments: &Arguments,
) -> Option<(Text, String, String, Text, Text)> {
    // Up to the end of the first call's arguments both texts are one.
    let rest = two.get(end..)?;
    let start = match arguments {
        Arguments::Json(_) => json_in(rest, &second.arguments)?.0,
        Arguments::Gemma(_) => gemma_in(rest, &second.arguments)?.0,
        Arguments::Pythonic => rest.find("zkey_other")?,
        Arguments::Elements(elements) => rest.find(&format!("{}zkey_other", elements.open))?,
    };
    let middle = normal(rest.get(..start)?, second);
    let middle = middle.replace(&second.id, &ID.to_string()).replace("callprob1", &ID.to_string());
    let (mut own_head, mut shared) = common_end(head, &middle)?;
    let mut begin = head.get(..head.len() - own_head.replace(INDEX, "").len())?;
    // A tag is of one piece: the end of another one is no part of the call.
    if begin.rfind('<') > begin.rfind('>') {
        let piece = own_head.find('>').map(|at| at + 1).filter(|at| *at < own_head.len())?;
        begin = head.get(..begin.len() + piece)?;
        own_head.drain(..piece);
        shared -= piece;
    }
    if begin.contains([NAME, ID]) {
        return None;
    }
    let before = middle.get(..middle.len() - shared)?;
    let mut length = before
        .char_indices()
        .zip(tail.chars())
        .take_while(|((_, a), b)| a == b)
        .map(|((i, a), _)| i + a.len_utf8())
        .last()
        .unwrap_or(0);
    let common = before.get(..length)?;
    if common.rfind('<') > common.rfind('>') && common.contains('<') {
        length = common.rfind('<')?;
    }
    let own_tail = before.get(..length)?;
    let between = before.get(length..)?;
    let end = tail.get(length..)?;
    if between.contains([NAME, ID]) || end.contains([NAME, ID]) {
        return None;
    }
    Some((
        begin.to_owned().into(),
        own_head,
        own_tail.to_owned(),
        between.to_owned().into(),
        end.to_owned().into(),
    ))
}

/// The longest end that both share, but for the call's number; and how long it is in `b`.
fn common_end(a: &str, b: &str) -> Option<(String, usize)> {
    let mut shared: Vec<char> = Vec::new();
    let mut length = 0;
    for (x, y) in a.chars().rev().zip(b.chars().rev()) {
        let is_number = x.to_digit(10).is_some_and(|x| y.to_digit(10) == Some(x + 1));
        if x != y && !is_number {
            break;
        }
        shared.push(x);
        if is_number {
            shared.push(INDEX);
        }
        length += y.len_utf8();
    }
    let text: String = shared.into_iter().rev().collect();
    (length > 0).then_some((text, length))
}

/// The text with the call's name and id as slots.
fn normal(text: &str, call: &ToolCall) -> String {
    text.replace(&call.name, &NAME.to_string()).replace(&call.id, &ID.to_string())
}

/// Texts and slots. A number follows its mark.
fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let slot = match c {
            NAME => Part::Name,
            ID => Part::Id,
            INDEX => Part::Index(chars.next().and_then(|c| c.to_digit(10)).unwrap_or(0) as usize),
            other => {
                literal.push(other);
                continue;
            }
        };
        if !literal.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut literal).into()));
        }
        parts.push(slot);
    }
    if !literal.is_empty() {
        parts.push(Part::Text(literal.into()));
    }
    parts
}

/// How the first probe's arguments are written, and where.
fn arguments_in(text: &str, call: &ToolCall) -> Option<(Arguments, usize, usize)> {
    if let Some((start, end)) = json_in(text, &call.arguments) {
        let value = Value::Object(call.arguments.clone());
        let written = text.get(start..end)?;
        let spacing = spacing(written, &value);
        return Some((Arguments::Json(spacing), start, end));
    }
    if let Some((start, end)) = gemma_in(text, &call.arguments) {
        let at = text.find("zkey_text:")? + "zkey_text:".len();
        let quote = text.get(at..)?.split("ztext").next()?;
        return Some((Arguments::Gemma(quote.to_owned().into()), start, end));
    }
    let text_at = pair(text, 0, "zkey_text", &["ztext"])?;
    let number = pair(text, text_at.end, "zkey_number", &["7301"])?;
    let flag = pair(text, number.end, "zkey_flag", &["true", "True"])?;
    let list = pair(
        text,
        flag.end,
        "zkey_list",
        &["[\"zitem\", \"zmore\"]", "[\"zitem\",\"zmore\"]", "['zitem', 'zmore']"],
    );
    if number.middle == "=" {
        // Strings in single quotes are JSON to no one.
        if text_at.middle != "=\"" {
            return None;
        }
        let start = text_at.key;
        let rest = text.get(start..)?;
        let length = rest.rfind(')')?;
        return Some((Arguments::Pythonic, start, start + length));
    }
    let before = text.get(..text_at.key)?;
    let open = before.get(before.rfind('<')?..)?;
    let noise = format!("{}{open}", crate::fallback::NOISE);
    let open = if before.ends_with(&noise) { noise.as_str() } else { open };
    let gap = text.get(text_at.end..number.key)?;
    let closed = gap.strip_suffix(open)?;
    let lists = match &list {
        None => Lists::Elements,
        Some(list) if text.get(list.value..list.end).is_some_and(|list| list.starts_with("['")) => {
            Lists::Python
        }
        Some(_) => Lists::Json,
    };
    let (close, value_end, array, object) = if lists == Lists::Elements {
        // Lists and maps are elements in turn.
        let close = keyed(closed, "zkey_text")?;
        let end = text.find(&close.of("zkey_map"))?;
        (close, end, number.middle.clone(), number.middle.clone())
    } else {
        let list = list?;
        let map = pair(text, list.end, "zkey_map", &["{\"zinner\": 5}", "{\"zinner\":5}", "{'zinner': 5}"])?;
        let close = keyed(closed, "zkey_text").unwrap_or_else(|| Close::Text(closed.to_owned().into()));
        (close, map.end, list.middle, map.middle)
    };
    let after = text.get(value_end..)?;
    let (close, between) = match close {
        Close::Text(whole) => {
            let length = whole
                .char_indices()
                .zip(after.chars())
                .take_while(|((_, a), b)| a == b)
                .map(|((i, a), _)| i + a.len_utf8())
                .last()?;
            let (close, between) = whole.split_at_checked(length)?;
            (Close::Text(close.to_owned().into()), between.to_owned())
        }
        keyed => (keyed, String::new()),
    };
    let start = text_at.key - open.len();
    let end = value_end + close.of("zkey_map").len();
    let elements = Elements {
        open: open.to_owned().into(),
        middle: Middle {
            string: text_at.middle.into(),
            number: number.middle.into(),
            boolean: flag.middle.into(),
            array: array.into(),
            object: object.into(),
        },
        close,
        between: between.into(),
        python_literals: text.get(flag.value..flag.end) == Some("True"),
        lists,
    };
    Some((Arguments::Elements(elements), start, end))
}

/// The blanks of an object as it was written.
fn spacing(written: &str, value: &Value) -> Spacing {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let mut lines = written.lines().skip(1).map(indent);
    match (lines.next(), lines.last()) {
        (Some(inner), Some(base)) if inner > base => Spacing::Indented { step: inner - base, base },
        _ if written == form::spaced(value) => Spacing::Spaced,
        _ => Spacing::Compact,
    }
}

/// A close that names the key again.
fn keyed(close: &str, key: &str) -> Option<Close> {
    let (before, after) = close.split_once(key)?;
    Some(Close::Keyed(before.to_owned().into(), after.to_owned().into()))
}

/// A key and its value in a text.
struct Pair {
    key: usize,
    middle: String,
    value: usize,
    end: usize,
}

fn pair(text: &str, from: usize, key: &str, values: &[&str]) -> Option<Pair> {
    let at = from + text.get(from..)?.find(key)?;
    let rest = text.get(at + key.len()..)?;
    let (offset, value) = values.iter().filter_map(|value| Some((rest.find(value)?, value))).min()?;
    let start = at + key.len() + offset;
    let middle = rest.get(..offset)?;
    // A value further off belongs to something else.
    (middle.len() <= 64).then(|| Pair {
        key: at,
        middle: middle.to_owned(),
        value: start,
        end: start + value.len(),
    })
}

/// Where the arguments stand as an object of JSON.
fn json_in(text: &str, arguments: &Map<String, Value>) -> Option<(usize, usize)> {
    let source = Source::new(text, true);
    text.match_indices('{').find_map(|(start, _)| {
        let mut reader = Reader::new(source.at(start), Dialect::Json);
        let value = reader.value()?;
        let is_it = value.as_object() == Some(arguments) && reader.repairs.is_empty();
        is_it.then(|| (start, reader.cursor.place()))
    })
}

/// Where the arguments stand as Gemma writes them.
fn gemma_in(text: &str, arguments: &Map<String, Value>) -> Option<(usize, usize)> {
    let source = Source::new(text, true);
    text.match_indices('{').find_map(|(start, _)| {
        let mut cursor = source.at(start);
        (gemma::arguments(&mut cursor)? == *arguments).then(|| (start, cursor.place()))
    })
}
