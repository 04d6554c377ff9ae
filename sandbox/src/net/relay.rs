//! Carries bytes between two connections, both ways, until both have ended or are silent for too long. Knows
//! no hosts.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes that wait to be written, each way.
const BUFFER: usize = 64 * 1024;

/// Waits until one of `fds` is ready, at most until `until`; which ones are.
pub(super) fn wait<const N: usize>(
    fds: [(BorrowedFd<'_>, PollFlags); N],
    until: Instant,
) -> io::Result<[bool; N]> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut polled = fds.map(|(fd, events)| PollFd::from_borrowed_fd(fd, events));
        let time = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut polled, Some(&time)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(polled.each_ref().map(|fd| !fd.revents().is_empty())),
            Err(why) => return Err(why.into()),
        }
    }
}

/// Carries bytes between `client` and `server`, of which `first` are the client's already; ends when `life` can be read, or
/// is closed, and when nothing goes on for `idle`.
pub(super) fn carry(
    client: &TcpStream,
    server: &TcpStream,
    first: &[u8],
    life: BorrowedFd<'_>,
    idle: Duration,
) -> io::Result<()> {
    client.set_nonblocking(true)?;
    server.set_nonblocking(true)?;
    let mut there = Way { from: client, to: server, waiting: first.to_vec(), read: true, open: true };
    let mut back = Way { from: server, to: client, waiting: Vec::new(), read: true, open: true };
    while there.open || back.open {
        let asked = [
            end(client, events(&there, &back), life),
            end(server, events(&back, &there), life),
            (life, PollFlags::IN),
        ];
        if wait(asked, Instant::now() + idle)?[2] {
            return Ok(());
        }
        there.go_on()?;
        back.go_on()?;
    }
    Ok(())
}

/// An end and what is waited for at it. One of which nothing is wanted would be ready all the time once it has gone.
fn end<'a>(end: &'a TcpStream, events: PollFlags, life: BorrowedFd<'a>) -> (BorrowedFd<'a>, PollFlags) {
    if events.is_empty() { (life, PollFlags::IN) } else { (end.as_fd(), events) }
}

/// The events to wait for at the end that one way reads from and the other one writes to.
fn events(reading: &Way<'_>, writing: &Way<'_>) -> PollFlags {
    let mut events = PollFlags::empty();
    if reading.read && reading.waiting.len() < BUFFER {
        events |= PollFlags::IN;
    }
    if !writing.waiting.is_empty() {
        events |= PollFlags::OUT;
    }
    events
}

/// One direction.
struct Way<'a> {
    from: &'a TcpStream,
    to: &'a TcpStream,
    waiting: Vec<u8>,
    /// Whether there may be more to read.
    read: bool,
    /// Whether the other end does not know yet that there is no more.
    open: bool,
}

impl Way<'_> {
    /// Reads and writes what can be without waiting.
    fn go_on(&mut self) -> io::Result<()> {
        if self.read && self.waiting.len() < BUFFER {
            let mut buffer = [0; 16 * 1024];
            if let Some(read) = ready((&mut &*self.from).read(&mut buffer))? {
                self.read = read > 0;
                self.waiting.extend_from_slice(buffer.get(..read).unwrap_or_default());
            }
        }
        if !self.waiting.is_empty()
            && let Some(written) = ready((&mut &*self.to).write(&self.waiting))?
        {
            self.waiting.drain(..written.min(self.waiting.len()));
        }
        if self.open && !self.read && self.waiting.is_empty() {
            self.open = false;
            // Whoever has gone already needs not be told.
            let _ = self.to.shutdown(Shutdown::Write);
        }
        Ok(())
    }
}

fn ready(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Ok(count) => Ok(Some(count)),
        Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(why) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::net::TcpListener;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    #[test]
    fn much_goes_both_ways_at_once_and_an_end_is_passed_on() {
        const MUCH: usize = 8 * 1024 * 1024;
        let ((client, near), (server, far)) = (pair(), pair());
        let (life, _held) = io::pipe().unwrap();
        let carried =
            std::thread::spawn(move || carry(&near, &far, b"first", life.as_fd(), Duration::from_secs(20)));
        let talk = |mut stream: TcpStream, byte: u8, expected: usize| {
            std::thread::spawn(move || {
                let mut reader = stream.try_clone().unwrap();
                let writing = std::thread::spawn(move || {
                    stream.write_all(&vec![byte; MUCH]).unwrap();
                    stream.shutdown(Shutdown::Write).unwrap();
                });
                let mut read = Vec::new();
                reader.read_to_end(&mut read).unwrap();
                writing.join().unwrap();
                assert_eq!(read.len(), expected);
                read
            })
        };
        let (one, other) = (talk(client, b'c', MUCH), talk(server, b's', MUCH + 5));
        assert!(one.join().unwrap().iter().all(|byte| *byte == b's'));
        assert!(other.join().unwrap().starts_with(b"firstc"));
        carried.join().unwrap().unwrap();
    }

    #[test]
    fn it_ends_with_its_life_and_when_nothing_goes_on() {
        let ((_client, near), (_server, far)) = (pair(), pair());
        let (life, held) = io::pipe().unwrap();
        let silent = carry(&near, &far, b"", life.as_fd(), Duration::from_millis(50));
        assert_eq!(silent.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(held);
        carry(&near, &far, b"", life.as_fd(), Duration::from_secs(60)).unwrap();
    }
}
