//! Undoes the writes of runs: a journal in SQLite, outside every workspace, over the file tier of the
//! sandbox.
//!
//! Invariant: the old content is in the journal before a write replaces it, or the write does not happen. A
//! file that something else has changed since is not touched.

mod back;
mod bounds;
mod chain;
mod names;
mod place;
mod record;
mod save;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior};
use serde::Serialize;
use sha2::{Digest, Sha256};
use toolgate_sandbox::{Root, output};

pub use self::bounds::Bounds;
use self::place::{Match, Place};
use self::record::Kept;
use crate::Error;
use crate::database::{self, Readers};
use crate::error::sql;

/// The schema's steps.
const MIGRATIONS: [&str; 2] = [include_str!("migrations/1.sql"), include_str!("migrations/2.sql")];
/// Characters of a task that are kept.
const TASK: usize = 200;
/// Seconds of a run in a session.
const HOUR: i64 = 60 * 60;

/// The runs of a workspace since some second, newest first.
const HEADS: &str = "SELECT id, task, began FROM run WHERE workspace = ?1 AND began >= ?2 ORDER BY id DESC";
/// The runs of a workspace before some second.
const EARLIER: &str = "SELECT id FROM run WHERE workspace = ?1 AND began < ?2 ORDER BY id DESC";
/// The files that a run changed, each once, in the order of their first change.
const FILES: &str = "SELECT path FROM change WHERE run = ?1 GROUP BY path ORDER BY min(id)";

/// The journal of all workspaces. Several processes may use one file, which only its owner can read.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_tools::undo::{Bounds, Journal};
/// use toolgate_sandbox::{Grants, Root, ambient_authority};
/// # let (directory, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// # let notes = directory.path().join("notes.txt");
/// # std::fs::write(&notes, "buy milk\n")?;
///
/// let root = Root::open(directory.path(), ambient_authority())?;
/// let journal = Arc::new(Journal::open(&state.path().join("undo.db"), Bounds::default())?);
/// journal.begin("Empty the notes");
/// // What is written through this one can be taken back.
/// journal.keep(&root).write_file(&Grants::read_write(), "notes.txt", "")?;
/// assert_eq!(journal.runs(&root)?[0].task, "Empty the notes");
/// let undone = journal.undo(&root, None)?.ok_or("there is no run")?;
/// assert_eq!(undone.to_string(), "put back \"notes.txt\"\n");
/// assert_eq!(std::fs::read_to_string(&notes)?, "buy milk\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Journal {
    connection: Mutex<Connection>,
    bounds: Bounds,
    current: Mutex<Current>,
}

/// The run of the present changes. It gets a number in each workspace with its first change there.
#[derive(Debug, Default)]
struct Current {
    task: String,
    numbers: HashMap<i64, i64>,
    /// Seconds after which a change begins a new run of the same task.
    lasts: Option<i64>,
}

/// The head of a run, without its changes.
#[derive(Clone, Debug)]
struct Head {
    number: i64,
    task: String,
    began: i64,
}

/// A run in the journal. Bytes of a name that are no text are spelled out as `\xff`, and a backslash is doubled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Run {
    /// Its number. Later runs have higher numbers.
    pub number: i64,
    /// The task.
    pub task: String,
    /// The time of its first change, in seconds since 1970 UTC.
    pub began: i64,
    /// The changed files, each once.
    pub files: Vec<String>,
    /// Commands of the run. Their effects are not known and not undone.
    pub commands: Vec<String>,
}

/// The result of undoing a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Undone {
    /// The run before that.
    pub run: Run,
    /// Files that are as before the run.
    pub restored: Vec<String>,
    /// Files that were not restored, or not the whole way, with the reason. Their changes stay in the
    /// journal.
    pub refused: Vec<(String, String)>,
}

/// The result of saving the old files of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Saved {
    /// The run.
    pub run: Run,
    /// Files that were written.
    pub saved: Vec<String>,
    /// Files that did not exist before the run.
    pub absent: Vec<String>,
    /// Files that were not written, with the reason.
    pub refused: Vec<(String, String)>,
}

/// The runs that were deleted from the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Forgotten {
    /// The numbers of the runs.
    pub runs: Vec<i64>,
    /// Their share of the bounds of the journal, in bytes.
    pub bytes: u64,
}

