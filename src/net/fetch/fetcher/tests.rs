use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::fetch::Method;
use crate::ip::Scope;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A fetcher without sockets, and the time.
struct Bench {
    fetcher: Fetcher,
    now: Duration,
    last: u64,
}

fn fetch(host: &str) -> FetchRequest {
    FetchRequest {
        endpoint: Endpoint { host: host.to_owned(), port: 7890 },
        least_scope: Scope::Loopback,
        method: Method::Get,
        target: "/".to_owned(),
        media_type: "application/json",
        body: [].into(),
        body_limit: 1000,
        timeout: Duration::from_secs(10),
        read_timeout: Duration::from_secs(10),
        is_idempotent: true,
    }
}

impl Bench {
    fn new(limits: FetchLimits) -> Self {
        Self { fetcher: Fetcher::new(limits, 0), now: Duration::ZERO, last: 0 }
    }

    fn start(&mut self, request: FetchRequest) -> FetchId {
        self.last += 1;
        self.fetcher.start(FetchId(self.last), request, self.now);
        FetchId(self.last)
    }

    /// Returns the slots of connections in a stage.
    fn slots(&self, is_it: fn(&Stage) -> bool) -> Vec<usize> {
        let connections = self.fetcher.connections.iter();
        connections.filter(|(_, connection)| is_it(&connection.stage)).map(|(slot, _)| slot).collect()
    }

    fn is_open(&self, slot: usize) -> bool {
        self.slots(|stage| matches!(stage, Stage::Open { .. })).contains(&slot)
    }

    /// Answers the lookup of the host of a connection with two addresses.
    fn resolve(&mut self, slot: usize) {
        let name = self.fetcher.connections[slot].host.host.clone();
        self.fetcher.names.on_lookup(&name, Ok(vec![[10, 0, 0, 1].into(), [10, 0, 0, 2].into()]), self.now);
        self.take_resolved();
    }

    fn take_resolved(&mut self) {
        while let Some((slot, addresses)) = self.fetcher.names.resolved.pop_front() {
            self.fetcher.resolved(slot, addresses, self.now);
        }
    }

    /// Resolves the hosts of all connections.
    fn answer_dns(&mut self) {
        self.take_resolved();
        while let Some(slot) = self.slots(|stage| matches!(stage, Stage::Resolving)).first() {
            self.resolve(*slot);
        }
    }

    /// Resolves all hosts and returns the connections to open.
    fn attempts(&mut self) -> Vec<(usize, SocketAddr)> {
        self.answer_dns();
        std::iter::from_fn(|| self.fetcher.next_attempt()).collect()
    }

    /// Opens all wanted connections and sends their requests. Returns the slots.
    fn connect(&mut self) -> Vec<usize> {
        let slots: Vec<usize> = self.attempts().into_iter().map(|(slot, _)| slot).collect();
        slots.iter().for_each(|slot| self.fetcher.connected(*slot, self.now));
        slots.iter().for_each(|slot| _ = self.send(*slot, usize::MAX));
        slots
    }

    /// Sends bytes of the request of a connection. Returns them.
    fn send(&mut self, slot: usize, most: usize) -> Vec<u8> {
        let Connection { request: Some(request), stage: Stage::Open { sent, .. }, .. } =
            &mut self.fetcher.connections[slot]
        else {
            return Vec::new();
        };
        let mut bytes = request.unsent(*sent).concat();
        bytes.truncate(most);
        *sent += bytes.len();
        bytes
    }

    /// Sends the requests assigned to idle connections. Returns the slots.
    fn assigned(&mut self) -> Vec<usize> {
        let slots: Vec<usize> = self.fetcher.ready.drain(..).collect();
        slots.iter().for_each(|slot| _ = self.send(*slot, usize::MAX));
        slots
    }

    fn receive(&mut self, slot: usize, bytes: &[u8]) {
        self.fetcher.received(slot, bytes, self.now);
    }

