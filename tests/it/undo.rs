//! The undo journal over real directories: whatever was written, taking it back gives the first tree, and what
//! something else wrote stays.

mod bounds;
mod places;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use toolgate::undo::{Bounds, Journal};
use toolgate_sandbox::{FileLimits, Grants, Kind, Root, ambient_authority};

/// Every path below a directory with its bytes; directories without.
type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

fn tree(dir: &Path) -> Tree {
    let mut found = Tree::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(tree(&path));
            found.insert(path, None);
        } else {
            found.insert(path.clone(), Some(std::fs::read(path).unwrap()));
        }
    }
    found
}

/// Its permission bits.
fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn open(path: &Path) -> Root {
    Root::open(path, ambient_authority()).unwrap()
}

/// Whether another user can read a file; only root can try.
fn others_can_read(file: &Path) -> Option<bool> {
    use std::os::unix::process::CommandExt as _;
    rustix::process::geteuid().is_root().then(|| {
        let mut command = std::process::Command::new("cat");
        let output = command.arg(file).uid(65_534).gid(65_534).output().unwrap();
        output.status.success()
    })
}

/// A workspace whose changes are kept, and the journal that keeps them.
struct World {
    dir: tempfile::TempDir,
    state: tempfile::TempDir,
    journal: Arc<Journal>,
    /// The workspace, without a keeper.
    root: Root,
}

