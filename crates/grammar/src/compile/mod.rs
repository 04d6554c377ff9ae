//! Second stage: turns a [`Schema`] into a GBNF [`Grammar`] and a [`Contract`]. Knows no tokens and no model.
//!
//! Invariant: every string of the grammar is JSON that the schema accepts, except where [`Contract::checked`] names
//! the keyword that was let go.

mod array;
mod automaton;
mod bare;
mod contract;
mod decimals;
mod integers;
mod json;
mod names;
mod number;
mod object;
mod partition;
mod pattern;
mod render;
mod rules;
mod string;
mod union;
mod values;
mod weaken;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::engine::{Automaton, Vocabulary};
use crate::gbnf::analysis::{Classes, Flat, costs};
use crate::schema::pattern::Pattern;
use crate::schema::{Arena, Conjunct, Key, Leaf, PartId, Types, Values};
use crate::work::{ForeignMap, items};
use crate::{Error, Expr, Grammar, GrammarBuilder, Kind, Place, RuleId, Schema};

pub use bare::{choices_into, pattern_grammar};
pub use contract::{Contract, Entry};
pub use render::render;

use json::Json;
use rules::{Rules, choice, longer, sequence};
use weaken::Weakened;

/// Where a generated text may have white space.
///
/// ```
/// use serde_json::json;
/// use toolgate_grammar::{Options, Schema, Whitespace, compile};
/// let schema = Schema::parse(&json!({"const": [1, 2]}))?;
/// let spaced = compile(&schema, &Options::default())?;
/// let compact = compile(&schema, &Options::default().whitespace(Whitespace::Compact))?;
/// assert!(spaced.accepts("[1, 2]")? && !spaced.accepts("[1,2]")?);
/// assert!(compact.accepts("[1,2]")? && !compact.accepts("[1, 2]")?);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Whitespace {
    /// None: `{"a":1,"b":[1,2]}`.
    Compact,
    /// Python's `json.dumps`: `{"a": 1, "b": [1, 2]}`.
    #[default]
    Spaced,
    /// Up to `max` blanks or line breaks wherever JSON allows them.
    Flexible {
        /// The longest run.
        max: u32,
    },
}

/// What becomes of keys that a schema neither declares nor speaks of.
///
/// ```
/// use serde_json::json;
/// use toolgate_grammar::{Options, Schema, Undeclared, compile};
/// let schema = Schema::parse(&json!({"type": "object", "properties": {"path": {"type": "string"}}}))?;
/// let allowed = compile(&schema, &Options::default())?;
/// let forbidden = compile(&schema, &Options::default().undeclared(Undeclared::Forbidden))?;
/// let text = r#"{"path": "a", "mode": 1}"#;
/// assert!(allowed.accepts(text)? && !forbidden.accepts(text)?);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Undeclared {
    /// What JSON Schema says: they may be there, with any value.
    #[default]
    Allowed,
    /// An object that declares properties and says nothing of others has no others. A call needs no arguments
    /// that its tool does not know.
    Forbidden,
}

/// How to compile.
///
/// ```
/// use serde_json::json;
/// use toolgate_grammar::{Options, Schema, Whitespace, compile};
/// let options = Options::default().whitespace(Whitespace::Flexible { max: 1 });
/// let schema = Schema::parse(&json!({"type": "array", "items": {"type": "integer"}}))?;
/// let compiled = compile(&schema, &options)?;
/// assert!(compiled.accepts("[1,2]")? && compiled.accepts("[ 1, 2 ]")?);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// White space between tokens of JSON.
    pub whitespace: Whitespace,
    /// What becomes of keys that a schema neither declares nor speaks of.
    pub undeclared: Undeclared,
    /// Bounds on the result.
    pub limits: crate::Limits,
}

crate::setters! { Options {
    whitespace: Whitespace,
    undeclared: Undeclared,
    limits: crate::Limits,
} }

/// A grammar and what it promises.
///
/// ```
/// use serde_json::json;
/// use toolgate_grammar::{Options, Schema, compile};
/// let compiled = compile(&Schema::parse(&json!({"enum": ["on", "off"]}))?, &Options::default())?;
/// assert_eq!(compiled.grammar.to_gbnf(), "root ::= \"\\\"on\\\"\" | \"\\\"off\\\"\"\n");
/// assert!(compiled.accepts("\"on\"")? && !compiled.accepts("\"up\"")?);
/// assert!(compiled.contract.is_complete());
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Compiled {
    /// Accepts the serialized instances.
    pub grammar: Grammar,
    /// What became of every keyword.
    pub contract: Contract,
    /// The steps that compiling took, as [`Limits::work`](crate::Limits::work) counts them: the same on every machine,
    /// and about twice as many for twice the schema. Those of reading it are [`Schema::work`].
    pub work: u64,
}

