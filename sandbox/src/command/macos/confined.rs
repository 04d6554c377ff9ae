//! Says how a command is started: the program, its arguments, its environment. Starts nothing.
//!
//! Invariant: the shell sets the bounds before the command, and says so before it becomes the command. So an
//! output without that line is one of a command that never ran.

use std::path::PathBuf;

use crate::command::Limits;
use crate::command::environment::Environment;

/// What puts a profile on a program. It lies where not even root can write.
pub(super) const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";
/// The shell that sets the bounds.
const SHELL: &str = "/bin/sh";

/// Sets the bounds, closes what may have been inherited, says `$4`, and becomes the shell of the command. A
/// shell may take a block of `ulimit -f` for 512 bytes.
const LAUNCHER: &str = "ulimit -c 0 && ulimit -t \"$2\" && ulimit -f \"$3\" && ulimit -n 1024 || exit 125\n\
                        exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-\n\
                        printf '%s\\n' \"$4\" >&2\n\
                        exec \"$0\" -c \"$1\"";

/// A command, ready to be started.
pub(super) struct Confined {
    pub(super) program: &'static str,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Environment,
    /// Where it starts.
    pub(super) directory: PathBuf,
    /// The line that it says before the command begins.
    pub(super) word: String,
}

/// What a command is run with.
pub(super) struct Task<'a> {
    /// The profile; a control has none.
    pub(super) profile: Option<&'a str>,
    pub(super) shell: Option<&'a str>,
    pub(super) command: &'a str,
    pub(super) limits: &'a Limits,
    pub(super) environment: Environment,
    pub(super) directory: PathBuf,
    /// A number that the command cannot know.
    pub(super) number: u64,
}

impl Confined {
    /// The command of `task`.
    pub(super) fn new(task: Task<'_>) -> Self {
        let word = format!("toolgate-{:016x}", task.number);
        let blocks = task.limits.disk_mb.saturating_mul(1024);
        let shell = [
            SHELL,
            "-c",
            LAUNCHER,
            task.shell.unwrap_or(SHELL),
            task.command,
            &task.limits.cpu_s.to_string(),
            &blocks.to_string(),
            &word,
        ]
        .map(str::to_owned);
        let (program, arguments) = match task.profile {
            Some(profile) => {
                let seat = ["-p", profile, "--"].map(str::to_owned);
                (SANDBOX_EXEC, seat.into_iter().chain(shell).collect())
            }
            None => (SHELL, shell.into_iter().skip(1).collect()),
        };
        Self { program, arguments, environment: task.environment, directory: task.directory, word }
    }

    /// The output of the command, from the output of its process. Where it never began, what was said instead.
    pub(super) fn output<'o>(&self, whole: &'o [u8]) -> Result<&'o [u8], &'o [u8]> {
        let rest = whole.strip_prefix(self.word.as_bytes()).and_then(|rest| rest.strip_prefix(b"\n"));
        rest.ok_or(whole)
    }

    /// How many bytes of output are not the command's own.
    pub(super) fn word_bytes(&self) -> usize {
        self.word.len() + 1
    }
}

/// A word in quotes for the shell.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::policy::{Mode, Policy};

    /// A command without a profile, as any Unix runs it.
    pub(crate) fn plain(command: &str, limits: &Limits) -> Confined {
        Confined::new(Task {
            profile: None,
            shell: None,
            command,
            limits,
            environment: Environment::of(&Policy::default_for(Mode::Intel), "/", "/tmp"),
            directory: "/".into(),
            number: 7,
        })
    }

    #[test]
    fn a_command_is_one_argument_behind_its_profile() {
        let command = "echo 'a b' \"$X\"; exit 3";
        let limits = Limits::default();
        let without = plain(command, &limits);
        let with = Confined::new(Task {
            profile: Some("(version 1)\n(deny default)\n"),
            shell: Some("/bin/zsh"),
            command,
            limits: &limits,
            environment: without.environment.clone(),
            directory: "/".into(),
            number: 7,
        });
        assert_eq!((with.program, without.program), (SANDBOX_EXEC, SHELL));
        assert_eq!(
            with.arguments,
            [
                "-p",
                "(version 1)\n(deny default)\n",
                "--",
                SHELL,
                "-c",
                LAUNCHER,
                "/bin/zsh",
                command,
                "30",
                "262144",
                "toolgate-0000000000000007"
            ]
        );
        assert_eq!(without.arguments.len() + 4, with.arguments.len());
        assert!(without.arguments.contains(&SHELL.to_owned()), "the shell of a policy that names none");
        let names: Vec<&str> = with.environment.variables().iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "LANG"]);
    }

    #[test]
    fn an_output_is_a_commands_only_behind_its_word() {
        let confined = plain(":", &Limits::default());
        let word = confined.word.clone();
        assert_eq!(confined.output(format!("{word}\nhello\n").as_bytes()), Ok(&b"hello\n"[..]));
        assert_eq!(confined.output(format!("{word}\n").as_bytes()), Ok(&b""[..]));
        for other in ["", "sandbox-exec: no", word.as_str(), &format!("x{word}\n")] {
            assert_eq!(confined.output(other.as_bytes()), Err(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_word_for_the_shell_is_one_word() {
        assert_eq!(quoted("a b$(c)`d`\\"), "'a b$(c)`d`\\'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
