//! Queries to peers for chain heights, clocks and experiences.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Peers;
use super::calls::{Ended, Purpose};
use super::round::Round;
use crate::model::{Address, Height};
use crate::peer::experiences::Experience;
use crate::peer::outside::{InquiryId, Now, Outside, Reply};
use crate::peer::schedule::Task;
use crate::peer::time_sync::{Sample, Unchanged, Witness};
use crate::peer::wire::{CommunicationTimeStamps, ExperiencePair, NodeExperiences, NodeInfo, Query};

/// Minimum importance of an account for its node's clock to count.
pub const LEAST_IMPORTANCE: f64 = 0.000_25;

/// Time for which the largest reported height is cached, so that clients cannot cause endless queries.
pub const FRESH: Duration = Duration::from_secs(1);
/// Timeout of a query for the largest height; later answers are ignored.
pub const LONGEST_INQUIRY: Duration = Duration::from_secs(15);

/// Query for the largest height of the peers.
#[derive(Debug)]
pub struct Inquiry {
    id: InquiryId,
    round: Round<Height>,
    asked: Duration,
    /// Result and its time.
    told: Option<(Height, Duration)>,
}

impl Inquiry {
    /// Returns the timeout; `None` if the query has ended.
    pub fn end(&self) -> Option<Duration> {
        self.told.is_none().then_some(self.asked + LONGEST_INQUIRY)
    }

    fn tell(&mut self, heights: &[Height], now: Now, outside: &mut impl Outside) {
        let largest = heights.iter().max().copied().unwrap_or(Height::NEMESIS);
        self.told = Some((largest, now.running));
        outside.tell_largest_height(self.id, largest);
    }
}

/// Largest height of the peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Largest {
    /// Known already: queried just before, or there is no peer to query.
    Known(Height),
    /// Queried; [`Outside::tell_largest_height`] returns the result.
    Asked(InquiryId),
}

impl Peers {
    /// Queries the heights of peers.
    pub(super) fn check_height(&mut self, now: Now, outside: &mut impl Outside) {
        let partners = self.draw_partners(outside);
        self.heights = Round::new(self.ask_all(&partners, &Query::Height, Purpose::Height, outside));
        if self.heights.is_over() {
            self.compare_heights(&[], now, outside);
        }
    }

    /// Processes a height, or the failure of its request.
    pub(super) fn height_ended(
        &mut self,
        node: Address,
        ended: Ended,
        reply: Reply,
        now: Now,
        outside: &mut impl Outside,
    ) {
        let endpoint = ended.endpoint;
        let height = self.read_answer::<Height>(ended.proof, reply).ok().map(|(height, _)| height);
        if height.is_some() {
            self.has_given(&node, &endpoint, now, outside);
            self.nodes.about_mut(&node).into_iter().for_each(|about| about.height = height);
        }
        if let Some(heights) = self.heights.hear(height) {
            self.compare_heights(&heights, now, outside);
        }
    }

    fn compare_heights(&mut self, heights: &[Height], now: Now, outside: &mut impl Outside) {
        let own = outside.tip();
        if let Ok(own) = own {
            self.height_check.compare(own.height, heights.iter().max().copied());
        }
        self.end_task(Task::CheckingHeight, own.is_ok(), now);
    }

    /// Returns or queries the largest height of the peers, for a client. [`Outside::tell_largest_height`] is called
    /// later and once. Concurrent clients share one query, so that they cannot multiply requests.
    pub fn largest_height(&mut self, now: Now, outside: &mut impl Outside) -> Largest {
        match &self.inquiry {
            Some(Inquiry { id, told: None, .. }) => return Largest::Asked(*id),
            Some(Inquiry { told: Some((height, at)), .. }) if now.running < *at + FRESH => {
                return Largest::Known(*height);
            }
            _ => {}
        }
        let id = InquiryId(self.inquiry.as_ref().map_or(1, |former| former.id.0 + 1));
        let partners = self.draw_partners(outside);
        let asked = self.ask_all(&partners, &Query::Height, |_| Purpose::LargestHeight(id), outside);
        let told = (asked == 0).then_some((Height::NEMESIS, now.running));
        self.inquiry = Some(Inquiry { id, round: Round::new(asked), asked: now.running, told });
        self.calls.send(now, outside);
        told.map_or(Largest::Asked(id), |(height, _)| Largest::Known(height))
    }

    /// Processes a height for a query of the largest, or the failure of its request.
    pub(super) fn largest_height_ended(
        &mut self,
        id: InquiryId,
        ended: Ended,
        reply: Reply,
        now: Now,
        outside: &mut impl Outside,
    ) {
        let height = self.read_answer::<Height>(ended.proof, reply).ok().map(|(height, _)| height);
        let Some(inquiry) = self.inquiry.as_mut().filter(|inquiry| inquiry.id == id) else { return };
        if let Some(heights) = inquiry.round.hear(height) {
            inquiry.tell(&heights, now, outside);
        }
    }

    /// Ends the query for the largest height at its timeout.
    pub(super) fn end_slow_inquiry(&mut self, now: Now, outside: &mut impl Outside) {
        let is_slow = |inquiry: &Inquiry| inquiry.end().is_some_and(|end| end <= now.running);
        if let Some(inquiry) = self.inquiry.as_mut().filter(|inquiry| is_slow(inquiry)) {
            let heights = inquiry.round.cut_short();
            inquiry.tell(&heights, now, outside);
        }
    }

