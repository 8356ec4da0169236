//! Tests of the routes about peers and requests, and of pushes by peers.

use std::rc::Rc;
use std::time::Duration;

use serde_json::json;

use crate::api::tests::*;
use crate::api::{Api, NodeStatus, Settings};
use crate::codec::Format;
use crate::crypto::{KeyPair, PrivateKey, Signature};
use crate::ip::Scope;
use crate::model::network::ChainParameters;
use crate::model::{Network, Timestamp, Transaction};
use crate::net::http::Response;
use crate::net::service::{ConnectionId, ListenerId, Progress};
use crate::peer::io::{Action, Now};
use crate::peer::tests::{FakeIo, unreachable};
use crate::peer::wire::{Endpoint, Identity, List, MetaData, NodeInfo, SecureEntity, limits};
use crate::peer::{IpDetection, ListedPeer, Manager, PeerSettings};

fn json_of(response: &Response) -> serde_json::Value {
    serde_json::from_slice(&response.body).expect("JSON")
}

#[test]
fn the_request_history_lists_only_authorised_requests_of_known_routes() {
    let (scene, mut api) = (Scene::new(), Api::new(settings()));
    let said =
        |api: &mut Api, line: &str, from: [u8; 4]| json_of(&TestRequest::new(line).from(from).send_to(api, &scene));
    for (line, from) in [
        ("GET /chain/height/", [127, 0, 0, 1]),
        ("GET /HEARTBEAT", [127, 0, 0, 1]),
        ("GET /heartbeat", [127, 0, 0, 1]),
        ("POST /chain/last-block.json", [10, 0, 0, 1]),
        ("GET /shutdown", [10, 0, 0, 1]),
        ("GET /nosuch", [10, 0, 0, 1]),
        ("PUT /chain/height", [10, 0, 0, 1]),
        ("GET /account/get?address=x", [10, 0, 0, 1]),
    ] {
        TestRequest::new(line).from(from).send_to(&mut api, &scene);
    }
    let reported = said(&mut api, "GET /debug/connections/incoming", [127, 0, 0, 1]);
    let entry = |id: u32, host: &str, path: &str| json!({ "path": path, "start-time": 3240, "host": host, "elapsed-time": 0, "id": id });
    let own = entry(4, "127.0.0.1", "/debug/connections/incoming");
    let latest = [
        own.clone(),
        entry(3, "10.0.0.1", "/account/get"),
        entry(2, "10.0.0.1", "/chain/last-block.json"),
        entry(1, "127.0.0.1", "/chain/height/"),
    ];
    assert_eq!(reported, json!({ "outstanding": [own], "most-recent": latest }));
    let none = json!({ "outstanding": [], "most-recent": [] });
    assert_eq!(said(&mut api, "GET /debug/connections/outgoing", [127, 0, 0, 1]), none);
}

#[test]
fn the_request_history_is_shown_only_to_local_clients() {
    let (scene, mut api) = (Scene::new(), Api::new(settings()));
    for direction in ["incoming", "outgoing"] {
        let line = format!("GET /debug/connections/{direction}");
        let mut status = |from| TestRequest::new(&line).from(from).send_to(&mut api, &scene).status;
        assert_eq!([status([127, 0, 0, 1]), status([10, 0, 0, 1])], [200, 401], "{direction}");
    }
}

#[test]
fn a_sign_of_life_is_outstanding_until_its_sender_is_verified() {
    let (scene, mut api) = (Scene::new(), Api::new(settings()));
    let mut manager = peers(Vec::new());
    manager.tick(NOW, 0, &FakeIo::new());
    let mut node = TestNode { peers: Some(manager), ..TestNode::default() };
    let other = NodeInfo {
        endpoint: Endpoint::http("127.0.0.1", 7891),
        meta_data: node.info.meta_data.clone(),
        ..known_peer()
    };
    let body = Format::Json.to_bytes(&other);
    let body = std::str::from_utf8(&body).expect("JSON");
    let sent = TestRequest { connection: ConnectionId(7), ..TestRequest::new("POST /node/sign-of-life").json(body) };
    let mut reply = Response::new();
    let step = |api: &mut Api, node: &mut TestNode, reply: &mut Response, is_resumed| {
        sent.step(api, &scene, node, reply, is_resumed, PLENTY).expect("a request").0
    };
    assert_eq!(step(&mut api, &mut node, &mut reply, false), Progress::Suspended);
    let outstanding = |api: &mut Api| {
        let reported = json_of(&TestRequest::new("GET /debug/connections/incoming").send_to(api, &scene));
        let paths = reported["outstanding"].as_array().expect("a list").iter().map(|entry| entry["path"].clone());
        paths.map(|path| path.as_str().expect("a path").to_owned()).collect::<Vec<_>>()
    };
    let (own, waiting) = ("/debug/connections/incoming", "/node/sign-of-life");
    assert_eq!(outstanding(&mut api), [waiting, own]);
    assert_eq!(step(&mut api, &mut node, &mut reply, true), Progress::Suspended);
    let manager = node.peers.as_mut().expect("peers");
    let request = manager.take_actions().into_iter().find_map(|action| match action {
        Action::Fetch(id, _) => Some(id),
        _ => None,
    });
    manager.on_reply(request.expect("a request back"), unreachable(), NOW, &FakeIo::new());
    assert_eq!(step(&mut api, &mut node, &mut reply, true), Progress::Done);
    assert_eq!(failure_in(&reply).0, 500);
    assert_eq!(outstanding(&mut api), [own]);
    // A closed connection has no request in progress.
    assert_eq!(step(&mut api, &mut node, &mut reply, false), Progress::Suspended);
    api.on_disconnect(ConnectionId(7), Duration::ZERO);
    assert_eq!(outstanding(&mut api), [own]);
}

