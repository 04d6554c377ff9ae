//! Forced text on the vocabularies of real models: its tokens are those the tokenizer would have chosen for the whole.
//!
//! The known exceptions are stretches that end within a word (`"argu` of `"arguments`) where anything may follow: no
//! probe completes the very word. Their number must not grow.

use toolgate_infer::{Backend, Forced, Specials, TokenId, canonical};
use toolgate_llama::{ContextOptions, Load};

use crate::support::model;

/// What is forced and what follows it in calls, code and prose.
const TEXTS: [&str; 12] = [
    "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"src/main.rs\", \"max_lines\": 20}}\n</tool_call>",
    "{\"name\": \"search_codebase\", \"arguments\": {\"query\": \"not found\", \"path\": \"logs/2026-11-22\"}}",
    "{\"id\":12345,\"tags\":[\"a\",\"bb\",\"ccc\"],\"nested\":{\"x\":-1.5e10,\"y\":null,\"z\":true}}",
    "[get_weather(city='Zürich', days=3), get_time(zone=\"Europe/Zurich\")]",
    "<function=write_file>\n<parameter=path>\nnotes/plan.md\n</parameter>\n<parameter=content>\n# Plan\n\n- one\n- two\n</parameter>\n</function>",
    "fn main() {\n    let mut total = 0;\n    for i in 0..10 {\n        total += i;\n    }\n    println!(\"{total}\");\n}\n",
    "It's the user's file; they've said they'll read it, haven't they? I'd say so, and we're done.",
    "Größe, Straße, naïve café — 12 €, “quoted” text… and 日本語のファイル、名前は「計画」です。",
    "a  b   c    d\t\te\n\n\nf \n g\r\nh",
    "0123456789 10 100 1000 10000 3.14159 2026-11-22T07:30:00Z 255.255.255.0",
    "{\n  \"properties\": {\n    \"name\": {\n      \"type\": \"string\"\n    }\n  }\n}",
    "😀😀 emoji \u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467} family, ∑∫√ maths, кириллица, ελληνικά",
];

/// Every stretch of each text that begins where a token does is forced; what is written of it must be the tokenizer's
/// own tokens of the whole text. At most `allowed` of the stretches may be exceptions, which are listed.
fn check(id: &str, allowed: usize) {
    let Some(model) = model(id, Load::All) else { return };
    let options = ContextOptions { context: Some(64), threads: Some(1), ..ContextOptions::default() };
    let backend = model.backend(&options).unwrap();
    let bytes = |token: TokenId| backend.vocabulary().bytes(token);
    let (mut stretches, mut exceptions, mut forced_bytes, mut written_bytes) = (0, Vec::new(), 0, 0);
    for text in TEXTS {
        let tokens = backend.tokenize(text, Specials::Plain).unwrap();
        let mut start = 0;
        for (index, &first) in tokens.iter().enumerate() {
            let ends = (start + 1..=text.len()).filter(|end| text.is_char_boundary(*end));
            for end in ends.take(48).filter(|_| text.is_char_boundary(start)) {
                let forced = Forced { bytes: text.as_bytes()[start..end].to_vec(), ..Forced::default() };
                let written = canonical(&backend, &tokens[..index], &forced).unwrap();
                stretches += 1;
                forced_bytes += end - start;
                written_bytes += written.iter().map(|&token| bytes(token).len()).sum::<usize>();
                if !tokens[index..].starts_with(&written) {
                    exceptions.push(format!("{:?} behind {:?}", &text[start..end], &text[..start]));
                }
            }
            start += bytes(first).len();
        }
    }
    let share = 100.0 * written_bytes as f64 / forced_bytes as f64;
    eprintln!(
        "{id}: {} exceptions in {stretches} stretches; {share:.1} % of their bytes are written",
        exceptions.len()
    );
    exceptions.iter().take(20).for_each(|exception| eprintln!("  {exception}"));
    assert!(exceptions.len() <= allowed, "{} exceptions", exceptions.len());
    assert!(share > 50.0, "most of what is forced is written, not held back");
}

#[test]
fn forced_tokens_are_the_tokenizer_s_own_with_a_small_model() {
    check("smollm2-135m", 659);
}

#[test]
fn forced_tokens_are_the_tokenizer_s_own_with_the_default_model() {
    check("qwen2.5-coder-0.5b", 677);
}
