//! Hints: rules that read the words of a request, and what calls found, to steer small models. Each has a file, a name, a switch and
//! a reason.
//!
//! A hint says what it knows before a turn (`Hint::advise`). What comes of all of them is numbers and schemas: a prior for each
//! tool, arguments held to choices, and whether something is left to be done. The engine takes those and
//! reads no words. A model that needs none of this is run with [`Hints::none`].
//!
//! Invariant: no hint raises a tool that may change something, and none decides a turn. The engine's own measure of what is asked for
//! stands beside all of them.

mod echo;
mod lead;
mod mention;
mod overwrite;
mod paths;
pub(crate) mod pending;
mod quotation;
mod rewrite;
mod said;
#[cfg(test)]
mod scene;
mod situation;
mod steered;
mod tool_names;
mod words;

pub(crate) use situation::{Memory, Situation};
pub(crate) use steered::Steered;
#[doc(hidden)]
pub use steered::Watches;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use pending::Pending;
use toolgate_chat::ToolSpec;
use toolgate_engine::{AnswerWatch, Facts};
use toolgate_tools::{Objection, Offer, held_to};

use crate::Error;

/// A rule that steers by words.
pub(crate) trait Hint: Sync {
    /// Its name, as `--hints` takes it.
    fn name(&self) -> &'static str;

    /// Why it is there, in a sentence.
    fn reason(&self) -> &'static str;

    /// What it knows before a turn.
    fn advise(&self, at: &Situation<'_>, advice: &mut Advice) {
        let _ = (at, advice);
    }

    /// What is to be put behind an answer that was given there.
    fn addition(&self, at: &Situation<'_>, answer: &str) -> Option<String> {
        let _ = (at, answer);
        None
    }

    /// Whether a call that a tool objects to is not made, where this was requested.
    fn refuses(&self, objection: &Objection, request: &str) -> bool {
        let _ = (objection, request);
        false
    }
}

/// All hints, in the order in which they are asked: later ones go on from what earlier ones found.
const ALL: [&dyn Hint; 9] = [
    &lead::Lead,
    &pending::PendingMentions,
    &mention::Mention,
    &tool_names::ToolNames,
    &paths::Paths,
    &echo::Echo,
    &quotation::Quotation,
    &rewrite::Rewrite,
    &overwrite::Overwrite,
];

/// Which hints are on.
///
/// ```
/// use toolgate_agent::Hints;
///
/// let hints: Hints = "paths,echo".parse()?;
/// assert_eq!(hints.to_string(), "paths,echo");
/// assert_eq!(Hints::none().to_string(), "none");
/// assert!(Hints::known().any(|(name, _reason)| name == "echo"));
/// assert!(hints.has("echo") && !hints.has("lead"));
/// let error = "echoes".parse::<Hints>().map_err(|error| error.to_string());
/// assert!(error.is_err_and(|why| why.contains("no hint \"echoes\"") && why.contains("quotation")));
/// # Ok::<(), toolgate_agent::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hints {
    on: BTreeSet<&'static str>,
    /// Whether the model's profile decides.
    is_auto: bool,
}

impl Default for Hints {
    fn default() -> Self {
        Self::auto()
    }
}

impl Hints {
    /// Those that suit the model: all of them for one with a profile, none for another ([`suited`](Self::suited)).
    pub fn auto() -> Self {
        Self { on: ALL.iter().map(|hint| hint.name()).collect(), is_auto: true }
    }

