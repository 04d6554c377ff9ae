//! A model behind a server: an [`Engine`] over any OpenAI-compatible one. The loop, the tools and the sandbox stay here.
//!
//! Where the server holds text to a grammar, a turn goes the way of [`LocalEngine`](toolgate_engine::LocalEngine): decided
//! by the model's own probabilities, then written under our grammar (`constrained`). Elsewhere the tools are sent and the
//! server's calls are read, and those that leaked into its text (`native`). Another toolgate is asked for the turn as its
//! own engine would be (`toolgate`).
//!
//! Invariant: a turn is whole or an error. What broke off in the middle is never taken for a turn, and the transcript
//! of the caller is not touched. Only what no byte of an answer has come to is sent again.

mod answers;
mod choice;
mod constrained;
mod fields;
mod http;
mod llama;
mod native;
mod toolgate;
mod vllm;
mod wire;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use self::http::Client;
use toolgate_engine::models::Sha256Digest;
use toolgate_engine::{self as engine, AnswerForm, Cancel, Engine, Facts, Turn, TurnEvent, TurnRequest};
use toolgate_engine::{Error, Kind};

/// Where a model is served, and how it is asked.
///
/// ```
/// use toolgate_remote::Options;
///
/// let options = Options::new("https://models.example/v1").key(Some("secret".into()));
/// // The key is for the server alone, and does not get into logs.
/// assert!(!format!("{options:?}").contains("secret"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The server's address, with or without its `/v1`.
    pub url: String,
    /// Sent as a bearer token; nothing else of this program is.
    pub key: Option<String>,
    /// The model's name there; `None` takes the first that the server lists.
    pub model: Option<String>,
    /// How the server holds text to a grammar. Default: it is asked.
    pub grammar: GrammarSupport,
    /// How turns are decided and shown to the model; what only a local engine does (forcing, context) is left aside.
    pub engine: engine::Options,
}

toolgate_chat::setters! { Options  {
    key: Option<String>,
    model: Option<String>,
    grammar: GrammarSupport,
    engine: engine::Options,
} }

impl Options {
    /// The defaults, for the server at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            key: None,
            model: None,
            grammar: GrammarSupport::default(),
            engine: engine::Options::default(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.as_ref().map(|_| "…");
        f.debug_struct("Options")
            .field("url", &self.url)
            .field("key", &key)
            .field("model", &self.model)
            .field("grammar", &self.grammar)
            .field("engine", &self.engine)
            .finish()
    }
}

/// How a server holds text to a grammar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrammarSupport {
    /// The server is asked what it is.
    #[default]
    Auto,
    /// As llama-server does: `/completion` with `grammar`; prompts are rendered here with the template it tells.
    Llama,
    /// As vLLM does: chat with `structured_outputs`; tools are described in the system prompt.
    Vllm,
    /// As `toolgate serve` does: its engine makes the turn, with all that is known here.
    Toolgate,
    /// Not at all: tools are sent, and its calls are read.
    None,
}

/// A model behind a server.
///
/// ```no_run
/// use toolgate_chat::{Message, Transcript};
/// use toolgate_engine::{Cancel, Engine, Sampling, TurnRequest};
/// use toolgate_remote::{Options, RemoteEngine};
///
/// let engine = RemoteEngine::connect(Options::new("http://127.0.0.1:8080"))?;
/// let transcript = Transcript::new().with(Message::User("What is 2 + 3?".to_owned()));
/// let sampling = Sampling::default();
/// let turn = engine.turn(&TurnRequest::new(&transcript, &[], &sampling), &Cancel::default(), &mut |_| {})?;
/// println!("{}", turn.text);
/// # Ok::<(), toolgate_engine::Error>(())
/// ```
pub struct RemoteEngine {
    name: String,
    client: Arc<Client>,
    options: Options,
    way: Way,
}

/// How turns are had of the server.
enum Way {
    /// Under our grammar.
    Constrained(constrained::Constrained),
    /// The server's engine makes the turn, with all that is known here.
    Whole(Facts),
    /// By the server's own tool calls.
    Native(native::Native),
}

