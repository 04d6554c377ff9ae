//! Token masks: which tokens can come next. Above `machine`; used by `matcher`.
//!
//! A mask is computed once per configuration, and most of it far less often: [`Way`] names the ways, and says when each
//! applies. What was found over an unknown continuation serves every grammar that has the same part: `shared` keeps it by
//! its signature.
//!
//! Invariant: however a mask was put together, it holds exactly the tokens that [`Machine::allows`] allows.

use std::sync::Arc;

use smallvec::SmallVec;

use super::characters::{self, LONG};
use super::expansion::Expansion;
#[cfg(doc)]
use super::frames::UNKNOWN;
use super::frames::{ConfigId, ENDED, FrameId, Item};
use super::kept::Key;
use super::machine::Machine;
use super::relative::Relative;
use super::shared::Signature;
use super::stop::Stop;
use super::text::{Sliced, Text, mask_bytes};
use super::tokens::{TokenKind, TokenSet};
use super::uniform::Chain;
use super::ways::Way;

/// Configurations that allow fewer bytes than this are walked directly: their walks are short.
const WIDE: usize = 24;

impl Machine {
    /// All tokens that can come next.
    pub(crate) fn mask(&self, id: ConfigId) -> Result<&Arc<TokenSet>, Stop> {
        let configuration = self.get(id)?;
        if let Some(known) = configuration.mask.get() {
            return Ok(known);
        }
        if !self.held.has_room(self.vocabulary.len() / 8 + 128) {
            return Err(Stop::Full);
        }
        let expansion = self.expand(id)?;
        let mut text = self.compute_text(id, expansion)?;
        let ends = expansion.complete && id != ENDED;
        if ends || !expansion.tokens.is_empty() {
            let mut mask = TokenSet::clone(&text.tokens);
            self.add_tokens(expansion, ends, &mut mask);
            text.tokens = Arc::new(mask);
        }
        Ok(configuration.mask.get_or_init(|| {
            self.held.overdraw(mask_bytes(&text.tokens));
            text.tokens
        }))
    }

