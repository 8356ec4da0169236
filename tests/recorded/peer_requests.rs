//! This node in the place of a recorded NIS1 node that sends requests: its peers answer as recorded, and this node must
//! send the same requests at the same times and judge the peers alike.
//!
//! Recorded valid proofs are made anew for the challenges of this node; invalid ones stay invalid.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use crate::common::{Random, print_notice, recorded};
use crate::recorded::peer_recording::{Call, Recording, read};
use nisd::codec::{Context, Format};
use nisd::ip::Scope;
use nisd::model::{Address, Hash256, Height, Timestamp};
use nisd::net::fetch::{self, FetchError, FetchId, FetchRequest, FetchResponse, Response};
use nisd::peer::io::{Action, LocalChain, Now, OwnTip, Reply, StoreUnreadable};
use nisd::peer::peer_entry::State;
use nisd::peer::wire::{AuthenticatedResponse, Challenge, Endpoint, HashChain, Identity, MetaData, NodeInfo, Version};
use nisd::peer::{ListedPeer, Manager, PeerSettings};
use serde_json::Value;

const FORMAT: Format = Format::Binary;
/// Timeout for a silent node, in milliseconds.
const SOCKET_TIMEOUT: f64 = 10_000.0;

/// A request of this node.
#[derive(Clone, Debug, PartialEq)]
struct SentRequest {
    at: Duration,
    peer: String,
    path: String,
}

/// The recorded peers that receive requests.
struct RecordedPeers {
    recording: Recording,
    /// The requesting node of the recording.
    requester: &'static str,
    now: Duration,
    sent: Vec<SentRequest>,
    /// Answers in transit and their times of arrival.
    replies: Vec<(Duration, FetchId, Reply)>,
    /// Recorded calls whose answers were already used.
    used: Vec<bool>,
    nemesis: Hash256,
    validating: VecDeque<Address>,
}

impl RecordedPeers {
    fn new(recording: Recording, requester: &'static str) -> RecordedPeers {
        let hashes = recording.calls.iter().find(|call| call.path == "/chain/hashes-from" && call.status == Some(200));
        let hashes = hashes.map(|call| {
            let context = Context::of(&recording.network);
            FORMAT.read::<AuthenticatedResponse<HashChain>>(&call.response, context).expect("hashes").entity.0
        });
        RecordedPeers {
            requester,
            now: Duration::ZERO,
            sent: Vec::new(),
            replies: Vec::new(),
            used: vec![false; recording.calls.len()],
            nemesis: hashes.and_then(|hashes| hashes.first().copied()).unwrap_or(Hash256([0; 32])),
            validating: VecDeque::new(),
            recording,
        }
    }

    /// Returns the next recorded call to a node and path.
    fn recorded(&mut self, peer: &str, path: &str) -> Option<&Call> {
        let is_it = |call: &Call| call.from == self.requester && call.to == peer && call.path == path;
        let calls = self.recording.calls.iter().enumerate();
        let (number, call) = calls.into_iter().find(|(number, call)| !self.used[*number] && is_it(call))?;
        self.used[number] = true;
        Some(call)
    }

    fn reply(&mut self, peer: &str, request: &FetchRequest) -> (f64, Reply) {
        let challenge = request.body.last_chunk().copied().map(Challenge);
        let Some(call) = self.recorded(peer, &request.target) else {
            return (1.0, Err(FetchError::Unreachable(std::io::ErrorKind::ConnectionRefused.into())));
        };
        let duration = call.duration_millis;
        let (status, body, recorded) = (call.status, call.response.clone(), call.request.clone());
        match status {
            Some(200) => {
                let recorded = recorded.last_chunk().copied().map(Challenge);
                let body = match (recorded, challenge) {
                    (Some(recorded), Some(challenge)) => self.recording.signed_again(body, &recorded, &challenge),
                    _ => body,
                };
                (duration, answer(200, body))
            }
            Some(status) => (duration, answer(status, body)),
            None if duration >= SOCKET_TIMEOUT => (SOCKET_TIMEOUT, Err(FetchError::Silent(Duration::from_secs(10)))),
            None => (duration, Err(FetchError::Broken(std::io::ErrorKind::ConnectionReset.into()))),
        }
    }
}

impl RecordedPeers {
    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Fetch(call, request) => self.send(call, &request),
                Action::Cancel(call) => self.replies.retain(|(_, other, _)| *other != call),
                Action::Resume(_) => {}
            }
        }
    }

    fn send(&mut self, call: FetchId, request: &FetchRequest) {
        let fetch::Endpoint { host, port } = &request.endpoint;
        let name = self.recording.ports.get(port).filter(|_| host == "127.0.0.1").cloned();
        let peer = name.unwrap_or_else(|| Endpoint::http(host, *port).to_string());
        self.sent.push(SentRequest { at: self.now, peer: peer.clone(), path: request.target.clone() });
        let (duration, reply) = self.reply(&peer, request);
        self.replies.push((self.now + Duration::from_secs_f64(duration / 1_000.0), call, reply));
    }
}

