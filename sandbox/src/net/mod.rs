//! Beside the command tier: a proxy outside the sandbox, the one way out that a policy can grant. It carries
//! connections to the listed hosts and to no others.
//!
//! Invariant: a connection goes to a host and port of the list, at an address that was checked right before.

#[cfg(target_os = "linux")]
mod address;
mod hosts;
#[cfg(target_os = "linux")]
mod proxy;
#[cfg(target_os = "linux")]
mod relay;
#[cfg(target_os = "linux")]
mod request;

pub(crate) use hosts::Hosts;
#[cfg(target_os = "linux")]
pub(crate) use proxy::{Denials, Proxy};

/// The address of the proxy inside a sandbox. The loopback there belongs to the sandbox alone.
#[cfg(target_os = "linux")]
pub(crate) const PORT: u16 = 3_128;

/// The variables that tell programs of the proxy. `NO_PROXY` changes nothing, since there is no other way.
#[cfg(target_os = "linux")]
pub(crate) fn variables() -> impl Iterator<Item = (&'static str, String)> {
    const PROXIES: [&str; 6] =
        ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    let at = format!("http://127.0.0.1:{PORT}");
    let proxies = PROXIES.into_iter().map(move |name| (name, at.clone()));
    // Without the latter, Node's own fetch (from version 24 on) passes the others over.
    let more = [("NO_PROXY", ""), ("no_proxy", ""), ("NODE_USE_ENV_PROXY", "1")];
    proxies.chain(more.map(|(name, value)| (name, value.to_owned())))
}
