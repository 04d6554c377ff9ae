//! Tool definitions: from Rust types or from the three wire forms, to what a prompt shows and a grammar enforces.
//!
//! Invariant: a [`ToolSpec`] has a valid name and parameters that are a JSON Schema of an object.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::error::{Error, Kind, Place};
use crate::model::{ToolCall, ToolName};
use crate::parameters;

/// A tool as a model is told about it.
///
/// ```
/// use serde_json::json;
/// use toolgate_chat::ToolSpec;
/// let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
/// let tool = ToolSpec::new("get_weather", "Forecast for a city", schema.clone())?;
/// let definition = json!({"name": "get_weather", "description": "Forecast for a city", "inputSchema": schema});
/// assert_eq!(tool.to_mcp(), definition);
/// assert_eq!(ToolSpec::from_any(&definition)?, tool);
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolSpec {
    /// What a call names.
    pub name: ToolName,
    /// What the tool does, for the model.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
    /// A request and the call it is answered with, for models that follow examples better than descriptions.
    pub example: Option<Example>,
    /// What a call of it does. Unless it only looks, nothing but the model's own probability brings one about.
    pub effect: Effect,
}

/// What a call of a tool does.
///
/// A call that only looks, with the same arguments and nothing changed since, would give the same result: the loop does
/// not make it twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It looks only.
    Reads,
    /// It is there to change something: a file, a memory, the world.
    Changes,
    /// Nobody says. It may change something.
    #[default]
    Unknown,
}

impl Effect {
    /// All of them, by the names they have in a definition.
    const NAMED: [(&str, Self); 3] =
        [("reads", Self::Reads), ("changes", Self::Changes), ("unknown", Self::Unknown)];

    fn name(self) -> &'static str {
        Self::NAMED.into_iter().find(|&(_, effect)| effect == self).map_or("unknown", |(name, _)| name)
    }
}

/// The key of an example in a definition.
const EXAMPLE: &str = "x-example";
/// The key in a definition that says what a [call of its tool does](ToolSpec::effect): `reads`, `changes` or `unknown`.
pub const EFFECT: &str = "x-effect";

/// What a user may ask for, and the arguments of the call that does it.
///
/// ```
/// use serde_json::json;
/// use toolgate_chat::ToolSpec;
/// let example = json!({"request": "What time is it in Alpha?", "arguments": {"zone": "Alpha"}});
/// let tool = ToolSpec::from_openai(&json!({"name": "now", "x-example": example}))?;
/// assert_eq!(tool.example.map(|example| example.request), Some("What time is it in Alpha?".to_owned()));
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Example {
    /// The user's words.
    pub request: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
}

impl ToolSpec {
    /// A tool from its parts. `parameters` may be null or empty for a tool that takes none.
    ///
    /// # Errors
    /// [`Kind::Definition`] for a bad name, or parameters that are no schema of an object.
    pub fn new(name: &str, description: impl Into<String>, parameters: Value) -> Result<Self, Error> {
        let parameters = object_schema(parameters).map_err(|error| {
            error.at(Place::Tool { name: name.chars().take(64).collect(), pointer: String::new() })
        })?;
        let (name, description) = (ToolName::new(name)?, description.into());
        Ok(Self { name, description, parameters, example: None, effect: Effect::Unknown })
    }

    /// A tool whose arguments are the Rust type `P`: doc comments become descriptions, `Option` fields may be left out.
    ///
    /// # Errors
    /// [`Kind::Definition`] for a bad name, or a type that is not a struct (or a map) of named fields.
    ///
    /// ```
    /// # use toolgate_chat::ToolSpec;
    /// #[derive(schemars::JsonSchema)]
    /// struct Weather {
    ///     /// The city, in English
    ///     city: String,
    ///     days: Option<u8>,
    /// }
    /// let spec = ToolSpec::of::<Weather>("get_weather", "Forecast for a city")?;
    /// assert_eq!(spec.parameters["properties"]["city"]["description"], "The city, in English");
    /// assert_eq!(spec.parameters["required"], serde_json::json!(["city"]));
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn of<P: JsonSchema>(name: &str, description: impl Into<String>) -> Result<Self, Error> {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        let mut parameters = settings.into_generator().into_root_schema_for::<P>().to_value();
        parameters::visit(&mut parameters, &mut |schema, _| tidy_derived(schema));
        if let Some(root) = parameters.as_object_mut() {
            // The doc comment of the parameter struct speaks to programmers; the tool's own description to the model.
            root.shift_remove("description");
        }
        Self::new(name, description, parameters)
    }

