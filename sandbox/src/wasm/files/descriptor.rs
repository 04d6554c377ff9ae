//! The host functions of `wasi:filesystem/types` and `preopens`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cap_fs_ext::{DirExt as _, MetadataExt as _, SystemTimeSpec};
use cap_std::fs::{DirEntry, FileType, Metadata};
use wasmtime::Result;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

use super::budget::Held;
use super::stream::{OpenFile, Reader, Writer};
use super::{Node, Opened, Refusal, View, Wanted};
use crate::error::Error;
use crate::fs::guard;
use crate::fs::resolve::{Found, Resolved};
use types::{
    Advice, Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry,
    DirectoryEntryStream, ErrorCode, Filesize, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};

/// The entries of a directory that are still to come.
struct Entries {
    rest: Box<dyn Iterator<Item = std::io::Result<DirectoryEntry>> + Send>,
    _held: Held,
}

/// Our own value behind a handle of the bindings' type; the table checks that it is one.
fn ours<T, U: 'static>(handle: &Resource<T>) -> Resource<U>
where
    T: 'static,
{
    Resource::new_borrow(handle.rep())
}

impl View<'_> {
    fn node(&self, handle: &Resource<Descriptor>) -> Result<&Node> {
        Ok(self.table.get(&ours(handle))?)
    }

    fn file(&self, handle: &Resource<Descriptor>) -> FsResult<&Arc<OpenFile>> {
        match self.node(handle).map_err(FsError::trap)? {
            Node::File(file) => Ok(file),
            Node::Directory(_) => Err(ErrorCode::IsDirectory.into()),
        }
    }

    fn readable(&self, handle: &Resource<Descriptor>) -> FsResult<&Arc<OpenFile>> {
        let file = self.file(handle)?;
        if file.read { Ok(file) } else { Err(ErrorCode::BadDescriptor.into()) }
    }

    fn writable(&self, handle: &Resource<Descriptor>) -> FsResult<&Arc<OpenFile>> {
        let file = self.file(handle)?;
        if file.write { Ok(file) } else { Err(ErrorCode::BadDescriptor.into()) }
    }

    fn push(&mut self, node: Node) -> FsResult<Resource<Descriptor>> {
        Ok(Resource::new_own(self.table.push(node)?.rep()))
    }

    /// Does something in a directory; a refusal becomes an error code and is remembered.
    fn within<T>(
        &mut self,
        handle: &Resource<Descriptor>,
        work: impl FnOnce(&super::Files, &Opened) -> Result<T, Refusal>,
    ) -> FsResult<T> {
        let done = match self.table.get::<Node>(&ours(handle))? {
            Node::Directory(directory) => work(self.files, directory),
            Node::File(_) => Err(ErrorCode::NotDirectory.into()),
        };
        done.map_err(|refusal| self.files.refuse(refusal))
    }
}

impl preopens::Host for View<'_> {
    fn get_directories(&mut self) -> Result<Vec<(Resource<Descriptor>, String)>> {
        let mut directories = Vec::new();
        for preopen in &self.files.preopens {
            let held = self.files.budget.hold(1);
            let _held = held.ok_or_else(|| wasmtime::format_err!("too many open directories"))?;
            let node = Node::Directory(Opened { place: preopen.place.clone(), write: preopen.write, _held });
            directories.push((Resource::new_own(self.table.push(node)?.rep()), preopen.guest.clone()));
        }
        Ok(directories)
    }
}

impl types::Host for View<'_> {
    fn convert_error_code(&mut self, error: FsError) -> Result<ErrorCode> {
        error.downcast()
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> Result<Option<ErrorCode>> {
        Ok(self.table.get(&error)?.downcast_ref::<std::io::Error>().map(ErrorCode::from))
    }
}

