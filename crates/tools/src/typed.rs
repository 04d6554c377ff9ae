//! A tool from a Rust type and a function: the short way to embed one.

use std::fmt::Display;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toolgate_chat::ToolSpec;
use toolgate_sandbox::{FileLimits, output};

use super::{Args, Effect, Role, Tool, ToolResult};

/// A tool whose parameters are the Rust type `P`; made by [`typed`].
pub struct TypedTool<P, F> {
    spec: ToolSpec,
    effect: Effect,
    role: Role,
    run: F,
    parameters: PhantomData<fn(P)>,
}

/// A tool called `name` that takes a `P` and gives back anything serializable.
///
/// Text results reach the model as they are, others as compact JSON; an `Err` is shown to it as a failed call.
/// Nobody knows what a call of the tool does: say [`TypedTool::read_only`] where it changes nothing, and [`TypedTool::changes`] where it
/// is there to.
///
/// # Errors
/// A name that is no tool name, and a type whose schema is not an object.
///
/// ```
/// use serde::Deserialize;
/// use toolgate_tools::{Registry, Status, typed};
///
/// #[derive(Deserialize, schemars::JsonSchema)]
/// struct Roll {
///     /// How many sides the die has.
///     #[schemars(range(min = 2, max = 100))]
///     sides: u32,
/// }
///
/// let roll = typed("roll", "Roll a die.", |roll: Roll| Ok::<_, String>(roll.sides / 2))?.read_only();
/// let mut registry = Registry::new();
/// registry.add(roll)?;
/// let result = registry.call_json("roll", r#"{"sides": 6}"#);
/// assert_eq!((result.status, result.content.as_str()), (Status::Ok, "3"));
/// assert_eq!(registry.call_json("roll", r#"{"sides": 1}"#).status, Status::Failed);
/// # Ok::<(), toolgate_tools::Error>(())
/// ```
pub fn typed<P, F, R, E>(name: &str, description: &str, run: F) -> Result<TypedTool<P, F>, crate::Error>
where
    P: JsonSchema + DeserializeOwned,
    F: Fn(P) -> Result<R, E> + Send + Sync,
    R: Serialize,
    E: Display,
{
    let spec = ToolSpec::of::<P>(name, description)?;
    Ok(TypedTool { spec, effect: Effect::Unknown, role: Role::Other, run, parameters: PhantomData })
}

impl<P, F> TypedTool<P, F> {
    /// Adds an example of its use ([`ToolSpec::with_example`]).
    ///
    /// ```
    /// use toolgate_tools::{Tool, typed};
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// # struct Day { day: String }
    /// let diary = typed("read_diary", "What the diary says.", |day: Day| Ok::<_, String>(day.day))?
    ///     .with_example("What did I do on Monday?", serde_json::json!({"day": "Monday"}));
    /// assert!(diary.spec().example.is_some());
    /// # Ok::<(), toolgate_tools::Error>(())
    /// ```
    #[must_use]
    pub fn with_example(mut self, request: &str, arguments: serde_json::Value) -> Self {
        self.spec = self.spec.with_example(request, arguments);
        self
    }

    /// Tells what it is for.
    #[must_use]
    pub fn with_role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Declares that a call changes nothing. So the same call is not made twice.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.effect = Effect::Reads;
        self
    }

    /// Declares that a call changes something. So it is made where the request asks for a change.
    ///
    /// ```
    /// use toolgate_tools::{Effect, Tool, typed};
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// # struct Lamp { on: bool }
    /// let switch = typed("switch_lamp", "Switch the lamp.", |lamp: Lamp| Ok::<_, String>(lamp.on))?.changes();
    /// assert_eq!(switch.effect(), Effect::Changes);
    /// # Ok::<(), toolgate_tools::Error>(())
    /// ```
    #[must_use]
    pub fn changes(mut self) -> Self {
        self.effect = Effect::Changes;
        self
    }
}

impl<P, F, R, E> Tool for TypedTool<P, F>
where
    P: DeserializeOwned,
    F: Fn(P) -> Result<R, E> + Send + Sync,
    R: Serialize,
    E: Display,
{
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn role(&self) -> Role {
        self.role.clone()
    }

    fn call(&self, args: &Args) -> ToolResult {
        let parameters = match args.parse::<P>() {
            Ok(parameters) => parameters,
            Err(why) => return ToolResult::failed(format!("the arguments do not fit: {why}")),
        };
        let mut result = match (self.run)(parameters).map(|value| serde_json::to_value(value)) {
            Ok(Ok(serde_json::Value::String(text))) => ToolResult::ok(text),
            Ok(Ok(value)) => ToolResult::ok(value.to_string()).with_data(value),
            Ok(Err(why)) => ToolResult::failed(format!("the result cannot be shown as JSON: {why}")),
            Err(why) => ToolResult::failed(why.to_string()),
        };
        let cleaned = output::for_model(result.content.as_bytes(), FileLimits::default().max_output_bytes);
        result.content = cleaned.text;
        result.truncated |= cleaned.truncated;
        result
    }
}
