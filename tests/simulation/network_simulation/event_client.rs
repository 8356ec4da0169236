//! Clients of `/events`, each of which reads at one node after another. It is killed at random and goes on with what it
//! had stored, at any node, with the id that it had stored.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use nisd::model::Address;
use nisd::net::service::ConnectionId;
use serde_json::json;

use super::member::Member;
use crate::common::Random;
use crate::common::bookkeeper::{Books, MempoolWatch, RollbackCounts, StreamEvent};
use crate::common::http;

/// Number of members at which a client reads in turn.
const NODES: usize = 3;
/// Maximum number of states that a client keeps stored; it may go back to any of them.
const MAX_STORED: usize = 5;
/// Milliseconds between turns of a client at most, and events that it processes in one at most.
const TURN_INTERVAL: usize = 1_500;
const TURN_EVENTS: usize = 60;
/// Events per stored state, and turns per loss of the connection, on average.
const PER_STORED: usize = 3;
const PER_LOSS: usize = 6;

/// What a client keeps.
#[derive(Clone, Debug)]
pub enum Kept {
    Books(Books),
    Mempool(MempoolWatch),
}

/// What a client keeps, and the id of the last event that it contains.
type State = (Kept, Option<String>);

/// A connection to a member.
struct Connection {
    member: usize,
    /// The life of the member.
    life: u32,
    id: ConnectionId,
    /// What was received and not processed yet.
    text: Vec<u8>,
}

/// How often something happened to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounts {
    pub events: u64,
    pub connections: u64,
    /// How often it was killed, and lost its connection for another reason.
    pub killed: u64,
    pub lost: u64,
    /// How often it had to begin again because its id was of another chain.
    pub begun_again: u64,
    /// Blocks in the end of books from which nothing may be undone.
    pub final_blocks: u64,
    /// Unconfirmed transactions that it was told, by their ends: confirmed, left, and still waiting.
    pub unconfirmed: [u64; 3],
    pub rollbacks: RollbackCounts,
}

impl ClientCounts {
    pub fn merge(&mut self, other: &ClientCounts) {
        self.events += other.events;
        self.connections += other.connections;
        self.killed += other.killed;
        self.lost += other.lost;
        self.begun_again += other.begun_again;
        self.final_blocks += other.final_blocks;
        self.unconfirmed.iter_mut().zip(other.unconfirmed).for_each(|(count, more)| *count += more);
        self.rollbacks.merge(other.rollbacks);
    }
}

/// A client.
pub struct EventClient {
    /// Its requests: path with query, and body of a POST.
    target: String,
    addresses: Option<Vec<Address>>,
    client: IpAddr,
    /// What it keeps before the first event.
    initial: Kept,
    state: State,
    /// Oldest first.
    stored: VecDeque<State>,
    connection: Option<Connection>,
    random: Random,
    /// Some members have chains that are never one again.
    is_forked: bool,
    /// Nothing happens to it any more.
    pub is_calm: bool,
    counts: ClientCounts,
}

impl EventClient {
    /// Creates a client that reads these query parameters for some accounts, or for all.
    pub fn new(
        query: &str,
        addresses: Option<Vec<Address>>,
        initial: Kept,
        number: u8,
        seed: u64,
        is_forked: bool,
    ) -> EventClient {
        EventClient {
            target: format!("/events?{query}"),
            addresses,
            client: IpAddr::V4(Ipv4Addr::new(198, 51, 100, number)),
            state: (initial.clone(), None),
            initial,
            stored: VecDeque::new(),
            connection: None,
            random: Random(seed ^ 0x6576_656e_7473 ^ u64::from(number) << 56),
            is_forked,
            is_calm: false,
            counts: ClientCounts::default(),
        }
    }

    /// Returns the accounts of which it reads, unless they are all.
    pub fn addresses(&self) -> Option<&[Address]> {
        self.addresses.as_deref()
    }

    pub fn kept(&self) -> &Kept {
        &self.state.0
    }

    /// Returns how often something happened to it in all.
    pub fn counts(&self) -> ClientCounts {
        let mut counts = self.counts;
        match &self.state.0 {
            Kept::Books(books) if books.is_final => {
                counts.final_blocks = books.last_block().map_or(0, |(last, _)| last)
            }
            Kept::Books(_) => {}
            Kept::Mempool(watch) => {
                counts.unconfirmed = [watch.ends[0], watch.ends[1], watch.waiting.len() as u64];
            }
        }
        counts
    }

    /// Returns the member to which it is connected.
    pub fn member(&self) -> Option<usize> {
        self.connection.as_ref().map(|connection| connection.member)
    }

    /// Draws the time until its next turn.
    pub fn pause(&mut self) -> Duration {
        Duration::from_millis(50 + self.random.below(TURN_INTERVAL) as u64)
    }