impl Journal {
    /// Opens the journal in a file. A missing file is created.
    ///
    /// # Errors
    /// A file that cannot be opened, is no such database, or is from a newer version. Also a file that others
    /// can read, if that cannot be changed.
    pub fn open(file: &Path, bounds: Bounds) -> Result<Self, Error> {
        let open = || -> Result<Connection, Error> {
            // It holds the bytes of files that others may not be allowed to read.
            let connection = database::open(file, Readers::Owner)?;
            // What is deleted is given back to the file system; this has to come before the first table.
            connection.pragma_update(None, "auto_vacuum", "full").map_err(sql)?;
            // What is replaced must be on the disk before it is replaced.
            database::share(&connection).map_err(sql)?;
            Ok(connection)
        };
        open()
            .and_then(|connection| Self::prepare(connection, bounds))
            .map_err(|error| error.context(format!("undo journal {}", file.display())))
    }

    fn prepare(mut connection: Connection, bounds: Bounds) -> Result<Self, Error> {
        // A step that makes a table anew drops the old one, and with it would go what refers to it.
        connection.pragma_update(None, "foreign_keys", false).map_err(sql)?;
        database::migrate(&mut connection, &MIGRATIONS)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(sql)?;
        Ok(Self { connection: Mutex::new(connection), bounds, current: Mutex::default() })
    }

    /// Begins a run with this task. The next changes belong to it.
    pub fn begin(&self, task: &str) {
        let task = task.chars().take(TASK).collect();
        *locked(&self.current) = Current { task, ..Current::default() };
    }

