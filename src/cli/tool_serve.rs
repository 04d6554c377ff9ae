//! `toolgate tool serve`: one long-lived process that runs tools for another program, a JSON object a line. What a line
//! says is [`LineServer`]'s.

use std::io::Write;

use clap::Args;
#[cfg(feature = "lab")]
use clap::ValueEnum;
use serde::Deserialize;
use toolgate_sandbox::policy::ProcessLimits;

use super::exit::Exit;
use super::tool::{self, UnaskedArg, Workspace};
use super::undo;
use crate::tools::LineServer;

/// Arguments of `toolgate tool serve`.
#[derive(Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    workspace: Workspace,
    /// The requests' form: that of the escape suite, a set of attacks with its own defaults.
    #[cfg(feature = "lab")]
    #[arg(long, value_enum)]
    protocol: Option<Protocol>,
    /// What becomes of calls that the policy has a person asked about [default: never; auto with a --protocol].
    #[arg(long, value_enum)]
    approve: Option<UnaskedArg>,
    /// Tighter bounds: {"timeout_ms", "memory_mb", "pids", "disk_mb", "output_kb"}, each optional.
    #[arg(long, value_name = "JSON")]
    limits: Option<String>,
}

#[cfg(feature = "lab")]
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Protocol {
    /// Attacks on the sandbox, as their driver asks for them.
    Escapes,
}

/// Bounds as the argument names them.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    timeout_ms: Option<u64>,
    memory_mb: Option<u64>,
    pids: Option<u64>,
    disk_mb: Option<u64>,
    output_kb: Option<u64>,
}

impl From<Limits> for ProcessLimits {
    fn from(limits: Limits) -> Self {
        Self::default()
            .wall_ms(limits.timeout_ms)
            .memory_mb(limits.memory_mb)
            .pids(limits.pids)
            .disk_mb(limits.disk_mb)
            .output_kb(limits.output_kb)
    }
}

/// Answers requests until the input ends.
pub(super) fn run(args: ServeArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    #[cfg(feature = "lab")]
    if args.protocol.is_some() {
        return attacked(args, out);
    }
    let journal = undo::journal(&args.workspace)?;
    if let Some(journal) = &journal {
        journal.begin_session("tool serve");
    }
    let limits = limits(args.limits.as_deref())?;
    let memory = args.workspace.memory()?;
    let registry = tool::registry_with(&args.workspace, &limits, memory, journal.as_ref())?;
    let unasked = args.approve.unwrap_or(UnaskedArg::Never).into();
    LineServer::new(&registry, unasked).run(std::io::stdin().lock(), out)?;
    Ok(Exit::Done)
}

/// Hands the tools to the escape suite.
#[cfg(feature = "lab")]
fn attacked(args: ServeArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    use toolgate_lab::escapes;

    let given = escapes::Setting {
        workspace: args.workspace.workspace.clone(),
        limits: args.limits,
        mode: args.workspace.mode.map(Into::into),
        unasked: args.approve.map(Into::into),
    };
    let open = |setting: &escapes::Setting| {
        let workspace = args.workspace.at(setting.workspace.clone(), setting.mode);
        let limits = limits(setting.limits.as_deref())?;
        let registry = tool::registry_with(&workspace, &limits, workspace.memory()?, None)?;
        let (root, policy, mode) = tool::ground(&workspace, &limits)?;
        Ok(escapes::Attacked { registry, root, policy, mode })
    };
    escapes::serve(given, open, std::io::stdin().lock(), out)?;
    Ok(Exit::Done)
}

/// The bounds of that argument.
fn limits(text: Option<&str>) -> Result<ProcessLimits, crate::Error> {
    let limits = text.map_or(Ok(Limits::default()), serde_json::from_str);
    limits.map(Into::into).map_err(|why| crate::Error::input(format!("--limits: {why}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn limits_are_read_by_their_names_and_unknown_ones_refused() {
        let bounds = limits(Some(r#"{"timeout_ms": 4000, "pids": 128}"#)).unwrap();
        assert_eq!((bounds.wall_ms, bounds.pids, bounds.memory_mb), (Some(4000), Some(128), None));
        let why = limits(Some(r#"{"timeout": 4000}"#)).unwrap_err().to_string();
        assert!(why.starts_with("--limits: unknown field `timeout`"), "{why}");
        assert_eq!(limits(None).unwrap().wall_ms, None);
    }
}
