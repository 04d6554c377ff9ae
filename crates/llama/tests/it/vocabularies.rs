//! Vocabularies for tests of what tokenizers do: those of the test models, and a directory of others.
//!
//! `TOOLGATE_VOCABULARIES` names a directory of GGUF files, of which only the vocabulary is read: llama.cpp's own
//! tests have vocabulary-only files of many families. Shared by path with the tests of the root package.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolgate_infer::{Backend, Error, Kind, Rows, Specials, TokenId, Untrained, Vocabulary};
use toolgate_llama::{Load, Model, ModelOptions};

use crate::skip;

/// Runs `check` on each vocabulary there is, in the order of their paths; skips those that do not load.
pub(crate) fn each(mut check: impl FnMut(&str, &Tokenizer)) {
    for path in files() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match load(&path, Untrained::default()) {
            Ok(model) => check(&name, &Tokenizer(model)),
            Err(error) => skip::optional(&format!(
                "set TOOLGATE_VOCABULARIES to files that load; {name} does not: {error}"
            )),
        }
        // The default model as it is used: its weights do not know these tokens.
        if name == "qwen2.5-coder-0.5b" {
            let model = load(&path, Untrained::new(["<tool_call>", "</tool_call>"]).unwrap()).unwrap();
            check(&format!("{name} in ordinary tokens"), &Tokenizer(model));
        }
    }
}

fn load(path: &Path, untrained: Untrained) -> Result<Model, toolgate_llama::Error> {
    Model::load(path, ModelOptions { load: Load::Vocabulary, untrained, ..ModelOptions::default() })
}

/// The files of vocabularies, in the order of their paths.
pub(crate) fn files() -> Vec<PathBuf> {
    let own = ["smollm2-135m", "qwen2.5-coder-0.5b"];
    let mut files: Vec<PathBuf> = own.into_iter().filter_map(skip::model).collect();
    match std::env::var_os("TOOLGATE_VOCABULARIES") {
        Some(directory) => {
            let found =
                std::fs::read_dir(Path::new(&directory)).expect("TOOLGATE_VOCABULARIES is a directory");
            files.extend(found.map(|entry| entry.unwrap().path()));
        }
        None => skip::required("set TOOLGATE_VOCABULARIES to a directory of GGUF files"),
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "gguf"));
    files.sort();
    files
}

/// A model that has a tokenizer and nothing else.
pub(crate) struct Tokenizer(Model);

impl Backend for Tokenizer {
    fn vocabulary(&self) -> &Arc<Vocabulary> {
        self.0.vocabulary()
    }

    fn tokenize(&self, text: &str, specials: Specials) -> Result<Vec<TokenId>, Error> {
        self.0.tokenize(text, specials)
    }

    fn context_len(&self) -> usize {
        0
    }

    fn batch_len(&self) -> usize {
        1
    }

    fn evaluated(&self) -> usize {
        0
    }

    fn truncate(&mut self, _len: usize) -> Result<usize, Error> {
        Ok(0)
    }

    fn eval(&mut self, _tokens: &[TokenId], _rows: Rows) -> Result<(), Error> {
        Err(Error::new(Kind::Backend, "there are no weights"))
    }

    fn logits(&self, _row: usize) -> Result<&[f32], Error> {
        Err(Error::new(Kind::Backend, "there are no weights"))
    }
}
