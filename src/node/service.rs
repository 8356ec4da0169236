//! What a node answers to requests and sessions, from the committed chain.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use super::harvester::Harvester;
use super::identity;
use super::ledger::{ChainLedger, height_of};
use super::setup::{self, Listeners};
use super::unconfirmed::Unconfirmed;
use crate::api::{self, Answer, Api, Failure, Headers, NodeStatus, Now, rate_limit::RateLimiter};
use crate::chain::Switch;
use crate::clock::NetworkClock;
use crate::codec::Context;
use crate::config::{Boot, Settings};
use crate::model::{Address, Height, Network, NetworkByte, Timestamp};
use crate::net::http::{Reply, Request};
use crate::net::websocket::{handshake, negotiate_subprotocol};
use crate::net::{Caller, ConnectionId, Outbox as NetOutbox, Outgoing, Service};
use crate::pool::Confirmed;
use crate::push::http::{HttpAnswer, HttpView, SUBPROTOCOLS};
use crate::push::notify::Notifier;
use crate::push::{self, ApiRequest, Broker, Output};
use crate::store::{Reader, Store, StoreError};

/// Close code for a session that the node has no room for.
const TRY_AGAIN_LATER: u16 = 1013;
/// Close code for a session whose client does not do its part.
const SESSION_NOT_RELIABLE: u16 = 4500;
/// Requests of sessions that may wait for an answer; further ones are told so on `/errors`.
const MAX_REQUESTS: usize = 4_096;
/// Time between two looks for unconfirmed transactions that have expired.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);
/// Unconfirmed transactions that a session is shown at its request.
const MAX_UNCONFIRMED_SHOWN: usize = 10;
/// Time within which a session must send its first message.
const FIRST_MESSAGE_TIME: Duration = Duration::from_secs(60);

/// A node between two looks at its sockets.
pub struct Node<'s> {
    network: &'s Network,
    listeners: Listeners,
    clock: NetworkClock,
    api: Api,
    answer: Answer,
    broker: Broker,
    outbox: push::Outbox,
    /// What sessions asked for and have not been answered yet.
    requests: VecDeque<ApiRequest>,
    sessions: u32,
    /// Sessions that have said nothing yet, and when each of them was opened, the oldest first.
    silent: HashSet<u64>,
    opened: VecDeque<(Duration, u64)>,
    context_path: &'s str,
    compress: bool,
    rate_limit: Option<RateLimiter>,
    random: RandomState,
    started: Instant,
    moment: Moment,
    height: Height,
    status: NodeStatus,
    unconfirmed: Unconfirmed,
    /// Whether the node has joined its network.
    is_booted: bool,
    harvester: Harvester<'s>,
    /// When to look for unconfirmed transactions that have expired.
    next_expiry: Duration,
    /// Heights that were committed and are still to be published.
    unpublished: std::ops::RangeInclusive<u64>,
    /// Released at the end of each turn, so that the store can use old pages again.
    reader: Reader<'s>,
}

/// The present, by two clocks.
#[derive(Clone, Copy)]
pub struct Moment {
    /// Milliseconds of Unix time.
    pub unix_millis: i64,
    /// The same moment, by the clock that never goes back.
    pub instant: Instant,
}

impl Moment {
    /// The moment at a later instant.
    fn at(self, instant: Instant) -> Moment {
        let passed = instant.saturating_duration_since(self.instant);
        Moment { unix_millis: self.unix_millis.saturating_add(passed.as_millis() as i64), instant }
    }
}

