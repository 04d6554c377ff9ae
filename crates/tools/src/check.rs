//! The check of finished arguments against a whole schema. Behind a grammar it covers the keywords that the grammar does not
//! enforce; without one it covers all of them.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::Serialize;
use serde_json::Value;
use toolgate_grammar::schema::Draft;

/// A schema compiled for checking; formats count as assertions.
#[derive(Debug)]
pub struct Check {
    validator: jsonschema::Validator,
    schema: Value,
}

/// A fault of a value, for a model to correct and a program to read.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Violation {
    /// JSON pointer into the value; empty for its root.
    pub pointer: String,
    /// The violated keyword.
    pub rule: String,
    /// JSON pointer of the keyword in the schema.
    pub rule_pointer: String,
    /// The value at that place.
    pub given: Value,
    /// The keyword's value, which says what is allowed there.
    pub allowed: Value,
    /// The same as a sentence.
    pub message: String,
}

/// Characters of a given value in a message; a model knows what it wrote.
const SHOWN: usize = 200;

impl Check {
    /// Compiles `schema` for checking.
    ///
    /// # Errors
    /// The validator's reason to refuse the schema.
    ///
    /// ```
    /// # use toolgate_tools::Check; use serde_json::json;
    /// let check = Check::new(&json!({"properties": {"ids": {"items": {"type": "integer"}, "uniqueItems": true}}}))?;
    /// let wrong = check.violations(&json!({"ids": [3, 3]})).remove(0);
    /// assert_eq!((wrong.pointer.as_str(), wrong.rule.as_str()), ("/ids", "uniqueItems"));
    /// assert_eq!(wrong.to_string(), "/ids: [3,3] has non-unique elements");
    /// # Ok::<(), String>(())
    /// ```
    pub fn new(schema: &Value) -> Result<Self, String> {
        let options = jsonschema::options().should_validate_formats(true);
        let validator = if jsonschema::Draft::default().detect(schema) == jsonschema::Draft::Unknown {
            // The validator refuses an unknown dialect; the keywords count all the same.
            let mut plain = schema.clone();
            plain.as_object_mut().map(|object| object.shift_remove("$schema"));
            options.with_draft(draft(schema)).build(&plain)
        } else {
            options.build(schema)
        };
        Ok(Self { validator: validator.map_err(|error| error.to_string())?, schema: schema.clone() })
    }

    /// Whether a value has no fault.
    ///
    /// ```
    /// # use toolgate_tools::Check; use serde_json::json;
    /// let check = Check::new(&json!({"properties": {"ids": {"uniqueItems": true}}}))?;
    /// assert!(check.is_valid(&json!({"ids": [3, 4]})));
    /// assert!(!check.is_valid(&json!({"ids": [3, 3]})));
    /// # Ok::<(), String>(())
    /// ```
    pub fn is_valid(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// The first few faults of a value; nobody corrects more at once. A deeply nested value has one fault, that it does not fit:
    /// the faults of each alternative take twice the time with each level.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        if self.is_valid(value) {
            return Vec::new();
        }
        if depth(value) > MAX_TOLD_DEPTH {
            return vec![Violation {
                pointer: String::new(),
                rule: "schema".to_owned(),
                rule_pointer: String::new(),
                given: Value::Null,
                allowed: Value::Null,
                message: "the value does not fit its schema, and is nested too deeply to say where"
                    .to_owned(),
            }];
        }
        let mut violations: Vec<Violation> = self
            .validator
            .iter_errors(value)
            .take(MAX_VIOLATIONS)
            .map(|error| self.violation(&error))
            .collect();
        violations.dedup();
        violations
    }

    fn violation(&self, error: &jsonschema::ValidationError<'_>) -> Violation {
        let rule_pointer = error.schema_path().to_string();
        let given = error.instance().as_ref();
        let mut message = error.to_string();
        let whole = given.to_string();
        if whole.chars().count() > SHOWN {
            let short: String = whole.chars().take(SHOWN).collect();
            message = message.replace(&whole, &format!("{short}…"));
        }
        Violation {
            pointer: error.instance_path().to_string(),
            rule: error.kind().keyword().to_owned(),
            given: given.clone(),
            allowed: self.schema.pointer(&rule_pointer).cloned().unwrap_or_default(),
            rule_pointer,
            message,
        }
    }
}

/// The deepest value whose faults are listed, in levels.
const MAX_TOLD_DEPTH: usize = 12;

/// The depth of a value, as far as it matters.
fn depth(value: &Value) -> usize {
    let mut level = vec![value];
    for depth in 0..=MAX_TOLD_DEPTH {
        if level.is_empty() {
            return depth;
        }
        level = level
            .into_iter()
            .flat_map(|value| match value {
                Value::Array(items) => items.iter().collect::<Vec<_>>(),
                Value::Object(fields) => fields.values().collect(),
                _ => Vec::new(),
            })
            .collect();
    }
    MAX_TOLD_DEPTH + 1
}

/// The draft of a document, as the compiler sees it.
fn draft(schema: &Value) -> jsonschema::Draft {
    match Draft::of(schema).unwrap_or_default() {
        Draft::Four => jsonschema::Draft::Draft4,
        Draft::Six => jsonschema::Draft::Draft6,
        Draft::Seven => jsonschema::Draft::Draft7,
        Draft::Y2019 => jsonschema::Draft::Draft201909,
        Draft::Y2020 => jsonschema::Draft::Draft202012,
    }
}

