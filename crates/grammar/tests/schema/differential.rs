//! The compiler against an independent validator, over schemas drawn at random in every draft: what the validator can
//! read compiles, what the grammar writes breaks no keyword that the contract calls enforced, and what is valid is
//! accepted. A fault is shown with the smallest schema that still has it.

use std::sync::Arc;

use serde_json::Value;
use toolgate_grammar::conformance::Trial;
use toolgate_grammar::gbnf::{SampleOptions, Sampler};
use toolgate_grammar::schema::{Draft, Formats};
use toolgate_grammar::{Kind, Options, SchemaOptions, Vocabulary, Whitespace};

use crate::corpus::{id, list, rows, validator};
use crate::drawn::{Random, any_value, changed, document, instance, is_circular};

/// Schemas drawn; `TOOLGATE_DRAWN` asks for another number, and `TOOLGATE_SEED` for others.
const SCHEMAS: u64 = 300;
/// Texts drawn from each grammar.
const TEXTS: u64 = 10;
/// Instances of each schema.
const INSTANCES: usize = 30;

/// Smaller schemas tried to explain one fault.
const TRIES: usize = 20_000;

const LINE_ENDS: [char; 3] = ['\r', '\u{2028}', '\u{2029}'];

/// What should not be.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// The kind of it, the same for the whole and for the smallest schema.
    pub(crate) kind: &'static str,
    pub(crate) what: String,
}

fn fault(kind: &'static str, what: impl Into<String>) -> Fault {
    Fault { kind, what: what.into() }
}

/// The first fault of a schema, with these instances and with texts of its grammar.
pub(crate) fn first_fault(document: &Value, instances: &[Value], seed: u64) -> Option<Fault> {
    let validator = validator(document, Draft::default(), Formats::Asserted)?;
    if is_circular(document) {
        return None;
    }
    let options = Options::default().whitespace(Whitespace::Compact);
    let vocabulary = Arc::new(Vocabulary::bytes_only());
    let trial = match Trial::new(document, &SchemaOptions::default(), &options, vocabulary).0 {
        Ok(trial) => trial,
        Err(error)
            if error.kind() == Kind::InvalidSchema && error.to_string().contains("nothing can match") =>
        {
            let valid = instances.iter().find(|value| validator.is_valid(value))?;
            return Some(fault("refused as impossible", format!("{valid} is valid, but {error}")));
        }
        Err(error) => return Some(fault("refused", error.to_string())),
    };
    let judge = |value: &Value, text: &str, accepted: bool| {
        let valid = validator.is_valid(value);
        if valid && !accepted {
            if beyond(document, value) {
                return None;
            }
            let rendered = trial.text(value);
            let why = trial.refusal(&rendered).unwrap_or_default();
            return Some(fault("valid, but refused", format!("{rendered} (of {text}): {why}")));
        }
        if valid || !accepted || beyond(document, value) {
            return None;
        }
        let broken = validator
            .iter_errors(value)
            .find(|error| !accounted(&trial, &places(document, error.evaluation_path().as_str())))?;
        let what = format!("{text}: {broken} at {}", broken.evaluation_path());
        Some(fault("invalid, but said to be enforced", what))
    };
    for value in instances {
        let text = trial.text(value);
        let read: Value = match serde_json::from_str(&text) {
            Ok(read) => read,
            Err(error) => return Some(fault("rendered as no JSON", format!("{error}: {text}"))),
        };
        if let Some(fault) = judge(&read, &text, trial.refusal(&text).is_none()) {
            return Some(fault);
        }
    }
    let sampler = Sampler::new(&trial.compiled().grammar, &SampleOptions::default().max_len(100)).ok()?;
    for i in 0..TEXTS {
        let Ok(text) = sampler.seeded(seed.wrapping_add(i)) else { continue };
        let value: Value = match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(error) => return Some(fault("written as no JSON", format!("{error}: {text}"))),
        };
        if let Some(fault) = judge(&value, &text, true) {
            return Some(fault);
        }
        if !validator.is_valid(&value) {
            continue;
        }
        let again = trial.text(&value);
        if let Some(why) = trial.refusal(&again).filter(|_| !beyond(document, &value)) {
            return Some(fault(
                "valid, but refused when rendered again",
                format!("{again} (of {text}): {why}"),
            ));
        }
    }
    None
}

/// Whether a value holds what the grammars do not write, a multiple of more than 19 digits or an integer of more than
/// 64, or a line end that the validator's dot matches and the standard's does not.
fn beyond(document: &Value, value: &Value) -> bool {
    let mut pending = vec![value];
    let (mut vast, mut long, mut ends, mut wide) = (false, false, false, false);
    while let Some(value) = pending.pop() {
        match value {
            Value::Number(number) => {
                let size = number.as_f64().unwrap_or_default().abs();
                vast |= size >= 1e19;
                long |= size >= 1e64;
                // Validators do not know the formats of integers.
                wide |= size >= 2_147_483_648.0;
            }
            Value::String(text) => ends |= text.contains(LINE_ENDS),
            Value::Array(items) => pending.extend(items),
            Value::Object(map) => {
                ends |= map.keys().any(|key| key.contains(LINE_ENDS));
                pending.extend(map.values());
            }
            _ => {}
        }
    }
    let bounded = document.to_string().contains("\"format\":\"int");
    ends || long || wide && bounded || vast && document.to_string().contains("\"multipleOf\"")
}

