//! Queries to peers for chain heights, clocks and experiences.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Manager;
use super::fan_out::FanOutQuery;
use super::request_queue::{Completed, RequestKind};
use crate::model::{Address, Height};
use crate::peer::io::{MaxHeightQueryId, Now, PeerIo, Reply};
use crate::peer::schedule::Task;
use crate::peer::time_sync::{ClockAnswer, Sample, Unchanged};
use crate::peer::wire::{CommunicationTimeStamps, ExperiencePair, NodeExperiences, NodeInfo, Query};

/// Minimum importance of an account for its node's clock to count.
pub const MIN_IMPORTANCE: f64 = 0.000_25;

/// Time for which the largest reported height is cached, so that clients cannot cause endless queries.
pub const MAX_HEIGHT_TTL: Duration = Duration::from_secs(1);
/// Timeout of a query for the largest height; later answers are ignored.
pub const MAX_HEIGHT_TIMEOUT: Duration = Duration::from_secs(15);

/// Query for the largest height of the peers.
#[derive(Debug)]
pub struct MaxHeightQuery {
    id: MaxHeightQueryId,
    answers: FanOutQuery<Height>,
    started_at: Duration,
    /// Result and its time.
    result: Option<(Height, Duration)>,
}

impl MaxHeightQuery {
    /// Returns the timeout; `None` if the query has ended.
    pub fn timeout_at(&self) -> Option<Duration> {
        self.result.is_none().then_some(self.started_at + MAX_HEIGHT_TIMEOUT)
    }

    fn finish(&mut self, heights: &[Height], now: Now, io: &mut impl PeerIo) {
        let largest = heights.iter().max().copied().unwrap_or(Height::NEMESIS);
        self.result = Some((largest, now.monotonic));
        io.report_max_height(self.id, largest);
    }
}

/// Largest height of the peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxHeight {
    /// Known already: queried just before, or there is no peer to query.
    Known(Height),
    /// Queried; [`PeerIo::report_max_height`] returns the result.
    Pending(MaxHeightQueryId),
}

impl Manager {
    /// Queries the heights of peers.
    pub(super) fn check_height(&mut self, now: Now, io: &mut impl PeerIo) {
        let partners = self.select_peers(io);
        self.heights = FanOutQuery::new(self.queue_queries(&partners, &Query::Height, RequestKind::Height, io));
        if self.heights.is_over() {
            self.compare_heights(&[], now, io);
        }
    }

    /// Processes a height, or the failure of its request.
    pub(super) fn on_height_reply(
        &mut self,
        node: Address,
        completed: Completed,
        response: Reply,
        now: Now,
        io: &mut impl PeerIo,
    ) {
        let endpoint = completed.endpoint;
        let height = self.read_answer::<Height>(completed.proof, response).ok().map(|(height, _)| height);
        if height.is_some() {
            self.record_valid_answer(&node, &endpoint, now, io);
            self.table.data_mut(&node).into_iter().for_each(|about| about.height = height);
        }
        if let Some(heights) = self.heights.record(height) {
            self.compare_heights(&heights, now, io);
        }
    }

    fn compare_heights(&mut self, heights: &[Height], now: Now, io: &mut impl PeerIo) {
        let own = io.tip();
        if let Ok(own) = own {
            self.height_check.compare(own.height, heights.iter().max().copied());
        }
        self.end_task(Task::CheckingHeight, own.is_ok(), now);
    }

    /// Returns or queries the largest height of the peers, for a client. [`PeerIo::report_max_height`] is called
    /// later and once. Concurrent clients share one query, so that they cannot multiply requests.
    pub fn max_chain_height(&mut self, now: Now, io: &mut impl PeerIo) -> MaxHeight {
        match &self.max_height_query {
            Some(MaxHeightQuery { id, result: None, .. }) => return MaxHeight::Pending(*id),
            Some(MaxHeightQuery { result: Some((height, at)), .. }) if now.monotonic < *at + MAX_HEIGHT_TTL => {
                return MaxHeight::Known(*height);
            }
            _ => {}
        }
        let id = MaxHeightQueryId(self.max_height_query.as_ref().map_or(1, |former| former.id.0 + 1));
        let partners = self.select_peers(io);
        let asked = self.queue_queries(&partners, &Query::Height, |_| RequestKind::MaxHeight(id), io);
        let reported = (asked == 0).then_some((Height::NEMESIS, now.monotonic));
        self.max_height_query =
            Some(MaxHeightQuery { id, answers: FanOutQuery::new(asked), started_at: now.monotonic, result: reported });
        self.requests.send(now, io);
        reported.map_or(MaxHeight::Pending(id), |(height, _)| MaxHeight::Known(height))
    }

    /// Processes a height for a query of the largest, or the failure of its request.
    pub(super) fn on_max_height_reply(
        &mut self,
        id: MaxHeightQueryId,
        completed: Completed,
        response: Reply,
        now: Now,
        io: &mut impl PeerIo,
    ) {
        let height = self.read_answer::<Height>(completed.proof, response).ok().map(|(height, _)| height);
        let Some(query) = self.max_height_query.as_mut().filter(|query| query.id == id) else { return };
        if let Some(heights) = query.answers.record(height) {
            query.finish(&heights, now, io);
        }
    }

    /// Ends the query for the largest height at its timeout.
    pub(super) fn time_out_max_height_query(&mut self, now: Now, io: &mut impl PeerIo) {
        let is_slow = |query: &MaxHeightQuery| query.timeout_at().is_some_and(|end| end <= now.monotonic);
        if let Some(query) = self.max_height_query.as_mut().filter(|query| is_slow(query)) {
            let heights = query.answers.finish_early();
            query.finish(&heights, now, io);
        }
    }

