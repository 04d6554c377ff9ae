//! `edit_file`: replaces one piece of text in a file by another.
//!
//! Invariant: the piece occurs exactly once in the text that was shown. Bytes outside the piece stay as they
//! are. A file that changed meanwhile is not overwritten.

use std::collections::HashSet;

use serde::Serialize;

use super::change::{self, PreparedChange};
use super::commit::Seen;
use super::resolve::{self, Found};
use super::{Root, guard, nearest, write};
use crate::error::{Error, Kind};
use crate::grants::Grants;
use crate::output;
use crate::text::{Form, Missed, Text};

/// Lines compared when the text is not found.
const COMPARED_LINES: usize = 20_000;
/// Occurrences named when the text is found more than once.
const NAMED: usize = 10;

/// The report of an edit.
///
/// ```
/// use toolgate_sandbox::{Grants, Root, ambient_authority};
/// let dir = tempfile::tempdir()?;
/// let root = Root::open(dir.path(), ambient_authority())?;
/// root.write_file(&Grants::read_write(), "app.toml", "host = \"a\"\nport = 80\n")?;
/// let edited = root.edit_file(&Grants::read_write(), "app.toml", "port = 80", "port = 8080\ntls = true")?;
/// assert_eq!((edited.line, edited.bytes), (2, 34));
/// assert_eq!(edited.content(), "edited \"app.toml\" at line 2: 1 line became 2 lines");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Edited {
    /// The file, relative to the workspace, links resolved.
    pub path: String,
    /// First line of the replaced piece, counted from 1.
    pub line: usize,
    /// Lines of the old piece.
    pub old_lines: usize,
    /// Lines of the new piece.
    pub new_lines: usize,
    /// The new size of the file, in bytes.
    pub bytes: u64,
    /// The encoding of the file, which stays; `None` for UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<&'static str>,
}

impl Edited {
    /// One sentence for the model.
    pub fn content(&self) -> String {
        let Self { path, line, old_lines, new_lines, .. } = self;
        let lines = |n: usize| if n == 1 { "1 line".to_owned() } else { format!("{n} lines") };
        format!(
            "edited \"{}\" at line {line}: {} became {}{}",
            output::name(path),
            lines(*old_lines),
            lines(*new_lines),
            write::in_encoding(self.encoding)
        )
    }
}

impl Root {
    /// Replaces `old_text` by `new_text`. `old_text` must occur exactly once in the file at `path`.
    ///
    /// Both are texts as [`read_file`](Self::read_file) shows them. Each `\n` of `old_text` stands for the
    /// end of a line, whatever that end is in the file. Lines of both texts keep their bytes and their ends,
    /// and new lines end as their neighbours do. `\u{1b}` and `\xff` stand for the characters and bytes that
    /// they were shown for. The file keeps its encoding.
    ///
    /// # Errors
    /// [`Kind::Failed`] if the text does not occur; the message has the line most like it. [`Kind::Failed`]
    /// if the text occurs more often; the message has the lines. [`Kind::Failed`] if the encoding of the file
    /// lacks a character of the new text. Otherwise as [`write_file`](Self::write_file) and
    /// [`read_file`](Self::read_file).
    ///
    /// ```
    /// # use toolgate_sandbox::{Grants, Kind, Root, ambient_authority};
    /// # let dir = tempfile::tempdir()?;
    /// # let root = Root::open(dir.path(), ambient_authority())?;
    /// let grants = Grants::read_write();
    /// root.write_file(&grants, "app.toml", "port = 80\nhost = \"a\"\n")?;
    /// root.edit_file(&grants, "app.toml", "port = 80", "port = 8080")?;
    /// let error = root.edit_file(&grants, "app.toml", "port = 80\n", "").unwrap_err();
    /// assert!(error.to_string().contains("line 1"), "{error}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn edit_file(
        &self,
        grants: &Grants,
        path: &str,
        old_text: &str,
        new_text: &str,
    ) -> Result<Edited, Error> {
        self.prepare_edit(grants, path, old_text, new_text)?.make()
    }

    /// Prepares an [`edit_file`](Self::edit_file) and changes nothing.
    ///
    /// # Errors
    /// The errors of [`edit_file`](Self::edit_file) that show beforehand.
    pub fn prepare_edit(
        &self,
        grants: &Grants,
        path: &str,
        old_text: &str,
        new_text: &str,
    ) -> Result<PreparedChange<Edited>, Error> {
        if old_text.is_empty() {
            return Err(Error::new(Kind::Invalid, "old_text is empty")
                .at(path)
                .hint("copy the text to replace from the file, or use write_file"));
        }
        let resolved = resolve::resolve(self, path)?;
        guard::check_write(grants, &resolved)?;
        guard::check_read(grants, &resolved)?;
        let not_found = || nearest::not_found(self, grants, &resolved, path);
        if let Found::Missing { .. } = &resolved.found {
            return Err(not_found());
        }
        let Seen { metadata, bytes } =
            change::look(&resolved, path, grants.limits.max_file_bytes)?.ok_or_else(not_found)?;
        // That there is no such file says more.
        if old_text == new_text {
            return Err(Error::new(
                Kind::Invalid,
                "old_text and new_text are the same, nothing would change",
            )
            .at(path));
        }
        let bytes = bytes?;
        let Some(text) = Text::of(&bytes) else {
            return Err(Error::new(Kind::Failed, "this is a binary file, not text")
                .at(path)
                .hint("do not edit it"));
        };
        let (old, new) = (text.unmarked(old_text), text.unmarked(new_text));
        let piece = text.find(old, NAMED).map_err(|missed| not_once(&text, old, missed, path))?;
        let edited = text.replaced(&piece, new).map_err(|why| write::unwritable(why, path))?;
        write::check_length(grants, path, edited.len())?;
        let report = Edited {
            path: resolved.inside().spelled().to_owned(),
            line: piece.line,
            old_lines: old_text.lines().count(),
            new_lines: new_text.lines().count(),
            bytes: u64::try_from(edited.len()).unwrap_or(u64::MAX),
            encoding: text.encoding(),
        };
        let seen = Seen { metadata, bytes: Ok(bytes) };
        PreparedChange::new(resolved, path, grants, Some(seen), edited, report)
    }
}

