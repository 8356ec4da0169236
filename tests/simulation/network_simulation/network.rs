//! The network: requests between members, their fate, and their durations.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use nisd::config::Settings;
use nisd::crypto::KeyPair;
use nisd::ip::Scope;
use nisd::model::{Amount, Hash256, Timestamp, Transaction};
use nisd::net::fetch::{Endpoint, FetchError, FetchId, FetchRequest, FetchResponse, Method, Response, request_head};
use nisd::node::ListedPeer;
use nisd::store::Store;

use super::bad_requests::{BadRequest, bad_requests, relayed};
use super::byzantine_peer::{ByzantinePeer, LieContext, SYNCHRONISATION};
use super::environment::{Environment, PORT, START, USERS, user_keys};
use super::event_client::EventClient;
use super::fault::{Fault, OF_PUSHES, Tally};
use super::invariants::InvariantChecker;
use super::member::Member;
use super::node_log;
use super::payments::Payments;
use super::plan::{Act, ByzantinePlan, Known, Plan, TICK_TIME};
use crate::common::Random;
use crate::common::node_network::announcement;
use crate::common::private_network::{address, transfer};

/// Timeouts of a connection and of an answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// A message that takes longer is slow.
const SLOW: Duration = Duration::from_secs(1);
/// Time within which a member validates what it has received, even with slow ticks.
const VALIDATED_WITHIN: Duration = Duration::from_secs(10);
/// Time after which a disturbance has no effect any more.
const SETTLED_WITHIN: Duration = Duration::from_secs(25);
/// Time of a byzantine peer's first sign of life, and interval between further ones.
const FIRST_SIGN: Duration = Duration::from_secs(3);
const SIGN_INTERVAL: Duration = Duration::from_secs(45);
/// After the start of a member, relays send signs of life to it as fast as the rate limit allows: interval, number, and
/// the interval of later ones for as long as the relays are present.
const RELAYED_SIGNS: Duration = Duration::from_millis(150);
const RELAYED_AT_START: u32 = 20;
const RELAYED_LATER: Duration = Duration::from_secs(7);
/// Number of identities of a byzantine peer with many: more than one address may have in a peer table.
const IDENTITIES: usize = 12;
/// Maximum numbers of requests in flight to one node, in flight to all, and to one node per second, as the node
/// guarantees them.
const MAX_IN_FLIGHT_TO_ONE: usize = nisd::peer::manager::requests::MAX_IN_FLIGHT_PER_TARGET;
const MAX_IN_FLIGHT: usize = nisd::peer::manager::requests::MAX_IN_FLIGHT;

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    Member(usize),
    Byzantine(usize),
}

/// A request in transit, and the party that waits for the answer.
pub struct InFlight {
    from: Party,
    life: u32,
    id: FetchId,
    fetch: FetchRequest,
    /// The fault of the network that it meets: its answer is lost, or the connection breaks before it arrives.
    fault: Option<Fault>,
}

/// Faults of the network that a request whose server exists may meet.
const REQUEST_FAULTS: [Fault; 5] =
    [Fault::Refused, Fault::ResetBefore, Fault::ResetAfter, Fault::LostRequest, Fault::LostAnswer];

/// Key of an unanswered request: requesting member, its life, and the request.
type RequestKey = (usize, u32, FetchId);

enum Event {
    Wake(usize, u32),
    Request(Box<InFlight>, Party, usize),
    End(RequestKey, Box<Result<FetchResponse, FetchError>>),
    /// The timeout of a member's answer; the flag tells that the answer cannot have been lost.
    Timeout(RequestKey, usize, bool),
    Act(usize),
    /// A byzantine peer sends signs of life.
    Sign(usize),
    /// A relay sends signs of life to a restarted member in the names of all others; the last field counts them.
    RelayedSigns(usize, usize, u32),
    /// A client of `/events` has a turn.
    Client(usize),
}

/// An unanswered request.
struct Pending {
    to: Endpoint,
    since: Duration,
    /// A request to a byzantine peer about its chain.
    is_wasted_time: bool,
    /// The answer completes this lie about chains.
    lie: Option<Lie>,
}

/// A completed lie about chains.
struct Lie {
    fault: Fault,
    /// Key of the byzantine peer.
    key: String,
}

/// An honest node at the start of a chain comparison with it.
struct ComparedPeer {
    index: usize,
    /// Its tip.
    tip: Option<Hash256>,
    /// Its recorded failures before the comparison, which began then.
    failures: u64,
    since: Duration,
}

/// A chain comparison.
struct Comparison {
    /// The honest node compared with, if it is one.
    compared: Option<ComparedPeer>,
    /// The member's tip at the start.
    tip: Hash256,
    /// The lie that the member has received, when, and the recorded failures of the byzantine peer before it.
    received_lie: Option<(Lie, Duration, u64)>,
}

impl Comparison {
    /// Returns the received lie if the member has had time to validate it.
    fn settled_lie(&self, now: Duration) -> Option<&(Lie, Duration, u64)> {
        self.received_lie.as_ref().filter(|(_, since, _)| now >= *since + VALIDATED_WITHIN)
    }
}

