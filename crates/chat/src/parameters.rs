//! What a prompt shows of a tool's parameters, what a grammar enforces of them, and the order their values come in.
//!
//! Pure functions from JSON Schema to JSON; a schema they do not understand comes out as it went in.

use serde_json::{Map, Value};

/// Without `$schema`, titles and whatever else tells a model nothing.
pub(crate) fn shown(parameters: &Value) -> Value {
    let mut shown = parameters.clone();
    visit(&mut shown, &mut |schema, _| tidy_shown(schema));
    shown
}

/// The schema as other programs are told it: with whole lists of values, and objects that take no other properties.
pub(crate) fn told(parameters: &Value) -> Value {
    let mut told = parameters.clone();
    visit(&mut told, &mut |schema, _| tidy(schema));
    told
}

/// Entries of a list of values that a prompt shows. What a model writes is held to all of them; to read a thousand takes a small one a
/// minute and more, each time that the prompt is new.
const SHOWN_VALUES: usize = 64;

/// A schema as a prompt shows it where nothing else of it is to be left out: of long lists of values the first.
///
/// ```
/// use serde_json::json;
/// let cities: Vec<String> = (0..1_000).map(|n| format!("city {n}")).collect();
/// let shown = toolgate_chat::shortened(&json!({"properties": {"city": {"enum": cities}}}));
/// let values = shown["properties"]["city"]["enum"].as_array().map(Vec::as_slice).unwrap_or_default();
/// assert_eq!(values.first(), Some(&json!("city 0")));
/// assert_eq!(values.last(), Some(&json!("… and 936 more")));
/// ```
pub fn shortened(schema: &Value) -> Value {
    let mut shown = schema.clone();
    visit(&mut shown, &mut |schema, _| shorten(schema));
    shown
}

fn shorten(schema: &mut Map<String, Value>) {
    for keyword in ["enum", "anyOf", "oneOf"] {
        let Some(values) = schema.get_mut(keyword).and_then(Value::as_array_mut) else { continue };
        let more = values.len().saturating_sub(SHOWN_VALUES);
        // A note in place of one or two would be as long as they are.
        if more > 2 {
            values.truncate(SHOWN_VALUES);
            values.push(format!("… and {more} more").into());
        }
    }
}

/// Objects that list their properties take no others, wherever that cannot contradict another part of the schema.
pub(crate) fn closed(parameters: &Value) -> Value {
    let mut closed = parameters.clone();
    visit(&mut closed, &mut |schema, _| say_less(schema));
    let shared = mentions(&closed, &["allOf", "$dynamicRef", "$recursiveRef"]) || has_extended_ref(&closed);
    visit(&mut closed, &mut |schema, place| close(schema, place, shared));
    if let Some(root) = closed.as_object_mut() {
        let open = [
            "properties",
            "patternProperties",
            "propertyNames",
            "minProperties",
            "required",
            "additionalProperties",
            "unevaluatedProperties",
            "$ref",
            "$dynamicRef",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "if",
            "enum",
            "const",
        ];
        // A tool that lists no parameters at all takes none: servers write it so.
        if !open.iter().any(|keyword| root.contains_key(*keyword)) {
            root.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
    }
    closed
}

/// The arguments with their keys in schema order; unknown keys last, in the order given.
pub(crate) fn arrange(parameters: &Value, arguments: &Map<String, Value>) -> Map<String, Value> {
    arrange_object(parameters, parameters, arguments, DEPTH)
}

/// Nesting of schemas and values that is followed: the bound serde_json puts on parsed text.
const DEPTH: usize = 128;

fn arrange_object(
    root: &Value,
    schema: &Value,
    object: &Map<String, Value>,
    depth: usize,
) -> Map<String, Value> {
    let mut order = Vec::new();
    collect_properties(root, schema, object, &mut order, &mut Vec::new(), depth);
    let mut arranged = Map::with_capacity(object.len());
    for (key, property) in order {
        if let Some(value) = object.get(key).filter(|_| !arranged.contains_key(key)) {
            arranged.insert(key.to_owned(), arrange_value(root, property, value, depth));
        }
    }
    let others = resolve(root, schema, depth).get("additionalProperties").unwrap_or(&Value::Null);
    for (key, value) in object {
        if !arranged.contains_key(key) {
            arranged.insert(key.clone(), arrange_value(root, others, value, depth));
        }
    }
    arranged
}

fn arrange_value(root: &Value, schema: &Value, value: &Value, depth: usize) -> Value {
    let Some(depth) = depth.checked_sub(1) else { return value.clone() };
    match value {
        Value::Object(object) => Value::Object(arrange_object(root, schema, object, depth)),
        Value::Array(items) => {
            let schema = resolve(root, schema, depth);
            let prefix = schema.get("prefixItems").and_then(Value::as_array);
            let rest = schema.get("items").unwrap_or(&Value::Null);
            let item_schema = |i: usize| prefix.and_then(|prefix| prefix.get(i)).unwrap_or(rest);
            let arranged =
                items.iter().enumerate().map(|(i, item)| arrange_value(root, item_schema(i), item, depth));
            Value::Array(arranged.collect())
        }
        scalar => scalar.clone(),
    }
}

/// The properties in the order a grammar has them: those of the schema itself, then of every branch that fits.
fn collect_properties<'a>(
    root: &'a Value,
    schema: &'a Value,
    object: &Map<String, Value>,
    order: &mut Vec<(&'a str, &'a Value)>,
    seen: &mut Vec<&'a Value>,
    depth: usize,
) {
    let Some(depth) = depth.checked_sub(1) else { return };
    // A schema may name itself many times over; once is enough, and keeps this linear.
    if seen.iter().any(|other| std::ptr::eq(*other, schema)) {
        return;
    }
    seen.push(schema);
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        order.extend(properties.iter().map(|(key, property)| (key.as_str(), property)));
    }
    if schema.get("$ref").is_some() {
        let target = resolve(root, schema, depth);
        if !std::ptr::eq(target, schema) {
            collect_properties(root, target, object, order, seen, depth);
        }
    }
    for branch in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        collect_properties(root, branch, object, order, seen, depth);
    }
    for keyword in ["anyOf", "oneOf"] {
        let branches = schema.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        // Branches of a union order their properties each in their own way: only one of them wrote this object.
        let fitting = branches.iter().find(|branch| fits(root, branch, object, depth));
        if let Some(branch) = fitting {
            collect_properties(root, branch, object, order, seen, depth);
        }
    }
}

