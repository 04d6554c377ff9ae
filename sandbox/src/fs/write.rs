//! `write_file` and `create_file`: write a whole file.
//!
//! Invariant: a new file replaces the old one under its name. The old file is never written through. So
//! another hard link keeps its content, no reader sees half a file, and a failure leaves the old file.

use serde::Serialize;

use super::change::{self, PreparedChange};
use super::resolve::{self, Found, Resolved};
use super::{Root, guard, read};
use crate::error::{Error, Kind};
use crate::grants::Grants;
use crate::output;
use crate::text::{Form, Text, Unwritable};

/// The report of a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Written {
    /// The file, relative to the workspace, links resolved.
    pub path: String,
    /// Whether the write created the file.
    pub created: bool,
    /// The new size, in bytes.
    pub bytes: u64,
    /// The new number of lines.
    pub lines: usize,
    /// The encoding of the file, which stays; `None` for UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<&'static str>,
    /// Whether the lines keep their old ends, which differ from the ends in the given text.
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
    /// Writes `content` to the file at `path`. Missing directories are created.
    ///
    /// An existing file keeps its ordinary permission bits. It keeps its owner, if this user may give files
    /// away. Set-user-id bits are dropped. The file also keeps its encoding and its byte order mark. It keeps
    /// the ends of its lines, if `content` has only `\n`. So a model can give a file back with a change. A
    /// new file is UTF-8.
    ///
    /// # Errors
    /// [`Kind::Failed`] for a character that the encoding of the file lacks, for a directory and for a
    /// device. [`Kind::Denied`] outside the workspace or the grants, for protected paths, and for a file
    /// marked read-only. [`Kind::Limit`] for content that is too long.
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

    /// Prepares a [`write_file`](Self::write_file) and changes nothing.
    ///
    /// # Errors
    /// The errors of [`write_file`](Self::write_file) that show beforehand.
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

    /// Creates the file at `path` with `content`. Missing directories are created.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file). Also [`Kind::Exists`] if the path exists, even as a dangling
    /// link.
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

    /// Prepares a [`create_file`](Self::create_file) and changes nothing.
    ///
    /// # Errors
    /// The errors of [`create_file`](Self::create_file) that show beforehand.
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

    /// The place for a whole file of this content.
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

/// A text that replaces a whole file.
fn in_place_of(there: &Text<'_>, content: &str) -> Result<Vec<u8>, Unwritable> {
    let form = match () {
        () if content.contains('\r') => Form::Own,
        () if there.has_spelled(content) => Form::Spelled,
        () => Form::Lines,
    };
    there.replaced(&there.all(form), content)
}

/// A text without the note that was shown below the file. A model may give that note back too.
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

/// The note on the encoding of a file that is not UTF-8.
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
