//! The models on this machine: one directory that holds `<id>.gguf` files, and the way from what a user typed to
//! one of them.
//!
//! Invariant: a `.gguf` file stands in this directory only whole; what is being fetched lies in `.pull` beside it.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::catalogue::{Catalogue, Entry, HubFile};
use super::digest::Sha256Digest;
use super::error::{Error, Kind};
use super::profiles::Profiles;

/// The environment variable that names the cache directory.
pub const CACHE_VARIABLE: &str = "TOOLGATE_CACHE";
/// The environment variable that names a catalogue file, laid over the built-in one.
pub const CATALOGUE_VARIABLE: &str = "TOOLGATE_CATALOGUE";

/// The growing file in a directory where a model is put together.
pub(crate) const PART: &str = "model.part";

/// The catalogue and the directory its models are kept in.
///
/// ```
/// use toolgate_engine::models::{Catalogue, Presence, Store};
/// # let directory = tempfile::tempdir()?;
///
/// let store = Store::new(directory.path(), Catalogue::builtin()?);
/// let entry = store.catalogue().get("smollm2-135m").ok_or("no such model")?;
/// assert_eq!(store.presence(entry), Presence::Absent);
/// // What is left of a copy that broke off is not taken for the model.
/// std::fs::write(store.path_of(entry), "GGUF")?;
/// assert_eq!(store.presence(entry), Presence::Damaged { bytes: 4 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
    catalogue: Catalogue,
    profiles: Option<Profiles>,
}

/// A model file that is there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResolvedModel {
    /// The GGUF file.
    pub path: PathBuf,
    /// What the catalogue knows about it.
    pub entry: Option<Arc<Entry>>,
}

impl ResolvedModel {
    /// A file, and the catalogue entry whose settings suit it, if any.
    pub fn new(path: impl Into<PathBuf>, entry: Option<Arc<Entry>>) -> Self {
        Self { path: path.into(), entry }
    }
}

/// How much of an entry is on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Presence {
    /// Nothing.
    Absent,
    /// A pull was begun and can be resumed.
    Partial {
        /// Bytes of the model that are there.
        bytes: u64,
    },
    /// A file of the wrong size.
    Damaged {
        /// Its size.
        bytes: u64,
    },
    /// The whole file, as far as its size tells.
    Present {
        /// Its size.
        bytes: u64,
    },
}

/// What a user's word for a model means.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Entry(Arc<Entry>),
    Path(PathBuf),
    Address(Address),
}

/// A model file named by an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Without fragment.
    pub(crate) url: String,
    /// From a `#sha256=` fragment.
    pub(crate) sha256: Option<Sha256Digest>,
    /// The file's name in the cache.
    pub(crate) file_name: String,
    /// Where it lies on the hub, if the address is one of the hub's.
    pub(crate) hub: Option<HubFile>,
}

/// Finds the model that `spec` names — an id of the catalogue, a path to a `.gguf` file, or an address that was
/// pulled before — in the user's own [`Store`].
///
/// # Errors
/// As [`Store::resolve`].
///
/// ```no_run
/// let model = toolgate_engine::models::resolve("qwen2.5-coder-0.5b")?;
/// println!("{}", model.path.display());
/// # Ok::<(), toolgate_engine::models::Error>(())
/// ```
pub fn resolve(spec: &str) -> Result<ResolvedModel, Error> {
    Store::open()?.resolve(spec)
}

