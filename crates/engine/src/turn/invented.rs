//! Values of calls that nobody has said, which the model makes up.
//!
//! - A further call of a turn waits for the results of the calls in front of it, which may give such a value.
//!   A model that may make several calls at once writes `find_customer("Vela")` and `list_orders(1)` in one turn. It made up the number.
//!   The turn ends in front of such a call, and the model makes it when it knows.
//! - How much of a first call is made up speaks for an answer in its place. Asked "how heavy is a loaf of bread?", a model with a tool
//!   for the body mass index fills in 70 and 1.75, of which it is not sure.

use std::ops::Range;

use serde_json::{Number, Value};
use toolgate_chat::names::holds_word;
use toolgate_chat::{Message, ToolCall, ToolSpec, Transcript};
use toolgate_infer::{Backend, Decoded, Likelihood, Vocabulary};

use crate::profile::decision::bounded;
use crate::turn::making::Making;
use crate::turn::place;
use crate::turn::retry::is_ended;

/// Values of a call that are looked at, the first ones.
const VALUES: usize = 64;
/// Words of a text that are looked for, the first ones.
const WORDS: usize = 64;
/// Letters of a beginning that counts for its word.
const LETTERS: usize = 2;

impl<B: Backend> Making<'_, B> {
    /// How many values of each of these calls are made up, as far as can be expected. None where it is not told how likely they were, and
    /// where they were cut off. What a tool lists, such as the values of an enumeration, is not said by that.
    pub(crate) fn invented_in(&self, decoded: &Decoded, calls: &[ToolCall]) -> Option<f64> {
        if decoded.likelihoods.is_empty() || calls.is_empty() || !is_ended(decoded) {
            return None;
        }
        let known = Known::of(self.request.transcript, &[]);
        let made_up = |(value, p): (&Value, f64)| (1.0 - known.share_said(value)) * (1.0 - p);
        let values = told_values(decoded, &self.engine.vocabulary, calls);
        Some(bounded(values.into_iter().map(made_up).sum::<f64>() / calls.len() as f64))
    }
}

/// The values of calls, each with the probability of its likeliest tokens.
fn told_values<'c>(
    decoded: &Decoded,
    vocabulary: &Vocabulary,
    calls: &'c [ToolCall],
) -> Vec<(&'c Value, f64)> {
    let (mut bytes, mut tokens) = (Vec::new(), Vec::with_capacity(decoded.tokens.len()));
    for (token, likelihood) in decoded.tokens.iter().zip(&decoded.likelihoods) {
        let start = bytes.len();
        bytes.extend_from_slice(vocabulary.bytes(token.token));
        tokens.push((start..bytes.len(), likeliest(likelihood)));
    }
    let text = String::from_utf8_lossy(&bytes);
    let p = |place: &Range<usize>| {
        let within = tokens.iter().filter(|(at, _)| at.end > place.start && at.start < place.end);
        within.map(|(_, likely)| likely).sum::<f64>().exp()
    };
    let (mut from, mut told) = (0, Vec::new());
    for call in calls {
        let arguments = place::of_arguments(&text, from, &call.arguments);
        let mut values = Vec::new();
        for (name, value) in &call.arguments {
            add_values(value, format!("/{}", place::step(name)), &mut values);
        }
        for (pointer, value) in values {
            let place = match &arguments {
                Some(at) => place::of_value(&text, at.start, &pointer),
                None => place::of_spelled(&text, from, &call.arguments, &pointer),
            };
            told.extend(place.map(|place| (value, p(&place))));
        }
        // The next call stands behind this one: behind its arguments, or where its last value is.
        let last = || place::of_spelled(&text, from, &call.arguments, "");
        from = arguments.or_else(last).map_or(from, |at| at.end);
    }
    told
}

