//! Queries to peers for chain heights, clocks and experiences.

use std::collections::BTreeSet;
use std::time::Duration;

use super::requests::{Completed, RequestKind};
use super::{MAX_FAN_OUT, Manager};
use crate::model::{Address, Height};
use crate::peer::io::{Action, LocalChain, MaxHeightQueryId, Now};
use crate::peer::schedule::Task;
use crate::peer::time_sync::{ClockAnswer, Sample, Unchanged};
use crate::peer::wire::{CommunicationTimeStamps, ExperiencePair, NodeExperiences, Query};

/// Minimum importance of an account for its node's clock to count.
pub const MIN_IMPORTANCE: f64 = 0.000_25;

/// Time for which the largest reported height is cached, so that clients cannot cause endless queries.
pub const MAX_HEIGHT_TTL: Duration = Duration::from_secs(1);
/// Timeout of a query for the largest height; later answers are ignored.
pub const MAX_HEIGHT_TIMEOUT: Duration = Duration::from_secs(15);

/// One question to several peers, until all have answered or failed: the answers so far.
#[derive(Debug)]
pub struct FanOut<T> {
    outstanding: usize,
    answers: Vec<T>,
}

impl<T> Default for FanOut<T> {
    fn default() -> FanOut<T> {
        FanOut { outstanding: 0, answers: Vec::new() }
    }
}

impl<T> FanOut<T> {
    /// Creates a query to `outstanding` peers.
    pub fn new(outstanding: usize) -> FanOut<T> {
        FanOut { outstanding, answers: Vec::with_capacity(outstanding) }
    }

    /// Returns whether no answer is outstanding.
    pub fn is_over(&self) -> bool {
        self.outstanding == 0
    }

    /// Records an answer, or a failure as `None`. Returns all answers with the last one. Ignores answers after the end.
    pub fn record(&mut self, answer: Option<T>) -> Option<Vec<T>> {
        self.outstanding = self.outstanding.checked_sub(1)?;
        self.answers.extend(answer);
        self.is_over().then(|| std::mem::take(&mut self.answers))
    }

    /// Ends the query and returns the answers so far.
    pub fn finish_early(&mut self) -> Vec<T> {
        self.outstanding = 0;
        std::mem::take(&mut self.answers)
    }
}

/// Consecutive failed checks after which the node no longer counts as synchronised.
const MAX_FAILURES: u32 = 4;

/// Result of the last checks.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeightCheck {
    failures_left: u32,
}

impl HeightCheck {
    /// Compares our height with the largest reported one, or, without answers, with the nemesis height.
    pub fn compare(&mut self, own: Height, largest: Option<Height>) {
        self.failures_left = match own >= largest.unwrap_or(Height::NEMESIS) {
            true => MAX_FAILURES,
            false => self.failures_left.saturating_sub(1),
        };
    }

    /// Returns whether this node has the chain that its peers have.
    pub fn is_synchronised(self) -> bool {
        self.failures_left > 0
    }
}

/// Query for the largest height of the peers.
#[derive(Debug)]
pub struct MaxHeightQuery {
    id: MaxHeightQueryId,
    answers: FanOut<Height>,
    started_at: Duration,
    /// Result and its time.
    result: Option<(Height, Duration)>,
}

impl MaxHeightQuery {
    /// Returns the timeout; `None` if the query has ended.
    pub fn timeout_at(&self) -> Option<Duration> {
        self.result.is_none().then_some(self.started_at + MAX_HEIGHT_TIMEOUT)
    }

    fn finish(&mut self, heights: &[Height], now: Now) -> Action {
        let largest = heights.iter().max().copied().unwrap_or(Height::NEMESIS);
        self.result = Some((largest, now.monotonic));
        Action::ReportMaxHeight(self.id, largest)
    }
}

/// Largest height of the peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxHeight {
    /// Known already: queried just before, or there is no peer to query.
    Known(Height),
    /// Queried; [`Action::ReportMaxHeight`] returns the result.
    Pending(MaxHeightQueryId),
}

impl Manager {
    /// Queries the heights of peers.
    pub(super) fn check_height(&mut self, chain: &impl LocalChain) {
        let peers = self.select_peers();
        self.heights = self.fan_out(&peers, &Query::Height, RequestKind::Height);
        if self.heights.is_over() {
            self.compare_heights(&[], chain);
        }
    }

