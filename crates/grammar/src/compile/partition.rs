//! Equivalent states made one, by refining a partition of them. Beside `automaton`.
//!
//! Invariant: states of one class accept the same texts once the partition is stable; what it takes to refine it is in
//! proportion to the edges of the states that may have to part.

use rustc_hash::FxHashMap;

use super::automaton::{Dfa, Edges, Room, STEPS, State, joined};

impl Dfa {
    /// With equivalent states made one, by refining a partition until it is stable. After the first round only
    /// states with an edge into a class that was split are looked at again, so that long chains stay cheap.
    pub(super) fn minimized(self, room: &Room) -> Self {
        let n = self.states.len();
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); n];
        for (i, state) in self.states.iter().enumerate() {
            for (_, _, to) in &state.edges {
                if let (Some(list), Ok(i)) = (before.get_mut(*to as usize), u32::try_from(i)) {
                    list.push(i);
                }
            }
        }
        let mut partition = Partition::new(&self);
        let mut dirty: Vec<u32> = (0..u32::try_from(n).unwrap_or(u32::MAX)).collect();
        let mut steps = 0_usize;
        while !dirty.is_empty() {
            steps += dirty.len();
            let edges = dirty.iter().filter_map(|i| self.states.get(*i as usize)).map(|s| s.edges.len() + 1);
            if !room.take(4 * edges.sum::<usize>()) || steps > STEPS {
                // Correct as it is, only larger than it might be.
                return self;
            }
            let moved = partition.refine(&self, &dirty);
            dirty = moved.iter().filter_map(|i| before.get(*i as usize)).flatten().copied().collect();
            dirty.sort_unstable();
            dirty.dedup();
        }
        let class = partition.class;
        let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
        let mut order: Vec<usize> = Vec::new();
        for (i, own) in class.iter().enumerate() {
            let fresh = u32::try_from(order.len()).unwrap_or(u32::MAX);
            if *numbers.entry(*own).or_insert(fresh) == fresh {
                order.push(i);
            }
        }
        // States are numbered as they are first met, so the start keeps its number.
        let states = order.into_iter().filter_map(|i| self.states.get(i)).map(|state| {
            let edges = signature(state, &class).into_iter();
            let renamed =
                edges.map(|(low, high, to)| (low, high, numbers.get(&to).copied().unwrap_or(u32::MAX)));
            State { accepts: state.accepts, edges: joined(renamed.collect()) }
        });
        Self { states: states.collect() }
    }
}

/// States in classes, those of a class side by side.
struct Partition {
    class: Vec<u32>,
    members: Vec<u32>,
    /// Where each state stands in `members`.
    places: Vec<usize>,
    /// Where each class begins and ends in `members`.
    ranges: Vec<(usize, usize)>,
}

impl Partition {
    /// Those that accept, and those that do not.
    fn new(dfa: &Dfa) -> Self {
        let class: Vec<u32> = dfa.states.iter().map(|state| u32::from(state.accepts)).collect();
        let mut members: Vec<u32> = (0..u32::try_from(class.len()).unwrap_or(u32::MAX)).collect();
        members.sort_by_key(|state| class.get(*state as usize));
        let mut places = vec![0; members.len()];
        for (place, state) in members.iter().enumerate() {
            if let Some(slot) = places.get_mut(*state as usize) {
                *slot = place;
            }
        }
        let refusing = class.iter().filter(|class| **class == 0).count();
        let ranges = vec![(0, refusing), (refusing, members.len())];
        Self { class, members, places, ranges }
    }

    /// Parts the states of `dirty`, which are all that may not agree with their class; returns those that moved.
    fn refine(&mut self, dfa: &Dfa, dirty: &[u32]) -> Vec<u32> {
        let leads = |state: u32| dfa.states.get(state as usize).map(|state| signature(state, &self.class));
        let mut groups: FxHashMap<(u32, Edges), Vec<u32>> = FxHashMap::default();
        for i in dirty {
            if let (Some(edges), Some(own)) = (leads(*i), self.class.get(*i as usize)) {
                groups.entry((*own, edges)).or_default().push(*i);
            }
        }
        let mut by_class: FxHashMap<u32, Vec<(Edges, Vec<u32>)>> = FxHashMap::default();
        for ((own, edges), members) in groups {
            by_class.entry(own).or_default().push((edges, members));
        }
        // Untouched members agree with one another; the part that agrees with them, or else the largest, stays.
        let mut leaving: Vec<(u32, Vec<Vec<u32>>)> = Vec::new();
        for (own, mut parts) in by_class {
            let touched: usize = parts.iter().map(|(_, part)| part.len()).sum();
            let (from, to) = self.ranges.get(own as usize).copied().unwrap_or_default();
            for (k, state) in parts.iter().flat_map(|(_, part)| part).enumerate() {
                swap(&mut self.members, &mut self.places, *state, from + k);
            }
            let untouched = self.members.get(from + touched).filter(|_| from + touched < to);
            let keeper = match untouched
                .and_then(|state| dfa.states.get(*state as usize).map(|state| signature(state, &self.class)))
            {
                Some(rest) => parts.iter().position(|(edges, _)| *edges == rest),
                None => (0..parts.len()).max_by_key(|k| parts.get(*k).map(|(_, part)| part.len())),
            };
            if let Some(keeper) = keeper {
                parts.swap_remove(keeper);
            }
            leaving.push((own, parts.into_iter().map(|(_, part)| part).collect()));
        }
        let mut moved: Vec<u32> = Vec::new();
        for (own, part) in
            leaving.into_iter().flat_map(|(own, parts)| parts.into_iter().map(move |part| (own, part)))
        {
            let fresh = u32::try_from(self.ranges.len()).unwrap_or(u32::MAX);
            let Some((_, end)) = self.ranges.get_mut(own as usize) else { continue };
            let last = *end;
            *end -= part.len();
            let first = *end;
            for (k, state) in part.iter().enumerate() {
                swap(&mut self.members, &mut self.places, *state, last - 1 - k);
                if let Some(class) = self.class.get_mut(*state as usize) {
                    *class = fresh;
                }
            }
            self.ranges.push((first, last));
            moved.extend(part);
        }
        moved
    }
}

/// Puts a state in a place, and the one that stands there in its own.
fn swap(members: &mut [u32], places: &mut [usize], state: u32, place: usize) {
    let Some(other) = members.get(place).copied() else { return };
    let Some(own) = places.get(state as usize).copied() else { return };
    members.swap(own, place);
    for (state, place) in [(state, place), (other, own)] {
        if let Some(slot) = places.get_mut(state as usize) {
            *slot = place;
        }
    }
}

/// Where a state leads, by class.
fn signature(state: &State, class: &[u32]) -> Edges {
    let to_class = |(low, high, to): &(u32, u32, u32)| {
        (*low, *high, class.get(*to as usize).copied().unwrap_or(u32::MAX))
    };
    joined(state.edges.iter().map(to_class).collect())
}
