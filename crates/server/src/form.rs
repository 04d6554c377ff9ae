//! The constraint of a request on its answer: a JSON Schema, a grammar, a regular expression or a choice. It
//! may stand under any name that the APIs and other servers use. The server enforces it or refuses it, and
//! ignores none.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_grammar::compile::pattern_grammar;
use toolgate_grammar::{self as grammar, Automaton, Expr, Grammar, Limits, Undeclared, Vocabulary};

use super::ask::contract;
use super::field::Field;
use super::refusal::Refusal;
use toolgate_engine::{AnswerCheck, AnswerForm, Fault};
use toolgate_tools::Check;

/// The form of an answer that is no plain text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// A JSON value that fits this schema.
    Json(Held),
    /// A text of this grammar.
    Grammar(String),
}

/// A schema, and the check of what its grammar does not hold.
#[derive(Clone, Debug)]
pub(super) struct Held {
    schema: Value,
    check: Option<Arc<Checked>>,
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.schema == other.schema
    }
}

impl Form {
    /// The form, in the engine's words.
    pub(super) fn of(form: Option<&Self>) -> AnswerForm<'_> {
        match form {
            None => AnswerForm::Text,
            Some(Self::Json(held)) => AnswerForm::Json(&held.schema),
            Some(Self::Grammar(text)) => AnswerForm::Grammar(text),
        }
    }

    /// The check of an answer beyond its grammar.
    pub(super) fn check(&self) -> Option<&dyn AnswerCheck> {
        match self {
            Self::Json(held) => held.check.as_deref().map(|checked| checked as &dyn AnswerCheck),
            Self::Grammar(_) => None,
        }
    }
}

/// The check of a schema, as an engine asks for it.
#[derive(Debug)]
struct Checked(Check);

impl AnswerCheck for Checked {
    fn fault(&self, answer: &Value) -> Option<Fault> {
        let violation = self.0.violations(answer).into_iter().next()?;
        let why = match violation.pointer.as_str() {
            "" => violation.message.clone(),
            pointer => format!("{} at {pointer}", violation.message),
        };
        Some(Fault { pointer: violation.place(), why })
    }
}

