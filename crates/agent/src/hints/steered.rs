//! Which hints steered a run: those without which its advice, an answer or a call would have been another.
//!
//! Why: a run that a hint did not steer goes the same way without it, so an ablation need not run it again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use toolgate_engine::{AnswerWatch, Beginning};

use super::{Advice, Hint, Hints, Situation};

/// What steered a run so far; nothing is noted unless a caller wants to know.
#[derive(Default)]
pub(crate) struct Steered {
    names: Option<BTreeSet<&'static str>>,
}

impl Steered {
    /// Notes what steers, if that is `wanted`.
    pub(crate) fn new(wanted: bool) -> Self {
        Self { names: wanted.then(BTreeSet::new) }
    }

    /// Notes the hints without which the advice before a turn would be another.
    pub(crate) fn advised(&mut self, hints: &Hints, at: &Situation<'_>, advice: &Advice) {
        let Some(names) = &mut self.names else { return };
        for name in hints.on().map(Hint::name) {
            if !names.contains(name) && hints.clone().without(name).advice(at) != *advice {
                names.insert(name);
            }
        }
    }

    /// Notes a hint that did something.
    pub(crate) fn note(&mut self, name: Option<&'static str>) {
        if let Some(names) = &mut self.names {
            names.extend(name);
        }
    }

    /// Their names, if somebody wanted to know.
    pub(crate) fn into_names(self) -> Option<Vec<String>> {
        Some(self.names?.into_iter().map(str::to_owned).collect())
    }
}

/// A watch that remembers whether it found something.
#[doc(hidden)]
pub struct Noticed {
    watch: &'static dyn AnswerWatch,
    found: AtomicBool,
}

impl Noticed {
    /// The same watch, which found nothing yet.
    #[doc(hidden)]
    pub fn new(watch: &'static dyn AnswerWatch) -> Self {
        Self { watch, found: AtomicBool::new(false) }
    }

    /// The watch, as an engine takes it.
    #[doc(hidden)]
    pub fn of(watch: &Option<Self>) -> Option<&dyn AnswerWatch> {
        watch.as_ref().map(|watch| watch as &dyn AnswerWatch)
    }

    /// The hint it belongs to, if it found something.
    #[doc(hidden)]
    pub fn steered(&self) -> Option<&'static str> {
        self.found.load(Ordering::Relaxed).then(|| self.watch.name())
    }
}

impl AnswerWatch for Noticed {
    fn name(&self) -> &str {
        self.watch.name()
    }

    fn beginning(&self, request: &str, text: &str, whole: bool) -> Beginning {
        let beginning = self.watch.beginning(request, text, whole);
        if beginning == Beginning::Found {
            self.found.store(true, Ordering::Relaxed);
        }
        beginning
    }
}

#[cfg(test)]
mod tests {
    use toolgate_tools::{PathKind, Role};

    use super::super::{echo, scene::Scene};
    use super::*;

    #[test]
    fn a_hint_steered_where_the_advice_would_be_another_without_it() {
        let hints = Hints::auto();
        let steered = |request: &str| {
            let scene = Scene::asked(request)
                .with_files("view", PathKind::Files, &["plan.txt", "other.txt"])
                .with_role("jot", Role::Keeps);
            let (mut steered, at) = (Steered::new(true), scene.at());
            steered.advised(&hints, &at, &hints.advice(&at));
            steered.into_names().unwrap_or_default()
        };
        let (kept, read) = (steered("Keep in mind that I like tea."), steered("What is in plan.txt?"));
        let has = |names: &[String], name: &str| names.iter().any(|other| other == name);
        assert!(has(&kept, "memory") && !has(&read, "memory"), "{kept:?} {read:?}");
        assert!(has(&read, "mention") && !has(&read, "lead"), "{read:?}");
        let scene = Scene::asked("Keep in mind that I like tea.").with_role("jot", Role::Keeps);
        let mut untold = Steered::new(false);
        untold.advised(&hints, &scene.at(), &hints.advice(&scene.at()));
        untold.note(Some("echo"));
        assert_eq!(untold.into_names(), None, "nobody wants to know");
    }

    #[test]
    fn a_watch_steered_where_it_found_something() {
        let watch = Noticed::new(&echo::Echo);
        watch.beginning("What is in the plan?", "Tea.", true);
        assert_eq!(watch.steered(), None);
        watch.beginning("What is in the plan?", "What is in the plan?", true);
        assert_eq!(watch.steered(), Some("echo"));
    }
}
