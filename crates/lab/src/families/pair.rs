//! A vocabulary with a template: the dialogue and the tokenizer that the laws look at.
//!
//! Invariant: the marks of the dialogue's family are tokens as the tokenizer has them, as in a model that is loaded.

use regex::Regex;
use serde_json::json;
use toolgate_chat::template::Ending;
use toolgate_chat::{
    Dialogue, Error, Message, Opened, ParsedTurn, PromptOptions, Template, TemplateTokens, ToolCall,
    ToolSpec, Transcript,
};
use toolgate_grammar::{TokenId, TokenKind};
use toolgate_infer::Specials;
use toolgate_llama::{Model, Tokenizer};

/// A vocabulary with a template that writes its control tokens.
pub(crate) struct Pair {
    pub(crate) vocabulary: String,
    pub(crate) template: String,
    pub(crate) dialogue: Dialogue,
    pub(crate) tokenizer: Tokenizer,
}

/// A conversation as tokens: the model's turn, and where it begins.
pub(crate) struct Turn {
    /// All of the prompt that ends with the turn.
    pub(crate) tokens: Vec<TokenId>,
    /// Where the turn begins in it.
    pub(crate) start: usize,
    /// The text of `tokens`.
    pub(crate) text: String,
}

impl Pair {
    /// None where the vocabulary does not have the control tokens that the template writes.
    pub(crate) fn new(
        vocabulary: &str,
        name: &str,
        model: &Model,
        source: String,
    ) -> Result<Option<Self>, Error> {
        let tokens = TemplateTokens { bos: model.bos().to_owned(), eos: model.eos().to_owned() };
        let template = Template::new(source, tokens)?;
        let dialogue = Dialogue::derived(template);
        let texts = dialogue.mark_texts();
        let model = model.marking(texts.iter().map(String::as_str), &[]);
        let specials = model.mark_tokens().iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
        let dialogue = dialogue.resolved(model.mark_tokens()).guarding(specials);
        let pair = Self {
            vocabulary: vocabulary.to_owned(),
            template: name.to_owned(),
            dialogue,
            tokenizer: Tokenizer(model),
        };
        Ok((name == super::OWN || pair.fits()).then_some(pair))
    }

    /// The name of the family.
    pub(crate) fn family(&self) -> &str {
        self.dialogue.format().name()
    }

    /// Whether a conversation in this template is written with control tokens of the vocabulary, and with no others.
    fn fits(&self) -> bool {
        let Ok(pattern) = Regex::new(CONTROLS) else { return false };
        let asked = question();
        let Ok(prompt) = self.prompt(&asked, &[], Ending::Generation) else { return false };
        let vocabulary = self.tokenizer.0.vocabulary();
        let texts: Vec<String> = [prompt].into_iter().chain(self.dialogue.format().call_texts()).collect();
        let names = || texts.iter().flat_map(|text| pattern.find_iter(text)).map(|found| found.as_str());
        names().next().is_some()
            && names().all(|name| vocabulary.special(name).is_some())
            && self.thinks_in_tokens()
    }

    /// Whether a prompt for a turn ends within a thought.
    pub(crate) fn opens_thought(&self) -> bool {
        self.dialogue.knowledge().opens_reasoning.is_some()
    }

    /// Whether the marks of thoughts are tokens, if the template knows of thoughts.
    fn thinks_in_tokens(&self) -> bool {
        let Some((open, _)) = self.dialogue.format().thoughts() else { return true };
        open.has_tokens() || !self.dialogue.template().source().contains(open.text().trim())
    }

    /// What a template leaves out of a turn, if it does: the calls beside a text, or all calls but the first.
    pub(crate) fn leaves_out(&self, said: &ParsedTurn, tools: &[ToolSpec]) -> Option<String> {
        let shown = |content: Option<&str>, calls: &[ToolCall]| {
            let said = Message::Assistant {
                content: content.map(str::to_owned),
                reasoning: None,
                calls: calls.to_vec(),
            };
            self.prompt(&question().with(said), tools, Ending::Closed).ok()
        };
        let whole = shown(said.content.as_deref(), &said.calls)?;
        let (_, fewer) = said.calls.split_last()?;
        match (&said.content, fewer) {
            (_, [_, ..]) if shown(said.content.as_deref(), fewer)? == whole => {
                Some("the template shows the first call of a turn alone".to_owned())
            }
            (Some(text), _) if shown(Some(text), &[])? == whole => {
                Some("the template leaves calls beside a text out".to_owned())
            }
            _ => None,
        }
    }

