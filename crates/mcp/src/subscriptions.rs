//! Which resources a session is to be told of, and telling it.
//!
//! Invariant: whoever asked for a resource is told of it, or, where too much has changed to be told one by one, of all that they
//! asked for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam};
use rmcp::service::{Peer, SubscriptionSink};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

use super::resources::Resources;
use super::server::LOOK;

/// URIs that have changed and that a session has not been told of.
const WAITING: usize = 256;
/// Resources that one session is told of at most.
const MOST: usize = 1_000;

/// The URIs of what changes.
pub(super) type Changes = Sender<String>;

/// What changes among `resources`; nothing where they do not tell.
pub(super) fn changes(resources: &dyn Resources) -> Option<Changes> {
    let changes = Changes::new(WAITING);
    let told = changes.clone();
    let watched = resources.watch(Arc::new(move |uri: &str| {
        // Without a session there is nobody to be told.
        let _ = told.send(uri.to_owned());
    }));
    watched.then_some(changes)
}

/// What one session is to be told of. Each clone is another session's.
#[derive(Default)]
pub(super) struct Subscriptions(Arc<Mutex<Wanted>>);

#[derive(Default)]
struct Wanted {
    uris: BTreeSet<String>,
    /// Whether there is somebody who tells the session.
    told: bool,
}

impl Clone for Subscriptions {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Subscriptions {
    /// Has the session told of a resource.
    pub(super) fn add(
        &self,
        uri: String,
        changes: &Changes,
        peer: Peer<RoleServer>,
    ) -> Result<(), ErrorData> {
        let mut wanted = lock(&self.0);
        if wanted.uris.len() >= MOST && !wanted.uris.contains(&uri) {
            let message =
                format!("a session is told of {MOST} resources at most; unsubscribe from one of them");
            return Err(ErrorData::invalid_request(message, None));
        }
        wanted.uris.insert(uri);
        if !wanted.told {
            wanted.told = true;
            tokio::spawn(tell(self.0.clone(), changes.subscribe(), peer));
        }
        Ok(())
    }

    /// Has it told of it no more.
    pub(super) fn remove(&self, uri: &str) {
        lock(&self.0).uris.remove(uri);
    }
}

fn lock(wanted: &Mutex<Wanted>) -> MutexGuard<'_, Wanted> {
    wanted.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells a session until it ends.
async fn tell(wanted: Arc<Mutex<Wanted>>, mut changes: Receiver<String>, peer: Peer<RoleServer>) {
    while !peer.is_transport_closed() {
        let Ok(changed) = tokio::time::timeout(LOOK, changes.recv()).await else { continue };
        let uris: Vec<String> = match changed {
            Ok(uri) => lock(&wanted).uris.get(&uri).cloned().into_iter().collect(),
            Err(RecvError::Lagged(_)) => lock(&wanted).uris.iter().cloned().collect(),
            Err(RecvError::Closed) => return,
        };
        for uri in uris {
            let told = peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri));
            // A client that does not hear this word reads when it likes to.
            let _ = tokio::time::timeout(LOOK, told).await;
        }
    }
}

/// Tells whoever listens to `sink` of the resources it asked for; does not end by itself.
pub(super) async fn listen(wanted: &[String], changes: Option<Receiver<String>>, sink: &SubscriptionSink) {
    if let Some(mut changes) = changes {
        loop {
            let uris: Vec<String> = match changes.recv().await {
                Ok(uri) if wanted.contains(&uri) => vec![uri],
                Ok(_) => continue,
                Err(RecvError::Lagged(_)) => wanted.to_vec(),
                Err(RecvError::Closed) => break,
            };
            for uri in uris {
                if sink.notify_resource_updated(uri).await.is_err() {
                    return std::future::pending().await;
                }
            }
        }
    }
    std::future::pending().await
}
