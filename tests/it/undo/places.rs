//! Which directory a run belongs to, and which file a name: also where they were moved, replaced or have no text.

use super::*;

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

#[test]
fn another_directory_at_the_path_is_not_undone_into_and_a_moved_one_is() {
    let above = tempfile::tempdir().unwrap();
    let (path, moved) = (above.path().join("w"), above.path().join("moved"));
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("a"), "first\n").unwrap();
    let journal = Arc::new(Journal::open(&above.path().join("undo.db"), Bounds::default()).unwrap());
    journal.begin("run");
    journal.keep(&open(&path)).write_file(&Grants::read_write(), "a", "by the run\n").unwrap();
    // Another checkout in its place, with the very bytes that the run left.
    std::fs::rename(&path, &moved).unwrap();
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("a"), "by the run\n").unwrap();
    let other = open(&path);
    let run = journal.runs(&open(&moved)).unwrap()[0].number;
    assert_eq!(journal.runs(&other).unwrap(), []);
    assert_eq!(journal.undo(&other, None).unwrap(), None);
    assert_eq!(journal.undo(&other, Some(run)).unwrap(), None);
    assert_eq!(journal.save(&other, None, &above.path().join("none")).unwrap(), None);
    // What is kept of it can be had all the same, since nothing here is changed by that.
    journal.save(&other, Some(run), &above.path().join("saved")).unwrap().unwrap();
    assert_eq!(std::fs::read_to_string(above.path().join("saved/a")).unwrap(), "first\n");
    assert_eq!(std::fs::read_to_string(path.join("a")).unwrap(), "by the run\n");
    assert_eq!(journal.runs_elsewhere(&other).unwrap(), [run]);
    // To forget all that is kept here is not to forget what is kept of the one that was moved.
    assert!(journal.forget(&other, None).unwrap().runs.is_empty());
    let undone = journal.undo(&open(&moved), None).unwrap().unwrap();
    assert_eq!(undone.restored, ["a"]);
    assert_eq!(std::fs::read_to_string(moved.join("a")).unwrap(), "first\n");
    assert_eq!(journal.runs_elsewhere(&other).unwrap(), [0_i64; 0]);
}

#[test]
fn one_journal_tells_the_workspaces_of_one_run_apart() {
    let world = World::new(Bounds::default());
    let other = tempfile::tempdir().unwrap();
    let other = open(other.path());
    world.journal.begin("run");
    world.write("a", "x");
    world.journal.keep(&other).write_file(&Grants::read_write(), "a", "y").unwrap();
    assert_eq!(world.journal.runs(&other).unwrap()[0].files, ["a"]);
    assert_eq!(world.undo_all(), []);
    assert_eq!(std::fs::read_to_string(world.path("a")).unwrap(), "first a\n");
    assert_eq!(world.journal.runs(&other).unwrap().len(), 1);
}

#[test]
fn names_that_are_no_text_lead_to_their_own_files() {
    let world = World::new(Bounds::default());
    let name = |byte: u8| world.dir.path().join(OsStr::from_bytes(&[b'f', byte]));
    for (link, byte) in [("one", 0xff), ("other", 0xfe)] {
        std::fs::write(name(byte), format!("first {link}")).unwrap();
        // A model says what is text; a link leads it to what is not.
        symlink(name(byte).file_name().unwrap(), world.path(link)).unwrap();
        world.write(link, "by the run");
    }
    world.write("f\u{fffd}", "by the run");
    std::fs::write(world.path("back\\xff"), "").unwrap();
    world.write("back\\xff", "by the run");
    let run = world.journal.runs(&world.root).unwrap().remove(0);
    assert_eq!(run.files, ["f\\xff", "f\\xfe", "f\u{fffd}", "back\\\\xff"]);
    let json = serde_json::to_value(&run).unwrap();
    assert_eq!(json["files"][0], "f\\xff");
    let to = world.state.path().join("saved");
    assert_eq!(world.journal.save(&world.root, None, &to).unwrap().unwrap().refused, []);
    assert_eq!(std::fs::read(to.join(OsStr::from_bytes(b"f\xfe"))).unwrap(), b"first other");
    assert_eq!(world.undo_all(), []);
    assert_eq!(std::fs::read_to_string(name(0xff)).unwrap(), "first one");
    assert_eq!(std::fs::read_to_string(name(0xfe)).unwrap(), "first other");
    assert!(!world.path("f\u{fffd}").exists());
}

