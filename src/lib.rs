//! Local tool calling that is valid by construction and runs under capabilities.
//!
//! A run is a value flowing downwards: [`chat`] has the messages and the definitions of tools, [`grammar`] makes grammars
//! of them, [`engine`] makes a turn of a language model that is either valid calls of those tools or an answer. `tools`
//! runs calls, inside a `sandbox`; `agent` goes on until there is an answer; `serve` and `mcp` put it behind protocols.
//!
//! # Features
//!
//! None is on by default. Such a library has messages, grammars, and turns of a model of your own ([`infer::Backend`]).
//!
//! | feature | adds |
//! |---|---|
//! | `agent` | the loop of turns and calls, your own tools, the sandboxed tools of a workspace |
//! | `llama` | models in this process, by llama.cpp |
//! | `cuda`, `metal`, `rocm`, `vulkan` | graphics processors for such models; not part of `full` |
//! | `remote` | models of servers |
//! | `pull` | fetching the models of the catalogue |
//! | `memory` | the memory tools and the undo journal, in SQLite |
//! | `serve` | the HTTP server |
//! | `mcp` | the Model Context Protocol, both ways |
//! | `wasm` | tools that are WebAssembly components |
//! | `gbnf` | grammars to and from the types of the `gbnf` crate |
//! | `full` | the program, with all but `gbnf` |
//!
#![cfg_attr(all(feature = "agent", feature = "llama"), doc = "```no_run")]
#![cfg_attr(not(all(feature = "agent", feature = "llama")), doc = "```ignore")]
//! use std::sync::Arc;
//! use toolgate::agent::{self, Agent};
//! use toolgate::engine::LocalEngine;
//! use toolgate::tools::{Registry, typed};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Stock {
//!     /// The article, such as A-17.
//!     article: String,
//! }
//!
//! let mut tools = Registry::new();
//! tools.add(typed("get_stock", "Pieces of an article in stock.", |stock: Stock| {
//!     Ok::<_, String>(format!("{}: 42 pieces", stock.article))
//! })?)?;
//! let engine = LocalEngine::open("qwen2.5-coder-1.5b")?;
//! let agent = Agent::new(Arc::new(engine), tools, agent::Options::default());
//! println!("{}", agent.ask("How many pieces of A-17 are in stock?")?.answer);
//! # Ok::<(), toolgate::Error>(())
//! ```

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;

#[cfg(feature = "agent")]
pub use toolgate_agent::{self as agent, Error, Kind, trace};
pub use toolgate_chat as chat;
pub use toolgate_engine::{self as engine, models};
pub use toolgate_grammar as grammar;
pub use toolgate_infer as infer;
#[cfg(feature = "mcp")]
pub use toolgate_mcp as mcp;
#[cfg(feature = "remote")]
pub use toolgate_remote as remote;
#[cfg(feature = "agent")]
pub use toolgate_sandbox as sandbox;
#[cfg(feature = "serve")]
pub use toolgate_server as serve;
#[cfg(feature = "agent")]
pub use toolgate_tools as tools;
#[cfg(feature = "memory")]
pub use toolgate_tools::{memory, undo};

#[cfg(all(doctest, feature = "agent", feature = "llama"))]
#[doc = include_str!("../README.md")]
struct Readme;
