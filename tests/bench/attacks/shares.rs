//! Attacks by many addresses in few or many networks, each within the limits of one client.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};

use super::requests::RequestRun;
use super::stage::{AttackStage, Bar, Outcome, Setup};
use super::swarm::{ConnectionScript, Swarm};
use crate::common::http::{get, post};
use crate::common::private_network::NETWORK;
use nisd::crypto::PublicKey;
use nisd::model::Address;

/// Duration of an attack.
const DURATION: Duration = Duration::from_secs(6);
/// Requests of one address per second, within its rate limit.
const PER_ADDRESS: f64 = 45.0;
/// A trusted proxy, which names its clients.
const PROXY: Ipv4Addr = Ipv4Addr::new(127, 8, 0, 1);

/// Returns an address in one of this many networks.
fn of_networks(number: usize, networks: usize) -> Ipv4Addr {
    let (network, host) = (number % networks, number / networks);
    Ipv4Addr::new(127, 20, network as u8, 1 + host as u8)
}

/// Addresses, each in a network of its own, send lists of empty lists, which a parser has most work with.
pub fn bodies(binary: &str, addresses: usize, limit: f64) -> Outcome {
    const BYTES: usize = 240_000;
    let request = post("/push/transactions", &format!("{{\"data\":[{}[]]}}", "[],".repeat(BYTES / 3)));
    let mut stage = AttackStage::new(binary);
    let mut asking = RequestRun::new(&stage, addresses, |number| of_networks(number, addresses));
    stage.begin();
    asking.send_requests(request, PER_ADDRESS * addresses as f64, DURATION);
    let notes = asking.notes();
    stage.end(notes, &[Bar::Others(limit), Bar::Memory(64.0)])
}

/// Addresses in a number of networks ask as often as they may.
pub fn crowd(binary: &str, addresses: usize, networks: usize, limit: f64) -> Outcome {
    let mut stage = AttackStage::new(binary);
    let mut asking = RequestRun::new(&stage, addresses, |number| of_networks(number, networks));
    stage.begin();
    asking.send_requests(get("/account/importances"), PER_ADDRESS * addresses as f64, DURATION);
    let notes = asking.notes();
    stage.end(notes, &[Bar::Others(limit), Bar::Memory(32.0)])
}

/// 1,000 clients of one network of IPv6, which a trusted proxy names, ask for all importances and read slowly.
pub fn importances(binary: &str) -> Outcome {
    const CLIENTS: usize = 1_000;
    const SLICE: usize = 128;
    let proxy = PROXY.to_string();
    let settings = [("nisd.trustedProxies", proxy.as_str())];
    let mut stage = AttackStage::with(binary, &Setup { settings: &settings, limit: None });
    stage.begin();
    let mut swarm = Swarm::new(stage.node.http, SLICE);
    swarm.open(CLIENTS, |_| PROXY, ConnectionScript::default());
    let begun = Instant::now();
    for number in 0..CLIENTS {
        let name = format!("Host: localhost\r\nX-Forwarded-For: 2001:db8:7:{number:x}::1");
        let request = get("/account/importances").replacen("Host: localhost", &name, 1);
        assert!(request.contains(&name), "{request}");
        swarm.send(number, request.as_bytes());
    }
    while begun.elapsed() < DURATION {
        swarm.drive_once(Duration::ZERO);
        std::thread::sleep(Duration::from_millis(10));
    }
    let notes = vec![format!("{}, {} closed", swarm.answers(), swarm.closed)];
    stage.end(notes, &[Bar::Others(20.0), Bar::Memory(16.0)])
}

/// Clients at 10,000 addresses open streams of events and reset them, as many as a single thread can.
pub fn reset_streams(binary: &str) -> Outcome {
    open_and_reset(binary, &get("/events"), 1, false)
}

/// The same by eight threads with streams for 10,000 accounts each, which are reset when the response has begun.
pub fn reset_streams_of_accounts(binary: &str) -> Outcome {
    let account = |number: u32| {
        let key = [number.to_be_bytes(); 8].concat();
        Address::from_public_key(&PublicKey(key.try_into().expect("32 bytes")), NETWORK).to_string()
    };
    let accounts: Vec<String> = (0..10_000).map(account).collect();
    open_and_reset(binary, &post("/events", &serde_json::json!({ "addresses": accounts }).to_string()), 8, true)
}

fn open_and_reset(binary: &str, request: &str, threads: usize, waits: bool) -> Outcome {
    const STREAMS: usize = 31_000;
    const ADDRESSES: usize = 10_000;
    let mut stage = AttackStage::new(binary);
    stage.begin();
    let (node, end) = (stage.node.http, stage.started_at() + 2 * DURATION);
    let (begun, opened) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let open = |number: usize| -> std::io::Result<()> {
        let number = number % ADDRESSES;
        let from = Ipv4Addr::new(127, 30 + (number >> 16) as u8, (number >> 8) as u8, number as u8 | 1);
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((from, 0)).into())?;
        socket.connect_timeout(&node.into(), Duration::from_secs(1))?;
        (&socket).write_all(request.as_bytes())?;
        SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
        let mut head = *b"HTTP/1.1 200";
        if waits {
            socket.set_read_timeout(Some(Duration::from_secs(2)))?;
            (&socket).read_exact(&mut head)?;
        }
        opened.fetch_add(usize::from(head == *b"HTTP/1.1 200"), Ordering::Relaxed);
        Ok(())
    };
    let open_all = || {
        while Instant::now() < end {
            match begun.fetch_add(1, Ordering::Relaxed) {
                number if number < STREAMS => drop(open(number)),
                _ => break,
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(open_all)));
    let (begun, opened) = (begun.into_inner().min(STREAMS), opened.into_inner());
    let notes = vec![format!("{opened} of {begun} streams in {} ms", stage.started_at().elapsed().as_millis())];
    stage.end(notes, &[Bar::Others(20.0), Bar::Memory(32.0)])
}
