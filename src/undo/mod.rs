//! Taking back what runs wrote to files: a journal in SQLite, outside every workspace, over the sandbox's file tier.
//!
//! Invariant: what a write replaces is in the journal before it is replaced, or the write does not happen; and a file
//! that something else has changed since is not touched.

mod chain;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use serde::Serialize;
use sha2::{Digest, Sha256};
use toolgate_sandbox::{self as sandbox, Before, Change, Image, Keeper, Root, output};

use self::chain::{Link, plan};
use crate::{Error, database};

/// The schema's steps.
const MIGRATIONS: [&str; 1] = [include_str!("migrations/1.sql")];
/// Characters of a task that are kept to know it by.
const TASK: usize = 200;

/// The bounds of a journal; the oldest runs are forgotten to stay within them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of files kept, over all workspaces. Default 256 MiB.
    pub bytes: u64,
    /// Runs kept. Default 1,000.
    pub runs: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bytes: 256 * 1024 * 1024, runs: 1_000 }
    }
}

/// The journal of all workspaces. Several processes may use one file.
///
/// ```
/// use std::sync::Arc;
/// use toolgate::undo::{Bounds, Journal};
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

/// The run that changes belong to; it has a number from its first change on.
#[derive(Debug, Default)]
struct Current {
    task: String,
    number: Option<i64>,
}

/// A run in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Its number; later ones are higher.
    pub number: i64,
    /// What was asked.
    pub task: String,
    /// When it first changed something, in seconds since 1970 UTC.
    pub began: i64,
    /// The files it changed, each once.
    pub files: Vec<String>,
    /// Commands it ran, whose effects are not known and not taken back.
    pub commands: Vec<String>,
}

/// What taking a run back came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Undone {
    /// The run as it was.
    pub run: Run,
    /// Files that are what they were before it.
    pub restored: Vec<String>,
    /// Files that could not be, or not the whole way, and why; their changes stay in the journal.
    pub refused: Vec<(String, String)>,
}

