//! Download of the nemesis block by a node with an empty store: queries known peers one after the other.
//!
//! Any peer may supply the block. It is checked against the configured network, so the answer needs no proof of
//! identity, and peers without known keys can be queried too.

use std::collections::BTreeMap;
use std::time::Duration;

use super::io::{Reply, backoff};
use super::peer_table::PeerError;
use super::wire::{Endpoint, Message};
use crate::chain::{BlockError, authentic_nemesis_block};
use crate::codec::{Context, Format, SigningForm};
use crate::ip::Scope;
use crate::model::{Amount, Block, Body, Hash256, Network};
use crate::net::fetch::{self, FetchId, FetchRequest, FetchResponse};

/// Maximum number of requests in flight. Each answer can take as much memory as the limit of a nemesis block.
pub const MAX_IN_FLIGHT: usize = 4;
/// Time after which the next peer is queried as well.
pub const NEXT_PEER_DELAY: Duration = Duration::from_secs(2);
/// Backoff after the first round in which every peer failed; doubles with each further one.
pub const FIRST_BACKOFF: Duration = Duration::from_secs(5);
/// Maximum backoff.
pub const MAX_BACKOFF: Duration = Duration::from_secs(300);

/// Format of the requests, whatever the setting: the shortest.
pub const FORMAT: Format = Format::Binary;

/// Queries known peers in rounds until a valid block has been imported.
pub struct NemesisSearch {
    network: Network,
    /// Hash of the block, if known.
    hash: Option<Hash256>,
    peers: Vec<Endpoint>,
    /// Least scope of their addresses ([`Endpoint::listed_scope`]).
    least_scope: Scope,
    /// Index of the peer to query next; those before it were queried in this round.
    next: usize,
    /// Time of the next query.
    due: Duration,
    /// Unanswered requests and the indices of their peers.
    in_flight: BTreeMap<FetchId, usize>,
    /// Index of the peer whose block is being imported.
    supplier: Option<usize>,
    /// Rounds in which every peer failed.
    failed_rounds: u32,
    request_count: u64,
}

impl NemesisSearch {
    /// Starts a search for the nemesis block of a network.
    pub fn new(
        network: Network,
        hash: Option<Hash256>,
        known: Vec<Endpoint>,
        least_scope: Scope,
        now: Duration,
    ) -> NemesisSearch {
        NemesisSearch {
            network,
            hash,
            peers: known,
            least_scope,
            next: 0,
            due: now,
            in_flight: BTreeMap::new(),
            supplier: None,
            failed_rounds: 0,
            request_count: 0,
        }
    }

    /// Returns the time of the next query; `None` if an answer or the import must end first.
    pub fn next_due(&self) -> Option<Duration> {
        let may_ask = self.next < self.peers.len() && self.in_flight.len() < MAX_IN_FLIGHT && self.supplier.is_none();
        may_ask.then_some(self.due)
    }

    /// Returns the next due query.
    pub fn next_request(&mut self, now: Duration) -> Option<(FetchId, FetchRequest)> {
        self.next_due().filter(|due| *due <= now)?;
        let node = self.peers.get(self.next)?;
        // A request to an endpoint that cannot be reached fails at once.
        let endpoint = node.to_connect().unwrap_or(fetch::Endpoint { host: String::new(), port: 0 });
        let least_scope = node.listed_scope(self.least_scope);
        self.request_count += 1;
        let id = FetchId(self.request_count);
        self.in_flight.insert(id, self.next);
        self.next += 1;
        self.due = now + NEXT_PEER_DELAY;
        Some((id, FetchRequest { endpoint, least_scope, ..Message::NemesisBlock.request(FORMAT) }))
    }

    /// Processes the result of a request. Returns the binary form of a block to import, if it passes the checks.
    pub fn on_reply(&mut self, call: FetchId, response: Reply, now: Duration) -> Option<Vec<u8>> {
        let index = self.in_flight.remove(&call)?;
        let name = self.peers.get(index).map(Endpoint::to_string).unwrap_or_default();
        match self.block_in(response) {
            // A second block is not needed.
            Ok(_) if self.supplier.is_some() => {}
            Ok(block) => {
                log::info!("{name} has sent a nemesis block of {}, hash {}", self.network.name, block.hash());
                self.supplier = Some(index);
                return Some(block.to_bytes(SigningForm::Verifiable));
            }
            Err(UnusableAnswer::NoBlock(error)) => log::info!("{name} has not sent a nemesis block: {error}"),
            Err(UnusableAnswer::WrongBlock(reason)) => self.warn_wrong_block(&name, &reason),
        }
        self.schedule_next(now);
        None
    }

    /// Reports that the returned block was rejected after all; continues the search.
    pub fn on_block_rejected(&mut self, reason: &str, now: Duration) {
        if let Some(node) = self.supplier.take().and_then(|index| self.peers.get(index)) {
            self.warn_wrong_block(&node.to_string(), reason);
            self.schedule_next(now);
        }
    }

    /// Returns the requests whose answers are no longer needed.
    pub fn outstanding(&self) -> impl Iterator<Item = FetchId> {
        self.in_flight.keys().copied()
    }

    fn warn_wrong_block(&self, node: &str, reason: &str) {
        log::warn!("{node} has sent something other than the nemesis block of {}: {reason}", self.network.name);
    }

    /// Makes the next query due now, or starts a new round after a backoff.
    fn schedule_next(&mut self, now: Duration) {
        self.due = now;
        let is_over = self.next >= self.peers.len() && self.in_flight.is_empty() && self.supplier.is_none();
        if is_over {
            let rest = backoff(FIRST_BACKOFF, self.failed_rounds, MAX_BACKOFF);
            log::warn!(
                "none of the known peers ({}) has sent the nemesis block of {}; asking again in {} s",
                self.peers.len(),
                self.network.name,
                rest.as_secs()
            );
            self.next = 0;
            self.due = now + rest;
            self.failed_rounds = self.failed_rounds.saturating_add(1);
        }
    }

    fn block_in(&self, response: Reply) -> Result<Block, UnusableAnswer> {
        let context = Context::of(&self.network);
        let body = match response {
            Ok(FetchResponse { response, .. }) if response.status == 200 => response.body,
            other => return Err(UnusableAnswer::NoBlock(PeerError::from_reply(other, FORMAT, context))),
        };
        let block = authentic_nemesis_block(&body, &self.network, self.hash).map_err(|error| match error {
            // The exact decoding error is of little use to people.
            BlockError::Unreadable(_) => UnusableAnswer::WrongBlock("it is not a block of this network".to_owned()),
            other => UnusableAnswer::WrongBlock(other.to_string()),
        })?;
        match total_transferred(&block) {
            Some(amount) if amount == self.network.total_amount => Ok(block),
            _ => Err(UnusableAnswer::WrongBlock("its transfers do not add up to nem.network.totalAmount".to_owned())),
        }
    }
}

/// Reason why an answer is unusable.
enum UnusableAnswer {
    /// The answer contains no block.
    NoBlock(PeerError),
    /// The answer is another block or not a block.
    WrongBlock(String),
}

/// Returns the sum of the block's transfers; `None` on overflow.
fn total_transferred(block: &Block) -> Option<Amount> {
    let amount = |body: &Body| match body {
        Body::Transfer(transfer) => transfer.amount.0,
        _ => 0,
    };
    let mut amounts = block.transactions.iter().map(|transaction| amount(&transaction.body));
    amounts.try_fold(0_u64, |sum, amount| sum.checked_add(amount)).map(Amount)
}

#[cfg(test)]
mod tests;
