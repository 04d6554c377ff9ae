//! A server's secrets: the values of its variables. This module removes them from the server's words.
//!
//! Invariant: wherever a server's words are shown, kept or given to a model, the variable's name replaces its value. A value
//! of less than eight bytes is a word like others, and stays.

use toolgate_sandbox::policy::McpServer;

use crate::Error;

/// The shortest value that is no common word, in bytes.
const TELLING: usize = 8;

/// The values with their variables, longest first, so that no value hides a part of another.
#[derive(Default)]
pub(super) struct Secrets(Vec<(String, String)>);

impl Secrets {
    /// The secrets of a server.
    ///
    /// # Errors
    /// Where a variable that the policy passes on is not set.
    pub(super) fn of(server: &McpServer) -> Result<Self, Error> {
        let mut values: Vec<(String, String)> =
            server.env.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect();
        for name in &server.pass {
            match std::env::var(name) {
                Ok(value) if !value.is_empty() => values.push((name.clone(), value)),
                _ => return Err(Error::input(format!("it needs the variable {name}: set it (pass)"))),
            }
        }
        Ok(Self::from_values(values))
    }

    fn from_values(mut values: Vec<(String, String)>) -> Self {
        values.retain(|(_, value)| value.len() >= TELLING);
        // As JSON has it: a server's words are often a text of JSON.
        let escaped: Vec<_> = values
            .iter()
            .map(|(name, value)| (name.clone(), serde_json::Value::from(value.as_str()).to_string()))
            .filter_map(|(name, text)| Some((name, text.strip_prefix('"')?.strip_suffix('"')?.to_owned())))
            .filter(|(_, text)| values.iter().all(|(_, value)| value != text))
            .collect();
        values.extend(escaped);
        values.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        Self(values)
    }

    #[cfg(test)]
    pub(super) fn for_tests(values: &[(&str, &str)]) -> Self {
        Self::from_values(
            values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        )
    }

    /// The text without them.
    pub(super) fn hide(&self, text: String) -> String {
        self.0.iter().fold(text, |text, (name, value)| match text.contains(value) {
            true => text.replace(value, &format!("[{name}]")),
            false => text,
        })
    }

    /// The variable whose value is among these bytes.
    pub(super) fn named_in(&self, bytes: &[u8]) -> Option<&str> {
        let holds = |value: &str| bytes.windows(value.len()).any(|window| window == value.as_bytes());
        self.0.iter().find(|(_, value)| holds(value)).map(|(name, _)| name.as_str())
    }

    /// The JSON text without them: there, quotation marks and the like have another form.
    pub(super) fn hide_json(&self, value: serde_json::Value) -> serde_json::Value {
        use serde_json::Value;
        match value {
            Value::String(text) => Value::String(self.hide(text)),
            Value::Array(items) => items.into_iter().map(|item| self.hide_json(item)).collect(),
            Value::Object(members) => {
                members.into_iter().map(|(name, member)| (self.hide(name), self.hide_json(member))).collect()
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;
    use toolgate_sandbox::policy::Policy;

    use super::*;

    #[test]
    fn values_are_replaced_by_their_names_and_common_words_stay() {
        let text = "version = 1\n[mcp.a]\ncommand = [\"a\"]\n\
                    env = { KEY = \"sk-12345678\", LONG = \"sk-12345678-9\", UNITS = \"metric\" }\n";
        let policy = Policy::parse(text).unwrap();
        let secrets = Secrets::of(policy.mcp.get("a").unwrap()).unwrap();
        let said = "bad key sk-12345678, sk-12345678-9: metric".to_owned();
        assert_eq!(secrets.hide(said), "bad key [KEY], [LONG]: metric");
        let data = json!({"sk-12345678": ["x sk-12345678", 1]});
        assert_eq!(secrets.hide_json(data), json!({"[KEY]": ["x [KEY]", 1]}));
        let secrets = Secrets::for_tests(&[("KEY", "a \"quoted\"\nkey")]);
        assert_eq!(secrets.hide(r#"{"k":"a \"quoted\"\nkey"}"#.to_owned()), r#"{"k":"[KEY]"}"#);
        let missing = "version = 1\n[mcp.a]\ncommand = [\"a\"]\npass = [\"TOOLGATE_NO_SUCH_VARIABLE\"]\n";
        let policy = Policy::parse(missing).unwrap();
        let why = Secrets::of(policy.mcp.get("a").unwrap()).err().unwrap().to_string();
        assert!(why.contains("TOOLGATE_NO_SUCH_VARIABLE"), "{why}");
    }
}
