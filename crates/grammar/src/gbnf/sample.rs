//! Random texts of a grammar, to show what it allows and to test what reads them.
//! Invariant: always ends, within the asked length, without recursion, and what it returns matches the grammar.

use std::ops::Range;

use rand::{Rng, RngExt, SeedableRng};
use rustc_hash::FxHashMap;

use super::analysis::{self, Classes, Cost, Flat};
use super::{CharClass, Expr, Grammar, TokenMatch, TokenName, find};
use crate::{Error, Kind};

/// Expansions after which a text is given up; reached by grammars that spell long texts through very long chains.
const MOST_STEPS: u64 = 50_000_000;
/// Alternatives, or ranges of a class, that are looked at in one step.
const CHEAP: u64 = 8;
/// Texts that are drawn until one reads as the tokens it was drawn as.
const DRAWS: u32 = 16;

/// How to draw.
///
/// ```
/// use rand::{SeedableRng, rngs::StdRng};
/// use toolgate_grammar::gbnf::{SampleOptions, Sampler};
/// use toolgate_grammar::{Grammar, Kind};
/// let grammar = Grammar::parse("root ::= [a-z]{8}")?;
/// let mut rng = StdRng::seed_from_u64(1);
/// assert_eq!(grammar.sample(&mut rng, &SampleOptions::default())?.len(), 8);
/// let refused = Sampler::new(&grammar, &SampleOptions::default().max_len(7)).err();
/// assert_eq!(refused.map(|error| error.kind()), Some(Kind::Limit));
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SampleOptions {
    /// The longest text, in code points, a token counting as one. Default 200, at most 2^40. Texts grow more slowly as
    /// they near it.
    pub max_len: u64,
}

crate::setters! { SampleOptions {
    max_len: u64,
} }

impl Default for SampleOptions {
    fn default() -> Self {
        Self { max_len: 200 }
    }
}

/// Draws random texts of one grammar.
///
/// ```
/// use rand::{SeedableRng, rngs::StdRng};
/// use toolgate_grammar::Grammar;
/// use toolgate_grammar::gbnf::{SampleOptions, Sampler};
/// let grammar = Grammar::parse(r#"root ::= "[" (root ("," root)*)? "]""#)?;
/// let sampler = Sampler::new(&grammar, &SampleOptions::default().max_len(30))?;
/// let text = sampler.seeded(7)?;
/// assert!(text.starts_with('[') && text.ends_with(']') && text.len() <= 30);
/// assert_eq!(text, sampler.seeded(7)?);
/// // The next texts of one generator differ from each other.
/// let mut rng = StdRng::seed_from_u64(7);
/// assert_ne!(sampler.sample(&mut rng)?, sampler.sample(&mut rng)?);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
pub struct Sampler<'g> {
    flat: Flat<'g>,
    /// The texts of all tokens that the grammar names by text.
    tokens: find::Names<'g>,
    costs: Vec<Option<Cost>>,
    classes: FxHashMap<u32, Vec<(u32, u32)>>,
    root: u32,
    options: SampleOptions,
}

impl Grammar {
    /// One random text; to draw many, make a [`Sampler`].
    ///
    /// # Errors
    /// As [`Sampler::new`] and [`Sampler::sample`].
    pub fn sample(&self, rng: &mut impl Rng, options: &SampleOptions) -> Result<String, Error> {
        Sampler::new(self, options)?.sample(rng)
    }
}

/// What is still to be written; a stack of them, the next one last.
#[derive(Clone, Copy)]
enum Todo {
    Node(u32),
    /// At least `min` and at most `max` more of `item`.
    Again {
        item: u32,
        min: u64,
        max: Option<u64>,
    },
}

