//! Attacks from several addresses, each within the limits of one client: on connection slots, on system buffers, and by
//! work without requests.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};

use super::super::support::with_secret;
use super::stage::{AttackStage, Bar, Outcome};
use super::swarm::{ConnectionScript, Swarm};
use crate::common::http::Client;
use crate::common::websocket::upgrade_request;
use crate::support::in_millis;
use nisd::metrics::Scrape;

/// A cheap query.
const QUERY: &str = "GET /chain/height HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// Duration of an attack.
const DURATION: Duration = Duration::from_secs(5);
/// Size of a memory page in bytes.
const PAGE: usize = 4096;

/// Returns the address of an attacker.
fn attacker(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 2, 1 + number as u8)
}

/// Returns the address of a new remote client, or of this machine.
fn newcomer(number: usize) -> Ipv4Addr {
    if number.is_multiple_of(2) { Ipv4Addr::LOCALHOST } else { Ipv4Addr::new(127, 0, 3, number as u8) }
}

/// Connects from an address of this machine; the client waits for at most two seconds.
pub fn connect(from: Ipv4Addr, to: SocketAddr) -> std::io::Result<Client> {
    let mut client = Client::connect_from(from, to)?;
    client.stream().set_read_timeout(Some(Duration::from_secs(2)))?;
    Ok(client)
}

/// Returns whether a new client is admitted and answered.
fn is_answered(from: Ipv4Addr, to: SocketAddr) -> bool {
    send_request(from, to, QUERY).is_ok_and(|(status, _)| status == 200)
}

/// Returns the status of the answer to a request, and its connection.
pub fn send_request(from: Ipv4Addr, to: SocketAddr, request: &str) -> std::io::Result<(u16, Client)> {
    let mut client = connect(from, to)?;
    if from == Ipv4Addr::LOCALHOST {
        client.try_send(with_secret(to, request))?
    } else {
        client.try_send(request)?
    }
    let status = client.try_answer()?.status;
    Ok((status, client))
}

/// 33 addresses hold 250 connections each and send requests at the rate limit, so that none is idle for long.
pub fn busy_connections(binary: &str) -> Outcome {
    const ADDRESSES: usize = 33;
    const EACH: usize = 250;
    let mut stage = AttackStage::new(binary);
    let mut swarm = Swarm::new(stage.node.http, 16 * 1024);
    stage.begin();
    swarm.open(ADDRESSES * EACH, |number| attacker(number / EACH), ConnectionScript::default());
    swarm.run(Duration::from_secs(1), |_| false);
    let (mut answered, mut asked, mut took, mut next) = (0, 0, Vec::new(), 0);
    let begun = Instant::now();
    while begun.elapsed() < 2 * DURATION {
        // 340 per second.
        while (next as f64) < begun.elapsed().as_secs_f64() * 340.0 {
            let index = next * 37 % swarm.connections.len();
            if !swarm.connections[index].is_closed {
                swarm.send(index, QUERY.as_bytes());
            }
            next += 1;
        }
        swarm.run(Duration::from_millis(50), |_| false);
        let since = Instant::now();
        answered += usize::from(is_answered(newcomer(asked), stage.node.http));
        took.push(since.elapsed().as_secs_f64());
        asked += 1;
    }
    let notes = vec![
        format!("{answered} of {asked} newcomers let in, {}", in_millis(&mut took)),
        format!("attackers lost {} of {} connections", swarm.closed, swarm.connections.len()),
    ];
    stage.end(notes, &[Bar::Is("each newcomer is let in", answered == asked), Bar::Others(20.0)])
}

/// Returns the memory that the system uses for all TCP connections in bytes.
fn kernel_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("TCP:")).unwrap_or_default();
    line.split_whitespace().last().and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * PAGE
}

/// 12 addresses with 200 connections each request a long response and read nothing. The receive buffers of the
/// attackers are minimal, because elsewhere they would be on the attackers' machines.
pub fn unread_responses(binary: &str) -> Outcome {
    const MIB: usize = 1 << 20;
    let mut stage = AttackStage::new(binary);
    let before = kernel_bytes();
    stage.begin();
    let request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let (mut held, mut most) = (Vec::new(), 0);
    for number in 0..12 * 200 {
        let open = || -> std::io::Result<TcpStream> {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.set_recv_buffer_size(1)?;
            socket.bind(&SocketAddr::from((attacker(number / 200), 0)).into())?;
            socket.connect_timeout(&stage.node.http.into(), Duration::from_secs(2))?;
            let mut stream: TcpStream = socket.into();
            // So often that the responses exceed what the first write takes.
            (0..4).try_for_each(|_| stream.write_all(request))?;
            Ok(stream)
        };
        held.extend(open());
        most = most.max(kernel_bytes());
    }
    let begun = Instant::now();
    while begun.elapsed() < DURATION {
        most = most.max(kernel_bytes());
        std::thread::sleep(Duration::from_millis(10));
    }
    let grown = most.saturating_sub(before) / MIB;
    let metrics = Scrape::parse(stage.client.get("/metrics").text()).expect("the text format");
    let notes = vec![
        format!("{} connections, the system holds {grown} MiB more", held.len()),
        format!(
            "counted {:?}, cut {:?}",
            metrics.value("nisd_kernel_bytes"),
            metrics.value("nisd_connections_kernel_evicted_total")
        ),
    ];
    drop(held);
    // Responses count towards the limit on all buffers: 128 MiB.
    let bars = [Bar::Is("the system holds <= 64 MiB", grown <= 64), Bar::Memory(144.0), Bar::Others(20.0)];
    stage.end(notes, &bars)
}

