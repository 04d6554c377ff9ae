//! A shell command line, read far enough to know which programs it starts.
//!
//! Invariant: what is not understood is said to be so; no program that the shell would start is left out of a line that
//! is said to be understood. It serves the rules that ask and refuse, never the isolation.

/// A program with its arguments, as the rules see it. A word that only the shell can know is `None`.
pub type Words = Vec<Option<String>>;

/// Nesting of substitutions and inner shells that is followed.
const MAX_DEPTH: usize = 8;

/// Every simple command of `line`: of lists, pipelines, substitutions, subshells, and of shells it starts itself.
/// `None` if a part cannot be read.
///
/// ```
/// use toolgate_sandbox::command::shell::commands;
/// let found = commands("cd src && git push \"$(git remote)\" | tee log").unwrap();
/// let programs: Vec<_> = found.iter().filter_map(|words| words.first()?.as_deref()).collect();
/// assert_eq!(programs, ["cd", "git", "git", "tee"]);
/// assert!(commands("echo 'open").is_none());
/// ```
pub fn commands(line: &str) -> Option<Vec<Words>> {
    let mut found = Vec::new();
    read(line, &mut found, 0)?;
    Some(found)
}

fn read(line: &str, found: &mut Vec<Words>, depth: usize) -> Option<()> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut reader = Reader { rest: line.chars().collect::<Vec<_>>().into_iter().peekable(), found, depth };
    reader.list()
}

type Characters = std::iter::Peekable<std::vec::IntoIter<char>>;

struct Reader<'f> {
    rest: Characters,
    found: &'f mut Vec<Words>,
    depth: usize,
}

/// Words after which a command begins, as after a semicolon.
const KEYWORDS: &[&str] =
    &["if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}", "time"];
/// Words that begin what is not read: their own grammar would have to be.
const UNREAD: &[&str] = &["for", "case", "esac", "select", "function", "coproc", "[["];
/// Programs that run the rest of their line as a command.
const WRAPPERS: &[&str] = &[
    "command", "exec", "nohup", "builtin", "sudo", "doas", "env", "nice", "ionice", "setsid", "stdbuf",
    "timeout", "xargs", "time", "busybox", "chroot", "unshare", "strace", "ltrace", "watch", "parallel",
    "entr",
];
/// Programs that run a text as a command line.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "fish", "eval", "source", ".", "trap", "alias"];

impl Reader<'_> {
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

    /// The file of a redirection is no argument; a process in its place is read like any other.
    fn redirection(&mut self, words: &mut Words) -> Option<()> {
        let first = self.rest.next()?;
        let next = self.rest.peek().copied();
        if next == Some('(') {
            self.rest.next();
            let inner = self.parenthesized()?;
            words.push(None);
            return read(&inner, self.found, self.depth + 1);
        }
        if first == '<' && next == Some('<') {
            // What follows is a document with rules of its own.
            return None;
        }
        while self.rest.next_if(|c| matches!(c, '>' | '&' | '|' | '<')).is_some() {}
        while self.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        self.word().map(drop)
    }

    /// A word, without its quotes; `Some(None)` if only the shell knows what it is, `None` if it cannot be read.
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

    /// To the closing quote; whether all of it is known.
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

    /// After a dollar sign; whether it stands for itself.
    fn dollar(&mut self, text: &mut String) -> Option<bool> {
        match self.rest.peek().copied() {
            Some('(') => {
                self.rest.next();
                let inner = self.parenthesized()?;
                // Arithmetic may hold substitutions too, and reads like a subshell.
                read(&inner, self.found, self.depth + 1)?;
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
                '`' => return read(&inner, self.found, self.depth + 1),
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
        let Some(first) = words.first() else { return Some(()) };
        let name = first.as_deref().map(program_name);
        if name.is_some_and(|name| SHELLS.contains(&name)) {
            self.inner_shell(&words)?;
        }
        if name.is_some_and(|name| WRAPPERS.contains(&name)) {
            // Which of its words begins the command depends on its options: each of them may.
            for start in 1..words.len() {
                let rest: Words = words.iter().skip(start).cloned().collect();
                let beginning = rest.first().and_then(Option::as_deref).map(program_name);
                if beginning.is_some_and(|name| SHELLS.contains(&name)) {
                    self.inner_shell(&rest)?;
                }
                self.found.push(rest);
            }
        }
        self.found.push(words);
        Some(())
    }

    /// The text that a shell is given is a line of its own; a script it is given cannot be read.
    fn inner_shell(&mut self, words: &Words) -> Option<()> {
        let name = words.first().and_then(Option::as_deref).map(program_name)?;
        if name == "eval" {
            let text: Option<Vec<&str>> = words.iter().skip(1).map(Option::as_deref).collect();
            return read(&text?.join(" "), self.found, self.depth + 1);
        }
        let flag = words.iter().position(|word| {
            word.as_deref()
                .is_some_and(|word| word.starts_with('-') && !word.starts_with("--") && word.contains('c'))
        })?;
        let text = words.get(flag + 1)?.as_deref()?.to_owned();
        read(&text, self.found, self.depth + 1)
    }
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
            prop_assert!(found.contains(&vec![Some("git".into()), Some("push".into())]));
        }
    }
}