impl RemoteEngine {
    /// Asks the server what it is and which models it has.
    ///
    /// # Errors
    /// [`Kind::Engine`] for a server that does not answer, fails, refuses the key, or lists no model where none is named;
    /// [`Kind::Input`] for an address that is none.
    ///
    /// ```
    /// use toolgate_engine::Kind;
    /// use toolgate_remote::{Options, RemoteEngine};
    ///
    /// let engine = RemoteEngine::connect(Options::new("localhost:8080"));
    /// assert!(engine.is_err_and(|error| error.kind() == Kind::Input), "http:// is missing");
    /// ```
    pub fn connect(options: Options) -> Result<Self, Error> {
        let client = Arc::new(Client::new(&options.url, options.key.clone())?);
        let support = match options.grammar {
            GrammarSupport::Auto => detect(&client)?,
            given => given,
        };
        let name = match &options.model {
            Some(name) => name.clone(),
            None => first_listed(&client)?,
        };
        let way = match support {
            GrammarSupport::Llama => Way::Constrained(constrained::Constrained::new(Box::new(
                llama::Llama::connect(client.clone(), &options)?,
            ))),
            GrammarSupport::Vllm => Way::Constrained(constrained::Constrained::new(Box::new(
                vllm::Vllm::new(client.clone(), name.clone())?,
            ))),
            GrammarSupport::Toolgate => Way::Whole(toolgate::facts(&client).ok_or_else(|| {
                let message =
                    format!("{} makes no turns for others: it is no toolgate of this version", client.root());
                Error::new(Kind::Engine, message)
            })?),
            GrammarSupport::Auto | GrammarSupport::None => {
                Way::Native(native::Native::new(client.clone(), name.clone()))
            }
        };
        Ok(Self { name, client, options, way })
    }

    /// How the server was found to hold text to a grammar.
    pub fn grammar(&self) -> &'static str {
        match &self.way {
            Way::Constrained(held) => held.server(),
            Way::Whole(_) => "toolgate",
            Way::Native(_) => "none",
        }
    }
}

impl Engine for RemoteEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self) -> Facts {
        let options = format!("{:?}", self.options);
        match &self.way {
            Way::Constrained(model) => Facts::default()
                .template(Sha256Digest::of(model.template().as_bytes()).to_string())
                .options(options)
                .quoted(self.options.engine.answer_view == engine::AnswerView::Quoted),
            // What counts is set there.
            Way::Whole(facts) => facts.clone(),
            Way::Native(_) => Facts::default().options(options),
        }
    }

    fn goes_on(&self) -> bool {
        !matches!(self.way, Way::Native(_))
    }

    fn turn(
        &self,
        request: &TurnRequest<'_>,
        cancel: &Cancel,
        events: &mut dyn FnMut(TurnEvent),
    ) -> Result<Turn, Error> {
        if request.answer != AnswerForm::Text || !request.sampling.stop.is_empty() {
            let message = "a model behind a server is not held to forms of answers or stop texts from here";
            return Err(Error::input(message));
        }
        let own = &self.options.engine;
        // Another toolgate offers of the tools what suits its model.
        let tools =
            if let Way::Whole(_) = &self.way { request.tools.to_vec() } else { own.offered(request.tools) };
        let request = &request.clone().tools(&tools);
        match &self.way {
            Way::Constrained(held) => held.turn(own, request, cancel, events),
            Way::Whole(_) => toolgate::turn(&self.client, &self.name, request, cancel, events),
            Way::Native(offered) => offered.turn(own, request, cancel, events),
        }
    }
}

/// What a server says it is. One that does not say is asked for nothing but what all have; one that cannot say now, as it is
/// not reached or still loads, is an error: taken for another it would be asked in a worse way for the whole run.
fn detect(client: &Client) -> Result<GrammarSupport, Error> {
    let never = Cancel::default();
    let is_llama = |told: Value| told.get("chat_template").is_some_and(Value::is_string);
    if client.find("/props", &never)?.is_some_and(is_llama) {
        return Ok(GrammarSupport::Llama);
    }
    let list = client.listed(&never)?.unwrap_or_default();
    Ok(match owner(&list) {
        Some("vllm") => GrammarSupport::Vllm,
        Some("toolgate") if toolgate::facts(client).is_some() => GrammarSupport::Toolgate,
        _ => GrammarSupport::None,
    })
}

fn owner(list: &Value) -> Option<&str> {
    list.pointer("/data/0/owned_by")?.as_str()
}

/// The first model that the server at `options` lists: the one that [`RemoteEngine::connect`] takes where none is named.
///
/// # Errors
/// As [`RemoteEngine::connect`].
///
/// ```no_run
/// use toolgate_engine::{self as engine, models::Catalogue};
/// use toolgate_remote::{Options, first_model};
///
/// // The settings that suit the model which is served there, if it is a known one.
/// let mut options = Options::new("http://127.0.0.1:8080");
/// let catalogue = Catalogue::builtin()?;
/// if let Some(entry) = catalogue.served_as(&first_model(&options)?) {
///     options.engine = engine::Options::for_entry(entry);
/// }
/// # Ok::<(), toolgate_engine::Error>(())
/// ```
pub fn first_model(options: &Options) -> Result<String, Error> {
    first_listed(&Client::new(&options.url, options.key.clone())?)
}

fn first_listed(client: &Client) -> Result<String, Error> {
    let list = client.models(&Cancel::default())?;
    let first = list.pointer("/data/0/id").and_then(Value::as_str);
    first.map(str::to_owned).ok_or_else(|| {
        Error::new(Kind::Engine, format!("{} lists no model; name one with --model", client.root()))
    })
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
