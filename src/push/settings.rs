//! The switches and limits of the messaging interface.

use std::time::Duration;

use super::stomp::DEFAULT_FRAME_BYTES;

/// Body of `/blocks/new`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlocksNewBody {
    /// Always `{"height":N}`, as NIS1.
    Object,
    /// A bare `N` for raw sessions whose last CONNECT, if any, named no `accept-version`; the object for all others.
    #[default]
    Auto,
    /// Always a bare `N`.
    Number,
}

/// How the broker deviates from NIS1, and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The body of `/blocks/new`.
    pub blocks_new: BlocksNewBody,
    /// Subscribing to `/transactions/<A>`, `/unconfirmed/<A>` or `/account/<A>` registers A.
    pub register_on_subscribe: bool,
    /// `account/subscribe` of a raw session that named no `accept-version` subscribes it to `/transactions/<A>`.
    pub implicit_subscription: bool,
    /// Blanks around header values, a missing subscription id, `accept-version:1.0` and `receipt` on any of SUBSCRIBE,
    /// UNSUBSCRIBE and SEND are understood.
    pub forgiving: bool,
    /// The limits.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            blocks_new: BlocksNewBody::default(),
            register_on_subscribe: true,
            implicit_subscription: true,
            forgiving: true,
            limits: Limits::default(),
        }
    }
}

/// What one broker holds at most.
///
/// What a session asks for beyond a limit of its own, or of its caller, is refused to it. Where a total is reached,
/// room is made: the largest session of the caller that holds most gets ERROR and is closed with 1002. So nobody is
/// refused anything because of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open sessions. Beyond it the client that has most loses the one that has been silent for longest, with 1013; where
    /// none has more than the newcomer would have, that one is closed with 1013.
    pub sessions: usize,
    /// Subscriptions of one session; a further SUBSCRIBE is answered with ERROR.
    pub subscriptions_per_session: usize,
    /// Subscriptions of one session to the same destination; beyond it as above.
    pub subscriptions_per_destination: usize,
    /// Pattern subscriptions of one session; beyond it as above.
    pub patterns_per_session: usize,
    /// Distinct patterns of all sessions, each of which every publication is compared with; a total.
    pub patterns: usize,
    /// Addresses registered by one session; a further SUBSCRIBE is answered with ERROR, a SEND on `/errors`.
    pub addresses_per_session: usize,
    /// Queries of one session that wait for their answers; while there are as many, none of its frames is handled.
    pub queries_per_session: usize,
    /// While more bytes than this wait to be sent to a session, none of its queries is begun.
    pub query_backlog_bytes: usize,
    /// Bytes of one inbound STOMP frame; beyond it ERROR, then close 1002.
    pub frame_bytes: usize,
    /// Bytes that the subscriptions and addresses of one session take; beyond it as above each of them.
    pub session_bytes: usize,
    /// Bytes that all sessions of one caller take, unfinished frames included. Beyond it no session is opened and
    /// nothing is subscribed to; a session that sends unfinished frames gets ERROR and is closed with 1002.
    pub caller_bytes: usize,
    /// Bytes that all sessions take; a total.
    pub total_bytes: usize,
    /// Leading bits of an IPv6 address that make one caller, 0 to 128.
    pub ipv6_prefix: u8,
    /// Time for the first message of a session; without one it is closed with 4500.
    pub first_message: Duration,
    /// Sessions of one caller that are fetched from by requests of HTTP, which take no connection between two of them; a
    /// further one is closed with 1013.
    pub mailboxes_per_caller: usize,
    /// Bytes that wait until such a session is fetched from; beyond it they are dropped, and it is closed with 4500.
    pub backlog_bytes: usize,
    /// A SockJS session hears a heart-beat when it has been told nothing for so long.
    pub heartbeat: Duration,
    /// A SockJS session from which nobody has fetched for so long is forgotten.
    pub disconnect_delay: Duration,
}

impl Limits {
    /// Sessions that only clients of this machine may open: one of a hundred.
    pub fn local_sessions(&self) -> usize {
        self.sessions / 100
    }
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
            query_backlog_bytes: 64 * 1024,
            frame_bytes: DEFAULT_FRAME_BYTES,
            session_bytes: 768 * 1024,
            caller_bytes: 16 * 1024 * 1024,
            total_bytes: 64 * 1024 * 1024,
            ipv6_prefix: 64,
            first_message: Duration::from_secs(60),
            mailboxes_per_caller: 250,
            backlog_bytes: 512 * 1024,
            heartbeat: Duration::from_secs(25),
            disconnect_delay: Duration::from_secs(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_decided() {
        let settings = Settings::default();
        assert_eq!(settings.blocks_new, BlocksNewBody::Auto);
        assert!(settings.register_on_subscribe && settings.implicit_subscription);
        assert!(settings.forgiving);
    }
}
