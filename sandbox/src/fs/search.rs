//! `search_codebase`: finds the lines of all files that hold a text or match a regular expression.
//!
//! Invariant: the time is linear in the bytes that are read, since the `regex` crate does not backtrack.
//! Files, bytes and hits are bounded.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use regex::bytes::{Regex, RegexBuilder};
use serde::Serialize;

use super::resolve::{self, Found};
use super::walk::{self, Go, ItemKind, Start};
use super::{Root, guard, list, open};
use crate::error::{Error, Kind};
use crate::grants::Grants;
use crate::names::Inside;
use crate::output;
use crate::text::{self, Form, Text, normal};

/// The reading of a query.
///
/// ```
/// use toolgate_sandbox::{Grants, Query, Root, SearchOptions, ambient_authority};
/// let dir = tempfile::tempdir()?;
/// let root = Root::open(dir.path(), ambient_authority())?;
/// root.write_file(&Grants::read_write(), "app.toml", "port = 80\nhost = \"a\"\n")?;
/// let read_as = |query| root.search_codebase(&Grants::read_only(), query, &SearchOptions::default());
/// assert_eq!(read_as("port = 80")?.read_as, Query::Literal);
/// assert_eq!(read_as(r"port = \d+")?.read_as, Query::Regex);
/// assert_eq!(read_as("the port of the host")?.read_as, Query::AnyWord, "no line holds all of them");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Query {
    /// As text. If no line holds it, as a regular expression, if it could be one. Then by its words.
    #[default]
    Auto,
    /// As text.
    Literal,
    /// As a regular expression, in the syntax of the `regex` crate.
    Regex,
    /// As words. A line has to hold all of them, anywhere.
    AllWords,
    /// As words. A line has to hold one of them. At most 20 lines are returned.
    AnyWord,
}

/// Whether upper and lower case differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaseOf {
    /// `a` finds `A`.
    #[default]
    Ignored,
    /// `a` finds `a` only.
    Kept,
}

/// The handling of files that a `.gitignore` names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ignored {
    /// They are searched only if no other file has a hit.
    #[default]
    Later,
    /// They are left out.
    Skip,
    /// They are searched like all others.
    Search,
}

/// The place and the manner of a search.
///
/// ```
/// use toolgate_sandbox::{CaseOf, Grants, Root, SearchOptions, ambient_authority};
/// let dir = tempfile::tempdir()?;
/// let root = Root::open(dir.path(), ambient_authority())?;
/// for path in ["docs/a.md", "src/a.rs"] {
///     root.write_file(&Grants::read_write(), path, "Root\nroot\n")?;
/// }
/// let options = SearchOptions::default().path(Some("src".to_owned())).case(CaseOf::Kept);
/// let found = root.search_codebase(&Grants::read_only(), "root", &options)?;
/// let places: Vec<_> = found.hits.iter().map(|hit| (hit.path.as_str(), hit.line)).collect();
/// assert_eq!(places, [("src/a.rs", 2)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchOptions {
    /// A directory or a file. `None` and the empty path mean the whole workspace.
    pub path: Option<String>,
    /// The reading of the query.
    pub query: Query,
    /// Whether case matters.
    pub case: CaseOf,
    /// The handling of ignored files.
    pub ignored: Ignored,
    /// Hits at most; `None` and 0 mean as many as [`FileLimits`](crate::FileLimits) allow.
    pub max_results: Option<u64>,
}

crate::setters::setters! { SearchOptions {
    path: Option<String>,
    query: Query,
    case: CaseOf,
    ignored: Ignored,
    max_results: Option<u64>,
} }

/// A hit: a line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Hit {
    /// The file, relative to the workspace.
    pub path: String,
    /// The line's number, counted from one.
    pub line: usize,
    /// The line without its end. A long line is cut around the match.
    pub text: String,
    /// The character of a cut line at which `text` begins, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SearchResult {
    /// The lines, by path and number.
    pub hits: Vec<Hit>,
    /// Whether the search stopped before it had read everything.
    pub truncated: bool,
    /// The reading of the query that gave the hits.
    pub read_as: Query,
    /// Files that were searched.
    pub files: usize,
    /// Files that were skipped: binary, too large or unreadable ones.
    pub skipped: usize,
    /// Files and directories that were skipped since a `.gitignore` names them.
    pub ignored: usize,
}

