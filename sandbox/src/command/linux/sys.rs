//! The system calls that neither `std` nor `rustix` (as this workspace builds it) wraps, each as a safe function.
//!
//! Invariant: every `unsafe` block of the command tier is in this file, under a sentence that says why it is sound.

#![allow(unsafe_code, reason = "system calls; each block says why it is sound")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::time::Duration;

/// What a plain system call's return value says.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Gives up gaining rights by `exec` for good: set-user-id programs are then plain programs.
pub(super) fn no_new_privs() -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into()).map(drop)
}

/// Starts a session of its own, without a terminal. Fails if this process leads one already.
pub(super) fn setsid() -> io::Result<()> {
    // SAFETY: the call takes nothing.
    check(unsafe { libc::setsid() }.into()).map(drop)
}

/// Marks every descriptor from `first` on to be closed at the next `exec`.
pub(super) fn close_on_exec_from(first: u32) -> io::Result<()> {
    const CLOEXEC: libc::c_uint = 1 << 2;
    // SAFETY: the call takes numbers only, and no descriptor is closed that Rust still owns.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, CLOEXEC) }).map(drop)
}

/// Lets `fd` live on over the next `exec`.
pub(super) fn keep_over_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: the call takes numbers only; a wrong descriptor is an error.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) }.into()).map(drop)
}

/// Writes `bytes` to `fd` without allocating, for the time between `fork` and `exec`.
pub(super) fn write_raw(fd: RawFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length are those of a live slice.
    let written = check(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) } as libc::c_long)?;
    if usize::try_from(written).is_ok_and(|n| n == bytes.len()) {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

/// Makes `file` the standard input.
pub(super) fn replace_stdin(file: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes numbers only; standard input stays open, as another file.
    check(unsafe { libc::dup2(file.as_raw_fd(), 0) }.into()).map(drop)
}

/// Whether `fd` is open and would live on over an `exec`.
pub(super) fn lives_on(fd: RawFd) -> bool {
    // SAFETY: the call takes numbers only.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}

/// Takes over a descriptor that was passed down by number.
pub(super) fn own(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    check(unsafe { libc::fcntl(fd, libc::F_GETFD) }.into())?;
    // SAFETY: it is open, and the numbers a stage is given name descriptors that nothing else in it owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A descriptor that was passed down by number, to be used for a moment.
pub(super) fn borrow<'a>(fd: RawFd) -> io::Result<BorrowedFd<'a>> {
    // SAFETY: the call takes numbers only.
    check(unsafe { libc::fcntl(fd, libc::F_GETFD) }.into())?;
    // SAFETY: it is open, and what a stage is given by number nothing in it closes.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Has the descriptor `number` be that of `file`, and live on over an `exec`.
pub(super) fn take_number(file: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    // SAFETY: the call takes numbers only; what `number` was before was passed down and is owned by nothing here.
    check(unsafe { libc::dup2(file.as_raw_fd(), number) }.into()).map(drop)
}

/// Keeps `fd` from living on over the next `exec`.
pub(super) fn close_on_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: the call takes numbers only; a wrong descriptor is an error.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) }.into()).map(drop)
}

/// Bounds one resource of this process and of all it starts.
pub(super) fn set_limit(resource: libc::__rlimit_resource_t, most: u64) -> io::Result<()> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is that of a live struct.
    check(unsafe { libc::getrlimit(resource, &raw mut now) }.into())?;
    // What is tighter already stays so: an ordinary user could not raise it anyway.
    let most = most.min(now.rlim_max);
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the pointer is that of a live struct.
    check(unsafe { libc::setrlimit(resource, &raw const limit) }.into()).map(drop)
}

/// The process `pid` as a descriptor, which no other process can be taken for later.
pub(super) fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    let fd = RawFd::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the call made this descriptor and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Ends a process at once; one that is gone already is no error.
pub(super) fn kill(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    match signal(pidfd, libc::SIGKILL) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        sent => sent,
    }
}

