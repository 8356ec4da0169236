//! State machine of the peer protocol.
//!
//! It receives the time and the results of requests, and acts through [`Outside`]. All requests to peers go through
//! [`calls`], which limits them; each request carries the kind of its answer. A task that waits for answers is a plain
//! value.
//!
//! | module | purpose |
//! |---|---|
//! | [`calls`] | request queue: requests in flight and waiting, with limits and rates |
//! | [`contacts`], [`refresh`] | asks peers for their identity and their peers (gossip) |
//! | [`meetings`] | verifies senders of sign-of-life messages |
//! | `synchronisation` | compares the chain with that of one sync peer |
//! | `catching_up` | block download of a chain that is far ahead |
//! | [`broadcast`] | relays blocks and transactions, sends signs of life |
//! | [`returning`] | contacts saved peers after a restart |
//! | [`splits`] | detects chains that forked further back than the rewrite limit |
//! | [`own_address`] | detects this node's address, joins the network |
//! | `inquiries` | queries heights, clocks and experiences |
//! | `views` | data for people and other nodes |
//! | `loads` | usage of bounded collections |

pub mod broadcast;
pub mod calls;
mod catching_up;
pub mod contacts;
mod inquiries;
mod loads;
pub mod meetings;
pub(super) mod mishap;
pub mod own_address;
pub mod refresh;
pub mod returning;
mod round;
mod settings;
pub mod splits;
mod synchronisation;
mod unpinned;
mod views;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

pub use self::catching_up::Outlook;
pub use self::inquiries::{LEAST_IMPORTANCE, Largest};
pub use self::settings::{IpDetection, KnownPeer, PeerSettings};
pub use self::unpinned::Unpinned;
pub use self::views::{Joined, PeerView, PushResult, Pusher};

use self::broadcast::Buffer;
use self::calls::{Calls, Proof, Purpose, Request};
use self::catching_up::CatchingUp;
use self::contacts::Contacts;
use self::inquiries::Inquiry;
use self::meetings::Meetings;
use self::mishap::{Mishap, words};
use self::own_address::Joining;
use self::refresh::Refresh;
use self::returning::Returning;
use self::round::Round;
use self::splits::Splits;
use self::synchronisation::Synchronisation;
use super::experiences::Experiences;
use super::height_check::HeightCheck;
use super::nodes::{Limits, Nodes};
use super::outside::{CallId, Now, Outside, Reply};
use super::random::RandomSource;
use super::schedule::{Schedule, Task};
use super::time_sync::{TimeSync, Witness};
use super::trust::{MAX_MEMBERS, Members, Selector, Trust};
use super::wire::{CHALLENGE_BYTES, Challenge, NodeInfo, Query, read_answer};
use crate::codec::Readable;
use crate::crypto::{KeyPair, PublicKey};
use crate::model::{Address, Height};

/// Maximum number of peers that one query or broadcast goes to, whatever the operator's limit.
pub const MAX_PARTNERS: usize = MAX_MEMBERS;

/// Data about a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
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
pub struct Peers {
    local: NodeInfo,
    address: Address,
    keys: Rc<KeyPair>,
    settings: PeerSettings,
    phase: Phase,
    nodes: Nodes<About>,
    unpinned: Vec<Unpinned>,
    experiences: Experiences,
    trust: Trust,
    /// Selects peers for queries and broadcasts; rebuilt after each refresh and each trust calculation.
    selector: Selector,
    calls: Calls,
    contacts: Contacts,
    refresh: Option<Refresh>,
    meetings: Meetings,
    returning: Returning,
    splits: Splits,
    synchronisation: Option<Synchronisation>,
    /// Maximum number of transactions to request with the next blocks.
    most_transactions: u32,
    /// Peer whose unconfirmed transactions are requested, and the time of the request.
    unconfirmed: Option<(Address, Duration)>,
    catching_up: Option<CatchingUp>,
    /// Number of block downloads started.
    runs: u64,
    buffer: Buffer,
    signs: Round<()>,
    addresses: Round<String>,
    heights: Round<Height>,
    times: Round<Witness>,
    /// Peers whose clocks move network time; other queried ones only confirm.
    drawn_for_time: BTreeSet<Address>,
    inquiry: Option<Inquiry>,
    time_sync: TimeSync,
    height_check: HeightCheck,
}

