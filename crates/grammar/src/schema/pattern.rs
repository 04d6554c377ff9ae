//! ECMA 262 regular expressions as JSON Schema means them: Unicode, unanchored unless anchored. Knows no automaton.
//!
//! Invariant: what parses means exactly what ECMA 262 says with the `u` flag (Annex B leniency where patterns in
//! the wild rely on it); what cannot be meant exactly is [`Refusal::Unsupported`], never approximated.

use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use super::choices::Choices;
use super::nfa::Nfa;
use super::node::{Node, Refusal};
use super::regex::Reader;

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
        self.nfa.get_or_init(|| Nfa::search(&self.node, usize::MAX)).as_ref()
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

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    fn check(pattern: &str, matches: &[&str], refuses: &[&str]) {
        let nfa = Nfa::search(&Pattern::parse(pattern, &Reader::unbounded()).unwrap().node, 100_000).unwrap();
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
            let made = Nfa::search(&parsed.node, usize::MAX).unwrap().states.len() as u64;
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
