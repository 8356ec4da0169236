//! State machine of the peer protocol.
//!
//! It receives the time and the results of requests, and yields [`Action`]s ([`Manager::take_actions`]), and work for the
//! host in its public fields. All requests to peers go through [`requests`], which limits them; each request carries the
//! kind of its answer. A task that waits for answers is a plain value.
//!
//! | module | purpose |
//! |---|---|
//! | [`requests`] | requests in flight and waiting, with limits and rates; check of their answers |
//! | [`joining`] | detects this node's address, joins the network, returns to saved peers after a restart |
//! | [`probes`] | asks peers for their identity and their peers (refresh, gossip) |
//! | [`synchronisation`] | compares the chain with that of one sync peer, downloads a chain that is far ahead, detects splits |
//! | [`relay`] | relays blocks and transactions, sends signs of life and verifies their senders |
//! | [`queries`] | queries heights, clocks and experiences |

pub mod joining;
pub mod probes;
pub mod queries;
pub mod relay;
pub mod requests;
pub mod synchronisation;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use self::joining::{AddressReport, Joining};
use self::probes::{
    MAX_CONCURRENT_PROBES, MAX_GOSSIP_PROBES, MAX_PINGS, Probe, ProbeReason, Refresh, UnidentifiedPeer,
};
use self::queries::{HeightCheck, HeightQuery};
use self::relay::{MAX_BUFFERED, MAX_SIGN_PROBES, RelayBuffer, max_buffered_bytes};
use self::requests::{FanOut, RequestQueue};
use self::synchronisation::Synchronisation;
use super::LimitUsage;
use super::block_download::BlockDownload;
use super::chain_comparison::far_ahead;
use super::io::{Action, FetchedBlocks, LocalChain, Now, RandomSource};
use super::peer_entry::{PeerEntry, State};
use super::peer_table::{self, PeerTable, SILENT_AFTER, TableLimits};
use super::schedule::{Schedule, Task, Timer};
use super::time_sync::{ClockAnswer, MAX_ROUNDS, TimeSync};
use super::trust::{Experience, Experiences, MAX_MEMBERS, Members, Selector, Trust};
use super::wire::{
    Endpoint, ExperienceEntry, ExperiencePair, NodeCollection, NodeExperiences, NodeInfo, NodeList, TransactionList,
};
use crate::codec::{Context, Format};
use crate::crypto::{KeyPair, PublicKey};
use crate::ip::Scope;
use crate::model::network::ChainParameters;
use crate::model::{Address, Checkpoint, Network};
use crate::net::fetch::FetchId;
use crate::net::service::ConnectionId;
use crate::quota::Quota;
use crate::rules::RuleResult;

/// Maximum number of peers that one query or broadcast goes to, whatever the operator's limit.
pub const MAX_FAN_OUT: usize = MAX_MEMBERS;

/// Detection of this node's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpDetection {
    /// Query peers; do not join the network without an answer.
    Required,
    /// Query peers; join without an answer too.
    Optional,
    /// Keep the configured address.
    Disabled,
}

/// Entry of the operator's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedPeer {
    /// Peer with a known key.
    Node(NodeInfo),
    /// Peer with a known endpoint only. The key of its first answer is pinned.
    Endpoint(Endpoint),
}

/// Settings of the peer protocol.
#[derive(Clone, Debug)]
pub struct PeerSettings {
    /// Maximum number of peers in a selection by trust; listed peers are added.
    pub node_limit: usize,
    /// Maximum number of nodes whose clocks are queried at once for the calculation.
    pub time_sync_node_limit: usize,
    /// Connections that the program can have to peers.
    pub connections: usize,
    /// Format of requests and answers.
    pub format: Format,
    /// Whether network time follows the peers' clocks.
    pub uses_network_time: bool,
    /// Detection of this node's address.
    pub ip_detection: IpDetection,
    /// Least scope of the addresses of peers that are not listed.
    pub least_scope: Scope,
    /// Chain parameters, which bound answers.
    pub chain: ChainParameters,
    /// A chain that extends ours by more than this many blocks is downloaded from several peers ([`far_ahead`]); a
    /// shorter one from one peer in several synchronisations.
    ///
    /// [`far_ahead`]: crate::peer::chain_comparison::far_ahead
    pub far_ahead: u64,
    /// Trusted checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// Network context for decoding.
    pub context: Context,
    /// The operator's list, which may contain this node. Entries beyond the limit of the peer table are ignored.
    pub listed: Vec<ListedPeer>,
}