impl SearchResult {
    /// The text for a model: a line `path:line: text` for each hit, then the omissions.
    pub fn content(&self) -> String {
        let mut text = String::new();
        for hit in &self.hits {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}:{}: {}", output::name(&hit.path), hit.line, hit.text);
        }
        let files = match self.files {
            1 => "1 file".to_owned(),
            n => format!("{n} files"),
        };
        if self.hits.is_empty() {
            let _ = write!(text, "(no match in {files})");
        } else {
            text.push_str(match self.read_as {
                Query::Auto | Query::Literal => "",
                Query::Regex => "[read as a regular expression]",
                Query::AllWords => "[no line holds this text; these hold all of its words]",
                Query::AnyWord => "[no line holds this text; these hold some of its words]",
            });
        }
        if let Some(Hit { path, line, column: Some(column), .. }) =
            self.hits.iter().find(|hit| hit.column.is_some())
        {
            let path = output::name(path);
            let _ = write!(
                text,
                "[long lines are cut: read_file with start_line {line}, start_column {column} shows more of \"{path}\"]"
            );
        }
        if self.truncated {
            let _ = write!(
                text,
                "[stopped after {} hits in {files}, there may be more; search in a subdirectory]",
                self.hits.len()
            );
        }
        if self.hits.is_empty() && self.ignored + self.skipped > 0 {
            let _ = write!(
                text,
                "[left out: {} ignored, {} binary, too large or unreadable]",
                self.ignored, self.skipped
            );
        }
        text
    }
}

impl Root {
    /// Finds the lines that match `query`, in the files of the workspace or below `options.path`.
    ///
    /// The search follows no links. It skips binary files, version-control directories and files that the
    /// grants close.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for an empty query or a bad expression. For the path, as
    /// [`list_directory`](Self::list_directory).
    ///
    /// ```
    /// # use toolgate_sandbox::{Grants, Root, SearchOptions, ambient_authority};
    /// # let dir = tempfile::tempdir()?;
    /// # let root = Root::open(dir.path(), ambient_authority())?;
    /// root.write_file(&Grants::read_write(), "src/main.rs", "// start\nfn main() {}\n")?;
    /// let found = root.search_codebase(&Grants::read_only(), "FN MAIN", &SearchOptions::default())?;
    /// assert_eq!(found.content(), "src/main.rs:2: fn main() {}\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn search_codebase(
        &self,
        grants: &Grants,
        query: &str,
        options: &SearchOptions,
    ) -> Result<SearchResult, Error> {
        if query.is_empty() {
            return Err(Error::new(Kind::Invalid, "the query is empty").hint("give the text to look for"));
        }
        if query.len() > MAX_QUERY_BYTES {
            return Err(Error::new(
                Kind::Invalid,
                format!("the query is longer than {MAX_QUERY_BYTES} bytes"),
            )
            .hint("look for a part of it"));
        }
        let until = Instant::now() + MAX_TIME;
        // Each pass is tried only if those before found nothing: (how to read the query, ignored files).
        let mut passes = Vec::new();
        let first = if options.query == Query::Auto { Query::Literal } else { options.query };
        let ignored = if options.ignored == Ignored::Later { Ignored::Skip } else { options.ignored };
        passes.push((first, ignored));
        let could_be_regex = options.query == Query::Auto && regex::escape(query) != query;
        if could_be_regex && compile(query, Query::Regex, options.case).is_ok() {
            passes.push((Query::Regex, ignored));
        }
        if options.ignored == Ignored::Later {
            passes.push((first, Ignored::Search));
        }
        if options.query == Query::Auto && words(query).len() > 1 {
            passes.extend([(Query::AllWords, ignored), (Query::AnyWord, ignored)]);
        }
        let mut last = None;
        for (read_as, ignored) in passes {
            if ignored == Ignored::Search && last.as_ref().is_some_and(|r: &SearchResult| r.ignored == 0) {
                continue;
            }
            let result = self.search_once(grants, query, options, (read_as, ignored), until)?;
            if !result.hits.is_empty() {
                return Ok(result);
            }
            last.get_or_insert(result);
        }
        last.ok_or_else(|| Error::new(Kind::Failed, "nothing was searched"))
    }

    fn search_once(
        &self,
        grants: &Grants,
        query: &str,
        options: &SearchOptions,
        (read_as, ignored): (Query, Ignored),
        until: Instant,
    ) -> Result<SearchResult, Error> {
        let path = options.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".");
        let resolved = resolve::resolve(self, path)?;
        guard::check_read(grants, &resolved)?;
        let inside = resolved.inside();
        let asked = options
            .max_results
            .filter(|n| *n > 0)
            .map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        let mut search = Search {
            grants,
            regex: compile(query, read_as, options.case)?,
            read_as,
            spans_lines: read_as == Query::Literal && query.contains(['\n', '\r']),
            words: if read_as == Query::AllWords { each(query, options.case)? } else { Vec::new() },
            max_hits: asked.min(grants.limits.max_hits).min(if read_as == Query::AnyWord {
                GUESSES
            } else {
                usize::MAX
            }),
            until,
            bytes_left: grants.limits.max_search_bytes,
            output_left: grants.limits.max_output_bytes,
            result: SearchResult {
                hits: Vec::new(),
                truncated: false,
                read_as,
                files: 0,
                skipped: 0,
                ignored: 0,
            },
        };
        if let (Found::File(_), Some(name)) = (&resolved.found, &resolved.last) {
            search.file(resolved.dir(), name.as_ref(), &inside);
            return Ok(search.result);
        }
        let dir = list::directory(self, grants, &resolved, path)?;
        let mut above = Vec::new();
        let mut at = Inside::default();
        for (dir, name) in resolved.levels() {
            if let Some(name) = name {
                above.push((dir, at.clone()));
                at.push_name(name);
            }
        }
        let start = Start { dir: &dir, inside, above };
        let walked = walk::walk(start, grants, &grants.limits, ignored, &mut |item| match item.kind {
            ItemKind::File => search.file(item.dir, item.name.as_ref(), item.inside),
            _ => Go::On,
        });
        search.result.truncated |= walked.incomplete;
        search.result.ignored = walked.ignored;
        Ok(search.result)
    }
}

