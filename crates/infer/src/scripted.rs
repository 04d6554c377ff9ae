//! A model without weights that says the texts of its scripts. For tests, examples and demos.
//!
//! Invariant: the logits depend on the scripts and the evaluated tokens alone. So tests of constraint,
//! sampler and loop can be reproduced end to end.

use std::collections::VecDeque;
use std::sync::Arc;

use toolgate_grammar::{TokenId, TokenKind, Vocabulary};

use crate::{Backend, Error, Footprint, Kind, Rows, Specials};

/// Logit of the token of the script. With [`NOISE`] on all others, this token has nearly all the probability.
const WANTED: f32 = 24.0;
/// The difference in logits between a text of a turn and the next one.
const LESS: f32 = 2.0;
/// Added to the wanted logit for the token of a tokenizer that the model was given.
const SURE: f32 = 6.0;
/// Logits of unwanted tokens lie between 0 and this, by a hash of the position and the token.
const NOISE: f32 = 1.0;
/// Added to the wanted logit for a stray token.
const STRAY: f32 = 4.0;
/// Written bytes that are searched in the script, for the place to go on.
const MEMORY: usize = 48;

/// A [`Backend`] that follows scripts: each turn has a text that the model wants to write.
///
/// A turn begins with [`Session::set_prompt`](crate::Session::set_prompt). Its script is the first
/// [`on`](Self::on) whose text the prompt contains, else the next [`say`](Self::say). Without either, the
/// turn ends at once. A prompt may come again after another one, before any token was written. Then it keeps
/// its script.
///
/// Within a turn the model wants the text of the script, longest token first, and then the end. Its second
/// wish is the text of [`or_say`](Self::or_say). A constraint may have forced another text. Then the model
/// goes on after the place in the script that reads like the latest text.
///
/// ```
/// use std::{ops::ControlFlow, sync::Arc};
/// use toolgate_infer::{DecodeOptions, Free, Sampler, Session, Vocabulary, decode, scripted::Scripted};
///
/// let vocabulary = Arc::new(Vocabulary::bytes_only());
/// let mut session = Session::new(Scripted::new(vocabulary.clone()).on("weather", "Sunny.").say("Hello."));
/// let (mut free, mut greedy, options) = (Free::new(vocabulary), Sampler::greedy(), DecodeOptions::default());
/// for (prompt, wanted) in [("Greet me.", "Hello."), ("The weather?", "Sunny."), ("And now?", "")] {
///     session.set_prompt_text(prompt)?;
///     let turn = decode(&mut session, &mut free, &mut greedy, &options, &mut |_| ControlFlow::Continue(()))?;
///     assert_eq!(turn.text, wanted);
/// }
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Scripted {
    vocabulary: Arc<Vocabulary>,
    tokenizer: Option<Tokenizer>,
    rules: Vec<(String, String)>,
    queue: VecDeque<Vec<String>>,
    stray: Option<(usize, TokenId)>,
    context: usize,
    footprint: Footprint,
    batch: usize,
    held: Vec<TokenId>,
    /// The tokens of its other sequences. The place of the current one is empty.
    others: Vec<Vec<TokenId>>,
    current: usize,
    turn: Option<Script>,
    /// The script of a prompt that came without a written token. It waits for that prompt to come again.
    waiting: Option<Script>,
    logits: Vec<Vec<f32>>,
    batches: Vec<usize>,
}

/// Another tokenizer than the longest token first.
#[derive(Clone)]
struct Tokenizer(Arc<Tokenize>);

type Tokenize = dyn Fn(&str, Specials) -> Result<Vec<TokenId>, Error> + Send + Sync;

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokenizer")
    }
}

#[derive(Clone, Debug, Default)]
struct Script {
    start: usize,
    /// The prompt, if its script was the next one to say.
    prompt: Option<Vec<TokenId>>,
    /// Whether a token was written after the prompt.
    is_begun: bool,
    /// The wanted text, the second wish, and so on.
    texts: Vec<Vec<u8>>,
}

impl Scripted {
    /// A model with nothing to say, a context of 8,192 tokens and batches of 512.
    pub fn new(vocabulary: Arc<Vocabulary>) -> Self {
        Self {
            vocabulary,
            tokenizer: None,
            rules: Vec::new(),
            queue: VecDeque::new(),
            stray: None,
            context: 8_192,
            footprint: Footprint::default(),
            batch: 512,
            held: Vec::new(),
            others: vec![Vec::new()],
            current: 0,
            turn: None,
            waiting: None,
            logits: Vec::new(),
            batches: Vec::new(),
        }
    }

