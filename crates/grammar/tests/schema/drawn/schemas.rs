//! Documents drawn at random, and documents changed at random.

use serde_json::{Map, Value, json};

use super::random::{FORMATS, KEYS, NUMBERS, PATTERNS, Random, any_value};

/// A draft, by what a document says it is.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Draft {
    Four,
    Six,
    Seven,
    Y2019,
    Y2020,
}

struct Drawing<'r> {
    random: &'r mut Random,
    draft: Draft,
    definitions: usize,
}

/// A whole document.
pub(crate) fn document(random: &mut Random) -> Value {
    let drafts = [
        (Draft::Y2020, None),
        (Draft::Y2020, None),
        (Draft::Y2020, None),
        (Draft::Y2020, Some("https://json-schema.org/draft/2020-12/schema")),
        (Draft::Y2019, Some("https://json-schema.org/draft/2019-09/schema")),
        (Draft::Seven, Some("http://json-schema.org/draft-07/schema#")),
        (Draft::Seven, Some("http://json-schema.org/draft-07/schema#")),
        (Draft::Six, Some("http://json-schema.org/draft-06/schema#")),
        (Draft::Four, Some("http://json-schema.org/draft-04/schema#")),
    ];
    let (draft, name) = random.of(&drafts);
    let definitions = if random.percent(40) { 1 + random.below(2) } else { 0 };
    let depth = 1 + random.below(3);
    let mut drawing = Drawing { random, draft, definitions };
    let mut root = drawing.schema(depth);
    let defs: Map<String, Value> = (0..definitions)
        .map(|i| {
            let mut schema = drawing.schema(1 + i % 2);
            if let (true, Some(map)) = (draft >= Draft::Y2019, schema.as_object_mut()) {
                map.insert("$anchor".to_owned(), json!(format!("anchor{i}")));
            }
            (format!("d{i}"), schema)
        })
        .collect();
    let Some(map) = root.as_object_mut() else { return root };
    if definitions > 0 {
        let keyword = if draft >= Draft::Y2019 { "$defs" } else { "definitions" };
        // Before draft 2019-09 nothing beside a reference counts, so it moves out of the way.
        if draft < Draft::Y2019 && map.contains_key("$ref") {
            let inner = std::mem::take(map);
            map.insert("allOf".to_owned(), json!([inner]));
        }
        map.insert(keyword.to_owned(), Value::Object(defs));
    }
    if let Some(name) = name {
        map.insert("$schema".to_owned(), json!(name));
    }
    root
}

/// A document with one to three of its subschemas said more or less of.
pub(crate) fn changed(document: &Value, random: &mut Random) -> Value {
    let name = document["$schema"].as_str().unwrap_or_default();
    let known = [
        ("draft-04", Draft::Four),
        ("draft-06", Draft::Six),
        ("draft-07", Draft::Seven),
        ("2019", Draft::Y2019),
    ];
    let draft =
        known.into_iter().find(|(part, _)| name.contains(part)).map_or(Draft::Y2020, |(_, draft)| draft);
    let mut changed = document.clone();
    for _ in 0..=random.below(3) {
        let mut places = Vec::new();
        subschemas(&changed, String::new(), &mut places);
        let place = random.of(&places);
        let mut drawing = Drawing { random, draft, definitions: 0 };
        let Some(Value::Object(map)) = changed.pointer_mut(&place) else { continue };
        match drawing.random.below(6) {
            0 | 1 => drawing.combination(map, 1),
            2 => {
                let drawn = drawing.schema(1);
                map.extend(drawn.as_object().cloned().unwrap_or_default());
            }
            3 => {
                let keys: Vec<String> = map.keys().filter(|key| *key != "$schema").cloned().collect();
                if !keys.is_empty() {
                    map.shift_remove(&drawing.random.of(&keys));
                }
            }
            4 => {
                let _: &str = drawing.object(map, 1);
            }
            _ => {
                let _: &str = drawing.string(map);
            }
        }
    }
    changed
}

/// The pointers of what are certainly subschemas.
fn subschemas(schema: &Value, pointer: String, out: &mut Vec<String>) {
    let Some(map) = schema.as_object() else { return };
    for (keyword, value) in map {
        match (keyword.as_str(), value) {
            ("properties" | "$defs" | "definitions" | "patternProperties", Value::Object(inner)) => {
                for (key, value) in inner {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    subschemas(value, format!("{pointer}/{keyword}/{key}"), out);
                }
            }
            ("items" | "additionalProperties" | "not" | "if" | "then" | "else", Value::Object(_)) => {
                subschemas(value, format!("{pointer}/{keyword}"), out);
            }
            ("anyOf" | "oneOf" | "allOf", Value::Array(list)) => {
                for (i, value) in list.iter().enumerate() {
                    subschemas(value, format!("{pointer}/{keyword}/{i}"), out);
                }
            }
            _ => {}
        }
    }
    out.push(pointer);
}

