//! Files that block, never end or lie about themselves, and paths that are none.

use std::fs;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use toolgate_sandbox::{Grants, Kind, ReadOptions};

use crate::support::{Field, Op};

/// Things that would block for ever or never end.
pub(super) fn check_special_files() {
    let field = Field::new();
    make_special(&field, "fifo", rustix::fs::FileType::Fifo, 0);
    symlink("/dev/zero", field.ws.join("zero")).unwrap();
    symlink("fifo", field.ws.join("fifo-link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(field.ws.join("socket")).unwrap();
    let mut names = vec!["fifo", "fifo-link", "socket"];
    // Only root may make a device; the rest is attacked in any case.
    let zero = rustix::fs::makedev(1, 5);
    if make_special(&field, "device", rustix::fs::FileType::CharacterDevice, zero) {
        names.push("device");
        let mut buffer = vec![1; 1 << 20];
        let mut device = fs::File::open(field.ws.join("device")).unwrap();
        std::io::Read::read_exact(&mut device, &mut buffer).expect("the control reads as much as it likes");
    }

    let fifo = field.ws.join("fifo");
    let blocked = std::thread::spawn(move || fs::read(fifo));
    let writer = writer_once_read(&field.ws.join("fifo"), &blocked);
    assert!(!blocked.is_finished(), "the control blocks on the pipe");
    // Its read ends once the writer goes.
    drop(writer);
    blocked.join().unwrap().unwrap();

    let start = Instant::now();
    for name in names {
        for op in [Op::Read, Op::Write, Op::Edit, Op::Create, Op::Search] {
            // A path must live as long as the table's do; a test may leak a few bytes.
            let op = op(String::leak(name.to_owned()));
            let error = op.run(&field).map(|shown| panic!("{op:?}: {shown}")).unwrap_err();
            let right = matches!(error.kind(), Kind::Failed | Kind::Exists);
            assert!(right, "{op:?}: {error}");
        }
    }
    assert_eq!(Op::Read("zero").run(&field).unwrap_err().kind(), Kind::Denied);
    assert!(Op::Search(".").run(&field).is_ok() && Op::List(".").run(&field).is_ok());
    assert!(start.elapsed() < Duration::from_secs(5), "nothing waits");
}

/// Opens a pipe for writing as soon as a thread waits to read it: without a reader the system refuses that at once.
fn writer_once_read<T>(pipe: &Path, reader: &std::thread::JoinHandle<T>) -> fs::File {
    let start = Instant::now();
    loop {
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        match fs::OpenOptions::new().write(true).custom_flags(flags).open(pipe) {
            Ok(writer) => return writer,
            Err(error) => assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NXIO.raw_os_error())),
        }
        assert!(
            !reader.is_finished() && start.elapsed() < Duration::from_secs(10),
            "the control does not wait"
        );
        std::thread::yield_now();
    }
}

fn make_special(field: &Field, name: &str, kind: rustix::fs::FileType, device: u64) -> bool {
    use rustix::fs::{CWD, Mode, mknodat};
    mknodat(CWD, field.ws.join(name), kind, Mode::from_raw_mode(0o666), device).is_ok()
}

/// A workspace that lies in `/proc`: its magic links lead anywhere, and its files claim to be empty.
#[cfg(target_os = "linux")]
pub(super) fn check_proc() {
    use toolgate_sandbox::{FileLimits, Root, ambient_authority};
    let root = Root::open("/proc/self", ambient_authority()).unwrap();
    let mut grants = Grants::read_only();
    let read = |grants: &Grants, path: &str| root.read_file(grants, path, &ReadOptions::default());
    for path in ["root/etc/passwd", "cwd/Cargo.toml", "exe", "root/proc/self/status"] {
        assert!(fs::read(Path::new("/proc/self").join(path)).is_ok(), "{path}: the control reads it");
        let error = read(&grants, path).unwrap_err();
        assert!(error.to_string().starts_with("path is outside the workspace"), "{path}: {error}");
    }
    assert_eq!(fs::metadata("/proc/self/status").unwrap().len(), 0, "it claims to be empty");
    assert!(read(&grants, "status").unwrap().text.contains("Name:"));
    grants.limits = FileLimits::default().max_file_bytes(100);
    assert_eq!(read(&grants, "status").unwrap_err().kind(), Kind::Limit, "and is bounded all the same");
}

/// Paths that are no paths.
pub(super) fn check_odd_paths() {
    let field = Field::new();
    let deep = "a/".repeat(300) + "x";
    let long = "x".repeat(300);
    let huge = "x/".repeat(5_000);
    for (path, kind) in [
        ("", Kind::Invalid),
        ("a\0b", Kind::Invalid),
        (huge.as_str(), Kind::Invalid),
        (deep.as_str(), Kind::Invalid),
        (long.as_str(), Kind::Invalid),
        ("~/.ssh/id_rsa", Kind::NotFound),
        ("$HOME/.ssh/id_rsa", Kind::NotFound),
        ("absent/../ok.txt", Kind::NotFound),
        ("ok.txt/", Kind::NotADirectory),
        ("ok.txt/x", Kind::NotADirectory),
        (".", Kind::Failed),
        ("\u{202e}txt.ko", Kind::NotFound),
    ] {
        let error = field.root.read_file(&field.grants, path, &ReadOptions::default()).unwrap_err();
        assert_eq!(error.kind(), kind, "{path:?}: {error}");
        assert!(error.to_string().len() < 1_000 && !error.to_string().contains('\u{202e}'), "{error}");
    }
    symlink("loop", field.ws.join("loop")).unwrap();
    assert_eq!(Op::Read("loop").run(&field).unwrap_err().kind(), Kind::Failed);
    assert_eq!(Op::List("loop/x").run(&field).unwrap_err().kind(), Kind::Failed);
}
