//! What can follow a configuration, written down without the numbers of one grammar: by it, masks are shared
//! between grammars. Used by `mask`.
//!
//! Invariant: configurations with equal signatures allow the same tokens of a vocabulary, and leave the unknown
//! frame after the same of them.

use rustc_hash::FxHashMap;

use super::frames::{ConfigId, Entry, FAR_BELOW, FrameId};
use super::machine::Machine;
use super::program::{Edge, State, StateId};
use super::shared::Signature;
use super::stop::Stop;

/// Words of the longest signature: the insides of strings are shorter, and to find out that something is not costs
/// little.
const WORDS: usize = 384;

impl Machine {
    /// The signature of a configuration; `None` if it leads to too much.
    pub(crate) fn signature(&self, id: ConfigId) -> Result<Option<Signature>, Stop> {
        let mut writer =
            Writer { machine: self, words: Vec::new(), numbers: FxHashMap::default(), queue: Vec::new() };
        for item in &self.get(id)?.items {
            writer.refer(Part::State(item.state));
            writer.refer(Part::Frame(item.frame));
        }
        let mut next = 0;
        while let Some(&part) = writer.queue.get(next) {
            writer.word(u32::MAX);
            writer.part(part);
            if writer.words.len() > WORDS {
                return Ok(None);
            }
            next += 1;
        }
        Ok(Some(writer.words.into()))
    }
}

/// What a signature numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    State(StateId),
    Frame(FrameId),
    Fragment(u32),
    Repetition(u32),
    /// A repetition that is so far from its bounds that they do not matter.
    Unbounded(u32),
}

struct Writer<'m> {
    machine: &'m Machine,
    words: Vec<u32>,
    numbers: FxHashMap<Part, u32>,
    /// The parts by number.
    queue: Vec<Part>,
}

impl Writer<'_> {
    fn word(&mut self, word: u32) {
        self.words.push(word);
    }

    fn long(&mut self, number: u64) {
        self.words.extend([number as u32, (number >> 32) as u32]);
    }

    fn refer(&mut self, part: Part) {
        let next = self.queue.len() as u32;
        let number = *self.numbers.entry(part).or_insert(next);
        if number == next {
            self.queue.push(part);
        }
        self.word(number);
    }

    fn part(&mut self, part: Part) {
        let program = &self.machine.program;
        match part {
            Part::State(id) => self.state(program.state(id)),
            Part::Frame(id) => {
                for &entry in self.machine.entries(id) {
                    self.entry(entry);
                }
            }
            Part::Fragment(id) => {
                self.word(20);
                if let Some(fragment) = program.fragment(id) {
                    self.word(u32::from(fragment.nullable()));
                    self.refer(Part::State(fragment.start));
                }
            }
            Part::Repetition(id) | Part::Unbounded(id) => {
                self.word(21);
                let Some(repetition) = program.repetition(id) else { return };
                if let Part::Repetition(_) = part {
                    self.long(repetition.min);
                    self.long(repetition.max.unwrap_or(u64::MAX));
                }
                self.refer(Part::Fragment(repetition.body));
                self.refer(Part::State(repetition.after));
            }
        }
    }

    fn entry(&mut self, entry: Entry) {
        match entry {
            Entry::End => self.word(10),
            Entry::Exit => self.word(11),
            Entry::Return { state, parent } => {
                self.word(12);
                self.refer(Part::State(state));
                self.refer(Part::Frame(parent));
            }
            Entry::Again { repetition, parent, count } => {
                self.word(13);
                self.long(count);
                self.refer(Part::Frame(parent));
                self.refer(if count >= FAR_BELOW {
                    Part::Unbounded(repetition)
                } else {
                    Part::Repetition(repetition)
                });
            }
        }
    }

    fn state(&mut self, state: State) {
        let program = &self.machine.program;
        match state {
            State::Accept => self.word(0),
            State::Split(from, to) => {
                self.word(1);
                for &target in program.split(from, to) {
                    self.refer(Part::State(target));
                }
            }
            State::Byte { low, high, target } => {
                self.word(2);
                self.edge(Edge { low, high, target });
            }
            State::Bytes(from, to) => {
                self.word(2);
                for &edge in program.edges(from, to) {
                    self.edge(edge);
                }
            }
            State::Call { fragment, next } => {
                self.word(3);
                self.refer(Part::Fragment(fragment));
                self.refer(Part::State(next));
            }
            State::Loop(id) => {
                self.word(4);
                self.refer(Part::Repetition(id));
            }
            State::Token { id, negated, target } => {
                self.word(if negated { 6 } else { 5 });
                self.word(id);
                self.refer(Part::State(target));
            }
        }
    }

    /// An edge over bytes, since classes are a grammar's own.
    fn edge(&mut self, edge: Edge) {
        let classes = &self.machine.program.classes;
        let (low, high) = (classes.bytes(edge.low).0, classes.bytes(edge.high).1);
        self.word(u32::from(low) << 8 | u32::from(high));
        self.refer(Part::State(edge.target));
    }
}
