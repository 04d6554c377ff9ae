//! The chat in a pseudo-terminal, with the smallest model: what a person types and what they then see.
//! Needs `TOOLGATE_MODELS`, a directory of `<id>.gguf` files (`scripts/test` sets it).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::watched::Watched;

/// Far longer than anything takes; a test that waits for what never comes ends by it.
const PATIENCE: Duration = Duration::from_secs(240);
/// What the line editor writes when it begins to read a line.
const READY: &str = "\x1b[?2004h";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

/// A chat in a terminal of its own.
pub(crate) struct Terminal {
    keys: std::fs::File,
    child: Child,
    screen: Arc<Watched<String>>,
    seen: usize,
}

impl Terminal {
    /// Begins a chat with the smallest model; `None` where it is not there.
    fn chat(workspace: &Path, state: &Path, arguments: &[&str]) -> Option<Self> {
        let model = crate::skip::model("smollm2-135m")?;
        let model =
            [OsStr::new("run"), "--context".as_ref(), "4096".as_ref(), "--model".as_ref(), model.as_ref()];
        let arguments: Vec<&OsStr> = model.into_iter().chain(arguments.iter().map(OsStr::new)).collect();
        let mut terminal = Self::start(workspace, state, &arguments, (50, 200));
        terminal.expect(READY);
        Some(terminal)
    }

    /// Starts the program in a terminal of so many rows and columns.
    pub(crate) fn start(workspace: &Path, state: &Path, arguments: &[&OsStr], size: (u16, u16)) -> Self {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(size.0, size.1)).unwrap();
        let child = pty_process::blocking::Command::new(assert_cmd::cargo::cargo_bin("toolgate"))
            .args(arguments)
            .current_dir(workspace)
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .env("TOOLGATE_STATE", state)
            .env_remove("TOOLGATE_MODEL")
            .spawn(pts)
            .unwrap();
        let screen = Arc::<Watched<String>>::default();
        let fd: OwnedFd = pty.into();
        let keys = std::fs::File::from(fd);
        let mut output = keys.try_clone().unwrap();
        let shown = screen.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The terminal ends with an error when its program does.
            while let Ok(n @ 1..) = output.read(&mut bytes) {
                shown.change(|shown| shown.push_str(&String::from_utf8_lossy(&bytes[..n])));
            }
        });
        Self { keys, child, screen, seen: 0 }
    }

    /// Waits for a text behind what was seen before; what stands in front of it.
    pub(crate) fn expect(&mut self, text: &str) -> String {
        let seen = self.seen;
        let rest = |screen: &str| screen.get(seen..).unwrap_or_default().to_owned();
        let find = |screen: &String| {
            let rest = rest(screen);
            rest.find(text).map(|at| rest[..at].to_owned())
        };
        let before = self.screen.wait(find, |screen| format!("no {text:?} in {:?}", rest(screen)));
        self.seen += before.len() + text.len();
        before
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Types a line and waits until the next one can be typed; what was shown in between.
    fn line(&mut self, line: &str) -> String {
        self.press(&format!("{line}\r"));
        self.expect(READY)
    }

    pub(crate) fn end(mut self, keys: &str) -> Option<i32> {
        self.press(keys);
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            // Asked again and again: the standard library waits for the end of a process without a limit only.
            assert!(start.elapsed() < PATIENCE, "the chat does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.insert(path.clone(), Vec::new());
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), std::fs::read(path).unwrap());
        }
    }
    found
}

#[test]
fn a_chat_answers_obeys_and_outlives_ctrl_c() {
    let (workspace, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let arguments = ["--tool-choice", "none", "--max-tokens", "3000"];
    let Some(mut chat) = Terminal::chat(workspace.path(), state.path(), &arguments) else { return };
    let help = chat.line("/help");
    for command in ["/tools", "/model", "/mode", "/undo", "/save", "/quit"] {
        assert!(help.contains(command), "{help}");
    }
    let tools = chat.line("/tools");
    assert!(tools.contains("read_file") && !tools.contains("write_file"), "{tools}");
    assert!(chat.line("/mode edit").contains("files may be written"));
    assert!(chat.line("/tools").contains("write_file"));
    assert!(chat.line("/model").contains("smollm2-135m"));
    assert!(chat.line("/model no-such-model").contains("no-such-model"), "an error, and the chat goes on");
    assert!(chat.line("/frob").contains("there is no command /frob"));
    assert!(chat.line("/undo").contains("nothing to take back"));

    // A turn that would go on for long: some of its text is there when it is stopped.
    chat.press("Tell me a very long story about a lighthouse keeper and the sea.\r");
    chat.expect("lighthouse");
    chat.expect("\n");
    chat.expect("the ");
    chat.press(CTRL_C);
    chat.expect("cancelled");
    chat.expect(READY);
    assert!(chat.line("/mode").contains("files may be written"), "the program is still there");

    // The first task belongs to the conversation of the second.
    let answer = chat.line("Thank you. Say only: yes");
    assert!(answer.contains("prompt tokens"), "{answer}");
    chat.press(CTRL_C);
    chat.expect("Ctrl-D or /quit");
    chat.expect(READY);
    chat.line("/save talk.json");
    assert!(chat.line("/save talk.json").contains("cannot write talk.json"), "nothing is written over");
    let saved: Value =
        serde_json::from_slice(&std::fs::read(workspace.path().join("talk.json")).unwrap()).unwrap();
    let messages = saved["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"], "{saved}");
    assert_eq!(chat.end(CTRL_D), Some(0));
    let history = std::fs::read_to_string(state.path().join("history.txt")).unwrap();
    assert!(history.contains("/help") && history.contains("lighthouse"), "{history}");
    assert!(!workspace.path().join("history.txt").exists());
}

#[test]
fn a_chat_takes_back_what_its_newest_task_wrote() {
    let (workspace, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(workspace.path().join("note.txt"), "first\n").unwrap();
    let before = files(workspace.path());
    // A history that others can read, as a version made it that did not care.
    let history = state.path().join("history.txt");
    std::fs::write(&history, "").unwrap();
    std::fs::set_permissions(&history, std::fs::Permissions::from_mode(0o644)).unwrap();
    let arguments = ["--mode", "edit", "--tool-choice", "write_file", "--max-iterations", "2"];
    let Some(mut chat) = Terminal::chat(workspace.path(), state.path(), &arguments) else { return };
    assert_eq!(history.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let task = "Write the word hello to the file note.txt\r";
    chat.press(task);
    chat.expect("allow write_file?");
    chat.press(CTRL_C);
    chat.expect("cancelled");
    chat.expect(READY);
    assert_eq!(files(workspace.path()), before, "Ctrl-C at the question is no");
    chat.press(task);
    chat.expect("allow write_file?");
    chat.press("y\r");
    let shown = chat.expect(READY);
    assert_ne!(files(workspace.path()), before, "the model wrote nothing: {shown}");
    let undone = chat.line("/undo");
    assert!(undone.contains("put back"), "{undone}");
    assert_eq!(files(workspace.path()), before);
    assert!(chat.line("/undo").contains("nothing to take back"));
    assert_eq!(chat.end("/quit\r"), Some(0));
}
