//! What is known of a peer: its description, the result of the last contact with it, and how its failures count.
//!
//! **Backoff.** A failed peer is not contacted for a minute, doubling with each further failure up to an hour. NIS1
//! backs off for one to two hours at once, so a restarted node is lost for that long, and nodes that are started
//! together lose each other. Here a restart costs a minute, and a dead peer costs six calls in the first hour and one
//! per hour later, as few as with NIS1.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use super::io::{Reply, StoreUnreadable, backoff};
use super::peer_table::is_private;
use super::wire::{AnswerError, ErrorBody, NodeInfo};
use crate::codec::{Context, Format};
use crate::ip::site;
use crate::model::{Address, Height, is_invisible};
use crate::net::fetch::{FetchError, FetchResponse, Response};

/// Backoff after the first failure.
pub const FIRST_BACKOFF: Duration = Duration::from_secs(60);
/// Maximum backoff.
pub const MAX_BACKOFF: Duration = Duration::from_secs(60 * 60);
/// Time since its last introduction after which an active peer is probed, if it is not selected meanwhile. Otherwise a
/// peer without trust (never selected) would stay active wherever it went, and would never be asked for its peers.
pub const RECHECK_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// Time for which a peer must answer, without failing twice in a row, to be proven.
pub const PROVEN_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of characters of a failure reason, and of a peer's text that is kept or logged.
pub const MAX_REASON: usize = 128;

/// Result of the last contact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// In the table from the start and not contacted yet.
    #[default]
    Untried,
    /// It answered.
    Active,
    /// It timed out, or is starting.
    Busy,
    /// It was unreachable.
    Inactive,
    /// It failed in another way.
    Failure,
}

impl State {
    /// Returns the name that the interface and the metrics use.
    pub fn name(self) -> &'static str {
        match self {
            State::Untried => "untried",
            State::Active => "active",
            State::Busy => "busy",
            State::Inactive => "inactive",
            State::Failure => "failure",
        }
    }

    /// Returns whether such a peer is backed off from.
    pub(super) fn is_backed_off(self) -> bool {
        matches!(self, State::Inactive | State::Failure)
    }

    /// Returns whether the last contact failed.
    fn has_failed(self) -> bool {
        matches!(self, State::Busy | State::Inactive | State::Failure)
    }
}

/// Error of a request to a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct PeerError {
    /// Effect on the peer's state.
    pub kind: State,
    /// Message for people.
    pub reason: String,
}

impl PeerError {
    /// Creates an error.
    pub fn new(kind: State, reason: impl fmt::Display) -> PeerError {
        PeerError { kind, reason: reason.to_string() }
    }

    /// Creates an error that the peer is to blame for.
    pub fn failure(reason: impl fmt::Display) -> PeerError {
        PeerError::new(State::Failure, reason)
    }

    /// Converts an unsuccessful reply. A peer that is still starting is not to blame.
    pub fn from_reply(reply: &Reply, format: Format, context: Context) -> PeerError {
        match reply {
            Err(FetchError::Unreachable(error)) => PeerError::new(State::Inactive, error),
            Err(FetchError::Silent(_)) => PeerError::new(State::Busy, "it did not answer in time"),
            Err(error) => PeerError::failure(error),
            Ok(fetched) if fetched.response.status == 200 => PeerError::failure("the answer is unusable"),
            Ok(FetchResponse { response: Response { status, body }, .. }) => {
                match format.read::<ErrorBody>(body, context) {
                    Ok(error) if error.is_starting() && *status == 503 => PeerError::new(State::Busy, "it is starting"),
                    Ok(ErrorBody { message: Some(text), .. }) => {
                        PeerError::failure(format!("status {status}: {}", sanitize(&text)))
                    }
                    _ => PeerError::failure(format!("status {status}")),
                }
            }
        }
    }
}

/// Replaces control characters in a peer's text by `?` and truncates it.
pub fn sanitize(text: &str) -> String {
    text.chars().take(MAX_REASON).map(|c| if is_invisible(c) { '?' } else { c }).collect()
}

/// Formats a peer for the log, with its name escaped to one line.
pub fn describe(info: &NodeInfo, address: &Address) -> String {
    let name = info.identity.name.as_deref().map(sanitize).unwrap_or_default();
    format!("{address} at {} ({name:?})", info.endpoint)
}

impl From<AnswerError> for PeerError {
    fn from(error: AnswerError) -> PeerError {
        PeerError::failure(sanitize(&error.to_string()))
    }
}

impl From<StoreUnreadable> for PeerError {
    fn from(error: StoreUnreadable) -> PeerError {
        PeerError::failure(error)
    }
}

/// Last failure of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastFailure {
    /// Time since the start of this node.
    pub at: Duration,
    /// The failure.
    pub error: PeerError,
}

