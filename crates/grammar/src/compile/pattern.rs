//! Patterns and automata as grammar expressions inside a JSON string: each character in one spelling.
//!
//! Invariant: a character that JSON must escape is written with its short escape or as `\u00XX`, every other one as
//! itself, so that texts differ exactly when the strings they stand for do.

use rustc_hash::FxHashMap;

use crate::gbnf::CharClass;
use crate::schema::node::{Look, Node, complement, union};
use crate::work::items;
use crate::{Error, Expr, RuleId};

use super::automaton::Dfa;
use super::{Compiler, choice, longer, sequence};

/// Branching states written inside one another before a rule of its own is made.
const NESTED: usize = 8;

/// A pattern that is a grammar expression as it stands: one branch, its anchors taken off.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub(super) from_start: bool,
    pub(super) to_end: bool,
    pub(super) node: Node,
}

/// The branches of a pattern whose anchors stand at its edges only; none for other patterns.
pub(super) fn branches(node: &Node) -> Option<Vec<Branch>> {
    let list: Vec<&Node> = match node {
        Node::Choice(branches) => branches.iter().collect(),
        other => vec![other],
    };
    list.into_iter().map(branch).collect()
}

fn branch(node: &Node) -> Option<Branch> {
    let mut items: Vec<Node> = match node {
        Node::Sequence(items) => items.clone(),
        other => vec![other.clone()],
    };
    let from_start = items.first() == Some(&Node::Look(Look::Start));
    if from_start {
        items.remove(0);
    }
    let to_end = items.last() == Some(&Node::Look(Look::End));
    if to_end {
        items.pop();
    }
    let node = Node::Sequence(items);
    plain(&node).then_some(Branch { from_start, to_end, node })
}

/// Whether a node is free of conditions and of repetitions of what may be empty.
fn plain(node: &Node) -> bool {
    least(node).is_some()
}

/// The least number of code points of a plain node, up to where it does not matter; none for other nodes.
fn least(node: &Node) -> Option<u64> {
    match node {
        Node::Class(ranges) => (!ranges.is_empty()).then_some(1),
        Node::Look(_) => None,
        Node::Sequence(items) => {
            items.iter().try_fold(0_u64, |sum, item| Some(sum.saturating_add(least(item)?)))
        }
        Node::Choice(items) => items.iter().try_fold(u64::MAX, |fewest, item| Some(fewest.min(least(item)?))),
        Node::Repeat { item, min, .. } => {
            least(item).filter(|least| *least > 0).map(|least| least.saturating_mul(u64::from(*min)))
        }
    }
}

/// The node with its length bounded, where one repetition of single characters can carry the bounds.
pub(super) fn with_length(node: &Node, min: u64, max: Option<u64>) -> Option<Node> {
    let (least, most) = node.lengths();
    if least >= min && max.is_none_or(|max| most.is_some_and(|most| most <= max)) {
        return Some(node.clone());
    }
    let Node::Sequence(items) = node else { return None };
    let variable = |node: &Node| {
        let (least, most) = node.lengths();
        most != Some(least)
    };
    let at = items.iter().position(variable)?;
    if items.iter().skip(at + 1).any(variable) {
        return None;
    }
    let fixed: u64 =
        items.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, item)| item.lengths().0).sum();
    let Some(Node::Repeat { item, min: low, max: high }) = items.get(at) else { return None };
    if item.lengths() != (1, Some(1)) {
        return None;
    }
    let low = u64::from(*low).max(min.saturating_sub(fixed));
    let room = match max {
        Some(max) => Some(max.checked_sub(fixed)?),
        None => None,
    };
    let high = match (high.map(u64::from), room) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    if high.is_some_and(|high| high < low) {
        return None;
    }
    let repeat = Node::Repeat {
        item: item.clone(),
        min: u32::try_from(low).ok()?,
        max: high.map(u32::try_from).transpose().ok()?,
    };
    let mut items = items.clone();
    *items.get_mut(at)? = repeat;
    Some(Node::Sequence(items))
}

impl Compiler<'_, '_> {
    /// A plain node, as [`branches`] gives them.
    pub(super) fn node_expr(&mut self, node: &Node) -> Expr {
        match node {
            Node::Class(ranges) => self.class(ranges),
            Node::Look(_) => Expr::Choice(Vec::new()),
            Node::Sequence(items) => {
                let items: Vec<Expr> = items.iter().map(|item| self.node_expr(item)).collect();
                sequence(items)
            }
            Node::Choice(items) => {
                let items: Vec<Expr> = items.iter().map(|item| self.node_expr(item)).collect();
                choice(items).unwrap_or_else(Expr::empty)
            }
            Node::Repeat { item, min, max } => match (min, max) {
                (_, Some(0)) => Expr::empty(),
                (1, Some(1)) => self.node_expr(item),
                _ => self.node_expr(item).repeat(u64::from(*min), max.map(u64::from)),
            },
        }
    }

