//! Usage of the bounded collections of the peer state machine.

use super::Peers;
use super::broadcast::{MAX_BUFFERED, most_buffered_bytes};
use super::calls::{MAX_BYTES, MAX_LATEST, MAX_TARGETS, MAX_UNDER_WAY, MAX_WAITING};
use super::contacts::Way;
use super::meetings::{MAX_MEETINGS, MAX_REVIVALS};
use super::refresh::{CONTACTS_AT_ONCE, MAX_HEARSAY, Refresh};
use crate::peer::Load;
use crate::peer::time_sync::MAX_ROUNDS;

impl Peers {
    /// Returns the usage of every collection that others can make grow.
    pub fn loads(&self) -> Vec<Load> {
        let (under_way, waiting, bytes) = self.calls.load();
        let (buffered, buffered_bytes) = self.buffer.load();
        let refreshing = self.contacts.count(Way::Drawn) + self.contacts.count(Way::Hearsay);
        let mut loads = vec![
            Load::new("requests under way", under_way, MAX_UNDER_WAY),
            Load::new("requests that wait", waiting, MAX_WAITING),
            Load::new("bytes of requests", bytes, MAX_BYTES),
            Load::new("nodes that requests are counted of", self.calls.targets(), MAX_TARGETS),
            Load::new("calls that are told of", self.calls.latest().count(), MAX_LATEST),
            Load::new("transactions to be passed on", buffered, MAX_BUFFERED),
            Load::new("bytes to be passed on", buffered_bytes, most_buffered_bytes(&self.settings)),
            Load::new("signs of life that wait", self.meetings.count(), MAX_MEETINGS),
            Load::new("contacts by signs of life", self.contacts.count(Way::Revival), MAX_REVIVALS),
            Load::new("contacts of a refresh", refreshing, CONTACTS_AT_ONCE),
            Load::new("nodes of hearsay", self.refresh.as_ref().map_or(0, Refresh::hearsay), MAX_HEARSAY),
            Load::new("rounds of time synchronisation", self.time_sync.rounds().count(), MAX_ROUNDS),
        ];
        loads.extend(self.nodes.loads());
        loads.extend(self.experiences.loads());
        loads
    }
}