/// Whether an object could be of this branch, by its keys and its constant members.
fn fits(root: &Value, branch: &Value, object: &Map<String, Value>, depth: usize) -> bool {
    let branch = resolve(root, branch, depth);
    let Some(properties) = branch.get("properties").and_then(Value::as_object) else {
        return branch.get("anyOf").is_some()
            || branch.get("oneOf").is_some()
            || branch.get("allOf").is_some();
    };
    let required = branch.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    required.iter().filter_map(Value::as_str).all(|key| object.contains_key(key))
        && object.iter().all(|(key, value)| match properties.get(key) {
            Some(property) => {
                property.get("const").is_none_or(|constant| constant == value)
                    && property
                        .get("enum")
                        .and_then(Value::as_array)
                        .is_none_or(|values| values.contains(value))
            }
            None => branch.get("additionalProperties").is_some_and(|others| others != &Value::Bool(false)),
        })
}

/// Follows references inside the document, a bounded number of times.
pub(crate) fn resolve<'a>(root: &'a Value, schema: &'a Value, depth: usize) -> &'a Value {
    let mut current = schema;
    for _ in 0..depth {
        let Some(target) = current.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'))
        else {
            return current;
        };
        match root.pointer(target) {
            Some(found) => current = found,
            None => return current,
        }
    }
    current
}

/// Where in a schema a subschema stands, as far as closing it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The whole of a value: the root, a property, an item.
    Value,
    /// A branch of `anyOf`/`oneOf` of a schema that lists no properties itself.
    Branch,
    /// A part that is combined with others: closing it could contradict them.
    Part,
    /// A definition, which may be used as any of these.
    Definition,
}

/// Calls `f` on every subschema that is an object, outermost first.
/// Adds the keywords of `"x-grammar"`: what a value may be, but a model had better not say.
fn say_less(schema: &mut Map<String, Value>) {
    if let Some(Value::Object(narrower)) = schema.shift_remove("x-grammar") {
        schema.extend(narrower);
    }
}

pub(crate) fn visit(schema: &mut Value, f: &mut dyn FnMut(&mut Map<String, Value>, Standing)) {
    walk(schema, Standing::Value, f, DEPTH);
}

