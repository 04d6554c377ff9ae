//! Parses a shell command line, as far as needed to know the programs that it starts.
//!
//! Invariant: a line that cannot be parsed is reported so. A parsed line lists every program that the shell
//! would start. It serves the rules that ask and refuse, and never the isolation.

use std::iter::Peekable;
use std::str::Chars;

/// A program with its arguments, for the rules. A word that only the shell knows is `None`.
pub type Words = Vec<Option<String>>;

/// Levels of substitutions and inner shells that are followed.
const MAX_DEPTH: usize = 8;
/// Characters that are read in all. Substitutions and inner shells count each time. An honest line is far
/// shorter; a character costs about 20 ns.
const MAX_READ: usize = 1_000_000;
/// Commands in a line at most, and words in it at which another command could begin.
const MAX_FOUND: usize = 100_000;

/// The simple commands of a line.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    lines: Vec<Words>,
    /// The line, and the word at which a command begins.
    starts: Vec<(usize, usize)>,
}

impl Commands {
    /// Each command, with its arguments.
    pub fn iter(&self) -> impl Iterator<Item = &[Option<String>]> {
        self.starts.iter().filter_map(|(line, word)| self.lines.get(*line)?.get(*word..))
    }
}

/// The simple commands of `line`: those in lists, pipelines, substitutions, subshells, and shells that it
/// starts. `None` if a part cannot be parsed, or if parsing takes too long.
///
/// ```
/// use toolgate_sandbox::command::shell::commands;
/// let found = commands("cd src && git push \"$(git remote)\" | tee log").unwrap();
/// let programs: Vec<_> = found.iter().filter_map(|words| words.first()?.as_deref()).collect();
/// assert_eq!(programs, ["cd", "git", "git", "tee"]);
/// assert!(commands("echo 'open").is_none());
/// ```
pub fn commands(line: &str) -> Option<Commands> {
    let mut reading = Reading { found: Commands::default(), left: MAX_READ };
    reading.read(line, 0)?;
    Some(reading.found)
}

/// The state of the parser in a line, and the room that is left.
struct Reading {
    found: Commands,
    left: usize,
}

impl Reading {
    fn read(&mut self, line: &str, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.left = self.left.checked_sub(line.len())?;
        Reader { rest: line.chars().peekable(), reading: self, depth }.list()
    }

    /// Notes the command that begins at a word of a line.
    fn note(&mut self, line: usize, word: usize) -> Option<()> {
        self.found.starts.push((line, word));
        (self.found.starts.len() <= MAX_FOUND).then_some(())
    }
}

struct Reader<'t, 'r> {
    rest: Peekable<Chars<'t>>,
    reading: &'r mut Reading,
    depth: usize,
}

/// Words after which a command begins, as after a semicolon.
const KEYWORDS: &[&str] =
    &["if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}", "time"];
/// Words that begin syntax which is not parsed.
const UNREAD: &[&str] = &["for", "case", "esac", "select", "function", "coproc", "[["];
/// Programs that run the rest of their line as a command.
const WRAPPERS: &[&str] = &[
    "command", "exec", "nohup", "builtin", "sudo", "doas", "env", "nice", "ionice", "setsid", "stdbuf",
    "timeout", "xargs", "time", "busybox", "chroot", "unshare", "strace", "ltrace", "watch", "parallel",
    "entr",
];
/// Programs that run a text as a command line.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "fish", "eval", "source", ".", "trap", "alias"];

impl Reader<'_, '_> {
    /// Reads to the end, simple command by simple command.
    fn list(&mut self) -> Option<()> {
        let mut words: Words = Vec::new();
        loop {
            let Some(&c) = self.rest.peek() else {
                return self.end(words);
            };
            match c {
                ' ' | '\t' => {
                    self.rest.next();
                }
                '\n' | ';' | '&' | '|' | '(' | ')' => {
                    self.rest.next();
                    if c == '(' && !words.is_empty() {
                        // A function's definition.
                        return None;
                    }
                    self.end(std::mem::take(&mut words))?;
                }
                '#' => while self.rest.next_if(|c| *c != '\n').is_some() {},
                '<' | '>' => self.redirection(&mut words)?,
                _ => {
                    let word = self.word()?;
                    let first = word.as_deref().filter(|_| words.is_empty());
                    // A number right before it is the descriptor's, not an argument.
                    if matches!(self.rest.peek(), Some('<' | '>'))
                        && word.as_deref().is_some_and(|word| word.parse::<u8>().is_ok())
                    {
                        continue;
                    }
                    match first {
                        Some(word) if UNREAD.contains(&word) => return None,
                        Some(word) if KEYWORDS.contains(&word) || is_assignment(word) => {}
                        // `NAME=$VALUE command`: the value is the shell's, the rest is still a command.
                        _ => words.push(word),
                    }
                }
            }
        }
    }