impl<'s> Node<'s> {
    /// A node on a store that holds at least the nemesis block.
    pub fn new(
        store: &'s Store,
        settings: &'s Settings,
        listeners: Listeners,
        clock: NetworkClock,
        moment: Moment,
    ) -> Result<Node<'s>, StoreError> {
        let local = setup::resolve_local(settings);
        let api = Api::new(api::Settings {
            context: Context::of(&settings.network),
            features: settings.features,
            node: identity::describe(settings, clock.now(moment.unix_millis, 0)),
            limits_rate: settings.http.dos_filter,
            is_local: Box::new(move |caller| local.contains(caller)),
            allowed_harvesters: settings.allowed_harvesters.clone(),
        });
        let websocket = &settings.websocket;
        let broker = Broker::new(push::Settings {
            blocks_new: websocket.blocks_new_body,
            register_on_subscribe: websocket.register_on_subscribe,
            implicit_subscription: websocket.implicit_subscription,
            forgiving: websocket.forgiving_stomp,
            limits: push::Limits {
                sessions: settings.limits.connections,
                subscriptions_per_session: settings.limits.subscriptions,
                registered_addresses: settings.limits.registered_addresses,
                ..push::Limits::default()
            },
        });
        let is_booted = is_booted(&settings.boot);
        let snapshot = store.snapshot()?;
        let height = height_of(&snapshot)?;
        let now = clock.now(moment.unix_millis, 0);
        let confirmed = Confirmed { snapshot: &snapshot, network: &settings.network, height, now };
        let harvester = Harvester::new(store, settings, &confirmed)?;
        Ok(Node {
            network: &settings.network,
            listeners,
            clock,
            api,
            answer: Answer::default(),
            broker,
            outbox: push::Outbox::new(),
            requests: VecDeque::new(),
            sessions: 0,
            silent: HashSet::new(),
            opened: VecDeque::new(),
            context_path: &settings.http.context,
            compress: settings.http.gzip,
            rate_limit: settings.http.dos_filter.then(RateLimiter::default),
            random: RandomState::new(),
            started: moment.instant,
            moment,
            height,
            status: if is_booted { NodeStatus::NoRemoteNode } else { NodeStatus::Running },
            is_booted,
            unconfirmed: Unconfirmed::new(is_booted),
            harvester,
            next_expiry: Duration::ZERO,
            unpublished: height.0 + 1..=height.0,
            reader: Reader::new(store),
        })
    }

    /// Height of the last committed block.
    pub fn height(&self) -> Height {
        self.height
    }

    /// The network's clock.
    pub fn clock(&self) -> &NetworkClock {
        &self.clock
    }

    /// Takes note of the time.
    pub fn set_time(&mut self, moment: Moment) {
        self.moment = moment;
        self.close_silent_sessions();
    }

    /// How long nothing needs to be done if nobody asks for anything.
    pub fn rest(&self) -> Duration {
        if self.has_work() {
            return Duration::ZERO;
        }
        let tick = if self.is_booted { self.harvester.due() } else { Duration::MAX };
        self.next_expiry.min(tick).saturating_sub(self.running())
    }

    /// Time since the node was started.
    fn running(&self) -> Duration {
        self.moment.instant.saturating_duration_since(self.started)
    }

    /// Network time.
    pub fn time(&self) -> Timestamp {
        self.clock.now(self.moment.unix_millis, self.running().as_millis() as u64)
    }

    /// Ends sessions that have been open for long without a message (specification 07 §3.2).
    fn close_silent_sessions(&mut self) {
        while let Some((opened, session)) = self.opened.front().copied() {
            if self.running() < opened + FIRST_MESSAGE_TIME {
                break;
            }
            self.opened.pop_front();
            if self.silent.remove(&session) {
                self.outbox.push(Output::Close { session, code: SESSION_NOT_RELIABLE, reason: String::new() });
            }
        }
    }

    /// Ends a turn of the loop.
    pub fn end_turn(&mut self) {
        self.reader.release();
    }

    /// Takes note of blocks that were added to the chain and have become visible and durable.
    pub fn committed(&mut self, first: Height, last: Height) {
        self.rise(first, last);
        let time = self.time();
        let Node { reader, network, height, status, unconfirmed, .. } = self;
        let told = ledger(reader, network, *height, *status)
            .and_then(|ledger| Ok(unconfirmed.blocks_added(first, &ledger.confirmed(time))?));
        self.report(told);
    }

    /// Takes note of a change of the chain that has become visible and durable.
    fn switched(&mut self, switch: Switch) {
        self.rise(switch.common.next(), switch.last);
        self.unconfirmed.chain_changed(&switch.confirmed, switch.returned);
    }

    fn rise(&mut self, first: Height, last: Height) {
        self.reader.release();
        self.height = last;
        let begin = if self.unpublished.is_empty() { first.0 } else { *self.unpublished.start() };
        self.unpublished = begin..=last.0;
    }

    /// Does for a while the work that time and a change of the chain leave in the pool.
    pub fn keep_pool(&mut self, budget: Duration) {
        let (begun, time) = (Instant::now(), self.time());
        if self.running() >= self.next_expiry {
            self.next_expiry = self.running() + EXPIRY_INTERVAL;
            self.unconfirmed.drop_expired(time);
        }
        while self.unconfirmed.has_work() && begun.elapsed() < budget {
            let Node { reader, network, height, status, unconfirmed, .. } = self;
            let done = ledger(reader, network, *height, *status)
                .and_then(|ledger| Ok(unconfirmed.work(&ledger.confirmed(time))?));
            if done.is_err() {
                return self.report(done);
            }
        }
    }

    /// Works on the next block of this node for a while. It must not be called while something else changes the chain.
    pub fn harvest(&mut self, budget: Duration) {
        if !self.is_booted {
            return;
        }
        let begun = Instant::now();
        loop {
            let (time, running) = (self.time(), self.running());
            let Node { reader, network, height, status, unconfirmed, harvester, .. } = self;
            let step = ledger(reader, network, *height, *status).and_then(|ledger| {
                Ok(harvester.step(running, &ledger.confirmed(time), || unconfirmed.in_fee_order())?)
            });
            match step {
                Ok(Some(switch)) => self.switched(switch),
                Ok(None) => {}
                Err(failure) => return self.report(Err(failure)),
            }
            if !self.harvester.has_work() || begun.elapsed() >= budget {
                return;
            }
        }
    }

    /// Publishes transactions that have come into the pool.
    pub fn publish_arrivals(&mut self) {
        while let Some(transaction) = self.unconfirmed.next_arrival() {
            self.notify(|notifier| notifier.unconfirmed(&transaction));
        }
    }

    /// Whether there is something to publish that does not wait for anybody.
    fn has_work(&self) -> bool {
        !self.unpublished.is_empty()
            || !self.requests.is_empty()
            || self.unconfirmed.has_work()
            || self.harvester.has_work()
    }

    /// Publishes the next few blocks, once the pool stands on them too: what is told of an account shows what waits in
    /// the pool, and transactions that have lost their block are told of before the blocks that replace it
    /// (specification 07 §10.1, §10.4).
    pub fn publish(&mut self, count: usize) {
        if self.unconfirmed.has_work() {
            return;
        }
        for _ in 0..count {
            let Some(height) = self.unpublished.next() else { return };
            self.notify(|notifier| notifier.block_added(Height(height)));
        }
    }

    /// Takes note of what a session asked for.
    pub fn queue_request(&mut self, request: ApiRequest) {
        if self.requests.len() < MAX_REQUESTS {
            self.requests.push_back(request);
        } else {
            let text = "too many requests are waiting";
            self.broker.publish_error(Some(text), self.time().0, &mut self.outbox);
        }
    }

    /// Answers the next few requests of sessions.
    pub fn answer_requests(&mut self, count: usize) {
        for _ in 0..count {
            let Some(request) = self.requests.pop_front() else { return };
            self.answer_request(request);
        }
    }

    /// Answers what a session asked for, by publishing.
    fn answer_request(&mut self, request: ApiRequest) {
        let height = self.height;
        let network = self.network.byte;
        self.notify(|notifier| match request {
            ApiRequest::AccountGet(address) => match parse_address(&address, network) {
                Some(address) => notifier.account(&address),
                None => Ok(()),
            },
            ApiRequest::TransfersUnconfirmed(address) => match parse_address(&address, network) {
                Some(address) => notifier.unconfirmed_of(&address, MAX_UNCONFIRMED_SHOWN),
                None => Ok(()),
            },
            ApiRequest::LastBlock => notifier.block(height),
            _ => Err(Failure::internal("this node does not answer this request yet")),
        });
    }

    /// The next thing that a session is to be sent.
    pub fn next_output(&mut self) -> Option<Output> {
        self.outbox.pop()
    }

    /// Publishes from the committed state. What fails is told on `/errors`.
    fn notify(&mut self, publish: impl FnOnce(&mut Notifier<'_, ChainLedger<'_>>) -> Result<(), Failure>) {
        let time = self.time();
        let Node { reader, network, height, status, broker, outbox, unconfirmed, harvester, .. } = self;
        let result = ledger(reader, network, *height, *status).and_then(|ledger| {
            let desk = unconfirmed.desk(&mut harvester.unlocked, ledger.confirmed(time));
            publish(&mut Notifier { broker, ledger: &ledger, desk: &desk, network: network.byte, out: outbox })
        });
        self.report(result);
    }

    /// Tells a failure on `/errors`.
    fn report(&mut self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            self.broker.publish_error(Some(failure.message()), self.time().0, &mut self.outbox);
        }
    }

    fn answer_http(&mut self, caller: Caller, request: &Request<'_>, reply: &mut Reply) {
        let monotonic_millis = self.running().as_millis() as u64;
        let network_millis = self.clock.millis(self.moment.unix_millis, monotonic_millis);
        let now = Now { network: self.time(), network_millis, monotonic_millis };
        let view = api::Request {
            method: request.method,
            // A path outside of the configured context is none that is known.
            path: request.path.strip_prefix(self.context_path).unwrap_or_default(),
            query: request.query,
            body: request.body,
            peer: caller.peer.ip(),
            headers: request,
        };
        // A transaction is judged on all that are in the pool: while these are taken over, it waits, and nobody else.
        if self.unconfirmed.has_work() && self.api.is_into_the_pool(&view) {
            reply.later = true;
            return;
        }
        // The answer is put together in the reply's own memory.
        self.answer.body = std::mem::take(&mut reply.body);
        std::mem::swap(&mut self.answer.headers, &mut reply.headers);
        match ledger(&self.reader, self.network, self.height, self.status) {
            Ok(ledger) => {
                let confirmed = ledger.confirmed(now.network);
                let mut desk = self.unconfirmed.desk(&mut self.harvester.unlocked, confirmed);
                self.api.answer(&view, &ledger, &mut desk, now, &mut self.answer);
            }
            Err(_) => self.api.fail(now, &mut self.answer),
        }
        std::mem::swap(&mut self.answer.headers, &mut reply.headers);
        reply.body = std::mem::take(&mut self.answer.body);
        reply.status = self.answer.status;
        reply.close |= self.answer.close;
        reply.compress = self.compress;
    }

    fn answer_websocket_port(&mut self, caller: Caller, request: &Request<'_>, reply: &mut Reply) {
        let (time, millis) = (self.time().0, self.running().as_millis() as u64);
        let refused = self.rate_limit.as_mut().is_some_and(|limit| limit.refuses(caller.peer.ip(), millis));
        let view = HttpView { method: request.method, path: request.path, header: &|name: &str| request.header(name) };
        let answer = match refused {
            true => push::http::too_many_requests(time),
            false => push::http::answer(&view, time, self.random.hash_one(self.running()) as i32),
        };
        let (headers, websocket) = match answer {
            HttpAnswer::Reply { status, headers, body } => {
                reply.status = status;
                reply.body = body;
                (headers, false)
            }
            HttpAnswer::Websocket { headers } => (headers, true),
        };
        for (name, value) in headers {
            match name {
                "Connection" => reply.close |= value == "close",
                _ => reply.header(name, value),
            }
        }
        if websocket {
            upgrade(request, reply);
        }
    }
}

