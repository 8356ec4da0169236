//! Joining the network: detection of this node's public address, and return to saved peers.
//!
//! **Own address.** Listed peers are asked; only if none of them answers, others are, and these count once for each
//! network. The node announces a reported address only if more than half of the answers name it, or just half if the
//! others name addresses of the other family, IPv4 or IPv6, of unlisted peers at least [`MIN_NETWORKS`], and only after
//! it has reached itself there: the answer to its own challenge is signed with its own key. That alone proves little,
//! because a relay at another address can pass on the challenge and the answer; so no address of a minority is ever
//! tried. Otherwise the node keeps what it has: so also behind a router that does not pass on connections from inside,
//! where the operator sets `nem.host`. Then nobody is asked at all.
//!
//! The node joins the network with the first valid answer, whoever sends it. If an answer is required and none arrives,
//! the node keeps querying the listed peers. Saved peers are queried too, but not waited for.
//!
//! After a restart, a node returns to the network: it contacts the saved peers, and suspends harvesting until one of the
//! known peers has answered at its known endpoint. Otherwise it would extend a chain of its own until peers find it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use super::probes::{Probe, ProbeReason};
use super::requests::{Answer, FanOut, RequestKind};
use super::{IpDetection, Manager, Phase};
use crate::ip::{Scope, scope, site};
use crate::model::{Address, Timestamp};
use crate::net::fetch::FetchResponse;
use crate::peer::io::{Now, RandomSource, backoff};
use crate::peer::peer_entry::PeerEntry;
use crate::peer::saved_peers::{MAX_SAVED, SavedPeer};
use crate::peer::schedule::{Schedule, Task};
use crate::peer::wire::{Endpoint, Message, NodeInfo, Query};

/// Backoff after the first round without an answer; doubles with each further one.
pub const FIRST_BACKOFF: Duration = Duration::from_secs(5);
/// Maximum backoff.
pub const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Maximum number of listed peers that are asked for this node's address at once.
const MAX_REPORTERS: usize = 16;
/// Maximum number of reports that are named in a warning.
const MAX_NAMED: usize = 8;
/// Minimum number of networks of unlisted peers that must report an address.
pub const MIN_NETWORKS: usize = 2;

/// Maximum time for which a node that knew peers does not harvest if none of them answers.
pub const MAX_WAIT: Duration = Duration::from_secs(60);
/// Maximum number of saved peers that a refresh probes.
pub const MAX_PROBES: usize = 24;
/// Failures after which a saved peer is probed only while no peer is active.
const MAX_ATTEMPTS: u32 = 5;

/// State before joining the network.
#[derive(Debug)]
pub struct Joining {
    /// Time of the next query, unless one runs.
    pub(super) retry_at: Option<Duration>,
    /// Number of rounds without an answer.
    pub(super) failures: u32,
}

/// This node's address, as another node reports it.
#[derive(Debug)]
pub struct AddressReport {
    /// The address as it was written.
    host: String,
    address: IpAddr,
    /// Address of the other node.
    by: IpAddr,
}

impl Manager {
    /// Queries this node's address if that is due, or joins the network if there is nothing to query.
    pub(super) fn join(&mut self) {
        let Phase::Joining(joining) = &mut self.phase else { return };
        if joining.retry_at.is_none_or(|next| next > self.now.monotonic) {
            return;
        }
        joining.retry_at = None;
        let nobody_known = self.unidentified.is_empty() && self.table.is_empty();
        if nobody_known || self.settings.ip_detection == IpDetection::Disabled {
            return self.finish_joining();
        }
        let drawn = self.select_peers();
        let unidentified = self.unidentified.iter().map(|unidentified| &unidentified.endpoint);
        let listed = drawn.iter().map(|node| &node.endpoint).chain(unidentified).cloned();
        let saved = self.unanswered_saved_peers().into_iter().map(|(_, node)| node.info.endpoint.clone());
        let endpoints: Vec<_> = listed.chain(saved).collect();
        self.first_addresses = FanOut::new(self.query_own_address(&endpoints, || RequestKind::FirstAddress));
        if self.first_addresses.is_over() {
            self.on_no_address();
        }
    }

    fn query_own_address(&mut self, endpoints: &[Endpoint], kind: impl Fn() -> RequestKind) -> usize {
        let request = Message::CanYouSeeMe(&self.local.endpoint).request(self.settings.format);
        endpoints.iter().filter(|endpoint| self.queue_message(endpoint, &request, kind())).count()
    }