impl Drawing<'_> {
    fn schema(&mut self, depth: usize) -> Value {
        if self.random.percent(5) {
            let whole = [json!(true), json!(false), json!({}), json!({})];
            let whole = self.random.of(&whole);
            return if self.draft == Draft::Four && whole.is_boolean() { json!({}) } else { whole };
        }
        let mut map = Map::new();
        if self.definitions > 0 && self.random.percent(15) {
            let i = self.random.below(self.definitions);
            let reference = match self.draft {
                Draft::Y2019 | Draft::Y2020 if self.random.percent(20) => format!("#anchor{i}"),
                Draft::Y2019 | Draft::Y2020 => format!("#/$defs/d{i}"),
                _ => format!("#/definitions/d{i}"),
            };
            let reference = if self.random.percent(6) { "#".to_owned() } else { reference };
            map.insert("$ref".to_owned(), json!(reference));
            if self.random.percent(50) {
                return map.into();
            }
        }
        let kinds = 1 + usize::from(self.random.percent(20)) + usize::from(self.random.percent(5));
        let mut types = Vec::new();
        for _ in 0..kinds {
            let kind = match self.random.below(if depth == 0 { 5 } else { 9 }) {
                0 => self.string(&mut map),
                1 | 2 => self.number(&mut map),
                3 => self.values(&mut map),
                4 => self.random.of(&["boolean", "null"]),
                5 | 6 => self.array(&mut map, depth),
                _ => self.object(&mut map, depth),
            };
            if !kind.is_empty() && !types.contains(&kind) {
                types.push(kind);
            }
        }
        if !types.is_empty() && self.random.percent(75) {
            let one = types.len() == 1 && self.random.percent(90);
            map.insert("type".to_owned(), if one { json!(types[0]) } else { json!(types) });
        }
        if depth > 0 && self.random.percent(45) {
            for _ in 0..=self.random.below(2) {
                self.combination(&mut map, depth - 1);
            }
        }
        map.into()
    }

    fn list(&mut self, depth: usize) -> Value {
        let n = 1 + self.random.below(3);
        (0..n).map(|_| self.schema(depth)).collect()
    }

    fn key(&mut self) -> String {
        self.random.of(&KEYS).to_owned()
    }

    fn combination(&mut self, map: &mut Map<String, Value>, depth: usize) {
        let mut add = |name: &str, value: Value| map.insert(name.to_owned(), value);
        match self.random.below(13) {
            0 | 1 => add("anyOf", self.list(depth)),
            2 | 3 => add("oneOf", self.list(depth)),
            4 | 5 => add("allOf", self.list(depth)),
            6 => add("not", self.schema(depth)),
            7 | 8 => {
                if self.random.percent(85) {
                    add("then", self.schema(depth));
                }
                if self.random.percent(60) {
                    add("else", self.schema(depth));
                }
                add("if", self.schema(depth))
            }
            9 => {
                let name = if self.draft >= Draft::Y2019 { "dependentRequired" } else { "dependencies" };
                let (key, needs) = (self.key(), [self.key(), self.key()]);
                add(name, json!({key: needs[..1 + self.random.below(2)]}))
            }
            10 => {
                let name = if self.draft >= Draft::Y2019 { "dependentSchemas" } else { "dependencies" };
                let key = self.key();
                add(name, json!({key: self.schema(depth)}))
            }
            11 if self.draft >= Draft::Y2019 => {
                let schema = if self.random.percent(60) { json!(false) } else { self.schema(depth) };
                add(self.random.of(&["unevaluatedProperties", "unevaluatedItems"]), schema)
            }
            _ => add("anyOf", self.list(depth)),
        };
    }

    fn string(&mut self, map: &mut Map<String, Value>) -> &'static str {
        let mut add = |name: &str, value: Value| map.insert(name.to_owned(), value);
        if self.random.percent(30) {
            add("minLength", json!(self.random.below(4)));
        }
        if self.random.percent(30) {
            add("maxLength", json!(self.random.below(6)));
        }
        if self.random.percent(35) {
            add("pattern", json!(self.random.of(&PATTERNS)));
        }
        if self.random.percent(12) {
            // What a draft does not know, its validators ignore.
            let known = if self.draft >= Draft::Seven { &FORMATS[..] } else { &FORMATS[..2] };
            add("format", json!(self.random.of(known)));
        }
        "string"
    }

    fn any_number(&mut self) -> Value {
        serde_json::from_str(self.random.of(&NUMBERS)).unwrap()
    }

    fn number(&mut self, map: &mut Map<String, Value>) -> &'static str {
        for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
            if !self.random.percent(35) {
                continue;
            }
            let value = self.any_number();
            match (self.random.percent(30), self.draft == Draft::Four) {
                (true, true) => {
                    map.insert(bound.to_owned(), value);
                    map.insert(exclusive.to_owned(), json!(true));
                }
                (true, false) => {
                    map.insert(exclusive.to_owned(), value);
                }
                (false, _) => {
                    map.insert(bound.to_owned(), value);
                }
            }
        }
        if self.random.percent(20) {
            let units =
                [json!(1), json!(2), json!(3), json!(10), json!(0.5), json!(0.01), json!(1.0), json!(7)];
            map.insert("multipleOf".to_owned(), self.random.of(&units));
        }
        self.random.of(&["integer", "number"])
    }

    fn values(&mut self, map: &mut Map<String, Value>) -> &'static str {
        let n = 1 + self.random.below(4);
        let mut values: Vec<Value> = Vec::new();
        for _ in 0..n {
            let value = self.any_value(1);
            if !values.contains(&value) {
                values.push(value);
            }
        }
        match values.as_slice() {
            [only] if self.draft >= Draft::Six => map.insert("const".to_owned(), only.clone()),
            _ => map.insert("enum".to_owned(), json!(values)),
        };
        ""
    }

    fn array(&mut self, map: &mut Map<String, Value>, depth: usize) -> &'static str {
        let inner = depth.saturating_sub(1);
        let mut add = |name: &str, value: Value| map.insert(name.to_owned(), value);
        if self.random.percent(35) {
            let prefix = self.list(inner);
            let (first, rest) = if self.draft >= Draft::Y2020 {
                ("prefixItems", "items")
            } else {
                ("items", "additionalItems")
            };
            add(first, prefix);
            if self.random.percent(50) {
                add(rest, self.schema(inner));
            }
        } else if self.random.percent(70) {
            add("items", self.schema(inner));
        }
        if self.random.percent(25) {
            add("minItems", json!(self.random.below(3)));
        }
        if self.random.percent(25) {
            add("maxItems", json!(self.random.below(4)));
        }
        if self.random.percent(10) {
            add("uniqueItems", json!(true));
        }
        if self.random.percent(10) {
            add("contains", self.schema(inner));
            if self.draft >= Draft::Y2019 && self.random.percent(40) {
                add("minContains", json!(self.random.below(3)));
            }
            if self.draft >= Draft::Y2019 && self.random.percent(40) {
                add("maxContains", json!(self.random.below(3)));
            }
        }
        "array"
    }

    fn object(&mut self, map: &mut Map<String, Value>, depth: usize) -> &'static str {
        let inner = depth.saturating_sub(1);
        let mut add = |name: &str, value: Value| map.insert(name.to_owned(), value);
        if self.random.percent(80) {
            let n = 1 + self.random.below(3);
            let properties: Map<String, Value> = (0..n).map(|_| (self.key(), self.schema(inner))).collect();
            add("properties", properties.into());
        }
        if self.random.percent(45) {
            let n = 1 + self.random.below(2);
            let mut names: Vec<String> = (0..n).map(|_| self.key()).collect();
            names.dedup();
            add("required", json!(names));
        }
        if self.random.percent(45) {
            let schema = if self.random.percent(60) { json!(false) } else { self.schema(inner) };
            add("additionalProperties", schema);
        }
        if self.random.percent(20) {
            let n = 1 + self.random.below(2);
            let patterns: Map<String, Value> =
                (0..n).map(|_| (self.random.of(&PATTERNS).to_owned(), self.schema(inner))).collect();
            add("patternProperties", patterns.into());
        }
        if self.random.percent(12) && self.draft >= Draft::Six {
            let names = [
                json!({"pattern": "^[a-c]+$"}),
                json!({"maxLength": 2}),
                json!({"enum": ["a", "b", "zz"]}),
                json!({"minLength": 2}),
                json!({"not": {"const": "a"}}),
                json!({"type": "number"}),
            ];
            add("propertyNames", self.random.of(&names));
        }
        if self.random.percent(20) {
            add("minProperties", json!(self.random.below(4)));
        }
        if self.random.percent(20) {
            add("maxProperties", json!(self.random.below(4)));
        }
        "object"
    }

    fn any_value(&mut self, depth: usize) -> Value {
        any_value(self.random, depth)
    }
}

