//! Nodes that start without a nemesis block and get it from peers, which may lie. Everything stays on this machine: a
//! node started here knows only the peers it is given.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::common::daemon::{CommandOutput, Process, closed_port, nisd, process_memory, run, wait_for};
use crate::common::data_folder::{ChainFiles, text};
use crate::common::exchange::decode_base64;
use crate::common::http::{Client, response};
use crate::common::private_network::{Genesis, TOTAL, address, key_pair, now};
use crate::common::recorded_chain::Chain;
use crate::common::{load_settings, read_recorded, shared, tiny};
use crate::network::scripted_peer::{AfterResponse, HonestPeer, ScriptedPeer, ScriptedResponse};
use nisd::codec::{Context, SigningForm};
use nisd::ip::Scope;
use nisd::model::{Amount, Block};
use nisd::net::fetch::{FetchResponse, Response};
use nisd::peer::NemesisSearch;
use nisd::peer::wire::Endpoint;
use tempfile::TempDir;

/// Maximum peak resident memory in KiB of a node while peers lie to it.
const MAX_MEMORY: u64 = 64 << 10;
/// Maximum size of a nemesis block that is accepted from peers.
const MAX_NEMESIS_BYTES: usize = 4 << 20;

/// A node in its own folder, which is also its working directory.
struct Member {
    folder: TempDir,
    http: SocketAddr,
    arguments: Vec<String>,
    process: Process,
}

impl Member {
    /// Starts a node with these arguments and these peers.
    fn start(folder: TempDir, arguments: &[&str], peers: &[SocketAddr]) -> Member {
        let http = closed_port();
        let mut arguments: Vec<_> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        arguments.extend(["--http-port".to_owned(), http.port().to_string()]);
        arguments.extend(peers.iter().flat_map(|peer| ["--peer".to_owned(), peer.to_string()]));
        let process = Member::run(&folder, &arguments);
        Member { folder, http, arguments, process }
    }

    fn run(folder: &TempDir, arguments: &[String]) -> Process {
        let mut command = nisd(["run", "--bind", "127.0.0.1", "--websocket-port", "0", "--data", "store"]);
        command.args(arguments).current_dir(folder.path());
        Process::start(command)
    }

    fn restart(&mut self) {
        self.process.kill();
        self.process = Member::run(&self.folder, &self.arguments);
    }

    fn client(&self) -> Client {
        wait_for("a connection", || TcpStream::connect(self.http).ok().map(Client::from_stream))
    }

    /// Waits for the nemesis block and returns it.
    #[track_caller]
    fn nemesis(&self) -> Vec<u8> {
        wait_for("the nemesis block", || {
            let answer = TcpStream::connect(self.http).ok().map(|stream| Client::from_stream(stream).block(1))?;
            (answer.status == 200).then_some(answer.body)
        })
    }

    fn log_contains(&self, text: &str) -> bool {
        self.process.log().contains(text)
    }

    /// Ends the process with a signal.
    fn end(self, signal: &str) -> CommandOutput {
        self.process.signal(signal);
        self.process.wait_with_timeout(Duration::from_secs(5)).expect_success()
    }
}

/// Creates a private network, and a folder with its settings, with the nemesis block only if `with_block` is set.
fn genesis() -> Genesis {
    let funded = [(1, TOTAL - 1_000), (2, 1_000)];
    Genesis::new(now(), &funded.map(|(number, share)| (address(&key_pair(number)), Amount::whole(share))))
}

fn folder_of(genesis: &Genesis, with_block: bool) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    genesis.write(folder.path(), &[("nisd.data", "store")]);
    if !with_block {
        fs::remove_file(folder.path().join("nemesis.bin")).expect("a file");
    }
    folder
}

/// Any port of this machine.
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

const CONFIG: [&str; 2] = ["--config", "node.properties"];

