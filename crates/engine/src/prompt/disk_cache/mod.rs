//! PromptCache: what a model has evaluated of prompts that come again, kept on disk from one process to the next.
//!
//! A prompt begins with what any task has in common: system prompt, tools, demonstrations. The state of that beginning is saved
//! after its first evaluation and put back in front of the next one, in this process or another. What differs between two
//! prompts costs its own evaluation: a new set of tools takes what it shares with a known one. A long beginning takes minutes:
//! its first part is saved every now and then, and when its turn is given up, so that the next one goes on from there. The whole
//! takes the place of its parts.
//!
//! Invariants: a state is put back only behind the very tokens it was saved for, of the same model file, on a backend
//! of the same key; a file that is not what was written is removed, told and ignored. A pack stands under its name only
//! whole; processes that share a directory may read, write and remove at any time.

mod file;

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use toolgate_infer::{TokenId, common_len};

use crate::model::pool::lock;
use crate::models::{Sha256Digest, fingerprint};
use crate::{Error, Kind};
use file::{Front, Header, Pack};

/// Bytes of all packs in a directory, where nothing else is said: those of four agents with a model of 0.5 B weights.
pub const DEFAULT_LIMIT: u64 = 2 << 30;
/// PromptCache in a directory at most: each costs a look at its tokens when a prompt is new.
const MOST_PACKS: usize = 64;
/// Tokens that are worth a pack: a second of evaluation, and some milliseconds to read back.
const WORTH_SAVING: usize = 64;
/// Further tokens that are worth reading a pack.
const WORTH_READING: usize = 32;
const ENDING: &str = "pack";
/// How the key of a pack begins that holds no state, but what was learned about a model.
const LEARNED: &str = "learned";
/// How often the first part of a beginning is saved that is still being evaluated: what a crash costs at most, unless a quarter of
/// what is there takes longer.
const SAVED_EVERY: Duration = Duration::from_secs(30);
/// After this time a temporary file is one that a process left behind when it was killed.
const ABANDONED: Duration = Duration::from_secs(3_600);

/// The packs of one model in a directory.
///
/// ```
/// use toolgate_engine::{DEFAULT_LIMIT, PromptCache};
/// # use std::sync::Arc;
/// # use toolgate_engine::{Cancel, Engine, LocalEngine, Options, Sampling, Turn, TurnRequest};
/// # use toolgate_chat::{Message, Transcript};
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # fn process() -> Result<LocalEngine<Scripted>, toolgate_engine::Error> {
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).on("", "Fine.");
/// # LocalEngine::scripted(model, Options::default())
/// # }
/// # fn ask(engine: LocalEngine<Scripted>) -> Result<Turn, toolgate_engine::Error> {
/// # let system = Message::System("Answer in one word. ".repeat(10));
/// # let transcript = Transcript::new().with(system).with(Message::User("How are you?".into()));
/// # let sampling = Sampling::default();
/// # engine.turn(&TurnRequest::new(&transcript, &[], &sampling), &Cancel::default(), &mut |_| {})
/// # }
/// # let directory = tempfile::tempdir()?;
/// # let model = directory.path().join("model.gguf");
/// # std::fs::write(&model, "weights")?;
///
/// let packs = PromptCache::of(&model, directory.path().join("packs"), DEFAULT_LIMIT)?;
/// // Two processes with the same system prompt, one after the other.
/// let first = ask(process()?.with_prompt_cache(packs.clone()))?;
/// packs.read_ahead(); // while the model loads
/// let second = ask(process()?.with_prompt_cache(packs.clone()))?;
/// assert_eq!((first.stats.cached_tokens, packs.list().len()), (0, 1));
/// assert!(second.stats.cached_tokens > 200);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PromptCache {
    directory: PathBuf,
    /// The model's file, by [`fingerprint`](crate::models::fingerprint).
    model: String,
    limit: u64,
    /// How often parts are saved.
    every: Duration,
    /// The pack that is read before anything asks for one.
    ahead: Arc<Mutex<Option<Ahead>>>,
}

/// How much of a beginning a state is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    Whole,
    /// The tokens that were evaluated by then.
    Part,
}

/// A pack's file and who reads it.
#[derive(Debug)]
struct Ahead {
    path: PathBuf,
    reading: JoinHandle<io::Result<Pack>>,
}

/// A pack in a directory, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedPrompt {
    /// Its file.
    pub path: PathBuf,
    /// Tokens in it.
    pub tokens: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// When it was used last.
    pub used: SystemTime,
}

impl PromptCache {
    /// The packs of the model in the file `model`, kept in `directory`, which is made when the first is saved; at
    /// most `limit` bytes of packs of all models together.
    ///
    /// # Errors
    /// [`Kind::Engine`] for a model that cannot be read.
    pub fn of(model: &Path, directory: impl Into<PathBuf>, limit: u64) -> Result<Self, Error> {
        let fingerprint = fingerprint(model).map_err(|error| {
            Error::new(Kind::Engine, format!("cannot read the model {}: {error}", model.display()))
        })?;
        let (directory, model) = (directory.into(), fingerprint.to_string());
        Ok(Self { directory, model, limit, every: SAVED_EVERY, ahead: Arc::default() })
    }

