//! Cancels the work for a request once its caller gives it up: by a notification, or by going away.

use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use toolgate_engine::Cancel;

/// Cancels when the caller gives the request up, and when this is dropped.
pub(super) struct GivenUp {
    cancel: Cancel,
    _watching: AbortOnDropHandle<()>,
}

impl GivenUp {
    /// For the request of this token.
    pub(super) fn of(token: CancellationToken) -> Self {
        let cancel = Cancel::default();
        let watched = cancel.clone();
        let watching = tokio::spawn(async move {
            token.cancelled().await;
            watched.cancel();
        });
        Self { cancel, _watching: AbortOnDropHandle::new(watching) }
    }

    /// What is cancelled.
    pub(super) fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
