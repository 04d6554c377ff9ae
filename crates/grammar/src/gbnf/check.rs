//! What is questionable about a grammar that parses: recursion the engine refuses, rules that nothing leads to or
//! that match nothing, classes that say something other than what was meant.
//! Invariant: a grammar without a finding of [`Severity::Error`] has no left recursion and matches something.

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

use super::analysis::{self, Classes, Cost, Flat};
use super::lex::Shown;
use super::source::Locator;
use super::{CharClass, Expr, Grammar, Parsed, RuleId};
use crate::{Error, Kind, Place};

/// How bad a [`Warning`] is.
///
/// ```
/// use toolgate_grammar::{Grammar, gbnf::Severity};
/// let usable = |grammar: &Grammar| grammar.check().iter().all(|found| found.severity < Severity::Error);
/// assert!(usable(&Grammar::parse("root ::= \"a\"\nunused ::= \"b\"\n")?));
/// assert!(!usable(&Grammar::parse("root ::= root \"a\" | \"a\"\n")?));
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The grammar can be used.
    Warning,
    /// The engine refuses the grammar.
    Error,
}

/// What a [`Warning`] is about.
///
/// ```
/// use toolgate_grammar::{Grammar, gbnf::Lint};
/// let first = |text| Grammar::parse(text).map(|grammar| grammar.check().first().map(|found| found.lint));
/// assert_eq!(first("root ::= [A-z]")?, Some(Lint::MixedRange));
/// assert_eq!(first("root ::= (\"a\"*)*")?, Some(Lint::EmptyRepeat));
/// assert_eq!(first("root ::= [A-Za-z]")?, None);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lint {
    /// A rule that can call itself before it has read a character.
    LeftRecursion,
    /// A rule that no text matches, because a part of it matches nothing.
    MatchesNothing,
    /// A rule whose every alternative leads back to itself.
    NeverEnds,
    /// A rule that the root does not lead to.
    Unreachable,
    /// `[z-a]`: a range that holds no character.
    ReversedRange,
    /// `[A-z]`: a range that holds the punctuation between two kinds of letters or digits.
    MixedRange,
    /// `[]` or `[^]`: read as the empty text here and in llama.cpp, otherwise elsewhere.
    EmptyClass,
    /// `("a"*)*`: what is repeated can be empty, so that one text matches in many ways.
    EmptyRepeat,
}

/// A finding of [`Grammar::check`].
///
/// Its message is lower-case, without a full stop, and names the place if that is known.
///
/// ```
/// use toolgate_grammar::gbnf::{ParseOptions, Parsed};
/// let parsed = Parsed::parse("root ::= [A-z]+\n", &ParseOptions::default())?;
/// let report = parsed.check().first().map(|warning| warning.report());
/// let expected = "warning: range A-z holds the punctuation in between too at 1:10
///   |
/// 1 | root ::= [A-z]+
///   |          ^
/// hint: write it as its parts, such as [A-Za-z]";
/// assert_eq!(report.as_deref(), Some(expected));
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub lint: Lint,
    /// The rule it was found in. All findings in a rule share its name, however long that is.
    pub rule: Arc<str>,
    /// What is wrong, without the place.
    pub message: String,
    /// Line and column, where the grammar came from text.
    pub place: Option<Place>,
    /// What to write instead.
    pub hint: Option<String>,
    excerpt: Option<String>,
}

impl Warning {
    /// The whole report: message, excerpt with a caret, hint; several lines, no final newline.
    pub fn report(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!("hint: {hint}"));
        [Some(self.to_string()), self.excerpt.clone(), hint]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn into_error(self) -> Error {
        let kind = match self.lint {
            Lint::LeftRecursion => Kind::Unsupported,
            _ => Kind::Undefined,
        };
        let mut error = Error::new(kind, self.message);
        if let Some(place) = self.place {
            error = error.at(place);
        }
        if let Some(excerpt) = self.excerpt {
            error = error.excerpt(excerpt);
        }
        match self.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.severity {
            Severity::Warning => "warning: ",
            Severity::Error => "error: ",
        })?;
        f.write_str(&self.message)?;
        match &self.place {
            Some(Place::Line { line, column }) => write!(f, " at {line}:{column}"),
            _ => Ok(()),
        }
    }
}

