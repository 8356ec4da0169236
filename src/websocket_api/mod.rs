//! The websocket API: STOMP sessions, subscriptions, publishing, and the HTTP layer of its port, as state machines
//! without sockets, clock or randomness.
//!
//! | module | purpose |
//! |---|---|
//! | [`Broker`] | handles events of sessions and of the chain, and sends through [`Effects`]; queues what is to be published |
//! | `publish_job` | delivers a sequence of messages to their recipients |
//! | `content` | what is published: topics, requests and messages, and the bodies that recipients share |
//! | `session_table` | sessions, the websockets that carry their frames, their usage, subscriptions, registered addresses and timers |
//! | `topics` | topics and patterns, the subscriptions of one session, and the index of all |
//! | `frames` | executes the frames of clients |
//! | [`stomp`] | decodes and encodes STOMP frames |
//! | [`http`] | answers HTTP requests on the port, among them the websocket upgrade |
//! | [`sockjs`] | frames and messages of SockJS |
//!
//! Work is counted in units of about one microsecond, and expensive work runs in steps.
//!
//! [`Effects`]: crate::net::service::Effects

mod broker;
mod content;
mod frames;
pub mod http;
mod publish_job;
mod session_table;
pub mod sockjs;
pub mod stomp;
#[cfg(test)]
mod tests;
mod topics;

pub use broker::Broker;
pub use session_table::SessionId;

/// Limits of the broker.
///
/// A request beyond a limit of its session or client is rejected. At a global limit, the session that gives way by the
/// [`quota`](crate::quota) is evicted: it gets ERROR and is closed with 1002. So nobody is rejected because of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open sessions. Beyond it, the longest silent session of the client with the most is closed with 1013.
    pub sessions: usize,
    /// Subscriptions of one session; a further SUBSCRIBE is answered with ERROR.
    pub subscriptions_per_session: usize,
    /// Subscriptions of one session to the same destination; a further SUBSCRIBE is answered with ERROR.
    pub subscriptions_per_destination: usize,
    /// Pattern subscriptions of one session; a further SUBSCRIBE is answered with ERROR.
    pub patterns_per_session: usize,
    /// Distinct patterns of all sessions; a global limit. Each published topic is compared with each pattern.
    pub patterns: usize,
    /// Addresses registered by one session; a further SUBSCRIBE is answered with ERROR, a SEND on `/errors`.
    pub addresses_per_session: usize,
    /// Unanswered queries of one session; at the limit its frames wait.
    pub queries_per_session: usize,
    /// Bytes of one session, checked when it subscribes or registers an address; beyond it, a SUBSCRIBE is answered
    /// with ERROR, a SEND on `/errors`.
    pub session_bytes: usize,
    /// Bytes of all sessions of one client, unfinished frames and answers included. Beyond it no session is opened and subscriptions
    /// are rejected; a session that goes on growing gets ERROR and is closed with 1002.
    pub client_bytes: usize,
    /// Bytes of all sessions; a global limit.
    pub total_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 10_000,
            subscriptions_per_session: 1_000,
            subscriptions_per_destination: 8,
            patterns_per_session: 20,
            patterns: 1_000,
            addresses_per_session: 1_000,
            queries_per_session: 16,
            session_bytes: 768 * 1024,
            client_bytes: 16 * 1024 * 1024,
            total_bytes: 64 * 1024 * 1024,
        }
    }
}
