//! The first source: one file over HTTP, from the Hugging Face hub or from any address.
//!
//! `hf-hub` knows where a file lies and what its record says (size, SHA-256); the bytes come through `ureq`, since
//! `hf-hub` has no time limits, cannot be stopped and keeps a second copy. Both run on a thread of their own, so
//! that a dead network never holds up a cancelled pull.

use std::io::Read;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use hf_hub::api::sync::{Api, ApiBuilder};
use hf_hub::{Cache, Repo, RepoType};

use super::catalogue::HubFile;
use super::digest::Sha256Digest;
use super::error::{Error, Kind};
use super::pull::Watch;
use super::staging::Staging;

const CHUNK: usize = 1 << 17;
/// How often a waiting pull looks whether it should stop.
const BEAT: Duration = Duration::from_millis(50);
/// Times a broken transfer is taken up again.
const RETRIES: u32 = 4;

/// A file at an address, with what is known of it beforehand.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) url: String,
    pub(crate) bytes: Option<u64>,
    pub(crate) sha256: Option<Sha256Digest>,
    pub(crate) token: Option<String>,
}

/// How long to wait for a server, and for the next bytes of one that answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) answer: Duration,
    pub(crate) stall: Duration,
}

/// Asks the hub for the record of `file`.
pub(crate) fn locate(
    file: &HubFile,
    endpoint: Option<&str>,
    patience: Patience,
    watch: &Watch<'_>,
) -> Result<Remote, Error> {
    if std::env::var("HF_HUB_OFFLINE").is_ok_and(|value| !matches!(value.as_str(), "" | "0")) {
        return Err(Error::new(Kind::Network, "HF_HUB_OFFLINE is set"));
    }
    let token = token();
    let endpoint = endpoint.map(str::to_owned).or_else(|| std::env::var("HF_ENDPOINT").ok());
    let api = api(endpoint, token.clone())?;
    let repo = api.repo(Repo::with_revision(file.repo.clone(), RepoType::Model, file.revision.clone()));
    let url = repo.url(&file.file);
    let asked = url.clone();
    let (send, answers) = mpsc::sync_channel(1);
    spawn(move || {
        let record = api.metadata(&asked).map(|record| (record.size(), record.etag().to_owned()));
        // Nobody listens any more once the deadline has passed.
        let _ = send.send(record.map_err(|error| error.to_string()));
    })?;
    let deadline = Instant::now() + patience.answer;
    loop {
        watch.check()?;
        match answers.recv_timeout(BEAT) {
            Ok(Ok((bytes, etag))) => {
                // For large files the hub's entity tag is the SHA-256 of the content.
                return Ok(Remote { url, bytes: Some(bytes as u64), sha256: etag.parse().ok(), token });
            }
            Ok(Err(why)) => return Err(Error::new(Kind::Network, explain(&why))),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new(Kind::Network, "the answer cannot be understood"));
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                return Err(Error::new(
                    Kind::Network,
                    format!("no answer within {} seconds", patience.answer.as_secs_f32()),
                ));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Fetches `remote` into `staging`, going on where an earlier attempt stopped.
pub(crate) fn download(
    remote: &Remote,
    patience: Patience,
    staging: &mut Staging,
    watch: &Watch<'_>,
) -> Result<(), Error> {
    let mut retries = 0;
    loop {
        let before = staging.written();
        match transfer(remote, patience, staging, watch) {
            Err(error)
                if error.kind() == Kind::Network && staging.written() > before && retries < RETRIES =>
            {
                retries += 1;
                watch.pause(Duration::from_millis(500) * retries)?;
            }
            result => return result,
        }
    }
}

enum Message {
    /// The server answers, from the asked offset or from the start; the size of the whole.
    Head {
        resumed: bool,
        total: Option<u64>,
    },
    Data(Vec<u8>),
    End,
    Failed(String),
}

fn transfer(
    remote: &Remote,
    patience: Patience,
    staging: &mut Staging,
    watch: &Watch<'_>,
) -> Result<(), Error> {
    if remote.bytes.is_some_and(|bytes| bytes == staging.written()) {
        return Ok(());
    }
    let (send, messages) = mpsc::sync_channel(16);
    let (job, offset) = (remote.clone(), staging.written());
    spawn(move || {
        if let Err(why) = request(&job, offset, patience, &send) {
            let _ = send.send(Message::Failed(why));
        }
    })?;
    let mut expected = remote.bytes;
    loop {
        watch.check()?;
        match messages.recv_timeout(BEAT) {
            Ok(Message::Head { resumed, total }) => {
                if !resumed {
                    staging.restart()?;
                }
                expected = expected.or(total);
                watch.bytes(staging.written(), expected);
            }
            Ok(Message::Data(bytes)) => {
                staging.append(&bytes)?;
                if expected.is_some_and(|expected| staging.written() > expected) {
                    staging.restart()?;
                    return Err(Error::new(Kind::Digest, "the file is longer than its record says"));
                }
                watch.bytes(staging.written(), expected);
            }
            Ok(Message::End) if expected.is_some_and(|expected| staging.written() < expected) => {
                return Err(Error::new(Kind::Network, "the connection ended before the file did"));
            }
            Ok(Message::End) => return Ok(()),
            Ok(Message::Failed(why)) => return Err(Error::new(Kind::Network, explain(&why))),
            // The thread bounds its own waiting; the channel closes at the latest then.
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new(Kind::Network, "the transfer stopped without a word"));
            }
        }
    }
}

