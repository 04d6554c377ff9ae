//! Work for a request, cancelled once its caller gives it up: by a word, or by going away.

use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use toolgate_engine::Cancel;

/// Cancels when the request is given up, and when it goes.
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
