//! How a local engine makes turns: what its caller or the model's catalogue entry chooses, and what follows from it for a
//! transcript and its tools.

use std::num::NonZeroUsize;

use toolgate_chat::{Demonstrations, Message, SystemPrompt, ToolFormat, ToolSpec, Transcript};
use toolgate_grammar::marks::KnownMark;
use toolgate_infer::{Attention, Drafting, Forcing, Numerics, Placement, Untrained};

use crate::model::tuning::Tuning;
use crate::profile::choice::ChoiceModel;
use crate::profile::decision::DecisionModel;
use crate::profile::policy::Thresholds;
use crate::{Constraint, Reasoning};

/// How a local engine makes turns.
///
/// ```
/// use toolgate_engine::{AnswerView, Options};
/// use toolgate_engine::models::ResolvedModel;
///
/// // What suits the model. Nothing steers one without a profile.
/// let model = ResolvedModel::new("models/my-model.gguf", None);
/// let options = Options::for_model(&model);
/// assert_eq!((options.answer_view, options.thresholds.first), (AnswerView::Full, 0.5));
/// assert!(options.profile.is_none() && options.system.is_none());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// What holds a turn to its form. Default: our grammar.
    pub constraint: Constraint,
    /// Whether forced tokens are evaluated in one batch. Default: they are.
    pub forcing: Forcing,
    /// Whether tokens are guessed ahead from what the prompt says. Default: they are.
    pub drafting: Drafting,
    /// What the probability of a call is held against.
    pub thresholds: Thresholds,
    /// What was fitted for the model to decide between call and answer; it stands in place of the thresholds that it tells. None: the
    /// thresholds decide.
    pub decision: Option<DecisionModel>,
    /// The profile that these options are of; none where nothing was measured of the model. What holds small models by the hand (hints,
    /// the ban on repeated calls) is left out then.
    pub profile: Option<String>,
    /// The system prompt of transcripts that bring none. Default: none is added.
    pub system: Option<SystemPrompt>,
    /// What stands in front of a conversation that brings no system prompt. Talk is there only while it is decided whether
    /// the first turn is a call and where that turn is an answer; calls are written without it.
    pub demonstrations: Demonstrations,
    /// How much of a model's bias towards some tools is taken off when it chooses one: the share of the logarithm of
    /// the probability that each has with a request that says nothing. Default 0: none. Applies to a turn's first call.
    pub tool_bias: f64,
    /// What else counts in the choice of a tool, as it was fitted for the model. Default: nothing.
    pub choice: ChoiceModel,
    /// How much the caller's prior of a tool counts ([`TurnRequest::prior`](crate::TurnRequest::prior)), in logarithms of probability.
    /// Default 0. Applies to a turn's first call.
    pub prior_weight: f64,
    /// Added tokens of the model's vocabulary that it was not trained with: their names are read and written in tokens of
    /// ordinary text. Default none. It counts where a model is loaded, and at a llama-server.
    pub untrained: Untrained,
    /// Marks of which more is known than the model's file says. Default none. It counts where a model is loaded.
    pub marks: Vec<KnownMark>,
    /// Which parameters of the tools the model is offered.
    pub parameters: Parameters,
    /// What the model sees when it answers after calls.
    pub answer_view: AnswerView,
    /// Calls a turn at most, where the request leaves it open. Default: as many as the format allows. Profiles say less for small
    /// models, which go through all the tools there are.
    pub parallel: Option<NonZeroUsize>,
    /// How much the model thinks, where the request leaves it open ([`Sampling::reasoning`](crate::Sampling::reasoning)).
    pub reasoning: Reasoning,
    /// How often a value that the grammar admits and [`TurnRequest::check`](crate::TurnRequest::check) does not is written again, within a turn.
    /// Default 5. Where that does not help, the call is what the model wrote first.
    pub retries: usize,
    /// Tokens the context holds; `None` is 8,192 or what the model was trained on, whichever is less, and 0 is the latter.
    pub context: Option<u32>,
    /// Where the model's weights lie, and so what evaluates it. Default: a graphics processor where this build finds one, else
    /// the processor. It counts where a model is loaded.
    pub placement: Placement,
    /// How contexts keep keys and values. Default: as the device does best. It counts where a model is loaded.
    pub attention: Attention,
    /// How this machine evaluates the model best, where that was measured.
    pub tuning: Tuning,
    /// Whether batches of forced and guessed tokens must leave a greedy turn the same, byte for byte. Default
    /// [`Numerics::Exact`]. [`Numerics::Fast`] takes wider ones, and may write another text where two tokens are almost
    /// equally likely.
    pub numerics: Numerics,
    /// Turns made at the same time. Default 1. More share one context, of as many times the memory: what they evaluate at
    /// the same time is evaluated in one batch, and so may differ from a turn alone where two tokens are almost equally
    /// likely.
    pub at_once: NonZeroUsize,
    /// Bytes of memory at most for evaluated prompts that gave way to those of other conversations, so that they need not
    /// be evaluated again when their own goes on. Default 0: none. A token takes 12 KiB with a model of 0.5 B weights,
    /// and 28 KiB with one of 1.5 B.
    pub prompt_memory: usize,
}