    fn answer(&mut self, slot: usize) {
        self.receive(slot, OK);
    }

    fn end(&mut self, slot: usize, cause: Option<io::Error>) {
        self.fetcher.closed_by_server(slot, cause, self.now);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.fetcher.handle_timeouts(self.now);
    }

    /// Returns the number of connections, and how many are idle.
    fn connections(&self) -> (usize, usize) {
        let stats = self.fetcher.stats();
        (stats.connections, stats.idle)
    }

    fn done(&mut self) -> Vec<(u64, String)> {
        let done = std::iter::from_fn(|| self.fetcher.next_completed());
        let summary = |(id, result): FetchOutcome| match result {
            Ok(answer) => (id.0, answer.response.status.to_string()),
            Err(error) => (id.0, format!("{error:?}").split('(').next().unwrap_or_default().to_owned()),
        };
        done.map(summary).collect()
    }

    /// Asserts that no request or connection is left.
    fn assert_empty(&mut self) {
        let fetcher = &self.fetcher;
        assert!(fetcher.connections.is_empty() && fetcher.to_connect.is_empty());
        assert_eq!((fetcher.held_bytes(), fetcher.next_due()), (0, None));
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn done(id: u64, what: &str) -> (u64, String) {
    (id, what.to_owned())
}

#[test]
fn a_connection_is_reused_until_its_idle_timeout() {
    let mut bench = Bench::new(FetchLimits::default());
    for host in ["Node", "node", "NODE"] {
        bench.start(fetch(host));
        let slots = [bench.connect(), bench.assigned()].concat();
        assert_eq!(slots, [0]);
        bench.answer(0);
        bench.pass(seconds(20));
    }
    assert_eq!(bench.done(), [done(1, "200"), done(2, "200"), done(3, "200")]);
    assert_eq!(bench.connections(), (1, 1));
    bench.pass(seconds(5));
    bench.assert_empty();
}

#[test]
fn a_request_is_retried_once_if_its_reused_connection_was_closed() {
    let mut bench = Bench::new(FetchLimits::default());
    bench.start(fetch("a"));
    bench.start(fetch("a"));
    let slots = bench.connect();
    slots.iter().for_each(|slot| bench.answer(*slot));
    bench.start(fetch("a"));
    assert_eq!(bench.assigned(), [1]);
    bench.end(1, None);
    assert_eq!(bench.connections(), (1, 0), "the other idle connection is as old and goes too");
    let slots = bench.connect();
    bench.end(slots[0], None);
    assert_eq!(bench.done(), [done(1, "200"), done(2, "200"), done(3, "Broken")]);
    bench.assert_empty();
}

#[test]
fn only_addresses_in_scope_are_connected_to_whatever_name_leads_there() {
    let addresses: [IpAddr; 4] = [
        [127, 0, 0, 1].into(),
        [192, 168, 0, 1].into(),
        "64:ff9b::7f00:1".parse().expect("an address"),
        [8, 8, 8, 8].into(),
    ];
    for (least_scope, connected) in
        [(Scope::Loopback, vec![0, 1, 2, 3]), (Scope::Private, vec![1, 3]), (Scope::Global, vec![3])]
    {
        let mut bench = Bench::new(FetchLimits::default());
        bench.start(FetchRequest { least_scope, ..fetch("127.1") });
        bench.fetcher.resolved(0, Ok(addresses.into()), bench.now);
        let mut attempted = Vec::new();
        while let Some((slot, address)) = bench.fetcher.next_attempt() {
            attempted.push(address.ip());
            bench.fetcher.attempt_failed(slot, io::ErrorKind::ConnectionRefused.into(), bench.now);
        }
        assert_eq!(attempted, connected.into_iter().map(|index| addresses[index]).collect::<Vec<_>>());
        assert_eq!(bench.done(), [done(1, "Unreachable")]);
        bench.assert_empty();
        // Without such an address it fails at once.
        bench.start(FetchRequest { least_scope, ..fetch("::") });
        bench.fetcher.resolved(0, Ok([[0, 0, 0, 0].into()].into()), bench.now);
        assert_eq!(bench.done(), [done(2, "OutOfScope")]);
        bench.assert_empty();
    }
}

#[test]
fn a_request_that_is_not_idempotent_is_never_retried() {
    let mut bench = Bench::new(FetchLimits::default());
    bench.start(fetch("a"));
    bench.connect();
    bench.answer(0);
    bench.start(FetchRequest { is_idempotent: false, ..fetch("a") });
    bench.assigned();
    bench.end(0, None);
    assert_eq!(bench.done(), [done(1, "200"), done(2, "Broken")]);
    // A request whose response has begun is not repeated either.
    bench.start(fetch("a"));
    let slot = bench.connect()[0];
    bench.answer(slot);
    bench.start(fetch("a"));
    bench.assigned();
    bench.receive(slot, b"H");
    bench.end(slot, None);
    assert_eq!(bench.done(), [done(3, "200"), done(4, "NotHttp")]);
}

#[test]
fn a_request_is_sent_in_any_pieces_and_a_response_before_its_end_ends_the_connection() {
    let mut bench = Bench::new(FetchLimits::default());
    bench.start(FetchRequest { method: Method::Post, body: b"body".as_slice().into(), ..fetch("a") });
    let slot = bench.attempts()[0].0;
    bench.fetcher.connected(slot, bench.now);
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\nbod") {
        seen.extend(bench.send(slot, 1));
    }
    bench.answer(slot);
    assert_eq!((bench.connections(), bench.done()), ((0, 0), vec![done(1, "200")]));
}

#[test]
fn the_end_of_a_connection_ends_a_response_without_a_length_only() {
    for (received, cause, expected) in [
        ("", None, "Broken"),
        ("HTTP/1.1 200 OK\r\n\r\nok", None, "200"),
        ("HTTP/1.1 200 OK\r\n\r\nok", Some(io::ErrorKind::ConnectionReset), "Broken"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", None, "NotHttp"),
    ] {
        let mut bench = Bench::new(FetchLimits::default());
        bench.start(fetch("a"));
        let slot = bench.connect()[0];
        bench.receive(slot, received.as_bytes());
        bench.end(slot, cause.map(io::Error::from));
        assert_eq!(bench.done(), [done(1, expected)], "{received}");
        bench.assert_empty();
    }
}

#[test]
fn a_request_beyond_the_limit_on_connections_fails_at_once_and_one_that_ends_makes_place() {
    let mut bench = Bench::new(FetchLimits { connections: 3, ..FetchLimits::default() });
    for host in ["a", "a", "b", "c"] {
        bench.start(fetch(host));
    }
    assert_eq!((bench.done(), bench.connections()), (vec![done(4, "Busy")], (3, 0)));
    let slots = bench.connect();
    bench.answer(slots[1]);
    bench.start(fetch("c"));
    assert_eq!((bench.done(), bench.connections()), (vec![done(2, "200")], (3, 0)), "the idle one gives way");
    bench.fetcher.cancel(FetchId(1));
    bench.start(fetch("d"));
    assert_eq!((bench.done(), bench.connections()), (Vec::new(), (3, 0)));
    bench.pass(seconds(10));
    let mut late = bench.done();
    late.sort();
    assert_eq!(late, [3, 5, 6].map(|id| done(id, "TimedOut")));
    bench.assert_empty();
}

#[test]
fn an_idle_connection_is_closed_for_another_host() {
    let mut bench = Bench::new(FetchLimits { connections: 2, ..FetchLimits::default() });
    for host in ["a", "b"] {
        bench.start(fetch(host));
        let slots = bench.connect();
        bench.answer(slots[0]);
        bench.pass(seconds(1));
    }
    bench.start(fetch("c"));
    let connections = bench.fetcher.connections.iter();
    let hosts: BTreeSet<&str> = connections.map(|(_, connection)| connection.host.host.as_str()).collect();
    assert!(hosts.into_iter().eq(["b", "c"]), "that which was idle for longest is closed");
}

#[test]
fn every_address_is_tried_until_its_timeout_and_the_working_one_is_remembered() {
    let mut bench = Bench::new(FetchLimits::default());
    bench.start(fetch("a"));
    assert_eq!(bench.attempts(), [(0, "10.0.0.1:7890".parse().unwrap())]);
    bench.pass(seconds(5));
    assert_eq!(bench.attempts(), [(0, "10.0.0.2:7890".parse().unwrap())]);
    bench.fetcher.connected(0, bench.now);
    bench.start(fetch("a"));
    assert_eq!(bench.attempts(), [(1, "10.0.0.2:7890".parse().unwrap())]);
    bench.fetcher.attempt_failed(1, io::ErrorKind::ConnectionRefused.into(), bench.now);
    assert_eq!(bench.attempts().len(), 1);
    bench.fetcher.attempt_failed(1, io::ErrorKind::ConnectionRefused.into(), bench.now);
    assert_eq!(bench.done(), [done(2, "Unreachable")]);
    assert_eq!(bench.connections(), (1, 0));
}

#[test]
fn a_request_times_out_in_every_state() {
    let mut bench = Bench::new(FetchLimits::default());
    for host in ["a", "b", "c"] {
        bench.start(fetch(host));
    }
    bench.resolve(0);
    bench.fetcher.next_attempt();
    bench.fetcher.connected(0, bench.now);
    bench.receive(0, b"HTTP/1.1 200 OK\r\n\r\n");
    bench.pass(seconds(9));
    bench.receive(0, b"a byte");
    assert!(bench.done().is_empty());
    bench.resolve(1);
    bench.pass(seconds(1));
    assert_eq!(bench.done(), [1, 2, 3].map(|id| done(id, "TimedOut")));
    bench.assert_empty();
}

#[test]
fn a_cancelled_request_is_not_reported_and_leaves_no_state() {
    let mut bench = Bench::new(FetchLimits::default());
    let mut ids = vec![bench.start(fetch("a"))];
    let slot = bench.connect()[0];
    ids.push(bench.start(fetch("b")));
    bench.receive(slot, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    ids.push(bench.start(fetch("a")));
    ids.into_iter().for_each(|id| bench.fetcher.cancel(id));
    assert!(bench.done().is_empty());
    bench.assert_empty();
}

#[test]
fn an_unknown_host_fails_each_of_its_requests() {
    let mut bench = Bench::new(FetchLimits::default());
    bench.start(fetch("a"));
    bench.start(fetch("a"));
    while let Some(slot) = bench.slots(|stage| matches!(stage, Stage::Resolving)).first() {
        bench.fetcher.resolved(*slot, Err("there is no such name".into()), bench.now);
    }
    assert_eq!(bench.done(), [done(1, "UnknownHost"), done(2, "UnknownHost")]);
    bench.assert_empty();
}

#[test]
fn the_largest_response_is_dropped_when_the_total_limit_is_exceeded() {
    let mut bench = Bench::new(FetchLimits { held_bytes: 1500, ..FetchLimits::default() });
    for host in ["a", "b", "c"] {
        bench.start(fetch(host));
    }
    let slots = bench.connect();
    for (slot, count) in [(slots[0], 300), (slots[1], 900), (slots[2], 200)] {
        bench.receive(slot, b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
        bench.receive(slot, &vec![b'x'; count]);
    }
    assert_eq!(bench.fetcher.held_bytes(), 1400);
    bench.receive(slots[2], &[b'x'; 300]);
    assert_eq!((bench.done(), bench.fetcher.held_bytes()), (vec![done(2, "Busy")], 800));
}

#[test]
fn unrequested_bytes_close_the_connection() {
    let mut bench = Bench::new(FetchLimits::default());
    bench.start(fetch("a"));
    let slot = bench.connect()[0];
    bench.answer(slot);
    bench.receive(slot, b"HTTP/1.1 200 OK\r\n\r\n");
    bench.done();
    bench.assert_empty();
}

#[test]
fn a_target_that_would_break_the_request_is_rejected() {
    let mut bench = Bench::new(FetchLimits::default());
    bench.start(FetchRequest { target: "/\r\nX: y".to_owned(), ..fetch("a") });
    assert_eq!(bench.done(), [done(1, "BadTarget")]);
    bench.assert_empty();
}

/// An event in the life of a pool.
#[derive(Clone, Debug)]
enum Step {
    Start { host: u8, is_idempotent: bool },
    Cancel { id: u64 },
    Name { is_known: bool },
    Attempt { succeeds: bool },
    Receive { slot: usize, bytes: &'static [u8] },
    End { slot: usize, is_error: bool },
    Pass { millis: u64 },
}

fn any_step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![
        Just(OK),
        Just(b"HTTP/1.1 200 OK\r\n\r\n".as_slice()),
        Just(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n".as_slice()),
        Just(b"some bytes".as_slice()),
    ];
    prop_oneof![
        4 => (0..5u8, any::<bool>()).prop_map(|(host, is_idempotent)| Step::Start { host, is_idempotent }),
        1 => (1..60u64).prop_map(|id| Step::Cancel { id }),
        4 => prop::bool::weighted(0.9).prop_map(|is_known| Step::Name { is_known }),
        4 => prop::bool::weighted(0.8).prop_map(|succeeds| Step::Attempt { succeeds }),
        6 => (0..6usize, bytes).prop_map(|(slot, bytes)| Step::Receive { slot, bytes }),
        2 => (0..6usize, any::<bool>()).prop_map(|(slot, is_error)| Step::End { slot, is_error }),
        1 => (0..4000u64).prop_map(|millis| Step::Pass { millis }),
    ]
}

impl Bench {
    /// Applies one step.
    fn step(&mut self, step: Step) {
        match step {
            Step::Start { host, is_idempotent } => {
                self.start(FetchRequest { is_idempotent, ..fetch(&format!("host{host}")) });
            }
            Step::Cancel { id } => self.fetcher.cancel(FetchId(id)),
            Step::Name { is_known } => match self.slots(|stage| matches!(stage, Stage::Resolving)).first() {
                Some(slot) if is_known => self.resolve(*slot),
                Some(slot) => self.fetcher.resolved(*slot, Err("unknown".into()), self.now),
                None => {}
            },
            Step::Attempt { succeeds } => match self.fetcher.next_attempt() {
                Some((slot, _)) if succeeds => self.fetcher.connected(slot, self.now),
                Some((slot, _)) => self.fetcher.attempt_failed(slot, io::ErrorKind::ConnectionRefused.into(), self.now),
                None => {}
            },
            Step::Receive { slot, bytes } if self.is_open(slot) => {
                self.send(slot, usize::MAX);
                self.receive(slot, bytes);
            }
            Step::End { slot, is_error } if self.is_open(slot) => {
                self.end(slot, is_error.then(|| io::ErrorKind::ConnectionReset.into()));
            }
            Step::Receive { .. } | Step::End { .. } => {}
            Step::Pass { millis } => self.pass(Duration::from_millis(millis)),
        }
        self.fetcher.ready.clear();
    }

    fn assert_limits(&self) {
        let fetcher = &self.fetcher;
        assert!(fetcher.connections.len() <= fetcher.limits.connections);
        let requests =
            fetcher.connections.iter().filter_map(|(_, connection)| Some((connection, connection.request.as_ref()?)));
        assert!(requests.into_iter().all(|(connection, request)| connection.due <= request.deadline));
        assert!(fetcher.unfinished_bytes() <= fetcher.limits.held_bytes);
    }
}

proptest! {
    #[test]
    fn every_request_ends_once_within_the_limits_and_leaves_no_state(
        steps in prop::collection::vec(any_step(), 0..200),
    ) {
        let limits = FetchLimits { connections: 5, held_bytes: 100, ..FetchLimits::default() };
        // A cancelled request counts as delivered.
        let (mut bench, mut delivered) = (Bench::new(limits), Vec::new());
        for step in steps {
            if let Step::Cancel { id } = step {
                delivered.extend((id <= bench.last && !delivered.contains(&id)).then_some(id));
            }
            bench.step(step);
            bench.assert_limits();
            delivered.extend(bench.done().into_iter().map(|(id, _)| id));
        }
        // All requests time out, then all idle connections.
        for _ in 0..20 {
            bench.pass(seconds(5));
            delivered.extend(bench.done().into_iter().map(|(id, _)| id));
        }
        bench.assert_empty();
        delivered.sort_unstable();
        prop_assert_eq!(delivered, (1..=bench.last).collect::<Vec<_>>());
    }
}

#[test]
fn the_read_timeout_is_counted_from_the_last_byte() {
    let mut bench = Bench::new(FetchLimits::default());
    let patient = FetchRequest { timeout: seconds(60), ..fetch("a") };
    bench.start(patient.clone());
    bench.pass(seconds(3));
    let slot = bench.connect()[0];
    bench.pass(seconds(9));
    bench.receive(slot, b"HTTP/1.1 200 OK\r\n");
    bench.pass(seconds(9));
    assert!(bench.done().is_empty());
    bench.pass(seconds(1));
    assert_eq!(bench.done(), [(1, "Silent".to_owned())]);
    // A byte now and then does not extend the total timeout.
    bench.start(patient.clone());
    let slot = bench.connect()[0];
    for _ in 0..12 {
        bench.receive(slot, b"H");
        bench.pass(seconds(5));
    }
    assert_eq!(bench.done().len(), 1);
    // On a reused connection the timeout starts when the request is sent.
    bench.start(patient.clone());
    let slot = bench.connect()[0];
    bench.answer(slot);
    bench.start(patient);
    assert_eq!(bench.assigned(), [slot]);
    bench.pass(seconds(10));
    assert_eq!(bench.done(), [(3, "200".to_owned()), (4, "Silent".to_owned())]);
    bench.assert_empty();
}

#[test]
fn a_response_below_the_minimum_rate_is_dropped_and_a_slow_one_is_kept() {
    let mut bench = Bench::new(FetchLimits { min_rate_bytes: 100, ..FetchLimits::default() });
    let patient = FetchRequest { timeout: seconds(180), ..fetch("a") };
    bench.start(patient.clone());
    let slot = bench.connect()[0];
    bench.receive(slot, b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n");
    for _ in 0..10 {
        // Few bytes at a time, but enough within the window.
        bench.receive(slot, &[0; 60]);
        bench.pass(seconds(9));
    }
    assert!(bench.done().is_empty());
    // From here on one byte per second; earlier bytes of the window still count.
    let mut waited = 0;
    while bench.done().is_empty() {
        bench.receive(slot, b"a");
        bench.pass(seconds(1));
        waited += 1;
    }
    assert!((1..=20).contains(&waited), "{waited} s");
    // A slow response is given up after the full window.
    bench.start(patient);
    let slot = bench.connect()[0];
    bench.receive(slot, b"HTTP/1.1 200 OK\r\n");
    let mut waited = 1;
    bench.pass(seconds(1));
    while waited < 20 {
        assert!(bench.done().is_empty());
        bench.receive(slot, b"A");
        bench.pass(seconds(1));
        waited += 1;
    }
    assert_eq!(bench.done(), [(2, "TooSlow".to_owned())]);
    bench.assert_empty();
}
