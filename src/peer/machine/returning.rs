//! Return to the network after a restart: contacts the saved peers, and suspends harvesting until one of the known
//! peers has answered at its known endpoint. Otherwise it would extend a chain of its own until peers find it.

use std::time::Duration;

use super::contacts::{Contact, Way};
use super::{About, Peers};
use crate::model::{Address, Timestamp};
use crate::peer::kept_peers::{KeptPeer, MAX_KEPT};
use crate::peer::nodes::Node;
use crate::peer::outside::Now;
use crate::peer::wire::Endpoint;

/// Maximum time for which a node that knew peers does not harvest if none of them answers.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Maximum number of saved peers that a refresh probes.
pub const MAX_ASKED: usize = 24;
/// Failures after which a saved peer is probed only while no peer is active.
const ATTEMPTS: u32 = 5;

/// State of the return.
#[derive(Debug, Default)]
pub struct Returning {
    /// Saved peers, latest answer first.
    kept: Vec<Address>,
    /// Whether any peer was known when the node joined.
    knew_others: bool,
    /// Whether a peer known at the start has answered at its endpoint.
    pub(super) is_answered: bool,
    /// When the node joined the network.
    joined: Option<Duration>,
}

impl Peers {
    /// Adds saved peers to the table at their saved endpoints, so that no other node can claim their names.
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

    /// Returns the peers that have answered since the start, to be saved.
    pub fn to_keep(&self, now: Now) -> impl Iterator<Item = KeptPeer> {
        self.nodes.iter().filter_map(move |(_, node)| {
            let ago = now.running.saturating_sub(node.last_contact?).as_secs();
            let answered = now.time.0.saturating_sub(i32::try_from(ago).unwrap_or(i32::MAX)).max(0);
            Some(KeptPeer { info: node.about.info.clone(), answered: Timestamp(answered) })
        })
    }

    /// Returns the time before which no block may be harvested. It is in the past once a peer known at the start has
    /// answered, or if there was none.
    pub fn waits_until(&self, now: Duration) -> Duration {
        let end = self.returning.joined.map_or(Duration::MAX, |joined| joined + LONGEST_WAIT);
        match self.returning.knew_others && now < end && !self.returning.is_answered {
            true => end,
            false => Duration::ZERO,
        }
    }

    /// Starts the wait when the node joins the network.
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

    /// Returns the saved peers that have not answered since the start, fewest failures first, at most [`MAX_ASKED`].
    fn still_kept(&self) -> Vec<(&Address, &Node<About>)> {
        let is_kept = |node: &Node<About>| !node.is_pre_trusted && node.last_contact.is_none();
        let known = self.returning.kept.iter().filter_map(|address| Some((address, self.nodes.get(address)?)));
        let mut kept: Vec<_> = known.filter(|(_, node)| is_kept(node)).collect();
        kept.sort_by_key(|(_, node)| node.failures);
        kept.truncate(MAX_ASKED);
        kept
    }

    /// Returns the endpoints of saved peers that have not answered.
    pub(super) fn kept_endpoints(&self) -> Vec<Endpoint> {
        self.still_kept().into_iter().map(|(_, node)| node.about.info.endpoint.clone()).collect()
    }

    /// Returns probes of saved peers that have not answered and are not selected already.
    pub(super) fn contacts_to_return(&self, drawn: &[Address]) -> Vec<(Address, Contact)> {
        let is_alone = !self.has_active_node();
        let is_asked = |node: &Node<About>| is_alone || node.failures < ATTEMPTS;
        let kept = self.still_kept().into_iter().filter(|(address, node)| is_asked(node) && !drawn.contains(address));
        kept.map(|(address, node)| (*address, Contact::with(&node.about.info, Way::Drawn))).collect()
    }
}