    /// Takes the tokens of texts from a tokenizer, such as that of the model whose vocabulary it has.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_infer::{Backend, Specials, Vocabulary, scripted::Scripted};
    /// let letters = |text: &str, _: Specials| Ok(text.bytes().map(u32::from).collect());
    /// let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).tokenized_by(letters);
    /// assert_eq!(model.tokenize("<end>", Specials::Parse)?.len(), 5, "it knows no control tokens");
    /// # Ok::<(), toolgate_infer::Error>(())
    /// ```
    #[must_use]
    pub fn tokenized_by(
        mut self,
        tokenize: impl Fn(&str, Specials) -> Result<Vec<TokenId>, Error> + Send + Sync + 'static,
    ) -> Self {
        self.tokenizer = Some(Tokenizer(Arc::new(tokenize)));
        self
    }

    /// Adds the text of the next turn without a script of its own. Each text is used once, in order.
    #[must_use]
    pub fn say(mut self, text: impl Into<String>) -> Self {
        self.queue.push_back(vec![text.into()]);
        self
    }

    /// Adds a second wish to the turn that was added last, for when its text is not allowed. Each further
    /// text is less likely by the same factor.
    #[must_use]
    pub fn or_say(mut self, text: impl Into<String>) -> Self {
        if let Some(texts) = self.queue.back_mut() {
            texts.push(text.into());
        }
        self
    }

    /// Adds the text of every turn whose prompt contains `when`. The first match counts.
    #[must_use]
    pub fn on(mut self, when: impl Into<String>, text: impl Into<String>) -> Self {
        self.rules.push((when.into(), text.into()));
        self
    }

    /// Prefers `token` at every `every`-th position, so constraints have something to refuse.
    ///
    /// ```
    /// use std::{ops::ControlFlow, sync::Arc};
    /// use toolgate_infer::{DecodeOptions, Free, Sampler, Session, Vocabulary, decode, scripted::Scripted};
    ///
    /// let vocabulary = Arc::new(Vocabulary::bytes_only());
    /// let model = Scripted::new(vocabulary.clone()).say("aaaa").stray(2, b'!'.into()).holding(2);
    /// let mut session = Session::new(model);
    /// session.set_prompt_text("Go.")?;
    /// let (mut free, options) = (Free::new(vocabulary), DecodeOptions { max_tokens: 4, ..DecodeOptions::default() });
    /// let turn = decode(&mut session, &mut free, &mut Sampler::greedy(), &options, &mut |_| ControlFlow::Continue(()))?;
    /// assert!(turn.text.contains('!'), "nothing refuses it");
    /// # Ok::<(), toolgate_infer::Error>(())
    /// ```
    #[must_use]
    pub fn stray(mut self, every: usize, token: TokenId) -> Self {
        self.stray = Some((every.max(1), token));
        self
    }

    /// Sets the length of its context.
    #[must_use]
    pub fn context(mut self, tokens: usize) -> Self {
        self.context = tokens;
        self
    }

    /// Sets the memory that the context claims to take.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_infer::{Backend, Footprint, Vocabulary, scripted::Scripted};
    ///
    /// let footprint = Footprint { token_bytes: Some(1_024), trained: None };
    /// let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).taking(footprint);
    /// assert_eq!(model.footprint(), footprint);
    /// ```
    #[must_use]
    pub fn taking(mut self, footprint: Footprint) -> Self {
        self.footprint = footprint;
        self
    }

    /// Sets the number of tokens in a batch at most.
    #[must_use]
    pub fn batch(mut self, tokens: usize) -> Self {
        self.batch = tokens.max(1);
        self
    }

    /// Sets the number of sequences; the default is one.
    #[must_use]
    pub fn holding(mut self, sequences: usize) -> Self {
        self.others.resize(sequences.max(1), Vec::new());
        self
    }

    /// Sizes of the evaluated batches, prompts included.
    pub fn batches(&self) -> &[usize] {
        &self.batches
    }

    fn bytes_of(&self, tokens: &[TokenId]) -> Vec<u8> {
        tokens.iter().flat_map(|&token| self.vocabulary.bytes(token)).copied().collect()
    }

