//! The number of connections that the system allows this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// File descriptors reserved for the store, the log, listeners, DNS, and connections that are being rejected.
const RESERVE: usize = 64 + crate::net::MAX_REJECTED_CONNECTIONS;
/// Divisor for the share of descriptors reserved for requests to other servers.
const FETCH_DIVISOR: usize = 8;

/// Raises the limit on file descriptors as far as the system allows. Returns how many client connections and how many
/// requests to other servers fit into it.
pub fn raise_limit() -> (usize, usize) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_err() {
        log::warn!("the limit on open files cannot be raised");
    }
    let limit = getrlimit(Resource::Nofile).current;
    split_descriptors(limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX)))
}

fn split_descriptors(descriptors: usize) -> (usize, usize) {
    let rest = descriptors.saturating_sub(RESERVE).max(16);
    let fetches = rest / FETCH_DIVISOR;
    (rest - fetches, fetches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_limit_leaves_descriptors_for_other_uses() {
        assert_eq!(split_descriptors(1024), (784, 112));
        assert_eq!(split_descriptors(10), (14, 2));
        assert!(split_descriptors(usize::MAX).0 > 1 << 40);
    }
}
