//! `read_file`: reads lines of a text file.

use serde::Serialize;

use super::{Root, open, part};
use crate::error::{Error, Kind};
use crate::grants::Grants;
use crate::output;
use crate::text::{self, Text};

/// Bytes of a result that are reserved for the note.
const NOTE_BYTES: usize = 256;

/// The lines that are read.
///
/// ```
/// use toolgate_sandbox::{Grants, ReadOptions, Root, ambient_authority};
/// let dir = tempfile::tempdir()?;
/// let root = Root::open(dir.path(), ambient_authority())?;
/// root.write_file(&Grants::read_write(), "list.txt", "one\ntwo\nthree\nfour\n")?;
/// let middle = ReadOptions::default().start_line(Some(2)).max_lines(Some(2));
/// let read = root.read_file(&Grants::read_only(), "list.txt", &middle)?;
/// assert_eq!((read.text.as_str(), read.total_lines), ("two\nthree\n", 4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// First line, counted from 1; `None` and 0 mean the first.
    pub start_line: Option<u64>,
    /// Lines at most; `None` and 0 mean as many as [`FileLimits`](crate::FileLimits) allow.
    pub max_lines: Option<u64>,
    /// First character of the first line, counted from 1; `None` and 0 mean the first.
    pub start_column: Option<u64>,
}

crate::setters::setters! { ReadOptions {
    start_line: Option<u64>,
    max_lines: Option<u64>,
    start_column: Option<u64>,
} }

/// Lines of a text file.
///
/// ```
/// use toolgate_sandbox::{Grants, ReadOptions, Root, ambient_authority};
/// let dir = tempfile::tempdir()?;
/// let root = Root::open(dir.path(), ambient_authority())?;
/// root.write_file(&Grants::read_write(), "list.txt", "one\ntwo\n")?;
/// let read = root.read_file(&Grants::read_only(), "list.txt", &ReadOptions::default())?;
/// assert_eq!((read.first_line, read.last_line, read.truncated), (1, 2, false));
/// assert_eq!(read.numbered(), "     1\tone\n     2\ttwo\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FileText {
    /// The lines with their ends, as they are in the file. Bytes that are no text become `\xff`.
    pub text: String,
    /// Number of the first line in `text`, counted from 1; 0 for an empty file.
    pub first_line: usize,
    /// Number of the last line in `text`.
    pub last_line: usize,
    /// Lines of the whole file. For a file beyond [`FileLimits`](crate::FileLimits), the lines up to the end
    /// of the read part.
    pub total_lines: usize,
    /// Size of the whole file in bytes.
    pub total_bytes: u64,
    /// Whether lines after `text` were cut off.
    pub truncated: bool,
    /// The encoding of the file; `None` for UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<&'static str>,
    /// A note for the model, below the text: the omitted lines, the way to read on, and the encoding.
    pub note: Option<String>,
}

impl FileText {
    /// The text for a model: each line with `\n`, then the note.
    /// [`output::for_model`](crate::output::for_model) still has to clean it.
    pub fn content(&self) -> String {
        let text = text::normal(&self.text);
        match &self.note {
            None => text.into_owned(),
            Some(note) if text.is_empty() || text.ends_with('\n') => format!("{text}{note}"),
            Some(note) => format!("{text}\n{note}"),
        }
    }

    /// The text with line numbers in front, as `cat -n` prints it.
    pub fn numbered(&self) -> String {
        let text = text::normal(&self.text);
        let lines = text.split_inclusive('\n').enumerate();
        lines.map(|(i, line)| format!("{:>6}\t{line}", self.first_line + i)).collect()
    }
}

