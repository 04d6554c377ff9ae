//! A server's answers, made safe like any output and cut to the size that a model sees.
//!
//! Invariant: the parts have the same words as the text. Neither has a value of a variable. The bound of messages bounds
//! their bytes.

use rmcp::model::{CallToolResult, ContentBlock};
use toolgate_sandbox::output;

use super::super::content;
use super::secrets::Secrets;
use toolgate_tools::{Body, Contents, Part, Status, ToolResult};

/// A call's result.
pub(super) fn of(told: CallToolResult, secrets: &Secrets, most: usize) -> ToolResult {
    let mut parts: Vec<Part> = told.content.into_iter().map(|block| own(block, secrets)).collect();
    let data = told.structured_content.map(|data| secrets.hide_json(data));
    if let (true, Some(data)) = (parts.is_empty(), &data) {
        parts.push(Part::Text(data.to_string()));
    }
    let mut result = ToolResult::of(parts);
    let said = secrets.hide(result.content.clone());
    // A value that goes over the end of a part was found in none.
    if said != result.content {
        result.parts.clear();
    }
    let cleaned = output::for_model(said.as_bytes(), most);
    safe(&mut result.parts, most);
    result.status = if told.is_error == Some(true) { Status::Failed } else { Status::Ok };
    result.content = cleaned.text;
    if result.content.is_empty() {
        "[no output]".clone_into(&mut result.content);
    }
    result.truncated = cleaned.truncated;
    result.data = data.filter(|data| data.to_string().len() <= most);
    result
}

/// A part as ours, without the values of variables; one that has such a value among its bytes is left out.
fn own(block: ContentBlock, secrets: &Secrets) -> Part {
    let part = content::part(block);
    if let Part::Image { bytes, .. }
    | Part::Audio { bytes, .. }
    | Part::Resource(Contents { body: Body::Bytes(bytes), .. }) = &part
        && let Some(name) = secrets.named_in(bytes)
    {
        return Part::Text(format!("[a part is left out: the value of {name} is in it]"));
    }
    without(part, secrets)
}

/// A part without the values of variables in its words.
fn without(part: Part, secrets: &Secrets) -> Part {
    let hide = |text| secrets.hide(text);
    match part {
        Part::Text(text) => Part::Text(hide(text)),
        Part::Image { mime_type, bytes } => Part::Image { mime_type: hide(mime_type), bytes },
        Part::Audio { mime_type, bytes } => Part::Audio { mime_type: hide(mime_type), bytes },
        Part::Resource(mut contents) => {
            contents.uri = hide(contents.uri);
            contents.mime_type = contents.mime_type.map(hide);
            contents.body = match contents.body {
                Body::Text(text) => Body::Text(hide(text)),
                bytes => bytes,
            };
            Part::Resource(contents)
        }
        other => Part::Text(hide(other.shown().into_owned())),
    }
}