    /// Skips the file of a redirection, which is no argument. A process in its place is parsed like any
    /// other.
    fn redirection(&mut self, words: &mut Words) -> Option<()> {
        let first = self.rest.next()?;
        let next = self.rest.peek().copied();
        if next == Some('(') {
            self.rest.next();
            let inner = self.parenthesized()?;
            words.push(None);
            return self.reading.read(&inner, self.depth + 1);
        }
        if first == '<' && next == Some('<') {
            // What follows is a document with rules of its own.
            return None;
        }
        while self.rest.next_if(|c| matches!(c, '>' | '&' | '|' | '<')).is_some() {}
        while self.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        self.word().map(drop)
    }

    /// A word without its quotes. `Some(None)` if only the shell knows the word; `None` if it cannot be
    /// parsed.
    #[expect(
        clippy::option_option,
        reason = "the outer one is failure, the inner one a word nobody knows yet"
    )]
    fn word(&mut self) -> Option<Option<String>> {
        let mut text = String::new();
        let mut known = true;
        while let Some(&c) = self.rest.peek() {
            if matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>') {
                break;
            }
            self.rest.next();
            match c {
                '\'' => loop {
                    match self.rest.next()? {
                        '\'' => break,
                        c => text.push(c),
                    }
                },
                '"' => known &= self.quoted(&mut text)?,
                '\\' => match self.rest.next()? {
                    '\n' => {}
                    c => text.push(c),
                },
                '$' => known &= self.dollar(&mut text)?,
                '`' => {
                    self.backquoted()?;
                    known = false;
                }
                // Names that the shell looks for in the file system.
                '*' | '?' | '[' | '~' | '{' => {
                    known &=
                        c == '{' && text.is_empty() && self.rest.peek().is_none_or(|c| c.is_whitespace());
                    text.push(c);
                }
                c => text.push(c),
            }
        }
        Some(known.then_some(text))
    }

    /// Reads to the closing quote. Returns whether all of the text is known.
    fn quoted(&mut self, text: &mut String) -> Option<bool> {
        let mut known = true;
        loop {
            match self.rest.next()? {
                '"' => return Some(known),
                '\\' => match self.rest.next()? {
                    '\n' => {}
                    c @ ('"' | '\\' | '$' | '`') => text.push(c),
                    c => text.extend(['\\', c]),
                },
                '$' => known &= self.dollar(text)?,
                '`' => {
                    self.backquoted()?;
                    known = false;
                }
                c => text.push(c),
            }
        }
    }

    /// Reads after a dollar sign. Returns whether the dollar stands for itself.
    fn dollar(&mut self, text: &mut String) -> Option<bool> {
        match self.rest.peek().copied() {
            Some('(') => {
                self.rest.next();
                let inner = self.parenthesized()?;
                // Arithmetic may hold substitutions too, and reads like a subshell.
                self.reading.read(&inner, self.depth + 1)?;
                Some(false)
            }
            Some('{') => {
                let mut depth = 0usize;
                loop {
                    match self.rest.next()? {
                        '{' => depth += 1,
                        '}' if depth == 1 => return Some(false),
                        '}' => depth -= 1,
                        // `${x:-$(command)}` starts a program as well.
                        '$' | '`' | '"' | '\'' | '\\' => return None,
                        _ => {}
                    }
                }
            }
            // $'…' has escapes of its own.
            Some('\'' | '"') => None,
            Some(c) if c.is_alphanumeric() || "_@*#?$!-".contains(c) => {
                self.rest.next();
                while self.rest.next_if(|c| c.is_alphanumeric() || *c == '_').is_some() {}
                Some(false)
            }
            _ => {
                text.push('$');
                Some(true)
            }
        }
    }

    fn backquoted(&mut self) -> Option<()> {
        let mut inner = String::new();
        loop {
            match self.rest.next()? {
                '`' => return self.reading.read(&inner, self.depth + 1),
                '\\' => return None,
                c => inner.push(c),
            }
        }
    }

    /// The text up to the parenthesis that closes the one just read.
    fn parenthesized(&mut self) -> Option<String> {
        let mut inner = String::new();
        let mut depth = 1usize;
        loop {
            let c = self.rest.next()?;
            match c {
                '(' => depth += 1,
                ')' if depth == 1 => return Some(inner),
                ')' => depth -= 1,
                '\'' | '"' => {
                    inner.push(c);
                    self.copy_quoted(c, &mut inner)?;
                    continue;
                }
                '\\' => {
                    inner.push(c);
                    inner.push(self.rest.next()?);
                    continue;
                }
                _ => {}
            }
            inner.push(c);
        }
    }

    fn copy_quoted(&mut self, quote: char, inner: &mut String) -> Option<()> {
        loop {
            let c = self.rest.next()?;
            inner.push(c);
            if c == quote {
                return Some(());
            }
            if c == '\\' && quote == '"' {
                inner.push(self.rest.next()?);
            }
        }
    }

    /// A simple command is complete.
    fn end(&mut self, words: Words) -> Option<()> {
        if words.is_empty() {
            return Some(());
        }
        let line = self.reading.found.lines.len();
        let is_wrapper = has_name(words.first(), WRAPPERS);
        // Which word of a wrapper's line begins the command depends on its options: each of them may.
        let starts = if is_wrapper { words.len() } else { 1 };
        // Shells that have the same text to run have it read once.
        let mut texts: Vec<(usize, String)> = Vec::new();
        let mut flag = None;
        for start in (0..starts).rev() {
            // Counted from the end, so that the next flag is known without looking for it again.
            if words.get(start).is_some_and(|word| word.as_deref().is_some_and(is_command_flag)) {
                flag = Some(start);
            }
            if has_name(words.get(start), SHELLS) {
                let name = words.get(start).and_then(Option::as_deref).map(program_name)?;
                texts.push(match name {
                    "eval" => {
                        let text = eval_text(&words, start + 1, self.reading.left)?;
                        self.reading.left = self.reading.left.checked_sub(text.len())?;
                        (start, text)
                    }
                    _ => {
                        let flag = flag.or_else(|| flag_after(&words, start, starts))?;
                        (flag, words.get(flag + 1)?.clone()?)
                    }
                });
            }
            self.reading.note(line, start)?;
        }
        self.reading.found.lines.push(words);
        texts.dedup_by_key(|(at, _)| *at);
        texts.into_iter().try_for_each(|(_, text)| self.reading.read(&text, self.depth + 1))
    }
}

