//! Where in the text of a turn a value of a call's arguments stands: exactly for arguments written as JSON, by the
//! parameter's name and the value's own text for all others.
//!
//! For the packages of this workspace alone: no part of the API.

use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use toolgate_chat::ToolCall;

/// The bytes of `text` in which the object `arguments` stands, at byte `from` or later; `None` where it is not written
/// as JSON.
pub(crate) fn of_arguments(text: &str, from: usize, arguments: &Map<String, Value>) -> Option<Range<usize>> {
    let braces = text.get(from..)?.match_indices('{').map(|(at, _)| from + at);
    braces
        .filter_map(|at| Some((at, end_of(text, at)?)))
        .find(|&(at, end)| {
            let object = text.get(at..end).and_then(|json| serde_json::from_str::<Value>(json).ok());
            object.is_some_and(|object| object.as_object() == Some(arguments))
        })
        .map(|(at, end)| at..end)
}

/// Whether the arguments of a call stand in a text as a whole JSON object.
pub fn stands_whole(text: &str, call: &ToolCall) -> bool {
    of_arguments(text, 0, &call.arguments).is_some()
}

/// The bytes to write again where the value at `pointer` is wrong, in the JSON value that begins at byte `at`.
///
/// For a text, a number or a literal these are its own. An element of a list goes with the comma in front of it, so
/// that the list may end there instead. Of a list or object that is wrong as a whole it is the last element with its
/// comma, up to the closing bracket, so that there may be more of them.
pub(crate) fn of_value(text: &str, at: usize, pointer: &str) -> Option<Range<usize>> {
    let mut value = at..end_of(text, at)?;
    let mut with_comma = None;
    for key in steps(pointer) {
        let in_list = text.get(value.start..)?.starts_with('[');
        let (_, element) = elements(text, value.start)?
            .into_iter()
            .enumerate()
            .find(|(index, element)| if in_list { index.to_string() == key } else { element.key == key })?;
        value = element.value;
        with_comma = in_list.then_some(element.with_comma);
    }
    if with_comma.is_some() {
        return with_comma;
    }
    if let Some(last) = elements(text, value.start)?.pop() {
        value.start = last.with_comma.start;
    }
    Some(value)
}

/// The bytes to write again where the value at `pointer` is wrong, for arguments in another form than JSON (elements,
/// lines, Python), which begin at byte `from` or later: the value as it is written behind its parameter's name. Lists
/// and objects are JSON there too. Where no parameter is to blame it is the last one.
///
/// A wrong guess does little harm. What is written instead is read and checked like the first text. Where a value is looked up to see how
/// sure the model was of it, another one's tokens may be taken.
pub(crate) fn of_spelled(
    text: &str,
    from: usize,
    arguments: &Map<String, Value>,
    pointer: &str,
) -> Option<Range<usize>> {
    let named = steps(pointer).next().and_then(|key| arguments.get_key_value(&key));
    let (name, value) = named.or_else(|| arguments.iter().next_back())?;
    let behind = from + text.get(from..)?.find(name.as_str())? + name.len();
    let rest = text.get(behind..)?;
    let spellings = match value {
        Value::Array(_) | Value::Object(_) => {
            let is_value = |at: usize| {
                let json = end_of(text, at).and_then(|end| text.get(at..end));
                json.and_then(|json| serde_json::from_str::<Value>(json).ok()).as_ref() == Some(value)
            };
            let at = rest.match_indices(['[', '{']).map(|(at, _)| behind + at).find(|&at| is_value(at))?;
            let within = pointer.splitn(3, '/').nth(2).map(|rest| format!("/{rest}"));
            return of_value(text, at, &within.unwrap_or_default());
        }
        Value::String(text) => [text.clone(), value.to_string()],
        Value::Null => ["null", "None"].map(str::to_owned),
        Value::Bool(true) => ["true", "True"].map(str::to_owned),
        Value::Bool(false) => ["false", "False"].map(str::to_owned),
        Value::Number(number) => [number.to_string(), number.to_string()],
    };
    let places =
        spellings.iter().filter_map(|spelling| Some((rest.find(spelling.as_str())?, spelling.len())));
    places.min().map(|(at, len)| behind + at..behind + at + len)
}