/// A network and its members in virtual time.
pub struct Network<'g> {
    pub environment: &'g Environment,
    pub plan: &'g Plan,
    pub now: Duration,
    pub members: Vec<Member<'g>>,
    pub watch: InvariantChecker,
    pub tally: Tally,
    byzantine_peers: Vec<ByzantinePeer>,
    places: BTreeMap<Endpoint, (Party, usize)>,
    random: Random,
    queue: BTreeMap<(Duration, u64), Event>,
    event_count: u64,
    open: BTreeMap<RequestKey, Pending>,
    /// The chain comparisons by member, peer and start: the latest with each peer, and those with a lie that is not settled.
    comparisons: BTreeMap<(usize, Endpoint, Duration), Comparison>,
    /// When a transaction that a member last pushed to another one has arrived.
    relayed_transactions: BTreeMap<(usize, usize), Duration>,
    /// Time that members have spent waiting for answers of byzantine peers about their chains.
    pub wasted_time: Duration,
    /// Time of the last disturbance.
    disturbed_at: Duration,
    /// How often relays have pushed something to a member in the name of another one, by this pair.
    pub relayed: BTreeMap<(usize, usize), u64>,
    /// Number of blocks that members have pushed to others.
    pub pushed_blocks: u64,
    /// The side of each party in a partition, and the number of messages lost per thousand.
    sides: Vec<u8>,
    lost: usize,
    /// The member to which no block is pushed.
    without_pushes: Option<usize>,
    /// Time at which the last message between two parties arrives.
    last_arrival: BTreeMap<(Party, Party), Duration>,
    /// Users' transactions with the accepting members, and the stop times of members.
    pub accepted: Vec<(usize, Duration, Transaction)>,
    pub stopped: Vec<(usize, Duration)>,
    /// When the clocks of members were set, and the times they showed before and after.
    pub set_clocks: Vec<(usize, Duration, Timestamp)>,
    users: Vec<KeyPair>,
    payments: Payments,
    pub clients: Vec<EventClient>,
}

fn place(ip: IpAddr, identity: usize) -> Endpoint {
    Endpoint { host: ip.to_string(), port: PORT + identity as u16 }
}

/// Returns where everyone is, by endpoint and identity.
fn places(plan: &Plan, byzantine_peers: &[ByzantinePeer]) -> BTreeMap<Endpoint, (Party, usize)> {
    let members = plan.members.iter().enumerate();
    let members = members.map(|(index, plan)| (place(plan.ip, 0), (Party::Member(index), 0)));
    let identities =
        byzantine_peers.iter().zip(&plan.byzantine_peers).enumerate().flat_map(|(number, (byzantine, plan))| {
            (0..byzantine.identities())
                .map(move |identity| (place(plan.ip, identity), (Party::Byzantine(number), identity)))
        });
    members.chain(identities).collect()
}

fn broken() -> FetchError {
    FetchError::Broken(io::ErrorKind::ConnectionReset.into())
}

fn refused() -> FetchError {
    FetchError::Unreachable(io::ErrorKind::ConnectionRefused.into())
}

