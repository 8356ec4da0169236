//! Signs of life: nodes that say that they are there. Such a node is asked who it is before it is believed, at the address
//! that it comes from and nowhere else, so that nobody can have others called.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Peers;
use super::calls::{Ended, Purpose};
use super::contacts::{Contact, Way};
use super::mishap::{Mishap, words};
use crate::peer::nodes::{self, State};
use crate::peer::outside::{MeetingId, Now, Outside, Reply};
use crate::peer::wire::{Endpoint, NodeInfo, Query};

/// Most signs of life whose senders wait.
pub const MAX_MEETINGS: usize = 64;
/// Most of them that come from one address.
pub const MAX_MEETINGS_PER_ADDRESS: usize = 8;
/// Most nodes that are contacted at once because they have failed and give signs of life.
pub const MAX_REVIVALS: usize = 8;

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

/// Senders that wait for an answer.
#[derive(Debug, Default)]
pub struct Meetings {
    begun: u64,
    open: BTreeMap<MeetingId, IpAddr>,
}

impl Meetings {
    /// How many wait.
    pub fn count(&self) -> usize {
        self.open.len()
    }
}

impl Peers {
    /// A node says that it is there; `from` is the address that it comes from.
    pub fn sign_of_life(&mut self, node: &NodeInfo, from: IpAddr, now: Now, outside: &mut impl Outside) -> Meeting {
        let from = from.to_canonical();
        let is_elsewhere = node.endpoint.address().is_some_and(|ip| ip.to_canonical() != from);
        let is_own = self.address_of(node) == self.address;
        if !self.is_booted() || is_own || is_elsewhere || !self.local.meta_data.is_compatible(&node.meta_data) {
            return Meeting::Ignored;
        }
        let from_there = self.meetings.open.values().filter(|ip| nodes::host(**ip) == nodes::host(from)).count();
        if self.meetings.open.len() >= MAX_MEETINGS || from_there >= MAX_MEETINGS_PER_ADDRESS {
            return Meeting::Failed("too many signs of life at once");
        }
        self.meetings.begun += 1;
        let meeting = MeetingId(self.meetings.begun);
        let there = NodeInfo { endpoint: at_address(&node.endpoint, from), ..node.clone() };
        if !self.ask(&there, &Query::NodeInfo, Purpose::Meeting(meeting), outside) {
            return Meeting::Failed("the node cannot be reached");
        }
        self.meetings.open.insert(meeting, from);
        self.calls.send(now, outside);
        Meeting::Waiting(meeting)
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
        match self.introduction(ended, reply) {
            Ok((told, ip)) => {
                outside.met(meeting, None);
                self.meet(told, ip, now, outside);
            }
            Err(Mishap { reason, .. }) => {
                log::debug!("the sender of a sign of life cannot be asked back: {reason}");
                outside.met(meeting, Some(words(&reason)));
            }
        }
    }

    /// A node is who it says. One that has failed before has to answer all that others have to.
    fn meet(&mut self, told: NodeInfo, ip: IpAddr, now: Now, outside: &mut impl Outside) {
        let address = self.address_of(&told);
        match self.nodes.get(&address).map(|node| node.state) {
            None | Some(State::Untried | State::Busy) => self.has_answered(told, ip, true, now),
            Some(State::Active) => {}
            Some(State::Inactive | State::Failure) => {
                let has_room = self.contacts.count(Way::Revival) < MAX_REVIVALS;
                if has_room && self.nodes.look_after_sign(&address, now.running) {
                    self.contact(Contact::with(&told, Way::Revival), outside);
                }
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
