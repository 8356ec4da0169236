//! Synchronisation with one partner at a time: the chain first, and if there is nothing to gain its unconfirmed
//! transactions.
//!
//! Only what a partner says is held against it, never that it cannot be reached.

use super::calls::{Ended, Purpose};
use super::mishap::Mishap;
use super::{Answered, Peers};
use crate::model::Address;
use crate::peer::attempt::{Asked, Attempt, Broken, Ending, Next, OwnChain};
use crate::peer::outside::{Now, Outside, OwnTip, Pulled, Reply, Unreadable, Verdict};
use crate::peer::schedule::Task;
use crate::peer::wire::{NodeInfo, Query, ShortIds, check_answer};

/// A synchronisation that goes on.
#[derive(Debug)]
pub struct Synchronisation {
    partner: NodeInfo,
    address: Address,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The chains are compared.
    Comparing(Attempt),
    /// The partner was asked for its unconfirmed transactions.
    Unconfirmed,
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
        let Some(partner) = self.draw_partner(outside) else {
            return self.end_task(Task::Synchronisation, false, now);
        };
        let address = self.address_of(&partner);
        self.nodes.synchronising(&address);
        let (attempt, query) = Attempt::begin(self.settings.far_ahead);
        let stage = Stage::Comparing(attempt);
        self.go_on(Synchronisation { partner, address, stage }, &query, now, outside);
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
        let partner = synchronisation.partner.endpoint.clone();
        let result = match synchronisation.stage {
            Stage::Comparing(_) => self.compared(synchronisation, ended, reply, now, outside),
            Stage::Unconfirmed => self.heard_unconfirmed(ended, reply, now, outside),
            // Nothing was asked; it is not over yet.
            Stage::Judging => {
                self.synchronisation = Some(synchronisation);
                Ok(())
            }
        };
        if let Err(Mishap { reason, .. }) = result {
            log::debug!("synchronisation with {partner} failed: {reason}");
            self.end_task(Task::Synchronisation, false, now);
        }
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
        let address = synchronisation.address;
        match ending {
            Ending::Same => {
                let known = Query::Unconfirmed(ShortIds(outside.short_ids()));
                self.go_on(Synchronisation { stage: Stage::Unconfirmed, ..synchronisation }, &known, now, outside);
            }
            Ending::FarAhead(base, target) => self.begin_catching_up(address, base, target, now),
            Ending::Lower => self.end_task(Task::Synchronisation, true, now),
            Ending::TooFarBehind | Ending::Evil(_) => {
                log::debug!("{} is of no use: {ending:?}", synchronisation.partner.endpoint);
                self.experiences.failed(address, now.time);
                self.end_task(Task::Synchronisation, true, now);
            }
            Ending::Blocks { common, base, blocks } => {
                self.synchronisation = Some(Synchronisation { stage: Stage::Judging, ..synchronisation });
                outside.judge(Pulled { from: address, common, base, blocks });
            }
        }
    }

    /// Unconfirmed transactions are handed over as they came; nothing of it is held against the partner.
    fn heard_unconfirmed(
        &mut self,
        ended: Ended,
        reply: Reply,
        now: Now,
        outside: &mut impl Outside,
    ) -> Result<(), Mishap> {
        let Answered { body, challenge, key, .. } = self.answered(ended.proof, reply)?;
        check_answer(self.settings.format, &body, self.settings.context, &challenge, &key)?;
        outside.take_unconfirmed(body);
        self.end_task(Task::Synchronisation, true, now);
        Ok(())
    }

    /// Blocks of a node were judged.
    pub fn judged(&mut self, from: &Address, verdict: Verdict, now: Now) {
        let is_awaited = |one: &mut Synchronisation| matches!(one.stage, Stage::Judging) && one.address == *from;
        if self.synchronisation.take_if(is_awaited).is_none() {
            return;
        }
        match verdict {
            Verdict::Better => self.experiences.succeeded(*from, now.time),
            Verdict::Bad => self.experiences.failed(*from, now.time),
            Verdict::Neutral => {}
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
