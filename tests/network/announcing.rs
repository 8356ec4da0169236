//! Announcing transactions to a running node over HTTP: the worked examples from announcement to confirmation, and the
//! recorded responses of NIS1 to transactions of every kind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::daemon::{Node, run};
use crate::common::http::Client;
use crate::common::private_network::{Genesis, NETWORK};
use crate::common::{print_notice, read_recorded, recorded, refusals, tiny};
use nisd::codec::{Context, SigningForm};
use nisd::crypto::{KeyPair, PrivateKey};
use nisd::model::{Address, Body, Hash256, Height, Timestamp, Transaction};
use serde_json::{Value, json};

/// Maximum time until a network that makes a block every second confirms a transaction.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Rollback limit of the golden network; also the number of blocks until a remote account is active.
const REWRITE_LIMIT: u64 = 10;

/// The golden network with such a large total supply that it finds a block every second, and its node.
struct Golden {
    data: Value,
    node: Node,
    client: Client,
    _folder: tempfile::TempDir,
}

impl Golden {
    fn start() -> Golden {
        let data: Value = serde_json::from_str(include_str!("../data/golden-chain.json")).unwrap();
        let genesis = Genesis {
            block: hex::decode(text(&data["nemesis"])).unwrap(),
            signer: text(&data["nemesisSigner"]).to_owned(),
            generation_hash: text(&data["generationHash"]).to_owned(),
        };
        let folder = tempfile::tempdir().expect("a folder");
        let limits = [("nis.blockChainRewriteLimit", &*REWRITE_LIMIT.to_string()), ("nis.maxTransactions", "1200")];
        let config = genesis.write_hasty(folder.path(), text(&data["privateKeys"]["harvester"]), &limits);
        let node = Node::start(["--config", config.to_str().expect("a path")]);
        let client = Client::connect(node.http);
        Golden { data, node, client, _folder: folder }
    }

    fn keys(&self) -> impl Iterator<Item = KeyPair> {
        let keys = self.data["privateKeys"].as_object().unwrap().values();
        keys.map(|key| KeyPair::new(&PrivateKey::from_hex(text(key)).unwrap()))
    }

    /// Returns an unsigned example with the current time.
    fn example(&mut self, name: &str) -> Transaction {
        let bytes = hex::decode(text(&self.data["transactions"][name]["data"])).unwrap();
        let nemesis_signer = Address::parse(text(&self.data["nemesisSigner"]), NETWORK).unwrap();
        let context = Context { network: NETWORK, nemesis_signer, trusted: false };
        let mut transaction = Transaction::from_bytes(&bytes, SigningForm::NonVerifiable, context).unwrap();
        let time = self.client.block(1).json()["timeStamp"].as_i64().unwrap();
        assert_eq!(time, 300_000_000);
        let now = self.client.get("/time-sync/network-time").json()["sendTimeStamp"].as_i64().unwrap() / 1000;
        renew(&mut transaction, now as i32);
        transaction
    }

    /// Signs and announces a transaction; returns its hash.
    #[track_caller]
    fn announce(&mut self, transaction: &Transaction) -> Hash256 {
        let data = transaction.to_bytes(SigningForm::NonVerifiable);
        let signer = self.keys().find(|pair| pair.public() == transaction.signer).expect("a key of the examples");
        let body = json!({"data": hex::encode(&data), "signature": signer.sign(&data).to_string()});
        let answer = self.client.post("/transaction/announce", &body.to_string());
        assert_eq!(answer.json()["message"], "SUCCESS", "{transaction:?}: {answer:?}");
        transaction.hash()
    }

