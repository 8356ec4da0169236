//! Peers saved over a restart: identity, endpoint and time of the last answer. Trust is not saved: a saved peer ranks
//! like one learnt by gossip, except that it is contacted without gossip.
//!
//! The format is one JSON object per line; the host writes it to a file and reads it back. The text may be truncated,
//! damaged or written by somebody else: unreadable lines are skipped.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::io::Now;
use super::manager::Manager;
use super::peer_table;
use super::wire::{Endpoint, Identity, MetaData, NodeInfo};
use crate::codec::text::without_byte_order_mark;
use crate::crypto::PublicKey;
use crate::ip::site;
use crate::model::Timestamp;

/// Maximum number of saved peers; the most recently answering ones are saved.
pub const MAX_SAVED: usize = 100;
/// Maximum number of saved peers of one public network (a /24 of IPv4, a /48 of IPv6) or of one domain.
pub const MAX_PER_NETWORK: usize = 4;
/// Maximum number of bytes read.
pub const MAX_BYTES: usize = 128 << 10;
/// Maximum number of saved characters of a peer's name.
const MAX_NAME: usize = 64;
/// Maximum bytes of a line.
const MAX_LINE: usize = 1 << 10;

/// Interval between checks for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Minimum interval between writes after a change of keys or endpoints, and otherwise.
const CHANGED_INTERVAL: Duration = Duration::from_secs(60);
const UNCHANGED_INTERVAL: Duration = Duration::from_secs(3_600);

/// A saved peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPeer {
    /// Key, name and endpoint; the meta data is empty.
    pub info: NodeInfo,
    /// Network time of the last answer.
    pub answered: Timestamp,
}

/// Reads a text. Returns at most [`MAX_SAVED`] peers, latest answer first, each key once.
pub fn read(text: &[u8]) -> Vec<SavedPeer> {
    let text = without_byte_order_mark(&text[..text.len().min(MAX_BYTES)]);
    let lines = text.split(|byte| *byte == b'\n').filter(|line| line.len() <= MAX_LINE);
    latest_first(lines.filter_map(read_line))
}

fn read_line(line: &[u8]) -> Option<SavedPeer> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let key = PublicKey::from_hex(text("publicKey")?).ok()?;
    let endpoint = Endpoint::parse(text("endpoint")?).ok()?;
    let answered = value.get("answered").and_then(Value::as_i64).and_then(|seconds| i32::try_from(seconds).ok())?;
    let name = text("name").map(|name| name.chars().take(MAX_NAME).collect());
    let info = NodeInfo { identity: Identity { key, name }, endpoint, meta_data: MetaData::default() };
    (answered >= 0).then_some(SavedPeer { info, answered: Timestamp(answered) })
}

/// Returns each key once with its latest answer, latest first, within [`MAX_SAVED`] and [`MAX_PER_NETWORK`].
fn latest_first(peers: impl Iterator<Item = SavedPeer>) -> Vec<SavedPeer> {
    // Of equal answers of a key, the last counts.
    let mut peers: Vec<_> = peers.collect();
    peers.reverse();
    peers.sort_by_key(|peer| (Reverse(peer.answered), peer.info.identity.key));
    let (mut keys, mut counts) = (BTreeSet::new(), BTreeMap::new());
    peers.retain(|peer| keys.insert(peer.info.identity.key));
    peers.retain(|peer| {
        network(&peer.info.endpoint).is_none_or(|network| {
            let count = counts.entry(network).or_insert(0_usize);
            *count += 1;
            *count <= MAX_PER_NETWORK
        })
    });
    peers.truncate(MAX_SAVED);
    peers
}

/// Returns the network, or the last two labels of a host name, that [`MAX_PER_NETWORK`] limits; `None` for private ones.
fn network(endpoint: &Endpoint) -> Option<String> {
    match endpoint.address() {
        Some(ip) if peer_table::is_private(ip) => None,
        Some(ip) => Some(site(ip).to_string()),
        None => {
            let parts: Vec<_> = endpoint.host.rsplit('.').filter(|part| !part.is_empty()).take(2).collect();
            Some(parts.join(".").to_ascii_lowercase())
        }
    }
}

