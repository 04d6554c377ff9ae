//! Deterministic automata over code points: what several patterns, formats and lengths say together.
//!
//! Invariant: edges of a state are sorted and apart, and no operation makes more states than the limit given.

use std::cell::Cell;

use rustc_hash::FxHashMap;

use crate::Limits;
use crate::schema::choices::Choices;
use crate::schema::nfa::{Marks, Nfa, Side, State as NfaState, StateId};
use crate::schema::node::{ANY, WORD};

/// An automaton; state 0 is the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dfa {
    pub(super) states: Vec<State>,
}

/// A state: whether a text may end here, and where each code point leads. Others lead nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct State {
    pub(super) accepts: bool,
    pub(super) edges: Edges,
}

/// First and last code point, and the state they lead to, each.
pub(super) type Edges = Vec<(u32, u32, u32)>;

/// Elementary steps of a subset construction before it is given up; a hundred milliseconds at worst.
pub(super) const STEPS: usize = 6_000_000;
/// Elementary steps of all automata of a schema, for each of [`Limits::work`]: what comes after is checked instead.
const ALL_STEPS: usize = 15;
/// Elementary steps that count as one.
const COUNTED: u64 = 4;

/// What the automata of a schema may still take.
#[derive(Debug)]
pub(super) struct Room {
    all: usize,
    left: Cell<usize>,
}

impl Room {
    pub(super) fn new(limits: &Limits) -> Self {
        let all = limits.work.saturating_mul(ALL_STEPS);
        Self { all, left: Cell::new(all) }
    }

    /// Takes elementary steps: false where there are none left.
    pub(super) fn take(&self, steps: usize) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(steps));
        left >= steps
    }

    /// Steps taken, as others are counted.
    pub(super) fn taken(&self) -> u64 {
        self.all.saturating_sub(self.left.get()) as u64 / COUNTED
    }
}

impl Dfa {
    /// The texts that `nfa` matches.
    pub(super) fn new(nfa: &Nfa, limit: usize, room: &Room) -> Option<Self> {
        let words = nfa.looks_at_words();
        let mut ids: FxHashMap<(Vec<StateId>, Side), u32> = FxHashMap::default();
        let mut queue = vec![(vec![nfa.start], Side::Edge)];
        ids.insert((vec![nfa.start], Side::Edge), 0);
        let mut states: Vec<State> = Vec::new();
        let mut marks = Marks::default();
        let mut steps = 0_usize;
        while let Some((kernel, before)) = queue.get(states.len()).cloned() {
            let earlier = steps;
            let mut edges = Edges::new();
            let sides: &[(Side, &[(u32, u32)])] =
                if words { &[(Side::Word, &WORD), (Side::Other, &NOT_WORD)] } else { &[(Side::Other, &ANY)] };
            for (after, within) in sides {
                let closure = nfa.closure(&kernel, (before, *after), &mut marks, &mut steps);
                for (low, high, targets) in segments(nfa, &closure, within, &mut steps) {
                    steps += targets.len() + 1;
                    let targets = match nfa.universal {
                        Some(universal) if targets.contains(&universal) => vec![universal],
                        _ => targets,
                    };
                    let key = (targets, if words { *after } else { Side::Other });
                    let next = u32::try_from(ids.len()).ok()?;
                    let id = *ids.entry(key.clone()).or_insert(next);
                    if id == next {
                        queue.push(key);
                    }
                    push_edge(&mut edges, (low, high, id));
                }
            }
            edges.sort_unstable();
            if !room.take(steps - earlier) || queue.len() > limit || steps > STEPS {
                return None;
            }
            let accepts = nfa.accepts(&kernel, before, &mut marks, &mut steps);
            states.push(State { accepts, edges: joined(edges) });
        }
        Some(Self { states }.trimmed().minimized(room))
    }

    /// The texts of `choices`.
    pub(super) fn of(choices: &Choices) -> Self {
        let states = choices.states.iter();
        Self {
            states: states
                .map(|state| State { accepts: state.accepts, edges: joined(state.edges.clone()) })
                .collect(),
        }
        .trimmed()
    }