fn keys() -> KeyPair {
    KeyPair::new(&PrivateKey::from_seed(&[7; 32]))
}

/// Transactions pushed by a peer.
fn pushes(count: i32) -> Vec<SecureEntity<Transaction>> {
    (0..count).map(|number| SecureEntity::sign(acceptable(number), &keys(), None)).collect()
}

/// Returns the response to a body in steps of one unit, and the number of steps.
fn push(body: &[u8], format: Format, node: &mut TestNode) -> (Response, usize) {
    let (scene, mut api, mut reply) = (Scene::new(), Api::new(settings()), Response::new());
    scene.fund_address(address_of(&pair().public()));
    let media_type = [("Content-Type", format.media_type())];
    let sent = TestRequest { body, ..TestRequest::new("POST /push/transactions").with(&media_type) };
    for steps in 1..10_000 {
        let step = sent.step(&mut api, &scene, node, &mut reply, steps > 1, 1);
        if step.expect("a request").0 == Progress::Done {
            return (reply, steps);
        }
    }
    panic!("it never ends");
}

#[test]
fn a_pushed_transaction_list_is_processed_step_by_step_in_both_formats() {
    for format in [Format::Binary, Format::Json] {
        let known = ListedPeer::Node(known_peer());
        let mut peers = peers(vec![known]);
        let (pusher, ip) = (address_of(&keys().public()), [10, 0, 0, 1].into());
        peers.table.record_introduction(pusher, ip, known_peer(), NOW.monotonic).expect("space");
        let mut node = TestNode { peers: Some(peers), ..TestNode::default() };
        let (reply, steps) = push(&format.to_bytes(&List(pushes(5))), format, &mut node);
        assert_eq!((reply.status, reply.body.len()), (200, 0), "{format:?}");
        // JSON is also parsed and decoded in steps.
        assert!(if format == Format::Binary { steps == 5 } else { steps > 10 }, "{format:?}: {steps}");
        let published = std::iter::from_fn(|| node.mempool.newly_accepted.pop_front());
        assert!(published.map(|one| one.timestamp).eq([0, 1, 2, 3, 4].map(|number| acceptable(number).timestamp)));
        let experience = node.peers.expect("peers").experience(&pusher);
        assert_eq!((experience.successes, experience.failures), (5, 0));
        let mut node = TestNode::default();
        assert_eq!(push(&format.to_bytes(&List(pushes(0))), format, &mut node).0.status, 200);
    }
}

#[test]
fn nobody_is_blamed_for_a_transaction_that_is_past_its_deadline_by_our_clock() {
    let mut peers = peers(vec![ListedPeer::Node(known_peer())]);
    let (pusher, ip) = (address_of(&keys().public()), [127, 0, 0, 1].into());
    peers.table.record_introduction(pusher, ip, known_peer(), NOW.monotonic).expect("space");
    let mut node = TestNode { peers: Some(peers), ..TestNode::default() };
    let late = sign(Transaction { deadline: Timestamp(NOW.network.0 - 1), ..acceptable(100) });
    // The first one shows that the peer is there.
    let pushed = List([acceptable(0), late].map(|one| SecureEntity::sign(one, &keys(), None)).to_vec());
    assert_eq!(push(&Format::Json.to_bytes(&pushed), Format::Json, &mut node).0.status, 200);
    assert_eq!(node.mempool.len(), 1);
    let experience = node.peers.expect("peers").experience(&pusher);
    assert_eq!((experience.successes, experience.failures), (1, 0));
}