/// A name as it stands in a JSON pointer.
pub fn step(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The names and positions that a JSON pointer goes by.
fn steps(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"))
}

/// An element of a list, or a member of an object.
struct Element {
    /// The member's key; empty in a list.
    key: String,
    value: Range<usize>,
    /// From the end of the element before, or of the opening bracket; the key is in it.
    with_comma: Range<usize>,
}

/// The elements of the list or object that begins at byte `at`.
fn elements(text: &str, at: usize) -> Option<Vec<Element>> {
    let is_object = match text.as_bytes().get(at)? {
        b'{' => true,
        b'[' => false,
        _ => return Some(Vec::new()),
    };
    let mut elements = Vec::new();
    let mut end = at + 1;
    loop {
        let mut next = skip_blank(text, end);
        if matches!(text.as_bytes().get(next)?, b'}' | b']') {
            return Some(elements);
        }
        if !elements.is_empty() {
            next = skip_blank(text, after(text, next, b',')?);
        }
        let mut key = String::new();
        if is_object {
            let end_of_key = end_of(text, next)?;
            key = serde_json::from_str(text.get(next..end_of_key)?).ok()?;
            next = skip_blank(text, after(text, skip_blank(text, end_of_key), b':')?);
        }
        let value = next..end_of(text, next)?;
        let with_comma = end..value.end;
        end = value.end;
        elements.push(Element { key, value, with_comma });
    }
}

fn after(text: &str, at: usize, byte: u8) -> Option<usize> {
    (*text.as_bytes().get(at)? == byte).then_some(at + 1)
}

fn skip_blank(text: &str, at: usize) -> usize {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// Where the JSON value that begins at byte `at` ends.
fn end_of(text: &str, at: usize) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(text.get(at..)?).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    Some(at + values.byte_offset())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    const TEXT: &str = r#"<tool_call>
{"name": "f", "arguments": {"a/b": [10, {"x": "é}{"}, []], "n": -1.5e3, "o": {"p": true}, "e": {}}}
</tool_call>"#;

    fn arguments() -> Map<String, Value> {
        let value = json!({"a/b": [10, {"x": "é}{"}, []], "n": -1.5e3, "o": {"p": true}, "e": {}});
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_pointer_leads_to_the_bytes_to_write_again() {
        let range = of_arguments(TEXT, 0, &arguments()).unwrap();
        assert!(TEXT[range.start..].starts_with("{\"a/b\""), "{range:?}");
        for (pointer, expected) in [
            ("/n", "-1.5e3"),
            ("/o/p", "true"),
            ("/a~1b/0", "10"),
            ("/a~1b/1", r#", {"x": "é}{"}"#),
            ("/a~1b/1/x", r#""é}{""#),
            ("/a~1b/2", ", []"),
            ("/a~1b", ", []]"),
            ("/o", r#""p": true}"#),
            ("/e", "{}"),
            ("", r#", "e": {}}"#),
        ] {
            let place = of_value(TEXT, range.start, pointer).unwrap();
            assert_eq!(&TEXT[place], expected, "{pointer}");
        }
        for pointer in ["/x", "/a~1b/3", "/n/0", "/a~1b/01"] {
            assert_eq!(of_value(TEXT, range.start, pointer), None, "{pointer}");
        }
    }

    #[test]
    fn values_in_other_forms_are_found_behind_their_names() {
        let arguments = json!({"path": "a path", "ids": [1, {"n": 2}], "deep": true, "n": 12});
        let arguments = arguments.as_object().unwrap();
        let elements = "<function=f>\n<parameter=path>\na path\n</parameter>\n<parameter=ids>\n[1, {\"n\": 2}]\n\
                        </parameter>\n<parameter=deep>\ntrue\n</parameter>\n<parameter=n>\n12\n</parameter>";
        let python = "[f(path='a path', ids=[1, {\"n\": 2}], deep=True, n=12)]";
        for text in [elements, python] {
            let place = |pointer: &str| of_spelled(text, 0, arguments, pointer).map(|place| &text[place]);
            assert_eq!(place("/path"), Some("a path"), "{text}");
            assert_eq!(place("/ids/1/n"), Some("2"), "{text}");
            assert_eq!(place("/ids/1"), Some(", {\"n\": 2}"), "{text}");
            assert!(place("/deep").is_some_and(|place| place.eq_ignore_ascii_case("true")), "{text}");
            assert_eq!((place("/n"), place("")), (Some("12"), Some("12")), "{text}");
        }
        assert_eq!(of_spelled("f()", 0, arguments, "/n"), None);
    }

    #[test]
    fn of_two_equal_calls_each_has_its_own_place() {
        let arguments = json!({"n": 1}).as_object().unwrap().clone();
        let text = r#"{"name": "f", "arguments": {"n": 1}} {"name": "f", "arguments": {"n": 1}}"#;
        let first = of_arguments(text, 0, &arguments).unwrap();
        let second = of_arguments(text, first.end, &arguments).unwrap();
        assert_eq!((&text[first.clone()], &text[second.clone()]), (r#"{"n": 1}"#, r#"{"n": 1}"#));
        assert!(second.start > first.end);
        assert_eq!(of_arguments(text, second.end, &arguments), None);
        assert_eq!(of_arguments("f(n=1)", 0, &arguments), None, "not JSON");
    }
}
