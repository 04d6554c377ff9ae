//! Schemas of one kind each, of any size: those that take work in proportion to it, those that multiply out, and those
//! of which something is proven or determinized.

mod keywords;
mod metered;
mod texts;
mod values;

use serde_json::{Map, Value};

pub(crate) use metered::{metered, proven};

/// A schema of about so many parts.
pub(crate) type Make = fn(usize) -> Value;

pub(crate) fn named(n: usize, value: impl Fn(usize) -> Value) -> Map<String, Value> {
    (0..n).map(|i| (format!("p{i}"), value(i))).collect()
}

pub(crate) fn list(n: usize, value: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..n).map(value).collect()
}

pub(crate) fn texts(n: usize, text: impl Fn(usize) -> String) -> Vec<Value> {
    list(n, |i| text(i).into())
}

/// The keys of `named`.
pub(crate) fn keys(n: usize) -> Vec<Value> {
    texts(n, |i| format!("p{i}"))
}

pub(crate) fn joined(n: usize, between: &str, text: impl Fn(usize) -> String) -> String {
    (0..n).map(text).collect::<Vec<_>>().join(between)
}

pub(crate) fn within(depth: usize, inner: Value, outer: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(inner, |inner, _| outer(inner))
}

/// Distinct characters that are neither ASCII nor neighbours.
pub(crate) fn characters(n: usize) -> String {
    (0..n as u32).filter_map(|i| char::from_u32(0x4E00 + 2 * i)).collect()
}

/// Name, size and schema: twice the size takes about twice the work.
pub(crate) fn linear() -> Vec<(&'static str, usize, Make)> {
    [
        keywords::negations(),
        keywords::branches(),
        keywords::references(),
        values::objects(),
        values::lists_and_values(),
        texts::texts_and_numbers(),
        texts::places(),
    ]
    .concat()
}