/// Sends a signal to a process.
pub(super) fn signal(pidfd: BorrowedFd<'_>, number: libc::c_int) -> io::Result<()> {
    let info: *const libc::siginfo_t = std::ptr::null();
    // SAFETY: the call takes numbers and a null pointer, which it allows.
    check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), number, info, 0) }).map(drop)
}

/// Waits until one of `fds` can be read or is at its end, at most for `time`; says which.
pub(super) fn poll(fds: &[Option<BorrowedFd<'_>>], time: Duration) -> io::Result<Vec<bool>> {
    // A negative descriptor is one that poll leaves out.
    let mut polled: Vec<libc::pollfd> = fds
        .iter()
        .map(|fd| libc::pollfd { fd: fd.map_or(-1, |fd| fd.as_raw_fd()), events: libc::POLLIN, revents: 0 })
        .collect();
    let millis = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: pointer and length are those of a live vector.
    let result = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, millis) };
    match check(result.into()) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(vec![false; fds.len()]),
        Err(error) => Err(error),
        Ok(_) => Ok(polled.iter().map(|fd| fd.revents != 0).collect()),
    }
}

/// The newest Landlock interface the kernel has; nothing without Landlock.
pub(super) fn landlock_abi() -> Option<u32> {
    const VERSION: u32 = 1;
    let rules: *const u8 = std::ptr::null();
    // SAFETY: with this flag the call reads nothing and only gives back a number.
    let abi = check(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, rules, 0usize, VERSION) });
    abi.ok().and_then(|abi| u32::try_from(abi).ok())
}

/// Whether the kernel takes seccomp filters and knows how to end a process by one.
pub(super) fn has_seccomp() -> bool {
    const GET_ACTION_AVAIL: libc::c_ulong = 2;
    let action: u32 = libc::SECCOMP_RET_KILL_PROCESS;
    // SAFETY: the pointer is that of a live number, which the call only reads.
    check(unsafe { libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAIL, 0, &raw const action) }).is_ok()
}

/// The user this process acts as.
pub(super) fn effective_uid() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Leaves the namespaces of `flags` for new ones.
pub(super) fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: the stage has one thread and shares no memory; nothing relies on the namespaces left.
    check(unsafe { libc::unshare(flags) }.into()).map(drop)
}

/// A child with a copy of this process; `None` in the child.
pub(super) fn fork() -> io::Result<Option<i32>> {
    // SAFETY: the stage has one thread, so that no lock can be held by another in the child.
    let pid = check(unsafe { libc::fork() }.into())?;
    let pid = i32::try_from(pid).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok((pid != 0).then_some(pid))
}

/// Ends this process without running anything else.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: the call takes a number and does not come back.
    unsafe { libc::_exit(code) }
}

/// Makes this process the parent of everything below it whose own parent has ended.
pub(super) fn become_subreaper() -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }.into()).map(drop)
}

/// A child that has ended, and its code as a shell tells it; `None` if all still run. An error if there are none.
pub(super) fn reap() -> io::Result<Option<(i32, i32)>> {
    let mut status = 0;
    // SAFETY: the pointer is that of a live number.
    let pid = check(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) }.into())?;
    let pid = i32::try_from(pid).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok((pid != 0).then_some((pid, code_of(status))))
}

