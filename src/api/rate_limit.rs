//! The limit on requests from one address (specification 06 §1.9).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

/// Requests from one address within [`WINDOW_MILLIS`]; further ones are refused.
pub const MAX_REQUESTS: usize = 50;
/// Length of the window.
pub const WINDOW_MILLIS: u64 = 1000;
/// Addresses remembered at a time. When so many have sent something within the last window, requests from
/// further addresses are let through unwatched, since there is no telling whose fault that is.
pub const MAX_ADDRESSES: usize = 4096;

/// Arrival times of the last requests of an address, refused ones included.
#[derive(Default)]
struct Ring {
    times: Vec<u64>,
    /// Where the oldest time is once the ring is full.
    oldest: usize,
    latest: u64,
}

impl Ring {
    /// Notes a request; whether it is one too many.
    fn note(&mut self, now: u64) -> bool {
        self.latest = now;
        if self.times.len() < MAX_REQUESTS {
            self.times.push(now);
            return false;
        }
        let earlier = std::mem::replace(&mut self.times[self.oldest], now);
        self.oldest = (self.oldest + 1) % MAX_REQUESTS;
        now.saturating_sub(earlier) < WINDOW_MILLIS
    }

    fn is_idle(&self, now: u64) -> bool {
        now.saturating_sub(self.latest) >= WINDOW_MILLIS
    }
}

/// Counts the requests of each address.
#[derive(Default)]
pub struct RateLimiter {
    rings: HashMap<IpAddr, Ring>,
    /// When idle addresses were last forgotten.
    swept: u64,
}

impl RateLimiter {
    /// Notes a request at a moment in milliseconds, which never goes back; whether it must be refused.
    pub fn refuses(&mut self, peer: IpAddr, now: u64) -> bool {
        let peer = peer.to_canonical();
        if peer == IpAddr::V4(Ipv4Addr::LOCALHOST) {
            return false;
        }
        if self.rings.len() >= MAX_ADDRESSES && !self.rings.contains_key(&peer) {
            self.forget_idle(now);
            if self.rings.len() >= MAX_ADDRESSES {
                return false;
            }
        }
        self.rings.entry(peer).or_default().note(now)
    }

    /// Forgets addresses that have been silent for a whole window, whose rings cannot refuse anything. At most
    /// once per window, as it looks at all of them.
    fn forget_idle(&mut self, now: u64) {
        if now.saturating_sub(self.swept) >= WINDOW_MILLIS {
            self.swept = now;
            self.rings.retain(|_, ring| !ring.is_idle(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number))
    }

    #[test]
    fn the_fifty_first_request_within_a_second_is_refused() {
        let mut limiter = RateLimiter::default();
        for request in 0..MAX_REQUESTS as u64 {
            assert!(!limiter.refuses(peer(1), 5000 + request));
        }
        assert!(limiter.refuses(peer(1), 5999));
        assert!(!limiter.refuses(peer(2), 5999));
        // The second request came at 5001, and the refused one counts as well.
        assert!(limiter.refuses(peer(1), 6000));
        assert!(!limiter.refuses(peer(1), 7000));
    }

    #[test]
    fn the_ipv4_loopback_is_exempt_whatever_socket_it_comes_by() {
        let mut limiter = RateLimiter::default();
        let exempt = ["127.0.0.1", "::ffff:127.0.0.1"].map(|text| text.parse().unwrap());
        let loopback6: IpAddr = "::1".parse().unwrap();
        for _ in 0..MAX_REQUESTS {
            assert!(!limiter.refuses(loopback6, 5000));
        }
        assert!(limiter.refuses(loopback6, 5000));
        for _ in 0..2 * MAX_REQUESTS {
            assert!(exempt.iter().all(|peer| !limiter.refuses(*peer, 5000)));
        }
    }

    #[test]
    fn a_flood_of_addresses_takes_no_more_than_its_share_of_memory() {
        let mut limiter = RateLimiter::default();
        for number in 0..2 * MAX_ADDRESSES as u32 {
            assert!(!limiter.refuses(peer(number), 5000));
        }
        assert_eq!(limiter.rings.len(), MAX_ADDRESSES);
        // Those that are watched stay watched, and silence makes room.
        for _ in 1..MAX_REQUESTS {
            assert!(!limiter.refuses(peer(0), 5001));
        }
        assert!(limiter.refuses(peer(0), 5002));
        assert!(!limiter.refuses(peer(1_000_000), 6001));
        assert_eq!(limiter.rings.len(), 2);
    }
}
