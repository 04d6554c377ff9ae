//! One case from start to record: its workspace and tools, the agent's run, the verdict.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, mpsc};
use std::time::Instant;

use regex::Regex;
use serde_json::Value;
use toolgate_chat::{Message, Transcript};
use toolgate_infer::Stats;
use toolgate_sandbox::policy::Mode;

use super::bfcl::{Expected, Question};
use super::check::check;
use super::language;
use super::record::{Call, Decided, Record};
use super::repository::{changed, stamps};
use super::task::{Offered, Task};
use toolgate_agent::hints::Watches;
use toolgate_agent::{self as agent, Agent, Approval, Error, Event, Final, Hints, Kind};
use toolgate_engine::{Beginning, Cancel, Engine, Sampling, TurnRequest};
use toolgate_tools::memory::{self, Memory};
use toolgate_tools::{CannedTool, Registry, Status};

/// A line of a task file.
///
/// ```
/// use serde_json::json;
/// use toolgate_lab::Case;
///
/// let question = json!({"id": "hello", "category": "irrelevance", "tools": [], "expect": "no_call",
///     "messages": [{"role": "user", "content": "Hello!"}]});
/// let task = json!({"id": "port", "category": "read", "mode": "intel", "files": {}, "tools": "builtin",
///     "prompt": "Which port does app.toml set?", "max_iterations": 4, "expect": {}});
/// let (question, task) = (Case::from_json(question)?, Case::from_json(task)?);
/// assert!(matches!((&question, &task), (Case::Question(_), Case::Task(_))));
/// assert!(!question.wants_call() && task.wants_call());
/// assert_eq!((question.id(), question.category()), ("hello", "irrelevance"));
/// # Ok::<(), toolgate_agent::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum Case {
    /// An agentic task.
    Task(Box<Task>),
    /// A BFCL question.
    Question(Box<Question>),
}

/// How cases are run.
pub struct Options<'a> {
    /// The system prompt; `None` is the engine's own.
    pub system: Option<String>,
    /// Tokens a turn at most.
    pub max_tokens: usize,
    /// How tokens are drawn; `None` is as suits the model.
    pub temperature: Option<f32>,
    /// Calls a turn at most; `None` leaves it to the agent for tasks, and to the engine's model for questions.
    pub parallel: Option<NonZeroUsize>,
    /// The built-in tools over a workspace.
    pub builtin: &'a Builtin,
    /// Which rules may steer by the words of requests.
    pub hints: Hints,
}

impl Options<'_> {
    fn sampling(&self, engine: &dyn Engine) -> Sampling {
        let usual = engine.default_sampling();
        let temperature = self.temperature.unwrap_or(usual.temperature);
        usual.temperature(temperature).max_tokens(self.max_tokens)
    }
}

/// Makes the built-in tools over a directory and a memory.
pub type Builtin = dyn Fn(&Path, Mode, Memory) -> Result<Registry, Error> + Sync;

/// The built-in tools that tasks know, in the order they are offered.
const KNOWN: [&str; 6] =
    ["read_file", "list_directory", "search_codebase", "run_command", "write_file", "edit_file"];

/// The category whose tasks have a memory.
const MEMORY: &str = "memory";

/// The tools such tasks have besides.
const OF_MEMORY: [&str; 3] = ["store_memory", "recall_memory", "think"];

impl Case {
    /// Reads a line's object: a task has a `prompt`, a question `messages`.
    ///
    /// # Errors
    /// What is wrong with the object.
    pub fn from_json(value: Value) -> Result<Self, Error> {
        let wrong = |why: serde_json::Error| Error::input(why.to_string());
        if value.get("prompt").is_some() {
            serde_json::from_value(value).map(|task| Self::Task(Box::new(task))).map_err(wrong)
        } else {
            serde_json::from_value(value).map(|question| Self::Question(Box::new(question))).map_err(wrong)
        }
    }

    /// Its name.
    pub fn id(&self) -> &str {
        match self {
            Self::Task(task) => &task.id,
            Self::Question(question) => &question.id,
        }
    }

    /// What the user says last.
    ///
    /// ```
    /// # use toolgate_lab::Case;
    /// # use serde_json::json;
    /// let question = Case::from_json(json!({
    ///     "id": "hello", "category": "talk", "expect": "no_call", "tools": [],
    ///     "messages": [{"role": "user", "content": "Hello!"}],
    /// }))?;
    /// assert_eq!(question.request(), "Hello!");
    /// # Ok::<(), toolgate_agent::Error>(())
    /// ```
    pub fn request(&self) -> &str {
        match self {
            Self::Task(task) => &task.prompt,
            Self::Question(question) => question.messages.last().map_or("", |said| said.content()),
        }
    }