    /// Processes an answer to the queries before joining, or the failure of the request. The first valid one joins; the
    /// address is looked at when all have come.
    pub(super) fn on_first_address_reply(&mut self, answer: &Answer) {
        let report = self.read_address_report(answer);
        if report.is_some() && !self.is_booted() {
            self.finish_joining();
        }
        let counted = report.filter(|_| self.is_listed(&answer.endpoint));
        let Some(reports) = self.first_addresses.record(counted) else { return };
        if self.is_booted() {
            self.follow_reports(&reports, 1);
        } else {
            self.on_no_address();
        }
    }

    /// Handles a round without an answer: joins anyway, or backs off if an answer is required.
    fn on_no_address(&mut self) {
        let nobody_listed =
            self.unidentified.is_empty() && self.table.listed.iter().all(|node| *node == self.table.local);
        if nobody_listed || self.settings.ip_detection != IpDetection::Required {
            return self.finish_joining();
        }
        let Phase::Joining(joining) = &mut self.phase else { return };
        let rest = backoff(FIRST_BACKOFF, joining.failures, MAX_BACKOFF);
        joining.retry_at = Some(self.now.monotonic + rest);
        joining.failures = joining.failures.saturating_add(1);
        log::warn!(
            "the network is not joined yet: no peer has reported this node's address; asking again in {} s. \
             Set nem.host to it, or nis.ipDetectionMode = AutoOptional to join without it",
            rest.as_secs()
        );
    }

    fn finish_joining(&mut self) {
        let is_wanted = |task| match task {
            Task::TimeSynchronisation => self.settings.uses_network_time,
            Task::IpDetection => self.settings.ip_detection != IpDetection::Disabled,
            _ => true,
        };
        self.phase = Phase::Running(Schedule::new(self.now.monotonic, is_wanted));
        let others = self.table.len() + self.unidentified.len();
        if others > 0 {
            self.harvesting_blocked_until = self.now.monotonic + MAX_WAIT;
            log::info!(
                "saved and listed peers: {others}; harvesting starts when one has answered, or after {} s",
                MAX_WAIT.as_secs()
            );
        }
        log::info!("joined the network as {}", self.local.endpoint);
    }

    /// Queries this node's address: listed peers first.
    pub(super) fn detect_address(&mut self) {
        let may_answer = |node: &&Address| self.table.may_be_contacted(node, self.now.monotonic);
        let mut listed: Vec<_> = self.table.listed.iter().filter(may_answer).copied().collect();
        self.random.choose(&mut listed, MAX_REPORTERS);
        let listed = self.infos(listed);
        self.collect_reports(listed, true);
    }

    fn collect_reports(&mut self, peers: Vec<NodeInfo>, are_listed: bool) {
        let endpoints: Vec<_> = peers.into_iter().map(|peer| peer.endpoint).collect();
        self.addresses = FanOut::new(self.query_own_address(&endpoints, || RequestKind::Address(are_listed)));
        if self.addresses.is_over() {
            self.on_reports(Vec::new(), are_listed);
        }
    }

    /// Processes an answer after joining, or the failure of the request.
    pub(super) fn on_address_reply(&mut self, is_listed: bool, answer: &Answer) {
        let report = self.read_address_report(answer);
        if let Some(reports) = self.addresses.record(report) {
            self.on_reports(reports, is_listed);
        }
    }

    fn on_reports(&mut self, mut reports: Vec<AddressReport>, are_listed: bool) {
        if reports.is_empty() && are_listed {
            let others = self.select_peers();
            return self.collect_reports(others, false);
        }
        self.end_task(Task::IpDetection, !reports.is_empty());
        if are_listed {
            return self.follow_reports(&reports, 1);
        }
        let mut networks = BTreeSet::new();
        reports.retain(|report| networks.insert(site(report.by)));
        self.follow_reports(&reports, MIN_NETWORKS);
    }

    /// Reads the host at which a peer sees this node.
    fn read_address_report(&self, answer: &Answer) -> Option<AddressReport> {
        let FetchResponse { response, from } =
            answer.reply.as_ref().ok().filter(|reply| reply.response.status == 200)?;
        let seen: Endpoint = self.settings.format.read(&response.body, self.settings.context).ok()?;
        let address = seen.address().filter(|address| scope(*address) > Scope::None)?;
        Some(AddressReport { host: seen.host, address, by: *from })
    }

