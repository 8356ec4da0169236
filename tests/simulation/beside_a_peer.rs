//! A node in virtual time beside peers, whose answers are given here.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::network_simulation::environment::node_info;
use crate::common::load_settings;
use crate::common::node_network::announcement;
use crate::common::private_network::{Genesis, TOTAL, address, block, key_pair, private_key, transfer};
use crate::common::recorded_chain::{FAR_FUTURE, digest_of, import_list, tip_of};
use crate::common::simulated_node::{SimulatedNode, WallClock};
use nisd::chain::{CandidateBranch, StakeCache};
use nisd::codec::{Context, Format, Writable};
use nisd::config::Settings;
use nisd::model::{Amount, Block, Hash256, Height, Timestamp, Transaction};
use nisd::net::fetch::{FetchError, FetchRequest, FetchResponse, Response};
use nisd::node::ListedPeer;
use nisd::peer::wire::{
    AuthenticatedResponse, Challenge, CommunicationTimeStamps, HashChain, List, NodeInfo, NodeList, Score,
};
use nisd::rules::{Rejection, ValidationResult};
use nisd::store::{ChainIdentity, Options, Store};
use tempfile::TempDir;

const START: Timestamp = Timestamp(300_000_000);
const NODE_START: Timestamp = Timestamp(START.0 + 5_000);

/// A peer; by default it has nothing.
#[derive(Default)]
struct Peer {
    /// Number of its key.
    number: u64,
    /// Its unconfirmed transactions.
    mempool: Vec<Transaction>,
    /// Milliseconds by which its clock is ahead of that of the node before any jump.
    ahead: i64,
    /// The score that it claims.
    score: i128,
    /// Hashes of its chain, from the height on from which the node asks for them, and its blocks above the last common one.
    hashes: Vec<Hash256>,
    blocks: Vec<Block>,
    /// How often its blocks were requested.
    block_requests: usize,
}

impl Peer {
    /// Returns its answer to a request that arrives at a time after the start of the node.
    fn answer(&mut self, request: &FetchRequest, now: Duration) -> Option<Vec<u8>> {
        let clock = i64::from(NODE_START.0) * 1000 + now.as_millis() as i64 + self.ahead;
        match &*request.target {
            "/node/info" => self.signed(request, info(self.number)),
            "/node/peer-list/active" => self.signed(request, NodeList::default()),
            "/chain/score" => self.signed(request, Score(self.score)),
            "/chain/last-block" => self.signed(request, self.blocks.last()?.clone()),
            "/chain/hashes-from" => self.signed(request, HashChain(self.hashes.clone())),
            "/block/at" => self.signed(request, self.blocks.first()?.clone()),
            "/chain/blocks-after" => {
                self.block_requests += 1;
                self.signed(request, List(self.blocks.clone()))
            }
            "/transactions/unconfirmed" => self.signed(request, List(self.mempool.clone())),
            "/time-sync/network-time" => self.signed(request, CommunicationTimeStamps { send: clock, receive: clock }),
            _ => None,
        }
    }

    fn signed(&self, request: &FetchRequest, entity: impl Writable) -> Option<Vec<u8>> {
        let signature = Challenge(*request.body.last_chunk()?).sign(&key_pair(self.number));
        Some(Format::Binary.to_bytes(&AuthenticatedResponse { entity, signature }))
    }
}

fn info(number: u64) -> NodeInfo {
    let ip = IpAddr::V4(Ipv4Addr::new(20, 0, number as u8, 1));
    node_info(key_pair(number).public(), "peer".to_owned(), ip, 7890)
}

/// A node and its peers that answer.
struct Scene<'s> {
    node: SimulatedNode<'s>,
    peers: Vec<Peer>,
    /// Time since the start of the node.
    now: Duration,
}

impl Scene<'_> {
    /// Runs the node. The peers answer at once.
    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            for (id, request) in self.node.recorder.outgoing_requests.as_mut().map(std::mem::take).expect("a network") {
                let host = |peer: &Peer| info(peer.number).endpoint.host;
                let peer = self.peers.iter_mut().find(|peer| host(peer) == request.endpoint.host);
                let body = peer.and_then(|peer| peer.answer(&request, self.now));
                let from = request.endpoint.host.parse().expect("an address");
                let result = body.map(|body| FetchResponse { from, response: Response { status: 200, body } });
                let unreachable = || FetchError::Unreachable(ErrorKind::ConnectionRefused.into());
                self.node.complete_fetch(id, result.ok_or_else(unreachable));
            }
            if self.now == end {
                return;
            }
            let next = self.node.wake_at().map_or(end, |at| at.clamp(self.now, end));
            self.node.run_for(next - self.now);
            self.now = next;
        }
    }

    fn unconfirmed(&self) -> usize {
        let usage = self.node.limit_usage();
        usage.iter().find(|usage| usage.name == "unconfirmed transactions").expect("the mempool").used
    }
}

/// A network of which accounts 1, 2 and 8 have the stakes.
struct PrivateNetwork {
    folder: TempDir,
    settings: Settings,
    genesis: Genesis,
}

