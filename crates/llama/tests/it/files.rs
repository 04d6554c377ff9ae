//! Files that are no models, or no longer: one clear message each, and no crash.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use toolgate_infer::TokenKind;
use toolgate_llama::{ContextOptions, Kind, Load, Model, ModelOptions};

use crate::support::{file, model};

fn load(path: &std::path::Path) -> Result<Model, toolgate_llama::Error> {
    Model::load(path, ModelOptions::default())
}

#[test]
fn missing_and_foreign_files_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let check = |name: &str, content: Option<&[u8]>, kind: Kind, says: &str| {
        let path = directory.path().join(name);
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let error = load(&path).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let message = error.to_string();
        assert!(message.contains(says) && message.contains(name), "{message}");
        assert_eq!(error.path(), Some(path.as_path()));
    };
    check("none.gguf", None, Kind::NotFound, "no such model file");
    check("page.gguf", Some(b"<html>404</html>"), Kind::NotGguf, "not a GGUF file");
    check("head.gguf", Some(b"GGUF\x03\0\0\0"), Kind::Truncated, "truncated");
    // A whole GGUF file without any metadata: llama.cpp itself refuses it.
    let mut empty = b"GGUF\x03\0\0\0".to_vec();
    empty.extend([0; 16]);
    check("empty.gguf", Some(&empty), Kind::Invalid, "llama.cpp cannot load it");
}

#[test]
fn truncated_model_says_how_much_is_missing() {
    let Some(path) = file("smollm2-135m") else { return };
    let whole = std::fs::read(&path).unwrap();
    let directory = tempfile::tempdir().unwrap();
    for part in [0.001, 0.01, 0.5, 0.999_999] {
        let cut = directory.path().join("cut.gguf");
        std::fs::write(&cut, &whole[..(whole.len() as f64 * part) as usize]).unwrap();
        let error = load(&cut).unwrap_err();
        assert_eq!(error.kind(), Kind::Truncated, "{error}");
        // The vocabulary alone would load from most of these; it is refused as well.
        let options = ModelOptions { load: Load::Vocabulary, ..ModelOptions::default() };
        assert_eq!(Model::load(&cut, options).unwrap_err().kind(), Kind::Truncated);
    }
    assert!(load(&path).is_ok(), "the control: the whole file loads");
}

#[test]
fn vocabulary_and_metadata_need_no_weights() {
    for (id, tokens, eos) in
        [("smollm2-135m", 49_152, "<|im_end|>"), ("qwen2.5-coder-0.5b", 151_936, "<|im_end|>")]
    {
        let Some(model) = model(id, Load::Vocabulary) else { return };
        let vocabulary = model.vocabulary();
        assert_eq!(vocabulary.len(), tokens, "{id}");
        assert_eq!(model.eos(), eos);
        assert!(model.chat_template(None).unwrap().contains("<|im_start|>"));
        assert!(model.chat_template(Some("no such")).is_none());
        assert!(model.trained_context() >= 8_192, "{}", model.trained_context());
        let end = vocabulary.special("<|im_end|>").unwrap();
        assert_eq!(vocabulary.kind(end), TokenKind::EndOfGeneration);
        let start = vocabulary.special("<|im_start|>").unwrap();
        assert_eq!(vocabulary.kind(start), TokenKind::Special);
        let error = model.backend(&ContextOptions::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Context, "{error}");
    }
}

#[test]
fn loading_reports_progress_and_can_be_cancelled() {
    let Some(path) = file("smollm2-135m") else { return };
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let options = ModelOptions {
        progress: Some(Box::new(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            ControlFlow::Break(())
        })),
        ..ModelOptions::default()
    };
    let error = Model::load(&path, options).unwrap_err();
    assert_eq!(error.kind(), Kind::Cancelled, "{error}");
    assert!(calls.load(Ordering::Relaxed) > 0);
}
