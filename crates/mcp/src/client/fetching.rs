//! Commands that fetch a server and start it, as most servers' instructions have them. In the sandbox they would wait for a
//! network that is not there, and fail with unclear messages or none. `toolgate mcp add` installs the package once instead.

use std::path::Path;

use crate::Error;

/// These commands, and the registry of the packages that they fetch.
const FETCHING: [(&[&str], Packages); 11] = [
    (&["npx"], Packages::Node),
    (&["bunx"], Packages::Node),
    (&["pnpx"], Packages::Node),
    (&["npm", "exec"], Packages::Node),
    (&["npm", "x"], Packages::Node),
    (&["bun", "x"], Packages::Node),
    (&["pnpm", "dlx"], Packages::Node),
    (&["yarn", "dlx"], Packages::Node),
    (&["uvx"], Packages::Python),
    (&["uv", "tool", "run"], Packages::Python),
    (&["pipx", "run"], Packages::Python),
];

/// Options that keep them from fetching anything.
const OFFLINE: [&str; 3] = ["--offline", "--no", "--no-install"];
/// Options that change nothing about what is fetched.
const PLAIN: [&str; 6] = ["-y", "--yes", "-q", "--quiet", "--silent", "--"];
/// Options in front of the package. The name of the program follows later.
const NAMING: [&str; 4] = ["-p", "--package", "--from", "--spec"];

/// The registry of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packages {
    /// Of the npm registry.
    Node,
    /// Of the Python package index.
    Python,
}

/// The parts of a command that fetches a package and starts a program of it.
///
/// ```
/// use toolgate_mcp::{Fetch, Packages};
///
/// let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
/// let fetch = Fetch::of(&words("npx -y @example/notes@1.2.3 --root ."))?.ok_or("it fetches one")?;
/// assert_eq!((fetch.packages, fetch.package.as_str()), (Packages::Node, "@example/notes@1.2.3"));
/// assert_eq!(fetch.arguments, ["--root", "."]);
/// assert_eq!(Fetch::of(&words("node server.js"))?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fetch {
    /// The registry of the package.
    pub packages: Packages,
    /// The package, with its version if the command names one.
    pub package: String,
    /// The program of the package, if the command names it.
    pub program: Option<String>,
    /// The arguments of the program.
    pub arguments: Vec<String>,
}

impl Fetch {
    /// Parses a command; none for a command that fetches nothing.
    ///
    /// # Errors
    /// For a command with an unknown option, and for one that names no package.
    pub fn of(command: &[String]) -> Result<Option<Self>, Error> {
        let Some((words, arguments, packages)) = fetching(command) else { return Ok(None) };
        let words = words.join(" ");
        let missing = || Error::input(format!("{words} names no package: write it as {words} PACKAGE"));
        let mut rest = arguments.iter();
        let mut named = None;
        loop {
            let argument = rest.next().ok_or_else(missing)?;
            let split = argument.split_once('=').filter(|(option, _)| NAMING.contains(option));
            if let Some((_, package)) = split {
                named = Some(package.to_owned());
            } else if NAMING.contains(&argument.as_str()) {
                named = Some(rest.next().ok_or_else(missing)?.clone());
            } else if argument.starts_with('-') {
                if !PLAIN.contains(&argument.as_str()) {
                    let why =
                        format!("the option {argument} of {words} is not known here: write {words} PACKAGE");
                    return Err(Error::input(why));
                }
            } else {
                let arguments = rest.cloned().collect();
                let (package, program) = match named {
                    Some(package) => (package, Some(argument.clone())),
                    None => (argument.clone(), None),
                };
                return Ok(Some(Self { packages, package, program, arguments }));
            }
        }
    }
}

/// A command that fetches: its words, what follows them, and whose packages it fetches.
fn fetching(command: &[String]) -> Option<(&'static [&'static str], &[String], Packages)> {
    let (program, rest) = command.split_first()?;
    let program = Path::new(program).file_name()?.to_str()?;
    let begins = |words: &[&str]| {
        let (first, others) = words.split_first()?;
        let is_it = *first == program
            && others.iter().zip(rest).filter(|(word, given)| *word == given).count() == others.len();
        is_it.then(|| rest.get(others.len()..).unwrap_or_default())
    };
    let (words, arguments, packages) =
        FETCHING.iter().find_map(|(words, packages)| Some((*words, begins(words)?, *packages)))?;
    let offline = arguments.iter().any(|argument| OFFLINE.contains(&argument.as_str()));
    (!offline).then_some((words, arguments, packages))
}

/// Why the command of the server `name` cannot start it here, and what can; nothing for one that fetches nothing.
pub(super) fn refusal(name: &str, command: &[String]) -> Option<Error> {
    let (words, ..) = fetching(command)?;
    Some(Error::input(format!(
        "{} fetches the server, and nothing in the sandbox has a network to fetch it by. Take it out of the policy and install \
         it once: toolgate mcp add {name} --policy FILE -- {}",
        words.join(" "),
        command.join(" ")
    )))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn words(command: &str) -> Vec<String> {
        command.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn what_fetches_a_server_is_refused_with_what_to_do_instead() {
        for command in [
            "npx -y @example/server-notes .",
            "/usr/local/bin/npx @example/server",
            "npm exec --yes server",
            "uvx notes-server --db notes.db",
            "uv tool run --quiet notes",
            "pipx run notes",
            "npx",
        ] {
            let why = refusal("notes", &words(command)).unwrap().to_string();
            let told = format!("toolgate mcp add notes --policy FILE -- {command}");
            assert!(why.ends_with(&told) && why.contains("has a network"), "{command}: {why}");
        }
        for command in [
            "node tools/server.js",
            "npm start",
            "uv run server.py",
            "npx --no-install server",
            "uvx --offline notes",
            "tools/bin/notes npx",
        ] {
            assert!(refusal("notes", &words(command)).is_none(), "{command}");
            assert_eq!(Fetch::of(&words(command)).unwrap(), None, "{command}");
        }
    }

    #[test]
    fn a_command_is_taken_apart_into_its_package_and_its_program() {
        for (command, package, program, arguments) in [
            ("npx -y @a/b@1.0.0 --root /x -y", "@a/b@1.0.0", None, "--root /x -y"),
            ("npx --yes --package=@a/b run one", "@a/b", Some("run"), "one"),
            ("npm exec --yes -- server", "server", None, ""),
            ("uvx --from notes[http]==2 notes --db x", "notes[http]==2", Some("notes"), "--db x"),
            ("uvx notes@2.0", "notes@2.0", None, ""),
            ("pipx run --spec ./notes.whl notes", "./notes.whl", Some("notes"), ""),
        ] {
            let fetch = Fetch::of(&words(command)).unwrap().unwrap();
            assert_eq!((fetch.package.as_str(), fetch.program.as_deref()), (package, program), "{command}");
            assert_eq!(fetch.arguments.join(" "), arguments, "{command}");
        }
        for (command, why) in [
            ("npx", "names no package"),
            ("npx -y", "names no package"),
            ("uvx --from", "names no package"),
            ("uvx --from notes", "names no package"),
            ("npx -c echo", "the option -c"),
            ("uvx --python 3.12 notes", "the option --python"),
        ] {
            let told = Fetch::of(&words(command)).unwrap_err().to_string();
            assert!(told.contains(why), "{command}: {told}");
        }
    }
}
