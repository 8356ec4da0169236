//! Signs of life: nodes that say that they are there.
//!
//! A stranger is asked who it is before it is believed, at the address that it comes from and nowhere else, so that nobody can
//! have others called. A node that is known is asked where it is known, whoever speaks in its name from wherever; see
//! [`contacts`](super::contacts).
//!
//! **Strangers that wait** have [`MAX_MEETINGS`] places, and [`MAX_MEETINGS_PER_ADDRESS`] from one host. Where all are taken
//! and another one comes, the network (a /24 of IPv4, a /48 of IPv6) that holds most gives way, and of it the host that does,
//! with the place that it has held longest: at once, if it holds two more than the one that comes, and if it holds one more,
//! once that place was held for [`PATIENCE`]. So those who have themselves called and do not answer keep nobody away for
//! longer, however many networks they have, than it takes to get through as many others as they bring: [`MAX_MEETINGS`]
//! in [`PATIENCE`]; how many addresses they have in a network does not matter.

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

/// Most signs of life whose senders wait.
pub const MAX_MEETINGS: usize = 64;
/// Most of them that come from one address.
pub const MAX_MEETINGS_PER_ADDRESS: usize = 8;
/// How long a stranger keeps the only place of its network, where places are short and another one comes.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Most nodes that are contacted at once because signs of life were given in their names; those of the operator's list are
/// contacted besides.
pub const MAX_REVIVALS: usize = 32;
/// Most of them because of signs from one network.
pub const MAX_REVIVALS_PER_NETWORK: usize = 8;

/// Why a stranger is not asked.
const TOO_MANY: &str = "too many signs of life at once";

/// What becomes of a sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// It changes nothing: status 200.
    Ignored,
    /// [`Outside::met`] answers it, later and once.
    Waiting(MeetingId),
    /// Its sender cannot be asked back: status 500 with these words.
    Failed(&'static str),
}

/// A stranger that waits for an answer.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// The host that it comes from.
    host: IpAddr,
    since: Duration,
}

/// Strangers that wait for an answer.
#[derive(Debug, Default)]
pub struct Meetings {
    begun: u64,
    /// In the order in which they came.
    open: BTreeMap<MeetingId, Waiting>,
}

impl Meetings {
    /// How many wait.
    pub fn count(&self) -> usize {
        self.open.len()
    }

    fn held_by(&self, host: IpAddr) -> usize {
        self.open.values().filter(|waiting| waiting.host == host).count()
    }

    fn held_by_network(&self, host: IpAddr) -> usize {
        self.open.values().filter(|waiting| site(waiting.host) == site(host)).count()
    }

    /// Who gives way to another one from this host, if all places are taken: of a network that holds more than its own, or
    /// else of its own. Looks at all of them.
    fn gives_way_to(&self, host: IpAddr, now: Duration) -> Option<MeetingId> {
        let held = (self.held_by_network(host), self.held_by(host));
        let counts = |(id, waiting): (&MeetingId, &Waiting)| {
            ((self.held_by_network(waiting.host), self.held_by(waiting.host)), site(waiting.host), *id)
        };
        let all: Vec<_> = self.open.iter().rev().map(counts).collect();
        // Of equals the last one counts, which has waited longest.
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
    /// A node says that it is there; `from` is the address that it comes from.
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

    /// A sign of life was given in the name of a node that is known, which says that it is at an endpoint. There is nothing
    /// to look at if it is known there, and active. One that was just asked in vain where it is known is asked at the endpoint
    /// at once, if it may move, or if it is kept from before the start and is known there.
    pub(super) fn look_at_known(&mut self, address: Address, endpoint: Endpoint, now: Now, outside: &mut impl Outside) {
        let Some(known) = self.nodes.get(&address) else { return };
        let info = known.about.info.clone();
        let is_as_known = known.state == State::Active && (known.is_pre_trusted || info.endpoint == endpoint);
        let (host, is_there) = (endpoint.address().map(nodes::host), info.endpoint == endpoint);
        let by = host.map(site);
        let revivals = self.contacts.count(Way::Revival) + self.contacts.count(Way::Move);
        let is_within_share = revivals < MAX_REVIVALS && self.contacts.count_by(by) < MAX_REVIVALS_PER_NETWORK;
        // Nobody takes the room of the operator's nodes, which are no more than he has listed.
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

    /// The sender of a sign of life has said who it is, or has failed.
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

/// The endpoint that a node says it has, at another address.
fn at_address(endpoint: &Endpoint, ip: IpAddr) -> Endpoint {
    let host = match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    Endpoint { host, ..endpoint.clone() }
}
