//! The content of a message: a text, or a list of parts. The model reads the parts that are text. Any other part leaves a note in
//! its place. Otherwise a conversation that holds a picture would be refused for good.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::field::Field;
use super::refusal::Refusal;

/// A message's content as one text. `None` if there is no content.
pub(super) fn content(field: &Field<'_>) -> Result<Option<String>, Refusal> {
    content_of(field, part)
}

/// A content as one text. `text_of` gives the text of a part.
pub(super) fn content_of<'a>(
    field: &Field<'a>,
    text_of: impl Fn(&Field<'a>) -> Result<Cow<'a, str>, Refusal>,
) -> Result<Option<String>, Refusal> {
    match field.value() {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        // This is one part, without the list around it.
        Some(Value::Object(_)) => Ok(Some(text_of(field)?.into_owned())),
        Some(_) => {
            let parts: Result<Vec<Cow<'a, str>>, Refusal> = field.list()?.iter().map(text_of).collect();
            let parts = parts?;
            let texts: Vec<&str> = parts.iter().map(AsRef::as_ref).filter(|text| !text.is_empty()).collect();
            Ok(Some(texts.join("\n")))
        }
    }
}

/// A content that has to be there. A missing one counts as an empty text, with a warning.
pub(super) fn said(field: &Field<'_>) -> Result<String, Refusal> {
    Ok(content(field)?.unwrap_or_else(|| {
        field.warn("there is no content here: it is read as an empty text");
        String::new()
    }))
}

/// The text of a part.
pub(super) fn part<'a>(part: &Field<'a>) -> Result<Cow<'a, str>, Refusal> {
    if let Some(Value::String(text)) = part.value() {
        return Ok(text.into());
    }
    let text = |key: &str| Ok(part.at(key).text()?.unwrap_or_default().into());
    match part.at("type").text()? {
        Some("text" | "input_text" | "output_text" | "reasoning_text" | "summary_text") => text("text"),
        None if part.at("text").is_there() => text("text"),
        Some("refusal") => text("refusal"),
        Some("document") => document(part),
        // It is the other API's part, and stands where no result is.
        Some("tool_result") => {
            part.warn("a result is no part of a text: it is read as one");
            Ok(content(&part.at("content"))?.unwrap_or_default().into())
        }
        Some("search_result") => found(part),
        Some("file" | "input_file") => {
            let file = part.at("file");
            file_of(part, if file.is_there() { &file } else { part })
        }
        kind => Ok(left_out(part, kind.unwrap_or("unknown"))),
    }
}

/// The note in place of a part that is left out.
fn left_out<'a>(part: &Field<'_>, kind: &str) -> Cow<'a, str> {
    let kind: String = kind.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(40).collect();
    part.warn(format!(
        "this model reads text alone: a part of the type \"{kind}\" is left out, with a note in its place"
    ));
    format!("[a part of the type \"{kind}\" is left out: this model reads text alone]").into()
}

/// A document of the Anthropic API: its text, or a note.
fn document<'a>(part: &Field<'a>) -> Result<Cow<'a, str>, Refusal> {
    let source = part.at("source");
    let body: Option<String> = match source.at("type").text()? {
        Some("text") => source.at("data").text()?.map(str::to_owned),
        Some("content") => content(&source.at("content"))?,
        Some("base64") => {
            let kind = source.at("media_type").text()?.unwrap_or_default();
            is_text(kind).then(|| source.at("data").text()).transpose()?.flatten().and_then(decoded)
        }
        _ => None,
    };
    match body {
        Some(body) => Ok(titled([part.at("title").text()?, part.at("context").text()?], body).into()),
        None => Ok(left_out(part, "document")),
    }
}

/// A finding of the client's own search.
fn found<'a>(part: &Field<'a>) -> Result<Cow<'a, str>, Refusal> {
    let body = content(&part.at("content"))?.unwrap_or_default();
    Ok(titled([part.at("title").text()?, part.at("source").text()?], body).into())
}

fn titled(heads: [Option<&str>; 2], body: String) -> String {
    let heads = heads.into_iter().flatten().filter(|head| !head.is_empty());
    heads.map(str::to_owned).chain([body]).collect::<Vec<_>>().join("\n")
}

/// A file of the OpenAI API, which comes as a data URL.
fn file_of<'a>(part: &Field<'a>, file: &Field<'a>) -> Result<Cow<'a, str>, Refusal> {
    let name = file.at("filename").text()?;
    let url = file.at("file_data").text()?.and_then(|data| data.strip_prefix("data:"));
    let body = url.and_then(|url| {
        let (head, data) = url.split_once(',')?;
        let (kind, encoding) = head.split_once(';').unwrap_or((head, ""));
        (is_text(kind) && encoding.ends_with("base64")).then(|| decoded(data)).flatten()
    });
    match body {
        Some(body) => Ok(titled([name, None], body).into()),
        None => Ok(left_out(part, "file")),
    }
}

/// Whether files of this type are texts.
fn is_text(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || ["json", "xml", "yaml", "toml", "javascript", "x-yaml", "x-sh"]
            .iter()
            .any(|text| kind.strip_prefix("application/") == Some(text))
}

fn decoded(base64: &str) -> Option<String> {
    String::from_utf8(BASE64_STANDARD.decode(base64.trim()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    fn read(content: Value) -> (String, Vec<String>) {
        let body = json!({ "content": content });
        let field = Field::root(&body).at("content");
        let text = super::content(&field).unwrap().unwrap_or_default();
        (text, field.warnings().into_iter().map(|warning| warning.pointer).collect())
    }

    #[test]
    fn texts_are_read_however_they_come() {
        let notes = BASE64_STANDARD.encode("Käse: 3");
        for (content, text) in [
            (json!("a"), "a"),
            (json!(["a", {"type": "input_text", "text": "b"}, {"text": "c"}]), "a\nb\nc"),
            (json!({"type": "text", "text": "a"}), "a"),
            (json!([{"type": "text", "text": ""}, {"type": "refusal", "refusal": "no"}]), "no"),
            (
                json!([{"type": "document", "title": "List", "source": {"type": "text", "media_type": "text/plain", "data": "1. Käse"}}]),
                "List\n1. Käse",
            ),
            (
                json!([{"type": "document", "source": {"type": "base64", "media_type": "text/csv", "data": notes}}]),
                "Käse: 3",
            ),
            (
                json!([{"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "x"}]}}]),
                "x",
            ),
            (
                json!([{"type": "file", "file": {"filename": "n.md", "file_data": format!("data:text/markdown;base64,{notes}")}}]),
                "n.md\nKäse: 3",
            ),
            (
                json!([{"type": "search_result", "title": "T", "source": "s", "content": [{"type": "text", "text": "y"}]}]),
                "T\ns\ny",
            ),
        ] {
            assert_eq!(read(content.clone()), (text.to_owned(), Vec::new()), "{content}");
        }
    }

    #[test]
    fn what_is_no_text_leaves_a_note_and_a_warning() {
        let pdf = json!({"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="});
        for part in [
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}),
            json!({"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}),
            json!({"type": "document", "source": pdf}),
            json!({"type": "file", "file": {"file_id": "file-1"}}),
            json!({"type": "file", "file": {"file_data": "data:text/plain;base64,*"}}),
            json!({"type": "input_audio", "input_audio": {}}),
            json!({}),
        ] {
            let (text, warnings) = read(json!(["before", part, "behind"]));
            assert!(
                text.starts_with("before\n[a part of the type ") && text.ends_with("]\nbehind"),
                "{text}"
            );
            assert_eq!(warnings, ["/content/1"], "{part}");
        }
    }
}