/// Whether a subschema refers to itself about the same value, which no draft gives a meaning.
pub(crate) fn is_circular(document: &Value) -> bool {
    fn below<'d>(root: &'d Value, schema: &'d Value, above: &mut Vec<&'d Value>) -> bool {
        let Some(map) = schema.as_object() else { return false };
        if above.len() > 40 || above.iter().any(|other| std::ptr::eq(*other, schema)) {
            return true;
        }
        above.push(schema);
        let found = map.iter().any(|(keyword, value)| match (keyword.as_str(), value) {
            ("$ref", Value::String(to)) => {
                let to = to.trim_start_matches('#');
                let named = format!("/$defs/{}", to.replace("anchor", "d"));
                let target = root.pointer(if to.starts_with("anchor") { &named } else { to });
                target.is_some_and(|target| below(root, target, above))
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => {
                list.iter().any(|inner| below(root, inner, above))
            }
            ("not" | "if" | "then" | "else", inner) => below(root, inner, above),
            ("dependentSchemas" | "dependencies", Value::Object(map)) => {
                map.values().any(|inner| below(root, inner, above))
            }
            _ => false,
        });
        above.pop();
        found
    }
    fn all<'d>(root: &'d Value, value: &'d Value) -> bool {
        below(root, value, &mut Vec::new())
            || match value {
                Value::Object(map) => map.values().any(|inner| all(root, inner)),
                Value::Array(list) => list.iter().any(|inner| all(root, inner)),
                _ => false,
            }
    }
    all(document, document)
}
