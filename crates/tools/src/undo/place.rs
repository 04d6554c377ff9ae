//! Identifies the directory of a run, by the file system's data about the directory and not by its path.
//!
//! Invariant: a run is found from its own directory, wherever that is now. It is never found from another
//! directory that has the path today.

use rusqlite::{Connection, params};
use toolgate_sandbox::{self as sandbox, Root, WorkspaceId};

/// The workspaces that a place could be.
pub(super) const ALIKE: &str =
    "SELECT id, path, device, inode, born FROM workspace WHERE inode = ?1 OR path = ?2 ORDER BY id";

/// A directory in its present state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Its path in the shown form.
    path: String,
    device: i64,
    inode: i64,
    born: Option<String>,
    /// The time of its creation, in whole seconds since 1970 UTC.
    made: Option<i64>,
}

/// A workspace of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) id: i64,
    path: String,
    /// `None` in rows of the first version, like the next two fields.
    device: Option<i64>,
    inode: Option<i64>,
    born: Option<String>,
}

/// The match of a workspace in the journal with a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// It is this directory.
    Same,
    /// It is this directory for the runs since this second. Before that, another directory had the path.
    Since(i64),
    /// It is another directory.
    Other,
}

impl Match {
    /// The second from which on its runs were in this directory; `None` if they were not.
    pub(super) fn since(self) -> Option<i64> {
        match self {
            Self::Same => Some(i64::MIN),
            Self::Since(second) => Some(second),
            Self::Other => None,
        }
    }
}

impl Place {
    pub(super) fn of(root: &Root) -> Result<Self, sandbox::Error> {
        Ok(Self::new(root.shown(), root.id()?))
    }

    fn new(path: String, id: WorkspaceId) -> Self {
        // Some file systems that do not know say 1970.
        let born = id.born.filter(|born| !born.is_zero());
        Self {
            path,
            device: id.device.cast_signed(),
            inode: id.inode.cast_signed(),
            born: born.map(|born| format!("{}.{:09}", born.as_secs(), born.subsec_nanos())),
            made: born.map(|born| i64::try_from(born.as_secs()).unwrap_or(i64::MAX)),
        }
    }

    /// The match of `known` with this place.
    ///
    /// A machine gives out new device numbers when it starts. So another device number means no other
    /// directory if all else is the same. The number of a removed directory is given to another one. So
    /// without the time of creation it tells nothing about a directory with another path.
    pub(super) fn matches(&self, known: &Known) -> Match {
        let Some(inode) = known.inode else {
            return match self.made {
                Some(made) if self.has_path_of(known) => Match::Since(made),
                _ => Match::Other,
            };
        };
        // Beside its number a path that is no text is enough as it is shown.
        let is_there = self.path == known.path;
        let is_device = known.device == Some(self.device);
        let tells = self.born.is_some();
        let is_same = inode == self.inode && known.born == self.born;
        let is_moved = is_device && tells && inode != 0;
        match is_same && (is_moved || is_there && (is_device || tells)) {
            true => Match::Same,
            false => Match::Other,
        }
    }

    /// Whether it has the last known path of `known`. This is never certain for a path that is no text.
    pub(super) fn has_path_of(&self, known: &Known) -> bool {
        self.path == known.path && !self.path.contains(char::REPLACEMENT_CHARACTER)
    }

    /// The workspaces of the journal that it could be, or that had its path, each with its match.
    pub(super) fn alike(&self, connection: &Connection) -> rusqlite::Result<Vec<(Known, Match)>> {
        let mut query = connection.prepare_cached(ALIKE)?;
        let rows = query.query_map(params![self.inode, self.path], |row| {
            let known = Known {
                id: row.get(0)?,
                path: row.get(1)?,
                device: row.get(2)?,
                inode: row.get(3)?,
                born: row.get(4)?,
            };
            let how = self.matches(&known);
            Ok((known, how))
        })?;
        rows.collect()
    }