impl<'g> Network<'g> {
    /// Creates the network of a plan with all members stopped.
    pub fn new(plan: &'g Plan, environment: &'g Environment, settings: &'g [Settings]) -> Network<'g> {
        let members = plan.members.iter().zip(settings).enumerate();
        let members: Vec<_> =
            members.map(|(index, (plan, settings))| Member::new(index, plan, settings, environment)).collect();
        let identities = |byzantine: &ByzantinePlan| {
            if byzantine.is_relay {
                plan.members.len()
            } else if byzantine.faults.contains(&Fault::ManyFaces) {
                IDENTITIES
            } else {
                1
            }
        };
        let byzantine_peers = plan.byzantine_peers.iter().enumerate();
        let byzantine_peers: Vec<_> =
            byzantine_peers.map(|(number, plan)| ByzantinePeer::new(number, plan.clone(), identities(plan))).collect();
        let places = places(plan, &byzantine_peers);
        let harvesters = members.iter().map(|member: &Member<'_>| member.info.identity.key).collect();
        let mut network = Network {
            environment,
            plan,
            now: Duration::ZERO,
            members,
            watch: InvariantChecker::new(harvesters),
            tally: Tally::default(),
            byzantine_peers,
            places,
            random: Random(plan.seed ^ 0x0077_6561_7468_6572),
            queue: BTreeMap::new(),
            event_count: 0,
            open: BTreeMap::new(),
            comparisons: BTreeMap::new(),
            relayed_transactions: BTreeMap::new(),
            wasted_time: Duration::ZERO,
            disturbed_at: Duration::ZERO,
            relayed: BTreeMap::new(),
            pushed_blocks: 0,
            sides: vec![0; plan.members.len() + plan.byzantine_peers.len()],
            lost: 0,
            without_pushes: None,
            last_arrival: BTreeMap::new(),
            accepted: Vec::new(),
            stopped: Vec::new(),
            set_clocks: Vec::new(),
            users: (0..USERS).map(user_keys).collect(),
            payments: Payments::new(plan.seed),
            clients: Vec::new(),
        };
        plan.faults.iter().for_each(|fault| network.tally.add(*fault));
        for (act, (at, _)) in plan.acts.iter().enumerate() {
            network.schedule(*at, Event::Act(act));
        }
        for byzantine in
            (0..network.byzantine_peers.len()).filter(|byzantine| !plan.byzantine_peers[*byzantine].is_relay)
        {
            network.schedule(FIRST_SIGN, Event::Sign(byzantine));
        }
        network
    }

    /// Returns the network time of a correct clock.
    pub fn time(&self) -> Timestamp {
        Timestamp(START.0 + self.now.as_secs() as i32)
    }

    fn schedule(&mut self, at: Duration, event: Event) {
        self.event_count += 1;
        self.queue.insert((at.max(self.now), self.event_count), event);
    }

    /// Advances time.
    pub fn run_until(&mut self, end: Duration) {
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            self.handle_event(event);
        }
        self.now = end;
    }

    fn handle_event(&mut self, event: Event) {
        if let Event::Wake(member, _) | Event::Request(_, Party::Member(member), _) | Event::End((member, ..), _) =
            &event
        {
            node_log::set_current(self.now, *member);
        }
        match event {
            Event::Wake(member, life) => self.wake(member, life),
            Event::Request(in_flight, Party::Member(member), _) => self.arrive(in_flight, member),
            Event::Request(in_flight, Party::Byzantine(byzantine), identity) => {
                self.deliver_to_byzantine(*in_flight, byzantine, identity)
            }
            Event::End(open, result) => self.end(open, *result),
            Event::Timeout(open, by, is_safe) => self.time_out(open, by, is_safe),
            Event::Act(act) => {
                let plan = self.plan;
                log::info!("{:?}", plan.acts[act].1);
                self.act(&plan.acts[act].1);
            }
            Event::Sign(byzantine) => {
                let sign = BadRequest::sign_of_life(&self.byzantine_peers[byzantine].info(0));
                (0..self.members.len()).for_each(|member| self.send_bad_request(byzantine, member, &sign));
                self.schedule(self.now + SIGN_INTERVAL, Event::Sign(byzantine));
            }
            Event::RelayedSigns(byzantine, member, life) => self.send_relayed_signs(byzantine, member, life),
            Event::Client(number) => {
                self.client_turn(number);
                let pause = self.clients[number].pause();
                self.schedule(self.now + pause, Event::Client(number));
            }
        }
    }

    /// Adds a client of `/events`.
    pub fn add_client(&mut self, client: EventClient) {
        self.schedule(self.now, Event::Client(self.clients.len()));
        self.clients.push(client);
    }

    /// Breaks the connection of a client.
    pub fn disconnect_client(&mut self, number: usize) {
        self.clients[number].lose_connection(&mut self.members, self.now);
    }

    /// Gives a client a turn.
    pub fn client_turn(&mut self, number: usize) {
        if let Some(member) = self.clients[number].turn(&mut self.members, self.now) {
            self.process_effects(member);
        }
    }

    /// Starts a member with the content of its folder.
    pub fn start(&mut self, index: usize) {
        if self.members[index].running.is_some() {
            return;
        }
        let known = self.plan.members[index].known.iter().map(|known| match known {
            Known::ByKey(other) => ListedPeer::Node(self.members[*other].info.clone()),
            Known::ByEndpoint(other) => ListedPeer::Endpoint(self.members[*other].info.endpoint.clone()),
            Known::Byzantine(byzantine) => ListedPeer::Node(self.byzantine_peers[*byzantine].info(0)),
        });
        let known = known.collect();
        let (environment, now) = (self.environment, self.now);
        self.members[index].start(environment, known, now, &mut self.random);
        self.schedule(self.now, Event::Wake(index, self.members[index].start_count));
        self.members[index].running.iter_mut().for_each(|running| running.wake_at = Some(now));
        let life = self.members[index].start_count;
        for byzantine in
            (0..self.byzantine_peers.len()).filter(|byzantine| self.plan.byzantine_peers[*byzantine].is_relay)
        {
            self.schedule(now, Event::RelayedSigns(byzantine, index, life));
        }
    }

    fn send_relayed_signs(&mut self, byzantine: usize, to: usize, life: u32) {
        let member = &self.members[to];
        let Some(running) = member.running.as_ref().filter(|_| member.start_count == life) else { return };
        if self.byzantine_peers[byzantine].is_gone(self.now) {
            return;
        }
        let is_young = self.now < running.since + RELAYED_SIGNS * RELAYED_AT_START;
        for identity in (0..self.members.len()).filter(|identity| *identity != to) {
            self.tally.add(Fault::RelayedSign);
            let sign = BadRequest::sign_of_life(&self.byzantine_peers[byzantine].info(identity));
            self.send_bad_request(byzantine, to, &sign);
        }
        let pause = if is_young { RELAYED_SIGNS } else { RELAYED_LATER };
        self.schedule(self.now + pause, Event::RelayedSigns(byzantine, to, life));
    }

    pub fn stop(&mut self, index: usize) {
        let Some(running) = self.members[index].running.take() else { return };
        self.stopped.push((index, self.now));
        for in_flight in running.answering.into_values() {
            self.answer(&in_flight, Party::Member(index), Duration::ZERO, Err(broken()));
        }
        self.open.retain(|(from, ..), _| *from != index);
        // It is unknown whether it would have penalized anyone.
        self.comparisons.retain(|(member, ..), _| *member != index);
    }

    fn wake(&mut self, index: usize, life: u32) {
        let now = self.now;
        let member = &mut self.members[index];
        let Some(running) = member.running.as_mut().filter(|running| running.wake_at == Some(now)) else { return };
        if member.start_count != life {
            return;
        }
        running.wake_at = None;
        if running.busy_until <= now {
            running.tick(now, member.tick_time);
        }
        self.process_effects(index);
    }

    /// Processes the effects of a member and schedules its next wakeup.
    fn process_effects(&mut self, index: usize) {
        let now = self.now;
        let member = &mut self.members[index];
        let Some(running) = &mut member.running else { return };
        running.node.resume();
        let time = running.node.time();
        if self.watch.check(&mut running.view, running.store, self.environment, time) && !member.commit_time.is_zero() {
            running.wait_for_disk(now, member.commit_time);
        }
        self.watch.peak_usage.update(&running.node.limit_usage());
        running.process_messages();
        if let Some(kept) = running.node.peers_to_save(false) {
            member.kept = kept;
        }
        let asked: Vec<_> =
            running.node.recorder.outgoing_requests.iter_mut().flat_map(|asked| asked.drain(..)).collect();
        for cancelled in running.node.recorder.cancelled.drain(..) {
            self.open.remove(&(index, member.start_count, cancelled));
        }
        let waiting: Vec<_> = running.answering.keys().copied().collect();
        let mut answered = Vec::new();
        for connection in waiting {
            if let Some(answer) = running.node.take_answer(connection) {
                answered.extend(running.answering.remove(&connection).map(|in_flight| (in_flight, answer)));
            }
        }
        if let Some(wake) = running.node.wake_at() {
            let at = (running.since + wake).max(running.busy_until).max(now);
            if running.wake_at.is_none_or(|earlier| at < earlier) {
                running.wake_at = Some(at);
                let life = member.start_count;
                self.schedule(at, Event::Wake(index, life));
            }
        }
        for (in_flight, answer) in answered {
            let result = Ok((answer.status, answer.body));
            self.answer(&in_flight, Party::Member(index), Duration::ZERO, result);
        }
        for (id, fetch) in asked {
            self.send_request(index, id, fetch);
        }
    }

    /// Draws the duration of a message.
    fn latency(&mut self, from: Party, to: Party) -> Duration {
        let (least, more) = self.plan.latency;
        let spike = if self.random.below(200) == 0 { self.random.below(self.plan.lateness + 1) as u64 } else { 0 };
        let latency = Duration::from_millis(least + self.random.below(more as usize) as u64 + spike);
        let arrival = self.now + latency;
        let last = self.last_arrival.entry((from, to)).or_default();
        if arrival < *last {
            self.tally.add(Fault::Overtaken);
        }
        *last = arrival.max(*last);
        if latency > SLOW {
            self.tally.add(Fault::SlowMessage);
        }
        latency
    }

    fn ip(&self, party: Party) -> IpAddr {
        match party {
            Party::Member(index) => self.plan.members[index].ip,
            Party::Byzantine(byzantine) => self.plan.byzantine_peers[byzantine].ip,
        }
    }

    fn side(&self, party: Party) -> u8 {
        self.sides[match party {
            Party::Member(index) => index,
            Party::Byzantine(byzantine) => self.members.len() + byzantine,
        }]
    }

    fn are_apart(&self, one: Party, other: Party) -> bool {
        let is_relay =
            |party| matches!(party, Party::Byzantine(byzantine) if self.plan.byzantine_peers[byzantine].is_relay);
        !is_relay(one) && !is_relay(other) && self.side(one) != self.side(other)
    }

    /// Returns whether two members can communicate normally.
    pub fn can_communicate(&self, one: usize, other: usize) -> bool {
        let run = |index: usize| self.members[index].running.is_some();
        run(one) && run(other) && self.lost == 0 && !self.are_apart(Party::Member(one), Party::Member(other))
    }

    /// Processes a request of a member.
    fn send_request(&mut self, from: usize, id: FetchId, request: FetchRequest) {
        let life = self.members[from].start_count;
        let open = (from, life, id);
        if request.target == "/chain/score" {
            self.start_comparison(from, &request.endpoint);
        }
        let place = self.places.get(&request.endpoint).copied();
        if let Some((Party::Member(to), _)) = place
            && request.target.starts_with("/push/transaction")
        {
            self.relayed_transactions.insert((from, to), self.now + SLOW);
        }
        let is_wasted_time =
            matches!(place, Some((Party::Byzantine(_), _))) && SYNCHRONISATION[..5].contains(&&*request.target);
        let pending = Pending { to: request.endpoint.clone(), since: self.now, is_wasted_time, lie: None };
        self.open.insert(open, pending);
        self.check_requests(from, &request.endpoint);
        let requester = Party::Member(from);
        let Some((to, identity)) = place else {
            return self.end_after(open, CONNECT_TIMEOUT, refused());
        };
        log::debug!("{from} asks {to:?} {}", request.target);
        self.pushed_blocks += u64::from(request.target == "/push/block");
        let latency = self.latency(requester, to);
        if request.target == "/push/block" && self.without_pushes.map(Party::Member) == Some(to) {
            let taken = FetchResponse { from: self.ip(to), response: Response { status: 200, body: Vec::new() } };
            return self.schedule(self.now + latency, Event::End(open, Box::new(Ok(taken))));
        }
        if self.are_apart(requester, to) {
            self.tally.add(Fault::NoRoute);
            return self.end_after(open, CONNECT_TIMEOUT, FetchError::Unreachable(io::ErrorKind::TimedOut.into()));
        }
        let fault = (self.random.below(1_000) < self.lost).then(|| REQUEST_FAULTS[self.random.below(5)]);
        fault.iter().for_each(|fault| self.tally.add(*fault));
        match fault {
            Some(Fault::Refused) => self.end_after(open, latency, refused()),
            Some(Fault::ResetBefore) => self.end_after(open, latency, broken()),
            Some(Fault::LostRequest) => self.end_after(open, ANSWER_TIMEOUT, FetchError::Silent(ANSWER_TIMEOUT)),
            _ => {
                let in_flight = Box::new(InFlight { from: requester, life, id, fetch: request, fault });
                if let Party::Member(to) = to {
                    self.schedule(self.now + latency + ANSWER_TIMEOUT, Event::Timeout(open, to, fault.is_none()));
                }
                self.schedule(self.now + latency, Event::Request(in_flight, to, identity));
            }
        }
    }

    /// Ends a request without an answer.
    fn end_after(&mut self, open: RequestKey, after: Duration, error: FetchError) {
        self.schedule(self.now + after, Event::End(open, Box::new(Err(error))));
    }

    /// Checks that a node keeps its limits on requests to others.
    fn check_requests(&self, from: usize, to: &Endpoint) {
        let own = |(index, ..): &RequestKey| *index == from;
        let (all, one) = self
            .open
            .iter()
            .filter(|(open, _)| own(open))
            .fold((0, 0), |(all, one), (_, pending)| (all + 1, one + usize::from(pending.to == *to)));
        assert!(
            all <= MAX_IN_FLIGHT && one <= MAX_IN_FLIGHT_TO_ONE,
            "{all} requests are under way, {one} of them to {to}"
        );
    }

    /// Delivers a request to a member.
    fn arrive(&mut self, in_flight: Box<InFlight>, to: usize) {
        let now = self.now;
        let from = self.ip(in_flight.from);
        let Some(running) = &mut self.members[to].running else {
            return self.answer(&in_flight, Party::Member(to), Duration::ZERO, Err(refused()));
        };
        if running.busy_until > now {
            let later = running.busy_until;
            return self.schedule(later, Event::Request(in_flight, Party::Member(to), 0));
        }
        running.set_now(now);
        let is_refused = running.is_rate_limited(from, now);
        let bytes = request(&in_flight);
        match running.node.submit(from, &bytes, is_refused) {
            Ok(connection) => drop(running.answering.insert(connection, *in_flight)),
            Err(status) => self.answer(&in_flight, Party::Member(to), Duration::ZERO, Ok((status, Vec::new()))),
        }
        self.process_effects(to);
    }

    /// Delivers a member's request to a byzantine peer.
    fn deliver_to_byzantine(&mut self, in_flight: InFlight, byzantine: usize, identity: usize) {
        let Party::Member(requester) = in_flight.from else { return };
        let infos: Vec<_> = self.members.iter().map(|member| member.info.clone()).collect();
        let time = self.time();
        let is_unreachable = self.byzantine_peers[byzantine].is_relay() && self.members[identity].running.is_none();
        if is_unreachable || self.byzantine_peers[byzantine].is_gone(self.now) {
            return self.answer(&in_flight, Party::Byzantine(byzantine), Duration::ZERO, Err(refused()));
        }
        let Some(best) = self.best_store() else { return };
        let Some(running) = &mut self.members[requester].running else { return };
        let mut context = LieContext {
            environment: self.environment,
            store: running.store,
            best,
            members: &infos,
            sent: &self.watch.sent,
            now: time,
            random: &mut self.random,
        };
        let answer = self.byzantine_peers[byzantine].answer(requester, identity, &in_flight.fetch, &mut context);
        if let Some(fault) = answer.fault {
            self.tally.add(fault);
            let key = self.byzantine_peers[byzantine].keys(identity).public().to_string();
            let pending =
                self.open.get_mut(&(requester, in_flight.life, in_flight.id)).filter(|_| fault.is_penalized());
            pending.into_iter().for_each(|pending| pending.lie = Some(Lie { fault, key: key.clone() }));
        }
        self.answer(&in_flight, Party::Byzantine(byzantine), answer.after, answer.result);
    }

    /// Returns the store of the running member whose chain has the highest score.
    fn best_store(&self) -> Option<&'g Store> {
        let running = self.members.iter().filter_map(|member| member.running.as_ref());
        running.max_by_key(|running| running.view.tip().score).map(|running| running.store)
    }

