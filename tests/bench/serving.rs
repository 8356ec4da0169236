//! How fast a node serves its chain to peers, and the response times of its clients meanwhile.
//!
//! In the chain a response has 400 blocks with 10,000 transactions. 50 peers at their own addresses request blocks, or
//! hashes, one after another, while 200 queries per second arrive. Then the same 50 send requests and read nothing of
//! the responses, which shows what the node buffers for them. The 50 have the lowest priority: on a network they are
//! other machines and do not share the processor with the measured clients. SERVING_CHAIN names a folder with the
//! `network.properties` and `blocks.bin` of another chain, SERVING_SECONDS the duration of each part.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::chains::{Files, Plan, generate};
use super::load::{Load, ResponseTimes};
use super::support::{Memory, cpu_seconds, folder, in_millis, print_machine};
use crate::common::daemon::{Node, args};
use crate::common::http::{Client, get, post_binary};
use crate::common::{Random, from_environment};
use nisd::codec::{Context, Format};
use nisd::config;
use nisd::crypto::PublicKey;
use nisd::model::{Block, Height, Network};
use nisd::peer::wire::{AnswerContext, AuthenticatedRequest, ChainRequest, Challenge, HashChain};
use rustix::process::setpriority_process;

const PEERS: u64 = 50;
const PATHS: [&str; 6] = ["/chain/height", "/chain/last-block", "/heartbeat", "/status", "/node/info", "/chain/score"];
const CHALLENGE: Challenge = Challenge([7; 64]);

