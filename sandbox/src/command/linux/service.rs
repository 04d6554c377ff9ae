//! Runs a command that stays: it is confined and watched like any other. The caller writes to its standard
//! input and reads its standard output until it stops the command.
//!
//! Invariant: the command does not outlive its [`Service`]. When that is dropped, every process of the
//! command ends.

use std::io::{PipeReader, PipeWriter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Commands, could_not_start};
use crate::command::Ran;
use crate::error::{Error, Kind};
use crate::net::Denials;

/// The time limit of a service: a year, which is as good as none.
pub(super) const WALL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Time for a service to end by itself after the end of its input.
const GRACE: Duration = Duration::from_millis(500);

/// The pipes of a command.
pub(super) struct TalkPipes {
    pub(super) input: PipeReader,
    pub(super) output: PipeWriter,
    /// What it was kept from reaching.
    pub(super) denials: Arc<Denials>,
}

/// A confined command with pipes to its standard input and output. Dropping it ends the command.
///
/// ```standalone_crate
/// use std::io::{Write as _, read_to_string};
/// use toolgate_sandbox::{Root, ambient_authority, command::{Commands, End, Setup}, policy::{Mode, Policy}};
///
/// toolgate_sandbox::command::enter_stage_if_asked();
/// let (root, policy) = (Root::open(".", ambient_authority())?, Policy::default_for(Mode::Intel));
/// if let Ok(commands) = Commands::new(&root, &policy, Mode::Intel, &Setup::default()) {
///     let mut service = commands.serve(&["cat".to_owned()])?;
///     let (mut input, output) = service.take_pipes().ok_or("they were taken")?;
///     input.write_all(b"hello")?;
///     drop(input);
///     assert_eq!(read_to_string(output)?, "hello");
///     assert_eq!(service.stop()?.end, End::Exited(0));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Service {
    pipes: Option<(PipeWriter, PipeReader)>,
    stop: Arc<AtomicBool>,
    denials: Arc<Denials>,
    thread: Option<JoinHandle<Result<Ran, Error>>>,
}

impl Commands {
    /// Starts a program with its arguments and pipes. It has the bounds of every command but the time limit.
    /// The rules are not asked, since they are for command lines of a model.
    ///
    /// An error of the confinement shows later: the command ends at once, and [`Service::stop`] returns the
    /// reason.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for an empty command or a NUL in it. [`Kind::Failed`] if no pipe can be made.
    pub fn serve(&self, command: &[String]) -> Result<Service, Error> {
        if command.is_empty() || command.iter().any(|word| word.contains('\0')) {
            return Err(Error::new(Kind::Invalid, "the command is empty or holds a NUL"));
        }
        let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
        let line = format!("exec {}", words.join(" "));
        let (input, to_input) = std::io::pipe().map_err(could_not_start)?;
        let (from_output, output) = std::io::pipe().map_err(could_not_start)?;
        let stop = Arc::new(AtomicBool::new(false));
        let denials = Arc::<Denials>::default();
        let (talk, stopped) = (TalkPipes { input, output, denials: denials.clone() }, stop.clone());
        let commands = self.clone();
        let thread = std::thread::Builder::new()
            .name("toolgate-service".to_owned())
            .spawn(move || commands.carry_out(&line, Some(talk), stopped))
            .map_err(could_not_start)?;
        Ok(Service { pipes: Some((to_input, from_output)), stop, denials, thread: Some(thread) })
    }
}

impl Service {
    /// The writing end of its standard input and the reading end of its standard output. They can be taken
    /// once.
    pub fn take_pipes(&mut self) -> Option<(PipeWriter, PipeReader)> {
        self.pipes.take()
    }

    /// The refused connections since the last question: host, port and reason.
    ///
    /// ```no_run
    /// # fn told(service: &toolgate_sandbox::command::Service) {
    /// for denied in service.unreached() {
    ///     eprintln!("{denied}");
    /// }
    /// # }
    /// ```
    pub fn unreached(&self) -> Vec<String> {
        self.denials.take()
    }

    /// Ends the command and all its processes. Returns the end of the command and its standard error. Close
    /// the pipes first, so it can end by itself.
    ///
    /// # Errors
    /// As [`Commands::run`]: the reason that the command was not started.
    pub fn stop(mut self) -> Result<Ran, Error> {
        let ended = self.end();
        ended.unwrap_or_else(|| Err(Error::new(Kind::Failed, "the service stopped unexpectedly")))
    }

    fn end(&mut self) -> Option<Result<Ran, Error>> {
        self.pipes = None;
        let thread = self.thread.take()?;
        let deadline = Instant::now() + GRACE;
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.stop.store(true, Ordering::Relaxed);
        thread.join().ok()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end();
    }
}

/// A word in quotes for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
