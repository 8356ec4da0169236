//! Streams in progress, by connection.
//!
//! At most [`MAX_ACTIVE_PER_CLIENT`] streams of a client advance at a time; its others wait for a turn. When all streams
//! together hold too much memory, the client that holds most loses its least recently advanced stream.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::ApiError;
use super::streams::ResponseStream;
use crate::metrics::Ranking;
use crate::net::ClientKey;
use crate::net::service::{ConnectionId, Progress};

/// Maximum number of streams of a client that advance at a time.
pub const MAX_ACTIVE_PER_CLIENT: usize = 32;
/// Maximum memory of all streams in bytes. Beyond it the client that holds most loses a stream, with 503.
pub const MAX_BYTES: usize = 64 << 20;

const EVICTED: ApiError = ApiError::Unavailable("the long answers being written take too much memory");

/// The streams in progress.
#[derive(Default)]
pub struct PendingStreams {
    streams: HashMap<ConnectionId, PendingStream>,
    clients: BTreeMap<ClientKey, ClientStreams>,
    bytes: Ranking<ClientKey>,
    /// Number of steps of all streams so far.
    steps: u64,
    /// Connections to resume.
    resumable: Vec<ConnectionId>,
    /// Connections that have lost their streams, and are not resumed yet.
    evicted: HashSet<ConnectionId>,
}

struct PendingStream {
    stream: Box<dyn ResponseStream>,
    client: ClientKey,
    bytes: usize,
    /// Number of its last step.
    step: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active,
    /// It waits for a turn among the streams of its client.
    Queued,
    Suspended,
}

/// The streams of one client.
#[derive(Default)]
struct ClientStreams {
    /// All streams, least recently advanced first.
    by_last_step: BTreeSet<(u64, ConnectionId)>,
    /// Streams that wait for a turn, in order of arrival.
    queued: BTreeSet<(u64, ConnectionId)>,
    active: usize,
}

impl PendingStreams {
    /// Stores the stream of a connection after a step that returned `taken`; `bytes` is the memory that it holds,
    /// including the unsent body. Returns the state of the request, `Suspended` if other streams of the client go first,
    /// or 503 if the stream was evicted at once.
    pub fn insert(
        &mut self,
        connection: ConnectionId,
        client: ClientKey,
        rest: Box<dyn ResponseStream>,
        bytes: usize,
        progress: Progress,
    ) -> Result<Progress, ApiError> {
        self.detach(connection);
        self.steps += 1;
        let of_client = self.clients.entry(client).or_default();
        let state = match progress {
            Progress::Yield if of_client.active < MAX_ACTIVE_PER_CLIENT => State::Active,
            Progress::Yield => State::Queued,
            Progress::Done | Progress::Suspended | Progress::Streaming => State::Suspended,
        };
        let place = (self.steps, connection);
        of_client.by_last_step.insert(place);
        match state {
            State::Active => of_client.active += 1,
            State::Queued => _ = of_client.queued.insert(place),
            State::Suspended => {}
        }
        self.bytes.set(client, self.bytes.of(&client) + bytes);
        self.streams.insert(connection, PendingStream { stream: rest, client, bytes, step: self.steps, state });
        self.evict();
        // The caller learns the state from the result, so it must not be resumed as well.
        self.resumable.retain(|due| *due != connection);
        match self.streams.get(&connection).map(|kept| kept.state) {
            _ if self.evicted.remove(&connection) => Err(EVICTED),
            Some(State::Queued) => Ok(Progress::Suspended),
            _ => Ok(progress),
        }
    }

    /// Removes and returns the stream of a connection, or the error if it was evicted.
    pub fn remove(&mut self, connection: ConnectionId) -> Option<Result<Box<dyn ResponseStream>, ApiError>> {
        // Usually there are no streams.
        if self.streams.is_empty() && self.evicted.is_empty() {
            return None;
        }
        if self.evicted.remove(&connection) {
            return Some(Err(EVICTED));
        }
        self.detach(connection).map(|kept| Ok(kept.stream))
    }

    /// Gives free turns to the waiting streams of a client.
    pub fn activate_queued(&mut self, client: ClientKey) {
        let Some(of_client) = self.clients.get_mut(&client) else { return };
        while of_client.active < MAX_ACTIVE_PER_CLIENT
            && let Some((_, connection)) = of_client.queued.pop_first()
        {
            of_client.active += 1;
            self.streams.get_mut(&connection).into_iter().for_each(|kept| kept.state = State::Active);
            self.resumable.push(connection);
        }
    }