    /// Whether two calls of this tool ask the same thing: an argument that is left out is what its default says, or null. Some
    /// programs put defaults into the calls that they send back.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use toolgate_chat::{ToolCall, ToolSpec};
    /// let parameters = json!({"properties": {"all": {"type": "boolean", "default": false}}});
    /// let spec = ToolSpec::new("list", "", parameters)?;
    /// let call = |arguments: serde_json::Value| ToolCall::new("list", arguments.as_object().cloned().unwrap_or_default());
    /// assert!(spec.same_request(&call(json!({})), &call(json!({"all": false}))));
    /// assert!(!spec.same_request(&call(json!({})), &call(json!({"all": true}))));
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn same_request(&self, one: &ToolCall, other: &ToolCall) -> bool {
        let properties = self.parameters.get("properties");
        let default = |name: &str| properties?.get(name)?.get("default");
        let unsaid = |name: &str| default(name).unwrap_or(&Value::Null);
        let said_by_both = |one: &ToolCall, other: &ToolCall| {
            let mut all = one.arguments.iter();
            all.all(|(name, value)| value == other.arguments.get(name).unwrap_or_else(|| unsaid(name)))
        };
        one.name == other.name && said_by_both(one, other) && said_by_both(other, one)
    }

    /// Reads `{"type": "function", "function": {name, description, parameters}}`, or the inner object alone. An
    /// `"x-example": {"request", "arguments"}` beside the name becomes [`example`](Self::example), `"x-effect"`
    /// [`effect`](Self::effect).
    ///
    /// # Errors
    /// [`Kind::Definition`] with the JSON pointer of the offending part.
    pub fn from_openai(definition: &Value) -> Result<Self, Error> {
        match definition.get("function") {
            Some(function) => Self::read(function, "/function", "parameters"),
            None => Self::read(definition, "", "parameters"),
        }
    }

    /// Reads `{name, description, input_schema}`.
    ///
    /// # Errors
    /// [`Kind::Definition`] with the JSON pointer of the offending part.
    pub fn from_anthropic(definition: &Value) -> Result<Self, Error> {
        Self::read(definition, "", "input_schema")
    }

    /// Reads `{name, description, inputSchema}`.
    ///
    /// # Errors
    /// [`Kind::Definition`] with the JSON pointer of the offending part.
    pub fn from_mcp(definition: &Value) -> Result<Self, Error> {
        Self::read(definition, "", "inputSchema")
    }

    /// Reads any of the three forms.
    ///
    /// # Errors
    /// [`Kind::Definition`] with the JSON pointer of the offending part.
    ///
    /// ```
    /// # use toolgate_chat::ToolSpec; use serde_json::json;
    /// let mcp = ToolSpec::from_any(&json!({"name": "now", "inputSchema": {"type": "object"}}))?;
    /// let openai = ToolSpec::from_any(&json!({"type": "function", "function": {"name": "now"}}))?;
    /// assert_eq!(mcp.name, openai.name);
    /// let error = ToolSpec::from_any(&json!({"type": "function", "function": {}})).unwrap_err();
    /// assert_eq!(error.to_string(), "a tool definition needs a name, a text at /function/name");
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn from_any(definition: &Value) -> Result<Self, Error> {
        if definition.get("inputSchema").is_some() {
            Self::from_mcp(definition)
        } else if definition.get("input_schema").is_some() {
            Self::from_anthropic(definition)
        } else {
            Self::from_openai(definition)
        }
    }

