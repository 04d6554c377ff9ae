//! The system calls by what they are for: those that a program in the sandbox has use for, and those that it is told it may
//! not have. Whatever is in neither list does not exist for it.

/// Calls that have an older form on this architecture alone.
macro_rules! calls {
    ($($name:ident)*; older: $($older:ident)*) => {
        &[$(libc::$name,)* $(#[cfg(target_arch = "x86_64")] libc::$older,)*]
    };
}

/// What programs are made of: files, memory, processes of their own, waiting, time. Taken from what builds, shells,
/// interpreters and version control call, and from the lists that containers use; each is harmless with what the other layers
/// leave, or is looked at by its arguments too.
pub(super) const ALLOWED: &[&[i64]] =
    &[FILES, MEMORY, PROCESSES, WAITING, TIME, IDENTITY, MACHINE, UNNAMED, NEWER];

const FILES: &[i64] = calls![
    SYS_read SYS_write SYS_readv SYS_writev SYS_pread64 SYS_pwrite64 SYS_preadv SYS_pwritev SYS_preadv2 SYS_pwritev2
    SYS_openat SYS_close SYS_dup SYS_dup3 SYS_fcntl SYS_flock SYS_ioctl SYS_lseek SYS_pipe2
    SYS_newfstatat SYS_fstat SYS_statx SYS_statfs SYS_fstatfs SYS_faccessat SYS_readlinkat SYS_getdents64
    SYS_getcwd SYS_chdir SYS_fchdir SYS_umask SYS_truncate SYS_ftruncate
    SYS_mkdirat SYS_mknodat SYS_symlinkat SYS_linkat SYS_unlinkat SYS_renameat2
    SYS_fchmod SYS_fchmodat SYS_fchown SYS_fchownat SYS_utimensat
    SYS_getxattr SYS_lgetxattr SYS_fgetxattr SYS_listxattr SYS_llistxattr SYS_flistxattr
    SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_removexattr SYS_lremovexattr SYS_fremovexattr
    SYS_sync SYS_syncfs SYS_fsync SYS_fdatasync SYS_readahead SYS_fadvise64
    SYS_sendfile SYS_splice SYS_tee SYS_vmsplice SYS_copy_file_range
    SYS_inotify_init1 SYS_inotify_add_watch SYS_inotify_rm_watch
    SYS_io_setup SYS_io_submit SYS_io_cancel SYS_io_getevents SYS_io_destroy
    SYS_socketpair SYS_sendto SYS_recvfrom SYS_recvmsg SYS_shutdown SYS_getsockname SYS_getpeername SYS_getsockopt
    SYS_setsockopt;
    older: SYS_open SYS_creat SYS_stat SYS_lstat SYS_access SYS_readlink SYS_getdents SYS_dup2 SYS_pipe SYS_mkdir SYS_mknod
    SYS_symlink SYS_link SYS_unlink SYS_rmdir SYS_rename SYS_renameat SYS_chmod SYS_chown SYS_lchown SYS_utime SYS_utimes
    SYS_futimesat SYS_inotify_init SYS_sync_file_range
];

const MEMORY: &[i64] = calls![
    SYS_mmap SYS_munmap SYS_mremap SYS_mprotect SYS_madvise SYS_msync SYS_mincore SYS_brk SYS_membarrier
    SYS_mlock SYS_mlock2 SYS_munlock SYS_mlockall SYS_munlockall SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect
    SYS_get_mempolicy SYS_set_mempolicy SYS_mbind;
    older:
];

const PROCESSES: &[i64] = calls![
    SYS_clone SYS_execve SYS_execveat SYS_exit SYS_exit_group SYS_wait4 SYS_waitid
    SYS_kill SYS_tkill SYS_tgkill
    SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigpending SYS_rt_sigsuspend SYS_rt_sigtimedwait
    SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo SYS_sigaltstack SYS_restart_syscall
    SYS_set_tid_address SYS_set_robust_list SYS_get_robust_list SYS_rseq SYS_futex SYS_prctl SYS_seccomp
    SYS_personality
    SYS_sched_yield SYS_sched_getaffinity SYS_sched_setaffinity SYS_sched_getparam SYS_sched_setparam
    SYS_sched_getscheduler SYS_sched_setscheduler SYS_sched_getattr SYS_sched_setattr SYS_sched_rr_get_interval
    SYS_sched_get_priority_max SYS_sched_get_priority_min SYS_getpriority SYS_setpriority SYS_ioprio_get SYS_ioprio_set
    SYS_prlimit64 SYS_getrusage SYS_times
    SYS_getpid SYS_getppid SYS_gettid SYS_getpgid SYS_setpgid SYS_getsid SYS_setsid;
    older: SYS_fork SYS_vfork SYS_arch_prctl SYS_getpgrp SYS_getrlimit SYS_setrlimit SYS_pause SYS_alarm
];

const WAITING: &[i64] = calls![
    SYS_pselect6 SYS_ppoll SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_eventfd2 SYS_signalfd4
    SYS_timerfd_create SYS_timerfd_settime SYS_timerfd_gettime;
    older: SYS_select SYS_poll SYS_epoll_create SYS_epoll_wait SYS_eventfd SYS_signalfd
];

const TIME: &[i64] = calls![
    SYS_nanosleep SYS_clock_nanosleep SYS_clock_gettime SYS_clock_getres SYS_gettimeofday SYS_getitimer SYS_setitimer
    SYS_timer_create SYS_timer_settime SYS_timer_gettime SYS_timer_getoverrun SYS_timer_delete;
    older: SYS_time
];

const IDENTITY: &[i64] = calls![
    SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getresuid SYS_getresgid SYS_getgroups SYS_setuid SYS_setgid
    SYS_setreuid SYS_setregid SYS_setresuid SYS_setresgid SYS_setfsuid SYS_setfsgid SYS_setgroups SYS_capget SYS_capset;
    older:
];

const MACHINE: &[i64] = calls![SYS_uname SYS_sysinfo SYS_getcpu SYS_getrandom; older:];

/// What the `libc` crate does not name on this architecture: `renameat` and `sync_file_range`.
#[cfg(target_arch = "aarch64")]
const UNNAMED: &[i64] = &[super::notify::SYS_RENAMEAT, 84];
#[cfg(not(target_arch = "aarch64"))]
const UNNAMED: &[i64] = &[];

/// Calls that came with a number that is the same on every architecture.
const NEWER: &[i64] = &[
    424, // pidfd_send_signal
    434, // pidfd_open
    436, // close_range
    439, // faccessat2
    441, // epoll_pwait2
    449, // futex_waitv
    451, // cachestat
    452, // fchmodat2
    454, // futex_wake
    455, // futex_wait
    456, // futex_requeue
    462, // mseal
];

/// Memory that belongs to no process: only where a control group counts it.
pub(super) const COUNTED_BY_GROUP: &[i64] = calls![
    SYS_memfd_create SYS_shmget SYS_shmat SYS_shmdt SYS_shmctl SYS_semget SYS_semop SYS_semctl SYS_semtimedop SYS_msgget
    SYS_msgsnd SYS_msgrcv SYS_msgctl;
    older:
];

/// Of those, what processes of this user share where there is no namespace of their own: not in the reduced tier.
pub(super) const SHARED: &[i64] = calls![
    SYS_shmget SYS_shmat SYS_shmdt SYS_shmctl SYS_semget SYS_semop SYS_semctl SYS_semtimedop SYS_msgget SYS_msgsnd
    SYS_msgrcv SYS_msgctl;
    older:
];

/// Calls that fail with `EPERM`, as programs know it from containers: they reach into other processes, into the kernel, or to
/// the network.
pub(super) const REFUSED: &[i64] = calls![
    SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_process_madvise SYS_pidfd_getfd SYS_kcmp
    SYS_unshare SYS_setns SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick
    SYS_move_mount SYS_open_tree SYS_mount_setattr
    SYS_open_by_handle_at SYS_name_to_handle_at
    SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register SYS_bpf SYS_perf_event_open SYS_userfaultfd SYS_add_key
    SYS_request_key SYS_keyctl SYS_fanotify_init SYS_fanotify_mark SYS_quotactl SYS_acct SYS_syslog SYS_vhangup
    SYS_kexec_load SYS_init_module SYS_finit_module SYS_delete_module SYS_reboot SYS_swapon SYS_swapoff SYS_sethostname
    SYS_setdomainname SYS_settimeofday SYS_clock_settime SYS_clock_adjtime SYS_adjtimex
    SYS_socket SYS_connect SYS_bind SYS_sendmsg SYS_sendmmsg;
    older: SYS_iopl SYS_ioperm SYS_modify_ldt SYS_kexec_file_load
];
// Messages are refused since descriptors go with them: one that waits in a socket keeps a file that no account of a process
// shows.

/// The requests that `ioctl` takes: the number of readable bytes, waiting reads, closing at an `exec`, and
/// the flags of a file. Others reach into file systems, where they take unbounded disk or make names. Others
/// reach into devices, and there is none.
pub(super) const REQUESTS: [u64; 8] = [
    libc::FIONREAD,
    libc::FIONBIO,
    libc::FIOCLEX,
    libc::FIONCLEX,
    FIOASYNC,
    FIGETBSZ,
    FS_IOC_GETFLAGS,
    FS_IOC_FSGETXATTR,
];

const FIOASYNC: u64 = 0x5452;
const FIGETBSZ: u64 = 2;
const FS_IOC_GETFLAGS: u64 = 0x8008_6601;
const FS_IOC_FSGETXATTR: u64 = 0x801c_581f;
