//! A node that returns to its network: it asks the nodes that it knew before it was stopped, and does not make blocks
//! before one of them has answered. Else one that was restarted would go on by itself for as long as others take to find it
//! again, on a chain of its own.

use std::time::Duration;

use super::Peers;
use super::contacts::{Contact, Way};
use crate::model::Timestamp;
use crate::peer::kept_peers::{KeptPeer, MAX_KEPT};
use crate::peer::outside::Now;
use crate::peer::wire::NodeInfo;

/// How long a node that knew others makes no blocks if none of them answers.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Most kept nodes that are asked in a refresh.
pub const MAX_ASKED: usize = 24;
/// After so many attempts a kept node is asked only as long as no node is active.
const ATTEMPTS: u32 = 5;

/// Nodes that were known before this one was started, and have not answered since.
#[derive(Debug, Default)]
pub struct Returning {
    /// Each with how often it was asked.
    nodes: Vec<(NodeInfo, u32)>,
    /// Whether there was anybody to be waited for.
    knew_others: bool,
    /// When this node has joined its network.
    joined: Option<Duration>,
}

impl Peers {
    /// Takes nodes that were known before this one was started, before it does anything else.
    pub fn know_again(&mut self, kept: &[KeptPeer]) {
        let others = kept.iter().filter(|kept| self.address_of(&kept.info) != self.address).take(MAX_KEPT);
        self.returning.nodes = others.map(|kept| (kept.info.clone(), 0)).collect();
    }

    /// The nodes that have answered since the start, which are to be kept over the next one.
    pub fn to_keep(&self, now: Now) -> impl Iterator<Item = KeptPeer> {
        self.nodes.iter().filter_map(move |(_, node)| {
            let ago = now.running.saturating_sub(node.last_contact?).as_secs();
            let answered = now.time.0.saturating_sub(i32::try_from(ago).unwrap_or(i32::MAX)).max(0);
            Some(KeptPeer { info: node.about.info.clone(), answered: Timestamp(answered) })
        })
    }

    /// Before this moment no block is to be made: a node that this one knew is about to answer, maybe. It is in the past as
    /// soon as one has, and where there was none.
    pub fn waits_until(&self, now: Duration) -> Duration {
        let end = self.returning.joined.map_or(Duration::MAX, |joined| joined + LONGEST_WAIT);
        match self.returning.knew_others && now < end && !self.has_active_node() {
            true => end,
            false => Duration::ZERO,
        }
    }

    /// This node has joined its network.
    pub(super) fn begin_to_return(&mut self, now: Now) {
        let others = self.returning.nodes.len() + self.nodes.len() + self.unpinned.len();
        self.returning.joined = Some(now.running);
        self.returning.knew_others = others > 0;
        if others > 0 {
            log::info!(
                "nodes that are known from before or listed: {others}; no block is made until one has answered, or for {} s",
                LONGEST_WAIT.as_secs()
            );
        }
    }

    /// Contacts with kept nodes that have not answered yet, those that were asked least first.
    pub(super) fn contacts_to_return(&mut self) -> Vec<Contact> {
        let mut nodes = std::mem::take(&mut self.returning.nodes);
        // Those of the list are asked where the list has them.
        nodes.retain(|(info, _)| self.nodes.get(&self.address_of(info)).is_none());
        nodes.sort_by_key(|(_, attempts)| *attempts);
        let is_alone = !self.has_active_node();
        let mut contacts = Vec::new();
        for (info, attempts) in
            nodes.iter_mut().take(MAX_ASKED).filter(|(_, attempts)| is_alone || *attempts < ATTEMPTS)
        {
            *attempts = attempts.saturating_add(1);
            contacts.push(Contact::with(info, Way::Hearsay));
        }
        self.returning.nodes = nodes;
        contacts
    }
}