    /// What tells an answer that repeats its request.
    #[doc(hidden)]
    pub fn echoes() -> &'static dyn AnswerWatch {
        &echo::Echo
    }

    /// None: the model decides by itself.
    pub fn none() -> Self {
        Self { on: BTreeSet::new(), is_auto: false }
    }

    /// The same for an engine: where it is left to the model's profile and there is none, nothing is on.
    ///
    /// ```
    /// use toolgate_agent::Hints;
    /// use toolgate_engine::Facts;
    /// let unknown = Facts::default();
    /// assert_eq!(Hints::auto().suited(&unknown), Hints::none());
    /// assert!(Hints::auto().suited(&unknown.clone().profile(Some("a-model".into()))).has("echo"));
    /// let named: Hints = "echo".parse()?;
    /// assert!(named.suited(&unknown).has("echo"), "who names a hint gets it");
    /// # Ok::<(), toolgate_agent::Error>(())
    /// ```
    #[must_use]
    pub fn suited(&self, facts: &Facts) -> Self {
        match self.is_auto && facts.profile.is_none() {
            true => Self::none(),
            false => self.clone(),
        }
    }

    /// The name of every hint, with the reason why it is there.
    pub fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
        ALL.iter().map(|hint| (hint.name(), hint.reason()))
    }

    /// The same without one of them, if it is on.
    ///
    /// ```
    /// use toolgate_agent::Hints;
    /// let hints: Hints = "lead,echo".parse()?;
    /// assert_eq!(hints.without("lead").to_string(), "echo");
    /// # Ok::<(), toolgate_agent::Error>(())
    /// ```
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.on.remove(name);
        self
    }

    /// Whether one is on.
    pub fn has(&self, name: &str) -> bool {
        self.on.contains(name)
    }

    /// Those of these names that are known here: another process may know others.
    #[doc(hidden)]
    pub fn of_names(names: &[String]) -> Self {
        let is_named = |name: &&str| names.iter().any(|other| other == name);
        Self { on: ALL.iter().map(|hint| hint.name()).filter(is_named).collect(), is_auto: false }
    }

    /// Those that a record names. One that was deleted since is left out: where it made a difference, a replay tells that.
    pub(crate) fn recorded(text: &str) -> Self {
        let names = || text.split(',').map(str::to_owned).collect::<Vec<String>>();
        text.parse().unwrap_or_else(|_| Self::of_names(&names()))
    }

    /// Who tells answers that repeat the request, if that is on.
    #[doc(hidden)]
    pub fn repetitions(&self) -> Option<&'static dyn AnswerWatch> {
        let name = Hint::name(&echo::Echo);
        self.has(name).then_some(&echo::Echo)
    }

    /// The hint by which a call is written again, if that is on.
    pub(crate) fn rewrites(&self) -> Option<&'static str> {
        let name = rewrite::Rewrite.name();
        self.has(name).then_some(name)
    }

    fn on(&self) -> impl Iterator<Item = &'static dyn Hint> {
        ALL.into_iter().filter(|hint| self.has(hint.name()))
    }

    /// What they know before a turn.
    pub(crate) fn advice(&self, at: &Situation<'_>) -> Advice {
        let mut advice = Advice::of(at);
        for hint in self.on() {
            hint.advise(at, &mut advice);
        }
        advice
    }

    /// What is to be put behind an answer, and the hint that says so.
    pub(crate) fn addition(&self, at: &Situation<'_>, answer: &str) -> Option<(&'static str, String)> {
        self.on().find_map(|hint| Some((hint.name(), hint.addition(at, answer)?)))
    }

    /// The hint by which a call that a tool objects to is not made, where this was requested.
    pub(crate) fn refuse(&self, objection: &Objection, request: &str) -> Option<&'static str> {
        self.on().find(|hint| hint.refuses(objection, request)).map(Hint::name)
    }
}

impl FromStr for Hints {
    type Err = Error;

    /// `none`, `auto`, or names with commas between.
    fn from_str(text: &str) -> Result<Self, Error> {
        let known = |name: &str| {
            ALL.iter().map(|hint| hint.name()).find(|other| *other == name).ok_or_else(|| {
                let names: Vec<&str> = ALL.iter().map(|hint| hint.name()).collect();
                Error::input(format!("no hint \"{name}\"; there are: none, auto, {}", names.join(", ")))
            })
        };
        match text {
            "none" => Ok(Self::none()),
            "auto" => Ok(Self::auto()),
            names => names
                .split(',')
                .map(str::trim)
                .map(known)
                .collect::<Result<_, _>>()
                .map(|on| Self { on, is_auto: false }),
        }
    }
}

impl fmt::Display for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.on.is_empty() {
            return f.write_str("none");
        }
        let on: Vec<&str> = self.on().map(Hint::name).collect();
        f.write_str(&on.join(","))
    }
}

