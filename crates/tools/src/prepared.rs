//! A call between its check and its run. The tool, the arguments and the change are fixed, and nothing has changed yet.
//!
//! Invariant: [`Pending::run`] runs exactly what [`Pending::preview`] showed: the same tool, even if another one has its name by
//! now, the same arguments, and the change that the tool prepared.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use toolgate_chat::ToolCall;
use toolgate_infer::Cancel;
use toolgate_sandbox::output;

use super::registry::{Entry, Registry};
use super::{Args, Preview, ToolResult};

/// A call that its tool has prepared ([`Tool::prepare`](super::Tool::prepare)).
pub trait PreparedCall: Send {
    /// The change that it will make.
    fn preview(&self) -> Preview;

    /// Makes the change that was shown, or none if that is not possible any more.
    fn run(self: Box<Self>) -> ToolResult;
}

/// A call that may be made: [`Registry::prepare`] found its tool and checked its arguments.
///
/// ```
/// # use toolgate_tools::{Registry, file_tools};
/// # use toolgate_sandbox::policy::{Mode, Policy};
/// # use toolgate_sandbox::{Root, ambient_authority};
/// # use toolgate_chat::ToolCall;
/// # let directory = tempfile::tempdir()?;
/// # std::fs::write(directory.path().join("app.toml"), "port = 80\n")?;
/// # let root = Root::open(directory.path(), ambient_authority())?;
/// # let mut tools = Registry::new();
/// # for tool in file_tools(&root, &Policy::default_for(Mode::Edit), Mode::Edit)? {
/// #     tools.add(tool)?;
/// # }
/// # let arguments = serde_json::json!({"path": "app.toml", "content": ""});
/// # let call = ToolCall::new("write_file", arguments.as_object().cloned().unwrap_or_default());
/// // A call that empties `app.toml`.
/// let pending = tools.prepare(&call).map_err(|result| result.content)?;
/// assert_eq!((pending.name(), &pending.arguments()["content"]), ("write_file", &"".into()));
/// assert!(pending.origin().is_empty(), "the tool is one of the program's own");
/// let preview = pending.preview().ok_or("no preview")?;
/// assert_eq!(preview.summary, "\"app.toml\" has 1 line, 10 bytes and gets 0 lines, 0 bytes");
/// // The digest belongs to this call over these bytes, and to no other.
/// let digest = pending.digest();
/// std::fs::write(directory.path().join("app.toml"), "port = 81\n")?;
/// assert_ne!(tools.prepare(&call).map_err(|result| result.content)?.digest(), digest);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pending<'r> {
    registry: &'r Registry,
    entry: Arc<Entry>,
    call: ToolCall,
    args: Args,
    prepared: Option<Box<dyn PreparedCall>>,
    preview: Option<Preview>,
    /// The time of the preparation. The time that a person thinks does not count.
    took: Duration,
}

impl<'r> Pending<'r> {
    pub(super) fn new(
        registry: &'r Registry,
        entry: Arc<Entry>,
        call: &ToolCall,
        args: Args,
        began: Instant,
    ) -> Result<Self, Box<ToolResult>> {
        let prepared = entry.tool.prepare(&args)?;
        let preview = prepared.as_ref().map(|prepared| prepared.preview());
        let took = began.elapsed();
        Ok(Self { registry, entry, call: call.clone(), args, prepared, preview, took })
    }

    /// The tool's name.
    pub fn name(&self) -> &str {
        &self.call.name
    }

    /// The checked arguments.
    pub fn arguments(&self) -> &Map<String, Value> {
        self.args.as_map()
    }

    /// The owner of the tool ([`Tool::origin`](super::Tool::origin)).
    pub fn origin(&self) -> String {
        self.entry.tool.origin()
    }

    /// The change that it would make, if its tool knows it.
    pub fn preview(&self) -> Option<&Preview> {
        self.preview.as_ref()
    }

    /// Whether a person is asked before the call.
    pub fn needs_approval(&self) -> bool {
        self.entry.tool.needs_approval_of(&self.call)
    }

