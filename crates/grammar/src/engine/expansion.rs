//! What can follow a configuration, as `closure` finds it out: edges over byte classes, tokens, and whether the text may
//! end. Kept with a `configuration`.
//!
//! Invariant: what is asked of it takes time in proportion to the edges that answer, not to all there are.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use smallvec::SmallVec;

use super::frames::Item;
use super::tokens::TokenId;

/// An edge that can be taken from a configuration, over byte classes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf {
    pub(crate) low: u8,
    pub(crate) high: u8,
    pub(crate) to: Item,
}

/// A token edge that can be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenLeaf {
    pub(crate) id: TokenId,
    pub(crate) negated: bool,
    pub(crate) to: Item,
}

impl TokenLeaf {
    /// Whether it matches a token; `ordinary` are those a negated terminal ranges over.
    pub(crate) fn matches(&self, token: TokenId, ordinary: bool) -> bool {
        if self.negated { token != self.id && ordinary } else { token == self.id }
    }
}

/// So few edges are always gone through.
const FEW: usize = 32;

/// More of them are gone through so often before they are sorted.
const SCANS: u32 = 8;

/// What can follow a configuration.
pub(crate) struct Expansion {
    /// Byte classes that can come next, a bit each.
    live: [u64; 4],
    /// Those of them on which more than one edge can be taken.
    several: [u64; 4],
    /// Live classes in the words before each word.
    before: [u16; 4],
    /// For each live class, in order, the configuration it leads to, plus one; 0 is not computed yet.
    next: Box<[AtomicU32]>,
    /// Ascending by their lowest class.
    leaves: Box<[Leaf]>,
    /// Classes between the lowest and the highest of the widest edge.
    widest: u8,
    /// The places of the edges in `leaves`, by where they lead; made when first asked for.
    by_target: OnceLock<Box<[u32]>>,
    /// How often all edges were gone through in search of those that lead to one place.
    scans: AtomicU32,
    /// Those that name a token come first, by its number.
    pub(crate) tokens: Box<[TokenLeaf]>,
    /// Whether the text may end here.
    pub(crate) complete: bool,
    /// Whether the unknown frame was left.
    pub(crate) exit: bool,
    /// Steps that it took to find this out.
    pub(crate) cost: usize,
}

impl Expansion {
    /// Whether a byte of this class can come next.
    #[inline]
    pub(crate) fn live(&self, class: u8) -> bool {
        self.live.get(usize::from(class >> 6)).is_some_and(|word| word >> (class & 63) & 1 == 1)
    }

    #[inline]
    pub(crate) fn slot(&self, class: u8) -> Option<&AtomicU32> {
        let (word, bit) = (usize::from(class >> 6), class & 63);
        let live = *self.live.get(word)?;
        if live >> bit & 1 == 0 {
            return None;
        }
        let below = (live & ((1 << bit) - 1)).count_ones() as usize;
        self.next.get(usize::from(*self.before.get(word)?) + below)
    }

    /// Live classes, ascending.
    pub(crate) fn live_classes(&self) -> impl Iterator<Item = u8> + use<> {
        set_bits(self.live)
    }

    /// Puts together what was found.
    pub(crate) fn new(
        mut leaves: Vec<Leaf>,
        mut tokens: Vec<TokenLeaf>,
        complete: bool,
        exit: bool,
        cost: usize,
    ) -> Self {
        if leaves.len() > 1 {
            leaves.sort_unstable_by_key(|leaf| (leaf.low, leaf.high, leaf.to));
            leaves.dedup_by_key(|leaf| (leaf.low, leaf.high, leaf.to));
        }
        tokens.sort_unstable_by_key(|leaf| (leaf.negated, leaf.id, leaf.to));
        let (mut live, mut several) = ([0u64; 4], [0u64; 4]);
        let mut widest = 0;
        for leaf in &leaves {
            widest = widest.max(leaf.high.saturating_sub(leaf.low));
            for word in usize::from(leaf.low >> 6)..=usize::from(leaf.high >> 6) {
                let covered = covered(word as u16, leaf.low, leaf.high);
                if let (Some(live), Some(several)) = (live.get_mut(word), several.get_mut(word)) {
                    *several |= *live & covered;
                    *live |= covered;
                }
            }
        }
        let mut before = [0u16; 4];
        let mut n = 0;
        for (before, bits) in before.iter_mut().zip(&live) {
            *before = n;
            n += bits.count_ones() as u16;
        }
        let next = (0..n).map(|_| AtomicU32::new(0)).collect();
        let (leaves, tokens) = (leaves.into_boxed_slice(), tokens.into_boxed_slice());
        let by_target = OnceLock::new();
        let scans = AtomicU32::new(0);
        Self { live, several, before, next, leaves, widest, by_target, scans, tokens, complete, exit, cost }
    }

    /// The classes on which the two may lead to different places; on all others both lead nowhere, or by a single
    /// edge to the same.
    pub(crate) fn differs(&self, other: &Self) -> [u64; 4] {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let mut same = [0; 4];
        let (mut ours, mut theirs) = (self.targets().peekable(), other.targets().peekable());
        while let (Some((to, classes)), Some((their_to, their_classes))) = (ours.peek(), theirs.peek()) {
            match to.cmp(their_to) {
                Less => drop(ours.next()),
                Greater => drop(theirs.next()),
                Equal => {
                    for (same, (a, b)) in same.iter_mut().zip(classes.iter().zip(their_classes)) {
                        *same |= a & b;
                    }
                    ours.next();
                    theirs.next();
                }
            }
        }
        let several = self.several.iter().zip(other.several).map(|(a, b)| a | b);
        let live = self.live.iter().zip(other.live).map(|(a, b)| a | b);
        let mut differs = [0; 4];
        for ((differs, live), (same, several)) in
            differs.iter_mut().zip(live).zip(same.into_iter().zip(several))
        {
            *differs = live & !(same & !several);
        }
        differs
    }

