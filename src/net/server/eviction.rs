//! Who gives way when connections, buffers or kernel memory are short: what a [`Quota`] names.
//!
//! Activity of connections is not recorded as it happens: one that would give way is checked, and ranked anew if it was
//! active since or is busy. A check costs a few steps in a tree and is amortised by the activity since the last one.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Server;
use super::connection::{Closing, Connection, Input};
use crate::http::HttpError;
use crate::metrics::Stats;
use crate::quota::Quota;
use crate::service::ConnectionId;
use crate::socket::Socket;

/// Connections checked when choosing one to evict.
const MAX_EVICTION_CHECKS: usize = 256;

/// A busy connection counts as active for this long after a check.
const BUSY_RECHECK_TIME: Duration = Duration::from_secs(1);

/// Rejected connections that stay open until the client has read the reason; beyond this the oldest is dropped.
pub const MAX_REJECTED_CONNECTIONS: usize = 64;

/// A spare buffer larger than this is freed.
const MAX_SPARE_BYTES: usize = 256 * 1024;

/// Connections closed at a time because the buffers exceed their limit.
const MAX_EVICTIONS: usize = 16;

/// Connections measured at a time for unacknowledged bytes.
const MAX_MEASUREMENTS: usize = 512;

/// The part of the buffers that one network may have is all of them divided by this.
const NETWORK_PART: usize = 8;

impl<S: Socket> Server<S> {
    /// Evicts the connection that gives way. Returns whether there was one.
    pub fn evict_connection(&mut self) -> bool {
        let now = self.time.monotonic;
        for check in 1..=MAX_EVICTION_CHECKS {
            let Some((owner, slot)) = self.clients.places.gives_way() else { break };
            let Some(connection) = self.slab.get_mut(slot) else { break };
            self.stats.eviction_checks += 1;
            connection.measure_unsent();
            let seen = if connection.is_busy() { now + BUSY_RECHECK_TIME } else { connection.last_active };
            if check == MAX_EVICTION_CHECKS || seen <= connection.last_seen || connection.last_seen > now {
                self.stats.evicted += 1;
                self.remove(slot);
                return true;
            }
            connection.last_seen = seen;
            self.clients.places.hold(slot, owner, 1, seen);
        }
        false
    }

    /// Counts a rejected connection, and drops the oldest ones while there are too many.
    pub(super) fn note_rejected(&mut self, id: ConnectionId) {
        self.stats.rejected += 1;
        while self.rejected.len() >= MAX_REJECTED_CONNECTIONS
            && let Some(oldest) = self.rejected.pop_front()
        {
            if self.connection(oldest).is_some() {
                self.remove(oldest.slot());
            }
        }
        self.rejected.push_back(id);
    }

    /// Returns lent buffers, updates the usage, and evicts while too much is held.
    pub(super) fn update_usage(&mut self, slot: usize) {
        if let Some(connection) = self.slab.get_mut(slot) {
            connection.output.release(&mut self.spare_output);
            trim(&mut self.spare_output);
        }
        self.set_held_bytes(slot);
        self.evict_kernel_excess();
        for _ in 0..MAX_EVICTIONS {
            let Some(excess) = self.buffer_excess(slot) else { return };
            self.evict(excess);
        }
    }

