//! The names of a client's tools, and the names that the model knows them by. Programs name tools as they like. Names in a prompt
//! and a grammar are plain ([`ToolName`]).
//!
//! Invariant: no two tools of a request have the same name for the model, and each name leads back to the client's own.

use std::collections::{BTreeMap, BTreeSet};

use toolgate_chat::{Message, ToolName, Transcript};
use unicode_normalization::UnicodeNormalization as _;

/// Characters of a name that was made plain.
const LONGEST: usize = 64;

/// The names that had to be made plain, from the model's to the client's and back.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    given: BTreeMap<String, String>,
    plain: BTreeMap<String, ToolName>,
}

impl Names {
    /// Makes the names of all tools plain. Plain names stay as they are.
    pub(super) fn of<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Self {
        let is_plain = |name: &&str| ToolName::new(name).is_ok();
        let mut taken: BTreeSet<String> = names.clone().filter(is_plain).map(str::to_owned).collect();
        let mut same: BTreeMap<String, usize> = BTreeMap::new();
        let mut all = Self::default();
        for name in names.filter(|name| !name.is_empty() && !is_plain(name)) {
            if all.plain.contains_key(name) {
                continue;
            }
            let base = plain(name);
            let count = same.entry(base.clone()).or_insert(0);
            let found = loop {
                *count += 1;
                let wanted = if *count == 1 { base.clone() } else { format!("{base}_{count}") };
                if taken.insert(wanted.clone()) {
                    break ToolName::new(&wanted);
                }
            };
            if let Ok(found) = found {
                all.given.insert(found.as_str().to_owned(), name.to_owned());
                all.plain.insert(name.to_owned(), found);
            }
        }
        all
    }

    /// The model's name for a client's tool. `None` for a name that stays as it is.
    pub(super) fn for_model(&self, name: &str) -> Option<&ToolName> {
        self.plain.get(name)
    }

    /// The client's name for a tool of the model's.
    pub(super) fn for_client(&self, name: String) -> String {
        self.given.get(&name).cloned().unwrap_or(name)
    }

    /// The conversation with the names that the model knows.
    pub(super) fn told(&self, mut transcript: Transcript) -> Transcript {
        let tell = |name: &mut String| {
            if let Some(plain) = self.for_model(name) {
                plain.as_str().clone_into(name);
            }
        };
        for message in transcript.messages_mut() {
            match message {
                Message::Assistant { calls, .. } => calls.iter_mut().for_each(|call| tell(&mut call.name)),
                Message::Tool(replies) => replies.iter_mut().for_each(|reply| tell(&mut reply.name)),
                Message::System(_) | Message::User(_) => {}
            }
        }
        transcript
    }
}

/// A name that a tool can have. Letters lose their accents, and `_` stands for all else.
fn plain(name: &str) -> String {
    let mut out = String::new();
    for c in name.nfkd().take(LONGEST * 4) {
        match c {
            _ if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') => out.push(c),
            // An accent stands behind its letter.
            '\u{300}'..='\u{36f}' => {}
            _ if !out.ends_with('_') => out.push('_'),
            _ => {}
        }
    }
    let out: String = out.trim_matches('_').chars().take(LONGEST).collect();
    if out.chars().any(|c| c.is_ascii_alphanumeric()) { out } else { "tool".to_owned() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::Map;
    use toolgate_chat::{ToolCall, ToolReply};

    use super::*;

    #[test]
    fn names_are_made_plain_and_lead_back() {
        let given =
            ["fs/read", "fs:read", "fs_read", "get weather", "Größe", "天気", "予報", "fs/read", "a.b-c", ""];
        let names = Names::of(given.iter().copied());
        let plain: Vec<String> = given
            .iter()
            .map(|name| names.for_model(name).map_or((*name).to_owned(), |plain| plain.as_str().to_owned()))
            .collect();
        assert_eq!(
            plain,
            [
                "fs_read_2",
                "fs_read_3",
                "fs_read",
                "get_weather",
                "Gro_e",
                "tool",
                "tool_2",
                "fs_read_2",
                "a.b-c",
                ""
            ]
        );
        for (given, plain) in given.iter().zip(plain) {
            assert_eq!(names.for_client(plain), *given);
        }
        let long = "very long ".repeat(40);
        let names = Names::of([long.as_str()].into_iter());
        assert!(names.for_model(&long).unwrap().as_str().len() <= LONGEST);
    }

    #[test]
    fn a_history_is_told_by_the_names_that_the_model_knows() {
        let names = Names::of(["fs/read"].into_iter());
        let call = ToolCall::new("fs/read", Map::new());
        let other = ToolCall::new("old tool", Map::new());
        let replies = vec![ToolReply::ok(&call, "x"), ToolReply::ok(&other, "y")];
        let told =
            names.told(Transcript::new().with(Message::calls([call, other])).with(Message::Tool(replies)));
        let told = serde_json::to_string(&told).unwrap();
        assert!(
            told.matches("\"fs_read\"").count() == 2 && told.matches("\"old tool\"").count() == 2,
            "{told}"
        );
    }
}
