//! The filter that hands calls to the broker: those by which a name comes to be, and those that open a file to write. The
//! caller waits until the broker has done what it asked for, or has refused it.

use super::sys;

/// When a call is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Always,
    /// Where this argument, the flags of an open, asks to write, to make or to cut a file.
    Writing(u32),
}

const CALLS: &[(i64, When)] = &[
    (libc::SYS_openat, When::Writing(2)),
    (libc::SYS_mkdirat, When::Always),
    (libc::SYS_mknodat, When::Always),
    (libc::SYS_symlinkat, When::Always),
    (libc::SYS_linkat, When::Always),
    (libc::SYS_renameat2, When::Always),
    (libc::SYS_truncate, When::Always),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, When::Writing(1)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, When::Always),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, When::Always),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, When::Always),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_symlink, When::Always),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_link, When::Always),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rename, When::Always),
    (SYS_RENAMEAT, When::Always),
];

/// The `libc` crate does not name it on every architecture.
#[cfg(target_arch = "x86_64")]
pub(in super::super) const SYS_RENAMEAT: i64 = libc::SYS_renameat;
#[cfg(not(target_arch = "x86_64"))]
pub(in super::super) const SYS_RENAMEAT: i64 = 38;

/// What a protected link can be taken away by; it is no place for a mount. Rarely there is one, and these are called often.
const REMOVING: &[(i64, When)] = &[
    (libc::SYS_unlinkat, When::Always),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_unlink, When::Always),
];

/// Installs the filter for this process and all it starts; gives back where the calls are heard.
///
/// # Errors
/// Of the system, which has it since Linux 5.0, with what the broker needs since 5.19.
pub(in super::super) fn notify_about(removing: bool) -> std::io::Result<std::os::fd::OwnedFd> {
    let removing = if removing { REMOVING } else { &[] };
    sys::install_listener(&program(CALLS.iter().chain(removing)))
}

fn program<'a>(calls: impl Iterator<Item = &'a (i64, When)>) -> Vec<libc::sock_filter> {
    const LOAD: u16 = 0x20;
    const AND: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    /// Where the number of a call is, and where its arguments begin, eight bytes each with the lower half first.
    const NUMBER: u32 = 0;
    const ARGUMENTS: u32 = 16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = vec![step(LOAD, 0, 0, NUMBER)];
    for (call, when) in calls {
        let block = match when {
            When::Always => vec![step(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF)],
            When::Writing(argument) => vec![
                step(LOAD, 0, 0, ARGUMENTS + 8 * argument),
                step(AND, 0, 0, WRITING),
                step(JUMP_IF_EQUAL, 0, 1, 0),
                step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
                step(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF),
            ],
        };
        let past = u8::try_from(block.len()).unwrap_or(u8::MAX);
        // Numbers of calls are small and not negative.
        program.push(step(JUMP_IF_EQUAL, 0, past, u32::try_from(*call).unwrap_or(u32::MAX)));
        program.extend(block);
    }
    program.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    program
}

/// Flags of an open that write, make or cut.
const WRITING: u32 = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC).unsigned_abs();

#[cfg(test)]
pub(super) use tests::run;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use super::*;

    /// What a program says of a call, as the kernel would run it.
    pub(in super::super) fn run(program: &[libc::sock_filter], number: i64, arguments: [u64; 6]) -> u32 {
        let arch: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
        let mut data = Vec::new();
        data.extend(u32::try_from(number).unwrap().to_le_bytes());
        data.extend(arch.to_le_bytes());
        data.extend(0u64.to_le_bytes());
        arguments.iter().for_each(|argument| data.extend(argument.to_le_bytes()));
        let (mut at, mut a) = (0usize, 0u32);
        loop {
            let libc::sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let mut jump = |condition| at += usize::from(if condition { jt } else { jf });
            match code {
                0x20 => {
                    let from = k as usize;
                    a = u32::from_le_bytes(data[from..from + 4].try_into().unwrap());
                }
                0x54 => a &= k,
                0x15 => jump(a == k),
                0x25 => jump(a > k),
                0x35 => jump(a >= k),
                0x45 => jump(a & k != 0),
                0x05 => at += k as usize,
                0x06 => return k,
                other => panic!("an instruction that no filter of ours has: {other:#x}"),
            }
        }
    }

    #[test]
    fn what_makes_a_name_or_writes_is_handed_over_and_nothing_else() {
        let asked = program(CALLS.iter());
        let handed = |number, arguments| run(&asked, number, arguments) == libc::SECCOMP_RET_USER_NOTIF;
        let flags = |flags: i32| [0, 0, u64::from(flags.unsigned_abs()), 0o644, 0, 0];
        for (opened, is) in [
            (libc::O_RDONLY, false),
            (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_DIRECTORY, false),
            (libc::O_PATH, false),
            (libc::O_WRONLY, true),
            (libc::O_RDWR, true),
            (libc::O_RDONLY | libc::O_CREAT, true),
            (libc::O_RDONLY | libc::O_TRUNC, true),
        ] {
            assert_eq!(handed(libc::SYS_openat, flags(opened)), is, "{opened:#o}");
        }
        for call in [libc::SYS_mkdirat, libc::SYS_renameat2, libc::SYS_linkat, libc::SYS_symlinkat] {
            assert!(handed(call, [0; 6]), "{call}");
        }
        for call in [libc::SYS_unlinkat, libc::SYS_read, libc::SYS_execve] {
            assert!(!handed(call, [0; 6]), "{call}");
        }
        let more = program(CALLS.iter().chain(REMOVING));
        assert_eq!(run(&more, libc::SYS_unlinkat, [0; 6]), libc::SECCOMP_RET_USER_NOTIF);
    }
}
