//! Byzantine peers that answer requests with lies. They know the chain of the requesting node and follow the chain
//! comparison as far as their lie needs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nisd::codec::{Context, Encoder, Format, Writable};
use nisd::crypto::{KeyPair, Signature};
use nisd::model::{Amount, Block, Hash256, Height, Timestamp, Transaction};
use nisd::net::fetch::{FetchError, FetchLimits, FetchRequest};
use nisd::peer::trust::Experience;
use nisd::peer::wire::{
    AuthenticatedRequest, ChainRequest, Challenge, CommunicationTimeStamps, Endpoint, ExperiencePair, HashChain,
    Identity, List, NodeExperiences, NodeInfo, NodeList, Score, ShortIds,
};
use nisd::store::{Store, StoredHeader, stored_block, stored_header, tip};

use super::environment::{
    Environment, PORT, byzantine_keys, member_key, member_name, node_info, unfunded_keys, user_keys,
};
use super::fault::{Fault, OF_ANSWERS, OF_COMPARISON, OF_STALLS};
use super::plan::ByzantinePlan;
use crate::common::Random;
use crate::common::private_network::{address, block, key_pair, transfer};
use crate::common::simulated_node::random_hash;

/// How much better a byzantine peer claims its chain to be.
const CLAIMED_SCORE_LEAD: i128 = 1 << 50;
/// How many blocks a byzantine peer claims to be ahead: more than four downloads from one peer.
const CLAIMED_LEAD: u64 = 3_000;
/// Delay of a slow answer that still counts, and of silence that causes a timeout.
const SLOW_DELAY: Duration = Duration::from_secs(8);
const SILENT_DELAY: Duration = Duration::from_secs(10);

/// The requests of a chain comparison in their order.
pub const SYNCHRONISATION: [&str; 6] = [
    "/chain/score",
    "/chain/last-block",
    "/chain/hashes-from",
    "/block/at",
    "/chain/blocks-after",
    "/transactions/unconfirmed",
];

/// What a byzantine peer knows.
pub struct LieContext<'a> {
    pub environment: &'a Environment,
    /// The chain of the requesting node, and that of the member with the highest score.
    pub store: &'a Store,
    pub best: &'a Store,
    /// The honest nodes.
    pub members: &'a [NodeInfo],
    /// Transactions that users have sent.
    pub sent: &'a [Transaction],
    pub now: Timestamp,
    pub random: &'a mut Random,
}

impl LieContext<'_> {
    pub fn tip(&self) -> StoredHeader {
        tip(&self.store.snapshot().expect("a snapshot")).expect("a store").expect("a tip")
    }

    pub fn block(&self, height: u64) -> Option<Block> {
        self.block_of(self.store, height)
    }

    fn block_of(&self, store: &Store, height: u64) -> Option<Block> {
        let snapshot = store.snapshot().expect("a snapshot");
        stored_block(&snapshot, Height(height)).expect("a store").map(|(_, block)| block)
    }

    fn hashes(&self, store: &Store, from: Height, most: u64) -> Vec<Hash256> {
        let snapshot = store.snapshot().expect("a snapshot");
        let header = |height| stored_header(&snapshot, Height(height)).expect("a store");
        (from.0..from.0 + most).map_while(header).map(|header| header.hash).collect()
    }

    pub fn hash(&mut self) -> Hash256 {
        random_hash(self.random)
    }

    /// Builds a transaction that its sender cannot pay.
    pub fn overspending(&mut self) -> Transaction {
        let (from, to) = (user_keys(0), address(&user_keys(1)));
        let amount = Amount::whole(5_000_000_000 + self.random.below(1_000) as u64);
        transfer(&from, to, amount, Amount::whole(30), self.now)
    }
}

/// An answer of a byzantine peer, and its delay.
pub struct ByzantineAnswer {
    pub after: Duration,
    pub result: Result<(u16, Vec<u8>), FetchError>,
    /// The lie, if this answer completes it.
    pub fault: Option<Fault>,
}

