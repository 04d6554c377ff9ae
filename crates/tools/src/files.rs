//! The built-in file tools: their parameters as Rust types, over the file tier of the sandbox.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use toolgate_chat::{ToolCall, ToolSpec};
use toolgate_sandbox::policy::{Mode, Policy};
use toolgate_sandbox::{
    self as sandbox, Edited, Enforced, Grants, Kind, Outline, OutlineLimits, PreparedChange, ReadOptions,
    Root, Scope, SearchOptions, Written, output,
};

use super::result::not_called;
use super::texts::{keeps, told_apart, value_named, with_what_follows};
use super::{
    Args, Choices, Effect, Objection, PathArgument, PathKind, Places, PreparedCall, Preview, Rewrite, Role,
    Tool, ToolResult,
};
use crate::Error;

#[derive(Deserialize, JsonSchema)]
struct ReadFile {
    /// File path, relative to the workspace.
    #[schemars(extend("x-grammar" = relative_path()))]
    path: String,
    /// Only for a part of a long file: how many lines. Leave it out to read the whole file.
    #[schemars(extend("x-advanced" = true))]
    max_lines: Option<u64>,
    /// Only for a part of a long file: the first line, counted from 1. Leave it out otherwise.
    #[schemars(extend("x-advanced" = true))]
    start_line: Option<u64>,
    /// Only for a part of a long line: the first character, counted from 1.
    #[schemars(extend("x-advanced" = true))]
    start_column: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
struct ListDirectory {
    /// Directory path, relative to the workspace; "." is the workspace itself.
    #[schemars(extend("x-grammar" = relative_path()))]
    path: String,
    /// How many levels to list. Leave it out to list the directory alone.
    #[schemars(extend("x-advanced" = true))]
    depth: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
struct SearchCodebase {
    /// The text to look for; upper and lower case are the same.
    query: String,
    /// Search only in this file or directory.
    path: Option<String>,
    /// Return at most this many lines. Leave it out to see all.
    #[schemars(extend("x-advanced" = true))]
    max_results: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
struct WriteFile {
    /// File path, relative to the workspace.
    #[schemars(extend("x-grammar" = relative_path()))]
    path: String,
    /// The full new content of the file.
    content: String,
}

#[derive(Deserialize, JsonSchema)]
struct EditFile {
    /// File path, relative to the workspace.
    #[schemars(extend("x-grammar" = relative_path()))]
    path: String,
    /// The exact text to replace; must occur once in the file.
    old_text: String,
    /// The text to put in its place.
    new_text: String,
}

/// What an edit of this text may replace, where the old text that was wanted is not there once. Where that is one line, whole lines
/// are left: told to take any piece, a small model takes the name of a value.
fn pieces(text: String, wanted: &str) -> Choices {
    let told = if wanted.trim().contains('\n') { Vec::new() } else { told_apart(&text, wanted) };
    if told.is_empty() {
        return Choices::OnceIn(text);
    }
    among(told)
}

/// These texts and no others.
fn among<'t>(texts: impl IntoIterator<Item = &'t str>) -> Choices {
    Choices::Among { texts: texts.into_iter().map(str::to_owned).collect(), beginnings: Vec::new() }
}

/// The pattern of a path that a model may write: relative, and without characters that JSON escapes. The
/// tools themselves also take the absolute path of the workspace.
fn relative_path() -> serde_json::Value {
    json!({"pattern": r#"^[^/\\"\x00-\x1f][^\\"\x00-\x1f]*$"#})
}

/// A file operation as a tool. [`file_tools`] makes these.
pub struct FileTool {
    spec: ToolSpec,
    effect: Effect,
    asks: bool,
    root: Root,
    grants: Grants,
    takes: PathKind,
    places: Arc<dyn Places>,
    run: Operation,
}

/// The granted files and directories of a workspace.
struct Workspace {
    root: Root,
    grants: Grants,
}

impl Places for Workspace {
    fn readable(&self) -> Outline {
        self.root.outline(&self.grants, false, &OutlineLimits::default())
    }

    fn writable(&self) -> Outline {
        self.root.outline(&self.grants, true, &OutlineLimits::default())
    }

    fn can_write_everywhere(&self) -> bool {
        self.grants.write == Scope::Everything
    }
}

#[derive(Clone, Copy)]
enum Operation {
    /// Reads, and reports the result.
    Look(fn(&Root, &Grants, &Args) -> Result<Done, Stop>),
    /// Prepares a change.
    Change(fn(&Root, &Grants, &Args) -> Result<Ready, Stop>),
}

/// The result of an operation, as text for the model and as data.
struct Done {
    content: String,
    /// Lines at the end of the content that are remarks of the operation.
    notes: usize,
    data: serde_json::Value,
    truncated: bool,
}

/// The reason that an operation did not happen.
enum Stop {
    /// The arguments are narrower than their schema.
    Arguments(String),
    /// The sandbox refused the operation, or failed.
    Sandbox(sandbox::Error),
}

impl From<sandbox::Error> for Stop {
    fn from(error: sandbox::Error) -> Self {
        Self::Sandbox(error)
    }
}

/// The file tools that `policy` grants in `mode`. They work below `root` and come in the order of the offer.
///
/// # Errors
/// No input causes one: the definitions are fixed, and checked like any others.
///
/// ```
/// use toolgate_tools::{Registry, Status, file_tools};
/// use toolgate_sandbox::policy::{Mode, Policy};
/// use toolgate_sandbox::{Root, ambient_authority};
/// # let directory = tempfile::tempdir()?;
/// # std::fs::write(directory.path().join("notes.txt"), "buy milk\n")?;
///
/// let root = Root::open(directory.path(), ambient_authority())?;
/// let mut tools = Registry::new();
/// for tool in file_tools(&root, &Policy::default_for(Mode::Intel), Mode::Intel)? {
///     tools.add(tool)?;
/// }
/// assert_eq!(tools.names(), ["read_file", "list_directory", "search_codebase"]);
/// assert_eq!(tools.call_json("read_file", r#"{"path": "notes.txt"}"#).content, "buy milk\n");
/// assert_eq!(tools.call_json("read_file", r#"{"path": "../secret.txt"}"#).status, Status::Denied);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn file_tools(root: &Root, policy: &Policy, mode: Mode) -> Result<Vec<FileTool>, Error> {
    let grants = policy.grants(mode);
    let places: Arc<dyn Places> = Arc::new(Workspace { root: root.clone(), grants: grants.clone() });
    let tool = |spec: Result<ToolSpec, toolgate_chat::Error>, effect, takes, run: Operation| {
        let spec = spec?;
        let asks = policy.asks(spec.name.as_str());
        Ok::<_, Error>(FileTool {
            spec,
            effect,
            asks,
            root: root.clone(),
            grants: grants.clone(),
            takes,
            places: places.clone(),
            run,
        })
    };
    let mut tools = Vec::new();
    if grants.can_read() {
        let read = ToolSpec::of::<ReadFile>("read_file", "Read a text file and return its contents.")
            .map(|spec| spec.with_example("Read alpha.txt", json!({"path": "alpha.txt"})));
        let list =
            ToolSpec::of::<ListDirectory>("list_directory", "List the files and folders in a directory.")
                .map(|spec| spec.with_example("What files are in beta?", json!({"path": "beta"})));
        let search = ToolSpec::of::<SearchCodebase>(
            "search_codebase",
            "Find the lines in all files that contain a text. Returns file, line number and line.",
        )
        .map(|spec| spec.with_example("Which file mentions gamma?", json!({"query": "gamma"})));
        tools.push(tool(read, Effect::Reads, PathKind::Files, Operation::Look(read_file))?);
        tools.push(tool(list, Effect::Reads, PathKind::Directories, Operation::Look(list_directory))?);
        tools.push(tool(search, Effect::Reads, PathKind::Entries, Operation::Look(search_codebase))?);
    }
    if grants.can_write() {
        let write =
            ToolSpec::of::<WriteFile>("write_file", "Create a file, or replace it, with the given content.")
                .map(|spec| {
                    let arguments = json!({"path": "epsilon.txt", "content": "zeta"});
                    spec.with_example("Create epsilon.txt with the text zeta", arguments)
                });
        let create =
            ToolSpec::of::<WriteFile>("create_file", "Create a new file; fails if it already exists.");
        let edit = ToolSpec::of::<EditFile>("edit_file", "Replace one piece of text in a file with another.")
            .map(|spec| {
                let arguments = json!({"path": "iota.txt", "old_text": "eta", "new_text": "theta"});
                spec.with_example("Change eta to theta in iota.txt", arguments)
            });
        tools.push(tool(write, Effect::Changes, PathKind::Writable, Operation::Change(write_file))?);
        tools.push(tool(create, Effect::Changes, PathKind::Writable, Operation::Change(create_file))?);
        tools.push(tool(edit, Effect::Changes, PathKind::Editable, Operation::Change(edit_file))?);
    }
    Ok(tools)
}

impl Tool for FileTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn needs_approval(&self) -> bool {
        self.asks
    }

    fn prepare(&self, args: &Args) -> Result<Option<Box<dyn PreparedCall>>, Box<ToolResult>> {
        let Operation::Change(prepare) = self.run else { return Ok(None) };
        match prepare(&self.root, &self.grants, args) {
            Ok(change) => {
                let enforced = self.root.enforced(&self.grants);
                Ok(Some(Box::new(FileChange { change, most: self.grants.limits.max_output_bytes, enforced })))
            }
            Err(stop) => Err(Box::new(self.shown(Err(stop)))),
        }
    }

    fn role(&self) -> Role {
        Role::Paths(PathArgument { parameter: "path", takes: self.takes, places: self.places.clone() })
    }

    fn objection(&self, args: &Args) -> Option<Objection> {
        let path = args.str("path")?;
        let read = || self.root.read_file(&self.grants, path, &ReadOptions::default()).ok();
        match (args.str("content"), args.str("old_text"), args.str("new_text")) {
            (Some(content), ..) if !keeps(&read()?.text, content) => Some(Objection::LosesText(format!(
                "\"{}\" has text in it that would be lost; change the part that is to change with edit_file, and \
                 leave the rest as it is",
                output::name(path)
            ))),
            (None, Some(old), Some(new)) => {
                let file = read()?;
                let line = value_named(&file.text, old, new)?;
                Some(Objection::NamesValue(format!(
                    "old_text is only the name of a value in \"{}\", and the old value would stay; for old_text copy the whole \
                     line: \"{}\"",
                    output::name(path),
                    output::name(line)
                )))
            }
            _ => None,
        }
    }

    /// Of an edit that would fail, or change something else than its text says.
    fn rewrite(&self, args: &Args) -> Option<Rewrite> {
        let (path, old, new) = (args.str("path")?, args.str("old_text")?, args.str("new_text")?);
        let fails = match self.root.prepare_edit(&self.grants, path, old, new) {
            Ok(_) => false,
            Err(error) if matches!(error.kind(), Kind::Invalid | Kind::Failed) => true,
            Err(_) => return None,
        };
        let file = self.root.read_file(&self.grants, path, &ReadOptions::default()).ok()?;
        let shown = output::for_model(file.content().as_bytes(), self.grants.limits.max_output_bytes);
        if file.note.is_some() || file.truncated || shown.truncated {
            return None;
        }
        let only = |text| among([text]);
        let name = output::name(path);
        let (old_text, why) = if fails {
            (pieces(shown.text, old), format!("old_text does not fit \"{name}\""))
        } else if let Some(line) = value_named(&shown.text, old, new) {
            (only(line), format!("old_text is only the name of a value in \"{name}\""))
        } else {
            let longer = with_what_follows(&shown.text, old, new)?;
            (only(longer), format!("new_text repeats what follows in \"{name}\""))
        };
        let look = ToolCall::new("read_file", Map::from_iter([("path".to_owned(), json!(path))]));
        Some(Rewrite::new(Some(look), vec![("path", only(path)), ("old_text", old_text)], why))
    }

    fn call(&self, args: &Args) -> ToolResult {
        match self.run {
            Operation::Look(look) => self.shown(look(&self.root, &self.grants, args)),
            Operation::Change(prepare) => {
                self.shown(prepare(&self.root, &self.grants, args).and_then(|change| (change.make)()))
            }
        }
    }
}

impl FileTool {
    fn shown(&self, done: Result<Done, Stop>) -> ToolResult {
        shown(done, self.grants.limits.max_output_bytes, self.root.enforced(&self.grants))
    }
}

/// A prepared change of a file, for the tools.
struct Ready {
    preview: Preview,
    make: Box<dyn FnOnce() -> Result<Done, Stop> + Send>,
}

impl Ready {
    /// A change. `content` makes the text from its report, and `covers` names the arguments with its text.
    fn new<T: Serialize + Send + 'static>(
        change: PreparedChange<T>,
        covers: &'static [&'static str],
        content: fn(&T) -> String,
    ) -> Self {
        let preview = Preview::of(&change, covers);
        let make = move || {
            let report = change.make()?;
            done(content(&report), &report, false)
        };
        Self { preview, make: Box::new(make) }
    }
}

