//! Forced text of real call grammars on real vocabularies: a turn whose forced stretches are written canonically, and
//! the rest as the tokenizer would, has the tokens that the tokenizer gives its text.

use std::sync::Arc;

use serde_json::json;
use toolgate_chat::format::Family;
use toolgate_chat::{ToolFormat, ToolSpec, TurnRequest};
use toolgate_grammar::gbnf::{SampleOptions, Sampler};
use toolgate_grammar::{Automaton, Grammar, Limits};
use toolgate_infer::{Backend, Constraint, Follow, Specials, TokenId, canonical};
use toolgate_llama::Tokenizer;

use crate::vocabularies::each;

/// Random texts of each family's grammar.
const TEXTS: u64 = 12;

fn tools() -> Vec<ToolSpec> {
    let path = json!({"type": "string", "description": "a path"});
    let tool = |name: &str, properties: serde_json::Value| {
        let first = properties.as_object().unwrap().keys().next().unwrap().clone();
        let schema = json!({"type": "object", "properties": properties, "required": [first]});
        ToolSpec::new(name, "", schema).unwrap()
    };
    vec![
        tool(
            "read_file",
            json!({"path": path, "max_lines": {"type": "integer", "minimum": 1, "maximum": 9999}}),
        ),
        tool("read_directory", json!({"path": path, "recursive": {"type": "boolean"}})),
        tool(
            "search",
            json!({"query": {"type": "string", "maxLength": 40}, "in": {"enum": ["name", "names", "content", "größe"]}}),
        ),
        tool(
            "send",
            json!({"to": {"type": "array", "items": {"type": "string"}, "minItems": 1}, "argument": {"type": "number"}}),
        ),
        tool(
            "now",
            json!({"zone": {"const": "Europe/Zurich"}, "options": {"type": "object", "properties": {"iso": {"type": ["null", "boolean"]}}}}),
        ),
    ]
}

/// What was counted with one vocabulary.
#[derive(Default)]
struct Counts {
    texts: usize,
    unspelled: usize,
    tokens: usize,
    forced_bytes: usize,
    written: usize,
    written_bytes: usize,
    exceptions: Vec<String>,
}

impl Counts {
    /// Writes a text as the decode loop does.
    fn write(&mut self, tokenizer: &Tokenizer, automaton: &Arc<Automaton>, text: &str) {
        let vocabulary = tokenizer.vocabulary();
        let tokens = tokenizer.tokenize(text, Specials::Plain).unwrap();
        let bytes = |tokens: &[TokenId]| -> Vec<u8> {
            tokens.iter().flat_map(|&token| vocabulary.bytes(token)).copied().collect()
        };
        if bytes(&tokens) != text.as_bytes() {
            self.unspelled += 1;
            return;
        }
        self.texts += 1;
        let mut matcher = automaton.matcher();
        let mut at = 0;
        while let Some(&next) = tokens.get(at) {
            let forced = Constraint::forced(&mut matcher).unwrap();
            let mut written = Vec::new();
            if !forced.bytes.is_empty() {
                written = canonical(tokenizer, &tokens[..at], &forced).unwrap();
                self.forced_bytes += forced.bytes.len();
                self.written_bytes += bytes(&written).len();
            }
            if !tokens[at..].starts_with(&written) {
                let follow = match &forced.follow {
                    Follow::Tokens(tokens) => format!("{} tokens", tokens.len()),
                    follow => format!("{follow:?}"),
                };
                let behind = String::from_utf8_lossy(&bytes(&tokens[..at])).into_owned();
                self.exceptions.push(format!(
                    "{:?} before {follow} behind {behind:?} of {text:?}",
                    String::from_utf8_lossy(&forced.bytes)
                ));
                return;
            }
            self.written += written.len();
            if written.is_empty() {
                written.push(next);
            }
            for &token in &written {
                Constraint::accept(&mut matcher, token).unwrap();
            }
            at += written.len();
            // What is held back costs one stretch, however many tokens the model takes for it.
            self.tokens += written.len();
        }
    }
}

fn grammars() -> Vec<(String, Grammar)> {
    let tools = tools();
    let call = |name: String| {
        let family = Family::named(&name).unwrap();
        let grammar = family.turn(&tools, &TurnRequest::default()).unwrap().call.unwrap();
        (name, grammar)
    };
    Family::names().into_iter().map(call).collect()
}

#[test]
fn forced_text_of_call_grammars_is_tokenized_as_in_the_whole_text() {
    let grammars = grammars();
    assert!(grammars.len() > 30);
    let mut failed = Vec::new();
    each(|name, tokenizer| {
        let mut counts = Counts::default();
        for (_, grammar) in &grammars {
            let automaton =
                Automaton::new(grammar, tokenizer.vocabulary().clone(), &Limits::default()).unwrap();
            let sampler = Sampler::new(grammar, &SampleOptions::default().max_len(300)).unwrap();
            for seed in 0..TEXTS {
                counts.write(tokenizer, &automaton, &sampler.seeded(seed).unwrap());
            }
        }
        let share = 100.0 * counts.written_bytes as f64 / counts.forced_bytes.max(1) as f64;
        eprintln!(
            "{name}: {} exceptions in {} texts ({} are not spelled by their tokens); {} of {} tokens forced, {share:.1} % of what is forced at a time is written",
            counts.exceptions.len(),
            counts.texts,
            counts.unspelled,
            counts.written,
            counts.tokens,
        );
        counts.exceptions.iter().take(5).for_each(|exception| eprintln!("  {exception}"));
        if !counts.exceptions.is_empty() || counts.texts > 0 && share < 50.0 {
            failed.push(format!("{name}: {} exceptions, {share:.1} % written", counts.exceptions.len()));
        }
    });
    assert!(failed.is_empty(), "{failed:?}");
}