toolgate_chat::setters! { Options  {
    constraint: Constraint,
    forcing: Forcing,
    drafting: Drafting,
    thresholds: Thresholds,
    decision: Option<DecisionModel>,
    profile: Option<String>,
    system: Option<SystemPrompt>,
    demonstrations: Demonstrations,
    tool_bias: f64,
    choice: ChoiceModel,
    prior_weight: f64,
    untrained: Untrained,
    parameters: Parameters,
    answer_view: AnswerView,
    parallel: Option<NonZeroUsize>,
    reasoning: Reasoning,
    retries: usize,
    context: Option<u32>,
    placement: Placement,
    attention: Attention,
    tuning: Tuning,
    numerics: Numerics,
    at_once: NonZeroUsize,
    prompt_memory: usize,
} }

/// What the model sees when it answers after calls.
///
/// ```
/// use toolgate_engine::AnswerView;
/// # use std::sync::Arc;
/// # use toolgate_engine::{Cancel, Engine, LocalEngine, Options, Sampling, TurnRequest};
/// # use toolgate_chat::{Message, ToolCall, ToolReply, Transcript};
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # fn answer(answer_view: AnswerView) -> Result<String, toolgate_engine::Error> {
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).on("", "You find it above.");
/// # let options = Options::default().answer_view(answer_view);
/// # let engine = LocalEngine::scripted(model, options)?;
/// # let call = ToolCall::new("get_weather", Default::default());
/// # let reply = ToolReply::ok(&call, "rain in Oslo");
/// # let asked = Transcript::new().with(Message::User("How is the weather in Oslo?".into()));
/// # let transcript = asked.with(Message::calls([call])).with(Message::Tool(vec![reply]));
/// # let sampling = Sampling::default();
/// # let request = TurnRequest::new(&transcript, &[], &sampling).quotes(true);
/// # Ok(engine.turn(&request, &Cancel::default(), &mut |_| {})?.parsed.content.unwrap_or_default())
/// # }
///
/// // A call gave back "rain in Oslo", and the model says nothing of it.
/// assert_eq!(answer(AnswerView::Compact)?, "You find it above.");
/// assert_eq!(answer(AnswerView::Results)?, "get_weather:\n> rain in Oslo");
/// # Ok::<(), toolgate_engine::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AnswerView {
    /// The question and the results, without tool definitions: small models then answer instead of calling on.
    #[default]
    Compact,
    /// The same, for models that often repeat the question instead: whoever shows the answer may add a quotation
    /// ([`Facts::quoted`](crate::Facts::quoted)), as an agent does where the answer says nothing of the results.
    Quoted,
    /// The whole conversation, as the call turns see it.
    Full,
    /// The results, quoted, are the answer, if the turn [may quote](crate::TurnRequest::quotes); else as
    /// [`Compact`](Self::Compact): for models too small to retell them.
    Results,
}

