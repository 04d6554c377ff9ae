//! A command that goes on: confined and watched like any other, and talked to over its standard input and output until it
//! is stopped.
//!
//! Invariant: it does not outlive its [`Service`]; when that is gone, so is every process of the command.

use std::io::{PipeReader, PipeWriter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Commands, could_not_start};
use crate::command::Ran;
use crate::error::{Error, Kind};
use crate::net::Denials;

/// A service has no end of its own; a year is as good as none.
pub(super) const WALL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How long a service whose input has ended may take to end by itself.
const GRACE: Duration = Duration::from_millis(500);

/// The ends of a command that is talked to.
pub(super) struct TalkPipes {
    pub(super) input: PipeReader,
    pub(super) output: PipeWriter,
    /// What it was kept from reaching.
    pub(super) denials: Arc<Denials>,
}

/// A confined command that is talked to. Dropping it ends the command.
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
    /// Starts a program with its arguments, to be talked to. The bounds are those of each command, but for the clock; the
    /// rules, which are for what a model says, are not asked.
    ///
    /// That it is confined shows only when it speaks: one that could not be is over at once, and
    /// [`Service::stop`] says why.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for a command that is empty or holds a NUL, [`Kind::Failed`] where no pipe can be made.
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
    /// The writing end of its standard input and the reading end of its standard output, once.
    pub fn take_pipes(&mut self) -> Option<(PipeWriter, PipeReader)> {
        self.pipes.take()
    }

    /// What it was kept from reaching, as host, port and reason: what came since this was asked last.
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

    /// Ends it and all it started, and says how it ended and what it wrote to standard error. Whoever has its pipes closes
    /// them first, so that it can end by itself.
    ///
    /// # Errors
    /// As [`Commands::run`]: why it was not started.
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

/// A word as the shell reads it back.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
