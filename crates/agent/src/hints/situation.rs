//! What hints see: the conversation, the tools, and what this run's calls found.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use toolgate_chat::{ToolCall, ToolReply, Transcript};
use toolgate_sandbox::Outline;
use toolgate_tools::{Finding, Offer, Places, Role, ToolResult};

use super::Advice;
use super::pending::Pending;
use super::said::{Named, Said};

/// What a run remembers from turn to turn.
#[derive(Default)]
pub(crate) struct Memory {
    /// The tools that were called.
    pub(super) called: BTreeSet<String>,
    /// Whether the last calls changed something.
    pub(crate) changed: bool,
    /// What calls found, by their ids.
    found: BTreeMap<String, Found>,
    /// What was pending before the last turn.
    pub(super) pending: Pending,
    /// The directories that the request names.
    pub(super) directories: BTreeSet<String>,
}

/// What a call found.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) finding: Finding,
    /// Lines at the end of the result that are remarks of the tool.
    notes: usize,
}

impl Memory {
    /// Notes a call and its result.
    pub(crate) fn note(&mut self, call: &ToolCall, result: &ToolResult) {
        self.called.insert(call.name.clone());
        let found = Found { finding: result.finding(), notes: result.notes };
        self.found.insert(call.id.clone(), found);
    }

    /// Notes what was pending before a turn, and the directories that its request names.
    pub(crate) fn keep(&mut self, advice: &Advice) {
        self.pending = advice.pending.clone();
        if self.called.is_empty() {
            // Later only what is still pending is looked at.
            self.directories.clone_from(&advice.directories);
        }
    }

    /// What a result holds.
    pub(super) fn finding(&self, reply: &ToolReply) -> &Finding {
        self.found.get(&reply.call_id).map_or(&Finding::Text, |found| &found.finding)
    }

    /// The lines of a result, without its tool's remarks about them.
    pub(super) fn lines<'r>(&self, reply: &'r ToolReply) -> Vec<&'r str> {
        let mut lines: Vec<&str> = reply.content.lines().collect();
        let notes = self.found.get(&reply.call_id).map_or(0, |found| found.notes);
        lines.truncate(lines.len().saturating_sub(notes));
        lines
    }
}

/// Where a run stands before a turn.
pub(crate) struct Situation<'a> {
    pub(super) transcript: &'a Transcript,
    pub(super) offers: &'a [Offer],
    pub(super) memory: &'a Memory,
    /// Whether the turn may call: else nobody need look at what is there.
    pub(super) may_call: bool,
    /// Whether arguments are held to what is there.
    pub(super) constrains: bool,
    said: OnceCell<Said>,
    mentions: RefCell<Vec<Rc<Mentions>>>,
    seen: RefCell<Vec<Rc<Seen>>>,
}

impl<'a> Situation<'a> {
    /// A turn behind a conversation with these tools, which may call, and whose arguments may be constrained.
    pub(crate) fn new(
        transcript: &'a Transcript,
        offers: &'a [Offer],
        memory: &'a Memory,
        (may_call, constrains): (bool, bool),
    ) -> Self {
        Self {
            transcript,
            offers,
            memory,
            may_call,
            constrains,
            said: OnceCell::new(),
            mentions: RefCell::default(),
            seen: RefCell::default(),
        }
    }

    /// What was said so far.
    pub(super) fn said(&self) -> &Said {
        self.said.get_or_init(|| Said::of(self))
    }

    /// The part of the newest request that counts. Before any call that is all of it, afterwards what is pending.
    pub(super) fn mentions(&self, pending: &Pending) -> Rc<Mentions> {
        let pending = (!self.memory.called.is_empty()).then(|| pending.named.clone());
        let mut all = self.mentions.borrow_mut();
        if let Some(mentions) = all.iter().find(|mentions| mentions.pending == pending) {
            return mentions.clone();
        }
        let open = pending.as_ref().map(|named| named.iter().cloned().collect());
        let said = self.said().clone().with_pending(open);
        let mentions = Rc::new(Mentions { pending, said, named: RefCell::default() });
        all.push(mentions.clone());
        mentions
    }

    /// What is there, walked through once for all tools over it.
    pub(super) fn seen(&self, places: &Arc<dyn Places>) -> Rc<Seen> {
        let mut all = self.seen.borrow_mut();
        if let Some(seen) = all.iter().find(|seen| Arc::ptr_eq(&seen.places, places)) {
            return seen.clone();
        }
        let seen =
            Rc::new(Seen { places: places.clone(), readable: places.readable(), writable: OnceCell::new() });
        all.push(seen.clone());
        seen
    }

    /// The path that a call was given, if its tool takes one.
    pub(super) fn path_of<'c>(&self, call: &'c ToolCall) -> Option<&'c str> {
        let offer = self.offers.iter().find(|offer| offer.spec.name.as_str() == call.name)?;
        let Role::Paths(path) = &offer.role else { return None };
        call.arguments.get(path.parameter)?.as_str()
    }
}

/// What is there.
pub(super) struct Seen {
    pub(super) places: Arc<dyn Places>,
    pub(super) readable: Outline,
    writable: OnceCell<Outline>,
}

impl Seen {
    /// What may be changed.
    pub(super) fn writable(&self) -> &Outline {
        self.writable.get_or_init(|| self.places.writable())
    }
}

/// The part of the newest request that counts.
pub(super) struct Mentions {
    /// What is pending of the request; `None` before any call.
    pending: Option<BTreeSet<String>>,
    pub(super) said: Said,
    named: RefCell<Vec<(Rc<Seen>, Rc<Named>)>>,
}

impl Mentions {
    /// What it names of what is there.
    pub(super) fn named(&self, seen: &Rc<Seen>) -> Rc<Named> {
        let mut all = self.named.borrow_mut();
        if let Some((_, named)) = all.iter().find(|(other, _)| Rc::ptr_eq(other, seen)) {
            return named.clone();
        }
        let named = Rc::new(self.said.named(&seen.readable.files, &seen.readable.directories));
        all.push((seen.clone(), named.clone()));
        named
    }
}
