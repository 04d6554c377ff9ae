//! What commands do to the disk where a walk over directories does not see it: in files without a name, and in directories
//! that are closed even to their owner. As the user who runs the test, and as an ordinary one.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the controls are plain processes")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use support::CANARY;
use support::shell::{Field, available, if_started, start_as_ordinary_user, text};
use toolgate_sandbox::command::End;
use toolgate_sandbox::policy::ProcessLimits;

/// Writes eight files of twelve megabytes and removes their names: each is kept open, mapped, or in a message.
const NAMELESS: &str = r#"
use Socket;
my $how = shift;
my $data = "x" x 1048576;
my @kept;
socketpair(my $in, my $out, AF_UNIX, SOCK_STREAM, 0) or die if $how eq "sent";
for (1 .. 8) {
    open my $file, "+>", "nameless" or die;
    unlink "nameless" or die;
    syswrite $file, $data for 1 .. 12;
    if ($how eq "open") {
        push @kept, $file;
    } elsif ($how eq "mapped") {
        my $at = syscall 9, 0, 12 << 20, 3, 1, fileno $file, 0;
        die "mmap" if $at == -1;
    } else {
        my $byte = "x";
        my $piece = pack "PQ", $byte, 1;
        my $rights = pack "Qiiix4", 20, 1, 1, fileno $file;
        my $message = pack "QLx4PQPQix4", 0, 0, $piece, 1, $rights, 24, 0;
        die "sendmsg" if syscall(46, fileno $in, $message, 0) == -1;
    }
    close $file if $how ne "open";
}
sleep 1;
print "ALL\n";
"#;

/// Runs `body` as this user, and has the test `started` run it as an ordinary one.
fn as_both(started: &str, body: fn()) {
    if available() {
        body();
        start_as_ordinary_user(started);
    }
}

fn limits(disk_mb: u64) -> ProcessLimits {
    ProcessLimits::default().disk_mb(Some(disk_mb)).wall_ms(Some(20_000))
}

/// Opens all directories again, for the test's own end.
fn open_all(field: &Field) {
    Command::new("chmod").args(["-R", "u+rwx"]).arg(&field.ws).status().unwrap();
}

#[test]
fn files_without_a_name_count() {
    as_both("started_files_without_a_name_count", nameless_files);
}

#[test]
fn started_files_without_a_name_count() {
    if_started(nameless_files);
}

fn nameless_files() {
    // The script makes system calls by their numbers.
    let ways = if cfg!(target_arch = "x86_64") { ["open", "mapped", "sent"].as_slice() } else { &["open"] };
    for how in ways {
        let field = Field::new();
        fs::write(field.ws.join("attack.pl"), NAMELESS).unwrap();
        let attack = format!("perl attack.pl {how}");
        let ran = field.run_without(&attack, &limits(32), &[]);
        let said = text(&ran);
        assert!(!said.contains("ALL"), "{how}: {said}");
        match *how {
            "sent" => assert!(said.contains("sendmsg"), "no descriptor can be sent: {said}"),
            _ => assert_eq!(ran.end, End::DiskLimit, "{how}: {said}"),
        }
        assert!(field.plainly(&attack).contains("ALL"), "the control keeps them all: {how}");
    }
}

#[test]
fn closed_directories_count() {
    as_both("started_closed_directories_count", closed_directories);
}

#[test]
fn started_closed_directories_count() {
    if_started(closed_directories);
}

fn closed_directories() {
    let write =
        "for i in 1 2 3 4 5 6 7 8; do head -c 12000000 /dev/zero > d/$i || exit 9; done; sleep 1; echo ALL";
    for attack in [
        format!("mkdir d; chmod 300 d; {write}"),
        format!("mkdir -p a/d; chmod 300 a a/d; cd a; {write}"),
        format!("mkdir d; chmod 300 .; {write}"),
    ] {
        let field = Field::new();
        let ran = field.run_without(&attack, &limits(32), &[]);
        open_all(&field);
        assert_eq!(ran.end, End::DiskLimit, "{attack}: {}", text(&ran));
        let control = Field::new();
        assert!(control.plainly(&attack).contains("ALL"), "{attack}");
        open_all(&control);
    }
}

