//! Relay of blocks (at once) and transactions (in lists, once a second), and signs of life.
//!
//! A peer that does not accept pushes is skipped for a while and delays nobody else. Transactions that do not fit into
//! the buffer are not relayed by this node; peers get them by requesting unconfirmed transactions.

use std::collections::BTreeSet;

use super::calls::{Purpose, Request};
use super::round::Round;
use super::{PeerSettings, Peers};
use crate::model::{Block, Hash256, Transaction};
use crate::peer::outside::{Now, Outside};
use crate::peer::schedule::Task;
use crate::peer::wire::{Endpoint, List, Message, Outgoing, SecureEntity, limits};

/// Maximum number of transactions in the relay buffer.
pub const MAX_BUFFERED: usize = 2_000;
/// Maximum number of peers that get a sign of life at once, unless more are selected by trust.
pub const MAX_SIGNS: usize = 20;
/// Maximum number of them of one network among those not selected by trust, as long as there are others.
pub const MAX_SIGNS_PER_NETWORK: usize = 2;
/// Maximum overhead in bytes of a transaction in a list.
const LISTED: usize = 4;

/// Returns the maximum bytes of the relay buffer: a list must not exceed what a peer like this node accepts.
pub fn most_buffered_bytes(settings: &PeerSettings) -> usize {
    limits::pushed(&settings.chain, settings.format) - limits::ENVELOPE
}

/// Transactions to relay.
#[derive(Debug)]
pub struct Buffer {
    transactions: List<SecureEntity<Transaction>>,
    hashes: BTreeSet<Hash256>,
    bytes: usize,
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer { transactions: List(Vec::new()), hashes: BTreeSet::new(), bytes: 0 }
    }
}

impl Buffer {
    /// Returns the number of transactions and their bytes.
    pub fn load(&self) -> (usize, usize) {
        (self.hashes.len(), self.bytes)
    }
}

impl Peers {
    /// Queues a transaction with this hash for relay, signed at once. Returns whether it was added; it is not if it is
    /// queued already or there is no room.
    pub fn queue_transaction(&mut self, transaction: Transaction, hash: Hash256) -> bool {
        let buffer = &mut self.buffer;
        if !self.phase.is_booted() || buffer.hashes.len() >= MAX_BUFFERED || buffer.hashes.contains(&hash) {
            return false;
        }
        let signed = SecureEntity::sign(transaction, &self.keys, self.local.identity.name.clone());
        let bytes = self.settings.format.to_bytes(&signed).len() + LISTED;
        if buffer.bytes + bytes > most_buffered_bytes(&self.settings) {
            return false;
        }
        buffer.bytes += bytes;
        buffer.hashes.insert(hash);
        buffer.transactions.0.push(signed);
        true
    }

    /// Relays a block, signed with this node's key.
    pub fn push_block(&mut self, block: Block, now: Now, outside: &mut impl Outside) {
        if !self.is_booted() {
            return;
        }
        let block = SecureEntity::sign(block, &self.keys, self.local.identity.name.clone());
        self.push(&Message::PushBlock(&block), outside);
        self.calls.send(now, outside);
    }

    /// Relays the buffered transactions. The answers are ignored.
    pub(super) fn flush_buffer(&mut self, now: Now, outside: &mut impl Outside) {
        let Buffer { transactions, .. } = std::mem::take(&mut self.buffer);
        if !transactions.0.is_empty() {
            self.push(&Message::PushTransactions(&transactions), outside);
        }
        self.end_task(Task::BroadcastOfBuffer, true, now);
    }

    fn push(&mut self, message: &Message<'_>, outside: &mut impl Outside) {
        let request = message.request(self.settings.format);
        for partner in self.draw_partners(outside) {
            if !self.tell(&partner.endpoint, request.clone(), Purpose::Push) {
                log::debug!("{} is left out of {}", partner.endpoint, request.path);
            }
        }
    }

    /// Sends signs of life to peers selected by trust, and to active peers that have not received one lately. Peers
    /// without trust are never selected; such a peer may know an old address of this node and learns the new one only
    /// here.
    pub(super) fn give_signs_of_life(&mut self, now: Now, outside: &mut impl Outside) {
        let request = Message::SignOfLife(&self.local).request(self.settings.format);
        let mut receivers = self.draw_partners(outside);
        let drawn: Vec<_> = receivers.iter().map(|node| self.address_of(node)).collect();
        let more = MAX_SIGNS.saturating_sub(drawn.len());
        receivers.extend(self.infos(self.nodes.to_give_sign(&drawn, now.running, more, MAX_SIGNS_PER_NETWORK)));
        let mut told = 0;
        for node in receivers {
            if self.tell(&node.endpoint, request.clone(), Purpose::SignOfLife) {
                self.nodes.sign_given(&self.address_of(&node), now.running);
                told += 1;
            }
        }
        self.signs = Round::new(told);
        if self.signs.is_over() {
            self.end_task(Task::Broadcast, true, now);
        }
    }

    /// Processes the answer to a sign of life, or its failure.
    pub(super) fn sign_of_life_ended(&mut self, now: Now) {
        if self.signs.hear(Some(())).is_some() {
            self.end_task(Task::Broadcast, true, now);
        }
    }

    /// Queues a request without a challenge. Returns whether there was room.
    pub(super) fn tell(&mut self, endpoint: &Endpoint, outgoing: Outgoing, purpose: Purpose) -> bool {
        self.calls.take(Request { endpoint: endpoint.clone(), outgoing, purpose, proof: None })
    }
}
