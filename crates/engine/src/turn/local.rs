//! The engine on this machine: a backend, the model's own dialogue, and the decision between call and answer.
//!
//! A turn: render the prompt with the tools · evaluate what is not in the cache · read the probability of a call ·
//! write the call in canonical form, or the answer from a view that holds only the question and the results.

use std::sync::{Arc, Mutex};

use toolgate_chat::{Dialogue, Opened, Template, TemplateTokens, ToolChoice, Transcript};
use toolgate_grammar::{Budgeted, Grammar, TokenId, Vocabulary};
use toolgate_infer::scripted::Scripted;
use toolgate_infer::{Backend, Constraint as Limit, Free, KvCache, Session, common_len};

#[cfg(feature = "llama")]
use crate::ReasoningMode;
use crate::constraint::automata::{Cache, Side};
use crate::model::pool::Pool;
use crate::models::Sha256Digest;
use crate::profile::options::{AnswerView, Options};
use crate::prompt::disk_cache::PromptCache;
use crate::prompt::room::Room;
use crate::prompt::underway::Underway;
use crate::turn::choose::{Biases, FreeCalls};
use crate::turn::lists::ToldLists;
use crate::turn::making::Making;
use crate::turn::openings::TurnOpenings;
use crate::turn::prefill::Beginnings;
use crate::{Cancel, Constraint, Engine, Error, Facts, Sampling, Turn, TurnEvent, TurnRequest};

/// Makes a constraint of another engine from our grammar.
pub(crate) type Reference = Box<dyn Fn(&Grammar) -> Result<Box<dyn Limit + Send>, Error> + Send + Sync>;

/// A model on this machine. As many turns at a time as it has conversations, one unless more are asked for; others wait.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_engine::{Cancel, Engine, LocalEngine, Options, Sampling, TurnEvent, TurnRequest};
/// use toolgate_chat::{Dialogue, Message, Template, TemplateTokens, Transcript};
/// use toolgate_infer::{Vocabulary, scripted::Scripted};
///
/// let template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>";
/// let dialogue = Dialogue::derived(Template::new(template, TemplateTokens::default())?);
/// // A model without weights, for tests: it wants to say what its script says.
/// let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).on("capital of Norway", "Oslo.");
/// let engine = LocalEngine::new("scripted", model, dialogue, Options::default());
///
/// let transcript = Transcript::new().with(Message::User("What is the capital of Norway?".into()));
/// let (sampling, mut shown) = (Sampling::default(), String::new());
/// let request = TurnRequest::new(&transcript, &[], &sampling);
/// engine.turn(&request, &Cancel::default(), &mut |event| {
///     if let TurnEvent::Text(piece) = event {
///         shown.push_str(&piece);
///     }
/// })?;
/// assert_eq!(shown, "Oslo.");
/// # Ok::<(), toolgate_engine::Error>(())
/// ```
pub struct LocalEngine<B> {
    name: String,
    /// Beside the state, so that an event's tokens can be read while their turn is made.
    pub(crate) vocabulary: Arc<Vocabulary>,
    pub(crate) dialogue: Dialogue,
    pub(crate) options: Options,
    /// What its turns open with.
    pub(crate) openings: TurnOpenings,
    /// llama.cpp's own grammar sampler, where the backend has it.
    reference: Option<Reference>,
    pub(crate) conversations: Pool<State<B>>,
    /// What each of them has room for.
    room: Room,
    pub(crate) learned: Learned,
    pub(crate) underway: Underway,
    /// Where beginnings of prompts are kept from one process to the next.
    pub(crate) packs: Option<PromptCache>,
    load_ms: u64,
    /// What evaluates the model, in words; empty where nobody said.
    device: String,
    /// How tokens are drawn where the caller says nothing.
    sampling: Sampling,
    /// The token that the model's texts begin with, where it was trained with one.
    pub(crate) begins_with: String,
}

/// A conversation, which one turn at a time changes.
pub(crate) struct State<B> {
    pub(crate) session: Session<B>,
    /// What its last turn was made of, to know who goes on with it.
    last: Transcript,
}

impl<B> State<B> {
    fn new(backend: B, cache: &KvCache) -> Self
    where
        B: Backend,
    {
        Self { session: Session::new(backend).keeping(cache.clone()), last: Transcript::new() }
    }

