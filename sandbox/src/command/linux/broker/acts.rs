//! Performs calls for a caller, one function for a kind of call, or refuses them.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, StatVfsMountFlags, fstat, fstatvfs, ftruncate,
    linkat, mkdirat, mknodat, openat, renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::umask;

use super::super::seccomp::SYS_RENAMEAT;
use super::super::sys::{self, Call};
use super::caller::Caller;
use super::find::{Finder, Follow, Found, Last, Place};
use super::record::Record;
use super::{PROBE, Places, Task};
use crate::fs::descend::{Identity, identity};
use crate::names::Inside;
use crate::patterns::Patterns;
use crate::protect::{Protected, is_part_of_repository};

/// Opens of pipes that wait for the other end at the same time.
const WAITING: usize = 64;

/// What a caller gets.
pub(super) enum Answer {
    Done,
    /// A descriptor; with whether it is closed at an `exec`.
    File(OwnedFd, bool),
    /// Somebody else will answer.
    Later,
}

/// Does what callers ask for.
pub(super) struct Broker {
    listener: Arc<OwnedFd>,
    is_over: bool,
    finder: Finder,
    workspace: PathBuf,
    /// A name at which the stage tries whether it is answered.
    probe: PathBuf,
    rules: Rules,
    record: Record,
    umask: Option<Mode>,
    waiting: Arc<AtomicUsize>,
}

/// What is protected; made when it is asked for first, since many commands make no name.
struct Rules {
    patterns: Vec<String>,
    led_to: Vec<String>,
    made: Option<Protected>,
}

impl Rules {
    fn get(&mut self) -> &Protected {
        let Self { patterns, led_to, made } = self;
        made.get_or_insert_with(|| {
            // Those patterns have been read before; what cannot be read protects everything.
            let patterns = Patterns::new(patterns.iter()).unwrap_or_else(|_| Patterns::everything());
            let inside = |path: &String| Inside::from_names(Path::new(path).iter());
            let led_to: Vec<Inside> = led_to.iter().map(inside).collect();
            Protected::new(patterns).with_led_to(&led_to)
        })
    }
}

/// An open as it was asked for.
struct Open<'p> {
    from: i32,
    path: &'p OsStr,
    flags: OFlags,
    mode: Mode,
}

impl Open<'_> {
    fn has(&self, flags: OFlags) -> bool {
        self.flags.contains(flags)
    }

    /// Whether something can be changed by what is opened, or is by opening it.
    fn writes(&self) -> bool {
        self.flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::TRUNC)
    }

    fn closes_on_exec(&self) -> bool {
        self.has(OFlags::CLOEXEC)
    }
}