/// The error for a text that occurs not at all, or more than once.
fn not_once(text: &Text<'_>, old: &str, missed: Missed, path: &str) -> Error {
    match missed {
        Missed::Several { lines, times } => {
            let more = match times.saturating_sub(lines.len()) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let lines: Vec<String> = lines.iter().map(usize::to_string).collect();
            Error::new(Kind::Failed, format!("old_text occurs {times} times")).at(path).hint(format!(
                "it is at lines {}{more}: add text around the right one until it is unique",
                lines.join(", ")
            ))
        }
        Missed::Within(piece) => {
            let why = format!("old_text begins or ends within \"{piece}\", which is one thing in the file");
            Error::new(Kind::Failed, why).at(path).hint("take in all of it, or nothing")
        }
        Missed::Nowhere => {
            let error = Error::new(Kind::Failed, "old_text does not occur in the file").at(path);
            match nearest_line(&text.shown(Form::Spelled), old) {
                Some((line, text)) => error.hint(format!(
                    "nearest is line {line}: \"{}\"; copy the text exactly as the file has it",
                    output::name(&text)
                )),
                None => error.hint("read the file and copy the text exactly"),
            }
        }
    }
}

/// The line of `text` that is most like the first line of `wanted` with letters or digits.
fn nearest_line(text: &str, wanted: &str) -> Option<(usize, String)> {
    let wanted = wanted.lines().find(|line| !line.trim().is_empty())?;
    let pairs = pairs(wanted);
    let squeezed = squeeze(wanted);
    let mut best: Option<(f64, usize, &str)> = None;
    for (i, line) in text.lines().take(COMPARED_LINES).enumerate() {
        let likeness = if squeeze(line) == squeezed { 1.0 } else { likeness(&pairs, line) };
        if likeness > best.map_or(0.4, |(best, ..)| best) {
            best = Some((likeness, i + 1, line));
        }
    }
    best.map(|(_, line, text)| (line, text.to_owned()))
}

fn squeeze(line: &str) -> String {
    line.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).take(400).collect()
}

fn pairs(line: &str) -> HashSet<(char, char)> {
    let squeezed = squeeze(line);
    squeezed.chars().zip(squeezed.chars().skip(1)).collect()
}

/// Dice's coefficient of the two lines' letter pairs: linear in their length, between 0 and 1.
fn likeness(wanted: &HashSet<(char, char)>, line: &str) -> f64 {
    let line = pairs(line);
    let both = u32::try_from(wanted.intersection(&line).count()).unwrap_or(0);
    let all = u32::try_from(wanted.len() + line.len()).unwrap_or(u32::MAX);
    if all == 0 { 0.0 } else { 2.0 * f64::from(both) / f64::from(all) }
}