impl Grammar {
    /// What is questionable about the grammar, in the order of its rules; [`Parsed::check`] adds line and column.
    ///
    /// ```
    /// use toolgate_grammar::Grammar;
    /// use toolgate_grammar::gbnf::Lint;
    /// let grammar = Grammar::parse("root ::= sum\nsum ::= [0-9] | sum \"+\" [0-9]\nold ::= \"x\"\n")?;
    /// let lints: Vec<Lint> = grammar.check().iter().map(|warning| warning.lint).collect();
    /// assert_eq!(lints, [Lint::LeftRecursion, Lint::Unreachable]);
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    pub fn check(&self) -> Vec<Warning> {
        Checker::new(self).run().into_iter().map(|finding| finding.warning).collect()
    }
}

impl Parsed {
    /// What is questionable about the grammar, in the order of its text, with line, column and excerpt.
    pub fn check(&self) -> Vec<Warning> {
        let checker = Checker::new(&self.grammar);
        let mut findings = checker.run();
        findings.extend(self.spans.empty_classes.iter().map(|(rule, offset)| {
            let hint = "write \"\" for the empty text, . for any character";
            checker.finding(Lint::EmptyClass, *rule, At::Offset(*offset), "empty class".to_owned()).hint(hint)
        }));
        let marks = self.marks(&checker.flat);
        let offset = |at: &At| match at {
            At::Definition(rule) => self.spans.definitions.get(rule.index()).copied(),
            At::Node(node) => marks.get(*node as usize).copied(),
            At::Offset(offset) => Some(*offset),
        };
        let mut placed: Vec<(u32, Warning)> =
            findings.into_iter().map(|finding| (offset(&finding.at).unwrap_or(0), finding.warning)).collect();
        placed.sort_by_key(|(offset, _)| *offset);
        let mut locator = Locator::new(&self.text);
        let with_place = |(offset, warning): (u32, Warning)| {
            let (place, excerpt) = locator.locate(offset as usize);
            Warning { place: Some(place), excerpt: Some(excerpt), ..warning }
        };
        placed.into_iter().map(with_place).collect()
    }

    /// Whether the engine takes the grammar, but for the bounds of [`Limits`](crate::Limits).
    ///
    /// # Errors
    /// The first finding of [`Severity::Error`]: [`Kind::Unsupported`] for left recursion, [`Kind::Undefined`] for
    /// a root that matches no text. The engine refuses the same grammars with the same kinds, but knows no text to
    /// point at.
    ///
    /// ```
    /// use toolgate_grammar::Kind;
    /// use toolgate_grammar::gbnf::{ParseOptions, Parsed};
    /// let parsed = Parsed::parse("root ::= root \"a\" | \"a\"\n", &ParseOptions::default())?;
    /// let error = parsed.usable().unwrap_err();
    /// assert_eq!(error.kind(), Kind::Unsupported);
    /// assert_eq!(error.to_string(), "left recursion: root → root at 1:10");
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    pub fn usable(&self) -> Result<(), Error> {
        match self.check().into_iter().find(|finding| finding.severity == Severity::Error) {
            Some(finding) => Err(finding.into_error()),
            None => Ok(()),
        }
    }

    /// The offset of each node that has one. The parser wrote them down in the order of [`Flat`].
    fn marks(&self, flat: &Flat<'_>) -> Vec<u32> {
        let mut marks = self.spans.marks.iter().copied();
        let marked = |expr: &&Expr| matches!(expr, Expr::Class(_) | Expr::Rule(_) | Expr::Repeat { .. });
        flat.exprs.iter().map(|expr| if marked(expr) { marks.next().unwrap_or(0) } else { 0 }).collect()
    }
}