impl Peers {
    /// Creates a node that starts to join its network. `local` is its public description, `keys` prove it.
    /// [`Peers::turn`] drives it.
    pub fn new(local: NodeInfo, keys: Rc<KeyPair>, mut settings: PeerSettings, now: Now) -> Peers {
        let address = Address::from_public_key(&local.identity.key, settings.context.network);
        let nodes = Nodes::new(address, Limits::default());
        let known = std::mem::take(&mut settings.known);
        let mut peers = Peers {
            address,
            keys,
            phase: Phase::Joining(Joining::new(now.running)),
            unpinned: Vec::new(),
            experiences: Experiences::new(address),
            trust: Trust::default(),
            selector: Selector::of_partners(&Default::default(), &nodes),
            calls: Calls::default(),
            contacts: Contacts::default(),
            refresh: None,
            meetings: Meetings::default(),
            returning: Returning::default(),
            splits: Splits::default(),
            synchronisation: None,
            most_transactions: settings.chain.max_transactions,
            unconfirmed: None,
            catching_up: None,
            runs: 0,
            buffer: Buffer::default(),
            signs: Round::default(),
            addresses: Round::default(),
            heights: Round::default(),
            times: Round::default(),
            drawn_for_time: BTreeSet::new(),
            inquiry: None,
            time_sync: TimeSync::default(),
            height_check: HeightCheck::default(),
            nodes,
            settings,
            local,
        };
        peers.know(known);
        peers.selector = Selector::of_partners(&Default::default(), &peers.nodes);
        peers
    }

    /// Adds peers of the operator's list. One without a key is identified at the first contact.
    pub fn know(&mut self, known: Vec<KnownPeer>) {
        let room = Limits::default().nodes.saturating_sub(self.unpinned.len());
        for peer in known.into_iter().take(room) {
            match peer {
                KnownPeer::Endpoint(endpoint) => self.unpinned.push(Unpinned::new(endpoint)),
                KnownPeer::Node(info) => {
                    let node = self.address_of(&info);
                    if let Err(refused) = self.list(info) {
                        log::warn!("{node} of the list of peers is left out: {refused:?}");
                    }
                }
            }
        }
    }

    /// Starts due tasks, and advances the trust calculation by at most `rows` rows (cost:
    /// [`super::trust::Calculation::advance`]).
    pub fn turn(&mut self, now: Now, rows: usize, outside: &mut impl Outside) {
        self.join(now, outside);
        while let Some(task) = self.phase.schedule_mut().and_then(|schedule| schedule.begin(now.running, now.time)) {
            self.begin(task, now, outside);
        }
        self.calculate_trust(rows, now, outside);
        self.end_slow_inquiry(now, outside);
        self.ask_ahead(now, outside);
        self.calls.send(now, outside);
    }

    /// Returns the time of the next turn since the start of the node; a past time means at once. Events can advance it.
    pub fn next_due(&self) -> Option<Duration> {
        let phase = match &self.phase {
            Phase::Joining(joining) => joining.next_try(),
            Phase::Running(schedule) => schedule.next_due(),
        };
        let trust = self.trust.is_calculating().then_some(Duration::ZERO);
        let (ahead, inquiry) = (self.next_ask_due(), self.inquiry.as_ref().and_then(Inquiry::end));
        [phase, trust, ahead, inquiry, self.calls.next_due()].into_iter().flatten().min()
    }