    /// Begins a session, for callers that do not know when a task begins. Its changes belong to runs of an
    /// hour each. So a session of days meets no bound of a run.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_tools::undo::{Bounds, Journal};
    /// # use toolgate_sandbox::{Grants, Root, ambient_authority};
    /// # let (directory, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// # let root = Root::open(directory.path(), ambient_authority())?;
    /// let journal = Arc::new(Journal::open(&state.path().join("undo.db"), Bounds::default())?);
    /// journal.begin_session("what another program asks for");
    /// journal.keep(&root).write_file(&Grants::read_write(), "notes.txt", "new")?;
    /// assert_eq!(journal.runs(&root)?[0].task, "what another program asks for");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn begin_session(&self, task: &str) {
        self.begin(task);
        locked(&self.current).lasts = Some(HOUR);
    }

    /// The workspace whose changes this journal keeps.
    pub fn keep(self: &Arc<Self>, root: &Root) -> Root {
        root.keeping(Arc::new(Kept { journal: self.clone(), root: root.clone() }))
    }

    /// The runs that changed a file in `root` and were not undone, newest first.
    ///
    /// # Errors
    /// A journal that cannot be read.
    pub fn runs(&self, root: &Root) -> Result<Vec<Run>, Error> {
        let heads = self.heads(root)?;
        heads.into_iter().map(|head| Ok(self.whole(head)?.0)).collect()
    }

    /// The numbers of the runs in another directory that had the path of `root` then, newest first. They are
    /// not undone here.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_tools::undo::{Bounds, Journal};
    /// # use toolgate_sandbox::{Grants, Root, ambient_authority};
    /// # let (above, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// # let path = above.path().join("project");
    /// # std::fs::create_dir(&path)?;
    ///
    /// let root = Root::open(&path, ambient_authority())?;
    /// let journal = Arc::new(Journal::open(&state.path().join("undo.db"), Bounds::default())?);
    /// journal.keep(&root).write_file(&Grants::read_write(), "notes.txt", "by the run\n")?;
    /// // The directory is moved, and another one is made in its place.
    /// std::fs::rename(&path, above.path().join("moved"))?;
    /// std::fs::create_dir(&path)?;
    /// let other = Root::open(&path, ambient_authority())?;
    /// assert!(journal.runs(&other)?.is_empty());
    /// assert_eq!(journal.runs_elsewhere(&other)?.len(), 1);
    /// let moved = Root::open(above.path().join("moved"), ambient_authority())?;
    /// assert_eq!(journal.runs(&moved)?[0].files, ["notes.txt"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A journal that cannot be read.
    pub fn runs_elsewhere(&self, root: &Root) -> Result<Vec<i64>, Error> {
        let place = Place::of(root)?;
        let connection = locked(&self.connection);
        let mut numbers = Vec::new();
        for (known, how) in place.alike(&connection).map_err(sql)? {
            if place.has_path_of(&known) && how != Match::Same {
                let mut query = connection.prepare_cached(EARLIER).map_err(sql)?;
                let rows = query
                    .query_map([known.id, how.since().unwrap_or(i64::MAX)], |row| row.get(0))
                    .map_err(sql)?;
                numbers.extend(rows.collect::<rusqlite::Result<Vec<i64>>>().map_err(sql)?);
            }
        }
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        Ok(numbers)
    }

    /// The number of runs of `root` that were deleted to make room.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_tools::undo::{Bounds, Journal};
    /// # use toolgate_sandbox::{Grants, Root, ambient_authority};
    /// # let (directory, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// # let root = Root::open(directory.path(), ambient_authority())?;
    ///
    /// let bounds = Bounds::default().runs(2);
    /// let journal = Arc::new(Journal::open(&state.path().join("undo.db"), bounds)?);
    /// for task in ["one", "two", "three"] {
    ///     journal.begin(task);
    ///     journal.keep(&root).write_file(&Grants::read_write(), "notes.txt", task)?;
    /// }
    /// assert_eq!((journal.runs(&root)?.len(), journal.forgotten(&root)?), (2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A journal that cannot be read.
    pub fn forgotten(&self, root: &Root) -> Result<u64, Error> {
        let place = Place::of(root)?;
        let connection = locked(&self.connection);
        let mut query =
            connection.prepare_cached("SELECT forgotten FROM workspace WHERE id = ?1").map_err(sql)?;
        let mut forgotten = 0_u64;
        for (known, how) in place.alike(&connection).map_err(sql)? {
            if how.since().is_some() {
                let more: i64 = query.query_row([known.id], |row| row.get(0)).map_err(sql)?;
                forgotten = forgotten.saturating_add(u64::try_from(more).unwrap_or(0));
            }
        }
        Ok(forgotten)
    }

    /// Writes the old files of a run in `root` below the new directory `to`. This is for files that cannot be
    /// restored, since something else has changed them. The number may also be that of a run in [another
    /// directory](Self::runs_elsewhere) at the same path. `None` if there is no such run.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_tools::undo::{Bounds, Journal};
    /// # use toolgate_sandbox::{Grants, Root, ambient_authority};
    /// # let (directory, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// # std::fs::write(directory.path().join("notes.txt"), "buy milk\n")?;
    /// # let root = Root::open(directory.path(), ambient_authority())?;
    /// # let journal = Arc::new(Journal::open(&state.path().join("undo.db"), Bounds::default())?);
    /// # let to = state.path().join("before");
    ///
    /// journal.keep(&root).write_file(&Grants::read_write(), "notes.txt", "by the run\n")?;
    /// let saved = journal.save(&root, None, &to)?.ok_or("there is no run")?;
    /// assert_eq!(saved.to_string(), "saved \"notes.txt\"\n");
    /// assert_eq!(std::fs::read_to_string(to.join("notes.txt"))?, "buy milk\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A journal that cannot be read. A directory that exists already or cannot be created. A file that
    /// cannot be written is no error; the result lists it as refused.
    pub fn save(&self, root: &Root, number: Option<i64>, to: &Path) -> Result<Option<Saved>, Error> {
        let head = match (self.head(root, number)?, number) {
            (None, Some(number)) if self.runs_elsewhere(root)?.contains(&number) => self.any(number)?,
            (head, _) => head,
        };
        let Some(head) = head else { return Ok(None) };
        let (run, _) = self.whole(head)?;
        let histories = self.histories(run.number)?;
        let to = save::make(to)?;
        let mut all = Saved { run, saved: Vec::new(), absent: Vec::new(), refused: Vec::new() };
        for history in histories {
            let Some(first) = history.links.first() else { continue };
            let shown = names::shown(&history.path);
            let image = back::image(&locked(&self.connection), first.id)?.0;
            match (image, &first.lost) {
                (_, Some(lost)) => {
                    all.refused.push((shown, format!("what was there before was not kept: {lost}")))
                }
                (None, None) => all.absent.push(shown),
                (Some(image), None) => match save::write(&to, &names::path(&history.path), &image) {
                    Ok(()) => all.saved.push(shown),
                    Err(why) => all.refused.push((shown, format!("it cannot be written: {why}"))),
                },
            }
        }
        Ok(Some(all))
    }

    /// Deletes all runs of `root`, or the one of that number, for good. It may also be a run in another
    /// directory at the same path. The file system gets the space back.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_tools::undo::{Bounds, Journal};
    /// # use toolgate_sandbox::{Grants, Root, ambient_authority};
    /// # let (directory, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// # let root = Root::open(directory.path(), ambient_authority())?;
    /// # let journal = Arc::new(Journal::open(&state.path().join("undo.db"), Bounds::default())?);
    ///
    /// journal.keep(&root).write_file(&Grants::read_write(), "notes.txt", "by the run\n")?;
    /// assert_eq!(journal.forget(&root, None)?.runs.len(), 1);
    /// assert_eq!(journal.undo(&root, None)?, None);
    /// assert!(directory.path().join("notes.txt").exists(), "files stay as they are");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A journal that cannot be written.
    pub fn forget(&self, root: &Root, number: Option<i64>) -> Result<Forgotten, Error> {
        let mut numbers: Vec<i64> = self.heads(root)?.into_iter().map(|head| head.number).collect();
        if let Some(number) = number {
            numbers.extend(self.runs_elsewhere(root)?);
            numbers.retain(|candidate| *candidate == number);
        }
        let place = Place::of(root)?;
        let mut connection = locked(&self.connection);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
        let mut forgotten = Forgotten { runs: Vec::new(), bytes: 0 };
        for number in numbers {
            let bytes: Option<i64> = transaction
                .prepare_cached("SELECT bytes FROM run WHERE id = ?1")
                .map_err(sql)?
                .query_row([number], |row| row.get(0))
                .optional()
                .map_err(sql)?;
            if let Some(bytes) = bytes
                && bounds::forget(&transaction, number).map_err(sql)?
            {
                forgotten.runs.push(number);
                forgotten.bytes = forgotten.bytes.saturating_add(u64::try_from(bytes).unwrap_or(0));
            }
        }
        if number.is_none() {
            for (known, how) in place.alike(&transaction).map_err(sql)? {
                if how.since().is_some() {
                    transaction
                        .execute("DELETE FROM workspace WHERE id = ?1 AND runs = 0", [known.id])
                        .map_err(sql)?;
                }
            }
        }
        transaction.commit().map_err(sql)?;
        // Where another process reads meanwhile, the space comes back with a later change.
        let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        Ok(forgotten)
    }

    /// The run of that number in `root`, or the newest.
    fn head(&self, root: &Root, number: Option<i64>) -> Result<Option<Head>, Error> {
        let is_wanted = |head: &Head| number.is_none_or(|number| head.number == number);
        Ok(self.heads(root)?.into_iter().find(is_wanted))
    }

    /// The run of that number in any workspace.
    fn any(&self, number: i64) -> Result<Option<Head>, Error> {
        let connection = locked(&self.connection);
        let mut query =
            connection.prepare_cached("SELECT id, task, began FROM run WHERE id = ?1").map_err(sql)?;
        query.query_row([number], head_of).optional().map_err(sql)
    }

    /// The runs in `root`, newest first.
    fn heads(&self, root: &Root) -> Result<Vec<Head>, Error> {
        let place = Place::of(root)?;
        let connection = locked(&self.connection);
        let mut query = connection.prepare_cached(HEADS).map_err(sql)?;
        let mut heads = Vec::new();
        for (known, how) in place.alike(&connection).map_err(sql)? {
            let Some(since) = how.since() else { continue };
            let rows = query.query_map([known.id, since], head_of).map_err(sql)?;
            heads.extend(rows.collect::<rusqlite::Result<Vec<Head>>>().map_err(sql)?);
        }
        heads.sort_unstable_by_key(|head| std::cmp::Reverse(head.number));
        Ok(heads)
    }

    /// A run with its changes, and the number of its last deed; 0 if there is none.
    fn whole(&self, head: Head) -> Result<(Run, i64), Error> {
        let connection = locked(&self.connection);
        let mut query = connection.prepare_cached(FILES).map_err(sql)?;
        let files = query
            .query_map([head.number], |row| Ok(names::shown(&row.get::<_, Vec<u8>>(0)?)))
            .map_err(sql)?;
        let files = files.collect::<Result<_, _>>().map_err(sql)?;
        let mut query = connection.prepare_cached(back::DEEDS).map_err(sql)?;
        let deeds = query.query_map([head.number], |row| Ok((row.get(0)?, row.get(1)?))).map_err(sql)?;
        let deeds: Vec<(i64, String)> = deeds.collect::<Result<_, _>>().map_err(sql)?;
        let last_deed = deeds.last().map_or(0, |(id, _)| *id);
        let commands = deeds.into_iter().map(|(_, what)| what).collect();
        let Head { number, task, began } = head;
        Ok((Run { number, task, began, files, commands }, last_deed))
    }
}

