//! The preview of a change of a file, for the person who is asked. It is made from the very bytes that would be written.

use sha2::{Digest as _, Sha256};
use toolgate_sandbox::{PreparedChange, output};

/// Lines shown around a change.
const CONTEXT: usize = 2;

/// The change that a call would make.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preview {
    /// The change in one line: the real file, whether it is new, and how much of it goes and comes.
    pub summary: String,
    /// The whole change by lines: `-` marks a line that goes, `+` one that comes, a space one nearby that stays. `\` marks a
    /// remark on the line before. Characters that a reader cannot see are spelled out.
    pub diff: String,
    /// The arguments that summary and diff show in full.
    pub covers: &'static [&'static str],
    /// A digest of everything that the change depends on: the place, all bytes that go, and all bytes that come.
    pub digest: [u8; 32],
}

impl Preview {
    /// The preview of a prepared change. `covers` names the arguments that hold its text.
    pub(super) fn of<T>(change: &PreparedChange<T>, covers: &'static [&'static str]) -> Self {
        let (path, after) = (spelled(change.path().as_bytes()), change.after());
        let texts = change.texts();
        let (known, is_text) = match change.before() {
            _ if change.creates() => (Some(&[][..]), true),
            Some(before) => (Some(before), texts.is_some() || !before.contains(&0)),
            None => (None, true),
        };
        let comes = size(after);
        let summary = if let Some((encoding, old, new)) = &texts {
            let (has, gets) = (size(old.as_bytes()), size(new.as_bytes()));
            format!("\"{path}\", which is in {encoding}, has {has} and gets {gets}, counted in UTF-8")
        } else {
            Self::summary(change, &path, known.filter(|_| is_text), &comes)
        };
        let mut hash = Sha256::new();
        for part in [change.path().as_bytes(), known.unwrap_or_default(), after] {
            // The length keeps parts apart.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.update([u8::from(change.creates()), u8::from(known.is_some())]);
        let diff = match &texts {
            Some((_, old, new)) => diff(old.as_bytes(), new.as_bytes()),
            None => diff(known.filter(|_| is_text).unwrap_or_default(), after),
        };
        Self { summary, diff, covers, digest: hash.finalize().into() }
    }

    /// The summary of a change of a file in UTF-8, or in no encoding; `text` is its shown content.
    fn summary<T>(change: &PreparedChange<T>, path: &str, text: Option<&[u8]>, comes: &str) -> String {
        match (text, change.before(), change.unread()) {
            _ if change.creates() => format!("makes the new file \"{path}\": {comes}"),
            (Some(text), ..) => format!("\"{path}\" has {} and gets {comes}", size(text)),
            (None, Some(before), _) => {
                format!("replaces \"{path}\", {} bytes that are no text and not shown: {comes}", before.len())
            }
            (None, None, Some((bytes, why))) => {
                let why = spelled(why.as_bytes());
                format!("replaces \"{path}\", {bytes} bytes that are not shown ({why}): {comes}")
            }
            (None, None, None) => format!("replaces \"{path}\", which is not shown: {comes}"),
        }
    }
}

fn size(bytes: &[u8]) -> String {
    let (lines, bytes) = (bytes.split_inclusive(|byte| *byte == b'\n').count(), bytes.len());
    let s = |count: usize| if count == 1 { "" } else { "s" };
    format!("{lines} line{}, {bytes} byte{}", s(lines), s(bytes))
}

/// The change from `old` to `new` by whole lines. Of the common beginning and end it shows a few lines only, so one change is
/// one piece. Lines differ by their bytes, line ends included.
fn diff(old: &[u8], new: &[u8]) -> String {
    let lines = |text| <[u8]>::split_inclusive(text, |byte| *byte == b'\n').collect::<Vec<&[u8]>>();
    let (old, new) = (lines(old), lines(new));
    let shorter = old.len().min(new.len());
    let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let tail =
        old.iter().rev().zip(new.iter().rev()).take(shorter - head).take_while(|(a, b)| a == b).count();
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let mut shown = Vec::new();
    for (sign, lines, from, to) in [
        (' ', &old, head.saturating_sub(CONTEXT), head),
        ('-', &old, head, old_end),
        ('+', &new, head, new_end),
        (' ', &old, old_end, old.len().min(old_end + CONTEXT)),
    ] {
        for line in lines.get(from..to).unwrap_or_default() {
            let text = line.strip_suffix(b"\n");
            shown.push(format!("{sign}{}", spelled(text.unwrap_or(line))));
            if text.is_none() {
                shown.push("\\ no line end here".to_owned());
            }
        }
    }
    shown.join("\n")
}