    /// Whether a template puts a text between the marks of thoughts.
    pub(crate) fn shows_as_thought(&self, turn: &Turn, text: &str) -> bool {
        let open = self.dialogue.format().thoughts().map(|(open, _)| open.text());
        open.is_some_and(|open| turn.text.contains(&format!("{open}{text}")))
    }

    fn prompt(&self, transcript: &Transcript, tools: &[ToolSpec], ending: Ending) -> Result<String, Error> {
        Ok(self.dialogue.prompt(transcript, tools, &options(ending))?.text())
    }

    /// The tokens of a prompt, and its text.
    fn tokens(
        &self,
        transcript: &Transcript,
        tools: &[ToolSpec],
        ending: Ending,
    ) -> Result<(Vec<TokenId>, String), String> {
        let prompt = self.dialogue.prompt(transcript, tools, &options(ending));
        let prompt = prompt.map_err(|error| format!("the template refuses it: {error}"))?;
        let mut tokens = Vec::new();
        for piece in &prompt.pieces {
            let piece = self.tokenizer.0.tokenize(piece, Specials::Parse);
            tokens.extend(piece.map_err(|error| error.to_string())?);
        }
        Ok((tokens, prompt.text()))
    }

    /// A turn of the model in answer to a question, as the template shows it afterwards.
    pub(crate) fn turn(&self, said: Message, tools: &[ToolSpec]) -> Result<Turn, String> {
        let asked = question();
        let (before, _) = self.tokens(&asked, tools, Ending::Generation)?;
        let (tokens, text) = self.tokens(&asked.with(said), tools, Ending::Closed)?;
        let start = before.iter().zip(&tokens).take_while(|(a, b)| a == b).count();
        Ok(Turn { tokens, start, text })
    }

    /// What the template writes behind an answer.
    pub(crate) fn behind_answers(&self) -> String {
        const ANSWER: &str = "It is noon by the wall.";
        let said = question().with(Message::answer(ANSWER));
        let text = self.prompt(&said, &[], Ending::Closed).unwrap_or_default();
        text.rsplit_once(ANSWER).map(|(_, behind)| behind.to_owned()).unwrap_or_default()
    }

    /// The text of tokens, special ones by name.
    pub(crate) fn text(&self, tokens: &[TokenId]) -> String {
        let vocabulary = self.tokenizer.0.vocabulary();
        let bytes: Vec<u8> = tokens.iter().flat_map(|&token| vocabulary.bytes(token)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Tokens for a person: each by its text, special ones with their number.
    pub(crate) fn shown(&self, tokens: &[TokenId]) -> String {
        let vocabulary = self.tokenizer.0.vocabulary();
        let token = |&token: &TokenId| {
            let text = String::from_utf8_lossy(vocabulary.bytes(token)).into_owned();
            match vocabulary.kind(token) {
                TokenKind::Text => format!("{text:?}"),
                _ => format!("{text}[{token}]"),
            }
        };
        tokens.iter().map(token).collect::<Vec<_>>().join(" ")
    }
}

/// What control tokens are called.
const CONTROLS: &str = r"<\|[^<>|\s]+\|?>|<[^<>|\s]+\|>|<｜[^<>｜\s]+｜>|｜[A-Z]+｜|\[/?[A-Z][A-Z_]+\]|</?(?:start|end)_of_turn>";

fn question() -> Transcript {
    Transcript::new().with(Message::User("What is the time?".to_owned()))
}

fn options(ending: Ending) -> PromptOptions {
    let now = Some(toolgate_chat::template::DateTime::constant(2026, 3, 1, 12, 0, 0, 0));
    PromptOptions { ending, now, extra: json!({}), reasoning: Opened::Keep, begun: None }
}
