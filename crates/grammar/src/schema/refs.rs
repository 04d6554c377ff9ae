//! Where a reference leads: an index of identifiers and anchors, and the walk of a JSON pointer.
//!
//! Invariant: only places inside the document are ever named; nothing is fetched.

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

/// Identifiers and anchors of a document.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Resource address to JSON pointer.
    resources: FxHashMap<String, String>,
    /// Resource address and anchor to JSON pointer.
    anchors: FxHashMap<(String, String), String>,
    /// Pointers that start a resource, with its address.
    bases: Vec<(String, String)>,
    /// How many places bear each dynamic anchor; recursive ones count under an empty name.
    dynamic: FxHashMap<String, usize>,
}

/// Keywords whose values are data, so that an `$id` in them names nothing.
const DATA: [&str; 5] = ["enum", "const", "default", "examples", "example"];

impl Index {
    /// Collects identifiers and anchors of the whole document, without recursion on the native stack.
    /// `identifier` is the keyword that names a resource: `$id`, or `id` in draft 4.
    pub(crate) fn new(root: &Value, identifier: &str) -> Self {
        let mut index = Self::default();
        index.resources.insert(String::new(), String::new());
        index.bases.push((String::new(), String::new()));
        let mut queue: Vec<(String, String, &Value)> = vec![(String::new(), String::new(), root)];
        while let Some((pointer, base, value)) = queue.pop() {
            match value {
                Value::Object(map) => {
                    let base = index.name(&pointer, base, map, identifier);
                    for (key, child) in map {
                        if !DATA.contains(&key.as_str()) && (child.is_object() || child.is_array()) {
                            queue.push((join_pointer(&pointer, key), base.clone(), child));
                        }
                    }
                }
                Value::Array(items) => {
                    for (i, child) in items.iter().enumerate() {
                        if child.is_object() || child.is_array() {
                            queue.push((format!("{pointer}/{i}"), base.clone(), child));
                        }
                    }
                }
                _ => {}
            }
        }
        index
    }

    /// Records what the object at `pointer` calls itself; returns the base its children have.
    fn name(
        &mut self,
        pointer: &str,
        mut base: String,
        map: &Map<String, Value>,
        identifier: &str,
    ) -> String {
        // A property of that name has a schema as its value, never a string.
        if let Some(Value::String(id)) = map.get(identifier) {
            let (address, fragment) = id.split_once('#').unwrap_or((id, ""));
            if !address.is_empty() {
                base = join_address(&base, address);
                self.resources.insert(base.clone(), pointer.to_owned());
                self.bases.push((pointer.to_owned(), base.clone()));
            }
            if !fragment.is_empty() && !fragment.starts_with('/') {
                self.anchors.entry((base.clone(), fragment.to_owned())).or_insert_with(|| pointer.to_owned());
            }
        }
        for key in ["$anchor", "$dynamicAnchor"] {
            if let Some(Value::String(anchor)) = map.get(key) {
                self.anchors.entry((base.clone(), anchor.clone())).or_insert_with(|| pointer.to_owned());
                if key == "$dynamicAnchor" {
                    *self.dynamic.entry(anchor.clone()).or_default() += 1;
                }
            }
        }
        if map.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
            *self.dynamic.entry(String::new()).or_default() += 1;
        }
        base
    }

    /// The JSON pointer `reference` leads to, as written in the subschema at `pointer`.
    pub(crate) fn resolve(&self, pointer: &str, reference: &str) -> Option<String> {
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let base = self.base_of(pointer);
        let target = if address.is_empty() { base.to_owned() } else { join_address(base, address) };
        let resource = self.resources.get(&target)?;
        let fragment = percent_decoded(fragment)?;
        if fragment.is_empty() {
            Some(resource.clone())
        } else if fragment.starts_with('/') {
            Some(format!("{resource}{fragment}"))
        } else {
            self.anchors.get(&(target, fragment)).cloned()
        }
    }

    /// Whether a dynamic reference may lead elsewhere depending on the way by which it is reached.
    pub(crate) fn is_dynamic(&self, reference: &str) -> bool {
        let anchor = reference.split_once('#').map_or("", |(_, fragment)| fragment);
        self.dynamic.get(anchor).is_some_and(|places| *places > 1)
    }

    fn base_of(&self, pointer: &str) -> &str {
        self.bases
            .iter()
            .filter(|(start, _)| {
                pointer
                    .strip_prefix(start.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
            .max_by_key(|(start, address)| (start.len(), !address.is_empty()))
            .map_or("", |(_, address)| address.as_str())
    }
}

/// The value at a JSON pointer. The pointer is followed token by token; a token that is no key leads nowhere.
pub(crate) fn walk<'a>(root: &'a Value, pointer: &str) -> Option<&'a Value> {
    root.pointer(pointer)
}

