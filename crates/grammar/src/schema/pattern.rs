//! ECMA 262 regular expressions as JSON Schema means them: Unicode, unanchored unless anchored. Knows no automaton.
//!
//! Invariant: what parses means exactly what ECMA 262 says with the `u` flag (Annex B leniency where patterns in
//! the wild rely on it); what cannot be meant exactly is [`Refusal::Unsupported`], never approximated.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use super::choices::Choices;
use super::nfa::Nfa;
use super::regex::Reader;
use crate::work::items;

/// A parsed pattern, or a list of choices; equal ones have the same source.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) source: String,
    /// Matches nothing where there are choices.
    pub(crate) node: Node,
    /// The texts themselves, as an automaton that needs no making.
    pub(crate) choices: Option<Choices>,
    /// States of the automaton before it is determinized, which is known without making it.
    pub(crate) states: u64,
    /// The steps it takes to go through it as it is written.
    pub(crate) size: u64,
    /// Made when first asked for: some patterns are only written out.
    nfa: OnceLock<Option<Nfa>>,
}

/// Inclusive ranges of code points, sorted and apart. Patterns repeat a few of them, which they share.
pub(crate) type Ranges = Arc<[(u32, u32)]>;

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.choices.is_some() == other.choices.is_some()
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.source.hash(state);
    }
}

/// An element of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// One code point of these inclusive ranges, sorted and apart.
    Class(Ranges),
    /// One after the other. What is empty is no item, and is not repeated, so that each of them takes a state.
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat {
        item: Box<Node>,
        min: u32,
        max: Option<u32>,
    },
    Look(Look),
}

/// A condition on a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Look {
    Start,
    End,
    WordEdge,
    NotWordEdge,
}

/// Why a pattern is not one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Not a regular expression.
    Malformed(String),
    /// A regular expression that no finite automaton of ours stands for.
    Unsupported(&'static str),
}

/// All of Unicode but the surrogates.
pub(crate) const ANY: [(u32, u32); 2] = [(0, 0xD7FF), (0xE000, 0x10FFFF)];
pub(crate) const WORD: [(u32, u32); 4] = [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)];
/// States for what may stand before and behind.
const AROUND: u64 = 5;
/// States of a pattern before it is determinized.
pub(crate) const NFA_STATES: u64 = 80_000;
/// States of a pattern that texts are matched with as they are.
const MATCH_STATES: u64 = 20_000;

impl Pattern {
    /// Reads a pattern.
    pub(crate) fn parse(source: &str, reader: &Reader<'_>) -> Result<Self, Refusal> {
        Ok(Self::new(source.to_owned(), reader.read(source)?, None))
    }

    /// The texts that are among `choices`, written as `source`.
    pub(crate) fn among(choices: Choices, source: String) -> Self {
        Self::new(source, Node::Class([].into()), Some(choices))
    }

    /// The texts in which `text` is found anywhere.
    pub(crate) fn literal(text: &str) -> Self {
        let one = |c: char| Node::Class([(c as u32, c as u32)].into());
        Self::new(text.to_owned(), Node::Sequence(text.chars().map(one).collect()), None)
    }

    fn new(source: String, node: Node, choices: Option<Choices>) -> Self {
        let states = node.states().saturating_add(AROUND);
        let edges = |choices: &Choices| choices.states.iter().map(|state| state.edges.len() as u64 + 1).sum();
        let size = choices.as_ref().map_or_else(|| node.size(), edges);
        Self { source, node, choices, states, size, nfa: OnceLock::new() }
    }

    /// The texts in which it is found anywhere; none if that takes too many states.
    pub(crate) fn nfa(&self) -> Option<&Nfa> {
        if self.states > NFA_STATES {
            return None;
        }
        self.nfa.get_or_init(|| Nfa::search(self, usize::MAX)).as_ref()
    }

