//! Notes and facts that outlive a conversation, in an SQLite database. Their words find them again.
//!
//! Invariant: a memory is stored whole or not at all, however the process ends. Several processes may share a
//! file.

mod recall;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Row};
use serde::Serialize;
use serde_json::Value;

use crate::Error;
use crate::database::{self, Readers};
use crate::error::sql;

/// A store of memories: a file, or the memory of the process.
///
/// ```
/// use toolgate_tools::memory::{Kind, Memory};
/// # let directory = tempfile::tempdir()?;
/// # let file = directory.path().join("memory.db");
///
/// Memory::open(&file)?.store(Kind::Note, "Ana likes green tea.", &[], None)?;
/// // Another process, another day.
/// let found = Memory::open(&file)?.recall("what does Ana like?", 5)?;
/// assert_eq!(found[0].content, "Ana likes green tea.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Memory {
    connection: Mutex<Connection>,
}

/// The kind of a memory.
///
/// ```
/// use toolgate_tools::memory::{Kind, Memory};
///
/// let memory = Memory::in_process()?;
/// let ana = serde_json::json!({"name": "Ana", "role": "tester"});
/// memory.store(Kind::Entity, "Ana is a tester", &["people".to_owned()], Some(&ana))?;
/// let found = memory.search("tester", 1)?;
/// assert_eq!((found[0].kind.as_str(), found[0].data.as_ref()), ("entity", Some(&ana)));
/// # Ok::<(), toolgate_tools::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// Free text.
    Note,
    /// A thing or person.
    Entity,
    /// A relation between two entities.
    Relationship,
    /// An observation of an entity.
    Observation,
}

impl Kind {
    /// The word for the kind in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Entity => "entity",
            Self::Relationship => "relationship",
            Self::Observation => "observation",
        }
    }
}

/// A memory as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Entry {
    /// Its number. Later memories have higher numbers.
    pub id: i64,
    /// Its kind.
    pub kind: String,
    /// Its text.
    pub content: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its structured form, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The time of storing: UTC, RFC 3339.
    pub created_at: String,
}

/// The schema's steps.
const MIGRATIONS: [&str; 1] = [include_str!("migrations/1.sql")];

