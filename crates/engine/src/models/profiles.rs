//! Profiles that were measured on this machine (`toolgate certify`): a TOML file each, called by the digest of the model's file.
//!
//! Invariant: a profile is found by what its file holds, not by where the model lies or what it is called.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolgate_infer::Untrained;

use super::cache::digest_of;
use super::catalogue::Entry;
use super::defaults::Defaults;
use super::digest::{Sha256Digest, pieces};
use super::error::{Error, Kind};

/// The environment variable that names the folder of profiles.
pub const PROFILES_VARIABLE: &str = "TOOLGATE_PROFILES";

/// What was measured of a model, as far as its turns depend on it.
///
/// ```
/// use toolgate_engine::models::{Defaults, Profile, Profiles};
/// # let directory = tempfile::tempdir()?;
/// let model = directory.path().join("some.gguf");
/// std::fs::write(&model, "GGUF and weights")?;
///
/// let profiles = Profiles::new(directory.path().join("profiles"));
/// assert!(profiles.find(&model)?.is_none());
/// let mut profile = Profile::of(&model)?;
/// profile.defaults.parallel = Some(2);
/// profiles.keep(&profile)?;
///
/// // A copy under another name has it, too.
/// let copy = directory.path().join("other.gguf");
/// std::fs::copy(&model, &copy)?;
/// assert_eq!(profiles.find(&copy)?.and_then(|found| found.defaults.parallel), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Profile {
    /// What the model's file was called when it was measured.
    pub model: String,
    /// The digest of the file.
    pub sha256: Sha256Digest,
    /// A digest of pieces from all over the file: found without reading all of it.
    pub pieces: Sha256Digest,
    /// The version of the program that measured it.
    pub toolgate: String,
    /// Added tokens of its vocabulary that its weights know nothing of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untrained_tokens: Vec<String>,
    /// Settings that suit it.
    #[serde(default)]
    pub defaults: Defaults,
}

impl Profile {
    /// A profile of a file that says nothing yet. Reads the whole file.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of(model: &Path) -> Result<Self, Error> {
        Ok(Self {
            model: model.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            sha256: digest_of(model)?,
            pieces: pieces(model).map_err(|error| Error::disk("read", model, error))?,
            toolgate: env!("CARGO_PKG_VERSION").to_owned(),
            untrained_tokens: Vec::new(),
            defaults: Defaults::default(),
        })
    }

    /// Reads a profile.
    ///
    /// ```
    /// use toolgate_engine::models::{Answers, Profile};
    /// # let directory = tempfile::tempdir()?;
    /// # let (model, path) = (directory.path().join("some.gguf"), directory.path().join("profile.toml"));
    /// # std::fs::write(&model, "GGUF and weights")?;
    /// let mut profile = Profile::of(&model)?;
    /// profile.defaults.answers = Some(Answers::Full);
    /// std::fs::write(&path, profile.to_toml()?)?;
    ///
    /// let read = Profile::read(&path)?;
    /// assert_eq!(read, profile);
    /// // A model is led by it as by an entry of the catalogue.
    /// assert_eq!(read.entry(None)?.defaults.answers, Some(Answers::Full));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::NotFound`] for a file that cannot be read, [`Kind::Catalogue`] for one that is no profile, which names the place.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(|error| {
            Error::new(Kind::NotFound, format!("cannot read the profile {}: {error}", path.display()))
                .hint("give a file that `toolgate certify` wrote")
                .caused_by(error)
        })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads a profile from its text; `place` is where that stands.
    pub(super) fn parse(text: &str, place: &str) -> Result<Self, Error> {
        let wrong = |what: &str| Error::new(Kind::Catalogue, format!("{place}: {what}"));
        let profile: Self =
            toml::from_str(text).map_err(|error| wrong(&error.to_string()).caused_by(error))?;
        profile.defaults.check().map_err(|what| wrong(&format!("this profile {what}")))?;
        Untrained::new(profile.untrained_tokens.iter().cloned())
            .map_err(|error| wrong(&error.to_string()))?;
        Ok(profile)
    }

    /// The profile as its file has it.
    ///
    /// # Errors
    /// None that is known.
    pub fn to_toml(&self) -> Result<String, Error> {
        toml::to_string_pretty(self)
            .map_err(|error| Error::new(Kind::Catalogue, format!("the profile cannot be written: {error}")))
    }

    /// The entry of a model with this profile: what its catalogue entry says of the file, where it has one, and what was measured.
    ///
    /// # Errors
    /// Tokens that cannot be taken apart.
    pub fn entry(&self, known: Option<&Entry>) -> Result<Entry, Error> {
        let untrained = Untrained::new(self.untrained_tokens.iter().cloned())
            .map_err(|error| Error::new(Kind::Catalogue, error.to_string()))?;
        let entry = known.cloned().unwrap_or_else(|| Entry {
            id: self.model.clone(),
            description: "measured by toolgate certify".to_owned(),
            file: format!("{}.gguf", self.model),
            bytes: None,
            sha256: Some(self.sha256),
            hub: None,
            wheels: Vec::new(),
            template: None,
            template_replacements: Vec::new(),
            untrained_tokens: Untrained::default(),
            marks: Vec::new(),
            defaults: Defaults::default(),
        });
        Ok(Entry { untrained_tokens: untrained, defaults: self.defaults.clone(), ..entry })
    }
}

