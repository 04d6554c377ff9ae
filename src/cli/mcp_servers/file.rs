//! A policy file that is changed: a server more or less, with all else as it was, comments too.
//!
//! Invariant: what is written is a policy that can be read, and takes the file's place at once or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, value};
use toolgate_sandbox::policy::{Policy, Tier};

/// What a policy begins with that is made here: commands and servers, which read the workspace.
const NEW: &str = "version = 1\ntier = \"exec\"\n\n[fs]\nread = [\"@workspace\", \"@system\"]\n";

/// A server's keys.
#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) command: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) pass: Vec<String>,
    pub(super) read: Vec<String>,
    pub(super) network: Vec<String>,
}

/// A policy file, or what stands for one that is not named.
pub(super) struct PolicyFile {
    path: Option<PathBuf>,
    text: DocumentMut,
}

impl PolicyFile {
    /// Reads it; one that is not there is made with [`write`](Self::write).
    pub(super) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let text = match path {
            None => NEW.to_owned(),
            Some(path) => match std::fs::read_to_string(path) {
                Ok(text) => text,
                Err(why) if why.kind() == std::io::ErrorKind::NotFound => NEW.to_owned(),
                Err(why) => return Err(why).with_context(|| format!("cannot read {}", path.display())),
            },
        };
        let place = || path.map_or_else(String::new, |path| path.display().to_string());
        Policy::parse(&text).map_err(|error| crate::Error::from(error).context(place()))?;
        Ok(Self { path: path.map(Path::to_owned), text: text.parse().with_context(place)? })
    }

    /// Whether it has a server of that name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.text.get("mcp").and_then(Item::as_table_like).is_some_and(|servers| servers.contains_key(name))
    }

    /// What a server of it can read, outside of the workspace.
    pub(super) fn reads(&self, name: &str) -> Vec<String> {
        let server = self.text.get("mcp").and_then(|servers| servers.get(name));
        let read = server.and_then(|server| server.get("read")).and_then(Item::as_array);
        read.into_iter().flatten().filter_map(|path| path.as_str().map(str::to_owned)).collect()
    }

    /// How much it allows, if it can be read.
    pub(super) fn tier(&self) -> Option<Tier> {
        Policy::parse(&self.text.to_string()).ok().map(|policy| policy.tier)
    }

    /// Puts a server in, or in the place of one of that name.
    pub(super) fn add(&mut self, name: &str, server: &Server) -> anyhow::Result<()> {
        let mut table = Table::new();
        let list = |items: &[String]| value(items.iter().map(String::as_str).collect::<Array>());
        table.insert("command", list(&server.command));
        table.insert("tools", list(&["*".to_owned()]));
        for (key, items) in [("pass", &server.pass), ("read", &server.read), ("network", &server.network)] {
            if !items.is_empty() {
                table.insert(key, list(items));
            }
        }
        if !server.env.is_empty() {
            let values = server.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            table.insert("env", value(values.collect::<InlineTable>()));
        }
        let servers = self.text.entry("mcp").or_insert_with(|| {
            let mut servers = Table::new();
            servers.set_implicit(true);
            Item::Table(servers)
        });
        let servers = servers.as_table_mut().context("mcp in the policy is no table")?;
        servers.insert(name, Item::Table(table));
        Policy::parse(&self.text.to_string()).map_err(crate::Error::from)?;
        Ok(())
    }

    /// Takes a server out; whether there was one.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let servers = self.text.get_mut("mcp").and_then(Item::as_table_like_mut);
        servers.is_some_and(|servers| servers.remove(name).is_some())
    }

    /// Writes the file; where none is named, the table of the server `name` goes to `out`.
    pub(super) fn write(&self, name: &str, out: &mut dyn Write) -> anyhow::Result<()> {
        let Some(path) = &self.path else {
            let table = self.text.get("mcp").and_then(|servers| servers.get(name)).map(Item::to_string);
            return Ok(write!(out, "[mcp.{name}]\n{}", table.unwrap_or_default())?);
        };
        // A link is followed: what it leads to is what is read.
        let path = path.canonicalize().unwrap_or_else(|_| path.clone());
        let place = || format!("cannot write {}", path.display());
        let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(above).with_context(place)?;
        file.write_all(self.text.to_string().as_bytes()).with_context(place)?;
        if let Ok(metadata) = std::fs::metadata(&path) {
            file.as_file().set_permissions(metadata.permissions()).with_context(place)?;
        }
        file.persist(&path).map_err(|why| why.error).with_context(place)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn server() -> Server {
        Server {
            command: ["/opt/node/bin/node", "it's.js"].map(str::to_owned).to_vec(),
            env: vec![("A".to_owned(), "b \"c\"".to_owned())],
            pass: vec!["KEY".to_owned()],
            read: vec!["/opt/node".to_owned()],
            network: vec!["api.example.org:443".to_owned()],
        }
    }

    #[test]
    fn a_server_is_put_in_and_taken_out_and_all_else_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("policy.toml");
        let text = "# mine\nversion = 1 # the form\ntier = \"exec\"\n\n[mcp.old] # kept\ncommand = [\"old\"]\n\n[approve]\nask = []\n";
        std::fs::write(&path, text).unwrap();
        let mut file = PolicyFile::open(Some(&path)).unwrap();
        assert!(file.has("old") && !file.has("new"));
        file.add("new", &server()).unwrap();
        file.write("new", &mut std::io::sink()).unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        let policy = Policy::parse(&written).unwrap();
        let new = policy.mcp.get("new").unwrap();
        assert_eq!(new.command, ["/opt/node/bin/node", "it's.js"]);
        assert_eq!(new.env.get("A").unwrap().reveal(), "b \"c\"");
        assert_eq!((new.pass.len(), new.read.len(), new.network.len()), (1, 1, 1));
        for line in text.lines() {
            assert!(written.contains(line), "{line}: {written}");
        }
        let mut file = PolicyFile::open(Some(&path)).unwrap();
        assert_eq!((file.reads("new"), file.reads("old")), (vec!["/opt/node".to_owned()], Vec::new()));
        assert!(file.remove("new") && !file.remove("new"));
        file.write("new", &mut std::io::sink()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn without_a_file_the_table_is_printed_and_a_missing_file_is_made() {
        let mut none = PolicyFile::open(None).unwrap();
        none.add("new", &server()).unwrap();
        let mut printed = Vec::new();
        none.write("new", &mut printed).unwrap();
        let printed = String::from_utf8(printed).unwrap();
        assert!(printed.starts_with("[mcp.new]\ncommand = ["), "{printed}");
        assert!(Policy::parse(&format!("version = 1\n{printed}")).is_ok(), "{printed}");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("policy.toml");
        let mut made = PolicyFile::open(Some(&path)).unwrap();
        assert!(!path.exists());
        made.add("new", &server()).unwrap();
        made.write("new", &mut std::io::sink()).unwrap();
        let policy = Policy::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!((policy.tier, policy.mcp.len()), (Tier::Exec, 1));
        let mut wrong = server();
        wrong.network = vec!["*.example.org:443".to_owned()];
        assert!(made.add("other", &wrong).unwrap_err().to_string().contains("exact"));
    }
}