/// The form that the fields of a request ask for. `own` is the form of the API's own field. Several forms
/// have to be the same.
pub(super) fn read(root: &Field<'_>, own: Option<(Field<'_>, Form)>) -> Result<Option<Form>, Refusal> {
    let structured = root.at("structured_outputs");
    let mut found: Vec<(Field<'_>, Form)> = own.into_iter().collect();
    for (field, read) in [
        (root.at("json_schema"), schema as fn(&Field<'_>) -> Result<Form, Refusal>),
        (root.at("grammar"), grammar),
        (root.at("guided_json"), schema),
        (root.at("guided_regex"), regex),
        (root.at("guided_choice"), choice),
        (root.at("guided_grammar"), grammar),
        (structured.at("json"), schema),
        (structured.at("regex"), regex),
        (structured.at("choice"), choice),
        (structured.at("grammar"), grammar),
    ] {
        if field.is_there() {
            let form = read(&field)?;
            found.push((field, form));
        }
    }
    if structured.at("json_object").boolean()?.unwrap_or(false) {
        found.push((structured.at("json_object"), any_object()));
    }
    refuse_others(root, &structured)?;
    let mut found = found.into_iter();
    let Some((first, form)) = found.next() else { return Ok(None) };
    match found.find(|(_, other)| *other != form) {
        None => Ok(Some(form)),
        Some((other, _)) => Err(other.wrong(format!("an answer has one form, and {first} asks for another"))),
    }
}

/// Refuses constraints that the server cannot hold.
fn refuse_others(root: &Field<'_>, structured: &Field<'_>) -> Result<(), Refusal> {
    for field in
        [structured.at("structural_tag"), root.at("structural_tag"), root.at("guided_structural_tag")]
    {
        if field.is_there() {
            return Err(field.wrong("structural tags are not held here: send a JSON Schema or a grammar"));
        }
    }
    if root.at("grammar_lazy").boolean()?.unwrap_or(false) {
        return Err(root.at("grammar_lazy").wrong("a grammar holds the whole answer here"));
    }
    Ok(())
}

/// The form that a `response_format` asks for, with the field that it stands in.
pub(super) fn response_format<'a>(field: &Field<'a>) -> Result<Option<(Field<'a>, Form)>, Refusal> {
    if !field.is_there() {
        return Ok(None);
    }
    let within = |names: &[&str]| names.iter().map(|name| field.at(name)).find(Field::is_there);
    let needed = |names: &[&str]| {
        within(names).ok_or_else(|| field.wrong(format!("{} is missing", names.first().unwrap_or(&"a form"))))
    };
    let form = match field.kind()? {
        "text" => return Ok(None),
        // llama.cpp and others take a schema beside it.
        "json_object" => match within(&["schema", "json_schema", "value"]) {
            Some(given) => schema(&given)?,
            None => any_object(),
        },
        "json_schema" => schema(&needed(&["json_schema", "schema"])?)?,
        "json" => schema(&needed(&["value", "schema"])?)?,
        "regex" => regex(&needed(&["regex", "value", "pattern"])?)?,
        "grammar" => grammar(&needed(&["grammar", "value"])?)?,
        _ => {
            return Err(field
                .at("type")
                .wrong("expected \"text\", \"json_object\", \"json_schema\", \"regex\" or \"grammar\""));
        }
    };
    Ok(Some((field.clone(), form)))
}

fn any_object() -> Form {
    Form::Json(Held { schema: json!({"type": "object"}), check: None })
}

/// The schema of an answer. It stands there itself, as a JSON text, or in the envelope that gives it a name.
pub(super) fn schema(field: &Field<'_>) -> Result<Form, Refusal> {
    let inner = field.at("schema");
    let is_envelope = inner.value().is_some_and(|schema| schema.is_object() || schema.is_boolean())
        && !["type", "properties", "$ref", "anyOf", "allOf", "oneOf"]
            .iter()
            .any(|key| field.at(key).is_there());
    let field = if is_envelope { &inner } else { field };
    let schema = match field.value() {
        Some(Value::String(text)) => serde_json::from_str(text)
            .map_err(|why| field.wrong(format!("expected a JSON Schema, and this text is no JSON: {why}")))?,
        Some(value @ (Value::Object(_) | Value::Bool(_))) => value.clone(),
        _ => return Err(field.wrong("expected a JSON Schema")),
    };
    let contract = contract(&schema, Undeclared::Forbidden, field.pointer())?;
    let check = match contract.is_complete() {
        true => None,
        false => {
            let wrong = |why| field.wrong(format!("this schema cannot be used: {why}"));
            Some(Arc::new(Checked(Check::new(&schema).map_err(wrong)?)))
        }
    };
    Ok(Form::Json(Held { schema, check }))
}

fn grammar(field: &Field<'_>) -> Result<Form, Refusal> {
    let text = field.needed_text()?;
    let wrong = |why: toolgate_grammar::Error| field.wrong(format!("this grammar cannot be used: {why}"));
    let parsed = Grammar::parse(text).map_err(wrong)?;
    // A schema that outgrows the limits is refused here, and not in the middle of a turn.
    Automaton::new(&parsed, Arc::new(Vocabulary::bytes_only()), &Limits::default()).map_err(wrong)?;
    Ok(Form::Grammar(text.to_owned()))
}

fn regex(field: &Field<'_>) -> Result<Form, Refusal> {
    let wrong = |why: toolgate_grammar::Error| field.wrong(format!("this expression cannot be held: {why}"));
    let grammar = pattern_grammar(field.needed_text()?, &grammar::Options::default()).map_err(wrong)?;
    Ok(Form::Grammar(grammar.to_gbnf()))
}

fn choice(field: &Field<'_>) -> Result<Form, Refusal> {
    let texts: Result<Vec<&str>, Refusal> = field.needed_list()?.iter().map(Field::needed_text).collect();
    let texts = texts?;
    if texts.is_empty() {
        return Err(field.wrong("there is nothing to choose from"));
    }
    let mut builder = Grammar::builder();
    let root = builder.rule("root", Expr::choice(texts.into_iter().map(Expr::literal)));
    let grammar = builder.build(root).map_err(|why| field.wrong(why.to_string()))?;
    Ok(Form::Grammar(grammar.to_gbnf()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn form(body: Value) -> Result<Option<Form>, Refusal> {
        let root = Field::root(&body);
        read(&root, response_format(&root.at("response_format"))?)
    }

    /// Whether a form takes a text.
    fn takes(form: &Form, text: &str) -> bool {
        let grammar = match form {
            Form::Grammar(text) => Grammar::parse(text).unwrap(),
            Form::Json(held) => {
                let schema = toolgate_grammar::Schema::parse(&held.schema).unwrap();
                toolgate_grammar::compile(&schema, &grammar::Options::default()).unwrap().grammar
            }
        };
        grammar.match_text(text, &Limits::default()).unwrap().matched
    }

    #[test]
    fn each_spelling_of_a_form_holds_the_answer_to_it() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false});
        let envelope = json!({"name": "n", "strict": true, "schema": schema});
        let number = ("{\"n\": 1}", "{\"m\": 1}");
        let gbnf = "root ::= \"on\" | \"off\"";
        for (body, (good, bad)) in [
            (json!({"response_format": {"type": "json_object"}}), ("{\"a\": 1}", "[1]")),
            (json!({"response_format": {"type": "json_object", "schema": schema}}), number),
            (json!({"response_format": {"type": "json_schema", "json_schema": envelope}}), number),
            (json!({"response_format": {"type": "json_schema", "schema": schema}}), number),
            (json!({"response_format": {"type": "json", "value": schema}}), number),
            (json!({"response_format": {"type": "regex", "value": "[ab]{2}"}}), ("ab", "abc")),
            (json!({"response_format": {"type": "grammar", "grammar": gbnf}}), ("on", "o")),
            (json!({"json_schema": schema}), number),
            (json!({"json_schema": envelope}), number),
            (json!({"guided_json": schema}), number),
            (json!({"guided_json": schema.to_string()}), number),
            (json!({"structured_outputs": {"json": schema}}), number),
            (json!({"structured_outputs": {"json_object": true}}), ("{}", "1")),
            (json!({"grammar": gbnf}), ("off", "offs")),
            (json!({"guided_grammar": gbnf}), ("off", "")),
            (json!({"structured_outputs": {"grammar": gbnf}}), ("on", "x")),
            (json!({"guided_regex": r"\d{4}-\d{2}"}), ("2024-05", "x2024-05y")),
            (json!({"structured_outputs": {"regex": "yes|no"}}), ("yes", "yesno")),
            (json!({"guided_choice": ["a \"b\"", "c\nd"]}), ("a \"b\"", "c")),
            (json!({"structured_outputs": {"choice": ["Oslo", "Rome"]}}), ("Rome", "Paris")),
            // Twice the same is one form.
            (
                json!({"guided_json": schema, "response_format": {"type": "json_schema", "json_schema": envelope}}),
                number,
            ),
        ] {
            let form = form(body.clone()).unwrap().unwrap();
            assert!(takes(&form, good) && !takes(&form, bad), "{body}");
        }
        for none in [
            json!({}),
            json!({"response_format": {"type": "text"}, "grammar": null, "structured_outputs": {}}),
        ] {
            assert_eq!(form(none).unwrap(), None);
        }
    }

    #[test]
    fn what_cannot_be_held_is_refused_with_its_place() {
        for (body, pointer) in [
            (json!({"response_format": {"type": "xml"}}), "/response_format/type"),
            (json!({"response_format": {"type": "json_schema"}}), "/response_format"),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"properties": {"a": {"$ref": "#/no"}}}}}}),
                "/response_format/json_schema/schema/properties/a/$ref",
            ),
            (json!({"json_schema": 3}), "/json_schema"),
            (json!({"guided_json": "{"}), "/guided_json"),
            (json!({"grammar": "root ::= missing"}), "/grammar"),
            (json!({"grammar": ["x"]}), "/grammar"),
            (json!({"guided_regex": "(?=a)b"}), "/guided_regex"),
            (json!({"guided_regex": "("}), "/guided_regex"),
            (json!({"guided_choice": []}), "/guided_choice"),
            (json!({"structured_outputs": {"choice": [1]}}), "/structured_outputs/choice/0"),
            (json!({"structured_outputs": {"structural_tag": "{}"}}), "/structured_outputs/structural_tag"),
            (json!({"grammar": "root ::= \"a\"", "grammar_lazy": true}), "/grammar_lazy"),
            (json!({"guided_regex": "a", "guided_choice": ["b"]}), "/guided_choice"),
        ] {
            assert_eq!(form(body.clone()).unwrap_err().pointer.as_deref(), Some(pointer), "{body}");
        }
    }
}
