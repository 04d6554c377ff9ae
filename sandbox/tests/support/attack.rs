//! Attacks of commands by name, and what there is for them to get at.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what is attacked are plain processes"
)]

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use toolgate_sandbox::command::Layer;

use super::CANARY;
use super::shell::{Field, unused_key};

/// An attack, and the layers that stop it: each of them alone is enough. Without any it is a hole that reports tell of.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// Succeeds if it gets through.
    pub(crate) command: &'static str,
    pub(crate) stopped_by: &'static [Layer],
}

/// The attacks in one script: each that gets through says so.
pub(crate) fn script(attacks: &[Attack], target: &Target) -> String {
    let one = |attack: &Attack| {
        format!("({}) >/dev/null 2>&1 && echo GOT-{}\n", target.script(attack.command), attack.name)
    };
    attacks.iter().map(one).collect()
}

/// The attacks that say that they got through.
pub(crate) fn through(attacks: &[Attack], said: &str) -> BTreeSet<&'static str> {
    let through = |attack: &&Attack| said.contains(&format!("GOT-{}\n", attack.name));
    attacks.iter().filter(through).map(|attack| attack.name).collect()
}

/// The names of attacks.
pub(crate) fn names(attacks: &[Attack]) -> BTreeSet<&'static str> {
    attacks.iter().map(|attack| attack.name).collect()
}

/// A workspace, and what there is to attack beside its files.
pub(crate) struct Target {
    pub(crate) field: Field,
    secret: fs::File,
    victim: Child,
    queue: u64,
}

impl Target {
    pub(crate) fn around(field: Field) -> Self {
        let secret = fs::File::open(field.out.join("secret.txt")).unwrap();
        // Not closed on exec: a careless embedder's descriptor.
        rustix::io::fcntl_setfd(&secret, rustix::io::FdFlags::empty()).unwrap();
        let victim = Command::new("sleep").arg0(CANARY).env("SECRET", CANARY).arg("600").spawn().unwrap();
        let queue = unused_key();
        let made = format!("exit !defined msgget({queue}, 0666 | 01000)");
        assert!(Command::new("perl").args(["-e", &made]).status().unwrap().success());
        Self { field, secret, victim, queue }
    }

    fn script(&self, command: &str) -> String {
        self.field
            .script(command)
            .replace("$FD", &self.secret.as_raw_fd().to_string())
            .replace("$VICTIM", &self.victim.id().to_string())
            .replace("$QUEUE", &self.queue.to_string())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        let removed = format!("msgctl(msgget({}, 0), 0, 0)", self.queue);
        let _ = Command::new("perl").args(["-e", &removed]).status();
    }
}
