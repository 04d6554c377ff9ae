//! Finds the mechanisms of this machine that commands use, and checks them against a policy.
//!
//! Invariant: only [`Machine::reduced`] chooses the reduced tier, and only for a policy that names it.

use super::program::{self, Program};
use super::{cgroup, host, landlock, missing, sys};
use crate::command::layer::wanted;
use crate::command::{Layer, Setup};
use crate::error::{Error, Kind};
use crate::fs::Root;
use crate::policy::Policy;

/// Layers without which no command runs, whatever a policy leaves out.
const REQUIRED: [(Layer, Option<u32>); 3] =
    [(Layer::Userns, None), (Layer::Landlock, None), (Layer::Seccomp, None)];
/// The Landlock interface that the reduced tier needs: the first that keeps signals inside.
const REDUCED_LANDLOCK: u32 = 6;

/// What of this machine is used.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) outer: Outer,
    pub(super) stage: Program,
    /// Whether the stage is not the running program itself.
    names_stage: bool,
    pub(super) landlock: u32,
    pub(super) groups: Result<cgroup::Place, String>,
}

/// What a command is put in from outside.
#[derive(Debug)]
pub(super) enum Outer {
    /// Bubblewrap's namespaces.
    Bubblewrap {
        program: Program,
        version: String,
        /// Whether commands need a user of their own, since the runtime is root.
        owner: bool,
    },
    /// Nothing: the reduced tier.
    Nothing {
        /// Why there is no more.
        why: String,
    },
}

impl Machine {
    /// What there is for all layers.
    pub(super) fn find(setup: &Setup) -> Result<Self, Error> {
        let path = setup.bubblewrap.clone().or_else(|| program::find("bwrap"));
        let path =
            path.ok_or_else(|| missing(Layer::Bubblewrap, "there is no bwrap in the system's directories"))?;
        let program = Program::open(&path).map_err(|why| {
            missing(Layer::Bubblewrap, &format!("{} cannot be started: {why}", path.display()))
        })?;
        if program.is_changeable() {
            let shown = program.shown().display();
            let why = format!("{shown} could be changed by those that it is to confine: root should own it");
            return Err(missing(Layer::Bubblewrap, &why));
        }
        let version = host::version_of(&program).map_err(|why| missing(Layer::Bubblewrap, &why))?;
        let owner = sys::effective_uid() == 0 && wanted(Layer::Owner, setup.left_out());
        Self::with(Outer::Bubblewrap { program, version, owner }, setup)
    }

    /// What there is for the reduced tier; `why` says why there is no more.
    pub(super) fn reduced(setup: &Setup, why: String) -> Result<Self, Error> {
        if sys::effective_uid() == 0 {
            return Err(Error::new(Kind::Unavailable, "it is not for root, who owns what it leaves open")
                .hint("run as an ordinary user"));
        }
        Self::with(Outer::Nothing { why }, setup)
    }

    fn with(outer: Outer, setup: &Setup) -> Result<Self, Error> {
        let none = |why: String| {
            Error::new(
                Kind::Unavailable,
                format!("commands are refused: there is no program for the inner stage{why}"),
            )
            .hint("call command::enter_stage_if_asked first in main, or name one in Setup::stage")
        };
        let stage = match &setup.stage {
            Some(path) => Program::open(path).map_err(|why| none(format!(" ({}: {why})", path.display())))?,
            None => program::own().ok_or_else(|| none(String::new()))?,
        };
        let names_stage = setup.stage.is_some();
        let landlock = sys::landlock_abi().unwrap_or(0);
        Ok(Self { outer, stage, names_stage, landlock, groups: cgroup::place() })
    }

    /// Whether this is the reduced tier.
    pub(super) fn is_reduced(&self) -> bool {
        matches!(self.outer, Outer::Nothing { .. })
    }

    /// Bubblewrap's version and place, for people.
    pub(super) fn bubblewrap(&self) -> String {
        match &self.outer {
            Outer::Bubblewrap { program, version, .. } => {
                format!("version {version} at {}", program.shown().display())
            }
            Outer::Nothing { why } => why.clone(),
        }
    }

    /// Whether commands get a user of their own.
    pub(super) fn has_owner(&self) -> bool {
        matches!(self.outer, Outer::Bubblewrap { owner: true, .. })
    }

    /// Whether what a policy requires is there, as far as that can be told without a trial run.
    pub(super) fn check(&self, policy: &Policy, workspace: &Root) -> Result<(), Error> {
        self.check_programs(workspace)?;
        let parse = |name: &String| {
            Layer::parse(name).ok_or_else(|| Error::new(Kind::Policy, "unknown layer").at(name))
        };
        for name in &policy.require_layers {
            self.check_layer(parse(name)?)?;
        }
        if self.is_reduced() {
            self.check_layer((Layer::Landlock, Some(REDUCED_LANDLOCK)))?;
            return self.check_layer((Layer::Seccomp, None));
        }
        REQUIRED.into_iter().try_for_each(|layer| self.check_layer(layer))
    }

    /// Checks that commands cannot write to a program that confines them. The running program is the one that
    /// was opened, and nobody can write to it while it runs. But bubblewrap and a separate stage run only now
    /// and then.
    fn check_programs(&self, workspace: &Root) -> Result<(), Error> {
        let bubblewrap = match &self.outer {
            Outer::Bubblewrap { program, .. } => Some(program),
            Outer::Nothing { .. } => None,
        };
        let stage = Some(&self.stage).filter(|_| self.names_stage);
        match bubblewrap.into_iter().chain(stage).find(|program| program.lies_in(workspace)) {
            None => Ok(()),
            Some(program) => {
                let why = format!(
                    "{} lies in the workspace, where commands could change it",
                    program.shown().display()
                );
                Err(missing(Layer::Bubblewrap, &why))
            }
        }
    }

    fn check_layer(&self, (layer, least): (Layer, Option<u32>)) -> Result<(), Error> {
        let oldest = least.unwrap_or(landlock::OLDEST).max(landlock::OLDEST);
        let found = self.landlock;
        match (layer, &self.groups) {
            (Layer::Landlock, _) if found == 0 => Err(missing(layer, "the kernel does not offer it")),
            (Layer::Landlock, _) if found < oldest => {
                Err(missing(layer, &format!("the kernel has version {found}, {oldest} is needed")))
            }
            (Layer::Seccomp, _) if !sys::has_seccomp() => {
                Err(missing(layer, "the kernel does not offer filters"))
            }
            (Layer::Cgroup, Err(why)) => Err(missing(layer, why)),
            (layer, _) if self.is_reduced() && layer.is_outer() => {
                Err(missing(layer, "the reduced tier does not have it, and the policy requires it"))
            }
            _ => Ok(()),
        }
    }
}