/// A byzantine peer.
pub struct ByzantinePeer {
    number: usize,
    plan: ByzantinePlan,
    keys: Vec<KeyPair>,
    /// The lie planned for the present chain comparison, by requesting member.
    planned_lies: BTreeMap<usize, Fault>,
    /// The chain that it has invented in the present comparison, by requesting member.
    invented: BTreeMap<usize, Vec<Block>>,
    /// Members to which it has not proved its identity during a comparison.
    unproven: BTreeSet<usize>,
}

/// An answer with a signature, which may be invalid.
struct Signed<T> {
    entity: T,
    signature: Vec<u8>,
}

impl<T: Writable> Writable for Signed<T> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("entity", |sink| self.entity.write(sink));
        sink.bytes("signature", Some(&self.signature));
    }
}

/// A request as a byzantine peer parses it.
#[derive(Clone)]
struct ParsedRequest {
    format: Format,
    path: String,
    challenge: Option<Challenge>,
    height: Height,
}

impl ParsedRequest {
    fn of(request: &FetchRequest, context: Context) -> ParsedRequest {
        let format = if request.media_type.ends_with("json") { Format::Json } else { Format::Binary };
        let (path, body) = (request.target.clone(), &request.body);
        let (challenge, height) = match path.as_str() {
            "/chain/hashes-from" | "/block/at" => {
                let read = format.read::<AuthenticatedRequest<Height>>(body, context).expect("a request");
                (Some(read.challenge), read.entity)
            }
            "/chain/blocks-after" => {
                let read = format.read::<AuthenticatedRequest<ChainRequest>>(body, context).expect("a request");
                (Some(read.challenge), read.entity.after)
            }
            "/transactions/unconfirmed" => {
                let read = format.read::<AuthenticatedRequest<ShortIds>>(body, context).expect("a request");
                (Some(read.challenge), Height(1))
            }
            _ => (format.read(body, context).ok(), Height(1)),
        };
        ParsedRequest { format, path, challenge, height }
    }
}

impl ByzantinePeer {
    pub fn new(number: usize, plan: ByzantinePlan, identities: usize) -> ByzantinePeer {
        // A relay gets every challenge signed by the honest node it impersonates, as if it had that node's key.
        let key = |identity| {
            if plan.is_relay { KeyPair::new(&member_key(identity)) } else { byzantine_keys(number, identity) }
        };
        let keys = (0..identities).map(key).collect();
        let (planned_lies, invented, unproven) = Default::default();
        ByzantinePeer { number, plan, keys, planned_lies, invented, unproven }
    }

    pub fn keys(&self, identity: usize) -> &KeyPair {
        &self.keys[identity]
    }

    pub fn identities(&self) -> usize {
        self.keys.len()
    }

    /// Returns the node information it presents.
    pub fn info(&self, identity: usize) -> NodeInfo {
        let name =
            if self.plan.is_relay { member_name(identity) } else { format!("byzantine {} {identity}", self.number) };
        node_info(self.keys[identity].public(), name, self.plan.ip, PORT + identity as u16)
    }

    pub fn is_relay(&self) -> bool {
        self.plan.is_relay
    }

    /// Returns whether it has left the network.
    pub fn is_gone(&self, now: Duration) -> bool {
        self.plan.leaves_at.is_some_and(|at| now >= at)
    }

    fn is_eager(&self, random: &mut Random) -> bool {
        random.below(100) < self.plan.eagerness
    }

    /// Chooses the lie for a request; `None` for a true answer.
    fn choose(&mut self, requester: usize, path: &str, context: &mut LieContext<'_>) -> Option<Fault> {
        if path == "/chain/score" {
            self.planned_lies.remove(&requester);
            self.invented.remove(&requester);
            let height = context.tip().height.0;
            let limit = context.environment.network.chain.rewrite_limit;
            let can = |fault: &Fault| match fault {
                Fault::TooFarBehind => height > limit + 2,
                Fault::ForgedBlockAt | Fault::InferiorBlocks => height > 2,
                other => OF_COMPARISON.contains(other) || OF_STALLS.contains(other),
            };
            let could: Vec<_> = self.plan.faults.iter().copied().filter(can).collect();
            if !could.is_empty() && self.is_eager(context.random) {
                self.planned_lies.insert(requester, could[context.random.below(could.len())]);
            }
        }
        if SYNCHRONISATION[..5].contains(&path)
            && let Some(planned_lie) = self.planned_lies.get(&requester)
        {
            return Some(*planned_lie);
        }
        let fits = |fault: &Fault| OF_ANSWERS.contains(fault) || request_path(*fault) == Some(path);
        let could: Vec<_> = self.plan.faults.iter().copied().filter(fits).collect();
        (!could.is_empty() && self.is_eager(context.random)).then(|| could[context.random.below(could.len())])
    }