impl PeerSettings {
    /// Returns NIS1's defaults for a network, with the operator's list.
    pub fn of(network: &Network, listed: Vec<ListedPeer>) -> PeerSettings {
        PeerSettings {
            node_limit: 5,
            time_sync_node_limit: 20,
            connections: usize::MAX,
            format: Format::Binary,
            uses_network_time: true,
            ip_detection: IpDetection::Required,
            least_scope: Scope::Global,
            chain: network.chain.clone(),
            far_ahead: far_ahead(&network.chain),
            checkpoint: None,
            context: Context::of(network),
            listed,
        }
    }
}

/// Sender of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pusher {
    /// Key that signed the push.
    pub key: PublicKey,
    /// Address that the push came from.
    pub from: IpAddr,
}

/// Startup phase of the node.
#[derive(Debug)]
enum Phase {
    Joining(Joining),
    Running(Schedule),
}

/// State machine of the peer protocol.
pub struct Manager {
    /// This node's public description, with the detected endpoint.
    pub local: NodeInfo,
    keys: Rc<KeyPair>,
    settings: PeerSettings,
    random: Box<dyn FnMut() -> u64>,
    /// Time of the last event.
    now: Now,
    /// Actions that the host has not taken yet.
    actions: Vec<Action>,
    /// Blocks for the host to validate. [`Manager::on_blocks_validated`] must be called with the result, later and once.
    pub fetched_blocks: Option<FetchedBlocks>,
    /// A peer's unconfirmed transactions and how many of them are taken at most ([`Manager::next_remote_transaction`]).
    pub remote_mempool: Option<(Address, TransactionList, usize)>,
    /// Milliseconds by which the host is to shift network time.
    pub clock_shift: i64,
    /// Clients whose signs of life are being verified, with the answer once it exists: the error is the reason of a failure.
    clients: BTreeMap<ConnectionId, Option<Result<(), String>>>,
    phase: Phase,
    /// Known peers.
    pub table: PeerTable,
    /// Listed peers without a known key.
    pub unidentified: Vec<UnidentifiedPeer>,
    experiences: Experiences,
    /// Trust in peers.
    pub trust: Trust,
    /// Selects peers for queries and broadcasts; rebuilt after each refresh and each trust calculation.
    selector: Selector,
    /// Requests to peers.
    pub requests: RequestQueue,
    refresh: Option<Refresh>,
    /// Peers saved before the restart, latest answer first.
    saved_peers: Vec<Address>,
    /// The time before which no block may be harvested: in the past once a peer known at the start has answered, or if
    /// there was none.
    pub harvesting_blocked_until: Duration,
    /// Start of the synchronisation for which the others wait.
    sync_started_at: Option<Duration>,
    /// Synchronisation whose blocks are being validated.
    validating: Option<Synchronisation>,
    /// Peer whose chain is far ahead and began with valid blocks; it is the next sync peer.
    far_ahead_peer: Option<Address>,
    /// The last sync peer was to be one that is listed or has delivered blocks.
    wants_credible: bool,
    /// Maximum number of transactions to request with the next blocks.
    max_transactions: u32,
    /// Download of a chain that is far ahead, if one is running.
    pub block_download: Option<BlockDownload>,
    /// Number of block downloads started.
    download_count: u64,
    relay_buffer: RelayBuffer,
    /// Requests that signs of life have caused.
    sign_probes: Quota<FetchId>,
    /// Reports of this node's address: those of the queries before joining, and the later ones.
    first_addresses: FanOut<AddressReport>,
    addresses: FanOut<AddressReport>,
    /// Whether a warning has told that they differ.
    has_warned_of_reports: bool,
    times: FanOut<ClockAnswer>,
    /// Peers whose clocks move network time; other queried ones only confirm.
    selected_clocks: BTreeSet<Address>,
    /// Offset of network time.
    pub time_sync: TimeSync,
    /// Whether this node has the height of its network, and which that is.
    pub height_check: HeightCheck,
    height_query: HeightQuery,
    /// Whether a time synchronisation has begun that waits for importances.
    awaits_importances: bool,
}

