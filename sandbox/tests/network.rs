//! The network that a policy grants: the listed host is reached through the proxy, and nothing else is in any way. Each attack
//! has a control that shows that it works outside.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the controls are plain processes")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use support::shell::{Field, POLICY, available, if_started, start_as_ordinary_user, text};
use toolgate_sandbox::command::{Commands, Layer, Ran};
use toolgate_sandbox::policy::{Mode, ProcessLimits};
use toolgate_sandbox::{Error, Kind};

/// Helpers of the attacks: a connection by TCP, and one through the proxy.
const PERL: &str = r#"use strict; use Socket; use IO::Socket::INET; use IO::Socket::UNIX; $SIG{ALRM} = sub { exit 9 }; alarm 8;
sub tcp { IO::Socket::INET->new(PeerAddr => $_[0], PeerPort => $_[1], Proto => 6, Timeout => 3) }
sub proxied { my $s = tcp("127.0.0.1", 3128) or die "no proxy: $!"; print $s "CONNECT $_[0] HTTP/1.1\r\n\r\n"; $s }
sub all { local $/; my $s = shift; scalar <$s> }
sub first { my $s = shift; scalar(<$s>) // "" }
sub got { print "GOT\n"; exit 0 }
"#;

/// A server of this machine that says hello and counts who comes.
struct Server {
    port: u16,
    seen: Arc<AtomicUsize>,
    own: AtomicUsize,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, seen) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let count = seen.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    let mut asked = [0; 1_024];
                    let read = stream.read(&mut asked).unwrap_or(0);
                    let body = format!("hello {}", String::from_utf8_lossy(&asked[..read.min(4)]));
                    let _ = write!(
                        stream,
                        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                        body.len()
                    );
                });
            }
        });
        Self { port, seen, own: AtomicUsize::new(0) }
    }

    /// The connections so far. They are taken in order: once one of the test's own is answered, all before it are counted.
    fn seen(&self) -> usize {
        let mut own = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        own.write_all(b"mark").unwrap();
        let mut answer = String::new();
        own.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("hello mark"), "{answer}");
        self.own.fetch_add(1, Ordering::SeqCst);
        self.seen.load(Ordering::SeqCst) - self.own.load(Ordering::SeqCst)
    }
}

fn policy(hosts: &str) -> String {
    assert!(POLICY.contains("tier = \"exec\""));
    let policy = POLICY.replace("tier = \"exec\"", "tier = \"exec-net\"");
    format!("{policy}[net]\nmode = \"proxy\"\nallow = [{hosts}]\n")
}

fn commands(field: &Field, hosts: &str, without: &[Layer]) -> Result<Commands, Error> {
    field.commands(&policy(hosts), Mode::Edit, &ProcessLimits::default(), without)
}

fn perl(field: &Field, script: &str) -> String {
    let file = field.ws.join("client.pl");
    std::fs::write(file, format!("{PERL}{}", field.script(script))).unwrap();
    "/usr/bin/perl client.pl 2>&1".to_owned()
}

fn run(field: &Field, commands: &Commands, script: &str) -> Ran {
    commands.run(&perl(field, script)).unwrap()
}

