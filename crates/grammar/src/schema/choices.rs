//! The texts a string may be, as a deterministic automaton over code points. Above `extension`: what the state of the
//! world leaves of a parameter is said by a keyword of one's own, such as names that exist, or pieces of a file.
//!
//! Invariant: a state's edges are sorted and apart.

use std::collections::BTreeMap;

use super::extension::Texts;
use super::node::complement;

/// Code points of all listed texts and beginnings; each may become a state.
const LISTED: usize = 200_000;
/// Code points of a text whose pieces are choices; its automaton has at most two states for each.
const PIECED: usize = 32_768;
/// What a listed beginning does not go on with: line ends and what JSON escapes.
const NOT_BEHIND: [(u32, u32); 4] = [(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C), (0x7F, 0x7F)];

/// First and last code point, and the state they lead to, each.
pub(crate) type Edges = Vec<(u32, u32, u32)>;

/// A state: whether a text may end here, and where each code point leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) accepts: bool,
    pub(crate) edges: Edges,
}

/// The automaton; state 0 is the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choices {
    pub(crate) states: Vec<State>,
}

/// There are more texts than are made into an automaton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

impl Choices {
    pub(crate) fn of(texts: &Texts<'_>) -> Result<Self, TooLarge> {
        match texts {
            Texts::Among { texts, beginnings } => Self::listed(texts, beginnings),
            Texts::OnceIn(text) => Self::once_in(text),
        }
    }

    /// These texts, and all that go on from one of these beginnings.
    fn listed(texts: &[&str], beginnings: &[&str]) -> Result<Self, TooLarge> {
        let lists = || texts.iter().chain(beginnings);
        if lists().map(|text| text.len()).sum::<usize>() > LISTED {
            return Err(TooLarge);
        }
        let mut tree = Tree { children: vec![BTreeMap::new()], accepts: vec![false] };
        let mut open = Vec::new();
        for text in beginnings {
            open.extend(tree.add(text));
        }
        for text in texts {
            if let Some(end) = tree.add(text)
                && let Some(accepts) = tree.accepts.get_mut(end as usize)
            {
                *accepts = true;
            }
        }
        Ok(tree.finish(&open))
    }

    /// The pieces of `text` that occur once in it, overlapping occurrences counted: its suffix automaton. Whatever
    /// occurs more often is the beginning of a longer piece that occurs once, so no state is a dead end.
    fn once_in(text: &str) -> Result<Self, TooLarge> {
        if text.chars().take(PIECED + 1).count() > PIECED {
            return Err(TooLarge);
        }
        let mut automaton = Suffixes::new();
        for c in text.chars() {
            automaton.push(c as u32);
        }
        Ok(automaton.finish())
    }

    /// Whether it holds this text.
    pub(crate) fn holds(&self, text: &str) -> bool {
        let mut at = 0_usize;
        for c in text.chars() {
            let Some(state) = self.states.get(at) else { return false };
            let after = state.edges.partition_point(|(low, ..)| *low <= c as u32);
            match after.checked_sub(1).and_then(|i| state.edges.get(i)) {
                Some((_, high, to)) if c as u32 <= *high => at = *to as usize,
                _ => return false,
            }
        }
        self.states.get(at).is_some_and(|state| state.accepts)
    }
}

/// Texts by their common beginnings.
struct Tree {
    children: Vec<BTreeMap<u32, u32>>,
    accepts: Vec<bool>,
}

impl Tree {
    /// The node of a text.
    fn add(&mut self, text: &str) -> Option<u32> {
        let mut at = 0_u32;
        for c in text.chars() {
            let next = u32::try_from(self.children.len()).ok()?;
            at = *self.children.get_mut(at as usize)?.entry(c as u32).or_insert(next);
            if at == next {
                self.children.push(BTreeMap::new());
                self.accepts.push(false);
            }
        }
        Some(at)
    }

