//! Questions over a checkout: each is a task whose workspace is a copy of a directory.
//!
//! Invariant: the checkout is only read, and its copy has no links that lead out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use toolgate_sandbox::policy::Mode;

use super::path;
use super::run::Case;
use super::task::{Expect, FileAfter, Offered, OneOrMany, Task};
use toolgate_agent::Error;

/// Files of a copy at most. Each question copies them once, and reads them twice to see what changed.
const MOST_FILES: usize = 20_000;

/// Bytes of a file at most. A longer one is left out of a copy.
const MOST_BYTES: u64 = 1 << 20;

/// Turns of a question at most. What a question is about has to be found first.
const MOST_TURNS: usize = 12;

/// A checkout that questions are asked over.
///
/// Each question is asked over a fresh copy. The copy leaves out `.git`, and `target` at the top or beside a `Cargo.toml`. It
/// leaves out links, directories without files, and files of more than 1 MiB. It has 20,000 files at most. The time of a record
/// includes that of the copy.
///
/// A question is a JSON object:
///
/// - `id`: its name, unique in its file.
/// - `prompt`: what the user says.
/// - `mode`: `"read"`, the default, or `"edit"`. This is its category, too. In `"read"` a run that changed a file has failed.
/// - `any`: texts of which the answer holds at least one.
/// - `all`: texts of which the answer holds each. Both are compared as those of a task are, without case.
/// - `file`: a path and a text that this file holds after the run, in mode `"edit"`.
///
/// At least one of the last three is there.
///
/// ```
/// use serde_json::json;
/// use toolgate_lab::{Case, Repository};
///
/// let checkout = tempfile::tempdir()?;
/// std::fs::write(checkout.path().join("Cargo.toml"), "edition = \"2024\"\n")?;
/// let questions = checkout.path().join("questions.jsonl");
/// let question = json!({"id": "edition", "prompt": "Which edition of Rust is this?", "all": ["2024"]});
/// std::fs::write(&questions, question.to_string())?;
///
/// // No copy has the file that tells the answers.
/// let repository = Repository::open(checkout.path())?.without(&questions);
/// let case = repository.case(question)?;
/// assert_eq!((case.id(), case.category()), ("edition", "read"));
/// // A question that any answer is right for is a mistake.
/// assert!(repository.case(json!({"id": "edition", "prompt": "Which edition of Rust is this?"})).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Repository {
    directory: PathBuf,
    left_out: Vec<PathBuf>,
}

/// A question as it stands in a line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: String,
    prompt: String,
    #[serde(default)]
    mode: Asked,
    #[serde(default)]
    any: Vec<String>,
    #[serde(default)]
    all: Vec<String>,
    file: Option<(String, String)>,
}

/// What a question asks for.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Asked {
    /// An answer. Nothing may change.
    #[default]
    #[serde(alias = "intel")]
    Read,
    /// A change.
    Edit,
}

