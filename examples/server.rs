//! The engine behind the OpenAI and the Anthropic API, from a program of one's own, for four clients at a time.
//! Run: `toolgate model pull qwen2.5-coder-1.5b && cargo run --release --features llama,serve --example server`
#![allow(clippy::print_stdout, reason = "an example")]

use std::num::NonZeroUsize;
use std::sync::Arc;

use toolgate::engine::{self, LocalEngine};
use toolgate::models;
use toolgate::serve::{self, Server};

fn main() -> anyhow::Result<()> {
    let model = models::resolve("qwen2.5-coder-1.5b")?;
    let four = NonZeroUsize::MIN.saturating_add(3);
    let suited = engine::Options::for_model(&model).at_once(four);
    let engine = Arc::new(LocalEngine::load(&model, &suited, |_| {})?);
    let server = Server::start(engine, None, serve::Options::default().at_once(4))?;
    println!("http://{}/v1; Ctrl-C ends it", server.address());
    server.wait()?;
    Ok(())
}
