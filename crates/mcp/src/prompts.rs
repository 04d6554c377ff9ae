//! Prompts and completions that an embedder gives a [`Server`](super::Server), in the protocol's form.
//!
//! Invariant: the embedder gets only requests for prompts in its list, with all arguments that a prompt requires.

use std::collections::BTreeMap;

use rmcp::model::{
    self, CompleteRequestParams, CompleteResult, CompletionInfo, ErrorData, GetPromptRequestParams,
    GetPromptResult, ListPromptsResult, Reference, Role,
};
use serde_json::Value;
use toolgate_sandbox::output;

use super::content;
use super::page::{page, refusal};
use crate::Error;
use toolgate_tools::Part;

/// Prompts: messages that a person may choose to begin a conversation with.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Arc;
/// use toolgate_agent::Error;
/// use toolgate_mcp::{Prompt, PromptArgument, PromptMessage, Prompts, Server, Unasked};
/// use toolgate_tools::Registry;
///
/// struct Review;
///
/// impl Prompts for Review {
///     fn list(&self) -> Vec<Prompt> {
///         let file = PromptArgument::new("file").description("Its path.".into()).required(true);
///         vec![Prompt::new("review").description("Look at a file.".into()).arguments(vec![file])]
///     }
///
///     fn get(&self, _: &str, arguments: &BTreeMap<String, String>) -> Result<Vec<PromptMessage>, Error> {
///         let file = arguments.get("file").map_or("", String::as_str);
///         Ok(vec![PromptMessage::user(format!("Read {file} and name its mistakes."))])
///     }
/// }
///
/// let server = Server::new(Registry::new(), Unasked::Deny).with_prompts(Arc::new(Review))?;
/// # Ok::<(), Error>(())
/// ```
pub trait Prompts: Send + Sync {
    /// All prompts at the moment. Clients get them in pages.
    fn list(&self) -> Vec<Prompt>;

    /// The messages of a prompt in the list. All arguments that it requires are there.
    ///
    /// # Errors
    /// Any reason that the prompt cannot be made. Clients get it.
    fn get(&self, name: &str, arguments: &BTreeMap<String, String>) -> Result<Vec<PromptMessage>, Error>;
}

/// A prompt in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prompt {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// Its arguments.
    pub arguments: Vec<PromptArgument>,
}

toolgate_chat::setters! { Prompt {
    description: String,
    arguments: Vec<PromptArgument>,
} }

impl Prompt {
    /// A prompt of that name, with no description and no arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// An argument of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// Its meaning.
    pub description: String,
    /// Whether the prompt requires it.
    pub required: bool,
}

toolgate_chat::setters! { PromptArgument {
    description: String,
    required: bool,
} }

impl PromptArgument {
    /// An argument of that name, with no description, which the prompt does not require.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// A message of a prompt.
///
/// ```
/// use toolgate_mcp::{PromptMessage, Speaker};
/// use toolgate_tools::Part;
///
/// let message = PromptMessage::user("Read a.txt.");
/// assert_eq!(message, PromptMessage::new(Speaker::User, Part::Text("Read a.txt.".into())));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptMessage {
    /// The speaker.
    pub speaker: Speaker,
    /// The content.
    pub content: Part,
}

/// The speaker of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// The person.
    User,
    /// The model.
    Assistant,
}

impl PromptMessage {
    /// A message of that speaker.
    pub fn new(speaker: Speaker, content: Part) -> Self {
        Self { speaker, content }
    }

    /// A message of the person, with a text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Speaker::User, Part::Text(text.into()))
    }
}

/// Completions: values for arguments of prompts and variables of URIs.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_mcp::{Completing, Completions, Server, Unasked};
/// use toolgate_tools::Registry;
///
/// struct Days;
///
/// impl Completions for Days {
///     fn complete(&self, completing: &Completing) -> Vec<String> {
///         let days = ["monday", "tuesday"].into_iter();
///         days.filter(|day| day.starts_with(&completing.begun)).map(str::to_owned).collect()
///     }
/// }
///
/// let server = Server::new(Registry::new(), Unasked::Deny).with_completions(Arc::new(Days))?;
/// # Ok::<(), toolgate_agent::Error>(())
/// ```
pub trait Completions: Send + Sync {
    /// Values that continue the one that was begun, the best first. Clients get at most a hundred.
    fn complete(&self, completing: &Completing) -> Vec<String>;
}

/// A value that somebody is filling in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completing {
    /// The prompt or the resources that it belongs to.
    pub subject: Subject,
    /// The argument's name.
    pub argument: String,
    /// The begun value.
    pub begun: String,
    /// The values of other arguments that are there already.
    pub others: BTreeMap<String, String>,
}

/// The owner of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject {
    /// The prompt of that name.
    Prompt(String),
    /// The resources of that form ([`ResourceTemplate::uri_template`](super::ResourceTemplate::uri_template)).
    Template(String),
}

/// A page of the list.
pub(super) fn list(of: &dyn Prompts, cursor: Option<&str>) -> Result<ListPromptsResult, ErrorData> {
    let (prompts, next_cursor) = page(of.list(), cursor)?;
    let prompts = prompts.into_iter().map(listed).collect();
    Ok(ListPromptsResult { prompts, next_cursor, ..ListPromptsResult::default() })
}

