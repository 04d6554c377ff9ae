//! Writes a policy as a Seatbelt profile, the confinement of macOS. This is a pure function from grants to
//! text and starts no command.

use crate::error::{Error, Kind};
use crate::grants::{Grants, Scope};

/// Directory trees that programs on macOS need.
const SYSTEM: &[&str] =
    &["/bin", "/sbin", "/usr", "/System", "/Library/Apple", "/private/var/db/dyld", "/private/etc/ssl"];
/// Devices that are harmless.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"];

/// The profile for commands in the workspace at the absolute path `workspace`. `temporary` is their directory
/// for temporary files.
///
/// Later rules win in Seatbelt, so the closed paths come last. The profile bounds no totals. Limits of each
/// process bound memory, processes and disk.
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
    let (workspace, temporary) = (quote(workspace)?, quote(temporary)?);
    let mut lines: Vec<String> =
        ["(version 1)", "(deny default)", "(allow process-fork)", "(allow process-exec)"]
            .map(str::to_owned)
            .to_vec();
    lines.push("(allow signal (target same-sandbox))".into());
    lines.push("(allow sysctl-read)".into());
    lines.push("(allow file-read-metadata)".into());
    for tree in SYSTEM {
        lines.push(format!("(allow file-read* (subpath {}))", quote(tree)?));
    }
    for device in DEVICES {
        let device = quote(device)?;
        lines.push(format!("(allow file-read* file-write-data (literal {device}))"));
    }
    lines.push(format!("(allow file-read* file-write* (subpath {temporary}))"));
    for (right, scope) in [("file-read*", &grants.read), ("file-write*", &grants.write)] {
        match scope {
            Scope::Nothing => {}
            Scope::Everything => lines.push(format!("(allow {right} (subpath {workspace}))")),
            Scope::Under(directories) => {
                for path in directories.paths() {
                    let path = quote(&format!("{}/{path}", unquoted(&workspace)))?;
                    lines.push(format!("(allow {right} (subpath {path}))"));
                }
            }
        }
    }
    for (rights, patterns) in
        [("file-write*", &grants.protect), ("file-read-data file-write*", &grants.deny_read)]
    {
        for glob in patterns.globs() {
            lines.push(format!("(deny {rights} (regex {}))", regex(unquoted(&workspace), glob)));
        }
    }
    lines.push("(deny network*)".into());
    lines.push(String::new());
    Ok(lines.join("\n"))
}

fn quote(path: &str) -> Result<String, Error> {
    if !path.starts_with('/') || path.chars().any(char::is_control) {
        return Err(
            Error::new(Kind::Invalid, "a profile needs absolute paths without control characters").at(path)
        );
    }
    Ok(format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\"")))
}

fn unquoted(quoted: &str) -> &str {
    quoted.trim_matches('"')
}

/// The regular expression of a profile for a glob below the workspace and all paths below its matches. It
/// ignores case, as the file systems of macOS do.
fn regex(workspace: &str, glob: &str) -> String {
    let mut out = String::from("#\"^");
    let literal = |out: &mut String, c: char| {
        if c.is_ascii_alphabetic() {
            out.push_str(&format!("[{}{}]", c.to_ascii_lowercase(), c.to_ascii_uppercase()));
        } else if c.is_ascii_alphanumeric() || "/-_ ".contains(c) || !c.is_ascii() {
            out.push(c);
        } else {
            out.push('\\');
            out.push(c);
        }
    };
    workspace.chars().for_each(|c| literal(&mut out, c));
    out.push('/');
    let mut rest = glob;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("**/") {
            out.push_str("(.*/)?");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("**") {
            out.push_str(".*");
            rest = after;
        } else {
            match c {
                '*' => out.push_str("[^/]*"),
                '?' => out.push_str("[^/]"),
                c => literal(&mut out, c),
            }
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
    }
    out.push_str("(/.*)?$\"");
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::Patterns;

    #[test]
    fn a_profile_closes_last_what_it_must() {
        let grants = Grants {
            write: Scope::under(["notes"]).unwrap(),
            deny_read: Patterns::new(["**/*.pem"]).unwrap(),
            protect: Patterns::new([".git"]).unwrap(),
            ..Grants::read_only()
        };
        let profile = profile(&grants, "/w", "/private/tmp/t").unwrap();
        let lines: Vec<&str> = profile.lines().collect();
        let end: Vec<&str> = lines.iter().rev().take(5).rev().copied().collect();
        assert_eq!(
            end,
            [
                "(allow file-read* (subpath \"/w\"))",
                "(allow file-write* (subpath \"/w/notes\"))",
                "(deny file-write* (regex #\"^/[wW]/(.*/)?\\.[gG][iI][tT](/.*)?$\"))",
                "(deny file-read-data file-write* (regex #\"^/[wW]/(.*/)?[^/]*\\.[pP][eE][mM](/.*)?$\"))",
                "(deny network*)",
            ]
        );
    }

    #[test]
    fn a_path_cannot_add_rules() {
        let hostile = "/w\"))(allow default)((\"";
        let profile = profile(&Grants::read_only(), hostile, "/t").unwrap();
        assert!(profile.contains(r#"(allow file-read* (subpath "/w\"))(allow default)((\""))"#), "{profile}");
        assert!(super::profile(&Grants::read_only(), "w", "/t").is_err());
        assert!(super::profile(&Grants::read_only(), "/w\n(allow default)", "/t").is_err());
    }
}
