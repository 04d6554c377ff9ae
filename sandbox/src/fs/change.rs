//! Changes a file in two steps. The first step prepares the change, so a person can see it. The second step
//! makes the change.
//!
//! Invariant: the change that is made is the change that was shown. The new bytes, the old file and the place
//! are those of the preparation. If one of them differs by then, nothing changes.

use std::ffi::OsString;
use std::io::Write as _;

use cap_std::fs::{Dir, Metadata};
use cap_tempfile::TempFile;

use super::commit::{self, Seen};
use super::keep::{Before, Change, Image, mode};
use super::resolve::{self, Found, Resolved};
use super::{guard, open};
use crate::error::{Error, Kind};
use crate::grants::Grants;
use crate::text::Text;

/// A prepared change of a file. [`make`](Self::make) makes the change and returns a `T`.
///
/// ```
/// use toolgate_sandbox::{Grants, Root, ambient_authority};
/// let dir = tempfile::tempdir()?;
/// let (root, grants) = (Root::open(dir.path(), ambient_authority())?, Grants::read_write());
/// root.write_file(&grants, "a.txt", "one\n")?;
///
/// let change = root.prepare_edit(&grants, "a.txt", "one", "two")?;
/// assert_eq!((change.path(), change.before(), change.after()), ("a.txt", Some(&b"one\n"[..]), &b"two\n"[..]));
/// assert_eq!(change.report().path, "a.txt");
/// // Somebody else saves the file before it is made.
/// std::fs::write(dir.path().join("a.txt"), "one, and more\n")?;
/// let error = change.make().unwrap_err();
/// assert_eq!(error.to_string(), "the file was changed meanwhile: \"a.txt\"; read it again");
/// assert_eq!(std::fs::read_to_string(dir.path().join("a.txt"))?, "one, and more\n");
///
/// // A file that is not there, and one that is too large to be looked at.
/// let change = root.prepare_create(&grants, "new/b.txt", "b\n")?;
/// assert!(change.creates() && change.make()?.created);
/// let limits = grants.limits.max_file_bytes(10);
/// let small = Grants { limits, ..Grants::read_write() };
/// assert_eq!(root.prepare_write(&small, "a.txt", "")?.unread().map(|(bytes, _)| bytes), Some(14));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PreparedChange<T> {
    resolved: Resolved,
    /// The path of the request.
    asked: String,
    inside: String,
    name: OsString,
    grants: Grants,
    seen: Option<Seen>,
    after: Vec<u8>,
    report: T,
}

impl<T> PreparedChange<T> {
    /// A change of the file that `resolved` leads to. The rules allow the change, and `seen` is the file that
    /// is there.
    pub(super) fn new(
        resolved: Resolved,
        asked: &str,
        grants: &Grants,
        seen: Option<Seen>,
        after: Vec<u8>,
        report: T,
    ) -> Result<Self, Error> {
        let Some(name) = resolved.last.clone() else { return Err(open::is_a_directory(asked)) };
        if seen.as_ref().is_some_and(|seen| seen.metadata.permissions().readonly()) {
            return Err(Error::new(Kind::Denied, "the file is marked read-only")
                .at(asked)
                .hint("leave it as it is"));
        }
        if resolved.root().keeper.is_some()
            && let Some(Seen { bytes: Err(why), .. }) = &seen
        {
            return Err(Error::new(
                why.kind(),
                format!("what is there could not be kept for undo: {}", why.message()),
            )
            .at(asked)
            .hint("leave it as it is, or ask the user to move it away"));
        }
        let inside = resolved.inside().spelled().to_owned();
        let (asked, grants) = (asked.to_owned(), grants.clone());
        Ok(Self { resolved, asked, inside, name, grants, seen, after, report })
    }

    /// The path of the file, relative to the workspace, with links resolved.
    pub fn path(&self) -> &str {
        &self.inside
    }

    /// Whether the change creates the file.
    pub fn creates(&self) -> bool {
        self.seen.is_none()
    }

    /// The old bytes. `None` if there is no file, or if its bytes are [too many or unreadable](Self::unread).
    pub fn before(&self) -> Option<&[u8]> {
        self.seen.as_ref()?.bytes.as_deref().ok()
    }

    /// The size of the old file in bytes, and the reason that its bytes are not known. `None` if they are
    /// known.
    pub fn unread(&self) -> Option<(u64, String)> {
        let Seen { metadata, bytes } = self.seen.as_ref()?;
        Some((metadata.len(), bytes.as_ref().err()?.message().to_owned()))
    }

    /// The new bytes.
    pub fn after(&self) -> &[u8] {
        &self.after
    }