    /// Exactly these texts.
    pub(super) fn literals<'t>(texts: impl IntoIterator<Item = &'t str>, limit: usize) -> Option<Self> {
        let mut children: Vec<std::collections::BTreeMap<u32, u32>> = vec![std::collections::BTreeMap::new()];
        let mut accepts = vec![false];
        for text in texts {
            let mut at = 0_usize;
            for c in text.chars() {
                let next = u32::try_from(children.len()).ok()?;
                let id = *children.get_mut(at)?.entry(c as u32).or_insert(next);
                if id == next {
                    children.push(std::collections::BTreeMap::new());
                    accepts.push(false);
                    if children.len() > limit {
                        return None;
                    }
                }
                at = id as usize;
            }
            *accepts.get_mut(at)? = true;
        }
        let states = children
            .into_iter()
            .zip(accepts)
            .map(|(next, accepts)| State {
                accepts,
                edges: next.into_iter().map(|(c, id)| (c, c, id)).collect(),
            })
            .collect();
        Some(Self { states })
    }

    /// Its texts of `min` to `max` code points. Not minimized: what has been counted stays apart anyway.
    pub(super) fn with_lengths(&self, min: u64, max: Option<u64>, limit: usize, room: &Room) -> Option<Self> {
        let last = max.unwrap_or(min);
        let mut ids: FxHashMap<(u32, u64), u32> = FxHashMap::default();
        ids.insert((0, 0), 0);
        let mut queue = vec![(0_u32, 0_u64)];
        let mut states: Vec<State> = Vec::new();
        while let Some((at, count)) = queue.get(states.len()).copied() {
            let here = self.states.get(at as usize)?;
            let mut edges = Vec::new();
            if max.is_none_or(|max| count < max) {
                for (low, high, to) in &here.edges {
                    let key = (*to, (count + 1).min(last));
                    let next = u32::try_from(ids.len()).ok()?;
                    let id = *ids.entry(key).or_insert(next);
                    if id == next {
                        queue.push(key);
                    }
                    edges.push((*low, *high, id));
                }
            }
            if !room.take(here.edges.len() + 1) || queue.len() > limit {
                return None;
            }
            states.push(State { accepts: here.accepts && count >= min, edges: joined(edges) });
        }
        Some(Self { states }.trimmed())
    }

    /// The texts of both.
    pub(super) fn intersection(&self, other: &Self, limit: usize, room: &Room) -> Option<Self> {
        let mut ids: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        ids.insert((0, 0), 0);
        let mut queue = vec![(0_u32, 0_u32)];
        let mut states: Vec<State> = Vec::new();
        while let Some((a, b)) = queue.get(states.len()).copied() {
            let (left, right) = (self.states.get(a as usize)?, other.states.get(b as usize)?);
            let mut edges = Vec::new();
            let (mut i, mut j) = (0, 0);
            while let (Some(x), Some(y)) = (left.edges.get(i), right.edges.get(j)) {
                let (low, high) = (x.0.max(y.0), x.1.min(y.1));
                if low <= high {
                    let next = u32::try_from(ids.len()).ok()?;
                    let id = *ids.entry((x.2, y.2)).or_insert(next);
                    if id == next {
                        queue.push((x.2, y.2));
                    }
                    edges.push((low, high, id));
                }
                if x.1 < y.1 { i += 1 } else { j += 1 }
            }
            if !room.take(left.edges.len() + right.edges.len() + 1) || queue.len() > limit {
                return None;
            }
            states.push(State { accepts: left.accepts && right.accepts, edges: joined(edges) });
        }
        Some(Self { states }.trimmed().minimized(room))
    }

    /// All other texts.
    pub(super) fn complement(&self) -> Self {
        let sink = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
        let mut states: Vec<State> = Vec::with_capacity(self.states.len() + 1);
        for state in &self.states {
            let mut edges = Vec::new();
            for (from, to) in ANY {
                let mut next = from;
                for (low, high, id) in &state.edges {
                    let (low, high) = ((*low).max(from), (*high).min(to));
                    if low > high {
                        continue;
                    }
                    if low > next {
                        edges.push((next, low - 1, sink));
                    }
                    edges.push((low, high, *id));
                    next = high + 1;
                }
                if next <= to {
                    edges.push((next, to, sink));
                }
            }
            states.push(State { accepts: !state.accepts, edges: joined(edges) });
        }
        states.push(State {
            accepts: true,
            edges: ANY.iter().map(|(low, high)| (*low, *high, sink)).collect(),
        });
        Self { states }.trimmed()
    }

    /// How many edges and states it has.
    pub(super) fn size(&self) -> usize {
        self.states.iter().map(|state| state.edges.len() + 1).sum()
    }

    /// Whether no text is accepted.
    pub(super) fn is_empty(&self) -> bool {
        self.states.iter().all(|state| !state.accepts)
    }

    /// Without states from which no text can end, numbered in the order they are first met.
    fn trimmed(self) -> Self {
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); self.states.len()];
        for (i, state) in self.states.iter().enumerate() {
            for (_, _, to) in &state.edges {
                if let (Some(list), Ok(i)) = (before.get_mut(*to as usize), u32::try_from(i)) {
                    list.push(i);
                }
            }
        }
        let mut live: Vec<bool> = self.states.iter().map(|state| state.accepts).collect();
        let mut queue: Vec<usize> = (0..live.len()).filter(|i| live.get(*i) == Some(&true)).collect();
        while let Some(i) = queue.pop() {
            for from in before.get(i).into_iter().flatten() {
                if let Some(seen @ false) = live.get_mut(*from as usize) {
                    *seen = true;
                    queue.push(*from as usize);
                }
            }
        }
        let mut numbers: Vec<Option<u32>> = vec![None; self.states.len()];
        let mut order = vec![0_usize];
        if let Some(first) = numbers.first_mut() {
            *first = Some(0);
        }
        let mut states = Vec::new();
        while let Some(i) = order.get(states.len()).copied() {
            let Some(state) = self.states.get(i) else { break };
            let mut edges = Vec::new();
            for (low, high, to) in &state.edges {
                if live.get(*to as usize) != Some(&true) {
                    continue;
                }
                let next = u32::try_from(order.len()).unwrap_or(u32::MAX);
                if let Some(number) = numbers.get_mut(*to as usize) {
                    let id = *number.get_or_insert_with(|| {
                        order.push(*to as usize);
                        next
                    });
                    edges.push((*low, *high, id));
                }
            }
            states.push(State { accepts: state.accepts, edges });
        }
        Self { states }
    }
}

