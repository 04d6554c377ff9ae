//! The SQLite files of this program: shared by processes, and brought to the schema that this version knows.

use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use crate::Error;

/// How long a process waits for another one that is writing.
const BUSY: Duration = Duration::from_secs(10);

/// Makes a file one that others read while it is written, and whose commits are on the disk.
pub(crate) fn share(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")
}

/// Takes the steps of a schema that a database has not taken yet; its `user_version` counts those it has.
///
/// # Errors
/// A database that a newer version made, or that cannot be written.
pub(crate) fn migrate(connection: &mut Connection, steps: &[&str]) -> Result<(), Error> {
    connection.busy_timeout(BUSY)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let taken: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let taken = usize::try_from(taken).unwrap_or(usize::MAX);
    if taken > steps.len() {
        return Err(Error::input("the database was made by a newer toolgate; use that one, or another file"));
    }
    for step in steps.iter().skip(taken) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", steps.len() as i64)?;
    Ok(transaction.commit()?)
}
