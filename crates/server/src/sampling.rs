//! The sampling fields of a request that the APIs and other servers have in common.

use serde_json::Value;

use super::ask::any_seed;
use super::field::Field;
use super::reasoning::template_values;
use super::refusal::Refusal;
use toolgate_engine::{Penalties, Sampling};

/// The most alternatives of a token, as the OpenAI API has them.
pub(super) const MOST_ALTERNATIVES: usize = 20;

/// An API's names for the fields that bound an answer.
pub(super) struct Bounds<'a> {
    /// The first that is there counts.
    pub(super) max_tokens: &'a [&'a str],
    pub(super) stop: &'a str,
}

/// Ways to draw tokens that other servers have. Each stands with the value that turns it off.
const NOT_DONE: [(&str, f64); 12] = [
    ("best_of", 1.0),
    ("dry_multiplier", 0.0),
    ("dynatemp_range", 0.0),
    ("ignore_eos", 0.0),
    ("length_penalty", 1.0),
    ("min_tokens", 0.0),
    ("mirostat", 0.0),
    ("tfs_z", 1.0),
    ("top_n_sigma", -1.0),
    ("typical_p", 1.0),
    ("use_beam_search", 0.0),
    ("xtc_probability", 0.0),
];

/// Fields that hold an answer to some tokens, or end it at some.
const NOT_HELD: [&str; 3] = ["allowed_token_ids", "bad_words", "stop_token_ids"];

fn look_at_others(root: &Field<'_>) -> Result<(), Refusal> {
    for (name, off) in NOT_DONE {
        let field = root.at(name);
        let is_off = match field.value() {
            None => true,
            Some(Value::Bool(on)) => !on,
            Some(value) => value.as_f64() == Some(off),
        };
        if !is_off {
            field.warn("tokens are not drawn so here: the answer is made without it");
        }
    }
    for name in NOT_HELD {
        root.at(name).not_supported(&[Value::Array(Vec::new())])?;
    }
    Ok(())
}

/// Reads them. A field that the request leaves out is as `usual`. The server fills in 0 tokens.
pub(super) fn read(root: &Field<'_>, bounds: &Bounds<'_>, usual: &Sampling) -> Result<Sampling, Refusal> {
    look_at_others(root)?;
    let max_tokens: Result<Vec<Option<usize>>, Refusal> =
        bounds.max_tokens.iter().map(|name| root.at(name).bound()).collect();
    // -1 asks for any seed. In some programs 0 does so, too.
    let seed = root.at("seed").integer()?.filter(|seed| *seed != -1);
    let top_k = root.at("top_k");
    let values = usual.template_values.clone().into_iter().chain(template_values(root)?);
    Ok(usual
        .clone()
        .temperature(root.at("temperature").number(0.0, 2.0)?.unwrap_or(usual.temperature))
        .top_p(root.at("top_p").number(0.0, 1.0)?.unwrap_or(usual.top_p))
        // 0 and -1 say that all tokens are kept, whatever is usual.
        .top_k(if top_k.is_there() { top_k.bound()?.unwrap_or(0) } else { usual.top_k })
        .min_p(root.at("min_p").number(0.0, 1.0)?.unwrap_or(usual.min_p))
        .seed(seed.map_or_else(any_seed, i64::cast_unsigned))
        .max_tokens(max_tokens?.into_iter().flatten().next().unwrap_or(0))
        .stop(stop(&root.at(bounds.stop))?)
        .penalties(penalties(root, usual.penalties)?)
        .bias(bias(&root.at("logit_bias"))?)
        .template_values(values.collect()))
}

