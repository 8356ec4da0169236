//! A helper process that waits for the disk, so that the node does not.
//!
//! It is this program, started with one argument that people do not use. Its standard input is the data file of the
//! store, its standard output the record of what is durable, each opened for it alone, and its standard error a socket. A
//! byte that comes through the socket names one of the files; the helper synchronises it and answers with a byte, the
//! number of the system's error or 0. It decides nothing, opens nothing, and ends when the node does, however that comes.
//!
//! Where it cannot be started, or has ended, the node waits for the disk itself, and answers nobody meanwhile.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mio::net::UnixStream;
use mio::{Interest, Registry, Token};
use rustix::fs::FileType;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::store::{Store, StoreError, SyncFile};

/// The argument that makes a process the helper.
const ARGUMENT: &str = "wait-for-disk";
/// The event of an answer.
pub const TOKEN: Token = Token(1);
/// From one start of a helper to the next at least.
const START_EVERY: Duration = Duration::from_secs(60);
/// What asks for a file.
const DATA: u8 = b'd';
const RECORD: u8 = b'r';

/// The helper of a store, as far as there is one.
pub struct DiskHelper<'a> {
    store: &'a Store,
    registry: Registry,
    running: Option<Running>,
    /// One that has ended or is about to; another is started once it is gone.
    ended: Option<Child>,
    next_start: Duration,
    /// The operator knows that none can be started.
    is_told: bool,
}

struct Running {
    child: Child,
    socket: UnixStream,
}

impl<'a> DiskHelper<'a> {
    /// Starts a helper for a store, whose answers are events of a poll.
    pub fn start(store: &'a Store, registry: &Registry, running: Duration) -> io::Result<DiskHelper<'a>> {
        let registry = registry.try_clone()?;
        let mut helper =
            DiskHelper { store, registry, running: None, ended: None, next_start: running, is_told: false };
        helper.try_start(running);
        Ok(helper)
    }

    /// Takes the answers that have come.
    pub fn hear(&mut self) {
        let Some(helper) = &mut self.running else { return };
        let mut answer = [0];
        loop {
            match helper.socket.read(&mut answer) {
                Ok(0) => return self.lose("has ended"),
                Ok(_) => self.store.synced(match answer {
                    [0] => Ok(()),
                    [error] => Err(io::Error::from_raw_os_error(error.into())),
                }),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.lose(&format!("cannot be heard ({error})")),
            }
        }
    }

    /// Asks for what the store wants synchronised. Starts another helper if there is none and the time has come.
    pub fn ask(&mut self, running: Duration) {
        if self.running.is_none() {
            self.look_after_ended();
            if self.ended.is_none() && running >= self.next_start {
                self.try_start(running);
            }
        }
        let Some(helper) = &mut self.running else { return };
        let Some(file) = self.store.next_sync() else { return };
        let byte = match file {
            SyncFile::Data => DATA,
            SyncFile::Record => RECORD,
        };
        // There is room: one byte is under way at a time.
        if let Err(error) = helper.socket.write_all(&[byte]) {
            self.lose(&format!("cannot be asked ({error})"));
        }
    }

    /// One that waits for a dead disk may take long to end.
    fn look_after_ended(&mut self) {
        if self.ended.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None))) {
            self.ended = None;
        }
    }

    fn try_start(&mut self, running: Duration) {
        self.next_start = running + START_EVERY;
        match self.started() {
            Ok(None) => {}
            Ok(Some(helper)) => {
                self.running = Some(helper);
                self.is_told = false;
                self.store.set_helper(true);
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_told, true) {
                    log::warn!(
                        "no helper process can wait for the disk ({error}): the node does, and answers nobody then"
                    );
                }
            }
        }
    }

    fn started(&self) -> Result<Option<Running>, StartError> {
        let Some([data, record]) = self.store.files_of_helper()? else { return Ok(None) };
        let (ours, theirs) = BlockingStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::new(own_program()?);
        command.arg(ARGUMENT).current_dir("/");
        command.stdin(data).stdout(record).stderr(OwnedFd::from(theirs));
        let child = command.spawn()?;
        // Its end of the socket closes with it: the command holds a copy.
        drop(command);
        let mut socket = UnixStream::from_std(ours);
        self.registry.register(&mut socket, TOKEN, Interest::READABLE)?;
        Ok(Some(Running { child, socket }))
    }

    /// There is no helper any more. What it was at, the node does itself.
    fn lose(&mut self, why: &str) {
        if let Some(Running { mut child, .. }) = self.running.take() {
            let _ = child.kill();
            self.ended = Some(child);
            log::warn!("the helper process that waits for the disk {why}; the node does until there is another");
        }
        self.store.set_helper(false);
    }
}

impl Drop for DiskHelper<'_> {
    /// The node ends: it waits for the disk itself, and the helper ends with the socket.
    fn drop(&mut self) {
        self.store.set_helper(false);
    }
}

/// Why no helper was started.
#[derive(Debug)]
enum StartError {
    Store(StoreError),
    System(io::Error),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartError::Store(error) => error.fmt(f),
            StartError::System(error) => error.fmt(f),
        }
    }
}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> StartError {
        StartError::Store(error)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> StartError {
        StartError::System(error)
    }
}

/// This program, also if its file was replaced since it was started.
fn own_program() -> io::Result<PathBuf> {
    const ITSELF: &str = "/proc/self/exe";
    match cfg!(target_os = "linux") {
        true => Ok(ITSELF.into()),
        false => std::env::current_exe(),
    }
}

/// What the helper does, if this process was started as one: its only argument says so, and its standard error is a
/// socket.
pub fn serve_if_asked<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    let is_asked = arguments.next().is_some_and(|argument| argument.as_ref() == ARGUMENT) && arguments.next().is_none();
    let is_socket = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
    let is_helper = is_asked && rustix::fs::fstat(io::stderr()).is_ok_and(is_socket);
    is_helper.then(|| match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

fn serve() -> io::Result<()> {
    // Signals are for the node: it ends when it has written what it has, and the helper with it.
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, ignored.clone())?;
    }
    let own = |stream: &dyn AsFd| stream.as_fd().try_clone_to_owned();
    let (data, record) = (File::from(own(&io::stdin())?), File::from(own(&io::stdout())?));
    let mut node = BlockingStream::from(own(&io::stderr())?);
    let mut asked = [0];
    loop {
        let result = match node.read(&mut asked) {
            Ok(0) => return Ok(()),
            Ok(_) if asked == [DATA] => data.sync_data(),
            Ok(_) if asked == [RECORD] => record.sync_data(),
            Ok(_) => Err(ErrorKind::InvalidInput.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        node.write_all(&[result.map_or_else(|error| number(&error), |()| 0)])?;
    }
}

/// The number of an error in a byte; there are no larger ones.
fn number(error: &io::Error) -> u8 {
    let number = error.raw_os_error().and_then(|number| u8::try_from(number).ok()).filter(|number| *number > 0);
    number.unwrap_or(rustix::io::Errno::IO.raw_os_error() as u8)
}