    /// Answers a member under one of its identities.
    pub fn answer(
        &mut self,
        requester: usize,
        identity: usize,
        request: &FetchRequest,
        context: &mut LieContext<'_>,
    ) -> ByzantineAnswer {
        let question = ParsedRequest::of(request, context.environment.context());
        let fault = self.choose(requester, &question.path, context);
        self.check_trust(requester, &question.path, fault);
        if fault == Some(Fault::FarAheadChained) {
            self.invent(requester, &question, context);
        }
        let of_answer = fault.filter(|fault| OF_ANSWERS.contains(fault));
        let format = match (of_answer, question.format) {
            (Some(Fault::OtherFormat), Format::Binary) => Format::Json,
            (Some(Fault::OtherFormat), Format::Json) => Format::Binary,
            (_, format) => format,
        };
        let body = match question.path.as_str() {
            "/node/cysm" => observed_address(fault, format, &request.body, requester, context),
            _ => self.body(requester, identity, &ParsedRequest { format, ..question.clone() }, fault, context),
        };
        let is_for_blocks = question.path == "/chain/blocks-after";
        let disturbance = match fault {
            Some(Fault::FarAheadSilence) if is_for_blocks => Some(Fault::Silence),
            Some(Fault::FarAheadDrip) if is_for_blocks => Some(Fault::EndlessDrip),
            Some(Fault::FarAheadClosed) if is_for_blocks => Some(Fault::Closed),
            Some(Fault::FarAheadSlow) => Some(Fault::SlowAnswer),
            _ => of_answer,
        };
        let (after, result) = corrupted(disturbance, body, request, context.random);
        ByzantineAnswer { after, result, fault: fault.filter(|fault| completes_lie(*fault, &question.path)) }
    }

    /// Extends the chain that it invents after the requester's tip, as far as an answer needs it.
    fn invent(&mut self, requester: usize, question: &ParsedRequest, context: &LieContext<'_>) {
        if !["/chain/hashes-from", "/chain/blocks-after"].contains(&question.path.as_str()) {
            return;
        }
        let last = question.height.0 + context.environment.network.chain.max_blocks_per_sync();
        let invented = self.invented.entry(requester).or_default();
        loop {
            let tip = context.tip();
            let (height, hash, time) = match invented.last() {
                Some(last) => (last.height, last.hash(), last.timestamp),
                None => (tip.height, tip.hash, tip.timestamp),
            };
            if height.0 >= last {
                return;
            }
            invented.push(block(&unfunded_keys(), height.0 + 1, Timestamp(time.0 + 1), hash, Vec::new()));
        }
    }

    /// Returns the blocks that it has invented for a member from a height on.
    fn invented_from(&self, requester: usize, height: Height) -> impl Iterator<Item = &Block> {
        let all = self.invented.get(&requester).into_iter().flatten();
        all.filter(move |block| block.height >= height)
    }

    /// Checks that a member does not continue a comparison with a node that has not proved its identity.
    fn check_trust(&mut self, requester: usize, path: &str, fault: Option<Fault>) {
        if !SYNCHRONISATION.contains(&path) {
            return;
        }
        let was_unproven = self.unproven.remove(&requester);
        assert!(!was_unproven || path == "/chain/score", "member {requester} trusts the proof of another");
        if matches!(fault, Some(Fault::OtherChallengeSigned | Fault::OtherKey | Fault::ShortSignature)) {
            self.unproven.insert(requester);
        }
    }