impl Repository {
    /// The checkout in a directory.
    ///
    /// # Errors
    /// A directory that cannot be read, or has too many files for a copy.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let found = directory.canonicalize().map_err(|why| unread(directory, &why))?;
        let repository = Self { directory: found, left_out: Vec::new() };
        repository.files(MOST_FILES)?;
        Ok(repository)
    }

    /// The same without a file, such as that of the questions: a search would find the answers there.
    #[must_use]
    pub fn without(mut self, file: &Path) -> Self {
        // A file that is not there is in no copy.
        self.left_out.extend(file.canonicalize());
        self
    }

    /// Reads a question.
    ///
    /// # Errors
    /// What is wrong with the object.
    pub fn case(&self, value: Value) -> Result<Case, Error> {
        let line: Line = serde_json::from_value(value).map_err(|why| Error::input(why.to_string()))?;
        let Line { id, prompt, mode, any, all, file } = line;
        if any.is_empty() && all.is_empty() && file.is_none() {
            return Err(Error::input(
                "nothing says which answer is right: give the question \"any\", \"all\" or \"file\"",
            ));
        }
        let mut files_after = BTreeMap::new();
        if let Some((name, text)) = file {
            if mode == Asked::Read {
                return Err(Error::input(
                    "a question with \"file\" wants a change: give it the mode \"edit\"",
                ));
            }
            let after = FileAfter { contains: Some(OneOrMany::One(text)), ..FileAfter::default() };
            files_after.insert(inside(&name)?, after);
        }
        let (category, mode) = match mode {
            Asked::Read => ("read", Mode::Intel),
            Asked::Edit => ("edit", Mode::Edit),
        };
        Ok(Case::Task(Box::new(Task {
            id,
            category: category.to_owned(),
            mode,
            files: BTreeMap::new(),
            repository: Some(self.clone()),
            tools: Offered::Builtin("builtin".to_owned()),
            prompt,
            max_iterations: MOST_TURNS,
            expect: Expect {
                final_contains_any: any,
                final_contains_all: all,
                files_after,
                ..Expect::default()
            },
            forbid: Vec::new(),
            memory: Vec::new(),
        })))
    }

    /// Copies its files into a directory.
    ///
    /// # Errors
    /// What cannot be read or written, or too many files.
    pub(super) fn copy_to(&self, to: &Path) -> Result<(), Error> {
        for file in self.files(MOST_FILES)? {
            let (from, to) = (self.directory.join(&file), to.join(&file));
            if let Some(above) = to.parent() {
                fs::create_dir_all(above).map_err(|why| uncopied(&from, &why))?;
            }
            fs::copy(&from, &to).map_err(|why| uncopied(&from, &why))?;
        }
        Ok(())
    }

    /// The files of a copy, by their paths from the directory.
    fn files(&self, most: usize) -> Result<Vec<PathBuf>, Error> {
        let mut files = Vec::new();
        walk(&self.directory, &|path| self.is_left_out(path), &mut |path, entry| {
            let found = entry.metadata().map_err(|why| unread(&entry.path(), &why))?;
            if !found.is_file() || found.len() > MOST_BYTES {
                return Ok(());
            }
            if files.len() == most {
                let directory = self.directory.display();
                return Err(Error::input(format!(
                    "{directory}: more than {most} files: name a smaller directory"
                )));
            }
            files.push(path);
            Ok(())
        })?;
        Ok(files)
    }

    /// Whether a path from the directory is that of what git keeps, of what cargo builds, or of a file that is not wanted.
    fn is_left_out(&self, path: &Path) -> bool {
        let above = self.directory.join(path.parent().unwrap_or(Path::new("")));
        // A module may be called `target`, too.
        let is_built = || above == self.directory || above.join("Cargo.toml").is_file();
        path.file_name().is_some_and(|name| name == ".git" || (name == "target" && is_built()))
            || self.left_out.iter().any(|file| *file == self.directory.join(path))
    }
}

/// The path of a file in a copy, as the checker names it.
fn inside(name: &str) -> Result<String, Error> {
    let plain = path::normalized(name);
    match plain == "." || plain == ".." || plain.starts_with('/') || plain.starts_with("../") {
        true => Err(Error::input(format!("\"file\" {name:?} is no path of a file in the repository"))),
        false => Ok(plain),
    }
}

/// What stands at each path below a directory: a hash of a file's bytes, or of where a link leads.
///
/// # Errors
/// What cannot be read.
pub(super) fn stamps(directory: &Path) -> Result<BTreeMap<String, u64>, Error> {
    let mut found = BTreeMap::new();
    walk(directory, &|_| false, &mut |path, entry| {
        let stamp = stamp(entry).map_err(|why| unread(&entry.path(), &why))?;
        found.insert(path.to_string_lossy().replace('\\', "/"), stamp);
        Ok(())
    })?;
    Ok(found)
}

fn stamp(entry: &DirEntry) -> io::Result<u64> {
    let (path, kind) = (entry.path(), entry.file_type()?);
    let mut hasher = DefaultHasher::new();
    (kind.is_file(), kind.is_symlink()).hash(&mut hasher);
    // Nothing else is opened: a pipe would wait for its other end.
    if kind.is_file() {
        fs::read(path)?.hash(&mut hasher);
    } else if kind.is_symlink() {
        fs::read_link(path)?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

/// The paths that do not have the same in two states.
pub(super) fn changed(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> Vec<String> {
    let all: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    all.into_iter().filter(|path| before.get(*path) != after.get(*path)).cloned().collect()
}

/// Tells `each` of all that is below a directory but directories, by its path from there. It passes over what is left out, and
/// follows no links.
fn walk(
    root: &Path,
    is_left_out: &dyn Fn(&Path) -> bool,
    each: &mut dyn FnMut(PathBuf, &DirEntry) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        let here = root.join(&directory);
        for entry in fs::read_dir(&here).map_err(|why| unread(&here, &why))? {
            let entry = entry.map_err(|why| unread(&here, &why))?;
            let path = directory.join(entry.file_name());
            if is_left_out(&path) {
                continue;
            }
            match entry.file_type().map_err(|why| unread(&entry.path(), &why))?.is_dir() {
                true => open.push(path),
                false => each(path, &entry)?,
            }
        }
    }
    Ok(())
}

fn unread(path: &Path, why: &io::Error) -> Error {
    Error::input(format!("cannot read {}: {why}", path.display()))
}

fn uncopied(path: &Path, why: &io::Error) -> Error {
    Error::input(format!("cannot copy {}: {why}", path.display()))
}

#[cfg(test)]
#[path = "repository_tests.rs"]
mod tests;
