//! Writes a policy as a Seatbelt profile, the confinement of macOS. This is a pure function from grants to
//! text and starts no command.
//!
//! Invariant: later rules win in Seatbelt, so what closes comes last. A rule that closes covers at least what
//! its pattern covers.

use crate::error::{Error, Kind};
use crate::grants::{Grants, Scope};
use crate::patterns::Patterns;

/// Directory trees that programs on macOS need.
const SYSTEM: &[&str] = &[
    "/bin",
    "/sbin",
    "/usr",
    "/System",
    "/Library/Apple",
    "/Library/Developer/CommandLineTools",
    "/opt/homebrew/bin",
    "/opt/homebrew/Cellar",
    "/opt/homebrew/lib",
    "/opt/homebrew/opt",
    "/opt/homebrew/share",
    "/private/var/db/dyld",
    "/private/var/db/timezone",
    "/private/var/select",
    "/private/etc/ssl",
];
/// Directories within these trees that hold what belongs to others: databases and settings.
const CLOSED: &[&str] = &["/usr/local/etc", "/usr/local/var"];
/// Devices that are harmless.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"];
/// The names by which git knows a repository: without one of them, no directory can become one.
const REPOSITORY: [&str; 2] = ["**/HEAD", "**/commondir"];

/// The profile for commands in the workspace at the absolute path `workspace`. `temporary` is their directory
/// for temporary files. Both are real paths, since Seatbelt follows links before it looks.
///
/// The closed and protected paths come last. Their rules hold in both directories, so that nothing is changed
/// in one and moved to the other. A directory above such a path can be neither made, moved nor removed. The
/// profile bounds no totals.
///
/// # Errors
/// [`Kind::Invalid`] for a path that is not absolute or has a control character.
///
/// ```
/// use toolgate_sandbox::{Grants, command::seatbelt::profile};
/// let profile = profile(&Grants::read_write(), "/Users/me/work", "/private/tmp/toolgate")?;
/// assert!(profile.starts_with("(version 1)\n(deny default)\n"));
/// assert!(profile.contains("(allow file-write* (subpath \"/Users/me/work\"))"));
/// # Ok::<(), toolgate_sandbox::Error>(())
/// ```
pub fn profile(grants: &Grants, workspace: &str, temporary: &str) -> Result<String, Error> {
    let (within, scratch) = (quote(workspace)?, quote(temporary)?);
    let mut lines: Vec<String> = [
        "(version 1)",
        "(deny default)",
        "(allow process-fork)",
        "(allow process-exec)",
        "(allow signal (target same-sandbox))",
        "(allow sysctl-read)",
        "(allow file-read-metadata)",
        "(allow file-map-executable)",
        // The loader of programs lists it.
        "(allow file-read* (literal \"/\"))",
        // Its own open files, by number.
        "(allow file-read* file-write-data (subpath \"/dev/fd\"))",
    ]
    .map(str::to_owned)
    .to_vec();
    for tree in SYSTEM {
        lines.push(format!("(allow file-read* (subpath {}))", quote(tree)?));
    }
    for tree in CLOSED {
        lines.push(format!("(deny file-read-data (subpath {}))", quote(tree)?));
    }
    for device in DEVICES {
        let device = quote(device)?;
        lines.push(format!("(allow file-read* file-write-data (literal {device}))"));
    }
    lines.push(format!("(allow file-read* file-write* (subpath {scratch}))"));
    for (right, scope) in [("file-read*", &grants.read), ("file-write*", &grants.write)] {
        match scope {
            Scope::Nothing => {}
            Scope::Everything => lines.push(format!("(allow {right} (subpath {within}))")),
            Scope::Under(directories) => {
                for path in directories.paths() {
                    let path = quote(&format!("{workspace}/{path}"))?;
                    lines.push(format!("(allow {right} (subpath {path}))"));
                }
            }
        }
    }
    for (rights, patterns) in
        [("file-write*", &grants.protect), ("file-read-data file-write*", &grants.deny_read)]
    {
        for base in [workspace, temporary] {
            close(&mut lines, base, rights, patterns);
        }
    }
    for place in [&within, &scratch] {
        lines.push(format!("(deny file-write-unlink file-write-mode (literal {place}))"));
    }
    lines.push("(deny file-write-setugid)".into());
    lines.push("(deny network*)".into());
    lines.push(String::new());
    Ok(lines.join("\n"))
}

/// Closes what `patterns` cover below `base`, and keeps the directories above it in their places.
fn close(lines: &mut Vec<String>, base: &str, rights: &str, patterns: &Patterns) {
    let repositories = patterns.sources().any(|source| source == "@vcs");
    let more = REPOSITORY.iter().copied().filter(|_| repositories);
    let mut above = Vec::new();
    for glob in patterns.globs().chain(more) {
        lines.push(format!("(deny {rights} (regex {}))", regex(base, glob, "(/.*)?")));
        let cuts = glob.match_indices('/').filter_map(|(at, _)| glob.get(..at));
        above.extend(cuts.filter(|cut| *cut != "**").map(|cut| regex(base, cut, "")));
    }
    above.sort();
    above.dedup();
    for regex in above {
        lines.push(format!("(deny file-write-create file-write-unlink (regex {regex}))"));
    }
}

