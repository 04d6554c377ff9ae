//! The self-check: attacks what the profile closes, confined and, as a control, without it.
//!
//! Invariant: an attack that does not work without the profile shows nothing, so the check fails then, too.
//! It runs once in a process, before the first command.

#![allow(clippy::disallowed_methods, reason = "the check's own directory, which it makes")]

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::confined::{Confined, Task, quoted};
use super::follow::{self, Bounds};
use crate::command::environment::Environment;
use crate::command::scratch::Scratch;
use crate::command::{Limits, seatbelt};
use crate::error::{Error, Kind};
use crate::grants::Grants;
use crate::policy::{Mode, Policy};

/// How long each half may take.
const WALL: Duration = Duration::from_secs(10);
/// What must not be read.
const CANARY: &str = "toolgate-canary";
/// What opens a connection.
const NC: &str = "/usr/bin/nc";

/// One thing that is tried, in the shell: `$W` is the workspace, `$O` a directory outside, `$T` the directory
/// for temporary files, `$N` the half of the check.
struct Probe {
    name: &'static str,
    /// Whether it succeeds under the profile. Without the profile all do.
    may: bool,
    what: &'static str,
    command: &'static str,
}

const PROBES: [Probe; 9] = [
    Probe {
        name: "workspace",
        may: true,
        what: "to write in the workspace",
        command: "echo x > \"$W/made\" && grep -q x \"$W/made\"",
    },
    Probe {
        name: "temporary",
        may: true,
        what: "to write a temporary file",
        command: "echo x > \"$T/made-$N\" && grep -q x \"$T/made-$N\"",
    },
    Probe {
        name: "outside",
        may: false,
        what: "to write outside of the workspace",
        command: "echo x > \"$O/made-$N\"",
    },
    Probe {
        name: "canary",
        may: false,
        what: "to read outside of the workspace",
        command: "grep -q toolgate-canary \"$O/canary\"",
    },
    Probe {
        name: "secret",
        may: false,
        what: "to read a closed file",
        command: "grep -q toolgate-canary \"$W/.env\"",
    },
    Probe {
        name: "renamed",
        may: false,
        what: "to read a closed file by another name",
        command: "mv \"$W/.env\" \"$W/plain\" && grep -q toolgate-canary \"$W/plain\"",
    },
    Probe {
        name: "protected",
        may: false,
        what: "to write a protected file",
        command: "mkdir -p \"$W/.git/hooks\" && echo x > \"$W/.git/hooks/pre-commit\"",
    },
    Probe {
        name: "moved",
        may: false,
        what: "to write a protected file in another directory",
        command: "mv \"$W/sub\" \"$T/sub-$N\" && echo x > \"$T/sub-$N/.git/config\"",
    },
    Probe {
        name: "network",
        may: false,
        what: "to open a connection",
        command: "/usr/bin/nc -z -w 1 127.0.0.1 \"$P\"",
    },
];

/// Checks that Seatbelt confines on this machine.
///
/// # Errors
/// [`Kind::Unavailable`] with what failed. It fails again until this process ends.
pub(super) fn checked() -> Result<(), Error> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let place = Place::new().map_err(|why| why.to_string())?;
        judge(&place.half("control")?, &place.half("confined")?)
    });
    found.clone().map_err(|why| {
        Error::new(Kind::Unavailable, format!("commands are refused: Seatbelt does not confine here ({why})"))
            .hint("run \"toolgate doctor\" for more")
    })
}

/// What there is to attack.
struct Place {
    /// The workspaces, and the directory outside of them.
    ground: Scratch,
    /// The directory for temporary files.
    scratch: Scratch,
    listener: TcpListener,
}

