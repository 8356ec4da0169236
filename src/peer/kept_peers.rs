//! What is kept of other nodes over a restart: who they are, where they were reached, and when they last answered. No
//! trust is kept: a node that comes back is as good as one that others tell of, only that it is asked without being told of.
//!
//! It is a text of one JSON object a line, which whoever runs the node writes to a file and reads back. The text may be
//! cut off, damaged or written by somebody else: a line that cannot be understood is passed over.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::machine::Peers;
use super::outside::Now;
use super::wire::{Endpoint, Identity, MetaData, NodeInfo};
use crate::crypto::PublicKey;
use crate::model::Timestamp;

/// Most nodes that are kept; of more those that have answered last.
pub const MAX_KEPT: usize = 100;
/// Most bytes of the text that are read.
pub const MAX_BYTES: usize = 128 << 10;
/// Most characters of a node's name that are kept.
const MAX_NAME: usize = 64;
/// Most bytes of a line.
const MAX_LINE: usize = 1 << 10;

/// How often it is looked whether there is something new to keep.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Between two writings because other nodes are known, and because they have answered again.
const BETWEEN_NEW: Duration = Duration::from_secs(60);
const BETWEEN_SAME: Duration = Duration::from_secs(3_600);

/// A node that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPeer {
    /// Its key and name, and where it was reached; nothing else is known of it.
    pub info: NodeInfo,
    /// Network time at which it last answered.
    pub answered: Timestamp,
}

/// Reads a text; at most [`MAX_KEPT`] nodes, those that have answered last first, each key once.
pub fn read(text: &[u8]) -> Vec<KeptPeer> {
    let text = &text[..text.len().min(MAX_BYTES)];
    let lines = text.split(|byte| *byte == b'\n').filter(|line| line.len() <= MAX_LINE);
    last_first(lines.filter_map(read_line))
}

fn read_line(line: &[u8]) -> Option<KeptPeer> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let key = PublicKey::from_hex(text("publicKey")?).ok()?;
    let endpoint = Endpoint::parse(text("endpoint")?).ok()?;
    let answered = value.get("answered").and_then(Value::as_i64).and_then(|seconds| i32::try_from(seconds).ok())?;
    let name = text("name").map(|name| name.chars().take(MAX_NAME).collect());
    let info = NodeInfo { identity: Identity { key, name }, endpoint, meta_data: MetaData::default() };
    (answered >= 0).then_some(KeptPeer { info, answered: Timestamp(answered) })
}

/// Each key once, with its latest answer; those that have answered last first, at most [`MAX_KEPT`].
fn last_first(peers: impl Iterator<Item = KeptPeer>) -> Vec<KeptPeer> {
    let mut by_key = BTreeMap::<PublicKey, KeptPeer>::new();
    for peer in peers {
        let key = peer.info.identity.key;
        if by_key.get(&key).is_none_or(|known| known.answered <= peer.answered) {
            by_key.insert(key, peer);
        }
    }
    let mut peers: Vec<_> = by_key.into_values().collect();
    peers.sort_by_key(|peer| (std::cmp::Reverse(peer.answered), peer.info.identity.key));
    peers.truncate(MAX_KEPT);
    peers
}

/// Writes a text of nodes that can be reached.
pub fn write(peers: &[KeptPeer]) -> Vec<u8> {
    let mut text = String::new();
    for KeptPeer { info, answered } in peers.iter().take(MAX_KEPT) {
        let NodeInfo { identity, endpoint, .. } = info;
        if endpoint.to_connect().is_none() {
            continue;
        }
        let name = identity.name.as_ref().map(|name| name.chars().take(MAX_NAME).collect::<String>());
        let line = json!({
            "publicKey": identity.key.to_string(),
            "name": name,
            "endpoint": endpoint.to_string(),
            "answered": answered.0,
        });
        text.push_str(&line.to_string());
        text.push('\n');
    }
    text.into_bytes()
}

