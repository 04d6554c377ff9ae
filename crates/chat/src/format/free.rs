//! Free text that cannot hold certain substrings, as ordinary right-linear rules.
//!
//! The rules are the Aho-Corasick automaton of the substrings, one rule a state, so that they print as plain GBNF and
//! cost a parser no stack: every reference is the last thing its rule does.

use std::collections::{BTreeMap, VecDeque};

use toolgate_grammar::{Expr, GrammarBuilder, RuleId};

/// White space an answer may begin with; some vocabularies have no first word without it.
const LEADING_BLANKS: u64 = 4;
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// Defines text that is not blank, holds none of `forbidden` and whose first character is none of `not_first`; rule names
/// start with `name`.
///
/// No forbidden text may be empty or begin with a blank.
pub(crate) fn text_without(
    builder: &mut GrammarBuilder,
    name: &str,
    forbidden: &[&str],
    not_first: &[char],
) -> RuleId {
    let whole = builder.declare(name);
    let (automaton, rules) = states(builder, name, forbidden);
    let blank = Expr::class(BLANKS.map(|c| (c, c)).to_vec()).repeat(0, Some(LEADING_BLANKS));
    let not_first: Vec<char> = BLANKS.iter().chain(not_first).copied().collect();
    let first = automaton.step(0, &rules, &not_first);
    builder.define(whole, Expr::sequence([blank, first]));
    whole
}

/// Defines any text, the empty one too, that holds none of `forbidden`.
pub(crate) fn any_text_without(builder: &mut GrammarBuilder, name: &str, forbidden: &[&str]) -> Expr {
    let (_, rules) = states(builder, name, forbidden);
    rules.first().copied().flatten().map_or_else(Expr::empty, Expr::Rule)
}

/// The automaton of `forbidden`, and a rule for each of its states that is still text.
fn states(builder: &mut GrammarBuilder, name: &str, forbidden: &[&str]) -> (Automaton, Vec<Option<RuleId>>) {
    let automaton = Automaton::new(forbidden);
    let rules: Vec<Option<RuleId>> = automaton
        .states
        .iter()
        .map(|state| (!state.dead).then(|| builder.declare(&format!("{name}-text"))))
        .collect();
    for (state, rule) in rules.iter().enumerate() {
        if let Some(rule) = rule {
            let more = automaton.step(state, &rules, &[]);
            builder.define(*rule, Expr::choice([Expr::empty(), more]));
        }
    }
    (automaton, rules)
}

#[derive(Debug, Default)]
struct State {
    /// Every character that leads anywhere but the start, failure links already followed.
    next: BTreeMap<char, usize>,
    fail: usize,
    /// A forbidden text ends here.
    dead: bool,
}

#[derive(Debug)]
struct Automaton {
    states: Vec<State>,
}

#[allow(
    clippy::indexing_slicing,
    reason = "every index is a state's own number: states are only ever appended, and links point to existing ones"
)]
impl Automaton {
    fn new(words: &[&str]) -> Self {
        let mut states = vec![State::default()];
        for word in words.iter().filter(|word| !word.is_empty()) {
            let mut at = 0;
            for c in word.chars() {
                at = match states[at].next.get(&c) {
                    Some(&next) => next,
                    None => {
                        states.push(State::default());
                        let new = states.len() - 1;
                        states[at].next.insert(c, new);
                        new
                    }
                };
            }
            states[at].dead = true;
        }
        // Breadth first: a state's failure link is nearer the start, so its transitions are already complete.
        let mut queue: VecDeque<usize> = states[0].next.values().copied().collect();
        while let Some(at) = queue.pop_front() {
            let fail = states[at].fail;
            for (c, child) in states[at].next.clone() {
                states[child].fail = states[fail].next.get(&c).copied().unwrap_or(0);
                queue.push_back(child);
            }
            states[at].dead |= states[fail].dead;
            for (c, target) in states[fail].next.clone() {
                states[at].next.entry(c).or_insert(target);
            }
        }
        Self { states }
    }

