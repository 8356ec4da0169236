//! Signs of life: messages of nodes that announce themselves.
//!
//! An unknown sender is verified by a request to the address that the message came from, and to no other, so that
//! nobody can direct requests at third parties. A known peer is probed at its known endpoint, wherever the message came
//! from (see [`contacts`](super::contacts)).
//!
//! **Unknown senders** have [`MAX_MEETINGS`] slots, [`MAX_MEETINGS_PER_ADDRESS`] per host. When all are taken, a new
//! sender evicts a slot of the network (/24 of IPv4, /48 of IPv6) that holds most, there of the host that holds most,
//! and there the oldest: at once if it holds at least two more than the newcomer, or, if it holds one more, once the
//! slot is [`PATIENCE`] old. So unresponsive senders, however many networks they have, delay a newcomer no longer than
//! it takes to work through as many others as they bring, [`MAX_MEETINGS`] per [`PATIENCE`]. Additional addresses in a
//! network do not help them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::Peers;
use super::calls::{Ended, Purpose};
use super::contacts::{Contact, Way};
use super::mishap::{Mishap, words};
use crate::ip::site;
use crate::model::Address;
use crate::peer::nodes::{self, State};
use crate::peer::outside::{MeetingId, Now, Outside, Reply};
use crate::peer::wire::{Endpoint, NodeInfo, Query};

/// Maximum number of unverified senders.
pub const MAX_MEETINGS: usize = 64;
/// Maximum number of them per host.
pub const MAX_MEETINGS_PER_ADDRESS: usize = 8;
/// Time for which an unknown sender keeps the only slot of its network when slots are short.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of running probes caused by signs of life; pre-trusted peers are probed beyond it.
pub const MAX_REVIVALS: usize = 32;
/// Maximum number of them per network of the sender.
pub const MAX_REVIVALS_PER_NETWORK: usize = 8;

/// Error for a sender that finds no slot.
const TOO_MANY: &str = "too many signs of life at once";

/// Result of a sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// No effect; answer with status 200.
    Ignored,
    /// [`Outside::met`] is called later and once with the answer.
    Waiting(MeetingId),
    /// The sender cannot be verified; answer with status 500 and this message.
    Failed(&'static str),
}

/// Unverified sender.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Host of the sender.
    host: IpAddr,
    since: Duration,
}

/// Unverified senders.
#[derive(Debug, Default)]
pub struct Meetings {
    begun: u64,
    /// In order of arrival.
    open: BTreeMap<MeetingId, Waiting>,
}

impl Meetings {
    /// Returns the number of unverified senders.
    pub fn count(&self) -> usize {
        self.open.len()
    }

    fn held_by(&self, host: IpAddr) -> usize {
        self.open.values().filter(|waiting| waiting.host == host).count()
    }

    fn held_by_network(&self, host: IpAddr) -> usize {
        self.open.values().filter(|waiting| site(waiting.host) == site(host)).count()
    }

    /// Returns the slot that a sender from this host evicts when all are taken: of a network that holds more slots than
    /// its own network, or else of its own network. Quadratic in the slots.
    fn gives_way_to(&self, host: IpAddr, now: Duration) -> Option<MeetingId> {
        let held = (self.held_by_network(host), self.held_by(host));
        let counts = |(id, waiting): (&MeetingId, &Waiting)| {
            ((self.held_by_network(waiting.host), self.held_by(waiting.host)), site(waiting.host), *id)
        };
        let all: Vec<_> = self.open.iter().rev().map(counts).collect();
        // Of equals, `max_by_key` returns the last, which is the oldest.
        let most = all.iter().max_by_key(|(counts, ..)| *counts).filter(|((in_network, _), ..)| *in_network > held.0);
        let (most, held, longest) = match most {
            Some(((in_network, _), _, id)) => (*in_network, held.0, *id),
            None => {
                let own = all.iter().filter(|(_, network, _)| *network == site(host));
                let ((_, at_host), _, id) = own.max_by_key(|(counts, ..)| *counts)?;
                (*at_host, held.1, *id)
            }
        };
        let is_tried = self.open.get(&longest).is_some_and(|waiting| now.saturating_sub(waiting.since) >= PATIENCE);
        (most > held + 1 || (most > held && is_tried)).then_some(longest)
    }
}

