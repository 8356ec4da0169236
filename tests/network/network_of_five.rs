//! Nodes as processes with the same list of peers: they make blocks together, and each is killed once.

use std::collections::BTreeSet;

use crate::common::daemon::wait_for;
use crate::common::node_network::{Member, loopback, network, payer, stop_and_compare};
use crate::common::print_notice;
use crate::common::private_network::{address, key_pair, now, transfer};
use nisd::model::Amount;

/// Together they make a block every two seconds at first.
const BLOCKS_PER_MINUTE: u64 = 30;
/// Number of paying accounts.
const PAYERS: u64 = 2;

/// Waits until all nodes have the same block one above the first node's present height.
fn wait_for_one_chain(members: &[Member]) {
    let height = members[0].height() + 1;
    wait_for("one chain", || {
        let blocks: Vec<_> = members.iter().map(|member| member.block(height)).collect();
        blocks.iter().all(|block| *block == blocks[0]).then_some(())
    });
}

/// Announces a payment at each node and waits until all nodes have confirmed it.
fn pay_at_each_node(members: &[Member]) {
    let payments = (0..).zip(members).map(|(number, member): (u64, _)| {
        let from = key_pair(payer(number % PAYERS));
        let payment = transfer(&from, address(&key_pair(9)), Amount(1_000_000 + number), Amount(500_000), now());
        member.announce(&payment);
        payment
    });
    for payment in payments.collect::<Vec<_>>() {
        for member in members {
            wait_for("the payment", || member.has_confirmed(&payment).then_some(()));
        }
    }
}

#[test]
fn five_nodes_of_one_peer_list_make_one_chain_though_each_is_killed_once() {
    let mut members = network(&[2, 3, 4, 5, 6].map(loopback), 5, BLOCKS_PER_MINUTE, PAYERS);
    members[..2].iter_mut().for_each(Member::start);
    members[1].block(3);
    wait_for_one_chain(&members[..2]);
    members[2..].iter_mut().for_each(Member::start);
    pay_at_each_node(&members);
    for number in 0..members.len() {
        members[number].kill();
        let others = if number == 0 { &members[1] } else { &members[0] };
        others.block(others.height() + 1);
        members[number].start();
    }
    wait_for_one_chain(&members);
    pay_at_each_node(&members);
    let harvesters = harvesters(&members[0]);
    let (height, digest) = stop_and_compare(&mut members);
    print_notice(&format!(
        "five nodes, {} of which have made blocks: height {height}, digest {digest}",
        harvesters.len()
    ));
    assert!(harvesters.len() >= 2, "they harvest together: {harvesters:?}");
}

/// Returns the keys that harvested the blocks of a chain.
fn harvesters(member: &Member) -> BTreeSet<String> {
    let signer = |height| member.block(height)["signer"].as_str().expect("a key").to_owned();
    (2..=member.height()).map(signer).collect()
}
