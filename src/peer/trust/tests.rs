use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use proptest::prelude::*;

use super::MAX_MEMBERS;
use super::*;
use crate::model::Address;
use crate::peer::peer_entry::PeerError;
use crate::peer::peer_entry::State;
use crate::peer::peer_table::{PeerTable, TableLimits};
use crate::peer::tests::info;
use crate::peer::tests::{address, seeded};

const SECOND: Duration = Duration::from_secs(1);
const NOW: Duration = Duration::from_secs(100_000);
const LOCAL: usize = 999_999;

fn addresses(numbers: std::ops::Range<usize>) -> Vec<Address> {
    numbers.map(address).collect()
}

fn list_of(numbers: std::ops::Range<usize>) -> BTreeSet<Address> {
    numbers.map(address).collect()
}

/// Returns members of which the first `listed` are listed.
fn members(others: usize, listed: usize, seed: u64) -> Members {
    let list = list_of(0..listed);
    Members::choose(addresses(0..others), address(LOCAL), &list, &TrustValues::default(), &mut seeded(seed))
}

fn calculate(members: Members, experiences: &Experiences, rows: usize) -> TrustValues {
    let mut calculation = Calculation::new(members);
    loop {
        if let Some(values) = calculation.advance(experiences, rows) {
            return values;
        }
    }
}

fn is_due(trust: &Trust, others: &[Address], now: Duration) -> bool {
    trust.due_members(others.len(), || others.to_vec(), now).is_some()
}

/// Returns a table whose first peers are listed, and whose active ones have addresses of separate networks.
fn nodes(all: usize, listed: usize, active: &[usize]) -> PeerTable {
    let mut nodes = PeerTable::new(address(LOCAL), TableLimits::default());
    (0..listed).for_each(|node| nodes.add_listed(address(node), info(node), Duration::ZERO).expect("space"));
    for node in active.iter().copied().chain(listed..all) {
        let ip = IpAddr::V4(Ipv4Addr::from_bits(0x0808_0000 + ((node as u32) << 8)));
        nodes.record_introduction(address(node), ip, info(node), Duration::ZERO).expect("space");
    }
    for node in (listed..all).filter(|node| !active.contains(node)) {
        nodes.record_failure(&address(node), PeerError::new(State::Inactive, ""), Duration::ZERO);
    }
    nodes
}

fn equal_trust(count: usize) -> TrustValues {
    let mut all = addresses(0..count);
    all.push(address(LOCAL));
    TrustValues::new(&all, &vec![1.0 / all.len() as f64; all.len()])
}

#[test]
fn a_node_alone_trusts_itself() {
    let values = calculate(members(0, 0, 1), &Experiences::new(address(LOCAL)), 1);
    assert_eq!(values.iter().collect::<Vec<_>>(), [(&address(LOCAL), 1.0)]);
}

#[test]
fn useful_peers_are_trusted_more_than_useless_ones() {
    let mut experiences = Experiences::new(address(LOCAL));
    // All have about the same experiences with each other.
    let of_use = [30, 20, 10, 0];
    for (node, successes) in of_use.into_iter().enumerate() {
        (0..successes).for_each(|_| experiences.succeeded(address(node), NOW));
        (0..30 - successes).for_each(|_| experiences.failed(address(node), NOW));
        let pair = |other: usize| (address(other), Experience::new(of_use[other], 30 - of_use[other]));
        let pairs: Vec<_> = (0..4).filter(|other| *other != node).map(pair).collect();
        assert!(experiences.receive(address(node), &pairs, NOW));
    }
    let values = calculate(members(4, 4, 1), &experiences, 1);
    let trust: Vec<_> = (0..4).map(|node| values.of(&address(node)).expect("a value")).collect();
    assert!(trust.is_sorted_by(|one, other| one > other) && trust[0] > 4.0 * trust[3], "{trust:?}");
    assert_eq!(values.of(&address(4)), None);
}

