//! Reports the layers of this machine to people: the finding, the way to get a missing layer, and the effect
//! of its absence.

use super::machine::Machine;
use super::{Commands, landlock, sys};
use crate::command::{LAYERS, Layer, LayerState, Setup};
use crate::error::Error;
use crate::fs::Root;
use crate::policy::{Mode, Policy};

/// Every layer, outermost first.
pub(super) fn layers(root: &Root, setup: &Setup) -> Vec<LayerState> {
    let machine = Machine::find(setup);
    let policy = Policy::default_for(Mode::Intel);
    let trial = Commands::new(root, &policy, Mode::Intel, setup).map(drop);
    // The broker is beside commands that can write.
    let writing = Commands::new(root, &Policy::default_for(Mode::Edit), Mode::Edit, setup);
    let broker = writing.and_then(|commands| commands.enforced()).map(|held| held.layers);
    let broker = broker.is_ok_and(|layers| layers.iter().any(|layer| layer == Layer::Broker.name()));
    LAYERS.iter().map(|layer| state(*layer, machine.as_ref(), &trial, broker)).collect()
}

/// What is said of a layer that was not reached.
const UNTRIED: &str = "not tried, since another layer is missing";

fn state(
    layer: Layer,
    machine: Result<&Machine, &Error>,
    trial: &Result<(), Error>,
    broker: bool,
) -> LayerState {
    let looked = match (layer, machine) {
        (Layer::Bubblewrap, Ok(machine)) => Ok(machine.bubblewrap()),
        (Layer::Bubblewrap, Err(error)) => Err(error.to_string()),
        (Layer::Landlock, _) => match sys::landlock_abi() {
            None => Err("the kernel does not offer it".to_owned()),
            Some(abi) if abi < landlock::OLDEST => {
                Err(format!("version {abi}; {} is needed", landlock::OLDEST))
            }
            Some(abi) => Ok(format!("version {abi}")),
        },
        (Layer::Seccomp, _) if sys::has_seccomp() => Ok("filters by system call and argument".to_owned()),
        (Layer::Seccomp, _) => Err("the kernel does not offer filters".to_owned()),
        (Layer::Cgroup, Ok(machine)) => match &machine.groups {
            Ok(_) => Ok("memory and processes in total".to_owned()),
            Err(why) => Err(why.clone()),
        },
        (Layer::Broker, _) if broker => {
            Ok("makes names in a command's place, and refuses those that are protected".to_owned())
        }
        (Layer::Broker, _) if trial.is_ok() => {
            Err("no process may look into those that it has started".to_owned())
        }
        (Layer::Owner, _) if sys::effective_uid() != 0 => {
            Ok("not needed: the runtime is not root".to_owned())
        }
        _ => match trial {
            Ok(()) => Ok("seen to hold in a trial run".to_owned()),
            Err(error) if error.layer() == Some(layer) => Err(error.to_string()),
            Err(_) => Err(UNTRIED.to_owned()),
        },
    };
    // A layer that is there and does not hold is not there.
    let looked = match trial {
        Err(error) if error.layer() == Some(layer) => Err(error.to_string()),
        _ => looked,
    };
    let required = !matches!(layer, Layer::Cgroup | Layer::Broker);
    let (works, found) = match looked {
        Ok(found) => (true, found),
        Err(why) => (false, why),
    };
    // What is missing only for want of another layer is to be had by getting that one.
    let untried = found == UNTRIED;
    let without = if required && layer.is_outer() {
        "run_command is refused, unless the policy says [require] confinement = \"reduced\"; file tools work"
    } else if required {
        "run_command is refused; file tools work"
    } else if layer == Layer::Broker {
        "protected names can be made while a command runs, and are taken back afterwards, others' too"
    } else {
        "memory in total is watched instead of bounded; each process stays bounded"
    };
    LayerState {
        layer,
        works,
        required,
        found,
        remedy: (!works && !untried).then(|| remedy(layer)).flatten().map(str::to_owned),
        without: (!works).then(|| without.to_owned()),
    }
}

/// How to get a layer.
pub(super) fn remedy(layer: Layer) -> Option<&'static str> {
    Some(match layer {
        Layer::Bubblewrap => {
            "install bubblewrap (Debian, Ubuntu, Fedora, Alpine, Arch: the package is called bubblewrap)"
        }
        Layer::Userns | Layer::Mounts | Layer::Processes | Layer::Ipc | Layer::Names | Layer::Network => {
            "allow user namespaces: user.max_user_namespaces above 0; on Debian \
             kernel.unprivileged_userns_clone=1; on Ubuntu an AppArmor profile for bwrap; in a container, profiles \
             that allow them"
        }
        Layer::Landlock => {
            "use Linux 6.2 or later (6.12 for the reduced tier), with landlock among the security modules (lsm=)"
        }
        Layer::Seccomp => "use a kernel with CONFIG_SECCOMP_FILTER",
        Layer::Cgroup => {
            "run as root, or in a delegated control group (systemd-run --user --scope -p Delegate=yes)"
        }
        Layer::Owner => {
            "run as an ordinary user; or, as root, with CAP_SYS_ADMIN on Linux 5.12 or later and a file system that \
             maps owners (ext4, xfs, btrfs, tmpfs)"
        }
        Layer::Broker => {
            "use Linux 5.19 or later, and let processes look into those that they have started: kernel.yama.ptrace_scope \
             at most 1"
        }
        Layer::Environment | Layer::Descriptors | Layer::Limits => return None,
    })
}