    /// The number of the workspace of this directory. A new one gets a row.
    pub(super) fn workspace(&self, connection: &Connection) -> rusqlite::Result<i64> {
        let known = self.alike(connection)?.into_iter().find(|(_, how)| *how == Match::Same);
        if let Some((known, _)) = known {
            if (known.path.as_str(), known.device) != (self.path.as_str(), Some(self.device)) {
                let sql = "UPDATE workspace SET path = ?2, device = ?3 WHERE id = ?1";
                connection.execute(sql, params![known.id, self.path, self.device])?;
            }
            return Ok(known.id);
        }
        connection.execute(
            "INSERT INTO workspace (path, device, inode, born) VALUES (?1, ?2, ?3, ?4)",
            params![self.path, self.device, self.inode, self.born],
        )?;
        Ok(connection.last_insert_rowid())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn place(path: &str, device: u64, inode: u64, born: Option<u64>) -> Place {
        Place::new(path.to_owned(), WorkspaceId::new(device, inode, born.map(Duration::from_secs)))
    }

    fn kept(place: &Place) -> Known {
        let Place { path, device, inode, born, .. } = place.clone();
        Known { id: 1, path, device: Some(device), inode: Some(inode), born }
    }

    #[test]
    fn a_directory_is_the_same_wherever_it_is_and_another_at_its_path_is_not() {
        let then = place("/w", 8, 42, Some(100));
        for (now, is_same, what) in [
            (place("/w", 8, 42, Some(100)), true, "nothing changed"),
            (place("/moved", 8, 42, Some(100)), true, "moved"),
            (place("/w", 9, 42, Some(100)), true, "the machine was started again"),
            (place("/copy", 9, 42, Some(100)), false, "a snapshot of its file system"),
            (place("/w", 8, 43, Some(100)), false, "another number"),
            (place("/w", 8, 42, Some(101)), false, "its number was given out again"),
            (place("/w", 8, 42, None), false, "not known any more"),
        ] {
            assert_eq!(now.matches(&kept(&then)) == Match::Same, is_same, "{what}");
        }
    }

    #[test]
    fn where_the_file_system_tells_less_the_path_counts_too() {
        for (device, inode, born) in [(8, 42, None), (8, 42, Some(0)), (0, 0, Some(100)), (0, 0, None)] {
            let then = place("/w", device, inode, born);
            assert_eq!(then.matches(&kept(&then)), Match::Same);
            assert_eq!(place("/moved", device, inode, born).matches(&kept(&then)), Match::Other);
            let no_text = place("/\u{fffd}", device, inode, born);
            assert_eq!(no_text.matches(&kept(&no_text)), Match::Same, "every directory is itself");
        }
        let without_birth = place("/w", 9, 42, None);
        assert_eq!(without_birth.matches(&kept(&place("/w", 8, 42, None))), Match::Other);
    }

    #[test]
    fn what_the_first_version_kept_is_found_by_path_where_the_directory_is_old_enough() {
        let known =
            |path: &str| Known { id: 1, path: path.to_owned(), device: None, inode: None, born: None };
        assert_eq!(place("/w", 8, 42, Some(100)).matches(&known("/w")), Match::Since(100));
        assert_eq!(place("/v", 8, 42, Some(100)).matches(&known("/w")), Match::Other);
        assert_eq!(
            place("/w", 8, 42, None).matches(&known("/w")),
            Match::Other,
            "nobody knows when it was made"
        );
        assert_eq!(place("/\u{fffd}", 8, 42, Some(1)).matches(&known("/\u{fffd}")), Match::Other, "no text");
    }

    #[test]
    fn huge_numbers_stay_what_they_are() {
        let then = place("/w", u64::MAX, u64::MAX, Some(u64::MAX));
        assert_eq!(place("/m", u64::MAX, u64::MAX, Some(u64::MAX)).matches(&kept(&then)), Match::Same);
        assert_eq!(place("/m", u64::MAX, u64::MAX, Some(u64::MAX - 1)).matches(&kept(&then)), Match::Other);
        assert_eq!(then.made, Some(i64::MAX));
    }
}
