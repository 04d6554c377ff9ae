//! The address of a server that runs elsewhere, and connections to it. Knows nothing of the protocol.
//!
//! Invariant: a connection goes to the host and port that the policy names. Over `https` the server needs a certificate for
//! that host from one of the authorities of the web.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, Uri};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::Error;

/// The longest time to connect, encryption included.
const CONNECT: Duration = Duration::from_secs(10);

/// The address of a server.
pub(super) struct Address {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// The host and the port as the policy has them, for the header `Host`.
    authority: HeaderValue,
    /// The path and the query.
    target: Uri,
    /// The scheme, the host and the port.
    origin: String,
}

/// A connection that carries requests and answers.
pub(super) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

impl Address {
    /// Parses a policy's `url`.
    ///
    /// # Errors
    /// For a text that is no `http` or `https` address of a host, and for an address with a name and a password.
    pub(super) fn new(url: &str) -> Result<Self, Error> {
        let authorities = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        Self::trusting(url, authorities)
    }

    fn trusting(url: &str, authorities: RootCertStore) -> Result<Self, Error> {
        let bad = |why: &str| Error::input(format!("its url is no address of a server: {why}"));
        if url.contains('#') {
            return Err(bad("what follows a # is not sent to servers"));
        }
        let uri: Uri = url.parse().map_err(|_| bad("it cannot be read"))?;
        let (scheme, usual) = match uri.scheme_str() {
            Some("http") => ("http", 80),
            Some("https") => ("https", 443),
            _ => return Err(bad("it begins with neither http:// nor https://")),
        };
        let (Some(authority), Some(host)) = (uri.authority(), uri.host().filter(|host| !host.is_empty()))
        else {
            return Err(bad("it names no host"));
        };
        if authority.as_str().contains('@') {
            return Err(bad("a name and a password in front of the host are not sent"));
        }
        let port = match authority.as_str().strip_prefix(host) {
            Some("") => usual,
            _ => uri.port_u16().ok_or_else(|| bad("its port is no number up to 65535"))?,
        };
        let named = HeaderValue::from_str(authority.as_str()).map_err(|_| bad("it cannot be sent"))?;
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let target = target.parse().map_err(|_| bad("its path cannot be read"))?;
        let origin = format!("{scheme}://{host}:{port}");
        // The brackets of an IPv6 address belong to addresses, not to hosts.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = match scheme {
            "https" => {
                let name =
                    ServerName::try_from(host.clone()).map_err(|_| bad("no certificate has such a name"))?;
                Some((connector(authorities)?, name))
            }
            _ => None,
        };
        Ok(Self { host, port, tls, authority: named, target, origin })
    }

    /// The scheme, the host and the port.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether nobody on the way can read the messages: they are encrypted, or do not leave this machine.
    pub(super) fn is_private(&self) -> bool {
        let is_loopback = |host: &str| host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        self.tls.is_some() || self.host == "localhost" || is_loopback(&self.host)
    }

    /// The host and the port as the policy has them.
    pub(super) fn authority(&self) -> HeaderValue {
        self.authority.clone()
    }

    /// The path and the query.
    pub(super) fn target(&self) -> Uri {
        self.target.clone()
    }

    /// Makes a connection.
    ///
    /// # Errors
    /// Where the server cannot be reached within ten seconds, or has no valid certificate.
    pub(super) async fn connect(&self) -> io::Result<Box<dyn Wire>> {
        let reached = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            // Requests are small, and the caller waits for each.
            stream.set_nodelay(true)?;
            Ok(match &self.tls {
                None => Box::new(stream) as Box<dyn Wire>,
                Some((connector, name)) => Box::new(connector.connect(name.clone(), stream).await?),
            })
        };
        let late = || io::Error::other(format!("it is not reached within {} seconds", CONNECT.as_secs()));
        tokio::time::timeout(CONNECT, reached).await.unwrap_or_else(|_| Err(late()))
    }
}

fn connector(authorities: RootCertStore) -> Result<TlsConnector, Error> {
    // Named, since another crate of the program may have chosen another one for the whole process.
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| Error::input(format!("cannot encrypt: {why}")))?
        .with_root_certificates(authorities)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

    use super::*;

    #[test]
    fn an_address_is_taken_apart_and_what_is_none_is_refused() {
        for (url, origin, host, port, target) in [
            ("http://127.0.0.1:8000/mcp", "http://127.0.0.1:8000", "127.0.0.1", 8000, "/mcp"),
            ("https://tools.example", "https://tools.example:443", "tools.example", 443, "/"),
            ("http://[::1]:81/a?b=c", "http://[::1]:81", "::1", 81, "/a?b=c"),
        ] {
            let address = Address::new(url).unwrap();
            assert_eq!((address.origin(), address.host.as_str(), address.port), (origin, host, port));
            assert_eq!(address.target().to_string(), target);
            assert_eq!(address.tls.is_some(), url.starts_with("https"));
        }
        for (url, is_private) in [
            ("http://127.0.0.1:8000/mcp", true),
            ("http://localhost/", true),
            ("http://[::1]:81/", true),
            ("https://tools.example", true),
            ("http://tools.example", false),
            ("http://10.0.0.1/", false),
            ("http://127.0.0.1.example/", false),
        ] {
            assert_eq!(Address::new(url).unwrap().is_private(), is_private, "{url}");
        }
        for (url, why) in [
            ("ftp://host/", "neither http"),
            ("//host/", "neither http"),
            ("/mcp", "neither http"),
            ("http://", "cannot be read"),
            ("http://a b/", "cannot be read"),
            ("http://user:word@host/", "password"),
            ("http://host:99999/", "port"),
            ("http://host:/", "port"),
            ("http://host/#top", "#"),
        ] {
            let refused = Address::new(url).err().unwrap_or_else(|| panic!("{url}")).to_string();
            assert!(refused.contains(why), "{url}: {refused}");
        }
    }

    #[tokio::test]
    async fn an_encrypted_connection_is_only_made_to_whom_an_authority_vouches_for() {
        let certificate: CertificateDer = include_bytes!("localhost.cert.der").to_vec().into();
        let key = PrivateKeyDer::try_from(include_bytes!("localhost.key.der").to_vec()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = acceptor.accept(stream).await;
            }
        });
        let known = || {
            let mut authorities = RootCertStore::empty();
            authorities.add(certificate.clone()).unwrap();
            authorities
        };
        let named = format!("https://localhost:{port}/");
        Address::trusting(&named, known()).unwrap().connect().await.unwrap();
        let unknown = Address::new(&named).unwrap().connect().await.err().unwrap().to_string();
        assert!(unknown.contains("UnknownIssuer"), "{unknown}");
        // Under another name than the certificate's.
        let other = format!("https://127.0.0.1:{port}/");
        let other = Address::trusting(&other, known()).unwrap().connect().await.err().unwrap().to_string();
        assert!(other.contains("certificate"), "{other}");
        // Whoever does not encrypt is not spoken to.
        let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = plain.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = plain.accept().await.unwrap();
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 200 OK\r\n\r\n").await;
        });
        assert!(Address::new(&format!("https://localhost:{port}/")).unwrap().connect().await.is_err());
    }
}
