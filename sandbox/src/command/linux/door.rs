//! The part of the stage in a granted network: makes the listener of the proxy inside and hands it out.
//! Checks that no other part of a network is reachable.
//!
//! Invariant: the listener is made only in a network namespace that is not the machine's own. The stage
//! closes it after handing it out, so the sandbox keeps none.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd as _, OwnedFd, RawFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with};

use super::stage::{check_namespaces, refused};
use super::{landlock, sys};
use crate::command::layer::{Held, Layer, Status};
use crate::net::PORT;

/// Connections that wait to be taken.
const WAITING: i32 = 64;

/// Makes the listener and sends it through the line `door`.
pub(super) fn open(door: RawFd, outside: &[(Layer, String)]) -> Result<(), Status> {
    let own: Vec<_> = outside.iter().filter(|(layer, _)| *layer == Layer::Network).cloned().collect();
    if own.is_empty() {
        return Err(refused(Layer::Network, "a network is granted only within a network namespace"));
    }
    check_namespaces(&own)?;
    let made = sys::own(door).and_then(|line| sys::send_descriptor(line.as_fd(), listener()?.as_fd()));
    made.map_err(|why| refused(Layer::Network, &format!("the proxy cannot be listened for: {why}")))
}

fn listener() -> io::Result<OwnedFd> {
    let listener = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT))?;
    listen(&listener, WAITING)?;
    Ok(listener)
}

/// Looks whether there is no socket to be had but one for the proxy, and that none where there is no proxy.
pub(super) fn check(network: bool, held: &Held) -> Result<(), Status> {
    if !held.seccomp {
        return Ok(());
    }
    let stream = sys::socket(libc::AF_INET, libc::SOCK_STREAM);
    if !network {
        return match stream {
            Ok(_) => Err(refused(Layer::Seccomp, "a network socket can be made")),
            Err(_) => Ok(()),
        };
    }
    for (family, kind) in [
        (libc::AF_INET, libc::SOCK_DGRAM),
        (libc::AF_INET6, libc::SOCK_STREAM),
        (libc::AF_UNIX, libc::SOCK_STREAM),
    ] {
        if sys::socket(family, kind).is_ok() {
            return Err(refused(Layer::Seccomp, "a socket can be made that is not for the proxy"));
        }
    }
    if held.landlock < landlock::CONNECTIONS {
        return Ok(());
    }
    let stream = stream.map_err(|why| refused(Layer::Seccomp, &format!("no socket can be made: {why}")))?;
    match connect(&stream, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT + 1)) {
        Err(rustix::io::Errno::ACCESS) => Ok(()),
        _ => Err(refused(Layer::Landlock, "a port can be connected to that is not the proxy's")),
    }
}