    /// One of these code points.
    pub(super) fn class(&mut self, ranges: &[(u32, u32)]) -> Expr {
        self.arena.count(items(ranges.len()));
        if let Some(known) = self.classes.get(ranges) {
            return known.clone();
        }
        let written = self.class_written(ranges);
        self.classes.insert(ranges.to_vec(), written.clone());
        written
    }

    fn class_written(&mut self, ranges: &[(u32, u32)]) -> Expr {
        let within = |code: u32| ranges.iter().any(|(low, high)| (*low..=*high).contains(&code));
        let special: Vec<u32> = (0..0x20).chain([0x22, 0x5C]).collect();
        let escaped: Vec<u32> = special.iter().copied().filter(|code| !self.bare && within(*code)).collect();
        if escaped.len() == special.len()
            && ranges.iter().map(|(low, high)| high - low + 1).sum::<u32>() > 0x10_F7FF
        {
            return self.json.plain(self.builder);
        }
        let raw = if self.bare { ranges.to_vec() } else { without_special(ranges) };
        let mut branches = Vec::new();
        match raw.as_slice() {
            [] => {}
            [(low, high)] if low == high => {
                branches.extend(char::from_u32(*low).map(|c| Expr::literal(c.to_string())))
            }
            [.., (_, 0x10_FFFF)] => {
                branches.push(Expr::Class(CharClass { negated: true, ranges: complement(&raw) }));
            }
            _ => branches.push(Expr::Class(CharClass { negated: false, ranges: raw })),
        }
        if escaped.len() == special.len() {
            branches.push(self.json.escape(self.builder));
        } else {
            branches.extend(escapes(&escaped));
        }
        Expr::choice(branches)
    }

    /// An automaton as an expression: states met once are written where they are met, others become rules.
    pub(super) fn automaton(&mut self, dfa: &Dfa, name: &str) -> Result<Option<Expr>, Error> {
        if dfa.is_empty() {
            return Ok(None);
        }
        let mut entries = vec![0_u32; dfa.states.len()];
        for (i, state) in dfa.states.iter().enumerate() {
            let mut targets: Vec<u32> = state.edges.iter().map(|(_, _, to)| *to).collect();
            targets.sort_unstable();
            targets.dedup();
            for to in targets.into_iter().filter(|to| *to as usize != i) {
                if let Some(count) = entries.get_mut(to as usize) {
                    *count += 1;
                }
            }
        }
        if let Some(start) = entries.first_mut() {
            *start += 1;
        }
        let mut writer =
            Writer { dfa, entries, rules: vec![None; dfa.states.len()], queue: Vec::new(), name };
        let body = writer.state(self, 0, 0)?;
        while let Some((state, rule)) = writer.queue.pop() {
            let body = writer.state(self, state, 0)?;
            self.builder.define(rule, body);
        }
        // The start is written here; a state that returns to it needs its rule too.
        Ok(Some(body))
    }
}

struct Writer<'d> {
    dfa: &'d Dfa,
    entries: Vec<u32>,
    rules: Vec<Option<RuleId>>,
    queue: Vec<(u32, RuleId)>,
    name: &'d str,
}

