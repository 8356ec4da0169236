//! Keys, addresses and transactions on the command line, against mock nodes.

use std::fs::{self, Permissions};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::daemon::{CommandOutput, Process, assert_contains, closed_port, nisd, run, wait_for};
use crate::common::http::{receive_request, response};
use crate::common::slow_disk::SlowDisk;
use nisd::commands::{Command, CommandError, CommandLine, Stop, keys, send};
use nisd::crypto::{KeyPair, PrivateKey, PublicKey, cipher, hash::keccak256};
use nisd::net::blocking_client::BlockingClient;
use nisd::net::fetch::{Endpoint, FetchError};
use nisd::wallet;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Maximum number of connections of a mock node.
const MAX_CONNECTIONS: usize = 64;
/// Maximum wait for a request.
const MAX_WAIT: Duration = Duration::from_secs(20);
const BOB: &str = "TDHLS73IXYZFFBPZWJFK3DVGUUQ2BBIGVUPE6BMZ";
/// The rental fee sink.
const SINK: &str = "3e82e1c1e4a75adaa3cba8c101c3cd31d9817a2eb966eb3b511fb2ed45b8e262";
const SINK_ON_MAINNET: &str = "NAMESPACEWH4MKFMBCVFERDPOOP4FK7MTBXDPZZA";
const ALICE: &str = "0d02bca37b877f1321e0fc339f154b6135728780e9f42e98adf73416180d67fd";
const ALICE_PUBLIC: &str = "be6a7bb594e6c141a9ea1b671891a7a0c99999253f22bcf0fe36013bdeebded9";

/// Returns a worked example.
#[track_caller]
fn example(name: &str) -> Value {
    examples().into_iter().find(|example| example["name"] == name).expect("the example")
}

fn examples() -> Vec<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/wallet/examples.json");
    serde_json::from_slice(&fs::read(path).expect("the examples")).expect("JSON")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// A folder for key files and transactions.
struct WalletFolder(TempDir);

impl WalletFolder {
    fn new() -> WalletFolder {
        WalletFolder(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a name").to_owned()
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        fs::write(&path, content).expect("the file can be written");
        path
    }

    /// Writes a key file that only its owner may read.
    fn key(&self, private: &str) -> String {
        let path = self.file("a.key", &format!("# for a test\n{private}\n"));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("permissions");
        path
    }
}

/// What a mock node does with a request.
enum MockResponse {
    /// Answers with JSON.
    Json(u16, Value),
    /// Sends these bytes.
    Raw(Vec<u8>),
}

/// A request as the node received it: `GET /path` and the body.
#[derive(Clone, Debug)]
struct SeenRequest {
    line: String,
    body: String,
}

/// A mock node.
struct MockNode {
    url: String,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
}

impl MockNode {
    /// Starts a node that answers with the result of `reply`, or otherwise like a booted testnet node at second
    /// 300000050.
    fn start(reply: impl Fn(&SeenRequest) -> Option<MockResponse> + Send + 'static) -> MockNode {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let remembered = seen.clone();
        let server = server(move |mut stream| {
            let request = receive(&mut stream);
            remembered.lock().expect("no panic").push(request.clone());
            answer(stream, reply(&request).unwrap_or_else(|| default_response(&request)));
        });
        MockNode { url: format!("http://127.0.0.1:{}", server.port), seen }
    }

    fn with_defaults() -> MockNode {
        MockNode::start(|_| None)
    }

    fn lines(&self) -> Vec<String> {
        self.seen.lock().expect("no panic").iter().map(|seen| seen.line.clone()).collect()
    }

    /// Returns the body of the only announcement.
    #[track_caller]
    fn announced(&self) -> Value {
        let seen = self.seen.lock().expect("no panic");
        let mut found = seen.iter().filter(|seen| seen.line == "POST /transaction/announce");
        let body = &found.next().expect("an announcement").body;
        assert!(found.next().is_none(), "announced twice");
        serde_json::from_str(body).expect("JSON")
    }

    /// Starts a node that answers requests with this line with JSON.
    fn with(line: &'static str, answer: Value) -> MockNode {
        MockNode::start(move |request| (request.line == line).then(|| MockResponse::Json(200, answer.clone())))
    }