/// The thread's side of a transfer: sends what arrives until the end, an error, or a receiver that has gone.
fn request(
    remote: &Remote,
    offset: u64,
    patience: Patience,
    send: &SyncSender<Message>,
) -> Result<(), String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_resolve(Some(patience.answer))
        .timeout_connect(Some(patience.answer))
        .timeout_recv_response(Some(patience.stall))
        .timeout_per_read(Some(patience.stall))
        .redirect_auth_headers(ureq::config::RedirectAuthHeaders::SameHost)
        .http_status_as_error(false)
        // The size on record is that of the file itself, so nothing may be packed on the way.
        .accept_encoding("identity")
        .user_agent(concat!("toolgate/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let mut get = agent.get(&remote.url);
    if let Some(token) = &remote.token {
        get = get.header("Authorization", format!("Bearer {token}"));
    }
    if offset > 0 {
        get = get.header("Range", format!("bytes={offset}-"));
    }
    let response = get.call().map_err(|error| error.to_string())?;
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let head = match response.status().as_u16() {
        200 => Message::Head { resumed: false, total: header("content-length").and_then(|n| n.parse().ok()) },
        206 if offset > 0 => {
            let range = header("content-range").unwrap_or_default();
            if !range.starts_with(&format!("bytes {offset}-")) {
                return Err(format!("the server sent the range {range:?} instead of one from {offset}"));
            }
            Message::Head { resumed: true, total: range.rsplit('/').next().and_then(|n| n.parse().ok()) }
        }
        // Nothing lies behind the offset: what is here is of another file, or already the whole of it.
        416 if offset > 0 => {
            return request(remote, 0, patience, send);
        }
        status => return Err(format!("the server answers with status {status}")),
    };
    if send.send(head).is_err() {
        return Ok(());
    }
    let mut body = response.into_body().into_reader();
    loop {
        let mut chunk = vec![0; CHUNK];
        let n = body.read(&mut chunk).map_err(|error| error.to_string())?;
        if n == 0 {
            let _ = send.send(Message::End);
            return Ok(());
        }
        chunk.truncate(n);
        if send.send(Message::Data(chunk)).is_err() {
            return Ok(());
        }
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    thread::Builder::new()
        .name("toolgate-pull".to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|error| Error::new(Kind::Network, format!("cannot start a thread: {error}")))
}

fn api(endpoint: Option<String>, token: Option<String>) -> Result<Api, Error> {
    // The cache directory is never used: only records are asked for.
    let mut builder =
        ApiBuilder::from_cache(Cache::new(std::env::temp_dir())).with_token(token).with_progress(false);
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(endpoint.trim_end_matches('/').to_owned());
    }
    builder.build().map_err(|error| Error::new(Kind::Network, error.to_string()))
}

/// The user's hub token: `HF_TOKEN`, else the one `hf auth login` stored.
fn token() -> Option<String> {
    if let Ok(token) = std::env::var("HF_TOKEN") {
        return Some(token).filter(|token| !token.is_empty());
    }
    // `hf-hub` panics where there is no home directory, so it is not asked then.
    let home = std::env::var_os("HF_HOME").is_some() || directories::BaseDirs::new().is_some();
    home.then(Cache::from_env).and_then(|cache| cache.token())
}

/// Turns a client's words into what a user can act on.
fn explain(why: &str) -> String {
    if why.contains("401") || why.contains("403") {
        return format!("{why} (a gated model needs HF_TOKEN)");
    }
    why.strip_prefix("request error: ").unwrap_or(why).to_owned()
}