    /// Sends an answer back.
    fn answer(&mut self, in_flight: &InFlight, by: Party, after: Duration, result: Result<(u16, Vec<u8>), FetchError>) {
        let Party::Member(from) = in_flight.from else { return };
        let open = (from, in_flight.life, in_flight.id);
        if in_flight.fault == Some(Fault::LostAnswer) || self.are_apart(in_flight.from, by) {
            // Nothing more arrives; the timeout of a member's answer is scheduled elsewhere.
            if matches!(by, Party::Byzantine(_)) {
                self.end_after(open, ANSWER_TIMEOUT, FetchError::Silent(ANSWER_TIMEOUT));
            }
            return;
        }
        let latency = self.latency(by, in_flight.from);
        let ip = self.ip(by);
        let is_honest = matches!(by, Party::Member(_));
        let result = match result {
            _ if in_flight.fault == Some(Fault::ResetAfter) => Err(broken()),
            Ok((status, body)) => {
                let path = &in_flight.fetch.target;
                assert!(!is_honest || ![413, 429].contains(&status), "honest nodes exceed a limit: {path} {status}");
                let is_too_large = body.len() > in_flight.fetch.body_limit;
                assert!(!is_honest || !is_too_large, "the answer to {path} is larger than it may be");
                if is_too_large {
                    Err(FetchError::TooLarge)
                } else {
                    Ok(FetchResponse { from: ip, response: Response { status, body } })
                }
            }
            Err(error) => Err(error),
        };
        self.schedule(self.now + after + latency, Event::End(open, Box::new(result)));
    }

