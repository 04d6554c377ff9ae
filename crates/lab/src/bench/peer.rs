//! A server that is measured: one that speaks OpenAI's protocol, and llama.cpp's /completion if it can.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use toolgate_chat::fallback;
use toolgate_grammar::{Grammar, TokenId};

use super::median;
use super::requests::{MOST_TOKENS, Request};

/// How long a server may take to be ready, and for an answer.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often it is asked whether it is ready.
const BEAT: Duration = Duration::from_millis(20);

/// A server, and the command that starts it.
pub(super) struct Peer {
    base: String,
    command: Vec<String>,
    agent: ureq::Agent,
}

/// Which server is asked for the same calls, and how.
#[derive(Args)]
pub(super) struct Against {
    /// Ask an OpenAI-compatible server for the same calls.
    #[arg(long, value_name = "URL")]
    pub(super) against: Option<String>,
    /// Start that server with this command, whose words are split at blanks; bench call starts it anew for each cold call.
    #[arg(long, value_name = "COMMAND", requires = "against")]
    pub(super) start: Option<String>,
    /// How it is asked: by its own tools, with our prompt and grammar, or both.
    #[arg(long, value_name = "HOW", default_value = "both", requires = "against")]
    asked: Asked,
}

/// How a server is asked for a call.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Asked {
    Tools,
    Grammar,
    Both,
}

impl Against {
    /// The server, if one is named.
    pub(super) fn peer(&self) -> anyhow::Result<Option<Peer>> {
        self.against.as_deref().map(|url| Peer::new(url, self.start.as_deref())).transpose()
    }

    /// Whether it is asked by its own tools.
    pub(super) fn with_tools(&self) -> bool {
        self.against.is_some() && self.asked != Asked::Grammar
    }

    /// Whether it is asked with our prompt and grammar.
    pub(super) fn with_grammar(&self) -> bool {
        self.against.is_some() && self.asked != Asked::Tools
    }
}

/// What a server is asked.
pub(super) struct Ask {
    path: &'static str,
    body: Value,
}

/// An answer of the server.
pub(super) struct Answered {
    pub(super) ms: f64,
    body: Value,
}

/// A server that was started, and ends with this value.
pub(super) struct Running(Option<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // One that ended by itself cannot be ended again.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Peer {
    /// A server at `url`, with or without `/v1` at its end.
    pub(super) fn new(url: &str, command: Option<&str>) -> anyhow::Result<Self> {
        let base = url.trim_end_matches('/');
        let base = base.strip_suffix("/v1").unwrap_or(base).to_owned();
        anyhow::ensure!(base.starts_with("http"), "{url:?} is no address: write http://HOST:PORT");
        let agent =
            ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false).build();
        let command = command.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        Ok(Self { base, command, agent: agent.into() })
    }

    /// Starts the server, if there is a command, and waits until it is ready.
    pub(super) fn start(&self) -> anyhow::Result<Running> {
        let mut running = Running(None);
        if let Some((program, arguments)) = self.command.split_first() {
            anyhow::ensure!(!self.is_ready(), "there is a server at {} already: stop it first", self.base);
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            running.0 = Some(command.spawn().with_context(|| format!("cannot start {program}"))?);
        }
        let since = Instant::now();
        while !self.is_ready() {
            anyhow::ensure!(since.elapsed() < PATIENCE, "the server at {} does not become ready", self.base);
            if let Some(child) = &mut running.0
                && let Some(status) = child.try_wait()?
            {
                anyhow::bail!("the server ended at once: {status}");
            }
            std::thread::sleep(BEAT);
        }
        Ok(running)
    }

    fn is_ready(&self) -> bool {
        let ready = |path: &str| {
            let answer = self.agent.get(format!("{}{path}", self.base)).call();
            answer.is_ok_and(|answer| answer.status().is_success())
        };
        ready("/health") || ready("/v1/models")
    }

    /// What it takes from its start to its answer; none where it refuses to be asked this.
    pub(super) fn cold(&self, ask: &Ask) -> anyhow::Result<Option<f64>> {
        let since = Instant::now();
        let _running = self.start()?;
        let answer = self.ask(ask)?;
        Ok(answer.map(|_| since.elapsed().as_secs_f64() * 1e3))
    }

    /// The answer that took the median of some runs after the first; none where the server refuses to be asked this.
    pub(super) fn repeated(&self, ask: &Ask, runs: u16) -> anyhow::Result<Option<Answered>> {
        let Some(first) = self.ask(ask)? else { return Ok(None) };
        let mut times = Vec::new();
        for _ in 0..runs {
            times.extend(self.ask(ask)?.map(|answered| answered.ms));
        }
        Ok(median(times).map(|ms| Answered { ms, ..first }))
    }

    /// Asks and waits until the whole answer is there; none where the server refuses to be asked this.
    pub(super) fn ask(&self, ask: &Ask) -> anyhow::Result<Option<Answered>> {
        let url = format!("{}{}", self.base, ask.path);
        let since = Instant::now();
        let post = self.agent.post(&url).header("Content-Type", "application/json");
        let mut answer = post.send(ask.body.to_string()).with_context(|| format!("no answer from {url}"))?;
        let text =
            answer.body_mut().read_to_string().with_context(|| format!("no whole answer from {url}"))?;
        let ms = since.elapsed().as_secs_f64() * 1e3;
        if !answer.status().is_success() {
            tracing::warn!(%url, status = %answer.status(), answer = %text, "the server refused a request");
            return Ok(None);
        }
        Ok(Some(Answered { ms, body: serde_json::from_str(&text).unwrap_or_default() }))
    }
}