#[test]
fn what_was_there_is_no_growth() {
    as_both("started_what_was_there_is_no_growth", nothing_grows);
}

#[test]
fn started_what_was_there_is_no_growth() {
    if_started(nothing_grows);
}

fn nothing_grows() {
    let field = Field::new();
    for (dir, mode) in [(".git/objects/pack", 0o755), (".env.d", 0o755), ("closed", 0o300)] {
        let dir = field.ws.join(dir);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("large"), vec![1; 12_000_000]).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
    }
    let ran = field.run_without("echo x > new; sleep 0.8; echo done", &limits(8), &[]);
    open_all(&field);
    assert_eq!((ran.end, text(&ran).trim()), (End::Exited(0), "done"));
}

#[test]
fn closed_directories_hide_nothing() {
    as_both("started_closed_directories_hide_nothing", nothing_is_hidden);
}

#[test]
fn started_closed_directories_hide_nothing() {
    if_started(nothing_is_hidden);
}

fn nothing_is_hidden() {
    let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
    for attack in [
        "mkdir -p d/.git/hooks; echo evil > d/.git/config; chmod 300 d",
        "mkdir -p d/.git/hooks; echo evil > d/.git/config; chmod 500 d",
        "mkdir -p c/d/.git/hooks; echo evil > c/d/.git/config; chmod 0 c/d c; mv c d",
    ] {
        let name = if attack.contains("c/d") { "d/d/.git" } else { "d/.git" };
        let field = Field::new();
        let ran = field.run(attack);
        open_all(&field);
        assert!(!is_there(&field.ws.join(name)), "{attack}: {:?}", ran.taken_back);
        let control = Field::new();
        control.plainly(attack);
        open_all(&control);
        assert!(is_there(&control.ws.join(name)), "{attack}");
    }
    let read = "chmod 700 d; cat d/.env";
    let field = Field::new();
    fs::create_dir(field.ws.join("d")).unwrap();
    fs::write(field.ws.join("d/.env"), CANARY).unwrap();
    fs::set_permissions(field.ws.join("d"), fs::Permissions::from_mode(0o000)).unwrap();
    assert!(!text(&field.run(read)).contains(CANARY));
    assert!(field.plainly(read).contains(CANARY), "the control opens it");
}

#[test]
fn no_request_takes_disk_and_a_file_counts_once() {
    as_both("started_no_request_takes_disk", requests_and_links);
}

#[test]
fn started_no_request_takes_disk() {
    if_started(requests_and_links);
}

fn requests_and_links() {
    // FS_IOC_RESVSP: blocks beyond the end of a file, which its size does not show and no bound of a process holds.
    let reserve = "perl -e 'open F, \">\", \"f\" or die; $r = pack \"ssx4qqlLl4\", 0, 0, 0, 200 << 20, 0, 0, 0, 0, 0, 0; \
                   print ioctl(F, 0x40305828, $r) ? \"TAKEN\" : \"refused: $!\"'";
    let field = Field::new();
    let ran = field.run_without(reserve, &limits(64), &[]);
    assert!(text(&ran).contains("refused"), "{}", text(&ran));
    let taken = |field: &Field| {
        std::os::unix::fs::MetadataExt::blocks(&fs::metadata(field.ws.join("f")).unwrap()) * 512
    };
    assert!(taken(&field) < 1 << 20);
    let control = Field::new();
    let said = control.plainly(reserve);
    assert!(said.contains("TAKEN") && taken(&control) >= 200 << 20, "the control takes it: {said}");

    let field = Field::new();
    let linked = "head -c 40000000 /dev/zero > a && ln a b && ln a c; sleep 0.8; echo done";
    let ran = field.run_without(linked, &limits(64), &[]);
    assert_eq!((ran.end, text(&ran).trim()), (End::Exited(0), "done"), "three names, one file");
    let copied = "head -c 40000000 /dev/zero > d; cp d e; sleep 0.8; echo done";
    assert_eq!(field.run_without(copied, &limits(64), &[]).end, End::DiskLimit, "the twin is two files");
}
