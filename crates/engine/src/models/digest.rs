//! SHA-256 digests as the catalogue writes them: 64 lower-case hexadecimal digits.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::str::FromStr;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The SHA-256 of a model file.
///
/// ```
/// use toolgate_engine::models::Sha256Digest;
/// let abc = Sha256Digest::of(b"abc");
/// assert!(abc.to_string().starts_with("ba7816bf"));
/// assert_eq!(abc.to_string().parse(), Ok(abc));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256Digest([u8; 32]);

impl Sha256Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from(Sha256::new_with_prefix(bytes))
    }
}

impl From<Sha256> for Sha256Digest {
    fn from(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Sha256Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("a SHA-256 is 64 hexadecimal digits, not {text:?}");
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Self(digest))
    }
}

impl TryFrom<String> for Sha256Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Sha256Digest> for String {
    fn from(digest: Sha256Digest) -> Self {
        digest.to_string()
    }
}

/// What tells one model file from another without reading all of it: its length, when it was written, and a digest of
/// pieces from all over it. The weights of two models differ everywhere.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn fingerprint(model: &Path) -> io::Result<Sha256Digest> {
    let written = File::open(model)?.metadata()?.modified()?;
    let written = written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    pieces_of(model, &written.as_nanos().to_le_bytes())
}

/// The same whenever it was written: a copy has it, too.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn pieces(model: &Path) -> io::Result<Sha256Digest> {
    pieces_of(model, &[])
}

fn pieces_of(model: &Path, beside: &[u8]) -> io::Result<Sha256Digest> {
    const PIECES: u64 = 64;
    const PIECE: usize = 4 * 1024;
    let mut file = File::open(model)?;
    let length = file.metadata()?.len();
    let mut digest = Sha256::new();
    digest.update(length.to_le_bytes());
    digest.update(beside);
    let mut piece = vec![0; PIECE];
    for index in 0..PIECES {
        file.seek(SeekFrom::Start(length / PIECES * index))?;
        let read = io::copy(&mut (&mut file).take(PIECE as u64), &mut piece.as_mut_slice())?;
        digest.update(piece.get(..read as usize).unwrap_or_default());
    }
    Ok(digest.into())
}