    /// Adds what is allowed as a whole token: end tokens and token terminals.
    fn add_tokens(&self, expansion: &Expansion, ends: bool, mask: &mut TokenSet) {
        for &token in self.vocabulary.end_tokens().iter().filter(|_| ends) {
            mask.insert(token);
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

    fn text(&self, id: ConfigId) -> Result<Text, Stop> {
        let (known, signature) = self.known_text(id)?;
        if let Some(known) = known {
            return Ok(known);
        }
        let text = self.compute_text(id, self.expand(id)?)?;
        if let Some(signature) = signature {
            self.shared.texts.put(signature, &text);
        }
        self.masks.put(Key::Text(id), &text);
        Ok(text)
    }

    /// The text tokens of a configuration if this grammar, or another, has found them out; otherwise its signature.
    fn known_text(&self, id: ConfigId) -> Result<(Option<Text>, Option<Signature>), Stop> {
        self.touch(self.get(id)?);
        if let Some(known) = self.masks.get(&Key::Text(id)) {
            return Ok((Some(known), None));
        }
        let signature = self.signature(id)?;
        let known = signature.as_ref().and_then(|signature| self.shared.texts.get(&**signature));
        if let Some(known) = &known {
            self.masks.put(Key::Text(id), known);
        }
        Ok((known, signature))
    }

    /// The text tokens of a configuration within a run of characters; `None` if it is not within one.
    fn run_text(&self, id: ConfigId) -> Result<Option<Text>, Stop> {
        match self.known_text(id)?.0 {
            Some(known) if known.sliced.is_some() => Ok(Some(known)),
            _ if self.stays(id)? != 0 => self.text(id).map(Some),
            _ => Ok(None),
        }
    }

    fn compute_text(&self, id: ConfigId, expansion: &Expansion) -> Result<Text, Stop> {
        if self.live_bytes(expansion) < WIDE {
            return self.direct(id, expansion);
        }
        if let Some(relative) = self.relative(id)? {
            return self.shared(id, expansion, relative);
        }
        if let Some(near) = self.settles(id)?
            && near != id
            && let Some(near_text) = self.run_text(near)?
        {
            let mut tokens = TokenSet::clone(&near_text.tokens);
            if let Some(exits) = self.walk_difference(id, near, &mut tokens, &near_text.exits)? {
                self.ways.count(Way::Difference);
                self.align_twins(&mut tokens);
                return Ok(Text { tokens: Arc::new(tokens), exits: exits.into(), sliced: None });
            }
        }
        self.inside(id, expansion)
    }

    /// By one walk over all that is allowed.
    fn direct(&self, id: ConfigId, expansion: &Expansion) -> Result<Text, Stop> {
        self.ways.count(Way::Walk);
        let mut tokens = TokenSet::empty(self.vocabulary.len());
        let mut exits = Vec::new();
        self.walk_roots(self.vocabulary.trie(), id, expansion, 0, &mut tokens, &mut exits)?;
        self.align_twins(&mut tokens);
        Ok(Text { tokens: Arc::new(tokens), exits: exits.into(), sliced: None })
    }

    /// Where a run of characters stays inside: the tokens that do come from the vocabulary.
    fn inside(&self, id: ConfigId, expansion: &Expansion) -> Result<Text, Stop> {
        let Some(sliced) = self.slice_of(id)? else { return self.direct(id, expansion) };
        self.ways.count(Way::Slice);
        let Sliced { slice, atoms, points, .. } = &sliced;
        let mut tokens = TokenSet::from_words(slice.up_to(&self.vocabulary, *points));
        let (mut exits, mut more) = (Vec::new(), Vec::new());
        self.walk_roots(&slice.residue, id, expansion, 0, &mut tokens, &mut more)?;
        self.walk_roots(self.vocabulary.trie(), id, expansion, *atoms, &mut tokens, &mut exits)?;
        exits.extend(more.iter().filter_map(|&node| slice.origins.get(node as usize)));
        exits.sort_unstable();
        self.align_twins(&mut tokens);
        Ok(Text { tokens: Arc::new(tokens), exits: exits.into(), sliced: Some(sliced) })
    }

    /// By way of the configuration over [`UNKNOWN`] that it shares with others.
    fn shared(&self, id: ConfigId, expansion: &Expansion, relative: Relative) -> Result<Text, Stop> {
        let key = Key::Onto(relative.id, relative.base);
        let text = match self.masks.get(&key) {
            Some(known) => known,
            None => {
                let text = self.text(relative.id)?;
                let Some(text) = self.onto(text, relative.base)? else { return self.direct(id, expansion) };
                self.masks.put(key, &text);
                text
            }
        };
        if relative.sight >= self.vocabulary.longest() as u64 {
            self.ways.count(Way::Shared);
            return Ok(text);
        }
        if !text.exits.is_empty() {
            // Where bounds that were left out come together with what is not known, neither can be put right.
            return self.direct(id, expansion);
        }
        self.ways.count(Way::Corrected);
        self.correct(id, relative, text)
    }

    /// Puts a frame in the place of [`UNKNOWN`]; `None` if what follows it goes on with what was cut off.
    fn onto(&self, text: Text, base: FrameId) -> Result<Option<Text>, Stop> {
        // Any end of a fragment will do: what matters is the frame that is left.
        let state = self.program.fragment(self.program.root).map_or(0, |root| root.accept);
        let after = self.configuration(SmallVec::from_iter([Item { state, frame: base }]))?;
        let expansion = self.expand(after)?;
        let mut sliced = text.sliced;
        if let Some(sliced) = &mut sliced
            && sliced.leaves
        {
            if self.goes_on(expansion, sliced.atoms) {
                return Ok(None);
            }
            sliced.leaves = expansion.exit;
        }
        if text.exits.is_empty() || expansion.n_live() == 0 {
            let exits = if expansion.exit { text.exits } else { Arc::default() };
            return Ok(Some(Text { tokens: text.tokens, exits, sliced }));
        }
        let mut tokens = TokenSet::clone(&text.tokens);
        let mut exits = if expansion.exit { text.exits.to_vec() } else { Vec::new() };
        let trie = self.vocabulary.trie();
        for &exit in text.exits.iter() {
            if let Some(node) = trie.node(exit as usize) {
                let below = exit as usize + 1..node.end as usize;
                self.walk(trie, below, node.depth, after, &mut tokens, &mut exits)?;
            }
        }
        exits.sort_unstable();
        exits.dedup();
        self.align_twins(&mut tokens);
        Ok(Some(Text { tokens: Arc::new(tokens), exits: exits.into(), sliced }))
    }

    /// Decides again on the tokens that are long enough to reach a bound the shared mask does not know of.
    fn correct(&self, id: ConfigId, relative: Relative, text: Text) -> Result<Text, Stop> {
        let sight = relative.sight as usize;
        let mut wrong: SmallVec<[u32; 64]> = SmallVec::new();
        let mut others = self.vocabulary.long_tokens();
        if let Some(Sliced { slice, atoms, points: None, .. }) = &text.sliced {
            let bound = match self.chain(id, *atoms)?.0 {
                Chain::Endless => Some(usize::MAX),
                Chain::Ends(points) => Some(points),
                Chain::Mixed => None,
            };
            if let Some(bound) = bound {
                wrong.extend(slice.longer(&self.vocabulary, bound));
                others = &slice.long_others;
            }
        }
        for &(_, token) in others.iter().take_while(|(bytes, _)| usize::from(*bytes) > sight) {
            let had = text.tokens.contains(token);
            if (had || relative.below) && self.allows(id, self.vocabulary.bytes(token))? != had {
                wrong.push(token);
            }
        }
        if wrong.is_empty() {
            return Ok(text);
        }
        let mut tokens = TokenSet::clone(&text.tokens);
        for token in wrong {
            if text.tokens.contains(token) {
                tokens.remove(token);
            } else {
                tokens.insert(token);
            }
        }
        Ok(Text { tokens: Arc::new(tokens), ..text })
    }

    /// The tokens that stay in configurations like this one.
    fn slice_of(&self, id: ConfigId) -> Result<Option<Sliced>, Stop> {
        let atoms = self.stays(id)?;
        if atoms != 0 {
            let sliced = |slice| Sliced { slice, atoms, points: None, leaves: false };
            return Ok(self.shared.slice(&self.vocabulary, atoms).map(sliced));
        }
        let Some(first) = self.uniform(id)? else { return Ok(None) };
        let mut atoms = first.atoms;
        let mut at = first.next;
        // A few steps are enough to come to a state that repeats, or to see that there is none.
        for _ in 0..LONG {
            match self.uniform(at)? {
                Some(uniform) if characters::has_letters(uniform.atoms & atoms) => {
                    atoms &= uniform.atoms;
                    if uniform.next == at {
                        break;
                    }
                    at = uniform.next;
                }
                _ => break,
            }
        }
        if !characters::has_letters(atoms) {
            return Ok(None);
        }
        let (chain, leaves) = self.chain(id, atoms)?;
        let points = match chain {
            Chain::Endless => None,
            Chain::Ends(points) => Some(points),
            Chain::Mixed => return Ok(None),
        };
        let leaves = leaves && points.is_some();
        Ok(self.shared.slice(&self.vocabulary, atoms).map(|slice| Sliced { slice, atoms, points, leaves }))
    }

    /// Tokens with the same bytes are allowed together; walks see only one of them.
    fn align_twins(&self, mask: &mut TokenSet) {
        for &(first, twin) in self.vocabulary.twins() {
            if mask.contains(first) {
                mask.insert(twin);
            } else {
                mask.remove(twin);
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
}
