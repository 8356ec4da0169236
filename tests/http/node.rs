//! A running node as its clients and its operator see it, with real sockets and real signals.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::common::daemon::{CommandOutput, Node, args, assert_contains, program, run, wait_for};
use crate::common::http::{Client, authorization, post_with};
use crate::common::node_network::announcement;
use crate::common::private_network::{Genesis, NETWORK, address, key_pair, now, transfer};
use crate::common::tiny;
use crate::common::websocket::{CLOSE, Socket, upgrade_request};
use nisd::crypto::{KeyPair, PrivateKey};
use nisd::model::{Address, Amount, Timestamp, Transaction};
use serde_json::json;

/// Height of the recorded chain.
const TIP: u64 = 60;
/// Maximum time for a node to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const BOB: &str = "TBY6TR6SR2AANI2W3P65MPOYXQAN722BCDU72XX2";

/// Key numbers of the accounts of a network that makes a block every second.
const HARVESTER: u64 = 1;
const SENDER: u64 = 2;
const RECIPIENT: u64 = 3;

/// Starts a node of such a network.
fn fast_node() -> Node {
    let shares = [(HARVESTER, 8_000_000_000), (SENDER, 1_000_000)];
    let funded = shares.map(|(number, share)| (address(&key_pair(number)), Amount::whole(share)));
    Node::on_fast_network(&Genesis::new(now(), &funded), HARVESTER, &[], &[])
}

/// Returns the private key of an account of the recorded chain.
fn private_key(name: &str) -> String {
    let keys: serde_json::Value =
        serde_json::from_slice(&std::fs::read(tiny("keys.json")).expect("the keys")).expect("JSON");
    let account = keys["accounts"].as_array().expect("a list").iter().find(|one| one["name"] == name);
    account.and_then(|account| account["privateKey"].as_str()).expect("a key").to_owned()
}

/// Returns a transfer of one currency unit from Alice to Bob.
fn transfer_to_bob(time: i32) -> Transaction {
    let alice = KeyPair::new(&PrivateKey::from_hex(&private_key("alice")).expect("hex"));
    let bob = Address::parse(BOB, NETWORK).expect("an address");
    transfer(&alice, bob, Amount(1_000_000), Amount(50_000), Timestamp(time))
}

/// Announces a transaction; returns the name of the result.
#[track_caller]
fn announce(client: &mut Client, transaction: &Transaction) -> String {
    let answer = client.post("/transaction/announce", &announcement(transaction)).json();
    answer["message"].as_str().expect("a result").to_owned()
}

#[test]
fn the_files_of_the_explorer_and_heartbeats_are_no_part_of_the_request_rate_of_an_address() {
    let node = Node::on_tiny(TIP, &["--clock", "3240"]);
    let mut office = Client::connect_from([127, 0, 0, 2], node.http).expect("a connection");
    for visit in 0..10 {
        for _ in 0..35 {
            assert_eq!(office.get("/explorer").status, 200);
        }
        assert_eq!(office.get("/chain/height").status, 200, "{visit}");
    }
    assert!((0..60).any(|_| office.get("/chain/height").status == 429));
    assert_eq!(office.get("/heartbeat").status, 200);
}