/// Formats the peers that have a connectable endpoint.
pub fn write(peers: &[SavedPeer]) -> Vec<u8> {
    let mut text = String::new();
    let peers = peers.iter().take(MAX_SAVED).filter(|peer| peer.info.endpoint.to_connect().is_some());
    for SavedPeer { info: NodeInfo { identity, endpoint, .. }, answered } in peers {
        let name = identity.name.as_ref().map(|name| name.chars().take(MAX_NAME).collect::<String>());
        let line = json!({
            "publicKey": identity.key.to_string(),
            "name": name,
            "endpoint": endpoint.to_string(),
            "answered": answered.0,
        });
        text += &format!("{line}\n");
    }
    text.into_bytes()
}

/// The saved peers and their write schedule.
#[derive(Debug, Default)]
pub struct SavedPeers {
    /// The peers, latest answer first.
    pub saved: Vec<SavedPeer>,
    /// Keys and endpoints of the last write, in order of key.
    written: Vec<(PublicKey, Endpoint)>,
    written_at: Option<Duration>,
    next_check: Duration,
}

impl SavedPeers {
    /// Reads the peers of a text.
    pub fn read(text: &[u8]) -> SavedPeers {
        let saved = read(text);
        let written = endpoints_by_key(&saved);
        SavedPeers { saved, written, ..SavedPeers::default() }
    }

    /// Returns the text if a write is due: the first at once, later ones after a minute if keys or endpoints have
    /// changed, otherwise after an hour, and always if `is_last` (shutdown). Peers that left the table stay while there
    /// is space.
    pub fn to_write(&mut self, peers: &Manager, now: Now, is_last: bool) -> Option<Vec<u8>> {
        if now.monotonic < self.next_check && !is_last {
            return None;
        }
        self.next_check = now.monotonic + CHECK_INTERVAL;
        let ahead = self.saved.iter().map(|peer| peer.answered.0).max().unwrap_or(0).saturating_sub(now.network.0);
        // The clock was ahead: answers from then on are later than those before.
        self.saved.iter_mut().filter(|_| ahead > 0).for_each(|peer| peer.answered.0 = (peer.answered.0 - ahead).max(0));
        self.saved = latest_first(std::mem::take(&mut self.saved).into_iter().chain(peers.to_save(now)));
        let places = endpoints_by_key(&self.saved);
        let since = self.written_at.map(|at| now.monotonic.saturating_sub(at));
        let is_due = if places == self.written {
            since.is_none_or(|since| since >= UNCHANGED_INTERVAL)
        } else {
            self.written.is_empty() || since.is_none_or(|since| since >= CHANGED_INTERVAL)
        };
        if self.saved.is_empty() || !(is_due || is_last) {
            return None;
        }
        (self.written, self.written_at) = (places, Some(now.monotonic));
        Some(write(&self.saved))
    }
}

