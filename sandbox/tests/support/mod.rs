//! A workspace with something worth stealing beside it, and the naive twin of every file tool.
//!
//! The twins are what a tool without a capability would do: join the path and call `std::fs`. An attack
//! counts only if it works on them.

#![allow(dead_code, reason = "each test binary uses a part")]

#[cfg(target_os = "linux")]
pub(crate) mod attack;
#[cfg(target_os = "linux")]
#[path = "../../../tests/support/lifeline.rs"]
pub(crate) mod lifeline;
#[cfg(target_os = "linux")]
pub(crate) mod shell;
#[path = "../../../tests/support/skip.rs"]
pub(crate) mod skip;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use toolgate_sandbox::{Error, Grants, ReadOptions, Root, SearchOptions, ambient_authority};

/// What must never come back.
pub(crate) const CANARY: &str = "CANARY-7f3a";

/// A directory with the workspace `ws` and, beside it, `out` with a secret and a file that must not change.
pub(crate) struct Field {
    _base: TempDir,
    pub(crate) ws: PathBuf,
    pub(crate) out: PathBuf,
    pub(crate) root: Root,
    pub(crate) grants: Grants,
}

impl Field {
    pub(crate) fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        // The real path, since some systems' temporary directory is a link.
        let real = fs::canonicalize(base.path()).unwrap();
        let (ws, out) = (real.join("ws"), real.join("out"));
        fs::create_dir(&ws).unwrap();
        fs::create_dir(&out).unwrap();
        fs::write(ws.join("ok.txt"), "fine\n").unwrap();
        fs::write(out.join("secret.txt"), format!("{CANARY}\n")).unwrap();
        fs::write(out.join("target.txt"), "intact\n").unwrap();
        let root = Root::open(&ws, ambient_authority()).unwrap();
        Self { _base: base, ws, out, root, grants: Grants::read_write() }
    }

    /// `{OUT}` and `{WS}` in a path stand for the two directories.
    pub(crate) fn path(&self, path: &str) -> String {
        path.replace("{OUT}", &self.out.to_string_lossy()).replace("{WS}", &self.ws.to_string_lossy())
    }

    /// Everything under `out`: names, contents, kinds.
    pub(crate) fn outside(&self) -> Vec<(PathBuf, String)> {
        manifest(&self.out)
    }
}

/// Every path below `dir` with its content or kind, sorted.
pub(crate) fn manifest(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let what = if metadata.is_dir() {
                todo.push(path.clone());
                "directory".to_owned()
            } else if metadata.is_file() {
                fs::read_to_string(&path).unwrap_or_default()
            } else {
                format!("{:?}", metadata.file_type())
            };
            found.push((path, what));
        }
    }
    found.sort();
    found
}

/// One request to a file tool.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Read(&'static str),
    List(&'static str),
    Search(&'static str),
    Write(&'static str),
    Create(&'static str),
    /// Replaces `intact` by `changed`.
    Edit(&'static str),
}

impl Op {
    /// What the tool answers.
    pub(crate) fn run(self, field: &Field) -> Result<String, Error> {
        let Field { root, grants, .. } = field;
        match self {
            Self::Read(path) => {
                root.read_file(grants, &field.path(path), &ReadOptions::default()).map(|r| r.content())
            }
            Self::List(path) => root.list_directory(grants, &field.path(path), Some(3)).map(|r| r.content()),
            Self::Search(path) => {
                let options = SearchOptions::default().path(Some(field.path(path)));
                root.search_codebase(grants, "canary", &options).map(|r| r.content())
            }
            Self::Write(path) => root.write_file(grants, &field.path(path), "changed\n").map(|r| r.content()),
            Self::Create(path) => {
                root.create_file(grants, &field.path(path), "changed\n").map(|r| r.content())
            }
            Self::Edit(path) => {
                root.edit_file(grants, &field.path(path), "intact", "changed").map(|r| r.content())
            }
        }
    }

    /// What a tool without a capability would do.
    pub(crate) fn run_plainly(self, field: &Field) -> std::io::Result<String> {
        let at = |path: &str| field.ws.join(field.path(path));
        match self {
            Self::Read(path) => fs::read_to_string(at(path)),
            Self::List(path) => {
                let names = fs::read_dir(at(path))?.map(|entry| entry.unwrap().file_name());
                Ok(names.map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>().join("\n"))
            }
            Self::Search(path) => {
                let files = fs::read_dir(at(path))?.map(|entry| entry.unwrap().path());
                Ok(files.filter_map(|file| fs::read_to_string(file).ok()).collect())
            }
            Self::Write(path) => {
                let path = at(path);
                fs::create_dir_all(path.parent().unwrap())?;
                fs::write(path, "changed\n").map(|()| String::new())
            }
            Self::Create(path) => {
                let path = at(path);
                fs::create_dir_all(path.parent().unwrap())?;
                fs::write(path, "changed\n").map(|()| String::new())
            }
            Self::Edit(path) => {
                let text = fs::read_to_string(at(path))?;
                fs::write(at(path), text.replace("intact", "changed")).map(|()| String::new())
            }
        }
    }
}

/// Somebody who exchanges `ws/p` for something else while requests run.
pub(crate) struct Swapper {
    stop: std::sync::Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Swapper {
    pub(crate) fn between(field: &Field, other: &str) -> Self {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let (seen, one, other) = (stop.clone(), field.ws.join("p"), field.ws.join(other));
        let thread = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// Runs `attempt` until `done` or for `time`.
pub(crate) fn race(time: Duration, mut attempt: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < time {
        if attempt() {
            return true;
        }
    }
    false
}
