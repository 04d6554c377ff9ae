//! The environment of commands: what is said here, and what the policy sets and passes on.
//!
//! Invariant: no variable is inherited that the policy does not name.

use crate::policy::Policy;

/// The variables of a command. Their values may be secrets.
#[derive(Clone)]
pub(super) struct Environment(Vec<(String, String)>);

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Environment {
    /// The variables under `policy`, with these directories for a home and for temporary files.
    pub(super) fn of(policy: &Policy, home: &str, temporary: &str) -> Self {
        let mut environment = Self(Vec::new());
        for (name, value) in [
            ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"),
            ("HOME", home),
            ("TMPDIR", temporary),
            ("USER", "sandbox"),
            ("LOGNAME", "sandbox"),
            ("LANG", "C.UTF-8"),
        ] {
            environment.set(name, value.to_owned());
        }
        for (name, value) in own().filter(|(name, _)| policy.env_pass.contains(name)) {
            // Where these lead is the sandbox's to say.
            if !["PATH", "HOME", "TMPDIR"].contains(&name.as_str()) {
                environment.set(&name, value);
            }
        }
        for (name, value) in &policy.env_set {
            environment.set(name, value.reveal().to_owned());
        }
        environment
    }

    /// All that this process has, for a test that leaves the layer out.
    #[cfg(target_os = "linux")]
    pub(super) fn inherited() -> Self {
        Self(own().collect())
    }

    /// Sets a variable, whatever it was before.
    pub(super) fn set(&mut self, name: &str, value: String) {
        self.0.retain(|(other, _)| other != name);
        self.0.push((name.to_owned(), value));
    }

    /// Names and values.
    pub(super) fn variables(&self) -> &[(String, String)] {
        &self.0
    }
}

/// The variables of this process.
fn own() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}
