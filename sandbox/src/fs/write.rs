//! `write_file` and `create_file`: a whole file at once.
//!
//! Invariant: a file is replaced by a new one under its name, never written through. So another hard link to
//! it keeps its content, no reader sees half of it, and a failure leaves what was there.

use serde::Serialize;

use super::change::{self, PreparedChange};
use super::resolve::{self, Found, Resolved};
use super::{Root, guard, read};
use crate::error::{Error, Kind};
use crate::grants::Grants;
use crate::output;
use crate::text::{Form, Text, Unwritable};

/// What a write did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Written {
    /// The file, relative to the workspace, links resolved.
    pub path: String,
    /// Whether there was no such file before.
    pub created: bool,
    /// Its size now, in bytes.
    pub bytes: u64,
    /// Its number of lines now.
    pub lines: usize,
    /// Its encoding, which stays; none for UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<&'static str>,
    /// Whether its lines end otherwise than in the text that was given, as they did before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub kept_line_ends: bool,
}

impl Written {
    /// One sentence for the model.
    pub fn content(&self) -> String {
        let verb = if self.created { "created" } else { "replaced" };
        let (path, lines) = (output::name(&self.path), self.lines);
        format!(
            "{verb} \"{path}\" ({lines} {}, {} bytes){}{}",
            if lines == 1 { "line" } else { "lines" },
            self.bytes,
            in_encoding(self.encoding),
            if self.kept_line_ends { ", with its own line ends (\\r)" } else { "" }
        )
    }
}

impl Root {
    /// Makes `content` the content of the file at `path`; missing directories are made.
    ///
    /// An existing file keeps its ordinary permission bits, and its owner where this user may give it away;
    /// set-user-id bits are dropped. It keeps its encoding with its byte order mark, too, and the ends of its lines where
    /// `content` has none but `\n`: so a file that was read can be given back with a change. A new file is UTF-8.
    ///
    /// # Errors
    /// [`Kind::Failed`] for a character that the encoding of the file lacks; [`Kind::Denied`] outside the workspace or the grants, for protected paths, and for a file marked
    /// read-only; [`Kind::Limit`] for content that is too long; [`Kind::Failed`] for a directory or a device.
    ///
    /// ```
    /// # use toolgate_sandbox::{Grants, Kind, Root, ambient_authority};
    /// # let dir = tempfile::tempdir()?;
    /// # let root = Root::open(dir.path(), ambient_authority())?;
    /// let written = root.write_file(&Grants::read_write(), "a/b.txt", "one\n")?;
    /// assert_eq!(written.content(), "created \"a/b.txt\" (1 line, 4 bytes)");
    /// let hook = root.write_file(&Grants::read_write(), "a/../.GIT/hooks/pre-commit", "id");
    /// assert_eq!(hook.unwrap_err().kind(), Kind::Denied);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_file(&self, grants: &Grants, path: &str, content: &str) -> Result<Written, Error> {
        self.prepare_write(grants, path, content)?.make()
    }

    /// [`write_file`](Self::write_file) made ready, and not made.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file), as far as can be known before.
    pub fn prepare_write(
        &self,
        grants: &Grants,
        path: &str,
        content: &str,
    ) -> Result<PreparedChange<Written>, Error> {
        let resolved = self.place_to_write(grants, path, content)?;
        let seen = change::look(&resolved, path, grants.limits.max_file_bytes)?;
        let there = seen.as_ref().and_then(|seen| Text::of(seen.bytes.as_deref().ok()?));
        let is_new = seen.is_none();
        let (bytes, report) = match there {
            None => (content.as_bytes().to_vec(), written(&resolved, is_new, content.as_bytes(), content)),
            Some(text) => {
                let content = without_note(&text, text.unmarked(content));
                let bytes = in_place_of(&text, content).map_err(|why| unwritable(why, path))?;
                let kept_line_ends =
                    !content.contains('\r') && text.instead(&bytes).decoded().0.contains('\r');
                let report = written(&resolved, is_new, &bytes, content);
                (bytes, Written { encoding: text.encoding(), kept_line_ends, ..report })
            }
        };
        check_length(grants, path, bytes.len())?;
        PreparedChange::new(resolved, path, grants, seen, bytes, report)
    }

    /// Makes a new file with `content` at `path`; missing directories are made.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file), and [`Kind::Exists`] if anything is there, be it a dangling link.
    ///
    /// ```
    /// use toolgate_sandbox::{Grants, Kind, Root, ambient_authority};
    /// let dir = tempfile::tempdir()?;
    /// let root = Root::open(dir.path(), ambient_authority())?;
    /// assert!(root.create_file(&Grants::read_write(), "a.txt", "one\n")?.created);
    /// let error = root.create_file(&Grants::read_write(), "a.txt", "two\n").unwrap_err();
    /// assert_eq!(error.kind(), Kind::Exists);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_file(&self, grants: &Grants, path: &str, content: &str) -> Result<Written, Error> {
        self.prepare_create(grants, path, content)?.make()
    }

    /// [`create_file`](Self::create_file) made ready, and not made.
    ///
    /// # Errors
    /// As [`create_file`](Self::create_file), as far as can be known before.
    pub fn prepare_create(
        &self,
        grants: &Grants,
        path: &str,
        content: &str,
    ) -> Result<PreparedChange<Written>, Error> {
        let resolved = self.place_to_write(grants, path, content)?;
        match &resolved.found {
            Found::Missing { .. } => {}
            Found::Directory => {
                return Err(Error::new(Kind::Exists, "there is a directory of that name").at(path));
            }
            Found::File(_) | Found::Special(_) => return Err(exists(path)),
        }
        let seen = change::look(&resolved, path, grants.limits.max_file_bytes)?;
        let bytes = content.as_bytes().to_vec();
        let report = written(&resolved, true, &bytes, content);
        PreparedChange::new(resolved, path, grants, seen, bytes, report)
    }

    /// Where a whole file may be written, of this content.
    fn place_to_write(&self, grants: &Grants, path: &str, content: &str) -> Result<Resolved, Error> {
        let resolved = resolve::resolve(self, path)?;
        guard::check_write(grants, &resolved)?;
        check_length(grants, path, content.len())?;
        Ok(resolved)
    }
}

