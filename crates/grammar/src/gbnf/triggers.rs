//! Free text in which markers begin what a grammar describes: for formats whose answers and calls alternate.
//!
//! The text becomes ordinary right-linear rules, one for each set of markers that may be under way, so that it prints
//! as plain GBNF, costs a parser no stack, and is masked, forced and completed like any other grammar: a marker split
//! over tokens, or a token that holds the end of one and the beginning of what follows, needs no code of its own.
//! Invariant: a text matches in one way only, each marker counting where its last character is read.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::{CharClass, Expr, GrammarBuilder, RuleId, TokenMatch, TokenName};
use crate::{Error, Kind, Limits};

/// What begins a part of a text that is not free.
///
/// ```
/// use toolgate_grammar::gbnf::{Marker, Trigger, Triggers};
/// use toolgate_grammar::{Expr, Grammar, Limits};
/// let mut builder = Grammar::builder();
/// let then = builder.rule("empty-call", Expr::literal("()"));
/// let triggers = vec![Trigger { marker: Marker::Word("run".to_owned()), then }];
/// let root = Triggers { triggers, ..Triggers::default() }.define(&mut builder, "root")?;
/// let grammar = builder.build(root)?;
/// let matches = |text: &str| grammar.match_text(text, &Limits::default()).map(|outcome| outcome.matched);
/// assert!(matches("It runs, then run()")? && !matches("I run it")?);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Marker {
    /// This text, wherever it stands, and however tokens cut it.
    Text(String),
    /// This text where it begins a word: not right behind a letter, a digit, `_` or anything beyond ASCII. Right in
    /// front of one of these it is part of a longer word and free text still, so what follows the marker had better
    /// begin with something else.
    Word(String),
    /// This token. Its name spelled out is free text.
    Token(TokenName),
}

/// A marker, and what must follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// What begins it.
    pub marker: Marker,
    /// What follows the marker, which is not part of it.
    pub then: RuleId,
}

/// A stretch of text, such as reasoning, in which no trigger counts.
///
/// ```
/// use toolgate_grammar::gbnf::{Hidden, Marker, Trigger, Triggers};
/// use toolgate_grammar::{Expr, Grammar, Limits};
/// let text = |text: &str| Marker::Text(text.to_owned());
/// let mut builder = Grammar::builder();
/// let then = builder.rule("digit", Expr::class([('0', '9')]));
/// let triggers = vec![Trigger { marker: text("#"), then }];
/// let hidden = vec![Hidden { open: text("<think>"), close: text("</think>") }];
/// let root = Triggers { triggers, hidden, ..Triggers::default() }.define(&mut builder, "root")?;
/// assert!(builder.build(root)?.match_text("<think>#?</think>#1", &Limits::default())?.matched);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// What begins it.
    pub open: Marker,
    /// What ends it. The text may end before.
    pub close: Marker,
}

/// What may come when the part after a marker is whole.
///
/// ```
/// use toolgate_grammar::gbnf::{After, Marker, Trigger, Triggers};
/// use toolgate_grammar::{Expr, Grammar, Limits};
/// let mut builder = Grammar::builder();
/// let then = builder.rule("digit", Expr::class([('0', '9')]));
/// let triggers = vec![Trigger { marker: Marker::Text("#".to_owned()), then }];
/// let root = Triggers { triggers, after: After::End, ..Triggers::default() }.define(&mut builder, "root")?;
/// let grammar = builder.build(root)?;
/// assert!(grammar.match_text("It is #1", &Limits::default())?.matched);
/// assert!(!grammar.match_text("#1 it is", &Limits::default())?.matched);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum After {
    /// More free text, and more triggers.
    #[default]
    Text,
    /// Nothing.
    End,
}

/// Free text with triggers in it.
///
/// ```
/// use toolgate_grammar::gbnf::{After, Marker, Trigger, Triggers};
/// use toolgate_grammar::{Expr, Grammar, Limits};
/// let mut builder = Grammar::builder();
/// let digits = Expr::class([('0', '9')]).repeat(1, None);
/// let call = builder.rule("call", Expr::sequence([digits, Expr::literal("</add>")]));
/// let triggers = Triggers {
///     triggers: vec![Trigger { marker: Marker::Text("<add>".into()), then: call }],
///     ..Triggers::default()
/// };
/// let root = triggers.define(&mut builder, "root")?;
/// let grammar = builder.build(root)?;
/// let matches = |text: &str| grammar.match_text(text, &Limits::default()).map(|outcome| outcome.matched);
/// assert!(matches("So I <add>12</add> and then <ad something <add>3</add>")?);
/// assert!(!matches("So I <add>twelve</add>")?);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Triggers {
    /// The markers that count.
    pub triggers: Vec<Trigger>,
    /// Where they do not.
    pub hidden: Vec<Hidden>,
    /// What may come after the part that a marker began. Default: more text.
    pub after: After,
}

