//! The undo journal over real directories: whatever was written, taking it back gives the first tree, and what
//! something else wrote stays.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use toolgate::undo::{Bounds, Journal};
use toolgate_sandbox::{FileLimits, Grants, Root, ambient_authority};

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
        // Each run taken back gives the tree it began with, the newest first.
        while let Some(undone) = world.journal.undo(&world.root, None).unwrap() {
            prop_assert_eq!(&undone.refused, &[]);
            let now = tree(world.dir.path());
            prop_assert!(snapshots.contains(&now), "{:?}", now);
        }
        prop_assert_eq!(tree(world.dir.path()), before);
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
fn permissions_come_back_and_links_are_not_followed() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let world = World::new(Bounds::default());
    std::fs::set_permissions(world.path("a"), std::fs::Permissions::from_mode(0o640)).unwrap();
    world.journal.begin("run");
    world.write("a", "x");
    world.write("kept/b", "x");
    std::fs::set_permissions(world.path("a"), std::fs::Permissions::from_mode(0o600)).unwrap();
    // The same bytes behind a link are not the file that was written.
    std::fs::rename(world.path("kept"), world.path("moved")).unwrap();
    symlink("moved", world.path("kept")).unwrap();
    let undone = world.journal.undo(&world.root, None).unwrap().unwrap();
    assert_eq!(world.path("a").metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert!(undone.refused[0].0 == "kept/b" && undone.refused[0].1.contains("somewhere else"), "{undone:?}");
    assert_eq!(std::fs::read_to_string(world.path("moved/b")).unwrap(), "x");
}

#[test]
fn a_journal_keeps_within_its_bounds_and_says_what_it_could_not_keep() {
    let world = World::new(Bounds { bytes: 100, runs: 3 });
    for n in 0..5 {
        world.journal.begin(&format!("run {n}"));
        world.write("a", &"x".repeat(40 + n));
    }
    let runs = world.journal.runs(&world.root).unwrap();
    assert_eq!(runs.iter().map(|run| run.task.as_str()).collect::<Vec<_>>(), ["run 4", "run 3"], "{runs:?}");
    world.journal.begin("large");
    world.write("a", &"y".repeat(150));
    world.write("a", "z");
    let undone = world.journal.undo(&world.root, None).unwrap().unwrap();
    assert!(undone.refused[0].1.contains("100 bytes at most"), "{undone:?}");
    assert_eq!(std::fs::read_to_string(world.path("a")).unwrap(), "z", "nothing is put back from nothing");
}

#[test]
fn a_file_that_cannot_be_kept_is_written_and_named() {
    let world = World::new(Bounds::default());
    let grants =
        Grants { limits: FileLimits { max_file_bytes: 5, ..FileLimits::default() }, ..Grants::read_write() };
    world.journal.begin("run");
    world.kept().write_file(&grants, "a", "1").unwrap();
    let undone = world.journal.undo(&world.root, None).unwrap().unwrap();
    assert!(undone.refused[0].1.contains("was not kept"), "{undone:?}");
}

#[test]
fn a_write_that_cannot_be_journalled_does_not_happen() {
    let world = World::new(Bounds::default());
    let before = tree(world.dir.path());
    let database = rusqlite::Connection::open(world.state.path().join("undo.db")).unwrap();
    database.execute_batch("DROP TABLE change").unwrap();
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
fn workspaces_do_not_see_each_other_s_runs() {
    let world = World::new(Bounds::default());
    let other = tempfile::tempdir().unwrap();
    let other = Root::open(other.path(), ambient_authority()).unwrap();
    world.journal.begin("run");
    world.write("a", "x");
    world.journal.note(&world.root, "run_command: make").unwrap();
    assert_eq!(world.journal.runs(&other).unwrap(), []);
    assert_eq!(world.journal.undo(&other, None).unwrap(), None);
    let undone = world.journal.undo(&world.root, None).unwrap().unwrap();
    assert_eq!(undone.run.commands, ["run_command: make"]);
    assert!(undone.to_string().contains("not taken back"), "{undone}");
}
