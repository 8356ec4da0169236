//! The program as a process: commands that end, and nodes that run until they are told to stop.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a command may take, and a node until it listens.
const LIMIT: Duration = Duration::from_secs(120);
/// How often a process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How long something that will happen is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Looks again and again until there is what is waited for.
#[track_caller]
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} does not come");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A port of this machine at which nobody listens.
pub fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port")
}

/// The program under test, with nothing to read; NISD names another one than that of this build.
pub fn nisd<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let program = std::env::var_os("NISD").unwrap_or_else(|| env!("CARGO_BIN_EXE_nisd").into());
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a command has left behind.
pub struct Ended {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ended {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).expect("the output is text")
    }

    /// Checks that all went well.
    #[track_caller]
    pub fn expect_success(self) -> Ended {
        assert_eq!(self.code, Some(0), "standard error:\n{}", self.stderr);
        self
    }

    /// Checks the exit code and that standard error says all of `words`, without a panic.
    #[track_caller]
    pub fn expect_failure(self, code: i32, words: &[&str]) -> Ended {
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
pub fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Ended {
    Process::start(nisd(arguments)).ended_within(LIMIT)
}

/// A running process; it is killed if it is dropped.
pub struct Process {
    child: Child,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<()>>,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Process {
    /// Starts a process and collects what it prints, so that it never waits for a reader.
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

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has said on standard error so far.
    pub fn log(&self) -> String {
        self.lines.lock().expect("no writer panics").join("\n")
    }

    /// Its end, if it has come.
    pub fn exit(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the process can be asked for its end")
    }

    /// Ends it at once, with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends it a signal such as `TERM`.
    pub fn signal(&self, name: &str) {
        let line = format!("kill -s {name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &line]).status().expect("there is a shell");
        assert!(status.success(), "{line}");
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ended_within(mut self, limit: Duration) -> Ended {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.exit() {
                break status;
            }
            assert!(start.elapsed() < limit, "it did not end within {limit:?}; its log:\n{}", self.log());
            thread::sleep(LOOK_EVERY);
        };
        let stdout = self.stdout.take().map(|thread| thread.join().expect("the reader ends"));
        self.stderr.take().into_iter().for_each(|thread| thread.join().expect("the reader ends"));
        Ended { code: status.code(), stdout: stdout.unwrap_or_default(), stderr: self.log() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            super::loudly(&format!("--- log of process {} ---\n{}", self.child.id(), self.log()));
        }
    }
}

/// A running node, listening on ports of this machine that the system chose.
pub struct Node {
    pub process: Process,
    /// Its HTTP interface.
    pub http: SocketAddr,
    /// Its websocket interface.
    pub websocket: SocketAddr,
}

impl Node {
    /// Starts `nisd run` with further arguments and waits until it listens.
    #[track_caller]
    pub fn start(arguments: &[&str]) -> Node {
        Node::of(Node::command(arguments))
    }

    /// What starts a node.
    pub fn command(arguments: &[&str]) -> Command {
        let ports = ["run", "--bind", "127.0.0.1", "--http-port", "0", "--websocket-port", "0"];
        nisd(ports.iter().chain(arguments))
    }

    /// Starts a node by a command and waits until it listens.
    #[track_caller]
    pub fn of(command: Command) -> Node {
        let mut process = Process::start(command);
        let start = Instant::now();
        loop {
            if let Some((http, websocket)) = addresses(&process.log()) {
                return Node { process, http, websocket };
            }
            if let Some(status) = process.exit() {
                panic!("the node ended with {status}");
            }
            assert!(start.elapsed() < LIMIT, "the node does not listen");
            thread::sleep(LOOK_EVERY);
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