/// The nodes that are kept, and when they are written.
#[derive(Debug, Default)]
pub struct KeptPeers {
    kept: Vec<KeptPeer>,
    /// Keys and endpoints as they were written last, in the order of the keys.
    written: Vec<(PublicKey, Endpoint)>,
    written_at: Option<Duration>,
    next_look: Duration,
}

impl KeptPeers {
    /// Those of a text.
    pub fn read(text: &[u8]) -> KeptPeers {
        let kept = read(text);
        let written = places(&kept);
        KeptPeers { kept, written, ..KeptPeers::default() }
    }

    /// The nodes, those that have answered last first.
    pub fn nodes(&self) -> &[KeptPeer] {
        &self.kept
    }

    /// The text, if it is to be written: at once when the first node is known, soon when others are, and with what has
    /// changed since when this node is about to end. A node that is known no more is kept until there is no room.
    pub fn to_write(&mut self, peers: &Peers, now: Now, is_last: bool) -> Option<Vec<u8>> {
        if now.running < self.next_look && !is_last {
            return None;
        }
        self.next_look = now.running + LOOK_EVERY;
        self.kept = last_first(std::mem::take(&mut self.kept).into_iter().chain(peers.to_keep(now)));
        let places = places(&self.kept);
        let since = self.written_at.map(|at| now.running.saturating_sub(at));
        let is_due = match places == self.written {
            true => since.is_none_or(|since| since >= BETWEEN_SAME),
            false => self.written.is_empty() || since.is_none_or(|since| since >= BETWEEN_NEW),
        };
        if self.kept.is_empty() || !(is_due || is_last) {
            return None;
        }
        (self.written, self.written_at) = (places, Some(now.running));
        Some(write(&self.kept))
    }
}