/// Entry of the table.
#[derive(Clone, Debug, Default)]
pub struct PeerEntry {
    /// What the peer reports about itself, with its known endpoint.
    pub info: NodeInfo,
    /// Last reported chain height.
    pub height: Option<Height>,
    /// Last reported chain score.
    pub score: Option<i128>,
    /// Address that answered; `None` before the first answer of a peer that is known by name.
    pub ip: Option<IpAddr>,
    /// Result of the last contact.
    pub state: State,
    /// Whether it is on the operator's list.
    pub is_listed: bool,
    /// Time of the last answer, since the start of this node.
    pub last_contact: Option<Duration>,
    /// Time of the last introduction at its known endpoint, since the start of this node.
    pub(super) introduced_at: Option<Duration>,
    /// Time since which it has answered without failing twice in a row.
    pub(super) answers_since: Option<Duration>,
    /// Time of the last ping, since the start of this node.
    pub(super) pinged_at: Duration,
    /// Time of the last sign of life sent to it, since the start of this node; zero if none.
    pub sign_sent_at: Duration,
    /// Last failure, with at most [`MAX_REASON`] characters of its reason; successes do not reset it.
    pub last_failure: Option<LastFailure>,
    /// Failures since its last answer.
    pub failures: u32,
    /// Time of the first of these failures.
    pub(super) failing_since: Option<Duration>,
    /// Time of the last of them, if nothing answered at the known endpoint.
    pub(super) unreachable_at: Option<Duration>,
    /// Synchronisations started with it.
    pub synchronisations: u32,
    /// Time of the next retry after a failure.
    pub(super) retry_at: Duration,
    /// Time of the last probe that a failure or a sign of life caused.
    pub(super) last_recheck: Option<Duration>,
    /// Host and time of the last sign of life that caused a probe at once after a failed one.
    pub(super) immediate_probe: Option<(IpAddr, Duration)>,
    /// Whether it has delivered a block that was valid and new.
    pub has_delivered: bool,
    /// Backoff from it as a sync peer.
    pub sync_backoff: SyncBackoff,
    /// Time of the next query for its fork point, while its chain is worse than ours.
    pub fork_query_at: Option<Duration>,
    /// Time when its chain was last seen to have forked further back than the rewrite limit.
    pub split_at: Option<Duration>,
    /// Time of the last warning about such a fork.
    pub split_warned_at: Option<Duration>,
    /// It had not answered at the last pruning, nor since.
    pub(super) is_prune_candidate: bool,
}

impl PeerEntry {
    /// Creates the entry of a peer that has just introduced itself at an endpoint that was not known.
    pub(super) fn new_introduced(info: NodeInfo, ip: IpAddr, now: Duration) -> PeerEntry {
        let mut entry = PeerEntry { ip: Some(ip), introduced_at: Some(now), ..PeerEntry::new(info, State::Active) };
        entry.set_active(now);
        entry
    }

    pub(super) fn new(info: NodeInfo, state: State) -> PeerEntry {
        PeerEntry { info, state, ..PeerEntry::default() }
    }

    /// Returns its network, if its failures as a sync peer count for the network: a public one, unless it is listed or has
    /// delivered a block.
    pub(super) fn answerable_network(&self) -> Option<IpAddr> {
        self.ip.filter(|ip| !self.is_credible() && !is_private(*ip)).map(site)
    }

    /// Returns whether its word counts for more than that of a stranger: it is listed or has delivered a block.
    pub fn is_credible(&self) -> bool {
        self.is_listed || self.has_delivered
    }

    /// Returns the time of the next retry, if the last contact failed.
    pub fn retry_at(&self) -> Option<Duration> {
        self.state.has_failed().then_some(self.retry_at)
    }

    /// Returns the time of the next probe independent of selection; `None` if it is not listed and was never tried.
    pub(super) fn next_recheck(&self) -> Option<Duration> {
        match self.state {
            State::Untried => self.is_listed.then_some(Duration::ZERO),
            State::Active => self.introduced_at.map(|last| last + RECHECK_INTERVAL),
            State::Busy | State::Inactive | State::Failure => Some(self.retry_at),
        }
    }

    /// Returns whether it has delivered a block or has answered for [`PROVEN_AFTER`].
    pub fn is_proven(&self) -> bool {
        let answered = self.last_contact.zip(self.answers_since).map(|(last, since)| last.saturating_sub(since));
        self.has_delivered || answered.is_some_and(|time| time >= PROVEN_AFTER)
    }

    pub(super) fn set_active(&mut self, now: Duration) {
        self.state = State::Active;
        self.last_contact = Some(now);
        self.answers_since = self.answers_since.or(Some(now));
        self.failures = 0;
        self.failing_since = None;
        self.unreachable_at = None;
        self.is_prune_candidate = false;
    }

    pub(super) fn set_failed(&mut self, PeerError { kind, reason }: PeerError, now: Duration) {
        self.state = kind;
        let reason = reason.chars().take(MAX_REASON).collect();
        self.last_failure = Some(LastFailure { at: now, error: PeerError { kind, reason } });
        self.retry_at = now + backoff(FIRST_BACKOFF, self.failures, MAX_BACKOFF);
        if self.failures > 0 {
            self.answers_since = None;
        }
        self.failures = self.failures.saturating_add(1);
        self.failing_since.get_or_insert(now);
        self.unreachable_at = None;
        self.last_recheck = Some(now);
    }
}

/// Time for which other sync peers are preferred after a failed synchronisation, and its maximum; it doubles.
const SYNC_BACKOFF: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3600));

/// Backoff from a sync peer, or from all of a network that have delivered nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyncBackoff {
    /// Time until which other sync peers are preferred.
    pub retry_at: Duration,
    /// Failed synchronisations since the last delivery of blocks, or since [`SYNC_BACKOFF`] has long been over.
    pub(super) failures: u32,
}

impl SyncBackoff {
    pub(super) fn record_failure(&mut self, now: Duration) {
        let (first, most) = SYNC_BACKOFF;
        if now > self.retry_at + most {
            self.failures = 0;
        }
        self.retry_at = self.retry_at.max(now + backoff(first, self.failures, most));
        self.failures = self.failures.saturating_add(1);
    }
}
