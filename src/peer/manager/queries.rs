//! Queries to peers for chain heights, clocks and experiences.
//!
//! **Heights.** What a peer reports up to our own height needs no proof. A greater height that blocks have proven is our
//! own soon. Otherwise it counts only if more than half of the networks of the listed peers that answer have reached it;
//! of each network the median counts. So nobody who is not listed, and no minority of those that are, makes this node
//! believe that it is behind.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::requests::{Answer, FanOut, RequestKind};
use super::{MAX_FAN_OUT, Manager, Now, select};
use crate::ip::site;
use crate::model::{Address, Height};
use crate::net::service::ConnectionId;
use crate::peer::block_download::BlockDownload;
use crate::peer::io::{LocalChain, RandomSource};
use crate::peer::peer_entry::PeerEntry;
use crate::peer::peer_table::is_private;
use crate::peer::schedule::Task;
use crate::peer::time_sync::{ClockAnswer, Sample};
use crate::peer::wire::{CommunicationTimeStamps, ExperiencePair, NodeExperiences, NodeInfo, Query};

/// Minimum importance of an account for its node's clock to count.
pub const MIN_IMPORTANCE: f64 = 0.000_25;

/// Maximum number of listed peers, besides selected ones, whose heights are queried at once.
const MAX_LISTED: usize = 16;
/// Time for which the height that clients asked for is cached, so that they cannot cause endless queries.
pub const ASKED_HEIGHT_TTL: Duration = Duration::from_secs(1);
/// Maximum time for which the height check and clients wait for the heights of peers; later answers are ignored.
pub const ASKED_HEIGHT_TIMEOUT: Duration = Duration::from_secs(15);
/// Consecutive failed checks after which the node no longer counts as synchronised.
const MAX_FAILURES: u32 = 4;

/// Result of the last checks.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeightCheck {
    failures_left: u32,
    /// Largest credible height of the last check.
    credible: Option<Height>,
    /// Target of a block download that has brought valid blocks.
    target: Option<Height>,
}

/// Returns the greatest height that more than half of these have reached.
fn reached_by_most(mut heights: Vec<Height>) -> Option<Height> {
    heights.sort_unstable();
    heights.get(heights.len().saturating_sub(1) / 2).copied()
}

/// Returns the network that counts once however many of its peers say a thing. On a private network each peer counts.
pub(super) fn counted_network(node: &Address, known: &PeerEntry) -> Option<(Option<Address>, IpAddr)> {
    known.ip.map(|ip| if is_private(ip) { (Some(*node), ip) } else { (None, site(ip)) })
}

impl HeightCheck {
    /// Compares our height with the largest credible one, or, without answers, with the nemesis height.
    pub fn compare(&mut self, own: Height, largest: Option<Height>) {
        self.credible = largest;
        self.failures_left =
            if own >= largest.unwrap_or(Height::NEMESIS) { MAX_FAILURES } else { self.failures_left.saturating_sub(1) };
    }

    /// Returns the height of the network: the credible one of the last check, or that of a block download whose first
    /// block was valid.
    pub fn network_height(self) -> Option<Height> {
        self.credible.into_iter().chain(self.target).max()
    }

    /// Returns whether the last checks found that this node has the chain that its peers have.
    pub fn is_synchronised(self) -> bool {
        self.failures_left > 0 && self.target.is_none()
    }
}

/// The query for the heights of peers, which the height check and clients share.
#[derive(Debug, Default)]
pub struct HeightQuery {
    reports: FanOut<(Address, Height)>,
    /// Network time of its start in milliseconds. Answers to requests of earlier queries are ignored.
    started: i64,
    /// Timeout; `None` if the query has ended.
    pub(super) timeout_at: Option<Duration>,
    /// Whether the height check waits for the result.
    is_check: bool,
    /// Clients that wait for the result.
    clients: Vec<ConnectionId>,
    /// Largest credible height of the last query, and its time.
    result: Option<(Height, Duration)>,
}

impl Manager {
    /// Returns the largest credible height of the peers if it was queried just before, or if there is no peer to query.
    /// Otherwise queries it, and the client waits for [`Manager::take_answer`] and then for
    /// [`Manager::asked_height`]. Clients share one query.
    pub fn max_chain_height(&mut self, client: ConnectionId, now: Now) -> Option<Height> {
        self.now = now;
        let is_fresh = |(_, at): &(Height, Duration)| now.monotonic < *at + ASKED_HEIGHT_TTL;
        if let Some((height, _)) = self.height_query.result.filter(is_fresh) {
            return Some(height);
        }
        if !self.query_heights() {
            return Some(Height::NEMESIS);
        }
        self.send_requests();
        self.clients.insert(client, None);
        self.height_query.clients.push(client);
        None
    }

