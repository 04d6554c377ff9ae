//! Files that are not plain UTF-8 with one kind of line end: what a tool was shown of them can be given back.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the fixtures are made with std::fs")]

mod support;

use std::fs;

use encoding_rs::{EUC_KR, Encoding, GBK, SHIFT_JIS, WINDOWS_1251, WINDOWS_1252};
use support::Field;
use toolgate_sandbox::{FileLimits, Kind, ReadOptions, SearchOptions};

fn utf16(text: &str) -> Vec<u8> {
    [0xfe, 0xff].into_iter().chain(text.encode_utf16().flat_map(u16::to_be_bytes)).collect()
}

/// Files that all say where a port is set, in the letters of a language.
fn files() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let written = |encoding: &'static Encoding, text: &str| encoding.encode(text).0.into_owned();
    vec![
        (
            "windows-1252",
            written(WINDOWS_1252, "// Größe und Straße\r\nport = 80\r\n// déjà vu\r\n"),
            "Größe",
        ),
        ("windows-1251", written(WINDOWS_1251, "// Порт по умолчанию\nport = 80\n// конец\n"), "умолчанию"),
        ("Shift_JIS", written(SHIFT_JIS, "// 既定のポート番号\nport = 80\n// 終わりです\n"), "既定のポート"),
        ("GBK", written(GBK, "// 默认的端口号\r\nport = 80\r\n// 文件结束\r\n"), "默认的端口"),
        ("EUC-KR", written(EUC_KR, "// 기본 포트 번호\nport = 80\n// 끝입니다\n"), "기본 포트"),
        ("UTF-16BE", utf16("// Größe\r\nport = 80\r\n"), "Größe"),
    ]
}

#[test]
fn a_file_in_another_encoding_is_read_found_edited_and_given_back() {
    let field = Field::new();
    for (encoding, bytes, word) in files() {
        let place = field.ws.join("a.txt");
        fs::write(&place, &bytes).unwrap();
        let read = field.root.read_file(&field.grants, "a.txt", &ReadOptions::default()).unwrap();
        assert_eq!(read.encoding, Some(encoding));
        let shown = read.content();
        assert!(shown.contains(word) && !shown.contains('\r'), "{shown}");
        assert!(shown.ends_with(&format!("\n[encoding: {encoding}]")), "{shown}");

        let found = field.root.search_codebase(&field.grants, word, &SearchOptions::default()).unwrap();
        assert_eq!(found.hits.first().map(|hit| (hit.line, hit.text.contains(word))), Some((1, true)));

        let edited = field.root.edit_file(&field.grants, "a.txt", "port = 80\n", "port = 8080\n").unwrap();
        assert!(edited.content().ends_with(&format!("still in {encoding}")), "{}", edited.content());
        let (old, new): (Vec<u8>, Vec<u8>) = match encoding {
            "UTF-16BE" => (utf16("80")[2..].into(), utf16("8080")[2..].into()),
            _ => (b"80".into(), b"8080".into()),
        };
        let at = bytes.windows(old.len()).position(|window| window == old).unwrap();
        let then = [&bytes[..at], &new, &bytes[at + old.len()..]].concat();
        assert_eq!(fs::read(&place).unwrap(), then, "{encoding}");

        // All of it, as it was shown, with a change.
        let written = field.root.write_file(&field.grants, "a.txt", &shown).unwrap();
        assert_eq!((written.encoding, written.created), (Some(encoding), false));
        assert_eq!(fs::read(&place).unwrap(), bytes, "{encoding}");
    }
}

#[test]
fn a_character_that_the_encoding_lacks_is_refused_by_name() {
    let field = Field::new();
    let bytes = WINDOWS_1251.encode("// Порт по умолчанию\nport = 80\n").0.into_owned();
    fs::write(field.ws.join("a.txt"), &bytes).unwrap();
    let edit = field.root.edit_file(&field.grants, "a.txt", "80", "80 ü").unwrap_err();
    let write = field.root.write_file(&field.grants, "a.txt", "// ü\n").unwrap_err();
    for error in [edit, write] {
        let text = error.to_string();
        assert!(
            text.contains("windows-1251, which has no \"ü\" (U+00FC)") && text.contains("create_file"),
            "{text}"
        );
    }
    assert_eq!(fs::read(field.ws.join("a.txt")).unwrap(), bytes);
    field.root.create_file(&field.grants, "b.txt", "// ü\n").unwrap();
    assert_eq!(fs::read_to_string(field.ws.join("b.txt")).unwrap(), "// ü\n", "a new file is UTF-8");
}

