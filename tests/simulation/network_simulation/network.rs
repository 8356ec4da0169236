//! The network: requests between members, their fate, and their durations.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use nisd::config::Settings;
use nisd::crypto::KeyPair;
use nisd::model::{Amount, Hash256, Timestamp, Transaction};
use nisd::net::fetch::{Endpoint, FetchError, FetchId, FetchRequest, FetchResponse, Method, RequestHead, Response};
use nisd::node::PreTrustedPeer;

use super::diary;
use super::fault::{Fault, OF_PUSHES, Tally};
use super::ground::{BYZANTINE_PEERS, Environment, PORT, START, USERS, user_keys};
use super::liar::{ByzantinePeer, LieContext, SYNCHRONISATION};
use super::member::Member;
use super::plan::{Act, ByzantinePlan, Known, Plan, TICK_TIME};
use super::rumours::{BadRequest, bad_requests, relayed};
use super::watch::InvariantChecker;
use crate::common::Random;
use crate::common::private_network::{address, transfer};

/// Timeouts of a connection and of an answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// A message that takes longer is slow.
const SLOW: Duration = Duration::from_secs(1);
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
pub struct Asking {
    from: Party,
    life: u32,
    id: FetchId,
    fetch: FetchRequest,
    /// Whether the answer is lost or the connection breaks before it arrives.
    fate: Fate,
}

/// Fate of a request whose server exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrives,
    Refused,
    ResetBefore,
    ResetAfter,
    LostRequest,
    LostAnswer,
}

/// Key of an unanswered request: requesting member, its life, and the request.
type Open = (usize, u32, FetchId);

enum Event {
    Wake(usize, u32),
    Request(Box<Asking>, Party, usize),
    End(Open, Box<Result<FetchResponse, FetchError>>),
    /// The timeout of a member's answer; the flag tells that the answer cannot have been lost.
    Timeout(Open, usize, bool),
    Act(usize),
    /// A byzantine peer sends signs of life.
    Sign(usize),
    /// A relay sends signs of life to a restarted member in the names of all others; the last field counts them.
    RelayedSigns(usize, usize, u32),
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
    /// Its recorded failures before the comparison.
    failures: u64,
}

/// A chain comparison.
struct Comparison {
    /// The honest node compared with, if it is one.
    partner: Option<ComparedPeer>,
    /// The member's tip at the start.
    tip: Hash256,
    /// The lie that the member has received, and the recorded failures of the byzantine peer before it.
    received_lie: Option<(Lie, u64)>,
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
    open: BTreeMap<Open, Pending>,
    /// The latest chain comparison of each member.
    comparisons: BTreeMap<usize, Comparison>,
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
    /// Time at which the last message between two parties arrives.
    last_arrival: BTreeMap<(Party, Party), Duration>,
    /// Users' transactions with the accepting members, and the stop times of members.
    pub accepted: Vec<(usize, Duration, Transaction)>,
    pub stopped: Vec<(usize, Duration)>,
    /// When the clocks of members were set, and the times they showed before and after.
    pub set_clocks: Vec<(usize, Duration, Timestamp)>,
    users: Vec<KeyPair>,
}

fn place(ip: IpAddr, face: usize) -> Endpoint {
    Endpoint { host: ip.to_string(), port: PORT + face as u16 }
}

/// Returns where everyone is, by endpoint and identity.
fn places(plan: &Plan, liars: &[ByzantinePeer]) -> BTreeMap<Endpoint, (Party, usize)> {
    let members = plan.members.iter().enumerate();
    let members = members.map(|(index, plan)| (place(plan.ip, 0), (Party::Member(index), 0)));
    let faces = liars.iter().zip(&plan.byzantine_peers).enumerate().flat_map(|(number, (liar, plan))| {
        (0..liar.identities()).map(move |face| (place(plan.ip, face), (Party::Byzantine(number), face)))
    });
    members.chain(faces).collect()
}

fn broken() -> FetchError {
    FetchError::Broken(io::ErrorKind::ConnectionReset.into())
}

