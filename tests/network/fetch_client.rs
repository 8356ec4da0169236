//! Requests to other servers over real sockets on loopback, driven by a loop like the node's.

use std::collections::HashMap;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::http::receive_request;
use mio::{Events, Poll};
use nisd::ip::Scope;
use nisd::net::fetch::{
    Endpoint, FetchError, FetchId, FetchLimits, FetchRequest, FetchResponse, FetchStats, Fetcher, Method, Response,
};
use socket2::{Domain, Socket, Type};

/// Maximum wait of all tests.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// Timeout of the requests of these tests.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum delay in detecting the end of a request on a busy machine.
const MAX_DELAY: Duration = Duration::from_millis(500);

const BODY_LIMIT: usize = 256 * 1024;

const FIRST_TOKEN: usize = 100;

/// A loop around a fetcher.
struct Driver {
    poll: Poll,
    fetcher: Fetcher,
    began: Instant,
    started: HashMap<FetchId, Instant>,
    last_id: u64,
    /// Maximum number of response bytes held after a call of `work`.
    max_held: usize,
}

/// Returns the addresses of a name.
fn look_up(name: &str) -> Result<Vec<IpAddr>, String> {
    let (four, six) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
    match name {
        "four.test" => Ok(vec![four]),
        "six.test" => Ok(vec![six]),
        "both.test" => Ok(vec![six, four]),
        _ => Err("unknown".to_owned()),
    }
}

struct Outcome {
    result: Result<FetchResponse, FetchError>,
    took: Duration,
}

impl Driver {
    fn new(limits: FetchLimits) -> Self {
        Self {
            poll: Poll::new().unwrap(),
            fetcher: Fetcher::new(limits, FIRST_TOKEN),
            began: Instant::now(),
            started: HashMap::new(),
            last_id: 0,
            max_held: 0,
        }
    }

    fn start(&mut self, request: FetchRequest) -> FetchId {
        self.last_id += 1;
        let id = FetchId(self.last_id);
        self.fetcher.start(id, request, self.began.elapsed());
        self.started.insert(id, Instant::now());
        id
    }

    /// Runs one iteration of the loop of at most this length.
    fn run_once(&mut self, at_most: Duration, outcomes: &mut HashMap<FetchId, Outcome>) {
        let now = self.began.elapsed();
        let due = self.fetcher.next_due().map_or(at_most, |due| due.saturating_sub(now));
        let timeout = if self.fetcher.has_work() { Duration::ZERO } else { due.min(at_most) };
        let mut events = Events::with_capacity(256);
        self.poll.poll(&mut events, Some(timeout)).unwrap();
        let now = self.began.elapsed();
        for event in &events {
            assert!(self.fetcher.tokens().contains(&event.token().0));
            self.fetcher.set_readiness(event);
        }
        self.fetcher.work(self.poll.registry(), now);
        while let Some(name) = self.fetcher.names.next_lookup() {
            self.fetcher.names.on_lookup(&name, look_up(&name), now);
        }
        self.max_held = self.max_held.max(self.fetcher.held_bytes());
        while let Some((id, result)) = self.fetcher.next_completed() {
            let took = self.started.remove(&id).expect("one outcome").elapsed();
            outcomes.insert(id, Outcome { result, took });
        }
    }

    /// Runs the loop until all requests have ended.
    fn run(&mut self) -> HashMap<FetchId, Outcome> {
        let (start, mut outcomes) = (Instant::now(), HashMap::new());
        while !self.started.is_empty() {
            assert!(start.elapsed() < MAX_WAIT, "{:?}", self.fetcher.stats());
            self.run_once(Duration::from_millis(100), &mut outcomes);
        }
        outcomes
    }

    /// Performs one request and returns its outcome.
    fn fetch(&mut self, request: FetchRequest) -> Outcome {
        let id = self.start(request);
        self.run().remove(&id).unwrap()
    }

    fn stats(&self) -> FetchStats {
        self.fetcher.stats()
    }
}

fn get(endpoint: &Endpoint) -> FetchRequest {
    FetchRequest {
        endpoint: endpoint.clone(),
        least_scope: Scope::Loopback,
        method: Method::Get,
        target: "/chain/height".to_owned(),
        media_type: "application/json",
        body: [].into(),
        body_limit: BODY_LIMIT,
        timeout: REQUEST_TIMEOUT,
        read_timeout: REQUEST_TIMEOUT,
        is_idempotent: true,
    }
}

