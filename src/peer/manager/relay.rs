//! Relay of blocks (at once) and transactions (in lists, once a second), and signs of life.
//!
//! A peer that does not accept pushes is skipped for a while and delays nobody else. Transactions that do not fit into
//! the buffer are not relayed by this node; peers get them by requesting unconfirmed transactions.

use std::collections::BTreeSet;

use super::requests::RequestKind;
use super::{Manager, PeerSettings, Phase};
use crate::model::{Block, Hash256, Transaction};
use crate::peer::io::Now;
use crate::peer::schedule::Task;
use crate::peer::wire::{List, Message, SecureEntity, limits};

/// Maximum number of transactions in the relay buffer.
pub const MAX_BUFFERED: usize = 2_000;
/// Maximum number of peers that get a sign of life at once, unless more are selected by trust.
pub const MAX_SIGNS_OF_LIFE: usize = 20;
/// Maximum number of them of one network among those not selected by trust, as long as there are others.
pub const MAX_SIGNS_OF_LIFE_PER_NETWORK: usize = 2;
/// Maximum overhead in bytes of a transaction in a list.
const LIST_OVERHEAD: usize = 4;

/// Returns the maximum bytes of the relay buffer: a list must not exceed what a peer like this node accepts.
pub fn max_buffered_bytes(settings: &PeerSettings) -> usize {
    limits::pushed(&settings.chain, settings.format) - limits::ENVELOPE
}

/// Transactions to relay.
#[derive(Debug, Default)]
pub struct RelayBuffer {
    transactions: Vec<SecureEntity<Transaction>>,
    pub(super) hashes: BTreeSet<Hash256>,
    pub(super) bytes: usize,
}

impl Manager {
    /// Queues a transaction for relay, signed at once. Returns whether it was added; it is not if it is queued already or
    /// there is no space.
    pub fn queue_transaction(&mut self, transaction: &Transaction) -> bool {
        let (buffer, hash) = (&mut self.relay_buffer, transaction.hash());
        if !matches!(self.phase, Phase::Running(_))
            || buffer.hashes.len() >= MAX_BUFFERED
            || buffer.hashes.contains(&hash)
        {
            return false;
        }
        let signed = SecureEntity::sign(transaction.clone(), &self.keys, self.local.identity.name.clone());
        let bytes = self.settings.format.to_bytes(&signed).len() + LIST_OVERHEAD;
        if buffer.bytes + bytes > max_buffered_bytes(&self.settings) {
            return false;
        }
        buffer.bytes += bytes;
        buffer.hashes.insert(hash);
        buffer.transactions.push(signed);
        true
    }

    /// Relays a block, signed with this node's key.
    pub fn push_block(&mut self, block: Block, now: Now) {
        self.now = now;
        if !self.is_booted() {
            return;
        }
        let block = SecureEntity::sign(block, &self.keys, self.local.identity.name.clone());
        self.push(&Message::PushBlock(&block));
        self.send_requests();
    }

    /// Relays the buffered transactions. The answers are ignored.
    pub(super) fn flush_buffer(&mut self) {
        let RelayBuffer { transactions, .. } = std::mem::take(&mut self.relay_buffer);
        if !transactions.is_empty() {
            self.push(&Message::PushTransactions(&List(transactions)));
        }
        self.end_task(Task::BroadcastOfBuffer, true);
    }

    fn push(&mut self, message: &Message<'_>) {
        let request = message.request(self.settings.format);
        for peer in self.select_peers() {
            let kind = RequestKind::Push(self.address_of(&peer));
            if !self.queue_message(&peer.endpoint, &request, kind) {
                log::debug!("no space in the request queue: {} is not sent {}", peer.endpoint, request.target);
            }
        }
    }

    /// Sends signs of life to peers selected by trust, and to active peers that have not received one lately. Peers
    /// without trust are never selected; such a peer may know an old address of this node and learns the new one only
    /// here. The answers are ignored.
    pub(super) fn send_signs_of_life(&mut self) {
        let request = Message::SignOfLife(&self.local).request(self.settings.format);
        let mut receivers = self.select_peers();
        let drawn: Vec<_> = receivers.iter().map(|node| self.address_of(node)).collect();
        let more = MAX_SIGNS_OF_LIFE.saturating_sub(drawn.len());
        let (now, share) = (self.now.monotonic, MAX_SIGNS_OF_LIFE_PER_NETWORK);
        receivers.extend(self.infos(self.table.due_for_sign_of_life(&drawn, now, more, share)));
        for node in receivers {
            let address = self.address_of(&node);
            if self.queue_message(&node.endpoint, &request, RequestKind::SignOfLife)
                && let Some(peer) = self.table.get_mut(&address)
            {
                peer.sign_sent_at = now;
            }
        }
        self.end_task(Task::Broadcast, true);
    }
}

#[cfg(test)]
pub(super) mod tests;