    /// Whether it is found in a text, and the steps it took to find that out; none if that takes more than `most`, or
    /// there are too many states to run a text through.
    pub(crate) fn is_match(&self, text: &str, most: u64) -> (Option<bool>, u64) {
        if let Some(choices) = &self.choices {
            return (Some(choices.holds(text)), text.len() as u64);
        }
        if self.states > MATCH_STATES {
            return (None, 1);
        }
        self.nfa().map_or((None, 1), |nfa| nfa.is_match(text, most))
    }
}

/// The same set as sorted ranges that neither touch nor hold surrogates.
pub(crate) fn union(mut ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    ranges.sort_unstable();
    let mut out: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
    for (low, high) in ranges {
        match out.last_mut() {
            Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
            _ => out.push((low, high)),
        }
    }
    let mut whole = Vec::with_capacity(out.len() + 1);
    for (low, high) in out {
        for (from, to) in ANY {
            if low.max(from) <= high.min(to) {
                whole.push((low.max(from), high.min(to)));
            }
        }
    }
    whole
}

/// Every code point but those of sorted ranges.
pub(crate) fn complement(ranges: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut out = Vec::with_capacity(ranges.len() + 1);
    let mut next = 0;
    for (low, high) in ranges {
        if *low > next {
            out.push((next, low - 1));
        }
        next = high + 1;
    }
    if next <= 0x10_FFFF {
        out.push((next, 0x10_FFFF));
    }
    union(out)
}

impl Node {
    /// States that it takes in an automaton that is not determinized.
    fn states(&self) -> u64 {
        let sum = |items: &[Self]| items.iter().map(Self::states).fold(0, u64::saturating_add);
        match self {
            Self::Class(_) | Self::Look(_) => 1,
            Self::Sequence(items) => sum(items),
            Self::Choice(branches) => sum(branches).saturating_add(1),
            Self::Repeat { item, min, max } => {
                let (item, min) = (item.states(), u64::from(*min));
                let optional = match max {
                    None => item.saturating_add(1),
                    Some(max) => item.saturating_add(1).saturating_mul(u64::from(*max) - min),
                };
                item.saturating_mul(min).saturating_add(optional)
            }
        }
    }

    /// Its elements, with the ranges of classes.
    fn size(&self) -> u64 {
        match self {
            Self::Class(ranges) => items(ranges.len()),
            Self::Look(_) => 1,
            Self::Sequence(items) | Self::Choice(items) => 1 + items.iter().map(Self::size).sum::<u64>(),
            Self::Repeat { item, .. } => 1 + item.size(),
        }
    }

