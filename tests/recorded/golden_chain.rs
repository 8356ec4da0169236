//! The golden chain of the specification is made from nothing, block by block.

use std::path::Path;
use std::rc::Rc;

use crate::common::recorded_chain::{import_list, tip_of};
use crate::common::remote_node::process_branch;
use nisd::chain::harvest::{HarvestProgress, HarvestRound, Harvested, KeyOrigin, UnlockResult, UnlockedAccounts};
use nisd::chain::{ChainSnapshot, Verified, pushed_branch};
use nisd::codec::{Context, SigningForm};
use nisd::crypto::{KeyPair, PrivateKey, Signature};
use nisd::model::network::ChainParameters;
use nisd::model::{Address, Amount, Block, Body, Hash256, Height, Network, NetworkByte, Timestamp, Transaction};
use nisd::state;
use nisd::store::{ChainIdentity, Options, Store};
use serde_json::Value;

/// Sorts transactions as the mempool offers them: highest fee first, and the oldest first among equal fees.
fn in_fee_order(mut transactions: Vec<Transaction>) -> Vec<Rc<Transaction>> {
    transactions.sort_by_key(|transaction| (std::cmp::Reverse(transaction.fee), transaction.timestamp));
    transactions.into_iter().map(Rc::new).collect()
}

fn key(private: &Value) -> Box<KeyPair> {
    Box::new(KeyPair::new(&PrivateKey::from_hex(private.as_str().unwrap()).unwrap()))
}

/// The golden chain as specified.
struct Golden {
    data: Value,
    network: Network,
}

impl Golden {
    fn open() -> Golden {
        let data: Value = serde_json::from_str(include_str!("../data/golden-chain.json")).unwrap();
        let network = network(&data);
        Golden { data, network }
    }

    fn key(&self, role: &str) -> Box<KeyPair> {
        key(&self.data["privateKeys"][role])
    }

    fn address(&self, role: &str) -> Address {
        Address::from_public_key(&self.key(role).public(), self.network.byte)
    }

    fn blocks(&self) -> &[Value] {
        self.data["blocks"].as_array().unwrap()
    }

    fn balances(&self) -> impl Iterator<Item = (Address, u64)> {
        let balances = self.data["balances"].as_object().unwrap().iter();
        balances.map(|(role, balance)| (self.address(role), balance.as_u64().unwrap()))
    }

    fn score(&self) -> i128 {
        self.data["chainScore"].as_i64().unwrap().into()
    }

    /// Returns a signed transaction; multisig ones include their cosignature.
    fn transaction(&self, name: &str) -> Transaction {
        let example = &self.data["transactions"][name];
        let bytes = hex::decode(example["data"].as_str().unwrap()).unwrap();
        let context = Context::of(&self.network);
        let mut transaction = Transaction::from_bytes(&bytes, SigningForm::NonVerifiable, context).unwrap();
        assert_eq!(transaction.hash().to_string(), example["hash"], "{name}");
        transaction.signature = Some(signature(&example["signature"]));
        if let Body::Multisig(multisig) = &mut transaction.body {
            let cosignature = if name == "E10" { "E11" } else { "E13" };
            multisig.cosignatures.push(self.transaction(cosignature));
        }
        transaction
    }

    /// Creates a store with the nemesis block.
    fn store(&self, folder: &Path) -> Store {
        let store = Store::open(folder, &ChainIdentity::of(&self.network), Options::default()).unwrap();
        let nemesis = hex::decode(self.data["nemesis"].as_str().unwrap()).unwrap();
        import_list(&store, &self.network, &nemesis, []);
        store
    }
}

fn signature(text: &Value) -> Signature {
    Signature(hex::decode(text.as_str().unwrap()).unwrap().try_into().unwrap())
}

fn network(data: &Value) -> Network {
    let byte = NetworkByte::TESTNET;
    Network {
        name: "devnet".to_owned(),
        byte,
        generation_hash: Hash256::from_hex(data["generationHash"].as_str().unwrap()).unwrap(),
        nemesis_signer: Address::parse(data["nemesisSigner"].as_str().unwrap(), byte).unwrap(),
        total_amount: Amount::whole(8_999_999_999),
        chain: ChainParameters {
            rewrite_limit: 10,
            max_transactions: 1200,
            proof_of_stake: true,
            immediate_vesting: true,
            ..ChainParameters::after_all_forks()
        },
    }
}

