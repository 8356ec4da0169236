//! Synchronisation with one sync peer at a time: the chain first, then, if both chains are the same or have the same
//! score, its unconfirmed transactions. The next synchronisation does not wait for those.
//!
//! Only what a peer sends lowers its experience, never that it is unreachable. But a peer that brought nothing is not
//! chosen next if there is another, and backs off longer if it failed or was slow, so that peers that trickle answers
//! or have nothing new take only part of our time. After a failed block request fewer transactions are requested: the
//! answer may have been larger than we accept, or than the peer can send in time.

use std::time::Duration;

use super::calls::{Ended, Purpose};
use super::mishap::Mishap;
use super::{Answered, Peers};
use crate::model::Address;
use crate::peer::attempt::{Asked, Attempt, Broken, Ending, Evil, Next, OwnChain};
use crate::peer::outside::{Now, Outside, OwnTip, Pulled, Reply, Unreadable, Verdict};
use crate::peer::schedule::Task;
use crate::peer::wire::{NodeInfo, Query, ShortIds, check_answer};

/// Time after which a fruitless synchronisation counts as slow.
const SLOW: Duration = Duration::from_secs(10);
/// Backoff as a multiple of the wasted time, and the minimum backoff, which lets another peer be chosen first.
const REST: u32 = 10;
const LEAST_REST: Duration = Duration::from_secs(5);
/// Smallest block answer requested, as a fraction of a full one.
const SMALLEST_PART: u32 = 16;

/// Running synchronisation.
#[derive(Debug)]
pub struct Synchronisation {
    partner: NodeInfo,
    address: Address,
    begun: Duration,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Comparing(Attempt),
    Judging,
}

/// Adapter of [`Outside`] to [`OwnChain`].
struct Chain<'o, O>(&'o O);

impl<O: Outside> OwnChain for Chain<'_, O> {
    fn tip(&self) -> Result<OwnTip, Unreadable> {
        self.0.tip()
    }

    fn hashes_from(&self, first: crate::model::Height, most: u64) -> Result<Vec<crate::model::Hash256>, Unreadable> {
        self.0.hashes_from(first, most)
    }
}

impl Peers {
    /// Starts a synchronisation.
    pub(super) fn synchronise(&mut self, now: Now, outside: &mut impl Outside) {
        let drawn = self.draw_rested(now, outside);
        let Some(partner) = drawn.and_then(|drawn| self.nodes.get(&drawn)).map(|node| node.about.info.clone()) else {
            return self.end_task(Task::Synchronisation, false, now);
        };
        let address = self.address_of(&partner);
        self.nodes.synchronising(&address);
        let (attempt, query) = Attempt::begin(self.settings.far_ahead, self.most_transactions);
        let stage = Stage::Comparing(attempt);
        self.go_on(Synchronisation { partner, address, begun: now.running, stage }, &query, now, outside);
    }

    /// Selects a peer without backoff; failing that, one whose backoff ends within [`LEAST_REST`]; failing that, any.
    fn draw_rested(&self, now: Now, outside: &mut impl Outside) -> Option<Address> {
        let mut random = || outside.random();
        [Duration::ZERO, LEAST_REST, Duration::MAX].into_iter().find_map(|rest| {
            let at = now.running.saturating_add(rest);
            self.selector.one_of(|node| !self.nodes.is_resting(node, at), &mut random)
        })
    }

    /// Sends the next request to the sync peer.
    fn go_on(&mut self, synchronisation: Synchronisation, query: &Query, now: Now, outside: &mut impl Outside) {
        match self.ask(&synchronisation.partner, query, Purpose::Synchronisation, outside) {
            true => self.synchronisation = Some(synchronisation),
            false => self.end_task(Task::Synchronisation, false, now),
        }
    }