    /// Returns the signed content in the format of the question; nothing if the path has none.
    fn body(
        &self,
        requester: usize,
        identity: usize,
        question: &ParsedRequest,
        fault: Option<Fault>,
        context: &mut LieContext<'_>,
    ) -> Vec<u8> {
        let signature = self.signature(identity, question, fault);
        fn signed<T: Writable>(format: Format, signature: Vec<u8>, entity: T) -> Vec<u8> {
            format.to_bytes(&Signed { entity, signature })
        }
        let (format, height) = (question.format, question.height);
        match question.path.as_str() {
            "/node/info" => signed(format, signature, self.introduction(identity, fault, context)),
            "/node/peer-list/active" => signed(format, signature, self.peers(fault, context)),
            "/node/experiences" => signed(format, signature, self.experiences(requester, fault, context)),
            "/time-sync/network-time" => {
                let off = match fault {
                    Some(Fault::WrongTime) => 40_000_000,
                    // Within the initial tolerance.
                    Some(Fault::RelayedTime) => 3_600_000,
                    _ => 0,
                };
                let millis = i64::from(context.now.0) * 1000 + off;
                signed(format, signature, CommunicationTimeStamps { send: millis, receive: millis })
            }
            "/chain/height" => match fault {
                Some(Fault::HugeHeight | Fault::RelayedHeight) => signed(format, signature, Height(1 << 62)),
                _ => signed(format, signature, context.tip().height),
            },
            "/chain/score" => signed(format, signature, self.score(fault, context)),
            "/chain/last-block" => signed(format, signature, self.last_block(fault, context)),
            "/chain/hashes-from" => signed(format, signature, self.hashes(requester, height, fault, context)),
            "/block/at" => signed(format, signature, self.block_at(height, fault, context)),
            "/chain/blocks-after" => signed(format, signature, List(self.blocks(requester, height, fault, context))),
            "/transactions/unconfirmed" => signed(format, signature, List(unconfirmed(fault, context))),
            _ => Vec::new(),
        }
    }

    fn signature(&self, identity: usize, question: &ParsedRequest, fault: Option<Fault>) -> Vec<u8> {
        let Some(challenge) = &question.challenge else { return Vec::new() };
        let signature = match fault {
            Some(Fault::OtherChallengeSigned) => Challenge([7; 64]).sign(&self.keys[identity]),
            Some(Fault::OtherKey) => challenge.sign(&user_keys(0)),
            _ => challenge.sign(&self.keys[identity]),
        };
        let length = if fault == Some(Fault::ShortSignature) { 63 } else { 64 };
        signature.0[..length].to_vec()
    }

    fn introduction(&self, identity: usize, fault: Option<Fault>, context: &mut LieContext<'_>) -> NodeInfo {
        let mut info = self.info(identity);
        match fault {
            Some(Fault::OtherIdentity) => info.identity = context.members[0].identity.clone(),
            Some(Fault::OtherNetwork) => info.meta_data.network_id = 104,
            Some(Fault::RelayedPlace) => {
                let places = [("203.0.113.9", PORT), ("203.0.113.9", 1), ("localhost", PORT)];
                let (host, port) = places[context.random.below(places.len())];
                info.endpoint = Endpoint::http(host, port);
            }
            _ => {}
        }
        info
    }

    fn peers(&self, fault: Option<Fault>, context: &mut LieContext<'_>) -> NodeList {
        let members = || context.members.iter().cloned();
        NodeList(match fault {
            Some(Fault::InventedPeers) => (0..30).map(|place| self.invented(place, context.random)).collect(),
            Some(Fault::LongPeerList) => (0..1_200).map(|place| self.invented(place, context.random)).collect(),
            // Honest nodes, each at the address where the relay impersonates it.
            Some(Fault::RelayedPeers) => (0..self.identities()).map(|identity| self.info(identity)).collect(),
            // Honest nodes at addresses where nobody is, or where the byzantine peer is.
            Some(Fault::MisplacedPeers) => {
                let here = Endpoint::http(self.plan.ip.to_string(), PORT);
                let nowhere = Endpoint::http("203.0.113.9", PORT);
                [here, nowhere].iter().flat_map(|place| members().map(|node| at(node, place))).collect()
            }
            _ => members().collect(),
        })
    }

