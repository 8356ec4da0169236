//! Files of a user and of a data folder: how they are opened, created and replaced, and what an error tells a person.
//!
//! A user names a file: links to it are followed. `nisd` names the files in a data folder ("own" files): a link there is
//! not followed, since it could lead to a file of somebody else. Neither may be anything but a regular file, since
//! opening or reading a pipe may wait for ever.
//!
//! An own file is for its owner only, and that is the owner of the store beside it, or of the folder if there is no store:
//! what root writes must be of use to the user who runs the node.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt as _, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags, RawMode};
use rustix::io::Errno;
use rustix::process::{Resource, geteuid, getrlimit};
use tempfile::NamedTempFile;
use zeroize::Zeroizing;

/// Name of the data file of a store. Its owner is the owner of the store.
pub const DATA_FILE: &str = "data.mdb";
/// Mode of a new folder.
const FOLDER_MODE: u32 = 0o755;
/// Mode of an own file.
pub const FILE_MODE: u32 = 0o600;
/// Mode of another file of a user, of which the umask takes away.
pub const SHARED_MODE: u32 = 0o666;
/// Beginning of the name of a new file until it is complete.
const UNFINISHED: &str = "nisd-unfinished-";
/// Largest list of users that is read, in bytes.
const MAX_USERS_BYTES: usize = 1 << 20;
/// Maximum number of links that lead from one to the next, as in the Linux kernel.
const MAX_LINKS: usize = 40;

/// What is wrong with the path of a folder that leads to a file, and what to do.
pub const NO_FOLDER: &str = "it is a file, or lies below one; name a folder";

/// What an own file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read it.
    Read,
    /// To read and change it.
    Change,
    /// To read and change it; a missing file is created.
    Create,
}

/// An error with the path of its file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", path.display(), explain(error, Some(path)))]
struct FileError {
    path: PathBuf,
    error: io::Error,
}

/// Adds the path of its file to an error.
pub fn named(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| match file_error(&error) {
        Some(_) => error,
        None => io::Error::new(error.kind(), FileError { path: path.to_owned(), error }),
    }
}

fn file_error(error: &io::Error) -> Option<&FileError> {
    error.get_ref()?.downcast_ref()
}

/// Describes an error: what happened, where if the error has the path of its file, and what to do.
pub fn describe(error: &io::Error) -> String {
    if file_error(error).is_some() { error.to_string() } else { explain(error, None) }
}

/// Describes an error of a file: the path, what happened, and what to do.
pub fn describe_at(path: &Path, error: &io::Error) -> String {
    if file_error(error).is_some() {
        error.to_string()
    } else {
        format!("{}: {}", path.display(), explain(error, Some(path)))
    }
}

/// Describes an error of a file whose path the text around it has.
pub fn explain(error: &io::Error, path: Option<&Path>) -> String {
    advice(error, path).map_or_else(|| error.to_string(), |advice| format!("{error}; {advice}"))
}

/// Returns the system's number of an error.
fn errno(error: &io::Error) -> Option<Errno> {
    let number = error.raw_os_error().or_else(|| file_error(error)?.error.raw_os_error());
    number.map(Errno::from_raw_os_error)
}

/// Returns what to do about an error of the system.
fn advice(error: &io::Error, path: Option<&Path>) -> Option<String> {
    let advice = match errno(error)? {
        Errno::ACCESS | Errno::PERM => return Some(permission_advice(path, geteuid().as_raw())),
        Errno::FBIG => return Some(size_advice()),
        Errno::MFILE => "this process may open no more files: raise the limit (ulimit -n, LimitNOFILE=)",
        Errno::NFILE => "the system may open no more files: raise fs.file-max, or stop other programs",
        Errno::NOSPC => "free some space or inodes there, or use a larger disk",
        Errno::DQUOT => "the quota of this user is used up: free some space, or have it raised",
        Errno::ROFS => "mount that file system for writing, or name a place on another one",
        Errno::IO => "the disk may be failing: see the system's log, and save what is on it",
        Errno::NOMEM => "the system has no memory for this: stop other programs, or raise the limits on memory",
        Errno::LOOP => {
            "it is a symbolic link, which nisd does not follow here, or links lead in a circle: remove the link"
        }
        Errno::ISDIR => "name a file",
        Errno::NOTDIR => "a part of the path is a file: name a folder",
        Errno::NAMETOOLONG => "choose a shorter name",
        Errno::NOLCK => "the file system has no locks left or has none at all: use a local disk",
        Errno::STALE => "the network file system has lost it: mount it again",
        Errno::NXIO | Errno::NODEV => "it is a socket or a device without its hardware: name a regular file",
        Errno::NOTSUP | Errno::NOSYS => "the file system cannot do this: use another one, such as ext4",
        Errno::BUSY => "something else uses it, such as a mount",
        _ => return None,
    };
    Some(advice.to_owned())
}

