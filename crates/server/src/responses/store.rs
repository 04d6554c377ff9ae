//! Keeps responses in memory. Later requests may go on from them. The oldest give way to new ones.
//!
//! Invariant: what is kept is within [`Bounds`]. A response counts the whole conversation that led to it,
//! although texts are shared. So the count is never less than what is held.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// The bounds of what is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Responses. Default 1,000.
    pub(crate) responses: usize,
    /// Bytes of JSON of all responses, with their conversations. Default 64 MiB, some hundred turns of a
    /// coding agent.
    pub(crate) bytes: usize,
    /// Bytes of one response, with its conversation. Default 16 MiB, twice what a request may have.
    pub(crate) each: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { responses: 1_000, bytes: 64 << 20, each: 16 << 20 }
    }
}

/// Bytes of an item beside its text.
const AROUND: usize = 64;

/// A hint for a client that asks for a response that is not there.
pub(super) const WHAT_IS_KEPT: &str =
    "the latest are kept as long as the server runs, but for those with \"store\": false";

/// The text of an item of a conversation, as JSON.
pub(crate) type Item = Arc<str>;

/// The responses that are kept.
#[derive(Debug, Default)]
pub(crate) struct Store {
    bounds: Bounds,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    responses: HashMap<String, Entry>,
    /// Their ids, the oldest first.
    order: VecDeque<String>,
    /// The responses' own items, by their ids.
    items: HashMap<String, Item>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    /// The response as it was sent.
    body: Item,
    /// All items up to its end.
    conversation: Vec<Item>,
    /// The ids of its own items.
    own: Vec<String>,
    bytes: usize,
}

impl Store {
    /// A response as it was sent.
    pub(super) fn response(&self, id: &str) -> Option<Item> {
        self.locked().responses.get(id).map(|entry| entry.body.clone())
    }

    /// The items of the conversation up to the end of a response.
    pub(super) fn conversation(&self, id: &str) -> Option<Vec<Item>> {
        self.locked().responses.get(id).map(|entry| entry.conversation.clone())
    }

    /// An item of a response.
    pub(super) fn item(&self, id: &str) -> Option<Item> {
        self.locked().items.get(id).cloned()
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Keeps a response with the items that it answers. A response that is too large by itself is not kept.
    pub(super) fn keep(&self, id: &str, response: &Value, mut conversation: Vec<Item>) {
        let written = response.get("output").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut own = Vec::with_capacity(written.len());
        for item in written {
            let text = Item::from(item.to_string());
            if let Some(id) = item.get("id").and_then(Value::as_str) {
                own.push((id.to_owned(), text.clone()));
            }
            conversation.push(text);
        }
        let body = Item::from(response.to_string());
        let bytes = body.len() + conversation.iter().map(|item| item.len() + AROUND).sum::<usize>();
        if bytes > self.bounds.each.min(self.bounds.bytes) || self.bounds.responses == 0 {
            return;
        }
        let mut kept = self.locked();
        while kept.bytes + bytes > self.bounds.bytes || kept.responses.len() >= self.bounds.responses {
            let Some(oldest) = kept.order.pop_front() else { break };
            kept.remove(&oldest);
        }
        let ids = own.iter().map(|(id, _)| id.clone()).collect();
        kept.items.extend(own);
        kept.bytes += bytes;
        kept.order.push_back(id.to_owned());
        kept.responses.insert(id.to_owned(), Entry { body, conversation, own: ids, bytes });
    }

    /// Forgets a response. Tells whether there was one.
    pub(super) fn remove(&self, id: &str) -> bool {
        let mut kept = self.locked();
        kept.order.retain(|other| other != id);
        kept.remove(id)
    }

    fn locked(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn remove(&mut self, id: &str) -> bool {
        let Some(entry) = self.responses.remove(id) else { return false };
        for item in &entry.own {
            self.items.remove(item);
        }
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    fn store(responses: usize, bytes: usize) -> Store {
        Store { bounds: Bounds { responses, bytes, each: 700 }, ..Store::default() }
    }

    fn keep(store: &Store, id: &str, text: &str) {
        let output = json!([{"id": format!("msg_{id}"), "content": text}]);
        let before = Item::from("{\"role\":\"user\",\"content\":\"Hello\"}");
        store.keep(id, &json!({"id": id, "output": output}), vec![before]);
    }

    #[test]
    fn a_conversation_is_what_came_before_and_what_was_written() {
        let store = Store::default();
        keep(&store, "a", "one");
        let conversation = store.conversation("a").unwrap();
        assert_eq!(conversation.len(), 2);
        assert_eq!(conversation.last(), store.item("msg_a").as_ref());
        assert!(store.response("a").unwrap().contains("one"));
        assert!(store.remove("a") && !store.remove("a"));
        assert!(store.response("a").is_none() && store.item("msg_a").is_none());
        assert_eq!(store.locked().bytes, 0);
    }

    #[test]
    fn the_oldest_give_way() {
        let few = store(2, usize::MAX);
        for id in ["a", "b", "c"] {
            keep(&few, id, "text");
        }
        assert!(few.response("a").is_none() && few.item("msg_a").is_none());
        assert!(few.response("b").is_some() && few.response("c").is_some());

        let small = store(100, 1_500);
        for id in ["a", "b", "c"] {
            keep(&small, id, &"x".repeat(150));
        }
        assert!(small.response("a").is_none() && small.response("c").is_some());
        assert!(small.locked().bytes <= 1_500);
        keep(&small, "large", &"x".repeat(300));
        assert!(small.response("large").is_none(), "it alone is more than the bound");
        assert!(small.response("c").is_some(), "and nothing gives way to it");
    }
}