#[test]
fn a_listed_host_is_reached_through_the_proxy_and_an_unlisted_one_is_not() {
    if !available() {
        return;
    }
    let (field, listed, other) = (Field::new(), Server::start(), Server::start());
    let commands = commands(&field, &format!("\"127.0.0.1:{}\"", listed.port), &[]).unwrap();
    let ask = |port: u16| {
        format!(
            "my $s = proxied('127.0.0.1:{port}'); print $s \"ping of it\"; $s->shutdown(1); print all($s)"
        )
    };
    let ran = run(&field, &commands, &ask(listed.port));
    assert!(
        text(&ran).contains("200 Connection established") && text(&ran).contains("hello"),
        "{}",
        text(&ran)
    );
    assert_eq!((ran.unreached.len(), listed.seen()), (0, 1));
    assert_eq!(ran.enforced.net, format!("proxy: 127.0.0.1:{}", listed.port));
    let ran = run(&field, &commands, &ask(other.port));
    assert!(text(&ran).contains("403 Forbidden"), "{}", text(&ran));
    let denied = format!("127.0.0.1:{} is not on the list of hosts that may be reached", other.port);
    assert_eq!(ran.unreached, std::slice::from_ref(&denied));
    assert!(String::from_utf8_lossy(&ran.content()).contains(&format!("[no connection: {denied}]")));
    assert_eq!(other.seen(), 0);
    // Programs find the proxy by themselves, and what is not encrypted is refused in words.
    let curl = |more: &str, port: u16| {
        commands.run(&format!("curl -sS -m 8 {more} http://127.0.0.1:{port}/key?a=b 2>&1")).unwrap()
    };
    assert!(text(&curl("-p", listed.port)).starts_with("hello GET"), "{}", text(&curl("-p", listed.port)));
    let plain = curl("", listed.port);
    assert!(text(&plain).contains("only CONNECT is carried"), "{}", text(&plain));
    let noted = String::from_utf8_lossy(&plain.content()).into_owned();
    assert!(
        noted.contains(&format!("127.0.0.1:{} is asked for without", listed.port)) && !noted.contains("key")
    );
}

#[test]
fn nothing_but_the_proxy_is_reached() {
    if !available() {
        return;
    }
    let (field, listed, other) = (Field::new(), Server::start(), Server::start());
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = format!("toolgate-test-{}", std::process::id());
    let _hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let _stream = UnixListener::bind(field.ws.join("stream.sock")).unwrap();
    let datagrams = UnixDatagram::bind(field.ws.join("datagrams.sock")).unwrap();
    let (listed_port, port, udp_port) = (listed.port, other.port, udp.local_addr().unwrap().port());
    // Name, script, and whether it works outside.
    let attacks: [(&str, String, bool); 12] = [
        ("direct to an unlisted one", format!("got if tcp('127.0.0.1', {port})"), true),
        ("direct to the listed one", format!("got if tcp('127.0.0.1', {listed_port})"), true),
        (
            "a fast open",
            format!(
                "socket(my $s, AF_INET, SOCK_STREAM, 6) or die; \
                 got if send($s, 'x', 0x20000000, sockaddr_in({port}, inet_aton('127.0.0.1')))"
            ),
            true,
        ),
        (
            "UDP",
            format!(
                "socket(my $s, AF_INET, SOCK_DGRAM, 17) or die; \
                 got if send($s, 'x', 0, sockaddr_in({udp_port}, inet_aton('127.0.0.1')))"
            ),
            true,
        ),
        ("a raw socket", "got if socket(my $s, AF_INET, SOCK_RAW, 1)".to_owned(), true),
        ("netlink", "got if socket(my $s, 16, SOCK_RAW, 0)".to_owned(), true),
        (
            "another protocol of streams",
            format!(
                "socket(my $s, AF_INET, SOCK_STREAM, 262) or die; \
                 got if connect($s, sockaddr_in({port}, inet_aton('127.0.0.1')))"
            ),
            true,
        ),
        ("an abstract socket", format!("got if IO::Socket::UNIX->new(Peer => \"\\0{name}\")"), true),
        ("a socket in the workspace", "got if IO::Socket::UNIX->new(Peer => 'stream.sock')".to_owned(), true),
        (
            "a pair led elsewhere",
            "socketpair(my $a, my $b, AF_UNIX, SOCK_DGRAM, 0) or die; \
             connect($a, pack_sockaddr_un('datagrams.sock')) or die; got if send($a, 'x', 0)"
                .to_owned(),
            true,
        ),
        (
            "a listener",
            "socket(my $s, AF_INET, SOCK_STREAM, 6) or die; \
             got if bind($s, sockaddr_in(0, inet_aton('127.0.0.1'))) && listen($s, 1)"
                .to_owned(),
            true,
        ),
        (
            "the proxy as a server to others",
            format!("my $s = proxied('127.0.0.1:{port}'); got if (all($s) // '') =~ / 200 /"),
            false,
        ),
    ];
    let ground = commands(&field, &format!("\"127.0.0.1:{listed_port}\""), &[]).unwrap();
    let mut outside = 0;
    for (attack, script, works) in &attacks {
        // The controls come first, so that what is counted below is what came from inside.
        let control = field.plainly(&perl(&field, script));
        // A kernel may be built without MPTCP, and a user may make no raw socket.
        let lacks = ["a raw socket", "another protocol of streams", "a fast open"].contains(attack);
        assert!(!works || lacks || control.contains("GOT"), "{attack}: {control}");
        outside += usize::from(control.contains("GOT"));
    }
    assert!(outside >= 8, "{outside} controls work");
    let by_udp = || {
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(MARK, ("127.0.0.1", udp_port)).unwrap();
        before_mark(|buffer| udp.recv(buffer))
    };
    let by_path = || {
        UnixDatagram::unbound().unwrap().send_to(MARK, field.ws.join("datagrams.sock")).unwrap();
        before_mark(|buffer| datagrams.recv(buffer))
    };
    assert!(by_udp() > 0 && by_path() > 0, "the controls arrived");
    let before = (other.seen(), listed.seen());
    assert!(before.0 > 0, "the controls arrived");
    for (attack, script, _) in &attacks {
        let ran = run(&field, &ground, script);
        assert!(!text(&ran).contains("GOT"), "{attack}: {}", text(&ran));
    }
    assert_eq!((other.seen(), listed.seen()), before, "nobody came from inside");
    assert_eq!((by_udp(), by_path()), (0, 0));
}

