//! Parts of results, prompts and resources, to and from the protocol's form.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rmcp::model::{ContentBlock, ResourceContents};
use toolgate_sandbox::output;

use toolgate_tools::{Body, Contents, Part};

/// A part in the protocol's form.
pub(super) fn block(part: Part) -> ContentBlock {
    match part {
        Part::Text(text) => ContentBlock::text(text),
        Part::Image { mime_type, bytes } => ContentBlock::image(BASE64_STANDARD.encode(bytes), mime_type),
        Part::Audio { mime_type, bytes } => ContentBlock::audio(BASE64_STANDARD.encode(bytes), mime_type),
        Part::Resource(contents) => ContentBlock::resource(resource(contents)),
        other => ContentBlock::text(other.shown()),
    }
}

/// The contents of a resource in the protocol's form.
pub(super) fn resource(contents: Contents) -> ResourceContents {
    let Contents { uri, mime_type, body, .. } = contents;
    match body {
        Body::Text(text) => ResourceContents::TextResourceContents { uri, mime_type, text, meta: None },
        Body::Bytes(bytes) => {
            let blob = BASE64_STANDARD.encode(bytes);
            ResourceContents::BlobResourceContents { uri, mime_type, blob, meta: None }
        }
    }
}

/// A part of another program. A kind that we have no part for becomes a text that names it.
pub(super) fn part(block: ContentBlock) -> Part {
    match block {
        ContentBlock::Text(text) => Part::Text(text.text),
        ContentBlock::Image(image) => decoded("image", &image.mime_type, &image.data, |mime_type, bytes| {
            Part::Image { mime_type, bytes }
        }),
        ContentBlock::Audio(audio) => decoded("audio", &audio.mime_type, &audio.data, |mime_type, bytes| {
            Part::Audio { mime_type, bytes }
        }),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
                typed(Contents::text(uri, text), mime_type)
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                decoded("resource", &uri, &blob, |uri, bytes| typed(Contents::bytes(uri, bytes), mime_type))
            }
            _ => Part::Text("[a resource of an unknown kind]".to_owned()),
        },
        ContentBlock::ResourceLink(link) => Part::Text(format!("[a link to {}]", output::name(&link.uri))),
        _ => Part::Text("[a part of an unknown kind]".to_owned()),
    }
}

fn typed(mut contents: Contents, mime_type: Option<String>) -> Part {
    contents.mime_type = mime_type;
    Part::Resource(contents)
}

fn decoded(kind: &str, what: &str, base64: &str, made: impl FnOnce(String, Vec<u8>) -> Part) -> Part {
    match BASE64_STANDARD.decode(base64) {
        Ok(bytes) => made(what.to_owned(), bytes),
        Err(_) => Part::Text(format!("[{kind} {}, left out: it is no base64]", output::name(what))),
    }
}
