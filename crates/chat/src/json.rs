//! Writes JSON as Python's `json.dumps(…, ensure_ascii=False)` does: the form templates show and grammars enforce.

use serde_json::Value;

/// Separators and layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style<'a> {
    pub(crate) item: &'a str,
    pub(crate) key: &'a str,
    pub(crate) indent: Option<usize>,
}

impl Style<'_> {
    /// `{"a": 1, "b": [1, 2]}`.
    pub(crate) const SPACED: Style<'static> = Style { item: ", ", key: ": ", indent: None };
}

/// `value` in `style`; keys in their own order.
pub(crate) fn write(value: &Value, style: &Style<'_>) -> String {
    let mut out = String::new();
    write_value(value, style, 0, &mut out);
    out
}

/// `value` with a blank after each comma and colon.
pub(crate) fn spaced(value: &Value) -> String {
    write(value, &Style::SPACED)
}

/// Every character outside ASCII as `\uXXXX`, in pairs where it takes two.
pub(crate) fn to_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

fn write_value(value: &Value, style: &Style<'_>, depth: usize, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                separate(i, style, depth + 1, out);
                write_value(item, style, depth + 1, out);
            }
            end(items.is_empty(), style, depth, out);
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (i, (key, member)) in members.iter().enumerate() {
                separate(i, style, depth + 1, out);
                out.push_str(&Value::String(key.clone()).to_string());
                out.push_str(style.key);
                write_value(member, style, depth + 1, out);
            }
            end(members.is_empty(), style, depth, out);
            out.push('}');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

fn separate(index: usize, style: &Style<'_>, depth: usize, out: &mut String) {
    if index > 0 {
        out.push_str(style.item);
    }
    new_line(style, depth, out);
}

fn end(is_empty: bool, style: &Style<'_>, depth: usize, out: &mut String) {
    if !is_empty {
        new_line(style, depth, out);
    }
}

fn new_line(style: &Style<'_>, depth: usize, out: &mut String) {
    if let Some(indent) = style.indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent * depth));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn writes_what_python_writes() {
        // Right-hand sides are the output of Python 3's json.dumps.
        let value = json!({"a": [1, 2.5, null, true], "é<&>'": {}, "c": [], "d": "\n\"\\\u{1}/"});
        assert_eq!(
            spaced(&value),
            r#"{"a": [1, 2.5, null, true], "é<&>'": {}, "c": [], "d": "\n\"\\\u0001/"}"#
        );
        let style = Style { item: ",", key: ": ", indent: Some(2) };
        assert_eq!(write(&json!({"a": [1], "b": []}), &style), "{\n  \"a\": [\n    1\n  ],\n  \"b\": []\n}");
        assert_eq!(to_ascii("é😀"), "\\u00e9\\ud83d\\ude00");
    }
}