impl Store {
    /// The user's store: `TOOLGATE_CACHE`, else `toolgate/models` in the user's cache directory; the built-in
    /// catalogue under the one that `TOOLGATE_CATALOGUE` names.
    ///
    /// # Errors
    /// [`Kind::Disk`] where there is no home directory to keep a cache in, [`Kind::Catalogue`] or
    /// [`Kind::NotFound`] for a catalogue that cannot be read.
    pub fn open() -> Result<Self, Error> {
        let mut catalogue = Catalogue::builtin()?;
        if let Some(file) = variable(CATALOGUE_VARIABLE) {
            let text = fs::read_to_string(&file).map_err(|error| {
                let message = format!("cannot read the model catalogue {}: {error}", file.display());
                Error::new(Kind::NotFound, message)
                    .hint(format!("unset {CATALOGUE_VARIABLE}, or name a readable file"))
            })?;
            catalogue = catalogue.with(Catalogue::parse(&text)?);
        }
        let directory = match variable(CACHE_VARIABLE) {
            Some(directory) => directory,
            None => directories::BaseDirs::new()
                .map(|dirs| dirs.cache_dir().join("toolgate").join("models"))
                .ok_or_else(|| {
                    Error::new(Kind::Disk, "there is no home directory to keep models in")
                        .hint(format!("set {CACHE_VARIABLE} to a directory"))
                })?,
        };
        Ok(Self { profiles: Profiles::open(), ..Self::new(directory, catalogue) })
    }

    /// A store of `catalogue`'s models in `directory`, which need not exist yet.
    pub fn new(directory: impl Into<PathBuf>, catalogue: Catalogue) -> Self {
        Self { directory: directory.into(), catalogue, profiles: None }
    }