#[test]
fn a_file_that_is_given_back_keeps_its_ends_and_its_mark() {
    let field = Field::new();
    let given_back = |bytes: &[u8], from: &str, to: &str| {
        fs::write(field.ws.join("a.txt"), bytes).unwrap();
        let read = field.root.read_file(&field.grants, "a.txt", &ReadOptions::default()).unwrap().content();
        let shown = toolgate_sandbox::output::for_model(read.as_bytes(), 10_000).text;
        field.root.write_file(&field.grants, "a.txt", &shown.replace(from, to)).unwrap();
        fs::read(field.ws.join("a.txt")).unwrap()
    };
    for (bytes, from, to, then) in [
        (&b"\xef\xbb\xbfa\r\nb\r\n"[..], "b", "b\nc", &b"\xef\xbb\xbfa\r\nb\r\nc\r\n"[..]),
        (b"a\r\nb\nc\r\nd", "c\n", "", b"a\r\nb\nd"),
        (b"a\rb\r", "b", "c", b"a\rc\r"),
        (b"a\nb", "a", "x", b"x\nb"),
        (b"caf\xe9", "caf", "kaf", b"kaf\xe9"),
        (b"\xc3\xa9\xc3\xa8 \xff\nb\n", "\nb\n", "\nc\n", b"\xc3\xa9\xc3\xa8 \xff\nc\n"),
        (b"\x1b[1m\nb\n", "\nb", "\nc", b"\x1b[1m\nc\n"),
    ] {
        assert_eq!(given_back(bytes, from, to), then, "{bytes:?}");
    }
    // A mark that is there is not written twice.
    fs::write(field.ws.join("a.txt"), b"\xef\xbb\xbfa\nb\n").unwrap();
    field.root.write_file(&field.grants, "a.txt", "\u{feff}a\nc\n").unwrap();
    field.root.edit_file(&field.grants, "a.txt", "\u{feff}a\n", "\u{feff}x\n").unwrap();
    assert_eq!(fs::read(field.ws.join("a.txt")).unwrap(), b"\xef\xbb\xbfx\nc\n");
    // Who writes the ends of lines means them.
    fs::write(field.ws.join("a.txt"), "a\nb\n").unwrap();
    field.root.write_file(&field.grants, "a.txt", "a\r\nb\r\n").unwrap();
    assert_eq!(fs::read(field.ws.join("a.txt")).unwrap(), b"a\r\nb\r\n");
    let kept = field.root.write_file(&field.grants, "a.txt", "x\ny\n").unwrap();
    assert_eq!(kept.content(), "replaced \"a.txt\" (2 lines, 6 bytes), with its own line ends (\\r)");
}

#[test]
fn lines_have_the_same_numbers_everywhere() {
    let field = Field::new();
    fs::write(field.ws.join("a.txt"), b"one\rtwo\r\nthree\nfour\n").unwrap();
    let found = field.root.search_codebase(&field.grants, "three", &SearchOptions::default()).unwrap();
    assert_eq!((found.hits[0].line, found.hits[0].text.as_str()), (3, "three"));
    let options = ReadOptions::default().start_line(Some(3)).max_lines(Some(1));
    let read = field.root.read_file(&field.grants, "a.txt", &options).unwrap();
    assert_eq!(read.content(), "three\n[lines 3-3 of 4; to read on: start_line 4]");
    assert_eq!(field.root.edit_file(&field.grants, "a.txt", "three", "3").unwrap().line, 3);
    let over = field.root.search_codebase(&field.grants, "one\ntwo", &SearchOptions::default()).unwrap();
    assert_eq!(over.hits[0].line, 1, "over a line end of any kind");
}

#[test]
fn a_line_that_is_cut_is_read_on_in_its_middle() {
    let mut field = Field::new();
    let line: String = (0..1_000).map(|i| format!("é{i},")).collect();
    fs::write(field.ws.join("long.txt"), format!("first\n{line}\nlast\n")).unwrap();
    field.grants.limits = FileLimits::default().max_output_bytes(1_500);
    let (mut options, mut all) = (ReadOptions::default().start_line(Some(2)), String::new());
    for _ in 0..20 {
        let read = field.root.read_file(&field.grants, "long.txt", &options).unwrap();
        all.push_str(&read.text);
        let Some(note) = &read.note else { break };
        assert!(read.content().len() <= 1_500, "what is said of the rest is not cut off");
        let column = note.strip_suffix(']').unwrap().rsplit_once("start_column ").unwrap().1;
        options.start_column = Some(column.parse().unwrap());
    }
    assert_eq!(all, format!("{line}\nlast\n"));
    options = ReadOptions::default().start_line(Some(1)).start_column(Some(7));
    let beyond = field.root.read_file(&field.grants, "long.txt", &options).unwrap_err();
    assert_eq!(beyond.kind(), Kind::Invalid);
    assert!(beyond.to_string().contains("line 1 has 5 characters, there is no column 7"), "{beyond}");
}