    /// Runs `nisd send` from alice to bob with further arguments.
    #[track_caller]
    fn send(&self, arguments: &[&str]) -> CommandOutput {
        let place = WalletFolder::new();
        let key = place.key(ALICE);
        let start = ["send", "--from-key-file", &key, "--to", BOB, "--node", &self.url];
        let ended = run(start.iter().chain(arguments));
        assert!(!ended.text().contains(ALICE) && !ended.stderr.contains(ALICE), "a private key is shown");
        ended
    }
}

#[test]
fn a_key_that_lacks_a_digit_is_used_with_a_note_that_shows_no_part_of_it() {
    let place = WalletFolder::new();
    let inspect = |private: &str| run(["key", "inspect", &place.key(private)]).expect_success();
    for (private, has_note) in [(&ALICE[1..], true), (&ALICE[..63], true), (&ALICE[2..], false), (ALICE, false)] {
        let said = inspect(private);
        assert_eq!(said.stderr.contains(&format!("holds a private key of {} hex digits", private.len())), has_note);
        assert!(!said.stderr.contains(&private[..8]), "{}", said.stderr);
        let complete = inspect(&format!("{private:0>64}"));
        assert_eq!((complete.text(), complete.stderr), (said.text(), String::new()));
    }
}

fn receive(stream: &mut TcpStream) -> SeenRequest {
    stream.set_read_timeout(Some(MAX_WAIT)).expect("a time limit");
    let request = receive_request(stream, &mut Vec::new()).expect("a request in time").expect("a request");
    let body = String::from_utf8(request.body).expect("text");
    SeenRequest { line: format!("{} {}", request.method, request.path), body }
}

fn answer(mut stream: TcpStream, answer: MockResponse) {
    let bytes = match answer {
        MockResponse::Raw(bytes) => bytes,
        MockResponse::Json(status, body) => response(&format!("{status} Words"), body.to_string().as_bytes()),
    };
    // The other side may have disconnected.
    let _ = stream.write_all(&bytes);
}

fn default_response(request: &SeenRequest) -> MockResponse {
    let second = 300_000_050_i64;
    MockResponse::Json(
        200,
        match request.line.as_str() {
            "GET /node/info" => json!({"metaData": {"networkId": -104}, "endpoint": {}, "identity": {}}),
            "GET /time-sync/network-time" => json!({"sendTimeStamp": 0, "receiveTimeStamp": second * 1000 + 999}),
            "POST /transaction/announce" => announcement(request, 1, "SUCCESS"),
            _ => {
                return MockResponse::Json(
                    404,
                    json!({"status": 404, "error": "Not Found", "message": "no such thing"}),
                );
            }
        },
    )
}

fn announcement(request: &SeenRequest, code: i32, message: &str) -> Value {
    let body: Value = serde_json::from_str(&request.body).expect("JSON");
    let hash = hex::encode(keccak256(&hex::decode(text(&body["data"])).expect("hex")));
    json!({"innerTransactionHash": {}, "code": code, "type": 1, "message": message, "transactionHash": {"data": hash}})
}

fn failure(status: u16, message: &str) -> Option<MockResponse> {
    Some(MockResponse::Json(status, json!({"timeStamp": 1, "error": "Words", "message": message, "status": status})))
}

fn raw(bytes: &str) -> Option<MockResponse> {
    Some(MockResponse::Raw(bytes.as_bytes().to_vec()))
}

#[test]
fn the_worked_examples_are_signed_exactly() {
    let examples = examples();
    assert_eq!(examples.len(), 14);
    for example in examples {
        let place = WalletFolder::new();
        let key = place.key(text(&example["privateKey"]));
        let file = place.file("transaction.json", &example["transaction"].to_string());
        let ended = run(["sign", "--key-file", &key, &file]).expect_success();
        let signed: Value = serde_json::from_str(&ended.text()).expect("JSON");
        let expected = json!({"data": example["data"], "signature": example["signature"]});
        assert_eq!(signed, expected, "{}", example["name"]);
        for hash in [&example["hash"], &example["innerHash"]] {
            assert!(hash.is_null() || ended.stderr.contains(text(hash)), "{}:\n{}", example["name"], ended.stderr);
        }
    }
}

#[test]
fn a_new_key_file_is_never_overwritten() {
    let place = WalletFolder::new();
    let path = place.path("new.key");
    let made = run(["key", "new", "--output", &path]).expect_success().text();
    assert_eq!(fs::metadata(&path).expect("the file").permissions().mode() & 0o777, 0o600);
    let content = fs::read_to_string(&path).expect("the file");
    let private = content.lines().find(|line| !line.starts_with('#')).expect("a key").to_owned();
    let pair = KeyPair::new(&PrivateKey::from_hex(&private).expect("hex"));
    assert!(made.contains(&pair.public().to_string()) && !made.contains(&private), "{made}");

    run(["key", "new", "--output", &path]).expect_failure(1, &["never overwritten"]);
    for no_file in ["-", &place.path("missing/")] {
        run(["key", "new", "--output", no_file]).expect_failure(2, &[no_file, "name a file"]);
    }
    assert_eq!(fs::read_to_string(&path).expect("the file"), content);

    let shown = run(["key", "inspect", &path]).expect_success().text();
    assert!(made.starts_with(&shown) && shown.lines().count() == 4, "{shown}");
    let shown = run(["key", "inspect", "--show-private", &path]).expect_success().text();
    assert!(shown.contains(&private), "{shown}");
}

#[test]
fn a_key_without_a_file_is_shown_once_and_differs_each_time() {
    let made = [(), ()].map(|()| run(["key", "new", "--network", "-104"]).expect_success());
    let private = made.each_ref().map(|ended| {
        assert!(ended.stderr.contains("shown only now"), "{}", ended.stderr);
        let text = ended.text();
        let private = text.lines().find_map(|line| line.strip_prefix("private key  ")).expect("a key").to_owned();
        let public = KeyPair::new(&PrivateKey::from_hex(&private).expect("hex")).public().to_string();
        assert!(text.contains(&public) && text.contains("testnet ") && !text.contains("mainnet"), "{text}");
        private
    });
    assert_ne!(private[0], private[1]);
}

#[test]
fn an_exposed_key_file_causes_a_warning_and_a_bad_one_is_not_shown() {
    let place = WalletFolder::new();
    let path = place.key(ALICE);
    assert_eq!(run(["key", "inspect", &path]).expect_success().stderr, "");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("permissions");
    let ended = run(["key", "inspect", &path]).expect_success();
    assert!(ended.stderr.contains("chmod 600"), "{}", ended.stderr);
    let bad = place.file("bad.key", &format!("{ALICE}x\n"));
    let ended = run(["sign", "--key-file", &bad, "-"]).expect_failure(1, &["bad.key", "line 1"]);
    assert!(!ended.stderr.contains("0d02bca3"), "{}", ended.stderr);
    run(["key", "inspect", &place.path("none.key")]).expect_failure(1, &["none.key"]);
}

#[test]
fn addresses_are_shown_for_all_networks_and_checked() {
    let shown = run(["address", SINK]).expect_success().text();
    assert_contains(
        &shown,
        &[
            "mainnet      NAMESPACEWH4MKFMBCVFERDPOOP4FK7MTBXDPZZA  NAMESP-ACEWH4-MKFMBC-VFERDP-OOP4FK-7MTBXD-PZZA",
            "testnet      TAMESPACEWH4MKFMBCVFERDPOOP4FK7MTDJEYP35",
            "mijinnet     MAMESPACEWH4MKFMBCVFERDPOOP4FK7MTCZTG5E7",
        ],
    );
    let place = WalletFolder::new();
    let of_file = run(["address", &place.key(ALICE), "--network", "0x98"]).expect_success().text();
    assert_eq!(of_file, run(["address", ALICE_PUBLIC, "--network", "testnet"]).expect_success().text());
    assert!(of_file.contains("TAYFAPMLF6JX6BDB7NWG4OS7SYBRDP45JFLWILDU"), "{of_file}");

    let dashed = "tdhls7-3ixyzf-fbpzwj-fk3dvg-uuq2bb-igvupe-6bmz";
    assert!(run(["address", dashed]).expect_success().text().contains(BOB));
    run(["address", dashed, "--network", "mainnet"]).expect_failure(2, &["testnet", "mainnet"]);
    run(["address", &BOB.replace('7', "6")]).expect_failure(2, &["checksum"]);
    run(["address", &BOB[1..]]).expect_failure(2, &["39 characters"]);
    run(["address", "no such file"]).expect_failure(1, &["no such file"]);
    run(["address", BOB, "--network", "moon"]).expect_failure(2, &["mainnet, testnet"]);
}

#[test]
fn a_transfer_is_announced_byte_for_byte() {
    let e1 = example("E1");
    let node = MockNode::with_defaults();
    let ended = node.send(&["--amount", "1"]).expect_success();
    assert_eq!(ended.text(), format!("result: SUCCESS\ncode: 1\nhash: {}\n", text(&e1["hash"])));
    assert_eq!(node.announced(), json!({"data": e1["data"], "signature": e1["signature"]}));
    let asked = ["GET /node/info", "GET /time-sync/network-time", "GET /metrics", "POST /transaction/announce"];
    assert_eq!(node.lines(), asked);
    assert_contains(&ended.stderr, &["testnet", "1 XEM", "0.05 XEM", "TDHLS7-3IXYZF"]);
}

#[test]
fn an_announcement_that_cannot_be_printed_says_that_it_was_made() {
    let (place, node, e1) = (WalletFolder::new(), MockNode::with_defaults(), example("E1"));
    let key = place.key(ALICE);
    let mut command = nisd(["send", "--from-key-file", &key, "--to", BOB, "--node", &node.url, "--amount", "1"]);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    command.stdout(full);
    let output = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let hash = text(&e1["hash"]);
    let command = format!("nisd status-of {hash} --node {}", node.url);
    let announced = format!("the transaction {hash} was announced: do not send it again; `{command}` shows its status");
    assert_contains(&said, &[&announced, "cannot write the output: No space left"]);
    assert_eq!(node.announced()["data"], e1["data"]);
}

#[test]
fn an_announcement_whose_answer_is_lost_says_that_it_may_have_been_accepted() {
    let (place, hash) = (WalletFolder::new(), text(&example("E1")["hash"]).to_owned());
    let key = place.key(ALICE);
    let send = |status: u16| {
        let node = MockNode::start(move |request| {
            let is_announced = request.line.starts_with("POST /transaction/announce");
            is_announced.then(|| failure(status, "a proxy without its node")).flatten()
        });
        let sent = run(["send", "--from-key-file", &key, "--to", BOB, "--node", &node.url, "--amount", "1"]);
        (sent, node.url)
    };
    let (lost, url) = send(502);
    let said =
        format!("{hash} may have been accepted: do not send it again; `nisd status-of {hash} --node {url}` shows");
    lost.expect_failure(1, &[&said, "status 502"]);
    // A proxy also says so after it has lost the answer.
    let said = format!("{hash} may have been accepted: do not send it again");
    send(503).0.expect_failure(1, &[&said, "status 503"]);
    let node = MockNode::start(|request| {
        let is_announced = request.line.starts_with("POST /transaction/announce");
        is_announced.then(|| failure(503, "NIS_ILLEGAL_STATE_LOADING_CHAIN")).flatten()
    });
    let refused = node.send(&["--amount", "1"]).expect_failure(1, &["is not ready"]);
    assert!(!refused.stderr.contains("may have been accepted"), "{}", refused.stderr);
}

#[test]
fn a_signal_while_a_transaction_is_announced_or_waited_for_says_that_it_may_not_be_sent_again() {
    let (place, hash) = (WalletFolder::new(), text(&example("E1")["hash"]).to_owned());
    let key = place.key(ALICE);
    for (held, fate) in
        [("POST /transaction/announce", "may have been accepted"), ("GET /transaction/", "was announced")]
    {
        // The request is answered only when the test is over.
        let (release, held_back) = mpsc::channel::<()>();
        let node = MockNode::start(move |request| {
            if request.line.starts_with(held) {
                let _ = held_back.recv();
            }
            None
        });
        let send = ["send", "--from-key-file", &key, "--to", BOB, "--node", &node.url, "--amount", "1", "--wait"];
        let process = Process::start(nisd(send));
        wait_for("the request", || node.lines().last()?.starts_with(held).then_some(()));
        process.signal("INT");
        let said = format!("{hash} {fate}: do not send it again; `nisd status-of {hash} --node {}` shows", node.url);
        process.wait_with_timeout(MAX_WAIT).expect_failure(1, &[&said, "a signal ended the wait for the node"]);
        drop(release);
    }
}

#[test]
fn a_status_in_json_names_the_hash_once() {
    let hash = "8f5ac2c162c6cca1832b0a142e2b844e674dcf6e43ac2e9974885c803c30bc42";
    let status =
        json!({"hash": hash, "status": "confirmed", "height": 5, "index": 0, "blockHash": "0f", "confirmations": 1});
    let node = MockNode::start(move |request| status_response(request, status.clone()));
    let told = run(["status-of", hash, "--json", "--node", &node.url]).expect_success();
    assert_eq!(told.text().matches("\"hash\"").count(), 1, "{}", told.text());
}

#[test]
fn messages_are_announced_as_text_or_bytes() {
    let (e2, message) = (example("E2"), "hello devnet, this is a message of 46 bytes...");
    for arguments in [["--message", message], ["--hex", &hex::encode(message)]] {
        let node = MockNode::with_defaults();
        node.send(&[&["--amount", "25000.5"], arguments.as_slice()].concat()).expect_success();
        assert_eq!(node.announced()["signature"], e2["signature"]);
    }
    let node = MockNode::with_defaults();
    node.send(&["--amount", "1", "--message", ""]).expect_success();
    assert_eq!(node.announced()["data"], example("E1")["data"]);
}

#[test]
fn mosaics_are_sent_together_with_the_currency() {
    let definition = example("E5")["transaction"]["mosaicDefinition"].clone();
    let node = MockNode::start(move |request| match request.line.as_str() {
        "GET /mosaic/definition?mosaicId=devnet:coin" => Some(MockResponse::Json(200, definition.clone())),
        "GET /mosaic/supply?mosaicId=devnet:coin" => {
            Some(MockResponse::Json(200, json!({"mosaicId": {}, "supply": 1_500_000})))
        }
        "GET /time-sync/network-time" => {
            Some(MockResponse::Json(200, json!({"receiveTimeStamp": 300_000_053_000_i64})))
        }
        _ => None,
    });
    let ended = node.send(&["--amount", "2", "--mosaic", "devnet:coin=5000"]).expect_success();
    assert_eq!(node.announced()["data"], example("E8")["data"]);
    assert!(ended.stderr.contains("5000 smallest units of devnet:coin are 5 whole units"), "{}", ended.stderr);

    let ended = node.send(&["--mosaic", "devnet:none=1"]);
    ended.expect_failure(1, &["knows no mosaic devnet:none", "expired"]);
}

#[test]
fn a_cosignatory_spends_from_a_multisig_account() {
    let e10 = example("E10");
    let node = MockNode::with("GET /time-sync/network-time", json!({"receiveTimeStamp": 300_000_055_000_i64}));
    let account = text(&e10["transaction"]["otherTrans"]["signer"]);
    let arguments = ["--amount", "100", "--multisig-account", account, "--deadline", "3600"];
    let answer = node.send(&arguments).expect_success().text();
    assert_eq!(node.announced()["data"], e10["data"]);
    assert!(answer.contains(&format!("inner hash: {}", text(&e10["innerHash"]))), "{answer}");
    // Another cosignatory was faster.
    let inner = text(&e10["innerHash"]).to_owned();
    let status = json!({"status": "unconfirmed", "since": 300000050, "deadline": 300003650});
    let (ours, wanted) = (inner.clone(), format!("GET /transaction/status?hash={inner}"));
    let second = MockNode::start(move |request| match request.line.as_str() {
        "GET /time-sync/network-time" => {
            Some(MockResponse::Json(200, json!({"receiveTimeStamp": 300_000_055_000_i64})))
        }
        "POST /transaction/announce" => Some(MockResponse::Json(200, announcement(request, 0, "NEUTRAL"))),
        line if line == wanted => Some(MockResponse::Json(200, status.clone())),
        _ => status_response(request, json!({"status": "unknown", "knownSince": 1})),
    });
    let words = ["has the same inner transaction", "unconfirmed since", "multisig signature whose otherHash", &ours];
    second.send(&arguments).expect_failure(1, &words);
    node.send(&["--amount", "1", "--multisig-account", "8d02"]).expect_failure(2, &["64 hex digits"]);
    node.send(&["--amount", "1", "--encrypt", "x", "--multisig-account", account]).expect_failure(2, &["--encrypt"]);
}

#[test]
fn an_encrypted_message_is_read_by_its_recipient() {
    let bob = KeyPair::new(&PrivateKey::from_hex(text(&example("E11")["privateKey"])).expect("hex"));
    let account = "GET /account/get?address=TDHLS73IXYZFFBPZWJFK3DVGUUQ2BBIGVUPE6BMZ";
    let answer = |key: Value| json!({"meta": {}, "account": {"address": BOB, "publicKey": key}});
    let node = MockNode::with(account, answer(json!(bob.public().to_string())));
    let ended = node.send(&["--amount", "1", "--encrypt", "for your eyes"]).expect_success();
    assert!(!ended.stderr.contains("for your eyes"), "{}", ended.stderr);
    let data = hex::decode(text(&node.announced()["data"])).expect("hex");
    // Salt, initialisation vector and one block: the end of a transfer of version 1.
    let payload = &data[data.len() - 64..];
    let alice = PublicKey::from_hex(ALICE_PUBLIC).expect("a key");
    let plain = cipher::decrypt(&bob, &alice, payload).expect("a payload").expect("the right key");
    assert_eq!(plain, b"for your eyes");

    let node = MockNode::with(account, answer(json!(ALICE_PUBLIC)));
    let ended = node.send(&["--amount", "1", "--encrypt", "x"]);
    ended.expect_failure(1, &["the public key of another account"]);

    let node = MockNode::with(account, answer(Value::Null));
    node.send(&["--amount", "1", "--encrypt", "x"]).expect_failure(1, &["does not know the recipient's public key"]);
}

#[test]
fn a_rejection_by_the_node_is_explained_in_plain_words() {
    for (code, name, words) in [
        (5, "FAILURE_INSUFFICIENT_BALANCE", "insufficient balance: the account does not have enough"),
        (5, "FAILURE_INSUFFICIENT_BALANCE", "may give the same answer for ten minutes"),
        (17, "FAILURE_INSUFFICIENT_FEE", "without --fee pays it"),
        (0, "NEUTRAL", "already knows this transaction"),
        (999, "FAILURE_OF_TOMORROW", "unknown to this program"),
    ] {
        let node = MockNode::start(move |request| {
            let announces = request.line == "POST /transaction/announce";
            announces.then(|| MockResponse::Json(200, announcement(request, code, name)))
        });
        let ended = node.send(&["--amount", "1"]);
        assert!(ended.text().starts_with(&format!("result: {name}\ncode: {code}\nhash: ")), "{}", ended.text());
        ended.expect_failure(1, &[name, words]);
    }
}

#[test]
fn an_invalid_response_of_the_node_is_an_error_with_advice() {
    type Script = fn(&SeenRequest) -> Option<MockResponse>;
    let cases: [(Script, &[&str]); 7] = [
        (|_| raw("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n<h1>Hi</h1>\n"), &["is invalid", "NEM node"]),
        (|_| raw("SSH-2.0-OpenSSH_9.2\r\n"), &["not proper HTTP"]),
        (|_| raw("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"), &["ends early"]),
        (|_| Some(MockResponse::Json(200, json!({"metaData": {"networkId": 4711}}))), &["network 4711"]),
        (|_| failure(503, "NIS_ILLEGAL_STATE_LOADING_CHAIN"), &["not ready", "LOADING"]),
        (|_| failure(429, "slow down"), &["too many requests"]),
        (
            |request| {
                let answer = json!({"code": 1, "message": "SUCCESS", "transactionHash": {"data": "00".repeat(32)}});
                request.line.starts_with("POST").then_some(MockResponse::Json(200, answer))
            },
            &["another hash"],
        ),
    ];
    for (script, words) in cases {
        let node = MockNode::start(script);
        node.send(&["--amount", "1"]).expect_failure(1, words);
    }
}

#[test]
fn an_unreachable_node_is_an_error_with_advice() {
    let node = MockNode { url: format!("http://{}", closed_port()), seen: Arc::default() };
    node.send(&["--amount", "1"]).expect_failure(1, &["does not answer", "--node"]);
}

#[test]
fn the_local_clock_is_used_if_the_node_reports_no_time() {
    let node = MockNode::start(|request| match request.line.as_str() {
        "GET /time-sync/network-time" => failure(500, "no time"),
        _ => None,
    });
    let ended = node.send(&["--amount", "1"]).expect_success();
    assert!(ended.stderr.contains("the clock of this machine is used instead"), "{}", ended.stderr);
    let data = hex::decode(text(&node.announced()["data"])).expect("hex");
    let seconds = i64::from(i32::from_le_bytes(data[8..12].try_into().expect("four bytes")));
    let now = std::time::UNIX_EPOCH.elapsed().expect("a time").as_secs() as i64 - 1_427_587_585;
    assert!((now - seconds).abs() < 60, "{seconds} at {now}");
}

#[test]
fn impossible_transfers_are_rejected_before_any_request() {
    let node = MockNode::with_defaults();
    for (arguments, words) in [
        (["--amount", "0.0000001"].as_slice(), "6 decimal places"),
        (&["--amount", "1,5"], "digits"),
        (&["--amount", "-5"], "an amount cannot be negative"),
        (&["--amount", "1", "--fee", "-0.1"], "an amount cannot be negative"),
        (&["--amount", "1", "--deadline", "-1"], "86400"),
        (&[], "--amount"),
        (&["--amount", "1", "--message", "a", "--hex", "00"], "--hex"),
        (&["--amount", "1", "--deadline", "86401"], "86400"),
        (&["--mosaic", "nem:xem=1"], "--amount"),
    ] {
        node.send(arguments).expect_failure(2, &[words]);
    }
    run(["send", "--from-key-file", "x", "--to", "TDHLS7", "--amount", "1"]).expect_failure(2, &["6 characters"]);
    run(["send", "--from-key-file", "x", "--to", BOB, "--amount", "1", "--node", "https://a"])
        .expect_failure(2, &["https is not supported"]);
    assert!(node.lines().is_empty(), "{:?}", node.lines());
}

#[test]
fn a_transfer_that_violates_the_network_or_the_rules_is_never_announced() {
    let node = MockNode::with_defaults();
    let place = WalletFolder::new();
    let main = ["send", "--from-key-file", &place.key(ALICE), "--to", SINK_ON_MAINNET, "--amount", "1", "--node"];
    run(main.into_iter().chain([node.url.as_str()])).expect_failure(2, &["mainnet", "testnet"]);
    node.send(&["--amount", "1", "--message", &"x".repeat(1025)]).expect_failure(2, &["1025 bytes", "1024"]);
    node.send(&["--amount", "1", "--hex", "abc"]).expect_failure(2, &["odd number of digits"]);
    assert!(!node.lines().iter().any(|line| line.starts_with("POST")), "{:?}", node.lines());

    let ended = node.send(&["--amount", "1", "--fee", "0.049999"]).expect_success();
    assert!(ended.stderr.contains("below the minimum of 0.05 XEM"), "{}", ended.stderr);
}

#[test]
fn a_fee_that_is_high_by_mistake_is_rejected_unless_it_is_allowed() {
    let node = MockNode::with_defaults();
    let words = ["the fee of 50000 XEM", "100 times the minimum of 0.05 XEM", "--allow-high-fee"];
    node.send(&["--amount", "1", "--fee", "50000"]).expect_failure(2, &words);
    node.send(&["--amount", "1", "--fee", "5.050001"]).expect_failure(2, &["the fee of 5.050001 XEM"]);
    assert!(!node.lines().iter().any(|line| line.starts_with("POST")), "{:?}", node.lines());
    node.send(&["--amount", "1", "--fee", "5", "--dry-run"]).expect_success();
    node.send(&["--amount", "1", "--fee", "50000", "--allow-high-fee", "--dry-run"]).expect_success();
}

#[test]
fn a_dry_run_announces_nothing_and_its_output_can_be_announced() {
    let e1 = example("E1");
    let node = MockNode::with_defaults();
    let dry = node.send(&["--amount", "1", "--dry-run"]).expect_success().text();
    assert_eq!(node.lines(), ["GET /node/info", "GET /time-sync/network-time", "GET /metrics"]);
    let place = WalletFolder::new();
    let answer = run(["announce", &place.file("signed.json", &dry), "--node", &node.url]).expect_success().text();
    assert_eq!(node.announced(), json!({"data": e1["data"], "signature": e1["signature"]}));
    assert!(answer.contains(text(&e1["hash"])), "{answer}");
}

#[test]
fn a_transaction_is_signed_and_announced_at_once_or_through_a_pipe() {
    let e7 = example("E7");
    let place = WalletFolder::new();
    let (key, file) = (place.key(ALICE), place.file("e7.json", &e7["transaction"].to_string()));
    let node = MockNode::with_defaults();
    run(["announce", "--key-file", &key, &file, "--node", &node.url]).expect_success();
    assert_eq!(node.announced()["signature"], e7["signature"]);

    let node = MockNode::with_defaults();
    let signed = run(["sign", "--key-file", &key, &file]).expect_success().stdout;
    let mut child = nisd(["announce", "--node", &node.url]).stdin(Stdio::piped()).spawn().expect("the program starts");
    child.stdin.take().expect("a pipe").write_all(&signed).expect("the program reads");
    let ended = child.wait_with_output().expect("its end");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(node.announced()["signature"], e7["signature"]);
}

#[test]
fn a_transaction_without_a_valid_signature_is_not_announced() {
    let (e1, e11) = (example("E1"), example("E11"));
    let place = WalletFolder::new();
    let node = MockNode::with_defaults();
    let announce = |name: &str, content: &Value, more: &[&str]| {
        let file = place.file(name, &content.to_string());
        run(["announce", &file, "--node", &node.url].iter().chain(more))
    };
    let wrong = json!({"data": e1["data"], "signature": e11["signature"]});
    announce("wrong.json", &wrong, &[]).expect_failure(1, &["signature does not match"]);
    announce("unsigned.json", &e1["transaction"], &[]).expect_failure(2, &["--key-file"]);
    let key = place.key(ALICE);
    announce("bobs.json", &e11["transaction"], &["--key-file", &key]).expect_failure(1, &["names the signer 4664ae"]);
    announce("none.json", &json!({"a": 1}), &[]).expect_failure(1, &["version"]);
    let signed = json!({"data": e1["data"], "signature": e1["signature"]});
    for two in [format!("{signed}\n{signed}\n"), format!("{signed} garbage"), format!("{}[]", e1["transaction"])] {
        let file = place.file("two.json", &two);
        run(["announce", &file, "--node", &node.url]).expect_failure(1, &["one transaction at a time"]);
        run(["sign", "--key-file", &key, &file]).expect_failure(1, &["one transaction at a time"]);
    }
    run(["announce", &place.path("nothing"), "--node", &node.url]).expect_failure(1, &["nothing"]);
    assert!(node.lines().is_empty(), "{:?}", node.lines());
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn waiting_ends_when_the_transaction_is_confirmed() {
    let asked = Mutex::new(0);
    let node = MockNode::start(move |request| {
        if !request.line.starts_with("GET /transaction/get?hash=513f6d57") {
            return None;
        }
        let mut asked = asked.lock().expect("no panic");
        *asked += 1;
        match *asked {
            1 => failure(400, "Hash was not found in cache"),
            _ => Some(MockResponse::Json(200, json!({"meta": {"height": 48, "id": 18}, "transaction": {}}))),
        }
    });
    let ended = node.send(&["--amount", "1", "--wait"]).expect_success();
    assert!(ended.text().ends_with("\nconfirmed at height: 48\n"), "{}", ended.text());

    let node = MockNode::start(|request| {
        let unsupported = "this node does not support transaction lookup using a hash";
        if request.line.starts_with("GET /transaction/get") { failure(500, unsupported) } else { None }
    });
    let ended = node.send(&["--amount", "1", "--wait"]);
    assert!(ended.text().starts_with("result: SUCCESS"), "{}", ended.text());
    ended.expect_failure(1, &["does not support transaction lookup"]);
}

/// The answer of a node to a request for the status of a transaction.
fn status_response(request: &SeenRequest, status: Value) -> Option<MockResponse> {
    request.line.starts_with("GET /transaction/status?hash=").then_some(MockResponse::Json(200, status))
}

#[test]
fn a_transaction_that_the_node_knows_already_is_announced_again_without_an_error() {
    for (status, words) in [
        (json!({"status": "unconfirmed", "since": 300000050, "deadline": 300003650}), "already: unconfirmed since"),
        (json!({"status": "confirmed", "height": 5, "index": 0}), "already: confirmed at height 5"),
    ] {
        let node = MockNode::start(move |request| match request.line.as_str() {
            "POST /transaction/announce" => Some(MockResponse::Json(200, announcement(request, 0, "NEUTRAL"))),
            _ => status_response(request, status.clone()),
        });
        let place = WalletFolder::new();
        let signed = node.send(&["--amount", "1", "--dry-run"]).expect_success().text();
        let ended = run(["announce", &place.file("signed.json", &signed), "--node", &node.url]);
        assert!(ended.text().starts_with("result: NEUTRAL\n"), "{}", ended.text());
        assert_contains(&ended.expect_success().stderr, &[words]);
        // Who sends wants another payment.
        let ended = node.send(&["--amount", "1"]);
        ended.expect_failure(1, &[words, "an equal transaction was sent before, in the same second"]);
    }
}

#[test]
fn nothing_is_signed_with_the_time_of_a_node_that_is_ahead() {
    let now = std::time::UNIX_EPOCH.elapsed().expect("a time").as_millis() as i64 - 1_427_587_585_000;
    let node_at = |millis: i64| MockNode::with("GET /time-sync/network-time", json!({"receiveTimeStamp": millis}));
    node_at(now + 500_000).send(&["--amount", "1"]).expect_success();
    let node = node_at(now + 700_000);
    node.send(&["--amount", "1"]).expect_failure(1, &["nothing is signed: the node's time is", "Set the clock"]);
    assert!(!node.lines().iter().any(|line| line.starts_with("POST")));
}

#[test]
fn levies_are_shown_with_their_amounts_and_those_in_xem_are_bounded_like_fees() {
    let node_with = |levy: Value| {
        let mut definition = example("E5")["transaction"]["mosaicDefinition"].clone();
        definition["levy"] = levy;
        MockNode::start(move |request| match request.line.as_str() {
            "GET /mosaic/definition?mosaicId=devnet:coin" => Some(MockResponse::Json(200, definition.clone())),
            "GET /mosaic/supply?mosaicId=devnet:coin" => {
                Some(MockResponse::Json(200, json!({"mosaicId": {}, "supply": 1_500_000})))
            }
            _ => None,
        })
    };
    let levy = |kind: i32, namespace: &str, name: &str, fee: u64| {
        let mosaic = json!({"namespaceId": namespace, "name": name});
        json!({"type": kind, "recipient": BOB, "mosaicId": mosaic, "fee": fee})
    };
    let arguments = ["--mosaic", "devnet:coin=5000"];
    let share = node_with(levy(2, "devnet", "coin", 20)).send(&arguments).expect_success();
    assert_contains(&share.stderr, &["a levy of 10 smallest units of devnet:coin is paid in addition"]);
    let small = node_with(levy(1, "nem", "xem", 1_000_000)).send(&arguments).expect_success();
    assert_contains(&small.stderr, &["a levy of 1 XEM is paid in addition"]);
    let large = node_with(levy(1, "nem", "xem", 9_000_000_000_000));
    large.send(&arguments).expect_failure(2, &["fee and levy of 9000000", "--allow-high-fee"]);
    large.send(&[&arguments[..], &["--allow-high-fee"]].concat()).expect_success();
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_transaction_that_its_node_has_forgotten_is_announced_again_while_it_is_waited_for() {
    let asked = Mutex::new(0);
    let node = MockNode::start(move |request| {
        let mut asked = asked.lock().expect("no panic");
        *asked += usize::from(request.line.starts_with("GET /transaction/status"));
        let status = match *asked {
            1 => json!({"status": "unconfirmed", "since": 300000050, "deadline": 300003650}),
            2 => json!({"status": "unknown", "knownSince": 300000060}),
            _ => json!({"status": "confirmed", "height": 5, "index": 0, "blockHash": "0f", "confirmations": 1}),
        };
        status_response(request, status)
    });
    let ended = node.send(&["--amount", "1", "--wait"]).expect_success();
    assert_contains(&ended.stderr, &["no longer knows the transaction", "announced again"]);
    let seen = node.seen.lock().expect("no panic");
    let announced: Vec<_> = seen.iter().filter(|seen| seen.line == "POST /transaction/announce").collect();
    assert_eq!((announced.len(), &announced[0].body), (2, &announced[1].body));
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn waiting_ends_with_the_reason_when_the_transaction_fails() {
    let asked = Mutex::new(0);
    let node = MockNode::start(move |request| {
        let unconfirmed = json!({"status": "unconfirmed", "since": 300000050, "deadline": 300003650});
        let expired = json!({"status": "expired", "since": 300003651, "code": 3, "message": "FAILURE_PAST_DEADLINE",
                             "reason": "past deadline"});
        let mut asked = asked.lock().expect("no panic");
        *asked += usize::from(request.line.starts_with("GET /transaction/status"));
        status_response(request, if *asked < 2 { unconfirmed } else { expired })
    });
    let ended = node.send(&["--amount", "1", "--wait"]);
    ended.expect_failure(1, &["not in the chain: expired since 2024-09-29 06:27:16 UTC: past deadline (FAILURE_PAST"]);
    assert!(!node.lines().iter().any(|line| line.starts_with("GET /transaction/get")), "{:?}", node.lines());
}

#[test]
fn the_status_of_a_transaction_is_told_in_words_and_by_the_exit_code() {
    let hash = "8F5AC2C162C6CCA1832B0A142E2B844E674DCF6E43AC2E9974885C803C30BC42";
    let reason = |status| {
        json!({"status": status, "since": 300000050, "code": 5, "message": "FAILURE_INSUFFICIENT_BALANCE",
               "reason": "insufficient balance"})
    };
    let signatures = json!({"signed": [{"address": BOB}], "missing": [{"address": SINK_ON_MAINNET}], "required": 2});
    let cases = [
        (
            json!({"status": "confirmed", "height": 55, "index": 1, "blockHash": "0f", "confirmations": 6}),
            (0, "confirmed at height 55, transaction 1 of block 0f, confirmations: 6\n"),
        ),
        (
            json!({"status": "unconfirmed", "since": 300000050, "deadline": 300003650, "multisig": signatures}),
            (3, "NAMESPACEWH4MKFMBCVFERDPOOP4FK7MTBXDPZZA\n"),
        ),
        (reason("rejected"), (4, "rejected since 2024-09-29 05:27:15 UTC: insufficient balance (FAILURE_INSUFFI")),
        (reason("expired"), (5, "expired since")),
        (reason("evicted"), (6, "evicted since")),
        (reason("replaced"), (7, "replaced since")),
        (json!({"status": "unknown", "knownSince": 300000050}), (8, "unknown: ")),
    ];
    for (status, (code, words)) in cases {
        let (shown, line) = (status.clone(), format!("GET /transaction/status?hash={}", hash.to_lowercase()));
        let node = MockNode::start(move |request| status_response(request, shown.clone()));
        let told = run(["status-of", hash, "--node", &node.url]);
        assert_eq!((told.code, node.lines()), (Some(code), vec![line]), "{}", told.stderr);
        assert_contains(&told.text(), &[words]);
        assert!(told.stderr.is_empty(), "{}", told.stderr);
        let told = run(["status-of", hash, "--json", "--node", &node.url]);
        let mut expected = status;
        expected["hash"] = json!(hash.to_lowercase());
        assert_eq!(serde_json::from_str::<Value>(&told.text()).expect("JSON"), expected);
    }
    for wrong in ["ab", &hash[1..], &format!("{hash}0"), "xyz"] {
        run(["status-of", wrong]).expect_failure(2, &["a hash has 64 hex digits"]);
    }
    run(["status-of", hash, "--node", "https://a"]).expect_failure(2, &["https is not supported"]);
    let port = closed_port();
    run(["status-of", hash, "--node", &format!("http://{port}")]).expect_failure(1, &["does not answer"]);
}

#[test]
fn a_node_that_does_not_tell_statuses_is_asked_for_the_transaction() {
    let hash = "8f5ac2c162c6cca1832b0a142e2b844e674dcf6e43ac2e9974885c803c30bc42";
    let node = MockNode::start(|request| {
        let is_asked = request.line.starts_with("GET /transaction/get");
        is_asked.then(|| MockResponse::Json(200, json!({"meta": {"height": 48}, "transaction": {}})))
    });
    assert_eq!(run(["status-of", hash, "--node", &node.url]).expect_success().text(), "confirmed at height 48\n");
    let node = MockNode::start(|request| match request.line.as_str() {
        line if line.starts_with("GET /transaction/get") => failure(400, "Hash was not found in cache"),
        _ => None,
    });
    let told = run(["status-of", hash, "--node", &node.url]);
    assert_eq!(told.code, Some(8));
    assert_contains(&told.text(), &["unknown: the node finds no confirmed transaction of this hash"]);
}

#[test]
fn a_server_that_is_no_nem_node_tells_nothing_of_a_transaction() {
    let hash = "8f5ac2c162c6cca1832b0a142e2b844e674dcf6e43ac2e9974885c803c30bc42";
    for answer in ["<h1>Not Found</h1>", r#"{"error":"Not Found"}"#, r#"{"status":400,"message":"no such page"}"#] {
        let length = answer.len();
        let head = format!("HTTP/1.1 404 Not Found\r\nContent-Length: {length}\r\n\r\n");
        let node = MockNode::start(move |_| raw(&format!("{head}{answer}")));
        let told = run(["status-of", hash, "--node", &node.url]);
        assert!(told.code != Some(8) && !told.text().contains("unknown"), "{answer}: {}", told.text());
    }
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn waiting_for_a_status_shows_what_changes_until_the_end() {
    let asked = Mutex::new(0);
    let node = MockNode::start(move |request| {
        let mut asked = asked.lock().expect("no panic");
        *asked += 1;
        let status = match *asked {
            1 => json!({"status": "unknown", "knownSince": 300000050}),
            2 => json!({"status": "unconfirmed", "since": 300000060, "deadline": 300003650}),
            _ => json!({"status": "confirmed", "height": 5, "index": 0, "blockHash": "0f", "confirmations": 1}),
        };
        status_response(request, status)
    });
    let told = run(["status-of", &"ab".repeat(32), "--wait", "--node", &node.url]).expect_success();
    assert_contains(&told.stderr, &["unknown: ", "unconfirmed since"]);
    assert!(told.text().starts_with("confirmed at height 5,") && told.text().lines().count() == 1, "{}", told.text());
}

/// The SHA-256 of the notarised file, which contains "abc".
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn a_file_is_notarised_by_a_message_to_the_account_itself() {
    let (place, node) = (WalletFolder::new(), MockNode::with_defaults());
    fs::write(place.path("contract"), "abc").expect("a file");
    let (file, key) = (place.path("contract"), place.key(ALICE));
    let ended = run(["apostille", "create", &file, "--from-key-file", &key, "--node", &node.url]).expect_success();
    assert!(ended.stderr.contains(ABC) && ended.text().contains("SUCCESS"), "{} {}", ended.stderr, ended.text());
    let announced = node.announced();
    let data = text(&announced["data"]);
    assert!(data.contains(&format!("fe4e545903{ABC}")), "{data}");
    let own = hex::encode("TAYFAPMLF6JX6BDB7NWG4OS7SYBRDP45JFLWILDU");
    assert!(run(["address", &key, "--network", "testnet"]).text().contains("TAYFAPMLF6JX6BDB7NWG4OS7SYBRDP45JFLWILDU"));
    assert!(data.contains(&own), "{data}");

    let missing = place.path("missing");
    run(["apostille", "create", &missing, "--from-key-file", &key, "--node", &node.url])
        .expect_failure(1, &[&missing, "No such file"]);
}

/// Returns a transfer of alice with a message.
fn transfer_with(payload: &str) -> Value {
    json!({
        "type": 257, "version": -1_744_830_463, "timeStamp": 300_000_050, "deadline": 300_003_650, "fee": 100_000,
        "signer": ALICE_PUBLIC, "amount": 0, "recipient": BOB, "message": {"type": 1, "payload": payload},
    })
}

/// Returns the hash of a transaction and a node that reports it as confirmed.
fn notary(mut transaction: Value) -> (String, MockNode) {
    let hash = wallet::read_transaction(transaction.to_string().as_bytes()).expect("a transaction").hash().to_string();
    transaction["signature"] = json!("00".repeat(64));
    let node = MockNode::start(move |request| match request.line.as_str() {
        line if line.starts_with("GET /transaction/get?hash=") => {
            Some(MockResponse::Json(200, json!({"meta": {"height": 48, "id": 18}, "transaction": transaction})))
        }
        "POST /block/at/public" => Some(MockResponse::Json(200, json!({"height": 48, "timeStamp": 300_000_100}))),
        _ => None,
    });
    (hash, node)
}

#[test]
fn a_file_is_verified_against_what_was_notarised() {
    let place = WalletFolder::new();
    fs::write(place.path("contract"), "abc").expect("a file");
    fs::write(place.path("forged"), "abd").expect("a file");
    let (contract, forged) = (place.path("contract"), place.path("forged"));
    let verify = |file: &str, hash: &str, node: &MockNode| {
        run(["apostille", "verify", file, "--transaction", hash, "--node", &node.url])
    };
    let (hash, node) = notary(transfer_with(&format!("FE4E545903{ABC}")));
    let told = verify(&contract, &hash, &node).expect_success().text();
    assert_contains(
        &told,
        &["verified", ABC, &hash, ALICE_PUBLIC, "TAYFAP-MLF6JX", "48", "2024-09-29 05:28:05.000 UTC"],
    );
    verify(&forged, &hash, &node).expect_failure(1, &["not verified", &forged, ABC]);
    verify(&contract, "12", &node).expect_failure(2, &["64 hex digits"]);
    // A node that returns another transaction than requested.
    verify(&contract, &"ab".repeat(32), &node).expect_failure(1, &["another hash"]);

    let (hash, node) = notary(transfer_with("68656c6c6f"));
    verify(&contract, &hash, &node).expect_failure(1, &["not verified", "FE4E545903"]);
    verify(&contract, &hash, &MockNode::start(|_| failure(400, "Hash was not found in cache")))
        .expect_failure(1, &["not verified", "TRANSACTION_HASH_LOOKUP"]);
}

#[test]
fn a_notarisation_by_a_multisig_account_is_found_by_either_hash() {
    let place = WalletFolder::new();
    fs::write(place.path("contract"), "abc").expect("a file");
    let inner = transfer_with(&format!("fe4e545903{ABC}"));
    let inner_hash = wallet::read_transaction(inner.to_string().as_bytes()).expect("a transaction").hash().to_string();
    let outer = json!({
        "type": 4100, "version": -1_744_830_463, "timeStamp": 300_000_050, "deadline": 300_003_650, "fee": 150_000,
        "signer": "8d02445a1d997a86a19bbce8ce8a080fd72de84d464937938c8c2c5e363f1f4c", "otherTrans": inner, "signatures": [],
    });
    let (outer_hash, node) = notary(outer);
    for hash in [outer_hash, inner_hash] {
        let contract = place.path("contract");
        let told = run(["apostille", "verify", &contract, "--transaction", &hash, "--node", &node.url]);
        assert!(told.expect_success().text().contains(ALICE_PUBLIC), "who signed is the multisig account");
    }
}

/// Services in which time passes only by waiting, and without randomness.
mod virtual_services {
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use nisd::clock::System;

    static MILLIS: AtomicU64 = AtomicU64::new(0);

    pub const SYSTEM: System = System {
        unix_millis: || 0,
        millis: || MILLIS.load(Ordering::Relaxed),
        sleep: |time: Duration| {
            MILLIS.fetch_add(time.as_millis() as u64, Ordering::Relaxed);
        },
        random: |_| Err(io::Error::other("none left")),
    };
}

/// Runs a command in this process with these services.
fn execute(arguments: &[&str]) -> Result<(), CommandError> {
    match CommandLine::parse(["nisd"].iter().chain(arguments), "").expect("a command line").command {
        Command::Send(command) => send::send(&command, virtual_services::SYSTEM, || Ok(Stop::default())),
        Command::Key(command) => keys::key(&command, virtual_services::SYSTEM),
        other => panic!("{other:?}"),
    }
}

#[test]
fn waiting_ends_some_time_after_the_deadline() {
    let node = MockNode::start(|request| match request.line.as_str() {
        line if line.starts_with("GET /transaction/get") => failure(400, "Hash was not found in cache"),
        // As the clock of the system here.
        "GET /time-sync/network-time" => Some(MockResponse::Json(200, json!({"receiveTimeStamp": 0}))),
        _ => None,
    });
    let place = WalletFolder::new();
    let key = place.key(ALICE);
    let start = ["send", "--from-key-file", &key, "--to", BOB, "--node", &node.url];
    let result = execute(&[start.as_slice(), &["--amount", "1", "--deadline", "10", "--wait"]].concat());
    let error = result.unwrap_err().to_string();
    assert!(error.contains("its deadline has passed"), "{error}");
    let polls = node.lines().iter().filter(|line| line.starts_with("GET /transaction/get")).count();
    assert_eq!(polls, 36, "every two seconds for 70, the first at once");
}

#[test]
fn no_key_is_written_without_randomness() {
    let place = WalletFolder::new();
    let path = place.path("new.key");
    let failure = execute(&["key", "new", "--output", &path]).expect_err("no random numbers");
    assert!(failure.to_string().starts_with("the system provides no random numbers"), "{failure}");
    assert!(fs::metadata(&path).is_err());
}

#[test]
fn the_address_of_a_new_key_is_shown_once_its_file_and_the_name_are_on_the_disk() {
    let (Some(disk), place, elsewhere) = (SlowDisk::new(), WalletFolder::new(), WalletFolder::new()) else { return };
    let folder = fs::canonicalize(place.0.path()).expect("a folder");
    let (shown, log) = (folder.join("shown"), PathBuf::from(elsewhere.path("log")));
    let mut command = nisd(["key", "new", "--output", &place.path("new.key")]);
    disk.with_log(&mut command, &folder, &log);
    let status = command.stdout(fs::File::create(&shown).expect("room")).status().expect("the program starts");
    assert!(status.success() && fs::read_to_string(&shown).expect("text").contains("key file"));
    let log = fs::read_to_string(log).expect("text");
    let at = |call: &str, path: &str| {
        log.lines().position(|line| line.starts_with(call) && line.ends_with(path)).unwrap_or_else(|| panic!("{log}"))
    };
    let [file, name, output] = [
        log.lines().position(|line| line.starts_with("sync ")).expect("a sync"),
        at("sync ", folder.to_str().expect("a path")),
        at("write ", shown.to_str().expect("a path")),
    ];
    assert!(file < name && name < output, "{log}");
}

/// Starts a server that calls `serve` for each connection.
fn server(serve: impl Fn(TcpStream) + Send + 'static) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || listener.incoming().take(MAX_CONNECTIONS).flatten().for_each(serve));
    Endpoint { host: "127.0.0.1".to_owned(), port }
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_slow_response_is_awaited_up_to_a_timeout() {
    let step = Duration::from_millis(20);
    let slow = server(move |mut stream| {
        receive(&mut stream);
        for byte in b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" {
            thread::sleep(step);
            stream.write_all(&[*byte]).expect("the client reads");
        }
    });
    let answer = BlockingClient::new(slow, MAX_WAIT).get("/chain/height").expect("an answer");
    assert_eq!((answer.status, answer.body.as_slice()), (200, b"{}".as_slice()));

    // A byte now and then does not extend the timeout.
    let endless = server(move |mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nA: ");
        while stream.write_all(b"b").is_ok() {
            thread::sleep(step);
        }
    });
    let silent = server(move |stream| {
        thread::sleep(MAX_WAIT);
        drop(stream);
    });
    for endpoint in [endless, silent] {
        let start = Instant::now();
        let result = BlockingClient::new(endpoint, Duration::from_millis(300)).post_json("/x", b"{}");
        assert!(start.elapsed() < MAX_WAIT / 2);
        assert!(matches!(result, Err(FetchError::TimedOut(_))), "{result:?}");
    }
}