    /// The rests of the texts that begin with the written one, each with the logit of its next token. If
    /// there is none, the text after the place in the first one that reads like the written one.
    fn rests<'s>(&self, script: &'s Script, held: &[TokenId]) -> Vec<(&'s [u8], f32)> {
        let written = self.bytes_of(held.get(script.start..).unwrap_or_default());
        let wanted = (0_u8..).map(|rank| WANTED - LESS * f32::from(rank));
        let texts = script.texts.iter().zip(wanted);
        let rests: Vec<_> = texts
            .filter_map(|(text, wanted)| Some((text.strip_prefix(written.as_slice())?, wanted)))
            .collect();
        if !rests.is_empty() {
            return rests;
        }
        let first = script.texts.first().map(Vec::as_slice).unwrap_or_default();
        vec![(first.get(resume(first, &written)..).unwrap_or_default(), WANTED)]
    }

    /// The token with which its tokenizer begins a text, where it was given one.
    fn first_of(&self, rest: &[u8]) -> Option<TokenId> {
        let Tokenizer(tokenize) = self.tokenizer.as_ref()?;
        let text = std::str::from_utf8(rest).ok()?;
        let token = tokenize(text, Specials::Parse).ok()?.first().copied()?;
        rest.starts_with(self.vocabulary.bytes(token)).then_some(token)
    }

    /// Logits after the first `len` tokens.
    fn row(&self, len: usize) -> Vec<f32> {
        let held = self.held.get(..len).unwrap_or_default();
        let mut logits: Vec<f32> = (0_u32..)
            .take(self.vocabulary.len())
            .map(|token| match self.vocabulary.kind(token) {
                TokenKind::Unused => f32::NEG_INFINITY,
                _ => NOISE * noise(len, token),
            })
            .collect();
        let mut want = |token: TokenId, logit: f32| {
            if let Some(slot) = logits.get_mut(token as usize) {
                *slot = slot.max(logit);
            }
        };
        let script = self.turn.as_ref().filter(|script| script.start <= len);
        for (rest, wanted) in script.map_or(vec![(&[][..], WANTED)], |script| self.rests(script, held)) {
            if rest.is_empty() {
                self.vocabulary.end_tokens().iter().for_each(|&token| want(token, wanted));
            }
            // With a tokenizer of its own, the token in which that begins the rest.
            if let Some(token) = self.first_of(rest) {
                want(token, wanted + SURE);
            }
            // A control token the script names by its text is wanted most, then text tokens, the longer the more.
            for token in (0_u32..).take(self.vocabulary.len()) {
                let bytes = self.vocabulary.bytes(token);
                if !bytes.is_empty() && rest.starts_with(bytes) {
                    match self.vocabulary.kind(token) {
                        TokenKind::Special => want(token, wanted + 2.0),
                        TokenKind::Text => want(token, wanted - 1.0 / bytes.len() as f32),
                        TokenKind::EndOfGeneration | TokenKind::Unused => {}
                    }
                }
            }
        }
        if let Some((every, token)) = self.stray
            && len.is_multiple_of(every)
        {
            want(token, WANTED + STRAY);
        }
        logits
    }
}

impl Backend for Scripted {
    fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// The tokens of a text: the longest token first, from left to right.
    fn tokenize(&self, text: &str, specials: Specials) -> Result<Vec<TokenId>, Error> {
        if let Some(Tokenizer(tokenize)) = &self.tokenizer {
            return tokenize(text, specials);
        }
        let mut rest = text.as_bytes();
        let mut tokens = Vec::new();
        while !rest.is_empty() {
            let fits = |&token: &TokenId| {
                let bytes = self.vocabulary.bytes(token);
                let named = match self.vocabulary.kind(token) {
                    TokenKind::Text => true,
                    TokenKind::Special | TokenKind::EndOfGeneration => specials == Specials::Parse,
                    TokenKind::Unused => false,
                };
                named && !bytes.is_empty() && rest.starts_with(bytes)
            };
            // The lowest number among tokens of the same bytes.
            let longest = (0_u32..)
                .take(self.vocabulary.len())
                .filter(fits)
                .min_by_key(|&token| std::cmp::Reverse(self.vocabulary.bytes(token).len()));
            let token = longest.ok_or_else(|| {
                let message =
                    format!("vocabulary has no token for the text at byte {}", text.len() - rest.len());
                Error::new(Kind::Backend, message)
            })?;
            tokens.push(token);
            rest = rest.get(self.vocabulary.bytes(token).len()..).unwrap_or_default();
        }
        Ok(tokens)
    }

    fn context_len(&self) -> usize {
        self.context
    }

    fn footprint(&self) -> Footprint {
        self.footprint
    }

    fn batch_len(&self) -> usize {
        self.batch
    }

    fn evaluated(&self) -> usize {
        self.held.len()
    }

    fn truncate(&mut self, len: usize) -> Result<usize, Error> {
        self.held.truncate(len);
        self.logits.clear();
        Ok(self.held.len())
    }

    fn eval(&mut self, tokens: &[TokenId], rows: Rows) -> Result<(), Error> {
        if self.held.len() + tokens.len() > self.context || tokens.len() > self.batch {
            return Err(Error::new(Kind::Backend, "batch exceeds the context or the batch length"));
        }
        self.batches.push(tokens.len());
        let before = self.held.len();
        self.held.extend_from_slice(tokens);
        if let Some(script) = &mut self.turn
            && script
                .prompt
                .as_ref()
                .is_some_and(|prompt| self.held.len() > prompt.len() && self.held.starts_with(prompt))
        {
            script.is_begun = true;
        }
        let wanted = (0..tokens.len()).filter(|&position| rows.wants(position, tokens.len()));
        self.logits = wanted.map(|position| self.row(before + position + 1)).collect();
        Ok(())
    }

