//! Detection of this node's public address.
//!
//! Before joining, the first valid answer counts; afterwards, the most frequent one. Only the host is taken from an
//! answer, and only if it is an IP address. If an answer is required and none arrives, the node keeps querying the
//! pre-trusted peers. Saved peers are queried too, but not waited for.

use std::net::IpAddr;
use std::time::Duration;

use super::calls::Purpose;
use super::round::Round;
use super::settings::IpDetection;
use super::{Peers, Phase};
use crate::peer::outside::{Now, Outside, Reply};
use crate::peer::schedule::{Schedule, Task};
use crate::peer::wire::{Endpoint, Message};

/// Backoff after the first round without an answer; doubles with each further one.
pub const FIRST_REST: Duration = Duration::from_secs(5);
/// Maximum backoff.
pub const LONGEST_REST: Duration = Duration::from_secs(60);

/// State before joining the network.
#[derive(Debug)]
pub struct Joining {
    outstanding: usize,
    next_try: Option<Duration>,
    failures: u32,
}

impl Joining {
    /// Creates the state without any query.
    pub fn new(now: Duration) -> Joining {
        Joining { outstanding: 0, next_try: Some(now), failures: 0 }
    }

    /// Returns the time of the next query.
    pub fn next_try(&self) -> Option<Duration> {
        self.next_try
    }

    /// Returns the number of rounds without an answer.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

impl Peers {
    /// Queries this node's address if that is due, or joins the network if there is nothing to query.
    pub(super) fn join(&mut self, now: Now, outside: &mut impl Outside) {
        let Phase::Joining(joining) = &mut self.phase else { return };
        if joining.next_try.is_none_or(|next| next > now.running) {
            return;
        }
        joining.next_try = None;
        let nobody_known = self.unpinned.is_empty() && self.nodes.is_empty();
        if nobody_known || self.settings.ip_detection == IpDetection::Disabled {
            return self.has_joined(now);
        }
        let drawn = self.draw_partners(outside);
        let unpinned = self.unpinned.iter().map(|unpinned| &unpinned.endpoint);
        let listed = drawn.iter().map(|node| &node.endpoint).chain(unpinned).cloned();
        let endpoints: Vec<_> = listed.chain(self.kept_endpoints()).collect();
        let asked = self.ask_for_address(&endpoints, Purpose::FirstAddress);
        match &mut self.phase {
            Phase::Joining(joining) if asked > 0 => joining.outstanding = asked,
            _ => self.nobody_answers(now),
        }
    }

    fn ask_for_address(&mut self, endpoints: &[Endpoint], purpose: Purpose) -> usize {
        let request = Message::CanYouSeeMe(&self.local.endpoint).request(self.settings.format);
        endpoints.iter().filter(|endpoint| self.tell(endpoint, request.clone(), purpose.clone())).count()
    }

    /// Processes an answer before joining, or the failure of the request.
    pub(super) fn first_address_ended(&mut self, reply: Reply, now: Now) {
        let seen = self.seen_at(reply);
        let Phase::Joining(joining) = &mut self.phase else { return };
        joining.outstanding = joining.outstanding.saturating_sub(1);
        let nobody_left = joining.outstanding == 0;
        match seen {
            Some(host) => {
                self.is_seen_at(host);
                self.has_joined(now);
            }
            None if nobody_left => self.nobody_answers(now),
            None => {}
        }
    }

    /// Handles a round without an answer: joins anyway, or backs off if an answer is required.
    fn nobody_answers(&mut self, now: Now) {
        let nobody_listed =
            self.unpinned.is_empty() && self.nodes.pre_trusted().iter().all(|node| *node == self.address);
        if nobody_listed || self.settings.ip_detection != IpDetection::Required {
            return self.has_joined(now);
        }
        let Phase::Joining(joining) = &mut self.phase else { return };
        let rest = FIRST_REST.saturating_mul(2_u32.saturating_pow(joining.failures)).min(LONGEST_REST);
        joining.next_try = Some(now.running + rest);
        joining.failures = joining.failures.saturating_add(1);
        log::warn!(
            "the network is not joined yet: no other node says under which address it sees this one; asking again in {} s. \
             nis.ipDetectionMode = AutoOptional joins without",
            rest.as_secs()
        );
    }

    fn has_joined(&mut self, now: Now) {
        let is_wanted = |task| match task {
            Task::TimeSynchronisation => self.settings.uses_network_time,
            Task::IpDetection => self.settings.ip_detection != IpDetection::Disabled,
            _ => true,
        };
        self.phase = Phase::Running(Schedule::new(now.running, is_wanted));
        self.begin_to_return(now);
        log::info!("joined the network as {}", self.local.endpoint);
    }

    /// Queries this node's address.
    pub(super) fn detect_address(&mut self, now: Now, outside: &mut impl Outside) {
        let endpoints: Vec<_> = self.draw_partners(outside).into_iter().map(|node| node.endpoint).collect();
        self.addresses = Round::new(self.ask_for_address(&endpoints, Purpose::Address));
        if self.addresses.is_over() {
            self.end_task(Task::IpDetection, false, now);
        }
    }

    /// Processes an answer after joining, or the failure of the request.
    pub(super) fn address_ended(&mut self, reply: Reply, now: Now) {
        let seen = self.seen_at(reply);
        let Some(heard) = self.addresses.hear(seen) else { return };
        let is_heard = !heard.is_empty();
        if let Some(host) = said_most_often(&heard, &self.local.endpoint.host) {
            self.is_seen_at(host);
        }
        self.end_task(Task::IpDetection, is_heard, now);
    }

    /// Reads the host at which a peer sees this node.
    fn seen_at(&self, reply: Reply) -> Option<String> {
        let Reply::Answer { body, .. } = reply else { return None };
        let seen: Endpoint = self.settings.format.read(&body, self.settings.context).ok()?;
        seen.address().filter(|ip| !ip.is_unspecified() && !ip.is_multicast()).map(|_| seen.host)
    }

    fn is_seen_at(&mut self, host: String) {
        let endpoint = Endpoint { host, ..self.local.endpoint.clone() };
        if endpoint != self.local.endpoint {
            log::info!("others see this node at {endpoint}");
            self.local.endpoint = endpoint;
        }
    }
}

/// Returns the most frequent host; of several, the present one if it is among them, otherwise the first.
fn said_most_often(heard: &[String], present: &str) -> Option<String> {
    let ip = |host: &str| -> Option<IpAddr> { Endpoint::http(host, 1).address() };
    let votes = |host: &String| heard.iter().filter(|other| ip(other) == ip(host)).count();
    let mut best: Option<(usize, &String)> = None;
    for host in heard {
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