impl Triggers {
    /// Defines the text in `builder`; its rules' names start with `name`. It may be empty, and end anywhere but
    /// between a marker and the end of what the marker began.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] for an empty marker, and for two that begin something with the same text or token;
    /// [`Kind::Limit`] for more markers than the default of [`Limits::work`](crate::Limits::work) is enough for.
    pub fn define(&self, builder: &mut GrammarBuilder, name: &str) -> Result<RuleId, Error> {
        self.check()?;
        let mut modes = vec![Mode::default()];
        for trigger in &self.triggers {
            add(&mut modes, 0, &trigger.marker, Target::Rule(trigger.then));
        }
        for (index, hidden) in self.hidden.iter().enumerate() {
            modes.push(Mode::default());
            add(&mut modes, 0, &hidden.open, Target::Mode(index + 1));
            add(&mut modes, index + 1, &hidden.close, Target::Mode(0));
        }
        let mut building = Building {
            builder,
            name,
            modes: &modes,
            after: self.after,
            rules: FxHashMap::default(),
            open: Vec::new(),
            work: 0,
        };
        let limit = Limits::default().work;
        let start = building.state(State::default());
        while let Some((state, rule)) = building.open.pop() {
            let body = building.body(&state);
            building.builder.define(rule, body);
            if building.work > limit {
                let message = format!("the markers take more than {limit} steps");
                return Err(Error::new(Kind::Limit, message).hint("use fewer markers, or shorter ones"));
            }
        }
        Ok(start)
    }

    fn check(&self) -> Result<(), Error> {
        let opens = self
            .triggers
            .iter()
            .map(|trigger| &trigger.marker)
            .chain(self.hidden.iter().map(|hidden| &hidden.open));
        let mut seen = BTreeSet::new();
        for marker in opens {
            let new = match marker {
                Marker::Text(text) | Marker::Word(text) => seen.insert(format!("text {text:?}")),
                Marker::Token(name) => seen.insert(format!("token {name:?}")),
            };
            if !new {
                return Err(Error::new(Kind::Unsupported, format!("{marker:?} begins two different things")));
            }
        }
        let all =
            self.hidden.iter().map(|hidden| &hidden.close).chain(self.triggers.iter().map(|t| &t.marker));
        let all = all.chain(self.hidden.iter().map(|hidden| &hidden.open));
        for marker in all {
            if matches!(marker, Marker::Text(text) | Marker::Word(text) if text.is_empty()) {
                return Err(Error::new(Kind::Unsupported, "a marker is empty"));
            }
        }
        Ok(())
    }
}

/// Where a marker leads.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// To what it begins.
    Rule(RuleId),
    /// Into another kind of free text.
    Mode(usize),
}

/// The markers that count in one kind of free text.
#[derive(Debug, Default)]
struct Mode {
    texts: Vec<(Vec<char>, bool, Target)>,
    tokens: Vec<(TokenName, Target)>,
    /// Texts by their first character.
    starts: BTreeMap<char, Vec<usize>>,
    /// Characters that some marker has; all others differ at most in being part of a word.
    special: BTreeSet<char>,
    /// Whether a text has to begin a word.
    cares: bool,
}

fn add(modes: &mut [Mode], mode: usize, marker: &Marker, target: Target) {
    let Some(mode) = modes.get_mut(mode) else { return };
    let (text, word) = match marker {
        Marker::Text(text) => (text, false),
        Marker::Word(text) => (text, true),
        Marker::Token(name) => return mode.tokens.push((name.clone(), target)),
    };
    if let Some(first) = text.chars().next() {
        mode.starts.entry(first).or_default().push(mode.texts.len());
    }
    mode.special.extend(text.chars());
    mode.cares |= word;
    mode.texts.push((text.chars().collect(), word, target));
}

/// What is known of the text so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    mode: usize,
    /// Markers under way, each with how many of its characters are there.
    begun: BTreeSet<(usize, usize)>,
    /// Whether the last character is part of a word; known only where a marker cares.
    in_word: bool,
    /// A marker that is whole, and counts unless a word goes on.
    whole: Option<usize>,
}

struct Building<'a> {
    builder: &'a mut GrammarBuilder,
    name: &'a str,
    modes: &'a [Mode],
    after: After,
    rules: FxHashMap<State, RuleId>,
    /// States whose rules have no body yet.
    open: Vec<(State, RuleId)>,
    /// Markers looked at so far, each with a character.
    work: usize,
}

