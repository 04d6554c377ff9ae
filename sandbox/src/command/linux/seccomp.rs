//! The system call filter, installed last before the self-check: what a program in the sandbox has no business calling.
//!
//! Invariant: the filter is the same for every command; calls of another architecture or of the x32 interface end
//! the process, since numbers mean other things there.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use super::sys;

/// Calls that fail with `EPERM` whatever their arguments: they reach into other processes or into the kernel.
const REFUSED: &[i64] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    // Handles that lead around directories.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // Parts of the kernel with a history of holes, and none that a build or a script needs.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_lookup_dcookie,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    // The machine.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    // The network: there is none, and no local service is to be spoken to either.
    libc::SYS_socket,
    // With a message go descriptors: one that waits in a socket keeps a file that no account of a process shows.
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
];

/// Calls that fail with `ENOSYS`, as on an older kernel: their arguments lie in memory, where no filter sees them, and
/// every caller has another way.
const UNKNOWN: &[i64] = &[libc::SYS_clone3, libc::SYS_openat2];

/// Calls that fail with `EOPNOTSUPP`, as on file systems without them: one takes any amount of disk at once, before a watcher
/// could look. Every caller then writes instead.
const UNSUPPORTED: &[i64] = &[libc::SYS_fallocate];

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

/// Refused in the reduced tier: what a namespace of processes or of IPC would keep apart.
const SHARED: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semctl,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Refused in the reduced tier for any process but the caller, which is 0: the argument that names it.
const OTHERS: &[(i64, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_migrate_pages, 0),
    (libc::SYS_move_pages, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

/// Compiled filters, made before anything is given up.
pub(super) struct Filters(Vec<BpfProgram>);

/// Compiles the filters.
pub(super) fn compile(reduced: bool) -> Result<Filters, seccompiler::Error> {
    let mut rules = refused()?;
    if reduced {
        rules.extend(refused_without_namespaces()?);
    }
    let refused = filter(rules, libc::EPERM)?;
    let all = |calls: &[i64]| calls.iter().map(|call| (*call, Vec::new())).collect();
    let unsupported = filter(all(UNSUPPORTED), libc::EOPNOTSUPP)?;
    Ok(Filters(vec![refused, filter(all(UNKNOWN), libc::ENOSYS)?, unsupported]))
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

fn filter(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> Result<BpfProgram, seccompiler::Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refusal = SeccompAction::Errno(errno.unsigned_abs());
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch)?.try_into()?)
}

/// What is refused by number, and what by its arguments. An empty list of rules refuses every call of that number.
fn refused() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
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
    // Commands are compared by their low 32 bits, which is all the kernel looks at.
    let mut ioctl = Vec::new();
    for request in [libc::TIOCSTI, TIOCLINUX] {
        ioctl.push(SeccompRule::new(vec![is(1, Op::Eq, request & 0xffff_ffff)?])?);
    }
    rules.insert(libc::SYS_ioctl, ioctl);
    // A pair of connected sockets is a pipe, and many programs make one.
    let pair = is(0, Op::Ne, u64::from(libc::AF_UNIX.unsigned_abs()))?;
    rules.insert(libc::SYS_socketpair, vec![SeccompRule::new(vec![pair])?]);
    // Asking for the personality, and the usual one, are harmless.
    let other = vec![is(0, Op::Ne, 0)?, is(0, Op::Ne, 0xffff_ffff)?];
    rules.insert(libc::SYS_personality, vec![SeccompRule::new(other)?]);
    Ok(rules)
}

fn refused_without_namespaces() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = SHARED.iter().map(|call| (*call, Vec::new())).collect();
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

const TIOCLINUX: u64 = 0x541c;

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
