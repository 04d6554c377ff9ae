//! Keywords that are let go, to be checked on the finished value. Beneath all that compiles.
//!
//! Invariant: what is listed here is a keyword that the grammar may not enforce; listing one too many is harmless.

use std::borrow::Cow;
use std::cell::OnceCell;

use crate::schema::{Class, KeywordEntry, Leaf};
use crate::work::{ForeignMap, bytes};

use super::Compiler;

/// Pointers of keywords with why they are let go.
pub(super) type Reasons = Vec<(String, Cow<'static, str>)>;

/// What has been let go so far.
#[derive(Default)]
pub(super) struct Weakened<'s> {
    reasons: Reasons,
    /// The entries of the contract by the pointer of their subschema, once someone asks.
    entries: OnceCell<ForeignMap<&'s str, Vec<&'s KeywordEntry>>>,
}

impl Weakened<'_> {
    pub(super) fn take(&mut self) -> Reasons {
        std::mem::take(&mut self.reasons)
    }

    pub(super) fn len(&self) -> usize {
        self.reasons.len()
    }

    /// Takes one keyword back, of what was let go after the first `from`.
    pub(super) fn take_back(&mut self, pointer: &str, from: usize) {
        let later = self.reasons.split_off(from.min(self.reasons.len()));
        self.reasons.extend(later.into_iter().filter(|(weakened, _)| weakened != pointer));
    }
}

impl Compiler<'_, '_> {
    pub(super) fn weaken(&mut self, pointer: impl Into<String>, reason: impl Into<Cow<'static, str>>) {
        let pointer = pointer.into();
        self.arena.count(bytes(pointer.len()));
        self.weakened.reasons.push((pointer, reason.into()));
    }

    /// Lists what may refuse some of the listed values, but could not be decided.
    pub(super) fn weaken_undecided(&mut self, leaf: &Leaf) {
        let schema = self.arena.schema;
        let entries = self.weakened.entries.get_or_init(|| {
            let mut entries: ForeignMap<&str, Vec<&KeywordEntry>> = ForeignMap::default();
            for entry in &schema.entries {
                self.arena.count(bytes(entry.pointer.len()));
                let (above, keyword) = entry.pointer.rsplit_once('/').unwrap_or_default();
                if entry.class == Class::Enforced && keyword != "type" {
                    entries.entry(above).or_default().push(entry);
                }
            }
            entries
        });
        let parts = leaf.own.iter().filter_map(|id| self.arena.part(*id));
        let own = parts.flat_map(|part| entries.get(part.pointer.as_ref()).into_iter().flatten());
        let undecided: Vec<String> = own.map(|entry| entry.pointer.clone()).collect();
        for pointer in undecided {
            self.weaken(pointer, "some of the listed values were too large to test");
        }
    }

    pub(super) fn weaken_exclusions(&mut self, leaf: &Leaf, reason: &'static str) {
        let parts = leaf.own.iter().filter_map(|id| self.arena.part(*id));
        let pointers: Vec<String> = parts
            .filter(|part| !part.not_values.is_empty())
            .map(|part| part.pointer.as_ref().to_owned())
            .collect();
        for pointer in pointers {
            self.weaken(pointer, reason);
        }
    }
}