impl Broker {
    pub(super) fn new(task: &Task, places: Places<'_>, listener: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            listener: Arc::new(listener),
            is_over: false,
            finder: Finder::new()?,
            workspace: places.workspace.into(),
            probe: Path::new(places.probe).join(PROBE),
            rules: Rules { patterns: task.patterns.clone(), led_to: task.led_to.clone(), made: None },
            record: Record::new(sys::own(task.record)?),
            umask: None,
            waiting: Arc::default(),
        })
    }

    /// Where calls are heard.
    pub(super) fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// The same, as long as there is anybody who could call.
    pub(super) fn heard(&self) -> Option<Arc<OwnedFd>> {
        (!self.is_over).then(|| self.listener.clone())
    }

    /// Hears no more once everybody has ended who could call.
    pub(super) fn stop_hearing_if_over(&mut self) {
        self.is_over = sys::is_over(self.listener());
    }

    /// Does what was asked for, and answers.
    pub(super) fn take_up(&mut self, call: &Call) {
        let done = self.act(call);
        respond(self.listener(), call.id, done);
    }

    fn act(&mut self, call: &Call) -> Result<Answer, Errno> {
        let caller = Caller::of(call.thread)?;
        // The number is still that of who called: it waits for the answer.
        sys::is_waiting(self.listener(), call.id).map_err(|_| Errno::SRCH)?;
        let [a, b, c, d, e, _] = call.arguments;
        let here = libc::AT_FDCWD;
        match call.number {
            libc::SYS_openat => self.open(call.id, &caller, low(a), b, c, d),
            libc::SYS_mkdirat => self.make_directory(&caller, low(a), b, c),
            libc::SYS_mknodat => self.make_special(&caller, low(a), b, c),
            libc::SYS_symlinkat => self.make_link(&caller, a, low(b), c),
            libc::SYS_linkat => self.link(&caller, (low(a), b), (low(c), d), low(e)),
            libc::SYS_renameat2 => self.rename(&caller, (low(a), b), (low(c), d), e),
            SYS_RENAMEAT => self.rename(&caller, (low(a), b), (low(c), d), 0),
            libc::SYS_truncate => self.truncate(&caller, a, b),
            libc::SYS_unlinkat => self.remove(&caller, low(a), b, low(c)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => self.open(call.id, &caller, here, a, b, c),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                self.open(call.id, &caller, here, a, u64::from(flags.unsigned_abs()), b)
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => self.make_directory(&caller, here, a, b),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mknod => self.make_special(&caller, here, a, b),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_symlink => self.make_link(&caller, a, here, b),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link => self.link(&caller, (here, a), (here, b), 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => self.rename(&caller, (here, a), (here, b), 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink => self.remove(&caller, here, a, 0),
            _ => Err(Errno::NOSYS),
        }
    }

    fn open(
        &mut self,
        id: u64,
        caller: &Caller,
        from: i32,
        path: u64,
        flags: u64,
        mode: u64,
    ) -> Result<Answer, Errno> {
        let path = caller.path(path)?;
        let open =
            Open { from, path: &path, flags: OFlags::from_bits_retain(bits(flags)), mode: mode_of(mode) };
        let creates = open.has(OFlags::CREATE);
        if creates && open.has(OFlags::DIRECTORY) {
            return Err(Errno::INVAL);
        }
        let stays = open.has(OFlags::NOFOLLOW) || creates && open.has(OFlags::EXCL);
        let follow = if stays { Follow::No } else { Follow::Yes };
        // Somebody outside may put a link where nothing was a moment ago; not for ever.
        for _ in 0..8 {
            match self.finder.find(caller, open.from, open.path, follow)? {
                (place, Found::Thing(thing, stat)) => {
                    return self.open_thing(id, caller, &open, &place, (thing, stat));
                }
                (_, Found::Nothing) if !creates => return Err(Errno::NOENT),
                (place, Found::Nothing) => match self.create(caller, &open, &place) {
                    Err(Errno::LOOP) if follow == Follow::Yes => {}
                    done => return done,
                },
            }
        }
        Err(Errno::LOOP)
    }

    /// Opens what is there.
    fn open_thing(
        &mut self,
        id: u64,
        caller: &Caller,
        open: &Open<'_>,
        place: &Place,
        (thing, stat): (OwnedFd, Stat),
    ) -> Result<Answer, Errno> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        let creates = open.has(OFlags::CREATE);
        if open.has(OFlags::PATH) {
            return Ok(Answer::File(thing, open.closes_on_exec()));
        }
        if creates && open.has(OFlags::EXCL) {
            return Err(Errno::EXIST);
        }
        match kind {
            FileType::Symlink => return Err(Errno::LOOP),
            FileType::Directory if creates => return Err(Errno::ISDIR),
            FileType::Directory => {}
            _ if place.slash || open.has(OFlags::DIRECTORY) => return Err(Errno::NOTDIR),
            _ => {}
        }
        if open.writes() {
            self.check_change(&thing, place)?;
        }
        if kind == FileType::Directory && open.writes() {
            // It makes a file there without a name, which may get one later.
            self.take_umask(caller.umask()?)?;
        }
        let waits = kind == FileType::Fifo && !open.has(OFlags::NONBLOCK) && !open.has(OFlags::RDWR);
        if waits {
            return self.open_later(id, open, thing);
        }
        let opened = self.finder.open(&thing, open.flags, open.mode)?;
        Ok(Answer::File(opened, open.closes_on_exec()))
    }

    /// Opens a pipe, which waits for somebody to open its other end; others are answered meanwhile.
    fn open_later(&self, id: u64, open: &Open<'_>, pipe: OwnedFd) -> Result<Answer, Errno> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Errno::NFILE);
        }
        let (listener, waiting) = (self.listener.clone(), self.waiting.clone());
        let (flags, closes) = (open.flags, open.closes_on_exec());
        let wait = move || {
            let opened = Finder::new().and_then(|finder| finder.open(&pipe, flags, Mode::empty()));
            respond(listener.as_fd(), id, opened.map(|opened| Answer::File(opened, closes)));
            waiting.fetch_sub(1, Ordering::Relaxed);
        };
        match std::thread::Builder::new().stack_size(64 * 1024).spawn(wait) {
            Ok(_) => Ok(Answer::Later),
            Err(_) => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                Err(Errno::AGAIN)
            }
        }
    }

    /// Makes a file and opens it.
    fn create(&mut self, caller: &Caller, open: &Open<'_>, place: &Place) -> Result<Answer, Errno> {
        let Last::Name(name) = &place.last else { return Err(Errno::ISDIR) };
        if place.slash {
            return Err(Errno::ISDIR);
        }
        let path = self.check_new(place, name)?;
        self.take_umask(caller.umask()?)?;
        let flags = open.flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        let made = openat(&place.dir, name, flags, open.mode)?;
        self.made(path, || Some(identity(&fstat(&made).ok()?)));
        Ok(Answer::File(made, open.closes_on_exec()))
    }

    fn make_directory(&mut self, caller: &Caller, from: i32, path: u64, mode: u64) -> Result<Answer, Errno> {
        self.make(caller, (from, path), true, |place, name| mkdirat(&place.dir, name, mode_of(mode)))
    }

    fn make_special(&mut self, caller: &Caller, from: i32, path: u64, mode: u64) -> Result<Answer, Errno> {
        let kind = match bits(mode) & libc::S_IFMT {
            libc::S_IFIFO => FileType::Fifo,
            libc::S_IFSOCK => FileType::Socket,
            0 | libc::S_IFREG => FileType::RegularFile,
            _ => return Err(Errno::PERM),
        };
        self.make(caller, (from, path), false, |place, name| {
            mknodat(&place.dir, name, kind, mode_of(mode), 0)
        })
    }

    fn make_link(&mut self, caller: &Caller, target: u64, from: i32, path: u64) -> Result<Answer, Errno> {
        let target = caller.path(target)?;
        self.make(caller, (from, path), false, |place, name| symlinkat(&*target, &place.dir, name))
    }

    /// Makes something at a path where nothing is, with `put`. With `slash`, the path may end in one.
    fn make(
        &mut self,
        caller: &Caller,
        (from, path): (i32, u64),
        slash: bool,
        put: impl FnOnce(&Place, &OsStr) -> Result<(), Errno>,
    ) -> Result<Answer, Errno> {
        let place = self.finder.place(caller, from, &caller.path(path)?)?;
        let Last::Name(name) = &place.last else { return Err(Errno::EXIST) };
        if matches!(place.look()?, Found::Thing(..)) {
            return Err(Errno::EXIST);
        }
        if place.slash && !slash {
            return Err(Errno::NOENT);
        }
        let inside = self.check_new(&place, name)?;
        self.take_umask(caller.umask()?)?;
        put(&place, name)?;
        self.made(inside, || place_identity(&place, name));
        Ok(Answer::Done)
    }

    fn link(
        &mut self,
        caller: &Caller,
        (from, old): (i32, u64),
        (to, new): (i32, u64),
        flags: i32,
    ) -> Result<Answer, Errno> {
        if flags & !(libc::AT_SYMLINK_FOLLOW | libc::AT_EMPTY_PATH) != 0 {
            return Err(Errno::INVAL);
        }
        let old = caller.path(old)?;
        let thing = if old.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            caller.opened(from)?
        } else {
            let follow = if flags & libc::AT_SYMLINK_FOLLOW != 0 { Follow::Yes } else { Follow::No };
            match self.finder.find(caller, from, &old, follow)? {
                (_, Found::Thing(thing, _)) => thing,
                (_, Found::Nothing) => return Err(Errno::NOENT),
            }
        };
        let place = self.finder.place(caller, to, &caller.path(new)?)?;
        let Last::Name(name) = &place.last else { return Err(Errno::EXIST) };
        if place.slash {
            return Err(Errno::NOENT);
        }
        let path = self.check_new(&place, name)?;
        let (own, number) = self.finder.own(&thing);
        linkat(own, number, &place.dir, name, AtFlags::SYMLINK_FOLLOW)?;
        self.made(path, || place_identity(&place, name));
        Ok(Answer::Done)
    }

    fn rename(
        &mut self,
        caller: &Caller,
        (from, old): (i32, u64),
        (to, new): (i32, u64),
        flags: u64,
    ) -> Result<Answer, Errno> {
        let flags = RenameFlags::from_bits_retain(bits(flags));
        if flags.contains(RenameFlags::WHITEOUT) {
            return Err(Errno::INVAL);
        }
        let source = self.finder.place(caller, from, &caller.path(old)?)?;
        let target = self.finder.place(caller, to, &caller.path(new)?)?;
        let (Last::Name(old), Last::Name(new)) = (&source.last, &target.last) else {
            return Err(Errno::BUSY);
        };
        let Found::Thing(_, stat) = source.look()? else { return Err(Errno::NOENT) };
        let is_directory = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if (source.slash || target.slash) && !is_directory(&stat) {
            return Err(Errno::NOTDIR);
        }
        self.check_taken(&source, old)?;
        let inside = self.check_moved(&target, new, is_directory(&stat))?;
        let mut moved = vec![(inside, stat)];
        if flags.contains(RenameFlags::EXCHANGE) {
            let Found::Thing(_, stat) = target.look()? else { return Err(Errno::NOENT) };
            self.check_taken(&target, new)?;
            moved.push((self.check_moved(&source, old, is_directory(&stat))?, stat));
        }
        // Before it happens, so that it is known of what is ended in between.
        for (inside, stat) in &moved {
            if inside.is_some() && is_directory(stat) {
                self.record.moved(identity(stat));
            }
        }
        renameat_with(&source.dir, old, &target.dir, new, flags)?;
        for (inside, stat) in moved {
            self.made(inside, || Some(identity(&stat)));
        }
        Ok(Answer::Done)
    }

    fn truncate(&mut self, caller: &Caller, path: u64, length: u64) -> Result<Answer, Errno> {
        let (place, found) = self.finder.find(caller, libc::AT_FDCWD, &caller.path(path)?, Follow::Yes)?;
        let Found::Thing(thing, stat) = found else { return Err(Errno::NOENT) };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if i64::try_from(length).is_err() => return Err(Errno::INVAL),
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR),
            _ => return Err(Errno::INVAL),
        }
        self.check_change(&thing, &place)?;
        ftruncate(self.finder.open(&thing, OFlags::WRONLY, Mode::empty())?, length)?;
        Ok(Answer::Done)
    }

    fn remove(&mut self, caller: &Caller, from: i32, path: u64, flags: i32) -> Result<Answer, Errno> {
        let directory = match flags {
            0 => AtFlags::empty(),
            libc::AT_REMOVEDIR => AtFlags::REMOVEDIR,
            _ => return Err(Errno::INVAL),
        };
        let place = self.finder.place(caller, from, &caller.path(path)?)?;
        let Last::Name(name) = &place.last else {
            return Err(if directory.is_empty() { Errno::ISDIR } else { Errno::INVAL });
        };
        if place.slash && directory.is_empty() {
            return Err(match place.look()? {
                Found::Thing(_, stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                    Errno::ISDIR
                }
                Found::Thing(..) => Errno::NOTDIR,
                Found::Nothing => Errno::NOENT,
            });
        }
        self.check_taken(&place, name)?;
        unlinkat(&place.dir, name, directory)?;
        Ok(Answer::Done)
    }
}