    fn invented(&self, place: usize, random: &mut Random) -> NodeInfo {
        let key = key_pair(10_000 + place as u64 % 40).public();
        let host = format!("198.51.{}.{}", random.below(256), random.below(256));
        at(
            NodeInfo { identity: Identity { key, name: Some("nobody".to_owned()) }, ..self.info(0) },
            &Endpoint::http(host, PORT),
        )
    }

    fn experiences(&self, requester: usize, fault: Option<Fault>, context: &mut LieContext<'_>) -> NodeExperiences {
        let node = match fault {
            Some(Fault::ExperiencesOfAnother) => context.members[requester].clone(),
            _ => self.info(0),
        };
        let count = if fault == Some(Fault::TooManyExperiences) { 150 } else { context.members.len() };
        let bad = Experience::new(0, 1 << 40);
        let pair = |place: usize| ExperiencePair {
            node: context.members[place % context.members.len()].clone(),
            experience: bad,
        };
        NodeExperiences { node, experiences: (0..count).map(pair).collect() }
    }

    fn score(&self, fault: Option<Fault>, context: &mut LieContext<'_>) -> Score {
        let own = context.tip().score;
        match fault {
            Some(Fault::LowScore) => Score(0),
            Some(fault) if OF_COMPARISON.contains(&fault) || OF_STALLS.contains(&fault) => {
                Score(own + CLAIMED_SCORE_LEAD)
            }
            _ => Score(own),
        }
    }

    fn last_block(&self, fault: Option<Fault>, context: &mut LieContext<'_>) -> Block {
        let own = context.tip();
        let limit = context.environment.network.chain.rewrite_limit;
        let height = match fault {
            Some(Fault::TooFarBehind) => own.height.0 - limit - 1,
            Some(fault) if OF_STALLS.contains(&fault) => own.height.0 + CLAIMED_LEAD,
            _ => own.height.0 + 1,
        };
        match fault {
            Some(fault) if OF_COMPARISON.contains(&fault) || OF_STALLS.contains(&fault) => {
                let parent = context.hash();
                let mut block = block(&self.keys[0], height, context.now, parent, Vec::new());
                if fault == Fault::ForgedLastBlock {
                    block.signature = Some(Signature([1; 64]));
                }
                block
            }
            _ => context.block(own.height.0).expect("the last block"),
        }
    }

    fn block_at(&self, height: Height, fault: Option<Fault>, context: &mut LieContext<'_>) -> Block {
        let own = context.block(height.0);
        match fault {
            Some(Fault::InferiorBlocks) => own.expect("a block that is replaced"),
            _ => {
                let parent = context.hash();
                let block = block(&self.keys[0], height.0, context.now, parent, Vec::new());
                Block { signature: Some(Signature([2; 64])), ..block }
            }
        }
    }

    fn hashes(&self, requester: usize, from: Height, fault: Option<Fault>, context: &mut LieContext<'_>) -> HashChain {
        let Some(first) = self.invented_from(requester, Height(1)).next() else {
            return hashes(from, fault, context);
        };
        let most = context.environment.network.chain.max_blocks_per_sync() as usize;
        let own = context.hashes(context.store, from, first.height.0.saturating_sub(from.0));
        let invented = self.invented_from(requester, from).map(Block::hash);
        HashChain(own.into_iter().chain(invented).take(most).collect())
    }