impl Compiled {
    /// Whether the grammar accepts a whole text. Builds an automaton each time: for tests and single questions.
    ///
    /// # Errors
    /// [`Kind::Limit`] when the grammar or the match outgrows the default [`Limits`](crate::Limits).
    pub fn accepts(&self, text: &str) -> Result<bool, Error> {
        let automaton =
            Automaton::new(&self.grammar, Arc::new(Vocabulary::bytes_only()), &crate::Limits::default())?;
        let mut matcher = automaton.matcher();
        match matcher.accept_bytes(text.as_bytes()) {
            Ok(()) => Ok(matcher.is_complete()),
            Err(error) if error.kind() == Kind::Rejected => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Compiles `schema`; the result's root rule is `root`.
///
/// # Errors
/// [`Kind::InvalidSchema`] when nothing can match, [`Kind::Limit`] when the grammar would be too large.
///
/// ```
/// # use toolgate_grammar::{compile, Options, Schema}; use serde_json::json;
/// let pair = Schema::parse(&json!({"type": "array", "maxItems": 2, "items": {"type": "boolean"}}))?;
/// let compiled = compile(&pair, &Options::default())?;
/// assert!(compiled.accepts("[true, false]")? && !compiled.accepts("[true, false, true]")?);
/// assert!(compiled.contract.is_complete());
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
pub fn compile(schema: &Schema, options: &Options) -> Result<Compiled, Error> {
    let mut builder = GrammarBuilder::default();
    let (root, contract, recursive) = compile_named(schema, options, &mut builder, "root")?;
    let mut work = builder.work();
    let grammar = builder.build(root)?;
    // What needs itself without end is found out only when all of it is there.
    if recursive {
        let flat = Flat::new(&grammar);
        let costs = costs(&flat, Classes::Matching);
        work += flat.work();
        flat.body(root).and_then(|body| costs.into_iter().nth(body as usize)?).ok_or_else(impossible)?;
    }
    Ok(Compiled { grammar, contract, work })
}

/// Compiles `schema` into a grammar under construction, for envelopes around several schemas; rule names start
/// with `name`, but for those that all schemas of the grammar share.
///
/// # Errors
/// As [`compile`].
///
/// ```
/// use serde_json::json;
/// use toolgate_grammar::{Expr, Grammar, Limits, Options, Schema, compile_into};
/// let schema = Schema::parse(&json!({"type": "boolean"}))?;
/// let mut builder = Grammar::builder();
/// let (value, _contract) = compile_into(&schema, &Options::default(), &mut builder, "value")?;
/// let body = Expr::sequence([Expr::literal("<call>"), Expr::Rule(value), Expr::literal("</call>")]);
/// let root = builder.rule("root", body);
/// assert!(builder.build(root)?.match_text("<call>true</call>", &Limits::default())?.matched);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
pub fn compile_into(
    schema: &Schema,
    options: &Options,
    builder: &mut GrammarBuilder,
    name: &str,
) -> Result<(RuleId, Contract), Error> {
    compile_named(schema, options, builder, name).map(|(root, contract, _)| (root, contract))
}

/// As [`compile_into`], with whether some rule refers to itself.
fn compile_named(
    schema: &Schema,
    options: &Options,
    builder: &mut GrammarBuilder,
    name: &str,
) -> Result<(RuleId, Contract, bool), Error> {
    let root = builder.declare(name);
    let mut compiler = Compiler::new(schema, options, builder, name);
    let made = compiler.root(root, name);
    let (taken, recursive) = (compiler.taken(), compiler.recursive);
    builder.add_work(taken);
    Ok((root, made?, recursive))
}

fn impossible() -> Error {
    Error::new(Kind::InvalidSchema, "nothing can match this schema")
        .at(Place::Pointer(String::new()))
        .hint("two of its keywords contradict each other, or a required property is impossible")
}

/// Automata as large as the limit allows that one schema may make or try to make.
const PRODUCTS: usize = 5;

/// What is known of a key.
#[derive(Clone, Debug)]
enum Slot {
    /// Being compiled; a rule if something has referred to it meanwhile.
    Pending(Option<RuleId>),
    /// Compiled; `None` if nothing can match.
    Done(Option<Expr>),
}

struct Compiler<'a, 's> {
    arena: Arena<'s>,
    builder: &'a mut GrammarBuilder,
    /// Whether characters stand for themselves, without what a JSON string escapes.
    bare: bool,
    options: &'a Options,
    json: Json,
    prefix: String,
    memo: FxHashMap<Key, Slot>,
    rules: Rules,
    /// Automata of patterns, which keys of many objects may be told by; by where the patterns are in memory.
    dfas: FxHashMap<usize, (Arc<Pattern>, Option<Arc<automaton::Dfa>>)>,
    /// Strings by what is said of them, so that equal ones are determinized and written once.
    strings: ForeignMap<string::StringKey, Option<Expr>>,
    /// Digits that make a multiple: by unit, number of digits to come, and remainder of those before.
    remainders: FxHashMap<(i128, usize, i128), Option<Expr>>,
    /// Sets of code points that have been written before, as patterns repeat a few.
    classes: ForeignMap<Vec<(u32, u32)>, Expr>,
    /// Long lists of values that have been written before, by where they are in memory.
    lists: FxHashMap<usize, (Arc<Values>, Option<Expr>)>,
    /// Keys entered since the last object or array: meeting one again adds nothing.
    unguarded: Vec<Key>,
    /// Whether such a key was met again, so that what is compiled above it is not whole.
    cut: bool,
    /// Whether some rule refers to itself.
    recursive: bool,
    weakened: Weakened<'s>,
    /// The part at hand, for errors.
    here: Option<PartId>,
    depth: usize,
    /// What automata of patterns may still take.
    room: automaton::Room,
    /// States that automata of patterns may still have, all in all: a bound on time.
    product_states: usize,
    /// States that automata with counts may still add; what comes after is checked instead.
    states: usize,
}

impl<'a, 's> Compiler<'a, 's> {
    fn new(schema: &'s Schema, options: &'a Options, builder: &'a mut GrammarBuilder, name: &str) -> Self {
        Self {
            arena: Arena::new(schema, &options.limits),
            builder,
            bare: false,
            options,
            json: Json::new(options.whitespace),
            prefix: name.to_owned(),
            memo: FxHashMap::default(),
            rules: Rules::default(),
            dfas: FxHashMap::default(),
            strings: ForeignMap::default(),
            remainders: FxHashMap::default(),
            classes: ForeignMap::default(),
            lists: FxHashMap::default(),
            unguarded: Vec::new(),
            cut: false,
            recursive: false,
            weakened: Weakened::default(),
            here: None,
            depth: 0,
            room: automaton::Room::new(&options.limits),
            product_states: options.limits.pattern_states.saturating_mul(PRODUCTS),
            states: options.limits.pattern_states / 2,
        }
    }

    /// The steps taken so far.
    fn taken(&self) -> u64 {
        self.arena.taken().saturating_add(self.room.taken())
    }
}

impl Compiler<'_, '_> {
    /// Compiles the whole schema, which is the rule `root`.
    fn root(&mut self, root: RuleId, name: &str) -> Result<Contract, Error> {
        let schema = self.arena.schema;
        let key = self.arena.resolved(vec![Conjunct::Whole(schema.root)]);
        // The root may refer to itself, so its rule is declared before its body is known.
        self.memo.insert(key.clone(), Slot::Pending(Some(root)));
        let body = self.body(&key, name)?;
        let body = body.ok_or_else(impossible)?;
        self.builder.define(root, body);
        let mut contract = Contract::new(schema, &self.arena.work);
        contract.weaken_counted(self.weakened.take(), &self.arena.work);
        contract.settle(&schema.references, &self.arena.work);
        self.arena.work.check("")?;
        Ok(contract)
    }

    /// What a key matches, as a reference or a short text; `None` if nothing.
    fn node(&mut self, key: Key, name: &str) -> Result<Option<Expr>, Error> {
        let key = self.arena.resolved(key);
        self.spend(items(key.len()) + items(self.unguarded.len()))?;
        if self.unguarded.contains(&key) {
            self.cut = true;
            return Ok(None);
        }
        match self.memo.get(&key) {
            Some(Slot::Done(expr)) => {
                self.arena.count(expr.as_ref().map_or(1, rules::weight));
                return Ok(expr.clone());
            }
            Some(Slot::Pending(Some(id))) => {
                self.recursive = true;
                return Ok(Some(Expr::Rule(*id)));
            }
            Some(Slot::Pending(None)) => {
                self.recursive = true;
                let name = self.definition(&key).unwrap_or_else(|| name.to_owned());
                let id = self.declare(&name)?;
                self.memo.insert(key, Slot::Pending(Some(id)));
                return Ok(Some(Expr::Rule(id)));
            }
            None => {}
        }
        let name = self.definition(&key).unwrap_or_else(|| name.to_owned());
        self.memo.insert(key.clone(), Slot::Pending(None));
        let outer_cut = std::mem::replace(&mut self.cut, false);
        let body = self.body(&key, &name)?;
        let partial = self.cut && !self.unguarded.is_empty();
        self.cut = outer_cut || partial;
        let declared = match self.memo.get(&key) {
            Some(Slot::Pending(declared)) => *declared,
            _ => None,
        };
        let expr = match (body, declared) {
            // A rule that something refers to has to exist; without a body it matches nothing.
            (None, Some(id)) => {
                self.builder.define(id, Expr::Choice(Vec::new()));
                None
            }
            (None, None) => None,
            (Some(body), Some(id)) => {
                self.builder.define(id, body);
                Some(Expr::Rule(id))
            }
            (Some(body), None) => Some(self.shared(&name, body)?),
        };
        if partial {
            self.memo.remove(&key);
        } else {
            self.memo.insert(key, Slot::Done(expr.clone()));
        }
        Ok(expr)
    }

    fn body(&mut self, key: &Key, name: &str) -> Result<Option<Expr>, Error> {
        let here = key.iter().find_map(|conjunct| match conjunct {
            Conjunct::Whole(id) | Conjunct::Own(id) => Some(*id),
            _ => None,
        });
        let outer = std::mem::replace(&mut self.here, here);
        self.depth += 1;
        if self.depth > self.options.limits.depth {
            let message = format!("the schema is nested deeper than {} levels", self.options.limits.depth);
            return Err(Error::new(Kind::Limit, message).at(Place::Pointer(self.pointer().to_owned())));
        }
        self.unguarded.push(key.clone());
        let normal = self.arena.normal(key);
        self.spend(1)?;
        let body = if normal.open.is_empty() {
            let (leaf, undecided) = self.arena.leaf(&normal);
            self.spend(1)?;
            if undecided {
                self.weaken_undecided(&leaf);
            }
            self.leaf(&leaf, name)?
        } else {
            self.union(normal, name)?
        };
        self.unguarded.pop();
        self.depth -= 1;
        self.here = outer;
        Ok(body)
    }

    /// A key whose choices are made.
    fn leaf(&mut self, leaf: &Leaf, name: &str) -> Result<Option<Expr>, Error> {
        if let Some(values) = &leaf.values {
            return self.values(values, name);
        }
        if leaf.own.is_empty() {
            return Ok(Some(self.json.value(self.builder)));
        }
        let refuses = |value: &serde_json::Value| leaf.excludes(value);
        let mut kinds: Vec<(&str, Option<Expr>)> = Vec::new();
        let single = [Types::STRING, Types::NUMBER, Types::BOOLEAN, Types::NULL, Types::ARRAY, Types::OBJECT]
            .iter()
            .filter(|kind| leaf.types.has(**kind))
            .count()
            == 1;
        let named = |kind: &str| if single { name.to_owned() } else { longer(name, kind) };
        if leaf.types.has(Types::STRING) {
            kinds.push(("string", self.string(leaf, &named("string"))?));
        }
        if leaf.types.has(Types::NUMBER) {
            kinds.push(("number", self.number(leaf, &named("number"))?));
        }
        if leaf.types.has(Types::BOOLEAN) {
            let texts = [(true, "true"), (false, "false")];
            let allowed = texts.iter().filter(|(value, _)| !refuses(&serde_json::Value::Bool(*value)));
            let branches: Vec<Expr> = allowed.map(|(_, text)| Expr::literal(*text)).collect();
            kinds.push(("boolean", if branches.is_empty() { None } else { Some(Expr::choice(branches)) }));
        }
        if leaf.types.has(Types::NULL) {
            kinds.push(("null", (!refuses(&serde_json::Value::Null)).then(|| Expr::literal("null"))));
        }
        if leaf.types.has(Types::ARRAY.or(Types::OBJECT)) {
            let guarded = std::mem::take(&mut self.unguarded);
            if leaf.types.has(Types::ARRAY) {
                self.compound_exclusions(leaf, Types::ARRAY);
                kinds.push(("array", self.array(&leaf.own, &named("array"))?));
            }
            if leaf.types.has(Types::OBJECT) {
                self.compound_exclusions(leaf, Types::OBJECT);
                kinds.push(("object", self.object(&leaf.own, &named("object"))?));
            }
            self.unguarded = guarded;
        }
        let mut branches = Vec::new();
        for (kind, expr) in kinds {
            let Some(expr) = expr else { continue };
            branches.push(if single { expr } else { self.shared(&named(kind), expr)? });
        }
        Ok(if branches.is_empty() { None } else { Some(Expr::choice(branches)) })
    }

    /// A grammar cannot leave single lists or objects out.
    fn compound_exclusions(&mut self, leaf: &Leaf, kind: Types) {
        if leaf.excludes_any(kind) {
            self.weaken_exclusions(leaf, "a list or object cannot be left out by a grammar");
        }
    }

    /// Counts steps; an error at the part at hand where there are none left.
    fn spend(&self, steps: u64) -> Result<(), Error> {
        if self.arena.work.spend(steps) { Ok(()) } else { self.arena.work.check(self.pointer()) }
    }

    fn pointer(&self) -> &str {
        self.here.and_then(|id| self.arena.part(id)).map_or("", |part| &part.pointer)
    }
}

#[cfg(test)]
mod tests;
