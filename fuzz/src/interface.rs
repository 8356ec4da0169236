//! Fuzz target: requests to a node's HTTP interface, with the limits of production.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use nisd::api::routes::Access;
use nisd::api::{self, Api, ClockState, EventFeed, NodeContext, NodeStatus, ROUTES};
use nisd::budget::Budget;
use nisd::chain::harvest::UnlockedAccounts;
use nisd::chain::{ChainSnapshot, ReorgLog, rollback};
use nisd::config::Settings;
use nisd::crypto::{KeyPair, PrivateKey, PublicKey, Randomness};
use nisd::mempool::Mempool;
use nisd::model::units::EPOCH_UNIX_MILLIS;
use nisd::model::{Height, Timestamp};
use nisd::net::SharedBytesCounter;
use nisd::net::fetch::{FetchId, FetchRequest, ResponseReader};
use nisd::net::http::{Gzip, Request, RequestReader, Response};
use nisd::net::service::{
    Client, ConnectionId, Dropped, Effects, Event, Exchange, LoopTime, Message, Progress, Service,
};
use nisd::node::{HTTP, LocalRights, METRICS, Node, Start, WEBSOCKET};
use nisd::peer::io::Now;
use nisd::peer::wire::{Endpoint, Identity, MetaData, NodeInfo, limits};
use nisd::store::Store;

use crate::tiny;

/// Separates the records of an input: each is a byte of flags for client and events, and bytes of a connection.
pub const SEPARATOR: u8 = 0xff;
/// Flag: the client is not on this machine.
pub const REMOTE: u8 = 1;
/// Flag: the request was forwarded by a proxy.
pub const FORWARDED: u8 = 2;
/// Flag: the client is rate-limited.
pub const RATE_LIMITED: u8 = 4;
/// Flag: an hour passes first.
pub const LATER: u8 = 8;
/// Flag: the client disconnects after the first step.
pub const GONE: u8 = 16;
/// Flag: the request arrives at the websocket port.
pub const WEBSOCKET_PORT: u8 = 32;

/// Height of the chain.
pub const TIP: Height = Height(53);
/// Units of work per step, and the excess allowed for the most expensive indivisible work: validating an announcement
/// with a key, and reading a body.
const SHARE: u32 = 300;
const MAX_EXCESS: u32 = 200;
const BODY_BYTES_PER_UNIT: usize = 40;
/// Units of work of a tick.
const TICK_UNITS: u32 = 500;
/// Maximum steps of a request, and maximum ticks until the node is idle.
const MAX_STEPS: usize = 10_000;
const MAX_TICKS: usize = 100_000;
/// Maximum bytes of a response.
const MAX_ANSWER: usize = 4 << 20;
/// Leading digits of a private key that must not be shown.
const SECRET_DIGITS: usize = 24;

/// The chain, created once per thread. Every input finds it in the same state.
struct Fixture {
    settings: Settings,
    store: Store,
    /// The beginning of each private key, in hex.
    secrets: Vec<String>,
    started: i64,
}

thread_local! {
    static FIXTURE: Fixture = Fixture::new();
}

/// Checks for any request by any client: it is answered in steps of bounded cost and number. A response is well-formed,
/// and JSON if it says so; a client without local access gets nothing from local routes; no private key of a body is
/// shown. The response is the same for any size of the steps.
pub fn check(data: &[u8]) -> usize {
    FIXTURE.with(|ground| {
        let mut scene = Harness::new(ground);
        let records = data.split(|byte| *byte == SEPARATOR).filter_map(|record| record.split_first());
        let answered = records.map(|(flags, bytes)| scene.connection(*flags, bytes)).sum();
        let height = scene.node.height();
        drop(scene);
        ground.restore(height);
        answered
    })
}

/// Returns status and body of the response to a local client's GET, after checking that they are the same for any size
/// of the steps; `None` if the target cannot be read as a request.
pub fn get(target: &str) -> Option<(u16, Vec<u8>)> {
    get_with(target, "")
}

