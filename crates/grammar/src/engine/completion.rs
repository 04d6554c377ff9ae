//! The shortest way to the end from any configuration. Above `machine`; used by `matcher` and `budget`.
//!
//! Invariant: among the ways to complete a run, the one returned has the fewest token terminals, and among these the
//! fewest bytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::OnceLock;

use super::flat::{INFINITE, TOKEN, plus, times};
use super::frames::{ConfigId, Entry, FrameId, Item};
use super::machine::Machine;
use super::program::{Edge, Program, State, StateId};
use super::tokens::TokenId;
use crate::{Error, Kind};

/// Bytes to prefer where several are as good, so that a completion can be read.
const PREFERRED: [u8; 5] = [b'0', b'a', b'A', b' ', b'"'];

/// For each state the cost of the shortest way to the end of its fragment.
#[derive(Debug)]
pub(crate) struct Costs {
    costs: Vec<u64>,
    /// For each split the state to go on at; it was known before the split, so following it ends. For each state of
    /// several edges the edge to take.
    best: Vec<u32>,
}

impl Costs {
    pub(crate) fn new(program: &Program) -> Self {
        let n = program.states.len();
        // The states that lead into each state, as one list with its starts.
        let mut starts = vec![0u32; n + 1];
        for state in 0..n as StateId {
            successors(program, state, |to| {
                if let Some(count) = starts.get_mut(to as usize + 1) {
                    *count += 1;
                }
            });
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut fill = starts.clone();
        let mut sources = vec![0 as StateId; sum as usize];
        for state in 0..n as StateId {
            successors(program, state, |to| {
                if let Some(at) = fill.get_mut(to as usize)
                    && let Some(slot) = sources.get_mut(*at as usize)
                {
                    *slot = state;
                    *at += 1;
                }
            });
        }
        let mut found = Self { costs: vec![INFINITE; n], best: vec![0; n] };
        let mut queue: BinaryHeap<Reverse<(u64, StateId, StateId)>> = BinaryHeap::new();
        let accepting = program.fragments.iter().map(|fragment| fragment.accept);
        queue.extend(accepting.map(|state| Reverse((0, state, state))));
        while let Some(Reverse((cost, state, via))) = queue.pop() {
            let (Some(known), Some(best)) =
                (found.costs.get_mut(state as usize), found.best.get_mut(state as usize))
            else {
                continue;
            };
            if *known != INFINITE {
                continue;
            }
            (*known, *best) = (cost, via);
            let range = starts.get(state as usize).copied().zip(starts.get(state as usize + 1).copied());
            let range = range.map_or(0..0, |(from, to)| from as usize..to as usize);
            for &source in sources.get(range).unwrap_or_default() {
                queue.push(Reverse((plus(step_cost(program, source), cost), source, state)));
            }
        }
        for state in 0..n as StateId {
            if let State::Bytes(from, to) = program.state(state) {
                let edges = (from..to).zip(program.edges(from, to));
                let cheapest = edges.min_by_key(|(_, edge)| (found.of(edge.target), rank(program, edge)));
                if let (Some((edge, _)), Some(best)) = (cheapest, found.best.get_mut(state as usize)) {
                    *best = edge;
                }
            }
        }
        found
    }

    fn of(&self, state: StateId) -> u64 {
        self.costs.get(state as usize).copied().unwrap_or(INFINITE)
    }
}

fn successors(program: &Program, state: StateId, mut each: impl FnMut(StateId)) {
    match program.state(state) {
        State::Accept => {}
        State::Split(from, to) => program.split(from, to).iter().for_each(|&to| each(to)),
        State::Byte { target, .. } | State::Token { target, .. } => each(target),
        State::Bytes(from, to) => program.edges(from, to).iter().for_each(|edge| each(edge.target)),
        State::Call { next, .. } => each(next),
        State::Loop(id) => program.repetition(id).into_iter().for_each(|repetition| each(repetition.after)),
    }
}

/// How well the byte of an edge can be read, the best first.
fn rank(program: &Program, edge: &Edge) -> usize {
    let within = |byte: &u8| (edge.low..=edge.high).contains(&program.classes.of(*byte));
    PREFERRED.iter().position(within).unwrap_or(PREFERRED.len())
}

/// The cost of going on from a state to any of its successors.
fn step_cost(program: &Program, state: StateId) -> u64 {
    let fragment = |id| program.fragment(id).map_or(INFINITE, |fragment| fragment.cost);
    match program.state(state) {
        State::Accept | State::Split(..) => 0,
        State::Byte { .. } | State::Bytes(..) => 1,
        State::Token { .. } => TOKEN,
        State::Call { fragment: id, .. } => fragment(id),
        State::Loop(id) => program
            .repetition(id)
            .map_or(INFINITE, |repetition| times(fragment(repetition.body), repetition.min)),
    }
}

/// How far it is to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WayLength {
    /// Token terminals on the way.
    pub(crate) tokens: u64,
    /// Bytes of text on the way.
    pub(crate) bytes: u64,
}

