//! How much the journal keeps of a run, of a workspace and in all, and what makes room.

use super::*;

/// Bounds in which a run has room for some rows with 1,000 bytes.
fn tight() -> Bounds {
    Bounds::default().run_bytes(6_000).workspace_bytes(12_000).bytes(40_000)
}

#[test]
fn a_run_that_is_too_much_is_stopped_and_costs_no_other_workspace_its_history() {
    let world = World::new(tight());
    let other = tempfile::tempdir().unwrap();
    let other = open(other.path());
    world.journal.begin("of another workspace");
    world.journal.keep(&other).write_file(&Grants::read_write(), "a", "x").unwrap();
    for n in 0..26 {
        std::fs::write(world.path(&format!("{n}")), "o".repeat(1_000)).unwrap();
    }
    world.journal.begin("run");
    let write = |n: usize| {
        world
            .kept()
            .write_file(&Grants::read_write(), &format!("{n}"), "x")
            .map_err(|e| (e.kind(), e.to_string()))
    };
    let done = (0..26).take_while(|n| write(*n).is_ok()).count();
    assert!((3..6).contains(&done), "{done}");
    let (kind, error) = write(done).unwrap_err();
    assert!(kind == Kind::Limit && error.contains("as much as can be kept for undo"), "{error}");
    assert!(error.contains("new task"), "it says what to do: {error}");
    assert_eq!(std::fs::read(world.path(&format!("{done}"))).unwrap().len(), 1_000, "it was not written");
    // It is one run that was stopped: to try again is not to begin another.
    write(done).unwrap_err();
    assert_eq!((world.tasks().len(), world.journal.runs(&other).unwrap().len()), (1, 1));
    world.check_totals();
    // The next run has room again, and what was stopped is taken back as ever.
    world.journal.begin("next");
    write(done).unwrap();
    assert_eq!(world.undo_all(), []);
    assert_eq!(std::fs::read(world.path("0")).unwrap().len(), 1_000);
}

#[test]
fn what_is_larger_than_a_run_may_have_is_left_as_it_is() {
    let world = World::new(tight());
    std::fs::write(world.path("a"), "o".repeat(6_000)).unwrap();
    let error = world.kept().write_file(&Grants::read_write(), "a", "x").unwrap_err();
    assert!(error.to_string().contains("too large to be kept"), "{error}");
    assert_eq!((world.tasks(), world.counts()), (Vec::new(), (0, 0, 0)));
}

#[test]
fn the_oldest_runs_of_a_workspace_make_room_and_that_is_told() {
    let world = World::new(tight());
    for n in 0..20 {
        std::fs::write(world.path("big"), "o".repeat(2_000)).unwrap();
        world.journal.begin(&format!("run {n}"));
        world.write("big", "x");
    }
    let tasks = world.tasks();
    assert!((2..6).contains(&tasks.len()) && tasks[0] == "run 19", "{tasks:?}");
    assert_eq!(world.journal.forgotten(&world.root).unwrap(), 20 - u64::try_from(tasks.len()).unwrap());
    world.check_totals();
    let world = World::new(Bounds::default().runs(3));
    for n in 0..5 {
        world.journal.begin(&format!("run {n}"));
        world.write("a", &n.to_string());
    }
    assert_eq!(world.tasks(), ["run 4", "run 3", "run 2"]);
    assert_eq!(world.undo_all(), []);
    assert_eq!(std::fs::read_to_string(world.path("a")).unwrap(), "1", "as far as it is known");
    assert_eq!(world.journal.forgotten(&world.root).unwrap(), 2, "still told when nothing else is left");
}

#[test]
fn a_run_forgets_no_newer_one_of_its_workspace() {
    let world = World::new(Bounds::default().runs(1));
    let later = Arc::new(Journal::open(&world.state.path().join("undo.db"), Bounds::default()).unwrap());
    world.journal.begin("earlier");
    world.write("new", "x");
    later.begin("later");
    later.keep(&world.root).write_file(&Grants::read_write(), "a", "x").unwrap();
    let error = world.kept().write_file(&Grants::read_write(), "kept/b", "x").unwrap_err();
    assert!(error.to_string().contains("undo --forget"), "{error}");
    assert_eq!(world.tasks(), ["later", "earlier"]);
}

