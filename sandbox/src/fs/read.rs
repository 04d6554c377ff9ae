//! `read_file`: the lines of a text file.

use serde::Serialize;

use super::{Root, open};
use crate::error::{Error, Kind};
use crate::grants::Grants;

/// Which lines of a file are read.
///
/// ```
/// use toolgate_sandbox::{Grants, ReadOptions, Root, ambient_authority};
/// let dir = tempfile::tempdir()?;
/// let root = Root::open(dir.path(), ambient_authority())?;
/// root.write_file(&Grants::read_write(), "list.txt", "one\ntwo\nthree\nfour\n")?;
/// let middle = ReadOptions { start_line: Some(2), max_lines: Some(2) };
/// let read = root.read_file(&Grants::read_only(), "list.txt", &middle)?;
/// assert_eq!((read.text.as_str(), read.total_lines), ("two\nthree\n", 4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// First line, counted from one; nothing and zero mean the first.
    pub start_line: Option<u64>,
    /// Most lines; nothing and zero mean as many as [`FileLimits`](crate::FileLimits) allow.
    pub max_lines: Option<u64>,
}

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
    /// The lines with their ends, as they are in the file; bytes that are no text are U+FFFD.
    pub text: String,
    /// Number of the first line in `text`, counted from one; zero for an empty file.
    pub first_line: usize,
    /// Number of the last line in `text`.
    pub last_line: usize,
    /// Lines in the whole file.
    pub total_lines: usize,
    /// Size of the whole file in bytes.
    pub total_bytes: u64,
    /// Whether lines after `text` were left off.
    pub truncated: bool,
    /// For the model, on a line of its own after the text: what was left off and how to read on.
    pub note: Option<String>,
}

impl FileText {
    /// The text, and the note where there is one: what a model sees, before
    /// [`output::for_model`](crate::output::for_model).
    pub fn content(&self) -> String {
        match &self.note {
            None => self.text.clone(),
            Some(note) if self.text.is_empty() || self.text.ends_with('\n') => format!("{}{note}", self.text),
            Some(note) => format!("{}\n{note}", self.text),
        }
    }

    /// The text with its line numbers in front, as `cat -n` shows them.
    pub fn numbered(&self) -> String {
        let lines = self.text.split_inclusive('\n').enumerate();
        lines.map(|(i, line)| format!("{:>6}\t{line}", self.first_line + i)).collect()
    }
}

impl Root {
    /// Reads lines of the text file at `path`.
    ///
    /// # Errors
    /// [`Kind::Denied`] outside the workspace or the grants, [`Kind::NotFound`] with the names that are near,
    /// [`Kind::Limit`] for a file that is too large, [`Kind::Failed`] for a directory, a binary file, a pipe
    /// or a device, [`Kind::Invalid`] for a first line beyond the end.
    ///
    /// ```
    /// # use toolgate_sandbox::{Grants, ReadOptions, Root, ambient_authority};
    /// # let dir = tempfile::tempdir()?;
    /// # let root = Root::open(dir.path(), ambient_authority())?;
    /// root.write_file(&Grants::read_write(), "list.txt", "one\ntwo\nthree\n")?;
    /// let two = ReadOptions { max_lines: Some(2), ..ReadOptions::default() };
    /// let read = root.read_file(&Grants::read_only(), "list.txt", &two)?;
    /// assert_eq!(read.content(), "one\ntwo\n[lines 1-2 of 3; to read on: start_line 3]");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_file(&self, grants: &Grants, path: &str, options: &ReadOptions) -> Result<FileText, Error> {
        let opened = open::open(self, grants, path)?;
        let bytes = open::read_all(&opened, path, grants.limits.max_file_bytes)?;
        let total_bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let text = decode(bytes).ok_or_else(|| {
            Error::new(Kind::Failed, format!("this is a binary file ({total_bytes} bytes), not text"))
                .at(path)
                .hint("do not try to read it")
        })?;
        select(text, total_bytes, path, options, grants)
    }
}

/// The bytes as text, or nothing if they look like something else.
fn decode(bytes: Vec<u8>) -> Option<String> {
    let utf16 = |rest: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = rest.chunks_exact(2).map(|pair| match pair {
            [a, b] => unit([*a, *b]),
            _ => 0,
        });
        char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    };
    match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => return Some(utf16(rest, u16::from_le_bytes)),
        [0xfe, 0xff, rest @ ..] => return Some(utf16(rest, u16::from_be_bytes)),
        [0xef, 0xbb, 0xbf, rest @ ..] if !open::is_binary(rest) => {
            return Some(String::from_utf8_lossy(rest).into_owned());
        }
        _ if open::is_binary(&bytes) => return None,
        _ => {}
    }
    Some(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

fn select(
    text: String,
    total_bytes: u64,
    path: &str,
    options: &ReadOptions,
    grants: &Grants,
) -> Result<FileText, Error> {
    let line_ends = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    let total_lines = line_ends + usize::from(!text.is_empty() && !text.ends_with('\n'));
    let asked = |value: Option<u64>, otherwise: usize| match value {
        None | Some(0) => otherwise,
        Some(n) => usize::try_from(n).unwrap_or(usize::MAX),
    };
    let start = asked(options.start_line, 1);
    if total_lines == 0 {
        let note = Some("[the file is empty]".to_owned());
        return Ok(FileText {
            text,
            first_line: 0,
            last_line: 0,
            total_lines,
            total_bytes,
            truncated: false,
            note,
        });
    }
    if start > total_lines {
        return Err(Error::new(
            Kind::Invalid,
            format!("the file has {total_lines} lines, there is no line {start}"),
        )
        .at(path)
        .hint("use a smaller start_line"));
    }
    let max_lines = asked(options.max_lines, usize::MAX).min(grants.limits.max_lines).max(1);
    let max_bytes = grants.limits.max_output_bytes;
    if start == 1 && total_lines <= max_lines && text.len() <= max_bytes {
        let (last_line, truncated, note) = (total_lines, false, None);
        return Ok(FileText { text, first_line: 1, last_line, total_lines, total_bytes, truncated, note });
    }
    let (mut begin, mut end, mut last_line, mut cut_line) = (0, 0, start - 1, false);
    for (i, line) in text.split_inclusive('\n').enumerate() {
        if i + 1 < start {
            begin += line.len();
            end = begin;
            continue;
        }
        if last_line + 1 - start >= max_lines {
            break;
        }
        if end - begin + line.len() > max_bytes {
            if last_line < start {
                // One line longer than the whole result: its beginning is better than nothing.
                end = begin + line.floor_char_boundary(max_bytes);
                last_line += 1;
                cut_line = true;
            }
            break;
        }
        end += line.len();
        last_line += 1;
    }
    let truncated = last_line < total_lines || cut_line;
    let note = if cut_line {
        Some(format!(
            "[line {last_line} of {total_lines} is cut after {max_bytes} bytes; search_codebase finds text in it]"
        ))
    } else if truncated {
        Some(format!(
            "[lines {start}-{last_line} of {total_lines}; to read on: start_line {}]",
            last_line + 1
        ))
    } else {
        None
    };
    let text = text.get(begin..end).unwrap_or_default().to_owned();
    Ok(FileText { text, first_line: start, last_line, total_lines, total_bytes, truncated, note })
}
