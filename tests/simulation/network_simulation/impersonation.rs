//! Checks that no relay takes over a member's identity: a relay forwards requests to an honest node and returns its
//! proofs with false data.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nisd::crypto::KeyPair;

use super::environment::member_key;
use super::network::{Network, Party};
use crate::common::private_network::address;

/// A member that was reachable at its known address for this long must still be known there. A request may take 15 s to
/// fail.
const REACHABLE_TIME: Duration = Duration::from_secs(35);
/// For this long after its start, a node must not move a member whose address it had saved.
const NO_MOVE_AFTER_START: Duration = Duration::from_secs(60);
/// Maximum difference between the network time and the member's own clock, which has a resolution of seconds, in
/// milliseconds.
const MAX_CLOCK_OFFSET: i64 = 11_000;

/// What members know about the addresses of others.
#[derive(Default)]
pub struct ImpersonationChecker {
    /// Time since which one member could reach another one without interruption.
    reachable_since: BTreeMap<(usize, usize), Duration>,
    /// Pairs of members of which the first has last known the second at its true address, since its start or from its
    /// saved peers.
    known: BTreeSet<(usize, usize)>,
    /// The life of each member at the last check.
    lives: BTreeMap<usize, u32>,
}

impl ImpersonationChecker {
    /// Checks that no member has been taken over so far.
    pub fn check(&mut self, network: &mut Network<'_>) {
        if !network.plan.byzantine_peers.iter().any(|byzantine| byzantine.is_relay) {
            return;
        }
        let count = network.members.len();
        for one in 0..count {
            for other in (0..count).filter(|other| *other != one) {
                if network.can_communicate(one, other) {
                    self.reachable_since.entry((one, other)).or_insert(network.now);
                } else {
                    self.reachable_since.remove(&(one, other));
                }
            }
            self.check_member(one, network);
        }
    }

    fn check_member(&mut self, index: usize, network: &mut Network<'_>) {
        let (now, life) = (network.now, network.members[index].start_count);
        let places: Vec<_> = (0..network.members.len()).map(|member| network.places_of(member)).collect();
        let party_at = |other: usize, host: &str, port: i64| {
            let mut places = places[other].iter();
            places.find(|(place, _)| host == place.host && port == i64::from(place.port)).map(|(_, party)| *party)
        };
        let Some(running) = network.members[index].running.as_mut().filter(|running| running.busy_until <= now) else {
            return;
        };
        running.set_now(now);
        if self.lives.insert(index, life) != Some(life) {
            self.known.retain(|(one, _)| *one != index);
            for kept in nisd::peer::saved_peers::read(&running.kept) {
                let is_it = |other: &usize| KeyPair::new(&member_key(*other)).public() == kept.info.identity.key;
                let other = (0..places.len()).find(is_it).filter(|other| {
                    let endpoint = &kept.info.endpoint;
                    party_at(*other, &endpoint.host, endpoint.port.into()) == Some(Party::Member(*other))
                });
                self.known.extend(other.map(|other| (index, other)));
            }
        }
        let is_young = now.saturating_sub(running.since) < NO_MOVE_AFTER_START;
        let own = i64::from(running.node.time().0) * 1_000;
        let told = running.get("/time-sync/network-time").and_then(|told| told["sendTimeStamp"].as_i64());
        let off = told.map_or(0, |told| told - own);
        assert!(off.abs() <= MAX_CLOCK_OFFSET, "the network time of member {index} was moved by {off} ms");
        let Some(report) = running.get("/local/peers") else { return };
        for other in (0..places.len()).filter(|other| *other != index) {
            let name = address(&KeyPair::new(&member_key(other))).to_string();
            let peers = report["peers"].as_array().expect("peers");
            let Some(peer) = peers.iter().find(|peer| peer["address"] == *name) else { continue };
            let endpoint = &peer["node"]["endpoint"];
            let (host, port) = (endpoint["host"].as_str(), endpoint["port"].as_i64());
            let party = party_at(other, host.unwrap_or(""), port.unwrap_or(0));
            if party == Some(Party::Member(other)) {
                self.known.insert((index, other));
                continue;
            }
            assert!(peer["isListed"] == 0, "member {other}, of the list of member {index}, is at {endpoint}");
            assert!(party.is_some(), "member {index} knows member {other} where nobody is: {endpoint}");
            let was_there = self.known.remove(&(index, other));
            assert!(!(was_there && is_young), "member {index}, just started, takes {endpoint} for member {other}");
            let since = self.reachable_since.get(&(index, other)).copied();
            let has_answered = since.is_some_and(|since| now.saturating_sub(since) >= REACHABLE_TIME);
            assert!(
                !(was_there && has_answered),
                "member {index} knows member {other}, who answers, at {endpoint} now"
            );
            // Successes from the relays' own pushes are excluded.
            let pushed = network.relayed.get(&(index, other)).copied().unwrap_or(0);
            let successes = peer["successes"].as_u64().expect("a number");
            assert!(successes <= pushed, "member {index} trusts a relay for what member {other} has done");
        }
    }
}
