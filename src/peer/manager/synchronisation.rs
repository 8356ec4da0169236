//! Synchronisation with one sync peer at a time: the chain first, then, if both chains are the same or have the same
//! score, its unconfirmed transactions. The next synchronisation does not wait for those.
//!
//! Only what a peer sends lowers its experience, never that it is unreachable. But a peer that brought nothing is not
//! chosen next if there is another, and backs off longer if it failed or was slow, so that peers that trickle answers
//! or have nothing new take only part of our time. After a failed block request fewer transactions are requested: the
//! answer may have been larger than we accept, or than the peer can send in time.

use std::time::Duration;

use super::request_queue::{Completed, RequestKind};
use super::{Manager, SignedAnswer};
use crate::model::Address;
use crate::peer::chain_comparison::{
    AnswerContext, ChainComparison, ComparisonError, Misbehavior, NextStep, SyncOutcome,
};
use crate::peer::error::PeerError;
use crate::peer::io::{FetchedBlocks, Now, PeerIo, Reply, StoreUnreadable, ValidationOutcome};
use crate::peer::schedule::Task;
use crate::peer::wire::{NodeInfo, Query, ShortIds, check_answer};

/// Time after which a fruitless synchronisation counts as slow.
const SLOW: Duration = Duration::from_secs(10);
/// Backoff as a multiple of the wasted time, and the minimum backoff, which lets another peer be chosen first.
const BACKOFF_FACTOR: u32 = 10;
const MIN_BACKOFF: Duration = Duration::from_secs(5);
/// Smallest block answer requested, as a fraction of a full one.
const MIN_ANSWER_FRACTION: u32 = 16;

/// Running synchronisation.
#[derive(Debug)]
pub struct Synchronisation {
    sync_peer: NodeInfo,
    address: Address,
    started_at: Duration,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Comparing(ChainComparison),
    Validating,
}

impl Manager {
    /// Starts a synchronisation.
    pub(super) fn synchronise(&mut self, now: Now, io: &mut impl PeerIo) {
        let drawn = self.select_sync_peer(now, io);
        let Some(partner) = drawn.and_then(|drawn| self.table.get(&drawn)).map(|node| node.data.info.clone()) else {
            return self.end_task(Task::Synchronisation, false, now);
        };
        let address = self.address_of(&partner);
        self.table.count_synchronisation(&address);
        let (comparison, query) = ChainComparison::begin(self.settings.far_ahead, self.max_transactions);
        let stage = Stage::Comparing(comparison);
        self.continue_with(
            Synchronisation { sync_peer: partner, address, started_at: now.monotonic, stage },
            &query,
            now,
            io,
        );
    }

    /// Selects a peer without backoff; failing that, one whose backoff ends within [`MIN_BACKOFF`]; failing that, any.
    fn select_sync_peer(&self, now: Now, io: &mut impl PeerIo) -> Option<Address> {
        let mut random = || io.random();
        [Duration::ZERO, MIN_BACKOFF, Duration::MAX].into_iter().find_map(|rest| {
            let at = now.monotonic.saturating_add(rest);
            self.selector.one_of(|node| !self.table.is_sync_backed_off(node, at), &mut random)
        })
    }

    /// Sends the next request to the sync peer.
    fn continue_with(&mut self, synchronisation: Synchronisation, query: &Query, now: Now, io: &mut impl PeerIo) {
        match self.queue_query(&synchronisation.sync_peer, query, RequestKind::Synchronisation, io) {
            true => self.synchronisation = Some(synchronisation),
            false => self.end_task(Task::Synchronisation, false, now),
        }
    }

