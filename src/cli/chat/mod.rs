//! `toolgate run` without a task, on a terminal: a conversation. What a line means is in [`input`], lines come from
//! [`editor`], Ctrl-C is heard by [`stop`]; this is what is done.

pub(super) mod editor;
mod input;
mod stop;

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use serde_json::json;
use toolgate_chat::{Message, Transcript};

use self::editor::Lines;
use self::input::{COMMANDS, Command, Prompt, Step};
use super::exit::Exit;
use super::model_args::Source;
use super::run::{self, RunArgs};
use super::tool::ModeArg;
use super::view::View;
use super::{terminal, undo};
use crate::agent::{self, Agent, Event};
use crate::engine::{Cancel, Engine};
use crate::memory::Memory;
use crate::tools::{Effect, Registry};
use crate::undo::Journal;

/// Runs it.
pub(super) fn run(args: RunArgs) -> anyhow::Result<Exit> {
    let cancel = Cancel::default();
    let options = run::agent_options(&args, &cancel)?;
    let memory = Arc::new(args.workspace.memory()?);
    let journal = undo::journal(&args.workspace)?;
    let registry = run::registry(&args, &memory, journal.as_ref())?;
    let model = args.model.resolve()?;
    let registry = run::suited(registry, &args, &model);
    if let Some(advice) = model.unmeasured(&args.model) {
        terminal::note(&advice);
    }
    let (engine, ms) = args.model.load(&model)?;
    let mut view = View::new(args.json);
    view.show(&Event::ModelLoaded { ms });
    let options = options.sampling(run::sampling(&args, engine.as_ref()));
    let agent = Agent::new(engine.clone(), registry, options.clone());
    let mut chat = Chat {
        args,
        model,
        engine,
        memory,
        journal,
        options,
        agent,
        transcript: Transcript::new(),
        stop: stop::listen(&cancel)?,
        view,
    };
    chat.go_on()
}

/// A conversation and what it is held with.
struct Chat {
    args: RunArgs,
    model: Source,
    engine: Arc<dyn Engine>,
    memory: Arc<Memory>,
    journal: Option<Arc<Journal>>,
    options: agent::Options,
    agent: Agent,
    transcript: Transcript,
    stop: stop::Stop,
    view: View,
}

impl Chat {
    fn go_on(&mut self) -> anyhow::Result<Exit> {
        let mut lines = Lines::new()?;
        let mut prompt = Prompt::default();
        terminal::note(&format!("{}. Ask something; /help lists what else there is.", self.engine.name()));
        loop {
            let done = match prompt.next(lines.next(prompt.sign())?) {
                Step::Wait => Ok(()),
                Step::Say(text) => {
                    terminal::note(&text);
                    Ok(())
                }
                Step::Ask(task) => self.ask(task),
                Step::Do(command) => self.obey(command),
                Step::Quit => return Ok(Exit::Done),
            };
            if let Err(error) = done {
                terminal::report(&error);
            }
        }
    }

    /// One task; whatever becomes of it, the conversation can go on.
    fn ask(&mut self, task: String) -> anyhow::Result<()> {
        if let Some(journal) = &self.journal {
            journal.begin(&task);
        }
        let begin = self.transcript.len();
        self.transcript.push(Message::User(task));
        let Self { agent, transcript, stop, view, .. } = self;
        let result = stop.during(|cancel| agent.run(transcript, cancel, &mut |event| view.show(&event)));
        settle(&mut self.transcript, begin);
        result.map_err(|error| match error.kind() {
            crate::Kind::Overflow => {
                anyhow::Error::from(error).context("the conversation is too long; /new begins another")
            }
            _ => error.into(),
        })?;
        Ok(())
    }

    fn obey(&mut self, command: Command) -> anyhow::Result<()> {
        match command {
            Command::Help => self.help(),
            Command::Tools => self.tools(),
            Command::Model(None) => {
                terminal::note(&format!("{} ({})", self.engine.name(), self.model.place()))
            }
            Command::Model(Some(model)) => self.take_model(model)?,
            Command::Mode(None) => terminal::note(self.mode()),
            Command::Mode(Some(mode)) => self.take_mode(mode)?,
            Command::Undo => self.undo()?,
            Command::Save(file) => self.save(&file)?,
            Command::New => {
                self.transcript = Transcript::new();
                terminal::note("a new conversation");
            }
            Command::Quit => {}
        }
        Ok(())
    }

    fn help(&self) {
        for (name, arguments, what) in COMMANDS {
            terminal::note(&format!("{:<24}{what}", format!("{name} {arguments}")));
        }
        terminal::note("A line that ends in \\ goes on with the next. Ctrl-C stops a turn.");
    }

    fn tools(&self) {
        let registry = self.agent.registry();
        for spec in registry.specs() {
            let writes = spec.effect != Effect::Reads;
            let sign = if writes { "*" } else { " " };
            terminal::note(&format!("{sign} {:<20}{}", spec.name.as_str(), spec.description));
        }
        terminal::note("* may change something");
    }

