//! A model behind a server: an [`Engine`] over any OpenAI-compatible server. The loop, the tools and the sandbox stay here.
//!
//! There are three ways to make a turn:
//!
//! - `constrained`: the server enforces our grammar. The turn is that of [`LocalEngine`](toolgate_engine::LocalEngine): the
//!   model's own probabilities decide, and the model writes under our grammar.
//! - `native`: the server gets the tools and makes calls of its own. The fallback parser finds calls that leaked into the
//!   text.
//! - `toolgate`: the engine of another toolgate makes the whole turn.
//!
//! Invariant: a turn is whole or an error. An answer that broke off is never a turn, and the caller's transcript stays as it
//! was. A request is sent again only if no byte of an answer has come.

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
use toolgate_engine::protocol::About;
use toolgate_engine::{self as engine, AnswerForm, Cancel, Engine, Facts, Turn, TurnEvent, TurnRequest};
use toolgate_engine::{Error, Kind, Sampling};

/// The server of a model, and the options of its turns.
///
/// ```
/// use toolgate_remote::Options;
///
/// let options = Options::new("https://models.example/v1").key(Some("secret".into()));
/// // The key goes to the server alone, and not into logs.
/// assert!(!format!("{options:?}").contains("secret"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The server's address, with or without its `/v1`.
    pub url: String,
    /// The bearer token of requests. The server gets no other key of this program.
    pub key: Option<String>,
    /// The model's name at the server. `None` takes the first model that the server lists.
    pub model: Option<String>,
    /// The way that the server enforces a grammar. Default: the engine asks the server.
    pub grammar: GrammarSupport,
    /// Options of turns. Those that only a local engine has (forcing, context) have no effect.
    pub engine: engine::Options,
}

toolgate_chat::setters! { Options  {
    key: Option<String>,
    model: Option<String>,
    grammar: GrammarSupport,
    engine: engine::Options,
} }

impl Options {
    /// The defaults for the server at `url`.
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

/// The way that a server enforces a grammar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrammarSupport {
    /// The engine asks the server.
    #[default]
    Auto,
    /// The way of llama-server: `/completion` with `grammar`. Prompts are rendered here, with the template that it reports.
    Llama,
    /// The way of vLLM: chat with `structured_outputs`. The system prompt describes the tools.
    Vllm,
    /// The way of `toolgate serve`: its engine makes the turn, with everything that is known here.
    Toolgate,
    /// None: the server gets the tools and makes calls of its own.
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

/// The way that the server makes turns.
enum Way {
    /// Under our grammar.
    Constrained(constrained::Constrained),
    /// The server's engine makes the turn, with everything that is known here.
    Whole(Box<About>),
    /// By the server's own tool calls.
    Native(native::Native),
}

impl RemoteEngine {
    /// Asks the server for its kind and its models.
    ///
    /// # Errors
    /// [`Kind::Engine`] for a server that does not answer, fails, or refuses the key; also if it lists no model and the options
    /// name none. [`Kind::Input`] for a text that is no address.
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
            GrammarSupport::Toolgate => Way::Whole(Box::new(toolgate::about(&client).ok_or_else(|| {
                let message =
                    format!("{} makes no turns for others: it is no toolgate of this version", client.root());
                Error::new(Kind::Engine, message)
            })?)),
            GrammarSupport::Auto | GrammarSupport::None => {
                Way::Native(native::Native::new(client.clone(), name.clone()))
            }
        };
        Ok(Self { name, client, options, way })
    }

    /// The way that the server enforces a grammar, as the engine found it: `llama-server`, `vllm`, `toolgate` or `none`.
    ///
    /// ```
    /// use toolgate_remote::{GrammarSupport, Options, RemoteEngine};
    ///
    /// // With a model and a way of its own, nothing is asked before the first turn.
    /// let options = Options::new("http://127.0.0.1:8080").model(Some("m".into())).grammar(GrammarSupport::None);
    /// assert_eq!(RemoteEngine::connect(options)?.grammar(), "none");
    /// # Ok::<(), toolgate_engine::Error>(())
    /// ```
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
        let own = Facts::default()
            .options(format!("{:?}", self.options))
            .profile(self.options.engine.profile.clone());
        match &self.way {
            Way::Constrained(model) => own
                .template(Sha256Digest::of(model.template().as_bytes()).to_string())
                .quoted(self.options.engine.answer_view == engine::AnswerView::Quoted),
            // What counts is set there.
            Way::Whole(about) => about.facts.clone(),
            Way::Native(_) => own,
        }
    }

    fn default_sampling(&self) -> Sampling {
        match &self.way {
            Way::Whole(about) => about.sampling.clone(),
            _ => Sampling::default(),
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
        let mut sampling = request.sampling.clone();
        sampling.reasoning = sampling.reasoning.or(own.reasoning);
        let request = &request.clone().tools(&tools).sampling(&sampling);
        match &self.way {
            Way::Constrained(held) => held.turn(own, request, cancel, events),
            Way::Whole(_) => toolgate::turn(&self.client, &self.name, request, cancel, events),
            Way::Native(offered) => offered.turn(own, request, cancel, events),
        }
    }
}

/// Finds the kind of a server. A server that reports no kind gets requests that every server takes. A server that cannot be
/// reached or still loads is an error: with a wrong kind, the whole run would use a worse way.
fn detect(client: &Client) -> Result<GrammarSupport, Error> {
    let never = Cancel::default();
    let is_llama = |told: Value| told.get("chat_template").is_some_and(Value::is_string);
    if client.find("/props", &never)?.is_some_and(is_llama) {
        return Ok(GrammarSupport::Llama);
    }
    let list = client.listed(&never)?.unwrap_or_default();
    Ok(match owner(&list) {
        Some("vllm") => GrammarSupport::Vllm,
        Some("toolgate") if toolgate::about(client).is_some() => GrammarSupport::Toolgate,
        _ => GrammarSupport::None,
    })
}

fn owner(list: &Value) -> Option<&str> {
    list.pointer("/data/0/owned_by")?.as_str()
}

/// The first model that the server at `options` lists. [`RemoteEngine::connect`] takes it if the options name none.
///
/// # Errors
/// The errors of [`RemoteEngine::connect`].
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
