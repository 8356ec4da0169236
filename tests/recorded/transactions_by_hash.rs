//! Looks up the transactions of a year-old chain by hash at a running node.

use std::path::Path;

use crate::common::data_folder::{ChainFiles, DataFolder};
use crate::common::http::Client;
use crate::common::recorded_chain::Chain;
use nisd::model::{Block, Hash256};

/// Requests all hashes of a node's chain; returns the numbers of found and unknown transactions.
fn look_up(chain: &ChainFiles, data: &Path, hashes: &[(u64, Hash256)], forgets: bool) -> (usize, usize) {
    let node = chain.node(data, &["--clock", "38109500", "--set", &format!("nisd.forgetHashes={forgets}")]);
    let mut client = Client::connect(node.http);
    let (mut found, mut unknown) = (0, 0);
    for (height, hash) in hashes {
        let answer = client.get(&format!("/transaction/get?hash={hash}"));
        match answer.status {
            200 => {
                assert_eq!(answer.json()["meta"]["height"], *height);
                assert_eq!(answer.json()["meta"]["hash"]["data"], hash.to_string());
                found += 1;
            }
            status => {
                assert_eq!((status, &answer.json()["message"]), (400, &"Hash was not found in cache".into()));
                unknown += 1;
            }
        }
    }
    (found, unknown)
}

#[test]
fn every_transaction_of_one_year_is_found_unless_hashes_are_pruned() {
    let chain = ChainFiles::of("one-year");
    let folder = DataFolder::full(&chain);
    let of_block = |block: &Block| -> Vec<(u64, Hash256)> {
        block.transactions.iter().map(|transaction| (block.height.0, transaction.hash())).collect()
    };
    let hashes: Vec<_> = Chain::open("one-year").blocks().iter().flat_map(of_block).collect();
    assert!(hashes.len() > 1000);
    assert_eq!(look_up(&chain, &folder.path(), &hashes, false), (hashes.len(), 0));
    // NIS1 still knows only the recent part.
    let (found, unknown) = look_up(&chain, &folder.path(), &hashes, true);
    assert!(found > 0 && unknown > hashes.len() / 4, "{found} found, {unknown} unknown");
}