/// Longest query. Long texts are no names, and the search for them is slow.
const MAX_QUERY_BYTES: usize = 1_000;
/// A compiled expression.
const MAX_EXPRESSION_BYTES: usize = 512 * 1024;
/// Time of a search, all passes together. Then the search says that it is not complete.
const MAX_TIME: Duration = Duration::from_secs(10);

fn compile(query: &str, read_as: Query, case: CaseOf) -> Result<Regex, Error> {
    let source = match read_as {
        Query::Regex => query.to_owned(),
        Query::Auto | Query::Literal => regex::escape(&normal(query)),
        Query::AllWords | Query::AnyWord => words(query).join("|"),
    };
    RegexBuilder::new(&source)
        .case_insensitive(case == CaseOf::Ignored)
        // What an expression costs for a byte, where it has to be tried state by state, grows with its size.
        .size_limit(MAX_EXPRESSION_BYTES)
        .dfa_size_limit(4 << 20)
        .nest_limit(100)
        .build()
        .map_err(|error| {
            let why = error.to_string();
            let why = why.lines().last().unwrap_or("it does not parse").trim_start_matches("error: ");
            Error::new(Kind::Invalid, format!("bad search expression ({})", output::name(why)))
                .at(query)
                .hint("look-around and back-references are not supported")
        })
}

/// Lines at most where a line needs only one of the words.
const GUESSES: usize = 20;

/// Words of a query that are searched one by one.
const WORDS: usize = 8;

/// The words of a query: letters, digits and underscores, so that none needs an escape.
fn words(query: &str) -> Vec<&str> {
    let is_word = |word: &&str| word.chars().nth(1).is_some();
    query.split(|c: char| !c.is_alphanumeric() && c != '_').filter(is_word).take(WORDS).collect()
}

/// An expression for each word of a query.
fn each(query: &str, case: CaseOf) -> Result<Vec<Regex>, Error> {
    words(query).into_iter().map(|word| compile(word, Query::Literal, case)).collect()
}