/// A folder of profiles.
#[derive(Clone, Debug)]
pub struct Profiles {
    directory: PathBuf,
}

impl Profiles {
    /// The profiles in a folder, which need not be there.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// The user's own: in the folder that `TOOLGATE_PROFILES` names, else in `toolgate/profiles` of the configuration folder. None
    /// where there is no home directory.
    ///
    /// ```
    /// use toolgate_engine::models::{Profiles, Sha256Digest};
    /// let digest = Sha256Digest::of(b"a model's file");
    /// if let Some(profiles) = Profiles::open() {
    ///     assert!(profiles.path_of(digest).ends_with(format!("{digest}.toml")));
    /// }
    /// ```
    pub fn open() -> Option<Self> {
        if let Some(named) = std::env::var_os(PROFILES_VARIABLE).filter(|name| !name.is_empty()) {
            return Some(Self::new(named));
        }
        let base = directories::BaseDirs::new()?;
        Some(Self::new(base.config_dir().join("toolgate").join("profiles")))
    }

    /// Where the profile of a file with this digest lies.
    pub fn path_of(&self, sha256: Sha256Digest) -> PathBuf {
        self.directory.join(format!("{sha256}.toml"))
    }

    /// The profile of a model's file, if it was measured.
    ///
    /// # Errors
    /// A profile that cannot be read: a damaged one is not taken for none.
    pub fn find(&self, model: &Path) -> Result<Option<Profile>, Error> {
        let Ok(files) = fs::read_dir(&self.directory) else { return Ok(None) };
        let mut own = None;
        for file in files {
            let path = file.map_err(|error| Error::disk("read", &self.directory, error))?.path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let own = match own {
                Some(own) => own,
                None => *own.insert(pieces(model).map_err(|error| Error::disk("read", model, error))?),
            };
            // Another model's profile may be damaged: this one does not need it.
            if fs::read_to_string(&path).is_ok_and(|text| text.contains(&own.to_string())) {
                return Profile::read(&path).map(Some);
            }
        }
        Ok(None)
    }

    /// Keeps a profile, in place of an older one of the same file; where it lies now.
    ///
    /// # Errors
    /// [`Kind::Disk`].
    pub fn keep(&self, profile: &Profile) -> Result<PathBuf, Error> {
        let path = self.path_of(profile.sha256);
        fs::create_dir_all(&self.directory).map_err(|error| Error::disk("make", &self.directory, error))?;
        let whole = self.directory.join(format!(".{}.{}", profile.sha256, std::process::id()));
        fs::write(&whole, profile.to_toml()?).map_err(|error| Error::disk("write", &whole, error))?;
        fs::rename(&whole, &path).map_err(|error| Error::disk("write", &path, error))?;
        Ok(path)
    }

