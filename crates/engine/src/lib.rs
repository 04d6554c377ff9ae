//! The model behind a run: a transcript and tools in, one turn out. Knows chat, decoding and llama.cpp; no
//! execution of tools.
//!
//! Invariant: under [`Constraint::Grammar`] a turn is either calls that parse, name an offered tool and fit its
//! grammar, or an answer without any call marker in it; a constraint that fails ends the turn with an error.

mod constraint;
mod error;
#[cfg(feature = "llama")]
mod load;
mod model;
pub mod models;
mod profile;
mod prompt;
#[doc(hidden)]
pub mod protocol;
#[doc(hidden)]
pub mod stages;
mod turn;

pub use constraint::check::{AnswerCheck, CallCheck, Fault};
pub use error::{Error, Kind};
pub use model::reasoning::{Effort, Reasoning, ReasoningMode};
pub use model::sampling::{Penalties, Sampling};
pub use model::tuning::{Tuning, Tunings};
pub use profile::choice::{ChoiceModel, ChoiceWeights};
pub use profile::decision::{DecisionModel, DecisionWeights, Signal, Signals};
pub use profile::options::{AnswerView, Options, Parameters};
pub use profile::policy::Thresholds;
pub use prompt::disk_cache::{CachedPrompt, DEFAULT_LIMIT, PromptCache};
pub use prompt::room::Room;
pub use turn::answer::AnswerForm;
pub use turn::local::LocalEngine;
pub use turn::watch::{AnswerWatch, Beginning};

use std::num::NonZeroUsize;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolgate_chat::{ParsedTurn, RunEnd, ToolCall, ToolChoice, ToolSpec, Transcript};
use toolgate_grammar::Grammar;
pub use toolgate_infer::{
    Adapter, Attention, CacheType, Cancel, Cancelled, Device, Drafting, FlashAttention, Forcing, GpuLayers,
    Numerics, OnCancel, Placement, RopeScaling, Untrained,
};
use toolgate_infer::{DecodedToken, Stats, StopReason, TokenId, TurnDecision};

/// Something that makes turns.
///
/// ```
/// use toolgate_engine::Error;
/// use toolgate_engine::{Cancel, Engine, Turn, TurnEvent, TurnRequest};
/// use toolgate_chat::ParsedTurn;
/// use toolgate_infer::StopReason;
///
/// /// Says what it is told.
/// struct Echo;
///
/// impl Engine for Echo {
///     fn name(&self) -> &str {
///         "echo"
///     }
///
///     fn turn(
///         &self,
///         request: &TurnRequest<'_>,
///         _: &Cancel,
///         events: &mut dyn FnMut(TurnEvent),
///     ) -> Result<Turn, Error> {
///         let text = request.transcript.question().unwrap_or_default().to_owned();
///         events(TurnEvent::Text(text.clone()));
///         let parsed = ParsedTurn { content: Some(text.clone()), ..ParsedTurn::default() };
///         Ok(Turn::new(parsed, text, StopReason::End))
///     }
/// }
///
/// # use {toolgate_chat::{Message, Transcript}, toolgate_engine::Sampling};
/// let transcript = Transcript::new().with(Message::User("Is anybody there?".to_owned()));
/// let sampling = Sampling::default();
/// let turn = Echo.turn(&TurnRequest::new(&transcript, &[], &sampling), &Cancel::default(), &mut |_| {})?;
/// assert_eq!(turn.parsed.content.as_deref(), Some("Is anybody there?"));
/// # Ok::<(), toolgate_engine::Error>(())
/// ```
pub trait Engine: Send + Sync {
    /// The model's name, for people.
    fn name(&self) -> &str;

    /// What its turns depend on beside the request, for a record of a run.
    fn facts(&self) -> Facts {
        Facts::default()
    }

    /// What its conversations have room for, where that is known.
    fn room(&self) -> Option<Room> {
        None
    }

    /// Whether its answers go on from [what was begun](TurnRequest::begun). Of others that is hoped: a server that does not say how it
    /// is told to may begin an answer of its own.
    fn goes_on(&self) -> bool {
        true
    }

    /// The text of tokens, as far as it is known.
    fn text_of(&self, tokens: &[TokenId]) -> String {
        let _ = tokens;
        String::new()
    }

