//! The SQLite files of this program. Processes share them, and this module migrates them to this version's schema.
//!
//! For the packages of this workspace alone: no part of the API.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use crate::Error;
use crate::error::sql;

/// The longest wait for another process that writes.
const BUSY: Duration = Duration::from_secs(10);
/// The time between two tries to make a file shared.
const PAUSE: Duration = Duration::from_millis(10);

/// The users who may read a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Its owner alone. An existing file gets these permissions.
    Owner,
    /// Its owner alone, unless the file exists with other permissions.
    AsItIs,
}

/// Opens a database, and creates it if it does not exist. No other user can read it in between.
///
/// # Errors
/// A file that cannot be opened, or whose permissions cannot be changed.
pub fn open(file: &Path, readers: Readers) -> Result<Connection, Error> {
    let failed = |what: &str, why: io::Error| Error::input(format!("cannot {what}: {why}"));
    // Names that SQLite reads in another way are file names here.
    let file = std::path::absolute(file).map_err(|why| failed("find it", why))?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // If this cannot create it, SQLite names the reason.
    let _ = options.open(&file);
    if readers == Readers::Owner {
        // What a link to nothing leads to would be made with other permissions.
        if std::fs::symlink_metadata(&file).is_ok_and(|metadata| metadata.is_symlink()) {
            return Err(Error::input("it is a link, not a file"));
        }
        tighten(&file).map_err(|why| failed("keep others from reading it", why))?;
    }
    let connection = Connection::open(&file).map_err(sql)?;
    connection.busy_timeout(BUSY).map_err(sql)?;
    Ok(connection)
}

/// Removes the permissions of all but the owner from a database and from SQLite's files beside it. Later files beside it get
/// the permissions of the database.
pub fn tighten(file: &Path) -> io::Result<()> {
    #[cfg(unix)]
    for suffix in ["", "-wal", "-shm"] {
        use std::os::unix::fs::PermissionsExt as _;
        let mut name = std::ffi::OsString::from(file);
        name.push(suffix);
        let metadata = match std::fs::metadata(&name) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        let mode = metadata.permissions().mode();
        if metadata.is_file() && mode & 0o077 != 0 {
            std::fs::set_permissions(&name, std::fs::Permissions::from_mode(mode & 0o700))?;
        }
    }
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}

/// Sets the journal mode: others can read a database during a write, and commits are on the disk.
pub fn share(connection: &Connection) -> rusqlite::Result<()> {
    // If two change the mode at the same time, SQLite fails one at once: two that wait would be a deadlock.
    let begun = Instant::now();
    while let Err(why) = connection.pragma_update(None, "journal_mode", "wal") {
        if why.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) || begun.elapsed() >= BUSY {
            return Err(why);
        }
        std::thread::sleep(PAUSE);
    }
    connection.pragma_update(None, "synchronous", "full")
}

/// Runs the migrations that a database lacks. Its `user_version` counts those that it has.
///
/// # Errors
/// A database that a newer version made, or that cannot be written.
pub fn migrate(connection: &mut Connection, steps: &[&str]) -> Result<(), Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
    let taken: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(sql)?;
    let taken = usize::try_from(taken).unwrap_or(usize::MAX);
    if taken > steps.len() {
        return Err(Error::input("the database was made by a newer toolgate; use that one, or another file"));
    }
    for step in steps.iter().skip(taken) {
        transaction.execute_batch(step).map_err(sql)?;
    }
    transaction.pragma_update(None, "user_version", steps.len() as i64).map_err(sql)?;
    transaction.commit().map_err(sql)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn many_open_a_new_file_at_once() {
        // One try rarely shows it.
        for _ in 0..10 {
            let state = tempfile::tempdir().unwrap();
            let file = state.path().join("new.db");
            let barrier = std::sync::Barrier::new(16);
            std::thread::scope(|scope| {
                for _ in 0..16 {
                    scope.spawn(|| {
                        barrier.wait();
                        let mut connection = open(&file, Readers::Owner).unwrap();
                        connection.pragma_update(None, "auto_vacuum", "full").unwrap();
                        share(&connection).unwrap();
                        migrate(&mut connection, &["CREATE TABLE one (number INTEGER)"]).unwrap();
                    });
                }
            });
        }
    }
}
