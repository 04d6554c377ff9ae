//! Writes the old files of a run into a new directory, whatever happened to the files since.
//!
//! Invariant: nothing is written outside of that new directory, and nothing is overwritten.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::{Component, Path};

use cap_fs_ext::DirExt as _;
use cap_std::fs::{Dir, DirBuilder, OpenOptions};
use toolgate_sandbox::{Image, ambient_authority};

use crate::Error;

/// Creates a directory that only its owner can read. The name must be free.
pub(super) fn make(directory: &Path) -> Result<Dir, Error> {
    let fail = |why: io::Error| match why.kind() {
        io::ErrorKind::AlreadyExists => Error::input(format!(
            "there is something at {} already; name a directory to be made",
            directory.display()
        )),
        _ => Error::input(format!("cannot make the directory {}: {why}", directory.display())),
    };
    let name = directory.file_name().ok_or_else(|| fail(io::ErrorKind::AlreadyExists.into()))?;
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = Dir::open_ambient_dir(parent, ambient_authority()).map_err(fail)?;
    parent.create_dir_with(name, &private()).map_err(fail)?;
    parent.open_dir_nofollow(name).map_err(fail)
}

/// Writes a file below `top`, with its old permissions.
pub(super) fn write(top: &Dir, path: &Path, image: &Image) -> io::Result<()> {
    let names: Vec<&OsStr> = path
        .components()
        .map(|component| match component {
            Component::Normal(name) => Ok(name),
            _ => Err(io::Error::other("its name leads outside")),
        })
        .collect::<io::Result<_>>()?;
    let (name, above) = names.split_last().ok_or_else(|| io::Error::other("it has no name"))?;
    let mut dir = top.try_clone()?;
    for name in above {
        match dir.create_dir_with(name, &private()) {
            Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return Err(why),
            _ => dir = dir.open_dir_nofollow(name)?,
        }
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    cap_std::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = dir.open_with(name, &options)?;
    let written = file.write_all(&image.bytes).and_then(|()| {
        #[cfg(unix)]
        if let Some(mode) = image.mode {
            use cap_std::fs::{Permissions, PermissionsExt as _};
            file.set_permissions(Permissions::from_mode(mode & 0o777))?;
        }
        Ok(())
    });
    // Half a file would pass for what was there.
    written.inspect_err(|_| drop(dir.remove_file(name)))
}

fn private() -> DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "the mode is Unix's"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    cap_std::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn nothing_lands_outside() {
        let above = tempfile::tempdir().unwrap();
        let dir = make(&above.path().join("d")).unwrap();
        let image = Image::new(b"x", None);
        for path in ["../out", "/out", "a/../../out", "..", "", ".", "a/./../../out"] {
            write(&dir, Path::new(path), &image).unwrap_err();
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("..", above.path().join("d/link")).unwrap();
            write(&dir, Path::new("link/out"), &image).unwrap_err();
        }
        write(&dir, Path::new("a/b"), &image).unwrap();
        write(&dir, Path::new("a/b"), &image).unwrap_err();
        let names = std::fs::read_dir(above.path()).unwrap();
        assert_eq!(names.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>(), ["d"]);
        assert_eq!(std::fs::read(above.path().join("d/a/b")).unwrap(), b"x");
        assert!(make(&above.path().join("d")).unwrap_err().to_string().contains("already"));
        make(Path::new("/")).unwrap_err();
    }
}
