//! How fast a node serves its chain to peers, and the response times of its clients meanwhile.
//!
//! `cargo bench --bench serving` makes a chain in which a response has 400 blocks with 10,000 transactions, and lets a
//! node import it. 50 peers at their own addresses request blocks, or hashes, one after another, while 200 queries per
//! second arrive on a fixed schedule; a response time starts when its query is due. Then the same 50 send requests and
//! read nothing of the responses, which shows what the node buffers for them. The 50 are a process at the lowest
//! priority: on a network they are other machines and share neither processor nor memory with the measured clients.
//! SERVING_CHAIN names a folder with the `network.properties` and `blocks.bin` of another chain, SERVING_SECONDS the
//! duration of each part.

#[path = "common/mod.rs"]
mod bench;
#[path = "chains/mod.rs"]
#[allow(dead_code)] // only the chain is wanted
mod generator;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench::data as common;
use bench::{Client, Node, scatter};
use common::from_environment;
use generator::{Files, Plan};
use nisd::codec::{Context, Format};
use nisd::config;
use nisd::crypto::PublicKey;
use nisd::model::{Height, Network};
use nisd::net::fetch::ResponseReader;
use nisd::peer::wire::{
    AuthenticatedRequest, BlockList, ChainRequest, Challenge, HashChain, NodeInfo, read_answer, read_introduction,
};
use rustix::process::setpriority_process;
use socket2::{Domain, Socket, Type};

const BINARY: &str = env!("CARGO_BIN_EXE_nisd");
/// Argument that makes this program act as the peers.
const AS_PEERS: &str = "as-peers";
const PEERS: u64 = 50;
const PER_SECOND: u64 = 200;
const CONNECTIONS: u64 = 10;
const PATHS: [&str; 6] = ["/chain/height", "/chain/last-block", "/heartbeat", "/status", "/node/info", "/chain/score"];
/// Maximum size of a response.
const ANSWER_LIMIT: usize = 64 << 20;
const CHALLENGE: Challenge = Challenge([7; 64]);

/// The node that is queried.
struct ServingNode {
    node: Node,
    /// The settings of its network.
    config: PathBuf,
    key: PublicKey,
    part: ChainSource,
}

/// What is requested, and where.
struct ChainSource {
    http: SocketAddr,
    network: Network,
    height: u64,
}

/// Form in which a part of the chain is requested.
#[derive(Clone, Copy, Debug)]
enum Requested {
    Blocks,
    Hashes,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == AS_PEERS) {
        return run_peers(&arguments[at + 1..]);
    }
    println!("{}", bench::machine());
    let folder = bench::folder();
    let served = serve(folder.path());
    let seconds = Duration::from_secs(from_environment("SERVING_SECONDS").unwrap_or(10));
    println!("chain of {} blocks; at rest:        {}", served.part.height, served.node.memory());
    show_answers(&served);
    println!("nobody asks: {}", run_queries(&served, seconds, || {}));
    for what in [Requested::Blocks, Requested::Hashes] {
        measure(&served, what, seconds);
    }
    measure_stalled(&served, seconds.min(Duration::from_secs(5)));
}

/// Lets a node import the chain.
fn serve(folder: &Path) -> ServingNode {
    let files = match std::env::var_os("SERVING_CHAIN").map(PathBuf::from) {
        Some(chain) => Files { config: chain.join("network.properties"), blocks: chain.join("blocks.bin") },
        None => {
            let (blocks, transactions, target_time) = (1_300, 25, Some(60));
            let plan = Plan {
                blocks,
                transactions,
                accounts: 2_000,
                seed: 1,
                stake: false,
                plain: false,
                target_time,
                gzip: false,
            };
            generator::generate(&plan, &folder.join("chain"), |_| {}).expect("a chain").0
        }
    };
    let settings = config::load(Some(&files.config), Vec::new(), Some(folder)).expect("settings");
    let node = Node::with(BINARY, folder, &files.config, &files.blocks);
    let mut client = node.first_answer();
    let mut height = 0;
    while height != client.height() {
        height = client.height();
        std::thread::sleep(Duration::from_secs(2));
    }
    let network = settings.network;
    let body = request_whole(&mut connect(node.http, 0), &request("/node/info", &Format::Binary.to_bytes(&CHALLENGE)));
    let info: NodeInfo = read_introduction(Format::Binary, &body, Context::of(&network), &CHALLENGE)
        .expect("the node introduces itself");
    let part = ChainSource { http: node.http, network, height };
    ServingNode { node, config: files.config, key: info.identity.key, part }
}

