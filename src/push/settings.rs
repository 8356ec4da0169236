//! The switches and limits of the messaging interface.

use super::stomp::DEFAULT_FRAME_BYTES;

/// Body of `/blocks/new` (specification 07 §15, D1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlocksNewBody {
    /// Always `{"height":N}`, as NIS1.
    Object,
    /// A bare `N` for raw sessions whose last CONNECT, if any, had no `accept-version` header;
    /// the object for all others.
    #[default]
    Auto,
    /// Always a bare `N`.
    Number,
}

/// How the broker deviates from NIS1, and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// D1: the body of `/blocks/new`.
    pub blocks_new: BlocksNewBody,
    /// D2: subscribing to `/transactions/<A>`, `/unconfirmed/<A>` or `/account/<A>` registers A.
    pub register_on_subscribe: bool,
    /// D3: `account/subscribe` of a session without subscriptions subscribes it to
    /// `/transactions/<A>`.
    pub implicit_subscription: bool,
    /// D4: blanks around header values, a missing subscription id, `accept-version:1.0` and
    /// `receipt` on any of SUBSCRIBE, UNSUBSCRIBE and SEND are understood.
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

/// What one broker holds at most. The defaults follow specification 07 §13 where it names a
/// number; the totals keep the worst case of all sessions together within a small machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open sessions; beyond it `Broker::open` fails.
    pub sessions: usize,
    /// Subscriptions of one session; beyond it SUBSCRIBE is answered with ERROR and the session
    /// goes on.
    pub subscriptions_per_session: usize,
    /// Subscriptions of all sessions; beyond it as above.
    pub subscriptions: usize,
    /// Pattern subscriptions of one session; beyond it as above.
    pub patterns_per_session: usize,
    /// Distinct patterns of all sessions, each of which every publication is compared with;
    /// beyond it as above.
    pub patterns: usize,
    /// Registered addresses; beyond it further ones are not registered, and
    /// `account/subscribe` reports that on `/errors`.
    pub registered_addresses: usize,
    /// Bytes of one inbound STOMP frame; beyond it ERROR, then close 1002.
    pub frame_bytes: usize,
    /// Bytes of incomplete inbound frames of all sessions; the session that goes beyond it gets
    /// ERROR and close 1002.
    pub incomplete_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 10_000,
            subscriptions_per_session: 1_000,
            subscriptions: 100_000,
            patterns_per_session: 20,
            patterns: 1_000,
            registered_addresses: 1_000_000,
            frame_bytes: DEFAULT_FRAME_BYTES,
            incomplete_bytes: 16 * 1024 * 1024,
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