    /// Nodes in `open` go on with anything, and so does every node below them, where a listed text has led.
    fn finish(mut self, open: &[u32]) -> Choices {
        let any = u32::try_from(self.children.len()).unwrap_or(u32::MAX);
        let behind: Edges = complement(&NOT_BEHIND).into_iter().map(|(low, high)| (low, high, any)).collect();
        let mut goes_on = vec![false; self.children.len()];
        let mut queue = open.to_vec();
        while let Some(node) = queue.pop() {
            let Some(seen @ false) = goes_on.get_mut(node as usize) else { continue };
            *seen = true;
            for (code, to) in self.children.get(node as usize).into_iter().flatten() {
                if behind.iter().any(|(low, high, _)| (*low..=*high).contains(code)) {
                    queue.push(*to);
                    if let Some(accepts) = self.accepts.get_mut(*to as usize) {
                        *accepts = true;
                    }
                }
            }
        }
        let mut states: Vec<State> = Vec::with_capacity(self.children.len() + 1);
        for ((children, accepts), goes_on) in self.children.into_iter().zip(self.accepts).zip(goes_on) {
            let own: Edges = children.into_iter().map(|(code, to)| (code, code, to)).collect();
            states.push(State { accepts, edges: if goes_on { merged(own, &behind) } else { own } });
        }
        states.push(State { accepts: true, edges: behind });
        Choices { states }
    }
}

/// The single code points of `own`, and of `rest` all others.
fn merged(mut own: Edges, rest: &Edges) -> Edges {
    let mut others = Vec::new();
    for (low, high, to) in rest {
        let mut from = *low;
        for (code, ..) in own.iter().filter(|(code, ..)| (*low..=*high).contains(code)) {
            if *code > from {
                others.push((from, code - 1, *to));
            }
            from = code + 1;
        }
        if from <= *high {
            others.push((from, *high, *to));
        }
    }
    own.extend(others);
    own.sort_unstable();
    own
}

/// A suffix automaton being built (Blumer et al. 1985).
struct Suffixes {
    states: Vec<Suffix>,
    last: u32,
}

/// The pieces that end at the same places.
#[derive(Clone)]
struct Suffix {
    /// Length of the longest of them.
    len: u32,
    /// The state of its longest ending that ends elsewhere, too.
    link: Option<u32>,
    next: BTreeMap<u32, u32>,
    /// How often they occur.
    count: u32,
}

#[allow(
    clippy::indexing_slicing,
    reason = "every index is a state's own number: states are only ever appended, and links point to existing ones"
)]
impl Suffixes {
    fn new() -> Self {
        Self { states: vec![Suffix { len: 0, link: None, next: BTreeMap::new(), count: 0 }], last: 0 }
    }

    fn add(&mut self, state: Suffix) -> u32 {
        self.states.push(state);
        // At most two states for each of a bounded number of code points.
        u32::try_from(self.states.len() - 1).unwrap_or(u32::MAX)
    }

    fn push(&mut self, code: u32) {
        let len = self.states[self.last as usize].len + 1;
        let new = self.add(Suffix { len, link: Some(0), next: BTreeMap::new(), count: 1 });
        let mut at = Some(self.last);
        self.last = new;
        while let Some(state) = at
            && !self.states[state as usize].next.contains_key(&code)
        {
            self.states[state as usize].next.insert(code, new);
            at = self.states[state as usize].link;
        }
        let Some(state) = at else { return };
        let next = self.states[state as usize].next[&code];
        let len = self.states[state as usize].len + 1;
        if self.states[next as usize].len == len {
            self.states[new as usize].link = Some(next);
            return;
        }
        let copy = Suffix { len, count: 0, ..self.states[next as usize].clone() };
        let copy = self.add(copy);
        let mut at = Some(state);
        while let Some(state) = at
            && self.states[state as usize].next.get(&code) == Some(&next)
        {
            self.states[state as usize].next.insert(code, copy);
            at = self.states[state as usize].link;
        }
        self.states[next as usize].link = Some(copy);
        self.states[new as usize].link = Some(copy);
    }