    /// Processes a height, or the failure of its request.
    pub(super) fn on_height_reply(&mut self, node: Address, mut completed: Completed, chain: &impl LocalChain) {
        let height = self.read_from::<Height>(&node, &mut completed).map(|(height, _)| height);
        if height.is_some() {
            self.table.data_mut(&node).into_iter().for_each(|about| about.height = height);
        }
        if let Some(heights) = self.heights.record(height) {
            self.compare_heights(&heights, chain);
        }
    }

    fn compare_heights(&mut self, heights: &[Height], chain: &impl LocalChain) {
        let own = chain.tip();
        if let Ok(own) = own {
            self.height_check.compare(own.height, heights.iter().max().copied());
        }
        self.end_task(Task::CheckingHeight, own.is_ok());
    }

    /// Returns or queries the largest height of the peers, for a client. [`Action::ReportMaxHeight`] follows later and
    /// once. Concurrent clients share one query, so that they cannot multiply requests.
    pub fn max_chain_height(&mut self, now: Now) -> MaxHeight {
        self.now = now;
        match &self.max_height_query {
            Some(MaxHeightQuery { id, result: None, .. }) => return MaxHeight::Pending(*id),
            Some(MaxHeightQuery { result: Some((height, at)), .. }) if now.monotonic < *at + MAX_HEIGHT_TTL => {
                return MaxHeight::Known(*height);
            }
            _ => {}
        }
        let id = MaxHeightQueryId(self.max_height_query.as_ref().map_or(1, |former| former.id.0 + 1));
        let peers = self.select_peers();
        let answers: FanOut<Height> = self.fan_out(&peers, &Query::Height, |_| RequestKind::MaxHeight(id));
        let result = answers.is_over().then_some((Height::NEMESIS, now.monotonic));
        self.max_height_query = Some(MaxHeightQuery { id, answers, started_at: now.monotonic, result });
        self.send_requests();
        result.map_or(MaxHeight::Pending(id), |(height, _)| MaxHeight::Known(height))
    }

    /// Processes a height for a query of the largest, or the failure of its request.
    pub(super) fn on_max_height_reply(&mut self, id: MaxHeightQueryId, completed: Completed) {
        let height = self.read_answer::<Height>(completed).ok().map(|(height, _)| height);
        let Some(query) = self.max_height_query.as_mut().filter(|query| query.id == id) else { return };
        if let Some(heights) = query.answers.record(height) {
            self.actions.push(query.finish(&heights, self.now));
        }
    }

    /// Ends the query for the largest height at its timeout.
    pub(super) fn time_out_max_height_query(&mut self) {
        let now = self.now;
        let is_slow = |query: &&mut MaxHeightQuery| query.timeout_at().is_some_and(|end| end <= now.monotonic);
        if let Some(query) = self.max_height_query.as_mut().filter(is_slow) {
            let heights = query.answers.finish_early();
            self.actions.push(query.finish(&heights, now));
        }
    }

    /// Queries the clocks of nodes with important accounts, and of active pre-trusted peers, which only confirm.
    pub(super) fn synchronise_time(&mut self, chain: &impl LocalChain) {
        let most = self.settings.time_sync_node_limit.min(MAX_FAN_OUT);
        let is_important = |node: &&Address| chain.importance(node).unwrap_or(0.0) >= MIN_IMPORTANCE;
        let values = self.trust.values();
        let important: BTreeSet<_> = values.iter().map(|(node, _)| node).filter(is_important).copied().collect();
        let drawn = self.selector.some_of(|node| important.contains(node), most, &mut self.random);
        self.times = FanOut::default();
        self.selected_clocks = drawn.iter().copied().collect();
        if !drawn.is_empty() {
            let is_undrawn = |node: &&Address| self.table.is_active(node) && !self.selected_clocks.contains(*node);
            let listed = self.table.pre_trusted().iter().filter(is_undrawn).take(MAX_FAN_OUT);
            let nodes = self.infos(drawn.iter().chain(listed).copied().collect());
            self.times = self.fan_out(&nodes, &Query::NetworkTime, RequestKind::Time);
        }
        if self.times.is_over() {
            self.adjust_clock(&[], chain);
        }
    }

