//! Local tool calling that is valid by construction and runs under capabilities.
//!
//! A run is a value flowing downwards: [`tools`] are defined once; [`engine`] makes a turn of a language model that is
//! either valid calls of those tools or an answer; [`agent`] runs the calls and goes on until there is an answer;
//! `serve` puts them behind HTTP; [`cli`] is the program over them. Models come from [`models`], or are asked for at a server
//! ([`remote`]).
//!
//! ```no_run
//! use std::sync::Arc;
//! use toolgate::agent::{Agent, Options};
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
//! let engine = LocalEngine::open("qwen2.5-coder-0.5b")?;
//! let agent = Agent::new(Arc::new(engine), tools, Options::default());
//! println!("{}", agent.ask("How many pieces of A-17 are in stock?")?.answer);
//! # Ok::<(), toolgate::Error>(())
//! ```

#[cfg(feature = "cli")]
pub mod cli;

pub use toolgate_agent::{self as agent, Error, Kind, trace};
pub use toolgate_engine::{self as engine, models};
#[cfg(feature = "mcp")]
pub use toolgate_mcp as mcp;
pub use toolgate_remote as remote;
#[cfg(feature = "serve")]
pub use toolgate_server as serve;
pub use toolgate_tools as tools;
#[cfg(feature = "memory")]
pub use toolgate_tools::{memory, undo};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
