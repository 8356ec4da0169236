//! A harvesting node in virtual time whose store fails at chosen moments. The test answers in the place of the helper
//! process that waits for the disk.

use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::load_settings;
use crate::common::node_network::announcement;
use crate::common::private_network::{Genesis, TOTAL, address, key_pair, private_key, transfer};
use crate::common::recorded_chain::import_list;
use crate::common::simulated_node::SimulatedNode;
use nisd::model::{Amount, Timestamp};
use nisd::store::{ChainIdentity, Options, Store, SyncFile};
use serde_json::Value;

const START: Timestamp = Timestamp(300_000_000);
const SECOND: Duration = Duration::from_secs(1);

/// A node, its store, and whether reads of the store fail.
struct Scene<'s> {
    node: SimulatedNode<'s>,
    store: &'s Store,
    reads_fail: Arc<AtomicBool>,
}

impl Scene<'_> {
    fn get(&mut self, path: &str) -> Value {
        let answer = self.node.get(path);
        assert_eq!(answer.status, 200, "{path}");
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    fn height(&mut self) -> u64 {
        self.get("/chain/height")["height"].as_u64().expect("a height")
    }

    /// Runs the node until it needs a file on the disk.
    fn next_sync(&mut self) -> SyncFile {
        for _ in 0..60 {
            if let Some(file) = self.store.durability().next_sync() {
                return file;
            }
            self.node.run_for(SECOND);
        }
        panic!("nothing is to be synchronised");
    }

    /// Makes the store synchronise what it needs.
    fn sync(&mut self, files: &[SyncFile]) {
        for file in files {
            assert_eq!(self.next_sync(), *file);
            self.store.durability().on_synced(Ok(()));
        }
    }

    /// Runs the node for a while, then announces a transaction and lets the block with it wait for the disk. Returns its
    /// hash.
    fn commit_a_transaction(&mut self) -> String {
        self.node.run_for(20 * SECOND);
        self.store.durability().set_helper(true);
        let (amount, time) = (Amount::whole(5), Timestamp(self.node.time().0 - 5));
        let payment = transfer(&key_pair(2), address(&key_pair(3)), amount, Amount::whole(1), time);
        let answer = self.node.post("/transaction/announce", &announcement(&payment));
        assert!(String::from_utf8_lossy(&answer.body).contains("SUCCESS"));
        self.node.run_for(20 * SECOND);
        assert!(self.store.durability().has_unsynced_commit());
        payment.hash().to_string()
    }

    /// Checks what the node shows of the transaction.
    fn expect_status(&mut self, hash: &str, status: &str) {
        assert_eq!(self.get(&format!("/transaction/status?hash={hash}"))["status"], status);
        let path = format!("/account/unconfirmedTransactions?address={}", address(&key_pair(3)));
        let waiting = self.get(&path)["data"].as_array().map_or(0, Vec::len);
        assert_eq!(waiting, usize::from(status == "unconfirmed"), "{status}");
    }
}

/// Runs a test on a node whose network makes a block every second.
fn with_scene(test: impl FnOnce(&mut Scene<'_>)) {
    let folder = tempfile::tempdir().expect("a folder");
    let genesis = Genesis::new(START, &[1, 2].map(|number| (address(&key_pair(number)), Amount::whole(TOTAL / 2))));
    let config = genesis.write_hasty(folder.path(), &private_key(1).printed(), &[]);
    let settings = load_settings(Some(&config), &[]);
    let store = Store::open(&folder.path().join("s"), &ChainIdentity::of(&settings.network), Options::default());
    let (mut store, reads_fail) = (store.expect("a store"), Arc::new(AtomicBool::new(false)));
    import_list(&store, &settings.network, &genesis.block, []);
    store.set_interrupt_flag(reads_fail.clone());
    store.durability().sync().expect("a disk");
    let node = SimulatedNode::start(&store, &settings, START);
    test(&mut Scene { node, store: &store, reads_fail });
}

#[test]
fn what_follows_a_commit_happens_although_reads_fail_at_that_moment() {
    with_scene(|scene| {
        let hash = scene.commit_a_transaction();
        let height = scene.height();
        scene.expect_status(&hash, "unconfirmed");
        scene.sync(&[SyncFile::Data, SyncFile::Record]);
        scene.reads_fail.store(true, Ordering::Relaxed);
        scene.node.tick(Duration::ZERO);
        assert_eq!(scene.height(), height + 1);
        scene.node.run_for(SECOND);
        scene.reads_fail.store(false, Ordering::Relaxed);
        // No other block follows: nothing else is synchronised.
        scene.node.run_for(30 * SECOND);
        assert_eq!(scene.height(), height + 1);
        assert_eq!(scene.get("/chain/last-block")["height"], height + 1);
        scene.expect_status(&hash, "confirmed");
    });
}

#[test]
fn a_block_whose_record_fails_is_not_shown_until_it_is_durable_and_everything_follows_then() {
    for failures in 1..=4 {
        with_scene(|scene| {
            let hash = scene.commit_a_transaction();
            let height = scene.height();
            for _ in 0..failures {
                scene.sync(&[SyncFile::Data]);
                assert_eq!(scene.next_sync(), SyncFile::Record);
                scene.store.durability().on_synced(Err(Error::from(ErrorKind::StorageFull)));
                scene.node.run_for(SECOND / 20);
                assert_eq!(scene.height(), height);
                assert_eq!(scene.get("/chain/last-block")["height"], height);
                scene.expect_status(&hash, "unconfirmed");
            }
            scene.sync(&[SyncFile::Data, SyncFile::Record]);
            scene.node.run_for(SECOND);
            assert_eq!(scene.get("/chain/last-block")["height"], height + 1);
            scene.expect_status(&hash, "confirmed");
            assert!(scene.store.failure().is_none());
        });
    }
}

#[test]
fn a_block_that_the_disk_rejects_is_never_shown() {
    with_scene(|scene| {
        let hash = scene.commit_a_transaction();
        let height = scene.height();
        assert_eq!(scene.next_sync(), SyncFile::Data);
        scene.store.durability().on_synced(Err(Error::from(ErrorKind::StorageFull)));
        assert!(scene.store.failure().is_some(), "the process ends");
        scene.node.run_for(30 * SECOND);
        assert_eq!(scene.get("/chain/last-block")["height"], height);
        assert_eq!(scene.height(), height);
        scene.expect_status(&hash, "unconfirmed");
    });
}