    /// Whether it is the empty text, as it stands.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Sequence(items) if items.is_empty())
    }

    /// The least and greatest number of code points of a text it matches by itself.
    pub(crate) fn lengths(&self) -> (u64, Option<u64>) {
        match self {
            Self::Class(_) => (1, Some(1)),
            Self::Look(_) => (0, Some(0)),
            Self::Sequence(items) => items.iter().map(Self::lengths).fold((0, Some(0)), |sum, item| {
                (sum.0.saturating_add(item.0), sum.1.zip(item.1).map(|(a, b)| a.saturating_add(b)))
            }),
            Self::Choice(branches) => {
                branches.iter().map(Self::lengths).fold((u64::MAX, Some(0)), |best, branch| {
                    (best.0.min(branch.0), best.1.zip(branch.1).map(|(a, b)| a.max(b)))
                })
            }
            Self::Repeat { item, min, max } => {
                let (least, most) = item.lengths();
                let most = match (most, max) {
                    (Some(0), _) | (_, Some(0)) => Some(0),
                    (Some(most), Some(max)) => Some(most.saturating_mul(u64::from(*max))),
                    _ => None,
                };
                (least.saturating_mul(u64::from(*min)), most)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    fn check(pattern: &str, matches: &[&str], refuses: &[&str]) {
        let nfa = Nfa::search(&Pattern::parse(pattern, &Reader::unbounded()).unwrap(), 100_000).unwrap();
        for text in matches {
            assert_eq!(nfa.is_match(text, u64::MAX).0, Some(true), "{pattern} should match {text:?}");
        }
        for text in refuses {
            assert_eq!(nfa.is_match(text, u64::MAX).0, Some(false), "{pattern} should not match {text:?}");
        }
    }

    #[test]
    fn patterns_mean_what_ecma_says() {
        check("b", &["abc", "b"], &["", "ac"]);
        check("^a|b$", &["ax", "xb", "a"], &["xa", "bx", ""]);
        check("^(a|bc)+?$", &["a", "bca"], &["", "b"]);
        check("^\\d{2,3}$", &["12", "123"], &["1", "1234", "१२"]);
        check("^\\w+$", &["a_9"], &["é", "a b"]);
        check("^\\s$", &[" ", "\u{feff}", "\u{2028}"], &["\u{85}", "a"]);
        check("^.$", &["a", "😀", "\u{85}"], &["\n", "\u{2028}", "ab"]);
        check("^[^]$", &["\n", "x"], &[""]);
        check("^[a\\-z]$", &["a", "-", "z"], &["b"]);
        check("^[\\w-.]+$", &["a-.b"], &["/"]);
        check("^[a-]$", &["a", "-"], &["b"]);
        check("^[[]&&]$", &["[&&]"], &["[", "&"]);
        check("^\\/\\u0041\\x42\\cJ\\u{1F600}\\uD83D\\uDE00$", &["/AB\n😀😀"], &["/AB\n😀"]);
        check("^x{,2}{$", &["x{,2}{"], &["xx"]);
        check("^\\p{Lu}\\P{Lu}$", &["Éa"], &["éa", "ÉA"]);
        check("\\bfoo\\b", &["a foo.", "foo"], &["foobar", "xfoo"]);
        check("^\\Boo", &[], &["oo"]);
        check("(?i)^yes$", &["YeS"], &["no"]);
        check("(?<year>^\\d+)", &["1a"], &["a"]);
        check("^(a*)*$", &["", "aaa"], &["b"]);
        check("", &["", "x"], &[]);
        check("^$", &[""], &["x", "\n"]);
        check("a$", &["ba"], &["a\n"]);
    }

    #[test]
    fn what_is_no_pattern_is_told_from_what_is_no_automaton() {
        for (pattern, supported) in [
            ("(", Some(false)),
            (")", Some(false)),
            ("[a", Some(false)),
            ("[z-a]", Some(false)),
            ("a**", Some(false)),
            ("*", Some(false)),
            ("a{3,2}", Some(false)),
            ("\\", Some(false)),
            ("\\p{Nothing}", Some(false)),
            ("(?=a)", None),
            ("(?<!a)", None),
            ("(a)\\1", None),
            ("a{9999999}", None),
        ] {
            match (Pattern::parse(pattern, &Reader::unbounded()), supported) {
                (Err(Refusal::Malformed(_)), Some(false)) | (Err(Refusal::Unsupported(_)), None) => {}
                (other, _) => panic!("{pattern}: {other:?}"),
            }
        }
    }

    #[test]
    fn states_are_known_without_the_automaton() {
        for pattern in [
            "",
            "a",
            "^a|b|$",
            "(a|bc)*d{2,5}e{3,}f{4}",
            "((a?){7}|(b{0}c)+){3}",
            "(){9}a(){0,5}",
            "(((|x)|)|y)?",
        ] {
            let parsed = Pattern::parse(pattern, &Reader::unbounded()).unwrap();
            let made = Nfa::search(&parsed, usize::MAX).unwrap().states.len() as u64;
            assert_eq!(made, parsed.states, "{pattern}");
        }
        // What is empty however often is found out at once.
        let empty = Pattern::parse("^((){1000000}){1000000}$", &Reader::unbounded()).unwrap();
        let found = |text, most| empty.is_match(text, most).0;
        assert_eq!((found("", 1_000), found("a", 1_000)), (Some(true), Some(false)));
        assert_eq!((empty.states, found("a", 0)), (2 + AROUND, None), "no steps are left for it");
    }

    #[test]
    fn deep_groups_are_refused_and_not_followed_to_the_end_of_the_stack() {
        let nested = format!("{}{}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(matches!(Pattern::parse(&nested, &Reader::unbounded()), Err(Refusal::Unsupported(_))));
    }
}
