use proptest::prelude::*;

use super::*;
use crate::peer::peer_entry::{FIRST_BACKOFF, MAX_BACKOFF, MAX_REASON, PROVEN_AFTER};
use crate::peer::tests::address;

const LOCAL: usize = 999_999;

fn table() -> PeerTable {
    PeerTable::new(address(LOCAL), TableLimits::default())
}

/// Returns a description with this name.
fn named(name: &str) -> NodeInfo {
    let mut info = crate::peer::tests::info(0);
    info.identity.name = Some(name.to_owned());
    info
}

fn name(peer: &PeerEntry) -> &str {
    peer.info.identity.name.as_deref().expect("a name")
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Returns an address of a separate network for each number.
fn elsewhere(number: usize) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0800_0001 + ((number as u32) << 8)))
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn state(nodes: &PeerTable, node: usize) -> Option<State> {
    nodes.get(&address(node)).map(|node| node.state)
}

#[test]
fn listed_peers_are_known_at_once_and_active_after_an_answer() {
    let mut nodes = table();
    nodes.add_listed(address(1), named("listed"), seconds(0)).expect("space");
    assert_eq!(state(&nodes, 1), Some(State::Untried));
    assert_eq!(nodes.trust_candidates(), [address(1)]);
    assert!(nodes.may_be_contacted(&address(1), seconds(0)) && !nodes.is_active(&address(1)));
    nodes.record_introduction(address(1), ip("8.8.8.8"), named("answered"), seconds(5)).expect("space");
    let node = nodes.get(&address(1)).expect("a node");
    assert_eq!((node.state, name(node), node.last_contact), (State::Active, "answered", Some(seconds(5))));
    assert_eq!(node.ip, Some(ip("8.8.8.8")));
}

#[test]
fn the_local_node_is_never_in_the_peer_table() {
    let mut nodes = table();
    nodes.add_listed(address(LOCAL), named(""), seconds(0)).expect("space");
    assert_eq!(nodes.record_introduction(address(LOCAL), ip("8.8.8.8"), named(""), seconds(0)), Err(AddError::Local));
    assert!(nodes.is_empty() && !nodes.may_be_contacted(&address(LOCAL), seconds(0)));
    assert!(nodes.listed.contains(&address(LOCAL)));
    assert!(nodes.unproven.is_empty());
}

#[test]
fn a_peer_may_move_only_after_a_minute_without_an_answer_and_loses_its_history() {
    let mut nodes = table();
    nodes.record_introduction(address(1), ip("8.8.8.8"), named("here"), seconds(0)).expect("space");
    nodes.get_mut(&address(1)).expect("a node").synchronisations += 1;
    assert!(!nodes.may_move(&address(1), seconds(1_000)), "it has answered");
    for kind in [State::Busy, State::Inactive, State::Failure] {
        nodes.record_failure(&address(1), PeerError::new(kind, ""), seconds(1_000));
    }
    nodes.record_failure(&address(1), PeerError::new(State::Failure, ""), seconds(1_050));
    assert!(!nodes.may_move(&address(1), seconds(1_059)));
    assert!(nodes.may_move(&address(1), seconds(1_060)), "the first of its failures counts");
    nodes.record_move(address(1), ip("9.9.9.9"), named("there"), seconds(1_060)).expect("space");
    let node = nodes.get(&address(1)).expect("a node");
    assert_eq!((name(node), node.ip, node.synchronisations), ("there", Some(ip("9.9.9.9")), 0));
    assert!(node.last_failure.is_none() && !nodes.may_move(&address(1), seconds(9_000)));
    assert_eq!(
        nodes.dropped.iter().map(|dropped| (name(&dropped.node), dropped.reason)).collect::<Vec<_>>(),
        [("here", DropReason::Moved)]
    );
    // A peer that answers again stays, and so does a listed one.
    nodes.record_failure(&address(1), PeerError::new(State::Inactive, ""), seconds(2_000));
    nodes.record_introduction(address(1), ip("9.9.9.9"), named("there"), seconds(2_030)).expect("space");
    nodes.record_failure(&address(1), PeerError::new(State::Inactive, ""), seconds(2_050));
    assert!(!nodes.may_move(&address(1), seconds(2_100)));
    nodes.add_listed(address(1), named("listed"), seconds(0)).expect("space");
    assert!(!nodes.may_move(&address(1), seconds(9_000)));
    // A failure of an unknown peer adds nothing.
    nodes.record_failure(&address(2), PeerError::new(State::Failure, ""), seconds(4));
    assert_eq!(nodes.len(), 1);
}

#[test]
fn a_peer_found_unreachable_after_gossip_may_move_a_minute_later() {
    let mut nodes = table();
    nodes.record_introduction(address(1), ip("8.8.8.8"), named("here"), seconds(0)).expect("space");
    nodes.record_unreachable(&address(1), seconds(100));
    nodes.record_unreachable(&address(1), seconds(130));
    assert_eq!(state(&nodes, 1), Some(State::Active), "only a contact of this node's own decides on that");
    assert!(!nodes.may_move(&address(1), seconds(159)) && nodes.may_move(&address(1), seconds(160)));
    nodes.record_introduction(address(1), ip("8.8.8.8"), named("here"), seconds(161)).expect("space");
    assert!(!nodes.may_move(&address(1), seconds(1_000)));
}