fn head_of(row: &Row<'_>) -> rusqlite::Result<Head> {
    Ok(Head { number: row.get(0)?, task: row.get(1)?, began: row.get(2)? })
}

/// Removes a run without changes. Also removes its workspace, if that has nothing else to tell.
fn remove_empty(connection: &Connection, run: i64) -> rusqlite::Result<()> {
    let workspace: Option<i64> = connection
        .prepare_cached("DELETE FROM run WHERE id = ?1 AND entries = 0 RETURNING workspace")?
        .query_row([run], |row| row.get(0))
        .optional()?;
    if let Some(workspace) = workspace {
        let sql = "DELETE FROM workspace WHERE id = ?1 AND runs = 0 AND forgotten = 0";
        connection.prepare_cached(sql)?.execute([workspace])?;
    }
    Ok(())
}

impl fmt::Display for Undone {
    /// What became of each file, a line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in &self.restored {
            writeln!(f, "put back \"{}\"", output::name(path))?;
        }
        for (path, why) in &self.refused {
            writeln!(f, "left \"{}\" alone: {}", output::name(path), output::name(why))?;
        }
        if !self.refused.is_empty() {
            let number = self.run.number;
            writeln!(
                f,
                "what was left alone can be had: `toolgate undo --run {number} --save-to DIR` writes the files as they were before the run"
            )?;
        }
        for command in &self.run.commands {
            let command = output::name(command);
            writeln!(f, "not taken back, since nobody knows what it changed: {command}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Saved {
    /// What became of each file, a line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in &self.saved {
            writeln!(f, "saved \"{}\"", output::name(path))?;
        }
        for path in &self.absent {
            writeln!(f, "\"{}\" was not there before the run", output::name(path))?;
        }
        for (path, why) in &self.refused {
            writeln!(f, "left out \"{}\": {}", output::name(path), output::name(why))?;
        }
        Ok(())
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Seconds since 1970 UTC.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(now).unwrap_or(i64::MAX)
}

