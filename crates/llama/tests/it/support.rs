//! Models for the tests: each loaded once a process.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use toolgate_llama::{Load, Model, ModelOptions};

pub(crate) use crate::skip::model as file;

/// A model, or none after a skip.
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

/// The furthest that two rows of logits are apart.
pub(crate) fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
