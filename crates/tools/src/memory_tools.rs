//! The memory tools: notes and facts that outlive a conversation, and a place to think.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Role, Tool, typed};
use crate::Error;
use crate::memory::{Entry, Kind, Memory};

#[derive(Deserialize, JsonSchema)]
struct Think {
    /// The thought.
    #[allow(dead_code, reason = "a thought is only for the transcript")]
    content: String,
    /// Words to file it under.
    #[schemars(extend("x-advanced" = true))]
    #[allow(dead_code, reason = "a thought is only for the transcript; the contract names the parameter")]
    tags: Option<Vec<String>>,
}

#[derive(Deserialize, JsonSchema)]
struct Remember {
    /// What is remembered: a thing or person, how two of them are related, or something seen of one.
    kind: Remembered,
    /// The facts, such as {"name": "Ana", "role": "tester"}.
    data: Map<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Remembered {
    Entity,
    Relationship,
    Observation,
}

#[derive(Deserialize, JsonSchema)]
struct Search {
    /// Words to look for in what was remembered.
    query: String,
}

#[derive(Deserialize, JsonSchema)]
struct StoreMemory {
    /// What to remember, as a full sentence.
    content: String,
    /// Words to file it under.
    #[schemars(extend("x-advanced" = true))]
    tags: Option<Vec<String>>,
}

#[derive(Deserialize, JsonSchema)]
struct RecallMemory {
    /// What to recall, in a few words.
    query: String,
    /// At most this many.
    #[schemars(extend("x-advanced" = true))]
    limit: Option<u64>,
}

/// Memories given back where a call does not say how many.
const LIMIT: usize = 10;

/// The names of the memory tools.
pub const MEMORY_TOOLS: [&str; 5] = ["store_memory", "recall_memory", "remember", "search", "think"];

/// The memory tools over `memory`, in the order they are offered.
///
/// # Errors
/// None that input could cause; the definitions are checked like any others.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_tools::memory::Memory;
/// use toolgate_tools::{Registry, memory_tools};
///
/// let mut tools = Registry::new();
/// for tool in memory_tools(&Arc::new(Memory::in_process()?))? {
///     tools.add_boxed(tool)?;
/// }
/// tools.call_json("store_memory", r#"{"content": "The meeting is on Monday."}"#);
/// let recalled = tools.call_json("recall_memory", r#"{"query": "meeting"}"#);
/// assert_eq!(recalled.content, "- The meeting is on Monday.");
/// # Ok::<(), toolgate_tools::Error>(())
/// ```
pub fn memory_tools(memory: &Arc<Memory>) -> Result<Vec<Box<dyn Tool>>, Error> {
    let [facts, found, notes, recalled] = [(); 4].map(|()| memory.clone());
    Ok(vec![
        Box::new(
            typed(
                "store_memory",
                "Remember something the user tells you, for later.",
                move |note: StoreMemory| {
                    let id = notes.store(Kind::Note, &note.content, &note.tags.unwrap_or_default(), None)?;
                    Ok::<_, Error>(format!("remembered as number {id}"))
                },
            )?
            .with_example("Keep in mind that kappa is blue", json!({"content": "kappa is blue"})),
        ),
        Box::new(
            typed("recall_memory", "Recall what the user told you earlier.", move |wanted: RecallMemory| {
                let limit = wanted.limit.and_then(|n| usize::try_from(n).ok()).unwrap_or(LIMIT);
                Ok::<_, Error>(listing(&recalled.recall(&wanted.query, limit)?))
            })?
            .with_example("What did I tell you about lambda?", json!({"query": "lambda"}))
            .read_only(),
        ),
        Box::new(typed(
            "remember",
            "Remember facts: an entity, a relationship or an observation.",
            move |fact: Remember| {
                let kind = match fact.kind {
                    Remembered::Entity => Kind::Entity,
                    Remembered::Relationship => Kind::Relationship,
                    Remembered::Observation => Kind::Observation,
                };
                let data = Value::Object(fact.data);
                let id = facts.store(kind, &data.to_string(), &[], Some(&data))?;
                Ok::<_, Error>(format!("remembered as number {id}"))
            },
        )?),
        Box::new(
            typed("search", "Search the facts and notes that were remembered.", move |wanted: Search| {
                Ok::<_, Error>(listing(&found.search(&wanted.query, LIMIT)?))
            })?
            .read_only(),
        ),
        Box::new(
            typed(
                "think",
                "Think about the task before going on. Nothing else happens.",
                // Whatever it said, a small model would take it for the result that the user asked for.
                |_: Think| Ok::<_, Error>(""),
            )?
            .with_example("Think first: what is 4 less 1?", json!({"content": "4 - 1 = 3"}))
            .with_role(Role::Thinks)
            .read_only(),
        ),
    ])
}

/// A line a memory, newest knowledge as it was written.
fn listing(found: &[Entry]) -> String {
    if found.is_empty() {
        return "nothing was remembered about that".to_owned();
    }
    let line = |entry: &Entry| match entry.tags.as_slice() {
        [] => format!("- {}", entry.content),
        tags => format!("- {} [{}]", entry.content, tags.join(", ")),
    };
    found.iter().map(line).collect::<Vec<_>>().join("\n")
}