/// What a finding points at.
enum At {
    Definition(RuleId),
    Node(u32),
    Offset(u32),
}

pub(super) struct Finding {
    at: At,
    warning: Warning,
}

impl Finding {
    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.warning.hint = Some(hint.into());
        self
    }
}

/// Characters of a name that a message shows: it may be as long as the grammar, and stand in a message for every rule.
const SHOWN: usize = 100;

pub(super) struct Checker<'g> {
    grammar: &'g Grammar,
    flat: Flat<'g>,
    costs: Vec<Option<Cost>>,
    /// Names of rules with findings.
    names: Vec<OnceCell<Arc<str>>>,
}

impl<'g> Checker<'g> {
    pub(super) fn new(grammar: &'g Grammar) -> Self {
        let flat = Flat::new(grammar);
        let costs = analysis::costs(&flat, Classes::AsWritten);
        let names = grammar.rules().iter().map(|_| OnceCell::new()).collect();
        Self { grammar, flat, costs, names }
    }

    /// The steps taken so far.
    #[cfg(test)]
    pub(super) fn work(&self) -> u64 {
        self.flat.work()
    }

    pub(super) fn run(&self) -> Vec<Finding> {
        let mut findings = self.left_recursion();
        findings.extend(self.hopeless());
        findings.extend(self.unreachable());
        findings.extend(self.suspicious());
        findings
    }

    fn finding(&self, lint: Lint, rule: RuleId, at: At, message: String) -> Finding {
        let severity = match lint {
            Lint::LeftRecursion => Severity::Error,
            Lint::MatchesNothing | Lint::NeverEnds if rule == self.grammar.root() => Severity::Error,
            _ => Severity::Warning,
        };
        self.flat.count(message.len() as u64);
        let rule = self.shared_name(rule);
        Finding {
            at,
            warning: Warning { severity, lint, rule, message, place: None, hint: None, excerpt: None },
        }
    }

    fn shared_name(&self, rule: RuleId) -> Arc<str> {
        let name = || self.grammar.rule(rule).map_or("", |rule| rule.name.as_str()).into();
        self.names.get(rule.index()).map_or_else(name, |known| Arc::clone(known.get_or_init(name)))
    }

