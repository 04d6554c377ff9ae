//! The system call filter: the list of allowed calls. It is the last layer before the self-check.
//!
//! Invariant: it is a list of what is allowed. A number that is not on it, whatever a newer kernel does with it, fails with
//! `ENOSYS` as on an older one; calls of another architecture or of the x32 interface end the process, since numbers mean
//! other things there.

mod calls;
mod notify;

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use super::sys;
use calls::{ALLOWED, COUNTED_BY_GROUP, REFUSED, REQUESTS, SHARED};
pub(super) use notify::{SYS_RENAMEAT, notify_about};

/// What the filter has to make up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Around {
    /// There are no namespaces.
    pub(super) reduced: bool,
    /// There is a control group, which counts memory that belongs to no process.
    pub(super) group: bool,
    /// There is a proxy to be connected to.
    pub(super) network: bool,
}

/// Each of these bits in `clone`'s flags makes a namespace.
const NAMESPACES: &[i32] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    // CLONE_NEWTIME is a bit of the exit signal in this call and cannot be asked for.
];

/// Calls with a file mode, and the argument it is: set-user-id and set-group-id are not for the sandbox to give.
const MODES: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (SYS_FCHMODAT2, 2),
    (libc::SYS_openat, 3),
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
];

/// The same number on every architecture.
const SYS_FCHMODAT2: i64 = 452;

