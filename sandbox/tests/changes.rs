//! Changes of files that somebody else changes at the same time: what is made is what was made ready, and no save is lost.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use toolgate_sandbox::{
    Before, Change, Error, FileLimits, Grants, Image, Keeper, Kind, Root, ambient_authority,
};

/// A workspace with the file `a.txt`, "one\n".
struct World {
    dir: tempfile::TempDir,
    root: Root,
    grants: Grants,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.txt"), "one\n").unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        let root = Root::open(dir.path(), ambient_authority()).unwrap();
        Self { dir, root, grants: Grants::read_write() }
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.dir.path().join(path)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// Saves a file as editors do: beside it, then over it.
    fn save(&self, path: &str, text: &str) {
        let beside = self.path("beside");
        fs::write(&beside, text).unwrap();
        fs::rename(beside, self.path(path)).unwrap();
    }

    /// All names below the top.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Keeps what changes replace in memory.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<Option<Before>>>);

impl Kept {
    fn has(&self, text: &str) -> bool {
        let is_it = |before: &Before| matches!(before, Before::File(image) if image.bytes == text.as_bytes());
        self.0.lock().unwrap().iter().flatten().any(is_it)
    }
}

impl Keeper for Kept {
    fn keep(&self, change: &Change<'_>) -> Result<i64, Error> {
        let mut kept = self.0.lock().unwrap();
        kept.push(Some(change.before.clone()));
        Ok(i64::try_from(kept.len() - 1).unwrap())
    }

    fn drop_kept(&self, number: i64) {
        if let Some(kept) = self.0.lock().unwrap().get_mut(usize::try_from(number).unwrap()) {
            *kept = None;
        }
    }
}

/// Sets a flag when it goes, also where a test fails: the other thread ends then.
struct AtTheEnd<'a>(&'a AtomicBool);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What somebody does to `a.txt` or `new.txt` between the question and the answer.
type Meanwhile = fn(&World);

#[test]
fn what_was_made_ready_is_made_and_nothing_else() {
    let cases: [(&str, Meanwhile); 9] = [
        ("a save in place", |world| fs::write(world.path("a.txt"), "two\n").unwrap()),
        ("a save beside it", |world| world.save("a.txt", "two\n")),
        ("the same bytes in another file", |world| world.save("a.txt", "one\n")),
        ("removed", |world| fs::remove_file(world.path("a.txt")).unwrap()),
        ("a link to another file", |world| {
            fs::remove_file(world.path("a.txt")).unwrap();
            fs::write(world.path("Makefile"), "all:\n").unwrap();
            symlink("Makefile", world.path("a.txt")).unwrap();
        }),
        ("a link to nothing", |world| {
            fs::remove_file(world.path("a.txt")).unwrap();
            symlink("nothing", world.path("a.txt")).unwrap();
        }),
        ("a directory", |world| {
            fs::remove_file(world.path("a.txt")).unwrap();
            fs::create_dir(world.path("a.txt")).unwrap();
        }),
        ("another name of it", |world| {
            fs::rename(world.path("a.txt"), world.path("b.txt")).unwrap();
        }),
        ("a file without rights of the same bytes", |world| {
            world.save("a.txt", "one\n");
            fs::set_permissions(world.path("a.txt"), fs::Permissions::from_mode(0o200)).unwrap();
        }),
    ];
    for (what, meanwhile) in cases {
        for edits in [false, true] {
            let world = World::new();
            let prepare =
                || match edits {
                    false => world.root.prepare_write(&world.grants, "a.txt", "by a model\n").map(|c| {
                        Box::new(move || c.make().map(drop)) as Box<dyn FnOnce() -> Result<(), Error>>
                    }),
                    true => world.root.prepare_edit(&world.grants, "a.txt", "one", "by a model").map(|c| {
                        Box::new(move || c.make().map(drop)) as Box<dyn FnOnce() -> Result<(), Error>>
                    }),
                };
            let make = prepare().unwrap();
            meanwhile(&world);
            let there = |world: &World| -> Vec<(String, Option<Vec<u8>>)> {
                let names = world.names().into_iter();
                names
                    .map(|name| {
                        let bytes = fs::read(world.path(&name)).ok();
                        (name, bytes)
                    })
                    .collect()
            };
            let before = there(&world);
            let error = make().unwrap_err();
            assert!(matches!(error.kind(), Kind::Failed), "{what}: {error}");
            assert_eq!(there(&world), before, "{what}: {error}");
        }
    }
    // Control: without anybody in between it is made.
    let world = World::new();
    world.root.prepare_write(&world.grants, "a.txt", "by a model\n").unwrap().make().unwrap();
    assert_eq!(
        (world.text("a.txt").as_str(), world.names()),
        ("by a model\n", vec!["a.txt".to_owned(), "d".to_owned()])
    );
}

