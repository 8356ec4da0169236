//! A node in virtual time beside a peer, whose answers are given here.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::network_simulation::environment::node_info;
use crate::common::load_settings;
use crate::common::node_network::announcement;
use crate::common::private_network::{Genesis, TOTAL, address, key_pair, private_key, transfer};
use crate::common::recorded_chain::import_list;
use crate::common::simulated_node::{SimulatedNode, WallClock};
use nisd::codec::{Format, Writable};
use nisd::model::{Amount, Timestamp, Transaction};
use nisd::net::fetch::{FetchError, FetchRequest, FetchResponse, Response};
use nisd::node::ListedPeer;
use nisd::peer::wire::{AuthenticatedResponse, Challenge, CommunicationTimeStamps, List, NodeInfo, NodeList, Score};
use nisd::store::{ChainIdentity, Options, Store};

const START: Timestamp = Timestamp(300_000_000);
const NODE_START: Timestamp = Timestamp(START.0 + 60);
const IP: IpAddr = IpAddr::V4(Ipv4Addr::new(20, 0, 8, 1));

/// A peer.
struct Peer {
    /// Its unconfirmed transactions.
    mempool: Vec<Transaction>,
    /// Milliseconds by which its clock is ahead of that of the node before any jump.
    ahead: i64,
}

impl Peer {
    /// Returns its answer to a request that arrives at a time after the start of the node.
    fn answer(&self, request: &FetchRequest, now: Duration) -> Option<Vec<u8>> {
        fn signed(request: &FetchRequest, entity: impl Writable) -> Option<Vec<u8>> {
            let challenge = Challenge(*request.body.last_chunk()?);
            Some(Format::Binary.to_bytes(&AuthenticatedResponse { entity, signature: challenge.sign(&key_pair(8)) }))
        }
        let clock = i64::from(NODE_START.0) * 1000 + now.as_millis() as i64 + self.ahead;
        match &*request.target {
            "/node/info" => signed(request, info(8)),
            "/node/peer-list/active" => signed(request, NodeList::default()),
            "/chain/score" => signed(request, Score(0)),
            "/transactions/unconfirmed" => signed(request, List(self.mempool.clone())),
            "/time-sync/network-time" => signed(request, CommunicationTimeStamps { send: clock, receive: clock }),
            _ => None,
        }
    }
}

fn info(number: u64) -> NodeInfo {
    node_info(key_pair(number).public(), "peer".to_owned(), IP, 7000 + number as u16)
}

/// A node and its only peer that answers.
struct Scene<'s> {
    node: SimulatedNode<'s>,
    peer: Peer,
    /// Time since the start of the node.
    now: Duration,
}

impl Scene<'_> {
    /// Runs the node. The peer answers at once.
    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            for (id, request) in self.node.recorder.outgoing_requests.as_mut().map(std::mem::take).expect("a network") {
                let unreachable = || FetchError::Unreachable(ErrorKind::ConnectionRefused.into());
                let body = self.peer.answer(&request, self.now).ok_or_else(unreachable);
                let result = body.map(|body| FetchResponse { from: IP, response: Response { status: 200, body } });
                self.node.complete_fetch(id, result);
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

/// Runs a test on a node that harvests nothing and has a list of these peers, of which number 8 answers.
fn beside(peer: Peer, listed: &[u64], test: impl FnOnce(&mut Scene<'_>)) {
    let folder = tempfile::tempdir().expect("a folder");
    let genesis = Genesis::new(START, &[1, 2, 8].map(|number| (address(&key_pair(number)), Amount::whole(TOTAL / 3))));
    let key = private_key(9).printed();
    let own =
        [("nis.bootKey", key.as_str()), ("nis.shouldAutoHarvestOnBoot", "false"), ("nis.ipDetectionMode", "Disabled")];
    let settings = load_settings(Some(&genesis.write(folder.path(), &own)), &[]);
    let store = Store::open(&folder.path().join("s"), &ChainIdentity::of(&settings.network), Options::default());
    let store = store.expect("a store");
    import_list(&store, &settings.network, &genesis.block, []);
    let listed = listed.iter().map(|number| ListedPeer::Node(info(*number))).collect();
    let clock = WallClock { started: NODE_START.to_unix_millis(), drift: 0 };
    let mut node = SimulatedNode::new(&store, &settings, clock, [1; 32], Some(listed), Vec::new()).expect("a node");
    node.tick(Duration::ZERO);
    test(&mut Scene { node, peer, now: Duration::ZERO });
}

/// Returns how many transactions a node has after some time beside a peer with these.
fn transactions_beside(mempool: &[Transaction]) -> usize {
    let mut count = 0;
    beside(Peer { mempool: mempool.to_vec(), ahead: 0 }, &[8], |scene| {
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
    beside(Peer { mempool: Vec::new(), ahead: peer_ahead }, &[7, 8], |scene| {
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
fn a_wrong_signature_ends_the_unconfirmed_transactions_of_a_peer_and_nothing_else_does() {
    let payment = |from: u64| {
        transfer(&key_pair(from), address(&key_pair(3)), Amount::whole(5), Amount::whole(1), Timestamp(START.0 + 50))
    };
    let (good, of_nobody) = (payment(1), payment(7));
    let forged = Transaction { fee: Amount::whole(2), ..payment(2) };
    assert_eq!(transactions_beside(&[of_nobody.clone(), good.clone(), payment(2)]), 2);
    assert_eq!(transactions_beside(&[payment(2), forged, good]), 1);
}
