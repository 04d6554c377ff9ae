//! What schemars emits for ordinary Rust types compiles whole: every text of the grammar reads back as the type.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_grammar::compile::render;
use toolgate_grammar::gbnf::{SampleOptions, Sampler};
use toolgate_grammar::{Options, Schema, compile};

/// Compiles the type's schema, reads random texts of it back, and finds the given values accepted.
/// `checked` lists keywords the grammar cannot enforce.
fn check<T: JsonSchema + Serialize + DeserializeOwned>(values: &[T], checked: &[&str]) {
    let document = schema_for!(T).to_value();
    let name = T::schema_name();
    let schema = Schema::parse(&document).unwrap_or_else(|e| panic!("{name}: {e}\n{document:#}"));
    let options = Options::default();
    let compiled = compile(&schema, &options).unwrap_or_else(|e| panic!("{name}: {e}\n{document:#}"));
    let left: Vec<&str> = compiled.contract.checked().map(|entry| entry.pointer()).collect();
    assert_eq!(left, checked, "{name}\n{document:#}");
    let validator = jsonschema::options().should_validate_formats(true).build(&document).unwrap();
    let sampler = Sampler::new(&compiled.grammar, &SampleOptions::default().max_len(300)).unwrap();
    for seed in 0..60 {
        let text = sampler.seeded(seed).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}: {text}"));
        // What is checked afterwards may be looser than the type.
        if !checked.is_empty() {
            continue;
        }
        assert!(validator.is_valid(&value), "{name}: {text}\n{document:#}\n{}", compiled.grammar);
        if let Err(error) = serde_json::from_str::<T>(&text) {
            // A key written twice is the one thing a grammar of free keys cannot rule out.
            assert!(error.to_string().contains("duplicate field"), "{name}: {error}: {text}");
        }
    }
    for value in values {
        let value = serde_json::to_value(value).unwrap();
        let text = render(&value, Some(&schema), options.whitespace);
        assert!(compiled.accepts(&text).unwrap(), "{name}: {text}\n{}", compiled.grammar);
    }
}

#[derive(JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain {
    /// A path.
    path: String,
    count: u32,
    ratio: f64,
    deep: Option<i64>,
    flag: bool,
    letter: char,
    nothing: (),
}

#[derive(JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Defaults {
    #[serde(default)]
    max_lines: Option<u16>,
    #[serde(default = "ten")]
    start_line: i32,
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip)]
    hidden: u8,
}

fn ten() -> i32 {
    10
}

#[derive(JsonSchema, Serialize, Deserialize)]
struct Integers {
    a: i8,
    b: u8,
    c: i16,
    d: u16,
    e: i32,
    f: u32,
    g: i64,
    h: u64,
    i: usize,
    j: isize,
    k: std::num::NonZeroU32,
    l: std::num::NonZeroI8,
}

#[derive(JsonSchema, Serialize, Deserialize)]
struct Collections {
    list: Vec<String>,
    set: BTreeSet<u8>,
    map: BTreeMap<String, Vec<i32>>,
    hash: HashMap<String, bool>,
    pair: (i32, String),
    array: [u8; 3],
    nested: Vec<Vec<Option<bool>>>,
    boxed: Box<String>,
}

#[derive(JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Unit {
    ReadOnly,
    ReadWrite,
    /// With a description, schemars writes it apart.
    Append,
}

#[derive(JsonSchema, Serialize, Deserialize)]
enum PlainUnit {
    One,
    Two,
}

#[derive(JsonSchema, Serialize, Deserialize)]
enum External {
    Empty,
    Newtype(String),
    Tuple(i32, bool),
    Struct { x: f32, y: Option<f32> },
}

#[derive(JsonSchema, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Internal {
    Move { to: String },
    Copy(Target),
    Delete,
}

#[derive(JsonSchema, Serialize, Deserialize)]
struct Target {
    path: String,
    depth: u8,
}

#[derive(JsonSchema, Serialize, Deserialize)]
#[serde(tag = "t", content = "c")]
enum Adjacent {
    Text(String),
    Point { x: i32, y: i32 },
    None,
}

#[derive(JsonSchema, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(i64),
    Text(String),
    Many(Vec<Untagged>),
    Record { id: u32 },
}

#[derive(JsonSchema, Serialize, Deserialize)]
struct Tree {
    label: String,
    children: Vec<Tree>,
    parent: Option<Box<Tree>>,
}

#[derive(JsonSchema, Serialize, Deserialize)]
struct Even {
    odd: Option<Box<Odd>>,
}

#[derive(JsonSchema, Serialize, Deserialize)]
struct Odd {
    even: Box<Even>,
    mode: Option<Unit>,
}

#[derive(JsonSchema, Serialize, Deserialize)]
struct Flat {
    id: u8,
    #[serde(flatten)]
    target: Target,
}

#[derive(JsonSchema, Serialize, Deserialize)]
struct FlatMap {
    id: u8,
    #[serde(flatten)]
    rest: BTreeMap<String, String>,
}

#[derive(JsonSchema, Serialize, Deserialize)]
struct Bounded {
    #[schemars(range(min = 1, max = 65535))]
    port: u16,
    #[schemars(range(min = -90.0, max = 90.0))]
    latitude: f64,
    #[schemars(length(min = 1, max = 8))]
    name: String,
    #[schemars(length(min = 1, max = 3))]
    tags: Vec<String>,
    #[schemars(regex(pattern = r"^[a-z]+-\d{2}$"))]
    code: String,
    #[schemars(regex(pattern = r"\w"), length(max = 5))]
    loose: String,
    #[schemars(email)]
    email: String,
    #[schemars(url)]
    site: String,
    #[schemars(extend("multipleOf" = 5))]
    five: i32,
    #[schemars(inner(length(min = 2)))]
    words: Vec<String>,
}

