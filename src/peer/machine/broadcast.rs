//! What is passed on to partners: blocks at once, transactions in lists once a second, and signs of life.
//!
//! A partner that does not take what it is sent is left out for a while, and nobody else waits for it. What does not fit
//! into the buffer is not passed on by this node; others get it by asking for what is unconfirmed.

use std::collections::BTreeSet;

use super::calls::{Purpose, Request};
use super::round::Round;
use super::{PeerSettings, Peers};
use crate::model::{Block, Hash256, Transaction};
use crate::peer::outside::{Now, Outside};
use crate::peer::schedule::Task;
use crate::peer::wire::{Endpoint, List, Message, Outgoing, SecureEntity, limits};

/// Most transactions that wait for the next list.
pub const MAX_BUFFERED: usize = 2_000;
/// Most nodes that are given a sign of life at once, unless more are drawn as partners.
pub const MAX_SIGNS: usize = 20;
/// Most of one network among those that are not drawn, as long as there are others.
pub const MAX_SIGNS_PER_NETWORK: usize = 2;
/// Bytes that a transaction takes in a list besides its own, at most.
const LISTED: usize = 4;

/// Most bytes of them: a list is no longer than a node like this one takes.
pub fn most_buffered_bytes(settings: &PeerSettings) -> usize {
    limits::pushed(&settings.chain, settings.format) - limits::ENVELOPE
}

/// Transactions that wait to be passed on.
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
    /// Transactions that wait, and their bytes.
    pub fn load(&self) -> (usize, usize) {
        (self.hashes.len(), self.bytes)
    }
}

impl Peers {
    /// Takes a transaction that is to be passed on, `hash` being its own. It is signed at once. Returns whether it will be
    /// passed on; one that waits already is not taken twice.
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

    /// Passes a block on, in this node's name.
    pub fn push_block(&mut self, block: Block, now: Now, outside: &mut impl Outside) {
        if !self.is_booted() {
            return;
        }
        let block = SecureEntity::sign(block, &self.keys, self.local.identity.name.clone());
        self.push(&Message::PushBlock(&block), outside);
        self.calls.send(now, outside);
    }

    /// Passes on what waits. What becomes of it at a partner is of no interest.
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

    /// Tells partners that this node is there, and active nodes that are not drawn and were long not told: one without trust,
    /// which nobody draws, may know this node at another place, and hears nowhere else that it has moved.
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

    /// A partner has taken note that this node is there, or has not.
    pub(super) fn sign_of_life_ended(&mut self, now: Now) {
        if self.signs.hear(Some(())).is_some() {
            self.end_task(Task::Broadcast, true, now);
        }
    }

    /// Takes a request to which nothing is to be proved. Returns whether there was room for it.
    pub(super) fn tell(&mut self, endpoint: &Endpoint, outgoing: Outgoing, purpose: Purpose) -> bool {
        self.calls.take(Request { endpoint: endpoint.clone(), outgoing, purpose, proof: None })
    }
}
