//! Last but one step of lowering: an order of the fragments by which may begin with which. Above `program`; used by
//! `lower`.
//!
//! Invariant: following calls without consuming anything never comes back to the same fragment (there is no left
//! recursion), and leads to ever higher ranks.

use super::program::{Program, State};
use crate::gbnf::Grammar;
use crate::{Error, Kind};

impl Program {
    /// Ranks the fragments, callers first, by a depth-first search over "may begin with".
    pub(super) fn order(&mut self, grammar: &Grammar) -> Result<(), Error> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut seen = vec![0u32; self.states.len()];
        let begins: Vec<Vec<u32>> =
            (0..self.fragments.len() as u32).map(|fragment| self.begins_with(fragment, &mut seen)).collect();
        let mut marks = vec![Mark::New; self.fragments.len()];
        let mut rank = self.fragments.len() as u32;
        for start in 0..self.fragments.len() as u32 {
            if marks.get(start as usize) != Some(&Mark::New) {
                continue;
            }
            // Fragments on the current path, each with how many of its callees have been looked at.
            let mut path: Vec<(u32, usize)> = vec![(start, 0)];
            while let Some((fragment, looked)) = path.last_mut() {
                let (fragment, next) = (*fragment, *looked);
                *looked += 1;
                if let Some(mark) = marks.get_mut(fragment as usize) {
                    *mark = Mark::Open;
                }
                match begins.get(fragment as usize).and_then(|callees| callees.get(next)) {
                    Some(&callee) => match marks.get(callee as usize) {
                        Some(Mark::New) => path.push((callee, 0)),
                        Some(Mark::Open) => return Err(self.left_recursion(grammar, &path, callee)),
                        _ => {}
                    },
                    None => {
                        if let Some(mark) = marks.get_mut(fragment as usize) {
                            *mark = Mark::Done;
                        }
                        rank -= 1;
                        if let Some(done) = self.fragments.get_mut(fragment as usize) {
                            done.rank = rank;
                        }
                        path.pop();
                    }
                }
            }
        }
        Ok(())
    }

    /// The fragments that may be entered from `fragment` before anything is consumed.
    fn begins_with(&self, fragment: u32, seen: &mut [u32]) -> Vec<u32> {
        let mut found = Vec::new();
        let Some(start) = self.fragment(fragment).map(|fragment| fragment.start) else { return found };
        let mut work = vec![start];
        while let Some(state) = work.pop() {
            match seen.get_mut(state as usize) {
                Some(mark) if *mark <= fragment => *mark = fragment + 1,
                _ => continue,
            }
            let (callee, next) = match self.state(state) {
                State::Split(from, to) => {
                    work.extend_from_slice(self.split(from, to));
                    continue;
                }
                State::Call { fragment, next } => (fragment, self.nullable(fragment).then_some(next)),
                State::Loop(id) => match self.repetition(id) {
                    Some(repetition) => (repetition.body, (repetition.min == 0).then_some(repetition.after)),
                    None => continue,
                },
                State::Accept | State::Byte { .. } | State::Bytes(..) | State::Token { .. } => continue,
            };
            found.push(callee);
            work.extend(next);
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    fn left_recursion(&self, grammar: &Grammar, path: &[(u32, usize)], back_to: u32) -> Error {
        let cycle = path.iter().map(|(fragment, _)| *fragment).skip_while(|fragment| *fragment != back_to);
        let mut rules: Vec<u32> =
            cycle.chain([back_to]).filter_map(|id| self.fragment(id)).map(|f| f.rule).collect();
        rules.dedup();
        if rules.len() == 1 {
            rules.extend(rules.first().copied());
        }
        let names: Vec<&str> = rules
            .iter()
            .filter_map(|&rule| grammar.rules().get(rule as usize))
            .map(|rule| rule.name.as_str())
            .collect();
        Error::new(Kind::Unsupported, format!("left recursion: {}", names.join(" -> ")))
            .hint("write the rule so that it starts with something else, for example with item (\",\" item)*")
    }
}