/// Refused in the reduced tier for any process but the caller, which is 0: the argument that names it.
const OTHERS: &[(i64, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

/// Compiled filters, made before anything is given up.
pub(super) struct Filters(Vec<BpfProgram>);

/// Compiles the filters. Where two of them fail a call, the later one's error is what the caller gets.
pub(super) fn compile(around: Around) -> Result<Filters, seccompiler::Error> {
    let programs = [
        filter(allowed(around), Fails::Others(libc::ENOSYS))?,
        filter(refused(around)?, Fails::Those(libc::EPERM))?,
        // Takes any amount of disk at once, before a watcher could look. Every caller then writes instead.
        filter(plain(&[libc::SYS_fallocate]), Fails::Those(libc::EOPNOTSUPP))?,
        filter(requests()?, Fails::Those(libc::ENOTTY))?,
        // Nothing inside can trace anything, and the runtime has to be able to account for every process.
        filter(hiding()?, Fails::Those(0))?,
    ];
    Ok(Filters(programs.into()))
}

impl Filters {
    /// Installs them for this process and all it starts. Needs `no_new_privs`.
    pub(super) fn install(&self) -> io::Result<()> {
        #[cfg(target_arch = "x86_64")]
        sys::install_filter(&refuse_x32())?;
        for program in &self.0 {
            seccompiler::apply_filter(program).map_err(io::Error::other)?;
        }
        Ok(())
    }
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Which calls fail, and how.
enum Fails {
    Those(i32),
    Others(i32),
}

fn filter(rules: Rules, fails: Fails) -> Result<BpfProgram, seccompiler::Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let error = |errno: i32| SeccompAction::Errno(errno.unsigned_abs());
    let (others, those) = match fails {
        Fails::Those(errno) => (SeccompAction::Allow, error(errno)),
        Fails::Others(errno) => (error(errno), SeccompAction::Allow),
    };
    Ok(SeccompFilter::new(rules, others, those, arch)?.try_into()?)
}

/// Calls whatever their arguments: an empty list of rules fits every call of that number.
fn plain(calls: &[i64]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

fn allowed(around: Around) -> Rules {
    let mut rules: Rules = ALLOWED.iter().copied().flat_map(plain).collect();
    // What is refused has its own error, and is looked at by another filter.
    rules.extend(plain(REFUSED));
    rules.extend(plain(&[libc::SYS_fallocate]));
    if around.group {
        rules.extend(plain(COUNTED_BY_GROUP));
    }
    rules
}

/// What is refused by number, and what by its arguments.
fn refused(around: Around) -> Result<Rules, seccompiler::Error> {
    let mut rules = plain(REFUSED);
    let bit = |argument: u8, bit: u64| {
        let condition = SeccompCondition::new(argument, Width::Dword, Op::MaskedEq(bit), bit)?;
        Ok::<_, seccompiler::Error>(SeccompRule::new(vec![condition])?)
    };
    let is = |argument: u8, op: Op, value: u64| SeccompCondition::new(argument, Width::Dword, op, value);
    let mut clone = Vec::new();
    for flag in NAMESPACES {
        clone.push(bit(0, u64::from(flag.unsigned_abs()))?);
    }
    rules.insert(libc::SYS_clone, clone);
    for (call, argument) in MODES {
        rules.insert(*call, vec![bit(*argument, 0o4000)?, bit(*argument, 0o2000)?]);
    }
    // Devices: the type is a field, not a bit.
    let mknod = [
        (libc::SYS_mknodat, 2u8),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, 1),
    ];
    for (call, argument) in mknod {
        for kind in [libc::S_IFCHR, libc::S_IFBLK] {
            let mask = Op::MaskedEq(u64::from(libc::S_IFMT));
            let device = SeccompRule::new(vec![is(argument, mask, u64::from(kind))?])?;
            rules.entry(call).or_default().push(device);
        }
    }
    // A pair of connected sockets is a pipe, and many programs make one.
    let pair = is(0, Op::Ne, u64::from(libc::AF_UNIX.unsigned_abs()))?;
    rules.insert(libc::SYS_socketpair, vec![SeccompRule::new(vec![pair])?]);
    // It writes to its other end, and to no address: a service of this machine may listen in the workspace.
    let address = SeccompCondition::new(4, Width::Qword, Op::Ne, 0)?;
    rules.insert(libc::SYS_sendto, vec![SeccompRule::new(vec![address])?]);
    // Asking for the personality, and the usual one, are harmless.
    let other = vec![is(0, Op::Ne, 0)?, is(0, Op::Ne, 0xffff_ffff)?];
    rules.insert(libc::SYS_personality, vec![SeccompRule::new(other)?]);
    // Programs may filter themselves further, and not answer in the broker's place.
    rules.insert(libc::SYS_seccomp, vec![bit(1, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?]);
    if around.reduced {
        rules.extend(refused_without_namespaces()?);
    }
    if around.network {
        connecting(&mut rules)?;
    }
    Ok(rules)
}

/// Lets connections by TCP be made, and nothing else of sockets: no datagrams, nobody is listened for, and a pair cannot be
/// led to another place. Where they go is the network namespace's to say.
fn connecting(rules: &mut Rules) -> Result<(), seccompiler::Error> {
    let is = |argument: u8, op: Op, value: i32| {
        SeccompCondition::new(argument, Width::Dword, op, u64::from(value.unsigned_abs()))
    };
    // The kind is the lower four bits, of which a stream has the first alone.
    let kinds = |argument: u8| -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
        let bit =
            |bit: i32| SeccompRule::new(vec![is(argument, Op::MaskedEq(bit.unsigned_abs().into()), bit)?]);
        [2, 4, 8].into_iter().map(bit).collect()
    };
    let mut socket = kinds(1)?;
    socket.push(SeccompRule::new(vec![is(0, Op::Ne, libc::AF_INET)?])?);
    // Other protocols of streams are not held to a port by Landlock.
    socket.push(SeccompRule::new(vec![is(2, Op::Ne, 0)?, is(2, Op::Ne, libc::IPPROTO_TCP)?])?);
    rules.insert(libc::SYS_socket, socket);
    rules.remove(&libc::SYS_connect);
    // A datagram socket of a pair could be connected to a service of this machine that listens in the workspace.
    rules.entry(libc::SYS_socketpair).or_default().extend(kinds(1)?);
    // Of TCP's own options none that puts another protocol on top. Of IP's own, Node sets the type of service, and ends where it
    // cannot.
    let level = [libc::SOL_SOCKET, libc::IPPROTO_TCP, libc::IPPROTO_IP].map(|level| is(1, Op::Ne, level));
    let levels = level.into_iter().collect::<Result<Vec<_>, _>>()?;
    let upper = vec![is(1, Op::Eq, libc::IPPROTO_TCP)?, is(2, Op::Eq, libc::TCP_ULP)?];
    let other =
        vec![is(1, Op::Eq, libc::IPPROTO_IP)?, is(2, Op::Ne, libc::IP_TOS)?, is(2, Op::Ne, libc::IP_TTL)?];
    let options = [levels, upper, other].into_iter().map(SeccompRule::new).collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_setsockopt, options);
    Ok(())
}

fn refused_without_namespaces() -> Result<Rules, seccompiler::Error> {
    let mut rules = plain(SHARED);
    let isnt = |argument: u8, value: u64| {
        let condition = SeccompCondition::new(argument, Width::Dword, Op::Ne, value)?;
        Ok::<_, seccompiler::Error>(SeccompRule::new(vec![condition])?)
    };
    for (call, argument) in OTHERS {
        rules.insert(*call, vec![isnt(*argument, 0)?]);
    }
    // Not for the processes of a group or of a user either.
    for (call, one_process) in
        [(libc::SYS_setpriority, u64::from(libc::PRIO_PROCESS)), (libc::SYS_ioprio_set, 1)]
    {
        rules.entry(call).or_default().push(isnt(0, one_process)?);
    }
    Ok(rules)
}

/// Requests that are none of those that `ioctl` takes. They are compared by their low 32 bits, which is all the kernel looks at.
fn requests() -> Result<Rules, seccompiler::Error> {
    let isnt = |request: &u64| SeccompCondition::new(1, Width::Dword, Op::Ne, request & 0xffff_ffff);
    let other = REQUESTS.iter().map(isnt).collect::<Result<Vec<_>, _>>()?;
    Ok(BTreeMap::from([(libc::SYS_ioctl, vec![SeccompRule::new(other)?])]))
}

/// A process that makes itself one that cannot be looked into; it is told that it did.
fn hiding() -> Result<Rules, seccompiler::Error> {
    let dumpable = u64::from(libc::PR_SET_DUMPABLE.unsigned_abs());
    let rule = vec![SeccompCondition::new(0, Width::Dword, Op::Eq, dumpable)?];
    Ok(BTreeMap::from([(libc::SYS_prctl, vec![SeccompRule::new(rule)?])]))
}

/// Ends a process that calls by the x32 interface: same architecture, other numbers.
#[cfg(target_arch = "x86_64")]
fn refuse_x32() -> [libc::sock_filter; 4] {
    const LOAD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32: u32 = 0x4000_0000;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    [
        step(LOAD, 0, 0, 0),
        step(JUMP_IF_AT_LEAST, 0, 1, X32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
    const FULL: Around = Around { reduced: false, group: true, network: false };

    fn errno(errno: i32) -> u32 {
        libc::SECCOMP_RET_ERRNO | errno.unsigned_abs()
    }

    /// What all filters together say: the strictest, and of those alike the one that was installed last.
    fn says(around: Around, number: i64, arguments: [u64; 6]) -> u32 {
        let action = |said: &u32| said & libc::SECCOMP_RET_ACTION_FULL;
        let said = compile(around)
            .unwrap()
            .0
            .iter()
            .rev()
            .map(|program| run(program, number, arguments))
            .collect::<Vec<_>>();
        said.into_iter().min_by_key(action).unwrap()
    }

    fn run(program: &BpfProgram, number: i64, arguments: [u64; 6]) -> u32 {
        let program: Vec<libc::sock_filter> = program
            .iter()
            .map(|step| libc::sock_filter { code: step.code, jt: step.jt, jf: step.jf, k: step.k })
            .collect();
        notify::run(&program, number, arguments)
    }

    #[test]
    fn every_number_is_on_a_list_or_does_not_exist() {
        let listed = |lists: &[&[i64]], call: i64| lists.iter().any(|list| list.contains(&call));
        let mut exist = 0;
        for call in 0..700 {
            let said = says(FULL, call, [0; 6]);
            let expected = match call {
                libc::SYS_fallocate => errno(libc::EOPNOTSUPP),
                // Looked at by their arguments, of which nothing is among what they take.
                libc::SYS_ioctl => errno(libc::ENOTTY),
                libc::SYS_socketpair => errno(libc::EPERM),
                _ if REFUSED.contains(&call) => errno(libc::EPERM),
                _ if listed(ALLOWED, call) || COUNTED_BY_GROUP.contains(&call) => ALLOW,
                _ => errno(libc::ENOSYS),
            };
            assert_eq!(said, expected, "{call}");
            exist += usize::from(said == ALLOW);
        }
        assert!(exist > 150, "{exist}");
        for both in REFUSED {
            assert!(!listed(ALLOWED, *both), "{both} is allowed and refused");
        }
    }

    #[test]
    fn calls_of_newer_kernels_do_not_exist() {
        // statmount, listmount, quotactl_fd, memfd_secret, open_tree_attr, clone3, openat2, landlock, setxattrat, and what is
        // to come.
        for call in [457, 458, 443, 447, 467, 435, 437, 444, 445, 446, 463, 468, 500, 10_000] {
            assert_eq!(says(FULL, call, [0; 6]), errno(libc::ENOSYS), "{call}");
        }
    }

    #[test]
    fn arguments_are_looked_at_in_their_low_half_too() {
        let at = |argument: usize, value: u64| {
            let mut arguments = [0; 6];
            if let Some(place) = arguments.get_mut(argument) {
                *place = value;
            }
            arguments
        };
        const HIGH: u64 = 0xffff_ffff_0000_0000;
        for (call, arguments, said) in [
            (libc::SYS_openat, at(3, 0o644), ALLOW),
            (libc::SYS_openat, at(3, 0o4755), errno(libc::EPERM)),
            (libc::SYS_fchmod, at(1, 0o2755 | HIGH), errno(libc::EPERM)),
            (libc::SYS_mknodat, at(2, u64::from(libc::S_IFIFO)), ALLOW),
            (libc::SYS_mknodat, at(2, u64::from(libc::S_IFCHR)), errno(libc::EPERM)),
            (libc::SYS_clone, at(0, 0x11), ALLOW),
            (
                libc::SYS_clone,
                at(0, u64::from(libc::CLONE_NEWUSER.unsigned_abs()) | HIGH),
                errno(libc::EPERM),
            ),
            (libc::SYS_ioctl, at(1, libc::FIONREAD), ALLOW),
            (libc::SYS_ioctl, at(1, libc::FIONREAD | HIGH), ALLOW),
            (libc::SYS_ioctl, at(1, libc::TIOCSTI), errno(libc::ENOTTY)),
            (libc::SYS_ioctl, at(1, libc::TIOCSTI | HIGH), errno(libc::ENOTTY)),
            // FS_IOC_RESVSP, which takes disk beyond the end of a file, and BTRFS_IOC_SUBVOL_CREATE, which makes a name.
            (libc::SYS_ioctl, at(1, 0x4030_5828), errno(libc::ENOTTY)),
            (libc::SYS_ioctl, at(1, 0x5000_940e), errno(libc::ENOTTY)),
            (libc::SYS_socketpair, at(0, 1), ALLOW),
            (libc::SYS_socketpair, at(0, 2), errno(libc::EPERM)),
            (libc::SYS_sendto, at(4, 0), ALLOW),
            (libc::SYS_sendto, at(4, HIGH), errno(libc::EPERM)),
            (libc::SYS_seccomp, at(1, 0), ALLOW),
            (libc::SYS_seccomp, at(1, 8), errno(libc::EPERM)),
            (libc::SYS_prctl, at(0, 4), errno(0)),
            (libc::SYS_prctl, at(0, 15), ALLOW),
            (libc::SYS_personality, at(0, 0xffff_ffff), ALLOW),
            (libc::SYS_personality, at(0, 0x0040_0000), errno(libc::EPERM)),
        ] {
            assert_eq!(says(FULL, call, arguments), said, "{call} {arguments:x?}");
        }
    }

    #[test]
    fn with_a_proxy_connections_are_made_by_tcp_and_in_no_other_way() {
        let with = Around { network: true, ..FULL };
        const TCP: u64 = 6;
        for (call, arguments, said) in [
            (libc::SYS_socket, [2, 1, 0], ALLOW),
            (libc::SYS_socket, [2, 0o2004001, TCP], ALLOW),
            (libc::SYS_socket, [2, 2, 0], errno(libc::EPERM)),
            (libc::SYS_socket, [2, 3, TCP], errno(libc::EPERM)),
            (libc::SYS_socket, [2, 5, 132], errno(libc::EPERM)),
            // MPTCP, and SCTP as a stream.
            (libc::SYS_socket, [2, 1, 262], errno(libc::EPERM)),
            (libc::SYS_socket, [2, 1, 132], errno(libc::EPERM)),
            (libc::SYS_socket, [10, 1, 0], errno(libc::EPERM)),
            (libc::SYS_socket, [1, 1, 0], errno(libc::EPERM)),
            (libc::SYS_socket, [16, 3, 0], errno(libc::EPERM)),
            (libc::SYS_socket, [40, 1, 0], errno(libc::EPERM)),
            (libc::SYS_connect, [3, 0, 16], ALLOW),
            (libc::SYS_bind, [3, 0, 16], errno(libc::EPERM)),
            (libc::SYS_listen, [3, 1, 0], errno(libc::ENOSYS)),
            (libc::SYS_sendmsg, [3, 0, 0], errno(libc::EPERM)),
            (libc::SYS_socketpair, [1, 1, 0], ALLOW),
            (libc::SYS_socketpair, [1, 0o2000001, 0], ALLOW),
            (libc::SYS_socketpair, [1, 2, 0], errno(libc::EPERM)),
            (libc::SYS_socketpair, [1, 3, 0], errno(libc::EPERM)),
            (libc::SYS_socketpair, [1, 5, 0], errno(libc::EPERM)),
            (libc::SYS_socketpair, [2, 1, 0], errno(libc::EPERM)),
            (libc::SYS_setsockopt, [3, 1, 9], ALLOW),
            (libc::SYS_setsockopt, [3, TCP, 1], ALLOW),
            (libc::SYS_setsockopt, [3, TCP, 31], errno(libc::EPERM)),
            (libc::SYS_setsockopt, [3, 0, 1], ALLOW),
            (libc::SYS_setsockopt, [3, 0, 64], errno(libc::EPERM)),
            (libc::SYS_setsockopt, [3, 41, 26], errno(libc::EPERM)),
        ] {
            let [a, b, c] = arguments;
            assert_eq!(says(with, call, [a, b, c, 0, 0, 0]), said, "{call} {arguments:?}");
        }
        // The control: without one there are none.
        for (call, arguments) in
            [(libc::SYS_socket, [2, 1, 0, 0, 0, 0]), (libc::SYS_connect, [3, 0, 16, 0, 0, 0])]
        {
            assert_eq!(says(FULL, call, arguments), errno(libc::EPERM));
        }
        assert_eq!(says(with, libc::SYS_sendto, [3, 0, 0, 0, 1, 16]), errno(libc::EPERM));
    }

    #[test]
    fn what_nothing_counts_is_there_only_with_a_group() {
        for call in COUNTED_BY_GROUP {
            let alone = says(Around { group: false, ..FULL }, *call, [0; 6]);
            assert_eq!((alone, says(FULL, *call, [0; 6])), (errno(libc::ENOSYS), ALLOW), "{call}");
        }
        let reduced = Around { reduced: true, ..FULL };
        assert_eq!(says(reduced, libc::SYS_memfd_create, [0; 6]), ALLOW);
        assert_eq!(says(reduced, libc::SYS_shmget, [0; 6]), errno(libc::EPERM));
        assert_eq!(says(reduced, libc::SYS_prlimit64, [0; 6]), ALLOW);
        assert_eq!(says(reduced, libc::SYS_prlimit64, [7, 0, 0, 0, 0, 0]), errno(libc::EPERM));
    }
}