/// Refuses content longer than a file may be.
pub(super) fn check_length(grants: &Grants, path: &str, bytes: usize) -> Result<(), Error> {
    let max = grants.limits.max_file_bytes;
    if u64::try_from(bytes).unwrap_or(u64::MAX) <= max {
        return Ok(());
    }
    Err(Error::new(Kind::Limit, format!("the content is {bytes} bytes, a file may have {max}"))
        .at(path)
        .hint("write less"))
}

/// A text that takes the place of all of another.
fn in_place_of(there: &Text<'_>, content: &str) -> Result<Vec<u8>, Unwritable> {
    let form = match () {
        () if content.contains('\r') => Form::Own,
        () if there.has_spelled(content) => Form::Spelled,
        () => Form::Lines,
    };
    there.replaced(&there.all(form), content)
}

/// A text without what was said of the file below it, which who was shown it may give back, too.
fn without_note<'t>(there: &Text<'_>, content: &'t str) -> &'t str {
    let said = read::note_of(there.encoding(), there.decoded().1);
    let text = said.and_then(|said| content.trim_end().strip_suffix(said.as_str()));
    match text.filter(|text| text.is_empty() || text.ends_with('\n')) {
        None => content,
        Some(text) if there.shown(Form::Lines).ends_with('\n') => text,
        // It was put on a line of its own.
        Some(text) => text.strip_suffix('\n').unwrap_or(text),
    }
}

/// In which encoding a file was written, where it is not UTF-8.
pub(super) fn in_encoding(encoding: Option<&str>) -> String {
    encoding.map_or_else(String::new, |name| format!(", still in {name}"))
}

/// The error for a text that cannot stand in a file.
pub(super) fn unwritable(why: Unwritable, path: &str) -> Error {
    let (message, hint) = match why {
        Unwritable::Lacks(c, encoding) => (
            format!(
                "the file is in {}, which has no \"{}\" (U+{:04X})",
                encoding.name(),
                output::name(c.encode_utf8(&mut [0; 4])),
                u32::from(c)
            ),
            "write it in other characters, or make a new file with create_file, which is UTF-8",
        ),
        Unwritable::Ambiguous(text) => (
            format!("\"{text}\" stands for different bytes in this text"),
            "change a smaller piece, and leave lines that have it as they are",
        ),
        Unwritable::Otherwise => (
            "the file would not read as this text does".to_owned(),
            "change whole lines, or a smaller piece with edit_file",
        ),
    };
    Error::new(Kind::Failed, message).at(path).hint(hint)
}

fn written(resolved: &Resolved, created: bool, bytes: &[u8], content: &str) -> Written {
    Written {
        path: resolved.inside().spelled().to_owned(),
        created,
        bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        lines: content.lines().count(),
        encoding: None,
        kept_line_ends: false,
    }
}

fn exists(path: &str) -> Error {
    Error::new(Kind::Exists, "there is something of that name already")
        .at(path)
        .hint("use write_file to replace it, or edit_file to change a part")
}