    /// Saves the first part of a long beginning so often while it is evaluated. Default: every 30 seconds, and not before there
    /// is a quarter more than was saved last.
    ///
    /// ```
    /// use std::time::Duration;
    /// use toolgate_engine::{DEFAULT_LIMIT, PromptCache};
    /// # let directory = tempfile::tempdir()?;
    /// # let model = directory.path().join("model.gguf");
    /// # std::fs::write(&model, "weights")?;
    /// let packs = PromptCache::of(&model, directory.path().join("packs"), DEFAULT_LIMIT)?;
    /// // For a model that needs minutes for a second's work of others.
    /// let packs = packs.saving_every(Duration::from_secs(300));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn saving_every(self, every: Duration) -> Self {
        Self { every, ..self }
    }

    /// How often parts are saved.
    pub(crate) fn every(&self) -> Duration {
        self.every
    }

    /// Begins to read the pack of this model that was used last, for the first prompt that wants it: to be called before
    /// the model is loaded, which takes longer. What goes wrong here goes wrong there again, and is told then.
    pub fn read_ahead(&self) {
        let Some(CachedPrompt { path, .. }) = self.states().next() else { return };
        let file = path.clone();
        let reading =
            thread::Builder::new().name("toolgate-pack".to_owned()).spawn(move || file::read(&file));
        // Without a thread for it, the pack is read when it is wanted.
        *lock(&self.ahead) = reading.ok().map(|reading| Ahead { path, reading });
    }

    /// A pack that was read ahead, once.
    fn ahead(&self, path: &Path) -> Option<Pack> {
        let ahead = lock(&self.ahead).take_if(|ahead| ahead.path == path)?;
        ahead.reading.join().ok()?.ok()
    }

    /// The packs there are of this model, the one used last first.
    pub fn list(&self) -> Vec<CachedPrompt> {
        self.states().collect()
    }

    /// The same, each looked into as it comes.
    fn states(&self) -> impl Iterator<Item = CachedPrompt> {
        let mut packs = listed(&self.directory);
        packs.sort_by_key(|pack| Reverse(pack.used));
        packs.into_iter().filter_map(|pack| {
            let header = file::front(&pack.path).ok()?.header;
            let is_state = header.model == self.model && !header.key.starts_with(LEARNED);
            is_state.then_some(CachedPrompt { tokens: header.tokens, ..pack })
        })
    }

    /// The state of the pack that begins like `prompt` for longest, and all tokens of that pack, where they are
    /// worth reading beside the `held` ones that are there already, and no more than a sequence has `room` for. Of several,
    /// the shortest.
    pub(crate) fn find(
        &self,
        key: &str,
        prompt: &[TokenId],
        held: usize,
        room: usize,
    ) -> Option<(Vec<TokenId>, Vec<u8>)> {
        let worth = held.saturating_add(WORTH_READING);
        let candidates = listed(&self.directory).into_iter().filter_map(|pack| {
            let Front { header, tokens } =
                file::front(&pack.path).map_err(|error| ignore(&pack.path, &error)).ok()?;
            let shared = common_len(&tokens, prompt);
            let fits = shared >= worth && tokens.len() <= room;
            (header.model == self.model && header.key == key && fits)
                .then_some(((shared, Reverse(tokens.len())), pack.path))
        });
        let found = candidates.max_by_key(|(worth, _)| *worth).and_then(|(_, path)| self.read(&path, key));
        // What was read ahead was for the first prompt alone.
        drop(lock(&self.ahead).take());
        found
    }

    /// A pack's tokens and state; none where it is not whole, or by now another one.
    fn read(&self, path: &Path, key: &str) -> Option<(Vec<TokenId>, Vec<u8>)> {
        match self.ahead(path).map_or_else(|| file::read(path), Ok) {
            Ok(pack) if pack.header.model == self.model && pack.header.key == key => {
                touch(path);
                Some((pack.tokens, pack.state))
            }
            Ok(_) => None,
            Err(error) => {
                ignore(path, &error);
                None
            }
        }
    }

    /// The pack of exactly these tokens.
    pub(crate) fn find_exactly(&self, key: &str, tokens: &[TokenId]) -> Option<(Vec<TokenId>, Vec<u8>)> {
        let path = self.path(key, tokens);
        if !path.exists() {
            return None;
        }
        self.read(&path, key).filter(|(found, _)| found == tokens)
    }

    /// Removes what could not be put back, so that it is not tried again.
    pub(crate) fn forget(&self, key: &str, tokens: &[TokenId]) {
        discard(&self.path(key, tokens), &"the model's backend refused its state");
    }

    /// Whether a beginning of so many tokens is worth a pack.
    pub(crate) fn is_worth(tokens: usize) -> bool {
        tokens >= WORTH_SAVING
    }

    /// Saves the state of `tokens` in place of those of their parts; a failure is told and costs nothing but the time saved later.
    pub(crate) fn save(&self, key: &str, tokens: &[TokenId], state: &[u8], extent: Extent) {
        if state.len() as u64 > self.limit / 2 {
            tracing::info!(bytes = state.len(), "a state is too large to be kept as a pack");
            return;
        }
        match self.write(key, tokens, state, extent) {
            Ok(path) => self.replace_parts(key, tokens, &path),
            Err(error) => {
                tracing::warn!(directory = %self.directory.display(), %error, "a pack could not be saved");
            }
        }
        self.evict();
    }

    /// Removes the parts that `tokens` go on from, which are in the file at `path` by now.
    fn replace_parts(&self, key: &str, tokens: &[TokenId], path: &Path) {
        for pack in listed(&self.directory).into_iter().filter(|pack| pack.path != path) {
            let Ok(Front { header, tokens: part }) = file::front(&pack.path) else { continue };
            if header.part && header.model == self.model && header.key == key && tokens.starts_with(&part) {
                remove(&pack.path);
            }
        }
    }

    fn write(&self, key: &str, tokens: &[TokenId], state: &[u8], extent: Extent) -> io::Result<PathBuf> {
        let header = Header {
            model: self.model.clone(),
            key: key.to_owned(),
            tokens: tokens.len() as u64,
            state: state.len() as u64,
            part: extent == Extent::Part,
        };
        make_private(&self.directory)?;
        // Readable by its user alone: it tells what a system prompt said.
        let mut temporary = tempfile::NamedTempFile::new_in(&self.directory)?;
        file::write(temporary.as_file_mut(), &header, tokens, state)?;
        let path = self.path(key, tokens);
        temporary.persist(&path).map_err(|error| error.error)?;
        Ok(path)
    }

    fn path(&self, key: &str, tokens: &[TokenId]) -> PathBuf {
        let mut digest = Sha256::new();
        for part in [self.model.as_bytes(), key.as_bytes()] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        tokens.iter().for_each(|token| digest.update(token.to_le_bytes()));
        self.directory.join(format!("{}.{ENDING}", Sha256Digest::from(digest)))
    }

    /// Removes the packs used longest ago until the rest is within the bounds.
    fn evict(&self) {
        let mut packs = listed(&self.directory);
        packs.sort_by_key(|pack| Reverse(pack.used));
        let mut bytes = 0_u64;
        for (index, pack) in packs.iter().enumerate() {
            bytes = bytes.saturating_add(pack.bytes);
            if index >= MOST_PACKS || bytes > self.limit {
                remove(&pack.path);
            }
        }
        for path in abandoned(&self.directory) {
            remove(&path);
        }
    }
}

