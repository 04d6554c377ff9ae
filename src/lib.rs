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

pub mod agent;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "memory")]
mod database;
pub mod engine;
mod error;
#[cfg(feature = "memory")]
pub mod eval;
mod exchange;
pub mod flight;
#[cfg(any(feature = "mcp", feature = "serve"))]
mod keys;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "memory")]
pub mod memory;
pub mod models;
pub mod remote;
#[cfg(feature = "serve")]
pub mod serve;
pub mod tools;
#[cfg(feature = "memory")]
pub mod undo;
mod words;

pub use error::{Error, Kind};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
