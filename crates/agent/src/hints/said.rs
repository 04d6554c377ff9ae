//! What was said so far, as far as it names things: what a user wrote, and what tools gave back.
//!
//! Invariant: what the user wrote can be said. A path or a text that is not there then reaches the tool, which says so
//! and names what is.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use toolgate_chat::Message;
use toolgate_chat::names::is_among;
use toolgate_chat::notes::without_notes;
use toolgate_tools::{Choices, Finding};

use super::situation::Situation;
use super::words::{enclosed, files_of, is_identifier, is_pathlike, plain, words};

/// Words kept of what users wrote.
const WORDS: usize = 1_000;
/// Lines of a result that leads somewhere; a longer one is about more than that.
const SHORT: usize = 3;
/// Names of new files that a request gives at most; more are a text that is about files.
const GIVEN: usize = 8;
/// Words kept of what tools gave back, newest first.
const RESULT_WORDS: usize = 200;

/// The paths that a user named, by what is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// A file.
    pub(super) file: bool,
    /// A directory.
    pub(super) directory: bool,
    /// Paths of nothing, as they were written.
    pub(super) missing: BTreeSet<String>,
    /// Something that is no path but stands in files: `RetryBudget`, `max_size`, `LIMIT`.
    pub(super) identifier: bool,
    /// The directories, as they were written.
    pub(super) directories: BTreeSet<String>,
}

/// Words that are no names of files, though a small model may take them for some.
const NO_NAMES: &str = "\
    a all also an and are both can contain containing contains content contents could current dir \
    directories directory display do does each entries every everything exist exists file files folder \
    folders for give have here how i in inside is it just level like list many me my name names need of \
    on only please print put root see show subdirectories subfolders tell that the their them there \
    these this those to top under us want what where which who with within workspace would you your";

/// What was said so far: the words that could be names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    words: BTreeSet<String>,
    /// What users wrote, newest first.
    texts: Vec<String>,
    /// Of the newest, what no call has taken up; `None` is all of it.
    open: Option<Vec<String>>,
    /// What the last calls found, short as it is: the path they were given, what they found, and their result.
    found: Vec<(String, Finding, String)>,
    /// All paths that calls for the newest request were given.
    visited: BTreeSet<String>,
}

impl Said {
    /// What a transcript holds: all words that users wrote, and of tool results those that look like paths.
    pub(super) fn of(at: &Situation<'_>) -> Self {
        let transcript = at.transcript;
        let mut said = Self::default();
        let last = match transcript.last() {
            Some(Message::Tool(replies)) => replies.as_slice(),
            _ => &[],
        };
        for (call, reply) in transcript.calls_of_run() {
            let path = at.path_of(call).map(plain);
            said.visited.extend(path.map(str::to_owned));
            let (Some(path), Some(reply)) = (path, reply) else { continue };
            let is_last = last.iter().any(|other| other.call_id == reply.call_id);
            let lines = at.memory.lines(reply);
            if is_last && !reply.is_error && lines.len() <= SHORT {
                let finding = at.memory.finding(reply).clone();
                said.found.push((path.to_owned(), finding, lines.join("\n")));
            }
        }
        let mut found = 0;
        for message in transcript.iter().rev() {
            match message {
                Message::User(text) => {
                    let room = WORDS.saturating_sub(said.words.len());
                    said.words.extend(words(text).take(room));
                    said.texts.push(without_notes(text));
                }
                Message::Tool(replies) => {
                    for word in replies.iter().flat_map(|reply| words(&reply.content)) {
                        if found < RESULT_WORDS && is_pathlike(&word) && said.words.insert(word) {
                            found += 1;
                        }
                    }
                }
                _ => {}
            }
        }
        said
    }

    /// The same, where of the newest request only these words are not taken up yet; `None` is all of them.
    #[must_use]
    pub(super) fn with_pending(self, open: Option<Vec<String>>) -> Self {
        Self { open, ..self }
    }