/// Starts a peer that answers every request with these bytes.
fn raw_peer(address: SocketAddr, bytes: impl Into<Vec<u8>>, then: AfterResponse) -> ScriptedPeer {
    let bytes = bytes.into();
    ScriptedPeer::start(key_pair(9), address, HonestPeer(address), move |_, _| {
        ScriptedResponse::Raw(bytes.clone(), then)
    })
}

/// Starts a peer that answers every request with this body.
fn peer(address: SocketAddr, body: &[u8]) -> ScriptedPeer {
    raw_peer(address, response("200 OK", body), AfterResponse::KeepOpen)
}

/// Replaces the signer of a transfer in the nemesis block; `is_signed` makes the new signer sign it.
fn with_other_signer(genesis: &Genesis, is_signed: bool) -> Vec<u8> {
    let mut block = Block::from_bytes(&genesis.block, Context::of(&Chain::tiny().network)).expect("a block");
    let transaction = &mut block.transactions[1];
    transaction.signer = key_pair(9).public();
    if is_signed {
        transaction.signature = Some(key_pair(9).sign(&transaction.signed_bytes()));
    }
    // Only the owner of the nemesis key can do this.
    block.signature = Some(key_pair(0).sign(&block.to_bytes(SigningForm::NonVerifiable)));
    block.to_bytes(SigningForm::Verifiable)
}

#[test]
fn a_node_without_a_nemesis_block_fetches_it_from_a_peer_and_stores_it() {
    let genesis = genesis();
    let first = Member::start(folder_of(&genesis, true), &CONFIG, &[]);
    let expected = first.nemesis();
    let mut second = Member::start(folder_of(&genesis, false), &CONFIG, &[first.http]);
    assert_eq!(second.nemesis(), expected);
    assert!(second.log_contains("has sent a nemesis block of synthetic"), "{}", second.process.log());
    first.end("TERM");
    // No peer is reachable any more, and there is still no file.
    second.restart();
    assert_eq!(second.nemesis(), expected);
    assert!(!second.log_contains("requesting it from known peers"), "{}", second.process.log());
    // Importing recorded blocks does not need one either.
    let folder = second.folder.path().to_owned();
    let blocks = folder.join("none.bin");
    fs::write(&blocks, b"").expect("room");
    second.process.kill();
    let chain = ChainFiles { config: folder.join("node.properties"), blocks };
    chain.import(&folder.join("store"), &[]).expect_success();
}

#[test]
fn a_node_that_joins_without_files_follows_the_chain_of_its_peer() {
    let chain = ChainFiles::of("tiny");
    let clock = ["--clock", "3240"];
    let arguments = [&clock[..], &["--config", text(&chain.config), "--import", text(&chain.blocks)]].concat();
    let first = Member::start(tempfile::tempdir().expect("a folder"), &arguments, &[]);
    first.nemesis();
    let height = wait_for("the whole chain", || Some(first.client().height()).filter(|height| *height == 60));
    let folder = tempfile::tempdir().expect("a folder");
    fs::copy(&chain.config, folder.path().join("config.json")).expect("room");
    let second = Member::start(folder, &[&clock[..], &["--config", "config.json"]].concat(), &[first.http]);
    second.nemesis();
    wait_for("the same chain", || (second.client().height() == height).then_some(()));
    assert_eq!(second.client().block(height), first.client().block(height));
}

