//! Download of the nemesis block by a node with an empty store: queries known peers one after the other.
//!
//! Any peer may supply the block. It is checked against the configured network, so the answer needs no proof of
//! identity, and peers without known keys can be queried too.

use std::collections::BTreeMap;
use std::time::Duration;

use super::machine::mishap::Mishap;
use super::outside::{CallId, Reply};
use super::wire::{Endpoint, Outgoing, nemesis_request};
use crate::chain::{BlockError, authentic_nemesis_block};
use crate::codec::{Context, Form, Format};
use crate::model::{Amount, Block, Body, Hash256, Network};

/// Maximum number of requests in flight. Each answer can take as much memory as the limit of a nemesis block.
pub const AT_ONCE: usize = 4;
/// Time after which the next peer is queried as well.
pub const HURRY: Duration = Duration::from_secs(2);
/// Backoff after the first round in which every peer failed; doubles with each further one.
pub const FIRST_REST: Duration = Duration::from_secs(5);
/// Maximum backoff.
pub const LONGEST_REST: Duration = Duration::from_secs(300);

/// Format of the requests, whatever the setting: the shortest.
pub const FORMAT: Format = Format::Binary;

/// Queries known peers in rounds until a valid block has been imported.
pub struct NemesisSearch {
    network: Network,
    /// Hash of the block, if known.
    hash: Option<Hash256>,
    known: Vec<Endpoint>,
    /// Index of the peer to query next; those before it were queried in this round.
    next: usize,
    /// Time of the next query.
    due: Duration,
    /// Unanswered requests and the indices of their peers.
    waiting: BTreeMap<CallId, usize>,
    /// Index of the peer whose block is being imported.
    giver: Option<usize>,
    rest: Duration,
}

impl NemesisSearch {
    /// Starts a search for the nemesis block of a network.
    pub fn new(network: Network, hash: Option<Hash256>, known: Vec<Endpoint>, now: Duration) -> NemesisSearch {
        NemesisSearch {
            network,
            hash,
            known,
            next: 0,
            due: now,
            waiting: BTreeMap::new(),
            giver: None,
            rest: FIRST_REST,
        }
    }

    /// Returns the time of the next query; `None` if an answer or the import must end first.
    pub fn next_due(&self) -> Option<Duration> {
        let may_ask = self.next < self.known.len() && self.waiting.len() < AT_ONCE && self.giver.is_none();
        may_ask.then_some(self.due)
    }

    /// Sends the due queries.
    pub fn turn(&mut self, now: Duration, mut send: impl FnMut(&Endpoint, Outgoing) -> CallId) {
        while self.next_due().is_some_and(|due| due <= now)
            && let Some(node) = self.known.get(self.next)
        {
            self.waiting.insert(send(node, nemesis_request(FORMAT)), self.next);
            self.next += 1;
            self.due = now + HURRY;
        }
    }

    /// Processes the result of a request. Returns the binary form of a block to import, if it passes the checks.
    pub fn ended(&mut self, call: CallId, reply: Reply, now: Duration) -> Option<Vec<u8>> {
        let index = self.waiting.remove(&call)?;
        let name = self.known.get(index).map(Endpoint::to_string).unwrap_or_default();
        match self.block_in(reply) {
            // A second block is not needed.
            Ok(_) if self.giver.is_some() => {}
            Ok(block) => {
                log::info!("{name} has sent a nemesis block of {}, hash {}", self.network.name, block.hash());
                self.giver = Some(index);
                return Some(block.to_bytes(Form::Verifiable));
            }
            Err(Unfit::Nothing(mishap)) => log::info!("{name} sends no nemesis block: {mishap}"),
            Err(Unfit::Other(reason)) => self.tell_other(&name, &reason),
        }
        self.go_on(now);
        None
    }

    /// Reports that the returned block was rejected after all; continues the search.
    pub fn refused(&mut self, reason: &str, now: Duration) {
        if let Some(node) = self.giver.take().and_then(|index| self.known.get(index)) {
            self.tell_other(&node.to_string(), reason);
            self.go_on(now);
        }
    }

    /// Returns the requests whose answers are no longer needed.
    pub fn outstanding(&self) -> impl Iterator<Item = CallId> {
        self.waiting.keys().copied()
    }

    fn tell_other(&self, node: &str, reason: &str) {
        log::warn!("{node} sends something else than the nemesis block of {}: {reason}", self.network.name);
    }

    /// Makes the next query due now, or starts a new round after a backoff.
    fn go_on(&mut self, now: Duration) {
        self.due = now;
        let is_over = self.next >= self.known.len() && self.waiting.is_empty() && self.giver.is_none();
        if is_over {
            log::warn!(
                "no known node ({}) has sent the nemesis block of {}; asking again in {} s",
                self.known.len(),
                self.network.name,
                self.rest.as_secs()
            );
            self.next = 0;
            self.due = now + self.rest;
            self.rest = (self.rest * 2).min(LONGEST_REST);
        }
    }

    fn block_in(&self, reply: Reply) -> Result<Block, Unfit> {
        let context = Context::of(&self.network);
        let body = match reply {
            Reply::Answer { body, .. } => body,
            other => return Err(Unfit::Nothing(Mishap::of(other, FORMAT, context))),
        };
        let block = authentic_nemesis_block(&body, &self.network, self.hash).map_err(|error| match error {
            // The exact decoding error is of little use to people.
            BlockError::Unreadable(_) => Unfit::Other("it is no block of this network".to_owned()),
            other => Unfit::Other(other.to_string()),
        })?;
        match handed_out(&block) {
            Some(amount) if amount == self.network.total_amount => Ok(block),
            _ => Err(Unfit::Other("it does not hand out what nem.network.totalAmount says".to_owned())),
        }
    }
}

/// Reason why an answer is unusable.
enum Unfit {
    /// The answer contains no block.
    Nothing(Mishap),
    /// The answer is another block or not a block.
    Other(String),
}

/// Returns the sum of the block's transfers; `None` on overflow.
fn handed_out(block: &Block) -> Option<Amount> {
    let amount = |body: &Body| match body {
        Body::Transfer(transfer) => transfer.amount.0,
        _ => 0,
    };
    let mut amounts = block.transactions.iter().map(|transaction| amount(&transaction.body));
    amounts.try_fold(0_u64, |sum, amount| sum.checked_add(amount)).map(Amount)
}

#[cfg(test)]
mod tests;
