//! The Model Context Protocol, through `rmcp`. [`Server`] gives this program's tools to other programs. [`Servers`] gives
//! other programs' tools to this one. An embedder's server may have [`Resources`], [`Prompts`] and [`Completions`], too.
//!
//! Invariant: a call over the protocol goes through the same [`Registry`](toolgate_tools::Registry) and policy as any other.
//! Its result is made safe like any output. Types of `rmcp` stay in this package.
//!
//! ```no_run
//! use toolgate_mcp::{Server, Unasked, serve_stdio};
//! use toolgate_tools::memory::Memory;
//! use toolgate_tools::{Registry, memory_tools};
//!
//! let mut registry = Registry::new();
//! for tool in memory_tools(&Memory::in_process()?.into())? {
//!     registry.add_boxed(tool)?;
//! }
//! serve_stdio(Server::new(registry, Unasked::Deny))?;
//! # Ok::<(), toolgate_agent::Error>(())
//! ```

mod ask;
#[cfg(test)]
mod awaiting;
mod client;
mod content;
mod given_up;
mod page;
mod prompts;
mod resources;
mod serve;
mod server;
mod subscriptions;
mod wire;

pub use ask::{Ask, Asking};
pub use client::{Fetch, Packages, Report, Servers, Unusable};
pub use prompts::{
    Completing, Completions, Prompt, PromptArgument, PromptMessage, Prompts, Speaker, Subject,
};
pub use resources::{Changed, Resource, ResourceTemplate, Resources};
pub use serve::{HttpOptions, serve_http, serve_stdio};
pub use server::Server;
pub use toolgate_tools::Unasked;

use std::io;

use tokio::runtime::{Builder, Runtime};

use toolgate_agent::{Error, Kind};

/// A runtime for the protocol's messages. Blocking work runs beside it.
fn runtime() -> Result<Runtime, Error> {
    let made = Builder::new_multi_thread().worker_threads(2).thread_name("toolgate-mcp").enable_all().build();
    made.map_err(|why| failed("cannot start a runtime", &why))
}

fn failed(doing: &str, why: &io::Error) -> Error {
    Error::new(Kind::Input, format!("{doing}: {why}"))
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
