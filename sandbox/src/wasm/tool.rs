//! Calls components that are tools: the world `toolgate:tool/tool` of `wit/tool.wit`.

use wasmtime::component::{ComponentType, Lift};

use super::host::State;
use super::limits::Limits;
use super::load::Component;
use super::{Bound, Components, End, Reach, call, enforced, output};
use crate::error::{Error, Kind};
use crate::report::Enforced;

/// The description of a tool by itself.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
#[non_exhaustive]
pub struct Description {
    /// The name that the tool gives itself. Calls use the name in the policy.
    pub name: String,
    /// The purpose of the tool, for a model.
    pub description: String,
    /// The JSON Schema of its arguments, an object, as text.
    pub parameters: String,
}

/// The answer of a tool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// The result, or the reason that there is none. It is not made safe to show.
    pub result: Result<String, String>,
    /// The end of the tool, if it did not answer.
    pub end: Option<End>,
    /// The first refusal, if there was one.
    pub refused: Option<String>,
    /// Bounds that the tool met. It may have continued after that.
    pub reached: Vec<Bound>,
    /// The layers that held during the call.
    pub enforced: Enforced,
}

impl Components {
    /// Asks a tool for its description. The tool sees no files for that.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for a component that is no tool. [`Kind::Limit`] for a tool that does not answer in
    /// time. [`Kind::Failed`] for a tool that breaks.
    pub fn describe(&self, tool: &Component, limits: &Limits) -> Result<Description, Error> {
        let state = self.state_of_nothing(limits);
        let ended = call::call(self.loader.engine(), tool, state, limits, async |store, instance| {
            let describe = instance.get_typed_func::<(), (Description,)>(&mut *store, "describe")?;
            Ok(describe.call_async(store, ()).await?.0)
        })?;
        ended.value.map_err(|end| match end {
            End::Stopped(bound) => {
                Error::new(Kind::Limit, format!("the tool does not describe itself: {bound}"))
            }
            End::Exited(code) => Error::new(Kind::Failed, format!("the tool ended with code {code}")),
            End::Trapped(why) => Error::new(Kind::Invalid, format!("this component is no tool ({why})"))
                .hint("it must export the functions of wit/tool.wit"),
        })
    }

    /// Calls a tool with JSON arguments.
    ///
    /// # Errors
    /// [`Kind::Denied`] for a directory without a grant. The answer holds the faults of the tool itself.
    pub fn call(
        &self,
        tool: &Component,
        reach: &Reach<'_>,
        limits: &Limits,
        arguments: String,
    ) -> Result<Answer, Error> {
        let files = self.files(reach, limits)?;
        let enforced = enforced(&files, Some(reach.root));
        // What it prints is for its author, who runs it as a program.
        let state = State::new(files, limits, &[], Vec::new(), &output::Capture::new(0));
        let ended = call::call(self.loader.engine(), tool, state, limits, async move |store, instance| {
            let call =
                instance.get_typed_func::<(String,), (Result<String, String>,)>(&mut *store, "call")?;
            Ok(call.call_async(store, (arguments,)).await?.0)
        })?;
        let (result, end) = match ended.value {
            Ok(result) => (result, None),
            Err(end) => {
                let why = match &end {
                    End::Exited(code) => format!("the tool ended with code {code}"),
                    End::Stopped(bound) => format!("the tool was stopped: {bound}"),
                    End::Trapped(why) => format!("the tool broke: {why}"),
                };
                (Err(why), Some(end))
            }
        };
        Ok(Answer { result, end, refused: ended.refused, reached: ended.reached, enforced })
    }
}

impl Answer {
    /// The text for a model: the answer of the tool, then a line for each refusal.
    pub fn content(&self) -> String {
        let mut text = match &self.result {
            Ok(text) | Err(text) => text.clone(),
        };
        let refused = self.refused.iter().map(|refused| format!("\n[refused: {refused}]"));
        let bounds = self.reached.iter().filter(|bound| self.end != Some(End::Stopped(**bound)));
        text.extend(refused.chain(bounds.map(|bound| format!("\n[{bound}]"))));
        text
    }
}
