//! Detection of this node's public address.
//!
//! Before joining, the first valid answer counts; afterwards, the most frequent one. Only the host is taken from an
//! answer, and only if it is an IP address. If an answer is required and none arrives, the node keeps querying the
//! pre-trusted peers. Saved peers are queried too, but not waited for.

use std::net::IpAddr;
use std::time::Duration;

use super::fan_out::FanOutQuery;
use super::request_queue::RequestKind;
use super::settings::IpDetection;
use super::{Manager, Phase};
use crate::peer::io::{Now, PeerIo, Reply};
use crate::peer::schedule::{Schedule, Task};
use crate::peer::wire::{Endpoint, Message};

/// Backoff after the first round without an answer; doubles with each further one.
pub const FIRST_BACKOFF: Duration = Duration::from_secs(5);
/// Maximum backoff.
pub const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// State before joining the network.
#[derive(Debug)]
pub struct Joining {
    answers: FanOutQuery<()>,
    retry_at: Option<Duration>,
    failures: u32,
}

impl Joining {
    /// Creates the state without any query.
    pub fn new(now: Duration) -> Joining {
        Joining { answers: FanOutQuery::default(), retry_at: Some(now), failures: 0 }
    }

    /// Returns the time of the next query.
    pub fn retry_at(&self) -> Option<Duration> {
        self.retry_at
    }

    /// Returns the number of rounds without an answer.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

impl Manager {
    /// Queries this node's address if that is due, or joins the network if there is nothing to query.
    pub(super) fn join(&mut self, now: Now, io: &mut impl PeerIo) {
        let Phase::Joining(joining) = &mut self.phase else { return };
        if joining.retry_at.is_none_or(|next| next > now.monotonic) {
            return;
        }
        joining.retry_at = None;
        let nobody_known = self.unpinned.is_empty() && self.table.is_empty();
        if nobody_known || self.settings.ip_detection == IpDetection::Disabled {
            return self.finish_joining(now);
        }
        let drawn = self.select_peers(io);
        let unpinned = self.unpinned.iter().map(|unpinned| &unpinned.endpoint);
        let listed = drawn.iter().map(|node| &node.endpoint).chain(unpinned).cloned();
        let endpoints: Vec<_> = listed.chain(self.saved_endpoints()).collect();
        let asked = self.query_own_address(&endpoints, RequestKind::FirstAddress);
        match &mut self.phase {
            Phase::Joining(joining) if asked > 0 => joining.answers = FanOutQuery::new(asked),
            _ => self.on_no_address(now),
        }
    }

    fn query_own_address(&mut self, endpoints: &[Endpoint], kind: RequestKind) -> usize {
        let request = Message::CanYouSeeMe(&self.local.endpoint).request(self.settings.format);
        endpoints.iter().filter(|endpoint| self.queue_message(endpoint, request.clone(), kind.clone())).count()
    }

    /// Processes an answer before joining, or the failure of the request.
    pub(super) fn on_first_address_reply(&mut self, response: Reply, now: Now) {
        let seen = self.read_seen_host(response);
        let Phase::Joining(joining) = &mut self.phase else { return };
        let is_over = joining.answers.record(None).is_some();
        if let Some(host) = seen {
            self.set_own_host(host);
            self.finish_joining(now);
        } else if is_over {
            self.on_no_address(now);
        }
    }

    /// Handles a round without an answer: joins anyway, or backs off if an answer is required.
    fn on_no_address(&mut self, now: Now) {
        let nobody_listed =
            self.unpinned.is_empty() && self.table.pre_trusted().iter().all(|node| *node == self.address);
        if nobody_listed || self.settings.ip_detection != IpDetection::Required {
            return self.finish_joining(now);
        }
        let Phase::Joining(joining) = &mut self.phase else { return };
        let rest = FIRST_BACKOFF.saturating_mul(2_u32.saturating_pow(joining.failures)).min(MAX_BACKOFF);
        joining.retry_at = Some(now.monotonic + rest);
        joining.failures = joining.failures.saturating_add(1);
        log::warn!(
            "the network is not joined yet: no peer has reported this node's address; asking again in {} s. \
             Set nis.ipDetectionMode = AutoOptional to join without it",
            rest.as_secs()
        );
    }

    fn finish_joining(&mut self, now: Now) {
        let is_wanted = |task| match task {
            Task::TimeSynchronisation => self.settings.uses_network_time,
            Task::IpDetection => self.settings.ip_detection != IpDetection::Disabled,
            _ => true,
        };
        self.phase = Phase::Running(Schedule::new(now.monotonic, is_wanted));
        self.start_reconnect(now);
        log::info!("joined the network as {}", self.local.endpoint);
    }

    /// Queries this node's address.
    pub(super) fn detect_address(&mut self, now: Now, io: &mut impl PeerIo) {
        let endpoints: Vec<_> = self.select_peers(io).into_iter().map(|node| node.endpoint).collect();
        self.addresses = FanOutQuery::new(self.query_own_address(&endpoints, RequestKind::Address));
        if self.addresses.is_over() {
            self.end_task(Task::IpDetection, false, now);
        }
    }

    /// Processes an answer after joining, or the failure of the request.
    pub(super) fn on_address_reply(&mut self, response: Reply, now: Now) {
        let seen = self.read_seen_host(response);
        let Some(received) = self.addresses.record(seen) else { return };
        let is_heard = !received.is_empty();
        if let Some(host) = most_frequent(&received, &self.local.endpoint.host) {
            self.set_own_host(host);
        }
        self.end_task(Task::IpDetection, is_heard, now);
    }

    /// Reads the host at which a peer sees this node.
    fn read_seen_host(&self, response: Reply) -> Option<String> {
        let Reply::Answer { body, .. } = response else { return None };
        let seen: Endpoint = self.settings.format.read(&body, self.settings.context).ok()?;
        seen.address().filter(|ip| !ip.is_unspecified() && !ip.is_multicast()).map(|_| seen.host)
    }

    fn set_own_host(&mut self, host: String) {
        let endpoint = Endpoint { host, ..self.local.endpoint.clone() };
        if endpoint != self.local.endpoint {
            log::info!("peers see this node at {endpoint}");
            self.local.endpoint = endpoint;
        }
    }
}

/// Returns the most frequent host; of several, the present one if it is among them, otherwise the first.
fn most_frequent(received: &[String], present: &str) -> Option<String> {
    let ip = |host: &str| -> Option<IpAddr> { Endpoint::http(host, 1).address() };
    let votes = |host: &String| received.iter().filter(|other| ip(other) == ip(host)).count();
    let mut best: Option<(usize, &String)> = None;
    for host in received {
        let count = votes(host);
        let is_better = best.is_none_or(|(most, _)| count > most);
        let is_present = ip(host) == ip(present) && best.is_some_and(|(most, _)| count == most);
        if is_better || is_present {
            best = Some((count, host));
        }
    }
    let (_, host) = best?;
    Some(if ip(host) == ip(present) { present.to_owned() } else { host.clone() })
}