#[test]
fn byzantine_peers_are_logged_and_skipped_during_the_nemesis_search() {
    let genesis = genesis();
    let good = genesis.block.clone();
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n";
    let slow = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
    let oversized = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 100 << 20);
    let redirect = response("302 Found\r\nLocation: http://127.0.0.1/", b"");
    let ok = |body: &[u8]| (response("200 OK", body), AfterResponse::KeepOpen);
    // What each peer sends, and what is logged about it.
    let byzantine: Vec<(&str, (Vec<u8>, AfterResponse))> = vec![
        ("status 404", (response("404 Not Found", b"none"), AfterResponse::KeepOpen)),
        ("status 302", (redirect, AfterResponse::KeepOpen)),
        ("not proper HTTP", (b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), AfterResponse::Close)),
        ("not a block of this network", ok(&vec![0xff; MAX_NEMESIS_BYTES])),
        ("too long", (oversized.into(), AfterResponse::Close)),
        ("too long", (chunks.into(), AfterResponse::Flood(0xff))),
        ("a signature is wrong", ok(&with_other_signer(&genesis, false))),
        ("something other", ok(&with_other_signer(&genesis, true))),
        ("", (Vec::new(), AfterResponse::Hang)),
        ("", (slow.into(), AfterResponse::Drip(0xff))),
    ];
    let start = |(text, (bytes, then))| (text, raw_peer(ANY_PORT, bytes, then));
    let byzantine: Vec<(&str, ScriptedPeer)> = byzantine.into_iter().map(start).collect();
    let good = peer(ANY_PORT, &good);
    let unreachable = closed_port();
    let mut known = vec![unreachable];
    known.extend(byzantine.iter().map(|(_, peer)| peer.endpoint()).chain([good.endpoint()]));
    let begun = Instant::now();
    let node = Member::start(folder_of(&genesis, false), &CONFIG, &known);
    node.nemesis();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let (log, memory) = (node.process.log(), process_memory(node.process.id(), "VmHWM"));
    let logged = byzantine.iter().map(|(text, peer)| (*text, peer.endpoint()));
    for (text, peer) in logged.chain([("has not sent a nemesis block", unreachable)]) {
        let is_logged = |line: &str| line.contains(&peer.to_string()) && line.contains(text);
        assert!(text.is_empty() || log.lines().any(is_logged), "{peer} {text}:\n{log}");
    }
    assert!(memory.is_none_or(|kib| kib < MAX_MEMORY), "{memory:?}");
    node.end("TERM");
}

#[test]
fn a_node_searching_the_nemesis_block_answers_requests_and_stops_on_signals() {
    let genesis = genesis();
    let later = closed_port();
    let node = Member::start(folder_of(&genesis, false), &CONFIG, &[later]);
    wait_for("the log line", || node.log_contains("asking again in 5 s").then_some(()));
    let mut client = node.client();
    let status = client.get("/status");
    assert_eq!((status.status, status.text()), (200, "{\"code\":8,\"type\":4,\"message\":\"status\"}\r\n"));
    for path in ["/chain/height", "/node/info", "/no/such/path"] {
        let answer = client.get(path);
        assert_eq!(answer.status, 503, "{path}");
        assert_eq!(answer.json()["message"], "NIS_ILLEGAL_STATE_LOADING_CHAIN", "{path}");
    }
    assert_eq!(client.get("/explorer").status, 200);
    let _later = peer(later, &genesis.block);
    node.nemesis();
    // An earlier connection still works.
    assert_eq!(client.height(), 1);
    node.end("TERM");

    for signal in ["INT", "TERM"] {
        let silent = raw_peer(ANY_PORT, "", AfterResponse::Hang);
        let node = Member::start(folder_of(&genesis, false), &CONFIG, &[silent.endpoint()]);
        node.client();
        wait_for("the log line", || node.log_contains("requesting it from known peers").then_some(()));
        let ended = node.end(signal);
        assert!(ended.stderr.contains("stopping"), "{}", ended.stderr);
    }
}

#[test]
fn a_node_without_a_nemesis_block_and_peers_does_not_start() {
    let folder = folder_of(&genesis(), false);
    let config = folder.path().join("node.properties");
    let (config, store) = (config.to_str().expect("a path"), folder.path().join("store"));
    let arguments = ["run", "--config", config, "--http-port", "0", "--websocket-port", "0"];
    run(arguments).expect_failure(1, &["nemesis.bin", "nem.network.nemesisFilePath", "--peer HOST"]);
    assert!(!store.exists());
    // Neither does a node whose file holds another block.
    fs::copy(tiny("nemesis.bin"), folder.path().join("nemesis.bin")).expect("room");
    run(arguments).expect_failure(1, &["nemesis.bin", "another account", "nem.network.nemesisFilePath"]);
    assert!(!store.exists());
}