/// A part of the way to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Byte(u8),
    /// This token, or any but this.
    Token {
        id: TokenId,
        negated: bool,
    },
}

/// What is still to be written, last first.
enum Task {
    /// From a state to the end of its fragment.
    From(StateId),
    /// A fragment, so many times.
    Times(u32, u64),
}

impl Machine {
    /// How far it is to the end; `None` after an end token, where the way is over.
    pub(crate) fn way_length(&self, id: ConfigId, costs: &Costs) -> Option<WayLength> {
        let (cost, _) = self.cheapest(id, costs)?;
        Some(WayLength { tokens: cost / TOKEN, bytes: cost % TOKEN })
    }

    /// The item from which the end is nearest, and the cost of the way.
    fn cheapest(&self, id: ConfigId, costs: &Costs) -> Option<(u64, Item)> {
        let items = self.get(id).map(|configuration| configuration.items.as_slice()).unwrap_or_default();
        let ways =
            items.iter().map(|item| (plus(costs.of(item.state), self.frame_cost(item.frame, costs)), *item));
        ways.min()
    }

    /// A shortest way after which the text is whole, of at most so many pieces.
    pub(crate) fn completion(
        &self,
        id: ConfigId,
        costs: &Costs,
        at_most: usize,
    ) -> Result<Vec<Piece>, Error> {
        let Some((cost, item)) = self.cheapest(id, costs) else { return Ok(Vec::new()) };
        let (tokens, bytes) = (cost / TOKEN, cost % TOKEN);
        if tokens.saturating_add(bytes) > at_most as u64 {
            let length = if tokens == 0 { format!("{bytes} bytes") } else { "too many tokens".to_owned() };
            return Err(Error::new(Kind::Limit, format!("the shortest completion has {length}"))
                .hint("lower the least number of repetitions or raise Limits::source_bytes"));
        }
        let mut out = Vec::new();
        let mut tasks = vec![Task::From(item.state)];
        let mut frame = item.frame;
        loop {
            while let Some(task) = tasks.pop() {
                self.write(task, costs, &mut tasks, &mut out);
            }
            match self.cheapest_entry(frame) {
                Some(Entry::Return { state, parent }) => {
                    tasks.push(Task::From(state));
                    frame = parent;
                }
                Some(Entry::Again { repetition: id, parent, count }) => {
                    if let Some(repetition) = self.program.repetition(id) {
                        tasks.push(Task::From(repetition.after));
                        let left = repetition.min.saturating_sub(count.saturating_add(1));
                        tasks.push(Task::Times(repetition.body, left));
                    }
                    frame = parent;
                }
                Some(Entry::End | Entry::Exit) | None => return Ok(out),
            }
        }
    }

