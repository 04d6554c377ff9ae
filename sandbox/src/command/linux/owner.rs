//! The outer stage, for a runtime that is root. Before bubblewrap starts, it becomes a user that owns nothing
//! on this machine. It mounts the workspace so that the files of root there look like those of that user.
//!
//! Root without capabilities may still write files that root owns by plain permission bits, such as
//! `/proc/sys`. Process limits do not count it. It leaves files with set-user-id.
//!
//! Invariant: the mounts of the runtime stay as they are. The changes live and end with the namespace of the
//! stage.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it prepares a namespace of its own")]

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;

use serde::{Deserialize, Serialize};

use super::{stage, sys};
use crate::command::layer::{Layer, Status};

/// The user and group of commands. Above what any system gives to people, services and containers, below 2³¹.
pub(super) const USER: u32 = 2_147_000_001;

/// Where the outer stage puts the workspace, for bubblewrap to find.
pub(super) const WORKSPACE: &str = "/tmp/workspace";
const WORKSPACE_PATH: &std::ffi::CStr = c"/tmp/workspace";

/// What the outer stage needs to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    /// The workspace, by its descriptor.
    pub(super) workspace: RawFd,
    /// What lies outside of the workspace and can be read, by its descriptors, and whether each is a directory.
    pub(super) outside: Vec<(RawFd, bool)>,
    /// The stage's program, by its descriptor; the one that the commands' user can start takes its number.
    pub(super) stage: RawFd,
}

/// Prepares, becomes the user, and becomes bubblewrap, whose program and arguments are `bubblewrap`; what comes back is
/// why not.
pub(super) fn run(task: &stage::Task, mut bubblewrap: impl Iterator<Item = OsString>) -> Status {
    let refused = |layer, why: String| Status::Refused { layer, why };
    let (Some(owner), Some(program)) = (&task.owner, bubblewrap.next()) else {
        return refused(Layer::Owner, "the outer stage was given nothing to do".into());
    };
    if let Err((layer, doing, why)) = prepare(owner) {
        return refused(layer, format!("cannot {doing}: {why}"));
    }
    let error = std::process::Command::new(program).args(bubblewrap).env_clear().exec();
    Status::Refused { layer: Layer::Bubblewrap, why: format!("it cannot be started: {error}") }
}

fn prepare(task: &Task) -> Result<(), (Layer, &'static str, io::Error)> {
    let at = |doing: &'static str| move |why: io::Error| (Layer::Owner, doing, why);
    let owners = owners().map_err(|why| (Layer::Userns, "make a user namespace that maps owners", why))?;
    let copy = |what: RawFd| {
        let mount = sys::clone_mount(sys::borrow(what)?)?;
        sys::map_owners(mount.as_fd(), owners.as_fd())?;
        Ok::<_, io::Error>(mount)
    };
    // While the descriptors are still of this namespace.
    let workspace = copy(task.workspace)
        .map_err(at("map the owners of the workspace (its file system may not be able to)"))?;
    let program = copy(task.stage).map_err(at("map the owners of the stage's program"))?;
    let readable = |(outside, _): &(RawFd, bool)| {
        // It is only read. Where its file system cannot map owners, what others may read of it can be.
        copy(*outside).or_else(|_| sys::clone_mount(sys::borrow(*outside)?))
    };
    let outside: Result<Vec<_>, io::Error> = task.outside.iter().map(readable).collect();
    let outside = outside.map_err(at("copy the mount of what [mcp.NAME] read names"))?;
    sys::unshare(libc::CLONE_NEWNS).map_err(at("make a mount namespace (this needs CAP_SYS_ADMIN)"))?;
    sys::make_mounts_private().map_err(at("keep mounts private"))?;
    // From here on nothing of the machine's /tmp is needed: what was in it is held by the two mounts.
    sys::mount_tmpfs(c"/tmp").map_err(at("mount a place to work in"))?;
    std::fs::create_dir(WORKSPACE).map_err(at("make a place for the workspace"))?;
    sys::attach_mount(workspace.as_fd(), WORKSPACE_PATH).map_err(at("mount the workspace"))?;
    for (number, (mount, (_, directory))) in outside.iter().zip(&task.outside).enumerate() {
        let place = outside_place(number);
        let made = if *directory { std::fs::create_dir(&place) } else { std::fs::write(&place, "") };
        made.map_err(at("make a place for what can be read"))?;
        let place = std::ffi::CString::new(place).map_err(|why| at("name a place")(why.into()))?;
        sys::attach_mount(mount.as_fd(), &place).map_err(at("mount what can be read"))?;
    }
    // It is started from its mount, which is nowhere: a program that was replaced meanwhile has no place any more.
    sys::take_number(program.as_fd(), task.stage).map_err(at("pass the stage on"))?;
    let passed = task.outside.iter().map(|(outside, _)| *outside).chain([task.workspace]);
    for descriptor in passed {
        sys::close_on_exec(descriptor).map_err(at("keep the workspace's descriptor"))?;
    }
    std::env::set_current_dir("/").map_err(at("leave the directory it was started in"))?;
    sys::become_user(USER).map_err(at("become the user of commands"))
}

/// Where the outer stage puts what lies outside of the workspace and can be read.
pub(super) fn outside_place(number: usize) -> String {
    format!("/tmp/outside-{number}")
}

/// A user namespace in which root is the user of commands, and everybody else who they are.
fn owners() -> io::Result<OwnedFd> {
    let (mut hold, release) = io::pipe()?;
    let (mut ready, made) = io::pipe()?;
    let Some(child) = sys::fork()? else {
        drop((release, ready));
        let result = sys::unshare(libc::CLONE_NEWUSER);
        drop(made);
        // Ends when the other side of the pipe is closed.
        let _ = io::Read::read(&mut hold, &mut [0]);
        sys::exit_now(i32::from(result.is_err()));
    };
    drop((hold, made));
    let _ = io::Read::read(&mut ready, &mut [0])?;
    let map = format!("0 {USER} 1\n1 1 65535\n");
    let result = std::fs::write(format!("/proc/{child}/uid_map"), &map)
        .and_then(|()| std::fs::write(format!("/proc/{child}/gid_map"), &map))
        .and_then(|()| std::fs::File::open(format!("/proc/{child}/ns/user")));
    drop(release);
    sys::wait_for(child)?;
    result.map(OwnedFd::from)
}