/// A prepared call that changes a file.
struct FileChange {
    change: Ready,
    /// Bytes of its result.
    most: usize,
    enforced: Enforced,
}

impl PreparedCall for FileChange {
    fn preview(&self) -> Preview {
        self.change.preview.clone()
    }

    fn run(self: Box<Self>) -> ToolResult {
        shown((self.change.make)(), self.most, self.enforced)
    }
}

fn shown(done: Result<Done, Stop>, most: usize, enforced: Enforced) -> ToolResult {
    let mut result = match done {
        Ok(done) => {
            let cleaned = output::for_model(done.content.as_bytes(), most);
            let mut result = ToolResult::ok(cleaned.text).with_data(done.data);
            result.truncated = done.truncated || cleaned.truncated;
            result.notes = done.notes;
            result
        }
        Err(Stop::Arguments(why)) => ToolResult::failed(format!("the arguments do not fit: {why}")),
        Err(Stop::Sandbox(error)) => not_called(&error),
    };
    result.enforced = enforced;
    result
}

fn parse<P: DeserializeOwned>(args: &Args) -> Result<P, Stop> {
    args.parse().map_err(Stop::Arguments)
}

fn done(content: String, data: impl Serialize, truncated: bool) -> Result<Done, Stop> {
    // The sandbox's reports are plain structs of strings and numbers; were one not, the text is still there.
    let data = serde_json::to_value(data).unwrap_or_default();
    Ok(Done { content, notes: 0, data, truncated })
}

