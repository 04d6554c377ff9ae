//! Tests that a shown text can be given back, in any encoding and with any line ends.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use proptest::prelude::*;

use super::*;

/// Replaces the one piece that is shown as `old`.
fn edit(bytes: &[u8], old: &str, new: &str) -> Result<Vec<u8>, String> {
    let text = Text::of(bytes).unwrap();
    let piece = text.find(old, 3).map_err(|missed| format!("{missed:?}"))?;
    text.replaced(&piece, new).map_err(|why| format!("{why:?}"))
}

fn check(bytes: &[u8], old: &str, new: &str, then: &[u8]) {
    let now = edit(bytes, old, new);
    assert_eq!(now.as_deref().map(String::from_utf8_lossy), Ok(String::from_utf8_lossy(then)), "{old:?}");
    assert_eq!(now.unwrap(), then, "{old:?}");
}

#[test]
fn each_line_keeps_its_own_end() {
    for (file, old, new, then) in [
        ("1\r\n2\n3\r\n4\n", "1\n2\n3", "1\nX\n3", "1\r\nX\n3\r\n4\n"),
        ("1\r\n2\n3\r\n4\n", "2\n3\n", "2\n3\nY\n", "1\r\n2\n3\r\nY\r\n4\n"),
        ("1\r\n2\n3\r\n4\n", "1\n2\n3\n", "1\n3\n", "1\r\n3\r\n4\n"),
        ("1\r\n2\n3\r\n4\n", "2", "2\nY", "1\r\n2\nY\n3\r\n4\n"),
        ("1\r2\r3\r", "2\n3", "2\nY\n3", "1\r2\rY\r3\r"),
        ("1\r\n2", "2", "2\nY", "1\r\n2\r\nY"),
        ("1\n2", "2", "2\r\nY", "1\n2\r\nY"),
        ("1", "1", "1\n2", "1\n2"),
        ("1\r\n2\n", "1\r\n", "1\n", "1\n2\n"),
        ("1\n2\n3\n", "1\n2", "1\r\n2", "1\r\n2\n3\n"),
        ("1\r\n2\n3\n", "1\r\n2\r\n", "1\r\nY\r\n", "1\r\nY\n3\n"),
        ("1\r\r\n2\n", "1\n\n2", "1\n\nY", "1\r\r\nY\n"),
        ("a\r\nb", "\n", " ", "a b"),
    ] {
        check(file.as_bytes(), old, new, then.as_bytes());
    }
}

#[test]
fn bytes_that_are_no_text_stay() {
    check(b"\xc3\xa9\xc3\xa9 \xff one\n", "one", "two", b"\xc3\xa9\xc3\xa9 \xff two\n");
    // What is shown for them is given back, and moved.
    check(b"\xc3\xa9\xc3\xa9 \xff one\n", "\\xff one", "one \\xff", b"\xc3\xa9\xc3\xa9 one \xff\n");
    check(
        b"\xc3\xa9\xc3\xa9 \xff one\nx\n",
        "\\xff one\nx",
        "x\n\\xff two",
        b"\xc3\xa9\xc3\xa9 x\n\xff two\n",
    );
    let two = edit(b"\xc3\xa9\xc3\xa9 \xff \\xff\n", "\\xff \\xff", "\\xff");
    assert!(two.is_ok(), "one of them is kept: {two:?}");
    let torn = edit(b"\xc3\xa9\xc3\xa9 \xff\n", "ff", "x").unwrap_err();
    assert!(torn.contains("Within"), "{torn}");
}

#[test]
fn what_is_spelled_out_is_given_back() {
    check(b"a = \"\x1b[31m\"\n", "a = \"\\u{1b}[31m\"", "b = \"\\u{1b}[32m\"", b"b = \"\x1b[32m\"\n");
    check("x\u{feff}y\n".as_bytes(), "x\\u{feff}y", "x\\u{feff}z", "x\u{feff}z\n".as_bytes());
    check(
        b"a = \"\\u{1b}\"\nb = \"\x1b\"\n",
        "a = \"\\u{1b}\"",
        "c = \"\\u{1b}\"",
        b"c = \"\\u{1b}\"\nb = \"\x1b\"\n",
    );
}

#[test]
fn two_codes_of_one_character_are_both_kept() {
    // ∵ has two codes in Shift_JIS.
    let file = b"\x8a\xf9\x92\xe8\x82\xcc\x83\x7c\x81\x5b\x83\x67 \x87\x9a \x81\xe6 one two\n";
    let text = Text::of(file).unwrap();
    assert_eq!(text.encoding(), Some("Shift_JIS"));
    check(file, "one", "\u{30dd}", &[&file[..19], b"\x83\x7c two\n"].concat());
    let all = text.shown(Form::Lines).into_owned();
    check(file, &all, &all.replace("one", "1").replace("two", "2"), &[&file[..19], b"1 2\n"].concat());
}