    /// `{"type": "function", "function": {name, description, parameters}}`.
    ///
    /// ```
    /// # use toolgate_chat::ToolSpec; use serde_json::json;
    /// let now = ToolSpec::new("now", "The time.", json!({}))?;
    /// let definition = now.to_openai();
    /// assert_eq!(definition["function"]["description"], "The time.");
    /// assert_eq!(ToolSpec::from_openai(&definition)?, now);
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn to_openai(&self) -> Value {
        json!({"type": "function", "function": {
            "name": self.name.as_str(), "description": self.description, "parameters": self.parameters,
        }})
    }

    /// [`to_openai`](Self::to_openai) with all that [`from_openai`](Self::from_openai) reads: the example, too, and
    /// what a call does, which servers do not know.
    pub fn to_record(&self) -> Value {
        let mut definition = self.to_openai();
        if let Some(function) = definition.get_mut("function").and_then(Value::as_object_mut) {
            if let Some(example) = &self.example {
                let example = json!({"request": example.request, "arguments": example.arguments});
                function.insert(EXAMPLE.to_owned(), example);
            }
            if self.effect != Effect::Unknown {
                function.insert(EFFECT.to_owned(), self.effect.name().into());
            }
        }
        definition
    }

    /// `{name, description, input_schema}`.
    ///
    /// ```
    /// # use toolgate_chat::ToolSpec; use serde_json::json;
    /// let mcp = json!({"name": "now", "inputSchema": {"type": "object"}});
    /// let anthropic = ToolSpec::from_mcp(&mcp)?.to_anthropic();
    /// assert_eq!(anthropic, json!({"name": "now", "description": "", "input_schema": {"type": "object"}}));
    /// assert_eq!(ToolSpec::from_anthropic(&anthropic)?, ToolSpec::from_mcp(&mcp)?);
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn to_anthropic(&self) -> Value {
        json!({"name": self.name.as_str(), "description": self.description, "input_schema": self.parameters})
    }

    /// `{name, description, inputSchema}`.
    pub fn to_mcp(&self) -> Value {
        json!({"name": self.name.as_str(), "description": self.description, "inputSchema": self.parameters})
    }

    /// The definition as a prompt shows it: the OpenAI form with [`shown_parameters`](Self::shown_parameters).
    pub fn shown(&self) -> Value {
        json!({"type": "function", "function": {
            "name": self.name.as_str(), "description": self.description, "parameters": self.shown_parameters(),
        }})
    }

    /// The parameters as a prompt shows them: without `$schema`, titles, and whatever else tells a model nothing.
    ///
    /// ```
    /// # use toolgate_chat::ToolSpec; use serde_json::json;
    /// let schema = json!({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"});
    /// let shown = ToolSpec::new("now", "", schema)?.shown_parameters();
    /// assert!(shown.get("$schema").is_none());
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn shown_parameters(&self) -> Value {
        parameters::shown(&self.parameters)
    }

    /// The parameters as other programs are told them, which may check calls against them: without what is for grammars alone.
    ///
    /// ```
    /// # use toolgate_chat::ToolSpec; use serde_json::json;
    /// let days: Vec<u32> = (1..=366).collect();
    /// let schema = json!({
    ///     "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
    ///     "properties": {"day": {"enum": days}}, "additionalProperties": false
    /// });
    /// assert_eq!(ToolSpec::new("plan", "", schema.clone())?.told_parameters(), schema);
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn told_parameters(&self) -> Value {
        parameters::told(&self.parameters)
    }

    /// The parameters as a turn's grammar enforces them: an object that lists its properties takes no others.
    ///
    /// JSON Schema lets undeclared properties through unless told otherwise. In a call they are always invented, so
    /// the grammar offers none, except where closing the object could contradict another part of the schema
    /// (`allOf`, references, conditions).
    ///
    /// The keywords of an annotation `"x-grammar": {…}` hold there, too, and only there: what a program may give but
    /// a model had better not say, such as a path from the root of the file system.
    pub fn closed_parameters(&self) -> Value {
        parameters::closed(&self.parameters)
    }