fn upgrade(request: &Request<'_>, reply: &mut Reply) {
    let offers = request.header_values("Sec-WebSocket-Protocol");
    match handshake(request, 0) {
        Ok(upgrade) => {
            if let Some(protocol) = negotiate_subprotocol(offers, &SUBPROTOCOLS) {
                reply.header("Sec-WebSocket-Protocol", protocol.to_owned());
            }
            reply.upgrade = Some(upgrade);
        }
        Err(refusal) => refusal.answer(reply),
    }
}

fn ledger<'a>(
    reader: &'a Reader<'_>,
    network: &'a Network,
    height: Height,
    status: NodeStatus,
) -> Result<ChainLedger<'a>, Failure> {
    Ok(ChainLedger { snapshot: reader.snapshot()?, network, height, status })
}

/// Whether the node counts as one that has joined its network; it has no partners there yet.
fn is_booted(boot: &Boot) -> bool {
    boot.auto || boot.key.is_some()
}

fn parse_address(text: &push::AddressText, network: NetworkByte) -> Option<Address> {
    std::str::from_utf8(text).ok().and_then(|text| Address::parse(text, network))
}

impl Headers for Request<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        Request::header(self, name)
    }
}

/// What the broker asks of the node.
struct Surroundings {
    network: NetworkByte,
    time: i32,
}