/// The whole text in one line. Characters that a reader cannot see are spelled out, and so are bytes that are no text.
#[doc(hidden)]
pub fn spelled(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for (i, line) in chunk.valid().split('\n').enumerate() {
            shown.push_str(if i > 0 { "\\n" } else { "" });
            shown.push_str(&output::for_terminal(line));
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use toolgate_sandbox::{FileLimits, Grants, Root, ambient_authority};

    use super::*;

    #[test]
    fn a_change_is_shown_with_a_little_around_it() {
        for (old, new, shown) in [
            ("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nX\ne\nf\n", " b\n c\n-d\n+X\n e\n f"),
            ("", "a\nb\n", "+a\n+b"),
            ("a\n", "", "-a"),
            ("a\na\n", "a\na\na\n", " a\n a\n+a"),
            ("same\n", "same\n", " same"),
        ] {
            assert_eq!(diff(old.as_bytes(), new.as_bytes()), shown, "{old:?} {new:?}");
        }
    }

    #[test]
    fn what_a_reader_cannot_see_is_seen() {
        for (old, new, shown) in [
            ("a\r\n", "a\n", "-a\\u{d}\n+a"),
            ("a\n", "a", "-a\n+a\n\\ no line end here"),
            ("a", "a\n", "-a\n\\ no line end here\n+a"),
            ("\u{feff}a\n", "a\n", "-\\u{feff}a\n+a"),
            ("a\n", "a\u{202e}\x1b[2K\n", "-a\n+a\\u{202e}\\u{1b}[2K"),
        ] {
            assert_eq!(diff(old.as_bytes(), new.as_bytes()), shown, "{old:?} {new:?}");
        }
        assert_eq!(diff(b"\xe9\n", b"x\n"), "-\\xe9\n+x");
    }

    #[test]
    fn a_change_in_another_encoding_is_shown_in_its_characters() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), ambient_authority()).unwrap();
        let wide: Vec<u8> = [0xff, 0xfe]
            .into_iter()
            .chain("é = 1\r\nb\r\n".encode_utf16().flat_map(u16::to_le_bytes))
            .collect();
        for (bytes, encoding) in [(&b"\xe9 = 1\r\nb\r\n"[..], "windows-1252"), (&wide, "UTF-16LE")] {
            std::fs::write(dir.path().join("a"), bytes).unwrap();
            let change = root.prepare_edit(&Grants::read_write(), "a", "1", "2").unwrap();
            let preview = Preview::of(&change, &["old_text", "new_text"]);
            assert_eq!(preview.diff, "-é = 1\\u{d}\n+é = 2\\u{d}\n b\\u{d}");
            assert!(preview.summary.contains(encoding), "{}", preview.summary);
        }
    }

    #[test]
    fn nothing_is_left_out_of_a_long_change() {
        let new: String = (0..5_000).map(|i| format!("line {i}\n")).collect();
        assert_eq!(diff(b"", new.as_bytes()).lines().count(), 5_000);
    }

    #[test]
    fn a_summary_says_whether_a_file_is_new_and_what_is_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), ambient_authority()).unwrap();
        let limits = FileLimits::default().max_file_bytes(100);
        let grants = Grants { limits, ..Grants::read_write() };
        for (name, bytes) in [("text", "a\nb\n".as_bytes()), ("binary", b"\0\x01"), ("large", &[b'x'; 101])] {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let of = |path: &str, content: &str| {
            Preview::of(&root.prepare_write(&grants, path, content).unwrap(), &["content"])
        };
        for (path, summary, diff) in [
            ("new", "makes the new file \"new\": 1 line, 2 bytes", "+x"),
            ("text", "\"text\" has 2 lines, 4 bytes and gets 1 line, 2 bytes", "-a\n-b\n+x"),
            ("binary", "replaces \"binary\", 2 bytes that are no text and not shown: 1 line, 2 bytes", "+x"),
        ] {
            let preview = of(path, "x\n");
            assert_eq!((preview.summary.as_str(), preview.diff.as_str()), (summary, diff));
        }
        let large = of("large", "x\n").summary;
        assert!(large.starts_with("replaces \"large\", 101 bytes that are not shown"), "{large}");
        // The digest is of the whole: the same diff of another file, or of other bytes that are not shown, has another one.
        let one = of("binary", "x\n").digest;
        std::fs::write(dir.path().join("binary"), b"\0\x02").unwrap();
        assert_ne!(of("binary", "x\n").digest, one);
        assert_ne!(of("new", "x\n").digest, of("new2", "x\n").digest);
    }
}
