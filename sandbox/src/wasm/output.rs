//! Collects the standard output and standard error of a component in one bounded buffer, in order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError};

/// Bytes that a stream takes at once.
pub(super) const CHUNK: usize = 64 * 1024;

/// The buffer. Clones write to the same buffer. Bytes beyond the bound are counted and dropped, and the
/// component does not notice.
#[derive(Clone, Debug)]
pub(super) struct Capture(Arc<Mutex<Buffer>>);

#[derive(Debug)]
struct Buffer {
    kept: Vec<u8>,
    most: usize,
    written: u64,
}

impl Capture {
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Mutex::new(Buffer { kept: Vec::new(), most, written: 0 })))
    }

    /// The kept bytes, and the number of bytes in all.
    pub(super) fn take(&self) -> (Vec<u8>, u64) {
        let mut buffer = self.lock();
        (std::mem::take(&mut buffer.kept), buffer.written)
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        // Nobody panics while holding it; bytes are bytes in any case.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IsTerminal for Capture {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Capture {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        // The other interface, which is not linked.
        Box::new(MemoryOutputPipe::new(0))
    }
}

#[async_trait::async_trait]
impl OutputStream for Capture {
    fn write(&mut self, bytes: Bytes) -> Result<(), StreamError> {
        let mut buffer = self.lock();
        buffer.written = buffer.written.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let room = buffer.most.saturating_sub(buffer.kept.len());
        buffer.kept.extend(bytes.iter().take(room));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StreamError> {
        Ok(())
    }

    fn check_write(&mut self) -> Result<usize, StreamError> {
        Ok(CHUNK)
    }
}

#[async_trait::async_trait]
impl Pollable for Capture {
    async fn ready(&mut self) {}
}