impl Ask {
    /// The name that the model is asked by; servers of one model pass over it, or know it as an alias.
    pub(super) const MODEL: &str = "default";

    /// A request as OpenAI's protocol has it.
    pub(super) fn chat(request: &Request) -> Self {
        let body = json!({
            "model": Self::MODEL,
            "messages": request.transcript.to_openai(),
            "tools": request.tools.iter().map(toolgate_chat::ToolSpec::to_openai).collect::<Vec<_>>(),
            "tool_choice": "required",
            "parallel_tool_calls": false,
            "temperature": 0,
            "max_tokens": MOST_TOKENS,
            "cache_prompt": true,
        });
        Self { path: "/v1/chat/completions", body }
    }

    /// The same prompt and grammar as ours, as llama.cpp's server has it.
    pub(super) fn completion(prompt: &[TokenId], grammar: &Grammar) -> Self {
        let body = json!({
            "prompt": prompt,
            "grammar": grammar.to_gbnf(),
            "n_predict": MOST_TOKENS,
            "temperature": 0,
            "cache_prompt": true,
        });
        Self { path: "/completion", body }
    }
}

impl Answered {
    /// Tokens it wrote, if it says so: some models do not find the end in the form that it holds them to.
    pub(super) fn tokens(&self) -> Option<u64> {
        let tokens =
            self.body.pointer("/usage/completion_tokens").or_else(|| self.body.get("tokens_predicted"));
        tokens.and_then(Value::as_u64)
    }

    /// Whether it is one call that fits the request: the server's own reading of it, or its text read leniently.
    pub(super) fn is_valid(&self, request: &Request) -> bool {
        if let Some(text) = self.body.get("content").and_then(Value::as_str) {
            let found = fallback::extract_typed(text, &request.tools);
            return matches!(found.calls.as_slice(), [call] if request.admits(&call.name, &call.arguments));
        }
        let calls = self.body.pointer("/choices/0/message/tool_calls").and_then(Value::as_array);
        let Some([call]) = calls.map(Vec::as_slice) else { return false };
        let text = |pointer: &str| call.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let arguments: Option<Map<String, Value>> = serde_json::from_str(text("/function/arguments")).ok();
        arguments.is_some_and(|arguments| request.admits(text("/function/name"), &arguments))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    #[test]
    fn an_address_may_end_with_its_version() {
        for url in [
            "http://127.0.0.1:8091",
            "http://127.0.0.1:8091/",
            "http://127.0.0.1:8091/v1",
            "http://127.0.0.1:8091/v1/",
        ] {
            assert_eq!(Peer::new(url, None).unwrap().base, "http://127.0.0.1:8091");
        }
        assert!(Peer::new("127.0.0.1:8091", None).is_err());
    }

    #[test]
    fn a_second_turn_has_its_call_and_its_result() {
        let requests = super::super::requests::requests().unwrap();
        let request = requests.iter().find(|request| request.id == "after-list").unwrap();
        let body = Ask::chat(request).body;
        let roles: Vec<_> =
            body["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "tool"]);
        assert_eq!(body["messages"][1]["tool_calls"][0]["id"], body["messages"][2]["tool_call_id"]);
        assert_eq!(body["tools"].as_array().unwrap().len(), 6);
    }

    #[test]
    fn a_command_that_cannot_be_started_is_told() {
        let peer = Peer::new("http://127.0.0.1:9", Some("no-such-program --port 9")).unwrap();
        assert!(peer.start().err().unwrap().to_string().contains("no-such-program"));
    }

    #[test]
    fn an_answer_is_valid_that_is_one_fitting_call() {
        let requests = super::super::requests::requests().unwrap();
        let request = requests.iter().find(|request| request.id == "read-short").unwrap();
        let valid = |body: Value| Answered { ms: 0.0, body }.is_valid(request);
        let made = |name: &str, arguments: &str, times: usize| {
            let call = json!({"function": {"name": name, "arguments": arguments}});
            valid(json!({"choices": [{"message": {"tool_calls": vec![call; times]}}]}))
        };
        assert!(made("read_file", r#"{"path": "a"}"#, 1));
        assert!(!made("read_file", r#"{"path": "a"}"#, 2), "two calls");
        assert!(!made("read_file", r#"{"path": 1}"#, 1), "another type");
        assert!(!made("read_file", r#"{"path": "a""#, 1), "cut off");
        assert!(!made("no_such_tool", "{}", 1));
        let text = |text: &str| valid(json!({"content": text}));
        assert!(text(r#"<tool_call>{"name": "read_file", "arguments": {"path": "a"}}</tool_call>"#));
        assert!(!text("It is 42."));
        assert!(!valid(Value::Null));
    }
}