#[test]
fn a_character_that_the_encoding_lacks_is_named() {
    let file = encoding_rs::WINDOWS_1251.encode("порт = 80 // по умолчанию\n").0.into_owned();
    let error = edit(&file, "80", "80 日").unwrap_err();
    assert!(error.contains("Lacks('日'"), "{error}");
    let then = encoding_rs::WINDOWS_1251.encode("порт = 90 // по умолчанию\n").0.into_owned();
    check(&file, "= 80", "= 90", &then);
}

#[test]
fn marks_and_wide_characters_stay() {
    check(b"\xef\xbb\xbfone\r\ntwo\r\n", "one\ntwo", "1\n2", b"\xef\xbb\xbf1\r\n2\r\n");
    check(b"\xff\xfeo\0n\0e\0\r\0\n\0", "one\n", "1\n2\n", b"\xff\xfe1\0\r\0\n\x002\0\r\0\n\0");
    check(b"\xfe\xff\0o\0n\0e\xd8\0\0x", "on", "i", b"\xfe\xff\0i\0e\xd8\0\0x");
}

/// Files that are hard to edit.
fn files() -> impl Strategy<Value = Vec<u8>> {
    let words = ["a", "b", "x = 1", "é", "日本", "\u{1b}", "\\xff", "\\u{1b}", " ", "", "§"];
    let ends = ["\n", "\r\n", "\r", "\n"];
    let line = (
        prop::collection::vec(prop::sample::select(words.to_vec()), 0..4),
        prop::sample::select(ends.to_vec()),
    );
    let text = prop::collection::vec(line, 0..6)
        .prop_map(|lines| lines.into_iter().map(|(words, end)| words.concat() + end).collect::<String>());
    let bytes =
        prop::collection::vec(prop::sample::select(b"ab\xe9\xff\x81\x40\x82\xa0\r\n\\xf".to_vec()), 1..24);
    prop_oneof![
        text.clone().prop_map(String::into_bytes),
        text.clone().prop_map(|text| [&b"\xef\xbb\xbf"[..], text.as_bytes()].concat()),
        text.clone().prop_map(|text| {
            let units = text.encode_utf16().flat_map(u16::to_le_bytes);
            [0xff, 0xfe].into_iter().chain(units).collect()
        }),
        text.prop_map(|text| encoding_rs::SHIFT_JIS.encode(&text).0.into_owned()),
        bytes,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn an_edit_leaves_all_other_bytes(
        file in files(),
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
        new in prop::sample::select(vec!["", "new", "a\nb", "\n", "é", "日", "x\r\ny", "\\xff", "\\u{1b}z"]),
        spelled in any::<bool>(),
    ) {
        let text = Text::of(&file).unwrap();
        let form = if spelled { Form::Spelled } else { Form::Lines };
        let shown = text.shown(form);
        let places: Vec<usize> = shown.char_indices().map(|(at, _)| at).chain([shown.len()]).collect();
        let (a, b) = (from.get(&places), to.get(&places));
        let old = shown.get(*a.min(b)..*a.max(b)).unwrap();
        prop_assume!(!old.is_empty());
        let Ok(piece) = text.find(old, 3) else { return Ok(()) };
        let found = text.shown(piece.form);
        prop_assert_eq!(found.get(piece.shown.clone()), Some(old));
        if let Ok(now) = text.replaced(&piece, new) {
            let (head, tail) = (piece.bytes.start, file.len() - piece.bytes.end);
            prop_assert!(now.len() >= head + tail);
            prop_assert_eq!(&now[..head], &file[..head]);
            prop_assert_eq!(&now[now.len() - tail..], &file[piece.bytes.end..]);
        }
    }

    #[test]
    fn what_is_shown_and_given_back_changes_nothing(file in files(), spelled in any::<bool>()) {
        let text = Text::of(&file).unwrap();
        let form = if spelled { Form::Spelled } else { Form::Lines };
        let shown = text.shown(form).into_owned();
        prop_assert_eq!(text.replaced(&text.all(form), &shown), Ok(file.clone()));
        if !shown.is_empty() {
            let piece = text.find(&shown, 3).unwrap();
            prop_assert_eq!(text.replaced(&piece, &shown), Ok(file));
        }
    }

    #[test]
    fn lines_that_are_kept_keep_their_bytes(file in files(), at in any::<prop::sample::Index>()) {
        let text = Text::of(&file).unwrap();
        let shown = text.shown(Form::Lines).into_owned();
        let mut lines: Vec<&str> = shown.split('\n').collect();
        let at = at.index(lines.len());
        lines[at] = "a line that is new";
        let old: Vec<_> = text.lines().collect();
        let now = text.replaced(&text.all(Form::Lines), &lines.join("\n"));
        let now = now.map_err(|why| TestCaseError::fail(format!("{why:?}")))?;
        let read = Text { bytes: &now, ..text };
        let now: Vec<_> = read.lines().map(|line| (line.body.to_vec(), line.end)).collect();
        prop_assert_eq!(now.len(), old.len());
        for (i, (line, old)) in now.iter().zip(&old).enumerate() {
            prop_assert_eq!(line.1, old.end, "line {}", i);
            prop_assert!(i == at || line.0 == old.body, "line {}", i);
        }
    }
}
