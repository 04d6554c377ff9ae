//! What `toolgate bench mask` computes masks for: grammars, and texts of theirs as tokens.

use std::sync::Arc;

use anyhow::Context;
use serde_json::{Map, Value, json};
use toolgate_chat::{ToolCall, ToolFormat, ToolSpec, TurnRequest};
use toolgate_grammar::compile::render;
use toolgate_grammar::{self as grammar, Grammar, Schema, TokenId, Whitespace, compile};

use crate::jsonl::Jsonl;

/// Calls of one tool set that are replayed.
const MOST_CALLS: usize = 20;

/// Grammars that are measured together.
pub(super) struct Workload {
    pub(super) name: String,
    pub(super) cases: Vec<Case>,
}

/// A grammar, from what it is made of, and texts that match it.
pub(super) struct Case {
    definition: Definition,
    pub(super) traces: Vec<Trace>,
}

enum Definition {
    /// The calls of these tools, in a model's own form.
    Calls(Arc<dyn ToolFormat>, Vec<ToolSpec>),
    /// The compact JSON that fits a schema.
    Value(Value),
}

/// A text as tokens, and where in it each token begins; last the place where it ends.
pub(super) struct Trace {
    pub(super) tokens: Vec<TokenId>,
    pub(super) places: Vec<Place>,
}

/// Where in a text a token begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Start,
    /// Between double quotes, those of keys and names included.
    InString,
    Elsewhere,
    End,
}

impl Place {
    pub(super) const ALL: [Self; 4] = [Self::Start, Self::InString, Self::Elsewhere, Self::End];

    /// Its name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::InString => "in_string",
            Self::Elsewhere => "elsewhere",
            Self::End => "end",
        }
    }
}

/// Makes traces of texts.
pub(super) struct Tokenizer<'a> {
    /// The model's own tokenizer.
    pub(super) tokenize: &'a dyn Fn(&str) -> anyhow::Result<Vec<TokenId>>,
    /// How many bytes a token has.
    pub(super) length: &'a dyn Fn(TokenId) -> usize,
}

impl Tokenizer<'_> {
    fn trace(&self, text: &str) -> anyhow::Result<Trace> {
        let tokens = (self.tokenize)(text)?;
        let quoted = quoted(text);
        let (mut at, mut places) = (0, Vec::with_capacity(tokens.len() + 1));
        for &token in &tokens {
            places.push(match quoted.get(at) {
                _ if places.is_empty() => Place::Start,
                Some(true) => Place::InString,
                _ => Place::Elsewhere,
            });
            at += (self.length)(token);
        }
        places.push(Place::End);
        Ok(Trace { tokens, places })
    }
}

/// For each byte whether it stands between double quotes; the closing quote does, the opening one does not.
fn quoted(text: &str) -> Vec<bool> {
    let (mut inside, mut escaped) = (false, false);
    text.bytes()
        .map(|byte| {
            let was = inside;
            inside ^= byte == b'"' && !escaped;
            escaped = byte == b'\\' && inside && !escaped;
            was
        })
        .collect()
}

impl Case {
    /// The grammar, made anew.
    pub(super) fn grammar(&self) -> anyhow::Result<Grammar> {
        match &self.definition {
            Definition::Calls(format, tools) => {
                let request =
                    TurnRequest { parallel: std::num::NonZeroUsize::new(1), ..TurnRequest::default() };
                format.turn(tools, &request)?.call.context("there is no tool to call")
            }
            Definition::Value(schema) => {
                let options = grammar::Options::default().whitespace(Whitespace::Compact);
                Ok(compile(&Schema::parse(schema)?, &options)?.grammar)
            }
        }
    }
}

impl Workload {
    /// Calls of one out of `n` generated tools of three to five parameters.
    pub(super) fn tools(
        n: usize,
        format: &Arc<dyn ToolFormat>,
        tokenizer: &Tokenizer<'_>,
    ) -> anyhow::Result<Self> {
        let specs: Vec<ToolSpec> = (0..n).map(tool).collect::<anyhow::Result<_>>()?;
        let calls = n.min(MOST_CALLS);
        let traces = (0..calls).filter_map(|call| specs.get(call * n / calls).map(|spec| (call, spec)));
        let traces = traces.map(|(call, spec)| {
            let made = ToolCall::new(spec.name.as_str(), spec.arrange(&arguments(spec, call % 2 == 0)));
            tokenizer.trace(&format.render_calls(&[made], &specs))
        });
        let traces = traces.collect::<anyhow::Result<_>>()?;
        let name = format!("{n} tool{}", if n == 1 { "" } else { "s" });
        Ok(Self {
            name,
            cases: vec![Case { definition: Definition::Calls(Arc::clone(format), specs), traces }],
        })
    }