/// The same with a further header, which ends with a line break. A stream of events is read until it waits.
pub fn get_with(target: &str, header: &str) -> Option<(u16, Vec<u8>)> {
    FIXTURE.with(|ground| {
        let scene = Harness::new(ground);
        let mut reader = RequestReader::new(0);
        reader.receive(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n").as_bytes());
        let caller = Client::direct(HTTP, Ipv4Addr::LOCALHOST.into());
        let request = scene.next(&mut reader, caller).ok()??;
        let caller = Client { is_local: scene.node.is_local(&caller, &request), ..caller };
        let answer = scene.compare(&request, caller, 0);
        Some((answer.status, answer.body))
    })
}

impl Fixture {
    fn new() -> Fixture {
        let mut settings = tiny::settings();
        settings.node.auto_boot = true;
        let store = tiny::store(&settings, TIP);
        let started = EPOCH_UNIX_MILLIS + i64::from(tiny::state_of(&store).1.timestamp.0) * 1000;
        let secrets = tiny::private_keys().into_iter().map(|(_, key)| key[..SECRET_DIGITS].to_owned()).collect();
        Fixture { settings, store, secrets, started }
    }

    /// Rolls back blocks harvested by accounts that requests unlocked.
    fn restore(&self, height: Height) {
        if height > TIP {
            let mut batch = self.store.begin_write().expect("a batch");
            rollback(&mut batch, TIP).expect("blocks made a moment ago");
            batch.commit().expect("a store that works");
        }
    }

    /// Creates an interface with the settings of the node.
    fn api(&self) -> Api {
        let (settings, local) = (&self.settings, self.settings.http.local.clone());
        Api::new(api::Settings {
            context_path: settings.http.context.clone(),
            features: settings.node.features,
            local,
            host_names: settings.host_names.clone(),
            local_origins: settings.http.local_origins.clone(),
            allowed_harvesters: settings.http.allowed_harvesters.clone(),
            unaudited_paths: settings.peers.unaudited_paths.clone(),
            max_pushed_bytes: limits::PUSHED,
            metrics_listener: METRICS,
            ..api::Settings::default()
        })
    }
}

/// Records the node's effects.
#[derive(Default)]
struct World {
    charged: u64,
    resumed: BTreeSet<ConnectionId>,
    wake_at: Option<Duration>,
}

impl Effects for World {
    fn send(&mut self, _: ConnectionId, _: Message<'_>) -> Result<(), Dropped> {
        panic!("there is no websocket")
    }

    fn backlog(&self, _: ConnectionId) -> usize {
        0
    }

    fn close(&mut self, _: ConnectionId, _: u16, _: &str) {
        panic!("there is no websocket")
    }

    fn resume(&mut self, connection: ConnectionId) {
        self.resumed.insert(connection);
    }

    fn charge(&mut self, _: ConnectionId, units: u32) {
        self.charged += u64::from(units);
    }

    fn fetch(&mut self, _: FetchId, _: FetchRequest) {
        panic!("nobody is there to be asked")
    }

    fn cancel(&mut self, _: FetchId) {}

    fn wake_at(&mut self, running: Duration) {
        self.wake_at = Some(self.wake_at.map_or(running, |at| at.min(running)));
    }
}

/// A node and its clients.
struct Harness<'g> {
    fixture: &'g Fixture,
    node: Node<'g>,
    world: World,
    now: LoopTime,
    next_connection: u64,
}

