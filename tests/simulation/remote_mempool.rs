//! A node in virtual time with one peer, whose answers are given here.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::network_simulation::environment::node_info;
use crate::common::load_settings;
use crate::common::private_network::{Genesis, TOTAL, address, key_pair, private_key, transfer};
use crate::common::recorded_chain::import_list;
use crate::common::simulated_node::{SimulatedNode, WallClock};
use nisd::codec::{Format, Writable};
use nisd::crypto::KeyPair;
use nisd::model::{Amount, Timestamp, Transaction};
use nisd::net::fetch::{FetchError, FetchRequest, FetchResponse, Response};
use nisd::node::ListedPeer;
use nisd::peer::wire::{AuthenticatedResponse, Challenge, List, NodeList, Score};
use nisd::store::{ChainIdentity, Options, Store};

const START: Timestamp = Timestamp(300_000_000);
const IP: IpAddr = IpAddr::V4(Ipv4Addr::new(20, 0, 8, 1));

fn answer(peer: &KeyPair, request: &FetchRequest, mempool: &[Transaction]) -> Option<Vec<u8>> {
    fn signed(peer: &KeyPair, request: &FetchRequest, entity: impl Writable) -> Option<Vec<u8>> {
        let challenge = Challenge(*request.body.last_chunk()?);
        Some(Format::Binary.to_bytes(&AuthenticatedResponse { entity, signature: challenge.sign(peer) }))
    }
    match &*request.target {
        "/node/info" => signed(peer, request, node_info(peer.public(), "peer".to_owned(), IP, 7890)),
        "/node/peer-list/active" => signed(peer, request, NodeList::default()),
        "/chain/score" => signed(peer, request, Score(0)),
        "/transactions/unconfirmed" => signed(peer, request, List(mempool.to_vec())),
        _ => None,
    }
}

/// Returns how many transactions a node has after some time beside a peer with these.
fn transactions_beside(mempool: &[Transaction]) -> usize {
    let folder = tempfile::tempdir().expect("a folder");
    let genesis = Genesis::new(START, &[1, 2].map(|number| (address(&key_pair(number)), Amount::whole(TOTAL / 2))));
    let key = private_key(9).printed();
    let own =
        [("nis.bootKey", key.as_str()), ("nis.shouldAutoHarvestOnBoot", "false"), ("nis.ipDetectionMode", "Disabled")];
    let settings = load_settings(Some(&genesis.write(folder.path(), &own)), &[]);
    let store = Store::open(&folder.path().join("s"), &ChainIdentity::of(&settings.network), Options::default());
    let store = store.expect("a store");
    import_list(&store, &settings.network, &genesis.block, []);
    let peer = key_pair(8);
    let listed = ListedPeer::Node(node_info(peer.public(), "peer".to_owned(), IP, 7890));
    let clock = WallClock { started: START.to_unix_millis() + 60_000, drift: 0 };
    let mut node =
        SimulatedNode::new(&store, &settings, clock, [1; 32], Some(vec![listed]), Vec::new()).expect("a node");
    node.tick(Duration::ZERO);
    for _ in 0..600 {
        for (id, request) in node.recorder.outgoing_requests.as_mut().map(std::mem::take).expect("a network") {
            let unreachable = || FetchError::Unreachable(ErrorKind::ConnectionRefused.into());
            let body = answer(&peer, &request, mempool).ok_or_else(unreachable);
            let result = body.map(|body| FetchResponse { from: IP, response: Response { status: 200, body } });
            node.complete_fetch(id, result);
        }
        node.run_for(Duration::from_millis(100));
    }
    let usage = node.limit_usage();
    usage.iter().find(|usage| usage.name == "unconfirmed transactions").expect("the mempool").used
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
