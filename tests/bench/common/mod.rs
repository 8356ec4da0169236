//! Shared helpers of the benchmarks: the recorded chain, a node as a child process, a client, and measurements.
#![allow(dead_code)] // not every benchmark uses everything

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nisd::chain::{BlockImporter, ImportOptions, ImportProgress};
use nisd::codec::block_file::BlockFile;
use nisd::config::Settings;
use nisd::model::{Amount, Height, Timestamp};
use nisd::store::Store;

#[path = "../../common/mod.rs"]
pub mod data;
pub mod sessions;
pub mod synthetic;

use data::private_network::{Genesis, TOTAL, address, key_pair, now, private_key};

/// Height of the last block of `all-forks`.
pub const TIP: u64 = 4010;
/// A clock shortly after that block.
pub const CLOCK: &str = "241500";
/// A network time later than every block.
pub const FAR_FUTURE: Timestamp = Timestamp(i32::MAX - 100);
/// Maximum wait.
pub const MAX_WAIT: Duration = Duration::from_secs(60);

/// Returns the path of a file of the chain `all-forks`.
pub fn all_forks(file: &str) -> PathBuf {
    data::recorded("chains/all-forks").join(file)
}

/// Creates a temporary folder, removed with the value.
pub fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("nisd-bench-").tempdir().expect("a temporary folder")
}

/// A running `nisd run`, killed when the value is dropped.
pub struct Node {
    child: Child,
    log: PathBuf,
    /// Address of the HTTP interface.
    pub http: SocketAddr,
    /// Address of the websocket interface.
    pub websocket: SocketAddr,
}

impl Node {
    /// Starts `nisd run` on a new private network that finds a block every second.
    pub fn fast(binary: &str, folder: &Path) -> Node {
        let funded = [(address(&key_pair(1)), Amount::whole(TOTAL))];
        let key = private_key(1).printed();
        Node::private(binary, folder, &Genesis::new(now(), &funded).write_hasty(folder, &key, &[]))
    }

    /// Starts `nisd run` on a store of `all-forks` in `folder`; `import` makes it fill the store first.
    pub fn all_forks(binary: &str, folder: &Path, import: bool) -> Node {
        let mut command = Command::new(binary);
        command.args(["run", "--clock", CLOCK, "--config"]).arg(all_forks("config.json"));
        command.arg("--data").arg(folder.join("store"));
        if import {
            command.arg("--import").arg(all_forks("blocks.bin.gz"));
        }
        Node::start(&mut command, folder)
    }

    /// Starts `nisd run` on a store in `folder`, into which it imports blocks.
    pub fn with(binary: &str, folder: &Path, config: &Path, blocks: &Path) -> Node {
        let mut command = Command::new(binary);
        command.arg("run").arg("--config").arg(config).arg("--data").arg(folder.join("store"));
        Node::start(command.arg("--import").arg(blocks), folder)
    }

    /// Starts `nisd run` with the settings of a private network, on a store in `folder`.
    pub fn private(binary: &str, folder: &Path, config: &Path) -> Node {
        Node::private_with(binary, folder, config, &[])
    }

    /// Like [`Node::private`], with further arguments.
    pub fn private_with(binary: &str, folder: &Path, config: &Path, arguments: &[String]) -> Node {
        let mut command = Command::new(binary);
        command.arg("run").arg("--config").arg(config).arg("--data").arg(folder.join("store")).args(arguments);
        Node::start(&mut command, folder)
    }