#[test]
fn peers_whose_experiences_contradict_the_others_have_no_influence() {
    // The last node fails everybody. Nodes 3 and 4 report this, or praise it and report failures of all others.
    let trust = |do_lie: bool| {
        let mut experiences = Experiences::new(address(LOCAL));
        for node in 0..6 {
            let praises = |other| (other < 5) != (do_lie && (node == 3 || node == 4));
            let experience = |other| if praises(other) { Experience::new(50, 0) } else { Experience::new(0, 50) };
            let others = (0..6).filter(|other| *other != node);
            let pairs: Vec<_> = others.map(|other| (address(other), experience(other))).collect();
            assert!(experiences.receive(address(node), &pairs, NOW));
            for _ in 0..50 {
                if node < 5 {
                    experiences.succeeded(address(node), NOW);
                } else {
                    experiences.failed(address(node), NOW);
                }
            }
        }
        let values = calculate(members(6, 3, 1), &experiences, 1);
        (0..6).map(|node| values.of(&address(node)).expect("a value")).collect::<Vec<_>>()
    };
    let (honest, lying) = (trust(false), trust(true));
    assert!(honest[..5].iter().all(|trust| *trust > 0.1) && honest[5] == 0.0, "{honest:?}");
    assert!(lying[..3].iter().all(|trust| *trust > 0.1) && lying[3..] == [0.0; 3], "{lying:?}");
}

#[test]
fn self_reported_experiences_do_not_affect_trust() {
    let trust = |does_praise_itself: bool| {
        let mut experiences = Experiences::new(address(LOCAL));
        let good_and_bad = [(address(1), Experience::new(10, 10)), (address(2), Experience::new(20, 0))];
        assert!(experiences.receive(address(0), &good_and_bad, NOW));
        // It passes on no trust, so only the trust in it could change.
        let bad = [(address(0), Experience::new(0, 20)), (address(2), Experience::new(0, 20))];
        assert!(experiences.receive(address(1), &bad, NOW));
        if does_praise_itself {
            assert!(experiences.receive(address(1), &[(address(1), Experience::new(20, 0))], NOW));
        }
        let values = calculate(members(3, 1, 1), &experiences, 1);
        values.iter().map(|(_, trust)| trust).collect::<Vec<_>>()
    };
    assert_eq!(trust(false), trust(true));
}

#[test]
fn little_known_peers_share_30_of_130_parts_of_the_trust() {
    let mut experiences = Experiences::new(address(LOCAL));
    // The first is known well, the second just not; this node has no calls with itself.
    (0..10).for_each(|_| experiences.succeeded(address(0), NOW));
    (0..9).for_each(|_| experiences.failed(address(1), NOW));
    let values = calculate(members(2, 1, 1), &experiences, 1);
    let [well, hardly] = [0, 1].map(|node| values.of(&address(node)).expect("a value"));
    assert!((hardly - 0.15 / 1.3).abs() < 1e-12, "{hardly}");
    assert!((well - 1.0 / 1.3).abs() < 1e-12, "{well}");
}

#[test]
fn well_known_peers_are_trusted_without_listed_peers() {
    let mut experiences = Experiences::new(address(LOCAL));
    (0..50).for_each(|_| experiences.succeeded(address(0), NOW));
    for list in [list_of(0..0), list_of(500..510)] {
        let none = TrustValues::default();
        let members = Members::choose(addresses(0..3), address(LOCAL), &list, &none, &mut seeded(1));
        let values = calculate(members, &experiences, 1);
        // A quarter, before unknown nodes and this one get their shares of 0.1 each.
        let trust = values.of(&address(0)).expect("a value");
        assert!((trust - 0.25 / 1.3).abs() < 1e-12, "{trust}");
    }
}

#[test]
fn a_small_network_takes_part_completely_with_the_local_node_last() {
    let mut others = addresses(0..100);
    others.push(address(LOCAL));
    let none = TrustValues::default();
    let members = Members::choose(others, address(LOCAL), &list_of(0..0), &none, &mut seeded(1));
    let mut expected = addresses(0..100);
    expected.push(address(LOCAL));
    assert_eq!((members.addresses.len(), members.candidate_count), (MAX_MEMBERS, 100));
    assert_eq!(members.addresses, expected);
}