impl Place {
    fn new() -> Result<Self, Error> {
        let failed = |why: std::io::Error| {
            Error::new(Kind::Failed, format!("the check could not be made ready: {why}")).because(why)
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let place = Self { ground: Scratch::new()?, scratch: Scratch::new()?, listener };
        let outside = Path::new(place.ground.temporary()).join("outside");
        std::fs::create_dir(&outside).map_err(failed)?;
        std::fs::write(outside.join("canary"), CANARY).map_err(failed)?;
        for half in ["control", "confined"] {
            let workspace = Path::new(place.ground.temporary()).join(half);
            std::fs::create_dir_all(workspace.join("sub/.git")).map_err(failed)?;
            std::fs::write(workspace.join("sub/.git/config"), "").map_err(failed)?;
            std::fs::write(workspace.join(".env"), CANARY).map_err(failed)?;
        }
        Ok(place)
    }

    /// What one half says: the one with the name `control` has no profile.
    fn half(&self, name: &str) -> Result<String, String> {
        let workspace = format!("{}/{name}", self.ground.temporary());
        let (temporary, home) = (self.scratch.temporary(), self.scratch.home());
        let profile = (name != "control")
            .then(|| seatbelt::profile(&Grants::read_write(), &workspace, temporary))
            .transpose()
            .map_err(|why| why.to_string())?;
        let port = self.listener.local_addr().map_err(|why| why.to_string())?.port();
        let outside = format!("{}/outside", self.ground.temporary());
        let confined = Confined::new(Task {
            profile: profile.as_deref(),
            shell: None,
            command: &script(&workspace, &outside, temporary, name, port),
            limits: &Limits::default(),
            environment: Environment::of(&Policy::default_for(Mode::Edit), home, temporary),
            directory: workspace.clone().into(),
            number: crate::fs::drawn(),
        });
        let bounds = Bounds { wall: WALL, output: 65_536, stop: Arc::default() };
        let followed = follow::run(&confined, &bounds)
            .map_err(|why| format!("{} cannot be started: {why}", confined.program))?;
        let whole = followed.output.into_bytes();
        let said = confined.output(&whole).map_err(|instead| {
            format!(
                "{} said: {}",
                confined.program,
                crate::output::name(String::from_utf8_lossy(instead).trim())
            )
        })?;
        Ok(String::from_utf8_lossy(said).into_owned())
    }
}

/// All that is tried, as one script. Each probe says `yes` or `no` behind its name.
fn script(workspace: &str, outside: &str, temporary: &str, half: &str, port: u16) -> String {
    let port = port.to_string();
    let mut script = String::new();
    for (name, value) in
        [("W", workspace), ("O", outside), ("T", temporary), ("N", half), ("P", port.as_str())]
    {
        script.push_str(&format!("{name}={}\n", quoted(value)));
    }
    for Probe { name, command, .. } in &PROBES {
        let told = format!("( {command} ) >/dev/null 2>&1; then echo {name} yes; else echo {name} no; fi\n");
        match command.starts_with(NC) {
            true => script.push_str(&format!("if ! [ -x {NC} ]; then echo {name} absent; elif {told}")),
            false => script.push_str(&format!("if {told}")),
        }
    }
    script
}

/// What a half says of a probe.
fn told<'a>(said: &'a str, name: &str) -> Option<&'a str> {
    said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
}

/// Whether the profile closed what it should and nothing else; if not, what failed.
fn judge(control: &str, confined: &str) -> Result<(), String> {
    for Probe { name, may, what, .. } in &PROBES {
        match told(control, name) {
            Some("yes") => {}
            Some("absent") => return Err(format!("there is no {NC} to try the network with")),
            _ => return Err(format!("the attempt {what} fails without a profile too, so it shows nothing")),
        }
        match (told(confined, name), *may) {
            (Some("yes"), true) | (Some("no"), false) => {}
            (Some("yes"), false) => return Err(format!("a command was able {what}")),
            (Some("no"), true) => return Err(format!("a command was not able {what}")),
            _ => return Err(format!("the check ended before the attempt {what}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn said(word: impl Fn(&Probe) -> &'static str) -> String {
        PROBES.iter().map(|probe| format!("{} {}\n", probe.name, word(probe))).collect()
    }

    #[test]
    fn a_check_passes_where_all_works_without_a_profile_and_only_what_may_with_it() {
        let control = said(|_| "yes");
        let good = said(|probe| if probe.may { "yes" } else { "no" });
        assert_eq!(judge(&control, &good), Ok(()));
        for failing in &PROBES {
            let other = |word: &'static str, base: &str| {
                let of = |probe: &Probe| told(base, probe.name) == Some("yes");
                said(|probe| match (probe.name == failing.name, of(probe)) {
                    (true, _) => word,
                    (false, true) => "yes",
                    (false, false) => "no",
                })
            };
            let why = judge(&control, &other(if failing.may { "no" } else { "yes" }, &good)).unwrap_err();
            assert!(why.contains(failing.what) && why.contains("able"), "{why}");
            let why = judge(&other("no", &control), &good).unwrap_err();
            assert!(why.contains(failing.what) && why.contains("shows nothing"), "{why}");
            let why = judge(&control, &other("perhaps", &good)).unwrap_err();
            assert!(why.contains(failing.what) && why.contains("ended before"), "{why}");
        }
        assert!(judge(&said(|_| "absent"), &good).unwrap_err().contains(NC));
        assert!(judge("", "").is_err() && judge(&control, "").is_err() && judge("", &good).is_err());
    }

    #[test]
    fn the_attacks_work_without_a_profile() {
        let place = Place::new().unwrap();
        let control = place.half("control").unwrap();
        for probe in PROBES.iter().filter(|probe| !probe.command.starts_with(NC)) {
            assert_eq!(told(&control, probe.name), Some("yes"), "{}: {control}", probe.what);
        }
        assert!(["yes", "no", "absent"].contains(&told(&control, "network").unwrap()), "{control}");
    }
}