fn endpoints_by_key(saved: &[SavedPeer]) -> Vec<(PublicKey, Endpoint)> {
    let mut places: Vec<_> = saved.iter().map(|peer| (peer.info.identity.key, peer.info.endpoint.clone())).collect();
    places.sort_by_key(|(key, _)| *key);
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::peer_entry::State;
    use crate::peer::tests::*;

    fn peer(number: usize, answered: i32) -> SavedPeer {
        let info = NodeInfo { meta_data: MetaData::default(), ..info(number) };
        SavedPeer { info, answered: Timestamp(answered) }
    }

    #[test]
    fn saved_peers_round_trip_and_corrupt_lines_are_skipped() {
        let kept = vec![peer(2, 9), peer(1, 7)];
        let text = write(&kept);
        assert_eq!(read(&text), kept);
        let end = text.iter().position(|byte| *byte == b'\n').expect("a line");
        for cut in [0, 1, end - 1] {
            assert!(read(&text[..cut]).is_empty());
        }
        assert_eq!(read(&text[..end]), [peer(2, 9)], "the end of its line is not needed");
        assert_eq!(read(&[b"{\n[]\n7\n\xff\n".to_vec(), text.clone(), vec![0; 5_000]].concat()), kept);
        // Of duplicates, the latest answer counts.
        assert_eq!(read(&[text, write(&[peer(1, 30)])].concat()), [peer(1, 30), peer(2, 9)]);
    }

    #[test]
    fn reading_keeps_within_the_limits_of_saved_peers() {
        let many: Vec<_> = (0..2_000).map(|number| peer(number, number as i32)).collect();
        let text: Vec<u8> = many.chunks(MAX_SAVED).flat_map(write).collect();
        assert!(text.len() > MAX_BYTES && read(&text).len() == MAX_SAVED);
        let long = SavedPeer {
            info: NodeInfo {
                identity: Identity { name: Some("é".repeat(5_000)), ..info(1).identity },
                ..peer(1, 1).info
            },
            ..peer(1, 1)
        };
        assert_eq!(read(&write(&[long]))[0].info.identity.name, Some("é".repeat(MAX_NAME)));
        let nowhere = SavedPeer {
            info: NodeInfo { endpoint: Endpoint { port: 0, ..info(1).endpoint }, ..info(1) },
            ..peer(1, 1)
        };
        assert_eq!(write(&[nowhere]), b"");
    }

    #[test]
    fn the_first_peer_is_saved_at_once_and_an_unchanged_list_is_rarely_rewritten() {
        let mut scene = Scene::new(settings(&[0]), 2);
        let mut kept = SavedPeers::default();
        assert_eq!(kept.to_write(&scene.manager, scene.now(), true), None, "nobody has answered");
        scene.run_seconds(6);
        let text = kept.to_write(&scene.manager, scene.now(), false).expect("a text");
        assert_eq!(read(&text).iter().map(|kept| kept.info.endpoint.clone()).collect::<Vec<_>>(), [info(0).endpoint]);
        // A second peer becomes known.
        scene.simulated_peers[0].list = vec![info(1)];
        let mut texts = Vec::new();
        for _ in 0..200 {
            scene.run_seconds(5);
            texts.extend(kept.to_write(&scene.manager, scene.now(), false));
        }
        assert_eq!(texts.iter().map(|text| read(text).len()).collect::<Vec<_>>(), [2]);
        // Peers that no longer answer are kept.
        scene.simulated_peers.iter_mut().for_each(|other| other.behaviour = Behaviour::Unreachable);
        scene.run_seconds(5 * 3_600);
        let text = kept.to_write(&scene.manager, scene.now(), true).expect("the last text");
        assert_eq!(read(&text).len(), 2);
    }

    #[test]
    fn saved_peers_are_probed_first_and_harvesting_waits_for_an_answer() {
        let text = write(&[peer(0, 5), peer(1, 7)]);
        for (behaviour, waits) in [(Behaviour::Good, 0), (Behaviour::Unreachable, 60)] {
            let mut scene = Scene::new(settings(&[]), 2);
            scene.simulated_peers.iter_mut().for_each(|other| other.behaviour = behaviour.clone());
            scene.manager.add_saved_peers(&SavedPeers::read(&text).saved);
            scene.run_seconds(1);
            assert_eq!(scene.asked("/node/info"), [1, 0], "those that have answered last first");
            let until = scene.manager.harvesting_blocked_until.as_secs();
            assert_eq!((until, scene.manager.has_active_node()), (waits, waits == 0));
            let manager = &scene.manager;
            let is_neutral = |node| manager.experience(node).calls() == 0;
            assert!(manager.table.iter().all(|(node, known)| !known.is_listed && is_neutral(node)));
            scene.run_seconds(3_600);
            assert!(scene.manager.harvesting_blocked_until <= scene.now().monotonic);
        }
        let mut alone = Scene::new(settings(&[]), 0);
        alone.run_seconds(1);
        assert_eq!(alone.manager.harvesting_blocked_until, Duration::ZERO, "it never knew anybody");
    }

    #[test]
    fn answers_after_the_clock_was_set_back_are_later_than_those_before() {
        let mut scene = Scene::new(settings(&[0]), 1);
        scene.run_seconds(10);
        let ahead = Timestamp(scene.now().network.0 + 100_000);
        let elsewhere = NodeInfo { endpoint: Endpoint::http("66.6.6.6", 7890), ..info(0) };
        let saved = vec![SavedPeer { info: elsewhere, answered: ahead }, peer(1, ahead.0 - 7)];
        let mut saved = SavedPeers { saved, ..SavedPeers::default() };
        for _ in 0..2 {
            saved.to_write(&scene.manager, scene.now(), true);
            scene.run_seconds(1_000);
        }
        let found: Vec<_> = saved.saved.iter().map(|peer| peer.info.endpoint.clone()).collect();
        assert_eq!(found, [0, 1].map(|number| info(number).endpoint));
    }

    #[test]
    fn a_listed_peer_is_not_probed_at_its_saved_endpoint() {
        let there = Endpoint::http("66.6.6.6", 7890);
        let mut scene = Scene::new(settings(&[0]), 1);
        scene.simulated_peers[0].behaviour = Behaviour::Unreachable;
        let relay = scene.relay(0, there.clone());
        let info = NodeInfo { endpoint: there, ..info(0) };
        scene.manager.add_saved_peers(&[SavedPeer { info, answered: Timestamp(5) }]);
        scene.run_seconds(600);
        assert_eq!((scene.place(0), scene.manager.has_active_node()), (Some(peer(0, 0).info.endpoint), false));
        assert!(!scene.asked("/node/info").contains(&relay));
    }

    #[test]
    fn a_saved_peer_keeps_its_endpoint_while_it_answers_there() {
        let there = Endpoint::http("66.6.6.6", 7890);
        let relayed = NodeInfo { endpoint: there.clone(), ..info(1) };
        for is_hearsay in [false, true] {
            let mut scene = Scene::new(settings(&[0]), 2);
            let relay = scene.relay(1, there.clone());
            scene.manager.add_saved_peers(&[peer(1, 5)]);
            scene.run(Duration::from_millis(100));
            if is_hearsay {
                scene.simulated_peers[0].list = vec![relayed.clone()];
            } else {
                let met = scene.greet(&relayed, [66, 6, 6, 6].into());
                assert_eq!(met, Some(Ok(())));
            }
            scene.run_seconds(300);
            assert_eq!((scene.place(1), scene.state(1)), (Some(info(1).endpoint), Some(State::Active)));
            assert!(!scene.asked("/node/info").contains(&relay));
        }
    }

    #[test]
    fn a_saved_peer_without_an_answer_for_a_minute_may_move_without_its_history() {
        let there = Endpoint::http("66.6.6.6", 7890);
        let mut scene = Scene::new(settings(&[0]), 2);
        scene.simulated_peers[1].behaviour = Behaviour::Unreachable;
        let relay = scene.relay(1, there.clone());
        scene.manager.add_saved_peers(&[peer(1, 5)]);
        scene.run(Duration::from_millis(300));
        for second in 0..100 {
            let relayed = NodeInfo { endpoint: there.clone(), ..info(1) };
            scene.greet(&relayed, [66, 6, 6, 6].into());
            scene.run_seconds(1);
            let has_moved = scene.place(1) == Some(there.clone());
            assert!(second >= 58 || !has_moved, "after {second} s");
            assert!(scene.trust(1).is_none() || has_moved, "it is not trusted before it has answered");
        }
        assert_eq!((scene.place(1), scene.state(1)), (Some(there), Some(State::Active)));
        assert_eq!(scene.experience(1), (0, 0));
        assert!(scene.asked("/node/info").contains(&relay));
    }

    #[test]
    fn an_unknown_peer_does_not_end_the_wait_for_saved_peers() {
        let mut scene = Scene::new(settings(&[]), 2);
        scene.simulated_peers[1].behaviour = Behaviour::Unreachable;
        scene.manager.add_saved_peers(&[peer(1, 5)]);
        scene.run_seconds(1);
        let met = scene.greet(&info(0), ip_of(0));
        assert!(met.is_none());
        scene.answer_all();
        assert!(scene.manager.has_active_node());
        assert!(scene.manager.harvesting_blocked_until > Duration::from_secs(55));
        scene.simulated_peers[1].behaviour = Behaviour::Good;
        scene.run_seconds(10);
        scene.greet(&info(1), ip_of(1));
        scene.answer_all();
        assert_eq!(scene.state(1), Some(State::Active), "it is asked as soon as it says that it is there");
        assert_eq!(scene.manager.harvesting_blocked_until, Duration::ZERO);
    }

    #[test]
    fn saved_peers_help_detect_the_address_but_do_not_delay_the_boot() {
        for (behaviour, seen) in [(Behaviour::Good, "30.0.0.1"), (Behaviour::Unreachable, "69.199.8.1")] {
            let mut scene = Scene::new(settings(&[]), 2);
            for peer in &mut scene.simulated_peers {
                (peer.behaviour, peer.sees) = (behaviour.clone(), "30.0.0.1");
            }
            scene.relay(LOCAL, Endpoint::http("30.0.0.1", 7890));
            scene.manager.add_saved_peers(&[peer(0, 5), peer(1, 5)]);
            scene.run_seconds(1);
            assert_eq!(
                (scene.asked("/node/cysm").first(), scene.manager.is_booted()),
                (Some(&0), true),
                "{behaviour:?}"
            );
            scene.run_seconds(20);
            assert_eq!(scene.manager.local.endpoint.host, seen, "{behaviour:?}");
        }
        // A listed peer is waited for as usual.
        let mut scene = Scene::new(settings(&[1]), 2);
        scene.simulated_peers.iter_mut().for_each(|other| other.behaviour = Behaviour::Unreachable);
        scene.manager.add_saved_peers(&[peer(0, 5)]);
        scene.run_seconds(1);
        assert!(!scene.manager.is_booted());
        scene.simulated_peers[0].behaviour = Behaviour::Good;
        scene.run_seconds(20);
        assert!(scene.manager.is_booted(), "a kept one helps where those of the list are silent");
    }

    #[test]
    fn saved_peers_are_limited_per_network() {
        let at = |number: usize, host: &str| {
            let endpoint = Endpoint::http(host, 7890);
            SavedPeer { info: NodeInfo { endpoint, ..peer(number, 1).info }, ..peer(number, number as i32) }
        };
        let hosts = |all: &dyn Fn(usize) -> String| {
            let peers: Vec<_> = (1..=20).map(|number| at(number, &all(number))).collect();
            read(&write(&peers)).iter().map(|kept| kept.answered.0).collect::<Vec<_>>()
        };
        assert_eq!(hosts(&|number| format!("45.1.2.{number}")), [20, 19, 18, 17], "the last ones");
        assert_eq!(hosts(&|number| format!("[2a01:1:2:{number}::1]")).len(), MAX_PER_NETWORK);
        assert_eq!(hosts(&|number| format!("n{number}.Example.org.")).len(), MAX_PER_NETWORK);
        assert_eq!(hosts(&|number| format!("45.1.{number}.2")).len(), 20);
        assert_eq!(hosts(&|number| format!("10.0.0.{number}")).len(), 20, "a private network is one person's");
    }

    #[test]
    fn a_saved_peer_that_appears_late_is_probed_again() {
        let mut scene = Scene::new(settings(&[]), 1);
        scene.simulated_peers[0].behaviour = Behaviour::Unreachable;
        scene.manager.add_saved_peers(&[peer(0, 5)]);
        scene.run_seconds(100);
        assert!(!scene.manager.has_active_node());
        scene.simulated_peers[0].behaviour = Behaviour::Good;
        scene.run_seconds(120);
        assert!(scene.manager.has_active_node());
    }
}