    /// Processes an answer of the sync peer, or the failure of the request.
    pub(super) fn synchronisation_ended(&mut self, ended: Ended, reply: Reply, now: Now, outside: &mut impl Outside) {
        let Some(synchronisation) = self.synchronisation.take() else { return };
        let (partner, address) = (synchronisation.partner.endpoint.clone(), synchronisation.address);
        let begun = synchronisation.begun;
        let waited_for_blocks =
            matches!(&synchronisation.stage, Stage::Comparing(attempt) if attempt.waits_for_blocks());
        let result = match synchronisation.stage {
            Stage::Comparing(_) => self.compared(synchronisation, ended, reply, now, outside),
            // No request is outstanding; validation continues.
            Stage::Judging => {
                self.synchronisation = Some(synchronisation);
                Ok(())
            }
        };
        if waited_for_blocks {
            self.adjust_answers(result.is_ok());
        }
        if let Err(Mishap { reason, .. }) = result {
            log::debug!("synchronisation with {partner} failed: {reason}");
            self.has_brought_nothing(address, begun, true, now);
            self.end_task(Task::Synchronisation, false, now);
        }
    }

    /// Doubles the number of transactions to request after success, and halves it after failure.
    fn adjust_answers(&mut self, have_come: bool) {
        let most = self.settings.chain.max_transactions;
        let next = if have_come { self.most_transactions.saturating_mul(2) } else { self.most_transactions / 2 };
        self.most_transactions = next.clamp(most / SMALLEST_PART, most);
    }

    /// Backs off from a peer that brought nothing; longer if it failed or was slow.
    fn has_brought_nothing(&mut self, partner: Address, begun: Duration, has_failed: bool, now: Now) {
        let wasted = now.running.saturating_sub(begun);
        let rest = if has_failed || wasted > SLOW { REST * wasted } else { Duration::ZERO };
        self.nodes.let_rest(&partner, now.running + rest + LEAST_REST);
    }

    fn compared(
        &mut self,
        mut synchronisation: Synchronisation,
        ended: Ended,
        reply: Reply,
        now: Now,
        outside: &mut impl Outside,
    ) -> Result<(), Mishap> {
        let Answered { body, challenge, key, .. } = self.answered(ended.proof, reply)?;
        let Stage::Comparing(attempt) = &mut synchronisation.stage else { return Ok(()) };
        let (format, context) = (self.settings.format, self.settings.context);
        let asked = Asked { format, challenge: &challenge, key: &key, context };
        let next = attempt.heard(body, asked, &Chain(outside), &self.settings.chain);
        if let Some(about) = self.nodes.about_mut(&synchronisation.address) {
            about.score = attempt.score().or(about.score);
        }
        match next {
            Err(Broken::Answer(error)) => Err(error.into()),
            Err(Broken::Unreadable) => Err(Mishap::failure(Unreadable)),
            Ok(Next::Ask(query)) => {
                self.has_given(&synchronisation.address, &synchronisation.partner.endpoint, now, outside);
                self.go_on(synchronisation, &query, now, outside);
                Ok(())
            }
            Ok(Next::End(ending)) => {
                self.attempt_ended(synchronisation, ending, now, outside);
                Ok(())
            }
        }
    }

    fn attempt_ended(
        &mut self,
        synchronisation: Synchronisation,
        ending: Ending,
        now: Now,
        outside: &mut impl Outside,
    ) {
        let (address, begun) = (synchronisation.address, synchronisation.begun);
        if !matches!(ending, Ending::Evil(_)) {
            self.has_given(&address, &synchronisation.partner.endpoint, now, outside);
        }
        match ending {
            Ending::Same => {
                self.is_together(&address);
                self.ask_for_unconfirmed(&synchronisation.partner, now, outside);
                self.has_brought_nothing(address, begun, false, now);
                self.end_task(Task::Synchronisation, true, now);
            }
            Ending::FarAhead(base, target) => {
                self.is_together(&address);
                self.begin_catching_up(address, base, target, now);
            }
            Ending::Lower => {
                self.is_worse(&synchronisation.partner, now, outside);
                self.has_brought_nothing(address, begun, false, now);
                self.end_task(Task::Synchronisation, true, now);
            }
            Ending::TooFarBehind | Ending::Evil(_) => {
                log::debug!("{} is of no use: {ending:?}", synchronisation.partner.endpoint);
                if matches!(ending, Ending::Evil(Evil::InvalidHashes)) {
                    self.is_apart(address, now);
                }
                self.experiences.failed(address, now.time);
                self.has_brought_nothing(address, begun, true, now);
                self.end_task(Task::Synchronisation, true, now);
            }
            Ending::Blocks { common, base, blocks } => {
                self.synchronisation = Some(Synchronisation { stage: Stage::Judging, ..synchronisation });
                outside.judge(Pulled { from: address, common, base, blocks });
            }
        }
    }

