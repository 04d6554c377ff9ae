//! What a compiled schema promises: a class for every keyword, in the order of the document.
//!
//! Invariant: a keyword that the grammar may let pass is never listed as enforced.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::schema::{Class, KeywordEntry, Schema};
use crate::work::{ForeignMap, ForeignSet, Work, bytes};

use super::weaken::Reasons;

/// What became of every keyword of a schema.
///
/// ```
/// use serde_json::json;
/// use toolgate_grammar::{Options, Schema, compile};
/// let schema = Schema::parse(&json!({"type": "array", "maxItems": 3, "uniqueItems": true}))?;
/// let contract = compile(&schema, &Options::default())?.contract;
/// assert!(!contract.is_complete()); // the finished value is still to be validated, against:
/// let checked: Vec<&str> = contract.checked().map(|entry| entry.keyword()).collect();
/// assert_eq!(checked, ["uniqueItems"]);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Contract {
    entries: Vec<Entry>,
}

/// What became of one keyword at one place.
///
/// ```
/// use serde_json::json;
/// use toolgate_grammar::{Options, Schema, compile, schema::Class};
/// let schema = Schema::parse(&json!({"properties": {"tags": {"uniqueItems": true}}}))?;
/// let contract = compile(&schema, &Options::default())?.contract;
/// let entry = contract.checked().next();
/// assert_eq!(entry.map(|entry| entry.pointer()), Some("/properties/tags/uniqueItems"));
/// assert_eq!(entry.map(|entry| entry.class()), Some(Class::Checked));
/// assert_eq!(entry.and_then(|entry| entry.reason()), Some("a grammar does not compare elements"));
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pointer: String,
    class: Class,
    reason: Option<Cow<'static, str>>,
}

impl Entry {
    /// JSON pointer of the keyword itself, such as `/properties/path/minLength`.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// The keyword, which is the last token of the pointer.
    pub fn keyword(&self) -> &str {
        self.pointer.rsplit('/').next().unwrap_or_default()
    }

    /// Enforced, checked, or an annotation.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Why the keyword is not enforced, where that needs a reason.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }
}

impl Contract {
    pub(super) fn new(schema: &Schema, work: &Work) -> Self {
        let entry = |entry: &KeywordEntry| {
            work.spend(bytes(entry.pointer.len()));
            Entry { pointer: entry.pointer.clone(), class: entry.class, reason: entry.reason.clone() }
        };
        Self { entries: schema.entries.iter().map(entry).collect() }
    }

    /// Lists as checked what is decided by subschemas that the grammar does not decide: a union with a checked keyword
    /// in a branch, a negation or condition of one. `references` leads from the pointers of references to where
    /// they lead.
    pub(super) fn settle(&mut self, references: &[(String, String)], work: &Work) {
        // The references that lead to a place, by the place.
        let mut leading: ForeignMap<&str, Vec<&str>> = ForeignMap::default();
        for (from, to) in references {
            work.spend(bytes(to.len()));
            leading.entry(to).or_default().push(from);
        }
        let mut open: ForeignSet<&str> = ForeignSet::default();
        let checked = self.entries.iter().filter(|entry| entry.class == Class::Checked);
        let mut pending: Vec<&str> = checked.map(|entry| entry.pointer.as_str()).collect();
        while let Some(pointer) = pending.pop() {
            for place in places_above(pointer) {
                // What is above a place that is open is open already.
                if !work.spend(bytes(place.len())) || !open.insert(place) {
                    break;
                }
                pending.extend(leading.get(place).into_iter().flatten());
            }
        }
        let open: Vec<bool> = self
            .entries
            .iter()
            .map(|entry| {
                work.spend(bytes(entry.pointer.len()));
                let beside =
                    |keyword| format!("{}/{keyword}", entry.pointer.rsplit_once('/').map_or("", |p| p.0));
                match entry.keyword() {
                    "anyOf" | "oneOf" | "not" | "if" => open.contains(entry.pointer.as_str()),
                    "then" | "else" => open.contains(beside("if").as_str()),
                    _ => false,
                }
            })
            .collect();
        for (entry, open) in self.entries.iter_mut().zip(open) {
            if open && entry.class == Class::Enforced {
                entry.class = Class::Checked;
                entry.reason = Some("depends on a keyword that is checked".into());
            }
        }
    }