    /// Waits until a transaction is confirmed; returns its JSON.
    #[track_caller]
    fn confirmed(&mut self, hash: &Hash256) -> Value {
        let begun = Instant::now();
        loop {
            let answer = self.client.get(&format!("/transaction/get?hash={hash}"));
            if answer.status == 200 {
                return answer.json();
            }
            assert!(begun.elapsed() < MAX_WAIT, "{hash} is not confirmed; {}", self.node.process.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn account(&mut self, role: &str) -> Value {
        let key = PrivateKey::from_hex(text(&self.data["privateKeys"][role])).unwrap();
        let address = Address::from_public_key(&KeyPair::new(&key).public(), NETWORK);
        self.client.get(&format!("/account/get?address={address}")).json()
    }
}

/// Sets the time and the deadline of a transaction.
fn renew(transaction: &mut Transaction, now: i32) {
    let valid_for = transaction.deadline.0 - transaction.timestamp.0;
    transaction.timestamp = Timestamp(now);
    transaction.deadline = Timestamp(now + valid_for);
    if let Body::Multisig(multisig) = &mut transaction.body {
        renew(&mut multisig.inner, now);
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

#[test]
fn every_worked_example_is_accepted_confirmed_and_visible() {
    let mut golden = Golden::start();
    let mut hashes = BTreeMap::new();
    for name in ["E1", "E2", "E3", "E4", "E5", "E6", "E7", "E8", "E9"] {
        let transaction = golden.example(name);
        hashes.insert(name, (transaction.clone(), golden.announce(&transaction)));
    }
    let mut link = Height(0);
    for (name, (transaction, hash)) in &hashes {
        let shown = golden.confirmed(hash);
        assert_eq!(shown["meta"]["hash"]["data"], hash.to_string(), "{name}");
        assert_eq!(shown["transaction"]["type"], transaction.body.kind(), "{name}");
        link = Height(shown["meta"]["height"].as_u64().unwrap());
    }
    let multisig = golden.account("multisig");
    assert_eq!(multisig["account"]["multisigInfo"], json!({"cosignatoriesCount": 3, "minCosignatories": 2}));
    assert_eq!(golden.account("remote")["meta"]["remoteStatus"], "REMOTE");

    // A payment of the multisig account, then the removal of a cosignatory.
    for (begun, agreed) in [("E10", "E11"), ("E12", "E13")] {
        let outer = golden.example(begun);
        let hash = golden.announce(&outer);
        let mut cosignature = golden.example(agreed);
        let Body::Cosignature(body) = &mut cosignature.body else { panic!("{agreed}") };
        body.other_hash = outer.inner().unwrap().hash().into();
        golden.announce(&cosignature);
        let shown = golden.confirmed(&hash);
        assert_eq!(shown["meta"]["innerHash"]["data"], outer.inner().unwrap().hash().to_string());
        let signatures = shown["transaction"]["signatures"].as_array().unwrap();
        assert_eq!(signatures.len(), 1, "{begun}");
        assert_eq!(signatures[0]["signer"], cosignature.signer.to_string(), "{begun}");
    }
    let info = &golden.account("multisig")["account"]["multisigInfo"];
    assert_eq!(info, &json!({"cosignatoriesCount": 2, "minCosignatories": 1}));

    // A remote account can be deactivated once it is active.
    while golden.client.height() < link.plus(REWRITE_LIMIT).0 {
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(golden.account("alice")["meta"]["remoteStatus"], "ACTIVE");
    let leave = golden.example("E14");
    let hash = golden.announce(&leave);
    golden.confirmed(&hash);
    assert_eq!(golden.account("alice")["meta"]["remoteStatus"], "DEACTIVATING");
}

/// A store of a recorded chain up to a height.
struct Store {
    config: PathBuf,
    data: PathBuf,
    _folder: tempfile::TempDir,
}

impl Store {
    fn of(config: PathBuf, blocks: &Path, height: u64) -> Store {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("store");
        let words = ["import", "--stop-at", &height.to_string(), "--config"].map(PathBuf::from);
        let words = words.iter().chain([&config]).cloned().chain(["--data".into(), data.clone(), blocks.into()]);
        run(words).expect_success();
        Store { config, data, _folder: folder }
    }

    /// Starts a node with an empty mempool and a stopped clock on this store.
    fn node(&self, time: i64) -> Node {
        let path = |path: &Path| path.to_str().expect("a path").to_owned();
        Node::start(["--config", &path(&self.config), "--data", &path(&self.data), "--clock", &time.to_string()])
    }
}

/// Cases that intentionally differ from the recording: NIS1 rejects a transaction after a copy of it with a wrong
/// signature.
const TRUE_AFTER_FORGED: [&str; 2] = ["tx-0302", "tx-0644"];

/// Announces a transaction; returns the status and the body of the response.
fn announce(client: &mut Client, data: &Value, signature: &Value) -> (u64, Value) {
    let answer = client.post("/transaction/announce", &json!({"data": data, "signature": signature}).to_string());
    (answer.status.into(), answer.json())
}

/// Announces the cases of one store and time. Cases that change the mempool or depend on others each have their own
/// node.
fn announce_all(store: &Store, cases: &[&Value], codes: &mut BTreeSet<i64>) -> Vec<String> {
    let time = cases[0]["time"].as_i64().unwrap();
    let (mut node, mut announced) = (None, BTreeSet::new());
    let mut wrong = Vec::new();
    for case in cases {
        let is_alone = case["before"].is_array() || case["poolSizeAfter"] != 0 || case["hazard"] == true;
        let is_repeated = !announced.insert(case["binary"].to_string());
        if is_alone || is_repeated {
            node = None;
        }
        let client = &mut Client::connect(node.get_or_insert_with(|| store.node(time)).http);
        for before in case["before"].as_array().into_iter().flatten() {
            announce(client, &before["data"], &before["signature"]);
        }
        let (status, body) = announce(client, &case["binary"], &case["signature"]);
        codes.extend(body["code"].as_i64());
        let is_right = match TRUE_AFTER_FORGED.iter().any(|id| case["id"] == *id) {
            true => (status, &body["message"]) == (200, &json!("SUCCESS")),
            false => refusals::is_as_recorded(case, status, &body),
        };
        if !is_right {
            wrong.push(format!("{} {}: {status} {body}, recorded {}", case["id"], case["note"], case["result"]));
        }
        if is_alone {
            node = None;
        }
    }
    wrong
}

/// Result codes that admission to the mempool can give. 125 is not among them because another rule always fails first.
const CODES: &[i64] = &[
    0, 1, 3, 4, 5, 8, 10, 17, 18, 19, 20, 22, 41, 42, 62, 63, 64, 65, 66, 71, 73, 74, 75, 77, 78, 80, 81, 82, 121, 122,
    123, 124, 126, 127, 128, 129, 141, 142, 143, 144, 145, 146, 147, 148, 150, 151, 152, 153, 154,
];

#[test]
fn every_admission_result_is_answered_as_recorded() {
    let cases = read_recorded("rejects/transactions.jsonl.gz");
    let cases: Vec<Value> = cases.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // One store of the smallest chain, and others for what only they show.
    let places = [("tiny", 60), ("all-forks", 398), ("all-forks", 698), ("all-forks", 4010), ("one-year", 9573)];
    let (mut codes, mut count) = (BTreeSet::new(), 0);
    for (chain, height) in places {
        let folder = format!("chains/{chain}");
        let (config, blocks) = match chain {
            "tiny" => (tiny("config.json"), tiny("blocks.bin")),
            _ => {
                let path = |name| recorded(&format!("{folder}/{name}"));
                (path("config.json"), path("blocks.bin.gz"))
            }
        };
        let store = Store::of(config, &blocks, height);
        let mut by_time: BTreeMap<i64, Vec<&Value>> = BTreeMap::new();
        for case in cases.iter().filter(|case| case["chain"] == chain && case["height"] == height) {
            by_time.entry(case["time"].as_i64().unwrap()).or_default().push(case);
        }
        for cases in by_time.values() {
            let wrong = announce_all(&store, cases, &mut codes);
            assert!(wrong.is_empty(), "{chain} {height}: {} wrong:\n{}", wrong.len(), wrong.join("\n"));
            count += cases.len();
        }
    }
    let missing: Vec<_> = CODES.iter().filter(|code| !codes.contains(code)).collect();
    print_notice(&format!("announced {count} recorded transactions over HTTP; codes {codes:?}"));
    assert!(missing.is_empty(), "no case gives {missing:?}");
}