/// Whether something may be done.
impl Broker {
    /// A directory's path below the workspace; nothing for one that lies elsewhere.
    fn inside(&self, dir: &OwnedFd) -> Result<Option<PathBuf>, Errno> {
        let path = self.finder.path(dir)?.ok_or(Errno::NOENT)?;
        Ok(path.strip_prefix(&self.workspace).ok().map(Path::to_owned))
    }

    /// Whether a name may come to be: it is not protected, by itself or by a link on the way, and makes no repository. Its
    /// path below the workspace, if it is there.
    fn check_new(&mut self, place: &Place, name: &OsStr) -> Result<Option<PathBuf>, Errno> {
        self.check_links(place)?;
        let path = self.finder.path(&place.dir)?.ok_or(Errno::NOENT)?.join(name);
        if path == self.probe {
            return Err(Errno::PERM);
        }
        let Ok(path) = path.strip_prefix(&self.workspace).map(Path::to_owned) else { return Ok(None) };
        let rules = self.rules.get();
        let repository =
            is_part_of_repository(name) && rules.is_repository(Some(name), |part| place.has(part));
        if repository || rules.path(&Inside::from_names(path.iter())).is_some() {
            return Err(self.refuse(&path));
        }
        Ok(Some(path))
    }

    /// Whether what is there may get this name. A directory below which something could then be protected goes another way:
    /// who is told that it lies elsewhere copies it, name by name.
    fn check_moved(
        &mut self,
        place: &Place,
        name: &OsStr,
        is_directory: bool,
    ) -> Result<Option<PathBuf>, Errno> {
        let path = self.check_new(place, name)?;
        if is_directory
            && let Some(path) = &path
            && self.rules.get().may_be_below(&Inside::from_names(path.iter()))
        {
            return Err(Errno::XDEV);
        }
        Ok(path)
    }