/// Which parameters of the tools the model is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Parameters {
    /// All of them.
    #[default]
    All,
    /// All but the advanced ones ([`ToolSpec::without_advanced`]), which small models fill in whether they help or not.
    Plain,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            constraint: Constraint::Grammar,
            forcing: Forcing::On,
            drafting: Drafting::On,
            thresholds: Thresholds::default(),
            decision: None,
            profile: None,
            system: None,
            demonstrations: Demonstrations::None,
            tool_bias: 0.0,
            choice: ChoiceModel::default(),
            prior_weight: 0.0,
            untrained: Untrained::default(),
            marks: Vec::new(),
            parameters: Parameters::All,
            answer_view: AnswerView::Full,
            parallel: None,
            reasoning: Reasoning::default(),
            retries: 5,
            placement: Placement::default(),
            attention: Attention::default(),
            tuning: Tuning::default(),
            numerics: Numerics::Exact,
            context: None,
            at_once: NonZeroUsize::MIN,
            prompt_memory: 0,
        }
    }
}

impl Options {
    /// Options that hold a small model by the hand, as profiles do before what they measured: a system prompt that permits the tools, one
    /// call a turn, answers from the results alone.
    ///
    /// ```
    /// use toolgate_engine::{AnswerView, Options};
    /// let guided = Options::guided();
    /// assert!(guided.system.is_some() && guided.answer_view == AnswerView::Compact);
    /// assert_eq!(guided.profile.as_deref(), Some("guided"));
    /// ```
    pub fn guided() -> Self {
        Self {
            profile: Some("guided".to_owned()),
            thresholds: Thresholds::guided(),
            system: Some(SystemPrompt::default()),
            answer_view: AnswerView::Compact,
            parallel: Some(NonZeroUsize::MIN),
            ..Self::default()
        }
    }

    /// The same decisions moved towards calling (above 0) or answering (below 0): see [`Thresholds::biased`].
    ///
    /// ```
    /// use toolgate_engine::Options;
    /// assert!(Options::default().biased(0.7).thresholds.first < 0.4);
    /// ```
    #[must_use]
    pub fn biased(mut self, bias: f64) -> Self {
        self.thresholds = self.thresholds.biased(bias);
        self.decision = self.decision.map(|decision| decision.biased(bias));
        self
    }

    /// A transcript after a system prompt, its own if it brings one, and demonstrations: the thresholds are those that count behind it.
    #[doc(hidden)]
    pub fn introduced(
        &self,
        given: &Transcript,
        tools: &[ToolSpec],
        format: &dyn ToolFormat,
        demonstrations: Demonstrations,
    ) -> Transcript {
        let usual = || self.system.as_ref().map(|system| Message::System(system.render(tools, format)));
        let (system, rest) = match given.messages().split_first() {
            Some((system @ Message::System(_), rest)) => (Some(system.clone()), rest),
            _ => (usual(), given.messages()),
        };
        system.into_iter().chain(demonstrations.messages(tools)).chain(rest.iter().cloned()).collect()
    }

    /// What stands in front of a conversation while its next turn is decided, or while a call is written: talk helps to
    /// tell a first request from talk, and not to write.
    #[doc(hidden)]
    pub fn demonstrations_for(&self, transcript: &Transcript, decides: bool) -> Demonstrations {
        let opens = matches!(transcript.last(), Some(Message::User(_)));
        match self.demonstrations {
            Demonstrations::Talk if !(opens && decides) => Demonstrations::None,
            demonstrations => demonstrations,
        }
    }

    /// The tools as the model is offered them.
    #[doc(hidden)]
    pub fn offered(&self, tools: &[ToolSpec]) -> Vec<ToolSpec> {
        match self.parameters {
            Parameters::All => tools.to_vec(),
            Parameters::Plain => tools.iter().map(ToolSpec::without_advanced).collect(),
        }
    }
}