impl types::HostDescriptor for View<'_> {
    fn read_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        let file = Arc::clone(self.readable(&fd)?);
        let stream: DynInputStream = Box::new(Reader { file, at: offset });
        Ok(self.table.push(stream)?)
    }

    fn write_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        let file = Arc::clone(self.writable(&fd)?);
        let stream: DynOutputStream = Box::new(Writer { file, at: Some(offset) });
        Ok(self.table.push(stream)?)
    }

    fn append_via_stream(&mut self, fd: Resource<Descriptor>) -> FsResult<Resource<DynOutputStream>> {
        let file = Arc::clone(self.writable(&fd)?);
        let stream: DynOutputStream = Box::new(Writer { file, at: None });
        Ok(self.table.push(stream)?)
    }

    async fn advise(
        &mut self,
        fd: Resource<Descriptor>,
        _: Filesize,
        _: Filesize,
        _: Advice,
    ) -> FsResult<()> {
        self.file(&fd).map(drop)
    }

    /// Accepted and left to the system: a component cannot make this process wait for a disk.
    async fn sync_data(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        self.node(&fd).map(drop).map_err(FsError::trap)
    }

    /// As [`sync_data`](Self::sync_data).
    async fn sync(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        self.node(&fd).map(drop).map_err(FsError::trap)
    }

    async fn get_flags(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorFlags> {
        let (read, write, what) = match self.node(&fd).map_err(FsError::trap)? {
            Node::File(file) => (file.read, file.write, DescriptorFlags::WRITE),
            Node::Directory(directory) => (true, directory.write, DescriptorFlags::MUTATE_DIRECTORY),
        };
        let mut flags = DescriptorFlags::empty();
        if read {
            flags |= DescriptorFlags::READ;
        }
        if write {
            flags |= what;
        }
        Ok(flags)
    }

    async fn get_type(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorType> {
        Ok(match self.node(&fd).map_err(FsError::trap)? {
            Node::File(_) => DescriptorType::RegularFile,
            Node::Directory(_) => DescriptorType::Directory,
        })
    }

    async fn set_size(&mut self, fd: Resource<Descriptor>, size: Filesize) -> FsResult<()> {
        Ok(self.writable(&fd)?.set_size(size)?)
    }

    async fn set_times(
        &mut self,
        fd: Resource<Descriptor>,
        read: NewTimestamp,
        changed: NewTimestamp,
    ) -> FsResult<()> {
        let file = self.writable(&fd)?;
        #[cfg(unix)]
        {
            let times = rustix::fs::Timestamps {
                last_access: timespec(&read)?,
                last_modification: timespec(&changed)?,
            };
            Ok(rustix::fs::futimens(&file.file, &times).map_err(std::io::Error::from)?)
        }
        #[cfg(not(unix))]
        {
            let _ = (file, read, changed);
            Err(ErrorCode::Unsupported.into())
        }
    }

    async fn read(
        &mut self,
        fd: Resource<Descriptor>,
        len: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        let bytes = self.readable(&fd)?.read_at(len, offset)?;
        let end = bytes.is_empty() && len > 0;
        Ok((bytes, end))
    }

    async fn write(
        &mut self,
        fd: Resource<Descriptor>,
        bytes: Vec<u8>,
        offset: Filesize,
    ) -> FsResult<Filesize> {
        self.writable(&fd)?.write_at(&bytes, Some(offset))?;
        Ok(u64::try_from(bytes.len()).unwrap_or(u64::MAX))
    }

    async fn read_directory(&mut self, fd: Resource<Descriptor>) -> FsResult<Resource<DirectoryEntryStream>> {
        let entries = self.within(&fd, |files, directory| {
            let held = files.budget.hold(1).ok_or(ErrorCode::Quota)?;
            Ok(Entries { rest: Box::new(directory.place.dir().entries()?.map(entry)), _held: held })
        })?;
        Ok(Resource::new_own(self.table.push(entries)?.rep()))
    }

    async fn create_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        self.within(&fd, |files, directory| {
            let resolved = directory.place.resolve(&path, true)?;
            match (&resolved.found, &resolved.last) {
                (Found::Missing { .. }, Some(name)) => {
                    files.check_write(directory, &resolved)?;
                    if !resolved.missing.is_empty() {
                        return Err(ErrorCode::NoEntry.into());
                    }
                    files.budget.make()?;
                    Ok(resolved.dir().create_dir(name)?)
                }
                (Found::Missing { .. }, None) => Err(ErrorCode::NoEntry.into()),
                _ => Err(ErrorCode::Exist.into()),
            }
        })
    }

    async fn stat(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorStat> {
        Ok(stat(&self.metadata(&fd)?))
    }

    async fn stat_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        Ok(stat(&self.metadata_at(&fd, flags, &path)?))
    }

    async fn set_times_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        read: NewTimestamp,
        changed: NewTimestamp,
    ) -> FsResult<()> {
        let (read, changed) = (time_spec(&read)?, time_spec(&changed)?);
        self.within(&fd, |files, directory| {
            let resolved = directory.place.resolve(&path, flags.contains(PathFlags::SYMLINK_FOLLOW))?;
            match (&resolved.found, &resolved.last) {
                (Found::File(_) | Found::Directory, Some(name)) => {
                    files.check_write(directory, &resolved)?;
                    Ok(resolved.dir().set_symlink_times(name, read, changed)?)
                }
                (Found::Missing { .. }, _) => Err(ErrorCode::NoEntry.into()),
                _ => Err(ErrorCode::NotPermitted.into()),
            }
        })
    }

    /// Refused: a second name would let a file be changed under rules that were not made for it.
    async fn link_at(
        &mut self,
        fd: Resource<Descriptor>,
        _: PathFlags,
        old: String,
        _: Resource<Descriptor>,
        _: String,
    ) -> FsResult<()> {
        self.within(&fd, |_, _| Err(no_links(&old)))
    }

    async fn open_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        let wanted = Wanted::new(open, flags, path_flags.contains(PathFlags::SYMLINK_FOLLOW));
        let node = self.within(&fd, |files, directory| files.open(directory, &path, wanted))?;
        self.push(node)
    }

    /// The target of a link. A target that names a place of this machine is not shown.
    async fn readlink_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<String> {
        self.within(&fd, |files, directory| {
            let resolved = directory.place.resolve(&path, false)?;
            guard::check_read(&files.grants, &resolved)?;
            match (&resolved.found, &resolved.last) {
                (Found::Special(_), Some(name)) => {
                    let target = resolved.dir().read_link_contents(name)?;
                    if target.has_root() {
                        return Err(Error::outside(&path).into());
                    }
                    Ok(target.to_str().ok_or(ErrorCode::IllegalByteSequence)?.to_owned())
                }
                (Found::Missing { .. }, _) => Err(ErrorCode::NoEntry.into()),
                _ => Err(ErrorCode::Invalid.into()),
            }
        })
    }

    async fn remove_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        self.within(&fd, |files, directory| {
            let resolved = directory.place.resolve(&path, false)?;
            match (&resolved.found, &resolved.last) {
                (Found::Directory, Some(name)) => {
                    files.check_write(directory, &resolved)?;
                    Ok(resolved.dir().remove_dir(name)?)
                }
                (Found::Directory, None) => Err(ErrorCode::Invalid.into()),
                (Found::Missing { .. }, _) => Err(ErrorCode::NoEntry.into()),
                _ => Err(ErrorCode::NotDirectory.into()),
            }
        })
    }

    /// A file gets another name; directories do not, since rules go by the names of what is in them, and neither do
    /// links, which would lead elsewhere from there.
    async fn rename_at(
        &mut self,
        fd: Resource<Descriptor>,
        old: String,
        new_fd: Resource<Descriptor>,
        new: String,
    ) -> FsResult<()> {
        let done = match (self.table.get::<Node>(&ours(&fd))?, self.table.get::<Node>(&ours(&new_fd))?) {
            (Node::Directory(from), Node::Directory(to)) => rename(self.files, (from, &old), (to, &new)),
            _ => Err(ErrorCode::NotDirectory.into()),
        };
        done.map_err(|refusal| self.files.refuse(refusal))
    }

    /// Refused: no tool needs it, and everybody who follows the link later would have to be as careful as we are.
    async fn symlink_at(&mut self, fd: Resource<Descriptor>, _: String, new: String) -> FsResult<()> {
        self.within(&fd, |_, _| Err(no_links(&new)))
    }

    async fn unlink_file_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        self.within(&fd, |files, directory| {
            let resolved = directory.place.resolve(&path, false)?;
            match (&resolved.found, &resolved.last) {
                (Found::File(_) | Found::Special(_), Some(name)) => {
                    files.check_write(directory, &resolved)?;
                    Ok(resolved.dir().remove_file_or_symlink(name)?)
                }
                (Found::Missing { .. }, _) => Err(ErrorCode::NoEntry.into()),
                _ => Err(ErrorCode::IsDirectory.into()),
            }
        })
    }

    async fn is_same_object(&mut self, a: Resource<Descriptor>, b: Resource<Descriptor>) -> Result<bool> {
        match (self.metadata(&a), self.metadata(&b)) {
            (Ok(a), Ok(b)) => Ok((a.dev(), a.ino()) == (b.dev(), b.ino())),
            _ => Ok(false),
        }
    }

    async fn metadata_hash(&mut self, fd: Resource<Descriptor>) -> FsResult<MetadataHashValue> {
        Ok(hash(&self.metadata(&fd)?))
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        Ok(hash(&self.metadata_at(&fd, flags, &path)?))
    }

    fn drop(&mut self, fd: Resource<Descriptor>) -> Result<()> {
        self.table.delete(Resource::<Node>::new_own(fd.rep()))?;
        Ok(())
    }
}

