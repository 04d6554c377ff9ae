//! Servers that are packages of the Python index: installed once into an environment of their own, in one version.
//!
//! Invariant: the environment's own interpreter is not started once the package is in it. A package may have files that run
//! whenever an interpreter starts; so what is there is read from its descriptions.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::{Startable, interpreter, run_installer};
use crate::mcp::Fetch;

const MISSING: &str = "install Python 3 with its modules venv and pip";

/// The `python3` of this user, by its own path.
pub(super) fn program() -> anyhow::Result<PathBuf> {
    interpreter::says("python3", &["-I", "-c", "import sys; print(sys.executable)"], MISSING)
}

/// A package that is installed: its name, its version, and where it is described.
struct Found {
    name: String,
    version: String,
    about: PathBuf,
}

/// Installs a package into `folder`.
pub(super) fn install(fetch: &Fetch, folder: &Path, allow_build: bool) -> anyhow::Result<Startable> {
    let python = program()?;
    let mut venv = std::process::Command::new(&python);
    venv.args(["-I", "-m", "venv"]).arg(folder);
    run_installer(venv, MISSING)?;
    let before = packages(folder)?;
    let mut pip = std::process::Command::new(folder.join("bin/python"));
    pip.args(["-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]);
    if !allow_build {
        pip.args(["--only-binary", ":all:"]);
    }
    let package = match is_wheel(&fetch.package) {
        // By its absolute path it can be read as nothing else.
        true => Path::new(&fetch.package).canonicalize()?.into_os_string(),
        false => requirement(&fetch.package).into(),
    };
    pip.arg("--").arg(package);
    run_installer(pip, MISSING).context("a package without a wheel needs --allow-build")?;
    let new: Vec<Found> =
        packages(folder)?.into_iter().filter(|new| !before.iter().any(|old| old.name == new.name)).collect();
    let pinned: String = new.iter().map(|found| format!("{}=={}\n", found.name, found.version)).collect();
    std::fs::write(folder.join("requirements.txt"), pinned)?;
    let wanted = plain_name(&fetch.package);
    let found = new.iter().find(|found| normal(&found.name) == wanted);
    let found = found.with_context(|| format!("pip has installed no package {wanted}"))?;
    let script = folder.join("bin").join(script(found, fetch.program.as_deref())?);
    ensure!(script.is_file(), "the package's program {} is not there", script.display());
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path is not Unicode");
    let mut command = vec![text(&script)?];
    command.extend(fetch.arguments.iter().cloned());
    let mut read = vec![folder.to_owned()];
    read.extend(interpreter::tree(&python)?);
    let installed = Some(format!("{} {}", found.name, found.version));
    Ok(Startable { command, read, installed })
}

/// What pip takes for `name@version`, which is how uvx has it.
fn requirement(package: &str) -> String {
    match package.split_once('@') {
        Some((name, "latest")) if is_name(name) => name.to_owned(),
        Some((name, version)) if is_name(name) && version.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{name}=={version}")
        }
        _ => package.to_owned(),
    }
}

/// Ends of files that pip takes for a package to build.
const SOURCES: [&str; 6] = [".zip", ".tar", ".tgz", ".tbz", ".txz", ".tlz"];

/// Refuses what pip would build whatever its options say: a directory, an archive of sources, what a URL leads to.
///
/// # Errors
/// Where it is neither a name with a version nor a wheel.
pub(super) fn check(package: &str) -> anyhow::Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.[],<>=!~*+ ".contains(&byte);
    let asked = requirement(package);
    let whole = asked.split('[').next().unwrap_or(&asked).trim_end();
    let is_source = |text: &str| SOURCES.iter().any(|end| text.ends_with(end)) || text.contains(".tar.");
    let is_plain = asked.starts_with(|first: char| first.is_ascii_alphanumeric())
        && asked.bytes().all(plain)
        && !is_source(&whole.to_ascii_lowercase())
        && !is_source(&asked.trim_end().to_ascii_lowercase());
    ensure!(
        is_plain && !asked.ends_with(".whl") || is_wheel(package),
        "{package} may have to be built, and its code would then run outside of the sandbox: name a package of the index \
         (NAME, NAME@VERSION, NAME[EXTRA]==VERSION) or a wheel's file, or say --allow-build"
    );
    Ok(())
}

/// Whether it is the file of a wheel, which holds what is ready to be used.
fn is_wheel(package: &str) -> bool {
    package.ends_with(".whl") && !package.contains([';', '[']) && Path::new(package).is_file()
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.[],".contains(&byte))
}

/// The name of a package in a requirement, or of a wheel's file.
fn plain_name(package: &str) -> String {
    let file = Path::new(package).file_name().and_then(|name| name.to_str()).unwrap_or(package);
    let name = match file.strip_suffix(".whl") {
        Some(wheel) => wheel.split('-').next().unwrap_or(wheel),
        None => file.split(['[', '=', '<', '>', '~', '!', '@', ';', ' ']).next().unwrap_or(file),
    };
    normal(name)
}

/// A name as all its spellings have it.
fn normal(name: &str) -> String {
    let parts: Vec<&str> = name.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    parts.join("-").to_ascii_lowercase()
}