#[test]
fn transactions_after_an_unverifiable_or_malformed_push_are_ignored() {
    let mut pushed = pushes(3);
    pushed[1].signature = Signature([1; 64]);
    for format in [Format::Binary, Format::Json] {
        let mut node = TestNode::default();
        let (reply, _) = push(&format.to_bytes(&List(pushed.clone())), format, &mut node);
        assert_eq!(failure_in(&reply), (500, "entity source cannot be verified".to_owned()));
        assert_eq!(node.mempool.len(), 1);
    }
    let whole = Format::Binary.to_bytes(&List(pushes(3)));
    for (cut, taken) in [(whole.len() - 1, 2), (5, 0), (3, 0)] {
        let mut node = TestNode::default();
        let (reply, _) = push(&whole[..cut], Format::Binary, &mut node);
        assert_eq!((reply.status, node.mempool.len()), (500, taken), "{cut} bytes");
    }
    // A count greater than the list, and invalid counts.
    for count in [[4, 0, 0, 0], [0xff, 0xff, 0xff, 0x7f], [0xff; 4]] {
        let body = [count.as_slice(), &whole[4..]].concat();
        assert_eq!(push(&body, Format::Binary, &mut TestNode::default()).0.status, 500, "{count:?}");
    }
}

#[test]
fn push_routes_accept_bodies_up_to_the_largest_block() {
    let api = Api::new(Settings { max_pushed_bytes: 500_000, ..settings() });
    for (path, limit) in [
        ("/push/block", 500_000),
        ("/push/transactions", 500_000),
        ("/transactions/unconfirmed/", 500_000),
        ("/push/transaction", 65_536),
        ("/chain/blocks-after", 8_192),
    ] {
        assert_eq!(api.route(ListenerId(0), "POST", path).body_limit, limit, "{path}");
    }
}

#[test]
fn json_that_is_expensive_to_read_is_rejected_unread() {
    let mut node = TestNode::default();
    let text = |length: usize| format!("{{\"data\":[],\"x\":\"{}\"}}", "a".repeat(length - 18));
    let limit = limits::PUSHED_JSON;
    assert_eq!(push(text(limit).as_bytes(), Format::Json, &mut node).0.status, 200);
    let (reply, _) = push(text(limit + 1).as_bytes(), Format::Json, &mut node);
    assert_eq!(failure_in(&reply), (400, "the body is too long for JSON; application/binary may be longer".to_owned()));
}

fn known_peer() -> NodeInfo {
    NodeInfo {
        identity: Identity { key: keys().public(), name: Some("alice".to_owned()) },
        endpoint: Endpoint::http("10.0.0.1", 7890),
        meta_data: MetaData::default(),
    }
}

fn peers(known: Vec<ListedPeer>) -> Manager {
    let now = Now { monotonic: Duration::ZERO, ..NOW };
    let network = Network { chain: ChainParameters::after_all_forks(), ..Scene::new().network.clone() };
    let settings = PeerSettings {
        ip_detection: IpDetection::Disabled,
        least_scope: Scope::Loopback,
        ..PeerSettings::of(&network, known)
    };
    Manager::new(TestNode::default().info, Rc::new(keys()), settings, Box::new(|| 0), now)
}

#[test]
fn peer_details_are_shown_only_to_local_clients() {
    let (scene, mut api) = (Scene { status: NodeStatus::Booting, ..Scene::new() }, Api::new(settings()));
    let known = vec![ListedPeer::Node(known_peer()), ListedPeer::Endpoint(Endpoint::http("b.example", 1))];
    let mut node = TestNode { peers: Some(peers(known)), ..TestNode::default() };
    let sent = TestRequest::new("GET /local/peers");
    let reported = json_of(&sent.send_to_node(&mut api, &scene, &mut node));
    assert_eq!(
        (&reported["status"], &reported["height"], &reported["score"]["score"]),
        (&json!(4), &json!(1), &json!("00"))
    );
    assert_eq!(reported["address"], address(1).as_str());
    let peer = json!({
        "address": address_of(&keys().public()).as_str(), "ip": null, "state": "untried", "isListed": 1,
        "node": {
            "identity": { "name": "alice", "public-key": keys().public().to_string() },
            "endpoint": { "protocol": "http", "host": "10.0.0.1", "port": 7890 },
            "metaData": { "version": "0.0.0", "platform": null, "application": null, "features": 0, "networkId": 0 },
        },
        "height": {}, "score": {}, "lastContact": {}, "trust": {}, "successes": 0, "failures": 0,
        "synchronisations": 0, "lastFailure": {}, "askedAgain": {},
    });
    assert_eq!(reported["peers"], json!([peer]));
    let endpoint = json!({ "protocol": "http", "host": "b.example", "port": 1 });
    assert_eq!(reported["unidentified"], json!([{ "endpoint": endpoint, "lastFailure": {} }]));
    assert_eq!(reported["dropped"], json!([]));
    for rejected in [
        sent.from([10, 0, 0, 1]),
        sent.with(&[("Host", "evil.example")]),
        sent.with(&[("Host", "127.0.0.1"), ("Origin", "http://evil.example")]),
    ] {
        let (status, message) = failure_in(&rejected.send_to_node(&mut api, &scene, &mut node));
        assert_eq!((status, &message[..7]), (401, "remote "));
    }
}