/// A journal as version 1 made it, with a run in `path` that began at `began` and wrote "new" over "old" in `a`.
fn old_journal(file: &Path, path: &Path, began: i64) {
    let digest = |text: &str| -> [u8; 32] {
        sha2::Digest::finalize(<sha2::Sha256 as sha2::Digest>::new_with_prefix(text)).into()
    };
    let old = rusqlite::Connection::open(file).unwrap();
    old.pragma_update(None, "auto_vacuum", "full").unwrap();
    old.execute_batch(include_str!("../../../crates/tools/src/undo/migrations/1.sql")).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    // A run that was taken back: its number is used up.
    old.execute("INSERT INTO run (id, workspace, task, began) VALUES (40, '/gone', 'gone', 1)", []).unwrap();
    old.execute("DELETE FROM run", []).unwrap();
    old.execute(
        "INSERT INTO run (id, workspace, task, began) VALUES (7, ?1, 'old run', ?2)",
        rusqlite::params![path.canonicalize().unwrap().to_str().unwrap(), began],
    )
    .unwrap();
    let sql = "INSERT INTO change (run, path, before_digest, before_bytes, mode, lost, after_digest, after_len, directories) \
         VALUES (7, ?1, ?2, ?3, 420, ?4, ?5, 3, 0)";
    for (path, kept, lost) in [("a", true, None), ("big", false, Some("too large")), ("\u{fffd}", true, None)]
    {
        let (before, bytes) = (digest("old"), kept.then_some(&b"old"[..]));
        old.execute(sql, rusqlite::params![path, before, bytes, lost, digest("new")]).unwrap();
    }
    old.execute("INSERT INTO deed (run, what) VALUES (7, 'run_command: make')", []).unwrap();
}

#[test]
fn a_journal_of_version_1_is_read_where_its_directory_is_still_there() {
    let dir = tempfile::tempdir().unwrap();
    let state = tempfile::tempdir().unwrap();
    for file in ["a", "big", "\u{fffd}"] {
        std::fs::write(dir.path().join(file), "new").unwrap();
    }
    let root = open(dir.path());
    let made =
        i64::try_from(root.id().unwrap().born.expect("this file system tells when").as_secs()).unwrap();
    // The directory was made after the run: it is another one.
    let file = state.path().join("other.db");
    old_journal(&file, dir.path(), made - 1);
    let journal = Journal::open(&file, Bounds::default()).unwrap();
    assert_eq!(journal.undo(&root, None).unwrap(), None);
    assert_eq!(journal.runs_elsewhere(&root).unwrap(), [7]);
    assert_eq!(journal.forget(&root, Some(7)).unwrap().runs, [7]);
    assert_eq!(journal.runs_elsewhere(&root).unwrap(), [0_i64; 0]);

    let file = state.path().join("undo.db");
    old_journal(&file, dir.path(), made);
    let journal = Arc::new(Journal::open(&file, Bounds::default()).unwrap());
    journal.begin("new run");
    journal.keep(&root).write_file(&Grants::read_write(), "a", "newer").unwrap();
    let runs = journal.runs(&root).unwrap();
    assert_eq!(
        runs.iter().map(|run| (run.number, run.task.as_str())).collect::<Vec<_>>(),
        [(41, "new run"), (7, "old run")]
    );
    assert_eq!(journal.undo(&root, None).unwrap().unwrap().refused, []);
    let undone = journal.undo(&root, None).unwrap().unwrap();
    assert_eq!(undone.restored, ["a"]);
    assert_eq!(std::fs::read_to_string(dir.path().join("a")).unwrap(), "old");
    let why = |path: &str| undone.refused.iter().find(|(name, _)| name == path).unwrap().1.clone();
    assert!(why("big").contains("too large") && why("\u{fffd}").contains("not kept as it is"), "{undone:?}");
    assert_eq!(undone.run.commands, ["run_command: make"]);
}
