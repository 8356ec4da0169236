//! Nodes as processes with the same list of peers: they make blocks together, and each is killed once.

use std::collections::BTreeSet;

use nisd::model::Amount;

use crate::common::daemon::wait_for;
use crate::common::node_network::{Member, network};
use crate::common::print_notice;
use crate::common::private_network::{TOTAL, address, key_pair, now, transfer};

/// Key numbers of the nodes and of the paying accounts.
const NODES: [u64; 5] = [1, 2, 3, 4, 5];
const PAYERS: [u64; 2] = [6, 7];
/// Together the nodes make a block every two seconds at first, later every ten seconds if they need not be faster.
const BLOCKS_PER_MINUTE: u64 = 30;

/// Lays out the nodes, which know each other.
fn new_network() -> Vec<Member> {
    let (share, payment) = (TOTAL / 5 - 10_000, 25_000);
    let balance = |number: u64| match number {
        1 => TOTAL - 4 * share - 2 * payment,
        2..=5 => share,
        _ => payment,
    };
    let funded: Vec<_> = NODES.iter().chain(&PAYERS).map(|number| (*number, balance(*number))).collect();
    network(&NODES, &funded, BLOCKS_PER_MINUTE)
}

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
    let payments = PAYERS.iter().cycle().zip(1_000_000..).zip(members).map(|((payer, amount), member)| {
        let payment = transfer(&key_pair(*payer), address(&key_pair(9)), Amount(amount), Amount(500_000), now());
        member.announce(&payment);
        payment
    });
    for payment in payments.collect::<Vec<_>>() {
        members.iter().for_each(|member| member.confirm(&payment));
    }
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn five_nodes_of_one_peer_list_make_one_chain_though_each_is_killed_once() {
    let mut members = new_network();
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

/// Stops all nodes and checks that they have the same state after the last block that all of them have: of two blocks of
/// equal worth, the next one decides. Returns the height and the digest.
fn stop_and_compare(members: &mut [Member]) -> (u64, String) {
    members.iter_mut().for_each(Member::stop);
    let lowest = members.iter().map(|member| member.folder.digest().0).min().expect("a node");
    let block = |member: &Member, height: u64| {
        let height = height.to_string();
        member.folder.run("export", &["--from", &height, "--to", &height, "--output", "-"]).expect_success().stdout
    };
    let is_common = |height: &u64| {
        let blocks: BTreeSet<_> = members.iter().map(|member| block(member, *height)).collect();
        blocks.len() == 1
    };
    let common = (2..=lowest).rev().find(is_common).expect("a block that all have");
    for member in members.iter().filter(|member| member.folder.digest().0 > common) {
        member.folder.run("rollback", &["--to", &common.to_string()]).expect_success();
    }
    let digests: Vec<_> = members.iter().map(|member| member.folder.digest()).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
    digests.into_iter().next().expect("a node")
}