    /// The encoding of the file, the old text and the new text. `None` for UTF-8, and for two equal texts.
    ///
    /// ```
    /// # use toolgate_sandbox::{Grants, Root, ambient_authority};
    /// # let dir = tempfile::tempdir()?;
    /// # let (root, grants) = (Root::open(dir.path(), ambient_authority())?, Grants::read_write());
    /// std::fs::write(dir.path().join("a.txt"), b"caf\xe9 = 1\n")?;
    /// let change = root.prepare_edit(&grants, "a.txt", "1", "2")?;
    /// assert_eq!(change.after(), b"caf\xe9 = 2\n");
    /// let texts = change.texts().map(|(encoding, _, after)| (encoding, after));
    /// assert_eq!(texts, Some(("windows-1252", "café = 2\n".to_owned())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn texts(&self) -> Option<(&'static str, String, String)> {
        let text = Text::of(self.before()?)?;
        let encoding = text.encoding()?;
        let (before, after) = (text.decoded().0, text.instead(&self.after));
        let after = after.decoded().0;
        (before != after).then(|| (encoding, before.into_owned(), after.into_owned()))
    }

    /// The value that [`make`](Self::make) will return.
    pub fn report(&self) -> &T {
        &self.report
    }

    /// Makes the change.
    ///
    /// # Errors
    /// [`Kind::Failed`] if the path leads to another place by then, or the file is another one. Also the
    /// errors of writing the file and of [keeping](super::Keeper) its old content.
    pub fn make(mut self) -> Result<T, Error> {
        self.check_place()?;
        let after = std::mem::take(&mut self.after);
        let Some(keeper) = self.resolved.root().keeper.clone() else {
            self.put(&after)?;
            return Ok(self.report);
        };
        let (path, directories) = (self.resolved.path(), self.resolved.missing.len());
        let change = Change { path: &path, before: self.before_kept(), after: &after, directories };
        let number = keeper.keep(&change)?;
        self.put(&after).inspect_err(|_| keeper.drop_kept(number))?;
        keeper.made(number, &change);
        Ok(self.report)
    }

    fn before_kept(&self) -> Before {
        match &self.seen {
            None => Before::Nothing,
            Some(seen) => Before::File(Image {
                bytes: self.before().unwrap_or_default().to_vec(),
                mode: mode(&seen.metadata),
            }),
        }
    }

    /// Checks that the path still leads to the prepared place, and that the rules still allow the change.
    fn check_place(&self) -> Result<(), Error> {
        let now = resolve::resolve(self.resolved.root(), &self.asked)?;
        guard::check_write(&self.grants, &now)?;
        let is_same = now.path() == self.resolved.path()
            && now.missing.len() == self.resolved.missing.len()
            && same_directory(now.dir(), self.resolved.dir());
        match is_same {
            true => Ok(()),
            false => Err(changed("the path leads somewhere else by now", &self.asked)),
        }
    }

    fn put(&mut self, after: &[u8]) -> Result<(), Error> {
        let fail = |source| Error::io(&self.asked, "write the file", source);
        let made = self.resolved.make_missing(&self.asked)?;
        let done = (|| {
            let dir = self.resolved.dir();
            let mut new = TempFile::new(dir).map_err(fail)?;
            new.write_all(after).map_err(fail)?;
            let done = match &self.seen {
                None => commit::create(dir, &self.name, new),
                Some(seen) => {
                    keep_attributes(&new, &seen.metadata).map_err(fail)?;
                    commit::replace(dir, &self.name, new, seen)
                }
            };
            match done.map_err(fail)? {
                true => Ok(()),
                false if self.seen.is_none() => {
                    Err(changed("something else made a file of that name meanwhile", &self.asked))
                }
                false => Err(changed("the file was changed meanwhile", &self.asked)),
            }
        })();
        done.inspect_err(|_| self.resolved.remove_made(made))
    }
}

/// The file that `resolved` leads to, if there is one.
pub(super) fn look(resolved: &Resolved, path: &str, max_bytes: u64) -> Result<Option<Seen>, Error> {
    let metadata = match &resolved.found {
        Found::Missing { wants_directory: false } => return Ok(None),
        Found::File(metadata) => metadata.clone(),
        Found::Missing { .. } => {
            let why = "a path that ends in a slash names a directory, not a file";
            return Err(Error::new(Kind::Invalid, why).at(path));
        }
        Found::Directory => return Err(open::is_a_directory(path)),
        Found::Special(what) => return Err(open::not_a_file(path, what)),
    };
    Ok(Some(match read(resolved, path, max_bytes) {
        Ok((bytes, metadata)) => Seen { metadata, bytes: Ok(bytes) },
        Err(why) => Seen { metadata, bytes: Err(why) },
    }))
}

/// The bytes of a resolved file.
fn read(resolved: &Resolved, path: &str, max_bytes: u64) -> Result<(Vec<u8>, Metadata), Error> {
    let name = resolved.last.as_deref().unwrap_or_default();
    let file =
        open::open_name(resolved.dir(), name.as_ref()).map_err(|e| Error::io(path, "open the file", e))?;
    let opened = open::regular(file, path)?;
    let bytes = open::read_all(&opened, path, max_bytes)?;
    Ok((bytes, opened.metadata))
}

/// Gives the new file the owner and the ordinary permission bits of the old one.
pub(super) fn keep_attributes(new: &TempFile<'_>, old: &Metadata) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use cap_std::fs::{MetadataExt as _, Permissions, PermissionsExt as _};
        use rustix::fs::{Gid, Uid, fchown};
        let ours = new.as_file().metadata()?;
        if (ours.uid(), ours.gid()) != (old.uid(), old.gid()) {
            // Only root may give a file away; for anyone else the new file is simply theirs.
            let _ = fchown(new.as_file(), Some(Uid::from_raw(old.uid())), Some(Gid::from_raw(old.gid())));
        }
        // After the owner, so that no bit is granted to somebody it was not meant for. Set-user-id,
        // set-group-id and sticky bits are left off: new content has not earned them.
        new.as_file().set_permissions(Permissions::from_mode(old.mode() & 0o777))
    }
    #[cfg(not(unix))]
    new.as_file().set_permissions(old.permissions())
}

fn same_directory(one: &Dir, other: &Dir) -> bool {
    #[cfg(unix)]
    {
        use cap_std::fs::MetadataExt as _;
        let identity = |dir: &Dir| dir.dir_metadata().map(|metadata| (metadata.dev(), metadata.ino()));
        matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
    }
    #[cfg(not(unix))]
    {
        let _ = (one, other);
        true
    }
}

fn changed(what: &str, path: &str) -> Error {
    Error::new(Kind::Failed, what).at(path).hint("read it again")
}