impl<'g> Harness<'g> {
    fn new(ground: &'g Fixture) -> Harness<'g> {
        let now = LoopTime { unix_millis: ground.started, monotonic: Duration::ZERO };
        let local = LocalRights { addresses: ground.settings.http.local.clone(), cookie: None, needs_cookie: false };
        let shared = SharedBytesCounter::default();
        let start = Start { now, seed: &[7; 32], local, shared, import: None, listed: Vec::new(), saved: Vec::new() };
        let node = Node::new(&ground.store, &ground.settings, start).expect("a node");
        Harness { fixture: ground, node, world: World::default(), now, next_connection: 1 }
    }

    /// Answers the requests of a connection. Returns their number.
    fn connection(&mut self, flags: u8, bytes: &[u8]) -> usize {
        if flags & LATER != 0 {
            self.now.monotonic += Duration::from_secs(3600);
            self.now.unix_millis += 3_600_000;
            // So few units that expired transactions are still being processed: announcements have to wait.
            self.tick(1);
        }
        let last: IpAddr = if flags & REMOTE == 0 { Ipv4Addr::LOCALHOST } else { Ipv4Addr::new(192, 0, 2, 9) }.into();
        let listener = if flags & WEBSOCKET_PORT == 0 { HTTP } else { WEBSOCKET };
        let is_forwarded = flags & FORWARDED != 0;
        let caller =
            Client { is_forwarded, is_unidentified: is_forwarded, is_local: false, ..Client::direct(listener, last) };
        self.next_connection += 1;
        let connection = ConnectionId(self.next_connection);
        let mut reader = RequestReader::new(0);
        reader.receive(bytes);
        let mut answered = 0;
        while let Ok(Some(_)) = self.next(&mut reader, caller) {
            if !self.answer(&mut reader, connection, caller, flags) {
                break;
            }
            reader.finish_request();
            answered += 1;
        }
        self.node.handle(Event::Disconnected { connection }, self.now, &mut self.world);
        answered
    }

    fn next<'r>(&self, reader: &'r mut RequestReader, client: Client) -> Result<Option<Request<'r>>, ()> {
        reader.advance(|method, path| self.node.route(client.listener, method, path)).map_err(drop)?;
        Ok(reader.request())
    }

    /// Answers a request, and checks the response. Returns whether the connection stays open.
    fn answer(&mut self, reader: &mut RequestReader, connection: ConnectionId, caller: Client, flags: u8) -> bool {
        let (mut reply, mut out, mut is_resumed, mut is_begun) = (Response::new(), Vec::new(), false, false);
        for _ in 0..MAX_STEPS {
            let request = reader.request().expect("a request stays until it is finished");
            let caller = Client { is_local: self.node.is_local(&caller, &request), ..caller };
            let (charged, is_rejected) = (self.world.charged, flags & RATE_LIMITED != 0);
            let exchange = Exchange {
                connection,
                client: caller,
                request: &request,
                response: &mut reply,
                is_resumed,
                is_rate_limited: is_rejected,
            };
            let taken = self.node.handle(Event::Request(exchange), self.now, &mut self.world);
            let units = self.world.charged - charged;
            let most = SHARE + MAX_EXCESS + (request.body.len() / BODY_BYTES_PER_UNIT) as u32;
            assert!(units <= u64::from(most), "{units} units in a step of {} {}", request.method, request.path);
            let is_parked = matches!(taken, Progress::Suspended | Progress::Queued);
            let is_free = is_parked || caller.listener == WEBSOCKET;
            assert!(units > 0 || is_free, "nothing is for free");
            if reply.is_streaming {
                if !is_begun {
                    reply.write_streaming_head(&request, &mut out);
                    is_begun = true;
                }
                reply.write_chunk(&request, taken == Progress::Done, &mut out);
            }
            if taken == Progress::Done {
                let (mut close, mut shared) = (reply.close, None);
                if !is_begun {
                    (close, shared) = reply.write(&request, &mut Gzip::default(), &mut out);
                }
                out.extend_from_slice(shared.as_deref().unwrap_or_default());
                self.assert_answer(&request, caller, &reply, &out);
                if caller.listener == HTTP {
                    self.compare(&request, caller, flags);
                }
                return !close && reply.upgrade.is_none();
            }
            is_resumed = true;
            if taken == Progress::Streaming {
                reader.drop_body();
            }
            if flags & GONE != 0 {
                return false;
            }
            if taken == Progress::Streaming {
                self.tick(TICK_UNITS);
                if !self.world.resumed.remove(&connection) {
                    return false;
                }
            }
            if is_parked {
                self.run_until_idle();
                assert!(self.world.resumed.remove(&connection), "a parked request is resumed");
            }
        }
        panic!("a request has no end");
    }

    /// Runs ticks until the node is idle.
    fn run_until_idle(&mut self) {
        for _ in 0..MAX_TICKS {
            self.tick(TICK_UNITS);
            if self.world.wake_at.is_none_or(|at| at > self.now.monotonic) {
                return;
            }
        }
        panic!("the node has work without end");
    }

    fn tick(&mut self, budget: u32) {
        self.world.wake_at = None;
        self.node.handle(Event::Tick { budget, last_tick: Duration::ZERO }, self.now, &mut self.world);
    }

    fn assert_answer(&self, request: &Request<'_>, caller: Client, reply: &Response, out: &[u8]) {
        assert!(out.starts_with(b"HTTP/1.1 "));
        if reply.upgrade.is_some() {
            return assert!(out.starts_with(b"HTTP/1.1 101 ") && out.ends_with(b"\r\n\r\n"));
        }
        if request.method == "HEAD" {
            return assert!(out.ends_with(b"\r\n\r\n"), "there is no body");
        }
        let mut client = ResponseReader::new(MAX_ANSWER);
        let complete = client.receive(out).expect("a response that can be read");
        let response = match complete {
            Some(response) => response,
            None => client.close().expect("a whole response"),
        };
        assert_eq!(response.status, reply.status);
        let is_packed = String::from_utf8_lossy(out).contains("Content-Encoding: gzip\r\n");
        let types: Vec<&str> =
            reply.headers.iter().filter(|(name, _)| name == "Content-Type").map(|(_, value)| value.as_ref()).collect();
        assert!(types.len() <= 1, "{types:?}");
        let is_json = types.first().is_some_and(|kind| kind.starts_with("application/json"));
        let is_text = [&b"ok"[..], b"nope"].contains(&response.body.as_slice());
        if is_json && !is_packed && !is_text {
            let json: Result<serde_json::Value, _> = serde_json::from_slice(&response.body);
            assert!(json.is_ok(), "{}", String::from_utf8_lossy(&response.body));
        }
        self.assert_secrets_kept(request, out);
        self.assert_access_denied(request, caller, reply);
    }

    /// Asserts that a key which occurs only in the body is not shown.
    fn assert_secrets_kept(&self, request: &Request<'_>, out: &[u8]) {
        for secret in &self.fixture.secrets {
            let is_secret = holds(request.body, secret) && !holds(request.path.as_bytes(), secret);
            let is_told_of = request.query.is_some_and(|query| holds(query.as_bytes(), secret))
                || request.headers().any(|(_, value)| holds(value, secret));
            assert!(!is_secret || is_told_of || !holds(out, secret), "{}", String::from_utf8_lossy(out));
        }
    }

    fn assert_access_denied(&self, request: &Request<'_>, client: Client, response: &Response) {
        if !self.is_foreign(request, client) || !matches!(request.method, "GET" | "POST" | "HEAD") {
            return;
        }
        let is_local = |path: &str| ROUTES.iter().any(|route| route.access != Access::Public && route.path == path);
        assert!(!is_local(&plain(request.path)) || response.status != 200, "{} for {client:?}", request.path);
        // A public query about an address.
        let is_public = plain(request.path) == "/account/isunlocked";
        let is_told = (matches!(response.body.as_slice(), b"ok" | b"nope") && !is_public)
            || response.body.starts_with(b"{\"data\":\"");
        assert!(!is_told, "{} for {client:?}", request.path);
    }

    /// Returns whether a client certainly has no local access.
    fn is_foreign(&self, request: &Request<'_>, client: Client) -> bool {
        let own = |value: &[u8]| {
            let value = String::from_utf8_lossy(value).to_ascii_lowercase();
            let names = self.fixture.settings.host_names.iter().map(|name| name.to_ascii_lowercase());
            ["localhost", "127.", "::", "0:"].into_iter().any(|name| value.contains(name))
                || names.into_iter().any(|name| value.contains(&name))
        };
        let names_another = |(name, value): (&[u8], &[u8])| {
            ["Host", "Origin", "Referer"].iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes())) && !own(value)
        };
        let is_of_a_page = |(name, value): (&[u8], &[u8])| {
            name.eq_ignore_ascii_case(b"Sec-Fetch-Site") && value != b"same-origin" && value != b"none"
        };
        let is_led_here = request.headers().any(|header| names_another(header) || is_of_a_page(header));
        client.is_forwarded || !client.address.is_loopback() || is_led_here
    }

    /// Asserts that the response is the same at once and in the smallest steps.
    fn compare(&self, request: &Request<'_>, client: Client, flags: u8) -> Answer {
        let Fixture { store, settings, .. } = self.fixture;
        let snapshot = store.snapshot().expect("a snapshot");
        let chain = ChainSnapshot {
            snapshot: &snapshot,
            network: &settings.network,
            height: self.node.height(),
            now: Timestamp(1_000_000),
        };
        let at_once = self.whole(request, client, flags, chain, u32::MAX);
        let in_steps = self.whole(request, client, flags, chain, 1);
        assert_eq!(at_once, in_steps, "{} {}", request.method, request.path);
        at_once
    }

    fn whole(&self, request: &Request<'_>, caller: Client, flags: u8, chain: ChainSnapshot<'_>, units: u32) -> Answer {
        let mut api = self.fixture.api();
        let (mut reply, mut body, mut is_resumed) = (Response::new(), Vec::new(), false);
        let (connection, is_rejected) = (ConnectionId(1), flags & RATE_LIMITED != 0);
        let (mut mempool, mut unlocked) = (Mempool::default(), UnlockedAccounts::new(1));
        let (info, reorgs, mut events) = (node_info(), ReorgLog::default(), EventFeed::default());
        let (keys, mut randomness) = (KeyPair::new(&PrivateKey::from_seed(&[7; 32])), Randomness::new(&[5; 32]));
        for _ in 0..MAX_STEPS {
            let mut exchange = Exchange {
                connection,
                client: caller,
                request,
                response: &mut reply,
                is_resumed,
                is_rate_limited: is_rejected,
            };
            let context = NodeContext {
                chain,
                status: NodeStatus::Booted,
                now: Now { monotonic: Duration::ZERO, network: chain.now, network_millis: 1_000_000_000 },
                clock: ClockState::default(),
                forgets_hashes: false,
                mempool: &mut mempool,
                unlocked: &mut unlocked,
                peers: None,
                info: &info,
                started: Timestamp(0),
                keys: &keys,
                reorgs: &reorgs,
                events: &mut events,
                randomness: &mut randomness,
                budget: Budget::new(units),
            };
            let taken = api.answer(&mut exchange, context).progress;
            assert!(!matches!(taken, Progress::Suspended | Progress::Queued));
            body.append(&mut reply.body);
            let waits = taken == Progress::Streaming && events.take_due(Duration::ZERO).is_empty();
            if taken == Progress::Done || waits {
                let headers = reply.headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
                return Answer { status: reply.status, headers, body };
            }
            assert!(units < u32::MAX || taken == Progress::Streaming, "what has no end of units is done at once");
            if !reply.is_streaming {
                reply.body.append(&mut body);
            }
            is_resumed = true;
        }
        panic!("a request has no end");
    }
}

#[derive(Debug, PartialEq)]
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

pub(crate) fn node_info() -> NodeInfo {
    NodeInfo {
        identity: Identity { key: PublicKey([7; 32]), name: Some("fuzz".to_owned()) },
        endpoint: Endpoint::http("127.0.0.1", 7890),
        meta_data: MetaData::default(),
    }
}

/// Normalises a path: no parameters, nothing escaped or doubled, no slash or extension at the end.
fn plain(path: &str) -> String {
    let mut decoded = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| hex::decode(digits).ok()).filter(|_| *first == b'%');
        decoded.push(digits.as_ref().map_or(*first, |byte| byte[0]));
        rest = if digits.is_some() { &behind[2..] } else { behind };
    }
    let decoded = String::from_utf8_lossy(&decoded);
    let segments = decoded.split('/').map(|segment| segment.split(';').next().unwrap_or_default());
    let plain: String = segments.filter(|segment| !segment.is_empty()).map(|segment| format!("/{segment}")).collect();
    plain.trim_end_matches(".json").to_owned()
}

fn holds(text: &[u8], part: &str) -> bool {
    text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}