impl Writer<'_> {
    /// What may follow in a state.
    fn state(&mut self, compiler: &mut Compiler<'_, '_>, state: u32, depth: usize) -> Result<Expr, Error> {
        let mut out: Vec<Expr> = Vec::new();
        let mut at = state;
        while let Some(here) = self.dfa.states.get(at as usize) {
            compiler.spend(1 + here.edges.len() as u64)?;
            let mut groups: Vec<(u32, Vec<(u32, u32)>)> = Vec::new();
            let mut places: FxHashMap<u32, usize> = FxHashMap::default();
            let mut again: Vec<(u32, u32)> = Vec::new();
            for (low, high, to) in &here.edges {
                if *to == at {
                    again.push((*low, *high));
                    continue;
                }
                let place = *places.entry(*to).or_insert(groups.len());
                match groups.get_mut(place) {
                    Some((_, ranges)) => ranges.push((*low, *high)),
                    None => groups.push((*to, vec![(*low, *high)])),
                }
            }
            if !again.is_empty() {
                out.push(compiler.class(&union(again)).repeat(0, None));
            }
            if let ([(to, ranges)], false) = (groups.as_slice(), here.accepts) {
                // A chain is one sequence, however long, so that it neither nests nor recurses.
                let class = compiler.class(&union(ranges.clone()));
                push_counted(&mut out, class);
                if self.entries.get(*to as usize) == Some(&1) && *to != 0 {
                    at = *to;
                    continue;
                }
                out.push(self.target(compiler, *to, depth)?);
                break;
            }
            let mut branches = Vec::with_capacity(groups.len() + 1);
            for (to, ranges) in groups {
                let class = compiler.class(&union(ranges));
                let rest = self.target(compiler, to, depth + 1)?;
                branches.push(sequence([class, rest]));
            }
            if let Some(next) = choice(branches) {
                out.push(if here.accepts { next.optional() } else { next });
            }
            break;
        }
        Ok(sequence(out))
    }

    fn target(&mut self, compiler: &mut Compiler<'_, '_>, to: u32, depth: usize) -> Result<Expr, Error> {
        let Some(state) = self.dfa.states.get(to as usize) else { return Ok(Expr::empty()) };
        if state.edges.is_empty() {
            return Ok(Expr::empty());
        }
        let once = to != 0 && self.entries.get(to as usize) == Some(&1);
        if once && depth < NESTED {
            return self.state(compiler, to, depth);
        }
        if let [only] = loops_only(state, to).as_slice() {
            return Ok(compiler.class(only).repeat(0, None));
        }
        if let Some(Some(rule)) = self.rules.get(to as usize) {
            return Ok(Expr::Rule(*rule));
        }
        let rule = compiler.declare(&longer(self.name, &to.to_string()))?;
        if let Some(slot) = self.rules.get_mut(to as usize) {
            *slot = Some(rule);
        }
        self.queue.push((to, rule));
        Ok(Expr::Rule(rule))
    }
}

/// The code points on which an accepting state stays, if it does nothing else.
fn loops_only(state: &super::automaton::State, own: u32) -> Vec<Vec<(u32, u32)>> {
    if state.accepts && state.edges.iter().all(|(_, _, to)| *to == own) {
        vec![union(state.edges.iter().map(|(low, high, _)| (*low, *high)).collect())]
    } else {
        Vec::new()
    }
}

/// Appends an item; a run of equal ones becomes a counter.
fn push_counted(out: &mut Vec<Expr>, item: Expr) {
    match out.last_mut() {
        Some(Expr::Repeat { item: same, min, max: Some(max) }) if **same == item && min == max => {
            *min += 1;
            *max += 1;
        }
        Some(last) if *last == item && !matches!(item, Expr::Literal(_)) => {
            *last = item.repeat(2, Some(2));
        }
        _ => out.push(item),
    }
}

fn without_special(ranges: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut out = Vec::new();
    for (low, high) in ranges {
        for (from, to) in [(0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10_FFFF)] {
            if (*low).max(from) <= (*high).min(to) {
                out.push(((*low).max(from), (*high).min(to)));
            }
        }
    }
    union(out)
}

/// The one spelling of each of these characters, all of which must be escaped: short where there is a short one.
fn escapes(codes: &[u32]) -> Vec<Expr> {
    let mut groups: [(&str, Vec<char>); 3] = [("\\", vec![]), ("\\u000", vec![]), ("\\u001", vec![])];
    for code in codes {
        let [short, low, high] = &mut groups;
        match code {
            0x08 => short.1.push('b'),
            0x09 => short.1.push('t'),
            0x0A => short.1.push('n'),
            0x0C => short.1.push('f'),
            0x0D => short.1.push('r'),
            0x22 => short.1.push('"'),
            0x5C => short.1.push('\\'),
            0..=0x0F => low.1.extend(char::from_digit(*code, 16)),
            _ => high.1.extend(char::from_digit(code & 0xF, 16)),
        }
    }
    let used = groups.into_iter().filter(|(_, last)| !last.is_empty());
    used.map(|(prefix, last)| match last.as_slice() {
        [only] => Expr::literal(format!("{prefix}{only}")),
        _ => {
            let ranges = union(last.iter().map(|c| (*c as u32, *c as u32)).collect());
            sequence([Expr::literal(prefix), Expr::Class(CharClass { negated: false, ranges })])
        }
    })
    .collect()
}