impl Done {
    /// The same with `lines` lines of results. The other lines are remarks.
    fn finding(mut self, lines: usize) -> Self {
        self.notes = self.content.lines().count().saturating_sub(lines);
        self
    }
}

/// Reads `path`. A path outside is read as one from the top of the workspace.
///
/// Small models write `/logs` for `logs` in the workspace. If that path does not exist either, the first
/// refusal stays. Nothing is ever written to such a path.
fn look<T>(path: &str, operation: impl Fn(&str) -> Result<T, sandbox::Error>) -> Result<T, sandbox::Error> {
    match operation(path) {
        Err(refused) if refused.kind() == Kind::Denied && path.starts_with('/') => {
            operation(path.trim_start_matches('/')).map_err(|_| refused)
        }
        result => result,
    }
}

fn read_file(root: &Root, grants: &Grants, args: &Args) -> Result<Done, Stop> {
    let ReadFile { path, max_lines, start_line, start_column } = parse(args)?;
    let options =
        ReadOptions::default().start_line(start_line).max_lines(max_lines).start_column(start_column);
    let file = look(&path, |path| root.read_file(grants, path, &options))?;
    let notes = file.note.as_ref().map_or(0, |note| note.lines().count());
    Ok(Done { notes, ..done(file.content(), &file, file.truncated)? })
}