    /// How tokens are drawn where the caller says nothing of it: what the model's makers advise, where they say so.
    ///
    /// ```
    /// use toolgate_engine::{Engine, LocalEngine, Sampling};
    /// # use std::sync::Arc;
    /// # use toolgate_engine::Options;
    /// # use toolgate_infer::{Vocabulary, scripted::Scripted};
    /// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()));
    /// # let engine = LocalEngine::scripted(model, Options::default())?;
    /// assert_eq!(engine.default_sampling(), Sampling::default(), "of this model nothing is known");
    /// # Ok::<(), toolgate_engine::Error>(())
    /// ```
    fn default_sampling(&self) -> Sampling {
        Sampling::default()
    }

    /// How many tokens the prompt of a turn has; `None` where that cannot be told without making it.
    ///
    /// # Errors
    /// [`Kind::Engine`] if the prompt cannot be written.
    ///
    /// ```
    /// use toolgate_engine::{Engine, LocalEngine, Options, Sampling, TurnRequest};
    /// use toolgate_chat::{Message, Transcript};
    /// # use std::sync::Arc;
    /// # use toolgate_infer::{Vocabulary, scripted::Scripted};
    /// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()));
    /// # let engine = LocalEngine::scripted(model, Options::default())?;
    ///
    /// let count = |text: &str| {
    ///     let transcript = Transcript::new().with(Message::User(text.into()));
    ///     engine.prompt_tokens(&TurnRequest::new(&transcript, &[], &Sampling::default()))
    /// };
    /// // This model has a token for each byte.
    /// assert_eq!(count("two more")?, count("two")?.map(|tokens| tokens + " more".len()));
    /// # Ok::<(), toolgate_engine::Error>(())
    /// ```
    fn prompt_tokens(&self, request: &TurnRequest<'_>) -> Result<Option<usize>, Error> {
        let _ = request;
        Ok(None)
    }

    /// Makes one turn.
    ///
    /// # Errors
    /// [`Kind::Overflow`] if the prompt does not fit the context,
    /// [`Kind::Cancelled`], or [`Kind::Engine`].
    ///
    /// ```
    /// use toolgate_engine::Kind;
    /// use toolgate_engine::{Cancel, Engine, LocalEngine, TurnRequest};
    /// # use std::sync::Arc;
    /// # use toolgate_engine::{Options, Sampling};
    /// # use toolgate_chat::{Message, Transcript};
    /// # use toolgate_infer::{Vocabulary, scripted::Scripted};
    /// # let call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
    /// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
    /// #     .on("rain in Oslo", "It rains in Oslo.")
    /// #     .on("weather", call);
    /// # let engine = LocalEngine::scripted(model, Options::default())?;
    /// # let transcript = Transcript::new().with(Message::User("How is the weather in Oslo?".into()));
    /// # let sampling = Sampling::default();
    ///
    /// let cancel = Cancel::default();
    /// // From a signal's handler or another thread, with a clone.
    /// cancel.clone().cancel();
    /// let turn = engine.turn(&TurnRequest::new(&transcript, &[], &sampling), &cancel, &mut |_| {});
    /// assert_eq!(turn.map(|turn| turn.text).map_err(|error| error.kind()), Err(Kind::Cancelled));
    /// # Ok::<(), toolgate_engine::Error>(())
    /// ```
    fn turn(
        &self,
        request: &TurnRequest<'_>,
        cancel: &Cancel,
        events: &mut dyn FnMut(TurnEvent),
    ) -> Result<Turn, Error>;
}

/// What an engine's turns depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Facts {
    /// SHA-256 of the chat template, in hexadecimal; empty where there is none.
    pub template: String,
    /// The engine's options, in words.
    pub options: String,
    /// What evaluates the model, in words; empty where that is not known.
    #[serde(default)]
    pub device: String,
    /// Whether answers of its model often say nothing of the results that they follow, so that whoever shows them may add a quotation
    /// ([`AnswerView::Quoted`]).
    #[serde(default)]
    pub quoted: bool,
    /// The profile that its turns follow ([`Options::profile`]); none where nothing was measured of its model.
    #[serde(default)]
    pub profile: Option<String>,
}

