//! `read_file` for files too large for memory: finds and reads some lines.
//!
//! Invariant: memory holds no more than a result, and reading stops after [`SCANNED`] bytes.

use std::io::{BufRead, BufReader};

use super::open::Opened;
use super::read::{Asked, FileText, Of, fit, note_of};
use crate::error::{Error, Kind};
use crate::grants::Grants;
use crate::text::{Text, ended};

/// Bytes that are read to find a line. This takes at most two seconds on a disk with 500 MB a second.
const SCANNED: u64 = 1 << 30;
/// Bytes that decide the encoding.
const BEGINNING: usize = 64 * 1024;

/// The requested lines.
pub(super) fn read(opened: &Opened, path: &str, asked: &Asked, grants: &Grants) -> Result<FileText, Error> {
    let fail = |source| Error::io(path, "read the file", source);
    let limit = |why: &str| {
        let bytes = opened.metadata.len();
        Error::new(Kind::Limit, format!("the file is large ({bytes} bytes), and {why}")).at(path)
    };
    let mut scan = Scan { from: BufReader::with_capacity(BEGINNING, opened.file()), line: 1, left: SCANNED };
    let beginning = scan.from.fill_buf().map_err(fail)?;
    let beginning = whole_characters(beginning);
    let is_ascii = beginning.is_ascii();
    let binary =
        || Error::new(Kind::Failed, "this is a binary file, not text").at(path).hint("do not try to read it");
    let seen = Text::of(beginning).ok_or_else(binary)?;
    if seen.is_wide() || asked.column > 1 && seen.encoding().is_some() {
        return Err(
            limit("its encoding is none of which parts are read").hint("use a program that converts it")
        );
    }
    let (mark, seen) = (seen.mark_len(), seen.other(&[]));
    scan.from.consume(mark);
    scan.go_to(asked.start).map_err(fail)?;
    let no_line = |lines: usize| {
        let why = format!("the file has {lines} lines, there is no line {}", asked.start);
        Error::new(Kind::Invalid, why).at(path).hint("use a smaller start_line")
    };
    if scan.line < asked.start {
        return Err(match scan.left {
            0 => limit("this line is too far behind").hint("use a smaller start_line"),
            _ => no_line(scan.line),
        });
    }
    if scan.is_over().map_err(fail)? {
        return Err(no_line(scan.line - 1));
    }
    let window = scan.window(asked, grants.limits.max_output_bytes).map_err(fail)?;
    let text = seen.other(&window);
    // A beginning in ASCII says nothing of what is behind it.
    let text = if is_ascii { Text::of(&window).ok_or_else(binary)? } else { text };
    let (decoded, spelled) = text.decoded();
    let of = Of::Bytes { size: opened.metadata.len(), is_all: scan.is_over().map_err(fail)? };
    let selected = fit(&decoded, asked, &of, grants);
    let left_off = match selected.is_cut && (spelled > 0 || text.encoding().is_some()) {
        // Characters behind could not be counted as they were here.
        true => Some(format!(
            "[line {} is cut; it is not UTF-8, and the rest of it cannot be read; the next line is start_line {}]",
            asked.start,
            asked.start + 1
        )),
        false => selected.note,
    };
    let said = left_off.into_iter().chain(note_of(text.encoding(), spelled));
    let note = said.collect::<Vec<_>>().join("\n");
    Ok(FileText {
        text: selected.text,
        first_line: asked.start,
        last_line: selected.last,
        total_lines: asked.start + ended(&decoded).count().max(1) - 1,
        total_bytes: opened.metadata.len(),
        truncated: selected.truncated,
        encoding: text.encoding(),
        note: (!note.is_empty()).then_some(note),
    })
}

/// The place where reading a line stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// At its end, or at the end of the file.
    Ended,
    /// Within the line, or with a part of it dropped.
    Cut,
}

/// A file that is read line by line.
struct Scan<R> {
    from: R,
    /// The next line.
    line: usize,
    /// Bytes that may still be read.
    left: u64,
}

impl<R: BufRead> Scan<R> {
    fn is_over(&mut self) -> std::io::Result<bool> {
        Ok(self.from.fill_buf()?.is_empty())
    }

    /// Skips to the beginning of a line, as far as lines and bytes reach.
    fn go_to(&mut self, line: usize) -> std::io::Result<()> {
        while self.line < line && self.left > 0 && !self.is_over()? {
            self.next(0, None, 0)?;
        }
        Ok(())
    }

    /// The requested lines, about `most` bytes of them.
    fn window(&mut self, asked: &Asked, most: usize) -> std::io::Result<Vec<u8>> {
        let mut window = Vec::new();
        for n in 0..asked.max_lines {
            if window.len() > most || self.is_over()? {
                break;
            }
            let begin = window.len();
            let skip = if n == 0 { asked.column - 1 } else { 0 };
            // Part of a line is shown only where it is all there is.
            if self.next(skip, Some(&mut window), most + 1)? == Left::Cut {
                let whole = whole_characters(&window).len();
                window.truncate(if n == 0 { whole } else { begin });
                break;
            }
        }
        Ok(window)
    }

    /// Goes to the next line. Keeps the text of this line behind `skip` characters, `most` bytes in all.
    fn next(
        &mut self,
        mut skip: usize,
        mut kept: Option<&mut Vec<u8>>,
        most: usize,
    ) -> std::io::Result<Left> {
        loop {
            let buffer = self.from.fill_buf()?;
            if buffer.is_empty() {
                return Ok(Left::Ended);
            }
            let end = memchr::memchr2(b'\n', b'\r', buffer);
            let len = end.map_or(buffer.len(), |at| at + 1);
            let read = buffer.get(..len).unwrap_or_default();
            let is_return = end.is_some() && read.last() == Some(&b'\r');
            if let Some(kept) = &mut kept {
                let wanted = behind(read, &mut skip);
                let room = most.saturating_sub(kept.len());
                kept.extend_from_slice(wanted.get(..room).unwrap_or(wanted));
                if wanted.len() > room {
                    return Ok(Left::Cut);
                }
            }
            self.from.consume(len);
            self.left = self.left.saturating_sub(u64::try_from(len).unwrap_or(u64::MAX));
            if is_return && self.from.fill_buf()?.first() == Some(&b'\n') {
                self.from.consume(1);
                if let Some(kept) = &mut kept {
                    kept.push(b'\n');
                }
            }
            if end.is_some() {
                self.line += 1;
                return Ok(Left::Ended);
            }
            if self.left == 0 {
                return Ok(Left::Cut);
            }
        }
    }
}

/// Bytes without an incomplete UTF-8 character at their end.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.get(..error.valid_up_to()).unwrap_or_default(),
        _ => bytes,
    }
}

/// The text behind the first `skip` characters of UTF-8. The end of a line counts as none.
fn behind<'b>(bytes: &'b [u8], skip: &mut usize) -> &'b [u8] {
    for (at, byte) in bytes.iter().enumerate() {
        let begins = byte & 0xc0 != 0x80;
        if *skip == 0 && begins || matches!(byte, b'\n' | b'\r') {
            return bytes.get(at..).unwrap_or_default();
        }
        *skip -= usize::from(begins && *skip > 0);
    }
    &[]
}
