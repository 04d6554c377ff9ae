//! Token masks: which tokens can come next. Above `machine`; used by `matcher`.
//!
//! A mask is computed once per configuration, and most of it far less often. Where many bytes are allowed (the
//! inside of a string) the walk is split in three: the tokens that stay inside come from the vocabulary as a
//! slice; those that leave are found by one walk per grammar over an unknown continuation; and only what comes
//! after leaving is checked against the actual stack.
//!
//! Invariant: however a mask was put together, it holds exactly the tokens that [`Machine::allows`] allows.

use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::machine::{ConfigId, ENDED, Expansion, FrameId, Item, Machine, Stop};
use super::relative::Relative;
use super::slice::{self, Slice};
use super::trie::{NO_TOKEN, Node, Trie};
use super::vocabulary::{TokenKind, TokenSet};

/// Configurations that allow fewer bytes than this are walked directly: their walks are short.
const WIDE: usize = 24;

const SHARDS: usize = 16;

/// What a mask is kept by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The whole mask of a configuration.
    Whole(ConfigId),
    /// The text tokens of a configuration over [`UNKNOWN`](super::machine::UNKNOWN), put onto a frame.
    Onto(ConfigId, FrameId),
}

/// The masks computed so far, within a budget of bytes; of each shard the half used longest ago goes first.
pub(crate) struct Masks {
    shards: [Mutex<MaskShard>; SHARDS],
    budget: usize,
}

#[derive(Default)]
struct MaskShard {
    masks: FxHashMap<Key, (Arc<TokenSet>, u64)>,
    clock: u64,
    bytes: usize,
}

impl Masks {
    pub(crate) fn new(budget: usize) -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), budget: budget / SHARDS }
    }

    fn shard(&self, key: Key) -> Option<&Mutex<MaskShard>> {
        let (Key::Whole(id) | Key::Onto(id, _)) = key;
        self.shards.get(id as usize % SHARDS)
    }

    fn get(&self, key: Key) -> Option<Arc<TokenSet>> {
        let mut shard = self.shard(key)?.lock().unwrap_or_else(PoisonError::into_inner);
        shard.clock += 1;
        let now = shard.clock;
        shard.masks.get_mut(&key).map(|(mask, used)| {
            *used = now;
            Arc::clone(mask)
        })
    }

    fn put(&self, key: Key, mask: &Arc<TokenSet>) {
        let Some(shard) = self.shard(key) else { return };
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let size = size_of_val(mask.words()) + 64;
        if shard.bytes + size > self.budget && !shard.masks.is_empty() {
            let mut ages: Vec<u64> = shard.masks.values().map(|(_, used)| *used).collect();
            let middle = ages.len() / 2;
            let (_, &mut median, _) = ages.select_nth_unstable(middle);
            shard.masks.retain(|_, (_, used)| *used > median);
            shard.bytes = shard.masks.len() * size;
        }
        shard.clock += 1;
        let now = shard.clock;
        if shard.masks.insert(key, (Arc::clone(mask), now)).is_none() {
            shard.bytes += size;
        }
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).bytes).sum()
    }
}

/// Characters that all lead from a configuration to the same next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uniform {
    atoms: u64,
    next: ConfigId,
}

/// The part of a mask that does not depend on what is below [`UNKNOWN`](super::machine::UNKNOWN).
pub(crate) struct Local {
    slice: Option<Sliced>,
    /// The tokens allowed whatever follows.
    tokens: TokenSet,
    /// Nodes of the slice's residue, and of the vocabulary's trie, after which it depends on what follows.
    exits: [Vec<u32>; 2],
}

/// The tokens that stay inside.
struct Sliced {
    slice: Arc<Slice>,
    /// The characters they are made of.
    atoms: u64,
    /// How many code points of them are allowed, if there is a bound.
    points: Option<usize>,
    /// Whether the unknown frame may be left before that bound, so that longer ones may be allowed by what
    /// follows it.
    leaves: bool,
}

impl Machine {
    /// All tokens that can come next.
    pub(crate) fn mask(&self, id: ConfigId) -> Result<Arc<TokenSet>, Stop> {
        if let Some(known) = self.masks.get(Key::Whole(id)) {
            return Ok(known);
        }
        let expansion = self.expand(id)?;
        let plain = expansion.tokens.is_empty() && (!expansion.complete || id == ENDED);
        let text = self.text_mask(id, expansion)?;
        let mask = if plain {
            text
        } else {
            let mut mask = TokenSet::clone(&text);
            self.add_tokens(id, expansion, &mut mask);
            Arc::new(mask)
        };
        self.masks.put(Key::Whole(id), &mask);
        Ok(mask)
    }