#[test]
fn requests_sent_at_once_are_answered_in_order_and_errors_keep_the_connection() {
    let node = Node::on_tiny(TIP, &["--clock", "3240"]);
    let count = 200;
    let body = |height: u64| format!("{{\"height\":{height}}}");
    let local = authorization(node.http);
    let request = |height| post_with("/block/at/public", &body(height), &local);
    let all: String = (0..count).map(|n| request(0) + &request(n % TIP + 1)).collect();
    // Sent by another thread because the node stops reading while the answers are not read.
    let (stream, _) = Client::connect(node.http).into_parts();
    let mut client = Client::from_stream(stream.try_clone().expect("a second handle"));
    let sender = std::thread::spawn(move || Client::from_stream(stream).send(all));
    let error = json!({"timeStamp": 3240, "error": "Bad Request", "message": "height must be positive", "status": 400});
    for n in 0..count {
        assert_eq!(client.answer().json(), error);
        assert_eq!(client.answer().json()["height"], n % TIP + 1);
    }
    sender.join().expect("everything is read");
    // This port does not support websockets.
    assert_eq!(client.request(upgrade_request()).status, 404);
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn new_blocks_are_published_in_the_form_of_each_session_and_available_at_once() {
    let node = fast_node();
    let mut bare = Socket::connected(node.websocket);
    let mut library = Socket::open(node.websocket);
    library.text("CONNECT\naccept-version:1.1,1.0\n\n\0");
    assert_eq!(library.next_text(), "CONNECTED\nversion:1.1\nheart-beat:0,0\n\n\0");
    bare.text("SUBSCRIBE\nid:sub-0\ndestination:/blocks/new\n\n\0SUBSCRIBE\nid:b\ndestination:/blocks\n\n\0");
    library.text("SUBSCRIBE\nid:n:e\\\\w\ndestination:/blocks/new\n\n\0");
    let mut client = Client::connect(node.http);
    let mut known = None;
    for _ in 0..2 {
        let announced = bare.next_stomp();
        let height: u64 = announced.message("/blocks/new", "sub-0").parse().expect("a bare number");
        let block = client.block(height);
        assert_eq!((block.status, &block.json()["height"]), (200, &json!(height)));
        assert!(known.is_none_or(|known| height == known + 1), "{height} after {known:?}");
        known = Some(height);
        // The block itself follows, byte for byte as a request returns it, including its line end.
        let published = bare.next_stomp();
        published.message("/blocks", "b");
        assert_eq!(published.body.as_bytes(), block.body);
    }
    let object = library.next_stomp();
    let height = object.json("/blocks/new", "n\\ce\\\\w");
    assert_eq!(height.as_object().map(|members| members.len()), Some(1));
    assert!(height["height"].is_u64(), "{object:?}");
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_node_is_booted_harvests_and_shuts_down_by_requests() {
    // The clock is a day ahead of the last block, so the first attempt to harvest hits.
    let node = Node::on_tiny(TIP, &["--clock", "100000+", "--set", "nis.shouldAutoBoot=false"]);
    let mut client = Client::connect(node.http);
    let status = |client: &mut Client| client.get("/status").json()["code"].clone();
    assert_eq!(status(&mut client), 3);
    let boot = json!({
        "identity": { "private-key": private_key("harvester1"), "name": "by hand" },
        "endpoint": { "protocol": "http", "host": "127.0.0.1", "port": 7890 },
        "metaData": { "application": "test" },
    });
    let booted = client.post("/node/boot", &boot.to_string());
    assert_eq!((booted.status, booted.body.len()), (200, 0));
    assert_eq!((status(&mut client), client.post("/node/boot", &boot.to_string()).status), (7.into(), 503));
    assert_eq!(client.get("/node/info").json()["identity"]["name"], "by hand");
    client.wait_for_height(TIP + 1);
    let [one, other] = [(); 2].map(|()| client.get("/account/generate").json()["privateKey"].clone());
    assert_ne!(one, other);
    let answer = client.get("/shutdown");
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    node.process.wait_with_timeout(STOP_TIMEOUT).expect_success();
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_transaction_is_always_unconfirmed_or_confirmed() {
    let node = fast_node();
    let mut client = Client::connect(node.http);
    let recipient = address(&key_pair(RECIPIENT));
    let payment = transfer(&key_pair(SENDER), recipient, Amount::whole(1), Amount(50_000), now());
    assert_eq!(announce(&mut client, &payment), "SUCCESS");
    wait_for("the confirmation", || {
        let waiting = client.get(&format!("/account/unconfirmedTransactions?address={recipient}")).json();
        let account = client.get(&format!("/account/get?address={recipient}")).json();
        let (waits, has_come) = (waiting["data"] != json!([]), account["account"]["balance"] == 1_000_000);
        assert!(waits || has_come, "it is lost");
        (!waits).then_some(())
    });
}

/// A transaction whose deadline passes is no longer shown.
#[test]
#[ignore = "slow: a program on the real clock"]
fn an_unconfirmed_transaction_expires_at_its_deadline() {
    let node = Node::on_tiny(TIP, &["--clock", "7200+"]);
    let mut client = Client::connect(node.http);
    // It is an hour old on arrival, so its deadline is near.
    assert_eq!(announce(&mut client, &transfer_to_bob(7200 + 4 - 3600)), "SUCCESS");
    let listing = format!("/account/unconfirmedTransactions?address={BOB}");
    assert_ne!(client.get(&listing).text(), "{\"data\":[]}\r\n");
    wait_for("the end", || (client.get(&listing).text() == "{\"data\":[]}\r\n").then_some(()));
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn an_unlocked_account_harvests_announced_transactions() {
    let mut node = Node::on_tiny(TIP, &["--clock", "100000+"]);
    let mut socket = Socket::connected(node.websocket);
    let registration = format!("{{'account':'{BOB}'}}");
    socket.text(&format!("SEND\ndestination:/w/api/account/subscribe\n\n{registration}\0"));
    socket.subscribe("bob", &format!("/transactions/{BOB}"));
    let mut client = Client::connect(node.http);
    let unlocked = |client: &mut Client| client.post("/account/unlocked/info", "").json()["num-unlocked"].clone();
    let send_key = |client: &mut Client, path: &str, key: &str| {
        let answer = client.post(path, &format!("{{\"value\":\"{key}\"}}"));
        (answer.status, answer.text().to_owned())
    };
    let key = private_key("harvester1");
    assert_eq!(unlocked(&mut client), 0);
    assert_eq!(send_key(&mut client, "/account/unlock", &key), (200, String::new()));
    assert_eq!(unlocked(&mut client), 1);
    assert_eq!(send_key(&mut client, "/local/account/isunlocked", &key).1, "ok");
    let stranger = send_key(&mut client, "/account/unlock", &"5".repeat(64));
    assert!(stranger.0 == 400 && stranger.1.contains("FAILURE_UNKNOWN_ACCOUNT"), "{stranger:?}");

    let transaction = transfer_to_bob(100_000);
    assert_eq!(announce(&mut client, &transaction), "SUCCESS");
    client.wait_for_height(TIP + 1);
    let pair = socket.next_stomp().json(&format!("/transactions/{BOB}"), "bob");
    let hash = transaction.hash().to_string();
    assert_eq!((&pair["meta"]["hash"]["data"], &pair["meta"]["height"]), (&json!(hash), &json!(TIP + 1)));
    assert_eq!(client.block(TIP + 1).json()["transactions"].as_array().map(Vec::len), Some(1));
    let listing = client.get(&format!("/account/unconfirmedTransactions?address={BOB}"));
    assert_eq!(listing.text(), "{\"data\":[]}\r\n");
    assert_eq!(announce(&mut client, &transaction), "NEUTRAL");

    assert_eq!(send_key(&mut client, "/account/lock", &key), (200, String::new()));
    assert_eq!(unlocked(&mut client), 0);
    assert!(!node.process.log().contains(&key), "a private key is in the log");
    let (data, _folder) = (node.path("store"), node.folder.take());
    node.stop();
    let checked = run(args!["check", "--data", data]).expect_success().text();
    assert!(checked.starts_with("61 "), "{checked}");
}

#[test]
fn a_node_keeps_serving_when_an_import_file_is_bad() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, file) = (tiny("network.properties"), |name: &str| folder.path().join(name));
    let blocks = std::fs::read(tiny("blocks.bin")).expect("the chain");
    std::fs::write(file("torn.bin"), &blocks[..blocks.len() - 1]).expect("a file");
    let node = Node::start(args!["--config", config, "--data", file("store"), "--import", file("torn.bin")]);
    let mut client = Client::connect(node.http);
    client.wait_for_height(TIP - 1);
    wait_for("a message", || node.process.log().contains("the file ends inside a block").then_some(()));
    assert_eq!(client.block(TIP - 1).json()["height"], TIP - 1);
    // A missing file prevents the start.
    run(args!["run", "--config", config, "--data", file("store2"), "--import", file("nowhere.bin")])
        .expect_failure(1, &["nowhere.bin"]);
}

#[test]
fn with_few_file_descriptors_each_new_client_is_answered_beside_idle_connections() {
    let (folder, config) = (tempfile::tempdir().expect("a folder"), tiny("network.properties"));
    let command = Node::command(args!["--config", config, "--data", folder.path()]);
    let shell = args!["-c", "ulimit -n 64 && exec \"$0\" \"$@\"", command.get_program()];
    let node = Node::from_command(program("sh", shell.iter().map(AsRef::as_ref).chain(command.get_args())));
    let idle: Vec<_> =
        (1..=200).filter_map(|number| Client::connect_from([127, 1, 0, number], node.http).ok()).collect();
    assert_eq!(idle.len(), 200);
    for _ in 0..20 {
        assert_eq!(Client::connect(node.http).get("/chain/height").status, 200);
    }
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn the_clock_can_be_stopped_and_set_with_a_loud_warning() {
    let [still, running, real] =
        [["--clock", "3240"].as_slice(), &["--clock", "3240+"], &[]].map(|clock| Node::on_tiny(2, clock));
    // Error responses tell the network time.
    let time =
        |node: &Node| Client::connect(node.http).get("/no/such/path").json()["timeStamp"].as_i64().expect("a time");
    let first = time(&running);
    assert!((3240..3300).contains(&first), "{first}");
    let later = wait_for("a later second", || Some(time(&running)).filter(|later| *later >= first + 2));
    assert!(later < first + 60, "{first}, then {later}");
    assert_eq!(time(&still), 3240);
    assert!(time(&real) > 300_000_000);
    assert!(still.process.log().contains("THE CLOCK STANDS STILL at network second 3240"));
    assert!(running.process.log().contains("THE CLOCK IS SET to run from network second 3240"));
    assert!(!real.process.log().contains("CLOCK"));
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_stopped_node_closes_websockets_and_loses_no_block() {
    std::thread::scope(|scope| ["TERM", "INT"].into_iter().for_each(|signal| _ = scope.spawn(move || stop(signal))));
}

fn stop(signal: &str) {
    let mut node = fast_node();
    let (config, data, _folder) = (node.path("node.properties"), node.path("store"), node.folder.take());
    let seen = Client::connect(node.http).wait_for_height(3);
    let mut socket = Socket::open(node.websocket);
    socket.subscribe("a", "/blocks");
    node.process.signal(signal);
    let start = Instant::now();
    let close = std::iter::repeat_with(|| socket.next()).find(|frame| frame.opcode == CLOSE).expect("endless");
    assert!(close.payload.is_empty() || close.payload.starts_with(&1001u16.to_be_bytes()), "{close:?}");
    node.process.wait_with_timeout(STOP_TIMEOUT).expect_success();
    assert!(start.elapsed() < STOP_TIMEOUT);
    let digest = run(args!["digest", "--data", data]).expect_success().text();
    let height: u64 = digest.split(' ').next().and_then(|height| height.parse().ok()).expect("a height");
    assert!(height >= seen, "{height} is below {seen}");
    // The next start continues from there.
    let node = Node::start(args!["--config", config]);
    assert!(Client::connect(node.http).height() >= height);
}

#[test]
fn a_second_node_or_command_on_the_same_folder_is_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start(args!["--data", folder.path()]);
    let process = format!("it is the process {}", node.process.id());
    let is_rejected = |ended: CommandOutput| {
        let words = [folder.path().to_str().expect("a path"), "another nisd uses the data folder", &process];
        ended.expect_failure(1, &words);
    };
    let data = args!["--data", folder.path()];
    is_rejected(run(["run", "--http-port", "0", "--websocket-port", "0"].map(Into::into).iter().chain(&data)));
    is_rejected(run(args!["import", "--config", tiny("network.properties"), tiny("blocks.bin")].iter().chain(&data)));
    is_rejected(run(args!["rollback", "--to", "1"].iter().chain(&data)));
    // Reading is allowed.
    run(args!["digest"].iter().chain(&data)).expect_success();
    assert!(Client::connect(node.http).height() >= 1);
}

#[test]
fn the_error_about_a_used_port_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let port = address.rsplit(':').next().expect("a port").to_owned();
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_str().expect("a path");
    for (flag, other) in [("--http-port", "--websocket-port"), ("--websocket-port", "--http-port")] {
        let ended = run(["run", "--data", data, "--bind", "127.0.0.1", flag, &port, other, "0"]);
        ended.expect_failure(1, &[&format!("cannot listen on {address}"), &format!("another port with {flag}")]);
    }
    let setting = format!("nisd.metricsBind={address}");
    let ports = ["--http-port", "0", "--websocket-port", "0"];
    let ended = run([&["run", "--data", data, "--bind", "127.0.0.1", "--set", &setting], &ports[..]].concat());
    ended.expect_failure(1, &[&format!("cannot listen on {address}"), "another port with nisd.metricsBind"]);
    let ended = run([&["run", "--data", data, "--set", "nisd.metricsBind=203.0.113.7:0"], &ports[..]].concat());
    ended.expect_failure(1, &["cannot listen on 203.0.113.7:0", "choose one that it has with nisd.metricsBind"]);
}

#[test]
fn the_log_shows_each_request_but_no_private_key() {
    let node = Node::on_tiny(2, &["--clock", "3240", "--log", "trace"]);
    let mut client = Client::connect(node.http);
    let key = private_key("alice");
    assert_eq!(client.get("/chain/height").status, 200);
    assert_eq!(client.get(&format!("/no/such/path?id=7&privateKey={key}")).status, 404);
    let body = json!({ "value": key }).to_string();
    assert_eq!(client.post("/account/unlock", &body).status, 200);
    let log = node.stop().stderr;
    assert_contains(
        &log,
        &["127.0.0.1 GET /chain/height 200 ", "127.0.0.1 GET /no/such/path 404 ", "POST /account/unlock 200 "],
    );
    assert!(log.contains("/no/such/path?id=7&(redacted), Host: "), "{log}");
    assert!(!log.contains(&key), "{log}");
}
