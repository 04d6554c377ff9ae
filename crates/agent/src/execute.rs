//! The calls of a turn, run: one after the other, but for calls that only look, which run beside each other.

use std::num::NonZeroUsize;
use std::thread;

use toolgate_chat::ToolCall;

use toolgate_engine::Cancel;
use toolgate_tools::{Effect, Registry, ToolResult};

/// Calls that run beside each other at most.
const TOGETHER: usize = 8;

/// How many calls from the front of `calls`, at least one if there is any, may run at the same time: those that only
/// look and that nobody is asked about.
pub(super) fn together(registry: &Registry, calls: &[ToolCall]) -> usize {
    let only_looks = |call: &&ToolCall| {
        registry.effect(&call.name) == Some(Effect::Reads) && !registry.needs_approval(call)
    };
    calls.iter().take(TOGETHER).take_while(only_looks).count().max(calls.len().min(1))
}

/// The results of calls that run at the same time, in the order of the calls; those that can be end early once cancelled.
pub(super) fn call_all(registry: &Registry, calls: &[ToolCall], cancel: &Cancel) -> Vec<ToolResult> {
    match NonZeroUsize::new(calls.len()) {
        None => Vec::new(),
        Some(NonZeroUsize::MIN) => calls.iter().map(|call| registry.call_until(call, cancel)).collect(),
        Some(_) => thread::scope(|scope| {
            let run = |call| move || registry.call_until(call, cancel);
            let running: Vec<_> = calls.iter().map(|call| scope.spawn(run(call))).collect();
            let stopped = |_| ToolResult::failed("the tool stopped unexpectedly; it may be tried again");
            running.into_iter().map(|call| call.join().unwrap_or_else(stopped)).collect()
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::sync::{Arc, Barrier};

    use serde_json::{Map, json};
    use toolgate_chat::ToolSpec;

    use super::*;
    use toolgate_tools::{Args, Tool};

    /// Waits until as many calls are in it as its barrier asks for.
    struct Meeting {
        spec: ToolSpec,
        effect: Effect,
        barrier: Arc<Barrier>,
    }

    impl Tool for Meeting {
        fn spec(&self) -> &ToolSpec {
            &self.spec
        }
        fn effect(&self) -> Effect {
            self.effect
        }
        fn call(&self, _: &Args) -> ToolResult {
            self.barrier.wait();
            ToolResult::ok("met")
        }
    }

    fn registry(calls: usize) -> Registry {
        let mut registry = Registry::new();
        let barrier = Arc::new(Barrier::new(calls));
        for (name, effect) in [("look", Effect::Reads), ("change", Effect::Changes)] {
            let spec = ToolSpec::new(name, "", json!({"type": "object"})).unwrap();
            registry.add(Meeting { spec, effect, barrier: barrier.clone() }).unwrap();
        }
        registry
    }

    fn call(name: &str) -> ToolCall {
        ToolCall::new(name, Map::new())
    }

    #[test]
    fn what_only_looks_runs_at_the_same_time() {
        let registry = registry(3);
        // One after the other, the first would wait for ever.
        let results = call_all(&registry, &[call("look"), call("look"), call("look")], &Cancel::default());
        assert_eq!(results.iter().map(|result| result.content.as_str()).collect::<Vec<_>>(), ["met"; 3]);
    }

    #[test]
    fn what_changes_something_runs_alone_and_in_its_place() {
        let registry = registry(1);
        let calls = [call("look"), call("look"), call("change"), call("change"), call("look")];
        assert_eq!(together(&registry, &calls), 2);
        assert_eq!(together(&registry, calls.get(2..).unwrap()), 1);
        assert_eq!(together(&registry, calls.get(3..).unwrap()), 1);
        assert_eq!(together(&registry, calls.get(4..).unwrap()), 1);
        assert_eq!(together(&registry, &[]), 0);
        let many: Vec<ToolCall> = (0..20).map(|_| call("look")).collect();
        assert_eq!(together(&registry, &many), TOGETHER);
        assert_eq!(together(&registry, &[call("unknown"), call("look")]), 1, "it fails, but in order");
    }
}