/// Makes the words of parts safe, and cuts their texts to `most` bytes in all.
fn safe(parts: &mut [Part], most: usize) {
    let mut room = most;
    let mut cut = |text: &mut String| {
        *text = output::for_model(text.as_bytes(), room).text;
        room = room.saturating_sub(text.len());
    };
    let spelled = |name: &mut String| *name = output::for_terminal(name).into_owned();
    for part in parts {
        match part {
            Part::Text(text) => cut(text),
            Part::Image { mime_type, .. } | Part::Audio { mime_type, .. } => spelled(mime_type),
            Part::Resource(Contents { uri, mime_type, body, .. }) => {
                spelled(uri);
                mime_type.iter_mut().for_each(spelled);
                if let Body::Text(text) = body {
                    cut(text);
                }
            }
            other => {
                let mut text = other.shown().into_owned();
                cut(&mut text);
                *other = Part::Text(text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(value: serde_json::Value, secrets: &Secrets) -> ToolResult {
        of(serde_json::from_value(value).unwrap_or_default(), secrets, 1_000)
    }

    #[test]
    fn parts_become_text_that_is_safe_and_bounded() {
        let told = |value| told(value, &Secrets::default());
        let result = told(json!({"content": [
            {"type": "text", "text": "red \u{1b}[31m"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///a\nb", "name": "a"},
        ]}));
        assert_eq!(result.status, Status::Ok);
        assert_eq!(
            result.content,
            "red \\u{1b}[31m\n[image image/png, 3 bytes, not shown]\n[a link to file:///a\\u{a}b]"
        );
        let long = told(json!({"content": [{"type": "text", "text": "x".repeat(5_000)}], "isError": true}));
        assert!(long.truncated && long.content.len() <= 1_000 && long.status == Status::Failed);
        let data = told(json!({"content": [], "structuredContent": {"n": 1}}));
        assert_eq!((data.content.as_str(), data.data), ("{\"n\":1}", Some(json!({"n": 1}))));
        assert_eq!(told(json!({"content": []})).content, "[no output]");
    }

    #[test]
    fn what_is_no_text_is_handed_on_in_its_place_and_text_alone_is_not() {
        let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
        let note = json!({"type": "resource", "resource": {"uri": "a:b", "text": "red \u{1b}[31m", "mimeType": "text/plain"}});
        let result =
            told(json!({"content": [{"type": "text", "text": "first"}, image, note]}), &Secrets::default());
        let note = Contents::text("a:b", "red \\u{1b}[31m").with_mime_type("text/plain");
        let image = Part::Image { mime_type: "image/png".to_owned(), bytes: vec![0; 3] };
        assert_eq!(result.parts, [Part::Text("first".to_owned()), image, Part::Resource(note)]);
        assert_eq!(
            told(json!({"content": [{"type": "text", "text": "first"}]}), &Secrets::default()).parts,
            []
        );
        let broken = json!({"content": [{"type": "image", "data": "A", "mimeType": "image/png"}]});
        let broken = told(broken, &Secrets::default());
        assert_eq!(
            (broken.content.as_str(), broken.parts.len()),
            ("[image image/png, left out: it is no base64]", 0)
        );
    }

    #[test]
    fn the_texts_of_parts_are_cut_like_all_of_them() {
        let text = |size| json!({"type": "text", "text": "x".repeat(size)});
        let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
        let result = told(json!({"content": [text(800), image, text(800)]}), &Secrets::default());
        let texts =
            result.parts.iter().filter(|part| matches!(part, Part::Text(_))).map(|part| part.shown().len());
        assert!(texts.sum::<usize>() <= 1_000 && result.truncated && result.parts.len() == 3, "{result:?}");
    }

    #[test]
    fn no_part_holds_the_value_of_a_variable() {
        let secrets = Secrets::for_tests(&[("KEY", "sk-1234567890"), ("LINES", "first line\nsecond line")]);
        let blob = |bytes: &[u8]| {
            use base64::Engine as _;
            let blob = base64::prelude::BASE64_STANDARD.encode(bytes);
            json!({"type": "resource", "resource": {"uri": "a:sk-1234567890", "blob": blob}})
        };
        let result = told(
            json!({"content": [{"type": "text", "text": "is sk-1234567890"}, blob(b"12345")]}),
            &secrets,
        );
        assert_eq!(
            result.parts,
            [Part::Text("is [KEY]".to_owned()), Part::Resource(Contents::bytes("a:[KEY]", *b"12345")),]
        );
        let result = told(json!({"content": [blob(b"\0sk-1234567890\0")]}), &secrets);
        assert_eq!(result.content, "[a part is left out: the value of KEY is in it]");
        assert!(result.parts.is_empty());
        // One that goes over the end of a part is in the text no more, and in no part.
        let (first, second) =
            (json!({"type": "text", "text": "first line"}), json!({"type": "text", "text": "second line"}));
        let result = told(json!({"content": [blob(b"1"), first, second]}), &secrets);
        assert!(result.content.ends_with("[LINES]") && result.parts.is_empty(), "{result:?}");
    }
}
