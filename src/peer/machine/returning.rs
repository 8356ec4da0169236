//! A node that returns to its network: it asks the nodes that it knew before it was stopped, and does not make blocks
//! before one of them has answered where it is known, whoever else is there. Else one that was restarted would go on by
//! itself for as long as others take to find it again, on a chain of its own.

use std::time::Duration;

use super::contacts::{Contact, Way};
use super::{About, Peers};
use crate::model::{Address, Timestamp};
use crate::peer::kept_peers::{KeptPeer, MAX_KEPT};
use crate::peer::nodes::Node;
use crate::peer::outside::Now;
use crate::peer::wire::Endpoint;

/// How long a node that knew others makes no blocks if none of them answers.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Most kept nodes that are asked in a refresh.
pub const MAX_ASKED: usize = 24;
/// After so many attempts a kept node is asked only as long as no node is active.
const ATTEMPTS: u32 = 5;

/// What is waited for after the start.
#[derive(Debug, Default)]
pub struct Returning {
    /// Nodes that are kept from before the start, those that had answered last first.
    kept: Vec<Address>,
    /// Whether there was anybody to be waited for.
    knew_others: bool,
    /// Whether one that was known at the start has answered where it was.
    pub(super) is_answered: bool,
    /// When this node has joined its network.
    joined: Option<Duration>,
}

impl Peers {
    /// Takes nodes that were known before this one was started, before it does anything else. They are known from now on
    /// where they were, so that nobody else takes their names.
    pub fn know_again(&mut self, kept: &[KeptPeer]) {
        for KeptPeer { info, .. } in kept.iter().take(MAX_KEPT) {
            let (address, ip) = (self.address_of(info), info.endpoint.address());
            if address == self.address {
                continue;
            }
            let about = About { info: info.clone(), height: None, score: None };
            match self.nodes.add_kept(address, ip, about) {
                Ok(()) => self.returning.kept.push(address),
                Err(refused) => log::debug!("{address} is not known again: {refused:?}"),
            }
        }
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
    /// soon as one has where it was known, and where there was none.
    pub fn waits_until(&self, now: Duration) -> Duration {
        let end = self.returning.joined.map_or(Duration::MAX, |joined| joined + LONGEST_WAIT);
        match self.returning.knew_others && now < end && !self.returning.is_answered {
            true => end,
            false => Duration::ZERO,
        }
    }

    /// This node has joined its network.
    pub(super) fn begin_to_return(&mut self, now: Now) {
        let others = self.nodes.len() + self.unpinned.len();
        self.returning.joined = Some(now.running);
        self.returning.knew_others = others > 0;
        if others > 0 {
            log::info!(
                "nodes that are known from before or listed: {others}; no block is made until one has answered, or for {} s",
                LONGEST_WAIT.as_secs()
            );
        }
    }

    /// Nodes that are kept from before the start and have not answered since, those that were asked least first.
    fn still_kept(&self) -> Vec<(&Address, &Node<About>)> {
        let is_kept = |node: &Node<About>| !node.is_pre_trusted && node.last_contact.is_none();
        let known = self.returning.kept.iter().filter_map(|address| Some((address, self.nodes.get(address)?)));
        let mut kept: Vec<_> = known.filter(|(_, node)| is_kept(node)).collect();
        kept.sort_by_key(|(_, node)| node.failures);
        kept.truncate(MAX_ASKED);
        kept
    }

    /// Where kept nodes are that have not answered yet.
    pub(super) fn kept_endpoints(&self) -> Vec<Endpoint> {
        self.still_kept().into_iter().map(|(_, node)| node.about.info.endpoint.clone()).collect()
    }

    /// Contacts with kept nodes that have not answered yet, and are not among those that are drawn.
    pub(super) fn contacts_to_return(&self, drawn: &[Address]) -> Vec<(Address, Contact)> {
        let is_alone = !self.has_active_node();
        let is_asked = |node: &Node<About>| is_alone || node.failures < ATTEMPTS;
        let kept = self.still_kept().into_iter().filter(|(address, node)| is_asked(node) && !drawn.contains(address));
        kept.map(|(address, node)| (*address, Contact::with(&node.about.info, Way::Drawn))).collect()
    }
}
