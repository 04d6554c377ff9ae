//! The other side of `toolgate bench call`: a server that speaks OpenAI's protocol, and llama.cpp's /completion if it can.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

use super::median;
use super::ours::{MOST_TOKENS, Measured};
use super::requests::Request;

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

/// What a request cost, as far as the server could be asked.
#[derive(Clone, Copy, Default)]
pub(super) struct PeerTimes {
    /// By its own tools.
    pub(super) own: Option<Answered>,
    /// With our prompt and grammar.
    pub(super) grammar: Option<Answered>,
}

/// An answer of the server.
#[derive(Clone, Copy)]
pub(super) struct Answered {
    pub(super) ms: f64,
    /// Tokens it wrote, if it says so: some models do not find the end in the form that it holds them to.
    pub(super) tokens: Option<u64>,
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

    /// What it takes for a request whose prompt it has evaluated before.
    pub(super) fn warm(&self, request: &Request, ours: &Measured, runs: u16) -> anyhow::Result<PeerTimes> {
        let chat = ("/v1/chat/completions", chat(request));
        let own = self.repeated(chat.0, &chat.1, runs)?;
        let grammar = match &ours.grammar {
            Some(grammar) => self.repeated("/completion", &completion(ours, &grammar.to_gbnf()), runs)?,
            None => None,
        };
        Ok(PeerTimes { own, grammar })
    }

    /// What it takes from its start to the call.
    pub(super) fn cold(&self, request: &Request) -> anyhow::Result<f64> {
        let since = Instant::now();
        let running = self.start()?;
        let answer = self.ask("/v1/chat/completions", &chat(request))?;
        let ms = since.elapsed().as_secs_f64() * 1e3;
        drop(running);
        anyhow::ensure!(answer.is_some(), "the server refused the request {}", request.id);
        Ok(ms)
    }

    /// The median of some runs after the first; none where the server refuses the request.
    fn repeated(&self, path: &str, body: &Value, runs: u16) -> anyhow::Result<Option<Answered>> {
        let Some(first) = self.ask(path, body)? else { return Ok(None) };
        let mut times = Vec::new();
        for _ in 0..runs {
            times.extend(self.ask(path, body)?.map(|answered| answered.ms));
        }
        Ok(median(times).map(|ms| Answered { ms, ..first }))
    }

    /// Asks and waits until the whole answer is there; none where the server refuses the request.
    fn ask(&self, path: &str, body: &Value) -> anyhow::Result<Option<Answered>> {
        let url = format!("{}{path}", self.base);
        let since = Instant::now();
        let answer = self.agent.post(&url).header("Content-Type", "application/json").send(body.to_string());
        let mut answer = answer.with_context(|| format!("no answer from {url}"))?;
        let text =
            answer.body_mut().read_to_string().with_context(|| format!("no whole answer from {url}"))?;
        let ms = since.elapsed().as_secs_f64() * 1e3;
        if !answer.status().is_success() {
            tracing::warn!(%url, status = %answer.status(), answer = %text, "the server refused a request");
            return Ok(None);
        }
        let told: Value = serde_json::from_str(&text).unwrap_or_default();
        let tokens = told.pointer("/usage/completion_tokens").or_else(|| told.get("tokens_predicted"));
        Ok(Some(Answered { ms, tokens: tokens.and_then(Value::as_u64) }))
    }
}

/// A request as OpenAI's protocol has it.
fn chat(request: &Request) -> Value {
    json!({
        "model": "default",
        "messages": request.transcript.to_openai(),
        "tools": request.tools.iter().map(toolgate_chat::ToolSpec::to_openai).collect::<Vec<_>>(),
        "tool_choice": "required",
        "parallel_tool_calls": false,
        "temperature": 0,
        "max_tokens": MOST_TOKENS,
        "cache_prompt": true,
    })
}

/// The same prompt and grammar as ours, as llama.cpp's server has it.
fn completion(ours: &Measured, grammar: &str) -> Value {
    json!({
        "prompt": ours.prompt,
        "grammar": grammar,
        "n_predict": MOST_TOKENS,
        "temperature": 0,
        "cache_prompt": true,
    })
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
        let body = chat(request);
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
}
