//! A family as a [`ToolFormat`]: its syntax, known by name or learned from a template.

use std::sync::Arc;

use toolgate_grammar::Grammar;
use toolgate_grammar::marks::{Mark, MarkTokens};

use super::messages::Messages;
use super::stream::{Start, TurnStream};
use super::syntax::{Arguments, Close, Syntax};
use super::{TextPlace, TokenStream, ToolFormat, TurnGrammar, TurnRequest, dialects, families, instructions};
use crate::error::Error;
use crate::model::{ParsedTurn, ToolCall};
use crate::spec::ToolSpec;

/// A family of models that write calls in one form.
///
/// ```
/// # use toolgate_chat::format::{Family, ToolFormat}; use toolgate_chat::{ToolCall, ToolSpec}; use serde_json::json;
/// let coder = Family::named("qwen3_coder").expect("a known family");
/// let tools = [ToolSpec::new("wait", "", json!({"properties": {"seconds": {"type": "integer"}}}))?];
/// let call = ToolCall::new("wait", json!({"seconds": 3}).as_object().unwrap().clone());
/// let text = coder.render_calls(&[call.clone()], &tools);
/// assert_eq!(text, "<tool_call>\n<function=wait>\n<parameter=seconds>\n3\n</parameter>\n</function>\n</tool_call>");
/// assert!(coder.parse(&text, &tools).calls[0].same_request(&call));
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Family {
    syntax: Arc<Syntax>,
    tells: Tells,
    openings: Vec<String>,
    markers: Vec<String>,
}

/// How tools are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tells {
    Definitions,
    Signatures,
}

impl Family {
    /// The family of a name: `hermes`, `mistral`, `glm`, ….
    pub fn named(name: &str) -> Option<Self> {
        families::named(name).map(Self::new)
    }

    /// Hermes 2/3, Qwen2.5 and Qwen3: `<tool_call>\n{"name": "f", "arguments": {…}}\n</tool_call>`, several calls with a
    /// line break between them.
    pub fn hermes() -> Self {
        Self::new(families::hermes())
    }

    /// For models whose template knows no tools: calls as in [`hermes`](Self::hermes), tools as one-line signatures, for
    /// such models are small.
    ///
    /// ```
    /// # use toolgate_chat::format::{Family, ToolFormat}; use toolgate_chat::ToolSpec; use serde_json::json;
    /// let schema = json!({"properties": {"path": {"type": "string"}, "depth": {"type": "integer"}}, "required": ["path"]});
    /// let tools = [ToolSpec::new("list_directory", "List a directory", schema)?];
    /// let told = Family::generic().instructions(&tools);
    /// assert!(told.contains("- list_directory(path: string, depth?: integer): List a directory"));
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn generic() -> Self {
        let syntax = Syntax { name: "generic".into(), ..families::hermes() };
        Self { tells: Tells::Signatures, ..Self::new(syntax) }
    }

    /// The names of all families that are known beforehand.
    ///
    /// ```
    /// # use toolgate_chat::format::Family;
    /// let names = Family::names();
    /// assert!(names.iter().any(|name| name == "hermes"));
    /// assert!(names.iter().all(|name| Family::named(name).is_some()));
    /// ```
    pub fn names() -> Vec<String> {
        families::all().into_iter().map(|syntax| syntax.name.into_owned()).collect()
    }

    pub(crate) fn new(syntax: Syntax) -> Self {
        let mut openings: Vec<String> = dialects::OPENINGS.iter().map(|text| (*text).to_owned()).collect();
        let mut markers: Vec<String> = dialects::TAGS.iter().map(|text| (*text).to_owned()).collect();
        for opening in syntax.own_openings().into_iter().rev() {
            // A listed opening that this one begins with stands for it already.
            let is_listed =
                dialects::OPENINGS.iter().any(|listed| listed.len() > 2 && opening.starts_with(listed));
            if !opening.trim().is_empty() && !is_listed {
                openings.insert(0, opening);
            }
        }
        let mut own: Vec<String> = syntax.mark().into_iter().collect();
        own.extend(syntax.messages.iter().flat_map(Messages::texts).map(|text| text.trim().to_owned()));
        if let Some((open, close)) = &syntax.reasoning {
            own.extend([open.trim().to_owned(), close.trim().to_owned()]);
        }
        own.push(syntax.answer.trim().to_owned());
        for marker in own {
            // A word alone is no markup.
            if marker.starts_with(['<', '[', ']']) && !markers.contains(&marker) {
                markers.push(marker);
            }
        }
        Self { syntax: Arc::new(syntax), tells: Tells::Definitions, openings, markers }
    }
}