/// The key of what was learned about a model, with a backend of this key.
pub(crate) fn learned(key: &str) -> String {
    format!("{LEARNED}; {key}")
}

/// The packs in a directory, whatever model they are of; their tokens are not counted. None where there is no directory.
fn listed(directory: &Path) -> Vec<CachedPrompt> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let packs = entries.flatten().filter_map(|entry| {
        let path = entry.path();
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let is_pack = path.extension().is_some_and(|ending| ending == ENDING);
        is_pack.then_some(CachedPrompt { path, tokens: 0, bytes: metadata.len(), used })
    });
    packs.collect()
}

/// Temporary files that no process will finish.
fn abandoned(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let old = entries.flatten().filter(|entry| {
        let temporary = entry.file_name().to_string_lossy().starts_with(".tmp");
        let age = entry.metadata().and_then(|metadata| metadata.modified()).map(|written| written.elapsed());
        temporary && matches!(age, Ok(Ok(age)) if age > ABANDONED)
    });
    old.map(|entry| entry.path()).collect()
}

/// Notes that a pack was used.
fn touch(path: &Path) {
    let now = File::options().append(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
    if let Err(error) = now {
        tracing::debug!(path = %path.display(), %error, "the use of a pack could not be noted");
    }
}

/// Ignores a pack that cannot be read, and removes it where it never will.
fn ignore(path: &Path, error: &io::Error) {
    match error.kind() {
        io::ErrorKind::InvalidData => discard(path, error),
        _ => tracing::debug!(path = %path.display(), %error, "a pack is ignored"),
    }
}

fn discard(path: &Path, why: &dyn std::fmt::Display) {
    // Another process may have removed it since it was listed.
    if path.exists() {
        tracing::warn!(path = %path.display(), %why, "a pack is ignored and removed");
        remove(path);
    }
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!(path = %path.display(), %error, "a file among the packs could not be removed");
    }
}

fn make_private(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

#[cfg(test)]
mod tests;