#[test]
fn trust_members_are_the_most_trusted_some_listed_and_random_peers() {
    let trust: Vec<_> = (0..100).map(|node| f64::from(node % 50)).collect();
    let former = TrustValues::new(&addresses(0..100), &trust);
    let mut met = BTreeMap::new();
    for seed in 0..300 {
        let (all, list) = (addresses(0..400), list_of(370..400));
        let members = Members::choose(all, address(LOCAL), &list, &former, &mut seeded(seed));
        assert_eq!((members.addresses.len(), members.candidate_count), (MAX_MEMBERS, 400));
        assert_eq!(members.addresses.iter().collect::<BTreeSet<_>>().len(), MAX_MEMBERS);
        assert_eq!(members.addresses[100], address(LOCAL));
        let trusted: Vec<_> = [49, 99, 48, 98, 47, 97, 46, 96, 45, 95].map(address).into();
        assert_eq!(members.addresses[..10], trusted);
        assert!(members.addresses[10..30].iter().all(|node| list.contains(node)));
        members.addresses[30..100].iter().for_each(|node| *met.entry(*node).or_insert(0) += 1);
    }
    // Of 370 others 70 are chosen at a time: about 57 times in 300.
    assert_eq!(met.len(), 390);
    let strangers = (100..370).map(|node| met[&address(node)]);
    assert!(strangers.into_iter().all(|times: i32| (25..95).contains(&times)), "{met:?}");
}

#[test]
fn the_seed_determines_the_chosen_members() {
    let [one, same, other] = [1, 1, 2].map(|seed| members(300, 50, seed).addresses);
    assert!(one == same && one != other);
}

#[test]
fn a_result_is_used_for_a_quarter_of_an_hour_or_until_there_are_twice_as_many_nodes() {
    let (mut trust, experiences) = (Trust::default(), Experiences::new(address(LOCAL)));
    assert!(is_due(&trust, &[], NOW));
    assert!(!trust.advance(&experiences, 1));
    trust.begin(members(SMALL_NETWORK, 2, 1), NOW);
    assert!(!is_due(&trust, &addresses(0..SMALL_NETWORK), NOW));
    assert!(trust.advance(&experiences, 1));
    assert_eq!(trust.values, TrustValues::default());
    while trust.advance(&experiences, 1) {}
    assert_eq!(trust.values.iter().count(), SMALL_NETWORK + 1);
    let later = |time: Duration| NOW + time;
    assert!(
        !is_due(&trust, &addresses(0..2 * SMALL_NETWORK), later(LIFETIME)) && !is_due(&trust, &[], later(LIFETIME))
    );
    assert!(is_due(&trust, &addresses(0..SMALL_NETWORK), later(LIFETIME + SECOND)));
    assert!(is_due(&trust, &addresses(0..2 * SMALL_NETWORK + 1), NOW));
    // The first peer of a node without peers need not wait.
    trust.begin(members(0, 0, 1), NOW);
    while trust.advance(&experiences, 1) {}
    assert!(is_due(&trust, &addresses(0..1), NOW));
}

#[test]
fn a_new_peer_in_a_small_network_triggers_a_calculation_after_half_a_minute() {
    let experiences = Experiences::new(address(LOCAL));
    let later = |time: Duration| NOW + time;
    for former in [1, 2, 5, SMALL_NETWORK - 1] {
        let mut trust = Trust::default();
        trust.begin(members(former, 1, 1), NOW);
        while trust.advance(&experiences, 1) {}
        for others in [0..former + 1, 1..former + 1] {
            let others = addresses(others);
            assert!(!is_due(&trust, &others, later(SMALL_NETWORK_LIFETIME - SECOND)), "{former}");
            assert!(is_due(&trust, &others, later(SMALL_NETWORK_LIFETIME)), "{former}");
        }
        assert!(!is_due(&trust, &addresses(0..former), later(LIFETIME)), "nobody is new");
    }
}

