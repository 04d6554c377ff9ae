//! Finds the programs and libraries of this machine, bubblewrap, and the stage. Only this file of the command
//! tier looks at the machine by path.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "system paths that are constants here or that a person named"
)]

use std::io::{Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::program::Program;

/// Trees of programs and libraries that every command sees, read-only (`@system`).
const TREES: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

/// What programs need from `/etc`; nothing in it names users, hosts or secrets.
const SETTINGS: &[&str] = &[
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/perl",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
];

/// Devices that every command may use.
pub(super) const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// A part of `@system` as it is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// To be mounted at its own path.
    Tree(&'static str),
    /// A link on this machine, to be made the same, with where it leads.
    Link(&'static str, PathBuf),
}

/// `@system` on this machine.
pub(super) fn system() -> Vec<System> {
    let present = |path: &&'static str| Path::new(path).symlink_metadata().is_ok();
    let part = |path: &'static str| match Path::new(path).read_link() {
        // Links such as /bin are made again; one into the depths of the machine, such as /etc/localtime, is followed.
        Ok(to) if !path.starts_with("/etc/") => System::Link(path, to),
        _ => System::Tree(path),
    };
    TREES
        .iter()
        .chain(SETTINGS)
        .copied()
        .filter(|path| present(path) && Path::new(path).exists())
        .map(part)
        .collect()
}

/// Every absolute path that the sandbox mounts something of its own at.
pub(super) fn own_places() -> impl Iterator<Item = &'static str> {
    TREES.iter().chain(SETTINGS).copied().chain(["/proc", "/dev", "/tmp", "/run"])
}

/// What tells one of this process's namespaces from others.
pub(super) fn namespace(kind: &str) -> Option<String> {
    let link = Path::new("/proc/self/ns").join(kind).read_link().ok()?;
    link.into_os_string().into_string().ok()
}

/// How many processes and threads this user has.
pub(super) fn tasks_of_this_user() -> u64 {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let status = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok());
    let own = super::sys::effective_uid().to_string();
    let field = |status: &str, name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        value.split_whitespace().next().map(str::to_owned)
    };
    let mine = status.filter(|status| field(status, "Uid:").as_deref() == Some(&own));
    mine.filter_map(|status| field(&status, "Threads:")?.parse::<u64>().ok()).sum()
}

/// Where an open directory is now.
pub(crate) fn path_of(fd: std::os::fd::BorrowedFd<'_>) -> Option<PathBuf> {
    use std::os::fd::AsRawFd as _;
    Path::new("/proc/self/fd").join(fd.as_raw_fd().to_string()).read_link().ok()
}

/// A file in memory that nobody can change, at its beginning.
pub(super) fn memory_file(name: &str, content: &str) -> std::io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = std::fs::File::from(fd);
    file.write_all(content.as_bytes())?;
    file.rewind()?;
    fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    Ok(file.into())
}

/// A file in memory for the broker to write to, and for this process to read.
pub(super) fn record() -> std::io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, memfd_create};
    Ok(memfd_create("record", MemfdFlags::CLOEXEC)?)
}

/// The version that bubblewrap says it has.
pub(super) fn version_of(bubblewrap: &Program) -> Result<String, String> {
    let shown = bubblewrap.shown().display();
    let output = bubblewrap
        .process()
        .arg("--version")
        .env_clear()
        .output()
        .map_err(|why| format!("{shown} cannot be started: {why}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    match said.trim().strip_prefix("bubblewrap ") {
        Some(version) if output.status.success() => Ok(version.to_owned()),
        _ => Err(format!("{shown} does not say that it is bubblewrap")),
    }
}