/// The first flag behind `start` that is followed by a text to run, where not every word has been looked at.
fn flag_after(words: &Words, start: usize, looked_at: usize) -> Option<usize> {
    let from = start.max(looked_at);
    let found = words.iter().skip(from).position(|word| word.as_deref().is_some_and(is_command_flag));
    found.map(|at| from + at)
}

/// The command of `eval`: its arguments in one line.
fn eval_text(words: &Words, from: usize, most: usize) -> Option<String> {
    let mut text = String::new();
    for word in words.iter().skip(from) {
        text.push_str(word.as_deref()?);
        text.push(' ');
        (text.len() <= most).then_some(())?;
    }
    Some(text)
}

/// An option of a shell that is followed by a text to run.
fn is_command_flag(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.contains('c')
}

fn has_name(word: Option<&Option<String>>, names: &[&str]) -> bool {
    word.and_then(Option::as_deref).is_some_and(|word| names.contains(&program_name(word)))
}

fn program_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    fn check(line: &str, programs: &[&str]) {
        let found = commands(line).unwrap_or_else(|| panic!("{line} is not read"));
        let mut names: Vec<String> = found
            .iter()
            .map(|words| words.first().cloned().flatten().unwrap_or_else(|| "?".into()))
            .collect();
        names.sort();
        let mut programs: Vec<&str> = programs.to_vec();
        programs.sort_unstable();
        assert_eq!(names, programs, "{line}");
    }

    #[test]
    fn every_program_of_a_line_is_found() {
        check("ls -l", &["ls"]);
        check("a && b || c; d & e | f\ng", &["a", "b", "c", "d", "e", "f", "g"]);
        check("(a; b) > out 2>&1", &["a", "b"]);
        check("2>/dev/null a 3<in", &["a"]);
        check("{ a; b; }", &["a", "b"]);
        check("if a; then b; else c; fi", &["a", "b", "c"]);
        check("while a; do b; done", &["a", "b"]);
        check("echo $(a $(b)) `c` \"$(d)\"", &["a", "b", "c", "d", "echo"]);
        check("diff <(a) <(b)", &["a", "b", "diff"]);
        check("X=1 Y=2 a", &["a"]);
        check("a # b", &["a"]);
        check("'g'it push", &["git"]);
        check("g\\it push", &["git"]);
        check("$CMD x", &["?"]);
        check("sh -c 'a; b'", &["a", "b", "sh"]);
        check("bash -lc \"git push\"", &["bash", "git"]);
        check("eval git push", &["eval", "git"]);
        check("echo 'a; b' \"c | d\"", &["echo"]);
        check("", &[]);
    }

    #[test]
    fn a_wrapper_s_words_may_each_begin_the_command() {
        for line in
            ["env -i X=1 git push", "timeout 5 git push", "sudo -u me git push", "xargs git push < list"]
        {
            let found = commands(line).unwrap();
            let push = [Some("git".to_owned()), Some("push".to_owned())];
            assert!(found.iter().any(|words| words.starts_with(&push)), "{line}: {found:?}");
        }
    }

    /// What was read of a line, in characters, and the commands that were found; nothing where it was too much.
    fn cost(line: &str) -> Option<(usize, usize)> {
        let mut reading = Reading { found: Commands::default(), left: MAX_READ };
        reading.read(line, 0)?;
        Some((MAX_READ - reading.left, reading.found.starts.len()))
    }

    #[test]
    fn twice_the_line_is_twice_the_work() {
        let nested = |n: usize| format!("env {}sh -c 'git push'", "sh ".repeat(n));
        let quoted = |n: usize| {
            (0..n).fold("git push".to_owned(), |line, _| format!("sh -c \"{}\"", line.replace('"', "\\\"")))
        };
        type Kind<'k> = (&'k str, Box<dyn Fn(usize) -> String>);
        let kinds: [Kind<'_>; 7] = [
            ("words", Box::new(|n| format!("env {}", "a ".repeat(n)))),
            ("shells", Box::new(nested)),
            ("evals", Box::new(|n| format!("env {}x", "eval ".repeat(n)))),
            ("flags", Box::new(|n| format!("env {}sh -c x", "sh -c ".repeat(n)))),
            ("substitutions", Box::new(|n| "$(a) ".repeat(n))),
            ("lists", Box::new(|n| "a; ".repeat(n))),
            ("quotes", Box::new(|n| format!("echo {}", "'a' ".repeat(n)))),
        ];
        for (name, make) in kinds {
            let (once, twice) = (cost(&make(400)), cost(&make(800)));
            match (once, twice) {
                (Some((read, found)), Some((read2, found2))) => {
                    assert!(
                        read2 <= read * 9 / 4 + 64 && found2 <= found * 9 / 4 + 8,
                        "{name}: {once:?} {twice:?}"
                    );
                }
                // What would be more is not read at all.
                (_, twice) => assert_eq!(twice, None, "{name}"),
            }
        }
        for line in [
            "env ".to_owned() + &"a ".repeat(16_000),
            nested(3_000),
            quoted(12),
            "env ".to_owned() + &"eval ".repeat(16_000),
        ] {
            let cost = cost(&line);
            assert!(cost.is_none_or(|(read, found)| read <= MAX_READ && found <= MAX_FOUND), "{cost:?}");
        }
        assert!(cost(&"$(".repeat(5_000)).is_none());
    }

    #[test]
    fn what_is_not_understood_is_said_to_be_so() {
        for line in [
            "echo 'open",
            "echo \"open",
            "echo $(open",
            "cat <<E\nx\nE",
            "for x in 1; do a; done",
            "case x in esac",
            "f() { a; }",
            "echo $'\\x41'",
            "bash script.sh",
            "sh < x",
            "eval \"$x\"",
            "echo ${x:-$(a)}",
            "a \\",
        ] {
            assert!(commands(line).is_none(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(line in "[a-z $(){}'\"\\\\|&;<>`#\n=]{0,40}") {
            let _ = commands(&line);
        }

        #[test]
        fn quoting_a_word_does_not_hide_it(at in 1usize..4, quote in prop::sample::select(vec!["''", "\"\"", "\\"])) {
            let (head, tail) = "push".split_at(at);
            let found = commands(&format!("true; git {head}{quote}{tail}")).unwrap();
            let push = [Some("git".to_owned()), Some("push".to_owned())];
            prop_assert!(found.iter().any(|words| words == push));
        }
    }
}