/// A text, or a list of texts. Empty ones end nothing.
fn stop(field: &Field<'_>) -> Result<Vec<String>, Refusal> {
    let texts: Vec<String> = match field.value() {
        Some(Value::String(text)) => vec![text.clone()],
        _ => {
            let texts = field.list()?;
            texts.iter().map(|text| text.needed_text().map(str::to_owned)).collect::<Result<_, _>>()?
        }
    };
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

fn penalties(root: &Field<'_>, usual: Penalties) -> Result<Penalties, Refusal> {
    // These are the names of llama.cpp and of vLLM.
    let repeat = ["repeat_penalty", "repetition_penalty"].map(|name| root.at(name));
    let repeat: Result<Vec<Option<f32>>, Refusal> =
        repeat.iter().map(|field| field.number(0.0, 10.0)).collect();
    let repeat = repeat?.into_iter().flatten().next();
    Ok(Penalties {
        frequency: root.at("frequency_penalty").number(-2.0, 2.0)?.unwrap_or(usual.frequency),
        presence: root.at("presence_penalty").number(-2.0, 2.0)?.unwrap_or(usual.presence),
        // Some send 0 for "off". Nothing is divided by it.
        repeat: match repeat {
            Some(repeat) if repeat > 0.0 => repeat,
            Some(_) => Penalties::default().repeat,
            None => usual.repeat,
        },
    })
}

/// An object with a number for each token.
fn bias(field: &Field<'_>) -> Result<Vec<(u32, f32)>, Refusal> {
    let Some(value) = field.value() else { return Ok(Vec::new()) };
    let Some(tokens) = value.as_object() else {
        return Err(field.wrong("expected an object with a number for each token"));
    };
    let mut bias = Vec::with_capacity(tokens.len());
    for (token, by) in tokens {
        let by = by.as_f64().filter(|by| (-100.0..=100.0).contains(by));
        // Single precision is what tokens are drawn with.
        let read = token.parse::<u32>().ok().zip(by.map(|by| by as f32));
        let Some(read) = read else {
            return Err(field
                .at(token)
                .wrong("expected the number of a token, and a number from -100 to 100"));
        };
        bias.push(read);
    }
    Ok(bias)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::{Map, json};

    use super::*;

    fn sampling(body: Value) -> Result<Sampling, Refusal> {
        let bounds = Bounds { max_tokens: &["max_completion_tokens", "max_tokens"], stop: "stop" };
        read(&Field::root(&body), &bounds, &Sampling::default())
    }

    #[test]
    fn what_a_request_says_comes_before_what_is_usual_and_off_is_off() {
        let usual = Sampling::default()
            .temperature(0.6)
            .top_k(20)
            .penalties(Penalties { repeat: 1.1, ..Penalties::default() })
            .template_values(Map::from_iter([("a".to_owned(), json!(1)), ("b".to_owned(), json!(1))]));
        let bounds = Bounds { max_tokens: &["max_tokens"], stop: "stop" };
        let read = |body: Value| super::read(&Field::root(&body), &bounds, &usual).unwrap();
        let silent = read(json!({"seed": 0, "max_tokens": 0}));
        assert_eq!(silent, usual.clone().max_tokens(0));
        let said = read(
            json!({"temperature": 0, "top_k": -1, "repeat_penalty": 0, "chat_template_kwargs": {"b": 2}}),
        );
        assert_eq!((said.temperature, said.top_k, said.penalties), (0.0, 0, Penalties::default()));
        assert_eq!(Value::Object(said.template_values), json!({"a": 1, "b": 2}));
    }

    #[test]
    fn what_clients_send_for_off_is_off() {
        for body in [
            json!({}),
            json!({"max_tokens": -1, "top_k": -1, "seed": 7}),
            json!({"max_tokens": 0, "top_k": 0.0, "min_p": 0, "top_p": 1.0, "stop": null, "logit_bias": {}}),
            json!({"frequency_penalty": 0, "presence_penalty": 0.0, "repeat_penalty": 1, "stop": ["", ""]}),
            json!({"repetition_penalty": 0, "stop": ""}),
            json!({"mirostat": 0, "typical_p": 1.0, "ignore_eos": false, "best_of": 1, "bad_words": []}),
        ] {
            let read = sampling(body.clone()).unwrap().seed(0);
            assert_eq!(read, Sampling::default().max_tokens(0), "{body}");
        }
        let random = |seed: i64| sampling(json!({ "seed": seed })).unwrap().seed;
        assert!(random(7) == random(7) && random(-1) != random(-1));
    }

    #[test]
    fn what_is_asked_for_is_read_and_what_cannot_be_is_refused() {
        let body = json!({"max_tokens": 9, "top_k": 40, "frequency_penalty": -0.5, "presence_penalty": 1,
            "repetition_penalty": 1.5, "logit_bias": {"17": -100}, "stop": "x"});
        let read = sampling(body).unwrap();
        assert_eq!(
            (read.max_tokens, read.top_k, read.stop, read.bias),
            (9, 40, vec!["x".to_owned()], vec![(17, -100.0)])
        );
        assert_eq!(read.penalties, Penalties { frequency: -0.5, presence: 1.0, repeat: 1.5 });
        for (body, pointer) in [
            (json!({"max_tokens": -2}), "/max_tokens"),
            (json!({"top_k": 1.5}), "/top_k"),
            (json!({"temperature": -1}), "/temperature"),
            (json!({"frequency_penalty": 3}), "/frequency_penalty"),
            (json!({"logit_bias": {"a": 1}}), "/logit_bias/a"),
            (json!({"logit_bias": {"1": 101}}), "/logit_bias/1"),
            (json!({"logit_bias": []}), "/logit_bias"),
            (json!({"stop": [1]}), "/stop/0"),
            (json!({"stop_token_ids": [7]}), "/stop_token_ids"),
        ] {
            assert_eq!(sampling(body).unwrap_err().pointer.as_deref(), Some(pointer));
        }
    }
}