    /// What is known of a model's file, with what was measured of it.
    pub(super) fn with(&self, path: &Path, known: Option<Arc<Entry>>) -> Result<Option<Arc<Entry>>, Error> {
        match self.find(path)? {
            Some(profile) => Ok(Some(Arc::new(profile.entry(known.as_deref())?))),
            None => Ok(known),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use toolgate_chat::Demonstrations;

    use super::*;
    use crate::models::{Answers, Catalogue, Store};
    use crate::profile::choice::{ChoiceModel, ChoiceWeights};
    use crate::profile::decision::{DecisionModel, DecisionWeights};
    use crate::{AnswerView, Options};

    fn profile(model: &Path) -> Profile {
        let choice = ChoiceWeights { own: 0.5, change: 2.0, called: -2.0, ..ChoiceWeights::default() };
        let weights = DecisionWeights { bias: -0.25, call: 0.5, live: 1.0, ..DecisionWeights::default() };
        let mut profile = Profile::of(model).unwrap();
        profile.untrained_tokens = vec!["<tool_call>".to_owned()];
        profile.defaults = Defaults {
            answers: Some(Answers::Quoted),
            demonstrations: Some(Demonstrations::Talk),
            decision: Some(DecisionModel { first: Some(weights), after: None }),
            tool_bias: Some(0.5),
            choice: Some(ChoiceModel { first: None, after: Some(choice) }),
            ..Defaults::default()
        };
        profile
    }

    #[test]
    fn a_profile_is_read_as_it_was_written_and_leads_its_model() {
        let directory = tempfile::tempdir().unwrap();
        let model = directory.path().join("m.gguf");
        fs::write(&model, "GGUF").unwrap();
        let (profile, profiles) = (profile(&model), Profiles::new(directory.path()));
        let path = profiles.keep(&profile).unwrap();
        assert!(path.ends_with(format!("{}.toml", digest_of(&model).unwrap())));
        assert_eq!(Profile::read(&path).unwrap(), profile);
        let store = Store::new(directory.path(), Catalogue::builtin().unwrap()).with_profiles(profiles);
        let resolved = store.resolve(&model.to_string_lossy()).unwrap();
        let options = Options::for_model(&resolved);
        assert_eq!((options.answer_view, options.profile.as_deref()), (AnswerView::Quoted, Some("m")));
        assert_eq!(options.decision.and_then(|decision| decision.first).map(|first| first.live), Some(1.0));
        let after = options.choice.after.unwrap();
        assert_eq!((after.own, after.change, after.called), (0.5, 2.0, -2.0));
        assert!(options.choice.first.is_none());
        fs::write(&model, "GGUF, another one").unwrap();
        let other = store.resolve(&model.to_string_lossy()).unwrap();
        assert!(other.entry.is_none(), "another file of the same name has no profile");
    }

    #[test]
    fn a_profile_that_is_damaged_is_an_error_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let model = directory.path().join("m.gguf");
        fs::write(&model, "GGUF").unwrap();
        let profiles = Profiles::new(directory.path());
        let path = profiles.keep(&profile(&model)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for (from, to, why) in [
            ("call = 0.5", "call = -1.0", "below 0"),
            ("tool_bias = 0.5", "tool_bias = 5.0", "tool_bias"),
            ("change = 2.0", "change = -2.0", "choice of tools"),
            ("live = 1.0", "lives = 1.0", "lives"),
        ] {
            assert!(text.contains(from), "{text}");
            fs::write(&path, text.replace(from, to)).unwrap();
            let error = profiles.find(&model).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(".toml"), "{error}");
        }
    }
}