/// The places in the document that the way of an evaluation leads through, the last one last.
fn places(document: &Value, way: &str) -> Vec<String> {
    let mut places = vec![String::new()];
    for token in way.split('/').skip(1) {
        let here = places.last().cloned().unwrap_or_default();
        let place = format!("{here}/{token}");
        let target = document.pointer(&place).and_then(Value::as_str).filter(|_| token == "$ref");
        places.push(place);
        if let Some(fragment) = target.and_then(|target| target.strip_prefix('#')) {
            let named = || format!("/$defs/{}", fragment.replace("anchor", "d"));
            places.push(if fragment.starts_with("anchor") { named() } else { fragment.to_owned() });
        }
    }
    places
}

/// Whether the contract has told that what ends at the last of these places may be broken: by the keyword itself, by
/// one it stands under, or, for a reference, by one where it leads.
fn accounted(trial: &Trial, places: &[String]) -> bool {
    let last = places.last().map_or("", String::as_str);
    let within = |inner: &str| inner.strip_prefix(last).is_some_and(|rest| rest.starts_with('/'));
    let told = |pointer: &str| places.iter().any(|place| place == pointer);
    let mut checked = trial.compiled().contract.checked();
    checked.any(|entry| told(entry.pointer()) || (last.ends_with("/$ref") && within(entry.pointer())))
}

/// The smallest schema got by taking away pieces that still has a fault of this kind.
pub(crate) fn smallest(
    document: Value,
    instances: &[Value],
    seed: u64,
    kind: &str,
) -> (Value, Option<Fault>) {
    let mut best = document;
    let (mut found, mut tries) = (None, 0);
    'again: loop {
        for smaller in smaller(&best) {
            tries += 1;
            if tries > TRIES {
                return (best, found);
            }
            match first_fault(&smaller, instances, seed) {
                Some(fault) if fault.kind == kind => {
                    (best, found) = (smaller, Some(fault));
                    continue 'again;
                }
                _ => {}
            }
        }
        return (best, found);
    }
}

/// The value with one place taken away or made simpler.
fn smaller(value: &Value) -> Vec<Value> {
    let mut out = Vec::new();
    match value {
        Value::Object(map) => {
            for key in map.keys() {
                let mut less = map.clone();
                less.shift_remove(key);
                out.push(Value::Object(less));
            }
            out.extend(map.values().filter(|inner| inner.is_object()).cloned());
            for (key, inner) in map {
                for simpler in smaller(inner) {
                    let mut other = map.clone();
                    other.insert(key.clone(), simpler);
                    out.push(Value::Object(other));
                }
            }
        }
        Value::Array(items) => {
            for i in 0..items.len() {
                let mut less = items.clone();
                less.remove(i);
                out.push(Value::Array(less));
            }
            for (i, item) in items.iter().enumerate() {
                for simpler in smaller(item) {
                    let mut other = items.clone();
                    other[i] = simpler;
                    out.push(Value::Array(other));
                }
            }
        }
        _ => {}
    }
    out
}

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn drawn_schemas_fare_with_the_compiler_as_with_a_validator() {
    let first = number("TOOLGATE_SEED", 0);
    let mut faults = Vec::new();
    for seed in first..first + number("TOOLGATE_DRAWN", SCHEMAS) {
        let mut random = Random::seeded(seed);
        let document = document(&mut random);
        if std::env::var_os("TOOLGATE_VERBOSE").is_some() {
            eprintln!("seed {seed}: {document}");
        }
        let mut instances: Vec<Value> =
            (0..INSTANCES).map(|_| instance(&document, &document, &mut random, 6)).collect();
        instances.extend((0..8).map(|_| any_value(&mut random, 1)));
        if let Some(fault) = first_fault(&document, &instances, seed) {
            let (small, smaller) = smallest(document, &instances, seed, fault.kind);
            let what = smaller.unwrap_or(fault);
            faults.push(format!("seed {seed}: {}: {} for {small}", what.kind, what.what));
            if faults.len() >= 20 {
                break;
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
fn changed_schemas_of_a_corpus_fare_as_with_a_validator() {
    let Some(rows) = rows("TOOLGATE_SCHEMA_CORPUS") else { return };
    let first = number("TOOLGATE_SEED", 0);
    let mut faults = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let instances: Vec<Value> =
            list(row, "valid_instances").iter().chain(list(row, "invalid_instances")).cloned().collect();
        // What large schemas show, small ones show too.
        if row["schema"].to_string().len() > 6_000 || faults.len() >= 20 {
            continue;
        }
        for seed in first..first + number("TOOLGATE_CHANGES", 1) {
            let mut random = Random::seeded(seed * 1_000_003 + i as u64);
            let document = changed(&row["schema"], &mut random);
            let mut instances = instances.clone();
            instances.extend((0..6).map(|_| instance(&document, &document, &mut random, 8)));
            if std::env::var_os("TOOLGATE_VERBOSE").is_some() {
                eprintln!("{}, seed {seed}", id(row));
            }
            if let Some(fault) = first_fault(&document, &instances, seed) {
                let (small, smaller) = smallest(document, &instances, seed, fault.kind);
                let what = smaller.unwrap_or(fault);
                faults.push(format!("{}, seed {seed}: {}: {} for {small}", id(row), what.kind, what.what));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}
