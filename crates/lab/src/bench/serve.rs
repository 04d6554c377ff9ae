//! `toolgate bench serve`: calls a second of the server, for one client and for several, beside another server.
//!
//! Both are asked over HTTP for the same calls of the same model. What each has kept of a prompt when it is asked again
//! is its own doing: every request is made once before anything is timed.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::ours;
use super::peer::{Against, Ask, Peer};
use super::requests::{self, CONTEXT, Request};
use crate::host::Host;
use toolgate_server as server;

pub(super) const EXAMPLES: &str = "\
Examples:
  toolgate bench serve --model smollm2-135m --clients 1,8
  toolgate bench serve --against http://127.0.0.1:8091 \\
    --start \"llama-server --jinja -m model.gguf --port 8091\"

The twenty requests of bench call, each to be answered by one call, at a server in this process and
at the one of --against: there by its own tools (tool_choice required), and with our prompt and
grammar at its /completion, if it has that (--asked). A client makes one request after the other;
several share the twenty. A call is valid that is one call of a tool offered, with arguments that fit
its schema. Greedy, 256 tokens at most.

--json prints {model, requests, rows: [{server, clients, calls, valid, seconds, calls_per_second,
ratio}]}; the ratio is our calls a second over the server's, for as many clients.";

/// Arguments of `toolgate bench serve`.
#[derive(Args)]
pub(super) struct ServeArgs<H: Host> {
    #[command(flatten)]
    model: H,
    #[command(flatten)]
    other: Against,
    /// Clients at the same time, one measurement each.
    #[arg(long, value_delimiter = ',', default_value = "1,8", value_name = "N,M")]
    clients: Vec<NonZeroUsize>,
    /// Turns that our server makes at the same time.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    at_once: u16,
    /// Make each request so often.
    #[arg(long, default_value = "1", value_name = "N")]
    rounds: NonZeroUsize,
    /// The first N requests only.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// What a server did for so many clients.
#[derive(Serialize)]
struct Row {
    server: &'static str,
    clients: usize,
    calls: usize,
    valid: usize,
    seconds: f64,
    calls_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
}

/// Runs `toolgate bench serve`.
pub(super) fn run<H: Host>(args: &mut ServeArgs<H>, out: &mut dyn Write) -> anyhow::Result<bool> {
    args.model.hold(CONTEXT);
    let Some(file) = args.model.file()? else {
        bail!("bench serve measures a model on this machine; --against URL measures a server beside it");
    };
    let all = requests::requests()?;
    let requests = all.get(..args.limit.unwrap_or(usize::MAX).min(all.len())).unwrap_or_default();
    let at_once = NonZeroUsize::new(usize::from(args.at_once)).unwrap_or(NonZeroUsize::MIN);
    let engine = args.model.load_for_clients(&file, at_once)?;
    // Our prompts and grammars, for the other server.
    let held = match args.other.with_grammar() {
        true => requests.iter().map(|request| ours::once(engine.as_ref(), request)).collect(),
        false => Ok(Vec::new()),
    }?;
    let own: Vec<Ask> = requests.iter().map(Ask::chat).collect();
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let most = args.clients.iter().map(|clients| clients.get()).max().unwrap_or(1);
    let waiting = u16::try_from(most).unwrap_or(u16::MAX);
    let options = server::Options::default()
        .address(address)
        .at_once(args.at_once)
        .waiting(waiting)
        .aliases(vec![Ask::MODEL.into()]);
    let server = server::Server::start(engine, None, options)?;
    let ours = Peer::new(&format!("http://{}", server.address()), None)?;
    let ours = measure("toolgate", &ours, requests, &own, args)?;
    let ours = ours.context("our server refused a request; TOOLGATE_LOG=warn says why")?;
    server.stopper().stop();
    server.wait()?;
    let mut theirs = Vec::new();
    if let Some(peer) = args.other.peer()? {
        let running = peer.start()?;
        let with_grammar = held.iter().filter_map(|held| Some((&held.prompt, held.grammar.as_ref()?)));
        let with_grammar: Vec<Ask> =
            with_grammar.map(|(prompt, grammar)| Ask::completion(prompt, grammar)).collect();
        let its_tools: &[Ask] = if args.other.with_tools() { &own } else { &[] };
        for (name, asks) in [("its tools", its_tools), ("our grammar", &with_grammar)] {
            if asks.is_empty() {
                continue;
            }
            theirs.extend(beside(measure(name, &peer, requests, asks, args)?.unwrap_or_default(), &ours));
        }
        drop(running);
    }
    let valid = ours.iter().all(|row| row.valid == row.calls);
    let rows: Vec<Row> = ours.into_iter().chain(theirs).collect();
    let name = file.path.file_stem().map(|name| name.to_string_lossy().into_owned());
    if args.json {
        writeln!(out, "{}", json!({"model": name, "requests": requests.len(), "rows": rows}))?;
    } else {
        table(&rows, out)?;
    }
    Ok(valid)
}

/// Puts our calls a second over theirs.
fn beside(theirs: Vec<Row>, ours: &[Row]) -> Vec<Row> {
    let own = |clients: usize| ours.iter().find(|row| row.clients == clients).map(|row| row.calls_per_second);
    let ratio = |row: &Row| Some(own(row.clients)? / row.calls_per_second);
    theirs.into_iter().map(|row| Row { ratio: ratio(&row), ..row }).collect()
}

/// Asks a server all of it, for each number of clients; none where it refuses to be asked so.
fn measure<H: Host>(
    name: &'static str,
    peer: &Peer,
    requests: &[Request],
    asks: &[Ask],
    args: &ServeArgs<H>,
) -> anyhow::Result<Option<Vec<Row>>> {
    let work: Vec<(&Request, &Ask)> = requests.iter().zip(asks).collect();
    for (_, ask) in &work {
        if peer.ask(ask)?.is_none() {
            return Ok(None);
        }
    }
    let bar = H::BAR(name, args.clients.len() as u64);
    let mut rows = Vec::new();
    for clients in &args.clients {
        let (valid, took) = load(peer, &work, clients.get(), args.rounds.get())?;
        let (calls, seconds) = (work.len() * args.rounds.get(), took.as_secs_f64());
        let clients = clients.get();
        let calls_per_second = calls as f64 / seconds;
        rows.push(Row { server: name, clients, calls, valid, seconds, calls_per_second, ratio: None });
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Some(rows))
}

/// So many clients, who share the requests of some rounds: the valid calls, and the time until the last of them.
fn load(
    peer: &Peer,
    work: &[(&Request, &Ask)],
    clients: usize,
    rounds: usize,
) -> anyhow::Result<(usize, Duration)> {
    let next = AtomicUsize::new(0);
    let client = || -> anyhow::Result<usize> {
        let mut valid = 0;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((request, ask)) = work.get(number % work.len().max(1)) else { return Ok(valid) };
            if number >= work.len() * rounds {
                return Ok(valid);
            }
            let Some(answered) = peer.ask(ask)? else {
                bail!(
                    "the server refused {} beside others, though not by itself: it may need more context",
                    request.id
                )
            };
            valid += usize::from(answered.is_valid(request));
        }
    };
    let since = Instant::now();
    let valid = std::thread::scope(|scope| {
        let started: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        started
            .into_iter()
            .map(|client| client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .sum::<anyhow::Result<usize>>()
    })?;
    Ok((valid, since.elapsed()))
}

fn table(rows: &[Row], out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(
        out,
        "{:14}{:>9}{:>7}{:>7}{:>10}{:>9}{:>8}",
        "SERVER", "CLIENTS", "CALLS", "VALID", "SECONDS", "CALLS/S", "RATIO"
    )?;
    rows.iter().try_for_each(|row| {
        let ratio = row.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        writeln!(
            out,
            "{:14}{:>9}{:>7}{:>7}{:>10.1}{:>9.2}{ratio:>8}",
            row.server, row.clients, row.calls, row.valid, row.seconds, row.calls_per_second
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_as_many_clients() {
        let row = |clients, calls_per_second| Row {
            server: "x",
            clients,
            calls: 1,
            valid: 1,
            seconds: 1.0,
            calls_per_second,
            ratio: None,
        };
        let ratios: Vec<_> = beside(vec![row(1, 2.0), row(8, 1.0), row(3, 1.0)], &[row(8, 6.0), row(1, 3.0)])
            .into_iter()
            .map(|row| row.ratio)
            .collect();
        assert_eq!(ratios, [Some(1.5), Some(6.0), None]);
    }
}