    /// Queries the clocks of nodes with important accounts, and of active pre-trusted peers, which only confirm.
    pub(super) fn synchronise_time(&mut self, now: Now, outside: &mut impl Outside) {
        let most = self.settings.time_sync_node_limit.min(super::MAX_PARTNERS);
        let importance = |node: &Address| outside.importance(node).map_or(0.0, |importance| importance.value);
        let important: BTreeSet<_> = self
            .trust
            .values()
            .iter()
            .map(|(node, _)| *node)
            .filter(|node| importance(node) >= LEAST_IMPORTANCE)
            .collect();
        let drawn = self.selector.some_of(|node| important.contains(node), most, &mut || outside.random());
        self.times = Round::default();
        self.drawn_for_time = drawn.iter().copied().collect();
        if !drawn.is_empty() {
            let is_undrawn = |node: &&Address| self.nodes.is_active(node) && !self.drawn_for_time.contains(*node);
            let listed = self.nodes.pre_trusted().iter().filter(is_undrawn).take(super::MAX_PARTNERS);
            let nodes = self.infos(drawn.iter().chain(listed).copied().collect());
            self.times = Round::new(self.ask_all(&nodes, &Query::NetworkTime, Purpose::Time, outside));
        }
        if self.times.is_over() {
            self.move_clock(&[], now, outside);
        }
    }

    /// Processes a clock, or the failure of its request.
    pub(super) fn time_ended(
        &mut self,
        node: Address,
        ended: Ended,
        reply: Reply,
        now: Now,
        outside: &mut impl Outside,
    ) {
        let sent = ended.sent;
        let answer = self.read_answer::<CommunicationTimeStamps>(ended.proof, reply).ok();
        if answer.is_some() {
            self.has_given(&node, &ended.endpoint, now, outside);
        }
        // Ignored if the peer has moved since the request.
        let witness = answer.filter(|_| self.is_there(&node, &ended.endpoint)).and_then(|(stamps, ip)| {
            let importance = outside.importance(&node).ok()?.value;
            let CommunicationTimeStamps { send: remote_sent, receive: remote_received } = stamps;
            let sample = Sample { sent, remote_received, remote_sent, received: now.millis, importance };
            let is_listed = self.nodes.pre_trusted().contains(&node);
            Some(Witness { node, ip, is_listed, is_drawn: self.drawn_for_time.contains(&node), sample })
        });
        if let Some(answers) = self.times.hear(witness) {
            self.move_clock(&answers, now, outside);
        }
    }

    fn move_clock(&mut self, answers: &[Witness], now: Now, outside: &mut impl Outside) {
        let Ok(accounts) = outside.important_accounts() else {
            return self.end_task(Task::TimeSynchronisation, false, now);
        };
        let others = self.nodes.pre_trusted().iter().filter(|node| **node != self.address).count();
        let listed = others + self.unpinned.len();
        let round = self.time_sync.round(answers, listed, accounts, now.time);
        // The end is recorded first, on the same clock as the start.
        self.end_task(Task::TimeSynchronisation, round.is_ok(), now);
        match round {
            Ok(round) if round.change != 0 => {
                log::debug!("network time is moved by {} ms", round.change);
                outside.shift_clock(round.change);
            }
            Err(Unchanged::NotAgreed) => log::debug!("network time is not moved: the listed nodes do not agree"),
            Ok(_) | Err(Unchanged::NoSamples) => {}
        }
    }

    /// Queries a peer's experiences.
    pub(super) fn update_experiences(&mut self, now: Now, outside: &mut impl Outside) {
        let is_asked = self.draw_partner(outside).is_some_and(|partner| {
            let purpose = Purpose::Experiences(self.address_of(&partner));
            self.ask(&partner, &Query::Experiences, purpose, outside)
        });
        if !is_asked {
            self.end_task(Task::UpdatingExperiences, false, now);
        }
    }

    /// Returns whether another node's report about a peer concerns the known one: pre-trusted peers always, others only
    /// if known at the reported endpoint.
    pub(super) fn is_known_at(&self, node: &NodeInfo) -> bool {
        let known = self.nodes.get(&self.address_of(node));
        known.is_some_and(|known| known.is_pre_trusted || known.about.info.endpoint == node.endpoint)
    }

    /// Processes a peer's experiences, or the failure of the request. A peer can report only its own.
    pub(super) fn experiences_ended(
        &mut self,
        node: Address,
        ended: Ended,
        reply: Reply,
        now: Now,
        outside: &mut impl Outside,
    ) {
        let endpoint = ended.endpoint;
        let answer = self.read_answer::<NodeExperiences>(ended.proof, reply).ok();
        let own = answer.filter(|(told, _)| self.address_of(&told.node) == node);
        if own.is_some() {
            self.has_given(&node, &endpoint, now, outside);
        }
        let pairs: Option<Vec<_>> = own.map(|(told, _)| {
            let pair = |pair: &ExperiencePair| {
                let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
                let experience = Experience::new(count(pair.experience.successes), count(pair.experience.failures));
                (self.address_of(&pair.node), experience)
            };
            // Experiences with a peer at another endpoint do not concern the known one.
            told.experiences.iter().filter(|pair| self.is_known_at(&pair.node)).map(pair).collect()
        });
        let is_taken = pairs.is_some_and(|pairs| self.experiences.receive(node, &pairs, now.time).is_ok());
        self.end_task(Task::UpdatingExperiences, is_taken, now);
    }
}
