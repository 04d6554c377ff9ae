//! Strings: lengths as counters, one pattern as it is written, several as one automaton.
//!
//! Invariant: what does not fit the limit of states is listed as checked, and the rest still holds.

use std::sync::Arc;

use crate::schema::node::Node;
use crate::schema::pattern::Pattern;
use crate::schema::{Leaf, PatternUse, TextKind, TextShape};
use crate::work::bytes;
use crate::{Error, Expr};

use super::array::repeat;
use super::automaton::Dfa;
use super::pattern::{Branch, branches, with_length};
use super::{Compiler, choice, longer, sequence};

/// States of a product with a length; each is a place in the grammar.
const COUNTED_STATES: usize = 4_000;
/// States of the tree of names that a key must not be.
const NAME_STATES: usize = 400_000;

/// What a string automaton was made from.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct StringKey {
    /// By where they are in memory, which is once for each source.
    patterns: Vec<(usize, bool)>,
    excluded: Vec<String>,
    lengths: (u64, Option<u64>),
}

impl Compiler<'_, '_> {
    /// A string; `None` if none satisfies.
    pub(super) fn string(&mut self, leaf: &Leaf, name: &str) -> Result<Option<Expr>, Error> {
        let mut shape = self.arena.text(leaf);
        if shape.max.is_some_and(|max| max < shape.min) {
            return Ok(None);
        }
        let (min, max) = (shape.min, shape.max);
        if shape.patterns.iter().any(|used| !used.negated) {
            // Most names a key must not be are not among those a pattern allows.
            let allowing: Vec<&PatternUse> = shape.patterns.iter().filter(|used| !used.negated).collect();
            shape.excluded.retain(|text| {
                allowing.iter().all(|used| self.arena.is_match(&used.pattern, text) != Some(false))
            });
        }
        self.spend(1 + shape.excluded.iter().map(|text| bytes(text.len())).sum::<u64>())?;
        if shape.patterns.is_empty() && shape.excluded.is_empty() {
            return Ok(Some(if (min, max) == (0, None) {
                self.json.string(self.builder)
            } else {
                let content = repeat(self.json.char(self.builder), min, max);
                let length = max.map_or_else(|| format!("{min}-up"), |max| format!("{min}-{max}"));
                self.shared(&longer(&self.string_prefix(), &length), quoted(content))?
            }));
        }
        if shape.patterns.is_empty()
            && (min, max) == (0, None)
            && let Some(content) = self.other_than(&shape.excluded)?
        {
            return Ok(Some(quoted(content)));
        }
        let key = StringKey {
            patterns: shape.patterns.iter().map(|used| (pattern_key(&used.pattern), used.negated)).collect(),
            excluded: shape.excluded.clone(),
            lengths: (min, max),
        };
        if let Some(known) = self.strings.get(&key) {
            return Ok(known.clone());
        }
        for used in &shape.patterns {
            self.spend(used.pattern.size)?;
        }
        if let ([used], true) = (shape.patterns.as_slice(), shape.excluded.is_empty())
            && !used.negated
            && let Some(expr) = self.as_written(&used.pattern.node, min, max)
        {
            let format = match used.kind {
                TextKind::Format(format) if (min, max) == (0, None) => {
                    Some(longer(&self.format_prefix(), format))
                }
                _ => None,
            };
            let text = quoted(expr);
            return Ok(Some(match format {
                Some(format) => {
                    let rule = self.shared(&format, text)?;
                    self.strings.insert(key, Some(rule.clone()));
                    rule
                }
                None => text,
            }));
        }
        let weakened = self.weakened.len();
        let written = self.product(leaf, &shape, name)?;
        // What is let go has to be listed for every place, so only what holds whole is kept.
        if self.weakened.len() == weakened {
            self.strings.insert(key, written.clone());
        }
        Ok(written)
    }

    fn string_prefix(&self) -> String {
        if self.prefix == "root" { "string".to_owned() } else { format!("{}-string", self.prefix) }
    }

    fn format_prefix(&self) -> String {
        if self.prefix == "root" { "format".to_owned() } else { format!("{}-format", self.prefix) }
    }

    /// A pattern without the detour over an automaton, if it bounds both ends itself.
    fn as_written(&mut self, node: &Node, min: u64, max: Option<u64>) -> Option<Expr> {
        let mut exprs = Vec::new();
        for Branch { from_start, to_end, node } in branches(node)? {
            if !from_start || !to_end {
                return None;
            }
            exprs.push(self.node_expr(&with_length(&node, min, max)?));
        }
        choice(exprs)
    }

    /// As [`as_written`](Self::as_written), for patterns that may be found anywhere; ambiguous, so only where
    /// the automaton is too large.
    fn found_anywhere(&mut self, node: &Node) -> Option<Expr> {
        let mut exprs = Vec::new();
        for Branch { from_start, to_end, node } in branches(node)? {
            let any = self.json.plain(self.builder).repeat(0, None);
            let before = if from_start { Expr::empty() } else { any.clone() };
            let after = if to_end { Expr::empty() } else { any };
            exprs.push(sequence([before, self.node_expr(&node), after]));
        }
        choice(exprs)
    }