fn answer(status: u16, body: Vec<u8>) -> Reply {
    Ok(FetchResponse { from: IpAddr::V4(Ipv4Addr::LOCALHOST), response: Response { status, body } })
}

impl LocalChain for RecordedPeers {
    fn tip(&self) -> Result<OwnTip, StoreUnreadable> {
        Ok(OwnTip { height: Height(1), hash: self.nemesis, signature: None, score: 0 })
    }

    fn hashes_from(&self, _: Height, _: u64) -> Result<Vec<Hash256>, StoreUnreadable> {
        Ok(vec![self.nemesis])
    }

    fn short_ids(&self) -> Vec<i64> {
        Vec::new()
    }

    /// The accounts of nodes A and B are important.
    fn importance(&self, node: &Address) -> Result<f64, StoreUnreadable> {
        let is = |name: &str| {
            let key = self.recording.keys.get(name);
            key.is_some_and(|key| Address::from_public_key(key, self.recording.network.byte) == *node)
        };
        Ok(if is("A") || is("B") { 0.1 } else { 0.0 })
    }

    fn important_accounts(&self) -> Result<u64, StoreUnreadable> {
        Ok(10)
    }
}

/// This node with the settings of a recorded one, and its peers.
struct Replay {
    peers: Manager,
    recorded_peers: RecordedPeers,
    /// Duration of block validation.
    validation_time: Duration,
}

impl Replay {
    fn new(folder: &Path, name: &str, requester: &'static str, node_limit: usize) -> Replay {
        let recording = read(folder, name);
        let node = folder.join(format!("{name}-config")).join(requester);
        let network = recording.network.clone();
        let file = std::fs::read(node.join(format!("peers-config_{}.json", network.name))).expect("the peers file");
        let file: Value = serde_json::from_slice(&file).expect("JSON");
        let context = Context::of(&network);
        let peer = |value: &Value| FORMAT_OF_FILES.read(value.to_string().as_bytes(), context).expect("a node");
        let known = file["knownPeers"].as_array().expect("peers").iter().map(peer).map(ListedPeer::Node).collect();
        let pair = &recording.pairs[requester];
        let port = recording.ports.iter().find(|(_, name)| *name == requester).map(|(port, _)| *port).expect("a port");
        let local = NodeInfo {
            identity: Identity { key: pair.public(), name: Some(format!("node {requester}")) },
            endpoint: Endpoint::http("127.0.0.1", port),
            meta_data: MetaData {
                version: Version::OWN,
                network_id: MetaData::network_id_of(network.byte),
                ..MetaData::default()
            },
        };
        let settings = PeerSettings {
            node_limit,
            format: FORMAT,
            least_scope: Scope::Loopback,
            context,
            // NIS1 downloads all blocks from one node.
            far_ahead: u64::MAX,
            ..PeerSettings::of(&network, known)
        };
        let mut random = Random(1);
        // It signs nothing: this node only sends requests.
        let keys = Rc::new(nisd::crypto::KeyPair::new(&nisd::crypto::PrivateKey::from_seed(&[1; 32])));
        let peers = Manager::new(local, keys, settings, Box::new(move || random.next()), now(Duration::ZERO));
        Replay { peers, recorded_peers: RecordedPeers::new(recording, requester), validation_time: Duration::ZERO }
    }

    /// Advances time to `end`.
    fn run(&mut self, end: Duration) {
        let mut validated_at = None;
        loop {
            let time = self.recorded_peers.now;
            self.peers.tick(now(time), 1_000, &self.recorded_peers);
            self.recorded_peers.carry_out(self.peers.take_actions());
            self.recorded_peers.validating.extend(self.peers.fetched_blocks.take().map(|blocks| blocks.from));
            if validated_at.is_none() && !self.recorded_peers.validating.is_empty() {
                validated_at = Some(time + self.validation_time);
            }
            let reply = self.recorded_peers.replies.iter().map(|(at, _, _)| *at).min();
            let next = [self.peers.next_due(), reply, validated_at].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { return };
            self.recorded_peers.now = next.max(time);
            let time = self.recorded_peers.now;
            if validated_at.is_some_and(|at| at <= time) {
                validated_at = None;
                let from = self.recorded_peers.validating.pop_front().expect("blocks");
                self.peers.on_blocks_validated(&from, &Ok(()), now(time));
            }
            while let Some(place) = self.recorded_peers.replies.iter().position(|(at, _, _)| *at <= time) {
                let (_, call, reply) = self.recorded_peers.replies.remove(place);
                self.peers.on_reply(call, reply, now(time), &self.recorded_peers);
                self.recorded_peers.carry_out(self.peers.take_actions());
            }
        }
    }

