//! Undoes a run: restores its files and removes its changes from the journal, in one transaction.
//!
//! Invariant: a file is put back before its changes go from the journal. What is cut short in between is found to be back
//! already by the next attempt.

use std::collections::BTreeMap;

use rusqlite::{Connection, TransactionBehavior};
use toolgate_sandbox::{Image, Root};

use super::chain::{self, Link, plan};
use super::{Journal, Undone, digest, locked, names};
use crate::Error;
use crate::error::sql;

/// The changes of a run, without the bytes.
pub(super) const CHANGES: &str =
    "SELECT id, path, before_digest, ifnull(length(before_bytes), -1), lost, after_digest,
        after_len
    FROM change WHERE run = ?1 ORDER BY id";
/// The state that one change found.
pub(super) const IMAGE: &str = "SELECT before_bytes, mode, directories FROM change WHERE id = ?1";
/// The deeds of a run besides its changes.
pub(super) const DEEDS: &str = "SELECT id, what FROM deed WHERE run = ?1 ORDER BY id";

/// The changes of a run to one file.
#[derive(Debug)]
pub(super) struct History {
    /// The path as it is kept.
    pub(super) path: Vec<u8>,
    /// Its changes, oldest first.
    pub(super) links: Vec<Link>,
    /// Bytes of the longest known state.
    longest: u64,
}

impl Journal {
    /// Undoes a run in `root`: the newest, or the one of that number. `None` if there is none.
    ///
    /// # Errors
    /// A journal that cannot be read or written. A file that cannot be restored is no error; the result lists
    /// it as refused.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_tools::undo::{Bounds, Journal};
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
        let Some(head) = self.head(root, number)? else { return Ok(None) };
        let (run, last_deed) = self.whole(head)?;
        let (mut restored, mut refused, mut undone) = (Vec::new(), Vec::new(), Vec::new());
        // Newest first, so that a directory is empty when the file goes that it was made for.
        for history in self.histories(run.number)?.into_iter().rev() {
            let plan = self.put_back(root, &history)?;
            undone.extend(plan.undone);
            match plan.why {
                None => restored.push(names::shown(&history.path)),
                Some(why) => refused.push((names::shown(&history.path), why)),
            }
        }
        self.remove(run.number, &undone, refused.is_empty().then_some(last_deed))?;
        Ok(Some(Undone { run, restored, refused }))
    }

    /// Undoes the changes of one file. Returns the outcome.
    fn put_back(&self, root: &Root, history: &History) -> Result<chain::Plan, Error> {
        let History { path, links, longest } = history;
        let path = names::path(path);
        let refuse = |why: String| chain::Plan { target: None, undone: Vec::new(), why: Some(why) };
        // What is there now decides; the plan made from it is the one that is carried out.
        let mut decided = None;
        let looked = root.put_back(&path, None, 0, *longest, &mut |now| {
            decided = Some(plan_of(links, now));
            false
        });
        let plan = match (looked, decided) {
            (Ok(_), Some(plan)) => plan,
            (Ok(_), None) => return Ok(refuse(chain::CHANGED.to_owned())),
            (Err(error), _) => return Ok(refuse(error.to_string())),
        };
        if let Some(target) = plan.target {
            let (image, directories) = image(&locked(&self.connection), target)?;
            let done = root.put_back(&path, image.as_ref(), directories, *longest, &mut |now| {
                plan_of(links, now) == plan
            });
            match done {
                Ok(true) => {}
                Ok(false) => return Ok(refuse("it is being changed by something else".to_owned())),
                Err(error) => return Ok(refuse(error.to_string())),
            }
        }
        Ok(plan)
    }

    /// The changes of a run, file by file, in the order of the first changes.
    pub(super) fn histories(&self, run: i64) -> Result<Vec<History>, Error> {
        let connection = locked(&self.connection);
        let mut query = connection.prepare_cached(CHANGES).map_err(sql)?;
        let mut rows = query.query([run]).map_err(sql)?;
        let mut histories: Vec<History> = Vec::new();
        let mut places: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        while let Some(row) = rows.next().map_err(sql)? {
            let path: Vec<u8> = row.get(1).map_err(sql)?;
            let (before, len): (Option<[u8; 32]>, i64) = (row.get(2).map_err(sql)?, row.get(3).map_err(sql)?);
            let (after, after_len): ([u8; 32], i64) = (row.get(5).map_err(sql)?, row.get(6).map_err(sql)?);
            let kept = before.is_none() || len >= 0;
            let link = Link {
                id: row.get(0).map_err(sql)?,
                before,
                after: Some(after),
                kept,
                lost: row.get(4).map_err(sql)?,
            };
            let longest = u64::try_from(len.max(after_len)).unwrap_or(0);
            let place = *places.entry(path.clone()).or_insert(histories.len());
            match histories.get_mut(place) {
                Some(history) => {
                    history.links.push(link);
                    history.longest = history.longest.max(longest);
                }
                None => histories.push(History { path, links: vec![link], longest }),
            }
        }
        Ok(histories)
    }

    /// Removes changes from the journal, and deeds up to the last given one. The run goes with the last of
    /// both, so later deeds stay.
    fn remove(&self, run: i64, changes: &[i64], last_deed: Option<i64>) -> Result<(), Error> {
        let mut connection = locked(&self.connection);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
        for id in changes {
            transaction
                .prepare_cached("DELETE FROM change WHERE id = ?1")
                .map_err(sql)?
                .execute([id])
                .map_err(sql)?;
        }
        if let Some(last) = last_deed {
            transaction.execute("DELETE FROM deed WHERE run = ?1 AND id <= ?2", [run, last]).map_err(sql)?;
        }
        super::remove_empty(&transaction, run).map_err(sql)?;
        transaction.commit().map_err(sql)
    }
}

/// The state that a change found, and the number of directories that it made.
pub(super) fn image(connection: &Connection, id: i64) -> Result<(Option<Image>, usize), Error> {
    let (bytes, mode, directories) = connection
        .prepare_cached(IMAGE)
        .map_err(sql)?
        .query_row([id], |row| {
            Ok((row.get::<_, Option<Vec<u8>>>(0)?, row.get::<_, Option<u32>>(1)?, row.get::<_, i64>(2)?))
        })
        .map_err(sql)?;
    Ok((bytes.map(|bytes| Image::new(bytes, mode)), usize::try_from(directories).unwrap_or(0)))
}

fn plan_of(links: &[Link], now: Option<&[u8]>) -> chain::Plan {
    plan(links, now.map(digest))
}
