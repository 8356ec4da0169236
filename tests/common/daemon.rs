//! The program as a process: commands that end by themselves, and nodes that run until they are stopped.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tempfile::TempDir;

use super::http::set_cookie;
use super::private_network::{Genesis, TOTAL, address, key_pair, now, private_key};
use super::tiny;
use nisd::model::Amount;

/// Arguments of a command: texts and paths.
macro_rules! args {
    ($($argument:expr),* $(,)?) => { [$(std::ffi::OsString::from(&$argument)),*] };
}
pub(crate) use args;

/// Maximum run time of a command, and maximum time until a node listens.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval between checks of a process.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Interval of looks at a node. A client at another address may send 50 requests a second.
const WAIT_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum wait for an expected event.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// Polls `look` until it returns a value.
#[track_caller]
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_with_timeout(what, MAX_WAIT, look)
}

/// Like [`wait_for`], with a given maximum wait.
#[track_caller]
pub fn wait_with_timeout<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < limit, "{what} does not come");
        thread::sleep(WAIT_INTERVAL);
    }
}

/// Returns a port of this machine that nothing listens on.
pub fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port")
}

/// Opens a pseudo-terminal; returns the end that shows it, and the one that a program uses.
pub fn open_terminal() -> (File, File) {
    let screen = File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal"));
    // A program that kept it open would keep its own terminal.
    fcntl_setfd(&screen, FdFlags::CLOEXEC).expect("a descriptor");
    grantpt(&screen).and_then(|()| unlockpt(&screen)).expect("a terminal");
    let name = ptsname(&screen, Vec::new()).expect("a name").into_string().expect("text");
    let flags = OFlags::NOCTTY.bits() as i32;
    let terminal = OpenOptions::new().read(true).write(true).custom_flags(flags).open(name).expect("a terminal");
    (screen, terminal)
}

/// Returns the program under test with empty standard input; the variable NISD replaces the program of this build by
/// another one.
pub fn nisd<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let own = std::env::var_os("NISD").unwrap_or_else(|| env!("CARGO_BIN_EXE_nisd").into());
    program(own, arguments)
}

/// Like [`nisd`], for any program.
pub fn program<A: AsRef<OsStr>>(path: impl AsRef<OsStr>, arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(path);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a command where it has the process number 1, as in a container of its own; `None` where this is not allowed.
pub fn in_container(command: &Command) -> Option<Command> {
    const ARGUMENTS: [&str; 4] = ["-rpf", "--kill-child", "--mount-proc", "--"];
    if !Command::new("unshare").args(ARGUMENTS).arg("true").status().is_ok_and(|status| status.success()) {
        super::skip("no process can have numbers of its own here");
        return None;
    }
    let mut inside = program("unshare", ARGUMENTS);
    inside.arg(command.get_program()).args(command.get_args());
    inside.current_dir(command.get_current_dir().unwrap_or(Path::new(".")));
    Some(inside)
}

/// The result of a command.
pub struct CommandOutput {
    /// Exit code; `None` if a signal ended the process.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl CommandOutput {
    /// Returns standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).expect("the output is text")
    }

    /// Checks that the command succeeded.
    #[track_caller]
    pub fn expect_success(self) -> CommandOutput {
        assert_eq!(self.code, Some(0), "standard error:\n{}", self.stderr);
        self
    }

    /// Checks the exit code, that standard error contains all of `words`, and that nothing panicked.
    #[track_caller]
    pub fn expect_failure(self, code: i32, words: &[&str]) -> CommandOutput {
        assert_eq!(self.code, Some(code), "standard error:\n{}", self.stderr);
        assert_contains(&self.stderr, words);
        assert!(!self.stderr.contains("panicked"), "standard error:\n{}", self.stderr);
        self
    }
}

/// Checks that a text contains all of `words`.
#[track_caller]
pub fn assert_contains(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in:\n{text}");
    }
}

/// Runs a command to its end.
#[track_caller]
pub fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> CommandOutput {
    Process::start(nisd(arguments)).wait_with_timeout(COMMAND_TIMEOUT)
}

/// Returns a field of the status of a process in KiB, such as `VmHWM` or `RssAnon`; `None` except on Linux.
pub fn process_memory(process: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse().ok()
}

/// A running process; dropping it kills the process.
pub struct Process {
    child: Child,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<()>>,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Process {
    /// Starts a process and collects its output, so that it never blocks on writing.
    pub fn start(mut command: Command) -> Process {
        let mut child = command.spawn().expect("the program starts");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (mut out, error) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
        let stdout = thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = out.read_to_end(&mut bytes);
            bytes
        });
        let collected = lines.clone();
        let stderr = thread::spawn(move || {
            for line in BufReader::new(error).split(b'\n').map_while(Result::ok) {
                collected.lock().expect("no reader panics").push(String::from_utf8_lossy(&line).into_owned());
            }
        });
        Process { child, stdout: Some(stdout), stderr: Some(stderr), lines }
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns standard error so far.
    pub fn log(&self) -> String {
        self.lines.lock().expect("no writer panics").join("\n")
    }

