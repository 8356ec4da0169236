//! Requests to other servers over real sockets on loopback, driven by a loop like the node's.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mio::{Events, Poll};
use nisd::net::fetch::{
    DnsConfig, Endpoint, FetchConfig, FetchError, FetchId, FetchLimits, FetchRequest, FetchResponse, FetchStats,
    Fetcher, Method, Response,
};
use simple_dns::rdata::{A, AAAA, CNAME, RData};
use simple_dns::{CLASS, Name, Packet, QTYPE, RCODE, ResourceRecord, TYPE};
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
    /// Maximum number of response bytes held after a call of `work`, in total and without the completed responses.
    max_held: usize,
    max_unfinished: usize,
    /// Processor time of the longest call of `work` and of all calls.
    longest_work: Duration,
    all_work: Duration,
}

struct Outcome {
    result: Result<FetchResponse, FetchError>,
    took: Duration,
}

impl Driver {
    fn new(limits: FetchLimits) -> Self {
        Self::with_dns(limits, DnsConfig::parse("", ""))
    }

    fn with_dns(limits: FetchLimits, names: DnsConfig) -> Self {
        let fetcher = Fetcher::new(FetchConfig { limits, dns: names, seed: [3; 32] }, FIRST_TOKEN);
        Self {
            poll: Poll::new().unwrap(),
            fetcher,
            began: Instant::now(),
            started: HashMap::new(),
            last_id: 0,
            max_held: 0,
            max_unfinished: 0,
            longest_work: Duration::ZERO,
            all_work: Duration::ZERO,
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
        let before = processor_time();
        self.fetcher.work(self.poll.registry(), now);
        let took = processor_time() - before;
        self.longest_work = self.longest_work.max(took);
        self.all_work += took;
        self.max_held = self.max_held.max(self.fetcher.held_bytes());
        while let Some((id, result)) = self.fetcher.next_completed() {
            let took = self.started.remove(&id).expect("told once").elapsed();
            outcomes.insert(id, Outcome { result, took });
        }
        self.max_unfinished = self.max_unfinished.max(self.fetcher.held_bytes());
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

    /// Performs one request and returns the body of its response.
    fn body(&mut self, request: FetchRequest) -> String {
        let response = self.fetch(request).result.unwrap().response;
        assert_eq!(response.status, 200);
        String::from_utf8(response.body).unwrap()
    }

    fn stats(&self) -> FetchStats {
        self.fetcher.stats()
    }
}

/// Processor time of this thread, if the system reports it.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

fn get(endpoint: &Endpoint) -> FetchRequest {
    FetchRequest {
        endpoint: endpoint.clone(),
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

/// Starts a server in its own threads; `serve` gets each connection and its number.
fn server(address: &str, serve: impl Fn(TcpStream, usize) + Clone + Send + 'static) -> Endpoint {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream, number));
        }
    });
    Endpoint { host: address.ip().to_string(), port: address.port() }
}

/// Reads a request and returns its body; `None` at the end of the connection.
fn receive(stream: &mut TcpStream) -> Option<String> {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split("Content-Length: ").nth(1).map_or("0", |rest| rest.lines().next().unwrap());
            if body.len() == length.parse::<usize>().unwrap() {
                return Some(body.to_owned());
            }
        }
        match stream.read(&mut chunk) {
            Ok(count) if count > 0 => bytes.extend(&chunk[..count]),
            _ => return None,
        }
    }
}

