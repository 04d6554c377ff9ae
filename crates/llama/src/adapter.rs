//! Beside a model's load: a low-rank adapter (LoRA), which every context of the model adds to the weights.
//!
//! Invariant: llama.cpp sees only a file whose metadata has the types that it relies on: it aborts the process on others.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::model::{LlamaLoraAdapter, LlamaModel};
use toolgate_infer::Adapter;

use crate::gguf::{self, Weights};
use crate::{Error, Kind};

/// An adapter of a model, as llama.cpp holds it. It goes with the model: llama.cpp frees it when it frees that.
#[derive(Debug)]
pub(crate) struct LoadedAdapter {
    inner: Mutex<LlamaLoraAdapter>,
    scale: f32,
    /// What tells it from others, for the keys of saved states.
    label: String,
}

impl LoadedAdapter {
    /// Loads a file for a model with these weights.
    pub(crate) fn load(model: &mut LlamaModel, weights: Weights, wanted: &Adapter) -> Result<Self, Error> {
        let Adapter { path, scale } = wanted;
        gguf::check_adapter(path, weights)?;
        gguf::check_path(path)?;
        let label = label(path, *scale)?;
        let inner = model.lora_adapter_init(path).map_err(|error| {
            let message = "this adapter was not made for the model: its architecture is another, or its matrices have other names or sizes \
                           (llama.cpp's log goes to tracing, target llama-cpp-2)";
            Error::new(Kind::Invalid, message).at(path).because(error)
        })?;
        Ok(Self { inner: Mutex::new(inner), scale: *scale, label })
    }

    /// What tells it from others.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Has a context of its model add it.
    pub(crate) fn set(&self, context: &mut LlamaContext<'_>) -> Result<(), Error> {
        let mut adapter = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        context.lora_adapter_set(&mut adapter, self.scale).map_err(|error| {
            Error::new(Kind::Context, "llama.cpp could not add the adapter to a context").because(error)
        })
    }
}

/// Pieces of a file that tell it from others, and the bytes of each.
const PIECES: u64 = 64;
const PIECE: u64 = 4 * 1024;

/// As with models, its length, its time and pieces from all over it tell it from others.
fn label(path: &Path, scale: f32) -> Result<String, Error> {
    let told = || -> std::io::Result<(u64, u64)> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        let bytes = metadata.len();
        let mut hasher = DefaultHasher::new();
        hasher.write_u128(metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos());
        for piece in 0..PIECES {
            let mut content = Vec::new();
            file.seek(SeekFrom::Start(bytes / PIECES * piece))?;
            (&mut file).take(PIECE).read_to_end(&mut content)?;
            hasher.write(&content);
        }
        Ok((bytes, hasher.finish()))
    };
    let (bytes, hash) = told().map_err(|error| {
        Error::new(Kind::NotFound, format!("adapter cannot be read: {error}")).at(path).because(error)
    })?;
    Ok(format!("adapter {hash:016x} of {bytes} bytes, times {scale}"))
}
