//! The SQLite files of this program: shared by processes, and brought to the schema that this version knows.
//!
//! For the packages of this workspace alone: no part of the API.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use crate::Error;
use crate::error::sql;

/// How long a process waits for another one that is writing.
const BUSY: Duration = Duration::from_secs(10);
/// How long between two tries to make a file a shared one.
const PAUSE: Duration = Duration::from_millis(10);

/// Who may look into a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Its owner alone. A file that is there already is made so.
    Owner,
    /// Its owner alone, unless the file is there already and says otherwise.
    AsItIs,
}

/// Opens a database, which is created if it is not there, so that no other user can read it in between.
///
/// # Errors
/// A file that cannot be opened, or whose permissions cannot be taken back.
pub fn open(file: &Path, readers: Readers) -> Result<Connection, Error> {
    let failed = |what: &str, why: io::Error| Error::input(format!("cannot {what}: {why}"));
    // Names that mean something else to SQLite are files here.
    let file = std::path::absolute(file).map_err(|why| failed("find it", why))?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // Where it cannot be created SQLite says why.
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

/// Takes the permissions of all but the owner from a database and the files beside it, as far as they are there. Those
/// that come later get the permissions of the first.
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

/// Makes a file one that others read while it is written, and whose commits are on the disk.
pub fn share(connection: &Connection) -> rusqlite::Result<()> {
    // Of two that change the mode at once SQLite lets one fail at once, since both waiting would be a deadlock.
    let begun = Instant::now();
    while let Err(why) = connection.pragma_update(None, "journal_mode", "wal") {
        if why.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) || begun.elapsed() >= BUSY {
            return Err(why);
        }
        std::thread::sleep(PAUSE);
    }
    connection.pragma_update(None, "synchronous", "full")
}

/// Takes the steps of a schema that a database has not taken yet; its `user_version` counts those it has.
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