/// All of Unicode but [`WORD`].
const NOT_WORD: [(u32, u32); 6] =
    [(0, 0x2F), (0x3A, 0x40), (0x5B, 0x5E), (0x60, 0x60), (0x7B, 0xD7FF), (0xE000, 0x10_FFFF)];

/// Cuts the code points that lead on from a closure into runs that lead to the same states.
fn segments(
    nfa: &Nfa,
    closure: &[StateId],
    within: &[(u32, u32)],
    steps: &mut usize,
) -> Vec<(u32, u32, Vec<StateId>)> {
    let mut cuts: Vec<u32> = Vec::new();
    let mut reading: Vec<(&[(u32, u32)], StateId)> = Vec::new();
    for id in closure {
        if let Some(NfaState::Class(ranges, to)) = nfa.states.get(*id as usize) {
            reading.push((ranges, *to));
            cuts.extend(ranges.iter().flat_map(|(low, high)| [*low, high + 1]));
        }
    }
    cuts.extend(within.iter().flat_map(|(low, high)| [*low, high + 1]));
    *steps += cuts.len();
    cuts.sort_unstable();
    cuts.dedup();
    // Every cut is looked for in every class.
    *steps += cuts.len().saturating_mul(reading.len());
    let mut out = Vec::new();
    for pair in cuts.windows(2) {
        let [low, end] = pair else { continue };
        if !within.iter().any(|(from, to)| from <= low && low <= to) {
            continue;
        }
        let holds = |ranges: &[(u32, u32)]| {
            let after = ranges.partition_point(|(from, _)| from <= low);
            after.checked_sub(1).and_then(|i| ranges.get(i)).is_some_and(|(_, to)| low <= to)
        };
        let mut targets: Vec<StateId> =
            reading.iter().filter(|(ranges, _)| holds(ranges)).map(|(_, to)| *to).collect();
        targets.sort_unstable();
        targets.dedup();
        if !targets.is_empty() {
            out.push((*low, end - 1, targets));
        }
    }
    out
}

