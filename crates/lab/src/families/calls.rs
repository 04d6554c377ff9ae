//! Random tools' calls for the laws: arguments of every type, texts that look like markup among them. Seeded, so that each run
//! is the same.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value, json};
use toolgate_chat::{Error, ToolCall, ToolSpec};

/// Texts that values hold.
const TEXTS: &[&str] = &[
    "notes.txt",
    "src/main.rs",
    "two words",
    "Grüße aus Köln",
    "日本語の文",
    "a \"quoted\" word",
    "line\nbreak",
    "tab\there",
    "back\\slash",
    "it's 1 < 2 & 3 > 2",
    "",
    " spaces around ",
    "{\"a\": [1, 2]}",
    "<tool_call>",
    "[TOOL_CALLS]",
    "</think>",
    "<|im_end|>",
    "true",
    "42",
];

/// The tools that are offered.
pub(crate) fn tools() -> Result<Vec<ToolSpec>, Error> {
    let text = json!({"type": "string", "description": "A text"});
    let find = json!({"type": "object", "properties": {
        "path": text, "depth": {"type": "integer", "description": "How deep"},
        "share": {"type": "number", "description": "A share"},
        "all": {"type": "boolean", "description": "Whether all"}},
        "required": ["path"]});
    let save = json!({"type": "object", "properties": {
        "kind": {"type": "string", "enum": ["note", "to do"], "description": "Which"},
        "tags": {"type": "array", "items": {"type": "string"}, "description": "Tags"},
        "about": {"type": "object", "properties": {"who": {"type": "string"}, "n": {"type": "integer"}},
            "required": ["who", "n"], "additionalProperties": false, "description": "About"},
        "text": text}, "required": ["kind", "text"]});
    Ok(vec![
        ToolSpec::new("find_files", "Finds files", find)?,
        ToolSpec::new("save", "Saves a note", save)?,
        ToolSpec::new("now", "Tells the time", json!({"type": "object", "properties": {}}))?,
    ])
}

/// Draws turns.
pub(crate) struct Draw(Xoshiro256PlusPlus);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub(crate) fn text(&mut self) -> &'static str {
        TEXTS.get(self.below(TEXTS.len())).copied().unwrap_or_default()
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0.random_range(0..n.max(1))
    }

    /// So many calls.
    pub(crate) fn calls(&mut self, n: usize) -> Vec<ToolCall> {
        (0..n).map(|i| self.call().with_id(format!("call{i:05}"))).collect()
    }

    fn call(&mut self) -> ToolCall {
        let (name, arguments) = match self.below(5) {
            0 => ("now", json!({})),
            1 | 2 => ("find_files", self.find()),
            _ => ("save", self.save()),
        };
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        ToolCall::new(name, arguments)
    }

    fn find(&mut self) -> Value {
        let mut arguments = Map::new();
        arguments.insert("path".to_owned(), json!(self.text()));
        if self.below(2) == 0 {
            arguments.insert("depth".to_owned(), json!(self.below(5_000) as i64 - 100));
        }
        if self.below(2) == 0 {
            arguments.insert("share".to_owned(), json!((self.below(1_000) as f64 + 1.0) / 64.0));
        }
        if self.below(2) == 0 {
            arguments.insert("all".to_owned(), json!(self.below(2) == 0));
        }
        arguments.into()
    }

    fn save(&mut self) -> Value {
        let mut arguments = Map::new();
        let kind = if self.below(2) == 0 { "note" } else { "to do" };
        arguments.insert("kind".to_owned(), json!(kind));
        if self.below(2) == 0 {
            let tags: Vec<&str> = (0..self.below(3)).map(|_| self.text()).collect();
            arguments.insert("tags".to_owned(), json!(tags));
        }
        if self.below(2) == 0 {
            arguments.insert("about".to_owned(), json!({"who": self.text(), "n": self.below(9)}));
        }
        arguments.insert("text".to_owned(), json!(self.text()));
        arguments.into()
    }
}