    /// The places in `leaves`, by where they lead.
    fn by_target(&self) -> &[u32] {
        self.by_target.get_or_init(|| {
            let mut places: Vec<u32> = (0..self.leaves.len() as u32).collect();
            places.sort_by_key(|place| self.leaves.get(*place as usize).map(|leaf| leaf.to));
            places.into_boxed_slice()
        })
    }

    /// Where the edges lead, ascending, each with the classes that lead there.
    fn targets(&self) -> impl Iterator<Item = (Item, [u64; 4])> + '_ {
        let leaf = |place: &u32| self.leaves.get(*place as usize);
        let mut places = self.by_target().iter().filter_map(leaf).peekable();
        std::iter::from_fn(move || {
            let to = places.peek()?.to;
            let mut classes = [0; 4];
            while let Some(leaf) = places.next_if(|leaf| leaf.to == to) {
                add_range(&mut classes, leaf.low, leaf.high);
            }
            Some((to, classes))
        })
    }

    /// The places that the edges on a class lead to, and all classes on which exactly these edges can be taken.
    pub(crate) fn edges_on(&self, class: u8) -> (SmallVec<[Item; 2]>, [u64; 4]) {
        // An edge that begins too far below does not reach it.
        let least = class.saturating_sub(self.widest);
        let from = self.leaves.partition_point(|leaf| leaf.low < least);
        let near = self.leaves.iter().skip(from).take_while(|leaf| leaf.low <= class);
        let to: SmallVec<[Item; 2]> = near.filter(|leaf| class <= leaf.high).map(|leaf| leaf.to).collect();
        let mut classes = [0; 4];
        if let &[only] = to.as_slice() {
            for leaf in self.edges_to(only) {
                add_range(&mut classes, leaf.low, leaf.high);
            }
            for (classes, several) in classes.iter_mut().zip(self.several) {
                *classes &= !several;
            }
        }
        add_range(&mut classes, class, class);
        (to, classes)
    }

    /// The edges that lead to a place.
    fn edges_to(&self, to: Item) -> impl Iterator<Item = &Leaf> {
        // They are gone through where that is not done often.
        let sorted = self.by_target.get().is_some()
            || self.leaves.len() > FEW && self.scans.fetch_add(1, Ordering::Relaxed) >= SCANS;
        let (few, places) = if sorted { (&[][..], self.by_target()) } else { (&*self.leaves, &[][..]) };
        let target = |place: &u32| self.leaves.get(*place as usize).map(|leaf| leaf.to);
        let from = places.partition_point(|place| target(place) < Some(to));
        let many = places.iter().skip(from).filter_map(|place| self.leaves.get(*place as usize));
        few.iter().filter(move |leaf| leaf.to == to).chain(many.take_while(move |leaf| leaf.to == to))
    }

    /// The token edges that match a token; `ordinary` are those a negated terminal ranges over.
    pub(crate) fn tokens_on(&self, token: TokenId, ordinary: bool) -> impl Iterator<Item = Item> {
        let from = self.tokens.partition_point(|leaf| !leaf.negated && leaf.id < token);
        let named = self.tokens.iter().skip(from).take_while(move |leaf| !leaf.negated && leaf.id == token);
        let negated = self.tokens.partition_point(|leaf| !leaf.negated);
        let others = self.tokens.iter().skip(negated).filter(move |leaf| leaf.matches(token, ordinary));
        named.chain(others).map(|leaf| leaf.to)
    }

    /// Bytes it takes.
    pub(crate) fn size(&self) -> usize {
        size_of_val(&*self.next) + size_of_val(&*self.leaves) + size_of_val(&*self.tokens) + 96
    }

    /// Number of live classes.
    pub(crate) fn n_live(&self) -> usize {
        self.next.len()
    }

    /// Whether nothing at all can follow.
    pub(crate) fn nothing_follows(&self) -> bool {
        self.next.is_empty() && self.tokens.is_empty()
    }
}

/// Adds the classes `low..=high` to a set of them.
fn add_range(classes: &mut [u64; 4], low: u8, high: u8) {
    for (word, bits) in (0u16..).zip(classes) {
        *bits |= covered(word, low, high);
    }
}

/// The part of `low..=high` that lies in a word of 64 classes.
fn covered(word: u16, low: u8, high: u8) -> u64 {
    let (low, high) = (u16::from(low).max(word * 64), u16::from(high).min(word * 64 + 63));
    if low <= high { (u64::MAX >> (63 - (high - low))) << (low % 64) } else { 0 }
}

/// The members of a set of classes, ascending.
pub(crate) fn set_bits(classes: [u64; 4]) -> impl Iterator<Item = u8> {
    (0u8..4).zip(classes).flat_map(|(word, bits)| {
        let mut rest = bits;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(word * 64 + bit as u8)
        })
    })
}