/// A number as users write it: 5 for 5.0.
fn spelled(number: &Number) -> String {
    let text = number.to_string();
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// Whether a letter is of a script that writes no blanks between words: Thai to Burmese, Khmer, and those of East Asia but Korean.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// How likely the likeliest token was, as a logarithm. Where another one was drawn, or had to be, the model was as sure of this one.
fn likeliest(token: &Likelihood) -> f64 {
    token.top.first().map_or(0.0, |(_, likely)| *likely)
}

/// The values without parts in a value, each with its JSON pointer.
fn add_values<'v>(value: &'v Value, pointer: String, values: &mut Vec<(String, &'v Value)>) {
    match value {
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(at, item)| add_values(item, format!("{pointer}/{at}"), values));
        }
        Value::Object(fields) => {
            let step = |name: &str| format!("{pointer}/{}", place::step(name));
            fields.iter().for_each(|(name, field)| add_values(field, step(name), values));
        }
        _ if values.len() < VALUES => values.push((pointer, value)),
        _ => {}
    }
}

/// What was said so far, in small letters: what a further call can know.
pub(crate) struct Known(String);

impl Known {
    /// What stands in a conversation, and the values that the tools' own definitions list.
    pub(crate) fn of(transcript: &Transcript, tools: &[ToolSpec]) -> Self {
        let mut known = Self(String::new());
        for message in transcript.iter() {
            match message {
                Message::System(text) | Message::User(text) => known.add(text),
                Message::Assistant { content, calls, .. } => {
                    content.iter().for_each(|text| known.add(text));
                    calls
                        .iter()
                        .flat_map(|call| call.arguments.values())
                        .for_each(|value| known.add_all(value));
                }
                Message::Tool(replies) => replies.iter().for_each(|reply| known.add(&reply.content)),
            }
        }
        tools.iter().for_each(|tool| known.add_listed(&tool.parameters));
        known
    }

    fn add(&mut self, text: &str) {
        self.0.push_str(&text.to_lowercase());
        self.0.push('\n');
    }

