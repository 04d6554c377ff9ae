//! A loaded model: weights, vocabulary, metadata. It is shared and immutable, and makes contexts.
//!
//! Invariant: the vocabulary has the text of each token; control tokens have none.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use llama_cpp_2::llama_backend::LlamaBackend as LlamaCpp;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token_type::LlamaTokenAttr;
use llama_cpp_2::{LogOptions, send_logs_to_tracing};
use toolgate_grammar::{TokenId, TokenKind, Vocabulary};
use toolgate_infer::{Attention, CacheType, Placement, RopeScaling, Specials, Untrained};

use crate::ContextOptions;
use crate::adapter::LoadedAdapter;
use crate::backend::LlamaBackend;
use crate::devices::Place;
use crate::load::{Layout, Memory, load_file};
use crate::marks::Marks;
use crate::{Error, Kind, gguf, memory, processor};

/// The part of a file that is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Load {
    /// Everything. Weights are mapped into memory. Where most of them are of type Q4_K, and this processor is faster with
    /// those in another order, all weights are read into memory of this process instead.
    #[default]
    All,
    /// Vocabulary and metadata. Such a model makes no context.
    Vocabulary,
}

/// Options of a load.
///
/// ```no_run
/// use std::ops::ControlFlow;
/// use toolgate_llama::{Model, ModelOptions};
///
/// let progress = |part: f32| {
///     eprintln!("{:.0} %", part * 100.0);
///     ControlFlow::Continue(())
/// };
/// let options = ModelOptions { progress: Some(Box::new(progress)), ..ModelOptions::default() };
/// let model = Model::load("qwen2.5-coder-0.5b.gguf", options)?;
/// assert!(model.size() > 0);
/// # Ok::<(), toolgate_llama::Error>(())
/// ```
#[derive(Default)]
pub struct ModelOptions {
    /// The part of the file that is loaded.
    pub load: Load,
    /// Added tokens that the model was not trained with. They never appear; their names become tokens of ordinary text. This
    /// is not for tokenizers that put a space in front of a text. Default none.
    pub untrained: Untrained,
    /// Where the weights lie. Default: a graphics processor where this build finds one, else the processor.
    pub placement: Placement,
    /// Gets the part loaded so far, 0 to 1. A break cancels.
    pub progress: Option<Box<dyn FnMut(f32) -> ControlFlow<()>>>,
}

impl fmt::Debug for ModelOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ModelOptions");
        shown.field("load", &self.load).field("untrained", &self.untrained);
        shown.field("placement", &self.placement).finish_non_exhaustive()
    }
}

/// A loaded model. A clone is the same model.
///
/// ```no_run
/// use toolgate_infer::Specials;
/// use toolgate_llama::{Kind, Load, Model, ModelOptions};
///
/// let vocabulary_only = ModelOptions { load: Load::Vocabulary, ..ModelOptions::default() };
/// let model = Model::load("qwen2.5-coder-0.5b.gguf", vocabulary_only)?;
/// let tokens = model.tokenize("fn main() {", Specials::Plain)?;
/// let bytes: Vec<u8> = tokens.iter().flat_map(|&token| model.vocabulary().bytes(token)).copied().collect();
/// assert_eq!(bytes, b"fn main() {");
/// assert_eq!(model.backend(&Default::default()).unwrap_err().kind(), Kind::Context, "it has no weights");
/// assert!(model.chat_template(None).is_some_and(|template| template.contains("messages")));
/// assert_eq!((model.adds_bos(), model.trained_context()), (false, 32_768));
/// assert!(model.metadata("general.architecture").is_some_and(|name| name == "qwen2") && model.parameters() > 0);
/// println!("a sequence begins with {:?} and ends with {:?}", model.bos(), model.eos());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Model {
    pub(crate) inner: Arc<Inner>,
    pub(crate) vocabulary: Arc<Vocabulary>,
    pub(crate) marks: Arc<Marks>,
}

pub(crate) struct Inner {
    pub(crate) model: LlamaModel,
    load: Load,
    memory: Memory,
    pub(crate) layout: Layout,
    pub(crate) place: Place,
    pub(crate) adapter: Option<LoadedAdapter>,
    /// The bytes that the tokenizer puts in front of a text that begins a sequence; empty for most.
    pub(crate) prefix: Vec<u8>,
    untrained: Untrained,
    /// Held while a context is made: llama.cpp may write to the model then.
    pub(crate) making_context: Mutex<()>,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("load", &self.inner.load)
            .field("tokens", &self.vocabulary().len())
            .finish()
    }
}

