//! Choices: `anyOf`, `oneOf`, and what became of `not`, `if` and dependencies.
//!
//! Invariant: a union of branches allows what `anyOf` allows; where exactly one branch must hold, either no two
//! branches can hold at once, or the keyword is listed as checked.

use std::collections::VecDeque;

use crate::schema::{Key, Normal};
use crate::{Error, Expr};

use super::{Compiler, choice, longer};

/// Combinations of choices that one place may multiply out to; beyond it a choice is let go and checked.
const COMBINATIONS: usize = 256;
/// Choices at one place beyond which they are made all or none: each costs a look at every combination so far.
const WIDE: usize = 12;
/// Combinations that so many choices may multiply out to.
const WIDE_COMBINATIONS: usize = 32;
/// What a look at a branch costs, in steps.
const BRANCH: u64 = 4;
/// Branches of which every pair is compared.
const PAIRS: usize = 200;

impl Compiler<'_, '_> {
    /// A key with open choices: the union over the branches.
    pub(super) fn union(&mut self, normal: Normal, name: &str) -> Result<Option<Expr>, Error> {
        let plain = normal.own.is_empty() && normal.open.len() == 1 && normal.made.is_empty();
        let branches = self.arena.branches(&normal);
        self.spend(1)?;
        self.require_disjoint(&normal, &branches);
        let keys = if plain { branches } else { self.multiplied(&normal, branches) };
        let mut exprs = Vec::with_capacity(keys.len());
        for (i, key) in keys.into_iter().enumerate() {
            self.spend(BRANCH)?;
            if self.arena.is_never(&key) {
                continue;
            }
            exprs.extend(self.node(key, &longer(name, &(i + 1).to_string()))?);
        }
        Ok(choice(exprs))
    }

    /// Makes the remaining choices of each key too, dropping what is impossible, as long as that stays bounded.
    fn multiplied(&mut self, whole: &Normal, keys: Vec<Key>) -> Vec<Key> {
        let wide = whole.open.len() > WIDE;
        let most = if wide { WIDE_COMBINATIONS } else { COMBINATIONS };
        let mut done = Vec::new();
        let mut pending: VecDeque<Key> = keys.into();
        while let Some(key) = pending.pop_front() {
            // What is left undone here ends in an error soon.
            if !self.arena.count(BRANCH) {
                break;
            }
            if self.arena.is_never(&key) {
                continue;
            }
            let normal = self.arena.normal(&key);
            if normal.open.is_empty() {
                done.push(key);
                continue;
            }
            let branches = self.arena.branches(&normal);
            if done.len() + pending.len() + branches.len() > most {
                if wide {
                    self.let_go(whole);
                    return vec![Normal { open: Vec::new(), ..whole.clone() }.key()];
                }
                self.let_go(&normal);
                let rest = Normal { open: Vec::new(), ..normal };
                done.push(rest.key());
                continue;
            }
            self.require_disjoint(&normal, &branches);
            for branch in branches.into_iter().rev() {
                pending.push_front(branch);
            }
        }
        done
    }

    fn let_go(&mut self, normal: &Normal) {
        for (id, index) in &normal.open {
            let Some(part) = self.arena.part(*id) else { continue };
            let Some(choice) = part.choices.get(*index as usize) else { continue };
            let pointer = format!("{}/{}", part.pointer, choice.keyword);
            self.weaken(pointer, "too many combinations with other choices");
        }
    }

    /// Lists the first open choice as checked if exactly one branch must hold and two may.
    fn require_disjoint(&mut self, normal: &Normal, branches: &[Key]) {
        let Some((id, index)) = normal.open.first() else { return };
        let Some(part) = self.arena.part(*id) else { return };
        let Some(choice) = part.choices.get(*index as usize) else { return };
        if !choice.exclusive {
            return;
        }
        let pointer = format!("{}/{}", part.pointer, choice.keyword);
        let possible: Vec<&Key> = branches.iter().filter(|key| !self.arena.is_never(key)).collect();
        let overlap = possible.len() > PAIRS
            || possible
                .iter()
                .enumerate()
                .any(|(i, a)| possible.iter().skip(i + 1).any(|b| !self.arena.disjoint(a, b)));
        if overlap {
            self.weaken(pointer, "its branches are not provably disjoint");
        }
    }
}
