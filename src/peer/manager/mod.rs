//! State machine of the peer protocol.
//!
//! It receives the time and the results of requests, and yields [`Action`]s ([`Manager::take_actions`]). All requests to
//! peers go through [`requests`], which limits them; each request carries the kind of its answer. A task that waits for
//! answers is a plain value.
//!
//! | module | purpose |
//! |---|---|
//! | [`requests`] | request queue: requests in flight and waiting, with limits and rates |
//! | [`joining`] | detects this node's address, joins the network, returns to saved peers after a restart |
//! | [`probes`] | asks peers for their identity and their peers (refresh, gossip) |
//! | [`signs_of_life`] | verifies senders of sign-of-life messages |
//! | [`synchronisation`] | compares the chain with that of one sync peer, and downloads a chain that is far ahead |
//! | [`splits`] | detects chains that forked further back than the rewrite limit |
//! | [`relay`] | relays blocks and transactions, sends signs of life |
//! | [`queries`] | queries heights, clocks and experiences |

pub mod joining;
pub mod probes;
pub mod queries;
pub mod relay;
pub mod requests;
pub mod signs_of_life;
pub mod splits;
pub mod synchronisation;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use self::joining::{Joining, Reconnect};
use self::probes::{MAX_CONCURRENT_PROBES, MAX_GOSSIP_PROBES, Probe, ProbeReason, Refresh, Unpinned};
use self::queries::{FanOut, HeightCheck, MaxHeightQuery};
use self::relay::{MAX_BUFFERED, RelayBuffer, max_buffered_bytes};
use self::requests::{
    AuditEntry, Completed, MAX_BYTES, MAX_IN_FLIGHT, MAX_LATEST_CALLS, MAX_TARGETS, MAX_WAITING, Proof, Request,
    RequestKind, RequestQueue,
};
use self::signs_of_life::{MAX_SIGN_PROBES, MAX_VERIFICATIONS};
use self::splits::ChainSplits;
use self::synchronisation::Synchronisation;
use super::LimitUsage;
use super::block_download::BlockDownload;
use super::experiences::{Experience, Experiences};
use super::io::{Action, CallId, LocalChain, Now, RandomSource, Reply, ValidationOutcome};
use super::peer_table::{self, Limits, PeerEntry, PeerError, PeerTable, State, sanitize};
use super::schedule::{Schedule, Task, Timer};
use super::time_sync::{ClockAnswer, MAX_ROUNDS, TimeSync};
use super::trust::{MAX_MEMBERS, Members, Selector, Trust, TrustValues};
use super::wire::{
    AnswerContext, CHALLENGE_BYTES, Challenge, EncodedRequest, Endpoint, ExperienceEntry, ExperiencePair,
    NodeCollection, NodeExperiences, NodeInfo, NodeList, Query,
};
use crate::codec::{Context, Format, Readable};
use crate::crypto::{KeyPair, PublicKey};
use crate::model::network::ChainParameters;
use crate::model::{Address, Checkpoint, Height};

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
pub enum PreTrustedPeer {
    /// Peer with a known key.
    Node(NodeInfo),
    /// Peer with a known endpoint only. The key of its first answer is pinned.
    Endpoint(Endpoint),
}

/// Settings of the peer protocol.
#[derive(Clone, Debug)]
pub struct PeerSettings {
    /// Maximum number of peers in a selection by trust; pre-trusted peers are added.
    pub node_limit: usize,
    /// Maximum number of nodes whose clocks are queried at once for the calculation.
    pub time_sync_node_limit: usize,
    /// Format of requests and answers.
    pub format: Format,
    /// Whether network time follows the peers' clocks.
    pub uses_network_time: bool,
    /// Detection of this node's address.
    pub ip_detection: IpDetection,
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
    pub pre_trusted: Vec<PreTrustedPeer>,
}

/// Data about a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// What the peer reports about itself.
    pub info: NodeInfo,
    /// Last reported chain height.
    pub height: Option<Height>,
    /// Last reported chain score.
    pub score: Option<i128>,
}

