//! Which hints steered a run: those without which its advice, an answer or a call would have been another.
//!
//! Why: a run that a hint did not steer goes the same way without it, so an ablation need not run it again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use toolgate_engine::{AnswerWatch, Beginning};

use super::{Advice, Hint, Hints, Situation};

/// What steered a run so far; nothing is noted unless a caller wants to know.
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

    /// Notes hints that did something.
    pub(crate) fn note(&mut self, steered: impl IntoIterator<Item = &'static str>) {
        if let Some(names) = &mut self.names {
            names.extend(steered);
        }
    }

    /// Their names, if somebody wanted to know.
    pub(crate) fn into_names(self) -> Option<Vec<String>> {
        Some(self.names?.into_iter().map(str::to_owned).collect())
    }
}

/// The watch over an answer, if it is on. It remembers what it found.
#[doc(hidden)]
pub struct Watches {
    repetitions: Option<Noticed>,
}

impl Watches {
    /// That of these hints, which found nothing yet.
    #[doc(hidden)]
    pub fn of(hints: &Hints) -> Self {
        let noticed = |watch| Noticed { watch, found: AtomicBool::new(false) };
        Self { repetitions: hints.repetitions().map(noticed) }
    }

    /// Who tells repetitions, as an engine takes it.
    #[doc(hidden)]
    pub fn repetitions(&self) -> Option<&dyn AnswerWatch> {
        self.repetitions.as_ref().map(|watch| watch as &dyn AnswerWatch)
    }

    /// Its hint, if it found something.
    #[doc(hidden)]
    pub fn steered(&self) -> Option<&'static str> {
        let watch = self.repetitions.as_ref()?;
        watch.found.load(Ordering::Relaxed).then_some(watch.watch.name())
    }
}

/// A watch that remembers whether it found something.
struct Noticed {
    watch: &'static dyn AnswerWatch,
    found: AtomicBool,
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
    use toolgate_tools::PathKind;

    use super::super::scene::Scene;
    use super::*;

    #[test]
    fn a_hint_steered_where_the_advice_would_be_another_without_it() {
        let hints = Hints::auto();
        let steered = |request: &str| {
            let scene = Scene::asked(request)
                .with_files("view", PathKind::Files, &["plan.txt", "other.txt"])
                .offering(&["tea_timer"]);
            let (mut steered, at) = (Steered::new(true), scene.at());
            steered.advised(&hints, &at, &hints.advice(&at));
            steered.into_names().unwrap_or_default()
        };
        let (timed, read) = (steered("Set the timer for my tea."), steered("What is in plan.txt?"));
        let has = |names: &[String], name: &str| names.iter().any(|other| other == name);
        assert!(has(&timed, "tool-names") && !has(&read, "tool-names"), "{timed:?} {read:?}");
        assert!(has(&read, "mention") && !has(&read, "lead"), "{read:?}");
        let scene = Scene::asked("Set the timer for my tea.").offering(&["tea_timer"]);
        let mut untold = Steered::new(false);
        untold.advised(&hints, &scene.at(), &hints.advice(&scene.at()));
        untold.note(["echo"]);
        assert_eq!(untold.into_names(), None, "nobody wants to know");
    }

    #[test]
    fn a_watch_steered_where_it_found_something() {
        let watches = Watches::of(&Hints::auto());
        let told = |answer: &str| {
            watches.repetitions().map(|watch| watch.beginning("What is in the plan?", answer, true))
        };
        assert_eq!(told("Tea."), Some(Beginning::Other));
        assert_eq!(watches.steered(), None);
        assert_eq!(told("What is in the plan?"), Some(Beginning::Found));
        assert_eq!(watches.steered(), Some("echo"));
    }
}
