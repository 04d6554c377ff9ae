//! The proxy: takes connections from a sandbox, and opens those that its list grants.
//!
//! It listens at a socket from inside the network namespace of the sandbox. A socket stays in the namespace
//! of its creation, whoever holds it. So the sandbox has nothing of the machine's network, no program of
//! ours, and no descriptor that leads out.
//!
//! Invariant: connections, bytes of a head and time are bounded. The proxy checks the address behind a name
//! and connects to that very address. When the proxy is dropped, its connections end.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::address::is_public;
use super::hosts::{Host, Hosts, Place};
use super::relay::{carry, wait};
use super::request::{self, Read, Refusal};

/// Connections at once.
const CONNECTIONS: usize = 64;
/// Time for a client to send its request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Time to find a host and to connect to it.
const CONNECT_TIME: Duration = Duration::from_secs(15);
/// Time that a connection may be silent.
const IDLE: Duration = Duration::from_secs(600);
/// A time far off, since a proxy has no end of its own.
const LONG: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Denials that are reported at once, each one time.
const TOLD: usize = 32;

/// The refusals of a proxy since the last question: host, port and reason, each one time.
#[derive(Debug, Default)]
pub(crate) struct Denials(Mutex<Vec<String>>);

impl Denials {
    fn note(&self, note: &str) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() < TOLD && !noted.iter().any(|other| other == note) {
            noted.push(note.to_owned());
        }
    }

    /// Those since this was asked last.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A running proxy.
#[derive(Debug)]
pub(crate) struct Proxy {
    /// Closed when it is to end.
    _life: PipeWriter,
}

impl Proxy {
    /// Starts a proxy to `hosts`. Its listener comes through `line`.
    pub(crate) fn start(line: OwnedFd, hosts: &Hosts, denials: &Arc<Denials>) -> io::Result<Self> {
        let (life, held) = io::pipe()?;
        let shared = Shared {
            hosts: hosts.clone(),
            denials: denials.clone(),
            life,
            open: AtomicUsize::new(0),
            public: is_public,
        };
        let shared = Arc::new(shared);
        thread("toolgate-proxy", move || {
            // What ends it is told to nobody: the command sees that nothing is carried.
            let _ = shared.listen(&line);
        })?;
        Ok(Self { _life: held })
    }
}

struct Shared {
    hosts: Hosts,
    denials: Arc<Denials>,
    life: PipeReader,
    /// Connections at the moment.
    open: AtomicUsize,
    /// Whether an address may be what a name leads to.
    public: fn(IpAddr) -> bool,
}