    /// Challenges this node at the host that most of these reports name, and at least `least` of them, unless it is the
    /// present one. Peers of the other family see it at another address, IPv4 or IPv6: just half of all reports are enough
    /// if all others are of them. Then IPv4 is preferred.
    fn follow_reports(&mut self, reports: &[AddressReport], least: usize) {
        let count = |counts: &dyn Fn(&AddressReport) -> bool| reports.iter().filter(|report| counts(report)).count();
        let is_named_by_most = |report: &&AddressReport| {
            let votes = count(&|other| other.address == report.address);
            let of_family = count(&|other| other.address.is_ipv4() == report.address.is_ipv4());
            votes >= least && (2 * votes > reports.len() || 2 * votes == reports.len() && votes == of_family)
        };
        let Some(report) = reports.iter().filter(is_named_by_most).max_by_key(|report| report.address.is_ipv4()) else {
            // Strangers prove nothing.
            if least < MIN_NETWORKS {
                self.warn_of_reports(reports);
            }
            return;
        };
        if Some(report.address) != self.local.endpoint.address() {
            let endpoint = Endpoint { host: report.host.clone(), ..self.local.endpoint.clone() };
            let key = self.keys.public();
            self.queue(&endpoint, Some(key), &Query::NodeInfo, RequestKind::OwnAddress);
        }
    }

    /// Warns once of reports that do not agree, unless one of them names the present address.
    fn warn_of_reports(&mut self, reports: &[AddressReport]) {
        let present = self.local.endpoint.address();
        let is_present = |report: &AddressReport| Some(report.address) == present;
        if reports.is_empty() || reports.iter().any(is_present) || self.has_warned_of_reports {
            return;
        }
        self.has_warned_of_reports = true;
        let hosts: BTreeSet<_> = reports.iter().map(|report| report.host.as_str()).take(MAX_NAMED).collect();
        log::warn!(
            "peers report different addresses of this node ({}), none of them more than half; it announces {}. Set nem.host \
             to the right one",
            hosts.into_iter().collect::<Vec<_>>().join(", "),
            self.local.endpoint
        );
    }

    /// Processes the answer to this node's challenge of itself. Announces the endpoint if this node has answered.
    pub(super) fn on_own_address_reply(&mut self, answer: Answer) {
        let endpoint = &answer.endpoint;
        match self.read_answer::<NodeInfo>(&answer) {
            Ok(_) => {
                log::info!("this node is at {endpoint}: it has reached itself there");
                self.local.endpoint = answer.endpoint;
                // Peers that verify signs of life by the address need a new one.
                self.run_soon(Task::Broadcast);
            }
            Err(error) => {
                log::info!(
                    "peers report that this node is at {endpoint}, but it does not reach itself there ({error}); it \
                     announces {}. Set nem.host if another host is right",
                    self.local.endpoint
                );
            }
        }
    }

    /// Adds saved peers to the table at their saved endpoints, so that no other node can claim their names.
    pub fn add_saved_peers(&mut self, saved: &[SavedPeer]) {
        for SavedPeer { info, .. } in saved.iter().take(MAX_SAVED) {
            let (address, ip) = (self.address_of(info), info.endpoint.address());
            if address == self.table.local {
                continue;
            }
            match self.table.add_saved(address, ip, info.clone()) {
                Ok(()) => self.saved_peers.push(address),
                Err(rejected) => log::debug!("saved peer {address} is not added: {rejected:?}"),
            }
        }
    }

    /// Returns the peers that have answered since the start, to be saved.
    pub fn to_save(&self, now: Now) -> impl Iterator<Item = SavedPeer> {
        self.table.iter().filter_map(move |(_, node)| {
            let ago = now.monotonic.saturating_sub(node.last_contact?).as_secs();
            let answered = now.network.0.saturating_sub(i32::try_from(ago).unwrap_or(i32::MAX)).max(0);
            Some(SavedPeer { info: node.info.clone(), answered: Timestamp(answered) })
        })
    }

    /// Returns the saved peers that have not answered since the start, fewest failures first, at most [`MAX_PROBES`].
    fn unanswered_saved_peers(&self) -> Vec<(&Address, &PeerEntry)> {
        let is_unanswered = |node: &PeerEntry| !node.is_listed && node.last_contact.is_none();
        let saved = self.saved_peers.iter().filter_map(|address| Some((address, self.table.get(address)?)));
        let mut unanswered: Vec<_> = saved.filter(|(_, node)| is_unanswered(node)).collect();
        unanswered.sort_by_key(|(_, node)| node.failures);
        unanswered.truncate(MAX_PROBES);
        unanswered
    }

    /// Returns probes of saved peers that have not answered and are not selected already.
    pub(super) fn reconnect_probes(&self, drawn: &[Address]) -> Vec<(Address, Probe)> {
        let is_alone = !self.has_active_node();
        let is_asked = |node: &PeerEntry| is_alone || node.failures < MAX_ATTEMPTS;
        let saved = self.unanswered_saved_peers().into_iter();
        let asked = saved.filter(|(address, node)| is_asked(node) && !drawn.contains(address));
        asked.map(|(address, node)| (*address, Probe::of(&node.info, ProbeReason::Selected))).collect()
    }
}

#[cfg(test)]
mod tests;
