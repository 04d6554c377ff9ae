//! Instances of drawn schemas.

use serde_json::{Map, Value, json};

use super::random::{KEYS, NUMBERS, Random, TEXTS, any_value};

/// A value that tries to satisfy a schema, and often does.
pub(crate) fn instance(root: &Value, schema: &Value, random: &mut Random, depth: usize) -> Value {
    let Some(map) = schema.as_object() else { return any_value(random, 1) };
    if depth == 0 || random.percent(4) {
        return any_value(random, 1);
    }
    if let Some(value) = map.get("const") {
        return value.clone();
    }
    if let Some(values) = map.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty()) {
        return random.of(values);
    }
    if let Some(target) = map.get("$ref").and_then(Value::as_str)
        && (map.len() == 1 || random.percent(50))
    {
        let target = target.trim_start_matches('#');
        let found = root.pointer(target).unwrap_or(&Value::Null);
        return instance(root, found, random, depth - 1);
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        if let Some(list) = map.get(keyword).and_then(Value::as_array)
            && random.percent(40)
        {
            let branch = random.of(list);
            return instance(root, &branch, random, depth - 1);
        }
    }
    for keyword in ["then", "else", "if"] {
        if let Some(branch) = map.get(keyword)
            && random.percent(30)
        {
            return instance(root, branch, random, depth - 1);
        }
    }
    let types: Vec<&str> = match map.get("type") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let says = |words: &[&str]| words.iter().any(|word| map.contains_key(*word));
    let kind = if !types.is_empty() {
        random.of(&types)
    } else if says(&["properties", "required", "additionalProperties", "patternProperties", "minProperties"])
    {
        "object"
    } else if says(&["items", "prefixItems", "minItems", "contains"]) {
        "array"
    } else if says(&["minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"]) {
        "number"
    } else if says(&["pattern", "minLength", "maxLength"]) {
        "string"
    } else {
        return any_value(random, 1);
    };
    match kind {
        "object" => {
            let mut out = Map::new();
            let properties = map.get("properties").and_then(Value::as_object);
            for (name, schema) in properties.into_iter().flatten() {
                if random.percent(65) {
                    out.insert(name.clone(), instance(root, schema, random, depth - 1));
                }
            }
            for name in map.get("required").and_then(Value::as_array).into_iter().flatten() {
                let name = name.as_str().unwrap_or_default();
                let schema = properties.and_then(|map| map.get(name)).or(map.get("additionalProperties"));
                if !out.contains_key(name) {
                    let value = instance(root, schema.unwrap_or(&Value::Null), random, depth - 1);
                    out.insert(name.to_owned(), value);
                }
            }
            for _ in 0..random.below(3) {
                let name = random.of(&KEYS);
                if !out.contains_key(name) && random.percent(40) {
                    let schema = map.get("additionalProperties").unwrap_or(&Value::Null);
                    out.insert(name.to_owned(), instance(root, schema, random, depth - 1));
                }
            }
            Value::Object(out)
        }
        "array" => {
            let list = |name: &str| map.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
            let prefix = if map.contains_key("prefixItems") { list("prefixItems") } else { list("items") };
            let rest = map.get("items").filter(|items| !items.is_array()).or(map.get("additionalItems"));
            let least = map.get("minItems").and_then(Value::as_u64).unwrap_or(0).min(4) as usize;
            let n = least + random.below(3);
            (0..n)
                .map(|i| {
                    let schema = prefix.get(i).or(rest).unwrap_or(&Value::Null);
                    instance(root, schema, random, depth - 1)
                })
                .collect()
        }
        "integer" | "number" => {
            let near = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
            let near: Vec<&Value> = near.iter().filter_map(|word| map.get(*word)).collect();
            match near.get(random.below(near.len() + 1)) {
                Some(value) if value.is_i64() => {
                    let value = value.as_i64().unwrap_or_default();
                    let other = value.checked_add(random.below(3) as i64 - 1).unwrap_or(value);
                    json!(other)
                }
                Some(value) if value.is_number() => (*value).clone(),
                _ => serde_json::from_str(random.of(&NUMBERS)).unwrap(),
            }
        }
        "string" => {
            let text = random.of(&TEXTS);
            json!(if random.percent(15) { text.repeat(3) } else { text.to_owned() })
        }
        "boolean" => json!(random.percent(50)),
        "null" => Value::Null,
        _ => any_value(random, 1),
    }
}