    fn logits(&self, row: usize) -> Result<&[f32], Error> {
        let missing = || Error::new(Kind::Backend, format!("logits of row {row} were not asked for"));
        self.logits.get(row).map(Vec::as_slice).ok_or_else(missing)
    }

    fn sequences(&self) -> usize {
        self.others.len()
    }

    fn fork(&mut self, sequence: usize, len: usize) -> Result<usize, Error> {
        let copy = self.held.get(..len).unwrap_or(&self.held).to_vec();
        self.switch(sequence)?;
        self.held = copy;
        Ok(self.held.len())
    }

    fn switch(&mut self, sequence: usize) -> Result<(), Error> {
        let known = self.others.len();
        let missing =
            || Error::new(Kind::Backend, format!("there are {known} sequences, and none is {sequence}"));
        let held = std::mem::take(self.others.get_mut(sequence).ok_or_else(missing)?);
        let held = if sequence == self.current { std::mem::take(&mut self.held) } else { held };
        let before = std::mem::replace(&mut self.held, held);
        if sequence != self.current
            && let Some(slot) = self.others.get_mut(self.current)
        {
            *slot = before;
        }
        self.current = sequence;
        self.logits.clear();
        Ok(())
    }

    fn state_key(&self) -> Option<String> {
        Some(format!("scripted, {} tokens", self.vocabulary.len()))
    }

    /// Its tokens, four bytes each.
    fn save(&mut self) -> Result<Option<Vec<u8>>, Error> {
        Ok(Some(self.held.iter().flat_map(|token| token.to_le_bytes()).collect()))
    }

    fn restore(&mut self, state: &[u8], tokens: &[TokenId]) -> Result<bool, Error> {
        self.truncate(0)?;
        let (saved, rest) = state.as_chunks();
        let saved: Vec<TokenId> = saved.iter().map(|&bytes| TokenId::from_le_bytes(bytes)).collect();
        let known = saved.iter().all(|&token| (token as usize) < self.vocabulary.len());
        let fits = known && saved == tokens && rest.is_empty() && saved.len() <= self.context;
        if fits {
            self.held = saved;
        }
        Ok(fits)
    }

    fn begin_turn(&mut self, at: usize) {
        let prompt = self.bytes_of(self.held.get(..at).unwrap_or(&self.held));
        let prompt = String::from_utf8_lossy(&prompt).into_owned();
        let rule = self.rules.iter().find(|(when, _)| prompt.contains(when));
        let bytes = |texts: Vec<String>| texts.into_iter().map(String::into_bytes).collect();
        let (start, held) = (at.min(self.held.len()), self.held.get(..at).unwrap_or(&self.held).to_vec());
        let before = self.turn.take().filter(|script| script.prompt.is_some() && !script.is_begun);
        let is_again = |script: &Script| script.prompt.as_ref() == Some(&held);
        self.turn = Some(match rule {
            Some((_, text)) => {
                self.waiting = before.or(self.waiting.take());
                Script { start, prompt: None, is_begun: false, texts: bytes(vec![text.clone()]) }
            }
            None if before.as_ref().is_some_and(is_again) => before.unwrap_or_default(),
            None if self.waiting.as_ref().is_some_and(is_again) => self.waiting.take().unwrap_or_default(),
            None => {
                let texts = bytes(self.queue.pop_front().unwrap_or_default());
                self.waiting = None;
                Script { start, prompt: Some(held), is_begun: false, texts }
            }
        });
        // The prompt's logits were made before its script was known.
        if let Some(last) = self.logits.len().checked_sub(1) {
            let row = self.row(self.held.len());
            if let Some(slot) = self.logits.get_mut(last) {
                *slot = row;
            }
        }
    }
}

/// The place in the script after `written`, which is no beginning of it: behind the longest text that equals
/// its end, else the present place.
fn resume(script: &[u8], written: &[u8]) -> usize {
    let longest = MEMORY.min(written.len()).min(script.len());
    for len in (1..=longest).rev() {
        let tail = written.get(written.len() - len..).unwrap_or_default();
        if let Some(at) = script.windows(len).position(|window| window == tail) {
            return at + len;
        }
    }
    0
}

/// A number in 0 to 1 that depends only on the arguments (the finalizer of SplitMix64).
fn noise(position: usize, token: TokenId) -> f32 {
    let mut x = (position as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (u64::from(token) << 32);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x ^ (x >> 31)) >> 40) as f32 / (1_u64 << 24) as f32
}
