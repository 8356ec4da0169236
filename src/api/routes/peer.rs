//! Routes for other nodes. What they ask for is answered with a signature of their challenge, so that they know who
//! answers; others who ask are not refused.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::api::budget::cost;
use crate::api::call::{Call, Readable};
use crate::api::failure::Failure;
use crate::api::long::{BlockWriter, ChainPartWriter, HashList, PartLimits, UnconfirmedList};
use crate::api::views::{Endpoint, Experiences, NetworkTime, NoData, Score, Signed, View};
use crate::codec::{ReadError, Source, limits};
use crate::crypto::{PublicKey, Signature};
use crate::model::Height;
use crate::model::network::ChainParameters;
use crate::pool::ShortId;

/// Blocks that are sent beyond as many as may be rolled back.
const BEYOND_REWRITE_LIMIT: u64 = 40;
/// Blocks that every node wants at least.
const LEAST_BLOCKS: u64 = 10;
/// Blocks that are looked at besides those that are wanted.
const SPARE_BLOCKS: u64 = 100;

/// What the caller wants signed.
struct Challenge(Vec<u8>);

impl Readable for Challenge {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        Ok(Challenge(source.need_bytes("data")?.into_owned()))
    }
}

/// What the caller asks for, and what it wants signed.
struct Asked<T>(T, Challenge);

impl<T: Readable> Readable for Asked<T> {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let entity = source.need_object("entity", T::read)?;
        Ok(Asked(entity, source.need_object("challenge", Challenge::read)?))
    }
}

/// What another node knows of the pool.
struct KnownIds(BTreeSet<ShortId>);

impl Readable for KnownIds {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let ids = source.need_list("hashShortIds", |source| source.need_i64("hashShortId"))?;
        Ok(KnownIds(ids.into_iter().collect()))
    }
}

/// How much of the chain another node wants.
struct PartRequest {
    after: Height,
    blocks: Option<i32>,
    transactions: Option<i32>,
}

impl Readable for PartRequest {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        Ok(PartRequest {
            after: source.height("height")?,
            blocks: source.i32("minBlocks")?,
            transactions: source.i32("maxTransactions")?,
        })
    }
}

impl PartRequest {
    /// What it gets, by the parameters of the chain.
    fn limits(&self, chain: &ChainParameters) -> PartLimits {
        let (most, least) = (u64::from(chain.max_transactions), u64::from(chain.max_transactions_per_block));
        let blocks = most_at_once(chain);
        // A negative number is as good as none at all.
        let wanted = |number: i32| u64::try_from(number).unwrap_or(0);
        let least_blocks = self.blocks.map_or(blocks / 4, |number| wanted(number).max(LEAST_BLOCKS).min(blocks));
        let transactions = self.transactions.map_or(most / 2, |number| wanted(number).max(least).min(most));
        PartLimits { first_query: (least_blocks + SPARE_BLOCKS).min(blocks), blocks, transactions }
    }
}

/// Blocks, or hashes of blocks, that another node gets at a time.
fn most_at_once(chain: &ChainParameters) -> u64 {
    chain.rewrite_limit + BEYOND_REWRITE_LIMIT
}

/// Who another node says that it is.
pub struct OtherIdentity(pub PublicKey);

impl Readable for OtherIdentity {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let key = source.public_key("public-key")?;
        source.string("name", limits::TEXT_UNITS)?;
        Ok(OtherIdentity(key))
    }
}

/// What another node says of itself.
struct OtherNode {
    endpoint: Endpoint,
    version: String,
    network: i32,
}

impl Readable for OtherNode {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        source.need_object("identity", OtherIdentity::read)?;
        let endpoint = source.need_object("endpoint", Endpoint::read)?;
        let about = source.object("metaData", |source| {
            let version = source.need_string("version", limits::TEXT_UNITS)?.into_owned();
            source.string("platform", limits::TEXT_UNITS)?;
            source.string("application", limits::TEXT_UNITS)?;
            source.i32("features")?;
            Ok((version, source.i32("networkId")?.unwrap_or(0)))
        })?;
        let (version, network) = about.unwrap_or_default();
        Ok(OtherNode { endpoint, version, network })
    }
}

impl OtherNode {
    /// Whether it may be a node of the same network that is reached where it says.
    fn may_be_known(&self, call: &Call<'_>) -> bool {
        // Of another network, or of a version that does not go with ours; one that is not told goes with all.
        let is_compatible = self.network == i32::from(call.view.network.byte.0 as i8)
            && ["0.6.", "0.7.", "0.0.0"].iter().any(|version| self.version.starts_with(version));
        is_compatible && self.endpoint.host.parse() == Ok(call.caller.address)
    }
}

/// A node with what it has experienced.
struct NodeAndExperiences(OtherNode);

impl Readable for NodeAndExperiences {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let node = source.need_object("node", OtherNode::read)?;
        // Nobody looks at them.
        source.need_list("experiences", |_| Ok(()))?;
        Ok(NodeAndExperiences(node))
    }
}