impl Root {
    /// Reads lines of the text file at `path`.
    ///
    /// # Errors
    /// [`Kind::Denied`] outside the workspace or the grants. [`Kind::NotFound`] with similar names.
    /// [`Kind::Limit`] for lines too far down in a large file. [`Kind::Failed`] for a directory, a binary
    /// file, a pipe or a device. [`Kind::Invalid`] for a first line beyond the end.
    ///
    /// ```
    /// # use toolgate_sandbox::{Grants, ReadOptions, Root, ambient_authority};
    /// # let dir = tempfile::tempdir()?;
    /// # let root = Root::open(dir.path(), ambient_authority())?;
    /// root.write_file(&Grants::read_write(), "list.txt", "one\ntwo\nthree\n")?;
    /// let two = ReadOptions::default().max_lines(Some(2));
    /// let read = root.read_file(&Grants::read_only(), "list.txt", &two)?;
    /// assert_eq!(read.content(), "one\ntwo\n[lines 1-2 of 3; to read on: start_line 3]");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_file(&self, grants: &Grants, path: &str, options: &ReadOptions) -> Result<FileText, Error> {
        let opened = open::open(self, grants, path)?;
        let asked = Asked::of(options, grants);
        if opened.metadata.len() > grants.limits.max_file_bytes {
            return part::read(&opened, path, &asked, grants);
        }
        let bytes = open::read_all(&opened, path, grants.limits.max_file_bytes)?;
        let total_bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let text = Text::of(&bytes).ok_or_else(|| {
            Error::new(Kind::Failed, format!("this is a binary file ({total_bytes} bytes), not text"))
                .at(path)
                .hint("do not try to read it")
        })?;
        let (decoded, spelled) = text.decoded();
        let total_lines = text::ended(&decoded).count();
        let selected = select(&decoded, total_lines, path, &asked, grants)?;
        let said = selected.note.into_iter().chain(note_of(text.encoding(), spelled));
        let note = said.collect::<Vec<_>>().join("\n");
        Ok(FileText {
            text: selected.text,
            first_line: if total_lines == 0 { 0 } else { asked.start },
            last_line: selected.last,
            total_lines,
            total_bytes,
            truncated: selected.truncated,
            encoding: text.encoding(),
            note: (!note.is_empty()).then_some(note),
        })
    }
}

/// The note on a file that is not UTF-8, or not throughout.
pub(super) fn note_of(encoding: Option<&str>, spelled: usize) -> Option<String> {
    let bytes = if spelled == 1 { "1 byte is".to_owned() } else { format!("{spelled} bytes are") };
    match (encoding, spelled) {
        (None, 0) => None,
        (None, _) => Some(format!("[not all of it is UTF-8: {bytes} shown as \\x and two digits]")),
        (Some(name), 0) => Some(format!("[encoding: {name}]")),
        (Some(name), _) => Some(format!("[encoding: {name}; {bytes} shown as \\x and two digits]")),
    }
}

/// The requested lines.
pub(super) struct Asked {
    pub(super) start: usize,
    pub(super) column: usize,
    pub(super) max_lines: usize,
}

impl Asked {
    fn of(options: &ReadOptions, grants: &Grants) -> Self {
        let or = |value: Option<u64>, otherwise: usize| match value {
            None | Some(0) => otherwise,
            Some(n) => usize::try_from(n).unwrap_or(usize::MAX),
        };
        let max_lines = or(options.max_lines, usize::MAX).min(grants.limits.max_lines).max(1);
        Self { start: or(options.start_line, 1), column: or(options.start_column, 1), max_lines }
    }
}

/// Lines of a text, and what is said of the rest.
pub(super) struct Selected {
    pub(super) text: String,
    pub(super) last: usize,
    pub(super) truncated: bool,
    /// Whether it ends within a line.
    pub(super) is_cut: bool,
    pub(super) note: Option<String>,
}

/// The whole that a part belongs to.
pub(super) enum Of {
    /// So many lines, the first of the part with so many characters.
    Lines { total: usize, characters: usize },
    /// So many bytes; whether the part is all there is from its begin on.
    Bytes { size: u64, is_all: bool },
}