    /// Processes the result of a request.
    pub fn ended(&mut self, call: CallId, reply: Reply, now: Now, outside: &mut impl Outside) {
        let Some(ended) = self.calls.end(call, now.running) else { return };
        match ended.purpose {
            Purpose::Contact(id) => self.contact_ended(id, ended, reply, now, outside),
            Purpose::Meeting(id) => self.meeting_ended(id, ended, reply, now, outside),
            Purpose::SignOfLife => self.sign_of_life_ended(now),
            Purpose::FirstAddress => self.first_address_ended(reply, now),
            Purpose::Address => self.address_ended(reply, now),
            Purpose::LargestHeight(id) => self.largest_height_ended(id, ended, reply, now, outside),
            Purpose::Height(node) => self.height_ended(node, ended, reply, now, outside),
            Purpose::Time(node) => self.time_ended(node, ended, reply, now, outside),
            Purpose::Experiences(node) => self.experiences_ended(node, ended, reply, now, outside),
            Purpose::Synchronisation => self.synchronisation_ended(ended, reply, now, outside),
            Purpose::LowestHash(node, height) => self.lowest_hash_ended(node, height, ended, reply, now, outside),
            Purpose::Unconfirmed => self.unconfirmed_ended(ended, reply, now, outside),
            Purpose::Ahead(id, question) => self.ahead_ended(id, question, ended, reply, now, outside),
            Purpose::Push => {}
        }
        self.calls.send(now, outside);
    }

    fn begin(&mut self, task: Task, now: Now, outside: &mut impl Outside) {
        match task {
            // The mempool and the harvester run on their own timers.
            Task::Foraging => self.end_task(task, true, now),
            Task::Refresh => self.begin_refresh(now, outside),
            Task::Broadcast => self.give_signs_of_life(now, outside),
            Task::Synchronisation => self.synchronise(now, outside),
            Task::PruningNodes => self.prune_nodes(now),
            Task::CheckingHeight => self.check_height(now, outside),
            Task::BroadcastOfBuffer => self.flush_buffer(now, outside),
            Task::UpdatingExperiences => self.update_experiences(now, outside),
            Task::PruningExperiences => {
                self.experiences.prune(now.time);
                self.end_task(task, true, now);
            }
            Task::TimeSynchronisation => self.synchronise_time(now, outside),
            Task::IpDetection => self.detect_address(now, outside),
        }
    }

    fn end_task(&mut self, task: Task, was_successful: bool, now: Now) {
        if let Some(schedule) = self.phase.schedule_mut() {
            schedule.end(task, was_successful, now.running, now.time);
        }
    }

    fn prune_nodes(&mut self, now: Now) {
        let gone = self.nodes.prune(now.running);
        let skipped = self.nodes.dropped().count().saturating_sub(gone);
        for dropped in self.nodes.dropped().skip(skipped) {
            log::info!("{} is dropped: no answer for long", describe(&dropped.node.about.info, &dropped.address));
        }
        self.end_task(Task::PruningNodes, true, now);
    }

    /// Advances the trust calculation, or starts one if it is due.
    fn calculate_trust(&mut self, rows: usize, now: Now, outside: &mut impl Outside) {
        if !self.trust.is_calculating() {
            // `len` is an upper bound of the members, so most turns need not collect them.
            if !self.trust.may_be_due(self.nodes.len(), now.time) {
                return;
            }
            let others = self.nodes.for_trust();
            if !self.trust.is_due(&others, now.time) {
                return;
            }
            let mut random = || outside.random();
            let pre_trusted = self.nodes.pre_trusted();
            let members = Members::choose(others, self.address, pre_trusted, self.trust.values(), &mut random);
            self.trust.begin(members, now.time);
        }
        if !self.trust.advance(&self.experiences, rows) {
            self.renew_selector();
        }
    }

    fn renew_selector(&mut self) {
        self.selector = Selector::of_partners(self.trust.values(), &self.nodes);
    }