#[test]
fn a_move_to_a_full_subnet_is_rejected() {
    let mut nodes = table();
    let per_address = TableLimits::default().per_address;
    (0..per_address).for_each(|node| {
        nodes.record_introduction(address(node), ip("8.8.8.8"), named(""), seconds(0)).expect("space")
    });
    nodes.record_introduction(address(99), ip("9.9.9.9"), named("here"), seconds(0)).expect("space");
    nodes.record_failure(&address(99), PeerError::new(State::Inactive, ""), seconds(1));
    assert_eq!(nodes.record_move(address(99), ip("8.8.8.8"), named("there"), seconds(100)), Err(AddError::SubnetFull));
    let node = nodes.get(&address(99)).expect("a node");
    assert_eq!((name(node), node.state, node.ip), ("here", State::Inactive, Some(ip("9.9.9.9"))));
}

#[test]
fn a_useful_message_makes_a_peer_active_if_it_has_ever_answered() {
    let mut nodes = table();
    nodes.add_listed(address(1), named("listed"), seconds(0)).expect("space");
    assert!(!nodes.record_alive(&address(1), seconds(1)) && !nodes.record_alive(&address(2), seconds(1)));
    assert_eq!((state(&nodes, 1), state(&nodes, 2)), (Some(State::Untried), None));
    nodes.record_introduction(address(1), ip("8.8.8.8"), named("listed"), seconds(2)).expect("space");
    nodes.record_failure(&address(1), PeerError::new(State::Inactive, ""), seconds(3));
    assert!(nodes.record_alive(&address(1), seconds(4)) && !nodes.record_alive(&address(1), seconds(5)));
    let node = nodes.get(&address(1)).expect("a node");
    assert_eq!((node.state, node.last_contact, node.failures), (State::Active, Some(seconds(5)), 0));
}

#[test]
fn the_backoff_of_a_failing_peer_doubles_from_a_minute_to_an_hour() {
    let mut nodes = table();
    nodes.record_introduction(address(1), ip("8.8.8.8"), named(""), seconds(0)).expect("space");
    let mut now = seconds(0);
    for minutes in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
        nodes.record_failure(&address(1), PeerError::new(State::Failure, "wrong"), now);
        let end = now + seconds(60 * minutes);
        let just_before = end - Duration::from_millis(1);
        assert!(!nodes.may_be_contacted(&address(1), just_before), "{minutes}");
        assert_eq!(nodes.due_for_recheck(just_before, 9), []);
        assert!(nodes.may_be_contacted(&address(1), end), "{minutes}");
        assert_eq!(nodes.due_for_recheck(end, 9), [address(1)]);
        now = end;
    }
    (0..100).for_each(|_| nodes.record_failure(&address(1), PeerError::new(State::Failure, "wrong"), now));
    assert!(nodes.may_be_contacted(&address(1), now + MAX_BACKOFF));
    // An answer resets the backoff.
    nodes.record_introduction(address(1), ip("8.8.8.8"), named(""), now).expect("space");
    nodes.record_failure(&address(1), PeerError::new(State::Inactive, "refused"), now);
    assert!(nodes.may_be_contacted(&address(1), now + FIRST_BACKOFF));
}

#[test]
fn busy_peers_may_be_contacted_at_any_time_and_are_rechecked() {
    let mut nodes = table();
    nodes.record_introduction(address(1), ip("8.8.8.8"), named(""), seconds(0)).expect("space");
    nodes.record_failure(&address(1), PeerError::new(State::Busy, "silent"), seconds(0));
    assert!(nodes.may_be_contacted(&address(1), seconds(0)));
    assert_eq!(nodes.due_for_recheck(seconds(59), 9), []);
    assert_eq!(nodes.due_for_recheck(seconds(60), 9), [address(1)]);
    assert_eq!(nodes.trust_candidates(), [address(1)]);
}

#[test]
fn an_active_peer_is_rechecked_five_minutes_after_its_last_introduction() {
    let mut nodes = table();
    nodes.record_introduction(address(1), ip("8.8.8.8"), named(""), seconds(10)).expect("space");
    // Its other messages do not tell its peers, and may be replayed by others.
    nodes.record_alive(&address(1), seconds(300));
    assert_eq!(nodes.due_for_recheck(seconds(309), 9), []);
    assert_eq!(nodes.due_for_recheck(seconds(310), 9), [address(1)]);
    nodes.record_introduction(address(1), ip("8.8.8.8"), named(""), seconds(310)).expect("space");
    assert_eq!(nodes.due_for_recheck(seconds(609), 9), []);
    nodes.record_move(address(1), ip("9.9.9.9"), named(""), seconds(400)).expect("space");
    assert_eq!(nodes.due_for_recheck(seconds(699), 9), []);
    assert_eq!(nodes.due_for_recheck(seconds(700), 9), [address(1)]);
}

