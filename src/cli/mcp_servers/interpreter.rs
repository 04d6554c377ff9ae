//! Where the program of a command is, and what has to be read to run it where that is not among the system's.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::Startable;

/// Trees that every command in the sandbox sees.
const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/nix/store"];

/// Whether the sandbox has it without a grant.
pub(super) fn is_systems(path: &Path) -> bool {
    SYSTEM.iter().any(|tree| path.starts_with(tree))
}

/// The program of that name in the directories of `PATH`, as it is called there.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|directory| directory.join(program));
    found.filter(|found| found.is_absolute()).find(|found| found.is_file())
}

/// What an interpreter at `program` needs: the tree that it was installed in, or nothing if it is the system's.
pub(super) fn tree(program: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let real = program.canonicalize().with_context(|| format!("cannot look at {}", program.display()))?;
    let mut trees = Vec::new();
    // By the path that it is called by, where it is only called so by a link, and by its own.
    for path in [program, &real] {
        let bin = path.parent().filter(|bin| bin.ends_with("bin"));
        let tree = bin.and_then(Path::parent).filter(|tree| is_its_own(tree)).unwrap_or(path).to_path_buf();
        if !is_systems(path) && !trees.contains(&tree) {
            trees.push(tree);
        }
    }
    Ok(trees)
}

/// What a home directory has for many programs, and what in it is private: no tree that holds it is one program's.
const COMMON: [&str; 6] =
    [".local/bin", ".local/share/keyrings", ".local/state", ".cargo/bin", ".config", ".ssh"];

/// Whether a tree is one program's: a home directory and one right below the root hold others too, and so do the places where
/// many programs of a user are.
fn is_its_own(tree: &Path) -> bool {
    let home = std::env::home_dir();
    let homes = home.iter().cloned().chain(home.iter().filter_map(|home| home.canonicalize().ok()));
    let holds_others = |home: PathBuf| {
        home.starts_with(tree) || COMMON.iter().any(|common| home.join(common).starts_with(tree))
    };
    tree.components().count() > 2 && !homes.into_iter().any(holds_others)
}

/// A command whose program is found: one of the user's own is named by its path, and granted.
pub(super) fn located(command: &[String]) -> anyhow::Result<Startable> {
    let mut startable = Startable::plain(command.to_vec());
    let Some(program) = command.first().filter(|program| !program.contains('/')) else {
        return Ok(startable);
    };
    let found = match program.as_str() {
        "node" => Some(super::node::program()?),
        "python" | "python3" => Some(super::python::program()?),
        other => find(other),
    };
    if let Some(found) = found.filter(|found| !is_systems(found)) {
        startable.read = tree(&found)?;
        if let (Some(first), Some(found)) = (startable.command.first_mut(), found.to_str()) {
            found.clone_into(first);
        }
    }
    Ok(startable)
}

/// What a program that is asked for its own path says, in place of a wrapper that is called by its name.
pub(super) fn says(program: &str, arguments: &[&str], missing: &str) -> anyhow::Result<PathBuf> {
    let output = std::process::Command::new(program)
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .output()
        .with_context(|| format!("{program} is not there: {missing}"))?;
    let said = String::from_utf8(output.stdout).ok();
    let path = said.map(|said| PathBuf::from(said.trim_end())).filter(|path| path.is_absolute());
    path.with_context(|| format!("{program} does not say where it is"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_tree_of_an_interpreter_is_what_holds_its_bin_by_both_of_its_names() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let bin = base.join("versions/v22/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("node"), "").unwrap();
        assert_eq!(tree(&bin.join("node")).unwrap(), [base.join("versions/v22")]);
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(base.join("versions/v22"), base.join("current")).unwrap();
            let trees = tree(&base.join("current/bin/node")).unwrap();
            assert_eq!(trees, [base.join("current"), base.join("versions/v22")]);
        }
        std::fs::write(base.join("alone"), "").unwrap();
        assert_eq!(tree(&base.join("alone")).unwrap(), [base.join("alone")]);
        let home = std::env::home_dir().unwrap();
        for (path, own) in [
            (home.as_path(), false),
            (&home.join(".nvm"), true),
            (&home.join(".local"), false),
            (&home.join(".cargo"), false),
            (&home.join(".local/share/uv/python"), true),
        ] {
            assert_eq!(is_its_own(path), own, "{}", path.display());
        }
        assert!(!is_its_own(Path::new("/opt")) && is_its_own(Path::new("/opt/node")));
        #[cfg(target_os = "linux")]
        assert_eq!(tree(Path::new("/bin/sh")).unwrap(), Vec::<PathBuf>::new());
    }
}
