//! Announcing transactions to a running node over HTTP: the worked examples from announcement to confirmation.

use std::collections::BTreeMap;

use crate::common::daemon::{Node, wait_for};
use crate::common::data_folder::text as path_text;
use crate::common::http::Client;
use crate::common::private_network::{Genesis, NETWORK};
use nisd::codec::{Context, SigningForm};
use nisd::crypto::{KeyPair, PrivateKey};
use nisd::model::{Address, Body, Hash256, Height, Timestamp, Transaction};
use serde_json::{Value, json};

/// Rollback limit of the golden network; also the number of blocks until a remote account is active.
const REWRITE_LIMIT: u64 = 10;

/// The golden network with such a large total supply that it finds a block every second, and its node.
struct Golden {
    data: Value,
    _node: Node,
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
        let node = Node::start(["--config", path_text(&config)]);
        let client = Client::connect(node.http);
        Golden { data, _node: node, client, _folder: folder }
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
        let path = format!("/transaction/get?hash={hash}");
        wait_for("the transaction", || Some(self.client.get(&path)).filter(|answer| answer.status == 200)).json()
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
    wait_for("an active link", || (golden.client.height() >= link.plus(REWRITE_LIMIT).0).then_some(()));
    assert_eq!(golden.account("alice")["meta"]["remoteStatus"], "ACTIVE");
    let leave = golden.example("E14");
    let hash = golden.announce(&leave);
    golden.confirmed(&hash);
    assert_eq!(golden.account("alice")["meta"]["remoteStatus"], "DEACTIVATING");
}