/// The packages of an environment.
fn packages(folder: &Path) -> anyhow::Result<Vec<Found>> {
    let mut found = Vec::new();
    for library in std::fs::read_dir(folder.join("lib"))?.flatten() {
        let Ok(entries) = std::fs::read_dir(library.path().join("site-packages")) else { continue };
        for entry in entries
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|ending| ending == "dist-info"))
        {
            let text = std::fs::read_to_string(entry.path().join("METADATA")).unwrap_or_default();
            let field = |name: &str| {
                let lines = text.lines().take_while(|line| !line.is_empty());
                lines.filter_map(|line| line.split_once(": ")).find(|(field, _)| *field == name)
            };
            if let (Some((_, name)), Some((_, version))) = (field("Name"), field("Version")) {
                let (name, version) = (name.trim().to_owned(), version.trim().to_owned());
                found.push(Found { name, version, about: entry.path() });
            }
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The program of a package: the one that is asked for, the one with its own name, or the only one.
fn script(found: &Found, program: Option<&str>) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(found.about.join("entry_points.txt")).unwrap_or_default();
    let names = scripts(&text);
    let wanted = program.map_or_else(|| normal(&found.name), str::to_owned);
    let fits = |name: &&String| match program {
        Some(program) => *name == program,
        None => normal(name) == wanted,
    };
    let only = names.first().filter(|_| names.len() == 1 && program.is_none());
    let script = names.iter().find(fits).or(only).cloned();
    script.with_context(|| {
        let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        format!(
            "{} has no program {wanted}; it has {has}: name one by uvx --from {} PROGRAM",
            found.name, found.name
        )
    })
}

/// The names of the programs that a description of entry points has.
fn scripts(text: &str) -> Vec<String> {
    let mut within = false;
    let mut names = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            within = section.trim_end_matches(']').trim() == "console_scripts";
        } else if let (true, Some((name, _))) = (within, line.split_once('=')) {
            let name = name.trim();
            // A path would lead out of the environment.
            if !name.is_empty() && !name.contains('/') && name != ".." {
                names.push(name.to_owned());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn requirements_are_those_of_pip_and_names_those_of_all_spellings() {
        for (given, requirement_, name) in [
            ("notes", "notes", "notes"),
            ("Notes_Server@1.2", "Notes_Server==1.2", "notes-server"),
            ("notes@latest", "notes", "notes"),
            ("notes[http]==2", "notes[http]==2", "notes"),
            ("notes>=2", "notes>=2", "notes"),
            (
                "./dist/notes_server-1.0-py3-none-any.whl",
                "./dist/notes_server-1.0-py3-none-any.whl",
                "notes-server",
            ),
        ] {
            assert_eq!((requirement(given).as_str(), plain_name(given).as_str()), (requirement_, name));
        }
    }

    #[test]
    fn what_would_be_built_is_refused_and_told_what_to_do() {
        let here = tempfile::tempdir().unwrap();
        let wheel = here.path().join("a@b-1-py3-none-any.whl");
        std::fs::write(&wheel, "").unwrap();
        for fine in ["notes", "notes@1.2", "notes[http,x]==2", "notes>=2,<3", wheel.to_str().unwrap()] {
            assert!(check(fine).is_ok(), "{fine}");
        }
        for built in [
            "git+https://example.org/notes",
            "git+https://example.org/notes#egg=a.whl",
            "https://example.org/notes.tar.gz",
            "notes @ https://example.org/notes.zip",
            "notes@https://example.org/notes.zip",
            "notes @ git+file:///notes.whl",
            "notes@./notes",
            "./notes",
            ".",
            "..",
            "/notes",
            "notes/",
            "notes.tar.gz",
            "notes-1.0.tar.gz[http]",
            "notes==1.TAR.bz2",
            "notes.zip",
            "file:notes",
            "missing.whl",
            "notes; python_version > '3'",
            "",
        ] {
            let why = check(built).unwrap_err().to_string();
            assert!(why.contains("--allow-build") && why.contains("NAME@VERSION"), "{built}: {why}");
        }
    }

    #[test]
    fn the_program_is_one_of_the_console_scripts() {
        let about = tempfile::tempdir().unwrap();
        let found = |name: &str| Found {
            name: name.to_owned(),
            version: "1".to_owned(),
            about: about.path().to_owned(),
        };
        let text = "[other]\nx = y\n\n[console_scripts]\nnotes = a:b\nnotes-admin=a:c\n../evil = a:d\n[gui_scripts]\ng = h\n";
        assert_eq!(scripts(text), ["notes", "notes-admin"]);
        std::fs::write(about.path().join("entry_points.txt"), text).unwrap();
        assert_eq!(script(&found("Notes"), None).unwrap(), "notes");
        assert_eq!(script(&found("other"), Some("notes-admin")).unwrap(), "notes-admin");
        assert!(script(&found("other"), None).unwrap_err().to_string().contains("notes, notes-admin"));
        std::fs::write(about.path().join("entry_points.txt"), "[console_scripts]\nserve = a:b\n").unwrap();
        assert_eq!(script(&found("notes"), None).unwrap(), "serve");
    }
}