    /// The definition with an example: what a user may ask for, and the arguments of the call that does it, an object.
    /// Its values should be words that no request holds by chance: small models may copy them.
    ///
    /// ```
    /// # use toolgate_chat::{Message, Demonstrations, ToolSpec}; use serde_json::json;
    /// let schema = json!({"properties": {"city": {"type": "string"}}});
    /// let tool = ToolSpec::new("get_weather", "", schema)?;
    /// let tool = tool.with_example("How is the weather in Alpha?", json!({"city": "Alpha"}));
    /// let first = Demonstrations::Calls.messages(&[tool]).into_iter().next();
    /// assert_eq!(first, Some(Message::User("How is the weather in Alpha?".into())));
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    #[must_use]
    pub fn with_example(mut self, request: &str, arguments: Value) -> Self {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        self.example = Some(Example { request: request.to_owned(), arguments });
        self
    }

    /// The definition as one of a tool whose calls [do this](Self::effect).
    ///
    /// ```
    /// # use toolgate_chat::{Effect, ToolSpec}; use serde_json::json;
    /// let weather = ToolSpec::new("get_weather", "", json!({}))?.with_effect(Effect::Reads);
    /// assert_eq!(ToolSpec::from_openai(&weather.to_record())?.effect, Effect::Reads);
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// The definition without its advanced parameters: optional ones whose schema says `"x-advanced": true`.
    ///
    /// Small models fill in every parameter they see, and badly: a `max_lines` of 1 hides the file they were to read.
    ///
    /// ```
    /// # use toolgate_chat::ToolSpec; use serde_json::json;
    /// let schema = json!({"properties": {"path": {}, "depth": {"type": "integer", "x-advanced": true}}, "required": ["path"]});
    /// let plain = ToolSpec::new("list", "", schema)?.without_advanced();
    /// assert_eq!(plain.parameters["properties"], json!({"path": {}}));
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    #[must_use]
    pub fn without_advanced(&self) -> Self {
        let mut spec = self.clone();
        let required = self.parameters.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|required| required == name));
        if let Some(properties) = spec.parameters.get_mut("properties").and_then(Value::as_object_mut) {
            properties.retain(|name, schema| {
                is_required(name) || schema.get("x-advanced").and_then(Value::as_bool) != Some(true)
            });
        }
        spec
    }

    /// The definition with these keywords as the `"x-grammar"` of a parameter, in place of those it has there: what the
    /// state of the world leaves of it. The prompt stays as it is.
    ///
    /// ```
    /// # use toolgate_chat::ToolSpec; use serde_json::json;
    /// let read = ToolSpec::new("read", "", json!({"properties": {"path": {"type": "string"}}}))?;
    /// let narrowed = read.with_grammar("path", json!({"enum": ["a.txt"]}));
    /// assert_eq!(narrowed.shown(), read.shown());
    /// assert_eq!(narrowed.closed_parameters()["properties"]["path"]["enum"], json!(["a.txt"]));
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    #[must_use]
    pub fn with_grammar(&self, parameter: &str, keywords: Value) -> Self {
        let mut spec = self.clone();
        let properties = spec.parameters.get_mut("properties").and_then(Value::as_object_mut);
        if let Some(schema) = properties.and_then(|all| all.get_mut(parameter)).and_then(Value::as_object_mut)
        {
            schema.insert("x-grammar".to_owned(), keywords);
        }
        spec
    }

    /// The arguments with their keys in the order of the schema, as the turn's grammar writes them; keys the schema
    /// does not know come last, in the order given.
    ///
    /// ```
    /// # use toolgate_chat::ToolSpec; use serde_json::json;
    /// let spec = ToolSpec::new("f", "", json!({"properties": {"a": {}, "b": {}}}))?;
    /// let given = json!({"c": 1, "b": 2, "a": 3});
    /// let keys: Vec<String> = spec.arrange(given.as_object().unwrap()).keys().cloned().collect();
    /// assert_eq!(keys, ["a", "b", "c"]);
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn arrange(&self, arguments: &Map<String, Value>) -> Map<String, Value> {
        parameters::arrange(&self.parameters, arguments)
    }

    fn read(definition: &Value, at: &str, schema: &str) -> Result<Self, Error> {
        let wrong = |message: &str, field: &str| {
            Error::new(Kind::Definition, message).at(Place::Pointer(match field {
                "" => at.to_owned(),
                field => format!("{at}/{field}"),
            }))
        };
        let Some(fields) = definition.as_object() else {
            return Err(wrong("a tool definition is a JSON object", ""));
        };
        let Some(name) = fields.get("name").and_then(Value::as_str) else {
            return Err(wrong("a tool definition needs a name, a text", "name"));
        };
        let description = match fields.get("description") {
            None | Some(Value::Null) => "",
            Some(Value::String(text)) => text,
            Some(_) => return Err(wrong("a tool's description is a text", "description")),
        };
        let example =
            match fields.get(EXAMPLE).map(|example| (example.get("request"), example.get("arguments"))) {
                None => None,
                Some((Some(Value::String(request)), Some(Value::Object(arguments)))) => {
                    Some(Example { request: request.clone(), arguments: arguments.clone() })
                }
                Some(_) => {
                    return Err(wrong("an example is a request, a text, and arguments, an object", EXAMPLE));
                }
            };
        let named = |value: &Value| {
            Effect::NAMED.into_iter().find(|(name, _)| value.as_str() == Some(name)).map(|(_, effect)| effect)
        };
        let effect = match fields.get(EFFECT) {
            None => Effect::Unknown,
            Some(value) => {
                named(value).ok_or_else(|| wrong("what a call does is reads, changes or unknown", EFFECT))?
            }
        };
        let name = ToolName::new(name).map_err(|error| wrong(&error.to_string(), "name"))?;
        let parameters = object_schema(fields.get(schema).cloned().unwrap_or(Value::Null))
            .map_err(|error| wrong(&error.to_string(), schema))?;
        Ok(Self { name, description: description.to_owned(), parameters, example, effect })
    }
}