impl Peers {
    /// Handles a sign of life that came from address `from`.
    pub fn sign_of_life(&mut self, node: &NodeInfo, from: IpAddr, now: Now, outside: &mut impl Outside) -> Meeting {
        let from = from.to_canonical();
        let address = self.address_of(node);
        let is_elsewhere = node.endpoint.address().is_some_and(|ip| ip.to_canonical() != from);
        let is_own = address == self.address;
        if !self.is_booted() || is_own || is_elsewhere || !self.local.meta_data.is_compatible(&node.meta_data) {
            return Meeting::Ignored;
        }
        let there = NodeInfo { endpoint: at_address(&node.endpoint, from), ..node.clone() };
        if self.nodes.get(&address).is_some() {
            self.look_at_known(address, there.endpoint, now, outside);
            return Meeting::Ignored;
        }
        let host = nodes::host(from);
        if self.meetings.held_by(host) >= MAX_MEETINGS_PER_ADDRESS {
            return Meeting::Failed(TOO_MANY);
        }
        let is_full = self.meetings.count() >= MAX_MEETINGS;
        let given_up = if is_full { self.meetings.gives_way_to(host, now.running) } else { None };
        if is_full && given_up.is_none() {
            return Meeting::Failed(TOO_MANY);
        }
        self.meetings.begun += 1;
        let meeting = MeetingId(self.meetings.begun);
        if !self.ask(&there, &Query::NodeInfo, Purpose::Meeting(meeting), outside) {
            return Meeting::Failed("the node cannot be reached");
        }
        if let Some(given_up) = given_up {
            self.meetings.open.remove(&given_up);
            self.calls.give_up(&Purpose::Meeting(given_up), now.running, outside);
            outside.met(given_up, Some(TOO_MANY.to_owned()));
        }
        self.meetings.open.insert(meeting, Waiting { host, since: now.running });
        self.calls.send(now, outside);
        Meeting::Waiting(meeting)
    }

    /// Probes a known peer that a sign of life or an answer places at `endpoint`, unless it is active there. A peer
    /// that just failed at its known endpoint is probed there at once if it may have moved or was saved with this
    /// endpoint.
    pub(super) fn look_at_known(&mut self, address: Address, endpoint: Endpoint, now: Now, outside: &mut impl Outside) {
        let Some(known) = self.nodes.get(&address) else { return };
        let info = known.about.info.clone();
        let is_as_known = known.state == State::Active && (known.is_pre_trusted || info.endpoint == endpoint);
        let (host, is_there) = (endpoint.address().map(nodes::host), info.endpoint == endpoint);
        let by = host.map(site);
        let revivals = self.contacts.count(Way::Revival) + self.contacts.count(Way::Move);
        let is_within_share = revivals < MAX_REVIVALS && self.contacts.count_by(by) < MAX_REVIVALS_PER_NETWORK;
        // Pre-trusted peers are limited by the operator's list and get room in any case.
        let has_room = known.is_pre_trusted || is_within_share;
        let there = NodeInfo { endpoint, ..info.clone() };
        if is_as_known || !has_room || self.contacts.has(&info) || self.contacts.has(&there) {
            return;
        }
        let contact = if self.nodes.look_after_sign(&address, now.running) {
            Contact::with_moving(&info, Way::Revival, there.endpoint)
        } else if host.is_some_and(|host| self.nodes.ask_at_once_after_sign(&address, host, is_there, now.running)) {
            Contact::with(&there, if is_there { Way::Revival } else { Way::Move })
        } else {
            return;
        };
        self.contact(contact.because_of(by), outside);
        self.calls.send(now, outside);
    }

    /// Processes the identity of the sender of a sign of life, or the failure of the request.
    pub(super) fn meeting_ended(
        &mut self,
        meeting: MeetingId,
        ended: Ended,
        reply: Reply,
        now: Now,
        outside: &mut impl Outside,
    ) {
        if self.meetings.open.remove(&meeting).is_none() {
            return;
        }
        let asked_at = ended.endpoint.clone();
        match self.introduction(ended, reply) {
            Ok((told, ip)) => {
                outside.met(meeting, None);
                self.has_answered(NodeInfo { endpoint: asked_at, ..told }, ip, now);
            }
            Err(Mishap { reason, .. }) => {
                log::debug!("the sender of a sign of life cannot be asked back: {reason}");
                outside.met(meeting, Some(words(&reason)));
            }
        }
    }
}

/// Replaces the host of an endpoint.
fn at_address(endpoint: &Endpoint, ip: IpAddr) -> Endpoint {
    let host = match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    Endpoint { host, ..endpoint.clone() }
}