impl ToolFormat for Family {
    fn name(&self) -> &str {
        &self.syntax.name
    }

    fn instructions(&self, tools: &[ToolSpec]) -> String {
        match self.tells {
            Tells::Definitions => instructions::definitions(tools, &self.syntax),
            Tells::Signatures => instructions::signatures(tools),
        }
    }

    fn write_calls(&self, calls: &[ToolCall], tools: &[ToolSpec]) -> Mark {
        self.syntax.render(calls, tools)
    }

    fn resolved(&self, tokens: &MarkTokens) -> Arc<dyn ToolFormat> {
        let syntax = Syntax { tokens: tokens.clone(), ..(*self.syntax).clone() };
        Arc::new(Self { syntax: Arc::new(syntax), ..self.clone() })
    }

    fn mark(&self, text: &str) -> Mark {
        self.syntax.tokens.resolve(text)
    }

    fn thoughts(&self) -> Option<(Mark, Mark)> {
        self.syntax.reasoning.as_ref().map(|(open, close)| (self.mark(open), self.mark(close)))
    }

    fn value_ends(&self) -> Vec<Mark> {
        let end = match &self.syntax.arguments {
            Arguments::Elements(elements) => Some(match &elements.close {
                Close::Text(close) => close.trim_start().to_owned(),
                Close::Keyed(before, _) => before.trim_start().to_owned(),
            }),
            Arguments::Gemma(quote) => Some(quote.to_string()),
            Arguments::Json(_) | Arguments::Pythonic => None,
        };
        end.iter().map(|end| self.mark(end)).collect()
    }

    fn texts(&self) -> Vec<String> {
        self.syntax.texts()
    }

    fn call_texts(&self) -> Vec<String> {
        self.syntax.call_texts()
    }

    fn turn(&self, tools: &[ToolSpec], request: &TurnRequest) -> Result<TurnGrammar, Error> {
        self.syntax.turn(tools, request)
    }

    fn answer_head(&self) -> &str {
        &self.syntax.answer
    }

    fn text(&self, place: TextPlace, openings: &[String]) -> Result<Grammar, Error> {
        self.syntax.text(place, openings)
    }

    fn stream(&self, tools: &[ToolSpec], start: Start) -> TurnStream {
        TurnStream::new(self.syntax.clone(), tools, start)
    }

    fn token_stream(&self, tools: &[ToolSpec], start: Start) -> TokenStream {
        let mut texts = self.texts();
        texts.extend(self.markers.iter().chain(&self.openings).cloned());
        TokenStream::new(self.stream(tools, start), &self.syntax.tokens, &texts)
    }

    fn parse(&self, text: &str, tools: &[ToolSpec]) -> ParsedTurn {
        self.syntax.read(text, tools)
    }

    fn openings(&self) -> Vec<&str> {
        self.openings.iter().map(String::as_str).collect()
    }

    fn openings_in_text(&self) -> Vec<String> {
        match self.syntax.messages {
            Some(_) => self.syntax.own_openings(),
            None => self.syntax.mark().into_iter().collect(),
        }
    }

    fn text_heads(&self) -> Vec<&str> {
        let preamble = self.syntax.messages.iter().map(|messages| messages.preamble.as_ref());
        std::iter::once(self.answer_head()).chain(preamble).filter(|head| !head.is_empty()).collect()
    }

    fn text_end(&self) -> &str {
        self.syntax.messages.as_ref().map_or("", |messages| &messages.next)
    }

    fn markers(&self) -> Vec<&str> {
        self.markers.iter().map(String::as_str).collect()
    }
}