/// Prints the largest responses and verifies their signatures.
fn show_answers(served: &ServingNode) {
    let mut stream = connect(served.node.http, 0);
    let context = Context::of(&served.part.network);
    let body = request_whole(&mut stream, &served.part.request(Requested::Blocks, 0));
    let mut list =
        BlockList::open(Format::Binary, body.clone(), context, &CHALLENGE, &served.key).expect("signed blocks");
    let (mut blocks, mut transactions, mut steps) = (0, 0, Vec::new());
    loop {
        let begun = Instant::now();
        let Some(block) = list.next(context) else { break };
        steps.push(begun.elapsed().as_secs_f64());
        blocks += 1;
        transactions += block.expect("a block").transactions.len();
    }
    println!("blocks: {blocks} with {transactions} transactions in {} bytes", body.len());
    println!("    to read one of them: {}", bench::in_millis(&mut steps));
    let body = request_whole(&mut stream, &served.part.request(Requested::Hashes, 0));
    let HashChain(hashes) =
        read_answer(Format::Binary, &body, context, &CHALLENGE, &served.key).expect("signed hashes");
    println!("hashes: {} in {} bytes", hashes.len(), body.len());
}

impl ChainSource {
    /// Returns a request for a part of the chain below its tip.
    fn request(&self, what: Requested, number: u64) -> Vec<u8> {
        let chain = &self.network.chain;
        let last = self.height.saturating_sub(chain.max_blocks_per_sync() + 1).max(1);
        let height = Height(2 + scatter(number) % last);
        let challenge = CHALLENGE;
        match what {
            Requested::Blocks => {
                let entity = ChainRequest::new(height, 10, i32::MAX, chain);
                request("/chain/blocks-after", &Format::Binary.to_bytes(&AuthenticatedRequest { entity, challenge }))
            }
            Requested::Hashes => {
                let body = Format::Binary.to_bytes(&AuthenticatedRequest { entity: height, challenge });
                request("/chain/hashes-from", &body)
            }
        }
    }
}

fn request(path: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nAccept: application/binary\r\nContent-Type: application/binary\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Connects from an address of its own, so that no per-client limit applies to all together.
fn connect(to: SocketAddr, peer: u64) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let from = SocketAddr::from((Ipv4Addr::new(127, 50, 0, 1 + peer as u8), 0));
    socket.bind(&from.into()).expect("an address of this machine");
    socket.connect(&to.into()).expect("a connection");
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(bench::MAX_WAIT)).expect("a time limit");
    stream
}

/// Sends a request and reads the whole response.
fn request_whole(stream: &mut TcpStream, request: &[u8]) -> Vec<u8> {
    stream.write_all(request).expect("the node reads");
    let (mut reader, mut buffer) = (ResponseReader::new(ANSWER_LIMIT), vec![0; 64 << 10]);
    loop {
        let count = stream.read(&mut buffer).expect("an answer");
        assert!(count > 0, "the answer is cut");
        if let Some(complete) = reader.receive(&buffer[..count]).expect("HTTP") {
            assert_eq!(complete.response.status, 200, "{:?}", String::from_utf8_lossy(&complete.response.body));
            return complete.response.body;
        }
    }
}

/// Acts as the peers: sends requests for as long as the arguments say, and prints the numbers of bytes and responses.
fn run_peers(arguments: &[String]) {
    let [config, http, height, what, millis] = arguments else { panic!("five arguments: {arguments:?}") };
    setpriority_process(None, 19).expect("a lower priority");
    let network = config::load(Some(Path::new(config)), Vec::new(), None).expect("settings").network;
    let part =
        ChainSource { http: http.parse().expect("an address"), network, height: height.parse().expect("a height") };
    let what = if what == "Blocks" { Requested::Blocks } else { Requested::Hashes };
    let end = Instant::now() + Duration::from_millis(millis.parse().expect("a time"));
    let (bytes, answers) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for peer in 0..PEERS {
            let (bytes, answers, part) = (&bytes, &answers, &part);
            scope.spawn(move || {
                let mut stream = connect(part.http, peer);
                let mut number = peer << 32;
                while Instant::now() < end {
                    number += 1;
                    let body = request_whole(&mut stream, &part.request(what, number));
                    bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
                    answers.fetch_add(1, Ordering::Relaxed);
                    if matches!(what, Requested::Hashes) {
                        // A peer that sends more requests than NIS1 allows would be rejected.
                        std::thread::sleep(Duration::from_millis(25));
                    }
                }
            });
        }
    });
    println!("{} {}", bytes.into_inner(), answers.into_inner());
}