    fn blocks(
        &self,
        requester: usize,
        common: Height,
        fault: Option<Fault>,
        context: &mut LieContext<'_>,
    ) -> Vec<Block> {
        let most = context.environment.network.chain.max_blocks_per_sync();
        // Within a download a node asks for blocks after those that it does not have.
        let parent = match context.block(common.0) {
            Some(block) => block.hash(),
            None => context.hash(),
        };
        let key = &self.keys[0];
        let child = |time: Timestamp, transactions| block(key, common.0 + 1, time, parent, transactions);
        match fault {
            Some(Fault::FarAheadChained) => {
                self.invented_from(requester, common.next()).take(most as usize).cloned().collect()
            }
            Some(fault @ (Fault::FarAheadTrueAtFirst | Fault::FarAheadLastFails)) => {
                let after = common.0 + 1..common.0 + most;
                let mut blocks: Vec<_> = after.map_while(|height| context.block_of(context.best, height)).collect();
                if fault == Fault::FarAheadLastFails {
                    let (height, parent) =
                        blocks.last().map_or((common.0, parent), |last| (last.height.0, last.hash()));
                    blocks.push(block(&unfunded_keys(), height + 1, context.now, parent, Vec::new()));
                }
                blocks
            }
            Some(Fault::ForgedBlock | Fault::FarAheadForged) => {
                let block = child(context.now, Vec::new());
                vec![Block { signer: context.members[0].identity.key, ..block }]
            }
            Some(Fault::UnentitledBlock | Fault::FarAheadUnentitled | Fault::FarAheadSlow) => {
                vec![block(&unfunded_keys(), common.0 + 1, context.now, parent, Vec::new())]
            }
            Some(Fault::OverspendingBlock) => vec![child(context.now, vec![context.overspending()])],
            Some(Fault::FutureBlock | Fault::FarAheadFuture) => {
                vec![child(Timestamp(context.now.0 + 3_600), Vec::new())]
            }
            Some(Fault::GapInBlocks) => {
                let first = child(context.now, Vec::new());
                let third = block(key, common.0 + 3, Timestamp(context.now.0 + 1), context.hash(), Vec::new());
                vec![first, third]
            }
            Some(Fault::TooManyBlocks) => {
                let first = child(context.now, Vec::new());
                let at = |place| Block { height: Height(common.0 + 1 + place), ..first.clone() };
                (0..most + 4).map(at).collect()
            }
            Some(Fault::InferiorBlocks) => context.block(common.0 + 1).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

/// Returns the request that a lie answers.
fn request_path(fault: Fault) -> Option<&'static str> {
    Some(match fault {
        Fault::OtherIdentity | Fault::OtherNetwork | Fault::RelayedPlace => "/node/info",
        Fault::InventedPeers | Fault::MisplacedPeers | Fault::LongPeerList | Fault::RelayedPeers => {
            "/node/peer-list/active"
        }
        Fault::TooManyExperiences | Fault::ExperiencesOfAnother => "/node/experiences",
        Fault::WrongTime | Fault::RelayedTime => "/time-sync/network-time",
        Fault::HugeHeight | Fault::RelayedHeight => "/chain/height",
        Fault::WrongAddress => "/node/cysm",
        Fault::BadUnconfirmed | Fault::ManyUnconfirmed => "/transactions/unconfirmed",
        _ => return None,
    })
}

/// Returns whether the answer to a request completes a lie.
fn completes_lie(fault: Fault, path: &str) -> bool {
    match fault {
        Fault::LowScore => path == "/chain/score",
        Fault::ForgedLastBlock | Fault::TooFarBehind => path == "/chain/last-block",
        Fault::LiedAboutScore | Fault::TooManyHashes | Fault::NoHashes | Fault::OtherHashes => {
            path == "/chain/hashes-from"
        }
        Fault::ForgedBlockAt => path == "/block/at",
        other if OF_COMPARISON.contains(&other) || OF_STALLS.contains(&other) => path == "/chain/blocks-after",
        _ => true,
    }
}

fn at(node: NodeInfo, place: &Endpoint) -> NodeInfo {
    NodeInfo { endpoint: place.clone(), ..node }
}

fn hashes(from: Height, fault: Option<Fault>, context: &mut LieContext<'_>) -> HashChain {
    let most = context.environment.network.chain.max_blocks_per_sync();
    let is_true_at_first = matches!(fault, Some(Fault::FarAheadTrueAtFirst | Fault::FarAheadLastFails));
    let mut hashes = context.hashes(if is_true_at_first { context.best } else { context.store }, from, most);
    match fault {
        None | Some(Fault::LiedAboutScore) => {}
        Some(Fault::NoHashes) => hashes.clear(),
        Some(Fault::OtherHashes) => hashes.iter_mut().for_each(|hash| hash.0[0] ^= 1),
        Some(Fault::TooManyHashes) => {
            let more = (most as usize + 1).saturating_sub(hashes.len());
            hashes.extend((0..more).map(|_| context.hash()));
        }
        Some(Fault::ForgedBlockAt | Fault::InferiorBlocks) => {
            hashes.pop();
            hashes.extend([context.hash(), context.hash()]);
        }
        Some(fault) if OF_COMPARISON.contains(&fault) => hashes.push(context.hash()),
        Some(fault) if OF_STALLS.contains(&fault) => {
            let missing = (most as usize).saturating_sub(hashes.len());
            hashes.extend((0..missing).map(|_| context.hash()));
        }
        Some(_) => {}
    }
    HashChain(hashes)
}

fn unconfirmed(fault: Option<Fault>, context: &mut LieContext<'_>) -> Vec<Transaction> {
    match fault {
        Some(Fault::BadUnconfirmed) => {
            let good = context.sent.last().cloned();
            let forged = good.map(|good| Transaction { signature: Some(Signature([3; 64])), ..good });
            forged.into_iter().chain([context.overspending()]).collect()
        }
        Some(Fault::ManyUnconfirmed) => {
            let one = context.overspending();
            let other = |place| Transaction { fee: Amount(one.fee.0 + place), ..one.clone() };
            (0..300).map(other).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the address under which it claims to see the requesting node.
fn observed_address(
    fault: Option<Fault>,
    format: Format,
    body: &[u8],
    requester: usize,
    context: &mut LieContext<'_>,
) -> Vec<u8> {
    let Ok(endpoint) = format.read::<Endpoint>(body, context.environment.context()) else { return Vec::new() };
    let host = match fault {
        Some(Fault::WrongAddress) => "203.0.113.77".to_owned(),
        _ => context.members[requester].endpoint.host.clone(),
    };
    format.to_bytes(&Endpoint { host, ..endpoint })
}

/// Corrupts or delays an answer.
fn corrupted(
    fault: Option<Fault>,
    mut body: Vec<u8>,
    request: &FetchRequest,
    random: &mut Random,
) -> (Duration, Result<(u16, Vec<u8>), FetchError>) {
    let broken = || FetchError::Broken(std::io::ErrorKind::ConnectionReset.into());
    let (mut after, mut status) = (Duration::ZERO, 200);
    match fault {
        Some(Fault::CutShort) => body.truncate(body.len() / 2),
        Some(Fault::Garbage) => body = (0..200).map(|_| random.next() as u8).collect(),
        // The length of the entity comes first, followed, for a list, by the number of elements.
        Some(Fault::HugeCount) => {
            body.iter_mut().skip(4).take(4).zip(i32::MAX.to_le_bytes()).for_each(|(old, new)| *old = new);
        }
        Some(Fault::EmptyBody) => body.clear(),
        Some(Fault::Surplus) => body.extend([b'x'; 100]),
        Some(Fault::Status204) => status = 204,
        Some(Fault::Status302) => status = 302,
        Some(Fault::Status404) => status = 404,
        Some(Fault::Status429) => status = 429,
        Some(Fault::Status500) => status = 500,
        Some(Fault::Status503) => status = 503,
        Some(Fault::SlowAnswer) => after = SLOW_DELAY,
        Some(Fault::Silence) => return (SILENT_DELAY, Err(FetchError::Silent(SILENT_DELAY))),
        Some(Fault::EndlessDrip) => return drip(request),
        Some(Fault::Closed) => return (after, Err(broken())),
        Some(Fault::Oversized) => return (after, Err(FetchError::TooLarge)),
        _ => {}
    }
    (after, Ok((status, body)))
}

/// Returns an answer that arrives as slowly as allowed, until the size limit or the time limit.
fn drip(request: &FetchRequest) -> (Duration, Result<(u16, Vec<u8>), FetchError>) {
    let FetchLimits { min_rate_bytes: least_bytes, min_rate_window: least_time, .. } = FetchLimits::default();
    let longest = least_time * (1 + request.body_limit / least_bytes) as u32;
    if longest < request.timeout {
        (longest, Err(FetchError::TooSlow(least_time)))
    } else {
        (request.timeout, Err(FetchError::TimedOut(request.timeout)))
    }
}
