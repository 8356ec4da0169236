//! State machine of the peer protocol.
//!
//! It receives the time and the results of requests, and acts through [`PeerIo`]. All requests to peers go through
//! [`request_queue`], which limits them; each request carries the kind of its answer. A task that waits for answers is a plain
//! value.
//!
//! | module | purpose |
//! |---|---|
//! | [`request_queue`] | request queue: requests in flight and waiting, with limits and rates |
//! | [`probes`], [`refresh`] | asks peers for their identity and their peers (gossip) |
//! | [`signs_of_life`] | verifies senders of sign-of-life messages |
//! | `synchronisation` | compares the chain with that of one sync peer |
//! | `block_download` | block download of a chain that is far ahead |
//! | [`broadcast`] | relays blocks and transactions, sends signs of life |
//! | [`reconnect`] | contacts saved peers after a restart |
//! | [`splits`] | detects chains that forked further back than the rewrite limit |
//! | [`own_address`] | detects this node's address, joins the network |
//! | `queries` | queries heights, clocks and experiences |
//! | `views` | data for people and other nodes |
//! | `usage` | usage of bounded collections |

mod block_download;
pub mod broadcast;
mod fan_out;
pub mod own_address;
pub mod probes;
mod queries;
pub mod reconnect;
pub mod refresh;
pub mod request_queue;
mod settings;
pub mod signs_of_life;
pub mod splits;
mod synchronisation;
mod unpinned;
mod usage;
mod views;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

pub use self::block_download::SyncProgress;
pub use self::queries::{MIN_IMPORTANCE, MaxHeight};
pub use self::settings::{IpDetection, PeerSettings, PreTrustedPeer};
pub use self::unpinned::Unpinned;
pub use self::views::{Joined, PushResult, Pusher};

use self::block_download::ActiveDownload;
use self::broadcast::RelayBuffer;
use self::fan_out::FanOutQuery;
use self::own_address::Joining;
use self::probes::Probes;
use self::queries::MaxHeightQuery;
use self::reconnect::Reconnect;
use self::refresh::Refresh;
use self::request_queue::{Proof, Request, RequestKind, RequestQueue};
use self::signs_of_life::Verifications;
use self::splits::ChainSplits;
use self::synchronisation::Synchronisation;
use super::error::{PeerError, sanitize};
use super::experiences::Experiences;
use super::height_check::HeightCheck;
use super::io::{CallId, Now, PeerIo, Reply};
use super::peer_table::{Limits, PeerTable};
use super::random::RandomSource;
use super::schedule::{Schedule, Task};
use super::time_sync::{ClockAnswer, TimeSync};
use super::trust::{MAX_MEMBERS, Members, Selector, Trust};
use super::wire::{CHALLENGE_BYTES, Challenge, NodeInfo, Query, read_answer};
use crate::codec::Readable;
use crate::crypto::{KeyPair, PublicKey};
use crate::model::{Address, Height};

/// Maximum number of peers that one query or broadcast goes to, whatever the operator's limit.
pub const MAX_FAN_OUT: usize = MAX_MEMBERS;

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

/// Startup phase of the node.
#[derive(Debug)]
enum Phase {
    Joining(Joining),
    Running(Schedule),
}

impl Phase {
    fn is_booted(&self) -> bool {
        matches!(self, Phase::Running(_))
    }

    fn schedule_mut(&mut self) -> Option<&mut Schedule> {
        match self {
            Phase::Running(schedule) => Some(schedule),
            Phase::Joining(_) => None,
        }
    }
}