    /// Returns the states of the peers by name.
    fn states(&self) -> BTreeMap<String, State> {
        let recording = &self.recorded_peers.recording;
        let of = |address: &Address| {
            let is_it = |key| Address::from_public_key(key, recording.network.byte) == *address;
            recording.keys.iter().find(|(_, key)| is_it(key)).map_or(address.to_string(), |(name, _)| name.clone())
        };
        self.peers.table.iter().map(|(node, peer)| (of(node), peer.state)).collect()
    }
}

const FORMAT_OF_FILES: Format = Format::Json;

fn now(running: Duration) -> Now {
    let millis = 300_000_000_000 + running.as_millis() as i64;
    Now { monotonic: running, network: Timestamp((millis / 1_000) as i32), network_millis: millis }
}

#[test]
fn peers_with_one_fault_each_get_the_state_of_nis1() {
    let folder = recorded("peer");
    let mut replay = Replay::new(&folder, "misbehave", "T", 30);
    replay.run(Duration::from_secs(15));
    let mut expected = BTreeMap::new();
    let mut expect = |state, names: &[&str]| expected.extend(names.iter().map(|name| ((*name).to_owned(), state)));
    // Nothing listens there; the key is that of another node.
    expect(State::Inactive, &["endpoint of another host", "other key"]);
    expect(State::Busy, &["silent"]);
    expect(
        State::Failure,
        &[
            "closes the connection",
            "network id 104",
            "other identity in the answer",
            "signed by another key",
            "status 429",
            "status 503",
            "version 0.5.9",
            "version 1.6.1",
            "version not a version",
            "wrong signature",
        ],
    );
    expect(
        State::Active,
        &[
            "good info",
            "peer list with a dead node",
            "peer list with itself and the asker",
            "surplus bytes",
            "version 0.0.0",
            "version 0.7.1",
            // NIS1 penalizes the node that lists a peer it cannot decode.
            "host unresolvable in the peer list",
        ],
    );
    let states = replay.states();
    assert_eq!(states, expected);
    let refreshed = replay.recorded_peers.sent.iter().filter(|sent| sent.path == "/node/info").count();
    print_notice(&format!("misbehave: {} nodes, {refreshed} contacts in the first refresh", states.len()));
}

#[test]
fn a_joining_node_sends_the_requests_of_nis1_at_the_same_times() {
    let folder = recorded("peer");
    const END: f64 = 10.0;
    let mut replay = Replay::new(&folder, "bootstrap", "C", 5);
    let calls = &replay.recorded_peers.recording.calls;
    let recorded: Vec<_> = calls.iter().filter(|call| call.from == "C" && call.at < END).collect();
    // The node had loaded its chain by then.
    let start = recorded[0].at;
    let list = recorded.iter().find(|call| call.path == "/node/info" && call.to == "B").expect("the refresh");
    let refreshed = list.at + list.duration_millis / 1_000.0 - start;
    let next = calls.iter().find(|call| call.from == "C" && call.at >= END && call.path == "/chain/score");
    let next_synchronisation = next.expect("a second synchronisation").at - start;
    let blocks = recorded.iter().find(|call| call.path == "/chain/blocks-after").expect("blocks");
    replay.validation_time =
        Duration::from_secs_f64(next_synchronisation - 3.0 - (blocks.at - start + blocks.duration_millis / 1_000.0));
    let recorded: Vec<_> = recorded.iter().map(|call| (call.to.clone(), call.path.clone(), call.at - start)).collect();
    replay.run(Duration::from_secs_f64(next_synchronisation + 0.05));
    let sent: Vec<_> = replay.recorded_peers.sent.iter().collect();
    let ours: Vec<_> = sent.iter().take(recorded.len()).map(|sent| (sent.peer.clone(), sent.path.clone())).collect();
    let theirs: Vec<_> = recorded.iter().map(|(peer, path, _)| (peer.clone(), path.clone())).collect();
    assert_eq!(ours, theirs);
    let second: Vec<_> = sent[recorded.len()..].iter().map(|sent| &*sent.path).collect();
    assert_eq!(second[0], "/chain/score", "the second synchronisation, three seconds after the first has ended");
    // Times are relative to the end of the first refresh.
    let refresh = sent.iter().position(|sent| sent.path == "/node/sign-of-life").expect("a sign of life");
    let our_start = sent[refresh].at.as_secs_f64() - 0.4;
    let mut worst: f64 = 0.0;
    for (sent, (peer, path, at)) in sent.iter().zip(&recorded).skip(refresh) {
        let (ours, theirs) = (sent.at.as_secs_f64() - our_start, at - refreshed);
        worst = worst.max((ours - theirs).abs());
        assert!((ours - theirs).abs() < 0.15, "{path} of {peer}: {ours} s after the first refresh, not {theirs}");
    }
    print_notice(&format!("bootstrap: {} questions in the first {END} s, at most {worst:.3} s off", recorded.len()));
}