impl push::Context for Surroundings {
    fn network_time(&self) -> i32 {
        self.time
    }

    fn is_address(&self, text: &str) -> bool {
        Address::parse(text, self.network).is_some()
    }
}

impl Service for Node<'_> {
    fn request(&mut self, caller: Caller, now: Instant, request: &Request<'_>, reply: &mut Reply, _: &mut NetOutbox) {
        self.moment = self.moment.at(now);
        if caller.listener == self.listeners.http {
            self.answer_http(caller, request, reply);
        } else {
            self.answer_websocket_port(caller, request, reply);
        }
    }

    fn websocket_opened(&mut self, id: ConnectionId, _: Caller, _: u64, now: Instant, outbox: &mut NetOutbox) {
        self.moment = self.moment.at(now);
        self.sessions = self.sessions.wrapping_add(1);
        if self.broker.open(id.to_u64(), format!("{:x}", self.sessions)).is_err() {
            outbox.push(id, Outgoing::Close { code: TRY_AGAIN_LATER, reason: "too many sessions".to_owned() });
        }
        self.silent.insert(id.to_u64());
        self.opened.push_back((self.running(), id.to_u64()));
    }

    fn websocket_message(&mut self, id: ConnectionId, message: &[u8], _: bool, now: Instant, _: &mut NetOutbox) {
        self.moment = self.moment.at(now);
        let surroundings = Surroundings { network: self.network.byte, time: self.time().0 };
        if !message.is_empty() {
            self.silent.remove(&id.to_u64());
        }
        self.broker.receive(id.to_u64(), message, &surroundings, &mut self.outbox);
    }

    fn websocket_closed(&mut self, id: ConnectionId) {
        self.silent.remove(&id.to_u64());
        self.broker.close(id.to_u64());
    }
}