#[test]
fn a_file_that_somebody_made_meanwhile_stays() {
    for path in ["new.txt", "d/new.txt", "e/f/new.txt"] {
        let world = World::new();
        let write = world.root.prepare_write(&world.grants, path, "by a model\n").unwrap();
        let create = world.root.prepare_create(&world.grants, path, "by a model\n").unwrap();
        assert!(write.creates() && create.creates());
        fs::create_dir_all(world.path(path).parent().unwrap()).unwrap();
        fs::write(world.path(path), "by somebody\n").unwrap();
        for made in [write.make(), create.make()] {
            assert_eq!(made.unwrap_err().kind(), Kind::Failed, "{path}");
            assert_eq!(world.text(path), "by somebody\n");
        }
    }
    // Control.
    let world = World::new();
    assert!(world.root.prepare_write(&world.grants, "e/f/new.txt", "x").unwrap().make().unwrap().created);
}

#[test]
fn a_directory_that_was_exchanged_is_not_written_to() {
    let world = World::new();
    fs::write(world.path("d/b.txt"), "one\n").unwrap();
    let change = world.root.prepare_edit(&world.grants, "d/b.txt", "one", "two").unwrap();
    fs::rename(world.path("d"), world.path("old")).unwrap();
    fs::create_dir(world.path("d")).unwrap();
    fs::write(world.path("d/b.txt"), "one\n").unwrap();
    let error = change.make().unwrap_err();
    assert!(error.to_string().starts_with("the path leads somewhere else by now"), "{error}");
    assert_eq!((world.text("d/b.txt").as_str(), world.text("old/b.txt").as_str()), ("one\n", "one\n"));
}

#[test]
fn a_place_that_became_protected_is_not_written_to() {
    let world = World::new();
    let change = world.root.prepare_write(&world.grants, "d/config", "[core]\n").unwrap();
    fs::write(world.path("d/HEAD"), "ref: refs/heads/main\n").unwrap();
    for part in ["objects", "refs"] {
        fs::create_dir(world.path("d").join(part)).unwrap();
    }
    assert_eq!(change.make().unwrap_err().kind(), Kind::Denied);
    assert!(!world.path("d/config").exists());
}

#[test]
fn no_save_is_lost_to_writes_at_the_same_time() {
    let world = World::new();
    let kept = Arc::new(Kept::default());
    let root = world.root.keeping(kept.clone());
    let done = AtomicBool::new(false);
    let (written, saved) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = 0;
            while !done.load(Ordering::SeqCst) {
                written += usize::from(root.write_file(&world.grants, "a.txt", "by a model\n").is_ok());
            }
            written
        });
        let at_the_end = AtTheEnd(&done);
        let end = Instant::now() + Duration::from_secs(3);
        let mut saved = 0;
        while Instant::now() < end {
            let text = format!("save {saved}\n");
            world.save("a.txt", &text);
            let limit = Instant::now() + Duration::from_secs(5);
            // It is there, or it was kept before it was replaced.
            while world.text("a.txt") != text && !kept.has(&text) {
                let last: Vec<_> = kept.0.lock().unwrap().iter().rev().take(6).cloned().collect();
                let there = (world.text("a.txt"), world.names());
                assert!(Instant::now() < limit, "save {saved} is neither there nor kept: {there:?} {last:?}");
            }
            saved += 1;
        }
        drop(at_the_end);
        (writer.join().unwrap(), saved)
    });
    assert!(written > 10 && saved > 10, "{written} {saved}");
    assert_eq!(world.names(), ["a.txt", "d"], "nothing is left aside");
}