    fn write(&self, task: Task, costs: &Costs, tasks: &mut Vec<Task>, out: &mut Vec<Piece>) {
        let program = &self.program;
        let state = match task {
            Task::From(state) => state,
            Task::Times(_, 0) => return,
            Task::Times(fragment, times) => {
                tasks.push(Task::Times(fragment, times - 1));
                tasks.extend(program.fragment(fragment).map(|fragment| Task::From(fragment.start)));
                return;
            }
        };
        match program.state(state) {
            State::Accept => {}
            State::Split(..) => {
                tasks.extend(costs.best.get(state as usize).map(|&next| Task::From(next)));
            }
            State::Byte { low, high, target } => {
                out.push(Piece::Byte(self.readable(low, high)));
                tasks.push(Task::From(target));
            }
            State::Bytes(..) => {
                let edge = costs.best.get(state as usize).and_then(|&edge| program.edges.get(edge as usize));
                if let Some(edge) = edge {
                    out.push(Piece::Byte(self.readable(edge.low, edge.high)));
                    tasks.push(Task::From(edge.target));
                }
            }
            State::Call { fragment, next } => {
                tasks.push(Task::From(next));
                tasks.push(Task::Times(fragment, 1));
            }
            State::Loop(id) => {
                if let Some(repetition) = program.repetition(id) {
                    tasks.push(Task::From(repetition.after));
                    tasks.push(Task::Times(repetition.body, repetition.min));
                }
            }
            State::Token { id, negated, target } => {
                out.push(Piece::Token { id, negated });
                tasks.push(Task::From(target));
            }
        }
    }

    /// A byte of the classes `low..=high`, one that can be read if there is one.
    fn readable(&self, low: u8, high: u8) -> u8 {
        let classes = &self.program.classes;
        PREFERRED.into_iter().find(|&byte| (low..=high).contains(&classes.of(byte))).unwrap_or_else(|| {
            let first = classes.bytes(low).0;
            let printable = (b'!'..=b'~').find(|&byte| (low..=high).contains(&classes.of(byte)));
            printable.unwrap_or(first)
        })
    }

    /// The entry by which the text ends cheapest after a frame is left, once its cost is known.
    fn cheapest_entry(&self, frame: FrameId) -> Option<Entry> {
        let (_, entry) = *self.ending(frame)?.get()?;
        self.entries(frame).get(entry as usize).copied()
    }

    /// The cost of ending the text after a frame is left. It is kept with the frame, so that a run that asks at every
    /// step, however deep it stands, looks at each frame once.
    fn frame_cost(&self, frame: FrameId, costs: &Costs) -> u64 {
        let parent = |entry: &Entry| match *entry {
            Entry::Return { parent, .. } | Entry::Again { parent, .. } => Some(parent),
            Entry::End | Entry::Exit => None,
        };
        let known = |frame: FrameId| self.ending(frame).and_then(OnceLock::get).map(|(cost, _)| *cost);
        let mut work = vec![frame];
        while let Some(&at) = work.last() {
            if known(at).is_some() {
                work.pop();
                continue;
            }
            let before = work.len();
            work.extend(self.entries(at).iter().filter_map(parent).filter(|frame| known(*frame).is_none()));
            if work.len() > before {
                continue;
            }
            work.pop();
            let cost_of = |entry: &Entry| match *entry {
                Entry::End => 0,
                Entry::Exit => INFINITE,
                Entry::Return { state, .. } => costs.of(state),
                Entry::Again { repetition: id, count, .. } => {
                    let Some(repetition) = self.program.repetition(id) else { return INFINITE };
                    let body = self.program.fragment(repetition.body).map_or(INFINITE, |body| body.cost);
                    let left = repetition.min.saturating_sub(count.saturating_add(1));
                    plus(times(body, left), costs.of(repetition.after))
                }
            };
            let ways = (0u32..).zip(self.entries(at)).map(|(place, entry)| {
                let below = parent(entry).map_or(0, |frame| known(frame).unwrap_or(INFINITE));
                (plus(cost_of(entry), below), *entry, place)
            });
            let (cost, place) = ways.min().map_or((INFINITE, u32::MAX), |(cost, _, place)| (cost, place));
            if let Some(ending) = self.ending(at) {
                ending.get_or_init(|| (cost, place));
            }
        }
        known(frame).unwrap_or(INFINITE)
    }
}
