//! Nodes as processes that form one network: they find each other, share one chain, and relay what one of them
//! receives. All use one address, because a node is contacted at the address its requests come from.

use crate::common::daemon::wait_for;
use crate::common::node_network::{Member, loopback, network, payer};
use crate::common::private_network::{address, key_pair, now, transfer};
use nisd::model::Amount;

#[test]
fn nodes_find_each_other_share_one_chain_and_relay_transactions_despite_restarts() {
    // Only the first harvests. It knows no peers, and the others know only it.
    let mut members = network(&[1; 3].map(loopback), 1, 60, 1);
    members[0].set_peers([]);
    members[1..].iter().for_each(|member| member.set_peers(&members[..1]));
    members.iter_mut().for_each(Member::start);
    let expected = members[0].block(8);
    for member in &members {
        assert_eq!(member.block(8), expected);
        wait_for("two others", || (member.active_peers() == 2).then_some(()));
    }

    let payment = transfer(&key_pair(payer(0)), address(&key_pair(9)), Amount(1_000_000), Amount(500_000), now());
    members[2].announce(&payment);
    for member in &members {
        wait_for("the transaction", || member.has_confirmed(&payment).then_some(()));
    }

    for number in [1, 0] {
        members[number].kill();
        members[number].start();
        let height = members[number].height() + 3;
        let blocks: Vec<_> = members.iter().map(|member| member.block(height)).collect();
        assert!(blocks.iter().all(|block| *block == blocks[0]), "{blocks:?}");
    }
    members.iter_mut().for_each(Member::stop);
}
