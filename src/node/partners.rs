//! Adapter between the peer layer and the rest of the node: chain, mempool and event loop.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use super::judge::{Judge, Judged, Outcome, Sender};
use super::randomness::Randomness;
use crate::codec::block::read_without_transactions;
use crate::codec::{Context, Format};
use crate::crypto::KeyPair;
use crate::model::{Address, Block, Hash256, Height, Network, Transaction};
use crate::net::fetch::{self, Answer, Fetch, FetchError, FetchId, Method, Response};
use crate::net::machine::{ConnectionId, Effects};
use crate::peer::catch_up::Ahead;
use crate::peer::kept_peers::KeptPeer;
use crate::peer::outside::{
    CallId, Importance, InquiryId, MeetingId, Now, Outside, OwnTip, Pulled, Reply, Unreadable, Verdict,
};
use crate::peer::wire::{Endpoint, NodeInfo, Outgoing, TransactionList};
use crate::peer::{KnownPeer, Largest, Meeting, Outlook, PeerSettings, Peers, PushResult, Pusher};
use crate::pool::{Pool, ShortId};
use crate::rules::ValidationResult;
use crate::state;
use crate::store::{Snapshot, StoreError, block_row, stored_header, tip};

/// Timeouts for a whole request and for a pause within it, as in NIS1.
const TIME: Duration = Duration::from_secs(180);
const SILENCE: Duration = Duration::from_secs(10);
/// Rows of the trust calculation per tick.
const ROWS: usize = 32;
/// Limit for unconfirmed transactions taken from one response.
const MAX_OFFERED: usize = 10_000;

/// What the peer layer works with: the last commit, the mempool and the event loop.
pub struct Means<'a> {
    pub snapshot: &'a Snapshot<'a>,
    pub network: &'a Network,
    pub pool: &'a Pool,
    pub randomness: &'a mut Randomness,
    pub effects: &'a mut dyn Effects,
}

/// The peer layer, once this node joins its network, and what it waits for.
#[derive(Default)]
pub struct Partners {
    peers: Option<Peers>,
    calls: BTreeMap<FetchId, CallId>,
    /// Format of requests to peers and of their responses.
    format: Option<Format>,
    /// Senders of pings that wait for their verification.
    meetings: BTreeMap<MeetingId, Waiting>,
    /// Clients that wait for the maximum height of the peers, and the height once it is known.
    inquiries: BTreeMap<ConnectionId, (InquiryId, Option<Height>)>,
    /// Transactions of a remote mempool that are still to be read and processed, and how many of them at most.
    offered: Option<(TransactionList, usize)>,
    pulled: Option<Pulled>,
    /// Pending adjustment of network time, in milliseconds.
    shift: i64,
}

/// The sender of a ping, waiting until this node has contacted it in turn.
struct Waiting {
    connection: ConnectionId,
    /// The result once it is known: `None` if the sender was reached, or else why not.
    ended: Option<Option<String>>,
}

impl Partners {
    /// Joins the network as this node.
    pub fn join(&mut self, local: NodeInfo, keys: Rc<KeyPair>, settings: PeerSettings, kept: &[KeptPeer], now: Now) {
        self.format = Some(settings.format);
        let mut peers = Peers::new(local, keys, settings, now);
        peers.know_again(kept);
        self.peers = Some(peers);
    }

    /// Returns whether this node has started to join its network.
    pub fn has_begun(&self) -> bool {
        self.peers.is_some()
    }

    /// Adds new peers of the operator's list.
    pub fn know(&mut self, known: Vec<KnownPeer>) {
        self.peers.iter_mut().for_each(|peers| peers.know(known.clone()));
    }

    /// Returns the peer layer, once this node joins its network.
    pub fn peers(&self) -> Option<&Peers> {
        self.peers.as_ref()
    }

    /// Returns whether this node has joined its network.
    pub fn have_joined(&self) -> bool {
        self.peers.as_ref().is_some_and(Peers::is_booted)
    }

    /// Returns the time before which no block may be harvested; see [`Peers::waits_until`].
    pub fn waits_until(&self, now: Duration) -> Duration {
        self.peers.as_ref().map_or(Duration::ZERO, |peers| peers.waits_until(now))
    }