#[test]
fn failed_peers_are_rechecked_before_active_ones() {
    let mut nodes = table();
    for node in 0..20 {
        nodes.record_introduction(address(node), elsewhere(node), named(""), seconds(0)).expect("space");
    }
    nodes.record_failure(&address(7), PeerError::new(State::Inactive, ""), seconds(500));
    let looked_at = nodes.due_for_recheck(seconds(560), 8);
    assert_eq!((looked_at.len(), looked_at[0]), (8, address(7)));
}

#[test]
fn active_peers_that_are_not_selected_get_a_sign_of_life_every_four_minutes() {
    let mut nodes = table();
    for node in 0..4 {
        nodes.record_introduction(address(node), elsewhere(node), named(""), seconds(node as u64)).expect("space");
    }
    nodes.record_failure(&address(3), PeerError::new(State::Inactive, ""), seconds(9));
    assert_eq!(nodes.due_for_sign_of_life(&[], seconds(239), 9), []);
    let mut due = nodes.due_for_sign_of_life(&[address(1)], seconds(240), 9);
    due.sort_unstable();
    let mut others = [address(0), address(2)];
    others.sort_unstable();
    assert_eq!(due, others, "one is drawn, and one is not active");
    assert_eq!(nodes.due_for_sign_of_life(&[address(1)], seconds(240), 1).len(), 1);
    nodes.get_mut(&address(0)).expect("a node").sign_sent_at = seconds(240);
    nodes.get_mut(&address(1)).expect("a node").sign_sent_at = seconds(250);
    assert_eq!(nodes.due_for_sign_of_life(&[], seconds(251), 9), [address(2)], "the only one that had none");
    nodes.get_mut(&address(2)).expect("a node").sign_sent_at = seconds(251);
    nodes.record_move(address(1), ip("9.9.9.9"), named(""), seconds(310)).expect("space");
    assert_eq!(nodes.due_for_sign_of_life(&[], seconds(311), 9), [address(1)], "it had none where it is now");
    nodes.get_mut(&address(1)).expect("a node").sign_sent_at = seconds(311);
    assert_eq!(nodes.due_for_sign_of_life(&[], seconds(479), 9), []);
    let in_turn = [address(0), address(2), address(1)];
    assert_eq!(nodes.due_for_sign_of_life(&[], seconds(551), 9), in_turn, "who has waited longest first");
}

#[test]
fn peers_of_one_network_do_not_delay_signs_of_life_to_others() {
    let mut nodes = table();
    for node in 0..6 {
        nodes.record_introduction(address(node), ip(&format!("66.1.1.{node}")), named(""), seconds(0)).expect("space");
    }
    nodes.record_introduction(address(7), ip("77.1.1.1"), named(""), seconds(0)).expect("space");
    nodes.get_mut(&address(7)).expect("a node").sign_sent_at = seconds(10);
    assert_eq!(nodes.due_for_sign_of_life(&[], seconds(300), 3)[2], address(7));
}

#[test]
fn peers_that_have_waited_longest_are_rechecked_first() {
    let mut nodes = table();
    for node in 0..5 {
        nodes.record_introduction(address(node), elsewhere(node), named(""), seconds(0)).expect("space");
        nodes.record_failure(&address(node), PeerError::new(State::Inactive, ""), seconds(10 - node as u64));
    }
    assert_eq!(nodes.due_for_recheck(seconds(1_000), 2), [address(4), address(3)]);
    assert_eq!(nodes.due_for_recheck(seconds(1_000), 0), []);
}

#[test]
fn peers_of_one_network_do_not_delay_rechecks_of_others() {
    let mut nodes = table();
    for node in 0..6 {
        nodes.record_introduction(address(node), ip(&format!("66.1.1.{node}")), named(""), seconds(0)).expect("space");
        nodes.record_failure(&address(node), PeerError::new(State::Inactive, ""), seconds(node as u64));
    }
    nodes.record_introduction(address(7), ip("77.1.1.1"), named(""), seconds(0)).expect("space");
    nodes.record_failure(&address(7), PeerError::new(State::Inactive, ""), seconds(50));
    let order = [0, 1, 7, 2, 3, 4, 5].map(address);
    assert_eq!(nodes.due_for_recheck(seconds(1_000), 9), order);
    assert_eq!(nodes.due_for_recheck(seconds(1_000), 3), order[..3]);
}

