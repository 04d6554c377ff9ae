//! Reads the keywords that say something of a value, each into its field of the part. Used by `parse`.
//!
//! Invariant: a keyword with the wrong form is an error here; later stages see only checked values.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::choices::{Choices, TooLarge};
use super::extension::Extension;
use super::formats;
use super::node::Refusal;
use super::parse::{Parser, invalid};
use super::part::{Bound, Choice, Condition, PatternUse, TextKind};
use super::pattern::Pattern;
use super::refs::{Spot, join_pointer};
use super::support::Class;
use super::values::{Values, weight};
use super::{Decimal, Formats, Part, PartId, Types};
use crate::Error;
use crate::work::bytes;

/// What a piece of a list of choices costs, in steps: each of its characters is a state.
const CHOICES: u64 = 16;

impl<'a> Parser<'a, '_> {
    pub(super) fn assertion(
        &mut self,
        part: &mut Part,
        map: &'a Map<String, Value>,
        keyword: &str,
        value: &'a Value,
    ) -> Result<(), Error> {
        let pointer = Arc::clone(&part.pointer);
        let pointer = pointer.as_ref();
        match keyword {
            "type" => {
                self.work.spend(weight(value));
                part.types = Some(types(pointer, value)?);
            }
            "enum" => {
                let values =
                    value.as_array().ok_or_else(|| invalid(pointer, keyword, "enum is a list of values"))?;
                part.values.push(self.values(values.clone()));
            }
            "const" => part.values.push(self.values(vec![value.clone()])),
            "$ref" | "$dynamicRef" | "$recursiveRef" => self.reference(part, keyword, value)?,
            "allOf" => {
                let branches = self.branches(keyword, value)?;
                part.also.extend(branches);
            }
            "anyOf" => {
                let branches = self.branches(keyword, value)?;
                part.choices.push(Choice { keyword: "anyOf", exclusive: false, branches });
            }
            "oneOf" => {
                let branches = self.branches(keyword, value)?;
                let exclusive = branches.len() > 1;
                part.choices.push(Choice { keyword: "oneOf", exclusive, branches });
            }
            "not" => part.not = Some(self.child(keyword, value)?),
            "if" => {
                let test = self.child("if", value)?;
                let mut branch = |name: &str| map.get(name).map(|value| self.child(name, value)).transpose();
                let (then, otherwise) = (branch("then")?, branch("else")?);
                part.condition = Some(Condition { test, then, otherwise });
            }
            "then" | "else" => {
                if !map.contains_key("if") {
                    self.note(pointer, keyword, Class::Annotation, Some("ignored without if".into()));
                }
            }
            "minLength" => part.text.min = count(pointer, keyword, value)?,
            "maxLength" => part.text.max = Some(count(pointer, keyword, value)?),
            "pattern" => self.pattern(part, value)?,
            "format" => self.format(part, value)?,
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
                self.bound(part, map, keyword, value)?;
            }
            "multipleOf" => {
                let unit = number(pointer, keyword, value)?;
                if unit.is_zero() || unit.is_negative() {
                    return Err(invalid(pointer, keyword, "multipleOf is a number above zero"));
                }
                part.number.multiple_of = Some(unit);
            }
            "prefixItems" | "items" | "additionalItems" | "minItems" | "maxItems" => {
                self.array(part, map, keyword, value)?;
            }
            _ => self.object(part, map, keyword, value)?,
        }
        Ok(())
    }

    /// A list of values. They are copied, so that their size counts.
    fn values(&self, list: Vec<Value>) -> Arc<Values> {
        let values = Values::new(list);
        self.work.spend(values.size);
        Arc::new(values)
    }

    fn child(&mut self, keyword: &str, value: &'a Value) -> Result<PartId, Error> {
        self.part(self.below(&self.here, keyword, value))
    }

    fn branches(&mut self, keyword: &str, value: &'a Value) -> Result<Vec<PartId>, Error> {
        match value.as_array() {
            Some(branches) if !branches.is_empty() => self.elements(keyword, value, branches),
            _ => {
                let message = format!("{keyword} is a list of at least one schema");
                Err(invalid(&self.here.pointer, keyword, message))
            }
        }
    }

    fn elements(&mut self, keyword: &str, value: &'a Value, list: &'a [Value]) -> Result<Vec<PartId>, Error> {
        let here = self.below(&self.here, keyword, value);
        let mut ids = Vec::with_capacity(list.len());
        for (i, element) in list.iter().enumerate() {
            self.work.check(&here.pointer)?;
            ids.push(self.part(self.below(&here, &i.to_string(), element))?);
        }
        Ok(ids)
    }

    fn read_pattern(&mut self, source: &'a str) -> Result<Result<Arc<Pattern>, Refusal>, Error> {
        self.work.spend(bytes(source.len()));
        let parse = || Pattern::parse(source, &self.reader).map(Arc::new);
        let pattern = self.patterns.entry(source).or_insert_with(parse).clone();
        self.work.check(&self.here.pointer)?;
        Ok(pattern)
    }

    fn pattern(&mut self, part: &mut Part, value: &'a Value) -> Result<(), Error> {
        let Some(source) = value.as_str() else {
            return Err(invalid(&part.pointer, "pattern", "a pattern is a string"));
        };
        match self.read_pattern(source)? {
            Ok(pattern) => part.text.patterns.push(PatternUse {
                pointer: Arc::clone(&part.pointer),
                kind: TextKind::Pattern,
                pattern,
                negated: false,
            }),
            Err(Refusal::Unsupported(what)) => self.checked(part, "pattern", unsupported(what)),
            Err(Refusal::Malformed(why)) => {
                return Err(invalid(
                    &part.pointer,
                    "pattern",
                    format!("\"{source}\" is no regular expression: {why}"),
                ));
            }
        }
        Ok(())
    }

    /// A keyword that whoever reads the schema has registered.
    pub(super) fn extension(
        &mut self,
        part: &mut Part,
        extension: &Extension,
        value: &'a Value,
    ) -> Result<(), Error> {
        let keyword = extension.keyword;
        self.work.spend(CHOICES * weight(value));
        let texts = (extension.read)(value).map_err(|why| invalid(&part.pointer, keyword, why))?;
        match Choices::of(&texts) {
            Ok(choices) => {
                // Of another keyword the same value may mean other texts.
                let source = format!("{keyword} {value}");
                let made = || Arc::new(Pattern::among(choices, source.clone()));
                let pattern = Arc::clone(self.choices.entry(source.clone()).or_insert_with(made));
                part.text.patterns.push(PatternUse {
                    pointer: Arc::clone(&part.pointer),
                    kind: TextKind::Extension(keyword),
                    pattern,
                    negated: false,
                });
            }
            Err(TooLarge) => self.checked(part, keyword, "there are too many of them"),
        }
        Ok(())
    }

    fn format(&mut self, part: &mut Part, value: &'a Value) -> Result<(), Error> {
        let Some(name) = value.as_str() else {
            return Err(invalid(&part.pointer, "format", "a format is a string"));
        };
        if self.formats == Formats::Annotations {
            self.note(&part.pointer, "format", Class::Annotation, Some("formats assert nothing here".into()));
            return Ok(());
        }
        if let Some(format) = formats::format(name) {
            part.text.patterns.push(PatternUse {
                pointer: Arc::clone(&part.pointer),
                kind: TextKind::Format(format.name),
                pattern: Arc::clone(&format.pattern),
                negated: false,
            });
            if let Some(rest) = format.checked {
                self.note(&part.pointer, "format", Class::Checked, Some(rest.into()));
            }
        } else if let Some((min, max)) = formats::integer_range(name) {
            // Only integers are bounded: the names say nothing of fractions, and a validator ignores them.
            part.number.min.push(Bound { value: Decimal::integer(min), exclusive: false });
            part.number.max.push(Bound { value: Decimal::integer(max), exclusive: false });
        } else if name == "float" {
            part.number.single = true;
        } else if formats::CHECKED.contains(&name) {
            self.checked(part, "format", "no automaton stands for this format");
        } else {
            self.note(&part.pointer, "format", Class::Annotation, Some("an unknown format".into()));
        }
        Ok(())
    }

    fn bound(
        &mut self,
        part: &mut Part,
        map: &'a Map<String, Value>,
        keyword: &str,
        value: &'a Value,
    ) -> Result<(), Error> {
        let lower = keyword.ends_with("inimum");
        let exclusive = keyword.starts_with("exclusive");
        let bound = if let (true, Value::Bool(strict)) = (exclusive, value) {
            // Draft 4: a flag beside the bound, which is then the one that counts.
            let (name, other) = if lower { ("minimum", "minimum") } else { ("maximum", "maximum") };
            match (strict, map.get(name)) {
                (true, Some(bound)) => Bound { value: number(&part.pointer, other, bound)?, exclusive: true },
                _ => return Ok(()),
            }
        } else {
            Bound { value: number(&part.pointer, keyword, value)?, exclusive }
        };
        if lower {
            part.number.min.push(bound)
        } else {
            part.number.max.push(bound)
        }
        Ok(())
    }

    fn array(
        &mut self,
        part: &mut Part,
        map: &'a Map<String, Value>,
        keyword: &str,
        value: &'a Value,
    ) -> Result<(), Error> {
        let pointer = Arc::clone(&part.pointer);
        match keyword {
            "minItems" => part.array.min = count(&pointer, keyword, value)?,
            "maxItems" => part.array.max = Some(count(&pointer, keyword, value)?),
            "prefixItems" if !value.is_array() && map.contains_key("items") => self.note(
                &pointer,
                keyword,
                Class::Annotation,
                Some("not a list, and items says what the elements are".into()),
            ),
            // Not what the draft says, but there are converters that read a lone schema as that of every element.
            "prefixItems" if !value.is_array() => part.array.items = Some(self.child(keyword, value)?),
            "prefixItems" => part.array.prefix = self.list(keyword, value)?,
            "items" if value.is_array() => part.array.prefix = self.list(keyword, value)?,
            "additionalItems" if !map.get("items").is_some_and(Value::is_array) => {
                self.note(
                    &pointer,
                    keyword,
                    Class::Annotation,
                    Some("ignored without a list of items".into()),
                );
            }
            _ => part.array.items = Some(self.child(keyword, value)?),
        }
        Ok(())
    }

    fn list(&mut self, keyword: &str, value: &'a Value) -> Result<Vec<PartId>, Error> {
        match value.as_array() {
            Some(items) => self.elements(keyword, value, items),
            None => Err(invalid(&self.here.pointer, keyword, format!("{keyword} is a list of schemas"))),
        }
    }

    fn object(
        &mut self,
        part: &mut Part,
        map: &'a Map<String, Value>,
        keyword: &str,
        value: &'a Value,
    ) -> Result<(), Error> {
        let pointer = Arc::clone(&part.pointer);
        let pointer = pointer.as_ref();
        match keyword {
            "minProperties" => part.object.min = count(pointer, keyword, value)?,
            "maxProperties" => part.object.max = Some(count(pointer, keyword, value)?),
            "required" => part.object.required = self.names(pointer, keyword, value)?,
            "additionalProperties" => {
                part.object.additional = Some(self.child(keyword, value)?);
                let patterns = map.get("patternProperties").and_then(Value::as_object);
                let mut untold = false;
                for key in patterns.into_iter().flat_map(Map::keys) {
                    untold |= matches!(self.read_pattern(key)?, Err(Refusal::Unsupported(_)));
                }
                if untold {
                    self.checked(
                        part,
                        keyword,
                        "a key pattern has no automaton, so keys cannot be told apart",
                    );
                }
            }
            "propertyNames" => part.object.names = Some(self.child(keyword, value)?),
            "properties" => {
                let here = self.below(&self.here, keyword, value);
                let mut list: Vec<(Arc<str>, PartId)> = Vec::new();
                for (key, value) in schemas(pointer, keyword, value)? {
                    self.work.check(&here.pointer)?;
                    list.push((key.as_str().into(), self.part(self.below(&here, key, value))?));
                }
                part.object.properties = list.into();
            }
            "patternProperties" => {
                let here = self.below(&self.here, keyword, value);
                for (key, value) in schemas(pointer, keyword, value)? {
                    self.work.check(&here.pointer)?;
                    match self.read_pattern(key)? {
                        Ok(pattern) => {
                            let id = self.part(self.below(&here, key, value))?;
                            part.object.patterns.push((pattern, id));
                        }
                        Err(Refusal::Unsupported(what)) => {
                            part.object.unknown_patterns = true;
                            self.checked(part, keyword, unsupported(what));
                        }
                        Err(Refusal::Malformed(why)) => {
                            let message = format!("\"{key}\" is no regular expression: {why}");
                            return Err(invalid(&here.pointer, key, message));
                        }
                    }
                }
            }
            "dependentRequired" | "dependentSchemas" | "dependencies" => {
                let here = self.below(&self.here, keyword, value);
                let mut dependencies: Vec<_> = schemas(pointer, keyword, value)?.iter().collect();
                dependencies.sort_by_key(|(key, _)| key.as_str());
                for (key, value) in dependencies {
                    self.work.check(&here.pointer)?;
                    self.dependency(part, keyword, self.below(&here, key, value), key)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Either the key is absent, or what depends on it holds: a choice of two.
    fn dependency(&mut self, part: &mut Part, keyword: &str, spot: Spot<'a>, key: &str) -> Result<(), Error> {
        let mut absent = Part::at(&part.pointer);
        let never = self.synthetic(Part { never: true, ..Part::at(&part.pointer) })?;
        absent.object.properties = vec![(key.into(), never)].into();
        let mut present = Part::at(&part.pointer);
        present.types = Some(Types::OBJECT);
        present.object.required.push(key.into());
        if spot.value.is_array() {
            present.object.required.extend(self.names(
                &join_pointer(&part.pointer, keyword),
                key,
                spot.value,
            )?);
        } else {
            present.also.push(self.part(spot)?);
        }
        let branches = vec![self.synthetic(absent)?, self.synthetic(present)?];
        let keyword = match keyword {
            "dependentRequired" => "dependentRequired",
            "dependentSchemas" => "dependentSchemas",
            _ => "dependencies",
        };
        part.choices.push(Choice { keyword, exclusive: false, branches });
        Ok(())
    }

    fn names(&self, pointer: &str, keyword: &str, value: &Value) -> Result<Vec<Arc<str>>, Error> {
        self.work.spend(weight(value));
        value
            .as_array()
            .and_then(|list| list.iter().map(|name| name.as_str().map(Arc::from)).collect())
            .ok_or_else(|| invalid(pointer, keyword, format!("{keyword} is a list of property names")))
    }
}

fn unsupported(what: &str) -> String {
    format!("{what} has no automaton")
}

fn types(pointer: &str, value: &Value) -> Result<Types, Error> {
    let one = |value: &Value| match value.as_str() {
        Some("null") => Ok(Types::NULL),
        Some("boolean") => Ok(Types::BOOLEAN),
        Some("integer") => Ok(Types::INTEGER),
        Some("number") => Ok(Types::NUMBER),
        Some("string") => Ok(Types::STRING),
        Some("array") => Ok(Types::ARRAY),
        Some("object") => Ok(Types::OBJECT),
        Some(other) => Err(invalid(pointer, "type", format!("\"{other}\" is not a JSON type"))),
        None => Err(invalid(pointer, "type", "a type is a string or a list of strings")),
    };
    match value {
        Value::Array(list) => list.iter().try_fold(Types::NONE, |sum, value| Ok(sum.or(one(value)?))),
        single => one(single),
    }
}

fn count(pointer: &str, keyword: &str, value: &Value) -> Result<u64, Error> {
    let count = match value {
        Value::Number(number) => number.as_u64().or_else(|| {
            let decimal = Decimal::of(number);
            (decimal.is_integral() && !decimal.is_negative())
                .then(|| u64::try_from(decimal.floor()).unwrap_or(u64::MAX))
        }),
        _ => None,
    };
    count.ok_or_else(|| invalid(pointer, keyword, format!("{keyword} is a whole number from 0")))
}

fn number(pointer: &str, keyword: &str, value: &Value) -> Result<Decimal, Error> {
    match value {
        Value::Number(number) => Ok(Decimal::of(number)),
        _ => Err(invalid(pointer, keyword, format!("{keyword} is a number"))),
    }
}

fn schemas<'a>(pointer: &str, keyword: &str, value: &'a Value) -> Result<&'a Map<String, Value>, Error> {
    value.as_object().ok_or_else(|| invalid(pointer, keyword, format!("{keyword} is an object of schemas")))
}