toolgate_chat::setters! { Facts  {
    template: String,
    options: String,
    device: String,
    quoted: bool,
    profile: Option<String>,
} }

/// What a turn is asked for.
///
/// ```
/// use toolgate_engine::{Cancel, Engine, LocalEngine, Sampling, TurnRequest};
/// use toolgate_chat::{Message, ToolChoice, ToolSpec, Transcript};
/// # use std::sync::Arc;
/// # use toolgate_engine::Options;
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # let call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
/// #     .on("rain in Oslo", "It rains in Oslo.")
/// #     .on("weather", call);
/// # let engine = LocalEngine::scripted(model, Options::default())?;
///
/// let parameters = serde_json::json!({
///     "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]
/// });
/// let tools = [ToolSpec::new("get_weather", "The weather in a city.", parameters)?];
/// let transcript = Transcript::new().with(Message::User("How is the weather in Oslo?".into()));
/// let sampling = Sampling::default();
/// let request =
///     TurnRequest::new(&transcript, &tools, &sampling).choice(ToolChoice::Required);
/// let turn = engine.turn(&request, &Cancel::default(), &mut |_| {})?;
/// assert_eq!(turn.parsed.calls[0].arguments["city"], "Oslo");
/// # Ok::<(), toolgate_engine::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TurnRequest<'a> {
    /// The conversation so far; its last message is the user's or holds tool results.
    pub transcript: &'a Transcript,
    /// The tools offered.
    pub tools: &'a [ToolSpec],
    /// Whether the turn may, must or must not call.
    pub choice: ToolChoice,
    /// The most calls in the turn; `None` is no bound.
    pub parallel: Option<NonZeroUsize>,
    /// Calls whose answer is in the transcript and would be the same again: the turn cannot consist of these, unless a call
    /// is required and the model makes no other.
    pub completed: &'a [ToolCall],
    /// What finished calls are held to beyond their grammar; an engine that can writes a value again that does not
    /// fit ([`Options::retries`]).
    pub check: Option<&'a dyn CallCheck>,
    /// Whether the calls whose results come last changed something.
    pub changed: bool,
    /// Whether the request names what no call has taken up yet: then a further call is likelier to be wanted, and
    /// none of [`completed`](Self::completed) is.
    pub pending: bool,
    /// Whether the last call may be made in another way after it failed: the first failure of its run, where nothing held the
    /// call to what is there.
    pub retry: bool,
    /// What speaks for each of [`tools`](Self::tools) beside the model, from -1 (against it) to 1; empty where nobody knows. The
    /// profile says how much it counts ([`Options::prior_weight`]).
    pub prior: &'a [f64],
    /// Who tells an answer after calls that does nothing but repeat the request: it is written again.
    pub repetitions: Option<&'a dyn AnswerWatch>,
    /// Whether this turn ends the run although the model might have gone on: its answer is asked to say what is
    /// missing.
    pub closing: bool,
    /// Whether what calls gave back may be quoted, as such, in the place of the answer, where the model's answers are such
    /// ([`AnswerView::Results`]). Otherwise an answer is the model's text alone.
    pub quotes: bool,
    /// Whether the calls are handed on to a client, which decides itself whether to make them: it gets those that the model
    /// wants at better than even, whatever the thresholds say.
    pub handed_on: bool,
    /// What the turn's answer is, where it is one.
    pub answer: AnswerForm<'a>,
    /// What an answer in JSON is held to beyond its grammar: one that does not fit is written again, and is an error of the turn
    /// where no way to write it fits.
    pub answer_check: Option<&'a dyn AnswerCheck>,
    /// What the answer begins with: the turn is one then, and goes on behind this text.
    pub begun: Option<&'a str>,
    /// Whether it is told how likely each token of an answer was ([`TurnEvent::Likelihoods`]), with so many of the likeliest in
    /// its place.
    pub likelihoods: Option<usize>,
    /// How tokens are drawn and bounded.
    pub sampling: &'a Sampling,
}