fn quote(path: &str) -> Result<String, Error> {
    if !path.starts_with('/') || path.chars().any(char::is_control) {
        return Err(
            Error::new(Kind::Invalid, "a profile needs absolute paths without control characters").at(path)
        );
    }
    Ok(format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// Any part of one name, for what cannot be written exactly.
const PART: &str = "[^/]+";

/// The regular expression of a profile for a glob below `base`, and for what `end` matches behind it. It
/// ignores the case of ASCII letters, as the file systems of macOS do. What it cannot write exactly it writes
/// wider: a class, a character outside of ASCII, alternatives.
fn regex(base: &str, glob: &str, end: &str) -> String {
    let mut out = String::from("#\"^");
    base.chars().for_each(|c| push_literal(&mut out, c));
    out.push('/');
    let mut rest = glob;
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        if rest.starts_with("**/") {
            out.push_str("(.*/)?");
            taken = 3;
        } else if rest.starts_with("**") {
            out.push_str(".*");
            taken = 2;
        } else {
            match c {
                '*' => out.push_str("[^/]*"),
                '[' => {
                    push_part(&mut out);
                    taken = rest.len() - after_class(rest).len();
                }
                '{' => {
                    // Alternatives may hold separators and alternatives.
                    out.push_str(".*");
                    taken = rest.len() - after_braces(rest).len();
                }
                '\\' => {
                    let escaped = rest.chars().nth(1);
                    taken += escaped.map_or(0, char::len_utf8);
                    escaped.into_iter().for_each(|c| push_exact(&mut out, c));
                }
                '?' => push_part(&mut out),
                c => push_exact(&mut out, c),
            }
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    out.push_str(end);
    out.push_str("$\"");
    out
}

/// What follows the class that `text` begins with.
fn after_class(text: &str) -> &str {
    let class = text.get(1..).unwrap_or_default();
    let class = class.strip_prefix(['!', '^']).unwrap_or(class);
    // A bracket that comes first in a class stands for itself.
    let close = class.char_indices().skip(1).find(|(_, c)| *c == ']');
    close.and_then(|(at, _)| class.get(at + 1..)).unwrap_or_default()
}

/// What follows the braces that `text` begins with; nothing where they are never closed.
fn after_braces(text: &str) -> &str {
    let mut open = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => open += 1,
            '}' => open = open.saturating_sub(1),
            _ => {}
        }
        if open == 0 {
            return text.get(at + 1..).unwrap_or_default();
        }
    }
    ""
}

/// A character of a glob. One whose case or form a file system may change is any part of a name.
fn push_exact(out: &mut String, c: char) {
    match c.is_ascii() && !c.is_control() {
        true => push_literal(out, c),
        false => push_part(out),
    }
}

/// Adds any part of a name, once for what follows each other.
fn push_part(out: &mut String) {
    if !out.ends_with(PART) {
        out.push_str(PART);
    }
}

/// A character in a regular expression.
fn push_literal(out: &mut String, c: char) {
    if c.is_ascii_alphabetic() {
        out.push('[');
        out.extend([c.to_ascii_lowercase(), c.to_ascii_uppercase(), ']']);
    } else if c == '"' || c == '\\' {
        // Either could end the expression or begin something else in it.
        out.push('.');
    } else {
        // No other character is escaped: who reads profiles may not know what that means.
        if ".^$*+?()[]{}|".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_profile_closes_last_what_it_must() {
        let grants = Grants {
            write: Scope::under(["notes"]).unwrap(),
            deny_read: Patterns::new(["**/*.pem"]).unwrap(),
            protect: Patterns::new([".git"]).unwrap(),
            ..Grants::read_only()
        };
        let profile = profile(&grants, "/w", "/private/tmp/t").unwrap();
        let lines: Vec<&str> = profile.lines().skip_while(|line| !line.contains("subpath \"/w\"")).collect();
        let temporary = "[pP][rR][iI][vV][aA][tT][eE]/[tT][mM][pP]/[tT]";
        let git = "/(.*/)?\\.[gG][iI][tT](/.*)?$\"))";
        let pem = "/(.*/)?[^/]*\\.[pP][eE][mM](/.*)?$\"))";
        assert_eq!(
            lines,
            [
                "(allow file-read* (subpath \"/w\"))".to_owned(),
                "(allow file-write* (subpath \"/w/notes\"))".to_owned(),
                format!("(deny file-write* (regex #\"^/[wW]{git}"),
                format!("(deny file-write* (regex #\"^/{temporary}{git}"),
                format!("(deny file-read-data file-write* (regex #\"^/[wW]{pem}"),
                format!("(deny file-read-data file-write* (regex #\"^/{temporary}{pem}"),
                "(deny file-write-unlink file-write-mode (literal \"/w\"))".to_owned(),
                "(deny file-write-unlink file-write-mode (literal \"/private/tmp/t\"))".to_owned(),
                "(deny file-write-setugid)".to_owned(),
                "(deny network*)".to_owned(),
            ]
        );
    }

    #[test]
    fn what_lies_above_a_closed_path_stays_in_its_place() {
        let grants = Grants {
            deny_read: Patterns::new(["keys/old/**"]).unwrap(),
            protect: Patterns::protected(),
            ..Grants::read_write()
        };
        let profile = profile(&grants, "/w", "/t").unwrap();
        for (path, kept) in [
            ("[kK][eE][yY][sS]", true),
            ("[kK][eE][yY][sS]/[oO][lL][dD]", true),
            ("(.*/)?\\.[cC][oO][nN][fF][iI][gG]", true),
            ("(.*/)?\\.[sS][sS][hH]", false),
        ] {
            for base in ["[wW]", "[tT]"] {
                let rule =
                    format!("(deny file-write-create file-write-unlink (regex #\"^/{base}/{path}$\"))");
                assert_eq!(profile.contains(&rule), kept, "{rule}");
            }
        }
        for name in ["[hH][eE][aA][dD]", "[cC][oO][mM][mM][oO][nN][dD][iI][rR]"] {
            assert!(profile.contains(&format!("(deny file-write* (regex #\"^/[wW]/(.*/)?{name}(/.*)?$\"))")));
        }
        let lines: Vec<&str> = profile.lines().collect();
        let granted = lines.iter().rposition(|line| line.starts_with("(allow "));
        assert!(granted < lines.iter().position(|line| line.starts_with("(deny file-write")), "{profile}");
    }

    #[test]
    fn an_expression_covers_all_that_its_glob_covers() {
        for (glob, covered, free) in [
            ("**/*.key", &["a.key", "x/B.KEY", "x/b.key/c"][..], &["key", "a.keys"][..]),
            ("?.pin", &["a.pin", "\u{e4}.pin", "a\u{308}.pin"], &[".pin", "a.pins"]),
            ("k[a-c]y", &["kay", "kby/x"], &["ky", "kays"]),
            ("k[]!]y", &["k]y", "k!y"], &["ky"]),
            ("{a,b/c}.txt", &["a.txt", "b/c.txt"], &["a.md"]),
            ("a{b,{c,d}}e", &["abe", "ace", "ade"], &["ab"]),
            ("a\\*b", &["a*b"], &["axb", "ab"]),
            (
                "\u{43a}\u{43b}\u{44e}\u{447}.txt",
                &["\u{43a}\u{43b}\u{44e}\u{447}.txt", "\u{41a}\u{41b}\u{42e}\u{427}.txt"],
                &[".txt"],
            ),
            ("a\"b", &["a\"b"], &["ab"]),
            ("a+(b)~1$", &["a+(b)~1$"], &["aab~1", "a+b~1$"]),
            ("docs/**", &["docs/a", "Docs/a/b"], &["docs", "doc/a"]),
        ] {
            let written = regex("/w.x", glob, "(/.*)?");
            let inner = written.strip_prefix("#\"").and_then(|text| text.strip_suffix('"')).unwrap();
            assert!(!inner.contains('"'), "{inner}");
            let compiled = regex::Regex::new(inner).unwrap();
            for path in covered {
                assert!(compiled.is_match(&format!("/w.x/{path}")), "{glob} {path} {inner}");
                assert!(!compiled.is_match(&format!("/w.y/{path}")), "{glob} {path} {inner}");
            }
            for path in free {
                assert!(!compiled.is_match(&format!("/w.x/{path}")), "{glob} {path} {inner}");
            }
        }
    }

    #[test]
    fn a_path_cannot_add_rules() {
        let hostile = "/w\"))(allow default)((\"";
        let profile = profile(&Grants::read_only(), hostile, "/t").unwrap();
        assert!(profile.contains(r#"(allow file-read* (subpath "/w\"))(allow default)((\""))"#), "{profile}");
        let closing = profile.lines().filter(|line| line.contains("(regex #\""));
        for line in closing {
            assert_eq!(line.matches('"').count(), 2, "{line}");
            assert!(line.ends_with("$\"))"), "{line}");
        }
        let slashes = super::profile(&Grants::read_only(), "/w\\", "/t\u{e4}").unwrap();
        assert!(slashes.contains(r#"(subpath "/w\\"))"#) && slashes.contains("(subpath \"/t\u{e4}\"))"));
        for refused in ["w", "", "/w\n(allow default)", "/w\r", "/w\0", "/w\u{85}"] {
            assert!(super::profile(&Grants::read_only(), refused, "/t").is_err(), "{refused:?}");
            assert!(super::profile(&Grants::read_only(), "/w", refused).is_err(), "{refused:?}");
        }
    }
}