    /// Processes an answer of the sync peer, or the failure of the request.
    pub(super) fn on_sync_reply(&mut self, completed: Completed, response: Reply, now: Now, io: &mut impl PeerIo) {
        let Some(synchronisation) = self.synchronisation.take() else { return };
        let (sync_peer, address) = (synchronisation.sync_peer.endpoint.clone(), synchronisation.address);
        let begun = synchronisation.started_at;
        let waited_for_blocks =
            matches!(&synchronisation.stage, Stage::Comparing(attempt) if attempt.waits_for_blocks());
        let result = match synchronisation.stage {
            Stage::Comparing(_) => self.process_answer(synchronisation, completed, response, now, io),
            // No request is outstanding; validation continues.
            Stage::Validating => {
                self.synchronisation = Some(synchronisation);
                Ok(())
            }
        };
        if waited_for_blocks {
            self.adjust_max_transactions(result.is_ok());
        }
        if let Err(PeerError { reason, .. }) = result {
            log::debug!("synchronisation with {sync_peer} failed: {reason}");
            self.back_off(address, begun, true, now);
            self.end_task(Task::Synchronisation, false, now);
        }
    }

    /// Doubles the number of transactions to request after success, and halves it after failure.
    fn adjust_max_transactions(&mut self, have_come: bool) {
        let most = self.settings.chain.max_transactions;
        let next = if have_come { self.max_transactions.saturating_mul(2) } else { self.max_transactions / 2 };
        self.max_transactions = next.clamp(most / MIN_ANSWER_FRACTION, most);
    }

    /// Backs off from a peer that brought nothing; longer if it failed or was slow.
    fn back_off(&mut self, sync_peer: Address, begun: Duration, has_failed: bool, now: Now) {
        let wasted = now.monotonic.saturating_sub(begun);
        let rest = if has_failed || wasted > SLOW { BACKOFF_FACTOR * wasted } else { Duration::ZERO };
        self.table.back_off_sync(&sync_peer, now.monotonic + rest + MIN_BACKOFF);
    }

    fn process_answer(
        &mut self,
        mut synchronisation: Synchronisation,
        completed: Completed,
        response: Reply,
        now: Now,
        io: &mut impl PeerIo,
    ) -> Result<(), PeerError> {
        let SignedAnswer { body, challenge, key, .. } = self.signed_answer(completed.proof, response)?;
        let Stage::Comparing(comparison) = &mut synchronisation.stage else { return Ok(()) };
        let (format, context) = (self.settings.format, self.settings.context);
        let asked = AnswerContext { format, challenge: &challenge, key: &key, context };
        let next = comparison.on_answer(body, asked, &*io, &self.settings.chain);
        if let Some(about) = self.table.data_mut(&synchronisation.address) {
            about.score = comparison.score().or(about.score);
        }
        match next {
            Err(ComparisonError::Answer(error)) => Err(error.into()),
            Err(ComparisonError::Unreadable) => Err(PeerError::failure(StoreUnreadable)),
            Ok(NextStep::Request(query)) => {
                self.record_valid_answer(&synchronisation.address, &synchronisation.sync_peer.endpoint, now, io);
                self.continue_with(synchronisation, &query, now, io);
                Ok(())
            }
            Ok(NextStep::End(ending)) => {
                self.on_comparison_end(synchronisation, ending, now, io);
                Ok(())
            }
        }
    }

    fn on_comparison_end(
        &mut self,
        synchronisation: Synchronisation,
        ending: SyncOutcome,
        now: Now,
        io: &mut impl PeerIo,
    ) {
        let (address, begun) = (synchronisation.address, synchronisation.started_at);
        if !matches!(ending, SyncOutcome::Misbehaved(_)) {
            self.record_valid_answer(&address, &synchronisation.sync_peer.endpoint, now, io);
        }
        match ending {
            SyncOutcome::Same => {
                self.clear_split(&address);
                self.request_unconfirmed(&synchronisation.sync_peer, now, io);
                self.back_off(address, begun, false, now);
                self.end_task(Task::Synchronisation, true, now);
            }
            SyncOutcome::FarAhead(base, target) => {
                self.clear_split(&address);
                self.start_block_download(address, base, target, now);
            }
            SyncOutcome::LowerScore => {
                self.on_worse_chain(&synchronisation.sync_peer, now, io);
                self.back_off(address, begun, false, now);
                self.end_task(Task::Synchronisation, true, now);
            }
            SyncOutcome::TooFarBehind | SyncOutcome::Misbehaved(_) => {
                log::debug!("synchronisation with {} ended: {ending:?}", synchronisation.sync_peer.endpoint);
                if matches!(ending, SyncOutcome::Misbehaved(Misbehavior::InvalidHashes)) {
                    self.record_split(address, now);
                }
                self.experiences.failed(address, now.network);
                self.back_off(address, begun, true, now);
                self.end_task(Task::Synchronisation, true, now);
            }
            SyncOutcome::Blocks { common, base, blocks } => {
                self.synchronisation = Some(Synchronisation { stage: Stage::Validating, ..synchronisation });
                io.validate(FetchedBlocks { from: address, common, base, blocks });
            }
        }
    }

