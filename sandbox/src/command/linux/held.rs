//! Makes the report of a call from the findings of its stage.

use super::machine::Outer;
use super::{Followed, Inner, missing, reduced};
use crate::command::layer::{ALL, Held, Layer, Status};
use crate::error::Error;
use crate::report::Enforced;

impl Inner {
    /// The report of a command that has ended, or why it never started.
    pub(super) fn held(&self, followed: &Followed) -> Result<Enforced, Error> {
        match &followed.ended.status {
            Some(Status::Held(held)) => Ok(self.report(held, followed.grouped)),
            Some(Status::Refused { layer, why }) => Err(missing(*layer, why)),
            None => {
                let said = followed.ended.output.beginning();
                let said = crate::output::name(String::from_utf8_lossy(said).trim());
                let (layer, silent) = match self.machine.is_reduced() {
                    true => (Layer::Landlock, "the stage ended without a word"),
                    false => (Layer::Userns, "bubblewrap ended without a word"),
                };
                Err(missing(layer, if said.is_empty() { silent } else { &said }))
            }
        }
    }

    fn report(&self, held: &Held, grouped: bool) -> Enforced {
        let reduced = self.machine.is_reduced();
        let written = self.grants.can_write();
        let mut weaker: Vec<String> =
            self.left_out.iter().map(|layer| format!("{} is left out for a test", layer.name())).collect();
        if let Outer::Nothing { why } = &self.machine.outer {
            weaker.push(format!("reduced, since {why}"));
            weaker.extend(reduced::HOLES.map(str::to_owned));
        }
        if !grouped && self.wants(Layer::Cgroup) {
            weaker.push("memory in total is watched, not bounded (no control group)".to_owned());
        }
        if written && !held.broker && self.wants(Layer::Broker) {
            weaker.push(
                "protected names can be made while a command runs, and are taken back afterwards, others' too".to_owned(),
            );
        }
        if written || reduced {
            weaker.push("disk in total is watched, not bounded".to_owned());
        }
        let by = if reduced { "landlock" } else { "mounts" };
        let net = match &self.network {
            Some(hosts) => format!("proxy: {hosts}"),
            None if held.seccomp || (!reduced && self.wants(Layer::Network)) => "none".to_owned(),
            None => "host".to_owned(),
        };
        Enforced {
            fs: format!("{by}:{}", if written { "read+write" } else { "read" }),
            net,
            process: if reduced { "reduced" } else { "confined" }.into(),
            layers: ALL.iter().filter_map(|layer| self.name_if_held(*layer, held, grouped)).collect(),
            weaker,
            ..Enforced::nothing()
        }
    }

    fn name_if_held(&self, layer: Layer, held: &Held, grouped: bool) -> Option<String> {
        let name = layer.name();
        let holds = match (layer, &self.machine.outer) {
            (Layer::Bubblewrap, Outer::Bubblewrap { version, .. }) => {
                return Some(format!("{name} {version}"));
            }
            (Layer::Landlock, _) => return (held.landlock > 0).then(|| format!("{name} {}", held.landlock)),
            (Layer::Owner, _) => self.machine.has_owner(),
            (Layer::Cgroup, _) => grouped,
            (Layer::Limits, _) => held.limits,
            (Layer::Seccomp, _) => held.seccomp,
            (Layer::Broker, _) => held.broker,
            (layer, Outer::Nothing { .. }) if layer.is_outer() => false,
            _ => self.wants(layer),
        };
        holds.then(|| name.to_owned())
    }
}
