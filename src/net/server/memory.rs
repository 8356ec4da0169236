//! Memory held for clients, in buffers and by the kernel. When it is too much, the largest connections of the largest
//! clients are closed.

use std::collections::{BinaryHeap, HashMap};

use super::{Connection, Server};
use crate::metrics::subtract;
use crate::net::client_table::ClientId;
use crate::net::connection::{Closing, Input};
use crate::net::http::HttpError;
use crate::net::metrics::Stats;
use crate::net::socket::Socket;

/// A spare buffer larger than this is freed.
const MAX_SPARE_BYTES: usize = 256 * 1024;

/// Connections closed at a time because the buffers exceed their limit.
const MAX_EVICTIONS: usize = 16;

/// Connections measured at a time for unacknowledged bytes.
const MAX_MEASUREMENTS: usize = 512;

/// Kernel memory that may be held for a client.
#[derive(Default)]
struct KernelUsage {
    bytes: usize,
    /// Bytes of each connection, whether they are an estimate, and its slot.
    connections: BinaryHeap<(usize, bool, usize)>,
}

impl<S: Socket> Server<S> {
    /// Returns lent buffers, updates the usage, and evicts while too much is held.
    pub(super) fn update_usage(&mut self, slot: usize) {
        if let Some(connection) = self.slab.get_mut(slot) {
            connection.output.release(&mut self.spare_output);
            trim(&mut self.spare_output);
        }
        self.recheck_quota(slot);
        if let Some(connection) = self.slab.get(slot) {
            let held = connection.input.as_ref().map_or(0, Input::held_bytes) + connection.output.held_bytes();
            self.set_held_bytes(slot, held);
        }
        self.evict_kernel_excess();
        for _ in 0..MAX_EVICTIONS {
            let Some(excess) = self.largest_excess(slot) else { return };
            self.evict(excess);
        }
    }

    /// Sets the bytes held in buffers for a connection, and updates those held by the kernel.
    fn set_held_bytes(&mut self, slot: usize, held: usize) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        let before = std::mem::replace(&mut connection.counted_bytes, held);
        self.stats.buffered_bytes = self.stats.buffered_bytes.saturating_add(held);
        subtract(&mut self.stats.buffered_bytes, before);
        update_kernel_bytes(connection, &mut self.stats);
        self.clients.update_held_bytes(connection.client_id, before, held);
    }

    /// Returns the connection to close because too much is buffered: the largest of the largest client if the total is
    /// exceeded, or else the largest of the client of `slot` if that exceeds its limit and is no proxy.
    fn largest_excess(&self, slot: usize) -> Option<usize> {
        let exceeds = |own: &&Connection<S>| {
            self.clients.exceeds_held_bytes(own.client_id) && !self.trusted_proxies.is_trusted(own.peer)
        };
        let largest_client = match self.slab.get(slot).filter(exceeds) {
            _ if self.stats.buffered_bytes > self.limits.buffered_bytes => self.clients.largest()?,
            own => own?.client_id,
        };
        let candidates = self.slab.iter().filter(|(_, connection)| connection.client_id == largest_client);
        let largest = candidates.max_by_key(|(_, connection)| connection.counted_bytes);
        largest.filter(|(_, connection)| connection.counted_bytes > 0).map(|(slot, _)| slot)
    }

    /// Closes a connection whose client holds too much.
    fn evict(&mut self, slot: usize) {
        let Some(connection) = self.slab.get(slot) else { return };
        log::info!("{:?}: closed: the memory for buffers is exhausted, and its client holds the most", connection.id);
        if connection.is_websocket || connection.closing != Closing::Open || !connection.output.is_empty() {
            return self.remove(slot);
        }
        self.reject(slot, HttpError::Overloaded);
        let held = self.slab.get(slot).map_or(0, |connection| connection.output.held_bytes());
        self.set_held_bytes(slot, held);
    }

    /// Drops the websocket with the most shared bytes pending if there are too many.
    pub(super) fn limit_shared_bytes(&mut self) {
        if self.shared_bytes.held_bytes() <= self.limits.shared_bytes {
            return;
        }
        let waiting = self.slab.iter().filter(|(_, connection)| connection.is_open_websocket());
        let slowest = waiting.max_by_key(|(_, connection)| connection.output.shared_pending());
        let slowest = slowest.filter(|(_, connection)| connection.output.shared_pending() > 0);
        if let Some(id) = slowest.map(|(_, connection)| connection.id) {
            self.drop_slow(id, "the memory for queued messages is exhausted");
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

    /// Closes connections if the kernel holds too much.
    pub(super) fn evict_kernel_excess(&mut self) {
        if self.stats.kernel_bytes <= self.limits.kernel_bytes {
            return;
        }
        // The count is an upper bound; measure before closing anything.
        let all_are_known = self.measure_unsent(false);
        if !all_are_known || self.stats.kernel_bytes <= self.limits.kernel_bytes {
            return;
        }
        let excess = self.kernel_evictions();
        if !excess.is_empty() {
            log::info!("{} connections closed: the kernel held too much that clients did not receive", excess.len());
        }
        self.stats.kernel_evicted += excess.len() as u64;
        excess.into_iter().for_each(|slot| self.remove(slot));
    }

    /// Returns the connections to close because the kernel holds too much: the largest of the largest clients, until a
    /// quarter is free. Each is measured first; at most `MAX_MEASUREMENTS` per call.
    fn kernel_evictions(&mut self) -> Vec<usize> {
        let mut by_client: HashMap<ClientId, KernelUsage> = HashMap::new();
        for (slot, connection) in &mut self.slab {
            update_kernel_bytes(connection, &mut self.stats);
            let bytes = connection.kernel_bytes();
            if bytes > 0 {
                let held = by_client.entry(connection.client_id).or_default();
                held.bytes += bytes;
                held.connections.push((bytes, true, slot));
            }
        }
        let mut clients: BinaryHeap<_> = by_client.iter().map(|(client, held)| (held.bytes, *client)).collect();
        let (mut excess, mut measured, mut held) = (Vec::new(), 0, self.stats.kernel_bytes);
        while held > self.limits.kernel_bytes / 4 * 3
            && measured < MAX_MEASUREMENTS
            && let Some((sum, client)) = clients.pop()
            && let Some(KernelUsage { connections, .. }) = by_client.get_mut(&client)
            && let Some((bytes, is_estimate, slot)) = connections.pop()
            && let Some(connection) = self.slab.get_mut(slot)
        {
            let mut left = 0;
            if is_estimate {
                measured += 1;
                connection.measure_unsent();
                connection.measure_unread();
                update_kernel_bytes(connection, &mut self.stats);
                left = connection.kernel_bytes();
                connections.push((left, false, slot));
            } else {
                excess.push(slot);
            }
            let change = |all: usize| all.saturating_sub(bytes).saturating_add(left);
            held = change(held);
            clients.push((change(sum), client));
        }
        excess
    }
}

/// Updates the kernel memory of a connection in the total.
fn update_kernel_bytes<S: Socket>(connection: &mut Connection<S>, stats: &mut Stats) {
    let held = connection.kernel_bytes();
    let before = std::mem::replace(&mut connection.counted_kernel_bytes, held);
    stats.kernel_bytes = stats.kernel_bytes.saturating_add(held);
    subtract(&mut stats.kernel_bytes, before);
}

/// Frees a spare buffer that became unusually large.
pub(super) fn trim(spare: &mut Vec<u8>) {
    if spare.capacity() > MAX_SPARE_BYTES {
        *spare = Vec::new();
    }
}
