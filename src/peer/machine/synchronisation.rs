//! Synchronisation with one partner at a time: the chain first, and if there is nothing to gain its unconfirmed
//! transactions, for which the next synchronisation does not wait.
//!
//! Only what a partner says is held against it, never that it cannot be reached. But whoever has brought nothing is not drawn
//! the next time if there is another, and not for long if it has failed or was slow: a node that lets answers drip, or has
//! nothing but what we have, takes up a part of our time only. After blocks that did not come fewer are asked for: they may
//! be more than we take at once, or than a partner can send in time.

use std::time::Duration;

use super::calls::{Ended, Purpose};
use super::mishap::Mishap;
use super::{Answered, Peers};
use crate::model::Address;
use crate::peer::attempt::{Asked, Attempt, Broken, Ending, Evil, Next, OwnChain};
use crate::peer::outside::{Now, Outside, OwnTip, Pulled, Reply, Unreadable, Verdict};
use crate::peer::schedule::Task;
use crate::peer::wire::{NodeInfo, Query, ShortIds, check_answer};

/// An attempt that takes longer and brings nothing is wasted time.
const SLOW: Duration = Duration::from_secs(10);
/// For how many times as long a partner rests, and for how long at least one that has brought nothing: until another one was
/// drawn.
const REST: u32 = 10;
const LEAST_REST: Duration = Duration::from_secs(5);
/// An answer with blocks is never asked to be smaller than this part of a full one.
const SMALLEST_PART: u32 = 16;

/// A synchronisation that goes on.
#[derive(Debug)]
pub struct Synchronisation {
    partner: NodeInfo,
    address: Address,
    begun: Duration,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The chains are compared.
    Comparing(Attempt),
    /// Its blocks are judged.
    Judging,
}

/// Our chain as it is seen from outside.
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
    /// Begins to synchronise with a partner.
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

    /// One that does not rest; else one that rests until another one was drawn only; else anyone.
    fn draw_rested(&self, now: Now, outside: &mut impl Outside) -> Option<Address> {
        let mut random = || outside.random();
        [Duration::ZERO, LEAST_REST, Duration::MAX].into_iter().find_map(|rest| {
            let at = now.running.saturating_add(rest);
            self.selector.one_of(|node| !self.nodes.is_resting(node, at), &mut random)
        })
    }

    /// Asks the partner something more.
    fn go_on(&mut self, synchronisation: Synchronisation, query: &Query, now: Now, outside: &mut impl Outside) {
        match self.ask(&synchronisation.partner, query, Purpose::Synchronisation, outside) {
            true => self.synchronisation = Some(synchronisation),
            false => self.end_task(Task::Synchronisation, false, now),
        }
    }

    /// The partner has answered, or has failed.
    pub(super) fn synchronisation_ended(&mut self, ended: Ended, reply: Reply, now: Now, outside: &mut impl Outside) {
        let Some(synchronisation) = self.synchronisation.take() else { return };
        let (partner, address) = (synchronisation.partner.endpoint.clone(), synchronisation.address);
        let begun = synchronisation.begun;
        let waited_for_blocks =
            matches!(&synchronisation.stage, Stage::Comparing(attempt) if attempt.waits_for_blocks());
        let result = match synchronisation.stage {
            Stage::Comparing(_) => self.compared(synchronisation, ended, reply, now, outside),
            // Nothing was asked; it is not over yet.
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

    /// Halves how much is asked for when blocks did not come, and doubles it when they did.
    fn adjust_answers(&mut self, have_come: bool) {
        let most = self.settings.chain.max_transactions;
        let next = if have_come { self.most_transactions.saturating_mul(2) } else { self.most_transactions / 2 };
        self.most_transactions = next.clamp(most / SMALLEST_PART, most);
    }

    /// A partner has brought nothing, so that it is another one's turn. It rests longer if it has failed or was slow.
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

    /// Asks a partner for its unconfirmed transactions, unless another one is about to tell its own.
    fn ask_for_unconfirmed(&mut self, partner: &NodeInfo, now: Now, outside: &mut impl Outside) {
        if self.unconfirmed.is_none() {
            let known = Query::Unconfirmed(ShortIds(outside.short_ids()));
            let is_asked = self.ask(partner, &known, Purpose::Unconfirmed, outside);
            self.unconfirmed = is_asked.then(|| (self.address_of(partner), now.running));
        }
    }

    /// A partner has told its unconfirmed transactions, or has failed. They are handed over as they came; nothing of it is
    /// held against the partner.
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

    /// Blocks of a node were judged.
    pub fn judged(&mut self, from: &Address, verdict: Verdict, now: Now) {
        let is_awaited = |one: &mut Synchronisation| matches!(one.stage, Stage::Judging) && one.address == *from;
        let Some(Synchronisation { begun, partner, .. }) = self.synchronisation.take_if(is_awaited) else { return };
        if !self.is_there(from, &partner.endpoint) {
            // Whoever has its name elsewhere now has not given the blocks.
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
        // Our chain has changed meanwhile, which is not the partner's fault unless it was slow.
        let is_excused = verdict == Verdict::Neutral && now.running.saturating_sub(begun) <= SLOW;
        if verdict != Verdict::Better && !is_excused {
            self.has_brought_nothing(*from, begun, verdict == Verdict::Bad, now);
        }
        self.end_task(Task::Synchronisation, verdict != Verdict::Bad, now);
    }

    /// Does not wait for the usual rest before the next synchronisation, where one has just brought this node nearer to
    /// its aim.
    pub(super) fn synchronise_soon(&mut self, now: Now) {
        if let Some(schedule) = self.phase.schedule_mut() {
            schedule.hasten(Task::Synchronisation, now.running);
        }
    }
}