fn select(text: &str, total: usize, path: &str, asked: &Asked, grants: &Grants) -> Result<Selected, Error> {
    let Asked { start, column, .. } = *asked;
    if total == 0 {
        let note = Some("[the file is empty]".to_owned());
        return Ok(Selected { text: String::new(), last: 0, truncated: false, is_cut: false, note });
    }
    let invalid = |why: String, hint: &str| Err(Error::new(Kind::Invalid, why).at(path).hint(hint));
    if start > total {
        return invalid(
            format!("the file has {total} lines, there is no line {start}"),
            "use a smaller start_line",
        );
    }
    let before: usize = text::ended(text).take(start - 1).map(str::len).sum();
    let rest = text.get(before..).unwrap_or_default();
    let line = text::ended(rest).next().unwrap_or_default().trim_end_matches(['\r', '\n']);
    let characters = line.chars().count();
    let Some(skipped) = line.char_indices().map(|(at, _)| at).chain([line.len()]).nth(column - 1) else {
        return invalid(
            format!("line {start} has {characters} characters, there is no column {column}"),
            "use a smaller start_column",
        );
    };
    let rest = rest.get(skipped..).unwrap_or_default();
    Ok(fit(rest, asked, &Of::Lines { total, characters }, grants))
}

/// As much of a text as a result holds; it begins at the line and the column that were asked for.
pub(super) fn fit(text: &str, asked: &Asked, of: &Of, grants: &Grants) -> Selected {
    let Asked { start, column, max_lines } = *asked;
    let max_bytes = grants.limits.max_output_bytes;
    let room = if max_bytes > 4 * NOTE_BYTES { max_bytes - NOTE_BYTES } else { max_bytes };
    let (mut lines, mut end, mut left) = (0, 0, room);
    for line in text::ended(text).take(max_lines) {
        let Some(after) = left.checked_sub(shown_len(line)) else { break };
        (lines, end, left) = (lines + 1, end + line.len(), after);
    }
    let is_cut = lines == 0 && !text.is_empty();
    if is_cut {
        // One line longer than the whole result: its beginning is better than nothing.
        end = beginning(text, room);
    }
    let shown = text.get(..end).unwrap_or_default().to_owned();
    let last = start + lines.max(1) - 1;
    let note = match of {
        Of::Lines { total, characters } if is_cut => {
            let until = column + shown.chars().count();
            Some(format!(
                "[line {start} of {total}: characters {column}-{} of {characters}; to read on: start_line {start}, start_column {until}]",
                until - 1
            ))
        }
        Of::Bytes { size, .. } if is_cut => {
            let until = column + shown.chars().count();
            Some(format!(
                "[line {start} of a file of {size} bytes: characters {column}-{}; to read on: start_line {start}, start_column {until}]",
                until - 1
            ))
        }
        Of::Lines { total, .. } if last < *total => {
            Some(format!("[lines {start}-{last} of {total}; to read on: start_line {}]", last + 1))
        }
        Of::Bytes { size, is_all } if !is_all || end < text.len() => {
            let next = last + 1;
            Some(format!("[lines {start}-{last} of a file of {size} bytes; to read on: start_line {next}]"))
        }
        _ => None,
    };
    Selected { text: shown, last, truncated: note.is_some(), is_cut, note }
}

/// Bytes of a text as a model is shown it.
fn shown_len(text: &str) -> usize {
    text::spelled(&text::normal(text)).len()
}

/// The length of the text that fits in `room` bytes, at least a character.
fn beginning(text: &str, room: usize) -> usize {
    let mut left = room;
    let fits = |c: &char| {
        let cost = if output::must_escape(*c) { shown_len(c.encode_utf8(&mut [0; 4])) } else { c.len_utf8() };
        let after = left.checked_sub(cost);
        left = after.unwrap_or(0);
        after.is_some()
    };
    let len = text.chars().take_while(fits).map(char::len_utf8).sum::<usize>();
    len.max(text.chars().next().map_or(0, char::len_utf8))
}