/// What hints know before a turn.
#[derive(PartialEq)]
pub(crate) struct Advice {
    /// The definitions, with the arguments held to what is left of them.
    pub(crate) specs: Vec<ToolSpec>,
    /// How each tool goes with the request.
    pub(crate) fits: Vec<Fit>,
    /// What the request names and no call has taken up.
    pub(crate) pending: Pending,
    /// Whether some of that is left to be done, and the last calls took up another part.
    pub(crate) is_pending: bool,
    /// The directories that the request names, as they were written.
    directories: BTreeSet<String>,
    /// The one file to which the last results lead.
    lead: Option<String>,
}

impl Advice {
    /// What is known without any hint: the definitions, with what the state at hand leaves of their arguments.
    fn of(at: &Situation<'_>) -> Self {
        let choices = |offer: &Offer| if at.constrains { offer.choices.clone() } else { Vec::new() };
        let specs = at.offers.iter().map(|offer| held_to(offer.spec.clone(), &choices(offer)));
        Self {
            specs: specs.collect(),
            fits: vec![Fit::Unknown; at.offers.len()],
            pending: Pending::default(),
            is_pending: false,
            directories: BTreeSet::new(),
            lead: None,
        }
    }

    /// What speaks for each tool, as the engine takes it.
    pub(crate) fn prior(&self) -> Vec<f64> {
        self.fits.iter().map(|fit| fit.sign()).collect()
    }
}

/// How a tool goes with a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Nobody knows.
    #[default]
    Unknown,
    /// Nothing was named that is its kind.
    Unnamed,
    /// Something was named that it takes.
    Suits,
    /// What was named is another kind.
    Clashes,
}

impl Fit {
    /// 1 for a tool that takes what was named, -1 for one that does not, 0 where nothing is told.
    pub(crate) fn sign(self) -> f64 {
        match self {
            Self::Suits => 1.0,
            Self::Unknown | Self::Unnamed => 0.0,
            Self::Clashes => -1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use toolgate_tools::PathKind;

    use super::scene::Scene;
    use super::*;

    #[test]
    fn hints_can_be_left_out_one_by_one() {
        let scene = Scene::asked("Please count the lines of plan.txt, and set the timer for my tea.")
            .with_files("view", PathKind::Files, &["plan.txt", "other.txt"])
            .offering(&["tea_timer"]);
        let advice = |hints: Hints| {
            let advice = hints.advice(&scene.at());
            let is_held = advice.specs.first().map(ToolSpec::closed_parameters)
                != scene.offers.first().map(|offer| offer.spec.closed_parameters());
            (advice.prior(), is_held)
        };
        assert_eq!(advice(Hints::auto()), (vec![1.0, 1.0], true));
        assert_eq!(advice(Hints::none()), (vec![0.0; 2], false));
        assert_eq!(advice(Hints::auto().without("mention")), (vec![0.0, 1.0], true));
        assert_eq!(advice(Hints::auto().without("tool-names")), (vec![1.0, 0.0], true));
        assert_eq!(advice(Hints::auto().without("paths")), (vec![1.0; 2], false));
        let pending = |hints: Hints| hints.advice(&scene.at()).is_pending;
        assert!(pending(Hints::auto()) && !pending(Hints::auto().without("pending")));
        assert!(
            Hints::auto().repetitions().is_some() && Hints::auto().without("echo").repetitions().is_none()
        );
    }

    #[test]
    fn a_hint_of_an_older_record_that_was_deleted_since_is_left_out() {
        assert_eq!(Hints::recorded("paths,deleted-since,echo").to_string(), "paths,echo");
        assert_eq!((Hints::recorded("auto"), Hints::recorded("none")), (Hints::auto(), Hints::none()));
    }

    #[test]
    fn every_hint_has_a_name_of_its_own_and_says_why_it_is_there() {
        let names: BTreeSet<&str> = Hints::known().map(|(name, _)| name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(Hints::known().all(|(name, reason)| !name.is_empty() && reason.len() > 20));
        let written: Result<Hints, _> = Hints::auto().to_string().parse();
        assert!(written.is_ok_and(|hints| hints.on == Hints::auto().on), "what is written is read back");
    }
}
