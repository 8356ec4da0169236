//! How many connections the system lets this process have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// File descriptors that are kept for the store, the log, listeners, names, and connections that are turned away.
const RESERVE: usize = 64 + crate::net::TURNED_AWAY_AT_ONCE;
/// A part of the descriptors that is kept for requests to other servers.
const FOR_FETCHES: usize = 8;

/// Raises the limit on file descriptors as far as the system allows. Connections that fit into it besides everything
/// else, and requests to other servers.
pub fn raise() -> (usize, usize) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_err() {
        log::warn!("the limit on open files cannot be raised");
    }
    let limit = getrlimit(Resource::Nofile).current;
    room_in(limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX)))
}

fn room_in(descriptors: usize) -> (usize, usize) {
    let rest = descriptors.saturating_sub(RESERVE).max(16);
    let fetches = rest / FOR_FETCHES;
    (rest - fetches, fetches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_everything_else() {
        assert_eq!(room_in(1024), (784, 112));
        assert_eq!(room_in(10), (14, 2));
        assert!(room_in(usize::MAX).0 > 1 << 40);
    }
}
