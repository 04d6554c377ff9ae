//! Added tokens that a model was not trained with, on a real vocabulary.

use toolgate_infer::{Specials, TokenKind, Untrained};
use toolgate_llama::{Load, Model, ModelOptions};

use crate::support::file;

#[test]
fn names_of_untrained_tokens_are_written_in_others() {
    let Some(path) = file("qwen2.5-coder-0.5b") else { return };
    let load = |untrained| {
        let options = ModelOptions { load: Load::Vocabulary, untrained, ..ModelOptions::default() };
        Model::load(&path, options).unwrap()
    };
    let plain = load(Untrained::new(["<tool_call>", "</tool_call>"]).unwrap());
    let usual = load(Untrained::default());
    let text = "<|im_start|>user\n<tool_call>\n{\"name\": \"a\"}\n</tool_call><|im_end|>";
    let tokens = |model: &Model| model.tokenize(text, Specials::Parse).unwrap();
    let spelled = |model: &Model| {
        let vocabulary = model.vocabulary();
        tokens(model).iter().flat_map(|&token| vocabulary.bytes(token)).copied().collect::<Vec<_>>()
    };
    assert_eq!(spelled(&plain), text.as_bytes());
    assert_eq!(spelled(&usual), text.as_bytes());
    let added: Vec<_> = tokens(&usual).into_iter().filter(|token| !tokens(&plain).contains(token)).collect();
    assert_eq!(added.len(), 2, "one for each name");
    for token in added {
        assert_eq!(plain.vocabulary().kind(token), TokenKind::Unused);
        assert_eq!(usual.vocabulary().kind(token), TokenKind::Text);
    }
}
