//! A running node as its clients and its operator see it, with real sockets and real signals.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::daemon::{Node, Process, nisd, run};
use crate::common::http_client::{Client, ClientResponse, MAX_WAIT, get, post};
use crate::common::private_network::{self, Genesis, address, key_pair, now, transfer};
use crate::common::tiny;
use crate::common::websocket::{self, BINARY, CLOSE, CONTINUATION, PATH, PING, PONG, Socket, Stomp, TEXT, UPGRADE};
use nisd::codec::SigningForm;
use nisd::crypto::{KeyPair, PrivateKey};
use nisd::model::transaction::{
    AggregateModification, Modification, ModificationKind, Multisig, Transfer, wire_version,
};
use nisd::model::{Address, Amount, Body, Hash256, NetworkByte, Timestamp, Transaction};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Height of the recorded chain.
const TIP: u64 = 60;
/// Maximum time for a node to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

const ALICE: &str = "TAEPN3QTRXZHD23V7HV73U4XKYX4GBHOBGSXYRSJ";
/// An account that is multisig at the end of the chain.
const MULTISIG: &str = "TB5EC5LKP6VYISXNXULA2GWHUXNLE7FUBIAXHAY5";
/// An account that receives once, in block 37.
const NEWCOMER: &str = "TCCWNYUYEQTULPBPFCHHJC3GXCQNURQRZGVU65LV";
/// A multisig transaction and the height of its block.
const MULTISIG_TRANSACTION: (u64, &str) = (24, "69827386da3aa09493626a21f14482829f2acccf091221e66e7a7c1026dc8827");
/// A transfer with a long message, in block 8.
const LONG_TRANSACTION: &str = "8681ff8d95fa8e1cf3be96b48e25814f1ce902fe61f24782e71f4db3850e9603";

/// Starts a node with the chain imported up to `height`; returns it with the folder of its store.
fn node_at(height: u64, arguments: &[&str]) -> (Node, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, config, blocks) = (folder.path().join("store"), tiny("config.json"), tiny("blocks.bin"));
    let (data, config) = (data.to_str().expect("a path"), config.to_str().expect("a path"));
    let blocks = blocks.to_str().expect("a path");
    run(["import", "--config", config, "--data", data, "--stop-at", &height.to_string(), blocks]).expect_success();
    let all: Vec<_> = ["--config", config, "--data", data].iter().chain(arguments).copied().collect();
    (Node::start(&all), folder)
}

/// Key numbers of the accounts of a network that makes a block every second; the first one harvests.
const HARVESTER: u64 = 1;
const SENDER: u64 = 2;
const RECIPIENT: u64 = 3;
const COSIGNATORY: u64 = 4;

/// Starts a node of such a network; returns it with its folder.
fn fast_node() -> (Node, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = fast_network(folder.path());
    (Node::start(&["--config", &config]), folder)
}

/// Creates such a network; returns the path of its settings file.
fn fast_network(folder: &Path) -> String {
    let shares = [(HARVESTER, 8_000_000_000), (SENDER, 1_000_000), (COSIGNATORY, 1_000_000)];
    let funded = shares.map(|(number, share)| (address(&key_pair(number)), Amount::whole(share)));
    let harvester = private_network::private_key(HARVESTER).printed();
    let config = Genesis::new(now(), &funded).write_hasty(folder, &harvester, &[]);
    config.to_str().expect("a path").to_owned()
}