/// A datagram of the test itself; those in front of it came before.
const MARK: &[u8] = b"mark";

/// The datagrams that came before the mark.
fn before_mark(mut receive: impl FnMut(&mut [u8]) -> std::io::Result<usize>) -> usize {
    let mut buffer = [0; 8];
    let mut count = 0;
    loop {
        let length = receive(&mut buffer).unwrap();
        if &buffer[..length] == MARK {
            return count;
        }
        count += 1;
    }
}

#[test]
fn each_of_two_layers_keeps_a_connection_to_the_proxy() {
    if !available() {
        return;
    }
    let (field, listed, other) = (Field::new(), Server::start(), Server::start());
    let hosts = format!("\"127.0.0.1:{}\"", listed.port);
    let attack = format!("got if tcp('127.0.0.1', {})", other.port);
    for without in [Layer::Landlock, Layer::Seccomp] {
        let commands = commands(&field, &hosts, &[without]).unwrap();
        assert!(!text(&run(&field, &commands, &attack)).contains("GOT"), "without {}", without.name());
    }
    assert_eq!(other.seen(), 0);
    // Without a network namespace there would be the machine's own: no network is granted then.
    let error = commands(&field, &hosts, &[Layer::Network]).unwrap_err();
    assert_eq!((error.kind(), error.layer()), (Kind::Unavailable, Some(Layer::Network)), "{error}");
}

#[test]
fn names_that_lead_into_this_machine_are_refused_and_dns_is_not_there() {
    if !available() {
        return;
    }
    let (field, server) = (Field::new(), Server::start());
    let commands = commands(&field, &format!("\"localhost:{}\"", server.port), &[]).unwrap();
    let ran = run(&field, &commands, &format!("my $s = proxied('localhost:{}'); print all($s)", server.port));
    assert!(text(&ran).contains("403") && text(&ran).contains("not public"), "{}", text(&ran));
    assert_eq!(server.seen(), 0);
    // The control: the name does lead to the server.
    let control = format!("got if tcp('localhost', {})", server.port);
    assert!(field.plainly(&perl(&field, &control)).contains("GOT"));
    let asked = "socket(my $s, AF_INET, SOCK_DGRAM, 17) and got; print \"no: $!\"";
    assert!(text(&run(&field, &commands, asked)).contains("no: Operation not permitted"));
}