    /// One more character, none of `without`, and then the rule of the state it leads to.
    fn step(&self, state: usize, rules: &[Option<RuleId>], without: &[char]) -> Expr {
        let next = &self.states[state].next;
        let mut by_target: BTreeMap<RuleId, Vec<(char, char)>> = BTreeMap::new();
        for (&c, &target) in next.iter().filter(|(c, _)| !without.contains(c)) {
            if let Some(rule) = rules[target] {
                by_target.entry(rule).or_default().push((c, c));
            }
        }
        let elsewhere: Vec<(char, char)> = next.keys().chain(without).map(|&c| (c, c)).collect();
        let others = if elsewhere.is_empty() { Expr::Any } else { Expr::not_class(elsewhere) };
        let mut alternatives = Vec::new();
        alternatives.extend(rules[0].map(|start| Expr::sequence([others, Expr::Rule(start)])));
        for (rule, chars) in by_target {
            alternatives.push(Expr::sequence([Expr::class(chars), Expr::Rule(rule)]));
        }
        Expr::choice(alternatives)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;
    use toolgate_grammar::Grammar;
    use toolgate_grammar::gbnf::CharClass;

    use super::*;

    /// Runs right-linear rules over a text by following every alternative: slow and plain.
    fn accepts(grammar: &Grammar, text: &str) -> bool {
        fn class_has(class: &CharClass, c: char) -> bool {
            class.ranges.iter().any(|&(a, b)| (a..=b).contains(&(c as u32))) != class.negated
        }
        fn run(grammar: &Grammar, parts: &[Expr], text: &[char]) -> bool {
            let Some((first, rest)) = parts.split_first() else { return text.is_empty() };
            match first {
                Expr::Choice(alternatives) => alternatives.iter().any(|alternative| {
                    let mut parts = vec![alternative.clone()];
                    parts.extend_from_slice(rest);
                    run(grammar, &parts, text)
                }),
                Expr::Sequence(items) => {
                    let mut parts = items.clone();
                    parts.extend_from_slice(rest);
                    run(grammar, &parts, text)
                }
                Expr::Rule(id) => {
                    let mut parts = vec![grammar.rule(*id).unwrap().body.clone()];
                    parts.extend_from_slice(rest);
                    run(grammar, &parts, text)
                }
                Expr::Repeat { item, max, .. } => {
                    let Expr::Class(class) = item.as_ref() else { panic!("only classes repeat here") };
                    let longest = max.unwrap_or(u64::MAX).min(text.len() as u64) as usize;
                    (0..=longest)
                        .take_while(|&n| text[..n].iter().all(|&c| class_has(class, c)))
                        .any(|n| run(grammar, rest, &text[n..]))
                }
                Expr::Any => text.split_first().is_some_and(|(_, text)| run(grammar, rest, text)),
                Expr::Class(class) => text
                    .split_first()
                    .is_some_and(|(&c, text)| class_has(class, c) && run(grammar, rest, text)),
                other => panic!("unexpected {other:?}"),
            }
        }
        let chars: Vec<char> = text.chars().collect();
        run(grammar, &[Expr::Rule(grammar.root())], &chars)
    }

    fn grammar(forbidden: &[&str]) -> Grammar {
        let mut builder = Grammar::builder();
        let root = text_without(&mut builder, "root", forbidden, &[]);
        builder.build(root).unwrap()
    }

    #[test]
    fn refuses_exactly_what_holds_a_marker() {
        let tags = grammar(&["<tool_call>", "</tool_call>"]);
        for accepted in
            ["a", "<", "<<tool_call", "tool_call>", "<tool-call>", " x", "\n\nx", "é\n", "<tool_<tool_cal"]
        {
            assert!(accepts(&tags, accepted), "{accepted:?}");
        }
        for refused in [
            "",
            " ",
            "\n",
            "<tool_call>",
            "x <tool_call> y",
            "<<tool_call>",
            "<tool_<tool_call>",
            "</tool_call>",
        ] {
            assert!(!accepts(&tags, refused), "{refused:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn agrees_with_a_search_for_the_substrings(
            words in proptest::collection::vec("[ab]{1,4}", 0..4),
            text in "[abc ]{0,12}",
        ) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let trimmed = text.trim_start();
            let expected = !trimmed.is_empty()
                && text.len() - trimmed.len() <= LEADING_BLANKS as usize
                && !words.iter().any(|word| text.contains(word));
            prop_assert_eq!(accepts(&grammar(&words), &text), expected);
        }
    }
}