impl Memory {
    /// Opens the memory in a file. A missing file is created, for its owner alone.
    ///
    /// # Errors
    /// A file that cannot be opened, is no such database, or is from a newer version.
    ///
    /// ```
    /// use toolgate_tools::memory::Memory;
    /// # let directory = tempfile::tempdir()?;
    /// # let file = directory.path().join("letter.txt");
    ///
    /// // What is there already is not written over.
    /// std::fs::write(&file, "Dear Ana, this is a letter.\n".repeat(100))?;
    /// let opened = Memory::open(&file);
    /// assert!(opened.is_err_and(|error| error.to_string().contains("not a database")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(file: &Path) -> Result<Self, Error> {
        let open = || -> Result<Connection, Error> {
            let connection = database::open(file, Readers::AsItIs)?;
            // Readers go on while one process writes, and a crash loses nothing that was committed.
            database::share(&connection).map_err(sql)?;
            Ok(connection)
        };
        open().and_then(Self::prepare).map_err(|error| error.context(format!("memory {}", file.display())))
    }

    /// A memory that ends with the process.
    ///
    /// # Errors
    /// None but a lack of memory.
    pub fn in_process() -> Result<Self, Error> {
        Self::prepare(Connection::open_in_memory().map_err(sql)?)
    }

    fn prepare(mut connection: Connection) -> Result<Self, Error> {
        database::migrate(&mut connection, &MIGRATIONS)?;
        Ok(Self { connection: Mutex::new(connection) })
    }

    /// Stores a memory and returns its number. `data` is its structured form, if it has one.
    ///
    /// # Errors
    /// A database that cannot be written.
    ///
    /// ```
    /// use toolgate_tools::memory::{Kind, Memory};
    ///
    /// let memory = Memory::in_process()?;
    /// memory.store(Kind::Note, "The spare key is under the mat.", &["house".to_owned()], None)?;
    /// let found = memory.recall("where is the key?", 5)?;
    /// assert_eq!(found[0].content, "The spare key is under the mat.");
    /// # Ok::<(), toolgate_tools::Error>(())
    /// ```
    pub fn store(
        &self,
        kind: Kind,
        content: &str,
        tags: &[String],
        data: Option<&Value>,
    ) -> Result<i64, Error> {
        insert(&self.lock(), kind, content, tags, data)
    }

    /// Stores many notes: all of them, or none if one cannot be stored.
    ///
    /// # Errors
    /// As [`store`](Self::store).
    ///
    /// ```
    /// use toolgate_tools::memory::Memory;
    ///
    /// let memory = Memory::in_process()?;
    /// memory.store_all(["The hall is booked.", "The cake is ordered."].map(String::from))?;
    /// assert_eq!(memory.search("cake", 5)?[0].content, "The cake is ordered.");
    /// # Ok::<(), toolgate_tools::Error>(())
    /// ```
    pub fn store_all(&self, notes: impl IntoIterator<Item = String>) -> Result<(), Error> {
        let mut connection = self.lock();
        let transaction = connection.transaction().map_err(sql)?;
        for note in notes {
            insert(&transaction, Kind::Note, &note, &[], None)?;
        }
        transaction.commit().map_err(sql)
    }

    /// The memories that share a word with `query`, best first; the newest if none does.
    ///
    /// # Errors
    /// A database that cannot be read.
    ///
    /// ```
    /// use toolgate_tools::memory::Memory;
    ///
    /// let memory = Memory::in_process()?;
    /// memory.store_all(["The hall is booked.", "The cake is ordered."].map(String::from))?;
    /// assert_eq!(memory.recall("Who booked the halls?", 1)?[0].content, "The hall is booked.");
    /// // Nothing is known of it: the newest may still help.
    /// assert_eq!(memory.recall("bicycle", 1)?[0].content, "The cake is ordered.");
    /// # Ok::<(), toolgate_tools::Error>(())
    /// ```
    pub fn recall(&self, query: &str, limit: usize) -> Result<Vec<Entry>, Error> {
        let found = self.search(query, limit)?;
        if !found.is_empty() {
            return Ok(found);
        }
        let connection = self.lock();
        let mut newest =
            connection.prepare_cached(&format!("{SELECT} ORDER BY id DESC LIMIT ?")).map_err(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = newest.query_map([limit], entry).map_err(sql)?;
        rows.collect::<Result<_, _>>().map_err(sql)
    }

    /// The memories that share a word with `query`, best first.
    ///
    /// # Errors
    /// A database that cannot be read.
    ///
    /// ```
    /// use toolgate_tools::memory::Memory;
    ///
    /// let memory = Memory::in_process()?;
    /// memory.store_all(["The hall is booked.", "The cake is ordered."].map(String::from))?;
    /// assert_eq!(memory.search("HALLS", 5)?[0].content, "The hall is booked.");
    /// assert!(memory.search("bicycle", 5)?.is_empty());
    /// # Ok::<(), toolgate_tools::Error>(())
    /// ```
    pub fn search(&self, query: &str, limit: usize) -> Result<Vec<Entry>, Error> {
        let connection = self.lock();
        let mut found = Vec::new();
        let mut one = connection.prepare_cached(&format!("{SELECT} WHERE id = ?")).map_err(sql)?;
        for id in recall::ranked(&connection, query).map_err(sql)?.into_iter().take(limit) {
            found.push(one.query_row([id], entry).map_err(sql)?);
        }
        Ok(found)
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A holder that panicked left its transaction to be rolled back: the connection is sound.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn insert(
    connection: &Connection,
    kind: Kind,
    content: &str,
    tags: &[String],
    data: Option<&Value>,
) -> Result<i64, Error> {
    connection
        .prepare_cached("INSERT INTO memory (kind, content, tags, data) VALUES (?, ?, ?, ?)")
        .map_err(sql)?
        .execute((kind.as_str(), content, Value::from(tags.to_vec()).to_string(), data.map(Value::to_string)))
        .map_err(sql)?;
    Ok(connection.last_insert_rowid())
}

const SELECT: &str = "SELECT id, kind, content, tags, data, created_at FROM memory";

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let tags: String = row.get(3)?;
    let data: Option<String> = row.get(4)?;
    Ok(Entry {
        id: row.get(0)?,
        kind: row.get(1)?,
        content: row.get(2)?,
        // Written by `store`; another program's row without proper JSON has no tags and no data for us.
        tags: serde_json::from_str(&tags).unwrap_or_default(),
        data: data.and_then(|data| serde_json::from_str(&data).ok()),
        created_at: row.get(5)?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    fn note(memory: &Memory, content: &str) -> i64 {
        memory.store(Kind::Note, content, &[], None).unwrap()
    }

    fn contents(found: &[Entry]) -> Vec<&str> {
        found.iter().map(|entry| entry.content.as_str()).collect()
    }

    #[test]
    fn words_find_memories_in_any_form_and_order() {
        let memory = Memory::in_process().unwrap();
        note(&memory, "The spare keys are under the flowerpot");
        note(&memory, "Ana's birthday is in May");
        let found = memory.recall("where is my spare key", 1).unwrap();
        assert_eq!(contents(&found), ["The spare keys are under the flowerpot"]);
        assert_eq!(contents(&memory.recall("BIRTHDAYS", 5).unwrap()), ["Ana's birthday is in May"]);
        assert!(memory.search("bicycle", 5).unwrap().is_empty());
    }

    #[test]
    fn a_query_without_a_match_recalls_the_newest() {
        let memory = Memory::in_process().unwrap();
        note(&memory, "first");
        note(&memory, "second");
        assert_eq!(contents(&memory.recall("bicycle", 1).unwrap()), ["second"]);
        assert_eq!(
            contents(&memory.recall("\"'()*:-", 5).unwrap()).len(),
            2,
            "syntax of the index is only text"
        );
    }

    #[test]
    fn a_rare_word_counts_more_than_common_ones() {
        let memory = Memory::in_process().unwrap();
        note(&memory, "the locker is number 218");
        for i in 0..500 {
            note(&memory, &format!("the note number {i} is the usual"));
        }
        assert_eq!(
            contents(&memory.recall("what is the number of the locker", 1).unwrap()),
            ["the locker is number 218"]
        );
    }

    #[test]
    fn a_file_is_shared_and_survives_whoever_wrote_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("memory.db");
        let data = serde_json::json!({"name": "Ana"});
        {
            let one = Memory::open(&file).unwrap();
            let two = Memory::open(&file).unwrap();
            std::thread::scope(|scope| {
                for memory in [&one, &two] {
                    scope.spawn(move || {
                        for i in 0..50 {
                            note(memory, &format!("note {i}"));
                        }
                    });
                }
            });
            two.store(Kind::Entity, "Ana", &["people".into()], Some(&data)).unwrap();
            // The connections are not closed in order: as if the process had been killed.
            std::mem::forget((one, two));
        }
        let again = Memory::open(&file).unwrap();
        assert_eq!(again.recall("note", 1000).unwrap().len(), 100);
        let ana = &again.search("ana", 1).unwrap()[0];
        assert_eq!(
            (ana.kind.as_str(), &ana.tags[..], &ana.data),
            ("entity", &["people".to_owned()][..], &Some(data))
        );
    }

    #[test]
    fn a_file_that_is_no_database_is_refused_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("notes.txt");
        let text = "this is a letter to a friend, not a database\n".repeat(100);
        std::fs::write(&file, &text).unwrap();
        let error = Memory::open(&file).err().unwrap().to_string();
        assert!(error.contains("notes.txt") && error.contains("not a database"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        let newer = dir.path().join("newer.db");
        Connection::open(&newer).unwrap().pragma_update(None, "user_version", 99).unwrap();
        assert!(Memory::open(&newer).err().unwrap().to_string().contains("newer toolgate"));
    }
}