    /// A rule's name as messages show it.
    fn name(&self, rule: RuleId) -> String {
        let name = self.grammar.rule(rule).map_or("", |rule| rule.name.as_str());
        match name.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
            None => name.to_owned(),
        }
    }

    fn left_recursion(&self) -> Vec<Finding> {
        let cycles = analysis::left_recursion(&self.flat, &self.costs);
        // What is never entered does no harm.
        let live = analysis::reachable(&self.flat, self.grammar.root(), |node| {
            let never = matches!(self.flat.expr(node), Some(Expr::Repeat { max: Some(0), .. }));
            !never && self.costs.get(node as usize).is_some_and(Option::is_some)
        });
        let finding = |(start, calls): (RuleId, Vec<analysis::LeftCall>)| {
            let path = calls.iter().map(|call| self.name(call.rule));
            let path = std::iter::once(self.name(start)).chain(path).collect::<Vec<_>>().join(" → ");
            let at = calls.first().map_or(At::Definition(start), |call| At::Node(call.node));
            let mut found = self.finding(Lint::LeftRecursion, start, at, format!("left recursion: {path}"));
            if live.get(start.index()) != Some(&true) {
                found.warning.severity = Severity::Warning;
            }
            found.hint("write it as a repetition, such as sum ::= term (\"+\" term)*")
        };
        cycles.into_iter().map(finding).collect()
    }

    /// Rules that match nothing, and why.
    fn hopeless(&self) -> Vec<Finding> {
        let cost = |costs: &[Option<Cost>], body: u32| costs.get(body as usize).copied().flatten();
        if self.flat.bodies.iter().all(|body| cost(&self.costs, *body).is_some()) {
            return Vec::new();
        }
        let if_classes_matched = analysis::costs(&self.flat, Classes::Matching);
        let bodies = self.flat.bodies.iter().enumerate();
        let hopeless = bodies.filter(|(_, body)| cost(&self.costs, **body).is_none());
        let finding = |(index, body): (usize, &u32)| {
            let rule = RuleId(index as u32);
            let name = self.name(rule);
            match cost(&if_classes_matched, *body) {
                None => {
                    let message = format!("rule \"{name}\" never ends");
                    self.finding(Lint::NeverEnds, rule, At::Definition(rule), message)
                        .hint("every alternative leads back to the rule: add one that does not")
                }
                Some(_) => {
                    let message = format!("rule \"{name}\" matches nothing");
                    self.finding(Lint::MatchesNothing, rule, At::Definition(rule), message)
                        .hint("it needs a character class that no character is in")
                }
            }
        };
        hopeless.map(finding).collect()
    }

    fn unreachable(&self) -> Vec<Finding> {
        let reachable = analysis::reachable(&self.flat, self.grammar.root(), |_| true);
        let unused = reachable.iter().enumerate().filter(|(_, reachable)| !**reachable);
        let root = self.name(self.grammar.root());
        let finding = |(index, _): (usize, &bool)| {
            let rule = RuleId(index as u32);
            let message = format!("rule \"{}\" is not reachable from \"{root}\"", self.name(rule));
            self.finding(Lint::Unreachable, rule, At::Definition(rule), message)
        };
        unused.map(finding).collect()
    }

    /// Classes and repetitions that are unlikely to be meant.
    fn suspicious(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut bodies = self.flat.bodies.iter().enumerate();
        let mut current = bodies.next();
        for (node, expr) in self.flat.exprs.iter().enumerate() {
            let node = node as u32;
            let rule = RuleId(current.map_or(0, |(rule, _)| rule as u32));
            if current.is_some_and(|(_, body)| *body == node) {
                current = bodies.next();
            }
            self.flat.count(1);
            match expr {
                Expr::Class(class) => findings.extend(self.ranges(class, rule, node)),
                Expr::Repeat { max, .. } if max.is_none_or(|max| max > 1) => {
                    let item = self.flat.children(node).first();
                    let cost = item.and_then(|item| self.costs.get(*item as usize).copied().flatten());
                    if cost.is_some_and(|cost| cost.chars == 0) {
                        let message = "what is repeated can be empty".to_owned();
                        findings.push(self.finding(Lint::EmptyRepeat, rule, At::Node(node), message).hint(
                            "one text then matches in many ways: let the repeated part hold a character",
                        ));
                    }
                }
                _ => {}
            }
        }
        findings
    }

    fn ranges(&self, class: &CharClass, rule: RuleId, node: u32) -> Vec<Finding> {
        self.flat.count(class.ranges.len() as u64);
        let finding = |(low, high): &(u32, u32)| {
            let (low, high) = (char::from_u32(*low)?, char::from_u32(*high)?);
            if low > high {
                let message = format!("range {}-{} holds no character", Shown(low), Shown(high));
                let found = self.finding(Lint::ReversedRange, rule, At::Node(node), message);
                return Some(found.hint(format!("write {}-{}", Shown(high), Shown(low))));
            }
            let hint = match (low, high) {
                ('0'..='9', 'A'..='Z') => "[0-9A-Z]",
                ('0'..='9', 'a'..='z') => "[0-9A-Za-z]",
                ('A'..='Z', 'a'..='z') => "[A-Za-z]",
                _ => return None,
            };
            let message = format!("range {low}-{high} holds the punctuation in between too");
            let found = self.finding(Lint::MixedRange, rule, At::Node(node), message);
            Some(found.hint(format!("write it as its parts, such as {hint}")))
        };
        class.ranges.iter().filter_map(finding).collect()
    }
}