/// Runs all peers for this long.
fn measure(served: &ServingNode, what: Requested, time: Duration) {
    let cpu = served.node.cpu_seconds();
    let peers = Command::new(std::env::current_exe().expect("this program"))
        .arg(AS_PEERS)
        .arg(&served.config)
        .args([served.node.http.to_string(), served.part.height.to_string(), format!("{what:?}")])
        .arg(time.as_millis().to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the peers");
    let mut peak = served.node.memory();
    let waited = run_queries(served, time, || {
        let now = served.node.memory();
        if now.anon > peak.anon {
            peak = now;
        }
    });
    let told = String::from_utf8(peers.wait_with_output().expect("the peers end").stdout).expect("text");
    let numbers: Vec<f64> = told.split_whitespace().map(|number| number.parse().expect("a number")).collect();
    let [bytes, answers] = numbers[..] else { panic!("what came of the peers: {told:?}") };
    let seconds = time.as_secs_f64();
    let (megabytes, answers) = (bytes / 1e6 / seconds, answers / seconds);
    let each = served.part.network.chain.max_blocks_per_sync() as f64;
    println!(
        "{PEERS} ask for {what:?}: {megabytes:.0} MB/s, {answers:.0} answers/s, at most {:.0} blocks or hashes/s, {:.2} \
         processors\n    {waited}\n    {peak}",
        answers * each,
        (served.node.cpu_seconds() - cpu) / seconds
    );
}

/// Runs all peers with requests for blocks whose responses are not read.
fn measure_stalled(served: &ServingNode, time: Duration) {
    let before = served.node.memory();
    let streams: Vec<TcpStream> = (0..PEERS)
        .map(|peer| {
            let mut stream = connect(served.node.http, peer);
            // Buffers of the system are not to be measured.
            socket2::SockRef::from(&stream).set_recv_buffer_size(64 << 10).expect("a smaller buffer");
            (0..4).for_each(|number| {
                stream.write_all(&served.part.request(Requested::Blocks, number)).expect("the node reads")
            });
            stream
        })
        .collect();
    let mut peak = before;
    let waited = run_queries(served, time, || {
        let now = served.node.memory();
        if now.anon > peak.anon {
            peak = now;
        }
    });
    drop(streams);
    let mib = (peak.anon - before.anon) / 1024.0;
    println!("{PEERS} ask for blocks and read nothing: {mib:+.1} MiB own\n    {waited}\n    {peak}");
}

/// Sends client queries on a fixed schedule for this long; returns their response times. Calls `look` continuously.
fn run_queries(served: &ServingNode, time: Duration, mut look: impl FnMut()) -> String {
    let connect = |_| Client::connect(served.node.http).expect("a connection");
    let clients: Vec<_> = (0..CONNECTIONS).map(connect).collect();
    let begun = Instant::now();
    let mut times: Vec<f64> = std::thread::scope(|scope| {
        let ask = |first: u64, mut client: Client| {
            let mut times = Vec::new();
            for number in (first..).step_by(CONNECTIONS as usize) {
                let due = begun + Duration::from_micros(1_000_000 / PER_SECOND * number);
                if due > begun + time {
                    break;
                }
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                let (status, _) = client.get(PATHS[number as usize % PATHS.len()]).expect("an answer");
                assert_eq!(status, 200);
                times.push(due.elapsed().as_secs_f64());
            }
            times
        };
        let clients: Vec<_> =
            (0..).zip(clients).map(|(first, client)| scope.spawn(move || ask(first, client))).collect();
        while begun.elapsed() < time {
            look();
            std::thread::sleep(Duration::from_millis(20));
        }
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    });
    format!("{} queries: {}", times.len(), bench::in_millis(&mut times))
}