    /// The one file, of these that are there, to which what was found leads: a short text names it, or it is alone in a
    /// directory that the request asks more about.
    pub(super) fn lead(&self, files: &[String]) -> Option<String> {
        if self.found.is_empty() {
            return None;
        }
        let known: HashSet<&str> = files.iter().map(String::as_str).collect();
        let mut leads = BTreeSet::new();
        for (path, finding, content) in &self.found {
            let is_file = known.contains(path.as_str());
            if !is_file && !self.asks_more(content) {
                continue;
            }
            match finding {
                _ if is_file => leads.extend(self.leads_of(content, &known)),
                // Where no line holds all of what was looked for, the file has more; else what its lines speak of.
                Finding::Hits { hits, is_partial: true } => {
                    leads.extend(hits.iter().map(|(file, _)| file.clone()));
                }
                Finding::Hits { hits, .. } => {
                    leads.extend(hits.iter().flat_map(|(_, text)| paths_in(text)));
                }
                Finding::Listing(names) => leads.extend(names.iter().map(|name| match path.as_str() {
                    "." => name.clone(),
                    path => format!("{path}/{name}"),
                })),
                _ => {}
            }
        }
        leads.retain(|lead| known.contains(lead.as_str()));
        let mut leads = leads.into_iter().filter(|lead| !self.visited.contains(lead));
        match (leads.next(), leads.next()) {
            (Some(lead), None) => Some(lead),
            _ => None,
        }
    }

    /// The files that a short text names; of several those on lines that have words of the request.
    fn leads_of(&self, content: &str, files: &HashSet<&str>) -> BTreeSet<String> {
        let named =
            |line: &str| paths_in(line).filter(|path| files.contains(path.as_str())).collect::<BTreeSet<_>>();
        let all = named(content);
        if all.len() < 2 {
            return all;
        }
        let asked: HashSet<String> = telling(self.request()).collect();
        let is_about = |line: &&str| telling(line).any(|word| asked.contains(&word));
        let found: BTreeSet<String> = content.lines().filter(is_about).flat_map(named).collect();
        if found.is_empty() { all } else { found }
    }

    /// Whether no other path than the [`lead`](Self::lead) is pending: then a call that reads is about it.
    pub(super) fn is_only(&self, lead: &str) -> bool {
        !self.asked().iter().any(|word| is_pathlike(word) && plain(word) != lead)
    }

    /// Whether the newest request has words that are about more than what is where.
    fn asks_more(&self, content: &str) -> bool {
        let request = self.request();
        let content = content.to_lowercase();
        let is_taken = |word: &str| {
            content.contains(word) || self.visited.iter().any(|path| path.to_lowercase().contains(word))
        };
        let mut words = request.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
        words.any(|word| word.chars().count() >= 4 && !is_no_name(&word) && !is_taken(&word))
    }

    /// Whether calls for the newest request were made already.
    pub(super) fn is_begun(&self) -> bool {
        self.open.is_some()
    }

    /// The words of the newest request, of what is not taken up yet.
    fn asked(&self) -> Vec<String> {
        let request = self.request();
        self.open.clone().unwrap_or_else(|| words(request).collect())
    }

    /// Where the new file goes that the newest request gives a name, of those not taken up yet: there, or by that name in
    /// a directory. None where it gives none, or names something else that is not there.
    pub(super) fn places(&self, named: &Named, directories: &[String]) -> Option<Choices> {
        let request = self.request();
        let files: BTreeSet<&str> =
            files_of(request).map(plain).filter(|file| named.missing.contains(*file)).collect();
        if files.is_empty() || files.len() > GIVEN || named.file {
            return None;
        }
        let names = files.iter().filter(|path| !path.contains('/'));
        let inner = directories.iter().filter(|directory| *directory != ".");
        let below = names.flat_map(|name| inner.clone().map(move |directory| format!("{directory}/{name}")));
        let texts = files.iter().map(|file| (*file).to_owned()).chain(below).collect();
        Some(Choices::Among { texts, beginnings: Vec::new() })
    }

    /// What the newest request names, of what is not taken up yet, where these files and directories are there.
    pub(super) fn named(&self, files: &[String], directories: &[String]) -> Named {
        let (files, directories) = (names_of(files), names_of(directories));
        let mut named = Named::default();
        for asked in self.asked() {
            let word = plain(&asked).to_lowercase();
            let directory = directories.contains(&word);
            // "a" is no word for a.txt.
            let file = files.contains(&word) && !is_no_name(&word);
            named.file |= file;
            named.directory |= directory;
            if directory && !is_no_name(&word) {
                named.directories.insert(plain(&asked).to_owned());
            }
            if !file && !directory {
                if is_pathlike(&word) {
                    named.missing.insert(plain(&asked).to_owned());
                }
                named.identifier |= is_identifier(&asked);
            }
        }
        named
    }

