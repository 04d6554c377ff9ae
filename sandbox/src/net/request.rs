//! Parses the request of a client to the proxy, and writes the answer. Opens nothing.

use super::hosts::Host;

/// Bytes of a request's head.
pub(super) const HEAD: usize = 8 * 1024;
/// Fields of a request's head.
const FIELDS: usize = 64;

/// The state of a request at its beginning.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// The head is not complete.
    Partly,
    /// A connection to that host. The bytes behind this offset are for the host.
    Wanted(Host, usize),
    /// A request that is refused.
    Refused(Refusal),
}

/// The reason that a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: &'static str,
    /// The answer for the client.
    pub(super) why: String,
    /// The message for the user: the host and the reason.
    pub(super) note: Option<String>,
}

impl Refusal {
    pub(super) fn new(status: &'static str, why: impl Into<String>) -> Self {
        Self { status, why: why.into(), note: None }
    }

    /// A refusal that the user hears of, too.
    pub(super) fn noted(status: &'static str, host: &str, why: &str) -> Self {
        let why = format!("{host} {why}");
        Self { status, note: Some(why.clone()), why }
    }

    /// All that is sent.
    pub(super) fn answer(&self) -> Vec<u8> {
        let Self { status, why, .. } = self;
        let text = format!("toolgate: {why}\n");
        let length = text.len();
        let head = "Content-Type: text/plain\r\nConnection: close\r\nProxy-Connection: close";
        format!("HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {length}\r\n\r\n{text}").into_bytes()
    }
}

/// Reads what there is of a request.
pub(super) fn read(head: &[u8]) -> Read {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(head) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD => length,
        Ok(httparse::Status::Partial) if head.len() < HEAD => return Read::Partly,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            return Read::Refused(Refusal::new(
                "431 Request Header Fields Too Large",
                "the request's head is too long",
            ));
        }
        Err(_) => return Read::Refused(Refusal::new("400 Bad Request", "this is no request of HTTP")),
    };
    let target = request.path.unwrap_or_default();
    if request.method != Some("CONNECT") {
        return Read::Refused(plain(target));
    }
    match Host::parse(target) {
        Ok(host) => Read::Wanted(host, length),
        Err(why) => Read::Refused(Refusal::new("400 Bad Request", format!("the target is unfit: {why}"))),
    }
}

/// The refusal of a request that is to be carried without encryption.
fn plain(target: &str) -> Refusal {
    const WHY: &str = "is asked for without encryption; only CONNECT is carried, as for https://";
    let rest = target.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://")).and(target.get(7..));
    let authority = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    let host = authority.and_then(|authority| {
        Host::parse(authority).or_else(|_| Host::parse(&format!("{authority}:80"))).ok()
    });
    match host {
        Some(host) => Refusal::noted("405 Method Not Allowed", &host.to_string(), WHY),
        None => Refusal::new("405 Method Not Allowed", "only CONNECT is carried, as for https://"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::*;

    fn status(head: &[u8]) -> &'static str {
        match read(head) {
            Read::Refused(refusal) => refusal.status.get(..3).unwrap(),
            Read::Wanted(..) => "200",
            Read::Partly => "...",
        }
    }

    #[test]
    fn only_connect_to_a_host_and_port_is_read_as_wanted() {
        let head = b"CONNECT Example.org:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\nhello";
        let Read::Wanted(host, length) = read(head) else { panic!() };
        assert_eq!((host.to_string().as_str(), head.get(length..)), ("example.org:443", Some(&b"hello"[..])));
        for at in 0..head.len() - 5 {
            assert_eq!(read(head.get(..at).unwrap()), Read::Partly, "{at}");
        }
        for (head, expected) in [
            ("GET http://example.org/ HTTP/1.1\r\n\r\n", "405"),
            ("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "405"),
            ("POST http://169.254.169.254/ HTTP/1.1\r\n\r\n", "405"),
            ("connect example.org:443 HTTP/1.1\r\n\r\n", "405"),
            ("CONNECT example.org HTTP/1.1\r\n\r\n", "400"),
            ("CONNECT http://example.org:443 HTTP/1.1\r\n\r\n", "400"),
            ("CONNECT a@example.org:443 HTTP/1.1\r\n\r\n", "400"),
            ("CONNECT example.org:443 HTTP/1.1\r\nA b\r\n\r\n", "400"),
            ("\u{16}\u{3}\u{1}", "400"),
        ] {
            assert_eq!(status(head.as_bytes()), expected, "{head:?}");
        }
        let long = format!("CONNECT example.org:443 HTTP/1.1\r\nA: {}", "x".repeat(HEAD));
        assert_eq!(status(long.as_bytes()), "431");
        let many = format!("CONNECT example.org:443 HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(FIELDS + 1));
        assert_eq!(status(many.as_bytes()), "431");
    }

    #[test]
    fn a_plain_request_is_noted_by_its_host_alone() {
        let note = |target: &str| plain(target).note;
        let told = note("http://Example.org/secret?key=1").unwrap();
        assert!(told.starts_with("example.org:80 is asked for without encryption"), "{told}");
        assert!(note("http://example.org:81").unwrap().starts_with("example.org:81 "));
        assert_eq!(note("http://key@example.org/"), None);
        assert_eq!(note("/secret"), None);
        assert_eq!(note("http:\u{2f}\u{e9}"), None);
    }
}