    /// The same store, whose models have these profiles where they were measured.
    ///
    /// ```
    /// use toolgate_engine::models::{Catalogue, Profile, Profiles, Store};
    /// # let directory = tempfile::tempdir()?;
    /// let model = directory.path().join("some.gguf");
    /// std::fs::write(&model, "GGUF and weights")?;
    /// let profiles = Profiles::new(directory.path());
    /// profiles.keep(&Profile::of(&model)?)?;
    ///
    /// let store = Store::new(directory.path(), Catalogue::builtin()?).with_profiles(profiles);
    /// assert!(store.resolve(&model.to_string_lossy())?.entry.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_profiles(mut self, profiles: Profiles) -> Self {
        self.profiles = Some(profiles);
        self
    }

    /// The directory that holds the models.
    ///
    /// ```
    /// use toolgate_engine::models::{Catalogue, Store};
    ///
    /// let store = Store::new("models", Catalogue::builtin()?);
    /// assert!(store.packs().starts_with(store.directory()), "what is kept of prompts lies in it");
    /// assert!(store.tuning().starts_with(store.directory()), "and what was measured of the machine");
    /// # Ok::<(), toolgate_engine::models::Error>(())
    /// ```
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory for what engines have evaluated of prompts that come again.
    pub fn packs(&self) -> PathBuf {
        self.directory.join(".packs")
    }

    /// The file for how this machine evaluates models best.
    pub fn tuning(&self) -> PathBuf {
        self.directory.join(".tuning.json")
    }

    /// The models known by name.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Where an entry's file is, or will be.
    pub fn path_of(&self, entry: &Entry) -> PathBuf {
        self.directory.join(entry.file_name())
    }

    /// How much of `entry` is here. Looks at sizes only.
    pub fn presence(&self, entry: &Entry) -> Presence {
        let size = |path: &Path| fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|file| file.len());
        if let Some(bytes) = size(&self.path_of(entry)) {
            return match entry.bytes {
                Some(expected) if expected != bytes => Presence::Damaged { bytes },
                _ => Presence::Present { bytes },
            };
        }
        match size(&self.staging_of(&entry.file_name()).join(PART)) {
            Some(bytes) if bytes > 0 => Presence::Partial { bytes },
            _ => Presence::Absent,
        }
    }

    /// Finds the model that `spec` names: an id, a path to a `.gguf` file, or an address pulled before.
    ///
    /// A path is matched with the catalogue by file name and size, so that a file copied from elsewhere still
    /// has its entry's settings.
    ///
    /// # Errors
    /// [`Kind::NotPulled`] for a known model that is not here, [`Kind::Unknown`] or [`Kind::NotFound`] for what
    /// is neither, [`Kind::Damaged`] for a file that is no whole GGUF.
    ///
    /// ```
    /// use toolgate_engine::models::{Catalogue, Kind, Store};
    /// let store = Store::new("no/such/directory", Catalogue::builtin()?);
    /// let error = store.resolve("smollm2-135m").err().map(|error| (error.kind(), error.to_string()));
    /// let message = "model \"smollm2-135m\" is not on this machine; run: toolgate model pull smollm2-135m";
    /// assert_eq!(error, Some((Kind::NotPulled, message.to_owned())));
    /// # Ok::<(), toolgate_engine::models::Error>(())
    /// ```
    pub fn resolve(&self, spec: &str) -> Result<ResolvedModel, Error> {
        match self.wanted(spec)? {
            Wanted::Entry(entry) => {
                let path = self.path_of(&entry);
                match self.presence(&entry) {
                    Presence::Present { .. } => {
                        check_magic(&path)?;
                        self.measured(path, Some(entry))
                    }
                    Presence::Damaged { bytes } => Err(Error::new(
                        Kind::Damaged,
                        format!(
                            "{} is not the whole model: {bytes} bytes of {}",
                            path.display(),
                            entry.bytes.unwrap_or_default()
                        ),
                    )
                    .hint(pull_hint(&entry.id))),
                    _ => Err(not_pulled(&entry.id)),
                }
            }
            Wanted::Address(address) => {
                let path = self.directory.join(&address.file_name);
                if !path.is_file() {
                    return Err(not_pulled(spec));
                }
                check_magic(&path)?;
                self.measured(path, None)
            }
            Wanted::Path(path) => {
                let entry = self.entry_of(&path)?;
                self.measured(path, entry)
            }
        }
    }

    /// A model with what was measured of it.
    fn measured(&self, path: PathBuf, known: Option<Arc<Entry>>) -> Result<ResolvedModel, Error> {
        let entry = match &self.profiles {
            Some(profiles) => profiles.with(&path, known)?,
            None => known,
        };
        Ok(ResolvedModel { path, entry })
    }

    /// Reads what `spec` means, without looking whether it is here.
    pub(crate) fn wanted(&self, spec: &str) -> Result<Wanted, Error> {
        if spec.starts_with("http://") || spec.starts_with("https://") {
            return Address::parse(spec).map(Wanted::Address);
        }
        if let Some(entry) = self.catalogue.get(spec) {
            return Ok(Wanted::Entry(entry.clone()));
        }
        let path = Path::new(spec);
        if spec.contains(['/', '\\']) || spec.ends_with(".gguf") || path.exists() {
            return Ok(Wanted::Path(path.to_owned()));
        }
        let known: Vec<_> = self.catalogue.entries().map(|entry| entry.id.as_str()).collect();
        Err(Error::new(Kind::Unknown, format!("there is no model {spec:?}"))
            .hint(format!("known are {}; or give a path to a .gguf file", known.join(", "))))
    }

    /// Where the file that will be called `file_name` is put together.
    pub(crate) fn staging_of(&self, file_name: &str) -> PathBuf {
        self.directory.join(".pull").join(file_name.trim_end_matches(".gguf"))
    }

    fn entry_of(&self, path: &Path) -> Result<Option<Arc<Entry>>, Error> {
        let metadata = fs::metadata(path).map_err(|error| {
            Error::new(Kind::NotFound, format!("cannot open the model {}: {error}", path.display()))
                .hint("give a path to a .gguf file, or an id that `toolgate model list` shows")
                .caused_by(error)
        })?;
        if !metadata.is_file() {
            return Err(Error::new(Kind::NotFound, format!("{} is not a file", path.display()))
                .hint("give a path to a .gguf file"));
        }
        check_magic(path)?;
        let name = path.file_name().unwrap_or_default();
        let same = |entry: &&Arc<Entry>| {
            entry.bytes == Some(metadata.len())
                && (name == entry.file.as_str() || name == entry.file_name().as_str())
        };
        Ok(self.catalogue.entries().find(same).cloned())
    }
}

