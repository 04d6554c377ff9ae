//! Servers that are packages of npm: installed once, in one version, without running their scripts.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::{Startable, interpreter, run_installer};
use crate::mcp::Fetch;

const MISSING: &str = "install Node.js, which brings node and npm";

/// The `node` of this user, by its own path.
pub(super) fn program() -> anyhow::Result<PathBuf> {
    interpreter::says("node", &["-p", "process.execPath"], MISSING)
}

/// Installs a package into `folder`.
pub(super) fn install(fetch: &Fetch, folder: &Path, allow_build: bool) -> anyhow::Result<Startable> {
    let node = program()?;
    // With one of its own npm looks no further up.
    std::fs::write(folder.join("package.json"), "{\"private\": true}\n")?;
    let mut npm = std::process::Command::new("npm");
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact", "--prefix"]);
    npm.arg(folder);
    if !allow_build {
        // What comes from git is prepared, whatever is said of scripts. npm before 11.10 does not know it, and goes on.
        npm.arg("--allow-git=none");
    }
    npm.arg("--").arg(&fetch.package);
    run_installer(npm, MISSING)?;
    let own = read(&folder.join("package.json"))?;
    let name = own.get("dependencies").and_then(Value::as_object).and_then(|all| all.keys().next());
    let name = name.context("npm has installed no package")?;
    let package = folder.join("node_modules").join(name);
    let about = read(&package.join("package.json"))?;
    let entry = entry(&about, name, fetch.program.as_deref())?;
    let entry = package.join(entry).canonicalize().context("the package's program is not there")?;
    ensure!(entry.starts_with(folder), "the package's program lies outside of what was installed");
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path is not Unicode");
    let mut command = vec![text(&entry)?];
    if is_script(&entry)? {
        command.insert(0, text(&node)?);
    }
    command.extend(fetch.arguments.iter().cloned());
    let mut read = vec![folder.to_owned()];
    read.extend(interpreter::tree(&node)?);
    let version = about.get("version").and_then(Value::as_str).unwrap_or("of no version");
    Ok(Startable { command, read, installed: Some(format!("{name} {version}")) })
}

/// Refuses what npm would prepare, or fetch from elsewhere than its registry: git, a URL, a directory.
///
/// # Errors
/// Where it is neither a name with a version nor the file of a packed package.
pub(super) fn check(package: &str) -> anyhow::Result<()> {
    let part = |text: &str| {
        !text.is_empty()
            && !text.starts_with('.')
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte))
    };
    let (scope, rest) = match package.strip_prefix('@').map(|scoped| scoped.split_once('/')) {
        Some(Some((scope, rest))) => (Some(scope), rest),
        Some(None) => (Some(""), package),
        None => (None, package),
    };
    let (name, version) = rest.split_once('@').map_or((rest, None), |(name, version)| (name, Some(version)));
    // A version or a range of them, or a tag.
    let asked = |version: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.^~<>=*+| ".contains(&byte);
        !version.starts_with('.') && version.bytes().all(plain)
    };
    let is_packed = |text: &str| [".tgz", ".tar.gz", ".tar"].iter().any(|end| text.ends_with(end));
    let named = scope.is_none_or(part) && part(name) && version.is_none_or(asked) && !is_packed(package);
    let packed = is_packed(package) && !package.contains(':') && Path::new(package).is_file();
    ensure!(
        named || packed,
        "{package} is no package of the registry, and its code may run outside of the sandbox while it is installed: name one \
         (NAME or NAME@VERSION) or the file that npm pack makes of it, or say --allow-build"
    );
    Ok(())
}

fn read(file: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no JSON", file.display()))
}

/// The file of a package's program: the one that is asked for, the only one, or the one with the package's own name.
fn entry<'a>(about: &'a Value, name: &str, program: Option<&str>) -> anyhow::Result<&'a str> {
    let own = name.rsplit('/').next().unwrap_or(name);
    match about.get("bin") {
        Some(Value::String(file)) if program.is_none_or(|program| program == own) => Ok(file),
        Some(Value::Object(programs)) => {
            let only = programs.values().next().filter(|_| programs.len() == 1 && program.is_none());
            let found = only.or_else(|| programs.get(program.unwrap_or(own))).and_then(Value::as_str);
            let names = || programs.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            found.with_context(|| {
                format!("{name} has the programs {}: name one by npx --package {name} PROGRAM", names())
            })
        }
        _ => bail!("{name} has no program {}", program.unwrap_or(own)),
    }
}

/// Whether Node runs it, and not the system.
fn is_script(entry: &Path) -> anyhow::Result<bool> {
    use std::io::{BufRead as _, Read as _};
    let by_name = entry.extension().is_some_and(|ending| ["js", "mjs", "cjs"].iter().any(|js| ending == *js));
    let mut first = Vec::new();
    std::io::BufReader::new(std::fs::File::open(entry)?).take(128).read_until(b'\n', &mut first)?;
    Ok(by_name || String::from_utf8_lossy(&first).contains("node"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn what_npm_would_prepare_is_refused_and_told_what_to_do() {
        let here = tempfile::tempdir().unwrap();
        let packed = here.path().join("notes-1.tgz");
        std::fs::write(&packed, "").unwrap();
        for fine in
            ["notes", "@example/notes@1.2.3", "notes@latest", "notes@^1.2 || 3", packed.to_str().unwrap()]
        {
            assert!(check(fine).is_ok(), "{fine}");
        }
        for prepared in [
            "git+https://example.org/notes.git",
            "github:example/notes",
            "example/notes",
            "@example/notes@github:example/notes",
            "notes@example/notes",
            "notes@file:../notes",
            "notes@npm:other",
            "https://example.org/notes.tgz",
            "git@example.org:notes.git",
            "ssh://git@example.org/notes.tgz",
            "./notes",
            "..",
            "/notes",
            "missing.tgz",
            "@notes",
            "",
        ] {
            let why = check(prepared).unwrap_err().to_string();
            assert!(why.contains("--allow-build") && why.contains("npm pack"), "{prepared}: {why}");
        }
    }

    #[test]
    fn the_program_is_the_one_that_npx_would_start() {
        let one = json!({"bin": "cli.js"});
        let named = json!({"bin": {"serve": "serve.js"}});
        let several = json!({"bin": {"notes": "notes.js", "other": "other.js"}});
        for (about, program, file) in [
            (&one, None, "cli.js"),
            (&one, Some("notes"), "cli.js"),
            (&named, None, "serve.js"),
            (&named, Some("serve"), "serve.js"),
            (&several, None, "notes.js"),
            (&several, Some("other"), "other.js"),
        ] {
            assert_eq!(entry(about, "@example/notes", program).unwrap(), file);
        }
        for (about, program) in
            [(&one, Some("other")), (&named, Some("other")), (&several, Some("third")), (&json!({}), None)]
        {
            assert!(entry(about, "@example/notes", program).is_err(), "{about}");
        }
        let why = entry(&several, "@example/two", None).unwrap_err().to_string();
        assert!(why.contains("notes, other"), "{why}");
    }
}