#[test]
fn a_sign_of_life_of_a_backed_off_peer_admits_one_probe_a_minute() {
    let mut nodes = table();
    nodes.record_introduction(address(1), ip("8.8.8.8"), named(""), seconds(0)).expect("space");
    assert!(!nodes.admit_sign_probe(&address(2), seconds(100)), "it is not known");
    assert!(nodes.admit_sign_probe(&address(1), seconds(30)) && !nodes.admit_sign_probe(&address(1), seconds(89)));
    nodes.record_failure(&address(1), PeerError::new(State::Failure, ""), seconds(100));
    assert!(!nodes.admit_sign_probe(&address(1), seconds(159)));
    assert!(nodes.admit_sign_probe(&address(1), seconds(160)));
    // It may have moved.
    assert!(!nodes.admit_sign_probe(&address(1), seconds(169)));
    assert!(nodes.admit_sign_probe(&address(1), seconds(170)));
    // A listed peer never moves.
    nodes.add_listed(address(1), named(""), seconds(0)).expect("space");
    assert!(!nodes.admit_sign_probe(&address(1), seconds(229)));
    assert!(nodes.admit_sign_probe(&address(1), seconds(230)));
}

#[test]
fn an_immediate_probe_needs_a_failed_contact_and_is_admitted_once_a_minute_per_host() {
    let mut nodes = table();
    nodes.record_introduction(address(1), ip("8.8.8.8"), named(""), seconds(0)).expect("space");
    let hosts = [ip("9.9.9.9"), ip("7.7.7.7")];
    let fail = |nodes: &mut PeerTable, at: u64| {
        nodes.record_failure(&address(1), PeerError::new(State::Inactive, ""), seconds(at));
        nodes.record_unreachable(&address(1), seconds(at));
    };
    fail(&mut nodes, 100);
    assert!(!nodes.admit_immediate_probe(&address(1), hosts[0], false, seconds(101)), "not yet");
    fail(&mut nodes, 160);
    assert!(!nodes.admit_immediate_probe(&address(1), hosts[0], false, seconds(170)), "it may be back");
    assert!(nodes.admit_immediate_probe(&address(1), hosts[0], false, seconds(169)));
    assert!(!nodes.admit_immediate_probe(&address(1), hosts[0], false, seconds(169)));
    assert!(nodes.admit_immediate_probe(&address(1), hosts[1], false, seconds(169)));
    // A peer that answers with an HTTP error is present.
    nodes.record_failure(&address(1), PeerError::new(State::Busy, "it is starting"), seconds(300));
    assert!(nodes.may_move(&address(1), seconds(301)) && !nodes.may_move_at_once(&address(1), seconds(301)));
    fail(&mut nodes, 400);
    assert!(nodes.admit_immediate_probe(&address(1), hosts[1], false, seconds(401)));
}

/// Prunes and returns the number of dropped peers.
fn prune(nodes: &mut PeerTable, now: Duration) -> usize {
    let before = nodes.len();
    nodes.prune(now);
    before - nodes.len()
}

#[test]
fn saved_peers_are_known_without_trust_until_they_answer() {
    let mut nodes = table();
    nodes.add_saved(address(1), Some(ip("8.8.8.8")), named("kept")).expect("space");
    assert_eq!((state(&nodes, 1), nodes.trust_candidates().len()), (Some(State::Untried), 0));
    nodes.record_failure(&address(1), PeerError::new(State::Busy, ""), seconds(1));
    assert!(nodes.trust_candidates().is_empty() && !nodes.record_alive(&address(1), seconds(2)));
    (0..9).for_each(|second| assert_eq!(prune(&mut nodes, seconds(second)), 0));
    assert_eq!(nodes.add_saved(address(1), None, named("again")), Ok(()));
    assert_eq!(nodes.get(&address(1)).map(|node| (name(node), node.is_listed)), Some(("kept", false)));
    nodes.record_introduction(address(1), ip("8.8.8.8"), named("met"), seconds(9)).expect("space");
    assert_eq!(nodes.trust_candidates(), [address(1)]);
}

#[test]
fn a_failed_peer_is_dropped_at_the_second_pruning_unless_it_answered() {
    let mut nodes = table();
    for node in 0..4 {
        nodes.record_introduction(address(node), elsewhere(node), named(""), seconds(0)).expect("space");
    }
    nodes.add_listed(address(3), named(""), seconds(0)).expect("space");
    for (node, kind) in [(0, State::Busy), (1, State::Inactive), (3, State::Failure)] {
        nodes.record_failure(&address(node), PeerError::new(kind, "why"), seconds(1));
    }
    assert_eq!(prune(&mut nodes, seconds(2)), 0);
    nodes.record_introduction(address(0), elsewhere(0), named(""), seconds(3)).expect("space");
    nodes.record_failure(&address(0), PeerError::new(State::Failure, "again"), seconds(4));
    assert_eq!(prune(&mut nodes, seconds(5)), 1);
    assert_eq!((0..4).map(|node| state(&nodes, node).is_some()).collect::<Vec<_>>(), [true, false, true, true]);
    assert_eq!(prune(&mut nodes, seconds(6)), 1);
    assert_eq!(prune(&mut nodes, seconds(7)), 0);
    let dropped: Vec<_> = nodes.dropped.iter().map(|dropped| (dropped.address, dropped.reason, dropped.at)).collect();
    assert_eq!(
        dropped,
        [(address(1), DropReason::Unresponsive, seconds(5)), (address(0), DropReason::Unresponsive, seconds(6))]
    );
    let last = nodes.dropped.iter().last().and_then(|dropped| dropped.node.last_failure.as_ref()).expect("a reason");
    assert_eq!((&last.error, last.at), (&PeerError::failure("again"), seconds(4)));
}