/// Whether the node has joined its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// Joined.
    Yes,
    /// Not joined: no peer has reported this node's address.
    NotYet {
        /// Number of rounds without an answer.
        failures: u32,
    },
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
    local: NodeInfo,
    address: Address,
    keys: Rc<KeyPair>,
    settings: PeerSettings,
    random: Box<dyn FnMut() -> u64>,
    /// Time of the last event.
    now: Now,
    /// Actions that the host has not taken yet.
    actions: Vec<Action>,
    phase: Phase,
    table: PeerTable<PeerInfo>,
    unpinned: Vec<Unpinned>,
    experiences: Experiences,
    trust: Trust,
    /// Selects peers for queries and broadcasts; rebuilt after each refresh and each trust calculation.
    selector: Selector,
    requests: RequestQueue,
    refresh: Option<Refresh>,
    reconnect: Reconnect,
    splits: ChainSplits,
    /// Synchronisation whose blocks are being validated.
    validating: Option<Synchronisation>,
    /// Maximum number of transactions to request with the next blocks.
    max_transactions: u32,
    block_download: Option<BlockDownload>,
    /// Number of block downloads started.
    download_count: u64,
    relay_buffer: RelayBuffer,
    signs_of_life: FanOut<()>,
    addresses: FanOut<String>,
    heights: FanOut<Height>,
    times: FanOut<ClockAnswer>,
    /// Peers whose clocks move network time; other queried ones only confirm.
    selected_clocks: BTreeSet<Address>,
    max_height_query: Option<MaxHeightQuery>,
    time_sync: TimeSync,
    height_check: HeightCheck,
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
        let known = std::mem::take(&mut settings.pre_trusted);
        let mut manager = Manager {
            address,
            keys,
            random,
            now,
            actions: Vec::new(),
            phase: Phase::Joining(Joining::new(now.monotonic)),
            table: PeerTable::new(address, Limits::default()),
            unpinned: Vec::new(),
            experiences: Experiences::new(address),
            trust: Trust::default(),
            selector: Selector::default(),
            requests: RequestQueue::default(),
            refresh: None,
            reconnect: Reconnect::default(),
            splits: ChainSplits::default(),
            validating: None,
            max_transactions: settings.chain.max_transactions,
            block_download: None,
            download_count: 0,
            relay_buffer: RelayBuffer::default(),
            signs_of_life: FanOut::default(),
            addresses: FanOut::default(),
            heights: FanOut::default(),
            times: FanOut::default(),
            selected_clocks: BTreeSet::new(),
            max_height_query: None,
            time_sync: TimeSync::default(),
            height_check: HeightCheck::default(),
            settings,
            local,
        };
        manager.add_pre_trusted_peers(known);
        manager.renew_selector();
        manager
    }

    /// Adds peers of the operator's list. One without a key is identified at the first contact.
    pub fn add_pre_trusted_peers(&mut self, known: Vec<PreTrustedPeer>) {
        let room = Limits::default().nodes.saturating_sub(self.unpinned.len());
        for peer in known.into_iter().take(room) {
            match peer {
                PreTrustedPeer::Endpoint(endpoint) => self.unpinned.push(Unpinned::new(endpoint)),
                PreTrustedPeer::Node(info) => {
                    let node = self.address_of(&info);
                    if let Err(refused) = self.add_pre_trusted_peer(info) {
                        log::warn!("listed peer {node} is not added: {refused:?}");
                    }
                }
            }
        }
    }

    /// Returns the actions to carry out, in order. The host calls this after each call that may yield some.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Starts due tasks, and advances the trust calculation by at most `rows` rows (cost:
    /// [`super::trust::Calculation::advance`]).
    pub fn tick(&mut self, now: Now, rows: usize, chain: &impl LocalChain) {
        self.now = now;
        self.join();
        while let Phase::Running(schedule) = &mut self.phase
            && let Some(task) = schedule.begin(now.monotonic, now.network)
        {
            self.begin(task, chain);
        }
        self.calculate_trust(rows);
        self.time_out_max_height_query();
        self.send_download_requests();
        self.send_requests();
    }

    /// Returns the time of the next turn since the start of the node; a past time means at once. Events can advance it.
    pub fn next_due(&self) -> Option<Duration> {
        let phase = match &self.phase {
            Phase::Joining(joining) => joining.retry_at(),
            Phase::Running(schedule) => schedule.next_due(),
        };
        let trust = self.trust.is_calculating().then_some(Duration::ZERO);
        let download = self.block_download.as_ref().and_then(BlockDownload::next_due);
        let query = self.max_height_query.as_ref().and_then(MaxHeightQuery::timeout_at);
        [phase, trust, download, query, self.requests.next_due()].into_iter().flatten().min()
    }

    /// Processes the result of a request.
    pub fn on_reply(&mut self, call: CallId, reply: Reply, now: Now, chain: &impl LocalChain) {
        self.now = now;
        let Some((kind, completed)) = self.requests.complete(call, reply, now.monotonic) else { return };
        match kind {
            RequestKind::Probe(probe) => self.on_probe_reply(*probe, completed),
            RequestKind::Verification(..) => self.on_verification_reply(call, completed),
            RequestKind::SignOfLife => self.on_sign_of_life_reply(),
            RequestKind::FirstAddress => self.on_first_address_reply(&completed),
            RequestKind::Address => self.on_address_reply(&completed),
            RequestKind::MaxHeight(id) => self.on_max_height_reply(id, completed),
            RequestKind::Height(node) => self.on_height_reply(node, completed, chain),
            RequestKind::Time(node) => self.on_time_reply(node, completed, chain),
            RequestKind::Experiences(node) => self.on_experiences_reply(node, completed),
            RequestKind::Synchronisation(run) => self.on_sync_reply(*run, completed, chain),
            RequestKind::LowestHash(node, height) => self.on_lowest_hash_reply(node, height, completed, chain),
            RequestKind::Unconfirmed(node, since) => self.on_unconfirmed_reply(node, since, completed),
            RequestKind::BlockDownload(request) => self.on_download_reply(request, completed),
            RequestKind::Push => {}
        }
        self.send_requests();
    }

    fn begin(&mut self, task: Task, chain: &impl LocalChain) {
        match task {
            // The mempool and the harvester run on their own timers.
            Task::Foraging => self.end_task(task, true),
            Task::Refresh => self.begin_refresh(),
            Task::Broadcast => self.send_signs_of_life(),
            Task::Synchronisation => self.synchronise(),
            Task::PruningNodes => self.prune_nodes(),
            Task::CheckingHeight => self.check_height(chain),
            Task::BroadcastOfBuffer => self.flush_buffer(),
            Task::UpdatingExperiences => self.update_experiences(),
            Task::PruningExperiences => {
                self.experiences.prune(self.now.network);
                self.end_task(task, true);
            }
            Task::TimeSynchronisation => self.synchronise_time(chain),
            Task::IpDetection => self.detect_address(),
        }
    }

    fn end_task(&mut self, task: Task, was_successful: bool) {
        if let Phase::Running(schedule) = &mut self.phase {
            schedule.end(task, was_successful, self.now.monotonic, self.now.network);
        }
    }

    fn prune_nodes(&mut self) {
        let gone = self.table.prune(self.now.monotonic);
        let skipped = self.table.dropped().count().saturating_sub(gone);
        for dropped in self.table.dropped().skip(skipped) {
            log::info!("{} is dropped: no answer for a long time", describe(&dropped.node.data.info, &dropped.address));
        }
        self.end_task(Task::PruningNodes, true);
    }

    /// Advances the trust calculation, or starts one if it is due.
    fn calculate_trust(&mut self, rows: usize) {
        if !self.trust.is_calculating() {
            // `len` is an upper bound of the members, so most turns need not collect them.
            if !self.trust.may_be_due(self.table.len(), self.now.network) {
                return;
            }
            let others = self.table.trust_candidates();
            if !self.trust.is_due(&others, self.now.network) {
                return;
            }
            let (former, pre_trusted) = (self.trust.values(), self.table.pre_trusted());
            let members = Members::choose(others, self.address, pre_trusted, former, &mut self.random);
            self.trust.begin(members, self.now.network);
        }
        if !self.trust.advance(&self.experiences, rows) {
            self.renew_selector();
        }
    }

    fn renew_selector(&mut self) {
        self.selector = Selector::among_active(self.trust.values(), &self.table);
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
        self.table.get(node).map(|known| known.data.info.clone())
    }

    fn address_of(&self, node: &NodeInfo) -> Address {
        Address::from_public_key(&node.identity.key, self.settings.context.network)
    }

    /// Returns whether a peer is known at an endpoint.
    fn has_endpoint(&self, node: &Address, endpoint: &Endpoint) -> bool {
        self.table.get(node).is_some_and(|known| known.data.info.endpoint == *endpoint)
    }

    /// Returns whether another node's report about a peer concerns the known one: pre-trusted peers always, others only
    /// if known at the reported endpoint.
    fn is_known_at(&self, node: &NodeInfo) -> bool {
        let known = self.table.get(&self.address_of(node));
        known.is_some_and(|known| known.is_pre_trusted || known.data.info.endpoint == node.endpoint)
    }

    /// Queues a query, whose answer must be signed by this key, or by the one that it introduces. Returns the id of the
    /// request if there was room.
    fn queue(&mut self, to: &Endpoint, key: Option<PublicKey>, query: &Query, kind: RequestKind) -> Option<CallId> {
        let challenge = new_challenge(&mut self.random);
        let message = query.request(&challenge, self.settings.format, &self.settings.chain);
        let proof = Some(Proof { challenge, key });
        self.requests.enqueue(Request { endpoint: to.clone(), message, kind, proof })
    }

    /// Queues a query to a peer. Returns the id of the request if there was room.
    fn queue_query(&mut self, node: &NodeInfo, query: &Query, kind: RequestKind) -> Option<CallId> {
        self.queue(&node.endpoint, Some(node.identity.key), query, kind)
    }

    /// Queues the same query to several peers.
    fn fan_out<T>(&mut self, nodes: &[NodeInfo], query: &Query, kind: impl Fn(Address) -> RequestKind) -> FanOut<T> {
        let queued = nodes.iter().filter(|node| self.queue_query(node, query, kind(self.address_of(node))).is_some());
        FanOut::new(queued.count())
    }

    /// Queues a message, whose answer need not be signed. Returns whether there was room.
    fn queue_message(&mut self, to: &Endpoint, message: &EncodedRequest, kind: RequestKind) -> bool {
        let request = Request { endpoint: to.clone(), message: message.clone(), kind, proof: None };
        self.requests.enqueue(request).is_some()
    }

    fn send_requests(&mut self) {
        self.requests.send(self.now, &mut self.actions);
    }

    /// Returns the body of an answer, the address that it came from, and how to check it.
    fn signed_body(&self, completed: Completed) -> Result<(Vec<u8>, IpAddr, AnswerContext), PeerError> {
        let (format, context) = (self.settings.format, self.settings.context);
        match (completed.proof, completed.reply) {
            (Some(Proof { challenge, key: Some(key) }), Reply::Answer { body, from }) => {
                Ok((body, from, AnswerContext { format, context, challenge, key }))
            }
            (_, reply) => Err(PeerError::from_reply(reply, format, context)),
        }
    }

    /// Checks and reads an answer of the queried peer. Returns it with the address that it came from.
    fn read_answer<T: Readable>(&self, completed: Completed) -> Result<(T, IpAddr), PeerError> {
        let (body, from, context) = self.signed_body(completed)?;
        Ok((context.read(&body)?, from))
    }

    /// Reads the answer of a peer, and records that it is valid. Consumes the reply.
    fn read_from<T: Readable>(&mut self, node: &Address, completed: &mut Completed) -> Option<(T, IpAddr)> {
        let endpoint = completed.endpoint.clone();
        let (reply, proof) = (std::mem::replace(&mut completed.reply, Reply::TimedOut), completed.proof.take());
        let answer =
            self.read_answer(Completed { endpoint: endpoint.clone(), proof, sent: completed.sent, reply }).ok();
        if answer.is_some() {
            self.record_valid_answer(node, &endpoint);
        }
        answer
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
    /// useful push of a pre-trusted peer counts wherever it comes from, as such a peer never moves.
    pub fn record_push(&mut self, by: &Pusher, result: ValidationOutcome, now: Now) {
        self.now = now;
        let node = Address::from_public_key(&by.key, self.settings.context.network);
        // All loopback addresses are this machine; which of them a connection uses is irrelevant.
        let host = |ip: IpAddr| (!ip.to_canonical().is_loopback()).then(|| peer_table::host(ip));
        let Some(known) = self.table.get(&node) else { return };
        let may_be_elsewhere = known.is_pre_trusted && result == ValidationOutcome::Useful;
        if !may_be_elsewhere && known.ip.map(host) != Some(host(by.from)) {
            return;
        }
        if result == ValidationOutcome::Useful {
            self.record_alive(&node);
        }
        if self.table.get(&node).is_some_and(|known| matches!(known.state, State::Active | State::Busy)) {
            self.count_experience(node, result);
        }
    }

    fn count_experience(&mut self, node: Address, result: ValidationOutcome) {
        match result {
            ValidationOutcome::Useful => self.experiences.succeeded(node, self.now.network),
            ValidationOutcome::Harmful => self.experiences.failed(node, self.now.network),
            ValidationOutcome::Neutral | ValidationOutcome::TooDeep => {}
        }
    }

    /// Returns this node's public description, with the detected endpoint.
    pub fn local(&self) -> &NodeInfo {
        &self.local
    }

    /// Returns whether the node has joined its network, and the failures so far.
    pub fn joined(&self) -> Joined {
        match &self.phase {
            Phase::Running(_) => Joined::Yes,
            Phase::Joining(joining) => Joined::NotYet { failures: joining.failures() },
        }
    }

    /// Returns whether the node has joined its network.
    pub fn is_booted(&self) -> bool {
        matches!(self.phase, Phase::Running(_))
    }

    /// Returns whether the last height checks found this node synchronised.
    pub fn is_synchronised(&self) -> bool {
        self.height_check.is_synchronised()
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
        let mut others: Vec<_> = self.table.in_state(State::Active).map(|(address, _)| *address).collect();
        others.retain(|node| !reported.contains(node));
        let room = self.settings.node_limit.saturating_sub(reported.len()).max(1);
        random.choose(&mut others, room);
        reported.extend(others.into_iter().take(room));
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
        self.table.in_state(state).map(|(_, node)| node.data.info.clone()).collect()
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
        let entry = |(address, node): (&Address, &PeerEntry<PeerInfo>)| ExperienceEntry {
            node: node.data.info.clone(),
            experience: self.experience(address),
            syncs: i32::try_from(node.synchronisations).unwrap_or(i32::MAX),
        };
        self.table.iter().map(entry).collect()
    }

    /// Returns the recurring tasks; empty before joining.
    pub fn timers(&self) -> &[Timer] {
        match &self.phase {
            Phase::Running(schedule) => schedule.timers(),
            Phase::Joining(_) => &[],
        }
    }

    /// Returns the state of time synchronisation.
    pub fn time(&self) -> &TimeSync {
        &self.time_sync
    }

    /// Returns the calls in flight, oldest first.
    pub fn outstanding_calls(&self) -> Vec<&AuditEntry> {
        self.requests.outstanding()
    }

    /// Returns the latest calls, newest first.
    pub fn latest_calls(&self) -> impl Iterator<Item = &AuditEntry> {
        self.requests.latest()
    }

    /// Returns the table of known peers.
    pub fn table(&self) -> &PeerTable<PeerInfo> {
        &self.table
    }

    /// Returns the trust in the nodes that took part in the last calculation.
    pub fn trust(&self) -> &TrustValues {
        self.trust.values()
    }

    /// Returns this node's experience with a peer.
    pub fn experience(&self, node: &Address) -> Experience {
        self.experiences.between(&self.address, node)
    }

    /// Returns the pre-trusted peers without a known key.
    pub fn unpinned(&self) -> &[Unpinned] {
        &self.unpinned
    }

    /// Returns the usage of every collection that others can make grow.
    pub fn usage(&self) -> Vec<LimitUsage> {
        let (in_flight, waiting, bytes) = self.requests.usage();
        let (buffered, buffered_bytes) = self.relay_buffer.usage();
        let mut usage = vec![
            LimitUsage::new("requests in flight", in_flight, MAX_IN_FLIGHT),
            LimitUsage::new("queued requests", waiting, MAX_WAITING),
            LimitUsage::new("bytes of requests", bytes, MAX_BYTES),
            LimitUsage::new("peers with counted requests", self.requests.targets(), MAX_TARGETS),
            LimitUsage::new("latest calls", self.requests.latest().count(), MAX_LATEST_CALLS),
            LimitUsage::new("transactions to relay", buffered, MAX_BUFFERED),
            LimitUsage::new("bytes to relay", buffered_bytes, max_buffered_bytes(&self.settings)),
            LimitUsage::new("signs of life to verify", self.verifications().len(), MAX_VERIFICATIONS),
            LimitUsage::new(
                "probes by signs of life",
                self.count_probes(|probe| probe.reason == ProbeReason::SignOfLife),
                MAX_SIGN_PROBES,
            ),
            LimitUsage::new("probes of a refresh", self.count_probes(Probe::is_of_refresh), MAX_CONCURRENT_PROBES),
            LimitUsage::new(
                "gossiped peers",
                self.refresh.as_ref().map_or(0, Refresh::gossip_probes),
                MAX_GOSSIP_PROBES,
            ),
            LimitUsage::new("rounds of time synchronisation", self.time_sync.rounds().count(), MAX_ROUNDS),
        ];
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
        drawn.truncate(MAX_FAN_OUT);
    }
    drawn
}

fn new_challenge(random: &mut impl RandomSource) -> Challenge {
    let mut challenge = [0; CHALLENGE_BYTES];
    for part in challenge.chunks_exact_mut(size_of::<u64>()) {
        part.copy_from_slice(&random.bits().to_le_bytes());
    }
    Challenge(challenge)
}

/// Formats a peer for the log, with its name escaped to one line.
fn describe(info: &NodeInfo, address: &Address) -> String {
    let name = info.identity.name.as_deref().map(sanitize).unwrap_or_default();
    format!("{address} at {} ({name:?})", info.endpoint)
}
