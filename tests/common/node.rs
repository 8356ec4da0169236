//! The program as a process: taking a chain in, running on it, and its end.

use std::ffi::OsStr;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::http;

/// How long a node may take from its start to its first answer.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How often a starting node is asked.
const POLL_EVERY: Duration = Duration::from_millis(20);
/// Lines of a node's log that are shown when it fails.
const SHOWN_LINES: usize = 30;

/// The program under test, if this build has one.
pub fn program() -> Option<&'static str> {
    let program = option_env!("CARGO_BIN_EXE_nisd");
    if program.is_none() {
        super::loudly("SKIPPED: this build has no program nisd");
    }
    program
}

/// A folder with a chain store, gone at the end.
pub struct Store {
    folder: TempDir,
    config: PathBuf,
}

impl Store {
    /// Takes the recorded blocks of a chain into a new store.
    pub fn import(program: &str, chain: &Path) -> Store {
        let folder = tempfile::tempdir().expect("a folder for the store");
        let config = chain.join("config.json");
        let blocks = ["blocks.bin", "blocks.bin.gz"].map(|name| chain.join(name));
        let blocks = blocks.iter().find(|path| path.exists()).expect("the chain has a file of blocks");
        let store = Store { folder, config };
        let mut command = Command::new(program);
        command.arg("import").arg("--config").arg(&store.config).arg("--data").arg(store.data()).arg(blocks);
        let status = store.spawn(&mut command, "import.log").wait().expect("the import can be awaited");
        assert!(status.success(), "import ended with {status}:\n{}", store.log("import.log"));
        store
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn spawn(&self, command: &mut Command, log: &str) -> Child {
        let log = File::create(self.folder.path().join(log)).expect("a log file");
        let both = log.try_clone().expect("a second handle of the log file");
        let command = command.stdin(Stdio::null()).stdout(log).stderr(both);
        command.spawn().expect("the program starts")
    }

    /// The end of a log.
    fn log(&self, name: &str) -> String {
        let text = std::fs::read(self.folder.path().join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }

    /// Runs a node on the store with its clock standing still, and waits until it answers.
    pub fn run(&self, program: &str, clock: i32, settings: &[&str]) -> Node<'_> {
        let [http_port, websocket_port] = free_ports();
        let mut command = Command::new(program);
        command.arg("run").arg("--config").arg(&self.config).arg("--data").arg(self.data());
        command.args(["--bind", "127.0.0.1", "--clock"]).arg(clock.to_string());
        command.args(["--http-port", &http_port.to_string(), "--websocket-port", &websocket_port.to_string()]);
        command.args(settings.iter().flat_map(|setting| [OsStr::new("--set"), OsStr::new(setting)]));
        let child = self.spawn(&mut command, "run.log");
        let mut node = Node { store: self, child, port: http_port };
        node.wait_until_it_answers();
        node
    }
}

/// Two ports that nobody listens on.
fn free_ports() -> [u16; 2] {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    // Both are held until both are known, so that they differ.
    let listeners = [listen(), listen()];
    listeners.map(|listener| listener.local_addr().expect("a bound port").port())
}

/// A running node; it is killed in the end.
pub struct Node<'a> {
    store: &'a Store,
    child: Child,
    /// Port of its HTTP interface.
    pub port: u16,
}

impl Node<'_> {
    fn wait_until_it_answers(&mut self) {
        let start = Instant::now();
        while !http::get("/chain/height", self.port).is_ok_and(|response| response.status == 200) {
            if let Some(status) = self.exit() {
                panic!("the node ended with {status}:\n{}", self.log());
            }
            assert!(start.elapsed() < START_LIMIT, "the node does not answer:\n{}", self.log());
            std::thread::sleep(POLL_EVERY);
        }
    }

    fn exit(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the node can be asked for its end")
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        self.store.log("run.log")
    }
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        // It may have ended by itself; either way it must be awaited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