toolgate_chat::setters! { TurnRequest <'a> {
    transcript: &'a Transcript,
    tools: &'a [ToolSpec],
    sampling: &'a Sampling,
    choice: ToolChoice,
    parallel: Option<NonZeroUsize>,
    completed: &'a [ToolCall],
    check: Option<&'a dyn CallCheck>,
    changed: bool,
    pending: bool,
    retry: bool,
    prior: &'a [f64],
    repetitions: Option<&'a dyn AnswerWatch>,
    closing: bool,
    quotes: bool,
    handed_on: bool,
    answer: AnswerForm<'a>,
    answer_check: Option<&'a dyn AnswerCheck>,
    begun: Option<&'a str>,
    likelihoods: Option<usize>,
} }

impl<'a> TurnRequest<'a> {
    /// A first turn of a conversation, which may call one of these tools; all else is left open.
    pub fn new(transcript: &'a Transcript, tools: &'a [ToolSpec], sampling: &'a Sampling) -> Self {
        Self {
            transcript,
            tools,
            choice: ToolChoice::Auto,
            parallel: None,
            completed: &[],
            check: None,
            changed: false,
            pending: false,
            retry: false,
            prior: &[],
            repetitions: None,
            closing: false,
            quotes: false,
            handed_on: false,
            answer: AnswerForm::Text,
            answer_check: None,
            begun: None,
            likelihoods: None,
            sampling,
        }
    }

    /// How the run came to this turn, if it is an answer.
    #[doc(hidden)]
    pub fn end(&self) -> RunEnd {
        RunEnd { closing: self.closing, changed: self.changed }
    }

    /// What was begun of the answer, without the blanks at its end: models write those in front of words.
    #[doc(hidden)]
    pub fn goes_on_from(&self) -> Option<&'a str> {
        self.begun.map(str::trim_end).filter(|begun| !begun.is_empty())
    }

    /// Whether the blanks that an answer begins with are no part of it.
    #[doc(hidden)]
    pub fn trims_front(&self) -> bool {
        let ends_blank = |begun: &str| begun.trim_end().is_empty() || begun.ends_with(char::is_whitespace);
        !matches!(self.answer, AnswerForm::Grammar(_)) && self.begun.is_none_or(ends_blank)
    }
}

/// What holds a turn to its form.
///
/// ```
/// use toolgate_engine::{Constraint, Options};
/// # use std::sync::Arc;
/// # use toolgate_engine::{Cancel, Engine, LocalEngine, Sampling, TurnRequest};
/// # use toolgate_chat::{Message, ToolSpec, Transcript};
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # fn parameters(options: Options) -> Result<Vec<String>, toolgate_engine::Error> {
/// # let call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"town\": \"Oslo\"}}\n</tool_call>";
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).on("weather", call);
/// # let engine = LocalEngine::scripted(model, options)?;
/// # let parameters = serde_json::json!({
/// #     "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]
/// # });
/// # let tools = [ToolSpec::new("get_weather", "The weather in a city.", parameters)?];
/// # let transcript = Transcript::new().with(Message::User("How is the weather in Oslo?".into()));
/// # let sampling = Sampling::default();
/// # let request = TurnRequest::new(&transcript, &tools, &sampling);
/// # let turn = engine.turn(&request, &Cancel::default(), &mut |_| {})?;
/// # Ok(turn.parsed.calls.iter().flat_map(|call| call.arguments.keys().cloned()).collect())
/// # }
///
/// // What a model calls a tool with that takes a `city`, and that it would rather give a `town`.
/// let unconstrained = Options::default().constraint(Constraint::None);
/// assert_eq!(parameters(unconstrained)?, ["town"]);
/// assert_eq!(parameters(Options::default())?, ["city"]);
/// # Ok::<(), toolgate_engine::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Constraint {
    /// Our grammar and automaton.
    #[default]
    Grammar,
    /// Our grammar, run by llama.cpp's own sampler: slower, for comparison.
    Llama,
    /// Nothing: the turn is parsed as it comes.
    None,
}