    /// The newest request.
    pub(super) fn request(&self) -> &str {
        self.texts.first().map(String::as_str).unwrap_or_default()
    }

    /// Paths that are there and, of what was said, those that are not: a word for one that is there in other words
    /// (`readme` for the only `docs/README.md`) is left out, so that the path itself is written.
    pub(super) fn with_paths(&self, paths: Vec<String>, open: &[String]) -> Choices {
        let names_paths = self.names_paths(&paths);
        self.among(paths, open, |word| is_pathlike(word) || !(names_paths || is_no_name(word)))
    }

    /// The same for a tool that reads files: of what is not there, only what a user wrote as a path, which has a slash or an
    /// ending or is quoted. Another word is none, though it could be a name.
    pub(super) fn with_named_paths(&self, paths: Vec<String>, open: &[String]) -> Choices {
        let names_paths = self.names_paths(&paths);
        let quoted: HashSet<&str> = self.texts.iter().flat_map(|text| enclosed(text)).collect();
        self.among(paths, open, |word| is_pathlike(word) || !names_paths && quoted.contains(word))
    }

    /// Whether the newest request has a path: who names one does not mean another word by it.
    fn names_paths(&self, paths: &[String]) -> bool {
        let known: HashSet<&str> = paths.iter().map(String::as_str).collect();
        words(self.request()).any(|word| is_pathlike(&word) || known.contains(plain(&word)))
    }

    /// Paths that are there and, of what was said, those that are not and may be said.
    fn among(&self, paths: Vec<String>, open: &[String], may_be_said: impl Fn(&str) -> bool) -> Choices {
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        for path in &paths {
            let last = path.rsplit('/').next().unwrap_or(path).to_lowercase();
            let stem = last.rsplit_once('.').map(|(stem, _)| stem.to_owned());
            for name in stem.filter(|stem| !stem.is_empty()).into_iter().chain([last]) {
                *names.entry(name).or_default() += 1;
            }
        }
        let is_other = |word: &&String| names.get(&word.to_lowercase()) != Some(&1);
        let missing = self.words.iter().filter(is_other).filter(|word| may_be_said(word));
        let missing: Vec<String> = missing.cloned().collect();
        // Some models begin every path so.
        let dotted = paths.iter().filter(|path| *path != ".").map(|path| format!("./{path}"));
        let texts: BTreeSet<String> = dotted.chain(missing).chain(paths.iter().cloned()).collect();
        let open = open.iter().flat_map(|path| match path.as_str() {
            "." => vec![String::new()],
            path => vec![format!("{path}/"), format!("./{path}/")],
        });
        Choices::Among { texts: texts.into_iter().collect(), beginnings: open.collect() }
    }
}

/// The words of a text that could tell what it is about, in lower case; no paths.
fn telling(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split_whitespace().filter(|word| !is_pathlike(word));
    let words = words.flat_map(|word| word.split(|c: char| !c.is_alphanumeric())).map(str::to_lowercase);
    words.filter(|word| word.chars().count() >= 3 && !is_no_name(word))
}

/// The words of a text that may be paths.
fn paths_in(text: &str) -> impl Iterator<Item = String> + '_ {
    words(text).map(|word| plain(&word).to_owned())
}

/// Whether a word names nothing by itself.
pub(super) fn is_no_name(word: &str) -> bool {
    is_among(word, NO_NAMES)
}