impl Manager {
    /// Creates a node that starts to join its network. `local` is its public description, `keys` prove it, `random`
    /// returns unpredictable bits. [`Manager::tick`] drives it.
    pub fn new(
        local: NodeInfo,
        keys: Rc<KeyPair>,
        mut settings: PeerSettings,
        random: Box<dyn FnMut() -> u64>,
        now: Now,
    ) -> Manager {
        let address = Address::from_public_key(&local.identity.key, settings.context.network);
        let known = std::mem::take(&mut settings.listed);
        let mut manager = Manager {
            keys,
            random,
            now,
            actions: Vec::new(),
            fetched_blocks: None,
            remote_mempool: None,
            clock_shift: 0,
            clients: BTreeMap::new(),
            phase: Phase::Joining(Joining { retry_at: Some(now.monotonic), failures: 0 }),
            table: PeerTable::new(address, TableLimits::default()),
            unidentified: Vec::new(),
            experiences: Experiences::new(address),
            trust: Trust::default(),
            selector: Selector::default(),
            requests: RequestQueue::new(settings.connections),
            refresh: None,
            saved_peers: Vec::new(),
            harvesting_blocked_until: Duration::ZERO,
            sync_started_at: None,
            validating: None,
            far_ahead_peer: None,
            wants_credible: false,
            max_transactions: settings.chain.max_transactions,
            block_download: None,
            download_count: 0,
            relay_buffer: RelayBuffer::default(),
            sign_probes: Quota::default(),
            first_addresses: FanOut::default(),
            addresses: FanOut::default(),
            has_warned_of_reports: false,
            times: FanOut::default(),
            selected_clocks: BTreeSet::new(),
            time_sync: TimeSync::default(),
            height_check: HeightCheck::default(),
            height_query: HeightQuery::default(),
            awaits_importances: false,
            settings,
            local,
        };
        manager.add_listed_peers(known);
        manager.renew_selector();
        manager
    }

    /// Adds peers of the operator's list. They are contacted at once, which identifies those without a key.
    pub fn add_listed_peers(&mut self, known: Vec<ListedPeer>) {
        if !known.is_empty() && self.refresh.is_none() {
            self.run_soon(Task::Refresh);
        }
        let space = TableLimits::default().nodes.saturating_sub(self.unidentified.len());
        for peer in known.into_iter().take(space) {
            let probe = match peer {
                ListedPeer::Endpoint(endpoint) => {
                    let probe = Probe::new(&endpoint, None, ProbeReason::Selected);
                    self.unidentified.push(UnidentifiedPeer { endpoint, last_failure: None });
                    Some(probe)
                }
                ListedPeer::Node(info) => {
                    let (node, probe) = (self.address_of(&info), Probe::of(&info, ProbeReason::Selected));
                    if let Err(rejected) = self.add_listed_peer(info) {
                        log::warn!("listed peer {node} is not added: {rejected:?}");
                    }
                    self.table.may_be_contacted(&node, self.now.monotonic).then_some(probe)
                }
            };
            if let Some(refresh) = &mut self.refresh {
                refresh.queue.extend(probe);
            }
        }
    }

    /// Returns the actions to carry out, in order. The host calls this after each call that may yield some.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Starts due tasks, and advances the trust calculation by at most `rows` rows (cost:
    /// [`super::trust::Calculation::advance`]).
    pub fn tick(&mut self, now: Now, rows: usize, chain: &dyn LocalChain) {
        self.now = now;
        self.join();
        while let Phase::Running(schedule) = &mut self.phase
            && let Some(task) = schedule.begin(now.monotonic, now.network)
        {
            self.begin(task, chain);
        }
        if self.awaits_importances {
            self.synchronise_time(chain);
        }
        self.calculate_trust(rows);
        self.release_slow_synchronisation();
        self.time_out_heights(chain);
        self.follow_block_download(chain);
        self.send_download_requests();
        self.send_requests();
    }

    /// Returns the time of the next turn since the start of the node; a past time means at once. Events can advance it.
    pub fn next_due(&self) -> Option<Duration> {
        let phase = match &self.phase {
            Phase::Joining(joining) => joining.retry_at,
            Phase::Running(schedule) => schedule.next_due(),
        };
        let trust = self.trust.is_calculating().then_some(Duration::ZERO);
        let download = self.block_download.as_ref().and_then(BlockDownload::next_due);
        let synchronisation = self.synchronisation_due();
        let heights = self.height_query.timeout_at;
        [phase, trust, download, heights, synchronisation, self.requests.next_due()].into_iter().flatten().min()
    }