    /// Drops the stream of a closed connection.
    pub fn on_disconnect(&mut self, connection: ConnectionId) {
        self.evicted.remove(&connection);
        if let Some(PendingStream { client, .. }) = self.detach(connection) {
            self.activate_queued(client);
        }
    }

    /// Returns the connections to resume, each once.
    pub fn take_resumable(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.resumable)
    }

    fn detach(&mut self, connection: ConnectionId) -> Option<PendingStream> {
        let kept = self.streams.remove(&connection)?;
        let PendingStream { client, bytes, step, state, .. } = kept;
        self.bytes.set(client, self.bytes.of(&client).saturating_sub(bytes));
        let Some(of_client) = self.clients.get_mut(&client) else { return Some(kept) };
        of_client.by_last_step.remove(&(step, connection));
        of_client.queued.remove(&(step, connection));
        if state == State::Active {
            of_client.active = of_client.active.saturating_sub(1);
        }
        if of_client.by_last_step.is_empty() && of_client.active == 0 {
            self.clients.remove(&client);
        }
        Some(kept)
    }

    /// Evicts streams of the clients that hold most until the total is within the limit.
    fn evict(&mut self) {
        while self.bytes.total() > MAX_BYTES
            && let Some((_, client)) = self.bytes.largest()
            && let Some((_, connection)) = self.clients.get(&client).and_then(|all| all.by_last_step.first()).copied()
            && let Some(evicted) = self.detach(connection)
        {
            self.evicted.insert(connection);
            if evicted.state != State::Active {
                self.resumable.push(connection);
            }
            self.activate_queued(client);
        }
    }

    /// Returns the number of streams, including evicted ones whose request is not resumed yet.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.streams.len() + self.evicted.len()
    }

    /// Returns whether no stream and no accounting is left.
    #[cfg(test)]
    pub fn is_clear(&self) -> bool {
        self.len() == 0 && self.clients.is_empty() && self.bytes.total() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::NodeContext;
    use crate::api::streams::BodyWriter;
    use crate::net::service::{Client, ListenerId};

    struct EmptyStream;

    impl ResponseStream for EmptyStream {
        fn write_chunk(&mut self, _: &mut NodeContext<'_>, _: &mut BodyWriter<'_>) -> Result<Progress, ApiError> {
            Ok(Progress::Done)
        }

        fn held_bytes(&self) -> usize {
            0
        }
    }

    fn client(number: u8) -> ClientKey {
        let client = Client {
            listener: ListenerId(0),
            address: [10, 0, 0, number].into(),
            is_forwarded: false,
            is_unidentified: false,
        };
        ClientKey::of(&client, 64)
    }

    /// Stores a stream; `None` if it was evicted at once.
    fn keep(
        unfinished: &mut PendingStreams,
        connection: u64,
        of: u8,
        bytes: usize,
        progress: Progress,
    ) -> Option<Progress> {
        unfinished.insert(ConnectionId(connection), client(of), Box::new(EmptyStream), bytes, progress).ok()
    }

    fn due(unfinished: &mut PendingStreams) -> Vec<u64> {
        unfinished.take_resumable().into_iter().map(|connection| connection.0).collect()
    }

    #[test]
    fn streams_of_one_client_are_queued_without_delaying_other_clients() {
        let mut unfinished = PendingStreams::default();
        let (most, all) = (MAX_ACTIVE_PER_CLIENT as u64, 250);
        for connection in 0..all {
            let expected = if connection < most { Progress::Yield } else { Progress::Suspended };
            assert_eq!(keep(&mut unfinished, connection, 1, 1_000, Progress::Yield), Some(expected));
        }
        assert_eq!(keep(&mut unfinished, 1_000, 2, 1_000, Progress::Yield), Some(Progress::Yield));
        assert_eq!(
            keep(&mut unfinished, 1_001, 1, 0, Progress::Suspended),
            Some(Progress::Suspended),
            "it takes no turn"
        );
        // A stream that advances keeps its turn; one that ends gives it to the first that waits.
        assert!(unfinished.remove(ConnectionId(5)).is_some());
        assert_eq!(keep(&mut unfinished, 5, 1, 2_000, Progress::Yield), Some(Progress::Yield));
        assert_eq!(due(&mut unfinished), [0; 0]);
        for connection in 0..all {
            assert!(unfinished.remove(ConnectionId(connection)).is_some());
            unfinished.activate_queued(client(1));
            let next = connection + most;
            assert_eq!(due(&mut unfinished), if next < all { vec![next] } else { vec![] });
            if next < all {
                assert!(unfinished.remove(ConnectionId(next)).is_some_and(|rest| rest.is_ok()));
                assert_eq!(keep(&mut unfinished, next, 1, 9, Progress::Yield), Some(Progress::Yield));
            }
        }
        [1_000, 1_001].into_iter().for_each(|connection| unfinished.on_disconnect(ConnectionId(connection)));
        assert!(unfinished.is_clear());
    }

    #[test]
    fn a_disconnect_activates_the_next_queued_stream() {
        let mut unfinished = PendingStreams::default();
        let most = MAX_ACTIVE_PER_CLIENT as u64;
        for connection in 0..most + 3 {
            assert!(keep(&mut unfinished, connection, 1, 1, Progress::Yield).is_some());
        }
        unfinished.on_disconnect(ConnectionId(most + 1));
        assert_eq!(due(&mut unfinished), [0; 0]);
        unfinished.on_disconnect(ConnectionId(3));
        unfinished.on_disconnect(ConnectionId(4));
        assert_eq!(due(&mut unfinished), [most, most + 2]);
    }

    #[test]
    fn a_stream_activated_by_an_eviction_continues_without_being_resumed() {
        let mut unfinished = PendingStreams::default();
        let (most, share) = (MAX_ACTIVE_PER_CLIENT as u64, MAX_BYTES / MAX_ACTIVE_PER_CLIENT);
        for connection in 0..most {
            assert!(keep(&mut unfinished, connection, 1, share, Progress::Yield).is_some());
        }
        // The first is evicted for it, and fails when it is resumed.
        assert_eq!(keep(&mut unfinished, most, 1, share, Progress::Yield), Some(Progress::Yield));
        assert_eq!(due(&mut unfinished), [0; 0]);
        assert_eq!(
            keep(&mut unfinished, most + 1, 1, 0, Progress::Yield),
            Some(Progress::Suspended),
            "all turns are taken"
        );
        unfinished.on_disconnect(ConnectionId(most));
        assert_eq!(due(&mut unfinished), [most + 1]);
        // A stream evicted at once is reported at once, and not resumed.
        assert!(keep(&mut unfinished, 100, 2, MAX_BYTES + 1, Progress::Suspended).is_none());
        assert!(!due(&mut unfinished).contains(&100));
    }

    #[test]
    fn the_largest_client_loses_its_least_recently_written_stream() {
        let mut unfinished = PendingStreams::default();
        let share = MAX_BYTES / 16;
        for connection in 0..10 {
            assert!(keep(&mut unfinished, connection, 1, share, Progress::Yield).is_some());
        }
        for connection in 10..16 {
            assert!(keep(&mut unfinished, connection, 2, share, Progress::Suspended).is_some());
        }
        unfinished.remove(ConnectionId(0));
        assert!(keep(&mut unfinished, 0, 1, share, Progress::Yield).is_some());
        assert_eq!(keep(&mut unfinished, 20, 3, 1, Progress::Yield), Some(Progress::Yield));
        assert!(unfinished.remove(ConnectionId(1)).is_some_and(|rest| rest.is_err()));
        assert!(unfinished.remove(ConnectionId(0)).is_some_and(|rest| rest.is_ok()));
        assert_eq!(due(&mut unfinished), [0; 0], "one that is written on goes on by itself, and hears of it");
        // A waiting stream is resumed with the error; a client that asks for too much loses that stream at once.
        assert!(keep(&mut unfinished, 30, 1, 0, Progress::Yield).is_some());
        assert!(keep(&mut unfinished, 40, 4, 3 * share, Progress::Yield).is_some());
        assert!(keep(&mut unfinished, 41, 4, MAX_BYTES - share, Progress::Yield).is_none());
        (0..50).for_each(|connection| unfinished.on_disconnect(ConnectionId(connection)));
        assert!(unfinished.is_clear());
    }
}
