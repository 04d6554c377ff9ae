//! The tools of a run by name, with the check before every call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use serde_json::{Map, Value, json};
use toolgate_chat::{ToolCall, ToolSpec};
use toolgate_infer::Cancel;
use toolgate_sandbox::output;

use super::prepared::finished;
use super::{Check, Effect, Objection, Offer, Pending, Rewrite, Tool, ToolResult, Violation};
use crate::Error;

/// Tools in the order of the offer, each with its compiled schema.
///
/// ```
/// use toolgate_tools::{CannedTool, Registry};
/// # let now = |name: &str| {
/// #     let parameters = serde_json::json!({"type": "object", "properties": {}});
/// #     let function = serde_json::json!({"name": name, "description": "The time.", "parameters": parameters});
/// #     CannedTool::from_json(&serde_json::json!({"type": "function", "function": function, "result": "noon"}))
/// # };
///
/// let mut tools = Registry::new();
/// tools.add(now("now")?)?;
/// tools.add(now("today")?)?;
/// assert_eq!(tools.names(), ["now", "today"]);
/// assert!(tools.add(now("now")?).is_err(), "the name is taken");
/// // A mistake of a model is a result that it can act on.
/// let result = tools.call_json("tomorrow", "{}");
/// assert_eq!(result.content, "there is no tool \"tomorrow\"; the tools are: now, today");
/// # Ok::<(), toolgate_tools::Error>(())
/// ```
#[derive(Default)]
pub struct Registry {
    /// Behind a lock, since the tools of a source may change.
    entries: RwLock<Entries>,
    /// The sources of some of the tools.
    sources: Vec<Arc<dyn Source>>,
    /// Locked while a thread asks the sources for news, so that no news is lost to another thread. It has the names that tools
    /// of a source had, with the place of that source. No tool of another source gets such a name: a call that was written
    /// or allowed for the one would run the other.
    names_had: Mutex<BTreeMap<String, usize>>,
    /// The policy of the tools as a text, which differs where policies differ.
    policy: String,
    /// Gets each call whose effects nobody can undo.
    witness: Option<Arc<Witness>>,
}

/// The handling of calls that need a person's answer, where nobody can be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unasked {
    /// They are denied.
    #[default]
    Deny,
    /// They are made, as far as the policy allows.
    Allow,
}

/// A function that takes a call before it is made. An error stops the call.
pub type Witness = dyn Fn(&ToolCall) -> Result<(), Error> + Send + Sync;

/// A function that is called when the tools may have changed. The caller then asks for the tools.
pub type Told = dyn Fn() + Send + Sync;

/// Tools that may change while a registry offers them.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use toolgate_tools::{CannedTool, Registry, Source, Told, Tool};
/// # let now = |name: &str| {
/// #     let parameters = serde_json::json!({"type": "object", "properties": {}});
/// #     let function = serde_json::json!({"name": name, "description": "The time.", "parameters": parameters});
/// #     CannedTool::from_json(&serde_json::json!({"type": "function", "function": function, "result": "noon"}))
/// # };
///
/// /// Has one tool, which it tells of once.
/// struct Once(Mutex<Option<CannedTool>>);
///
/// impl Source for Once {
///     fn news(&self, taken: &dyn Fn(&str) -> bool) -> Option<Vec<Box<dyn Tool>>> {
///         let tool = self.0.lock().ok()?.take()?;
///         (!taken(tool.spec().name.as_str())).then(|| vec![Box::new(tool) as Box<dyn Tool>])
///     }
/// }
///
/// let mut tools = Registry::new();
/// tools.follow(Arc::new(Once(Mutex::new(Some(now("now")?)))));
/// assert_eq!(tools.names(), ["now"]);
/// assert!(tools.may_change());
/// // Whoever shows a list of them is told when to look again, by sources that do tell.
/// let told: Arc<Told> = Arc::new(|| println!("there may be other tools now"));
/// tools.watch(&told);
/// # Ok::<(), toolgate_tools::Error>(())
/// ```
pub trait Source: Send + Sync {
    /// All of its tools, if they have changed since the last call. `taken` says whether another tool has a name.
    fn news(&self, taken: &dyn Fn(&str) -> bool) -> Option<Vec<Box<dyn Tool>>>;

