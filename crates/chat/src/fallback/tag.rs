//! Tags: `<name>`, `</name>`, `<name=value>`, `<name key="value">`, `<|name|>` and their kin.

use std::borrow::Cow;

use super::source::Cursor;
use super::xml::NOISE;

/// Characters of the longest tag that is taken for one.
const LENGTH: usize = 256;

/// A tag, read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag<'a> {
    /// Its name, as written, without the bars of `<|name|>`.
    pub(crate) name: &'a str,
    /// What follows the name.
    pub(crate) attributes: &'a str,
    /// `</name>`.
    pub(crate) is_closing: bool,
    /// `<|name|>`, `<｜name｜>`, or with one bar alone: such tags are tokens, which no prose holds.
    pub(crate) is_special: bool,
    /// What stands between the angles.
    body: &'a str,
}

/// Whether what stands before each tag of one family stands before this place.
pub(crate) fn follows_noise(cursor: &Cursor<'_, '_>) -> bool {
    let place = cursor.place();
    cursor.source().slice(place.saturating_sub(NOISE.len()), place) == NOISE
}

impl<'a> Tag<'a> {
    /// Reads the tag here and steps past it. Behind a mark that only stands before tags, the angle may be missing.
    pub(crate) fn read(cursor: &mut Cursor<'_, 'a>) -> Option<Self> {
        let mut at = *cursor;
        if !at.eat("<") && !follows_noise(cursor) {
            return None;
        }
        let is_closing = at.eat("/");
        let mut left = LENGTH;
        let mut quoted = false;
        let body = at.take_while(|c| {
            left = left.saturating_sub(1);
            if c == '"' {
                quoted = !quoted;
            }
            left > 0 && c != '\n' && (c != '>' || quoted) && (c != '<' || quoted)
        });
        if !at.eat(">") {
            return None;
        }
        let trimmed = body.trim_matches(['|', '｜']);
        let is_special = trimmed.len() != body.len();
        let trimmed = trimmed.strip_prefix('/').unwrap_or(trimmed);
        // `<name|>` closes what `<|name>` opens.
        let ends_open = body.ends_with('|') && !body.starts_with('|');
        let is_closing = is_closing || ends_open || body.trim_start_matches(['|', '｜']).starts_with('/');
        let end = trimmed.find(|c: char| c.is_whitespace() || c == '=' || c == '"').unwrap_or(trimmed.len());
        let (name, attributes) = trimmed.split_at_checked(end)?;
        if name.is_empty() {
            return None;
        }
        *cursor = at;
        Some(Self { name, attributes: attributes.trim(), is_closing, is_special, body })
    }

    /// The name without what stands before its last `:`, `|` or `｜`: `invoke` of `atem:invoke`.
    pub(crate) fn base(&self) -> &'a str {
        // Most names are of one part.
        if self.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return self.name;
        }
        self.name.rsplit([':', '|', '｜']).next().unwrap_or(self.name)
    }

    /// The name as its closing tag repeats it, bars included.
    pub(crate) fn full_name(&self) -> &'a str {
        let end =
            self.body.find(|c: char| c.is_whitespace() || c == '=' || c == '"').unwrap_or(self.body.len());
        self.body.get(..end).unwrap_or(self.body)
    }

    /// The base name in lower case with plain underscores; blanks in the name of a token are underscores as well.
    pub(crate) fn plain(&self) -> Cow<'a, str> {
        let base = self.base();
        let has_blank = self.is_special && !self.attributes.is_empty() && !self.attributes.contains('=');
        let is_plain = |b: u8| b.is_ascii_graphic() && !b.is_ascii_uppercase() && b != b'\\';
        if !has_blank && base.bytes().all(is_plain) {
            return Cow::Borrowed(base);
        }
        let name = if has_blank { format!("{base}_{}", self.attributes) } else { base.to_owned() };
        Cow::Owned(name.to_lowercase().replace(['▁', ' '], "_").replace("\\_", "_"))
    }

    /// What it names: `f` in `<function=f>` and `<function name="f">`.
    pub(crate) fn value(&self) -> Option<String> {
        if let Some(value) = self.attribute("name") {
            return Some(value);
        }
        let value = self.attributes.strip_prefix('=')?.trim().trim_matches(['"', '\'']).trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// The value of `key="value"`.
    pub(crate) fn attribute(&self, key: &str) -> Option<String> {
        Self::attribute_of(self.attributes, key)
    }

    /// The value of `key="value"` among others.
    pub(crate) fn attribute_of(attributes: &str, key: &str) -> Option<String> {
        // Each sign that a value may follow, and what stands before it: most tags have one of them, or none.
        for (at, _) in attributes.match_indices('=') {
            let (written, value) = attributes.split_at_checked(at)?;
            let Some(before) = written.trim_end().strip_suffix(key) else { continue };
            if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let value = value.get(1..)?.trim_start();
            let Some(quote) = value.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
                // Without quotes, it goes on to the next blank.
                let bare = value.split(char::is_whitespace).next().filter(|bare| !bare.is_empty());
                return bare.map(str::to_owned);
            };
            let inner = value.get(1..)?;
            return inner.split(quote).next().map(str::to_owned);
        }
        None
    }
}