    fn begin(&mut self, task: Task, chain: &dyn LocalChain) {
        match task {
            // The mempool and the harvester run on their own timers.
            Task::Foraging => self.ping_silent_peers(),
            Task::Broadcast => self.send_signs_of_life(),
            Task::PruningNodes => self.table.prune(self.now.monotonic),
            Task::BroadcastOfBuffer => self.flush_buffer(),
            Task::PruningExperiences => self.experiences.prune(self.now.monotonic),
            // The others end with an answer.
            Task::Refresh => return self.begin_refresh(),
            Task::Synchronisation => return self.synchronise(),
            Task::CheckingHeight => return self.check_height(chain),
            Task::UpdatingExperiences => return self.update_experiences(),
            Task::TimeSynchronisation => return self.awaits_importances = true,
            Task::IpDetection => return self.detect_address(),
        }
        self.end_task(task, true);
    }

    fn end_task(&mut self, task: Task, was_successful: bool) {
        if let Phase::Running(schedule) = &mut self.phase {
            schedule.end(task, was_successful, self.now.monotonic, self.now.network);
        }
    }

    /// Follows a jump of the system's clock by `millis`. The peers are asked for their clocks at once: after a suspend of the
    /// machine they have gone on as well. Returns by how much network time must be shifted.
    #[must_use]
    pub fn clock_jumped(&mut self, millis: i64) -> i64 {
        self.run_soon(Task::TimeSynchronisation);
        self.time_sync.clock_jumped(millis)
    }

    /// Makes a waiting task due now.
    fn run_soon(&mut self, task: Task) {
        if let Phase::Running(schedule) = &mut self.phase {
            schedule.run_now(task, self.now.monotonic);
        }
    }

    /// Advances the trust calculation, or starts one if it is due.
    fn calculate_trust(&mut self, rows: usize) {
        let (table, trust, now) = (&self.table, &mut self.trust, self.now.monotonic);
        if let Some(others) = trust.due_members(table.len(), || table.trust_candidates(), now) {
            let members = Members::choose(others, self.table.local, &table.listed, &trust.values, &mut self.random);
            trust.begin(members, now);
        }
        if trust.is_calculating() && !trust.advance(&self.experiences, rows) {
            self.renew_selector();
        }
    }

    fn renew_selector(&mut self) {
        self.selector = Selector::among_active(&self.trust.values, &self.table);
    }

    /// Selects several peers for a query or a broadcast.
    fn select_peers(&mut self) -> Vec<NodeInfo> {
        let drawn = select(&self.selector, self.settings.node_limit, &mut self.random);
        self.infos(drawn)
    }

    /// Returns the descriptions of peers; skips unknown ones.
    fn infos(&self, nodes: Vec<Address>) -> Vec<NodeInfo> {
        nodes.iter().filter_map(|node| self.info(node)).collect()
    }

    fn info(&self, node: &Address) -> Option<NodeInfo> {
        self.table.get(node).map(|known| known.info.clone())
    }

    fn address_of(&self, node: &NodeInfo) -> Address {
        Address::from_public_key(&node.identity.key, self.settings.context.network)
    }

    /// Returns the least scope of the addresses at which an endpoint may be called. A listed address is called as it is. The
    /// address of a listed name is its owner's choice, so on a public network it must be global.
    fn least_scope(&self, endpoint: &Endpoint) -> Scope {
        let least = self.settings.least_scope;
        let is_called_as_it_is = endpoint.address().is_some() || least < Scope::Global;
        if self.is_listed(endpoint) && is_called_as_it_is { Scope::Loopback } else { least }
    }

    /// Returns whether the operator's list has an endpoint.
    fn is_listed(&self, endpoint: &Endpoint) -> bool {
        let mut listed = self.table.listed.iter().filter_map(|node| self.table.get(node));
        listed.any(|node| node.info.endpoint == *endpoint)
            || self.unidentified.iter().any(|unidentified| unidentified.endpoint == *endpoint)
    }

    /// Returns whether a peer is known at an endpoint.
    fn has_endpoint(&self, node: &Address, endpoint: &Endpoint) -> bool {
        self.table.get(node).is_some_and(|known| known.info.endpoint == *endpoint)
    }

    /// Returns whether another node's report about a peer concerns the known one: listed peers always, others only
    /// if known at the reported endpoint.
    fn is_known_at(&self, node: &NodeInfo) -> bool {
        let known = self.table.get(&self.address_of(node));
        known.is_some_and(|known| known.is_listed || known.info.endpoint == node.endpoint)
    }

