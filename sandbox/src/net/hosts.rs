//! Parses the list of hosts of a policy, and looks hosts up in it.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::error::{Error, Kind};

/// Longest name of a host.
const NAME_BYTES: usize = 253;
/// Longest part of a name between dots.
const LABEL_BYTES: usize = 63;

/// A name or an address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    pub(super) place: Place,
    pub(super) port: u16,
}

/// A host by name or address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A name in lower case, without a dot at its end.
    Name(String),
    Address(IpAddr),
}

impl Host {
    /// Parses `host:port`. The error is the reason that it is none.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let (host, port) = text.rsplit_once(':').ok_or("it names no port")?;
        let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| *port != 0 && digits);
        let port = port.ok_or("its port is no number from 1 to 65535")?;
        if let Some(inner) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            let address: Ipv6Addr = inner.parse().map_err(|_| "it has no IPv6 address in its brackets")?;
            return Ok(Self { place: Place::Address(address.into()), port });
        }
        if let Ok(address) = host.parse::<std::net::Ipv4Addr>() {
            return Ok(Self { place: Place::Address(address.into()), port });
        }
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        check_name(&name)?;
        Ok(Self { place: Place::Name(name), port })
    }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    if name.contains('*') {
        return Err("names are exact: list each host by itself, without a *");
    }
    let is_label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=LABEL_BYTES).contains(&label.len()) && label.bytes().all(plain)
    };
    if name.len() > NAME_BYTES || !name.split('.').all(is_label) {
        return Err("its name is none of a host");
    }
    // The system reads 127.1 and 0x7f000001 as addresses, which no list of names is meant to hold.
    let last = name.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x") {
        return Err("it looks like an address in another spelling: write all four numbers");
    }
    Ok(())
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Name(name) => write!(f, "{name}:{}", self.port),
            Place::Address(address) => std::net::SocketAddr::new(*address, self.port).fmt(f),
        }
    }
}

/// The hosts that can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hosts(Vec<Host>);

impl Hosts {
    /// Parses the list of a policy.
    ///
    /// # Errors
    /// [`Kind::Policy`] with the entry that is no `host:port`.
    pub(crate) fn parse(list: &[String]) -> Result<Self, Error> {
        let read = |entry: &String| {
            Host::parse(entry).map_err(|why| {
                Error::new(Kind::Policy, format!("this is no host and port: {why}"))
                    .at(entry)
                    .hint("write it like \"api.example.org:443\"")
            })
        };
        list.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the list has a host, with exactly this name and port.
    #[cfg(any(target_os = "linux", test))]
    pub(super) fn hold(&self, host: &Host) -> bool {
        self.0.contains(host)
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.0.iter().map(Host::to_string).collect();
        f.write_str(&shown.join(", "))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_host_is_on_the_list_by_its_very_name_and_port() {
        let list = ["Api.Example.org:443", "127.0.0.1:8080", "[::1]:81"].map(str::to_owned);
        let hosts = Hosts::parse(&list).unwrap();
        assert_eq!(hosts.to_string(), "api.example.org:443, 127.0.0.1:8080, [::1]:81");
        for (asked, is) in [
            ("api.example.org:443", true),
            ("API.EXAMPLE.ORG.:443", true),
            ("127.0.0.1:8080", true),
            ("[0:0::1]:81", true),
            ("api.example.org:80", false),
            ("x.api.example.org:443", false),
            ("example.org:443", false),
            ("api.example.org.evil.example:443", false),
            ("127.0.0.1:8081", false),
            ("127.0.0.2:8080", false),
            ("[::ffff:127.0.0.1]:8080", false),
            ("localhost:8080", false),
        ] {
            assert_eq!(hosts.hold(&Host::parse(asked).unwrap()), is, "{asked}");
        }
    }

    #[test]
    fn what_is_no_host_is_none() {
        for (text, why) in [
            ("example.org", "no port"),
            ("example.org:", "port"),
            ("example.org:0", "port"),
            ("example.org:+443", "port"),
            ("example.org:65536", "port"),
            ("*.example.org:443", "exact"),
            ("user@example.org:443", "none of a host"),
            ("https://example.org:443", "none of a host"),
            ("example..org:443", "none of a host"),
            ("example.org..:443", "none of a host"),
            (":443", "none of a host"),
            ("ex ample.org:443", "none of a host"),
            ("ex\0ample.org:443", "none of a host"),
            ("b\u{fc}cher.example:443", "none of a host"),
            ("127.1:80", "spelling"),
            ("2130706433:80", "spelling"),
            ("0177.0.0.1:80", "spelling"),
            ("0x7f000001:80", "spelling"),
            ("a.0x7f:80", "spelling"),
            ("::1:80", "none of a host"),
            ("[::1%lo]:80", "brackets"),
        ] {
            assert!(Host::parse(text).unwrap_err().contains(why), "{text}");
        }
    }
}