/// Returns the first block that one of the accounts makes from the time of `chain` on, and the accounts whose blocks
/// were discarded.
fn first_block(
    unlocked: &mut UnlockedAccounts,
    unconfirmed: &[Rc<Transaction>],
    mut chain: ChainSnapshot<'_>,
) -> (Harvested, Vec<Address>) {
    let mut discarded = Vec::new();
    for _ in 0..1000 {
        let Some(mut round) = HarvestRound::begin(unlocked, &chain).unwrap() else {
            chain.now.0 += 1;
            continue;
        };
        loop {
            match round.step(unlocked, || unconfirmed.to_vec(), &chain).unwrap() {
                HarvestProgress::Working => {}
                HarvestProgress::Discarded(address, _) => discarded.push(address),
                HarvestProgress::Done(Some(harvested)) => return (harvested, discarded),
                HarvestProgress::Done(None) => break,
            }
        }
        chain.now.0 += 1;
    }
    panic!("no block is made until {}", chain.now);
}

fn assert_is_as_written(block: &Block, expected: &Value) {
    let height = block.height;
    assert_eq!(expected["height"], height.0);
    assert_eq!(expected["timeStamp"], block.timestamp.0, "block {height}");
    assert_eq!(expected["hash"], block.hash().to_string(), "block {height}");
    assert_eq!(expected["signature"], block.signature.unwrap().to_string(), "block {height}");
    assert_eq!(expected["totalFee"], block.total_fee().0, "block {height}");
}

/// Makes the next block from its expected transactions and adds it to the chain.
fn make_golden_block(golden: &Golden, expected: &Value, store: &Store) {
    let (network, parent) = (&golden.network, tip_of(store));
    let snapshot = store.snapshot().unwrap();
    let pause = if parent.height == Height::NEMESIS { 60 } else { 1 };
    let first = Timestamp(parent.timestamp.0 + pause);
    let chain = ChainSnapshot { snapshot: &snapshot, network, height: parent.height, now: first };
    let signer = expected["signer"].as_str().unwrap();
    // The owner of the remote account that makes block 14 hits as well.
    let roles = if signer == "remote" { vec![signer, "alice"] } else { vec![signer] };
    let mut unlocked = UnlockedAccounts::new(4);
    for role in &roles {
        let result = unlocked.unlock(golden.key(role), KeyOrigin::LocalClient, &chain).unwrap();
        assert_eq!(result, UnlockResult::Success, "{role}");
    }
    let names = expected["transactions"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
    let mut names: Vec<&str> = names.collect();
    names.sort();
    let unconfirmed = in_fee_order(names.iter().map(|name| golden.transaction(name)).collect());
    let (Harvested { block, score, .. }, discarded) = first_block(&mut unlocked, &unconfirmed, chain);
    assert_is_as_written(&block, expected);
    assert_eq!(discarded.is_empty(), signer != "remote", "block {}", block.height);
    assert!(discarded.iter().all(|address| *address == golden.address("alice")), "{discarded:?}");
    drop(snapshot);
    let time = block.timestamp;
    let branch =
        pushed_branch(store, network, block, Verified::default()).unwrap_or_else(|rejection| panic!("{rejection}"));
    let outcome = process_branch(branch, time);
    outcome.as_push_result().unwrap();
    let tip = tip_of(store);
    let owner = (signer == "remote").then(|| golden.address("alice"));
    assert_eq!(expected["difficulty"], tip.difficulty, "block {}", tip.height);
    assert_eq!(expected["generationHash"], tip.generation_hash.to_string(), "block {}", tip.height);
    assert_eq!((tip.score - parent.score, tip.beneficiary), (score.into(), owner), "block {}", tip.height);
}

#[test]
fn the_golden_chain_is_reproduced_second_by_second() {
    let golden = Golden::open();
    let folder = tempfile::tempdir().unwrap();
    let store = golden.store(folder.path());
    assert_eq!(tip_of(&store).hash.to_string(), "c696d61d864cde41265234d3a7da0257c818d37e9bc1e6cd40d7e1c18403f967");
    golden.blocks().iter().for_each(|expected| make_golden_block(&golden, expected, &store));
    let snapshot = store.snapshot().unwrap();
    assert_eq!(tip_of(&store).score, golden.score());
    for (address, balance) in golden.balances() {
        assert_eq!(state::account(&snapshot, &address).unwrap().balance.total(), balance, "{address}");
    }
}