/// Ends a child of this process that was not waited for yet.
pub(super) fn kill_child(pid: i32) {
    if pid > 1 {
        // SAFETY: the call takes numbers only. A child that has ended already is none to be ended.
        let _ = unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

/// Waits for a child to end.
pub(super) fn wait_for(pid: i32) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: the pointer is that of a live number.
    check(unsafe { libc::waitpid(pid, &raw mut status, 0) }.into()).map(drop)
}

/// A detached copy of the mount that `place` is on, from that place on.
pub(super) fn clone_mount(place: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    const CLONE: libc::c_uint = 1;
    let flags = CLONE
        | libc::O_CLOEXEC.cast_unsigned()
        | libc::AT_RECURSIVE.cast_unsigned()
        | libc::AT_EMPTY_PATH.cast_unsigned();
    // SAFETY: the pointer is that of a live C string.
    let fd = check(unsafe { libc::syscall(libc::SYS_open_tree, place.as_raw_fd(), c"".as_ptr(), flags) })?;
    let fd = RawFd::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the call made this descriptor and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Shows a detached mount's owners as the user namespace `users` maps them; takes set-user-id and devices away, and keeps
/// mounts of the machine from showing up in it.
pub(super) fn map_owners(mount: BorrowedFd<'_>, users: BorrowedFd<'_>) -> io::Result<()> {
    #[repr(C)]
    struct MountAttributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    const NOSUID: u64 = 2;
    const NODEV: u64 = 4;
    const IDMAP: u64 = 0x0010_0000;
    let attributes = MountAttributes {
        set: NOSUID | NODEV | IDMAP,
        clear: 0,
        propagation: libc::MS_PRIVATE,
        user_namespace: u64::try_from(users.as_raw_fd()).map_err(|_| io::ErrorKind::InvalidInput)?,
    };
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: the strings and the struct are live, and the size is the struct's own.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    })
    .map(drop)
}

/// Puts a detached mount at `path`.
pub(super) fn attach_mount(mount: BorrowedFd<'_>, path: &std::ffi::CStr) -> io::Result<()> {
    const FROM_EMPTY_PATH: libc::c_uint = 4;
    // SAFETY: both strings are live C strings.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            path.as_ptr(),
            FROM_EMPTY_PATH,
        )
    })
    .map(drop)
}

/// Keeps mounts of this namespace from showing up in others, and theirs from showing up here.
pub(super) fn make_mounts_private() -> io::Result<()> {
    let none: *const libc::c_char = std::ptr::null();
    // SAFETY: the strings are live, and the null pointers are ones the call allows for a change of propagation.
    check(
        unsafe { libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()) }
            .into(),
    )
    .map(drop)
}

/// A small file system in memory at `path`.
pub(super) fn mount_tmpfs(path: &std::ffi::CStr) -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    // SAFETY: all pointers are those of live C strings.
    check(
        unsafe {
            libc::mount(
                c"tmpfs".as_ptr(),
                path.as_ptr(),
                c"tmpfs".as_ptr(),
                flags,
                c"size=64k,mode=755".as_ptr().cast(),
            )
        }
        .into(),
    )
    .map(drop)
}

/// Becomes the user and group `id`, with no other groups, for good; all capabilities go with it.
pub(super) fn become_user(id: u32) -> io::Result<()> {
    // SAFETY: with a length of zero the call reads nothing.
    check(unsafe { libc::setgroups(0, std::ptr::null()) }.into())?;
    // SAFETY: the call takes numbers only.
    check(unsafe { libc::setresgid(id, id, id) }.into())?;
    // SAFETY: the call takes numbers only.
    check(unsafe { libc::setresuid(id, id, id) }.into()).map(drop)
}

/// Has `action` run in the child of `command` between `fork` and `exec`.
///
/// `action` may call this module's functions and nothing that allocates or takes a lock.
pub(super) fn before_exec(
    command: &mut super::Process,
    action: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: the callers' actions are system calls on numbers that were made before the fork.
    unsafe { command.pre_exec(action) };
}

/// Installs a filter given as instructions, which begin by checking nothing.
pub(super) fn install_filter(program: &[libc::sock_filter]) -> io::Result<()> {
    let length = libc::c_ushort::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    const SET_MODE_FILTER: libc::c_ulong = 1;
    // SAFETY: the struct holds pointer and length of a live slice, which the call only reads.
    check(unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, 0, &raw const program) }).map(drop)
}

/// Installs a filter as [`install_filter`] does; gives back where the calls are heard that it hands over. Whoever waits for an
/// answer is disturbed by what ends it alone, once the call was taken up.
pub(super) fn install_listener(program: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let length = libc::c_ushort::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    const SET_MODE_FILTER: libc::c_ulong = 1;
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: the struct holds pointer and length of a live slice, which the call only reads.
    let fd = check(unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, flags, &raw const program) })?;
    let fd = RawFd::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the call made this descriptor and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) id: u64,
    /// The thread that made it.
    pub(super) thread: i32,
    pub(super) number: i64,
    pub(super) arguments: [u64; 6],
}