#[test]
fn a_full_journal_gives_up_old_runs_alone() {
    let bounds = Bounds::default().bytes(5_000).spared(Duration::from_secs(7 * 24 * 60 * 60));
    let world = World::new(bounds);
    let other = tempfile::tempdir().unwrap();
    let other = open(other.path());
    std::fs::write(world.path("a"), "o".repeat(3_000)).unwrap();
    world.journal.begin("old");
    world.write("a", "x");
    world.journal.begin("now");
    let write = || {
        // A file of its own, since one that is written over again costs little.
        std::fs::write(world.path("b"), "o".repeat(3_000)).unwrap();
        let beside = open(world.dir.path());
        world.journal.keep(&beside).write_file(&Grants::read_write(), "b", "x")
    };
    world.journal.keep(&other).write_file(&Grants::read_write(), "a", "x").unwrap();
    let error = write().unwrap_err();
    assert!(error.kind() == Kind::Limit && error.to_string().contains("toolgate undo --forget"), "{error}");
    assert_eq!(world.tasks(), ["old"], "nothing was forgotten for nothing");
    // Eight days go by.
    world.database().execute("UPDATE run SET began = began - 691200 WHERE task = 'old'", []).unwrap();
    write().unwrap();
    assert_eq!(world.tasks(), ["now"]);
    assert_eq!(world.journal.forgotten(&world.root).unwrap(), 1);
    assert_eq!((world.journal.runs(&other).unwrap().len(), world.journal.forgotten(&other).unwrap()), (1, 0));
}

#[test]
fn changes_without_bytes_and_commands_count_too() {
    let world = World::new(Bounds::default().entries(3));
    world.journal.begin("run");
    world.write("1", "");
    world.journal.note(&world.root, "run_command: true").unwrap();
    world.write("2", "");
    let error = world.journal.note(&world.root, "run_command: true").unwrap_err();
    assert!(error.to_string().contains("as much as can be kept for undo: 3 changes and commands"), "{error}");
    world.kept().write_file(&Grants::read_write(), "3", "").unwrap_err();
    assert!(!world.path("3").exists());
    let world = World::new(Bounds::default().run_bytes(3_000));
    let create = |n: usize| world.kept().write_file(&Grants::read_write(), &format!("{n}"), "");
    let created = (0..100).take_while(|n| create(*n).is_ok()).count();
    assert!((8..12).contains(&created), "{created}");
    let noted = World::new(Bounds::default().run_bytes(3_000));
    let notes = (0..100).take_while(|_| noted.journal.note(&noted.root, &"é".repeat(1_000)).is_ok()).count();
    assert!((2..6).contains(&notes), "{notes}");
}

#[test]
fn a_session_without_tasks_begins_a_new_run_each_hour() {
    let world = World::new(Bounds::default().entries(1));
    world.journal.begin_session("mcp");
    world.write("1", "");
    let write = || world.kept().write_file(&Grants::read_write(), "2", "");
    write().unwrap_err();
    // The hour goes by.
    world.database().execute("UPDATE run SET began = began - 3600", []).unwrap();
    write().unwrap();
    assert_eq!(world.tasks(), ["mcp", "mcp"]);
    // Control: a task is one run however long it takes.
    world.journal.begin("task");
    world.write("3", "");
    world.database().execute("UPDATE run SET began = began - 3600", []).unwrap();
    world.kept().write_file(&Grants::read_write(), "4", "").unwrap_err();
}

#[test]
fn a_file_that_is_written_again_and_again_is_kept_once() {
    let world = World::new(tight());
    let first = "o".repeat(4_000);
    std::fs::write(world.path("a"), &first).unwrap();
    world.journal.begin("run");
    // Each by itself is more than half of what a run may have.
    for n in 0..6 {
        world.write("a", &n.to_string().repeat(4_000));
    }
    world.check_totals();
    assert_eq!(world.undo_all(), []);
    assert_eq!(std::fs::read_to_string(world.path("a")).unwrap(), first);
}

#[test]
fn what_is_forgotten_gives_its_space_back() {
    let world = World::new(Bounds::default());
    let size = || world.state.path().join("undo.db").metadata().unwrap().len();
    let empty = size();
    std::fs::write(world.path("a"), "o".repeat(1_000_000)).unwrap();
    world.journal.begin("first");
    world.write("a", "x");
    world.journal.begin("second");
    world.write("new", "x");
    let numbers: Vec<i64> = world.journal.runs(&world.root).unwrap().iter().map(|run| run.number).collect();
    assert_eq!(world.journal.forget(&world.root, Some(99)).unwrap().runs, [0_i64; 0]);
    let forgotten = world.journal.forget(&world.root, Some(numbers[1])).unwrap();
    assert!(forgotten.runs == numbers[1..] && forgotten.bytes > 1_000_000, "{forgotten:?}");
    assert_eq!(world.tasks(), ["second"]);
    assert!(size() < empty + 100_000, "{}", size());
    assert!(!world.state.path().join("undo.db-wal").metadata().is_ok_and(|wal| wal.len() > 0));
    world.journal.forget(&world.root, None).unwrap();
    assert_eq!(world.counts(), (0, 0, 0));
    assert_eq!(std::fs::read_to_string(world.path("new")).unwrap(), "x", "files stay");
}