    /// Queries the clocks of nodes with important accounts, and of active pre-trusted peers, which only confirm.
    pub(super) fn synchronise_time(&mut self, now: Now, io: &mut impl PeerIo) {
        let most = self.settings.time_sync_node_limit.min(super::MAX_FAN_OUT);
        let importance = |node: &Address| io.importance(node).map_or(0.0, |importance| importance.value);
        let important: BTreeSet<_> = self
            .trust
            .values()
            .iter()
            .map(|(node, _)| *node)
            .filter(|node| importance(node) >= MIN_IMPORTANCE)
            .collect();
        let drawn = self.selector.some_of(|node| important.contains(node), most, &mut || io.random());
        self.times = FanOutQuery::default();
        self.selected_clocks = drawn.iter().copied().collect();
        if !drawn.is_empty() {
            let is_undrawn = |node: &&Address| self.table.is_active(node) && !self.selected_clocks.contains(*node);
            let listed = self.table.pre_trusted().iter().filter(is_undrawn).take(super::MAX_FAN_OUT);
            let nodes = self.infos(drawn.iter().chain(listed).copied().collect());
            self.times = FanOutQuery::new(self.queue_queries(&nodes, &Query::NetworkTime, RequestKind::Time, io));
        }
        if self.times.is_over() {
            self.adjust_clock(&[], now, io);
        }
    }

    /// Processes a clock, or the failure of its request.
    pub(super) fn on_time_reply(
        &mut self,
        node: Address,
        completed: Completed,
        response: Reply,
        now: Now,
        io: &mut impl PeerIo,
    ) {
        let sent = completed.sent;
        let answer = self.read_answer::<CommunicationTimeStamps>(completed.proof, response).ok();
        if answer.is_some() {
            self.record_valid_answer(&node, &completed.endpoint, now, io);
        }
        // Ignored if the peer has moved since the request.
        let witness = answer.filter(|_| self.has_endpoint(&node, &completed.endpoint)).and_then(|(stamps, ip)| {
            let importance = io.importance(&node).ok()?.value;
            let CommunicationTimeStamps { send: remote_sent, receive: remote_received } = stamps;
            let sample = Sample { sent, remote_received, remote_sent, received: now.network_millis, importance };
            let is_listed = self.table.pre_trusted().contains(&node);
            Some(ClockAnswer {
                node,
                ip,
                is_pre_trusted: is_listed,
                is_selected: self.selected_clocks.contains(&node),
                sample,
            })
        });
        if let Some(answers) = self.times.record(witness) {
            self.adjust_clock(&answers, now, io);
        }
    }

    fn adjust_clock(&mut self, answers: &[ClockAnswer], now: Now, io: &mut impl PeerIo) {
        let Ok(accounts) = io.important_accounts() else {
            return self.end_task(Task::TimeSynchronisation, false, now);
        };
        let others = self.table.pre_trusted().iter().filter(|node| **node != self.address).count();
        let listed = others + self.unpinned.len();
        let round = self.time_sync.round(answers, listed, accounts, now.network);
        // The end is recorded first, on the same clock as the start.
        self.end_task(Task::TimeSynchronisation, round.is_ok(), now);
        match round {
            Ok(round) if round.change != 0 => {
                log::debug!("network time is adjusted by {} ms", round.change);
                io.shift_clock(round.change);
            }
            Err(Unchanged::NotAgreed) => log::debug!("network time is not adjusted: the listed peers do not agree"),
            Ok(_) | Err(Unchanged::NoSamples) => {}
        }
    }

    /// Queries a peer's experiences.
    pub(super) fn update_experiences(&mut self, now: Now, io: &mut impl PeerIo) {
        let is_asked = self.select_peer(io).is_some_and(|sync_peer| {
            let purpose = RequestKind::Experiences(self.address_of(&sync_peer));
            self.queue_query(&sync_peer, &Query::Experiences, purpose, io)
        });
        if !is_asked {
            self.end_task(Task::UpdatingExperiences, false, now);
        }
    }

    /// Returns whether another node's report about a peer concerns the known one: pre-trusted peers always, others only
    /// if known at the reported endpoint.
    pub(super) fn is_known_at(&self, node: &NodeInfo) -> bool {
        let known = self.table.get(&self.address_of(node));
        known.is_some_and(|known| known.is_pre_trusted || known.data.info.endpoint == node.endpoint)
    }

    /// Processes a peer's experiences, or the failure of the request. A peer can report only its own.
    pub(super) fn on_experiences_reply(
        &mut self,
        node: Address,
        completed: Completed,
        response: Reply,
        now: Now,
        io: &mut impl PeerIo,
    ) {
        let endpoint = completed.endpoint;
        let answer = self.read_answer::<NodeExperiences>(completed.proof, response).ok();
        let own = answer.filter(|(reported, _)| self.address_of(&reported.node) == node);
        if own.is_some() {
            self.record_valid_answer(&node, &endpoint, now, io);
        }
        let pairs: Option<Vec<_>> = own.map(|(reported, _)| {
            let pair = |pair: &ExperiencePair| (self.address_of(&pair.node), pair.experience);
            // Experiences with a peer at another endpoint do not concern the known one.
            reported.experiences.iter().filter(|pair| self.is_known_at(&pair.node)).map(pair).collect()
        });
        let is_taken = pairs.is_some_and(|pairs| self.experiences.receive(node, &pairs, now.network).is_ok());
        self.end_task(Task::UpdatingExperiences, is_taken, now);
    }
}
