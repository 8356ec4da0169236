//! A helper process that waits for disk synchronisation, so that the node does not block.
//!
//! The helper is this program, started with an internal argument. Its standard input is the data file of the store, its
//! standard output the record of what is durable, each opened for the helper alone, and its standard error a socket. A
//! byte received on the socket names one of the files; the helper synchronises it and replies with one byte: 0, or the
//! number of the system's error. It decides nothing, opens nothing, and ends when the node does, for whatever reason.
//!
//! If the helper cannot be started or has ended, the node waits for the disk itself and answers no client meanwhile.

use std::error::Error;
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

use crate::store::{Store, SyncFile};

/// The argument that makes a process the helper.
const ARGUMENT: &str = "wait-for-disk";
/// Poll token of the helper's socket.
pub const TOKEN: Token = Token(1);
/// Minimum time between two starts of a helper.
const START_INTERVAL: Duration = Duration::from_secs(60);

/// The helper of a store, if one is running.
pub struct DiskHelper<'a> {
    store: &'a Store,
    registry: Registry,
    running: Option<Running>,
    /// A helper that has ended or is ending; another one is started only after its exit.
    exiting: Option<Child>,
    next_start: Duration,
    /// Whether the failure to start a helper was logged.
    failure_logged: bool,
}

struct Running {
    child: Child,
    socket: UnixStream,
}

impl<'a> DiskHelper<'a> {
    /// Starts a helper for a store and registers its socket.
    pub fn start(store: &'a Store, registry: &Registry, uptime: Duration) -> io::Result<DiskHelper<'a>> {
        let registry = registry.try_clone()?;
        let mut helper =
            DiskHelper { store, registry, running: None, exiting: None, next_start: uptime, failure_logged: false };
        helper.try_start(uptime);
        Ok(helper)
    }

    /// Reads the helper's replies.
    pub fn read_replies(&mut self) {
        let Some(helper) = &mut self.running else { return };
        let mut answer = [0];
        loop {
            match helper.socket.read(&mut answer) {
                Ok(0) => return self.drop_helper("has ended"),
                Ok(_) => self.store.on_synced(match answer {
                    [0] => Ok(()),
                    [error] => Err(io::Error::from_raw_os_error(error.into())),
                }),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.drop_helper(&format!("cannot be read from ({error})")),
            }
        }
    }

    /// Requests the next synchronisation that the store needs. Starts another helper if none is running and one is due.
    pub fn request_sync(&mut self, uptime: Duration) {
        if self.running.is_none() {
            // Its exit may take long if it waits for a dead disk.
            self.exiting.take_if(|child| !matches!(child.try_wait(), Ok(None)));
            if self.exiting.is_none() && uptime >= self.next_start {
                self.try_start(uptime);
            }
        }
        let Some(helper) = &mut self.running else { return };
        let Some(file) = self.store.next_sync() else { return };
        // The socket has space: at most one byte is in flight.
        if let Err(error) = helper.socket.write_all(&[file as u8]) {
            self.drop_helper(&format!("cannot be written to ({error})"));
        }
    }

    fn try_start(&mut self, uptime: Duration) {
        self.next_start = uptime + START_INTERVAL;
        match self.spawn_helper() {
            Ok(None) => {}
            Ok(Some(helper)) => {
                self.running = Some(helper);
                self.failure_logged = false;
                self.store.set_helper(true);
            }
            Err(error) => {
                if !std::mem::replace(&mut self.failure_logged, true) {
                    log::warn!(
                        "no helper process can wait for the disk ({error}): the node does, and requests wait meanwhile"
                    );
                }
            }
        }
    }

    fn spawn_helper(&self) -> Result<Option<Running>, Box<dyn Error>> {
        let Some([data, record]) = self.store.helper_files()? else { return Ok(None) };
        let (ours, theirs) = BlockingStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::new(own_program()?);
        command.arg(ARGUMENT).current_dir("/");
        command.stdin(data).stdout(record).stderr(OwnedFd::from(theirs));
        let child = command.spawn()?;
        // The command holds a copy of the helper's end of the socket; dropping it closes the copy.
        drop(command);
        let mut socket = UnixStream::from_std(ours);
        self.registry.register(&mut socket, TOKEN, Interest::READABLE)?;
        Ok(Some(Running { child, socket }))
    }

    /// Drops the helper. The node finishes its pending synchronisation itself.
    fn drop_helper(&mut self, why: &str) {
        if let Some(Running { mut child, .. }) = self.running.take() {
            let _ = child.kill();
            self.exiting = Some(child);
            log::warn!(
                "the helper process that waits for the disk {why}; the node waits itself until it has another one"
            );
        }
        self.store.set_helper(false);
    }
}

impl Drop for DiskHelper<'_> {
    /// On exit the node waits for the disk itself; the helper ends when its socket closes.
    fn drop(&mut self) {
        self.store.set_helper(false);
    }
}

/// Returns the path of this program, even if its file was replaced since it was started.
fn own_program() -> io::Result<PathBuf> {
    const ITSELF: &str = "/proc/self/exe";
    match cfg!(target_os = "linux") {
        true => Ok(ITSELF.into()),
        false => std::env::current_exe(),
    }
}

/// Runs the helper, if this process was started as one: its only argument is the internal one, and its standard error
/// is a socket.
pub fn run_if_helper<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Option<ExitCode> {
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
    // Signals are for the node: it stops after its last writes, and the helper stops with it.
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
            Ok(_) if asked == [SyncFile::Data as u8] => data.sync_data(),
            Ok(_) if asked == [SyncFile::Record as u8] => record.sync_data(),
            Ok(_) => Err(ErrorKind::InvalidInput.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        node.write_all(&[result.map_or_else(|error| errno_byte(&error), |()| 0)])?;
    }
}

/// Returns the number of an error as a byte; `EIO` if it has none that fits.
fn errno_byte(error: &io::Error) -> u8 {
    let number = error.raw_os_error().and_then(|number| u8::try_from(number).ok()).filter(|number| *number > 0);
    number.unwrap_or(rustix::io::Errno::IO.raw_os_error() as u8)
}