    /// Requests a peer's unconfirmed transactions, unless such a request is running.
    fn request_unconfirmed(&mut self, sync_peer: &NodeInfo, now: Now, io: &mut impl PeerIo) {
        if self.mempool_request.is_none() {
            let known = Query::Unconfirmed(ShortIds(io.short_ids()));
            let is_asked = self.queue_query(sync_peer, &known, RequestKind::Unconfirmed, io);
            self.mempool_request = is_asked.then(|| (self.address_of(sync_peer), now.monotonic));
        }
    }

    /// Forwards a peer's unconfirmed transactions undecoded, or handles the failure. Neither affects its experience.
    pub(super) fn on_unconfirmed_reply(
        &mut self,
        completed: Completed,
        response: Reply,
        now: Now,
        io: &mut impl PeerIo,
    ) {
        let Some((sync_peer, asked)) = self.mempool_request.take() else { return };
        let endpoint = completed.endpoint.clone();
        let result = self.forward_unconfirmed(completed, response, io);
        if result.is_ok() {
            self.record_valid_answer(&sync_peer, &endpoint, now, io);
        }
        self.back_off(sync_peer, asked, result.is_err(), now);
        if let Err(PeerError { reason, .. }) = result {
            log::debug!("request for the unconfirmed transactions of {sync_peer} failed: {reason}");
        }
    }

    fn forward_unconfirmed(
        &mut self,
        completed: Completed,
        response: Reply,
        io: &mut impl PeerIo,
    ) -> Result<(), PeerError> {
        let SignedAnswer { body, challenge, key, .. } = self.signed_answer(completed.proof, response)?;
        check_answer(self.settings.format, &body, self.settings.context, &challenge, &key)?;
        io.submit_unconfirmed(body);
        Ok(())
    }

    /// Processes the validation result of a peer's blocks.
    pub fn on_blocks_validated(&mut self, from: &Address, verdict: ValidationOutcome, now: Now) {
        let is_awaited = |one: &mut Synchronisation| matches!(one.stage, Stage::Validating) && one.address == *from;
        let Some(Synchronisation { started_at: begun, sync_peer: partner, .. }) =
            self.synchronisation.take_if(is_awaited)
        else {
            return;
        };
        if !self.has_endpoint(from, &partner.endpoint) {
            // The peer has moved; whoever answers at the new endpoint did not send the blocks.
            return self.end_task(Task::Synchronisation, verdict != ValidationOutcome::Bad, now);
        }
        match verdict {
            ValidationOutcome::Better => self.experiences.succeeded(*from, now.network),
            ValidationOutcome::Bad => self.experiences.failed(*from, now.network),
            ValidationOutcome::TooDeep => self.record_split(*from, now),
            ValidationOutcome::Neutral => {}
        }
        if verdict == ValidationOutcome::Better {
            self.clear_split(from);
        }
        // Our chain has changed meanwhile, which is not the peer's fault unless it was slow.
        let is_excused = verdict == ValidationOutcome::Neutral && now.monotonic.saturating_sub(begun) <= SLOW;
        if verdict != ValidationOutcome::Better && !is_excused {
            self.back_off(*from, begun, verdict == ValidationOutcome::Bad, now);
        }
        self.end_task(Task::Synchronisation, verdict != ValidationOutcome::Bad, now);
    }

    /// Makes the next synchronisation due now, after one that made progress.
    pub(super) fn synchronise_soon(&mut self, now: Now) {
        if let Some(schedule) = self.phase.schedule_mut() {
            schedule.run_now(Task::Synchronisation, now.monotonic);
        }
    }
}