/// What schemars writes for programs is taken out; the ranges of Rust's integers become bounds a grammar can hold.
fn tidy_derived(schema: &mut Map<String, Value>) {
    schema.shift_remove("title");
    let bounds: Option<(Option<i64>, i64)> = match schema.get("format").and_then(Value::as_str) {
        Some("int8") => Some((Some(i8::MIN.into()), i8::MAX.into())),
        Some("int16") => Some((Some(i16::MIN.into()), i16::MAX.into())),
        Some("int32") => Some((Some(i32::MIN.into()), i32::MAX.into())),
        Some("uint8") => Some((None, u8::MAX.into())),
        Some("uint16") => Some((None, u16::MAX.into())),
        Some("uint32") => Some((None, u32::MAX.into())),
        Some("int" | "int64" | "int128" | "uint" | "uint64" | "uint128" | "float" | "double") => {
            schema.shift_remove("format");
            None
        }
        _ => None,
    };
    if let Some((least, greatest)) = bounds {
        schema.shift_remove("format");
        if let Some(least) = least {
            schema.entry("minimum").or_insert_with(|| least.into());
        }
        schema.entry("maximum").or_insert_with(|| greatest.into());
    }
}

/// Null and `{}` stand for "no parameters"; anything that cannot be an object is refused.
fn object_schema(parameters: Value) -> Result<Value, Error> {
    let mut schema = match parameters {
        Value::Null => Map::new(),
        Value::Object(schema) => schema,
        _ => return Err(Error::new(Kind::Definition, "a tool's parameters are a JSON Schema, an object")),
    };
    if schema.is_empty() {
        schema.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    let is_object = match schema.get("type") {
        None => true,
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(_) => false,
    };
    if !is_object {
        return Err(Error::new(
            Kind::Definition,
            "a tool's parameters describe an object, with \"type\": \"object\"",
        ));
    }
    if schema.get("type").and_then(Value::as_str).is_none() {
        // Arguments are an object whatever else the schema would let through.
        let mut typed = Map::new();
        typed.insert("type".to_owned(), "object".into());
        schema.shift_remove("type");
        typed.extend(schema);
        schema = typed;
    }
    Ok(Value::Object(schema))
}