#[test]
fn a_line_that_a_search_cuts_is_read_on_from_there() {
    let field = Field::new();
    let line: String = (0..2_000).map(|i| format!("é{i},")).collect();
    fs::write(field.ws.join("min.js"), format!("first\n{line}\n")).unwrap();
    let found = field.root.search_codebase(&field.grants, "é1500,", &SearchOptions::default()).unwrap();
    let column = found.hits[0].column.unwrap();
    let note = format!(
        "[long lines are cut: read_file with start_line 2, start_column {column} shows more of \"min.js\"]"
    );
    assert!(found.content().ends_with(&note), "{}", found.content());
    let options =
        ReadOptions::default().start_line(Some(2)).start_column(Some(u64::try_from(column).unwrap()));
    let read = field.root.read_file(&field.grants, "min.js", &options).unwrap().text;
    assert!(found.hits[0].text.starts_with(&format!("…{}", read.chars().take(50).collect::<String>())));
    assert!(read.contains("é1500,") && read.len() < line.len());
    let short = field.root.search_codebase(&field.grants, "first", &SearchOptions::default()).unwrap();
    assert_eq!((short.hits[0].column, short.content().as_str()), (None, "min.js:1: first\n"));
}

#[test]
fn of_many_places_some_lines_are_named_and_the_rest_counted() {
    let field = Field::new();
    fs::write(field.ws.join("a.txt"), "x\ny\n".repeat(25)).unwrap();
    let error = field.root.edit_file(&field.grants, "a.txt", "x\n", "z\n").unwrap_err().to_string();
    assert!(error.contains("occurs 25 times") && error.contains("at lines 1, 3, 5, "), "{error}");
    assert!(error.contains(", 19 and 15 more: add text around the right one"), "{error}");
}

#[test]
fn a_file_that_is_too_large_to_be_held_is_read_in_parts() {
    let mut field = Field::new();
    field.grants.limits = FileLimits::default().max_file_bytes(1_000).max_output_bytes(2_000).max_lines(40);
    let read = |path: &str, start_line: u64, start_column: u64| {
        let options = ReadOptions::default().start_line(Some(start_line)).start_column(Some(start_column));
        field.root.read_file(&field.grants, path, &options)
    };
    // All of it, as each part says how to go on.
    let line: String = (0..2_000).map(|i| format!("é{i},")).collect();
    let many: String = (1..=200).map(|i| format!("line {i}\r\n")).collect();
    for (name, text) in
        [("many.txt", many), ("long.txt", format!("first\n{line}\nlast")), ("cr.txt", "a\r".repeat(900))]
    {
        fs::write(field.ws.join(name), &text).unwrap();
        let (mut all, mut at) = (String::new(), (1, 1));
        for _ in 0..100 {
            let part = read(name, at.0, at.1).unwrap();
            assert!(part.content().len() <= 2_000 && part.total_bytes == text.len() as u64);
            all.push_str(&part.text);
            let Some(note) = part.note else { break };
            let number = |of: &str| {
                let digits = note.rsplit_once(of)?.1.split(|c: char| !c.is_ascii_digit()).next()?;
                digits.parse().ok()
            };
            at = (number("start_line ").unwrap(), number("start_column ").unwrap_or(1));
        }
        assert_eq!(all, text, "{name}");
    }
    let part = read("many.txt", 100, 1).unwrap();
    assert!(part.content().starts_with("line 100\nline 101\n"), "{}", part.content());
    let note = "[lines 100-139 of a file of 1892 bytes; to read on: start_line 140]";
    assert_eq!(part.note.as_deref(), Some(note));
    for (path, line) in [("many.txt", 201), ("long.txt", 4)] {
        let error = read(path, line, 1).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        assert!(error.to_string().contains(&format!("the file has {} lines", line - 1)), "{error}");
    }
    let latin = WINDOWS_1252.encode(&"Größe\n".repeat(300)).0.into_owned();
    fs::write(field.ws.join("latin.txt"), latin).unwrap();
    let part = read("latin.txt", 299, 1).unwrap();
    assert_eq!(part.content(), "Größe\nGröße\n[encoding: windows-1252]");
    fs::write(field.ws.join("binary"), [0; 2_000]).unwrap();
    assert!(read("binary", 1, 1).unwrap_err().to_string().starts_with("this is a binary file"));
}