impl Building<'_> {
    fn state(&mut self, state: State) -> RuleId {
        if let Some(&rule) = self.rules.get(&state) {
            return rule;
        }
        let name = if self.rules.is_empty() { self.name.to_owned() } else { format!("{}-text", self.name) };
        let rule = self.builder.declare(&name);
        self.rules.insert(state.clone(), rule);
        self.open.push((state, rule));
        rule
    }

    /// Everything that may follow in a state.
    fn body(&mut self, state: &State) -> Expr {
        let modes = self.modes;
        let Some(mode) = modes.get(state.mode) else { return Expr::empty() };
        let Mode { texts, tokens, special, cares, .. } = mode;
        let cares = *cares;
        let mut alternatives = Vec::new();
        let mut by_end: BTreeMap<RuleId, Vec<(u32, u32)>> = BTreeMap::new();
        if let Some((_, _, target)) = state.whole.and_then(|whole| texts.get(whole)) {
            alternatives.push(self.follow(*target));
        } else {
            alternatives.push(Expr::empty());
            self.work += tokens.len();
            for (name, target) in tokens {
                let token = Expr::Token(TokenMatch { negated: false, name: name.clone() });
                alternatives.push(Expr::sequence([token, self.follow(*target)]));
            }
        }
        for &c in special {
            // After a whole word-marker only the rest of a longer word is free text.
            if state.whole.is_some() && !is_word(c) {
                continue;
            }
            match self.step(state, mode, Some(c), is_word(c)) {
                Step::Text(rule) => by_end.entry(rule).or_default().push((u32::from(c), u32::from(c))),
                Step::Marker(target) => {
                    let character = Expr::literal(c);
                    alternatives.push(Expr::sequence([character, self.follow(target)]));
                }
            }
        }
        for (rule, ranges) in by_end {
            alternatives
                .push(Expr::sequence([Expr::Class(CharClass { negated: false, ranges }), Expr::Rule(rule)]));
        }
        let others = |word: bool| others(special, word);
        let kinds: &[(CharClass, bool)] = match (state.whole.is_some(), cares) {
            (true, _) => &[(others(true), true)],
            (false, true) => &[(others(true), true), (others(false), false)],
            (false, false) => &[(all_but(special), false)],
        };
        for (class, word) in kinds {
            if let Step::Text(rule) = self.step(state, mode, None, *word) {
                let any = class.negated && class.ranges.is_empty();
                let character = if any { Expr::Any } else { Expr::Class(class.clone()) };
                alternatives.push(Expr::sequence([character, Expr::Rule(rule)]));
            }
        }
        Expr::choice(alternatives)
    }

    /// Where a character leads; `None` stands for one that no marker has.
    fn step(&mut self, state: &State, mode: &Mode, c: Option<char>, word: bool) -> Step {
        let Mode { texts, cares, .. } = mode;
        let goes_on = |index: usize, at: usize| {
            texts.get(index).is_some_and(|(text, ..)| c.is_some() && text.get(at) == c.as_ref())
        };
        let starts = c.and_then(|c| mode.starts.get(&c)).map(Vec::as_slice).unwrap_or_default();
        self.work += 1 + state.begun.len() + starts.len();
        let begins = starts
            .iter()
            .filter(|index| texts.get(**index).is_some_and(|(_, word, _)| !(*word && state.in_word)))
            .map(|index| (*index, 0));
        let begun: BTreeSet<(usize, usize)> = state
            .begun
            .iter()
            .copied()
            .chain(begins)
            .filter(|&(index, at)| goes_on(index, at))
            .map(|(index, at)| (index, at + 1))
            .collect();
        let length = |index: usize| texts.get(index).map_or(0, |(text, ..)| text.len());
        // Of several that end here the longest counts.
        let whole = begun.iter().filter(|(index, at)| *at == length(*index)).max_by_key(|(_, at)| *at);
        match whole.and_then(|(index, _)| Some((*index, texts.get(*index)?))) {
            // Whether a word goes on shows only if the marker ends in one.
            Some((index, (_, true, _))) if word => {
                Step::Text(self.state(State { begun, in_word: true, whole: Some(index), mode: state.mode }))
            }
            Some((_, (_, _, target))) => Step::Marker(*target),
            None => Step::Text(self.state(State {
                begun,
                in_word: word && *cares,
                whole: None,
                mode: state.mode,
            })),
        }
    }

    /// What a marker leads to.
    fn follow(&mut self, target: Target) -> Expr {
        match (target, self.after) {
            (Target::Rule(rule), After::End) => Expr::Rule(rule),
            (Target::Rule(rule), After::Text) => {
                let start = self.state(State::default());
                Expr::sequence([Expr::Rule(rule), Expr::Rule(start)])
            }
            (Target::Mode(mode), _) => Expr::Rule(self.state(State { mode, ..State::default() })),
        }
    }
}

/// Where a character of free text leads.
enum Step {
    Text(RuleId),
    Marker(Target),
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()
}

/// The characters but `special` that are part of a word, or those that are not.
fn others(special: &BTreeSet<char>, word: bool) -> CharClass {
    let ascii = ('\0'..='\x7f').filter(|c| is_word(*c) == word && !special.contains(c));
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for c in ascii.map(u32::from) {
        match ranges.last_mut() {
            Some((_, high)) if *high + 1 == c => *high = c,
            _ => ranges.push((c, c)),
        }
    }
    if word {
        let mut low = 0x80;
        for c in special.iter().copied().filter(|c| !c.is_ascii()).map(u32::from) {
            if low < c {
                ranges.push((low, c - 1));
            }
            low = c + 1;
        }
        ranges.push((low, u32::from(char::MAX)));
    }
    CharClass { negated: false, ranges }
}

fn all_but(special: &BTreeSet<char>) -> CharClass {
    CharClass { negated: true, ranges: special.iter().map(|c| (u32::from(*c), u32::from(*c))).collect() }
}