    /// How many messages this conversation has of a transcript.
    pub(crate) fn fit(&self, transcript: &Transcript) -> usize {
        common_len(self.last.messages(), transcript.messages())
    }
}

/// What turns learn from each other.
#[derive(Default)]
pub(crate) struct Learned {
    pub(crate) automata: Cache,
    pub(crate) biases: Mutex<Biases>,
    pub(crate) beginnings: Mutex<Beginnings>,
    /// What was told of lists of requests.
    pub(crate) lists: Mutex<ToldLists>,
    /// How likely tools are called where nothing was said.
    pub(crate) free_calls: Mutex<FreeCalls>,
}

impl LocalEngine<Scripted> {
    /// An engine over a scripted model, with a template that knows of no tools: for examples, and for tests of what is
    /// built on engines. It needs no file.
    ///
    /// # Errors
    /// None that is known: the template is always the same.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_chat::{Message, Transcript};
    /// use toolgate_engine::{Cancel, Engine, LocalEngine, Options, Sampling, TurnRequest};
    /// use toolgate_infer::{Vocabulary, scripted::Scripted};
    ///
    /// let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).on("capital of Norway", "Oslo.");
    /// let engine = LocalEngine::scripted(model, Options::default())?;
    /// let asked = Message::User("What is the capital of Norway?".to_owned());
    /// let transcript = Transcript::new().with(asked);
    /// let sampling = Sampling::default();
    /// let request = TurnRequest::new(&transcript, &[], &sampling);
    /// let turn = engine.turn(&request, &Cancel::default(), &mut |_| {})?;
    /// assert_eq!(turn.parsed.content.as_deref(), Some("Oslo."));
    /// # Ok::<(), toolgate_engine::Error>(())
    /// ```
    pub fn scripted(model: Scripted, options: Options) -> Result<Self, Error> {
        const TEMPLATE: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>";
        let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default())?);
        Ok(Self::new("scripted", model, dialogue, options))
    }
}

impl<B: Backend + Send> LocalEngine<B> {
    /// An engine over any backend.
    pub fn new(name: impl Into<String>, backend: B, dialogue: Dialogue, options: Options) -> Self {
        Self::with_conversations(name, backend, [], dialogue, options)
    }

    /// An engine that makes as many turns at the same time as there are backends, all of the same model, such as those of
    /// `toolgate_llama::Model::backends`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use toolgate_engine::{LocalEngine, Options};
    /// # use toolgate_chat::{Dialogue, Template, TemplateTokens};
    /// # use toolgate_infer::{Vocabulary, scripted::Scripted};
    /// let template = Template::new("{% for m in messages %}{{ m.content }}{% endfor %}", TemplateTokens::default())?;
    /// let backend = Scripted::new(Arc::new(Vocabulary::bytes_only()));
    /// let others = vec![backend.clone(), backend.clone()];
    /// // Three conversations; a fourth turn at the same time waits.
    /// LocalEngine::with_conversations("scripted", backend, others, Dialogue::derived(template), Options::default());
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn with_conversations(
        name: impl Into<String>,
        backend: B,
        others: impl IntoIterator<Item = B>,
        dialogue: Dialogue,
        options: Options,
    ) -> Self {
        let vocabulary = backend.vocabulary().clone();
        let openings = TurnOpenings::new(vocabulary.clone(), &dialogue);
        let cache = KvCache::new(options.prompt_memory);
        let others: Vec<_> = others.into_iter().map(|other| State::new(other, &cache)).collect();
        let room = Room::of(&backend, 1 + others.len());
        let conversations = Pool::new(State::new(backend, &cache), others);
        Self {
            name: name.into(),
            vocabulary,
            dialogue,
            options,
            openings,
            reference: None,
            conversations,
            room,
            learned: Learned::default(),
            underway: Underway::default(),
            packs: None,
            load_ms: 0,
            device: String::new(),
            sampling: Sampling::default(),
            begins_with: String::new(),
        }
    }

    /// Adds llama.cpp's grammar sampler, for [`Constraint::Llama`].
    #[cfg(feature = "llama")]
    pub(crate) fn with_reference(mut self, reference: Reference) -> Self {
        self.reference = Some(reference);
        self
    }

    /// Keeps the beginnings of prompts on disk, and takes them from there. What turns say is the same without.
    #[must_use]
    pub fn with_prompt_cache(mut self, packs: PromptCache) -> Self {
        self.packs = Some(packs);
        self
    }