    /// Selects peers, at most [`MAX_PARTNERS`].
    fn draw(&self, selector: &Selector, random: &mut impl RandomSource) -> Vec<Address> {
        let mut drawn = selector.several(self.settings.node_limit, random);
        if drawn.len() > MAX_PARTNERS {
            random.choose(&mut drawn, MAX_PARTNERS);
            drawn.truncate(MAX_PARTNERS);
        }
        drawn
    }

    fn draw_by(&self, selector: &Selector, outside: &mut impl Outside) -> Vec<Address> {
        let mut random = || outside.random();
        self.draw(selector, &mut random)
    }

    /// Selects several peers for a query or a broadcast.
    fn draw_partners(&self, outside: &mut impl Outside) -> Vec<NodeInfo> {
        self.infos(self.draw_by(&self.selector, outside))
    }

    /// Selects one peer for a query.
    fn draw_partner(&self, outside: &mut impl Outside) -> Option<NodeInfo> {
        let drawn = self.selector.one(&mut || outside.random())?;
        self.nodes.get(&drawn).map(|node| node.about.info.clone())
    }

    /// Returns the descriptions of peers; skips unknown ones.
    fn infos(&self, nodes: Vec<Address>) -> Vec<NodeInfo> {
        nodes.iter().filter_map(|node| self.nodes.get(node)).map(|node| node.about.info.clone()).collect()
    }

    fn address_of(&self, node: &NodeInfo) -> Address {
        Address::from_public_key(&node.identity.key, self.settings.context.network)
    }

    /// Queues a request whose answer the peer must sign. Returns whether there was room.
    fn ask(&mut self, node: &NodeInfo, query: &Query, purpose: Purpose, outside: &mut impl Outside) -> bool {
        let challenge = new_challenge(outside);
        let outgoing = query.request(&challenge, self.settings.format, &self.settings.chain);
        let proof = Some(Proof { challenge, key: Some(node.identity.key) });
        self.calls.take(Request { endpoint: node.endpoint.clone(), outgoing, purpose, proof })
    }

    /// Queues the same request for several peers. Returns for how many there was room.
    fn ask_all(
        &mut self,
        nodes: &[NodeInfo],
        query: &Query,
        purpose: impl Fn(Address) -> Purpose,
        outside: &mut impl Outside,
    ) -> usize {
        let mut asked = 0;
        for node in nodes {
            asked += usize::from(self.ask(node, query, purpose(self.address_of(node)), outside));
        }
        asked
    }

    /// Pairs an answer with its challenge and expected key.
    fn answered(&self, proof: Option<Proof>, reply: Reply) -> Result<Answered, Mishap> {
        match (proof, reply) {
            (Some(Proof { challenge, key: Some(key) }), Reply::Answer { body, from }) => {
                Ok(Answered { body, from, challenge, key })
            }
            (_, reply) => Err(Mishap::of(reply, self.settings.format, self.settings.context)),
        }
    }

    /// Checks and reads an answer of the queried peer. Returns it with the address that it came from.
    fn read_answer<T: Readable>(&self, proof: Option<Proof>, reply: Reply) -> Result<(T, IpAddr), Mishap> {
        let Answered { body, from, challenge, key } = self.answered(proof, reply)?;
        Ok((read_answer(self.settings.format, &body, self.settings.context, &challenge, &key)?, from))
    }
}

/// Answer that is not decoded yet.
struct Answered {
    body: Vec<u8>,
    from: IpAddr,
    challenge: Challenge,
    key: PublicKey,
}

fn new_challenge(outside: &mut impl Outside) -> Challenge {
    let mut challenge = [0; CHALLENGE_BYTES];
    for part in challenge.chunks_exact_mut(size_of::<u64>()) {
        part.copy_from_slice(&outside.random().to_le_bytes());
    }
    Challenge(challenge)
}

/// Formats a peer for the log, with its name escaped to one line.
fn describe(info: &NodeInfo, address: &Address) -> String {
    let name = info.identity.name.as_deref().map(words).unwrap_or_default();
    format!("{address} at {} ({name:?})", info.endpoint)
}
