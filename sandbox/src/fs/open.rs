//! Opens a file for reading. Every operation reads through this.
//!
//! Invariant: the result is a regular file below the workspace that the grants allow to read. Opening never
//! waits, for a named pipe or a terminal either. Reading stops at the limits.

use std::io::Read as _;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

#[cfg(target_os = "linux")]
use super::direct;
use super::resolve::{self, Found};
use super::{Root, guard, nearest};
use crate::error::{Error, Kind};
use crate::grants::Grants;
use crate::output;

/// A file that is open for reading.
#[derive(Debug)]
pub(super) struct Opened {
    file: File,
    pub(super) metadata: Metadata,
}

impl Opened {
    /// The handle.
    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

/// Opens the file at `path`.
pub(super) fn open(root: &Root, grants: &Grants, path: &str) -> Result<Opened, Error> {
    root.check_open()?;
    resolve::check_text(path)?;
    #[cfg(target_os = "linux")]
    if let Some(file) = direct::open(root, grants, path) {
        return regular(file, path);
    }
    let resolved = resolve::resolve(root, path)?;
    guard::check_read(grants, &resolved)?;
    match (&resolved.found, &resolved.last) {
        (Found::File(_), Some(name)) => {
            let file = open_name(resolved.dir(), name.as_ref())
                .map_err(|source| Error::io(path, "open the file", source))?;
            regular(file, path)
        }
        (Found::Special(what), _) => Err(not_a_file(path, what)),
        (Found::Missing { .. }, _) => Err(nearest::not_found(root, grants, &resolved, path)),
        _ => Err(is_a_directory(path)),
    }
}

/// Opens one name below `dir`, which must not be a link. It may be any other kind of file.
pub(crate) fn open_name(dir: &Dir, name: &std::path::Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt as _;
        // Opening a terminal must not make it ours.
        options.custom_flags(rustix::fs::OFlags::NOCTTY.bits().cast_signed());
    }
    dir.open_with(name, &options)
}

/// The whole file, at most `max_bytes` of it.
///
/// The size is checked before reading, by the file's own word. It is checked while reading too, since a file
/// can grow and some sizes are false.
pub(super) fn read_all(opened: &Opened, path: &str, max_bytes: u64) -> Result<Vec<u8>, Error> {
    let too_large = |bytes: u64| {
        Error::new(Kind::Limit, format!("the file is larger than {max_bytes} bytes ({bytes} or more)"))
            .at(path)
            .hint("read it in parts, with start_line and max_lines")
    };
    let said = opened.metadata.len();
    if said > max_bytes {
        return Err(too_large(said));
    }
    // One buffer of the size the file claims, and a byte more to see that it ends there.
    let claimed = usize::try_from(said).unwrap_or(usize::MAX).saturating_add(1);
    let mut bytes = vec![0; claimed];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match (&opened.file).read(rest) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(Error::io(path, "read the file", source)),
        }
    }
    bytes.truncate(filled);
    if filled == claimed {
        // It is longer than it said: it grows, or it is one of those that give no size.
        let read = u64::try_from(filled).unwrap_or(u64::MAX);
        (&opened.file)
            .take(max_bytes.saturating_add(1).saturating_sub(read))
            .read_to_end(&mut bytes)
            .map_err(|source| Error::io(path, "read the file", source))?;
    }
    let read = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if read > max_bytes { Err(too_large(read)) } else { Ok(bytes) }
}

/// Whether the file holds these bytes and no more.
pub(super) fn holds(mut file: &File, bytes: &[u8]) -> bool {
    let mut block = vec![0; 64 * 1024];
    let mut rest = bytes;
    loop {
        match file.read(&mut block) {
            Ok(0) => return rest.is_empty(),
            Ok(n) => match rest.strip_prefix(block.get(..n).unwrap_or_default()) {
                Some(after) => rest = after,
                None => return false,
            },
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// The error for a directory where a file was asked for.
pub(super) fn is_a_directory(path: &str) -> Error {
    Error::new(Kind::Failed, "this is a directory, not a file")
        .at(path)
        .hint(format!("use list_directory on \"{}\" to see what is in it", output::name(path)))
}

/// The error for a thing that is neither file nor directory.
pub(super) fn not_a_file(path: &str, what: &str) -> Error {
    Error::new(Kind::Failed, format!("this is {what}, not a regular file"))
        .at(path)
        .hint("only regular files are opened")
}

/// Takes the opened file if it is regular. The check uses the handle, so nobody can exchange the file any
/// more.
pub(super) fn regular(file: File, path: &str) -> Result<Opened, Error> {
    let metadata = file.metadata().map_err(|source| Error::io(path, "look at the file", source))?;
    if metadata.is_file() {
        Ok(Opened { file, metadata })
    } else if metadata.is_dir() {
        Err(is_a_directory(path))
    } else {
        Err(not_a_file(path, resolve::special(&metadata)))
    }
}