/// State machine of the peer protocol.
pub struct Manager {
    local: NodeInfo,
    address: Address,
    keys: Rc<KeyPair>,
    settings: PeerSettings,
    phase: Phase,
    table: PeerTable<PeerInfo>,
    unpinned: Vec<Unpinned>,
    experiences: Experiences,
    trust: Trust,
    /// Selects peers for queries and broadcasts; rebuilt after each refresh and each trust calculation.
    selector: Selector,
    requests: RequestQueue,
    probes: Probes,
    refresh: Option<Refresh>,
    verifications: Verifications,
    reconnect: Reconnect,
    splits: ChainSplits,
    synchronisation: Option<Synchronisation>,
    /// Maximum number of transactions to request with the next blocks.
    max_transactions: u32,
    /// Peer whose unconfirmed transactions are requested, and the time of the request.
    mempool_request: Option<(Address, Duration)>,
    block_download: Option<ActiveDownload>,
    /// Number of block downloads started.
    download_count: u64,
    relay_buffer: RelayBuffer,
    signs_of_life: FanOutQuery<()>,
    addresses: FanOutQuery<String>,
    heights: FanOutQuery<Height>,
    times: FanOutQuery<ClockAnswer>,
    /// Peers whose clocks move network time; other queried ones only confirm.
    selected_clocks: BTreeSet<Address>,
    max_height_query: Option<MaxHeightQuery>,
    time_sync: TimeSync,
    height_check: HeightCheck,
}