/// What happens while a turn is made.
///
/// ```
/// use toolgate_engine::{Cancel, Engine, LocalEngine, TurnEvent, TurnRequest};
/// # use std::sync::Arc;
/// # use toolgate_engine::{Options, Sampling};
/// # use toolgate_chat::{Message, ToolSpec, Transcript};
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # let call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
/// #     .on("rain in Oslo", "It rains in Oslo.")
/// #     .on("weather", call);
/// # let engine = LocalEngine::scripted(model, Options::default())?;
/// # let parameters = serde_json::json!({
/// #     "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]
/// # });
/// # let tools = [ToolSpec::new("get_weather", "The weather in a city.", parameters)?];
/// # let transcript = Transcript::new().with(Message::User("How is the weather in Oslo?".into()));
/// # let sampling = Sampling::default();
///
/// let mut shown = String::new();
/// let request = TurnRequest::new(&transcript, &tools, &sampling);
/// engine.turn(&request, &Cancel::default(), &mut |event| match event {
///     TurnEvent::Text(piece) | TurnEvent::Arguments(piece) => shown.push_str(&piece),
///     TurnEvent::CallStarted(name) => shown.push_str(&format!("{name}: ")),
///     _ => {}
/// })?;
/// assert_eq!(shown, "get_weather: {\"city\": \"Oslo\"}");
/// # Ok::<(), toolgate_engine::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TurnEvent {
    /// The prompt is being evaluated: `done` of `tokens`, of which `cached` were there already.
    Prefill {
        /// Tokens evaluated so far, cached ones included.
        done: usize,
        /// The prompt's length.
        tokens: usize,
        /// Tokens that needed no evaluation.
        cached: usize,
    },
    /// Whether the turn is a call was decided.
    Decided(TurnDecision),
    /// A piece of the answer.
    Text(String),
    /// A piece of what the model thinks before it speaks.
    Reasoning(String),
    /// A call of this tool begins. Calls are told as they are written only where nothing may take them back
    /// ([`TurnRequest::check`], [`TurnRequest::completed`], [`DecisionWeights::invented`]). From the second on they are told when they are
    /// whole, as one that stands in the turn already is left out.
    CallStarted(String),
    /// More of the arguments of the call that was started, as JSON.
    Arguments(String),
    /// The call that was started is whole.
    CallEnded,
    /// Calls were found in a turn that the family's own form does not cover: the turn as the model wrote it.
    Recovered(String),
    /// The turn, or a value in it, was taken back and is written again; nothing of it was shown.
    Retry(String),
    /// A prompt that was evaluated, as its tokens.
    Prompted(Vec<TokenId>),
    /// How likely each token of an answer was, where that was asked for; those of the last one count.
    Likelihoods(Vec<TokenLikelihood>),
    /// A text that was decoded, as its tokens, each with where it came from.
    Decoded {
        /// The grammar that held it; none where none did.
        grammar: Option<Arc<Grammar>>,
        /// The tokens; of a text written again, those kept from before too.
        tokens: Vec<DecodedToken>,
    },
}

/// How likely a token was, by the model's own logits; one without an alternative is certain.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLikelihood {
    /// Its bytes, which may be part of a character.
    pub bytes: Vec<u8>,
    /// The logarithm of its probability.
    pub log_probability: f64,
    /// The likeliest tokens in its place, with the same, the likeliest first.
    pub top: Vec<(Vec<u8>, f64)>,
}

/// A finished turn.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Turn {
    /// What it says.
    pub parsed: ParsedTurn,
    /// The text as the model wrote it.
    pub text: String,
    /// Why it ended. After [`StopReason::Budget`], and where it was cut off ([`StopReason::is_whole`]), its calls are not what
    /// the model wanted to write, and none is to be run.
    pub stop: StopReason,
    /// Tokens it could have: [`Sampling::max_tokens`], or what the context had room for.
    pub budget: usize,
    /// How it was decided between call and answer, where that was open.
    pub decision: Option<TurnDecision>,
    /// Whether it holds nothing but calls that are completed, and nothing could make the model say something else.
    pub looped: bool,
    /// What it cost.
    pub stats: Stats,
}

toolgate_chat::setters! { Turn  {
    budget: usize,
    decision: Option<TurnDecision>,
    looped: bool,
    stats: Stats,
} }

impl Turn {
    /// A turn that says this, and cost nothing that is known of.
    pub fn new(parsed: ParsedTurn, text: impl Into<String>, stop: StopReason) -> Self {
        let text = text.into();
        Self { parsed, text, stop, budget: 0, decision: None, looped: false, stats: Stats::default() }
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