impl PrivateNetwork {
    fn new() -> PrivateNetwork {
        let folder = tempfile::tempdir().expect("a folder");
        let genesis =
            Genesis::new(START, &[1, 2, 8].map(|number| (address(&key_pair(number)), Amount::whole(TOTAL / 3))));
        let own = [("nis.shouldAutoHarvestOnBoot", "false"), ("nis.ipDetectionMode", "Disabled")];
        let config = genesis.write_hasty(folder.path(), &private_key(9).printed(), &own);
        PrivateNetwork { settings: load_settings(Some(&config), &[]), folder, genesis }
    }

    /// Returns a store with the nemesis block and these.
    fn store(&self, name: &str, blocks: &[Block]) -> Store {
        let identity = ChainIdentity::of(&self.settings.network);
        let store = Store::open(&self.folder.path().join(name), &identity, Options::default()).expect("a store");
        import_list(&store, &self.settings.network, &self.genesis.block, blocks);
        store
    }

    /// Returns a block ten seconds after its parent; any account with a stake may make it.
    fn block_after(&self, parent: &Block, harvester: u64) -> Block {
        let time = Timestamp(parent.timestamp.0 + 10);
        block(&key_pair(harvester), parent.height.0 + 1, time, parent.hash(), Vec::new())
    }

    /// Returns the blocks from height 2 up to this one, made by account 1.
    fn chain_up_to(&self, height: u64) -> Vec<Block> {
        let context = Context::of(&self.settings.network);
        let mut chain = vec![Block::from_bytes(&self.genesis.block, context).expect("a block")];
        for last in 1..height as usize {
            chain.push(self.block_after(&chain[last - 1], 1));
        }
        chain.split_off(1)
    }

    /// Returns a branch of so many blocks after the one at height 358: account 2 was allowed to make the first of them, after
    /// which importances are calculated, and the signer of the others has no stake.
    fn branch(&self, chain: &[Block], length: usize) -> Vec<Block> {
        let mut branch = vec![self.block_after(&chain[BOUNDARY as usize - 3], 2)];
        for last in 0..length - 1 {
            branch.push(self.block_after(&branch[last], 9));
        }
        branch
    }
}

/// The height of the first block after which importances are calculated.
const BOUNDARY: u64 = 359;

/// Runs a test on a node that harvests nothing and has a list of these peers, of which some answer.
fn beside(
    peers: Vec<Peer>,
    listed: &[u64],
    chain: &[Block],
    network: &PrivateNetwork,
    test: impl FnOnce(&mut Scene<'_>),
) {
    let store = network.store("s", chain);
    let listed = listed.iter().map(|number| ListedPeer::Node(info(*number))).collect();
    let clock = WallClock { started: NODE_START.to_unix_millis(), drift: 0 };
    let mut node =
        SimulatedNode::new(&store, &network.settings, clock, [1; 32], Some(listed), Vec::new()).expect("a node");
    node.tick(Duration::ZERO);
    test(&mut Scene { node, peers, now: Duration::ZERO });
}

/// Returns how many transactions a node has after some time beside a peer with these.
fn transactions_beside(mempool: &[Transaction]) -> usize {
    let mut count = 0;
    let peer = Peer { number: 8, mempool: mempool.to_vec(), ..Peer::default() };
    beside(vec![peer], &[8], &[], &PrivateNetwork::new(), |scene| {
        scene.run_for(Duration::from_secs(60));
        count = scene.unconfirmed();
    });
    count
}

/// Returns for how many seconds a node keeps a transaction once its clock has jumped forwards by `seconds`, which makes the
/// transaction expire within half a minute, beside a peer whose clock is `peer_ahead` milliseconds ahead of it before that.
fn seconds_kept_after_a_jump(seconds: i64, peer_ahead: i64) -> u64 {
    let mut kept = 0;
    // Network time does not follow the peer: it is no majority of the list.
    let peer = Peer { number: 8, ahead: peer_ahead, ..Peer::default() };
    beside(vec![peer], &[7, 8], &[], &PrivateNetwork::new(), |scene| {
        scene.run_for(Duration::from_secs(100));
        let now = scene.node.time();
        let mut payment = transfer(&key_pair(1), address(&key_pair(3)), Amount::whole(5), Amount::whole(1), now);
        payment.deadline = Timestamp(now.0 + 30);
        payment.signature = Some(key_pair(1).sign(&payment.signed_bytes()));
        scene.node.post("/transaction/announce", &announcement(&payment));
        assert_eq!(scene.unconfirmed(), 1);
        scene.node.shift_clock(seconds);
        while scene.unconfirmed() > 0 {
            scene.run_for(Duration::from_secs(1));
            kept += 1;
        }
    });
    kept
}

#[test]
fn a_jump_of_the_clock_is_disputed_for_an_hour_at_most_and_only_by_peers_whose_clocks_differ_by_a_minute() {
    const DAY: i64 = 86_400;
    let (pause, dispute) = (90, 3_600);
    for (jump, peer_ahead, expected) in [
        (60, 0, pause + dispute),
        (60, 1, pause),
        (DAY, 0, pause + dispute),
        (DAY, DAY * 1000, pause),
        (DAY, (DAY + 60) * 1000, pause + dispute),
        (DAY, (DAY + 59) * 1000, pause),
    ] {
        let kept = seconds_kept_after_a_jump(jump, peer_ahead);
        assert!(
            (expected..expected + 3).contains(&kept),
            "{kept} s after a jump by {jump} s, peer {peer_ahead} ms ahead"
        );
    }
}

#[test]
fn network_time_does_not_move_when_a_wrong_clock_is_set_right() {
    const BEHIND: i64 = 1_800;
    let peers = [1, 2, 3].map(|number| Peer { number, ahead: 1_000 * BEHIND, ..Peer::default() });
    beside(peers.into(), &[1, 2, 3], &[], &PrivateNetwork::new(), |scene| {
        let ahead = |scene: &mut Scene<'_>| {
            let text = scene.node.get("/time-sync/network-time");
            let time = text.json()["sendTimeStamp"].as_i64().expect("a time");
            time - i64::from(NODE_START.0) * 1_000 - scene.now.as_millis() as i64
        };
        scene.run_for(Duration::from_secs(100));
        let before = ahead(scene);
        assert!(before.abs_diff(1_000 * BEHIND) <= 75, "it follows the peers: {before} ms");
        scene.node.shift_clock(BEHIND);
        for seconds in [1, 10, 1_000] {
            scene.run_for(Duration::from_secs(seconds));
            let after = ahead(scene);
            assert!(after.abs_diff(before) <= 75, "{after} ms, {seconds} s later");
        }
        let status = scene.node.get("/local/peers").json();
        assert_eq!(status["clockDifference"], 0);
    });
}

