//! Last step of lowering: ways that consume nothing and push nothing are taken at once, and equal ends are shared.
//!
//! Invariant: what a state matches before the end of its fragment stays the same.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::program::{Program, State, StateId};

impl Program {
    /// Lets edges lead straight into the fragment that is all that is left to match, and lets characters that
    /// lead to the same place share the states between their bytes, so that equal configurations are seen to be
    /// equal.
    pub(super) fn shorten(&mut self, endings: &[StateId]) {
        let mut passed = vec![None; self.states.len()];
        let mut same: FxHashMap<(u8, u8, StateId), StateId> = FxHashMap::default();
        let mut instead: FxHashMap<StateId, StateId> = FxHashMap::default();
        for &ending in endings {
            if let State::Byte { low, high, target } = self.state(ending) {
                let target =
                    instead.get(&target).copied().unwrap_or_else(|| self.entered(target, &mut passed));
                let first = *same.entry((low, high, target)).or_insert(ending);
                if first != ending {
                    instead.insert(ending, first);
                }
            }
        }
        for id in 0..self.states.len() as StateId {
            let shorter = match self.state(id) {
                State::Byte { low, high, target } => {
                    let target =
                        instead.get(&target).copied().unwrap_or_else(|| self.entered(target, &mut passed));
                    State::Byte { low, high, target }
                }
                State::Call { fragment, next } => {
                    State::Call { fragment, next: self.entered(next, &mut passed) }
                }
                other => other,
            };
            if let Some(state) = self.states.get_mut(id as usize) {
                *state = shorter;
            }
        }
        for index in 0..self.edges.len() {
            let Some(target) = self.edges.get(index).map(|edge| edge.target) else { continue };
            let target = instead.get(&target).copied().unwrap_or_else(|| self.entered(target, &mut passed));
            if let Some(edge) = self.edges.get_mut(index) {
                edge.target = target;
            }
        }
    }

    /// Where a state leads without consuming or pushing anything. There is no left recursion, so this ends. `passed`
    /// remembers how far others came on the same way, so that a long one is gone once.
    fn entered(&mut self, state: StateId, passed: &mut [Option<StateId>]) -> StateId {
        let mut way: SmallVec<[StateId; 8]> = SmallVec::new();
        let mut at = state;
        loop {
            self.work += 1;
            let next = match passed.get(at as usize).copied().flatten() {
                Some(further) => Some(further),
                None => match self.state(at) {
                    State::Split(from, to) => match self.split(from, to) {
                        &[only] => Some(only),
                        _ => None,
                    },
                    State::Call { fragment, next } if matches!(self.state(next), State::Accept) => {
                        self.fragment(fragment).map(|fragment| fragment.start)
                    }
                    _ => None,
                },
            };
            let Some(next) = next else { break };
            way.push(at);
            at = next;
        }
        for state in way {
            if let Some(slot) = passed.get_mut(state as usize) {
                *slot = Some(at);
            }
        }
        at
    }
}