    /// Reads, processes, loses its connection or connects. Returns the member whose effects are to be processed.
    pub fn turn(&mut self, members: &mut [Member<'_>], now: Duration) -> Option<usize> {
        self.receive(members);
        let count = if self.is_calm { usize::MAX } else { self.random.below(TURN_EVENTS) };
        self.process(count);
        if self.connection.is_none() {
            return self.connect(members, now);
        }
        let member = self.member();
        if !self.is_calm && self.random.below(PER_LOSS) == 0 {
            self.lose_connection(members, now);
        }
        member
    }

    /// Takes what its stream has sent.
    fn receive(&mut self, members: &mut [Member<'_>]) {
        let Some(connection) = &mut self.connection else { return };
        let member = &mut members[connection.member];
        let mut running = member.running.as_mut().filter(|_| member.start_count == connection.life);
        match running.as_mut().and_then(|running| running.node.read_stream(connection.id)) {
            Some(bytes) => connection.text.extend(bytes),
            None => {
                let answer = running.and_then(|running| running.node.take_answer(connection.id));
                self.process(usize::MAX);
                self.connection = None;
                self.counts.lost += 1;
                answer.iter().for_each(|answer| self.begin_again(answer));
            }
        }
    }

    /// Its id was refused, or its stream ended because its place is of another chain.
    fn begin_again(&mut self, answer: &http::Response) {
        if answer.status == 200 && self.is_forked {
            return;
        }
        let text = String::from_utf8_lossy(&answer.body);
        let is_foreign = answer.status == 400 && text.contains("begin again with from=");
        assert!(is_foreign && self.is_forked, "{:?} is answered {} {text}", self.state.1, answer.status);
        self.state = (self.initial.clone(), None);
        self.stored.clear();
        self.counts.begun_again += 1;
    }

    /// Processes some of the events that it has received.
    fn process(&mut self, count: usize) {
        for _ in 0..count {
            let Some(connection) = &mut self.connection else { return };
            let Some(event) = StreamEvent::take_from(&mut connection.text) else { return };
            log::debug!("client {} reads {} {} {:.300}", self.client, event.kind, event.id, event.data.to_string());
            self.counts.events += 1;
            match &mut self.state.0 {
                Kept::Books(books) => books.apply(&event, &mut self.counts.rollbacks),
                Kept::Mempool(watch) => watch.apply(&event),
            }
            self.state.1 = Some(event.id);
            if self.random.below(PER_STORED) == 0 {
                self.stored.push_back(self.state.clone());
                if self.stored.len() > MAX_STORED {
                    self.stored.pop_front();
                }
            }
        }
    }

    /// Loses its connection, and unless only that breaks, all that it has not stored.
    pub fn lose_connection(&mut self, members: &mut [Member<'_>], now: Duration) {
        let Some(Connection { member, life, id, .. }) = self.connection.take() else { return };
        let member = &mut members[member];
        if let Some(running) = member.running.as_mut().filter(|_| member.start_count == life) {
            running.set_now(now);
            running.node.disconnect(id);
        }
        if self.random.below(3) == 0 {
            self.counts.lost += 1;
            return;
        }
        self.counts.killed += 1;
        let back = self.random.below(self.stored.len().max(1));
        self.stored.truncate(self.stored.len() - back);
        self.state = self.stored.back().cloned().unwrap_or_else(|| (self.initial.clone(), None));
        log::debug!("client {} is killed and goes on after {:?}", self.client, self.state.1);
    }

    /// Connects to one of the members.
    fn connect(&mut self, members: &mut [Member<'_>], now: Duration) -> Option<usize> {
        let is_there = |index: &usize| {
            let running = members.get(*index).and_then(|member| member.running.as_ref());
            running.is_some_and(|running| running.busy_until <= now)
        };
        let there: Vec<_> = (0..NODES).filter(is_there).collect();
        let member = *there.get(self.random.below(there.len().max(1)))?;
        let id = self.state.1.as_ref().map_or(String::new(), |id| format!("Last-Event-ID: {id}\r\n"));
        let request = match &self.addresses {
            None => http::get_with(&self.target, &id),
            Some(addresses) => {
                let addresses: Vec<_> = addresses.iter().map(Address::as_str).collect();
                let body = json!({ "addresses": addresses }).to_string();
                http::post_with(&self.target, &body, &id)
            }
        };
        if let Kept::Mempool(watch) = &mut self.state.0 {
            watch.reconnect();
        }
        self.counts.connections += 1;
        let life = members[member].start_count;
        let running = members[member].running.as_mut()?;
        running.set_now(now);
        log::debug!("client {} connects to {member} with {id}", self.client);
        let id = running.node.submit(self.client, request.as_bytes(), false).expect("a stream");
        self.connection = Some(Connection { member, life, id, text: Vec::new() });
        Some(member)
    }
}