fn refused() -> FetchError {
    FetchError::Unreachable(io::ErrorKind::ConnectionRefused.into())
}

impl<'g> Network<'g> {
    /// Creates the network of a plan with all members stopped.
    pub fn new(plan: &'g Plan, ground: &'g Environment, settings: &'g [Settings]) -> Network<'g> {
        let members = plan.members.iter().zip(settings).enumerate();
        let members: Vec<_> =
            members.map(|(index, (plan, settings))| Member::new(index, plan, settings, ground)).collect();
        assert!(plan.byzantine_peers.iter().filter(|liar| !liar.is_relay).count() as u64 <= BYZANTINE_PEERS);
        let faces = |liar: &ByzantinePlan| match liar.is_relay {
            true => plan.members.len(),
            false if liar.habits.contains(&Fault::ManyFaces) => IDENTITIES,
            false => 1,
        };
        let liars = plan.byzantine_peers.iter().enumerate();
        let liars: Vec<_> = liars.map(|(number, plan)| ByzantinePeer::new(number, plan.clone(), faces(plan))).collect();
        let places = places(plan, &liars);
        let harvesters = members.iter().map(|member: &Member<'_>| member.info.identity.key).collect();
        let mut network = Network {
            environment: ground,
            plan,
            now: Duration::ZERO,
            members,
            watch: InvariantChecker::new(harvesters),
            tally: Tally::default(),
            byzantine_peers: liars,
            places,
            random: Random(plan.seed ^ 0x0077_6561_7468_6572),
            queue: BTreeMap::new(),
            event_count: 0,
            open: BTreeMap::new(),
            comparisons: BTreeMap::new(),
            wasted_time: Duration::ZERO,
            disturbed_at: Duration::ZERO,
            relayed: BTreeMap::new(),
            pushed_blocks: 0,
            sides: vec![0; plan.members.len() + plan.byzantine_peers.len()],
            lost: 0,
            last_arrival: BTreeMap::new(),
            accepted: Vec::new(),
            stopped: Vec::new(),
            set_clocks: Vec::new(),
            users: (0..USERS).map(user_keys).collect(),
        };
        plan.faults.iter().for_each(|fault| network.tally.add(*fault));
        for (act, (at, _)) in plan.acts.iter().enumerate() {
            network.schedule(*at, Event::Act(act));
        }
        for liar in (0..network.byzantine_peers.len()).filter(|liar| !plan.byzantine_peers[*liar].is_relay) {
            network.schedule(FIRST_SIGN, Event::Sign(liar));
        }
        network
    }

    /// Returns the network time of a correct clock.
    pub fn time(&self) -> Timestamp {
        Timestamp(START.0 + self.now.as_secs() as i32)
    }

    fn schedule(&mut self, at: Duration, happening: Event) {
        self.event_count += 1;
        self.queue.insert((at.max(self.now), self.event_count), happening);
    }

    /// Advances time.
    pub fn run_until(&mut self, end: Duration) {
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), happening) = entry.remove_entry();
            self.now = at;
            self.handle_event(happening);
        }
        self.now = end;
    }

    fn handle_event(&mut self, happening: Event) {
        if let Event::Wake(member, _) | Event::Request(_, Party::Member(member), _) | Event::End((member, ..), _) =
            &happening
        {
            diary::set_current(self.now, *member);
        }
        match happening {
            Event::Wake(member, life) => self.wake(member, life),
            Event::Request(asking, Party::Member(member), _) => self.arrive(asking, member),
            Event::Request(asking, Party::Byzantine(liar), face) => self.deliver_to_byzantine(*asking, liar, face),
            Event::End(open, result) => self.end(open, *result),
            Event::Timeout(open, by, is_safe) => self.time_out(open, by, is_safe),
            Event::Act(act) => {
                let plan = self.plan;
                log::info!("{:?}", plan.acts[act].1);
                self.act(&plan.acts[act].1);
            }
            Event::Sign(liar) => {
                let sign = BadRequest::sign_of_life(&self.byzantine_peers[liar].info(0));
                (0..self.members.len()).for_each(|member| self.send_bad_request(liar, member, &sign));
                self.schedule(self.now + SIGN_INTERVAL, Event::Sign(liar));
            }
            Event::RelayedSigns(liar, member, life) => self.send_relayed_signs(liar, member, life),
        }
    }

    /// Starts a member with the content of its folder.
    pub fn start(&mut self, index: usize) {
        if self.members[index].running.is_some() {
            return;
        }
        let known = self.plan.members[index].known.iter().map(|known| match known {
            Known::ByKey(other) => PreTrustedPeer::Node(self.members[*other].info.clone()),
            Known::ByEndpoint(other) => PreTrustedPeer::Endpoint(self.members[*other].info.endpoint.clone()),
            Known::Byzantine(liar) => PreTrustedPeer::Node(self.byzantine_peers[*liar].info(0)),
        });
        let known = known.collect();
        let (ground, now) = (self.environment, self.now);
        self.members[index].start(ground, known, now, &mut self.random);
        self.schedule(self.now, Event::Wake(index, self.members[index].start_count));
        self.members[index].running.iter_mut().for_each(|running| running.wake_at = Some(now));
        let life = self.members[index].start_count;
        for liar in (0..self.byzantine_peers.len()).filter(|liar| self.plan.byzantine_peers[*liar].is_relay) {
            self.schedule(now, Event::RelayedSigns(liar, index, life));
        }
    }

    fn send_relayed_signs(&mut self, liar: usize, to: usize, life: u32) {
        let member = &self.members[to];
        let Some(running) = member.running.as_ref().filter(|_| member.start_count == life) else { return };
        if self.byzantine_peers[liar].is_gone(self.now) {
            return;
        }
        let is_young = self.now < running.since + RELAYED_SIGNS * RELAYED_AT_START;
        for face in (0..self.members.len()).filter(|face| *face != to) {
            self.tally.add(Fault::RelayedSign);
            let sign = BadRequest::sign_of_life(&self.byzantine_peers[liar].info(face));
            self.send_bad_request(liar, to, &sign);
        }
        let pause = if is_young { RELAYED_SIGNS } else { RELAYED_LATER };
        self.schedule(self.now + pause, Event::RelayedSigns(liar, to, life));
    }

    pub fn stop(&mut self, index: usize) {
        let Some(running) = self.members[index].running.take() else { return };
        self.stopped.push((index, self.now));
        for asking in running.answering.into_values() {
            self.answer(&asking, Party::Member(index), Duration::ZERO, Err(broken()));
        }
        self.open.retain(|(from, ..), _| *from != index);
        // It is unknown whether it would have penalized anyone.
        self.comparisons.remove(&index);
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
        running.view.process_messages(running.node.recorder.sent.drain(..));
        if let Some(kept) = running.node.peers_to_keep(false) {
            member.kept = kept;
        }
        let asked: Vec<_> =
            running.node.recorder.outgoing_requests.iter_mut().flat_map(|asked| asked.drain(..)).collect();
        for given_up in running.node.recorder.cancelled.drain(..) {
            self.open.remove(&(index, member.start_count, given_up));
        }
        let waiting: Vec<_> = running.answering.keys().copied().collect();
        let mut answered = Vec::new();
        for connection in waiting {
            if let Some(answer) = running.node.take_answer(connection) {
                answered.extend(running.answering.remove(&connection).map(|asking| (asking, answer)));
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
        for (asking, answer) in answered {
            let result = Ok((answer.status, answer.body));
            self.answer(&asking, Party::Member(index), Duration::ZERO, result);
        }
        for (id, fetch) in asked {
            self.send_request(index, id, fetch);
        }
    }

    /// Draws the duration of a message.
    fn latency(&mut self, from: Party, to: Party) -> Duration {
        let (least, more) = self.plan.latency;
        let spike = if self.random.below(200) == 0 { self.random.below(3_000) as u64 } else { 0 };
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

    fn side(&self, party: Party) -> u8 {
        self.sides[match party {
            Party::Member(index) => index,
            Party::Byzantine(liar) => self.members.len() + liar,
        }]
    }

    fn are_apart(&self, one: Party, other: Party) -> bool {
        let is_relay = |party| matches!(party, Party::Byzantine(liar) if self.plan.byzantine_peers[liar].is_relay);
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
        let is_lost_time =
            matches!(place, Some((Party::Byzantine(_), _))) && SYNCHRONISATION[..5].contains(&&*request.target);
        let pending =
            Pending { to: request.endpoint.clone(), since: self.now, is_wasted_time: is_lost_time, lie: None };
        self.open.insert(open, pending);
        self.check_requests(from, &request.endpoint);
        let asker = Party::Member(from);
        let Some((to, face)) = place else {
            return self.schedule(self.now + CONNECT_TIMEOUT, Event::End(open, Box::new(Err(refused()))));
        };
        log::debug!("{from} asks {to:?} {}", request.target);
        self.pushed_blocks += u64::from(request.target == "/push/block");
        let latency = self.latency(asker, to);
        if self.are_apart(asker, to) {
            self.tally.add(Fault::NoRoute);
            let error = FetchError::Unreachable(io::ErrorKind::TimedOut.into());
            return self.schedule(self.now + CONNECT_TIMEOUT, Event::End(open, Box::new(Err(error))));
        }
        let fate = self.fate();
        match fate {
            Fate::Refused => self.schedule(self.now + latency, Event::End(open, Box::new(Err(refused())))),
            Fate::ResetBefore => self.schedule(self.now + latency, Event::End(open, Box::new(Err(broken())))),
            Fate::LostRequest => {
                self.schedule(
                    self.now + ANSWER_TIMEOUT,
                    Event::End(open, Box::new(Err(FetchError::Silent(ANSWER_TIMEOUT)))),
                );
            }
            Fate::Arrives | Fate::ResetAfter | Fate::LostAnswer => {
                let asking = Box::new(Asking { from: asker, life, id, fetch: request, fate });
                if let Party::Member(to) = to {
                    let is_safe = fate == Fate::Arrives;
                    self.schedule(self.now + latency + ANSWER_TIMEOUT, Event::Timeout(open, to, is_safe));
                }
                self.schedule(self.now + latency, Event::Request(asking, to, face));
            }
        }
    }

    /// Checks that a node keeps its limits on requests to others.
    fn check_requests(&self, from: usize, to: &Endpoint) {
        let own = |(index, ..): &Open| *index == from;
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

    fn fate(&mut self) -> Fate {
        if self.random.below(1_000) >= self.lost {
            return Fate::Arrives;
        }
        let (fate, fault) = [
            (Fate::Refused, Fault::Refused),
            (Fate::ResetBefore, Fault::ResetBefore),
            (Fate::ResetAfter, Fault::ResetAfter),
            (Fate::LostRequest, Fault::LostRequest),
            (Fate::LostAnswer, Fault::LostAnswer),
        ][self.random.below(5)];
        self.tally.add(fault);
        fate
    }

    /// Delivers a request to a member.
    fn arrive(&mut self, asking: Box<Asking>, to: usize) {
        let now = self.now;
        let from = match asking.from {
            Party::Member(index) => self.plan.members[index].ip,
            Party::Byzantine(liar) => self.plan.byzantine_peers[liar].ip,
        };
        let Some(running) = &mut self.members[to].running else {
            return self.answer(&asking, Party::Member(to), Duration::ZERO, Err(refused()));
        };
        if running.busy_until > now {
            let later = running.busy_until;
            return self.schedule(later, Event::Request(asking, Party::Member(to), 0));
        }
        running.set_now(now);
        let is_refused = running.is_rate_limited(from, now);
        let bytes = request(&asking);
        match running.node.submit(from, &bytes, is_refused) {
            Ok(connection) => drop(running.answering.insert(connection, *asking)),
            Err(status) => self.answer(&asking, Party::Member(to), Duration::ZERO, Ok((status, Vec::new()))),
        }
        self.process_effects(to);
    }

    /// Delivers a member's request to a byzantine peer.
    fn deliver_to_byzantine(&mut self, asking: Asking, liar: usize, face: usize) {
        let Party::Member(asker) = asking.from else { return };
        let infos: Vec<_> = self.members.iter().map(|member| member.info.clone()).collect();
        let time = self.time();
        let has_nobody = self.byzantine_peers[liar].is_relay() && self.members[face].running.is_none();
        if has_nobody || self.byzantine_peers[liar].is_gone(self.now) {
            return self.answer(&asking, Party::Byzantine(liar), Duration::ZERO, Err(refused()));
        }
        let Some(running) = &mut self.members[asker].running else { return };
        let mut scene = LieContext {
            environment: self.environment,
            store: running.store,
            members: &infos,
            sent: &self.watch.sent,
            now: time,
            random: &mut self.random,
        };
        let told = self.byzantine_peers[liar].answer(asker, face, &asking.fetch, &mut scene);
        if let Some(fault) = told.fault {
            self.tally.add(fault);
            let key = self.byzantine_peers[liar].keys(face).public().to_string();
            let pending = self.open.get_mut(&(asker, asking.life, asking.id)).filter(|_| fault.is_penalized());
            pending.into_iter().for_each(|pending| pending.lie = Some(Lie { fault, key: key.clone() }));
        }
        self.answer(&asking, Party::Byzantine(liar), told.after, told.result);
    }

    /// Sends an answer back.
    fn answer(&mut self, asking: &Asking, by: Party, after: Duration, result: Result<(u16, Vec<u8>), FetchError>) {
        let Party::Member(from) = asking.from else { return };
        let open = (from, asking.life, asking.id);
        if asking.fate == Fate::LostAnswer || self.are_apart(asking.from, by) {
            // Nothing more arrives; the timeout of a member's answer is scheduled elsewhere.
            if matches!(by, Party::Byzantine(_)) {
                let silent = Box::new(Err(FetchError::Silent(ANSWER_TIMEOUT)));
                self.schedule(self.now + ANSWER_TIMEOUT, Event::End(open, silent));
            }
            return;
        }
        let latency = self.latency(by, asking.from);
        let ip = match by {
            Party::Member(index) => self.plan.members[index].ip,
            Party::Byzantine(liar) => self.plan.byzantine_peers[liar].ip,
        };
        let is_honest = matches!(by, Party::Member(_));
        let result = match result {
            _ if asking.fate == Fate::ResetAfter => Err(broken()),
            Ok((status, body)) => {
                let path = &asking.fetch.target;
                assert!(!is_honest || ![413, 429].contains(&status), "honest nodes ask too much: {path} {status}");
                let is_too_large = body.len() > asking.fetch.body_limit;
                assert!(!is_honest || !is_too_large, "the answer to {path} is larger than it may be");
                match is_too_large {
                    true => Err(FetchError::TooLarge),
                    false => Ok(FetchResponse { from: ip, response: Response { status, body } }),
                }
            }
            Err(error) => Err(error),
        };
        self.schedule(self.now + after + latency, Event::End(open, Box::new(result)));
    }

    /// Starts a member's chain comparison, which settles the previous one. A lie must be penalized unless the member's
    /// chain has changed meanwhile, so that it discarded the answers about the old one. An honest node must not be
    /// penalized unless it moved to another chain during the comparison.
    fn start_comparison(&mut self, index: usize, with: &Endpoint) {
        let place = self.places.get(with).copied();
        let partner = place.and_then(|(party, _)| if let Party::Member(other) = party { Some(other) } else { None });
        let partner = partner.map(|other| {
            let key = self.members[other].info.identity.key.to_string();
            ComparedPeer { index: other, tip: self.tip(other), failures: self.failures(index, &key) }
        });
        let Some(tip) = self.tip(index) else { return };
        let Some(before) = self.comparisons.insert(index, Comparison { partner, tip, received_lie: None }) else {
            return;
        };
        if let Some((lie, failures)) = before.received_lie {
            let is_blamed = self.failures(index, &lie.key) > failures;
            assert!(is_blamed || before.tip != tip, "member {index} does not blame {:?}", lie.fault);
            self.tally.count_received(lie.fault, is_blamed);
        }
        // A member with a wrong clock offers blocks of the future, and a chain that forks too deep is useless, so both
        // may be penalized.
        let is_blameless = self.plan.fork.is_none() && !self.plan.faults.contains(&Fault::ClockJump);
        if let Some(ComparedPeer { index: other, tip, failures }) = before.partner
            && is_blameless
            && self.tip(other) == tip
        {
            let key = self.members[other].info.identity.key.to_string();
            let is_blamed = self.failures(index, &key) > failures;
            assert!(!is_blamed, "member {index} blames member {other}");
        }
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
    fn time_out(&mut self, open: Open, by: usize, is_safe: bool) {
        if !self.open.contains_key(&open) {
            return;
        }
        let is_quick = self.members[by].tick_time == TICK_TIME;
        let is_calm = self.now > self.disturbed_at + SETTLED_WITHIN && self.can_communicate(open.0, by) && is_quick;
        assert!(!is_safe || !is_calm, "member {by} leaves member {} without an answer", open.0);
        self.end(open, Err(FetchError::Silent(ANSWER_TIMEOUT)));
    }

    /// Ends a request of a member if it has not ended yet.
    fn end(&mut self, open: Open, result: Result<FetchResponse, FetchError>) {
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
        let Some(Pending { since, is_wasted_time: is_lost_time, lie, .. }) = self.open.remove(&open) else { return };
        self.wasted_time += if is_lost_time { now - since } else { Duration::ZERO };
        if let Some(lie) = lie.filter(|_| result.is_ok()) {
            running.set_now(now);
            let before = running.failures(&lie.key);
            if let Some(comparison) = self.comparisons.get_mut(&index) {
                comparison.received_lie = Some((lie, before));
            }
        }
        let is_silent = matches!(result, Err(FetchError::Silent(_)));
        log::debug!("{index} hears {result:.80?}");
        running.set_now(now);
        running.node.complete_fetch(id, result);
        self.process_effects(index);
        if is_silent {
            self.disconnect(open);
        }
    }

    /// Disconnects the client of a request.
    fn disconnect(&mut self, (from, life, id): Open) {
        for index in 0..self.members.len() {
            let Some(running) = &mut self.members[index].running else { continue };
            let is_it = |asking: &Asking| (asking.from, asking.life, asking.id) == (Party::Member(from), life, id);
            let found = running.answering.iter().find(|(_, asking)| is_it(asking)).map(|(connection, _)| *connection);
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
        if !matches!(act, Act::Announce(_) | Act::Push { .. } | Act::Copy(_)) {
            self.disturbed_at = self.now;
        }
        match act {
            Act::Divide(sides) => self.sides.clone_from(sides),
            Act::Lose(lost) => self.lost = *lost,
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
            Act::Push { liar, fault, to } => self.push(*liar, *fault, *to),
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
        let amount = Amount::whole(1 + self.random.below(100) as u64);
        let fee = Amount::whole(1 + self.random.below(3) as u64);
        transfer(&self.users[from], address(&self.users[to]), amount, fee, Timestamp(time.0 - 5))
    }

    /// Sends a user's transaction through a member.
    fn announce(&mut self, index: usize) {
        let (now, transaction) = (self.now, self.transfer());
        let Some(running) = self.members[index].running.as_mut().filter(|running| running.busy_until <= now) else {
            return;
        };
        let signature = hex::encode(transaction.signature.expect("a signature").0);
        let json =
            format!("{{\"data\":\"{}\",\"signature\":\"{signature}\"}}", hex::encode(transaction.signed_bytes()));
        running.set_now(now);
        let answer = running.node.post("/transaction/announce", &json);
        self.watch.send(transaction.clone());
        if answer.status == 200 && String::from_utf8_lossy(&answer.body).contains("SUCCESS") {
            self.accepted.push((index, now, transaction));
        }
        self.process_effects(index);
    }

    /// Pushes to a member something useful that an honest node has signed, in that node's name and before the node
    /// itself, so that the member considers the impersonated node alive.
    fn push_relayed(&mut self, liar: usize, to: usize) {
        let Some(tip) = self.tip(to) else { return };
        let views = self.members.iter().filter_map(|member| member.running.as_ref()).map(|running| &running.view);
        let mut blocks = views.flat_map(|view| view.chain.windows(2)).filter(|links| links[0].hash == tip);
        let next = blocks.next().map(|links| self.watch.blocks[&links[1].hash].clone());
        let transaction = self.transfer();
        self.watch.send(transaction.clone());
        self.tally.add(Fault::RelayedPush);
        let face = self.random.below(self.byzantine_peers[liar].identities());
        *self.relayed.entry((to, face)).or_default() += 1;
        let rumour = relayed(self.byzantine_peers[liar].keys(face), next, transaction);
        self.send_bad_request(liar, to, &rumour);
    }

    /// Pushes something bad from a byzantine peer to a member.
    fn push(&mut self, liar: usize, fault: Fault, to: usize) {
        if fault == Fault::RelayedPush {
            return self.push_relayed(liar, to);
        }
        assert!(OF_PUSHES.contains(&fault));
        let infos: Vec<_> = self.members.iter().map(|member| member.info.clone()).collect();
        let now = self.time();
        let Some(running) = &self.members[to].running else { return };
        let mut scene = LieContext {
            environment: self.environment,
            store: running.store,
            members: &infos,
            sent: &self.watch.sent,
            now,
            random: &mut self.random,
        };
        let rumours = bad_requests(&self.byzantine_peers[liar], fault, &mut scene);
        if !rumours.is_empty() {
            self.tally.add(fault);
        }
        rumours.iter().for_each(|rumour| self.send_bad_request(liar, to, rumour));
    }

    /// Sends a request of a byzantine peer to a member.
    fn send_bad_request(&mut self, liar: usize, to: usize, rumour: &BadRequest) {
        let (from, to_party) = (Party::Byzantine(liar), Party::Member(to));
        if self.are_apart(from, to_party) {
            return;
        }
        let fetch = FetchRequest {
            endpoint: place(self.plan.members[to].ip, 0),
            method: Method::Post,
            target: rumour.path.to_owned(),
            media_type: "application/binary",
            body: rumour.body.clone().into(),
            body_limit: rumour.length,
            timeout: ANSWER_TIMEOUT,
            read_timeout: ANSWER_TIMEOUT,
            is_idempotent: false,
        };
        let asking = Asking { from, life: 0, id: FetchId(0), fetch, fate: Fate::Arrives };
        let latency = self.latency(from, to_party);
        self.schedule(self.now + latency, Event::Request(Box::new(asking), to_party, 0));
    }

    /// Returns the endpoint of a member and those where relays impersonate it.
    pub fn places_of(&self, member: usize) -> Vec<(Endpoint, Party)> {
        let is_it = |(party, face): &(Party, usize)| match party {
            Party::Member(index) => *index == member,
            Party::Byzantine(liar) => self.plan.byzantine_peers[*liar].is_relay && *face == member,
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
fn request(asking: &Asking) -> Vec<u8> {
    let FetchRequest { endpoint, method, target, media_type, body, body_limit, .. } = &asking.fetch;
    // Byzantine peers announce more bytes than they send.
    let length = if matches!(asking.from, Party::Byzantine(_)) { *body_limit } else { body.len() };
    let head = RequestHead { endpoint, method: *method, target, media_type, keep_alive: true };
    let mut bytes = head.to_bytes(length).expect("a proper request");
    bytes.extend_from_slice(body);
    bytes
}