fn get_from(host: &str, port: u16) -> FetchRequest {
    get(&Endpoint { host: host.to_owned(), port })
}

/// Starts a server in its own threads; `serve` gets each connection.
fn server(address: &str, serve: impl Fn(TcpStream) + Clone + Send + 'static) -> Endpoint {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    Endpoint { host: address.ip().to_string(), port: address.port() }
}

/// Reads a request; returns `false` at the end of the connection.
fn receive(stream: &mut TcpStream) -> bool {
    receive_request(stream, &mut Vec::new()).is_ok_and(|request| request.is_some())
}

/// Starts a server that answers every request with the same bytes and keeps the connection where these bytes allow it.
fn answering(answer: &'static str) -> Endpoint {
    answering_at("127.0.0.1:0", answer)
}

fn answering_at(address: &str, answer: &'static str) -> Endpoint {
    server(address, move |mut stream| {
        while receive(&mut stream) && stream.write_all(answer.as_bytes()).is_ok() {
            if !answer.contains("Content-Length") && !answer.contains("chunked") {
                return;
            }
        }
    })
}

const SIZED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"height\":1}";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"hei\r\n7\r\nght\":1}\r\n0\r\n\r\n";
const UNTIL_CLOSED: &str = "HTTP/1.1 200 OK\r\n\r\n{\"height\":1}";

/// Starts a server that waits before each byte.
fn dripping(step: Duration, answer: &'static str, times: usize) -> Endpoint {
    server("127.0.0.1:0", move |mut stream| {
        while receive(&mut stream) {
            for byte in answer.as_bytes().repeat(times) {
                thread::sleep(step);
                if stream.write_all(&[byte]).is_err() {
                    return;
                }
            }
        }
    })
}

/// Starts a server that sends a head and then an endless body.
fn endless(head: &'static str, part: String) -> Endpoint {
    server("127.0.0.1:0", move |mut stream| {
        receive(&mut stream);
        let _ = stream.write_all(head.as_bytes());
        while stream.write_all(part.as_bytes()).is_ok() {}
    })
}

/// Starts a server that accepts connections and requests and never answers.
fn silent() -> Endpoint {
    server("127.0.0.1:0", |mut stream| {
        receive(&mut stream);
        thread::sleep(MAX_WAIT);
    })
}

/// Starts a server that sends something and closes.
fn closing(before_request: bool, words: &'static str) -> Endpoint {
    server("127.0.0.1:0", move |mut stream| {
        if !before_request {
            receive(&mut stream);
        }
        let _ = stream.write_all(words.as_bytes());
    })
}

/// Returns a port that neither accepts nor refuses connections because its queue is full; the sockets keep it full.
fn full_queue_port() -> (Endpoint, Vec<Socket>) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut sockets = vec![listener];
    for _ in 0..4 {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        let _ = socket.connect(&address);
        sockets.push(socket);
    }
    let port = address.as_socket().unwrap().port();
    (Endpoint { host: "127.0.0.1".to_owned(), port }, sockets)
}

/// Returns a port that nothing listens on.
fn unused_port() -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Endpoint { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() }
}

/// Check of the result of a request.
type Expected = fn(&Result<FetchResponse, FetchError>) -> bool;

const GOOD: Expected = |result| matches!(result, Ok(FetchResponse { response: Response { status: 200, body }, .. }) if body == b"{\"height\":1}");
const REDIRECT: Expected = |result| matches!(result, Ok(FetchResponse { response: Response { status: 302, .. }, .. }));
const TIMED_OUT: Expected =
    |result| matches!(result, Err(FetchError::TimedOut(REQUEST_TIMEOUT) | FetchError::Silent(REQUEST_TIMEOUT)));
const TOO_LARGE: Expected = |result| matches!(result, Err(FetchError::TooLarge));
const NONSENSE: Expected = |result| matches!(result, Err(FetchError::NotHttp(_)));
const BROKEN: Expected = |result| matches!(result, Err(FetchError::Broken(_) | FetchError::NotHttp(_)));
const UNREACHABLE: Expected = |result| matches!(result, Err(FetchError::Unreachable(_)));