    /// Calls `told` from any thread when there may be news. A source that only answers [`news`](Self::news)
    /// never calls it.
    fn watch(&self, told: Arc<Told>) {
        let _ = told;
    }
}

#[derive(Default)]
struct Entries {
    list: Vec<Arc<Entry>>,
    by_name: BTreeMap<String, usize>,
}

pub(super) struct Entry {
    pub(super) tool: Box<dyn Tool>,
    check: Check,
    /// The place of its source among the registry's.
    source: Option<usize>,
}

impl Entry {
    fn new(tool: Box<dyn Tool>, source: Option<usize>) -> Result<Self, Error> {
        let name = &tool.spec().name;
        let check = Check::new(&tool.spec().parameters)
            .map_err(|why| Error::input(format!("the schema of tool \"{name}\" is not valid: {why}")))?;
        Ok(Self { tool, check, source })
    }

    fn name(&self) -> &str {
        self.tool.spec().name.as_str()
    }

    /// The definition, which says what a call does.
    fn spec(&self) -> ToolSpec {
        self.tool.spec().clone().with_effect(self.tool.effect())
    }
}

impl Entries {
    fn push(&mut self, entry: Arc<Entry>) -> Result<(), Error> {
        let name = entry.name().to_owned();
        if self.by_name.contains_key(&name) {
            return Err(Error::input(format!("two tools are called \"{name}\"")));
        }
        self.by_name.insert(name, self.list.len());
        self.list.push(entry);
        Ok(())
    }

    /// Those that `kept` keeps, in their order.
    fn kept(&self, kept: impl Fn(&Entry) -> bool) -> Self {
        let mut rest = Self::default();
        for entry in self.list.iter().filter(|entry| kept(entry)) {
            rest.by_name.insert(entry.name().to_owned(), rest.list.len());
            rest.list.push(entry.clone());
        }
        rest
    }

    fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name).and_then(|&i| self.list.get(i))
    }
}

impl Registry {
    /// A registry without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same registry, marked with the policy of its tools. Approvals belong to that policy.
    #[must_use]
    pub fn under(mut self, policy: String) -> Self {
        self.policy = policy;
        self
    }

    /// The policy that [`under`](Self::under) set.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The same registry with a `witness`. It gets each call whose effects nobody can undo, before the call is made.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_tools::{Effect, Error};
    /// # use toolgate_tools::{Args, Registry, Tool, ToolResult};
    /// # use toolgate_chat::ToolSpec;
    /// # struct Send(ToolSpec);
    /// # impl Tool for Send {
    /// #     fn spec(&self) -> &ToolSpec { &self.0 }
    /// #     fn effect(&self) -> Effect { Effect::Changes }
    /// #     fn defies_undo(&self) -> bool { true }
    /// #     fn call(&self, _: &Args) -> ToolResult { ToolResult::ok("sent") }
    /// # }
    /// # let mut tools = Registry::new();
    /// # tools.add(Send(ToolSpec::new("send", "Send it.", serde_json::json!({"type": "object"}))?))?;
    ///
    /// // Approvals of these calls belong to this policy.
    /// let tools = tools.under("a person is asked".to_owned());
    /// assert_eq!((tools.policy(), tools.effect("send")), ("a person is asked", Some(Effect::Changes)));
    /// // A call that cannot be noted is not made.
    /// let tools = tools.telling(Arc::new(|call| Err(Error::input(format!("no room to note {}", call.name)))));
    /// assert_eq!(tools.call_json("send", "{}").content, "not run: no room to note send");
    /// # Ok::<(), toolgate_tools::Error>(())
    /// ```
    #[must_use]
    pub fn telling(mut self, witness: Arc<Witness>) -> Self {
        self.witness = Some(witness);
        self
    }

    /// The same registry with other tools.
    fn with(self, entries: Entries) -> Self {
        Self { entries: RwLock::new(entries), ..self }
    }