impl Address {
    fn parse(spec: &str) -> Result<Self, Error> {
        let (url, fragment) =
            spec.split_once('#').map_or((spec, None), |(url, fragment)| (url, Some(fragment)));
        let sha256 = match fragment.map(|fragment| fragment.strip_prefix("sha256=").unwrap_or(fragment)) {
            None => None,
            Some(digest) => Some(digest.parse().map_err(|why| {
                Error::new(
                    Kind::Unknown,
                    format!("the address {spec:?} has a fragment that is no digest: {why}"),
                )
                .hint("write it as #sha256=…, or leave it out")
            })?),
        };
        let path = url.split_once('?').map_or(url, |(path, _)| path);
        let name: String = path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
            .collect();
        let Some(stem) = name.strip_suffix(".gguf").filter(|stem| !stem.is_empty()) else {
            return Err(Error::new(
                Kind::Unknown,
                format!("the address {spec:?} does not end in a .gguf file"),
            ));
        };
        // Two addresses may end alike, so the whole of it is part of the name.
        let mark: String = Sha256Digest::of(url.as_bytes()).to_string().chars().take(12).collect();
        let file_name = format!("url-{mark}-{stem}.gguf");
        Ok(Self { url: url.to_owned(), sha256, file_name, hub: hub_file(path) })
    }
}

/// Reads `https://huggingface.co/<owner>/<name>/resolve/<revision>/<file>`.
fn hub_file(url: &str) -> Option<HubFile> {
    let rest = url.strip_prefix("https://huggingface.co/")?;
    let mut parts = rest.splitn(5, '/');
    let (owner, name, verb) = (parts.next()?, parts.next()?, parts.next()?);
    let (revision, file) = (parts.next()?, parts.next()?);
    let whole = [owner, name, revision, file].iter().all(|part| !part.is_empty());
    (whole && matches!(verb, "resolve" | "blob")).then(|| HubFile {
        repo: format!("{owner}/{name}"),
        file: file.to_owned(),
        revision: revision.to_owned(),
    })
}

/// Refuses a file that does not begin as every GGUF does; the rest is for the loader to judge.
pub(crate) fn check_magic(path: &Path) -> Result<(), Error> {
    let mut magic = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    match read {
        Ok(()) if &magic == b"GGUF" => Ok(()),
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
            Err(Error::new(Kind::NotFound, format!("cannot read the model {}: {error}", path.display()))
                .caused_by(error))
        }
        _ => Err(Error::new(Kind::Damaged, format!("{} is not a GGUF file", path.display()))
            .hint("convert the model to GGUF, or pull one that `toolgate model list` shows")),
    }
}

/// The SHA-256 of the file at `path`, reading the whole of it: about a second for each gigabyte.
///
/// # Errors
/// [`Kind::Disk`] when it cannot be read.
///
/// ```
/// use toolgate_engine::models::{Sha256Digest, digest_of};
/// # let file = tempfile::NamedTempFile::new()?;
///
/// std::fs::write(file.path(), "abc")?;
/// assert_eq!(digest_of(file.path())?, Sha256Digest::of(b"abc"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn digest_of(path: &Path) -> Result<Sha256Digest, Error> {
    let mut hasher = Sha256::new();
    let mut file = File::open(path).map_err(|error| Error::disk("read", path, error))?;
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer).map_err(|error| Error::disk("read", path, error))? {
            0 => return Ok(Sha256Digest::from(hasher)),
            n => hasher.update(buffer.get(..n).unwrap_or_default()),
        }
    }
}

fn not_pulled(spec: &str) -> Error {
    Error::new(Kind::NotPulled, format!("model {spec:?} is not on this machine")).hint(pull_hint(spec))
}

fn pull_hint(spec: &str) -> String {
    format!("run: toolgate model pull {spec}")
}

/// An environment variable that is set to something.
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