impl types::HostDirectoryEntryStream for View<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let entries = self.table.get_mut::<Entries>(&ours(&stream))?;
        Ok(entries.rest.next().transpose()?)
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> Result<()> {
        self.table.delete(Resource::<Entries>::new_own(stream.rep()))?;
        Ok(())
    }
}

impl View<'_> {
    fn metadata(&self, fd: &Resource<Descriptor>) -> FsResult<Metadata> {
        Ok(match self.node(fd).map_err(FsError::trap)? {
            Node::File(file) => file.file.metadata()?,
            Node::Directory(directory) => directory.place.dir().dir_metadata()?,
        })
    }

    fn metadata_at(&mut self, fd: &Resource<Descriptor>, flags: PathFlags, path: &str) -> FsResult<Metadata> {
        self.within(fd, |files, directory| {
            let resolved = directory.place.resolve(path, flags.contains(PathFlags::SYMLINK_FOLLOW))?;
            if matches!(resolved.found, Found::Missing { .. }) {
                return Err(ErrorCode::NoEntry.into());
            }
            guard::check_read(&files.grants, &resolved)?;
            Ok(match &resolved.last {
                Some(name) => resolved.dir().symlink_metadata(name)?,
                None => resolved.dir().dir_metadata()?,
            })
        })
    }
}