    /// Any JSON value.
    pub(super) fn json(tokenizer: &Tokenizer<'_>) -> anyhow::Result<Self> {
        let text = r#"{"id":17,"name":"a \"quoted\" name","tags":["x","été","日本"],"nested":{"deep":[[1.5e-3,null],{"k":true}]},"text":"The quick brown fox jumps over the lazy dog.\n"}"#;
        let case = Case { definition: Definition::Value(json!(true)), traces: vec![tokenizer.trace(text)?] };
        Ok(Self { name: "generic JSON".to_owned(), cases: vec![case] })
    }

    /// The first schemas of a corpus that have valid instances.
    ///
    /// # Errors
    /// A file that cannot be read, a line that is no case, and a corpus without any.
    pub(super) fn schemas(corpus: &Jsonl, limit: usize, tokenizer: &Tokenizer<'_>) -> anyhow::Result<Self> {
        let mut cases = Vec::new();
        for row in corpus.rows() {
            if cases.len() == limit {
                break;
            }
            let row = row?;
            let document = row.get("schema").ok_or_else(|| row.is_not("schema", "there"))?;
            let instances = row.list("valid_instances")?;
            // A schema that is refused is counted when it is compiled.
            let schema = Schema::parse(document).ok();
            let texts =
                instances.iter().map(|instance| render(instance, schema.as_ref(), Whitespace::Compact));
            let traces: Vec<Trace> =
                texts.map(|text| tokenizer.trace(&text)).collect::<anyhow::Result<_>>()?;
            if !traces.is_empty() {
                cases.push(Case { definition: Definition::Value(document.clone()), traces });
            }
        }
        anyhow::ensure!(!cases.is_empty(), "the corpus has no schema with valid_instances");
        let name = format!("{} schema{}", cases.len(), if cases.len() == 1 { "" } else { "s" });
        Ok(Self { name, cases })
    }
}

/// A tool whose parameters are of the kinds that tools have.
fn tool(number: usize) -> anyhow::Result<ToolSpec> {
    let kinds = [
        json!({"type": "string"}),
        json!({"type": "string", "minLength": 1, "maxLength": 60}),
        json!({"type": "integer", "minimum": 0, "maximum": 1000}),
        json!({"type": "boolean"}),
        json!({"type": "array", "items": {"type": "string"}, "maxItems": 10}),
    ];
    let mut properties = Map::from_iter([("path".to_owned(), json!({"type": "string"}))]);
    for (parameter, kind) in kinds.iter().cycle().skip(number % kinds.len()).take(2 + number % 3).enumerate()
    {
        properties.insert(format!("parameter_{parameter}"), kind.clone());
    }
    let parameters = json!({
        "type": "object", "properties": properties, "required": ["path"], "additionalProperties": false
    });
    Ok(ToolSpec::new(&format!("tool_{number}"), "", parameters)?)
}

/// Arguments of a call: those that are required, or all of them.
fn arguments(spec: &ToolSpec, all: bool) -> Map<String, Value> {
    let mut arguments = Map::from_iter([("path".to_owned(), json!("src/engine/data list.rs"))]);
    let properties = spec.parameters.get("properties").and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten().filter(|(name, _)| all && *name != "path") {
        arguments.insert(
            name.clone(),
            match schema.get("type").and_then(Value::as_str) {
                Some("integer") => json!(417),
                Some("boolean") => json!(true),
                Some("array") => json!(["first", "second one"]),
                _ => json!("some text, not long"),
            },
        );
    }
    arguments
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn quotes_that_are_escaped_do_not_end_a_string() {
        let shown =
            |text: &str| -> String { quoted(text).iter().map(|&q| if q { 's' } else { '.' }).collect() };
        assert_eq!(shown(r#"{"a":1}"#), "..ss...");
        assert_eq!(shown(r#""\"x" 1"#), ".ssss..");
        assert_eq!(shown(r#""\\" 1"#), ".sss..");
    }

    #[test]
    fn places_are_those_of_the_tokens_first_bytes() {
        let tokenize = |text: &str| Ok(text.bytes().map(u32::from).collect());
        let tokenizer = Tokenizer { tokenize: &tokenize, length: &|_| 1 };
        let trace = tokenizer.trace("{\"a\":1}").unwrap();
        let names: Vec<&str> = trace.places.iter().map(|place| place.name()).collect();
        assert_eq!(
            names,
            ["start", "elsewhere", "in_string", "in_string", "elsewhere", "elsewhere", "elsewhere", "end"]
        );
    }
}