    /// Returns when the next work is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.peers.as_ref().and_then(Peers::next_due)
    }

    /// Runs the due work.
    pub fn turn(&mut self, now: Now, means: Means<'_>) {
        self.with(means, |peers, outside| peers.turn(now, ROWS, outside));
    }

    /// Handles the result of a request.
    pub fn fetched(&mut self, fetch: FetchId, result: Result<Answer, FetchError>, now: Now, means: Means<'_>) {
        let Some(call) = self.calls.remove(&fetch) else { return };
        self.with(means, |peers, outside| peers.ended(call, reply_of(result), now, outside));
    }

    /// Handles a ping from a node at this address.
    pub fn sign_of_life(&mut self, node: &NodeInfo, from: std::net::IpAddr, now: Now, means: Means<'_>) -> Meeting {
        self.with(means, |peers, outside| peers.sign_of_life(node, from, now, outside)).unwrap_or(Meeting::Ignored)
    }

    /// Registers the connection on which the sender of a ping waits.
    pub fn wait(&mut self, meeting: MeetingId, connection: ConnectionId) {
        self.meetings.insert(meeting, Waiting { connection, ended: None });
    }

    /// Returns the result for the sender of a ping, once it is known.
    pub fn meeting_ended(&mut self, meeting: MeetingId) -> Option<Option<String>> {
        self.meetings.get(&meeting)?.ended.as_ref()?;
        self.meetings.remove(&meeting)?.ended
    }

    /// Queries peers for their maximum height, or returns it if it is known.
    pub fn largest_height(&mut self, now: Now, means: Means<'_>) -> Largest {
        let asked = self.with(means, |peers, outside| peers.largest_height(now, outside));
        asked.unwrap_or(Largest::Known(Height::NEMESIS))
    }

    /// Registers a connection that waits for the maximum height.
    pub fn wait_for_height(&mut self, inquiry: InquiryId, connection: ConnectionId) {
        self.inquiries.insert(connection, (inquiry, None));
    }

    /// Returns, once, the maximum height for a connection, when it is known.
    pub fn told_height(&mut self, connection: ConnectionId) -> Option<Height> {
        let (_, told) = self.inquiries.get(&connection)?;
        let height = (*told)?;
        self.inquiries.remove(&connection);
        Some(height)
    }

    /// Forgets a closed connection.
    pub fn gone(&mut self, connection: ConnectionId) {
        self.inquiries.remove(&connection);
        self.meetings.retain(|_, waiting| waiting.connection != connection);
    }

    /// Relays a block.
    pub fn push_block(&mut self, block: Block, now: Now, means: Means<'_>) {
        self.with(means, |peers, outside| peers.push_block(block, now, outside));
    }

    /// Relays an accepted transaction.
    pub fn pass_on(&mut self, transaction: &Transaction) {
        if let Some(peers) = self.peers.as_mut().filter(|peers| peers.is_booted()) {
            peers.queue_transaction(transaction.clone(), transaction.hash());
        }
    }

    /// Records the result of something that a peer pushed.
    pub fn pushed(&mut self, by: &Pusher, result: ValidationResult, now: Now) {
        if let Some(peers) = &mut self.peers {
            peers.pushed(by, push_result(result), now);
        }
    }

    /// Records the result of processed blocks.
    pub fn judged(&mut self, judged: &Judged, now: Now) {
        let Some(peers) = &mut self.peers else { return };
        match (&judged.sender, &judged.outcome) {
            (Sender::Pulled(node), outcome) => peers.judged(node, verdict(outcome), now),
            (Sender::Pushed(by), Outcome::Result(result)) => peers.pushed(by, push_result(*result), now),
            (Sender::Pushed(by), Outcome::TooDeep) => peers.pushed(by, PushResult::Neutral, now),
            (Sender::Pushed(by), _) => peers.pushed(by, PushResult::Harmful, now),
        }
    }

    /// Records that the store failed while blocks pulled from a peer were validated; the peer is not blamed.
    pub fn could_not_judge(&mut self, from: &Address, now: Now) {
        self.peers.iter_mut().for_each(|peers| peers.judged(from, Verdict::Neutral, now));
    }

    /// Returns the next block of the block download; see [`Peers::next_block`].
    pub fn next_block(&mut self, now: Now) -> Option<Ahead> {
        self.peers.as_mut().and_then(|peers| peers.next_block(now))
    }

    /// Returns the progress of the block download, if one is running.
    pub fn outlook(&self) -> Option<Outlook> {
        self.peers.as_ref().and_then(Peers::outlook)
    }

    /// Ends the block download: its blocks are imported as far as possible.
    pub fn caught_up(&mut self, now: Now) {
        self.peers.iter_mut().for_each(|peers| peers.caught_up(now));
    }

    /// Ends the block download because a block is invalid.
    pub fn block_refused(&mut self, reason: &str, now: Now) {
        self.peers.iter_mut().for_each(|peers| peers.block_refused(reason, now));
    }

    fn format(&self) -> Format {
        self.format.unwrap_or(Format::Binary)
    }

    /// Passes pulled blocks to the block processor, if it can accept them.
    pub fn hand_over(&mut self, judge: &mut Judge<'_>) {
        if self.pulled.is_some() && judge.may_pull() {
            self.pulled.take().into_iter().for_each(|pulled| judge.pull(pulled));
        }
    }

    /// Returns the next transaction of the remote mempool. The first undecodable transaction ends the list.
    pub fn next_offered(&mut self, context: Context) -> Option<Transaction> {
        let (list, left) = self.offered.as_mut()?;
        let next = if *left > 0 { list.next(context) } else { None };
        *left = left.saturating_sub(1);
        match next {
            Some(Ok(transaction)) => return Some(transaction),
            Some(Err(error)) => log::debug!("an unconfirmed transaction of another node cannot be read: {error}"),
            None => {}
        }
        self.offered = None;
        None
    }

    /// Returns, once, by how many milliseconds network time is to change.
    pub fn take_shift(&mut self) -> i64 {
        std::mem::take(&mut self.shift)
    }

    /// Returns whether there is work for the rest of the node: blocks to process, transactions to add, or a clock
    /// shift.
    pub fn has_work(&self) -> bool {
        self.pulled.is_some() || self.offered.is_some() || self.shift != 0
    }

    fn with<T>(&mut self, means: Means<'_>, act: impl FnOnce(&mut Peers, &mut Outer<'_, '_>) -> T) -> Option<T> {
        let mut peers = self.peers.take()?;
        let result = act(&mut peers, &mut Outer { partners: self, means });
        self.peers = Some(peers);
        Some(result)
    }
}