#[derive(JsonSchema, Serialize, Deserialize)]
struct Newtype(#[schemars(range(min = 3))] u8);

#[derive(JsonSchema, Serialize, Deserialize)]
#[serde(transparent)]
struct Transparent {
    inner: Vec<Newtype>,
}

#[derive(JsonSchema, Serialize, Deserialize)]
struct Generic<T> {
    item: T,
    more: Vec<T>,
}

#[derive(JsonSchema, Serialize, Deserialize)]
struct Free {
    anything: Value,
    object: serde_json::Map<String, Value>,
    result: Result<u8, String>,
}

#[derive(JsonSchema, Serialize, Deserialize)]
struct Nothing;

#[derive(JsonSchema, Serialize, Deserialize)]
struct NoFields {}

#[test]
fn structs_and_their_fields() {
    let plain = Plain {
        path: "a\"b\n".into(),
        count: 1,
        ratio: 0.5,
        deep: None,
        flag: true,
        letter: '😀',
        nothing: (),
    };
    check(&[plain], &[]);
    check(&[Defaults { max_lines: Some(3), start_line: -1, kind: String::new(), hidden: 0 }], &[]);
    check(&[NoFields {}], &[]);
    check(&[Nothing], &[]);
    check(&[Generic { item: PlainUnit::One, more: vec![PlainUnit::Two] }], &[]);
    check(&[Transparent { inner: vec![Newtype(3), Newtype(255)] }], &[]);
    check(&[Flat { id: 1, target: Target { path: "p".into(), depth: 2 } }], &[]);
    check(&[FlatMap { id: 1, rest: BTreeMap::from([("k".into(), "v".into())]) }], &[]);
}

#[test]
fn integers_of_every_width_at_their_ends() {
    let ends = |low: bool| Integers {
        a: if low { i8::MIN } else { i8::MAX },
        b: if low { u8::MIN } else { u8::MAX },
        c: if low { i16::MIN } else { i16::MAX },
        d: if low { u16::MIN } else { u16::MAX },
        e: if low { i32::MIN } else { i32::MAX },
        f: if low { u32::MIN } else { u32::MAX },
        g: if low { i64::MIN } else { i64::MAX },
        h: if low { u64::MIN } else { u64::MAX },
        i: if low { usize::MIN } else { usize::MAX },
        j: if low { isize::MIN } else { isize::MAX },
        k: if low { std::num::NonZeroU32::MIN } else { std::num::NonZeroU32::MAX },
        l: if low { std::num::NonZeroI8::MIN } else { std::num::NonZeroI8::MAX },
    };
    check(&[ends(true), ends(false)], &[]);
}

#[test]
fn collections() {
    let value = Collections {
        list: vec!["a".into()],
        set: BTreeSet::from([1, 2]),
        map: BTreeMap::from([("k".into(), vec![1, -1])]),
        hash: HashMap::from([("x".into(), true)]),
        pair: (1, "b".into()),
        array: [0, 127, 255],
        nested: vec![vec![], vec![None, Some(true)]],
        boxed: Box::new("c".into()),
    };
    check(&[value], &["/properties/set/uniqueItems"]);
}

#[test]
fn enums_in_every_representation() {
    check(&[Unit::ReadOnly, Unit::ReadWrite, Unit::Append], &[]);
    check(&[PlainUnit::One, PlainUnit::Two], &[]);
    check(
        &[
            External::Empty,
            External::Newtype("x".into()),
            External::Tuple(1, true),
            External::Struct { x: 1.5, y: None },
        ],
        &[],
    );
    let target = Target { path: "p".into(), depth: 0 };
    check(&[Internal::Move { to: "x".into() }, Internal::Copy(target), Internal::Delete], &[]);
    check(&[Adjacent::Text("x".into()), Adjacent::Point { x: 1, y: 2 }, Adjacent::None], &[]);
    check(
        &[Untagged::Number(1), Untagged::Many(vec![Untagged::Text("a".into())]), Untagged::Record { id: 3 }],
        &[],
    );
}

#[test]
fn recursive_types() {
    let leaf = || Tree { label: "l".into(), children: vec![], parent: None };
    check(&[Tree { label: "r".into(), children: vec![leaf()], parent: Some(Box::new(leaf())) }], &[]);
    check(
        &[Even { odd: Some(Box::new(Odd { even: Box::new(Even { odd: None }), mode: Some(Unit::Append) })) }],
        &[],
    );
}

#[test]
fn validation_attributes() {
    let value = Bounded {
        port: 443,
        latitude: -89.5,
        name: "n".into(),
        tags: vec!["t".into()],
        code: "ab-12".into(),
        loose: "-a-".into(),
        email: "a@b.example".into(),
        site: "https://example.com/".into(),
        five: -15,
        words: vec!["ab".into()],
    };
    check(&[value], &["/properties/email/format"]);
}

#[test]
fn free_values() {
    let value =
        Free { anything: serde_json::json!([1, {"a": null}]), object: serde_json::Map::new(), result: Ok(3) };
    // An open object may hold both `Ok` and `Err`, which one branch alone does not show.
    check(&[value], &["/$defs/Result_of_uint8_or_string/oneOf"]);
}