impl Violation {
    /// JSON pointer of the value to correct. It is the violation's own place. In a list whose elements are not unique, it is the
    /// first element that repeats an earlier one.
    ///
    /// ```
    /// # use toolgate_tools::Check; use serde_json::json;
    /// let check = Check::new(&json!({"properties": {"ids": {"uniqueItems": true}}}))?;
    /// assert_eq!(check.violations(&json!({"ids": [3, 4, 3]})).remove(0).place(), "/ids/2");
    /// # Ok::<(), String>(())
    /// ```
    pub fn place(&self) -> String {
        let repeated = match (self.rule.as_str(), &self.given) {
            ("uniqueItems", Value::Array(items)) => {
                let mut seen = HashSet::new();
                items.iter().position(|item| !seen.insert(sorted(item).to_string()))
            }
            _ => None,
        };
        match repeated {
            Some(index) => format!("{}/{index}", self.pointer),
            None => self.pointer.clone(),
        }
    }
}

/// The value with the fields of its objects in one order, so that equal values have equal texts.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(fields) => {
            let fields: BTreeMap<&String, Value> =
                fields.iter().map(|(key, value)| (key, sorted(value))).collect();
            fields.into_iter().map(|(key, value)| (key.clone(), value)).collect()
        }
        other => other.clone(),
    }
}

/// The most faults of one result: a model cannot use more at once.
const MAX_VIOLATIONS: usize = 4;

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "arguments" } else { &self.pointer };
        write!(f, "{place}: {}", self.message)?;
        // Messages of these rules name neither the limit nor the choices.
        match self.rule.as_str() {
            "contains" | "not" | "oneOf" | "anyOf" | "propertyNames" | "dependentRequired" => {
                let allowed = self.allowed.to_string();
                let short: String = allowed.chars().take(SHOWN).collect();
                write!(f, " (the rule is {}: {short})", self.rule)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_violation_says_where_which_rule_what_was_given_and_what_is_allowed() {
        let schema = json!({
            "type": "object",
            "properties": {"count": {"$ref": "#/$defs/count"}, "kind": {"enum": ["a", "b"]}},
            "required": ["count"],
            "additionalProperties": false,
            "$defs": {"count": {"type": "integer", "maximum": 10}}
        });
        let check = Check::new(&schema).unwrap();
        for (value, pointer, rule, given, allowed) in [
            (json!({"count": 12}), "/count", "maximum", json!(12), json!(10)),
            (json!({"count": "1"}), "/count", "type", json!("1"), json!("integer")),
            (json!({"count": 1, "kind": "c"}), "/kind", "enum", json!("c"), json!(["a", "b"])),
            (json!({}), "", "required", json!({}), json!(["count"])),
            (
                json!({"count": 1, "x": 1}),
                "",
                "additionalProperties",
                json!({"count": 1, "x": 1}),
                json!(false),
            ),
        ] {
            let found = check.violations(&value);
            assert_eq!(found.len(), 1, "{value}: {found:?}");
            let wrong = &found[0];
            assert_eq!((wrong.pointer.as_str(), wrong.rule.as_str()), (pointer, rule), "{value}");
            assert_eq!((&wrong.given, &wrong.allowed), (&given, &allowed), "{value}");
        }
        assert!(check.is_valid(&json!({"count": 10})) && check.violations(&json!({"count": 10})).is_empty());
    }

    #[test]
    fn the_place_of_a_repeated_element_is_the_second_one_whatever_the_order_of_its_fields() {
        let check = Check::new(&json!({"uniqueItems": true})).unwrap();
        for (value, place) in [
            (json!([{"a": 1, "b": [2, {"c": 3, "d": 4}]}, {}, {"b": [2, {"d": 4, "c": 3}], "a": 1}]), "/2"),
            (json!(["1", 1, "1"]), "/2"),
            (json!([null, null]), "/1"),
        ] {
            assert_eq!(check.violations(&value).remove(0).place(), place, "{value}");
        }
    }

    #[test]
    fn a_dialect_nobody_knows_is_checked_as_the_compiler_reads_it() {
        for dialect in ["https://example.com/our-own", "http://json-schema.org/draft-03/schema#", "urn:x"] {
            let check = Check::new(&json!({"$schema": dialect, "uniqueItems": true, "maximum": 3})).unwrap();
            assert!(check.is_valid(&json!([1, 2])) && !check.is_valid(&json!([1, 1])), "{dialect}");
        }
        let old = json!({"$schema": "http://json-schema.org/draft-05/schema#", "maximum": 3, "exclusiveMaximum": true});
        assert!(!Check::new(&old).unwrap().is_valid(&json!(3)), "a boolean, as in draft 4");
    }

    #[test]
    fn messages_stay_short_whatever_was_given() {
        let check = Check::new(&json!({"maxLength": 3})).unwrap();
        let wrong = check.violations(&json!("x".repeat(10_000))).remove(0);
        assert!(wrong.to_string().len() < 400, "{wrong}");
        assert_eq!(wrong.given.as_str().map(str::len), Some(10_000));
    }
}