/// Returns the advice for a file that a user may not use: who may, unless it would be a new one in a folder of root.
fn permission_advice(path: Option<&Path>, user: u32) -> String {
    let path = path.and_then(|path| std::path::absolute(path).ok());
    let is_new = path.as_deref().is_some_and(|path| matches!(if_present(fs::symlink_metadata(path)), Ok(None)));
    let found = |path: &Path| Some((path.to_owned(), fs::metadata(path).ok()?.uid()));
    let existing = path.and_then(|path| path.ancestors().find_map(found));
    match existing.filter(|(_, owner)| *owner != user) {
        Some((folder, 0)) if is_new => format!(
            "this user can create nothing in {}, which belongs to root: create a folder as root and give it to this user \
             (mkdir, chown), or name another one",
            folder.display()
        ),
        Some((_, owner)) => run_as(owner),
        None => {
            "change its permissions, or those of a folder above it, or run the command as a user who may".to_owned()
        }
    }
}

/// Returns how to run a command as another user.
fn run_as(user: u32) -> String {
    match user_name(user) {
        Some(name) => format!("it belongs to the user {name}: run the command as {name} (sudo -u {name} …)"),
        None => format!("it belongs to the user {user}: run the command as that user (sudo -u '#{user}' …)"),
    }
}

/// Returns the name of a user of this machine.
fn user_name(user: u32) -> Option<String> {
    let users = read(Path::new("/etc/passwd"), MAX_USERS_BYTES).ok()?;
    let users = String::from_utf8_lossy(&users);
    let is_user = |line: &&str| line.split(':').nth(2).is_some_and(|number| number.parse() == Ok(user));
    users.lines().find(is_user)?.split(':').next().map(str::to_owned)
}

/// Returns the advice for a file that may not grow.
fn size_advice() -> String {
    match getrlimit(Resource::Fsize).current {
        Some(bytes) => {
            format!("a file of this process may have {bytes} bytes: raise the limit (ulimit -f, LimitFSIZE=)")
        }
        None => "the file system allows no larger files, as FAT32 none above 4 GiB: use another one, such as ext4"
            .to_owned(),
    }
}

/// Reads a file that a user names; one of more than `max` bytes is an error. The content is wiped when it is dropped,
/// since it may hold private keys.
pub fn read(path: &Path, max: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    read_with_mode(path, max).map(|(content, _)| content)
}

/// Like [`read`]; also returns the permissions of the file.
pub fn read_with_mode(path: &Path, max: usize) -> io::Result<(Zeroizing<Vec<u8>>, u32)> {
    let file = open(path)?;
    let metadata = file.metadata()?;
    // With capacity to spare the content is neither moved nor read through another buffer, so wiping leaves no copy.
    let mut content = Zeroizing::new(Vec::with_capacity(metadata.len().min(max as u64) as usize + 64));
    file.take(max as u64 + 1).read_to_end(&mut content)?;
    if content.len() > max {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {max} bytes")));
    }
    Ok((content, metadata.mode() & 0o7777))
}

/// Returns the result of an operation on a file; `None` if there is no such file.
pub fn if_present<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Returns whether a path leads to an open file.
pub fn leads_to(path: &Path, file: &File) -> io::Result<bool> {
    let identity = |file: Metadata| (file.dev(), file.ino());
    match fs::metadata(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        found => Ok(identity(found?) == identity(file.metadata()?)),
    }
}