    /// Whether it wants a call at all.
    pub fn wants_call(&self) -> bool {
        match self {
            Self::Task(task) => !task.expect.no_calls,
            Self::Question(question) => question.expect != Expected::NoCall,
        }
    }

    /// The group it is counted in.
    pub fn category(&self) -> &str {
        match self {
            Self::Task(task) => &task.category,
            Self::Question(question) => &question.category,
        }
    }
}

/// Runs cases, so many at the same time; `each` is told of every record as it comes, with the case's place in `cases`.
///
/// # Errors
/// The first of [`run`], or of `each`; cases being run then are finished, and their records lost.
///
/// ```
/// use std::num::NonZeroUsize;
/// use toolgate_engine::Cancel;
/// use toolgate_lab::{Case, Options, run_all};
/// # use std::sync::Arc;
/// # use serde_json::json;
/// # use toolgate_engine::{self as engine, Engine, LocalEngine};
/// # use toolgate_tools::Registry;
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # let call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
/// #     .on("Hello", "Hello.")
/// #     .on("weather", call);
/// # let engine: Arc<dyn Engine> = Arc::new(LocalEngine::scripted(model, engine::Options::default())?);
/// # let question = |id: &str, text: &str, expect: &str| {
/// #     let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
/// #     let function = json!({"name": "get_weather", "description": "The weather.", "parameters": parameters});
/// #     Case::from_json(json!({
/// #         "id": id, "category": "weather", "expect": expect,
/// #         "messages": [{"role": "user", "content": text}],
/// #         "tools": [{"type": "function", "function": function}],
/// #     }))
/// # };
/// # let options =
/// #     Options { system: None, max_tokens: 100, temperature: None, parallel: None, builtin: &|_, _, _| Ok(Registry::new()), hints: toolgate_agent::Hints::auto() };
///
/// let weather = question("weather", "How is the weather in Oslo?", "at_least_one_call")?;
/// let greeting = question("greeting", "Hello!", "no_call")?;
/// let mut passed = Vec::new();
/// let one_by_one = NonZeroUsize::MIN;
/// let cancel = Cancel::default();
/// run_all(&[&weather, &greeting], &engine, &options, one_by_one, &cancel, &mut |at, record| {
///     passed.push((at, record.pass));
///     Ok(())
/// })?;
/// assert_eq!(passed, [(0, true), (1, true)]);
/// # Ok::<(), toolgate_agent::Error>(())
/// ```
pub fn run_all(
    cases: &[&Case],
    engine: &Arc<dyn Engine>,
    options: &Options<'_>,
    at_once: NonZeroUsize,
    cancel: &Cancel,
    each: &mut dyn FnMut(usize, Record) -> Result<(), Error>,
) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (send, made) = mpsc::channel();
        for _ in 0..at_once.get().min(cases.len()) {
            let (next, send) = (&next, send.clone());
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(at) else { break };
                    // Nobody listens any more after an error.
                    if send.send((at, run(case, engine, options, cancel))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        made.into_iter().try_for_each(|(at, record)| each(at, record?))
    })
}