impl<'g> Sampler<'g> {
    /// Prepares to draw.
    ///
    /// # Errors
    /// [`Kind::Rejected`] if no text matches the grammar, [`Kind::Limit`] if the shortest one that does is longer
    /// than [`SampleOptions::max_len`].
    pub fn new(grammar: &'g Grammar, options: &SampleOptions) -> Result<Self, Error> {
        let flat = Flat::new(grammar);
        let costs = analysis::costs(&flat, Classes::AsWritten);
        let root = flat.body(grammar.root()).unwrap_or(u32::MAX);
        let name = grammar.rule(grammar.root()).map_or("", |rule| rule.name.as_str());
        let shortest = costs
            .get(root as usize)
            .copied()
            .flatten()
            .ok_or_else(|| Error::new(Kind::Rejected, format!("no text matches the rule \"{name}\"")))?;
        // Sums of two lengths then never overflow.
        let options = SampleOptions { max_len: options.max_len.min(1 << 40) };
        if shortest.chars > options.max_len {
            let message = format!(
                "no text of at most {} characters: the shortest has {}",
                options.max_len, shortest.chars
            );
            return Err(Error::new(Kind::Limit, message).hint("ask for a greater maximal length"));
        }
        let any = CharClass { negated: true, ranges: Vec::new() };
        let class = |(node, expr): (usize, &&Expr)| match expr {
            Expr::Class(class) => Some((node as u32, analysis::members(class))),
            Expr::Any => Some((node as u32, analysis::members(&any))),
            _ => None,
        };
        let classes = flat.exprs.iter().enumerate().filter_map(class).collect();
        let token = |expr: &&'g Expr| match expr {
            Expr::Token(TokenMatch { name: TokenName::Text(text), .. }) => Some(text.as_str()),
            _ => None,
        };
        let tokens = find::Names::new(flat.exprs.iter().filter_map(token).collect());
        Ok(Self { flat, tokens, costs, classes, root, options })
    }

    /// One text from a generator started with `seed`: the same for the same grammar, options and seed.
    ///
    /// # Errors
    /// As [`sample`](Self::sample).
    pub fn seeded(&self, seed: u64) -> Result<String, Error> {
        self.sample(&mut rand::rngs::StdRng::seed_from_u64(seed))
    }

    /// One random text. Token terminals are written as the token's text, and each reads as a token again. A text that would
    /// have a token where characters were drawn is drawn anew.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] for a token terminal without a text (by number, or negated), and for a grammar that hardly has
    /// a text in which tokens and characters can be told apart; [`Kind::Limit`] for a grammar that takes an absurd number of
    /// steps to its shortest text.
    pub fn sample(&self, rng: &mut impl Rng) -> Result<String, Error> {
        for _ in 0..DRAWS {
            let (text, tokens) = self.draw_text(rng)?;
            if self.tokens.is_empty() || self.tokens.read(&text).iter().map(|(place, _)| place).eq(&tokens) {
                return Ok(text);
            }
        }
        let message = "the grammar's texts spell its tokens out in characters, which reads as the tokens";
        Err(Error::new(Kind::Unsupported, message).hint("name tokens that no text of the grammar has"))
    }

    /// One random text, and where its tokens stand.
    fn draw_text(&self, rng: &mut impl Rng) -> Result<(String, Vec<Range<usize>>), Error> {
        let mut out = String::new();
        let mut tokens = Vec::new();
        let mut len: u64 = 0;
        // The length that what is on the stack adds at least. `len + owed` never exceeds the bound.
        let mut owed = self.cost(self.root).chars;
        let mut stack = vec![Todo::Node(self.root)];
        // Expansions that add nothing must not go on for ever either: after this many, only the shortest way is taken.
        let mut free = self.options.max_len.saturating_mul(16).saturating_add(1_000);
        let mut steps = 0;
        while let Some(todo) = stack.pop() {
            steps += 1;
            if steps > MOST_STEPS {
                return Err(Error::new(Kind::Limit, "grammar takes too many steps to its shortest text"));
            }
            free = free.saturating_sub(1);
            let spare = if free == 0 { 0 } else { self.options.max_len.saturating_sub(len + owed) };
            let hurried = free == 0 || self.nearly_full(rng, len + owed);
            match todo {
                Todo::Again { item, min, max } => {
                    let each = self.cost(item).chars;
                    owed = owed.saturating_sub(each.saturating_mul(min));
                    let (more, rest) = if min > 0 {
                        // Nothing at all will do for what may be empty, and need not be counted out.
                        (!(free == 0 && each == 0), min - 1)
                    } else {
                        let wanted =
                            !hurried && max != Some(0) && self.possible(item) && rng.random_bool(0.6);
                        (wanted && each <= spare, 0)
                    };
                    if more {
                        let max = max.map(|max| max.saturating_sub(u64::from(min == 0)));
                        stack.push(Todo::Again { item, min: rest, max });
                        stack.push(Todo::Node(item));
                        owed = owed.saturating_add(each.saturating_mul(rest.saturating_add(1)));
                    }
                }
                Todo::Node(node) => {
                    let own = self.cost(node).chars;
                    if free == 0 && own == 0 {
                        continue;
                    }
                    owed = owed.saturating_sub(own);
                    match self.flat.expr(node) {
                        Some(Expr::Literal(text)) => {
                            out.push_str(text);
                            len += own;
                        }
                        Some(Expr::Class(_) | Expr::Any) => {
                            steps += self.classes.get(&node).map_or(0, Vec::len) as u64 / CHEAP;
                            out.extend(self.draw(node, rng));
                            len += 1;
                        }
                        Some(Expr::Token(token)) => {
                            let begin = out.len();
                            out.push_str(token_text(token)?);
                            tokens.push(begin..out.len());
                            len += 1;
                        }
                        Some(Expr::Rule(rule)) => {
                            stack.extend(self.flat.body(*rule).map(Todo::Node));
                            owed += own;
                        }
                        Some(Expr::Sequence(_)) => {
                            stack.extend(self.flat.children(node).iter().rev().copied().map(Todo::Node));
                            owed += own;
                        }
                        Some(Expr::Choice(_)) => {
                            steps += self.flat.children(node).len() as u64 / CHEAP;
                            if let Some(chosen) = self.choose(node, own + spare, hurried, rng) {
                                stack.push(Todo::Node(chosen));
                                owed += self.cost(chosen).chars;
                            }
                        }
                        Some(Expr::Repeat { min, max, .. }) => {
                            if let [item] = self.flat.children(node) {
                                let max = max.map(|max| max.saturating_sub(*min));
                                stack.push(Todo::Again { item: *item, min: *min, max });
                                owed += own;
                            }
                        }
                        None => {}
                    }
                }
            }
        }
        Ok((out, tokens))
    }

    /// More and more often true as the text fills up, so that it does not end in a rush of shortest ways.
    fn nearly_full(&self, rng: &mut impl Rng, used: u64) -> bool {
        let share = used as f64 / self.options.max_len.max(1) as f64;
        rng.random_bool((share * share).clamp(0.0, 1.0))
    }

    fn possible(&self, node: u32) -> bool {
        self.costs.get(node as usize).copied().flatten().is_some()
    }

    fn cost(&self, node: u32) -> Cost {
        self.costs.get(node as usize).copied().flatten().unwrap_or_default()
    }

    /// An alternative of at most `room` characters: any of them, or the cheapest if `hurried`.
    fn choose(&self, node: u32, room: u64, hurried: bool, rng: &mut impl Rng) -> Option<u32> {
        let alternatives = self.flat.children(node).iter().copied().filter(|child| self.possible(*child));
        let fits = |child: &u32| self.cost(*child).chars <= room;
        if !hurried {
            let count = alternatives.clone().filter(fits).count();
            if count > 0 {
                return alternatives.filter(fits).nth(rng.random_range(0..count));
            }
        }
        alternatives.min_by_key(|child| self.cost(*child))
    }

    /// A character of a class: mostly one that reads well, sometimes one at the edge of a range, or any.
    fn draw(&self, node: u32, rng: &mut impl Rng) -> Option<char> {
        let ranges = self.classes.get(&node)?;
        let clipped: Vec<(u32, u32)> = ranges
            .iter()
            .map(|(low, high)| ((*low).max(u32::from(' ')), (*high).min(u32::from('~'))))
            .filter(|(low, high)| low <= high)
            .collect();
        let value = match rng.random_range(0..20) {
            0 => ranges.get(rng.random_range(0..ranges.len().max(1))).map(|(low, _)| *low),
            1 => ranges.get(rng.random_range(0..ranges.len().max(1))).map(|(_, high)| *high),
            2 => nth(ranges, rng),
            _ if clipped.is_empty() => nth(ranges, rng),
            _ => nth(&clipped, rng),
        };
        value.and_then(char::from_u32)
    }
}

/// Any value of the ranges, all as likely.
fn nth(ranges: &[(u32, u32)], rng: &mut impl Rng) -> Option<u32> {
    let size = |(low, high): &(u32, u32)| high - low + 1;
    let total: u32 = ranges.iter().map(size).sum();
    let mut left = rng.random_range(0..total.max(1));
    for range in ranges {
        if left < size(range) {
            return Some(range.0 + left);
        }
        left -= size(range);
    }
    None
}

fn token_text(token: &TokenMatch) -> Result<&str, Error> {
    match token {
        TokenMatch { negated: false, name: TokenName::Text(text) } => Ok(text),
        TokenMatch { negated, name } => {
            let not = if *negated { "!" } else { "" };
            let name = match name {
                TokenName::Id(id) => format!("<[{id}]>"),
                TokenName::Text(text) => text.clone(),
            };
            Err(Error::new(Kind::Unsupported, format!("token {not}{name} has no text without a vocabulary"))
                .hint("only tokens named by their text can be drawn"))
        }
    }
}
