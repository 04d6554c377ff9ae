//! Confines by Landlock inside the mount namespace: the same limits again, by another part of the kernel.
//!
//! Invariant: every handled right is handled strictly. A right that the kernel knows and the rules do not
//! grant is refused.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort, PathBeneath,
    PathFd, RestrictionStatus, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError,
    RulesetStatus, Scope,
};
use serde::{Deserialize, Serialize};

/// The oldest interface that is of use: older ones refuse every rename between directories, or let truncation through.
pub(super) const OLDEST: u32 = 3;

/// The oldest interface that tells one port from others.
pub(super) const CONNECTIONS: u32 = 4;

/// What a command may do with files, by absolute path inside the sandbox. What is not there is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rules {
    /// Trees and files that can be read and run.
    pub(super) read: Vec<String>,
    /// Trees that can be changed too.
    pub(super) write: Vec<String>,
    /// Files that can be read and written, and nothing else: devices.
    pub(super) devices: Vec<String>,
    /// Trees whose names can be listed.
    pub(super) list: Vec<String>,
    /// The port of the only connections that can be made, on kernels that tell.
    pub(super) connect: Option<u16>,
    /// Trees and files of the workspace, by path below it and without a link on the way. With mounts around the command
    /// there are none.
    pub(super) workspace: Vec<(String, Access)>,
}

impl Rules {
    /// The same, and all of `/proc` to read.
    pub(super) fn with_proc(&self) -> Self {
        let mut rules = self.clone();
        rules.read.push("/proc".to_owned());
        rules
    }
}

/// What may be done with a part of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Access {
    List,
    Read,
    Write,
}

/// Confines this process, which is in the workspace, and all it starts; gives back the interface that holds. Needs
/// `no_new_privs`.
pub(super) fn confine(rules: &Rules, kernel: u32) -> Result<u32, RulesetError> {
    let (abi, number) = interface(kernel);
    let all = AccessFs::from_all(abi);
    let mut ruleset =
        Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(all)?;
    if number >= CONNECTIONS {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi))?;
    }
    if number >= 6 {
        ruleset = ruleset.scope(Scope::from_all(abi))?;
    }
    let mut created = ruleset.create()?;
    if let Some(port) = rules.connect.filter(|_| number >= CONNECTIONS) {
        created = created.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    let read = AccessFs::from_read(abi);
    let device = (AccessFs::ReadFile | AccessFs::WriteFile) & all;
    for (paths, access) in [
        (&rules.read, read),
        (&rules.write, all),
        (&rules.devices, device),
        (&rules.list, AccessFs::ReadDir.into()),
    ] {
        for path in paths {
            // What this machine does not have needs no rule.
            let Ok(opened) = PathFd::new(path) else { continue };
            created = created.add_rule(PathBeneath::new(opened, fitting(path, access, abi)))?;
        }
    }
    for (path, access) in &rules.workspace {
        let Some((opened, directory)) = open_below(path) else { continue };
        let access = match access {
            Access::List => AccessFs::ReadDir.into(),
            Access::Read => read,
            Access::Write => all,
        };
        let access = if directory { access } else { access & AccessFs::from_file(abi) };
        created = created.add_rule(PathBeneath::new(opened, access))?;
    }
    let RestrictionStatus { ruleset, .. } = created.restrict_self()?;
    Ok(if ruleset == RulesetStatus::FullyEnforced { number } else { 0 })
}

/// A directory or file below the present one, reached by single names and never through a link, and which of both it is.
fn open_below(path: &str) -> Option<(OwnedFd, bool)> {
    use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
    let open = |at: BorrowedFd<'_>, name: &str| {
        openat(at, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()
    };
    let mut opened = open(CWD, ".")?;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        opened = open(opened.as_fd(), name)?;
    }
    let kind = FileType::from_raw_mode(fstat(&opened).ok()?.st_mode);
    (kind != FileType::Symlink).then_some((opened, kind == FileType::Directory))
}

/// A rule for a file may hold no right of directories.
fn fitting(path: &str, access: BitFlags<AccessFs>, abi: ABI) -> BitFlags<AccessFs> {
    #[expect(clippy::disallowed_methods, reason = "the stage looks at its own sandbox")]
    let directory = std::path::Path::new(path).is_dir();
    if directory { access } else { access & AccessFs::from_file(abi) }
}

/// The newest interface that both the kernel and these rules know.
fn interface(kernel: u32) -> (ABI, u32) {
    match kernel {
        ..=3 => (ABI::V3, 3),
        4 => (ABI::V4, 4),
        5 => (ABI::V5, 5),
        _ => (ABI::V6, 6),
    }
}