/// Runs a case and decides about it. A run that fails is a record that says so.
///
/// # Errors
/// [`Kind::Cancelled`], a case that cannot be set up, or an engine that does not work at all.
///
/// ```
/// use toolgate_engine::Cancel;
/// use toolgate_lab::{Case, Options, run};
/// use toolgate_tools::{Registry, file_tools};
/// use toolgate_sandbox::policy::Policy;
/// use toolgate_sandbox::{Root, ambient_authority};
/// # use std::sync::Arc;
/// # use toolgate_engine::{self as engine, Engine, LocalEngine};
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # let call = "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"app.toml\"}}\n</tool_call>";
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
/// #     .on("port = 80", "It is port 80.")
/// #     .on("app.toml", call);
/// # let engine: Arc<dyn Engine> = Arc::new(LocalEngine::scripted(model, engine::Options::default())?);
/// # let task = Case::from_json(serde_json::json!({
/// #     "id": "port", "category": "read", "mode": "intel", "files": {"app.toml": "port = 80\n"},
/// #     "tools": "builtin", "prompt": "Which port does app.toml set?", "max_iterations": 4,
/// #     "expect": {"calls_include": [{"name": "read_file"}], "final_contains_any": ["80"]},
/// # }))?;
///
/// let options = Options {
///     system: None,
///     max_tokens: 300,
///     temperature: None,
///     parallel: None,
///     builtin: &|workspace, mode, _memory| {
///         let mut tools = Registry::new();
///         let root = Root::open(workspace, ambient_authority())?;
///         for tool in file_tools(&root, &Policy::default_for(mode), mode)? {
///             tools.add(tool)?;
///         }
///         Ok(tools)
///     },
///     hints: toolgate_agent::Hints::auto(),
/// };
/// let record = run(&task, &engine, &options, &Cancel::default())?;
/// assert!(record.pass, "{:?}", record.reasons);
/// assert_eq!(record.answer, "It is port 80.");
/// # Ok::<(), toolgate_agent::Error>(())
/// ```
pub fn run(
    case: &Case,
    engine: &Arc<dyn Engine>,
    options: &Options<'_>,
    cancel: &Cancel,
) -> Result<Record, Error> {
    let start = Instant::now();
    let mut record = match case {
        Case::Task(task) => run_task(task, engine, options, cancel),
        Case::Question(question) => run_question(question, engine.as_ref(), options, cancel),
    }
    .map_err(|error| error.context(case.id()))?;
    if cancel.is_cancelled() {
        return Err(Error::new(Kind::Cancelled, "cancelled"));
    }
    record.seconds = start.elapsed().as_secs_f64();
    record.leak = LEAK.as_ref().is_some_and(|leak| leak.is_match(&record.answer));
    record.no_access = NO_ACCESS.as_ref().is_some_and(|no_access| no_access.is_match(&record.answer));
    record.echo = Hints::echoes().beginning(case.request(), &record.answer, true) == Beginning::Found;
    record.same_language = language::is_same(case.request(), &record.answer);
    Ok(record)
}

/// Text of a call where an answer should be.
static LEAK: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"<\|?/?tool_?calls?\b|<function[=_>]|\[TOOL_CALLS\]|"(?:arguments|parameters)"\s*:\s*\{"#)
        .ok()
});

/// What models say that do not know what they may do.
static NO_ACCESS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\b(?:don.t|do not|doesn.t|can.?t|cannot|unable to|no)\b[^.\n]{0,30}\baccess\b|\bas an ai\b",
    )
    .ok()
});

fn run_task(
    task: &Task,
    engine: &Arc<dyn Engine>,
    options: &Options<'_>,
    cancel: &Cancel,
) -> Result<Record, Error> {
    let io = |why: std::io::Error| Error::input(format!("the task's workspace: {why}"));
    let workspace = tempfile::tempdir().map_err(io)?;
    if let Some(repository) = &task.repository {
        repository.copy_to(workspace.path())?;
    }
    for (path, text) in &task.files {
        let path = workspace.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(workspace.path())).map_err(io)?;
        std::fs::write(path, text).map_err(io)?;
    }
    let before = task.repository.as_ref().map(|_| stamps(workspace.path())).transpose()?;
    let registry = match &task.tools {
        Offered::Builtin(_) => {
            let memory = Memory::in_process()?;
            for remembered in &task.memory {
                memory.store(memory::Kind::Note, &remembered.content, &remembered.tags, None)?;
            }
            let all = (options.builtin)(workspace.path(), task.mode, memory)?;
            let offered: &[&str] = if task.category == MEMORY { &OF_MEMORY } else { &[] };
            let there = all.names();
            let known = KNOWN.iter().chain(offered).filter(|name| there.iter().any(|there| there == **name));
            let known: Vec<String> = known.map(|name| (*name).to_owned()).collect();
            all.select(&known)?
        }
        Offered::Custom(definitions) => {
            let mut registry = Registry::new();
            for definition in definitions {
                registry.add(CannedTool::from_json(definition)?)?;
            }
            registry
        }
    };
    let agent_options = agent::Options::default()
        // The workspace is the task's own, and goes with it.
        .approval(Approval::Auto)
        .max_iterations(task.max_iterations)
        .parallel(options.parallel)
        .sampling(options.sampling(engine.as_ref()))
        .hints(options.hints.clone())
        .tells_steering(true);
    let agent = Agent::new(engine.clone(), registry, agent_options);
    let mut transcript = Transcript::new();
    if let Some(system) = &options.system {
        transcript.push(Message::System(system.clone()));
    }
    transcript.push(Message::User(task.prompt.clone()));
    let mut record = blank(&task.id, &task.category);
    let (mut decisions, mut calls_before, mut steered) = (Vec::new(), 0, None);
    let mut note = |event: Event| match event {
        Event::Decision { p_call, threshold, .. } => {
            decisions.push(Decided { calls_before, p_call, threshold });
        }
        Event::ToolCall { .. } => calls_before += 1,
        Event::Steered { hints } => steered = Some(hints),
        _ => {}
    };
    let outcome = agent.run(&mut transcript, cancel, &mut note);
    (record.decisions, record.hints) = (decisions, steered);
    match outcome {
        Ok(outcome) => record.fill(outcome),
        Err(error) if error.kind() == Kind::Overflow => record.stop_reason = format!("error: {error}"),
        Err(error) => return Err(error),
    }
    record.workspace = Some(workspace.path().to_string_lossy().into_owned());
    match before {
        None => collect(workspace.path(), workspace.path(), &mut record.files_after).map_err(io)?,
        Some(before) => {
            let after = stamps(workspace.path())?;
            record.changed = changed(&before, &after);
            let told = record.changed.iter().chain(task.expect.files_after.keys());
            for name in told.filter(|name| after.contains_key(*name)) {
                let path = workspace.path().join(name);
                if path.symlink_metadata().is_ok_and(|found| found.is_file()) {
                    let bytes = std::fs::read(&path).map_err(io)?;
                    record.files_after.insert(name.clone(), String::from_utf8_lossy(&bytes).into_owned());
                }
            }
        }
    }
    let verdict = check(task, &record)?;
    (record.pass, record.reasons) = (verdict.pass, verdict.reasons);
    Ok(record)
}