#[test]
fn a_dropped_peer_has_no_trust_and_restarts_the_calculation() {
    let (mut trust, experiences) = (Trust::default(), Experiences::new(address(LOCAL)));
    trust.begin(members(SMALL_NETWORK, 2, 1), NOW);
    while trust.advance(&experiences, 1) {}
    assert!(trust.forget(&address(3)) && !trust.forget(&address(3)) && !trust.forget(&address(LOCAL + 1)));
    assert_eq!((trust.values.of(&address(3)), trust.values.iter().count()), (None, SMALL_NETWORK));
    assert!(!is_due(&trust, &addresses(0..SMALL_NETWORK), NOW));
    trust.begin(members(SMALL_NETWORK, 2, 1), NOW);
    assert!(!trust.forget(&address(LOCAL + 1)) && trust.is_calculating(), "it has no part in it");
    trust.forget(&address(4));
    assert!(!trust.is_calculating() && is_due(&trust, &addresses(0..SMALL_NETWORK), NOW));
}

#[test]
fn peers_are_selected_in_proportion_to_trust() {
    let values = TrustValues::new(&addresses(0..4), &[0.5, 0.3, 0.2, 0.0]);
    let (candidates, mut random) = (values.admit(|_| true), seeded(1));
    let mut met = [0_i32; 4];
    for _ in 0..10_000 {
        let drawn = candidates.select(1, &mut random);
        assert_eq!(drawn.len(), 1);
        met[(0..4).find(|node| address(*node) == drawn[0]).expect("a node")] += 1;
    }
    assert_eq!(met[3], 0);
    for (times, expected) in met.into_iter().zip([5_000, 3_000, 2_000]) {
        assert!((times - expected).abs() < 200, "{met:?}");
    }
}

#[test]
fn a_selection_of_two_follows_the_remaining_weights() {
    let values = TrustValues::new(&addresses(0..3), &[0.5, 0.3, 0.2]);
    let (candidates, mut random) = (values.admit(|_| true), seeded(1));
    let mut without = [0_i32; 3];
    for _ in 0..10_000 {
        let drawn = candidates.select(2, &mut random);
        assert!(drawn.len() == 2 && drawn[0] != drawn[1]);
        without[(0..3).find(|node| !drawn.contains(&address(*node))).expect("a node")] += 1;
    }
    // 0.3 · 0.2 / 0.7 + 0.2 · 0.3 / 0.8, and so on.
    for (times, expected) in without.into_iter().zip([1_607, 3_250, 5_143]) {
        assert!((times - expected).abs() < 200, "{without:?}");
    }
}

#[test]
fn a_selection_of_all_peers_keeps_their_order_without_randomness() {
    let candidates = equal_trust(5).admit(|node| *node != address(2));
    let mut no_chance = || -> u64 { panic!("a number was taken") };
    let expected: Vec<_> = [0, 1, 3, 4, LOCAL].map(address).into();
    assert_eq!(candidates.select(5, &mut no_chance), expected);
    assert_eq!(candidates.select(usize::MAX, &mut no_chance), expected);
    assert_eq!(candidates.select(0, &mut no_chance), []);
}

#[test]
fn admitted_peers_without_trust_are_selected_uniformly() {
    let values = TrustValues::new(&addresses(0..4), &[1.0, 0.0, 0.0, 0.0]);
    let candidates = values.admit(|node| *node != address(0));
    assert!(candidates.iter().all(|(_, weight)| weight == 1.0 / 3.0));
    assert_eq!(candidates.iter().count(), 3);
    assert_eq!(values.admit(|_| false).iter().count(), 0);
}

#[test]
fn a_selection_has_one_active_listed_peer_besides_those_by_trust() {
    // Nodes 0 to 3 are listed, 0 and 1 are active; 4 to 29 are other peers.
    let active: Vec<_> = [0, 1].into_iter().chain(4..30).collect();
    let nodes = nodes(30, 4, &active);
    let (selector, mut random) = (Selector::among_active(&equal_trust(30), &nodes), seeded(1));
    let mut met = BTreeMap::new();
    for _ in 0..1_000 {
        let drawn = selector.several(5, &mut random);
        assert!(drawn.len() == 5 || drawn.len() == 6, "{drawn:?}");
        assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), drawn.len());
        assert!(drawn.iter().all(|node| nodes.is_active(node)));
        let on_list = drawn.iter().filter(|node| nodes.listed.contains(*node));
        on_list.for_each(|node| *met.entry(*node).or_insert(0) += 1);
        assert!(drawn.iter().any(|node| nodes.listed.contains(node)));
    }
    // Half of the selections by the list, and 5 of 28 by trust in the other half.
    assert!(met.len() == 2 && met.values().all(|times| (530..650).contains(times)), "{met:?}");
}