/// Returns the 50 servers: class, expected result and endpoint.
fn servers() -> (Vec<(&'static str, Expected, Endpoint)>, Vec<Socket>) {
    let (stuck, sockets) = full_queue_port();
    let chunks = format!("3e8\r\n{}\r\n", "x".repeat(1000));
    let mut servers = vec![
        ("never accept", TIMED_OUT, stuck),
        ("drip, slowly", GOOD, dripping(Duration::from_millis(3), CHUNKED, 1)),
        ("drip, for ever", TIMED_OUT, dripping(Duration::from_millis(5), "HTTP/1.1 200 OK\r\nA: b", 1)),
        ("drip, for ever", TIMED_OUT, dripping(Duration::from_millis(5), "HTTP/1.1 200 OK\r\n\r\n", 1000)),
        ("too much", TOO_LARGE, endless("HTTP/1.1 200 OK\r\n\r\n", "x".repeat(100_000))),
        ("too much", TOO_LARGE, endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunks)),
        ("too much", TOO_LARGE, endless("HTTP/1.1 200 OK\r\n", "A: b\r\n".repeat(10))),
        ("close early", BROKEN, closing(true, "")),
        ("close early", BROKEN, closing(false, "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{")),
        ("redirect", REDIRECT, answering("HTTP/1.1 302 Found\r\nLocation: http://a/\r\nContent-Length: 0\r\n\r\n")),
        ("nonsense", NONSENSE, answering("SSH-2.0-OpenSSH_9.2\r\nContent-Length: 0\r\n\r\n")),
        ("nobody there", UNREACHABLE, unused_port()),
    ];
    servers.extend((0..3).map(|_| ("silent", TIMED_OUT, silent())));
    let good = [SIZED, CHUNKED, UNTIL_CLOSED];
    while servers.len() < 50 {
        servers.push(("good", GOOD, answering(good[servers.len() % good.len()])));
    }
    (servers, sockets)
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_thousand_requests_to_fifty_servers_end_within_their_limits() {
    let (servers, _sockets) = servers();
    let limits = FetchLimits::default();
    let mut driver = Driver::new(limits.clone());
    let (mut ids, mut outcomes) = (HashMap::new(), HashMap::new());
    // Two requests to each server at a time.
    for _ in 0..10 {
        for (class, expected, endpoint) in servers.iter().chain(&servers) {
            ids.insert(driver.start(get(endpoint)), (*class, *expected));
        }
        outcomes.extend(driver.run());
    }
    assert_eq!(ids.len(), 1000);
    let mut good = Vec::new();
    for (id, (class, expected)) in &ids {
        let outcome = &outcomes[id];
        assert!(expected(&outcome.result), "{class}: {:?}", outcome.result);
        assert!(outcome.took <= REQUEST_TIMEOUT + MAX_DELAY, "{class}: {:?}", outcome.took);
        good.extend((*class == "good").then_some(outcome.took));
    }
    let stats = driver.stats();
    assert!(driver.max_held <= limits.held_bytes);
    good.sort();
    assert!(good[good.len() * 99 / 100] < REQUEST_TIMEOUT / 3, "the good ones waited for the bad ones");
    assert_eq!((stats.started, stats.ended), (1000, 1000));
}

#[test]
fn hosts_of_both_address_families_are_reached_by_name_and_an_unknown_name_fails() {
    let mut driver = Driver::new(FetchLimits::default());
    let [four, six] = ["127.0.0.1:0", "[::1]:0"].map(|address| answering_at(address, SIZED).port);
    for (name, port) in [("four.test", four), ("FOUR.test", four), ("six.test", six), ("both.test", four)] {
        let outcome = driver.fetch(get_from(name, port));
        assert!(GOOD(&outcome.result), "{name}: {:?}", outcome.result);
        assert!(outcome.took < MAX_DELAY, "{name}: {:?}", outcome.took);
    }
    let outcome = driver.fetch(get_from("nowhere.test", four));
    assert!(matches!(outcome.result, Err(FetchError::UnknownHost(reason)) if reason == "unknown"));
}