/// Counts a connection while any part of it goes on.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Waits for the listener, and takes connections from it until the proxy ends.
    fn listen(self: &Arc<Self>, line: &OwnedFd) -> io::Result<()> {
        let far = Instant::now() + LONG;
        let life = || (self.life.as_fd(), PollFlags::IN);
        if wait([(line.as_fd(), PollFlags::IN), life()], far)?[1] {
            return Ok(());
        }
        let listener = crate::command::receive_descriptor(line.as_fd())?;
        let Some(listener) = listener else { return Ok(()) };
        let listener = std::net::TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        loop {
            if wait([(listener.as_fd(), PollFlags::IN), life()], far)?[1] {
                return Ok(());
            }
            match listener.accept() {
                Ok((client, _)) => self.take(client),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                // Too many open files, or a client that has gone already.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Gives a connection a thread of its own, if there is room for it.
    fn take(self: &Arc<Self>, client: TcpStream) {
        let place = Counted(self.clone());
        if self.open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
            let _ = client.set_nonblocking(true);
            let full = Refusal::new("503 Service Unavailable", "too many connections are open at once");
            let _ = (&client).write_all(&full.answer());
            return;
        }
        // Where no thread can be had the connection is closed.
        let _ = thread("toolgate-tunnel", move || {
            let shared = place.0.clone();
            let _ = shared.serve(&client, Arc::new(place));
        });
    }

    /// One connection, from its request to its end.
    fn serve(self: &Arc<Self>, client: &TcpStream, place: Arc<Counted>) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut head = Vec::new();
        let opened = match self.wanted(client, &mut head)? {
            Ok((host, length)) => self.open(&host, &place).map(|server| (server, length)),
            Err(refusal) => Err(refusal),
        };
        let (server, length) = match opened {
            Ok(opened) => opened,
            Err(refusal) => return self.refuse(client, &refusal),
        };
        server.set_nodelay(true)?;
        (&mut &*client).write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        carry(client, &server, head.get(length..).unwrap_or_default(), self.life.as_fd(), IDLE)
    }

    fn refuse(&self, client: &TcpStream, refusal: &Refusal) -> io::Result<()> {
        if let Some(note) = &refusal.note {
            self.denials.note(note);
        }
        client.set_write_timeout(Some(HEAD_TIME))?;
        (&mut &*client).write_all(&refusal.answer())?;
        client.shutdown(std::net::Shutdown::Write)
    }

    /// Reads what a client wants.
    fn wanted(&self, client: &TcpStream, head: &mut Vec<u8>) -> io::Result<Result<(Host, usize), Refusal>> {
        let until = Instant::now() + HEAD_TIME;
        loop {
            match request::read(head) {
                Read::Partly => {}
                Read::Wanted(host, length) => return Ok(Ok((host, length))),
                Read::Refused(refusal) => return Ok(Err(refusal)),
            }
            if wait([(client.as_fd(), PollFlags::IN), (self.life.as_fd(), PollFlags::IN)], until)?[1] {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            let mut buffer = [0; 2_048];
            match (&mut &*client).read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => head.extend_from_slice(buffer.get(..read).unwrap_or_default()),
            }
        }
    }

    /// A connection to a host of the list.
    fn open(&self, host: &Host, place: &Arc<Counted>) -> Result<TcpStream, Refusal> {
        let shown = host.to_string();
        if !self.hosts.hold(host) {
            let why = "is not on the list of hosts that may be reached";
            return Err(Refusal::noted("403 Forbidden", &shown, why));
        }
        let until = Instant::now() + CONNECT_TIME;
        let addresses = match &host.place {
            // What is listed by its address is meant.
            Place::Address(address) => vec![SocketAddr::new(*address, host.port)],
            Place::Name(name) => self.resolved(name, host.port, until, place)?,
        };
        let mut failed = format!("is not reached within {} seconds", CONNECT_TIME.as_secs());
        for address in addresses {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match TcpStream::connect_timeout(&address, left) {
                Ok(server) => return Ok(server),
                Err(why) => failed = format!("cannot be reached: {why}"),
            }
        }
        Err(Refusal::noted("502 Bad Gateway", &shown, &failed))
    }

    /// The public addresses that a name leads to.
    fn resolved(
        &self,
        name: &str,
        port: u16,
        until: Instant,
        place: &Arc<Counted>,
    ) -> Result<Vec<SocketAddr>, Refusal> {
        let shown = format!("{name}:{port}");
        let unknown = |why: &str| Refusal::noted("502 Bad Gateway", &shown, &format!("is not found: {why}"));
        let (send, found) = channel();
        // The system's own look-up cannot be stopped: it goes on by itself, and counts as open as long as it does.
        let (asked, place) = ((name.to_owned(), port), place.clone());
        let look_up = move || {
            let _ = send.send(asked.to_socket_addrs().map(Vec::from_iter));
            drop(place);
        };
        thread("toolgate-resolver", look_up).map_err(|why| unknown(&why.to_string()))?;
        let found = found.recv_timeout(until.saturating_duration_since(Instant::now()));
        let found = found.map_err(|_| unknown("the name is not answered in time"))?;
        let found = found.map_err(|why| unknown(&why.to_string()))?;
        let public: Vec<SocketAddr> =
            found.into_iter().filter(|address| (self.public)(address.ip())).collect();
        if public.is_empty() {
            let why = "leads to an address that is not public; list the address itself if it is meant";
            return Err(Refusal::noted("403 Forbidden", &shown, why));
        }
        Ok(public)
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn shared(hosts: &[String], public: fn(IpAddr) -> bool) -> (Arc<Shared>, Arc<Counted>) {
        let (life, _) = io::pipe().unwrap();
        let hosts = Hosts::parse(hosts).unwrap();
        let open = AtomicUsize::new(1);
        let shared = Arc::new(Shared { hosts, denials: Arc::default(), life, open, public });
        (shared.clone(), Arc::new(Counted(shared)))
    }

    #[test]
    fn what_a_name_leads_to_is_looked_at_and_an_address_is_meant() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let [name, address] = ["localhost", "127.0.0.1"].map(|host| format!("{host}:{port}"));
        let tried = |listed: &String, asked: &str, public| {
            let (shared, place) = shared(std::slice::from_ref(listed), public);
            let opened = shared.open(&Host::parse(asked).unwrap(), &place);
            opened.map(|server| server.peer_addr().unwrap().port()).map_err(|why| why.why)
        };
        let why = tried(&name, &name, is_public).unwrap_err();
        assert!(why.contains("leads to an address that is not public"), "{why}");
        assert_eq!(tried(&name, &name, |_| true), Ok(port), "the control");
        assert_eq!(tried(&address, &address, is_public), Ok(port));
        // Each by the very spelling that is listed.
        for (listed, asked) in [(&name, &address), (&address, &name)] {
            let why = tried(listed, asked, |_| true).unwrap_err();
            assert!(why.contains("is not on the list"), "{why}");
        }
        drop(listener);
        let why = tried(&address, &address, is_public).unwrap_err();
        assert!(why.contains("cannot be reached"), "{why}");
        let nowhere = "nowhere.invalid:443".to_owned();
        let why = tried(&nowhere, &nowhere, is_public).unwrap_err();
        assert!(why.starts_with("nowhere.invalid:443 is not found"), "{why}");
    }

    /// Set in the process of its own that a test of missing descriptors has.
    const OWN_PROCESS: &str = "TOOLGATE_TEST_WITHOUT_DESCRIPTORS";

    #[test]
    #[expect(clippy::disallowed_types, reason = "the test in a process of its own")]
    fn a_proxy_that_cannot_start_says_so_and_lets_go_of_its_line() {
        if std::env::var_os(OWN_PROCESS).is_some() {
            return without_descriptors();
        }
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "net::proxy::tests::a_proxy_that_cannot_start_says_so_and_lets_go_of_its_line";
        let child = command.args(["--exact", name, "--nocapture"]).env(OWN_PROCESS, "1");
        let output = child.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
    }

    #[expect(clippy::disallowed_types, reason = "descriptors that are in the way")]
    fn without_descriptors() {
        let limited = rustix::process::Resource::Nofile;
        let limit = rustix::process::Rlimit { current: Some(64), ..rustix::process::getrlimit(limited) };
        rustix::process::setrlimit(limited, limit).unwrap();
        let hosts = Hosts::parse(&["127.0.0.1:9".to_owned()]).unwrap();
        let start = |line| Proxy::start(line, &hosts, &Arc::default());
        let line = || {
            let (ours, theirs) = UnixStream::pair().unwrap();
            theirs.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            (OwnedFd::from(ours), theirs)
        };
        // Whoever holds the other end of the line is not left waiting.
        let is_closed = |mut line: UnixStream| line.read(&mut [0]).is_ok_and(|read| read == 0);
        let ((ours, theirs), (others, kept)) = (line(), line());
        let mut taken = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            taken.push(file);
        }
        assert!(taken.len() > 8, "there were some");
        let why = start(ours).unwrap_err();
        assert_eq!(why.raw_os_error(), Some(libc::EMFILE), "{why}");
        drop(taken);
        assert!(is_closed(theirs));
        let proxy = start(others).unwrap();
        drop(proxy);
        assert!(is_closed(kept), "one that started ends when it is dropped");
    }

    #[test]
    fn a_denial_is_told_once_each_time_and_not_without_end() {
        let denials = Denials::default();
        for number in 0..100 {
            denials.note(&format!("host-{number}"));
            denials.note("host-0");
        }
        assert_eq!(denials.take().len(), TOLD);
        assert!(denials.take().is_empty());
        // A later call is told of it, too.
        denials.note("host-0");
        denials.note("host-0");
        assert_eq!(denials.take(), ["host-0"]);
    }
}
