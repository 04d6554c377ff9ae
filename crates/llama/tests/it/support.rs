//! Models for the tests: each loaded once a process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use toolgate_llama::{Load, Model, ModelOptions};

/// The file of a model, or none after saying that the test is skipped.
pub(crate) fn file(id: &str) -> Option<PathBuf> {
    let path =
        std::env::var_os("TOOLGATE_MODELS").map(|models| PathBuf::from(models).join(format!("{id}.gguf")));
    let found = path.filter(|path| path.is_file());
    if found.is_none() {
        eprintln!("skipped: set TOOLGATE_MODELS to a directory that holds {id}.gguf");
    }
    found
}

/// A model, or none after saying that the test is skipped.
pub(crate) fn model(id: &str, load: Load) -> Option<Model> {
    static LOADED: Mutex<BTreeMap<(String, bool), Model>> = Mutex::new(BTreeMap::new());
    let path = file(id)?;
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (id.to_owned(), load == Load::All);
    let model = loaded
        .entry(key)
        .or_insert_with(|| Model::load(&path, ModelOptions { load, ..ModelOptions::default() }).unwrap());
    Some(model.clone())
}