/// Opens a file that a user names, to read it.
pub fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(flags(OFlags::empty())).open(path);
    require_regular(file.map_err(|error| missing_target(path).unwrap_or(error))?)
}

/// Opens an own file. An error has its path.
pub fn open_own(path: &Path, access: Access) -> io::Result<File> {
    let open = || {
        let mut options = OpenOptions::new();
        options.read(true).write(access != Access::Read).custom_flags(flags(OFlags::NOFOLLOW)).open(path)
    };
    let opened = match open() {
        Err(error) if access == Access::Create && error.kind() == ErrorKind::NotFound => match create_own(path) {
            // Another process has just created it.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => open(),
            created => return created,
        },
        opened => opened,
    };
    opened.and_then(require_regular).map_err(named(path))
}

/// Creates an own file, for the owner of the store. An error has its path.
pub fn create_own(path: &Path) -> io::Result<File> {
    let create = || {
        let owner = owner_beside(path)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(FILE_MODE).open(path)?;
        give(&file, owner).or_else(|error| fs::remove_file(path).and(Err(error)))?;
        Ok(file)
    };
    create().map_err(named(path))
}

/// Creates a folder and those above it, each for the owner of what it lies in. An error has the path.
pub fn create_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        create_folder(above)?;
    }
    match create_new_folder(path) {
        // Another process has just created it.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        created => created,
    }
}

/// Creates a folder, for the owner of what it lies in. [`ErrorKind::AlreadyExists`] if there is one. An error has the path.
pub fn create_new_folder(path: &Path) -> io::Result<()> {
    let create = || match DirBuilder::new().mode(FOLDER_MODE).create(path) {
        Ok(()) => File::open(path)
            .and_then(|folder| give(&folder, owner_beside(path)?))
            .or_else(|error| fs::remove_dir(path).and(Err(error))),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Err(error),
        Err(error) => Err(missing_target(path).unwrap_or_else(|| match error.kind() {
            kind @ (ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => io::Error::new(kind, NO_FOLDER),
            _ => error,
        })),
    };
    create().map_err(named(path))
}

/// Replaces an own file atomically: a link in its place is replaced, not followed. Returns once it is on the disk if it
/// must be durable. An error has the path.
pub fn replace_own(path: &Path, parts: &[&[u8]], is_durable: bool) -> io::Result<()> {
    replace(path, parts, is_durable, None).map_err(named(path))
}

/// Replaces a file that a user names, and waits until it is on the disk: atomically, or, where a file cannot be replaced,
/// since it is mounted alone or its folder is read-only, in place. It keeps its permissions and its group.
pub fn replace_named(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let path = &link_target(path);
    let replaced = fs::symlink_metadata(path).ok().filter(Metadata::is_file);
    replace(path, parts, true, replaced.as_ref()).or_else(|error| replace_in_place(path, parts, error))
}

/// Gives a file the permissions and the group of the one that it replaces. A group that this user may not give has no access.
fn keep_access(file: &File, replaced: &Metadata) -> io::Result<()> {
    const GROUP: u32 = 0o070;
    let group = replaced.gid();
    let has_group = file.metadata()?.gid() == group || fchown(file, None, Some(group)).is_ok();
    let mode = replaced.mode() & 0o777;
    file.set_permissions(Permissions::from_mode(if has_group { mode } else { mode & !GROUP }))
}

/// Writes a file that cannot be replaced because of `error`, if that says nothing about the file itself.
fn replace_in_place(path: &Path, parts: &[&[u8]], error: io::Error) -> io::Result<()> {
    let is_fixed = matches!(errno(&error), Some(Errno::ACCESS | Errno::PERM | Errno::BUSY | Errno::ROFS));
    let open = || OpenOptions::new().write(true).custom_flags(flags(OFlags::empty())).open(path);
    let Some(file) = is_fixed.then(open).and_then(Result::ok) else { return Err(error) };
    let (file, content) = (require_regular(file)?, parts.concat());
    file.write_all_at(&content, 0)?;
    file.set_len(content.len() as u64)?;
    file.sync_all()
}

/// Replaces a file atomically; the new one has the access to `replaced`, or is for its owner only.
fn replace(path: &Path, parts: &[&[u8]], is_durable: bool, replaced: Option<&Metadata>) -> io::Result<()> {
    let file = new_file(path, FILE_MODE, parts)?;
    replaced.map_or(Ok(()), |replaced| keep_access(file.as_file(), replaced))?;
    install(file, path, is_durable)
}

/// Gives a complete file its name, in place of an earlier file. Returns once it is on the disk if it must be durable.
fn install(file: NamedTempFile, path: &Path, is_durable: bool) -> io::Result<()> {
    if is_durable {
        file.as_file().sync_all()?;
    }
    file.persist(path).map_err(|rejected| rejected.error)?;
    // The folder has the new name on the disk, too.
    if is_durable { sync_folder(folder_of(path)) } else { Ok(()) }
}

/// Creates a file that a user names, with its whole content or not at all, and waits until it is on the disk.
/// [`ErrorKind::AlreadyExists`] if there is one.
pub fn create_named(path: &Path, parts: &[&[u8]], mode: u32) -> io::Result<()> {
    let file = new_file(path, mode, parts)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map_err(|rejected| rejected.error)?;
    sync_folder(folder_of(path))
}

/// Makes renames in a folder durable, if its file system can synchronise folders.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        Err(error) if errno(&error) == Some(Errno::INVAL) => Ok(()),
        synced => synced,
    }
}