fn entry(entry: std::io::Result<DirEntry>) -> std::io::Result<DirectoryEntry> {
    let entry = entry?;
    let name = entry.file_name().to_string_lossy().into_owned();
    Ok(DirectoryEntry { type_: type_of(entry.file_type()?), name })
}

fn rename(files: &super::Files, from: (&Opened, &str), to: (&Opened, &str)) -> Result<(), Refusal> {
    let (old, new): (Resolved, Resolved) =
        (from.0.place.resolve(from.1, false)?, to.0.place.resolve(to.1, false)?);
    let (Some(old_name), Some(new_name)) = (&old.last, &new.last) else {
        return Err(ErrorCode::Busy.into());
    };
    match (&old.found, &new.found) {
        (Found::Missing { .. }, _) => return Err(ErrorCode::NoEntry.into()),
        // What a program is told when a directory lies elsewhere: it copies then.
        (Found::Directory, _) => return Err(ErrorCode::CrossDevice.into()),
        (Found::Special(_), _) | (_, Found::Special(_)) => return Err(ErrorCode::NotPermitted.into()),
        (Found::File(_), Found::Directory) => return Err(ErrorCode::IsDirectory.into()),
        (Found::File(_), Found::Missing { wants_directory: true }) => {
            return Err(ErrorCode::NotDirectory.into());
        }
        (Found::File(_), Found::File(_) | Found::Missing { .. }) => {}
    }
    if !new.missing.is_empty() {
        return Err(ErrorCode::NoEntry.into());
    }
    guard::check_read(&files.grants, &old)?;
    files.check_write(from.0, &old)?;
    files.check_write(to.0, &new)?;
    Ok(old.dir().rename(old_name, new.dir(), new_name)?)
}

