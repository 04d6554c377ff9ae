//! How a model is evaluated on this machine, where that was measured: threads and batches, kept beside the models.
//!
//! Invariant: nothing of it changes what a model says, only when. What was measured on another machine, with another
//! llama.cpp or for another file does not count here.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::models::fingerprint;
use crate::{Error, Kind};

/// How a model is evaluated; what is left out is left to the backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tuning {
    /// Threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Most tokens of a prompt evaluated at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
}

/// The tunings kept in a file, a JSON object: those of one machine.
///
/// ```
/// use toolgate_engine::{Tuning, Tunings};
/// # let directory = tempfile::tempdir()?;
/// # let (file, model) = (directory.path().join("tuning.json"), directory.path().join("model.gguf"));
/// # std::fs::write(&model, "weights")?;
///
/// let tunings = Tunings::new(&file, "this machine");
/// tunings.put(&model, Tuning { threads: Some(2), ..Tuning::default() })?;
/// assert_eq!(tunings.get(&model)?.and_then(|tuning| tuning.threads), Some(2));
/// // What was measured here does not count elsewhere.
/// assert_eq!(Tunings::new(&file, "another machine").get(&model)?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tunings {
    path: PathBuf,
    machine: String,
    /// The device that they are for; empty for the processor.
    device: String,
}

#[derive(Default, Serialize, Deserialize)]
struct Kept {
    machine: String,
    /// By the model file's fingerprint, with the device behind it where that is not the processor.
    models: BTreeMap<String, Tuning>,
}

impl Tunings {
    /// Those in the file `path`, which need not be there, for the machine of this name.
    pub fn new(path: impl Into<PathBuf>, machine: impl Into<String>) -> Self {
        Self { path: path.into(), machine: machine.into(), device: String::new() }
    }

    /// Those of a device of that machine, by what identifies it. Without this they are the processor's.
    ///
    /// ```
    /// use toolgate_engine::{Tuning, Tunings};
    /// # let directory = tempfile::tempdir()?;
    /// # let (file, model) = (directory.path().join("tuning.json"), directory.path().join("model.gguf"));
    /// # std::fs::write(&model, "weights")?;
    /// let tunings = Tunings::new(&file, "this machine");
    /// let tuning = Tuning { batch: Some(2048), ..Tuning::default() };
    /// tunings.clone().on("Vulkan0").put(&model, tuning)?;
    /// assert_eq!(tunings.get(&model)?, None);
    /// assert_eq!(tunings.on("Vulkan0").get(&model)?, Some(tuning));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on(mut self, device: impl Into<String>) -> Self {
        self.device = device.into();
        self
    }

    /// What was measured for a model's file; a file of tunings that cannot be read holds none.
    ///
    /// # Errors
    /// [`Kind::Engine`] for a model that cannot be read.
    pub fn get(&self, model: &Path) -> Result<Option<Tuning>, Error> {
        let key = self.key(model)?;
        Ok(self.read().models.get(&key).copied())
    }

    /// Keeps what was measured for a model's file, in the place of what was there.
    ///
    /// # Errors
    /// [`Kind::Engine`] for a model that cannot be read, and a file that cannot be written.
    pub fn put(&self, model: &Path, tuning: Tuning) -> Result<(), Error> {
        let mut kept = self.read();
        kept.models.insert(self.key(model)?, tuning);
        self.write(&kept).map_err(|why| {
            Error::new(
                Kind::Engine,
                format!("cannot keep what was measured in {}: {why}", self.path.display()),
            )
        })
    }

    fn key(&self, model: &Path) -> Result<String, Error> {
        let fingerprint = key(model)?;
        Ok(if self.device.is_empty() { fingerprint } else { format!("{fingerprint} on {}", self.device) })
    }

    fn read(&self) -> Kept {
        let kept = match fs::read(&self.path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|why| {
                tracing::warn!(path = %self.path.display(), %why, "what bench tune kept cannot be read");
                Kept::default()
            }),
            Err(_) => Kept::default(),
        };
        match kept.machine == self.machine {
            true => kept,
            false => Kept { machine: self.machine.clone(), ..Kept::default() },
        }
    }

    fn write(&self, kept: &Kept) -> std::io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory)?;
        let mut whole = tempfile::NamedTempFile::new_in(directory)?;
        serde_json::to_writer_pretty(&mut whole, kept)?;
        whole.flush()?;
        whole.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

fn key(model: &Path) -> Result<String, Error> {
    let fingerprint = fingerprint(model);
    fingerprint
        .map(|digest| digest.to_string())
        .map_err(|why| Error::new(Kind::Engine, format!("cannot read the model {}: {why}", model.display())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_is_kept_is_found_on_the_same_machine_for_the_same_file() {
        let directory = tempfile::tempdir().unwrap();
        let [model, other] = ["a.gguf", "b.gguf"].map(|name| directory.path().join(name));
        fs::write(&model, "weights").unwrap();
        fs::write(&other, "other weights").unwrap();
        let path = directory.path().join("new/tuning.json");
        let tunings = Tunings::new(&path, "this machine");
        assert_eq!(tunings.get(&model).unwrap(), None);
        let tuning = Tuning { threads: Some(3), batch: None };
        tunings.put(&model, tuning).unwrap();
        tunings.put(&other, Tuning::default()).unwrap();
        assert_eq!(tunings.get(&model).unwrap(), Some(tuning));
        assert_eq!(tunings.get(&other).unwrap(), Some(Tuning::default()));
        assert_eq!(Tunings::new(&path, "another machine").get(&model).unwrap(), None);
        fs::write(&model, "new weights").unwrap();
        assert_eq!(tunings.get(&model).unwrap(), None, "another file under that name");
    }

    #[test]
    fn a_broken_file_holds_nothing_and_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let (path, model) = (directory.path().join("tuning.json"), directory.path().join("a.gguf"));
        fs::write(&model, "weights").unwrap();
        fs::write(&path, "{\"machine\": 3").unwrap();
        let tunings = Tunings::new(&path, "m");
        assert_eq!(tunings.get(&model).unwrap(), None);
        tunings.put(&model, Tuning { threads: Some(1), batch: Some(64) }).unwrap();
        assert_eq!(tunings.get(&model).unwrap(), Some(Tuning { threads: Some(1), batch: Some(64) }));
        assert_eq!(
            tunings.get(&directory.path().join("none")).map_err(|error| error.kind()),
            Err(Kind::Engine)
        );
    }
}