impl World {
    fn new(bounds: Bounds) -> Self {
        let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(dir.path().join("kept")).unwrap();
        std::fs::write(dir.path().join("a"), "first a\n").unwrap();
        std::fs::write(dir.path().join("kept/b"), b"first\xff b").unwrap();
        let journal = Arc::new(Journal::open(&state.path().join("undo.db"), bounds).unwrap());
        let root = Root::open(dir.path(), ambient_authority()).unwrap();
        Self { dir, state, journal, root }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn kept(&self) -> Root {
        self.journal.keep(&self.root)
    }

    fn write(&self, path: &str, content: &str) {
        self.kept().write_file(&Grants::read_write(), path, content).unwrap();
    }

    /// The journal's own database, as another process has it.
    fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.state.path().join("undo.db")).unwrap()
    }

    /// Bytes that count, runs, and changes and deeds, by the journal's own totals.
    fn counts(&self) -> (i64, i64, i64) {
        let sql = "SELECT (SELECT bytes FROM total), (SELECT ifnull(sum(runs), 0) FROM workspace), \
             (SELECT ifnull(sum(entries), 0) FROM run)";
        self.database().query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap()
    }

    /// Compares the totals with what there is.
    fn check_totals(&self) {
        let sql = "SELECT (SELECT ifnull(sum(256 + length(CAST(path AS BLOB)) + ifnull(length(before_bytes), 0)), 0) FROM change)
                 + (SELECT ifnull(sum(256 + length(CAST(what AS BLOB))), 0) FROM deed)
                 + (SELECT ifnull(sum(256 + length(CAST(task AS BLOB))), 0) FROM run),
             (SELECT count(*) FROM run), (SELECT count(*) FROM change) + (SELECT count(*) FROM deed)";
        let there: (i64, i64, i64) =
            self.database().query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        assert_eq!(self.counts(), there);
        let sums: (i64, i64) = self
            .database()
            .query_row("SELECT (SELECT ifnull(sum(bytes), 0) FROM run), (SELECT ifnull(sum(bytes), 0) FROM workspace)", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
        assert_eq!(sums, (there.0, there.0));
    }

    fn tasks(&self) -> Vec<String> {
        self.journal.runs(&self.root).unwrap().into_iter().map(|run| run.task).collect()
    }

    /// Takes back run after run until none is left; the refusals.
    fn undo_all(&self) -> Vec<(String, String)> {
        let mut refused = Vec::new();
        for run in self.journal.runs(&self.root).unwrap() {
            refused.extend(self.journal.undo(&self.root, Some(run.number)).unwrap().unwrap().refused);
        }
        refused
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(String, String),
    Create(String, String),
    Edit(String, String),
    NextRun,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let path = prop::sample::select(vec!["a", "new", "kept/b", "kept/c", "x/y", "x/z", "x/y/w", "p/q/r/s"]);
    let path = path.prop_map(str::to_owned);
    let text =
        prop::sample::select(vec!["", "one\n", "first a\n", "two words", "first"]).prop_map(str::to_owned);
    let step = prop_oneof![
        4 => (path.clone(), text.clone()).prop_map(|(path, text)| Step::Write(path, text)),
        2 => (path.clone(), text.clone()).prop_map(|(path, text)| Step::Create(path, text)),
        2 => (path, text).prop_map(|(path, text)| Step::Edit(path, text)),
        1 => Just(Step::NextRun),
    ];
    prop::collection::vec(step, 1..14)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_writes_then_undo_give_the_first_tree_back(steps in steps()) {
        let world = World::new(Bounds::default());
        let (before, kept, grants) = (tree(world.dir.path()), world.kept(), Grants::read_write());
        world.journal.begin("first");
        let mut snapshots = vec![before.clone()];
        for step in &steps {
            // Steps that fail (a directory in the way, nothing to edit) belong to it: they must leave no trace.
            match step {
                Step::Write(path, text) => drop(kept.write_file(&grants, path, text)),
                Step::Create(path, text) => drop(kept.create_file(&grants, path, text)),
                Step::Edit(path, text) => drop(kept.edit_file(&grants, path, "first", text)),
                Step::NextRun => {
                    world.journal.begin("next");
                    snapshots.push(tree(world.dir.path()));
                }
            }
        }
        world.check_totals();
        // Each run taken back gives the tree it began with, the newest first.
        while let Some(undone) = world.journal.undo(&world.root, None).unwrap() {
            prop_assert_eq!(&undone.refused, &[]);
            let now = tree(world.dir.path());
            prop_assert!(snapshots.contains(&now), "{:?}", now);
        }
        prop_assert_eq!(tree(world.dir.path()), before);
        prop_assert_eq!(world.counts(), (0, 0, 0), "nothing is left in the journal");
    }

    #[test]
    fn what_something_else_wrote_is_never_lost(steps in steps(), foreign in prop::sample::select(vec!["a", "kept/b", "x/y", "new"])) {
        let world = World::new(Bounds::default());
        let (kept, grants) = (world.kept(), Grants::read_write());
        world.journal.begin("run");
        for step in &steps {
            match step {
                Step::Write(path, text) => drop(kept.write_file(&grants, path, text)),
                Step::Create(path, text) => drop(kept.create_file(&grants, path, text)),
                Step::Edit(path, text) => drop(kept.edit_file(&grants, path, "first", text)),
                Step::NextRun => {}
            }
        }
        let path = world.path(foreign);
        let changed = world.journal.runs(&world.root).unwrap().iter().any(|run| run.files.contains(&foreign.to_owned()));
        if path.is_file() {
            std::fs::write(&path, "somebody else's").unwrap();
            let refused = world.undo_all();
            prop_assert_eq!(std::fs::read_to_string(&path).unwrap(), "somebody else's");
            prop_assert_eq!(refused.len(), usize::from(changed), "{:?}", refused);
        }
    }
}

#[test]
fn a_change_in_between_stays_and_the_rest_is_taken_back() {
    let world = World::new(Bounds::default());
    world.journal.begin("run");
    world.write("a", "by the run\n");
    world.write("new", "by the run\n");
    std::fs::write(world.path("a"), "by a person\n").unwrap();
    world.write("a", "by the run again\n");
    let undone = world.journal.undo(&world.root, None).unwrap().unwrap();
    assert_eq!(std::fs::read_to_string(world.path("a")).unwrap(), "by a person\n");
    assert!(!world.path("new").exists());
    assert_eq!(undone.restored, ["new"]);
    assert!(undone.refused[0].0 == "a" && undone.refused[0].1.contains("something else"), "{undone:?}");
    let left = world.journal.runs(&world.root).unwrap();
    assert_eq!(left[0].files, ["a"], "what could not be taken back stays listed");
}

#[test]
fn the_permissions_of_now_stay_and_links_are_not_followed() {
    let world = World::new(Bounds::default());
    world.journal.begin("run");
    world.write("a", "x");
    world.write("kept/b", "x");
    std::fs::set_permissions(world.path("a"), std::fs::Permissions::from_mode(0o600)).unwrap();
    // The same bytes behind a link are not the file that was written.
    std::fs::rename(world.path("kept"), world.path("moved")).unwrap();
    symlink("moved", world.path("kept")).unwrap();
    let undone = world.journal.undo(&world.root, None).unwrap().unwrap();
    assert_eq!(undone.restored, ["a"]);
    assert_eq!(mode(&world.path("a")), 0o600);
    assert!(undone.refused[0].0 == "kept/b" && undone.refused[0].1.contains("somewhere else"), "{undone:?}");
    assert_eq!(std::fs::read_to_string(world.path("moved/b")).unwrap(), "x");
}

#[test]
fn a_file_that_cannot_be_kept_is_not_written() {
    let world = World::new(Bounds::default());
    let before = tree(world.dir.path());
    let grants = Grants { limits: FileLimits::default().max_file_bytes(5), ..Grants::read_write() };
    world.kept().write_file(&grants, "a", "1").unwrap_err();
    assert_eq!(tree(world.dir.path()), before);
    assert_eq!(world.journal.runs(&world.root).unwrap(), []);
    world.kept().write_file(&grants, "new", "1").unwrap();
}

#[test]
fn a_write_that_cannot_be_journalled_does_not_happen() {
    let world = World::new(Bounds::default());
    let before = tree(world.dir.path());
    world.database().execute_batch("DROP TABLE change").unwrap();
    let error = world.kept().write_file(&Grants::read_write(), "q/new", "x").unwrap_err();
    assert!(error.to_string().contains("could not be kept"), "{error}");
    assert_eq!(tree(world.dir.path()), before);
}

#[test]
fn a_crash_before_or_after_a_write_is_taken_back_all_the_same() {
    let world = World::new(Bounds::default());
    let before = tree(world.dir.path());
    world.journal.begin("run");
    world.write("a", "one");
    world.write("n/new", "two");
    // As if the program had ended between journal and write: the journal knows what did not happen.
    std::fs::write(world.path("a"), "first a\n").unwrap();
    let undone = world.journal.undo(&world.root, None).unwrap().unwrap();
    assert_eq!(undone.refused, []);
    assert_eq!(tree(world.dir.path()), before);
}

#[test]
fn an_undo_that_is_cut_short_leaves_all_its_rows_and_is_finished_by_the_next() {
    let world = World::new(Bounds::default());
    let before = tree(world.dir.path());
    world.journal.begin("run");
    for path in ["a", "kept/b", "n/1", "n/2"] {
        world.write(path, "x");
    }
    let rows = |world: &World| -> i64 {
        world.database().query_row("SELECT count(*) FROM change", [], |row| row.get(0)).unwrap()
    };
    // The row that goes last is held on to: what went before it must be there again.
    let stop = "CREATE TRIGGER stop BEFORE DELETE ON change WHEN (SELECT count(*) FROM change) = 1 \
         BEGIN SELECT RAISE(ABORT, 'the power fails'); END";
    world.database().execute_batch(stop).unwrap();
    let error = world.journal.undo(&world.root, None).unwrap_err();
    assert!(error.to_string().contains("the power fails"), "{error}");
    assert_eq!((tree(world.dir.path()), rows(&world)), (before.clone(), 4));
    world.database().execute_batch("DROP TRIGGER stop").unwrap();
    let undone = world.journal.undo(&world.root, None).unwrap().unwrap();
    assert_eq!((undone.restored.len(), undone.refused.len()), (4, 0));
    assert_eq!((tree(world.dir.path()), rows(&world)), (before, 0));
}

#[test]
fn what_a_run_does_while_it_is_taken_back_stays_listed() {
    let world = World::new(Bounds::default());
    world.journal.begin("run");
    world.write("a", "x");
    let meanwhile = "CREATE TRIGGER meanwhile AFTER DELETE ON change \
         BEGIN INSERT INTO deed (run, what, cost) VALUES (old.run, 'meanwhile', 1); END";
    world.database().execute_batch(meanwhile).unwrap();
    assert_eq!(world.journal.undo(&world.root, None).unwrap().unwrap().refused, []);
    assert_eq!(world.journal.runs(&world.root).unwrap()[0].commands, ["meanwhile"]);
}

#[test]
fn what_cannot_be_put_back_can_be_saved_elsewhere() {
    let world = World::new(Bounds::default());
    std::fs::set_permissions(world.path("a"), std::fs::Permissions::from_mode(0o640)).unwrap();
    std::fs::create_dir_all(world.path("deep/er")).unwrap();
    std::fs::write(world.path("deep/er/c"), "first c").unwrap();
    world.journal.begin("run");
    for path in ["a", "kept/b", "deep/er/c", "new"] {
        world.write(path, "by the run");
        world.write(path, "by the run again");
    }
    std::fs::write(world.path("a"), "by a command").unwrap();
    let to = world.state.path().join("before");
    let undone = world.journal.undo(&world.root, None).unwrap().unwrap();
    assert_eq!((undone.refused.len(), undone.refused[0].0.as_str()), (1, "a"));
    assert!(
        undone.to_string().contains(&format!("undo --run {} --save-to DIR", undone.run.number)),
        "{undone}"
    );
    // What was put back is done with; what was not is still there.
    let saved = world.journal.save(&world.root, None, &to).unwrap().unwrap();
    assert_eq!((&saved.saved[..], saved.absent.len(), saved.refused.len()), (&["a".to_owned()][..], 0, 0));
    assert_eq!(std::fs::read_to_string(to.join("a")).unwrap(), "first a\n");
    assert_eq!((mode(&to), mode(&to.join("a"))), (0o700, 0o640));
    assert_eq!(std::fs::read_to_string(world.path("a")).unwrap(), "by a command", "nothing is touched");
    // Never over what is there, be it empty.
    let error = world.journal.save(&world.root, None, &to).unwrap_err();
    assert!(error.to_string().contains("already"), "{error}");
    symlink(world.dir.path(), world.state.path().join("link")).unwrap();
    world.journal.save(&world.root, None, &world.state.path().join("link")).unwrap_err();

    let world = World::new(Bounds::default());
    world.journal.begin("run");
    world.write("kept/b", "x");
    world.write("n/new", "x");
    let to = world.path("saved here");
    let saved = world.journal.save(&world.root, None, &to).unwrap().unwrap();
    assert_eq!(
        (&saved.saved[..], &saved.absent[..]),
        (&["kept/b".to_owned()][..], &["n/new".to_owned()][..])
    );
    assert_eq!(std::fs::read(to.join("kept/b")).unwrap(), b"first\xff b");
    assert!(!to.join("n").exists());
    assert_eq!(world.journal.save(&world.root, Some(99), &world.path("none")).unwrap(), None);
    assert!(!world.path("none").exists());
}

#[test]
fn a_name_in_the_journal_that_leads_outside_is_neither_saved_nor_put_back() {
    let world = World::new(Bounds::default());
    let outside = world.state.path().join("outside");
    std::fs::write(&outside, "x").unwrap();
    world.journal.begin("run");
    world.write("a", "x");
    for path in [
        format!("../{}/outside", world.state.path().file_name().unwrap().to_str().unwrap()),
        outside.to_str().unwrap().to_owned(),
    ] {
        world.database().execute("UPDATE change SET path = CAST(?1 AS BLOB)", [&path]).unwrap();
        let to = world.state.path().join(format!("saved {}", path.len()));
        let saved = world.journal.save(&world.root, None, &to).unwrap().unwrap();
        assert!(saved.saved.is_empty() && saved.refused[0].1.contains("outside"), "{saved:?}");
        let undone = world.journal.undo(&world.root, None).unwrap().unwrap();
        assert_eq!(undone.refused.len(), 1);
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "x");
    }
}

