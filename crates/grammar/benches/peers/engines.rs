//! The engines that `peers` compares, behind one trait.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::{JsonCompileOptions, ParserFactory};
use serde_json::{Value, json};
use toolgate_grammar::{
    Automaton, Limits, Matcher, Options, Schema, TokenId, TokenKind, Vocabulary, Whitespace, compile,
};

use crate::vocabulary::Tokenizer;

/// Makes runs from schemas.
pub(crate) trait Engine {
    fn name(&self) -> String;

    /// Tokens of the vocabulary.
    fn tokens(&self) -> TokenId;

    /// Everything from the schema to a run that can be asked for its first mask.
    fn compile(&self, schema: &Value) -> Result<Box<dyn Run>, String>;

    /// Seconds that the stages of all compilations took so far, if it tells them apart.
    fn stages(&self) -> Value {
        Value::Null
    }
}

/// One text under a compiled schema. All of it is compact JSON, keys in the schema's order.
pub(crate) trait Run {
    /// Computes the mask; the work is done and kept where the engine keeps it.
    fn mask(&mut self) -> Result<(), String>;

    /// Whether the mask just computed has the token.
    fn masked(&self, token: TokenId) -> bool;

    fn check(&mut self, token: TokenId) -> bool;

    fn accept(&mut self, token: TokenId) -> Result<(), String>;

    /// A run of the same compiled schema from the start, with all that is known of it.
    fn again(&self) -> Box<dyn Run>;

    /// Bytes it says that it holds, if it says.
    fn bytes(&self) -> Option<usize>;
}

pub(crate) struct Ours {
    vocabulary: Arc<Vocabulary>,
    stages: Mutex<[Duration; 3]>,
}

impl Ours {
    pub(crate) fn new(tokenizer: &Tokenizer) -> Self {
        let vocabulary = Vocabulary::new(tokenizer.tokens.iter().cloned()).expect("a vocabulary");
        Self { vocabulary: Arc::new(vocabulary), stages: Mutex::default() }
    }

    pub(crate) fn automaton(&self, schema: &Value) -> Result<Arc<Automaton>, String> {
        let options = Options::default().whitespace(Whitespace::Compact);
        let start = Instant::now();
        let parsed = Schema::parse(schema).map_err(|error| error.to_string())?;
        let after_parse = start.elapsed();
        let compiled = compile(&parsed, &options).map_err(|error| error.to_string())?;
        let after_compile = start.elapsed();
        let automaton = Automaton::new(&compiled.grammar, Arc::clone(&self.vocabulary), &Limits::default());
        let after_all = start.elapsed();
        let took = [after_parse, after_compile - after_parse, after_all - after_compile];
        for (sum, took) in self.stages.lock().expect("no panic").iter_mut().zip(took) {
            *sum += took;
        }
        automaton.map_err(|error| error.to_string())
    }
}

impl Engine for Ours {
    fn name(&self) -> String {
        "toolgate".to_owned()
    }

    fn tokens(&self) -> TokenId {
        self.vocabulary.len() as TokenId
    }

    fn compile(&self, schema: &Value) -> Result<Box<dyn Run>, String> {
        let matcher = self.automaton(schema)?.matcher();
        Ok(Box::new(OurRun { matcher, mask: None }))
    }

    fn stages(&self) -> Value {
        let [parse, compile, automaton] = self.stages.lock().expect("no panic").map(|d| d.as_secs_f64());
        json!({"parse": parse, "grammar": compile, "automaton": automaton})
    }
}

struct OurRun {
    matcher: Matcher,
    mask: Option<Arc<toolgate_grammar::TokenSet>>,
}

impl Run for OurRun {
    fn mask(&mut self) -> Result<(), String> {
        self.mask = Some(self.matcher.mask().cloned().map_err(|error| error.to_string())?);
        Ok(())
    }

    fn masked(&self, token: TokenId) -> bool {
        self.mask.as_ref().is_some_and(|mask| mask.contains(token))
    }

    fn check(&mut self, token: TokenId) -> bool {
        self.matcher.allows(token).unwrap_or_default()
    }

    fn accept(&mut self, token: TokenId) -> Result<(), String> {
        self.matcher.accept(token).map_err(|error| error.to_string())
    }

    fn again(&self) -> Box<dyn Run> {
        Box::new(Self { matcher: self.matcher.automaton().matcher(), mask: None })
    }

    fn bytes(&self) -> Option<usize> {
        let usage = self.matcher.automaton().usage();
        Some(usage.mask_bytes + 16 * usage.states + usage.bytes)
    }
}

pub(crate) struct Llguidance {
    factory: ParserFactory,
}

impl Llguidance {
    pub(crate) fn new(tokenizer: &Tokenizer) -> Self {
        let marker = TokTrie::SPECIAL_TOKEN_MARKER;
        let words: Vec<Vec<u8>> = tokenizer
            .tokens
            .iter()
            .map(|(bytes, kind)| match kind {
                TokenKind::Text => bytes.clone(),
                TokenKind::Special | TokenKind::EndOfGeneration => [&[marker], bytes.as_slice()].concat(),
                TokenKind::Unused => Vec::new(),
            })
            .collect();
        let trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, tokenizer.end), &words);
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = llguidance::earley::SlicedBiasComputer::json_slices();
        let factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices);
        let mut factory = factory.expect("a factory");
        factory.quiet();
        Self { factory }
    }
}

impl Engine for Llguidance {
    fn name(&self) -> String {
        "llguidance".to_owned()
    }

    fn tokens(&self) -> TokenId {
        self.factory.tok_env().tok_trie().vocab_size() as TokenId
    }

    fn compile(&self, schema: &Value) -> Result<Box<dyn Run>, String> {
        let mut schema = schema.clone();
        let options = JsonCompileOptions {
            item_separator: ",".to_owned(),
            key_separator: ":".to_owned(),
            whitespace_flexible: false,
            ..JsonCompileOptions::default()
        };
        if schema == json!(true) {
            schema = json!({});
        }
        options.apply_to(&mut schema);
        let grammar = TopLevelGrammar::from_json_schema(schema);
        let parser = self.factory.create_parser(grammar).map_err(|error| error.to_string())?;
        let matcher = llguidance::Matcher::new(Ok(parser));
        Ok(Box::new(TheirRun { fresh: matcher.clone(), matcher, mask: None }))
    }
}

struct TheirRun {
    /// Clones share what the lexer has found out.
    fresh: llguidance::Matcher,
    matcher: llguidance::Matcher,
    mask: Option<llguidance::toktrie::SimpleVob>,
}

impl Run for TheirRun {
    fn mask(&mut self) -> Result<(), String> {
        self.mask = Some(self.matcher.compute_mask_or_eos().map_err(|error| error.to_string())?);
        Ok(())
    }

    fn masked(&self, token: TokenId) -> bool {
        self.mask.as_ref().is_some_and(|mask| mask.is_allowed(token))
    }

    fn check(&mut self, token: TokenId) -> bool {
        self.matcher.validate_tokens(&[token]).is_ok_and(|n| n == 1)
    }

    fn accept(&mut self, token: TokenId) -> Result<(), String> {
        self.matcher.consume_token(token).map_err(|error| error.to_string())
    }

    fn again(&self) -> Box<dyn Run> {
        Box::new(Self { fresh: self.fresh.clone(), matcher: self.fresh.clone(), mask: None })
    }

    fn bytes(&self) -> Option<usize> {
        None
    }
}
