//! Streams in progress, by connection.
//!
//! At most [`MAX_PER_CLIENT`] streams of a client advance at a time; its others wait for a turn. When all streams
//! together hold too much memory, the client that holds most loses its least recently advanced stream.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::failure::Failure;
use super::long::LongView;
use crate::figures::Ranking;
use crate::net::ClientKey;
use crate::net::machine::{ConnectionId, Taken};

/// Maximum number of streams of a client that advance at a time.
pub const MAX_PER_CLIENT: usize = 32;
/// Maximum memory of all streams in bytes. Beyond it the client that holds most loses a stream, with 503.
pub const MAX_BYTES: usize = 64 << 20;

const GIVEN_UP: Failure = Failure::Unavailable("the long answers being written take too much memory");

/// The streams in progress.
#[derive(Default)]
pub struct Unfinished {
    kept: HashMap<ConnectionId, Kept>,
    clients: BTreeMap<ClientKey, OfClient>,
    bytes: Ranking<ClientKey>,
    /// Number of steps of all streams so far.
    steps: u64,
    /// Connections to resume.
    due: Vec<ConnectionId>,
}

struct Kept {
    /// `None` if it was evicted.
    rest: Option<Box<dyn LongView>>,
    client: ClientKey,
    bytes: usize,
    /// Number of its last step.
    step: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Writing,
    /// It waits for a turn among the streams of its client.
    Waiting,
    Parked,
}

/// The streams of one client.
#[derive(Default)]
struct OfClient {
    /// All streams, least recently advanced first.
    by_step: BTreeSet<(u64, ConnectionId)>,
    /// Streams that wait for a turn, in order of arrival.
    waiting: BTreeSet<(u64, ConnectionId)>,
    writing: usize,
}

impl Unfinished {
    /// Stores the stream of a connection after a step that returned `taken`; `bytes` is the memory that it holds,
    /// including the unsent body. Returns the state of the request, `Parked` if other streams of the client go first,
    /// or 503 if the stream was evicted at once.
    pub fn keep(
        &mut self,
        connection: ConnectionId,
        client: ClientKey,
        rest: Box<dyn LongView>,
        bytes: usize,
        taken: Taken,
    ) -> Result<Taken, Failure> {
        self.forget(connection);
        self.steps += 1;
        let of_client = self.clients.entry(client).or_default();
        let state = match taken {
            Taken::Unfinished if of_client.writing < MAX_PER_CLIENT => State::Writing,
            Taken::Unfinished => State::Waiting,
            Taken::Done | Taken::Parked | Taken::Held => State::Parked,
        };
        let place = (self.steps, connection);
        of_client.by_step.insert(place);
        match state {
            State::Writing => of_client.writing += 1,
            State::Waiting => _ = of_client.waiting.insert(place),
            State::Parked => {}
        }
        self.bytes.set(client, self.bytes.of(&client) + bytes);
        self.kept.insert(connection, Kept { rest: Some(rest), client, bytes, step: self.steps, state });
        self.make_room();
        // The caller learns the state from the result, so it must not be resumed as well.
        self.due.retain(|due| *due != connection);
        match self.kept.get(&connection).filter(|kept| kept.rest.is_some()).map(|kept| kept.state) {
            Some(State::Waiting) => Ok(Taken::Parked),
            Some(State::Writing | State::Parked) => Ok(taken),
            None => {
                self.forget(connection);
                Err(GIVEN_UP)
            }
        }
    }

    /// Removes and returns the stream of a connection, or the error if it was evicted.
    pub fn take(&mut self, connection: ConnectionId) -> Option<Result<Box<dyn LongView>, Failure>> {
        // Usually there are no streams.
        if self.kept.is_empty() {
            return None;
        }
        self.forget(connection).map(|kept| kept.rest.ok_or(GIVEN_UP))
    }

    /// Gives free turns to the waiting streams of a client.
    pub fn go_on(&mut self, client: ClientKey) {
        let Some(of_client) = self.clients.get_mut(&client) else { return };
        while of_client.writing < MAX_PER_CLIENT
            && let Some((_, connection)) = of_client.waiting.pop_first()
        {
            of_client.writing += 1;
            self.kept.get_mut(&connection).into_iter().for_each(|kept| kept.state = State::Writing);
            self.due.push(connection);
        }
    }