/// The next call that was handed over; nothing if its caller has ended meanwhile.
pub(super) fn next_call(listener: BorrowedFd<'_>) -> io::Result<Option<Call>> {
    let data = libc::seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] };
    let mut call = libc::seccomp_notif { id: 0, pid: 0, flags: 0, data };
    // SAFETY: the pointer is that of a live struct of the size that the request says.
    let result = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) };
    match check(result.into()) {
        Ok(_) => Ok(Some(Call {
            id: call.id,
            thread: call.pid.cast_signed(),
            number: call.data.nr.into(),
            arguments: call.data.args,
        })),
        Err(why) if matches!(why.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => Ok(None),
        Err(why) => Err(why),
    }
}

/// Whether everybody has ended whose calls could be heard.
pub(super) fn is_over(listener: BorrowedFd<'_>) -> bool {
    let mut polled = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer is that of one live struct.
    let result = unsafe { libc::poll(&raw mut polled, 1, 0) };
    result > 0 && polled.revents & libc::POLLHUP != 0
}

/// Whether the caller of that call still waits, so that its number is still its own.
pub(super) fn is_waiting(listener: BorrowedFd<'_>, id: u64) -> io::Result<()> {
    // SAFETY: the pointer is that of a live number.
    let result =
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) };
    check(result.into()).map(drop)
}

/// Gives a descriptor to the caller of that call; its number there.
pub(super) fn give(
    listener: BorrowedFd<'_>,
    id: u64,
    file: BorrowedFd<'_>,
    closes_on_exec: bool,
) -> io::Result<i64> {
    let given = libc::seccomp_notif_addfd {
        id,
        flags: 0,
        srcfd: file.as_raw_fd().cast_unsigned(),
        newfd: 0,
        newfd_flags: if closes_on_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 },
    };
    // SAFETY: the pointer is that of a live struct of the size that the request says.
    let result =
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const given) };
    check(result.into())
}

/// Ends a call with a value, or with an error of the system's.
pub(super) fn answer(listener: BorrowedFd<'_>, id: u64, value: io::Result<i64>) -> io::Result<()> {
    let (val, error) = match value {
        Ok(value) => (value, 0),
        Err(why) => (0, -why.raw_os_error().unwrap_or(libc::EIO)),
    };
    let answer = libc::seccomp_notif_resp { id, val, error, flags: 0 };
    // SAFETY: the pointer is that of a live struct of the size that the request says.
    let result =
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer) };
    check(result.into()).map(drop)
}

/// Has callers go on where the answer was given, without a detour over another processor.
pub(super) fn wake_synchronously(listener: BorrowedFd<'_>) -> io::Result<()> {
    const SYNC_WAKE_UP: libc::c_ulong = 1;
    // SAFETY: the request takes a number.
    let result =
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
    check(result.into()).map(drop)
}

/// Reads what is at `address` of another process's memory; how much of it there was.
pub(super) fn read_memory(pid: i32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let address = usize::try_from(address).map_err(|_| io::ErrorKind::InvalidInput)?;
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: into.len() };
    // SAFETY: the local part is a live slice that is written; the remote one is an address of another process, which the
    // kernel checks.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Two ends of a line over which bytes and descriptors go.
pub(super) fn line() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// Sends one byte.
pub(super) fn send_byte(line: BorrowedFd<'_>, byte: u8) -> io::Result<()> {
    rustix::io::write(line, &[byte])?;
    Ok(())
}

