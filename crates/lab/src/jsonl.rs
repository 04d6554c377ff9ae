//! JSON Lines files as the corpora and task files are kept: an object a line, and errors that name the line.
//! Beneath the commands that read them.
//!
//! For the packages of this workspace alone: the program mounts it.

use std::path::Path;

use anyhow::anyhow;
use serde_json::Value;
use toolgate_agent::input;

/// The longest file that is read.
const MOST_BYTES: u64 = 1 << 30;

/// A JSON Lines file in memory; its lines are parsed one by one as they are asked for.
pub struct Jsonl {
    name: String,
    text: String,
}

impl Jsonl {
    /// Reads a file; `-` is standard input.
    ///
    /// # Errors
    /// A file that cannot be read, is too long, or is not UTF-8 text.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let text = String::from_utf8(input::read(path, MOST_BYTES)?).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let line = error.as_bytes().iter().take(valid).filter(|byte| **byte == b'\n').count() + 1;
            anyhow!("{name}:{line}: not UTF-8 text")
        })?;
        Ok(Self { name, text })
    }

    /// A file that stands in the program.
    pub(crate) fn within(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), text: text.to_owned() }
    }

    /// A file of these rows, for tests.
    #[cfg(test)]
    pub(crate) fn of(rows: &[Value]) -> Self {
        Self { name: "x.jsonl".to_owned(), text: rows.iter().map(|row| format!("{row}\n")).collect() }
    }

    /// How many rows there are: lines that are not blank.
    pub fn count(&self) -> usize {
        self.lines().count()
    }

    /// The rows in order, each an error if its line is not a JSON object.
    pub fn rows(&self) -> impl Iterator<Item = anyhow::Result<Row>> {
        self.lines().map(|(line, text)| {
            let place = format!("{}:{line}", self.name);
            let value: Value = serde_json::from_str(text)
                .map_err(|error| anyhow!("{place}:{}: not JSON: {}", error.column(), cause(&error)))?;
            match value.is_object() {
                true => Ok(Row { place, value }),
                false => Err(anyhow!("{place}: not a JSON object")),
            }
        })
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines()).filter(|(_, text)| !text.trim().is_empty())
    }
}

/// What is wrong, without the line and column that serde_json counts within the one line it was given.
fn cause(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.rsplit_once(" at line ").map_or(message.clone(), |(cause, _)| cause.to_owned())
}

/// One object, and the line it stands in.
pub struct Row {
    place: String,
    value: Value,
}

impl Row {
    /// The line it stands in, for error messages, and the object itself.
    pub fn into_parts(self) -> (String, Value) {
        (self.place, self.value)
    }

    /// A field; JSON `null` counts as absent.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.value.get(field).filter(|value| !value.is_null())
    }

    /// A field that must be there and be a string.
    ///
    /// # Errors
    /// Where it is not.
    pub fn text(&self, field: &str) -> anyhow::Result<&str> {
        self.get(field).and_then(Value::as_str).ok_or_else(|| self.is_not(field, "a string"))
    }

    /// A field that is a list of strings; none if it is absent.
    ///
    /// # Errors
    /// Where it is something else.
    pub fn texts(&self, field: &str) -> anyhow::Result<Vec<&str>> {
        let Some(value) = self.get(field) else { return Ok(Vec::new()) };
        let texts = value.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
        texts.ok_or_else(|| self.is_not(field, "a list of strings"))
    }

    /// A field that is a list; empty if it is absent.
    ///
    /// # Errors
    /// Where it is something else.
    pub fn list(&self, field: &str) -> anyhow::Result<&[Value]> {
        let Some(value) = self.get(field) else { return Ok(&[]) };
        value.as_array().map(Vec::as_slice).ok_or_else(|| self.is_not(field, "a list"))
    }

    /// The error that a field is not what it must be.
    pub fn is_not(&self, field: &str, what: &str) -> anyhow::Error {
        anyhow!("{}: field {field:?} is not {what}", self.place)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    fn jsonl(text: &str) -> Jsonl {
        Jsonl::within("x.jsonl", text)
    }

    #[test]
    fn rows_are_objects_and_blank_lines_are_none() {
        let file = jsonl("{\"id\": \"a\", \"pass\": [\"1\", \"2\"], \"fail\": null}\r\n\n{\"id\": \"b\"}\n");
        assert_eq!(file.count(), 2);
        let rows: Vec<Row> = file.rows().collect::<anyhow::Result<_>>().unwrap();
        assert_eq!(rows.iter().map(|row| row.text("id").unwrap()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(rows[0].texts("pass").unwrap(), ["1", "2"]);
        assert_eq!(rows[0].texts("fail").unwrap(), Vec::<&str>::new());
    }

    #[test]
    fn mistakes_name_file_line_and_field() {
        let message = |text: &str| {
            let file = jsonl(text);
            let error = file.rows().collect::<anyhow::Result<Vec<_>>>().err().unwrap();
            error.to_string()
        };
        assert_eq!(message("{}\n\n{\"a\":,}"), "x.jsonl:3:6: not JSON: expected value");
        assert_eq!(message("[1]\n"), "x.jsonl:1: not a JSON object");
        let file = jsonl("{\"id\": 1, \"pass\": [1]}");
        let row = file.rows().next().unwrap().unwrap();
        assert_eq!(row.text("id").unwrap_err().to_string(), "x.jsonl:1: field \"id\" is not a string");
        assert_eq!(row.text("no").unwrap_err().to_string(), "x.jsonl:1: field \"no\" is not a string");
        assert!(row.texts("pass").unwrap_err().to_string().ends_with("\"pass\" is not a list of strings"));
    }
}
