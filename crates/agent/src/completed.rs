//! Which calls have their answer already: making one again would change nothing and say the same.

use toolgate_chat::ToolCall;

/// The calls answered since something last changed.
#[derive(Default)]
pub(super) struct Completed(Vec<ToolCall>);

impl Completed {
    /// Notes an answered call. If it changed something, earlier answers may be out of date, but the same
    /// change once more would still be the same.
    pub(super) fn record(&mut self, call: &ToolCall, changed: bool) {
        if changed {
            self.0.clear();
        }
        self.0.push(call.clone());
    }

    /// How often a call was answered since something last changed.
    pub(super) fn times(&self, call: &ToolCall) -> usize {
        self.0.iter().filter(|made| made.same_request(call)).count()
    }

    /// The completed calls.
    pub(super) fn calls(&self) -> &[ToolCall] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, path: &str) -> ToolCall {
        ToolCall::new(name, serde_json::Map::from_iter([("path".to_owned(), path.into())]))
    }

    fn has(completed: &Completed, wanted: &ToolCall) -> bool {
        completed.calls().iter().any(|call| call.same_request(wanted))
    }

    #[test]
    fn a_read_is_completed_until_something_changes() {
        let mut completed = Completed::default();
        completed.record(&call("read_file", "a"), false);
        assert!(has(&completed, &call("read_file", "a")));
        assert!(!has(&completed, &call("read_file", "b")));
        completed.record(&call("write_file", "a"), true);
        assert!(!has(&completed, &call("read_file", "a")), "the file may read differently now");
        assert!(has(&completed, &call("write_file", "a")), "the same write again changes nothing");
    }
}