#[test]
fn a_listed_node_selects_all_active_listed_peers() {
    let mut nodes = nodes(30, 4, &[0, 1, 2, 20]);
    nodes.add_listed(address(LOCAL), info(0), Duration::ZERO).expect("space");
    let mut nobody = Selector::among_active(&TrustValues::default(), &nodes).several(5, &mut seeded(1));
    nobody.sort_unstable();
    let mut expected = addresses(0..3);
    expected.sort_unstable();
    assert_eq!(nobody, expected);
    let drawn = Selector::among_active(&equal_trust(30), &nodes).several(2, &mut seeded(1));
    assert!(addresses(0..3).iter().all(|node| drawn.contains(node)), "{drawn:?}");
}

#[test]
fn all_listed_peers_are_selected_while_none_is_active() {
    for local_is_listed in [false, true] {
        let mut nodes = nodes(4, 3, &[3]);
        if local_is_listed {
            nodes.add_listed(address(LOCAL), info(0), Duration::ZERO).expect("space");
        }
        // Contacts with some of them failed.
        nodes.record_failure(&address(0), PeerError::new(State::Failure, ""), Duration::ZERO);
        for selector in [Selector::among_active(&equal_trust(4), &nodes), Selector::among_all(&equal_trust(4), &nodes)]
        {
            let drawn: BTreeSet<_> = selector.several(1, &mut seeded(2)).into_iter().collect();
            assert!(list_of(0..3).is_subset(&drawn) && !drawn.contains(&address(LOCAL)), "{drawn:?}");
        }
    }
}

#[test]
fn one_peer_is_selected_by_trust_with_a_fallback_to_listed_peers() {
    let mut random = seeded(1);
    let with_others = nodes(4, 2, &[3]);
    let selector = Selector::among_active(&equal_trust(4), &with_others);
    assert!((0..100).all(|_| selector.one(&mut random) == Some(address(3))));
    let alone = nodes(2, 2, &[]);
    let selector = Selector::among_active(&equal_trust(2), &alone);
    let met: BTreeSet<_> = (0..100).filter_map(|_| selector.one(&mut random)).collect();
    assert_eq!(met, list_of(0..2));
    let nobody = nodes(0, 0, &[]);
    let selector = Selector::among_active(&equal_trust(0), &nobody);
    assert_eq!((selector.one(&mut random), selector.several(5, &mut random)), (None, vec![]));
}

#[test]
fn an_untrusted_peer_is_selected_occasionally() {
    let values = TrustValues::new(&addresses(0..3), &[0.0, 0.7, 0.3]);
    let selector = Selector::among_active(&values, &nodes(3, 0, &[0, 1, 2]));
    let mut random = seeded(1);
    let drawn = (0..1_200).filter(|_| selector.one(&mut random) == Some(address(0))).count();
    assert!((60..140).contains(&drawn), "{drawn} of 1,200: one in four is drawn of three without regard to trust");
}

#[test]
fn one_peer_is_selected_among_the_admitted_ones() {
    let selector = Selector::among_active(&equal_trust(3), &nodes(3, 3, &[0, 1, 2]));
    let drawn = |is_admitted: fn(&Address) -> bool| -> BTreeSet<_> {
        let mut random = seeded(1);
        (0..200).filter_map(|_| selector.one_of(is_admitted, &mut random)).collect()
    };
    assert_eq!(drawn(|_| true), list_of(0..3));
    assert_eq!(drawn(|node| *node != address(0)), list_of(1..3));
    assert_eq!(drawn(|_| false), BTreeSet::new());
}