#[test]
fn a_wrong_signature_ends_the_unconfirmed_transactions_of_a_peer_and_nothing_else_does() {
    let payment = |from: u64| {
        transfer(
            &key_pair(from),
            address(&key_pair(3)),
            Amount::whole(5),
            Amount::whole(1),
            Timestamp(NODE_START.0 - 10),
        )
    };
    let (good, of_nobody) = (payment(1), payment(7));
    let forged = Transaction { fee: Amount::whole(2), ..payment(2) };
    assert_eq!(transactions_beside(&[of_nobody.clone(), good.clone(), payment(2)]), 2);
    assert_eq!(transactions_beside(&[payment(2), forged, good]), 1);
}

/// Returns how many steps it takes until a branch is rejected because the hit of a block is missing.
fn steps_until_rejected(network: &PrivateNetwork, store: &Store, branch: Vec<Block>) -> usize {
    let common = Height(BOUNDARY - 1);
    let mut branch = CandidateBranch::new(store, &network.settings.network, common, branch).expect("a branch");
    let mut stakes = StakeCache::default();
    for steps in 1..100_000 {
        if let Some(outcome) = branch.step(FAR_FUTURE, &mut stakes).expect("a store that works") {
            let missing = |result: &_| matches!(result, Err(Rejection::Result(ValidationResult::FailureBlockNotHit)));
            assert!(missing(&outcome.validity), "{:?}", outcome.validity);
            return steps;
        }
    }
    panic!("it does not end");
}

#[test]
fn a_branch_whose_first_hit_above_an_importance_boundary_is_missing_costs_a_step_for_each_of_our_blocks() {
    let network = PrivateNetwork::new();
    let chain = network.chain_up_to(400);
    let steps = |height: u64, length| {
        let store = network.store(&format!("{height} {length}"), &chain[..height as usize - 1]);
        let before = digest_of(&store);
        let steps = steps_until_rejected(&network, &store, network.branch(&chain, length));
        assert_eq!((digest_of(&store), tip_of(&store).height), (before, Height(height)));
        steps
    };
    let few = steps(360, 60);
    assert_eq!(steps(380, 60), few + 20, "our blocks are undone, each in a step");
    assert_eq!(steps(360, 90), few + 30, "of a further block only the header and the signature are looked at");
}

#[test]
fn a_peer_with_such_a_branch_makes_our_blocks_be_undone_a_dozen_times_an_hour_at_most() {
    let network = PrivateNetwork::new();
    let chain = network.chain_up_to(380);
    let branch = network.branch(&chain, 40);
    let height = chain.len() as u64 + 1;
    let from = height - network.settings.network.chain.rewrite_limit;
    let common = chain[from as usize - 2..].iter().take_while(|block| block.height.0 < BOUNDARY);
    let hashes = common.chain(&branch).map(Block::hash).collect();
    let score = tip_of(&network.store("copy", &chain)).score;
    let honest = Peer { number: 7, score, ..Peer::default() };
    let hostile = Peer { number: 8, score: score + 1_000_000, hashes, blocks: branch, ..Peer::default() };
    beside(vec![honest, hostile], &[7, 8], &chain, &network, |scene| {
        scene.run_for(Duration::from_secs(3_600));
        let count = scene.peers[1].block_requests;
        assert!((5..=12).contains(&count), "{count} times");
        let height = String::from_utf8(scene.node.get("/chain/height").body).expect("text");
        assert_eq!(height.trim(), format!("{{\"height\":{}}}", chain.len() + 1));
    });
}