/// The peer layer's access to everything else.
struct Outer<'a, 'm> {
    partners: &'a mut Partners,
    means: Means<'m>,
}

impl Outside for Outer<'_, '_> {
    fn send(&mut self, to: &Endpoint, request: Outgoing) -> CallId {
        let fetch = self.means.effects.fetch(fetch_of(to, request, self.partners.format(), TIME, SILENCE));
        let call = CallId(fetch.0);
        self.partners.calls.insert(fetch, call);
        call
    }

    fn give_up(&mut self, call: CallId) {
        let fetch = FetchId(call.0);
        if self.partners.calls.remove(&fetch).is_some() {
            self.means.effects.cancel(fetch);
        }
    }

    fn random(&mut self) -> u64 {
        self.means.randomness.bits()
    }

    fn tip(&self) -> Result<OwnTip, Unreadable> {
        let read = || {
            let last = tip(self.means.snapshot)?.ok_or(StoreError::Empty)?;
            let row = block_row(self.means.snapshot, last.height)?.ok_or(StoreError::Empty)?;
            let context = Context::of(self.means.network).trusting();
            let head = read_without_transactions(row.head(), context).map_err(|_| StoreError::Damaged("a block"))?;
            Ok(OwnTip { height: last.height, hash: last.hash, signature: head.signature, score: last.score })
        };
        read().map_err(unreadable)
    }

    fn hashes_from(&self, first: Height, most: u64) -> Result<Vec<Hash256>, Unreadable> {
        let mut hashes = Vec::new();
        for height in (first.0..first.0.saturating_add(most)).map(Height) {
            match stored_header(self.means.snapshot, height).map_err(unreadable)? {
                Some(header) => hashes.push(header.hash),
                None => break,
            }
        }
        Ok(hashes)
    }

    fn short_ids(&self) -> Vec<ShortId> {
        self.means.pool.short_ids()
    }

