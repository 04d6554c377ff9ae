//! The grammar alone, without a model or a loop: what may follow, token by token, for an engine of one's own.
//! Run: `cargo run --release --example constraint`
#![allow(clippy::print_stdout, reason = "an example")]

use std::sync::Arc;

use toolgate::grammar::{self, Automaton, Limits, Schema, Vocabulary, compile};

fn main() -> anyhow::Result<()> {
    let schema = serde_json::json!({
        "type": "object",
        "properties": {"level": {"enum": ["low", "high"]}},
        "required": ["level"],
    });
    let grammar = compile(&Schema::parse(&schema)?, &grammar::Options::default())?.grammar;
    // A token for each byte; an engine has its model's own.
    let vocabulary = Arc::new(Vocabulary::bytes_only());
    let automaton = Automaton::new(&grammar, vocabulary, &Limits::default())?;
    let mut matcher = automaton.matcher();
    for byte in b"{\"level\": \"" {
        matcher.accept(u32::from(*byte))?;
    }
    // The values begin with different letters, so the first one decides the rest.
    let allowed: Vec<char> = matcher.mask()?.iter().filter_map(char::from_u32).collect();
    println!("after {{\"level\": \" may come {allowed:?}");
    matcher.accept(u32::from(b'h'))?;
    println!("after h comes {:?}", String::from_utf8_lossy(&matcher.forced()?));
    Ok(())
}