/// Waits until the chain has reached a height.
#[track_caller]
fn wait_for_height(client: &mut Client, height: u64) {
    let start = Instant::now();
    while client.height() < height {
        assert!(start.elapsed() < Duration::from_secs(60), "height {height} is not reached");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[track_caller]
fn expect_json_headers(answer: &ClientResponse) {
    assert_eq!(answer.header("Content-Type"), Some("application/json"), "{answer:?}");
    assert_eq!(answer.header("Access-Control-Allow-Origin"), Some("*"));
    assert_eq!(answer.header("Access-Control-Allow-Headers"), Some("Content-Type"));
}

#[test]
fn the_six_queries_and_the_two_probes_answer() {
    let (node, _folder) = node_at(TIP, &["--clock", "3240"]);
    let mut client = Client::connect(node.http);
    let answer = client.get("/chain/height");
    assert_eq!((answer.status, answer.text()), (200, "{\"height\":60}\r\n"));
    expect_json_headers(&answer);

    let last = client.get("/chain/last-block");
    assert_eq!(last.status, 200);
    assert_eq!(client.block(TIP), last);
    let block = last.json();
    assert_eq!((&block["height"], &block["timeStamp"], &block["type"]), (&json!(60), &json!(3208), &json!(1)));
    for (height, transactions) in [(1, 21), (2, 0), (46, 12)] {
        let block = client.block(height).json();
        assert_eq!(block["height"], height);
        assert_eq!(block["transactions"].as_array().map(Vec::len), Some(transactions));
    }

    let pair = client.get(&format!("/transaction/get?hash={}", MULTISIG_TRANSACTION.1)).json();
    assert_eq!(pair["meta"]["height"], MULTISIG_TRANSACTION.0);
    assert_eq!(pair["meta"]["hash"]["data"], MULTISIG_TRANSACTION.1);
    assert_eq!(pair["transaction"], client.block(MULTISIG_TRANSACTION.0).json()["transactions"][0]);

    let account = client.get(&format!("/account/get?address={ALICE}"));
    let record = account.json();
    assert_eq!((&record["account"]["address"], &record["account"]["label"]), (&json!(ALICE), &json!(null)));
    let key = record["account"]["publicKey"].as_str().expect("her key is known").to_owned();
    assert_eq!(client.get(&format!("/account/get/from-public-key?publicKey={key}")), account);

    let multisig = client.get(&format!("/account/get?address={MULTISIG}")).json();
    let cosignatories = multisig["meta"]["cosignatories"].as_array().expect("a list").clone();
    assert_eq!(multisig["account"]["multisigInfo"]["cosignatoriesCount"], cosignatories.len());
    let cosignatory = cosignatories.first().and_then(|one| one["address"].as_str()).expect("it has cosignatories");
    let meta = client.get(&format!("/account/get?address={cosignatory}")).json()["meta"].clone();
    let above = meta["cosignatoryOf"].as_array().expect("a list");
    assert!(above.iter().any(|one| *one == multisig["account"]), "{above:?}");

    assert_eq!(client.get("/heartbeat").text(), "{\"code\":1,\"type\":2,\"message\":\"ok\"}\r\n");
    let status = client.get("/status").json();
    assert_eq!((&status["type"], &status["message"]), (&json!(4), &json!("status")));
}

#[test]
fn bad_requests_get_the_specified_errors_and_keep_the_connection() {
    let (node, _folder) = node_at(2, &["--clock", "3240"]);
    let mut client = Client::connect(node.http);
    let unknown = "0".repeat(64);
    let requests = [
        (get("/account/get?address=BAD"), 400, "Bad Request", json!("address must be valid")),
        (get("/account/get"), 400, "Bad Request", json!("encoded address cannot be null")),
        (get(&format!("/transaction/get?hash={unknown}")), 400, "Bad Request", json!("Hash was not found in cache")),
        (get("/no/such/path"), 404, "Not Found", json!(null)),
        (get("/block/at/public"), 500, "Internal Server Error", json!("Request method 'GET' not supported")),
        (post("/account/get", "{}"), 500, "Internal Server Error", json!("Request method 'POST' not supported")),
        (post("/block/at/public", "{\"height\":"), 400, "Bad Request", json!("JSON Object was expected")),
        (post("/block/at/public", "{\"height\":0}"), 400, "Bad Request", json!("height must be positive")),
        (
            post("/block/at/public", "{\"height\":61}"),
            404,
            "Not Found",
            json!("block not found in the db '61' (org.nem.core.model.Block)"),
        ),
    ];
    for (request, status, error, message) in requests {
        client.send(&request);
        let answer = client.answer();
        assert_eq!(answer.status, status, "{request}");
        expect_json_headers(&answer);
        assert_eq!(
            answer.json(),
            json!({"timeStamp": 3240, "error": error, "message": message, "status": status}),
            "{request}"
        );
    }
    assert_eq!(client.height(), 2);
}

#[test]
fn requests_sent_at_once_are_answered_in_order() {
    let (node, _folder) = node_at(TIP, &[]);
    let count = 200;
    let body = |height: u64| format!("{{\"height\":{height}}}");
    let all: String =
        (0..count).map(|n| get("/chain/height") + &post("/block/at/public", &body(n % TIP + 1))).collect();
    // Sent by another thread because the node stops reading while the answers are not read.
    let (mut stream, _) = Client::connect(node.http).into_parts();
    let mut client = Client::from_stream(stream.try_clone().expect("a second handle"));
    let sender = std::thread::spawn(move || stream.write_all(all.as_bytes()));
    for n in 0..count {
        assert_eq!(client.answer().json(), json!({"height": TIP}));
        assert_eq!(client.answer().json()["height"], n % TIP + 1);
    }
    sender.join().expect("the sender ends").expect("everything is read");
}

#[test]
fn a_request_may_arrive_in_any_pieces_and_framings() {
    let (node, _folder) = node_at(5, &[]);
    let mut client = Client::connect(node.http);
    let whole = post("/block/at/public", "{\"height\":3}");
    for cut in (1..whole.len()).step_by(7) {
        client.send(&whole[..cut]);
        std::thread::sleep(Duration::from_millis(2));
        client.send(&whole[cut..]);
        assert_eq!(client.answer().json()["height"], 3, "cut at {cut}");
    }
    let start = "POST /block/at/public HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    client.send(format!("{start}Transfer-Encoding: chunked\r\n\r\n4\r\n{{\"he\r\n8;x=y\r\night\":4}}\r\n0\r\n\r\n"));
    assert_eq!(client.answer().json()["height"], 4);
    client.send(format!("{start}Content-Length: 12\r\nExpect: 100-continue\r\n\r\n"));
    let early = client.head();
    assert_eq!((early.status, early.headers.len()), (100, 0));
    client.send("{\"height\":5}");
    assert_eq!(client.answer().json()["height"], 5);
    client.send("GET /chain/height HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let last = client.answer();
    assert_eq!((last.status, last.header("Connection")), (200, Some("close")));
    client.expect_end();
}

#[test]
fn a_large_answer_to_get_is_compressed_only_when_asked_for() {
    let (node, _folder) = node_at(55, &[]);
    let mut client = Client::connect(node.http);
    let with_gzip =
        |target: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: deflate, gzip\r\n\r\n");
    for target in ["/chain/last-block", &format!("/transaction/get?hash={LONG_TRANSACTION}")] {
        let plain = client.get(target);
        assert_eq!((plain.status, plain.header("Content-Encoding")), (200, None));
        client.send(with_gzip(target));
        let packed = client.answer();
        assert_eq!(packed.header("Content-Encoding"), Some("gzip"));
        assert!(packed.body.len() < plain.body.len());
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked).expect("gzip");
        assert_eq!(unpacked, plain.body);
        expect_json_headers(&packed);
        // A cache must not mix the two forms up.
        assert!(plain.header("Vary").is_some_and(|vary| vary.contains("Accept-Encoding")));
    }
    client.send(with_gzip("/chain/height"));
    let small = client.answer();
    assert_eq!((small.header("Content-Encoding"), small.text()), (None, "{\"height\":55}\r\n"));
}

#[test]
fn head_has_the_headers_of_get_and_options_allows_cross_origin_requests() {
    let (node, _folder) = node_at(55, &[]);
    let mut client = Client::connect(node.http);
    for target in ["/chain/height", "/chain/last-block"] {
        let mut full = client.get(target);
        client.send(format!("HEAD {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let head = client.head();
        full.body.clear();
        assert_eq!(head, full);
    }
    client.send("OPTIONS /chain/height HTTP/1.1\r\nHost: localhost\r\nOrigin: http://a\r\n\r\n");
    let options = client.answer();
    assert_eq!((options.status, options.body.len()), (200, 0));
    assert_eq!(options.header("Access-Control-Allow-Origin"), Some("*"));
    assert_eq!(options.header("Access-Control-Allow-Headers"), Some("Content-Type"));
    // No body bytes are left on the connection.
    assert_eq!(client.height(), 55);
}

#[test]
fn a_connect_without_headers_gets_the_minimal_connected_frame() {
    let (node, _folder) = node_at(2, &[]);
    let mut socket = Socket::open(node.websocket);
    for (connect, connected) in [
        ("CONNECT\n\n\0", "CONNECTED\nheart-beat:0,0\n\n\0"),
        ("CONNECT\r\n\r\n\0\r\n", "CONNECTED\nheart-beat:0,0\n\n\0"),
        ("STOMP\naccept-version:1.1,1.2\nhost:a\n\n\0", "CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0"),
        ("CONNECT\naccept-version:1.0,1.1\n\n\0\n", "CONNECTED\nversion:1.1\nheart-beat:0,0\n\n\0"),
        ("CONNECT\naccept-version:1.0\n\n\0", "CONNECTED\nversion:1.0\nheart-beat:0,0\n\n\0"),
    ] {
        socket.text(connect);
        assert_eq!(socket.next_text(), connected);
    }
    socket.text("CONNECT\naccept-version:3.0\n\n\0");
    let error = socket.next_stomp();
    assert_eq!(error.command, "ERROR");
    assert_eq!(error.header("message"), "Supported protocol versions are 1.0, 1.1, 1.2");
    socket.expect_close(1002);
}

#[test]
fn new_blocks_are_published_in_the_form_of_each_session_and_available_at_once() {
    let (node, _folder) = fast_node();
    let mut bare = Socket::open(node.websocket);
    let mut library = Socket::open(node.websocket);
    bare.text("CONNECT\n\n\0");
    library.text("CONNECT\naccept-version:1.1,1.0\n\n\0");
    assert_eq!(bare.next_text(), "CONNECTED\nheart-beat:0,0\n\n\0");
    assert_eq!(library.next_text(), "CONNECTED\nversion:1.1\nheart-beat:0,0\n\n\0");
    bare.text("SUBSCRIBE\nid:sub-0\ndestination:/blocks/new\n\n\0SUBSCRIBE\nid:b\ndestination:/blocks\n\n\0");
    library.text("SUBSCRIBE\nid:n:e\\\\w\ndestination:/blocks/new\n\n\0");
    let mut client = Client::connect(node.http);
    let mut known = None;
    for _ in 0..4 {
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

/// Registers an account as old libraries do, with a payload that is not quite JSON.
fn register(socket: &mut Socket, payload: &str) {
    let length = payload.len();
    socket.text(&format!("SEND\ndestination:/w/api/account/subscribe\ncontent-length:{length}\n\n{payload}\0"));
}

#[track_caller]
fn expect_pair(message: &Stomp, account: &Address, subscription: &str, hash: &Hash256, client: &mut Client) -> Value {
    let pair = message.json(&format!("/transactions/{account}"), subscription);
    let meta = &pair["meta"];
    assert_eq!((&meta["id"], &meta["hash"]["data"]), (&json!(0), &json!(hash.to_string())));
    assert!(message.body.starts_with("{\"meta\":{\"innerHash\":"), "{}", message.body);
    let block = client.block(meta["height"].as_u64().expect("a height")).json();
    let transactions = block["transactions"].as_array().expect("a list");
    assert!(transactions.contains(&pair["transaction"]), "{pair} is not in {block}");
    pair
}

/// Reads the next messages, one for each of the accounts in any order.
#[track_caller]
fn messages(socket: &mut Socket, accounts: &[Address]) -> BTreeMap<Address, Stomp> {
    let mut found = BTreeMap::new();
    for _ in accounts {
        let message = socket.next_stomp();
        let account = accounts.iter().find(|account| message.header("destination").ends_with(account.as_str()));
        assert!(found.insert(*account.expect("an account"), message).is_none(), "one is told twice");
    }
    found
}

/// Opens a connected session.
fn connected(node: &Node) -> Socket {
    let mut socket = Socket::open(node.websocket);
    socket.text("CONNECT\n\n\0");
    socket.next_text();
    socket
}

#[test]
fn transactions_of_registered_accounts_are_published_with_their_meta_data() {
    let (node, _folder) = fast_node();
    let mut client = Client::connect(node.http);
    let (multisig, cosignatory) = (key_pair(SENDER), key_pair(COSIGNATORY));
    let recipient = address(&key_pair(RECIPIENT));
    let mut socket = connected(&node);
    let accounts = [address(&multisig), address(&cosignatory), recipient];
    for account in &accounts {
        register(&mut socket, &format!("{{\"account\":\"{account}\"}}"));
        socket.subscribe(account.as_str(), &format!("/transactions/{account}"));
    }

    let modification = Modification { kind: ModificationKind::Add, cosignatory: cosignatory.public() };
    let conversion = AggregateModification { modifications: vec![modification], min_cosignatories_change: None };
    let hash = announce_now(&mut client, &signed(&multisig, Body::AggregateModification(conversion)));
    for (account, message) in messages(&mut socket, &accounts[..2]) {
        let pair = expect_pair(&message, &account, account.as_str(), &hash, &mut client);
        assert_eq!((&pair["meta"]["innerHash"], &pair["transaction"]["type"]), (&json!({}), &json!(0x1001)));
    }

    let mut inner = transfer(&multisig, recipient, Amount::whole(5), Amount(50_000), now());
    inner.signature = None;
    let inner_hash = inner.hash().to_string();
    let body = Multisig { inner, cosignatures: Vec::new() };
    let hash = announce_now(&mut client, &signed(&cosignatory, Body::Multisig(Box::new(body))));
    for (account, message) in messages(&mut socket, &accounts) {
        let pair = expect_pair(&message, &account, account.as_str(), &hash, &mut client);
        assert_eq!(pair["meta"]["innerHash"]["data"], inner_hash);
        assert_eq!(pair["transaction"]["otherTrans"]["recipient"], recipient.to_string());
    }
}

#[test]
fn a_legacy_session_gets_the_transactions_of_its_registered_accounts() {
    let (node, _folder) = fast_node();
    let (sender, recipient) = (key_pair(SENDER), address(&key_pair(RECIPIENT)));
    let [mut silent, mut explicit] = [(); 2].map(|()| connected(&node));
    for socket in [&mut silent, &mut explicit] {
        register(socket, &format!("{{'account':'{}'}}", address(&sender)));
    }
    explicit.subscribe("mine", &format!("/transactions/{recipient}"));
    // Its receipt shows that the node has read what came before.
    explicit.text("UNSUBSCRIBE\nid:none\nreceipt:read\n\n\0");
    while explicit.next_text() != "RECEIPT\nreceipt-id:read\n\n\0" {}
    let mut client = Client::connect(node.http);
    let hash = announce_now(&mut client, &transfer(&sender, recipient, Amount::whole(1), Amount(50_000), now()));
    expect_pair(&silent.next_stomp(), &address(&sender), "sub-0", &hash, &mut client);
    // The other session also gets everything it subscribes to, and gets this without registration too.
    expect_pair(&explicit.next_stomp(), &address(&sender), "sub-0", &hash, &mut client);
    expect_pair(&explicit.next_stomp(), &recipient, "mine", &hash, &mut client);
}

/// Builds a signed transaction with an ample fee.
fn signed(keys: &KeyPair, body: Body) -> Transaction {
    let time = now();
    let mut transaction = Transaction {
        version: wire_version(private_network::NETWORK, 1),
        timestamp: time,
        signer: keys.public(),
        signature: None,
        fee: Amount::whole(1),
        deadline: Timestamp(time.0 + 3600),
        body,
    };
    transaction.signature = Some(keys.sign(&transaction.signed_bytes()));
    transaction
}

/// Announces a transaction, which must be accepted; returns its hash.
#[track_caller]
fn announce_now(client: &mut Client, transaction: &Transaction) -> Hash256 {
    let data = hex::encode(transaction.to_bytes(SigningForm::NonVerifiable));
    let signature = transaction.signature.expect("signed");
    let (status, result) = announce(client, &format!("{{\"data\":\"{data}\",\"signature\":\"{signature}\"}}"));
    assert_eq!((status, &result["message"]), (200, &json!("SUCCESS")));
    transaction.hash()
}

/// The second account of `keys.json` that the tests use by name.
const BOB: &str = "TBY6TR6SR2AANI2W3P65MPOYXQAN722BCDU72XX2";

/// Returns the private key of an account of the chain.
fn private_key(name: &str) -> String {
    let keys: serde_json::Value =
        serde_json::from_slice(&std::fs::read(tiny("keys.json")).expect("the keys")).expect("JSON");
    let account = keys["accounts"].as_array().expect("a list").iter().find(|one| one["name"] == name);
    account.and_then(|account| account["privateKey"].as_str()).expect("a key").to_owned()
}

/// Builds a transfer of one currency unit from Alice, and its announcement.
fn transfer_to_announce(time: i32, to: &str) -> (Transaction, String) {
    let pair = KeyPair::new(&PrivateKey::from_hex(&private_key("alice")).expect("hex"));
    let network = NetworkByte::TESTNET;
    let recipient = Address::parse(to, network).expect("an address");
    let body = Transfer { recipient, amount: Amount(1_000_000), message: None, mosaics: Vec::new() };
    let mut transaction = Transaction {
        version: wire_version(network, 1),
        timestamp: Timestamp(time),
        signer: pair.public(),
        signature: None,
        fee: Amount(50_000),
        deadline: Timestamp(time + 3600),
        body: Body::Transfer(body),
    };
    let data = transaction.to_bytes(SigningForm::NonVerifiable);
    let signature = pair.sign(&data);
    transaction.signature = Some(signature);
    (transaction, format!("{{\"data\":\"{}\",\"signature\":\"{signature}\"}}", hex::encode(data)))
}

#[track_caller]
fn announce(client: &mut Client, body: &str) -> (u16, serde_json::Value) {
    client.send(post("/transaction/announce", body));
    let answer = client.answer();
    (answer.status, answer.json())
}

#[test]
fn an_announced_transaction_is_shown_and_published_to_affected_accounts() {
    let (node, _folder) = node_at(TIP, &["--clock", "3240"]);
    let mut socket = Socket::open(node.websocket);
    socket.text("CONNECT\n\n\0");
    socket.next_text();
    socket.subscribe("all", "/unconfirmed");
    register(&mut socket, &format!("{{'account':'{BOB}'}}"));
    socket.subscribe("bob", &format!("/unconfirmed/{BOB}"));

    let mut client = Client::connect(node.http);
    let (transaction, body) = transfer_to_announce(3240, BOB);
    let hash = transaction.hash().to_string();
    let answer = |code: i32, message: &str| {
        let hash = json!({ "data": hash });
        (200, json!({"innerTransactionHash": {}, "code": code, "type": 1, "message": message, "transactionHash": hash}))
    };
    assert_eq!(announce(&mut client, &body), answer(1, "SUCCESS"));
    let bare = socket.next_stomp().json("/unconfirmed", "all");
    let pair = socket.next_stomp().json(&format!("/unconfirmed/{BOB}"), "bob");
    assert_eq!(pair["transaction"], bare);
    assert_eq!(
        pair["meta"],
        json!({"innerHash": {}, "id": 0, "hash": {"data": hash}, "height": 9_007_199_254_740_991u64})
    );

    for account in [ALICE, BOB] {
        let listing = client.get(&format!("/account/unconfirmedTransactions?address={account}")).json();
        assert_eq!(listing, json!({"data": [{"meta": {"data": null}, "transaction": bare}]}));
    }
    let none = client.get(&format!("/account/unconfirmedTransactions?address={NEWCOMER}"));
    assert_eq!(none.text(), "{\"data\":[]}\r\n");
    // A repeated announcement is answered as known, and nobody is notified twice.
    assert_eq!(announce(&mut client, &body), answer(0, "NEUTRAL"));
    assert_eq!(socket.next_within(Duration::from_millis(300)), None);
    // A session can request it again.
    let request = format!("{{'account':'{ALICE}'}}");
    let length = request.len();
    socket.text(&format!(
        "SEND\ndestination:/w/api/account/transfers/unconfirmed\ncontent-length:{length}\n\n{request}\0"
    ));
    assert_eq!(socket.next_stomp().json("/unconfirmed", "all"), bare);
    assert_eq!(socket.next_stomp().json(&format!("/unconfirmed/{BOB}"), "bob"), pair);
}

#[test]
fn a_node_that_is_not_booted_accepts_no_transaction() {
    let (node, _folder) = node_at(TIP, &["--clock", "3240", "--set", "nis.shouldAutoBoot=false"]);
    let mut client = Client::connect(node.http);
    let (status, error) = announce(&mut client, &transfer_to_announce(3240, BOB).1);
    assert_eq!((status, &error["message"]), (503, &json!("NIS_ILLEGAL_STATE_NOT_BOOTED")));
    let listing = client.get(&format!("/account/unconfirmedTransactions?address={BOB}"));
    assert_eq!(listing.text(), "{\"data\":[]}\r\n");
}

#[test]
fn a_node_is_booted_harvests_and_shuts_down_by_requests() {
    let (node, _folder) = node_at(TIP, &["--clock", "100000+", "--set", "nis.shouldAutoBoot=false"]);
    let mut client = Client::connect(node.http);
    let status = |client: &mut Client| client.get("/status").json()["code"].clone();
    assert_eq!(status(&mut client), 3);
    let boot = json!({
        "identity": { "private-key": private_key("harvester1"), "name": "by hand" },
        "endpoint": { "protocol": "http", "host": "127.0.0.1", "port": 7890 },
        "metaData": { "application": "test" },
    });
    let booted = |client: &mut Client| {
        client.send(post("/node/boot", &boot.to_string()));
        let answer = client.answer();
        (answer.status, answer.body.len())
    };
    assert_eq!(booted(&mut client), (200, 0));
    assert_eq!((status(&mut client), booted(&mut client).0), (7.into(), 503));
    assert_eq!(client.get("/node/info").json()["identity"]["name"], "by hand");
    // The clock is a day ahead of the last block, so the first attempt hits.
    let begun = Instant::now();
    while client.height() == TIP {
        assert!(begun.elapsed() < MAX_WAIT, "nothing was harvested");
        std::thread::sleep(Duration::from_millis(100));
    }
    let made = || [(); 2].map(|()| Client::connect(node.http).get("/account/generate").json()["privateKey"].clone());
    let [one, other] = made();
    assert_ne!(one, other);
    let answer = client.get("/shutdown");
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    node.process.wait_with_timeout(STOP_TIMEOUT).expect_success();
}

#[test]
fn an_unconfirmed_transaction_expires_at_its_deadline() {
    let (node, _folder) = node_at(TIP, &["--clock", "7200+"]);
    let mut client = Client::connect(node.http);
    // It is an hour old on arrival, so its deadline is near.
    let (_, body) = transfer_to_announce(7200 + 6 - 3600, BOB);
    assert_eq!(announce(&mut client, &body).1["message"], "SUCCESS");
    let start = Instant::now();
    while client.get(&format!("/account/unconfirmedTransactions?address={BOB}")).text() != "{\"data\":[]}\r\n" {
        assert!(start.elapsed() < Duration::from_secs(20), "it stays");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_transaction_is_always_unconfirmed_or_confirmed() {
    let (node, _folder) = fast_node();
    let mut client = Client::connect(node.http);
    let recipient = address(&key_pair(RECIPIENT));
    let payment = transfer(&key_pair(SENDER), recipient, Amount::whole(1), Amount(50_000), now());
    announce_now(&mut client, &payment);
    let start = Instant::now();
    loop {
        let waiting = client.get(&format!("/account/unconfirmedTransactions?address={recipient}")).json();
        let account = client.get(&format!("/account/get?address={recipient}")).json();
        let (waits, has_come) = (waiting["data"] != json!([]), account["account"]["balance"] == 1_000_000);
        assert!(waits || has_come, "it is lost");
        if !waits {
            break;
        }
        assert!(start.elapsed() < MAX_WAIT, "it stays");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a private key; returns the status and the text of the answer.
fn send_key(client: &mut Client, path: &str, key: &str) -> (u16, String) {
    client.send(post(path, &format!("{{\"value\":\"{key}\"}}")));
    let answer = client.answer();
    (answer.status, answer.text().to_owned())
}

#[test]
fn an_unlocked_account_harvests_announced_transactions() {
    // The clock is a day ahead of the last block, so the first attempt hits.
    let (node, folder) = node_at(TIP, &["--clock", "100000+"]);
    let mut socket = Socket::open(node.websocket);
    socket.text("CONNECT\n\n\0");
    socket.next_text();
    register(&mut socket, &format!("{{'account':'{BOB}'}}"));
    socket.subscribe("bob", &format!("/transactions/{BOB}"));
    let mut client = Client::connect(node.http);
    let key = private_key("harvester1");
    let info = |client: &mut Client| {
        client.send(post("/account/unlocked/info", ""));
        client.answer().json()["num-unlocked"].clone()
    };
    assert_eq!(info(&mut client), 0);
    assert_eq!(send_key(&mut client, "/account/unlock", &key), (200, String::new()));
    assert_eq!(info(&mut client), 1);
    assert_eq!(send_key(&mut client, "/local/account/isunlocked", &key).1, "ok");
    let stranger = send_key(&mut client, "/account/unlock", &"5".repeat(64));
    assert!(stranger.0 == 400 && stranger.1.contains("FAILURE_UNKNOWN_ACCOUNT"), "{stranger:?}");

    let (transaction, body) = transfer_to_announce(100_000, BOB);
    let hash = transaction.hash().to_string();
    assert_eq!(announce(&mut client, &body).1["message"], "SUCCESS");
    wait_for_height(&mut client, TIP + 1);
    let pair = socket.next_stomp().json(&format!("/transactions/{BOB}"), "bob");
    assert_eq!((&pair["meta"]["hash"]["data"], &pair["meta"]["height"]), (&json!(hash), &json!(TIP + 1)));
    let block = client.block(TIP + 1).json();
    assert_eq!(block["transactions"].as_array().map(Vec::len), Some(1));
    let target = format!("/account/unconfirmedTransactions?address={BOB}");
    assert_eq!(client.get(&target).text(), "{\"data\":[]}\r\n");
    assert_eq!(announce(&mut client, &body).1["message"], "NEUTRAL");

    assert_eq!(send_key(&mut client, "/account/lock", &key), (200, String::new()));
    assert_eq!(info(&mut client), 0);
    assert!(!node.process.log().contains(&key), "a private key is in the log");
    node.process.signal("TERM");
    node.process.wait_with_timeout(STOP_TIMEOUT).expect_success();
    let data = folder.path().join("store");
    let checked = run(["check", "--data", data.to_str().expect("a path")]).expect_success().text();
    assert!(checked.starts_with("61 "), "{checked}");
}

#[test]
fn unsubscribing_or_disconnecting_ends_the_messages() {
    let (node, _folder) = fast_node();
    let mut socket = Socket::open(node.websocket);
    socket.text("CONNECT\n\n\0");
    socket.next_text();
    socket.subscribe("a", "/blocks/new");
    socket.next_stomp().message("/blocks/new", "a");
    socket.text("UNSUBSCRIBE\nid:a\nreceipt:gone\n\n\0");
    while socket.next_text() != "RECEIPT\nreceipt-id:gone\n\n\0" {}
    // Meanwhile a block per second is made.
    assert_eq!(socket.next_within(Duration::from_millis(2500)), None);
    socket.subscribe("b", "/blocks/new");
    socket.next_stomp().message("/blocks/new", "b");
    socket.text("DISCONNECT\nreceipt:bye\n\n\0");
    while socket.next_text() != "RECEIPT\nreceipt-id:bye\n\n\0" {}
    assert_eq!(socket.next_within(Duration::from_millis(2500)), None);
    // The client closes; the node returns its code.
    socket.frame(true, CLOSE, &[0x03, 0xe8, b'o', b'k']);
    assert_eq!(socket.next(), websocket::Frame { opcode: CLOSE, payload: vec![0x03, 0xe8, b'o', b'k'] });
    socket.expect_end();

    let mut rude = Socket::open(node.websocket);
    rude.text("DISCONNECT\n\n\0");
    assert_eq!(rude.next_text(), "ERROR\nmessage:Session closed.\ncontent-length:0\n\n\0");
    rude.expect_close(1002);
}

#[test]
fn stomp_frames_may_come_in_any_pieces() {
    let (node, _folder) = node_at(2, &[]);
    let mut socket = Socket::open(node.websocket);
    let connect = "CONNECT\n\n\0";
    for cut in 1..connect.len() {
        // As two messages, as two fragments, and as a binary message.
        socket.text(&connect[..cut]);
        socket.text(&connect[cut..]);
        assert_eq!(socket.next_text(), "CONNECTED\nheart-beat:0,0\n\n\0", "cut at {cut}");
        socket.frame(false, TEXT, &connect.as_bytes()[..cut]);
        socket.frame(true, PING, b"between");
        assert_eq!(socket.next(), websocket::Frame { opcode: PONG, payload: b"between".to_vec() });
        socket.frame(true, CONTINUATION, &connect.as_bytes()[cut..]);
        assert_eq!(socket.next_text(), "CONNECTED\nheart-beat:0,0\n\n\0", "cut at {cut}");
    }
    socket.frame(true, BINARY, connect.as_bytes());
    assert_eq!(socket.next_text(), "CONNECTED\nheart-beat:0,0\n\n\0");
    // Heart-beats, an empty message and an unsolicited pong have no effect.
    socket.text("\n\r\n\n");
    socket.text("");
    socket.frame(true, PONG, b"");
    socket.text(&connect.repeat(3));
    for _ in 0..3 {
        assert_eq!(socket.next_text(), "CONNECTED\nheart-beat:0,0\n\n\0");
    }
    socket.text("NONSENSE\n\n\0");
    let error = socket.next_stomp();
    assert_eq!((error.command.as_str(), error.header("content-length")), ("ERROR", "0"));
    socket.text(connect);
    assert_eq!(socket.next_text(), "CONNECTED\nheart-beat:0,0\n\n\0", "the session lives on after an error");
}

#[test]
fn websocket_messages_are_limited_and_malformed_ones_close_the_connection() {
    let (node, _folder) = node_at(2, &[]);
    let open = || Socket::open(node.websocket);
    let frame_of = |length: usize| {
        let head = "SEND\ndestination:/nowhere\n\n";
        format!("{head}{}\0", "x".repeat(length - head.len() - 1))
    };
    let mut socket = open();
    socket.text(&frame_of(65_536));
    socket.text("CONNECT\n\n\0");
    assert_eq!(socket.next_text(), "CONNECTED\nheart-beat:0,0\n\n\0");
    socket.text(&frame_of(65_537));
    let reason = socket.expect_close(1009);
    assert_eq!(reason, "Text message size [65537] exceeds maximum size [65536]");
    let mut socket = open();
    socket.frame(true, BINARY, &[b'\n'; 65_537]);
    assert_eq!(socket.expect_close(1009), "Binary message size [65537] exceeds maximum size [65536]");
    // Fragments do not help.
    let mut socket = open();
    socket.frame(false, TEXT, &[b'\n'; 65_536]);
    socket.frame(true, CONTINUATION, b"\n");
    socket.expect_close(1009);
    let mut socket = open();
    socket.frame(true, TEXT, b"\xff\xfe");
    socket.expect_close(1007);
    let mut socket = open();
    socket.raw(&[0x81, 0x01, b'\n']);
    socket.expect_close(1002);
    let mut socket = open();
    socket.frame(true, 0x40 | TEXT, b"\n");
    socket.expect_close(1002);
}

#[test]
fn an_impossible_upgrade_gets_an_explanatory_response() {
    let (node, _folder) = node_at(2, &[]);
    let ask = |method: &str, path: &str, headers: &str| {
        let mut client = Client::connect(node.websocket);
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"));
        client.answer()
    };
    let without = |line: &str| UPGRADE.split_inclusive("\r\n").filter(|one| !one.starts_with(line)).collect::<String>();
    for (headers, status, body) in [
        (without("Upgrade"), 400, Some("Can \"Upgrade\" only to \"WebSocket\".")),
        (without("Upgrade") + "Upgrade: h2c\r\n", 400, Some("Can \"Upgrade\" only to \"WebSocket\".")),
        (without("Connection"), 400, None),
        (without("Sec-WebSocket-Version"), 426, Some("")),
        (without("Sec-WebSocket-Version") + "Sec-WebSocket-Version: 8\r\n", 426, Some("")),
        (without("Sec-WebSocket-Key"), 400, Some("")),
    ] {
        let answer = ask("GET", PATH, &headers);
        assert_eq!(answer.status, status, "{headers}");
        assert!(body.is_none_or(|body| answer.text() == body), "{headers}: {answer:?}");
        if status == 426 {
            assert_eq!(answer.header("Sec-WebSocket-Version"), Some("13"));
        }
        // The answer to a contradictory upgrade is the server's own and lacks this header.
        let own = headers == without("Connection");
        assert_eq!(answer.header("Access-Control-Allow-Origin"), (!own).then_some("*"), "{headers}");
    }
    let protocols = format!("{UPGRADE}Sec-WebSocket-Protocol: x, V11.stomp, v12.stomp\r\nOrigin: http://anywhere\r\n");
    let answer = ask("GET", PATH, &protocols);
    assert_eq!((answer.status, answer.header("Sec-WebSocket-Protocol")), (101, Some("V11.stomp")));
    assert_eq!(answer.header("Allow"), Some("GET, HEAD, POST, OPTIONS"));
    assert_eq!(ask("POST", PATH, UPGRADE).status, 405);
    assert_eq!(ask("GET", "/w/messages", "").text(), "Welcome to SockJS!\n");
    assert_eq!(ask("GET", "/w/elsewhere", UPGRADE).status, 404);
    assert_eq!(ask("GET", "/chain/height", "").status, 404);
    // The other port does not support websockets.
    let mut client = Client::connect(node.http);
    client.send(format!("GET {PATH} HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}\r\n"));
    assert_eq!(client.answer().status, 404);
}

#[test]
fn frames_may_follow_the_upgrade_before_its_response() {
    let (node, _folder) = node_at(2, &[]);
    let mut client = Client::connect(node.websocket);
    let mut bytes = format!("GET {PATH} HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}\r\n").into_bytes();
    // `CONNECT\n\n\0` under a mask of zeros.
    bytes.extend_from_slice(b"\x81\x8a\0\0\0\0CONNECT\n\n\0");
    client.send(bytes);
    assert_eq!(client.head().status, 101);
    let mut socket = Socket::from_parts(client.into_parts());
    assert_eq!(socket.next_text(), "CONNECTED\nheart-beat:0,0\n\n\0");
}

#[test]
fn a_node_keeps_serving_when_an_import_file_is_bad() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let blocks = std::fs::read(tiny("blocks.bin")).expect("the chain");
    std::fs::write(file("torn.bin"), &blocks[..blocks.len() - 1]).expect("a file");
    let config = tiny("config.json");
    let config = config.to_str().expect("a path");
    let arguments = ["--config", config, "--data", &file("store"), "--import", &file("torn.bin")];
    let node = Node::start(&arguments);
    let mut client = Client::connect(node.http);
    wait_for_height(&mut client, TIP - 1);
    let start = Instant::now();
    while !node.process.log().contains("the file ends inside a block") {
        assert!(start.elapsed() < STOP_TIMEOUT, "nobody is told");
        assert_eq!(client.height(), TIP - 1);
    }
    assert_eq!(client.block(TIP - 1).json()["height"], TIP - 1);
    // A missing file prevents the start.
    let missing = ["run", "--config", config, "--data", &file("store2"), "--import", &file("nowhere.bin")];
    run(missing).expect_failure(1, &["nowhere.bin"]);
}

/// Returns the node's time as an error response reports it.
fn network_time(client: &mut Client) -> i64 {
    client.get("/no/such/path").json()["timeStamp"].as_i64().expect("a time")
}

#[test]
fn the_clock_can_be_stopped_and_set_with_a_loud_warning() {
    let [(still, _still), (running, _running), (real, _real)] =
        [["--clock", "3240"].as_slice(), &["--clock", "3240+"], &[]].map(|clock| node_at(2, clock));
    let [mut at_still, mut at_running] = [&still, &running].map(|node| Client::connect(node.http));
    assert_eq!(network_time(&mut at_still), 3240);
    let first = network_time(&mut at_running);
    assert!((3240..3300).contains(&first), "{first}");
    std::thread::sleep(Duration::from_millis(2100));
    assert_eq!(network_time(&mut at_still), 3240);
    let second = network_time(&mut at_running);
    assert!((first + 2..first + 60).contains(&second), "{first}, then {second}");
    assert!(still.process.log().contains("THE CLOCK STANDS STILL at network second 3240"));
    assert!(running.process.log().contains("THE CLOCK IS SET to run from network second 3240"));
    assert!(!real.process.log().contains("CLOCK"));
    assert!(network_time(&mut Client::connect(real.http)) > 300_000_000);
}

#[test]
fn a_stopped_node_closes_websockets_and_loses_no_block() {
    for signal in ["TERM", "INT"] {
        let folder = tempfile::tempdir().expect("a folder");
        let (config, data) = (fast_network(folder.path()), folder.path().join("store"));
        let data = data.to_str().expect("a path");
        let node = Node::start(&["--config", &config]);
        let mut client = Client::connect(node.http);
        wait_for_height(&mut client, 3);
        let mut socket = Socket::open(node.websocket);
        socket.subscribe("a", "/blocks");
        let seen = client.height();
        node.process.signal(signal);
        let start = Instant::now();
        let close = loop {
            let frame = socket.next();
            if frame.opcode == CLOSE {
                break frame;
            }
        };
        assert!(close.payload.is_empty() || close.payload.starts_with(&1001u16.to_be_bytes()), "{close:?}");
        let _ = node.process.wait_with_timeout(STOP_TIMEOUT).expect_success();
        assert!(start.elapsed() < STOP_TIMEOUT);
        let digest = run(["digest", "--data", data]).expect_success().text();
        let height: u64 = digest.split(' ').next().and_then(|height| height.parse().ok()).expect("a height");
        assert!(height >= seen, "{height} is below {seen}");
        // The next start continues from there.
        let node = Node::start(&["--config", &config]);
        assert!(Client::connect(node.http).height() >= height);
    }
}

#[test]
fn a_second_node_on_the_same_folder_is_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_str().expect("a path");
    let node = Node::start(&["--data", data]);
    let ports = ["--bind", "127.0.0.1", "--http-port", "0", "--websocket-port", "0"];
    let second = Process::start(nisd(["run", "--data", data].iter().chain(&ports)));
    second.wait_with_timeout(MAX_WAIT).expect_failure(1, &["another nisd uses the data folder"]);
    let config = tiny("config.json");
    let (config, blocks) = (config.to_str().expect("a path"), tiny("blocks.bin"));
    let blocks = blocks.to_str().expect("a path");
    let import = run(["import", "--config", config, "--data", data, blocks]);
    import.expect_failure(1, &["another nisd uses the data folder"]);
    run(["rollback", "--data", data, "--to", "1"]).expect_failure(1, &["another nisd uses the data folder"]);
    // Reading is allowed.
    run(["digest", "--data", data]).expect_success();
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
        ended.expect_failure(1, &[&format!("cannot listen on {address}"), "--http-port"]);
    }
}

#[test]
fn the_log_shows_each_request_but_no_private_key() {
    let (node, _folder) = node_at(2, &["--clock", "3240", "--log", "trace"]);
    let mut client = Client::connect(node.http);
    let key = private_key("alice");
    assert_eq!(client.get("/chain/height").status, 200);
    assert_eq!(client.get(&format!("/no/such/path?id=7&privateKey={key}")).status, 404);
    let body = json!({ "value": key }).to_string();
    assert_eq!(client.post("/account/unlock", &body).status, 200);
    node.process.signal("TERM");
    let log = node.process.wait_with_timeout(STOP_TIMEOUT).stderr;
    for line in ["127.0.0.1 GET /chain/height 200 ", "127.0.0.1 GET /no/such/path 404 ", "POST /account/unlock 200 "] {
        assert!(log.contains(line), "{line} is not in {log}");
    }
    assert!(log.contains("/no/such/path?id=7&(redacted), Host: "), "{log}");
    assert!(!log.contains(&key), "{log}");
}