/// What a user names to be written. A file that exists stays as it is until the new one is complete and takes its place.
/// Anything but a regular file, such as a pipe, is written directly.
#[derive(Debug)]
pub enum Output {
    /// A file that is to take the place of the one at this path.
    File(NamedTempFile, PathBuf),
    /// Something without content that could be replaced.
    Stream(File),
}

impl Output {
    /// Begins to write to a path. Links are followed. Waits for the reader of a pipe.
    pub fn create(path: &Path) -> io::Result<Output> {
        let target = link_target(path);
        let Some(found) = if_present(fs::metadata(path))? else {
            if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
                return Err(Errno::ISDIR.into());
            }
            return Ok(Output::File(unfinished(&target, SHARED_MODE)?, target));
        };
        // A file that may not be written may not be replaced either.
        let present = OpenOptions::new().write(true).open(path)?;
        let identity = |file: &Metadata| (file.dev(), file.ino());
        // A link below /proc may lead to a file without a name.
        let has_name = fs::metadata(&target).is_ok_and(|named| identity(&named) == identity(&found));
        if !found.is_file() {
            return Ok(Output::Stream(present));
        }
        if !has_name {
            present.set_len(0)?;
            return Ok(Output::Stream(present));
        }
        let file = unfinished(&target, SHARED_MODE)?;
        file.as_file().set_permissions(found.permissions())?;
        Ok(Output::File(file, target))
    }

    /// Returns what to write to.
    pub fn file(&self) -> &File {
        match self {
            Output::File(file, _) => file.as_file(),
            Output::Stream(file) => file,
        }
    }

    /// Waits until all is on the disk, and gives the file its name.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Output::File(file, path) => install(file, &path, true),
            // A pipe has no disk.
            Output::Stream(file) => match file.sync_all() {
                Err(error) if error.kind() != ErrorKind::InvalidInput => Err(error),
                _ => Ok(()),
            },
        }
    }
}

/// Writes a temporary file beside `path`, which is to get that name.
fn new_file(path: &Path, mode: u32, parts: &[&[u8]]) -> io::Result<NamedTempFile> {
    let file = unfinished(path, mode)?;
    for part in parts {
        // An error of the temporary file itself would have its path instead of the system's number.
        file.as_file().write_all(part)?;
    }
    Ok(file)
}