    /// The SHA-256 of the tool, its owner, its definition, the arguments, the change and the policy.
    pub fn digest(&self) -> [u8; 32] {
        let tool = &self.entry.tool;
        let (spec, effect) = (tool.spec(), format!("{:?}", tool.effect()));
        let (parameters, arguments) =
            (spec.parameters.to_string(), Value::Object(self.args.as_map().clone()).to_string());
        let digest = self.preview.as_ref().map(|preview| preview.digest).unwrap_or_default();
        let mut hash = Sha256::new();
        for part in [
            spec.name.as_str().as_bytes(),
            tool.origin().as_bytes(),
            spec.description.as_bytes(),
            parameters.as_bytes(),
            effect.as_bytes(),
            arguments.as_bytes(),
            &digest,
            self.registry.policy().as_bytes(),
        ] {
            // The length keeps parts from running into each other.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }

    /// Makes the call as it was shown. Once `cancel` is set, a tool that can be ended ends early.
    pub fn run(self, cancel: &Cancel) -> ToolResult {
        let began = Instant::now();
        let Self { registry, entry, call, args, prepared, took, .. } = self;
        let result = match begun(registry, &entry, &call, prepared) {
            Some(result) => result,
            None => entry.tool.call_until(&args, cancel),
        };
        finished(result, took + began.elapsed())
    }

    /// [`run`](Self::run) by [`Tool::call_async`](crate::Tool::call_async).
    pub async fn run_async(self, cancel: &Cancel) -> ToolResult {
        let began = Instant::now();
        let Self { registry, entry, call, args, prepared, took, .. } = self;
        let result = match begun(registry, &entry, &call, prepared) {
            Some(result) => result,
            None => entry.tool.call_async(&args, cancel).await,
        };
        finished(result, took + began.elapsed())
    }
}

/// Tells the witness and makes a prepared change; nothing where the tool itself is to be called now.
fn begun(
    registry: &Registry,
    entry: &Entry,
    call: &ToolCall,
    prepared: Option<Box<dyn PreparedCall>>,
) -> Option<ToolResult> {
    let noted = match entry.tool.defies_undo() {
        true => registry.tell(call),
        false => Ok(()),
    };
    match noted {
        Err(why) => Some(ToolResult::failed(format!("not run: {why}"))),
        Ok(()) => prepared.map(|prepared| prepared.run()),
    }
}

/// A result as a model sees it, with its time. No character that could hide or reorder text stays.
pub(super) fn finished(mut result: ToolResult, took: Duration) -> ToolResult {
    result.content = output::for_model(result.content.as_bytes(), usize::MAX).text;
    result.ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    result
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use serde_json::json;
    use toolgate_chat::ToolSpec;

    use super::*;
    use crate::{Calling, Effect, Status, Tool, Unasked};

    /// Waits for the word to stop, and counts how often it is called.
    struct Patient(ToolSpec, Arc<AtomicUsize>);

    impl Tool for Patient {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }

        fn effect(&self) -> Effect {
            Effect::Reads
        }

        fn call(&self, _: &Args) -> ToolResult {
            ToolResult::failed("the plain call was made")
        }

        fn call_async<'a>(&'a self, _: &'a Args, cancel: &'a Cancel) -> Calling<'a> {
            Box::pin(async {
                self.1.fetch_add(1, Ordering::Relaxed);
                cancel.cancelled().await;
                ToolResult::ok("it is over")
            })
        }
    }

    /// Counts how often it is woken.
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn registry() -> (Registry, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let parameters = json!({"type": "object", "properties": {}});
        let spec = ToolSpec::new("wait", "Wait.", parameters).unwrap();
        let mut registry = Registry::new();
        registry.add(Patient(spec, calls.clone())).unwrap();
        (registry, calls)
    }

    #[test]
    fn a_tool_that_awaits_holds_no_thread_and_is_called_once() {
        let (registry, calls) = registry();
        let (call, cancel) = (ToolCall::new("wait", Map::new()), Cancel::default());
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let mut called = std::pin::pin!(registry.call_async(&call, Unasked::Deny, &cancel));
        assert!(called.as_mut().poll(&mut context).is_pending(), "this very thread goes on");
        assert_eq!((calls.load(Ordering::Relaxed), woken.0.load(Ordering::Relaxed)), (1, 0));
        cancel.cancel();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        let Poll::Ready(result) = called.as_mut().poll(&mut context) else { panic!("it waits on") };
        assert_eq!((result.status, result.content.as_str()), (Status::Ok, "it is over"));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn an_async_call_is_checked_like_any_other() {
        let (registry, calls) = registry();
        let cancel = Cancel::default();
        let unknown = ToolCall::new("run", Map::new());
        let result = pollster::block_on(registry.call_async(&unknown, Unasked::Deny, &cancel));
        assert_eq!(result.content, "there is no tool \"run\"; the tools are: wait");
        assert_eq!(calls.load(Ordering::Relaxed), 0);
    }
}