/// Each change is one transaction. So the values behind a lock are whole even after a panic.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use toolgate_sandbox::{Grants, ambient_authority};

    use super::*;

    /// The plan of the database for a statement, a line for each table that it reads.
    fn steps(connection: &Connection, sql: &str) -> Vec<String> {
        let mut query = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        // What stands for the values does not matter.
        for parameter in 1..=query.parameter_count() {
            query.raw_bind_parameter(parameter, 1).unwrap();
        }
        let mut rows = query.raw_query();
        let mut steps = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            steps.push(row.get::<_, String>(3).unwrap());
        }
        steps
    }

    #[test]
    fn nothing_that_a_write_or_an_undo_asks_looks_through_a_whole_table() {
        let state = tempfile::tempdir().unwrap();
        let journal = Journal::open(&state.path().join("undo.db"), Bounds::default()).unwrap();
        let connection = locked(&journal.connection);
        let all = [
            place::ALIKE,
            record::LAST,
            bounds::HELD,
            bounds::OLDER,
            bounds::OLDEST,
            HEADS,
            EARLIER,
            FILES,
            back::CHANGES,
            back::IMAGE,
            back::DEEDS,
            "DELETE FROM change WHERE id = ?1",
            "DELETE FROM run WHERE id = ?1",
        ];
        for sql in all {
            let steps = steps(&connection, sql);
            assert!(!steps.is_empty() && steps.iter().all(|step| !step.contains("SCAN")), "{sql}: {steps:?}");
        }
        let last = steps(&connection, record::LAST).join("; ");
        assert!(
            last.contains("INDEX change_of_file (run=? AND path=?)") && !last.contains("B-TREE"),
            "{last}"
        );
        // Control: what was asked with every write before.
        let sum = steps(&connection, "SELECT sum(length(before_bytes)) FROM change");
        assert!(sum.iter().any(|step| step.contains("SCAN")), "{sum:?}");
    }

    #[test]
    fn a_change_that_did_not_happen_leaves_nothing() {
        let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = Root::open(dir.path(), ambient_authority()).unwrap();
        let journal = Arc::new(Journal::open(&state.path().join("undo.db"), Bounds::default()).unwrap());
        let count = |table: &str| -> i64 {
            let sql = format!("SELECT count(*) FROM {table}");
            locked(&journal.connection).query_row(&sql, [], |row| row.get(0)).unwrap()
        };
        for path in ["a", "b"] {
            journal.keep(&root).write_file(&Grants::read_write(), path, "x").unwrap();
        }
        let numbers: Vec<i64> = {
            let connection = locked(&journal.connection);
            let mut query = connection.prepare("SELECT id FROM change ORDER BY id").unwrap();
            query.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
        };
        for (number, left) in numbers.iter().zip([1, 0]) {
            journal.drop_change(*number).unwrap();
            assert_eq!([count("change"), count("run"), count("workspace")], [left; 3]);
        }
        journal.drop_change(99).unwrap();
    }
}