    /// Adds what is allowed as a whole token: end tokens and token terminals.
    fn add_tokens(&self, id: ConfigId, expansion: &Expansion, mask: &mut TokenSet) {
        if expansion.complete && id != ENDED {
            for &token in self.vocabulary.end_tokens() {
                mask.insert(token);
            }
        }
        for leaf in &expansion.tokens {
            if leaf.negated {
                let had = mask.contains(leaf.id);
                for (word, more) in mask.words_mut().iter_mut().zip(self.vocabulary.ordinary().words()) {
                    *word |= more;
                }
                if !had {
                    mask.remove(leaf.id);
                }
            } else if self.vocabulary.kind(leaf.id) != TokenKind::Unused {
                mask.insert(leaf.id);
            }
        }
    }

    fn text_mask(&self, id: ConfigId, expansion: &Expansion) -> Result<Arc<TokenSet>, Stop> {
        if self.live_bytes(expansion) >= WIDE
            && let Some(shared) = self.shared_mask(id)?
        {
            return Ok(shared);
        }
        let mut mask = TokenSet::empty(self.vocabulary.len());
        let trie = self.vocabulary.trie();
        self.walk_roots(trie, id, expansion, 0, &mut mask, None)?;
        self.add_twins(&mut mask);
        Ok(Arc::new(mask))
    }

    fn add_twins(&self, mask: &mut TokenSet) {
        for &(first, twin) in self.vocabulary.twins() {
            if mask.contains(first) {
                mask.insert(twin);
            }
        }
    }

    fn live_bytes(&self, expansion: &Expansion) -> usize {
        if expansion.n_live() >= WIDE {
            return expansion.n_live();
        }
        let size = |class| {
            let (low, high) = self.program.classes.bytes(class);
            usize::from(high - low) + 1
        };
        expansion.live_classes().map(size).sum()
    }

    /// The text tokens of a configuration by way of what it shares with others; `None` where it is not worth it.
    fn shared_mask(&self, id: ConfigId) -> Result<Option<Arc<TokenSet>>, Stop> {
        let Some(relative) = self.relative(id)? else { return Ok(None) };
        let local = self.local(relative.id)?;
        let key = Key::Onto(relative.id, relative.base);
        let shared = match self.masks.get(key) {
            Some(known) => known,
            None => {
                let mut mask = local.tokens.clone();
                self.follow_exits(id, &local, relative.base, &mut mask)?;
                self.add_twins(&mut mask);
                let mask = Arc::new(mask);
                self.masks.put(key, &mask);
                mask
            }
        };
        if relative.sight >= self.vocabulary.longest() as u64 {
            return Ok(Some(shared));
        }
        self.correct(id, relative, &local, shared).map(Some)
    }

    /// Decides again on the tokens that are long enough to reach a bound the shared mask does not know of.
    fn correct(
        &self,
        id: ConfigId,
        relative: Relative,
        local: &Local,
        shared: Arc<TokenSet>,
    ) -> Result<Arc<TokenSet>, Stop> {
        let sight = relative.sight as usize;
        let mut wrong: SmallVec<[u32; 64]> = SmallVec::new();
        let is_wrong = |token: u32| -> Result<bool, Stop> {
            let had = shared.contains(token);
            Ok((had || relative.below) && self.allows(id, self.vocabulary.bytes(token))? != had)
        };
        let others = match &local.slice {
            Some(sliced) => {
                // A token of more than `sight` bytes has more than a quarter as many code points.
                match self.chain(id, sliced.atoms)?.0 {
                    Chain::Endless if sliced.points.is_none() => {}
                    Chain::Ends(points) if sliced.points.is_none() => {
                        wrong.extend(sliced.slice.longer(points.max(sight / 4)));
                    }
                    _ => {
                        for token in sliced.slice.longer(sight / 4) {
                            if is_wrong(token)? {
                                wrong.push(token);
                            }
                        }
                    }
                }
                &sliced.slice.long_others
            }
            None => self.vocabulary.long_tokens(),
        };
        let longer = others.iter().take_while(|(bytes, _)| usize::from(*bytes) > sight);
        for &(_, token) in longer {
            if is_wrong(token)? {
                wrong.push(token);
            }
        }
        if wrong.is_empty() {
            return Ok(shared);
        }
        let mut mask = TokenSet::clone(&shared);
        for token in wrong {
            if shared.contains(token) {
                mask.remove(token);
            } else {
                mask.insert(token);
            }
        }
        Ok(Arc::new(mask))
    }