    /// The automaton of a pattern; none if it has too many states.
    fn dfa(&mut self, pattern: &Arc<Pattern>) -> Option<Arc<Dfa>> {
        if let Some((_, known)) = self.dfas.get(&pattern_key(pattern)) {
            return known.clone();
        }
        let dfa = match &pattern.choices {
            // Made already, and bounded by themselves.
            Some(choices) => {
                self.arena.count(pattern.size);
                Some(Arc::new(Dfa::of(choices)))
            }
            None => {
                let limit = self.product_limit();
                let nfa = if self.arena.has_room(pattern) { pattern.nfa() } else { None };
                let dfa = nfa.and_then(|nfa| Dfa::new(nfa, limit, &self.room));
                self.charged(dfa, limit).map(Arc::new)
            }
        };
        self.dfas.insert(pattern_key(pattern), (Arc::clone(pattern), dfa.clone()));
        dfa
    }

    /// States that the next automaton may have.
    fn product_limit(&self) -> usize {
        self.options.limits.pattern_states.min(self.product_states)
    }

    /// Takes what an automaton cost from what is left for all; one that was given up cost all it might have.
    fn charged(&mut self, made: Option<Dfa>, limit: usize) -> Option<Dfa> {
        let cost = made.as_ref().map_or(limit, |dfa| dfa.states.len());
        self.product_states = self.product_states.saturating_sub(cost);
        made
    }

    /// All other texts, if there is room for them.
    fn complement(&self, dfa: &Dfa) -> Option<Arc<Dfa>> {
        self.room.take(dfa.size()).then(|| Arc::new(dfa.complement()))
    }

    /// Everything that is said of the string as one automaton.
    fn product(&mut self, leaf: &Leaf, shape: &TextShape, name: &str) -> Result<Option<Expr>, Error> {
        let before = self.weakened.len();
        let mut dfa: Option<Arc<Dfa>> = None;
        let mut left: Option<&PatternUse> = None;
        for used in &shape.patterns {
            self.spend(1)?;
            let own = self.dfa(&used.pattern);
            let own = own.and_then(|dfa| if used.negated { self.complement(&dfa) } else { Some(dfa) });
            let joined = match (&dfa, own) {
                (None, own) => own,
                (Some(dfa), Some(own)) => {
                    let limit = self.product_limit();
                    self.charged(dfa.intersection(&own, limit, &self.room), limit).map(Arc::new)
                }
                (Some(_), None) => None,
            };
            match joined {
                Some(joined) => dfa = Some(joined),
                None => {
                    if left.is_none() && !used.negated {
                        left = Some(used);
                    }
                    self.weaken(pointer_of(used), "its automaton has too many states");
                }
            }
        }
        if !shape.excluded.is_empty() {
            // Each character is a state, and an edge to everything else.
            self.spend(2 * shape.excluded.iter().map(|text| text.len() as u64).sum::<u64>())?;
            let names = Dfa::literals(shape.excluded.iter().map(String::as_str), NAME_STATES);
            let names = names.and_then(|names| self.complement(&names));
            let joined = match (&dfa, names) {
                (None, names) => names,
                (Some(dfa), Some(names)) => dfa.intersection(&names, NAME_STATES, &self.room).map(Arc::new),
                (Some(_), None) => None,
            };
            match joined {
                Some(joined) => dfa = Some(joined),
                None => self.weaken_exclusions(leaf, "the values to leave out are too many"),
            }
        }
        if (shape.min, shape.max) != (0, None) {
            let room = COUNTED_STATES.min(self.states);
            let joined =
                dfa.as_ref().and_then(|dfa| dfa.with_lengths(shape.min, shape.max, room, &self.room));
            match joined {
                Some(joined) => {
                    self.states = self.states.saturating_sub(joined.states.len());
                    dfa = Some(Arc::new(joined));
                }
                // Without an automaton the length alone can still be a counter.
                None if dfa.is_none() && left.is_none() => {
                    let content = repeat(self.json.char(self.builder), shape.min, shape.max);
                    return Ok(Some(quoted(content)));
                }
                None => self.weaken_lengths(leaf),
            }
        }
        match (dfa, left) {
            (Some(dfa), _) => Ok(self.automaton(&dfa, name)?.map(quoted)),
            // A single pattern too large for an automaton may still be written out; then it holds after all.
            (None, Some(used)) => match self.found_anywhere(&used.pattern.node) {
                Some(expr) => {
                    self.weakened.take_back(&pointer_of(used), before);
                    Ok(Some(quoted(expr)))
                }
                None => Ok(Some(self.json.string(self.builder))),
            },
            (None, None) => Ok(Some(self.json.string(self.builder))),
        }
    }

    fn weaken_lengths(&mut self, leaf: &Leaf) {
        let parts = leaf.own.iter().filter_map(|id| self.arena.part(*id));
        let mut pointers = Vec::new();
        for part in parts {
            if part.text.min > 0 {
                pointers.push(format!("{}/minLength", part.pointer));
            }
            if part.text.max.is_some() {
                pointers.push(format!("{}/maxLength", part.pointer));
            }
        }
        for pointer in pointers {
            self.weaken(pointer, "with the pattern, its automaton has too many states");
        }
    }
}

/// What tells patterns apart: those of one source are one.
fn pattern_key(pattern: &Arc<Pattern>) -> usize {
    Arc::as_ptr(pattern).addr()
}

fn pointer_of(used: &PatternUse) -> String {
    let keyword = match used.kind {
        TextKind::Pattern => "pattern",
        TextKind::Extension(keyword) => keyword,
        TextKind::Format(_) => "format",
        TextKind::Key => "patternProperties",
    };
    format!("{}/{keyword}", used.pointer)
}

fn quoted(content: Expr) -> Expr {
    sequence([Expr::literal("\""), content, Expr::literal("\"")])
}