fn no_links(path: &str) -> Refusal {
    Error::new(crate::Kind::Denied, "components cannot make links")
        .at(path)
        .hint("write a copy instead")
        .into()
}

fn type_of(kind: FileType) -> DescriptorType {
    if kind.is_file() {
        return DescriptorType::RegularFile;
    } else if kind.is_dir() {
        return DescriptorType::Directory;
    } else if kind.is_symlink() {
        return DescriptorType::SymbolicLink;
    }
    DescriptorType::Unknown
}

fn stat(metadata: &Metadata) -> DescriptorStat {
    let when = |time: std::io::Result<cap_std::time::SystemTime>| {
        let since = time.ok()?.into_std().duration_since(UNIX_EPOCH).ok()?;
        Some(Datetime { seconds: since.as_secs(), nanoseconds: since.subsec_nanos() })
    };
    DescriptorStat {
        type_: type_of(metadata.file_type()),
        link_count: metadata.nlink(),
        size: metadata.len(),
        data_access_timestamp: when(metadata.accessed()),
        data_modification_timestamp: when(metadata.modified()),
        status_change_timestamp: None,
    }
}

/// The identity of the file, without its numbers on this machine.
fn hash(metadata: &Metadata) -> MetadataHashValue {
    let mut hasher = DefaultHasher::new();
    (metadata.dev(), metadata.ino()).hash(&mut hasher);
    let lower = hasher.finish();
    lower.hash(&mut hasher);
    MetadataHashValue { lower, upper: hasher.finish() }
}

fn time_spec(time: &NewTimestamp) -> FsResult<Option<SystemTimeSpec>> {
    Ok(match time {
        NewTimestamp::NoChange => None,
        NewTimestamp::Now => Some(SystemTimeSpec::SymbolicNow),
        NewTimestamp::Timestamp(at) => {
            let since =
                Duration::from_secs(at.seconds).saturating_add(Duration::from_nanos(at.nanoseconds.into()));
            let time: SystemTime = UNIX_EPOCH.checked_add(since).ok_or(ErrorCode::Overflow)?;
            Some(SystemTimeSpec::Absolute(cap_std::time::SystemTime::from_std(time)))
        }
    })
}

#[cfg(unix)]
fn timespec(time: &NewTimestamp) -> FsResult<rustix::fs::Timespec> {
    let special = |nanoseconds| rustix::fs::Timespec { tv_sec: 0, tv_nsec: nanoseconds };
    Ok(match time {
        NewTimestamp::NoChange => special(rustix::fs::UTIME_OMIT),
        NewTimestamp::Now => special(rustix::fs::UTIME_NOW),
        NewTimestamp::Timestamp(at) if at.nanoseconds < 1_000_000_000 => rustix::fs::Timespec {
            tv_sec: i64::try_from(at.seconds).map_err(|_| ErrorCode::Overflow)?,
            tv_nsec: at.nanoseconds.into(),
        },
        NewTimestamp::Timestamp(_) => return Err(ErrorCode::Invalid.into()),
    })
}
