//! Where a reference leads: an index of identifiers and anchors, and the walk of a JSON pointer.
//!
//! Invariant: only places inside the document are ever named; nothing is fetched.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::work::{ForeignMap, Work, bytes};

/// Number of an address that references below it are relative to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct BaseId(u32);

/// A place in the document.
#[derive(Clone, Debug)]
pub(crate) struct Spot<'a> {
    pub(crate) value: &'a Value,
    pub(crate) pointer: Arc<str>,
    pub(crate) base: BaseId,
}

/// Identifiers and anchors of a document.
#[derive(Debug)]
pub(crate) struct Index<'a> {
    /// Addresses by number; the first is the document's own, before it says otherwise.
    addresses: Vec<Arc<str>>,
    numbers: ForeignMap<Arc<str>, BaseId>,
    /// For each address the resource that has it.
    resources: Vec<Spot<'a>>,
    /// By anchor and address.
    anchors: ForeignMap<&'a str, FxHashMap<BaseId, Spot<'a>>>,
    /// Objects that start a resource, by where they are in memory.
    named: FxHashMap<usize, BaseId>,
    /// How many places bear each dynamic anchor; recursive ones count under an empty name.
    dynamic: ForeignMap<&'a str, usize>,
}

/// Keywords whose values are data, so that an `$id` in them names nothing.
const DATA: [&str; 5] = ["enum", "const", "default", "examples", "example"];

/// A step from a value to one in it: the value's number, and the key or the position.
type Step<'a> = (usize, Result<&'a str, usize>);

impl<'a> Index<'a> {
    /// Collects identifiers and anchors of the whole document, without recursion on the native stack.
    /// `identifier` is the keyword that names a resource: `$id`, or `id` in draft 4.
    pub(crate) fn new(root: &'a Value, identifier: &str, work: &Work) -> Self {
        let own: Arc<str> = "".into();
        let whole = Spot { value: root, pointer: Arc::clone(&own), base: BaseId(0) };
        let mut index = Self {
            addresses: vec![Arc::clone(&own)],
            numbers: [(own, BaseId(0))].into_iter().collect(),
            resources: vec![whole],
            anchors: ForeignMap::default(),
            named: FxHashMap::default(),
            dynamic: ForeignMap::default(),
        };
        // Pointers are written only where something has a name.
        let mut steps: Vec<Step<'a>> = Vec::new();
        let mut queue: Vec<(usize, BaseId, &'a Value)> = vec![(0, BaseId(0), root)];
        while let Some((at, base, value)) = queue.pop() {
            if !work.spend(1) {
                break;
            }
            let base = index.name(value, base, identifier, work, &|| pointer(&steps, at));
            let mut push = |step: Result<&'a str, usize>, child: &'a Value| {
                if child.is_object() || child.is_array() {
                    steps.push((at, step));
                    queue.push((steps.len(), base, child));
                }
            };
            match value {
                Value::Object(map) => {
                    let schemas = map.iter().filter(|(key, _)| !DATA.contains(&key.as_str()));
                    schemas.for_each(|(key, child)| push(Ok(key), child));
                }
                Value::Array(items) => items.iter().enumerate().for_each(|(i, child)| push(Err(i), child)),
                _ => {}
            }
        }
        index
    }

    /// Records what an object calls itself; returns the base its children have.
    fn name(
        &mut self,
        value: &'a Value,
        mut base: BaseId,
        identifier: &str,
        work: &Work,
        pointer: &dyn Fn() -> Arc<str>,
    ) -> BaseId {
        let Some(map) = value.as_object() else { return base };
        let spot = |base| {
            let pointer = pointer();
            work.spend(bytes(pointer.len()));
            Spot { value, pointer, base }
        };
        // A property of that name has a schema as its value, never a string.
        if let Some(Value::String(id)) = map.get(identifier) {
            let (address, fragment) = id.split_once('#').unwrap_or((id, ""));
            if !address.is_empty() {
                let joined = join_address(self.address(base), address);
                work.spend(4 * bytes(joined.len()));
                base = self.number(joined.into());
                self.named.insert(address_of(value), base);
                if let Some(resource) = self.resources.get_mut(base.0 as usize) {
                    *resource = spot(base);
                } else {
                    self.resources.push(spot(base));
                }
            }
            if !fragment.is_empty() && !fragment.starts_with('/') {
                self.anchors.entry(fragment).or_default().entry(base).or_insert_with(|| spot(base));
            }
        }
        for key in ["$anchor", "$dynamicAnchor"] {
            if let Some(Value::String(anchor)) = map.get(key) {
                self.anchors.entry(anchor).or_default().entry(base).or_insert_with(|| spot(base));
                if key == "$dynamicAnchor" {
                    *self.dynamic.entry(anchor).or_default() += 1;
                }
            }
        }
        if map.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
            *self.dynamic.entry("").or_default() += 1;
        }
        base
    }