    /// Returns the result of the last query, or the nemesis height.
    pub fn asked_height(&self) -> Height {
        self.height_query.result.map_or(Height::NEMESIS, |(height, _)| height)
    }

    /// Checks whether this node has the height of its peers.
    pub(super) fn check_height(&mut self, chain: &dyn LocalChain) {
        self.height_query.is_check = true;
        if !self.query_heights() {
            self.on_heights(&[], chain);
        }
    }

    /// Queries the heights of peers, unless that is under way. Returns whether any peer is queried.
    fn query_heights(&mut self) -> bool {
        if self.height_query.timeout_at.is_none() {
            let peers = self.select_for_heights();
            self.height_query.started = self.now.network_millis;
            self.height_query.reports = self.fan_out(&peers, &Query::Height, Manager::on_height_reply);
            let timeout = self.now.monotonic + ASKED_HEIGHT_TIMEOUT;
            self.height_query.timeout_at = (!self.height_query.reports.is_over()).then_some(timeout);
        }
        self.height_query.timeout_at.is_some()
    }

    /// Processes a height, or the failure of its request.
    fn on_height_reply(&mut self, node: Address, answer: &Answer, chain: &dyn LocalChain) {
        let height = self.read_from::<Height>(&node, answer).map(|(height, _)| height);
        if let Some(peer) = self.table.get_mut(&node) {
            peer.height = height.or(peer.height);
        }
        if answer.sent >= self.height_query.started
            && let Some(reports) = self.height_query.reports.record(height.map(|height| (node, height)))
        {
            self.on_heights(&reports, chain);
        }
    }

    /// Ends the query at its timeout.
    pub(super) fn time_out_heights(&mut self, chain: &dyn LocalChain) {
        if self.height_query.timeout_at.is_some_and(|end| end <= self.now.monotonic) {
            let reports = std::mem::take(&mut self.height_query.reports).answers;
            self.on_heights(&reports, chain);
        }
    }

    /// Ends the query: compares our height if that is due, and answers the clients.
    fn on_heights(&mut self, reports: &[(Address, Height)], chain: &dyn LocalChain) {
        let own = chain.tip().ok().map(|tip| tip.height);
        let largest = self.credible_height(reports, own.unwrap_or(Height::NEMESIS));
        self.height_query.timeout_at = None;
        self.height_query.result = Some((largest.unwrap_or(Height::NEMESIS), self.now.monotonic));
        for client in std::mem::take(&mut self.height_query.clients) {
            self.answer_client(client, Ok(()));
        }
        if std::mem::take(&mut self.height_query.is_check) {
            if let Some(own) = own {
                self.height_check.compare(own, largest);
            }
            self.end_task(Task::CheckingHeight, own.is_some());
        }
    }

    /// Notes the target of the block download while it brings valid blocks.
    pub(super) fn follow_block_download(&mut self, chain: &dyn LocalChain) {
        let now = self.now.monotonic;
        let is_followed = |download: &&BlockDownload| {
            !download.is_late(now)
                && chain.tip().is_ok_and(|tip| (download.base.height.next()..download.target).contains(&tip.height))
        };
        self.height_check.target = self.block_download.as_ref().filter(is_followed).map(|download| download.target);
    }

    /// Selects peers to query their heights: by trust, and listed ones.
    fn select_for_heights(&mut self) -> Vec<NodeInfo> {
        let mut peers = select(&self.selector, self.settings.node_limit, &mut self.random);
        let is_other = |node: &&Address| self.table.is_active(node) && !peers.contains(*node);
        let mut listed: Vec<_> = self.table.listed.iter().filter(is_other).copied().collect();
        self.random.choose(&mut listed, MAX_LISTED);
        peers.extend(listed);
        self.infos(peers)
    }

    /// Returns the greatest height that these reports make credible to a node that has `own`.
    fn credible_height(&self, reports: &[(Address, Height)], own: Height) -> Option<Height> {
        let mut networks = BTreeMap::<_, Vec<Height>>::new();
        for (node, height) in reports {
            if let Some(known) = self.table.get(node).filter(|known| known.is_listed) {
                networks.entry(counted_network(node, known)).or_default().push(*height);
            }
        }
        let most = reached_by_most(networks.into_values().filter_map(reached_by_most).collect());
        reports.iter().map(|(_, height)| *height).filter(|height| *height <= own).chain(most).max()
    }