    /// Notes the token that the model's texts begin with.
    #[cfg(feature = "llama")]
    pub(crate) fn beginning_with(mut self, bos: String) -> Self {
        self.begins_with = bos;
        self
    }

    /// Notes what its file advises on drawing tokens.
    #[cfg(feature = "llama")]
    pub(crate) fn advised(mut self, told: impl Fn(&str) -> Option<String>) -> Self {
        let (knowledge, asked) = (self.dialogue.knowledge(), self.options.reasoning.mode);
        let thinks = knowledge.opens_reasoning.is_some() || self.dialogue.thought_opening().is_some();
        self.sampling = Sampling::advised(told, thinks && asked != ReasoningMode::Off);
        self
    }

    /// Notes what evaluates the model.
    #[cfg(feature = "llama")]
    pub(crate) fn on_device(mut self, device: String) -> Self {
        self.device = device;
        self
    }

    /// Notes how long loading took, in milliseconds.
    #[cfg(feature = "llama")]
    pub(crate) fn loaded_in(mut self, ms: u64) -> Self {
        self.load_ms = ms;
        self
    }

    /// Milliseconds that loading the model took.
    pub fn load_ms(&self) -> u64 {
        self.load_ms
    }

    /// A side's constraint, where a turn begins; `None` is none.
    pub(crate) fn constraint(&self, side: Option<&Side>) -> Result<Box<dyn Limit>, Error> {
        Ok(match (side, self.options.constraint) {
            (None, _) | (_, Constraint::None) => Box::new(Free::new(self.vocabulary.clone())),
            (Some(side), Constraint::Grammar) => Box::new(Budgeted::new(side.automaton.matcher())),
            (Some(side), Constraint::Llama) => match &self.reference {
                Some(reference) => reference(&side.grammar)?,
                None => return Err(Error::input("this engine has no llama.cpp to run the grammar with")),
            },
        })
    }
}

impl<B: Backend + Send> Engine for LocalEngine<B> {
    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self) -> Facts {
        Facts {
            template: Sha256Digest::of(self.dialogue.template().source().as_bytes()).to_string(),
            options: format!("{:?}", self.options),
            device: self.device.clone(),
            quoted: self.options.answer_view == AnswerView::Quoted,
            profile: self.options.profile.clone(),
        }
    }

    fn room(&self) -> Option<Room> {
        Some(self.room)
    }

    fn default_sampling(&self) -> Sampling {
        self.sampling.clone()
    }

    fn text_of(&self, tokens: &[TokenId]) -> String {
        let vocabulary = &self.vocabulary;
        // A token that the vocabulary does not have can only come from a record of another model.
        let known = tokens.iter().filter(|&&token| (token as usize) < vocabulary.len());
        let bytes: Vec<u8> = known.flat_map(|&token| vocabulary.bytes(token)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn prompt_tokens(&self, request: &TurnRequest<'_>) -> Result<Option<usize>, Error> {
        let state = self.conversations.take(|state| state.fit(request.transcript));
        let tools = self.options.offered(request.tools);
        let request = &TurnRequest { tools: &tools, ..request.clone() };
        let (cancel, events) = (Cancel::default(), &mut |_| {});
        let mut making = Making::new(self, request, &cancel, events)?;
        if request.choice != ToolChoice::None && !request.tools.is_empty() {
            making.demonstrations = making.demonstrations_for(request.choice == ToolChoice::Auto);
        }
        let view = making.told_form(making.transcript());
        let opened = if making.plan.opened.is_some() { Opened::Keep } else { Opened::Close };
        let prompt = making.prompt(&state.session, &view, request.tools, opened)?;
        Ok(Some(prompt.len()))
    }

    fn turn(
        &self,
        request: &TurnRequest<'_>,
        cancel: &Cancel,
        events: &mut dyn FnMut(TurnEvent),
    ) -> Result<Turn, Error> {
        let mut state = self.conversations.take(|state| state.fit(request.transcript));
        state.last.clone_from(request.transcript);
        let tools = self.options.offered(request.tools);
        let request = &TurnRequest { tools: &tools, ..request.clone() };
        let mut making = Making::new(self, request, cancel, events)?;
        let turn = making.turn(&mut state);
        state.session.end_turn();
        turn.map_err(|error| self.room.explained(error))
    }
}