    /// Lists keywords, by JSON pointer and with a reason, as checked that a grammar could not enforce after all.
    pub fn weaken(&mut self, weakened: Vec<(String, Cow<'static, str>)>) {
        self.weaken_counted(weakened, &Work::unbounded());
    }

    pub(super) fn weaken_counted(&mut self, weakened: Reasons, work: &Work) {
        let mut places: ForeignMap<&str, usize> = ForeignMap::default();
        for (i, entry) in self.entries.iter().enumerate() {
            work.spend(bytes(entry.pointer.len()));
            places.insert(&entry.pointer, i);
        }
        // Entries by number with the first reason, and keywords that have no entry yet, each once.
        let mut reasons: Vec<(usize, Cow<'static, str>)> = Vec::new();
        let mut others: Reasons = Vec::new();
        let mut new: ForeignSet<String> = ForeignSet::default();
        for (pointer, reason) in weakened {
            match written(&pointer, &places, &new, work) {
                Written::Entry(i) => reasons.push((i, reason)),
                Written::New => {}
                Written::Nowhere => {
                    new.insert(pointer.clone());
                    others.push((pointer, reason));
                }
            }
        }
        for (i, reason) in reasons {
            if let Some(entry) = self.entries.get_mut(i).filter(|entry| entry.class != Class::Checked) {
                entry.class = Class::Checked;
                entry.reason = Some(reason);
            }
        }
        let checked = |(pointer, reason)| Entry { pointer, class: Class::Checked, reason: Some(reason) };
        self.entries.extend(others.into_iter().map(checked));
    }

    /// Every keyword, in the order of the document.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// The keywords that the finished value has to be validated against.
    pub fn checked(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.class == Class::Checked)
    }

    /// Whether the grammar alone decides validity.
    pub fn is_complete(&self) -> bool {
        self.checked().next().is_none()
    }

    /// The contract as JSON: a list of `{pointer, keyword, class, reason?}`.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolgate_grammar::{Options, Schema, compile};
    /// let schema = Schema::parse(&json!({"maxLength": 5}))?;
    /// let mut contract = compile(&schema, &Options::default())?.contract;
    /// assert_eq!(contract.to_json()[0]["class"], "enforced");
    /// // Whoever writes the value in a syntax of its own may know a keyword that it cannot hold there.
    /// contract.weaken(vec![("/maxLength".to_owned(), "strings have no quotes here".into())]);
    /// assert_eq!(contract.to_json()[0]["class"], "checked");
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    pub fn to_json(&self) -> Value {
        let entry = |entry: &Entry| {
            let mut out = json!({
                "pointer": entry.pointer,
                "keyword": entry.keyword(),
                "class": entry.class.as_str(),
            });
            if let (Some(map), Some(reason)) = (out.as_object_mut(), entry.reason()) {
                map.insert("reason".to_owned(), reason.into());
            }
            out
        };
        Value::Array(self.entries.iter().map(entry).collect())
    }
}

/// Where a keyword is listed.
enum Written {
    Entry(usize),
    /// Among those that have no entry yet.
    New,
    Nowhere,
}

/// The entry of a keyword; of the negation it stands for, where it was made up to say the contrary of another one.
fn written(
    pointer: &str,
    places: &ForeignMap<&str, usize>,
    new: &ForeignSet<String>,
    work: &Work,
) -> Written {
    for at in places_above(pointer) {
        if !work.spend(bytes(at.len())) {
            break;
        }
        if at != pointer && !at.ends_with("/not") && !at.ends_with("/if") {
            continue;
        }
        match places.get(at) {
            Some(place) => return Written::Entry(*place),
            None if new.contains(at) => return Written::New,
            None => {}
        }
    }
    Written::Nowhere
}

/// A pointer and those of everything that holds it.
fn places_above(pointer: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(pointer), |at| at.rsplit_once('/').map(|(outer, _)| outer))
}