#[test]
fn a_dropped_peer_returns_as_a_new_one() {
    let mut nodes = table();
    nodes.record_introduction(address(1), ip("8.8.8.8"), named(""), seconds(0)).expect("space");
    nodes.record_failure(&address(1), PeerError::new(State::Failure, ""), seconds(0));
    [1, 1].into_iter().for_each(|second| nodes.prune(seconds(second)));
    assert!(nodes.may_be_contacted(&address(1), seconds(1)) && nodes.unproven.is_empty());
    nodes.record_introduction(address(1), ip("8.8.8.8"), named(""), seconds(2)).expect("space");
    assert_eq!(prune(&mut nodes, seconds(3)), 0);
    assert_eq!(state(&nodes, 1), Some(State::Active));
}

#[test]
fn failure_reasons_and_dropped_peers_are_limited() {
    let mut nodes = table();
    for node in 0..2 * MAX_DROPPED {
        nodes.record_introduction(address(node), elsewhere(node), named(""), seconds(0)).expect("space");
        nodes.record_failure(&address(node), PeerError::new(State::Failure, "ä".repeat(10_000)), seconds(0));
    }
    [1, 1].into_iter().for_each(|second| nodes.prune(seconds(second)));
    assert_eq!((nodes.len(), nodes.dropped.len()), (0, MAX_DROPPED));
    let reason = |dropped: &Dropped| dropped.node.last_failure.as_ref().map(|kind| kind.error.reason.chars().count());
    assert!(nodes.dropped.iter().all(|dropped| reason(dropped) == Some(MAX_REASON)));
}

#[test]
fn peers_are_limited_per_address_and_per_network() {
    let limits = TableLimits::default();
    // One address, a /64, a /24 and a /48, and an IPv4-mapped IPv6 address.
    let cases: [(&dyn Fn(usize) -> String, usize); 5] = [
        (&|_| "8.8.8.8".to_owned(), limits.per_address),
        (&|node| format!("2a01:db8:1:2:{node:x}::1"), limits.per_address),
        (&|node| format!("8.8.8.{}", node % 256), limits.per_network),
        (&|node| format!("2a01:db8:1:{node:x}::1"), limits.per_network),
        (&|node| if node % 2 == 0 { "8.8.8.8" } else { "::ffff:8.8.8.8" }.to_owned(), limits.per_address),
    ];
    for (place, limit) in cases {
        let mut nodes = table();
        for node in 0..100 {
            let outcome = nodes.record_introduction(address(node), ip(&place(node)), named(""), seconds(0));
            assert_eq!(outcome.is_ok(), node < limit, "{}: {outcome:?}", place(node));
        }
        assert_eq!(nodes.len(), limit);
        assert_eq!(nodes.record_introduction(address(999), ip("9.9.9.9"), named(""), seconds(0)), Ok(()));
    }
}

#[test]
fn private_addresses_have_a_higher_peer_limit() {
    let (mut nodes, limits) = (table(), TableLimits::default());
    let places = ["127.0.0.1", "10.1.2.3", "192.168.7.7", "169.254.1.1", "::1", "fd00::1", "fe80::1"];
    for node in 0..limits.private {
        nodes
            .record_introduction(address(node), ip(places[node % places.len()]), named(""), seconds(0))
            .expect("space");
    }
    assert_eq!(
        nodes.record_introduction(address(LOCAL - 1), ip("172.16.0.1"), named(""), seconds(0)),
        Err(AddError::SubnetFull)
    );
    assert_eq!(nodes.record_introduction(address(LOCAL - 1), ip("172.32.0.1"), named(""), seconds(0)), Ok(()));
}

#[test]
fn a_full_subnet_evicts_only_unreachable_peers() {
    let mut nodes = table();
    let limit = TableLimits::default().per_address;
    for node in 0..limit {
        nodes.record_introduction(address(node), ip("8.8.8.8"), named(""), seconds(node as u64)).expect("space");
    }
    nodes.record_failure(&address(3), PeerError::new(State::Inactive, ""), seconds(100));
    nodes.record_failure(&address(2), PeerError::new(State::Failure, ""), seconds(101));
    nodes.record_failure(&address(0), PeerError::new(State::Busy, ""), seconds(102));
    // The peer that answered longest ago is evicted first.
    nodes.record_introduction(address(100), ip("8.8.8.8"), named(""), seconds(103)).expect("space");
    assert_eq!((state(&nodes, 2), nodes.len()), (None, limit));
    nodes.record_introduction(address(101), ip("8.8.8.8"), named(""), seconds(104)).expect("space");
    assert_eq!((state(&nodes, 3), nodes.len()), (None, limit));
    assert_eq!(
        nodes.record_introduction(address(102), ip("8.8.8.8"), named(""), seconds(105)),
        Err(AddError::SubnetFull)
    );
    assert_eq!(nodes.dropped.iter().map(|dropped| dropped.reason).collect::<Vec<_>>(), [DropReason::Evicted; 2]);
}