/// Signs what the caller has challenged the node with, which only one that has joined its network does.
fn sign(call: &mut Call<'_>, Challenge(challenge): &Challenge) -> Result<Signature, Failure> {
    call.need_network()?;
    call.budget.spend(cost::SIGNATURE);
    Ok(call.actions.sign_challenge(challenge))
}

/// Answers a challenge.
fn send_signed(call: &mut Call<'_>, view: &impl View) -> Result<(), Failure> {
    let challenge = call.body()?;
    let signature = sign(call, &challenge)?;
    call.send(&Signed(view, signature))
}

/// `POST /chain/height`
pub fn height(call: &mut Call<'_>) -> Result<(), Failure> {
    let height = call.view.height;
    send_signed(call, &height)
}

/// `POST /chain/score`
pub fn score(call: &mut Call<'_>) -> Result<(), Failure> {
    let score = call.view.score()?;
    send_signed(call, &Score(score))
}

/// `POST /chain/last-block`
pub fn last_block(call: &mut Call<'_>) -> Result<(), Failure> {
    let challenge = call.body()?;
    let signature = sign(call, &challenge)?;
    call.send_long(BlockWriter::new(call.view.height).signed(signature))
}

/// `POST /block/at`
pub fn block_at(call: &mut Call<'_>) -> Result<(), Failure> {
    let Asked(height, challenge) = call.body::<Asked<Height>>()?;
    let signature = sign(call, &challenge)?;
    if !call.view.has_block(height) {
        return Err(Failure::no_block(height));
    }
    call.send_long(BlockWriter::new(height).signed(signature))
}

/// `POST /node/info`
pub fn info(call: &mut Call<'_>) -> Result<(), Failure> {
    let node = call.actions.node().clone();
    send_signed(call, &node)
}

/// `POST /node/peer-list/active`: there are none yet.
pub fn active_nodes(call: &mut Call<'_>) -> Result<(), Failure> {
    send_signed(call, &NoData)
}

/// `POST /node/experiences`: there are none yet.
pub fn experiences(call: &mut Call<'_>) -> Result<(), Failure> {
    let node = call.actions.node().clone();
    send_signed(call, &Experiences(&node))
}

/// `POST /time-sync/network-time`
pub fn network_time(call: &mut Call<'_>) -> Result<(), Failure> {
    let millis = call.now.network_millis;
    send_signed(call, &NetworkTime { millis })
}

/// `POST /node/cysm`: tells the caller the address that it comes from.
pub fn can_you_see_me(call: &mut Call<'_>) -> Result<(), Failure> {
    let endpoint: Endpoint = call.body()?;
    call.send(&Endpoint { host: shown_address(call.caller.address), ..endpoint })
}

/// An address as NIS1 writes it: one of IPv6 in brackets, with all its parts.
fn shown_address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{}]", address.segments().map(|part| format!("{part:x}")).join(":")),
    }
}

/// `POST /chain/hashes-from`
pub fn hashes_from(call: &mut Call<'_>) -> Result<(), Failure> {
    let Asked(first, challenge) = call.body::<Asked<Height>>()?;
    let signature = sign(call, &challenge)?;
    let last = first.plus(most_at_once(&call.view.network.chain) - 1).min(call.view.height);
    call.send_long(HashList::new(first, last, signature))
}

/// `POST /chain/blocks-after`
pub fn blocks_after(call: &mut Call<'_>) -> Result<(), Failure> {
    let Asked(request, challenge) = call.body::<Asked<PartRequest>>()?;
    let signature = sign(call, &challenge)?;
    let limits = request.limits(&call.view.network.chain);
    call.send_long(ChainPartWriter::new(request.after, limits, signature))
}

/// `POST /transactions/unconfirmed`
pub fn unconfirmed(call: &mut Call<'_>) -> Result<(), Failure> {
    let Asked(KnownIds(known), challenge) = call.body::<Asked<KnownIds>>()?;
    let signature = sign(call, &challenge)?;
    let transactions = call.actions.unknown_to(&known);
    call.budget.spend(cost::passed(transactions.len()));
    call.send_long(UnconfirmedList::new(transactions).signed(signature))
}

/// `POST /node/sign-of-life`
pub fn sign_of_life(call: &mut Call<'_>) -> Result<(), Failure> {
    let node: OtherNode = call.body()?;
    meet(call, &node)
}

/// `POST /node/ping`
pub fn ping(call: &mut Call<'_>) -> Result<(), Failure> {
    let NodeAndExperiences(node) = call.body()?;
    meet(call, &node)
}

/// Takes note of another node. One that may be what it says would have to be asked, which this node does not do yet: it
/// is answered as if it had not been reached.
fn meet(call: &mut Call<'_>, node: &OtherNode) -> Result<(), Failure> {
    call.need_network()?;
    match node.may_be_known(call) {
        true => Err(Failure::internal("other nodes are not reached yet")),
        false => Ok(()),
    }
}