/// Creates a folder with settings and an empty list of peers, so that well-known nodes are not contacted.
fn folder_without_peers(network: &str, settings: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!("nem.network = {network}\n{settings}");
    fs::write(folder.path().join("node.properties"), text).expect("room");
    fs::write(folder.path().join(format!("peers-config_{network}.json")), "{\"knownPeers\":[]}").expect("room");
    folder
}

/// Starts nodes of a public network: one has the recorded nemesis block, the other gets it from that node without any
/// file.
fn join_public(network: &str, file: &str, transactions: usize) {
    let Some(nemesis) = shared(&format!("data/{file}")) else { return };
    let nemesis: PathBuf = nemesis.canonicalize().expect("a path");
    let setting = format!("nem.network.nemesisFilePath = {}\n", nemesis.display());
    let first = Member::start(folder_without_peers(network, &setting), &CONFIG, &[]);
    let expected = first.nemesis();
    assert!(first.log_contains("STANDS STILL"), "it knows nobody:\n{}", first.process.log());
    let byzantine = peer(ANY_PORT, &genesis().block);
    let lie = byzantine.endpoint();
    let folder = tempfile::tempdir().expect("a folder");
    let second = Member::start(folder, &["--network", network], &[lie, first.http]);
    assert_eq!(second.nemesis(), expected);
    let warning = format!("http://{lie} has sent something other than the nemesis block of {network}");
    assert!(second.log_contains(&warning), "{}", second.process.log());
    let block = second.client().block(1).json();
    assert_eq!(block["transactions"].as_array().map(Vec::len), Some(transactions));
    wait_for("a contact", || {
        let nodes = second.client().get("/node/peer-list/all").json();
        (nodes["active"].as_array().is_some_and(|active| active.len() == 1)).then_some(())
    });
    second.end("TERM");
    first.end("TERM");
}

#[test]
fn a_node_joins_each_public_network_without_any_file() {
    join_public("mainnet", "nemesis.bin", 1353);
    join_public("testnet", "nemesis-testnet.bin", 20);
    join_public("mijinnet", "nemesis-mijinnet.bin", 10);
}

#[test]
fn a_recorded_nemesis_answer_of_nis1_is_accepted() {
    let text = read_recorded("http/tiny.jsonl.gz");
    let line = text.lines().find(|line| line.contains("\"id\":\"tiny-03120\"")).expect("the answer");
    let recorded: serde_json::Value = serde_json::from_str(line).expect("JSON");
    assert_eq!((&recorded["path"], &recorded["body"]), (&"/block/at/public".into(), &"{\"height\":1}".into()));
    let body = decode_base64(recorded["responseBody"].as_str().expect("a body")).expect("base64");
    let chain = Chain::tiny();
    let known = vec![Endpoint::http("127.0.0.1", 7890)];
    let mut search = NemesisSearch::new(chain.network.clone(), None, known, Scope::Private, Duration::ZERO);
    let (id, request) = search.next_request(Duration::ZERO).expect("a request");
    assert_eq!((&*request.target, &request.body[..]), ("/block/at/public", &[1, 0, 0, 0, 0, 0, 0, 0][..]));
    let reply = Ok(FetchResponse { from: [127, 0, 0, 1].into(), response: Response { status: 200, body } });
    assert_eq!(search.on_reply(id, reply, Duration::ZERO), Some(chain.nemesis));
}

/// Checks that no test contacts anything but this machine.
#[test]
fn tests_of_public_networks_know_no_public_peers() {
    let folder = folder_without_peers("mainnet", "");
    let settings = load_settings(Some(&folder.path().join("node.properties")), &[]);
    assert_eq!(settings.listed_peers().expect("a list").nodes, []);
}