/// Adds 1,008 peers at 126 addresses in 63 networks, whose addresses begin with `first`.
fn crowd(nodes: &mut PeerTable, first: u8, keys: usize, now: Duration) {
    for number in 0..1_008 {
        let (network, host) = ((number / 16) as u8, 1 + (number / 8 % 2) as u8);
        _ = nodes.record_introduction(address(keys + number), [first, network, 7, host].into(), named(""), now);
    }
}

#[test]
#[ignore = "slow: computes for long"]
fn a_newcomer_enters_a_full_table_for_an_unproven_peer_of_the_most_crowded_network() {
    let mut nodes = table();
    (0..20).for_each(|node| {
        nodes.record_introduction(address(node), elsewhere(node), named(""), seconds(0)).expect("space")
    });
    crowd(&mut nodes, 66, 1_000, seconds(10));
    assert_eq!(nodes.len(), TableLimits::default().unproven);
    assert!((0..20).all(|node| state(&nodes, node) == Some(State::Active)), "those of other networks stay");
    for newcomer in 20..300 {
        nodes.record_introduction(address(newcomer), elsewhere(newcomer), named(""), seconds(20)).expect("space");
        assert_eq!(state(&nodes, newcomer), Some(State::Active));
    }
    assert!((0..300).all(|node| state(&nodes, node) == Some(State::Active)));
    assert_eq!(nodes.len(), TableLimits::default().unproven);
    // As many of other networks as there are slots: those that were silent longest give way.
    (0..20).for_each(|node| _ = nodes.record_alive(&address(node), seconds(25)));
    (300..780).for_each(|node| {
        nodes.record_introduction(address(node), elsewhere(node), named(""), seconds(30)).expect("space")
    });
    assert!((0..20).chain(300..780).all(|node| state(&nodes, node) == Some(State::Active)));
}

#[test]
fn failures_as_a_sync_peer_count_for_a_network_except_for_its_listed_peers_and_those_that_delivered_blocks() {
    let mut nodes = table();
    nodes.add_listed(address(1), named(""), seconds(0)).expect("space");
    for node in 1..8 {
        let host = if node == 7 { "9.9.9.7".to_owned() } else { format!("8.8.8.{node}") };
        nodes.record_introduction(address(node), ip(&host), named(""), seconds(0)).expect("space");
    }
    nodes.record_delivery(&address(2), seconds(0));
    // Each failure is that of another peer.
    for (node, passed) in [(3, 5), (4, 10), (5, 20)] {
        nodes.back_off_from_sync_peer(&address(node), seconds(0), true, seconds(0));
        let retry_at = |node| nodes.sync_retry_at(nodes.get(&address(node)).expect("a peer"));
        assert_eq!([1, 2, 7].map(retry_at), [seconds(0); 3]);
        assert_eq!([3, 4, 5, 6].map(retry_at), [seconds(passed); 4]);
    }
    // Those that are exempt answer for themselves alone, and so does whoever brought nothing without a failure.
    for (node, has_failed) in [(1, true), (2, true), (7, false)] {
        nodes.back_off_from_sync_peer(&address(node), seconds(1), has_failed, seconds(0));
    }
    let retry_at = |node| nodes.sync_retry_at(nodes.get(&address(node)).expect("a peer"));
    assert_eq!([1, 2, 6, 7].map(retry_at), [5, 5, 20, 1].map(seconds));
    // A peer that delivers a block leaves its network's backoff behind.
    nodes.record_delivery(&address(6), seconds(2));
    let retry_at = |node| nodes.sync_retry_at(nodes.get(&address(node)).expect("a peer"));
    assert_eq!([3, 6].map(retry_at), [20, 0].map(seconds));
}

#[test]
fn the_backoff_of_a_network_that_ends_first_is_forgotten_for_another() {
    let mut nodes = table();
    for network in 0..MAX_NETWORK_BACKOFFS + 10 {
        let now = seconds(network as u64);
        nodes.record_introduction(address(network), elsewhere(network), named(""), now).expect("space");
        nodes.back_off_from_sync_peer(&address(network), now, true, now);
    }
    assert_eq!(nodes.network_backoffs.len(), MAX_NETWORK_BACKOFFS);
    assert!(!nodes.network_backoffs.contains_key(&site(elsewhere(9))));
    assert!(nodes.network_backoffs.contains_key(&site(elsewhere(10))));
}