    /// Adds the tools of `source` after the others, and follows their changes.
    pub fn follow(&mut self, source: Arc<dyn Source>) {
        self.sources.push(source);
        self.refresh();
    }

    /// Whether the tools may change.
    pub fn may_change(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Calls `told` from any thread when the tools may have changed. The next [`specs`](Self::specs) are the
    /// new ones.
    pub fn watch(&self, told: &Arc<Told>) {
        self.sources.iter().for_each(|source| source.watch(told.clone()));
    }

    /// Takes the news of the sources. Their tools stay behind the tools that were added.
    fn refresh(&self) {
        if self.sources.is_empty() {
            return;
        }
        let mut had = self.names_had.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, source) in self.sources.iter().enumerate() {
            let others = self.read().kept(|entry| entry.source != Some(place));
            let is_anothers = |name: &str| had.get(name).is_some_and(|owner| *owner != place);
            let Some(tools) = source.news(&|name| others.get(name).is_some() || is_anothers(name)) else {
                continue;
            };
            let mut entries = others;
            for tool in tools {
                let name = tool.spec().name.to_string();
                if *had.entry(name.clone()).or_insert(place) != place {
                    tracing::warn!(name, "a tool is not offered: another source had one of that name");
                    continue;
                }
                let added = Entry::new(tool, Some(place)).and_then(|entry| entries.push(Arc::new(entry)));
                if let Err(why) = added {
                    tracing::warn!(%why, name, "a tool is not offered");
                }
            }
            *self.write() = entries;
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a tool after the others.
    ///
    /// # Errors
    /// A name that is taken, and a schema that the check cannot use.
    pub fn add(&mut self, tool: impl Tool + 'static) -> Result<(), Error> {
        self.add_boxed(Box::new(tool))
    }

    /// [`add`](Self::add) for a tool that is already boxed.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_boxed(&mut self, tool: Box<dyn Tool>) -> Result<(), Error> {
        let entry = Arc::new(Entry::new(tool, None)?);
        self.write().push(entry)
    }

    /// Keeps only the named tools, in this order. Of a source, it keeps tools that the source has now.
    ///
    /// # Errors
    /// A name that no tool has, and a name that comes twice. The message lists the names of all tools.
    ///
    /// ```
    /// use toolgate_tools::{CannedTool, Registry};
    /// # let now = |name: &str| {
    /// #     let parameters = serde_json::json!({"type": "object", "properties": {}});
    /// #     let function = serde_json::json!({"name": name, "description": "The time.", "parameters": parameters});
    /// #     CannedTool::from_json(&serde_json::json!({"type": "function", "function": function, "result": "noon"}))
    /// # };
    /// # let mut tools = Registry::new();
    /// # for name in ["now", "today"] {
    /// #     tools.add(now(name)?)?;
    /// # }
    ///
    /// let tools = tools.select(&["today".to_owned(), "now".to_owned()])?;
    /// assert_eq!(tools.names(), ["today", "now"]);
    /// // The other way round: all but these.
    /// assert_eq!(tools.without(&["now"]).names(), ["today"]);
    /// # Ok::<(), toolgate_tools::Error>(())
    /// ```
    pub fn select(mut self, names: &[String]) -> Result<Self, Error> {
        let known = self.names().join(", ");
        let mut selected = Entries::default();
        for name in names {
            let entry = self.read().get(name).cloned();
            let entry = entry
                .ok_or_else(|| Error::input(format!("no tool \"{name}\" to select; there are: {known}")))?;
            selected.push(entry)?;
        }
        self.sources.clear();
        Ok(self.with(selected))
    }

    /// Leaves out the named tools, if it has them.
    #[must_use]
    pub fn without(self, names: &[&str]) -> Self {
        let rest = self.read().kept(|entry| !names.contains(&entry.name()));
        self.with(rest)
    }

    /// The definitions, in the order of the offer.
    ///
    /// ```
    /// use toolgate_tools::{Registry, typed};
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// # struct Lamp { on: bool }
    /// let mut tools = Registry::new();
    /// tools.add(typed("switch_lamp", "Switch the lamp.", |lamp: Lamp| Ok::<_, String>(lamp.on))?)?;
    /// assert_eq!(tools.specs()[0].description, "Switch the lamp.");
    /// # Ok::<(), toolgate_tools::Error>(())
    /// ```
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.refresh();
        self.read().list.iter().map(|entry| entry.spec()).collect()
    }

