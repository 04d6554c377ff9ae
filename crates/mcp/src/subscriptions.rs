//! Subscriptions: the resources that a session watches, and the notifications about them.
//!
//! Invariant: a session gets a notification for each change of a resource that it watches. After too many changes it gets one
//! for every resource that it watches.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam};
use rmcp::service::{Peer, SubscriptionSink};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

use super::resources::Resources;
use super::server::LOOK;

/// The most changes that wait for a session.
const WAITING: usize = 256;
/// The most resources that one session watches.
const MOST: usize = 1_000;

/// The URIs of changed resources.
pub(super) type Changes = Sender<String>;

/// The changes of `resources`; none where they do not report changes.
pub(super) fn changes(resources: &dyn Resources) -> Option<Changes> {
    let changes = Changes::new(WAITING);
    let told = changes.clone();
    let watched = resources.watch(Arc::new(move |uri: &str| {
        // Without a session there is nobody to be told.
        let _ = told.send(uri.to_owned());
    }));
    watched.then_some(changes)
}

/// The resources that one session watches. Each clone belongs to another session.
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
    /// Adds a resource.
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

    /// Removes a resource.
    pub(super) fn remove(&self, uri: &str) {
        lock(&self.0).uris.remove(uri);
    }
}

fn lock(wanted: &Mutex<Wanted>) -> MutexGuard<'_, Wanted> {
    wanted.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends a session its notifications until it ends.
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
