//! Reads a request's body field by field. So each fault has a JSON pointer.

use std::fmt;

use serde_json::Value;

use super::refusal::Refusal;
use super::warning::{Warning, Warnings};
use toolgate_engine::stages::step;

/// A place in a request's body, with the value there. JSON null counts as no value.
#[derive(Clone, Debug)]
pub(super) struct Field<'a> {
    value: Option<&'a Value>,
    pointer: String,
    warnings: Warnings,
}

impl<'a> Field<'a> {
    /// The whole body.
    pub(super) fn root(body: &'a Value) -> Self {
        Self { value: Some(body), pointer: String::new(), warnings: Warnings::default() }
    }

    /// The member of an object. It has no value if this is no object.
    pub(super) fn at(&self, key: &str) -> Self {
        let value = self.value.and_then(|value| value.get(key)).filter(|value| !value.is_null());
        let pointer = format!("{}/{}", self.pointer, step(key));
        Self { value, pointer, warnings: self.warnings.clone() }
    }

    pub(super) fn pointer(&self) -> &str {
        &self.pointer
    }

    /// A field with a value that the body only names. Its pointer is that of the name.
    pub(super) fn standing_for<'b>(&self, value: &'b Value) -> Field<'b> {
        Field { value: Some(value), pointer: self.pointer.clone(), warnings: self.warnings.clone() }
    }

    pub(super) fn value(&self) -> Option<&'a Value> {
        self.value
    }

    pub(super) fn is_there(&self) -> bool {
        self.value.is_some()
    }

    /// The refusal of the value here.
    pub(super) fn wrong(&self, message: impl AsRef<str>) -> Refusal {
        Refusal::at(&self.pointer, message)
    }

    /// Notes that the value here is not done as it was sent.
    pub(super) fn warn(&self, message: impl Into<String>) {
        self.warnings.add(&self.pointer, message);
    }

    /// Notes the same of another place of the body.
    pub(super) fn warn_at(&self, pointer: &str, message: impl Into<String>) {
        self.warnings.add(pointer, message);
    }

    /// The warnings of the whole body so far.
    pub(super) fn warnings(&self) -> Vec<Warning> {
        self.warnings.told()
    }

    fn read<T>(&self, what: &str, read: impl FnOnce(&'a Value) -> Option<T>) -> Result<Option<T>, Refusal> {
        let wrong = || self.wrong(format!("expected {what}"));
        self.value.map(|value| read(value).ok_or_else(wrong)).transpose()
    }

    fn needed<T>(&self, what: &str, read: Option<T>) -> Result<T, Refusal> {
        read.ok_or_else(|| self.wrong(format!("{what} is missing")))
    }

    pub(super) fn text(&self) -> Result<Option<&'a str>, Refusal> {
        self.read("a text", Value::as_str)
    }

    pub(super) fn needed_text(&self) -> Result<&'a str, Refusal> {
        self.needed("a text", self.text()?)
    }

    pub(super) fn boolean(&self) -> Result<Option<bool>, Refusal> {
        self.read("true or false", Value::as_bool)
    }

    /// A whole number of at least 1.
    pub(super) fn count(&self) -> Result<Option<usize>, Refusal> {
        let read = |value: &Value| whole(value).filter(|n| *n > 0).and_then(|n| usize::try_from(n).ok());
        self.read("a whole number of at least 1", read)
    }

    /// A bound, a whole number. 0 and -1 say that there is none.
    pub(super) fn bound(&self) -> Result<Option<usize>, Refusal> {
        let read = |value: &Value| whole(value).filter(|n| *n >= -1).map(|n| usize::try_from(n).unwrap_or(0));
        let read = self.read("a whole number of at least 1, or -1 or 0 for none", read)?;
        Ok(read.filter(|bound| *bound > 0))
    }

    /// A whole number.
    pub(super) fn integer(&self) -> Result<Option<i64>, Refusal> {
        self.read("a whole number", whole)
    }

    /// A number in a range, bounds included.
    pub(super) fn number(&self, least: f64, most: f64) -> Result<Option<f32>, Refusal> {
        let read = |value: &Value| value.as_f64().filter(|number| (least..=most).contains(number));
        // Tokens are drawn with single precision.
        Ok(self.read(&format!("a number from {least} to {most}"), read)?.map(|number| number as f32))
    }

    /// The elements of a list. None if there is no value here.
    pub(super) fn list(&self) -> Result<Vec<Self>, Refusal> {
        let list = self.read("a list", Value::as_array)?.map(Vec::as_slice).unwrap_or_default();
        let element = |(i, value)| Self {
            value: Some(value),
            pointer: format!("{}/{i}", self.pointer),
            warnings: self.warnings.clone(),
        };
        Ok(list.iter().enumerate().map(element).collect())
    }

    /// The elements of a list that has to be there.
    pub(super) fn needed_list(&self) -> Result<Vec<Self>, Refusal> {
        self.needed("a list", self.value)?;
        self.list()
    }

    /// The `type` of the object here.
    pub(super) fn kind(&self) -> Result<&'a str, Refusal> {
        self.at("type").needed_text()
    }

    /// Refuses the value here, unless it is one of `nothing`, which ask for nothing.
    pub(super) fn not_supported(&self, nothing: &[Value]) -> Result<(), Refusal> {
        match self.value {
            Some(value) if !nothing.contains(value) => {
                Err(self.wrong("this server does not support the value"))
            }
            _ => Ok(()),
        }
    }
}

/// A whole number, however it is written. Some programs write all numbers with a point.
fn whole(value: &Value) -> Option<i64> {
    let exact = |number: f64| (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64);
    value.as_i64().or_else(|| value.as_f64().and_then(exact))
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pointer)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_is_named_by_its_pointer() {
        let body = json!({"a/b": [{"n": 0}], "t": 3, "null": null});
        let root = Field::root(&body);
        let element = root.at("a/b").list().unwrap().remove(0);
        let pointer = |error: Refusal| error.pointer.unwrap();
        assert_eq!(pointer(element.at("n").count().unwrap_err()), "/a~1b/0/n");
        assert_eq!(pointer(element.at("x").needed_text().unwrap_err()), "/a~1b/0/x");
        assert_eq!(pointer(root.at("t").number(0.0, 2.0).unwrap_err()), "/t");
        assert_eq!(root.at("null").text().unwrap(), None);
        assert!(!root.at("null").is_there() && root.at("t").not_supported(&[json!(3)]).is_ok());
        assert!(root.at("t").not_supported(&[json!(0)]).is_err());
    }
}