    /// Records a valid answer of a peer from an endpoint. A peer that has never introduced itself is probed.
    fn record_valid_answer(&mut self, node: &Address, endpoint: &Endpoint) {
        let Some(known) = self.table.get(node).filter(|_| self.has_endpoint(node, endpoint)) else { return };
        match known.last_contact {
            Some(_) => self.record_alive(node),
            None => self.probe_known(*node, endpoint.clone()),
        }
    }

    /// Records a valid signed message of a peer. The owner of the key is alive, so the peer is active at its known
    /// endpoint; the message does not prove where it is.
    fn record_alive(&mut self, node: &Address) {
        if self.table.record_alive(node, self.now.monotonic) {
            log::info!("{node} is active again: it sent a valid message");
            self.renew_selector();
        }
    }

    /// Records the validation result of a push. It counts only for known peers that are active or busy, and only if the
    /// push came from the peer's known address: pushes are signed, but anyone can replay them later, and the peer would
    /// be trusted or blamed for it; nor does a push from elsewhere show that the peer is at its known endpoint. A
    /// useful push of a listed peer counts wherever it comes from, as such a peer never moves.
    /// Returns whether the push came from the peer's known address.
    pub fn record_push(&mut self, by: &Pusher, result: &RuleResult, now: Now) -> bool {
        self.now = now;
        let node = Address::from_public_key(&by.key, self.settings.context.network);
        // All loopback addresses are this machine; which of them a connection uses is irrelevant.
        let host = |ip: IpAddr| (!ip.to_canonical().is_loopback()).then(|| peer_table::host(ip));
        let Some(known) = self.table.get(&node) else { return false };
        let may_be_elsewhere = known.is_listed && result.is_ok();
        let is_there = known.ip.map(host) == Some(host(by.from));
        if !may_be_elsewhere && !is_there {
            return false;
        }
        if result.is_ok() {
            self.record_alive(&node);
        }
        if self.table.get(&node).is_some_and(|known| matches!(known.state, State::Active | State::Busy)) {
            self.count_experience(node, result);
        }
        is_there
    }

    /// Records the validation result of a pushed block.
    pub fn record_pushed_block(&mut self, by: &Pusher, result: &RuleResult, now: Now) {
        if self.record_push(by, result, now) && result.is_ok() {
            let node = Address::from_public_key(&by.key, self.settings.context.network);
            self.table.record_delivery(&node, now.monotonic);
        }
    }

    fn count_experience(&mut self, node: Address, result: &RuleResult) {
        match result {
            Ok(()) => self.experiences.succeeded(node, self.now.monotonic),
            Err(rejection) if rejection.blames_sender() => self.experiences.failed(node, self.now.monotonic),
            Err(_) => {}
        }
    }

    /// Returns the number of rounds without an answer before joining the network; 0 afterwards.
    pub fn failures_to_join(&self) -> u32 {
        match &self.phase {
            Phase::Running(_) => 0,
            Phase::Joining(joining) => joining.failures,
        }
    }

    /// Returns whether the node has joined its network.
    pub fn is_booted(&self) -> bool {
        matches!(self.phase, Phase::Running(_))
    }

    /// Returns whether any peer is active.
    pub fn has_active_node(&self) -> bool {
        self.table.in_state(State::Active).next().is_some()
    }

    /// Returns the peers to name when asked: freshly selected ones, plus a random choice of other active peers up to
    /// the node limit, at least one. Peers without trust are never selected; if they were never named, two such peers
    /// with outdated endpoints would not find each other again. Linear in the peer table.
    pub fn peers_to_share(&self, random: &mut impl RandomSource) -> NodeList {
        let mut reported = select(&self.selector, self.settings.node_limit, random);
        let is_told = |(_, node): &(&Address, &PeerEntry)| self.told_state(node) == State::Active;
        let mut others: Vec<_> = self.table.iter().filter(is_told).map(|(address, _)| *address).collect();
        others.retain(|node| !reported.contains(node));
        let space = self.settings.node_limit.saturating_sub(reported.len()).max(1);
        random.choose(&mut others, space);
        reported.extend(others);
        NodeList(self.infos(reported))
    }

    /// Returns all active peers.
    pub fn active(&self) -> NodeList {
        NodeList(self.in_state(State::Active))
    }

    /// Returns all peers by state, except those that were not contacted yet.
    pub fn collection(&self) -> NodeCollection {
        NodeCollection {
            active: self.in_state(State::Active),
            busy: self.in_state(State::Busy),
            inactive: self.in_state(State::Inactive),
            failure: self.in_state(State::Failure),
        }
    }