    fn mode(&self) -> &'static str {
        match self.args.workspace.mode {
            None | Some(ModeArg::Intel) => "intel: nothing is written",
            Some(ModeArg::Edit) => "edit: files may be written",
        }
    }

    /// Goes on with another model; the one there stays if that cannot be had.
    fn take_model(&mut self, name: String) -> anyhow::Result<()> {
        let before = self.args.model.take(Some(name));
        let taken = self.args.model.resolve().map_err(anyhow::Error::from).and_then(|model| {
            let registry = run::suited(self.registry()?, &self.args, &model);
            let (engine, ms) = self.args.model.load(&model)?;
            Ok((model, registry, engine, ms))
        });
        let (model, registry, engine, ms) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                self.args.model.take(before);
                return Err(error);
            }
        };
        self.view.show(&Event::ModelLoaded { ms });
        self.options.sampling = run::sampling(&self.args, engine.as_ref());
        self.agent = Agent::new(engine.clone(), registry, self.options.clone());
        (self.model, self.engine) = (model, engine);
        terminal::note(self.engine.name());
        Ok(())
    }

    /// Changes what the tools may do; it stays as it is if that is not possible here.
    fn take_mode(&mut self, mode: ModeArg) -> anyhow::Result<()> {
        let before = self.args.workspace.mode.replace(mode);
        match self.registry() {
            Ok(registry) => {
                let registry = run::suited(registry, &self.args, &self.model);
                self.agent = Agent::new(self.engine.clone(), registry, self.options.clone());
                terminal::note(self.mode());
                Ok(())
            }
            Err(error) => {
                self.args.workspace.mode = before;
                Err(error)
            }
        }
    }

    /// The tools as the arguments are now; a journal is opened with the first that write.
    fn registry(&mut self) -> anyhow::Result<Registry> {
        if self.journal.is_none() {
            self.journal = undo::journal(&self.args.workspace)?;
        }
        run::registry(&self.args, &self.memory, self.journal.as_ref())
    }

    /// Takes back what the newest task wrote.
    fn undo(&self) -> anyhow::Result<()> {
        undo::undo(&self.args.workspace, None, &mut std::io::stderr())?;
        Ok(())
    }

    /// Writes the conversation to a file that is not there yet.
    fn save(&self, file: &Path) -> anyhow::Result<()> {
        let place = || format!("cannot write {}", file.display());
        let directory =
            file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut whole = tempfile::NamedTempFile::new_in(directory).with_context(place)?;
        let saved = json!({"version": 1, "model": self.engine.name(), "messages": self.transcript});
        serde_json::to_writer_pretty(&mut whole, &saved).with_context(place)?;
        writeln!(whole).with_context(place)?;
        whole.persist_noclobber(file).map_err(|failed| failed.error).with_context(place)?;
        terminal::note(&format!("{} messages in {}", self.transcript.len(), file.display()));
        Ok(())
    }
}

/// Leaves a conversation that can go on after a run that began at message `begin`, however it ended: the question goes
/// where nothing came of it, and calls go that have no result.
fn settle(transcript: &mut Transcript, begin: usize) {
    let stopped = || Message::answer("(stopped)");
    let mut messages = transcript.messages().to_vec();
    if let Some(Message::Assistant { content, calls, .. }) = messages.last_mut() {
        calls.clear();
        if content.as_deref().unwrap_or_default().is_empty() {
            messages.pop();
        }
    }
    match messages.last() {
        Some(Message::User(_)) => messages.truncate(begin),
        Some(Message::Tool(_)) => messages.push(stopped()),
        _ => {}
    }
    *transcript = messages.into_iter().collect();
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use toolgate_chat::{ToolCall, ToolReply};

    use super::*;

    #[test]
    fn a_conversation_can_go_on_however_a_turn_ended() {
        let (old, user) = (Message::answer("old"), Message::User("do".to_owned()));
        let call = ToolCall::new("f", Map::new());
        let (calls, reply) = (Message::calls([call.clone()]), Message::Tool(vec![ToolReply::ok(&call, "1")]));
        let none = Message::Assistant { content: None, reasoning: None, calls: Vec::new() };
        let before = vec![Message::User("first".to_owned()), old];
        let whole = vec![user.clone(), calls.clone(), reply.clone(), Message::answer("done")];
        for (run, kept) in [
            (whole.clone(), whole),
            (vec![user.clone()], vec![]),
            (vec![user.clone(), none], vec![]),
            (vec![user.clone(), calls.clone()], vec![]),
            (
                vec![user.clone(), calls.clone(), reply.clone()],
                vec![user.clone(), calls.clone(), reply.clone(), Message::answer("(stopped)")],
            ),
            (
                vec![user.clone(), calls.clone(), reply.clone(), calls.clone()],
                vec![user.clone(), calls, reply, Message::answer("(stopped)")],
            ),
            (vec![user.clone(), Message::answer("half")], vec![user, Message::answer("half")]),
        ] {
            let mut transcript: Transcript = [before.clone(), run].concat().into_iter().collect();
            settle(&mut transcript, before.len());
            assert_eq!(transcript.messages(), [before.clone(), kept].concat());
        }
    }
}