    /// The tools with their definitions, choices and roles, in the order of the offer.
    ///
    /// ```
    /// use toolgate_tools::{PathKind, Role};
    /// # use toolgate_tools::{Registry, file_tools};
    /// # use toolgate_sandbox::policy::{Mode, Policy};
    /// # use toolgate_sandbox::{Root, ambient_authority};
    /// # let directory = tempfile::tempdir()?;
    /// # std::fs::write(directory.path().join("app.toml"), "port = 80\n")?;
    /// # let root = Root::open(directory.path(), ambient_authority())?;
    /// # let mut tools = Registry::new();
    /// # for tool in file_tools(&root, &Policy::default_for(Mode::Edit), Mode::Edit)? {
    /// #     tools.add(tool)?;
    /// # }
    ///
    /// // The file tools over a workspace with one file.
    /// let offers = tools.offers();
    /// let Role::Paths(path) = &offers[0].role else { return Err("reads no path".into()) };
    /// assert_eq!((path.parameter, path.takes), ("path", PathKind::Files));
    /// assert_eq!(path.places.readable().files, ["app.toml"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn offers(&self) -> Vec<Offer> {
        self.refresh();
        let list = self.read().list.clone();
        let offer = |entry: &Arc<Entry>| Offer {
            spec: entry.spec(),
            choices: entry.tool.choices(),
            role: entry.tool.role(),
        };
        list.iter().map(offer).collect()
    }

    /// The reason against a call ([`Tool::objection`]). `None` if there is none, or if the arguments do not
    /// fit.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolgate_chat::ToolCall;
    /// use toolgate_tools::Objection;
    /// # use toolgate_tools::{Registry, file_tools};
    /// # use toolgate_sandbox::policy::{Mode, Policy};
    /// # use toolgate_sandbox::{Root, ambient_authority};
    /// # let directory = tempfile::tempdir()?;
    /// # std::fs::write(directory.path().join("app.toml"), "# Where it listens\nhost = \"a\"\nport = 80\n")?;
    /// # let root = Root::open(directory.path(), ambient_authority())?;
    /// # let mut tools = Registry::new();
    /// # for tool in file_tools(&root, &Policy::default_for(Mode::Edit), Mode::Edit)? {
    /// #     tools.add(tool)?;
    /// # }
    ///
    /// // The file has more in it than that.
    /// let arguments = json!({"path": "app.toml", "content": "port = 8080"});
    /// let call = ToolCall::new("write_file", arguments.as_object().cloned().unwrap_or_default());
    /// let objection = tools.objection(&call);
    /// assert!(matches!(objection, Some(Objection::LosesText(_))));
    /// assert!(objection.is_some_and(|objection| objection.why().contains("edit_file")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn objection(&self, call: &ToolCall) -> Option<Objection> {
        let entry = self.entry(&call.name)?;
        entry.tool.objection(&entry.check.check(&call.arguments).ok()?)
    }

    /// How a call is to be written again ([`Tool::rewrite`]). `None` if it is good as it is, if the arguments do not fit, or
    /// if no tool that only looks can make the look that it needs.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolgate_chat::ToolCall;
    /// # use toolgate_tools::{Registry, file_tools};
    /// # use toolgate_sandbox::policy::{Mode, Policy};
    /// # use toolgate_sandbox::{Root, ambient_authority};
    /// # let directory = tempfile::tempdir()?;
    /// # std::fs::write(directory.path().join("app.toml"), "host = \"a\"\nport = 80\n")?;
    /// # let root = Root::open(directory.path(), ambient_authority())?;
    /// # let mut tools = Registry::new();
    /// # for tool in file_tools(&root, &Policy::default_for(Mode::Edit), Mode::Edit)? {
    /// #     tools.add(tool)?;
    /// # }
    /// # let edit = |old: &str| {
    /// #     let arguments = json!({"path": "app.toml", "old_text": old, "new_text": "port = 8080"});
    /// #     ToolCall::new("edit_file", arguments.as_object().cloned().unwrap_or_default())
    /// # };
    ///
    /// // There is no such line in the file: who writes it has not read the file.
    /// let rewrite = tools.rewrite(&edit("port: 80")).ok_or("nothing is wrong with it")?;
    /// assert!(rewrite.look.is_some_and(|look| look.name == "read_file"));
    /// assert!(tools.rewrite(&edit("port = 80")).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rewrite(&self, call: &ToolCall) -> Option<Rewrite> {
        let entry = self.entry(&call.name)?;
        let rewrite = entry.tool.rewrite(&entry.check.check(&call.arguments).ok()?)?;
        let can_look = |look: &ToolCall| {
            self.entry(&look.name).is_some_and(|entry| {
                entry.tool.effect() == Effect::Reads && entry.check.check(&look.arguments).is_ok()
            })
        };
        rewrite.look.as_ref().is_none_or(can_look).then_some(rewrite)
    }

    /// The names, in the order of the offer.
    pub fn names(&self) -> Vec<String> {
        self.refresh();
        self.read().list.iter().map(|entry| entry.name().to_owned()).collect()
    }

    /// Whether it has no tools.
    pub fn is_empty(&self) -> bool {
        self.read().list.is_empty()
    }

    /// The effect of the tool of that name; `None` if there is none.
    pub fn effect(&self, name: &str) -> Option<Effect> {
        self.entry(name).map(|entry| entry.tool.effect())
    }

    /// Finds the tool of a call, checks the arguments and has the tool prepare the call. This changes nothing.
    ///
    /// # Errors
    /// A result for the model: there is no such tool, the arguments do not fit, or the tool knows beforehand that the call
    /// fails. Also where a person would be asked about arguments that the tool does not have.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolgate_tools::Cancel;
    /// use toolgate_chat::ToolCall;
    /// # use toolgate_tools::{Registry, file_tools};
    /// # use toolgate_sandbox::policy::{Mode, Policy};
    /// # use toolgate_sandbox::{Root, ambient_authority};
    /// # let directory = tempfile::tempdir()?;
    /// # let file = directory.path().join("app.toml");
    /// # std::fs::write(&file, "port = 80\n")?;
    /// # let root = Root::open(directory.path(), ambient_authority())?;
    /// # let mut tools = Registry::new();
    /// # for tool in file_tools(&root, &Policy::default_for(Mode::Edit), Mode::Edit)? {
    /// #     tools.add(tool)?;
    /// # }
    ///
    /// let arguments = json!({"path": "app.toml", "old_text": "80", "new_text": "8080"});
    /// let call = ToolCall::new("edit_file", arguments.as_object().cloned().unwrap_or_default());
    /// let pending = tools.prepare(&call).map_err(|result| result.content)?;
    /// assert!(pending.needs_approval());
    /// assert_eq!(pending.preview().map(|preview| preview.diff.as_str()), Some("-port = 80\n+port = 8080"));
    /// // Somebody saves the file while a person reads that.
    /// std::fs::write(&file, "port = 80\nhost = \"a\"\n")?;
    /// let result = pending.run(&Cancel::default());
    /// assert_eq!(result.content, "the file was changed meanwhile: \"app.toml\"; read it again");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prepare(&self, call: &ToolCall) -> Result<Pending<'_>, Box<ToolResult>> {
        let began = Instant::now();
        let pending = self.entry(&call.name).ok_or_else(|| self.no_tool(&call.name)).and_then(|entry| {
            let checked = entry.check.check(&call.arguments);
            let args = checked.map_err(|violations| misfit(&call.name, &violations))?;
            if entry.tool.needs_approval_of(call) {
                declared(entry.tool.spec(), &call.arguments)?;
            }
            Pending::new(self, entry, call, args, began)
        });
        pending.map_err(|result| Box::new(finished(*result, began.elapsed())))
    }

    /// The result of a call of no tool.
    fn no_tool(&self, name: &str) -> Box<ToolResult> {
        let known = self.names().join(", ");
        Box::new(ToolResult::failed(format!("there is no tool \"{name}\"; the tools are: {known}")))
    }

    /// Whether a person is asked before that call.
    ///
    /// ```
    /// # use std::sync::Arc; use toolgate_tools::{Registry, file_tools}; use toolgate_chat::ToolCall;
    /// # use toolgate_sandbox::{Root, ambient_authority, policy::{Mode, Policy}};
    /// # let dir = tempfile::tempdir()?;
    /// # let root = Root::open(dir.path(), ambient_authority())?;
    /// let mut tools = Registry::new();
    /// for tool in file_tools(&root, &Policy::default_for(Mode::Edit), Mode::Edit)? {
    ///     tools.add(tool)?;
    /// }
    /// let asks = |tool: &str| tools.needs_approval(&ToolCall::new(tool, Default::default()));
    /// assert!(asks("write_file") && !asks("read_file"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn needs_approval(&self, call: &ToolCall) -> bool {
        self.entry(&call.name).is_some_and(|entry| entry.tool.needs_approval_of(call))
    }

    /// The faults of a call's arguments; none for an unknown tool.
    ///
    /// ```
    /// use toolgate_tools::{Registry, typed};
    /// use toolgate_chat::ToolCall;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Roll {
    ///     #[schemars(range(min = 2, max = 100))]
    ///     sides: u32,
    /// }
    ///
    /// let mut tools = Registry::new();
    /// tools.add(typed("roll", "Roll a die.", |roll: Roll| Ok::<_, String>(roll.sides / 2))?)?;
    /// let call = ToolCall::new("roll", [("sides".to_owned(), 1.into())].into_iter().collect());
    /// assert_eq!(tools.violations(&call)[0].to_string(), "/sides: 1 is less than the minimum of 2");
    /// # Ok::<(), toolgate_tools::Error>(())
    /// ```
    pub fn violations(&self, call: &ToolCall) -> Vec<Violation> {
        let checked = self.entry(&call.name).map(|entry| entry.check.check(&call.arguments));
        checked.and_then(Result::err).unwrap_or_default()
    }

    /// Runs a call: finds the tool, checks the arguments, calls it, times it.
    /// A fault becomes a result that the model can act on.
    pub fn call(&self, call: &ToolCall) -> ToolResult {
        self.call_until(call, &Cancel::default())
    }

    /// [`call`](Self::call) that ends early once `cancel` is set, if the tool can be ended. A command can, with everything that
    /// it started, and so can a call of an MCP server.
    ///
    /// ```
    /// # use toolgate_tools::{Registry, Status}; use toolgate_chat::ToolCall; use toolgate_tools::Cancel;
    /// let result = Registry::new().call_until(&ToolCall::new("ring", Default::default()), &Cancel::default());
    /// assert_eq!(result.status, Status::Failed);
    /// assert!(result.content.starts_with("there is no tool \"ring\""));
    /// ```
    pub fn call_until(&self, call: &ToolCall, cancel: &Cancel) -> ToolResult {
        match self.prepare(call) {
            Ok(pending) => pending.run(cancel),
            Err(result) => *result,
        }
    }

    /// [`call_until`](Self::call_until) where nobody can be asked. `unasked` decides calls that need a person's answer.
    ///
    /// ```
    /// # use toolgate_tools::{Registry, Status, Unasked, file_tools};
    /// # use toolgate_sandbox::policy::{Mode, Policy};
    /// # use toolgate_sandbox::{Root, ambient_authority};
    /// use toolgate_tools::Cancel;
    /// use toolgate_chat::ToolCall;
    /// # let dir = tempfile::tempdir()?;
    /// # let root = Root::open(dir.path(), ambient_authority())?;
    /// # let mut tools = Registry::new();
    /// # for tool in file_tools(&root, &Policy::default_for(Mode::Edit), Mode::Edit)? {
    /// #     tools.add(tool)?;
    /// # }
    /// let arguments = [("path".to_owned(), "a".into()), ("content".to_owned(), "b".into())];
    /// let call = ToolCall::new("write_file", arguments.into_iter().collect());
    /// let denied = tools.call_unasked(&call, Unasked::Deny, &Cancel::default());
    /// assert_eq!((denied.status, dir.path().join("a").exists()), (Status::Denied, false));
    /// let allowed = tools.call_unasked(&call, Unasked::Allow, &Cancel::default());
    /// assert_eq!((allowed.status, dir.path().join("a").exists()), (Status::Ok, true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_unasked(&self, call: &ToolCall, unasked: Unasked, cancel: &Cancel) -> ToolResult {
        match self.let_through(call, unasked) {
            Ok(pending) => pending.run(cancel),
            Err(result) => *result,
        }
    }

    /// [`call_unasked`](Self::call_unasked) for async callers, by [`Tool::call_async`]. A tool without its
    /// own holds the polling thread, so that thread must be allowed to wait.
    pub async fn call_async(&self, call: &ToolCall, unasked: Unasked, cancel: &Cancel) -> ToolResult {
        match self.let_through(call, unasked) {
            Ok(pending) => pending.run_async(cancel).await,
            Err(result) => *result,
        }
    }

    /// Makes a call ready where nobody can be asked.
    fn let_through(&self, call: &ToolCall, unasked: Unasked) -> Result<Pending<'_>, Box<ToolResult>> {
        let pending = self.prepare(call)?;
        if unasked == Unasked::Deny && pending.needs_approval() {
            return Err(Box::new(ToolResult::denied(format!(
                "the policy has a person asked before this {} call, and nobody can be asked here; \
                 --approve auto lets such calls through",
                call.name
            ))));
        }
        Ok(pending)
    }

    /// Gives the witness a call whose effects nobody can undo.
    pub(super) fn tell(&self, call: &ToolCall) -> Result<(), Error> {
        self.witness.as_deref().map_or(Ok(()), |tell| tell(call))
    }

    /// [`call`](Self::call) with the arguments as JSON text, for programs and tests.
    pub fn call_json(&self, name: &str, arguments: &str) -> ToolResult {
        match serde_json::from_str::<Map<String, Value>>(arguments) {
            Ok(arguments) => self.call(&ToolCall::new(name, arguments)),
            Err(why) => ToolResult::failed(format!("the arguments are not a JSON object: {why}")),
        }
    }

    fn entry(&self, name: &str) -> Option<Arc<Entry>> {
        self.read().get(name).cloned()
    }
}

