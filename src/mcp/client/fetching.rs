//! Programs that fetch a server and start it, as the instructions of most servers have it. In the sandbox they would wait for a network
//! that is not there, and say so in words of their own, or not at all.

use std::path::Path;

use crate::Error;

/// Their commands, and whose packages they fetch.
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

/// What keeps them from fetching anything.
const OFFLINE: [&str; 3] = ["--offline", "--no", "--no-install"];

#[derive(Clone, Copy)]
enum Packages {
    Node,
    Python,
}

/// Why a command cannot start a server here, and what can; nothing for one that fetches nothing.
pub(super) fn refusal(command: &[String]) -> Option<Error> {
    let (program, rest) = command.split_first()?;
    let program = Path::new(program).file_name()?.to_str()?;
    let begins = |words: &[&str]| {
        let (first, others) = words.split_first()?;
        let is_it = *first == program
            && others.iter().zip(rest).filter(|(word, given)| *word == given).count() == others.len();
        is_it.then(|| rest.get(others.len()..).unwrap_or_default())
    };
    let (words, arguments, packages) =
        FETCHING.iter().find_map(|(words, packages)| Some((words, begins(words)?, *packages)))?;
    if arguments.iter().any(|argument| OFFLINE.contains(&argument.as_str())) {
        return None;
    }
    let package =
        arguments.iter().find(|argument| !argument.starts_with('-')).map_or("PACKAGE", String::as_str);
    let instead = match packages {
        Packages::Node => format!(
            "install it once in the workspace, by npm install --prefix tools {package}, and start what is there: \
             command = [\"/usr/bin/node\", \"tools/node_modules/…\"]"
        ),
        Packages::Python => format!(
            "install it once in the workspace, by python3 -m venv tools && tools/bin/pip install {package}, and start what is \
             there: command = [\"tools/bin/…\"]"
        ),
    };
    let words = words.join(" ");
    Some(Error::input(format!(
        "{words} fetches the server, and nothing in the sandbox has a network: {instead}"
    )))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn said(command: &str) -> Option<String> {
        let command: Vec<String> = command.split(' ').map(str::to_owned).collect();
        refusal(&command).map(|why| why.to_string())
    }

    #[test]
    fn what_fetches_a_server_is_refused_with_what_to_do_instead() {
        for (command, told) in [
            ("npx -y @example/server-notes .", "npm install --prefix tools @example/server-notes"),
            ("/usr/local/bin/npx @example/server", "npm install --prefix tools @example/server"),
            ("npm exec --yes server", "npm exec fetches the server"),
            ("uvx notes-server --db notes.db", "tools/bin/pip install notes-server"),
            ("uv tool run --quiet notes", "tools/bin/pip install notes"),
            ("pipx run notes", "tools/bin/pip install notes"),
            ("npx", "npm install --prefix tools PACKAGE"),
        ] {
            let why = said(command).unwrap();
            assert!(why.contains(told) && why.contains("has a network"), "{command}: {why}");
        }
        for command in [
            "node tools/server.js",
            "npm start",
            "uv run server.py",
            "npx --no-install server",
            "uvx --offline notes",
            "tools/bin/notes npx",
        ] {
            assert_eq!(said(command), None, "{command}");
        }
    }
}