    /// Sets the bytes held in buffers for a connection, and updates those held by the kernel.
    fn set_held_bytes(&mut self, slot: usize) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        let held = connection.input.as_ref().map_or(0, Input::held_bytes) + connection.output.held_bytes();
        update_kernel_bytes(connection, &mut self.stats);
        if std::mem::replace(&mut connection.counted_bytes, held) != held {
            self.clients.buffers.hold(slot, connection.owner, held, self.time.monotonic);
        }
    }

    /// Returns the connection to close because too much is buffered in all, or for the network of `slot`. Requests of this
    /// machine and connections of proxies, whose clients are not known yet, may take all.
    fn buffer_excess(&self, slot: usize) -> Option<usize> {
        let (buffers, max) = (&self.clients.buffers, self.limits.buffered_bytes);
        if buffers.total() > max {
            return buffers.gives_way().map(|(_, slot)| slot);
        }
        if buffers.total() <= max / NETWORK_PART {
            return None;
        }
        let connection = self.slab.get(slot)?;
        let is_exempt = connection.owner.is_local() || self.limits.trusted_proxies.contains(connection.peer.address);
        if is_exempt || buffers.held_by_network(connection.owner) <= max / NETWORK_PART {
            return None;
        }
        buffers.gives_way_beside(connection.owner).map(|(_, slot)| slot)
    }

    /// Closes a connection whose client holds too much.
    fn evict(&mut self, slot: usize) {
        let Some(connection) = self.slab.get(slot) else { return };
        log::info!("{:?}: closed: the memory for buffers is exhausted, and its client holds the most", connection.id);
        if connection.is_websocket || connection.closing != Closing::Open || !connection.output.is_empty() {
            return self.remove(slot);
        }
        self.reject(slot, HttpError::overloaded("the node is short of memory, and this client holds the most of it"));
        self.set_held_bytes(slot);
    }

    /// Drops the connection with the most shared bytes pending of the client with the most, if there are too many.
    pub(super) fn limit_shared_bytes(&mut self) {
        if self.shared_bytes.held_bytes() <= self.limits.shared_bytes {
            return;
        }
        let mut pending = Quota::default();
        for (slot, connection) in self.slab.iter().filter(|(_, connection)| connection.output.shared_pending > 0) {
            pending.hold(slot, connection.owner, connection.output.shared_pending, connection.last_active);
        }
        if let Some((_, slot)) = pending.gives_way()
            && let Some(connection) = self.slab.get(slot)
        {
            if connection.is_open_websocket() {
                self.drop_slow(connection.id, "the memory for queued messages is exhausted");
            } else {
                self.remove(slot);
            }
        }
    }

    /// Measures the received bytes that were not read, for all connections.
    pub(super) fn measure_unread(&mut self) {
        for (_, connection) in &mut self.slab {
            connection.measure_unread();
            update_kernel_bytes(connection, &mut self.stats);
        }
    }

    /// Measures unacknowledged bytes of some connections, round-robin: with `is_for_all` of any that may have some, or
    /// else of those written to since the last measurement. Returns whether all were measured.
    pub(super) fn measure_unsent(&mut self, is_for_all: bool) -> bool {
        let (slots, mut measured) = (self.slab.capacity(), 0);
        for slot in (self.next_measured..slots).chain(0..self.next_measured.min(slots)) {
            let is_due = |connection: &&mut Connection<S>| {
                connection.has_unsent() && (is_for_all || connection.is_unsent_estimated)
            };
            let Some(connection) = self.slab.get_mut(slot).filter(is_due) else { continue };
            if measured == MAX_MEASUREMENTS {
                self.next_measured = slot;
                return false;
            }
            measured += 1;
            let is_draining = connection.is_draining();
            connection.measure_unsent();
            update_kernel_bytes(connection, &mut self.stats);
            if is_draining && !connection.has_unsent() {
                self.mark_dirty(slot);
            }
        }
        true
    }

    /// Closes connections if the kernel holds too much, until a quarter is free. Each is measured first; at most
    /// `MAX_MEASUREMENTS` per call.
    pub(super) fn evict_kernel_excess(&mut self) {
        let (now, max) = (self.time.monotonic, self.limits.kernel_bytes);
        if self.stats.kernel_bytes <= max {
            return;
        }
        // The count is an upper bound; measure before closing anything.
        let all_are_known = self.measure_unsent(false);
        if !all_are_known || self.stats.kernel_bytes <= max {
            return;
        }
        let (mut held, mut measured, mut closed) = (Quota::default(), BTreeSet::new(), 0);
        for (slot, connection) in &mut self.slab {
            update_kernel_bytes(connection, &mut self.stats);
            held.hold(slot, connection.owner, connection.kernel_bytes(), now);
        }
        while held.total() > max / 4 * 3
            && measured.len() < MAX_MEASUREMENTS
            && let Some((owner, slot)) = held.gives_way()
            && let Some(connection) = self.slab.get_mut(slot)
        {
            if measured.insert(slot) {
                connection.measure_unsent();
                connection.measure_unread();
                update_kernel_bytes(connection, &mut self.stats);
                held.hold(slot, owner, connection.kernel_bytes(), now);
            } else {
                held.release(slot, now);
                self.remove(slot);
                closed += 1;
            }
        }
        self.stats.kernel_evicted += closed;
        if closed > 0 {
            log::info!("{closed} connections closed: the kernel held too much that clients did not receive");
        }
    }
}

/// Updates the kernel memory of a connection in the total.
fn update_kernel_bytes<S: Socket>(connection: &mut Connection<S>, stats: &mut Stats) {
    let held = connection.kernel_bytes();
    let before = std::mem::replace(&mut connection.counted_kernel_bytes, held);
    stats.kernel_bytes = stats.kernel_bytes.saturating_add(held).saturating_sub(before);
}

/// Frees a spare buffer that became unusually large.
pub(super) fn trim(spare: &mut Vec<u8>) {
    if spare.capacity() > MAX_SPARE_BYTES {
        *spare = Vec::new();
    }
}