/// Refuses arguments that a tool does not have, if its schema names its arguments and is silent about others. Otherwise a
/// person who is asked would have to find the arguments that count.
fn declared(spec: &ToolSpec, arguments: &Map<String, Value>) -> Result<(), Box<ToolResult>> {
    const SAY_MORE: [&str; 7] = [
        "additionalProperties",
        "patternProperties",
        "unevaluatedProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "$ref",
    ];
    let parameters = &spec.parameters;
    let Some(declared) = parameters.get("properties").and_then(Value::as_object) else { return Ok(()) };
    if SAY_MORE.iter().any(|keyword| parameters.get(keyword).is_some()) {
        return Ok(());
    }
    let others = arguments.keys().filter(|name| !declared.contains_key(*name));
    let names: Vec<String> = others.map(|name| output::name(name)).collect();
    if names.is_empty() {
        return Ok(());
    }
    let why = format!("{} has no such argument: {}; leave it out", spec.name, names.join(", "));
    Err(Box::new(ToolResult::failed(why)))
}

/// The result of a call with faulty arguments: a sentence for each fault, and the same as data.
fn misfit(name: &str, violations: &[Violation]) -> Box<ToolResult> {
    let sentences: Vec<String> = violations.iter().map(Violation::to_string).collect();
    let content = format!("the arguments of {name} do not fit its schema: {}", sentences.join("; "));
    Box::new(ToolResult { data: Some(json!({"violations": violations})), ..ToolResult::failed(content) })
}