#[test]
fn no_save_is_lost_to_what_is_put_back_at_the_same_time() {
    let world = World::new();
    let image = Image::new(b"before\n", Some(0o644));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let back = scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                for before in [Some(&image), None] {
                    // Nothing that a save wrote is what a change left.
                    let mut is_as_left = |now: Option<&[u8]>| now == Some(b"left\n");
                    let put = world.root.put_back(Path::new("a.txt"), before, 0, 100, &mut is_as_left);
                    if put.is_ok_and(|put| put) {
                        return true;
                    }
                }
            }
            false
        });
        let at_the_end = AtTheEnd(&done);
        for saved in 0..2_000 {
            world.save("a.txt", "left\n");
            let text = format!("save {saved}\n");
            world.save("a.txt", &text);
            let now = fs::read_to_string(world.path("a.txt"));
            if now.as_ref().is_ok_and(|now| *now == text) {
                continue;
            }
            // A moment in which the other one looks at what came out.
            let limit = Instant::now() + Duration::from_secs(5);
            while fs::read_to_string(world.path("a.txt")).ok().as_deref() != Some(text.as_str()) {
                assert!(Instant::now() < limit, "save {saved} is gone");
            }
        }
        drop(at_the_end);
        back.join().unwrap();
    });
}

#[test]
fn what_cannot_be_kept_is_not_replaced() {
    let world = World::new();
    fs::write(world.path("big"), vec![b'x'; 2_000]).unwrap();
    let grants = Grants { limits: FileLimits::default().max_file_bytes(1_000), ..Grants::read_write() };
    let root = world.root.keeping(Arc::new(Kept::default()));
    let error = root.write_file(&grants, "big", "small").unwrap_err();
    assert!(error.to_string().starts_with("what is there could not be kept for undo"), "{error}");
    assert_eq!(fs::metadata(world.path("big")).unwrap().len(), 2_000);
    // Control: where nothing is kept, it is replaced, and a preview can say what it was.
    let change = world.root.prepare_write(&grants, "big", "small").unwrap();
    assert_eq!((change.before(), change.unread().unwrap().0), (None, 2_000));
    change.make().unwrap();
    assert_eq!(world.text("big"), "small");
    // What cannot be read is looked at by its metadata.
    fs::write(world.path("big"), vec![b'x'; 2_000]).unwrap();
    let change = world.root.prepare_write(&grants, "big", "small").unwrap();
    fs::write(world.path("big"), vec![b'y'; 2_001]).unwrap();
    assert_eq!(change.make().unwrap_err().kind(), Kind::Failed);
}

#[test]
fn what_is_put_back_keeps_the_permissions_of_now() {
    let world = World::new();
    let path = world.path("a.txt");
    world.root.write_file(&world.grants, "a.txt", "by a model\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let image = Image::new(b"one\n", Some(0o644));
    let mut as_left = |now: Option<&[u8]>| now == Some(b"by a model\n");
    assert!(world.root.put_back(Path::new("a.txt"), Some(&image), 0, 100, &mut as_left).unwrap());
    assert_eq!((world.text("a.txt").as_str(), fs::metadata(&path).unwrap().mode() & 0o777), ("one\n", 0o600));
    // One that was marked read-only since stays.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let mut as_left = |now: Option<&[u8]>| now == Some(b"one\n");
    for before in [Some(&image), None] {
        let error = world.root.put_back(Path::new("a.txt"), before, 0, 100, &mut as_left).unwrap_err();
        assert_eq!(error.kind(), Kind::Denied);
    }
    assert_eq!(world.text("a.txt"), "one\n");
    // What is gone comes back with the permissions it had.
    fs::remove_file(&path).unwrap();
    assert!(world.root.put_back(Path::new("a.txt"), Some(&image), 0, 100, &mut |now| now.is_none()).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
}

#[test]
fn a_name_that_is_no_text_is_put_back_and_no_other() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let world = World::new();
    let (name, like) = (OsStr::from_bytes(b"f\xff"), "f\u{fffd}");
    for name in [name, OsStr::new(like)] {
        fs::write(world.dir.path().join(name), "left\n").unwrap();
    }
    let image = Image::new(b"before\n", None);
    let mut as_left = |now: Option<&[u8]>| now == Some(b"left\n");
    assert!(world.root.put_back(Path::new(name), Some(&image), 0, 100, &mut as_left).unwrap());
    assert_eq!(fs::read(world.dir.path().join(name)).unwrap(), b"before\n");
    assert_eq!(world.text(like), "left\n");
}
