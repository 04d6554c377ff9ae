//! A command that does whatever the bytes say to the names of a workspace, while another process of it exchanges two of them;
//! and what must hold afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use toolgate_sandbox::command::{Commands, Layer, Setup};
use toolgate_sandbox::policy::{Mode, Policy, ProcessLimits};
use toolgate_sandbox::{Patterns, Root, ambient_authority};

/// Names that are protected, those that fold to one, their parts, and some that mean nothing.
const NAMES: &[&str] = &[
    ".git",
    ".GIT",
    ".git.",
    ".g\u{200d}it",
    ".\u{ff47}it",
    ".bashrc",
    ".BASHRC",
    ".bashrc ",
    ".vscode",
    ".envrc",
    ".env",
    ".config",
    "fish",
    ".profile",
    "HEAD",
    "objects",
    "refs",
    "commondir",
    ".husky",
    "toolgate.toml",
    "a",
    "b",
    "c",
    "d",
    "dot",
    "shared",
    "sub",
    "kept",
];

/// What is read from the bytes.
struct Input<'d>(std::slice::Iter<'d, u8>);

impl Input<'_> {
    fn next(&mut self) -> usize {
        self.0.next().copied().unwrap_or(0).into()
    }

    fn done(&self) -> bool {
        self.0.len() == 0
    }

    /// A path of one to four names, some of them from the top, some back up.
    fn path(&mut self) -> String {
        let how = self.next();
        let mut path = String::new();
        for _ in 0..=how % 3 {
            path += NAMES[self.next() % NAMES.len()];
            path += if how & 8 == 8 && self.next().is_multiple_of(4) { "/../" } else { "/" };
        }
        if how & 64 == 0 {
            path.pop();
        }
        path
    }
}

/// The commands as perl, each of which may fail.
fn script(data: &[u8]) -> String {
    let mut input = Input(data.iter());
    let mut script = String::from(
        "use Fcntl; $| = 1; sub put { sysopen F, $_[0], $_[1] | O_NONBLOCK and (syswrite F, 'evil'), close F }\n",
    );
    let swap = (input.path(), input.path());
    // renameat2 with RENAME_EXCHANGE, by its number.
    let exchange = if cfg!(target_arch = "x86_64") { 316 } else { 276 };
    let _ = writeln!(
        script,
        "if (!fork) {{ my ($p, $q) = ('{}', '{}'); for (1..400) {{ syscall {exchange}, -100, $p, -100, $q, 2 }} exit }}",
        swap.0, swap.1
    );
    let mut lines = 0;
    while !input.done() && lines < 60 {
        lines += 1;
        let (kind, one) = (input.next(), input.path());
        let line = match kind % 16 {
            0 | 1 => format!("mkdir '{one}'"),
            // Without waiting, since a pipe may be there whose other end nobody opens.
            2 | 3 => format!("put('{one}', O_WRONLY | O_CREAT | O_TRUNC)"),
            4 => format!("put('{one}', O_WRONLY | O_CREAT | O_APPEND)"),
            5 => format!("symlink '{}', '{one}'", input.path()),
            6 => format!("link '{}', '{one}'", input.path()),
            7 | 8 => format!("rename '{}', '{one}'", input.path()),
            9 => {
                let other = input.path();
                format!("{{ my ($p, $q) = ('{one}', '{other}'); syscall {exchange}, -100, $p, -100, $q, 2 }}")
            }
            10 => format!("unlink '{one}'"),
            11 => format!("rmdir '{one}'"),
            12 => {
                format!("chmod 0{:o}, '{one}'", [0o000, 0o300, 0o500, 0o644, 0o700, 0o755][input.next() % 6])
            }
            13 => format!("chdir '{one}'"),
            14 => format!("system 'mkfifo', '{one}'"),
            _ => format!("truncate '{one}', 2"),
        };
        let _ = writeln!(script, "{line};");
    }
    script + "chdir '/'; print 'TRIED';\n"
}

/// A workspace with something of each kind that is protected.
fn workspace(base: &Path) -> (PathBuf, PathBuf) {
    let (ws, out) = (base.join("ws"), base.join("out"));
    for dir in [
        "ws/.git/hooks",
        "ws/sub/.vscode",
        "ws/dot",
        "ws/shared",
        "ws/c/d",
        "ws/x/.config/fish",
        "ws/kept",
        "out",
    ] {
        fs::create_dir_all(base.join(dir)).unwrap();
    }
    for file in
        ["ws/.git/config", "ws/sub/.vscode/tasks.json", "ws/dot/bashrc", "ws/.env", "ws/a", "out/target"]
    {
        fs::write(base.join(file), "mine").unwrap();
    }
    symlink("dot/bashrc", ws.join(".bashrc")).unwrap();
    symlink("../out/target", ws.join("outward")).unwrap();
    (ws, out)
}