/// Returns the share of a processor that the node uses during an attack.
fn processor_share(stage: &AttackStage, attack: impl FnOnce()) -> f64 {
    let (before, begun) = (stage.cpu_seconds(), Instant::now());
    attack();
    (stage.cpu_seconds() - before) / begun.elapsed().as_secs_f64()
}

/// Four addresses connect and disconnect as fast as possible.
pub fn connect_and_close(binary: &str) -> Outcome {
    let mut stage = AttackStage::new(binary);
    stage.begin();
    let (is_over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let to = stage.node.http;
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let (is_over, count) = (is_over.clone(), count.clone());
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let Ok(mut client) = connect(attacker(number), to) else { continue };
                    // The port is free again at once.
                    let _ = SockRef::from(&*client.stream()).set_linger(Some(Duration::ZERO));
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let mut newcomers = (0, 0);
    let share = processor_share(&stage, || {
        let begun = Instant::now();
        while begun.elapsed() < DURATION {
            newcomers.0 += usize::from(is_answered(newcomer(newcomers.1), to));
            newcomers.1 += 1;
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    is_over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("an attacker"));
    let rate = count.load(Ordering::Relaxed) as f64 / DURATION.as_secs_f64();
    let (answered, asked) = newcomers;
    let notes = vec![
        format!("{rate:.0} connections a second, {share:.2} of a processor"),
        format!("{:.1} us each, {answered} of {asked} newcomers answered", share / rate * 1e6),
    ];
    let bars = [
        Bar::Is("<= 0.30 of a processor", share <= 0.30),
        Bar::Is("each newcomer is answered", answered == asked),
        Bar::Others(20.0),
    ];
    stage.end(notes, &bars)
}

/// 64 connections from several addresses that send `first` once and `forever` without end.
fn endless_requests(
    binary: &str,
    addresses: usize,
    first: &[u8],
    forever: Vec<u8>,
    most: f64,
    bar: &'static str,
) -> Outcome {
    let mut stage = AttackStage::new(binary);
    let mut swarm = Swarm::new(stage.node.http, 16 * 1024);
    stage.begin();
    let part = ConnectionScript::endless(first, forever);
    swarm.open(64, |number| attacker(number % addresses), part);
    let share = processor_share(&stage, || _ = swarm.run(DURATION, |_| false));
    let notes = vec![format!("{share:.2} of a processor, {} times closed", swarm.closed)];
    stage.end(notes, &[Bar::Is(bar, share <= most), Bar::Others(20.0)])
}

/// An invalid request is rejected, and the client keeps sending.
pub fn invalid_requests(binary: &str) -> Outcome {
    endless_requests(binary, 8, b"nonsense\r\n\r\n", vec![b'x'; 1 << 18], 0.25, "<= 0.25 of a processor")
}

/// The head of a request with a chunked body.
const CHUNKED: &[u8] = b"POST /transaction/announce HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                         Transfer-Encoding: chunked\r\n\r\n";

/// Bodies whose chunks have one byte and a long extension each.
pub fn extensions(binary: &str) -> Outcome {
    let chunk = format!("1;{}\r\n \r\n", "x".repeat(240));
    endless_requests(binary, 8, CHUNKED, chunk.repeat(200).into_bytes(), 0.25, "<= 0.25 of a processor")
}

/// Bodies whose chunks have only one byte. One address may use a quarter of a processor; rejecting it costs somewhat
/// more.
pub fn tiny_chunks(binary: &str) -> Outcome {
    endless_requests(binary, 1, CHUNKED, b"1\r\n \r\n".repeat(10_000), 0.30, "<= 0.30 of a processor")
}

/// Long bodies that arrive byte by byte, each read separately by the node.
pub fn trickle(binary: &str) -> Outcome {
    let head = b"POST /push/block HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/binary\r\n\
                 Content-Length: 400000\r\n\r\n";
    endless_requests(binary, 1, head, b"x".to_vec(), 0.30, "<= 0.30 of a processor")
}

/// So many addresses with one websocket each that nobody has more than another: no connection is evicted for a remote
/// client, and clients of this machine have reserved connections.
pub fn equal_holders(binary: &str) -> Outcome {
    const ADDRESSES: usize = 8_000;
    const NEWCOMERS: usize = 40;
    let mut stage = AttackStage::new(binary);
    let mut swarm = Swarm::new(stage.node.websocket, 16 * 1024);
    stage.begin();
    let holder = |number: usize| Ipv4Addr::new(127, 4, (number / 250) as u8, 1 + (number % 250) as u8);
    swarm.open(ADDRESSES, holder, ConnectionScript::session(""));
    swarm.run(Duration::from_secs(1), |_| false);
    let to = stage.node.websocket;
    let (mut kept, mut remote, mut local) = (Vec::new(), 0, 0);
    for number in 0..NEWCOMERS {
        let is_local = number.is_multiple_of(2);
        if let Ok((status, stream)) = send_request(newcomer(number), to, &upgrade_request())
            && status == 101
        {
            *if is_local { &mut local } else { &mut remote } += 1;
            kept.push(stream);
        }
        swarm.run(Duration::from_millis(25), |_| false);
    }
    let notes = vec![
        format!("{} of {ADDRESSES} hold a websocket", swarm.count(101)),
        format!("{local} of {0} local newcomers let in, {remote} of {0} others", NEWCOMERS / 2),
    ];
    let is_in = Bar::Is("each local newcomer is let in", local == NEWCOMERS / 2);
    stage.end(notes, &[is_in, Bar::Others(20.0)])
}