    fn address(&self, base: BaseId) -> &str {
        self.addresses.get(base.0 as usize).map_or("", |address| address)
    }

    fn number(&mut self, address: Arc<str>) -> BaseId {
        let next = BaseId(u32::try_from(self.addresses.len()).unwrap_or(u32::MAX));
        let number = *self.numbers.entry(Arc::clone(&address)).or_insert(next);
        if number == next {
            self.addresses.push(address);
        }
        number
    }

    /// The base of what stands in a value, if `outer` is that of what the value stands in.
    pub(crate) fn base_of(&self, value: &Value, outer: BaseId) -> BaseId {
        self.named.get(&address_of(value)).copied().unwrap_or(outer)
    }

    /// The whole document.
    pub(crate) fn root(&self, value: &'a Value) -> Spot<'a> {
        Spot { value, pointer: "".into(), base: self.base_of(value, BaseId(0)) }
    }

    /// Where `reference` leads, as written where `base` holds.
    pub(crate) fn resolve(&self, base: BaseId, reference: &str, work: &Work) -> Option<Spot<'a>> {
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let target = if address.is_empty() {
            base
        } else {
            let joined = join_address(self.address(base), address);
            work.spend(4 * bytes(joined.len()));
            *self.numbers.get(joined.as_str())?
        };
        let resource = self.resources.get(target.0 as usize)?;
        let fragment = percent_decoded(fragment)?;
        if fragment.is_empty() {
            Some(resource.clone())
        } else if fragment.starts_with('/') {
            self.walk(resource, &fragment, work)
        } else {
            self.anchors.get(fragment.as_str())?.get(&target).cloned()
        }
    }

    /// Follows a JSON pointer token by token; a token that is no key leads nowhere. What comes out has the one pointer
    /// of its place, however the way to it was spelled.
    pub(crate) fn walk(&self, from: &Spot<'a>, pointer: &str, work: &Work) -> Option<Spot<'a>> {
        let mut spot = from.clone();
        let mut written = spot.pointer.as_ref().to_owned();
        for token in pointer.split('/').skip(1) {
            work.spend(1);
            let token = token.replace("~1", "/").replace("~0", "~");
            let child = match spot.value {
                Value::Object(map) => map.get(&token)?,
                Value::Array(items) if token == "0" || !token.starts_with(['0', '+']) => {
                    items.get(token.parse::<usize>().ok()?)?
                }
                _ => return None,
            };
            push_token(&mut written, &token);
            spot = Spot { value: child, base: self.base_of(child, spot.base), ..spot };
        }
        work.spend(2 * bytes(written.len()));
        Some(Spot { pointer: written.into(), ..spot })
    }

    /// Whether a dynamic reference may lead elsewhere depending on the way by which it is reached.
    pub(crate) fn is_dynamic(&self, reference: &str) -> bool {
        let anchor = reference.split_once('#').map_or("", |(_, fragment)| fragment);
        self.dynamic.get(anchor).is_some_and(|places| *places > 1)
    }
}

/// What tells the values of a document apart: each is in memory once.
pub(crate) fn address_of(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
}

/// The JSON pointer of the value with that number; the first one is the document.
fn pointer(steps: &[Step<'_>], at: usize) -> Arc<str> {
    let step = |at: &usize| at.checked_sub(1).and_then(|before| steps.get(before));
    let way: Vec<usize> = std::iter::successors(Some(at), |at| step(at).map(|(from, _)| *from)).collect();
    let mut out = String::new();
    for (_, token) in way.iter().rev().filter_map(step) {
        match token {
            Ok(key) => push_token(&mut out, key),
            Err(place) => push_token(&mut out, &place.to_string()),
        }
    }
    out.into()
}

fn push_token(pointer: &mut String, key: &str) {
    pointer.push('/');
    for c in key.chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            c => pointer.push(c),
        }
    }
}

/// `pointer` followed by one more key.
pub(crate) fn join_pointer(pointer: &str, key: &str) -> String {
    let mut out = String::with_capacity(pointer.len() + key.len() + 1);
    out.push_str(pointer);
    push_token(&mut out, key);
    out
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
        let work = Work::new(&crate::Limits::default(), 0);
        let index = Index::new(&schema, "$id", &work);
        let root = index.root(&schema);
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
            ("", "#/$defs/a~b", Some("/$defs/a~0b")),
            ("/$defs/urn/enum/0", "#", Some("/$defs/urn")),
            ("", "#/$defs/urn/enum/00", None),
        ] {
            let base = index.walk(&root, from, &work).unwrap().base;
            let found = index.resolve(base, reference, &work).map(|spot| spot.pointer);
            assert_eq!(found.as_deref(), to, "{reference} from {from:?}");
        }
    }
}