    /// Whether a name may be taken away.
    fn check_taken(&mut self, place: &Place, name: &OsStr) -> Result<(), Errno> {
        let Some(path) = self.inside(&place.dir)?.map(|dir| dir.join(name)) else { return Ok(()) };
        match self.rules.get().path(&Inside::from_names(path.iter())) {
            Some(_) if place.look().is_ok_and(|found| matches!(found, Found::Thing(..))) => {
                Err(self.refuse(&path))
            }
            _ => Ok(()),
        }
    }

    /// Whether what is there may be changed.
    fn check_change(&mut self, thing: &OwnedFd, place: &Place) -> Result<(), Errno> {
        self.check_links(place)?;
        let path = match self.finder.path(thing) {
            Ok(Some(path)) => path,
            // A file without a name, a pipe, a message queue.
            Ok(None) | Err(Errno::ACCESS) => return Ok(()),
            Err(why) => return Err(why),
        };
        let Ok(path) = path.strip_prefix(&self.workspace).map(Path::to_owned) else { return Ok(()) };
        if self.rules.get().path(&Inside::from_names(path.iter())).is_none() {
            return Ok(());
        }
        // What was protected before the command is mounted so that nobody can write it; that says why better.
        let read_only = fstatvfs(thing).is_ok_and(|state| state.f_flag.contains(StatVfsMountFlags::RDONLY));
        if read_only { Err(Errno::ROFS) } else { Err(self.refuse(&path)) }
    }