impl Journal {
    /// The journal in a file, which is created if it is not there.
    ///
    /// # Errors
    /// A file that cannot be opened, is no such database, or was made by a newer version.
    pub fn open(file: &Path, bounds: Bounds) -> Result<Self, Error> {
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open(file)?;
            // What is deleted is given back to the file system; this has to come before the first table.
            connection.pragma_update(None, "auto_vacuum", "full")?;
            // What is replaced must be on the disk before it is replaced.
            database::share(&connection)?;
            Ok(connection)
        };
        open()
            .map_err(Error::from)
            .and_then(|connection| Self::prepare(connection, bounds))
            .map_err(|error| error.context(format!("undo journal {}", file.display())))
    }

    fn prepare(mut connection: Connection, bounds: Bounds) -> Result<Self, Error> {
        connection.pragma_update(None, "foreign_keys", true)?;
        database::migrate(&mut connection, &MIGRATIONS)?;
        Ok(Self { connection: Mutex::new(connection), bounds, current: Mutex::default() })
    }

    /// What changes from now on belong to: a new run, known by what was asked.
    pub fn begin(&self, task: &str) {
        let task = task.chars().take(TASK).collect();
        *locked(&self.current) = Current { task, number: None };
    }

    /// The workspace with its changes kept here.
    pub fn keep(self: &Arc<Self>, root: &Root) -> Root {
        root.keeping(Arc::new(Kept { journal: self.clone(), workspace: root.shown() }))
    }

    /// Notes something the current run does in `root` whose effects nobody knows.
    ///
    /// # Errors
    /// A journal that cannot be written.
    pub fn note(&self, root: &Root, what: &str) -> Result<(), Error> {
        let what: String = what.chars().take(TASK).collect();
        self.in_run(&root.shown(), |connection, run| {
            connection.execute("INSERT INTO deed (run, what) VALUES (?1, ?2)", params![run, what])
        })?;
        Ok(())
    }

    /// The runs that changed something in `root` and were not taken back, newest first.
    ///
    /// # Errors
    /// A journal that cannot be read.
    pub fn runs(&self, root: &Root) -> Result<Vec<Run>, Error> {
        let connection = locked(&self.connection);
        let mut query =
            connection.prepare("SELECT id, task, began FROM run WHERE workspace = ?1 ORDER BY id DESC")?;
        let rows = query.query_map([root.shown()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let rows: Vec<(i64, String, i64)> = rows.collect::<Result<_, _>>()?;
        let texts = |sql: &str, run: i64| -> Result<Vec<String>, Error> {
            let mut query = connection.prepare_cached(sql)?;
            Ok(query.query_map([run], |row| row.get(0))?.collect::<Result<_, _>>()?)
        };
        rows.into_iter()
            .map(|(number, task, began)| {
                let files =
                    texts("SELECT path FROM change WHERE run = ?1 GROUP BY path ORDER BY min(id)", number)?;
                let commands = texts("SELECT what FROM deed WHERE run = ?1 ORDER BY id", number)?;
                Ok(Run { number, task, began, files, commands })
            })
            .collect()
    }

    /// Takes back what a run changed in `root`: the newest, or the one of that number. None if there is none.
    ///
    /// # Errors
    /// A journal that cannot be read or written. A file that cannot be put back is no error but refused.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate::undo::{Bounds, Journal};
    /// # use toolgate_sandbox::{Grants, Root, ambient_authority};
    /// # let (directory, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// # let notes = directory.path().join("notes.txt");
    /// # std::fs::write(&notes, "buy milk\n")?;
    /// # let root = Root::open(directory.path(), ambient_authority())?;
    /// # let journal = Arc::new(Journal::open(&state.path().join("undo.db"), Bounds::default())?);
    ///
    /// journal.begin("Write the notes anew");
    /// journal.keep(&root).write_file(&Grants::read_write(), "notes.txt", "by the run\n")?;
    /// std::fs::write(&notes, "by somebody else\n")?;
    /// let undone = journal.undo(&root, None)?.ok_or("there is no run")?;
    /// assert!(undone.restored.is_empty() && undone.refused[0].0 == "notes.txt");
    /// assert_eq!(std::fs::read_to_string(&notes)?, "by somebody else\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn undo(&self, root: &Root, number: Option<i64>) -> Result<Option<Undone>, Error> {
        let runs = self.runs(root)?;
        let wanted = |run: &Run| number.is_none_or(|number| run.number == number);
        let Some(run) = runs.into_iter().find(wanted) else { return Ok(None) };
        let mut files: BTreeMap<i64, (String, Vec<Link>)> = BTreeMap::new();
        for path in &run.files {
            let links = self.links(run.number, path)?;
            if let Some(first) = links.first() {
                files.insert(first.id, (path.clone(), links));
            }
        }
        let (mut restored, mut refused) = (Vec::new(), Vec::new());
        // Newest first, so that a directory is empty when the file goes that it was made for.
        for (path, links) in files.into_values().rev() {
            match self.put_back(root, &path, &links)? {
                None => restored.push(path),
                Some(why) => refused.push((path, why)),
            }
        }
        if refused.is_empty() {
            locked(&self.connection).execute("DELETE FROM run WHERE id = ?1", [run.number])?;
        }
        Ok(Some(Undone { run, restored, refused }))
    }

    /// Takes back the changes of one file; the reason where that is not possible, or not the whole way.
    fn put_back(&self, root: &Root, path: &str, links: &[Link]) -> Result<Option<String>, Error> {
        // What is there now decides; the plan made from it is the one that is carried out.
        let mut decided = None;
        let longest = self.longest(links)?;
        let looked = root.put_back(Path::new(path), None, 0, longest, &mut |now| {
            decided = Some(plan_of(links, now));
            false
        });
        let plan = match (looked, decided) {
            (Ok(_), Some(plan)) => plan,
            (Ok(_), None) => return Ok(Some("it was changed since by something else".to_owned())),
            (Err(error), _) => return Ok(Some(error.to_string())),
        };
        if let Some(target) = plan.target {
            let (image, directories) = self.image(target)?;
            let again = plan.clone();
            let done = root.put_back(Path::new(path), image.as_ref(), directories, longest, &mut |now| {
                plan_of(links, now) == again
            });
            match done {
                Ok(true) => {}
                Ok(false) => return Ok(Some("it is being changed by something else".to_owned())),
                Err(error) => return Ok(Some(error.to_string())),
            }
        }
        let mut connection = locked(&self.connection);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for id in &plan.undone {
            transaction.execute("DELETE FROM change WHERE id = ?1", [id])?;
        }
        transaction.commit()?;
        Ok(plan.why)
    }

    fn links(&self, run: i64, path: &str) -> Result<Vec<Link>, Error> {
        let connection = locked(&self.connection);
        let mut query = connection.prepare_cached(
            "SELECT id, before_digest, after_digest, lost FROM change WHERE run = ?1 AND path = ?2 ORDER BY id",
        )?;
        let rows = query.query_map(params![run, path], |row| {
            let (before, after): (Option<[u8; 32]>, [u8; 32]) = (row.get(1)?, row.get(2)?);
            Ok(Link { id: row.get(0)?, before, after: Some(after), lost: row.get(3)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Bytes of the longest state that the changes know of.
    fn longest(&self, links: &[Link]) -> Result<u64, Error> {
        let connection = locked(&self.connection);
        let mut query = connection.prepare_cached(
            "SELECT max(after_len, ifnull(length(before_bytes), 0)) FROM change WHERE id = ?1",
        )?;
        let mut longest = 0;
        for link in links {
            longest = longest.max(query.query_row([link.id], |row| row.get::<_, i64>(0))?);
        }
        Ok(u64::try_from(longest).unwrap_or(0))
    }

    /// What a change found, and how many directories it made.
    fn image(&self, id: i64) -> Result<(Option<Image>, usize), Error> {
        let connection = locked(&self.connection);
        let sql = "SELECT before_bytes, mode, directories FROM change WHERE id = ?1";
        let row = connection.query_row(sql, [id], |row| {
            let bytes: Option<Vec<u8>> = row.get(0)?;
            let mode: Option<u32> = row.get(1)?;
            Ok((bytes.map(|bytes| Image { bytes, mode }), row.get::<_, i64>(2)?))
        })?;
        Ok((row.0, usize::try_from(row.1).unwrap_or(0)))
    }

    /// The number of the current run, which gets a row with its first change.
    fn run(&self, connection: &Connection, workspace: &str) -> rusqlite::Result<i64> {
        let mut current = locked(&self.current);
        if let Some(number) = current.number {
            // Another process may have taken it back, or forgotten it, meanwhile.
            let there = connection
                .query_row("SELECT id FROM run WHERE id = ?1", [number], |row| row.get(0))
                .optional()?;
            if let Some(number) = there {
                return Ok(number);
            }
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let began = i64::try_from(now).unwrap_or(i64::MAX);
        connection.execute(
            "INSERT INTO run (workspace, task, began) VALUES (?1, ?2, ?3)",
            params![workspace, current.task, began],
        )?;
        let number = connection.last_insert_rowid();
        current.number = Some(number);
        Ok(number)
    }

    /// Writes something of the current run, whole or not at all.
    fn in_run<T>(
        &self,
        workspace: &str,
        write: impl FnOnce(&Connection, i64) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut connection = locked(&self.connection);
        let written = (|| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let run = self.run(&transaction, workspace)?;
            let written = write(&transaction, run)?;
            transaction.commit()?;
            Ok(written)
        })();
        // The run's number may have been taken back with the rest: another process can have it now.
        written.inspect_err(|_| locked(&self.current).number = None)
    }

    /// Keeps a change; its number.
    fn record(&self, workspace: &str, change: &Change<'_>) -> rusqlite::Result<i64> {
        let (before, mut bytes, mode, mut lost) = match &change.before {
            Before::File(image) => {
                (Some(digest(&image.bytes)), Some(image.bytes.as_slice()), image.mode, None)
            }
            _ => (None, None, None, None),
        };
        let len = bytes.map_or(0, <[u8]>::len);
        self.in_run(workspace, |connection, run| {
            if !make_room(connection, run, len, self.bounds)? {
                (bytes, lost) = (None, Some(format!("the journal holds {} bytes at most", self.bounds.bytes)));
            }
            connection.execute(
                "INSERT INTO change
                     (run, path, before_digest, before_bytes, mode, lost, after_digest, after_len, directories)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    run,
                    change.path.to_string_lossy(),
                    before,
                    bytes,
                    mode,
                    lost,
                    digest(change.after),
                    i64::try_from(change.after.len()).unwrap_or(i64::MAX),
                    i64::try_from(change.directories).unwrap_or(0),
                ],
            )?;
            Ok(connection.last_insert_rowid())
        })
    }
}

/// Forgets the oldest runs other than `run` until `len` more bytes are within bounds; whether they are.
fn make_room(connection: &Connection, run: i64, len: usize, bounds: Bounds) -> rusqlite::Result<bool> {
    let most = i64::try_from(bounds.bytes).unwrap_or(i64::MAX);
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let most_runs = i64::try_from(bounds.runs).unwrap_or(i64::MAX);
    loop {
        let held: i64 =
            connection
                .query_row("SELECT ifnull(sum(length(before_bytes)), 0) FROM change", [], |row| row.get(0))?;
        let runs: i64 = connection.query_row("SELECT count(*) FROM run", [], |row| row.get(0))?;
        if held.saturating_add(len) <= most && runs <= most_runs {
            return Ok(true);
        }
        let forgotten = connection
            .execute("DELETE FROM run WHERE id = (SELECT min(id) FROM run WHERE id <> ?1)", [run])?;
        if forgotten == 0 {
            return Ok(held.saturating_add(len) <= most);
        }
    }
}

/// Keeps the changes of one workspace.
#[derive(Debug)]
struct Kept {
    journal: Arc<Journal>,
    workspace: String,
}

impl Keeper for Kept {
    fn keep(&self, change: &Change<'_>) -> Result<i64, sandbox::Error> {
        self.journal.record(&self.workspace, change).map_err(|error| {
            let why =
                format!("the file was not changed, because the change could not be kept for undo ({error})");
            sandbox::Error::new(sandbox::Kind::Failed, why).at(&change.path.to_string_lossy())
        })
    }

    fn drop_kept(&self, number: i64) {
        // Left there it would be found not to have happened.
        let _ = locked(&self.journal.connection).execute("DELETE FROM change WHERE id = ?1", [number]);
    }
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
        for command in &self.run.commands {
            let command = output::name(command);
            writeln!(f, "not taken back, since nobody knows what it changed: {command}")?;
        }
        Ok(())
    }
}

fn plan_of(links: &[Link], now: Option<&[u8]>) -> chain::Plan {
    plan(links, now.map(digest))
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// A lock whose holder panicked guards values that are still whole: each change is one transaction.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
