//! The project's smallest recorded chain, `tests/data/recorded/chains/tiny`, imported into a store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nisd::chain::{BlockImporter, ImportOptions, ImportProgress};
use nisd::codec::block_file::BlockFile;
use nisd::config::{self, Settings};
use nisd::crypto::{KeyPair, PrivateKey, PublicKey};
use nisd::model::{Hash256, Height, Network, Timestamp};
use nisd::state::digest;
use nisd::store::{Options, Store, StoredHeader, tip};

/// A time that no block is ahead of, unless its time stamp is deliberately wrong.
pub const LATE: Timestamp = Timestamp(i32::MAX - 100);
/// Address space for the store, in bytes.
const MAP_SIZE: usize = 256 << 20;

/// Returns its configuration.
pub fn settings() -> Settings {
    config::load(Some(&file("network.properties")), Vec::new(), Some(&file("")))
        .expect("the configuration of the chain")
}

/// Creates a store with the blocks up to a height.
pub fn store(settings: &Settings, up_to: Height) -> Store {
    let Settings { network, nemesis, .. } = settings;
    let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    let options = Options { map_size: MAP_SIZE };
    let store = Store::scratch(memory.path(), options).expect("a store");
    // The open files are all that is needed of it.
    memory.close().expect("a folder that can go");
    import(&store, network, nemesis.read().expect("its nemesis block"), up_to);
    store
}

fn import(store: &Store, network: &Network, nemesis: Vec<u8>, up_to: Height) {
    let blocks = std::fs::File::open(file("blocks.bin")).expect("its blocks");
    let blocks = BlockFile::new(blocks).expect("its blocks");
    let options = ImportOptions { stop_at: Some(up_to), ..ImportOptions::DEFAULT };
    let mut intake = BlockImporter::new(store, network, nemesis, vec![blocks], options).expect("an empty store");
    while intake.step(LATE).expect("a good block") != ImportProgress::Done {}
}

/// Returns the private keys of its accounts by name, in hex.
pub fn private_keys() -> Vec<(String, String)> {
    let text = std::fs::read(file("keys.json")).expect("the keys of the chain");
    let keys: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let text = |account: &serde_json::Value, name: &str| account[name].as_str().expect("a text").to_owned();
    let accounts = keys["accounts"].as_array().expect("a list").iter();
    accounts.map(|account| (text(account, "name"), text(account, "privateKey"))).collect()
}

/// Returns the key pairs of its accounts by public key.
pub fn keys() -> BTreeMap<PublicKey, KeyPair> {
    let pair = |(_, private): (String, String)| {
        let pair = KeyPair::new(&PrivateKey::from_hex(&private).expect("hex"));
        (pair.public(), pair)
    };
    private_keys().into_iter().map(pair).collect()
}

/// Returns the digest of the state, and the tip.
pub fn state_of(store: &Store) -> (Hash256, StoredHeader) {
    let snapshot = store.snapshot().expect("a snapshot");
    let tip = tip(&snapshot).expect("a store").expect("a chain");
    (digest(&snapshot).expect("a store"), tip)
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/recorded/chains/tiny").join(name)
}