/// The messages of a prompt.
pub(super) fn get(
    of: &(dyn Prompts + 'static),
    asked: GetPromptRequestParams,
) -> Result<GetPromptResult, ErrorData> {
    let invalid = |message: String| ErrorData::invalid_params(message, None);
    let known = of.list();
    let Some(prompt) = known.iter().find(|prompt| prompt.name == asked.name) else {
        let names: Vec<_> = known.iter().map(|prompt| prompt.name.as_str()).collect();
        let (name, names) = (output::name(&asked.name), names.join(", "));
        return Err(invalid(format!("there is no prompt \"{name}\"; the prompts are: {names}")));
    };
    let mut arguments = BTreeMap::new();
    for (name, value) in asked.arguments.unwrap_or_default() {
        let Value::String(text) = value else {
            return Err(invalid(format!(
                "the argument {} of {} is no text",
                output::name(&name),
                prompt.name
            )));
        };
        arguments.insert(name, text);
    }
    let missing = prompt.arguments.iter().filter(|argument| argument.required);
    let missing: Vec<_> = missing.map(|argument| argument.name.as_str()).collect();
    let missing: Vec<_> = missing.into_iter().filter(|name| !arguments.contains_key(*name)).collect();
    if !missing.is_empty() {
        return Err(invalid(format!("the prompt {} needs: {}", prompt.name, missing.join(", "))));
    }
    let messages = of.get(&prompt.name, &arguments).map_err(|error| refusal(&error))?;
    let mut made = GetPromptResult::new(messages.into_iter().map(message).collect());
    made.description = Some(prompt.description.clone()).filter(|text| !text.is_empty());
    Ok(made)
}

/// Values for an argument or a variable.
pub(super) fn complete(
    of: &(dyn Completions + 'static),
    asked: CompleteRequestParams,
) -> Result<CompleteResult, ErrorData> {
    let subject = match asked.r#ref {
        Reference::Prompt(prompt) => Subject::Prompt(prompt.name),
        Reference::Resource(template) => Subject::Template(template.uri),
        _ => return Err(ErrorData::invalid_params("there is nothing of that kind to be filled in", None)),
    };
    let others = asked.context.and_then(|context| context.arguments).unwrap_or_default();
    let completing = Completing {
        subject,
        argument: asked.argument.name,
        begun: asked.argument.value,
        others: others.into_iter().collect(),
    };
    let mut values = of.complete(&completing);
    let total = u32::try_from(values.len()).ok();
    let has_more = values.len() > CompletionInfo::MAX_VALUES;
    values.truncate(CompletionInfo::MAX_VALUES);
    let info = CompletionInfo::with_pagination(values, total, has_more);
    info.map(CompleteResult::new).map_err(|why| ErrorData::internal_error(why, None))
}

fn listed(prompt: Prompt) -> model::Prompt {
    let arguments = prompt.arguments.into_iter().map(|argument| {
        model::PromptArgument::new(argument.name)
            .with_description(argument.description)
            .with_required(argument.required)
    });
    model::Prompt::new(prompt.name, Some(prompt.description), Some(arguments.collect()))
}

fn message(message: PromptMessage) -> model::PromptMessage {
    let role = match message.speaker {
        Speaker::User => Role::User,
        Speaker::Assistant => Role::Assistant,
    };
    model::PromptMessage::new(role, content::block(message.content))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    struct Greeting;

    impl Prompts for Greeting {
        fn list(&self) -> Vec<Prompt> {
            let arguments = vec![PromptArgument::new("name").required(true), PromptArgument::new("tone")];
            vec![Prompt::new("greet").arguments(arguments)]
        }

        fn get(&self, name: &str, arguments: &BTreeMap<String, String>) -> Result<Vec<PromptMessage>, Error> {
            let text = arguments.get("name").map_or("nobody", String::as_str);
            Ok(vec![PromptMessage::user(format!("{name} {text}"))])
        }
    }

    impl Completions for Greeting {
        fn complete(&self, completing: &Completing) -> Vec<String> {
            (0..150).map(|n| format!("{}{n}", completing.begun)).collect()
        }
    }

    fn asked(value: Value) -> Result<String, String> {
        let got = get(&Greeting, serde_json::from_value(value).unwrap());
        got.map(|made| serde_json::to_value(made).unwrap().to_string())
            .map_err(|error| error.message.into_owned())
    }

    #[test]
    fn a_prompt_is_made_with_all_that_it_requires_and_not_without() {
        let made = asked(json!({"name": "greet", "arguments": {"name": "Ada"}})).unwrap();
        assert!(made.contains("greet Ada"), "{made}");
        assert_eq!(asked(json!({"name": "greet"})), Err("the prompt greet needs: name".to_owned()));
        let tone = asked(json!({"name": "greet", "arguments": {"tone": "warm"}}));
        assert_eq!(tone, Err("the prompt greet needs: name".to_owned()));
        let number = asked(json!({"name": "greet", "arguments": {"name": 3}}));
        assert_eq!(number, Err("the argument name of greet is no text".to_owned()));
        let other = asked(json!({"name": "part"}));
        assert_eq!(other, Err("there is no prompt \"part\"; the prompts are: greet".to_owned()));
    }

    #[test]
    fn values_are_a_hundred_at_most_and_say_how_many_there_are() {
        let asked = json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "A"}});
        let told = complete(&Greeting, serde_json::from_value(asked).unwrap()).unwrap().completion;
        assert_eq!((told.values.len(), told.total, told.has_more), (100, Some(150), Some(true)));
        assert_eq!(told.values.first().map(String::as_str), Some("A0"));
    }
}
