//! Runs of characters that a configuration does not tell apart: the inside of a string. Used by `mask`.
//!
//! Invariant: what is said of a set of characters was checked for every byte of every one of them.

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::characters::{self, LONG};
use super::configuration::Uniform;
use super::expansion::Expansion;
use super::frames::ConfigId;
use super::machine::Machine;
use super::stop::Stop;

/// Configurations looked at to see whether a run of characters stays among them.
const PLACES: usize = 512;

/// Steps of the closure that a look ahead may cost. More are needed only where the grammar is so ambiguous that each
/// further character costs more than the last.
const COST: usize = 1 << 14;

/// What a run of characters of one kind does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chain {
    /// It can go on for ever, or for longer than any token.
    Endless,
    /// Exactly so many characters can follow each other.
    Ends(usize),
    /// It depends on the characters.
    Mixed,
}

impl Machine {
    /// The configuration that a run of letters soon stays in.
    pub(crate) fn settles(&self, id: ConfigId) -> Result<Option<ConfigId>, Stop> {
        let mut at = id;
        for _ in 0..LONG {
            match self.after_letter(at)? {
                Some(next) if next == at => return Ok(Some(at)),
                Some(next) => at = next,
                None => break,
            }
        }
        Ok(None)
    }

    /// The configuration after the first of a few letters that can come next.
    fn after_letter(&self, id: ConfigId) -> Result<Option<ConfigId>, Stop> {
        let expansion = self.expand(id)?;
        for letter in [b'z', b'e', b'Z', b'E'] {
            if let Some(next) = self.step(expansion, self.program.classes.of(letter))? {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    /// How many characters of `atoms` can follow each other, whichever they are, and whether the unknown frame
    /// may be left among them.
    pub(crate) fn chain(&self, id: ConfigId, atoms: u64) -> Result<(Chain, bool), Stop> {
        let mut at = id;
        let mut leaves = false;
        let mut cost = 0;
        for points in 0..=self.vocabulary.longest() {
            let expansion = self.expand(at)?;
            cost += expansion.cost;
            if cost > COST {
                return Ok((Chain::Mixed, leaves));
            }
            leaves |= expansion.exit;
            match self.uniform(at)? {
                Some(uniform) if uniform.atoms & atoms == atoms => {
                    if uniform.next == at {
                        return Ok((Chain::Endless, leaves));
                    }
                    at = uniform.next;
                }
                _ if self.goes_on(expansion, atoms) => return Ok((Chain::Mixed, leaves)),
                _ => return Ok((Chain::Ends(points), leaves)),
            }
        }
        Ok((Chain::Endless, leaves))
    }

    /// Whether a character of `atoms` may begin here.
    pub(crate) fn goes_on(&self, expansion: &Expansion, atoms: u64) -> bool {
        let begins = |byte| characters::begins(atoms, byte) && expansion.live(self.program.classes.of(byte));
        (0..=u8::MAX).any(begins)
    }

    /// The characters that lead to one and the same configuration, the one a letter leads to.
    pub(crate) fn uniform(&self, id: ConfigId) -> Result<Option<Uniform>, Stop> {
        let configuration = self.get(id)?;
        if let Some(known) = configuration.uniform.get() {
            return Ok(*known);
        }
        let expansion = self.expand(id)?;
        let classes = &self.program.classes;
        let mut found = None;
        if let Some(next) = self.after_letter(id)? {
            let mut atoms = (1u64 << characters::ASCII_ATOMS) - 1;
            let mut last = (None, false);
            for byte in 0..128u8 {
                let class = classes.of(byte);
                if last.0 != Some(class) {
                    last = (Some(class), self.step(expansion, class)? == Some(next));
                }
                if !last.1 {
                    atoms &= !(1 << characters::atom(byte));
                }
            }
            if self.leads_to(id, next)? {
                atoms |= characters::NON_ASCII;
            }
            found = Some(Uniform { atoms, next });
        }
        Ok(*configuration.uniform.get_or_init(|| found))
    }

    /// Whether every character beyond ASCII leads from `id` to `next`.
    fn leads_to(&self, id: ConfigId, next: ConfigId) -> Result<bool, Stop> {
        let mut found = SmallVec::new();
        Ok(self.beyond_ascii(id, &mut found)? && found.as_slice() == [next])
    }

    /// Adds the configurations that characters beyond ASCII lead to; says whether each such character can come.
    fn beyond_ascii(&self, id: ConfigId, found: &mut SmallVec<[ConfigId; 4]>) -> Result<bool, Stop> {
        /// The well-formed sequences of Unicode's table 3-7.
        const SEQUENCES: [&[(u8, u8)]; 8] = [
            &[(0xc2, 0xdf), (0x80, 0xbf)],
            &[(0xe0, 0xe0), (0xa0, 0xbf), (0x80, 0xbf)],
            &[(0xe1, 0xec), (0x80, 0xbf), (0x80, 0xbf)],
            &[(0xed, 0xed), (0x80, 0x9f), (0x80, 0xbf)],
            &[(0xee, 0xef), (0x80, 0xbf), (0x80, 0xbf)],
            &[(0xf0, 0xf0), (0x90, 0xbf), (0x80, 0xbf), (0x80, 0xbf)],
            &[(0xf1, 0xf3), (0x80, 0xbf), (0x80, 0xbf), (0x80, 0xbf)],
            &[(0xf4, 0xf4), (0x80, 0x8f), (0x80, 0xbf), (0x80, 0xbf)],
        ];
        let classes = &self.program.classes;
        for sequence in SEQUENCES {
            let mut at: SmallVec<[ConfigId; 4]> = SmallVec::from_iter([id]);
            for &(low, high) in sequence {
                let mut further: SmallVec<[ConfigId; 4]> = SmallVec::new();
                for &from in &at {
                    let expansion = self.expand(from)?;
                    for class in classes.of(low)..=classes.of(high) {
                        match self.step(expansion, class)? {
                            Some(to) if further.contains(&to) => {}
                            Some(to) => further.push(to),
                            None => return Ok(false),
                        }
                    }
                }
                at = further;
            }
            for to in at {
                if !found.contains(&to) {
                    found.push(to);
                }
            }
        }
        Ok(true)
    }

    /// The characters of which any text can follow, wherever it leads; none if not all letters of one case are
    /// among them, or if it leads to too many places to look at.
    pub(crate) fn stays(&self, id: ConfigId) -> Result<u64, Stop> {
        let mut atoms = u64::MAX;
        let mut seen: FxHashSet<ConfigId> = FxHashSet::from_iter([id]);
        let mut work = vec![id];
        let mut looked: Vec<ConfigId> = Vec::new();
        let mut cost = 0;
        while let Some(at) = work.pop() {
            if let Some(&known) = self.get(at)?.stays.get() {
                atoms &= known;
            } else {
                let mut found = SmallVec::new();
                atoms &= self.live_atoms(at, atoms, &mut found)?;
                looked.push(at);
                cost += self.expand(at)?.cost;
                work.extend(found.into_iter().filter(|&to| seen.insert(to)));
            }
            if looked.len() > PLACES || cost > COST {
                // Not looked at again from the places it leads to, which would take as long.
                for at in looked {
                    self.get(at)?.stays.get_or_init(|| 0);
                }
                return Ok(0);
            }
            if !characters::has_letters(atoms) {
                return Ok(*self.get(id)?.stays.get_or_init(|| 0));
            }
        }
        // What can follow from here can follow from all places it leads to.
        for at in looked {
            self.get(at)?.stays.get_or_init(|| atoms);
        }
        Ok(*self.get(id)?.stays.get_or_init(|| atoms))
    }

    /// The characters out of `atoms` that can come next without ending the run, and where they lead.
    fn live_atoms(&self, id: ConfigId, atoms: u64, found: &mut SmallVec<[ConfigId; 4]>) -> Result<u64, Stop> {
        let expansion = self.expand(id)?;
        let classes = &self.program.classes;
        let can_come = self.ascii_atoms(expansion) & atoms;
        let mut live = can_come;
        let mut last = (None, false);
        for byte in (0..128u8).filter(|&byte| characters::begins(can_come, byte)) {
            let class = classes.of(byte);
            if last.0 != Some(class) {
                let to = self.step(expansion, class)?;
                let runs = match to {
                    Some(to) => characters::has_letters(self.ascii_atoms(self.expand(to)?)),
                    None => false,
                };
                last = (Some(class), runs);
            }
            if !last.1 {
                live &= !(1 << characters::atom(byte));
            }
        }
        let mut class_before = None;
        for byte in (0..128u8).filter(|&byte| characters::begins(live, byte)) {
            let class = classes.of(byte);
            if class_before.replace(class) != Some(class)
                && let Some(to) = self.step(expansion, class)?
                && !found.contains(&to)
            {
                found.push(to);
            }
        }
        if atoms & characters::NON_ASCII != 0
            && characters::has_letters(live)
            && self.beyond_ascii(id, found)?
        {
            live |= characters::NON_ASCII;
        }
        Ok(live)
    }

    /// The ASCII characters that can come next, where all that share an atom can.
    fn ascii_atoms(&self, expansion: &Expansion) -> u64 {
        let mut live = (1u64 << characters::ASCII_ATOMS) - 1;
        for byte in 0..128u8 {
            if !expansion.live(self.program.classes.of(byte)) {
                live &= !(1 << characters::atom(byte));
            }
        }
        live
    }
}