/// Creates a temporary file beside `path`, and removes those of killed commands there. A command that writes holds a lock on
/// its own. Dropping it removes it.
fn unfinished(path: &Path, mode: u32) -> io::Result<NamedTempFile> {
    /// Seconds for which a file may be without its lock.
    const NEW: i64 = 60;
    // A file that is replaced keeps its owner.
    let owner = match fs::symlink_metadata(path) {
        Ok(replaced) if geteuid().is_root() && replaced.is_file() => Some((replaced.uid(), replaced.gid())),
        _ => owner_beside(path)?,
    };
    let create = |path: &Path| OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(path);
    let file = tempfile::Builder::new().prefix(UNFINISHED).make_in(folder_of(path), create)?;
    give(file.as_file(), owner)?;
    // Without locks nothing is removed.
    let _ = file.as_file().try_lock();
    let now = file.as_file().metadata()?.mtime();
    let beside = fs::read_dir(folder_of(path)).into_iter().flatten().flatten();
    for left in beside.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes())) {
        let is_abandoned = |file: File| Ok(file.metadata()?.mtime() + NEW < now && file.try_lock().is_ok());
        if open_own(&left.path(), Access::Read).and_then(is_abandoned).unwrap_or(false) {
            // It may be another user's.
            let _ = fs::remove_file(left.path());
        }
    }
    Ok(file)
}

/// Returns user and group for what this process creates beside a store or in a folder, if they are others than its own.
/// Only root can give files away. For other users it is an error to create a file beside somebody's store, who could not
/// use it; in a folder of others without a store they are on their own.
fn owner_beside(path: &Path) -> io::Result<Option<(u32, u32)>> {
    let folder = folder_of(path);
    let data = folder.join(DATA_FILE);
    let store = fs::symlink_metadata(&data).ok().filter(|_| data != path);
    let (own, is_store) = (geteuid(), store.is_some());
    let found = store.map_or_else(|| fs::metadata(folder), Ok)?;
    match (found.uid(), found.gid()) {
        (user, _) if user == own.as_raw() => Ok(None),
        owner if own.is_root() => Ok(Some(owner)),
        (user, _) if is_store => {
            let advice = if fs::metadata(folder)?.uid() == own.as_raw() {
                let [owner, own] = [user, own.as_raw()].map(|user| user_name(user).unwrap_or_else(|| user.to_string()));
                let data = data.display();
                format!("{data} belongs to the user {owner}: give it to this one (sudo chown {own} {data})")
            } else {
                run_as(user)
            };
            let text = format!("nobody but the owner of the store could use this file; {advice}");
            Err(io::Error::new(ErrorKind::PermissionDenied, text))
        }
        _ => Ok(None),
    }
}

/// Gives a new file to its owner, which some file systems have done.
fn give(file: &File, owner: Option<(u32, u32)>) -> io::Result<()> {
    match owner {
        Some((user, group)) if file.metadata()?.uid() != user => fchown(file, Some(user), Some(group)),
        _ => Ok(()),
    }
}

/// Returns whether there is something at a path. If that cannot be found out there is, so that whoever opens it gets the
/// error that says why.
pub fn exists(path: &Path) -> bool {
    let is_missing = |error: io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    fs::metadata(path).map_or_else(|error| !is_missing(error), |_| true)
}

/// Returns the folder in which a file lies.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the file to which a path leads over all links, even if it does not exist.
pub fn link_target(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = fs::read_link(&path) else { break };
        path = folder_of(&path).join(target);
    }
    path
}

/// Returns an error that names the missing target of a link, if a path is one or lies below one.
pub fn missing_target(path: &Path) -> Option<io::Error> {
    let is_dangling = |path: &&Path| path.is_symlink() && matches!(path.try_exists(), Ok(false));
    let link = path.ancestors().find(is_dangling)?;
    let target = link_target(link);
    let place = if link == path { "it".to_owned() } else { link.display().to_string() };
    let text = format!(
        "{place} is a symbolic link to {}, which does not exist; create that or mount its disk, or remove the link",
        target.display()
    );
    Some(io::Error::other(text))
}