    fn in_state(&self, state: State) -> Vec<NodeInfo> {
        let told = self.table.iter().filter(|(_, node)| self.told_state(node) == state);
        told.map(|(_, node)| node.info.clone()).collect()
    }

    /// Returns the state of a peer that others are told. One that has been silent for long is no longer named as active,
    /// however many have fallen silent with it and wait for their pings.
    fn told_state(&self, node: &PeerEntry) -> State {
        let is_silent = node.last_contact.is_none_or(|last| last + SILENT_AFTER <= self.now.monotonic);
        if is_silent && node.state == State::Active { State::Inactive } else { node.state }
    }

    /// Returns own experiences to send to a peer: at most 100, chosen at random.
    pub fn experiences(&self, random: &mut impl RandomSource) -> NodeExperiences {
        let pair = |(address, experience): (Address, Experience)| {
            Some(ExperiencePair { node: self.info(&address)?, experience })
        };
        let experiences = self.experiences.selection(random).into_iter().filter_map(pair).collect();
        NodeExperiences { node: self.local.clone(), experiences }
    }

    /// Returns own experiences with all known peers, for people.
    pub fn experience_entries(&self) -> Vec<ExperienceEntry> {
        let entry = |(address, node): (&Address, &PeerEntry)| ExperienceEntry {
            node: node.info.clone(),
            experience: self.experience(address),
            syncs: i32::try_from(node.synchronisations).unwrap_or(i32::MAX),
        };
        self.table.iter().map(entry).collect()
    }

    /// Returns the recurring tasks; empty before joining.
    pub fn timers(&self) -> &[Timer] {
        match &self.phase {
            Phase::Running(schedule) => &schedule.timers,
            Phase::Joining(_) => &[],
        }
    }

    /// Returns this node's experience with a peer.
    pub fn experience(&self, node: &Address) -> Experience {
        self.experiences.between(&self.table.local, node)
    }

    /// Answers a client that waits.
    fn answer_client(&mut self, client: ConnectionId, answer: Result<(), String>) {
        if let Some(waiting) = self.clients.get_mut(&client) {
            *waiting = Some(answer);
            self.actions.push(Action::Resume(client));
        }
    }

    /// Returns the answer for a client that waited, once.
    pub fn take_answer(&mut self, client: ConnectionId) -> Option<Result<(), String>> {
        let answer = self.clients.get_mut(&client)?.take()?;
        self.forget_client(client);
        Some(answer)
    }

    /// Forgets a client that no longer waits.
    pub fn forget_client(&mut self, client: ConnectionId) {
        self.clients.remove(&client);
    }

    /// Returns whether there is work for the host: blocks, transactions, or a clock shift.
    pub fn has_work(&self) -> bool {
        self.fetched_blocks.is_some() || self.remote_mempool.is_some() || self.clock_shift != 0
    }

    /// Returns the usage of every collection that others can make grow.
    pub fn usage(&self) -> Vec<LimitUsage> {
        let gossiped = self.refresh.as_ref().map_or(0, |refresh| refresh.gossiped.len());
        let mut usage = self.requests.usage().to_vec();
        usage.extend([
            LimitUsage::new("transactions to relay", self.relay_buffer.hashes.len(), MAX_BUFFERED),
            LimitUsage::new("bytes to relay", self.relay_buffer.bytes, max_buffered_bytes(&self.settings)),
            LimitUsage::new("probes by signs of life", self.sign_probes.len(), MAX_SIGN_PROBES),
            LimitUsage::new("pings", self.requests.pings(), MAX_PINGS),
            LimitUsage::new("probes of a refresh", self.count_probes(Probe::is_of_refresh), MAX_CONCURRENT_PROBES),
            LimitUsage::new("gossiped peers", gossiped, MAX_GOSSIP_PROBES),
            LimitUsage::new("rounds of time synchronisation", self.time_sync.rounds.len(), MAX_ROUNDS),
        ]);
        usage.extend(self.table.usage());
        usage.extend(self.experiences.usage());
        usage
    }
}

/// Selects peers, at most `limit` by trust and [`MAX_FAN_OUT`] in all.
fn select(selector: &Selector, limit: usize, random: &mut impl RandomSource) -> Vec<Address> {
    let mut drawn = selector.several(limit, random);
    if drawn.len() > MAX_FAN_OUT {
        random.choose(&mut drawn, MAX_FAN_OUT);
    }
    drawn
}