impl Model {
    /// Loads a GGUF file, after a check that all of it is there.
    ///
    /// # Errors
    /// [`Kind::Processor`], [`Kind::NotFound`], [`Kind::NotGguf`], [`Kind::Truncated`], [`Kind::Invalid`];
    /// [`Kind::Device`] for a device that is not there; [`Kind::Cancelled`] where `progress` broke off.
    ///
    /// ```
    /// use toolgate_llama::{Kind, Model, ModelOptions};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let path = dir.path().join("model.gguf");
    /// std::fs::write(&path, "<html>not found</html>")?;
    /// let error = Model::load(&path, ModelOptions::default()).unwrap_err();
    /// assert_eq!(error.kind(), Kind::NotGguf);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn load(path: impl AsRef<Path>, options: ModelOptions) -> Result<Self, Error> {
        let path = path.as_ref();
        processor::check()?;
        let weights = gguf::check(path)?;
        let place = match options.load {
            Load::All => Place::of(&options.placement, weights)?,
            Load::Vocabulary => Place::default(),
        };
        let layout = Layout::of(weights, &place);
        // A mapped file takes no memory that the system cannot take back.
        let Placement { no_mmap, mlock, .. } = options.placement;
        let is_taken = layout == Layout::Repacked || no_mmap || mlock;
        if options.load == Load::All && place.is_processor() && is_taken {
            let advice = |_| "end other programs, or take a smaller model".to_owned();
            memory::require(weights.bytes, "the weights take", advice).map_err(|error| error.at(path))?;
        }
        gguf::check_path(path)?;
        let (mut progress, mut cancelled) = (options.progress, false);
        let model =
            load_file(llama_cpp(), path, options.load, layout, &place, &options.placement, &mut |part| {
                let stop = progress.as_mut().is_some_and(|progress| progress(part).is_break());
                cancelled |= stop;
                !stop
            });
        let (mut model, memory) = model.ok_or_else(|| {
            if cancelled {
                Error::new(Kind::Cancelled, "loading was cancelled").at(path)
            } else {
                let message = "llama.cpp cannot load it: a model of an unknown kind, or out of memory \
                               (its log goes to tracing, target llama-cpp-2)";
                Error::new(Kind::Invalid, message).at(path)
            }
        })?;
        let wanted = options.placement.adapter.as_ref().filter(|_| options.load == Load::All);
        let adapter = wanted.map(|wanted| LoadedAdapter::load(&mut model, weights, wanted)).transpose()?;
        let prefix = prefix_of(&model);
        let untrained = options.untrained;
        if !prefix.is_empty() && !untrained.is_empty() {
            let message =
                "its tokenizer puts a space in front of each text, so that no token can be written in others";
            return Err(Error::new(Kind::Invalid, message).at(path));
        }
        let vocabulary = vocabulary_of(&model, &untrained).map_err(|error| {
            Error::new(Kind::Invalid, format!("vocabulary cannot be used: {error}")).at(path).because(error)
        })?;
        let marks = Arc::new(Marks::of(&vocabulary));
        let vocabulary = Arc::new(vocabulary);
        let making_context = Mutex::new(());
        let inner = Inner {
            model,
            load: options.load,
            memory,
            layout,
            place,
            adapter,
            prefix,
            untrained,
            making_context,
        };
        Ok(Self { inner: Arc::new(inner), vocabulary, marks })
    }

    /// A slot with a context of its own, and so a KV cache of its own.
    ///
    /// # Errors
    /// [`Kind::Context`] for a model without weights, or where memory does not suffice.
    pub fn backend(&self, options: &ContextOptions) -> Result<LlamaBackend, Error> {
        self.has_weights()?;
        LlamaBackend::alone(self, options)
    }

    /// Slots that share one context. A thread evaluates in one batch what they evaluate at the same time. A slot copies the
    /// beginning of its prompt from another slot that holds it. Each slot is driven from its own thread. A single slot
    /// has a context to itself.
    ///
    /// # Errors
    /// [`Kind::Context`] as with [`backend`](Self::backend).
    ///
    /// ```no_run
    /// use std::num::NonZeroUsize;
    /// use toolgate_infer::Session;
    /// use toolgate_llama::{ContextOptions, Model, ModelOptions};
    ///
    /// let model = Model::load("qwen2.5-coder-0.5b.gguf", ModelOptions::default())?;
    /// let conversations = NonZeroUsize::new(4).ok_or("at least one")?;
    /// let backends = model.backends(&ContextOptions::default(), conversations)?;
    /// std::thread::scope(|scope| {
    ///     for backend in backends {
    ///         scope.spawn(move || Session::new(backend).set_prompt_text("Hello!"));
    ///     }
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn backends(
        &self,
        options: &ContextOptions,
        conversations: NonZeroUsize,
    ) -> Result<Vec<LlamaBackend>, Error> {
        self.has_weights()?;
        match conversations.get() {
            1 => Ok(vec![LlamaBackend::alone(self, options)?]),
            several => LlamaBackend::beside_each_other(self, options, several),
        }
    }

    /// What evaluates it, in words: `cpu`, or a graphics processor and the part of the layers it has. What depends on the device
    /// is kept under it.
    ///
    /// ```no_run
    /// use toolgate_llama::{Device, Model, ModelOptions, Placement};
    /// let placement = Placement { device: Device::Cpu, ..Placement::default() };
    /// let model = Model::load("qwen2.5-coder-0.5b.gguf", ModelOptions { placement, ..ModelOptions::default() })?;
    /// assert_eq!(model.device(), "cpu");
    /// # Ok::<(), toolgate_llama::Error>(())
    /// ```
    pub fn device(&self) -> String {
        self.inner.place.label()
    }

    fn has_weights(&self) -> Result<(), Error> {
        match self.inner.load {
            Load::Vocabulary => {
                Err(Error::new(Kind::Context, "the model was loaded without its weights: load all of it"))
            }
            _ => Ok(()),
        }
    }

    /// Its tokens.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// The tokens of a text. This needs no weights. With [`Specials::Parse`], names of control tokens become these tokens.
    ///
    /// # Errors
    /// A text of more than 2 GiB.
    pub fn tokenize(&self, text: &str, specials: Specials) -> Result<Vec<TokenId>, toolgate_infer::Error> {
        if i32::try_from(text.len()).is_err() {
            let message = format!("text of {} bytes is too long for the tokenizer", text.len());
            return Err(toolgate_infer::Error::new(toolgate_infer::Kind::Backend, message));
        }
        let inner = self.inner();
        let parse = specials == Specials::Parse;
        let tokens = |text: &str| -> Vec<TokenId> {
            let vocab = inner.model.vocab();
            let parts = inner.untrained.parts(text).into_iter();
            let tokens = parts.flat_map(|part| vocab.tokenize(part.as_bytes(), false, parse));
            tokens.filter_map(|token| TokenId::try_from(token.0).ok()).collect()
        };
        if parse || inner.prefix.is_empty() || text.is_empty() {
            return Ok(self.cut_at_marks(text, specials, tokens));
        }
        // Plain text stands inside a sequence, where the tokenizer adds nothing. So it is tokenized behind a line break,
        // unless the break merges with it.
        let after_break = tokens(&format!("\n{text}"));
        let mut bytes = 0;
        let break_end = inner.prefix.len() + 1;
        for (index, &token) in after_break.iter().enumerate() {
            if bytes == break_end {
                return Ok(after_break.get(index..).unwrap_or_default().to_vec());
            }
            bytes += self.vocabulary().bytes(token).len();
        }
        Ok(tokens(text))
    }

    /// The chat template of the file. `name` is the name of an alternative, such as `tool_use`.
    pub fn chat_template(&self, name: Option<&str>) -> Option<String> {
        match name {
            None => self.metadata("tokenizer.chat_template"),
            Some(name) => self.metadata(&format!("tokenizer.chat_template.{name}")),
        }
    }

    /// A metadata value as text, by its key; none for arrays.
    pub fn metadata(&self, key: &str) -> Option<String> {
        self.inner.model.meta_val_str(key).ok()
    }

    /// The text of the token that begins a sequence; empty where there is none.
    pub fn bos(&self) -> &str {
        self.text(self.inner.model.vocab().bos())
    }

    /// The text of the token that ends a sequence; empty where there is none.
    pub fn eos(&self) -> &str {
        self.text(self.inner.model.vocab().eos())
    }

    /// Whether prompts are to begin with [`bos`](Self::bos) even where the template does not write it.
    pub fn adds_bos(&self) -> bool {
        self.inner.model.vocab().should_add_bos()
    }

    /// The trained context, in tokens; 0 where the file does not name it.
    pub fn trained_context(&self) -> usize {
        self.number("context_length").and_then(|length| usize::try_from(length).ok()).unwrap_or(0)
    }

    /// Bytes of a token's keys and values in a sequence; none where the model's memory is of another kind.
    pub(crate) fn token_bytes(&self, attention: &Attention) -> Option<u64> {
        // With latent attention the cache holds other values, and some layers may have none of their own.
        let others = ["attention.kv_lora_rank", "attention.shared_kv_layers"];
        if self.memory().has_summary || others.iter().any(|key| self.number(key).is_some()) {
            return None;
        }
        let heads = self.number("attention.head_count")?;
        let usual = self.number("embedding_length")?.checked_div(heads)?;
        let length = |name: &str| self.number(name).unwrap_or(usual);
        let keys = length("attention.key_length").checked_mul(bytes_of_32(attention.keys))?;
        let head =
            keys.checked_add(length("attention.value_length").checked_mul(bytes_of_32(attention.values))?)?;
        let shared = self.number("attention.head_count_kv").unwrap_or(heads);
        if shared != u64::from(self.inner.model.n_head_kv()) {
            // Layers differ.
            return None;
        }
        Some([self.number("block_count")?, shared, head].into_iter().try_fold(1, u64::checked_mul)? / 32)
    }

    /// A number of the metadata that belongs to the model's architecture.
    fn number(&self, key: &str) -> Option<u64> {
        self.told(key)?.parse().ok()
    }

    /// A value of the metadata that belongs to the model's architecture, as text.
    fn told(&self, key: &str) -> Option<String> {
        let architecture = self.metadata("general.architecture")?;
        self.metadata(&format!("{architecture}.{key}"))
    }

    /// What its memory has of the tokens of a sequence.
    pub(crate) fn memory(&self) -> Memory {
        self.inner.memory
    }

    /// Whether it computes the same in contexts of any length. A model with a scaled context takes other factors for positions in a longer
    /// one. One that does not remember all cannot move from one context to another.
    pub(crate) fn computes_alike_in_any_context(&self) -> bool {
        self.memory().has_all() && self.unscaled_context().is_none()
    }

    /// The context before the file's own scaling, in tokens; none where it has none.
    fn unscaled_context(&self) -> Option<u64> {
        self.number("rope.scaling.original_context_length")
    }

    /// The tokens that positions reach to where they are told so; 0 where the file does not name its trained context.
    pub(crate) fn reach(&self, rope: Option<RopeScaling>) -> usize {
        let trained = self.trained_context();
        let Some(rope) = rope else { return trained };
        // What is asked for takes the place of the file's own scaling.
        let unscaled = match (self.unscaled_context(), self.told("rope.scaling.factor")) {
            (Some(tokens), _) => tokens as f64,
            (None, factor) => {
                let factor =
                    factor.and_then(|factor| factor.parse::<f64>().ok()).filter(|factor| *factor > 1.0);
                trained as f64 / factor.unwrap_or(1.0)
            }
        };
        (unscaled * f64::from(rope.factor())) as usize
    }

    /// Number of weights.
    pub fn parameters(&self) -> u64 {
        self.inner.model.n_params()
    }

    /// Bytes of all weights.
    pub fn size(&self) -> u64 {
        self.inner.model.size()
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    fn text(&self, token: LlamaToken) -> &str {
        let bytes = TokenId::try_from(token.0).map(|token| self.vocabulary.bytes(token));
        bytes.ok().and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

/// Bytes of 32 numbers in a cache; by default each has two.
fn bytes_of_32(cached: Option<CacheType>) -> u64 {
    match cached {
        Some(CacheType::F32) => 128,
        None | Some(CacheType::F16 | CacheType::Bf16) => 64,
        Some(CacheType::Q8_0) => 34,
        Some(CacheType::Q4_0) => 18,
    }
}

/// llama.cpp, started once a process and never stopped, its log sent to `tracing`.
pub(crate) fn llama_cpp() -> &'static LlamaCpp {
    static STARTED: OnceLock<LlamaCpp> = OnceLock::new();
    STARTED.get_or_init(|| {
        send_logs_to_tracing(LogOptions::default());
        // An embedder may have started it already; it is running either way, and this value is never dropped.
        LlamaCpp::init().unwrap_or(LlamaCpp {})
    })
}

/// What each token stands for. Byte tokens stand for their byte; control and unknown tokens have but a name.
fn vocabulary_of(model: &LlamaModel, untrained: &Untrained) -> Result<Vocabulary, toolgate_grammar::Error> {
    let vocab = model.vocab();
    Vocabulary::new(vocab.tokens().map(|token| {
        let attributes = vocab.attr(token);
        let text = vocab.token_to_piece(token, true, None);
        let kind = if vocab.is_eog(token) {
            TokenKind::EndOfGeneration
        } else if attributes.intersects(LlamaTokenAttr::Control | LlamaTokenAttr::Unknown) {
            TokenKind::Special
        } else if attributes.contains(LlamaTokenAttr::Unused)
            || untrained.names().any(|name| name.as_bytes() == text)
        {
            TokenKind::Unused
        } else {
            TokenKind::Text
        };
        (text, kind)
    }))
}

/// Finds out what the tokenizer adds in front: SentencePiece vocabularies add a space.
fn prefix_of(model: &LlamaModel) -> Vec<u8> {
    let vocab = model.vocab();
    let bytes: Vec<u8> = vocab
        .tokenize(b"a", false, false)
        .into_iter()
        .flat_map(|token| vocab.token_to_piece(token, true, None))
        .collect();
    bytes.strip_suffix(b"a").map(<[u8]>::to_vec).unwrap_or_default()
}
