//! Helper processes: they wait, so that the node does not.
//!
//! A helper is this program, started with an internal argument that names its job. Its standard error is a socket. The
//! node writes a request, behind its length in four bytes, and the helper answers it in the same form; a helper has one
//! request at a time. A helper decides nothing and ends when the node does, for whatever reason. It may die at any moment.

use std::error::Error;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as BlockingStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mio::net::UnixStream;
use mio::{Interest, Registry, Token};
use rustix::fs::FileType;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{disk_sync, reader, resolver};
use crate::files;

/// Longest request in bytes: that of a [`reader`], with the path of the store. It fits into the buffer of a socket.
pub const MAX_REQUEST: usize = 100 << 10;
/// Longest answer in bytes.
pub const MAX_ANSWER: usize = 1024;

/// What answers the requests to a helper.
pub type Answerer = Box<dyn FnMut(&[u8]) -> Vec<u8>>;

/// What a helper does.
pub struct Job {
    /// The argument that makes a process a helper with this job.
    pub argument: &'static str,
    /// What the helper does, for people.
    pub purpose: &'static str,
    /// What follows if it cannot be started.
    pub consequence: &'static str,
    /// Minimum time between two starts.
    pub start_interval: Duration,
    /// Begins the job in the helper, given its standard input and output. Returns what answers its requests.
    pub begin: fn([File; 2]) -> Answerer,
}

/// All jobs.
const JOBS: [&Job; 3] = [&disk_sync::JOB, &resolver::JOB, &reader::JOB];

/// A helper process, if it is running.
pub struct Helper {
    job: &'static Job,
    token: Token,
    registry: Registry,
    running: Option<Running>,
    /// A process that has ended or is ending; another one is started only after its exit.
    exiting: Option<Child>,
    next_start: Duration,
    /// Whether the failure to start was logged.
    failure_logged: bool,
}

struct Running {
    child: Child,
    socket: UnixStream,
    /// The answer as far as it has arrived, with its length.
    received: Vec<u8>,
    /// When the request was written that is not answered.
    asked_at: Option<Duration>,
}

impl Helper {
    /// Returns a helper that is not running. `token` is that of its socket.
    pub fn new(job: &'static Job, token: Token, registry: &Registry) -> io::Result<Helper> {
        let registry = registry.try_clone()?;
        let next_start = Duration::ZERO;
        Ok(Helper { job, token, registry, running: None, exiting: None, next_start, failure_logged: false })
    }

    /// Returns whether the helper is running.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Returns when the request was written that the helper is working on.
    pub fn asked_at(&self) -> Option<Duration> {
        self.running.as_ref()?.asked_at
    }

    /// Returns how long the process has run, as a text of the system that changes whenever it runs; empty if it does not
    /// run, or the system does not tell.
    pub fn run_time(&self) -> Vec<u8> {
        let read = |running: &Running| fs::read(format!("/proc/{}/schedstat", running.child.id())).ok();
        self.running.as_ref().and_then(read).unwrap_or_default()
    }

    /// Starts the process, unless it runs, an earlier one is still exiting, or the last start was a moment ago. `files`
    /// are its standard input and output, or nothing if there is no work for it. `now` is the time since the start of
    /// the program. Returns whether it was started; a failure is logged once.
    pub fn start(&mut self, files: impl FnOnce() -> Result<Option<[Stdio; 2]>, Box<dyn Error>>, now: Duration) -> bool {
        // The exit may take long if the process waits for a dead disk.
        self.exiting.take_if(|child| !matches!(child.try_wait(), Ok(None)));
        if self.running.is_some() || self.exiting.is_some() || now < self.next_start {
            return false;
        }
        self.next_start = now + self.job.start_interval;
        let started = files().and_then(|files| files.map(|files| self.spawn(files)).transpose());
        let is_logged = std::mem::replace(&mut self.failure_logged, started.is_err());
        if let (Err(error), false) = (&started, is_logged) {
            let Job { purpose, consequence, .. } = self.job;
            log::warn!("no helper process can {purpose} ({error}): {consequence}");
        }
        self.running = started.ok().flatten();
        self.running.is_some()
    }