#[test]
#[ignore = "slow: computes for long"]
fn peers_that_have_delivered_blocks_or_answered_for_a_day_keep_half_of_the_table() {
    let mut nodes = table();
    let day = PROVEN_AFTER.as_secs();
    for node in 0..500 {
        nodes.record_introduction(address(node), elsewhere(node), named(""), seconds(0)).expect("space");
        if node < 250 {
            nodes.record_delivery(&address(node), seconds(1))
        } else {
            _ = nodes.record_alive(&address(node), seconds(day))
        }
    }
    (0..2).for_each(|round| crowd(&mut nodes, 66 + round, 1_000 + 2_000 * usize::from(round), seconds(day + 1)));
    assert_eq!((nodes.len(), nodes.proven.len()), (1_000, 500));
    assert!((0..500).all(|node| state(&nodes, node) == Some(State::Active)));
    // Those that become proven in great numbers evict each other.
    crowd(&mut nodes, 77, 20_000, seconds(day + 2));
    (20_000..21_008).for_each(|node| _ = nodes.record_alive(&address(node), seconds(2 * day + 2)));
    (0..500).for_each(|node| _ = nodes.record_alive(&address(node), seconds(2 * day + 3)));
    crowd(&mut nodes, 78, 22_000, seconds(2 * day + 3));
    assert_eq!((nodes.len(), nodes.unproven.len()), (1_000, 500));
    assert!((0..500).all(|node| state(&nodes, node) == Some(State::Active)), "they are one of a network");
}

#[test]
fn only_a_peer_that_answers_all_day_is_proven() {
    let mut nodes = table();
    let is_proven = |nodes: &PeerTable| nodes.get(&address(1)).is_some_and(PeerEntry::is_proven);
    let fail =
        |nodes: &mut PeerTable, at| nodes.record_failure(&address(1), PeerError::new(State::Inactive, ""), seconds(at));
    let day = PROVEN_AFTER.as_secs();
    nodes.record_introduction(address(1), ip("8.8.8.8"), named(""), seconds(100)).expect("space");
    // A single failure, such as during a restart, is nothing.
    fail(&mut nodes, 1_000);
    nodes.record_alive(&address(1), seconds(day + 99));
    assert!(!is_proven(&nodes));
    nodes.record_alive(&address(1), seconds(day + 100));
    assert!(is_proven(&nodes));
    (1..3).for_each(|failure| fail(&mut nodes, day + 200 * failure));
    assert!(!is_proven(&nodes));
    nodes.record_alive(&address(1), seconds(day + 1_000));
    nodes.record_alive(&address(1), seconds(2 * day + 999));
    assert!(!is_proven(&nodes));
    nodes.record_delivery(&address(1), seconds(2 * day + 999));
    assert!(is_proven(&nodes));
    // At another endpoint it begins anew.
    (0..9).for_each(|failure| fail(&mut nodes, 3 * day + 200 * failure));
    nodes.record_move(address(1), ip("9.9.9.9"), named(""), seconds(4 * day)).expect("space");
    assert!(!is_proven(&nodes));
}

#[test]
fn a_full_table_has_room_for_listed_peers() {
    let mut nodes = PeerTable::new(address(LOCAL), TableLimits { nodes: 10, unproven: 5, ..TableLimits::default() });
    (1..9).for_each(|node| {
        nodes.record_introduction(address(node), elsewhere(node), named(""), seconds(0)).expect("space")
    });
    assert_eq!(nodes.len(), 5);
    (11..21).for_each(|node| nodes.add_listed(address(node), named(""), seconds(1)).expect("space"));
    assert_eq!((nodes.len(), nodes.listed.len()), (10, 10));
    assert_eq!(nodes.add_listed(address(21), named(""), seconds(2)), Err(AddError::Full));
    assert_eq!(nodes.record_introduction(address(22), elsewhere(22), named(""), seconds(2)), Err(AddError::Full));
}

#[test]
fn silent_active_peers_are_pinged_in_turn_and_again_after_an_interval() {
    let mut nodes = table();
    for node in 0..6 {
        nodes.record_introduction(address(node), ip(&format!("66.1.1.{node}")), named(""), seconds(0)).expect("space");
    }
    nodes.record_introduction(address(7), ip("77.1.1.1"), named(""), seconds(3)).expect("space");
    nodes.record_failure(&address(0), PeerError::new(State::Inactive, ""), seconds(1));
    let silent = PING_AFTER.as_secs();
    assert_eq!(nodes.due_for_ping(seconds(silent - 1), 9), []);
    assert_eq!(nodes.due_for_ping(seconds(silent + 3), 3)[2], address(7), "one network does not delay the others");
    assert_eq!(nodes.due_for_ping(seconds(silent + 3), 9).len(), 3);
    assert_eq!(nodes.due_for_ping(seconds(silent + 4), 9), []);
    nodes.record_alive(&address(7), seconds(silent + 5));
    assert_eq!(nodes.due_for_ping(seconds(2 * silent + 3), 9).len(), 5);
}