    fn finish(mut self) -> Choices {
        let mut order: Vec<usize> = (1..self.states.len()).collect();
        order.sort_unstable_by_key(|state| std::cmp::Reverse(self.states[*state].len));
        for state in order {
            let count = self.states[state].count;
            if let Some(link) = self.states[state].link {
                self.states[link as usize].count += count;
            }
        }
        let states = self.states.into_iter().map(|state| State {
            // The empty piece is the start alone, and is no choice.
            accepts: state.len > 0 && state.count == 1,
            edges: state.next.into_iter().map(|(code, to)| (code, code, to)).collect(),
        });
        Choices { states: states.collect() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    fn among(texts: &[String], beginnings: &[String]) -> Result<Choices, TooLarge> {
        let texts = texts.iter().map(String::as_str).collect();
        Choices::of(&Texts::Among { texts, beginnings: beginnings.iter().map(String::as_str).collect() })
    }

    fn occurrences(text: &str, piece: &str) -> usize {
        text.char_indices().filter(|(at, _)| text[*at..].starts_with(piece)).count()
    }

    fn goes_on(text: &str, beginning: &str) -> bool {
        let banned = |c: char| c.is_ascii_control() || c == '"' || c == '\\';
        text.strip_prefix(beginning).is_some_and(|rest| !rest.is_empty() && !rest.contains(banned))
    }

    proptest! {
        #[test]
        fn pieces_are_those_that_occur_once(text in "[ab\n\"é]{0,12}", others in prop::collection::vec("[ab\n\"é]{0,5}", 20)) {
            let choices = Choices::of(&Texts::OnceIn(&text)).unwrap();
            prop_assert!(choices.states.len() <= 2 * text.chars().count() + 1);
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let pieces = ends.iter().flat_map(|from| ends.iter().map(move |to| (*from, *to)));
            for piece in pieces.filter_map(|(from, to)| text.get(from..to)).chain(others.iter().map(String::as_str)) {
                let once = !piece.is_empty() && occurrences(&text, piece) == 1;
                prop_assert_eq!(choices.holds(piece), once, "{:?} in {:?}", piece, text);
            }
        }

        #[test]
        fn lists_hold_their_texts_and_what_goes_on_from_beginnings(
            texts in prop::collection::vec("[a-c/\"]{0,4}", 0..8),
            beginnings in prop::collection::vec("[a-c/]{0,3}", 0..4),
            others in prop::collection::vec("[a-c/\"\n]{0,6}", 30),
        ) {
            let choices = among(&texts, &beginnings).unwrap();
            for text in texts.iter().chain(&beginnings).chain(&others) {
                let held = texts.contains(text) || beginnings.iter().any(|b| goes_on(text, b));
                prop_assert_eq!(choices.holds(text), held, "{:?} of {:?} {:?}", text, texts, beginnings);
            }
        }
    }

    #[test]
    fn edges_are_sorted_and_apart() {
        let (texts, beginnings) = (vec!["a/b", "a\"", "é"], vec!["a", "a/", ""]);
        let choices = Choices::of(&Texts::Among { texts, beginnings }).unwrap();
        for state in &choices.states {
            assert!(state.edges.is_sorted_by(|a, b| a.1 < b.0), "{state:?}");
        }
    }

    #[test]
    fn what_is_too_large_is_refused_and_a_little_less_is_not() {
        let text = "ab".repeat(PIECED / 2);
        assert!(Choices::of(&Texts::OnceIn(&text)).is_ok());
        assert_eq!(Choices::of(&Texts::OnceIn(&format!("{text}c"))), Err(TooLarge));
        let texts = |n: usize| (0..n).map(|i| format!("file-{i:07}.txt")).collect::<Vec<_>>();
        assert!(among(&texts(LISTED / 16), &[]).is_ok());
        assert_eq!(among(&texts(LISTED / 16 + 1), &[]), Err(TooLarge));
    }
}