    /// Walks on from where tokens left the shared part, with what follows on the actual stack.
    fn follow_exits(
        &self,
        id: ConfigId,
        local: &Local,
        base: FrameId,
        mask: &mut TokenSet,
    ) -> Result<(), Stop> {
        let bounded = local.slice.as_ref().filter(|sliced| sliced.leaves);
        if bounded.is_none() && local.exits.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let state = self.program.fragment(self.program.root).map_or(0, |root| root.accept);
        // Any end of a fragment will do: what matters is the frame that is left.
        let after = self.configuration(SmallVec::from_iter([Item { state, frame: base }]))?;
        let expansion = self.expand(after)?;
        if expansion.n_live() == 0 {
            return Ok(());
        }
        if let Some(Sliced { slice, atoms, points: Some(points), .. }) = bounded
            && self.goes_on(expansion, *atoms)
        {
            for token in slice.longer(*points) {
                if self.allows(id, self.vocabulary.bytes(token))? {
                    mask.insert(token);
                }
            }
        }
        let empty = Trie::default();
        let residue = local.slice.as_ref().map_or(&empty, |sliced| &sliced.slice.residue);
        for (trie, exits) in [residue, self.vocabulary.trie()].into_iter().zip(&local.exits) {
            for &exit in exits {
                if let Some(node) = trie.node(exit as usize) {
                    self.walk(trie, exit as usize + 1..node.end as usize, node.depth, after, mask, None)?;
                }
            }
        }
        Ok(())
    }

    fn local(&self, id: ConfigId) -> Result<Arc<Local>, Stop> {
        let configuration = self.get(id)?;
        if let Some(known) = configuration.local.get() {
            return Ok(Arc::clone(known));
        }
        let expansion = self.expand(id)?;
        let mut exits = [Vec::new(), Vec::new()];
        let [residue_exits, trie_exits] = &mut exits;
        let slice = self.slice_of(id)?;
        let (mut tokens, but);
        if let Some(Sliced { slice, atoms, points, .. }) = &slice {
            tokens = TokenSet::from_words(slice.up_to(*points).into());
            but = *atoms;
            self.walk_roots(&slice.residue, id, expansion, 0, &mut tokens, Some(residue_exits))?;
        } else {
            tokens = TokenSet::empty(self.vocabulary.len());
            but = 0;
        }
        self.walk_roots(self.vocabulary.trie(), id, expansion, but, &mut tokens, Some(trie_exits))?;
        let local = Arc::new(Local { slice, tokens, exits });
        Ok(Arc::clone(configuration.local.get_or_init(|| local)))
    }

    /// The tokens that stay in configurations like this one.
    fn slice_of(&self, id: ConfigId) -> Result<Option<Sliced>, Stop> {
        let Some(first) = self.uniform(id)? else { return Ok(None) };
        let mut atoms = first.atoms;
        let mut at = first.next;
        // A few steps are enough to come to a state that repeats, or to see that there is none.
        for _ in 0..Slice::LONG {
            match self.uniform(at)? {
                Some(uniform) if uniform.atoms & atoms != 0 => {
                    atoms &= uniform.atoms;
                    if uniform.next == at {
                        break;
                    }
                    at = uniform.next;
                }
                _ => break,
            }
        }
        let (chain, leaves) = self.chain(id, atoms)?;
        let points = match chain {
            Chain::Endless => None,
            Chain::Ends(points) => Some(points),
            Chain::Mixed => return Ok(None),
        };
        let leaves = leaves && points.is_some();
        Ok(self.vocabulary.slice(atoms).map(|slice| Sliced { slice, atoms, points, leaves }))
    }