#[test]
fn a_moved_peer_counts_in_its_new_subnet_and_stays_if_that_is_full() {
    let mut nodes = table();
    let limit = TableLimits::default().per_address;
    for node in 0..limit {
        nodes.record_introduction(address(node), ip("8.8.8.8"), named(""), seconds(0)).expect("space");
    }
    nodes.record_introduction(address(100), ip("9.9.9.9"), named("before"), seconds(0)).expect("space");
    nodes.record_failure(&address(100), PeerError::new(State::Failure, ""), seconds(1));
    assert_eq!(
        nodes.record_introduction(address(100), ip("8.8.8.8"), named("after"), seconds(2)),
        Err(AddError::SubnetFull)
    );
    let node = nodes.get(&address(100)).expect("a node");
    assert_eq!((node.state, name(node), node.ip), (State::Active, "before", Some(ip("9.9.9.9"))));
    // A peer that moves frees its slot; one that keeps its address needs none.
    nodes.record_introduction(address(0), ip("9.9.9.9"), named(""), seconds(3)).expect("space");
    nodes.record_introduction(address(1), ip("8.8.8.8"), named(""), seconds(3)).expect("space");
    nodes.record_introduction(address(100), ip("8.8.8.8"), named("after"), seconds(4)).expect("space");
    assert_eq!(name(nodes.get(&address(100)).expect("a node")), "after");
}

#[test]
fn listed_peers_do_not_count_towards_subnet_limits() {
    let mut nodes = table();
    for node in 0..100 {
        nodes.add_listed(address(node), named(""), seconds(0)).expect("space");
        nodes.record_introduction(address(node), ip("8.8.8.8"), named(""), seconds(0)).expect("space");
    }
    assert!(nodes.unproven.is_empty());
    nodes.record_introduction(address(100), ip("8.8.8.8"), named(""), seconds(0)).expect("space");
    assert_eq!(nodes.unproven.len(), 1);
    // A peer that becomes listed is no longer counted.
    nodes.add_listed(address(100), named(""), seconds(0)).expect("space");
    assert!(nodes.unproven.is_empty());
}

#[test]
fn trust_candidates_are_active_then_busy_then_untried_peers() {
    let mut nodes = table();
    for node in 0..4 {
        nodes.record_introduction(address(node), elsewhere(node), named(""), seconds(0)).expect("space");
    }
    nodes.add_listed(address(4), named(""), seconds(0)).expect("space");
    nodes.record_failure(&address(0), PeerError::new(State::Busy, ""), seconds(0));
    nodes.record_failure(&address(1), PeerError::new(State::Inactive, ""), seconds(0));
    let mut active = [address(2), address(3)];
    active.sort_unstable();
    assert_eq!(nodes.trust_candidates(), [active[0], active[1], address(0), address(4)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_events_exceed_no_limit_and_keep_subnet_counts_right(
        events in prop::collection::vec((0..6_u8, 0..40_usize, 0..6_u8, 0..3_u8), 0..400),
    ) {
        let limits = TableLimits { nodes: 12, unproven: 6, per_address: 2, per_network: 4, private: 3 };
        let mut nodes = PeerTable::new(address(LOCAL), limits);
        for (time, (event, node, host, network)) in events.into_iter().enumerate() {
            let (now, node) = (seconds(60 * time as u64), address(node));
            let place = match network {
                0 => IpAddr::from([10, 0, 0, host]),
                1 => IpAddr::from([8, 8, host / 3, host]),
                _ => IpAddr::from([0x2001, 0xdb8f, 1, u16::from(host / 2), 0, 0, 0, u16::from(host)]),
            };
            match event {
                0 | 1 => _ = nodes.record_introduction(node, place, named(""), now),
                2 if nodes.may_move(&node, now) => _ = nodes.record_move(node, place, named(""), now),
                3 => nodes.record_failure(&node, PeerError::new(if host == 0 { State::Busy } else { State::Inactive }, ""), now),
                4 if network == 0 && host == 0 => _ = nodes.add_listed(node, named(""), now),
                4 => nodes.prune(now),
                5 if host == 0 => nodes.record_delivery(&node, now),
                _ => _ = nodes.admit_sign_probe(&node, now),
            }
            prop_assert!(nodes.len() <= limits.nodes);
            let mut counted = BTreeMap::new();
            for (_, node) in nodes.iter().filter(|(_, node)| !node.is_listed) {
                let ip = node.ip.expect("a stranger has answered somewhere");
                nodes.limits.groups(ip).for_each(|group| *counted.entry(group).or_insert(0) += 1);
            }
            prop_assert!(counted.iter().all(|((_, limit), count)| count <= limit));
            let others = nodes.iter().filter(|(_, node)| !node.is_listed);
            let (proven, unproven): (Vec<_>, Vec<_>) = others.partition(|(_, node)| node.is_proven());
            prop_assert_eq!((proven.len(), unproven.len()), (nodes.proven.len(), nodes.unproven.len()));
            prop_assert!(unproven.len() <= limits.unproven);
            prop_assert!(nodes.listed.iter().all(|node| nodes.get(node).is_some()));
        }
    }
}