/// `pointer` followed by one more key.
pub(crate) fn join_pointer(pointer: &str, key: &str) -> String {
    if key.contains(['~', '/']) {
        format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
    } else {
        format!("{pointer}/{key}")
    }
}

/// RFC 3986 reference resolution, as far as schema identifiers need it.
fn join_address(base: &str, reference: &str) -> String {
    if has_scheme(reference) || base.is_empty() {
        return reference.to_owned();
    }
    let after_scheme = base.find("://").map(|i| i + 3);
    let authority_end = after_scheme.map_or(0, |start| {
        base.get(start..).and_then(|rest| rest.find('/')).map_or(base.len(), |i| start + i)
    });
    let (authority, path) = base.split_at_checked(authority_end).unwrap_or((base, ""));
    if let Some(rest) = reference.strip_prefix("//") {
        let scheme = base.split_once("//").map_or("", |(scheme, _)| scheme);
        return format!("{scheme}//{rest}");
    }
    let folder = match path.rfind('/') {
        _ if reference.starts_with('/') => "",
        Some(i) => path.get(..=i).unwrap_or_default(),
        None if after_scheme.is_some() => "/",
        None => "",
    };
    format!("{authority}{}", without_dots(&format!("{folder}{reference}")))
}

fn without_dots(path: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "." => {}
            ".." => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out.join("/")
}

fn has_scheme(reference: &str) -> bool {
    reference.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    })
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| byte.and_then(|b| char::from(b).to_digit(16));
            let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
            out.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn references_resolve_against_the_nearest_identifier() {
        let schema = json!({
            "$id": "http://example.com/root.json",
            "$defs": {
                "a~b": {"$anchor": "here"},
                "other": {"$id": "sub/other.json", "$defs": {"x": {"$anchor": "there"}}},
                "urn": {"$id": "urn:uuid:1", "enum": [{"$id": "not-an-id"}]}
            }
        });
        let index = Index::new(&schema, "$id");
        for (from, reference, to) in [
            ("", "#", Some("")),
            ("", "#/$defs/a~0b", Some("/$defs/a~0b")),
            ("", "#here", Some("/$defs/a~0b")),
            ("", "http://example.com/root.json#here", Some("/$defs/a~0b")),
            ("", "sub/other.json", Some("/$defs/other")),
            ("", "/sub/other.json#there", Some("/$defs/other/$defs/x")),
            ("/$defs/other/$defs/x", "#/$defs/x", Some("/$defs/other/$defs/x")),
            ("/$defs/other/$defs/x", "../root.json#here", Some("/$defs/a~0b")),
            ("/$defs/other", "other.json#there", Some("/$defs/other/$defs/x")),
            ("", "urn:uuid:1", Some("/$defs/urn")),
            ("", "not-an-id", None),
            ("", "#there", None),
            ("", "http://elsewhere.example/schema", None),
            ("", "#/%24defs/other", Some("/$defs/other")),
        ] {
            assert_eq!(index.resolve(from, reference).as_deref(), to, "{reference} from {from:?}");
        }
    }
}