/// The next byte; an error if the other end is gone.
pub(super) fn receive_byte(line: BorrowedFd<'_>) -> io::Result<u8> {
    let mut byte = [0];
    match rustix::io::read(line, &mut byte)? {
        1 => Ok(byte[0]),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Sends a descriptor.
pub(super) fn send_descriptor(line: BorrowedFd<'_>, sent: BorrowedFd<'_>) -> io::Result<()> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let sent = [sent];
    if !message.push(SendAncillaryMessage::ScmRights(&sent)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(line, &[io::IoSlice::new(&[1])], &mut message, SendFlags::empty())?;
    Ok(())
}

/// The descriptor that is sent next; nothing if the other end is gone.
pub(crate) fn receive_descriptor(line: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(line, &mut [io::IoSliceMut::new(&mut byte)], &mut message, RecvFlags::CMSG_CLOEXEC)?;
    let received = message.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(received)
}

/// Makes `file` standard input, output and error.
pub(super) fn replace_standard_streams(file: BorrowedFd<'_>) -> io::Result<()> {
    (0..3).try_for_each(|number| {
        // SAFETY: the call takes numbers only; the streams stay open, as another file.
        check(unsafe { libc::dup2(file.as_raw_fd(), number) }.into()).map(drop)
    })
}

/// Closes every descriptor but the standard streams and those of `kept`.
///
/// For a process that has just been forked and owns none of the others: whoever holds one as a value must not use it again.
pub(super) fn close_all_but(kept: &[RawFd]) -> io::Result<()> {
    let mut kept: Vec<u32> = kept.iter().map(|fd| fd.cast_unsigned()).filter(|fd| *fd > 2).collect();
    kept.sort_unstable();
    let mut first = 3;
    for next in kept.iter().copied().chain([u32::MAX]) {
        if next > first {
            let last = if next == u32::MAX { next } else { next - 1 };
            // SAFETY: the call takes numbers only.
            check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) })?;
        }
        first = next.saturating_add(1);
    }
    Ok(())
}

/// Keeps signals from this thread and those it starts; the end of a child is told by [`ended_children`].
pub(super) fn block_signals() -> io::Result<()> {
    let mut all = std::mem::MaybeUninit::uninit();
    // SAFETY: the call fills the set, which is live.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the set was filled; no old one is asked for.
    let result = unsafe { libc::sigprocmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut()) };
    check(result.into()).map(drop)
}

/// A descriptor that can be read when a child has ended. Signals must be blocked.
pub(super) fn ended_children() -> io::Result<OwnedFd> {
    let mut ended = std::mem::MaybeUninit::uninit();
    // SAFETY: the call empties the set, which is live.
    unsafe { libc::sigemptyset(ended.as_mut_ptr()) };
    // SAFETY: the set was made.
    unsafe { libc::sigaddset(ended.as_mut_ptr(), libc::SIGCHLD) };
    // SAFETY: the set was made; a new descriptor is asked for.
    let fd = unsafe { libc::signalfd(-1, ended.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    check(fd.into())?;
    // SAFETY: the call made this descriptor and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads a descriptor that does not wait until nothing is left.
pub(super) fn drain(file: BorrowedFd<'_>) {
    let mut buffer = [0; 1_024];
    while rustix::io::read(file, &mut buffer).is_ok_and(|read| read > 0) {}
}

/// Waits for the next child to end; its number, and its code as a shell tells it.
pub(super) fn reap_one() -> io::Result<(i32, i32)> {
    let mut status = 0;
    loop {
        // SAFETY: the pointer is that of a live number.
        match check(unsafe { libc::waitpid(-1, &raw mut status, 0) }.into()) {
            Ok(pid) => return Ok((i32::try_from(pid).unwrap_or(-1), code_of(status))),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
}

/// How a process ended, as a shell tells it.
fn code_of(status: libc::c_int) -> i32 {
    match libc::WIFSIGNALED(status) {
        true => 128 + libc::WTERMSIG(status),
        false => libc::WEXITSTATUS(status),
    }
}

/// A socket, for a stage to find out that there is none to be had.
pub(super) fn socket(family: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    let fd = check(unsafe { libc::socket(family, kind, 0) }.into())?;
    let fd = RawFd::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the call made this descriptor and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
