//! One pack as a file: a header, the tokens, the state, and a digest of all of it. Knows no directory.
//!
//! ```text
//! magic (8 bytes) · length of the header (4) · header (JSON) · tokens (4 each) · state · SHA-256 of all before (32)
//! ```
//!
//! Numbers are little-endian. Invariant: [`read`] gives only what [`write`] was given, byte for byte, or nothing.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toolgate_infer::TokenId;

/// Bytes a pack file begins with; the last is the format's version.
const MAGIC: [u8; 8] = *b"TGPACK\0\x01";
const NAME: usize = 7;
/// Bytes of a header at most: a few names.
const MOST_HEADER: u32 = 64 * 1024;
/// Tokens of a pack at most: more than any context has.
const MOST_TOKENS: u64 = 4 * 1024 * 1024;
const DIGEST: u64 = 32;

/// What a pack is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    /// The model's file: [`fingerprint`](crate::models::fingerprint).
    pub(super) model: String,
    /// What else the state depends on: the backend's `state_key`.
    pub(super) key: String,
    /// Tokens in it.
    pub(super) tokens: u64,
    /// Bytes of state.
    pub(super) state: u64,
    /// Whether it is the first part of a beginning that was not evaluated to its end.
    #[serde(default)]
    pub(super) part: bool,
}

/// A pack's header and tokens; the state is not read and nothing is verified.
pub(super) struct Front {
    pub(super) header: Header,
    pub(super) tokens: Vec<TokenId>,
}

/// A whole pack, verified.
#[derive(Debug)]
pub(super) struct Pack {
    pub(super) header: Header,
    pub(super) tokens: Vec<TokenId>,
    pub(super) state: Vec<u8>,
}

/// Writes a pack; `header` tells the lengths of the rest.
pub(super) fn write(
    out: &mut impl Write,
    header: &Header,
    tokens: &[TokenId],
    state: &[u8],
) -> io::Result<()> {
    let json = serde_json::to_vec(header)?;
    let length = u32::try_from(json.len()).map_err(io::Error::other)?;
    let tokens: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
    let mut digest = Sha256::new();
    for part in [&MAGIC[..], &length.to_le_bytes(), &json, &tokens, state] {
        digest.update(part);
        out.write_all(part)?;
    }
    out.write_all(&digest.finalize())
}

/// Reads what a pack is of.
///
/// # Errors
/// A file that cannot be read; [`io::ErrorKind::Unsupported`] for a pack of another version of this format;
/// [`io::ErrorKind::InvalidData`] for what is no whole pack as far as its length and its header tell.
pub(super) fn front(path: &Path) -> io::Result<Front> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut fixed = [0; 12];
    file.read_exact(&mut fixed).map_err(|_| odd("it is too short"))?;
    let (magic, header_len) = fixed.split_at(8);
    let header_len = u32::from_le_bytes(header_len.try_into().map_err(io::Error::other)?);
    if magic != MAGIC && magic.get(..NAME) == MAGIC.get(..NAME) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "it is a pack of another version"));
    }
    if magic != MAGIC || header_len > MOST_HEADER {
        return Err(odd("it is no pack"));
    }
    let mut json = vec![0; header_len as usize];
    file.read_exact(&mut json).map_err(|_| odd("it is too short"))?;
    let header: Header = serde_json::from_slice(&json).map_err(|_| odd("its header is no header"))?;
    if header.tokens > MOST_TOKENS || length != whole(&header, header_len) {
        return Err(odd("it is not as long as it says"));
    }
    let mut bytes = vec![0; header.tokens as usize * 4];
    file.read_exact(&mut bytes)?;
    let tokens = bytes.as_chunks().0.iter().map(|&bytes| TokenId::from_le_bytes(bytes)).collect();
    Ok(Front { header, tokens })
}

/// Reads a pack and holds it against its digest.
///
/// # Errors
/// As [`front`], and where a byte of it is another than was written.
pub(super) fn read(path: &Path) -> io::Result<Pack> {
    let Front { header, tokens } = front(path)?;
    let mut bytes = std::fs::read(path)?;
    let digest = bytes.len().checked_sub(DIGEST as usize).ok_or_else(|| odd("it is too short"))?;
    let is_whole = Sha256::digest(bytes.get(..digest).unwrap_or_default()).as_slice()
        == bytes.get(digest..).unwrap_or_default();
    if !is_whole {
        return Err(odd("its contents do not match its digest"));
    }
    let state = usize::try_from(header.state).ok().and_then(|state| digest.checked_sub(state));
    let state = state.ok_or_else(|| odd("it is not as long as it says"))?;
    bytes.truncate(digest);
    bytes.drain(..state);
    Ok(Pack { header, tokens, state: bytes })
}

fn whole(header: &Header, header_len: u32) -> u64 {
    let fixed = MAGIC.len() as u64 + 4 + u64::from(header_len) + DIGEST;
    fixed.saturating_add(header.tokens * 4).saturating_add(header.state)
}

fn odd(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}