    fn check_links(&mut self, place: &Place) -> Result<(), Errno> {
        for (dir, name) in &place.links {
            let Some(path) = self.inside(dir)?.map(|dir| dir.join(name)) else { continue };
            if self.rules.get().path(&Inside::from_names(path.iter())).is_some() {
                return Err(self.refuse(&path));
            }
        }
        Ok(())
    }

    fn refuse(&mut self, path: &Path) -> Errno {
        self.record.refused(path);
        Errno::PERM
    }

    fn made(&mut self, inside: Option<PathBuf>, which: impl FnOnce() -> Option<Identity>) {
        if inside.is_some()
            && let Some(identity) = which()
        {
            self.record.made(identity);
        }
    }

    /// What is made next has these bits taken off, as the caller's own would.
    fn take_umask(&mut self, bits: Mode) -> Result<(), Errno> {
        if self.umask != Some(bits) {
            umask(bits);
            self.umask = Some(bits);
        }
        Ok(())
    }
}

fn place_identity(place: &Place, name: &OsStr) -> Option<Identity> {
    Some(identity(&statat(&place.dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?))
}

fn respond(listener: BorrowedFd<'_>, id: u64, done: Result<Answer, Errno>) {
    let value = match done {
        Ok(Answer::Later) => return,
        Ok(Answer::Done) => Ok(0),
        // The descriptor is the caller's before it goes on, and no longer ours: a program that it has written can be started.
        Ok(Answer::File(file, closes)) => {
            sys::give(listener, id, file.as_fd(), closes).inspect(|_| drop(file))
        }
        Err(why) => Err(why.into()),
    };
    // A caller that has ended needs no answer.
    let _ = sys::answer(listener, id, value);
}

fn low(argument: u64) -> i32 {
    bits(argument).cast_signed()
}

/// The half of an argument that the kernel looks at.
fn bits(argument: u64) -> u32 {
    u32::try_from(argument & 0xffff_ffff).unwrap_or(0)
}

fn mode_of(argument: u64) -> Mode {
    Mode::from_raw_mode(bits(argument) & 0o7777)
}