struct Search<'a> {
    grants: &'a Grants,
    regex: Regex,
    read_as: Query,
    /// The other words that each line has to hold.
    words: Vec<Regex>,
    /// Whether the query itself holds a line end, so that no single line can hold it.
    spans_lines: bool,
    max_hits: usize,
    /// When it stops, with what it has.
    until: Instant,
    bytes_left: u64,
    output_left: usize,
    result: SearchResult,
}

impl Search<'_> {
    fn file(&mut self, dir: &cap_std::fs::Dir, name: &std::path::Path, inside: &Inside) -> Go {
        if Instant::now() >= self.until {
            self.result.truncated = true;
            return Go::Stop;
        }
        let limits = &self.grants.limits;
        let read = open::open_name(dir, name)
            .map_err(|source| Error::io(inside.shown(), "open the file", source))
            .and_then(|file| open::regular(file, inside.shown()))
            .and_then(|opened| {
                open::read_all(&opened, inside.shown(), limits.max_file_bytes.min(self.bytes_left))
            });
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == Kind::Limit && self.bytes_left < limits.max_file_bytes => {
                self.result.truncated = true;
                return Go::Stop;
            }
            _ => {
                self.result.skipped += 1;
                return Go::On;
            }
        };
        let Some(text) = Text::of(&bytes) else {
            self.result.skipped += 1;
            return Go::On;
        };
        self.result.files += 1;
        self.bytes_left = self.bytes_left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let text = if self.spans_lines { text.shown(Form::Lines) } else { text.decoded().0 };
        // A text is looked for in the whole file first: most files do not hold it, and that is quickly seen.
        if self.read_as != Query::Regex && !self.regex.is_match(text.as_bytes()) {
            return Go::On;
        }
        if self.spans_lines { self.spans(inside, text.as_bytes()) } else { self.lines(inside, &text) }
    }

    /// The places in a text whose lines end in `\n`.
    fn spans(&mut self, inside: &Inside, text: &[u8]) -> Go {
        let found = self.regex.find_iter(text).map(|found| found.start());
        let places: Vec<usize> = found.take(self.max_hits.saturating_add(1)).collect();
        for at in places {
            let before = text.get(..at).unwrap_or_default();
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            let begin = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let rest = text.get(begin..).unwrap_or_default();
            let text = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
            if self.hit(inside, line, text, at - begin) == Go::Stop {
                return Go::Stop;
            }
        }
        Go::On
    }

    /// The lines of a text, by their numbers as they are read.
    fn lines(&mut self, inside: &Inside, text: &str) -> Go {
        for (i, line) in text::ended(text).enumerate() {
            let line = line.trim_end_matches(['\r', '\n']).as_bytes();
            let Some(found) = self.regex.find(line) else { continue };
            if !self.words.iter().all(|word| word.is_match(line)) {
                continue;
            }
            if self.hit(inside, i + 1, line, found.start()) == Go::Stop {
                return Go::Stop;
            }
        }
        Go::On
    }

    fn hit(&mut self, inside: &Inside, line: usize, bytes: &[u8], at: usize) -> Go {
        let (text, column) = excerpt(bytes, at, self.grants.limits.max_line_bytes);
        let cost = inside.spelled().len() + text.len() + 16;
        if self.result.hits.len() >= self.max_hits || cost > self.output_left {
            self.result.truncated = true;
            return Go::Stop;
        }
        self.output_left -= cost;
        self.result.hits.push(Hit { path: inside.spelled().to_owned(), line, text, column });
        Go::On
    }
}

/// The line, or the part of a long one around byte `at` and the character at which that begins, counted from one.
fn excerpt(line: &[u8], at: usize, max_bytes: usize) -> (String, Option<usize>) {
    let whole = String::from_utf8_lossy(line);
    if line.len() <= max_bytes {
        return (whole.into_owned(), None);
    }
    let start = whole.floor_char_boundary(at.saturating_sub(max_bytes / 4));
    let end = whole.floor_char_boundary(start.saturating_add(max_bytes));
    let (before, text) = (whole.get(..start).unwrap_or_default(), whole.get(start..end).unwrap_or_default());
    let (begin, rest) = (if start > 0 { "…" } else { "" }, if end < whole.len() { "…" } else { "" });
    (format!("{begin}{text}{rest}"), Some(before.chars().count() + 1))
}
