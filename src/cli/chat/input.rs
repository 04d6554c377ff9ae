//! What a line of the chat means, and what the chat does next. Pure: no terminal, no model.
//!
//! Invariant: a line is a command only if its first word is a slash and letters; everything else is for the model.

use std::path::PathBuf;

use crate::cli::tool::ModeArg;

/// What a person asks of the chat itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Tell what there is.
    Help,
    /// List the tools offered.
    Tools,
    /// Tell which model answers, or take another.
    Model(Option<String>),
    /// Tell what is allowed, or change it.
    Mode(Option<ModeArg>),
    /// Take back what the newest run changed.
    Undo,
    /// Write the conversation to a file.
    Save(PathBuf),
    /// Forget the conversation.
    New,
    /// End the chat.
    Quit,
}

/// The commands as a person writes them, and what they do: what `/help` prints and the tab key completes.
pub(super) const COMMANDS: [(&str, &str, &str); 8] = [
    ("/help", "", "show this list"),
    ("/tools", "", "list the tools the model is offered"),
    ("/model", "[ID|PATH|URL]", "say which model answers, or go on with another"),
    ("/mode", "[intel|edit]", "say whether files may be written, or change it"),
    ("/undo", "", "take back what the newest task wrote to files"),
    ("/save", "FILE", "write the conversation to a new JSON file"),
    ("/new", "", "forget the conversation and begin another"),
    ("/quit", "", "end the chat (Ctrl-D does, too)"),
];

/// What the terminal gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// A line, without its end.
    Line(String),
    /// Ctrl-C at the prompt.
    Interrupt,
    /// Ctrl-D, or the terminal is gone.
    End,
}

/// What the chat does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask for a line.
    Wait,
    /// Give this task to the model.
    Ask(String),
    /// Do this.
    Do(Command),
    /// Tell this, and ask for a line.
    Say(String),
    /// End.
    Quit,
}

/// The prompt's state: a line that ends in a backslash goes on with the next one.
#[derive(Debug, Default)]
pub(super) struct Prompt {
    begun: String,
}

impl Prompt {
    /// What stands in front of the next line.
    pub(super) fn sign(&self) -> &'static str {
        if self.begun.is_empty() { "> " } else { ". " }
    }

    /// What the chat does after this input.
    pub(super) fn next(&mut self, input: Input) -> Step {
        match input {
            Input::End => Step::Quit,
            Input::Interrupt if self.begun.is_empty() => {
                Step::Say("Ctrl-D or /quit ends the chat; Ctrl-C stops a turn".to_owned())
            }
            Input::Interrupt => {
                self.begun.clear();
                Step::Wait
            }
            Input::Line(line) => match line.strip_suffix('\\') {
                Some(first) => {
                    self.begun.push_str(first);
                    self.begun.push('\n');
                    Step::Wait
                }
                None => meaning(&(std::mem::take(&mut self.begun) + &line)),
            },
        }
    }
}

/// What a whole input asks for.
fn meaning(text: &str) -> Step {
    let text = text.trim();
    if text.is_empty() {
        return Step::Wait;
    }
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let named = word.strip_prefix('/').filter(|name| name.chars().all(|c| c.is_ascii_alphabetic()));
    let Some(name) = named.filter(|name| !name.is_empty()) else { return Step::Ask(text.to_owned()) };
    match command(name, rest.trim()) {
        Ok(Command::Quit) => Step::Quit,
        Ok(command) => Step::Do(command),
        Err(why) => Step::Say(why),
    }
}

fn command(name: &str, rest: &str) -> Result<Command, String> {
    let given = (!rest.is_empty()).then(|| rest.to_owned());
    let alone = |command: Command| match given {
        None => Ok(command),
        Some(_) => Err(format!("/{name} takes nothing after it")),
    };
    match name {
        "help" => alone(Command::Help),
        "tools" => alone(Command::Tools),
        "model" => Ok(Command::Model(given)),
        "mode" => match rest {
            "" => Ok(Command::Mode(None)),
            "intel" => Ok(Command::Mode(Some(ModeArg::Intel))),
            "edit" => Ok(Command::Mode(Some(ModeArg::Edit))),
            other => Err(format!("there is no mode \"{other}\": intel reads only, edit may write")),
        },
        "undo" => alone(Command::Undo),
        "save" => {
            given.map(|file| Command::Save(file.into())).ok_or("/save FILE: name a new file".to_owned())
        }
        "new" => alone(Command::New),
        "quit" | "exit" => alone(Command::Quit),
        _ => Err(format!(
            "there is no command /{name}; /help lists them (a task cannot begin with a slash and a word)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(line: &str) -> Step {
        Prompt::default().next(Input::Line(line.to_owned()))
    }

    #[test]
    fn commands_are_told_from_tasks() {
        for (line, expected) in [
            ("/help", Command::Help),
            ("  /tools  ", Command::Tools),
            ("/model", Command::Model(None)),
            ("/model  a/b c.gguf ", Command::Model(Some("a/b c.gguf".to_owned()))),
            ("/mode", Command::Mode(None)),
            ("/mode edit", Command::Mode(Some(ModeArg::Edit))),
            ("/mode\tintel", Command::Mode(Some(ModeArg::Intel))),
            ("/undo", Command::Undo),
            ("/save a b.json", Command::Save("a b.json".into())),
            ("/new", Command::New),
        ] {
            assert_eq!(step(line), Step::Do(expected), "{line}");
        }
        assert_eq!((step("/quit"), step("/exit")), (Step::Quit, Step::Quit));
        for task in ["hello", "/etc/hosts is what?", "/", "// a comment", "/2 of it", "say /quit", "/mode/x"]
        {
            assert_eq!(step(task), Step::Ask(task.to_owned()));
        }
        assert_eq!((step(""), step(" \t ")), (Step::Wait, Step::Wait));
        for wrong in ["/frob", "/mode write", "/save", "/undo 3", "/quit now", "/helpme"] {
            assert!(matches!(step(wrong), Step::Say(_)), "{wrong}");
        }
    }

    #[test]
    fn every_command_listed_is_one() {
        for (name, arguments, _) in COMMANDS {
            let line = match arguments {
                "FILE" => format!("{name} x"),
                _ => name.to_owned(),
            };
            assert!(matches!(step(&line), Step::Do(_) | Step::Quit), "{name}");
        }
    }

    #[test]
    fn a_backslash_goes_on_and_ctrl_c_takes_back() {
        let mut prompt = Prompt::default();
        assert_eq!(prompt.sign(), "> ");
        assert_eq!(prompt.next(Input::Line("one\\".to_owned())), Step::Wait);
        assert_eq!(prompt.sign(), ". ");
        assert_eq!(prompt.next(Input::Line("two".to_owned())), Step::Ask("one\ntwo".to_owned()));
        assert_eq!(prompt.sign(), "> ");
        prompt.next(Input::Line("gone\\".to_owned()));
        assert_eq!(prompt.next(Input::Interrupt), Step::Wait);
        assert_eq!(prompt.next(Input::Line("kept".to_owned())), Step::Ask("kept".to_owned()));
        assert!(matches!(prompt.next(Input::Interrupt), Step::Say(_)), "an empty prompt is no way out");
        prompt.next(Input::Line("half\\".to_owned()));
        assert_eq!(prompt.next(Input::End), Step::Quit);
    }
}