    fn importance(&self, node: &Address) -> Result<Importance, Unreadable> {
        let read = || {
            let (state, network) = (self.means.snapshot, self.means.network);
            let Some(last) = state::last_recalculation(state)? else { return Ok(0.0) };
            let account = state::account(state, node)?;
            let height = tip(state)?.ok_or(StoreError::Empty)?.height;
            let lender = account.forwarded(height, network.chain.rewrite_limit).unwrap_or(*node);
            let importance = state::importance(state, &lender)?.filter(|found| found.height == last.height);
            Ok(importance.map_or(0.0, |found| found.importance))
        };
        read().map(|value| Importance { value }).map_err(unreadable)
    }

    fn important_accounts(&self) -> Result<u64, Unreadable> {
        let last = state::last_recalculation(self.means.snapshot).map_err(unreadable)?;
        Ok(last.map_or(0, |last| last.eligible))
    }

    fn judge(&mut self, pulled: Pulled) {
        self.partners.pulled = Some(pulled);
    }

    fn take_unconfirmed(&mut self, body: Vec<u8>) {
        let context = Context::of(self.means.network);
        match TransactionList::of_checked(self.partners.format(), body, context) {
            Ok(transactions) => self.partners.offered = Some((transactions, MAX_OFFERED)),
            Err(error) => log::debug!("unconfirmed transactions of another node cannot be read: {error}"),
        }
    }

    fn met(&mut self, meeting: MeetingId, failure: Option<String>) {
        if let Some(waiting) = self.partners.meetings.get_mut(&meeting) {
            waiting.ended = Some(failure);
            self.means.effects.resume(waiting.connection);
        }
    }

    fn tell_largest_height(&mut self, inquiry: InquiryId, height: Height) {
        for (connection, (awaited, told)) in &mut self.partners.inquiries {
            if *awaited == inquiry {
                *told = Some(height);
                self.means.effects.resume(*connection);
            }
        }
    }

    fn shift_clock(&mut self, millis: i64) {
        self.partners.shift += millis;
    }
}

fn unreadable(error: StoreError) -> Unreadable {
    log::warn!("{error}");
    Unreadable
}

/// Converts a request to a peer into one of the HTTP client.
pub(super) fn fetch_of(to: &Endpoint, request: Outgoing, format: Format, time: Duration, silence: Duration) -> Fetch {
    let Outgoing { path, body, answer_limit, is_idempotent } = request;
    let (host, port) = to.to_connect().unwrap_or(("", 0));
    Fetch {
        endpoint: fetch::Endpoint { host: host.to_owned(), port },
        method: Method::Post,
        target: path.to_owned(),
        media_type: format.media_type(),
        body: body.into(),
        body_limit: answer_limit,
        time,
        silence,
        is_idempotent,
    }
}

/// Converts a result of the HTTP client into one of the peer layer.
pub(super) fn reply_of(result: Result<Answer, FetchError>) -> Reply {
    match result {
        Ok(Answer { from, response: Response { status: 200, body } }) => Reply::Answer { body, from },
        Ok(Answer { response: Response { status, body }, .. }) => Reply::Refused { status, body },
        Err(FetchError::Unreachable(error)) => Reply::Unreachable(error.to_string()),
        Err(FetchError::Silent(_)) => Reply::Silent,
        Err(error) => Reply::Broken(error.to_string()),
    }
}

fn push_result(result: ValidationResult) -> PushResult {
    use ValidationResult::{FailureEntityUnusableOutOfSync, FailureTransactionCacheTooFull, Neutral, Success};
    match result {
        Success => PushResult::Useful,
        Neutral | FailureEntityUnusableOutOfSync | FailureTransactionCacheTooFull => PushResult::Neutral,
        _ => PushResult::Harmful,
    }
}

fn verdict(outcome: &Outcome) -> Verdict {
    match outcome {
        Outcome::Result(ValidationResult::Success) => Verdict::Better,
        Outcome::TooDeep => Verdict::TooDeep,
        Outcome::Result(ValidationResult::Neutral) | Outcome::Unreadable(_) => Verdict::Neutral,
        Outcome::Result(_) | Outcome::Exception(_) => Verdict::Bad,
    }
}
