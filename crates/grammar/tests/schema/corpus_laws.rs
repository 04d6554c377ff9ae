//! The compiler's laws over a corpus of real schemas: what the grammar writes is valid wherever the contract leaves
//! nothing to check, and instances changed a little are told apart as an independent validator tells them.

use std::sync::Arc;

use crate::corpus::{id, list, rows, validator};
use crate::drawn::Random;
use serde_json::{Map, Value, json};
use toolgate_grammar::conformance::{Trial, Verdict};
use toolgate_grammar::gbnf::{SampleOptions, Sampler};
use toolgate_grammar::schema::{Draft, Formats};
use toolgate_grammar::{Options, SchemaOptions, Vocabulary};

/// Texts drawn from each grammar.
const TEXTS: u64 = 6;
/// Changed instances for each instance of the corpus.
const CHANGES: u64 = 12;

fn trial(row: &Value) -> Option<(Trial, jsonschema::Validator)> {
    let vocabulary = Arc::new(Vocabulary::bytes_only());
    let trial =
        Trial::new(&row["schema"], &SchemaOptions::default(), &Options::default(), vocabulary).0.ok()?;
    Some((trial, validator(&row["schema"], Draft::default(), Formats::Asserted)?))
}

#[test]
fn what_grammars_of_a_corpus_write_is_valid_and_accepted_again() {
    let Some(rows) = rows("TOOLGATE_SCHEMA_CORPUS") else { return };
    let (mut drawn, mut faults) = (0, Vec::new());
    for row in &rows {
        let Some((trial, validator)) = trial(row) else { continue };
        let compiled = trial.compiled();
        let Ok(sampler) = Sampler::new(&compiled.grammar, &SampleOptions::default().max_len(400)) else {
            continue;
        };
        for seed in 0..TEXTS {
            let Ok(text) = sampler.seeded(seed) else { continue };
            drawn += 1;
            let value: Value = match serde_json::from_str(&text) {
                Ok(value) => value,
                Err(error) => {
                    faults.push(format!("{}: no JSON: {error}: {text}", id(row)));
                    continue;
                }
            };
            let valid = validator.is_valid(&value);
            if !valid && compiled.contract.is_complete() {
                let why = validator.iter_errors(&value).next().map(|e| format!("{e} at {}", e.schema_path()));
                // The validator's dot matches line ends that the standard's does not.
                if ["\\n", "\\r", "\u{2028}", "\u{2029}"].iter().any(|end| text.contains(end)) {
                    continue;
                }
                faults.push(format!("{}: invalid: {text}: {}", id(row), why.unwrap_or_default()));
            }
            let again = trial.text(&value);
            // A float that rounds onto the bound of 64 bits, or grows past the exponents that are written.
            if again.contains("9223372036854776000") || again.contains("e+2") || again.contains("e+3") {
                continue;
            }
            if let (true, Some(why)) = (valid, trial.refusal(&again)) {
                faults.push(format!("{}: refused when rendered again: {why}", id(row)));
            }
        }
    }
    eprintln!("{drawn} texts, {} faults", faults.len());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn changed_instances_of_a_corpus_are_told_apart_as_a_validator_tells_them() {
    let Some(rows) = rows("TOOLGATE_SCHEMA_CORPUS") else { return };
    let (mut valid_ones, mut invalid_ones, mut faults) = (0, 0, Vec::new());
    for row in &rows {
        let Some((trial, validator)) = trial(row) else { continue };
        let instances: Vec<&Value> =
            list(row, "valid_instances").iter().chain(list(row, "invalid_instances")).collect();
        for (i, instance) in instances.iter().enumerate() {
            for seed in 0..CHANGES {
                let mut random = Random(seed * 7_919 + i as u64 * 104_729 + 1);
                let other = instances[random.below(instances.len())];
                let mut changed = (*instance).clone();
                change(&mut changed, other, &mut random);
                let valid = validator.is_valid(&changed);
                let (verdict, why) = trial.judge(&changed, |_| valid);
                match (valid, verdict) {
                    (true, Verdict::Accepted) => valid_ones += 1,
                    (false, Verdict::ByGrammar | Verdict::ByCheck) => invalid_ones += 1,
                    (true, _) => faults.push(format!("{}: valid, {}", id(row), why.unwrap_or_default())),
                    (false, _) => {
                        let error = validator.iter_errors(&changed).next();
                        let why = error.map(|e| format!("{e} at {}", e.schema_path())).unwrap_or_default();
                        faults.push(format!("{}: accepted: {}: {why}", id(row), trial.text(&changed)));
                    }
                }
            }
        }
    }
    eprintln!("{valid_ones} valid, {invalid_ones} invalid, {} faults", faults.len());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Changes one place of a value; `other` lends parts.
fn change(value: &mut Value, other: &Value, random: &mut Random) {
    let places = places(value).len();
    let at = random.below(places);
    let pointer = self::places(value).swap_remove(at);
    let lent = self::places(other);
    let lent = other.pointer(&lent[random.below(lent.len())]).unwrap().clone();
    let place = value.pointer_mut(&pointer).unwrap();
    let scalars =
        [json!(null), json!(true), json!(0), json!(-1), json!(2.5), json!("text"), json!([]), json!({})];
    *place = match (place.clone(), random.below(4)) {
        (_, 0) => scalars[random.below(scalars.len())].clone(),
        (_, 1) => lent,
        (Value::Object(map), 2) => {
            let gone = random.below(map.len());
            Value::Object(map.into_iter().enumerate().filter(|(i, _)| *i != gone).map(|(_, kv)| kv).collect())
        }
        (Value::Object(map), _) => {
            let names = ["x", "name", "id", "zz", "x-y", "1"];
            let added = (names[random.below(names.len())].to_owned(), lent);
            Map::from_iter(map.into_iter().chain([added])).into()
        }
        (Value::Array(mut items), 2) => {
            items.pop();
            items.into()
        }
        (Value::Array(mut items), _) => {
            items.push(items.first().cloned().unwrap_or(lent));
            items.into()
        }
        (Value::String(text), 2) => {
            let keep = random.below(text.chars().count() + 1);
            text.chars().take(keep).collect::<String>().into()
        }
        (Value::String(text), _) => {
            let more = ["", " ", "\n", "é", "0", "-", "A", "😀", "\\", "\""];
            format!("{text}{}", more[random.below(more.len())]).into()
        }
        (Value::Number(number), _) => {
            let value = number.as_f64().unwrap_or_default();
            let changed = [value + 1.0, value - 1.0, value * 10.0, value + 0.5, -value];
            let changed = changed[random.below(changed.len())];
            if changed.fract() == 0.0 && changed.abs() < 1e15 {
                json!(changed as i64)
            } else {
                json!(changed)
            }
        }
        (Value::Bool(truth), _) => json!(!truth),
        (Value::Null, _) => json!(""),
    };
}

/// The pointers of a value and of all within it.
fn places(value: &Value) -> Vec<String> {
    let mut out = vec![(String::new(), value)];
    let mut done = 0;
    while let Some((pointer, value)) = out.get(done).cloned() {
        match value {
            Value::Object(map) => out.extend(map.iter().map(|(key, value)| {
                (format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")), value)
            })),
            Value::Array(items) => {
                out.extend(items.iter().enumerate().map(|(i, value)| (format!("{pointer}/{i}"), value)));
            }
            _ => {}
        }
        done += 1;
    }
    out.into_iter().map(|(pointer, _)| pointer).collect()
}