/// The node that is queried.
struct ServingNode {
    node: Node,
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

pub fn run(_: &[String]) -> ExitCode {
    print_machine();
    let folder = folder();
    let served = serve(folder.path());
    let seconds = Duration::from_secs(from_environment("SERVING_SECONDS").unwrap_or(10));
    println!("chain of {} blocks; at rest:        {}", served.part.height, served.memory());
    show_answers(&served);
    println!("nobody asks: {}", served.run_queries(seconds).0);
    for what in [Requested::Blocks, Requested::Hashes] {
        measure(&served, what, seconds);
    }
    measure_stalled(&served, seconds.min(Duration::from_secs(5)));
    ExitCode::SUCCESS
}

/// Lets a node import the chain.
fn serve(folder: &Path) -> ServingNode {
    let files = match std::env::var_os("SERVING_CHAIN").map(PathBuf::from) {
        Some(chain) => Files { config: chain.join("network.properties"), blocks: chain.join("blocks.bin") },
        None => {
            let plan = Plan { target_time: Some(60), ..Plan::new(1_300, 25, 2_000) };
            generate(&plan, &folder.join("chain"), |_| {}).expect("a chain").0
        }
    };
    let settings = config::load(Some(&files.config), Vec::new(), Some(folder)).expect("settings");
    let store = folder.join("store");
    let node = Node::start(args!["--config", files.config, "--data", store, "--import", files.blocks]);
    let mut client = Client::connect(node.http);
    let mut height = 0;
    while height != client.height() {
        height = client.height();
        std::thread::sleep(Duration::from_secs(2));
    }
    let network = settings.network;
    let body =
        request_whole(&mut connect(node.http, 0), &post_binary("/node/info", &Format::Binary.to_bytes(&CHALLENGE)));
    let unknown = AnswerContext { key: None, ..answer_context(&PublicKey([0; 32]), Context::of(&network)) };
    let info = unknown.read_introduction(&body).expect("the node introduces itself");
    let part = ChainSource { http: node.http, network, height };
    ServingNode { node, key: info.identity.key, part }
}

fn answer_context(key: &PublicKey, context: Context) -> AnswerContext {
    AnswerContext { format: Format::Binary, context, challenge: CHALLENGE, key: Some(*key) }
}

/// Prints the largest responses and verifies their signatures.
fn show_answers(served: &ServingNode) {
    let mut stream = connect(served.node.http, 0);
    let context = Context::of(&served.part.network);
    let body = request_whole(&mut stream, &served.part.request(Requested::Blocks, 0));
    let mut list =
        answer_context(&served.key, context).open_list::<Block>(body.clone(), body.len()).expect("signed blocks");
    let (mut blocks, mut transactions, mut steps) = (0, 0, Vec::new());
    loop {
        let begun = Instant::now();
        let Some(block) = list.next(context) else { break };
        steps.push(begun.elapsed().as_secs_f64());
        blocks += 1;
        transactions += block.expect("a block").transactions.len();
    }
    println!("blocks: {blocks} with {transactions} transactions in {} bytes", body.len());
    println!("    to read one of them: {}", in_millis(&mut steps));
    let body = request_whole(&mut stream, &served.part.request(Requested::Hashes, 0));
    let HashChain(hashes) = answer_context(&served.key, context).read(&body).expect("signed hashes");
    println!("hashes: {} in {} bytes", hashes.len(), body.len());
}

impl ChainSource {
    /// Returns a request for a part of the chain below its tip.
    fn request(&self, what: Requested, number: u64) -> Vec<u8> {
        let chain = &self.network.chain;
        let last = self.height.saturating_sub(chain.max_blocks_per_sync() + 1).max(1);
        let height = Height(2 + Random(number).next() % last);
        let challenge = CHALLENGE;
        match what {
            Requested::Blocks => {
                let entity = ChainRequest::new(height, 10, i32::MAX, chain);
                post_binary(
                    "/chain/blocks-after",
                    &Format::Binary.to_bytes(&AuthenticatedRequest { entity, challenge }),
                )
            }
            Requested::Hashes => {
                let body = Format::Binary.to_bytes(&AuthenticatedRequest { entity: height, challenge });
                post_binary("/chain/hashes-from", &body)
            }
        }
    }
}

/// Connects from an address of its own, so that no per-client limit applies to all together.
fn connect(to: SocketAddr, peer: u64) -> Client {
    Client::connect_from(Ipv4Addr::new(127, 50, 0, 1 + peer as u8), to).expect("a connection")
}

/// Sends a request and returns the body of the response.
fn request_whole(client: &mut Client, request: &[u8]) -> Vec<u8> {
    let answer = client.request(request);
    assert_eq!(answer.status, 200, "{:?}", String::from_utf8_lossy(&answer.body));
    answer.body
}

/// Runs all peers for this long.
fn measure(served: &ServingNode, what: Requested, time: Duration) {
    let (process, part) = (served.node.process.id(), &served.part);
    let (cpu, end) = (cpu_seconds(process), Instant::now() + time);
    let (bytes, answers) = (AtomicU64::new(0), AtomicU64::new(0));
    let ask = |peer: u64| {
        // On Linux this is the priority of a thread.
        setpriority_process(None, 19).expect("a lower priority");
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
    };
    let (waited, peak) = std::thread::scope(|scope| {
        (0..PEERS).for_each(|peer| _ = scope.spawn(move || ask(peer)));
        served.run_queries(time)
    });
    let seconds = time.as_secs_f64();
    let [megabytes, answers] = [bytes.into_inner() as f64 / 1e6, answers.into_inner() as f64].map(|sum| sum / seconds);
    let each = part.network.chain.max_blocks_per_sync() as f64;
    println!(
        "{PEERS} ask for {what:?}: {megabytes:.0} MB/s, {answers:.0} answers/s, at most {:.0} blocks or hashes/s, {:.2} \
         processors\n    {waited}\n    {peak}",
        answers * each,
        (cpu_seconds(process) - cpu) / seconds
    );
}

/// Runs all peers with requests for blocks whose responses are not read.
fn measure_stalled(served: &ServingNode, time: Duration) {
    let before = served.memory();
    let ask = |peer| {
        let mut stream = connect(served.node.http, peer);
        // Buffers of the system are not to be measured.
        socket2::SockRef::from(&*stream.stream()).set_recv_buffer_size(64 << 10).expect("a smaller buffer");
        let requests = (0..4).map(|number| served.part.request(Requested::Blocks, number));
        requests.for_each(|request| stream.send(&request));
        stream
    };
    let streams: Vec<Client> = (0..PEERS).map(ask).collect();
    let (waited, peak) = served.run_queries(time);
    drop(streams);
    let mib = (peak.anon - before.anon) / 1024.0;
    println!("{PEERS} ask for blocks and read nothing: {mib:+.1} MiB own\n    {waited}\n    {peak}");
}

impl ServingNode {
    fn memory(&self) -> Memory {
        Memory::of(self.node.process.id())
    }

    /// Sends client queries for this long; returns their response times and the peak memory of the node.
    fn run_queries(&self, time: Duration) -> (ResponseTimes, Memory) {
        let load = Load::local(200, 10).start(self.node.http, |number| get(PATHS[number as usize % PATHS.len()]));
        let (begun, mut peak) = (Instant::now(), self.memory());
        while begun.elapsed() < time {
            std::thread::sleep(Duration::from_millis(20));
            let now = self.memory();
            peak = if now.anon > peak.anon { now } else { peak };
        }
        (ResponseTimes::of(&load.stop_now()), peak)
    }
}