#[test]
fn the_journal_is_for_its_owner_alone() {
    let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for open_to_all in [dir.path(), state.path()] {
        std::fs::set_permissions(open_to_all, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::fs::write(state.path().join("control"), "x").unwrap();
    std::fs::set_permissions(state.path().join("control"), std::fs::Permissions::from_mode(0o644)).unwrap();
    if let Some(control) = others_can_read(&state.path().join("control")) {
        assert!(control, "another user reaches the directory");
    }
    std::fs::write(dir.path().join("secret"), "password").unwrap();
    std::fs::set_permissions(dir.path().join("secret"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let files = ["undo.db", "undo.db-wal", "undo.db-shm"].map(|name| state.path().join(name));
    let root = open(dir.path());
    let check = || {
        let journal = Arc::new(Journal::open(&files[0], Bounds::default()).unwrap());
        journal.keep(&root).write_file(&Grants::read_write(), "secret", "x").unwrap();
        for file in &files {
            assert_eq!(mode(file), 0o600, "{}", file.display());
            assert_ne!(others_can_read(file), Some(true), "{}", file.display());
        }
        journal
    };
    // Another one holds it open, so that the files beside it are there when they are opened up.
    let held = check();
    for file in &files {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert_ne!(others_can_read(file), Some(false), "control");
    }
    check();
    drop(held);
    let link = state.path().join("link.db");
    symlink(state.path().join("nothing"), &link).unwrap();
    assert!(Journal::open(&link, Bounds::default()).unwrap_err().to_string().contains("a link"));
}

#[test]
fn processes_share_a_journal_from_its_first_moment_on() {
    let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (root, file) = (open(dir.path()), state.path().join("undo.db"));
    std::thread::scope(|scope| {
        for n in 0..6 {
            let (root, file) = (&root, &file);
            scope.spawn(move || {
                let journal = Arc::new(Journal::open(file, Bounds::default()).unwrap());
                journal.begin(&format!("run {n}"));
                for step in 0..5 {
                    let path = format!("{n}/{step}");
                    journal.keep(root).write_file(&Grants::read_write(), &path, "x").unwrap();
                }
            });
        }
    });
    let journal = Journal::open(&file, Bounds::default()).unwrap();
    let runs = journal.runs(&root).unwrap();
    assert_eq!(runs.iter().map(|run| run.files.len()).collect::<Vec<_>>(), [5; 6]);
    for run in runs {
        assert!(run.files.iter().all(|file| file.starts_with(&run.task.replace("run ", ""))), "{run:?}");
        assert_eq!(journal.undo(&root, Some(run.number)).unwrap().unwrap().refused, []);
    }
    assert_eq!(tree(dir.path()), Tree::new());
}

#[test]
fn a_run_that_another_process_has_taken_back_goes_on_as_a_new_one() {
    let world = World::new(Bounds::default());
    let other = Journal::open(&world.state.path().join("undo.db"), Bounds::default()).unwrap();
    world.journal.begin("run");
    world.write("a", "x");
    let number = other.undo(&world.root, None).unwrap().unwrap().run.number;
    world.write("a", "y");
    let runs = world.journal.runs(&world.root).unwrap();
    assert!(runs.len() == 1 && runs[0].number > number && runs[0].task == "run", "{runs:?}");
    assert_eq!(world.undo_all(), []);
    assert_eq!(std::fs::read_to_string(world.path("a")).unwrap(), "first a\n");
}
