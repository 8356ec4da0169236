//! A member: an honest node on its machine, over all its restarts.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use nisd::config::Settings;
use nisd::crypto::KeyPair;
use nisd::model::Address;
use nisd::model::units::EPOCH_UNIX_MILLIS;
use nisd::net::service::ConnectionId;
use nisd::node::ListedPeer;
use nisd::peer::wire::NodeInfo;
use nisd::store::Store;
use serde_json::Value;

use super::environment::{Environment, PORT, START, member_key, member_name, node_info};
use super::invariants::View;
use super::network::InFlight;
use super::plan::{MemberPlan, TICK_TIME};
use super::wallet_audit::{WalletMessage, parse_message, subscriptions};
use crate::common::Random;
use crate::common::simulated_node::{SimulatedNode, WallClock, random_bytes};

/// Rate limit per address and second.
const MAX_REQUESTS_PER_SECOND: usize = 50;

/// An honest node, running or stopped.
pub struct Member<'g> {
    pub plan: &'g MemberPlan,
    pub settings: &'g Settings,
    pub info: NodeInfo,
    pub folder: PathBuf,
    /// A copy of its disk.
    pub copy: Option<PathBuf>,
    /// Its saved peers.
    pub kept: Vec<u8>,
    pub running: Option<Running<'g>>,
    /// How often it was started.
    pub start_count: u32,
    /// Duration of a commit on its disk and of a tick on its machine.
    pub commit_time: Duration,
    pub tick_time: Duration,
    /// Milliseconds by which its clock was set ahead.
    pub clock_offset: i64,
}

/// A running node.
pub struct Running<'g> {
    pub node: SimulatedNode<'g>,
    pub store: &'g Store,
    pub since: Duration,
    /// The saved peers at its start.
    pub kept: Vec<u8>,
    pub busy_until: Duration,
    /// Duration of the last tick.
    pub last_tick_time: Duration,
    /// Time of its next wakeup.
    pub wake_at: Option<Duration>,
    /// Requests of others that it is working on.
    pub answering: BTreeMap<ConnectionId, InFlight>,
    /// Times of the requests of others, latest first.
    request_times: BTreeMap<IpAddr, VecDeque<Duration>>,
    pub view: View,
    /// The websocket of a wallet, and the messages to it.
    wallet: Option<ConnectionId>,
    pub wallet_messages: Vec<WalletMessage>,
}

impl<'g> Member<'g> {
    /// Creates a member that was never started.
    pub fn new(index: usize, plan: &'g MemberPlan, settings: &'g Settings, environment: &Environment) -> Member<'g> {
        let key = KeyPair::new(&member_key(index)).public();
        Member {
            plan,
            settings,
            info: node_info(key, member_name(index), plan.ip, PORT),
            folder: environment.new_folder(),
            copy: None,
            kept: Vec::new(),
            running: None,
            start_count: 0,
            commit_time: Duration::ZERO,
            tick_time: TICK_TIME,
            clock_offset: 0,
        }
    }

    /// Starts it with the content of its folder.
    pub fn start(&mut self, environment: &'g Environment, known: Vec<ListedPeer>, now: Duration, random: &mut Random) {
        self.start_count += 1;
        let store = environment.open(&self.folder);
        let ahead = self.plan.ahead + self.clock_offset + self.drift_at(now);
        let started = EPOCH_UNIX_MILLIS + i64::from(START.0) * 1000 + now.as_millis() as i64 + ahead;
        let clock = WallClock { started, drift: self.plan.drift };
        let seed = random_bytes(random);
        let kept = self.kept.clone();
        let mut node = SimulatedNode::new(store, self.settings, clock, seed, Some(known), kept).expect("a node");
        let listener = node.open();
        node.send_message(listener, "CONNECT\naccept-version:1.2\n\n\0SUBSCRIBE\nid:0\ndestination:/blocks\n\n\0");
        node.recorder.sent.clear();
        self.running = Some(Running {
            view: View::of(store, self.info.identity.key),
            node,
            store,
            since: now,
            kept: self.kept.clone(),
            busy_until: now,
            last_tick_time: Duration::ZERO,
            wake_at: None,
            answering: BTreeMap::new(),
            request_times: BTreeMap::new(),
            wallet: None,
            wallet_messages: Vec::new(),
        });
    }

    /// Returns the accumulated drift of its clock in milliseconds.
    fn drift_at(&self, now: Duration) -> i64 {
        now.as_millis() as i64 * self.plan.drift / 1_000_000
    }
}

impl Running<'_> {
    /// Sets its clocks to the present.
    pub fn set_now(&mut self, now: Duration) {
        self.node.set_running(now - self.since);
    }

    /// Opens a wallet that subscribes to the transactions of some accounts.
    pub fn open_wallet(&mut self, accounts: &[Address], now: Duration) {
        self.set_now(now);
        let wallet = self.node.open();
        self.node.send_message(wallet, &subscriptions(accounts));
        // The answer to CONNECT.
        self.node.recorder.sent.retain(|(socket, _)| *socket != wallet);
        self.wallet = Some(wallet);
    }

    /// Processes the messages to its subscribers.
    pub fn process_messages(&mut self) {
        let time = self.node.time();
        for (socket, message) in self.node.recorder.sent.drain(..) {
            if Some(socket) == self.wallet {
                self.wallet_messages.push(parse_message(&message, time))
            } else {
                self.view.process_message(message)
            }
        }
    }

    /// Gives it a tick unless it is busy.
    pub fn tick(&mut self, now: Duration, takes: Duration) {
        self.set_now(now);
        self.node.tick(self.last_tick_time);
        self.last_tick_time = takes;
        self.busy_until = now + takes;
    }

    /// Makes it wait for its disk.
    pub fn wait_for_disk(&mut self, now: Duration, takes: Duration) {
        self.last_tick_time = takes;
        self.busy_until = now + takes;
    }

    /// Returns whether an address exceeds its rate limit, as the server would count it.
    pub fn is_rate_limited(&mut self, from: IpAddr, now: Duration) -> bool {
        let times = self.request_times.entry(from).or_default();
        times.push_front(now);
        times.truncate(MAX_REQUESTS_PER_SECOND + 1);
        times.get(MAX_REQUESTS_PER_SECOND).is_some_and(|oldest| now - *oldest < Duration::from_secs(1))
    }

    /// Requests JSON from it as a client on its machine.
    pub fn get(&mut self, path: &str) -> Option<Value> {
        let answer = self.node.get(path);
        (answer.status == 200).then(|| serde_json::from_slice(&answer.body).expect("JSON"))
    }

    /// Returns how many failures it records for a node.
    pub fn failures(&mut self, key: &str) -> u64 {
        let Some(answer) = self.get("/node/experiences") else { return 0 };
        let of = answer["data"].as_array().into_iter().flatten();
        let entry = of.into_iter().find(|entry| entry["node"]["identity"]["public-key"] == key);
        entry.and_then(|entry| entry["experience"]["f"].as_u64()).unwrap_or(0)
    }

    /// Returns the keys of the nodes that it does not use because they were unreachable or failed.
    pub fn backed_off(&mut self) -> Vec<String> {
        let Some(answer) = self.get("/node/peer-list/all") else { return Vec::new() };
        let nodes = ["inactive", "failure"].iter().flat_map(|state| answer[*state].as_array().into_iter().flatten());
        nodes.filter_map(|node| node["identity"]["public-key"].as_str()).map(str::to_owned).collect()
    }
}