    /// Queries the clocks of nodes with important accounts, and of active listed peers, which only confirm. Waits while the
    /// importances have to be read from the disk.
    pub(super) fn synchronise_time(&mut self, chain: &dyn LocalChain) {
        let most = self.settings.time_sync_node_limit.min(MAX_FAN_OUT);
        let nodes: Vec<Address> = self.trust.values.iter().map(|(node, _)| *node).collect();
        self.awaits_importances = !chain.has_read(&nodes);
        if self.awaits_importances {
            return;
        }
        let is_important = |node: &&Address| chain.importance(node).unwrap_or(0.0) >= MIN_IMPORTANCE;
        let important: BTreeSet<_> = nodes.iter().filter(is_important).copied().collect();
        let drawn = self.selector.some_of(|node| important.contains(node), most, &mut self.random);
        self.times = FanOut::default();
        self.selected_clocks = drawn.iter().copied().collect();
        if !drawn.is_empty() {
            let is_undrawn = |node: &&Address| self.table.is_active(node) && !self.selected_clocks.contains(*node);
            let listed = self.table.listed.iter().filter(is_undrawn).take(MAX_FAN_OUT);
            let nodes = self.infos(drawn.iter().chain(listed).copied().collect());
            self.times = self.fan_out(&nodes, &Query::NetworkTime, Manager::on_time_reply);
        }
        if self.times.is_over() {
            self.adjust_clock(&[], chain);
        }
    }

    /// Processes a clock, or the failure of its request.
    fn on_time_reply(&mut self, node: Address, answer: &Answer, chain: &dyn LocalChain) {
        let (sent, received) = (answer.sent, self.now.network_millis);
        let read = self.read_from::<CommunicationTimeStamps>(&node, answer);
        // Ignored if the peer has moved since the request.
        let clock = read.filter(|_| self.has_endpoint(&node, &answer.endpoint)).and_then(|(stamps, ip)| {
            let CommunicationTimeStamps { send: remote_sent, receive: remote_received } = stamps;
            let importance = chain.importance(&node).ok()?;
            let sample = Sample { sent, remote_received, remote_sent, received, importance };
            let is_listed = self.table.listed.contains(&node);
            let is_selected = self.selected_clocks.contains(&node);
            Some(ClockAnswer { node, ip, is_listed, is_selected, sample })
        });
        if let Some(answers) = self.times.record(clock) {
            self.adjust_clock(&answers, chain);
        }
    }

    fn adjust_clock(&mut self, answers: &[ClockAnswer], chain: &dyn LocalChain) {
        let Ok(accounts) = chain.important_accounts() else {
            return self.end_task(Task::TimeSynchronisation, false);
        };
        let others = self.table.listed.iter().filter(|node| **node != self.table.local).count();
        let listed = others + self.unidentified.len();
        let round = self.time_sync.round(answers, listed, accounts, self.now.network);
        // The end is recorded first, on the same clock as the start.
        self.end_task(Task::TimeSynchronisation, round.is_some());
        if let Some(round) = round.filter(|round| round.change != 0) {
            log::debug!("network time is adjusted by {} ms", round.change);
            self.clock_shift += round.change;
        }
    }

    /// Queries the experiences of one peer.
    pub(super) fn update_experiences(&mut self) {
        let drawn = self.selector.one(&mut self.random).and_then(|node| Some((node, self.info(&node)?)));
        let is_asked = drawn.is_some_and(|(node, info)| {
            let kind = RequestKind::Query(node, Manager::on_experiences_reply);
            self.queue_query(&info, &Query::Experiences, kind).is_some()
        });
        if !is_asked {
            self.end_task(Task::UpdatingExperiences, false);
        }
    }

    /// Processes a peer's experiences, or the failure of the request. A peer can report only its own.
    fn on_experiences_reply(&mut self, node: Address, answer: &Answer, _: &dyn LocalChain) {
        let read = self.read_answer::<NodeExperiences>(answer).ok();
        let own = read.filter(|(reported, _)| self.address_of(&reported.node) == node);
        if own.is_some() {
            self.record_valid_answer(&node, &answer.endpoint);
        }
        let is_taken = own.is_some_and(|(reported, _)| {
            let pair = |pair: &ExperiencePair| (self.address_of(&pair.node), pair.experience);
            // Experiences with a peer at another endpoint do not concern the known one.
            let known = reported.experiences.iter().filter(|pair| self.is_known_at(&pair.node));
            let pairs: Vec<_> = known.map(pair).collect();
            self.experiences.receive(node, &pairs, self.now.monotonic)
        });
        self.end_task(Task::UpdatingExperiences, is_taken);
    }
}

#[cfg(test)]
mod height_tests {
    use super::*;

    #[test]
    fn a_fan_out_query_ends_with_its_last_answer_and_ignores_later_ones() {
        let mut round = FanOut::new(3);
        assert_eq!((round.record(Some(1)), round.record(None), round.is_over()), (None, None, false));
        assert_eq!(round.record(Some(2)), Some(vec![1, 2]));
        assert_eq!((round.record(Some(3)), round.is_over()), (None, true));
        assert!(FanOut::<()>::new(0).is_over());
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

#[cfg(test)]
mod tests;
