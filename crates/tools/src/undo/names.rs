//! Names of files in the journal, which need not be text, and their shown form.
//!
//! Invariant: a kept name leads to the same file again. Two different names are shown differently.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// The kept form of a path: its bytes on Unix, else its text.
pub(super) fn kept(path: &Path) -> Cow<'_, [u8]> {
    #[cfg(unix)]
    {
        Cow::Borrowed(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()))
    }
    #[cfg(not(unix))]
    {
        Cow::Owned(path.to_string_lossy().into_owned().into_bytes())
    }
}

/// The path that was [`kept`].
pub(super) fn path(kept: &[u8]) -> PathBuf {
    #[cfg(unix)]
    {
        <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(kept).into()
    }
    #[cfg(not(unix))]
    {
        String::from_utf8_lossy(kept).into_owned().into()
    }
}

/// A kept path as text. Bytes that are no text become `\xff`. A backslash in a name is doubled, so nothing
/// else looks like that. A backslash between names stays.
pub(super) fn shown(kept: &[u8]) -> String {
    let mut shown = String::with_capacity(kept.len());
    for chunk in kept.utf8_chunks() {
        match cfg!(unix) {
            true => shown.push_str(&chunk.valid().replace('\\', "\\\\")),
            false => shown.push_str(chunk.valid()),
        }
        shown.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    shown
}

#[cfg(all(test, unix))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_shown_as_it_is_and_the_rest_spelled_out() {
        for (kept, text) in [
            (&b"src/main.rs"[..], "src/main.rs"),
            ("日本/\u{fffd}".as_bytes(), "日本/\u{fffd}"),
            (b"a\xff/b\xe2\x82", "a\\xff/b\\xe2\\x82"),
            (b"a\\xff", "a\\\\xff"),
        ] {
            assert_eq!(shown(kept), text);
        }
    }

    proptest! {
        #[test]
        fn names_that_differ_are_shown_differently(
            one in prop::collection::vec(prop::sample::select(b"a\\xf/\xff\xe2\x82\xac".to_vec()), 0..6),
            other in prop::collection::vec(prop::sample::select(b"a\\xf/\xff\xe2\x82\xac".to_vec()), 0..6),
        ) {
            prop_assert_eq!(one == other, shown(&one) == shown(&other));
            prop_assert_eq!(kept(&path(&one)).into_owned(), one);
        }
    }
}