    /// Returns the exit status if the process has ended.
    pub fn exit(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the process can be asked for its end")
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends the process a signal such as `TERM`.
    pub fn signal(&self, name: &str) {
        let line = format!("kill -s {name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &line]).status().expect("there is a shell");
        assert!(status.success(), "{line}");
    }

    /// Waits for the process to end.
    #[track_caller]
    pub fn wait_with_timeout(mut self, limit: Duration) -> CommandOutput {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.exit() {
                break status;
            }
            assert!(start.elapsed() < limit, "it did not end within {limit:?}; its log:\n{}", self.log());
            thread::sleep(POLL_INTERVAL);
        };
        let stdout = self.stdout.take().map(|thread| thread.join().expect("the reader ends"));
        self.stderr.take().into_iter().for_each(|thread| thread.join().expect("the reader ends"));
        CommandOutput { code: status.code(), stdout: stdout.unwrap_or_default(), stderr: self.log() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            super::print_notice(&format!("--- log of process {} ---\n{}", self.child.id(), self.log()));
        }
    }
}

/// Returns the identity of a new network whose whole currency belongs to account 1.
pub fn new_network() -> Genesis {
    Genesis::new(now(), &[(address(&key_pair(1)), Amount::whole(TOTAL))])
}

/// A running node that listens on ports chosen by the system.
pub struct Node {
    pub process: Process,
    /// Address of the HTTP interface.
    pub http: SocketAddr,
    /// Address of the websocket interface.
    pub websocket: SocketAddr,
    /// A folder that is removed with the node.
    pub folder: Option<TempDir>,
}

impl Node {
    /// Starts `nisd run` with further arguments and waits until it listens.
    #[track_caller]
    pub fn start<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Node {
        Node::from_command(Node::command(arguments))
    }

    /// Returns the command that starts a node.
    pub fn command<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = nisd(["run", "--bind", "127.0.0.1", "--http-port", "0", "--websocket-port", "0"]);
        command.args(arguments);
        command
    }

    /// Imports the smallest recorded chain up to a height into a store, and starts a node on it. Settings among the
    /// arguments, each after `--set`, also apply to the import.
    #[track_caller]
    pub fn on_tiny(height: u64, arguments: &[&str]) -> Node {
        let folder = tempfile::tempdir().expect("a folder");
        let own = args!["--config", tiny("network.properties"), "--data", folder.path().join("store")];
        let stop = args!["--stop-at", height.to_string(), tiny("blocks.bin")];
        let settings = arguments.windows(2).filter(|pair| pair[0] == "--set").flatten().map(OsString::from);
        run(args!["import"].into_iter().chain(own.clone()).chain(settings).chain(stop)).expect_success();
        let node = Node::start(own.into_iter().chain(arguments.iter().map(OsString::from)));
        Node { folder: Some(folder), ..node }
    }

    /// Starts a node of a private network that makes a block every second; its harvester has the key of this number.
    #[track_caller]
    pub fn on_fast_network(genesis: &Genesis, harvester: u64, settings: &[(&str, &str)], arguments: &[&str]) -> Node {
        let folder = tempfile::tempdir().expect("a folder");
        let config = genesis.write_hasty(folder.path(), &private_key(harvester).printed(), settings);
        let node = Node::start(args!["--config", config].into_iter().chain(arguments.iter().map(OsString::from)));
        Node { folder: Some(folder), ..node }
    }

    /// Returns the path of a file in the folder of the node: `node.properties` or `store`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.as_ref().expect("a folder of its own").path().join(name)
    }

    /// Stops the node with SIGTERM and waits for its end.
    #[track_caller]
    pub fn stop(self) -> CommandOutput {
        self.process.signal("TERM");
        self.process.wait_with_timeout(MAX_WAIT).expect_success()
    }

    /// Starts a node with this command and waits until it listens.
    #[track_caller]
    pub fn from_command(command: Command) -> Node {
        let mut process = Process::start(command);
        let start = Instant::now();
        loop {
            let log = process.log();
            if let Some((http, websocket)) = addresses(&log) {
                let file = log.split_once("the secret of local requests is ").and_then(|(_, rest)| rest.lines().next());
                file.into_iter().for_each(|file| set_cookie(http, file.into()));
                return Node { process, http, websocket, folder: None };
            }
            if let Some(status) = process.exit() {
                panic!("the node ended with {status}");
            }
            assert!(start.elapsed() < COMMAND_TIMEOUT, "the node does not listen");
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Reads `… HTTP on ADDRESS, websocket on ADDRESS at …` from a log.
fn addresses(log: &str) -> Option<(SocketAddr, SocketAddr)> {
    let (_, rest) = log.split_once("HTTP on ")?;
    let (http, rest) = rest.split_once(", websocket on ")?;
    let (websocket, _) = rest.split_once(" at ")?;
    Some((http.parse().expect("an address"), websocket.parse().expect("an address")))
}
