//! Bounds the journal, and forgets old runs to make room.
//!
//! Invariant: a run makes room at the cost of older runs of its own workspace, or of runs that nobody has
//! asked for in a long time. If that is not enough, its change does not happen.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

/// The share of a row besides its texts and the bytes of a file. Migration 2 counts it too.
pub(super) const ROW: u64 = 256;

/// The shares of a run, of its workspace and of all workspaces.
pub(super) const HELD: &str = "SELECT run.bytes, run.entries, workspace.bytes, workspace.runs, total.bytes
    FROM run JOIN workspace ON workspace.id = run.workspace JOIN total ON total.only = 0 WHERE run.id = ?1";
/// The oldest run of a workspace that began before another one of it.
pub(super) const OLDER: &str =
    "SELECT id, workspace FROM run WHERE workspace = ?1 AND id < ?2 ORDER BY id LIMIT 1";
/// The oldest run of all, if it began long enough ago.
pub(super) const OLDEST: &str =
    "SELECT id, workspace FROM run WHERE began < ?1 AND id <> ?2 ORDER BY began, id LIMIT 1";

/// The bounds of a journal. What counts are the bytes of files, the texts, and 256 bytes for each row.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_tools::undo::{Bounds, Journal};
/// # use toolgate_sandbox::{Grants, Kind, Root, ambient_authority};
/// # let (directory, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// # let root = Root::open(directory.path(), ambient_authority())?;
///
/// std::fs::write(directory.path().join("notes.txt"), "long ".repeat(1_000))?;
/// let bounds = Bounds::default().run_bytes(2_000);
/// let kept = Arc::new(Journal::open(&state.path().join("undo.db"), bounds)?).keep(&root);
/// // What is there now is more than a run may have.
/// let error = kept.write_file(&Grants::read_write(), "notes.txt", "short").unwrap_err();
/// assert!(error.kind() == Kind::Limit && error.to_string().contains("too large to be kept for undo"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounds {
    /// Bytes of one workspace. The oldest runs are forgotten to stay within. Default 256 MiB.
    pub workspace_bytes: u64,
    /// Bytes of one run. Further changes do not happen. Default 64 MiB.
    pub run_bytes: u64,
    /// Runs of one workspace. The oldest are forgotten. Default 1,000.
    pub runs: u64,
    /// Changes and notes of one run. Further ones do not happen. Default 10,000.
    pub entries: u64,
    /// Bytes of all workspaces. Default 2 GiB.
    pub bytes: u64,
    /// The age from which a run of any workspace may be forgotten, if all workspaces hold too much. Without
    /// such a run, nothing more is changed. Default 7 days.
    pub spared: Duration,
}

toolgate_chat::setters! { Bounds {
    workspace_bytes: u64,
    run_bytes: u64,
    runs: u64,
    entries: u64,
    bytes: u64,
    spared: Duration,
} }

impl Default for Bounds {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            workspace_bytes: 256 * MIB,
            run_bytes: 64 * MIB,
            runs: 1_000,
            entries: 10_000,
            bytes: 2_048 * MIB,
            spared: Duration::from_secs(7 * 24 * 60 * 60),
        }
    }
}

/// The reason that there is no room, and the way out.
#[derive(Debug)]
pub(super) struct Full {
    pub(super) why: String,
    pub(super) hint: &'static str,
}

/// The share of a row with these texts and bytes.
pub(super) fn cost(parts: &[&[u8]]) -> u64 {
    parts.iter().fold(ROW, |sum, part| sum.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX)))
}

/// A number as the database has it.
pub(super) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Bounds {
    /// Makes room in `run` for a row that counts `cost`. The run began no later than `now`. Returns the
    /// number of forgotten runs.
    pub(super) fn make_room(
        &self,
        connection: &Connection,
        run: i64,
        cost: u64,
        now: i64,
    ) -> rusqlite::Result<Result<u64, Full>> {
        let cost = stored(cost);
        let within = |held: i64, most: u64| held.saturating_add(cost) <= stored(most);
        let mut forgotten = 0;
        loop {
            let mut query = connection.prepare_cached(HELD)?;
            let [bytes, entries, workspace_bytes, runs, total]: [i64; 5] = query.query_row([run], |row| {
                Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?])
            })?;
            if !within(0, self.run_bytes) {
                let why = format!(
                    "what is there is too large to be kept for undo: {cost} bytes with its name, and a run may have {}",
                    self.run_bytes
                );
                return Ok(Err(Full { why, hint: "leave it as it is, or ask the user to move it away" }));
            }
            if entries >= stored(self.entries) || !within(bytes, self.run_bytes) {
                let why = format!(
                    "this run has changed as much as can be kept for undo: {} changes and commands, or {} bytes",
                    self.entries, self.run_bytes
                );
                return Ok(Err(Full {
                    why,
                    hint: "stop here: a new task, or the next hour of a session, has room again",
                }));
            }
            let is_workspace = within(workspace_bytes, self.workspace_bytes) && runs <= stored(self.runs);
            if is_workspace && within(total, self.bytes) {
                return Ok(Ok(forgotten));
            }
            let victim = match is_workspace {
                false => {
                    let workspace: i64 = connection
                        .prepare_cached("SELECT workspace FROM run WHERE id = ?1")?
                        .query_row([run], |row| row.get(0))?;
                    found(connection, OLDER, workspace, run)?
                }
                true => {
                    let spared = i64::try_from(self.spared.as_secs()).unwrap_or(i64::MAX);
                    found(connection, OLDEST, now.saturating_sub(spared), run)?
                }
            };
            let Some((victim, of)) = victim else {
                let (what, most) = match is_workspace {
                    false => ("what can be undone in this workspace", self.workspace_bytes),
                    true => ("the undo journal", self.bytes),
                };
                let why = format!(
                    "{what} has reached {most} bytes, and no run in it may be forgotten for this one"
                );
                let hint = "ask the user to run `toolgate undo --forget` where nothing has to be taken back any more";
                return Ok(Err(Full { why, hint }));
            };
            forget(connection, victim)?;
            connection.execute("UPDATE workspace SET forgotten = forgotten + 1 WHERE id = ?1", [of])?;
            forgotten += 1;
        }
    }
}

fn found(connection: &Connection, sql: &str, first: i64, run: i64) -> rusqlite::Result<Option<(i64, i64)>> {
    let mut query = connection.prepare_cached(sql)?;
    query.query_row(params![first, run], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

/// Deletes a run with all its rows. Returns whether it existed.
pub(super) fn forget(connection: &Connection, run: i64) -> rusqlite::Result<bool> {
    Ok(connection.prepare_cached("DELETE FROM run WHERE id = ?1")?.execute([run])? > 0)
}