    /// Requests a peer's unconfirmed transactions, unless such a request is running.
    fn ask_for_unconfirmed(&mut self, partner: &NodeInfo, now: Now, outside: &mut impl Outside) {
        if self.unconfirmed.is_none() {
            let known = Query::Unconfirmed(ShortIds(outside.short_ids()));
            let is_asked = self.ask(partner, &known, Purpose::Unconfirmed, outside);
            self.unconfirmed = is_asked.then(|| (self.address_of(partner), now.running));
        }
    }

    /// Forwards a peer's unconfirmed transactions undecoded, or handles the failure. Neither affects its experience.
    pub(super) fn unconfirmed_ended(&mut self, ended: Ended, reply: Reply, now: Now, outside: &mut impl Outside) {
        let Some((partner, asked)) = self.unconfirmed.take() else { return };
        let endpoint = ended.endpoint.clone();
        let result = self.heard_unconfirmed(ended, reply, outside);
        if result.is_ok() {
            self.has_given(&partner, &endpoint, now, outside);
        }
        self.has_brought_nothing(partner, asked, result.is_err(), now);
        if let Err(Mishap { reason, .. }) = result {
            log::debug!("the unconfirmed transactions of {partner} are not heard: {reason}");
        }
    }

    fn heard_unconfirmed(&mut self, ended: Ended, reply: Reply, outside: &mut impl Outside) -> Result<(), Mishap> {
        let Answered { body, challenge, key, .. } = self.answered(ended.proof, reply)?;
        check_answer(self.settings.format, &body, self.settings.context, &challenge, &key)?;
        outside.take_unconfirmed(body);
        Ok(())
    }

    /// Processes the validation result of a peer's blocks.
    pub fn judged(&mut self, from: &Address, verdict: Verdict, now: Now) {
        let is_awaited = |one: &mut Synchronisation| matches!(one.stage, Stage::Judging) && one.address == *from;
        let Some(Synchronisation { begun, partner, .. }) = self.synchronisation.take_if(is_awaited) else { return };
        if !self.is_there(from, &partner.endpoint) {
            // The peer has moved; whoever answers at the new endpoint did not send the blocks.
            return self.end_task(Task::Synchronisation, verdict != Verdict::Bad, now);
        }
        match verdict {
            Verdict::Better => self.experiences.succeeded(*from, now.time),
            Verdict::Bad => self.experiences.failed(*from, now.time),
            Verdict::TooDeep => self.is_apart(*from, now),
            Verdict::Neutral => {}
        }
        if verdict == Verdict::Better {
            self.is_together(from);
        }
        // Our chain has changed meanwhile, which is not the peer's fault unless it was slow.
        let is_excused = verdict == Verdict::Neutral && now.running.saturating_sub(begun) <= SLOW;
        if verdict != Verdict::Better && !is_excused {
            self.has_brought_nothing(*from, begun, verdict == Verdict::Bad, now);
        }
        self.end_task(Task::Synchronisation, verdict != Verdict::Bad, now);
    }

    /// Makes the next synchronisation due now, after one that made progress.
    pub(super) fn synchronise_soon(&mut self, now: Now) {
        if let Some(schedule) = self.phase.schedule_mut() {
            schedule.hasten(Task::Synchronisation, now.running);
        }
    }
}