#[test]
fn without_a_grant_nothing_is_there_and_another_command_is_not_reached() {
    if !available() {
        return;
    }
    let (field, server) = (Field::new(), Server::start());
    let hosts = format!("\"127.0.0.1:{}\"", server.port);
    let script = format!("my $s = proxied('127.0.0.1:{}'); got if first($s) =~ / 200 /", server.port);
    let with = commands(&field, &hosts, &[]).unwrap();
    assert!(text(&run(&field, &with, &script)).contains("GOT"), "the control");
    // Another command, while one with a network goes on.
    let mut service = with.serve(&["/bin/sh", "-c", "read -r l"].map(str::to_owned)).unwrap();
    let pipes = service.take_pipes();
    let without = field.commands(POLICY, Mode::Edit, &ProcessLimits::default(), &[]).unwrap();
    let ran = run(&field, &without, &script);
    assert!(!text(&ran).contains("GOT") && ran.enforced.net == "none", "{}", text(&ran));
    assert!(!text(&without.run("env").unwrap()).contains("3128"));
    // The tier says whether there is a network, and both parts have to.
    let tier = policy(&hosts).replace("tier = \"exec-net\"", "tier = \"exec\"");
    let tier = field.commands(&tier, Mode::Edit, &ProcessLimits::default(), &[]).unwrap();
    assert_eq!(tier.enforced().unwrap().net, "none");
    drop(pipes);
    service.stop().unwrap();
}

#[test]
fn too_many_connections_and_what_is_no_request_cost_nothing_else() {
    if !available() {
        return;
    }
    let (field, server) = (Field::new(), Server::start());
    let commands = commands(&field, &format!("\"127.0.0.1:{}\"", server.port), &[]).unwrap();
    let many = format!(
        "my @all = map {{ proxied('127.0.0.1:{0}') }} 1..80; \
         my $full = grep {{ my $l = <$_>; ($l // '') =~ / 503 / }} @all; print \"full: $full\\n\"; @all = (); \
         while (1) {{ got if first(proxied('127.0.0.1:{0}')) =~ / 200 /; select(undef, undef, undef, 0.05) }}",
        server.port
    );
    // The server waits for a word, so that all stay open.
    let ran = run(&field, &commands, &many);
    assert!(text(&ran).contains("full: 16") && text(&ran).contains("GOT"), "{}", text(&ran));
    let junk = "for my $junk (\"\\x16\\x03\\x01\\r\\n\\r\\n\", \"CONNECT \" . ('x' x 9000), \"GET / HTTP/1.1\\r\\n\\r\\n\") { \
                my $s = tcp('127.0.0.1', 3128); print $s $junk; my $l = <$s>; print $l // \"closed\\n\" }";
    let said = text(&run(&field, &commands, junk));
    assert!(said.contains(" 400 ") && said.contains(" 405 "), "{said}");
}

#[test]
fn connections_end_with_the_command() {
    if !available() {
        return;
    }
    let field = Field::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let commands = commands(&field, &format!("\"127.0.0.1:{port}\""), &[]).unwrap();
    let waits = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).map(|_| all)
    });
    run(
        &field,
        &commands,
        &format!("my $s = proxied('127.0.0.1:{port}'); my $l = <$s>; print $s 'bye'; $s->flush; kill 9, $$"),
    );
    assert_eq!(waits.join().unwrap().unwrap(), b"bye");
}

#[test]
fn an_ordinary_user_has_it_too() {
    if available() {
        start_as_ordinary_user("started_by_an_ordinary_user");
    }
}

#[test]
fn started_by_an_ordinary_user() {
    if_started(|| {
        let (field, server, other) = (Field::new(), Server::start(), Server::start());
        let commands = commands(&field, &format!("\"127.0.0.1:{}\"", server.port), &[]).unwrap();
        let script = format!("my $s = proxied('127.0.0.1:{}'); got if first($s) =~ / 200 /", server.port);
        assert!(text(&run(&field, &commands, &script)).contains("GOT"));
        let script = format!("got if tcp('127.0.0.1', {})", other.port);
        assert!(!text(&run(&field, &commands, &script)).contains("GOT"));
    });
}