/// What is protected below a directory, by identity: what it is, and what it holds.
fn protected(ws: &Path) -> BTreeMap<(u64, u64), (PathBuf, String)> {
    let patterns = Patterns::protected();
    let mut found = BTreeMap::new();
    let mut todo = vec![(ws.to_owned(), false)];
    while let Some((dir, within)) = todo.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let relative = path.strip_prefix(ws).unwrap();
            let parts: BTreeSet<_> =
                fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            let has = |part: &str| parts.contains(std::ffi::OsStr::new(part));
            let repository =
                path.file_name().unwrap() == "HEAD" && (has("commondir") || has("objects") && has("refs"));
            let is = within || repository || patterns.covers(&relative.to_string_lossy());
            if is {
                let what = match metadata.file_type() {
                    kind if kind.is_symlink() => format!("-> {}", fs::read_link(&path).unwrap().display()),
                    kind if kind.is_file() => fs::read_to_string(&path).unwrap_or_default(),
                    kind => format!("{kind:?}"),
                };
                found.insert((metadata.dev(), metadata.ino()), (relative.to_owned(), what));
            }
            if metadata.is_dir() {
                todo.push((path, is));
            }
        }
    }
    found
}

fn open_all(dir: &Path) {
    Command::new("chmod").args(["-R", "u+rwx"]).arg(dir).status().unwrap();
}

/// Whether what `data` says plants something in a plain shell: the control.
pub(crate) fn plants_plainly(data: &[u8]) -> bool {
    let base = tempfile::Builder::new().prefix("toolgate-").tempdir_in("/var/tmp").unwrap();
    let (ws, _) = workspace(base.path());
    fs::write(ws.join("attack.pl"), script(data)).unwrap();
    let before = protected(&ws);
    Command::new("perl").arg("attack.pl").current_dir(&ws).output().unwrap();
    open_all(base.path());
    protected(&ws).iter().any(|(identity, (_, what))| before.get(identity).is_none_or(|(_, old)| old != what))
}

/// Runs what `data` says, with the layers but for `without`, and looks whether the laws hold.
pub(crate) fn commands(data: &[u8], stage: &Path, without: &[Layer]) {
    let base = tempfile::Builder::new().prefix("toolgate-").tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let real = fs::canonicalize(base.path()).unwrap();
    let (ws, out) = workspace(&real);
    let script = script(data);
    fs::write(ws.join("attack.pl"), &script).unwrap();
    let root = Root::open(&ws, ambient_authority()).unwrap();
    let setup = Setup::default().stage(Some(stage.to_owned())).without(without.to_vec());
    let limits = ProcessLimits::default().wall_ms(Some(10_000));
    let policy = Policy::default_for(Mode::Edit).limited(&limits);
    let commands = Commands::new(&root, &policy, Mode::Edit, &setup).unwrap();
    let before = protected(&ws);
    let ran = commands.run("perl attack.pl 2>&1").unwrap();
    open_all(&ws);
    let after = protected(&ws);
    let told = format!("{ran:?}\n{script}");
    assert!(ran.output.ends_with(b"TRIED"), "{told}");
    for (identity, (path, what)) in &after {
        let known = before.get(identity).is_some_and(|(_, before)| before == what);
        // A link that was there may have been made again.
        let again =
            before.values().any(|(old, before)| old == path && before == what && what.starts_with("-> "));
        assert!(known || again, "{} is protected and new ({what})\n{told}", path.display());
    }
    for (path, what) in before.values() {
        assert!(after.values().any(|(_, after)| after == what), "{} is gone\n{told}", path.display());
    }
    assert_eq!(fs::read_to_string(out.join("target")).unwrap(), "mine", "{told}");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1, "{told}");
    assert!(ran.left.is_empty() && root.check_open().is_ok(), "{told}");
    for name in &ran.taken_back {
        assert!(!without.is_empty(), "{name} had to be taken back\n{told}");
        let there = fs::symlink_metadata(ws.join(name)).is_ok();
        let link = before.values().any(|(old, what)| old == Path::new(name) && what.starts_with("-> "));
        assert!(!there || link, "{name} is said to be gone and is there\n{told}");
    }
}
