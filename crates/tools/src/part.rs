//! The parts of a result, a prompt or a resource: text and other content. Knows no protocol.

use std::borrow::Cow;

use toolgate_sandbox::output;

/// A piece of content.
///
/// ```
/// use toolgate_tools::Part;
///
/// let chart = Part::Image { mime_type: "image/png".into(), bytes: vec![0; 300] };
/// assert_eq!(chart.shown(), "[image image/png, 300 bytes, not shown]");
/// assert_eq!(Part::Text("42 pieces".into()).shown(), "42 pieces");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// Text.
    Text(String),
    /// A picture.
    Image {
        /// Its type, such as `image/png`.
        mime_type: String,
        /// Its file's bytes.
        bytes: Vec<u8>,
    },
    /// A recording.
    Audio {
        /// Its type, such as `audio/wav`.
        mime_type: String,
        /// Its file's bytes.
        bytes: Vec<u8>,
    },
    /// A resource's contents, with its name.
    Resource(Contents),
}

/// The contents of a resource.
///
/// ```
/// use toolgate_tools::{Body, Contents, Part};
///
/// let contents = Contents::text("notes://today", "Water the plants.").with_mime_type("text/markdown");
/// assert_eq!(Part::Resource(contents).shown(), "notes://today:\nWater the plants.");
/// let contents = Contents::bytes("notes://photo", [0; 12]);
/// assert_eq!(contents.body, Body::Bytes(vec![0; 12]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents {
    /// Its URI.
    pub uri: String,
    /// Its type, where it is known.
    pub mime_type: Option<String>,
    /// Its content.
    pub body: Body,
}

/// Text, or something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Text.
    Text(String),
    /// Anything.
    Bytes(Vec<u8>),
}

impl Part {
    /// The text that a model gets in its place, since models read text alone.
    pub fn shown(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Image { mime_type, bytes } => not_shown("image", mime_type, bytes).into(),
            Self::Audio { mime_type, bytes } => not_shown("audio", mime_type, bytes).into(),
            Self::Resource(Contents { uri, body: Body::Text(text), .. }) => {
                format!("{}:\n{text}", output::name(uri)).into()
            }
            Self::Resource(Contents { uri, body: Body::Bytes(bytes), .. }) => {
                not_shown("resource", uri, bytes).into()
            }
        }
    }

    /// Whether it is text alone.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }
}

impl Contents {
    /// Text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self { uri: uri.into(), mime_type: None, body: Body::Text(text.into()) }
    }

    /// Anything else.
    pub fn bytes(uri: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { uri: uri.into(), mime_type: None, body: Body::Bytes(bytes.into()) }
    }

    /// Sets its type.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}

fn not_shown(kind: &str, what: &str, bytes: &[u8]) -> String {
    format!("[{kind} {}, {} bytes, not shown]", output::name(what), bytes.len())
}