    /// A value with all that is in it.
    fn add_all(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.add_all(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.add_all(field)),
            Value::String(text) => self.add(text),
            other => self.add(&other.to_string()),
        }
    }

    /// The values that a schema lists.
    fn add_listed(&mut self, schema: &Value) {
        match schema {
            Value::Array(items) => items.iter().for_each(|item| self.add_listed(item)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    match key.as_str() {
                        "enum" | "const" | "default" | "examples" => self.add_all(value),
                        _ => self.add_listed(value),
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether a call need not wait for those in front of it: it says what was said before, or nothing but calls of the same tool
    /// are in front of it, which seldom give what that tool takes.
    pub(crate) fn admits(&self, pending: &[ToolCall], call: &ToolCall) -> bool {
        pending.iter().all(|pending| pending.name == call.name)
            || call.arguments.values().all(|value| self.has_value(value))
    }

    /// Of a text most words have to be said: models write "Oslo, Norway" for "Oslo".
    fn has_value(&self, value: &Value) -> bool {
        match value {
            Value::Array(items) => items.iter().all(|item| self.has_value(item)),
            Value::Object(fields) => fields.values().all(|field| self.has_value(field)),
            _ => self.share_by(value, |word| f64::from(u8::from(holds_word(&self.0, word)))) >= 0.5,
        }
    }

    /// The share of a value without parts that was said.
    fn share_said(&self, value: &Value) -> f64 {
        self.share_by(value, |word| self.share_of(word))
    }

    /// The same, as a mean over its words, by the share of each. Truth values, and what is empty, need not be said.
    fn share_by(&self, value: &Value, share_of: impl Fn(&str) -> f64) -> f64 {
        let text = match value {
            Value::Number(number) => return f64::from(u8::from(holds_word(&self.0, &spelled(number)))),
            Value::String(text) => text.to_lowercase(),
            _ => return 1.0,
        };
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let (said, all) =
            words.take(WORDS).fold((0.0, 0.0), |(said, all), word| (said + share_of(word), all + 1.0));
        if all > 0.0 { said / all } else { 1.0 }
    }

    /// The share of a word that was said: all of it, or a beginning of half of it or more with which a word begins. So "meetings" is said
    /// by "meeting", and a word counts in scripts that write none apart. What has digits is another one with fewer.
    fn share_of(&self, word: &str) -> f64 {
        if holds_word(&self.0, word) {
            return 1.0;
        }
        if word.contains(|c: char| c.is_ascii_digit()) {
            return 0.0;
        }
        let ends: Vec<usize> = word.char_indices().map(|(at, c)| at + c.len_utf8()).collect();
        let least = LETTERS.max(ends.len().div_ceil(2));
        // A longer beginning is said only where a shorter one is.
        let longer = ends.iter().enumerate().skip(least - 1);
        let said = longer.take_while(|(_, end)| word.get(..**end).is_some_and(|text| self.begins_word(text)));
        said.last().map_or(0.0, |(at, _)| (at + 1) as f64 / ends.len() as f64)
    }

    /// Whether a word begins with this, or holds it where the script writes no blanks between words.
    fn begins_word(&self, beginning: &str) -> bool {
        let is_whole = |at: usize| {
            let before = self.0.get(..at).and_then(|text| text.chars().next_back());
            before.is_none_or(|c| !c.is_alphanumeric() || is_unspaced(c))
        };
        self.0.match_indices(beginning).any(|(at, _)| is_whole(at))
    }

    /// The calls of a turn up to the first further one that says what nobody has said.
    pub(crate) fn leave(&self, calls: &mut Vec<ToolCall>) {
        let admitted = |at: &usize| match calls.split_at_checked(*at) {
            Some((pending, [call, ..])) => self.admits(pending, call),
            _ => true,
        };
        let left = (0..calls.len()).take_while(admitted).count();
        calls.truncate(left);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;
    use toolgate_infer::DecodedToken;

    use super::*;
    use crate::turn::driver::WrittenText;

    fn call(name: &str, arguments: Value) -> ToolCall {
        ToolCall::new(name, arguments.as_object().cloned().unwrap())
    }

    #[test]
    fn a_further_call_waits_for_what_nobody_has_said() {
        let parameters = json!({"type": "object", "properties": {
            "id": {"type": "integer", "minimum": 1}, "city": {"type": "string"}, "unit": {"enum": ["miles"]}
        }});
        let tools = [ToolSpec::new("any", "", parameters).unwrap()];
        let asked =
            Transcript::new().with(Message::User("Orders of Vela, and the way to Oslo and Rome?".into()));
        let left = |arguments: &[Value]| {
            let named = |(at, arguments): (usize, &Value)| call(&format!("tool_{at}"), arguments.clone());
            let mut calls: Vec<ToolCall> = arguments.iter().enumerate().map(named).collect();
            Known::of(&asked, &tools).leave(&mut calls);
            calls.len()
        };
        assert_eq!(left(&[json!({"city": "Oslo"}), json!({"city": "Rome"})]), 2);
        assert_eq!(
            left(&[json!({"city": "Oslo"}), json!({"city": "rome", "unit": "miles", "all": true})]),
            2
        );
        assert_eq!(
            left(&[json!({"city": "Vela"}), json!({"id": 1}), json!({"city": "Rome"})]),
            1,
            "it is made up"
        );
        assert_eq!(left(&[json!({"id": 7})]), 1, "the first call is the model's own");
        assert_eq!(left(&[json!({"city": "Vela"}), json!({"city": "Oslo, Norway"})]), 2);
        assert_eq!(left(&[json!({"city": "Vela"}), json!({"city": "C-1001"})]), 1);
        assert_eq!(left(&[json!({"city": "Vela"}), json!({"city": "Ostend"})]), 1, "a beginning is no word");
        assert_eq!(left(&[]), 0);
        let mut same = vec![call("any", json!({"id": 1})), call("any", json!({"id": 2}))];
        Known::of(&asked, &tools).leave(&mut same);
        assert_eq!(same.len(), 2, "one gives nothing to the other");
    }

    #[test]
    fn a_word_counts_by_as_much_of_it_as_was_said() {
        let asked = Transcript::new().with(Message::User("3 meetings in Łódź; 找杂志, 14:30".into()));
        let known = Known::of(&asked, &[]);
        let share = |value: Value| (known.share_said(&value) * 100.0).round();
        assert_eq!([share(json!("Meetings")), share(json!("łódź")), share(json!(3))], [100.0; 3]);
        assert_eq!([share(json!(true)), share(json!(null)), share(json!("")), share(json!("–"))], [100.0; 4]);
        assert_eq!(
            [share(json!(30)), share(json!(1)), share(json!("a14")), share(json!("Oslo"))],
            [100.0, 0.0, 0.0, 0.0]
        );
        assert_eq!(share(json!("meeting room")), 50.0, "one of two words");
        assert_eq!(share(json!("meetinghouse")), 58.0, "seven letters of twelve");
        assert_eq!([share(json!("杂志")), share(json!("杂志名"))], [100.0, 67.0], "no blanks between words");
        assert_eq!(share(json!("mead")), 50.0, "two letters of four begin a word");
        assert_eq!(
            [share(json!("m")), share(json!("tingle"))],
            [0.0, 0.0],
            "one letter, or the middle of a word"
        );
        assert_eq!(share(json!(3.0)), 100.0, "a whole number in another spelling");
    }

    /// A text in tokens of one byte, of which these have this probability.
    fn written(text: &str, unsure: &str, p: f64) -> Decoded {
        let at = text.find(unsure).unwrap();
        let likelihood = |(place, byte): (usize, u8)| {
            let p = if place == at { p } else { 1.0 };
            Likelihood { token: byte.into(), log_probability: 0.0, top: vec![(byte.into(), p.ln())] }
        };
        let source = toolgate_infer::Source::Sampled;
        Decoded {
            tokens: text.bytes().map(|byte| DecodedToken { token: byte.into(), source }).collect(),
            likelihoods: text.bytes().enumerate().map(likelihood).collect(),
            ..Decoded::given(text)
        }
    }

    #[test]
    fn a_value_is_as_likely_as_its_own_tokens() {
        let arguments = json!({"city": "Oslo", "days": [3, {"from": "May 1"}]});
        let calls = [call("any", json!({"n": 1})), call("any", arguments.clone())];
        let json = format!("{{\"n\": 1}} {arguments}");
        let vocabulary = Vocabulary::bytes_only();
        let told = |text: &str, unsure: &str, calls: &[ToolCall]| {
            let values = told_values(&written(text, unsure, 0.25), &vocabulary, calls);
            values.iter().map(|(value, p)| format!("{value} {p}")).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(told(&json, "slo", &calls), r#"1 1, "Oslo" 0.25, 3 1, "May 1" 1"#);
        assert_eq!(told(&json, "1}", &calls), r#"1 0.25, "Oslo" 1, 3 1, "May 1" 1"#);
        assert_eq!(told(&json, "ay 1", &calls), r#"1 1, "Oslo" 1, 3 1, "May 1" 0.25"#);
        let elements = "<parameter=city>Oslo</parameter>";
        let spelled = [call("any", json!({"city": "Oslo"}))];
        assert_eq!(told(elements, "slo", &spelled), r#""Oslo" 0.25"#, "in another form than JSON");
        assert_eq!(told(elements, "para", &spelled), r#""Oslo" 1"#, "a name is no value");
        let (both, twice) = (format!("{elements}{elements}"), [spelled[0].clone(), spelled[0].clone()]);
        assert_eq!(
            told(&both, "slo", &twice),
            r#""Oslo" 0.25, "Oslo" 1"#,
            "the second stands behind the first"
        );
    }

    #[test]
    fn what_a_result_gave_can_be_used() {
        let find = call("find", json!({"name": "Vela"}));
        let told = Transcript::new()
            .with(Message::User("Orders of Vela?".into()))
            .with(Message::calls([find.clone()]))
            .with(Message::Tool(vec![toolgate_chat::ToolReply::ok(&find, "id: 512")]));
        let known = Known::of(&told, &[]);
        let orders = |id: i32| known.admits(std::slice::from_ref(&find), &call("orders", json!({"id": id})));
        assert!(orders(512) && !orders(51));
    }
}
