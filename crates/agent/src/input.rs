//! Reads a file that a person named, or standard input. Beneath the commands of the program and of the laboratory.
//!
//! Invariant: memory holds no more than the bound, however long the file is.
//!
//! For the packages of this workspace alone: no part of the API.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::Error;

/// Whether a path stands for standard input: `-`.
pub fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// The bytes of the file at `path`, or of standard input ([`is_stdin`]), up to `most` of them.
///
/// # Errors
/// [`Kind::Input`](crate::Kind::Input) for a file that cannot be read, and for one that is longer.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let name = path.display();
    let fail = |doing: &str, why: std::io::Error| Error::input(format!("cannot {doing} {name}: {why}"));
    let reader: Box<dyn Read> = match is_stdin(path) {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(File::open(path).map_err(|why| fail("open", why))?),
    };
    let mut bytes = Vec::new();
    let read =
        reader.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(|why| fail("read", why))?;
    if u64::try_from(read).unwrap_or(u64::MAX) > most {
        return Err(Error::input(format!("{name} is longer than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::Kind;

    #[test]
    fn a_file_is_read_up_to_its_bound_and_none_beyond() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.txt");
        std::fs::write(&file, "four").unwrap();
        assert_eq!(read(&file, 4).unwrap(), b"four");
        let refused = read(&file, 3).unwrap_err();
        assert_eq!(refused.kind(), Kind::Input);
        assert!(refused.to_string().ends_with("a.txt is longer than 3 bytes"), "{refused}");
        std::fs::remove_file(&file).unwrap();
        let missing = read(&file, 4).unwrap_err().to_string();
        assert!(missing.starts_with("cannot open ") && missing.contains("a.txt: "), "{missing}");
    }
}
