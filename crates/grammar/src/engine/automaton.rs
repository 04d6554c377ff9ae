//! The shared half of the engine: a lowered grammar, and the machine that determinizes it as it is used.
//!
//! Invariant: tables only grow, up to their limits; when they are full, a fresh machine takes over with what was used
//! last, and the old one goes when the last run has left it.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::completion::Costs;
use super::machine::Machine;
use super::program::Program;
use super::renew;
use super::shared::Lease;
use super::stop::Stop;
use super::vocabulary::Vocabulary;
use super::ways::Ways;
use crate::{Error, Grammar, Limits};

/// A grammar ready to run over a vocabulary: shared, memoizing, `Send + Sync`.
///
/// Making one costs time proportional to the grammar, not to the vocabulary; what is found out on the way is
/// kept for every run, on every thread.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_grammar::{Automaton, Expr, Grammar, Limits, Vocabulary};
/// let mut grammar = Grammar::builder();
/// let digit = Expr::class([('0', '9')]);
/// let root = grammar.rule("root", Expr::sequence([Expr::literal("n="), digit.repeat(1, Some(3))]));
/// let vocabulary = Arc::new(Vocabulary::bytes_only());
/// let automaton = Automaton::new(&grammar.build(root)?, vocabulary, &Limits::default())?;
///
/// let mut matcher = automaton.matcher();
/// assert_eq!(matcher.forced()?, b"n=");
/// matcher.accept_bytes(b"n=4")?;
/// assert!(matcher.is_complete());
/// assert_eq!(matcher.mask()?.count(), 11); // ten digits and the end token
/// assert!(matcher.accept(u32::from(b'x')).is_err());
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
pub struct Automaton {
    pub(crate) program: Arc<Program>,
    pub(crate) vocabulary: Arc<Vocabulary>,
    pub(crate) limits: Limits,
    machine: RwLock<Arc<Machine>>,
    costs: OnceLock<Costs>,
    /// The last field, so that it is dropped after the vocabulary.
    lease: Lease,
}

/// What an automaton holds in memory, and how it came by it.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_grammar::{Automaton, Grammar, Limits, Vocabulary};
/// let grammar = Grammar::parse(r#"root ::= "a" "b" "c""#)?;
/// let automaton = Automaton::new(&grammar, Arc::new(Vocabulary::bytes_only()), &Limits::default())?;
/// let before = automaton.usage();
/// automaton.matcher().accept_bytes(b"abc")?;
/// assert!(automaton.usage().configurations > before.configurations);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// States of the lowered grammar; about 16 bytes each.
    pub states: usize,
    /// Configurations visited.
    pub configurations: usize,
    /// Stack frames.
    pub frames: usize,
    /// Bytes of configurations and frames.
    pub bytes: usize,
    /// Bytes of masks.
    pub mask_bytes: usize,
    /// Steps taken so far, the same on every machine: those of lowering the grammar, and those of finding out what can
    /// follow, which [`Limits::work`] bounds.
    pub work: u64,
    /// How often each way to put a mask together was gone, parts of masks included.
    pub ways: Ways,
}

impl Automaton {
    /// Lowers `grammar` for `vocabulary`.
    ///
    /// # Errors
    /// [`Kind::Limit`](crate::Kind::Limit) if the grammar is too large; [`Kind::Undefined`](crate::Kind::Undefined)
    /// for a token terminal the vocabulary lacks, and for a root that no text matches;
    /// [`Kind::Unsupported`](crate::Kind::Unsupported) for left recursion, naming the rules of the cycle.
    pub fn new(grammar: &Grammar, vocabulary: Arc<Vocabulary>, limits: &Limits) -> Result<Arc<Self>, Error> {
        let program = Arc::new(Program::new(grammar, &vocabulary, limits)?);
        let lease = Lease::of(&vocabulary);
        let shared = Arc::clone(lease.shared());
        let machine = Machine::new(Arc::clone(&program), Arc::clone(&vocabulary), shared, limits.clone())
            .map_err(|stop| stop.error(limits))?;
        let machine = RwLock::new(Arc::new(machine));
        let (limits, costs) = (limits.clone(), OnceLock::new());
        Ok(Arc::new(Self { program, vocabulary, limits, machine, costs, lease }))
    }

    /// The vocabulary it runs over.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// What it holds in memory now.
    pub fn usage(&self) -> Usage {
        let machine = self.machine();
        let (configurations, frames) = machine.used();
        let states = self.program.states.len();
        let mask_bytes = machine.masks.bytes() + machine.held.used();
        let work = self.program.work.saturating_add(machine.work.taken());
        let (bytes, ways) = (machine.memory.used(), machine.ways.counted());
        Usage { states, configurations, frames, bytes, mask_bytes, work, ways }
    }

    pub(crate) fn costs(&self) -> &Costs {
        self.costs.get_or_init(|| Costs::new(&self.program))
    }

    pub(crate) fn machine(&self) -> Arc<Machine> {
        Arc::clone(&self.machine.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The machine to use instead of `full`; with `empty`, one that took nothing over.
    pub(crate) fn renewed(&self, full: &Arc<Machine>, empty: bool) -> Result<Arc<Machine>, Stop> {
        let mut current = self.machine.write().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&current, full) {
            let (program, vocabulary) = (Arc::clone(&self.program), Arc::clone(&self.vocabulary));
            let shared = Arc::clone(self.lease.shared());
            let fresh = Machine::new(program, vocabulary, shared, self.limits.clone())?;
            fresh.work.take_over(&full.work);
            fresh.ways.take_over(&full.ways);
            if !empty {
                renew::take_over(full, &fresh);
            }
            *current = Arc::new(fresh);
        }
        Ok(Arc::clone(&current))
    }
}

impl std::fmt::Debug for Automaton {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Automaton").field("usage", &self.usage()).finish_non_exhaustive()
    }
}
