//! Vocabularies for tests of what tokenizers do: those of the test models, and a directory of others.
//!
//! `TOOLGATE_VOCABULARIES` names a directory of GGUF files, of which only the vocabulary is read: llama.cpp's own
//! tests have vocabulary-only files of many families. Shared by path with the tests of the root package.

use std::path::{Path, PathBuf};

use toolgate_infer::Untrained;
use toolgate_llama::{Load, Model, ModelOptions, Tokenizer};

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
