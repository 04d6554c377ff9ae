//! The streams of an open file. They read and write at once, since a regular file never keeps anybody waiting.

use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use cap_std::fs::File;
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

use super::budget::{Budget, Held};
use crate::wasm::output::CHUNK;

/// A regular file that a component has open.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) budget: Arc<Budget>,
    pub(super) _held: Held,
}

impl OpenFile {
    /// At most `len` bytes from `offset`; none at the end.
    pub(super) fn read_at(&self, len: u64, offset: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(CHUNK).min(CHUNK)];
        let mut file = &self.file;
        file.seek(SeekFrom::Start(offset))?;
        let read = file.read(&mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Writes all of `bytes` at `offset`, or at the end; gives back where it stops.
    pub(super) fn write_at(&self, bytes: &[u8], offset: Option<u64>) -> io::Result<u64> {
        let size = self.file.metadata()?.len();
        let start = offset.unwrap_or(size);
        let end = start.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.budget.grow(size, end)?;
        let mut file = &self.file;
        file.seek(SeekFrom::Start(start))?;
        file.write_all(bytes)?;
        Ok(end)
    }

    pub(super) fn set_size(&self, size: u64) -> io::Result<()> {
        self.budget.grow(self.file.metadata()?.len(), size)?;
        self.file.set_len(size)
    }
}

/// Reads on from a position.
pub(super) struct Reader {
    pub(super) file: Arc<OpenFile>,
    pub(super) at: u64,
}

#[async_trait::async_trait]
impl InputStream for Reader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        let bytes = self.file.read_at(u64::try_from(size).unwrap_or(u64::MAX), self.at).map_err(failed)?;
        if bytes.is_empty() && size > 0 {
            return Err(StreamError::Closed);
        }
        self.at = self.at.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok(bytes.into())
    }
}

#[async_trait::async_trait]
impl Pollable for Reader {
    async fn ready(&mut self) {}
}

/// Writes on from a position, or at the end.
pub(super) struct Writer {
    pub(super) file: Arc<OpenFile>,
    pub(super) at: Option<u64>,
}

#[async_trait::async_trait]
impl OutputStream for Writer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let end = self.file.write_at(&bytes, self.at).map_err(failed)?;
        self.at = self.at.map(|_| end);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CHUNK)
    }
}

#[async_trait::async_trait]
impl Pollable for Writer {
    async fn ready(&mut self) {}
}

fn failed(error: io::Error) -> StreamError {
    StreamError::LastOperationFailed(error.into())
}
