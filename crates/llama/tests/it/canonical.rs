//! Forced text on the vocabularies of real models: its tokens are those the tokenizer would have chosen for the whole.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use toolgate_infer::{Backend, Forced, Specials, TokenId, TokenKind, canonical};
use toolgate_llama::Tokenizer;

use crate::vocabularies::each;

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

/// What random texts are made of: what patterns that split texts into words tell apart, and what merges across.
const PARTS: [&str; 48] = [
    " ", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "a", "b", "the", "The", "THE", "arg", "uments",
    "name", "s", "t", "ll", "re", "'", "\"", "\":", ",", ".", "..", "/", "//", "{", "}", "}}", "[", "](",
    "_", "-", "--", "=", "<", "</", ">", "1", "23", "456", "é", "日", "本語", "😀", "ß",
];

fn random_text(rng: &mut Xoshiro256PlusPlus) -> String {
    (0..rng.random_range(1..24)).map(|_| PARTS[rng.random_range(0..PARTS.len())]).collect()
}

/// Tokens and the place where each ends; none where they do not spell the text.
fn tokens_of(tokenizer: &Tokenizer, text: &str) -> Option<Vec<(TokenId, usize)>> {
    let vocabulary = tokenizer.vocabulary();
    let mut end = 0;
    let tokens: Option<Vec<_>> = tokenizer
        .tokenize(text, Specials::Plain)
        .unwrap()
        .into_iter()
        .map(|token| {
            let bytes = vocabulary.bytes(token);
            let spelled =
                vocabulary.kind(token) == TokenKind::Text && text.as_bytes()[end..].starts_with(bytes);
            end += bytes.len();
            spelled.then_some((token, end))
        })
        .collect();
    tokens.filter(|_| end == text.len())
}

/// What the proof in `forced.rs` rests on: a text cut where one of its tokens ends has the same tokens, but behind
/// a blank and within a code point.
#[test]
fn tokens_before_a_boundary_do_not_depend_on_what_is_behind() {
    let mut failed = Vec::new();
    each(|name, tokenizer| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(42);
        let random = (0..800).map(|_| random_text(&mut rng));
        let (mut cuts, mut unspelled, mut exceptions) = (0, 0, Vec::new());
        for text in TEXTS.map(str::to_owned).into_iter().chain(random) {
            let Some(tokens) = tokens_of(tokenizer, &text) else {
                unspelled += 1;
                continue;
            };
            for (index, &(_, end)) in tokens.iter().enumerate() {
                let Some(before) = text.get(..end) else { continue };
                if before.ends_with(char::is_whitespace) {
                    continue;
                }
                cuts += 1;
                if tokens_of(tokenizer, before).as_deref() != Some(&tokens[..=index]) {
                    exceptions.push(format!("{before:?} of {text:?}"));
                }
            }
        }
        eprintln!(
            "{name}: {} exceptions in {cuts} cuts; {unspelled} texts are not spelled by their tokens",
            exceptions.len()
        );
        exceptions.iter().take(10).for_each(|exception| eprintln!("  {exception}"));
        if !exceptions.is_empty() {
            failed.push(format!("{name}: {}", exceptions.len()));
        }
    });
    assert!(failed.is_empty(), "{failed:?}");
}

/// Every stretch of each text that begins where a token does is forced; what is written of it must be the tokenizer's
/// own tokens of the whole text.
#[test]
fn forced_tokens_are_the_tokenizer_s_own() {
    let mut failed = Vec::new();
    each(|name, tokenizer| {
        let (mut stretches, mut exceptions, mut forced_bytes, mut written_bytes) = (0, Vec::new(), 0, 0);
        for text in TEXTS {
            let Some(tokens) = tokens_of(tokenizer, text) else { continue };
            let ids: Vec<TokenId> = tokens.iter().map(|&(token, _)| token).collect();
            for index in 0..tokens.len() {
                let start = if index == 0 { 0 } else { tokens[index - 1].1 };
                for end in (start + 1..=text.len()).take(32) {
                    let forced = Forced { bytes: text.as_bytes()[start..end].to_vec(), ..Forced::default() };
                    let written = canonical(tokenizer, &ids[..index], &forced).unwrap();
                    stretches += 1;
                    forced_bytes += end - start;
                    written_bytes +=
                        written.iter().map(|&token| tokenizer.vocabulary().bytes(token).len()).sum::<usize>();
                    if !ids[index..].starts_with(&written) {
                        let stretch = String::from_utf8_lossy(&text.as_bytes()[start..end]);
                        exceptions.push(format!("{stretch:?} of {text:?} at {start}"));
                    }
                }
            }
        }
        let share = 100.0 * written_bytes as f64 / forced_bytes.max(1) as f64;
        eprintln!(
            "{name}: {} exceptions in {stretches} stretches; {share:.1} % of their bytes are written",
            exceptions.len()
        );
        exceptions.iter().take(10).for_each(|exception| eprintln!("  {exception}"));
        if !exceptions.is_empty() || stretches > 0 && share < 50.0 {
            failed.push(format!("{name}: {} exceptions, {share:.1} % written", exceptions.len()));
        }
    });
    assert!(failed.is_empty(), "{failed:?}");
}