/// Returns flags for opening a file without waiting for another process.
fn flags(more: OFlags) -> i32 {
    (more | OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32
}

/// Rejects whatever is not a regular file.
fn require_regular(file: File) -> io::Result<File> {
    check_kind(&file.metadata()?).map(|()| file)
}

/// Fails if there is no regular file in a place that a user names. Opens nothing: whoever writes to a pipe would notice.
pub fn check_regular(path: &Path) -> io::Result<()> {
    check_kind(&fs::metadata(path).map_err(|error| missing_target(path).unwrap_or(error))?)
}

fn check_kind(found: &Metadata) -> io::Result<()> {
    let name = match FileType::from_raw_mode(found.mode() as RawMode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "a folder",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {name}, not a regular file")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    fn text<T>(result: io::Result<T>) -> String {
        result.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn whatever_is_no_regular_file_is_rejected_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, socket] = ["pipe", "socket"].map(|name| folder.path().join(name));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let _listener = UnixListener::bind(&socket).unwrap();
        for (path, expected) in [
            (pipe.as_path(), "it is a pipe, not a regular file"),
            (folder.path(), "it is a folder, not a regular file"),
            (Path::new("/dev/null"), "it is a device, not a regular file"),
        ] {
            assert_eq!(text(read(path, 1)), expected);
            assert_eq!(text(open_own(path, Access::Read)), format!("{}: {expected}", path.display()));
        }
        assert!(text(open_own(&pipe, Access::Create)).ends_with("it is a pipe, not a regular file"));
        assert!(describe(&read(&socket, 1).unwrap_err()).contains("it is a socket"));
    }

    #[test]
    fn links_are_followed_to_files_of_a_user_and_not_to_own_files() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "content").unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(**read(&link, 7).unwrap(), *b"content");
        assert!(text(read(&link, 6)).contains("more than 6 bytes"));
        for access in [Access::Read, Access::Change, Access::Create] {
            let error = open_own(&link, access).unwrap_err();
            assert!(describe(&error).starts_with(&format!("{}: ", link.display())), "{error}");
            assert!(describe(&error).contains("symbolic link"), "{error}");
        }
        assert!(text(create_own(&link)).contains("exists"));
        replace_named(&link, &[b"through ", b"link"]).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"through link");
        replace_own(&link, &[b"own"], true).unwrap();
        assert!(!link.is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"through link");
    }

    #[test]
    fn a_link_without_a_target_is_an_error_that_names_it_and_is_filled_by_a_replacement() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, way] = ["file", "link", "way"].map(|name| folder.path().join(name));
        symlink("link", &way).unwrap();
        symlink(&file, &link).unwrap();
        for result in [read(&way, 1).map(drop), create_folder(&way), create_folder(&way.join("store"))] {
            let error = result.unwrap_err();
            assert!(error.to_string().contains(&format!("a symbolic link to {}, which", file.display())), "{error}");
            assert_ne!(error.kind(), ErrorKind::NotFound);
        }
        replace_named(&way, &[b"new"]).unwrap();
        assert_eq!(**read(&way, 3).unwrap(), *b"new");
    }

    #[test]
    fn a_file_that_cannot_be_replaced_is_written_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "a longer content").unwrap();
        let inode = || fs::metadata(&file).unwrap().ino();
        let before = inode();
        for error in [Errno::BUSY, Errno::ROFS, Errno::ACCESS] {
            replace_in_place(&file, &[b"short"], error.into()).unwrap();
            assert_eq!((fs::read(&file).unwrap(), inode()), (b"short".to_vec(), before));
        }
        let error = replace_in_place(&file, &[b""], Errno::NOSPC.into()).unwrap_err();
        assert_eq!((errno(&error), fs::read(&file).unwrap()), (Some(Errno::NOSPC), b"short".to_vec()));
        let absent = folder.path().join("absent");
        assert_eq!(errno(&replace_in_place(&absent, &[], Errno::ROFS.into()).unwrap_err()), Some(Errno::ROFS));
    }

    #[test]
    fn a_named_output_takes_the_place_of_a_file_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, new] = ["file", "link", "new"].map(|name| folder.path().join(name));
        fs::write(&file, "earlier").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
        symlink(&file, &link).unwrap();
        let write = |path: &Path| {
            let output = Output::create(path).unwrap();
            output.file().write_all(b"later").unwrap();
            output
        };
        drop(write(&link));
        assert_eq!(fs::read(&file).unwrap(), b"earlier");
        write(&link).finish().unwrap();
        assert!(link.is_symlink());
        let mode = fs::metadata(&file).unwrap().mode() & 0o777;
        assert_eq!((fs::read(&file).unwrap(), mode), (b"later".to_vec(), 0o604));

        drop(write(&new));
        assert!(!new.exists());
        write(&new).finish().unwrap();
        assert_eq!(fs::read(&new).unwrap(), b"later");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "temporary files stay behind");

        // Killed commands have left two files, a running one has one.
        let left = ["nisd-unfinished-a", "nisd-unfinished-b", "nisd-unfinished-c"].map(|name| folder.path().join(name));
        let left = left.map(|path| (File::create(&path).unwrap(), path));
        let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3_600);
        left[1..].iter().for_each(|(file, _)| file.set_modified(hour_ago).unwrap());
        left[2].0.lock().unwrap();
        drop(write(&new));
        assert_eq!(left.each_ref().map(|(_, path)| path.exists()), [true, false, true]);
        left.iter().filter(|(_, path)| path.exists()).for_each(|(_, path)| fs::remove_file(path).unwrap());
        for path in [folder.path(), &folder.path().join("none/")] {
            assert_eq!(errno(&Output::create(path).unwrap_err()), Some(Errno::ISDIR));
        }
    }

    #[test]
    fn an_output_without_a_name_is_written_directly() {
        let folder = tempfile::tempdir().unwrap();
        write_to(Path::new("/dev/null"));
        let file = tempfile::tempfile_in(folder.path()).unwrap();
        file.write_all_at(b"a longer content", 0).unwrap();
        let path = format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&file));
        write_to(Path::new(&path));
        let mut content = [0; 7];
        assert_eq!(file.read_at(&mut content, 0).unwrap(), 7);
        assert_eq!(&content, b"content");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

        fn write_to(path: &Path) {
            let output = Output::create(path).unwrap();
            assert!(matches!(output, Output::Stream(_)), "{output:?}");
            output.file().write_all(b"content").unwrap();
            output.finish().unwrap();
        }
    }

    #[test]
    fn a_new_file_of_a_user_never_replaces_another() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        create_named(&file, &[b"a ", b"file"], 0o644).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"a file");
        symlink(folder.path().join("missing"), &link).unwrap();
        for path in [&file, &link] {
            assert_eq!(create_named(path, &[b"another"], 0o644).unwrap_err().kind(), ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read(&file).unwrap(), b"a file");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "temporary files stay behind");
    }

    #[test]
    fn an_error_of_a_temporary_file_has_the_number_of_the_system_and_no_other_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for (path, expected) in [(file.join("below"), Errno::NOTDIR), (folder.path().join("none/file"), Errno::NOENT)] {
            let errors = [
                replace_named(&path, &[b"content"]).unwrap_err(),
                create_named(&path, &[b"content"], FILE_MODE).unwrap_err(),
            ];
            for error in errors {
                assert_eq!(errno(&error), Some(expected), "{error}");
            }
        }
    }

    #[test]
    fn own_files_are_private_and_folders_are_open_to_their_owner_for_writing_only() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a/b");
        create_folder(&place).unwrap();
        create_folder(&place).unwrap();
        let [new, replaced] = ["new", "replaced"].map(|name| place.join(name));
        drop(open_own(&new, Access::Create).unwrap());
        replace_own(&replaced, &[], false).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&new), mode(&replaced)], [0o600, 0o600]);
        assert_eq!(mode(&place) & 0o022, 0);
        fs::write(folder.path().join("file"), "").unwrap();
        let file = folder.path().join("file");
        for (path, at) in [(&file, &file), (&file.join("below"), &file)] {
            let expected = format!("{}: it is a file, or lies below one; name a folder", at.display());
            assert_eq!(create_folder(path).unwrap_err().to_string(), expected);
        }
        let below = file.join("below");
        let expected = format!("{}: it is a file, or lies below one; name a folder", below.display());
        assert_eq!(create_new_folder(&below).unwrap_err().to_string(), expected);
    }

    #[test]
    fn a_replaced_file_of_a_user_keeps_its_permissions_and_its_group() {
        let folder = tempfile::tempdir().unwrap();
        let [file, new] = ["file", "new"].map(|name| folder.path().join(name));
        let access = |path: &Path| fs::metadata(path).map(|found| (found.mode() & 0o777, found.gid())).unwrap();
        fs::write(&file, "before").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        if geteuid().is_root() {
            std::os::unix::fs::chown(&file, None, Some(4321)).unwrap();
        }
        let before = access(&file);
        for path in [&file, &new] {
            replace_named(path, &[b"after"]).unwrap();
        }
        assert_eq!((access(&file), fs::read(&file).unwrap()), (before, b"after".to_vec()));
        assert_eq!(access(&new).0, 0o600);
        replace_own(&file, &[], false).unwrap();
        assert_eq!(access(&file).0, 0o600);
    }

    /// Nobody else can give files away.
    #[test]
    fn what_root_creates_belongs_to_the_owner_of_the_store_or_folder() {
        if !geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        let owner = |path: &Path| fs::metadata(path).map(|found| (found.uid(), found.gid())).unwrap();
        std::os::unix::fs::chown(place, Some(1234), Some(4321)).unwrap();
        create_folder(&place.join("a/b")).unwrap();
        drop(create_own(&place.join("a/b/file")).unwrap());
        replace_own(&place.join("replaced"), &[], true).unwrap();
        for name in ["a", "a/b", "a/b/file", "replaced"] {
            assert_eq!(owner(&place.join(name)), (1234, 4321), "{name}");
        }
        drop(create_own(&place.join(DATA_FILE)).unwrap());
        assert_eq!(owner(&place.join(DATA_FILE)), (1234, 4321));
        std::os::unix::fs::chown(place.join(DATA_FILE), Some(77), Some(78)).unwrap();
        drop(create_own(&place.join("beside")).unwrap());
        assert_eq!(owner(&place.join("beside")), (77, 78));
        replace_named(&place.join("replaced"), &[]).unwrap();
        assert_eq!(owner(&place.join("replaced")), (1234, 4321));
        assert!(permission_advice(Some(&place.join("beside")), 0).contains("sudo -u '#77'"));
    }

    #[test]
    fn nobody_is_told_to_be_root_for_a_new_folder() {
        const NOBODY: u32 = 65534;
        for missing in ["/nonexistent", "/nonexistent/nem/nisd"] {
            let advice = permission_advice(Some(Path::new(missing)), NOBODY);
            assert!(
                advice.contains("nothing in /, which belongs to root") && advice.contains("name another one"),
                "{advice}"
            );
        }
        let advice = permission_advice(Some(Path::new("/etc/passwd")), NOBODY);
        assert!(advice.contains("run the command as root"), "{advice}");
    }

    #[test]
    fn each_error_of_the_system_has_its_own_advice() {
        let errors = [
            Errno::ACCESS,
            Errno::FBIG,
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOSPC,
            Errno::DQUOT,
            Errno::ROFS,
            Errno::IO,
            Errno::NOMEM,
            Errno::LOOP,
            Errno::STALE,
        ];
        let advices: Vec<_> = errors.iter().filter_map(|error| advice(&(*error).into(), None)).collect();
        let mut different = advices.clone();
        different.sort();
        different.dedup();
        assert_eq!((advices.len(), different.len()), (errors.len(), errors.len()), "{advices:?}");
        let failing = |error: &&Errno| advice(&(**error).into(), None).unwrap().contains("may be failing");
        assert_eq!(errors.iter().filter(failing).collect::<Vec<_>>(), [&Errno::IO]);
        assert!(advices[1].contains("ulimit -f") || advices[1].contains("FAT32"));
        assert_eq!(user_name(0).as_deref(), Some("root"));
    }
}