    /// How many characters of `atoms` can follow each other, whichever they are, and whether the unknown frame
    /// may be left among them.
    fn chain(&self, id: ConfigId, atoms: u64) -> Result<(Chain, bool), Stop> {
        let mut at = id;
        let mut leaves = false;
        for points in 0..=self.vocabulary.longest() {
            let expansion = self.expand(at)?;
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
    fn goes_on(&self, expansion: &Expansion, atoms: u64) -> bool {
        let begins = |byte| slice::begins(atoms, byte) && expansion.live(self.program.classes.of(byte));
        (0..=u8::MAX).any(begins)
    }

    /// The characters that lead to one and the same configuration, the one a letter leads to.
    fn uniform(&self, id: ConfigId) -> Result<Option<Uniform>, Stop> {
        let configuration = self.get(id)?;
        if let Some(known) = configuration.uniform.get() {
            return Ok(*known);
        }
        let expansion = self.expand(id)?;
        let classes = &self.program.classes;
        let letter = [b'z', b'e', b'Z', b'E'].into_iter().find(|&letter| expansion.live(classes.of(letter)));
        let mut found = None;
        if let Some(letter) = letter
            && let Some(next) = self.step(expansion, classes.of(letter))?
        {
            let mut atoms = (1u64 << slice::ASCII_ATOMS) - 1;
            let mut last = (None, false);
            for byte in 0..128u8 {
                let class = classes.of(byte);
                if last.0 != Some(class) {
                    last = (Some(class), self.step(expansion, class)? == Some(next));
                }
                if !last.1 {
                    atoms &= !(1 << slice::atom(byte));
                }
            }
            if self.leads_to(id, next)? {
                atoms |= slice::NON_ASCII;
            }
            found = Some(Uniform { atoms, next });
        }
        Ok(*configuration.uniform.get_or_init(|| found))
    }

    /// Whether every character beyond ASCII leads from `id` to `next`.
    fn leads_to(&self, id: ConfigId, next: ConfigId) -> Result<bool, Stop> {
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
            if at.as_slice() != [next] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Walks the trie below each first byte that can come next and does not begin a character of `but`.
    fn walk_roots(
        &self,
        trie: &Trie,
        id: ConfigId,
        expansion: &Expansion,
        but: u64,
        mask: &mut TokenSet,
        mut exits: Option<&mut Vec<u32>>,
    ) -> Result<(), Stop> {
        for class in expansion.live_classes() {
            let (low, high) = self.program.classes.bytes(class);
            for byte in low..=high {
                if slice::begins(but, byte) {
                    continue;
                }
                if let Some(root) = trie.root(byte)
                    && let Some(node) = trie.node(root)
                {
                    self.walk(trie, root..node.end as usize, 0, id, mask, exits.as_deref_mut())?;
                }
            }
        }
        Ok(())
    }

    /// Adds the tokens of `nodes`, which are whole subtrees side by side at depth `depth + 1`, that can follow
    /// `start`; notes the nodes after which the unknown frame is left.
    #[allow(
        clippy::indexing_slicing,
        reason = "nodes lie within the trie, and depths within the stack grown for them"
    )]
    fn walk(
        &self,
        trie: &Trie,
        nodes: std::ops::Range<usize>,
        depth: u16,
        start: ConfigId,
        mask: &mut TokenSet,
        mut exits: Option<&mut Vec<u32>>,
    ) -> Result<(), Stop> {
        let all: &[Node] = &trie.nodes[..nodes.end];
        let words = mask.words_mut();
        let classes = &self.program.classes;
        // The configurations on the way to the current node, by depth below `depth`.
        let mut path: SmallVec<[&Expansion; 48]> = SmallVec::from_iter([self.expand(start)?]);
        let mut at = nodes.start;
        while at < all.len() {
            let node = &all[at];
            let level = usize::from(node.depth - depth);
            let class = classes.of(node.byte);
            let expansion = path[level - 1];
            let end = node.end as usize;
            if !expansion.live(class) {
                at = end;
                continue;
            }
            if node.token != NO_TOKEN {
                words[node.token as usize / 64] |= 1 << (node.token % 64);
            }
            at += 1;
            if at == end {
                continue;
            }
            let Some(next) = self.step(expansion, class)? else {
                at = end;
                continue;
            };
            let next = self.expand(next)?;
            if next.exit
                && let Some(exits) = exits.as_deref_mut()
            {
                exits.push(at as u32 - 1);
            }
            path.truncate(level);
            path.push(next);
        }
        Ok(())
    }
}

/// What a run of characters of one kind does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chain {
    /// It can go on for ever, or for longer than any token.
    Endless,
    /// Exactly so many characters can follow each other.
    Ends(usize),
    /// It depends on the characters.
    Mixed,
}