fn places(kept: &[KeptPeer]) -> Vec<(PublicKey, Endpoint)> {
    let mut places: Vec<_> = kept.iter().map(|peer| (peer.info.identity.key, peer.info.endpoint.clone())).collect();
    places.sort_by_key(|(key, _)| *key);
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::testing::{Behaviour, Scene, info, settings};

    fn peer(number: usize, answered: i32) -> KeptPeer {
        let info = NodeInfo { meta_data: MetaData::default(), ..info(number) };
        KeptPeer { info, answered: Timestamp(answered) }
    }

    #[test]
    fn what_is_written_is_read_again_and_the_rest_of_a_damaged_text_too() {
        let kept = vec![peer(2, 9), peer(1, 7)];
        let text = write(&kept);
        assert_eq!(read(&text), kept);
        let end = text.iter().position(|byte| *byte == b'\n').expect("a line");
        for cut in [0, 1, end - 1] {
            assert!(read(&text[..cut]).is_empty());
        }
        assert_eq!(read(&text[..end]), [peer(2, 9)], "the end of its line is not needed");
        assert_eq!(read(&[b"{\n[]\n7\n\xff\n".to_vec(), text.clone(), vec![0; 5_000]].concat()), kept);
        // The same node twice counts with its last answer.
        assert_eq!(read(&[text, write(&[peer(1, 30)])].concat()), [peer(1, 30), peer(2, 9)]);
    }

    #[test]
    fn no_more_is_read_than_may_be_kept() {
        let many: Vec<_> = (0..2_000).map(|number| peer(number, number as i32)).collect();
        let text: Vec<u8> = many.chunks(MAX_KEPT).flat_map(write).collect();
        assert!(text.len() > MAX_BYTES && read(&text).len() == MAX_KEPT);
        let long = KeptPeer {
            info: NodeInfo {
                identity: Identity { name: Some("é".repeat(5_000)), ..info(1).identity },
                ..peer(1, 1).info
            },
            ..peer(1, 1)
        };
        assert_eq!(read(&write(&[long]))[0].info.identity.name, Some("é".repeat(MAX_NAME)));
        let nowhere =
            KeptPeer { info: NodeInfo { endpoint: Endpoint { port: 0, ..info(1).endpoint }, ..info(1) }, ..peer(1, 1) };
        assert_eq!(write(&[nowhere]), b"");
    }

    #[test]
    fn the_first_node_is_written_at_once_others_soon_and_what_does_not_change_seldom() {
        let mut scene = Scene::new(settings(&[0]), 2);
        let mut kept = KeptPeers::default();
        assert_eq!(kept.to_write(&scene.peers, scene.now(), true), None, "nobody has answered");
        scene.run_seconds(6);
        let text = kept.to_write(&scene.peers, scene.now(), false).expect("a text");
        assert_eq!(read(&text).iter().map(|kept| kept.info.endpoint.clone()).collect::<Vec<_>>(), [info(0).endpoint]);
        // Another one becomes known.
        scene.others[0].list = vec![info(1)];
        let mut texts = Vec::new();
        for _ in 0..200 {
            scene.run_seconds(5);
            texts.extend(kept.to_write(&scene.peers, scene.now(), false));
        }
        assert_eq!(texts.iter().map(|text| read(text).len()).collect::<Vec<_>>(), [2]);
        // Nobody answers any more: they are kept all the same.
        scene.others.iter_mut().for_each(|other| other.behaviour = Behaviour::Unreachable);
        scene.run_seconds(5 * 3_600);
        let text = kept.to_write(&scene.peers, scene.now(), true).expect("the last text");
        assert_eq!(read(&text).len(), 2);
    }

    #[test]
    fn kept_nodes_are_asked_without_being_told_of_and_nothing_is_harvested_before_one_has_answered() {
        let text = write(&[peer(0, 5), peer(1, 7)]);
        for (behaviour, waits) in [(Behaviour::Good, 0), (Behaviour::Unreachable, 60)] {
            let mut scene = Scene::new(settings(&[]), 2);
            scene.others.iter_mut().for_each(|other| other.behaviour = behaviour.clone());
            scene.peers.know_again(KeptPeers::read(&text).nodes());
            scene.run_seconds(1);
            assert_eq!(scene.asked("/node/info"), [1, 0], "those that have answered last first");
            let until = scene.peers.waits_until(scene.now().running).as_secs();
            assert_eq!((until, scene.peers.has_active_node()), (waits, waits == 0));
            assert!(scene.peers.known().iter().all(|known| !known.is_pre_trusted && known.experience.calls() == 0));
            scene.run_seconds(3_600);
            assert!(scene.peers.waits_until(scene.now().running) <= scene.now().running);
        }
        let mut alone = Scene::new(settings(&[]), 0);
        alone.run_seconds(1);
        assert_eq!(alone.peers.waits_until(alone.now().running), Duration::ZERO, "it never knew anybody");
    }

    #[test]
    fn a_listed_node_is_not_asked_where_it_was_kept() {
        let there = Endpoint::http("66.6.6.6", 7890);
        let mut scene = Scene::new(settings(&[0]), 1);
        scene.others[0].behaviour = Behaviour::Unreachable;
        let relay = scene.relay(0, there.clone());
        let info = NodeInfo { endpoint: there, ..info(0) };
        scene.peers.know_again(&[KeptPeer { info, answered: Timestamp(5) }]);
        scene.run_seconds(600);
        assert_eq!((scene.place(0), scene.peers.has_active_node()), (Some(peer(0, 0).info.endpoint), false));
        assert!(!scene.asked("/node/info").contains(&relay));
    }

    #[test]
    fn a_kept_node_that_comes_late_is_asked_again() {
        let mut scene = Scene::new(settings(&[]), 1);
        scene.others[0].behaviour = Behaviour::Unreachable;
        scene.peers.know_again(&[peer(0, 5)]);
        scene.run_seconds(100);
        assert!(!scene.peers.has_active_node());
        scene.others[0].behaviour = Behaviour::Good;
        scene.run_seconds(120);
        assert!(scene.peers.has_active_node());
    }
}