    /// Like [`Node::private`], started by a shell that first sets a limit such as `ulimit -n 1024`.
    pub fn limited(binary: &str, folder: &Path, config: &Path, limit: &str) -> Node {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{limit} && exec \"$0\" \"$@\"")).arg(binary);
        command.arg("run").arg("--config").arg(config).arg("--data").arg(folder.join("store"));
        Node::start(&mut command, folder)
    }

    fn start(command: &mut Command, folder: &Path) -> Node {
        let log = folder.join("log");
        let (http, websocket) = (free_port(), free_port());
        command.args(["--bind", "127.0.0.1", "--http-port", &http.port().to_string()]);
        command.args(["--websocket-port", &websocket.port().to_string()]);
        command.stdout(Stdio::null()).stderr(File::create(&log).expect("a log"));
        Node { child: command.spawn().expect("nisd starts"), log, http, websocket }
    }

    /// Polls every half millisecond until the first answer; returns the client that got it.
    pub fn first_answer(&self) -> Client {
        let begun = Instant::now();
        loop {
            if let Ok(mut client) = Client::connect(self.http)
                && client.get("/chain/height").is_ok_and(|answer| answer.0 == 200)
            {
                return client;
            }
            assert!(begun.elapsed() < MAX_WAIT, "no answer; the log says: {}", self.log());
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    /// Waits until the last block of `all-forks` is there.
    pub fn wait_for_tip(&self) {
        let (begun, mut client) = (Instant::now(), self.first_answer());
        while client.height() < TIP {
            assert!(begun.elapsed() < MAX_WAIT, "the import does not end; the log says: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the present resident memory.
    pub fn memory(&self) -> Memory {
        memory_of(self.child.id())
    }

    /// Returns the processor time used so far in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("/proc/PID/stat");
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        // User and system time, in hundredths of a second on every Linux.
        fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
    }

    /// Returns the log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the present resident memory of a process; NaN values once it has ended.
pub fn memory_of(process: u32) -> Memory {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(f64::NAN)
    };
    Memory { all: kib("VmRSS"), anon: kib("RssAnon"), file: kib("RssFile"), peak: kib("VmHWM") }
}

/// Resident memory in KiB.
#[derive(Clone, Copy)]
pub struct Memory {
    pub all: f64,
    pub anon: f64,
    pub file: f64,
    pub peak: f64,
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [all, anon, file, peak] = [self.all, self.anon, self.file, self.peak].map(|kib| kib / 1024.0);
        write!(f, "{all:.1} MiB resident ({anon:.1} own, {file:.1} of files: store and program), peak {peak:.1}")
    }
}

fn free_port() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("an address")
}

/// Imports blocks into a store as the program does; returns the seconds of every step except those that commit.
pub fn import_timed(
    store: &Store,
    settings: &Settings,
    files: Vec<BlockFile<'static>>,
    stop_at: Option<Height>,
) -> Vec<f64> {
    let nemesis = settings.nemesis.read().expect("the nemesis block");
    let options = ImportOptions { batch_steps: 8_000, batch_blocks: 1_000, stop_at, trusted_below: Height(0) };
    let mut intake = BlockImporter::new(store, &settings.network, nemesis, files, options).expect("an intake");
    let mut steps = Vec::new();
    loop {
        let begun = Instant::now();
        match intake.step(FAR_FUTURE).expect("a good chain") {
            ImportProgress::Working => steps.push(begun.elapsed().as_secs_f64()),
            ImportProgress::Syncing | ImportProgress::Committed { .. } => {}
            ImportProgress::Done => return steps,
        }
    }
}

/// A keep-alive connection of a client that waits for each answer.
pub struct Client {
    stream: BufReader<TcpStream>,
    body: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> io::Result<Client> {
        Client::connect_from(Ipv4Addr::LOCALHOST, address)
    }

    /// Connects from another address of this machine.
    pub fn connect_from(from: Ipv4Addr, address: SocketAddr) -> io::Result<Client> {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((from, 0)).into())?;
        socket.connect(&address.into())?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Client { stream: BufReader::new(stream), body: Vec::new() })
    }

    /// Sends a whole request; returns the status and the body of its answer.
    pub fn send_request(&mut self, request: &str) -> io::Result<(u16, &[u8])> {
        self.send(request)?;
        self.answer()
    }

    /// Sends whole requests whose answers are read later.
    pub fn send(&mut self, requests: &str) -> io::Result<()> {
        self.stream.get_mut().write_all(requests.as_bytes())
    }

    /// Sends a request whose answer is read later.
    pub fn send_get(&mut self, path: &str) -> io::Result<()> {
        self.send(&get(path))
    }

    /// Returns the status and the body of the next answer.
    pub fn answer(&mut self) -> io::Result<(u16, &[u8])> {
        let (mut line, mut status, mut length) = (String::new(), 0, 0);
        loop {
            line.clear();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let lower = line.trim_end().to_ascii_lowercase();
            if lower.is_empty() {
                break;
            } else if let Some(rest) = lower.strip_prefix("http/1.1 ") {
                status = rest.get(..3).and_then(|code| code.parse().ok()).unwrap_or(0);
            } else if let Some(rest) = lower.strip_prefix("content-length:") {
                length = rest.trim().parse().unwrap_or(0);
            }
        }
        self.body.resize(length, 0);
        self.stream.read_exact(&mut self.body)?;
        Ok((status, &self.body))
    }

    pub fn get(&mut self, path: &str) -> io::Result<(u16, &[u8])> {
        self.send_request(&get(path))
    }

    /// Requests the chain height.
    pub fn height(&mut self) -> u64 {
        let (_, body) = self.get("/chain/height").expect("an answer");
        height_in(body).expect("a height")
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// Returns the number after the last `"height":` of a JSON text, or the number that is the whole text.
pub fn height_in(json: &[u8]) -> Option<u64> {
    const KEY: &[u8] = b"\"height\":";
    let place = json.windows(KEY.len()).rposition(|window| window == KEY).map_or(0, |place| place + KEY.len());
    let digits = json.get(place..)?.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(None, |number: Option<u64>, digit| Some(number.unwrap_or(0) * 10 + u64::from(digit - b'0')))
}

/// Kinds of queries in the mix.
pub const KINDS: [&str; 8] = [
    "/chain/height",
    "/chain/last-block",
    "/block/at/public",
    "/transaction/get",
    "/account/get",
    "/account/get/from-public-key",
    "/heartbeat",
    "/status",
];

/// Number of blocks below the tip whose transactions are requested.
const RECENT: u64 = 1_000;

/// Mixed queries about the content of the chain up to some height.
pub struct QueryMix {
    blocks: Vec<serde_json::Value>,
}

impl QueryMix {
    /// Returns the mix for `all-forks`.
    pub fn all_forks() -> QueryMix {
        let lines = flate2::read::MultiGzDecoder::new(File::open(all_forks("blocks.jsonl.gz")).expect("blocks"));
        let lines = BufReader::new(lines).lines();
        let blocks = lines.map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON")).collect();
        QueryMix { blocks }
    }

    /// Returns query `number`, of the kind `KINDS[number % 8]`, that a node at `height` can answer.
    pub fn request(&self, number: u64, height: u64) -> String {
        let random = scatter(number);
        let block = &self.blocks[(random % height.clamp(1, TIP)) as usize];
        let text = |name: &str| block[name].as_str().expect("a text");
        match number % 8 {
            2 => {
                let body = format!("{{\"height\":{}}}", block["height"]);
                let length = body.len();
                format!(
                    "POST /block/at/public HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                     Content-Length: {length}\r\n\r\n{body}"
                )
            }
            3 => {
                // A node without the feature TRANSACTION_HASH_LOOKUP knows only the hashes of the last 36 hours.
                let recent = height.saturating_sub(random % RECENT).clamp(1, TIP) as usize;
                let mut lists = self.blocks[..recent].iter().rev().filter_map(|block| block["transactions"].as_array());
                let list = lists.find(|list| !list.is_empty()).expect("transactions");
                let hash = list[(random >> 32) as usize % list.len()].as_str().expect("a hash");
                get(&format!("/transaction/get?hash={hash}"))
            }
            4 => get(&format!("/account/get?address={}", text("signerAddress"))),
            5 => get(&format!("/account/get/from-public-key?publicKey={}", text("signer"))),
            kind => get(KINDS[kind as usize]),
        }
    }
}

/// Returns a pseudo-random number (the finalizer of splitmix).
pub fn scatter(number: u64) -> u64 {
    let a = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let b = (a ^ a >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let c = (b ^ b >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    c ^ c >> 31
}

/// Returns a quantile of the values; sorts them.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * share).ceil() as usize;
    values.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Returns the median of the values; sorts them.
pub fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// Returns `p50 … p99 … max …` in milliseconds; sorts the values.
pub fn in_millis(values: &mut [f64]) -> String {
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| quantile(values, share) * 1e3);
    format!("p50 {p50:.2} ms, p99 {p99:.2} ms, max {max:.2} ms")
}

/// Returns how busy the machine is, for judging the results.
pub fn machine() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("machine: {cores} cores, load {}", load.split(' ').next().unwrap_or("?"))
}
