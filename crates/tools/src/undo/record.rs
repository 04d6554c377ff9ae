//! Keeps changes: the old content gets into the journal, within bounds, before a write replaces it.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use toolgate_sandbox::{self as sandbox, Before, Change, Keeper, Root};

use super::bounds::{self, Full};
use super::place::Place;
use super::{Current, Journal, TASK, digest, locked, names, now};
use crate::error::sql;
use crate::{Error, Kind};

/// The newest change of a file in a run.
pub(super) const LAST: &str =
    "SELECT after_digest, lost FROM change WHERE run = ?1 AND path = ?2 ORDER BY id DESC LIMIT 1";

/// The reason that a change was not kept.
#[derive(Debug)]
pub(super) enum Unkept {
    /// There is no room.
    Full(Full),
    /// The journal cannot be written.
    Failed(Error),
}

impl From<Full> for Unkept {
    fn from(full: Full) -> Self {
        Self::Full(full)
    }
}

impl From<Error> for Unkept {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<rusqlite::Error> for Unkept {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(sql(error))
    }
}

impl From<sandbox::Error> for Unkept {
    fn from(error: sandbox::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Unkept> for Error {
    fn from(unkept: Unkept) -> Self {
        match unkept {
            Unkept::Full(Full { why, hint }) => Self::new(Kind::Denied, format!("{why}; {hint}")),
            Unkept::Failed(error) => error,
        }
    }
}

/// Keeps the changes of one workspace.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) journal: Arc<Journal>,
    /// The workspace. Its own keeper is not asked.
    pub(super) root: Root,
}

impl Keeper for Kept {
    fn keep(&self, change: &Change<'_>) -> Result<i64, sandbox::Error> {
        self.journal.record(&self.root, change).map_err(|unkept| {
            let error = match unkept {
                Unkept::Full(Full { why, hint }) => {
                    let why = format!("the file was not changed: {why}");
                    sandbox::Error::new(sandbox::Kind::Limit, why).hint(hint)
                }
                Unkept::Failed(error) => {
                    let why = "the file was not changed, because the change could not be kept for undo";
                    sandbox::Error::new(sandbox::Kind::Failed, format!("{why} ({error})"))
                }
            };
            error.at(&names::shown(&names::kept(change.path)))
        })
    }

    fn made(&self, number: i64, change: &Change<'_>) {
        // Whoever took changes back between keeping and making found that it had not happened.
        let kept = self.journal.has_change(number).map_err(Unkept::from);
        let again = kept.and_then(|kept| if kept { Ok(0) } else { self.journal.record(&self.root, change) });
        if let Err(why) = again {
            tracing::warn!(?why, "a change cannot be taken back: it could not be kept again");
        }
    }

    fn drop_kept(&self, number: i64) {
        // Left there it would be found not to have happened.
        let _ = self.journal.drop_change(number);
    }
}

impl Journal {
    /// Notes something that the current run does in `root` and whose effects nobody knows, such as a command.
    ///
    /// ```
    /// use toolgate_tools::undo::{Bounds, Journal};
    /// # use toolgate_sandbox::{Root, ambient_authority};
    /// # let (directory, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// # let root = Root::open(directory.path(), ambient_authority())?;
    /// let journal = Journal::open(&state.path().join("undo.db"), Bounds::default())?;
    /// journal.begin("Build it");
    /// journal.note(&root, "make")?;
    /// assert_eq!(journal.runs(&root)?[0].commands, ["make"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A journal that cannot be written, or has no room for it.
    pub fn note(&self, root: &Root, what: &str) -> Result<(), Error> {
        let what: String = what.chars().take(TASK).collect();
        let cost = bounds::cost(&[what.as_bytes()]);
        self.in_run(root, |connection, run| {
            let forgotten = self.bounds.make_room(connection, run, cost, now())??;
            let sql = "INSERT INTO deed (run, what, cost) VALUES (?1, ?2, ?3)";
            connection.execute(sql, params![run, what, bounds::stored(cost)])?;
            Ok(((), forgotten))
        })?;
        Ok(())
    }

    /// Keeps a change and returns its number.
    fn record(&self, root: &Root, change: &Change<'_>) -> Result<i64, Unkept> {
        let image = match &change.before {
            Before::Nothing => None,
            Before::File(image) => Some(image),
            _ => return Err(Error::input("nobody knows what is there").into()),
        };
        let path = names::kept(change.path);
        let before = image.map(|image| digest(&image.bytes));
        self.in_run(root, |connection, run| {
            // What the change before left is there again when that one's file is: the bytes between need not be kept.
            let last: Option<([u8; 32], Option<String>)> = connection
                .prepare_cached(LAST)?
                .query_row(params![run, path], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let goes_on = last.is_some_and(|(after, lost)| lost.is_none() && before == Some(after));
            let bytes = image.map(|image| image.bytes.as_slice()).filter(|_| !goes_on);
            let cost = bounds::cost(&[&path, bytes.unwrap_or_default()]);
            let forgotten = self.bounds.make_room(connection, run, cost, now())??;
            connection.execute(
                "INSERT INTO change (run, path, before_digest, mode, after_digest, after_len, directories, cost,
                     before_bytes)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    run,
                    path,
                    before,
                    image.and_then(|image| image.mode),
                    digest(change.after),
                    i64::try_from(change.after.len()).unwrap_or(i64::MAX),
                    i64::try_from(change.directories).unwrap_or(i64::MAX),
                    bounds::stored(cost),
                    bytes,
                ],
            )?;
            Ok((connection.last_insert_rowid(), forgotten))
        })
    }