    /// Starts a member's chain comparison and checks the others: slow ones go on beside it, and a slow member has yet to
    /// validate what it received within [`VALIDATED_WITHIN`]. A received lie must be penalized unless the member's chain
    /// has changed since that comparison began, so that it discarded the answers about the old one. An honest node must
    /// not be penalized unless it moved to another chain.
    fn start_comparison(&mut self, index: usize, with: &Endpoint) {
        let Some(tip) = self.tip(index) else { return };
        let now = self.now;
        let (of_member, others): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.comparisons).into_iter().partition(|((by, ..), _)| *by == index);
        of_member.values().for_each(|before| self.check_comparison(index, tip, before));
        self.comparisons = others;
        self.comparisons.extend(of_member.into_iter().filter(|((_, peer, _), before)| match before.received_lie {
            Some(_) => before.settled_lie(now).is_none(),
            None => peer != with,
        }));
        let place = self.places.get(with).copied();
        let compared = place.and_then(|(party, _)| if let Party::Member(other) = party { Some(other) } else { None });
        let compared = compared.map(|other| {
            let key = self.members[other].info.identity.key.to_string();
            ComparedPeer { index: other, tip: self.tip(other), failures: self.failures(index, &key), since: now }
        });
        self.comparisons.insert((index, with.clone(), now), Comparison { compared, tip, received_lie: None });
    }

    /// Checks a comparison of a member that has this tip now.
    fn check_comparison(&mut self, index: usize, tip: Hash256, before: &Comparison) {
        if let Some((lie, _, failures)) = before.settled_lie(self.now) {
            let is_penalized = self.failures(index, &lie.key) > *failures;
            // For a member with a slow clock the blocks are of the future.
            let is_excused = before.tip != tip || self.plan.faults.contains(&Fault::ClockJump);
            assert!(is_penalized || is_excused, "member {index} does not penalize {:?}", lie.fault);
            self.tally.count_received(lie.fault, is_penalized);
        }
        // A member with a wrong clock offers blocks of the future, and a chain that forks too deep is useless, so both
        // may be penalized.
        let is_right = !self.plan.spends_twice && !self.plan.faults.contains(&Fault::ClockJump);
        let is_without_excuse = self.plan.fork.is_none() && is_right;
        if let Some(ComparedPeer { index: other, tip, failures, since }) = before.compared
            && is_without_excuse
            && self.tip(other) == tip
            && !self.has_relayed_surplus(other, index, since)
        {
            let key = self.members[other].info.identity.key.to_string();
            let is_penalized = self.failures(index, &key) > failures;
            assert!(!is_penalized, "member {index} penalizes member {other}");
        }
    }

    /// Returns whether a member has relayed transactions to another one since then, which may be cosignatures of byzantine
    /// peers that count for the one and no longer for the other.
    fn has_relayed_surplus(&self, by: usize, to: usize, since: Duration) -> bool {
        let relayed = self.relayed_transactions.get(&(by, to)).is_some_and(|at| *at >= since);
        relayed && self.tally.count(Fault::PushedSurplusCosignatures) > 0
    }

    /// Returns the tip of a member if it is running.
    fn tip(&self, index: usize) -> Option<Hash256> {
        self.members[index].running.as_ref().map(|running| running.view.tip().hash)
    }

    /// Returns how many failures a member records for a node.
    fn failures(&mut self, index: usize, key: &str) -> u64 {
        let now = self.now;
        self.members[index].running.as_mut().map_or(0, |running| {
            running.set_now(now);
            running.failures(key)
        })
    }

    /// Times out an answer of a member.
    fn time_out(&mut self, open: RequestKey, by: usize, is_safe: bool) {
        if !self.open.contains_key(&open) {
            return;
        }
        let is_quick = self.members[by].tick_time == TICK_TIME;
        let is_calm = self.now > self.disturbed_at + SETTLED_WITHIN && self.can_communicate(open.0, by) && is_quick;
        assert!(!is_safe || !is_calm, "member {by} leaves member {} without an answer", open.0);
        self.end(open, Err(FetchError::Silent(ANSWER_TIMEOUT)));
    }

    /// Ends a request of a member if it has not ended yet.
    fn end(&mut self, open: RequestKey, result: Result<FetchResponse, FetchError>) {
        let (index, life, id) = open;
        let now = self.now;
        let member = &mut self.members[index];
        let Some(running) = member.running.as_mut().filter(|_| member.start_count == life) else { return };
        if !self.open.contains_key(&open) {
            return;
        }
        if running.busy_until > now {
            let later = running.busy_until;
            return self.schedule(later, Event::End(open, Box::new(result)));
        }
        let Some(Pending { to, since, is_wasted_time, lie }) = self.open.remove(&open) else { return };
        self.wasted_time += if is_wasted_time { now - since } else { Duration::ZERO };
        if let Some(lie) = lie.filter(|_| result.is_ok()) {
            running.set_now(now);
            let before = running.failures(&lie.key);
            let with_peer = (index, to.clone(), Duration::ZERO)..=(index, to, now);
            if let Some((_, comparison)) = self.comparisons.range_mut(with_peer).next_back() {
                comparison.received_lie = Some((lie, now, before));
            }
        }
        let is_silent = matches!(result, Err(FetchError::Silent(_)));
        log::debug!("{index} receives {result:.80?}");
        running.set_now(now);
        running.node.complete_fetch(id, result);
        self.process_effects(index);
        if is_silent {
            self.disconnect(open);
        }
    }

    /// Disconnects the client of a request.
    fn disconnect(&mut self, (from, life, id): RequestKey) {
        for index in 0..self.members.len() {
            let Some(running) = &mut self.members[index].running else { continue };
            let is_it = |in_flight: &InFlight| {
                (in_flight.from, in_flight.life, in_flight.id) == (Party::Member(from), life, id)
            };
            let found =
                running.answering.iter().find(|(_, in_flight)| is_it(in_flight)).map(|(connection, _)| *connection);
            if let Some(connection) = found {
                running.answering.remove(&connection);
                running.set_now(self.now);
                running.node.disconnect(connection);
                self.process_effects(index);
            }
        }
    }

    /// Performs an act of the plan.
    pub fn act(&mut self, act: &Act) {
        if !matches!(act, Act::Announce(_) | Act::Pay(_) | Act::Push { .. } | Act::Copy(_)) {
            self.disturbed_at = self.now;
        }
        match act {
            Act::Divide(sides) => self.sides.clone_from(sides),
            Act::Lose(lost) => self.lost = *lost,
            Act::LosePushes(member) => self.without_pushes = Some(*member),
            Act::Copy(index) => {
                let member = &mut self.members[*index];
                member.copy =
                    member.running.as_ref().map(|_| self.environment.copy(&member.folder)).or(member.copy.take());
            }
            Act::Start(index) => self.start(*index),
            Act::Stop(index) => self.stop(*index),
            Act::Restart { member, with_all } => self.restart(*member, *with_all),
            Act::SlowCommits(member, takes) => self.members[*member].commit_time = *takes,
            Act::SlowTicks(member, takes) => self.members[*member].tick_time = *takes,
            Act::SetClock(member, by) => self.set_clock(*member, *by),
            Act::Announce(member) => self.announce(*member),
            Act::Pay(member) => self.pay(*member),
            Act::Push { byzantine, fault, to } => self.push(*byzantine, *fault, *to),
        }
    }

    fn set_clock(&mut self, index: usize, by: i64) {
        let member = &mut self.members[index];
        member.clock_offset += by * 1000;
        if let Some(running) = &mut member.running {
            // A clock that is set back has run until now.
            self.set_clocks.push((index, self.now, running.node.time()));
            running.node.shift_clock(by);
            self.set_clocks.push((index, self.now, running.node.time()));
        }
    }

    fn restart(&mut self, index: usize, with_all: bool) {
        let member = &mut self.members[index];
        if member.running.is_some() || member.start_count == 0 {
            return;
        }
        let copy = member.copy.take().filter(|_| !with_all);
        member.folder = self.environment.copy(copy.as_ref().unwrap_or(&member.folder));
        self.start(index);
    }

    /// Builds a transaction from one user to another.
    fn transfer(&mut self) -> Transaction {
        let (time, count) = (self.time(), self.users.len());
        let (from, to) = (self.random.below(count), self.random.below(count));
        // A wallet receives two messages about a transfer to its sender.
        let to = if to == from { (to + 1) % count } else { to };
        let amount = Amount::whole(1 + self.random.below(100) as u64);
        let fee = Amount::whole(1 + self.random.below(3) as u64);
        transfer(&self.users[from], address(&self.users[to]), amount, fee, Timestamp(time.0 - 5))
    }

    /// Sends a user's transaction through a member.
    fn announce(&mut self, index: usize) {
        let transaction = self.transfer();
        self.send_transaction(index, transaction, true);
    }

    /// Sends a transaction of many kinds through a member.
    fn pay(&mut self, index: usize) {
        let (time, member) = (self.time(), &self.members[index]);
        if let Some(running) = &member.running {
            let (transaction, is_sure) = self.payments.make(running.store, time);
            self.send_transaction(index, transaction, is_sure);
        }
    }

    /// Sends a transaction through a member; one that `is_sure`, and is accepted, must be confirmed in the end.
    fn send_transaction(&mut self, index: usize, transaction: Transaction, is_sure: bool) {
        let now = self.now;
        let Some(running) = self.members[index].running.as_mut().filter(|running| running.busy_until <= now) else {
            return;
        };
        running.set_now(now);
        let answer = running.node.post("/transaction/announce", &announcement(&transaction));
        self.watch.send(transaction.clone());
        if is_sure && answer.status == 200 && String::from_utf8_lossy(&answer.body).contains("SUCCESS") {
            self.accepted.push((index, now, transaction));
        }
        self.process_effects(index);
    }

    /// Pushes to a member something useful that an honest node has signed, in that node's name and before the node
    /// itself, so that the member considers the impersonated node alive.
    fn push_relayed(&mut self, byzantine: usize, to: usize) {
        let Some(tip) = self.tip(to) else { return };
        let views = self.members.iter().filter_map(|member| member.running.as_ref()).map(|running| &running.view);
        let mut blocks = views.flat_map(|view| view.chain.windows(2)).filter(|links| links[0].hash == tip);
        let next = blocks.next().map(|links| self.watch.blocks[&links[1].hash].clone());
        let transaction = self.transfer();
        self.watch.send(transaction.clone());
        self.tally.add(Fault::RelayedPush);
        let identity = self.random.below(self.byzantine_peers[byzantine].identities());
        *self.relayed.entry((to, identity)).or_default() += 1;
        let request = relayed(self.byzantine_peers[byzantine].keys(identity), next, transaction);
        self.send_bad_request(byzantine, to, &request);
    }

    /// Pushes something bad from a byzantine peer to a member.
    fn push(&mut self, byzantine: usize, fault: Fault, to: usize) {
        if fault == Fault::RelayedPush {
            return self.push_relayed(byzantine, to);
        }
        assert!(OF_PUSHES.contains(&fault));
        let infos: Vec<_> = self.members.iter().map(|member| member.info.clone()).collect();
        let now = self.time();
        let (Some(best), Some(running)) = (self.best_store(), &self.members[to].running) else { return };
        let mut context = LieContext {
            environment: self.environment,
            store: running.store,
            best,
            members: &infos,
            sent: &self.watch.sent,
            now,
            random: &mut self.random,
        };
        let requests = bad_requests(&self.byzantine_peers[byzantine], fault, &mut context);
        if !requests.is_empty() {
            self.tally.add(fault);
        }
        requests.iter().for_each(|request| self.send_bad_request(byzantine, to, request));
    }

    /// Sends a request of a byzantine peer to a member.
    fn send_bad_request(&mut self, byzantine: usize, to: usize, request: &BadRequest) {
        let (from, to_party) = (Party::Byzantine(byzantine), Party::Member(to));
        if self.are_apart(from, to_party) {
            return;
        }
        let fetch = FetchRequest {
            endpoint: place(self.plan.members[to].ip, 0),
            least_scope: Scope::Global,
            method: Method::Post,
            target: request.path.to_owned(),
            media_type: "application/binary",
            body: request.body.clone().into(),
            body_limit: request.length,
            timeout: ANSWER_TIMEOUT,
            read_timeout: ANSWER_TIMEOUT,
            is_idempotent: false,
        };
        let in_flight = InFlight { from, life: 0, id: FetchId(0), fetch, fault: None };
        let latency = self.latency(from, to_party);
        self.schedule(self.now + latency, Event::Request(Box::new(in_flight), to_party, 0));
    }

    /// Returns the endpoint of a member and those where relays impersonate it.
    pub fn places_of(&self, member: usize) -> Vec<(Endpoint, Party)> {
        let is_it = |(party, identity): &(Party, usize)| match party {
            Party::Member(index) => *index == member,
            Party::Byzantine(byzantine) => self.plan.byzantine_peers[*byzantine].is_relay && *identity == member,
        };
        let places = self.places.iter().filter(|(_, of)| is_it(of));
        places.map(|(place, (party, _))| (place.clone(), *party)).collect()
    }

    /// Iterates over the members that must have the same chain.
    pub fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.members.len()).filter(|index| self.members[*index].running.is_some())
    }

    /// Returns the tips of all running members.
    pub fn tips(&self) -> BTreeSet<[u8; 32]> {
        let running = self.members.iter().filter_map(|member| member.running.as_ref());
        running.map(|running| running.view.tip().hash.0).collect()
    }
}

/// Returns the bytes of a request.
fn request(in_flight: &InFlight) -> Vec<u8> {
    let FetchRequest { endpoint, method, target, media_type, body, body_limit, .. } = &in_flight.fetch;
    // Byzantine peers announce more bytes than they send.
    let length = if matches!(in_flight.from, Party::Byzantine(_)) { *body_limit } else { body.len() };
    let head = request_head(endpoint, *method, target, media_type, length, true);
    let mut bytes = head.expect("a proper request");
    bytes.extend_from_slice(body);
    bytes
}