    fn spawn(&self, [input, output]: [Stdio; 2]) -> Result<Running, Box<dyn Error>> {
        let (ours, theirs) = BlockingStream::pair()?;
        ours.set_nonblocking(true)?;
        // The path of this program, even if its file was replaced since it was started.
        let own = if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { std::env::current_exe()? };
        let mut command = Command::new(&own);
        command.arg(self.job.argument).current_dir("/");
        command.stdin(input).stdout(output).stderr(OwnedFd::from(theirs));
        let child = command.spawn().map_err(files::named(&own))?;
        // The command holds a copy of the helper's end of the socket; dropping it closes the copy.
        drop(command);
        let mut socket = UnixStream::from_std(ours);
        self.registry.register(&mut socket, self.token, Interest::READABLE)?;
        Ok(Running { child, socket, received: Vec::new(), asked_at: None })
    }

    /// Writes a request of at most [`MAX_REQUEST`] bytes; the helper must be running and idle. The error says why the
    /// helper has ended.
    pub fn ask(&mut self, request: &[u8], now: Duration) -> Result<(), String> {
        let Some(running) = &mut self.running else { return Err("is not running".to_owned()) };
        running.asked_at = Some(now);
        // The socket has space: at most one request is in flight.
        write_message(&mut running.socket, request).map_err(|error| {
            self.end();
            format!("cannot be written to ({error})")
        })
    }

    /// Returns the answer to the request, once it has arrived; or why the helper has ended, which loses the request.
    pub fn next_answer(&mut self) -> Option<Result<Vec<u8>, String>> {
        let running = self.running.as_mut()?;
        let why = loop {
            if let Some((length, answer)) = running.received.split_first_chunk()
                && answer.len() >= u32::from_le_bytes(*length) as usize
            {
                let answer = answer.to_vec();
                (running.received, running.asked_at) = (Vec::new(), None);
                return Some(Ok(answer));
            }
            let mut buffer = [0; MAX_ANSWER];
            match running.socket.read(&mut buffer) {
                Ok(0) => break "has ended".to_owned(),
                Ok(count) => running.received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break format!("cannot be read from ({error})"),
            }
        };
        self.end();
        Some(Err(why))
    }

    /// Ends the process.
    pub fn end(&mut self) {
        if let Some(Running { mut child, .. }) = self.running.take() {
            let _ = child.kill();
            self.exiting = Some(child);
        }
    }
}

impl Drop for Helper {
    /// Ends the process, also one that was stopped.
    fn drop(&mut self) {
        self.end();
    }
}

fn write_message(socket: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(|_| ErrorKind::InvalidInput)?;
    socket.write_all(&[&length.to_le_bytes(), message].concat())
}

/// Runs a helper, if this process was started as one: its only argument is that of a job, and its standard error is a
/// socket.
pub fn run_if_helper<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    let argument = arguments.next()?;
    let job = JOBS.into_iter().find(|job| argument.as_ref() == job.argument)?;
    let is_socket = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
    let is_helper = arguments.next().is_none() && rustix::fs::fstat(io::stderr()).is_ok_and(is_socket);
    is_helper.then(|| serve(job).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}

fn serve(job: &Job) -> io::Result<()> {
    // The helper ends with a node that is killed, also while it is stopped; elsewhere when it reads again.
    #[cfg(any(target_os = "linux", target_os = "freebsd"))]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    // Signals are for the node: it stops after its last writes, and the helper stops with it.
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, ignored.clone())?;
    }
    let own = |stream: &dyn AsFd| stream.as_fd().try_clone_to_owned();
    let files = [File::from(own(&io::stdin())?), File::from(own(&io::stdout())?)];
    let mut node = BlockingStream::from(own(&io::stderr())?);
    let (mut length, mut buffer) = ([0; 4], vec![0; MAX_REQUEST]);
    let mut answer = (job.begin)(files);
    loop {
        match node.read_exact(&mut length) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            result => result?,
        }
        let request = buffer.get_mut(..u32::from_le_bytes(length) as usize).ok_or(ErrorKind::InvalidData)?;
        node.read_exact(request)?;
        write_message(&mut node, &answer(request))?;
    }
}