    fn has_change(&self, number: i64) -> rusqlite::Result<bool> {
        locked(&self.connection).prepare_cached("SELECT 1 FROM change WHERE id = ?1")?.exists([number])
    }

    /// Drops a change that did not happen. A run without changes is dropped too.
    pub(super) fn drop_change(&self, number: i64) -> rusqlite::Result<()> {
        let mut connection = locked(&self.connection);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let run: Option<i64> = transaction
            .query_row("DELETE FROM change WHERE id = ?1 RETURNING run", [number], |row| row.get(0))
            .optional()?;
        if let Some(run) = run {
            super::remove_empty(&transaction, run)?;
        }
        transaction.commit()
    }

    /// Writes a row of the current run, whole or not at all. `write` returns the number of forgotten runs.
    fn in_run<T>(
        &self,
        root: &Root,
        write: impl FnOnce(&Connection, i64) -> Result<(T, u64), Unkept>,
    ) -> Result<T, Unkept> {
        let place = Place::of(root)?;
        let mut connection = locked(&self.connection);
        // Held until the end: what is written now belongs to the run that is current now.
        let mut current = locked(&self.current);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let workspace = place.workspace(&transaction)?;
        let run = current.run(&transaction, workspace)?;
        let (written, forgotten) = write(&transaction, run)?;
        transaction.commit()?;
        // Not before: a number that is given back with the rest can be another run's.
        current.numbers.insert(workspace, run);
        if forgotten > 0 {
            tracing::info!(forgotten, "older runs were forgotten to make room in the undo journal");
        }
        Ok(written)
    }
}

impl Current {
    /// The number of the run in a workspace. It gets a row with its first change.
    fn run(&self, connection: &Connection, workspace: i64) -> rusqlite::Result<i64> {
        if let Some(number) = self.numbers.get(&workspace) {
            // Another process may have taken it back, or forgotten it, meanwhile.
            let began: Option<i64> = connection
                .prepare_cached("SELECT began FROM run WHERE id = ?1 AND workspace = ?2")?
                .query_row([*number, workspace], |row| row.get(0))
                .optional()?;
            let is_over = |began: i64| self.lasts.is_some_and(|lasts| now().saturating_sub(began) >= lasts);
            if began.is_some_and(|began| !is_over(began)) {
                return Ok(*number);
            }
        }
        connection.execute(
            "INSERT INTO run (workspace, task, began, bytes) VALUES (?1, ?2, ?3, ?4)",
            params![workspace, self.task, now(), bounds::stored(bounds::cost(&[self.task.as_bytes()]))],
        )?;
        Ok(connection.last_insert_rowid())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

    use toolgate_sandbox::{Grants, ambient_authority};

    use super::super::Bounds;
    use super::*;

    /// Somebody takes the run back between keeping and making.
    #[derive(Debug)]
    struct Between {
        kept: Kept,
        tells: bool,
    }

    impl Keeper for Between {
        fn keep(&self, change: &Change<'_>) -> Result<i64, sandbox::Error> {
            let number = self.kept.keep(change)?;
            let undone = self.kept.journal.undo(&self.kept.root, None).unwrap().unwrap();
            assert!(undone.refused.is_empty(), "{undone:?}");
            Ok(number)
        }

        fn made(&self, number: i64, change: &Change<'_>) {
            if self.tells {
                self.kept.made(number, change);
            }
        }

        fn drop_kept(&self, number: i64) {
            self.kept.drop_kept(number);
        }
    }

    #[test]
    fn a_change_that_was_found_not_to_have_happened_is_kept_again_once_it_has() {
        let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = dir.path().join("a");
        let root = Root::open(dir.path(), ambient_authority()).unwrap();
        for tells in [true, false] {
            std::fs::write(&file, "before\n").unwrap();
            let journal = Arc::new(Journal::open(&state.path().join("undo.db"), Bounds::default()).unwrap());
            journal.begin("run");
            let kept = Kept { journal: journal.clone(), root: root.clone() };
            let kept = root.keeping(Arc::new(Between { kept, tells }));
            kept.write_file(&Grants::read_write(), "a", "after\n").unwrap();
            let undone = journal.undo(&root, None).unwrap();
            assert_eq!(undone.is_some(), tells, "control: nobody knows of it otherwise");
            let left = if tells { "before\n" } else { "after\n" };
            assert_eq!(std::fs::read_to_string(&file).unwrap(), left);
        }
    }
}