    /// Drops the stream of a closed connection.
    pub fn gone(&mut self, connection: ConnectionId) {
        if let Some(Kept { client, .. }) = self.forget(connection) {
            self.go_on(client);
        }
    }

    /// Returns the connections to resume, each once.
    pub fn take_due(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.due)
    }

    fn forget(&mut self, connection: ConnectionId) -> Option<Kept> {
        let kept = self.kept.remove(&connection)?;
        self.release(connection, kept.client, kept.bytes, kept.step, kept.state);
        Some(kept)
    }

    /// Removes a stream from the accounting of its client.
    fn release(&mut self, connection: ConnectionId, client: ClientKey, bytes: usize, step: u64, state: State) {
        self.bytes.set(client, self.bytes.of(&client).saturating_sub(bytes));
        let Some(of_client) = self.clients.get_mut(&client) else { return };
        of_client.by_step.remove(&(step, connection));
        of_client.waiting.remove(&(step, connection));
        if state == State::Writing {
            of_client.writing = of_client.writing.saturating_sub(1);
        }
        if of_client.by_step.is_empty() && of_client.writing == 0 {
            self.clients.remove(&client);
        }
    }

    /// Evicts streams of the clients that hold most until the total is within the limit.
    fn make_room(&mut self) {
        while self.bytes.total() > MAX_BYTES
            && let Some((_, client)) = self.bytes.largest()
            && let Some((_, connection)) = self.clients.get(&client).and_then(|all| all.by_step.first()).copied()
            && let Some(kept) = self.kept.get_mut(&connection)
        {
            kept.rest = None;
            let bytes = std::mem::take(&mut kept.bytes);
            let state = std::mem::replace(&mut kept.state, State::Parked);
            let step = kept.step;
            if state != State::Writing {
                self.due.push(connection);
            }
            self.release(connection, client, bytes, step, state);
            self.go_on(client);
        }
    }

    /// Returns the number of streams, including evicted ones whose request is not resumed yet.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns whether no stream and no accounting is left.
    #[cfg(test)]
    pub fn is_clear(&self) -> bool {
        self.kept.is_empty() && self.clients.is_empty() && self.bytes.total() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ChainView;
    use crate::api::budget::Budget;
    use crate::api::long::Sheet;
    use crate::net::machine::{Caller, ListenerId};

    struct Nothing;

    impl LongView for Nothing {
        fn write_on(&mut self, _: &ChainView<'_>, _: &mut Sheet<'_>, _: &mut Budget) -> Result<Taken, Failure> {
            Ok(Taken::Done)
        }

        fn held_bytes(&self) -> usize {
            0
        }
    }

    fn client(number: u8) -> ClientKey {
        let caller = Caller {
            listener: ListenerId(0),
            address: [10, 0, 0, number].into(),
            is_forwarded: false,
            is_unnamed: false,
        };
        ClientKey::of(&caller, 64)
    }

    /// Stores a stream; `None` if it was evicted at once.
    fn keep(unfinished: &mut Unfinished, connection: u64, of: u8, bytes: usize, taken: Taken) -> Option<Taken> {
        unfinished.keep(ConnectionId(connection), client(of), Box::new(Nothing), bytes, taken).ok()
    }

    fn due(unfinished: &mut Unfinished) -> Vec<u64> {
        unfinished.take_due().into_iter().map(|connection| connection.0).collect()
    }

    #[test]
    fn answers_of_one_client_wait_for_their_turn_and_those_of_others_do_not_wait_for_them() {
        let mut unfinished = Unfinished::default();
        let (most, all) = (MAX_PER_CLIENT as u64, 250);
        for connection in 0..all {
            let expected = if connection < most { Taken::Unfinished } else { Taken::Parked };
            assert_eq!(keep(&mut unfinished, connection, 1, 1_000, Taken::Unfinished), Some(expected));
        }
        assert_eq!(keep(&mut unfinished, 1_000, 2, 1_000, Taken::Unfinished), Some(Taken::Unfinished));
        assert_eq!(keep(&mut unfinished, 1_001, 1, 0, Taken::Parked), Some(Taken::Parked), "it takes no turn");
        // A stream that advances keeps its turn; one that ends gives it to the first that waits.
        assert!(unfinished.take(ConnectionId(5)).is_some());
        assert_eq!(keep(&mut unfinished, 5, 1, 2_000, Taken::Unfinished), Some(Taken::Unfinished));
        assert_eq!(due(&mut unfinished), [0; 0]);
        for connection in 0..all {
            assert!(unfinished.take(ConnectionId(connection)).is_some());
            unfinished.go_on(client(1));
            let next = connection + most;
            assert_eq!(due(&mut unfinished), if next < all { vec![next] } else { vec![] });
            if next < all {
                assert!(unfinished.take(ConnectionId(next)).is_some_and(|rest| rest.is_ok()));
                assert_eq!(keep(&mut unfinished, next, 1, 9, Taken::Unfinished), Some(Taken::Unfinished));
            }
        }
        [1_000, 1_001].into_iter().for_each(|connection| unfinished.gone(ConnectionId(connection)));
        assert!(unfinished.is_clear());
    }

    #[test]
    fn a_connection_that_is_gone_gives_its_turn_to_the_next() {
        let mut unfinished = Unfinished::default();
        let most = MAX_PER_CLIENT as u64;
        for connection in 0..most + 3 {
            assert!(keep(&mut unfinished, connection, 1, 1, Taken::Unfinished).is_some());
        }
        unfinished.gone(ConnectionId(most + 1));
        assert_eq!(due(&mut unfinished), [0; 0]);
        unfinished.gone(ConnectionId(3));
        unfinished.gone(ConnectionId(4));
        assert_eq!(due(&mut unfinished), [most, most + 2]);
    }

    #[test]
    fn an_answer_whose_turn_comes_as_room_is_made_for_it_is_written_on_and_resumed_by_nobody() {
        let mut unfinished = Unfinished::default();
        let (most, share) = (MAX_PER_CLIENT as u64, MAX_BYTES / MAX_PER_CLIENT);
        for connection in 0..most {
            assert!(keep(&mut unfinished, connection, 1, share, Taken::Unfinished).is_some());
        }
        // The first is evicted for it, and fails when it is resumed.
        assert_eq!(keep(&mut unfinished, most, 1, share, Taken::Unfinished), Some(Taken::Unfinished));
        assert_eq!(due(&mut unfinished), [0; 0]);
        assert_eq!(
            keep(&mut unfinished, most + 1, 1, 0, Taken::Unfinished),
            Some(Taken::Parked),
            "all turns are taken"
        );
        unfinished.gone(ConnectionId(most));
        assert_eq!(due(&mut unfinished), [most + 1]);
        // A stream evicted at once is reported at once, and not resumed.
        assert!(keep(&mut unfinished, 100, 2, MAX_BYTES + 1, Taken::Parked).is_none());
        assert!(!due(&mut unfinished).contains(&100));
    }

    #[test]
    fn whoever_holds_most_loses_what_was_written_on_least_lately_and_a_newcomer_is_answered() {
        let mut unfinished = Unfinished::default();
        let share = MAX_BYTES / 16;
        for connection in 0..10 {
            assert!(keep(&mut unfinished, connection, 1, share, Taken::Unfinished).is_some());
        }
        for connection in 10..16 {
            assert!(keep(&mut unfinished, connection, 2, share, Taken::Parked).is_some());
        }
        unfinished.take(ConnectionId(0));
        assert!(keep(&mut unfinished, 0, 1, share, Taken::Unfinished).is_some());
        assert_eq!(keep(&mut unfinished, 20, 3, 1, Taken::Unfinished), Some(Taken::Unfinished));
        assert!(unfinished.take(ConnectionId(1)).is_some_and(|rest| rest.is_err()));
        assert!(unfinished.take(ConnectionId(0)).is_some_and(|rest| rest.is_ok()));
        assert_eq!(due(&mut unfinished), [0; 0], "one that is written on goes on by itself, and hears of it");
        // A waiting stream is resumed with the error; a client that asks for too much loses that stream at once.
        assert!(keep(&mut unfinished, 30, 1, 0, Taken::Unfinished).is_some());
        assert!(keep(&mut unfinished, 40, 4, 3 * share, Taken::Unfinished).is_some());
        assert!(keep(&mut unfinished, 41, 4, MAX_BYTES - share, Taken::Unfinished).is_none());
        (0..50).for_each(|connection| unfinished.gone(ConnectionId(connection)));
        assert!(unfinished.is_clear());
    }
}