fn list_directory(root: &Root, grants: &Grants, args: &Args) -> Result<Done, Stop> {
    let ListDirectory { path, depth } = parse(args)?;
    let listing = look(&path, |path| root.list_directory(grants, path, depth))?;
    Ok(done(listing.content(), &listing, listing.truncated)?.finding(listing.entries.len()))
}

fn search_codebase(root: &Root, grants: &Grants, args: &Args) -> Result<Done, Stop> {
    let SearchCodebase { query, path, max_results } = parse(args)?;
    let options = SearchOptions::default().path(path.clone()).max_results(max_results);
    let found = root.search_codebase(grants, &query, &options)?;
    let mut content = found.content();
    if found.hits.is_empty() {
        content.push_str(&named_like(root, grants, &query));
        content.push_str(&path.map(|path| files_below(root, grants, &path)).unwrap_or_default());
    }
    Ok(done(content, &found, found.truncated)?.finding(found.hits.len()))
}

/// The files and directories whose names contain the query.
fn named_like(root: &Root, grants: &Grants, query: &str) -> String {
    let wanted = query.trim().to_lowercase();
    let files = root.outline(grants, false, &OutlineLimits::default()).files;
    let found = files.iter().filter(|path| path.to_lowercase().contains(&wanted)).take(NAMED);
    let names: Vec<String> = found.map(|path| output::name(path)).collect();
    if names.is_empty() { String::new() } else { format!("\n[files named so: {}]", names.join(", ")) }
}

/// The files of a directory without a hit, if they are few. One of them may have the answer in other words.
fn files_below(root: &Root, grants: &Grants, path: &str) -> String {
    let below = format!("{}/", path.strip_prefix("./").unwrap_or(path).trim_end_matches('/'));
    let files = root.outline(grants, false, &OutlineLimits::default()).files;
    let found: Vec<String> =
        files.iter().filter(|file| file.starts_with(&below)).map(|path| output::name(path)).collect();
    match found.len() {
        1..=NAMED => format!("\n[files there: {}]", found.join(", ")),
        _ => String::new(),
    }
}

/// Files that are named at most after a search without a hit.
const NAMED: usize = 10;

fn write_file(root: &Root, grants: &Grants, args: &Args) -> Result<Ready, Stop> {
    let WriteFile { path, content } = parse(args)?;
    Ok(Ready::new(root.prepare_write(grants, &path, &content)?, &["content"], Written::content))
}

fn create_file(root: &Root, grants: &Grants, args: &Args) -> Result<Ready, Stop> {
    let WriteFile { path, content } = parse(args)?;
    Ok(Ready::new(root.prepare_create(grants, &path, &content)?, &["content"], Written::content))
}

fn edit_file(root: &Root, grants: &Grants, args: &Args) -> Result<Ready, Stop> {
    let EditFile { path, old_text, new_text } = parse(args)?;
    let change = root.prepare_edit(grants, &path, &old_text, &new_text)?;
    Ok(Ready::new(change, &["old_text", "new_text"], Edited::content))
}