fn walk(
    schema: &mut Value,
    standing: Standing,
    f: &mut dyn FnMut(&mut Map<String, Value>, Standing),
    depth: usize,
) {
    let (Some(map), Some(depth)) = (schema.as_object_mut(), depth.checked_sub(1)) else { return };
    f(map, standing);
    let branch = match standing {
        Standing::Part => Standing::Part,
        _ if map.contains_key("properties") || map.contains_key("allOf") || map.contains_key("$ref") => {
            Standing::Part
        }
        Standing::Definition => Standing::Definition,
        _ => Standing::Branch,
    };
    for (keyword, value) in map.iter_mut() {
        match (keyword.as_str(), value) {
            ("properties" | "patternProperties", Value::Object(inner)) => {
                inner.values_mut().for_each(|inner| walk(inner, Standing::Value, f, depth));
            }
            ("$defs" | "definitions", Value::Object(inner)) => {
                inner.values_mut().for_each(|inner| walk(inner, Standing::Definition, f, depth));
            }
            ("dependentSchemas", Value::Object(inner)) => {
                inner.values_mut().for_each(|inner| walk(inner, Standing::Part, f, depth));
            }
            ("items", Value::Array(inner)) => {
                inner.iter_mut().for_each(|inner| walk(inner, Standing::Value, f, depth));
            }
            ("items" | "additionalProperties", inner) => walk(inner, Standing::Value, f, depth),
            ("prefixItems", Value::Array(inner)) => {
                inner.iter_mut().for_each(|inner| walk(inner, Standing::Value, f, depth));
            }
            ("anyOf" | "oneOf", Value::Array(inner)) => {
                inner.iter_mut().for_each(|inner| walk(inner, branch, f, depth));
            }
            ("allOf", Value::Array(inner)) => {
                inner.iter_mut().for_each(|inner| walk(inner, Standing::Part, f, depth));
            }
            (
                "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "propertyNames"
                | "unevaluatedItems"
                | "unevaluatedProperties"
                | "additionalItems",
                inner,
            ) => walk(inner, Standing::Part, f, depth),
            _ => {}
        }
    }
}

fn tidy_shown(schema: &mut Map<String, Value>) {
    tidy(schema);
    for noise in ["$schema", "$id", "$comment", "additionalProperties"] {
        if !schema.get(noise).is_some_and(Value::is_object) {
            schema.shift_remove(noise);
        }
    }
    shorten(schema);
}

/// Leaves out what is for the grammar or for nobody.
fn tidy(schema: &mut Map<String, Value>) {
    let required: Vec<String> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        // What may be left out need not be null as well: it is said by leaving it out.
        properties.iter_mut().filter(|(name, _)| !required.contains(name)).for_each(|(_, p)| without_null(p));
    }
    if !schema.get("x-advanced").is_some_and(Value::is_object) {
        schema.shift_remove("x-advanced");
    }
    // For the grammar alone.
    schema.shift_remove("x-grammar");
    if schema.get("title").is_some_and(Value::is_string) {
        schema.shift_remove("title");
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.shift_remove("default");
    }
    let widths: [i64; 6] =
        [i8::MAX.into(), i16::MAX.into(), i32::MAX.into(), u8::MAX.into(), u16::MAX.into(), u32::MAX.into()];
    if schema.get("maximum").and_then(Value::as_i64).is_some_and(|max| widths.contains(&max)) {
        schema.shift_remove("maximum");
    }
    let lowest: [i64; 3] = [i8::MIN.into(), i16::MIN.into(), i32::MIN.into()];
    if schema.get("minimum").and_then(Value::as_i64).is_some_and(|min| lowest.contains(&min)) {
        schema.shift_remove("minimum");
    }
}

fn without_null(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    if let Some(kinds) = map.get_mut("type").and_then(Value::as_array_mut) {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
    }
    if let Some(values) = map.get_mut("enum").and_then(Value::as_array_mut).filter(|values| values.len() > 1)
    {
        values.retain(|value| !value.is_null());
    }
    let Some(branches) =
        map.get_mut("anyOf").and_then(Value::as_array_mut).filter(|branches| branches.len() > 1)
    else {
        return;
    };
    branches.retain(|branch| branch.get("type").is_none_or(|kind| kind != "null"));
    if let [Value::Object(only)] = branches.as_slice() {
        let only = only.clone();
        if only.keys().all(|key| !map.contains_key(key)) {
            map.shift_remove("anyOf");
            map.extend(only);
        }
    }
}

fn close(schema: &mut Map<String, Value>, standing: Standing, shared: bool) {
    let combined = [
        "additionalProperties",
        "unevaluatedProperties",
        "$ref",
        "$dynamicRef",
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "dependentSchemas",
        "not",
        "minProperties",
    ];
    if standing == Standing::Part
        || (standing == Standing::Definition && shared)
        || combined.iter().any(|keyword| schema.contains_key(*keyword))
    {
        return;
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    let required = schema.get("required").and_then(Value::as_array);
    let all_declared = required.is_none_or(|required| {
        required.iter().all(|name| name.as_str().is_some_and(|n| properties.contains_key(n)))
    });
    if all_declared {
        schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
}

fn mentions(schema: &Value, keywords: &[&str]) -> bool {
    match schema {
        Value::Object(map) => {
            map.iter().any(|(key, value)| keywords.contains(&key.as_str()) || mentions(value, keywords))
        }
        Value::Array(items) => items.iter().any(|item| mentions(item, keywords)),
        _ => false,
    }
}

/// Whether some `$ref` has properties beside it, so that the schema it names is only part of an object.
fn has_extended_ref(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            (map.contains_key("$ref") && map.contains_key("properties")) || map.values().any(has_extended_ref)
        }
        Value::Array(items) => items.iter().any(has_extended_ref),
        _ => false,
    }
}
