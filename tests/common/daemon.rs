//! The program as a process: commands that end by themselves, and nodes that run until they are stopped.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Maximum run time of a command, and maximum time until a node listens.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval between checks of a process.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Maximum wait for an expected event.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Polls `look` until it returns a value.
#[track_caller]
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < MAX_WAIT, "{what} does not come");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns a port of this machine that nothing listens on.
pub fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port")
}

/// Returns the program under test with empty standard input; the variable NISD replaces the program of this build by
/// another one.
pub fn nisd<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let program = std::env::var_os("NISD").unwrap_or_else(|| env!("CARGO_BIN_EXE_nisd").into());
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
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
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is missing in standard error:\n{}", self.stderr);
        }
        assert!(!self.stderr.contains("panicked"), "standard error:\n{}", self.stderr);
        self
    }
}

/// Runs a command to its end.
#[track_caller]
pub fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> CommandOutput {
    Process::start(nisd(arguments)).wait_with_timeout(COMMAND_TIMEOUT)
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

/// A running node that listens on ports chosen by the system.
pub struct Node {
    pub process: Process,
    /// Address of the HTTP interface.
    pub http: SocketAddr,
    /// Address of the websocket interface.
    pub websocket: SocketAddr,
}

impl Node {
    /// Starts `nisd run` with further arguments and waits until it listens.
    #[track_caller]
    pub fn start(arguments: &[&str]) -> Node {
        Node::from_command(Node::command(arguments))
    }

    /// Returns the command that starts a node.
    pub fn command(arguments: &[&str]) -> Command {
        let ports = ["run", "--bind", "127.0.0.1", "--http-port", "0", "--websocket-port", "0"];
        nisd(ports.iter().chain(arguments))
    }

    /// Starts a node with this command and waits until it listens.
    #[track_caller]
    pub fn from_command(command: Command) -> Node {
        let mut process = Process::start(command);
        let start = Instant::now();
        loop {
            if let Some((http, websocket)) = addresses(&process.log()) {
                return Node { process, http, websocket };
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