impl Manager {
    /// Creates a node that starts to join its network. `local` is its public description, `keys` prove it.
    /// [`Manager::tick`] drives it.
    pub fn new(local: NodeInfo, keys: Rc<KeyPair>, mut settings: PeerSettings, now: Now) -> Manager {
        let address = Address::from_public_key(&local.identity.key, settings.context.network);
        let nodes = PeerTable::new(address, Limits::default());
        let known = std::mem::take(&mut settings.pre_trusted);
        let mut peers = Manager {
            address,
            keys,
            phase: Phase::Joining(Joining::new(now.monotonic)),
            unpinned: Vec::new(),
            experiences: Experiences::new(address),
            trust: Trust::default(),
            selector: Selector::among_active(&Default::default(), &nodes),
            requests: RequestQueue::default(),
            probes: Probes::default(),
            refresh: None,
            verifications: Verifications::default(),
            reconnect: Reconnect::default(),
            splits: ChainSplits::default(),
            synchronisation: None,
            max_transactions: settings.chain.max_transactions,
            mempool_request: None,
            block_download: None,
            download_count: 0,
            relay_buffer: RelayBuffer::default(),
            signs_of_life: FanOutQuery::default(),
            addresses: FanOutQuery::default(),
            heights: FanOutQuery::default(),
            times: FanOutQuery::default(),
            selected_clocks: BTreeSet::new(),
            max_height_query: None,
            time_sync: TimeSync::default(),
            height_check: HeightCheck::default(),
            table: nodes,
            settings,
            local,
        };
        peers.add_pre_trusted_peers(known);
        peers.selector = Selector::among_active(&Default::default(), &peers.table);
        peers
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

    /// Starts due tasks, and advances the trust calculation by at most `rows` rows (cost:
    /// [`super::trust::Calculation::advance`]).
    pub fn tick(&mut self, now: Now, rows: usize, io: &mut impl PeerIo) {
        self.join(now, io);
        while let Some(task) = self.phase.schedule_mut().and_then(|schedule| schedule.begin(now.monotonic, now.network))
        {
            self.begin(task, now, io);
        }
        self.calculate_trust(rows, now, io);
        self.time_out_max_height_query(now, io);
        self.send_download_requests(now, io);
        self.requests.send(now, io);
    }

    /// Returns the time of the next turn since the start of the node; a past time means at once. Events can advance it.
    pub fn next_due(&self) -> Option<Duration> {
        let phase = match &self.phase {
            Phase::Joining(joining) => joining.retry_at(),
            Phase::Running(schedule) => schedule.next_due(),
        };
        let trust = self.trust.is_calculating().then_some(Duration::ZERO);
        let (ahead, query) =
            (self.next_download_due(), self.max_height_query.as_ref().and_then(MaxHeightQuery::timeout_at));
        [phase, trust, ahead, query, self.requests.next_due()].into_iter().flatten().min()
    }

    /// Processes the result of a request.
    pub fn on_reply(&mut self, call: CallId, response: Reply, now: Now, io: &mut impl PeerIo) {
        let Some(ended) = self.requests.complete(call, now.monotonic) else { return };
        match ended.kind {
            RequestKind::Probe(id) => self.on_probe_reply(id, ended, response, now, io),
            RequestKind::Verification(id) => self.on_verification_reply(id, ended, response, now, io),
            RequestKind::SignOfLife => self.on_sign_of_life_reply(now),
            RequestKind::FirstAddress => self.on_first_address_reply(response, now),
            RequestKind::Address => self.on_address_reply(response, now),
            RequestKind::MaxHeight(id) => self.on_max_height_reply(id, ended, response, now, io),
            RequestKind::Height(node) => self.on_height_reply(node, ended, response, now, io),
            RequestKind::Time(node) => self.on_time_reply(node, ended, response, now, io),
            RequestKind::Experiences(node) => self.on_experiences_reply(node, ended, response, now, io),
            RequestKind::Synchronisation => self.on_sync_reply(ended, response, now, io),
            RequestKind::LowestHash(node, height) => self.on_lowest_hash_reply(node, height, ended, response, now, io),
            RequestKind::Unconfirmed => self.on_unconfirmed_reply(ended, response, now, io),
            RequestKind::BlockDownload(id, question) => self.on_download_reply(id, question, ended, response, now, io),
            RequestKind::Push => {}
        }
        self.requests.send(now, io);
    }

    fn begin(&mut self, task: Task, now: Now, io: &mut impl PeerIo) {
        match task {
            // The mempool and the harvester run on their own timers.
            Task::Foraging => self.end_task(task, true, now),
            Task::Refresh => self.begin_refresh(now, io),
            Task::Broadcast => self.send_signs_of_life(now, io),
            Task::Synchronisation => self.synchronise(now, io),
            Task::PruningNodes => self.prune_nodes(now),
            Task::CheckingHeight => self.check_height(now, io),
            Task::BroadcastOfBuffer => self.flush_buffer(now, io),
            Task::UpdatingExperiences => self.update_experiences(now, io),
            Task::PruningExperiences => {
                self.experiences.prune(now.network);
                self.end_task(task, true, now);
            }
            Task::TimeSynchronisation => self.synchronise_time(now, io),
            Task::IpDetection => self.detect_address(now, io),
        }
    }

    fn end_task(&mut self, task: Task, was_successful: bool, now: Now) {
        if let Some(schedule) = self.phase.schedule_mut() {
            schedule.end(task, was_successful, now.monotonic, now.network);
        }
    }

    fn prune_nodes(&mut self, now: Now) {
        let gone = self.table.prune(now.monotonic);
        let skipped = self.table.dropped().count().saturating_sub(gone);
        for dropped in self.table.dropped().skip(skipped) {
            log::info!("{} is dropped: no answer for a long time", describe(&dropped.node.data.info, &dropped.address));
        }
        self.end_task(Task::PruningNodes, true, now);
    }

    /// Advances the trust calculation, or starts one if it is due.
    fn calculate_trust(&mut self, rows: usize, now: Now, io: &mut impl PeerIo) {
        if !self.trust.is_calculating() {
            // `len` is an upper bound of the members, so most turns need not collect them.
            if !self.trust.may_be_due(self.table.len(), now.network) {
                return;
            }
            let others = self.table.trust_candidates();
            if !self.trust.is_due(&others, now.network) {
                return;
            }
            let mut random = || io.random();
            let pre_trusted = self.table.pre_trusted();
            let members = Members::choose(others, self.address, pre_trusted, self.trust.values(), &mut random);
            self.trust.begin(members, now.network);
        }
        if !self.trust.advance(&self.experiences, rows) {
            self.renew_selector();
        }
    }

    fn renew_selector(&mut self) {
        self.selector = Selector::among_active(self.trust.values(), &self.table);
    }

    /// Selects peers, at most [`MAX_FAN_OUT`].
    fn select(&self, selector: &Selector, random: &mut impl RandomSource) -> Vec<Address> {
        let mut drawn = selector.several(self.settings.node_limit, random);
        if drawn.len() > MAX_FAN_OUT {
            random.choose(&mut drawn, MAX_FAN_OUT);
            drawn.truncate(MAX_FAN_OUT);
        }
        drawn
    }

    fn select_by(&self, selector: &Selector, io: &mut impl PeerIo) -> Vec<Address> {
        let mut random = || io.random();
        self.select(selector, &mut random)
    }

    /// Selects several peers for a query or a broadcast.
    fn select_peers(&self, io: &mut impl PeerIo) -> Vec<NodeInfo> {
        self.infos(self.select_by(&self.selector, io))
    }

    /// Selects one peer for a query.
    fn select_peer(&self, io: &mut impl PeerIo) -> Option<NodeInfo> {
        let drawn = self.selector.one(&mut || io.random())?;
        self.table.get(&drawn).map(|node| node.data.info.clone())
    }

    /// Returns the descriptions of peers; skips unknown ones.
    fn infos(&self, nodes: Vec<Address>) -> Vec<NodeInfo> {
        nodes.iter().filter_map(|node| self.table.get(node)).map(|node| node.data.info.clone()).collect()
    }

    fn address_of(&self, node: &NodeInfo) -> Address {
        Address::from_public_key(&node.identity.key, self.settings.context.network)
    }

    /// Queues a request whose answer the peer must sign. Returns whether there was room.
    fn queue_query(&mut self, node: &NodeInfo, query: &Query, purpose: RequestKind, io: &mut impl PeerIo) -> bool {
        let challenge = new_challenge(io);
        let outgoing = query.request(&challenge, self.settings.format, &self.settings.chain);
        let proof = Some(Proof { challenge, key: Some(node.identity.key) });
        self.requests.enqueue(Request { endpoint: node.endpoint.clone(), outgoing, kind: purpose, proof })
    }

    /// Queues the same request for several peers. Returns for how many there was room.
    fn queue_queries(
        &mut self,
        nodes: &[NodeInfo],
        query: &Query,
        purpose: impl Fn(Address) -> RequestKind,
        io: &mut impl PeerIo,
    ) -> usize {
        let mut asked = 0;
        for node in nodes {
            asked += usize::from(self.queue_query(node, query, purpose(self.address_of(node)), io));
        }
        asked
    }

    /// Pairs an answer with its challenge and expected key.
    fn signed_answer(&self, proof: Option<Proof>, response: Reply) -> Result<SignedAnswer, PeerError> {
        match (proof, response) {
            (Some(Proof { challenge, key: Some(key) }), Reply::Answer { body, from }) => {
                Ok(SignedAnswer { body, from, challenge, key })
            }
            (_, response) => Err(PeerError::from_reply(response, self.settings.format, self.settings.context)),
        }
    }

    /// Checks and reads an answer of the queried peer. Returns it with the address that it came from.
    fn read_answer<T: Readable>(&self, proof: Option<Proof>, response: Reply) -> Result<(T, IpAddr), PeerError> {
        let SignedAnswer { body, from, challenge, key } = self.signed_answer(proof, response)?;
        Ok((read_answer(self.settings.format, &body, self.settings.context, &challenge, &key)?, from))
    }
}

/// Answer that is not decoded yet.
struct SignedAnswer {
    body: Vec<u8>,
    from: IpAddr,
    challenge: Challenge,
    key: PublicKey,
}

fn new_challenge(io: &mut impl PeerIo) -> Challenge {
    let mut challenge = [0; CHALLENGE_BYTES];
    for part in challenge.chunks_exact_mut(size_of::<u64>()) {
        part.copy_from_slice(&io.random().to_le_bytes());
    }
    Challenge(challenge)
}

/// Formats a peer for the log, with its name escaped to one line.
fn describe(info: &NodeInfo, address: &Address) -> String {
    let name = info.identity.name.as_deref().map(sanitize).unwrap_or_default();
    format!("{address} at {} ({name:?})", info.endpoint)
}
