//! What a server answers, made safe like any output and cut to what a model is shown.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use toolgate_sandbox::output;

use super::secrets::Secrets;
use crate::tools::{Status, ToolResult};

/// A call's result.
pub(super) fn of(told: CallToolResult, secrets: &Secrets, most: usize) -> ToolResult {
    let mut texts: Vec<String> = told.content.iter().map(text).collect();
    let data = told.structured_content.map(|data| secrets.hide_json(data));
    if let (true, Some(data)) = (texts.is_empty(), &data) {
        texts.push(data.to_string());
    }
    let cleaned = output::for_model(secrets.hide(texts.join("\n")).as_bytes(), most);
    let status = if told.is_error == Some(true) { Status::Failed } else { Status::Ok };
    let mut result = ToolResult::new(status, cleaned.text);
    if result.content.is_empty() {
        "[no output]".clone_into(&mut result.content);
    }
    result.truncated = cleaned.truncated;
    result.data = data.filter(|data| data.to_string().len() <= most);
    result
}

/// A part as text: what is none is named.
fn text(part: &ContentBlock) -> String {
    match part {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => not_shown("image", &image.mime_type, image.data.len()),
        ContentBlock::Audio(audio) => not_shown("audio", &audio.mime_type, audio.data.len()),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                format!("{}:\n{text}", output::name(uri))
            }
            ResourceContents::BlobResourceContents { uri, blob, .. } => {
                not_shown("resource", uri, blob.len())
            }
            _ => "[a resource of an unknown kind]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[a link to {}]", output::name(&link.uri)),
        _ => "[a part of an unknown kind]".to_owned(),
    }
}

/// A part that a model cannot read here.
fn not_shown(kind: &str, what: &str, base64: usize) -> String {
    format!("[{kind} {}, about {} bytes, not shown]", output::name(what), base64 / 4 * 3)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_become_text_that_is_safe_and_bounded() {
        let told = |value: serde_json::Value| {
            let told = serde_json::from_value(value).unwrap_or_default();
            of(told, &Secrets::default(), 1_000)
        };
        let result = told(json!({"content": [
            {"type": "text", "text": "red \u{1b}[31m"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///a\nb", "name": "a"},
        ]}));
        assert_eq!(result.status, Status::Ok);
        assert_eq!(
            result.content,
            "red \\u{1b}[31m\n[image image/png, about 3 bytes, not shown]\n[a link to file:///a\\u{a}b]"
        );
        let long = told(json!({"content": [{"type": "text", "text": "x".repeat(5_000)}], "isError": true}));
        assert!(long.truncated && long.content.len() <= 1_000 && long.status == Status::Failed);
        let data = told(json!({"content": [], "structuredContent": {"n": 1}}));
        assert_eq!((data.content.as_str(), data.data), ("{\"n\":1}", Some(json!({"n": 1}))));
        assert_eq!(told(json!({"content": []})).content, "[no output]");
    }
}