    /// Processes a clock, or the failure of its request.
    pub(super) fn on_time_reply(&mut self, node: Address, mut completed: Completed, chain: &impl LocalChain) {
        let (sent, received) = (completed.sent, self.now.network_millis);
        let answer = self.read_from::<CommunicationTimeStamps>(&node, &mut completed);
        // Ignored if the peer has moved since the request.
        let clock = answer.filter(|_| self.has_endpoint(&node, &completed.endpoint)).and_then(|(stamps, ip)| {
            let CommunicationTimeStamps { send: remote_sent, receive: remote_received } = stamps;
            let importance = chain.importance(&node).ok()?;
            let sample = Sample { sent, remote_received, remote_sent, received, importance };
            let is_pre_trusted = self.table.pre_trusted().contains(&node);
            let is_selected = self.selected_clocks.contains(&node);
            Some(ClockAnswer { node, ip, is_pre_trusted, is_selected, sample })
        });
        if let Some(answers) = self.times.record(clock) {
            self.adjust_clock(&answers, chain);
        }
    }

    fn adjust_clock(&mut self, answers: &[ClockAnswer], chain: &impl LocalChain) {
        let Ok(accounts) = chain.important_accounts() else {
            return self.end_task(Task::TimeSynchronisation, false);
        };
        let others = self.table.pre_trusted().iter().filter(|node| **node != self.address).count();
        let listed = others + self.unpinned.len();
        let round = self.time_sync.round(answers, listed, accounts, self.now.network);
        // The end is recorded first, on the same clock as the start.
        self.end_task(Task::TimeSynchronisation, round.is_ok());
        match round {
            Ok(round) if round.change != 0 => {
                log::debug!("network time is adjusted by {} ms", round.change);
                self.actions.push(Action::ShiftClock(round.change));
            }
            Err(Unchanged::NotAgreed) => log::debug!("network time is not adjusted: the listed peers do not agree"),
            Ok(_) | Err(Unchanged::NoSamples) => {}
        }
    }

    /// Queries the experiences of one peer.
    pub(super) fn update_experiences(&mut self) {
        let drawn = self.selector.one(&mut self.random).and_then(|node| Some((node, self.info(&node)?)));
        let is_asked = drawn.is_some_and(|(node, info)| {
            self.queue_query(&info, &Query::Experiences, RequestKind::Experiences(node)).is_some()
        });
        if !is_asked {
            self.end_task(Task::UpdatingExperiences, false);
        }
    }

    /// Processes a peer's experiences, or the failure of the request. A peer can report only its own.
    pub(super) fn on_experiences_reply(&mut self, node: Address, completed: Completed) {
        let endpoint = completed.endpoint.clone();
        let answer = self.read_answer::<NodeExperiences>(completed).ok();
        let own = answer.filter(|(reported, _)| self.address_of(&reported.node) == node);
        if own.is_some() {
            self.record_valid_answer(&node, &endpoint);
        }
        let is_taken = own.is_some_and(|(reported, _)| {
            let pair = |pair: &ExperiencePair| (self.address_of(&pair.node), pair.experience);
            // Experiences with a peer at another endpoint do not concern the known one.
            let known = reported.experiences.iter().filter(|pair| self.is_known_at(&pair.node));
            let pairs: Vec<_> = known.map(pair).collect();
            self.experiences.receive(node, &pairs, self.now.network).is_ok()
        });
        self.end_task(Task::UpdatingExperiences, is_taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fan_out_query_ends_with_its_last_answer_and_ignores_later_ones() {
        let mut round = FanOut::new(3);
        assert_eq!((round.record(Some(1)), round.record(None), round.is_over()), (None, None, false));
        assert_eq!(round.record(Some(2)), Some(vec![1, 2]));
        assert_eq!((round.record(Some(3)), round.is_over()), (None, true));
        assert!(FanOut::<()>::new(0).is_over());
        let mut round = FanOut::new(2);
        assert_eq!((round.record(Some(1)), round.finish_early(), round.record(Some(2))), (None, vec![1], None));
    }

    #[test]
    fn a_node_counts_as_synchronised_until_the_fourth_check_in_a_row_fails() {
        let mut check = HeightCheck::default();
        assert!(!check.is_synchronised());
        check.compare(Height(10), Some(Height(10)));
        for _ in 0..3 {
            check.compare(Height(10), Some(Height(11)));
            assert!(check.is_synchronised());
        }
        check.compare(Height(10), Some(Height(11)));
        assert!(!check.is_synchronised());
        // A single good check suffices, however long the node was behind.
        (0..100).for_each(|_| check.compare(Height(10), Some(Height(11))));
        check.compare(Height(11), Some(Height(11)));
        assert!(check.is_synchronised());
    }

    #[test]
    fn a_node_whose_peers_are_silent_counts_as_synchronised() {
        let mut check = HeightCheck::default();
        check.compare(Height(1), None);
        assert!(check.is_synchronised());
    }
}