/// All that these paths may be called, in lower case: the path, each end of it, and the last name without its ending.
fn names_of(paths: &[String]) -> HashSet<String> {
    let mut names = HashSet::new();
    for path in paths {
        let path = path.to_lowercase();
        let ends = path.match_indices('/').filter_map(|(at, _)| path.get(at + 1..)).map(str::to_owned);
        names.extend(ends);
        let last = path.rsplit('/').next().unwrap_or(&path);
        names.extend(last.rsplit_once('.').map(|(stem, _)| stem.to_owned()));
        names.insert(path);
    }
    names
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]
    use serde_json::json;
    use toolgate_tools::ToolResult;

    use super::super::scene::{Scene, hits, listing};
    use super::*;

    fn said(text: &str) -> Said {
        Said::of(&Scene::asked(text).at())
    }

    fn texts(choices: Choices) -> Vec<String> {
        match choices {
            Choices::Among { texts, .. } => texts,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_users_write_can_be_said() {
        for (message, word) in [
            ("Read missing.txt", "missing.txt"),
            ("Is there a file `my notes.txt`?", "my notes.txt"),
            ("What is in \"a b/c\"?", "a b/c"),
            ("Show me docs/old.md.", "docs/old.md"),
            ("List ./reports/, please", "./reports/"),
            ("读取missing.txt文件", "missing.txt"),
            ("Open the file todo", "todo"),
            ("cat /etc/passwd", "/etc/passwd"),
            ("see .gitignore", ".gitignore"),
        ] {
            let choices = texts(said(message).with_paths(vec!["a.txt".into()], &[]));
            assert!(choices.iter().any(|text| text == word), "{message}: {choices:?}");
            assert!(choices.iter().any(|text| text == "a.txt"), "{message}");
        }
    }

    #[test]
    fn a_look_is_at_what_is_there_or_was_written_as_a_path() {
        let there = || vec!["config/app.toml".to_owned(), "src/main.rs".to_owned()];
        let looks = |message: &str| texts(said(message).with_named_paths(there(), &[]));
        for (message, word) in [
            ("What is the default port?", "port"),
            ("What is the default port of the server?", "server"),
            ("Open the file todo", "todo"),
            ("How does Server start, and what's the user's default?", "Server"),
            ("Wie startet der Server?", "Server"),
        ] {
            let choices = looks(message);
            assert_eq!(choices.len(), 4, "{message}: {choices:?}");
            let writes = texts(said(message).with_paths(there(), &[]));
            assert!(writes.iter().any(|text| text == word), "a tool that changes may name it: {message}");
        }
        for (message, word) in [
            ("Read server.toml", "server.toml"),
            ("What is in server/?", "server/"),
            ("Is there a file `server`?", "server"),
            ("Is there a file \"server\"?", "server"),
            ("Is there a file 'server'?", "server"),
            ("Gibt es „server“?", "server"),
            ("Read “my notes”, please", "my notes"),
        ] {
            let choices = looks(message);
            assert!(choices.iter().any(|text| text == word), "{message}: {choices:?}");
        }
        // A word of an earlier request is none either.
        let mut earlier = Scene::asked("How does the server start?");
        earlier.transcript.push(Message::User("What is the default port?".into()));
        assert_eq!(texts(Said::of(&earlier.at()).with_named_paths(there(), &[])).len(), 4);
        let two = vec!["a/server.rs".to_owned(), "b/server.rs".to_owned()];
        let choices = texts(said("What is the port of the server?").with_named_paths(two, &[]));
        assert!(!choices.contains(&"server".to_owned()), "{choices:?}");
    }

    #[test]
    fn a_word_for_what_is_there_gives_way_to_its_path() {
        let there = || vec!["docs/README.md".to_owned(), "a/log.txt".to_owned(), "b/log.txt".to_owned()];
        let choices = |message: &str| texts(said(message).with_paths(there(), &[]));
        assert!(!choices("What does the readme say?").contains(&"readme".to_owned()));
        assert!(!choices("Read README.md").contains(&"README.md".to_owned()));
        assert!(
            choices("Read log.txt").contains(&"log.txt".to_owned()),
            "two are called so: the user is told"
        );
        assert!(choices("Read old/README.md").contains(&"old/README.md".to_owned()));
    }

    #[test]
    fn of_results_only_paths_are_words() {
        let scene =
            Scene::asked("go").called("t", &json!({}), ToolResult::ok("see old/plan.txt and the others"));
        assert_eq!(texts(Said::of(&scene.at()).with_paths(Vec::new(), &[])), ["go", "old/plan.txt"]);
        let there = Said::default().with_paths(vec![".".into(), "a".into()], &["b".into()]);
        let beginnings = vec!["b/".to_owned(), "./b/".to_owned()];
        let both = [".", "./a", "a"].map(str::to_owned).into();
        assert_eq!(there, Choices::Among { texts: both, beginnings });
    }

    #[test]
    fn who_names_a_path_means_no_other_word_by_it() {
        let choices = |message: &str| texts(said(message).with_paths(vec!["a.txt".into()], &[]));
        assert_eq!(choices("In a.txt replace Acme by Zeta"), ["./a.txt", "a.txt"]);
        assert_eq!(choices("list the files here please"), ["./a.txt", "a.txt"]);
        assert!(choices("What is in backups?").contains(&"backups".to_owned()));
    }

    #[test]
    fn what_is_named_is_told_apart_by_what_is_there() {
        let (files, directories) = (vec!["docs/plan.md".to_owned()], vec![".".to_owned(), "docs".to_owned()]);
        let named = |message: &str| said(message).named(&files, &directories);
        let noted = "<session_context>plan.md was read</session_context> Show it";
        assert!(!named(noted).file, "a note is no part of what was asked");
        assert!(
            named("Show plan.md").file && named("Show the plan").file && named("see ./docs/plan.md").file
        );
        let a = vec!["a.txt".to_owned()];
        assert!(!said("Is there a door?").named(&a, &[]).file && said("See a.txt").named(&a, &[]).file);
        assert!(named("List docs/").directory && !named("List docs/").file);
        assert_eq!(named("List docs/ and plan").directories.iter().collect::<Vec<_>>(), ["docs"]);
        let missing = named("Put 3.5 into new.txt and b/c");
        assert_eq!(missing.missing.iter().collect::<Vec<_>>(), ["b/c", "new.txt"]);
        let put = said("Put 3.5 into new.txt and b/c");
        let places = put.places(&put.named(&files, &directories), &directories);
        assert_eq!(places.map(texts), Some(vec!["new.txt".to_owned(), "docs/new.txt".to_owned()]));
        let about = said("Write notes about node.js");
        assert_eq!(about.places(&about.named(&files, &directories), &directories), None);
        assert!(named("Where is RetryBudget set?").identifier && !named("Where is Ana?").identifier);
        let begun = said("Show plan.md, write new.txt").with_pending(Some(vec!["new.txt".into()]));
        assert!(
            begun.is_begun() && !begun.named(&files, &directories).file,
            "what was taken up does not count"
        );
    }

    #[test]
    fn a_short_find_leads_to_the_one_file_it_names() {
        let files = ["note.txt", "safe/blue.txt", "safe/red.txt", "in/m-1.txt"].map(str::to_owned);
        let lead = |request: &str, path: &str, found: ToolResult| {
            let scene = Scene::asked(request).with_paths("t").called("t", &json!({"path": path}), found);
            Said::of(&scene.at()).lead(&files)
        };
        let read = |text: &str| lead("What is the code? See note.txt", "note.txt", ToolResult::ok(text));
        assert_eq!(read("It is in safe/blue.txt."), Some("safe/blue.txt".to_owned()));
        assert_eq!(read("It is in safe/blue.txt or safe/red.txt."), None, "they are two");
        let two = "old: safe/red.txt\ncode: safe/blue.txt";
        assert_eq!(read(two), Some("safe/blue.txt".to_owned()), "one is on the line about it");
        assert_eq!(read("It is in safe/gone.txt."), None, "it is not there");
        assert_eq!(read("note.txt says nothing"), None, "it was read");
        assert_eq!(read("a\nb\nc\nsafe/blue.txt"), None, "a text about more");
        let inbox = |request: &str| lead(request, "in", listing(&["m-1.txt"], None));
        assert_eq!(inbox("Who wrote the message in the folder in?"), Some("in/m-1.txt".to_owned()));
        assert_eq!(inbox("What files are there in the folder in?"), None, "that was all");
        let found = |request: &str, found: &[(&str, &str)], partial| lead(request, ".", hits(found, partial));
        let keys = found("Which message is about keys?", &[("in/m-1.txt", "Keys")], false);
        assert_eq!(keys, None, "it was found there");
        let sum = "How much is the message about?";
        assert_eq!(found(sum, &[("in/m-1.txt", "Keys")], true), Some("in/m-1.txt".to_owned()));
        let named = [("note.txt", "Message: see safe/red.txt")];
        assert_eq!(found(sum, &named, false), Some("safe/red.txt".to_owned()));
        let both = [("note.txt", "Message"), ("in/m-1.txt", "Keys")];
        assert_eq!(found(sum, &both, false), None, "nothing is missing");
    }

    #[test]
    fn nothing_and_everything_are_no_choices() {
        let among = |texts: &[&str], beginnings: &[&str]| Choices::Among {
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
            beginnings: beginnings.iter().map(|text| (*text).to_owned()).collect(),
        };
        assert_eq!(among(&[], &[]).keywords(), None);
        assert_eq!(among(&["a"], &[""]).keywords(), None);
        assert_eq!(Choices::OnceIn(String::new()).keywords(), None);
        assert!(among(&["a"], &[]).keywords().is_some());
        assert_eq!(
            said("").with_paths(vec!["a".into()], &[".".into()]).keywords(),
            None,
            "a workspace too large to be named"
        );
    }
}
