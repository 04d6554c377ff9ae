//! An HTTP server for one file, which misbehaves on request. It answers as the Hugging Face hub does.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::models::Sha256Digest;

/// What the server does wrong; nothing by default.
#[derive(Clone, Default)]
pub(super) struct Behaviour {
    /// Answers every request with status 503.
    pub(super) refuses: bool,
    /// Takes connections and never answers.
    pub(super) silent: bool,
    /// Sends the whole file whatever is asked for.
    pub(super) no_ranges: bool,
    /// Closes the first transfer after this many bytes.
    pub(super) cuts_at: Option<usize>,
    /// Stops sending after this many bytes, with the connection open.
    pub(super) stalls_at: Option<usize>,
    /// Claims the digest of this content.
    pub(super) record_of: Option<Vec<u8>>,
}

/// A running server; it ends with the test's process.
pub(super) struct Server {
    address: String,
    seen: Arc<Mutex<Vec<(String, String)>>>,
}

impl Server {
    pub(super) fn start(content: Vec<u8>, behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        thread::spawn(move || {
            let mut transfers = 0;
            for stream in listener.incoming().map_while(Result::ok) {
                if behaviour.silent {
                    // Kept open, so that only a time limit ends the wait.
                    thread::spawn(move || {
                        thread::sleep(Duration::from_secs(60));
                        drop(stream);
                    });
                    continue;
                }
                let Some((path, range)) = request(&stream) else { continue };
                log.lock().unwrap().push((path, range.clone()));
                // A client that hangs up is a case under test.
                let _ = answer(stream, &content, &behaviour, &range, &mut transfers);
            }
        });
        Self { address, seen }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Paths asked for, in order.
    pub(super) fn paths(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|(path, _)| path.clone()).collect()
    }

    /// Range headers, in order; empty where there was none.
    pub(super) fn ranges(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|(_, range)| range.clone()).collect()
    }
}

fn request(stream: &TcpStream) -> Option<(String, String)> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let mut range = String::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("range")
        {
            range = value.to_owned();
        }
    }
    Some((path, range))
}

fn answer(
    mut stream: TcpStream,
    content: &[u8],
    behaviour: &Behaviour,
    range: &str,
    transfers: &mut usize,
) -> std::io::Result<()> {
    if behaviour.refuses {
        return write!(stream, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    let total = content.len();
    let probe = range == "bytes=0-0";
    let from = range.strip_prefix("bytes=").and_then(|range| range.split('-').next()?.parse::<usize>().ok());
    let from = from.filter(|_| probe || !behaviour.no_ranges);
    let etag = Sha256Digest::of(behaviour.record_of.as_deref().unwrap_or(content));
    let (start, end) = (from.unwrap_or(0), if probe { 1 } else { total });
    if start >= total {
        return write!(stream, "HTTP/1.1 416 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    let status = if from.is_some() { "206 Partial Content" } else { "200 OK" };
    let body = &content[start..end];
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nContent-Range: bytes {start}-{}/{total}\r\nETag: \"{etag}\"\r\n\
         X-Repo-Commit: 0123\r\nConnection: close\r\n\r\n",
        body.len(),
        end - 1,
    )?;
    if probe {
        return stream.write_all(body);
    }
    *transfers += 1;
    if let Some(cut) = behaviour.cuts_at.filter(|_| *transfers == 1) {
        return stream.write_all(&body[..cut]);
    }
    if let Some(stall) = behaviour.stalls_at {
        stream.write_all(&body[..stall])?;
        thread::sleep(Duration::from_secs(60));
        return Ok(());
    }
    stream.write_all(body)
}