fn push_edge(edges: &mut Edges, edge: (u32, u32, u32)) {
    match edges.last_mut() {
        Some(last) if last.2 == edge.2 && last.1 + 1 == edge.0 => last.1 = edge.1,
        _ => edges.push(edge),
    }
}

/// Neighbouring edges to the same state made one.
pub(super) fn joined(edges: Edges) -> Edges {
    let mut out = Vec::with_capacity(edges.len());
    for edge in edges {
        push_edge(&mut out, edge);
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;
    use crate::schema::pattern::Pattern;
    use crate::schema::regex::Reader;

    fn room() -> Room {
        Room::new(&Limits::default())
    }

    fn dfa(pattern: &str) -> Dfa {
        let parsed = Pattern::parse(pattern, &Reader::unbounded()).unwrap();
        Dfa::new(&Nfa::search(&parsed.node, 100_000).unwrap(), 10_000, &room()).unwrap()
    }

    fn runs(dfa: &Dfa, text: &str) -> bool {
        let mut at = 0;
        for c in text.chars() {
            let code = c as u32;
            match dfa.states[at].edges.iter().find(|(low, high, _)| (*low..=*high).contains(&code)) {
                Some((_, _, to)) => at = *to as usize,
                None => return false,
            }
        }
        dfa.states.get(at).is_some_and(|state| state.accepts)
    }

    #[test]
    fn determinization_agrees_with_the_patterns_own_matcher() {
        let texts =
            ["", "a", "b", "ab", "ba", "abc", "a b", "foo", "foo bar", "12", "1a", "aaab", "\n", "é", "a\nb"];
        for pattern in [
            "a",
            "^a",
            "a$",
            "^(a|ab)(c|bcd)?$",
            "\\bfoo\\b",
            "^\\B",
            "[^a]",
            "^.*$",
            "^a|b$",
            "^(a*b)*$",
            "\\d",
            "",
        ] {
            let parsed = Pattern::parse(pattern, &Reader::unbounded()).unwrap();
            let nfa = Nfa::search(&parsed.node, 1_000).unwrap();
            let dfa = dfa(pattern);
            let outside = dfa.complement();
            for text in texts {
                let found = nfa.is_match(text, u64::MAX).0.unwrap();
                assert_eq!(runs(&dfa, text), found, "{pattern} on {text:?}");
                assert_eq!(runs(&outside, text), !found, "not {pattern} on {text:?}");
            }
        }
    }

    #[test]
    fn intersections_hold_both() {
        let room = room();
        let both = dfa("^[a-c]+$").intersection(&dfa("b"), 100, &room).unwrap();
        let short = both.with_lengths(2, Some(3), 100, &room).unwrap();
        for (text, holds) in
            [("ab", true), ("abc", true), ("b", false), ("aa", false), ("abcb", false), ("bd", false)]
        {
            assert_eq!(runs(&short, text), holds, "{text}");
        }
        assert!(dfa("^a$").intersection(&dfa("^b$"), 100, &room).unwrap().is_empty());
    }

    #[test]
    fn exploding_patterns_stop_at_the_limit() {
        let parsed = Pattern::parse("^(a|b)*a(a|b){20}$", &Reader::unbounded()).unwrap();
        assert_eq!(Dfa::new(&Nfa::search(&parsed.node, 100_000).unwrap(), 1_000, &room()), None);
    }

    #[test]
    fn minimal_automata_of_equal_languages_are_equal() {
        assert_eq!(dfa("^(a|b)$"), dfa("^[ab]$"));
        assert_eq!(dfa("^(aa)*a?$"), dfa("^a*$"));
    }
}