#[test]
fn time_sources_are_selected_among_the_admitted_peers() {
    let nodes = nodes(30, 2, &(0..30).collect::<Vec<_>>());
    let selector = Selector::among_active(&equal_trust(30), &nodes);
    let important = list_of(10..20);
    let drawn = selector.some_of(|node| important.contains(node), 20, &mut seeded(1));
    assert_eq!(drawn.into_iter().collect::<BTreeSet<_>>(), important);
    assert_eq!(selector.some_of(|node| important.contains(node), 4, &mut seeded(1)).len(), 4);
    assert_eq!(selector.some_of(|_| false, 4, &mut seeded(1)), []);
}

#[test]
fn only_active_peers_are_selected_except_for_the_refresh() {
    let mut nodes = nodes(3, 0, &[0, 1, 2]);
    nodes.record_failure(&address(1), PeerError::new(State::Busy, ""), Duration::ZERO);
    let values = equal_trust(3);
    let partners = Selector::among_active(&values, &nodes).several(9, &mut seeded(1));
    assert_eq!(partners, [address(0), address(2)]);
    assert_eq!(Selector::among_all(&values, &nodes).several(9, &mut seeded(1)), addresses(0..3));
}

fn any_count() -> impl Strategy<Value = i64> {
    prop_oneof![Just(i64::MIN), Just(-1), Just(0), 1..100_i64, Just(i64::MAX - 1), Just(i64::MAX)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn trust_values_sum_to_one_for_any_reports(
        reports in prop::collection::vec((0..8_usize, 0..8_usize, any_count(), any_count()), 0..60),
        listed in 0..8_usize,
        rows in 1..40_usize,
    ) {
        let mut experiences = Experiences::new(address(LOCAL));
        for (reporter, about, successes, failures) in reports {
            let about = if about == 0 { LOCAL } else { about };
            let pair = (address(about), Experience::new(successes, failures));
            assert!(experiences.receive(address(reporter), &[pair], NOW));
            experiences.succeeded(address(about), NOW);
        }
        let values = calculate(members(8, listed, 1), &experiences, rows);
        let sum: f64 = values.iter().map(|(_, trust)| trust).sum();
        prop_assert!((sum - 1.0).abs() < 1e-9, "{}", sum);
        prop_assert!(values.iter().all(|(_, trust)| (0.0..=1.0).contains(&trust)));
        prop_assert_eq!(values, calculate(members(8, listed, 1), &experiences, usize::MAX));
    }

    #[test]
    fn a_selection_has_no_duplicates_and_at_most_the_requested_count(
        trust in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1.0_f64, Just(1e-300), Just(1e300)], 0..30),
        most in 0..40_usize,
        seed in any::<u64>(),
    ) {
        let candidates = TrustValues::new(&addresses(0..trust.len()), &trust).admit(|_| true);
        let drawn = candidates.select(most, &mut seeded(seed));
        prop_assert!(drawn.len() <= most);
        prop_assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), drawn.len());
        prop_assert_eq!(&drawn, &candidates.select(most, &mut seeded(seed)));
    }
}

mod experiences {
    use crate::peer::tests::{address, seeded};
    use crate::peer::trust::*;

    const NOW: Duration = Duration::from_secs(1_000_000);

    fn reported(count: usize) -> Vec<(Address, Experience)> {
        (0..count).map(|number| (address(number), Experience::new(number as i64, 1))).collect()
    }

    #[test]
    fn counts_are_never_negative_and_never_overflow() {
        let experience = Experience::new(-5, i64::MIN);
        assert_eq!((experience.successes, experience.failures, experience.success_ratio()), (0, 0, None));
        let most = Experience::new(i64::MAX, i64::MAX);
        assert_eq!((most.calls(), most.success_ratio()), (u64::MAX - 1, Some(0.5)));
        let mut experiences = Experiences::new(address(0));
        experiences.own.insert(address(1), (most, NOW));
        experiences.succeeded(address(1), NOW);
        experiences.failed(address(1), NOW);
        assert_eq!(experiences.between(&address(0), &address(1)), most);
    }