fn run_question(
    question: &Question,
    engine: &dyn Engine,
    options: &Options<'_>,
    cancel: &Cancel,
) -> Result<Record, Error> {
    let mut record = blank(&question.id, &question.category);
    let (transcript, tools) = (question.transcript()?, question.specs()?);
    let sampling = options.sampling(engine);
    let hints = options.hints.suited(&engine.facts());
    let watches = Watches::of(&hints);
    let request = TurnRequest::new(&transcript, &tools, &sampling)
        .parallel(options.parallel)
        .repetitions(watches.repetitions());
    let turn = engine.turn(&request, cancel, &mut |_| {});
    record.hints = Some(watches.steered().into_iter().map(str::to_owned).collect());
    match turn {
        Ok(turn) => {
            record.stop_reason = format!("{:?}", turn.stop);
            record.decisions = turn
                .decision
                .map(|made| Decided { calls_before: 0, p_call: made.p_call, threshold: made.threshold })
                .into_iter()
                .collect();
            record.answer = turn.parsed.content.unwrap_or_default();
            let calls = turn.parsed.calls.into_iter();
            record.calls =
                calls.map(|call| Call { name: call.name, arguments: call.arguments, ok: true }).collect();
            record.stats = turn.stats;
        }
        Err(error)
            if matches!(error.kind(), toolgate_engine::Kind::Overflow | toolgate_engine::Kind::Input) =>
        {
            record.stop_reason = format!("error: {error}");
        }
        Err(error) => return Err(error.into()),
    }
    let verdict = question.check(&record.calls);
    (record.pass, record.reasons) = (verdict.pass, verdict.reasons);
    Ok(record)
}

fn blank(id: &str, category: &str) -> Record {
    Record {
        id: id.to_owned(),
        category: category.to_owned(),
        calls: Vec::new(),
        answer: String::new(),
        files_after: BTreeMap::new(),
        changed: Vec::new(),
        workspace: None,
        stop_reason: String::new(),
        seconds: 0.0,
        decisions: Vec::new(),
        stats: Stats::default(),
        leak: false,
        no_access: false,
        echo: false,
        same_language: None,
        hints: None,
        pass: false,
        reasons: Vec::new(),
    }
}

impl Record {
    fn fill(&mut self, outcome: Final) {
        let calls = outcome.calls.into_iter();
        self.calls = calls
            .map(|call| Call { name: call.name, arguments: call.arguments, ok: call.status == Status::Ok })
            .collect();
        self.answer = outcome.answer;
        self.stop_reason = outcome.stop_reason.as_str().to_owned();
        self.stats = outcome.stats;
    }
}

/// Reads every file below `directory` into `found`, by its path from `root`.
fn collect(root: &Path, directory: &Path, found: &mut BTreeMap<String, String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect(root, &path, found)?;
        } else if entry.file_type()?.is_file() {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            found.insert(name, String::from_utf8_lossy(&std::fs::read(&path)?).into_owned());
        }
    }
    Ok(())
}