/// Starts a server that answers every request with the same bytes and keeps the connection where these bytes allow it.
fn answering(answer: &'static str) -> Endpoint {
    server("127.0.0.1:0", move |mut stream, _| {
        while receive(&mut stream).is_some() && stream.write_all(answer.as_bytes()).is_ok() {
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
    server("127.0.0.1:0", move |mut stream, _| {
        while receive(&mut stream).is_some() {
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
    server("127.0.0.1:0", move |mut stream, _| {
        receive(&mut stream);
        let _ = stream.write_all(head.as_bytes());
        while stream.write_all(part.as_bytes()).is_ok() {}
    })
}

/// Starts a server that accepts connections and requests and never answers.
fn silent() -> Endpoint {
    server("127.0.0.1:0", |mut stream, _| {
        receive(&mut stream);
        thread::sleep(MAX_WAIT);
    })
}

/// Starts a server that sends something and closes.
fn closing(before_request: bool, words: &'static str) -> Endpoint {
    server("127.0.0.1:0", move |mut stream, _| {
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
    let mut servers = vec![
        ("never accept", TIMED_OUT, stuck),
        ("drip, slowly", GOOD, dripping(Duration::from_millis(4), SIZED, 1)),
        ("drip, slowly", GOOD, dripping(Duration::from_millis(3), CHUNKED, 1)),
        ("drip, for ever", TIMED_OUT, dripping(Duration::from_millis(5), "HTTP/1.1 200 OK\r\nA: b", 1)),
        ("drip, for ever", TIMED_OUT, dripping(Duration::from_millis(5), "HTTP/1.1 200 OK\r\n\r\n", 1000)),
        ("too much", TOO_LARGE, endless("HTTP/1.1 200 OK\r\nContent-Length: 262145\r\n\r\n", "x".repeat(1000))),
        ("too much", TOO_LARGE, endless("HTTP/1.1 200 OK\r\n\r\n", "x".repeat(100_000))),
        (
            "too much",
            TOO_LARGE,
            endless(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                format!("3e8\r\n{}\r\n", "x".repeat(1000)),
            ),
        ),
        ("too much", TOO_LARGE, endless("HTTP/1.1 200 OK\r\n", "A: b\r\n".repeat(10))),
        ("close early", BROKEN, closing(true, "")),
        ("close early", BROKEN, closing(false, "")),
        ("close early", BROKEN, closing(false, "HTTP/1.1 200 OK\r\nContent-Le")),
        ("close early", BROKEN, closing(false, "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{")),
        ("redirect", REDIRECT, answering("HTTP/1.1 302 Found\r\nLocation: http://a/\r\nContent-Length: 0\r\n\r\n")),
        (
            "redirect",
            REDIRECT,
            answering("HTTP/1.1 302 Found\r\nLocation: /\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ),
        ("nonsense", NONSENSE, answering("SSH-2.0-OpenSSH_9.2\r\nContent-Length: 0\r\n\r\n")),
        (
            "nonsense",
            NONSENSE,
            endless("HTTP/1.1 102 Processing\r\n\r\n", "HTTP/1.1 102 Processing\r\n\r\n".to_owned()),
        ),
        ("nonsense", NONSENSE, answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n")),
        ("nobody there", UNREACHABLE, unused_port()),
    ];
    servers.extend((0..3).map(|_| ("silent", TIMED_OUT, silent())));
    let good = [SIZED, CHUNKED, UNTIL_CLOSED];
    while servers.len() < 50 {
        servers.push(("good", GOOD, answering(good[servers.len() % good.len()])));
    }
    (servers, sockets)
}

/// Returns the durations of requests to the good servers when there are no others.
fn baseline_times(servers: &[(&'static str, Expected, Endpoint)]) -> Vec<Duration> {
    let mut driver = Driver::new(FetchLimits::default());
    for (_, _, endpoint) in servers.iter().filter(|(class, ..)| *class == "good") {
        for _ in 0..20 {
            driver.start(get(endpoint));
        }
    }
    driver.run().into_values().map(|outcome| outcome.took).collect()
}

fn print_times(times: &mut HashMap<&str, Vec<Duration>>) {
    println!("{:16} {:>5} {:>9} {:>9} {:>9}", "class", "count", "p50 ms", "p99 ms", "most ms");
    let mut classes: Vec<_> = times.iter_mut().collect();
    classes.sort();
    for (class, times) in classes {
        times.sort();
        let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e3;
        println!("{class:16} {:>5} {:>9.1} {:>9.1} {:>9.1}", times.len(), at(50), at(99), at(100));
    }
}

#[test]
fn a_thousand_requests_to_fifty_servers_end_within_their_limits() {
    let (servers, _sockets) = servers();
    let limits = FetchLimits::default();
    let mut driver = Driver::new(limits.clone());
    let mut ids = HashMap::new();
    for _ in 0..20 {
        for (class, expected, endpoint) in &servers {
            ids.insert(driver.start(get(endpoint)), (*class, *expected));
        }
    }
    assert_eq!(ids.len(), 1000);
    let outcomes = driver.run();
    let mut times: HashMap<&str, Vec<Duration>> = HashMap::new();
    for (id, (class, expected)) in &ids {
        let outcome = &outcomes[id];
        assert!(expected(&outcome.result), "{class}: {:?}", outcome.result);
        assert!(outcome.took <= REQUEST_TIMEOUT + MAX_DELAY, "{class}: {:?}", outcome.took);
        times.entry(class).or_default().push(outcome.took);
    }
    times.insert("good, alone", baseline_times(&servers));
    print_times(&mut times);
    println!("most bytes held: {}, of unfinished answers: {}", driver.max_held, driver.max_unfinished);
    println!("processor time of all work: {:?}, of its longest call: {:?}", driver.all_work, driver.longest_work);
    let stats = driver.stats();
    println!("{stats:?}");
    assert!(driver.max_held <= limits.held_bytes);
    let good = &times["good"];
    assert!(good[good.len() * 99 / 100] < REQUEST_TIMEOUT / 3, "the good ones waited for the bad ones");
    assert_eq!((stats.started, stats.ended, stats.waiting), (1000, 1000, 0));
}

#[test]
fn a_connection_serves_many_requests_and_is_replaced_once_closed() {
    let endpoint = server("127.0.0.1:0", |mut stream, number| {
        for _ in 0..3 {
            let Some(body) = receive(&mut stream) else { return };
            let body = format!("{number}:{body}");
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
        // Closes without an answer at the next request, if one arrives before the end of the connection is noticed.
        let _ = stream.read(&mut [0; 100]);
    });
    let mut driver = Driver::new(FetchLimits::default());
    let post = FetchRequest { method: Method::Post, body: b"hello".as_slice().into(), ..get(&endpoint) };
    let bodies: Vec<String> = (0..8).map(|_| driver.body(post.clone())).collect();
    let expected = ["0:hello", "0:hello", "0:hello", "1:hello", "1:hello", "1:hello", "2:hello", "2:hello"];
    assert_eq!(bodies, expected);
    assert_eq!(driver.stats().attempts, 3);
}

#[test]
fn an_idle_connection_is_closed_at_its_timeout() {
    let limits = FetchLimits { idle_time: Duration::from_millis(100), ..FetchLimits::default() };
    let mut driver = Driver::new(limits);
    let endpoint = answering(SIZED);
    driver.body(get(&endpoint));
    assert_eq!((driver.stats().connections, driver.stats().idle), (1, 1));
    let start = Instant::now();
    while driver.stats().connections > 0 {
        assert!(start.elapsed() < MAX_WAIT);
        driver.run_once(MAX_WAIT, &mut HashMap::new());
    }
    assert!(start.elapsed() < Duration::from_millis(100) + MAX_DELAY);
    assert!(driver.fetcher.next_due().is_none() && !driver.fetcher.has_work());
}

#[test]
fn all_responses_together_keep_within_the_memory_limit() {
    let part = "x".repeat(1000);
    let endpoints: Vec<_> = (0..40)
        .map(|_| {
            let part = part.clone();
            server("127.0.0.1:0", move |mut stream, _| {
                receive(&mut stream);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 250000\r\n\r\n");
                for _ in 0..250 {
                    thread::sleep(Duration::from_millis(1));
                    let _ = stream.write_all(part.as_bytes());
                }
            })
        })
        .collect();
    let limits = FetchLimits { held_bytes: 4_000_000, ..FetchLimits::default() };
    let mut driver = Driver::new(limits);
    for endpoint in &endpoints {
        driver.start(get(endpoint));
    }
    let outcomes = driver.run();
    let good = outcomes.values().filter(|outcome| outcome.result.is_ok()).count();
    let busy = outcomes.values().filter(|outcome| matches!(outcome.result, Err(FetchError::Busy))).count();
    println!("{good} good, {busy} given up, most bytes held {}", driver.max_unfinished);
    assert!(good >= 10 && busy > 0 && good + busy == 40);
    assert!(driver.max_unfinished <= 4_000_000);
    assert_eq!(driver.fetcher.held_bytes(), 0);
}

#[test]
fn a_cancelled_request_is_not_reported() {
    let mut driver = Driver::new(FetchLimits::default());
    let endpoint = silent();
    let id = driver.start(get(&endpoint));
    let mut outcomes = HashMap::new();
    for _ in 0..5 {
        driver.run_once(Duration::from_millis(10), &mut outcomes);
    }
    driver.fetcher.cancel(id, driver.began.elapsed());
    assert!(driver.fetcher.next_completed().is_none() && outcomes.is_empty());
    assert_eq!(driver.stats().connections, 0);
}

/// Starts a name server whose answer depends on the name; counts the queries.
fn name_server() -> (SocketAddr, Arc<AtomicUsize>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let questions = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&questions);
    thread::spawn(move || {
        let mut seen: HashMap<String, usize> = HashMap::new();
        let mut buffer = [0; 1500];
        while let Ok((count, from)) = socket.recv_from(&mut buffer) {
            counter.fetch_add(1, Ordering::Relaxed);
            let packet = Packet::parse(&buffer[..count]).unwrap();
            let name = packet.questions[0].qname.to_string();
            let times = seen.entry(name.clone()).or_default();
            *times += 1;
            for answer in answers(&name, *times, &buffer[..count]) {
                socket.send_to(&answer, from).unwrap();
            }
        }
    });
    (address, questions)
}

/// Returns the answers to query number `times` for a name.
fn answers(name: &str, times: usize, question: &[u8]) -> Vec<Vec<u8>> {
    let good = answer(question, &[("", Ipv4Addr::LOCALHOST.into())]);
    match name {
        "good.test" => vec![good],
        "lossy.test" if times <= 2 => vec![],
        "lossy.test" => vec![good],
        "forged.test" => {
            let elsewhere = answer(question, &[("", Ipv4Addr::new(127, 0, 0, 3).into())]);
            let forged = (1..9).map(|flip| [&[elsewhere[0] ^ flip], &elsewhere[1..]].concat());
            forged.chain([good]).collect()
        }
        "alias.test" => vec![answer(question, &[("other.test", Ipv4Addr::LOCALHOST.into())])],
        "six.test" => vec![answer(question, &[("", Ipv6Addr::LOCALHOST.into())])],
        "several.test" => {
            vec![answer(question, &[("", Ipv4Addr::new(127, 0, 0, 2).into()), ("", Ipv4Addr::LOCALHOST.into())])]
        }
        "silent.test" => vec![],
        _ => {
            let mut packet = Packet::parse(question).unwrap().into_reply();
            packet.questions = Packet::parse(question).unwrap().questions;
            *packet.rcode_mut() = RCODE::NameError;
            vec![packet.build_bytes_vec().unwrap()]
        }
    }
}

/// Builds an answer with the addresses of the requested family, each under another name if one is given.
fn answer(question: &[u8], addresses: &[(&'static str, IpAddr)]) -> Vec<u8> {
    let asked = Packet::parse(question).unwrap();
    let name = asked.questions[0].qname.clone();
    let mut packet = Packet::parse(question).unwrap().into_reply();
    packet.questions = asked.questions.clone();
    for (alias, address) in addresses {
        let mut owner = name.clone();
        if !alias.is_empty() {
            let target = Name::new(alias).unwrap();
            let data = RData::CNAME(CNAME(target.clone()));
            packet.answers.push(ResourceRecord::new(owner, CLASS::IN, 60, data));
            owner = target;
        }
        let data = match address {
            IpAddr::V4(address) if asked.questions[0].qtype == QTYPE::TYPE(TYPE::A) => RData::A(A::from(*address)),
            IpAddr::V6(address) if asked.questions[0].qtype == QTYPE::TYPE(TYPE::AAAA) => {
                RData::AAAA(AAAA::from(*address))
            }
            _ => continue,
        };
        packet.answers.push(ResourceRecord::new(owner, CLASS::IN, 60, data));
    }
    packet.build_bytes_vec_compressed().unwrap()
}

fn driver_with(servers: Vec<SocketAddr>) -> Driver {
    let mut names = DnsConfig::parse("127.0.0.1 filed.test\n", "");
    (names.servers, names.timeout, names.attempts) = (servers, Duration::from_millis(200), 2);
    Driver::with_dns(FetchLimits::default(), names)
}

#[test]
fn names_are_resolved_despite_lost_and_broken_dns_messages() {
    let endpoint = answering(SIZED);
    let (address, questions) = name_server();
    let mut driver = driver_with(vec![address]);
    for (name, new_questions) in [
        ("good.test", 2),
        ("GOOD.test.", 0),
        ("lossy.test", 4),
        ("forged.test", 2),
        ("alias.test", 2),
        ("several.test", 2),
        ("filed.test", 0),
        ("localhost", 0),
    ] {
        let before = questions.load(Ordering::Relaxed);
        let start = Instant::now();
        assert_eq!(driver.body(get_from(name, endpoint.port)), "{\"height\":1}", "{name}");
        println!("{name}: {:?}", start.elapsed());
        assert_eq!(questions.load(Ordering::Relaxed) - before, new_questions, "{name}");
    }
    for (name, reason) in [("none.test", "no such name"), ("silent.test", "no name server answers"), ("a..b", "name")] {
        match driver.fetch(get_from(name, endpoint.port)).result {
            Err(FetchError::UnknownHost(told)) => assert!(told.contains(reason), "{name}: {told}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn an_ipv6_host_is_reached_by_its_name() {
    let endpoint = server("[::1]:0", |mut stream, _| {
        receive(&mut stream);
        stream.write_all(SIZED.as_bytes()).unwrap();
    });
    let (address, _) = name_server();
    let mut driver = driver_with(vec![address]);
    assert_eq!(driver.body(get_from("six.test", endpoint.port)), "{\"height\":1}");
}

#[test]
fn the_next_name_server_answers_if_one_is_unreachable_or_silent() {
    let endpoint = answering(SIZED);
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (good, _) = name_server();
    let mut driver = driver_with(vec![nobody, mute.local_addr().unwrap(), good]);
    let outcome = driver.fetch(get_from("good.test", endpoint.port));
    assert!(outcome.result.is_ok(), "{:?}", outcome.result);
    println!("{:?}", outcome.took);
    assert!(outcome.took < Duration::from_millis(200) + MAX_DELAY, "only the mute one cost time: {:?}", outcome.took);
}

#[test]
fn unresolvable_names_do_not_delay_other_hosts() {
    let endpoint = answering(SIZED);
    let (address, _) = name_server();
    let mut driver = driver_with(vec![address]);
    let slow: Vec<_> = (0..20).map(|_| driver.start(get_from("silent.test", endpoint.port))).collect();
    let good: Vec<_> = (0..20).map(|_| driver.start(get(&endpoint))).collect();
    let outcomes = driver.run();
    assert!(slow.iter().all(|id| matches!(outcomes[id].result, Err(FetchError::UnknownHost(_)))));
    assert!(good.iter().all(|id| outcomes[id].result.is_ok() && outcomes[id].took < MAX_DELAY));
}