    #[test]
    fn experiences_about_or_in_the_name_of_this_node_are_rejected() {
        let mut experiences = Experiences::new(address(0));
        experiences.succeeded(address(0), NOW);
        assert_eq!(experiences.of(&address(0)).count(), 0);
        assert!(!experiences.receive(address(0), &reported(1), NOW));
        assert!(!experiences.receive(address(1), &reported(MAX_PAIRS + 1), NOW));
        assert!(experiences.reports.is_empty());
    }

    #[test]
    fn a_newer_report_replaces_only_the_pairs_that_it_contains() {
        let mut experiences = Experiences::new(address(0));
        assert!(experiences.receive(address(1), &reported(3), NOW));
        assert!(experiences.receive(address(1), &[(address(2), Experience::new(7, 7))], NOW));
        let all: Vec<_> = (0..4).map(|other| experiences.between(&address(1), &address(other)).successes).collect();
        assert_eq!(all, [0, 1, 7, 0]);
    }

    #[test]
    fn reports_and_own_experiences_keep_within_their_limits() {
        let mut experiences = Experiences::new(address(0));
        let all = reported(3 * MAX_OWN);
        for (round, pairs) in all.chunks(MAX_PAIRS).enumerate() {
            assert!(experiences.receive(address(1), pairs, Duration::from_secs(round as u64)));
            assert_eq!(experiences.of(&address(1)).count(), MAX_PAIRS);
        }
        // The last report has evicted the earlier pairs.
        assert_eq!(experiences.between(&address(1), &all[all.len() - 1].0), all[all.len() - 1].1);
        for (round, (node, _)) in all.iter().enumerate() {
            experiences.succeeded(*node, Duration::from_secs(round as u64));
            experiences.receive(*node, &all[..1], Duration::from_secs(round as u64));
            assert!(experiences.reports.len() <= MAX_REPORTERS && experiences.own.len() <= MAX_OWN);
        }
        assert_eq!(experiences.own.len(), MAX_OWN);
        assert_eq!(experiences.between(&address(0), &all[all.len() - 1].0).successes, 1);
        assert_eq!(experiences.between(&address(0), &all[1].0).calls(), 0);
    }

    #[test]
    fn experiences_expire_after_a_day() {
        let mut experiences = Experiences::new(address(0));
        experiences.failed(address(1), NOW);
        experiences.succeeded(address(2), NOW - EXPERIENCE_LIFETIME);
        experiences.succeeded(address(3), NOW - EXPERIENCE_LIFETIME - Duration::from_secs(1));
        assert!(experiences.receive(address(1), &reported(2), NOW - EXPERIENCE_LIFETIME - Duration::from_secs(1)));
        assert!(experiences.receive(address(2), &reported(2), NOW));
        experiences.prune(NOW);
        let own: Vec<_> = experiences.of(&address(0)).map(|(node, _)| *node).collect();
        let mut left = vec![address(1), address(2)];
        left.sort_unstable();
        assert_eq!(own, left);
        assert_eq!(experiences.reports.keys().collect::<Vec<_>>(), [&address(2)]);
    }

    #[test]
    fn a_selection_holds_up_to_a_hundred_experiences_chosen_uniformly() {
        let mut experiences = Experiences::new(address(0));
        (1..=MAX_PAIRS).for_each(|node| experiences.succeeded(address(node), NOW));
        let mut random = seeded(1);
        assert_eq!(experiences.selection(&mut random).len(), MAX_PAIRS);
        (1..=2 * MAX_PAIRS).for_each(|node| experiences.succeeded(address(node), NOW));
        let mut met = BTreeMap::new();
        for _ in 0..1_000 {
            let selection = experiences.selection(&mut random);
            assert_eq!(selection.len(), MAX_PAIRS);
            assert!(selection.is_sorted_by_key(|(node, _)| *node));
            selection.iter().for_each(|(node, _)| *met.entry(*node).or_insert(0) += 1);
        }
        assert_eq!(met.len(), 2 * MAX_PAIRS);
        assert!(met.values().all(|times| (420..580).contains(times)), "{met:?}");
        let [one, same, other] = [5, 5, 6].map(|seed| experiences.selection(&mut seeded(seed)));
        assert!(one == same && one != other);
    }
}
